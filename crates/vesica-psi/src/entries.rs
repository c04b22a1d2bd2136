//! The entries of a differentially private party's list: its keys, with fakes for those that are left out, and the keys of a pool.

use crate::noise::{bit, chance, number};
use vesica_session::{Keys, Result, SessionRng};
use vesica_types::Digest;

/// How the party that learns hides from the other one how many keys are common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hide {
    /// Among the keys of a pool: the weights of Z, from 0 to 2c.
    Pool(Vec<u128>),
    /// By leaving keys out: each is taken with this probability, in 2^128ths.
    Sample(u128),
}

impl Hide {
    /// 2c, the entries that each list has besides keys.
    pub fn extra(&self) -> u64 {
        match self {
            Hide::Pool(weights) => weights.len() as u64 - 1,
            Hide::Sample(_) => 0,
        }
    }
}

/// What a party's list is of: its keys, or fakes in their places, and behind them the pool.
pub struct Entries<'a> {
    /// Its keys.
    pub keys: &'a dyn Keys,
    /// How B hides.
    pub hide: &'a Hide,
    /// The salt.
    pub session: [u8; 32],
    /// B's seed; none for A, who brings all that it has, and the whole pool.
    pub mine: Option<&'a [u8; 32]>,
}

impl Entries<'_> {
    /// The keys of the pool, from the salt: the digest of a key is one of them with probability 2^-128.
    fn pool(&self) -> Vec<Digest> {
        let mut keys = chance("vesica 2026 dp pool", &self.session);
        (0..self.hide.extra()).map(|_| Digest(keys.bytes())).collect()
    }

    /// The entries behind the keys. Which keys of the pool B takes says nothing, for A cannot tell them apart: it takes the first ones.
    fn behind(&self) -> Vec<Digest> {
        let mut pool = self.pool();
        if let (Some(seed), Hide::Pool(weights)) = (self.mine, self.hide) {
            let z = number(weights, &mut chance("vesica 2026 dp count", seed)) as usize;
            let mut fakes = chance("vesica 2026 dp fakes", seed);
            let fakes = (0..pool.len()).map(|_| Digest(fakes.bytes())).collect();
            for (at, (entry, fake)) in pool.iter_mut().zip(moved(fakes, z)).enumerate() {
                *entry = choose(at < z, *entry, fake);
            }
        }
        pool
    }

    /// Which of B's `keys` keys are in its list.
    pub fn taken(&self, keys: u64) -> Taken {
        let sample = match (self.mine, self.hide) {
            (Some(seed), Hide::Sample(of)) => Some((*of, chance("vesica 2026 dp sample", seed))),
            _ => None,
        };
        Taken { sample, keys, next: 0 }
    }
}

impl Keys for Entries<'_> {
    fn blocks(&self) -> Box<dyn Iterator<Item = Result<Vec<Digest>>> + Send + '_> {
        let (mut taken, mut place) = (self.taken(u64::MAX), 0);
        let mut fakes = chance("vesica 2026 dp fakes", self.mine.unwrap_or(&self.session));
        let keys = self.keys.blocks().map(move |block| {
            let mut keys = block?;
            if taken.sample.is_some() {
                for key in &mut keys {
                    let fake = Digest(fakes.bytes());
                    *key = choose(taken.is(place), *key, fake);
                    place += 1;
                }
            }
            Ok(keys)
        });
        Box::new(keys.chain(std::iter::once_with(|| Ok(self.behind()))))
    }
}

/// The first if `first`, else the second, in a time that does not depend on it.
fn choose(first: bool, one: Digest, other: Digest) -> Digest {
    let [one, other] = [one, other].map(|digest| u128::from_le_bytes(digest.0));
    let mask = std::hint::black_box(u128::from(first)).wrapping_neg();
    Digest((other ^ (one ^ other) & std::hint::black_box(mask)).to_le_bytes())
}

/// Entry i comes to place i + z, and what would come behind the last place is lost. It takes as long for every z up to the length, a step
/// for each bit of it: how many fakes B has is what nobody is to learn.
fn moved(mut entries: Vec<Digest>, z: usize) -> Vec<Digest> {
    for bit in 0..usize::BITS - entries.len().leading_zeros() {
        for at in (1 << bit..entries.len()).rev() {
            entries[at] = choose(z >> bit & 1 == 1, entries[at - (1 << bit)], entries[at]);
        }
    }
    entries
}

/// Which places of a list hold keys: to be asked for in ascending order.
pub struct Taken {
    sample: Option<(u128, SessionRng)>,
    keys: u64,
    next: u64,
}

impl Taken {
    /// Whether the next place asked for holds one.
    pub fn is(&mut self, place: u64) -> bool {
        let Some((of, rng)) = self.sample.as_mut().filter(|_| place < self.keys) else { return place < self.keys };
        let mut taken = false;
        while self.next <= place {
            taken = bit(*of, rng);
            self.next += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testkit::digests;

    #[test]
    fn entries_move_by_every_number_of_places() {
        for len in [0, 1, 2, 7, 8, 9] {
            let entries = digests(0, len as u64);
            for z in 0..=len {
                assert_eq!(moved(entries.clone(), z)[z..], entries[..len - z], "{z} of {len}");
            }
        }
    }
}
