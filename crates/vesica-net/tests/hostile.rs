//! A peer with the right certificate and the wrong manners: each breach is an error that names it, and the peer is told.
//! Nothing panics, hangs or grows.

use crate::common;

use common::*;
use std::time::{Duration, Instant};
use vesica_session::{Error, Fault};

const OPEN: u8 = 1;
const BEGIN: u8 = 2;
const MORE: u8 = 3;
const CREDIT: u8 = 4;
const END: u8 = 5;
const PING: u8 = 6;
const STOP: u8 = 7;
const GOODBYE: u8 = 8;

/// Full credit of a line whose window is 64 KiB.
const WINDOW: u32 = 64 << 10;
const FULL: u32 = WINDOW + 64 + WINDOW / 4;

fn open(line: u32, name: &str) -> Vec<u8> {
    frame(line, OPEN, name.len(), name.as_bytes())
}

fn begin(line: u32, total: u32, body: &[u8]) -> Vec<u8> {
    let mut all = total.to_le_bytes().to_vec();
    all.extend(body);
    frame(line, BEGIN, all.len(), &all)
}

fn pair() -> (Link, Raw) {
    raw_pair(|endpoint| endpoint.window = WINDOW)
}

/// Alice waits on line x, the peer opens it as its line 5 and says `words`: what alice makes of it, and what she answers.
fn breach(words: &[Vec<u8>], want: &str) {
    let (alice, mut bob) = pair();
    let mut line = alice.line("x").unwrap();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || {
            loop {
                match line.recv(WINDOW as usize) {
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
        });
        bob.say(&open(5, "x"));
        for words in words {
            if !bob.try_say(words) {
                break;
            }
        }
        let began = Instant::now();
        let error = blocked.join().unwrap();
        assert!(began.elapsed() < Duration::from_secs(8), "{want}: {:?}", began.elapsed());
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert_eq!(error.to_string(), format!("bob broke the protocol: {want}"));
        assert_eq!(bob.stop(), format!("bob broke the protocol: {want}"));
        assert_eq!(alice.line("z").err(), Some(error));
    });
}

#[test]
fn frames_that_make_no_sense() {
    breach(&[vec![0xff; 8]], "it sent a frame of an unknown kind");
    breach(&[frame(0, 0, 0, b"")], "it sent a frame of an unknown kind");
    breach(&[frame(5, END, 3, b"abc")], "a message of 3 bytes where at most 0 are allowed");
    breach(&[frame(5, CREDIT, 2, b"ab")], "it sent a frame too short for its kind");
    breach(&[frame(0, PING, 100, &[0; 100])], "a message of 100 bytes where at most 48 are allowed");
    breach(&[frame(0, STOP, 2, b"\x09x")], "a reason of a stop that cannot be understood");
    breach(&[frame(0, STOP, 0, b"")], "it sent a frame too short for its kind");
    // Only the head: the length is refused before anything of the body comes.
    breach(&[frame(5, MORE, 0xff_ffff, b"")], "a message of 16777215 bytes where at most 65536 are allowed");
    breach(&[frame(5, STOP, 0xff_ffff, b"")], "a message of 16777215 bytes where at most 801 are allowed");
}

#[test]
fn messages_that_lie_about_their_length() {
    breach(&[begin(5, WINDOW + 1, b"")], "a message of 65537 bytes where at most 65536 are allowed");
    breach(&[begin(5, u32::MAX, b"")], "a message of 4294967295 bytes where at most 65536 are allowed");
    breach(&[begin(5, 3, b"four")], "it sent more of a message than it had announced");
    breach(&[begin(5, 4, b"abc"), frame(5, MORE, 2, b"de")], "it sent more of a message than it had announced");
    breach(&[begin(5, 4, b"abc"), begin(5, 4, b"")], "it began a message within another");
    breach(&[frame(5, MORE, 1, b"a")], "it continued a message that it never began");
    breach(&[begin(5, 4, b"abc"), frame(5, END, 0, b"")], "it ended a line within a message");
}

