//! What step 4 leaves of each bin, added up as it comes; and numbers of S's keys that are added up in groups of R's. Part of `circuit`, whose
//! letters these are; semi-honest.
//!
//!   w        a number of a key of S's             Values    t_b, m_b  what R and S have of w for bin b (`opprf`)    theirs
//!   f_{b,j}  f_b if bin b's key is in group j,    flags     c'        how many numbers a key of S's has             of_other
//!            and else 0, in shares
//!
//! S does not know which key is in a bin, and R knows no w. Where the key in bin b is common, w = t_b + m_b mod 2^64, and so
//! f_{b,j}·w = f_{b,j}·t_b + f_{b,j}·m_b mod 2^64; where it is not, f_{b,j} is 0 and so are both products, whatever t_b is.
//! 4a. In step 4 R has t_b among its numbers, as if it were a value of its key in bin b: in the column of each group that the key is in.
//! 4b. The column of v_b = 1 for the keys of group j has left shares of f_{b,j} mod 2^64. Their lowest bits are shares of f_{b,j} modulo 2.
//! 4c. Step 4 in the other direction, with these bits and m_b as S's number for each j:  R -> S: e;  S -> R: d for each of the c' numbers.
//! Each party adds what it has of both products. A product of numbers of both parties is a number of which they have such parts too (`products`).
//! Of very many groups j is an r of a tree, and the sum goes to its group by that (`scatter`).
//!
//! R sees t_b, which m_b makes uniform whether the key is common or not, and d, under keys of transfers that it has not. S sees e, under
//! choices that it does not know, and t_b never leaves R but under the pads of step 4. The transfers of 4c are others than those of step 4.

use crate::cells;
use crate::gmw::{Made, Numbers, by_row, words};
use crate::groups::{InBins, Params, Total};
use crate::products::Carried;
use std::ops::Range;
use vesica_oprf::opprf::Program;
use vesica_session::{Channel, Result, SessionRng, Values};
use zeroize::Zeroizing;

/// Shares of a unit's numbers, added up.
pub struct Sums {
    bins: usize,
    /// Numbers of a group: its count and its sums.
    width: usize,
    /// How many of them both parties have a part of: the last ones.
    of_other: usize,
    /// This party's shares of f_{b,j}, the bins of each j in [`words`]. None if no number is of S's.
    flags: Vec<u64>,
    /// The shares of each bin, where trees are to take them to their groups.
    pub scattered: Vec<Vec<u64>>,
    /// Of all other columns the sums.
    pub sums: Vec<u64>,
    /// And of the first one all shares, where these are the result.
    pub values: Option<Vec<u64>>,
}

/// What S programs: its `targets`, and the numbers of its keys, with fillers up to `keys`, under masks that it draws.
pub fn program(params: &Params, made: &Made, values: &Values, keys: usize, rng: &mut SessionRng) -> Program {
    let of_s = params.numbers_of_s();
    let number = |which| {
        let mut column: Vec<u64> =
            (0..values.entries().len().min(keys)).map(|entry| values.numbers(entry)[which]).collect();
        column.resize(keys, 0);
        Zeroizing::new(column)
    };
    let row = 64 * words(params.opprf.bins as usize);
    let mut mask = |_| Zeroizing::new((0..row).map(|_| u64::from_le_bytes(rng.bytes())).collect());
    let masks = (0..of_s).map(&mut mask).collect();
    let rows = cells::rows(params.groups_of_s(), values, keys, params.opprf.bins as usize, rng);
    Program { targets: made.targets(), numbers: (0..of_s).map(number).collect(), masks, rows }
}

