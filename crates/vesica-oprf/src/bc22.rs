//! OPRF from vector OLE and a polynomial for each bin of a table (PCG-PSI).
//!
//! [BC22] Bui, Couteau, "Improved private set intersection for sets with small entries", PKC 2023, eprint 2022/334: its protocol from
//! vector OLE and bins of several slots.
//!
//!   F       GF(2^128)                      Block      P_b    bin b's polynomial, monic, of degree 4        coefficients
//!   A, C    the receiver's VOLE            a, c       Δ, B   the sender's                                  delta, k
//!   K       B + D·Δ, four a bin            key.k      D      what the receiver sends, four a bin           d
//!
//! 1. R puts each key into one of its two bins, at most four into each, and a random element into every slot that is left.
//!    P_b(X) := X^4 + Σ_j p_bj·X^j, whose roots are what is in the slots of b.
//! 2. VOLE, four for each bin: S gets Δ, B, R gets A, C with C = A·Δ + B.
//! 3. R -> S: D := A + p.   S: K := B + D·Δ = C + p·Δ.
//! 4. F(y) = H_o(Σ_j K_bj·y^j + Δ·y^4, y) for S, at both bins b of y;  F(x) = H_o(Σ_j C_bj·x^j, x) for R, at the bin that x is in.
//! Why they agree: S's value at y is Σ_j C_bj·y^j + Δ·P_b(y), and P_b is 0 at its roots.
//!
//! The sender sees D, which A pads. The receiver knows F where P_b(y) = 0; elsewhere Δ·P_b(y) hides the value, and Δ has 128 bits that it
//! does not know. Whatever it sends, D - A makes one monic polynomial of degree 4 for each bin. So four digests for each bin are all at
//! which a receiver that deviates can know F, however many it tries: `vesica_params::bins::bins` says how many bins there are. A sender
//! that deviates can send one value of a key and not the other; the receiver then finds the key only if its table has it in that bin.
//! Rounds: VOLE + 1/2.   Bytes: VOLE(4·bins) + 64 a bin.
//! Differs from the paper: the field is never smaller; two different bins for each key; H_o is keyed by the run, the unit and which of the
//! key's two bins it is for; the paper's own steps against a sender that deviates are not taken.

use crate::outer::Outer;
use crate::vole::Field;
use crate::{Oprf, Prf, Receiver, Sender};
use vesica_block::prg::Prg;
use vesica_block::{Block, gf128, large, prefetch};
use vesica_okvs::{Bins, Table};
use vesica_ot::{Judge, Security, softspoken};
use vesica_params::bins::SLOTS;
use vesica_params::lpn::CodeSet;
use vesica_session::{Channel, Error, Result, SessionRng};
use vesica_types::{Digest, UnitId};
use zeroize::{DefaultIsZeroes, Zeroizing};

/// What both parties agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Names the run: the parties' jointly tossed salt.
    pub session: [u8; 32],
    /// Bins of a unit, for the receiver's keys of one.
    pub bins: u32,
    /// The code of the VOLE.
    pub code: &'static CodeSet,
    /// Against whom.
    pub security: Security,
}

/// The function.
#[derive(Clone, Debug)]
pub struct Bc22 {
    params: Params,
    judge: Judge,
}

/// The sender's side.
pub struct Bc22Sender {
    params: Params,
    base: softspoken::Sender,
}

/// The receiver's side.
pub struct Bc22Receiver {
    params: Params,
    base: softspoken::Receiver,
}

/// A unit's key; what is secret of it is wiped when it is dropped.
pub struct Bc22Key {
    unit: UnitParams,
    delta: Zeroizing<Block>,
    k: Zeroizing<Vec<Row>>,
}

/// A bin's elements, in a cache line of their own.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Row([Block; SLOTS]);

impl DefaultIsZeroes for Row {}

/// Bins, and keys, that are worked on at once: what is made of them stays in the first-level cache.
const BATCH: usize = 128;

impl Params {
    /// Elements that the receiver sends.
    fn elements(&self) -> usize {
        SLOTS * self.bins as usize
    }
}

impl Bc22 {
    /// The function with these parameters.
    pub fn new(params: Params) -> Self {
        Self { params, judge: Judge::default() }
    }

    /// The same, as one of the bases of a run whose checks `judge` ends.
    pub fn judged(self, judge: &Judge) -> Self {
        Self { judge: judge.clone(), ..self }
    }
}

impl Oprf for Bc22 {
    type Key = Bc22Key;
    type Sender = Bc22Sender;
    type Receiver = Bc22Receiver;

