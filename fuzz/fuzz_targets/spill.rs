//! Buckets of records that stand in a file behind an index.
#![no_main]

use std::io;
use std::path::Path;
use std::sync::Arc;
use vesica_fuzz::tables::refused;
use vesica_table::{ReadAt, Spilled};

struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let from =
            usize::try_from(offset).ok().and_then(|from| self.0.get(from..)).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[buckets, record, index], file)) = bytes.split_first_chunk() else { return };
    let (buckets, record) = (usize::from(buckets % 64) + 1, usize::from(record % 48) + 1);
    let file = Arc::new(Bytes(file.to_vec()));
    let placed = Spilled::placed(file, Path::new("units"), index.into(), buckets, record);
    let Some(spilled) = refused(placed) else { return };
    assert_eq!(spilled.buckets(), buckets);
    for bucket in 0..buckets {
        let read = refused(spilled.read(bucket));
        assert!(read.is_none_or(|read| read.len() == spilled.len(bucket) * record));
        let blocks: Result<Vec<_>, _> = spilled.blocks(bucket, 7).collect();
        assert!(refused(blocks).is_none_or(|blocks| blocks.concat().len() == spilled.len(bucket) * record));
    }
});
