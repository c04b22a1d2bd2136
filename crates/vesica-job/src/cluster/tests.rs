//! Clusters of threads: with each other and with a run on one machine, in both directions, against that run's result.

use super::*;
use crate::cluster::found::{self, Form, OfKey};
use crate::cluster::reading::{self, Unpacked, unpack};
use crate::io::Io;
use crate::lanes::tests::{Bob, Two};
use crate::meet::agree;
use crate::meet::peers::{self, Peers};
use crate::run::run;
use crate::seal::key::{Front, TAG};
use crate::session::LANES_DONE as DONE;
use crate::tell::control::Control;
use crate::tell::report::Report;
use crate::{Fault, JobError};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use vesica_net::Sockets;
use vesica_spec::Spec;
use vesica_types::Digest;

const SHARED: &str = "limits.max_keys = 400\nunit = 40";
const BOTH: &str = "learns = [\"alice\", \"bob\"]";
const ALICE: &str = "learns = [\"alice\"]";

/// What a unit's files hold.
type Files<T> = BTreeMap<u32, T>;

/// A cluster whose storage is these maps.
#[derive(Default)]
struct Cluster {
    blobs: Files<Vec<u8>>,
    rows: Files<Vec<u8>>,
    found: Mutex<Files<Matched>>,
    begun: Mutex<Files<u32>>,
    /// Links that are dropped after one unit.
    breaks: Mutex<u32>,
}

fn secret() -> Secret {
    Secret::new([9; 32])
}

/// The rows of a party's table, as strings: keys, in the order of the file.
fn table(two: &Two, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(two.path(&format!("{name}.csv"))).unwrap();
    text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
}

