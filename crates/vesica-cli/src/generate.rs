//! `vesica gen`: tables with a known intersection.

use crate::failure::Outcome;
use crate::flags::Gen;
use crate::{interrupt, output, progress};
use vesica_job::sample::Sample;
use vesica_secretflow::Benchmark;

pub fn run(args: Gen) -> Outcome {
    let screen = progress::begin(progress::How::Shown);
    interrupt::stops(screen.control())?;
    let made = match (args.rows, args.overlap) {
        (Some(rows), Some(overlap)) => {
            let (columns, keys, format, seed) = (args.columns, args.keys, args.format, args.seed);
            let sample = Sample { rows: rows.0, overlap, columns, keys, format, seed };
            let made = sample.write(&args.out, screen.control())?;
            made.tables.into_iter().chain([made.expected]).collect()
        }
        _ => {
            let [n1, n3] = match args.sizes.as_slice() {
                [] => [100, 10],
                [n1] => [*n1, 10],
                [n1, n3, ..] => [*n1, *n3],
            };
            Benchmark { n1, n3, seed: args.seed }.write(&args.out, screen.control())?
        }
    };
    drop(screen);
    output::result(&made.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
}
