//! `vesica check`: what would fail, before it does.

use crate::failure::{Failure, Outcome};
use crate::flags::Check;
use crate::source::Meant;
use crate::{interrupt, output, progress};
use vesica_job::JobError;

pub fn run(args: Check) -> Outcome {
    let meant = args.source.meant(|note| output::tell(&note))?;
    if args.peer && !matches!(meant, Meant::Job(_)) {
        return Err(Failure::usage("--peer is for jobs; `vesica fetch` meets a service"));
    }
    let screen = progress::begin(progress::How::Shown);
    let control = screen.control();
    interrupt::stops(control)?;
    let checked = match meant {
        Meant::Job(plan) => vesica_job::check(&plan, vesica_job::Io::open(&plan, control)?, control, args.peer)?,
        Meant::Server(plan) => vesica_service::check_server(&plan, control)?,
        Meant::Client(plan) => vesica_service::check_client(&plan, control)?,
    };
    let over = control.check();
    // Bars do not write over the result.
    drop(screen);
    output::result(&checked.in_words())?;
    // What an interrupted check did not wait for may fail.
    Ok(over.map_err(JobError::from)?)
}
