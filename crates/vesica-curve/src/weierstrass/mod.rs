//! Short Weierstrass curves of prime order, y^2 = x^3 + ax + b with a = 0 or a = -3: one program for secp256k1, SM2 and
//! P-256, batches through and through.
//!
//! **Only x travels.** Diffie-Hellman compares x([ab]P), and x([k]P) = x([k](-P)) for every k, so the sign of y changes
//! nothing that anybody looks at: not the tags, not what a peer can test, and H(x) and -H(x) are equally unknown multiples
//! of everything. An element is 32 bytes, x in big-endian order: the compressed point of SEC 1 without its first byte.
//!
//! **No square root.** Given x, let g = x^3 + ax + b. If g is a square, x belongs to a point, and (g·x, g^2) is its image on
//! the isomorphic curve y^2 = x^3 + a·g^2·x + b·g^3, whose coordinates need no root of g; the formulas below never use b,
//! and take a from the element. So an element is held as (X, W, s): W = 2Y, (X, Y) on the curve with a·s^2 and b·s^3, and
//! x = X/s. A decoded element has s = g, a hashed one s = Z^2 of its Jacobian form, and multiplication leaves s alone.
//!
//! **Affine, all together.** All elements take the same steps, because the scalar is the same for all; so the inversion
//! that an affine step needs is shared by a block of some thousand elements (P. Montgomery, "Speeding the Pollard and
//! elliptic curve methods", Math. Comp. 48, 1987): three multiplications each. A doubling then costs 5M + 2S, and 2P + Q
//! (without the y of P + Q: K. Eisentraeger, K. Lauter, P. Montgomery, CT-RSA 2003) 9M + 2S, where Jacobian coordinates
//! take 4M + 4S and 12M + 9S. The pass over the block that uses one step's inverses also multiplies up the next step's.
//!
//! **No exceptional case.** Affine formulas fail where a denominator is zero, and one zero would spoil its block. All
//! elements have the prime order n (decoding refuses the twist), so the denominators of a step vanish together, for all
//! elements or none, whatever a peer sends; and the recodings of scalars are such that they never do: see
//! [`Curve::recode`]. A hashed element would have to be a zero of a fixed map, which takes a preimage of SHA-256 to find.
//!
//! **Constant time.** The sequence of steps is fixed; a digit of the scalar picks its multiple from the table by reading
//! all of it under masks that all lanes share.

// `Curve` is the crate's own: the types that are generic over it are reached through their curves' names.
#![allow(private_bounds)]

use crate::backend::{self, Kernel};
use crate::field::invert::invert;
use crate::field::prime256::*;
use crate::field::{Formula, Lanes};
use crate::messages::Messages;
use crate::{BadElement, Dst, SecretScalar};
use std::marker::PhantomData;
use vesica_cpu::Backend;
use vesica_types::Digest;
use zeroize::Zeroize;

pub(crate) mod blind;

/// A curve over the field that it also names.
pub(crate) trait Curve: Prime {
    /// Whether a = 0; otherwise a = -3.
    const A_IS_ZERO: bool;
    /// b.
    const B: [u64; 4];
    /// The prime order, above 2^255.
    const ORDER: [u64; 4];
    /// The base point of the standard: 2 or 3, as the lowest bit of y is, and x.
    const BASE: (u8, [u64; 4]);
    /// How many digits the multipliers that blind have: an even number, and enough for [`blind`].
    const WINDOWS: usize;
    /// A non-trivial cube root of one in the field, if multiplying x by it is an endomorphism that is used.
    const BETA: Option<[u64; 4]> = None;
    /// How many multiples of an element the table holds.
    const TABLE: usize;
    /// How many doublings stand between two digits, the one that is part of 2P + Q not counted: at least one.
    const DOUBLINGS: usize;
    /// The curve that is hashed to: this one, or one with an isogeny to it, where neither a nor b is zero.
    const MAP: Map;

    /// The digits of a scalar in `1..n`, most significant first, in constant time.
    ///
    /// With m the multiple of the element that has been reached, a digit d takes it to 2^(DOUBLINGS + 1)·m + d, by
    /// doublings to m' and one step 2P + Q. That step fails if m' = ±d or 2m' + d = 0 modulo n; implementations say why
    /// this does not happen.
    fn recode(k: &[u64; 4]) -> Digits;

    /// Fills the table: the element itself, and the other multiples that digits name.
    fn table<V: Lanes>(work: &mut Work<V>);

    /// Takes a hashed point, in Jacobian form (X, 2Y, Z), from the curve that is hashed to, to this one.
    fn leave<V: Lanes>(x: Limbs<V>, w: Limbs<V>, z: Limbs<V>) -> [Limbs<V>; 3];

    /// Multiplies on the chosen back end; by [`entries`].
    fn mul(points: Points<Self>, k: &Scalar<Self>) -> Points<Self>;

    /// Encodes on the chosen back end; by [`entries`].
    fn encode(points: &Points<Self>, wire: &mut Vec<u8>);

    /// The base point's multiples, made once; by [`entries`].
    fn base_table() -> &'static blind::Table<Self>;
}

/// What makes of a curve's kernels functions of this crate: code that is generic over the curve would be compiled again, for
/// every back end, in each crate that uses it.
macro_rules! entries {
    () => {
        fn mul(points: Points<Self>, k: &Scalar<Self>) -> Points<Self> {
            points.mul_on(Backend::chosen(), k)
        }

        fn encode(points: &Points<Self>, wire: &mut Vec<u8>) {
            points.encode_on(Backend::chosen(), wire);
        }

        fn base_table() -> &'static weierstrass::blind::Table<Self> {
            static TABLE: std::sync::OnceLock<weierstrass::blind::Table<Field>> = std::sync::OnceLock::new();
            TABLE.get_or_init(|| weierstrass::blind::Table::base_on(Backend::chosen()))
        }
    };
}
pub(crate) use entries;

/// The simplified map of Shallue, van de Woestijne and Ulas: RFC 9380, section 6.6.2.
pub(crate) struct Map {
    /// a of the curve that is hashed to.
    pub(crate) a: [u64; 4],
    /// b of it.
    pub(crate) b: [u64; 4],
    /// Z.
    pub(crate) z: i64,
    /// A square root of -Z.
    pub(crate) root: [u64; 4],
}

/// One digit of a scalar.
#[derive(Clone, Copy, Default, Zeroize)]
pub(crate) struct Digit {
    /// Its place in the table.
    pub(crate) entry: u8,
    /// 1 if it is to be negated.
    pub(crate) negative: u8,
    /// How many times the endomorphism is to be applied: 0, 1 or 2.
    pub(crate) turn: u8,
}

/// Secret digits.
pub(crate) struct Digits(pub(crate) Vec<Digit>);

