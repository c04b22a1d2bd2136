//! What is asked of a disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Bytes that this user may still write in the folder `dir`.
///
/// # Errors
/// Those of `statvfs`, e.g. if `dir` does not exist.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(dir)?;
    #[allow(clippy::useless_conversion)] // these are narrower elsewhere
    Ok(u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())))
}

/// The path that stands for an open file, where the system has `/proc`.
pub(crate) fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Bytes that can be read at any place, from any thread.
pub trait ReadAt: Send + Sync {
    /// Reads the whole of `bytes` from `offset`.
    ///
    /// # Errors
    /// Those of the file behind it, or of its content.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_room_and_none_in_a_folder_that_is_not_there() {
        assert!(free_bytes(&std::env::temp_dir()).unwrap() > 0);
        assert_eq!(free_bytes(Path::new("/no/such/folder")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