#[test]
fn lines_that_are_not_there() {
    breach(&[message(6, b"abc")], "it sent a frame for a line that is not open");
    breach(&[frame(6, END, 0, b"")], "it sent a frame for a line that is not open");
    breach(&[frame(77, CREDIT, 4, &[1, 0, 0, 0])], "it sent a frame for a line that is not open");
    breach(&[open(6, "x")], "it opened a line twice");
    breach(&[open(5, "y")], "it gave the same number to two lines");
    breach(&[open(6, "y\n")], "a name of a line that cannot be understood");
    breach(&[frame(6, OPEN, 2, b"\xff\xff")], "a name of a line that cannot be understood");
    breach(&[frame(6, OPEN, 65, &[b'a'; 65])], "a message of 65 bytes where at most 64 are allowed");
    // A frame that comes a second time.
    let end = [frame(5, END, 0, b""), frame(5, END, 0, b"")];
    let (alice, mut bob) = pair();
    bob.say(&open(5, "x"));
    end.iter().for_each(|words| bob.say(words));
    assert!(bob.stop().contains("it sent a frame for a line that is not open"));
    assert!(alice.ended().is_some());
}

#[test]
fn lines_without_end() {
    let (alice, mut bob) = pair();
    for i in 0..10_000u32 {
        if !bob.try_say(&open(i, &format!("line {i}"))) {
            break;
        }
    }
    assert_eq!(bob.stop(), "bob broke the protocol: more data than it had leave to send");
    assert_eq!(alice.ended().unwrap().to_string(), "bob broke the protocol: more data than it had leave to send");

    // Opened and closed, over and over, they count as long as this side has not seen to them.
    let (alice, mut bob) = pair();
    for i in 0..10_000u32 {
        if !bob.try_say(&open(i, &format!("line {i}"))) || !bob.try_say(&frame(i, END, 0, b"")) {
            break;
        }
    }
    assert!(bob.stop().contains("more data than it had leave to send"));
    assert!(matches!(alice.ended(), Some(Error::Peer { .. })));
}