impl Drop for Digits {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A secret scalar in `1..n`.
pub struct Scalar<C> {
    words: [u64; 4],
    curve: PhantomData<C>,
}

impl<C> Drop for Scalar<C> {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl<C: Curve> SecretScalar for Scalar<C> {
    fn from_uniform(bytes: &[u8; 64]) -> Self {
        // 1 + (a number modulo n - 1): never zero.
        let mut less = C::ORDER;
        less[0] -= 1; // an odd order
        let mut words = remainder(bytes, &less);
        let mut carry = true;
        for word in &mut words {
            let (sum, over) = word.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over);
        }
        Self { words, curve: PhantomData }
    }
}

impl<C: Curve> Scalar<C> {
    /// The scalar with these words, which must be in `1..n`.
    #[cfg(test)]
    pub(crate) fn from_words(words: [u64; 4]) -> Self {
        assert!(words != [0; 4] && less(words, C::ORDER));
        Self { words, curve: PhantomData }
    }
}

/// The number of 64 bytes in little-endian order, modulo a number above 2^255. Bit by bit: it runs once per key.
fn remainder(bytes: &[u8; 64], modulus: &[u64; 4]) -> [u64; 4] {
    let mut r = [0u64; 4];
    for i in (0..512).rev() {
        let mut carry = u64::from(bytes[i / 8] >> (i % 8) & 1);
        for word in &mut r {
            (*word, carry) = (*word << 1 | carry, *word >> 63);
        }
        let (less, borrow) = difference(&r, modulus);
        // Subtract if the shift went over 2^256 or nothing had to be borrowed.
        let keep = std::hint::black_box(borrow & (carry ^ 1)).wrapping_neg();
        for k in 0..4 {
            r[k] = (r[k] & keep) | (less[k] & !keep);
        }
    }
    r
}

/// a - b modulo 2^256, and 1 if a < b.
pub(crate) fn difference(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], u64) {
    let mut out = [0; 4];
    let mut borrow = false;
    for k in 0..4 {
        let (d, b1) = a[k].overflowing_sub(b[k]);
        let (d, b2) = d.overflowing_sub(u64::from(borrow));
        (out[k], borrow) = (d, b1 | b2);
    }
    (out, u64::from(borrow))
}

// ---- Batches.

/// Vectors that are worked on at once, so that there is always an independent multiplication to fill the pipeline with.
const GROUP: usize = 4;

/// Vectors in a block, which share each inversion. Each takes about 5 KiB of workspace (IFMA), to stay in the second-level
/// cache, and an inversion costs about as much as 30 doublings of a vector.
const BLOCK: usize = 256;

/// A coordinate of eight elements, limb by limb.
type Eight = [[u64; 8]; 5];

/// Eight elements.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Cell {
    x: Eight,
    w: Eight,
    s: Eight,
}

const EMPTY: Cell = Cell { x: [[0; 8]; 5], w: [[0; 8]; 5], s: [[0; 8]; 5] };

/// A batch of points.
pub struct Points<C> {
    len: usize,
    /// All coordinates are tight. The number of cells is a multiple of [`GROUP`], and what stands behind the last element is
    /// a copy of it.
    cells: Vec<Cell>,
    curve: PhantomData<C>,
}

/// How many vectors of a group's width hold `len` elements, up to a whole group.
fn vectors<V: Lanes>(len: usize) -> usize {
    len.div_ceil(V::WIDTH).next_multiple_of(GROUP)
}

#[inline(always)]
fn load<V: Lanes>(eight: &Eight, part: usize) -> Limbs<V> {
    let at = part * V::WIDTH;
    [
        V::load(&eight[0][at..]),
        V::load(&eight[1][at..]),
        V::load(&eight[2][at..]),
        V::load(&eight[3][at..]),
        V::load(&eight[4][at..]),
    ]
}

#[inline(always)]
fn store<V: Lanes>(eight: &mut Eight, part: usize, limbs: &Limbs<V>) {
    let at = part * V::WIDTH;
    for (row, limb) in eight.iter_mut().zip(limbs) {
        limb.store(&mut row[at..]);
    }
}

/// The blocks of so many vectors, by first vector and size, which falls: of about one size, so that none is so small that it
/// pays the inversions alone.
fn blocks(total: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let left = total - start;
        let size = left.div_ceil(left.div_ceil(BLOCK).max(1)).next_multiple_of(GROUP);
        let block = (start, size);
        start += size;
        (left > 0).then_some(block)
    })
}

/// The cell of a vector, and the part of it.
#[inline(always)]
fn place<V: Lanes>(vector: usize) -> (usize, usize) {
    let parts = 8 / V::WIDTH;
    (vector / parts, vector % parts)
}

impl<C: Curve> Points<C> {
    fn new(len: usize) -> Self {
        Self { len, cells: vec![EMPTY; len.div_ceil(8).next_multiple_of(GROUP)], curve: PhantomData }
    }

    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: &[Digest]) -> Self {
        let mut messages = Messages::new(dst);
        Self::map_on(backend, inputs.len(), |i| messages.expand(&inputs[i]))
    }

    /// Points from the bytes that `hash_to_field` makes two elements of: RFC 9380, section 5.2, with L = 48.
    fn map_on(backend: Backend, len: usize, uniform: impl FnMut(usize) -> [u8; 96]) -> Self {
        backend::run_on(backend, Hash { len, uniform, jacobian: false, curve: PhantomData })
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8], coins: &[u8; 32]) -> Result<Self, BadElement> {
        let points = read::<C>(wire)?;
        backend::run_on(backend, Decode { points, wire, coins })
    }

    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar<C>) -> Self {
        backend::run_on(backend, Multiply { points: self, k })
    }

    pub(crate) fn encode_on(&self, backend: Backend, wire: &mut Vec<u8>) {
        backend::run_on(backend, Encode { points: self, wire, with_bit: false });
    }
}

impl<C: Curve> crate::Points for Points<C> {
    type Scalar = Scalar<C>;

    fn len(&self) -> usize {
        self.len
    }

    fn mul(self, k: &Scalar<C>) -> Self {
        C::mul(self, k)
    }

    fn encode(&self, wire: &mut Vec<u8>) {
        C::encode(self, wire);
    }
}

// ---- Inversion of a whole block.

/// The workspace of a block.
pub(crate) struct Work<V> {
    /// How many entries each table has.
    entries: usize,
    /// The points: X and W.
    pub(crate) x: Vec<Limbs<V>>,
    pub(crate) w: Vec<Limbs<V>>,
    /// a·s^2, if a is not zero.
    a: Vec<Limbs<V>>,
    /// What is to be inverted, and the products of the denominators before it in its chain (loose).
    den: Vec<Limbs<V>>,
    pre: Vec<Limbs<V>>,
    /// X of the multiple that is being added, then the slope.
    slope: Vec<Limbs<V>>,
    /// The tables, one after the other: X and W of each entry.
    pub(crate) table: Vec<[Limbs<V>; 2]>,
}

/// A group's worth of elements.
type Quad<V> = [Limbs<V>; GROUP];

#[inline(always)]
fn ones<F: Prime, V: Lanes>() -> Quad<V> {
    [splat(Held::<F>::ONE); GROUP]
}

