//! Whether keys are common, in shares that neither party can read; and what these add up to over the whole job: a number of keys, a sum of
//! values, or both in groups of R's.
//!
//! [PSTY19] Pinkas, Schneider, Tkachenko, Yanai, "Efficient circuit-based PSI with linear communication", EUROCRYPT 2019, eprint 2019/241,
//! Figure 7; [RR22] Raghuraman, Rindal, eprint 2022/320, section 6, for its function and transfers; [RRKCGRS20] Rathee et al., "CrypTFlow2", CCS
//! 2020, eprint 2020/1002, section 3.1.1, for the product of a bit and a number; semi-honest.
//!
//!   X, Y   keys of R and of S, n and m       xs, ys      z_b, r_b  what R and S have of bin b, l bits     targets
//!   v_b    R's number for its key in bin b   numbers     f_b       1 if that key is S's, in shares        flags
//!   m0, m1 both keys of a transfer to S      pads.both   x, m_x    S's choice and its key                 choices, one
//!
//! 1. Transfers both ways, for triples and pads (`gmw`). l of S's choices are the random bits of each of its targets r_b.
//! 2. R's keys into bins, one at most into each;  z_b = r_b exactly if the key in bin b is S's (`opprf`).
//! 3. h_b := the number of bits in which z_b and r_b differ, modulo a power of two above l, from a transfer a bit;  R -> S: a number of log l
//!    bits for each bit.   f_b := whether h_b is 0: the product of log l bits.
//! 4. S -> R: e_b := f_S + x_b.   R -> S: d_b := s - s' + v_b·(1 - 2·f_R) mod 2^64, where (s, s') is (m0, m1) or, if e_b = 1, (m1, m0).
//!    R's share of f_b·v_b is f_R·v_b - s;  S's is m_x + f_S·d_b: that is s, or s + v_b·(1 - 2·f_R).
//!    Keys of S's may carry numbers too, to be added up in groups of R's: these take a part in steps 2 and 4 of their own (`sums`), and one
//!    before step 4 if R's are multiplied by them (`products`). And they may be in groups of S's (`cells`).
//! 5. Each adds its shares over all bins, and over all units when these are done, and its noise if the job asks for any. Both compare names
//!    of the attempt.
//! 6. If the job sets a least number: a circuit says whether the count is below it, and both are told that bit; if it is, that is all.
//! 7. Each sends its share of the total to whoever learns.   Totals by group have a column for each number, or for very many of them trees
//!    (`scatter`), and other steps 6 and 7 (`groups`).
//!
//! Reveals: key_count to everyone, the total to the learners.
//! Rounds: COT + VOLE + 1 + 1 + log log l + 1 a unit, 1 more with numbers of S's, 1 with products and 2 by trees; 2 at the end.
//! Bytes: |B| + l·(log l)/8 + 8 for each column, and those of l + 2·log l transfers, for each of 1.3·n bins; ⌈l/8⌉·slots(3·m) for the hint.
//! With numbers of S's, 8·slots(3·m) for each of them too, and what their columns cost twice.
//! What is sent in a unit is padded by a coefficient, a triple or a key that is used once, whatever is common: nobody is told a number or a bit
//! of a unit. A party that deviates can change the total, and R can compare keys of its choice by it: so this is semi-honest only.
//! Differs from the papers: the party with the values of a sum is R, so that they need not travel in the hint; f is never opened.

use crate::cells;
use crate::gmw::{Base, Made, NEGATIVE, Needs};
use crate::groups;
pub use crate::groups::{Groups, GroupsOfS, Params, Product, Products, Total};
use crate::same::of_one_attempt;
use crate::scatter::scatter;
use crate::sums::{self, Sums};
use std::marker::PhantomData;
use vesica_oprf::opprf;
use vesica_oprf::vole::Field;
use vesica_session::{
    Channel, Error, Found, Label, Lines, Misbehaviour, Result, SessionRng, Share, Shared, Shares, Unit, Values,
};
use vesica_types::{Digest, UnitId};

/// One party's side of a job, over the base field `B`.
pub struct Circuit<B> {
    params: Params,
    base: Base,
    field: PhantomData<B>,
}

/// Names the transfers that are made when all units are done: no unit has this number.
const END: UnitId = UnitId(u32::MAX);

impl<B: Field> Circuit<B> {
    /// Opens a side.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub fn open(params: Params, ch: &mut dyn Channel, rng: &mut SessionRng) -> Result<Self> {
        let base = Base::open(params.puts, params.opprf.session, ch, rng)?;
        Ok(Self { params, base, field: PhantomData })
    }
}

