//! Where a table comes from.

use std::path::{Path, PathBuf};

/// Where a table comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Standard input.
    Stdin,
    /// A file; all files in a folder; or all that a pattern with `*`, `?`, `[…]` or `**` names.
    Path(PathBuf),
    /// Several of these, which are one table.
    Paths(Vec<PathBuf>),
    /// What a program writes to its standard output.
    Command(Program),
}

/// A program to start. It is started as it is: no shell comes between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its name or path, then its arguments.
    pub args: Vec<String>,
    /// The folder that it works in; this process's own if `None`.
    pub folder: Option<PathBuf>,
}

impl Program {
    /// Its name.
    pub fn name(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }
}

impl Origin {
    /// A path as it is written in a job, or on a command line: `-` is standard input.
    pub fn of(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        if path == Path::new("-") { Origin::Stdin } else { Origin::Path(path) }
    }

    /// What messages call it.
    pub fn name(&self) -> PathBuf {
        match self {
            Origin::Stdin => "standard input".into(),
            Origin::Path(path) => path.clone(),
            Origin::Paths(paths) => match paths.as_slice() {
                [] => "no files".into(),
                [one] => one.clone(),
                [first, others @ ..] => format!("{} and {} more", first.display(), others.len()).into(),
            },
            Origin::Command(program) => format!("the output of {}", program.name()).into(),
        }
    }

    /// Whether it is there to be read another time: what comes through a pipe is not.
    pub fn lasts(&self) -> bool {
        matches!(self, Origin::Path(_) | Origin::Paths(_))
    }

    /// Makes relative paths start at `folder`, and a program work in it.
    pub fn anchor(&mut self, folder: &Path) {
        match self {
            Origin::Command(program) if folder != Path::new("") => program.folder = Some(folder.to_owned()),
            other => other.paths().iter_mut().for_each(|path| *path = folder.join(&*path)),
        }
    }

    /// Takes back [`Origin::anchor`]: what is below `folder` is named from there.
    pub fn unanchor(&mut self, folder: &Path) {
        match self {
            Origin::Command(program) => program.folder = program.folder.take().filter(|at| at != folder),
            other => other.paths().iter_mut().for_each(|path| unanchor(path, folder)),
        }
    }

    /// The paths; none of standard input and of a program.
    pub fn paths(&mut self) -> &mut [PathBuf] {
        match self {
            Origin::Stdin | Origin::Command(_) => &mut [],
            Origin::Path(path) => std::slice::from_mut(path),
            Origin::Paths(paths) => paths,
        }
    }
}

/// Names a path that is below `folder` from there.
pub fn unanchor(path: &mut PathBuf, folder: &Path) {
    if let Ok(below) = path.strip_prefix(folder) {
        *path = if below.as_os_str().is_empty() { ".".into() } else { below.to_owned() };
    }
}
