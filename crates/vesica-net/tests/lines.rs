//! Many lines over one connection: whole messages, in order, and no line waits for another.

use crate::common;

use common::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use vesica_net::Security;
use vesica_session::{Channel, Error, Fault, Misbehaviour};

/// `len` bytes that say where they belong.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (seed.wrapping_mul(31).wrapping_add(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

fn line(links: &(Link, Link), name: &str) -> (Box<dyn Channel>, Box<dyn Channel>) {
    (links.0.line(name).unwrap(), links.1.line(name).unwrap())
}

/// Runs both sides at once.
fn both<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    std::thread::scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        (a.join().unwrap(), b)
    })
}

#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    for security in ["tls", "plain"] {
        let links = links(|endpoint| {
            endpoint.window = 1 << 20;
            if security == "plain" {
                endpoint.security = Security::Insecure;
            }
        });
        let (mut a, mut b) = line(&links, "x");
        assert_eq!((a.window(), b.window()), (1 << 20, 1 << 20));
        let sizes = [0, 1, 7, 16_384, 65_531, 65_532, 65_533, 131_068, 131_069, 300_000, (1 << 20) - 1, 1 << 20, 0, 3];
        both(
            || sizes.iter().enumerate().for_each(|(i, len)| a.send(&bytes(i as u64, *len)).unwrap()),
            || sizes.iter().enumerate().for_each(|(i, len)| assert!(b.recv(1 << 20).unwrap() == bytes(i as u64, *len))),
        );
    }
}

#[test]
fn the_smaller_window_holds() {
    let once = AtomicBool::new(false);
    let links = links(|endpoint| {
        if once.swap(true, Ordering::Relaxed) {
            endpoint.window = 100_000;
        }
    });
    let (mut a, mut b) = line(&links, "x");
    assert_eq!((a.window(), b.window()), (100_000, 100_000));
    let error = a.send(&[0; 100_001]).unwrap_err();
    assert_eq!(error.fault(), Fault::Bug);
    a.send(&[1; 100_000]).unwrap();
    assert_eq!(b.recv(100_000).unwrap(), [1; 100_000]);
}

#[test]
fn lines_meet_by_name_whoever_opens_them_first() {
    let links = links(|_| ());
    let mut a1 = links.0.line("unit 1").unwrap();
    let mut a2 = a1.line("unit 2").unwrap();
    a2.send(b"second").unwrap();
    a1.send(b"first").unwrap();
    let mut b2 = links.1.line("unit 2").unwrap();
    assert_eq!(b2.recv(10).unwrap(), b"second");
    let mut b1 = links.1.line("unit 1").unwrap();
    assert_eq!(b1.recv(10).unwrap(), b"first");
    b1.send(b"back").unwrap();
    assert_eq!(a1.recv(10).unwrap(), b"back");
    assert!(links.0.line("unit 1").err().unwrap().to_string().contains("line \"unit 1\" to bob was opened twice"));
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert_eq!(links.0.line(name).err().unwrap().fault(), Fault::Bug);
    }
}

#[test]
fn both_may_speak_at_once_with_all_their_window() {
    let links = links(|endpoint| endpoint.window = 4 << 20);
    let (mut a, mut b) = line(&links, "x");
    let (x, y) = (bytes(1, 4 << 20), bytes(2, 4 << 20));
    for _ in 0..5 {
        let (got_a, got_b) = both(|| a.swap(&x, 4 << 20).unwrap(), || b.swap(&y, 4 << 20).unwrap());
        assert!(got_a == y && got_b == x);
    }
}

#[test]
fn a_full_line_blocks_its_sender_and_no_other_line() {
    let links = links(|endpoint| endpoint.window = 64 << 10);
    let (mut a, mut b) = line(&links, "full");
    let (mut c, mut d) = line(&links, "free");
    let (told, sent) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..20u8 {
                a.send(&[i; 64 << 10]).unwrap();
                told.send(i).unwrap();
            }
            a
        });
        // One message fits the window; the next does not.
        assert_eq!(sent.recv_timeout(Duration::from_secs(5)).unwrap(), 0);
        for i in 0..200u32 {
            c.send(&i.to_le_bytes()).unwrap();
            assert_eq!(d.recv(4).unwrap(), i.to_le_bytes());
        }
        assert!(sent.try_recv().is_err(), "a second message went into a full window");
        for i in 0..20u8 {
            assert!(b.recv(64 << 10).unwrap() == [i; 64 << 10]);
        }
        assert_eq!(sent.iter().last(), Some(19));
    });
}

