//! A command of this machine whose standard input and output are the connection to a peer: `ssh -W`, a VPN's client, a tunnel of one's own.

use crate::lock::lock;
use crate::text::printable;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use vesica_program::Said;

/// The most characters of a command's name that are shown.
const CHARACTERS: usize = 200;

/// How long a command is given to end whose input has ended, and then, how long to heed a signal.
const GRACE: Duration = Duration::from_secs(1);

/// A command that runs, until this is dropped: then its input ends, and if it goes on all the same, it is ended.
pub(crate) struct Errand {
    name: String,
    child: Mutex<Child>,
    said: Said,
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
        let name = printable(program, CHARACTERS);
        let mut errand = Self { name, child: Mutex::new(child), said: Said::default() };
        let here = TcpStream::from(OwnedFd::from(here));
        if let Some(from) = from {
            errand.said = Said::by(from, |line| tracing::debug!("a command says: {line}"))?;
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
        self.said.wait(|| self.status().is_some());
        let ended = match self.status() {
            Some(status) => format!("{self} ended ({status})"),
            None => format!("{self} runs"),
        };
        ended + &self.said.in_words()
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
