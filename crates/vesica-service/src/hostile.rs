//! A server that lies in one row, and two clients that differ in that row alone: what the server sees of them, run after run. The server's
//! program is the honest one, on files of its own making whose sums fit. What a client sends is recorded between the two.
//!
//! Keys, queries and names of windows are encrypted, blinded or drawn anew in each run, so of these the lengths are compared, with their
//! order and their lines. Questions, and how far a window is, are compared byte for byte, and so are the reports' outcomes, as far as they
//! say how a run ended.

use crate::client::output::room;
use crate::offer::{Offer, hex};
use crate::prepare::signer::Signer;
use crate::retrieve::desk::{hint_name, table_name};
use crate::retrieve::epoch::{self, Epoch};
use crate::retrieve::{body_bytes, pad, retrieval};
use crate::suite;
use crate::values::digest_of_index;
use crate::{Change, Run, ask, files};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};
use vesica_job::report::{Outcome, Report};
use vesica_job::{Control, Event, Io, Watch, World};
use vesica_net::{Boot, SystemClock, Time};
use vesica_pir::{bucket, keyword};
use vesica_spec::Document;
use vesica_spec::service::{AskPlan, By, Hint, Private, ServePlan, ServiceProtocol, plan_ask, plan_serve};
use vesica_store::{CHUNK, Limits, Manifest};
use vesica_testkit::port;

/// What a client sends on one connection: for each line its messages, and why it left, if it said so.
pub(crate) type Said = (BTreeMap<String, Vec<Vec<u8>>>, Option<Vec<u8>>);

/// Messages of a client's stream of bytes. Heartbeats and credits are left out: they follow the clock, and what the server sends.
fn said(stream: &[u8]) -> Said {
    // Who only looks whether somebody listens says nothing.
    if stream.is_empty() {
        return Said::default();
    }
    let number = |at: usize, bytes: usize| stream[at..at + bytes].iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
    // The hello, and the verdict on the server's.
    let mut at = 14 + number(12, 2);
    at += 3 + number(at + 1, 2);
    let (mut names, mut lines, mut stop) = (BTreeMap::new(), BTreeMap::<String, Vec<Vec<u8>>>::new(), None);
    while at < stream.len() {
        let (line, kind, length) = (number(at, 4), stream[at + 4], number(at + 5, 3));
        let body = &stream[at + 8..at + 8 + length];
        at += 8 + length;
        match kind {
            1 => drop(names.insert(line, String::from_utf8(body.to_vec()).unwrap())),
            2 => lines.entry(names[&line].clone()).or_default().push(body[4..].to_vec()),
            3 => lines.get_mut(&names[&line]).unwrap().last_mut().unwrap().extend_from_slice(body),
            7 => stop = Some(body.to_vec()),
            _ => {}
        }
    }
    // What is drawn anew or encrypted is reduced to its length. A question has 17 bytes, and what a client says of its window 24, of which
    // the first 16 are the window's name.
    for message in lines.get_mut("service").into_iter().flatten() {
        match message.len() {
            17 => {}
            24 => message[..16].fill(0),
            _ => message.fill(0),
        }
    }
    lines.iter_mut().filter(|(name, _)| *name != "service").flat_map(|(_, said)| said).for_each(|said| said.fill(0));
    (lines, stop)
}

/// Between clients and the server: what each connection carried from the client, and what is done to what the server says.
pub(crate) struct Wire {
    port: u16,
    connections: Arc<Mutex<Vec<JoinHandle<Vec<u8>>>>>,
    /// What is done to the server's first message of this length on a connection.
    spoiled: Arc<Mutex<Spoiled>>,
}

/// The length of a message, and what is done to it.
type Spoiled = Option<(usize, Arc<dyn Fn(&mut [u8]) + Send + Sync>)>;

impl Wire {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire =
            Self { port: listener.local_addr().unwrap().port(), connections: Arc::default(), spoiled: Arc::default() };
        let (connections, spoiled) = (wire.connections.clone(), wire.spoiled.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, spoiled) = (client.unwrap(), spoiled.lock().unwrap().clone());
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                // Or each message waits until the one before has been acknowledged, which the system puts off by 40 ms.
                [&client, &server].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
                let (theirs, back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || carry(theirs, back, spoiled));
                let there = std::thread::spawn(move || carry(client, server, None));
                connections.lock().unwrap().push(there);
            }
        });
        wire
    }

    /// From now on this is done to messages of this length, if it is not 0.
    pub(crate) fn spoil(&self, length: usize, how: impl Fn(&mut [u8]) + Send + Sync + 'static) {
        *self.spoiled.lock().unwrap() = (length > 0).then(|| (length, Arc::new(how) as Arc<_>));
    }

    /// What clients have said since the last call, one connection after the other.
    pub(crate) fn said(&self) -> Vec<Said> {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        connections.into_iter().map(|connection| said(&connection.join().unwrap())).collect()
    }
}

/// Carries bytes to their end, and gives them. Something may be done to the first message of so many bytes, as far as its first frame has it.
fn carry(mut from: TcpStream, mut to: TcpStream, mut spoiled: Spoiled) -> Vec<u8> {
    let (mut all, mut buffer, mut sent) = (Vec::new(), vec![0; 1 << 16], 0);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        all.extend_from_slice(&buffer[..read]);
        let mut ready = all.len();
        if let Some((length, spoil)) = spoiled.clone() {
            // A frame that begins a message has its line, 2, its length and that of the message before the message itself, or before as much of
            // it as one frame has.
            let due = (length as u32).to_le_bytes();
            let begin = all.windows(8).position(|head| head[0] == 2 && head[4..] == due).map(|at| at + 8);
            if let Some(begin) = begin {
                let framed = u32::from_le_bytes([all[begin - 7], all[begin - 6], all[begin - 5], 0]) as usize - 4;
                if begin + framed <= all.len() {
                    spoil(&mut all[begin..begin + framed]);
                    spoiled = None;
                } else {
                    // It goes on when it is whole.
                    ready = begin;
                }
            }
        }
        if to.write_all(&all[sent..ready]).is_err() {
            break;
        }
        sent = ready;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    all
}

/// Copies the files of a folder into another one, which has no others then.
pub(crate) fn put_back(from: &Path, to: &Path) {
    drop(std::fs::remove_dir_all(to));
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// What kind of service it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// As [`NO_HINT`] says it, or the protocol's name alone; then "simple-pir" has a hint.
    pub(crate) protocol: &'static str,
    pub(crate) by: By,
    pub(crate) private: Private,
}

/// Keys of the list: row i has the key i·3, or the number i.
const ROWS: u64 = 120;

/// What a user is told, and which phases there were.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<&'static str>>>);

impl Watch for Notes {
    fn event(&self, event: Event) {
        match event {
            Event::Note(note) => self.0.lock().unwrap().push(note),
            Event::Phase { name, .. } => self.1.lock().unwrap().push(name),
            _ => {}
        }
    }
}

pub(crate) struct House {
    pub(crate) dir: tempfile::TempDir,
    kind: Kind,
    rows: u64,
    pub(crate) wire: Wire,
    pub(crate) server: ServePlan,
    pub(crate) offer: String,
    serving: Option<(Control, JoinHandle<()>)>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop();
    }
}

impl House {
    /// The server ends.
    pub(crate) fn stop(&mut self) {
        if let Some((ctl, serving)) = self.serving.take() {
            ctl.cancel();
            serving.join().unwrap();
        }
    }
}

/// How a run of a client ended.
struct Ended {
    outcome: Outcome,
    /// Rows of the output, without the columns of values.
    rows: Vec<String>,
    notes: Vec<String>,
    phases: Vec<&'static str>,
    said: Vec<Said>,
    /// What is told of it, without times, and names and places of connections: the client's report, notes and phases, and the lines that the
    /// server's record of who asked when got by it.
    told: (String, Vec<serde_json::Value>),
}

impl House {
    /// A service that is prepared honestly.
    pub(crate) fn new(kind: Kind, rows: u64) -> Self {
        Self::with(kind, rows, "")
    }

    /// The same with more lines of the server's `[service]`.
    pub(crate) fn with(kind: Kind, rows: u64, more: &str) -> Self {
        let (dir, port) = (tempfile::tempdir().unwrap(), port());
        let path = |name: &str| dir.path().join(name).display().to_string();
        let step = if kind.by == By::Key { 3 } else { 1 };
        let list: String = (0..rows).map(|row| format!("{},{row}.5\n", row * step)).collect();
        std::fs::write(path("list.csv"), format!("id,size\n{list}")).unwrap();
        let (private, keys) = (kind.private.name(), if kind.by == By::Key { "\"id\"" } else { "" });
        let accept = if kind.private == Private::Client { "accept = [\"all_rows\"]" } else { "" };
        let retrieval = match kind.protocol {
            "ecdh-oprf" => String::new(),
            _ => format!("private = \"{private}\"\n{accept}"),
        };
        let file = path("bob.toml");
        std::fs::write(
            &file,
            format!(
                "[service]\n{}{retrieval}\nvalues = [\"size\"]\n{}\n{more}\n[mine]\nname = \"bob\"\nlisten = \"127.0.0.1:{port}\"\n\
                 input = {{ path = \"{}\", keys = [{keys}] }}\nstore = \"{}\"\nworkers = 2\n\
                 clients = {{ alice = {{ keys_a_day = 1000000, requests_a_minute = 100000 }} }}\n",
                named(kind),
                // Room for a value that is longer than those of the list.
                if kind.protocol == "ckks-pir" || more.contains("value_bytes") { "" } else { "value_bytes = 30" },
                path("list.csv"),
                path("list.store"),
            ),
        )
        .unwrap();
        let Document::Server(mut spec) = vesica_spec::load_any(Path::new(&file)).unwrap() else { panic!("a server") };
        unnamed(kind, &mut spec.service.protocol);
        let server = plan_serve(&spec).unwrap();
        let prepared = crate::prepare(&server, &Change::default(), &World::default(), &Control::new(())).unwrap();
        let offer = crate::spelled(&prepared.offer.hash());
        Self { wire: Wire::before(port), dir, kind, rows, server, offer, serving: None }
    }

    pub(crate) fn store(&self) -> &Path {
        &self.server.store
    }

