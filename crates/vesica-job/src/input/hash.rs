//! The hash of an input's file, by which a run that goes on knows that it is the same.

use crate::error::JobError;
use crate::tell::control::Control;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vesica_session::Error;
use vesica_table::{Source, Table};

/// Bytes that are hashed at a time.
const CHUNK: usize = 1 << 20;

/// Runs `work`, which reads `table` from front to back, and hashes the file just behind it, while the system still has in
/// memory what was read: the disk is read once.
///
/// # Errors
/// Those of `work` and of reading; [`vesica_table::Error::Changed`].
pub fn behind<T: Send>(
    table: &dyn Table,
    ctl: &Control,
    work: impl FnOnce() -> Result<T, JobError> + Send,
) -> Result<(T, blake3::Hash), JobError> {
    hashed(file(table)?, ctl, |end| table.bytes_read() >= end, work)
}

/// Runs `work`, which has other things to do, and hashes the file of `table` meanwhile.
///
/// # Errors
/// As [`behind`].
pub fn beside<T: Send>(
    table: &dyn Table,
    ctl: &Control,
    work: impl FnOnce() -> Result<T, JobError> + Send,
) -> Result<(T, blake3::Hash), JobError> {
    hashed(file(table)?, ctl, |_| true, work)
}

/// The file of `table`; a run of a table in memory is refused before it comes to this.
fn file(table: &dyn Table) -> Result<&Source, JobError> {
    Ok(table.source().ok_or_else(|| Error::Bug("the hash of a table in memory".into()))?)
}

/// Hashes the file up to an `end` once `work` is over or `ready` says so.
fn hashed<T: Send>(
    source: &Source,
    ctl: &Control,
    ready: impl Fn(u64) -> bool,
    work: impl FnOnce() -> Result<T, JobError> + Send,
) -> Result<(T, blake3::Hash), JobError> {
    let failed = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(move || work().inspect_err(|_| failed.store(true, Relaxed)));
        let mut hasher = blake3::Hasher::new();
        let mut buf = vec![0; CHUNK];
        let mut at = 0;
        let mut next = || -> Result<bool, JobError> {
            ctl.check()?;
            while !working.is_finished() && !ready(at + CHUNK as u64) {
                // It waits for a thread of its own that only reads and computes, so whoever runs the threads need not know.
                std::thread::park_timeout(Duration::from_millis(1));
            }
            let n = source.read_at(&mut buf, at)?;
            hasher.update(&buf[..n]);
            at += n as u64;
            Ok(n > 0 && !failed.load(Relaxed))
        };
        let read = loop {
            match next() {
                Ok(true) => {}
                Ok(false) => break source.check().map_err(JobError::from),
                Err(error) => break Err(error),
            }
        };
        let made = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        read?;
        Ok((made, hasher.finalize()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_table::Input;

    fn table(rows: u32) -> (tempfile::NamedTempFile, Box<dyn Table>) {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        let text: String = (0..rows).map(|i| format!("{i}\n")).collect();
        std::fs::write(file.path(), format!("id\n{text}")).unwrap();
        let table = vesica_table::open(&Input::new(file.path())).unwrap();
        (file, table)
    }

    #[test]
    fn the_whole_file_is_hashed_whoever_is_first() {
        for rows in [0, 1, 500_000] {
            let (file, table) = table(rows);
            let expected = blake3::hash(&std::fs::read(file.path()).unwrap());
            let ctl = Control::new(());
            let read = || {
                let batches = table.keys(&["id".into()], 2)?;
                batches.map(|batch| Ok(batch?.num_rows())).sum::<Result<usize, JobError>>()
            };
            assert_eq!(behind(&*table, &ctl, read).unwrap(), (rows as usize, expected));
            assert_eq!(beside(&*table, &ctl, || Ok(7)).unwrap(), (7, expected));
        }
    }

    #[test]
    fn failures_are_told_and_end_the_hashing() {
        let (file, table) = table(100);
        let ctl = Control::new(());
        let error = behind(&*table, &ctl, || Err::<(), _>(Error::Bug("of the work".into()).into())).unwrap_err();
        assert!(error.to_string().contains("of the work"), "{error}");
        std::fs::write(file.path(), "id\n").unwrap();
        let error = beside(&*table, &ctl, || Ok(())).unwrap_err();
        assert!(error.to_string().contains("changed"), "{error}");
        ctl.cancel();
        let error = behind(&*table, &ctl, || Ok(())).unwrap_err();
        assert!(matches!(error, JobError::Session(Error::Cancelled)), "{error}");
    }
}