/// The inverses at a group: `rest` holds, for each of the chains, the inverse of the product up to and with this group, and
/// then of the product before it.
#[inline(always)]
fn enter<F: Prime, V: Lanes>(den: &[Limbs<V>], pre: &[Limbs<V>], rest: &mut Quad<V>, at: usize) -> Quad<V> {
    let mut inverse = *rest;
    for c in 0..GROUP {
        inverse[c] = mul_loose::<F, V>(&rest[c], &pre[at + c]);
    }
    for c in 0..GROUP {
        rest[c] = mul_loose::<F, V>(&rest[c], &den[at + c]);
    }
    inverse
}

/// Adds a group's denominators to the chains.
#[inline(always)]
fn leave<F: Prime, V: Lanes>(
    den: &mut [Limbs<V>],
    pre: &mut [Limbs<V>],
    chain: &mut Quad<V>,
    at: usize,
    next: &Quad<V>,
) {
    for c in 0..GROUP {
        pre[at + c] = chain[c];
        den[at + c] = next[c];
        chain[c] = mul_loose::<F, V>(&chain[c], &next[c]);
    }
}

/// The lanes moved round by `by`, through memory: only the batch inversion mixes lanes.
#[inline(always)]
fn rotated<V: Lanes>(x: &Limbs<V>, by: usize) -> Limbs<V> {
    let mut twice = [0u64; 16];
    let mut out = *x;
    for limb in &mut out {
        limb.store(&mut twice);
        limb.store(&mut twice[V::WIDTH..]);
        *limb = V::load(&twice[by..]);
    }
    out
}

/// The inverses of the chains' products: all lanes of all chains are multiplied together, in a tree, for one inversion.
struct InvertChains<'a, F, V>(&'a Quad<V>, PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for InvertChains<'_, F, V> {
    type Out = Quad<V>;
    #[inline(always)]
    fn run(self) -> Quad<V> {
        let chain = self.0;
        let left = mul_loose::<F, V>(&chain[0], &chain[1]);
        let right = mul_loose::<F, V>(&chain[2], &chain[3]);
        let mut product = mul::<F, V>(&left, &right);
        // At each level a lane takes its partner's product; the partners are kept for the way back.
        let mut partners = [product; 3];
        let mut depth = 0;
        while V::WIDTH >> depth > 1 {
            partners[depth] = rotated(&product, V::WIDTH >> (depth + 1));
            product = mul::<F, V>(&product, &partners[depth]);
            depth += 1;
        }
        let one = plain::<F, V>(&product);
        let mut row = [[0u64; 8]; 5];
        store(&mut row, 0, &one);
        let inverse = invert(words(row.map(|lanes| lanes[0])), F::P, F::INVERSE_62);
        let mut inverse = held::<F, V>(&splat(limbs(inverse)));
        while depth > 0 {
            depth -= 1;
            inverse = mul_loose::<F, V>(&inverse, &partners[depth]);
        }
        let (left, right) = (mul_loose::<F, V>(&inverse, &right), mul_loose::<F, V>(&inverse, &left));
        [
            mul_loose::<F, V>(&left, &chain[1]),
            mul_loose::<F, V>(&left, &chain[0]),
            mul_loose::<F, V>(&right, &chain[3]),
            mul_loose::<F, V>(&right, &chain[2]),
        ]
    }
}

#[inline(always)]
fn invert_chains<F: Prime, V: Lanes>(chain: &Quad<V>) -> Quad<V> {
    V::call(InvertChains::<F, V>(chain, PhantomData))
}

/// Replaces every `den` by its inverse (loose).
struct InvertAll<'a, F, V> {
    den: &'a mut [Limbs<V>],
    pre: &'a mut [Limbs<V>],
    field: PhantomData<F>,
}

impl<F: Prime, V: Lanes> Formula<V> for InvertAll<'_, F, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Self { den, pre, .. } = self;
        let mut chain = ones::<F, V>();
        for at in (0..den.len()).step_by(GROUP) {
            for c in 0..GROUP {
                pre[at + c] = chain[c];
                chain[c] = mul_loose::<F, V>(&chain[c], &den[at + c]);
            }
        }
        let mut rest = invert_chains::<F, V>(&chain);
        for at in (0..den.len()).step_by(GROUP).rev() {
            let inverse = enter::<F, V>(den, pre, &mut rest, at);
            den[at..at + GROUP].copy_from_slice(&inverse);
        }
    }
}

// ---- Multiplication by the scalar.

/// 2·(a - b), loose, for tight a and b.
#[inline(always)]
fn twice_difference<F: Prime, V: Lanes>(a: &Limbs<V>, b: &Limbs<V>) -> Limbs<V> {
    let d = add(a, &minus::<F, V>(b));
    ripple(add(&d, &d))
}

/// The numerator of the tangent's slope, 3x^2 + a, loose. For tight x it is below 3·(2^256 + 2^253) + 2^257 < 2^258.2.
#[inline(always)]
fn tangent<F: Prime, V: Lanes>(x: &Limbs<V>, a: Option<&Limbs<V>>) -> Limbs<V> {
    let square = square_raw::<F, V>(x);
    let thrice = add(&add(&square, &square), &square);
    ripple(a.map_or(thrice, |a| add(&thrice, a)))
}

/// The next W on a line of the given slope through (x, w): 2·slope·(x - to) - w, where `step` is 2(x - to); tight.
#[inline(always)]
fn ordinate<F: Prime, V: Lanes>(slope: &Limbs<V>, step: &Limbs<V>, w: &Limbs<V>) -> Limbs<V> {
    tight::<F, V>(mul_add::<F, V>(slope, step, &minus::<F, V>(w)))
}

/// A digit, ready for all lanes.
struct Choice<V> {
    entry: [V; 8],
    negative: V,
    turn: Limbs<V>,
}

impl<V: Lanes> Choice<V> {
    #[inline(always)]
    fn new<C: Curve>(digit: &Digit) -> Self {
        let is = |value: u8, wanted: usize| (u64::from(value) ^ wanted as u64).wrapping_sub(1) >> 63;
        let mut entry = [V::zero(); 8];
        for (j, mask) in entry.iter_mut().enumerate() {
            *mask = V::mask_of(is(digit.entry, j));
        }
        let mut turn = splat(Held::<C>::ONE);
        if let Some(beta) = C::BETA {
            let beta = splat(Held::<C>::of(beta));
            let square = mul_tight::<C, V>(&beta, &beta);
            turn = select(V::mask_of(is(digit.turn, 1)), &beta, &turn);
            turn = select(V::mask_of(is(digit.turn, 2)), &square, &turn);
        }
        Self { entry, negative: V::mask_of(u64::from(digit.negative)), turn }
    }

