//! Diffie-Hellman messages that are uniform strings of 32 bytes.
//!
//! [BHKL13] Bernstein, Hamburg, Krasnova, Lange, "Elligator: elliptic-curve points indistinguishable from uniform random strings", CCS
//! 2013, section 5, for the map and its inverse. A string stands for a point of the curve by Elligator 2, [`elligator2`]; each
//! point has two preimages t and -t or none. So who draws points of the *whole* curve until one has a preimage, and then takes either of
//! the two, has drawn a uniform field element.
//!
//! It has to be the whole curve. A point of the prime subgroup would show: of the points that random strings stand for, only an eighth
//! are in it. So a random point of small order is added, which the other party's scalar, a multiple of 8, takes away.

use super::blind::FromEdwards;
use super::hash::elligator2;
use super::{Curve25519, FILLER, Points};
use crate::backend::{self, Kernel};
use crate::blind::Digits;
use crate::edwards::{self, AddMultiples, Multiples, NEUTRAL};
use crate::field::f25519::block::{Block, CHUNK, divide, vectors};
use crate::field::f25519::{Fe, ROOT_OF_MINUS_1, powers_p58};
use crate::field::{Formula, Lanes};
use vesica_cpu::Backend;
use zeroize::Zeroizing;

/// What a message looks like: uniform bytes.
pub type Message = [u8; 32];

/// The secrets behind a batch of messages: for each an r, wiped when dropped.
pub struct Secrets {
    digits: Digits<{ edwards::WORDS }>,
}

/// Points that are drawn at once.
const TRIES: usize = CHUNK * Block::LANES;

/// The digit of a multiplier that no table uses: it makes the choices among the preimages of a point.
const CHOICES: usize = edwards::TORSION + 1;

impl Curve25519 {
    /// Appends `len` messages, and returns the secrets behind them: r·G + s·T for secret uniform r, a random s and T of order 8. They are
    /// within 2^-120 each of uniform strings, and which strings they are depends on nothing but what `random` fills what it is given with.
    pub fn messages(len: usize, random: &mut dyn FnMut(&mut [u8]), messages: &mut Vec<Message>) -> Secrets {
        Self::messages_on(Backend::chosen(), len, random, messages)
    }

    /// Appends r·K for the secret r behind each message, in `WIRE` bytes: what
    /// `Self::from_messages(messages).mul(k)` encodes to if K is k·G. Constant time in r.
    pub fn agree(key: &Multiples, secrets: &Secrets, wire: &mut Vec<u8>) {
        Self::agree_on(Backend::chosen(), key, secrets, wire);
    }

    /// The points that these strings stand for, which may be any: constant time in them.
    pub fn from_messages(messages: &[Message]) -> Points {
        Self::from_messages_on(Backend::chosen(), messages)
    }
}

/// The same, on a given back end.
impl Curve25519 {
    pub(super) fn messages_on(
        backend: Backend,
        len: usize,
        random: &mut dyn FnMut(&mut [u8]),
        messages: &mut Vec<Message>,
    ) -> Secrets {
        let mut digits = Digits::zeros(len);
        let mut found = 0;
        while found < len {
            // Every second point has preimages. What is found beyond `len` is forgotten.
            let tries = (2 * (len - found) + Block::LANES).min(TRIES);
            let drawn = Digits::draw(tries, random);
            let mut points = Zeroizing::new(vec![NEUTRAL; tries.div_ceil(Block::LANES)]);
            backend::run_on(
                backend,
                AddMultiples { points: &mut points, windows: edwards::generator().all(), digits: &drawn },
            );
            let (strings, hits) = backend::run_on(backend, ToStrings { points: &points, digits: &drawn });
            let strings = Zeroizing::new(strings);
            for at in (0..tries).filter(|at| hits[at / Block::LANES][at % Block::LANES] != 0).take(len - found) {
                let words = strings[at / Block::LANES].0.map(|lanes| lanes[at % Block::LANES].to_le_bytes());
                messages.push(*words.as_flattened().first_chunk().expect("four words"));
                digits.copy(found, &drawn, at);
                found += 1;
            }
        }
        Secrets { digits }
    }

