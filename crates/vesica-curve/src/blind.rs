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
    /// E = r·K is no error, though no honest evaluator sends it: who sent k·(B - H(x')) would be told by a refusal that x = x'.
    ///
    /// # Errors
    /// As [`Group::decode`]; a missing element, and one too many, are bad. They depend on what was sent alone, never on r or
    /// the inputs.
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
pub struct Digits<const WORDS: usize> {
    len: usize,
    /// Word by word, of eight multipliers each, so that each back end loads its lanes from one place.
    blocks: Vec<[[u64; 8]; WORDS]>,
}

/// Digits in a word. Its topmost four bits are not used.
pub(crate) const PER_WORD: usize = 12;

/// How many multiples a window of a table has: the odd ones below 32.
pub(crate) const MULTIPLES: usize = 16;

/// How many a wide window has: the odd ones below 64. Its digits have six bits, and a word has ten of them.
pub(crate) const WIDE: usize = 32;

/// The bits of a multiplier that name an entry of a window.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    /// The first of them. A word has sixty bits.
    pub(crate) from: usize,
    /// How many there are: up to six, all in one word.
    pub(crate) len: usize,
}

impl Bits {
    /// Those of a wide window, where a multiplier has so many bits: in the topmost window there may be fewer than six.
    ///
    /// The multiplier is the same number in either radix: r = 2E + 1 - 2^bits, for the E that its bits are.
    pub(crate) const fn of(window: usize, bits: usize) -> Self {
        let from = 6 * window;
        Self { from, len: if bits - from < 6 { bits - from } else { 6 } }
    }
}

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

    /// `len` multipliers to be replaced by [`Digits::copy`].
    pub(crate) fn zeros(len: usize) -> Self {
        Self { len, blocks: vec![[[0; 8]; WORDS]; len.div_ceil(8)] }
    }

    /// Replaces the multiplier at `to` by another's at `from`.
    pub(crate) fn copy(&mut self, to: usize, other: &Self, from: usize) {
        for (words, others) in self.blocks[to / 8].iter_mut().zip(&other.blocks[from / 8]) {
            words[to % 8] = others[from % 8];
        }
    }

    /// How many multipliers there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What the multipliers of one vector take from a wide window: the place of the multiple among 1, 3, ..., 63, and the mask of
    /// the lanes in which it is negative. The bits f stand for 2f - (2^len - 1).
    #[inline(always)]
    pub(crate) fn wide<V: Lanes>(&self, (block, part): (usize, usize), bits: Bits) -> (V, V) {
        let word = V::load(&self.blocks[block][bits.from / 60][part * V::WIDTH..]);
        let f = word.shr((bits.from % 60) as u32).and(V::splat((1 << bits.len) - 1));
        // As 2e - 63, which is negative below 32, where 63 - e stands for its negative.
        let e = f.add(V::splat((WIDE - (1 << bits.len) / 2) as u64));
        let negative = e.shr(5).sub(V::splat(1));
        (e.xor(negative).and(V::splat(31)), negative)
    }

    /// A digit, below 32, of the multipliers of one vector: that of window `window`, in block `block`, part `part`.
    #[inline(always)]
    pub(crate) fn digit<V: Lanes>(&self, (block, part): (usize, usize), window: usize) -> V {
        let word = V::load(&self.blocks[block][window / PER_WORD][part * V::WIDTH..]);
        word.shr(5 * (window % PER_WORD) as u32).and(V::splat(31))
    }
}

/// Whether a peer sent as many elements as it was to.
pub(crate) fn match_len(sent: usize, wanted: usize) -> Result<(), BadElement> {
    match sent == wanted {
        true => Ok(()),
        false => Err(BadElement { index: sent.min(wanted), why: "is missing, or one too many" }),
    }
}

