//! The field of p = 2^127 - 1 and its quadratic extension by i^2 = -1.
//!
//! # Representation
//! An [`Fp`] is `l0 + l1·2^43 + l2·2^86`: limbs of 43, 43 and 41 bits when carried. Three limbs are the fewest that
//! 52-bit products allow; 43 rather than 51 bits leaves nine bits of room in each, so that sums and differences go
//! into a product without a carry. 2^129 = 4 and 2^127 = 1 modulo p fold what overflows.
//!
//! # Bounds
//! With `u = 2^43`, a value is *below k u* if `l0, l1 < k·(2^43 + 2^16)` and `l2 < k·(2^41 + 2^15)`. Values below 1 u are
//! *tight*: products and squares are. For a and b below j and k u, `a + b` is below j+k u, and `a.sub::<K>(b)` with
//! K > k is below j+K u.
//!
//! A product of values below j and k u has jk units of *weight*; a product in [`Fp2`] sums two. The weight must be at
//! most 80. Then of the three places (i + j = 0, 1, 2 modulo 3) the high parts sum to at most
//! `80·3·2^86/2^52 < 2^43` at places 0 and 1 and `80·1.5·2^86/2^52 < 2^41` at place 2 (where a factor is a short top
//! limb, or both are middle limbs), so that they stay below 2^52 when they are moved up by 9 bits, or by 11 where 2^129
//! folds to 4. The low parts are in `[-2^51, 2^52)`, six to a place; with [`BIAS`] and the high parts the places are
//! positive and below 2^57, and one parallel carry (of at most 15 bits, 14 into the top limb) makes them tight. A summand
//! below 2^5 u, carried with a product, changes none of that.

use super::{Formula, Lanes};
use zeroize::Zeroize;

const LOW_43: u64 = (1 << 43) - 1;
const LOW_41: u64 = (1 << 41) - 1;

/// p, for the tests.
#[cfg(test)]
pub(crate) const P: u128 = (1 << 127) - 1;

/// An element of the field of 2^127 - 1 in every lane.
#[derive(Clone, Copy, Zeroize)]
pub(crate) struct Fp<V>([V; 3]);

/// What keeps places positive where a back end's low parts can be negative: 2^13·p, above 6·2^51 in every limb.
const BIAS: [u64; 3] = [LOW_43 << 13, LOW_43 << 13, LOW_41 << 13];

/// The sums of the low and the high parts of products, by place.
#[derive(Clone, Copy)]
struct Wide<V> {
    low: [V; 3],
    high: [V; 3],
}

/// `sum + x·2^bits` for `x < 2^(52 - bits)`.
#[inline(always)]
fn add_shl<V: Lanes>(sum: V, x: V, bits: u32) -> V {
    // Where products are instructions, a product by a power of two is a shift and an addition in one.
    if V::MADD { sum.madd_lo(x, V::splat(1 << bits)) } else { sum.add(x.shl(bits)) }
}

/// A left factor: its limbs, and four times the upper two, for the products that wrap around 2^129.
#[derive(Clone, Copy)]
struct Factor<V> {
    limbs: [V; 3],
    four: [V; 2],
}

impl<V: Lanes> Factor<V> {
    #[inline(always)]
    fn of(a: Fp<V>) -> Self {
        Self { limbs: a.0, four: [a.0[1].shl(2), a.0[2].shl(2)] }
    }
}

impl<V: Lanes> Wide<V> {
    /// Zero, ready for `pairs` products at each place.
    #[inline(always)]
    fn zero(pairs: u64) -> Self {
        let bias = |limb: u64| if V::LO_ORIGIN == 0 { 0 } else { limb.wrapping_sub(V::LO_ORIGIN.wrapping_mul(pairs)) };
        let high = V::splat(V::HI_ORIGIN.wrapping_mul(pairs).wrapping_neg());
        Self { low: [V::splat(bias(BIAS[0])), V::splat(bias(BIAS[1])), V::splat(bias(BIAS[2]))], high: [high; 3] }
    }

    /// Adds a value whose limbs are below 2^48 + 2^22, so that places stay below 2^57: one below 2^5 u.
    #[inline(always)]
    fn plus(self, Fp([a, b, c]): Fp<V>) -> Self {
        let [low, middle, top] = self.low;
        Self { low: [low.add(a), middle.add(b), top.add(c)], high: self.high }
    }

    /// Adds a·b at one place.
    #[inline(always)]
    fn at(&mut self, place: usize, a: V, b: V) {
        self.low[place] = self.low[place].wide_lo(a, b);
        self.high[place] = self.high[place].wide_hi(a, b);
    }

