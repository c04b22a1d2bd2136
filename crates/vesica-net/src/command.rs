//! A command of this machine whose standard input and output are the connection to a peer: `ssh -W`, a VPN's client, a tunnel of one's own.

use crate::lock::lock;
use crate::text::printable;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is kept of a command's standard error: its last lines, and of each so many characters.
const LINES: usize = 4;
const CHARACTERS: usize = 200;

/// The most bytes of one line that are held while it has no end.
const MOST_LINE: usize = 4096;

/// How long a command that has closed its output is given to end and to say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a command is given to end whose input has ended, and then, how long to heed a signal.
const GRACE: Duration = Duration::from_secs(1);

/// A command that runs, until this is dropped: then its input ends, and if it goes on all the same, it is ended.
pub(crate) struct Errand {
    name: String,
    child: Mutex<Child>,
    said: Arc<Mutex<Said>>,
}

/// The last lines of a standard error, and whether it has ended.
#[derive(Default)]
pub(crate) struct Said {
    lines: VecDeque<String>,
    over: bool,
}

impl Said {
    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The lines; none if nothing was said.
    pub fn in_words(&self) -> Option<String> {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| lines.join(" / "))
    }
}

impl Errand {
    /// Starts the command `words`, without a shell, and gives the socket that is its standard input and output.
    ///
    /// # Errors
    /// If the system does not start it.
    pub fn start(words: &[String]) -> io::Result<(TcpStream, Self)> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (here, there) = UnixStream::pair()?;
        let input = Stdio::from(OwnedFd::from(there.try_clone()?));
        let mut command = Command::new(program);
        vesica_program::OURS.iter().for_each(|name| _ = command.env_remove(name));
        command
            .args(arguments)
            .stdin(input)
            .stdout(Stdio::from(OwnedFd::from(there)))
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal is for this side, which ends in order and needs the connection for that.
            .process_group(0);
        let mut child = command.spawn()?;
        let from = child.stderr.take();
        // From here on the command is ended if this does not come to its end.
        let errand = Self { name: printable(program, CHARACTERS), child: Mutex::new(child), said: Arc::default() };
        let here = TcpStream::from(OwnedFd::from(here));
        if let Some(mut from) = from {
            let said = errand.said.clone();
            std::thread::Builder::new().name("command".into()).spawn(move || listen(&mut from, &said, true))?;
        }
        Ok((here, errand))
    }

    fn status(&self) -> Option<ExitStatus> {
        lock(&self.child).try_wait().ok().flatten()
    }

    /// Whether it ends within `limit`, and what it said then.
    pub fn ends_within(&self, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        while self.status().is_none() {
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(self.words())
    }

    /// How it ended, if it has or does so at once, and the last lines that it said.
    pub fn words(&self) -> String {
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until && (self.status().is_none() || !lock(&self.said).is_over()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = match self.status() {
            Some(status) => format!("{self} ended ({status})"),
            None => format!("{self} runs"),
        };
        match lock(&self.said).in_words() {
            None => format!("{ended} and said nothing"),
            Some(words) => format!("{ended} and said: {words}"),
        }
    }
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command \"{}\"", self.name)
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        let ended = |limit: Duration| {
            let until = Instant::now() + limit;
            while self.status().is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.status().is_some()
        };
        if ended(GRACE) {
            return;
        }
        // The group is the command's own, with whatever it has started.
        let group = i32::try_from(lock(&self.child).id()).ok().map(Pid::from_raw);
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let _ = group.map(|group| killpg(group, signal));
            if ended(GRACE) {
                return;
            }
        }
    }
}

/// Keeps the last lines of `from` until it ends. They go to the log as they come, if they are for it.
pub(crate) fn listen(from: &mut impl Read, said: &Mutex<Said>, logged: bool) {
    let mut line = Vec::new();
    let mut chunk = [0; 1024];
    let keep = |line: &mut Vec<u8>| {
        let text = printable(&String::from_utf8_lossy(line), CHARACTERS);
        line.clear();
        if !text.is_empty() {
            if logged {
                tracing::debug!("a command says: {text}");
            }
            let mut said = lock(said);
            said.lines.push_back(text);
            if said.lines.len() > LINES {
                said.lines.pop_front();
            }
        }
    };
    loop {
        let n = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in chunk.get(..n).unwrap_or_default() {
            match byte {
                b'\n' => keep(&mut line),
                // Of a line without end the beginning is enough.
                _ if line.len() >= MOST_LINE => {}
                byte => line.push(*byte),
            }
        }
    }
    keep(&mut line);
    lock(said).over = true;
}
