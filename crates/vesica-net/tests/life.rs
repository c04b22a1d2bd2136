//! Busy, silent, stopped, killed, cancelled: a link tells them apart and says which.

use crate::common;

use common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vesica_net::{Identity, PeerSpec, Trust};
use vesica_session::{Error, Fault};

/// Longer than a busy machine may keep a thread from running.
const SILENCE: Duration = Duration::from_secs(3);

#[test]
fn a_busy_peer_is_not_a_dead_one() {
    let silence = Duration::from_secs(2);
    let (a, b) = links(|endpoint| endpoint.silence = silence);
    b.set_progress("units of work with a name that is too long", 3, Some(17));
    let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // "Computes" for several times what silence may last.
            std::thread::sleep(3 * silence);
            y.send(b"done").unwrap();
        });
        assert_eq!(x.recv(4).unwrap(), b"done");
    });
    let progress = a.peer_progress().unwrap();
    assert_eq!(
        (progress.phase.as_str(), progress.done, progress.total),
        ("units of work with a name that i", 3, Some(17))
    );
    assert!(progress.age < silence, "{progress:?}");
    assert_eq!(b.peer_progress().unwrap().phase, "");
}

#[test]
fn a_new_phase_is_told_at_once() {
    let (a, b) = links(|_| ());
    let began = Instant::now();
    for phase in ["read", "match", "settle", "write", "finish", "close", "rest", "again", "more", "end"] {
        b.set_progress(phase, 0, None);
        while a.peer_progress().is_none_or(|progress| progress.phase != phase) {
            assert!(began.elapsed() < Duration::from_secs(20), "{phase} is never told");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // A heartbeat comes once a second.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_silent_peer_is_noticed_and_named_with_the_phase() {
    let (a, mut raw) = raw_pair(|endpoint| endpoint.silence = SILENCE);
    let mut line = a.line("x").unwrap();
    let mut ping = 5u64.to_le_bytes().to_vec();
    ping.extend(u64::MAX.to_le_bytes());
    ping.extend(b"mask\x1b[2J\ned");
    let began = Instant::now();
    raw.say(&frame(0, 6, ping.len(), &ping));
    let error = line.recv(10).unwrap_err();
    let waited = began.elapsed();
    assert!(waited > SILENCE * 4 / 5 && waited < 3 * SILENCE, "{waited:?}");
    assert_eq!(error.fault(), Fault::Network);
    assert!(
        error.to_string().starts_with("connection to bob: silent for 3 s in phase mask?[2J?ed; its process is stopped"),
        "{error}"
    );
    let progress = a.peer_progress().unwrap();
    assert_eq!((progress.done, progress.total), (5, None));
    // Everything after says the same.
    assert_eq!(line.send(b"x").unwrap_err(), error);
    assert_eq!(a.line("y").err().unwrap(), error);
    assert_eq!(a.close().unwrap_err(), error);
}

#[test]
fn a_peer_that_hangs_up_is_noticed_at_once() {
    let (a, raw) = raw_pair(|_| ());
    a.set_progress("units", 1, None);
    let mut line = a.line("x").unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            drop(raw);
        });
        let error = line.recv(10).unwrap_err().to_string();
        assert!(
            error.contains("closed the connection without a goodbye") && error.ends_with("in phase units"),
            "{error}"
        );
    });
    // Silence would be noticed after ten seconds.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Whether a call reads a message before the connection ends or after it is chance. What had come whole was lost in the second case, and a unit whose
/// last message it was had to be done again.
#[test]
fn what_came_before_the_end_is_read_after_it() {
    let ends: [&dyn Fn(Link); 2] = [&drop, &|link| link.abort(Fault::Input, "the disk is full")];
    for (end, word) in ends.into_iter().zip(["closed the connection", "the disk is full"]) {
        let (a, b) = links(|_| ());
        let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
        let mut z = a.line("z").unwrap();
        for message in [&b"first"[..], b"second"] {
            y.send(message).unwrap();
        }
        // Both have come, for the third is there.
        y.send(b"third").unwrap();
        assert_eq!(x.recv(10).unwrap(), b"first");
        std::thread::sleep(Duration::from_millis(300));
        end(b);
        let began = Instant::now();
        while a.ended().is_none() {
            assert!(began.elapsed() < Duration::from_secs(12), "the end is not noticed");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!([x.recv(10).unwrap(), x.recv(10).unwrap()], [&b"second"[..], b"third"]);
        for error in [x.recv(10).unwrap_err(), x.send(b"more").unwrap_err(), z.recv(10).unwrap_err()] {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
    // Who ends a run itself, or accuses the other side, reads nothing more.
    let (a, b) = links(|_| ());
    let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
    y.send(b"first").unwrap();
    y.send(b"second").unwrap();
    assert_eq!(x.recv(10).unwrap(), b"first");
    std::thread::sleep(Duration::from_millis(300));
    let _ = x.accuse(vesica_session::Misbehaviour::Malformed("test"));
    a.abort(Fault::Peer, "it broke the protocol");
    assert_eq!(x.recv(10).unwrap_err(), Error::Cancelled);
}

#[test]
fn the_reason_for_the_end_of_a_line_is_waited_for() {
    let (a, b) = links(|_| ());
    let (mut x, y) = (a.line("x").unwrap(), b.line("x").unwrap());
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || x.recv(1).unwrap_err());
        drop(y);
        std::thread::sleep(Duration::from_millis(300));
        b.abort(Fault::Input, "the disk is full");
        let stopped = Error::Stopped { peer: a.peer().clone(), fault: Fault::Input, why: "the disk is full".into() };
        assert_eq!(blocked.join().unwrap(), stopped);
    });
}

