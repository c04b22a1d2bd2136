//! Mapping files into memory. This folder is the only one of the crate with `unsafe` in it.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A whole file, mapped for reading. Pages come from the disk when they are touched, and the system takes them back when
/// memory is short.
pub(crate) struct Mapping(memmap2::Mmap);

impl Mapping {
    /// Maps `file`, a finished part of a store. The mapping keeps the file after its name is gone.
    ///
    /// # Errors
    /// Those of the system, for instance of a file system that cannot map.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: a mapping is sound while nobody writes the file or cuts it shorter. This program writes a part under
        // another name, renames it once it is whole, and never opens it for writing again; a newer part gets a new file,
        // and a removed one lives until it is unmapped. Another program that writes into a part could make bytes change
        // under a reader, or, if it cuts the file, end this process by SIGBUS. No reference to the bytes is kept across a
        // decision that rests on them: all reads copy integers out and check them, and what is opened is authenticated
        // after it was copied. So changed bytes give wrong answers, and never a wrong place in memory.
        unsafe { memmap2::Mmap::map(file) }.map(Self)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
