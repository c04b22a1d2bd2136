//! Fields of 256-bit primes in radix 2^52: five limbs, multiplied by 52-bit multiply-adds.
//!
//! A *column* is an unreduced sum at a power of 2^52; a product of two elements has ten. A *raw* element is five columns
//! that have been reduced to about the size of the prime but not carried. What a value is depends on how its limbs are
//! bounded, and every function says which it takes and gives:
//!
//! - **tight**: limbs below 2^52 and the top one below 2^48 + 2^26, so the value is below 2^256 + 2^234;
//! - **wide**: limbs below 2^52, so the value is below 2^260; here all wide values are below 2^258.8;
//! - **loose**: a wide value whose limbs still have, above bit 52, the carry that has already been added to the next limb.
//!   The multiply-add ignores those bits, so a loose value is good as a factor, and as nothing else.
//!
//! Bounds of products: with both factors below 2^258.8 a column collects at most ten halves below 2^52, below 2^55.4;
//! doubled cross terms (2^56) and the additions that the formulas make stay far below 2^63.
//!
//! **Where there is no instruction for them** ([`Lanes::MADD`]), products are made of parts ([`Lanes::part_lo`],
//! [`Lanes::part_hi`]), of which the low ones are -2^51 or more: the five of a column are not below -5·2^51. So columns start
//! with [`LENT`] = 16·2^51, which the next one owes. What `fold` subtracts is below 4.3·2^51, and so every column but the
//! last stays above 2^51, as a word, and can be shifted; the last one can be -8 and more until it is carried, as the value
//! is not negative. With [`LENT`] a column of a product is below 2^56.1, and a quotient of Montgomery's reduction below 2^57.

use super::{Formula, Lanes};
use std::marker::PhantomData;

/// Low bits of a limb.
pub(crate) const LOW_52: u64 = (1 << 52) - 1;
/// Low bits of the top limb of a tight value.
pub(crate) const LOW_48: u64 = (1 << 48) - 1;

/// What column 0 starts with where low parts can be negative ([`Lanes::part_lo`]), so that it can be carried. Column 1 owes
/// it 8 and gets as much, and so on.
pub(crate) const LENT: u64 = 1 << 55;
/// What the columns in between start with.
pub(crate) const LENT_ON: u64 = LENT - OWED.wrapping_neg();
/// What the last column starts with: minus 8.
pub(crate) const OWED: u64 = (LENT >> 52).wrapping_neg();

/// Five limbs, in each lane those of another element.
pub(crate) type Limbs<V> = [V; 5];
/// Ten columns.
pub(crate) type Columns<V> = [V; 10];

/// A 256-bit prime, p = 3 (mod 4) and above 2^256 - 2^225, with its way of reducing columns.
pub(crate) trait Prime: Copy + Send + Sync + 'static {
    /// The prime, least significant word first.
    const P: [u64; 4];
    /// The inverse of the prime modulo 2^62.
    const INVERSE_62: u64 = inverse_62(Self::P[0]);
    /// The element x is held as x · 2^DOMAIN: 260 in Montgomery form, 0 in plain form.
    const DOMAIN: u32;
    /// The column at which a held element is added to the columns of a product of two held elements.
    const LIFT: usize;
    /// What the columns must start from, where [`Prime::fold`] adds a constant to keep them from going below zero: the
    /// opposite of that constant.
    const START: [u64; 10] = [0; 10];
    /// The same where low parts can be negative (see [`LENT`]).
    const SIGNED_START: [u64; 10] =
        [LENT, LENT_ON, LENT_ON, LENT_ON, LENT_ON, LENT_ON, LENT_ON, LENT_ON, LENT_ON, OWED];
    /// How many low and high parts [`Prime::fold`] adds to each column, where products are made of parts.
    const FOLD_PARTS: [(u64, u64); 10] = [(0, 0); 10];
    /// How to raise to the power (p - 3)/4: see [`power`].
    const CHAIN: &'static [Power];
    /// Whether products are inlined; see [`Hot`].
    const HOT: bool = false;

    /// Reduces columns below 2^60 to a raw element below 2^258.1 if the factors were below 2^258.8; columns below 2^58. What the
    /// columns held beside the product is added to both.
    fn fold<V: Lanes>(columns: Columns<V>) -> Limbs<V>;
    /// Replaces the bits of a raw element from 2^256 on by what they are worth below: after [`carry`], it is tight. Columns must
    /// be below 2^60 and the last one below 2^58. Some primes subtract from the lower four, so there these must be at least
    /// 2^51, and the value below 2^260.
    fn trim<V: Lanes>(raw: Limbs<V>) -> Limbs<V>;
}

