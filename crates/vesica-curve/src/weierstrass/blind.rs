//! Blinding on short Weierstrass curves, for [`crate::Blind`].
//!
//! **The sign.** A blinded B travels as x alone, and the evaluator takes B or -B, whichever its formulas make of x. That
//! says nothing of k·B, which is wanted with its sign: E - r·K and -E - r·K are different. But with g = y(B)^2 the evaluator's
//! isomorphic curve holds y(k·B)·y(B)^3, and so y(k·B)·y(B) costs it no root, and is the same for B and -B. Its lowest bit
//! travels with x(k·B), and the receiver, who kept y(B), tells the two roots from one another by it. A public key is k·G
//! with 1 in the place of y(B): the compressed point of SEC 1.
//!
//! **Sums of table entries**, affine, with inversions shared by a block: 5M + 1S each, where the best complete formulas
//! take 11M and more (J. Renes, C. Costello, L. Batina, EUROCRYPT 2016, mixed). The windows are summed up in two halves,
//! which are added at the end: it halves the inversions, and it makes it plain that no addition fails.
//!
//! **No exceptional case** depends on what anybody sends. Digits d are odd, |d| <= 31, and a half has at most 32 of them.
//! Within a half, m = Σ_{j<i} d_j·32^j is not zero, and |m| < 32^i <= |d_i·32^i|, all below 2^160: so d_i·32^i is neither m
//! nor -m modulo the order n > 2^255, and the point that they multiply has order n. The sum of the lower half is that of the
//! upper, or its negative, for at most two values of the upper digits: with probability below 2^-128, since no half has
//! fewer than 26. H(x) is ±r·G with about probability 2^-254, because r is drawn after x. Only E may be ±r·K by somebody's
//! wish. A block is not spoilt by it, since a denominator of zero is replaced by one, and the element that comes out is
//! any: it makes a tag that matches nothing. It must not be refused, see [`crate::Blind::unblind`].

use super::*;
use crate::blind::{self, MULTIPLES, signed};

/// The multipliers of a batch.
type Digits = blind::Digits<6>;

/// Bytes of an evaluated element: 2, or 3 if the bit is set, and x.
pub(crate) const EVALUATED: usize = 1 + WIRE;

/// The multiples of a point.
pub struct Table<C> {
    windows: Vec<Window>,
    curve: PhantomData<C>,
}

/// X and W of a point's odd multiples, limb by limb.
#[derive(Clone)]
#[repr(align(64))]
struct Window {
    x: [[u64; MULTIPLES]; 5],
    w: [[u64; MULTIPLES]; 5],
}

/// What undoes the blinding of a batch.
pub struct Blinds<C> {
    digits: Digits,
    /// W of the blinded elements.
    w: Vec<Eight>,
    curve: PhantomData<C>,
}

/// The digits in a half.
const fn half<C: Curve>() -> usize {
    C::WINDOWS / 2
}

impl<C: Curve> Table<C> {
    /// The multiples of the base point.
    pub(crate) fn base_on(backend: Backend) -> Self {
        backend::run_on(backend, MakeTable(Points::base_on(backend)))
    }

    /// The multiples of a public key.
    pub(crate) fn key_on(backend: Backend, public: &[u8]) -> Result<Self, BadElement> {
        let (points, odd) = read_evaluated::<C>(public, 1)?;
        let key = backend::run_on(backend, Lift { points, odd: &odd, others: None })?;
        Ok(backend::run_on(backend, MakeTable(key)))
    }
}

impl<C: Curve> Points<C> {
    /// The base point, affine.
    fn base_on(backend: Backend) -> Self {
        let (first, x) = C::BASE;
        let mut points = Self::new(1);
        for cell in &mut points.cells {
            cell.x = limbs(x).map(|limb| [limb; 8]);
        }
        let odd = vec![[u64::from(first & 1); 8]; points.cells.len()];
        let base = backend::run_on(backend, Lift { points, odd: &odd, others: None });
        base.expect("a point of the standard")
    }

