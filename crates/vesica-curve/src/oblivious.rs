//! What RFC 9497 needs of a group beside [`Group`]: inputs of any length, hashing to scalars, and sums for its proofs.

use crate::hash_to_curve::expand_message_xmd;
use crate::{Dst, Group, Residue, SecretScalar};
use zeroize::Zeroizing;

/// A group in which a function is evaluated for somebody who does not show the input, blinded by multiplication:
/// `hash(x).mul(r)` travels, `mul(k)` comes back, and `mul(r.inverse())` of that is `hash(x).mul(k)`.
pub trait Oblivious: Group {
    /// How numbers modulo the order are hashed to, and written.
    const NUMBERS: Numbers;

    /// As [`Group::hash`], for inputs that are `each` bytes long and stand one after the other.
    ///
    /// # Panics
    /// If `each` is zero.
    fn hash_bytes(dst: &Dst, inputs: &[u8], each: usize) -> Self::Points;

    /// The group's generator, alone.
    fn generator() -> Self::Points;

    /// HashToScalar of RFC 9497, section 4, of a message in parts. Constant time in the message but for its length.
    fn hash_to_number(dst: &Dst, message: &[&[u8]]) -> Residue {
        let mut wide = Zeroizing::new([0; 64]);
        match Self::NUMBERS {
            Numbers::Little => {
                wide.copy_from_slice(&Zeroizing::new(expand_message_xmd::<sha2::Sha512>(message, dst, 64)));
            }
            Numbers::Big => {
                let expanded = Zeroizing::new(expand_message_xmd::<sha2::Sha256>(message, dst, 48));
                for (byte, big) in wide.iter_mut().zip(expanded.iter().rev()) {
                    *byte = *big;
                }
            }
        }
        Residue(Self::Scalar::ORDER.reduce(&wide))
    }

    /// SerializeScalar of RFC 9497, section 4.
    fn encode_number(number: &Residue) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(number.0) {
            *bytes = word.to_le_bytes();
        }
        if Self::NUMBERS == Numbers::Big {
            bytes.reverse();
        }
        bytes
    }

    /// DeserializeScalar of RFC 9497, section 4: none unless it is below the order.
    fn decode_number(bytes: &[u8; 32]) -> Option<Residue> {
        let mut bytes = *bytes;
        if Self::NUMBERS == Numbers::Big {
            bytes.reverse();
        }
        let (words, _) = bytes.as_chunks::<8>();
        Self::Scalar::ORDER.checked(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }
}

/// How numbers modulo a group's order are hashed to, and in which order their bytes stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// 64 bytes by SHA-512, the lowest first: as RFC 9497 has it for ristretto255.
    Little,
    /// 48 bytes by SHA-256, the highest first (`hash_to_field` of RFC 9380): as RFC 9497 has it for P-256.
    Big,
}