impl Cluster {
    /// Cuts a table in pieces of 70 rows, brings the pieces of each part together and packs their units. Gives keys, rows without one, rows, the largest unit.
    fn read(&mut self, start: &Start, keys: &[String]) -> (u64, u64, u64, (u32, u64)) {
        let asks = Recipient::new().unwrap();
        let handed = start.secret().hand("here", &asks.public()).unwrap();
        let start = Start::from_bytes(&start.to_bytes().unwrap(), &asks.open("here", &handed).unwrap()).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, true)]));
        const PARTS: u32 = 3;
        let (mut shuffled, mut given, mut rows) = ([const { Vec::<Vec<u8>>::new() }; PARTS as usize], 0, 0);
        for (piece, first) in keys.chunks(70).zip((0u64..).step_by(70)) {
            let column = StringArray::from_iter(piece.iter().map(|key| (!key.is_empty()).then_some(key)));
            let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]).unwrap();
            let cut = start.cut(schema.clone(), vec![batch], (first, None), PARTS).unwrap();
            assert_eq!(
                cut.pieces.iter().map(|piece| piece.len() - Front::BYTES - 9 - TAG).sum::<usize>() as u64,
                22 * cut.given
            );
            shuffled.iter_mut().zip(cut.pieces).for_each(|(part, piece)| part.push(piece));
            (given, rows) = (given + cut.given, rows + cut.rows);
        }
        let packed = (0..).zip(&mut shuffled).flat_map(|(part, pieces)| {
            // In whatever order they come.
            pieces.reverse();
            start.pack(part, PARTS, &pieces.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
        });
        let packed: Vec<Packed> = packed.collect();
        assert_eq!(packed.iter().map(|packed| packed.given).sum::<u64>(), given);
        let empty = rows - given;
        let largest = packed.iter().map(|packed| (packed.unit, packed.keys)).max_by_key(|(_, keys)| *keys).unwrap();
        let distinct = packed.iter().map(|packed| packed.keys).sum();
        for Packed { unit, blob, rows, .. } in packed {
            self.blobs.insert(unit, blob);
            self.rows.insert(unit, rows);
        }
        (distinct, empty, rows, largest)
    }

    /// Counts that a unit is begun, and gives the number of that.
    fn turn(&self, unit: u32, units: u32) -> u64 {
        let mut begun = self.begun.lock().unwrap();
        let again: u32 = begun.values().map(|times| times - 1).sum();
        let times = begun.entry(unit).or_default();
        *times += 1;
        if *times == 1 { unit.into() } else { (units + again).into() }
    }

    /// One link of a lane, to its end. Breaks off after a unit, as long as breaks are left.
    fn lane(&self, mut lane: Lane) -> Result<Option<String>, JobError> {
        let done: Vec<u32> = self.found.lock().unwrap().keys().copied().collect();
        let missing = lane.missing(&done)?;
        for unit in missing.units {
            let turn = self.turn(unit, lane.terms().units());
            let matched = lane.match_unit(unit, self.blobs.get(&unit).map(Vec::as_slice), turn)?;
            let mut breaks = self.breaks.lock().unwrap();
            if *breaks > 0 {
                // Before what was found is in its place.
                *breaks -= 1;
                return Ok(None);
            }
            // On the side that learns, all keys of the unit are there whether they were found or not.
            let (terms, blob) = (lane.terms(), self.blobs.get(&unit));
            let keys = blob.map_or(Vec::new(), |blob| unpack(terms.secret(), terms.salt(), unit, blob).unwrap().keys);
            assert_eq!(
                blob.map_or(0, Vec::len),
                if keys.is_empty() { 0 } else { Front::BYTES + 32 + 20 * keys.len() + TAG }
            );
            let keys = if terms.plan().i_learn() { keys.len() } else { 0 };
            let of_key = if terms.plan().all_learn() { 12 } else { 5 };
            assert_eq!(
                matched.found.len(),
                Front::BYTES + 32 + of_key * keys + TAG,
                "{} keys are common",
                matched.keys
            );
            // The first stands.
            self.found.lock().unwrap().entry(unit).or_insert(matched);
        }
        let nothing = Matched::default();
        missing
            .settled
            .into_iter()
            .for_each(|unit| _ = self.found.lock().unwrap().entry(unit).or_insert(nothing.clone()));
        lane.close().map(Some)
    }

    /// All lanes of this side; gives what they cost.
    fn lanes(&self, meeting: &mut Meeting, terms: &Terms, listen: &str) -> Vec<String> {
        let costs = Mutex::new(Vec::new());
        if terms.is_whole() {
            meeting.finished().unwrap();
            return Vec::new();
        }
        let terms = Terms::from_bytes(&terms.to_bytes().unwrap(), terms.secret()).unwrap();
        let ctl = Control::new(());
        let keep = |cost: Option<String>| cost.into_iter().for_each(|cost| costs.lock().unwrap().push(cost));
        if meeting.dials() {
            let next = Mutex::new(0..terms.lanes());
            thread::scope(|scope| {
                for _ in 0..terms.at_once() {
                    scope.spawn(|| {
                        loop {
                            let Some(number) = next.lock().unwrap().next() else { return };
                            let address = &terms.addresses()[number as usize % terms.addresses().len()];
                            loop {
                                let lane = Lane::dial(&terms, number, address, ctl.clone()).unwrap();
                                match self.lane(lane) {
                                    Ok(Some(cost)) => break keep(Some(cost)),
                                    Ok(None) => {}
                                    Err(error) => assert!(is_a_break(&error), "{error}"),
                                }
                            }
                        }
                    });
                }
            });
            meeting.finished().unwrap();
        } else {
            let door = Door::open(&terms, listen, terms.at_once(), ctl).unwrap();
            thread::scope(|scope| {
                for _ in 0..terms.at_once() {
                    scope.spawn(|| {
                        while let Some(lane) = door.next().unwrap() {
                            match self.lane(lane) {
                                Ok(cost) => keep(cost),
                                Err(error) => assert!(is_a_break(&error), "{error}"),
                            }
                        }
                    });
                }
                meeting.finished().unwrap();
                door.stop();
            });
        }
        costs.into_inner().unwrap()
    }

    /// The units that are finished.
    fn finished(&self) -> Vec<u32> {
        self.found.lock().unwrap().keys().copied().collect()
    }

    /// How often units were begun.
    fn begun(&self) -> u64 {
        self.begun.lock().unwrap().values().map(|n| u64::from(*n)).sum()
    }

    /// From what the parties met for to the end of the last lane.
    fn matches(
        &mut self,
        meeting: &mut Meeting,
        start: &Start,
        spec: &Spec,
        keys: &[String],
    ) -> (Terms, Vec<String>, Vec<Unit>) {
        assert_eq!(meeting.run(), Some(start.run()));
        let (distinct, empty, rows, largest) = self.read(start, keys);
        meeting.size(distinct, empty, rows, largest).unwrap();
        let terms = meeting.lanes(&[], 3).unwrap();
        let listen = spec.mine.listen.clone().unwrap_or_default();
        let costs = self.lanes(meeting, &terms, &listen);
        let unit = |(&id, matched): (&u32, &Matched)| {
            let kept = terms.keep(id, matched).unwrap();
            let (unit, rows) = terms.kept(id, &kept).unwrap();
            assert_eq!(rows, matched.found);
            assert!(terms.kept(id + 1, &kept).is_err() && terms.kept(id, &kept[..100]).is_err());
            unit
        };
        let units = self.found.lock().unwrap().iter().map(unit).collect();
        (terms, costs, units)
    }

    /// A whole run. Gives the report and the rows that matched: number, pair, times.
    fn run(&mut self, spec: &Spec, keys: &[String]) -> (Report, Vec<(u64, u64, u64)>) {
        let mut meeting = Meeting::open(spec, [3; 32], Control::new(())).unwrap();
        let start = meeting.meet(&self.finished(), Some(self.begun())).unwrap();
        let (terms, costs, units) = self.matches(&mut meeting, &start, spec, keys);
        meeting.settle(&units).unwrap();
        meeting.finish().unwrap();
        let report = meeting.close(&costs, self.begun()).unwrap();
        meeting.forget().unwrap();
        (report, self.rows(&terms))
    }

    /// The rows that were found: number, pair, times.
    fn rows(&self, terms: &Terms) -> Vec<(u64, u64, u64)> {
        let found = self.found.lock().unwrap();
        let mut all = Vec::new();
        for (unit, matched) in found.iter().filter(|(_, matched)| !matched.found.is_empty()) {
            let packed = self.rows.get(unit).map(Vec::as_slice);
            let table = terms.rows(*unit, &matched.found, packed).unwrap();
            if packed.is_some() && terms.plan().i_learn() {
                let error = terms.rows(*unit, &matched.found, None).unwrap_err();
                assert!(error.to_string().starts_with(&format!("the rows of unit {unit} are not those")), "{error}");
            }
            let mut taking = Taking::new(1);
            terms.take(&mut taking, *unit, &matched.found, packed).unwrap();
            let (pieces, count) = terms.seal_rows(taking).unwrap();
            let columns = if terms.plan().all_learn() { &[0, 1, 2][..] } else { &[0] };
            assert_eq!(count, table.num_rows() as u64);
            assert_eq!(terms.open_rows(&[&pieces[0]]).unwrap(), table.project(columns).unwrap());
            assert_eq!(terms.open_rows(&[&pieces[0], &pieces[0]]).unwrap().num_rows(), 2 * table.num_rows());
            assert!(terms.rows(*unit, &pieces[0], packed).is_err() && terms.open_rows(&[&matched.found]).is_err());
            let column =
                |name: &str| table.column_by_name(name).unwrap().as_primitive::<UInt64Type>().values().to_vec();
            let (rows, pairs, times) = (column("row"), column("pair"), column("times"));
            all.extend(rows.into_iter().zip(pairs).zip(times).map(|((row, pair), times)| (row, pair, times)));
        }
        all.sort_unstable();
        all
    }
}