    pub(super) fn agree_on(backend: Backend, key: &Multiples, Secrets { digits }: &Secrets, wire: &mut Vec<u8>) {
        let mut points = Zeroizing::new(vec![NEUTRAL; digits.len().div_ceil(Block::LANES)]);
        backend::run_on(backend, AddMultiples { points: &mut points, windows: key.all(), digits });
        let made = Zeroizing::new(backend::run_on(backend, FromEdwards { points: &points, len: digits.len() }));
        crate::Points::encode(&made.0, wire);
    }

    pub(super) fn from_messages_on(backend: Backend, messages: &[Message]) -> Points {
        backend::run_on(backend, FromStrings(messages))
    }
}

impl Secrets {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.digits.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A preimage of each point of edwards25519 as a string, and whether there is one.
struct ToStrings<'a> {
    points: &'a [edwards::Points],
    digits: &'a Digits<{ edwards::WORDS }>,
}

impl Kernel for ToStrings<'_> {
    type Out = (Vec<Block>, Vec<[u64; Block::LANES]>);

    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let ToStrings { points, digits } = self;
        let mut strings = vec![FILLER; points.len()];
        let mut hits = vec![[0; Block::LANES]; points.len()];
        let mut rest = vectors::<V>(digits.len());
        while let Some(first) = rest.next() {
            let pair = [first, rest.next().unwrap_or(first)];
            let points = pair.map(|(block, part)| edwards::Point::<V>::load(&points[block], part));
            let choices = pair.map(|place| digits.digit::<V>(place, CHOICES));
            for (((block, part), choice), (root, hit)) in
                pair.into_iter().zip(choices).zip(V::call(Preimages(&points, choices)))
            {
                strings[block].store(part, &root);
                // The topmost bit says nothing, and is drawn too.
                let top = &mut strings[block].0[3][part * V::WIDTH..];
                V::load(top).or(choice.shr(2).shl(63)).store(top);
                hit.store(&mut hits[block][part * V::WIDTH..]);
            }
        }
        (strings, hits)
    }
}

/// A preimage t of each point under Elligator 2, and whether there is one. Two at once, so that their chains of squarings overlap.
///
/// With u the point's and A = 486662, it is a root of -(u + A)/2u if v is odd, and of -u/2(u + A) if v is even; both exist or
/// neither, because their product is 1/4. Nobody looks at the sign of v, and both signs are alike, so which of them it is is drawn: the
/// first bit of `choices`. The second draws the sign of t, the third is used elsewhere.
struct Preimages<'a, V>(&'a [edwards::Point<V>; 2], [V; 2]);

impl<V: Lanes> Formula<V> for Preimages<'_, V> {
    type Out = [(Fe<V>, V); 2];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let Preimages(points, choices) = self;
        let zero = Fe::<V>::zero();
        let (mut numerators, mut denominators, mut parts, mut bases) = ([zero; 2], [zero; 2], [zero; 2], [zero; 2]);
        for n in 0..2 {
            // u = (z + y)/(z - y), and so u + A = (z + y + A·(z - y))/(z - y).
            let u = points[n].z.add(&points[n].y);
            let shifted = points[n].z.sub(&points[n].y).small(486_662).add(&u);
            let even = choices[n].and(V::splat(1)).eq(V::zero());
            numerators[n] = Fe::select(even, &u, &shifted).neg();
            let half = Fe::select(even, &shifted, &u);
            denominators[n] = half.add(&half);
            // (a/b)^((p+3)/8) = a·b^3·(a·b^7)^((p-5)/8).
            let b2 = denominators[n].square();
            let b3 = b2.mul(&denominators[n]);
            parts[n] = numerators[n].mul(&b3);
            bases[n] = parts[n].mul(&b2.square());
        }
        let powers = powers_p58(bases);
        let mut out = [(zero, V::zero()); 2];
        for n in 0..2 {
            // Its square is a/b or -a/b, if a/b is a square. A root of 0 is of a point of small order, which is not taken.
            let root = powers[n].mul(&parts[n]);
            let square = root.square().mul(&denominators[n]);
            let minus = square.add(&numerators[n]).is_zero();
            let root = Fe::select(minus, &root.mul(&Fe::splat(ROOT_OF_MINUS_1)), &root);
            let hit = square.sub(&numerators[n]).is_zero().or(minus).and_not(root.is_zero());
            let negative = choices[n].shr(1).and(V::splat(1)).eq(V::zero());
            out[n] = (Fe::select(negative, &root.neg(), &root), hit);
        }
        out
    }
}

