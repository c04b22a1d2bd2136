//! What goes wrong after the last unit: a connection that breaks, a process that is killed, while the outputs are written
//! and the parties tell each other so. Nobody is left with a wrong file, a wait without end, or an error where the
//! output is in its place.

use crate::two;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use two::{Job, LONG, Running, Two};

/// Enough for what was passed on to arrive.
const MOMENT: Duration = Duration::from_millis(300);

/// Two parties that meet over a relay, with five units or so; what they say stands in the clear, so that the relay can
/// tell their words apart.
fn two(patience: &str) -> (Two, Relay) {
    let table = |range: std::ops::Range<u32>| {
        let rows = range.map(|i| format!("{},row {i}\n", i % 200)).collect::<String>();
        format!("id,v\n{rows},none\n")
    };
    let mut two = Two::with(&table(0..210), &table(60..275));
    two.change("curve =", "insecure = true\nunit = 42\ncurve =");
    two.change("patience = \"60s\"", &format!("patience = \"{patience}\"\nresume = \"ledger\""));
    for job in [&mut two.alice, &mut two.bob] {
        let tls = job.text.lines().find(|line| line.starts_with("tls =")).unwrap().to_owned();
        job.change(&tls, &format!("report = \"{}.report.json\"", job.name.clone()));
    }
    let relay = Relay::before(two.port);
    two.bob.change(&two.port.to_string(), &relay.port.to_string());
    (two, relay)
}

/// The same without ledgers.
fn without_ledgers(patience: &str) -> (Two, Relay) {
    let (mut two, relay) = two(patience);
    two.change("resume = \"ledger\"\n", "");
    (two, relay)
}

/// Starts a party with a log that says when a phase begins.
fn start(job: &Job) -> Running {
    job.start_with(&["--log", "json"])
}

fn phase(name: &str) -> String {
    format!("\"phase\":\"{name}\"")
}

/// What nothing happens to.
fn undisturbed() -> [String; 2] {
    let (two, _relay) = two("60s");
    two.run_well();
    two.lined_up()
}

/// Both have their outputs and their reports, and nothing else is left of the run.
#[track_caller]
fn all_is_well(two: &Two, expected: &[String; 2]) {
    assert_eq!(two.lined_up(), *expected);
    for name in ["alice", "bob"] {
        assert!(two.read(&format!("{name}.report.json")).contains("\"matched\""));
    }
    let ledgers = two.path("ledger");
    assert!(!ledgers.exists() || two::names(&ledgers).is_empty(), "{:?}", two::names(&ledgers));
}

const AGAIN: &str = "run the same command again on every side";

#[test]
fn a_connection_cut_at_any_of_the_last_words_leaves_both_well() {
    use {Side::*, Word::*};
    let expected = undisturbed();
    let cuts: [&[(Side, Word)]; 6] = [
        &[(Alice, Finish)],
        &[(Bob, Finish)],
        &[(Alice, Finish), (Bob, Finish)],
        &[(Alice, Goodbye)],
        &[(Bob, Goodbye)],
        &[(Alice, Goodbye), (Bob, Goodbye)],
    ];
    let check = |cut: &[(Side, Word)], (two, relay): (Two, Relay)| {
        relay.trap(cut, Then::Cut);
        let (alice, bob) = (start(&two.alice), start(&two.bob));
        let runs = [alice.wait(LONG).good(), bob.wait(LONG).good()];
        all_is_well(&two, &expected);
        let said = |words: &str| runs.each_ref().map(|run| run.stderr.contains(words));
        assert!(said("lost ").contains(&true), "{cut:?} cut nothing: {runs:?}");
        // One goodbye that was lost: who did not hear it stayed for nothing, and says so.
        assert_eq!(said(AGAIN), [cut == [(Bob, Goodbye)], cut == [(Alice, Goodbye)]], "{cut:?}: {runs:?}");
    };
    std::thread::scope(|scope| {
        for cut in cuts {
            for make in [two, without_ledgers] {
                scope.spawn(move || check(cut, make("8s")));
            }
        }
    });
}

