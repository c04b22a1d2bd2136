//! A query of a window: what it uses up is decided and written down first, then it is sent.

use super::hints::{Drawn, LANES, Slot, Window, lane};
use super::{Piano, TOGETHER, add};
use crate::PirError;
use vesica_block::Block;
use vesica_session::SessionRng;

/// Blocks that are encrypted together when a hint is looked for.
const BATCH: usize = 256;

/// A query that is decided. Its bytes are written to a file that outlives a crash before its query is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intent {
    /// Which query of the window it is, from 0.
    pub number: u64,
    /// What it takes of the window; none if the query asks for nothing.
    pub(super) real: Option<Taken>,
    query: Vec<u8>,
}

/// What a query takes of its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    /// The record that is asked for.
    record: u64,
    /// The slot whose hint holds it.
    pub(super) slot: u64,
    /// The number of the replacement that goes out in its place, and of the backup that takes the slot.
    spare: u64,
}

impl Intent {
    /// Bytes of [`encode`](Self::encode).
    pub const BYTES: usize = 40;

    /// What is to be written down. It is secret.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (record, slot) = self.real.map_or((u64::MAX, u64::MAX), |taken| (taken.record, taken.slot));
        for (place, number) in [self.number, record, slot].into_iter().enumerate() {
            bytes[8 * place..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&blake3::hash(&self.query).as_bytes()[..16]);
        bytes
    }

    /// What is sent: an offset for each chunk.
    pub fn query(&self) -> &[u8] {
        &self.query
    }
}

impl Window {
    /// Whether the window has no query left. A new one is to be made then.
    pub fn is_over(&self) -> bool {
        self.asked == self.shape.numbers.queries
    }

    /// Queries that are left.
    pub fn left(&self) -> u64 {
        self.shape.numbers.queries - self.asked
    }

    /// How many queries there were.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// What both sides know of the table.
    pub fn shape(&self) -> Piano {
        self.shape
    }

    /// Record `index`, if it was fetched.
    pub fn known(&self, index: u64) -> Option<&[u8]> {
        self.known.get(&index).map(Vec::as_slice)
    }

    /// Steps 1 and 2: decides the query by which record `want` is to be fetched. Write [`Intent::encode`] down before it is sent.
    ///
    /// A record that is there already, or on its way, is not asked for again, because the proof of the scheme is for queries for different
    /// records. Some other record is asked for instead, so that the server sees a query. If none can be served, the query asks for nothing.
    ///
    /// # Errors
    /// [`PirError::Shape`] if `want` is not in the table, or the window is over, or too many queries are on their way.
    pub fn intend(&mut self, want: u64, rng: &mut SessionRng) -> Result<Intent, PirError> {
        crate::check_index(want, self.shape.records)?;
        let record = match self.is_taken(want) {
            false => Some(want),
            true => self.another(u64::from_le_bytes(rng.bytes()) % self.shape.records),
        };
        let real = record.and_then(|record| Some((record, self.slot(record)?)));
        self.decide(real)
    }