    /// The server starts.
    pub(crate) fn serve(&mut self) {
        let (plan, ctl) = (self.server.clone(), Control::new(()));
        let stopped = ctl.clone();
        let serving = std::thread::spawn(move || crate::serve(&plan, &World::default(), &|| None, &ctl).unwrap());
        self.serving = Some((stopped, serving));
    }

    /// The plan of a client with a cache of this name.
    pub(crate) fn plan(&self, cache: &str) -> AskPlan {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        let file = path("alice.toml");
        let by = named(self.kind);
        std::fs::write(
            &file,
            format!(
                "[service]\n{by}offer = \"{}\"\n[mine]\nname = \"alice\"\nconnect = {{ bob = \"127.0.0.1:{}\" }}\npatience = \"20s\"\n\
                 input = {{ path = \"{}\", keys = [\"id\"] }}\ncache = \"{}\"\noutput = {{ path = \"{}\" }}\nworkers = 2\n",
                self.offer,
                self.wire.port,
                path("alice.csv"),
                path(cache),
                path("out.csv"),
            ),
        )
        .unwrap();
        let Document::Client(mut spec) = vesica_spec::load_any(Path::new(&file)).unwrap() else { panic!("a client") };
        unnamed(self.kind, &mut spec.service.protocol);
        plan_ask(&spec).unwrap()
    }

    /// A client asks for these keys or numbers. Whatever the server wrote, the run ends well.
    #[track_caller]
    fn ask(&self, cache: &str, keys: &[u64]) -> Ended {
        let rows: String = keys.iter().map(|key| format!("{key}\n")).collect();
        std::fs::write(self.dir.path().join("alice.csv"), format!("id\n{rows}")).unwrap();
        let before = std::fs::read_to_string(&self.server.audit).map_or(0, |lines| lines.lines().count());
        let (plan, notes) = (self.plan(cache), Notes::default());
        let report = ask(&plan, files(&plan).unwrap(), &Control::new(notes.clone())).and_then(Run::end);
        let Report { outcome, revealed, chosen, total, .. } =
            report.unwrap_or_else(|error| panic!("{:?}: {error}", self.kind));
        let output = std::fs::read_to_string(self.dir.path().join("out.csv")).unwrap();
        let rows = output.lines().skip(1).map(str::to_owned).collect();
        let (notes, phases) = (notes.0.lock().unwrap().clone(), notes.1.lock().unwrap().clone());
        let said = self.wire.said();
        let told =
            format!("{outcome:?} {revealed:?} {chosen:?} {} {} {notes:?} {phases:?}", total.sent, total.received);
        let line = |line: &str| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            ["time", "session", "address", "seconds"].into_iter().for_each(|name| drop(line[name].take()));
            line
        };
        let lines = std::fs::read_to_string(&self.server.audit).unwrap_or_default();
        let lines = lines.lines().skip(before).map(line).collect();
        Ended { outcome, rows, notes, phases, said, told: (told, lines) }
    }

    /// All keys or numbers of the list.
    fn keys(&self) -> Vec<u64> {
        (0..self.rows).map(|row| if self.kind.by == By::Key { row * 3 } else { row }).collect()
    }

    /// The row of a key in an output.
    fn row(&self, key: u64) -> String {
        format!("{key},{}.5", if self.kind.by == By::Key { key / 3 } else { key })
    }

    /// Two clients ask four times, with keys that differ in one: that of the first cannot be read, or is not there. The server sees the same,
    /// and both get the other rows.
    #[track_caller]
    fn compare(&self, lost: u64, other: u64, good: &[u64], name: &str) {
        let (first, second) = good.split_at(good.len() / 2);
        for (turn, good) in [first, first, second, good].into_iter().enumerate() {
            let kind = (self.kind, turn);
            let (holder, bystander) =
                (self.ask("holder", &[&[lost], good].concat()), self.ask("other", &[&[other], good].concat()));
            let rows: Vec<String> = good.iter().map(|key| self.row(*key)).collect();
            assert_eq!(holder.rows, rows, "{kind:?}");
            assert_eq!(bystander.rows[1..], rows, "{kind:?}");
            assert!(
                !holder.said.is_empty() && holder.said == bystander.said,
                "{kind:?}: the server sees another conversation"
            );
            // The row is named to the user, with a reason, and nothing sends him to the server.
            let left: Vec<_> =
                holder.outcome.left_out.iter().map(|left| (&*left.name, left.rows, &left.first[..])).collect();
            assert_eq!(left, [(name, 1, &[1][..])], "{kind:?}");
            assert!(bystander.outcome.left_out.is_empty(), "{kind:?}");
            let [more] = &holder.notes[bystander.notes.len()..] else { panic!("{:?}", holder.notes) };
            assert!(more.contains("row 1."), "{more}");
            let words = ["fetch", "operator", "ask again", "tell"];
            assert!(!words.iter().any(|word| more.contains(word)), "{more}");
        }
    }

    /// Finds out which keys cannot be read now, and compares a client that has one with a client that has none.
    #[track_caller]
    fn compare_whatever_is_lost(&self) -> BTreeSet<u64> {
        let keys = self.keys();
        let scout = self.ask("scout", &keys);
        let lost: BTreeSet<u64> = keys.iter().copied().filter(|key| !scout.rows.contains(&self.row(*key))).collect();
        let rows: Vec<String> = keys.iter().filter(|key| !lost.contains(key)).map(|key| self.row(*key)).collect();
        assert_eq!(scout.rows, rows, "{:?}: all other rows are written", self.kind);
        assert!(!lost.is_empty() && lost.len() < keys.len(), "{:?}: {} lost", self.kind, lost.len());
        assert_eq!(scout.outcome.left_out[0].rows, lost.len() as u64);
        let good: Vec<u64> = keys.iter().copied().filter(|key| !lost.contains(key)).take(7).collect();
        self.compare(*lost.first().unwrap(), good[0], &good[1..], "unreadable");
        lost
    }

    /// Changes the first part of a store of tags, as [`House::spoil_part`] does.
    fn spoil_store(&self, change: impl FnOnce(&mut [u8], usize, usize)) {
        self.spoil_part(0, change);
    }

    /// Changes a part of a store of tags, whose sums then fit. `change` gets the part, and where its directory and its values begin.
    pub(crate) fn spoil_part(&self, number: usize, change: impl FnOnce(&mut [u8], usize, usize)) {
        let folder = self.store();
        let mut manifest = Manifest::decode(&std::fs::read(folder.join("manifest")).unwrap(), Limits::NONE).unwrap();
        let bits = u64::from(manifest.tag_bits());
        let file = |root: &[u8; 32]| format!("part-{number:04}-{}", hex(&root[..8]));
        let part = &mut manifest.parts[number];
        let old = file(&part.blake3);
        let mut bytes = std::fs::read(folder.join(&old)).unwrap();
        // The sections, computed anew from the page of the format.
        let (n, heads) = (part.entries, part.entries.next_power_of_two());
        let words =
            heads.div_ceil(512) + 1 + (heads + n).div_ceil(64) + (n * (bits - u64::from(heads.ilog2()))).div_ceil(64);
        change(&mut bytes, 128, (128 + 8 * words as usize).next_multiple_of(64));
        let sums: Vec<u8> = bytes.chunks(CHUNK).flat_map(|chunk| *blake3::hash(chunk).as_bytes()).collect();
        part.blake3 = *blake3::hash(&sums).as_bytes();
        for (name, bytes) in [("", &bytes), (".sums", &sums)] {
            std::fs::remove_file(folder.join(format!("{old}{name}"))).unwrap();
            std::fs::write(folder.join(format!("{}{name}", file(&part.blake3))), bytes).unwrap();
        }
        std::fs::write(folder.join("manifest"), manifest.encode()).unwrap();
    }

    /// A server that lies has the key that signs.
    fn sign(&self, offer: &Offer, epoch: &mut Epoch) {
        if offer.kind().signs() {
            Signer::of_offer(&self.server, offer, &Control::new(())).unwrap().sign(epoch, SystemTime::now());
        }
    }

    /// Changes the records of a table, whose hint and sums then fit. `change` gets the table, its epoch and its offer.
    fn spoil_table(&self, change: impl FnOnce(&mut [u8], &Epoch, &Offer)) {
        let folder = self.store();
        let offer = Offer::load(folder).unwrap();
        let mut epoch = Epoch::load(&offer, folder).unwrap();
        let [table_path, hint_path] = [table_name(1), hint_name(1)].map(|name| folder.join(name));
        let mut table = std::fs::read(&table_path).unwrap();
        let scheme = retrieval(&offer, &epoch).unwrap();
        table.truncate(table.len() - scheme.beside() as usize);
        change(&mut table, &epoch, &offer);
        let mut copy = table.clone();
        if scheme.has_hint() {
            let tries = std::fs::read(&hint_path).unwrap().split_off(scheme.sizes().hint as usize);
            let server = scheme.server(Arc::new(table.clone()), 1).unwrap();
            copy = [server.hint().unwrap(), tries].concat();
            std::fs::write(hint_path, &copy).unwrap();
            table.extend(server.beside());
        }
        std::fs::write(&table_path, &table).unwrap();
        epoch.sums = hex(blake3::hash(&epoch::sums(&copy)).as_bytes());
        epoch.table = epoch::table_sum(&table);
        self.sign(&offer, &mut epoch);
        std::fs::write(folder.join(epoch::NAME), epoch.encode()).unwrap();
    }
}

/// Changes the masks of a service without a hint, or a hint, whose sums then fit. `change` gets them with the epoch before them.
fn spoil_masks(house: &House, change: impl FnOnce(&mut [u8])) {
    spoil_copy(house, |copy, hint| change(&mut copy[..hint]));
}

/// Changes all that clients copy of it. `change` gets it with the bytes of masks or hint that it begins with.
fn spoil_copy(house: &House, change: impl FnOnce(&mut Vec<u8>, usize)) {
    let folder = house.store();
    let offer = Offer::load(folder).unwrap();
    let mut epoch = Epoch::load(&offer, folder).unwrap();
    let (path, scheme) = (folder.join(hint_name(1)), retrieval(&offer, &epoch).unwrap());
    let mut copy = std::fs::read(&path).unwrap();
    change(&mut copy, scheme.sizes().hint as usize);
    std::fs::write(&path, &copy).unwrap();
    epoch.sums = hex(blake3::hash(&epoch::sums(&copy)).as_bytes());
    house.sign(&offer, &mut epoch);
    std::fs::write(folder.join(epoch::NAME), epoch.encode()).unwrap();
}

