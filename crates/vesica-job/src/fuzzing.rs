//! Doors to the decoders of this crate for the fuzzing targets, which stand outside the workspace and see only what is public.
//! Nothing else uses them, and they are no part of what this crate promises.

use crate::error::JobError;
use crate::input::keys::{KeyId, Reading};
use crate::input::parted::{RECORD, ROW, to_bytes};
use crate::lanes::hello::{Ends, finished};
use crate::meet::agree;
use crate::seal::kept::Kept;
use crate::seal::key::Given;
use crate::seal::ledger::{self, Ledger};
use crate::seal::log::Log;
use crate::seal::record::{Head, Record, Start};
use crate::tell::control::Control;
use crate::units::found::{Match, OfUnit};
use crate::world::World;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use vesica_session::{Channel, Error, Fault, Lines, SessionRng, memory};
use vesica_spec::{Duplicates, Plan};
use vesica_suite::Sizes;
use vesica_types::{Coins, TagLen, UnitId};
use zeroize::Zeroizing;

/// The run that this side would go on with: two of its three units are finished.
fn began() -> Start {
    let tag_len = TagLen::new(9).expect("a length of tags");
    let sizes = Sizes { units: 3, in_flight: 2, keys: vec![6, 8], capacities: vec![4, 5], tag_len };
    Start { salt: [7; 32], coins: Coins::new([0; 32]), sizes, lists: vec![0; 2] }
}

/// A ledger in memory that holds [`began`].
fn unfinished(scratch: &Path) -> Result<Ledger, JobError> {
    let mut ledger = Ledger::new(1 << 20, scratch);
    ledger.start(began())?;
    for (id, place) in [(UnitId(0), 2), (UnitId(2), 3)] {
        ledger.commit(id, &[3; 32], &[Match { key: KeyId::new(id, place), rows: 2, times: 1 }])?;
    }
    Ok(ledger)
}

fn rng() -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([1; 32]))
}

/// The first words of a job: the peer says `messages`, one after the other. Where the second one is empty, it is the
/// commitment to the third, as an honest peer's is.
///
/// # Panics
/// If anything ends this side but a word of the peer's, or if the parties would run with sizes that cannot be.
pub fn agree(plan: &Plan, messages: [&[u8]; 3], scratch: &Path) {
    let (here, mut there) = memory::pair(&plan.me, &plan.peers[0].party);
    let mut here = Lines::new(vec![Box::new(here)]);
    let [hello, commitment, opening] = messages;
    let honest = agree::commitment(&agree::session(plan, &[]), &plan.peers[0].party, opening);
    let commitment = if commitment.is_empty() { &honest } else { commitment };
    for message in [hello, commitment, opening] {
        there.send(message).expect("the pipe takes three messages");
    }
    drop(there);
    let mut ledger = unfinished(scratch).expect("a ledger in memory");
    match agree::agree(plan, 6, &mut ledger, &mut here, &[], &mut rng()) {
        Ok(agreed) => {
            assert_eq!(agreed.done.len(), agreed.sizes.units as usize);
            assert!(agreed.sizes.units <= 1 << 16 && agreed.sizes.in_flight <= plan.workers, "{:?}", agreed.sizes);
            assert!(agreed.sizes.keys.iter().all(|&keys| keys <= vesica_spec::MAX_KEYS));
            assert!(agreed.versions.iter().all(|version| version.len() <= 32));
        }
        Err(error) => {
            let fault = error.fault();
            assert!(matches!(fault, Fault::Config | Fault::Peer | Fault::Network), "{fault:?}: {error}");
            assert!(!error.to_string().replace('\n', " ").contains(char::is_control), "{error:?}");
        }
    }
}

