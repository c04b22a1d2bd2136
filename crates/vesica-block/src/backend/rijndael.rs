//! The rounds of Rijndael with 256-bit blocks, made of rounds of AES.
//!
//! A round of AES on each half of a state does all of a round but one step: it shifts the rows within the half, where Rijndael
//! shifts them across both. So bytes are moved before it to where its own shift brings them to their right places.

use crate::Block;
use aes::cipher::Array;
use aes::hazmat;

/// Round keys in the order in which they are added; those in between are ready for the inverse rounds, if it is to decrypt.
pub(crate) type Keys = [[Block; 2]; 15];

/// Half of a state: four columns.
pub(super) trait Half: Copy {
    fn load(block: &Block) -> Self;
    fn store(self, block: &mut Block);
    fn xor(self, other: Self) -> Self;
    /// Byte i becomes the byte at `places[i]`, or zero where that is [`NONE`].
    fn shuffle(self, places: &[u8; 16]) -> Self;
    /// A round of AES with this key: all of it, or without its columns mixed; or the same of the inverse cipher.
    fn round<const FORWARD: bool, const LAST: bool>(self, key: Self) -> Self;
}

/// No byte, for [`Half::shuffle`].
const NONE: u8 = 0x80;

/// Where the bytes of a half come from before a round of AES: from the half itself, and from the other one.
const fn places(forward: bool) -> [[u8; 16]; 2] {
    const SHIFTS: [usize; 4] = [0, 1, 3, 4];
    let mut places = [[NONE; 16]; 2];
    let mut at = 0;
    while at < 16 {
        let (column, row) = (at / 4, at % 4);
        // The round brings this byte to another column of its half, and Rijndael wants there what is a shift away.
        let from = match forward {
            true => ((column + 4 - row) % 4 + SHIFTS[row]) % 8,
            false => ((column + row) % 4 + 8 - SHIFTS[row]) % 8,
        };
        places[from / 4][at] = (4 * (from % 4) + row) as u8;
        at += 1;
    }
    places
}

/// How many states are under way at once: a round takes three to five cycles.
const DEPTH: usize = 4;

/// Encrypts or decrypts in place.
#[inline(always)]
pub(super) fn rounds<H: Half, const FORWARD: bool>(keys: &Keys, states: &mut [[Block; 2]]) {
    let (deep, rest) = states.as_chunks_mut::<DEPTH>();
    deep.iter_mut().for_each(|states| batch::<H, FORWARD, DEPTH>(keys, states));
    rest.iter_mut().for_each(|state| batch::<H, FORWARD, 1>(keys, std::array::from_mut(state)));
}

#[inline(always)]
fn batch<H: Half, const FORWARD: bool, const N: usize>(keys: &Keys, states: &mut [[Block; 2]; N]) {
    let [own, other] = const { places(FORWARD) };
    let load = |[a, b]: &[Block; 2]| [H::load(a), H::load(b)];
    let [first, middle @ .., last] = keys;
    let [k, l] = load(first);
    let mut x = [[k, l]; N];
    for (x, state) in x.iter_mut().zip(states.iter()) {
        let [a, b] = load(state);
        *x = [a.xor(k), b.xor(l)];
    }
    let moved = |[a, b]: [H; 2]| [a.shuffle(&own).xor(b.shuffle(&other)), b.shuffle(&own).xor(a.shuffle(&other))];
    for key in middle {
        let [k, l] = load(key);
        for x in &mut x {
            let [a, b] = moved(*x);
            *x = [a.round::<FORWARD, false>(k), b.round::<FORWARD, false>(l)];
        }
    }
    let [k, l] = load(last);
    for (x, [low, high]) in x.into_iter().zip(states) {
        let [a, b] = moved(x);
        a.round::<FORWARD, true>(k).store(low);
        b.round::<FORWARD, true>(l).store(high);
    }
}

/// The round keys of the cipher, and those of its inverse ("equivalent inverse cipher", section 5.3 of FIPS 197).
pub(crate) fn expand(key: &[u8; 32]) -> [Keys; 2] {
    let mut words = [[0; 4]; 120];
    words[..8].copy_from_slice(key.as_chunks().0);
    let mut constant: u8 = 1;
    for i in 8..words.len() {
        let mut word = words[i - 1];
        if i % 8 == 0 {
            word.rotate_left(1);
            word = substitute(word);
            word[0] ^= constant;
            constant = constant << 1 ^ if constant >> 7 == 1 { 0x1b } else { 0 };
        } else if i % 8 == 4 {
            word = substitute(word);
        }
        words[i] = std::array::from_fn(|row| words[i - 8][row] ^ word[row]);
    }
    let mut encrypt = [[Block::ZERO; 2]; 15];
    for (half, words) in encrypt.as_flattened_mut().iter_mut().zip(words.as_chunks::<4>().0) {
        *half = Block::from_le_bytes(*words.as_flattened().first_chunk().expect("four words"));
    }
    let mut decrypt = encrypt;
    decrypt.reverse();
    for half in decrypt[1..14].as_flattened_mut() {
        *half = portable(*half, hazmat::inv_mix_columns);
    }
    [encrypt, decrypt]
}