/// "simple-pir" with `hint = "none"`, as tests call it.
const NO_HINT: &str = "simple-pir, hint = \"none\"";

/// The lines of `[service]` that both sides have.
fn named(Kind { protocol, by, .. }: Kind) -> String {
    let by = match protocol {
        "ecdh-oprf" => String::new(),
        NO_HINT => format!("hint = \"none\"\nby = \"{}\"\n", by.name()),
        "simple-pir" => format!("hint = \"copied\"\nby = \"{}\"\n", by.name()),
        _ => format!("by = \"{}\"\n", by.name()),
    };
    let protocol = protocol.split(',').next().unwrap().replace("null", "download");
    format!("id = \"list\"\nprotocol = \"{protocol}\"\ninsecure = true\n{by}")
}

/// No document may name the protocol that only tests have.
fn unnamed(kind: Kind, protocol: &mut ServiceProtocol) {
    if kind.protocol == "null" {
        *protocol = ServiceProtocol::Null;
    }
}

/// Every scheme that looks rows up by this, and whom it protects.
fn all_by(by: By) -> impl Iterator<Item = (&'static str, Private)> {
    let privates = [Private::Client, Private::Both];
    let all = suite::retrieving().flat_map(move |kind| privates.map(|private| (kind, private)));
    all.filter(move |(kind, private)| kind.protocol.takes(by, *private)).map(|(kind, private)| {
        let name = if kind.hint == Some(Hint::None) { NO_HINT } else { kind.protocol.name() };
        (name, private)
    })
}

pub(crate) const STORE: Kind = Kind { protocol: "ecdh-oprf", by: By::Key, private: Private::Both };
const PIANO: Kind = Kind { protocol: "piano", by: By::Index, private: Private::Client };
pub(crate) const COPIED: Kind = Kind { protocol: "simple-pir", ..PIANO };

/// A server that spoilt one value, or one block of the directory, once saw which client had no output, fetched again or complained: it was told
/// whether a client holds a key of its choice.
#[test]
fn a_store_with_a_value_or_a_block_that_cannot_be_read_tells_nobody_whose_keys_are_in_it() {
    // 1100 tags have 2048 heads, in four blocks.
    for is_value in [true, false] {
        let mut house = House::new(STORE, 1100);
        house.spoil_store(|part, directory, values| match is_value {
            true => part[values + 7 * vesica_store::sealed_bytes(30) + 9] ^= 1,
            // How many tags stand before block 2, which block 1 reads too.
            false => part[directory + 8 * 2..][..8].copy_from_slice(&[0xff; 8]),
        });
        house.serve();
        let lost = house.compare_whatever_is_lost();
        assert_eq!(lost.len() == 1, is_value, "{}", lost.len());
    }
}

/// A server whose values are long once filled a client's disk, or did not, by how many of its keys the client has. Now the client sees before it
/// asks whether the values of all its rows would find room.
#[test]
fn room_for_values_is_a_matter_of_rows_and_not_of_what_is_found() {
    let house = House::new(STORE, 1);
    let mut offer = Offer::load(house.store()).unwrap();
    std::fs::write(house.dir.path().join("alice.csv"), "id\n1\n").unwrap();
    let mut plan = house.plan("holder");
    let io = files(&plan).unwrap();
    let table = io.table.bytes().unwrap();
    offer.value_bytes = Some(1 << 20);
    let mut fits = |memory: Option<u64>, rows: u64| {
        if let Some(memory) = memory {
            (plan.output, plan.memory) = (None, memory);
        }
        room(&plan, &io, &offer, (rows, io.table.bytes().unwrap_or(0)), 0)
            .map_err(|error| (error.fault(), error.to_string()))
    };
    // To a disk: twice the length, for CSV, where every byte may be a quote.
    fits(None, 1).unwrap();
    let (fault, why) = fits(None, 1 << 42).unwrap_err();
    assert!(
        fault == vesica_job::Fault::Config && why.contains("out.csv: what is written of 4398046511104 rows"),
        "{why}"
    );
    assert!(why.contains("2097152 for each") && why.contains("fewer rows"), "{why}");
    // To the caller's memory.
    fits(Some((8 << 20) + table), 8).unwrap();
    let (_, why) = fits(Some((8 << 20) + table - 1), 8).unwrap_err();
    assert!(why.contains("mine.memory: what is written of 8 rows may take"), "{why}");
    offer.values.clear();
    room(&plan, &io, &offer, (u64::MAX, 0), 0).unwrap();
}

/// The same for one record that was asked for by number, of every protocol. With `piano` the client once failed for the rest of its window.
#[test]
fn a_record_that_cannot_be_read_tells_nobody_who_asked_for_it() {
    for (protocol, private) in all_by(By::Index) {
        let mut house = House::new(Kind { protocol, by: By::Index, private }, ROWS);
        house.spoil_table(|table, epoch, offer| {
            let width = epoch.width as usize;
            let at = offer.kind().scheme().unwrap().place(epoch.records, &epoch.seed(), 50).unwrap() as usize * width;
            // The first number of a row of real numbers is its tag; in others anything that is changed is found.
            match protocol {
                "ckks-pir" => table[at..at + 8].copy_from_slice(&100f64.to_le_bytes()),
                _ => table[at + width / 2] ^= 1,
            }
        });
        house.serve();
        assert_eq!(house.compare_whatever_is_lost(), [50].into(), "{protocol}");
    }
}

/// The messages of each line, by their lengths.
fn lengths(said: &[Said]) -> Vec<Vec<(String, Vec<usize>)>> {
    let of = |(lines, _): &Said| {
        lines.iter().map(|(name, all)| (name.clone(), all.iter().map(Vec::len).collect())).collect()
    };
    said.iter().map(of).collect()
}

/// Bytes of a mask.
const MASK: usize = 4608;

/// Makes a mask one constant: what a client decodes with it depends on its secret.
fn poison(mask: &mut [u8]) {
    mask.fill(0);
    mask[1] = 4;
}

/// A server whose masks are all one constant, so that what a client decodes depends on its secret. Nothing of that gets out: no row is
/// written, all are lost alike, whatever was asked for, and the client says what it says to an honest server, once.
#[test]
fn masks_that_lie_get_nothing_out_of_a_client() {
    for by in [By::Index, By::Key] {
        for private in [Private::Client, Private::Both] {
            let kind = Kind { protocol: NO_HINT, by, private };
            let mut honest = House::new(kind, ROWS);
            honest.serve();
            let wanted = honest.ask("honest", &[3, 6, 9]);
            assert_eq!(wanted.rows, [3, 6, 9].map(|key| honest.row(key)));
            let mut house = House::new(kind, ROWS);
            spoil_masks(&house, |masks| masks[24..].chunks_mut(MASK).for_each(poison));
            house.serve();
            let (one, two) = (house.ask("one", &[3, 6, 9]), house.ask("two", &[12, 15, 18]));
            assert!(one.rows.is_empty() && two.rows.is_empty(), "{kind:?}");
            assert!(one.said == two.said && lengths(&one.said) == lengths(&wanted.said), "{kind:?}");
            let left = |ended: &Ended| -> Vec<(String, u64)> {
                ended.outcome.left_out.iter().map(|left| (left.name.clone(), left.rows)).collect()
            };
            assert_eq!(left(&one), left(&two), "{kind:?}");
            // Each decoded other bytes, with a secret of its own, and none of them is in what anybody is told or writes down.
            assert_eq!(one.told, two.told, "{kind:?}");
            assert!(one.told.1.iter().any(|line| line["what"] == "asked"), "{:?}", one.told);
        }
    }
}

/// One mask of several lies. What is decoded with it is lost, and nothing else is; and the server sees the same of who asks for what is lost and who
/// does not: all masks are copied, and nobody asks again.
#[test]
fn one_mask_that_lies_costs_the_rows_of_its_block_alone() {
    // Three groups of 2048 records stand in rows 0 to 399, 400 to 799 and 800 to 1199. The first block has 1024 rows.
    let kind = Kind { protocol: NO_HINT, ..PIANO };
    let house = || House::with(kind, 5000, "value_bytes = 388");
    let mut honest = house();
    honest.serve();
    let asked = [4, 2000, 4500];
    let wanted = honest.ask("honest", &asked);
    assert_eq!(wanted.rows, asked.map(|key| honest.row(key)));
    let place = |house: &House, key: u64| {
        let offer = Offer::load(house.store()).unwrap();
        let epoch = Epoch::load(&offer, house.store()).unwrap();
        offer.kind().scheme().unwrap().place(epoch.records, &epoch.seed(), key).unwrap()
    };
    for block in [0, 1] {
        let mut house = house();
        spoil_masks(&house, |masks| {
            assert_eq!(masks.len(), 24 + 2 * MASK);
            poison(&mut masks[24..][MASK * block..][..MASK]);
        });
        house.serve();
        let is_lost = |key: &u64| block == 0 || place(&house, *key) >= 4096;
        let (lost, kept): (Vec<u64>, Vec<u64>) = (0..5000).partition(is_lost);
        assert_eq!(kept.is_empty(), block == 0);
        let one = house.ask("one", &lost[..3]);
        assert!(one.rows.is_empty() && lengths(&one.said) == lengths(&wanted.said), "{block}");
        if block == 1 {
            let other = house.ask("other", &kept[..3]);
            assert_eq!(other.rows, kept[..3].iter().map(|key| house.row(*key)).collect::<Vec<_>>());
            assert!(one.said == other.said);
            // What the server noted of both is one thing.
            assert_eq!(one.told.1, other.told.1);
        }
    }
}