    /// A coordinate of the table's entry that the digit names: every entry is read.
    #[inline(always)]
    fn pick<C: Curve>(&self, table: &[[Limbs<V>; 2]], vector: usize, coordinate: usize) -> Limbs<V> {
        let table = &table[vector * C::TABLE..(vector + 1) * C::TABLE];
        let mut out = [V::zero(); 5];
        for (entry, mask) in table.iter().zip(self.entry) {
            for (out, limb) in out.iter_mut().zip(&entry[coordinate]) {
                *out = out.or(limb.and(mask));
            }
        }
        out
    }

    /// X of the multiple, turned: tight.
    #[inline(always)]
    fn x<C: Curve>(&self, table: &[[Limbs<V>; 2]], vector: usize) -> Limbs<V> {
        let x = self.pick::<C>(table, vector, 0);
        if C::BETA.is_some() { mul_tight::<C, V>(&x, &self.turn) } else { x }
    }

    /// -W of the multiple, negated if the digit is negative: raw, below 2^257.
    #[inline(always)]
    fn minus_w<C: Curve>(&self, table: &[[Limbs<V>; 2]], vector: usize) -> Limbs<V> {
        let w = self.pick::<C>(table, vector, 1);
        select(self.negative, &w, &minus::<C, V>(&w))
    }
}

/// One step over the block: it takes the inverses of the denominators that the pass before it left, going the other way.
struct Pass<'a, C, V> {
    work: &'a mut Work<V>,
    /// The inverses of the chains.
    rest: Quad<V>,
    down: bool,
    step: Step<'a, V>,
    curve: PhantomData<C>,
}

enum Step<'a, V> {
    /// Double; another doubling comes next.
    Double,
    /// Double; an addition of this digit comes next.
    DoubleThen(&'a Choice<V>),
    /// The first half of 2P + Q: the slope of P + Q, and its x.
    Add(&'a Choice<V>),
    /// The second half: P + (P + Q). A doubling comes next.
    AddAgain,
}

impl<C: Curve, V: Lanes> Formula<V> for Pass<'_, C, V> {
    /// The chains' products for the next inversion.
    type Out = Quad<V>;
    #[inline(always)]
    fn run(self) -> Quad<V> {
        let Self { work, mut rest, down, step, .. } = self;
        let Work { x, w, a, den, pre, slope, table, .. } = work;
        let mut chain = ones::<Hot<C>, V>();
        let n = den.len();
        for i in (0..n).step_by(GROUP) {
            let at = if down { n - GROUP - i } else { i };
            let inverse = enter::<Hot<C>, V>(den, pre, &mut rest, at);
            let mut next = inverse;
            match step {
                Step::Double | Step::DoubleThen(_) => {
                    let mut line = inverse;
                    for c in 0..GROUP {
                        let a = if C::A_IS_ZERO { None } else { Some(&a[at + c]) };
                        line[c] = tangent::<Hot<C>, V>(&x[at + c], a);
                    }
                    for c in 0..GROUP {
                        line[c] = mul_loose::<Hot<C>, V>(&line[c], &inverse[c]);
                    }
                    let mut to = inverse;
                    for c in 0..GROUP {
                        // x' = slope^2 - 2x.
                        to[c] = tight::<Hot<C>, V>(square_add_twice::<Hot<C>, V>(
                            &line[c],
                            &minus::<Hot<C>, V>(&x[at + c]),
                        ));
                    }
                    for c in 0..GROUP {
                        let step = twice_difference::<Hot<C>, V>(&x[at + c], &to[c]);
                        next[c] = ordinate::<Hot<C>, V>(&line[c], &step, &w[at + c]);
                        x[at + c] = to[c];
                        w[at + c] = next[c];
                    }
                    if let Step::DoubleThen(choice) = step {
                        for c in 0..GROUP {
                            let q = choice.x::<C>(table, at + c);
                            next[c] = twice_difference::<Hot<C>, V>(&to[c], &q);
                            slope[at + c] = q;
                        }
                    }
                }
                Step::Add(choice) => {
                    let mut line = inverse;
                    for c in 0..GROUP {
                        // (w - w_q) / 2(x - x_q); the sum is below 2^257.7.
                        let rise = ripple(add(&w[at + c], &choice.minus_w::<C>(table, at + c)));
                        line[c] = mul::<Hot<C>, V>(&rise, &inverse[c]);
                    }
                    for c in 0..GROUP {
                        // x of the sum, less x: slope^2 - 2x - x_q.
                        let square = square_add_twice::<Hot<C>, V>(&line[c], &minus::<Hot<C>, V>(&x[at + c]));
                        next[c] = tight::<Hot<C>, V>(add(&square, &minus::<Hot<C>, V>(&slope[at + c])));
                        slope[at + c] = line[c];
                    }
                }
                Step::AddAgain => {
                    let mut line = inverse;
                    for c in 0..GROUP {
                        // Minus the slope of the line through P and P + Q: slope + w / (x of the sum - x).
                        line[c] = ripple(mul_add::<Hot<C>, V>(&w[at + c], &inverse[c], &slope[at + c]));
                    }
                    let mut to = inverse;
                    for c in 0..GROUP {
                        // x' = slope^2 - 2x - (x of the sum - x).
                        let square = square_add_twice::<Hot<C>, V>(&line[c], &minus::<Hot<C>, V>(&x[at + c]));
                        to[c] = tight::<Hot<C>, V>(add(&square, &minus::<Hot<C>, V>(&den[at + c])));
                    }
                    for c in 0..GROUP {
                        // The slope has the other sign, and so has the step.
                        let step = twice_difference::<Hot<C>, V>(&to[c], &x[at + c]);
                        next[c] = ordinate::<Hot<C>, V>(&line[c], &step, &w[at + c]);
                        x[at + c] = to[c];
                        w[at + c] = next[c];
                    }
                }
            }
            leave::<Hot<C>, V>(den, pre, &mut chain, at, &next);
        }
        chain
    }
}

impl<V: Lanes> Work<V> {
    /// Room for so many vectors, with tables of so many entries.
    fn new<C: Curve>(vectors: usize, entries: usize) -> Self {
        let room = || vec![[V::zero(); 5]; vectors];
        Self {
            entries,
            x: room(),
            w: room(),
            a: if C::A_IS_ZERO { Vec::new() } else { room() },
            den: room(),
            pre: room(),
            slope: room(),
            table: vec![[[V::zero(); 5]; 2]; vectors * entries],
        }
    }

    #[inline(always)]
    pub(crate) fn invert_all<F: Prime>(&mut self) {
        V::call(InvertAll::<F, V> { den: &mut self.den, pre: &mut self.pre, field: PhantomData });
    }

    /// Doubles every point, for tables.
    #[inline(always)]
    pub(crate) fn double<C: Curve>(&mut self) {
        self.den.copy_from_slice(&self.w);
        self.invert_all::<C>();
        for i in 0..self.den.len() {
            let (x, w) = (self.x[i], self.w[i]);
            let a = if C::A_IS_ZERO { None } else { Some(&self.a[i]) };
            let line = mul_loose::<C, V>(&tangent::<C, V>(&x, a), &self.den[i]);
            let to = tight::<C, V>(square_add_twice::<C, V>(&line, &minus::<C, V>(&x)));
            self.w[i] = ordinate::<C, V>(&line, &twice_difference::<C, V>(&x, &to), &w);
            self.x[i] = to;
        }
    }

