//! Speed of correlations: each party in a thread of its own, over a pipe in memory, after the base was opened.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use vesica_block::Block;
use vesica_block::prg::Prg;
use vesica_ot::softspoken::{FOLD, Receiver, Sender};
use vesica_ot::{Security, base, code, cot, folded, vole};
use vesica_params::{Level, lpn};
use vesica_testkit::two;
use vesica_types::UnitId;

/// Names the run.
const SESSION: [u8; 32] = [5; 32];

/// A set-up base, both sides.
fn open(security: Security, fold: usize) -> (Sender, Receiver) {
    two(
        |lines, rng| Sender::open(security, fold, &SESSION, lines.peer().unwrap(), rng).unwrap(),
        |lines, rng| Receiver::open(security, fold, &SESSION, lines.peer().unwrap(), rng).unwrap(),
    )
}

fn transfers(c: &mut Criterion) {
    let mut group = c.benchmark_group("ot");
    group.sample_size(10);
    group.bench_function("base/128", |b| {
        b.iter(|| {
            two(
                |lines, rng| base::send(128, &SESSION, lines.peer().unwrap(), rng).unwrap(),
                |lines, rng| {
                    base::receive(128, |_| subtle::Choice::from(1), &SESSION, lines.peer().unwrap(), rng).unwrap()
                },
            )
        });
    });
    // All that `ot` and `kkrt` set up for a job: words of 192 bits.
    group.bench_function("open/folded 192", |b| {
        b.iter(|| {
            two(
                |lines, rng| {
                    folded::Sender::open(192, Security::SemiHonest, &SESSION, lines.peer().unwrap(), rng).unwrap()
                },
                |lines, rng| {
                    folded::Receiver::open(192, Security::SemiHonest, &SESSION, lines.peer().unwrap(), rng).unwrap()
                },
            )
        });
    });
    for (name, fold) in [("iknp", 1), ("softspoken4", 4), ("softspoken8", 8)] {
        for security in [Security::SemiHonest, Security::Malicious] {
            group.bench_function(format!("{name}/2^20/{security:?}"), |b| {
                b.iter_batched_ref(
                    || open(security, fold),
                    |(sender, receiver)| {
                        two(
                            |lines, rng| black_box(sender.random(0, 1 << 20, lines.peer().unwrap(), rng).unwrap()),
                            |lines, _| black_box(receiver.random(0, 1 << 20, lines.peer().unwrap()).unwrap()),
                        )
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

fn silent(c: &mut Criterion) {
    let mut group = c.benchmark_group("vole");
    group.sample_size(10);
    for code in lpn::SETS {
        for security in [Security::SemiHonest, Security::Malicious] {
            for n in [1 << 16, 350_000, 1 << 20] {
                group.bench_function(format!("{}/128/{n}/{security:?}", code.id), |b| {
                    b.iter_batched_ref(
                        || open(security, FOLD),
                        |(sender, receiver)| {
                            let unit = UnitId(0);
                            two(
                                |lines, rng| {
                                    black_box(
                                        vole::send::<Block>(
                                            sender,
                                            &SESSION,
                                            unit,
                                            code,
                                            n,
                                            lines.peer().unwrap(),
                                            rng,
                                        )
                                        .unwrap(),
                                    )
                                },
                                |lines, rng| {
                                    black_box(
                                        vole::receive::<Block>(
                                            receiver,
                                            &SESSION,
                                            unit,
                                            code,
                                            n,
                                            lines.peer().unwrap(),
                                            rng,
                                        )
                                        .unwrap(),
                                    )
                                },
                            )
                        },
                        BatchSize::PerIteration,
                    );
                });
            }
        }
        group.bench_function(format!("{}/encode pairs/2^20", code.id), |b| {
            let n = 1 << 20;
            let mut noisy = vec![[Block::ZERO; 2]; code.noise(n, Level::STANDARD).len()];
            Prg::new(Block(1)).fill(noisy.as_flattened_mut());
            let mut out = vec![[Block::ZERO; 2]; n];
            b.iter(|| {
                let mut place = out.iter_mut();
                code::Matrix::new(code, &SESSION, UnitId(0)).encode::<Block, 2>(&mut noisy, n, |pairs| {
                    place.by_ref().zip(pairs).for_each(|(place, pair)| *place = *pair);
                });
            });
        });
    }
}

fn bits(c: &mut Criterion) {
    let mut group = c.benchmark_group("cot");
    group.sample_size(10);
    group.bench_function("2^20", |b| {
        b.iter_batched_ref(
            || {
                two(
                    |lines, rng| {
                        Sender::open_odd(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap()
                    },
                    |lines, rng| {
                        Receiver::open(Security::SemiHonest, FOLD, &SESSION, lines.peer().unwrap(), rng).unwrap()
                    },
                )
            },
            |(sender, receiver)| {
                let unit = UnitId(0);
                two(
                    |lines, rng| {
                        let ch = lines.peer().unwrap();
                        let each = |start, keys: [&[Block]; 2]| _ = black_box((start, keys));
                        cot::send(sender, &SESSION, unit, 1 << 20, ch, rng, each).unwrap();
                    },
                    |lines, _| {
                        let ch = lines.peer().unwrap();
                        let each = |start, choices: &[u64], keys: &[Block]| _ = black_box((start, choices, keys));
                        cot::receive(receiver, &SESSION, unit, 1 << 20, ch, each).unwrap();
                    },
                )
            },
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, transfers, silent, bits);
criterion_main!(benches);
