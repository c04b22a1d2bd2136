//! `expand_message_xmd` of RFC 9380, section 5.3.1, with SHA-256, for inputs of one length: the layout is made once, and the compression
//! function is `sha2`'s, which uses the CPU's SHA instructions: they beat eight lanes of general ones.

use crate::Dst;
use crate::hash_to_curve::Inputs;
use sha2::block_api::compress256;

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Bytes of output: two field elements of 48 each.
const LEN: usize = 96;

/// The initial value of SHA-256 (FIPS 180-4, section 5.3.3).
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The messages that an expansion to 96 bytes hashes, but for what depends on the input.
pub(crate) struct Messages<'a> {
    inputs: Inputs<'a>,
    /// The state after the block of zeros.
    zeros: [u32; 8],
    /// What is hashed after it, with room for the input at the start, padded.
    first: Vec<[u8; BLOCK]>,
    /// What is hashed for b_1, b_2 and b_3, with room for a hash at the start, padded.
    next: [Vec<[u8; BLOCK]>; 3],
}

impl<'a> Messages<'a> {
    pub(crate) fn new(dst: &Dst, inputs: Inputs<'a>) -> Self {
        let mut zeros = INITIAL;
        compress256(&mut zeros, &[[0; BLOCK]]);
        let first = padded(&[&vec![0; inputs.each()], &[0, LEN as u8, 0], dst.prime()], BLOCK);
        let next = [1, 2, 3].map(|i| padded(&[&[0; 32], &[i], dst.prime()], 0));
        Self { inputs, zeros, first, next }
    }

    /// The 96 bytes that an input expands to.
    pub(crate) fn expand(&mut self, index: usize) -> [u8; LEN] {
        let mut state = self.zeros;
        self.first.as_flattened_mut()[..self.inputs.each()].copy_from_slice(self.inputs.at(index));
        compress256(&mut state, &self.first);
        let b0 = bytes(state);
        let mut own = b0;
        let mut out = [0; LEN];
        for (message, out) in self.next.iter_mut().zip(out.as_chunks_mut::<32>().0) {
            message[0][..32].copy_from_slice(&own);
            let mut state = INITIAL;
            compress256(&mut state, message);
            *out = bytes(state);
            own = std::array::from_fn(|i| b0[i] ^ out[i]);
        }
        out
    }
}

fn bytes(state: [u32; 8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    out
}

/// A message's end with the padding of FIPS 180-4, section 5.1.1; `before` bytes come before it.
fn padded(parts: &[&[u8]], before: usize) -> Vec<[u8; BLOCK]> {
    let mut message = parts.concat();
    let bits = 8 * (before + message.len()) as u64;
    message.push(0x80);
    while message.len() % BLOCK != BLOCK - 8 {
        message.push(0);
    }
    message.extend(bits.to_be_bytes());
    message.as_chunks().0.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_to_curve::expand_message_xmd;

    #[test]
    fn agrees_with_the_specification_for_every_length_of_tag() {
        let bytes: Vec<u8> = (0..255u8).collect();
        for len in 1..=Dst::MAX {
            let dst = Dst::new(&vec![b'a' + (len % 26) as u8; len]);
            for each in [1, 16, 17, 32, 63, 64, 65] {
                let inputs = Inputs::Bytes(&bytes[..3 * each], each);
                let mut messages = Messages::new(&dst, inputs);
                for i in 0..inputs.len() {
                    let want = expand_message_xmd::<sha2::Sha256>(&[inputs.at(i)], &dst, LEN);
                    assert_eq!(messages.expand(i)[..], want);
                }
            }
        }
    }
}