/// The other side has not heard that this one has written.
#[test]
fn a_party_killed_while_it_writes_goes_on() {
    let expected = undisturbed();
    for (side, protocol) in [(Side::Alice, "ecdh"), (Side::Bob, "rr22"), (Side::Alice, "rr22")] {
        let (mut two, relay) = two("60s");
        if protocol == "rr22" {
            two.change("protocol = \"ecdh\"", "protocol = \"rr22\"");
            two.change("curve = \"curve25519\"\n", "");
        }
        relay.trap(&[(side, Word::Finish)], Then::Hold);
        let ([victim, other], job) = side.first(&two);
        victim.until(&phase("write"));
        relay.caught();
        kill(victim);
        relay.cut();
        start(job).wait(LONG).good();
        let other = other.wait(LONG).good();
        assert!(other.stderr.contains("lost "), "{other:?}");
        all_is_well(&two, &expected);
    }
}

#[test]
fn who_is_left_alone_after_the_last_unit_says_where_and_what_to_do() {
    let (two, relay) = two("6s");
    relay.trap(&[(Side::Alice, Word::Finish)], Then::Hold);
    let ([alice, bob], _) = Side::Alice.first(&two);
    relay.caught();
    alice.until(&phase("finish"));
    kill(alice);
    relay.cut();
    let bob = bob.wait(LONG);
    assert_eq!(bob.code, Some(4), "{bob:?}");
    for words in ["in phase finish", "did not come back within 6s", AGAIN] {
        assert!(bob.stderr.lines().last().unwrap().contains(words), "{bob:?}");
    }
    assert!(!two.path("bob.out.csv").exists());
    two.run_well();
    all_is_well(&two, &undisturbed());
}

/// The victim's output is not in its place; the other's is.
#[test]
fn a_party_killed_before_it_hears_that_the_other_has_written_goes_on() {
    let expected = undisturbed();
    for side in [Side::Alice, Side::Bob] {
        let (two, relay) = two("60s");
        relay.trap(&[(side.other(), Word::Finish)], Then::Hold);
        let ([victim, other], job) = side.first(&two);
        relay.caught();
        victim.until(&phase("finish"));
        other.until(&phase("close"));
        kill(victim);
        assert!(!two.path(&format!("{}.out.csv", job.name)).exists());
        relay.cut();
        start(job).wait(LONG).good();
        let other = other.wait(LONG).good();
        assert!(other.stderr.contains("this side is done, but lost"), "{other:?}");
        all_is_well(&two, &expected);
    }
}

/// The same where nothing is kept: who is done has nothing to go on from with the other, and both say what to do.
#[test]
fn a_party_that_forgot_the_run_is_told_to_begin_anew() {
    let (two, relay) = without_ledgers("60s");
    relay.trap(&[(Side::Alice, Word::Finish)], Then::Hold);
    let (alice, bob) = (start(&two.alice), start(&two.bob));
    relay.caught();
    alice.until(&phase("close"));
    kill(bob);
    relay.cut();
    let bob = two.bob.start().wait(LONG);
    bob.bad(5, &["alice stopped the run", AGAIN]);
    let alice = alice.wait(LONG).good();
    assert!(alice.stderr.contains("bob has forgotten the run") && alice.stderr.contains(AGAIN), "{alice:?}");
    two.run_well();
    all_is_well(&two, &undisturbed());
}

/// The victim's output is in its place, and the other side is done and gone: nobody can tell the victim, which says so.
#[test]
fn a_party_killed_before_its_ledger_is_removed_ends_well_with_the_other() {
    let expected = undisturbed();
    let (two, relay) = two("6s");
    relay.trap(&[(Side::Alice, Word::Goodbye)], Then::Hold);
    let (alice, bob) = (start(&two.alice), start(&two.bob));
    relay.caught();
    bob.until(&phase("close"));
    alice.wait(LONG).good();
    kill(bob);
    assert_eq!(two.lined_up(), expected);
    relay.cut();
    let bob = two.bob.start().wait(LONG);
    bob.bad(4, &["alice did not come within 6 s", "every unit is finished", AGAIN]);
    two.run_well();
    all_is_well(&two, &expected);
}

