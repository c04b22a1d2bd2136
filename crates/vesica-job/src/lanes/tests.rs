//! Runs over several lanes against runs over one link; lanes that break; partners on a lane that do not follow the protocol.

use super::hello::Ends;
use super::links::{Certificates, Meeting, Watcher};
use crate::input::keys::Keys;
use crate::io::Io;
use crate::meet::agree::{self, Agreed};
use crate::meet::peers::{self, Authorities, Peers};
use crate::run::run;
use crate::seal::ledger::Ledger;
use crate::session::LANES_DONE as DONE;
use crate::tell::control::Control;
use crate::tell::report::Report;
use crate::units::cut::Units;
use crate::units::each;
use crate::world::AtWill;
use crate::{Fault, JobError};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use vesica_net::Sockets;
use vesica_session::{Lines, SessionRng};
use vesica_spec::Plan;
use vesica_suite::Opened;
pub use vesica_testkit::port;

/// Two parties with tables of their own. Alice listens.
pub struct Two {
    pub dir: tempfile::TempDir,
    pub port: u16,
    shared: String,
    tls: bool,
}

impl Two {
    /// `shared` are lines of the shared document.
    pub fn new(shared: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let two = Self { dir, port: port(), shared: format!("{shared}\ninsecure = true"), tls: false };
        // Keys 50..200 are common; some stand in several rows, and some rows have none.
        two.write("alice", (0..200).chain(60..70));
        two.write("bob", (50..260).chain(100..105));
        two
    }

    /// The same, over TLS.
    pub fn secure(shared: &str) -> Self {
        let mut two = Self::new(shared);
        (two.shared, two.tls) = (shared.to_owned(), true);
        for name in ["alice", "bob"] {
            vesica_net::Identity::generate(name).unwrap().write(two.dir.path()).unwrap();
        }
        two
    }

    pub fn write(&self, name: &str, keys: impl Iterator<Item = u32>) {
        let rows: String = keys.enumerate().map(|(row, key)| format!("{key},{name} {row}\n")).collect();
        std::fs::write(self.path(&format!("{name}.csv")), format!("id,v\n{rows},none\n")).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pin(&self, name: &str) -> String {
        vesica_net::Fingerprint::of_file(self.path(&format!("{name}.cert.pem"))).unwrap().to_string()
    }

    /// The job of one party, who meets the other at `port` if it is bob.
    pub fn job(&self, me: &str, port: u16, mine: &str) -> vesica_spec::Spec {
        let contact = match me {
            "alice" => format!("listen = \"127.0.0.1:{port}\""),
            _ => format!("connect = {{ alice = \"127.0.0.1:{port}\" }}"),
        };
        let peer = if me == "alice" { "bob" } else { "alice" };
        let tls = match self.tls {
            false => String::new(),
            true => {
                let identity = self.path(&format!("{me}.pem")).display().to_string();
                format!("tls = {{ identity = \"{identity}\", peers = {{ {peer} = \"{}\" }} }}", self.pin(peer))
            }
        };
        let learns = self.shared.contains(&format!("learns = [\"{me}\"")) || self.shared.contains("\"bob\"]");
        let output = match learns {
            true => format!("output = {{ path = \"{}\" }}", self.path(&format!("{me}.out.csv")).display()),
            false => String::new(),
        };
        let patience = if mine.contains("patience") { "" } else { "patience = \"30s\"" };
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\n{}\n[mine]\nname = \"{me}\"\n{contact}\n{patience}\n{tls}\n\
             input = {{ path = \"{}\", keys = [\"id\"] }}\n{output}\nworkers = 4\n{mine}\n",
            self.shared,
            self.path(&format!("{me}.csv")).display(),
        );
        vesica_spec::parse(&text).unwrap()
    }

    pub fn plan(&self, me: &str, port: u16, mine: &str) -> Plan {
        vesica_spec::plan(&self.job(me, port, mine)).unwrap()
    }

