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
//! positive and below 2^58, and one parallel carry (of at most 15 bits, 14 into the top limb) makes them tight.

use super::{Formula, Lanes};

const LOW_43: u64 = (1 << 43) - 1;
const LOW_41: u64 = (1 << 41) - 1;

/// p.
pub(crate) const P: u128 = (1 << 127) - 1;

/// An element of the field of 2^127 - 1 in every lane.
#[derive(Clone, Copy)]
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
    if V::SPLIT == 52 { sum.madd_lo(x, V::splat(1 << bits)) } else { sum.add(x.shl(bits)) }
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

    /// Product, tight. Weight: the product of the bounds.
    #[inline(always)]
    pub(crate) fn mul(self, other: Self) -> Self {
        Wide::zero(3).dot(&Factor::of(self), &other).reduce()
    }

    /// Square of a value below 4 u, tight.
    #[inline(always)]
    pub(crate) fn square(self) -> Self {
        let [a0, a1, a2] = self.0;
        let (twice0, eight1, four2) = (a0.add(a0), a1.shl(3), a2.shl(2));
        let mut wide = Wide::zero(2);
        wide.at(0, a0, a0);
        wide.at(1, twice0, a1);
        wide.at(2, twice0, a2);
        wide.at(0, eight1, a2);
        wide.at(1, four2, a2);
        wide.at(2, a1, a1);
        wide.reduce()
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
        V::zero().sub(self.0[0].and(V::splat(1)))
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

/// Squares of `N` values, `times` times over. Several values are in flight because one square waits for the last.
#[inline(always)]
pub(crate) fn squares<V: Lanes, const N: usize>(mut x: [Fp<V>; N], times: u32) -> [Fp<V>; N] {
    for _ in 0..times {
        for x in &mut x {
            *x = x.square();
        }
    }
    x
}

/// `x^(2^125)` of tight values: with 4·2^125 = p + 1, a square root of every square (RFC 9380, appendix I.1).
pub(crate) struct Root<V, const N: usize>(pub(crate) [Fp<V>; N]);

impl<V: Lanes, const N: usize> Formula<V> for Root<V, N> {
    type Out = [Fp<V>; N];
    #[inline(always)]
    fn run(self) -> Self::Out {
        squares(self.0, 125)
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
            let mut high = squares(high, times);
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
        let mut inverse = squares([x], 2)[0].mul(product);
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

/// The left factor of a product, prepared once for several.
#[derive(Clone, Copy)]
pub(crate) struct Left<V> {
    re: Factor<V>,
    im: Factor<V>,
    minus_im: Factor<V>,
}

impl<V: Lanes> Left<V> {
    /// The product, tight. Weight: (j + K)·k, for the factor below j u, prepared with K, and `other` below k u.
    ///
    /// Schoolbook: with prepared factors Karatsuba's method trades 18 multiply-adds for as many additions.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Fp2<V>) -> Fp2<V> {
        Fp2 {
            re: Wide::zero(6).dot(&self.re, &other.re).dot(&self.minus_im, &other.im).reduce(),
            im: Wide::zero(6).dot(&self.re, &other.im).dot(&self.im, &other.re).reduce(),
        }
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
        Left { re: Factor::of(self.re), im: Factor::of(self.im), minus_im: Factor::of(self.im.neg::<K>()) }
    }

    /// Square, tight. Weight: 2j·(j + K) or 2j², for a value below j u, j < K.
    #[inline(always)]
    pub(crate) fn square<const K: u64>(self) -> Self {
        let (sum, difference) = (self.re.add(self.im), self.re.sub::<K>(self.im));
        Self { re: sum.mul(difference), im: self.re.add(self.re).mul(self.im) }
    }

    /// The norm re² + im² of a value below 4 u, tight.
    #[inline(always)]
    pub(crate) fn norm(self) -> Fp<V> {
        self.re.square().add(self.im.square()).carry()
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
