//! Which of this party's rows have a common identifier, and of which kinds: a row once, however many of its identifiers are common.

use crate::error::JobError;
use crate::input::keys::{Keys, of_identifier};
use crate::input::repeats;
use crate::units::cut::Units;
use crate::units::found::{Found, OfUnit};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use vesica_spec::{Plan, Share};
use vesica_table::{Beside, Picks, Spill, Spilled, on_threads};
use vesica_types::RowId;

/// Rows that are marked together.
const BLOCK: usize = 1 << 11;

/// Bytes of a mark: a row's place in its range, and a bit for each kind by which it matches.
const MARK: usize = 4;

/// What is known of the rows of a table whose identifiers were matched.
pub struct ByRow {
    /// A bucket a range of rows.
    marks: Spilled,
    /// Bits of the number of rows of a range.
    range: u32,
    /// Rows with a common identifier.
    pub matched: u64,
}

impl ByRow {
    /// What was `found` of the rows of a table whose identifiers are in `units`. Where somebody `waited` meanwhile, each unit takes its time, and each row of it, whether it matches or not.
    ///
    /// # Errors
    /// Those of reading and writing what is spilled.
    pub fn of(
        plan: &Plan,
        keys: &Keys,
        units: &Units,
        found: &Found<'_>,
        waited: bool,
        dir: &Path,
    ) -> Result<Self, JobError> {
        let memory = Share::Picks.of(plan.memory) / 2;
        let (range, ranges) = repeats::ranges(keys.rows, memory);
        let marks = Mutex::new(Spill::new(ranges, MARK, memory, dir)?);
        let lists = &plan.lists;
        let missing = Mutex::new(units.largest_first().into_iter());
        // As when a join is placed: of several threads, the slowest would tell whether two keys of many rows share a unit.
        let readers =
            if waited && units.have_others() { 1 } else { units.readers(plan.workers, Share::Joining.of(plan.memory)) };
        on_threads(readers, || {
            let (mut common, mut marked) =
                (OfUnit::default(), Marked { block: Vec::with_capacity(BLOCK), range, marks: &marks });
            loop {
                let next = missing.lock().expect("no worker panics").next();
                let Some(id) = next else { return marked.flush() };
                common.read(found, id)?;
                if common.is_empty() && !waited {
                    continue;
                }
                let (mut key, mut now) = (0, false);
                units.each(id, |first, entry| {
                    if first {
                        now = common.times(key).is_some();
                        key += 1;
                    }
                    let (row, list) = of_identifier(lists, entry);
                    if row >= keys.rows {
                        return Err(units.changed());
                    }
                    let kind = if now { 1 << list.kind } else { 0 };
                    if waited || now { marked.push(row, kind) } else { Ok(()) }
                })?;
                common.are_below(key)?;
            }
        })?;
        units.rest();
        let marks = marks.into_inner().expect("no worker panics").finish()?;
        let mut by_row = Self { marks, range, matched: 0 };
        let mut matched = 0;
        by_row.each(keys.rows, |_, kinds| {
            matched += u64::from(kinds != 0);
            Ok(())
        })?;
        by_row.matched = matched;
        Ok(by_row)
    }

    /// The rows of the output, in the order of the table: those that match or those that do not, or both, as the join has it.
    ///
    /// # Errors
    /// Those of reading and writing what is spilled.
    pub fn picks(&self, plan: &Plan, keys: &Keys, dir: &Path) -> Result<Picks, JobError> {
        let half = plan.half();
        let mut picks = Picks::new(keys.rows, Share::Picks.of(plan.memory) / 2, dir)?;
        self.each(keys.rows, |row, kinds| {
            let wanted = if kinds != 0 { half.pairs } else { half.mine };
            if wanted { Ok(picks.push_turn(RowId(row), 1)?) } else { Ok(()) }
        })?;
        Ok(picks)
    }