/// The same field, for the loop in which all time is spent: its products are inlined, if that is good for the back end
/// ([`Lanes::INLINE`]). It makes that loop a tenth faster.
#[derive(Clone, Copy)]
pub(crate) struct Hot<F>(PhantomData<F>);

impl<F: Prime> Prime for Hot<F> {
    const P: [u64; 4] = F::P;
    const DOMAIN: u32 = F::DOMAIN;
    const LIFT: usize = F::LIFT;
    const START: [u64; 10] = F::START;
    const SIGNED_START: [u64; 10] = F::SIGNED_START;
    const FOLD_PARTS: [(u64, u64); 10] = F::FOLD_PARTS;
    const CHAIN: &'static [Power] = F::CHAIN;
    const HOT: bool = true;

    #[inline(always)]
    fn fold<V: Lanes>(columns: Columns<V>) -> Limbs<V> {
        F::fold(columns)
    }
    #[inline(always)]
    fn trim<V: Lanes>(raw: Limbs<V>) -> Limbs<V> {
        F::trim(raw)
    }
}

/// One step of raising to a power: register `to` becomes register `from`, squared `squarings` times, times `by`.
/// Register 0 is the argument.
pub(crate) struct Power {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) squarings: usize,
    pub(crate) by: usize,
}

/// Registers that a chain may use.
const REGISTERS: usize = 8;

/// For the tables of chains.
pub(crate) const fn power(to: usize, from: usize, squarings: usize, by: usize) -> Power {
    assert!(to < REGISTERS);
    Power { to, from, squarings, by }
}

// ---- Constants, at compile time.

/// The inverse of an odd word modulo 2^62, by Newton's iteration.
const fn inverse_62(p: u64) -> u64 {
    let mut x = p; // right in three bits
    let mut i = 0;
    while i < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(p.wrapping_mul(x)));
        i += 1;
    }
    x & ((1 << 62) - 1)
}

/// 256 bits cut into limbs.
pub(crate) const fn limbs(words: [u64; 4]) -> [u64; 5] {
    [
        words[0] & LOW_52,
        (words[0] >> 52 | words[1] << 12) & LOW_52,
        (words[1] >> 40 | words[2] << 24) & LOW_52,
        (words[2] >> 28 | words[3] << 36) & LOW_52,
        words[3] >> 16,
    ]
}

/// The other way, for a value below 2^256.
pub(crate) const fn words(limbs: [u64; 5]) -> [u64; 4] {
    [
        limbs[0] | limbs[1] << 52,
        limbs[1] >> 12 | limbs[2] << 40,
        limbs[2] >> 24 | limbs[3] << 28,
        limbs[3] >> 36 | limbs[4] << 16,
    ]
}

/// Whether a < b.
pub(crate) const fn less(a: [u64; 4], b: [u64; 4]) -> bool {
    let mut i = 4;
    while i > 0 {
        i -= 1;
        if a[i] != b[i] {
            return a[i] < b[i];
        }
    }
    false
}

