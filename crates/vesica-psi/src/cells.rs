//! Groups of both parties: a cell is a group of R's with one of S's, and a key is in it if it is in both. Part of `circuit`, whose letters these
//! are; semi-honest.
//!
//!   u_i      1 if S's key is in S's group i, a bit    entries        t_{b,i}, m_{b,i}  what R and S have of u_i for bin b (`opprf`)    rows
//!   f_{b,i}  f_b if it is, and else 0, in shares      planes
//!
//! S does not know which key is in a bin, and R does not know in which groups S's keys are. Where the key in bin b is common, u_i = t_{b,i} + m_{b,i}
//! modulo 2, and where it is not, f_b is 0 whatever these are:
//! 3a. f_{b,i} := f_b·(t_{b,i} + m_{b,i}), a product of shared bits, for each of S's groups (`gmw`).
//! 3b. Step 4 is done for each i with f_{b,i} in the place of f_b. What it leaves for a group of R's is of the cell with i.
//! Nothing is opened but what the product of bits opens, under triples.
//!
//! At the end (`groups`) a cell is told or not as a group is. Either party may have a label to tell: R seals that of the cell's group of its own for S,
//! and S that of its own for R, each under a key of the cell. Both give their groups numbers at random.

use crate::gmw::{Made, plane_of, words};
use vesica_oprf::opprf::Rows;
use vesica_session::{Channel, Result, SessionRng, Values};
use zeroize::Zeroizing;

/// The rows of bits that S's keys carry, with fillers up to `keys` of them: in which of so many groups each of them is, under masks that it draws for
/// so many bins. None if there are no groups of S's.
pub fn rows(groups: u32, values: &Values, keys: usize, bins: usize, rng: &mut SessionRng) -> Option<Rows> {
    if groups == 0 {
        return None;
    }
    let mut of_keys = Zeroizing::new(vec![0u64; keys]);
    values.entries().iter().for_each(|&(key, group)| of_keys[key as usize] |= 1u64.wrapping_shl(group));
    let masks = Zeroizing::new((0..bins).map(|_| u64::from_le_bytes(rng.bytes())).collect());
    Some(Rows { bits: groups, of_keys, masks })
}

/// Step 3a: shares of f_{b,i}, those of all bins for one i after the other, each in [`words`]. `rows` has what this party has of each bin's. Where S has
/// no groups they are those of f_b.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn planes(groups: u32, flags: Vec<u64>, rows: &[u64], made: &mut Made, ch: &mut dyn Channel) -> Result<Vec<u64>> {
    if groups == 0 {
        return Ok(flags);
    }
    let mut own = Zeroizing::new(vec![0; groups as usize * flags.len()]);
    own.chunks_exact_mut(flags.len()).enumerate().for_each(|(i, out)| plane_of(rows, i, out));
    made.and(&flags.repeat(groups as usize), &own, ch)
}

/// Words of products that this takes.
pub fn products(groups: u32, bins: usize) -> usize {
    groups as usize * words(bins)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bin has a mask of its own for each group, or R could tell in which of S's groups a common key is.
    #[test]
    fn masks_are_drawn_for_each_bin_and_group() {
        let mut rng = SessionRng::from_seed(Zeroizing::new([7; 32]));
        let values = Values::new(0, vec![(0, 0), (0, 2), (1, 15)], Vec::new()).unwrap();
        let Rows { bits, of_keys, masks } = rows(16, &values, 3, 4096, &mut rng).unwrap();
        assert_eq!((bits, &of_keys[..]), (16, &[0b101, 1 << 15, 0][..]));
        // Eight standard deviations around half of them.
        let near = |ones: usize| (1792..2304).contains(&ones);
        for i in 0..16 {
            assert!(near(masks.iter().filter(|m| *m >> i & 1 == 1).count()));
            // Nor is a group's mask another one's, or that of the next bin.
            assert!((0..i).all(|j| near(masks.iter().filter(|m| (*m >> i ^ *m >> j) & 1 == 1).count())));
            assert!(near(masks.windows(2).filter(|m| (m[0] >> i ^ m[1] >> i) & 1 == 1).count()));
        }
    }
}
