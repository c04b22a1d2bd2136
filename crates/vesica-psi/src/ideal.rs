//! The ideal functionality of PSI: what a trusted third party would answer. Tests hold every protocol against it.

use std::collections::HashSet;
use vesica_types::Digest;

/// The places in `xs` of the keys that are in `ys` too, in ascending order.
pub fn intersection(xs: &[Digest], ys: &[Digest]) -> Vec<u32> {
    let ys: HashSet<&Digest> = ys.iter().collect();
    (0u32..).zip(xs).filter(|(_, x)| ys.contains(x)).map(|(place, _)| place).collect()
}
