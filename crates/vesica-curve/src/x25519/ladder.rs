//! The ladder: multiples of a point from its u alone (RFC 7748, section 5).

use super::Points;
use crate::backend::Kernel;
use crate::field::f25519::Fe;
use crate::field::f25519::block::{Block, CHUNK, divide, vectors};
use crate::field::{Formula, Lanes};
use zeroize::Zeroizing;

/// A scalar as the ladder takes it: bits `top` to 0 of `bytes`, then that many doublings.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    pub(super) bytes: &'a [u8; 32],
    pub(super) top: usize,
    pub(super) doublings: usize,
}

impl Bits<'_> {
    #[inline(always)]
    fn bit(&self, i: usize) -> u64 {
        u64::from(self.bytes[i / 8] >> (i % 8) & 1)
    }
}

/// (A - 2)/4 for A = 486662.
const A24: u64 = 121_665;

/// Twice a point that is given as (X + Z, X - Z): again as sum and difference.
#[inline(always)]
fn double<V: Lanes>(sum: &Fe<V>, difference: &Fe<V>) -> (Fe<V>, Fe<V>) {
    let aa = sum.squared();
    let bb = difference.squared_raw();
    let e = aa.minus(bb).carry();
    let f = aa.plus_small(&e, A24).carry();
    let x = aa.carry().times(&bb.carry());
    let z = e.times_raw(&f);
    (x.plus(z).carry(), x.minus(z).carry())
}

/// `[k]P` from u(P), as X and Z, by the ladder of RFC 7748, section 5; and `[k + 1]P`, unless doublings follow.
///
/// Two points are carried along, each as its sum and difference (a, b) = (X + Z, X - Z), which is what the formulas ask for.
/// What differs from the RFC's text: the sum of the two points is symmetric in them, so only the point that is doubled is
/// chosen by the bit. All lanes have the same bits, so the choice is by a uniform mask.
pub(super) struct Ladder<'a, V> {
    pub(super) u: Fe<V>,
    pub(super) bits: Bits<'a>,
}

impl<V: Lanes> Formula<V> for Ladder<'_, V> {
    type Out = [(Fe<V>, Fe<V>); 2];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let Ladder { u, bits } = self;
        // The doubled point, at first the neutral element (1 : 0), and the sum, at first P = (u : 1).
        let (mut a, mut b) = (Fe::one(), Fe::one());
        let (mut c, mut d) = (u.add(&Fe::one()), u.sub(&Fe::one()));
        // Whether (a, b) stands for the higher of the two multiples.
        let mut swapped = 0;
        for i in (0..=bits.top).rev() {
            let bit = bits.bit(i);
            let swap = V::mask_of(bit ^ swapped);
            swapped = bit;
            let sum = Fe::select(swap, &c, &a);
            let difference = Fe::select(swap, &d, &b);

            // Product by product of what can be computed at the same time: the CPU looks ahead by half a step, and each product waits
            // for several before it.
            let (da, cb) = (d.times(&a), c.times_raw(&b));
            let (aa, bb) = (sum.squared(), difference.squared_raw());
            let (more, less) = (da.plus(cb).carry(), da.minus(cb).carry());
            let e = aa.minus(bb).carry();
            let (x, z) = (more.squared(), less.squared_raw().carry());
            let (f, aa, bb) = (aa.plus_small(&e, A24).carry(), aa.carry(), bb.carry());
            let z = z.times_raw(&u);
            let (double_x, double_z) = (aa.times(&bb), e.times_raw(&f));
            (c, d) = (x.plus(z).carry(), x.minus(z).carry());
            (a, b) = (double_x.plus(double_z).carry(), double_x.minus(double_z).carry());
        }
        let swap = V::mask_of(swapped);
        let next = [Fe::select(swap, &a, &c), Fe::select(swap, &b, &d)];
        (a, b) = (Fe::select(swap, &c, &a), Fe::select(swap, &d, &b));
        for _ in 0..bits.doublings {
            (a, b) = double(&a, &b);
        }
        // Twice X and twice Z.
        [[a, b], next].map(|[sum, difference]| (sum.add(&difference), sum.sub(&difference)))
    }
}

pub(super) struct Multiply<'a> {
    pub(super) points: Points,
    pub(super) bits: Bits<'a>,
}

impl Kernel for Multiply<'_> {
    type Out = Points;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Points {
        let Multiply { mut points, bits } = self;
        let mut denominators: Zeroizing<Vec<Fe<V>>> =
            Zeroizing::new(Vec::with_capacity(CHUNK * Block::LANES / V::WIDTH));
        let mut left = points.len;
        for blocks in points.blocks.chunks_mut(CHUNK) {
            let len = left.min(CHUNK * Block::LANES);
            left -= len;
            denominators.clear();
            for (block, part) in vectors::<V>(len) {
                let [(x, z), _] = V::call(Ladder { u: blocks[block].load::<V>(part), bits });
                blocks[block].store(part, &x);
                denominators.push(z);
            }
            divide(blocks, &mut denominators);
        }
        points
    }
}