/// The rows of a table whose keys are common: 50..200 (see [`Two`]).
fn common(keys: &[String]) -> Vec<u64> {
    let is = |key: &String| key.parse::<u32>().is_ok_and(|key| (50..200).contains(&key));
    (0..).zip(keys).filter(|(_, key)| is(key)).map(|(row, _)| row).collect()
}

fn numbers(rows: &[(u64, u64, u64)]) -> Vec<u64> {
    rows.iter().map(|(row, ..)| *row).collect()
}

/// Two clusters, one of which loses links in the middle; pairs name the same keys on both sides.
#[test]
fn two_clusters_find_the_common_rows() {
    for protocol in ["rr22", "ecdh"] {
        let two = Two::new(&format!("protocol = \"{protocol}\"\n{BOTH}\n{SHARED}"));
        let specs = [two.job("alice", two.port, "lanes = 4"), two.job("bob", two.port, "lanes = 2")];
        let tables = [table(&two, "alice"), table(&two, "bob")];
        let [a, b] = thread::scope(|scope| {
            let sides = [0, 2].into_iter().zip(specs.iter().zip(&tables)).map(|(breaks, (spec, keys))| {
                scope.spawn(move || Cluster { breaks: Mutex::new(breaks), ..Cluster::default() }.run(spec, keys))
            });
            let sides: Vec<_> = sides.collect();
            let ended: Vec<_> = sides.into_iter().map(|side| side.join().unwrap()).collect();
            <[_; 2]>::try_from(ended).map_err(|_| "two sides").unwrap()
        });
        let mut by_pair: [BTreeMap<u64, Vec<&str>>; 2] = Default::default();
        for ((report, rows), (keys, by_pair)) in [&a, &b].into_iter().zip(tables.iter().zip(&mut by_pair)) {
            assert_eq!(numbers(rows), common(keys));
            assert_eq!((report.outcome.matched, report.outcome.empty, report.chosen.lanes), (Some(150), 1, 4));
            rows.iter().for_each(|(row, pair, _)| by_pair.entry(*pair).or_default().push(&keys[*row as usize]));
        }
        assert_eq!(by_pair[0].len(), 150);
        for ((pair, here), (same, there)) in by_pair[0].iter().zip(&by_pair[1]) {
            assert_eq!((pair, here[0]), (same, there[0]));
        }
        // As often as the other side has rows of the key.
        assert!(a.1.iter().any(|(.., times)| *times == 2) && a.1.iter().any(|(.., times)| *times == 1));
        // Bob's lost links cost him units that were begun twice, and no more.
        let (answered, padded) = (b.0.chosen.peers[0].answered, b.0.chosen.peers[0].unit_capacity);
        assert!(
            (u64::from(b.0.chosen.units) * padded..=(u64::from(b.0.chosen.units) + 4) * padded).contains(&answered)
        );
    }
}

/// A run on one machine that knows nothing of clusters, as the side that dials and as the one that listens, and whoever learns.
#[test]
fn a_cluster_and_one_machine_find_the_same() {
    for (learns, of_cluster) in [(BOTH, "alice"), (BOTH, "bob"), (ALICE, "alice"), (ALICE, "bob")] {
        let two = Two::secure(&format!("protocol = \"rr22\"\n{learns}\n{SHARED}"));
        let one = if of_cluster == "alice" { "bob" } else { "alice" };
        let plain = two.plan(one, two.port, "");
        let spec = two.job(of_cluster, two.port, "lanes = 3");
        // One key has far more rows than the others together.
        let keys = [table(&two, of_cluster), vec!["60".to_owned(); 3000]].concat();
        let (plain, (report, rows)) = thread::scope(|scope| {
            let plain = scope.spawn(move || run(&plain, Io::files(&plain).unwrap(), &Control::new(())).unwrap());
            let cluster = Cluster { breaks: Mutex::new(1), ..Cluster::default() }.run(&spec, &keys);
            (plain.join().unwrap(), cluster)
        });
        let learns = |name: &str| learns == BOTH || name == "alice";
        assert_eq!(plain.outcome.matched, learns(one).then_some(150));
        assert_eq!(report.outcome.matched, learns(of_cluster).then_some(150));
        assert_eq!(numbers(&rows), if learns(of_cluster) { common(&keys) } else { Vec::new() });
        assert_eq!((plain.chosen.lanes, report.chosen.lanes), (3, 3));
        assert_eq!(plain.chosen.units, report.chosen.units);
    }
}