    /// Adds the product of a factor and a value: three products at each place.
    #[inline(always)]
    fn dot(mut self, a: &Factor<V>, b: &Fp<V>) -> Self {
        let (a, [four1, four2], b) = (a.limbs, a.four, b.0);
        self.at(0, a[0], b[0]);
        self.at(1, a[0], b[1]);
        self.at(2, a[0], b[2]);
        self.at(1, a[1], b[0]);
        self.at(2, a[1], b[1]);
        self.at(0, four1, b[2]);
        self.at(2, a[2], b[0]);
        self.at(0, four2, b[1]);
        self.at(1, four2, b[2]);
        self
    }

    /// Adds a square: two products at each place.
    #[inline(always)]
    fn square(mut self, a: &Fp<V>) -> Self {
        let [a0, a1, a2] = a.0;
        let (twice0, eight1, four2) = (a0.add(a0), a1.shl(3), a2.shl(2));
        self.at(0, a0, a0);
        self.at(1, twice0, a1);
        self.at(2, twice0, a2);
        self.at(0, eight1, a2);
        self.at(1, four2, a2);
        self.at(2, a1, a1);
        self
    }

    /// The tight value.
    #[inline(always)]
    fn reduce(self) -> Fp<V> {
        let Self { low, high } = self;
        // High parts stand at 2^SPLIT: SPLIT - 43 bits above the next place, and the last wraps around 2^129 = 4.
        Fp([
            add_shl(low[0], high[2], V::SPLIT - 41),
            add_shl(low[1], high[0], V::SPLIT - 43),
            add_shl(low[2], high[1], V::SPLIT - 43),
        ])
        .carry()
    }
}