#[test]
fn small_messages_without_end_do_not_outgrow_the_window() {
    let links = links(|endpoint| endpoint.window = 64 << 10);
    let (mut a, mut b) = line(&links, "x");
    std::thread::scope(|scope| {
        scope.spawn(move || (0..5000u32).for_each(|i| a.send(&i.to_le_bytes()).unwrap()));
        std::thread::sleep(Duration::from_millis(100));
        (0..5000u32).for_each(|i| assert_eq!(b.recv(4).unwrap(), i.to_le_bytes()));
    });
}

#[test]
fn many_lines_at_once() {
    let links = links(|endpoint| endpoint.window = 256 << 10);
    // More than one side may be ahead of the other by; the rest follow as the other side opens its own.
    const LINES: u64 = 150;
    let talk = |link: &Link, order: &mut dyn Iterator<Item = u64>| {
        let lines: Vec<(u64, Box<dyn Channel>)> =
            order.map(|i| (i, link.line(&format!("unit {i}")).unwrap())).collect();
        std::thread::scope(|scope| {
            for (i, mut line) in lines {
                scope.spawn(move || {
                    for round in 0..6 {
                        let mine = bytes(i * 100 + round, (i * 997 + round) as usize % 50_000);
                        assert!(line.swap(&mine, 256 << 10).unwrap() == mine);
                    }
                });
            }
        });
    };
    both(|| talk(&links.0, &mut (0..LINES)), || talk(&links.1, &mut (0..LINES).rev()));
}

#[test]
fn lines_come_and_go_by_the_thousand() {
    let links = links(|endpoint| endpoint.window = 64 << 10);
    let work = |link: &Link, first: bool| {
        for i in 0..3000u32 {
            let mut line = link.line(&format!("unit {i}")).unwrap();
            if first {
                line.send(&i.to_le_bytes()).unwrap();
                assert_eq!(line.recv(2).unwrap(), b"ok");
            } else {
                assert_eq!(line.recv(4).unwrap(), i.to_le_bytes());
                line.send(b"ok").unwrap();
            }
        }
    };
    both(|| work(&links.0, true), || work(&links.1, false));
    // A name is free again once both are done with it.
    both(|| work(&links.0, false), || work(&links.1, true));
}

#[test]
fn what_was_sent_before_a_line_closed_still_arrives() {
    let links = links(|_| ());
    let (mut a, mut b) = line(&links, "x");
    a.send(&bytes(5, 3 << 20)).unwrap();
    a.send(b"last").unwrap();
    drop(a);
    assert!(b.recv(8 << 20).unwrap() == bytes(5, 3 << 20));
    assert_eq!(b.recv(8).unwrap(), b"last");
    let error = b.recv(8).unwrap_err();
    assert_eq!(error.to_string(), "connection to alice: the other end of line \"x\" was closed");
    assert!(b.send(b"?").is_err());
    // The link lives on.
    let (mut a, mut b) = line(&links, "y");
    a.send(b"1").unwrap();
    assert_eq!(b.recv(1).unwrap(), b"1");
}

#[test]
fn a_blocked_call_hears_that_the_other_end_closed() {
    let links = links(|endpoint| endpoint.window = 64 << 10);
    let (a, mut b) = line(&links, "x");
    let (mut c, d) = line(&links, "y");
    both(
        || {
            std::thread::sleep(Duration::from_millis(100));
            drop((a, d));
        },
        || {
            assert!(b.recv(1).unwrap_err().to_string().contains("line \"x\" was closed"));
            let error = (0..9).find_map(|_| c.send(&[0; 64 << 10]).err()).unwrap();
            assert!(error.to_string().contains("line \"y\" was closed"));
        },
    );
}

#[test]
fn a_message_over_the_limit_is_the_peers_fault() {
    let links = links(|_| ());
    let (mut a, mut b) = line(&links, "x");
    a.send(&[0; 9]).unwrap();
    let error = b.recv(8).unwrap_err();
    assert_eq!(error.to_string(), "alice broke the protocol: a message of 9 bytes where at most 8 are allowed");
    // Also where the call waits before the message comes, and long before all of it is there.
    let (mut a, mut b) = line(&links, "y");
    both(
        || {
            std::thread::sleep(Duration::from_millis(50));
            a.send(&vec![0; 8 << 20]).unwrap();
        },
        || {
            let error = b.recv(100).unwrap_err();
            assert!(matches!(error, Error::Peer { fault: Misbehaviour::TooLong { got: 8_388_608, limit: 100 }, .. }));
            assert!(b.recv(100).is_err());
        },
    );
}

