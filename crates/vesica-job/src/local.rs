//! What a run needs of this machine, found good before any peer is contacted.

use crate::error::JobError;
use crate::input::groups::columns;
use crate::input::hash;
use crate::input::keys::{Keys, Reading};
use crate::io::Io;
use crate::meet::peers;
use crate::output::any::How;
use crate::output::link::Identified;
use crate::output::places::Places;
use crate::output::{self, groups, ids, join, part};
use crate::seal::kept;
use crate::seal::ledger::{self, Ledger};
use crate::tell::control::Control;
use crate::threads::cores;
use crate::units::cut::{COUNTED, Units};
use crate::units::found::Found;
use std::borrow::Borrow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vesica_net::{Endpoint, Identity};
use vesica_session::Error;
use vesica_spec::{Plan, Share, SpecError};
use vesica_suite::ResultKind;
use vesica_table::{Picks, Sink, Slabs, Staged, Table, View, folder};

/// This party's side of a run, opened.
pub struct Local {
    /// The table, and where the result goes.
    pub io: Io,
    /// Where the result goes, if this party learns it: a file that is gone if it is not finished.
    pub sink: Option<Box<dyn Sink>>,
    /// The private key and certificate, unless the job is insecure.
    pub identity: Option<Identity>,
    /// Where the peer is reached, and how it is known.
    pub endpoint: Endpoint,
    /// Where what does not fit in memory goes.
    pub scratch: PathBuf,
    /// What has been in memory before, to be used again.
    pub slabs: Slabs,
    /// The folder of the output.
    pub folder: Option<PathBuf>,
}

impl Local {
    /// Reads the keys of the table. A run that is to survive its process learns by the way which file that is.
    ///
    /// # Errors
    /// Those of [`Keys::count`]; [`JobError::Resume`] if it is not the file that the run began with.
    pub fn keys(&self, plan: &Plan, ledger: &mut Ledger, ctl: &Control) -> Result<Keys, JobError> {
        let (table, scratch, how) = (&*self.io.table, &self.scratch, Reading::from(plan).reusing(&self.slabs));
        let read = || Keys::count(table, how, scratch, ctl);
        if plan.resume.is_none() {
            return read();
        }
        let (keys, input) = hash::behind(table, ctl, read)?;
        ledger.identify(&input).map(|()| keys)
    }

    /// Sees that there is room on the disk where keys repeat, as `keys` says. Before the table was read, it was taken to have a key in
    /// each row.
    ///
    /// # Errors
    /// [`JobError::Space`].
    pub fn room_for_repeats(&self, plan: &Plan, keys: &Keys) -> Result<(), JobError> {
        let first = COUNTED as u64 + 1 + 8;
        let need = keys.distinct.saturating_mul(first).saturating_add(keys.duplicates.saturating_mul(REPEATED));
        let need = need.saturating_sub(plan.memory);
        room(&self.scratch, "cannot use the folder of mine.scratch,", "what does not fit in mine.memory", need)
    }