/// What an honest peer of `plan`'s party, which is `peer`'s, says in [`agree`]; `resumed` if it goes on with the same run.
pub fn honest_words(plan: &Plan, peer: &Plan, resumed: bool, scratch: &Path) -> Vec<Vec<u8>> {
    let (mut here, there) = memory::pair(&plan.me, &peer.me);
    let mut there = Lines::new(vec![Box::new(there)]);
    std::thread::scope(|scope| {
        // The other end is dropped with the peer, so that nobody waits for a peer that is gone.
        scope.spawn(move || {
            let mut ledger = if resumed { unfinished(scratch)? } else { Ledger::new(1 << 20, scratch) };
            agree::agree(peer, 8, &mut ledger, &mut there, &[], &mut rng())
        });
        let said = (0..3).map_while(|turn| {
            // A hello as good as its own, and then coins that are not committed to.
            let words = here.recv(1 << 20).ok()?;
            let answer = if turn == 0 { words.clone() } else { vec![0; 32] };
            here.send(&answer).ok().map(|()| words)
        });
        said.collect()
    })
}

/// What this side says of its lanes; `secure` if these show a certificate.
fn ends(secure: bool, doors: Vec<String>) -> Ends {
    Ends { doors, seats: 2, certificate: secure.then(|| format!("sha256:{}", "5a".repeat(32))) }
}

/// The lanes of a run: the peer says `doors` over the first link, and `theirs` as the first words of a lane, of whose units this side has
/// finished `mine`.
///
/// # Panics
/// If anything ends this side but a word of the peer's, or if it goes on with something that cannot be.
pub fn lanes(plan: &Plan, secure: bool, doors: &[u8], mine: &[bool], theirs: &[u8]) {
    let (here, mut there) = memory::pair(&plan.me, &plan.peers[0].party);
    let mut here = Lines::new(vec![Box::new(here)]);
    [doors, theirs].into_iter().try_for_each(|message| there.send(message)).expect("the pipe takes two messages");
    drop(there);
    let of_the_peer = |error: JobError| {
        assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    };
    match ends(secure, Vec::new()).swap(&mut here) {
        Ok(theirs) => {
            assert!((1..=vesica_spec::MAX_LANES).contains(&theirs.seats), "{theirs:?}");
            assert!(theirs.doors.len() <= vesica_spec::MAX_LANES as usize, "{theirs:?}");
            assert_eq!(theirs.fingerprint().expect("it was read").is_some(), secure);
        }
        Err(error) => return of_the_peer(error),
    }
    match finished(plan, mine, &mut here) {
        Ok(done) => {
            assert_eq!(done.len(), mine.len());
            // Where both learn, nothing is spared that this side has not finished.
            assert!(done.iter().zip(mine).all(|(done, mine)| *mine || !done), "{done:?}");
        }
        Err(error) => of_the_peer(error),
    }
}

/// What an honest peer says in [`lanes`] of its doors.
pub fn honest_doors(secure: bool, doors: &[&str]) -> Vec<u8> {
    let doors = doors.iter().map(|door| (*door).to_owned()).collect();
    serde_json::to_vec(&ends(secure, doors)).expect("it is plain data")
}

/// A ledger that holds `records`, each sealed as this program seals its own, and behind them `rest`, as it is. Where `front` is
/// given, the file begins with that in place of an honest front, and nothing in it is sealed.
///
/// # Panics
/// If a ledger is refused for another reason than what stands in it, or is taken and cannot be used.
pub fn ledger(plan: &Plan, front: Option<&[u8]>, records: &[&[u8]], rest: &[u8], scratch: &Path) {
    let resume = plan.resume.as_ref().expect("a job that keeps a ledger");
    let path = ledger::path(resume, &plan.me);
    let _ = fs::remove_file(&path);
    if front.is_none() {
        let given = Given::of(resume, &Control::new(())).expect("a job without a key");
        let mut log =
            Log::open(&World::default().disk, &path, ledger::KIND, &given, |_, _| Ok(())).expect("a new ledger");
        records.iter().try_for_each(|record| log.append(record.to_vec())).expect("a ledger takes records");
    }
    let file = fs::File::options().append(true).create(true).open(&path);
    let write = |mut file: fs::File| file.write_all(front.unwrap_or_default()).and_then(|()| file.write_all(rest));
    file.and_then(write).expect("a file in a folder of this program's");
    let mut ledger = match Ledger::open(plan, scratch, &World::default().disk, &Control::new(())) {
        Ok(ledger) => ledger,
        Err(error) => return assert!(matches!(error, JobError::Resume { .. }), "{error}"),
    };
    if let Some(start) = ledger.started().cloned() {
        assert!((0..start.sizes.units).filter(|id| ledger.has(UnitId(*id))).count() as u64 == ledger.len());
        let found = ledger.found().expect("a run that began");
        let mut of_unit = OfUnit::default();
        for id in (0..start.sizes.units).map(UnitId) {
            of_unit.read(&found, id).expect("what was found is read");
        }
    }
}