#[test]
fn both_killed_at_their_last_words_go_on() {
    let expected = undisturbed();
    for word in [Word::Finish, Word::Goodbye] {
        let (two, relay) = two("60s");
        relay.trap(&[(Side::Alice, word), (Side::Bob, word)], Then::Hold);
        let runs = [&two.alice, &two.bob].map(start);
        relay.caught();
        relay.caught();
        runs.into_iter().for_each(kill);
        relay.cut();
        two.run_well();
        all_is_well(&two, &expected);
    }
}

#[test]
fn words_that_take_some_seconds_are_waited_for() {
    let expected = undisturbed();
    let (two, relay) = two("60s");
    relay.trap(&[(Side::Alice, Word::Finish), (Side::Bob, Word::Goodbye)], Then::Delay(Duration::from_secs(3)));
    for run in two.run_well() {
        assert!(run.took > Duration::from_secs(3) && !run.stderr.contains("lost "), "{run:?}");
    }
    all_is_well(&two, &expected);
}

/// Words that take longer than silence may last come over a connection that nobody listens to any more.
#[test]
#[ignore = "takes a minute"]
fn words_that_take_too_long_are_said_again() {
    let expected = undisturbed();
    for word in [Word::Finish, Word::Goodbye] {
        let (two, relay) = two("60s");
        relay.trap(&[(Side::Alice, word), (Side::Bob, word)], Then::Delay(Duration::from_secs(15)));
        for run in two.run_well() {
            assert!(run.stderr.contains("lost "), "{run:?}");
        }
        all_is_well(&two, &expected);
    }
}

/// What a limit was there to hide is nowhere to be read.
#[test]
fn an_intersection_that_is_too_small_leaves_no_ledger() {
    let (mut two, _relay) = two("60s");
    two.change("curve =", "limits = { min_intersection = 1000 }\ncurve =");
    for run in two.run() {
        run.bad(3, &["fewer keys are common"]);
    }
    assert!(two::names(&two.path("ledger")).is_empty(), "{:?}", two::names(&two.path("ledger")));
}

fn kill(run: Running) {
    run.signal("KILL");
    assert_eq!(run.wait(LONG).code, None);
}

/// A party, and what it says.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    Alice,
    Bob,
}

impl Side {
    fn other(self) -> Self {
        if self == Side::Alice { Side::Bob } else { Side::Alice }
    }

    /// Starts both, this one first in the list, which comes with its job.
    fn first(self, two: &Two) -> ([Running; 2], &Job) {
        let (alice, bob) = (start(&two.alice), start(&two.bob));
        if self == Side::Alice { ([alice, bob], &two.alice) } else { ([bob, alice], &two.bob) }
    }
}

/// Words that a run ends with.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Word {
    /// That all is written: the fourth message of a run's control line, after the hello and two for the coins.
    Finish,
    Goodbye,
}

/// What happens to such a word and what that party says after it.
#[derive(Clone, Copy)]
enum Then {
    /// It is lost, and then the connection, once the other party has said the same word.
    Cut,
    /// It is lost, and the connection stands still until it is cut.
    Hold,
    /// It comes later.
    Delay(Duration),
}

/// A relay on loopback that waits in its first connection for certain words.
struct Relay {
    port: u16,
    traps: Arc<Mutex<Vec<(Side, Word, Then)>>>,
    /// The sockets of connections.
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    caught: (Sender<()>, Receiver<()>),
}

