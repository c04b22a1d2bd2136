//! `vesica check`: what would fail, before it does.

use crate::failure::Outcome;
use crate::flags::Check;
use crate::{interrupt, output, progress};

pub fn run(args: Check) -> Outcome {
    let plan = vesica_spec::plan(&args.source.spec(|note| output::tell(&note))?)?;
    let screen = progress::begin(progress::How::Shown);
    interrupt::stops(screen.control())?;
    let checked = vesica_job::check(&plan, screen.control(), args.peer)?;
    drop(screen);
    output::result(&checked.in_words())
}
