//! Several files that are one table: which they are, in which order, and that they stay what they were.
//!
//! A folder stands for all files in it and in its folders. Names that begin with `.` or `_` are passed over, as other programs
//! that read such folders do: these are notes about the data, such as `_SUCCESS`. A pattern stands for the files and folders
//! whose names fit it. All files are read in the order of their paths, folder by folder.

use crate::source::Stamp;
use crate::{Error, Format, Source};
use glob::{MatchOptions, Pattern};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The most files of a table, and the most names that are looked at for them.
const MOST_FILES: usize = 100_000;
const MOST_NAMES: usize = 2_000_000;

/// How deeply folders may be nested.
const DEEPEST: usize = 64;

/// How a name is matched: `*` takes no name that begins with a dot.
const MATCH: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A file of a table.
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    /// Its path from the folder that was named, or its name.
    name: PathBuf,
    /// Where its bytes begin among those of all files.
    pub(crate) start: u64,
    pub(crate) stamp: Stamp,
}

/// The files of a table, in order.
pub(crate) struct Listing {
    /// What was named.
    named: Vec<PathBuf>,
    pub(crate) files: Vec<Listed>,
    /// The names and sizes of all files.
    list: Vec<u8>,
}

/// What a path stands for.
pub(crate) enum Kind {
    /// What can be opened as it is.
    File,
    /// Several files, or none.
    Several,
}

/// What `path` stands for. A name that is there is no pattern, whatever letters are in it.
pub(crate) fn kind(path: &Path) -> Result<Kind, Error> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(Kind::Several),
        Ok(_) => Ok(Kind::File),
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.components().any(is_pattern) => Ok(Kind::Several),
        Err(error) => Err(Error::reading(path, error)),
    }
}

fn is_pattern(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(name) if name.to_string_lossy().contains(['*', '?', '[']))
}

impl Listing {
    /// The files that `named` stand for.
    ///
    /// # Errors
    /// If there are none, or too many; a file that is named twice, or is none; a link that leads round in a circle.
    pub(crate) fn of(named: &[PathBuf]) -> Result<Self, Error> {
        let mut walk = Walk { names: 0, found: BTreeSet::new() };
        let mut all = BTreeSet::new();
        for path in named {
            match kind(path)? {
                Kind::File => walk.file(path.clone(), name_of(path), &fs::metadata(path))?,
                Kind::Several if path.is_dir() => walk.folder(path, Path::new(""), &mut Vec::new())?,
                Kind::Several => walk.pattern(path)?,
            }
            if walk.found.is_empty() {
                let folder = "put files into the folder, or name another; names that begin with . or _ are passed over";
                let remedy = if path.is_dir() { folder } else { "see whether the pattern is as it should be" };
                return Err(Error::NoFiles { path: path.clone(), remedy });
            }
            for found in std::mem::take(&mut walk.found) {
                if let Some((path, _)) = all.replace(found) {
                    let why = "is named twice; its rows would count twice: name it once".to_owned();
                    return Err(Error::Listing { path, why });
                }
            }
        }
        let (mut files, mut list, mut start) = (Vec::with_capacity(all.len()), Vec::new(), 0);
        let mut seen: HashMap<(u64, u64), PathBuf> = HashMap::new();
        for (path, name) in all {
            let meta = fs::metadata(&path).map_err(|e| Error::reading(&path, e))?;
            let stamp = Stamp::of(&meta);
            if let Some(other) = seen.insert(stamp.identity(), path.clone()) {
                let why = format!("is the same file as {}; its rows would count twice: name one", other.display());
                return Err(Error::Listing { path, why });
            }
            list.extend_from_slice(format!("\n{} bytes: {}", stamp.bytes(), name.display()).as_bytes());
            files.push(Listed { path, name, start, stamp });
            start += stamp.bytes();
        }
        if files.is_empty() {
            return Err(Error::NoFiles {
                path: "mine.input.path".into(),
                remedy: "name a file, a folder or a pattern",
            });
        }
        Ok(Self { named: named.to_vec(), files, list })
    }

