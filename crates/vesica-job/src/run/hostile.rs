//! A partner that breaks off and comes back, over whole runs: what it sees, and how often it is answered. Alice is a real run;
//! Bob is played by hand, from the same pieces.

use super::*;
use crate::meet::agree::{Agreed, Counted, Purpose};
use crate::meet::answers::Answers;
use crate::meet::peers;
use crate::session::DONE;
use crate::world::World;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use vesica_net::{PeerProgress, Sockets};
use vesica_testkit::port;

/// A job of some units, without TLS.
struct Job {
    dir: tempfile::TempDir,
    alice: Plan,
    bob: Plan,
}

impl Job {
    /// `shared` and `mine` are lines of the job files; the latter of Alice's.
    fn new(learner: &str, shared: &str, mine: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        let port = port();
        let plan = |me: &str, contact: String, mine: &str| {
            let path = |name: &str| dir.path().join(name).display().to_string();
            let output = format!("output = {{ path = \"{}\" }}", path("out/rows.csv"));
            let text = format!(
                "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nlearns = [\"{learner}\"]\ninsecure = true\n{shared}\n\
                 [mine]\nname = \"{me}\"\n{contact}\ninput = {{ path = \"{}\", keys = [\"id\"] }}\n{}\n{}\n",
                path(&format!("{me}.csv")),
                if me == learner { &output } else { "" },
                mine.replace("DIR", &path("resume")),
            );
            vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
        };
        let alice = plan("alice", format!("listen = \"127.0.0.1:{port}\"\npatience = \"20s\""), mine);
        let bob = plan("bob", format!("connect = {{ alice = \"127.0.0.1:{port}\" }}\npatience = \"20s\""), "");
        Self { dir, alice, bob }
    }

    fn write(&self, name: &str, keys: impl IntoIterator<Item = u32>) {
        let rows: String = keys.into_iter().map(|key| format!("{key}\n")).collect();
        std::fs::write(self.dir.path().join(name), format!("id\n{rows}")).unwrap();
    }

    /// Alice's run, to its end.
    fn alice(&self) -> JoinHandle<Result<Report, JobError>> {
        let plan = self.alice.clone();
        thread::spawn(move || run(&plan, Io::files(&plan).unwrap(), &Control::new(())))
    }

    /// Bob's keys from his file.
    fn keys(&self) -> Keys {
        let table = vesica_table::open(&self.bob.input).unwrap();
        Keys::count(&*table, &self.bob, self.dir.path(), &Control::new(())).unwrap()
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(1 << 20, self.dir.path())
    }

    fn connect(&self) -> Result<Peers, JobError> {
        Peers::connect(&Sockets, peers::endpoint(&self.bob, None, false, &Sockets).unwrap(), &Control::new(()))
    }

    /// Bob connects, and agrees with what `ledger` remembers.
    fn meet(&self, keys: &Keys, ledger: &mut Ledger) -> Result<(Peers, Lines, Agreed), JobError> {
        self.meet_as(&self.bob, keys, ledger)
    }

    /// The same with another plan of his.
    fn meet_as(&self, bob: &Plan, keys: &Keys, ledger: &mut Ledger) -> Result<(Peers, Lines, Agreed), JobError> {
        let link = self.connect()?;
        let mut control = link.line("control")?;
        let mut rng = SessionRng::from_os().unwrap();
        let seen = link.certificates(&bob.me);
        let agreed = agree::agree(bob, keys.distinct, ledger, &mut control, &seen, &mut rng)?;
        Ok((link, control, agreed))
    }