/// The points that strings stand for: the lowest 255 bits of each are a number modulo p.
struct FromStrings<'a>(&'a [Message]);

impl Kernel for FromStrings<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let FromStrings(strings) = self;
        let mut blocks = vec![FILLER; strings.len().div_ceil(Block::LANES)];
        for (at, string) in strings.iter().enumerate() {
            let words = string.as_chunks::<8>().0;
            for (lanes, word) in blocks[at / Block::LANES].0.iter_mut().zip(words) {
                lanes[at % Block::LANES] = u64::from_le_bytes(*word);
            }
            blocks[at / Block::LANES].0[3][at % Block::LANES] &= u64::MAX >> 1;
        }
        let mut denominators = Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH);
        for (blocks, strings) in blocks.chunks_mut(CHUNK).zip(strings.chunks(CHUNK * Block::LANES)) {
            denominators.clear();
            let mut rest = vectors::<V>(strings.len());
            while let Some(first) = rest.next() {
                let second = rest.next();
                let pair = [first, second.unwrap_or(first)];
                let maps = V::call(Maps(pair.map(|(block, part)| blocks[block].load::<V>(part))));
                for ((block, part), (x, z)) in std::iter::once(first).chain(second).zip(maps) {
                    blocks[block].store(part, &x);
                    denominators.push(z);
                }
            }
            divide(blocks, &mut denominators);
        }
        Points { len: strings.len(), blocks }
    }
}

/// u of the image of two field elements, as a fraction.
struct Maps<V>([Fe<V>; 2]);

impl<V: Lanes> Formula<V> for Maps<V> {
    type Out = [(Fe<V>, Fe<V>); 2];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let [p, q] = elligator2(self.0);
        [(p.x, p.z), (q.x, q.z)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blind, Points as _, SecretScalar};
    use num_bigint::BigUint;

    type Scalar = <Curve25519 as crate::Group>::Scalar;

    fn stream(seed: u8) -> impl FnMut(&mut [u8]) {
        let mut stream = blake3::Hasher::new().update(&[seed]).finalize_xof();
        move |bytes| stream.fill(bytes)
    }

    fn p() -> BigUint {
        (BigUint::from(1u8) << 255) - 19u8
    }

    fn is_square(x: &BigUint) -> bool {
        x.modpow(&((p() - 1u8) / 2u8), &p()) <= BigUint::from(1u8)
    }

    /// u by the definition of the map, and whether the first candidate was taken.
    fn naive(message: &Message) -> (BigUint, bool) {
        let (p, a) = (p(), BigUint::from(486_662u32));
        let mut bytes = *message;
        bytes[31] &= 127;
        let t = BigUint::from_bytes_le(&bytes) % &p;
        let inverse = |x: BigUint| x.modpow(&(&p - 2u8), &p);
        let first = (&p - &a) * inverse((&t * &t * 2u8 + 1u8) % &p) % &p;
        let right = (&first * &first * &first + &a * &first * &first + &first) % &p;
        match is_square(&right) {
            true => (first, true),
            false => ((&p + &p - &first - &a) % &p, false),
        }
    }

    fn us(points: &Points) -> Vec<BigUint> {
        let mut wire = Vec::new();
        points.encode(&mut wire);
        wire.chunks(32).map(BigUint::from_bytes_le).collect()
    }

    #[test]
    fn strings_stand_for_the_points_of_the_definition() {
        let mut strings: Vec<Message> = vec![[0; 32], [255; 32]];
        let number = |x: BigUint| {
            let mut bytes = x.to_bytes_le();
            bytes.resize(32, 0);
            Message::try_from(bytes).unwrap()
        };
        for near in 0..40u8 {
            strings.push(number(p() - 20u8 + near));
            strings.push(number(BigUint::from(near)));
            strings.push(number((BigUint::from(1u8) << 255) + near));
        }
        let mut random = stream(1);
        strings.resize_with(300, || {
            let mut string = [0; 32];
            random(&mut string);
            string
        });
        let want: Vec<BigUint> = strings.iter().map(|string| naive(string).0).collect();
        for backend in Backend::available() {
            for n in [0, 1, 7, 8, 9, 17, 300] {
                assert_eq!(us(&Curve25519::from_messages_on(backend, &strings[..n])), want[..n], "{backend}, {n}");
            }
        }
    }

