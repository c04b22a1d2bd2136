//! Silent vector oblivious linear evaluation: c = a·Δ + b, many at a time, for little traffic.
//!
//! [BCGI18] Boyle, Couteau, Gilboa, Ishai, "Compressing vector OLE", CCS 2018, eprint 2019/273: a sparse VOLE from punctured
//! trees, compressed by a code under which sparse vectors look random (dual LPN). The field F has 2^128 elements; a is in
//! B, which is F or GF(2^64).
//!
//!   Δ       the sender's element of F      delta        e      sparse: β_i at α_i, for each tree    noisy
//!   a, c    the receiver's outputs         a, c         b      the sender's outputs                 b
//!   w, v    rows of correlated OTs: w = v + u·Δ (`softspoken`)              G   the code (`code`)   code
//!
//! 1. R -> S: correlated OTs. Bits of u are the β_i and the paths of the α_i: all random, so nothing is to be corrected.
//! 2. β_i·Δ in shares: Σ_k x^k·w_k = Σ_k x^k·v_k + β_i·Δ, over the log|B| OTs whose bits are β_i.
//! 3. S -> R: punctured trees (`pprf`), with S's share of β_i·Δ added to the sum of the leaves of tree i: so R's sparse c is
//!    S's leaves, plus β_i·Δ at α_i: c = e·Δ + b.
//! 4. Both multiply by G.
//!
//! Malicious: OTs are checked (`softspoken`), and one more share, of a random γ·Δ, hides the check of step 3:
//! 5. R -> S: a seed for χ in B^N, and d = Σ_j χ_j·e_j + γ.   S -> R: a hash of Σ_j χ_j·b_j + (share of γ·Δ) + d·Δ, which R
//!    can compute from c. ([WYKW21] Weng, Yang, Katz, Wang, "Wolverine", S&P 2021, eprint 2020/925, Figure 7.) A sender that
//!    spoils trees passes if it guessed the sides on which holes are (or with probability 1/|B|).
//!
//! What a deviating party learns: it can spoil its messages so that they pass a check only if it guessed k secret bits, S bits of
//! the holes, R bits of Δ (in `softspoken`). It passes with probability 2^-k and then knows these bits. If it does not, the
//! run ends, for a failed check is the peer's fault and only a broken connection is tried again. Checks of units that are under way
//! at once, in all lanes of a run, are judged one after the other ([`crate::Judge`]), and none that ends after a failed one succeeds. So in one
//! run, with all its units, lanes and connections, a party learns k bits in all with probability 2^-k at most: one bit on average.
//! - Breaking the connection before the verdict shows nothing, as no message before it depends on the bits. A redone unit has
//!   new holes, and a new connection a new Δ, so earlier guesses are of no use for them.
//! - Guessing finds no more than it costs. That a spoiled unit passes and its noise misses a word of weight d has
//!   probability (1 - d)^t at most, as without guessing; that guesses pass and q trials then find Δ, q/2^128.
//! - A party that guesses nothing passes with probability 1/|B| a unit here, and n/128·2^-128 a call of `softspoken`.
//! - A run that somebody starts again is another run: j starts allow k bits with probability j·2^-k.
//!
//! Up to [`DIRECT`] outputs, steps 1 and 2 alone are the protocol, and nothing is assumed of any code.
//! Rounds: 1 (3 if malicious).   Bytes: R to S: (t·(h + log|B|))·(128/k - 1)/8 ([`softspoken`]); S to R: 16·t·(h + 2); for t
//! trees of depth h.
//! Differs from the papers: the shares of β_i·Δ come from SoftSpoken's OTs rather than Gilboa's (4 times less traffic); Δ is
//! that of the OTs, for all units of a job; χ comes from a generator rather than being powers.

use crate::code::{Base, Matrix};
use crate::pprf::{self, Hashes};
use crate::softspoken::{self, Correlated, Receiver, Sender};
use crate::sums::sum;
use crate::{SecretBlocks, Security, pack, receive_blocks};
use vesica_block::{Block, gf64, gf128, large, prg::Prg};
use vesica_params::Level;
use vesica_params::lpn::{self, CodeSet, Noise};
use vesica_session::{Channel, Result, SessionRng};
use vesica_types::UnitId;
use zeroize::Zeroizing;

