//! Sets and what is common to them: for two, as circles whose areas are as the numbers of keys.

use crate::tell::numbers::{counted, worded};
use std::f64::consts::PI;

/// The sets of a run.
pub struct Overlap {
    /// Each party's name and distinct keys.
    pub sets: Vec<(String, u64)>,
    /// How many are common to all; absent where that is not to be shown.
    pub common: Option<u64>,
}

/// Two circles on a line: where the second one's middle is to the right of the first one's, and both radii.
pub struct Circles {
    pub left: f64,
    pub right: f64,
    pub apart: f64,
}

impl Overlap {
    /// What the picture says, in words.
    pub fn told(&self) -> String {
        let held: Vec<String> =
            self.sets.iter().map(|(name, keys)| format!("{name} holds {}", counted(*keys, "keys"))).collect();
        let common = match self.common {
            Some(keys) => worded(keys, "is common", "are common"),
            None => "how many are common is not for this page".to_owned(),
        };
        format!("{}; {common}.", held.join("; "))
    }

    /// The circles of two sets of which the larger has the radius `most`; nothing for one set or for more than two.
    /// Without a number of common keys they touch.
    pub fn circles(&self, most: f64) -> Option<Circles> {
        let [(_, a), (_, b)] = self.sets[..] else { return None };
        let largest = a.max(b).max(1) as f64;
        let radius = |keys: u64| most * (keys as f64 / largest).sqrt();
        let (left, right) = (radius(a), radius(b));
        let common = self.common.map(|keys| keys.min(a).min(b) as f64 * PI * most * most / largest);
        Some(Circles { left, right, apart: common.map_or(left + right, |area| distance(left, right, area)) })
    }
}

/// How far apart two circles stand whose common part has this area. Found by halving: the area shrinks as they part.
fn distance(r: f64, s: f64, area: f64) -> f64 {
    let (mut low, mut high) = ((r - s).abs(), r + s);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if common_area(r, s, middle) > area { low = middle } else { high = middle }
    }
    high
}

/// The area that two circles at this distance share: two segments.
fn common_area(r: f64, s: f64, d: f64) -> f64 {
    if d >= r + s {
        return 0.0;
    }
    if d <= (r - s).abs() {
        return PI * r.min(s).powi(2);
    }
    let segment = |r: f64, s: f64| r * r * ((d * d + r * r - s * s) / (2.0 * d * r)).clamp(-1.0, 1.0).acos();
    let kite = ((-d + r + s) * (d + r - s) * (d - r + s) * (d + r + s)).max(0.0).sqrt();
    segment(r, s) + segment(s, r) - kite / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_as_the_numbers_of_keys() {
        for (a, b, common) in [(1000, 1000, 500), (1_000_000, 1000, 700), (10, 7, 7), (5, 5, 0), (3, 9, 1)] {
            let sets = vec![("a".to_owned(), a), ("b".to_owned(), b)];
            let circles = Overlap { sets, common: Some(common) }.circles(80.0).unwrap();
            let key = PI * 80.0 * 80.0 / a.max(b) as f64;
            assert!((PI * circles.left.powi(2) / key - a as f64).abs() < 1e-6 * a as f64);
            let shared = common_area(circles.left, circles.right, circles.apart) / key;
            assert!((shared - common as f64).abs() < 0.001 * (common as f64 + 1.0), "{a} {b} {common}: {shared}");
        }
        let empty = Overlap { sets: vec![("a".to_owned(), 0), ("b".to_owned(), 0)], common: Some(0) };
        assert!(empty.circles(80.0).unwrap().apart.is_finite());
    }
}