    /// Bob runs his side of the units that are to be done. Says what it cost.
    fn units(&self, keys: &Keys, agreed: &Agreed, ledger: &mut Ledger, link: &Peers) -> Result<String, JobError> {
        let dir: &Path = self.dir.path();
        let (ctl, mut rng) = (Control::new(()), SessionRng::from_os().unwrap());
        let (table, sizes) = (vesica_table::open(&self.bob.input).unwrap(), agreed.sizes.clone());
        let units = Units::cut(&*table, &self.bob, keys, None, &agreed.salt, sizes, 1, dir, &ctl)?;
        let (done, left) = (&agreed.done, &mut None);
        let work = Work {
            units: &units,
            done,
            both: None,
            values: None,
            left,
            ledger,
            peers: link,
            scratch: dir,
            world: &World::default(),
            ctl: &ctl,
        };
        let meter = open_and_run(&self.bob, &agreed.terms(), work, &mut rng)?;
        let steps = meter.steps.iter().map(|s| format!("{}: {} {} {}", s.name, s.sent, s.received, s.rounds));
        Ok(steps.collect::<Vec<_>>().join(", "))
    }
}

/// Waits until Alice has finished all her units.
fn until_alice_is_done(link: &Peers) {
    let done = |p: &PeerProgress| p.phase != "match" || Some(p.done) == p.total;
    for _ in 0..6000 {
        if link.links()[0].peer_progress().is_some_and(|p| done(&p)) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("alice did not finish her units");
}

/// What a Bob who does not learn sees, if he lets Alice finish all units with keys 1000.., breaks off, and comes back with the
/// run but without its units, and with `key` in the place of one of his. Also what Alice found.
fn seen_by_who_redoes_with(key: u32, shared: &str) -> (Vec<String>, Option<u64>) {
    let job = Job::new("alice", shared, "");
    job.write("alice.csv", 0..100);
    job.write("bob.csv", (50..100).chain(1000..1050));
    let alice = job.alice();
    let (keys, mut ledger) = (job.keys(), job.ledger());
    let (link, control, agreed) = job.meet(&keys, &mut ledger).unwrap();
    job.units(&keys, &agreed, &mut ledger, &link).unwrap();
    until_alice_is_done(&link);
    let start = ledger.started().unwrap().clone();
    drop((control, link));

    job.write("bob.csv", (50..100).chain(1000..1049).chain([key]));
    let (keys, mut ledger) = (job.keys(), job.ledger());
    ledger.start(start).unwrap();
    let (link, control, agreed) = job.meet(&keys, &mut ledger).unwrap();
    let mut seen = vec![format!("to be done: {}", agreed.done.iter().filter(|done| !**done).count())];
    let words = |result: Result<String, JobError>| result.unwrap_or_else(|error| error.to_string());
    seen.push(words(job.units(&keys, &agreed, &mut ledger, &link)));
    seen.push(words(last_words(&link, control)));
    drop(link);
    (seen, alice.join().unwrap().ok().and_then(|report| report.outcome.matched))
}

/// Bob says that he is done, and hears the same.
fn last_words(link: &Peers, mut control: Lines) -> Result<String, JobError> {
    let theirs = control.peer()?.swap_exact(&DONE, 32)?;
    drop(control);
    link.close()?;
    Ok(format!("finished with {theirs:?}"))
}

/// The result that Alice has committed is not asked for again with another key; if it could be, whether her second result differs
/// would tell Bob whether she holds the key.
#[test]
fn who_redoes_units_with_another_key_does_not_see_whether_it_is_common() {
    for shared in [
        "protocol = \"rr22\"\nunit = 20",
        "protocol = \"rr22\"\nsecurity = \"malicious\"\nunit = 20",
        "protocol = \"kkrt\"\nunit = 40",
        "protocol = \"ecdh-oprf\"\nunit = 20",
        "protocol = \"ot\"\nsecurity = \"malicious\"\nunit = 40",
        "protocol = \"mini-psi\"\nsecurity = \"malicious\"\nunit = 20",
        "protocol = \"bc22\"\nsecurity = \"malicious\"\nunit = 20",
        "protocol = \"ecdh\"\nunit = 20",
    ] {
        let (common, found) = seen_by_who_redoes_with(7, shared);
        let (not_common, found_too) = seen_by_who_redoes_with(2000, shared);
        assert_eq!(common, not_common, "{shared}");
        assert_eq!(common[0], "to be done: 0", "{shared}");
        // Nothing is wrong on Alice's side, and what she found first stands.
        assert_eq!((found, found_too), (Some(50), Some(50)), "{shared}: {common:?}");
    }
}

/// How a Bob who learns is answered who forgets the run again and again, and what Alice's run ends with.
fn answered(job: &Job, mut forget: impl FnMut(u32) -> bool) -> (u32, JobError) {
    let alice = job.alice();
    let mut answered = 0;
    for attempt in 0..20 {
        if alice.is_finished() {
            break;
        }
        let (keys, mut ledger) = (job.keys(), job.ledger());
        let Ok((link, _control, agreed)) = job.meet(&keys, &mut ledger) else { break };
        if job.units(&keys, &agreed, &mut ledger, &link).is_ok() {
            answered += 1;
        }
        if !forget(attempt) {
            break;
        }
    }
    (answered, alice.join().unwrap().unwrap_err())
}

fn learning_bob(shared: &str, mine: &str) -> Job {
    let job = Job::new("bob", &format!("protocol = \"rr22\"\nunit = 20\n{shared}"), mine);
    job.write("alice.csv", 0..100);
    job.write("bob.csv", 50..150);
    job
}

#[test]
fn who_forgets_the_run_is_answered_as_often_as_the_job_allows() {
    let job = learning_bob("limits.answers = 3", "");
    let (times, error) = answered(&job, |_| true);
    assert_eq!(times, 3);
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("bob would be answered more than 3 times for each of its keys"), "{error}");
}

