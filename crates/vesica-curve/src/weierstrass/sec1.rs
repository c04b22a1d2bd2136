//! Elements with their sign: compressed points of SEC 1, section 2.3.3, which RFC 9497 has on P-256.
//!
//! A square root is taken of every element that is read, which elements as x alone spare themselves; it is the price of a
//! standard, and of sums: what cannot tell a point from its negative can be multiplied, but not added.

use super::blind::EVALUATED;
use super::combine::Combine;
use super::{Curve, Points, Scalar};
use crate::hash_to_curve::Inputs;
use crate::{BadElement, Dst, Residue, backend};
use vesica_cpu::Backend;

/// Bytes of an element: 2, or 3 if y is odd, and x.
pub(crate) const WIRE: usize = EVALUATED;

/// A batch of points that are affine: s = 1, and so W is 2y.
pub struct Sec1Points<C>(Points<C>);

impl<C: Curve> Sec1Points<C> {
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    pub(crate) fn hash_on(backend: Backend, dst: &Dst, inputs: Inputs) -> Self {
        Self(Points::hash_affine_on(backend, dst, inputs))
    }

    pub(crate) fn generator_on(backend: Backend) -> Self {
        Self(Points::base_on(backend))
    }

    pub(crate) fn decode_on(backend: Backend, wire: &[u8]) -> Result<Self, BadElement> {
        Points::decode_affine_on(backend, wire).map(Self)
    }

    /// Multiplication leaves s alone.
    pub(crate) fn mul_on(self, backend: Backend, k: &Scalar<C>) -> Self {
        Self(self.0.mul_on(backend, k))
    }

    pub(crate) fn encode_on(&self, backend: Backend, wire: &mut Vec<u8>) {
        self.0.encode_affine_on(backend, wire);
    }

    /// Σ w·E.
    pub(crate) fn sum_on(&self, backend: Backend, weights: &[Residue]) -> Self {
        assert_eq!(self.len(), weights.len(), "every element has a weight");
        Self(backend::run_on(backend, Combine { points: &self.0, weights }))
    }
}