/// A patch that is not the difference of two tables: what a client decodes depends on its secret, as with a mask that lies. The table is that of
/// the epoch before, and the patch says that one of its rows changed.
#[test]
fn a_patch_that_lies_gets_nothing_out_of_a_client() {
    let kind = Kind { protocol: NO_HINT, ..PIANO };
    let changed = |is_honest: bool| {
        let mut house = House::new(kind, ROWS);
        let store = house.store().to_owned();
        let offer = Offer::load(&store).unwrap();
        let bytes = |number| std::fs::read(store.join(table_name(number))).unwrap();
        let before = bytes(1);
        let list = house.dir.path().join("list.csv");
        let other = std::fs::read_to_string(&list).unwrap().replace("\n50,50.5", "\n50,77.5");
        std::fs::write(&list, other).unwrap();
        drop(crate::prepare(&house.server, &Change::default(), &World::default(), &Control::new(())).unwrap());
        let mut epoch = Epoch::load(&offer, &store).unwrap();
        assert!(epoch.number == 2 && epoch.log > 0);
        if !is_honest {
            let mut table = bytes(2);
            let records = table.len() - retrieval(&offer, &epoch).unwrap().beside() as usize;
            table[..records].copy_from_slice(&before[..records]);
            // The server's own check: its epoch, and a hash of the records and the columns.
            let (all, columns) = (table[..records].to_vec(), table[records + 24 + 32..].to_vec());
            table[records + 24..][..32].copy_from_slice(blake3::hash(&[all, columns].concat()).as_bytes());
            epoch.table = epoch::table_sum(&table);
            std::fs::write(store.join(table_name(2)), table).unwrap();
            house.sign(&offer, &mut epoch);
            std::fs::write(store.join(epoch::NAME), epoch.encode()).unwrap();
        }
        house.serve();
        house
    };
    let house = changed(true);
    let wanted = house.ask("honest", &[3, 6, 9]);
    assert_eq!(wanted.rows, [3, 6, 9].map(|key| house.row(key)));
    let house = changed(false);
    let (one, two) = (house.ask("one", &[3, 6, 9]), house.ask("two", &[12, 15, 50]));
    assert!(one.rows.is_empty() && two.rows.is_empty());
    assert!(one.said == two.said && lengths(&one.said) == lengths(&wanted.said));
    assert_eq!(one.told, two.told);
    // Whoever has the table sees it.
    let why = crate::audit_store(house.store(), None, 1, &World::default(), &Control::new(()))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(why.contains("is not what the table makes of it"), "{why}");
}

/// Whatever the scheme, a client whose answers are zeros, ones or noise says what it says to an honest server, now and in its next run. It asks for
/// nothing again, ends as it ends otherwise, and writes no row that it did not get.
#[test]
fn answers_that_lie_are_asked_for_once_whatever_the_scheme() {
    let noise = |bytes: &mut [u8]| {
        (0u64..).zip(bytes).for_each(|(at, byte)| *byte = blake3::hash(&at.to_le_bytes()).as_bytes()[0]);
    };
    let changes: [fn(&mut [u8]); 3] = [|bytes| bytes.fill(0), |bytes| bytes.fill(0xff), noise];
    for by in [By::Index, By::Key] {
        for (protocol, private) in all_by(by) {
            let kind = Kind { protocol, by, private };
            let mut house = House::new(kind, ROWS);
            let offer = Offer::load(house.store()).unwrap();
            let scheme = retrieval(&offer, &Epoch::load(&offer, house.store()).unwrap()).unwrap();
            if scheme.sizes().query == 0 {
                continue;
            }
            house.serve();
            // One key is one record or two, and their answers are the first message that has this length.
            let records = crate::retrieve::records_a_row(offer.kind(), by).min(scheme.together());
            let answers = records as usize * scheme.sizes().answer;
            let runs = |house: &House, name: &str| {
                let first = house.ask(name, &[30]);
                house.wire.spoil(0, |_| ());
                (first, house.ask(name, &[30]))
            };
            let honest = runs(&house, "honest");
            assert_eq!(honest.0.rows, [house.row(30)], "{kind:?}");
            for (turn, change) in changes.into_iter().enumerate() {
                house.wire.spoil(answers, change);
                let lied = runs(&house, &format!("lied to {turn}"));
                assert!(lied.0.said == honest.0.said && lied.1.said == honest.1.said, "{kind:?}, {turn}");
                assert!(lied.0.rows.is_empty(), "{kind:?}, {turn}: {:?}", lied.0.rows);
                assert_eq!(lied.0.told.1, honest.0.told.1, "{kind:?}, {turn}");
            }
        }
    }
}

/// The answers of a server that lies, without a hint: zeros, half of them blanked, noise, another epoch at their heads, and all that again with
/// masks that lie. The client says what it says to an honest server, whatever it decodes, and no row that was not asked for honestly is written.
#[test]
fn answers_that_lie_change_nothing_that_the_server_sees() {
    let outcome = |ended: &Ended| {
        let left: Vec<_> = ended.outcome.left_out.iter().map(|left| (left.name.clone(), left.rows)).collect();
        (ended.rows.clone(), left, ended.outcome.matched, ended.notes.len())
    };
    for by in [By::Index, By::Key] {
        for private in [Private::Client, Private::Both] {
            let kind = Kind { protocol: NO_HINT, by, private };
            let mut house = House::new(kind, ROWS);
            house.serve();
            let offer = Offer::load(house.store()).unwrap();
            let answer = retrieval(&offer, &Epoch::load(&offer, house.store()).unwrap()).unwrap().sizes().answer;
            let keys = [3, 6, 9];
            let honest = house.ask("honest", &keys);
            assert_eq!(honest.rows, keys.map(|key| house.row(key)));
            // What stands behind the epoch of each answer.
            let behind = move |change: fn(&mut [u8])| {
                move |answers: &mut [u8]| answers.chunks_exact_mut(answer).for_each(|answer| change(&mut answer[24..]))
            };
            let mut ends = Vec::new();
            let noise = |bytes: &mut [u8]| {
                (0u64..).zip(bytes).for_each(|(at, byte)| *byte = blake3::hash(&at.to_le_bytes()).as_bytes()[0]);
            };
            let changes: [fn(&mut [u8]); 3] = [|bytes| bytes.fill(0), |bytes| bytes.fill(0xff), noise];
            for (turn, change) in changes.into_iter().enumerate() {
                house.wire.spoil(3 * answer, behind(change));
                let ended = house.ask(&format!("lied to {turn}"), &keys);
                assert!(ended.said == honest.said, "{kind:?}, {turn}");
                ends.push(outcome(&ended));
            }
            // The first answer alone, whichever key it is for: that row is lost, and the others are not.
            house.wire.spoil(3 * answer, move |answers| answers[24..answer].fill(0));
            let one = house.ask("lied to once", &keys);
            assert!(one.said == honest.said && one.rows.len() == 2, "{kind:?}");
            assert!(one.rows.iter().all(|row| honest.rows.contains(row)), "{kind:?}");
            // Half of the table's rows are blanked: who asks for rows in it says what others say, and does not ask again.
            house.wire.spoil(
                3 * answer,
                behind(|bytes| {
                    let half = bytes.len() / 2;
                    bytes[..half].fill(0);
                }),
            );
            let (blanked, other) = (house.ask("blanked", &keys), house.ask("blanked too", &[111, 114, 117]));
            assert!(blanked.said == honest.said && other.said == honest.said, "{kind:?}");
            // The epoch before at the head of each answer: nothing is decoded.
            house
                .wire
                .spoil(3 * answer, move |answers| answers.chunks_exact_mut(answer).for_each(|answer| answer[8] ^= 1));
            let (old, too) = (house.ask("old", &keys), house.ask("old too", &[111, 114, 117]));
            assert!(old.said == honest.said && too.said == honest.said && outcome(&old) == outcome(&too), "{kind:?}");
            assert!(old.rows.is_empty());
            // Masks that are one constant, with answers of zeros: what is decoded is the secret itself.
            house.stop();
            spoil_masks(&house, |masks| masks[24..].chunks_mut(MASK).for_each(poison));
            house.serve();
            house.wire.spoil(3 * answer, behind(|bytes| bytes.fill(0)));
            let ended = house.ask("poisoned", &keys);
            // The epoch has another name in its questions.
            assert_eq!(lengths(&ended.said), lengths(&honest.said), "{kind:?}");
            ends.push(outcome(&ended));
            assert!(ends[0].0.is_empty() && ends.iter().all(|end| *end == ends[0]), "{kind:?}: {ends:?}");
        }
    }
}

/// A clock that is so many days ahead, or behind.
#[derive(Debug)]
struct Off(SystemClock, i64);

impl Time for Off {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall(&self) -> SystemTime {
        let days = Duration::from_secs(self.1.unsigned_abs() * 24 * 60 * 60);
        if self.1 < 0 { SystemTime::now() - days } else { SystemTime::now() + days }
    }

    fn boot(&self) -> Option<Boot> {
        self.0.boot()
    }

    fn sleep(&self, span: Duration, stop: &dyn Fn() -> bool) {
        self.0.sleep(span, stop);
    }

    fn rest(&self, span: Duration, stop: &dyn Fn() -> bool) {
        self.0.rest(span, stop);
    }

    fn wake(&self, thread: &Thread) {
        self.0.wake(thread);
    }
}

