//! `vesica demo --standing`: bob's list and alice's table change from day to day, and alice asks for what is new.

use super::{folder, free_ports, identity, make_tables, quoted, typed};
use crate::failure::{Failure, Outcome};
use crate::flags::Demo;
use crate::verify::{self, Day};
use crate::{Itself, crash, interrupt, output};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use vesica_job::JobError;
use vesica_job::numbers::{count, counted};
use vesica_job::rooms;

/// The days, as they are told.
const DAYS: [&str; 3] = ["the first run", "both tables changed", "nothing changed"];

/// Of so many rows, one comes and one goes a day.
const CHANGE: u64 = 1000;

pub fn run(args: Demo, itself: &Itself) -> Outcome {
    let (bob, alice) = (identity("bob")?, identity("alice")?);
    let port = free_ports(1)?[0];
    let folder = folder(args.out.as_deref())?;
    make_tables(args.rows, 2, &folder)?;
    for identity in [&bob, &alice] {
        identity.write(&folder).map_err(JobError::from)?;
    }
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Failure::file("cannot write", path))
    };
    let key: [u8; 32] = rooms::random()?;
    rooms::replace_privately(&folder.join("seal.key"), &key)?;
    write("bob.toml", server(port, &alice.fingerprint().to_string(), args.rows))?;
    let world = Started { folder: &folder, itself, serving: Arc::default() };
    let serving = world.serving.clone();
    interrupt::on_signal(move || {
        if let Some(id) = *serving.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        std::process::exit(interrupt::EXIT.into());
    })?;

    output::tell(
        "bob prepares a list and serves it, alice asks which of her keys are on it; this is what alice sees each day",
    );
    let offer = world.said(&["prepare", "bob.toml"])?;
    let offer = offer.lines().last().and_then(|line| line.strip_prefix("offer ")).unwrap_or_default().to_owned();
    write("alice.toml", client(port, &bob.fingerprint().to_string(), &offer))?;

    let (mut before, mut asked_before) = (HashSet::new(), HashSet::new());
    let mut checked = Vec::new();
    for (number, what) in (1..).zip(DAYS) {
        if number == 2 {
            let changed = verify::change(&folder, args.rows.div_ceil(CHANGE) as usize).map_err(Failure::usage)?;
            write("more.csv", changed.more)?;
            write("gone.csv", changed.gone)?;
            write("bob.csv", changed.list)?;
            write("alice.csv", changed.table)?;
            world.said(&["prepare", "bob.toml", "--append", "more.csv", "--remove", "gone.csv"])?;
        }
        let server = world.serve()?;
        let words = world.said(&["ask", "alice.toml"])?;
        drop(server);
        output::result(&format!("Day {number}: {what}.\n{words}\n"))?;
        let day = verify::standing(&folder, (&asked_before, &before)).map_err(|why| {
            Failure::new(
                crash::EXIT,
                format!(
                    "WRONG RESULT: day {number}: {why}. This is a bug in Vesica; please keep {} and report it",
                    folder.display()
                ),
            )
        })?;
        let Day { keys, found, asked, gained, lost } = day;
        checked.push(format!(
            "  day {number}: {} of {}; {} asked for, {} gained, {} lost\n",
            counted(found.len() as u64, "keys"),
            count(keys.len() as u64),
            count(asked),
            count(gained),
            count(lost)
        ));
        (before, asked_before) = (found, keys);
    }
    let typed = typed(itself);
    let shown = |name: &str| quoted(&folder.join(name).display().to_string());
    output::result(&format!(
        "Checked: each day alice's outputs hold exactly the rows of a plain join of both tables of that day, what she gained and lost are exactly \
         its differences from the day before, and only keys that were new in her table were asked for.\n{}\nEverything is in {}:\n  \
         bob.csv, more.csv, gone.csv          the list as it is now, and what came and went\n  \
         alice.csv, seal.key                  alice's table, and the key of what she keeps\n  \
         matched.csv, gained.csv, lost.csv    what alice was told on the last day\n  \
         alice.kept                           the answers that she keeps\n\nTo do a day by hand, in two terminals:\n  {typed} serve {}\n  {typed} ask {}\n",
        checked.concat(),
        folder.display(),
        shown("bob.toml"),
        shown("alice.toml")
    ))
}

