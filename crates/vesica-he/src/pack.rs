//! Packing: the rows of a block of SimplePIR's hint become one element of the ring, the *mask*, and columns of small numbers beside the table.
//!
//! [IN] InsPIRe, eprint 2025/1352: packing of half as many rows as the degree (section 3.3), and its approximate gadget (appendix G.1). [RE]
//! ReinsPIRe, eprint 2026/1934: what packing does to a client's key is a fixed linear map of small numbers, which is compiled.
//!
//!   H_r  row r of the hint, of γ = n/2 rows   τ   X -> X^5, of order γ       e_j   5^j modulo 2n: the exponent of τ^j
//!   w_t  public elements, one a digit         s   a client's secret          k_t   w_t·s + e_t + B_t·τ(s): a client's key
//!
//! 1. H, row by row.
//! 2. c_j for j = 0..γ-1, such that Σ_j c_j·τ^j(s) has Σ_r <H_r, s>·X^r in its low γ coefficients: R_i = Σ_r H_r[i]·X^r, and
//!    c_j = Σ_r X^r·Σ_i H_r[i]·X^(-i·e_j)/γ, rounded to integers *before* it is reduced modulo 2^32. With S_i = X^(-i)·R_i + X^(-i-γ)·R_(i+γ) this is
//!    a Fourier transform of length γ with root X^(-4), whose place m has the exponent 1 + 4m.
//! 3. For j = γ-1 down to 1: digits g_(j,t) of c_j, and c_(j-1) -= Σ_t g_(j,t)·τ^(j-1)(w_t). With k_t for w_t that moves c_j·τ^j(s) onto
//!    τ^(j-1)(s). c_0 is the mask, rounded.
//! 4. P[r][t,i] = coefficient r of Σ_(j>=1) g_(j,t)·X^(i·e_(j-1)): what step 3 does to k, in row r.
//! 5. R[r][i] = coefficient r of Σ_j ρ_j·X^(i·e_j), where ρ_j is what was rounded off c_j: its digits' rest, the division, and the mask. It meets s.
//! 6. The norms of rows of P and R, which bound the noise.
//!
//! A row of the answer is then y_r = D_r·b - P_r·k, and what is left of y_r - (mask·s)_r beside 2^24·D_r[c] is
//! D_r·(e + δ) - P_r·(e_0, e_1, e_2) + R_r·s, exactly, where δ is what was rounded off the query.
//!
//! All of it depends on the table and on public chance alone.

use crate::lwe::{P, PublicSeed, centre, high, low, residue, round, transform};
use vesica_params::lwe::{LweSet, Norms, Packing};
use vesica_ring::{Ntt, ring_fft};

/// The largest number of P: the high one of its two bytes is then -128 to 127 too, and the low one is read as a signed number.
const LARGEST: i32 = 32_639;

/// Packs blocks of the tables of one seed.
pub struct Packer {
    set: &'static LweSet,
    frame: Frame,
    key: Key,
}

/// What became of a block.
pub struct Packed {
    /// The mask: n words, of which the low bits are zero.
    pub mask: Vec<u32>,
    /// The columns of bytes, one behind the other, with a byte for each row: for each digit t the low bytes of P[..][t, i] for all i, and
    /// then the high ones.
    pub columns: Vec<u8>,
    /// The largest norms of its rows; that of the table's own bytes is left 0.
    pub norms: Norms,
    /// The largest number of P, without its sign.
    largest: i32,
}

impl Packed {
    /// Whether the seed served the block as well as [`LweSet::worst`] allows for. Otherwise another one is to be drawn.
    pub fn is_even(&self, set: &LweSet) -> bool {
        let bound = set.worst(0);
        self.largest <= LARGEST && self.norms.keys <= bound.keys && self.norms.copied <= bound.copied
    }
}

