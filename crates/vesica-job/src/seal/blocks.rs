//! A file of sealed blocks that is written once, and read at any place afterwards.
//!
//! Behind the front ([`key`](crate::seal::key)) stands one text in blocks of [`BLOCK`] bytes, of which the last may be
//! shorter. Each is sealed under its number. The key is bound to a run, so the file is of use to that run alone.

use crate::disk::{Disk, DiskFile};
use crate::error::JobError;
use crate::seal::file::failed;
use crate::seal::key::{Front, Opener, Sealer, Secret, TAG, magic};
use crate::tell::control::Control;
use std::io;
use std::path::{Path, PathBuf};
use vesica_table::ReadAt;

/// Bytes of the text in a block.
pub const BLOCK: usize = 1 << 16;

/// The same as it is sealed.
const SEALED: usize = BLOCK + TAG;

/// The writing end: takes the text, writes blocks.
pub struct Writer<'a> {
    path: PathBuf,
    ctl: &'a Control,
    disk: &'a dyn Disk,
    file: Box<dyn DiskFile>,
    sealer: Sealer,
    block: Vec<u8>,
    /// Bytes of the text that was taken.
    taken: u64,
}

impl<'a> Writer<'a> {
    /// A new file at `path`, of which only the front is written. It is of use to the run that is called `run`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn create(
        disk: &'a dyn Disk,
        path: &Path,
        kind: &[u8; 15],
        secret: &Secret,
        run: &[u8],
        ctl: &'a Control,
    ) -> Result<Self, JobError> {
        let magic = magic(kind, secret.is_secret());
        let (sealer, random) = Sealer::new(secret, &magic, run, 0)?;
        let front = Front { magic, random }.to_bytes();
        let begin = || -> io::Result<Box<dyn DiskFile>> {
            let mut file = disk.open(path)?;
            file.cut(0)?;
            file.write_all(&front)?;
            Ok(file)
        };
        let file = begin().map_err(failed("cannot write", path))?;
        Ok(Self { path: path.into(), ctl, disk, file, sealer, block: Vec::with_capacity(SEALED), taken: 0 })
    }

    /// Bytes of the text so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Goes on with the text.
    ///
    /// # Errors
    /// Those of writing; being cancelled.
    pub fn write(&mut self, mut text: &[u8]) -> Result<(), JobError> {
        self.taken += text.len() as u64;
        while !text.is_empty() {
            let (now, rest) = text.split_at(text.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            text = rest;
            if self.block.len() == BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// The text is at its end. The file is not synced: a process that is killed leaves it whole, and a machine that stops may leave a part,
    /// which shows. This is for what can be made again: to wait for the disk would cost more than the writing.
    ///
    /// # Errors
    /// Those of writing; being cancelled.
    pub fn leave(mut self) -> Result<(), JobError> {
        self.end()
    }

    /// The text is at its end. On return the file is there for good.
    ///
    /// # Errors
    /// Those of writing; being cancelled.
    pub fn finish(mut self) -> Result<(), JobError> {
        self.end()?;
        let synced = self.file.sync().and_then(|()| self.disk.sync_name(&self.path));
        synced.map_err(failed("cannot write", &self.path))
    }

    /// Writes the last block.
    fn end(&mut self) -> Result<(), JobError> {
        if self.block.is_empty() { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), JobError> {
        self.ctl.check()?;
        let written = self.sealer.seal(&mut self.block).and_then(|()| self.file.write_all(&self.block));
        written.map_err(failed("cannot write", &self.path))?;
        self.block.clear();
        Ok(())
    }
}

/// The reading end.
pub struct Blocks {
    file: Box<dyn DiskFile>,
    opener: Opener,
    /// How many there are.
    count: u64,
    /// Bytes of the text.
    len: u64,
}

impl Blocks {
    /// The file at `path`, its blocks unread; none if there is none that could be of this kind. The arguments are those
    /// that it was created with.
    pub fn open(disk: &dyn Disk, path: &Path, kind: &[u8; 15], secret: &Secret, run: &[u8]) -> Option<Self> {
        let mut file = disk.read(path).ok()?;
        let mut front = [0; Front::BYTES];
        file.read_exact(&mut front).ok()?;
        let Front { magic: begin, random } = Front::from_bytes(&front);
        let sealed = file.size().ok()?.checked_sub(Front::BYTES as u64)?;
        let count = sealed.div_ceil(SEALED as u64);
        let len = sealed.checked_sub(TAG as u64 * count)?;
        let opener = Opener::new(secret, &begin, run, &random);
        (begin == magic(kind, secret.is_secret())).then_some(Self { file, opener, count, len })
    }

    /// Bytes of the text.
    pub fn text_len(&self) -> u64 {
        self.len
    }

    /// Whether every block is as it was sealed. That the last of them is the last that was written shows in the text
    /// alone.
    ///
    /// # Errors
    /// [`vesica_session::Error::Cancelled`].
    pub fn are_whole(&self, ctl: &Control) -> Result<bool, JobError> {
        let mut sealed = Vec::new();
        for number in 0..self.count {
            ctl.check()?;
            if self.block(number, &mut sealed).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The text of a block.
    fn block<'a>(&self, number: u64, sealed: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let left = self.len.saturating_sub(number * BLOCK as u64).min(BLOCK as u64);
        if left == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sealed.resize(left as usize + TAG, 0);
        self.file.read_exact_at(sealed, Front::BYTES as u64 + number * SEALED as u64)?;
        let text = self.opener.open(number, sealed);
        text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it was damaged while in use"))
    }
}

impl ReadAt for Blocks {
    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        let mut sealed = Vec::new();
        while !bytes.is_empty() {
            let text = self.block(offset / BLOCK as u64, &mut sealed)?;
            let text = text.get((offset % BLOCK as u64) as usize..).filter(|text| !text.is_empty());
            let text = text.ok_or(io::ErrorKind::UnexpectedEof)?;
            let (now, rest) = bytes.split_at_mut(text.len().min(bytes.len()));
            now.copy_from_slice(&text[..now.len()]);
            offset += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Files;
    use crate::frail::Frail;
    use crate::seal::key::Given;
    use std::fs;
    use vesica_session::Error;

    const KIND: &[u8; 15] = b"vesica units 9\n";

    /// A text of three blocks and a bit.
    fn text() -> Vec<u8> {
        (0..3 * BLOCK as u64 + 100).map(|i| (i * i / 251) as u8).collect()
    }

    fn secret() -> Secret {
        Given::Nothing.secret(&[1; 32])
    }

    /// The file at `path` of [`text`], handed over in pieces.
    fn written(path: &Path) -> Vec<u8> {
        let (ctl, text) = (Control::new(()), text());
        let mut out = Writer::create(&Files, path, KIND, &secret(), b"run", &ctl).unwrap();
        text.chunks(40_000).for_each(|piece| out.write(piece).unwrap());
        assert_eq!(out.taken(), text.len() as u64);
        out.finish().unwrap();
        fs::read(path).unwrap()
    }

    fn blocks(path: &Path) -> Option<Blocks> {
        Blocks::open(&Files, path, KIND, &secret(), b"run")
    }

    fn are_whole(blocks: Option<Blocks>) -> bool {
        blocks.is_some_and(|blocks| blocks.are_whole(&Control::new(())).unwrap())
    }

    #[test]
    fn a_text_is_read_at_any_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let (file, text) = (written(&path), text());
        assert_eq!(file.len(), Front::BYTES + text.len() + 4 * TAG);
        let blocks = blocks(&path).unwrap();
        assert_eq!(blocks.text_len(), text.len() as u64);
        for (from, to) in
            [(0, 5), (BLOCK - 3, BLOCK + 3), (10, 3 * BLOCK + 1), (0, text.len()), (text.len(), text.len())]
        {
            let mut bytes = vec![0; to - from];
            blocks.read_exact_at(&mut bytes, from as u64).unwrap();
            assert!(bytes == text[from..to], "{from}..{to}");
        }
        let behind = blocks.read_exact_at(&mut [0; 2], text.len() as u64 - 1).unwrap_err();
        assert_eq!(behind.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_finished_is_there_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let ((_, disk), ctl) = (Frail::world(1000), Control::new(()));
        let write = |name: &str| {
            let path = dir.path().join(name);
            let mut out = Writer::create(&*disk, &path, KIND, &secret(), b"run", &ctl).unwrap();
            out.write(&text()).unwrap();
            (path, out)
        };
        let (path, out) = write("finished");
        out.finish().unwrap();
        assert!(disk.is_for_good(&path));
        let (path, out) = write("left");
        out.leave().unwrap();
        assert!(!disk.is_synced(&path));
    }

    #[test]
    fn no_byte_can_be_changed_and_no_block_moved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let whole = written(&path);
        let is_whole = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            are_whole(blocks(&path))
        };
        for place in (0..100).chain((100..whole.len()).step_by(4999)).chain([whole.len() - 1]) {
            // Between blocks the cut shows in the text alone.
            if place != Front::BYTES {
                assert!(!is_whole(&whole[..place]), "cut at {place}");
            }
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            assert!(!is_whole(&bytes), "another byte at {place}");
        }
        assert!(!is_whole(&[&whole[..], b"more"].concat()));
        let (first, second) = (Front::BYTES..Front::BYTES + SEALED, Front::BYTES + SEALED..Front::BYTES + 2 * SEALED);
        let moved = [&whole[..first.start], &whole[second.clone()], &whole[first], &whole[second.end..]].concat();
        assert!(!is_whole(&moved), "blocks in another order");
        assert!(is_whole(&whole));
    }

    #[test]
    fn a_file_is_of_use_to_its_run_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let open = |kind, secret: &Secret, run| are_whole(Blocks::open(&Files, &path, kind, secret, run));
        assert!(!open(KIND, &secret(), b"run"), "there is no file");
        written(&path);
        assert!(open(KIND, &secret(), b"run"));
        assert!(!open(KIND, &secret(), b"another run"));
        assert!(!open(KIND, &Given::Nothing.secret(&[2; 32]), b"run"), "another ledger");
        assert!(!open(b"vesica units 8\n", &secret(), b"run"), "another format");
        let key = Given::Key(zeroize::Zeroizing::new(vec![3; 32])).secret(&[1; 32]);
        assert!(!open(KIND, &key, b"run"), "another secret");
    }

    #[test]
    fn a_file_written_again_is_sealed_another_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        let (first, second) = (written(&path), written(&path));
        assert!(first[Front::BYTES..][..1000] != second[Front::BYTES..][..1000]);
    }

    #[test]
    fn writing_and_reading_are_stopped_like_all_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        written(&path);
        let ctl = Control::new(());
        ctl.cancel();
        assert!(matches!(blocks(&path).unwrap().are_whole(&ctl), Err(JobError::Session(Error::Cancelled))));
        let mut out = Writer::create(&Files, &path, KIND, &secret(), b"run", &ctl).unwrap();
        assert!(matches!(out.write(&text()), Err(JobError::Session(Error::Cancelled))));
    }
}