    /// Every row of the table, which has so many, and the kinds by which it matches.
    fn each(&self, rows: u64, mut each: impl FnMut(u64, u8) -> Result<(), JobError>) -> Result<(), JobError> {
        let mut of_range = Vec::new();
        for bucket in 0..self.marks.buckets() {
            self.load(bucket, &mut of_range)?;
            let from = (bucket as u64) << self.range;
            let kinds = of_range.iter().copied().chain(std::iter::repeat(0));
            (from..rows.min(from + (1 << self.range))).zip(kinds).try_for_each(|(row, kinds)| each(row, kinds))?;
        }
        Ok(())
    }

    /// Makes `to` what is said of the rows of a range, as far as there are some.
    fn load(&self, bucket: usize, to: &mut Vec<u8>) -> Result<(), vesica_table::Error> {
        to.clear();
        let mut blocks = self.marks.blocks(bucket, 1 << 13);
        let mut block = Vec::new();
        while blocks.next_into(&mut block)? {
            for mark in block.as_chunks::<MARK>().0 {
                let [a, b, c, said] = *mark;
                let place = u32::from_le_bytes([a, b, c, 0]) as usize;
                if place >= to.len() {
                    to.resize(place + 1, 0);
                }
                to[place] |= said;
            }
        }
        Ok(())
    }
}

/// The name of the column that says how a row matched.
pub const COLUMN: &str = "vesica_match";

/// By which identifiers the rows of a table match. They are asked for in ascending order, and a range of rows is in memory.
pub struct How<'a> {
    column: [String; 1],
    /// What is known, and the names of the kinds; nothing before there is something to know.
    known: Option<(&'a ByRow, Vec<&'a str>)>,
    window: Mutex<(Option<usize>, Vec<u8>)>,
}

impl<'a> How<'a> {
    /// The column before anything is known.
    pub fn unmade() -> Self {
        Self { column: [COLUMN.to_owned()], known: None, window: Mutex::default() }
    }

    /// What `by_row` knows of the rows of `plan`'s party.
    pub fn of(by_row: &'a ByRow, plan: &'a Plan) -> Self {
        let names = plan.shared.identifiers.iter().map(|of| of.name.as_str()).collect();
        Self { known: Some((by_row, names)), ..Self::unmade() }
    }
}

impl Beside for How<'_> {
    fn names(&self) -> &[String] {
        &self.column
    }

    fn texts(&self, row: RowId) -> Result<Vec<Option<String>>, vesica_table::Error> {
        let Some((by_row, names)) = &self.known else { return Ok(vec![None]) };
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, said) = &mut *window;
        let bucket = (row.0 >> by_row.range) as usize;
        if bucket >= by_row.marks.buckets() {
            return Err(vesica_table::Error::Bug("a row was asked for that was not read".into()));
        }
        if *now != Some(bucket) {
            *now = None;
            by_row.load(bucket, said)?;
            *now = Some(bucket);
        }
        let place = (row.0 & ((1 << by_row.range) - 1)) as usize;
        let of_row = said.get(place).copied().unwrap_or(0);
        let kinds = names.iter().enumerate().filter(|(kind, _)| of_row >> kind & 1 == 1).map(|(_, name)| *name);
        let text = kinds.collect::<Vec<_>>().join("+");
        Ok(vec![Some(text).filter(|text| !text.is_empty())])
    }
}

fn mark(row: u64, range: u32, said: u8) -> [u8; MARK] {
    let [a, b, c] = repeats::place(row, range);
    [a, b, c, said]
}

/// Marks of a thread, on their way to those of all.
struct Marked<'a> {
    block: Vec<(usize, [u8; MARK])>,
    range: u32,
    marks: &'a Mutex<Spill>,
}

impl Marked<'_> {
    #[inline]
    fn push(&mut self, row: u64, said: u8) -> Result<(), JobError> {
        self.block.push(((row >> self.range) as usize, mark(row, self.range, said)));
        if self.block.len() < BLOCK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), JobError> {
        let mut marks = self.marks.lock().expect("no worker panics");
        Ok(self.block.drain(..).try_for_each(|(bucket, mark)| marks.push(bucket, &mark))?)
    }
}
