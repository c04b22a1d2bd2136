//! When a connection that breaks again and again is given up.

/// Breaks of a connection in a row: since a larger part of the job was finished than ever before.
///
/// Example: 3 of 4 units are finished when the connection breaks. The peer has forgotten the run, and in the next one, which has 100 units,
/// 40 are finished when it breaks again. These are two breaks in a row, because 40 hundredths of the job are less than three quarters. A peer
/// chooses how many units a run has and which runs it forgets, so the number of units alone is no progress.
#[derive(Clone, Copy, Default, Debug)]
pub struct Breaks {
    /// The largest part that was finished at a break: so many units, of so many.
    most: Option<(u64, u32)>,
    times: u32,
}

impl Breaks {
    /// The break in a row that is the last one.
    pub const MOST: u32 = 5;

    /// The connection broke, and `units` of `of` are finished. Says whether it may be made again.
    pub fn again(&mut self, units: u64, of: u32) -> bool {
        let is_more =
            |(most, of_most): (u64, u32)| u128::from(units) * u128::from(of_most) > u128::from(most) * u128::from(of);
        if self.most.is_none_or(is_more) {
            (self.most, self.times) = (Some((units, of)), 0);
        }
        self.times += 1;
        self.times < Self::MOST
    }

    /// Breaks in a row, the last one included.
    pub fn times(&self) -> u32 {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_compared_with_the_largest_and_not_with_the_last() {
        let mut breaks = Breaks::default();
        let mut times = |units, of| {
            let again = breaks.again(units, of);
            assert_eq!(again, breaks.times() < Breaks::MOST);
            breaks.times()
        };
        assert_eq!([times(0, 4), times(3, 4), times(40, 100), times(3, 4), times(75, 100)], [1, 1, 2, 3, 4]);
        assert_eq!([times(76, 100), times(76, 100), times(255, 256), times(1, 1)], [1, 2, 1, 1]);
        assert_eq!([times(0, 1), times(1, 1), times(0, 7), times(9, 9)], [2, 3, 4, 5]);
    }
}