/// What a digit takes: the place of its multiple among 1, 3, ..., 31, and the mask of the lanes in which it is negative.
#[inline(always)]
pub(crate) fn signed<V: Lanes>(digit: V) -> (V, V) {
    // 2e - 31 is negative below 16, where 31 - e stands for its negative.
    let negative = digit.shr(4).sub(V::splat(1));
    (digit.xor(negative).and(V::splat(15)), negative)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::backend::{self, Kernel};
    use crate::{Curve25519, FourQ, P256, Points, Ristretto255, Secp256k1, SecretScalar, Sm2};
    use vesica_cpu::Backend;

    /// What the digits stand for, as they are: from the lowest.
    pub(crate) fn digits_of<const WORDS: usize>(digits: &Digits<WORDS>, index: usize, windows: usize) -> Vec<i64> {
        (0..windows)
            .map(|window| {
                let word = digits.blocks[index / 8][window / PER_WORD][index % 8];
                2 * (word >> (5 * (window % PER_WORD)) & 31) as i64 - 31
            })
            .collect()
    }

    /// Index and mask of each digit, in every lane.
    struct Signed;

    impl Kernel for Signed {
        type Out = Vec<[u64; 2]>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Out {
            (0..32)
                .map(|digit| {
                    let (index, negative) = signed(V::splat(digit));
                    [index, negative].map(|word| {
                        let mut lanes = [0; 8];
                        word.store(&mut lanes);
                        lanes[V::WIDTH - 1]
                    })
                })
                .collect()
        }
    }

    #[test]
    fn a_digit_is_an_odd_multiple_and_a_sign() {
        for backend in Backend::available() {
            for (e, [index, negative]) in (0..).zip(backend::run_on(backend, Signed)) {
                let size = 2 * index as i64 + 1;
                assert_eq!(if negative == u64::MAX { -size } else { size }, 2 * e - 31, "{backend}");
                assert!(negative == 0 || negative == u64::MAX);
            }
        }
    }

    fn stream(seed: u8) -> impl FnMut(&mut [u8]) {
        let mut stream = blake3::Hasher::new().update(&[seed]).finalize_xof();
        move |bytes| stream.fill(bytes)
    }

    fn check<G: Blind>() {
        let dst = Dst::new(b"vesica test of blinding");
        let inputs: Vec<Digest> = (0..1000u128).map(|i| Digest(i.to_le_bytes())).collect();
        let coins = [7; 32];
        let k = G::Scalar::from_uniform(&[5; 64]);
        let public = G::public(&k);
        assert_eq!(public.len(), G::EVALUATED);
        let key = G::key(&public).unwrap();
        let mut seen = Vec::new();
        for (seed, n) in (1..).zip([0, 1, 2, 7, 8, 9, 17, 1000]) {
            let mut want = Vec::new();
            G::hash(&dst, &inputs[..n]).mul(&k).encode(&mut want);
            let (mut blinded, mut evaluated, mut got) = (Vec::new(), Vec::new(), Vec::new());
            let blinds = G::blind(&dst, &inputs[..n], &mut stream(seed), &mut blinded);
            assert_eq!(blinded.len(), n * G::WIRE);
            seen.extend(blinded.chunks(G::WIRE).map(<[u8]>::to_vec));
            G::evaluate(&k, &blinded, &coins, &mut evaluated).unwrap();
            assert_eq!(evaluated.len(), n * G::EVALUATED);
            G::unblind(&key, blinds, &evaluated, &coins, &mut got).unwrap();
            assert!(got == want, "{}, {n}", G::NAME);
        }
        // The same inputs were never blinded alike.
        let len = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), len);

        // Another key, or another's blinds, and nothing is as it should be.
        let (mut blinded, mut evaluated, mut want) = (Vec::new(), Vec::new(), Vec::new());
        let blinds = [8, 9, 8].map(|seed| {
            blinded.clear();
            G::blind(&dst, &inputs[..20], &mut stream(seed), &mut blinded)
        });
        G::evaluate(&k, &blinded, &coins, &mut evaluated).unwrap();
        G::hash(&dst, &inputs[..20]).mul(&k).encode(&mut want);
        let other = G::key(&G::public(&G::Scalar::from_uniform(&[6; 64]))).unwrap();
        for ((blinds, key), right) in blinds.into_iter().zip([&other, &key, &key]).zip([false, false, true]) {
            let mut got = Vec::new();
            G::unblind(key, blinds, &evaluated, &coins, &mut got).unwrap();
            for (got, want) in got.chunks(G::WIRE).zip(want.chunks(G::WIRE)) {
                assert_eq!(got == want, right, "{}", G::NAME);
            }
        }

        // What is missing, cut short or too much.
        for len in [0, 19 * G::EVALUATED, 20 * G::EVALUATED - 1] {
            let blinds = G::blind(&dst, &inputs[..20], &mut stream(8), &mut Vec::new());
            assert!(G::unblind(&key, blinds, &evaluated[..len], &coins, &mut Vec::new()).is_err(), "{} {len}", G::NAME);
        }
        let blinds = G::blind(&dst, &inputs[..19], &mut stream(8), &mut Vec::new());
        assert!(G::unblind(&key, blinds, &evaluated, &coins, &mut Vec::new()).is_err());
        for bad in [&[][..], &public[1..], &[&public[..], &public[..]].concat()] {
            assert!(G::key(bad).is_err());
        }
        // Elements that are none.
        for byte in [0, 255] {
            for index in [0, 13, 19] {
                let mut bad = evaluated.clone();
                bad[index * G::EVALUATED..][..G::EVALUATED].fill(byte);
                let blinds = G::blind(&dst, &inputs[..20], &mut stream(8), &mut Vec::new());
                let error = G::unblind(&key, blinds, &bad, &coins, &mut Vec::new()).unwrap_err();
                assert_eq!(error.index, index, "{}", G::NAME);
                let mut bad = blinded.clone();
                bad[index * G::WIRE..][..G::WIRE].fill(byte);
                // Zeros are the x of a point of P-256, for one.
                let wrong = G::decode(&vec![byte; G::WIRE], &coins).is_err();
                let error = G::evaluate(&k, &bad, &coins, &mut Vec::new()).err();
                assert_eq!(error.map(|error| error.index), wrong.then_some(index), "{}", G::NAME);
            }
            assert!(G::key(&vec![byte; G::EVALUATED]).is_err(), "{}", G::NAME);
        }
    }

    #[test]
    fn what_is_blinded_evaluated_and_unblinded_is_the_multiple_of_the_hash() {
        check::<Curve25519>();
        check::<Ristretto255>();
        check::<FourQ>();
        check::<Secp256k1>();
        check::<Sm2>();
        check::<P256>();
    }
}