    /// Both run, with `mine` in their documents; bob dials `port`.
    fn run_at(&self, port: u16, mine: [&str; 2]) -> [Result<Report, JobError>; 2] {
        let [alice, bob] = [self.plan("alice", self.port, mine[0]), self.plan("bob", port, mine[1])];
        let bob = thread::spawn(move || whole(&bob));
        [whole(&alice), bob.join().unwrap()]
    }

    pub fn run(&self, mine: [&str; 2]) -> [Report; 2] {
        self.run_at(self.port, mine).map(Result::unwrap)
    }

    /// The outputs that there are, which are taken away.
    pub fn outputs(&self) -> [Option<String>; 2] {
        ["alice", "bob"].map(|name| {
            let path = self.path(&format!("{name}.out.csv"));
            let text = std::fs::read_to_string(&path).ok();
            let _ = std::fs::remove_file(path);
            text
        })
    }
}

/// The rows of the outputs side by side. Rows that line up stand in another order in each run; a single output is in the input's.
fn side_by_side([alice, bob]: [Option<String>; 2]) -> Vec<[String; 2]> {
    let lines =
        |text: &Option<String>| text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect::<Vec<_>>();
    let (mut left, mut right) = (lines(&alice), lines(&bob));
    let both = !left.is_empty() && !right.is_empty();
    let most = left.len().max(right.len());
    left.resize(most, String::new());
    right.resize(most, String::new());
    let mut rows: Vec<[String; 2]> = left.into_iter().zip(right).map(|(left, right)| [left, right]).collect();
    if both {
        rows.sort();
    }
    rows
}

fn whole(plan: &Plan) -> Result<Report, JobError> {
    run(plan, Io::files(plan).unwrap(), &Control::new(()))
}

const BOTH: &str = "learns = [\"alice\", \"bob\"]\nunit = 20";
const ALICE: &str = "learns = [\"alice\"]\nunit = 20";

/// The same rows side by side as without lanes, whoever asks for them and whoever learns.
#[test]
fn lanes_find_what_one_link_finds() {
    for (shared, mine) in [
        (format!("protocol = \"rr22\"\n{BOTH}"), ["lanes = 3", ""]),
        (format!("protocol = \"rr22\"\n{ALICE}"), ["", "lanes = 2"]),
        (format!("protocol = \"ecdh\"\n{BOTH}"), ["lanes = 2", "lanes = 5"]),
        (format!("protocol = \"ecdh\"\n{ALICE}"), ["lanes = 1", "lanes = 1"]),
    ] {
        let two = Two::new(&shared);
        let [alice, _] = two.run(["", ""]);
        assert_eq!(alice.chosen.lanes, 0);
        let plain = side_by_side(two.outputs());
        assert!(plain.len() > 150);
        let reports = two.run(mine);
        assert_eq!(side_by_side(two.outputs()), plain, "{shared}");
        let asked = mine.map(|mine| mine.strip_prefix("lanes = ").map_or(0, |n| n.parse::<u32>().unwrap()));
        for report in reports {
            assert_eq!(report.chosen.lanes, asked[0].max(asked[1]).min(report.chosen.units));
            assert_eq!(report.chosen.peers[0].attempts, 1);
            assert!(report.total.sent > 5_000 && report.total.received > 5_000, "{:?}", report.total);
        }
    }
}

/// Certificates of lanes are known over the first link.
#[test]
fn lanes_are_as_secure_as_the_first_link() {
    let two = Two::secure(&format!("protocol = \"rr22\"\n{ALICE}"));
    let [alice, _] = two.run(["lanes = 3", ""]);
    assert_eq!((alice.outcome.matched, alice.chosen.lanes), (Some(150), 3));
    assert!(alice.chosen.tls.contains("TLS 1.3"), "{}", alice.chosen.tls);
}

