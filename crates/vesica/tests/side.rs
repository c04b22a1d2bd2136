//! Two and three sides over connections of the caller's.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use vesica::{Connection, Control, Duplicates, Error, Fault, Found, Job, Joined, Memory, Protocol, ResultKind, Rows};
use vesica_job::identity::Identity;

const BOTH: [&str; 2] = ["alice", "bob"];

fn job(learns: &[&str]) -> Job {
    Job::new("a-test", &BOTH, Protocol::Rr22, learns)
}

fn find(job: &Job, who: &str, keys: &[&str], end: Connection) -> JoinHandle<Result<Found, Error>> {
    let (side, keys): (_, Vec<String>) = (job.side(who), keys.iter().map(|key| (*key).to_owned()).collect());
    thread::spawn(move || side.find(&keys, [end]))
}

fn both(job: &Job, alices: &[&str], bobs: &[&str]) -> [Result<Found, Error>; 2] {
    let (here, there) = Connection::pair().unwrap();
    let bob = find(job, "bob", bobs, there);
    [find(job, "alice", alices, here).join().unwrap(), bob.join().unwrap()]
}

#[test]
fn who_learns_gets_places_in_its_list_and_nobody_else_gets_any() {
    let [alice, bob] = both(&job(&["alice"]), &["c", "", "a", "x", "a"], &["a", "b", "c", ""]);
    let (alice, bob) = (alice.unwrap(), bob.unwrap());
    assert_eq!((alice.positions, bob.positions), (Some(vec![0, 2, 4]), None));
    assert_eq!((alice.report.outcome.matched, bob.report.outcome.matched), (Some(2), None));
    assert_eq!(alice.report.chosen.tls, "the caller's connection, which Vesica does not secure");
}

#[test]
fn where_both_learn_their_places_line_up() {
    let (alices, bobs) = (["k1", "k2", "k3", "k4", "k1"], ["k4", "k9", "k1", "k2"]);
    let [alice, bob] = both(&job(&BOTH), &alices, &bobs).map(|found| found.unwrap().positions.unwrap());
    let alice: Vec<_> = alice.iter().map(|&i| alices[i as usize]).collect();
    assert_eq!(alice, bob.iter().map(|&i| bobs[i as usize]).collect::<Vec<_>>());
    assert_eq!(alice.len(), 4);
}

#[test]
fn nothing_at_all_is_a_list_too() {
    let [alice, bob] = both(&job(&BOTH), &[], &["a"]);
    assert_eq!((alice.unwrap().positions, bob.unwrap().positions), (Some(vec![]), Some(vec![])));
}

#[test]
fn a_count_has_no_places() {
    let mut job = Job::new("a-count", &BOTH, Protocol::Ecdh, &["bob"]);
    job.shared.result = ResultKind::Count;
    let [alice, bob] = both(&job, &["a", "b"], &["b", "c"]);
    let bob = bob.unwrap();
    assert_eq!((alice.unwrap().positions, bob.positions, bob.report.outcome.matched), (None, None, Some(1)));
}

#[test]
fn three_parties_bring_a_connection_for_each_other_one() {
    let names = ["alice", "bob", "carol"];
    let mut job = Job::new("three", &names, Protocol::Ecdh, &names);
    job.shared.duplicates = Duplicates::First;
    job.shared.accept = vesica::Accept::Named(vec![vesica::Extra::PairCount]);
    let pair = || Connection::pair().unwrap();
    let [(ab, ba), (ac, ca), (bc, cb)] = [pair(), pair(), pair()];
    let run = |who: &str, keys: [&'static str; 3], ends: [Connection; 2]| {
        let side = job.side(who);
        thread::spawn(move || side.find(&keys, ends).unwrap().positions)
    };
    let sides = [
        run("alice", ["x", "y", "a"], [ab, ac]),
        run("bob", ["y", "x", "b"], [ba, bc]),
        run("carol", ["c", "y", "z"], [ca, cb]),
    ];
    let [alice, bob, carol] = sides.map(|side| side.join().unwrap());
    assert_eq!((alice, bob, carol), (Some(vec![1]), Some(vec![0]), Some(vec![1])));
}