impl<B: Field> Circuit<B> {
    /// Steps 1 to 5 of a unit.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub(crate) fn shares(
        &self,
        unit: &Unit,
        values: &Values,
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Shares> {
        let Self { params, base, .. } = self;
        let bins = params.opprf.bins as usize;
        let columns = params.columns(values, unit.keys.len())?;
        // 1. Triples, pads and r
        ch.step("transfers");
        let pads = if columns.len() > 0 { params.places() } else { 0 };
        let mut made = base.make(unit.id, params.needs(pads), ch, rng)?;
        // 2. z
        let opprf::Received { table, z, carried: theirs, rows } = if params.puts {
            opprf::receive::<B>(&params.opprf, &base.receives, unit.id, &unit.keys, params.carries(), ch, rng)?
        } else {
            let mut ys = unit.keys.clone();
            ys.resize_with(unit.capacity(), || Digest(rng.bytes()));
            let program = sums::program(params, &made, values, ys.len(), rng);
            opprf::send::<B>(&params.opprf, &base.sends, unit.id, &program, &ys, ch, rng)?;
            let rows = program.rows.map(|rows| rows.masks).unwrap_or_default();
            opprf::Received { carried: program.masks, rows, ..Default::default() }
        };
        // 3. f
        ch.step("equality");
        let flags = made.meets(&z, ch)?;
        let flags = cells::planes(params.groups_of_s(), flags, &rows, &mut made, ch)?;
        // 4. f·v;  5. their sums
        let key = |b: usize| table.get(b).copied().flatten().map(|entry| entry.key());
        let in_bins = columns.in_bins((0..bins).map(key));
        let theirs = params.multiply(&in_bins, theirs, &mut made, ch)?;
        ch.step("values");
        let sums = Sums::of(params, &mut made, (&flags, columns.len()), &in_bins, &theirs, ch)?;
        let Sums { scattered, mut sums, values, .. } = sums;
        if let Some(of) = params.trees() {
            let places = params.puts.then(|| in_bins.places());
            sums.splice(..0, scatter(of, base.trees(unit.id), &mut made, &scattered, places, ch, rng)?);
        }
        let bins = (0..if params.total == Total::Shares { bins } else { 0 }).map(|b| Share {
            key: key(b).map(|key| key as u32),
            common: flags[b / 64] >> (b % 64) & 1 == 1,
            value: values.as_ref().and_then(|values| values.get(b)).copied().unwrap_or(0),
        });
        Ok(Shares { unit: unit.id, attempt: made.attempt(), sums, bins: bins.collect(), ids: Vec::new() })
    }

    /// Steps 5 and 6: this party's shares of the totals, with what groups are opened by; none if fewer keys are common than the job asks for.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub(crate) fn totals(
        &self,
        shares: &[Shares],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> Result<Option<(Vec<u64>, Option<Made>)>> {
        let params = &self.params;
        // 5. The attempt;  totals
        ch.step("open");
        of_one_attempt(shares, ch)?;
        let mut totals = vec![0u64; params.numbers()];
        for shares in shares {
            totals.iter_mut().zip(&shares.sums).for_each(|(total, sum)| *total = total.wrapping_add(*sum));
        }
        let noise = params.noise.as_deref().unwrap_or_default();
        if params.noise.is_some() && noise.len() != totals.len() {
            return Err(Error::Bug("there is not noise for each number".into()));
        }
        totals.iter_mut().zip(noise).for_each(|(total, noise)| *total = total.wrapping_add(*noise));
        let count = totals.pop_if(|_| params.counts()).unwrap_or(0);
        // 6. Whether the count is less than the least
        let of_groups = params.groups().map_or(0, |groups| groups.cells() as usize);
        let words = NEGATIVE * (usize::from(params.least.is_some()) + of_groups);
        let needs = Needs { words, pads: of_groups, back: of_groups, ..Needs::default() };
        let mut made = if words > 0 { Some(self.base.make(END, needs, ch, rng)?) } else { None };
        if let (Some(least), Some(made)) = (params.least, &mut made) {
            let mine = made.negative(&[params.above(count, least)], ch)?[0];
            let theirs = ch.swap_exact(&[mine.into()], 1)?;
            if theirs[0] > 1 {
                return Err(ch.accuse(Misbehaviour::Malformed("share of a bit")));
            }
            if mine ^ (theirs[0] == 1) {
                return Ok(None);
            }
        }
        if params.total == Total::Count {
            totals = vec![count];
        }
        Ok(Some((totals, made)))
    }
}

impl<B: Field> Shared for Circuit<B> {
    fn unit(&self, unit: &Unit, values: &Values, lines: &mut Lines, rng: &mut SessionRng) -> Result<Shares> {
        self.shares(unit, values, lines.peer()?, rng)
    }

    fn open(&self, shares: &[Shares], labels: [&[Label]; 2], lines: &mut Lines, rng: &mut SessionRng) -> Result<Found> {
        let params = &self.params;
        let ch = lines.peer()?;
        let Some((totals, made)) = self.totals(shares, ch, rng)? else { return Ok(Found::TooFew) };
        if let (Some(of), Some(made)) = (params.groups(), made) {
            return groups::open(params, of, made, &totals, labels, ch, rng);
        }
        if params.total == Total::Shares {
            return Ok(Found::Nothing);
        }
        // 7. -> and <- shares of the total
        let mine = totals[0];
        if params.peer_learns {
            ch.send(&mine.to_le_bytes())?;
        }
        if !params.i_learn {
            return Ok(Found::Nothing);
        }
        let theirs = ch.recv_exact(8)?;
        let total = mine.wrapping_add(u64::from_le_bytes(theirs.try_into().expect("its length was checked")));
        params.told(total).map_err(|fault| ch.accuse(fault))
    }
}
