//! Rows, cut into blocks by what the rows are: not by the batches in which they happen to come.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch, StructArray, downcast_primitive_array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;

/// A block ends behind the row with which it has so many rows, or so many bytes.
const BLOCK_ROWS: usize = 8 << 10;
const BLOCK_BYTES: u64 = 4 << 20;

/// Some rows, in the pieces in which they came.
#[derive(Default)]
pub(super) struct Block {
    pub(super) pieces: Vec<RecordBatch>,
    pub(super) rows: usize,
    /// What their values take: the same whatever arrays hold them.
    pub(super) bytes: u64,
}

impl Block {
    fn full(&self) -> bool {
        self.rows >= BLOCK_ROWS || self.bytes >= BLOCK_BYTES
    }

    /// Takes rows from the front of `batch`, whose `sizes` are those of its rows, until it is full; gives the rest.
    fn take(&mut self, batch: &RecordBatch, sizes: &[u64]) -> usize {
        let mut count = 0;
        while count < sizes.len() && !self.full() {
            self.bytes += sizes[count];
            self.rows += 1;
            count += 1;
        }
        if count > 0 {
            self.pieces.push(batch.slice(0, count));
        }
        count
    }
}

/// Rows on their way into blocks.
#[derive(Default)]
pub(super) struct Blocks(Block);

impl Blocks {
    /// Takes the rows of `batch`, and gives `each` the blocks that are full.
    pub(super) fn push<E>(
        &mut self,
        batch: &RecordBatch,
        mut each: impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut sizes = vec![0; batch.num_rows()];
        batch.columns().iter().for_each(|column| add(column, &mut sizes));
        let mut from = 0;
        while from < batch.num_rows() {
            from += self.0.take(&batch.slice(from, batch.num_rows() - from), &sizes[from..]);
            if self.0.full() {
                each(std::mem::take(&mut self.0))?;
            }
        }
        Ok(())
    }

    /// The rows that are left.
    pub(super) fn rest(&mut self) -> Option<Block> {
        Some(std::mem::take(&mut self.0)).filter(|block| block.rows > 0)
    }
}

/// Bytes that stand for the place of a value of no fixed length.
const PLACE: u64 = 4;

/// Adds to each of `sizes` what the value of `array` at its place takes. A null takes as little as nothing.
fn add(array: &ArrayRef, sizes: &mut [u64]) {
    let fixed = |sizes: &mut [u64], bytes: u64| sizes.iter_mut().for_each(|size| *size += bytes);
    if let Some(bytes) = array.data_type().primitive_width() {
        return fixed(sizes, bytes as u64);
    }
    match array.data_type() {
        DataType::Utf8 => lengths(array.as_string::<i32>().offsets(), sizes),
        DataType::LargeUtf8 => lengths(array.as_string::<i64>().offsets(), sizes),
        DataType::Binary => lengths(array.as_binary::<i32>().offsets(), sizes),
        DataType::LargeBinary => lengths(array.as_binary::<i64>().offsets(), sizes),
        // The low half of a view is the length.
        DataType::Utf8View => views(array.as_string_view().views(), sizes),
        DataType::BinaryView => views(array.as_binary_view().views(), sizes),
        DataType::FixedSizeBinary(bytes) => fixed(sizes, *bytes as u64),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let mut values = vec![0; dictionary.values().len()];
            add(dictionary.values(), &mut values);
            let keys = dictionary.keys();
            let key = |i| downcast_primitive_array!(keys => place(keys.value(i)), _ => None);
            for (i, size) in sizes.iter_mut().enumerate().filter(|(i, _)| keys.is_valid(*i)) {
                *size += key(i).and_then(|key| values.get(key)).copied().unwrap_or(0);
            }
        }
        DataType::List(_) => lists(array.as_list::<i32>().offsets(), array.as_list::<i32>().values(), sizes),
        DataType::LargeList(_) => lists(array.as_list::<i64>().offsets(), array.as_list::<i64>().values(), sizes),
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: &StructArray = map.entries();
            let mut values = vec![0; entries.len()];
            entries.columns().iter().for_each(|column| add(column, &mut values));
            summed(map.offsets(), &values, sizes);
        }
        DataType::FixedSizeList(_, len) => {
            let list = array.as_fixed_size_list();
            let mut values = vec![0; list.values().len()];
            add(list.values(), &mut values);
            let len = (*len).max(0) as usize;
            for (i, size) in sizes.iter_mut().enumerate() {
                *size += values[i * len..(i + 1) * len].iter().sum::<u64>();
            }
        }
        DataType::Struct(_) => array.as_struct().columns().iter().for_each(|column| add(column, sizes)),
        // A truth value, a null, and kinds that no Parquet file holds.
        _ => fixed(sizes, 1),
    }
}

fn place<K: arrow_buffer::ArrowNativeType>(key: K) -> Option<usize> {
    key.to_usize()
}

fn lengths<O: OffsetSizeTrait>(ends: &OffsetBuffer<O>, sizes: &mut [u64]) {
    for (size, pair) in sizes.iter_mut().zip(ends.windows(2)) {
        *size += PLACE + (pair[1] - pair[0]).as_usize() as u64;
    }
}

fn views(views: &[u128], sizes: &mut [u64]) {
    sizes.iter_mut().zip(views).for_each(|(size, view)| *size += PLACE + u64::from(*view as u32));
}

fn lists<O: OffsetSizeTrait>(ends: &OffsetBuffer<O>, values: &ArrayRef, sizes: &mut [u64]) {
    let mut of_values = vec![0; values.len()];
    add(values, &mut of_values);
    summed(ends, &of_values, sizes);
}

fn summed<O: OffsetSizeTrait>(ends: &OffsetBuffer<O>, values: &[u64], sizes: &mut [u64]) {
    for (size, pair) in sizes.iter_mut().zip(ends.windows(2)) {
        *size += PLACE + values[pair[0].as_usize()..pair[1].as_usize()].iter().sum::<u64>();
    }
}
