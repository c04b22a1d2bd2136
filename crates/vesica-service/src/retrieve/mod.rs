//! Services that retrieve: a client gets the rows that it looks up, and the server does not learn which.
//!
//! Everything that depends on a scheme is in its file in [`schemes`]. It implements [`Scheme`], which is known before a table is, and
//! [`Retrieval`], which is the scheme for the records of one epoch and makes both sides: a [`Server`] and a [`Client`]. The other files
//! serve all schemes, and stand in the order in which a row goes through them. [`make`] turns the server's table into records of one
//! length, and [`change`] changes some of them. [`desk`] serves them. [`copying`] brings to a client what the scheme has it copy, and
//! [`lookup`] looks rows up with that.
//!
//! Some schemes have a file of their own beside: many clients share one [`pass`] over the table of "simple-pir". [`window`] is the file of
//! a client of "piano", in which every query is written down before it is sent. By "ckks-pir" rows are real numbers, which [`reals`] reads
//! and writes. [`sessions`] bounds what clients' keys take of a server's memory.
//!
//! A state of the records is an *epoch*, which [`epoch::Epoch`] describes. Every question for records names its epoch by a hash. A
//! server that has another one refuses before it computes anything, so a client never decodes an answer of one table with the hint of
//! another.

pub mod bench;
pub mod change;
pub mod changes;
pub mod copying;
pub mod desk;
pub mod epoch;
pub mod look;
pub mod lookup;
pub mod make;
pub mod pass;
pub mod reals;
pub mod recompute;
pub mod schemes;
pub mod sessions;
pub mod window;

use crate::error::Error;
use crate::found::Lost;
use crate::messages::Counter;
use crate::offer::Offer;
use crate::prepare::{Change, Prepared};
use crate::reveals;
use crate::stock::Stock;
use crate::suite::{Asking, Fetched, Kind, Suite};
use copying::Whole;
use desk::Files;
use epoch::Epoch;
use lookup::Place;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use vesica_job::numbers::{count, size};
use vesica_job::{Control, World};
use vesica_pir::keyword::Filter;
use vesica_pir::{PirError, Shape, Sizes};
use vesica_session::{Reveal, SessionRng};
use vesica_spec::service::{AskPlan, By, Private, ServePlan};

/// A retrieval scheme, before anything is known of a table.
///
/// Errors are those of a table that the scheme does not serve.
pub trait Scheme: Sync {
    /// The scheme for the records of an epoch. It is made from public numbers, so both sides make the same one.
    fn retrieval(&self, by: By, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError>;

    /// The shape of a table of keys, if a query can ask for the sum of some records. Then keys stand in a filter, and each of them is one
    /// query. Otherwise they stand in buckets, and each is two.
    fn filter(&self) -> Option<ShapeOfKeys> {
        None
    }

    /// Where the row of this number stands among so many. `seed` is the epoch's.
    fn place(&self, records: u64, _seed: &[u8; 32], index: u64) -> Result<u64, PirError> {
        let none = || PirError::Shape(format!("there is no row {index}; the table has {records}"));
        (index < records).then_some(index).ok_or_else(none)
    }

    /// Whether a client asks for what it looks up. Otherwise all of it is in its copy.
    fn asks(&self) -> bool {
        true
    }

    /// Whether rows are real numbers, and not bytes.
    fn has_reals(&self) -> bool {
        false
    }

    /// Why clients cannot follow when records change; none if they can, by the patches of [`Server::change`]. It completes the sentence
    /// "protocol = NAME: …".
    fn cannot_follow(&self) -> Option<&'static str>;
}

/// The shape of a table of so many keys, with records of so many bytes, of which a client is expected to look so many up.
pub type ShapeOfKeys = fn(rows: u64, width: u32, expected: u32) -> Result<Shape, PirError>;

/// A retrieval scheme for the records of one epoch.
///
/// Errors are those of a copy, table or log that does not fit the scheme; for [`Retrieval::client`] also those of the cache and the
/// connection, and a server that sends what cannot be.
pub trait Retrieval: Send + Sync {
    /// How long its messages are. A scheme without queries has 0 bytes of them: then a client asks nothing.
    fn sizes(&self) -> Sizes;

    /// Bytes that a client copies before it asks: a hint, or the table, which it keeps or which streams by.
    fn copied(&self) -> u64;

    /// Whether what clients copy is a hint that is made of the table, and not the table.
    fn has_hint(&self) -> bool {
        false
    }

    /// Bytes that a server keeps beside its records, from when they were prepared: they stand behind them in their file.
    fn beside(&self) -> u64 {
        0
    }

    /// Whether a client has a window that is used up query by query. It says which one it has, and where it stands in it.
    fn has_windows(&self) -> bool {
        false
    }