    /// Sets the denominators for [`Work::chord`] of the table's `entry` and the points, their X times `turn`.
    #[inline(always)]
    pub(crate) fn open_chord<C: Curve>(&mut self, entry: usize, turn: Option<&Limbs<V>>) {
        for i in 0..self.den.len() {
            let x = match turn {
                Some(turn) => mul_tight::<C, V>(&self.x[i], turn),
                None => self.x[i],
            };
            self.slope[i] = x;
            self.den[i] = twice_difference::<C, V>(&self.table[i * self.entries + entry][0], &x);
        }
        self.invert_all::<C>();
    }

    /// Sets the table's `to` to the sum, or difference, of the table's `entry` and the points of [`Work::open_chord`].
    #[inline(always)]
    pub(crate) fn chord<C: Curve>(&mut self, entry: usize, negative: bool, to: usize) {
        for i in 0..self.den.len() {
            let [x, w] = self.table[i * self.entries + entry];
            let q = if negative { self.w[i] } else { minus::<C, V>(&self.w[i]) };
            let line = mul_loose::<C, V>(&ripple(add(&w, &q)), &self.den[i]);
            let others = add(&minus::<C, V>(&x), &minus::<C, V>(&self.slope[i]));
            let sum = tight::<C, V>(add(&square_raw::<C, V>(&line), &others));
            let w = ordinate::<C, V>(&line, &twice_difference::<C, V>(&x, &sum), &w);
            self.table[i * self.entries + to] = [sum, w];
        }
    }
}

/// What fills a table.
pub(crate) trait FillTable<C> {
    /// Sets every entry but the first, which is the point itself.
    fn fill<V: Lanes>(work: &mut Work<V>);
}

struct CallTable<'a, C, V, T>(&'a mut Work<V>, PhantomData<(C, T)>);

impl<C: Curve, V: Lanes, T: FillTable<C>> Formula<V> for CallTable<'_, C, V, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        T::fill::<V>(self.0);
    }
}

/// Fills a table in a call of its own.
#[inline(always)]
pub(crate) fn call_table<C: Curve, V: Lanes, T: FillTable<C>>(work: &mut Work<V>) {
    V::call(CallTable::<C, V, T>(work, PhantomData));
}

/// The odd multiples 1, 3, 5, ...: sums with the double, none of which fails below the order.
pub(crate) struct OddMultiples;

impl<C: Curve> FillTable<C> for OddMultiples {
    #[inline(always)]
    fn fill<V: Lanes>(work: &mut Work<V>) {
        work.double::<C>();
        for entry in 1..work.entries {
            work.open_chord::<C>(entry - 1, None);
            work.chord::<C>(entry - 1, false, entry);
        }
    }
}

/// Signed digits of four bits for an order n below 2^256: 64 odd digits between -15 and 15.
///
/// Of k and n - k the odd one is taken, and if that is n - k, every digit with the other sign. An odd k is 16·k' + d with d odd and k' odd: d is
/// (k mod 32) - 16. By induction every prefix m is odd and positive.
///
/// No step fails. Before the last digit, 8m and 16m + d are positive and below n, and 8m = ±d cannot be, since d is odd.
/// At the last, k = 16m + d < n, so 2m' + d = k is not zero modulo n, 8m = ±d is excluded as before, and 8m = n ± d would
/// make 16m = 2n ± 2d, while 16m = k - d < n + 16.
pub(crate) fn odd_digits(k: &[u64; 4], order: &[u64; 4]) -> Digits {
    let (other, _) = difference(order, k);
    let odd = std::hint::black_box(k[0] & 1).wrapping_neg();
    let mut k: [u64; 4] = std::array::from_fn(|i| (k[i] & odd) | (other[i] & !odd));
    let mut digits = Digits(vec![Digit::default(); 64]);
    for i in (0..64).rev() {
        // The last to be taken is what is left, 1 to 15: the same rule, with 16 added.
        let d = if i == 0 { k[0] as i64 } else { (k[0] & 31) as i64 - 16 };
        let sign = std::hint::black_box(d >> 63);
        let size = (d ^ sign) - sign;
        digits.0[i] = Digit { entry: (size >> 1) as u8, negative: ((sign as u64 ^ !odd) & 1) as u8, turn: 0 };
        // (k - d)/16 = k/16 rounded down, made odd: the bit that is shifted out was the fifth of k - d.
        k = [k[0] >> 4 | k[1] << 60, k[1] >> 4 | k[2] << 60, k[2] >> 4 | k[3] << 60, k[3] >> 4];
        k[0] |= 1;
    }
    k.zeroize();
    digits
}

struct Multiply<'a, C> {
    points: Points<C>,
    k: &'a Scalar<C>,
}

impl<C: Curve> Kernel for Multiply<'_, C> {
    type Out = Points<C>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Points<C> {
        let mut points = self.points;
        let digits = C::recode(&self.k.words);
        let mut choices = Vec::with_capacity(digits.0.len());
        for digit in &digits.0 {
            choices.push(Choice::<V>::new::<C>(digit));
        }
        let mut work = None;
        for (start, size) in blocks(vectors::<V>(points.len)) {
            let work = match &mut work {
                Some(work) => work,
                None => work.insert(Work::<V>::new::<C>(size, C::TABLE)),
            };
            work.resize(size);
            multiply_block::<C, V>(&mut points.cells, start, work, &choices);
        }
        points
    }
}

impl<V: Lanes> Work<V> {
    fn resize(&mut self, vectors: usize) {
        for part in [&mut self.x, &mut self.w, &mut self.den, &mut self.pre, &mut self.slope] {
            part.truncate(vectors);
        }
        self.a.truncate(vectors);
    }
}