/// x · 2^e mod p, for x < p.
const fn shifted(x: [u64; 4], e: u32, p: [u64; 4]) -> [u64; 4] {
    let mut x = x;
    let mut i = 0;
    while i < e {
        let top = x[3] >> 63;
        x = [x[0] << 1, x[1] << 1 | x[0] >> 63, x[2] << 1 | x[1] >> 63, x[3] << 1 | x[2] >> 63];
        if top == 1 || !less(x, p) {
            let mut borrow = false;
            let mut k = 0;
            while k < 4 {
                let (d, b1) = x[k].overflowing_sub(p[k]);
                let (d, b2) = d.overflowing_sub(borrow as u64);
                x[k] = d;
                borrow = b1 | b2;
                k += 1;
            }
        }
        i += 1;
    }
    x
}

/// p - x, for 0 < x < p.
const fn negated(x: [u64; 4], p: [u64; 4]) -> [u64; 4] {
    let mut out = [0; 4];
    let mut borrow = false;
    let mut k = 0;
    while k < 4 {
        let (d, b1) = p[k].overflowing_sub(x[k]);
        let (d, b2) = d.overflowing_sub(borrow as u64);
        out[k] = d;
        borrow = b1 | b2;
        k += 1;
    }
    out
}

/// Constants of a field, held in its domain.
pub(crate) struct Held<F>(PhantomData<F>);

impl<F: Prime> Held<F> {
    /// One.
    pub(crate) const ONE: [u64; 5] = Self::of([1, 0, 0, 0]);
    /// What takes a plain element into the domain, as a factor.
    const INTO: [u64; 5] = limbs(shifted([1, 0, 0, 0], 2 * F::DOMAIN, F::P));
    /// What takes plain limbs, worth 2^260 more each, into the domain, as a factor.
    const INTO_HIGH: [u64; 5] = limbs(shifted([1, 0, 0, 0], 2 * F::DOMAIN + 260, F::P));
    /// A multiple of p from which one tight value can be subtracted limb by limb, leaving at least 2^52 - 2 in the lower
    /// limbs: 2p, with 2 · 2^52 borrowed into each of them. Below 2^257.
    pub(crate) const BIAS: [u64; 5] = Self::bias(2, 2);
    /// The same for three tight values: 4p. Below 2^258.
    pub(crate) const BIAS_3: [u64; 5] = Self::bias(4, 4);

    /// A small or large constant below p.
    pub(crate) const fn of(x: [u64; 4]) -> [u64; 5] {
        limbs(shifted(x, F::DOMAIN, F::P))
    }

    /// A small signed constant.
    pub(crate) const fn small(x: i64) -> [u64; 5] {
        let size = [x.unsigned_abs(), 0, 0, 0];
        Self::of(if x < 0 { negated(size, F::P) } else { size })
    }

    const fn bias(times: u64, borrow: u64) -> [u64; 5] {
        let p = limbs(F::P);
        let mut out = [0; 5];
        let mut i = 0;
        while i < 5 {
            // The limbs of times · p are not carried: they are below 2^54 and only their sum matters.
            out[i] = p[i] * times;
            if i < 4 {
                out[i] += borrow << 52;
            }
            if i > 0 {
                out[i] -= borrow;
            }
            i += 1;
        }
        out
    }
}

// ---- Arithmetic by the lane.

/// The same constant in every lane.
#[inline(always)]
pub(crate) fn splat<V: Lanes>(limbs: [u64; 5]) -> Limbs<V> {
    [V::splat(limbs[0]), V::splat(limbs[1]), V::splat(limbs[2]), V::splat(limbs[3]), V::splat(limbs[4])]
}

/// What column `k` starts with, to collect what `products` of two elements add to it.
const fn first<F: Prime, V: Lanes>(k: usize, products: u64) -> u64 {
    if V::MADD {
        return F::START[k];
    }
    // Pairs of limbs whose low part is of this column, and of the one before.
    let pairs = [0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0];
    let (low, high) = F::FOLD_PARTS[k];
    let (low, high) = (low + products * pairs[k + 1], high + products * pairs[k]);
    let origins = V::PART_LO_ORIGIN.wrapping_mul(low).wrapping_add(V::PART_HI_ORIGIN.wrapping_mul(high));
    F::SIGNED_START[k].wrapping_sub(origins)
}