impl<V: Lanes> Fp<V> {
    /// Zero.
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self([V::zero(); 3])
    }

    /// The same constant, below 2^128, in every lane.
    #[inline(always)]
    pub(crate) fn splat(value: u128) -> Self {
        Self([V::splat(value as u64 & LOW_43), V::splat((value >> 43) as u64 & LOW_43), V::splat((value >> 86) as u64)])
    }

    /// The value of two words, the lower first: tight, or below 2 u if bit 127 is set.
    #[inline(always)]
    pub(crate) fn from_words([low, high]: [V; 2]) -> Self {
        let mask = V::splat(LOW_43);
        Self([low.and(mask), low.shr(43).or(high.shl(21)).and(mask), high.shr(22)])
    }

    /// The two words of a frozen value.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [V; 2] {
        let [l0, l1, l2] = self.0;
        [l0.or(l1.shl(43)), l1.shr(21).or(l2.shl(22))]
    }

    /// Reads the three vectors at the front of `words`.
    #[inline(always)]
    pub(crate) fn load(words: &[u64]) -> Self {
        Self([V::load(words), V::load(&words[V::WIDTH..]), V::load(&words[2 * V::WIDTH..])])
    }

    /// Writes the three vectors to the front of `words`.
    #[inline(always)]
    pub(crate) fn store(self, words: &mut [u64]) {
        self.0[0].store(words);
        self.0[1].store(&mut words[V::WIDTH..]);
        self.0[2].store(&mut words[2 * V::WIDTH..]);
    }

    /// Sum, without a carry.
    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        Self([a[0].add(b[0]), a[1].add(b[1]), a[2].add(b[2])])
    }

    /// Difference plus K·p, without a carry: `other` must be below k u with k < K.
    #[inline(always)]
    pub(crate) fn sub<const K: u64>(self, other: Self) -> Self {
        self.add(other.neg::<K>())
    }

    /// K·p minus this, without a carry: `self` must be below k u with k < K. The result is below K u.
    #[inline(always)]
    pub(crate) fn neg<const K: u64>(self) -> Self {
        let a = self.0;
        let (wide, top) = (V::splat(K * LOW_43), V::splat(K * LOW_41));
        Self([wide.sub(a[0]), wide.sub(a[1]), top.sub(a[2])])
    }

    /// Carries each limb into the next, all at once: limbs below 2^57 become tight.
    #[inline(always)]
    pub(crate) fn carry(self) -> Self {
        let [c0, c1, c2] = self.0;
        let (wide, top) = (V::splat(LOW_43), V::splat(LOW_41));
        Self([c0.and(wide).add(c2.shr(41)), c1.and(wide).add(c0.shr(43)), c2.and(top).add(c1.shr(43))])
    }

    /// Product, tight, by a call. Weight: the product of the bounds.
    #[inline(always)]
    pub(crate) fn mul(self, other: Self) -> Self {
        V::call(Mul(self, other))
    }

    /// The same, by a call only where a back end prefers calls.
    #[inline(always)]
    pub(crate) fn times(self, other: Self) -> Self {
        V::hot(Mul(self, other))
    }

    /// The same, inlined.
    #[inline(always)]
    fn product(self, other: Self) -> Self {
        Wide::zero(3).dot(&Factor::of(self), &other).reduce()
    }

    /// Square of a value below 4 u, tight, by a call.
    #[inline(always)]
    pub(crate) fn square(self) -> Self {
        let [square] = V::call(Squares([self], 1));
        square
    }

    /// The same, inlined.
    #[inline(always)]
    fn squared(self) -> Self {
        Wide::zero(2).square(&self).reduce()
    }

    /// The canonical value, below p, of limbs below 2^57.
    #[inline(always)]
    pub(crate) fn freeze(self) -> Self {
        let (wide, top) = (V::splat(LOW_43), V::splat(LOW_41));
        let [mut c0, mut c1, mut c2] = self.0;
        // After the first pass the value is below 2^127 + 2^16; after the second below 2^127, because if the second
        // wraps, c0 is below 2^16 and takes the wrapped bit without a carry.
        for _ in 0..2 {
            c1 = c1.add(c0.shr(43));
            c2 = c2.add(c1.shr(43));
            c0 = c0.and(wide).add(c2.shr(41));
            (c1, c2) = (c1.and(wide), c2.and(top));
        }
        // Only p itself is left to fold.
        let is_p = c0.eq(wide).and(c1.eq(wide)).and(c2.eq(top));
        Self([c0.and_not(is_p), c1.and_not(is_p), c2.and_not(is_p)])
    }

    /// The mask of the lanes in which a frozen value is zero.
    #[inline(always)]
    pub(crate) fn is_zero(self) -> V {
        self.0[0].or(self.0[1]).or(self.0[2]).eq(V::zero())
    }

    /// The mask of the lanes in which the low bit of a frozen value is set.
    #[inline(always)]
    pub(crate) fn is_odd(self) -> V {
        // Compared, and not subtracted from zero: a compiler that sees how a mask is made tests the bit and branches.
        self.0[0].and(V::splat(1)).eq(V::splat(1))
    }

    /// The mask of the lanes in which bit 126 of a frozen value is set: which of x and -x it is.
    #[inline(always)]
    pub(crate) fn is_upper(self) -> V {
        V::zero().sub(self.0[2].shr(40))
    }

    /// `on` where the mask is set, `off` elsewhere.
    #[inline(always)]
    pub(crate) fn select(mask: V, on: Self, off: Self) -> Self {
        let (on, off) = (on.0, off.0);
        Self([mask.select(on[0], off[0]), mask.select(on[1], off[1]), mask.select(on[2], off[2])])
    }
}

struct Mul<V>(Fp<V>, Fp<V>);

impl<V: Lanes> Formula<V> for Mul<V> {
    type Out = Fp<V>;
    #[inline(always)]
    fn run(self) -> Fp<V> {
        self.0.product(self.1)
    }
}

/// Squares of `N` values below 4 u, so many times over. Several values are in flight because one square waits for the last.
struct Squares<V, const N: usize>([Fp<V>; N], u32);

impl<V: Lanes, const N: usize> Formula<V> for Squares<V, N> {
    type Out = [Fp<V>; N];
    #[inline(always)]
    fn run(self) -> [Fp<V>; N] {
        let Squares(mut x, times) = self;
        for _ in 0..times {
            for x in &mut x {
                *x = x.squared();
            }
        }
        x
    }
}

/// `x^(2^125)` of tight values: with 4·2^125 = p + 1, a square root of every square (RFC 9380, appendix I.1).
pub(crate) struct Root<V, const N: usize>(pub(crate) [Fp<V>; N]);

impl<V: Lanes, const N: usize> Formula<V> for Root<V, N> {
    type Out = [Fp<V>; N];
    #[inline(always)]
    fn run(self) -> Self::Out {
        V::call(Squares(self.0, 125))
    }
}

/// `x^((p-3)/4) = x^(2^125 - 1)` of tight values: s with s²x = 1 if x is a non-zero square, and s²x = -1 if it is none.
pub(crate) struct InverseRoot<V, const N: usize>(pub(crate) [Fp<V>; N]);