/// A group in which an evaluation can be proved right: its elements travel with their sign, so they can be added.
pub trait Provable: Oblivious {
    /// Σ w·E over the elements and their weights, alone. In variable time: all of it is public.
    ///
    /// # Panics
    /// If there are not as many weights as elements.
    fn sum(elements: &Self::Points, weights: &[Residue]) -> Self::Points;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve25519, FourQ, P256Sec1, Points, Ristretto255, Secp256k1, Sm2};

    /// Blinding by multiplication, evaluation, and what is left, for inputs of 32 bytes.
    fn check<G: Oblivious>() {
        let dst = Dst::new(b"vesica test of oblivious evaluation");
        let coins = [7; 32];
        for n in [0, 1, 2, 7, 8, 9, 100] {
            let mut inputs = vec![0; 32 * n];
            blake3::Hasher::new().update(b"inputs").finalize_xof().fill(&mut inputs);
            for (r, k) in [(5, 6), (255, 1)] {
                let [r, k] = [r, k].map(|byte| G::Scalar::from_uniform(&[byte; 64]));
                let (mut sent, mut answer, mut got, mut want) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                G::hash_bytes(&dst, &inputs, 32).mul(&r).encode(&mut sent);
                assert_eq!(sent.len(), n * G::WIRE);
                G::decode(&sent, &coins).unwrap().mul(&k).encode(&mut answer);
                G::decode(&answer, &coins).unwrap().mul(&r.inverse()).encode(&mut got);
                G::hash_bytes(&dst, &inputs, 32).mul(&k).encode(&mut want);
                assert!(got == want, "{}, {n}", G::NAME);
            }
        }
        // What is not as it should be is found at its place, and the generator is an element like any other.
        let mut wire = Vec::new();
        for _ in 0..20 {
            G::generator().mul(&G::Scalar::from_uniform(&[1; 64])).encode(&mut wire);
        }
        assert_eq!(G::decode(&wire, &coins).unwrap().len(), 20);
        for index in [0, 13, 19] {
            let mut bad = wire.clone();
            bad[index * G::WIRE..][..G::WIRE].fill(255);
            assert_eq!(G::decode(&bad, &coins).err().map(|bad| bad.index), Some(index), "{}", G::NAME);
        }
        assert!(G::decode(&wire[1..], &coins).is_err());

        let number = G::hash_to_number(&dst, &[b"a", b"b"]);
        assert_eq!(number, G::hash_to_number(&dst, &[b"ab"]));
        assert_eq!(G::decode_number(&G::encode_number(&number)), Some(number));
        assert_eq!(G::decode_number(&[255; 32]), None);
    }

    #[test]
    fn an_evaluation_is_unblinded_by_the_inverse() {
        check::<Curve25519>();
        check::<Ristretto255>();
        check::<FourQ>();
        check::<Secp256k1>();
        check::<Sm2>();
        check::<P256Sec1>();
    }

    /// Sums against the same made of multiples that cancel: Σ w·E with E = e·G is (Σ w·e)·G.
    fn sums<G: Provable>() {
        let dst = Dst::new(b"vesica test of sums");
        let number = |i: usize, of: &[u8]| G::hash_to_number(&dst, &[&i.to_le_bytes(), of]);
        let order = G::Scalar::ORDER;
        let coins = [7; 32];
        for n in [1, 2, 3, 7, 8, 9, 65] {
            let mut wire = Vec::new();
            // The same element again and again, and its negative, so that sums meet their exceptional cases.
            let mut logs: Vec<Residue> = (0..n).map(|i| number(i / 3, b"log")).collect();
            if n > 8 {
                logs[8] = Residue(order.difference(&[0; 4], &logs[0].0));
            }
            for log in &logs {
                G::generator().mul(&G::Scalar::new(log).unwrap()).encode(&mut wire);
            }
            let elements = G::decode(&wire, &coins).unwrap();
            let last = Residue(order.difference(&[0; 4], &[1, 0, 0, 0]));
            let weights: [Vec<Residue>; 3] = [
                (0..n).map(|i| number(i, b"weight")).collect(),
                (0..n).map(|i| Residue([u64::from(i != 1), 0, 0, 0])).collect(),
                (0..n).map(|i| if i % 2 == 0 { last.clone() } else { number(1, b"weight") }).collect(),
            ];
            for weights in weights {
                let zero = Residue([0; 4]);
                let minus = logs.iter().zip(&weights).fold(zero, |sum, (log, weight)| {
                    Residue(order.difference(&sum.0, &order.product(&log.0, &weight.0)))
                });
                let want = Residue(order.difference(&[0; 4], &minus.0));
                let sum = G::sum(&elements, &weights);
                assert_eq!(sum.len(), 1);
                let (mut got, mut right) = (Vec::new(), Vec::new());
                sum.encode(&mut got);
                G::generator().mul(&G::Scalar::new(&want).unwrap()).encode(&mut right);
                assert_eq!(got, right, "{} {n}", G::NAME);
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_logarithms() {
        sums::<Ristretto255>();
        sums::<P256Sec1>();
    }
}