/// Columns to add so many products to.
#[inline(always)]
fn start<F: Prime, V: Lanes>(products: u64) -> Columns<V> {
    let mut columns = [V::zero(); 10];
    for k in 0..10 {
        columns[k] = V::splat(first::<F, V>(k, products));
    }
    columns
}

/// Columns to add a product to, holding already an element (tight or raw).
#[inline(always)]
fn start_from<F: Prime, V: Lanes>(x: &Limbs<V>) -> Columns<V> {
    let mut columns = start::<F, V>(1);
    for i in 0..5 {
        let k = F::LIFT + i;
        columns[k] = if first::<F, V>(k, 1) == 0 { x[i] } else { columns[k].add(x[i]) };
    }
    columns
}

/// Adds a·b; factors may be loose.
#[inline(always)]
fn product<V: Lanes>(columns: &mut Columns<V>, a: &Limbs<V>, b: &Limbs<V>) {
    for i in 0..5 {
        if V::MADD {
            for j in 0..5 {
                columns[i + j] = columns[i + j].madd_lo(a[i], b[j]);
            }
            for j in 0..5 {
                columns[i + j + 1] = columns[i + j + 1].madd_hi(a[i], b[j]);
            }
        } else {
            for j in 0..5 {
                part(columns, i + j, a[i], b[j]);
            }
            pin(&mut columns[i..i + 6]);
        }
    }
}

/// Keeps sums as they are here: where there are 16 registers, six sums, two constants, a limb and two parts fit.
#[inline(always)]
fn pin<V: Lanes>(columns: &mut [V]) {
    for column in columns {
        *column = column.pin();
    }
}

/// Adds a product of two limbs at a column.
#[inline(always)]
pub(crate) fn part<V: Lanes>(columns: &mut Columns<V>, at: usize, a: V, b: V) {
    columns[at + 1] = columns[at + 1].part_hi(a, b);
    columns[at] = columns[at].part_lo(a, b);
}

/// The columns of a² + 2c, for c an element or raw; a may be loose.
#[inline(always)]
fn square_columns<F: Prime, V: Lanes>(a: &Limbs<V>, c: Option<&Limbs<V>>) -> Columns<V> {
    if !V::MADD {
        return square_by_parts::<F, V>(a, c);
    }
    let mut columns = [V::zero(); 10];
    if let Some(c) = c {
        columns[F::LIFT..F::LIFT + 5].copy_from_slice(c);
    }
    for i in 0..4 {
        for j in i + 1..5 {
            columns[i + j] = columns[i + j].madd_lo(a[i], a[j]);
            columns[i + j + 1] = columns[i + j + 1].madd_hi(a[i], a[j]);
        }
    }
    for k in 0..10 {
        if (k > 0 && k < 9) || (c.is_some() && k >= F::LIFT && k < F::LIFT + 5) {
            columns[k] = columns[k].add(columns[k]);
        }
        if F::START[k] != 0 {
            columns[k] = columns[k].add(V::splat(F::START[k]));
        }
    }
    for i in 0..5 {
        columns[2 * i] = columns[2 * i].madd_lo(a[i], a[i]);
        columns[2 * i + 1] = columns[2 * i + 1].madd_hi(a[i], a[i]);
    }
    columns
}

/// The same where products are made of parts.
#[inline(always)]
fn square_by_parts<F: Prime, V: Lanes>(a: &Limbs<V>, c: Option<&Limbs<V>>) -> Columns<V> {
    let doubled = |k: usize| (k > 0 && k < 9) || (c.is_some() && k >= F::LIFT && k < F::LIFT + 5);
    let mut columns = [V::zero(); 10];
    for k in 0..10 {
        // All that columns start with is even.
        columns[k] = V::splat(first::<F, V>(k, 1) >> u32::from(doubled(k)));
    }
    if let Some(c) = c {
        for i in 0..5 {
            columns[F::LIFT + i] = columns[F::LIFT + i].add(c[i]);
        }
    }
    for i in 0..4 {
        for j in i + 1..5 {
            part(&mut columns, i + j, a[i], a[j]);
        }
        pin(&mut columns[2 * i + 1..i + 6]);
    }
    for k in 0..10 {
        if doubled(k) {
            columns[k] = columns[k].add(columns[k]);
        }
    }
    for i in 0..5 {
        part(&mut columns, 2 * i, a[i], a[i]);
    }
    pin(&mut columns);
    columns
}