#[test]
fn what_a_cluster_cannot_run_is_refused_by_name() {
    let opened = |shared: &str, mine: &str| {
        let two = Two::new(shared);
        Meeting::open(&two.job("alice", two.port, mine), [3; 32], Control::new(())).map(drop)
    };
    let rr22 = format!("protocol = \"rr22\"\n{ALICE}");
    opened(&format!("{rr22}\n{SHARED}"), "lanes = 3").unwrap();
    let groups = "result = \"groups\"\ngroups = { of = \"bob\", by = [\"region\"], most = 4, least = 5 }";
    for (shared, mine, field) in [
        (rr22.clone(), "lanes = 3", "shared.limits.max_keys"),
        (format!("{rr22}\n{SHARED}"), "", "mine.lanes"),
        (format!("{rr22}\n{SHARED}\nsecurity = \"malicious\""), "lanes = 3", "shared.security"),
        (
            format!("protocol = \"rr22\"\n{BOTH}\n{SHARED}\njoin = \"left\"\naccept = \"all\""),
            "lanes = 3",
            "shared.join",
        ),
        (format!("{rr22}\n{SHARED}\nresult = \"count\"\naccept = \"all\""), "", "shared.protocol"),
        (format!("{rr22}\n{SHARED}\n{groups}"), "", "shared.protocol"),
        (format!("{rr22}\n{SHARED}"), "lanes = 3\nresume = \"kept\"", "mine.resume_key"),
    ] {
        match opened(&shared, mine).unwrap_err() {
            JobError::Spec(error) => {
                assert_eq!(error.field.as_deref(), Some(field), "{error}");
                assert!(field != "shared.protocol" || error.message.ends_with(": run on one machine"), "{error}");
            }
            error => panic!("{error}"),
        }
    }
}

/// These bytes as a piece of the first of two parts.
fn sealed_cut(start: &Start, bytes: Vec<u8>) -> Vec<u8> {
    secret().seal(secret::CUT, &start.of_part(0, 2), bytes).unwrap()
}