/// An epoch that somebody between the two made up, that another key signed, or whose time is over: nothing is copied or asked, and a server that
/// starts with it does not start.
#[test]
fn an_epoch_is_taken_by_its_signature_and_in_its_time_alone() {
    let mut house = House::new(Kind { protocol: NO_HINT, ..PIANO }, ROWS);
    house.serve();
    std::fs::write(house.dir.path().join("alice.csv"), "id\n3\n").unwrap();
    let document = std::fs::read(house.store().join(epoch::NAME)).unwrap();
    let refused = |house: &House, world: World, why: &[&str]| {
        let (plan, cache) = (house.plan("alice"), house.dir.path().join("alice"));
        let error = ask(&plan, Io { world, ..files(&plan).unwrap() }, &Control::new(())).map(drop).unwrap_err();
        assert_eq!(error.fault(), vesica_job::Fault::Peer);
        assert!(why.iter().all(|why| error.to_string().contains(why)), "{error}");
        let said = house.wire.said();
        // It was told what there is, and asked for no sums, chunks, or records.
        assert!(said.iter().all(|(lines, _)| lines.values().flatten().count() == 1), "{said:?}");
        assert!(!cache.join(epoch::NAME).exists());
        said
    };
    // One digit of any field, on its way.
    for field in [
        "\"rows\":",
        "\"seed\":\"",
        "\"sums\":\"",
        "\"table\":\"",
        "\"made\":",
        "\"until\":",
        "\"set\":\"",
        "\"signature\":\"",
    ] {
        let at = document.windows(field.len()).position(|window| window == field.as_bytes()).unwrap() + field.len();
        house.wire.spoil(document.len(), move |document| document[at + 1] ^= 1);
        refused(&house, World::default(), &["its signature is not by the key of its offer"]);
    }
    // One bit of a mask, on its way: no query leaves.
    let copy = Epoch::decode(&Offer::load(house.store()).unwrap(), &document).unwrap().copy as usize;
    house.wire.spoil(copy, move |masks| masks[copy / 2] ^= 1);
    let plan = house.plan("flipped");
    let error = ask(&plan, files(&plan).unwrap(), &Control::new(())).map(drop).unwrap_err().to_string();
    assert!(error.contains("a chunk that is not the one of its sum"), "{error}");
    assert!(house.wire.said().iter().all(|(lines, _)| lines.values().flatten().all(|said| said.len() == 17)));
    house.wire.spoil(0, |_| ());
    // By its own clock, the time is over. Which clock it has is not told.
    let off = |days| World { time: Arc::new(Off(SystemClock, days)), ..World::default() };
    let later = off(91);
    // Nor is it taken by a clock of more than a day before it was made.
    for world in [later.clone(), off(-2)] {
        let said = refused(&house, world, &["epoch 1 (", "was made at 2", "clients take until 2", "vesica prepare"]);
        let why = String::from_utf8_lossy(said[0].1.as_ref().unwrap()).into_owned();
        assert!(why.contains("not the time of the epoch") && !why.contains("20"), "{why}");
    }
    assert_eq!(house.ask("alice", &[3]).rows, [house.row(3)]);
    // In the last tenth of its time that is said.
    for (days, is_said) in [(0, false), (80, false), (82, true), (89, true)] {
        let (plan, notes) = (house.plan("soon"), Notes::default());
        ask(&plan, Io { world: off(days), ..files(&plan).unwrap() }, &Control::new(notes.clone()))
            .and_then(Run::end)
            .unwrap();
        let notes = notes.0.lock().unwrap().clone();
        let said = |note: &String| note.contains("epoch 1 (") && note.contains("which clients take until 2");
        assert_eq!(notes.iter().any(said), is_said, "{days}: {notes:?}");
    }
    house.wire.said();
    // An audit and `vesica check` name it by its whole hash, and say what its time is by their clock.
    let named = format!("epoch 1 ({})", hex(blake3::hash(&document).as_bytes()));
    for (world, words) in [(World::default(), "valid until"), (later.clone(), "over since"), (off(-2), "to come")] {
        let checked = crate::audit_store(house.store(), None, 1, &world, &Control::new(())).unwrap();
        let signature = checked.findings.iter().find(|finding| finding.what == "signature").unwrap();
        assert!(signature.found.contains(words) && signature.good == (words == "valid until"), "{signature:?}");
        assert!(checked.in_words().contains(&named));
    }
    let cached = || crate::check_client(&house.plan("alice"), &Control::new(())).unwrap().findings.pop().unwrap();
    assert!(cached().good && cached().found.contains(&named));
    let (offer, cache) = (Offer::load(house.store()).unwrap(), house.dir.path().join("alice").join(epoch::NAME));
    let mut over = Epoch::load(&offer, house.store()).unwrap();
    let times = (Duration::from_secs(1), Duration::from_secs(2));
    over.sign(vesica_params::lwe::PACKED.id, times, |bytes| {
        Signer::of_offer(&house.server, &offer, &Control::new(())).unwrap().of(bytes)
    });
    std::fs::write(cache, over.encode()).unwrap();
    assert!(!cached().good && cached().found.contains("over since 1970"));
    house.stop();
    let serve = |world: &World| {
        crate::serve(&house.server, world, &|| None, &Control::new(())).map(drop).unwrap_err().to_string()
    };
    assert!(serve(&later).contains("mine.valid_for"), "{}", serve(&later));
    // Another store with the same document and the same key has another offer, and its epochs are none of this one's.
    let mut twin = house.server.clone();
    twin.store = house.dir.path().join("twin.store");
    twin.signer.path = house.dir.path().join("twin.store.signer");
    std::fs::copy(&house.server.signer.path, &twin.signer.path).unwrap();
    let made = crate::prepare(&twin, &Change::default(), &World::default(), &Control::new(())).unwrap();
    let offer = Offer::load(house.store()).unwrap();
    assert!(made.offer.signer() == offer.signer() && made.offer != offer);
    let replayed = std::fs::read(twin.store.join(epoch::NAME)).unwrap();
    assert!(Epoch::decode(&offer, &replayed).unwrap_err().contains("it is of another offer"));
    let named = |offer: &Offer| format!("\"offer\":\"{}\"", hex(&offer.hash()));
    let renamed = String::from_utf8(replayed).unwrap().replace(&named(&made.offer), &named(&offer));
    assert!(Epoch::decode(&offer, renamed.as_bytes()).unwrap_err().contains("not by the key of its offer"));
    // The same key, for another parameter set.
    let mut of_other_set = Epoch::load(&offer, house.store()).unwrap();
    let (begin, end) = (Duration::from_secs(1), Duration::from_secs(1 << 32));
    of_other_set.sign("another", (begin, end), |bytes| {
        Signer::of_offer(&house.server, &offer, &Control::new(())).unwrap().of(bytes)
    });
    assert!(Epoch::decode(&offer, &of_other_set.encode()).unwrap_err().contains("another parameter set"));
    // Another key than that of the offer, and none: neither the server nor a client takes that.
    let mut epoch = Epoch::load(&offer, house.store()).unwrap();
    let other = Signer::new(&zeroize::Zeroizing::new([9; 32]), Duration::from_secs(60));
    other.sign(&mut epoch, SystemTime::now());
    assert!(Epoch::decode(&offer, &epoch.encode()).unwrap_err().contains("not by the key of its offer"));
    std::fs::write(house.store().join(epoch::NAME), epoch.encode()).unwrap();
    assert!(serve(&World::default()).contains("not by the key of its offer"));
    let text = String::from_utf8(document).unwrap();
    let bare = format!("{}}}", text.split_once(",\"signed\"").unwrap().0);
    assert!(Epoch::decode(&offer, bare.as_bytes()).unwrap_err().contains("it is not signed"));
    // The file with the key is lost: changes of rows are refused, and a new key makes another offer.
    std::fs::write(house.store().join(epoch::NAME), text).unwrap();
    std::fs::remove_file(&house.server.signer.path).unwrap();
    assert!(
        Signer::of_offer(&house.server, &offer, &Control::new(()))
            .err()
            .unwrap()
            .to_string()
            .contains("list.store.signer does not hold")
    );
    // So is one whose folder is not mounted.
    let mut unmounted = house.server.clone();
    unmounted.signer.path = house.dir.path().join("not mounted/list.store.signer");
    let lost = Signer::of_offer(&unmounted, &offer, &Control::new(())).err().unwrap().to_string();
    assert!(lost.contains("list.store.signer does not hold") && lost.contains("--rotate"), "{lost}");
    // That is never made unasked: what is there and another key belong to no offer that clients have.
    let prepare = |plan: &ServePlan, rotate| {
        let change = Change { rotate, ..Change::default() };
        crate::prepare(plan, &change, &World::default(), &Control::new(()))
    };
    let lost = "list.store.signer does not hold the key that signed";
    let why = prepare(&house.server, false).unwrap_err().to_string();
    assert!(why.contains(lost) && why.contains("--rotate") && !house.server.signer.path.exists(), "{why}");
    let why = prepare(&unmounted, false).unwrap_err().to_string();
    assert!(why.contains(lost) && !house.dir.path().join("not mounted").exists(), "{why}");
    std::fs::copy(&twin.signer.path, &house.server.signer.path).unwrap();
    prepare(&house.server, false).unwrap();
    let another = zeroize::Zeroizing::new([9; 32]);
    crate::prepare::secret::save(
        &house.server.signer,
        crate::prepare::secret::Use::Signatures,
        &another,
        &Control::new(()),
    )
    .unwrap();
    assert!(prepare(&house.server, false).unwrap_err().to_string().contains(lost));
    // Whoever has stolen the key signs nothing for the new offer. A file that is damaged is replaced so too.
    std::fs::write(&house.server.signer.path, "vesica signer 1, damaged").unwrap();
    assert!(prepare(&house.server, false).unwrap_err().to_string().contains("damaged"));
    let again = prepare(&house.server, true).unwrap();
    assert!(again.offer_changed && again.offer.signer() != offer.signer() && again.offer.store() == offer.store());
    prepare(&house.server, false).unwrap();
    // Its file is its own, by links too, and in a folder that is made. Two at once do not make two keys.
    let aside = |name: &str| {
        let mut plan = house.server.clone();
        plan.signer.path = house.dir.path().join(name);
        (prepare(&plan, true).map(drop).map_err(|error| error.to_string()), plan.signer)
    };
    std::fs::write(&house.server.secret.path, "a key").unwrap();
    std::os::unix::fs::symlink(&house.server.secret.path, house.dir.path().join("link")).unwrap();
    std::fs::hard_link(&house.server.secret.path, house.dir.path().join("hard")).unwrap();
    std::os::unix::fs::symlink(house.store(), house.dir.path().join("inside")).unwrap();
    crate::prepare::secret::save(
        &vesica_spec::service::Secret { path: house.dir.path().join("other.secret"), key: None },
        crate::prepare::secret::Use::Function,
        &another,
        &Control::new(()),
    )
    .unwrap();
    std::os::unix::fs::symlink(house.dir.path().join("one.lock"), house.dir.path().join("to a lock")).unwrap();
    std::fs::write(house.dir.path().join("one.lock"), "").unwrap();
    for (name, why) in [
        ("link", "mine.secret"),
        ("hard", "mine.secret"),
        ("inside/key", "mine.store"),
        ("other.secret", "other.secret holds a key of the function, and no key that signs epochs"),
        ("one.next", "beside another key"),
        ("to a lock", "beside another key"),
    ] {
        let refused = aside(name).0.unwrap_err();
        assert!(refused.contains("mine.signer") && refused.contains(why), "{name}: {refused}");
    }
    let (made, place) = aside("new/folder/key");
    made.unwrap();
    let locked = crate::prepare::secret::lock(&place).unwrap();
    assert!(aside("new/folder/key").0.unwrap_err().contains("another `vesica prepare` is at work"));
    drop(locked);
}

