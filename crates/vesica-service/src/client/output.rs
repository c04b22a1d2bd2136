//! From what was found to rows of a file: the client's rows that were found, with the values that the server has beside them.

use crate::error::Error;
use crate::found::{Hit, Lost, Texts};
use crate::offer::Offer;
use crate::wants::Wants;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vesica_job::rooms::Share;
use vesica_job::{Io, JobError, Target};
use vesica_spec::service::AskPlan;
use vesica_table::{Beside, Format, Picks, Sink, Staged, Table, View, Widened, Written, free_bytes, gather};
use vesica_types::RowId;

/// Where rows go that say what changed since the last run.
pub fn changes(plan: &AskPlan) -> impl Iterator<Item = &vesica_table::Output> {
    plan.kept.iter().flat_map(|kept| [&kept.gained, &kept.lost]).flatten()
}

/// The values that stand beside rows that were found.
struct Looked<'a> {
    /// The names of their columns.
    names: &'a [String],
    /// Rows, ascending, and which hit each belongs to.
    rows: Vec<(u64, u32)>,
    /// The values of a hit.
    texts: &'a (dyn Fn(u32) -> Result<Texts, Error> + Send + Sync),
}

impl Beside for Looked<'_> {
    fn names(&self) -> &[String] {
        self.names
    }

    fn texts(&self, row: RowId) -> Result<Texts, vesica_table::Error> {
        let at = self.rows.binary_search_by_key(&row.0, |(row, _)| *row);
        let at = at.map_err(|_| vesica_table::Error::Bug("a row that was not found".to_owned()))?;
        (self.texts)(self.rows[at].1).map_err(|error| vesica_table::Error::Beside(error.to_string()))
    }
}

/// Columns without rows, to see whether an output can have them.
struct Nothing<'a>(&'a [String]);

impl Beside for Nothing<'_> {
    fn names(&self) -> &[String] {
        self.0
    }

    fn texts(&self, _: RowId) -> Result<Texts, vesica_table::Error> {
        Err(vesica_table::Error::Bug("a row of a table without rows".to_owned()))
    }
}

/// Does `work` with the table that the output is of: the plan's columns, and those of `beside` behind them.
fn widened<T>(
    plan: &AskPlan,
    table: &dyn Table,
    beside: &dyn Beside,
    work: impl FnOnce(&dyn Table) -> Result<T, Error>,
) -> Result<T, Error> {
    let view = plan.columns.as_ref().map(|names| View::new(table, names)).transpose()?;
    let own: &dyn Table = view.as_ref().map_or(table, |view| view);
    if beside.names().is_empty() {
        return work(own);
    }
    // One for all outputs, of which any may be left out.
    let null = plan.output.iter().chain(changes(plan)).next().map_or("", |output| &output.null);
    let wide = Widened::new(own, beside, null).map_err(|error| match error {
        vesica_table::Error::Ambiguous { name, .. } => Error::Setup(format!(
            "the service's values have a column {name:?}, and so has the table: name the columns to write in \
             mine.output.columns, without that one"
        )),
        error => error.into(),
    })?;
    work(&wide)
}

