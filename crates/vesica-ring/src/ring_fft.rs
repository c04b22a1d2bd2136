//! The Fourier transform of a list of polynomials modulo X^d + 1, where a power of X is the root of unity: it takes additions and moves of
//! coefficients, and no products.
//!
//! Example: d = 16 and eight polynomials. X^4 has order 8, since X^32 = 1. The transform is Σ_i a_i·X^(4·i·m) for m = 0..7, and X^4·a is `a`
//! moved by four places, with a sign where it comes around.
//!
//! Source: A. Schönhage, V. Strassen, "Schnelle Multiplikation großer Zahlen", Computing 7, 1971, section 3: the ring brings its roots with it.
//! As J. Cooley and J. Tukey split it, and halves first, so that what the inner levels work on stays in the cache.

use crate::backend::run_on;
use crate::lanes::{Kernel, Lanes};
use vesica_cpu::Backend;

/// Coefficients. Sums wrap; callers know that theirs do not.
pub trait Coefficient: Copy + Default {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
}

macro_rules! coefficient {
    ($($int:ty),*) => {$(
        impl Coefficient for $int {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}

coefficient!(i32, i64);

/// The place of polynomial `i` among `count` when the transform begins: its bits reversed.
pub fn place(i: usize, count: usize) -> usize {
    if count == 1 { 0 } else { i.reverse_bits() >> (usize::BITS - count.ilog2()) }
}

/// The transform of the polynomials of `degree` coefficients that stand one behind the other in `all`, polynomial i at [`place`]: at m it
/// leaves Σ_i a_i·X^(root·i·m).
///
/// # Panics
/// If their number is no power of two that is the order of X^root, or the degree is none.
pub fn transform<T: Coefficient>(all: &mut [T], degree: usize, root: usize) {
    transform_on(Backend::chosen(), all, degree, root);
}

fn transform_on<T: Coefficient>(backend: Backend, all: &mut [T], degree: usize, root: usize) {
    assert!(degree.is_power_of_two() && all.len().is_multiple_of(degree) && (all.len() / degree).is_power_of_two());
    // X^(root·count/2) = -1.
    assert!(all.len() == degree || root * (all.len() / degree) / 2 % (2 * degree) == degree);
    halves(backend, all, degree, root, &mut vec![T::default(); degree]);
}

fn halves<T: Coefficient>(backend: Backend, all: &mut [T], degree: usize, root: usize, moved: &mut [T]) {
    if all.len() == degree {
        return;
    }
    let (even, odd) = all.split_at_mut(all.len() / 2);
    let twice = root * 2 % (2 * degree);
    halves(backend, even, degree, twice, moved);
    halves(backend, odd, degree, twice, moved);
    run_on(backend, Join { even, odd, degree, root, moved });
}

/// The last level: a and b become a + X^k·b and a - X^k·b.
struct Join<'a, T> {
    even: &'a mut [T],
    odd: &'a mut [T],
    degree: usize,
    root: usize,
    /// Room for one polynomial.
    moved: &'a mut [T],
}

impl<T: Coefficient> Kernel for Join<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { even, odd, degree, root, moved } = self;
        for (m, (a, b)) in even.chunks_exact_mut(degree).zip(odd.chunks_exact_mut(degree)).enumerate() {
            let k = root * m % (2 * degree);
            moved.copy_from_slice(b);
            // What comes around has the other sign; from X^degree on that is what does not.
            let (behind, around) = moved.split_at(degree - k % degree);
            let (a_low, a_high) = a.split_at_mut(k % degree);
            let (b_low, b_high) = b.split_at_mut(k % degree);
            join(a_low, b_low, around, k < degree);
            join(a_high, b_high, behind, k >= degree);
        }
    }
}

/// a ± moved into a, and a ∓ moved into b.
#[inline(always)]
fn join<T: Coefficient>(a: &mut [T], b: &mut [T], moved: &[T], is_negative: bool) {
    for ((a, b), &moved) in a.iter_mut().zip(b).zip(moved) {
        let (sum, difference) = (a.plus(moved), a.minus(moved));
        (*a, *b) = if is_negative { (difference, sum) } else { (sum, difference) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ_i a_i·X^(root·i·m) by the definition.
    fn defined(all: &[i64], degree: usize, root: usize) -> Vec<i64> {
        let count = all.len() / degree;
        let mut out = vec![0; all.len()];
        for m in 0..count {
            for (i, a) in all.chunks_exact(degree).enumerate() {
                for (j, &a) in a.iter().enumerate() {
                    let at = (j + root * i * m) % (2 * degree);
                    out[m * degree + at % degree] += if at < degree { a } else { -a };
                }
            }
        }
        out
    }

    #[test]
    fn every_back_end_transforms_as_the_definition_says() {
        for degree in [16, 32] {
            for count in [1, 2, degree / 2] {
                let four = 2 * degree / count;
                for root in [four, 2 * degree - four] {
                    let all: Vec<i64> = (0..(count * degree) as i64).map(|i| i * 7919 % 255 - 127).collect();
                    let wanted = defined(&all, degree, root);
                    let mut placed = vec![0; all.len()];
                    for (i, a) in all.chunks_exact(degree).enumerate() {
                        placed[place(i, count) * degree..][..degree].copy_from_slice(a);
                    }
                    for backend in Backend::available() {
                        let mut long = placed.clone();
                        transform_on(backend, &mut long, degree, root);
                        assert_eq!(long, wanted, "{backend}: {count} of degree {degree}, X^{root}");
                        let mut short: Vec<i32> = placed.iter().map(|&x| x as i32).collect();
                        transform_on(backend, &mut short, degree, root);
                        assert!(short.iter().zip(&wanted).all(|(&x, &wanted)| i64::from(x) == wanted), "{backend}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic = "assertion failed"]
    fn a_root_of_another_order_is_refused() {
        transform(&mut [0i32; 64], 16, 4);
    }
}
