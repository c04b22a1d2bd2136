//! A folder out: parts that are cut by what the rows are, or by the files that they come from.

use super::blocks::{Block, Blocks};
use super::{Mould, Parts, Sink};
use crate::error::folder;
use crate::under_way::{self, Begun};
use crate::{Error, Form, Staged, Written};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use vesica_program::on_disk;

/// The first rows of parts: places in the output, and the numbers of the input's files that rows come from there on.
pub(crate) type Cuts = Arc<Mutex<VecDeque<(u64, usize)>>>;

/// Rows on their way to a folder. It stands beside its place, closed to others, and is removed if it is not put there: by the next run, if this
/// process is killed.
pub(super) struct FolderSink {
    mould: Mould,
    place: PathBuf,
    /// The mode that the folder is to have.
    mode: Permissions,
    how: How,
    /// Dropped before the folder: on NFS a file that is open keeps it.
    now: Option<Part>,
    under_way: Begun,
    /// Parts that are finished, their bytes, and the rows that came.
    parts: u64,
    bytes: u64,
    rows: u64,
    /// What [`Sink::allow`] was told.
    allowed: Option<(usize, usize)>,
}

/// How rows are cut into parts.
enum How {
    /// A part ends with the block of rows with which its values take so many bytes.
    Bytes(u64, Blocks),
    /// A part for each file of the input that rows come from, called as these are; and the one whose rows come now.
    Files(Vec<PathBuf>, Cuts, Option<usize>),
}

/// The part that is being filled.
struct Part {
    sink: Box<dyn Sink>,
    /// What its values take so far.
    bytes: u64,
}

impl FolderSink {
    /// Begins a folder that is to stand at `place`, where there is none yet or an empty one. `files` are the names of the input's files.
    pub(super) fn open(mould: Mould, place: PathBuf, parts: Parts, files: Vec<PathBuf>) -> Result<Self, Error> {
        let writing = |e| Error::writing(&place, e);
        let (under_way, usual) = under_way::folder(&folder(&place)).map_err(writing)?;
        let mode = fs::metadata(&place).map_or(usual, |meta| meta.permissions());
        let how = match parts {
            Parts::Bytes(bytes) => How::Bytes(bytes.max(1), Blocks::default()),
            Parts::Files => How::Files(files, Cuts::default(), None),
        };
        let (now, parts, bytes, rows, allowed) = (None, 0, 0, 0, None);
        let mut sink = Self { mould, place, mode, how, now, under_way, parts, bytes, rows, allowed };
        // What cannot be written is known before the first row.
        sink.now = Some(sink.part()?);
        Ok(sink)
    }

    /// Begins the next part.
    fn part(&self) -> Result<Part, Error> {
        let ending = self.mould.ending();
        let name = match &self.how {
            How::Files(files, _, Some(file)) => {
                let name = files.get(*file).map_or("".into(), |name| name.to_string_lossy());
                // The names of files have 255 bytes at most.
                let end = name.floor_char_boundary(200);
                format!("{file:06}-{}.{ending}", &name[..end])
            }
            _ => format!("part-{:06}.{ending}", self.parts),
        };
        self.is_there()?;
        let mut sink = self.mould.open(Some(self.under_way.path().join(name)))?;
        self.allowed.inspect(|(workers, memory)| sink.allow(*workers, *memory));
        Ok(Part { sink, bytes: 0 })
    }

    /// Fails if the path calls another folder than the one that was begun.
    fn is_there(&self) -> Result<(), Error> {
        self.under_way.is_there().map_err(|e| Error::writing(&self.place, e))
    }

    /// Ends the part under way, if there is one.
    fn end(&mut self) -> Result<(), Error> {
        if let Some(part) = self.now.take() {
            let part = part.sink.finish()?;
            // It gets its name by the path: in another folder that is called so by now it would take the place of a part.
            self.is_there()?;
            self.bytes += part.commit()?.bytes;
            self.parts += 1;
        }
        Ok(())
    }

    /// Writes rows to the part under way.
    fn put(&mut self, batch: &RecordBatch) -> Result<&mut Part, Error> {
        let part = match self.now.take() {
            Some(part) => part,
            None => self.part()?,
        };
        let part = self.now.insert(part);
        part.sink.write(batch)?;
        Ok(part)
    }

    fn put_block(&mut self, block: Block, most: u64) -> Result<(), Error> {
        for piece in &block.pieces {
            self.put(piece)?;
        }
        let full = self.now.as_mut().is_some_and(|part| {
            part.bytes += block.bytes;
            part.bytes >= most
        });
        if full { self.end() } else { Ok(()) }
    }

