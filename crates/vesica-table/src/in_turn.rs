//! Rows that several threads read, handed on in the order in which they were asked for.

use crate::Error;
use crate::table::Emit;
use arrow_array::RecordBatch;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tasks that a worker has before it, besides the one that it works on.
const TASKS: usize = 1;

/// Bytes of batches that wait for their turn, for each worker: all of them together may use what any of them leaves.
const WAITING: usize = 4 << 20;

/// Gives the tasks that `next` names to `workers` threads, and hands `emit` the batches that `work` makes of each: all of the
/// first task, then all of the second. `next` and `emit` are called by this thread alone. The worker whose turn it is may
/// always go on; the others stop where so many bytes wait that there is no more room.
pub(crate) fn in_turn<T: Send>(
    workers: usize,
    mut next: impl FnMut() -> Result<Option<T>, Error>,
    work: impl Fn(T, &mut Emit<'_>) -> Result<(), Error> + Sync,
    emit: &mut Emit<'_>,
) -> Result<(), Error> {
    if workers <= 1 {
        while let Some(task) = next()? {
            work(task, emit)?;
        }
        return Ok(());
    }
    let room = &Room::new(workers, workers * WAITING);
    // A worker ends when nobody gives it tasks or takes its answers.
    let answer = |worker: usize, todo: Receiver<(usize, T)>, done: Sender<Answer>| {
        for (turn, task) in todo {
            let gone = || Error::Bug("nobody takes the rows".into());
            let mut give = |batch: RecordBatch| {
                let bytes = batch.get_array_memory_size();
                let there = room.take(worker, turn, bytes) && done.send(Ok(Some((batch, bytes)))).is_ok();
                there.then_some(()).ok_or_else(gone)
            };
            let ended = work(task, &mut give);
            if done.send(ended.map(|()| None)).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let answer = &answer;
        let workers: Vec<(SyncSender<_>, Receiver<Answer>)> = (0..workers)
            .map(|worker| {
                let ((task, todo), (done, answers)) = (sync_channel(TASKS), channel());
                scope.spawn(move || answer(worker, todo, done));
                (task, answers)
            })
            .collect();
        // However this ends, no worker waits for room any more.
        let _over = Over(room);
        let dead = || Error::Bug("a worker has ended before its rows".into());
        // Tasks go round, and so do answers: batches and errors come in order of rows.
        let (mut given, mut taken) = (0, 0);
        loop {
            while given < taken + (TASKS + 1) * workers.len()
                && let Some(task) = next()?
            {
                workers[given % workers.len()].0.send((given, task)).map_err(|_| dead())?;
                given += 1;
            }
            if taken == given {
                return Ok(());
            }
            let worker = taken % workers.len();
            while let Some((batch, bytes)) = workers[worker].1.recv().map_err(|_| dead())?? {
                emit(batch)?;
                room.give(worker, bytes);
            }
            taken += 1;
            room.turn(taken);
        }
    })
}

/// What a worker answers: batches with their bytes, and then `None` at the end of each task.
type Answer = Result<Option<(RecordBatch, usize)>, Error>;

/// Room for batches that wait.
struct Room {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    used: usize,
    /// Of each worker.
    waiting: Vec<usize>,
    /// The task whose turn it is.
    turn: usize,
    over: bool,
}

impl Room {
    fn new(workers: usize, limit: usize) -> Self {
        let state = State { used: 0, waiting: vec![0; workers], turn: 0, over: false };
        Self { limit, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a batch of task `turn`; false if nobody wants it any more.
    fn take(&self, worker: usize, turn: usize, bytes: usize) -> bool {
        // Nothing of its own waits: whoever takes batches waits for this one, whatever the others have put there.
        let due = |state: &State| state.turn == turn && state.waiting[worker] == 0;
        let full = |state: &mut State| !state.over && !due(state) && state.used + bytes > self.limit;
        let mut state = self.changed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.used += bytes;
        state.waiting[worker] += bytes;
        !state.over
    }

    fn give(&self, worker: usize, bytes: usize) {
        let mut state = self.state();
        state.used -= bytes;
        state.waiting[worker] -= bytes;
        self.changed.notify_all();
    }

    fn turn(&self, turn: usize) {
        self.state().turn = turn;
        self.changed.notify_all();
    }
}

/// Ends all waiting for room when it is dropped.
struct Over<'a>(&'a Room);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    fn batch(value: i64, rows: usize) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value; rows]));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    /// The first value of each batch of so many tasks, each of which makes `batches` batches.
    fn run(workers: usize, tasks: i64, batches: i64, rows: usize) -> Vec<i64> {
        let (mut given, mut got) = (0..tasks, Vec::new());
        let work = |task: i64, emit: &mut Emit<'_>| {
            std::thread::sleep(std::time::Duration::from_micros(task as u64 * 7919 % 300));
            (0..batches).try_for_each(|i| emit(batch(task * batches + i, rows)))
        };
        in_turn(workers, || Ok(given.next()), work, &mut |batch| {
            got.push(batch.column(0).as_primitive::<Int64Type>().value(0));
            Ok(())
        })
        .unwrap();
        got
    }

    #[test]
    fn batches_come_in_order_of_tasks_however_large_they_are() {
        for workers in [0, 1, 2, 3, 8] {
            for (tasks, batches, rows) in [(0, 3, 1), (1, 3, 1), (40, 3, 100), (9, 5, 400_000), (5, 2, 4_000_000)] {
                assert_eq!(run(workers, tasks, batches, rows), (0..tasks * batches).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn little_is_made_before_its_turn() {
        // Batches of a MiB: two workers may have eight of them waiting.
        let (made, mut given) = (AtomicUsize::new(0), 0..100);
        let work = |_: i32, emit: &mut Emit<'_>| {
            (0..10).try_for_each(|_| {
                made.fetch_add(1, SeqCst);
                emit(batch(0, 1 << 17))
            })
        };
        let mut taken = 0;
        in_turn(2, || Ok(given.next()), work, &mut |_| {
            taken += 1;
            std::thread::sleep(std::time::Duration::from_micros(200));
            let ahead = made.load(SeqCst) - taken;
            // What waits, and one in the hands of each worker.
            assert!(ahead <= 2 * WAITING / (1 << 20) + 2, "{ahead}");
            Ok(())
        })
        .unwrap();
        assert_eq!(taken, 1000);
    }

    #[test]
    fn an_error_comes_in_its_turn_and_ends_all() {
        let work = |task: i32, emit: &mut Emit<'_>| match task {
            5 => Err(Error::Bug("the fifth".into())),
            _ => (0..50).try_for_each(|_| emit(batch(0, 100_000))),
        };
        let (mut given, mut got) = (0.., 0);
        let error = in_turn(3, || Ok(given.next()), work, &mut |_| {
            got += 1;
            Ok(())
        });
        assert!(error.unwrap_err().to_string().contains("the fifth"));
        assert_eq!(got, 250);
        // Whoever takes the rows may fail too, and whoever names the tasks.
        let mut given = 0..;
        let failed = in_turn(3, || Ok(given.next()), work, &mut |_| Err(Error::Bug("of the taker".into())));
        assert!(failed.unwrap_err().to_string().contains("of the taker"));
        let failed = in_turn(3, || Err(Error::Bug("of the tasks".into())), work, &mut |_| Ok(()));
        assert!(failed.unwrap_err().to_string().contains("of the tasks"));
    }
}