/// An offer that cannot be read is not taken for none: a new one in its place would send every client away.
#[test]
fn an_offer_that_cannot_be_read_is_not_replaced() {
    for kind in [Kind { protocol: NO_HINT, ..PIANO }, PIANO, STORE] {
        let house = House::new(kind, ROWS);
        let path = house.store().join("offer.json");
        let prepare = |rotate| {
            let change = Change { rotate, ..Change::default() };
            crate::prepare(&house.server, &change, &World::default(), &Control::new(()))
        };
        let whole = std::fs::read(&path).unwrap();
        for damaged in [&whole[1..], b"", b"{\"version\":9}"] {
            std::fs::write(&path, damaged).unwrap();
            for rotate in [false, true] {
                let error = prepare(rotate).unwrap_err();
                let why = error.to_string();
                assert!(why.contains("offer.json") && why.contains("restore it from a copy"), "{kind:?}: {why}");
                assert_eq!(std::fs::read(&path).unwrap(), damaged);
            }
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(crate::spelled(&prepare(false).unwrap().offer.hash()), house.offer);
    }
}

/// A key that signs and is not sealed is named, also where no function protects rows. Rows are changed without a word written where it stands.
#[test]
fn a_signer_is_named_if_it_is_not_sealed_and_read_alone_where_rows_change() {
    for private in [Private::Client, Private::Both] {
        let mut house = House::new(Kind { protocol: NO_HINT, by: By::Key, private }, ROWS);
        let folder = house.dir.path().join("keys");
        house.server.signer.path = folder.join("signer");
        let prepare = |house: &House, change: &Change| {
            crate::prepare(&house.server, change, &World::default(), &Control::new(())).unwrap()
        };
        let whole = Change { rotate: true, ..Change::default() };
        let of = |unsealed: &[(crate::prepare::secret::Use, PathBuf)]| -> Vec<PathBuf> {
            unsealed.iter().map(|(_, path)| path.clone()).collect()
        };
        let all = [house.server.secret.path.clone(), house.server.signer.path.clone()];
        let wanted = if private == Private::Both { &all[..] } else { &all[1..] };
        assert_eq!(of(&prepare(&house, &whole).unsealed), wanted);
        std::fs::remove_file(folder.join("signer.lock")).unwrap();
        let more = house.dir.path().join("more.csv");
        std::fs::write(&more, "id,size\n1000,7.5\n").unwrap();
        let change = Change { append: Some(more), ..Change::default() };
        assert_eq!(of(&prepare(&house, &change).unsealed), wanted);
        let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["signer"], "{private:?}");
        // Nor where a prepare was killed before its new key had its name.
        std::fs::rename(folder.join("signer"), folder.join("signer.next")).unwrap();
        prepare(&house, &change);
        assert!(!folder.join("signer").exists());
        prepare(&house, &Change::default());
        assert!(folder.join("signer").exists() && !folder.join("signer.next").exists());
        // Sealed, neither is named.
        let key = house.dir.path().join("key");
        vesica_job::rooms::replace_privately(&key, &[7; 32]).unwrap();
        (house.server.secret.key, house.server.signer.key) = (Some(key.clone().into()), Some(key.into()));
        let file = |path: &Path| std::fs::read(path).unwrap();
        let before = file(&house.server.signer.path);
        assert!(prepare(&house, &whole).unsealed.is_empty());
        assert_ne!(file(&house.server.signer.path), before);
        // A rotation puts a key in the place of a key alone, and damaged it must still begin as one.
        let refused = |house: &House| {
            crate::prepare(&house.server, &whole, &World::default(), &Control::new(()))
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        for function in [false, true].into_iter().filter(|function| !function || private == Private::Both) {
            let place = |house: &mut House, path: &Path| match function {
                false => std::mem::replace(&mut house.server.signer.path, path.into()),
                true => std::mem::replace(&mut house.server.secret.path, path.into()),
            };
            let other = house.dir.path().join("bob.pem");
            std::fs::write(&other, "-----BEGIN PRIVATE KEY-----\n").unwrap();
            let was = place(&mut house, &other);
            let why = refused(&house);
            assert!(why.contains("bob.pem holds no key") && why.contains("move it away"), "{why}");
            assert_eq!(file(&other), b"-----BEGIN PRIVATE KEY-----\n");
            let key = house.dir.path().join("key");
            place(&mut house, &key);
            assert!(refused(&house).contains("is the file of mine.secret_key"), "{}", refused(&house));
            assert_eq!(file(&key), [7; 32]);
            let kept = file(&was);
            place(&mut house, &was);
            // Sealed by a key that is lost, it is moved away first: whose it is cannot be told.
            std::fs::write(&key, [8; 32]).unwrap();
            if !function {
                assert!(refused(&house).contains("move the file away"), "{}", refused(&house));
                assert_eq!(file(&was), kept);
            }
            std::fs::write(&key, [7; 32]).unwrap();
            std::fs::write(&was, &kept[..20]).unwrap();
            prepare(&house, &whole);
        }
    }
}

/// A new offer begins its numbers anew. Whoever has had a greater one under the old offer is told that this shows nothing of what the server did.
#[test]
fn a_smaller_number_of_another_offer_is_said() {
    let mut house = House::new(Kind { protocol: NO_HINT, ..PIANO }, ROWS);
    let prepare = |house: &House| {
        crate::prepare(&house.server, &Change::default(), &World::default(), &Control::new(())).unwrap()
    };
    (0..2).for_each(|_| drop(prepare(&house)));
    house.serve();
    assert!(!house.ask("alice", &[3]).notes.iter().any(|note| note.contains("of another offer")));
    house.stop();
    std::fs::remove_dir_all(house.store()).unwrap();
    // Another store has another name, though its key and its document are the same.
    house.offer = crate::spelled(&prepare(&house).offer.hash());
    house.serve();
    let notes = |house: &House| house.ask("alice", &[3]).notes;
    let said = notes(&house);
    let is_said = |note: &String| note.contains("has epoch 3 of another offer") && note.contains("serves epoch 1 (");
    assert!(said.iter().any(is_said), "{said:?}");
    assert!(!notes(&house).iter().any(is_said));
}

/// A folder with a file of an epoch and no offer is not a new store: it may have had a hint, which is not taken away unasked.
#[test]
fn a_store_without_its_offer_is_not_a_new_one() {
    let house = House::new(Kind { protocol: "simple-pir", ..PIANO }, 10);
    let mut open = house.server.clone();
    open.service.hint = None;
    let prepare = |plan: &ServePlan| crate::prepare(plan, &Change::default(), &World::default(), &Control::new(()));
    std::fs::remove_file(house.store().join("offer.json")).unwrap();
    for left in [epoch::NAME, "epoch-1.hint", "epoch-1.table"] {
        let names = [epoch::NAME, "epoch-1.hint", "epoch-1.table"].into_iter().filter(|name| *name != left);
        let aside: Vec<(PathBuf, Vec<u8>)> = names
            .map(|name| house.store().join(name))
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        aside.iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
        let why = prepare(&open).unwrap_err().to_string();
        assert!(
            why.contains("service.hint") && why.contains("Write hint = \"none\" or hint = \"copied\""),
            "{left}: {why}"
        );
        aside.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }
    assert_eq!(crate::spelled(&prepare(&house.server).unwrap().offer.hash()), house.offer);
    std::fs::remove_dir_all(house.store()).unwrap();
    assert!(prepare(&open).unwrap().offer.kind().signs());
}

/// `vesica prepare` is killed behind any of its writes: the store can be served, with the epoch before or with the new one, and prepared again. The
/// new epoch is of another offer, which is the worst that can be.
#[test]
fn a_store_is_whole_behind_every_write() {
    for by in [By::Index, By::Key] {
        let house = House::new(Kind { protocol: NO_HINT, by, private: Private::Client }, ROWS);
        let (store, before) = (house.store().to_owned(), house.dir.path().join("before"));
        let prepare = |rotate| {
            let change = Change { rotate, ..Change::default() };
            crate::prepare(&house.server, &change, &World::default(), &Control::new(()))
        };
        put_back(&store, &before);
        // The key that signs is replaced too, behind all of the store.
        let signer = &house.server.signer.path;
        let next = signer.with_extension("signer.next");
        let first = std::fs::read(signer).unwrap();
        let old = Offer::load(&store).unwrap();
        let offer = prepare(true).unwrap().offer;
        assert!(old.signer() != offer.signer() && !next.exists());
        let second = std::fs::read(signer).unwrap();
        let after = house.dir.path().join("after");
        put_back(&store, &after);
        let mut files: Vec<String> = ["table", "hint", "keys"].map(|end| format!("epoch-2.{end}")).into();
        files.retain(|name| after.join(name).exists());
        assert_eq!(files.len(), if by == By::Key { 3 } else { 2 });
        let steps = [("offer.json", "offer.json.next"), (epoch::NAME, epoch::NAME), ("offer.json", "offer.json")];
        let steps: Vec<(&str, &str)> = files.iter().map(|name| (&**name, &**name)).chain(steps).collect();
        for done in 0..=steps.len() {
            put_back(&before, &store);
            for (from, to) in &steps[..done] {
                std::fs::copy(after.join(from), store.join(to)).unwrap();
            }
            if done == steps.len() {
                std::fs::remove_file(store.join("offer.json.next")).unwrap();
            }
            std::fs::write(signer, &first).unwrap();
            vesica_job::rooms::replace_privately(&next, &second).unwrap();
            let is_new = done + 1 >= steps.len();
            let opened = crate::prepare::open(&house.server, &Control::new(())).unwrap();
            assert_eq!(opened.offer == offer, is_new, "{done}");
            let number = Epoch::load(&opened.offer, &store).unwrap().number;
            assert_eq!(number, if is_new { 2 } else { 1 }, "{done}");
            crate::audit_store(&store, None, 1, &World::default(), &Control::new(())).unwrap();
            // The next one is killed when it has written an offer of its own.
            Offer::settle(&store).unwrap();
            old.clone().signed_by(&[1; 32], [2; 16]).save_next(&store).unwrap();
            let settled = crate::prepare::open(&house.server, &Control::new(())).unwrap().offer;
            assert!(settled == opened.offer, "{done}");
            let again = prepare(false).unwrap();
            assert!(again.offer == opened.offer && !again.offer_changed, "{done}");
            // A key that is not this store's may be the only one of another.
            assert_eq!(next.exists(), !is_new, "{done}");
            let number = Epoch::load(&again.offer, &store).unwrap().number;
            assert!(number > 1 && !store.join("offer.json.next").exists(), "{done}");
            crate::prepare::open(&house.server, &Control::new(())).unwrap();
        }
    }
}

/// What clients copy of a store is computed again. Masks and hints that lie are found by whoever has the table, and by nobody else: their server
/// signed them. So are records that are not the table's.
#[test]
fn masks_and_hints_that_lie_are_found_by_who_has_the_table() {
    let audit = |house: &House, plan: Option<&ServePlan>| {
        let checked = crate::audit_store(house.store(), plan, 2, &World::default(), &Control::new(()));
        checked.map(|checked| checked.in_words()).map_err(|error| error.to_string())
    };
    for protocol in [NO_HINT, "simple-pir"] {
        let what = if protocol == NO_HINT { "masks" } else { "hint" };
        for by in [By::Index, By::Key] {
            let house = House::new(Kind { protocol, by, private: Private::Client }, ROWS);
            let words = audit(&house, Some(&house.server)).unwrap();
            assert!(words.contains(&format!("ok  {what}")) && words.contains("computed again"), "{words}");
            assert_eq!(words.contains("signature"), protocol == NO_HINT, "{words}");
            assert_eq!(words.contains("rows of mine.input"), by == By::Index, "{words}");
            // A high bit of the first word, for which the server answers with its own sums and signature.
            spoil_masks(&house, |copy| copy[26] ^= 0x02);
            let why = audit(&house, None).unwrap_err();
            assert!(
                why.contains("is not what the table makes of it") && why.contains("its maker wrote it so"),
                "{why}"
            );
            crate::prepare::open(&house.server, &Control::new(())).unwrap();
            // Nor is it as long as the epoch says, or a seed for a group of keys that cannot be.
            spoil_masks(&house, |copy| copy[26] ^= 0x02);
            if by == By::Key {
                spoil_copy(&house, |copy, hint| copy[hint] ^= 0xff);
                let why = audit(&house, None).unwrap_err();
                assert!(why.contains("damaged: a filter of") && why.contains("its maker wrote it so"), "{why}");
                spoil_copy(&house, |copy, hint| copy[hint] ^= 0xff);
            }
            audit(&house, None).unwrap();
            spoil_copy(&house, |copy, _| copy.push(0));
            assert!(audit(&house, None).unwrap_err().contains("it has not the length that its epoch says"));
        }
    }
    // By number, patches are followed, and the table of mine.input is compared.
    let house = House::new(Kind { protocol: NO_HINT, ..PIANO }, ROWS);
    let list = house.dir.path().join("list.csv");
    let other = std::fs::read_to_string(&list).unwrap().replace("\n7,7.5", "\n7,9.5");
    std::fs::write(&list, other).unwrap();
    assert!(audit(&house, Some(&house.server)).unwrap_err().contains("not the rows of mine.input"));
    let made = crate::prepare(&house.server, &Change::default(), &World::default(), &Control::new(())).unwrap();
    let crate::Product::Table(made) = made.product else { panic!("a table") };
    assert!(made.epoch.log > 0);
    assert!(audit(&house, Some(&house.server)).unwrap().contains("ok  masks"));
    assert!(audit(&House::new(STORE, 10), None).unwrap_err().contains("ecdh-oprf"));
    // Where clients copy no more than the records, nothing is computed, and that is said.
    assert!(audit(&House::new(PIANO, 10), None).unwrap().contains("nothing to compute again"));
}

/// Masks of another epoch than the one that the server describes are refused before a query leaves.
#[test]
fn masks_of_another_epoch_are_refused_before_a_query() {
    let mut house = House::new(Kind { protocol: NO_HINT, ..PIANO }, ROWS);
    spoil_masks(&house, |masks| masks[9] ^= 1);
    house.serve();
    std::fs::write(house.dir.path().join("alice.csv"), "id\n3\n").unwrap();
    let plan = house.plan("alice");
    let error = ask(&plan, files(&plan).unwrap(), &Control::new(())).map(drop).unwrap_err().to_string();
    assert!(error.contains("masks that cannot be"), "{error}");
    let sent = house.wire.said();
    assert!(!sent.is_empty() && sent.iter().all(|(lines, _)| lines.values().flatten().all(|said| said.len() < 1000)));
}

/// A server that goes back to an older table, or shows another one of the same number, is told apart from one that goes on, before anything is
/// asked or copied. Both epochs are named, and what to do.
#[test]
fn a_server_that_goes_back_is_refused() {
    for protocol in [NO_HINT, "simple-pir", "piano", "download"] {
        let mut house = House::new(Kind { protocol, ..PIANO }, ROWS);
        let prepare = |house: &House| {
            drop(crate::prepare(&house.server, &Change::default(), &World::default(), &Control::new(())).unwrap())
        };
        let (first, store) = (house.dir.path().join("first"), house.store().to_owned());
        put_back(&store, &first);
        prepare(&house);
        house.serve();
        assert_eq!(house.ask("alice", &[3]).rows, [house.row(3)]);
        house.stop();
        let refused = |house: &House, found: &str| {
            let (plan, cache) = (house.plan("alice"), house.dir.path().join("alice"));
            let error = ask(&plan, files(&plan).unwrap(), &Control::new(())).map(drop).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("serves {found}")) && text.contains("has epoch 2 ("), "{text}");
            assert!(text.contains(&format!("remove {}", cache.display())), "{text}");
            assert_eq!(error.fault(), vesica_job::Fault::Peer);
            let said = house.wire.said();
            // Why it left is said without what it has and where.
            for (_, stop) in &said {
                let why = String::from_utf8_lossy(stop.as_ref().unwrap());
                let path = house.dir.path().display().to_string();
                assert!(why.contains("an older state of the table") && !why.contains(&path), "{why}");
                assert!(!why.contains("epoch") && !why.contains("alice"), "{why}");
            }
            // It said hello and was told what there is.
            assert!(!said.is_empty() && said.iter().all(|(lines, _)| lines.keys().all(|name| name == "service")));
        };
        // From a copy of its folder.
        put_back(&first, &store);
        house.serve();
        refused(&house, "epoch 1 (");
        house.stop();
        // It goes on from there with another table.
        let list = house.dir.path().join("list.csv");
        let other = std::fs::read_to_string(&list).unwrap().replace("\n7,7.5", "\n7,9.5");
        std::fs::write(&list, other).unwrap();
        prepare(&house);
        house.serve();
        refused(&house, "epoch 2 (");
        // Somebody who has nothing yet takes what there is, and so does who removed his copy.
        for cache in ["bystander", "alice"] {
            drop(std::fs::remove_dir_all(house.dir.path().join("alice")));
            assert_eq!(house.ask(cache, &[3]).rows, [house.row(3)]);
        }
        // Whoever goes on with it is served as before.
        house.stop();
        prepare(&house);
        house.serve();
        assert_eq!(house.ask("alice", &[3, 4]).rows, [3, 4].map(|key| house.row(key)));
    }
}