impl Packer {
    /// Packs under this seed.
    ///
    /// # Panics
    /// If the set has no packing.
    pub fn new(set: &'static LweSet, seed: &PublicSeed) -> Self {
        let packing = set.packing.expect("a set with packing");
        let elements = (0..packing.digits as usize).map(|t| seed.key_element(set, t));
        Self { set, frame: Frame::new(set.degree as usize, packing), key: Key::new(set, elements) }
    }

    /// Packs a block of these rows of the hint: γ of them, or fewer in the last block. Rows that are not there count as zero.
    ///
    /// # Panics
    /// If there are more.
    pub fn pack(&self, rows: &[Vec<u32>]) -> Packed {
        let Self { set, frame, key } = self;
        let mut room = key.room();
        let collapsed = frame.collapse(rows, set.hint_bits, |j, digits, out| {
            key.times(frame.powers_of(j), digits, &mut room, out);
        });
        frame.compile(rows.len(), collapsed)
    }
}

/// The public numbers of packing in a ring.
struct Frame {
    degree: usize,
    packing: Packing,
    /// e_j.
    powers: Vec<usize>,
}

/// A block behind step 3.
struct Collapsed {
    mask: Vec<u32>,
    /// g_(j,t) for each t, and in it for each j from 0; those of j = 0 are zero.
    digits: Vec<Vec<i8>>,
    /// γ·ρ_j, where the transform of step 5 wants it.
    rounded: Vec<i32>,
}

impl Frame {
    fn new(degree: usize, packing: Packing) -> Self {
        let next = |e: &usize| Some(e * 5 % (2 * degree));
        let powers = std::iter::successors(Some(1), next).take(packing.rows as usize).collect();
        Self { degree, packing, powers }
    }

    /// γ.
    fn rows(&self) -> usize {
        self.packing.rows as usize
    }

    /// The exponents of τ^j and of its inverse.
    fn powers_of(&self, j: usize) -> [usize; 2] {
        [self.powers[j], self.powers[(self.rows() - j) % self.rows()]]
    }

    /// Where a transform of length γ has what belongs to exponent e_j.
    fn at(&self, j: usize) -> usize {
        (self.powers[j] - 1) / 4
    }

    /// Where it is before the transform begins.
    fn placed(&self, j: usize) -> usize {
        ring_fft::place(self.at(j), self.rows()) * self.degree
    }

    /// Step 2, without the division: C at m.
    fn sums(&self, rows: &[Vec<u32>]) -> Vec<i64> {
        let (n, count) = (self.degree, self.rows());
        assert!(rows.len() <= count, "{} rows in a block of {count}", rows.len());
        let mut sums = vec![0i64; count * n];
        let places: Vec<usize> = (0..count).map(|i| ring_fft::place(i, count) * n).collect();
        for (r, row) in rows.iter().enumerate() {
            for (i, &word) in row.iter().enumerate() {
                let at = (2 * n + r - i) % (2 * n);
                let (at, word) = if at < n { (at, i64::from(word as i32)) } else { (at - n, -i64::from(word as i32)) };
                sums[places[i % count] + at] += word;
            }
        }
        ring_fft::transform(&mut sums, n, 2 * n - 4);
        sums
    }

