//! What functions from folded transfers do with rows: move them by a word's part of Δ, and hash them.

use vesica_block::blake;
use vesica_block::{Block, Row};
use zeroize::Zeroizing;

/// Rows that are hashed at once.
const HASHED: usize = 128;

/// Adds word ∘ Δ to a row: Δ's four bits at each place where the word has a one. The row has four planes of W words, as
/// `vesica_ot::folded` makes them.
#[inline]
pub fn shift<const W: usize, const R: usize>(row: &mut Row<R>, word: &Row<W>, delta: &Row<R>) {
    for (row, delta) in row.0.chunks_exact_mut(W).zip(delta.0.chunks_exact(W)) {
        row.iter_mut().zip(word.0).zip(delta).for_each(|((row, word), delta)| *row ^= word & delta);
    }
}

/// Appends BLAKE3 under `key` of each row and of the bytes that go with it, cut to a block.
pub fn hash<const R: usize, const T: usize>(
    key: &[u8; 32],
    rows: &[Row<R>],
    with: impl ExactSizeIterator<Item = [u8; T]>,
    values: &mut Vec<Block>,
) {
    assert_eq!(rows.len(), with.len(), "bytes for each row");
    let len = Row::<R>::BYTES + T;
    let mut messages = Zeroizing::new(vec![0; HASHED.min(rows.len()) * len]);
    let mut hashes = [[0; 32]; HASHED];
    let mut with = with;
    for rows in rows.chunks(HASHED) {
        for ((message, row), with) in messages.chunks_exact_mut(len).zip(rows).zip(&mut with) {
            let (front, back) = message.split_at_mut(Row::<R>::BYTES);
            row.write_to(front);
            back.copy_from_slice(&with);
        }
        blake::keyed_rows(key, &messages[..rows.len() * len], len, &mut hashes);
        values.extend(hashes[..rows.len()].iter().map(|hash| Block::from_le_bytes(hash.as_chunks().0[0])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_hashed_whole_with_their_bytes() {
        let rows: Vec<Row<12>> = (0..300).map(|n| Row(std::array::from_fn(|i| n << 32 | i as u64))).collect();
        let mut values = Vec::new();
        hash(&[7; 32], &rows, (0..300).map(|n: u32| u64::from(n).to_le_bytes()), &mut values);
        for ((n, row), value) in (0u64..).zip(&rows).zip(&values) {
            let bytes: Vec<u8> = row.0.iter().flat_map(|word| word.to_le_bytes()).chain(n.to_le_bytes()).collect();
            assert_eq!(value.to_le_bytes(), blake3::keyed_hash(&[7; 32], &bytes).as_bytes()[..16]);
        }
        assert_eq!(values.len(), 300);
    }

    #[test]
    fn a_word_moves_a_row_by_what_delta_has_at_its_ones() {
        let mut row = Row([0; 4]);
        shift(&mut row, &Row([0b0110]), &Row([0b0100, 0b0011, 0, u64::MAX]));
        assert_eq!(row, Row([0b0100, 0b0010, 0, 0b0110]));
    }
}