    /// Bytes of all files, and of the list of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of_files() + self.list.len() as u64
    }

    pub(crate) fn bytes_of_files(&self) -> u64 {
        self.files.last().map_or(0, |last| last.start + last.stamp.bytes())
    }

    /// Some bytes of the files, one after the other, and then of the list.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let end = self.bytes_of_files();
        if let Some(at) = offset.checked_sub(end) {
            let rest = self.list.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            return Ok(n);
        }
        // The last one that begins there or before: those behind empty files begin at the same place.
        let place = self.files.partition_point(|file| file.start <= offset) - 1;
        let file = &self.files[place];
        let at = offset - file.start;
        let most = usize::try_from(file.stamp.bytes() - at).unwrap_or(usize::MAX).min(buf.len());
        let n = file.open()?.read_at(&mut buf[..most], at)?;
        if n == 0 && most > 0 {
            let what = format!("it had {} bytes and now ends at {at}", file.stamp.bytes());
            return Err(Error::Changed { path: file.path.clone(), what });
        }
        Ok(n)
    }

    /// Whether the same files stand there, as they were.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let now = match Self::of(&self.named) {
            Ok(now) => now,
            Err(error) => {
                let path = self.named.first().cloned().unwrap_or_default();
                return Err(Error::Changed { path, what: format!("its files cannot be listed any more: {error}") });
            }
        };
        let changed = |path: &Path, what: &str| Err(Error::Changed { path: path.to_owned(), what: what.to_owned() });
        let mut left = now.files.iter().peekable();
        for file in &self.files {
            match left.next() {
                Some(other) if other.path == file.path => other.stamp.differs(&file.stamp, &file.path)?,
                Some(other) if other.path < file.path => return changed(&other.path, "it was not there before"),
                _ => return changed(&file.path, "it is not there any more"),
            }
        }
        left.next().map_or(Ok(()), |new| changed(&new.path, "it was not there before"))
    }

    /// Whether a file that came to stand at `path` would be listed.
    pub(crate) fn would_hold(&self, path: &Path) -> bool {
        let Some(path) = place(path) else { return false };
        self.named.iter().any(|named| match named.canonicalize() {
            Ok(there) if there.is_dir() => path.strip_prefix(&there).is_ok_and(|below| !below.iter().any(passed_over)),
            Ok(_) => false,
            Err(_) => {
                let (base, pattern) = parted(named);
                let below = base.canonicalize().ok().and_then(|base| path.strip_prefix(base).map(Path::to_owned).ok());
                below.is_some_and(|below| fits(&pattern, &below.iter().map(Path::new).collect::<Vec<_>>()))
            }
        })
    }

    /// Words and values of the folders `word=value` that each file stands in; every file has the same words.
    pub(crate) fn folders(&self) -> Result<(Vec<String>, Vec<Values>), Error> {
        let of = |file: &Listed| -> Vec<(String, Option<String>)> {
            let folders = file.name.parent().into_iter().flat_map(Path::components);
            folders.filter_map(|folder| key_and_value(&folder.as_os_str().to_string_lossy())).collect()
        };
        let first = self.files.first().map(of).unwrap_or_default();
        let keys: Vec<String> = first.into_iter().map(|(key, _)| key).collect();
        let values = self.files.iter().map(|file| {
            let own = of(file);
            if own.iter().map(|(key, _)| key).eq(&keys) {
                return Ok(own.into_iter().map(|(_, value)| value).collect());
            }
            let other = self.files.first().map(|first| first.path.display().to_string()).unwrap_or_default();
            let why = format!(
                "does not stand in folders of the same names as {other}, such as year=2026; put all files into such folders, or none"
            );
            Err(Error::Listing { path: file.path.clone(), why })
        });
        let values = values.collect::<Result<_, _>>()?;
        Ok((keys, values))
    }
}

/// The file or folder that `path` means, by whatever name: without links and dots. It may still be to be made, as may the folders that it is in. None
/// for what is no name, such as `..` of a folder that is not there.
pub fn place(path: &Path) -> Option<PathBuf> {
    let made = || path.file_name().and_then(|name| Some(place(&crate::error::folder(path))?.join(name)));
    path.canonicalize().ok().or_else(made)
}

/// What stands behind `=` in the names of the folders around a file; none for a null.
type Values = Vec<Option<String>>;

impl Listed {
    /// The file, if it is still what it was.
    pub(crate) fn open(&self) -> Result<std::sync::Arc<Source>, Error> {
        let source = match Source::plain(&self.path) {
            Err(Error::Missing { path }) => {
                return Err(Error::Changed { path, what: "it is not there any more".to_owned() });
            }
            source => source?,
        };
        source.stamp().map_or(Ok(()), |now| now.differs(&self.stamp, &self.path))?;
        Ok(source)
    }
}