    /// Steps 2 and 3. `times` is called for each j from γ-1 down to 1 with j - 1 and the digits of c_j, and writes
    /// Σ_t g_(j,t)·τ^(j-1)(w_t).
    fn collapse(
        &self,
        rows: &[Vec<u32>],
        mask_bits: u32,
        mut times: impl FnMut(usize, &[&[i8]], &mut [u32]),
    ) -> Collapsed {
        let (n, count) = (self.degree, self.rows());
        let sums = self.sums(rows);
        let (mut c, mut rounded) = (vec![0u32; count * n], vec![0i32; count * n]);
        for (j, c) in c.chunks_exact_mut(n).enumerate() {
            let rounded = &mut rounded[self.placed(j)..][..n];
            for ((c, rest), &sum) in c.iter_mut().zip(rounded).zip(&sums[self.at(j) * n..]) {
                let near = (sum + count as i64 / 2).div_euclid(count as i64);
                (*c, *rest) = (near as u32, (sum - near * count as i64) as i32);
            }
        }
        drop(sums);
        let mut digits = vec![vec![0i8; count * n]; self.packing.digits as usize];
        let mut moved = vec![0u32; n];
        for j in (1..count).rev() {
            let (before, now) = c.split_at_mut(j * n);
            let rounded = &mut rounded[self.placed(j)..][..n];
            for (i, (&word, rest)) in now[..n].iter().zip(rounded).enumerate() {
                let mut left = word;
                let low = self.next_digit(&mut left, self.packing.low_bits);
                *rest += i32::from(low) * count as i32;
                for digits in &mut digits {
                    digits[j * n + i] = self.next_digit(&mut left, self.packing.digit_bits);
                }
            }
            let of_j: Vec<&[i8]> = digits.iter().map(|digits| &digits[j * n..][..n]).collect();
            times(j - 1, &of_j, &mut moved);
            for (word, &moved) in before[(j - 1) * n..].iter_mut().zip(&moved) {
                *word = word.wrapping_sub(moved);
            }
        }
        let lost = 32 - mask_bits;
        let mask: Vec<u32> = c[..n].iter().map(|&word| round(word, lost) << lost).collect();
        for ((rest, &word), &near) in rounded[self.placed(0)..][..n].iter_mut().zip(&c[..n]).zip(&mask) {
            *rest += (word.wrapping_sub(near) as i32) * count as i32;
        }
        Collapsed { mask, digits, rounded }
    }

    /// The low bits as a signed number, which are taken off. The top digit wraps, which is right modulo 2^32. Digits have eight bits at most.
    fn next_digit(&self, left: &mut u32, bits: u32) -> i8 {
        let half = 1 << (bits - 1);
        let digit = (left.wrapping_add(half) & ((1 << bits) - 1)) as i32 - half as i32;
        // What is left has 32 bits less those that were taken, and is never read above them.
        *left = left.wrapping_sub(digit as u32) >> bits;
        digit as i8
    }

    /// Σ_j a_j·X^(i·e_j) for all i, of which `each` gets the first `rows` coefficients, from elements at their places ([`Frame::placed`]).
    fn expand(&self, placed: &mut [i32], rows: usize, mut each: impl FnMut(usize, &[i32])) {
        let (n, count) = (self.degree, self.rows());
        ring_fft::transform(placed, n, 4);
        let mut column = vec![0; rows];
        for i in 0..n {
            // Coefficient r of X^i·V is coefficient r - i of V.
            let of_i = &placed[i % count * n..][..n];
            for (r, out) in column.iter_mut().enumerate() {
                *out = if r >= i { of_i[r - i] } else { -of_i[n + r - i] };
            }
            each(i, &column);
        }
    }

    /// Digit t of all c_j at the places at which step 4 wants them: that of c_j at the exponent e_(j-1).
    fn placed_digits(&self, digits: &[i8]) -> Vec<i32> {
        let mut placed = vec![0; self.rows() * self.degree];
        for (j, digits) in digits.chunks_exact(self.degree).enumerate().skip(1) {
            let to = &mut placed[self.placed(j - 1)..][..self.degree];
            to.iter_mut().zip(digits).for_each(|(to, &digit)| *to = digit.into());
        }
        placed
    }

