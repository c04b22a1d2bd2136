use crate::spill::Blocks;
use crate::{Error, MAX_BUCKETS, Reorder, Sink, Spill, Spilled, Table};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use vesica_types::RowId;

/// Bytes of a pick in a spill: row and position.
const PICK: usize = 16;

/// Bytes of an absent row's pick: its position.
const ABSENT: usize = 8;

/// About as many picks sort well together.
const SORTED: u64 = 1 << 15;

/// Which rows an output takes, and where: pairs of a row and its position in the output, pushed in any order. Every
/// position from 0 on must come once; a row may come any number of times, or never.
///
/// They come out sorted by row, in bounded memory, however uneven they are.
pub struct Picks {
    rows: Parted,
    absent: Spill,
    n: u64,
}

impl Picks {
    /// Picks from a table of `rows` rows (an estimate will do), in about `memory` bytes and, beyond that, in `dir`.
    ///
    /// # Errors
    /// Those of opening a spill; none is known.
    pub fn new(rows: u64, memory: usize, dir: &Path) -> Result<Self, Error> {
        let part = memory / 8;
        let absent = Spill::new(1, ABSENT, part, dir)?;
        Ok(Self { rows: Parted::new(0, rows.max(1), memory - part, dir)?, absent, n: 0 })
    }

    /// Puts `row` at `position`.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    #[inline]
    pub fn push(&mut self, row: RowId, position: u64) -> Result<(), Error> {
        self.n += 1;
        self.rows.push(row.0, position)
    }

    /// Puts an absent row at `position`.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    pub fn push_absent(&mut self, position: u64) -> Result<(), Error> {
        self.n += 1;
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
/// bytes beside those of `picks`, and keeps the rest in `dir`.
///
/// # Errors
/// What is wrong with the data, the disk or the sink; [`Error::Changed`] if a row is not there; [`Error::Bug`] if the
/// positions are not 0 to n - 1, each once.
pub fn gather(table: &dyn Table, picks: Picks, memory: usize, dir: &Path, sink: &mut dyn Sink) -> Result<u64, Error> {
    let Picks { rows, absent, n } = picks;
    let form = sink.form();
    let mut reorder = Reorder::new(sink, n, memory, dir)?;
    // Positions of the rows that the table has been asked for and has not given yet.
    let asked = RefCell::new(VecDeque::new());
    let mut rows = rows.sorted()?.map(|pick| {
        pick.map(|(row, position)| {
            asked.borrow_mut().push_back(position);
            RowId(row)
        })
    });
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    table.select(&mut rows, form, &columns, &mut |batch| {
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
    /// The first row of the first range, and the rows in each. The last range has no end.
    first: u64,
    width: u64,
    buckets: u64,
    memory: usize,
    dir: PathBuf,
}

impl Parted {
    fn new(first: u64, end: u64, memory: usize, dir: &Path) -> Result<Self, Error> {
        let rows = end - first;
        // A bucket is sorted in memory, and should be small enough for that if each row is picked once.
        let fitting = (rows as u128 * PICK as u128 * 8 / memory.max(1) as u128) as u64;
        let most = (memory as u64 / 4096).clamp(2, MAX_BUCKETS as u64);
        let buckets = (rows / SORTED).max(fitting).clamp(2, most);
        let spill = Spill::new(buckets as usize, PICK, memory / 2, dir)?;
        Ok(Self { spill, first, width: rows.div_ceil(buckets), buckets, memory, dir: dir.to_owned() })
    }

    #[inline]
    fn push(&mut self, row: u64, position: u64) -> Result<(), Error> {
        let bucket = ((row - self.first) / self.width).min(self.buckets - 1);
        let mut pick = [0; PICK];
        pick[..8].copy_from_slice(&row.to_le_bytes());
        pick[8..].copy_from_slice(&position.to_le_bytes());
        self.spill.push(bucket as usize, &pick)
    }

    fn sorted(self) -> Result<Sorted, Error> {
        let level = Level { spilled: self.spill.finish()?, next: 0 };
        Ok(Sorted { now: Now::Sorted(Vec::new().into_iter()), levels: vec![level], memory: self.memory, dir: self.dir })
    }
}

/// Picks in order of rows.
struct Sorted {
    now: Now,
    /// The buckets to come; the last level parts one bucket of the level before it.
    levels: Vec<Level>,
    memory: usize,
    dir: PathBuf,
}

struct Level {
    spilled: Spilled,
    next: usize,
}

/// The bucket under way.
enum Now {
    Sorted(std::vec::IntoIter<(u64, u64)>),
    /// Many picks of one row; there is nothing to sort.
    One(Blocks, std::vec::IntoIter<(u64, u64)>),
}

fn pairs(block: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    block.chunks_exact(PICK).map(|pick| (word(&pick[..8]), word(&pick[8..])))
}

impl Sorted {
    /// Turns to the next bucket; false if there is none.
    fn turn(&mut self) -> Result<bool, Error> {
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        if level.next == level.spilled.buckets() {
            self.levels.pop();
            return Ok(true);
        }
        let bucket = level.next;
        level.next += 1;
        let n = level.spilled.len(bucket);
        let blocks = || level.spilled.blocks(bucket, SORTED as usize);
        if n * PICK <= self.memory / 4 {
            let mut picks = Vec::with_capacity(n);
            for block in blocks() {
                picks.extend(pairs(&block?));
            }
            picks.sort_unstable();
            self.now = Now::Sorted(picks.into_iter());
            return Ok(true);
        }
        // Too many for the memory: some rows are picked very often. Part the bucket again, as finely as its rows allow.
        let (mut first, mut last) = (u64::MAX, 0);
        for block in blocks() {
            for (row, _) in pairs(&block?) {
                (first, last) = (first.min(row), last.max(row));
            }
        }
        if first == last {
            self.now = Now::One(blocks(), Vec::new().into_iter());
            return Ok(true);
        }
        let mut parted = Parted::new(first, last + 1, self.memory / 4, &self.dir)?;
        for block in blocks() {
            pairs(&block?).try_for_each(|(row, position)| parted.push(row, position))?;
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
            match &mut self.now {
                Now::Sorted(picks) => {
                    if let Some(pick) = picks.next() {
                        return Some(Ok(pick));
                    }
                }
                Now::One(blocks, picks) => {
                    if let Some(pick) = picks.next() {
                        return Some(Ok(pick));
                    }
                    match blocks.next() {
                        Some(Ok(block)) => {
                            *picks = pairs(&block).collect::<Vec<_>>().into_iter();
                            continue;
                        }
                        Some(Err(error)) => return Some(Err(error)),
                        None => {}
                    }
                }
            }
            match self.turn() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.levels.clear();
                    self.now = Now::Sorted(Vec::new().into_iter());
                    return Some(Err(error));
                }
            }
        }
    }
}
