//! What a run writes by name has a place of its own.
//!
//! Example: in the folder `/srv/day` the names `gained.csv` and `/srv/day/gained.csv` mean one file, and so does a link to it. Each of two such outputs
//! would be written whole, and the second take the place of the first. So places are compared, and not names.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vesica_spec::{KeyPlace, ProxyPlan, SpecError, TrustPlan};
use vesica_table::{Table, place};

/// Files that a run knows by name, each by the field that names it.
#[derive(Default)]
pub struct Places<'a> {
    files: Vec<File<'a>>,
}

/// A file, or a folder with all that is in it.
struct File<'a> {
    field: &'a str,
    path: PathBuf,
    is: Is,
}

/// What the run does with it.
#[derive(Clone, Copy, PartialEq)]
enum Is {
    Read,
    /// Others of its folder may stand beside it or in it: the run replaces no more than what it knows.
    Kept,
    Written,
}

impl<'a> Places<'a> {
    /// What the run reads.
    pub fn read(&mut self, field: &'a str, path: Option<&Path>) {
        self.add(field, path, Is::Read);
    }

    /// What the run keeps for later ones. A folder of these may hold what is read or kept, and nothing that is written anew.
    pub fn kept(&mut self, field: &'a str, path: Option<&Path>) {
        self.add(field, path, Is::Kept);
    }

    /// What the run writes anew, or others may have written before that it replaces.
    pub fn written(&mut self, field: &'a str, path: Option<&Path>) {
        self.add(field, path, Is::Written);
    }

    /// Where rows go; nowhere, if that is standard output.
    pub fn output(&mut self, field: &'a str, output: Option<&vesica_table::Output>) {
        let path = output.map(|output| &*output.path).filter(|path| *path != Path::new("-"));
        self.written(field, path);
    }

    /// The files of this party's identity, and those by which it knows others and reaches them.
    pub fn of_links(
        &mut self,
        identity: Option<&(PathBuf, Option<KeyPlace>)>,
        trust: impl Iterator<Item = &'a TrustPlan>,
        proxy: &ProxyPlan,
    ) {
        self.read("mine.tls.identity", identity.map(|(identity, _)| &**identity));
        self.read("mine.tls.key", identity.and_then(|(_, key)| key.as_ref()?.file()));
        for trust in trust {
            if let TrustPlan::Ca(file) = trust {
                self.read("mine.tls.ca", Some(file));
            }
        }
        if let ProxyPlan::Through(_, credentials) = proxy {
            self.read("mine.proxy_credentials", credentials.as_deref());
        }
    }

    fn add(&mut self, field: &'a str, path: Option<&Path>, is: Is) {
        self.files.extend(path.map(|path| File { field, path: path.to_owned(), is }));
    }

    /// Fails if one that is written is another one, is in it or holds it, or is a file of one of these tables, or would be one.
    ///
    /// # Errors
    /// The same, with the later one of the two.
    pub fn are_apart(&self, tables: &[&dyn Table]) -> Result<(), SpecError> {
        let places: Vec<_> =
            self.files.iter().map(|file| place(&file.path).unwrap_or_else(|| file.path.clone())).collect();
        let refused = |file: &File<'_>, what: &str| {
            Err(SpecError::field(file.field, format!("\"{}\" {what}; name another one", file.path.display())))
        };
        for (at, (file, place)) in self.files.iter().zip(&places).enumerate() {
            let is_met = |(other, there): &(&File<'_>, &PathBuf)| match (is_one(place, there), [file.is, other.is]) {
                (true, both) => both != [Is::Read; 2],
                (false, both) => both.contains(&Is::Written) && (is_in(place, there) || is_in(there, place)),
            };
            if let Some((other, there)) = self.files.iter().zip(&places).take(at).find(is_met) {
                let what = if is_in(place, there) { "is" } else { "holds" };
                return refused(file, &format!("{what} a file of {}", other.field));
            }
            let holds = |table: &&&dyn Table| table.facts().source.is_some_and(|source| source.holds(&file.path));
            if let Some(table) = tables.iter().filter(|_| file.is != Is::Read).find(holds) {
                let why = format!("is one of the files of the input {}, or would be one", table.path().display());
                return refused(file, &why);
            }
        }
        Ok(())
    }
}

/// Whether two places are one: the same name in the same folder, which two paths may lead to, as where it is mounted twice.
fn is_one(place: &Path, other: &Path) -> bool {
    let of = |place: &Path| {
        let folder = place.parent()?.metadata().ok()?;
        Some((folder.dev(), folder.ino(), place.file_name()?.to_owned()))
    };
    place == other || place.file_name() == other.file_name() && of(place).is_some_and(|one| of(other) == Some(one))
}