impl Sums {
    /// Steps 4 and 4c of a unit with so many columns: for each of the flags of a bin, those of all bins one after the other. `theirs` has what this party
    /// has of numbers that are not R's alone.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    pub fn of(
        params: &Params,
        made: &mut Made,
        (flags, columns): (&[u64], usize),
        in_bins: &InBins<'_>,
        theirs: &Carried,
        ch: &mut dyn Channel,
    ) -> Result<Self> {
        let (bins, row) = (params.opprf.bins as usize, 64 * words(params.opprf.bins as usize));
        let numbers = |column, part: Range<usize>, out: &mut [u64]| {
            for (_, at, first) in by_row(part, row) {
                // What stands behind the last bin is of none.
                let (of_bins, others) = out[at.clone()].split_at_mut(at.len().min(bins.saturating_sub(first)));
                others.fill(0);
                if !of_bins.is_empty() {
                    in_bins.numbers(column, first..first + of_bins.len(), theirs, of_bins);
                }
            }
        };
        let numbers: Option<Numbers<'_>> = if params.puts { Some(&numbers) } else { None };
        let mut sums = Self::new(params, flags.len() / words(bins) * columns);
        made.times(flags, columns, params.places(), numbers, ch, |column, start, shares| {
            for (plane, at, first) in by_row(start..start + shares.len(), row) {
                let len = at.len().min(bins.saturating_sub(first));
                sums.take(plane * columns + column, first, &shares[at][..len]);
            }
        })?;
        sums.of_other(made, (!params.puts).then_some(theirs), ch)?;
        Ok(sums)
    }

    /// Those of a unit with so many columns in step 4.
    fn new(params: &Params, columns: usize) -> Self {
        let (bins, trees) = (params.opprf.bins as usize, params.trees().map_or(0, |(shape, _)| shape.columns()));
        Self {
            bins,
            width: params.groups().map_or(1, |groups| groups.sums as usize + 1),
            of_other: params.of_other(),
            flags: vec![0; params.flags() * words(bins)],
            scattered: vec![vec![0; bins]; trees],
            sums: vec![0; columns - trees],
            values: (params.values && params.total == Total::Shares).then(|| Vec::with_capacity(bins)),
        }
    }

    /// Takes what step 4 leaves of a column, for some bins from `start` on.
    fn take(&mut self, column: usize, start: usize, shares: &[u64]) {
        self.add(column, start, shares);
        if let Some(values) = self.values.as_mut().filter(|_| column == 0) {
            values.extend_from_slice(shares);
        }
        // 4b. f_{b,j}
        let row = words(self.bins);
        let of_count = column.is_multiple_of(self.width).then_some(column / self.width * row);
        if let Some(flags) = of_count.and_then(|first| self.flags.get_mut(first..first + row)) {
            shares.iter().zip(start..).for_each(|(share, bin)| flags[bin / 64] |= (share & 1) << (bin % 64));
        }
    }

    fn add(&mut self, column: usize, start: usize, shares: &[u64]) {
        match self.scattered.get_mut(column) {
            Some(all) => all[start..].iter_mut().zip(shares).for_each(|(all, share)| *all = all.wrapping_add(*share)),
            None => {
                let sum = &mut self.sums[column - self.scattered.len()];
                *sum = shares.iter().fold(*sum, |sum, &share| sum.wrapping_add(share));
            }
        }
    }

    /// Step 4c. S gives its masks.
    ///
    /// # Errors
    /// Those of the channel; the peer's if it breaks the protocol.
    fn of_other(&mut self, made: &mut Made, masks: Option<&Carried>, ch: &mut dyn Channel) -> Result<()> {
        if self.flags.is_empty() {
            return Ok(());
        }
        let flags = std::mem::take(&mut self.flags);
        let (row, bins, width, of_other) = (64 * words(self.bins), self.bins, self.width, self.of_other);
        let masks = masks.map(|masks| {
            move |which: usize, part: Range<usize>, out: &mut [u64]| {
                for (group, at, first) in by_row(part, row) {
                    let len = at.len();
                    out[at].copy_from_slice(&masks.of(which, group)[first..first + len]);
                }
            }
        });
        let numbers = masks.as_ref().map(|masks| masks as Numbers<'_>);
        made.times(&flags, of_other, 64 * flags.len(), numbers, ch, |which, start, shares| {
            for (group, at, first) in by_row(start..start + shares.len(), row) {
                // What stands behind the last bin is shares of 0.
                let len = at.len().min(bins.saturating_sub(first));
                self.add(group * width + width - of_other + which, first, &shares[at][..len]);
            }
        })
    }
}