    /// Bytes of the keys that a client sends before its queries.
    fn keys_bytes(&self) -> usize {
        0
    }

    /// Bytes that a client keeps of a query until it decodes the answer.
    fn secret_bytes(&self) -> u64 {
        0
    }

    /// How many queries go in one round: so many that a message stays below two mebibytes, or one.
    fn together(&self) -> u64 {
        rounds_of(LINEAR_TOGETHER, self.sizes())
    }

    /// Bytes that a patch of so many groups of records has.
    fn patch_bytes(&self, _groups: usize) -> u64 {
        0
    }

    /// What it costs with a table of so many bytes, where `speed` bytes are read in a second.
    fn costs(&self, table: u64, speed: f64) -> Costs;

    /// The server's side of a table that was made as a whole. Where something is kept beside the records, that is made now.
    fn server(&self, table: Arc<Vec<u8>>, workers: usize) -> Result<Box<dyn Server>, PirError>;

    /// The same with what was kept beside the records. `log` has the changes since the epoch's base, which are in the table already.
    fn resume(
        &self,
        table: Arc<Vec<u8>>,
        _beside: &[u8],
        _log: &[u8],
        workers: usize,
    ) -> Result<Box<dyn Server>, PirError> {
        self.server(table, workers)
    }

    /// What clients copy and the server keeps, in one word, if it is made of the table and everybody who has that can make it again. Fails unless
    /// it is what the table makes of it.
    fn recompute(&self, _files: &Files, _workers: usize) -> Result<Option<&'static str>, Error> {
        Ok(None)
    }

    /// The client's side with what [`Retrieval::copied`] says, held in memory alone.
    fn reader(&self, copy: Vec<u8>, rng: &mut SessionRng) -> Result<Box<dyn Client>, Error>;

    /// Bytes in a client's cache. `copied` is what an epoch says of its copy and the changes since then.
    fn kept(&self, copied: u64) -> u64 {
        copied
    }

    /// The client's side with what is in its cache. Of `parts`, the first is what [`Retrieval::copied`] says, if that is kept there and does not
    /// stream by, and the second is the log of changes since then.
    fn client(&self, _: &Epoch, [(copy, bytes), _]: [Whole; 2], copying: &mut Copying<'_, '_>) -> Result<Ready, Error> {
        let news = bytes.map(|bytes| format!("the table, {}", size(bytes)));
        Ok(Ready { client: self.reader(copy, &mut copying.world.rng()?)?, filter: None, news })
    }
}

/// What a scheme costs with a table, beside its messages.
pub struct Costs {
    /// Bytes that a client keeps.
    pub kept: u64,
    /// Seconds that the server takes for a query.
    pub seconds: f64,
    /// Bytes of the server's memory, without a hint.
    pub memory: u64,
    /// Whether a query reads all of that.
    pub reads_all: bool,
    /// Queries after which a client copies the table again.
    pub window: Option<u64>,
}

/// The server's side of a scheme.
///
/// Errors of [`Server::answer`] are keys or queries that are none, and depend on their bytes alone; the others say that everything is to
/// be made anew.
pub trait Server: Send + Sync {
    /// The table, if that is what clients copy.
    fn table(&self) -> &[u8] {
        &[]
    }

    /// The hint; empty if the scheme has none.
    fn hint(&self) -> Result<Vec<u8>, PirError> {
        Ok(Vec::new())
    }

