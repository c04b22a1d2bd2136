//! The hints of a window: how they are made while the table streams by, and how they are kept.

use super::{Piano, add};
use crate::PirError;
use std::collections::{BTreeSet, HashMap};
use vesica_block::Block;
use vesica_block::aes::Aes128;
use vesica_session::SessionRng;
use zeroize::Zeroizing;

/// Offsets of one block of AES: 16 bits each.
pub(super) const LANES: u64 = 8;

/// Hints whose blocks are encrypted together: they stay in the first-level cache.
const BATCH: usize = 256;

/// What a block is drawn for. Each has inputs of its own under the one key.
#[derive(Clone, Copy)]
pub(super) enum Drawn {
    /// The set of a hint.
    Hint = 1,
    /// The place of a replacement in its chunk.
    Replacement = 2,
    /// The set of a query that asks for nothing.
    Nothing = 3,
}

/// The pseudorandom function of a window: AES-128, which is as good as random up to n²/2^129 after n blocks. A window of 2^30 records
/// draws fewer than 2^34.
pub(super) struct Draw(Aes128);

impl Draw {
    pub(super) fn new(key: &[u8; 16]) -> Self {
        Self(Aes128::new(Block::from_le_bytes(*key)))
    }

    /// The blocks of `count` numbers from `first` on, for the chunks `group`·8 to `group`·8 + 7.
    pub(super) fn blocks(&self, what: Drawn, first: u64, group: u64, blocks: &mut [Block]) {
        for (block, number) in blocks.iter_mut().zip(first..) {
            *block = Block::from_halves(number, group << 8 | what as u64);
        }
        self.0.encrypt_in_place(blocks);
    }

    /// The blocks of the hints of `slots`.
    pub(super) fn blocks_of(&self, slots: &[Slot], group: u64, blocks: &mut [Block]) {
        for (block, slot) in blocks.iter_mut().zip(slots) {
            *block = Block::from_halves(slot.hint, group << 8 | Drawn::Hint as u64);
        }
        self.0.encrypt_in_place(blocks);
    }

    /// The set of one number: an offset for each of `chunks` chunks.
    pub(super) fn set(&self, what: Drawn, number: u64, chunks: u64, size: u64) -> Vec<u64> {
        let inputs = (0..chunks.div_ceil(LANES)).map(|group| Block::from_halves(number, group << 8 | what as u64));
        let mut blocks: Vec<Block> = inputs.collect();
        self.0.encrypt_in_place(&mut blocks);
        (0..chunks).map(|chunk| lane(blocks[(chunk / LANES) as usize], chunk % LANES, size)).collect()
    }

    /// The offset of one number in one chunk.
    pub(super) fn offset(&self, what: Drawn, number: u64, chunk: u64, size: u64) -> u64 {
        let mut one = [Block::ZERO];
        self.blocks(what, number, chunk / LANES, &mut one);
        lane(one[0], chunk % LANES, size)
    }
}

/// The offset of chunk `lane` of eight, in chunks of `size` records.
#[inline]
pub(super) fn lane(block: Block, lane: u64, size: u64) -> u64 {
    (block.0 >> (16 * lane)) as u64 & (size - 1)
}

/// A primary hint.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The number under which its set is drawn: below M for one that was there at the start, else that of a backup.
    pub(super) hint: u64,
    /// The record that stands in its own chunk instead of the one that is drawn.
    pub(super) programmed: Option<u64>,
}

/// What a client keeps of a table, and what it has asked for so far.
pub struct Window {
    pub(super) shape: Piano,
    pub(super) key: Zeroizing<[u8; 16]>,
    pub(super) draw: Draw,
    pub(super) slots: Vec<Slot>,
    /// For each slot the sum of its records; then for each backup; then for each replacement its record.
    pub(super) sums: Vec<u8>,
    /// How many queries fell into each chunk.
    pub(super) used: Vec<u64>,
    /// How many queries there were.
    pub(super) asked: u64,
    /// How many of them have their answers, which are taken in order.
    pub(super) settled: u64,
    /// Records that were fetched.
    pub(super) known: HashMap<u64, Vec<u8>>,
    /// Records that are on their way.
    pub(super) coming: BTreeSet<u64>,
}

impl Window {
    fn empty(shape: Piano, key: Zeroizing<[u8; 16]>, sums: Vec<u8>) -> Self {
        let slots = (0..shape.numbers.primaries).map(|hint| Slot { hint, programmed: None }).collect();
        let used = vec![0; shape.numbers.chunks as usize];
        let (known, coming) = (HashMap::new(), BTreeSet::new());
        Self { shape, draw: Draw::new(&key), key, slots, sums, used, asked: 0, settled: 0, known, coming }
    }

    /// The number of the backup that follows in `chunk`, and of the replacement; none if all are used up.
    pub(super) fn spare(&self, chunk: u64) -> Option<u64> {
        let used = self.used[chunk as usize];
        (used < self.shape.numbers.spares).then(|| chunk * self.shape.numbers.spares + used)
    }

