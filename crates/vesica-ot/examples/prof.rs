use vesica_block::{Block, gf128, hash::Permutation, prg::Prg, transpose::transpose};
use vesica_ot::{
    Security, base, code, pprf,
    softspoken::{Receiver, Sender},
    vole,
};
use vesica_params::{Level, lpn};
use vesica_testkit::two;
use vesica_types::UnitId;
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()
        / 1e6
}
fn time<T>(name: &str, reps: usize, mut f: impl FnMut() -> T) {
    let mut v: Vec<f64> = (0..reps)
        .map(|_| {
            let t = cpu();
            std::hint::black_box(f());
            cpu() - t
        })
        .collect();
    v.sort_by(f64::total_cmp);
    println!("{name:40} min {:8.2} median {:8.2} ms cpu", v[0], v[reps / 2]);
}
fn main() {
    let n = 1 << 20;
    let mut big = vec![Block::ZERO; 1 << 21];
    time("prg fill 2^21 blocks", 5, || Prg::new(Block(1)).fill(&mut big));
    time("ccr 2^21 in 4k chunks", 5, || {
        let p = Permutation::new(Block(1));
        for c in big.chunks_mut(4096) {
            p.ccr(c)
        }
    });
    let other = big.clone();
    time("mul_each 2^21", 5, || {
        for (a, b) in big.chunks_mut(512).zip(other.chunks(512)) {
            gf128::mul_each(a, b)
        }
    });
    let mut out = vec![Block::ZERO; n];
    time("transpose 2^20", 5, || transpose(&other[..n], &mut out));
    time("tccr 2^20", 5, || Permutation::new(Block(1)).tccr(Block(0), &mut out));
    for set in lpn::SETS {
        let noise = set.noise(n, Level::STANDARD);
        println!("{} {noise:?}", set.id);
        let mut pairs = code::Symbols::<2>::zero(noise.len());
        Prg::new(Block(1)).fill(pairs.as_flattened_mut());
        let (mut a, mut c) = (vec![Block::ZERO; n], vec![Block::ZERO; n]);
        time("convolute pairs", 3, || code::encode::<Block, 2>(set, &mut pairs, 0, |_| {}));
        time("encode pairs", 3, || {
            let mut i = 0;
            code::encode::<Block, 2>(set, &mut pairs, n, |[x, y]| {
                a[i] = x;
                c[i] = y;
                i += 1
            })
        });
        let mut single = code::Symbols::<1>::zero(noise.len());
        time("convolute single", 3, || code::encode::<Block, 1>(set, &mut single, 0, |_| {}));
        time("encode single", 3, || {
            let mut i = 0;
            code::encode::<Block, 1>(set, &mut single, n, |[x]| {
                a[i] = x;
                i += 1
            })
        });
        let h = pprf::Hashes { nodes: Permutation::new(Block(1)), keys: Permutation::new(Block(2)) };
        let mut w = vec![Block::ZERO; noise.trees * noise.depth as usize];
        Prg::new(Block(1)).fill(&mut w);
        let mut wire = Vec::new();
        time("plant", 3, || {
            wire.clear();
            pprf::plant(&h, Block(3), &w, noise.depth as usize, &mut wire, |i, l| {
                single[i << noise.depth..][..l.len()].as_flattened_mut().copy_from_slice(l);
                Block(0)
            })
        });
        time("puncture", 3, || {
            pprf::puncture(
                &h,
                &w,
                |j| j % 3 == 1,
                noise.depth as usize,
                &wire,
                |i, l, _, _| pairs[i << noise.depth..][..l.len()].iter_mut().zip(l).for_each(|(p, l)| p[1] = *l),
            )
        });
    }
    two(
        |l, r| time("base send", 1, || base::send(128, l.peer().unwrap(), r).unwrap()),
        |l, r| {
            time("base receive", 1, || base::receive(&[subtle::Choice::from(1); 128], l.peer().unwrap(), r).unwrap())
        },
    );
    for security in [Security::SemiHonest, Security::Malicious] {
        for fold in [1, 4, 8] {
            two(
                |l, r| {
                    let s = Sender::open(security, fold, l.peer().unwrap(), r).unwrap();
                    let mut id = 0;
                    time(&format!("sender {fold} {security:?} 2^20"), 3, || {
                        id += 1;
                        s.extend(id, n, l.peer().unwrap(), r).unwrap()
                    })
                },
                |l, r| {
                    let s = Receiver::open(security, fold, l.peer().unwrap(), r).unwrap();
                    let mut id = 0;
                    time(&format!("receiver {fold} {security:?} 2^20"), 3, || {
                        id += 1;
                        s.extend(id, n, l.peer().unwrap()).unwrap()
                    })
                },
            );
        }
    }
    for security in [Security::SemiHonest, Security::Malicious] {
        for n in [350_000, 1 << 20] {
            two(
                |l, r| {
                    let s = Sender::open(security, 4, l.peer().unwrap(), r).unwrap();
                    let mut id = 0;
                    time(&format!("vole send {security:?} {n}"), 3, || {
                        id += 1;
                        vole::send::<Block>(&s, UnitId(id), &lpn::SETS[0], n, l.peer().unwrap(), r).unwrap()
                    })
                },
                |l, r| {
                    let s = Receiver::open(security, 4, l.peer().unwrap(), r).unwrap();
                    let mut id = 0;
                    time(&format!("vole receive {security:?} {n}"), 3, || {
                        id += 1;
                        vole::receive::<Block>(&s, UnitId(id), &lpn::SETS[0], n, l.peer().unwrap(), r).unwrap()
                    })
                },
            );
        }
    }
}