    /// A query that was written down before: decided as it was then, with the same bytes.
    ///
    /// # Errors
    /// [`PirError::Shape`] if it does not fit the window as it is. Then nothing may be sent by this window any more.
    pub fn replay(&mut self, bytes: &[u8; Intent::BYTES]) -> Result<Intent, PirError> {
        let foreign = || PirError::Shape("a query that was not decided by this window".into());
        let number = |place: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 * place + i]));
        let real = match (number(1), number(2)) {
            (u64::MAX, u64::MAX) => None,
            (record, slot) => {
                let is_slot = slot < self.slots.len() as u64;
                if record >= self.shape.records || !is_slot || self.is_taken(record) || number(0) != self.asked {
                    return Err(foreign());
                }
                Some((record, slot))
            }
        };
        let intent = self.decide(real).map_err(|_| foreign())?;
        if intent.encode() == *bytes { Ok(intent) } else { Err(foreign()) }
    }

    /// Step 4: takes the answer to the next query. Answers are taken in the order of queries, because a later query of a round may have
    /// gone out from the slot of an earlier one, and the sum of that slot is known when the earlier answer is.
    ///
    /// # Errors
    /// [`PirError::Message`] if it has the wrong length; [`PirError::Shape`] if the query is not the first that waits.
    pub fn settle(&mut self, intent: &Intent, answer: &[u8]) -> Result<(), PirError> {
        if answer.len() != self.shape.width {
            let (got, right) = (answer.len(), self.shape.width);
            return Err(PirError::Message(format!("an answer of {got} bytes instead of {right}")));
        }
        let is_known = intent.real.is_none_or(|taken| self.coming.contains(&taken.record));
        if intent.number != self.settled || self.settled == self.asked || !is_known {
            return Err(PirError::Shape("an answer to no query, or not to the first that waits".into()));
        }
        self.settled += 1;
        let Some(Taken { record, slot, spare }) = intent.real else { return Ok(()) };
        let numbers = self.shape.numbers;
        let (backup, replacement) =
            (numbers.primaries + spare, numbers.primaries + numbers.chunks * numbers.spares + spare);
        // record = answer ^ sum of the hint ^ replacement
        let mut value = answer.to_vec();
        add(&mut value, self.sum(slot));
        add(&mut value, self.sum(replacement));
        // The backup takes the place of the hint, with the record in its chunk.
        let mut sum = value.clone();
        add(&mut sum, self.sum(backup));
        self.sum(slot).copy_from_slice(&sum);
        self.coming.remove(&record);
        self.known.insert(record, value);
        Ok(())
    }

    /// Whether a record is there or on its way.
    fn is_taken(&self, record: u64) -> bool {
        self.known.contains_key(&record) || self.coming.contains(&record)
    }

    /// The next record from `from` on that is not taken. Which one it is decides nothing but the load of its chunk.
    fn another(&self, from: u64) -> Option<u64> {
        (from..self.shape.records).chain(0..from).find(|record| !self.is_taken(*record))
    }

    /// The first slot whose hint holds `record`. A hint that was programmed in the chunk of `record` holds another record there. None if
    /// no hint holds it, or its chunk has no spare left.
    ///
    /// A slot whose answer is on its way is as good as any other: its set is known, and only the sum is late. If such slots were left
    /// out, the later sets of a round would hold the records of the earlier ones too rarely, and together they would show which these are.
    ///
    /// All slots are looked at, so the time says nothing of where the record is.
    fn slot(&self, record: u64) -> Option<u64> {
        let size = self.shape.numbers.chunk;
        let (chunk, offset) = (record / size, record % size);
        let mut found = None;
        let mut blocks = [Block::ZERO; BATCH];
        for (slots, from) in self.slots.chunks(BATCH).zip((0..).step_by(BATCH)) {
            self.draw.blocks_of(slots, chunk / LANES, &mut blocks);
            for ((slot, block), number) in slots.iter().zip(&blocks).zip(from..) {
                let here = slot.programmed.is_some_and(|record| record / size == chunk);
                let holds = lane(*block, chunk % LANES, size) == offset && !here;
                found = found.or(holds.then_some(number));
            }
        }
        found.filter(|_| self.spare(chunk).is_some())
    }

    /// Uses up what a query takes, and makes it.
    fn decide(&mut self, real: Option<(u64, u64)>) -> Result<Intent, PirError> {
        if self.is_over() {
            return Err(PirError::Shape(format!("all {} queries of this window are made; make a new one", self.asked)));
        }
        if self.asked - self.settled >= TOGETHER {
            return Err(PirError::Shape(format!("{TOGETHER} queries are on their way; take their answers first")));
        }
        let numbers = self.shape.numbers;
        let number = self.asked;
        let (offsets, real): (Vec<u64>, _) = match real {
            None => (self.set(Drawn::Nothing, number), None),
            Some((record, slot)) => {
                let chunk = record / numbers.chunk;
                let spare = self.spare(chunk).ok_or_else(|| PirError::Shape("a chunk without spares".into()))?;
                let Slot { hint, programmed } = self.slots[slot as usize];
                let mut offsets = self.set(Drawn::Hint, hint);
                if let Some(record) = programmed {
                    offsets[(record / numbers.chunk) as usize] = record % numbers.chunk;
                }
                if offsets[chunk as usize] != record % numbers.chunk {
                    return Err(PirError::Shape("a hint that does not hold its record".into()));
                }
                offsets[chunk as usize] = self.draw.offset(Drawn::Replacement, spare, 0, numbers.chunk);
                // From here on the slot has the set of the backup with the record in it, and a later query may go out from it. Its sum is
                // right when all answers before that query's own are taken.
                self.slots[slot as usize] = Slot { hint: numbers.primaries + spare, programmed: Some(record) };
                self.used[chunk as usize] += 1;
                self.coming.insert(record);
                (offsets, Some(Taken { record, slot, spare }))
            }
        };
        self.asked += 1;
        Ok(Intent { number, real, query: self.shape.pack(offsets.into_iter()) })
    }

    /// The set that is drawn under a number: an offset for each chunk.
    fn set(&self, what: Drawn, number: u64) -> Vec<u64> {
        self.draw.set(what, number, self.shape.numbers.chunks, self.shape.numbers.chunk)
    }
}
