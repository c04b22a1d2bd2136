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
    /// The record that is really asked for, and the slot whose hint holds it; none if the query asks for nothing.
    pub(super) real: Option<(u64, u64)>,
    query: Vec<u8>,
}

impl Intent {
    /// Bytes of [`encode`](Self::encode).
    pub const BYTES: usize = 40;

    /// What is to be written down. It is secret.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (record, slot) = self.real.unwrap_or((u64::MAX, u64::MAX));
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
                let free = self.slots.get(slot as usize).is_some_and(|slot| !slot.waits);
                if record >= self.shape.records || !free || self.is_taken(record) || number(0) != self.asked {
                    return Err(foreign());
                }
                Some((record, slot))
            }
        };
        let intent = self.decide(real).map_err(|_| foreign())?;
        if intent.encode() == *bytes { Ok(intent) } else { Err(foreign()) }
    }

    /// Step 4: takes the answer to a query that was decided and not answered yet.
    ///
    /// # Errors
    /// [`PirError::Message`] if it has the wrong length; [`PirError::Shape`] if the query is not waiting.
    pub fn settle(&mut self, intent: &Intent, answer: &[u8]) -> Result<(), PirError> {
        if answer.len() != self.shape.width {
            let (got, right) = (answer.len(), self.shape.width);
            return Err(PirError::Message(format!("an answer of {got} bytes instead of {right}")));
        }
        let Some((record, slot)) = intent.real else { return Ok(()) };
        let waits = self.slots.get(slot as usize).filter(|at| at.waits && at.programmed == Some(record));
        let backup = waits.map(|slot| slot.hint).ok_or_else(|| PirError::Shape("an answer to no query".into()))?;
        let numbers = self.shape.numbers;
        // record = answer ^ sum of the hint ^ replacement
        let mut value = answer.to_vec();
        add(&mut value, self.sum(slot));
        add(&mut value, self.sum(backup + numbers.chunks * numbers.spares));
        // The backup takes the place of the hint, with the record in its chunk.
        let mut sum = value.clone();
        add(&mut sum, self.sum(backup));
        self.sum(slot).copy_from_slice(&sum);
        self.slots[slot as usize].waits = false;
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

    /// A slot whose hint holds `record`, by its own draw and not because it was programmed there. All slots are looked at, so the time says
    /// nothing of where the record is. None if no hint holds it, or its chunk has no spare left.
    fn slot(&self, record: u64) -> Option<u64> {
        let size = self.shape.numbers.chunk;
        let (chunk, offset) = (record / size, record % size);
        self.spare(chunk)?;
        let mut found = None;
        let mut blocks = [Block::ZERO; BATCH];
        for (slots, from) in self.slots.chunks(BATCH).zip((0..).step_by(BATCH)) {
            self.draw.blocks_of(slots, chunk / LANES, &mut blocks);
            for ((slot, block), number) in slots.iter().zip(&blocks).zip(from..) {
                let here = slot.programmed.is_some_and(|record| record / size == chunk);
                let holds = lane(*block, chunk % LANES, size) == offset && !here && !slot.waits;
                found = found.or(holds.then_some(number));
            }
        }
        found
    }

    /// Uses up what a query takes, and makes it.
    fn decide(&mut self, real: Option<(u64, u64)>) -> Result<Intent, PirError> {
        if self.is_over() {
            return Err(PirError::Shape(format!("all {} queries of this window are made; make a new one", self.asked)));
        }
        if self.coming.len() as u64 >= TOGETHER {
            return Err(PirError::Shape(format!("{TOGETHER} queries are on their way; take their answers first")));
        }
        let numbers = self.shape.numbers;
        let number = self.asked;
        let offsets: Vec<u64> = match real {
            None => self.set(Drawn::Nothing, number),
            Some((record, slot)) => {
                let chunk = record / numbers.chunk;
                let spare = self.spare(chunk).ok_or_else(|| PirError::Shape("a chunk without spares".into()))?;
                let Slot { hint, programmed, .. } = self.slots[slot as usize];
                let mut offsets = self.set(Drawn::Hint, hint);
                if let Some(record) = programmed {
                    offsets[(record / numbers.chunk) as usize] = record % numbers.chunk;
                }
                if offsets[chunk as usize] != record % numbers.chunk {
                    return Err(PirError::Shape("a hint that does not hold its record".into()));
                }
                offsets[chunk as usize] = self.draw.offset(Drawn::Replacement, spare, 0, numbers.chunk);
                // From here on the slot is what it will be when the answer is there.
                let hint = numbers.primaries + spare;
                self.slots[slot as usize] = Slot { hint, programmed: Some(record), waits: true };
                self.used[chunk as usize] += 1;
                self.coming.insert(record);
                offsets
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