/// Where the document of the last epoch is lost, numbers go on behind those of the files that are there, and clients follow. A client that lost
/// its own is told that it cannot see whether the server went back.
#[test]
fn numbers_go_on_where_the_document_of_an_epoch_is_lost() {
    for protocol in [NO_HINT, "download"] {
        let mut house = House::new(Kind { protocol, ..PIANO }, ROWS);
        let document = house.store().join(epoch::NAME);
        let number = |path: &Path| {
            serde_json::from_slice::<serde_json::Value>(&std::fs::read(path).unwrap()).unwrap()["number"].clone()
        };
        let prepare = |house: &House| {
            drop(crate::prepare(&house.server, &Change::default(), &World::default(), &Control::new(())).unwrap());
            number(&document)
        };
        assert_eq!(prepare(&house), 2);
        house.serve();
        assert_eq!(house.ask("alice", &[3]).rows, [house.row(3)]);
        house.stop();
        std::fs::remove_file(&document).unwrap();
        assert_eq!(prepare(&house), 3);
        std::fs::write(&document, "{").unwrap();
        assert_eq!(prepare(&house), 4);
        house.serve();
        let asked = house.ask("alice", &[3]);
        assert_eq!(asked.rows, [house.row(3)]);
        assert!(asked.notes.iter().all(|note| !note.contains("older")), "{:?}", asked.notes);
        std::fs::write(house.dir.path().join("alice").join(epoch::NAME), "{").unwrap();
        let asked = house.ask("alice", &[3]);
        assert_eq!(asked.rows, [house.row(3)]);
        assert_eq!(asked.notes.iter().filter(|note| note.contains("an older table")).count(), 1, "{:?}", asked.notes);
        // An emptied folder, of which the operator knows the last number.
        house.stop();
        drop(std::fs::remove_dir_all(house.store()));
        std::fs::create_dir(house.store()).unwrap();
        std::fs::write(house.store().join(table_name(4)), "").unwrap();
        assert_eq!(prepare(&house), 5);
    }
}

/// Values with the right tag that are no values: too many columns, none, and text that is not UTF-8.
#[test]
fn values_that_are_none_tell_nobody_who_asked_for_them() {
    for value in [&b"\x02\0\0\0a\x02\0\0\0b"[..], b"", b"\x02\0\0\0\xff", b"\xff\xff\xff\xffa"] {
        let mut house = House::new(Kind { protocol: "download", by: By::Index, private: Private::Client }, ROWS);
        house.spoil_table(|table, epoch, offer| {
            let mut body = Vec::new();
            assert!(pad(&epoch.salt(), &digest_of_index(50), value, 30, &mut body) && body.len() == body_bytes(offer));
            table[50 * body.len()..][..body.len()].copy_from_slice(&body);
        });
        house.serve();
        assert_eq!(house.compare_whatever_is_lost(), [50].into(), "{value:?}");
    }
}