/// Whether a place is another one, or in a folder that is.
fn is_in(place: &Path, folder: &Path) -> bool {
    place.ancestors().any(|above| is_one(above, folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, Io, local};
    use std::fs;
    use std::os::unix::fs::symlink;

    fn plan(dir: &Path, mine: &str) -> vesica_spec::Plan {
        let job = format!(
            "[shared]\nid = \"apart\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\nlearns = [\"alice\"]\ninsecure = true\n\
             [mine]\nname = \"alice\"\nlisten = \"127.0.0.1:1\"\n{mine}"
        );
        vesica_spec::plan(&vesica_spec::parse(&job.replace("DIR", dir.to_str().unwrap())).unwrap()).unwrap()
    }

    /// Each file of a job, under the name of another one.
    #[test]
    fn what_a_job_writes_is_no_other_file_of_it_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let table = "id\n1\n";
        fs::create_dir(path("in")).unwrap();
        ["a.csv", "in/b.csv"].iter().for_each(|name| fs::write(path(name), table).unwrap());
        fs::create_dir(path("kept")).unwrap();
        crate::rooms::replace_privately(&path("key"), &[7; 32]).unwrap();
        symlink(dir.path(), path("link")).unwrap();
        symlink(path("r.json"), path("to r.json")).unwrap();
        fs::write(path("r.json"), "{}").unwrap();
        let (one, out) =
            ("input = { path = \"DIR/a.csv\", keys = [\"id\"] }\n", "output = { path = \"DIR/out.csv\" }\n");
        let folder = one.replace("a.csv", "in");
        let ledger = out.replace("out.csv\"", "link/kept/alice.ledger\", format = \"csv\"");
        let resume = "resume = \"DIR/kept\"\nresume_key = \"DIR/key\"\n";
        type Case<'a> = (&'a [&'a str], Option<(&'a str, &'a str)>);
        let cases: [Case<'_>; 11] = [
            (&[one, out, "report = \"DIR/link/out.csv\""], Some(("mine.report", "mine.output.path"))),
            (&[one, out, "trace = \"DIR/kept/../out.csv\""], Some(("mine.trace", "mine.output.path"))),
            (&[one, out, "report = \"DIR/r.json\"\ntrace = \"DIR/to r.json\""], Some(("mine.trace", "mine.report"))),
            (&[one, out, "report = \"DIR/link/a.csv\""], Some(("mine.report", "input"))),
            (&[one, out, "trace = \"DIR/a.csv\""], Some(("mine.trace", "input"))),
            (&[&folder, out, "report = \"DIR/link/in/r.json\""], Some(("mine.report", "input"))),
            (&[one, &ledger, resume], Some(("mine.output.path", "mine.resume"))),
            (&[one, out, resume, "report = \"DIR/link/kept/alice.units\""], Some(("mine.report", "mine.resume"))),
            (&[one, out, resume, "report = \"DIR/link/key\""], Some(("mine.report", "mine.resume_key"))),
            // What is passed over is none of the table's.
            (&[&folder, out, "report = \"DIR/in/_r.json\""], None),
            (&[one, out, resume, "report = \"DIR/kept/r.json\"\ntrace = \"DIR/link/t.json\""], None),
        ];
        for (lines, refused) in cases {
            let plan = plan(dir.path(), &lines.concat());
            let io = || Io::files(&plan).unwrap();
            if refused.is_some() {
                // Also what is written of a run that failed.
                assert!(crate::run(&plan, io(), &Control::new(())).is_err());
                let are_there =
                    ["a.csv", "in/b.csv"].iter().all(|name| fs::read_to_string(path(name)).unwrap() == table);
                assert!(
                    are_there
                        && fs::read(path("r.json")).unwrap() == b"{}"
                        && fs::read(path("key")).unwrap() == [7; 32]
                );
            }
            let opened = local::open(&plan, io(), &Control::new(())).map(drop);
            match (opened.map_err(|error| error.to_string()), refused) {
                (Ok(()), None) => {}
                (Err(error), Some((field, other))) => {
                    let is_told = error.starts_with(field) && error.contains(&format!(" of {other}"))
                        || error.contains(&format!("the {other}"));
                    assert!(is_told && error.contains("name another one"), "{lines:?}: {error}");
                }
                (opened, _) => panic!("{lines:?}: {opened:?}"),
            }
        }
    }

    /// A link stands for a second mount of the folder, which no path shows.
    #[test]
    fn a_folder_that_two_paths_lead_to_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other, third) = (dir.path().join("one"), dir.path().join("other"), dir.path().join("third"));
        [&one, &third].iter().for_each(|folder| fs::create_dir(folder).unwrap());
        symlink(&one, &other).unwrap();
        assert!(is_one(&one.join("bob.kept"), &other.join("bob.kept")));
        assert!(!is_one(&one.join("bob.kept"), &other.join("bob.csv")));
        assert!(!is_one(&one.join("bob.kept"), &third.join("bob.kept")));
        assert!(!is_one(&one.join("bob.kept"), &dir.path().join("none/bob.kept")));
        // The folder of parts is written, and something in it is another file of the job.
        fs::create_dir(one.join("day")).unwrap();
        assert!(is_in(&other.join("day/kept/bob"), &one.join("day")) && is_in(&one.join("day"), &other.join("day")));
        assert!(!is_in(&one.join("day"), &other.join("day/kept/bob")));
        assert!(!is_in(&third.join("day/kept/bob"), &one.join("day")));
    }

    /// Files of keys and certificates are replaced by nothing; they may be one.
    #[test]
    fn what_is_only_read_may_be_one_file() {
        let (pem, key) = (PathBuf::from("alice.pem"), KeyPlace::File("./alice.pem".into()));
        let ca = TrustPlan::Ca("alice.pem".into());
        let with = |report: &str| {
            let mut places = Places::default();
            places.of_links(Some(&(pem.clone(), Some(key.clone()))), [&ca].into_iter(), &ProxyPlan::None);
            places.output("mine.output.path", Some(&vesica_table::Output::new("-")));
            places.written("mine.report", Some(Path::new(report)));
            places.are_apart(&[]).map_err(|error| error.to_string())
        };
        assert_eq!(with("report.json"), Ok(()));
        let refused = with("./alice.pem").unwrap_err();
        assert!(refused.starts_with("mine.report: \"./alice.pem\" is a file of mine.tls.identity;"), "{refused}");
    }
}
