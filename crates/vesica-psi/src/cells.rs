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