/// What a store of objects holds between the calls says nothing without the secret: no key's digest, no unit's number, nothing twice.
#[test]
fn what_lies_about_says_nothing_without_the_secret() {
    let two = Two::new(&format!("protocol = \"rr22\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, "lanes = 3");
    let plan = vesica_spec::plan(&spec).unwrap();
    let salt = [5; 32];
    let start = |secret| Start::new(spec.clone(), plan.clone(), salt, 64, 3, secret);
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, false)]));
    let keys = StringArray::from_iter_values((0..100).map(|key| key.to_string()));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(keys)]).unwrap();
    let cut_from = |start: &Start, first, parts| start.cut(schema.clone(), vec![batch.clone()], (first, None), parts);
    let cut = |start: &Start, parts| cut_from(start, 0, parts);
    let (run, other) = (start(secret()), start(Secret::new([1; 32])));
    let (mine, again) = (cut(&run, 2).unwrap().pieces, cut(&run, 2).unwrap().pieces);
    // Where a piece is put in the place of another one of its size, as many rows come as were cut, and some of them twice.
    let behind = cut_from(&run, 100, 2).unwrap().pieces;
    assert_eq!((mine[0].len(), again[0].len()), (behind[0].len(), behind[0].len()));
    let error = run.pack(0, 2, &[&mine[0], &again[0]]).unwrap_err().to_string();
    assert!(error.starts_with("part 0 of the shuffle has a row twice"), "{error}");
    let packed = run.pack(0, 2, &[&mine[0], &behind[0]]).unwrap();
    let digests = packed.iter().flat_map(|packed| unpack(&secret(), &salt, packed.unit, &packed.blob).unwrap().keys);
    for (Digest(digest), rows) in digests {
        assert_eq!(rows, 2);
        let shown = |piece: &Vec<u8>| piece.windows(8).any(|bytes| digest.windows(8).any(|part| part == bytes));
        assert!(!mine.iter().chain(&again).any(shown));
    }
    let alike = mine[0][Front::BYTES..].windows(8).any(|bytes| again[0].windows(8).any(|other| other == bytes));
    assert!(!alike, "a piece is sealed anew each time that its rows are cut");
    let mut flipped = mine[0].clone();
    flipped[100] ^= 1;
    for (start, part, parts, piece) in
        [(&other, 0, 2, &mine[0]), (&run, 1, 2, &mine[0]), (&run, 0, 3, &mine[0]), (&run, 0, 2, &flipped)]
    {
        let error = start.pack(part, parts, &[piece]).unwrap_err().to_string();
        assert!(error.starts_with("a piece of cut rows cannot be opened"), "{error}");
    }
    for parts in [0, 65] {
        assert!(cut(&run, parts).is_err() && run.pack(0, parts, &[]).is_err());
    }
    assert!(run.pack(2, 2, &[]).is_err() && run.pack(1, 2, &[]).unwrap().is_empty());
    assert!(run.cut(schema.clone(), vec![batch.clone()], (0, Some(&[7; 99])), 2).is_err(), "a row has no number");
    // Bytes under an honest seal that nobody cuts: half a head, half a row, a unit of another part, rows of another size, and a number that is too large.
    let made = |record: u8, least: u64, rows: &[u8]| [&[record][..], &least.to_le_bytes(), rows].concat();
    let far = [&[0; 18][..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(run.pack(0, 2, &[&sealed_cut(&run, made(26, 7, &far))]).unwrap().len(), 1);
    for bytes in [
        vec![22; 8],
        made(22, 0, &[0; 21]),
        made(22, 0, &[0xff; 22]),
        made(26, 0, &[0xff; 26]),
        made(23, 0, &[0; 23]),
        made(26, u64::MAX, &far),
    ] {
        let piece = sealed_cut(&run, bytes);
        assert!(run.pack(0, 2, &[&piece]).unwrap_err().to_string().starts_with("a piece of cut rows cannot be opened"));
    }
    // The salt is not in the start's bytes, and the same start is sealed anew each time.
    let (one, two) = (start(secret()).to_bytes().unwrap(), start(secret()).to_bytes().unwrap());
    assert_ne!(one, two);
    assert!(!one.windows(5).any(|bytes| bytes == b"alice" || bytes == [5; 5]));
    assert!(secret().open(secret::START, b"", "it", &one).is_err(), "it is sealed with its name");
    let error = Start::from_bytes(&one, &Secret::new([1; 32])).map(drop).unwrap_err();
    assert!(error.to_string().starts_with("the start of the run cannot be opened"), "{error}");
}

/// Who knows the salt would learn over some runs which key is in the slow unit each time. All that a lane is given of a unit is its blob.
#[test]
fn what_a_lane_reads_of_a_unit_rests_on_its_keys_alone() {
    const KEYS: u32 = 4000;
    let two = Two::new(&format!("protocol = \"rr22\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, "lanes = 3");
    let start = Start::new(spec.clone(), vesica_spec::plan(&spec).unwrap(), [5; 32], 8, 3, secret());
    // Of each unit, bytes of the blob, of which so many are digests and counts, and rows.
    let packed = |of_key: fn(u32) -> usize| {
        let keys: Vec<String> =
            (0..KEYS).flat_map(|key| std::iter::repeat_n(format!("key {key}"), of_key(key))).collect();
        let mut cluster = Cluster::default();
        let (distinct, ..) = cluster.read(&start, &keys);
        assert_eq!(distinct, u64::from(KEYS));
        let (salt, mut rows) = ([5; 32], 0);
        let of_unit = (0..8).map(|unit| {
            let Unpacked { keys: of_keys, rows: hash } = unpack(&secret(), &salt, unit, &cluster.blobs[&unit]).unwrap();
            let numbers = reading::numbers(&secret(), &salt, unit, Some(&cluster.rows[&unit]), &hash).unwrap();
            assert_eq!(of_keys.iter().map(|(_, rows)| rows).sum::<u64>(), numbers.len() as u64);
            rows += numbers.len();
            (cluster.blobs[&unit].len(), of_keys.iter().map(|(digest, _)| *digest).collect::<Vec<_>>())
        });
        let of_unit: Vec<_> = of_unit.collect();
        assert_eq!(rows, keys.len());
        of_unit
    };
    let alone = packed(|_| 1);
    for (bytes, digests) in &alone {
        assert_eq!(*bytes, Front::BYTES + 32 + 20 * digests.len() + TAG);
    }
    assert_eq!(alone, packed(|key| if key == 17 { 20_001 } else { 1 }));
    assert_eq!(alone, packed(|key| if key < 2000 { 11 } else { 1 }));
}

/// Packed once more under the same secret, rows of the same counts opened beside what was found with the rows before, and others were written.
#[test]
fn what_was_found_opens_with_the_rows_of_its_own_packing_alone() {
    let two = Two::new(&format!("protocol = \"rr22\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, "lanes = 3");
    let (salt, plan) = ([5; 32], vesica_spec::plan(&spec).unwrap());
    let start = Start::new(spec, plan, salt, 1, 1, secret());
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(StringArray::from(vec!["a", "b", "b"]))]).unwrap();
    let packed = |rows: [u64; 3]| {
        let cut = start.cut(schema.clone(), vec![batch.clone()], (0, Some(&rows)), 1).unwrap();
        start.pack(0, 1, &[&cut.pieces[0]]).unwrap().remove(0)
    };
    let (before, same, other) = (packed([7, 8, 9]), packed([7, 8, 9]), packed([8, 7, 9]));
    let unit = before.unit;
    assert_ne!(before.rows, same.rows, "sealed anew");
    let unpacked = unpack(&secret(), &salt, unit, &before.blob).unwrap();
    let keys: Vec<OfKey> = unpacked.keys.iter().map(|&(_, rows)| OfKey { rows, times: 1 }).collect();
    let seal = |form, keys: &[OfKey]| found::seal(&secret(), &salt, unit, (form, &unpacked.rows), keys);
    let found = seal(Form::Once, &keys).unwrap();
    let open = |rows: &[u8]| found::open(&secret(), &salt, unit, Form::Once, (&found, Some(rows)));
    // What comes of a table is the same however often it is packed.
    assert_eq!(open(&before.rows).unwrap(), open(&same.rows).unwrap());
    assert_eq!(open(&before.rows).unwrap().num_rows(), 3);
    let error = open(&other.rows).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("the rows of unit {unit} are not those that its keys were packed with")),
        "{error}"
    );
    // In the form of another job it is not read otherwise, and what does not fit into a form is not kept.
    assert!(found::open(&secret(), &salt, unit, Form::Joined, (&found, Some(&before.rows))).is_err());
    assert!(
        seal(Form::Once, &[OfKey { rows: 1, times: 2 }]).is_err()
            && seal(Form::Joined, &[OfKey { rows: 1 << 32, times: 1 }]).is_err()
    );
    // A packing says nothing of the numbers to who has not the secret.
    assert!(!before.blob.windows(32).any(|bytes| bytes == unpacked.rows));
}

/// Each row comes to the part of its file, once, with its pair and as often as it stands in the join where that is asked for.
#[test]
fn found_rows_come_to_the_parts_of_their_files() {
    let two = Two::new(&format!("protocol = \"rr22\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, "lanes = 3");
    let (salt, plan) = ([5; 32], vesica_spec::plan(&spec).unwrap());
    let start = Start::new(spec, plan, salt, 1, 1, secret());
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, false)]));
    let keys = StringArray::from(vec!["a", "b", "b", "c", "c", "c"]);
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(keys)]).unwrap();
    // In the files 0, 1, 2 and 5.
    let rows = [7, 1 << 40 | 8, 2 << 40 | 9, 5 << 40, 1, 1 << 40 | 3];
    let cut = start.cut(schema, vec![batch], (0, Some(&rows)), 1).unwrap();
    let packed = start.pack(0, 1, &[&cut.pieces[0]]).unwrap().remove(0);
    let unpacked = unpack(&secret(), &salt, packed.unit, &packed.blob).unwrap();
    for (form, of_b) in [(Form::Once, 1), (Form::Joined, 3)] {
        // All but the key of three rows.
        let times = |rows| [0, 1, of_b, 0][rows as usize];
        let keys: Vec<OfKey> = unpacked.keys.iter().map(|&(_, rows)| OfKey { rows, times: times(rows) }).collect();
        let found = found::seal(&secret(), &salt, packed.unit, (form, &unpacked.rows), &keys).unwrap();
        let files = (&found[..], Some(&packed.rows[..]));
        let table = found::open(&secret(), &salt, packed.unit, form, files).unwrap();
        let column = |table: &RecordBatch, at| table.column(at).as_primitive::<UInt64Type>().values().to_vec();
        let mut taking = Taking::new(2);
        taking.add((&secret(), &salt), packed.unit, form, files).unwrap();
        let (pieces, count) = taking.seal(&secret(), &salt).unwrap();
        assert_eq!(count, 3);
        for (part, piece) in pieces.iter().enumerate() {
            let of_part = |row: &u64| (row >> 40) % 2 == part as u64;
            let places: Vec<usize> = (0..3).filter(|&place| of_part(&column(&table, 0)[place])).collect();
            let taken = found::taken(&secret(), &salt, form, &[piece]).unwrap();
            assert_eq!(taken.num_columns(), if form == Form::Once { 1 } else { 3 });
            for at in 0..taken.num_columns() {
                let all = column(&table, at);
                assert_eq!(column(&taken, at), places.iter().map(|&place| all[place]).collect::<Vec<_>>());
            }
            assert_eq!(places.len(), [2, 1][part], "{places:?}");
        }
        assert!(Taking::new(0).add((&secret(), &salt), packed.unit, form, files).is_err(), "there is no such part");
        assert!(found::taken(&Secret::new([1; 32]), &salt, form, &[&pieces[0]]).is_err());
    }
    // Under an honest seal: half a number, and numbers that make no whole row.
    for bytes in [vec![0; 7], vec![0; 16]] {
        let piece = secret().seal(secret::TAKEN, agree::name(&salt).as_bytes(), bytes).unwrap();
        assert!(found::taken(&secret(), &salt, Form::Joined, &[&piece]).is_err());
    }
}