    /// What is to be kept beside the records: as long as [`Retrieval::beside`] says.
    fn beside(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Changes records, and gives the patch by which clients follow.
    fn change(&mut self, _changes: &[(u64, &[u8])]) -> Result<Vec<u8>, PirError> {
        Err(PirError::Shape("its clients cannot follow".into()))
    }

    /// The answers to queries under the keys that came before them, in their order. Work is done in a turn. Fewer answers than queries
    /// mean that it failed.
    fn answer(&self, keys: &[u8], queries: &[&[u8]], turn: Turn<'_>) -> Result<Vec<Vec<u8>>, PirError>;
}

/// Does some work when it is its turn.
pub type Turn<'a> = &'a dyn Fn(&mut dyn FnMut());

/// What a turn gives.
pub fn in_turn<T>(turn: Turn<'_>, work: impl FnOnce() -> T) -> Option<T> {
    let (mut work, mut done) = (Some(work), None);
    turn(&mut || done = work.take().map(|work| work()));
    done
}

/// The client's side of a scheme. It is asked for places, round by round, and gives their records when the server is gone.
///
/// Errors are those of the disk and the connection, and a server that breaks the protocol. None depends on what is in an answer.
pub trait Client {
    /// Queries that may have been sent before and have no answer. The next question is for so many of nothing, and they go in it.
    fn owed(&self) -> usize {
        0
    }

    /// Queries that it can make before it is to be renewed.
    fn left(&self) -> usize {
        usize::MAX
    }

    /// Copies what more queries take.
    fn renew(&mut self, _: &Epoch, _: &mut Copying<'_, '_>) -> Result<(), Error> {
        Err(Error::bug("a scheme whose queries have no end is to be renewed"))
    }

    /// What the server hears before the queries of a question.
    fn begin(&mut self, _: &mut SessionRng) -> Vec<u8> {
        Vec::new()
    }

    /// How many bytes it says to that.
    fn reply_bytes(&self) -> usize {
        0
    }

    /// What it said.
    fn reply(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    /// A round of queries, one for each place. Whatever of it must not be asked twice is on the disk when this returns.
    fn round(&mut self, places: &[Place], rng: &mut SessionRng) -> Result<Vec<u8>, Error>;

    /// The answers to the last round, which have the right length. Nothing is refused for what is in them.
    fn take(&mut self, answers: &[u8]) -> Result<(), Error>;

    /// The records of all places in their order. The server has parted from this side: whether an answer decodes, and how long that
    /// takes, it does not see.
    fn records(&mut self) -> Result<Vec<Result<Vec<u8>, Lost>>, Error>;
}

/// A client's side that has what it copies.
pub struct Ready {
    /// It.
    pub client: Box<dyn Client>,
    /// Where keys stand, if the scheme has a filter for them.
    pub filter: Option<Filter>,
    /// What was copied now, in words; none if nothing is new.
    pub news: Option<String>,
}

/// What a client copies by.
pub struct Copying<'a, 'c> {
    /// The client's plan.
    pub plan: &'a AskPlan,
    /// What the service is.
    pub offer: &'a Offer,
    /// The line to the server.
    pub counter: &'a mut Counter<'c>,
    /// The machine around it.
    pub world: &'a World,
    /// What is told of the progress.
    pub ctl: &'a Control,
}

/// A service whose records are fetched by this scheme.
pub struct Records(pub &'static dyn Scheme);

impl Suite for Records {
    fn counts(&self) -> &'static str {
        "rows"
    }

    fn scheme(&self) -> Option<&'static dyn Scheme> {
        Some(self.0)
    }

    fn reveals(&self, private: Private, _: bool) -> Vec<Reveal> {
        reveals::of_retrieving(private, self.0.asks())
    }

    fn prepare(&self, plan: &ServePlan, change: &Change, world: &World, ctl: &Control) -> Result<Prepared, Error> {
        match change {
            Change { rotate, append: None, remove: None } => make::make(plan, *rotate, world, ctl),
            _ => change::change(plan, change, world, ctl),
        }
    }

    fn document(&self) -> &'static str {
        epoch::NAME
    }

    fn open(&self, plan: &ServePlan, offer: &Offer) -> Result<Stock, Error> {
        Ok(Arc::new(desk::Desk::open(&plan.store, offer, plan.workers)?))
    }

    fn copy(&self, described: &[u8], copying: &mut Copying<'_, '_>) -> Result<Fetched, Error> {
        copying::copy(self.0, described, copying)
    }

    fn cached(&self, offer: &Offer, cache: &Path) -> Result<(String, Option<SystemTime>), Error> {
        let epoch = Epoch::load(offer, cache)?;
        let words = format!("{}, {} rows; {}", epoch.spelled(), count(epoch.rows), offer.kind());
        Ok((words, epoch.times().map(|(_, until)| until)))
    }

    fn forecast(&self, plan: &ServePlan, value: Option<u32>, rows: u64, asked: Asking) -> Result<String, Error> {
        let (by, private) = (plan.service.by.name(), plan.service.private.name());
        let costs = look::in_words(plan, value, rows, asked)?;
        Ok(format!(" by {by}, private = \"{private}\", {} rows.\n{costs}", count(rows)))
    }

    fn forecast_asking(&self, plan: &AskPlan, rows: u64) -> String {
        format!("Ask: {} rows at most; the server sees a multiple of {}.\n", count(rows), count(plan.batch))
    }
}

/// The most queries that a client of a linear scheme has on their way at once.
const LINEAR_TOGETHER: u64 = 4;

/// As many queries as are below two mebibytes, one at least and `most` at most.
pub fn rounds_of(most: u64, Sizes { query, answer, .. }: Sizes) -> u64 {
    ((2 << 20) / query.max(answer).max(1) as u64).clamp(1, most)
}

/// The scheme of an offer for the records of an epoch.
///
/// # Errors
/// If the scheme does not serve so many records, or so long ones; if the protocol retrieves none.
pub fn retrieval(offer: &Offer, epoch: &Epoch) -> Result<Box<dyn Retrieval>, PirError> {
    offer.kind().scheme()?.retrieval(offer.by(), epoch)
}

/// What a scheme says of a client that uses it wrongly. Epoch and scheme were compared when the epoch came, so this program did that.
pub fn misused(error: PirError) -> Error {
    match error {
        PirError::Shape(what) => Error::bug(what),
        message => message.into(),
    }
}

/// How long the body of a slot or a record is: values with their length, sealed where they are and tagged where they are not; or real
/// numbers.
pub fn body_bytes(offer: &Offer) -> usize {
    if has_reals(offer.kind()) {
        return reals::bytes(offer.values.len());
    }
    let sealed = offer.retrieval.is_some_and(|retrieval| retrieval.private == Private::Both);
    match (offer.value_bytes, sealed) {
        (None, _) => 0,
        (Some(bytes), true) => vesica_store::sealed_bytes(bytes),
        (Some(bytes), false) => TAG + LENGTH + bytes as usize,
    }
}

/// Whether rows are real numbers, and not bytes.
pub fn has_reals(kind: Kind) -> bool {
    kind.suite().scheme().is_some_and(Scheme::has_reals)
}

/// Whether a query can ask for the sum of some records, so that keys stand in a filter.
pub fn has_sums(kind: Kind) -> bool {
    kind.suite().scheme().is_some_and(|scheme| scheme.filter().is_some())
}

/// How many records a client fetches for one row that it looks up.
pub fn records_a_row(kind: Kind, by: By) -> u64 {
    if by == By::Key && !has_sums(kind) { 2 } else { 1 }
}

/// Bytes of the length that stands before values that are not sealed.
const LENGTH: usize = 4;

/// Bytes of the tag before it. A record that is not the one that was asked for has the right tag with probability 2^-64.
const TAG: usize = 8;

/// What tells that a body is the one of this key or row number in the epoch of this salt, and is whole. Everybody can compute it: it
/// finds a wrong hint, a wrong table and an answer that was computed wrongly, and not a server that lies. By key such a row looks absent.
pub fn tag(salt: &[u8; 32], digest: &[u8; 32], body: &[u8]) -> [u8; TAG] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica 2026 tag of a row that is not sealed");
    let hash = hasher.update(salt).update(digest).update(body).finalize();
    std::array::from_fn(|i| hash.as_bytes()[i])
}