impl<V: Lanes, const N: usize> Formula<V> for InverseRoot<V, N> {
    type Out = [Fp<V>; N];
    #[inline(always)]
    fn run(self) -> Self::Out {
        #[inline(always)]
        fn join<V: Lanes, const N: usize>(high: [Fp<V>; N], times: u32, low: [Fp<V>; N]) -> [Fp<V>; N] {
            let mut high = V::call(Squares(high, times));
            for (high, low) in high.iter_mut().zip(low) {
                *high = high.mul(low);
            }
            high
        }
        // Exponents 2^k - 1 for k = 1, 2, 4, 5, 10, 20, 25, 50, 100, 125.
        let e1 = self.0;
        let e2 = join(e1, 1, e1);
        let e4 = join(e2, 2, e2);
        let e5 = join(e4, 1, e1);
        let e10 = join(e5, 5, e5);
        let e20 = join(e10, 10, e10);
        let e25 = join(e20, 5, e5);
        let e50 = join(e25, 25, e25);
        let e100 = join(e50, 50, e50);
        join(e100, 25, e25)
    }
}

/// Inverses of tight values by Montgomery's trick, one exponentiation for all; the inverse of zero is zero.
pub(crate) fn invert<V: Lanes>(values: &mut [Fp<V>]) {
    V::call(Invert(values));
}

struct Invert<'a, V>(&'a mut [Fp<V>]);

impl<V: Lanes> Formula<V> for Invert<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let values = self.0;
        let mut before = Vec::with_capacity(values.len());
        let mut product = Fp::splat(1);
        for value in values.iter_mut() {
            // A zero takes no part in the products: one stands in for it, and its inverse is cleared at the end.
            let zero = value.freeze().is_zero();
            *value = Fp::select(zero, Fp::splat(1), *value);
            before.push((product, zero));
            product = product.mul(*value);
        }
        // p - 2 = 4·(2^125 - 1) + 1.
        let [x] = InverseRoot([product]).run();
        let mut inverse = x.square().square().mul(product);
        for (value, (before, zero)) in values.iter_mut().zip(before).rev() {
            let this = inverse.mul(before);
            inverse = inverse.mul(*value);
            *value = Fp::select(zero, Fp::zero(), this);
        }
    }
}

/// An element re + im·i of the quadratic extension in every lane.
#[derive(Clone, Copy)]
pub(crate) struct Fp2<V> {
    pub(crate) re: Fp<V>,
    pub(crate) im: Fp<V>,
}

impl<V: Lanes> Zeroize for Fp2<V> {
    fn zeroize(&mut self) {
        self.re.zeroize();
        self.im.zeroize();
    }
}

/// The left factor of a product, prepared once for several.
#[derive(Clone, Copy)]
pub(crate) struct Left<V> {
    sum: Factor<V>,
    re: Factor<V>,
    minus_im: Factor<V>,
}

impl<V: Lanes> Left<V> {
    /// The product, tight. Weight: the larger of 2(j + K)·k and (3k + 5)·j, for the factor below j u, prepared with K,
    /// and `other` below k u, k < 5.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Fp2<V>) -> Fp2<V> {
        V::hot(LeftProduct(self, other))
    }

    /// The product and a value below 2^5 u, tight: one carry for both.
    #[inline(always)]
    pub(crate) fn mul_plus(&self, other: &Fp2<V>, plus: Fp2<V>) -> Fp2<V> {
        V::hot(LeftProductPlus(self, other, plus))
    }

    /// Three products of the prime field instead of four, after Gauss: with `c = (a0 + a1)·b0` the real part is
    /// `c - a1·(b0 + b1)` and the imaginary part `c + a0·(b1 - b0)`. Both go on summing where c ended, so what is saved
    /// is not paid back in additions of double length.
    #[inline(always)]
    fn wide(&self, b: &Fp2<V>) -> [Wide<V>; 2] {
        let common = Wide::zero(6).dot(&self.sum, &b.re);
        [common.dot(&self.minus_im, &b.re.add(b.im)), common.dot(&self.re, &b.im.sub::<5>(b.re))]
    }
}

struct LeftProduct<'a, V>(&'a Left<V>, &'a Fp2<V>);

impl<V: Lanes> Formula<V> for LeftProduct<'_, V> {
    type Out = Fp2<V>;
    #[inline(always)]
    fn run(self) -> Fp2<V> {
        let [re, im] = self.0.wide(self.1);
        Fp2 { re: re.reduce(), im: im.reduce() }
    }
}

struct LeftProductPlus<'a, V>(&'a Left<V>, &'a Fp2<V>, Fp2<V>);

