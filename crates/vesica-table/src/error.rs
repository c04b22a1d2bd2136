use std::io;
use std::path::{Path, PathBuf};
pub use vesica_program::on_disk::folder;

/// Whose fault an error of this crate is. The job maps it to its own, and so to the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The job asks for what cannot be: a column that is not there, a folder that cannot be written.
    Config,
    /// The data: an unreadable, malformed or changed file.
    Input,
    /// This program.
    Bug,
}

/// What goes wrong with tables. Messages name the file, the place in it and the remedy, and never a key's value.
///
/// Rows are counted from 1 and without the header; lines from 1 with it, so a row that contains newlines moves the two
/// further apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say what the fields are
pub enum Error {
    /// The input does not exist.
    #[error("{}: no such file", path.display())]
    Missing { path: PathBuf },
    /// A path is a folder.
    #[error("{} is a folder; name a file{}", path.display(), if *fault == Fault::Config { ", or say by parts how rows are cut into several" } else { "" })]
    Folder { path: PathBuf, fault: Fault },
    /// The operating system forbids it.
    #[error("{}: no permission to {verb} it; change its mode or its owner, or run as another user", path.display())]
    Denied { path: PathBuf, verb: &'static str, fault: Fault },
    /// Several files were named, and there are none.
    #[error("{}: no file is there; {remedy}", path.display())]
    NoFiles { path: PathBuf, remedy: &'static str },
    /// A part of a table that is no plain file.
    #[error("{} is a device, a pipe or a socket; a table of several files takes plain files only", path.display())]
    NotPlain { path: PathBuf },
    /// Several files that cannot be listed.
    #[error("{} {why}", path.display())]
    Listing { path: PathBuf, why: String },
    /// A file of several that has other columns.
    #[error("{}: column {column:?} {why}; all files of a table have the same columns of the same types, in one order", path.display())]
    Differs { path: PathBuf, column: String, why: String },
    /// A program that cannot be started.
    #[error("mine.input.command: cannot start {program:?}: {source}; name a program that is installed, or its path")]
    Program { program: String, source: io::Error },
    /// A program that failed.
    #[error("mine.input.command: {program:?} {how}{said}")]
    Failed { program: String, how: String, said: String },
    /// Whoever wanted it does not any more.
    #[error("{}: reading it was stopped", path.display())]
    Stopped { path: PathBuf },
    /// Neither the job nor the name says what is in a file.
    #[error(
        "{}: the name does not say what format it has; end it in .csv, .csv.gz, .csv.zst, .parquet, .arrow, .feather \
         or .ipc, or set format to csv, parquet or arrow",
        path.display()
    )]
    Unnamed { path: PathBuf },
    /// The content is not what the name or the job says.
    #[error("{} is read as {named} but holds {found}; {remedy}", path.display())]
    Mislabelled { path: PathBuf, named: &'static str, found: &'static str, remedy: &'static str },
    /// A CSV without a first line.
    #[error("{} has no header: its first line must name the columns", path.display())]
    NoHeader { path: PathBuf },
    /// A CSV whose column names are not UTF-8.
    #[error("{}: the name of column {place} is not UTF-8; convert the file to UTF-8", path.display())]
    HeaderText { path: PathBuf, place: usize },
    /// A row with more or fewer fields than the header.
    #[error(
        "{}: row {row} (line {line}) has {got} fields where the header has {want}; quote fields that contain commas, quotes or newlines",
        path.display()
    )]
    Fields { path: PathBuf, row: u64, line: u64, got: usize, want: usize },
    /// A quoted field that never ends.
    #[error("{}: a quote opened in {} is never closed", path.display(), begun(*row, *line))]
    Quote { path: PathBuf, row: u64, line: u64 },
    /// A row beyond the bound on rows.
    #[error("{}: {} is longer than {} MiB; is a quote left open?", path.display(), begun(*row, *line), limit >> 20)]
    TooLong { path: PathBuf, row: u64, line: u64, limit: usize },
    /// Bytes that are not UTF-8 where text is needed.
    #[error("{}: column {column:?} of row {row} (line {line}) is not UTF-8; convert the file to UTF-8", path.display())]
    NotText { path: PathBuf, row: u64, line: u64, column: String },
    /// A column that is not there.
    #[error("{}", no_column(path, name, nearest.as_deref(), columns))]
    Column { path: PathBuf, name: String, nearest: Option<String>, columns: Vec<String> },
    /// A column name that stands more than once in the header.
    #[error("{}: {} columns are called {name:?} (columns {}); rename all but one", path.display(), places.len(), list(places))]
    Ambiguous { path: PathBuf, name: String, places: Vec<usize> },
    /// A column of a type that cannot be a key.
    #[error("{}: column {column:?} has type {kind}, which cannot be a key: {remedy}", path.display())]
    KeyType { path: PathBuf, column: String, kind: String, remedy: &'static str },
    /// A column of a type that has no text.
    #[error("{}: column {column:?} has type {kind}, which has no one spelling as text; leave it out", path.display())]
    ValueType { path: PathBuf, column: String, kind: String },
    /// A column of a type that the output format cannot hold.
    #[error("{}: column {column:?} has type {kind}, which {format} cannot hold; write Parquet or Arrow", path.display())]
    OutputType { path: PathBuf, column: String, kind: String, format: &'static str },
    /// What stands beside a row and cannot be had.
    #[error("{0}")]
    Beside(String),
    /// A file that is truncated or damaged.
    #[error("{} is damaged or incomplete: {why}", path.display())]
    Corrupt { path: PathBuf, why: String },
    /// The input is not what it was.
    #[error("{} changed while it was being read ({what}); run again when nothing writes to it", path.display())]
    Changed { path: PathBuf, what: String },
    /// The output would replace the input.
    #[error("output {} is the input {}; choose another output", output.display(), input.display())]
    Overwrite { input: PathBuf, output: PathBuf },
    /// The output would be a part of the input when that is read again.
    #[error("output {} would be one of the files of the input {}; choose another folder", output.display(), input.display())]
    Within { input: PathBuf, output: PathBuf },
    /// The output's folder does not exist.
    #[error("{}: the folder {} does not exist; create it first", path.display(), folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    /// The output exists and is no plain file.
    #[error("{} is {what}; an output must be a new or a plain file", path.display())]
    NotAFile { path: PathBuf, what: &'static str },
    /// An output of several files is no folder.
    #[error("{} is {what}, and an output of several files (parts) needs a folder; name a new one", path.display())]
    NotAFolder { path: PathBuf, what: &'static str },
    /// The folder of an output of several files holds something.
    #[error(
        "{}: is a folder that is not empty; empty it, or name another one. If it has the rows of a run that was killed at its end and is to go on \
         by mine.resume, move them away: the run writes them again",
        path.display()
    )]
    NotEmpty { path: PathBuf },
    /// The input has no files for the parts of the output.
    #[error("{}: a part for each file of the input needs an input of files; give parts a size", path.display())]
    NoParts { path: PathBuf },
    /// Only CSV can be written to standard output.
    #[error("standard output takes CSV only; name a file for {format}")]
    Stdout { format: &'static str },
    /// Shares are bits and words, and not text.
    #[error("{}: shares are written as Parquet or Arrow; name such a file, as in shares.parquet", path.display())]
    Shares { path: PathBuf },
    /// No room left.
    #[error("no space left on the disk (or quota or file size limit reached) while writing {}", path.display())]
    DiskFull { path: PathBuf },
    /// Anything else that the operating system reports.
    #[error("{}: cannot {verb} it: {source}", path.display())]
    Io { path: PathBuf, verb: &'static str, fault: Fault, source: io::Error },
    /// This program broke a rule of its own.
    #[error("a bug in Vesica: {0}; please report it")]
    Bug(String),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Folder { fault, .. } | Error::Denied { fault, .. } | Error::Io { fault, .. } => *fault,
            Error::Missing { .. }
            | Error::NoFiles { .. }
            | Error::NotPlain { .. }
            | Error::Listing { .. }
            | Error::Differs { .. }
            | Error::Failed { .. }
            | Error::Stopped { .. }
            | Error::Mislabelled { .. }
            | Error::NoHeader { .. }
            | Error::HeaderText { .. }
            | Error::Fields { .. }
            | Error::Quote { .. }
            | Error::TooLong { .. }
            | Error::NotText { .. }
            | Error::Corrupt { .. }
            | Error::Changed { .. }
            | Error::Beside(_) => Fault::Input,
            Error::Unnamed { .. }
            | Error::Program { .. }
            | Error::Shares { .. }
            | Error::Column { .. }
            | Error::Ambiguous { .. }
            | Error::KeyType { .. }
            | Error::ValueType { .. }
            | Error::OutputType { .. }
            | Error::Overwrite { .. }
            | Error::Within { .. }
            | Error::NoFolder { .. }
            | Error::NotAFile { .. }
            | Error::NotAFolder { .. }
            | Error::NotEmpty { .. }
            | Error::NoParts { .. }
            | Error::Stdout { .. }
            | Error::DiskFull { .. } => Fault::Config,
            Error::Bug(_) => Fault::Bug,
        }
    }

    /// What `error` means when it comes from reading `path`.
    pub(crate) fn reading(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Error::Missing { path },
            io::ErrorKind::PermissionDenied => Error::Denied { path, verb: "read", fault: Fault::Input },
            io::ErrorKind::IsADirectory => Error::Folder { path, fault: Fault::Input },
            _ => Error::Io { path, verb: "read", fault: Fault::Input, source: error },
        }
    }

    /// What `error` means when it comes from writing to or at `path`.
    pub(crate) fn writing(path: &Path, error: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, IsADirectory, NotFound, PermissionDenied, QuotaExceeded, StorageFull};
        let owned = path.to_owned();
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Error::DiskFull { path: owned },
            PermissionDenied => Error::Denied { path: owned, verb: "write", fault: Fault::Config },
            IsADirectory => Error::Folder { path: owned, fault: Fault::Config },
            NotFound => Error::NoFolder { folder: folder(path), path: owned },
            _ => Error::Io { path: owned, verb: "write", fault: Fault::Config, source: error },
        }
    }
}