/// The server's document.
fn server(port: u16, alice: &str, rows: u64) -> String {
    format!(
        r#"# bob's list; see also alice.toml. vesica prepare bob.toml, then vesica serve bob.toml

[service]
id = "a-list"
protocol = "ecdh-oprf"
values = ["c1"]                 # what a client is told of a key that is on the list

[mine]
name = "bob"
listen = "127.0.0.1:{port}"
tls.identity = "bob.pem"
input = {{ path = "bob.csv", keys = ["id"] }}
store = "list.store"
[mine.clients.alice]
fingerprint = "{alice}"
keys_a_day = {0}
keys_at_first = {0}             # her first run asks for every key
"#,
        rows.max(1000)
    )
}

/// The client's document.
fn client(port: u16, bob: &str, offer: &str) -> String {
    format!(
        r#"# alice's table, and what she keeps. Each day: vesica ask alice.toml

[service]
id = "a-list"
protocol = "ecdh-oprf"
offer = "{offer}"

[mine]
name = "alice"
connect.bob = "127.0.0.1:{port}"
tls.identity = "alice.pem"
tls.peers.bob = "{bob}"
input = {{ path = "alice.csv", keys = ["id"] }}
cache = "alice.cache"
kept = {{ path = "alice.kept", key = "seal.key" }}
report = "alice.report.json"

[mine.output]
path = "matched.csv"            # the rows whose key is on the list now
gained = "gained.csv"           # those of them that were not there the day before
lost = "lost.csv"               # those that were there the day before, and are no more
columns = ["id"]
"#
    )
}

/// The programs of both parties, in the folder of the demo.
struct Started<'a> {
    folder: &'a Path,
    itself: &'a Itself,
    /// The process that serves.
    serving: Arc<Mutex<Option<i32>>>,
}

/// A server, ended when this is dropped.
struct Serving {
    child: Child,
    id: Arc<Mutex<Option<i32>>>,
}

impl Started<'_> {
    fn command(&self, args: &[&str]) -> Result<Command, Failure> {
        let [program, before @ ..] = self.itself else {
            return Err(Failure::usage("the system does not say where this program stands, so it cannot start itself"));
        };
        let mut command = Command::new(program);
        command.args(before).args(args).current_dir(self.folder).stdin(Stdio::null());
        Ok(command)
    }

    /// What a command says that ends well.
    fn said(&self, args: &[&str]) -> Result<String, Failure> {
        let done = self.command(args)?.stdout(Stdio::piped()).stderr(Stdio::inherit()).output();
        let done = done.map_err(Failure::file("cannot start", args.join(" ")))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let log = fs::read_to_string(self.folder.join("bob.log")).unwrap_or_default();
        let last = log.lines().last().unwrap_or("nothing").trim_start_matches("error: ");
        Err(Failure::new(
            super::code(done.status),
            format!("`vesica {}` ended so; bob's last words: {last}", args.join(" ")),
        ))
    }

    /// A server, once it listens.
    fn serve(&self) -> Result<Serving, Failure> {
        let path = self.folder.join("bob.log");
        let log = File::create(&path).map_err(Failure::file("cannot write", &path))?;
        let mut command = self.command(&["serve", "bob.toml", "--log", "text"])?;
        let child = command.stdout(Stdio::null()).stderr(log).process_group(0).spawn();
        let child = child.map_err(Failure::file("cannot start", "vesica serve"))?;
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id() as i32);
        Ok(Serving { child, id: self.serving.clone() })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
