//! Whole protocols, opening included, with the keys of both parties and all of their randomness secret, and what they send public.

use super::Case;
use crate::backend::{hide, reveal};
use crate::public::{many, two};
use crate::watch::Watch;
use vesica_block::Block;
use vesica_curve::Curve25519;
use vesica_oprf::Oprf;
use vesica_oprf::vole::Field;
use vesica_ot::Security::{self, Malicious, SemiHonest};
use vesica_psi::circuit::{Groups, GroupsOfS, Product, Products, Total};
use vesica_psi::dp::Hide;
use vesica_psi::oprf::Role;
use vesica_session::{Lines, Result, SessionRng, Shared, Values};
use vesica_testkit::digests;
use vesica_types::Digest;

// What the tests of the protocols run.
#[path = "../../../vesica-psi/tests/sides/mod.rs"]
mod sides;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("jobs/ecdh", |watch| {
            let [(xs, n), (ys, m)] = keys(40);
            run(watch, sides::ecdh::<Curve25519>(xs, (n, m)), sides::ecdh::<Curve25519>(ys, (m, n)));
        }),
        Case::new("jobs/dh", |watch| oprf(watch, 40, sides::dh::<Curve25519>())),
        Case::new("jobs/ecdh-oprf", |watch| oprf(watch, 40, sides::ecdh_oprf::<Curve25519>())),
        Case::new("jobs/rr22", |watch| oprf(watch, 40, sides::rr22::<u64, _>(SemiHonest, sides::paxos))),
        Case::new("jobs/rr22-low-comm", |watch| oprf(watch, 700, sides::rr22::<Block, _>(Malicious, sides::band))),
        Case::new("jobs/kkrt", |watch| oprf(watch, 40, sides::kkrt::<3, 12>())),
        Case::new("jobs/ot", |watch| oprf(watch, 40, sides::ot_wide(Security::Malicious))),
        Case::new("jobs/mini-psi", |watch| oprf(watch, 20, sides::mini(1))),
        Case::new("jobs/mini-psi-stored", |watch| oprf(watch, 40, sides::mini(sides::STORED))),
        Case::new("jobs/bc22", |watch| oprf(watch, 40, sides::bc22(Malicious))),
        Case::new("jobs/circuit-count", |watch| circuit::<Block>(watch, Total::Count)),
        Case::new("jobs/circuit-sum", |watch| circuit::<u64>(watch, Total::Sum)),
        Case::new("jobs/circuit-shares", |watch| circuit::<u64>(watch, Total::Shares)),
        Case::new("jobs/circuit-groups", |watch| {
            let groups = Groups { most: 5, sums: 1, least: 3, of_a_key: 5, labels: true, ..sides::GROUPS };
            circuit::<u64>(watch, Total::Groups(groups));
        }),
        Case::new("jobs/circuit-groups-noisy", |watch| {
            let groups = Groups { most: 5, sums: 1, least: 3, of_a_key: 5, labels: false, ..sides::GROUPS };
            let noise = [2, 7].map(|first| {
                let mut noise: Vec<u64> = (first..first + 10).collect();
                hide(&mut noise);
                &*noise.leak()
            });
            with_noise::<u64>(watch, Total::Groups(groups), Some(noise));
        }),
        Case::new("jobs/circuit-groups-values-of-both", |watch| {
            for (most, of_a_key) in [(5, 5), (64, 1)] {
                let groups = Groups { most, sums: 3, of_other: 2, least: 3, of_a_key, labels: true, ..sides::GROUPS };
                circuit::<u64>(watch, Total::Groups(groups));
            }
        }),
        Case::new("jobs/circuit-groups-products", |watch| {
            // Of a key in one group, of one that may be in all, and by trees.
            let products = Products::new(&[Product { of_r: 1, of_s: 0, bits: 30 }], [1, 1]).expect("few");
            for (most, of_a_key) in [(3, 1), (3, 3), (128, 1)] {
                let groups =
                    Groups { most, sums: 2, of_other: 1, products, least: 3, of_a_key, labels: true, ..sides::GROUPS };
                circuit::<u64>(watch, Total::Groups(groups));
            }
        }),
        Case::new("jobs/circuit-groups-of-both", |watch| {
            let products = Products::new(&[Product { of_r: 0, of_s: 0, bits: 30 }], [0, 0]).expect("few");
            for (sums, of_other, products) in [(1, 0, Products::NONE), (3, 2, products)] {
                let groups = Groups {
                    most: 3,
                    sums,
                    of_other,
                    products,
                    least: 3,
                    of_a_key: 2,
                    labels: true,
                    of_s: Some(GroupsOfS { most: 2, labels: true }),
                };
                circuit::<u64>(watch, Total::Groups(groups));
            }
        }),
        Case::new("jobs/circuit-groups-by-trees", |watch| {
            for (most, of_a_key) in [(64, 1), (150, 2)] {
                let groups = Groups { most, sums: 1, least: 3, of_a_key, labels: true, ..sides::GROUPS };
                assert!(groups.by_trees());
                circuit::<u64>(watch, Total::Groups(groups));
            }
        }),
        Case::new("jobs/tally", tally),
        Case::new("jobs/ids", |watch| {
            let [(xs, n), (ys, m)] = keys(40);
            let bob = sides::ids::<u64, _>(ys, (m, n), sides::paxos);
            run(watch, sides::ids::<u64, _>(xs, (n, m), sides::paxos), bob);
        }),
        Case::new("jobs/count", |watch| {
            let [(xs, _), (ys, _)] = keys(40);
            let (n, m) = (xs.len(), ys.len());
            let bob = sides::count::<Curve25519>(ys, (m, n), (false, true));
            run(watch, sides::count::<Curve25519>(xs, (n, m), (true, false)), bob);
        }),
        Case::new("jobs/dp-pool", |watch| dp(watch, Hide::Pool(sides::POOL.to_vec()))),
        Case::new("jobs/dp-sample", |watch| dp(watch, Hide::Sample(3 << 126))),
    ]
}