#[inline(always)]
fn multiply_block<C: Curve, V: Lanes>(cells: &mut [Cell], start: usize, work: &mut Work<V>, choices: &[Choice<V>]) {
    let n = work.den.len();
    for i in 0..n {
        let (cell, part) = place::<V>(start + i);
        work.x[i] = load(&cells[cell].x, part);
        work.w[i] = load(&cells[cell].w, part);
        if !C::A_IS_ZERO {
            // a·s^2 = -3·s^2.
            let s = load(&cells[cell].s, part);
            let square = tight::<C, V>(add(&square_raw::<C, V>(&s), &splat(Held::<C>::BIAS)));
            let thrice = add(&add(&square, &square), &square);
            work.a[i] = tight::<C, V>(sub(&splat(Held::<C>::BIAS_3), &thrice));
        }
        work.table[i * C::TABLE] = [work.x[i], work.w[i]];
    }
    C::table(work);
    // The first digit, and the denominators of the first doubling.
    let (first, others) = choices.split_first().expect("a scalar has digits");
    let mut chain = ones::<C, V>();
    for at in (0..n).step_by(GROUP) {
        for i in at..at + GROUP {
            work.x[i] = first.x::<C>(&work.table, i);
            work.w[i] = tight::<C, V>(add(&first.minus_w::<C>(&work.table, i), &splat(Held::<C>::BIAS)));
            // It was -W; turn it over.
            work.w[i] = tight::<C, V>(minus::<C, V>(&work.w[i]));
        }
        let next = [work.w[at], work.w[at + 1], work.w[at + 2], work.w[at + 3]];
        leave::<C, V>(&mut work.den, &mut work.pre, &mut chain, at, &next);
    }
    let mut down = true;
    let mut pass = |work: &mut Work<V>, step: Step<V>| {
        let rest = invert_chains::<C, V>(&chain);
        chain = V::call(Pass::<C, V> { work, rest, down, step, curve: PhantomData });
        down = !down;
    };
    for choice in others {
        for _ in 1..C::DOUBLINGS {
            pass(work, Step::Double);
        }
        pass(work, Step::DoubleThen(choice));
        pass(work, Step::Add(choice));
        pass(work, Step::AddAgain);
    }
    for i in 0..n {
        let (cell, part) = place::<V>(start + i);
        store(&mut cells[cell].x, part, &work.x[i]);
        store(&mut cells[cell].w, part, &work.w[i]);
    }
}

// ---- Encoding and decoding.

/// The least representatives of elements.
#[inline(always)]
fn rows<F: Prime, V: Lanes>(x: &Limbs<V>) -> Eight {
    let mut rows = [[0u64; 8]; 5];
    store(&mut rows, 0, &plain::<F, V>(x));
    rows
}

/// Appends one of them.
fn push(wire: &mut Vec<u8>, x: &Eight, lane: usize) {
    for word in words(x.map(|row| row[lane])).iter().rev() {
        wire.extend_from_slice(&word.to_be_bytes());
    }
}

struct Encode<'a, C> {
    points: &'a Points<C>,
    wire: &'a mut Vec<u8>,
    /// Whether 2, or 3 if y/s is odd, comes before each x: Y/s of the isomorphic curve is y times the root of s.
    with_bit: bool,
}

impl<C: Curve> Kernel for Encode<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { points, wire, with_bit } = self;
        let total = vectors::<V>(points.len);
        let mut left = points.len;
        wire.reserve((WIRE + usize::from(with_bit)) * left);
        let room = total.min(BLOCK);
        let (mut den, mut pre) = (vec![[V::zero(); 5]; room], vec![[V::zero(); 5]; room]);
        for start in (0..total).step_by(BLOCK) {
            let n = (total - start).min(BLOCK);
            for (i, den) in den[..n].iter_mut().enumerate() {
                let (cell, part) = place::<V>(start + i);
                *den = load(&points.cells[cell].s, part);
            }
            V::call(InvertAll::<C, V> { den: &mut den[..n], pre: &mut pre[..n], field: PhantomData });
            for (i, den) in den[..n].iter().enumerate() {
                let (cell, part) = place::<V>(start + i);
                let x = rows::<C, V>(&mul::<C, V>(&load(&points.cells[cell].x, part), den));
                let w = with_bit.then(|| rows::<C, V>(&mul::<C, V>(&load(&points.cells[cell].w, part), den)));
                for lane in 0..left.min(V::WIDTH) {
                    if let Some(w) = w {
                        wire.push(2 | blind::bit_of_half(w[0][lane]) as u8);
                    }
                    push(wire, &x, lane);
                }
                left -= left.min(V::WIDTH);
            }
        }
    }
}

/// Bytes of an element.
pub(crate) const WIRE: usize = 32;

/// The numbers on the wire, if they are below p, as x of a batch.
fn read<C: Curve>(wire: &[u8]) -> Result<Points<C>, BadElement> {
    let (elements, rest) = wire.as_chunks::<WIRE>();
    let mut points = Points::new(elements.len());
    for (index, element) in elements.iter().enumerate() {
        points.put(index, element)?;
    }
    if !rest.is_empty() {
        return Err(BadElement { index: elements.len(), why: CUT_OFF });
    }
    points.fill(|cell| &mut cell.x);
    Ok(points)
}

impl<C: Curve> Points<C> {
    /// Sets x of an element to what was received.
    fn put(&mut self, index: usize, received: &[u8; WIRE]) -> Result<(), BadElement> {
        let (bytes, _) = received.as_chunks::<8>();
        let x = [3, 2, 1, 0].map(|i: usize| u64::from_be_bytes(bytes[i]));
        if !less(x, C::P) {
            return Err(BadElement { index, why: NOT_BELOW_P });
        }
        for (row, limb) in self.cells[index / 8].x.iter_mut().zip(limbs(x)) {
            row[index % 8] = limb;
        }
        Ok(())
    }

    /// Copies the last element's coordinate to what stands behind it.
    fn fill(&mut self, coordinate: impl Fn(&mut Cell) -> &mut Eight) {
        if self.len == 0 {
            return;
        }
        let last = self.len - 1;
        let x = coordinate(&mut self.cells[last / 8]).map(|row| row[last % 8]);
        for index in self.len..8 * self.cells.len() {
            for (row, limb) in coordinate(&mut self.cells[index / 8]).iter_mut().zip(x) {
                row[index % 8] = limb;
            }
        }
    }
}

/// g = x·(x^2 + a) + b, tight.
#[inline(always)]
fn right_side<C: Curve, V: Lanes>(x: &Limbs<V>) -> Limbs<V> {
    let mut square = square_raw::<C, V>(x);
    if !C::A_IS_ZERO {
        square = add(&square, &splat(const { Held::<C>::small(-3) }));
    }
    let b = splat(const { Held::<C>::of(C::B) });
    tight::<C, V>(add(&mul_add::<C, V>(x, &ripple(square), &b), &splat(Held::<C>::BIAS)))
}

/// How many random products of a batch are tested: a batch with a bad element passes with probability 2^-64.
const TESTS: usize = 64;

/// Why an element is refused.
const OFF_CURVE: &str = "is not the x of a point on the curve";
const NOT_BELOW_P: &str = "is not below the field's prime";
const CUT_OFF: &str = "is cut off";

struct Decode<'a, C> {
    points: Points<C>,
    wire: &'a [u8],
    coins: &'a [u8; 32],
}