/// How messages name a row that may be the header, which is row 0, and may go over several lines.
fn begun(row: u64, line: u64) -> String {
    if row == 0 { "the header".into() } else { format!("row {row} (which begins on line {line})") }
}

fn list(places: &[usize]) -> String {
    places.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn no_column(path: &Path, name: &str, nearest: Option<&str>, columns: &[String]) -> String {
    /// A table may have thousands of columns; a message may not.
    const SHOWN: usize = 20;
    let mut text = format!("{} has no column {name:?}", path.display());
    text.push_str(&match nearest {
        Some(nearest) => format!("; did you mean {nearest:?}? Its columns are "),
        None => "; its columns are ".to_owned(),
    });
    let shown: Vec<_> = columns.iter().take(SHOWN).map(|c| format!("{c:?}")).collect();
    text.push_str(&shown.join(", "));
    if columns.len() > SHOWN {
        text.push_str(&format!(" and {} more", columns.len() - SHOWN));
    }
    if let [only] = columns
        && let Some(separator) = [';', '\t', '|'].into_iter().find(|s| only.contains(*s))
    {
        text.push_str(&format!(" (fields must be separated by commas, not {separator:?})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_column_is_told_with_its_neighbours() {
        let columns: Vec<String> = ["id", "name"].map(String::from).to_vec();
        let error = Error::Column { path: "a.csv".into(), name: "idd".into(), nearest: Some("id".into()), columns };
        assert_eq!(
            error.to_string(),
            "a.csv has no column \"idd\"; did you mean \"id\"? Its columns are \"id\", \"name\""
        );
        assert_eq!(error.fault(), Fault::Config);
    }

    #[test]
    fn another_separator_is_guessed() {
        let columns = vec!["id;name".to_owned()];
        let error = Error::Column { path: "a.csv".into(), name: "id".into(), nearest: None, columns };
        assert!(error.to_string().ends_with("(fields must be separated by commas, not ';')"), "{error}");
    }

    #[test]
    fn a_full_disk_is_the_jobs_fault_and_not_a_bug() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
            let error = Error::writing(Path::new("out.csv"), kind.into());
            assert!(matches!(error, Error::DiskFull { .. }));
            assert_eq!(error.fault(), Fault::Config);
        }
    }
}