    /// The compressed point k·G.
    pub(crate) fn public_on(backend: Backend, k: &Scalar<C>) -> Vec<u8> {
        let mut out = Vec::new();
        let points = Self::base_on(backend).mul_on(backend, k);
        backend::run_on(backend, Encode { points: &points, wire: &mut out, with_bit: true });
        out
    }

    /// Appends the blinded elements: H(x) + r·G.
    pub(crate) fn blind_on(
        backend: Backend,
        base: &Table<C>,
        dst: &Dst,
        inputs: &[Digest],
        digits: Digits,
        wire: &mut Vec<u8>,
    ) -> Blinds<C> {
        let mut messages = Messages::new(dst);
        let uniform = |i: usize| messages.expand(&inputs[i]);
        let hash = Hash { len: inputs.len(), uniform, jacobian: true, curve: PhantomData };
        let mut points = backend::run_on(backend, hash);
        backend::run_on(backend, ToAffine(&mut points));
        backend::run_on(backend, AddMultiples { points: &mut points, table: base, digits: &digits });
        points.encode_on(backend, wire);
        Blinds { digits, w: points.cells.iter().map(|cell| cell.w).collect(), curve: PhantomData }
    }

    /// Appends the products of blinded elements and k.
    pub(crate) fn evaluate_on(
        backend: Backend,
        k: &Scalar<C>,
        wire: &[u8],
        coins: &[u8; 32],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let points = Self::decode_on(backend, wire, coins)?.mul_on(backend, k);
        backend::run_on(backend, Encode { points: &points, wire: out, with_bit: true });
        Ok(())
    }

    /// Appends what is left of evaluated elements without r·K.
    pub(crate) fn unblind_on(
        backend: Backend,
        key: &Table<C>,
        blinds: Blinds<C>,
        wire: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadElement> {
        let (points, mut odd) = read_evaluated::<C>(wire, blinds.digits.len())?;
        // r·K - E has the x of E - r·K.
        odd.as_flattened_mut().iter_mut().for_each(|bit| *bit ^= 1);
        let mut points = backend::run_on(backend, Lift { points, odd: &odd, others: Some(&blinds.w) })?;
        backend::run_on(backend, AddMultiples { points: &mut points, table: key, digits: &blinds.digits });
        points.encode_on(backend, out);
        Ok(())
    }
}

/// Reads `len` evaluated elements: x as a batch, and the bits.
fn read_evaluated<C: Curve>(wire: &[u8], len: usize) -> Result<(Points<C>, Vec<[u64; 8]>), BadElement> {
    let (elements, rest) = wire.as_chunks::<EVALUATED>();
    if !rest.is_empty() {
        return Err(BadElement { index: elements.len(), why: CUT_OFF });
    }
    blind::match_len(elements.len(), len)?;
    let mut points = Points::new(len);
    let mut odd = vec![[0; 8]; points.cells.len()];
    for (index, [first, x @ ..]) in elements.iter().enumerate() {
        if first & !1 != 2 {
            return Err(BadElement { index, why: "has neither 2 nor 3 as its first byte" });
        }
        points.put(index, x)?;
        odd[index / 8][index % 8] = u64::from(first & 1);
    }
    points.fill(|cell| &mut cell.x);
    Ok((points, odd))
}

// ---- Square roots.

/// The lowest bit of y, as a word, from W = 2y: y is W/2 or (W + p)/2, whose lowest bit is the second of W, p being 3 modulo 4.
#[inline(always)]
pub(super) fn bit_of_half(plain_w: u64) -> u64 {
    plain_w >> 1 & 1
}

/// Affine points from their x, which are integers yet: y is the root that makes y·y' even or odd, as the bit says.
struct Lift<'a, C> {
    points: Points<C>,
    odd: &'a [[u64; 8]],
    /// 2y', or 2 for all.
    others: Option<&'a [Eight]>,
}