    /// Where the result goes, if this party learns it; opened again if an attempt before this one failed.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn fresh_sink(&mut self, plan: &Plan) -> Result<Option<Box<dyn Sink>>, JobError> {
        match self.sink.take() {
            None => output::sink(plan, &self.io),
            sink => Ok(sink),
        }
    }

    /// Writes the output beside its place, if this party learns: the rows of what was `found`, and `absent` rows of nulls; where rows match by
    /// any of their identifiers, those that `identified` says. Units that are given away make room for the output, on the disk too.
    ///
    /// # Errors
    /// Those of opening it, of joining and of writing.
    pub fn stage(
        &mut self,
        plan: &Plan,
        keys: &Keys,
        units: impl Borrow<Units>,
        found: &Found<'_>,
        identified: Option<&Identified>,
        absent: u64,
    ) -> Result<Option<Staged>, JobError> {
        if plan.shared.result == ResultKind::Groups {
            // What was opened to see that there is a place.
            drop(self.sink.take());
            if !plan.i_learn() {
                return Ok(None);
            }
            let told = found.groups.ok_or_else(|| Error::Bug("a party that learns was told no groups".into()))?;
            return groups::stage(plan, &self.io, told);
        }
        let Some(sink) = self.fresh_sink(plan)? else { return Ok(None) };
        let picks = match identified {
            Some(identified) => identified.picks(plan, keys, &self.scratch)?,
            None => join::rows(plan, keys, units.borrow(), found, absent, &self.scratch)?,
        };
        drop(units);
        self.slabs.release();
        if let (true, Some(Identified::Any(by_row))) = (plan.says_how, identified) {
            let write = |wide: &dyn Table| self.write_of(wide, plan, picks, keys.rows, sink).map(Some);
            return ids::beside(plan, &self.io, &How::of(by_row, plan), None, write);
        }
        self.write(plan, picks, keys.rows, sink).map(Some)
    }

    /// Writes the rows that `picks` names.
    ///
    /// # Errors
    /// As [`Local::write_of`].
    pub fn write(&self, plan: &Plan, picks: Picks, rows: u64, sink: Box<dyn Sink>) -> Result<Staged, JobError> {
        match &plan.columns {
            None => self.write_of(&*self.io.table, plan, picks, rows, sink),
            Some(names) => self.write_of(&View::new(&*self.io.table, names)?, plan, picks, rows, sink),
        }
    }

    /// Writes the rows of `table` that `picks` names: of this party's, or of what was made of it.
    ///
    /// # Errors
    /// [`JobError::Space`] before, and those of [`vesica_table::gather`].
    pub fn write_of(
        &self,
        table: &dyn Table,
        plan: &Plan,
        picks: Picks,
        rows: u64,
        mut sink: Box<dyn Sink>,
    ) -> Result<Staged, JobError> {
        self.room_for(picks.len(), rows)?;
        let (memory, workers) = (Share::Output.of(plan.memory), cores(plan.workers));
        vesica_table::gather(table, picks, memory, workers, &self.scratch, &mut *sink)?;
        Ok(sink.finish()?)
    }

    /// Fails if an output of `places` rows will not fit on its disk, going by the size of the input's `rows`.
    ///
    /// # Errors
    /// [`JobError::Space`].
    fn room_for(&self, places: u64, rows: u64) -> Result<(), JobError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let need = u128::from(self.io.table.bytes().unwrap_or(0)) * u128::from(places) / u128::from(rows.max(1));
        match vesica_table::free_bytes(folder) {
            // A compressed input says little about an uncompressed output and the other way round: refuse what cannot be.
            Ok(free) if u128::from(free) < need / 2 => {
                let need = u64::try_from(need).unwrap_or(u64::MAX);
                Err(JobError::Space { folder: folder.clone(), what: "the output", need, free })
            }
            _ => Ok(()),
        }
    }
}

/// Bytes that a row takes on disk at most, where memory does not hold it: its record in a unit, and the ends of blocks.
const SPILLED: u64 = 22;

/// Bytes that a row takes on disk at most that is not the first of its key: its record, sorted in a copy where its key has very many
/// rows, and its mark.
const REPEATED: u64 = 2 * SPILLED + 6;

/// Fails if the keys of `table` will fit neither in memory nor on the disk, or what outlives the process nowhere.
fn room_to_spill(plan: &Plan, table: &dyn Table, scratch: &Path) -> Result<(), JobError> {
    let rows = table.rows().map_or_else(|| rows_about(table, plan), Ok)?;
    let rows = rows.saturating_mul(Reading::from(plan).of_a_row());
    let need = rows.saturating_mul(SPILLED).saturating_sub(plan.memory);
    room(scratch, "cannot use the folder of mine.scratch,", "what does not fit in mine.memory", need)?;
    let Some(resume) = &plan.resume else { return Ok(()) };
    // The folder may not be there yet.
    let there = resume.dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("."));
    let has = allocated(&kept::path(resume, &plan.me));
    let need = rows.saturating_mul(kept::ROW).saturating_sub(has);
    room(there, "cannot use the folder of mine.resume,", "what mine.resume keeps", need)
}

/// Bytes that a file takes on its disk, which are free when it is written anew: holes take none. None if it is not there.
fn allocated(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.blocks().saturating_mul(512))
}

/// Fails if `folder`, which `setting` names, has no room for so many bytes of `what`.
fn room(folder: &Path, setting: &'static str, what: &'static str, need: u64) -> Result<(), JobError> {
    match vesica_table::free_bytes(folder) {
        Ok(free) if free < need => Err(JobError::Space { folder: folder.to_owned(), what, need, free }),
        Err(error) => Err(JobError::File { what: setting, path: folder.into(), error }),
        Ok(_) => Ok(()),
    }
}