/// A new process of Alice's has not forgotten what the one before it answered.
#[test]
fn answers_count_over_processes_with_a_ledger() {
    let job = learning_bob("limits.answers = 3", "resume = \"DIR\"");
    for left in [2, 1] {
        let alice = job.alice();
        let (keys, mut ledger) = (job.keys(), job.ledger());
        let (link, _control, agreed) = job.meet(&keys, &mut ledger).unwrap();
        job.units(&keys, &agreed, &mut ledger, &link).unwrap();
        // Alice's process ends.
        link.links()[0].abort(Fault::Interrupted, "the test goes on");
        assert!(alice.join().unwrap().is_err(), "{left}");
    }
    let (times, error) = answered(&job, |_| true);
    assert_eq!(times, 1);
    assert!(matches!(error, JobError::Answers { limit: 3, .. }), "{error}");
}

/// The number of units follows from what the parties say of their workers and memory. Bob, who learns, says that he has one worker,
/// takes all answers that he gets, forgets the run each time, and then says that he has more workers. Before units counted as parts of the job, the few large units of his first runs
/// counted like small ones, and he was answered 21 times for each of his keys where 8 times are allowed.
#[test]
fn who_changes_the_number_of_units_is_answered_no_more_often() {
    const KEYS: u32 = 1 << 16;
    let shared = "protocol = \"rr22\"\nlimits.answers = 8";
    let mut job = Job::new("bob", shared, "resume = \"DIR\"\nworkers = 8");
    job.write("alice.csv", 0..KEYS);
    job.write("bob.csv", KEYS / 2..KEYS / 2 + KEYS);
    job.bob.patience = Duration::from_secs(2);
    let keys = job.keys();
    let (mut answered, mut most) = (0, 0);
    for workers in 1..=8 {
        let mut bob = job.bob.clone();
        bob.workers = workers;
        // Until he has had enough of it, with this number of units.
        loop {
            let alice = job.alice();
            while !alice.is_finished() {
                let mut ledger = job.ledger();
                let Ok((link, _control, agreed)) = job.meet_as(&bob, &keys, &mut ledger) else { continue };
                let (units, capacity) = (u64::from(agreed.sizes.units), agreed.sizes.capacity(1));
                most = most.max(units * capacity);
                if job.units(&keys, &agreed, &mut ledger, &link).is_ok() {
                    answered += units * capacity;
                }
            }
            match alice.join().unwrap().unwrap_err() {
                JobError::Answers { limit: 8, .. } => break,
                // So many breaks in a row. Her next process goes on with her ledger.
                error => assert_eq!(error.fault(), Fault::Network, "{error}"),
            }
        }
    }
    assert!(answered <= 8 * most, "{answered} keys were answered, and {} are allowed", 8 * most);
    assert!(answered > 4 * most, "{answered} of {most}");
}