/// One bucket, or slots of a filter, that are spoilt behind their tags.
#[test]
fn a_bucket_that_cannot_be_read_tells_nobody_whose_keys_are_in_it() {
    for (protocol, private) in all_by(By::Key) {
        let mut house = House::new(Kind { protocol, by: By::Key, private }, ROWS);
        house.spoil_table(|table, epoch, offer| {
            let (body, width) = (body_bytes(offer), epoch.width as usize);
            let (slots, tag) = if ["simple-pir", NO_HINT].contains(&protocol) {
                (1, keyword::TAG)
            } else {
                (bucket::SLOTS, bucket::TAG)
            };
            assert_eq!(width, slots * (tag + body));
            // All slots of one bucket; or every eighth slot of a filter, where a key is the sum of four.
            let records = if slots == 1 { (0..epoch.records as usize).step_by(8) } else { (11..12).step_by(1) };
            for at in records.map(|record| record * width) {
                (0..slots).for_each(|slot| table[at + slot * (tag + body) + tag + body / 2] ^= 1);
            }
        });
        house.serve();
        house.compare_whatever_is_lost();
    }
}

/// The server decides how many rows it has, and a client whose number it has not once had no output.
#[test]
fn a_number_that_the_table_does_not_have_tells_nobody_who_asked_for_it() {
    for protocol in ["download", "simple-pir", NO_HINT, "piano", "bfv-pir"] {
        let mut house = House::new(Kind { protocol, ..PIANO }, ROWS);
        house.serve();
        house.compare(ROWS + 30, 0, &[1, 2, 3, 4, 5, 6], "no_such_row");
    }
}

/// A key or number may stand in several rows of the client's table. All rows of one that is lost are named, with their reason, in their order.
#[test]
fn all_rows_of_what_is_lost_are_named() {
    let named = |ended: &Ended| -> Vec<(String, u64, Vec<u64>)> {
        ended.outcome.left_out.iter().map(|left| (left.name.clone(), left.rows, left.first.clone())).collect()
    };
    let mut house = House::new(PIANO, ROWS);
    house.spoil_table(|table, epoch, offer| {
        let place = offer.kind().scheme().unwrap().place(epoch.records, &epoch.seed(), 50).unwrap();
        table[place as usize * epoch.width as usize] ^= 1;
    });
    house.serve();
    let ended = house.ask("alice", &[50, 1, ROWS + 30, 50, 2, 1, ROWS + 30, 50]);
    let lost = [("unreadable".to_owned(), 3, vec![1, 4, 8]), ("no_such_row".to_owned(), 2, vec![3, 7])];
    assert_eq!(named(&ended), lost);
    assert_eq!(ended.rows, [1, 2, 1].map(|key| house.row(key)));
    let Outcome { keys, duplicates, matched, matched_rows, .. } = ended.outcome;
    assert_eq!((keys, duplicates, matched, matched_rows), (4, 4, Some(2), Some(3)));

    // By key, they are held part by part, in no order of the table.
    let mut house = House::new(STORE, 1100);
    house.spoil_store(|part, _, values| part[values + 7 * vesica_store::sealed_bytes(30) + 9] ^= 1);
    house.serve();
    let lost = *house.compare_whatever_is_lost().first().unwrap();
    let good: Vec<u64> = house.keys().into_iter().filter(|key| *key != lost).take(40).collect();
    let ended = house.ask("alice", &[&[lost], &good[..], &[lost], &good[..1], &[lost]].concat());
    assert_eq!(named(&ended), [("unreadable".to_owned(), 3, vec![1, 42, 44])]);
    let rows: Vec<String> = good.iter().chain(&good[..1]).map(|key| house.row(*key)).collect();
    assert_eq!(ended.rows, rows);
    let Outcome { keys, duplicates, matched, matched_rows, .. } = ended.outcome;
    assert_eq!((keys, duplicates, matched, matched_rows), (41, 3, Some(40), Some(41)));
}

/// One answer is spoilt on its way, of whichever row it is. The rows of the others are written, and the runs after it are as if nothing had
/// been: `piano` has polluted one hint of its window and goes on with it.
#[test]
fn an_answer_that_is_spoilt_costs_the_row_alone() {
    for protocol in ["simple-pir", NO_HINT, "piano", "bfv-pir", "null"] {
        let kind = Kind { protocol, ..PIANO };
        let mut house = House::new(kind, ROWS);
        house.serve();
        let offer = Offer::load(house.store()).unwrap();
        let scheme = retrieval(&offer, &Epoch::load(&offer, house.store()).unwrap()).unwrap();
        // Each asks for so many rows that their answers are one message.
        let rows: Vec<u64> = (10..10 + scheme.together().min(4)).collect();
        let answers = rows.len() * scheme.sizes().answer;
        for turn in 0..4 {
            let last = answers - scheme.sizes().answer;
            let change = move |answers: &mut [u8]| answers[last..].iter_mut().for_each(|byte| *byte ^= 0x5a);
            house.wire.spoil(if turn == 0 { answers } else { 0 }, change);
            let victim = house.ask("victim", &rows);
            house.wire.spoil(0, |_| ());
            let other = house.ask("other", &rows);
            assert_eq!(victim.said, other.said, "{kind:?}, {turn}");
            assert_eq!(other.rows.len(), rows.len());
            // What came wrongly to a window is known wrongly as long as the window lasts.
            let is_lost = turn == 0 || protocol == "piano";
            let at = rows.len() - 1;
            assert_eq!(victim.rows, other.rows[..if is_lost { at } else { rows.len() }], "{kind:?}, {turn}");
            let first: Vec<u64> = victim.outcome.left_out.iter().flat_map(|left| left.first.clone()).collect();
            assert_eq!(first, if is_lost { vec![rows.len() as u64] } else { Vec::new() });
        }
    }
}

/// A disk that changes a byte anywhere in the copy is found before any key is asked for, whichever keys the client has.
#[test]
fn damage_of_the_copy_is_found_before_a_key_is_asked_for() {
    let mut house = House::new(STORE, 1100);
    house.serve();
    house.ask("alice", &[0, 3]);
    let cache = house.dir.path().join("alice");
    let parts = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let part: PathBuf = parts.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let whole = std::fs::read(&part).unwrap();
    for at in [200, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&part, bytes).unwrap();
        let plan = house.plan("alice");
        let error = ask(&plan, files(&plan).unwrap(), &Control::new(())).map(drop).unwrap_err().to_string();
        assert!(error.contains("is damaged") && error.contains("fetch it again"), "{error}");
        // No line was opened on which keys go.
        let said = house.wire.said();
        assert!(said.iter().all(|(lines, _)| lines.keys().all(|name| name == "service")), "{said:?}");
    }
}

/// How long a client reads its table depends on rows, repetitions and empty keys, of which the server is told nothing. So the table is read
/// before the server hears of anything, and what is wrong with it is found then. Where the rules of keys are in an offer that the client has
/// not seen yet, it reads once more while the server waits: in its first run, if it has not fetched before.
#[test]
fn a_table_is_read_before_the_server_hears_of_anything() {
    let by_key = Kind { protocol: "simple-pir", by: By::Key, private: Private::Both };
    for kind in [STORE, by_key, Kind { protocol: "piano", ..by_key }, PIANO] {
        for rules in ["", "rules = [\"trim\", \"lower\"]"] {
            if kind.by == By::Index && !rules.is_empty() {
                continue;
            }
            let mut house = House::with(kind, ROWS, rules);
            house.serve();
            let read = |turn: &str| {
                let phases = house.ask("alice", &[3, 6, 9]).phases;
                let connect = phases.iter().position(|phase| *phase == "connect").unwrap();
                let [before, after] = [&phases[..connect], &phases[connect..]]
                    .map(|phases| phases.iter().filter(|phase| **phase == "read").count());
                assert_eq!(before, 1, "{kind:?}, {turn}: {phases:?}");
                after
            };
            assert_eq!(read("first") == 1, !rules.is_empty(), "{kind:?}");
            assert_eq!(read("second"), 0, "{kind:?}");
            // A table that breaks off in the middle ends the run before anybody is contacted.
            std::fs::write(house.dir.path().join("alice.csv"), "id\n3\n\"6\n").unwrap();
            let plan = house.plan("alice");
            assert!(ask(&plan, files(&plan).unwrap(), &Control::new(())).is_err());
            assert!(house.wire.said().is_empty(), "{kind:?}");
        }
    }
}

/// The scheme of tests runs from end to end, by number and by key, and stands in the plan, the check, the report and the list of the fuzzer. It
/// is a name in `vesica-spec`, a line of the registry, and one file.
#[test]
fn a_scheme_is_one_file_and_one_line() {
    for by in [By::Index, By::Key] {
        for private in [Private::Client, Private::Both] {
            let mut house = House::new(Kind { protocol: "null", by, private }, ROWS);
            let plan = crate::plan_server(&house.server, None, None, None).unwrap();
            assert!(plan.contains(": null by") && plan.contains("\n* null"), "{plan}");
            let told: Vec<&str> =
                if private == Private::Both { vec!["looked up"] } else { vec!["looked up", "all rows"] };
            assert!(told.iter().all(|told| plan.contains(told)), "{plan}");
            assert!(crate::check_server(&house.server, &Control::new(())).is_ok());
            house.serve();
            let keys = house.keys();
            let ended = house.ask("alice", &keys);
            assert_eq!(ended.rows, keys.iter().map(|key| house.row(*key)).collect::<Vec<_>>());
            let plan = house.plan("alice");
            let report = ask(&plan, files(&plan).unwrap(), &Control::new(())).and_then(Run::end).unwrap();
            assert_eq!((report.chosen.protocol.as_str(), report.outcome.matched), ("null", Some(ROWS)));
            assert_eq!(report.revealed.iter().any(|revealed| revealed.name == "all_rows"), private == Private::Client);
            assert!(crate::plan_client(&plan, None).unwrap().contains("Fetched: epoch 1"));
        }
    }
    let is_fuzzed =
        |(name, bytes): &(&str, Vec<u8>)| *name == "offer" && bytes.windows(6).any(|word| word == b"\"null\"");
    assert!(crate::fuzzing::seeds().iter().any(is_fuzzed));
}
