//! Oblivious transfers and what is made of them: both sides' randomness is secret, and so are choices and Δ.

use super::Case;
use crate::backend::reveal;
use crate::public::two;
use crate::watch::Watch;
use vesica_block::Block;
use vesica_block::hash::Permutation;
use vesica_ot::pprf::{self, Hashes};
use vesica_ot::softspoken::{FOLD, Receiver, Sender};
use vesica_ot::{Security, cot, vole};
use vesica_params::lpn;
use vesica_types::UnitId;

const SESSION: [u8; 32] = [9; 32];

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("transfers/softspoken", |watch| softspoken(watch, Security::SemiHonest)),
        Case::new("transfers/softspoken-malicious", |watch| softspoken(watch, Security::Malicious)),
        Case::timed("transfers/plant", plant),
        Case::new("transfers/puncture", puncture),
        Case::new("transfers/vole", vole::<Block>),
        Case::new("transfers/vole-64", vole::<u64>),
        Case::new("transfers/silent", silent),
    ]
}

/// Base transfers, trees, correlated and random ones.
fn softspoken(watch: &mut Watch, security: Security) {
    const MANY: usize = 1000;
    let (pairs, chosen) = two(
        watch,
        |lines, rng| {
            let base = Sender::open(security, FOLD, &SESSION, lines.peer()?, rng)?;
            base.random(3, MANY, lines.peer()?, rng)
        },
        |lines, rng| {
            let base = Receiver::open(security, FOLD, &SESSION, lines.peer()?, rng)?;
            base.random(3, MANY, lines.peer()?)
        },
    );
    watch.result(&pairs);
    watch.result(&chosen.0);
    watch.result(&chosen.1);
}

fn hashes() -> Hashes {
    Hashes { nodes: Permutation::new(Block(1)), keys: Permutation::new(Block(2)) }
}

const TREES: usize = 3;
const DEPTH: usize = 6;

fn blocks(watch: &mut Watch, many: usize) -> Vec<Block> {
    (0..many).map(|_| Block::from_le_bytes(watch.secret())).collect()
}

fn plant(watch: &mut Watch) {
    let (delta, roots, w) = (blocks(watch, 1), blocks(watch, TREES), blocks(watch, TREES * DEPTH));
    let (hashes, mut wire) = (hashes(), Vec::new());
    watch.measure(|| pprf::plant(&hashes, delta[0], &roots, &w, DEPTH, &mut wire, |_, leaves| leaves[0]));
    watch.result(&wire);
}

/// The side with the hole.
fn puncture(watch: &mut Watch) {
    let (v, wire) = (blocks(watch, TREES * DEPTH), vec![Block(5); TREES * pprf::message(DEPTH)]);
    let u: Vec<u8> = watch.bytes(v.len());
    let (mut leaves, mut missing) = (Vec::new(), Vec::new());
    let take = |_, tree: &mut [Block], _, left: Block| {
        leaves.extend_from_slice(tree);
        missing.push(left);
    };
    pprf::puncture(&hashes(), &v, |i| u[i] & 1 == 1, DEPTH, &wire, take);
    watch.result(&leaves);
    watch.result(&missing);
}

/// By trees and a code.
fn vole<B: vole::Shares>(watch: &mut Watch) {
    const MANY: usize = vole::DIRECT + 1;
    let code = &lpn::SETS[0];
    let (b, (a, c)) = two(
        watch,
        |lines, rng| {
            let base = Sender::open(Security::SemiHonest, FOLD, &SESSION, lines.peer()?, rng)?;
            vole::send::<B>(&base, &SESSION, UnitId(0), code, MANY, lines.peer()?, rng)
        },
        |lines, rng| {
            let base = Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer()?, rng)?;
            vole::receive::<B>(&base, &SESSION, UnitId(0), code, MANY, lines.peer()?, rng)
        },
    );
    watch.result(&b);
    watch.result(&a);
    watch.result(&c);
}

/// Silent transfers of bits.
fn silent(watch: &mut Watch) {
    const MANY: usize = cot::DIRECT + 64;
    let (sent, (choices, keys)) = two(
        watch,
        |lines, rng| {
            let base = Sender::open_odd(Security::SemiHonest, FOLD, &SESSION, lines.peer()?, rng)?;
            let mut sent = Vec::new();
            cot::send(&base, &SESSION, UnitId(0), MANY, lines.peer()?, rng, |_, pair| sent.extend(pair.concat()))?;
            Ok(sent)
        },
        |lines, rng| {
            let base = Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer()?, rng)?;
            let mut got = (Vec::new(), Vec::new());
            cot::receive(&base, &SESSION, UnitId(0), MANY, lines.peer()?, |_, choices, keys| {
                got.0.extend_from_slice(choices);
                got.1.extend_from_slice(keys);
            })?;
            Ok(got)
        },
    );
    watch.result(&sent);
    watch.result(&keys);
    // What was written to a place that is secret is public for memcheck from then on: so are these.
    reveal(&choices);
}