/// The limit of a call that waits is for the message that it gets, not for one that comes while it wakes up.
#[test]
fn a_longer_message_may_follow_at_once() {
    let links = links(|_| ());
    let (mut a, mut b) = line(&links, "x");
    both(
        || {
            for _ in 0..2000 {
                a.send(&[1; 32]).unwrap();
                a.send(&[2; 64]).unwrap();
                a.recv(1).unwrap();
            }
        },
        || {
            for _ in 0..2000 {
                assert_eq!(b.recv(32).unwrap(), [1; 32]);
                assert_eq!(b.recv(64).unwrap(), [2; 64]);
                b.send(&[3]).unwrap();
            }
        },
    );
}

#[test]
fn the_meter_counts_bytes_messages_rounds_and_time_by_step() {
    let links = links(|_| ());
    let (mut a, mut b) = line(&links, "x");
    assert!(a.meter().steps.is_empty());
    // Time goes by on a busy machine although this thread does not run.
    let worked = || Duration::from(nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    a.step("work");
    let (began, before) = (Instant::now(), worked());
    let mut x = 1u64;
    while began.elapsed() < Duration::from_millis(50) || worked() - before < Duration::from_millis(5) {
        x = std::hint::black_box(x.wrapping_mul(3));
    }
    a.step("wait");
    a.send(b"12345").unwrap();
    let answer = both(
        || {
            assert_eq!(b.recv(5).unwrap(), b"12345");
            std::thread::sleep(Duration::from_millis(50));
            b.send(b"123").unwrap();
        },
        || a.recv(3).unwrap(),
    );
    assert_eq!(answer.1, b"123");
    a.step("end");
    let meter = a.meter();
    let [work, wait, end] = &meter.steps[..] else { panic!("{meter:?}") };
    assert_eq!((work.name, wait.name, end.name), ("work", "wait", "end"));
    assert!(work.wall >= Duration::from_millis(50) && wait.wall >= Duration::from_millis(50), "{meter:?}");
    assert!(work.cpu >= Duration::from_millis(2), "{meter:?}");
    assert_eq!((wait.sent, wait.received, wait.messages, wait.rounds), (5, 3, 1, 1));
    assert_eq!(meter.bytes(), (5, 3));
}

#[test]
fn closing_waits_for_both_and_for_what_is_queued() {
    // Goodbyes that were not noticed would take a second and more each time. A busy machine holds one of three up.
    let shortest = (0..3).map(|_| closed_with_something_queued()).min().unwrap();
    assert!(shortest < Duration::from_millis(900), "{shortest:?}");
}

/// Alice closes her side when much is queued, and bob his when he has read it. How long it takes them to part then.
fn closed_with_something_queued() -> Duration {
    let (a, b) = links(|_| ());
    let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
    let closed = Arc::new(AtomicBool::new(false));
    x.send(&bytes(3, 8 << 20)).unwrap();
    drop(x);
    let here = {
        let closed = closed.clone();
        std::thread::spawn(move || {
            a.close().unwrap();
            closed.store(true, Ordering::Relaxed);
        })
    };
    std::thread::sleep(Duration::from_millis(150));
    assert!(!closed.load(Ordering::Relaxed), "one side alone cannot close a link");
    assert!(y.recv(8 << 20).unwrap() == bytes(3, 8 << 20));
    let error = y.recv(1).unwrap_err();
    assert!(error.to_string().contains("line \"x\" was closed"), "{error}");
    let mut late = b.line("late").unwrap();
    let error = late.recv(1).unwrap_err();
    assert_eq!(error.to_string(), "alice broke the protocol: it said goodbye before the run was over");
    let began = Instant::now();
    b.close().unwrap();
    here.join().unwrap();
    began.elapsed()
}

#[test]
fn a_goodbye_is_waited_for_as_long_as_the_caller_says() {
    let (a, b) = links(|_| ());
    let began = Instant::now();
    let error = a.parted(Some(Duration::from_millis(200))).unwrap_err();
    assert_eq!(error.to_string(), "connection to bob: it does not say goodbye");
    assert_eq!(a.close().unwrap_err(), error);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(b);
    let (a, b) = links(|_| ());
    let (x, y) = both(|| a.parted(Some(Duration::from_secs(60))), || b.close());
    assert_eq!((x, y), (Ok(()), Ok(())));
}

/// The side whose goodbye comes first may find the socket closed before its writer has noted that its own was sent.
#[test]
fn both_sides_part_in_good_order_every_time() {
    for _ in 0..60 {
        let (a, b) = links(|_| ());
        let (x, y) = both(|| a.close(), || b.close());
        assert_eq!((x, y), (Ok(()), Ok(())));
    }
}