/// Adds x·2^bits at a column, for x below 2^60.
#[inline(always)]
pub(crate) fn add_shifted<V: Lanes>(columns: &mut Columns<V>, at: usize, x: V, bits: u32) {
    columns[at] = columns[at].add(x.shl(bits).and(V::splat(LOW_52)));
    columns[at + 1] = columns[at + 1].add(x.shr(52 - bits));
}

/// Takes x·2^bits away.
#[inline(always)]
pub(crate) fn sub_shifted<V: Lanes>(columns: &mut Columns<V>, at: usize, x: V, bits: u32) {
    columns[at] = columns[at].sub(x.shl(bits).and(V::splat(LOW_52)));
    columns[at + 1] = columns[at + 1].sub(x.shr(52 - bits));
}

/// The quotient q at column `i` in Montgomery's reduction by a prime p that is -1 modulo 2^52: q·(p + 1) is to be added from
/// the next column on, and with that this one is gone.
///
/// Any number will do that is the column modulo 2^52. So the first four columns are quotients as they stand, below 2^57, and
/// need no carry; the last one is carried. All together make a number below 2^260 + 2^214, instead of one below 2^260, which
/// makes the result larger by less than 2^210.
#[inline(always)]
pub(crate) fn quotient<V: Lanes>(columns: &mut Columns<V>, i: usize) -> V {
    if i < 4 {
        return columns[i];
    }
    columns[i + 1] = columns[i + 1].add(columns[i].shr(52));
    columns[i].and(V::splat(LOW_52))
}

/// Carries a raw element below 2^260 so that its limbs are below 2^52: tight if it was trimmed, wide otherwise.
#[inline(always)]
pub(crate) fn carry<V: Lanes>(mut raw: Limbs<V>) -> Limbs<V> {
    let low = V::splat(LOW_52);
    for i in 0..4 {
        raw[i + 1] = raw[i + 1].add(raw[i].shr(52));
        raw[i] = raw[i].and(low);
    }
    raw
}

/// Carries, but leaves the limbs loose.
#[inline(always)]
pub(crate) fn ripple<V: Lanes>(mut raw: Limbs<V>) -> Limbs<V> {
    for i in 0..4 {
        raw[i + 1] = raw[i + 1].add(raw[i].shr(52));
    }
    raw
}

// Each product is a call, unless the field is [`Hot`]: there are hundreds in the formulas of three curves, for each back end
// a copy.

struct Mul<'a, F, V>(&'a Limbs<V>, &'a Limbs<V>, PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for Mul<'_, F, V> {
    type Out = Limbs<V>;
    #[inline(always)]
    fn run(self) -> Limbs<V> {
        let mut columns = start::<F, V>(1);
        product(&mut columns, self.0, self.1);
        F::fold(columns)
    }
}

struct MulAdd<'a, F, V>(&'a Limbs<V>, &'a Limbs<V>, &'a Limbs<V>, PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for MulAdd<'_, F, V> {
    type Out = Limbs<V>;
    #[inline(always)]
    fn run(self) -> Limbs<V> {
        let mut columns = start_from::<F, V>(self.2);
        product(&mut columns, self.0, self.1);
        F::fold(columns)
    }
}

struct Square<'a, F, V>(&'a Limbs<V>, PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for Square<'_, F, V> {
    type Out = Limbs<V>;
    #[inline(always)]
    fn run(self) -> Limbs<V> {
        F::fold(square_columns::<F, V>(self.0, None))
    }
}

