use crate::ones::Ones;
use crate::spill::Blocks;
use crate::{Error, MAX_BUCKETS, Reorder, Selection, Sink, Spill, Spilled, Table};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use vesica_block::{large, prefetch};
use vesica_types::RowId;

/// Bytes of a pick in a spill: row and position.
const PICK: usize = 16;

/// Bytes of an absent row's pick: its position.
const ABSENT: usize = 8;

/// Bytes that a thread that reads holds at most: batches that wait, one in its hands, and its buffer.
const READER: usize = 8 << 20;

/// About as many picks sort well together.
const SORTED: u64 = 1 << 15;

/// So many rows before its own turn, a row's bit is sent for.
const AHEAD: usize = 32;

/// Marks, in the place of a position, how many times a row is taken in its turn.
const TURN: u64 = 1 << 63;

/// Which rows an output takes, and where, pushed in any order: rows with their positions, and rows that stand in the order
/// of the table, one after the other. Every position from 0 on must come once; a row may come any number of times, or
/// never.
///
/// They come out sorted by row, in bounded memory, however uneven they are. A row that is taken once in its turn is a bit, as
/// long as the bits of all rows fit in most of the memory; every other pick has 16 bytes.
pub struct Picks {
    /// Rows that are taken once in their turn.
    once: Vec<u64>,
    /// Rows of the table that have a bit there, once there is one.
    room: u64,
    rows: Parted,
    /// Picks that are no bits: those of `rows`, and of absent ones.
    others: u64,
    absent: Spill,
    n: u64,
    /// The position of the first row that is taken in its turn.
    turns: u64,
}

impl Picks {
    /// Picks from a table of `rows` rows (an estimate will do), in about `memory` bytes and, beyond that, in `dir`.
    ///
    /// # Errors
    /// Those of opening a spill; none is known.
    pub fn new(rows: u64, memory: usize, dir: &Path) -> Result<Self, Error> {
        let part = memory / 8;
        let absent = Spill::new(1, ABSENT, part, dir)?;
        let bits = rows.div_ceil(64).saturating_mul(8);
        let bits = if bits <= 6 * part as u64 { bits as usize } else { 0 };
        let parted = Parted::new(0, rows.max(1), memory - part - bits, dir)?;
        Ok(Self { once: Vec::new(), room: 8 * bits as u64, rows: parted, others: 0, absent, n: 0, turns: 0 })
    }

    /// The same, with the rows that are taken in their turn from `position` on, not from 0.
    pub fn turns_from(self, position: u64) -> Self {
        Self { turns: position, ..self }
    }

    /// Whether a row that is taken once in its turn is a bit. Where memory has no room for the bits of all rows, it is spilled.
    pub fn are_bits(&self) -> bool {
        self.room > 0
    }

    /// Puts `row` at `position`.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Bug`] for a position that no output has.
    #[inline]
    pub fn push(&mut self, row: RowId, position: u64) -> Result<(), Error> {
        if position >= TURN {
            return Err(Error::Bug(format!("a row at position {position}")));
        }
        self.n += 1;
        self.others += 1;
        self.rows.push(row.0, position)
    }

    /// Takes `row` so many times in its turn: behind all earlier rows of the table that are taken so.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    #[inline]
    pub fn push_turn(&mut self, row: RowId, times: u64) -> Result<(), Error> {
        // A peer may have said how many, and nobody has looked yet how many that makes.
        self.n = self.n.saturating_add(times);
        if times == 1 && row.0 < self.room {
            self.have_bits();
            let (word, bit) = (&mut self.once[(row.0 / 64) as usize], 1 << (row.0 % 64));
            if *word & bit == 0 {
                *word |= bit;
                return Ok(());
            }
        }
        self.others += 1;
        self.rows.push(row.0, TURN | times)
    }

