//! `vesica demo`: two parties on one machine, as two processes, from nothing to a checked result.

use crate::failure::{Failure, Outcome};
use crate::flags::Demo;
use crate::{crash, interrupt, output, progress, verify};
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use vesica_job::JobError;
use vesica_job::identity::Identity;
use vesica_job::numbers::count;
use vesica_job::sample::{Format, Keys, Sample};

/// How long the second party may go on after the first has failed.
const GRACE: Duration = Duration::from_secs(20);

pub fn run(args: Demo) -> Outcome {
    let identities = [identity("alice")?, identity("bob")?];
    let prints = identities.each_ref().map(|i| i.fingerprint().to_string());
    let jobs = jobs(&args, free_port()?, &prints);
    for job in &jobs {
        let spec = vesica_spec::parse(job).map_err(|e| Failure::usage(e.message))?;
        vesica_spec::plan(&spec)?;
    }

    let folder = folder(args.out.as_deref())?;
    make_tables(args.rows, &folder)?;
    for identity in &identities {
        identity.write(&folder).map_err(JobError::from)?;
    }
    for (name, text) in ["alice.toml", "bob.toml"].into_iter().zip(&jobs) {
        std::fs::write(folder.join(name), text).map_err(Failure::file("cannot write", folder.join(name)))?;
    }

    output::tell(&format!("alice and bob run; this is what alice sees (bob: {})", folder.join("bob.log").display()));
    let words = both(&folder)?;
    let rows = verify::demo(&folder).map_err(|why| {
        Failure::new(
            crash::EXIT,
            format!("WRONG RESULT: {why}. This is a bug in Vesica; please keep {} and report it", folder.display()),
        )
    })?;
    output::result(&format!(
        "{words}\nChecked: both outputs hold exactly the {} rows of a plain join, in the same order.\n{}",
        count(rows as u64),
        closing_words(&folder)
    ))
}

fn identity(name: &str) -> Result<Identity, Failure> {
    Ok(Identity::generate(name).map_err(JobError::from)?)
}

/// A port that is free now. Another program may take it before alice does; then alice says so.
fn free_port() -> Result<u16, Failure> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|e| Failure::usage(format!("no free port on 127.0.0.1: {e}")))
}

/// The folder, which must be new or empty: a demo replaces nothing.
fn folder(out: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(path) = out else {
        let made = tempfile::Builder::new().prefix("vesica-demo-").tempdir();
        return Ok(made.map_err(Failure::file("cannot make a folder in", std::env::temp_dir()))?.keep());
    };
    std::fs::create_dir_all(path).map_err(Failure::file("cannot make the folder", path))?;
    if std::fs::read_dir(path).map_err(Failure::file("cannot read the folder", path))?.next().is_some() {
        return Err(Failure::usage(format!("{} is not empty; name a new folder", path.display())));
    }
    Ok(path.to_owned())
}

fn make_tables(rows: u64, folder: &Path) -> Outcome {
    let sample =
        Sample { rows: [rows; 2], overlap: rows.div_ceil(2), columns: 2, keys: Keys::Id, format: Format::Csv, seed: 1 };
    let screen = progress::begin(progress::How::Shown);
    sample.write(folder, screen.control())?;
    Ok(())
}

/// The two job files, as a person would write them.
fn jobs(args: &Demo, port: u16, prints: &[String; 2]) -> [String; 2] {
    let (protocol, curve) = (&args.protocol, &args.curve);
    let job = |me: &str, peer: &str, print: &str, contact: String| {
        format!(
            r#"# {me}'s side of a demo; {peer}'s is {peer}.toml. Start them in any order: vesica run {me}.toml

[shared]                          # the same for both, and compared before any data moves
id = "demo"
parties = ["alice", "bob"]
protocol = "{protocol}"
curve = "{curve}"
join = "inner"
learns = ["alice", "bob"]         # who gets the result

[mine]                            # never sent; paths start at this file's folder
name = "{me}"
{contact}
tls.identity = "{me}.pem"         # as `vesica cert {me}` makes it
tls.peers.{peer} = "{print}"
input = {{ path = "{me}.csv", keys = ["id"] }}
output = {{ path = "{me}.matched.csv" }}
report = "{me}.report.json"
"#
        )
    };
    let listen =
        format!("listen = \"127.0.0.1:{port}\"        # bob calls here; 0.0.0.0 to be called by other machines");
    let connect = format!("connect = {{ alice = \"127.0.0.1:{port}\" }}");
    [job("alice", "bob", &prints[1], listen), job("bob", "alice", &prints[0], connect)]
}

