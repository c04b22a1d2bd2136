//! Small sets as a polynomial over GF(2^256): exactly a coefficient a pair, for n products a pair.
//!
//! The polynomial of degree below n is the only one through n points, so if the values are random then all coefficients are, whatever
//! the points. By Newton's form, in about 2·n² products: P_k takes the right values at the first k points, and
//! P_(k+1) = P_k + c_k·Z_k with Z_k the product of X - x_j for j < k. All points are known, so what is needed of P_k and Z_k are
//! their values at the points after the first k, which are kept up to date for all of them at once.

use crate::Error;
use vesica_block::Block;
use vesica_block::gf256::{self, Elements};

/// The coefficients, from the constant one on, of the polynomial with `values[i]` at `points[i]`. It takes the same steps whatever these
/// are, unless points are equal.
///
/// # Errors
/// [`Error::Duplicate`] if two points are equal.
///
/// # Panics
/// If there are not as many values as points.
pub fn interpolate(points: &Elements, values: &Elements) -> Result<Elements, Error> {
    let n = points.len();
    assert_eq!(n, values.len(), "a value for each point");
    let ones: Elements = std::iter::repeat_n(gf256::ONE, n).collect();

    // Z_k at the point k, for every k, and the inverses.
    let mut inverses = ones.clone();
    for k in 0..n {
        inverses.mul_shifted(k + 1, points, points.get(k));
    }
    invert(&mut inverses, points)?;

    // What is left of the values, which P_k does not yet take; and c_k.
    let (mut rest, mut z) = (values.clone(), ones);
    let mut newton = rest.clone();
    for k in 0..n {
        let c = gf256::mul(rest.get(k), inverses.get(k));
        newton.set(k, c);
        rest.mul_add(k + 1, &z, c);
        z.mul_shifted(k + 1, points, points.get(k));
    }

    // From c_k + (X - x_k)·Q to coefficients, the last k first: those of Q stand from k + 1 on, and X·Q is Q moved by one.
    let mut coefficients = newton;
    for k in (0..n.saturating_sub(1)).rev() {
        let (mut moved, last) = (coefficients.clone(), n - 1);
        moved.low[k..].rotate_left(1);
        moved.high[k..].rotate_left(1);
        moved.set(last, [Block::ZERO; 2]);
        coefficients.mul_add(k, &moved, points.get(k));
    }
    Ok(coefficients)
}

/// Replaces each element by its inverse: one inversion for all, and three products each.
fn invert(elements: &mut Elements, points: &Elements) -> Result<(), Error> {
    let (mut before, mut product) = (Vec::with_capacity(elements.len()), gf256::ONE);
    for k in 0..elements.len() {
        before.push(product);
        product = gf256::mul(product, elements.get(k));
    }
    if product == [Block::ZERO; 2] {
        return Err(duplicate(points));
    }
    let mut inverse = gf256::invert(product);
    for k in (0..elements.len()).rev() {
        let own = gf256::mul(inverse, before[k]);
        inverse = gf256::mul(inverse, elements.get(k));
        elements.set(k, own);
    }
    Ok(())
}

/// Which points are equal.
fn duplicate(points: &Elements) -> Error {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&i| points.get(i));
    let pair = order.windows(2).find(|pair| points.get(pair[0]) == points.get(pair[1]));
    let pair = pair.expect("a product of differences is zero only if one of them is");
    Error::Duplicate { first: pair[0], second: pair[1] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_block::prg::Prg;

    fn random(n: usize, prg: &mut Prg) -> Elements {
        (0..n).map(|_| [prg.block(), prg.block()]).collect()
    }

    #[test]
    fn it_takes_the_values_at_the_points() {
        let mut prg = Prg::new(Block(1));
        for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33, 100] {
            let (points, values) = (random(n, &mut prg), random(n, &mut prg));
            let coefficients = interpolate(&points, &values).unwrap();
            assert_eq!(coefficients.len(), n);
            assert_eq!(coefficients.evaluate(&points), values, "{n}");
        }
    }

    /// A polynomial of degree below n is its own interpolation: there is no other, so nothing of the points shows.
    #[test]
    fn it_is_the_only_one() {
        let mut prg = Prg::new(Block(2));
        let (coefficients, points) = (random(20, &mut prg), random(20, &mut prg));
        assert_eq!(interpolate(&points, &coefficients.evaluate(&points)).unwrap(), coefficients);
    }

    #[test]
    fn equal_points_are_refused() {
        let mut prg = Prg::new(Block(3));
        let (mut points, values) = (random(9, &mut prg), random(9, &mut prg));
        points.set(7, points.get(2));
        assert_eq!(interpolate(&points, &values).unwrap_err(), Error::Duplicate { first: 2, second: 7 });
    }
}