impl<C: Curve> Kernel for Decode<'_, C> {
    type Out = Result<Points<C>, BadElement>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let Self { mut points, wire, coins } = self;
        let total = vectors::<V>(points.len);
        for i in 0..total {
            let (cell, part) = place::<V>(i);
            let cell = &mut points.cells[cell];
            let x = held::<C, V>(&load(&cell.x, part));
            let g = right_side::<C, V>(&x);
            let y = square_raw::<C, V>(&g);
            store(&mut cell.x, part, &mul_tight::<C, V>(&g, &x));
            store(&mut cell.w, part, &tight::<C, V>(add(&add(&y, &y), &splat(Held::<C>::BIAS))));
            store(&mut cell.s, part, &g);
        }
        // Testing each costs one power a vector, testing products costs TESTS powers and about 19 products a vector.
        if (total <= 2 * TESTS || !products_are_squares::<C, V>(&points.cells, total, wire, coins))
            && let Some(index) = find_non_square::<C, V>(&points.cells, total)
        {
            // The copies behind the last element are bad if it is.
            let index = index.min(points.len - 1);
            return Err(BadElement { index, why: OFF_CURVE });
        }
        Ok(points)
    }
}

/// Euler's criterion: the mask of the lanes that hold a non-zero square, for elements that are factors.
struct AreSquares<'a, F, V>(&'a [Limbs<V>; 8], PhantomData<F>);

impl<F: Prime, V: Lanes> Formula<V> for AreSquares<'_, F, V> {
    type Out = [V; 8];
    #[inline(always)]
    fn run(self) -> [V; 8] {
        // (p - 1)/2 = 2·(p - 3)/4 + 1.
        let roots = power_chain::<F, V, 8>(self.0);
        let one = splat(Held::<F>::ONE);
        let mut out = [V::zero(); 8];
        for i in 0..8 {
            out[i] = equal::<F, V>(&mul_tight::<F, V>(&square_loose::<F, V>(&roots[i]), &self.0[i]), &one);
        }
        out
    }
}

/// The first lane in which a mask is not set.
#[inline(always)]
fn first_unset<V: Lanes>(mask: V) -> Option<usize> {
    let mut lanes = [0; 8];
    mask.store(&mut lanes);
    lanes[..V::WIDTH].iter().position(|&lane| lane == 0)
}

#[inline(always)]
fn find_non_square<C: Curve, V: Lanes>(cells: &[Cell], total: usize) -> Option<usize> {
    for start in (0..total).step_by(8) {
        let mut g = [[V::zero(); 5]; 8];
        for (i, g) in g.iter_mut().enumerate() {
            let (cell, part) = place::<V>((start + i).min(total - 1));
            *g = load(&cells[cell].s, part);
        }
        let masks = V::call(AreSquares::<C, V>(&g, PhantomData));
        for (i, mask) in masks.into_iter().enumerate() {
            if let Some(lane) = first_unset(mask) {
                return Some((start + i).min(total - 1) * V::WIDTH + lane);
            }
        }
    }
    None
}

/// Tests, in each lane, random products of the g of all elements: if one g is not a square, each product is not with
/// probability 1/2. Four vectors at a time, whose 16 products are made once.
#[inline(always)]
fn products_are_squares<C: Curve, V: Lanes>(cells: &[Cell], total: usize, wire: &[u8], coins: &[u8; 32]) -> bool {
    // The masks depend on what they test, too, so that coins known early do not help who chooses the elements later.
    let mut masks = blake3::Hasher::new_keyed(coins).update(wire).finalize_xof();
    let mut products = [splat::<V>(Held::<C>::ONE); TESTS];
    for start in (0..total).step_by(GROUP) {
        let mut bits = [0; TESTS / 2];
        masks.fill(&mut bits);
        let mut g = [[V::zero(); 5]; GROUP];
        for (i, g) in g.iter_mut().enumerate() {
            let (cell, part) = place::<V>(start + i);
            *g = load(&cells[cell].s, part);
        }
        V::call(Gather::<C, V> { g: &g, bits: &bits, products: &mut products, field: PhantomData });
    }
    let mut all = true;
    for eight in products.as_chunks::<8>().0 {
        for mask in V::call(AreSquares::<C, V>(eight, PhantomData)) {
            all &= first_unset(mask).is_none();
        }
    }
    all
}

struct Gather<'a, F, V> {
    g: &'a Quad<V>,
    bits: &'a [u8; TESTS / 2],
    products: &'a mut [Limbs<V>; TESTS],
    field: PhantomData<F>,
}

impl<F: Prime, V: Lanes> Formula<V> for Gather<'_, F, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut subsets = [splat::<V>(Held::<F>::ONE); 16];
        for i in 0..GROUP {
            subsets[1 << i] = self.g[i];
            for j in 1..1 << i {
                subsets[1 << i | j] = mul_loose::<F, V>(&subsets[j], &self.g[i]);
            }
        }
        for (products, byte) in self.products.as_chunks_mut::<2>().0.iter_mut().zip(self.bits) {
            for (product, nibble) in products.iter_mut().zip([byte & 15, byte >> 4]) {
                *product = mul_loose::<F, V>(product, &subsets[usize::from(nibble)]);
            }
        }
    }
}

// ---- Hashing.

struct Hash<U, C> {
    len: usize,
    uniform: U,
    /// Whether s is to be left as Z, of which it is the square.
    jacobian: bool,
    curve: PhantomData<C>,
}

impl<U: FnMut(usize) -> [u8; 96], C: Curve> Kernel for Hash<U, C> {
    type Out = Points<C>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Points<C> {
        let Self { len, mut uniform, jacobian, .. } = self;
        let mut points = Points::<C>::new(len);
        let width = GROUP * V::WIDTH;
        for group in 0..len.div_ceil(width) {
            // As limbs: [limb][half][vector][lane]. Behind the last element stand zeros, for now.
            let mut rows = [[0u64; 2 * GROUP * 8]; 8];
            for i in 0..width.min(len - group * width) {
                for (half, bytes) in uniform(group * width + i).as_chunks::<48>().0.iter().enumerate() {
                    for (row, limb) in rows.iter_mut().zip(long_limbs(bytes)) {
                        row[half * width + i] = limb;
                    }
                }
            }
            let mut u = [[V::zero(); 5]; 2 * GROUP];
            for (i, u) in u.iter_mut().enumerate() {
                let mut number = [V::zero(); 10];
                for (limb, row) in number.iter_mut().zip(&rows) {
                    *limb = V::load(&row[i * V::WIDTH..]);
                }
                *u = held_long::<C, V>(&number);
            }
            let hashed = V::call(ToCurve::<C, V>(&u, PhantomData));
            for (i, [x, w, z]) in hashed.iter().enumerate() {
                let (cell, part) = place::<V>(group * GROUP + i);
                let cell = &mut points.cells[cell];
                store(&mut cell.x, part, x);
                store(&mut cell.w, part, w);
                store(&mut cell.s, part, &if jacobian { *z } else { mul_tight::<C, V>(z, z) });
            }
        }
        points.fill(|cell| &mut cell.x);
        points.fill(|cell| &mut cell.w);
        points.fill(|cell| &mut cell.s);
        points
    }
}

