//! The static program, tried out where there is nothing else: two parties match their tables in a root folder that holds the program
//! alone, that nobody can write to, as a user who is not root and has no name. So it needs no library, no certificates, no time
//! zone, no `/etc`, no `/proc` and no `/dev`. A program for another machine is tried out beside this machine's, where both see all folders.

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
/// The same where instructions are emulated.
const FEW: [&str; 2] = ["2000", "500"];

/// Runs two parties with `program`.
pub fn run(program: &Path) -> Chore {
    let dir = std::env::temp_dir().join(format!("vesica-trial-{}", std::process::id()));
    let tried = Trial::new(&dir, program).and_then(|trial| trial.run());
    let _ = fs::remove_dir_all(&dir);
    tried
}

/// Runs two parties: alice with the program `there` in an emulator, bob with `here`. Once on curves, and once on blocks.
pub fn beside(emulator: &str, there: &Path, here: &Path) -> Chore {
    let dir = std::env::temp_dir().join(format!("vesica-beside-{}", std::process::id()));
    let vesica = |party: &str, args: &[&str]| {
        let mut command = match party {
            "alice" => Command::new(emulator),
            _ => Command::new(here),
        };
        if party == "alice" {
            command.arg(there);
        }
        command.args(args).stdin(Stdio::null());
        command
    };
    let tried = ["ecdh", "rr22"].iter().try_for_each(|protocol| {
        let data = dir.join(protocol);
        fs::create_dir_all(&data).map_err(|e| format!("{}: {e}", data.display()))?;
        let parties = Parties { data: &data, seen: &data.display().to_string(), rows: FEW, protocol, vesica: &vesica };
        parties.run()
    });
    let _ = fs::remove_dir_all(&dir);
    tried?;
    let [rows, common] = FEW;
    say(&format!(
        "{} under {emulator} and {}: {common} of {rows} rows matched, by ecdh and by rr22",
        there.display(),
        here.display()
    ));
    Ok(())
}

/// Two parties that match their tables.
struct Parties<'a> {
    /// The folder for data, and what the parties call it.
    data: &'a Path,
    seen: &'a str,
    rows: [&'a str; 2],
    protocol: &'a str,
    /// `vesica` of a party with these arguments.
    vesica: &'a dyn Fn(&str, &[&str]) -> Command,
}

impl Parties<'_> {
    /// What alice's program or bob's prints on standard output.
    fn said(&self, party: &str, args: &[&str]) -> Result<String, String> {
        let out = (self.vesica)(party, args).output().map_err(|e| format!("vesica of {party}: {e}"))?;
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr);
            return Err(format!("{party}'s program failed: vesica {}: {}\n{why}", args.join(" "), out.status));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// The four commands of the README, and a comparison with the keys that the tables have in common.
    fn run(&self) -> Chore {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let listen = format!("127.0.0.1:{}", port.map_err(|e| format!("no port: {e}"))?.port());
        let (seen, [rows, common]) = (self.seen, self.rows);
        self.said("alice", &["gen", "--rows", rows, "--overlap", common, "--out", seen])?;
        let table = |name: &str| [format!("{seen}/{name}.csv"), format!("{seen}/{name}")];
        let ([alices, alice], [bobs, bob]) = (table("alice"), table("bob"));
        let invite = ["invite", "--as", "alice", "--to", "bob", "--listen", &listen, "--protocol", self.protocol];
        self.said("alice", &[&invite[..], &["--table", &alices, "--key", "id", "--out", &alice]].concat())?;
        let letter = format!("{alice}/bob.invite");
        let line = self.said("bob", &["accept", &letter, "--table", &bobs, "--key", "id", "--out", &bob])?;
        self.said("alice", &["confirm", line.trim(), "--dir", &alice])?;
        let run = |name: &str| {
            let job = format!("{seen}/{name}/{name}.toml");
            let mut party = (self.vesica)(name, &["run", &job, "--quiet"]);
            party.stdout(Stdio::null()).spawn().map_err(|e| format!("vesica of {name}: {e}"))
        };
        let mut running = [run("alice")?, run("bob")?];
        let ends: Result<Vec<_>, _> = running.iter_mut().map(|party| party.wait()).collect();
        for ended in ends.map_err(|e| format!("vesica: {e}"))? {
            if !ended.success() {
                return Err(format!("a match by {} failed: {ended}", self.protocol));
            }
        }
        let expected = self.keys("expected.csv")?;
        if expected.len().to_string() != common {
            return Err(format!("the tables have {} common keys, not {common}", expected.len()));
        }
        for found in ["alice/alice.matched.csv", "bob/bob.matched.csv"] {
            if self.keys(found)? != expected {
                return Err(format!("{found} does not hold the common keys"));
            }
        }
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

    /// Both parties in that root.
    fn run(&self) -> Chore {
        let vesica = |_: &str, args: &[&str]| self.vesica(args);
        Parties { data: &self.data, seen: "/data", rows: ROWS, protocol: "ecdh", vesica: &vesica }
            .run()
            .map_err(|why| format!("in an empty root that is read-only: {why}"))?;
        let who = if self.as_root { "user 65532" } else { "this user" };
        let [rows, common] = ROWS;
        say(&format!("tried out in an empty root that is read-only, as {who}: {common} of {rows} rows matched"));
        Ok(())
    }
}
