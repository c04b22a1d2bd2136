//! The static program, tried out where there is nothing else: two parties match their tables in a root folder that holds the program
//! alone, that nobody can write to, as a user who is not root and has no name. So it needs no library, no certificates, no time
//! zone, no `/etc`, no `/proc` and no `/dev`.

use crate::{Chore, output, say};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shell's part: `$0` is the root, `$1` the folder for data, the rest are arguments of the program. Mounts are seen by this
/// process alone and end with it.
const INSIDE: &str = r#"
set -e
root="$0"; data="$1"; shift
mount --bind "$root" "$root"
mount --bind "$data" "$root/data"
mount -o remount,bind,ro "$root"
if touch "$root/written" 2> /dev/null; then echo "the root is not read-only" >&2; exit 1; fi
exec env -i TMPDIR=/data "$(command -v chroot)" $USERSPEC "$root" /vesica "$@"
"#;

/// The user of the container image.
const USERSPEC: &str = "--userspec=65532:65532 --groups=65532";

/// Rows of each table, and how many of them are common.
const ROWS: [&str; 2] = ["20000", "5000"];

/// Runs two parties with `program`.
pub fn run(program: &Path) -> Chore {
    let dir = std::env::temp_dir().join(format!("vesica-trial-{}", std::process::id()));
    let tried = Trial::new(&dir, program).and_then(|trial| trial.two_parties());
    let _ = fs::remove_dir_all(&dir);
    tried
}

struct Trial {
    root: PathBuf,
    data: PathBuf,
    /// Whether this process is root. If not, mounts need a user namespace, in which the program runs as the user who it is anyway.
    as_root: bool,
}

impl Trial {
    fn new(dir: &Path, program: &Path) -> Result<Self, String> {
        let (root, data) = (dir.join("root"), dir.join("data"));
        let made = fs::create_dir_all(root.join("data")).and_then(|()| fs::create_dir_all(&data));
        let made = made.and_then(|()| fs::copy(program, root.join("vesica")).map(drop));
        made.map_err(|e| format!("{}: {e}", dir.display()))?;
        let as_root = output("id", &["-u"])?.trim() == "0";
        if as_root {
            output("chown", &["65532:65532", &data.to_string_lossy()])?;
            // The folder that holds both may be one that only root can enter.
            output("chmod", &["755", &dir.to_string_lossy()])?;
        }
        Ok(Self { root, data, as_root })
    }

    /// `vesica` with these arguments, in the empty root.
    fn vesica(&self, args: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        if !self.as_root {
            command.args(["--user", "--map-root-user"]);
        }
        command
            .args(["--mount", "--propagation", "private", "sh", "-c", INSIDE])
            .arg(&self.root)
            .arg(&self.data)
            .args(args);
        command.env("USERSPEC", if self.as_root { USERSPEC } else { "" }).stdin(Stdio::null());
        command
    }

    /// What it prints on standard output.
    fn said(&self, args: &[&str]) -> Result<String, String> {
        let out = self.vesica(args).output().map_err(|e| format!("unshare: {e}"))?;
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr);
            return Err(format!(
                "the static program failed in an empty root: vesica {}: {}\n{why}",
                args.join(" "),
                out.status
            ));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// The four commands of the README, and a comparison with the keys that the tables have in common.
    fn two_parties(&self) -> Chore {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let listen = format!("127.0.0.1:{}", port.map_err(|e| format!("no port: {e}"))?.port());
        let [rows, common] = ROWS;
        self.said(&["gen", "--rows", rows, "--overlap", common, "--out", "/data"])?;
        let table = |name: &str| [format!("/data/{name}.csv"), format!("/data/{name}")];
        let ([alices, alice], [bobs, bob]) = (table("alice"), table("bob"));
        let invite = ["invite", "--as", "alice", "--to", "bob", "--listen", &listen];
        self.said(&[&invite[..], &["--table", &alices, "--key", "id", "--out", &alice]].concat())?;
        let letter = format!("{alice}/bob.invite");
        let line = self.said(&["accept", &letter, "--table", &bobs, "--key", "id", "--out", &bob])?;
        self.said(&["confirm", line.trim(), "--dir", &alice])?;
        let run = |name: &str| {
            let job = format!("/data/{name}/{name}.toml");
            self.vesica(&["run", &job, "--quiet"]).stdout(Stdio::null()).spawn().map_err(|e| format!("unshare: {e}"))
        };
        let running = [run("alice")?, run("bob")?];
        for mut party in running {
            let ended = party.wait().map_err(|e| format!("unshare: {e}"))?;
            if !ended.success() {
                return Err(format!("a match with the static program failed in an empty root: {ended}"));
            }
        }
        let expected = self.keys("expected.csv")?;
        for found in ["alice/alice.matched.csv", "bob/bob.matched.csv"] {
            if self.keys(found)? != expected {
                return Err(format!("{found} does not hold the common keys"));
            }
        }
        let who = if self.as_root { "user 65532" } else { "this user" };
        say(&format!("tried out in an empty root that is read-only, as {who}: {common} of {rows} rows matched"));
        Ok(())
    }

    /// The first column of a table in the folder for data, sorted.
    fn keys(&self, file: &str) -> Result<Vec<String>, String> {
        let text = fs::read_to_string(self.data.join(file)).map_err(|e| format!("{file}: {e}"))?;
        let key = |row: &str| row.split(',').next().unwrap_or_default().to_owned();
        let mut keys: Vec<String> = text.lines().skip(1).map(key).collect();
        keys.sort();
        Ok(keys)
    }
}