    /// Takes once in their turn those of `rows` that are `taken`: row i if bit i % 64 of word i / 64 is set. A row that has room for a bit
    /// costs the same time, whether it is taken or not.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Bug`] if one of them is taken already.
    pub fn push_turns(&mut self, rows: &[u64], taken: &[u64]) -> Result<(), Error> {
        self.have_bits();
        let mut twice = 0;
        // Their words are in no cache.
        let mut ahead = rows.iter().skip(AHEAD);
        for (rows, taken) in rows.chunks(64).zip(taken) {
            for (i, &row) in rows.iter().enumerate() {
                if let Some(row) = ahead.next() {
                    prefetch(&self.once, (row / 64) as usize);
                }
                let taken = taken >> i & 1;
                if row >= self.room {
                    if taken == 1 {
                        self.push_turn(RowId(row), 1)?;
                    }
                    continue;
                }
                let (word, bit) = (&mut self.once[(row / 64) as usize], taken << (row % 64));
                twice |= *word & bit;
                *word |= bit;
                self.n += taken;
            }
        }
        if twice == 0 { Ok(()) } else { Err(Error::Bug("a row is taken twice".into())) }
    }

    /// From now on there are bits, if they have room.
    fn have_bits(&mut self) {
        if self.once.is_empty() {
            self.once = large::filled(0, (self.room / 64) as usize);
        }
    }

    /// Puts an absent row at `position`.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    pub fn push_absent(&mut self, position: u64) -> Result<(), Error> {
        self.n += 1;
        self.others += 1;
        self.absent.push(0, &position.to_le_bytes())
    }

    /// The number of rows that the output will have.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }
}

/// Gives `sink` the rows of `table` that `picks` names, in order of position; tells how many. Holds about `memory`
/// bytes beside those of `picks`, and keeps the rest in `dir`. At most `workers` threads read, as many write, and no more
/// than memory allows.
///
/// # Errors
/// What is wrong with the data, the disk or the sink; [`Error::Changed`] if a row is not there; [`Error::Bug`] if the
/// positions are not 0 to n - 1, each once.
pub fn gather(
    table: &dyn Table,
    picks: Picks,
    memory: usize,
    workers: usize,
    dir: &Path,
    sink: &mut dyn Sink,
) -> Result<u64, Error> {
    let Picks { once, rows, others, absent, n, turns, .. } = picks;
    let form = sink.form();
    let cuts = sink.cuts();
    let ends = if cuts.is_some() { table.file_ends(workers)? } else { Vec::new() };
    let (readers, writers) = (memory / 4, memory / 4);
    sink.allow(workers, writers);
    let workers = workers.min(readers / READER).max(1);
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let selection = Selection { form, columns: &columns, workers };
    if others == 0 && turns == 0 && cuts.is_none() {
        // They come in the order in which they are to stand, and nobody need hear which they are.
        let (schema, mut came) = (sink.schema().clone(), 0);
        table.select_marked(&once, selection, &mut |batch| {
            came += batch.num_rows() as u64;
            sink.write(&batch.with_schema(schema.clone()).map_err(|e| Error::Bug(e.to_string()))?)
        })?;
        return if came == n { Ok(n) } else { Err(Error::Bug(format!("{came} rows came where {n} were due"))) };
    }
    let mut reorder = Reorder::new(sink, n, memory - readers - writers, dir)?;
    // Positions of the rows that the table has been asked for and has not given yet.
    let asked = RefCell::new(VecDeque::new());
    // The file of the last row that was asked for, and how many were.
    let (mut file, mut came) = (None, 0);
    let mut rows = rows.sorted(Ones::new(once.into_iter()), turns)?.map(|pick| {
        let (row, position) = pick?;
        if let Some(cuts) = &cuts {
            if position != came {
                return Err(Error::Bug("rows in another order than the input's, to be cut by its files".into()));
            }
            came += 1;
            if file.is_none_or(|file: usize| ends.get(file).is_none_or(|end| *end <= row)) {
                let of = ends.partition_point(|end| *end <= row);
                file = Some(of);
                let wrong = |_| Error::Bug("a thread that writes has panicked".into());
                cuts.lock().map_err(wrong)?.push_back((position, of));
            }
        }
        asked.borrow_mut().push_back(position);
        Ok(RowId(row))
    });
    table.select(&mut rows, selection, &mut |batch| {
        let mut asked = asked.borrow_mut();
        if asked.len() < batch.num_rows() {
            return Err(Error::Bug("more rows than were asked for".into()));
        }
        let positions: Vec<u64> = asked.drain(..batch.num_rows()).collect();
        drop(asked);
        reorder.push(&batch, &positions)
    })?;
    for block in absent.finish()?.blocks(0, 1 << 13) {
        for position in block?.chunks_exact(ABSENT) {
            reorder.push_absent(word(position))?;
        }
    }
    reorder.finish()?;
    Ok(n)
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[i]))
}

