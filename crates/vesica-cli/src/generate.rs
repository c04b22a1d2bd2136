//! `vesica gen`: two tables with a known intersection.

use crate::failure::Outcome;
use crate::flags::Gen;
use crate::{interrupt, output, progress};
use vesica_job::sample::Sample;

pub fn run(args: Gen) -> Outcome {
    let sample = Sample {
        rows: args.rows.0,
        overlap: args.overlap,
        columns: args.columns,
        keys: args.keys,
        format: args.format,
        seed: args.seed,
    };
    let screen = progress::begin(progress::How::Shown);
    interrupt::stops(screen.control())?;
    let made = sample.write(&args.out, screen.control())?;
    drop(screen);
    let lines = [&made.alice, &made.bob, &made.expected].map(|path| format!("{}\n", path.display()));
    output::result(&lines.concat())
}