/// Rows of a table, going by how many stand in its first part.
///
/// # Errors
/// What is wrong with that part.
pub fn rows_about(table: &dyn Table, plan: &Plan) -> Result<u64, JobError> {
    let mut rows = 0u64;
    for batch in table.keys(&plan.keys, 1)? {
        rows += batch?.num_rows() as u64;
        if rows >= 100_000 {
            let whole = table.bytes().unwrap_or(0);
            return Ok((u128::from(rows) * u128::from(whole) / u128::from(table.bytes_read().max(1))) as u64);
        }
    }
    Ok(rows)
}

/// Fails if a file that the run writes is another one that it writes or reads, by whatever name, or a file of its table.
///
/// # Errors
/// The same, with both.
pub fn are_apart(plan: &Plan, table: &dyn Table) -> Result<(), SpecError> {
    let mut places = Places::default();
    places.of_links(plan.identity.as_ref(), plan.peers.iter().filter_map(|peer| peer.trust.as_ref()), &plan.proxy);
    let resume = plan.resume.as_ref();
    places.read("mine.resume_key", resume.and_then(|resume| resume.key.as_ref()?.file()));
    for of in [ledger::path, kept::path] {
        places.written("mine.resume", resume.map(|resume| of(resume, &plan.me)).as_deref());
    }
    places.written("mine.budget.path", plan.budget.as_ref().map(|budget| &*budget.path));
    places.output("mine.output.path", plan.output.as_ref());
    places.written("mine.report", plan.report.as_deref());
    places.written("mine.trace", plan.trace.as_deref());
    places.are_apart(&[table])
}

/// Opens all that a run needs: cheap checks, and a look at the first rows.
///
/// # Errors
/// Whatever would end the run later for a reason that can be seen now.
pub fn open(plan: &Plan, io: Io, ctl: &Control) -> Result<Local, JobError> {
    vesica_cpu::requested().map_err(JobError::Setup)?;
    ledger::refuses_noise(plan)?;
    let identity = peers::own(plan, ctl)?;
    let endpoint = peers::endpoint(plan, identity.as_ref(), !io.connections.is_empty(), &*io.world.connector)?;
    if plan.resume.is_some() && io.table.source().is_none() {
        let why = "a table in memory cannot be read again after a restart: name files in mine.input.path, or remove mine.resume";
        return Err(SpecError::field("mine.resume", why).into());
    }
    if plan.lanes > 0 && !io.connections.is_empty() {
        let why = "lanes are connections of their own, and whoever brings the connections of a run has none for them; remove it";
        return Err(SpecError::field("mine.lanes", why).into());
    }
    // Asks for the columns, and reads nothing yet.
    drop(io.table.keys(&plan.keys, 1)?);
    vesica_table::spellings(&io.table.schema(), &plan.keys).into_iter().for_each(|spelled| ctl.note(spelled));
    if let Some(column) = &plan.value {
        drop(io.table.keys(std::slice::from_ref(column), 1)?);
    }
    if let Some(grouped) = &plan.grouped {
        drop(io.table.keys(&columns(grouped), 1)?);
    }
    let scratch = plan.scratch.clone().unwrap_or_else(std::env::temp_dir);
    room_to_spill(plan, &*io.table, &scratch)?;
    let sink = output::sink(plan, &io)?;
    for (field, path) in [("mine.report", &plan.report), ("mine.trace", &plan.trace)] {
        path.as_deref().map_or(Ok(()), |path| part::probe(field, path))?;
    }
    are_apart(plan, &*io.table)?;
    let folder = plan.output.as_ref().map(|output| folder(&output.path));
    Ok(Local { io, sink, identity, endpoint, scratch, slabs: Slabs::default(), folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that stopped may leave a file whose length is on the disk, and not its bytes.
    #[test]
    fn a_hole_takes_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        assert_eq!(allocated(&path), 0);
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().sync_all().unwrap();
        let whole = allocated(&path);
        assert!(whole >= 1 << 20);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(allocated(&path) < 2 * whole, "{} bytes", allocated(&path));
    }
}