/// Picks parted by ranges of rows.
struct Parted {
    spill: Spill,
    /// The first row of the first range, and the bits of a row's place within its range. The last range has no end.
    first: u64,
    bits: u32,
    last: u64,
    memory: usize,
    dir: PathBuf,
}

impl Parted {
    fn new(first: u64, end: u64, memory: usize, dir: &Path) -> Result<Self, Error> {
        let rows = end - first;
        // A bucket is sorted in memory, and should be small enough for that if each row is picked once.
        let fitting = (rows as u128 * PICK as u128 * 8 / memory.max(1) as u128) as u64;
        let most = (memory as u64 / 4096).clamp(2, MAX_BUCKETS as u64 / 2);
        // Up to twice as many as asked for, as ranges are powers of two.
        let bits = rows.div_ceil((rows / SORTED).max(fitting).clamp(2, most)).ilog2();
        let last = (rows - 1) >> bits;
        let spill = Spill::new(last as usize + 1, PICK, memory / 2, dir)?;
        Ok(Self { spill, first, bits, last, memory, dir: dir.to_owned() })
    }

    #[inline]
    fn push(&mut self, row: u64, at: u64) -> Result<(), Error> {
        let bucket = ((row - self.first) >> self.bits).min(self.last);
        let mut pick = [0; PICK];
        pick[..8].copy_from_slice(&row.to_le_bytes());
        pick[8..].copy_from_slice(&at.to_le_bytes());
        self.spill.push(bucket as usize, &pick)
    }

    /// The picks, and the rows that are taken `once` in their turn. What is taken in turn stands from `turns` on.
    fn sorted(self, once: Ones<std::vec::IntoIter<u64>>, turns: u64) -> Result<Sorted, Error> {
        let levels = vec![Level { spilled: self.spill.finish()?, next: 0 }];
        let (now, turn) = (Vec::new().into_iter(), Turn { row: 0, times: 0, position: turns });
        Ok(Sorted { once, turn, now, of_one: None, levels, bytes: Vec::new(), memory: self.memory, dir: self.dir })
    }
}

/// Picks in order of rows.
struct Sorted {
    /// Rows that are taken once in their turn.
    once: Ones<std::vec::IntoIter<u64>>,
    /// The row whose turn it is.
    turn: Turn,
    /// Picks of the bucket under way.
    now: std::vec::IntoIter<(u64, u64)>,
    /// Many picks of one row, where there is nothing to sort: those behind them.
    of_one: Option<Blocks>,
    /// The buckets to come; the last level parts one bucket of the level before it.
    levels: Vec<Level>,
    /// Room to read a bucket.
    bytes: Vec<u8>,
    memory: usize,
    dir: PathBuf,
}

/// A row that is taken `times` times more, from `position` on.
struct Turn {
    row: u64,
    times: u64,
    position: u64,
}

struct Level {
    spilled: Spilled,
    next: usize,
}

fn pairs(block: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    block.chunks_exact(PICK).map(|pick| (word(&pick[..8]), word(&pick[8..])))
}