/// Passes connections on to `to`, and cuts each but the first after so many bytes, `times` in all.
fn cutting(to: u16, after: usize, times: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let cuts = Arc::new(AtomicUsize::new(0));
    let made = cuts.clone();
    thread::spawn(move || {
        for (number, here) in listener.incoming().enumerate() {
            let (Ok(here), Ok(there)) = (here, TcpStream::connect((Ipv4Addr::LOCALHOST, to))) else { continue };
            [&here, &there].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
            for (mut from, mut into, counts) in
                [(here.try_clone().unwrap(), there.try_clone().unwrap(), true), (there, here, false)]
            {
                let cuts = cuts.clone();
                thread::spawn(move || {
                    let (mut passed, mut chunk) = (0, [0; 4096]);
                    while let Ok(n @ 1..) = from.read(&mut chunk) {
                        passed += n;
                        let due = counts && number > 0 && passed > after;
                        if due
                            && cuts
                                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < times).then_some(n + 1))
                                .is_ok()
                        {
                            break;
                        }
                        if into.write_all(&chunk[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (port, made)
}

/// Links of lanes break in their first words, in their set-up and in their units; only the lane is done again, and the answers are
/// counted.
#[test]
fn a_lane_that_breaks_is_dialled_again() {
    for shared in [format!("protocol = \"rr22\"\n{BOTH}"), format!("protocol = \"ecdh\"\n{ALICE}")] {
        let two = Two::new(&shared);
        two.run(["", ""]);
        let plain = side_by_side(two.outputs());
        for after in [200, 20_000] {
            let (port, cuts) = cutting(two.port, after, 2);
            let reports = two.run_at(port, ["lanes = 3", ""]).map(Result::unwrap);
            assert_eq!(side_by_side(two.outputs()), plain, "{shared}, after {after}");
            let cuts = cuts.load(Ordering::SeqCst) as u64;
            assert!(after > 3_000 || cuts == 2, "{cuts} cuts after {after}");
            for report in reports {
                let attempts = report.chosen.peers[0].attempts;
                // A cut counts what was under way, and once more what was finished on this side alone.
                assert!(attempts <= 1 + 2 * cuts, "{attempts} attempts after {cuts} cuts");
            }
        }
    }
}

/// A lane that never holds ends the run, and not in a loop.
#[test]
fn a_lane_that_breaks_for_ever_ends_the_run() {
    let two = Two::new(&format!("protocol = \"ecdh\"\n{ALICE}"));
    let (port, _) = cutting(two.port, 100, usize::MAX);
    let ended = two.run_at(port, ["lanes = 2\npatience = \"2s\"", "patience = \"2s\""]);
    assert!(
        ended
            .iter()
            .all(|ended| ended.as_ref().is_err_and(|error| matches!(error.fault(), Fault::Network | Fault::Peer)))
    );
}

/// What a party receives depends on its input, its result and the sizes: here on the sizes alone, for bob learns nothing.
#[test]
fn lanes_tell_no_more_than_their_sizes() {
    let seen = |alice: std::ops::Range<u32>| {
        let two = Two::new(&format!("protocol = \"rr22\"\n{ALICE}"));
        two.write("alice", alice);
        two.write("bob", 1000..1200);
        let [alice, bob] = two.run(["lanes = 3", "lanes = 3"]);
        let steps = |report: &Report| {
            let of_match = report.cost.iter().filter(|step| step.phase == "match" && step.step != "match");
            of_match.map(|step| (step.step.clone(), step.sent, step.received)).collect::<BTreeSet<_>>()
        };
        (alice.outcome.matched, steps(&alice), steps(&bob))
    };
    let (none, all) = (seen(0..200), seen(1000..1200));
    assert_eq!((none.0, all.0), (Some(0), Some(200)));
    assert_eq!((none.1, none.2), (all.1, all.2));
}

/// Bob by hand: he has met alice, who runs, and agreed on lanes.
pub struct Bob {
    plan: Plan,
    _first: Peers,
    pub control: Lines,
    agreed: Agreed,
    certificates: Certificates,
}

impl Bob {
    pub fn meet(two: &Two, seats: u32) -> Self {
        let plan = two.plan("bob", two.port, "lanes = 2");
        let identity = plan.identity.as_ref().map(|files| peers::identity(files, &|| false).unwrap());
        let endpoint = peers::endpoint(&plan, identity.as_ref(), false, &Sockets).unwrap();
        let first = Peers::connect(&Sockets, endpoint, &Control::new(())).unwrap();
        let mut control = first.line("control").unwrap();
        let mut ledger = Ledger::new(1 << 20, two.dir.path());
        let mut rng = SessionRng::from_os().unwrap();
        let seen = first.certificates(&plan.me);
        let agreed = agree::agree(&plan, 210, &mut ledger, &mut control, &seen, &mut rng).unwrap();
        assert_eq!(agreed.lanes, 2);
        let certificate = identity.as_ref().map(|identity| identity.fingerprint().to_string());
        let theirs = Ends { doors: Vec::new(), seats, certificate }.swap(&mut control).unwrap();
        let certificates = Certificates { mine: identity, theirs: theirs.fingerprint().unwrap() };
        Self { plan, _first: first, control, agreed, certificates }
    }

    fn dial(&self, two: &Two, lane: u32) -> Result<Peers, JobError> {
        let (plan, salt, certificates) = (&self.plan, &self.agreed.salt, &self.certificates);
        let meeting = Meeting { plan, salt, certificates, peer: None, connector: &Sockets };
        let watcher = Watcher { ctl: Control::new(()), over: Arc::default() };
        meeting.dial(lane, &format!("127.0.0.1:{}", two.port), watcher)
    }

    /// He says that no unit of the lane is finished, asks for all of them, and breaks off when he has the answers of some. Says how many.
    fn ask_and_break(&self, two: &Two, lane: u32, link: &Peers) -> u64 {
        let answered = AtomicUsize::new(0);
        let asked = || -> Result<(), JobError> {
            let mut line = link.line("lane")?;
            let units = self.units(lane);
            line.peer()?.swap_exact(&vec![b'0'; units], units)?;
            let ctl = Control::new(());
            let (table, dir) = (vesica_table::open(&self.plan.input)?, two.dir.path());
            let keys = Keys::count(&*table, &self.plan, dir, &ctl)?;
            let (salt, sizes) = (&self.agreed.salt, self.agreed.sizes.clone());
            let cut = Units::cut(&*table, &self.plan, &keys, None, salt, sizes, 1, dir, &ctl)?;
            let mut rng = SessionRng::from_os().unwrap();
            let mut base = link.line("base")?;
            let terms = super::terms(&self.agreed.terms(), lane);
            let Opened::Units(protocol) = self.plan.suite.open(&self.plan.seat(), &terms, &mut base, &mut rng)? else {
                panic!("it works by units");
            };
            let share = super::share(lane, 2, self.agreed.sizes.units).collect();
            let one = |id, lines: &mut Lines| {
                let found = each::Ended::of(&*protocol, &cut, id, None, lines, &rng)?;
                answered.fetch_add(1, Ordering::SeqCst);
                Ok(found)
            };
            let some = |_, _| match answered.load(Ordering::SeqCst) {
                3.. => Err(JobError::Setup("that is enough".into())),
                now => Ok(now as u64),
            };
            each::all(share, 2, link, &AtWill, &ctl, one, some).map(drop)
        };
        let _ = asked();
        answered.load(Ordering::SeqCst) as u64
    }

    fn units(&self, lane: u32) -> usize {
        super::share(lane, 2, self.agreed.sizes.units).count()
    }
}

/// How alice's run ends, where bob does this once they have agreed.
fn alice_with(shared: &str, bob: impl FnOnce(&Two, Bob)) -> Result<Report, JobError> {
    let two = Two::new(shared);
    let alice = two.plan("alice", two.port, "lanes = 2");
    let alice = thread::spawn(move || whole(&alice));
    bob(&two, Bob::meet(&two, 2));
    alice.join().unwrap()
}

#[test]
fn first_words_of_a_lane_that_cannot_be_are_the_peers_fault() {
    type Words = fn(usize) -> Vec<u8>;
    let cases: [Words; 4] =
        [|units| vec![b'2'; units], |units| vec![b'0'; units + 1], |_| Vec::new(), |_| vec![0xff; 9]];
    for words in cases {
        let error = alice_with(&format!("protocol = \"rr22\"\n{BOTH}"), |two, bob| {
            let lane = bob.dial(two, 1).unwrap();
            let mut line = lane.line("lane").unwrap();
            line.peer().unwrap().send(&words(bob.units(1))).unwrap();
            let _ = line.peer().unwrap().recv(1 << 16);
            let _ = line.peer().unwrap().recv(1 << 16);
        });
        let error = error.unwrap_err();
        assert_eq!(error.fault(), Fault::Peer, "{error}");
        assert!(error.to_string().starts_with("bob broke the protocol"), "{error}");
    }
}

#[test]
fn who_says_that_lanes_are_done_that_are_not_is_accused() {
    let error = alice_with(&format!("protocol = \"rr22\"\n{BOTH}"), |_, mut bob| {
        bob.control.peer().unwrap().send(DONE).unwrap();
        let _ = bob.control.peer().unwrap().recv(1 << 16);
    });
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "bob broke the protocol: it says that all lanes are done, and they are not");
}

/// Alice alone learns, so her word rules: bob's "finished" neither spares him a unit nor gets him another.
#[test]
fn in_a_lane_too_the_learners_word_rules() {
    let error = alice_with(&format!("protocol = \"rr22\"\n{ALICE}"), |two, bob| {
        let lane = bob.dial(two, 0).unwrap();
        let mut line = lane.line("lane").unwrap();
        let theirs = line.peer().unwrap().swap_exact(&vec![b'1'; bob.units(0)], bob.units(0)).unwrap();
        assert_eq!(theirs, vec![b'0'; bob.units(0)]);
        // She begins with the set-up all the same, and bob leaves.
        let mut base = lane.line("base").unwrap();
        let _ = base.peer().unwrap().recv(1 << 20);
        lane.abort(&JobError::Setup("bob".into()));
        drop(lane);
        bob._first.abort(&JobError::Setup("bob".into()));
    });
    assert!(matches!(error.unwrap_err(), JobError::Session(vesica_session::Error::Stopped { .. })));
}

/// Bob begins a lane and breaks off, again and again: alice counts that as answers, and has enough of it.
#[test]
fn lanes_that_break_are_counted_as_answers() {
    let error = alice_with(&format!("protocol = \"rr22\"\n{BOTH}\nlimits.answers = 1"), |two, mut bob| {
        bob.plan.patience = std::time::Duration::from_secs(5);
        let mut times = 0;
        while bob._first.links()[0].ended().is_none() {
            let Ok(lane) = bob.dial(two, 0) else { break };
            let mut line = lane.line("lane").unwrap();
            let units = bob.units(0);
            let _ = line.peer().unwrap().swap_exact(&vec![b'0'; units], units);
            times += 1;
            // 11 units, of which up to 4 are under way when a lane breaks, and 11 answers.
            assert!(times < 10, "{times}");
        }
    });
    let error = error.unwrap_err();
    assert!(matches!(error, JobError::Answers { limit: 1, .. }), "{error}");
}

/// Bob learns. He says that all units of his lane are finished, breaks off, says that none is, is answered, and begins again. What he first
/// called finished was never counted again, so he was answered for as many keys as he liked.
#[test]
fn who_calls_units_finished_and_then_not_is_not_answered_for_nothing() {
    const ALLOWED: u64 = 3;
    let shared = format!("protocol = \"ecdh\"\nlearns = [\"bob\"]\nunit = 20\nlimits.answers = {ALLOWED}");
    let two = Two::new(&shared);
    let alice = two.plan("alice", two.port, "lanes = 2\npatience = \"3s\"");
    let alice = thread::spawn(move || whole(&alice));
    let mut bob = Bob::meet(&two, 2);
    bob.plan.patience = std::time::Duration::from_secs(5);
    let (mut answered, mut cycles) = (0, 0);
    while bob._first.links()[0].ended().is_none() && cycles < 60 {
        cycles += 1;
        if let Ok(lane) = bob.dial(&two, 0) {
            let mut line = lane.line("lane").unwrap();
            let units = bob.units(0);
            let _ = line.peer().unwrap().swap_exact(&vec![b'1'; units], units);
        }
        answered += bob.dial(&two, 0).map_or(0, |lane| bob.ask_and_break(&two, 0, &lane));
    }
    let error = alice.join().unwrap().unwrap_err();
    assert!(matches!(error, JobError::Answers { .. }) || error.fault() == Fault::Network, "{error}");
    let most = ALLOWED * u64::from(bob.agreed.sizes.units);
    assert!(answered <= most, "{answered} units were answered, and {most} are allowed");
    assert!(answered > 0 && cycles < 60, "{answered} in {cycles}");
}

/// A lane has one link at a time, a door has so many seats, and a run has lanes of its own.
#[test]
fn a_door_takes_each_lane_once_and_no_lane_of_another_run() {
    let ended = alice_with(&format!("protocol = \"rr22\"\n{ALICE}"), |two, mut bob| {
        let lane = bob.dial(two, 0).unwrap();
        bob.plan.patience = std::time::Duration::from_secs(4);
        let error = bob.dial(two, 0).map(drop).unwrap_err();
        assert!(error.to_string().contains("the link that this lane had before is not gone yet"), "{error}");
        bob.agreed.salt[0] ^= 1;
        let error = bob.dial(two, 1).map(drop).unwrap_err();
        assert!(error.to_string().contains("another job"), "{error}");
        // A name that is made up is none either, though whoever knows the salt can make it.
        let error = bob.dial(two, u32::MAX).map(drop).unwrap_err();
        assert!(error.to_string().contains("another job"), "{error}");
        // A party that comes to meet is told to come later, for as long as it likes to wait.
        let endpoint = peers::endpoint(&bob.plan, None, false, &Sockets).unwrap();
        let error = Peers::connect(&Sockets, endpoint, &Control::new(())).map(drop).unwrap_err();
        assert!(error.to_string().starts_with("alice did not come within 4 s"), "{error}");
        assert!(error.to_string().contains("is under way here, over lanes; try again later"), "{error}");
        drop(lane);
        bob._first.abort(&JobError::Setup("bob".into()));
    });
    assert!(ended.is_err());
}

/// Alice by hand, who listens.
struct Alice {
    plan: Plan,
    ledger: Ledger,
}

impl Alice {
    fn new(two: &Two) -> Self {
        Self { plan: two.plan("alice", two.port, "lanes = 2"), ledger: Ledger::new(1 << 20, two.dir.path()) }
    }

    fn meet(&mut self) -> (Peers, Lines, Agreed) {
        let identity = self.plan.identity.as_ref().map(|files| peers::identity(files, &|| false).unwrap());
        let endpoint = peers::endpoint(&self.plan, identity.as_ref(), false, &Sockets).unwrap();
        let first = Peers::connect(&Sockets, endpoint, &Control::new(())).unwrap();
        let mut control = first.line("control").unwrap();
        let mut rng = SessionRng::from_os().unwrap();
        let (ledger, seen) = (&mut self.ledger, first.certificates(&self.plan.me));
        let agreed = agree::agree(&self.plan, 200, ledger, &mut control, &seen, &mut rng).unwrap();
        (first, control, agreed)
    }

    /// What she and bob show on lanes.
    fn swap(&self, control: &mut Lines) -> Certificates {
        let mine = self.plan.identity.as_ref().map(|files| peers::identity(files, &|| false).unwrap());
        let certificate = mine.as_ref().map(|identity| identity.fingerprint().to_string());
        let theirs = Ends { doors: Vec::new(), seats: 2, certificate }.swap(control).unwrap();
        Certificates { mine, theirs: theirs.fingerprint().unwrap() }
    }
}

/// Jobs without TLS, where a name does not fit, and with it, where a certificate does not.
fn both_ways() -> [Two; 2] {
    let shared = format!("protocol = \"rr22\"\n{BOTH}");
    [Two::new(&shared), Two::secure(&shared)]
}

/// The first link breaks, and alice notices it late, so that bob comes to her door in place of a meeting.
#[test]
fn who_comes_to_meet_where_a_door_still_stands_comes_again() {
    for two in both_ways() {
        let bob = two.plan("bob", two.port, "lanes = 2");
        let bob = thread::spawn(move || whole(&bob));
        let mut alice = Alice::new(&two);
        let (first, mut control, agreed) = alice.meet();
        let (plan, certificates) = (alice.plan.clone(), alice.swap(&mut control));
        let peer = Authorities::default().trust(plan.peers[0].trust.as_ref(), &plan.peers[0].party).unwrap();
        let (salt, peer) = (&agreed.salt, peer.as_ref());
        let meeting = Meeting { plan: &plan, salt, certificates: &certificates, peer, connector: &Sockets };
        let watcher = Watcher { ctl: Control::new(()), over: Arc::default() };
        let door = meeting.door(2, plan.listen.as_deref().unwrap(), 2, watcher).unwrap();
        drop((first, control));
        thread::sleep(std::time::Duration::from_millis(1200));
        drop(door);
        let (first, _control, again) = alice.meet();
        assert_eq!(again.salt, agreed.salt);
        first.abort(&JobError::Setup("alice".into()));
        assert!(bob.join().unwrap().is_err());
    }
}

/// Bob is killed while lanes are at work, and started again before alice notices, who has a door where the parties meet. He waits there, and
/// is answered for nothing. When she notices, the two meet again.
#[test]
fn who_is_started_again_while_lanes_are_at_work_waits_until_the_other_side_notices() {
    for two in both_ways() {
        let alice = two.plan("alice", two.port, "lanes = 2");
        let alice = thread::spawn(move || whole(&alice));
        let before = Bob::meet(&two, 2);
        let lane = before.dial(&two, 0);
        let again = two.plan("bob", two.port, "");
        let bob = thread::spawn(move || whole(&again));
        thread::sleep(std::time::Duration::from_millis(1500));
        assert!(!bob.is_finished() && !alice.is_finished());
        drop((lane, before));
        let [alice, bob] = [alice, bob].map(|run| run.join().unwrap().unwrap());
        assert_eq!((alice.outcome.matched, bob.outcome.matched), (Some(150), Some(150)));
        // One attempt each that the first bob began, and one that ended well. His lane was begun and counts: it asked for nothing.
        assert_eq!(alice.chosen.peers[0].attempts, 2);
    }
}

/// The first link breaks, and bob notices it late, so that his lanes come to alice where she awaits a meeting.
#[test]
fn lanes_that_come_where_a_meeting_is_awaited_are_no_end_of_the_run() {
    for two in both_ways() {
        let bob = two.plan("bob", two.port, "lanes = 2");
        let bob = thread::spawn(move || whole(&bob));
        let mut alice = Alice::new(&two);
        let (first, mut control, agreed) = alice.meet();
        alice.swap(&mut control);
        let again = thread::spawn(move || alice.meet());
        thread::sleep(std::time::Duration::from_millis(1500));
        assert!(!bob.is_finished() && !again.is_finished());
        drop((first, control));
        let (first, _control, again) = again.join().unwrap();
        assert_eq!(again.salt, agreed.salt);
        first.abort(&JobError::Setup("alice".into()));
        assert!(bob.join().unwrap().is_err());
    }
}

#[test]
fn lanes_where_a_job_has_no_use_for_them_are_refused_by_name() {
    let two = Two::new("protocol = \"ecdh\"\nlearns = [\"alice\"]\nresult = \"count\"");
    let error = vesica_spec::plan(&two.job("bob", 1, "lanes = 2")).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("mine.lanes"));
    assert!(error.to_string().contains("works on all keys together"), "{error}");
    let two = Two::new(&format!("protocol = \"ecdh\"\n{ALICE}"));
    for lanes in ["lanes = 0", "lanes = 1025"] {
        let error = vesica_spec::plan(&two.job("alice", 1, lanes)).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("mine.lanes"));
    }
}
