//! Parts are checked by the chunk, so that a transfer can be cut anywhere and a wrong byte is found where it is.
//!
//! The BLAKE3 of each chunk of [`CHUNK`] bytes stands in a file beside the part, 32 bytes a chunk. The BLAKE3 of that file stands
//! in the manifest, as the part's root. So whoever has the manifest can check the sums, and whoever has the sums can check each
//! chunk as it comes.

use crate::error::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use vesica_table::InOrder;

/// Bytes of a chunk; the last one of a part may be shorter.
pub const CHUNK: usize = 1 << 20;

/// Bytes of a sum.
const SUM: usize = 32;

/// The sums of a part's chunks.
pub(crate) struct Sums(Vec<u8>);

impl Sums {
    /// Chunks of a part of `bytes` bytes.
    pub(crate) fn chunks_of(bytes: u64) -> u64 {
        bytes.div_ceil(CHUNK as u64)
    }

    /// Bytes of the sums of such a part.
    pub(crate) fn bytes_of(bytes: u64) -> u64 {
        Self::chunks_of(bytes) * SUM as u64
    }

    /// `sums`, if they are those of a part of `bytes` bytes with this root.
    pub(crate) fn checked(sums: Vec<u8>, bytes: u64, root: &[u8; 32]) -> Option<Self> {
        let sums = Self(sums);
        (sums.0.len() as u64 == Self::bytes_of(bytes) && sums.root() == *root).then_some(sums)
    }

    /// The sums of `file`, which errors call `path`, computed by so many threads.
    pub(crate) fn compute(file: Arc<File>, bytes: u64, path: &Path, workers: usize) -> Result<Self> {
        let worker = || {
            let (file, mut chunk) = (file.clone(), Vec::new());
            move |number: u64| {
                let from = number * CHUNK as u64;
                chunk.resize((bytes - from).min(CHUNK as u64) as usize, 0);
                file.read_exact_at(&mut chunk, from).map(|()| *blake3::hash(&chunk).as_bytes())
            }
        };
        let sums = InOrder::new(workers, 0..Self::chunks_of(bytes), worker);
        let sums: std::io::Result<Vec<[u8; SUM]>> = sums.collect();
        sums.map(|sums| Self(sums.into_flattened())).map_err(Error::reading(path))
    }

    pub(crate) fn root(&self) -> [u8; 32] {
        *blake3::hash(&self.0).as_bytes()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        (self.0.len() / SUM) as u64
    }

    /// Whether `chunk` is the one with this number.
    pub(crate) fn holds(&self, number: u64, chunk: &[u8]) -> bool {
        let sum = usize::try_from(number).ok().and_then(|number| self.0.as_chunks::<SUM>().0.get(number));
        sum.is_some_and(|sum| blake3::hash(chunk) == *sum)
    }
}