/// A pipe in pieces that make no sense: what a bad transport does to bytes, without losing one.
struct Dribble<T>(T, usize);

impl<T: Read> Read for Dribble<T> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 1021 + 1;
        let n = self.1.min(buf.len());
        self.0.read(&mut buf[..n])
    }
}

impl<T: Write> Write for Dribble<T> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 997 + 1;
        self.0.write(&buf[..self.1.min(buf.len())])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn tcp() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [dialled, listener.accept().unwrap().0]
}

#[test]
fn tls_runs_over_any_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let pins = BOTH.map(|name| {
        let identity = Identity::generate(name).unwrap();
        identity.write(dir.path()).unwrap();
        identity.fingerprint().to_string()
    });
    let ends = tcp().map(|socket| {
        let reader = Dribble(socket.try_clone().unwrap(), 0);
        Connection::from_bytes(reader, Dribble(socket, 0)).unwrap()
    });
    let [here, there] = ends;
    let job = job(&["bob"]);
    let alice = job.side("alice").tls(dir.path().join("alice.pem"), &[("bob", &pins[1])]);
    let bob = job.side("bob").tls(dir.path().join("bob.pem"), &[("alice", &pins[0])]);
    let keys: Vec<String> = (0..2000).map(|i| format!("{i:05}")).collect();
    let more = keys[..700].to_vec();
    let alice = thread::spawn(move || alice.find(&more, [here]).unwrap());
    let found = bob.find(&keys, [there]).unwrap();
    assert_eq!(found.positions, Some((0..700).collect()));
    assert!(found.report.chosen.tls.starts_with("TLS 1.3, mutual, pinned"), "{}", found.report.chosen.tls);
    alice.join().unwrap();
}

#[test]
fn somebody_else_at_the_other_end_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let pins = ["alice", "bob", "mallory"].map(|name| {
        let identity = Identity::generate(name).unwrap();
        identity.write(dir.path()).unwrap();
        identity.fingerprint().to_string()
    });
    let (here, there) = Connection::pair().unwrap();
    let alice = job(&["alice"]).side("alice").tls(dir.path().join("alice.pem"), &[("bob", &pins[1])]);
    let mallory = job(&["alice"]).side("bob").tls(dir.path().join("mallory.pem"), &[("alice", &pins[0])]);
    let mallory = thread::spawn(move || mallory.find(&["a"], [there]));
    let error = alice.find(&["a"], [here]).unwrap_err();
    assert_eq!(error.fault(), Fault::Peer, "{error}");
    assert!(error.to_string().contains("bob"), "{error}");
    mallory.join().unwrap().unwrap_err();
}

#[test]
fn sides_that_hold_different_jobs_say_in_what() {
    let (here, there) = Connection::pair().unwrap();
    let bob = find(&job(&BOTH), "bob", &["a"], there);
    let error = find(&job(&["alice"]), "alice", &["a"], here).join().unwrap().unwrap_err();
    assert!(matches!(error, Error::Disagree { .. }) && error.to_string().contains("learns"), "{error}");
    bob.join().unwrap().unwrap_err();
}

#[test]
fn a_connection_that_breaks_ends_the_run_as_a_fault_of_the_network() {
    let (here, there) = Connection::pair().unwrap();
    drop(there);
    let start = Instant::now();
    let error = find(&job(&BOTH), "alice", &["a"], here).join().unwrap().unwrap_err();
    assert_eq!(error.fault(), Fault::Network, "{error}");
    assert!(error.to_string().contains("bob") && start.elapsed() < Duration::from_secs(10), "{error}");
}

