//! CBC-MAC of short texts by the batch, with AES-128.
//!
//! A text stands behind a head, the same as in [`keyed_texts`](crate::blake::keyed_texts), which says how long it is. So no message
//! begins with another one whole, and of such messages CBC-MAC is a pseudorandom function: Petrank, Rackoff, "CBC MAC for
//! real-time data sources", Journal of Cryptology 13 (2000). Bellare, Pietrzak, Rogaway, "Improved security analyses for CBC MACs",
//! CRYPTO 2005: with q messages of at most four blocks nobody tells it from random with more than about 50·q²/2^128.

use crate::Block;
use crate::aes::Aes128;
use crate::blake::Texts;

/// Texts that are worked on together: they and their values stay in the first-level cache.
const TOGETHER: usize = 128;

/// Blocks of the longest message.
const BLOCKS: usize = 4;

/// The value of each of the texts at `places` under the key of `aes`. `values` may have more room than there are places.
///
/// # Panics
/// If it has less; for a text that is not there, or is longer than [`Texts::LONGEST`].
pub fn texts(aes: &Aes128, tag: u8, texts: Texts<'_>, places: &[u32], values: &mut [Block]) {
    let values = &mut values[..places.len()];
    let (mut messages, mut lens) = ([[Block::ZERO; BLOCKS]; TOGETHER], [0; TOGETHER]);
    let (mut chained, mut of) = ([Block::ZERO; TOGETHER], [0; TOGETHER]);
    for (places, values) in places.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
        let (mut least, mut most) = (BLOCKS, 0);
        for (i, &place) in places.iter().enumerate() {
            let (message, bytes) = texts.message(tag, place as usize);
            lens[i] = bytes.div_ceil(Block::BYTES);
            (least, most) = (least.min(lens[i]), most.max(lens[i]));
            let (words, _) = message.as_chunks::<4>();
            messages[i] = std::array::from_fn(|block| Block(words[block].iter().rev().fold(0, push)));
            values[i] = messages[i][0];
        }
        aes.encrypt_in_place(values);
        for block in 1..most {
            if block < least {
                values.iter_mut().zip(&messages).for_each(|(value, message)| *value ^= message[block]);
                aes.encrypt_in_place(values);
                continue;
            }
            let mut some = 0;
            for i in (0..values.len()).filter(|&i| lens[i] > block) {
                (chained[some], of[some]) = (values[i] ^ messages[i][block], i);
                some += 1;
            }
            aes.encrypt_in_place(&mut chained[..some]);
            of[..some].iter().zip(&chained).for_each(|(&i, value)| values[i] = *value);
        }
    }
}

/// A word in front of others.
#[inline(always)]
fn push(words: u128, word: &u32) -> u128 {
    words << 32 | u128::from(*word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CBC-MAC by its definition.
    fn defined(aes: &Aes128, tag: u8, text: &[u8]) -> Block {
        let mut message = vec![tag];
        message.extend((text.len() as u64).to_le_bytes());
        message.extend(text);
        message.resize(message.len().next_multiple_of(16), 0);
        let (blocks, _) = message.as_chunks::<16>();
        blocks.iter().fold(Block::ZERO, |value, block| aes.encrypt(value ^ Block::from_le_bytes(*block)))
    }

    #[test]
    fn values_are_those_of_the_definition_whatever_is_worked_on_together() {
        let aes = Aes128::new(Block(0x0123_4567_89ab_cdef_u128 << 40));
        let longest = Texts::LONGEST;
        let mixed: Vec<usize> = (0..300).map(|i| i * 31 % (longest + 1)).collect();
        for lens in [vec![], vec![0], vec![longest], vec![18; 200], (0..=longest).collect(), mixed] {
            let mut offsets = vec![0i32];
            lens.iter().for_each(|&len| offsets.push(offsets[offsets.len() - 1] + len as i32));
            let bytes: Vec<u8> = (0..offsets[lens.len()]).map(|i| (i.wrapping_mul(37) >> 2) as u8).collect();
            // Every other text, from the last one on.
            let places: Vec<u32> = (0..lens.len() as u32).rev().step_by(2).collect();
            let mut values = vec![Block::ZERO; places.len() + 1];
            texts(&aes, 7, Texts::new(&bytes, &offsets), &places, &mut values);
            for (&place, value) in places.iter().zip(&values) {
                let (from, to) = (offsets[place as usize] as usize, offsets[place as usize + 1] as usize);
                assert_eq!(*value, defined(&aes, 7, &bytes[from..to]), "{place} of {} texts", lens.len());
            }
        }
    }
}
