//! The transpose of a bit matrix of 128 rows.

use crate::Block;
use crate::backend::{Kernel, Lanes, Ready};

/// Writes the columns of a matrix of 128 rows and n columns: bit j of `out[i]` is bit i of row j.
///
/// Row j is `rows[j·n/128..][..n/128]`, its bit i the bit i mod 128 of its block i/128. So 128 streams of a pseudorandom
/// generator, one after the other, become n blocks of one bit from each.
///
/// # Panics
/// If the two slices differ in length, or are not a whole number of 128 × 128 bits.
pub fn transpose(rows: &[Block], out: &mut [Block]) {
    transpose_on(Ready::chosen(), rows, out);
}

fn transpose_on(ready: Ready, rows: &[Block], out: &mut [Block]) {
    assert!(rows.len() == out.len() && out.len().is_multiple_of(128), "a matrix of 128 rows and 128·k columns");
    ready.wide(Transpose { rows, out });
}

struct Transpose<'a> {
    rows: &'a [Block],
    out: &'a mut [Block],
}

impl Kernel for Transpose<'_> {
    type Out = ();

    /// As many 128 × 128 matrices at a time as there are lanes.
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let blocks_a_row = self.rows.len() / 128;
        let mut m = [V::ZERO; 128];
        for first in (0..blocks_a_row).step_by(V::WIDTH) {
            let lanes = V::WIDTH.min(blocks_a_row - first);
            for (j, v) in m.iter_mut().enumerate() {
                *v = V::load(&self.rows[j * blocks_a_row + first..][..lanes]);
            }
            square(&mut m);
            let mut columns = [Block::ZERO; 4];
            for (i, v) in m.iter().enumerate() {
                v.store(&mut columns[..lanes]);
                for (lane, &column) in columns[..lanes].iter().enumerate() {
                    self.out[(first + lane) * 128 + i] = column;
                }
            }
        }
    }
}

/// Transposes 128 × 128 bits: exchanges the off-diagonal quarters, and so on in each quarter (Warren, "Hacker's Delight",
/// section 7-3).
#[inline(always)]
fn square<V: Lanes>(m: &mut [V; 128]) {
    for i in 0..64 {
        (m[i], m[i + 64]) = (m[i].low_halves(m[i + 64]), m[i].high_halves(m[i + 64]));
    }
    exchange(m, 32, 0x0000_0000_ffff_ffff);
    exchange(m, 16, 0x0000_ffff_0000_ffff);
    exchange(m, 8, 0x00ff_00ff_00ff_00ff);
    exchange(m, 4, 0x0f0f_0f0f_0f0f_0f0f);
    exchange(m, 2, 0x3333_3333_3333_3333);
    exchange(m, 1, 0x5555_5555_5555_5555);
}

/// Exchanges the high s bits of every 2s in row i with the low s bits of row i + s; `mask` has the low s bits of every 2s.
#[inline(always)]
fn exchange<V: Lanes>(m: &mut [V; 128], s: usize, mask: u64) {
    let mask = V::splat(Block::from_halves(mask, mask));
    for from in (0..128).step_by(2 * s) {
        for i in from..from + s {
            let j = i + s;
            let t = m[i].shr(s as u32).xor(m[j]).and(mask);
            m[i] = m[i].xor(t.shl(s as u32));
            m[j] = m[j].xor(t);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;

    #[test]
    fn every_bit_arrives() {
        for blocks_a_row in [0, 1, 2, 3, 4, 5, 9] {
            let rows = checks::blocks(128 * blocks_a_row, 4);
            for ready in Ready::all() {
                let mut out = vec![Block::ZERO; rows.len()];
                transpose_on(ready, &rows, &mut out);
                for (i, column) in out.iter().enumerate() {
                    for j in 0..128 {
                        let bit = rows[j * blocks_a_row + i / 128].0 >> (i % 128) & 1;
                        assert_eq!(column.0 >> j & 1, bit, "{ready:?}: row {j}, column {i}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "128 rows")]
    fn a_ragged_matrix_is_refused() {
        transpose(&[Block::ZERO; 64], &mut [Block::ZERO; 64]);
    }
}
