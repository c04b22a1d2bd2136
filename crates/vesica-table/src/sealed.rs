use crate::disk::ReadAt;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes of the file that one nonce covers: well within what ChaCha20's counter of 2^32 blocks can count.
const SPAN: u64 = 64 << 31;

/// A file without a name, for its owner alone, and of no use even to whoever gets at the disk: its bytes are masked by
/// ChaCha20 under a key of its own that is never written. It is gone when it is dropped, however the program ends.
///
/// No byte may be written twice, for the mask depends on its place alone.
pub(crate) struct Sealed {
    file: File,
    key: Zeroizing<[u8; 32]>,
}

impl Sealed {
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *key).map_err(io::Error::other)?;
        let file = tempfile::tempfile_in(dir)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Self { file, key })
    }

    /// Writes `bytes` at `offset`, and leaves them masked.
    pub(crate) fn write_all_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.mask(bytes, offset);
        self.file.write_all_at(bytes, offset)
    }

    /// One on a disk without room.
    #[cfg(test)]
    pub(crate) fn full() -> Self {
        Self { file: File::options().write(true).open("/dev/full").unwrap(), key: Zeroizing::new([0; 32]) }
    }

    fn mask(&self, mut bytes: &mut [u8], mut offset: u64) {
        while !bytes.is_empty() {
            let within = offset % SPAN;
            let n = (SPAN - within).min(bytes.len() as u64);
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&(offset / SPAN).to_le_bytes());
            let mut cipher = ChaCha20::new((&*self.key).into(), (&nonce).into());
            cipher.seek(within);
            let (now, rest) = bytes.split_at_mut(n as usize);
            cipher.apply_keystream(now);
            bytes = rest;
            offset += n;
        }
    }
}

impl ReadAt for Sealed {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)?;
        self.mask(bytes, offset);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_is_written_comes_back_from_any_place_and_does_not_stand_there() {
        let dir = tempfile::tempdir().unwrap();
        let sealed = Sealed::new(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
        assert_eq!(sealed.file.metadata().unwrap().mode() & 0o777, 0o600);
        let text: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
        // Across the end of a nonce's span too; the file is sparse.
        for base in [0, SPAN - 2001] {
            for (i, part) in text.chunks(300).enumerate() {
                sealed.write_all_at(&mut part.to_vec(), base + 300 * i as u64).unwrap();
            }
            for (from, to) in [(0, 4000), (1, 2), (63, 130), (1999, 2050), (3999, 4000)] {
                let mut bytes = vec![0; to - from];
                sealed.read_exact_at(&mut bytes, base + from as u64).unwrap();
                assert_eq!(bytes, text[from..to]);
            }
            let mut raw = vec![0; 4000];
            sealed.file.read_exact_at(&mut raw, base).unwrap();
            let same = raw.iter().zip(&text).filter(|(a, b)| a == b).count();
            assert!(same < 100, "{same} of 4000 bytes are as they were");
        }
        let other = Sealed::new(dir.path()).unwrap();
        assert_ne!(*other.key, *sealed.key);
    }
}
