//! The line that a partner sent, as somebody pastes it into a terminal. A mail program may have wrapped it. And it comes from a stranger:
//! what stands behind it would be a command, once the shell reads the terminal again.

use crate::failure::Failure;
use crate::{interrupt, output};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::termios::{
    _POSIX_VDISABLE, FlushArg, InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use std::io::{BufRead, stdin};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use vesica_spec::Reply;

/// The bytes that are read at most: more than any reply has.
const MOST: u64 = 4096;

/// The empty lines before a reply that are passed over at most.
const MOST_EMPTY: u64 = 16;

/// The milliseconds without a character after which a paste is over.
const QUIET: u8 = 100;

/// For how long a paste is thrown away at most.
const LONGEST: Duration = Duration::from_secs(10);

/// The terminal on standard input, while a line is pasted there. When it is dropped, what else was pasted is thrown away, so that the
/// shell never runs it.
#[derive(Clone)]
pub struct Terminal {
    /// How it was set before, and is set afterwards.
    before: Termios,
}

impl Terminal {
    /// The terminal, if standard input is one. No character of the paste gives it back to the shell early.
    pub fn open() -> Result<Option<Self>, Failure> {
        let Ok(before) = tcgetattr(stdin()) else { return Ok(None) };
        let terminal = Self { before };
        set(&terminal.deaf());
        // Ctrl-C ends the command as it always does. It may have been pasted, so what follows it is thrown away first.
        let ended = terminal.clone();
        interrupt::on_signal(move || {
            ended.throw_away();
            output::tell("interrupted");
            std::process::exit(interrupt::EXIT.into());
        })?;
        Ok(Some(terminal))
    }

    /// A setting in which Ctrl-\ and Ctrl-Z do not end or stop this program, and Ctrl-S does not stop what it writes.
    fn deaf(&self) -> Termios {
        let mut mode = self.before.clone();
        mode.control_chars[SpecialCharacterIndices::VQUIT as usize] = _POSIX_VDISABLE;
        mode.control_chars[SpecialCharacterIndices::VSUSP as usize] = _POSIX_VDISABLE;
        mode.input_flags.remove(InputFlags::IXON);
        mode
    }

    /// Throws away what waits in the terminal, and what still comes until it is quiet.
    fn throw_away(&self) {
        // Here the beginning of a line counts as something that comes, no character means anything, and none is shown.
        let mut mode = self.deaf();
        mode.local_flags.remove(LocalFlags::ICANON | LocalFlags::ISIG | LocalFlags::ECHO);
        set(&mode);
        let began = Instant::now();
        while tcflush(stdin(), FlushArg::TCIFLUSH).is_ok() && comes() {
            if began.elapsed() > LONGEST {
                break;
            }
        }
        set(&self.before);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.throw_away();
    }
}

/// Sets the terminal. Where that fails it is gone, and nobody pastes into it.
fn set(mode: &Termios) {
    let _ = tcsetattr(stdin(), SetArg::TCSANOW, mode);
}

/// Whether something can be read before [`QUIET`] has passed.
fn comes() -> bool {
    match poll(&mut [PollFd::new(stdin().as_fd(), PollFlags::POLLIN)], QUIET) {
        Ok(ready) => ready > 0,
        // A signal came, which says nothing of the terminal. Whoever asks on and on bounds that by time.
        Err(error) => error == Errno::EINTR,
    }
}

/// Reads the reply from standard input. On a terminal it asks for it.
pub fn ask(terminal: Option<&Terminal>) -> std::io::Result<String> {
    if terminal.is_some() {
        output::tell("Paste the line that your partner sent:");
    }
    // What stands below an empty line of a paste comes at once, but for a last line without an end: the terminal gives it when Enter is
    // pressed. So the first empty line behind which nothing comes does not end it yet.
    let mut is_told = false;
    let goes_on = || {
        if terminal.is_none() || comes() {
            return true;
        }
        if is_told {
            return false;
        }
        is_told = true;
        output::tell("That line is empty. Paste the line that your partner sent, or press Enter again to end.");
        true
    };
    join(stdin().lock(), goes_on, || {
        // The rest of a line that was wrapped comes at once.
        if terminal.is_some() && !comes() {
            output::tell("This is only a part of it. Paste the rest too, or press Enter to end.");
        }
    })
}

/// The reply at the beginning of `text`, joined of the lines that it was wrapped into. White space, quotes and the `>` of an answered mail
/// are left out. It ends where it is whole, at an empty line behind its beginning, or with the text. `goes_on` says behind each empty
/// line above it whether that one is passed over. `partial` is called before each further line of it is read.
pub fn join(text: impl BufRead, mut goes_on: impl FnMut() -> bool, partial: impl Fn()) -> std::io::Result<String> {
    let mut text = text.take(MOST);
    let (mut reply, mut empty) = (String::new(), 0);
    loop {
        let mut line = String::new();
        let is_over = text.read_line(&mut line)? == 0;
        reply += &bare(&line);
        // Whoever marks a line in a mail often marks the empty one above it too.
        if reply.is_empty() && !is_over && empty < MOST_EMPTY && goes_on() {
            empty += 1;
            continue;
        }
        if reply.is_empty() || line.trim().is_empty() || Reply::is_whole(&reply) {
            return Ok(reply);
        }
        partial();
    }
}

/// What a terminal may put before and behind what is pasted, if the program before this one asked it to and did not take that back.
const MARKS: [&str; 2] = ["\x1b[200~", "\x1b[201~"];

/// A line without what people, mail programs and terminals put around a piece of a reply.
fn bare(line: &str) -> String {
    let line = MARKS.iter().fold(line.to_owned(), |line, mark| line.replace(mark, ""));
    let marked = |c: char| c.is_whitespace() || c == '>';
    let around = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '“' | '”' | '„' | '‘' | '’' | '«' | '»');
    line.trim_start_matches(marked).chars().filter(|c| !around(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A whole reply in its form; what it means is not looked at here.
    fn reply() -> String {
        format!("bob/sha256:{}/{}/0123abcd", "a".repeat(64), "1".repeat(32))
    }

    fn joined(text: &str) -> String {
        join(text.as_bytes(), || true, || ()).unwrap()
    }

    #[test]
    fn a_reply_is_found_however_it_was_wrapped_and_quoted() {
        let whole = reply();
        for place in 1..whole.len() {
            let (begin, end) = whole.split_at(place);
            for text in [
                format!("{begin}\n{end}\n"),
                format!("{begin}\r\n{end}"),
                format!("> {begin}\n> {end}\n"),
                format!(">> > \"{begin}\n  {end}\"\n"),
                format!("```\n{begin} {end}\n```\n"),
                format!("\x1b[200~{begin}\n{end}\x1b[201~\n"),
            ] {
                assert_eq!(joined(&text), whole, "{text:?}");
            }
        }
        for (open, close) in [("\"", "\""), ("'", "'"), ("“", "”"), ("„", "“"), ("«", "»"), ("\u{a0}", "\t")]
        {
            assert_eq!(joined(&format!("{open}{whole}{close}\n")), whole);
        }
    }

    #[test]
    fn empty_lines_above_a_reply_are_passed_over() {
        let whole = reply();
        for above in ["\n", "\r\n \n\n", "> \n", "```\n"] {
            assert_eq!(joined(&format!("{above}{whole}\n\nrm -r .\n")), whole, "{above:?}");
            assert_eq!(joined(&format!("{above}{}\n{}\n", &whole[..40], &whole[40..])), whole, "{above:?}");
        }
    }

    #[test]
    fn an_empty_line_ends_it_if_it_is_not_to_be_passed_over() {
        let text = format!("\n\n{}\n", reply());
        for passed in 0..3 {
            let mut left = passed;
            let goes_on = || {
                left -= 1;
                left >= 0
            };
            let expected = if passed < 2 { String::new() } else { reply() };
            assert_eq!(join(text.as_bytes(), goes_on, || ()).unwrap(), expected, "{passed}");
        }
    }

    #[test]
    fn what_stands_behind_a_reply_is_not_read_as_a_part_of_it() {
        let whole = reply();
        assert_eq!(joined(&format!("{whole}\nrm -r .\n")), whole);
        assert_eq!(joined(&format!("{}\n\nrm -r .\n", &whole[..40])), whole[..40], "an empty line ends it");
        assert_eq!(joined(""), "");
        assert_eq!(joined(&"\n".repeat(100)), "");
        assert_eq!(joined("hello"), "hello");
    }

    #[test]
    fn it_is_asked_for_the_rest_and_no_more_is_read_than_a_reply_could_have() {
        let whole = reply();
        for (lines, asked) in [(1, 0), (2, 1), (4, 3)] {
            let pieces: Vec<&str> =
                (0..lines).map(|line| &whole[line * whole.len() / lines..(line + 1) * whole.len() / lines]).collect();
            let times = Cell::new(0);
            let reply = join((pieces.join("\n") + "\n").as_bytes(), || true, || times.set(times.get() + 1)).unwrap();
            assert_eq!((reply, times.get()), (whole.clone(), asked));
        }
        let endless = std::io::BufReader::new(std::io::repeat(b'a'));
        assert_eq!(join(endless, || true, || ()).unwrap().len() as u64, MOST);
    }
}
