//! Products of numbers of both parties' keys, which are then added up in groups as numbers of S's are (`sums`). Part of `circuit`, whose letters
//! these are.
//!
//! [Gilboa99] Gilboa, "Two party RSA key generation", CRYPTO 1999, section 4, for the product of two numbers from a transfer a bit; semi-honest.
//!
//!   v_j      the number of R's key in group j, bits of it with its sign    factor    t_b, m_b  what R and S have of w for bin b    carried
//!   t', m'   what they have of v_j·w: sums and products of these           Carried   v_{j,i}   bit i of v_j                        digits
//!
//! Where the key in bin b is common, v_j·w = v_j·t_b + v_j·m_b mod 2^64. R knows the first product, and the second one is a sum over bits:
//! 3'. For each bit i of v_j:  R -> S: e, the bit under its choice of a transfer from S;  S -> R: d, for m_b times 2^i, or -2^i if i is the sign.
//!     R has a_j and S has m'_j with a_j + m'_j = v_j·m_b mod 2^64, and R takes t'_j := v_j·t_b + a_j.
//! So t'_j + m'_j is v_j·w where the key is common, and what follows is what is done with t_b and m_b of a number of S's: f_{b,j} times both.
//! All bits of all products go in one round, in as many messages as they fill, and the numbers that answer them in the next.
//! In this order a bin takes its bits once, not once for each group. A key in one group has one v_j, and one m' is for all groups; of several groups
//! each has its own (`Groups::slots`), for two v_j under one m' would give R their difference times m_b, and with it m_b and w.
//!
//! R sees d, under keys of transfers that it has not, for the bits that are 0 as for those that are 1. S sees e, under choices that it does not know.
//! Whoever is told a product and not its factors has shares of the product alone: a factor that is not told is in no column of step 4.

use crate::gmw::{Made, Numbers, by_row, plane_of, words};
use std::ops::Range;
use vesica_session::{Channel, Result};
use zeroize::Zeroizing;

/// A product of a number of R's and one of S's, for each key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// Which of R's numbers.
    pub of_r: u16,
    /// Which of S's.
    pub of_s: u16,
    /// Bits of R's number, the one of its sign included: from 2 to 63.
    pub bits: u8,
}

/// Products that are added up, and factors that are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Products {
    all: [Product; Products::MOST],
    len: u8,
    untold: [u8; 2],
}

impl Products {
    /// The most of a job.
    pub const MOST: usize = 8;

    /// No product.
    pub const NONE: Products =
        Products { all: [Product { of_r: 0, of_s: 0, bits: 2 }; Products::MOST], len: 0, untold: [0; 2] };

    /// These, where so many numbers of R's and of S's, the last ones of each, are factors alone and are not added up themselves. None if there are more
    /// of anything than there may be, or bits that no number has.
    pub fn new(products: &[Product], untold: [usize; 2]) -> Option<Self> {
        let mut all = Self::NONE;
        if products.iter().any(|product| !(2..64).contains(&product.bits)) {
            return None;
        }
        all.all.get_mut(..products.len())?.copy_from_slice(products);
        all.len = products.len() as u8;
        let few = |count: usize| u8::try_from(count).ok().filter(|&count| usize::from(count) <= Self::MOST);
        all.untold = [few(untold[0])?, few(untold[1])?];
        Some(all)
    }

    /// Each of them.
    pub fn each(&self) -> &[Product] {
        &self.all[..self.len.into()]
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.len.into()
    }

    /// Bits of R's factors, over all products.
    pub fn bits(&self) -> u32 {
        self.each().iter().map(|product| u32::from(product.bits)).sum()
    }

    /// How many numbers of R's and of S's are factors alone.
    pub fn untold(&self) -> [u32; 2] {
        self.untold.map(u32::from)
    }

    /// Whether a number of R's has no more bits than its products have transfers for.
    pub(crate) fn fit(&self, numbers: &[u64]) -> bool {
        let too_long = self.each().iter().fold(0, |too_long, product| {
            // What is above a number's bits are all signs.
            let signs = numbers[usize::from(product.of_r)] as i64 >> (product.bits - 1);
            too_long | signs ^ signs >> 63
        });
        too_long == 0
    }
}

/// Numbers, one for each bin.
type Column = Zeroizing<Vec<u64>>;

/// What a party has, t or m, of each number that both have a part of.
#[derive(Default)]
pub struct Carried {
    /// Of the numbers of S's that are told.
    pub told: Vec<Column>,
    /// Of each product, for one slot after the other.
    products: Vec<Column>,
    /// Slots, and for how many flags of a bin they are; more flags come after these in the same order.
    slots: [usize; 2],
}

impl Carried {
    /// Those of number `which`, of the bins from the first on, for the flag of a bin that has this place.
    pub fn of(&self, which: usize, flag: usize) -> &[u64] {
        match which.checked_sub(self.told.len()) {
            None => &self.told[which],
            Some(product) => {
                let ([slots, flags], all) = (self.slots, &self.products[product]);
                &all[flag % flags * slots / flags * (all.len() / slots)..]
            }
        }
    }
}

/// Writes the number of R's key for a slot, each bin's: which slot it is, and which number.
pub type Factor<'a> = &'a dyn Fn(usize, usize, &mut [u64]);

