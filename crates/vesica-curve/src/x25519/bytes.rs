//! Points as bytes. u is written and read here, and a received u that belongs to the twist is found and refused.

use super::{Curve25519, FILLER, Points};
use crate::backend::Kernel;
use crate::field::f25519::block::{Block, vectors};
use crate::field::f25519::{Fe, are_squares};
use crate::field::{Formula, Lanes};
use crate::{BadElement, Group};

/// Appends u of every point, 32 bytes in little-endian order.
pub(super) fn write(points: &Points, wire: &mut Vec<u8>) {
    wire.reserve(Curve25519::WIRE * points.len);
    for (i, block) in points.blocks.iter().enumerate() {
        for lane in 0..Block::LANES.min(points.len - i * Block::LANES) {
            for words in &block.0 {
                wire.extend_from_slice(&words[lane].to_le_bytes());
            }
        }
    }
}

/// The u of the points whose order divides 8, of the curve and of its twist: 0, 1, two of order 8, and -1.
const SMALL_ORDER: [[u64; 4]; 5] = [
    [0, 0, 0, 0],
    [1, 0, 0, 0],
    [0xaeb8_413b_7c7a_ebe0, 0x6ac4_9ff1_fae3_5616, 0xfdb1_329c_eb8d_09da, 0x00b8_495f_1605_6286],
    [0x248c_50a3_bc95_9c5f, 0x5bef_839c_55b1_d0b1, 0x868e_1c58_c45c_4404, 0x5711_9fd0_dd4e_22d8],
    [0xffff_ffff_ffff_ffec, u64::MAX, u64::MAX, u64::MAX >> 1],
];

/// Takes canonical numbers off the wire. Whether they are on the curve is still to be asked.
pub(super) fn read(wire: &[u8]) -> Result<Points, BadElement> {
    let (elements, rest) = wire.as_chunks::<{ Curve25519::WIRE }>();
    let mut blocks = vec![FILLER; elements.len().div_ceil(Block::LANES)];
    for (index, bytes) in elements.iter().enumerate() {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // At least p = 2^255 - 19, with or without the topmost bit.
        let [w0, w1, w2, w3] = words;
        if w3 > u64::MAX >> 1 || (w3 == u64::MAX >> 1 && w2 & w1 == u64::MAX && w0 >= 19u64.wrapping_neg()) {
            return Err(BadElement { index, why: "is not a canonical encoding" });
        }
        if SMALL_ORDER.contains(&words) {
            return Err(BadElement { index, why: "has small order" });
        }
        for (lanes, word) in blocks[index / Block::LANES].0.iter_mut().zip(words) {
            lanes[index % Block::LANES] = word;
        }
    }
    match rest {
        [] => Ok(Points { len: elements.len(), blocks }),
        _ => Err(BadElement { index: elements.len(), why: "is cut short" }),
    }
}

/// u^3 + A·u^2 + u: a square other than 0 on the curve, not a square on the twist.
#[inline(always)]
pub(super) fn right_side<V: Lanes>(u: &Fe<V>) -> Fe<V> {
    let u2 = u.square();
    u2.add(&u.small(486_662)).add(&Fe::one()).mul(u)
}

/// Random masks of 64 bits that the peer could not foresee: from the coins, and from what it sent.
pub(super) struct Masks(blake3::OutputReader);

impl Masks {
    pub(super) fn new(wire: &[u8], coins: &[u8; 32]) -> Self {
        Self(blake3::Hasher::new_keyed(coins).update(b"vesica curve25519 twist test").update(wire).finalize_xof())
    }

    fn next(&mut self) -> u64 {
        let mut mask = [0; 8];
        self.0.fill(&mut mask);
        u64::from_le_bytes(mask)
    }
}

