//! Blinding: an element that says nothing of its input, to be multiplied by somebody else's scalar.
//!
//! With G a fixed generator and K = k·G, the *receiver* picks r, sends H(x) + r·G, is sent k·(H(x) + r·G), and takes r·K away:
//! k·H(x) is left. S. Jarecki, H. Krawczyk, J. Xu, "On the (in)security of the Diffie-Hellman oblivious PRF with
//! multiplicative blinding", PKC 2021, eprint 2021/273. The receiver's two multiples are of bases that are the same for a
//! whole run, so they come from tables, for a fraction of what a multiple of H(x) by a secret of its own would take.

use crate::field::Lanes;
use crate::{BadElement, Dst, Group};
use vesica_types::Digest;
use zeroize::Zeroize;

/// A group whose elements are blinded by adding multiples of a generator.
pub trait Blind: Group {
    /// Bytes of an evaluated element as it travels; a blinded one has [`Group::WIRE`].
    ///
    /// Where `WIRE` bytes do not tell an element from its negative, a blinded element may be either, and an evaluated
    /// one says with a bit more which it is *if the blinded one was the one that the evaluator takes it for*: see
    /// the group's own page for what the bit is. So nobody needs a square root but who unblinds.
    const EVALUATED: usize;
    /// A public key K = k·G with its multiples.
    type Key: Send + Sync;
    /// What undoes the blinding of a batch: secret, and wiped when dropped.
    type Blinds: Send;

    /// `k·G`, in `EVALUATED` bytes.
    fn public(k: &Self::Scalar) -> Vec<u8>;

    /// Reads a public key that a peer sent, and makes it ready for [`Blind::unblind`].
    ///
    /// # Errors
    /// If it is not one encoding of an element of the group that is not of small order.
    fn key(public: &[u8]) -> Result<Self::Key, BadElement>;

    /// Appends `H(x) + r·G` of each input, with a fresh secret r for each: elements that are within 2^-80 of uniform over
    /// the group, whatever the inputs. `random` fills what it is given with secret random bytes. Constant time in the
    /// inputs and in r.
    fn blind(dst: &Dst, inputs: &[Digest], random: &mut dyn FnMut(&mut [u8]), wire: &mut Vec<u8>) -> Self::Blinds;

    /// Appends `k·B` of each element B that [`Blind::blind`] made, in `EVALUATED` bytes: constant time in k.
    ///
    /// # Errors
    /// As [`Group::decode`].
    fn evaluate(k: &Self::Scalar, wire: &[u8], coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement>;

    /// Appends `E - r·K` of each element E that a peer evaluated, in `WIRE` bytes: what `Self::hash(dst, inputs).mul(k)`
    /// encodes to. Constant time in r and in the result.
    ///
    /// # Errors
    /// As [`Group::decode`]; a number of elements that is not that of the blinds is an element cut short.
    fn unblind(
        key: &Self::Key,
        blinds: Self::Blinds,
        wire: &[u8],
        coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement>;
}

/// Secret multipliers of a batch, as uniform digits in radix 32; `WORDS` words of [`PER_WORD`] digits for each.
///
/// A digit e in 0..32 stands for the odd number d = 2e - 31, so no digit is zero and sixteen multiples serve a window. With
/// w windows r = Σ d·32^i = 2E + (1 - 32^w), E uniform below 32^w. Modulo an odd order q doubling and adding move nothing
/// together, and E modulo q is within b·(q - b)/(q·32^w) < q/(4·32^w) of uniform, b = 32^w mod q.
pub(crate) struct Digits<const WORDS: usize> {
    len: usize,
    /// Word by word, of eight multipliers each, so that each back end loads its lanes from one place.
    blocks: Vec<[[u64; 8]; WORDS]>,
}

/// Digits in a word. Its topmost four bits are not used.
pub(crate) const PER_WORD: usize = 12;

/// How many multiples a window of a table has: the odd ones below 32.
pub(crate) const MULTIPLES: usize = 16;

impl<const WORDS: usize> Drop for Digits<WORDS> {
    fn drop(&mut self) {
        self.blocks.as_flattened_mut().as_flattened_mut().zeroize();
    }
}

impl<const WORDS: usize> Digits<WORDS> {
    /// `len` fresh multipliers.
    pub(crate) fn draw(len: usize, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut blocks = vec![[[0; 8]; WORDS]; len.div_ceil(8)];
        let mut bytes = zeroize::Zeroizing::new([0; 64]);
        for words in blocks.as_flattened_mut() {
            random(bytes.as_mut());
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        Self { len, blocks }
    }

    /// How many multipliers there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A digit, below 32, of the multipliers of one vector: that of window `window`, in block `block`, part `part`.
    #[inline(always)]
    pub(crate) fn digit<V: Lanes>(&self, (block, part): (usize, usize), window: usize) -> V {
        let word = V::load(&self.blocks[block][window / PER_WORD][part * V::WIDTH..]);
        word.shr(5 * (window % PER_WORD) as u32).and(V::splat(31))
    }
}

/// What a digit takes: the place of its multiple among 1, 3, ..., 31, and the mask of the lanes in which it is negative.
#[inline(always)]
pub(crate) fn signed<V: Lanes>(digit: V) -> (V, V) {
    // 2e - 31 is negative below 16, where 31 - e stands for its negative.
    let negative = digit.shr(4).sub(V::splat(1));
    (digit.xor(negative).and(V::splat(15)), negative)
}