/// The S-box of each byte: in a block of equal columns, no row is changed by its shift.
fn substitute(word: [u8; 4]) -> [u8; 4] {
    let mut block = Array([word; 4].as_flattened().try_into().expect("16 bytes"));
    hazmat::cipher_round(&mut block, &Array([0; 16]));
    hazmat::inv_mix_columns(&mut block);
    *block.0.first_chunk().expect("16 bytes")
}

#[inline(always)]
fn portable(block: Block, change: impl FnOnce(&mut aes::Block)) -> Block {
    let mut bytes = Array(block.to_le_bytes());
    change(&mut bytes);
    Block::from_le_bytes(bytes.0)
}

/// By the `aes` crate, on any CPU: the CPU's instructions where the crate knows them, else bit-sliced without tables.
impl Half for Block {
    #[inline(always)]
    fn load(block: &Block) -> Self {
        *block
    }
    #[inline(always)]
    fn store(self, block: &mut Block) {
        *block = self;
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn shuffle(self, places: &[u8; 16]) -> Self {
        let bytes = self.to_le_bytes();
        Block::from_le_bytes(places.map(|place| if place == NONE { 0 } else { bytes[usize::from(place)] }))
    }
    #[inline(always)]
    fn round<const FORWARD: bool, const LAST: bool>(self, key: Self) -> Self {
        portable(self, |block| {
            // The last round does not mix columns: what the round mixed is unmixed.
            let zero = Array([0; 16]);
            match FORWARD {
                true => hazmat::cipher_round(block, &zero),
                false => hazmat::equiv_inv_cipher_round(block, &zero),
            }
            match (FORWARD, LAST) {
                (true, true) => hazmat::inv_mix_columns(block),
                (false, true) => hazmat::mix_columns(block),
                (_, false) => {}
            }
        }) ^ key
    }
}

/// By the CPU's own instructions.
#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{Half, Keys};
    use crate::Block;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    struct Four(__m128i);

    // SAFETY of every block below: the function that this module shows runs only through a `Ready` of a back end that has
    // these instructions, and all other code is called by it.
    macro_rules! intrinsic {
        ($call:expr) => {{
            // SAFETY: see above: through a `Ready` only.
            unsafe { $call }
        }};
    }

    pub(in crate::backend) fn rounds<const FORWARD: bool>(keys: &Keys, states: &mut [[Block; 2]]) {
        #[target_feature(enable = "avx2,aes,pclmulqdq")]
        unsafe fn enter<const FORWARD: bool>(keys: &Keys, states: &mut [[Block; 2]]) {
            super::rounds::<Four, FORWARD>(keys, states);
        }
        intrinsic!(enter::<FORWARD>(keys, states));
    }

    impl Half for Four {
        #[inline(always)]
        fn load(block: &Block) -> Self {
            // The pointer is to an initialised block.
            Self(intrinsic!(_mm_loadu_si128(std::ptr::from_ref(block).cast())))
        }
        #[inline(always)]
        fn store(self, block: &mut Block) {
            // The pointer is to a block that is borrowed mutably.
            intrinsic!(_mm_storeu_si128(std::ptr::from_mut(block).cast(), self.0));
        }
        #[inline(always)]
        fn xor(self, other: Self) -> Self {
            Self(intrinsic!(_mm_xor_si128(self.0, other.0)))
        }
        #[inline(always)]
        fn shuffle(self, places: &[u8; 16]) -> Self {
            // The pointer is to 16 initialised bytes.
            Self(intrinsic!(_mm_shuffle_epi8(self.0, _mm_loadu_si128(places.as_ptr().cast()))))
        }
        #[inline(always)]
        fn round<const FORWARD: bool, const LAST: bool>(self, key: Self) -> Self {
            Self(intrinsic!(match (FORWARD, LAST) {
                (true, false) => _mm_aesenc_si128(self.0, key.0),
                (true, true) => _mm_aesenclast_si128(self.0, key.0),
                (false, false) => _mm_aesdec_si128(self.0, key.0),
                (false, true) => _mm_aesdeclast_si128(self.0, key.0),
            }))
        }
    }
}
