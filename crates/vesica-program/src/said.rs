//! What a program says beside what it prints: the last lines of its standard error, made fit to show.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is kept: the last lines, and of each so many characters.
const LINES: usize = 4;
const CHARACTERS: usize = 200;

/// The most bytes of one line that are held while it has no end.
const MOST_LINE: usize = 4096;

/// How long is waited for the last lines of a program that is over. Another one may hold its standard error open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How often is looked whether they are there.
const LOOK: Duration = Duration::from_millis(5);

/// The last lines of a standard error, and whether it has ended.
#[derive(Clone, Default, Debug)]
pub struct Said(Arc<Mutex<Lines>>);

#[derive(Default, Debug)]
struct Lines {
    last: VecDeque<String>,
    over: bool,
}

impl Said {
    /// Keeps the last lines of `from` until it ends, on a thread of its own. Each is given to `each` as it comes.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn by(mut from: impl Read + Send + 'static, each: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let said = Self::default();
        let kept = said.clone();
        thread::Builder::new().name("program".into()).spawn(move || kept.listen(&mut from, &each))?;
        Ok(said)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, from: &mut impl Read, each: &dyn Fn(&str)) {
        let mut line = Vec::new();
        let mut chunk = [0; 1024];
        let keep = |line: &mut Vec<u8>| {
            let text = printable(&String::from_utf8_lossy(line), CHARACTERS);
            line.clear();
            if !text.is_empty() {
                each(&text);
                let last = &mut self.lines().last;
                last.push_back(text);
                if last.len() > LINES {
                    last.pop_front();
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
        self.lines().over = true;
    }

    /// Waits until nothing more comes and it `is_over` too, or for a moment.
    pub fn wait(&self, is_over: impl Fn() -> bool) {
        let until = Instant::now() + LAST_WORDS;
        while !(is_over() && self.lines().over) && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }

    /// The lines so far, as words behind how the program ended.
    pub fn in_words(&self) -> String {
        let lines = self.lines();
        match lines.last.is_empty() {
            true => " and said nothing on its standard error".to_owned(),
            false => format!(" and said: {}", lines.last.iter().map(String::as_str).collect::<Vec<_>>().join(" / ")),
        }
    }
}

/// At most `max` characters of `text` on one line: whatever could move the cursor, reorder the line or pretend to be
/// something else (control and format characters) becomes `?`.
pub fn printable(text: &str, max: usize) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let mut out: String = text.trim().chars().take(max).map(plain).collect();
    if text.trim().chars().nth(max).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_others_write_stays_on_its_line() {
        assert_eq!(printable("a\nb\x1b[31m\u{202e}c", 50), "a?b?[31m?c");
        assert_eq!(printable("磁盘已满 é", 50), "磁盘已满 é");
        assert_eq!(printable("abcdef", 3), "abc…");
    }

    #[test]
    fn the_last_lines_are_kept_and_each_is_told() {
        let (told, tell) = channel();
        let long = "x".repeat(5000);
        let text = format!("one\ntwo\n\n\x1b[31mthree\nfour\n{long}");
        let from = std::io::Cursor::new(text.into_bytes());
        let said = Said::by(from, move |line| told.send(line.to_owned()).unwrap()).unwrap();
        let cut = format!("{}…", "x".repeat(CHARACTERS));
        said.wait(|| true);
        assert_eq!(said.in_words(), format!(" and said: two / ?[31mthree / four / {cut}"));
        assert_eq!(tell.iter().collect::<Vec<_>>(), ["one", "two", "?[31mthree", "four", &cut]);
        let silent = Said::by(std::io::empty(), |_| ()).unwrap();
        silent.wait(|| true);
        assert_eq!(silent.in_words(), " and said nothing on its standard error");
    }
}
