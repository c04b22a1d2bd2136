//! Shares of `mine.memory`: what lives at the same time has shares that add up to it, at most.

/// What takes a share.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// What keys are counted by, before there are units.
    Keys,
    /// The rows of the units.
    Units,
    /// Units under way.
    InFlight,
    /// What has matched.
    Found,
    /// The rows of some units, on each thread, while the output is joined.
    Joining,
    /// The rows of the output, as far as they are known, and before there are units which rows repeat a key.
    Picks,
    /// Rows on their way to the output.
    Output,
}

impl Share {
    /// The share, of `memory` bytes.
    pub fn of(self, memory: u64) -> usize {
        usize::try_from(u128::from(memory) * u128::from(self.sixteenths()) / 16).unwrap_or(usize::MAX)
    }

    fn sixteenths(self) -> u64 {
        match self {
            Share::Keys | Share::Units => 8,
            Share::InFlight | Share::Joining | Share::Output => 4,
            Share::Found | Share::Picks => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Share::{self, *};

    #[test]
    fn what_lives_at_once_fits() {
        for (stage, all) in [
            ("read", &[Keys, InFlight][..]),
            ("group", &[Keys, InFlight, Picks]),
            ("partition", &[Units, InFlight, Picks]),
            ("match", &[Units, Found, InFlight, Picks]),
            ("join", &[Units, Found, Joining, Picks]),
            ("write", &[Units, Found, Picks, Output]),
        ] {
            let all = all.iter().copied();
            assert!(all.map(Share::sixteenths).sum::<u64>() <= 16, "{stage}");
        }
    }
}