impl<C: Curve> Kernel for Lift<'_, C> {
    type Out = Result<Points<C>, BadElement>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Self::Out {
        let Self { mut points, odd, others } = self;
        let total = vectors::<V>(points.len);
        for start in (0..total).step_by(8) {
            let place = |i: usize| place::<V>((start + i).min(total - 1));
            let mut x = [[V::zero(); 5]; 8];
            let mut other = [splat(const { Held::<C>::small(2) }); 8];
            let mut bits = [V::zero(); 8];
            for i in 0..8 {
                let (cell, part) = place(i);
                x[i] = held::<C, V>(&load(&points.cells[cell].x, part));
                bits[i] = V::load(&odd[cell][part * V::WIDTH..]);
                if let Some(others) = others {
                    other[i] = load(&others[cell], part);
                }
            }
            let (w, found) = V::call(Roots::<C, V> { x: &x, other: &other, odd: &bits, curve: PhantomData });
            for i in 0..(total - start).min(8) {
                if let Some(lane) = first_unset(found[i]) {
                    // What stands behind the last element is bad if it is.
                    let index = ((start + i) * V::WIDTH + lane).min(points.len - 1);
                    return Err(BadElement { index, why: OFF_CURVE });
                }
                let (cell, part) = place(i);
                let cell = &mut points.cells[cell];
                store(&mut cell.x, part, &x[i]);
                store(&mut cell.w, part, &w[i]);
                store(&mut cell.s, part, &splat::<V>(Held::<C>::ONE));
            }
        }
        Ok(points)
    }
}

/// W of the points with these x, and the masks of the lanes in which there is a point.
struct Roots<'a, C, V> {
    x: &'a [Limbs<V>; 8],
    other: &'a [Limbs<V>; 8],
    odd: &'a [V; 8],
    curve: PhantomData<C>,
}

impl<C: Curve, V: Lanes> Formula<V> for Roots<'_, C, V> {
    type Out = ([Limbs<V>; 8], [V; 8]);
    #[inline(always)]
    fn run(self) -> Self::Out {
        let Self { x, other, odd, .. } = self;
        let mut g = *x;
        for g in &mut g {
            *g = right_side::<C, V>(g);
        }
        let (mut w, mut found) = (power_chain::<C, V, 8>(&g), *odd);
        for i in 0..8 {
            let y = mul_tight::<C, V>(&w[i], &g[i]);
            found[i] = equal::<C, V>(&mul_tight::<C, V>(&y, &y), &g[i]);
            let product = plain::<C, V>(&mul::<C, V>(&y, &other[i]))[0];
            // See bit_of_half.
            let wrong = product.shr(1).xor(odd[i]).and(V::splat(1));
            let twice = tight::<C, V>(add(&add(&y, &y), &splat(Held::<C>::BIAS)));
            let minus = tight::<C, V>(minus::<C, V>(&twice));
            w[i] = select(V::zero().sub(wrong), &minus, &twice);
        }
        (w, found)
    }
}

// ---- Tables.

/// The multiples of one affine point.
struct MakeTable<C>(Points<C>);

impl<C: Curve> Kernel for MakeTable<C> {
    type Out = Table<C>;
    #[inline(always)]
    fn run<V: Lanes>(self) -> Table<C> {
        let cell = self.0.cells[0];
        let a = splat(const { Held::<C>::small(-3) });
        // The place values, one after the other, in all lanes.
        let mut work = Work::<V>::new::<C>(GROUP, 0);
        work.x.fill(splat(cell.x.map(|row| row[0])));
        work.w.fill(splat(cell.w.map(|row| row[0])));
        work.a.fill(a);
        let mut places = Points::<C>::new(C::WINDOWS);
        for window in 0..C::WINDOWS {
            if window > 0 {
                for _ in 0..5 {
                    work.double::<C>();
                }
            }
            let cell = &mut places.cells[window / 8];
            let mut copies = EMPTY;
            store(&mut copies.x, 0, &work.x[0]);
            store(&mut copies.w, 0, &work.w[0]);
            for limb in 0..5 {
                cell.x[limb][window % 8] = copies.x[limb][0];
                cell.w[limb][window % 8] = copies.w[limb][0];
            }
        }
        places.fill(|cell| &mut cell.x);
        places.fill(|cell| &mut cell.w);
        // Their multiples, all windows at once.
        let n = vectors::<V>(C::WINDOWS);
        let mut work = Work::<V>::new::<C>(n, MULTIPLES);
        work.a.fill(a);
        for i in 0..n {
            let (cell, part) = place::<V>(i);
            work.x[i] = load(&places.cells[cell].x, part);
            work.w[i] = load(&places.cells[cell].w, part);
            work.table[i * MULTIPLES] = [work.x[i], work.w[i]];
        }
        call_table::<C, V, OddMultiples>(&mut work);
        let mut windows = vec![Window { x: [[0; MULTIPLES]; 5], w: [[0; MULTIPLES]; 5] }; C::WINDOWS];
        for (window, out) in windows.iter_mut().enumerate() {
            let (vector, lane) = (window / V::WIDTH, window % V::WIDTH);
            for multiple in 0..MULTIPLES {
                let [x, w] = &work.table[vector * MULTIPLES + multiple];
                let mut copies = EMPTY;
                store(&mut copies.x, 0, x);
                store(&mut copies.w, 0, w);
                for limb in 0..5 {
                    out.x[limb][multiple] = copies.x[limb][lane];
                    out.w[limb][multiple] = copies.w[limb][lane];
                }
            }
        }
        Table { windows, curve: PhantomData }
    }
}