/// Fails if the values of so many `rows` may find no room, should all of the rows be found, or what is kept: `kept_bytes`. The rows themselves have so
/// many `bytes`. It is seen before a key is asked for, because the server chose how long its values are: a run that ended when its disk was full
/// would say how much was found.
///
/// # Errors
/// That, with what is needed; those of asking the disks.
pub fn room(plan: &AskPlan, io: &Io, offer: &Offer, (rows, bytes): (u64, u64), kept_bytes: u64) -> Result<(), Error> {
    let columns = offer.values.len() as u64;
    if columns == 0 && plan.kept.is_none() {
        return Ok(());
    }
    let values = if columns == 0 { 0 } else { offer.value_bytes.map_or(columns * NUMBER, u64::from) };
    // Four bytes of a column's length are more than a comma and the quotes around the text. In CSV each byte of the text may be a quote itself.
    let each_of = |output: &vesica_table::Output| match output.format.or_else(|| Format::of(&output.path)) {
        None | Some(Format::Csv) => 2 * values + columns * output.null.len() as u64,
        Some(_) => values,
    };
    // The caller gets the rows.
    let is_in_memory = plan.output.is_none() && io.target.is_some();
    let file = |each: u64| rows.saturating_mul(each).saturating_add(bytes);
    let said = |(needed, each): (u64, u64), has: u64, of: String| {
        Error::Setup(format!(
            "{of}: what is written of {rows} rows may take {needed} bytes if all of them are found, {each} for each, and there is room \
             for {has}; {}",
            if !is_in_memory {
                "ask for fewer rows at a time, or write to a larger disk"
            } else {
                "ask for fewer rows at a time, give it more, or write to a file"
            }
        ))
    };
    if is_in_memory && columns > 0 && file(values) > plan.memory {
        return Err(said((file(values), values), plan.memory, "mine.memory".to_owned()));
    }
    // Every row that is found may be one that was gained, and then it is written twice. A row that was lost is not found, so it takes the place
    // of another one where these are written. It has no values.
    let (gained, lost) = plan.kept.as_ref().map_or((None, None), |kept| (kept.gained.as_ref(), kept.lost.as_ref()));
    let found = plan.output.iter().map(|output| ("mine.output", output));
    let found = found.chain(gained.map(|output| ("mine.output.gained", output)));
    let found = found.map(|(field, output)| (field, &*output.path, file(each_of(output)), each_of(output), false));
    let lost = lost.map(|output| ("mine.output.lost", &*output.path, bytes, 0, plan.output.is_some()));
    let kept = plan.kept.iter().map(|kept| ("mine.kept", &*kept.path, kept_bytes, 0, false));
    // What each file system is to hold.
    let mut disks: Vec<(u64, PathBuf, u64, u64, Vec<String>)> = Vec::new();
    for (field, path, bytes, each, in_place) in found.chain(lost).chain(kept) {
        let folder = folder(path);
        let metadata = folder.metadata().map_err(Error::file("cannot ask for the free space of", &folder))?;
        let name = format!("{field}: {}", path.display());
        match disks.iter_mut().find(|(disk, ..)| *disk == metadata.dev()) {
            None => disks.push((metadata.dev(), folder, bytes, each, vec![name])),
            Some((_, _, needed, all, names)) => {
                *needed = needed.saturating_add(if in_place { 0 } else { bytes });
                *all += each;
                names.push(name);
            }
        }
    }
    for (_, folder, needed, each, names) in disks {
        let free = free_bytes(&folder).map_err(Error::file("cannot ask for the free space of", &folder))?;
        if needed > free {
            return Err(said((needed, each), free, names.join(", ")));
        }
    }
    Ok(())
}