    #[test]
    fn both_sides_agree_on_every_back_end() {
        let k = Scalar::from_uniform(&[5; 64]);
        let key = Curve25519::key(&Curve25519::public(&k)).unwrap();
        let other = Curve25519::key(&Curve25519::public(&Scalar::from_uniform(&[6; 64]))).unwrap();
        let mut all = Vec::new();
        for (seed, n) in (1..).zip([0, 1, 2, 8, 9, 600]) {
            let mut first = None;
            for backend in Backend::available() {
                let mut messages = Vec::new();
                let secrets = Curve25519::messages_on(backend, n, &mut stream(seed), &mut messages);
                assert_eq!([messages.len(), secrets.len()], [n; 2]);
                let (mut want, mut got, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
                Curve25519::from_messages_on(backend, &messages).mul(&k).encode(&mut want);
                Curve25519::agree_on(backend, &key, &secrets, &mut got);
                Curve25519::agree_on(backend, &other, &secrets, &mut wrong);
                assert!(got == want, "{backend}, {n}");
                assert!(got.chunks(32).zip(wrong.chunks(32)).all(|(a, b)| a != b));
                // And all back ends draw the same.
                assert_eq!(first.get_or_insert_with(|| messages.clone()), &messages, "{backend}");
            }
            all.extend(first.unwrap());
        }
        let len = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), len);
    }

    /// How often each bit is set; the candidate of the map; the half of the field; and the subgroup of the point, by its order: of
    /// 8 points one is in the prime subgroup, one more is twice as large, two more four times, and four eight times.
    #[test]
    fn messages_are_uniform() {
        const N: usize = 1 << 13;
        let mut messages = Vec::new();
        Curve25519::messages(N, &mut stream(9), &mut messages);
        // Five deviations of a coin that is thrown N times.
        let fair = |count: usize, what: &str| {
            let off = (count as f64 - N as f64 / 2.0).abs();
            assert!(off < 2.5 * (N as f64).sqrt(), "{what}: {count} of {N}");
        };
        for bit in 0..256 {
            fair(messages.iter().filter(|m| m[bit / 8] >> (bit % 8) & 1 == 1).count(), "a bit");
        }
        for bit in 1..256 {
            let equal = |m: &&Message| {
                m[bit / 8] >> (bit % 8) & 1 == m[bit / 8 - usize::from(bit % 8 == 0)] >> ((bit + 7) % 8) & 1
            };
            fair(messages.iter().filter(equal).count(), "two bits");
        }
        let some = &messages[..1 << 10];
        let firsts = some.iter().filter(|message| naive(message).1).count();
        assert!((432..592).contains(&firsts), "{firsts}");

        let mut orders = [0; 4];
        let mut wire = Vec::new();
        Curve25519::from_messages(&messages).encode(&mut wire);
        for u in wire.as_chunks().0 {
            let point = curve25519_dalek::MontgomeryPoint(*u).to_edwards(0).expect("on the curve");
            let torsion = point - curve25519_dalek::EdwardsPoint::mul_by_cofactor(&(point * *EIGHTH));
            let order = [1u8, 2, 4, 8].iter().position(|&times| is_neutral(torsion, times)).unwrap();
            orders[order] += 1;
        }
        for (order, eighths) in [1, 1, 2, 4].into_iter().enumerate() {
            let p = eighths as f64 / 8.0;
            let off = (f64::from(orders[order]) - N as f64 * p).abs();
            assert!(off < 5.0 * (N as f64 * p * (1.0 - p)).sqrt(), "{orders:?}");
        }
    }

    /// 1/8 modulo the order of the prime subgroup: 8 times it times a point is the point's part in that group.
    static EIGHTH: std::sync::LazyLock<curve25519_dalek::Scalar> =
        std::sync::LazyLock::new(|| curve25519_dalek::Scalar::from(8u8).invert());

    fn is_neutral(point: curve25519_dalek::EdwardsPoint, times: u8) -> bool {
        use curve25519_dalek::traits::Identity;
        point * curve25519_dalek::Scalar::from(times) == curve25519_dalek::EdwardsPoint::identity()
    }
}