#[test]
fn who_comes_back_with_another_number_of_keys_is_refused_by_name() {
    let job = learning_bob("", "");
    let (times, error) = answered(&job, |_| {
        job.write("bob.csv", 50..151);
        true
    });
    assert_eq!(times, 1);
    assert_eq!(error.fault(), Fault::Peer);
    let words = error.to_string();
    assert!(words.contains("bob comes back with 101 distinct keys and had 100"), "{words}");
}

/// Who sees Alice's coins before it opens its own, and drops the connection if it does not like the salt, has had an attempt: as
/// many as answers where all units are under way at once, and 64 at most where one is.
#[test]
fn coins_are_not_tossed_for_ever() {
    coins_are_tossed_at_most(3, "");
    // So many breaks in a row would end a run sooner; each process of Alice's takes some of them.
    coins_are_tossed_at_most(64, "workers = 1\nresume = \"DIR\"");
}

fn coins_are_tossed_at_most(most: u32, mine: &str) {
    let job = learning_bob("limits.answers = 3", mine);
    let keys = job.keys();
    let toss = || -> Result<(), JobError> {
        let link = job.connect()?;
        let mut control = link.line("control")?;
        let control = control.peer()?;
        let hello = agree::hello(&job.bob, Purpose::Run, Counted::Now(keys.distinct), &job.ledger(), &[0; 32]);
        control.swap(&serde_json::to_vec(&hello).unwrap(), 1 << 20)?;
        control.swap_exact(&[7; 32], 32)?;
        Ok(control.recv_exact(64).map(drop)?)
    };
    let mut opened = 0;
    loop {
        let alice = job.alice();
        while !alice.is_finished() && toss().is_ok() {
            opened += 1;
        }
        let error = alice.join().unwrap().unwrap_err();
        if matches!(error, JobError::Answers { limit: 3, .. }) {
            break;
        }
        assert_eq!(error.fault(), Fault::Network, "{error}");
        assert!(opened <= most, "{opened}");
    }
    assert!((1..=most).contains(&opened), "{opened}");
}

/// A Bob who checks again and again is met twice a second, and makes Alice's patience no longer.
#[test]
fn who_checks_without_end_does_not_keep_a_run_beyond_its_patience() {
    let mut job = learning_bob("", "");
    (job.alice.patience, job.bob.patience) = (Duration::from_secs(3), Duration::from_secs(1));
    let (keys, began) = (job.keys(), Instant::now());
    let alice = job.alice();
    let check = || -> Result<(), JobError> {
        let link = job.connect()?;
        let mut control = link.line("control")?;
        let (counted, seen) = (Counted::Now(keys.distinct), link.certificates(&job.bob.me));
        agree::greet(&job.bob, Purpose::Check, counted, &job.ledger(), &mut control, &seen)?;
        drop(control);
        Ok(link.close()?)
    };
    let mut checks = 0;
    while !alice.is_finished() {
        assert!(began.elapsed() < Duration::from_secs(30), "alice still runs after {checks} checks");
        checks += u32::from(check().is_ok());
    }
    let error = alice.join().unwrap().unwrap_err();
    assert_eq!(error.fault(), Fault::Network);
    assert!(error.to_string().contains("it has only checked the job"), "{error}");
    assert!((1..=7).contains(&checks), "{checks}");
}