    /// Writes the rows of `batch`, each to the part of its file.
    fn put_by_file(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let mut from = 0;
        while from < batch.num_rows() {
            let How::Files(_, cuts, before) = &self.how else { return Err(Error::Bug("rows without files".into())) };
            // The file of the next row, and how many rows come before those of another one.
            let (mut file, mut rows) = (*before, batch.num_rows() - from);
            let mut cuts = cuts.lock().map_err(|_| Error::Bug("a thread that reads has panicked".into()))?;
            while let Some((_, of)) = cuts.front().copied().filter(|(first, _)| *first <= self.rows) {
                file = Some(of);
                cuts.pop_front();
            }
            if let Some((first, _)) = cuts.front() {
                rows = rows.min(usize::try_from(first - self.rows).unwrap_or(usize::MAX));
            }
            drop(cuts);
            if file != *before {
                match before {
                    Some(_) => self.end()?,
                    // Begun to see whether it can be; it has no rows.
                    None => self.now = None,
                }
                if let How::Files(_, _, now) = &mut self.how {
                    *now = file;
                }
            }
            self.put(&batch.slice(from, rows))?;
            self.rows += rows as u64;
            from += rows;
        }
        Ok(())
    }

    /// Puts the folder in its place.
    fn commit(self: Box<Self>) -> Result<Written, Error> {
        // The lock is held until the folder is in its place.
        let Self { place, mode, under_way, parts, bytes, rows, .. } = *self;
        let writing = |e| Error::writing(&place, e);
        whole(&under_way.inside(), &place, parts)?;
        under_way.done(mode).map_err(writing)?;
        // An empty folder gives way. One that has come to hold something meanwhile does not.
        let moved = fs::rename(under_way.path(), &place);
        match (under_way.is_at(&place), moved) {
            // A file system of a network may say of what it has done that it failed.
            (Ok(true), _) => under_way.keep(),
            (_, Err(error)) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                return Err(Error::NotEmpty { path: place.clone() });
            }
            (_, Err(error)) => return Err(writing(error)),
            // Its rows go, wherever it was moved.
            (Ok(false), Ok(())) => {
                let why = "what stands there now is another folder, which somebody moved there while the result was written: see whose it is \
                           before you remove it, and that nobody else writes there";
                return Err(writing(std::io::Error::other(why)));
            }
            (Err(error), Ok(())) => {
                under_way.keep();
                return Err(writing(error));
            }
        }
        // Whoever took some away while it was moved is found out here.
        whole(&place, &place, parts)?;
        on_disk::name(&place).map_err(|e| Error::writing(&folder(&place), e))?;
        Ok(Written { path: place, rows, bytes })
    }
}

impl Sink for FolderSink {
    fn form(&self) -> Form {
        self.mould.form()
    }

    fn schema(&self) -> &SchemaRef {
        &self.mould.schema
    }

    fn allow(&mut self, workers: usize, memory: usize) {
        self.allowed = Some((workers, memory));
        self.now.iter_mut().for_each(|part| part.sink.allow(workers, memory));
    }

    fn cuts(&self) -> Option<Cuts> {
        match &self.how {
            How::Bytes(..) => None,
            How::Files(_, cuts, _) => Some(cuts.clone()),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let How::Bytes(most, blocks) = &mut self.how else { return self.put_by_file(batch) };
        self.rows += batch.num_rows() as u64;
        let (most, mut blocks) = (*most, std::mem::take(blocks));
        blocks.push(batch, |block| self.put_block(block, most))?;
        self.how = How::Bytes(most, blocks);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Staged, Error> {
        if let How::Bytes(most, blocks) = &mut self.how {
            let most = *most;
            if let Some(block) = blocks.rest() {
                self.put_block(block, most)?;
            }
        }
        self.end()?;
        // The other parties are there still, and hear of it.
        whole(&self.under_way.inside(), &self.place, self.parts)?;
        Ok(Staged::new(self.rows, move || self.commit()))
    }
}

/// Fails unless all parts of the output `place` stand in the folder `at`: whoever else can write there could have taken some away. What a file
/// system or a desktop puts there for itself is no part.
fn whole(at: &Path, place: &Path, parts: u64) -> Result<(), Error> {
    let writing = |e| Error::writing(place, e);
    let mut there = 0;
    for entry in fs::read_dir(at).map_err(writing)? {
        there += u64::from(under_way::is_part(&entry.map_err(writing)?.file_name()));
    }
    if there == parts {
        return Ok(());
    }
    let remove = if at == place { ", remove it" } else { "" };
    let why = format!("has {there} of {parts} parts; see that nobody else writes there{remove}, and run again");
    Err(writing(std::io::Error::other(why)))
}