    /// Steps 4 to 6, for so many rows.
    fn compile(&self, rows: usize, Collapsed { mask, digits, mut rounded }: Collapsed) -> Packed {
        let n = self.degree;
        let mut columns = vec![0u8; 2 * digits.len() * n * rows];
        let (mut keys, mut copied, mut largest) = (vec![0f64; rows], vec![0f64; rows], 0);
        for (t, digits) in digits.iter().enumerate() {
            let (lows, highs) = columns[2 * t * n * rows..][..2 * n * rows].split_at_mut(n * rows);
            self.expand(&mut self.placed_digits(digits), rows, |i, column| {
                let bytes = lows[i * rows..][..rows].iter_mut().zip(&mut highs[i * rows..][..rows]);
                for (((low, high), &p), norm) in bytes.zip(column).zip(&mut keys) {
                    *low = p as u8;
                    *high = ((p - i32::from(p as i8)) >> 8) as u8;
                    *norm += f64::from(p) * f64::from(p);
                    largest = largest.max(p.abs());
                }
            });
        }
        self.expand(&mut rounded, rows, |_, column| {
            for (norm, &x) in copied.iter_mut().zip(column) {
                *norm += f64::from(x) * f64::from(x);
            }
        });
        let most = |norms: &[f64]| norms.iter().copied().fold(0.0, f64::max);
        let copied = most(&copied) / (self.rows() as f64).powi(2);
        Packed { mask, columns, norms: Norms { row: 0.0, keys: most(&keys), copied }, largest }
    }
}

/// The elements w_t, made ready for step 3. Both halves of their words are transformed, because the sum of products with whole words could
/// reach 2^51 and wrap modulo P; with halves it is at most 3·n·2^7·2^15 < 2^35 in absolute value.
struct Key {
    ntt: Ntt,
    halves: Vec<[Vec<u64>; 2]>,
}

/// Words that step 3 works on.
struct Room {
    digits: Vec<Vec<u64>>,
    sums: [Vec<u64>; 2],
}

impl Key {
    fn new(set: &LweSet, elements: impl Iterator<Item = Vec<u32>>) -> Self {
        let ntt = transform(set);
        let part = |w: &[u32], of: fn(u32) -> i32| {
            let mut values: Vec<u64> = w.iter().map(|&word| residue(of(word))).collect();
            ntt.forward(&mut values);
            ntt.to_montgomery(&mut values);
            values
        };
        let halves = elements.map(|w| [part(&w, low), part(&w, high)]).collect();
        Self { halves, ntt }
    }

    fn room(&self) -> Room {
        let zeros = vec![0; self.ntt.n()];
        Room { digits: vec![zeros.clone(); self.halves.len()], sums: [zeros.clone(), zeros] }
    }

    /// Σ_t g_t·τ'(w_t) into `out`, where τ' and its inverse are X -> X^power and X -> X^inverse: it is τ' of Σ_t τ'^(-1)(g_t)·w_t.
    fn times(&self, [power, inverse]: [usize; 2], digits: &[&[i8]], room: &mut Room, out: &mut [u32]) {
        let n = self.ntt.n();
        for (moved, digits) in room.digits.iter_mut().zip(digits) {
            for (i, &digit) in digits.iter().enumerate() {
                let at = i * inverse % (2 * n);
                let digit = i32::from(digit);
                moved[at % n] = residue(if at < n { digit } else { -digit });
            }
            self.ntt.forward(moved);
        }
        let halves = self.halves.iter().zip(&room.digits);
        let terms: Vec<[&[u64]; 3]> =
            halves.map(|([low, high], digits)| [low.as_slice(), high.as_slice(), digits.as_slice()]).collect();
        let [low, high] = &mut room.sums;
        self.ntt.dot2(&terms, low, high);
        self.ntt.inverse(low);
        self.ntt.inverse(high);
        for (i, (&low, &high)) in low.iter().zip(high.iter()).enumerate() {
            let (at, word) = (i * power % (2 * n), centre(low).wrapping_add(centre(high) << 16));
            out[at % n] = if at < n { word } else { word.wrapping_neg() };
        }
    }
}

/// The modulus leaves room for the sums of [`Key::times`].
const _: () = assert!(3 * 2048 * (1u64 << 22) < P / 2);

#[cfg(test)]
mod tests;
