//! A client's copy of a store, as it comes.
//!
//! The client asks the server for its manifest, opens an [`Incoming`], and asks for the sums and the chunks of each part that is
//! missing. Each chunk is compared with its sum before it is written. If the transfer is cut, the next one goes on behind the
//! last chunk that is whole. The manifest is written when all parts are there, so a copy is always a whole store, new or old.

use crate::chunks::{CHUNK, Sums};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::manifest::{Manifest, Part};
use crate::store::read_manifest;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vesica_program::on_disk;

/// A store that a client copies into a folder.
pub struct Incoming {
    folder: Folder,
    manifest: Manifest,
}

impl Incoming {
    /// Begins or continues to copy the store of `manifest` into `folder`, which it makes if it is not there. The caller has
    /// compared the manifest's offer with the one that it trusts.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process copies into the folder; [`Error::Sent`] if the folder has a newer state of the same
    /// store, for a server that goes back to an older one shows entries again that it removed.
    pub fn open(folder: &Path, manifest: Manifest) -> Result<Self> {
        let folder = Folder::lock(folder)?;
        if let Ok(here) = read_manifest(folder.path())
            && here != manifest
            && here.follows(&manifest)
        {
            let (has, sent) = (here.parts.len(), manifest.parts.len());
            let why = format!("it has {sent} parts, and an earlier one of the same offer had {has}");
            return Err(Error::Sent { what: "a manifest".into(), why });
        }
        Ok(Self { folder, manifest })
    }

    /// What is being copied.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The parts that are not there yet, by number.
    pub fn missing(&self) -> Vec<usize> {
        let missing = |part: &&Part| !self.is_here(part);
        self.manifest.parts.iter().filter(missing).map(|part| part.number).collect()
    }

    /// A part gets its name when all its chunks were checked, so its name and its length say that it is whole. What became of it
    /// on the disk since is for [`crate::Store::verify`] to say.
    fn is_here(&self, part: &Part) -> bool {
        let length = |name: String| fs::metadata(self.folder.path().join(name)).ok().map(|file| file.len());
        length(part.file_name()) == Some(part.bytes) && length(part.sums_name()) == Some(Sums::bytes_of(part.bytes))
    }

    /// Bytes of the sums of part `number`, which the server is asked for before its chunks.
    pub fn sums_bytes(&self, number: usize) -> Option<u64> {
        self.manifest.parts.get(number).map(|part| Sums::bytes_of(part.bytes))
    }

    /// Begins part `number`, or continues it: reads what an earlier transfer left of it, up to the first chunk that is not
    /// whole. `sums` is what the server sent.
    ///
    /// # Errors
    /// [`Error::Sent`] if the sums are not those of the manifest; those of reading and writing.
    pub fn resume(&self, number: usize, sums: Vec<u8>) -> Result<IncomingPart<'_>> {
        let part = self.manifest.parts.get(number);
        let part = part.ok_or_else(|| Error::Bug(format!("part {number} of {}", self.manifest.parts.len())))?;
        let sums = Sums::checked(sums, part.bytes, &part.blake3).ok_or_else(|| Error::Sent {
            what: format!("sums of part {number}"),
            why: "they are not those of its manifest".into(),
        })?;
        let path = self.folder.path().join(part.file_name() + ".partial");
        let options = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = options.map_err(Error::writing(&path))?;
        let here = file.metadata().map_err(Error::reading(&path))?.len();
        let mut incoming = IncomingPart { folder: &self.folder, part, sums, path, file, next: 0 };
        let mut chunk = Vec::new();
        while incoming.next < incoming.chunks() {
            chunk.resize(incoming.chunk_bytes(incoming.next), 0);
            let from = incoming.next * CHUNK as u64;
            if from + chunk.len() as u64 > here {
                break;
            }
            incoming.file.read_exact_at(&mut chunk, from).map_err(Error::reading(&incoming.path))?;
            if !incoming.sums.holds(incoming.next, &chunk) {
                break;
            }
            incoming.next += 1;
        }
        Ok(incoming)
    }

    /// All parts are there: the copy becomes this store. Parts that it does not have are removed.
    ///
    /// # Errors
    /// [`Error::Unfetched`] if a part is missing; those of writing.
    pub fn finish(self) -> Result<()> {
        match self.missing().first() {
            Some(&part) => Err(Error::Unfetched { path: self.folder.path().into(), part }),
            None => self.folder.publish(&self.manifest),
        }
    }
}

/// A part as it comes, chunk by chunk.
pub struct IncomingPart<'a> {
    folder: &'a Folder,
    part: &'a Part,
    sums: Sums,
    path: PathBuf,
    file: File,
    next: u64,
}

impl IncomingPart<'_> {
    /// The number of the chunk to ask for next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The number of chunks of the whole part.
    pub fn chunks(&self) -> u64 {
        self.sums.len()
    }

    /// Bytes of chunk `number`: [`CHUNK`], or what is left for the last one.
    fn chunk_bytes(&self, number: u64) -> usize {
        (self.part.bytes - number * CHUNK as u64).min(CHUNK as u64) as usize
    }

    /// Takes the chunk with the number [`IncomingPart::next`].
    ///
    /// # Errors
    /// [`Error::Sent`] if it is not that chunk; what came before it stays. Those of writing.
    pub fn append(&mut self, chunk: &[u8]) -> Result<()> {
        let number = self.next;
        if number >= self.chunks() || chunk.len() != self.chunk_bytes(number) || !self.sums.holds(number, chunk) {
            let what = format!("chunk {number} of part {}", self.part.number);
            return Err(Error::Sent { what, why: "it is not the one that the manifest names".into() });
        }
        self.file.write_all_at(chunk, number * CHUNK as u64).map_err(Error::writing(&self.path))?;
        self.next += 1;
        Ok(())
    }

    /// All chunks are there: the part gets its name.
    ///
    /// # Errors
    /// [`Error::Unfetched`] if chunks are missing; those of writing.
    pub fn finish(self) -> Result<()> {
        if self.next < self.chunks() {
            return Err(Error::Unfetched { path: self.folder.path().into(), part: self.part.number });
        }
        // What an earlier transfer left may be longer.
        let whole = self.file.set_len(self.part.bytes).and_then(|()| on_disk::contents(&self.file));
        whole.map_err(Error::writing(&self.path))?;
        self.folder.place_bytes(self.sums.bytes(), &self.part.sums_name())?;
        let name = self.folder.path().join(self.part.file_name());
        fs::rename(&self.path, &name).map_err(Error::writing(&name))?;
        self.folder.sync()
    }
}