/// As after bytes that were lost: what follows them fills up a record that never fits.
#[test]
fn bytes_that_make_no_record_are_no_sign_of_life() {
    let (a, mut raw) = raw_pair(|endpoint| endpoint.silence = SILENCE);
    raw.tls.sock.write_all(b"\x17\x03\x03\x40\x00").unwrap();
    let mut line = a.line("x").unwrap();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || line.recv(1).unwrap_err());
        let began = Instant::now();
        while !blocked.is_finished() && began.elapsed() < Duration::from_secs(10) {
            let _ = raw.tls.sock.write_all(&[0; 20]);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(began.elapsed() < 3 * SILENCE, "{:?}", began.elapsed());
        let error = blocked.join().unwrap().to_string();
        assert!(error.starts_with("connection to bob: silent for 3 s"), "{error}");
    });
}

#[test]
fn a_stop_says_whose_fault_it_is_to_every_blocked_call() {
    // Last words that nobody heard would take a second each time. A busy machine holds one of three up.
    let shortest = (0..3).map(|_| stopped_with_blocked_calls()).min().unwrap();
    assert!(shortest < Duration::from_millis(900), "{shortest:?}");
}

/// Alice stops the run while calls wait on both sides. How long that takes her.
fn stopped_with_blocked_calls() -> Duration {
    let (a, b) = links(|endpoint| endpoint.window = 64 << 10);
    let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
    let (mut s, t) = (b.line("s").unwrap(), a.line("s").unwrap());
    let took = std::thread::scope(|scope| {
        let here = scope.spawn(move || x.recv(1).unwrap_err());
        let there = scope.spawn(move || y.recv(1).unwrap_err());
        let sender = scope.spawn(move || (0..9).find_map(|_| s.send(&[0; 64 << 10]).err()).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        a.abort(Fault::Input, "alice.csv: row 7\nhas no key");
        let took = began.elapsed();
        assert_eq!(here.join().unwrap(), Error::Cancelled);
        let stopped =
            Error::Stopped { peer: b.peer().clone(), fault: Fault::Input, why: "alice.csv: row 7?has no key".into() };
        assert_eq!(there.join().unwrap(), stopped);
        assert_eq!(sender.join().unwrap(), stopped);
        assert_eq!(b.close().unwrap_err(), stopped);
        took
    });
    drop(t);
    took
}

#[test]
fn a_stop_gets_through_though_much_is_queued() {
    let (a, mut raw) = raw_pair(|_| ());
    // Bob does not read, so alice's socket is full; she still ends in time.
    let mut line = a.line("x").unwrap();
    line.send(&vec![0; 8 << 20]).unwrap();
    let began = Instant::now();
    a.abort(Fault::Interrupted, "Ctrl-C");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let mut rest = Vec::new();
    let _ = raw.tls.read_to_end(&mut rest);

    let (a, b) = links(|_| ());
    let mut line = a.line("x").unwrap();
    line.send(&vec![0; 8 << 20]).unwrap();
    let mut other = b.line("y").unwrap();
    a.abort(Fault::Interrupted, "Ctrl-C");
    assert_eq!(other.recv(1).unwrap_err().to_string(), "alice was interrupted and stopped the run");
}

#[test]
fn cancelling_frees_every_blocked_call_and_the_peer_can_still_be_told() {
    let log = Log::new();
    let (a, b) = links_with(&log, |_| ());
    let mut x = a.line("x").unwrap();
    let mut y = b.line("x").unwrap();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || x.recv(1).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        log.cancel.store(true, Ordering::Relaxed);
        assert_eq!(blocked.join().unwrap(), Error::Cancelled);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    });
    assert_eq!(a.close().unwrap_err(), Error::Cancelled);
    a.abort(Fault::Interrupted, "");
    assert_eq!(y.recv(1).unwrap_err().to_string(), "alice was interrupted and stopped the run");
}