/// `key=value`, as Hive and Spark name folders: odd letters stand there as `%2F`, and a null has a name of its own.
fn key_and_value(folder: &str) -> Option<(String, Option<String>)> {
    let (key, value) = folder.split_once('=').filter(|(key, _)| !key.is_empty())?;
    Some((plain(key), (value != "__HIVE_DEFAULT_PARTITION__").then(|| plain(value))))
}

/// Text without its escapes; text that does not become UTF-8 stays as it is.
fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = |hex: &&[u8; 2]| *first == b'%' && hex.iter().all(u8::is_ascii_hexdigit);
        let escaped = after.first_chunk::<2>().filter(digits);
        let byte = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn name_of(path: &Path) -> PathBuf {
    path.file_name().map(PathBuf::from).unwrap_or_default()
}

fn passed_over(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_")
}

/// Whether a name fits a part of a pattern. One that is passed over fits only what begins as it does.
fn matches(pattern: &Pattern, name: &Path) -> bool {
    let begins = |letter| pattern.as_str().starts_with(letter) && name.to_string_lossy().starts_with(letter);
    pattern.matches_path_with(name, MATCH) && (!passed_over(name.as_os_str()) || begins('.') || begins('_'))
}

/// The folder that a pattern begins in, and the parts of the pattern.
fn parted(path: &Path) -> (PathBuf, Vec<Pattern>) {
    let mut parts = path.components().peekable();
    let mut base = PathBuf::new();
    while let Some(part) = parts.next_if(|part| !is_pattern(*part)) {
        base.push(part);
    }
    if base.as_os_str().is_empty() {
        base.push(".");
    }
    let pattern = |part: Component<'_>| {
        let text = part.as_os_str().to_string_lossy();
        Pattern::new(&text).or_else(|_| Pattern::new(&Pattern::escape(&text)))
    };
    (base, parts.filter_map(|part| pattern(part).ok()).collect())
}

/// Whether the names from some folder on fit the parts of a pattern. What stands in a folder that fits is in the table, too.
fn fits(pattern: &[Pattern], names: &[&Path]) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, _) => !names.iter().any(|name| passed_over(name.as_os_str())),
        (Some((any, rest)), _) if any.as_str() == "**" => {
            fits(rest, names)
                || names
                    .split_first()
                    .is_some_and(|(name, below)| !passed_over(name.as_os_str()) && fits(pattern, below))
        }
        (Some(_), None) => false,
        (Some((first, rest)), Some((name, below))) => matches(first, name) && fits(rest, below),
    }
}

/// A search for files.
struct Walk {
    /// Names that were looked at.
    names: usize,
    /// Paths, and what they are from the folder that was named.
    found: BTreeSet<(PathBuf, PathBuf)>,
}

impl Walk {
    fn file(&mut self, path: PathBuf, name: PathBuf, meta: &io::Result<Metadata>) -> Result<(), Error> {
        match meta {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(Error::NotPlain { path }),
            Err(error) => return Err(Error::reading(&path, error.kind().into())),
        }
        self.found.insert((path, name));
        if self.found.len() > MOST_FILES {
            let (path, _) = self.found.pop_last().unwrap_or_default();
            let why = format!("is one of more than {MOST_FILES} files; put the rows into fewer and larger ones");
            return Err(Error::Listing { path, why });
        }
        Ok(())
    }