impl<V: Lanes> Formula<V> for LeftProductPlus<'_, V> {
    type Out = Fp2<V>;
    #[inline(always)]
    fn run(self) -> Fp2<V> {
        let LeftProductPlus(a, b, plus) = self;
        let [re, im] = a.wide(b);
        Fp2 { re: re.plus(plus.re).reduce(), im: im.plus(plus.im).reduce() }
    }
}

/// A constant of the extension: its real and imaginary parts.
pub(crate) type Constant = (u128, u128);

impl<V: Lanes> Fp2<V> {
    /// The same constant in every lane.
    #[inline(always)]
    pub(crate) fn splat((re, im): Constant) -> Self {
        Self { re: Fp::splat(re), im: Fp::splat(im) }
    }

    /// Zero.
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self { re: Fp::zero(), im: Fp::zero() }
    }

    /// Reads the six vectors at the front of `words`.
    #[inline(always)]
    pub(crate) fn load(words: &[u64]) -> Self {
        Self { re: Fp::load(words), im: Fp::load(&words[3 * V::WIDTH..]) }
    }

    /// Writes the six vectors to the front of `words`.
    #[inline(always)]
    pub(crate) fn store(self, words: &mut [u64]) {
        self.re.store(words);
        self.im.store(&mut words[3 * V::WIDTH..]);
    }

    /// Sum, without a carry.
    #[inline(always)]
    pub(crate) fn add(self, other: Self) -> Self {
        Self { re: self.re.add(other.re), im: self.im.add(other.im) }
    }

    /// Twice this, without a carry.
    #[inline(always)]
    pub(crate) fn twice(self) -> Self {
        self.add(self)
    }

    /// Difference, as [`Fp::sub`].
    #[inline(always)]
    pub(crate) fn sub<const K: u64>(self, other: Self) -> Self {
        Self { re: self.re.sub::<K>(other.re), im: self.im.sub::<K>(other.im) }
    }

    /// Negative, as [`Fp::neg`].
    #[inline(always)]
    pub(crate) fn neg<const K: u64>(self) -> Self {
        Self { re: self.re.neg::<K>(), im: self.im.neg::<K>() }
    }

    /// The conjugate, which is the p-th power, of a tight value; below 2 u.
    #[inline(always)]
    pub(crate) fn conj(self) -> Self {
        Self { re: self.re, im: self.im.neg::<2>() }
    }

    /// The conjugate of a value below 2 u; below 3 u.
    #[inline(always)]
    pub(crate) fn conj_wide(self) -> Self {
        Self { re: self.re, im: self.im.neg::<3>() }
    }

    /// This as a left factor; it must be below k u with k < K.
    #[inline(always)]
    pub(crate) fn left<const K: u64>(self) -> Left<V> {
        Left {
            sum: Factor::of(self.re.add(self.im)),
            re: Factor::of(self.re),
            minus_im: Factor::of(self.im.neg::<K>()),
        }
    }

    /// The conjugate as a left factor, whose products have the weight (3j + K)·k or (j + K)·k + (k + 5)·j: the value must
    /// be below j u with j < K.
    #[inline(always)]
    pub(crate) fn left_conj<const K: u64>(self) -> Left<V> {
        Left { sum: Factor::of(self.re.sub::<K>(self.im)), re: Factor::of(self.re), minus_im: Factor::of(self.im) }
    }

    /// Square, tight. Weight: 2j·(j + K) or 2j², for a value below j u, j < K.
    #[inline(always)]
    pub(crate) fn square<const K: u64>(self) -> Self {
        V::hot(ExtensionSquare::<V, K>(&self))
    }

    /// The square, as [`Fp2::square`], and a value below 2^5 u, tight: one carry for both.
    #[inline(always)]
    pub(crate) fn square_plus<const K: u64>(self, plus: Self) -> Self {
        V::hot(ExtensionSquarePlus::<V, K>(&self, plus))
    }

    /// The square and what the sums of its two parts begin with, tight.
    #[inline(always)]
    fn square_onto<const K: u64>(&self, [of_re, of_im]: [Wide<V>; 2]) -> Self {
        let Self { re, im } = *self;
        let (sum, difference) = (re.add(im), re.sub::<K>(im));
        Self {
            re: of_re.dot(&Factor::of(sum), &difference).reduce(),
            im: of_im.dot(&Factor::of(re.add(re)), &im).reduce(),
        }
    }

    /// The norm re² + im² of a value below 4 u, tight.
    #[inline(always)]
    pub(crate) fn norm(self) -> Fp<V> {
        V::hot(Norm(&self))
    }

    /// The product with an element of the prime field, tight.
    #[inline(always)]
    pub(crate) fn scale(self, by: Fp<V>) -> Self {
        Self { re: self.re.mul(by), im: self.im.mul(by) }
    }

    /// The same value, tight, of limbs below 2^57.
    #[inline(always)]
    pub(crate) fn carried(self) -> Self {
        Self { re: self.re.carry(), im: self.im.carry() }
    }

    /// Both coordinates frozen.
    #[inline(always)]
    pub(crate) fn freeze(self) -> Self {
        Self { re: self.re.freeze(), im: self.im.freeze() }
    }

    /// The mask of the lanes in which a frozen value is zero.
    #[inline(always)]
    pub(crate) fn is_zero(self) -> V {
        self.re.is_zero().and(self.im.is_zero())
    }

    /// `on` where the mask is set, `off` elsewhere.
    #[inline(always)]
    pub(crate) fn select(mask: V, on: Self, off: Self) -> Self {
        Self { re: Fp::select(mask, on.re, off.re), im: Fp::select(mask, on.im, off.im) }
    }
}