/// The records of a ledger as an honest run of `plan` writes them.
pub fn honest_records(plan: &Plan) -> Vec<Vec<u8>> {
    let matches = vec![Match { key: KeyId::new(UnitId(1), 2), rows: 2, times: 1 }];
    let records = [Record::Head(Head::of(plan)), Record::Start(began()), Record::Unit(UnitId(1), [3; 32], matches)];
    records.iter().map(Record::encode).collect()
}

/// The file of what reading and cutting made, of the run [`began`]: `text`, sealed as this program seals its own, or else a file
/// that holds `raw`.
///
/// # Panics
/// If a file is taken and does not hold what it says that it holds.
pub fn kept(text: &[u8], raw: Option<&[u8]>, scratch: &Path) {
    let ctl = Control::new(());
    let kept = Kept::new(
        World::default().disk,
        scratch.join("kept.units"),
        Arc::new(Given::Nothing.secret(&[5; 32])),
        began(),
    );
    match raw {
        Some(raw) => fs::write(kept.path(), raw).expect("a file in a folder of this program's"),
        None => {
            let mut out = kept.writer(&ctl).expect("a file in a folder of this program's");
            out.write(text).and_then(|()| out.finish()).expect("as above");
        }
    }
    let how = Reading {
        keys: &[],
        rules: &[],
        lists: &[],
        duplicates: Duplicates::Join,
        memory: 1 << 20,
        workers: 1,
        slabs: None,
    };
    let Some((keys, units)) = kept.load(0, &how, Path::new("a table"), scratch, &ctl).expect("nobody cancels") else {
        return;
    };
    let mut rows = 0;
    let mut count = |_| {
        rows += 1;
        Ok(())
    };
    units.each_empty(&mut count).expect("what was whole when it was loaded is read");
    for id in (0..units.sizes.units).map(UnitId) {
        match units.each(id, |_, row| count(row)) {
            Ok(()) => {}
            Err(JobError::Table(vesica_table::Error::Changed { .. })) => return,
            Err(error) => panic!("as above, and not {error}"),
        }
        match units.unit(id) {
            Ok((unit, _)) => assert!(unit.keys.is_sorted()),
            Err(JobError::Session(Error::Overflow { .. }) | JobError::Table(vesica_table::Error::Changed { .. })) => {}
            Err(error) => panic!("as above, and not {error}"),
        }
    }
    assert_eq!(rows, keys.rows);
}

/// What stands in [`kept`]'s file after an honest run over a table of a few rows.
pub fn honest_text() -> Vec<u8> {
    let start = began();
    let mut text = [8u64, 6, 2].map(u64::to_le_bytes).concat();
    let index = |record: u64, buckets: &[&[u8]], text: &mut Vec<u8>| {
        let mut bound = text.len() as u64 + 8 * (buckets.len() as u64 + 1);
        text.extend(bound.to_le_bytes());
        for bucket in buckets {
            assert_eq!(bucket.len() as u64 % record, 0);
            bound += bucket.len() as u64;
            text.extend(bound.to_le_bytes());
        }
        buckets.iter().for_each(|bucket| text.extend_from_slice(bucket));
    };
    let record = |key: u8| [[key; 16].as_slice(), &to_bytes(key.into())].concat();
    let units: Vec<Vec<u8>> =
        (0..start.sizes.units as u8).map(|unit| [record(2 * unit), record(2 * unit + 1)].concat()).collect();
    index(RECORD as u64, &units.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut text);
    index(ROW as u64, &[&[to_bytes(6), to_bytes(7)].concat()], &mut text);
    text
}