/// The folder that an output is in before it is whole.
fn folder(path: &Path) -> PathBuf {
    if path.as_os_str() == "-" {
        return std::env::temp_dir();
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Bytes of a real number as a text, at most.
const NUMBER: u64 = 16;

/// Fails if the rows cannot go where the plan says, with these columns of values beside them.
///
/// # Errors
/// What is wrong with the output.
pub fn takes(plan: &AskPlan, io: &Io, values: &[String]) -> Result<(), Error> {
    widened(plan, &*io.table, &Nothing(values), |wide| {
        let gained = plan.kept.as_ref().and_then(|kept| kept.gained.as_ref()).map(|gained| gained as &dyn Target);
        for target in io.target.as_deref().into_iter().chain(gained) {
            drop::<Box<dyn Sink>>(target.sink(&wide.facts())?);
        }
        Ok(())
    })
}

/// What was written.
pub struct Rows {
    /// Where, and how much; none if only what changed is written.
    pub output: Option<Written>,
    /// Rows with a key that was found.
    pub matched: u64,
    /// Rows that count as not found, and why.
    pub lost: [(Lost, Vec<u64>); 3],
}

/// Rows on their way to an output.
struct Chosen<'a> {
    target: &'a dyn Target,
    /// The values that stand beside them.
    columns: &'a [String],
    picks: Picks,
    /// The hit of each, ascending by row, where it has values.
    hits: Vec<(u64, u32)>,
}

impl Chosen<'_> {
    fn push(&mut self, row: u64, hit: u32) -> Result<(), JobError> {
        self.picks.push_turn(RowId(row), 1)?;
        if !self.columns.is_empty() {
            self.hits.push((row, hit));
        }
        Ok(())
    }

    /// The output, whole, of rows that have the values of these hits.
    fn stage(mut self, plan: &AskPlan, table: &dyn Table, hits: &[Hit<'_>]) -> Result<Staged, Error> {
        self.hits.sort_unstable();
        let columns = self.columns;
        let texts = |hit: u32| {
            let texts = hits[hit as usize].came.as_ref().ok().and_then(|value| value.texts(columns.len()));
            texts.ok_or_else(|| Error::Damaged {
                path: plan.cache.clone(),
                why: "a file changed while it was read".to_owned(),
            })
        };
        let looked = Looked { names: columns, rows: self.hits, texts: &texts };
        widened(plan, table, &looked, |wide| {
            let mut sink = self.target.sink(&wide.facts())?;
            gather(wide, self.picks, Share::Output.of(plan.memory), plan.workers, &plan.scratch, &mut *sink)?;
            Ok(sink.finish()?)
        })
    }
}

/// Writes the rows that were found, with these columns of values. Hits stand in the order of what they came for. Where it is known which wants
/// were found `before`, also the rows that were gained and lost since: all files are put in their places when all are written.
///
/// # Errors
/// Those of the outputs; a file of the cache that changed meanwhile.
pub fn write<'a>(
    plan: &'a AskPlan,
    io: &'a Io,
    columns: &'a [String],
    wants: &Wants,
    hits: &[Hit<'_>],
    before: Option<&dyn Fn(usize) -> bool>,
) -> Result<Rows, Error> {
    let places = before.and(plan.kept.as_ref()).map_or((None, None), |kept| (kept.gained.as_ref(), kept.lost.as_ref()));
    let memory = Share::Picks.of(plan.memory) / (1 + usize::from(places.0.is_some()) + usize::from(places.1.is_some()));
    let new = |target: Option<&'a dyn Target>, columns: &'a [String]| -> Result<Option<Chosen<'a>>, Error> {
        let picks = || Picks::new(wants.rows, memory, &plan.scratch);
        target.map(|target| Ok(Chosen { target, columns, picks: picks()?, hits: Vec::new() })).transpose()
    };
    let mut all = new(io.target.as_deref(), columns)?;
    let mut gained = new(places.0.map(|output| output as &dyn Target), columns)?;
    let mut lost = new(places.1.map(|output| output as &dyn Target), &[])?;
    let mut matched = 0;
    // The hit of each want, counted from 1.
    let mut of_want = vec![0u32; wants.digests.len()];
    (1..).zip(hits).for_each(|(number, hit)| of_want[hit.want] = number);
    let before = |want| before.is_some_and(|before| before(want));
    let mut left = Lost::ALL.map(|lost| (lost, Vec::new()));
    let mut has_row = vec![false; hits.len()];
    wants.each(|row, want| {
        let hit = of_want[want].checked_sub(1);
        let came = hit.map(|hit| {
            has_row[hit as usize] = true;
            (hit, &hits[hit as usize].came)
        });
        match came {
            Some((hit, Ok(_))) => {
                matched += 1;
                all.as_mut().map_or(Ok(()), |all| all.push(row, hit))?;
                gained.as_mut().filter(|_| !before(want)).map_or(Ok(()), |gained| gained.push(row, hit))?;
                return Ok(());
            }
            Some((_, Err(why))) => {
                left.iter_mut().filter(|(lost, _)| lost == why).for_each(|(_, rows)| rows.push(row));
            }
            None => {}
        }
        lost.as_mut().filter(|_| before(want)).map_or(Ok(()), |lost| lost.push(row, 0))
    })?;
    drop(of_want);
    if has_row.contains(&false) {
        return Err(Error::bug("a key that was found has no row"));
    }
    let table = &*io.table;
    let staged = all.map(|all| all.stage(plan, table, hits)).transpose()?;
    let others = [gained, lost].into_iter().flatten().map(|chosen| chosen.stage(plan, table, hits));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let output = staged.map(Staged::commit).transpose()?;
    others.into_iter().try_for_each(|other| other.commit().map(drop))?;
    Ok(Rows { output, matched, lost: left })
}