/// Finds the first point that is on the twist.
///
/// A point is on the twist if and only if the Legendre symbol of `w = u^3 + A·u^2 + u` is -1 (it is 0 only for u = 0, which
/// is refused before). Instead of one exponentiation for each point there are 64 for each lane of the whole batch: the
/// points of a lane are multiplied together in 64 random subsets, and the symbols of the products are taken. The symbol
/// of a product is the product of the symbols, so if t > 0 points of a lane are on the twist then a random subset has
/// the symbol -1 exactly if it holds an odd number of these t, which has probability 1/2; the subsets are independent (bit
/// j of a point's mask says whether it is in subset j), so all 64 symbols are 1 with probability 2^-64. Lanes share the masks,
/// which does not matter: a batch with any point of the twist passes only if the lane of that point does. So a bad batch
/// passes with probability at most 2^-64, as long as the sender did not know the masks: they come from fresh coins and, as a
/// second line, from a hash of the batch. A batch of good points always passes. If a symbol is -1, or the batch is small,
/// every point is tested by itself.
///
/// The products are gathered by nibbles of the mask, sixteen multiplications a point, instead of an expected 32.
pub(super) struct OnTwist<'a> {
    pub(super) points: &'a Points,
    pub(super) masks: &'a mut Masks,
}

/// Below this many vectors it is cheaper to test all points: 64 exponentiations of 254 squarings and 512 multiplications,
/// and sixteen multiplications a vector, against 254 squarings a vector.
const TWIST_BATCH: usize = 80;

impl Kernel for OnTwist<'_> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Option<usize> {
        let OnTwist { points, masks } = self;
        if points.len / V::WIDTH >= TWIST_BATCH {
            let mut products = [[Fe::<V>::one(); 16]; 16];
            for (block, part) in vectors::<V>(points.len) {
                let element = right_side(&points.blocks[block].load::<V>(part));
                V::call(Gather { products: &mut products, element, mask: masks.next() });
            }
            if V::call(AllSquares(&products)) {
                return None;
            }
        }
        // Two at a time, so that their chains of squarings overlap; the last may have no second.
        let mut rest = vectors::<V>(points.len);
        while let Some(first) = rest.next() {
            let pair = [first, rest.next().unwrap_or(first)];
            let [(b0, p0), (b1, p1)] = pair;
            let squares =
                are_squares([right_side(&points.blocks[b0].load::<V>(p0)), right_side(&points.blocks[b1].load(p1))]);
            for ((block, part), squares) in pair.into_iter().zip(squares) {
                let mut lanes = [0; Block::LANES];
                squares.store(&mut lanes);
                if let Some(lane) = lanes[..V::WIDTH].iter().position(|&mask| mask == 0) {
                    return Some(block * Block::LANES + part * V::WIDTH + lane);
                }
            }
        }
        None
    }
}

/// Multiplies an element into one of the sixteen products of each nibble of the mask.
struct Gather<'a, V> {
    products: &'a mut [[Fe<V>; 16]; 16],
    element: Fe<V>,
    mask: u64,
}

impl<V: Lanes> Formula<V> for Gather<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (nibble, products) in self.products.iter_mut().enumerate() {
            // The masks are public once they are drawn, so addresses may depend on them.
            let product = &mut products[(self.mask >> (4 * nibble) & 15) as usize];
            *product = product.mul(&self.element);
        }
    }
}

/// Whether the products of all 64 subsets are squares, in all lanes.
struct AllSquares<'a, V>(&'a [[Fe<V>; 16]; 16]);

impl<V: Lanes> Formula<V> for AllSquares<'_, V> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let mut all = true;
        for products in self.0 {
            let mut subsets = [Fe::<V>::one(); 4];
            for (bit, subset) in subsets.iter_mut().enumerate() {
                for (nibble, product) in products.iter().enumerate() {
                    if nibble >> bit & 1 == 1 {
                        *subset = subset.mul(product);
                    }
                }
            }
            for mask in are_squares(subsets) {
                let mut lanes = [0; Block::LANES];
                mask.store(&mut lanes);
                all &= lanes[..V::WIDTH].iter().all(|&mask| mask == u64::MAX);
            }
        }
        all
    }
}