/// The picks in `bytes` in order of rows: parted into bins of one row, or of so few that there are at most two bins a pick,
/// and sorted there. Rows are mostly picked evenly; nothing but speed rests on it.
fn by_row(bytes: &[u8]) -> Vec<(u64, u64)> {
    let n = bytes.len() / PICK;
    let (first, last) = pairs(bytes).fold((u64::MAX, 0), |(first, last), (row, _)| (first.min(row), last.max(row)));
    if n == 0 {
        return Vec::new();
    }
    let bits = ((last - first) / (2 * n as u64)).checked_ilog2().map_or(0, |bits| bits + 1);
    let bin = |row: u64| ((row - first) >> bits) as usize;
    // Where each bin begins; as it is filled, where its next pick goes.
    let mut next = vec![0; bin(last) + 2];
    pairs(bytes).for_each(|(row, _)| next[bin(row) + 1] += 1);
    for i in 1..next.len() {
        next[i] += next[i - 1];
    }
    let mut sorted = vec![(0, 0); n];
    for pick in pairs(bytes) {
        let next = &mut next[bin(pick.0)];
        sorted[*next] = pick;
        *next += 1;
    }
    if bits > 0 {
        let mut from = 0;
        for &to in &next[..next.len() - 1] {
            sorted[from..to].sort_unstable();
            from = to;
        }
    }
    sorted
}

impl Sorted {
    /// Turns to the next picks; false if there are none.
    fn turn(&mut self) -> Result<bool, Error> {
        if let Some(block) = self.of_one.as_mut().and_then(Iterator::next) {
            self.now = pairs(&block?).collect::<Vec<_>>().into_iter();
            return Ok(true);
        }
        self.of_one = None;
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        if level.next == level.spilled.buckets() {
            self.levels.pop();
            return Ok(true);
        }
        let bucket = level.next;
        level.next += 1;
        if level.spilled.len(bucket) * PICK <= self.memory / 4 {
            level.spilled.read_into(bucket, &mut self.bytes)?;
            self.now = by_row(&self.bytes).into_iter();
            return Ok(true);
        }
        // Too many for the memory: some rows are picked very often. Part the bucket again, as finely as its rows allow.
        let blocks = || level.spilled.blocks(bucket, SORTED as usize);
        let (mut first, mut last) = (u64::MAX, 0);
        for block in blocks() {
            for (row, _) in pairs(&block?) {
                (first, last) = (first.min(row), last.max(row));
            }
        }
        if first == last {
            self.of_one = Some(blocks());
            return Ok(true);
        }
        let mut parted = Parted::new(first, last + 1, self.memory / 4, &self.dir)?;
        for block in blocks() {
            pairs(&block?).try_for_each(|(row, at)| parted.push(row, at))?;
        }
        self.levels.push(Level { spilled: parted.spill.finish()?, next: 0 });
        Ok(true)
    }
}

impl Iterator for Sorted {
    type Item = Result<(u64, u64), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.turn.times > 0 {
                self.turn.times -= 1;
                self.turn.position += 1;
                return Some(Ok((self.turn.row, self.turn.position - 1)));
            }
            let Some(&(row, at)) = self.now.as_slice().first() else {
                match self.turn() {
                    Ok(true) => {}
                    Ok(false) => (self.turn.row, self.turn.times) = (self.once.next_below(u64::MAX)?, 1),
                    Err(error) => {
                        self.once = Ones::new(Vec::new().into_iter());
                        self.levels.clear();
                        self.of_one = None;
                        return Some(Err(error));
                    }
                }
                continue;
            };
            if let Some(row) = self.once.next_below(row) {
                (self.turn.row, self.turn.times) = (row, 1);
                continue;
            }
            self.now.next();
            if at < TURN {
                return Some(Ok((row, at)));
            }
            (self.turn.row, self.turn.times) = (row, at - TURN);
        }
    }
}
