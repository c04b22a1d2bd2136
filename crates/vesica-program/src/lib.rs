//! What the system does for others of this house: programs of this user's that are started for what they print, such as an export of a database or
//! a client of a vault, and files that are to be there after a failure of power ([`on_disk`]). What is made of what a program prints, and how long
//! it is waited for, is the caller's business.

#![forbid(unsafe_code)]

pub mod on_disk;
mod said;

pub use said::{Said, printable};

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// Passphrases of vesica's own, which are none of another program's business.
pub const OURS: [&str; 2] = ["VESICA_RESUME_PASSPHRASE", "VESICA_SERVICE_PASSPHRASE"];

/// A program that runs. It is killed if it is still there when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// What it prints, for whoever takes it.
    pub stdout: Option<ChildStdout>,
    /// What it says beside that.
    pub said: Said,
}

impl Running {
    /// Starts what `words` are, its name or path and its arguments; no shell reads them. It works in `folder`, where a path of several parts
    /// starts too, while a name is looked up as always; in this process's own if there is none. Nothing stands in its standard input. Of this
    /// process's environment it has all but the passphrases that are for vesica.
    ///
    /// # Errors
    /// If there are no words, the system does not start it, or has no thread that listens to what it says.
    pub fn start(words: &[String], folder: Option<&Path>) -> io::Result<Self> {
        let (name, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = match (folder, Path::new(name)) {
            (Some(folder), path) if path.components().count() > 1 => {
                // The system would look for a relative one from the folder that the program is to work in.
                Command::new(std::path::absolute(folder)?.join(path))
            }
            (_, path) => Command::new(path),
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        folder.iter().for_each(|folder| _ = command.current_dir(folder));
        OURS.iter().for_each(|name| _ = command.env_remove(name));
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // From here on it is killed if this does not come to its end.
        let mut running = Self { child, stdout, said: Said::default() };
        if let Some(stderr) = stderr {
            running.said = Said::by(stderr, |_| ())?;
        }
        Ok(running)
    }

    /// How it has ended; none if it has not.
    ///
    /// # Errors
    /// Those of the system; none is known.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends it, and says whether it has ended: one of another user, such as sudo's, cannot be killed, and goes on.
    pub fn stop(&mut self) -> bool {
        let has_ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        has_ended(&mut self.child) || self.child.kill().is_ok() && self.child.wait().is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How a program ended that did not end well, as words behind its name.
pub fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// What a program prints, and how it ends.
    fn printed(words: &[String], folder: Option<&Path>) -> (String, ExitStatus) {
        let mut running = Running::start(words, folder).unwrap();
        let mut text = String::new();
        running.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = running.child.wait().unwrap();
        assert_eq!(running.ended().unwrap(), Some(status));
        (text, status)
    }

    #[test]
    fn a_program_starts_and_works_in_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        let path = dir.path().join("bin/show");
        fs::write(&path, "#!/bin/sh\ncat \"$1\"\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        fs::write(dir.path().join("kept"), "here").unwrap();
        assert_eq!(printed(&words(&["bin/show", "kept"]), Some(dir.path())).0, "here");
        assert_eq!(printed(&words(&["printf", "%s", "$HOME"]), None).0, "$HOME");
        assert!(Running::start(&words(&["bin/show"]), None).is_err() && Running::start(&[], None).is_err());
        // By a folder that is named from where this process works.
        let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        let relative = up.join(dir.path().strip_prefix("/").unwrap());
        assert!(relative.is_relative());
        assert_eq!(printed(&words(&["bin/show", "kept"]), Some(&relative)).0, "here");
    }

    #[test]
    fn how_a_program_ended_is_told() {
        for (script, told) in [
            ("exit 7", "failed with exit code 7"),
            ("kill -9 $$", "was ended by signal 9"),
            ("kill -15 $$", "was ended by signal 15"),
        ] {
            assert_eq!(how(printed(&words(&["sh", "-c", script]), None).1), told);
        }
    }

    #[test]
    fn a_program_that_nobody_wants_is_killed() {
        let mut running = Running::start(&words(&["sh", "-c", "echo begun; exec sleep 600"]), None).unwrap();
        let mut out = running.stdout.take().unwrap();
        let mut begun = [0; 6];
        out.read_exact(&mut begun).unwrap();
        assert_eq!(running.ended().unwrap(), None);
        drop(running);
        // Its end closes what it prints to.
        assert_eq!(out.read(&mut begun).unwrap(), 0);
    }

    /// Passphrases stand in the environment of the process itself, so it is a process of its own that this looks at.
    #[test]
    fn a_program_is_not_told_our_passphrases() {
        const INNER: &str = "VESICA_TEST_OF_PASSPHRASES";
        if std::env::var_os(INNER).is_some() {
            let script = "echo \"${VESICA_RESUME_PASSPHRASE-}${VESICA_SERVICE_PASSPHRASE-}$KEPT\"";
            assert_eq!(printed(&words(&["sh", "-c", script]), None).0, "kept\n");
            return;
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "tests::a_program_is_not_told_our_passphrases"]);
        again.env(INNER, "1").env("KEPT", "kept").envs(OURS.map(|name| (name, "hunter2")));
        let ended = again.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    }
}
