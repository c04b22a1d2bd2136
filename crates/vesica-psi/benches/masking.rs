//! What intersections by commutative masking take in memory, one thread a party: all keys at once.
//!
//! ```text
//! cargo bench -p vesica-psi --bench masking
//! VESICA_BENCH_LONG=1 cargo bench -p vesica-psi --bench masking -- --test 2.20      # 2^20 keys, once each: minutes
//! ```

use criterion::{Criterion, Throughput};
use std::time::Duration;
use vesica_curve::Curve25519;
use vesica_psi::count::{self, Count};
use vesica_psi::ecdh::{self, Ecdh};
use vesica_psi::ecdh3::{self, Ecdh3};
use vesica_psi::{FRAME, ideal};
use vesica_session::memory::Memories;
use vesica_session::{Found, Lines, List, Protocol, Result, SessionRng, Unit, Whole};
use vesica_testkit::{digests, three, two};
use vesica_types::{Digest, TagLen, UnitId};

fn main() {
    let short = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(5));
    let mut c = short.configure_from_args();
    let logs: &[u32] = if std::env::var_os("VESICA_BENCH_LONG").is_some() { &[16, 20] } else { &[16] };
    for &log in logs {
        let job = Job::new(log);
        let mut bench = c.benchmark_group(format!("2^{log}"));
        bench.throughput(Throughput::Elements(1 << log)).sample_size(10);
        bench.bench_function("ecdh, both learn", |b| b.iter(|| job.ecdh()));
        bench.bench_function("count, one learns", |b| b.iter(|| job.count(false)));
        bench.bench_function("count, both learn", |b| b.iter(|| job.count(true)));
        bench.bench_function("ecdh of three, one learns", |b| b.iter(|| job.ecdh3(Some(2))));
        bench.bench_function("ecdh of three, all learn", |b| b.iter(|| job.ecdh3(None)));
        bench.finish();
    }
    c.final_summary();
}

/// The keys of three parties, as many each; half of each two are common.
struct Job {
    keys: [Vec<Digest>; 3],
    common: [u64; 2],
    tag_len: TagLen,
}

impl Job {
    fn new(log: u32) -> Self {
        let n = 1 << log;
        let keys = [0, n / 2, n / 4].map(|first| digests(first, first + n));
        // Of the first two, and of all three, which are the same here.
        let common = ideal::intersection(&keys[0], &keys[1]).len() as u64;
        let tag_len = TagLen::new(vesica_params::tag_bytes(4 * n, n, vesica_params::Level::STANDARD));
        Self { keys, common: [common, common], tag_len: tag_len.expect("a length of tags") }
    }

    fn ecdh(&self) {
        let n = self.keys[0].len();
        let side = |place: u8| {
            move |lines: &mut Lines, rng: &mut SessionRng| {
                let params = ecdh::Params { session: [9; 32], tag_len: self.tag_len, place };
                let keys = self.keys[usize::from(place)].clone();
                let unit = Unit { id: UnitId(0), keys, place, capacities: vec![n; 2] };
                Ecdh::<Curve25519>::open(&params, rng).unit(&unit, lines, rng).unwrap().len() as u64
            }
        };
        assert_eq!(two(side(0), side(1)), (self.common[0], self.common[0]));
    }

    fn whole(&self, side: impl Whole + 'static, place: u8, lines: &mut Lines, rng: &mut SessionRng) -> Result<u64> {
        let keys = &self.keys[usize::from(place)];
        let list = List { keys, room: &Memories, threads: 1, advance: &|_| (), same: &|_| Ok(true) };
        Ok(match Box::new(side).whole(&list, lines, rng)? {
            Found::Nothing => 0,
            Found::Count(n) => n,
            Found::Places(places) => places.records(),
            Found::Sum(_) | Found::Groups(_) | Found::TooFew => unreachable!("nothing is added up here"),
        })
    }

    fn count(&self, both: bool) {
        let n = self.keys[0].len() as u64;
        let side = |place, i_learn, peer_learns| {
            let (session, tag_len) = ([9; 32], self.tag_len);
            let params = count::Params { session, tag_len, keys: n, peers_keys: n, i_learn, peer_learns, frame: FRAME };
            move |lines: &mut Lines, rng: &mut SessionRng| {
                self.whole(Count::<Curve25519>::open(params), place, lines, rng).unwrap()
            }
        };
        let helpers = if both { self.common[0] } else { 0 };
        assert_eq!(two(side(0, true, both), side(1, both, true)), (self.common[0], helpers));
    }

    fn ecdh3(&self, learner: Option<u8>) {
        let keys = self.keys.each_ref().map(|keys| keys.len() as u64);
        let found = three(|place, lines, rng| {
            let params = ecdh3::Params { session: [9; 32], tag_len: self.tag_len, keys, place, learner, frame: FRAME };
            self.whole(Ecdh3::<Curve25519>::open(params), place, lines, rng).unwrap()
        });
        let of = |place| if learner.is_none_or(|learner| learner == place) { self.common[1] } else { 0 };
        assert_eq!(found, [of(0), of(1), of(2)]);
    }
}