/// Alice's keys and Bob's, and what each pads them to; a third of Alice's is common.
fn keys(many: u64) -> [(Vec<Digest>, usize); 2] {
    [(0, many), (many - many / 3, many + 10)].map(|(from, to)| {
        let mut keys = digests(from, to);
        hide(&mut keys);
        (keys, (to - from) as usize + 4)
    })
}

fn run<A: Send, B: Send>(
    watch: &mut Watch,
    alice: impl FnOnce(&mut Lines, &mut SessionRng) -> Result<A> + Send,
    bob: impl FnOnce(&mut Lines, &mut SessionRng) -> Result<B> + Send,
) {
    let (a, b) = two(watch, alice, bob);
    reveal(&[a]);
    reveal(&[b]);
}

fn oprf<O: Oprf<Key: 'static>>(watch: &mut Watch, many: u64, choose: impl sides::Choose<O>) {
    let [(xs, n), (ys, m)] = keys(many);
    let alice = sides::Side::new(Role::Receiver, xs, (n, m), false).run(choose);
    run(watch, alice, sides::Side::new(Role::Sender, ys, (m, n), false).run(choose));
}

fn dp(watch: &mut Watch, hide: Hide) {
    let [(xs, _), (ys, _)] = keys(40);
    let (n, m) = (xs.len(), ys.len());
    let bob = sides::dp::<Curve25519>(ys, (m, n), true, 1 << 126, hide.clone());
    run(watch, sides::dp::<Curve25519>(xs, (n, m), false, 1 << 126, hide), bob);
}

fn tally(watch: &mut Watch) {
    let keys = [(0, 40), (27, 50), (20, 45)].map(|(from, to)| {
        let mut keys = digests(from, to);
        hide(&mut keys);
        keys
    });
    let job = sides::Many::new(&keys, Some(1), &[0]);
    let side =
        |place, lines: &mut Lines, rng: &mut SessionRng| job.total::<u64>((Total::Sum, Some(5), 1), place, lines, rng);
    many(watch, 3, side).into_iter().for_each(|found| reveal(&[found]));
}

fn circuit<B: Field>(watch: &mut Watch, total: Total) {
    with_noise::<B>(watch, total, None);
}

fn with_noise<B: Field>(watch: &mut Watch, total: Total, noise: Option<[&'static [u64]; 2]>) {
    let [(xs, n), (ys, m)] = keys(40);
    let least = (total == Total::Sum).then_some(5);
    let both = matches!(total, Total::Shares | Total::Groups(_));
    let asks = sides::Asks { total, puts: true, learns: (true, both), least, noise };
    let side = |keys: Vec<Digest>, capacities, asks| {
        move |lines: &mut Lines, rng: &mut SessionRng| {
            let side = sides::open_circuit::<B>(capacities, asks, lines, rng)?;
            let shares = match total {
                Total::Groups(groups) => {
                    let most = if asks.puts { groups.most } else { groups.most_of_s().max(1) };
                    let width = groups.widths()[usize::from(!asks.puts)];
                    let mut of: Vec<u32> = (0..keys.len() as u32).map(|key| key % most).collect();
                    if most > 1 {
                        hide(&mut of);
                    }
                    let entries = (0..).zip(of).collect();
                    // Those that are factors have 30 bits.
                    let number = |key| (0..width).map(move |which| (sides::value(key).rotate_left(which) >> 34) as u64);
                    let numbers = keys.iter().flat_map(number).collect();
                    let values = Values::new(width as usize, entries, numbers)?;
                    side.unit(&sides::unit(keys, capacities, lines), &values, lines, rng)?
                }
                _ => sides::share(&side, 0, keys, capacities, asks, lines, rng)?,
            };
            sides::open(&side, asks, &[shares], lines, rng)
        }
    };
    run(watch, side(xs, (n, m), asks), side(ys, (m, n), asks.other()));
}
