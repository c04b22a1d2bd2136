//! Checks that the documents of jobs and of services share: names, amounts, durations.

use crate::error::{SpecError, refuse};
use crate::rules::{Rule, Rules};
use crate::types::Format;
use std::collections::BTreeSet;
use std::time::Duration;

/// The format of a table, as the room of tables calls it.
pub fn table_format(format: Format) -> vesica_table::Format {
    match format {
        Format::Csv => vesica_table::Format::Csv,
        Format::Parquet => vesica_table::Format::Parquet,
        Format::Arrow => vesica_table::Format::Ipc,
    }
}

/// Refuses `name`, which stands in `field`, if it cannot name a party or a job.
///
/// # Errors
/// With what a name may be.
pub fn check_name(field: &str, name: &str) -> Result<(), SpecError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    // A name becomes the name of files and a word of commands: it neither hides a file nor looks like a flag.
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) || name.starts_with(['.', '-']) {
        let why = "use 1 to 64 letters, digits, '.', '-' and '_', with neither '.' nor '-' in front";
        let begins: String = name.chars().take(80).collect();
        return refuse(field, format!("{begins:?} is not a name: {why}"));
    }
    Ok(())
}

/// Refuses `names`, which stand in `field`, if one is there twice.
///
/// # Errors
/// With the name.
pub fn distinct(field: &str, names: &[String]) -> Result<(), SpecError> {
    let mut seen = BTreeSet::new();
    match names.iter().find(|n| !seen.insert(*n)) {
        Some(twice) => refuse(field, format!("\"{twice}\" is named twice")),
        None => Ok(()),
    }
}

/// The least that `mine.memory` may say, in bytes: 64 MiB.
pub const LEAST_MEMORY: u64 = 64 << 20;

/// The bytes that `mine.memory` means.
///
/// # Errors
/// With what would be an amount.
pub fn memory(text: &str) -> Result<u64, SpecError> {
    let bytes: bytesize::ByteSize = text.parse().map_err(|_| {
        SpecError::field(
            "mine.memory",
            format!("\"{text}\" is not an amount of memory; write \"512 MiB\" or \"8 GiB\""),
        )
    })?;
    if bytes.as_u64() < LEAST_MEMORY {
        return refuse("mine.memory", format!("\"{text}\" is too little; give at least \"64 MiB\""));
    }
    Ok(bytes.as_u64())
}

/// How `mine.output.parts` has rows cut into files.
///
/// # Errors
/// With what would be a way.
pub fn parts(text: &str) -> Result<vesica_table::Parts, SpecError> {
    if text == "files" {
        return Ok(vesica_table::Parts::Files);
    }
    let wrong = |why: &str| {
        SpecError::field(
            "mine.output.parts",
            format!("\"{text}\" is {why}; write \"files\", or a size such as \"256 MiB\""),
        )
    };
    let bytes: bytesize::ByteSize = text.parse().map_err(|_| wrong("no way to cut rows into files"))?;
    match bytes.as_u64() {
        0..LEAST_PART => Err(wrong("too little for a file, and 1 MiB is the least")),
        bytes => Ok(vesica_table::Parts::Bytes(bytes)),
    }
}

/// The least that a part of an output may be to have, in bytes: 1 MiB.
const LEAST_PART: u64 = 1 << 20;

/// The time that `mine.patience` means.
///
/// # Errors
/// With what would be a duration.
pub fn patience(text: &str) -> Result<Duration, SpecError> {
    let wrong = |why| SpecError::field("mine.patience", format!("\"{text}\" {why}; write \"90s\" or \"10m\""));
    match humantime::parse_duration(text) {
        Err(error) => Err(wrong(format!("is not a duration ({error})"))),
        Ok(patience) if patience.is_zero() => Err(wrong("is too short to meet anybody".to_owned())),
        Ok(patience) => Ok(patience),
    }
}

/// The rules, which stand in `field`, of each of `columns` key columns.
///
/// # Errors
/// If there are lists for another number of columns.
pub fn rules(field: &str, rules: &Rules, columns: usize) -> Result<Vec<Vec<Rule>>, SpecError> {
    match rules {
        Rules::All(rules) => Ok(vec![rules.clone(); columns]),
        Rules::Each(lists) if lists.len() == columns => Ok(lists.clone()),
        Rules::Each(lists) => {
            refuse(field, format!("{} lists for {columns} key columns; give one for each, or one for all", lists.len()))
        }
    }
}

/// How many threads or units are at work at once; what is `usual` for this machine's cores where nothing is given.
///
/// # Errors
/// With how many there may be.
pub fn workers(given: Option<u32>, usual: impl FnOnce(u32) -> u32) -> Result<u32, SpecError> {
    match given {
        Some(0) => refuse("mine.workers", "0 workers; give 1 or more, or leave it out"),
        Some(n) if n > 1024 => refuse("mine.workers", format!("{n} workers; the most is 1024")),
        Some(n) => Ok(n),
        None => Ok(usual(std::thread::available_parallelism().map_or(2, |n| n.get() as u32))),
    }
}
