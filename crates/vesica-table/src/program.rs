//! A table that a program prints.

use crate::origin::Program;
use crate::source::spool;
use crate::{Error, Origin};
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;
use vesica_program::{Running, how};

/// How often a program is looked at that has closed its standard output and is still there.
const LOOK: Duration = Duration::from_millis(20);

/// What `program` prints, in a file in `temp` that has no name. It is started as [`Running::start`] has it. If `stop` says so, it is killed.
pub(crate) fn printed(program: &Program, temp: Option<&Path>, stop: &dyn Fn() -> bool) -> Result<File, Error> {
    let name = Origin::Command(program.clone()).name();
    let failed = |source| Error::Program { program: program.name().to_owned(), source };
    let mut running = Running::start(&program.args, program.folder.as_deref()).map_err(failed)?;
    let mut stdout = running.stdout.take().ok_or_else(|| Error::Bug("a program without standard output".into()))?;
    let file = spool(&mut stdout, &name, temp, stop)?;
    drop(stdout);
    let status = loop {
        match running.ended().map_err(failed)? {
            Some(status) => break status,
            None if stop() => return Err(Error::Stopped { path: name }),
            None => thread::sleep(LOOK),
        }
    };
    // Ctrl-C in a terminal is the program's too, and it may end of that before anybody has looked.
    if stop() {
        return Err(Error::Stopped { path: name });
    }
    if status.success() {
        return Ok(file);
    }
    running.said.wait(|| true);
    Err(Error::Failed { program: program.name().to_owned(), how: how(status), said: running.said.in_words() })
}