/// Runs both parties and returns what alice says at the end.
fn both(folder: &Path) -> Result<String, Failure> {
    let log = folder.join("bob.log");
    let bob_log = File::create(&log).map_err(Failure::file("cannot write", &log))?;
    let mut children = [start(folder, "alice", Stdio::inherit())?, start(folder, "bob", bob_log.into())?];
    let ids = children.each_ref().map(|child| nix::unistd::Pid::from_raw(child.id() as i32));
    interrupt::on_signal(move || {
        // They stand in groups of their own, so that they hear Ctrl-C once, from here.
        for id in ids {
            let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT);
        }
    })?;

    let [alice, bob] = wait(&mut children).map_err(Failure::file("cannot wait for", "the two parties"))?;
    if alice.success() && bob.success() {
        let mut words = String::new();
        let out = children[0].stdout.take().expect("it was piped");
        out.take(1 << 20).read_to_string(&mut words).map_err(Failure::file("cannot read", "alice's report"))?;
        return Ok(words);
    }
    let told = std::fs::read_to_string(&log).unwrap_or_default();
    let last = told.lines().last().unwrap_or("nothing").trim_start_matches("error: ");
    let exit = blame(code(alice), code(bob));
    Err(Failure::new(
        exit,
        format!("alice ended with exit code {}, bob with {}; bob's last words: {last}", code(alice), code(bob)),
    ))
}

fn start(folder: &Path, name: &str, log: Stdio) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(Failure::file("cannot find", "this program"))?;
    Command::new(&program)
        .arg("run")
        .arg(folder.join(format!("{name}.toml")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(Failure::file("cannot start", program))
}

/// Waits for both. Where one fails, the other is given a moment to notice and is then ended.
fn wait(children: &mut [Child; 2]) -> std::io::Result<[ExitStatus; 2]> {
    let mut failed_at: Option<Instant> = None;
    loop {
        let [alice, bob] = children;
        let (a, b) = (alice.try_wait()?, bob.try_wait()?);
        if let (Some(a), Some(b)) = (a, b) {
            return Ok([a, b]);
        }
        if a.or(b).is_some_and(|status| !status.success()) {
            let since = *failed_at.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                children.iter_mut().try_for_each(Child::kill)?;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process's exit code; one that was ended by a signal counts as interrupted.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(interrupt::EXIT)
}

/// The code that says most: 5 only says that it was the other one.
fn blame(alice: u8, bob: u8) -> u8 {
    [alice, bob].into_iter().find(|code| ![0, 5].contains(code)).unwrap_or(alice.max(bob))
}

fn closing_words(folder: &Path) -> String {
    let typed = std::env::args().next().filter(|name| name.contains('/')).unwrap_or_else(|| "vesica".to_owned());
    let line = |name: &str| format!("  {} run {}\n", quoted(&typed), quoted(&folder.join(name).display().to_string()));
    format!(
        "\nEverything is in {}:\n  \
           alice.csv, bob.csv                          the tables\n  \
           alice.toml, bob.toml                        the jobs\n  \
           alice.pem, bob.pem                          the identities\n  \
           alice.matched.csv, bob.matched.csv          the outputs\n  \
           alice.report.json, bob.report.json          the reports\n  \
           expected.csv                                the common keys\n\
         \nTo do it by hand, in two terminals:\n{}{}",
        folder.display(),
        line("alice.toml"),
        line("bob.toml")
    )
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_are_a_pair() {
        let args = Demo { rows: 1, protocol: "ecdh".into(), curve: "curve25519".into(), out: None };
        let prints = ["a", "b"].map(|digit| format!("sha256:{}", digit.repeat(64)));
        let specs = jobs(&args, 5300, &prints).map(|text| vesica_spec::parse(&text).unwrap());
        assert_eq!(specs[0].shared, specs[1].shared);
        for spec in &specs {
            vesica_spec::plan(spec).unwrap();
        }
        assert!(prints[1].ends_with(specs[0].mine.tls.as_ref().unwrap().peers["bob"].trim_start_matches("sha256:")));
    }

    #[test]
    fn the_one_at_fault_is_blamed() {
        assert_eq!([blame(5, 3), blame(4, 5), blame(5, 0), blame(130, 5)], [3, 4, 5, 130]);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(["a/b.toml", "a b", "it's"].map(quoted), ["a/b.toml", "'a b'", r"'it'\''s'"]);
    }
}