#[test]
fn cancelling_ends_the_wait_for_a_goodbye() {
    let log = Log::new();
    // Bob is there, and says no goodbye.
    let (a, _bob) = links_with(&log, |_| ());
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| a.parted(Some(Duration::from_secs(60))).unwrap_err());
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        log.cancel.store(true, Ordering::Relaxed);
        assert_eq!(closing.join().unwrap(), Error::Cancelled);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    });
}

#[test]
fn a_dropped_link_frees_its_lines() {
    let (a, b) = links(|_| ());
    let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
    drop(a);
    assert_eq!(x.recv(1).unwrap_err().fault(), Fault::Network);
    assert!(y.recv(1).unwrap_err().to_string().contains("closed the connection without a goodbye"));
}

/// Not a test of its own: bob, as a process that can be stopped and killed. See [`process`].
#[test]
fn bob_in_a_process_of_its_own() {
    let Ok(told) = std::env::var("VESICA_NET_TEST_BOB") else { return };
    let [dir, pin, address] = told.split('|').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let identity = Identity::load(format!("{dir}/bob.pem")).unwrap();
    let (alice, bob) = (vesica_types::Party::new(0, "alice"), vesica_types::Party::new(1, "bob"));
    let mut endpoint = vesica_net::Endpoint::new(bob, JOB, vesica_net::Security::Tls { identity });
    endpoint.silence = SILENCE;
    let trust = Some(Trust::Pinned(vec![pin.parse().unwrap()]));
    endpoint.peers.push(PeerSpec { party: alice, connect: Some(address.into()), trust, road: Default::default() });
    let link = only(vesica_net::connect(endpoint, Log::new()).unwrap());
    link.set_progress("counting", 1, Some(2));
    std::io::stdout().write_all(b"\nbob is here\n").unwrap();
    let _ = link.line("x").unwrap().recv(1);
}

/// Alice's link to a bob who is another process.
fn process() -> (Link, Child) {
    let alice = Person::new(0, "alice");
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity::generate("bob").unwrap();
    identity.write(dir.path()).unwrap();
    let mut here = alice.endpoint();
    here.silence = SILENCE;
    let trust = Some(Trust::Pinned(vec![identity.fingerprint()]));
    here.peers.push(PeerSpec {
        party: vesica_types::Party::new(1, "bob"),
        connect: None,
        trust,
        road: Default::default(),
    });
    let (address, waiting) = listen(here, &Log::new());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::bob_in_a_process_of_its_own", "--nocapture"])
        .env("VESICA_NET_TEST_BOB", format!("{}|{}|{address}", dir.path().display(), alice.pin()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(out.any(|line| line.unwrap() == "bob is here"));
    (only(waiting.join().unwrap().unwrap()), child)
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
}

#[test]
fn a_stopped_process_is_noticed_when_its_time_is_up_and_a_paused_one_is_forgiven() {
    let (link, mut child) = process();
    let mut line = link.line("y").unwrap();
    // Shorter than the limit: nothing happens.
    signal(&child, nix::sys::signal::Signal::SIGSTOP);
    std::thread::sleep(SILENCE / 3);
    signal(&child, nix::sys::signal::Signal::SIGCONT);
    std::thread::sleep(SILENCE / 2);
    assert_eq!(link.ended(), None);
    let began = Instant::now();
    signal(&child, nix::sys::signal::Signal::SIGSTOP);
    let error = line.recv(1).unwrap_err().to_string();
    assert!(began.elapsed() > SILENCE / 2 && began.elapsed() < 3 * SILENCE, "{:?}", began.elapsed());
    assert!(error.contains("silent for 3 s in phase counting"), "{error}");
    signal(&child, nix::sys::signal::Signal::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn a_killed_process_is_noticed_at_once() {
    let (link, mut child) = process();
    let mut line = link.line("y").unwrap();
    while link.peer_progress().is_none_or(|progress| progress.done == 0) {
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&child, nix::sys::signal::Signal::SIGKILL);
    let began = Instant::now();
    let error = line.recv(1).unwrap_err().to_string();
    assert!(began.elapsed() < SILENCE, "{:?}", began.elapsed());
    assert!(error.contains("its process ended or was killed in phase counting"), "{error}");
    child.wait().unwrap();
}
