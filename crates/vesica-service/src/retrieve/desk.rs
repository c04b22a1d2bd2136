//! The server's side: an epoch in memory, and answers to queries about it.

use super::epoch::{self, CHUNK, Epoch};
use super::{Retrieval, Server, Turn, changes, retrieval};
use crate::error::Error;
use crate::offer::{Offer, hex};
use crate::prepare::secret::Root;
use crate::stock::{Served, Stock, other_offer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use vesica_oprf::function::ServerFunction;
use vesica_session::{Channel, Misbehaviour};

/// An epoch that is served. Table and copy are held in memory.
pub struct Desk {
    folder: PathBuf,
    epoch: Epoch,
    name: u64,
    /// How its records are fetched.
    pub scheme: Box<dyn Retrieval>,
    /// What answers, from the table.
    server: Box<dyn Server>,
    /// What clients copy; empty where it is the table.
    copy: Vec<u8>,
    /// The changes since that was made.
    log: Vec<u8>,
    /// The sums of the chunks of both.
    sums: [Vec<u8>; 2],
    /// Threads of a pass.
    workers: usize,
}

/// The files of an epoch.
pub struct Files {
    /// The records.
    pub table: Vec<u8>,
    /// What is kept beside them.
    pub beside: Vec<u8>,
    /// What clients copy; empty where it is the table.
    pub copy: Vec<u8>,
    /// The changes since that was made.
    pub log: Vec<u8>,
    /// The sums of the chunks of both.
    pub sums: [Vec<u8>; 2],
}

/// What mends damaged files.
pub const AGAIN: &str = "run `vesica prepare` again";

impl Files {
    /// Those in `folder`. `remedy` says what to do where one is damaged.
    ///
    /// # Errors
    /// If one is not there, or is not the one of its sum.
    pub fn read(folder: &Path, epoch: &Epoch, scheme: &dyn Retrieval, remedy: &str) -> Result<Self, Error> {
        let damaged = |path: PathBuf, why: &str| Error::Damaged { path, why: format!("{why}; {remedy}") };
        let read = |path: &PathBuf| std::fs::read(path).map_err(Error::file("cannot read", path));
        let mut path = folder.join(table_name(epoch.number));
        let mut table = read(&path)?;
        if table.len() as u64 != epoch.records * u64::from(epoch.width) + scheme.beside() {
            return Err(damaged(path, "it has not the length of its table"));
        }
        if epoch::table_sum(&table) != epoch.table {
            return Err(damaged(path, "its sum is not that of its epoch"));
        }
        let (mut copy, mut log) = (Vec::new(), Vec::new());
        if scheme.has_hint() {
            path = folder.join(hint_name(epoch.base));
            copy = read(&path)?;
        }
        if scheme.has_hint() && copy.len() as u64 != epoch.copy {
            return Err(damaged(path, "it has not the length that its epoch says"));
        }
        let sums = epoch::sums(if copy.is_empty() { &table } else { &copy });
        if hex(blake3::hash(&sums).as_bytes()) != epoch.sums {
            return Err(damaged(path, "its sum is not that of its epoch"));
        }
        if epoch.log > 0 {
            path = folder.join(log_name(epoch.number));
            log = read(&path)?;
        }
        if log.len() as u64 != epoch.log {
            return Err(damaged(path, "it has not the length that its epoch says"));
        }
        let log_sums = epoch::sums(&log);
        if epoch.log > 0 && hex(blake3::hash(&log_sums).as_bytes()) != epoch.log_sums {
            return Err(damaged(path, "its sum is not that of its epoch"));
        }
        if changes::entries(&log).is_none() {
            return Err(damaged(path, "it is no log of changes"));
        }
        let beside = table.split_off(table.len() - scheme.beside() as usize);
        Ok(Self { table, beside, copy, log, sums: [sums, log_sums] })
    }
}

impl Desk {
    /// The epoch in `folder`, which is served with so many threads.
    ///
    /// # Errors
    /// If its files are not there, or damaged, or not of this offer.
    pub fn open(folder: &Path, offer: &Offer, workers: usize) -> Result<Self, Error> {
        let epoch = Epoch::load(offer, folder)?;
        let shape = |error: vesica_pir::PirError| Error::Setup(error.to_string());
        let scheme = retrieval(offer, &epoch).map_err(shape)?;
        let Files { table, beside, copy, log, sums } = Files::read(folder, &epoch, &*scheme, AGAIN)?;
        let server = scheme.resume(Arc::new(table), &beside, &log, workers).map_err(shape)?;
        let (folder, name) = (folder.to_owned(), epoch.name());
        Ok(Self { folder, name, epoch, scheme, server, copy, log, sums, workers })
    }

    /// Fails if a file of an epoch is not in the folder, or has not its length. None of them is read.
    fn is_there(&self, offer: &Offer, epoch: &Epoch) -> Result<(), Error> {
        // Another number of rows is another shape, and what is kept beside them has another length.
        let scheme = retrieval(offer, epoch)?;
        let table = epoch.records * u64::from(epoch.width) + scheme.beside();
        let mut files = vec![(table_name(epoch.number), table)];
        if scheme.has_hint() {
            files.push((hint_name(epoch.base), epoch.copy));
        }
        if epoch.log > 0 {
            files.push((log_name(epoch.number), epoch.log));
        }
        for (name, bytes) in files {
            let path = self.folder.join(name);
            let file = std::fs::metadata(&path).map_err(Error::file("cannot read", &path))?;
            if file.len() != bytes {
                let why =
                    format!("it has {} bytes, and its epoch says {bytes}; run `vesica prepare` again", file.len());
                return Err(Error::Damaged { path, why });
            }
        }
        Ok(())
    }

    /// Why a question about the epoch of this name is not answered, if it is not.
    pub fn refusal(&self, name: u64) -> Option<String> {
        (name != self.name).then(|| {
            format!(
                "epoch {} is not the one that this connection was told of, which is {}; run `vesica ask` again, which fetches it",
                hex(&name.to_le_bytes()),
                self.epoch.spelled()
            )
        })
    }

    /// Answers so many queries, round by round, after the keys that the scheme has. `desk` gives the epoch's desk, and is called for each
    /// round: while the client is waited for, nobody holds it. `came` is called for each round, with how many queries it has. `turn` is called
    /// for whatever is worked on.
    ///
    /// # Errors
    /// Those of the channel and of `desk`; the client's, if it sends no queries.
    pub fn answer(
        desk: impl Fn() -> Result<Arc<Self>, Error>,
        queries: u64,
        ch: &mut dyn Channel,
        mut came: impl FnMut(u64),
        turn: Turn<'_>,
    ) -> Result<(), Error> {
        let (keys_bytes, query, together) = {
            let desk = desk()?;
            (desk.scheme.keys_bytes(), desk.scheme.sizes().query, desk.scheme.together())
        };
        let mut keys = Vec::with_capacity(keys_bytes);
        while keys.len() < keys_bytes {
            keys.extend(ch.recv_exact((keys_bytes - keys.len()).min(CHUNK))?);
        }
        let mut left = queries;
        while left > 0 {
            let round = left.min(together);
            left -= round;
            let wire = ch.recv_exact(round as usize * query)?;
            came(round);
            let answers = desk()?.round(&keys, &wire, ch, turn)?;
            ch.send(&answers)?;
        }
        Ok(())
    }

    /// The answers to a round of queries, one behind the other.
    fn round(&self, keys: &[u8], wire: &[u8], ch: &dyn Channel, turn: Turn<'_>) -> Result<Vec<u8>, Error> {
        let queries: Vec<&[u8]> = wire.chunks_exact(self.scheme.sizes().query).collect();
        let answers = self.server.answer(keys, &queries, turn);
        let answers = answers.map_err(|_| ch.accuse(Misbehaviour::Malformed("query")))?;
        if answers.len() != queries.len() {
            return Err(Error::bug("a pass over the table failed"));
        }
        Ok(answers.concat())
    }
}

impl Served for Desk {
    fn reload(&self, offer: &Offer, make_room: &mut dyn FnMut()) -> Result<Option<Stock>, Error> {
        let mut load = || {
            let epoch = Epoch::load(offer, &self.folder)?;
            if epoch == self.epoch {
                return Ok(None);
            }
            // What cannot be loaded is to take nobody's room.
            self.is_there(offer, &epoch)?;
            make_room();
            Self::open(&self.folder, offer, self.workers).map(Some)
        };
        let now = load().map_err(|error| if Epoch::is_foreign(offer, &self.folder) { other_offer() } else { error })?;
        Ok(now.map(|desk| Arc::new(desk) as Stock))
    }

    fn function(&self, root: &Root) -> Result<Arc<dyn ServerFunction>, Error> {
        self.epoch.function(root)
    }

    fn describe(&self) -> Vec<u8> {
        self.epoch.encode()
    }

    fn rows(&self) -> u64 {
        self.epoch.rows
    }

    fn until(&self) -> Option<SystemTime> {
        self.epoch.times().map(|(_, until)| until)
    }

    /// Part 0 is a hint or a table, part 1 the log of changes since then.
    fn parts(&self) -> u64 {
        if self.log.is_empty() { 1 } else { 2 }
    }

    fn bytes(&self) -> u64 {
        self.epoch.copy + self.epoch.log
    }

    fn sums(&self, part: usize) -> Option<&[u8]> {
        self.sums[..self.parts() as usize].get(part).map(Vec::as_slice)
    }

    fn chunk(&self, part: usize, number: u64) -> Option<&[u8]> {
        let bytes = match part {
            0 if self.copy.is_empty() => self.server.table(),
            0 => &self.copy,
            _ => &self.log,
        };
        bytes.chunks(CHUNK).nth(usize::try_from(number).ok()?)
    }

    fn records(self: Arc<Self>) -> Option<Arc<Desk>> {
        Some(self)
    }
}

/// The file with the records of an epoch, and behind them what is kept beside them.
pub fn table_name(number: u64) -> String {
    format!("epoch-{number}.table")
}

/// The file with the hint of an epoch.
pub fn hint_name(number: u64) -> String {
    format!("epoch-{number}.hint")
}

/// The file with the changes that led to an epoch, since its base.
pub fn log_name(number: u64) -> String {
    format!("epoch-{number}.log")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::epoch::Layout;
    use super::super::{Scheme, body_bytes, pad, unpad};
    use super::*;
    use crate::prepare::signer::Signer;
    use crate::suite::{self, Kind};
    use crate::values::digest_of_index;
    use vesica_session::SessionRng;
    use vesica_spec::service::{By, Hint, Private, ServiceProtocol};
    use vesica_testkit::two;

    const ROWS: u64 = 40;
    const VALUE: u32 = 20;

    /// "simple-pir" without a hint.
    pub(crate) const NO_HINT: Kind = Kind { protocol: ServiceProtocol::SimplePir, hint: Some(Hint::None) };

    /// In tests "simple-pir" by its name alone has a hint.
    impl From<ServiceProtocol> for Kind {
        fn from(protocol: ServiceProtocol) -> Self {
            Self::of(protocol, Some(Hint::Copied))
        }
    }

    fn offer(kind: impl Into<Kind>, value: u32) -> Offer {
        let kind = kind.into();
        let service = crate::offer::sample(kind, By::Index, Private::Client);
        let offer = Offer::new(&service, 0, Some(value), 0, &[]).unwrap();
        if kind.signs() { offer.signed_by(signer().public(), [7; 16]) } else { offer }
    }

    /// What signs the epochs of these tests.
    pub(crate) fn signer() -> Signer {
        Signer::new(&zeroize::Zeroizing::new([7; 32]), std::time::Duration::from_secs(3600))
    }

    /// A folder with an epoch in it.
    fn house(kind: impl Into<Kind>) -> (tempfile::TempDir, Offer, Epoch) {
        house_of(kind, VALUE)
    }

    /// The value of a row.
    pub(crate) fn value(row: u64, length: u32) -> Vec<u8> {
        (0..u64::from(length)).map(|i| (i * 7 + row) as u8).collect()
    }

    /// The same with values of so many bytes.
    pub(crate) fn house_of(kind: impl Into<Kind>, length: u32) -> (tempfile::TempDir, Offer, Epoch) {
        house_with(kind, ROWS, length)
    }

    /// The same with so many rows.
    pub(crate) fn house_with(kind: impl Into<Kind>, rows: u64, length: u32) -> (tempfile::TempDir, Offer, Epoch) {
        let (dir, offer) = (tempfile::tempdir().unwrap(), offer(kind, length));
        let epoch = put(dir.path(), &offer, 1, rows);
        (dir, offer, epoch)
    }

    /// Makes the epoch of this number of so many rows, in a folder of a service of this offer.
    pub(crate) fn put(folder: &Path, offer: &Offer, number: u64, rows: u64) -> Epoch {
        let length = offer.value_bytes.unwrap();
        let (width, mut table) = (body_bytes(offer), Vec::new());
        for row in 0..rows {
            assert!(pad(&[2; 32], &digest_of_index(row), &value(row, length), length as usize, &mut table));
        }
        let shape = Layout {
            rows,
            records: rows,
            width,
            seed: [1; 32],
            salt: [2; 32],
            sealed: [3; 32],
            expected: 10,
            preset: Default::default(),
        };
        let mut epoch = Epoch::new(offer, number, shape);
        let scheme = retrieval(offer, &epoch).unwrap();
        epoch.copy = scheme.copied();
        let server = scheme.server(Arc::new(table.clone()), 1).unwrap();
        let hint = server.hint().unwrap();
        table.extend(server.beside());
        let copy = if hint.is_empty() { &table } else { &hint };
        epoch.sums = hex(blake3::hash(&epoch::sums(copy)).as_bytes());
        epoch.table = epoch::table_sum(&table);
        if offer.kind().signs() {
            signer().sign(&mut epoch, SystemTime::now());
        }
        std::fs::write(folder.join(table_name(number)), &table).unwrap();
        std::fs::write(folder.join(hint_name(number)), &hint).unwrap();
        std::fs::write(folder.join(epoch::NAME), epoch.encode()).unwrap();
        epoch
    }

    /// Puts the epoch behind `epoch` into its folder, with the same rows.
    pub(crate) fn follow(folder: &Path, epoch: &mut Epoch) {
        let (last, next) = (epoch.number, epoch.number + 1);
        for name in [table_name, hint_name] {
            std::fs::rename(folder.join(name(last)), folder.join(name(next))).unwrap();
        }
        (epoch.number, epoch.base) = (next, next);
        std::fs::write(folder.join(epoch::NAME), epoch.encode()).unwrap();
    }

    /// Every scheme of rows of bytes whose clients ask.
    fn asking() -> impl Iterator<Item = Kind> {
        let is_asked = |scheme: &dyn Scheme| scheme.asks() && !scheme.has_reals();
        suite::retrieving().filter(move |kind| kind.suite().scheme().is_some_and(is_asked))
    }

    #[test]
    fn a_query_that_is_none_is_the_clients_fault() {
        for kind in asking() {
            let (dir, offer, epoch) = house(kind);
            let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
            let query = retrieval(&offer, &epoch).unwrap().sizes().query;
            for bad in [vec![], vec![0xff; query - 1], vec![0xff; query + 1], vec![0; 3 * query]] {
                let (_, answered) = two(
                    |lines, _| lines.peer().unwrap().send(&bad).unwrap(),
                    |lines, _| Desk::answer(|| Ok(desk.clone()), 1, lines.peer().unwrap(), |_| (), &|work| work()),
                );
                let error = answered.unwrap_err();
                assert_eq!(error.fault(), vesica_session::Fault::Peer, "{kind:?}: {error}");
            }
            // Bits that no query has.
            let (_, answered) = two(
                |lines, _| lines.peer().unwrap().send(&vec![0xff; query]).unwrap(),
                |lines, _| Desk::answer(|| Ok(desk.clone()), 1, lines.peer().unwrap(), |_| (), &|work| work()),
            );
            if kind.protocol != ServiceProtocol::Piano {
                assert!(answered.unwrap_err().to_string().contains("alice"));
            }
        }
    }

    /// Values that are so long that queries are expanded, which takes keys.
    pub(crate) const LONG: u32 = 2036;

    #[test]
    fn keys_that_are_none_are_the_clients_fault() {
        for kind in [ServiceProtocol::BfvPir, ServiceProtocol::BgvPir] {
            let (dir, offer, epoch) = house_of(kind, LONG);
            let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
            let scheme = retrieval(&offer, &epoch).unwrap();
            let (keys, query) = (scheme.keys_bytes(), scheme.sizes().query);
            assert!(keys > 0 && keys < CHUNK);
            // Too few bytes, too many, and residues that are none, in the keys or in the query.
            let mut late = vec![0; query];
            late[query - 7..].fill(0xff);
            for [first, second] in [
                [vec![0; keys - 1], vec![0; query]],
                [vec![0; keys + 1], vec![0; query]],
                [vec![0xff; keys], vec![0; query]],
                [vec![0; keys], late],
                [vec![0; query], vec![0; keys]],
            ] {
                let (_, answered) = two(
                    |lines, _| {
                        let ch = lines.peer().unwrap();
                        ch.send(&first).unwrap();
                        drop(ch.send(&second));
                    },
                    |lines, _| Desk::answer(|| Ok(desk.clone()), 1, lines.peer().unwrap(), |_| (), &|work| work()),
                );
                let error = answered.unwrap_err();
                assert_eq!(error.fault(), vesica_session::Fault::Peer, "{kind:?}: {error}");
                assert!(error.to_string().contains("alice"), "{kind:?}: {error}");
            }
        }
    }

    /// What the server answers from another table or epoch, or computes wrongly, is no row that was asked for. The client finds that when
    /// it has the record, and so when the server has gone.
    #[test]
    fn a_wrong_answer_is_told_by_the_tag() {
        let mut rng = SessionRng::from_os().unwrap();
        for (kind, length) in [
            (ServiceProtocol::SimplePir.into(), VALUE),
            (NO_HINT, VALUE),
            (ServiceProtocol::BfvPir.into(), VALUE),
            (ServiceProtocol::BgvPir.into(), VALUE),
            (ServiceProtocol::BfvPir.into(), LONG),
        ] {
            let (dir, offer, epoch) = house_of(kind, length);
            let scheme = retrieval(&offer, &epoch).unwrap();
            let (width, mut table) = (body_bytes(&offer), std::fs::read(dir.path().join(table_name(1))).unwrap());
            table.truncate(ROWS as usize * width);
            let hint = std::fs::read(dir.path().join(hint_name(1))).unwrap();
            // The rows of another epoch, and the same rows in other places.
            let mut other = Vec::new();
            for row in 0..ROWS {
                pad(&[3; 32], &digest_of_index(row), &value(row, length), length as usize, &mut other);
            }
            let moved = [&table[width..], &table[..width]].concat();
            let mut ask = |table: &[u8], flip: Option<usize>| {
                let mut reads = scheme.reader(hint.clone(), &mut rng).unwrap();
                let keys = reads.begin(&mut rng);
                let query = reads.round(&[Some(vec![7])], &mut rng).unwrap();
                let server = scheme.server(Arc::new(table.to_vec()), 1).unwrap();
                let mut answer = server.answer(&keys, &[&query], &|work| work()).unwrap().remove(0);
                if let Some(at) = flip {
                    // All of a coefficient's high bits are in some of these bytes.
                    answer[at..at + 8].iter_mut().for_each(|byte| *byte ^= 0xff);
                }
                reads.take(&answer).unwrap();
                let record = reads.records().unwrap().remove(0).unwrap();
                unpad(&epoch.salt(), &digest_of_index(7), &record).map(<[u8]>::to_vec)
            };
            assert_eq!(ask(&table, None), Some(value(7, length)), "{kind:?}");
            assert_eq!(ask(&other, None), None, "{kind:?}");
            assert_eq!(ask(&moved, None), None, "{kind:?}");
            // In an answer by polynomials the uniform half stands last, and every coefficient of it counts.
            if kind.protocol != ServiceProtocol::SimplePir {
                assert_eq!(ask(&table, Some(scheme.sizes().answer - 9)), None, "{kind:?}");
            }
        }
    }

    /// A client goes away between two rounds. Only the round that came is told of, so the client's window is not found older than it is.
    #[test]
    fn only_rounds_that_came_are_counted() {
        let (dir, offer, epoch) = house(ServiceProtocol::Piano);
        let desk = Arc::new(Desk::open(dir.path(), &offer, 2).unwrap());
        let scheme = retrieval(&offer, &epoch).unwrap();
        let (round, sizes, mut came) = (scheme.together(), scheme.sizes(), 0);
        let (_, answered) = two(
            |lines, _| {
                let ch = lines.peer().unwrap();
                ch.send(&vec![0; round as usize * sizes.query]).unwrap();
                ch.recv_exact(round as usize * sizes.answer).unwrap();
            },
            |lines, _| {
                let ch = lines.peer().unwrap();
                Desk::answer(|| Ok(desk.clone()), 3 * round, ch, |queries| came += queries, &|work| work())
            },
        );
        assert!(answered.is_err());
        assert_eq!(came, round);
    }

    #[test]
    fn another_epoch_is_refused_by_its_name() {
        let (dir, offer, epoch) = house(ServiceProtocol::Piano);
        let desk = Desk::open(dir.path(), &offer, 2).unwrap();
        assert!(desk.refusal(epoch.name()).is_none());
        let why = desk.refusal(epoch.name() ^ 1).unwrap();
        assert!(why.contains("epoch 1") && why.contains("vesica ask"), "{why}");
        assert!(desk.reload(&offer, &mut || ()).unwrap().is_none());
    }

    #[test]
    fn a_file_that_changed_is_not_served() {
        for kind in asking().chain([ServiceProtocol::Download.into()]) {
            let (dir, offer, _) = house(kind);
            let has_copy = kind.protocol == ServiceProtocol::SimplePir;
            for name in [table_name(1)].into_iter().chain(has_copy.then(|| hint_name(1))) {
                let path = dir.path().join(name);
                let whole = std::fs::read(&path).unwrap();
                // The last bytes of a table without a hint are columns beside the records.
                for at in [7, whole.len() - 1] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1;
                    std::fs::write(&path, &bytes).unwrap();
                    let error = Desk::open(dir.path(), &offer, 2).err().unwrap().to_string();
                    assert!(error.contains("damaged"), "{kind:?}: {error}");
                }
                std::fs::remove_file(&path).unwrap();
                assert!(Desk::open(dir.path(), &offer, 2).is_err());
                std::fs::write(&path, whole).unwrap();
            }
            assert!(Desk::open(dir.path(), &offer, 2).is_ok());
        }
    }

    /// What a server says of an epoch is taken only if its numbers agree: nothing is as large as a server wants it.
    #[test]
    fn an_epoch_that_cannot_be_is_refused() {
        for kind in asking().chain([ServiceProtocol::Download.into()]) {
            let (_dir, offer, epoch) = house(kind);
            let text = String::from_utf8(epoch.encode()).unwrap();
            assert_eq!(Epoch::decode(&offer, text.as_bytes()).unwrap(), epoch);
            for (from, to) in [
                ("\"rows\":40", "\"rows\":41"),
                ("\"records\":40", "\"records\":0"),
                ("\"records\":40", "\"records\":18446744073709551615"),
                ("\"width\":32", "\"width\":33"),
                ("\"copy\":", "\"copy\":1"),
                ("\"expected\":10", "\"expected\":0"),
                ("\"seed\":\"01", "\"seed\":\"0"),
                ("\"salt\":\"02", "\"salt\":\"zz"),
                ("\"sums\":\"", "\"sums\":\"0"),
                ("\"version\":5", "\"version\":4"),
                ("\"public\":\"", "\"public\":\"ab"),
                ("\"public\":\"", "\"public\":\"g"),
                ("\"planned\":40", "\"planned\":41"),
                ("\"number\":1", "\"number\":2"),
                ("\"base\":1", "\"base\":2"),
                ("\"base\":1", "\"base\":0"),
                ("\"log\":0", "\"log\":1"),
                ("\"log_sums\":\"", "\"log_sums\":\"0"),
                ("\"sealed\":\"03", "\"sealed\":\"3"),
                ("{", "{ "),
            ] {
                let bad = text.replacen(from, to, 1);
                assert_ne!(bad, text, "{from}");
                assert!(Epoch::decode(&offer, bad.as_bytes()).is_err(), "{kind:?}: {to}");
            }
            let other = self::offer(ServiceProtocol::EcdhOprf, VALUE);
            assert!(Epoch::decode(&other, text.as_bytes()).is_err());
            assert!(Epoch::decode(&offer, &[b' '; 10_000]).is_err() && Epoch::decode(&offer, &[]).is_err());
        }
    }
}
