//! What each functionality must give, in the plainest terms: the oracles of this crate's tests and of its callers'.

use vesica_block::{Block, gf64, gf128};

/// OT: of each pair, what the receiver chose.
pub fn chosen(pairs: &[[Block; 2]], choices: &[bool]) -> Vec<Block> {
    pairs.iter().zip(choices).map(|(pair, &choice)| pair[usize::from(choice)]).collect()
}

/// Correlated OT: the sender's w for the receiver's bits u and blocks v: w_j = v_j + u_j·Δ.
pub fn correlated(delta: Block, u: &[bool], v: &[Block]) -> Vec<Block> {
    u.iter().zip(v).map(|(&u, &v)| if u { v ^ delta } else { v }).collect()
}

/// VOLE over B = GF(2^128): the receiver's c for the sender's Δ, b and the receiver's a: c_j = a_j·Δ + b_j.
pub fn vole(delta: Block, a: &[Block], b: &[Block]) -> Vec<Block> {
    a.iter().zip(b).map(|(&a, &b)| gf128::mul(a, delta) ^ b).collect()
}

/// VOLE over B = GF(2^64), in the field of [`vesica_block::gf64`].
pub fn vole64(delta: Block, a: &[u64], b: &[Block]) -> Vec<Block> {
    a.iter().zip(b).map(|(&a, &b)| gf64::scale(delta, a) ^ b).collect()
}

/// Whether no block occurs twice, as is true of random ones.
pub fn all_differ(blocks: &[Block]) -> bool {
    let mut sorted = blocks.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// The rank over GF(2) of the blocks as rows of 128 bits: 128 for 200 random ones, but with probability 2^-72.
pub fn rank(blocks: &[Block]) -> usize {
    let mut pivots = [0u128; 128];
    for &Block(mut row) in blocks {
        while row != 0 {
            let top = 127 - row.leading_zeros() as usize;
            if pivots[top] == 0 {
                pivots[top] = row;
                break;
            }
            row ^= pivots[top];
        }
    }
    pivots.iter().filter(|&&pivot| pivot != 0).count()
}