/// A check that is interrupted when it has met a run, and has said nothing yet, does not end that run. It is no attempt and no break:
/// five breaks would end the run.
#[test]
fn checks_that_are_given_up_leave_a_run_waiting() {
    let job = learning_bob("", "");
    let alice = job.alice();
    for _ in 0..6 {
        job.connect().unwrap().leave_check(&vesica_session::Error::Cancelled.into());
    }
    let bob = run(&job.bob, Io::files(&job.bob).unwrap(), &Control::new(())).unwrap();
    for report in [bob, alice.join().unwrap().unwrap()] {
        assert_eq!(report.chosen.peers[0].attempts, 1);
    }
}

/// A connection that breaks in the place of a goodbye takes nothing from what a check has found.
#[test]
fn a_check_that_has_agreed_needs_no_goodbye() {
    let job = learning_bob("", "");
    let plan = job.alice.clone();
    let alice = thread::spawn(move || crate::check(&plan, Io::files(&plan).unwrap(), &Control::new(()), true));
    let (keys, link) = (job.keys(), job.connect().unwrap());
    let mut control = link.line("control").unwrap();
    let (counted, seen) = (Counted::Now(keys.distinct), link.certificates(&job.bob.me));
    let met = agree::greet(&job.bob, Purpose::Run, counted, &job.ledger(), &mut control, &seen).map(drop);
    assert!(matches!(met, Err(JobError::Checked { .. })));
    // Alice ends her line when she has heard all that she came for.
    control.peer().unwrap().recv(1).unwrap_err();
    link.leave_check(&vesica_session::Error::Cancelled.into());
    alice.join().unwrap().unwrap();
}

/// What one brings beyond the limit is told on both sides, before anything is matched.
#[test]
fn more_keys_than_the_limit_are_refused_on_both_sides() {
    let job = learning_bob("limits.max_keys = 99", "");
    let alice = job.alice();
    let bob = run(&job.bob, Io::files(&job.bob).unwrap(), &Control::new(())).unwrap_err();
    for error in [bob, alice.join().unwrap().unwrap_err()] {
        assert_eq!(error.fault(), Fault::Input);
        assert!(error.to_string().contains("brings 100 distinct keys"), "{error}");
    }
}

#[test]
fn an_undisturbed_run_is_one_attempt_and_is_reported_as_such() {
    let job = learning_bob("", "");
    let alice = job.alice();
    let bob = run(&job.bob, Io::files(&job.bob).unwrap(), &Control::new(())).unwrap();
    for report in [bob, alice.join().unwrap().unwrap()] {
        let peer = &report.chosen.peers[0];
        let padded = u64::from(report.chosen.units) * peer.unit_capacity;
        assert_eq!((peer.attempts, peer.answered), (1, padded));
    }
    assert_eq!(Answers::default().units(), 0);
}

/// Where Alice alone learns, Bob has her last word before she writes: from when it comes he cannot tell how much she writes, nor
/// whether she can. What she cannot write she writes later, without Bob.
#[test]
fn who_does_not_learn_is_done_before_the_output_is_written() {
    let job = Job::new("alice", "protocol = \"rr22\"\nunit = 20", "resume = \"DIR\"");
    job.write("alice.csv", 0..100);
    job.write("bob.csv", 50..150);
    let alice = job.alice();
    let (keys, mut ledger) = (job.keys(), job.ledger());
    let (link, control, agreed) = job.meet(&keys, &mut ledger).unwrap();
    std::fs::remove_dir_all(job.dir.path().join("out")).unwrap();
    job.units(&keys, &agreed, &mut ledger, &link).unwrap();
    last_words(&link, control).unwrap();
    drop(link);
    let error = alice.join().unwrap().unwrap_err();
    assert!(matches!(error, JobError::Table(_)), "{error}");

    std::fs::create_dir(job.dir.path().join("out")).unwrap();
    let alone = Plan { patience: Duration::from_millis(100), ..job.alice.clone() };
    let report = run(&alone, Io::files(&alone).unwrap(), &Control::new(())).unwrap();
    assert_eq!((report.outcome.matched, report.outcome.output.unwrap().rows), (Some(50), 50));
    assert!(!job.dir.path().join("resume/alice.ledger").exists());
}