#[test]
fn who_says_nothing_is_waited_for_no_longer_than_patience_or_a_stop() {
    let (here, _there) = Connection::pair().unwrap();
    let side = job(&BOTH).side("alice").patience(Duration::from_millis(200));
    assert_eq!(side.find(&["a"], [here]).unwrap_err().fault(), Fault::Network);

    let ((here, _there), ctl) = (Connection::pair().unwrap(), Control::new(()));
    let side = job(&BOTH).side("alice").watched(&ctl);
    let waiting = thread::spawn(move || side.find(&["a"], [here]));
    thread::sleep(Duration::from_millis(50));
    ctl.cancel();
    assert_eq!(waiting.join().unwrap().unwrap_err().fault(), Fault::Interrupted);
}

#[test]
fn too_few_connections_are_counted() {
    let error = job(&BOTH).side("alice").find(&["a"], Connection::pair().map(|(a, b)| [a, b]).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("2 connections for 1 peers"), "{error}");
}

fn batch(keys: &[&str]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
    let places: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
    RecordBatch::try_from_iter([("id", ids), ("place", places)]).unwrap()
}

fn ids(rows: Rows) -> Vec<String> {
    rows.flat_map(|batch| {
        let batch = batch.unwrap();
        assert_eq!(batch.num_columns(), 2);
        batch.column(0).as_string::<i32>().iter().map(|id| id.unwrap().to_owned()).collect::<Vec<_>>()
    })
    .collect()
}

fn reader(keys: &[&str]) -> impl RecordBatchReader + use<> {
    RecordBatchIterator::new([Ok(batch(&keys[..1])), Ok(batch(&keys[1..]))], batch(keys).schema())
}

#[test]
fn a_stream_meets_a_table_in_memory() {
    let (job, dir) = (job(&BOTH), tempfile::tempdir().unwrap());
    let (here, there) = Connection::pair().unwrap();
    let (alice, bob) = (job.side("alice").scratch(dir.path()), job.side("bob"));
    let bob = thread::spawn(move || {
        let batch = batch(&["007", "9", "12"]);
        bob.table(batch.schema(), vec![batch], &["id"], [there]).map(|Joined { rows, .. }| ids(rows.unwrap()))
    });
    let joined = alice.memory(64 << 20).stream(reader(&["12", "007", "7"]), &["id"], [here]).unwrap();
    let rows = ids(joined.rows.unwrap());
    assert_eq!(rows, bob.join().unwrap().unwrap());
    assert_eq!(rows.iter().collect::<std::collections::BTreeSet<_>>().len(), 2);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_key_that_is_not_there_is_named_before_anybody_is_met() {
    let (here, _there) = Connection::pair().unwrap();
    let error = job(&BOTH).side("alice").stream(reader(&["a", "b"]), &["ID"], [here]).err().unwrap();
    assert!(error.to_string().contains("\"ID\"") && error.to_string().contains("id"), "{error}");
}

#[test]
fn both_sides_in_one_process_tell_what_was_wrong_and_not_its_echo() {
    let table = |keys: &[&str]| {
        let batch = batch(keys);
        Box::new(Memory::new("a table", batch.schema(), vec![batch]).unwrap())
    };
    let mut strict = job(&BOTH);
    strict.shared.duplicates = Duplicates::Error;
    let keys = || vec!["id".to_owned()];
    for (left, right) in [(["a", "b"], ["c", "c"]), (["c", "c"], ["a", "b"])] {
        let error = strict.here([(table(&left), keys()), (table(&right), keys())], &Control::new(())).err().unwrap();
        assert!(matches!(error, Error::Repeats { .. }), "{error}");
    }
    let [left, right] =
        job(&BOTH).here([(table(&["a", "b", "c"]), keys()), (table(&["c", "a"]), keys())], &Control::new(())).unwrap();
    let (left, right) = (ids(left.rows.unwrap()), ids(right.rows.unwrap()));
    assert_eq!((left.len(), left), (2, right));
}
