//! Polynomials and matrices modulo q by the batch.

#![deny(unsafe_code)]