struct SquareAddTwice<'a, F, V>(&'a Limbs<V>, &'a Limbs<V>, PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for SquareAddTwice<'_, F, V> {
    type Out = Limbs<V>;
    #[inline(always)]
    fn run(self) -> Limbs<V> {
        F::fold(square_columns::<F, V>(self.0, Some(self.1)))
    }
}

#[inline(always)]
fn call<F: Prime, V: Lanes, P: Formula<V>>(product: P) -> P::Out {
    if F::HOT && V::INLINE { product.run() } else { V::call(product) }
}

/// a·b, raw; factors may be loose.
#[inline(always)]
pub(crate) fn mul_raw<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    call::<F, V, _>(Mul::<F, V>(a, b, PhantomData))
}

/// a·b, loose; factors may be loose.
#[inline(always)]
pub(crate) fn mul_loose<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    ripple(mul_raw::<F, V>(a, b))
}

/// a·b, wide; factors may be loose.
#[inline(always)]
pub(crate) fn mul<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    carry(mul_raw::<F, V>(a, b))
}

/// a·b, tight; factors may be loose.
#[inline(always)]
pub(crate) fn mul_tight<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(add(&mul_raw::<F, V>(a, b), &splat(Held::<F>::BIAS)))
}

/// a·b + c, raw; factors may be loose, c is tight or raw.
#[inline(always)]
pub(crate) fn mul_add<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>, c: &Limbs<V>) -> Limbs<V> {
    call::<F, V, _>(MulAdd::<F, V>(a, b, c, PhantomData))
}

/// a², raw; a may be loose.
#[inline(always)]
pub(crate) fn square_raw<F: Prime, V: Lanes>(a: &Limbs<V>) -> Limbs<V> {
    call::<F, V, _>(Square::<F, V>(a, PhantomData))
}

/// a² + 2c, raw; a may be loose, c is tight or raw.
#[inline(always)]
pub(crate) fn square_add_twice<F: Prime, V: Lanes>(a: &Limbs<V>, c: &Limbs<V>) -> Limbs<V> {
    call::<F, V, _>(SquareAddTwice::<F, V>(a, c, PhantomData))
}

/// a², loose; a may be loose.
#[inline(always)]
pub(crate) fn square_loose<F: Prime, V: Lanes>(a: &Limbs<V>) -> Limbs<V> {
    ripple(square_raw::<F, V>(a))
}

/// Sum limb by limb: raw.
#[inline(always)]
pub(crate) fn add<V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    [a[0].add(b[0]), a[1].add(b[1]), a[2].add(b[2]), a[3].add(b[3]), a[4].add(b[4])]
}

/// Difference limb by limb, of which none may go below zero: raw.
#[inline(always)]
pub(crate) fn sub<V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    [a[0].sub(b[0]), a[1].sub(b[1]), a[2].sub(b[2]), a[3].sub(b[3]), a[4].sub(b[4])]
}

/// Minus a tight value: raw, below 2^257.
#[inline(always)]
pub(crate) fn minus<F: Prime, V: Lanes>(a: &Limbs<V>) -> Limbs<V> {
    sub(&splat(Held::<F>::BIAS), a)
}

/// On where the mask is set, off where it is not.
#[inline(always)]
pub(crate) fn select<V: Lanes>(mask: V, on: &Limbs<V>, off: &Limbs<V>) -> Limbs<V> {
    [
        mask.select(on[0], off[0]),
        mask.select(on[1], off[1]),
        mask.select(on[2], off[2]),
        mask.select(on[3], off[3]),
        mask.select(on[4], off[4]),
    ]
}

/// A raw element, to which [`Held::BIAS`] or twice it has been added, brought to a tight one.
#[inline(always)]
pub(crate) fn tight<F: Prime, V: Lanes>(raw: Limbs<V>) -> Limbs<V> {
    carry(F::trim(raw))
}