// ---- Sums.

/// Where a block's summands come from. Its sums are in the first half of a workspace for the lower windows, and in the second
/// for the upper ones.
#[derive(Clone, Copy)]
struct Summands<'a, C> {
    table: &'a Table<C>,
    digits: &'a Digits,
    /// The block's first vector, and how many it has.
    start: usize,
    vectors: usize,
    /// The last vector that has digits of its own.
    last: usize,
}

/// One window's multiple for a vector of sums.
struct Summand<'a, V> {
    window: &'a Window,
    index: V,
    negative: V,
}

impl<'a, C: Curve> Summands<'a, C> {
    /// What is added to a sum at a step, 0 to `half - 1`.
    #[inline(always)]
    fn at<V: Lanes>(&self, sum: usize, step: usize) -> Summand<'a, V> {
        let (vector, window) = if sum < self.vectors { (sum, step) } else { (sum - self.vectors, step + half::<C>()) };
        let place = place::<V>((self.start + vector).min(self.last));
        let (index, negative) = signed(self.digits.digit::<V>(place, window));
        Summand { window: &self.table.windows[window], index, negative }
    }
}

impl<V: Lanes> Summand<'_, V> {
    #[inline(always)]
    fn pick(&self, coordinate: &[[u64; MULTIPLES]; 5]) -> Limbs<V> {
        let mut out = [V::zero(); 5];
        for (out, limb) in out.iter_mut().zip(coordinate) {
            *out = V::lookup(limb, self.index);
        }
        out
    }

    /// X: tight.
    #[inline(always)]
    fn x(&self) -> Limbs<V> {
        self.pick(&self.window.x)
    }

    /// -W: raw, below 2^257.
    #[inline(always)]
    fn minus_w<C: Curve>(&self) -> Limbs<V> {
        let w = self.pick(&self.window.w);
        select(self.negative, &w, &minus::<C, V>(&w))
    }
}

/// One addition to each sum of a block: it takes the inverses of the denominators that the step before it left, going the
/// other way.
struct AddStep<'a, C, V> {
    work: &'a mut Work<V>,
    /// The inverses of the chains.
    rest: Quad<V>,
    down: bool,
    summands: Summands<'a, C>,
    step: usize,
}