    /// The names in a folder, in order.
    fn names(&mut self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let reading = |e| Error::reading(folder, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(reading)? {
            names.push(PathBuf::from(entry.map_err(reading)?.file_name()));
            self.names += 1;
            if self.names > MOST_NAMES {
                let why = format!("has more than {MOST_NAMES} names in it and below; name a folder of the table's own");
                return Err(Error::Listing { path: folder.to_owned(), why });
            }
        }
        names.sort();
        Ok(names)
    }

    /// Every file below `folder`, which is `name` from the folder that was named, and stands in the folders `above`.
    fn folder(&mut self, folder: &Path, name: &Path, above: &mut Vec<(u64, u64)>) -> Result<(), Error> {
        self.enter(folder, above)?;
        for entry in self.names(folder)?.into_iter().filter(|entry| !passed_over(entry.as_os_str())) {
            let (path, name) = (folder.join(&entry), name.join(&entry));
            let meta = fs::metadata(&path);
            match &meta {
                Ok(meta) if meta.is_dir() => self.folder(&path, &name, above)?,
                meta => self.file(path, name, meta)?,
            }
        }
        above.pop();
        Ok(())
    }

    /// Goes into `folder`, unless it is one of those `above`.
    fn enter(&mut self, folder: &Path, above: &mut Vec<(u64, u64)>) -> Result<(), Error> {
        let meta = fs::metadata(folder).map_err(|e| Error::reading(folder, e))?;
        let own = (meta.dev(), meta.ino());
        let why = if above.contains(&own) {
            "is a link to a folder that it stands in, so that its files would never end; remove the link".to_owned()
        } else if above.len() >= DEEPEST {
            format!("stands more than {DEEPEST} folders deep; name a folder further down")
        } else {
            above.push(own);
            return Ok(());
        };
        Err(Error::Listing { path: folder.to_owned(), why })
    }

    fn pattern(&mut self, path: &Path) -> Result<(), Error> {
        let (base, pattern) = parted(path);
        if !base.is_dir() {
            return Err(Error::Missing { path: base });
        }
        self.matching(&base, Path::new(""), &pattern, &mut Vec::new())
    }

    /// The files and folders in `folder` that fit `pattern`.
    fn matching(
        &mut self,
        folder: &Path,
        name: &Path,
        pattern: &[Pattern],
        above: &mut Vec<(u64, u64)>,
    ) -> Result<(), Error> {
        let Some((first, rest)) = pattern.split_first() else {
            let meta = fs::metadata(folder);
            return match &meta {
                Ok(meta) if meta.is_dir() => self.folder(folder, name, above),
                meta => self.file(folder.to_owned(), name.to_owned(), meta),
            };
        };
        if !is_folder(folder)? {
            return Ok(());
        }
        let any = first.as_str() == "**";
        if any && !rest.is_empty() {
            self.matching(folder, name, rest, above)?;
        }
        self.enter(folder, above)?;
        for entry in self.names(folder)? {
            let (path, name) = (folder.join(&entry), name.join(&entry));
            if any && !passed_over(entry.as_os_str()) {
                let folder = is_folder(&path)?;
                if folder || rest.is_empty() {
                    self.matching(&path, &name, if folder { pattern } else { rest }, above)?;
                }
            } else if !any && matches(first, &entry) {
                self.matching(&path, &name, rest, above)?;
            }
        }
        above.pop();
        Ok(())
    }
}

/// Whether there is a folder at `path`. No folder that cannot be looked at is passed over in silence; a link to nothing is none.
fn is_folder(path: &Path) -> Result<bool, Error> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::reading(path, error)),
    }
}

/// The format of all `files`: what `format` says, or else their names.
pub(crate) fn format(files: &[Listed], format: Option<Format>) -> Result<Format, Error> {
    let mut found: Option<(Format, &Listed)> = None;
    for file in files.iter().filter(|_| format.is_none()) {
        let own = Format::of(&file.path).ok_or_else(|| Error::Unnamed { path: file.path.clone() })?;
        match found {
            Some((format, first)) if format != own => {
                let (own, format) = (own.name(), format.name());
                let why =
                    format!("is {own}, and {} is {format}; all files of a table have one format", first.path.display());
                return Err(Error::Listing { path: file.path.clone(), why });
            }
            Some(_) => {}
            None => found = Some((own, file)),
        }
    }
    let none = || Error::Bug("no files to tell a format by".into());
    format.or(found.map(|(format, _)| format)).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("in")).unwrap();
        fs::write(path("a"), "").unwrap();
        std::os::unix::fs::symlink(&real, path("link")).unwrap();
        std::os::unix::fs::symlink(path("a"), path("in/to a")).unwrap();
        std::os::unix::fs::symlink(path("none"), path("to none")).unwrap();
        for (name, means) in [
            ("a", Some("a")),
            ("in/../a", Some("a")),
            ("link/in/to a", Some("a")),
            ("link/./new/file", Some("new/file")),
            ("in/../in/new", Some("in/new")),
            ("to none", Some("to none")),
            // Of a folder that is not there, nobody knows what it is in.
            ("new/..", None),
        ] {
            assert_eq!(place(&path(name)), means.map(|means| real.join(means)), "{name}");
        }
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!([place(Path::new("new")), place(Path::new("."))], [Some(here.join("new")), Some(here)]);
        assert_eq!(place(Path::new("")), None);
    }
}
