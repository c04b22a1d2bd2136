//! A secret that a program of this user's prints: a client of a vault, of a key service or of a smart card.

use crate::text::printable;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ChildStdout;
use std::time::{Duration, Instant};
use vesica_program::{Running, how};
use zeroize::Zeroizing;

/// The most bytes of a secret.
const MOST: usize = 64 << 10;

/// How long a program may take: somebody may have to touch a card, or to type.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a program that says nothing is waited for before it is asked again whether it is still wanted.
const ASK: Duration = Duration::from_millis(50);

/// How often a program is looked at that has closed its standard output and is still there.
const LOOK: Duration = Duration::from_millis(10);

/// All that a program prints to its standard output, which is started as [`Running::start`] has it: in `folder`, or in this process's own if that
/// is empty. It has a minute, and belongs to the terminal as this process does, so that it may ask there. It is ended once `stop` says so.
///
/// # Errors
/// In words that name the program: if it cannot be started, takes too long, prints nothing or more than 64 KiB, or ends otherwise than with
/// exit code 0; then with the last lines of its standard error. Its arguments, which may be secrets, are not among the words.
pub fn printed(words: &[String], folder: &Path, stop: &dyn Fn() -> bool) -> Result<Zeroizing<Vec<u8>>, String> {
    printed_within(words, folder, LIMIT, stop)
}

fn printed_within(
    words: &[String],
    folder: &Path,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let until = Instant::now() + limit;
    let Some(name) = words.first() else { return Err("names no program".into()) };
    let the_program = format!("the program \"{}\"", printable(name, 200));
    let failed = |e: io::Error| match e.kind() {
        ErrorKind::NotFound => format!("{the_program} is not there ({e}); give its path, or put it on PATH"),
        _ => format!("{the_program} cannot be run ({e})"),
    };
    // Why no more is waited for.
    let over = || {
        let limit = limit.as_secs();
        match stop() {
            true => Some(format!("{the_program} was ended, since this one ends")),
            false if Instant::now() >= until => Some(format!(
                "{the_program} did not end within {limit} s; see that it asks nobody and waits for nothing"
            )),
            false => None,
        }
    };
    let folder = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
    let mut running = Running::start(words, folder).map_err(failed)?;
    // Of one size from the start: a buffer that grows leaves copies of the secret behind.
    let mut secret = Zeroizing::new(vec![0; MOST + 1]);
    let mut len = 0;
    // One of another user's may still ask at the terminal, and read what is meant for whatever comes next.
    let ended = |running: &mut Running, why: String| match running.stop() {
        true => why,
        false => format!("{why}; this user cannot end it, so it may go on and ask: end it yourself"),
    };
    if let Some(mut from) = running.stdout.take() {
        loop {
            if let Some(why) = over() {
                return Err(match running.ended() {
                    Ok(Some(_)) if !stop() => format!(
                        "{the_program} ended, and a process that it has started holds its standard output open; see that nothing goes on \
                         in the background"
                    ),
                    _ => ended(&mut running, why),
                });
            }
            if !ready(&from).map_err(failed)? {
                continue;
            }
            match from.read(secret.get_mut(len..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
    if len > MOST {
        return Err(format!("{the_program} prints more than {} KiB, which is no key", MOST >> 10));
    }
    let status = loop {
        match running.ended().map_err(failed)? {
            Some(status) => break status,
            None => match over() {
                Some(why) => return Err(ended(&mut running, why)),
                None => std::thread::sleep(LOOK),
            },
        }
    };
    // Ctrl-C in a terminal is the program's too, and it may end of that before anybody has looked.
    if let Some(why) = over().filter(|_| stop()) {
        return Err(why);
    }
    let said = || {
        running.said.wait(|| true);
        running.said.in_words()
    };
    if !status.success() {
        return Err(format!("{the_program} {}{}", how(status), said()));
    }
    if len == 0 {
        return Err(format!("{the_program} ended well and printed nothing{}", said()));
    }
    secret.truncate(len);
    Ok(secret)
}

/// Whether there is something to read now or soon, or the end of it.
fn ready(from: &ChildStdout) -> io::Result<bool> {
    let timeout = PollTimeout::try_from(ASK).unwrap_or(PollTimeout::ZERO);
    match poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], timeout) {
        Ok(0) | Err(Errno::EINTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Vec<u8>, String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        printed_within(&words, Path::new(""), limit, &|| false).map(|secret| secret.to_vec())
    }

    #[test]
    fn what_a_program_prints_is_the_secret_to_the_last_byte() {
        assert_eq!(shell("printf 'a\\0b'; echo", LIMIT).unwrap(), b"a\0b\n");
        assert_eq!(shell("head -c 65536 /dev/zero", LIMIT).unwrap().len(), MOST);
        // In two pieces, and with words beside it.
        assert_eq!(shell("echo asking >&2; printf a; sleep 0.1; printf b", LIMIT).unwrap(), b"ab");
    }

    #[test]
    fn a_program_that_gives_no_secret_is_named_with_what_it_said() {
        for (script, words) in [
            (
                "echo secret; echo 'no such key' >&2; exit 7",
                "the program \"sh\" failed with exit code 7 and said: no such key",
            ),
            ("kill -9 $$", "the program \"sh\" was ended by signal 9 and said nothing"),
            ("exit 0", "the program \"sh\" ended well and printed nothing and said nothing"),
            ("head -c 65537 /dev/zero", "the program \"sh\" prints more than 64 KiB"),
        ] {
            let error = shell(script, LIMIT).unwrap_err();
            assert!(error.starts_with(words), "{error}");
            assert!(!error.contains("secret") && !error.contains("exit 7"), "{error}");
        }
        let absent = printed(&["vesica-no-such-program".to_owned()], Path::new(""), &|| false).unwrap_err();
        assert!(absent.starts_with("the program \"vesica-no-such-program\" is not there"), "{absent}");
    }

    /// Whether it prints and stays, says nothing, or has closed what it prints to.
    #[test]
    fn a_program_that_does_not_end_is_ended() {
        for script in ["echo secret; exec sleep 60", "exec sleep 60", "exec 1>&-; exec sleep 60"] {
            let error = shell(script, Duration::from_millis(300)).unwrap_err();
            assert!(error.starts_with("the program \"sh\" did not end within 0 s"), "{error}");
        }
    }

    #[test]
    fn a_program_that_is_wanted_no_more_is_ended() {
        let began = Instant::now();
        let words = ["sh", "-c", "echo secret; exec sleep 600"].map(str::to_owned);
        let stop = || began.elapsed() > Duration::from_millis(100);
        let error = printed(&words, Path::new(""), &stop).unwrap_err();
        assert_eq!(error, "the program \"sh\" was ended, since this one ends");
    }

    #[test]
    fn what_holds_its_output_open_after_its_end_is_named() {
        let error = shell("echo secret; sleep 5 &", Duration::from_millis(300)).unwrap_err();
        assert!(error.contains("a process that it has started holds its standard output open"), "{error}");
    }
}