    /// The sum of a slot, a backup or a replacement, which are numbered in this order.
    pub(super) fn sum(&mut self, number: u64) -> &mut [u8] {
        let width = self.shape.width;
        &mut self.sums[number as usize * width..][..width]
    }

    /// The window before any query, as it is kept. It is secret: who reads it can tell what a query asks for.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(16 + self.sums.len()));
        bytes.extend_from_slice(&*self.key);
        bytes.extend_from_slice(&self.sums);
        bytes
    }

    /// The window that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`PirError::Shape`] if it has another length than the windows of `shape`.
    pub fn decode(shape: Piano, bytes: &[u8]) -> Result<Self, PirError> {
        let whole = 16 + shape.window_bytes();
        match bytes.split_first_chunk::<16>() {
            Some((key, sums)) if bytes.len() as u64 == whole => {
                Ok(Self::empty(shape, Zeroizing::new(*key), sums.to_vec()))
            }
            _ => Err(PirError::Shape(format!("a window of {} bytes instead of {whole}", bytes.len()))),
        }
    }
}

/// Makes a window while the table streams by.
pub struct Builder {
    window: Window,
    /// The chunks that are being read, at most eight.
    part: Vec<u8>,
    /// Groups of eight chunks that are done.
    group: u64,
}

impl Builder {
    /// A window under a fresh key.
    pub fn new(shape: Piano, rng: &mut SessionRng) -> Self {
        let sums = vec![0; shape.window_bytes() as usize];
        Self { window: Window::empty(shape, Zeroizing::new(rng.bytes()), sums), part: Vec::new(), group: 0 }
    }

    /// Bytes of the eight chunks that are worked on at once.
    fn part_bytes(&self) -> usize {
        (LANES * self.window.shape.numbers.chunk) as usize * self.window.shape.width
    }

    /// The next bytes of the table, any number of them.
    ///
    /// # Errors
    /// [`PirError::Message`] if they are more than the table has.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), PirError> {
        let whole = self.window.shape.records * self.window.shape.width as u64;
        let before = self.group * self.part_bytes() as u64 + self.part.len() as u64;
        if before + bytes.len() as u64 > whole {
            return Err(PirError::Message(format!("more than the {whole} bytes of its table")));
        }
        while !bytes.is_empty() {
            let room = self.part_bytes() - self.part.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.part.extend_from_slice(now);
            bytes = later;
            if now.len() == room {
                self.absorb();
            }
        }
        Ok(())
    }

    /// The window, when the whole table was pushed.
    ///
    /// # Errors
    /// [`PirError::Message`] if bytes are missing.
    pub fn finish(mut self) -> Result<Window, PirError> {
        let whole = self.window.shape.records * self.window.shape.width as u64;
        let got = self.group * self.part_bytes() as u64 + self.part.len() as u64;
        if got != whole {
            return Err(PirError::Message(format!("{got} of the {whole} bytes of its table")));
        }
        if !self.part.is_empty() {
            self.part.resize(self.part_bytes(), 0);
            self.absorb();
        }
        Ok(self.window)
    }

    /// Adds the records of eight chunks to all hints that hold them.
    fn absorb(&mut self) {
        let (shape, width) = (self.window.shape, self.window.shape.width);
        let numbers = shape.numbers;
        let first = self.group * LANES;
        let lanes = LANES.min(numbers.chunks - first);
        let record = |lane: u64, offset: u64| &self.part[(lane * numbers.chunk + offset) as usize * width..][..width];
        let hints = numbers.primaries + numbers.chunks * numbers.spares;
        let (sums, replacements) = self.window.sums.split_at_mut(hints as usize * width);
        let mut blocks = [Block::ZERO; BATCH];
        for (sums, from) in sums.chunks_mut(BATCH * width).zip((0..).step_by(BATCH)) {
            self.window.draw.blocks(Drawn::Hint, from, self.group, &mut blocks[..sums.len() / width]);
            for ((sum, block), hint) in sums.chunks_exact_mut(width).zip(&blocks).zip(from..) {
                // A backup has no record of the chunk that it is for.
                let own = hint.checked_sub(numbers.primaries).map(|backup| backup / numbers.spares);
                for lane_of in 0..lanes {
                    if own != Some(first + lane_of) {
                        add(sum, record(lane_of, lane(*block, lane_of, numbers.chunk)));
                    }
                }
            }
        }
        for chunk in first..first + lanes {
            for number in chunk * numbers.spares..(chunk + 1) * numbers.spares {
                let offset = self.window.draw.offset(Drawn::Replacement, number, 0, numbers.chunk);
                replacements[number as usize * width..][..width].copy_from_slice(record(chunk - first, offset));
            }
        }
        self.part.clear();
        self.group += 1;
    }
}