/// Appends values that are not sealed: their tag, their length, they, and zeros up to `padded` bytes. False if they are longer.
pub fn pad(salt: &[u8; 32], digest: &[u8; 32], value: &[u8], padded: usize, out: &mut Vec<u8>) -> bool {
    let start = out.len() + TAG;
    let end = start + LENGTH + padded;
    out.resize(start, 0);
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
    let fits = out.len() <= end;
    out.resize(end, 0);
    let tag = tag(salt, digest, &out[start..]);
    out[start - TAG..start].copy_from_slice(&tag);
    fits
}

/// The values that [`pad`] wrote for this key or row number in this epoch; none if their tag is another.
pub fn unpad<'a>(salt: &[u8; 32], digest: &[u8; 32], body: &'a [u8]) -> Option<&'a [u8]> {
    let (found, body) = body.split_first_chunk::<TAG>()?;
    if *found != tag(salt, digest, body) {
        return None;
    }
    let (length, rest) = body.split_first_chunk::<LENGTH>()?;
    let (value, zeros) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    zeros.iter().all(|&byte| byte == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::digest_of_index;

    #[test]
    fn values_are_padded_and_come_back() {
        let (salt, digest, mut out) = ([1; 32], digest_of_index(7), vec![7]);
        assert!(pad(&salt, &digest, b"abc", 5, &mut out) && out.len() == 18);
        assert_eq!(unpad(&salt, &digest, &out[1..]), Some(&b"abc"[..]));
        assert!(!pad(&salt, &digest, b"abcdef", 5, &mut Vec::new()));
        // Another row, another epoch, a bit, a byte too few.
        assert_eq!(unpad(&salt, &digest_of_index(8), &out[1..]), None);
        assert_eq!(unpad(&[2; 32], &digest, &out[1..]), None);
        assert_eq!(unpad(&salt, &digest, &out[1..17]), None);
        for at in 1..out.len() {
            out[at] ^= 1;
            assert_eq!(unpad(&salt, &digest, &out[1..]), None);
            out[at] ^= 1;
        }
        // A length and zeros that are none, under the right tag.
        for body in [&[9, 0, 0, 0, 1][..], &[0, 0, 0, 0, 1], &[1, 0, 0]] {
            let tagged = [&tag(&salt, &digest, body)[..], body].concat();
            assert_eq!(unpad(&salt, &digest, &tagged), None);
        }
    }
}