/// What is allowed is common to all units, whatever the links: the caller's count rules. When each unit had a share of it, one whose lane broke as often
/// as `limits.answers` says ended a run that had begun 101 units of the 200 that it may.
#[test]
fn units_are_begun_as_often_as_the_run_allows_and_no_more() {
    let two = Two::new(&format!("protocol = \"ecdh\"\n{ALICE}\n{SHARED}\nlimits.answers = 2"));
    let spec = two.job("alice", two.port, "lanes = 1");
    let plain = two.plan("bob", two.port, "patience = \"4s\"");
    let plain = thread::spawn(move || run(&plain, Io::files(&plain).unwrap(), &Control::new(())));
    let mut cluster = Cluster::default();
    let mut meeting = Meeting::open(&spec, [3; 32], Control::new(())).unwrap();
    let start = meeting.meet(&[], Some(0)).unwrap();
    let (distinct, empty, rows, largest) = cluster.read(&start, &table(&two, "alice"));
    meeting.size(distinct, empty, rows, largest).unwrap();
    let terms = meeting.lanes(&[], 1).unwrap();
    let door = Door::open(&terms, &spec.mine.listen.clone().unwrap(), 1, Control::new(())).unwrap();
    let mut lane = door.next().unwrap().unwrap();
    let missing = lane.missing(&[]).unwrap();
    let unit = missing.units[0];
    let begin = |turn| lane.match_unit(unit, cluster.blobs.get(&unit).map(Vec::as_slice), turn);
    // The last turn that the run has, of which every unit has its own besides.
    let allowed = 2 * u64::from(terms.units());
    begin(allowed - 1).unwrap();
    let error = begin(allowed).unwrap_err();
    assert!(matches!(error, JobError::Answers { limit: 2, .. }), "{error}");
    meeting.abort(error.fault_for_peer());
    assert!(plain.join().unwrap().is_err());
}

/// Lines of a job whose run outlives its driver.
fn kept(two: &Two) -> String {
    crate::rooms::replace_privately(&two.path("key"), &[7; 32]).unwrap();
    format!("resume = \"{}\"\nresume_key = \"{}\"", two.path("resume").display(), two.path("key").display())
}