impl<C: Curve, V: Lanes> Formula<V> for AddStep<'_, C, V> {
    /// The chains' products for the next inversion.
    type Out = Quad<V>;
    #[inline(always)]
    fn run(self) -> Quad<V> {
        let Self { work, mut rest, down, summands, step } = self;
        let Work { x, w, den, pre, slope, .. } = work;
        let mut chain = ones::<Hot<C>, V>();
        let n = den.len();
        for i in (0..n).step_by(GROUP) {
            let at = if down { n - GROUP - i } else { i };
            let inverse = enter::<Hot<C>, V>(den, pre, &mut rest, at);
            let mut line = inverse;
            for c in 0..GROUP {
                // (w - w_q) / 2(x - x_q).
                let rise = ripple(add(&w[at + c], &summands.at(at + c, step).minus_w::<C>()));
                line[c] = mul_loose::<Hot<C>, V>(&rise, &inverse[c]);
            }
            let mut to = inverse;
            for c in 0..GROUP {
                // x' = slope^2 - x - x_q.
                let others = add(&minus::<Hot<C>, V>(&x[at + c]), &minus::<Hot<C>, V>(&slope[at + c]));
                to[c] = tight::<Hot<C>, V>(add(&square_raw::<Hot<C>, V>(&line[c]), &others));
            }
            for c in 0..GROUP {
                let step = twice_difference::<Hot<C>, V>(&x[at + c], &to[c]);
                w[at + c] = ordinate::<Hot<C>, V>(&line[c], &step, &w[at + c]);
                x[at + c] = to[c];
            }
            if step + 1 < half::<C>() {
                let mut next = to;
                for c in 0..GROUP {
                    slope[at + c] = summands.at(at + c, step + 1).x();
                    next[c] = twice_difference::<Hot<C>, V>(&to[c], &slope[at + c]);
                }
                leave::<Hot<C>, V>(den, pre, &mut chain, at, &next);
            }
        }
        chain
    }
}

/// The multiples of a block, one for each vector of elements, in the first half of the workspace.
#[inline(always)]
fn sum_up<C: Curve, V: Lanes>(work: &mut Work<V>, summands: Summands<C>) {
    // The first summands, and the denominators of the first additions.
    let mut chain = ones::<C, V>();
    for at in (0..work.den.len()).step_by(GROUP) {
        let mut next = ones::<C, V>();
        for c in 0..GROUP {
            let first = summands.at::<V>(at + c, 0);
            work.x[at + c] = first.x();
            let minus_w = tight::<C, V>(add(&first.minus_w::<C>(), &splat(Held::<C>::BIAS)));
            work.w[at + c] = tight::<C, V>(minus::<C, V>(&minus_w));
            work.slope[at + c] = summands.at(at + c, 1).x();
            next[c] = twice_difference::<C, V>(&work.x[at + c], &work.slope[at + c]);
        }
        leave::<C, V>(&mut work.den, &mut work.pre, &mut chain, at, &next);
    }
    let mut down = true;
    for step in 1..half::<C>() {
        let rest = invert_chains::<C, V>(&chain);
        chain = V::call(AddStep { work, rest, down, summands, step });
        down = !down;
    }
    V::call(Fold { work, curve: PhantomData::<C> });
}

/// Adds the second half of the sums to the first. Where the two are the same point but for the sign, any element comes out.
struct Fold<'a, C, V> {
    work: &'a mut Work<V>,
    curve: PhantomData<C>,
}

impl<C: Curve, V: Lanes> Formula<V> for Fold<'_, C, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Work { x, w, den, pre, .. } = self.work;
        let n = x.len() / 2;
        let (x, others) = x.split_at_mut(n);
        for i in 0..n {
            let same = equal::<C, V>(&x[i], &others[i]);
            den[i] = select(same, &splat(Held::<C>::ONE), &twice_difference::<C, V>(&x[i], &others[i]));
        }
        V::call(InvertAll::<C, V> { den: &mut den[..n], pre: &mut pre[..n], field: PhantomData });
        for i in 0..n {
            let rise = ripple(add(&w[i], &minus::<C, V>(&w[n + i])));
            let line = mul_loose::<C, V>(&rise, &den[i]);
            let minuses = add(&minus::<C, V>(&x[i]), &minus::<C, V>(&others[i]));
            let to = tight::<C, V>(add(&square_raw::<C, V>(&line), &minuses));
            w[i] = ordinate::<C, V>(&line, &twice_difference::<C, V>(&x[i], &to), &w[i]);
            x[i] = to;
        }
    }
}

/// Adds to each of the affine points its own multiple of the table's.
struct AddMultiples<'a, C> {
    points: &'a mut Points<C>,
    table: &'a Table<C>,
    digits: &'a Digits,
}

