//! Work on several threads whose answers come in the order of what was asked.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

/// Items that a worker has before it, and answers behind it that nobody has taken yet.
const AHEAD: usize = 1;

/// An iterator over the answers to the items of another, see [`InOrder::new`]. No thread outlives it.
pub struct InOrder<U> {
    /// Of each worker; of none once all have been taken.
    answers: Vec<Receiver<U>>,
    threads: Vec<JoinHandle<()>>,
    /// Answers taken.
    taken: usize,
}

impl<U: Send + 'static> InOrder<U> {
    /// What `workers` threads answer to `items`, in their order. Each works with what `worker` gives it; each holds four
    /// items and answers at most: one of them comes, one is at work, one waits, and one is on its way. `items` are asked for
    /// by a thread of their own.
    ///
    /// # Panics
    /// As an iterator, if a worker or `items` panicked.
    pub fn new<T, W>(
        workers: usize,
        items: impl Iterator<Item = T> + Send + 'static,
        worker: impl Fn() -> W,
    ) -> InOrder<U>
    where
        T: Send + 'static,
        W: FnMut(T) -> U + Send + 'static,
    {
        let (mut tasks, mut answers, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..workers.max(1) {
            let (task, todo) = sync_channel(AHEAD);
            let (done, answer) = sync_channel(AHEAD);
            let mut work = worker();
            // A worker ends when nobody gives it items, or takes its answers.
            threads.push(thread::spawn(move || {
                let _ = todo.into_iter().all(|item| done.send(work(item)).is_ok());
            }));
            tasks.push(task);
            answers.push(answer);
        }
        let give = move || {
            let turns = (0..tasks.len()).cycle();
            let _ = items.zip(turns).all(|(item, turn)| tasks[turn].send(item).is_ok());
        };
        threads.push(thread::spawn(give));
        Self { answers, threads, taken: 0 }
    }
}

impl<U> Iterator for InOrder<U> {
    type Item = U;

    fn next(&mut self) -> Option<U> {
        let turn = self.taken.checked_rem(self.answers.len())?;
        if let Ok(answer) = self.answers[turn].recv() {
            self.taken += 1;
            return Some(answer);
        }
        self.answers.clear();
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        None
    }
}

impl<U> Drop for InOrder<U> {
    fn drop(&mut self) {
        self.answers.clear();
        for thread in self.threads.drain(..) {
            // Whoever drops it is not interested in the rest, nor in what became of it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    #[test]
    fn answers_come_in_order_whoever_is_first() {
        for (workers, items) in [(0, 5), (1, 0), (1, 10), (2, 1), (3, 100), (8, 5)] {
            let worker = || {
                |i: u64| {
                    thread::sleep(Duration::from_micros(i * 7919 % 500));
                    i * i
                }
            };
            let answers: Vec<u64> = InOrder::new(workers, 0..items, worker).collect();
            assert_eq!(answers, (0..items).map(|i| i * i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn workers_work_at_the_same_time() {
        // No call returns before three have begun.
        let all = Arc::new(Barrier::new(3));
        let worker = || {
            let all = all.clone();
            move |i: i32| {
                all.wait();
                i
            }
        };
        assert_eq!(InOrder::new(3, 0..30, worker).sum::<i32>(), 29 * 15);
    }

    #[test]
    fn no_thread_is_left_and_little_is_done_in_vain() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let items = (0..).inspect(move |_| {
            count.fetch_add(1, SeqCst);
        });
        let mut answers = InOrder::new(2, items, || |i: i32| i);
        assert_eq!(answers.next(), Some(0));
        drop(answers);
        // The iterator is dropped with the last thread.
        assert_eq!(Arc::strong_count(&asked), 1);
        assert!(asked.load(SeqCst) <= 10, "{}", asked.load(SeqCst));
    }

    #[test]
    fn a_panic_is_no_end() {
        for bad in [0, 7, 8] {
            let worker = || move |i: i32| if i == bad { panic!("item {i}") } else { i };
            let all = std::panic::catch_unwind(|| InOrder::new(2, 0..9, worker).count());
            assert!(all.is_err_and(|panic| *panic.downcast::<String>().unwrap() == format!("item {bad}")));
        }
    }
}