/// The most outputs that are made without trees and codes: about as many as cost the same traffic either way.
pub const DIRECT: usize = 512;

/// Bytes of memory that the sender and the receiver of n outputs have, beside these, where both follow the protocol: the noise, which the base keeps for the
/// next unit, and the rows that it comes from.
pub fn memory<B: Base>(code: &CodeSet, n: usize) -> [u64; 2] {
    let Some(plan) = Plan::new(code, n, Security::SemiHonest) else { return [softspoken::memory(n * B::BITS); 2] };
    let rows = softspoken::memory(plan.transfers::<B>());
    [1, 2].map(|width| (width * Block::BYTES * plan.noise.len()) as u64 + rows)
}

/// The sender's n blocks b for a unit of the run that `session` names (see [`Matrix::new`]); Δ is the base's. They are secret,
/// and wiped when they are dropped.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol; a bug if the base served this unit before.
pub fn send<B: Shares>(
    base: &Sender,
    session: &[u8; 32],
    unit: UnitId,
    code: &CodeSet,
    n: usize,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<SecretBlocks> {
    let id = u64::from(unit.0);
    let Some(plan) = Plan::new(code, n, base.security()) else {
        let w = base.extend(id, n * B::BITS, ch, rng)?;
        return Ok(Zeroizing::new(B::shares(&w[..n * B::BITS])));
    };
    // 1.
    let w = base.extend(id, plan.transfers::<B>(), ch, rng)?;
    // 2.
    let (shares, paths) = w[..plan.transfers::<B>()].split_at(plan.shares * B::BITS);
    let shares = Zeroizing::new(B::shares(shares));
    // 3. -> trees
    let Noise { trees, depth } = plan.noise;
    let mut b = base.pool.take(plan.noise.len());
    let mut wire = Vec::with_capacity(trees * pprf::message(depth as usize));
    let roots: SecretBlocks = Zeroizing::new((0..trees).map(|_| Block::from_le_bytes(rng.bytes())).collect());
    pprf::plant(
        &hashes(|name| base.permutation(id, name)),
        base.delta(),
        &roots,
        paths,
        depth as usize,
        &mut wire,
        |i, leaves| {
            b[i << depth..][..leaves.len()].as_flattened_mut().copy_from_slice(leaves);
            shares[i]
        },
    );
    ch.send(&pack(&wire))?;
    if base.security() == Security::Malicious {
        // 5. <- χ, d
        let [seed, d] = receive_blocks(ch, 2)?[..] else { unreachable!("its length was checked") };
        let [sum] = combine::<B, 1>(seed, &b);
        let mut product = Zeroizing::new([base.delta()]);
        B::scale_each(&mut *product, &[d]);
        // -> the hash
        ch.send(&digest(sum ^ shares[trees] ^ product[0]))?;
    }
    // 4.
    let mut out = SecretBlocks::default();
    large::reserve(&mut *out, n);
    Matrix::new(code, session, unit).encode::<B, 1>(&mut b, plan.outputs, |b| {
        let missing = n - out.len();
        out.extend(b.as_flattened().iter().take(missing));
    });
    base.pool.give(b);
    Ok(out)
}

/// The receiver's n elements a and blocks c for a unit of the run that `session` names. They are secret, and
/// wiped when they are dropped.
///
/// # Errors
/// Those of the channel; the peer's if it breaks the protocol; a bug if the base served this unit before.
pub fn receive<B: Shares>(
    base: &Receiver,
    session: &[u8; 32],
    unit: UnitId,
    code: &CodeSet,
    n: usize,
    ch: &mut dyn Channel,
    rng: &mut SessionRng,
) -> Result<(Zeroizing<Vec<B>>, SecretBlocks)> {
    let id = u64::from(unit.0);
    let Some(plan) = Plan::new(code, n, base.security()) else {
        let Correlated { bits, rows: v } = base.extend(id, n * B::BITS, ch)?;
        return Ok((Zeroizing::new(elements(&bits, n)), Zeroizing::new(B::shares(&v[..n * B::BITS]))));
    };
    // 1.
    let Correlated { bits, rows: v } = base.extend(id, plan.transfers::<B>(), ch)?;
    // 2.
    let (shares, paths) = v[..plan.transfers::<B>()].split_at(plan.shares * B::BITS);
    let betas: Zeroizing<Vec<B>> = Zeroizing::new(elements(&bits, plan.shares));
    let shares = Zeroizing::new(B::shares(shares));
    // 3. <- trees
    let Noise { trees, depth } = plan.noise;
    let wire = receive_blocks(ch, trees * pprf::message(depth as usize))?;
    let mut noisy = base.pool.take(plan.noise.len());
    let first = plan.shares * B::BITS;
    let u = |j: usize| bits[(first + j) / 128].0 >> ((first + j) % 128) & 1 == 1;
    pprf::puncture(
        &hashes(|name| base.permutation(id, name)),
        paths,
        u,
        depth as usize,
        &wire,
        |i, leaves, hole, missing| {
            let tree = &mut noisy[i << depth..][..leaves.len()];
            tree.iter_mut().zip(leaves).for_each(|(pair, leaf)| *pair = [Block::ZERO, *leaf]);
            tree[hole] = [betas[i].embed(), missing ^ shares[i]];
        },
    );
    let mut expected = None;
    if base.security() == Security::Malicious {
        // 5. -> χ, d
        let seed = Block::from_le_bytes(rng.bytes());
        let [e, c] = combine::<B, 2>(seed, &noisy);
        ch.send(&pack(&[seed, e ^ betas[trees].embed()]))?;
        expected = Some(digest(c ^ shares[trees]));
    }
    // 4.
    let (mut a, mut c) = (Zeroizing::new(Vec::new()), SecretBlocks::default());
    large::reserve(&mut *a, n);
    large::reserve(&mut *c, n);
    Matrix::new(code, session, unit).encode::<B, 2>(&mut noisy, plan.outputs, |pairs| {
        for &[a_j, c_j] in &pairs[..pairs.len().min(n - a.len())] {
            a.push(B::from_block(a_j));
            c.push(c_j);
        }
    });
    base.pool.give(noisy);
    if let Some(expected) = expected {
        let right = ch.recv_exact(expected.len())? == expected;
        base.judge(right, ch, "the trees of its vector OLE contradict their check")?;
    }
    Ok((a, c))
}

/// What both sides compute from n.
struct Plan {
    /// Outputs of the code: n, or the fewest that it is used for.
    outputs: usize,
    noise: Noise,
    /// Shares of products with Δ: one for each tree, and one that hides the check.
    shares: usize,
}

impl Plan {
    /// `None` if n outputs are made without a code.
    fn new(code: &CodeSet, n: usize, security: Security) -> Option<Self> {
        if n <= DIRECT {
            return None;
        }
        let outputs = n.max(lpn::LEAST);
        let noise = code.noise(outputs, Level::STANDARD);
        Some(Self { outputs, noise, shares: noise.trees + usize::from(security == Security::Malicious) })
    }

    /// Correlated OTs.
    fn transfers<B: Base>(&self) -> usize {
        self.shares * B::BITS + self.noise.trees * self.noise.depth as usize
    }
}

fn hashes(permutation: impl Fn(&[u8]) -> vesica_block::hash::Permutation) -> Hashes {
    Hashes { nodes: permutation(b"nodes"), keys: permutation(b"leaves") }
}

/// Σ_j χ_j·x_j of each of W vectors, for the χ of this seed.
fn combine<B: Base, const W: usize>(seed: Block, vectors: &[[Block; W]]) -> [Block; W] {
    const CHUNK: usize = 256;
    let mut prg = Prg::new(seed);
    let mut chi = [Block::ZERO; CHUNK];
    let mut products = Zeroizing::new([Block::ZERO; CHUNK]);
    let mut sums = [Block::ZERO; W];
    for chunk in vectors.chunks(CHUNK) {
        let chi = &mut chi[..chunk.len()];
        prg.fill(chi);
        for (i, total) in sums.iter_mut().enumerate() {
            let products = &mut products[..chunk.len()];
            products.iter_mut().zip(chunk).for_each(|(product, symbol)| *product = symbol[i]);
            B::scale_each(products, chi);
            *total ^= sum(products);
        }
    }
    sums
}

fn digest(check: Block) -> [u8; 32] {
    blake3::derive_key("vesica 2026 vole check", &check.to_le_bytes())
}

/// The first n elements of B that the bits make up.
fn elements<B: Base>(bits: &[Block], n: usize) -> Vec<B> {
    let element = |i: usize| {
        let at = i * B::BITS;
        B::from_block(Block(bits[at / 128].0 >> (at % 128)))
    };
    (0..n).map(element).collect()
}

/// A base field with products by Δ from correlated OTs.
pub trait Shares: Base {
    /// Σ_k x^k·row_k for each run of as many rows as the field has bits.
    fn shares(rows: &[Block]) -> Vec<Block>;
}

impl Shares for Block {
    fn shares(rows: &[Block]) -> Vec<Block> {
        let powers: [Block; 128] = std::array::from_fn(|k| Block(1 << k));
        rows.chunks_exact(128).map(|rows| gf128::inner(rows, &powers)).collect()
    }
}

impl Shares for u64 {
    fn shares(rows: &[Block]) -> Vec<Block> {
        let powers: [Block; 64] = std::array::from_fn(|k| Block(1 << k));
        let mut scaled = [Block::ZERO; 64];
        let share = |rows: &[Block]| {
            scaled.copy_from_slice(rows);
            gf64::scale_each(&mut scaled, &powers);
            sum(&scaled)
        };
        rows.chunks_exact(64).map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use crate::softspoken::FOLD;
    use vesica_params::lpn::SETS;
    use vesica_session::{Error, Fault, Lines};
    use vesica_testkit::{Attack, Hostile, Recorder, Transcript, two, two_with};

    const SESSION: [u8; 32] = [5; 32];

    type Outputs<B> = ((Block, Vec<Vec<Block>>), Vec<(Vec<B>, Vec<Block>)>);

    fn run<B: Shares>(security: Security, code: &CodeSet, sizes: &[usize]) -> Outputs<B> {
        two(
            |lines, rng| {
                let base = Sender::open(security, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                let b = (0..).zip(sizes).map(|(unit, &n)| {
                    send::<B>(&base, &SESSION, UnitId(unit), code, n, lines.peer().unwrap(), rng).unwrap().to_vec()
                });
                (base.delta(), b.collect())
            },
            |lines, rng| {
                let base = Receiver::open(security, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                let ac = (0..).zip(sizes).map(|(unit, &n)| {
                    let (a, c) =
                        receive::<B>(&base, &SESSION, UnitId(unit), code, n, lines.peer().unwrap(), rng).unwrap();
                    (a.to_vec(), c.to_vec())
                });
                ac.collect()
            },
        )
    }

    const SIZES: [usize; 10] = [0, 1, 2, 3, 31, 512, 513, 4095, 4097, 16_385];

    #[test]
    fn outputs_are_the_ideal_ones_at_every_size() {
        for security in [Security::SemiHonest, Security::Malicious] {
            for code in SETS {
                let ((delta, b), ac) = run::<Block>(security, code, &SIZES);
                for ((b, (a, c)), n) in b.iter().zip(&ac).zip(SIZES) {
                    assert_eq!([a.len(), b.len(), c.len()], [n; 3]);
                    assert_eq!(*c, ideal::vole(delta, a, b), "{} {security:?} {n}", code.id);
                }
                let all: Vec<Block> = ac.into_iter().flat_map(|(a, c)| [a, c].concat()).chain(b.concat()).collect();
                assert!(ideal::all_differ(&all));
            }
        }
    }

    type Sent = Result<(Block, Vec<Block>)>;
    type Received = Result<(Vec<Block>, Vec<Block>)>;

    /// Both sides of one unit of 600 outputs, of which one is hostile in its message number `at`.
    fn unit(security: Security, hostile_sender: bool, attack: Attack, at: usize) -> (Sent, Received) {
        let sender = |lines: &mut Lines, rng: &mut SessionRng| {
            let base = Sender::open(security, FOLD, &SESSION, lines.peer()?, rng)?;
            let b = send::<Block>(&base, &SESSION, UnitId(0), &SETS[0], 600, lines.peer()?, rng)?;
            Ok((base.delta(), b.to_vec()))
        };
        let receiver = |lines: &mut Lines, rng: &mut SessionRng| {
            let base = Receiver::open(security, FOLD, &SESSION, lines.peer()?, rng)?;
            let (a, c) = receive::<Block>(&base, &SESSION, UnitId(0), &SETS[0], 600, lines.peer()?, rng)?;
            Ok((a.to_vec(), c.to_vec()))
        };
        if hostile_sender {
            let (receiver, sender) = two_with(receiver, sender, |ch| Box::new(Hostile::new(ch, attack, at)));
            (sender, receiver)
        } else {
            two_with(sender, receiver, |ch| Box::new(Hostile::new(ch, attack, at)))
        }
    }

    /// The sender's messages: base OTs, the challenge to the OTs, the trees, the hash. The receiver's: its public key, the small
    /// trees, the corrections, the answer to the challenge, and χ and d.
    #[test]
    fn a_malicious_peer_is_noticed_in_every_message() {
        for (sender, at) in (1..4).map(|at| (true, at)).chain((1..5).map(|at| (false, at))) {
            for attack in Attack::ALL {
                let case = format!("sender {sender}, message {at}, {attack:?}");
                match unit(Security::Malicious, sender, attack, at) {
                    (Ok((delta, b)), Ok((a, c))) => {
                        // Whatever was not noticed did no harm: another challenge, a correction where Δ has only zeros.
                        assert!(matches!(attack, Attack::Flip(_)), "{case}");
                        assert_eq!(c, ideal::vole(delta, &a, &b), "{case}");
                    }
                    (Err(error), _) if !sender => assert_eq!(error.fault(), Fault::Peer, "{case}"),
                    (_, Err(error)) => {
                        // The receiver compares: what it changed itself in the last message comes back to it.
                        assert!(error.fault() == Fault::Peer || sender && at == 1, "{case}: {error}");
                    }
                    (Err(error), Ok(_)) => panic!("{case}: {error}"),
                }
            }
        }
    }

    /// The price of a bit: the sum of one side's leaves, spoiled, is noticed by a receiver that opens this side, so by one in two.
    /// The last block of a tree is always used.
    #[test]
    fn a_guessed_bit_is_noticed_half_of_the_time() {
        let depth = Plan::new(&SETS[0], 600, Security::Malicious).unwrap().noise.depth as usize;
        let passes = |tree: usize, block: usize| {
            let bit = 128 * (tree * pprf::message(depth) + block);
            match unit(Security::Malicious, true, Attack::Flip(bit), 2) {
                (Ok((delta, b)), Ok((a, c))) => {
                    assert_eq!(c, ideal::vole(delta, &a, &b), "tree {tree}");
                    true
                }
                (_, Err(error)) => {
                    assert_eq!(error.fault(), Fault::Peer, "tree {tree}: {error}");
                    false
                }
                (Err(error), Ok(_)) => panic!("tree {tree}: {error}"),
            }
        };
        let passed = |block: usize| (0..32).filter(|&tree| passes(tree, block)).count();
        let (left, right, total) = (passed(depth - 1), passed(depth), passed(depth + 1));
        // The randomness is the same each time: who opens the left side does not open the right one.
        assert_eq!(left + right, 32);
        assert!((6..=26).contains(&left), "{left} of 32");
        assert_eq!(total, 0);
    }

    /// Units under way at once are one guess and not several: after one has failed its check, the other fails too, though its trees are right.
    #[test]
    fn after_a_check_that_failed_no_unit_goes_on() {
        let (received, _) = two_with(
            |lines, rng| {
                let base = Receiver::open(Security::Malicious, FOLD, &SESSION, lines.peer()?, rng)?;
                let mut failed = |unit| {
                    let ch = lines.peer()?;
                    Ok::<_, Error>(receive::<Block>(&base, &SESSION, UnitId(unit), &SETS[0], 600, ch, rng).err())
                };
                Ok::<_, Error>([failed(0)?, failed(1)?])
            },
            |lines, rng| {
                let base = Sender::open(Security::Malicious, FOLD, &SESSION, lines.peer()?, rng)?;
                send::<Block>(&base, &SESSION, UnitId(0), &SETS[0], 600, lines.peer()?, rng)?;
                send::<Block>(&base, &SESSION, UnitId(1), &SETS[0], 600, lines.peer()?, rng)
            },
            // The sender's hash in the first unit, behind its part of the opening, its challenge and its trees.
            |channel| Box::new(Hostile::new(channel, Attack::Flip(0), 3)),
        );
        let faults = received.unwrap().map(|error| error.map(|error| error.fault()));
        assert_eq!(faults, [Some(Fault::Peer); 2]);
    }

    /// What semi-honest security means: lengths are checked, and a wrong tree is not seen.
    #[test]
    fn semi_honest_peers_are_only_measured() {
        for attack in Attack::ALL {
            match (unit(Security::SemiHonest, true, attack, 1), attack) {
                ((Ok((delta, b)), Ok((a, c))), Attack::Flip(bit)) => {
                    assert!(bit != usize::MAX || c != ideal::vole(delta, &a, &b), "the last bit is always used");
                }
                ((_, Err(error)), _) => assert_eq!(error.fault(), Fault::Peer, "{attack:?}"),
                ((_, Ok(_)), _) => panic!("{attack:?} was not noticed"),
            }
        }
    }

    /// What a party keeps of its vectors after their unit would show its tags to whoever reads its memory later. With and without a code.
    #[test]
    fn what_is_secret_is_wiped() {
        fn wiped_when_dropped(_: &impl zeroize::ZeroizeOnDrop) {}
        two(
            |lines, rng| {
                let base = Sender::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                for (unit, n) in (0..).zip([1, 600]) {
                    let b =
                        send::<u64>(&base, &SESSION, UnitId(unit), &SETS[0], n, lines.peer().unwrap(), rng).unwrap();
                    wiped_when_dropped(&b);
                }
            },
            |lines, rng| {
                let base = Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                for (unit, n) in (0..).zip([1, 600]) {
                    let ch = lines.peer().unwrap();
                    let (a, c) = receive::<u64>(&base, &SESSION, UnitId(unit), &SETS[0], n, ch, rng).unwrap();
                    wiped_when_dropped(&a);
                    wiped_when_dropped(&c);
                }
            },
        );
    }

    /// One base, and a line and a thread for each unit.
    #[test]
    fn units_run_at_once() {
        const UNITS: [u32; 3] = [4, 0, 7];
        let (sent, got) = two(
            |lines, rng| {
                let base = Sender::open(Security::Malicious, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                let b: Vec<Vec<Block>> = std::thread::scope(|scope| {
                    let unit = |unit| {
                        let (mut lines, mut rng) =
                            (lines.line(&format!("{unit}")).unwrap(), rng.unit(UnitId(unit)).unwrap());
                        let base = &base;
                        scope.spawn(move || {
                            send::<Block>(base, &SESSION, UnitId(unit), &SETS[0], 600, lines.peer().unwrap(), &mut rng)
                                .unwrap()
                        })
                    };
                    UNITS.map(unit).into_iter().map(|thread| thread.join().unwrap().to_vec()).collect()
                });
                (base.delta(), b)
            },
            |lines, rng| {
                let base = Receiver::open(Security::Malicious, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                std::thread::scope(|scope| {
                    let unit = |unit| {
                        let (mut lines, mut rng) =
                            (lines.line(&format!("{unit}")).unwrap(), rng.unit(UnitId(unit)).unwrap());
                        let base = &base;
                        scope.spawn(move || {
                            receive::<Block>(
                                base,
                                &SESSION,
                                UnitId(unit),
                                &SETS[0],
                                600,
                                lines.peer().unwrap(),
                                &mut rng,
                            )
                            .unwrap()
                        })
                    };
                    UNITS.map(unit).into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
                })
            },
        );
        for (b, (a, c)) in sent.1.iter().zip(&got) {
            assert_eq!(**c, ideal::vole(sent.0, a, b));
        }
        assert!(ideal::all_differ(&sent.1.concat()));
    }

    /// With the same randomness, and so the same noise, another run's outputs are others: its matrix is. Parties that do not
    /// mean the same run do not understand each other.
    #[test]
    fn the_matrix_is_that_of_the_run() {
        let equal = |x: &[Block], y: &[Block]| x.iter().zip(y).filter(|(x, y)| x == y).count();
        let run = |ours: [u8; 32], theirs: [u8; 32]| {
            let ((delta, b), (a, c)) = two(
                |lines, rng| {
                    let base = Sender::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                    let b = send::<Block>(&base, &ours, UnitId(0), &SETS[0], 600, lines.peer().unwrap(), rng).unwrap();
                    (base.delta(), b)
                },
                |lines, rng| {
                    let base =
                        Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                    receive::<Block>(&base, &theirs, UnitId(0), &SETS[0], 600, lines.peer().unwrap(), rng).unwrap()
                },
            );
            let right = equal(&c, &ideal::vole(delta, &a, &b));
            (delta, a, b, right)
        };
        let (one, other, mixed) = (run(SESSION, SESSION), run([6; 32], [6; 32]), run(SESSION, [6; 32]));
        assert_eq!(one.0, other.0, "the randomness is the same");
        assert_eq!([equal(&one.1, &other.1), equal(&one.2, &other.2)], [0; 2]);
        assert_eq!([one.3, other.3, mixed.3], [600, 600, 0]);
    }

    /// A wire format: the same randomness gives the same messages, and the same outputs.
    #[test]
    fn transcripts_are_pinned() {
        let wants = [(Security::SemiHonest, "82202317e09a1777"), (Security::Malicious, "61caf72ce245a9e0")];
        let pinned = wants.map(|(security, _)| {
            let transcript = Transcript::default();
            let (b, (a, c)) = two_with(
                |lines, rng| {
                    let base = Sender::open(security, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                    send::<Block>(&base, &SESSION, UnitId(9), &SETS[0], 600, lines.peer().unwrap(), rng).unwrap()
                },
                |lines, rng| {
                    let base = Receiver::open(security, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap();
                    receive::<Block>(&base, &SESSION, UnitId(9), &SETS[0], 600, lines.peer().unwrap(), rng).unwrap()
                },
                |channel| Box::new(Recorder::new(channel, transcript.clone())),
            );
            let mut hash = blake3::Hasher::new();
            hash.update(&transcript.lock().unwrap()).update(&pack(&[b.as_slice(), &a, &c].concat()));
            (security, hash.finalize().to_hex()[..16].to_owned())
        });
        assert_eq!(pinned.each_ref().map(|(security, hash)| (*security, hash.as_str())), wants);
    }

    #[test]
    fn outputs_over_the_small_field_too() {
        for security in [Security::SemiHonest, Security::Malicious] {
            let ((delta, b), ac) = run::<u64>(security, &SETS[0], &SIZES);
            for ((b, (a, c)), n) in b.iter().zip(&ac).zip(SIZES) {
                assert_eq!([a.len(), b.len(), c.len()], [n; 3]);
                assert_eq!(*c, ideal::vole64(delta, a, b), "{security:?} {n}");
            }
            let all: Vec<Block> = ac.iter().flat_map(|(a, _)| a).map(|&a| Block(u128::from(a))).collect();
            assert!(ideal::all_differ(&all));
        }
    }
}