/// Step 3' for `bins`. `carried` has what this party has of each number of S's, of which the first are told; R gives its factors.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol.
pub fn multiply(
    products: &Products,
    (bins, slots): (usize, [usize; 2]),
    factor: Option<Factor<'_>>,
    carried: Vec<Column>,
    made: &mut Made,
    ch: &mut dyn Channel,
) -> Result<Carried> {
    let mut all = Carried { told: carried, products: Vec::new(), slots };
    let ([slots, _], row) = (slots, 64 * words(bins));
    let planes: Vec<Plane> = products.each().iter().enumerate().flat_map(|of| planes(of, slots)).collect();
    if !planes.is_empty() {
        ch.step("products");
        let mut parts: Vec<_> = products.each().iter().map(|_| Zeroizing::new(vec![0u64; slots * row])).collect();
        let mut digits = Zeroizing::new(vec![0u64; planes.len() * row / 64]);
        let mut v = Zeroizing::new(vec![0; bins]);
        if let Some(factor) = factor {
            for (plane, digits) in planes.iter().zip(digits.chunks_exact_mut(row / 64)) {
                let &Plane { which, slot, bit, of: Product { of_r, of_s, .. } } = plane;
                if bit == 0 {
                    factor(slot, of_r.into(), &mut v);
                    let (part, w) = (&mut parts[which][slot * row..], &all.told[usize::from(of_s)]);
                    part.iter_mut().zip(&*v).zip(&**w).for_each(|((part, v), t)| *part = v.wrapping_mul(*t));
                }
                plane_of(&v, bit, digits);
            }
        }
        let times_m = |_, part: Range<usize>, out: &mut [u64]| {
            for (plane, at, first) in by_row(part, row) {
                let Plane { bit, of: Product { of_s, bits, .. }, .. } = planes[plane];
                let (w, power) = (&all.told[usize::from(of_s)][first..], weight(bit, bits.into()));
                out[at].iter_mut().zip(w).for_each(|(out, m)| *out = m.wrapping_mul(power));
            }
        };
        let numbers: Option<Numbers<'_>> = if factor.is_none() { Some(&times_m) } else { None };
        made.times(&digits, 1, 64 * digits.len(), numbers, ch, |_, start, shares| {
            for (plane, at, first) in by_row(start..start + shares.len(), row) {
                let Plane { which, slot, .. } = planes[plane];
                let sums = &mut parts[which][slot * row + first..];
                sums.iter_mut().zip(&shares[at]).for_each(|(sum, share)| *sum = sum.wrapping_add(*share));
            }
        })?;
        all.products = parts;
    }
    let untold = products.untold()[1] as usize;
    all.told.truncate(all.told.len() - untold);
    Ok(all)
}

/// A bit of each bin's factor: of which product it is, for which slot, and which bit.
struct Plane {
    which: usize,
    of: Product,
    slot: usize,
    bit: usize,
}

/// Those of a product, for one slot after the other.
fn planes((which, &of): (usize, &Product), slots: usize) -> impl Iterator<Item = Plane> {
    (0..slots).flat_map(move |slot| (0..usize::from(of.bits)).map(move |bit| Plane { which, of, slot, bit }))
}

/// What bit `i` of a number of some bits counts for, modulo 2^64: the last one is that of the sign.
fn weight(i: usize, bits: usize) -> u64 {
    let power = 1u64 << i;
    if i + 1 == bits { power.wrapping_neg() } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_by_their_weights_add_up_to_the_number() {
        for (number, bits) in [(0i64, 2), (1, 2), (-2, 2), (1000, 11), (-1000, 11), (-1024, 11), (1 << 61, 63)] {
            let sum = (0..bits).fold(0u64, |sum, i| sum.wrapping_add((number as u64 >> i & 1) * weight(i, bits)));
            assert_eq!(sum as i64, number, "{bits}");
        }
    }

    #[test]
    fn a_number_with_more_bits_than_were_agreed_does_not_fit() {
        let products = Products::new(&[Product { of_r: 1, of_s: 0, bits: 11 }], [0; 2]).unwrap();
        for (number, fits) in
            [(0i64, true), (1023, true), (-1024, true), (1024, false), (-1025, false), (i64::MIN, false)]
        {
            assert_eq!(products.fit(&[u64::MAX >> 1, number as u64]), fits, "{number}");
        }
        assert!(Products::NONE.fit(&[]) && Products::NONE.each().is_empty());
        assert!([1, 64].iter().all(|&bits| Products::new(&[Product { of_r: 1, of_s: 0, bits }], [0; 2]).is_none()));
        assert!(Products::new(&[products.each()[0]; 9], [0; 2]).is_none() && Products::new(&[], [0, 9]).is_none());
    }

    /// A slot is for all flags, for those of one of a key's trees, or for one flag; and for the same ones of each of S's groups.
    #[test]
    fn slots_are_for_as_many_flags_each() {
        let column = |numbers: &[u64]| Zeroizing::new(numbers.to_vec());
        for (slots, flags, want) in [(1, 6, [1; 6]), (2, 6, [1, 1, 1, 2, 2, 2]), (6, 6, [1, 2, 3, 4, 5, 6])] {
            let products = (1..=slots as u64).flat_map(|slot| [slot, slot]).collect::<Vec<_>>();
            let carried =
                Carried { told: vec![column(&[9])], products: vec![column(&products)], slots: [slots, flags] };
            assert_eq!([0, 1, 2, 3, 4, 5].map(|flag| carried.of(1, flag)[1]), want);
            assert_eq!([6, 7, 8, 9, 10, 11].map(|flag| carried.of(1, flag)[1]), want);
            assert_eq!(carried.of(0, 5), [9]);
        }
    }
}
