//! A table that a program prints.

use crate::origin::Program;
use crate::source::spool;
use crate::{Error, Origin};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of its standard error that are kept: the last ones.
const KEPT: usize = 2 << 10;

/// How often a program is looked at that has closed its standard output and is still there.
const LOOK: Duration = Duration::from_millis(20);

/// How long is waited for the end of what a program that is over has said. Another one may hold its standard error open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What `program` prints, in a file in `temp` that has no name. Nothing stands in its standard input. If `stop` says so, it is
/// killed.
pub(crate) fn printed(program: &Program, temp: Option<&Path>, stop: &dyn Fn() -> bool) -> Result<File, Error> {
    let name = Origin::Command(program.clone()).name();
    let failed = |source| Error::Program { program: program.name().to_owned(), source };
    let mut command = match (&program.folder, Path::new(program.name())) {
        // A path of several parts starts at the folder that the program works in; a name is looked up as always.
        (Some(folder), path) if path.components().count() > 1 => Command::new(folder.join(path)),
        (_, path) => Command::new(path),
    };
    command.args(program.args.iter().skip(1)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program.folder.iter().for_each(|folder| _ = command.current_dir(folder));
    let mut running = Running(command.spawn().map_err(failed)?);
    let words = running.0.stderr.take().map(Words::of);
    let mut stdout = running.0.stdout.take().ok_or_else(|| Error::Bug("a program without standard output".into()))?;
    let file = spool(&mut stdout, &name, temp, stop)?;
    drop(stdout);
    let status = loop {
        match running.0.try_wait().map_err(failed)? {
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

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "failed".to_owned(),
    }
}

fn told(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let text = text.trim();
    if text.is_empty() { " and said nothing on its standard error".to_owned() } else { format!(": {text}") }
}

/// A program that is killed if it is still there when nobody wants it any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
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
