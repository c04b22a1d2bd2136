//! The two streams: results on standard output, everything else on standard error. A reader that has gone away is no
//! reason to panic.

use crate::failure::{Failure, Outcome};
use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::{Display, Path};

/// Writes a result.
pub fn result(text: &str) -> Outcome {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::file("cannot write to", "standard output")(e)),
        _ => Ok(()),
    }
}

/// A path as people type it: in the folder where they are, a name alone.
pub fn shown(path: &Path) -> Display<'_> {
    path.strip_prefix(".").unwrap_or(path).display()
}

/// Writes a line to standard error; if that is closed, nobody wants to know.
pub fn tell(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