/// The least representative of a tight value.
#[inline(always)]
fn least<F: Prime, V: Lanes>(x: &Limbs<V>) -> Limbs<V> {
    // x < 2^256 + 2^234 < 2p, and 2^256 - p makes the sum reach 2^256 exactly where x >= p.
    let low_48 = V::splat(LOW_48);
    let complement = const { limbs(negated_256(F::P)) };
    let mut y = carry(add(x, &splat(complement)));
    let reached = V::zero().lt(y[4].shr(48));
    y[4] = y[4].and(low_48);
    select(reached, &y, x)
}

/// 2^256 - x.
const fn negated_256(x: [u64; 4]) -> [u64; 4] {
    let mut out = [0; 4];
    let mut carry = 1u64;
    let mut k = 0;
    while k < 4 {
        let (d, c) = (!x[k]).overflowing_add(carry);
        out[k] = d;
        carry = c as u64;
        k += 1;
    }
    out
}

/// The element as the integer below p that it stands for, in limbs; x is tight or wide.
#[inline(always)]
pub(crate) fn plain<F: Prime, V: Lanes>(x: &Limbs<V>) -> Limbs<V> {
    if F::DOMAIN == 0 {
        return least::<F, V>(&tight::<F, V>(add(x, &splat(Held::<F>::BIAS))));
    }
    // A product with 1 leaves the domain: (x + q p) / 2^260 with q < 2^260 + 2^214 is at most p + 2^210.
    let mut columns = start::<F, V>(0);
    for i in 0..5 {
        columns[i] = columns[i].add(x[i]);
    }
    least::<F, V>(&carry(F::fold(columns)))
}

/// A number below 2^520 of ten limbs below 2^52, as a held element, tight.
#[inline(always)]
pub(crate) fn held_long<F: Prime, V: Lanes>(x: &Columns<V>) -> Limbs<V> {
    let (low, high) = ([x[0], x[1], x[2], x[3], x[4]], [x[5], x[6], x[7], x[8], x[9]]);
    let low = mul_raw::<F, V>(&low, &splat(Held::<F>::INTO));
    let sum = mul_add::<F, V>(&high, &splat(Held::<F>::INTO_HIGH), &low);
    tight::<F, V>(add(&sum, &splat(Held::<F>::BIAS)))
}

/// An integer below 2^256 as a held element, tight.
#[inline(always)]
pub(crate) fn held<F: Prime, V: Lanes>(x: &Limbs<V>) -> Limbs<V> {
    if F::DOMAIN == 0 { *x } else { mul_tight::<F, V>(x, &splat(Held::<F>::INTO)) }
}

/// The mask of the lanes in which two tight elements are equal modulo p.
#[inline(always)]
pub(crate) fn equal<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> V {
    let zero = V::zero();
    let d = plain::<F, V>(&tight::<F, V>(add(a, &minus::<F, V>(b))));
    d[0].or(d[1]).or(d[2]).or(d[3]).or(d[4]).eq(zero)
}

/// x^(2^times) of loose elements, loose.
struct Squarings<F, V, const N: usize>([Limbs<V>; N], usize, PhantomData<F>);

impl<F: Prime, V: Lanes, const N: usize> Formula<V> for Squarings<F, V, N> {
    type Out = [Limbs<V>; N];
    #[inline(always)]
    fn run(self) -> [Limbs<V>; N] {
        let Squarings(mut x, times, _) = self;
        for _ in 0..times {
            for x in &mut x {
                *x = ripple(F::fold(square_columns::<F, V>(x, None)));
            }
        }
        x
    }
}

/// x^((p - 3)/4) for `N` vectors of elements at once, whose steps are independent and fill the pipeline; loose.
#[inline(always)]
pub(crate) fn power_chain<F: Prime, V: Lanes, const N: usize>(x: &[Limbs<V>; N]) -> [Limbs<V>; N] {
    let mut registers = [*x; REGISTERS];
    let mut y = *x;
    for step in F::CHAIN {
        y = V::call(Squarings::<F, V, N>(registers[step.from], step.squarings, PhantomData));
        for (y, by) in y.iter_mut().zip(&registers[step.by]) {
            *y = mul_loose::<F, V>(y, by);
        }
        registers[step.to] = y;
    }
    y
}