    fn sender(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Bc22Sender> {
        let params = &self.params;
        let base =
            softspoken::Sender::open((params.security, &self.judge), softspoken::FOLD, &params.session, ch, rng)?;
        Ok(Bc22Sender { params: self.params, base })
    }

    fn receiver(&self, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Bc22Receiver> {
        let params = &self.params;
        let base =
            softspoken::Receiver::open((params.security, &self.judge), softspoken::FOLD, &params.session, ch, rng)?;
        Ok(Bc22Receiver { params: self.params, base })
    }
}

impl Sender for Bc22Sender {
    type Key = Bc22Key;

    fn send(&self, unit: UnitId, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Bc22Key> {
        let Self { params, base } = self;
        // 2. B
        ch.step("vole");
        let n = params.elements();
        let mut b = vesica_ot::vole::send::<Block>(base, &params.session, unit, params.code, n, ch, rng)?;
        // 3. <- D;  K := B + D·Δ
        ch.step("polynomials");
        let wire = ch.recv_exact(n * Block::BYTES)?;
        let delta = Zeroizing::new(base.delta());
        let mut k = Zeroizing::new(Vec::new());
        large::reserve(&mut *k, params.bins as usize);
        for (b, d) in b.chunks_mut(SLOTS * BATCH).zip(wire.chunks(SLOTS * BATCH * Block::BYTES)) {
            gf128::mul_add(b, &Block::unpack(d), *delta);
            k.extend(b.as_chunks().0.iter().map(|&row| Row(row)));
        }
        Ok(Bc22Key { unit: UnitParams::new(params, unit), delta, k })
    }
}

impl Receiver for Bc22Receiver {
    fn receive(&self, unit: UnitId, xs: &[Digest], ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Vec<Block>> {
        let Self { params, base } = self;
        let own = UnitParams::new(params, unit);
        // 2. A, C
        ch.step("vole");
        let n = params.elements();
        let (a, c) = vesica_ot::vole::receive::<Block>(base, &params.session, unit, params.code, n, ch, rng)?;
        // 1. What is in each bin
        ch.step("polynomials");
        let table = own.bins.table(xs).map_err(|error| Error::Bug(error.to_string()))?;
        // 3. -> D := A + p
        let mut wire = Vec::new();
        large::reserve(&mut wire, n * Block::BYTES);
        let mut fillers = Prg::new(Block::from_le_bytes(rng.bytes()));
        let rows = a.as_chunks::<SLOTS>().0;
        for (first, rows) in (0..).step_by(BATCH).zip(rows.chunks(BATCH)) {
            let p = coefficients(&roots(&table, xs, first..first + rows.len(), &mut fillers));
            for (i, a) in rows.iter().enumerate() {
                Block::pack(&std::array::from_fn::<_, SLOTS, _>(|j| a[j] ^ p[j][i]), &mut wire);
            }
        }
        ch.send(&wire)?;
        // 4. F(x) = H_o(Σ_j C_bj·x^j, x)
        let rows = c.as_chunks::<SLOTS>().0;
        let mut values = vec![Block::ZERO; xs.len()];
        for (which, outer) in own.outer.iter().enumerate() {
            // Which keys are in the first of their bins, or in the second, and where that is.
            let here = |bin| table.bin(bin).iter().filter(|entry| entry.which() == which).map(move |e| (e.key(), bin));
            let here: Vec<(usize, usize)> = (0..rows.len()).flat_map(here).collect();
            for here in here.chunks(BATCH) {
                let xs: Vec<Digest> = here.iter().map(|&(key, _)| xs[key]).collect();
                let mut batch = evaluate(Block::ZERO, |i| &rows[here[i].1], &xs);
                outer.hash(&mut batch, &xs);
                here.iter().zip(batch).for_each(|(&(key, _), value)| values[key] = value);
            }
        }
        Ok(values)
    }
}

impl Prf for Bc22Key {
    const VALUES: usize = 2;

    /// 4. F(y) = H_o(Σ_j K_bj·y^j + Δ·y^4, y) for the two bins of y
    fn eval(&self, ys: &[Digest], values: &mut Vec<Block>) {
        for ys in ys.chunks(BATCH) {
            let places = self.unit.bins.places(ys);
            places.as_flattened().iter().for_each(|&bin| prefetch(&self.k, bin as usize));
            let [first, second] = [0, 1].map(|which| {
                let mut batch = evaluate(*self.delta, |i| &self.k[places[i][which] as usize].0, ys);
                self.unit.outer[which].hash(&mut batch, ys);
                batch
            });
            values.extend(first.into_iter().zip(second).flat_map(<[Block; 2]>::from));
        }
    }
}

/// What is in the slots of these bins, a list a slot: keys, and fillers where there are none.
fn roots(table: &Table, xs: &[Digest], bins: std::ops::Range<usize>, fillers: &mut Prg) -> [Vec<Block>; SLOTS] {
    let mut roots = [(); SLOTS].map(|()| vec![Block::ZERO; bins.len()]);
    roots.iter_mut().for_each(|roots| fillers.fill(roots));
    for (i, bin) in bins.enumerate() {
        table.bin(bin).iter().zip(&mut roots).for_each(|(entry, roots)| roots[i] = xs[entry.key()].into());
    }
    roots
}

/// The coefficients p_0 to p_3 of the monic polynomials with these roots, of which there is a list a slot.
fn coefficients([r0, r1, r2, r3]: &[Vec<Block>; SLOTS]) -> [Vec<Block>; SLOTS] {
    let sum = |a: &[Block], b: &[Block]| a.iter().zip(b).map(|(&a, &b)| a ^ b).collect::<Vec<Block>>();
    let product = |a: &[Block], b: &[Block]| {
        let mut product = a.to_vec();
        gf128::mul_each(&mut product, b);
        product
    };
    // (X^2 + s·X + p)·(X^2 + t·X + q)
    let (s, p, t, q) = (sum(r0, r1), product(r0, r1), sum(r2, r3), product(r2, r3));
    let middle = sum(&sum(&p, &q), &product(&s, &t));
    [product(&p, &q), sum(&product(&s, &q), &product(&t, &p)), middle, sum(&s, &t)]
}

/// lead·x^4 + Σ_j row(i)_j·x^j for the i-th key x.
fn evaluate<'a>(lead: Block, row: impl Fn(usize) -> &'a [Block; SLOTS], xs: &[Digest]) -> Vec<Block> {
    let x: Vec<Block> = xs.iter().map(|&x| x.into()).collect();
    let mut sums = vec![lead; x.len()];
    for j in (0..SLOTS).rev() {
        gf128::mul_each(&mut sums, &x);
        sums.iter_mut().enumerate().for_each(|(i, sum)| *sum ^= row(i)[j]);
    }
    sums
}

/// What both sides derive for a unit from the run's salt, which was tossed after the keys were fixed.
struct UnitParams {
    bins: Bins,
    /// H_o for the first of a key's bins, and for the second: equal values there must not make equal tags.
    outer: [Outer; 2],
}

impl UnitParams {
    fn new(params: &Params, unit: UnitId) -> Self {
        let key = |context: &str| {
            let mut hash = blake3::Hasher::new_derive_key(context);
            hash.update(&params.session).update(&unit.0.to_le_bytes());
            *hash.finalize().as_bytes()
        };
        let bins = key("vesica 2026 bc22 bins");
        let outer = ["vesica 2026 bc22 outer, first bin", "vesica 2026 bc22 outer, second bin"];
        Self {
            bins: Bins::new(params.bins, Block::from_le_bytes(bins.as_chunks().0[0])),
            outer: outer.map(|context| Outer::new(key(context), params.security)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use vesica_params::{Level, bins, lpn};
    use vesica_testkit::{digests, fixed_rng, two};

    const UNIT: UnitId = UnitId(5);

    fn params(n: usize, security: Security) -> Params {
        let bins = bins::bins(n as u64, 1, Level::STANDARD).unwrap();
        Params { session: [3; 32], bins, code: &lpn::SETS[0], security }
    }

    /// F as the receiver has it at xs, and as the sender has it at ys.
    fn run(security: Security, xs: &[Digest], ys: &[Digest]) -> (Vec<Block>, Vec<[Block; 2]>) {
        let function = Bc22::new(params(xs.len(), security));
        two(
            |lines, rng| {
                let ch = lines.peer().unwrap();
                function.receiver(ch, rng).unwrap().receive(UNIT, xs, ch, rng).unwrap()
            },
            |lines, rng| {
                let ch = lines.peer().unwrap();
                let key = function.sender(ch, rng).unwrap().send(UNIT, ch, rng).unwrap();
                let mut values = Vec::new();
                key.eval(ys, &mut values);
                values.as_chunks().0.to_vec()
            },
        )
    }

    #[test]
    fn the_receiver_has_one_of_its_keys_two_values_and_all_look_random() {
        for security in [Security::SemiHonest, Security::Malicious] {
            for n in [0, 1, 2, 8, 31, 3000] {
                let xs = digests(0, n);
                let ys = [xs.clone(), digests(n, n + 100)].concat();
                let (mine, theirs) = run(security, &xs, &ys);
                assert_eq!(mine.len(), xs.len());
                assert!(mine.iter().zip(&theirs).all(|(value, both)| both.contains(value)), "{security:?} {n}");
                // No two of the sender's are equal, and the receiver has none of another key.
                let all: HashSet<u128> = theirs.as_flattened().iter().map(|value| value.0).collect();
                assert_eq!(all.len(), 2 * ys.len());
                let others = theirs[xs.len()..].as_flattened();
                assert!(mine.iter().all(|value| !others.contains(value)));
            }
        }
    }

    /// Zero is an element like any other, and so is one: as a digest of both, of either, and of neither.
    #[test]
    fn zero_and_one_are_keys_like_others() {
        let [zero, one] = [Digest([0; 16]), Digest(Block::ONE.to_le_bytes())];
        for xs in [vec![zero], vec![one], vec![zero, one], digests(0, 5)] {
            let (mine, theirs) = run(Security::SemiHonest, &xs, &[zero, one]);
            for (key, values) in [zero, one].iter().zip(theirs) {
                let found = mine.iter().any(|value| values.contains(value));
                assert_eq!(found, xs.contains(key), "{xs:?}");
            }
        }
    }

    /// All of a bin's slots are roots, doubled ones too, and a polynomial of degree four has no others.
    #[test]
    fn polynomials_vanish_at_the_slots_and_nowhere_else() {
        let x = digests(0, 9);
        let block = |i: usize| Block::from(x[i]);
        let roots = [[0, 0, 5], [1, 0, 6], [2, 2, 5], [3, 2, 6]].map(|slot| slot.map(block).to_vec());
        let p = coefficients(&roots);
        for bin in 0..3 {
            let row = std::array::from_fn(|j| p[j][bin]);
            let at = evaluate(Block::ONE, |_| &row, &x);
            for i in 0..x.len() {
                let is_root = roots.iter().any(|slot| slot[bin] == block(i));
                assert_eq!(at[i] == Block::ZERO, is_root, "{bin} {i}");
            }
        }
    }

    /// What a receiver sends is a polynomial of degree four for each bin whatever it is, so it cannot stand for more keys.
    #[test]
    fn a_bin_answers_four_keys_at_most() {
        let keys = digests(0, 4000);
        let (c, delta) = (Row(std::array::from_fn(|j| Block::from(keys[j]))), Block::from(keys[9]));
        for sent in [[Block::ZERO; 4], [Block::ONE; 4], [0, 1, 2, 3].map(|i| Block::from(keys[i]))] {
            // K = C + (D - A)·Δ, and the receiver knows C.
            let mut k = c.0;
            gf128::mul_add(&mut k, &sent, delta);
            let known = evaluate(Block::ZERO, |_| &c.0, &keys);
            let values = evaluate(delta, |_| &k, &keys);
            assert!(known.iter().zip(&values).filter(|(a, b)| a == b).count() <= SLOTS);
        }
    }

    /// Were H_o the same for both bins, a receiver whose two bins have the same elements would see two equal tags, and so that the sender
    /// holds a key of these bins.
    #[test]
    fn equal_values_in_a_keys_two_bins_have_different_tags() {
        for security in [Security::SemiHonest, Security::Malicious] {
            let row = Row([1, 2, 3, 4].map(Block));
            let unit = UnitParams::new(&params(8, security), UNIT);
            let key = Bc22Key { unit, delta: Zeroizing::new(Block(77)), k: Zeroizing::new(vec![row; 2]) };
            let mut values = Vec::new();
            key.eval(&digests(0, 50), &mut values);
            assert!(values.as_chunks::<2>().0.iter().all(|[first, second]| first != second), "{security:?}");
        }
    }

    /// A filler is a root like a key, so it must be new in every bin and every run.
    #[test]
    fn fillers_are_random() {
        let unit = UnitParams::new(&params(100, Security::SemiHonest), UNIT);
        let (xs, mut seen) = (digests(0, 100), HashSet::new());
        let table = unit.bins.table(&xs).unwrap();
        let bins = params(100, Security::SemiHonest).bins as usize;
        for seed in 0..3 {
            let mut fillers = Prg::new(Block::from_le_bytes(fixed_rng(seed).bytes()));
            let all = roots(&table, &xs, 0..bins, &mut fillers).concat();
            let own: HashSet<u128> = xs.iter().map(|&x| Block::from(x).0).collect();
            let made: Vec<u128> = all.iter().map(|root| root.0).filter(|root| !own.contains(root)).collect();
            assert_eq!(made.len(), SLOTS * bins - xs.len());
            assert!(made.iter().all(|&filler| seen.insert(filler)));
        }
    }
}