/// Whoever had the secret of one run opened what every run under the same key had left.
#[test]
fn the_secret_of_a_run_opens_no_other_run() {
    let two = Two::new(&format!("protocol = \"ecdh\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, &format!("lanes = 1\n{}", kept(&two)));
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut meeting = Meeting::open(&spec, [3; 32], Control::new(())).unwrap();
        // He has forgotten the run before.
        let there = bob(&two, "");
        runs.push(meeting.meet(&[], Some(0)).unwrap());
        meeting.abort(Fault::Input);
        assert!(there.join().unwrap().is_err());
    }
    assert_ne!(runs[0].run(), runs[1].run());
    for (at, start) in runs.iter().enumerate() {
        let sealed = start.to_bytes().unwrap();
        assert!(Start::from_bytes(&sealed, start.secret()).is_ok());
        assert!(Start::from_bytes(&sealed, runs[1 - at].secret()).is_err());
    }
}

/// A plain run of bob's, in a thread.
fn bob(two: &Two, mine: &str) -> thread::JoinHandle<Result<Report, JobError>> {
    let plain = two.plan("bob", two.port, mine);
    thread::spawn(move || run(&plain, Io::files(&plain).unwrap(), &Control::new(())))
}

/// Alice's driver is killed when every unit is finished, and bob is gone when it is started again, or has forgotten the run. Where she alone
/// learns, her units are all that there is. Where both learn, she must have heard that bob is done too.
#[test]
fn a_cluster_that_has_everything_ends_without_the_other_side() {
    let cases =
        [(ALICE, false, false), (ALICE, false, true), (BOTH, true, false), (BOTH, true, true), (BOTH, false, false)];
    let ends = |(learns, heard, forgot): (&str, bool, bool)| {
        let two = Two::new(&format!("protocol = \"rr22\"\n{learns}\n{SHARED}"));
        let mine = format!("lanes = 3\n{}", kept(&two));
        let spec = two.job("alice", two.port, &mine);
        let open = |spec: &Spec| Meeting::open(spec, [3; 32], Control::new(())).unwrap();
        let (keys, mut cluster) = (table(&two, "alice"), Cluster::default());
        let mut meeting = open(&spec);
        let there = bob(&two, "patience = \"4s\"");
        let start = meeting.meet(&[], Some(0)).unwrap();
        let (terms, _, units) = cluster.matches(&mut meeting, &start, &spec, &keys);
        meeting.settle(&units).unwrap();
        if heard {
            meeting.finish().unwrap();
            // Bob has heard it too.
            while !two.path("bob.out.csv").exists() {
                thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        drop(meeting);
        assert_eq!(there.join().unwrap().is_ok(), heard);

        let patience = if forgot { "30s" } else { "1s" };
        let mut meeting = open(&two.job("alice", two.port, &format!("{mine}\npatience = \"{patience}\"")));
        let finished = cluster.finished();
        assert!(meeting.alone(&finished).is_none(), "nobody has looked for bob");
        let there = forgot.then(|| bob(&two, ""));
        let error = meeting.meet(&finished, Some(cluster.begun())).map(drop).unwrap_err();
        assert_eq!(matches!(error, JobError::Over { .. }), forgot, "{error}");
        assert!(there.is_none_or(|bob| bob.join().unwrap().is_err()));
        assert!(meeting.alone(&finished[1..]).is_none(), "a unit has no proof");
        let alone = meeting.alone(&finished);
        assert_eq!(alone.is_some(), learns == ALICE || heard);
        let Some(start) = alone else { return };
        assert_eq!(start.run(), terms.run());
        let (terms, costs, units) = cluster.matches(&mut meeting, &start, &spec, &keys);
        assert!(terms.is_whole() && costs.is_empty());
        assert!(meeting.settle(&units[1..]).is_err(), "not every unit is there");
        let large: Vec<Unit> = units.iter().map(|unit| Unit { times: u64::MAX, ..*unit }).collect();
        let error = meeting.settle(&large).unwrap_err();
        assert!(error.to_string().starts_with("the join has 18446744073709551615 rows"), "{error}");
        meeting.settle(&units).unwrap();
        meeting.finish().unwrap();
        let report = meeting.close(&costs, cluster.begun()).unwrap();
        assert_eq!((report.outcome.matched, report.outcome.rows), (Some(150), keys.len() as u64));
        assert_eq!(report.chosen.peers[0].version, "not met again");
        assert_eq!(numbers(&cluster.rows(&terms)), common(&keys));
        meeting.forget().unwrap();
        assert_eq!(open(&spec).run(), None);
    };
    thread::scope(|scope| {
        let all = cases.map(|case| scope.spawn(move || ends(case)));
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

/// Alice's driver is killed in the middle of a lane. When it is started again, units that were finished are not begun again.
#[test]
fn a_driver_that_is_started_again_has_the_rest_done() {
    let two = Two::new(&format!("protocol = \"rr22\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, &format!("lanes = 1\n{}", kept(&two)));
    let (keys, mut cluster) = (table(&two, "alice"), Cluster::default());
    let there = bob(&two, "");
    let mut meeting = Meeting::open(&spec, [3; 32], Control::new(())).unwrap();
    let start = meeting.meet(&[], Some(0)).unwrap();
    let (distinct, empty, rows, largest) = cluster.read(&start, &keys);
    meeting.size(distinct, empty, rows, largest).unwrap();
    let terms = meeting.lanes(&[], 1).unwrap();
    let door = Door::open(&terms, &spec.mine.listen.clone().unwrap(), 1, Control::new(())).unwrap();
    let mut lane = door.next().unwrap().unwrap();
    let missing = lane.missing(&[]).unwrap();
    for (finishes, &unit) in [true, true, false].into_iter().zip(&missing.units) {
        let matched = lane.match_unit(unit, cluster.blobs.get(&unit).map(Vec::as_slice), unit.into()).unwrap();
        cluster.begun.lock().unwrap().insert(unit, 1);
        if finishes {
            cluster.found.lock().unwrap().insert(unit, matched);
        }
    }
    drop((lane, door, meeting));
    let (report, rows) = cluster.run(&spec, &keys);
    there.join().unwrap().unwrap();
    assert_eq!(numbers(&rows), common(&keys));
    let begun: Vec<u32> = missing.units.iter().map(|unit| cluster.begun.lock().unwrap()[unit]).collect();
    assert_eq!(begun, [&[1, 1, 2][..], &vec![1; begun.len() - 3]].concat());
    let (peer, units) = (&report.chosen.peers[0], u64::from(terms.units()));
    // A salt costs a 64th of what may be answered eight times.
    let salt = (8 * units).div_ceil(64);
    assert_eq!((peer.attempts, peer.answered), (2, (units + 1 + salt) * peer.unit_capacity));
}

/// As with a run on one machine: a check that is interrupted before it has said anything ends no wait, and begins none anew.
#[test]
fn a_check_that_is_given_up_leaves_a_cluster_waiting() {
    let two = Two::new(&format!("protocol = \"ecdh\"\n{ALICE}\n{SHARED}"));
    let spec = two.job("alice", two.port, "lanes = 1");
    let mut meeting = Meeting::open(&spec, [3; 32], Control::new(())).unwrap();
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let check = peers::endpoint(&two.plan("bob", two.port, ""), None, false, &Sockets).unwrap();
            Peers::connect(&Sockets, check, &Control::new(()))
                .unwrap()
                .leave_check(&vesica_session::Error::Cancelled.into());
            bob(&two, "patience = \"4s\"").join().unwrap()
        });
        meeting.meet(&[], Some(0)).unwrap();
        meeting.abort(Fault::Input);
        assert!(there.join().unwrap().is_err());
    });
}

/// Bob forgets each run after two of its units. Of what may be answered in the whole job, each costs what was begun of it and the share of a
/// salt. When alice cannot say how much was begun, nothing is left.
#[test]
fn a_run_that_broke_costs_what_was_begun_of_it() {
    let two = Two::new(&format!("protocol = \"ecdh\"\n{ALICE}\n{SHARED}\nlimits.answers = 3"));
    let spec = two.job("alice", two.port, "lanes = 1");
    let (keys, mut begun, mut cost) = (table(&two, "alice"), 0, 0);
    let mut meeting = Meeting::open(&spec, [3; 32], Control::new(())).unwrap();
    for _ in 0..2 {
        let (there, mut cluster) = (bob(&two, ""), Cluster::default());
        let start = meeting.meet(&[], Some(begun)).unwrap();
        let (distinct, empty, rows, largest) = cluster.read(&start, &keys);
        meeting.size(distinct, empty, rows, largest).unwrap();
        let terms = meeting.lanes(&[], 1).unwrap();
        let units = u64::from(terms.units());
        let allowed = (0..4 * units).filter(|turn| terms.allows(0, *turn) || *turn < units).count() as u64;
        assert_eq!(allowed, 3 * units - cost);
        let door = Door::open(&terms, &spec.mine.listen.clone().unwrap(), 1, Control::new(())).unwrap();
        let mut lane = door.next().unwrap().unwrap();
        for &unit in &lane.missing(&[]).unwrap().units[..2] {
            lane.match_unit(unit, cluster.blobs.get(&unit).map(Vec::as_slice), unit.into()).unwrap();
        }
        begun = 2;
        cost += begun + (3 * units).div_ceil(64);
        drop((lane, door));
        meeting.abort(Fault::Input);
        assert!(there.join().unwrap().is_err());
    }
    let there = bob(&two, "");
    let error = meeting.meet(&[], None).map(drop).unwrap_err();
    assert!(matches!(error, JobError::Answers { limit: 3, .. }), "{error}");
    assert!(there.join().unwrap().is_err());
}

/// Bob says that all lanes are done, and has dialled none.
#[test]
fn who_says_too_early_that_lanes_are_done_is_accused() {
    let two = Two::new(&format!("protocol = \"rr22\"\n{BOTH}\n{SHARED}"));
    let spec = two.job("alice", two.port, "lanes = 2");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut bob = Bob::meet(&two, 2);
            bob.control.peer().unwrap().send(DONE).unwrap();
            let _ = bob.control.peer().unwrap().recv(1 << 16);
        });
        let mut meeting = Meeting::open(&spec, [3; 32], Control::new(())).unwrap();
        let start = meeting.meet(&[], Some(0)).unwrap();
        let (distinct, empty, rows, largest) = Cluster::default().read(&start, &table(&two, "alice"));
        meeting.size(distinct, empty, rows, largest).unwrap();
        meeting.lanes(&[], 2).unwrap();
        meeting.finished().unwrap();
        let error = meeting.settle(&[]).unwrap_err();
        assert_eq!(error.to_string(), "bob broke the protocol: it says that all lanes are done, and they are not");
    });
}
