//! A table that a program prints.

use crate::origin::Program;
use crate::source::spool;
use crate::{Error, Origin};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use vesica_program::{Running, how};

/// Bytes of its standard error that are kept: the last ones.
const KEPT: usize = 2 << 10;

/// How often a program is looked at that has closed its standard output and is still there.
const LOOK: Duration = Duration::from_millis(20);

/// How long is waited for the end of what a program that is over has said. Another one may hold its standard error open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What `program` prints, in a file in `temp` that has no name. It is started as [`Running::start`] has it. If `stop` says so, it is killed.
pub(crate) fn printed(program: &Program, temp: Option<&Path>, stop: &dyn Fn() -> bool) -> Result<File, Error> {
    let name = Origin::Command(program.clone()).name();
    let failed = |source| Error::Program { program: program.name().to_owned(), source };
    let mut running = Running::start(&program.args, program.folder.as_deref()).map_err(failed)?;
    let words = running.stderr.take().map(Words::of);
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
    if status.success() {
        return Ok(file);
    }
    let said = words.map(Words::end).unwrap_or_default();
    Err(Error::Failed { program: program.name().to_owned(), how: how(status), said: told(&said) })
}

fn told(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let text = text.trim();
    if text.is_empty() { " and said nothing on its standard error".to_owned() } else { format!(": {text}") }
}

/// The end of what a program says.
struct Words {
    end: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Words {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let end = Arc::new(Mutex::new(Vec::new()));
        let kept = end.clone();
        let reader = thread::spawn(move || {
            let mut buf = [0; KEPT];
            while let Ok(n) = from.read(&mut buf)
                && n > 0
            {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buf[..n]);
                let beyond = kept.len().saturating_sub(KEPT);
                kept.drain(..beyond);
            }
        });
        Self { end, reader }
    }

    fn end(self) -> Vec<u8> {
        let until = Instant::now() + LAST_WORDS;
        while !self.reader.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        std::mem::take(&mut self.end.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
