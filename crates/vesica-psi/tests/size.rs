//! Nothing is lost at any size: RR22's low-communication mode elsewhere once lost six items of a thousand (secretflow/psi,
//! issue 370).

use crate::job;

use job::Job;
use vesica_ot::Security;
use vesica_psi::ideal;

/// RR22 in both modes, KKRT, the function from transfers, Mini-PSI and PCG-PSI find exactly what both sides have, in units as large as a
/// job's.
fn loses_nothing(rows: usize) {
    let job = Job::new(rows, rows.div_ceil(1 << 18) as u32, 1000);
    let want: Vec<Vec<u32>> = job.xs.iter().zip(&job.ys).map(|(x, y)| ideal::intersection(&x.keys, &y.keys)).collect();
    let check = |name: &str, found: Vec<Vec<u32>>| {
        for (unit, (mut found, want)) in found.into_iter().zip(&want).enumerate() {
            found.sort_unstable();
            assert!(found == *want, "{name}, {rows} rows, unit {unit}: {} instead of {}", found.len(), want.len());
        }
    };
    check("fast", job.run_fast());
    match job.small_field() {
        true => check("low-comm", job.run(job.low_comm::<u64>())),
        false => check("low-comm", job.run(job.low_comm::<vesica_block::Block>())),
    }
    check("kkrt", job.run(job.kkrt()));
    check("ot", job.run(job.ot::<2, 3, 12>(Security::SemiHonest)));
    check("ot, malicious", job.run(job.ot::<4, 6, 24>(Security::Malicious)));
    check("mini-psi", job.run(job.mini()));
    check("bc22", job.run(job.bc22(Security::SemiHonest)));
    check("bc22, malicious", job.run(job.bc22(Security::Malicious)));
}

#[test]
fn nothing_is_lost_of_thousands() {
    loses_nothing(5_000);
}

#[test]
fn nothing_is_lost_of_half_a_million() {
    loses_nothing(500_000);
}

/// Beyond 2^24 keys the base field is the large one.
#[test]
#[ignore = "takes five minutes of CPU and 3 GB"]
fn nothing_is_lost_of_fifty_millions() {
    loses_nothing(50_000_000);
}

/// What totals are compared with: the protocol that names the common keys, a thread a side.
#[test]
#[ignore = "takes half a minute of CPU without all optimisation"]
fn a_million_keys_by_the_fast_mode() {
    assert_eq!(Job::new(1 << 20, 8, 2652).run_fast().concat().len(), 1 << 19);
}