struct Norm<'a, V>(&'a Fp2<V>);

impl<V: Lanes> Formula<V> for Norm<'_, V> {
    type Out = Fp<V>;
    #[inline(always)]
    fn run(self) -> Fp<V> {
        Wide::zero(4).square(&self.0.re).square(&self.0.im).reduce()
    }
}

struct ExtensionSquare<'a, V, const K: u64>(&'a Fp2<V>);

impl<V: Lanes, const K: u64> Formula<V> for ExtensionSquare<'_, V, K> {
    type Out = Fp2<V>;
    #[inline(always)]
    fn run(self) -> Fp2<V> {
        self.0.square_onto::<K>([Wide::zero(3); 2])
    }
}

struct ExtensionSquarePlus<'a, V, const K: u64>(&'a Fp2<V>, Fp2<V>);

impl<V: Lanes, const K: u64> Formula<V> for ExtensionSquarePlus<'_, V, K> {
    type Out = Fp2<V>;
    #[inline(always)]
    fn run(self) -> Fp2<V> {
        let ExtensionSquarePlus(a, plus) = self;
        a.square_onto::<K>([Wide::zero(3).plus(plus.re), Wide::zero(3).plus(plus.im)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{self, Kernel};
    use num_bigint::BigUint;
    use vesica_cpu::Backend;

    /// A value by its limbs.
    type Limbs = [u64; 3];

    fn value(limbs: Limbs) -> BigUint {
        (BigUint::from(limbs[0]) + (BigUint::from(limbs[1]) << 43) + (BigUint::from(limbs[2]) << 86)) % P
    }

    /// The limbs of the largest value below k u, less `down` in each.
    fn largest(k: u64, down: u64) -> Limbs {
        let wide = k * ((1 << 43) + (1 << 16)) - 1 - down;
        [wide, wide, k * ((1 << 41) + (1 << 15)) - 1 - down]
    }

    /// Every operation of the prime field on `a` and `b`, in the first lane: the weight of their product is at most 80.
    struct Prime(Limbs, Limbs);

    #[inline(always)]
    fn fp<V: Lanes>(limbs: Limbs) -> Fp<V> {
        Fp([V::splat(limbs[0]), V::splat(limbs[1]), V::splat(limbs[2])])
    }

    /// The limbs as they are, and frozen, of the first lane.
    #[inline(always)]
    fn both<V: Lanes>(x: Fp<V>) -> [Limbs; 2] {
        let mut out = [[0; 3]; 2];
        for (out, x) in out.iter_mut().zip([x, x.freeze()]) {
            let mut words = [0; 24];
            x.store(&mut words);
            *out = [words[0], words[V::WIDTH], words[2 * V::WIDTH]];
        }
        out
    }

    impl Kernel for Prime {
        type Out = Vec<[Limbs; 2]>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Out {
            let (a, b) = (fp::<V>(self.0), fp::<V>(self.1));
            vec![
                both(a.mul(b)),
                both(b.mul(a)),
                both(a.add(b)),
                both(a.sub::<81>(b)),
                both(b.neg::<81>()),
                both(a.carry()),
            ]
        }
    }

    /// The bounds that a tight value keeps.
    fn assert_tight(limbs: Limbs) {
        let bound = largest(1, 0);
        assert!(limbs[0] <= bound[0] && limbs[1] <= bound[1] && limbs[2] <= bound[2], "{limbs:x?}");
    }

    fn assert_canonical(limbs: Limbs) {
        assert!(limbs[0] >> 43 == 0 && limbs[1] >> 43 == 0 && limbs[2] >> 41 == 0);
        assert!(limbs != [LOW_43, LOW_43, LOW_41]);
    }

    #[test]
    fn prime_field_at_its_bounds() {
        let p = BigUint::from(P);
        let tops = [(1, 80), (80, 1), (2, 40), (4, 20), (8, 10), (9, 8), (1, 1), (40, 2)];
        let mut pairs: Vec<(Limbs, Limbs)> = vec![];
        for (j, k) in tops {
            pairs.extend([(largest(j, 0), largest(k, 0)), (largest(j, 1), largest(k, 0)), (largest(j, 0), [0; 3])]);
            for i in 0..3 {
                // One limb at its bound, the others zero or one.
                let mut limbs = [i as u64 & 1; 3];
                limbs[i] = largest(j, 0)[i];
                pairs.push((limbs, largest(k, 0)));
            }
        }
        let modulus = [LOW_43, LOW_43, LOW_41];
        let edges =
            [[0; 3], [1, 0, 0], modulus, [LOW_43 - 1, LOW_43, LOW_41], [LOW_43 + 1, LOW_43, LOW_41], [0, 0, 1 << 41]];
        pairs.extend(edges.iter().flat_map(|&a| edges.map(|b| (a, b))));
        for backend in Backend::available() {
            for &(a, b) in &pairs {
                let (x, y) = (value(a), value(b));
                let want = [&x * &y % P, &x * &y % P, (&x + &y) % P, (&x + &p - &y) % P, (&p - &y) % P, x.clone()];
                let got = backend::run_on(backend, Prime(a, b));
                for (i, (got, want)) in got.iter().zip(want).enumerate() {
                    assert_eq!(value(got[0]), want, "{backend} {i} {a:x?} {b:x?}");
                    assert_eq!(value(got[1]), want, "{backend} {i} {a:x?} {b:x?}");
                    assert_canonical(got[1]);
                    if [0, 1, 5].contains(&i) {
                        assert_tight(got[0]);
                    }
                }
            }
        }
    }

    /// Products, squares, norms and inverses in the extension.
    struct Extension([Limbs; 2], [Limbs; 2]);

    impl Kernel for Extension {
        type Out = Vec<[Limbs; 2]>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Out {
            let a = Fp2 { re: fp::<V>(self.0[0]), im: fp(self.0[1]) };
            let b = Fp2 { re: fp::<V>(self.1[0]), im: fp(self.1[1]) };
            let product = a.left::<8>().mul(&b);
            let tight = product.carried();
            let (square, wide) = (tight.square::<2>(), tight.add(tight).add(tight).square::<4>());
            let mut inverses = [tight.norm(), Fp::zero(), tight.norm(), Fp::splat(P)];
            invert(&mut inverses);
            let [s] = V::call(InverseRoot([tight.re]));
            let [r] = V::call(Root([tight.re]));
            let mut out = vec![both(product.re), both(product.im), both(square.re), both(square.im)];
            out.extend([both(wide.re), both(wide.im), both(tight.norm()), both(s), both(r)]);
            out.extend(inverses.map(both));
            out
        }
    }

    #[test]
    fn extension_at_its_bounds() {
        let p = BigUint::from(P);
        // Factors prepared with 8: the weights are 77, 80 and 72.
        let mut cases: Vec<_> =
            [(7, 2), (2, 4), (1, 4)].map(|(j, k)| ([largest(j, 0); 2], [largest(k, 0); 2])).to_vec();
        for i in 0..4 {
            let mut parts = [largest(7, 0), largest(7, 0), largest(2, 0), largest(2, 0)];
            parts[i] = [0; 3];
            cases.push(([parts[0], parts[1]], [parts[2], parts[3]]));
            parts = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 5, 7]];
            parts[i] = [LOW_43, LOW_43, LOW_41];
            cases.push(([parts[0], parts[1]], [parts[2], parts[3]]));
        }
        for backend in Backend::available() {
            for &(a, b) in &cases {
                let got = backend::run_on(backend, Extension(a, b));
                let (a, b) = (a.map(value), b.map(value));
                let re = (&a[0] * &b[0] + &p * &p - &a[1] * &b[1]) % P;
                let im = (&a[0] * &b[1] + &a[1] * &b[0]) % P;
                let square = [(&re * &re + &p * &p - &im * &im) % P, BigUint::from(2u8) * &re * &im % P];
                let norm = (&re * &re + &im * &im) % P;
                let inverse = norm.modpow(&(&p - 2u8), &p);
                let nine = |x: &BigUint| x * 9u8 % P;
                let want = [
                    re.clone(),
                    im,
                    square[0].clone(),
                    square[1].clone(),
                    nine(&square[0]),
                    nine(&square[1]),
                    norm,
                    re.modpow(&((&p - 3u8) / 4u8), &p),
                    re.modpow(&((&p + 1u8) / 4u8), &p),
                    inverse.clone(),
                    BigUint::ZERO,
                    inverse,
                    BigUint::ZERO,
                ];
                for (i, (got, want)) in got.iter().zip(want).enumerate() {
                    assert_eq!(value(got[0]), want, "{backend} {i}");
                    assert_eq!(value(got[1]), want, "{backend} {i}");
                    assert_tight(got[0]);
                }
            }
        }
    }

    /// The products of a line's steps at their bounds, for `a` below 3 u and `b` below 4 u, and a summand below 2^5 u.
    struct Steps([Limbs; 2], [Limbs; 2], [Limbs; 2]);

    impl Kernel for Steps {
        type Out = Vec<[Limbs; 2]>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Self::Out {
            let [a, b, plus] = [self.0, self.1, self.2].map(|[re, im]| Fp2 { re: fp::<V>(re), im: fp(im) });
            let out = [
                a.left_conj::<4>().mul(&b),
                a.left::<4>().mul_plus(&b, plus),
                // Of weight 77, where 80 is allowed.
                a.add(b).left::<8>().mul_plus(&Fp2 { re: a.re.carry().add(a.re.carry()), im: plus.im.carry() }, plus),
                b.square_plus::<5>(plus),
            ];
            out.into_iter().flat_map(|x| [both(x.re), both(x.im)]).chain([both(a.norm())]).collect()
        }
    }

    #[test]
    fn steps_at_their_bounds() {
        let p = BigUint::from(P);
        let times = |[a, b]: &[BigUint; 2], [c, d]: &[BigUint; 2]| {
            [(a * c + (&p * &p - b * d % &p)) % &p, (a * d + b * c) % &p]
        };
        let sum = |[a, b]: [BigUint; 2], [c, d]: &[BigUint; 2]| [(a + c) % &p, (b + d) % &p];
        for backend in Backend::available() {
            for which in 0..64 {
                let part = |i: usize, k: u64| if which >> i & 1 == 1 { largest(k, 0) } else { [0; 3] };
                let limbs = [[part(0, 3), part(1, 3)], [part(2, 4), part(3, 4)], [part(4, 32), part(5, 32)]];
                let got = backend::run_on(backend, Steps(limbs[0], limbs[1], limbs[2]));
                let [a, b, plus] = limbs.map(|parts| parts.map(value));
                let conj = [a[0].clone(), (&p - &a[1]) % &p];
                let right = [2u8 * &a[0] % &p, plus[1].clone()];
                let want = [
                    times(&conj, &b),
                    sum(times(&a, &b), &plus),
                    sum(times(&sum(a.clone(), &b), &right), &plus),
                    sum(times(&b, &b), &plus),
                ];
                let norm = (&a[0] * &a[0] + &a[1] * &a[1]) % &p;
                for (i, (got, want)) in got.iter().zip(want.into_iter().flatten().chain([norm])).enumerate() {
                    assert_eq!(value(got[0]), want, "{backend} {which} {i}");
                    assert_eq!(value(got[1]), want, "{backend} {which} {i}");
                    assert_tight(got[0]);
                }
            }
        }
    }

    /// Two words to an element and back.
    struct Words([u64; 2]);

    impl Kernel for Words {
        type Out = [u64; 2];
        #[inline(always)]
        fn run<V: Lanes>(self) -> [u64; 2] {
            let words = Fp::from_words([V::splat(self.0[0]), V::splat(self.0[1])]).freeze().to_words();
            let mut out = [[0; 8]; 2];
            words[0].store(&mut out[0]);
            words[1].store(&mut out[1]);
            [out[0][0], out[1][0]]
        }
    }

    #[test]
    fn words_are_read_modulo_p() {
        let max = u128::MAX;
        for x in [0, 1, P - 1, P, P + 1, 2 * P - 1, 2 * P, max, 1 << 127, (1 << 43) - 1, 1 << 86, max << 64, max >> 64]
        {
            let want = x % P;
            for backend in Backend::available() {
                let got = backend::run_on(backend, Words([x as u64, (x >> 64) as u64]));
                assert_eq!(got, [want as u64, (want >> 64) as u64], "{backend} {x:x}");
            }
        }
    }
}
