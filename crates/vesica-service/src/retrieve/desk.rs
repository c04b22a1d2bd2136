//! The server's side: an epoch in memory, and answers to queries about it.

use super::epoch::{self, CHUNK, Epoch};
use super::scheme::{Scheme, Serves};
use crate::error::Error;
use crate::offer::Offer;
use std::path::{Path, PathBuf};
use vesica_pir::Flat;
use vesica_session::{Channel, Misbehaviour};

/// An epoch that is served. Table and copy are held in memory.
pub struct Desk {
    folder: PathBuf,
    epoch: Epoch,
    name: u64,
    scheme: Scheme,
    /// The table, for Piano.
    table: Vec<u8>,
    /// What clients copy; empty where it is the table.
    hint: Vec<u8>,
    sums: Vec<u8>,
    serves: Option<Box<dyn Serves>>,
}

impl Desk {
    /// The epoch in `folder`.
    ///
    /// # Errors
    /// If its files are not there, or damaged, or not of this offer.
    pub fn open(folder: &Path, offer: &Offer) -> Result<Self, Error> {
        let epoch = Epoch::load(offer, folder)?;
        let damaged =
            |path: PathBuf, why: &str| Error::Damaged { path, why: format!("{why}; run `vesica prepare` again") };
        let read = |path: PathBuf| match std::fs::read(&path) {
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(Error::file("cannot read", &path)(error)),
        };
        let path = folder.join(table_name(epoch.number));
        let table = read(path.clone())?;
        if table.len() as u64 != epoch.records * u64::from(epoch.width) {
            return Err(damaged(path, "it has not the length of its table"));
        }
        let shape = |error: vesica_pir::PirError| Error::Setup(error.to_string());
        let scheme = Scheme::new(offer.protocol, &epoch).map_err(shape)?;
        let flat = Flat::new(&table, epoch.width as usize).map_err(shape)?;
        let copy_path = folder.join(hint_name(epoch.number));
        let (hint, serves) = match &scheme {
            Scheme::Linear(linear) if linear.sizes().query == 0 => (Vec::new(), None),
            Scheme::Linear(linear) => (read(copy_path.clone())?, Some(linear.serve(flat).map_err(shape)?)),
            Scheme::Piano(_) => (Vec::new(), None),
        };
        let sums = epoch::sums(if hint.is_empty() { &table } else { &hint });
        if crate::offer::hex(blake3::hash(&sums).as_bytes()) != epoch.sums {
            return Err(damaged(if hint.is_empty() { path } else { copy_path }, "its sum is not that of its epoch"));
        }
        // A linear scheme has laid the table out anew.
        let table = if serves.is_some() { Vec::new() } else { table };
        Ok(Self { folder: folder.to_owned(), name: epoch.name(), epoch, scheme, table, hint, sums, serves })
    }

    /// The epoch that the folder has now, if it is another one.
    ///
    /// # Errors
    /// As [`Desk::open`].
    pub fn reload(&self, offer: &Offer) -> Result<Option<Self>, Error> {
        let now = Epoch::load(offer, &self.folder)?;
        if now == self.epoch { Ok(None) } else { Self::open(&self.folder, offer).map(Some) }
    }

    /// What it serves.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The sums of what clients copy.
    pub fn sums(&self) -> &[u8] {
        &self.sums
    }

    /// A chunk of what clients copy.
    pub fn chunk(&self, number: u64) -> Option<&[u8]> {
        let copy = if self.hint.is_empty() { &self.table } else { &self.hint };
        copy.chunks(CHUNK).nth(usize::try_from(number).ok()?)
    }

    /// Why a question about the epoch of this name is not answered, if it is not.
    pub fn refusal(&self, name: u64) -> Option<String> {
        (name != self.name).then(|| {
            format!(
                "epoch {name:016x} is not the one that this connection was told of, which is {}; run `vesica ask` again, which fetches it",
                self.epoch.spelled()
            )
        })
    }

    /// Whether anything is to be asked: a table that was downloaded answers itself.
    pub fn asks(&self) -> bool {
        self.scheme.sizes().query > 0
    }

    /// Whether clients have windows that are used up query by query.
    pub fn has_windows(&self) -> bool {
        matches!(self.scheme, Scheme::Piano(_))
    }

    /// Answers so many queries, round by round. `turn` is called for each round that came, and what it returns is held while it is worked
    /// on.
    ///
    /// # Errors
    /// Those of the channel; the client's, if it sends no queries.
    pub fn answer<T>(&self, queries: u64, ch: &mut dyn Channel, turn: impl Fn() -> T) -> Result<(), Error> {
        let sizes = self.scheme.sizes();
        let mut left = queries;
        while left > 0 {
            let round = left.min(self.scheme.together()) as usize;
            left -= round as u64;
            let wire = ch.recv_exact(round * sizes.query)?;
            let asked: Vec<&[u8]> = wire.chunks_exact(sizes.query).collect();
            let turn = turn();
            let answers = match (&self.scheme, &self.serves) {
                (Scheme::Piano(piano), _) => Flat::new(&self.table, self.epoch.width as usize)
                    .and_then(|table| asked.iter().map(|query| piano.answer(table, query)).collect()),
                (_, Some(serves)) => serves.answer(&asked),
                _ => Err(vesica_pir::PirError::Message("a query to a table that is downloaded".into())),
            };
            drop(turn);
            // What is refused depends on the query's bytes alone.
            let answers = answers.map_err(|_| ch.accuse(Misbehaviour::Malformed("query")))?;
            ch.send(&answers.concat())?;
        }
        Ok(())
    }
}

/// The file with the records of an epoch.
pub fn table_name(number: u64) -> String {
    format!("epoch-{number}.table")
}

/// The file with the hint of an epoch.
pub fn hint_name(number: u64) -> String {
    format!("epoch-{number}.hint")
}
