//! One pass over the table for the queries of several clients.
//!
//! A pass reads the whole table, and the memory's speed bounds it. Four queries in one pass cost little more than one. So queries wait in
//! a line while a pass is under way, and the next pass takes those at the head of the line.
//!
//! What a client sees of others is how long its answer takes, which depends on how many queries came before its own. It does not depend on what
//! they ask for: a pass does the same work for any bytes. A query gets into the line when it is here as a whole, and an answer leaves it
//! before it is sent. So a client that is slow, or stops, keeps nobody waiting.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The queries of one client's round, and its answers.
type Round = Vec<Vec<u8>>;

/// The line.
#[derive(Default)]
pub struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Rounds that wait, in the order in which they came.
    waiting: VecDeque<(u64, Round)>,
    /// Answers that were not taken yet; none where the pass failed.
    done: BTreeMap<u64, Option<Round>>,
    /// Whether a pass is under way.
    is_busy: bool,
}

impl Line {
    /// The answers to some queries, in their order; none if the pass failed. `pass` is called by one of the callers at a time. It gets the
    /// queries at the head of the line, those of another round only as long as there are at most `most` in all.
    pub fn answer(&self, round: Round, most: usize, pass: impl Fn(&[&[u8]]) -> Option<Round>) -> Option<Round> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back((ticket, round));
        loop {
            if let Some(answers) = state.done.remove(&ticket) {
                return answers;
            }
            if state.is_busy {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_busy = true;
            let mut taken = Vec::new();
            let mut count = 0;
            while let Some((_, round)) = state.waiting.front()
                && (taken.is_empty() || count + round.len() <= most)
            {
                count += round.len();
                taken.extend(state.waiting.pop_front());
            }
            drop(state);
            let mut lead =
                Lead { line: self, tickets: taken.iter().map(|(ticket, _)| *ticket).collect(), answers: Vec::new() };
            let queries: Vec<&[u8]> = taken.iter().flat_map(|(_, round)| round).map(Vec::as_slice).collect();
            if let Some(answers) = pass(&queries).filter(|answers| answers.len() == queries.len()) {
                let mut answers = answers.into_iter();
                lead.answers = taken.iter().map(|(_, round)| answers.by_ref().take(round.len()).collect()).collect();
            }
            drop(lead);
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever makes a pass. When it is dropped, others know that the pass is over, even if it ended in a panic.
struct Lead<'a> {
    line: &'a Line,
    tickets: Vec<u64>,
    answers: Vec<Round>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        let mut answers = self.answers.drain(..);
        state.done.extend(self.tickets.drain(..).map(|ticket| (ticket, answers.next())));
        state.is_busy = false;
        drop(state);
        self.line.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn backwards(queries: &[&[u8]]) -> Option<Round> {
        Some(queries.iter().map(|query| query.iter().rev().copied().collect()).collect())
    }

    /// Twelve clients, one query each: all get their own answers, and while one pass is under way others wait for one pass together.
    #[test]
    fn queries_that_wait_share_a_pass() {
        let (line, passes) = (Line::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for client in 0..12u8 {
                let (line, passes) = (&line, &passes);
                scope.spawn(move || {
                    let slow = |queries: &[&[u8]]| {
                        assert!(queries.len() <= 4);
                        passes.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(200));
                        backwards(queries)
                    };
                    assert_eq!(line.answer(vec![vec![client, 1]], 4, slow), Some(vec![vec![1, client]]));
                });
            }
        });
        let passes = passes.into_inner();
        assert!((3..12).contains(&passes), "{passes}");
    }

    /// A round that is larger than a pass is taken alone; rounds stay in the order in which they came.
    #[test]
    fn rounds_are_not_cut() {
        let line = Line::default();
        let round: Round = (0..9).map(|i| vec![i]).collect();
        assert_eq!(line.answer(round.clone(), 4, backwards), Some(round));
        assert_eq!(line.answer(Vec::new(), 4, backwards), Some(Vec::new()));
    }

    /// A pass that fails, or gives too few answers, or panics, is told to those whose queries it had, and to nobody else.
    #[test]
    fn a_pass_that_fails_stops_nobody_else() {
        let line = Line::default();
        assert_eq!(line.answer(vec![vec![1]], 4, |_| None), None);
        assert_eq!(line.answer(vec![vec![1]], 4, |_| Some(Vec::new())), None);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            line.answer(vec![vec![1]], 4, |_| panic!("on purpose"))
        }));
        assert!(panic.is_err());
        assert_eq!(line.answer(vec![vec![1, 2]], 4, backwards), Some(vec![vec![2, 1]]));
    }
}