/// 48 bytes in big-endian order, as eight limbs.
fn long_limbs(bytes: &[u8; 48]) -> [u64; 8] {
    let (parts, _) = bytes.as_chunks::<8>();
    let w: [u64; 6] = std::array::from_fn(|i| u64::from_be_bytes(parts[5 - i]));
    let low = LOW_52;
    [
        w[0] & low,
        (w[0] >> 52 | w[1] << 12) & low,
        (w[1] >> 40 | w[2] << 24) & low,
        (w[2] >> 28 | w[3] << 36) & low,
        (w[3] >> 16 | w[4] << 48) & low,
        (w[4] >> 4) & low,
        (w[4] >> 56 | w[5] << 8) & low,
        w[5] >> 44,
    ]
}

/// A fraction x/d, and y.
#[derive(Clone, Copy)]
struct Mapped<V> {
    x: Limbs<V>,
    d: Limbs<V>,
    y: Limbs<V>,
}

/// `map_to_curve_simple_swu` in the straight line of RFC 9380, appendix F.2, with `sqrt_ratio` of F.2.1.2, for p = 3
/// modulo 4.
#[inline(always)]
fn simple_swu<C: Curve, V: Lanes>(u: &[Limbs<V>; 2 * GROUP]) -> [Mapped<V>; 2 * GROUP] {
    const N: usize = 2 * GROUP;
    let one: Limbs<V> = splat(Held::<C>::ONE);
    let zero = [V::zero(); 5];
    let bias = splat(Held::<C>::BIAS);
    let z = splat(const { Held::<C>::small(C::MAP.z) });
    let a = splat(const { Held::<C>::of(C::MAP.a) });
    let b = splat(const { Held::<C>::of(C::MAP.b) });
    let root = splat(const { Held::<C>::of(C::MAP.root) });
    let empty = [zero; N];
    let (mut tv1, mut x1, mut d, mut gn, mut gd, mut uv, mut t) = (empty, empty, empty, empty, empty, empty, empty);
    for i in 0..N {
        // Steps 1 to 16: x1/d and g(x1) = gn/gd.
        tv1[i] = mul_tight::<C, V>(&square_loose::<C, V>(&u[i]), &z);
        let tv2 = tight::<C, V>(add(&add(&square_raw::<C, V>(&tv1[i]), &tv1[i]), &bias));
        x1[i] = mul_tight::<C, V>(&ripple(add(&tv2, &one)), &b);
        let is_zero = equal::<C, V>(&tv2, &zero);
        d[i] = mul_tight::<C, V>(&select(is_zero, &z, &tight::<C, V>(minus::<C, V>(&tv2))), &a);
        let d2 = square_loose::<C, V>(&d[i]);
        gd[i] = mul_tight::<C, V>(&d2, &d[i]);
        let inner = ripple(mul_add::<C, V>(&a, &d2, &square_raw::<C, V>(&x1[i])));
        gn[i] = tight::<C, V>(add(&mul_add::<C, V>(&inner, &x1[i], &mul_raw::<C, V>(&b, &gd[i])), &bias));
        // sqrt_ratio(gn, gd), up to the power.
        uv[i] = mul_loose::<C, V>(&gn[i], &gd[i]);
        t[i] = mul_loose::<C, V>(&square_loose::<C, V>(&gd[i]), &uv[i]);
    }
    let powers = power_chain::<C, V, N>(&t);
    let mut out = [Mapped { x: zero, d: zero, y: zero }; N];
    for i in 0..N {
        let y1 = mul_tight::<C, V>(&powers[i], &uv[i]);
        let is_square = equal::<C, V>(&mul_tight::<C, V>(&square_loose::<C, V>(&y1), &gd[i]), &gn[i]);
        // Steps 18 to 25. Where g(x1) is not a square, sqrt_ratio returns y1·sqrt(-Z), which is used times Z·u^3.
        let y2 = mul_tight::<C, V>(&mul_loose::<C, V>(&tv1[i], &u[i]), &mul_loose::<C, V>(&y1, &root));
        let x2 = mul_tight::<C, V>(&tv1[i], &x1[i]);
        let x = select(is_square, &x1[i], &x2);
        let y = select(is_square, &y1, &y2);
        let parity = plain::<C, V>(&u[i])[0].xor(plain::<C, V>(&y)[0]).and(V::splat(1));
        let same = parity.eq(V::zero());
        let y = select(same, &y, &tight::<C, V>(minus::<C, V>(&y)));
        out[i] = Mapped { x, d: d[i], y };
    }
    out
}

/// `hash_to_curve` after `hash_to_field`: two maps, their sum, and what leads from the curve that is hashed to.
struct ToCurve<'a, C, V>(&'a [Limbs<V>; 2 * GROUP], PhantomData<C>);

impl<C: Curve, V: Lanes> Formula<V> for ToCurve<'_, C, V> {
    type Out = [[Limbs<V>; 3]; GROUP];
    #[inline(always)]
    fn run(self) -> Self::Out {
        let mapped = simple_swu::<C, V>(self.0);
        let mut out = [[[V::zero(); 5]; 3]; GROUP];
        for i in 0..GROUP {
            let (x, w, z) = sum::<C, V>(&mapped[i], &mapped[GROUP + i]);
            out[i] = C::leave(x, w, z);
        }
        out
    }
}

/// p + q as (X, 2Y, Z), with Z = h·d for the difference of the abscissae h/d. Isogenies are homomorphisms, so one applied
/// after the sum serves for two before it.
#[inline(always)]
fn sum<F: Prime, V: Lanes>(p: &Mapped<V>, q: &Mapped<V>) -> (Limbs<V>, Limbs<V>, Limbs<V>) {
    let u0 = mul_tight::<F, V>(&p.x, &q.d);
    let u1 = mul_tight::<F, V>(&q.x, &p.d);
    let d = mul_loose::<F, V>(&p.d, &q.d);
    let d2 = square_loose::<F, V>(&d);
    let h = ripple(add(&u1, &minus::<F, V>(&u0)));
    let h2 = square_loose::<F, V>(&h);
    // slope·Z = (y1 - y0)·d^2.
    let t = mul_loose::<F, V>(&ripple(add(&q.y, &minus::<F, V>(&p.y))), &d2);
    let v = mul_loose::<F, V>(&h2, &d);
    let (a0, a1) = (mul_tight::<F, V>(&u0, &v), mul_tight::<F, V>(&u1, &v));
    let others = add(&minus::<F, V>(&a0), &minus::<F, V>(&a1));
    let x = tight::<F, V>(add(&square_raw::<F, V>(&t), &others));
    // Z^3 = h·v·d^2.
    let z3 = mul_loose::<F, V>(&mul_loose::<F, V>(&h, &v), &d2);
    let y0 = mul_tight::<F, V>(&p.y, &z3);
    let w = mul_tight::<F, V>(&t, &twice_difference::<F, V>(&a0, &x));
    // W = 2·t·(a0 - X) - 2·y0.
    let w = tight::<F, V>(add(&w, &add(&minus::<F, V>(&y0), &minus::<F, V>(&y0))));
    (x, w, mul_tight::<F, V>(&h, &d))
}

#[cfg(test)]
pub(crate) mod tests;