impl Relay {
    /// A relay to alice.
    fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap().port();
        let relay = Self { port: here, traps: Arc::default(), sockets: Arc::default(), caught: channel() };
        let (traps, sockets, caught) = (relay.traps.clone(), relay.sockets.clone(), relay.caught.0.clone());
        std::thread::spawn(move || {
            for bob in listener.incoming() {
                let bob = bob.unwrap();
                let Ok(alice) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                [&alice, &bob].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
                sockets.lock().unwrap().extend([&alice, &bob].map(|socket| socket.try_clone().unwrap()));
                let traps = std::mem::take(&mut *traps.lock().unwrap());
                let said = Arc::new(Mutex::new(Vec::new()));
                for (side, from, to) in [(Side::Alice, &alice, &bob), (Side::Bob, &bob, &alice)] {
                    let trap = traps.iter().find(|trap| trap.0 == side).map(|&(_, word, then)| (word, then));
                    let mut way = Way {
                        side,
                        from: from.try_clone().unwrap(),
                        to: to.try_clone().unwrap(),
                        trap,
                        said: said.clone(),
                        caught: caught.clone(),
                    };
                    std::thread::spawn(move || {
                        let _ = match way.relay() {
                            Ok(()) => way.from.shutdown(Shutdown::Both).and(way.to.shutdown(Shutdown::Both)),
                            Err(_) => way.to.shutdown(Shutdown::Write),
                        };
                    });
                }
            }
        });
        relay
    }

    /// Waits for these words in the next connection.
    fn trap(&self, words: &[(Side, Word)], then: Then) {
        self.traps.lock().unwrap().extend(words.iter().map(|&(side, word)| (side, word, then)));
    }

    /// Waits until a word was caught.
    fn caught(&self) {
        self.caught.1.recv_timeout(LONG).unwrap();
    }

    /// Cuts all connections.
    fn cut(&self) {
        self.sockets.lock().unwrap().drain(..).for_each(|socket| _ = socket.shutdown(Shutdown::Both));
    }
}

/// What one party says in a connection.
struct Way {
    side: Side,
    from: TcpStream,
    to: TcpStream,
    trap: Option<(Word, Then)>,
    /// Words that came by, both ways.
    said: Arc<Mutex<Vec<(Side, Word)>>>,
    caught: Sender<()>,
}

impl Way {
    /// Passes on what the party says, until the connection is to be cut. The frames are those of vesica-net.
    ///
    /// # Errors
    /// The end of the connection on one side, of which the other is to hear when all before it has come.
    fn relay(&mut self) -> io::Result<()> {
        // A hello and a verdict.
        for (head, at) in [(14, 12), (3, 1)] {
            let bytes = self.read(head, |head| u16::from_le_bytes([head[at], head[at + 1]]).into())?;
            self.to.write_all(&bytes)?;
        }
        let (mut control, mut messages) = (None, 0);
        loop {
            let frame = self.read(8, |head| u32::from_le_bytes([head[5], head[6], head[7], 0]) as usize)?;
            let (line, kind, body) = (&frame[..4], frame[4], &frame[8..]);
            if kind == 1 && body == b"control" {
                control = Some(line.to_owned());
            }
            let of_control = kind == 2 && control.as_deref() == Some(line);
            messages += u32::from(of_control);
            let word = match kind {
                2 if of_control && messages == 4 => Some(Word::Finish),
                8 => Some(Word::Goodbye),
                _ => None,
            };
            match self.trap.filter(|(awaited, _)| Some(*awaited) == word) {
                Some((word, then)) => {
                    self.said.lock().unwrap().push((self.side, word));
                    let _ = self.caught.send(());
                    match then {
                        Then::Delay(time) => std::thread::sleep(time),
                        Then::Hold => std::thread::park(),
                        Then::Cut => {
                            let other = (self.side.other(), word);
                            while !self.said.lock().unwrap().contains(&other) {
                                std::thread::sleep(MOMENT / 10);
                            }
                            std::thread::sleep(MOMENT);
                            return Ok(());
                        }
                    }
                    self.to.write_all(&frame)?;
                }
                None => {
                    self.to.write_all(&frame)?;
                    self.said.lock().unwrap().extend(word.map(|word| (self.side, word)));
                }
            }
        }
    }

    /// Reads a head of so many bytes, and the body whose length it says.
    fn read(&mut self, head: usize, body: impl Fn(&[u8]) -> usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; head];
        self.from.read_exact(&mut bytes)?;
        bytes.resize(head + body(&bytes), 0);
        self.from.read_exact(&mut bytes[head..])?;
        Ok(bytes)
    }
}
