//! The folders of whoever builds. Messages of panics hold the paths of sources, and those begin with a folder that names a person. So
//! the compiler writes other names in their place, and a check reads every file that is published.

use crate::{Chore, output, root};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of this machine.
pub struct Paths {
    /// Folders with sources, and what stands in their place. Of two that hold a file, the later one is taken.
    sources: Vec<(PathBuf, String)>,
    /// What no published file may hold: these folders and the home.
    private: BTreeSet<String>,
}

impl Paths {
    /// The folders of this build. `metadata` is what `cargo metadata` prints, and `rustc` what `rustc -vV` does.
    pub fn of(metadata: &str, rustc: &str) -> Result<Self, String> {
        let metadata: serde_json::Value = serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
        let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no folder of the target")?;
        let commit = rustc.lines().find_map(|line| line.strip_prefix("commit-hash: "));
        let commit = commit.ok_or("rustc -vV names no commit")?;
        let home = env::var_os("HOME").map(PathBuf::from);
        let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".cargo")));
        let sysroot = PathBuf::from(output("rustc", &["--print", "sysroot"])?.trim());
        let mut sources = vec![(PathBuf::from(target), "/target".to_owned()), (root(), "/vesica".to_owned())];
        sources.extend(cargo.map(|cargo| (cargo, "/cargo".to_owned())));
        // What the standard library itself says of its sources; they are on this machine only where `rust-src` was installed.
        sources.push((sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{commit}")));
        Ok(Self::new(sources, home.into_iter().chain([sysroot]).collect()))
    }

    fn new(sources: Vec<(PathBuf, String)>, others: Vec<PathBuf>) -> Self {
        let folders = sources.iter().map(|(folder, _)| folder).chain(&others);
        // A folder may be reached by a link, and either name may be written down.
        let named = folders.flat_map(|folder| [Some(folder.clone()), folder.canonicalize().ok()]).flatten();
        // "/" is nobody's, though it is the home of some users in containers.
        let private = named.filter_map(|folder| Some(format!("{}/", folder.to_str()?.trim_end_matches('/'))));
        Self { private: private.filter(|folder| folder != "/").collect(), sources }
    }

    /// What `CARGO_ENCODED_RUSTFLAGS` has to be: the flags that the environment has already, and ours.
    pub fn flags(&self) -> String {
        let [encoded, plain] = ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"].map(|name| env::var(name).unwrap_or_default());
        // Cargo takes the second only where there is no first.
        let mut flags: Vec<String> = match encoded.is_empty() {
            true => plain.split_whitespace().map(str::to_owned).collect(),
            false => encoded.split('\x1f').map(str::to_owned).collect(),
        };
        flags.extend(
            self.sources.iter().map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display())),
        );
        flags.join("\x1f")
    }

    /// Reads a file, or every file of a folder.
    ///
    /// # Errors
    /// If one of them holds the name of a private folder.
    pub fn are_not_in(&self, place: &Path) -> Chore {
        let wrong = |error| format!("{}: {error}", place.display());
        if place.is_dir() {
            let mut entries = fs::read_dir(place).map_err(wrong)?;
            return entries.try_for_each(|entry| self.are_not_in(&entry.map_err(wrong)?.path()));
        }
        let bytes = fs::read(place).map_err(wrong)?;
        let text = String::from_utf8_lossy(&bytes);
        for folder in &self.private {
            if let Some((at, _)) = text.match_indices(folder.as_str()).next() {
                let shown: String = text[at..].chars().take_while(|c| !c.is_control()).take(100).collect();
                return Err(format!(
                    "{} holds the name of a folder of this machine, {folder}: {shown:?}. It must not be published so",
                    place.display()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_names_the_builders_folder_is_refused() {
        let dir = env::temp_dir().join(format!("xtask-paths-{}", std::process::id()));
        fs::create_dir_all(dir.join("man")).unwrap();
        let paths =
            Paths::new(vec![("/home/ada/.cargo".into(), "/cargo".into())], vec!["/home/ada".into(), "/".into()]);
        let write = |text: &[u8]| fs::write(dir.join("man/vesica"), text).unwrap();
        write(b"\x7fELF\xff /cargo/registry/a.rs and /home/ad and /home/adam/b.rs\0");
        paths.are_not_in(&dir).unwrap();
        write(b"\x7fELF\xff\xfe/home/ada/src/b.rs\0more");
        let refused = paths.are_not_in(&dir).unwrap_err();
        assert!(refused.contains("\"/home/ada/src/b.rs\"") && refused.contains("man/vesica"), "{refused}");
        write(b"/home/ada/.cargo/registry/c.rs");
        assert!(paths.are_not_in(&dir).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The compiler is given every folder, and writes another name: a program that panics in a file of a folder is compiled.
    #[test]
    fn the_compiler_writes_other_names() {
        let dir = env::temp_dir().join(format!("xtask-remap-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("main.rs");
        fs::write(&file, "fn main() { print!(\"{}\", file!()) }").unwrap();
        let built = |paths: Option<&Paths>| {
            let program = dir.join("program");
            let mut rustc = std::process::Command::new("rustc");
            rustc.arg(&file).arg("-o").arg(&program);
            if let Some(paths) = paths {
                rustc.args(paths.flags().split('\x1f'));
            }
            assert!(rustc.status().unwrap().success());
            output(program.to_str().unwrap(), &[]).unwrap()
        };
        assert_eq!(built(None), file.to_str().unwrap());
        let paths = Paths::new(vec![(dir.clone(), "/vesica".into())], Vec::new());
        assert_eq!(built(Some(&paths)), "/vesica/main.rs");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_folders_of_this_build_are_known() {
        let paths = Paths::of(r#"{"target_directory": "/elsewhere/target"}"#, "rustc 1\ncommit-hash: 0123\n").unwrap();
        assert!(paths.flags().contains("=/elsewhere/target=/target"), "{}", paths.flags());
        assert!(paths.flags().contains("lib/rustlib/src/rust=/rustc/0123"), "{}", paths.flags());
        assert!(paths.private.contains(&format!("{}/", root().display())));
        assert!(Paths::of("{}", "commit-hash: 0123").is_err());
    }
}