impl<C: Curve> Kernel for AddMultiples<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { points: Points { len, cells, .. }, table, digits } = self;
        let mut room = None;
        for (start, vectors) in blocks(vectors::<V>(*len)) {
            let work = match &mut room {
                Some(work) => work,
                None => room.insert(Work::<V>::new::<C>(2 * vectors, 0)),
            };
            work.resize(2 * vectors);
            let last = len.div_ceil(8) * 8 / V::WIDTH - 1;
            sum_up(work, Summands { table, digits, start, vectors, last });
            for i in 0..vectors {
                let (cell, part) = place::<V>(start + i);
                work.x[vectors + i] = load(&cells[cell].x, part);
                work.w[vectors + i] = load(&cells[cell].w, part);
            }
            V::call(Fold { work, curve: PhantomData::<C> });
            for i in 0..vectors {
                let (cell, part) = place::<V>(start + i);
                store(&mut cells[cell].x, part, &work.x[i]);
                store(&mut cells[cell].w, part, &work.w[i]);
            }
        }
    }
}

/// Makes hashed points in Jacobian form affine: (X/Z^2, W/Z^3).
struct ToAffine<'a, C>(&'a mut Points<C>);

impl<C: Curve> Kernel for ToAffine<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self(Points { len, cells, .. }) = self;
        for (start, n) in blocks(vectors::<V>(*len)) {
            let (mut den, mut pre) = (vec![[V::zero(); 5]; n], vec![[V::zero(); 5]; n]);
            for (i, den) in den.iter_mut().enumerate() {
                let (cell, part) = place::<V>(start + i);
                *den = load(&cells[cell].s, part);
            }
            V::call(InvertAll::<C, V> { den: &mut den, pre: &mut pre, field: PhantomData });
            for (i, inverse) in den.iter().enumerate() {
                let (cell, part) = place::<V>(start + i);
                let cell = &mut cells[cell];
                let square = square_loose::<C, V>(inverse);
                let cube = mul_loose::<C, V>(&square, inverse);
                let (x, w) = (load(&cell.x, part), load(&cell.w, part));
                store(&mut cell.x, part, &mul_tight::<C, V>(&x, &square));
                store(&mut cell.w, part, &mul_tight::<C, V>(&w, &cube));
                store(&mut cell.s, part, &splat::<V>(Held::<C>::ONE));
            }
        }
    }
}

/// Makes of a curve's blinding functions of this crate, as [`entries`] does.
macro_rules! blinding {
    ($group:ty) => {
        impl crate::Blind for $group {
            const EVALUATED: usize = weierstrass::blind::EVALUATED;
            type Key = weierstrass::blind::Table<Field>;
            type Blinds = weierstrass::blind::Blinds<Field>;

            fn public(k: &Self::Scalar) -> Vec<u8> {
                Points::public_on(Backend::chosen(), k)
            }

            fn key(public: &[u8]) -> Result<Self::Key, BadElement> {
                Self::Key::key_on(Backend::chosen(), public)
            }

            fn blind(
                dst: &Dst,
                inputs: &[Digest],
                random: &mut dyn FnMut(&mut [u8]),
                wire: &mut Vec<u8>,
            ) -> Self::Blinds {
                let digits = crate::blind::Digits::draw(inputs.len(), random);
                Points::blind_on(Backend::chosen(), Field::base_table(), dst, inputs, digits, wire)
            }

            fn evaluate(k: &Self::Scalar, wire: &[u8], coins: &[u8; 32], out: &mut Vec<u8>) -> Result<(), BadElement> {
                Points::evaluate_on(Backend::chosen(), k, wire, coins, out)
            }

            fn unblind(
                key: &Self::Key,
                blinds: Self::Blinds,
                wire: &[u8],
                _coins: &[u8; 32],
                out: &mut Vec<u8>,
            ) -> Result<(), BadElement> {
                Points::unblind_on(Backend::chosen(), key, blinds, wire, out)
            }
        }
    };
}
pub(crate) use blinding;
