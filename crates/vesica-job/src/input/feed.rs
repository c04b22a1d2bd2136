//! The batches of a table for several threads.

use arrow_array::RecordBatch;
use std::sync::{Arc, Mutex, MutexGuard};
use vesica_table::{Error, Piece, Pieces};

/// Batches of a table that several threads take. A thread has a piece of the table to itself as long as there are some for all,
/// then it takes batches of the others' pieces.
pub struct Feed {
    shared: Mutex<Shared>,
}

struct Shared {
    /// The pieces that nobody has begun, with their numbers.
    left: std::iter::Enumerate<Pieces>,
    /// Those that are under way.
    open: Vec<Open>,
    /// What was wrong, and in which piece: the first one in the table's order that has something wrong.
    failed: Option<(usize, Error)>,
    stopped: bool,
}

/// A piece under way. The number of the row that comes next is the piece's `first`.
#[derive(Clone)]
struct Open {
    number: usize,
    piece: Arc<Mutex<Piece>>,
}

/// The piece that a thread takes batches of.
#[derive(Default)]
pub struct Own(Option<Open>);

impl Feed {
    /// The batches of `pieces`.
    pub fn new(pieces: Pieces) -> Self {
        let shared = Shared { left: pieces.enumerate(), open: Vec::new(), failed: None, stopped: false };
        Self { shared: Mutex::new(shared) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no worker panics")
    }

    /// A batch that nobody else has, and the number of its first row; none when there are none, or none are wanted any more.
    pub fn next(&self, own: &mut Own) -> Option<(u64, RecordBatch)> {
        loop {
            let open = match own.0.take() {
                Some(open) => open,
                None => self.shared().begin()?,
            };
            if self.shared().is_over(open.number) {
                continue;
            }
            let batch = {
                let mut piece = open.piece.lock().expect("no worker panics");
                let first = piece.first;
                let batch = piece.batches.next();
                match &batch {
                    Some(Ok(batch)) => piece.first += batch.num_rows() as u64,
                    // Whoever waits for the piece finds it at its end.
                    _ => piece.batches = Box::new(std::iter::empty()),
                }
                batch.map(|batch| (first, batch))
            };
            match batch {
                Some((first, Ok(batch))) => {
                    own.0 = Some(open);
                    return Some((first, batch));
                }
                Some((_, Err(error))) => self.shared().fail(open.number, error),
                None => self.shared().open.retain(|other| other.number != open.number),
            }
        }
    }

    /// No more batches are wanted.
    pub fn stop(&self) {
        self.shared().stopped = true;
    }

    /// Whether all went well.
    ///
    /// # Errors
    /// What the first piece that has something wrong met: the same, however many threads there were.
    pub fn end(self) -> Result<(), Error> {
        let shared = self.shared.into_inner().expect("no worker panics");
        shared.failed.map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl Shared {
    /// A piece to take batches of, if there is one.
    fn begin(&mut self) -> Option<Open> {
        if self.stopped {
            return None;
        }
        let fresh = if self.failed.is_none() { self.left.next() } else { None };
        if let Some((number, piece)) = fresh {
            let open = Open { number, piece: Arc::new(Mutex::new(piece)) };
            self.open.push(open.clone());
            return Some(open);
        }
        self.open.first().cloned()
    }

    /// Whether nothing more is wanted of a piece. Those before one that failed are read to their end: they may fail too.
    fn is_over(&mut self, number: usize) -> bool {
        let over = self.stopped || self.failed.as_ref().is_some_and(|(failed, _)| *failed <= number);
        if over {
            self.open.retain(|other| other.number != number);
        }
        over
    }

    fn fail(&mut self, number: usize, error: Error) {
        self.open.retain(|other| other.number != number);
        if self.failed.as_ref().is_none_or(|(failed, _)| number < *failed) {
            self.failed = Some((number, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, StringArray};
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// Pieces of some batches of seven rows each, where `wrong` may put an error.
    fn pieces(batches: &'static [u64], wrong: impl Fn(u64) -> bool + Send + Sync + 'static) -> Pieces {
        let wrong = Arc::new(wrong);
        let firsts = batches.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n)));
        let all: Vec<_> = firsts.zip(batches).collect();
        Box::new(all.into_iter().map(move |(first, &n)| {
            let wrong = wrong.clone();
            let batch = move |number: u64| {
                if wrong(number) {
                    return Err(Error::Bug(format!("batch {number}")));
                }
                let texts = StringArray::from_iter_values((7 * number..7 * number + 7).map(|row| row.to_string()));
                Ok(RecordBatch::try_from_iter([("x", Arc::new(texts) as ArrayRef)]).unwrap())
            };
            Piece { first: 7 * first, batches: Box::new((first..first + n).map(batch)) }
        }))
    }

    const BATCHES: &[u64] = &[3, 0, 1, 40, 2, 9];

    #[test]
    fn every_row_is_given_once_with_its_number() {
        for threads in [1, 2, 5] {
            let feed = Feed::new(pieces(BATCHES, |_| false));
            let (rows, sum) = (AtomicU64::new(0), AtomicU64::new(0));
            vesica_table::on_threads::<Error>(threads, || {
                let mut own = Own::default();
                while let Some((first, batch)) = feed.next(&mut own) {
                    let texts: &StringArray = batch.column(0).as_any().downcast_ref().unwrap();
                    for (row, text) in (first..).zip(texts) {
                        assert_eq!(text.unwrap(), row.to_string());
                        sum.fetch_add(row, SeqCst);
                    }
                    rows.fetch_add(batch.num_rows() as u64, SeqCst);
                }
                Ok(())
            })
            .unwrap();
            feed.end().unwrap();
            let all = 7 * BATCHES.iter().sum::<u64>();
            assert_eq!((rows.into_inner(), sum.into_inner()), (all, all * (all - 1) / 2));
        }
    }

    #[test]
    fn the_first_failure_is_told_whoever_is_first() {
        for threads in [1, 2, 5] {
            for _ in 0..20 {
                let feed = Feed::new(pieces(BATCHES, |number| number == 20 || number == 45 || number == 50));
                vesica_table::on_threads::<Error>(threads, || {
                    let mut own = Own::default();
                    while feed.next(&mut own).is_some() {}
                    Ok(())
                })
                .unwrap();
                assert!(feed.end().unwrap_err().to_string().contains("batch 20"));
            }
        }
    }

    #[test]
    fn nothing_comes_after_the_end_was_asked_for() {
        let feed = Feed::new(pieces(BATCHES, |_| false));
        let mut own = Own::default();
        assert!(feed.next(&mut own).is_some());
        feed.stop();
        assert!(feed.next(&mut own).is_none() && feed.next(&mut Own::default()).is_none());
        feed.end().unwrap();
    }
}