#[test]
fn more_than_there_is_credit_for() {
    // On a line that is read by nobody: a window's worth is kept, the next byte is one too many.
    let (alice, mut bob) = pair();
    bob.say(&open(5, "unread"));
    let mut room = FULL;
    while room >= 1064 {
        bob.say(&message(5, &[0; 1000]));
        room -= 1064;
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(alice.ended(), None);
    bob.say(&message(5, &[0; 1000]));
    assert_eq!(bob.stop(), "bob broke the protocol: more data than it had leave to send");
    assert_eq!(alice.ended().unwrap().fault(), Fault::Peer);

    // Empty messages have a price, too.
    let (alice, mut bob) = pair();
    bob.say(&open(5, "unread"));
    bob.say(&message(5, b"").repeat(FULL as usize / 64));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(alice.ended(), None);
    bob.say(&message(5, b""));
    assert!(bob.stop().contains("more data than it had leave to send"));
    assert!(alice.ended().is_some());

    // And so has a message of which only the announcement comes.
    let (alice, mut bob) = pair();
    bob.say(&open(5, "a"));
    bob.say(&begin(5, WINDOW, b""));
    bob.say(&open(6, "b"));
    bob.say(&message(6, b"still served"));
    assert_eq!(alice.line("b").unwrap().recv(20).unwrap(), b"still served");
}

#[test]
fn credit_that_was_never_spent() {
    let (alice, mut bob) = pair();
    let mut line = alice.line("x").unwrap();
    let Some((number, OPEN, name)) = bob.hear() else { panic!("no line was opened") };
    assert_eq!(name, b"x");
    bob.say(&frame(number, CREDIT, 4, &u32::MAX.to_le_bytes()));
    assert_eq!(bob.stop(), "bob broke the protocol: it granted more credit than was spent");
    assert_eq!(line.send(b"x").unwrap_err().fault(), Fault::Peer);
}

#[test]
fn talk_after_the_goodbye() {
    let (alice, mut bob) = pair();
    bob.say(&open(5, "x"));
    bob.say(&frame(0, GOODBYE, 0, b""));
    bob.say(&message(5, b"one more thing"));
    assert_eq!(bob.stop(), "bob broke the protocol: it said goodbye and went on talking");
    assert_eq!(alice.close().unwrap_err().fault(), Fault::Peer);
}

#[test]
fn frames_cut_anywhere_are_put_together_and_a_cut_for_good_is_a_cut() {
    let (alice, mut bob) = pair();
    let mut line = alice.line("x").unwrap();
    let mut words = open(5, "x");
    words.extend(message(5, b"first"));
    words.extend(begin(5, 8, b""));
    words.extend(frame(5, MORE, 3, b"sec"));
    words.extend(frame(0, PING, 16, &[0; 16]));
    words.extend(frame(5, MORE, 5, b"ond.."));
    words.extend(message(5, b""));
    for byte in words {
        bob.say(&[byte]);
    }
    assert_eq!(line.recv(10).unwrap(), b"first");
    assert_eq!(line.recv(10).unwrap(), b"second..");
    assert_eq!(line.recv(10).unwrap(), b"");
    bob.say(&begin(5, 100, b"half of it"));
    bob.tls.sock.shutdown(std::net::Shutdown::Both).unwrap();
    let error = line.recv(100).unwrap_err();
    assert_eq!(error.fault(), Fault::Network);
    assert!(error.to_string().contains("closed the connection without a goodbye"), "{error}");
}

#[test]
fn bytes_that_are_not_the_peers() {
    use std::io::Write;
    // Somebody on the way injects bytes behind the back of TLS, or repeats a record.
    let (alice, mut bob) = pair();
    let mut line = alice.line("x").unwrap();
    bob.tls.sock.write_all(&[0x17, 3, 3, 0, 32]).unwrap();
    bob.tls.sock.write_all(&[0xaa; 32]).unwrap();
    let error = line.recv(10).unwrap_err();
    assert_eq!(error.fault(), Fault::Network);
    assert!(
        error.to_string().contains("what came was not what was sent (TLS: cannot decrypt peer's message)"),
        "{error}"
    );
}

#[test]
fn a_reason_with_tricks_in_it_stays_on_its_line() {
    let (alice, mut bob) = pair();
    let mut body = vec![1];
    body.extend("disk full\r\n\x1b[2Jerror: \u{202e}alice".as_bytes());
    body.extend([b'!'; 600]);
    bob.say(&frame(0, STOP, body.len(), &body));
    let mut line = match alice.line("x") {
        Ok(line) => line,
        Err(error) => return check(&error),
    };
    check(&line.recv(1).unwrap_err());

    fn check(error: &Error) {
        let Error::Stopped { fault: Fault::Input, why, .. } = error else { panic!("{error}") };
        assert!(why.starts_with("disk full???[2Jerror: ?alice!!!"), "{why}");
        assert!(why.chars().count() <= 201, "{why}");
    }
}

#[test]
fn a_flood_of_heartbeats_and_random_garbage_ends_or_is_borne() {
    let (alice, mut bob) = pair();
    let ping = frame(0, PING, 16, &[0; 16]);
    for _ in 0..200 {
        bob.say(&ping.repeat(100));
    }
    assert_eq!(alice.ended(), None);
    let mut x = 1u64;
    for _ in 0..40 {
        let (alice, mut bob) = pair();
        bob.say(&open(5, "x"));
        let mut garbage = Vec::new();
        for _ in 0..500 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Frames of every kind with small numbers, so that many of them are nearly right.
            let body = x.to_be_bytes()[..(x >> 20) as usize % 9].to_vec();
            garbage.extend(frame((x >> 40) as u32 % 3 + 4, (x >> 33) as u8 % 10, body.len(), &body));
        }
        bob.try_say(&garbage);
        let began = Instant::now();
        while alice.ended().is_none() {
            assert!(began.elapsed() < Duration::from_secs(8));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(alice.ended().unwrap().fault(), Fault::Peer, "{}", alice.ended().unwrap());
    }
}
