//! Two parties or three in a folder of their own: identities, jobs, tables, and the processes that run them.

pub mod house;
pub mod parquet;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub use vesica_testkit::port;

/// Longer than anything here takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(90);

/// The program under test.
pub fn vesica() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vesica"));
    command.stdin(Stdio::null()).env_remove("VESICA_CPU").env_remove("VESICA_LOG");
    for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
        command.env_remove(name);
    }
    command
}

/// Runs the program to its end.
pub fn run(args: &[&str]) -> Ended {
    Running::start(vesica().args(args)).wait(LONG)
}

/// Two parties that have nothing yet but identities and matching jobs: alice listens, both learn.
pub struct Two {
    pub dir: tempfile::TempDir,
    pub alice: Job,
    pub bob: Job,
    pub port: u16,
}

impl Two {
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// The same, in a folder of their own below `folder`.
    pub fn within(folder: &Path) -> Self {
        let dir = tempfile::tempdir_in(folder).unwrap();
        let ports = [port()];
        let [alice, bob] = jobs(dir.path(), ["alice", "bob"], &ports);
        Self { dir, alice, bob, port: ports[0] }
    }

    /// Two parties with these tables.
    pub fn with(alice: &str, bob: &str) -> Self {
        let two = Self::new();
        two.write("alice.csv", alice);
        two.write("bob.csv", bob);
        two
    }

    /// Two parties with samples.
    pub fn sampled(rows: &str, overlap: &str) -> Self {
        let two = Self::new();
        run(&["gen", "--rows", rows, "--overlap", overlap, "--out", two.dir.path().to_str().unwrap()]).good();
        two
    }

    /// Only `name` is to learn.
    pub fn only(&mut self, name: &str) {
        for job in [&mut self.alice, &mut self.bob] {
            job.change("learns = [\"alice\", \"bob\"]", &format!("learns = [\"{name}\"]"));
            if job.name != name {
                let output = format!("output = {{ path = \"{}.out.csv\" }}\n", job.name);
                job.change(&output, "");
            }
        }
    }

    /// The same change to both jobs.
    pub fn change(&mut self, from: &str, to: &str) {
        self.alice.change(from, to);
        self.bob.change(from, to);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// A file with a key, which is its owner's alone.
    pub fn write_key(&self, name: &str, bytes: &[u8]) {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, bytes);
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The report of the party of this name, whose file is named after it.
    pub fn report(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(&format!("{name}.report.json"))).unwrap()
    }

    /// The lines of a file after the first, sorted.
    pub fn rows(&self, name: &str) -> Vec<String> {
        let mut rows: Vec<String> = self.read(name).lines().skip(1).map(str::to_owned).collect();
        rows.sort();
        rows
    }

    /// The outputs of both, whose rows line up: side by side, in an order that does not depend on the run's salt.
    pub fn lined_up(&self) -> [String; 2] {
        let [alice, bob] = ["alice.out.csv", "bob.out.csv"].map(|name| self.read(name));
        assert_eq!(alice.lines().count(), bob.lines().count());
        let mut rows: Vec<(&str, &str)> = alice.lines().zip(bob.lines()).collect();
        rows[1..].sort_unstable();
        let (alice, bob): (Vec<&str>, Vec<&str>) = rows.into_iter().unzip();
        [alice, bob].map(|lines| lines.join("\n"))
    }

    /// Runs both to their ends: alice, bob.
    pub fn run(&self) -> [Ended; 2] {
        let (alice, bob) = (self.alice.start(), self.bob.start());
        [alice.wait(LONG), bob.wait(LONG)]
    }

    /// Runs both, which must succeed.
    pub fn run_well(&self) -> [Ended; 2] {
        self.run().map(Ended::good)
    }

    /// Runs both, over a connection that breaks after so many bytes and comes back, once for each number; then looks at what came out.
    #[track_caller]
    pub fn run_broken(&mut self, cuts: &[u64], look: impl Fn(&Self)) {
        let relay = Proxy::before(self.port);
        self.bob.change(&self.port.to_string(), &relay.port.to_string());
        for &cut in cuts {
            relay.cut_after(cut);
            let [alice, bob] = self.run_well();
            let lost = alice.stderr.contains("lost bob") || bob.stderr.contains("lost alice");
            assert!(lost, "{cut}: {}", alice.stderr);
            look(self);
        }
    }

    /// Nothing stands in the folder that a failed run should have taken away.
    #[track_caller]
    pub fn nothing_left(&self) {
        for name in names(self.dir.path()) {
            let known = ["csv", "pem", "toml"].iter().any(|end| name.ends_with(end));
            assert!(known && !name.contains("out") && !name.starts_with('.'), "{name} was left behind");
        }
    }
}

/// Three parties that have nothing yet but identities and matching jobs: alice and bob listen, and all learn.
pub struct Three {
    pub dir: tempfile::TempDir,
    pub jobs: [Job; 3],
    /// Where alice and bob listen.
    pub ports: [u16; 2],
}

impl Three {
    pub const NAMES: [&str; 3] = ["alice", "bob", "carol"];

    /// Three parties with these tables.
    pub fn with(tables: [&str; 3]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = [port(), port()];
        let mut jobs = jobs(dir.path(), Self::NAMES, &ports);
        jobs.iter_mut().for_each(|job| job.change("[mine]", "accept = [\"pair_count\"]\n\n[mine]"));
        for (name, table) in Self::NAMES.iter().zip(tables) {
            std::fs::write(dir.path().join(format!("{name}.csv")), table).unwrap();
        }
        Self { dir, jobs, ports }
    }

    /// Only `name` is to learn.
    pub fn only(&mut self, name: &str) {
        self.change("learns = [\"alice\", \"bob\", \"carol\"]", &format!("learns = [\"{name}\"]"));
        for job in self.jobs.iter_mut().filter(|job| job.name != name) {
            let output = format!("output = {{ path = \"{}.out.csv\" }}\n", job.name);
            job.change(&output, "");
        }
    }

    /// The same change to all jobs.
    pub fn change(&mut self, from: &str, to: &str) {
        self.jobs.iter_mut().for_each(|job| job.change(from, to));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The parties' outputs, which all are there.
    pub fn outputs(&self) -> [String; 3] {
        Self::NAMES.map(|name| {
            let path = self.path(&format!("{name}.out.csv"));
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
    }

    /// Nobody has an output.
    #[track_caller]
    pub fn no_outputs(&self) {
        assert!(names(self.dir.path()).iter().all(|name| !name.contains(".out.")), "{:?}", names(self.dir.path()));
    }

    pub fn start(&self) -> [Running; 3] {
        self.jobs.each_ref().map(Job::start)
    }

    /// Runs all to their ends.
    pub fn run(&self) -> [Ended; 3] {
        self.start().map(|run| run.wait(LONG))
    }

    /// Runs all, which must succeed.
    pub fn run_well(&self) -> [Ended; 3] {
        self.run().map(Ended::good)
    }
}

/// Jobs of the parties `names`, all of which learn. Each listens at its port, if it has one, and calls those before it.
pub fn jobs<const N: usize>(folder: &Path, names: [&str; N], ports: &[u16]) -> [Job; N] {
    let path = folder.to_str().unwrap();
    let prints = names.map(|name| run(&["cert", name, "--out", path]).good().stdout.trim().to_owned());
    let all = names.map(|name| format!("{name:?}")).join(", ");
    std::array::from_fn(|me| {
        let name = names[me];
        let calls = (0..me).map(|peer| format!("{} = \"127.0.0.1:{}\"", names[peer], ports[peer]));
        let calls = calls.collect::<Vec<_>>().join(", ");
        let mut contact = Vec::new();
        contact.extend(ports.get(me).map(|port| format!("listen = \"127.0.0.1:{port}\"")));
        contact.extend((me > 0).then(|| format!("connect = {{ {calls} }}")));
        let known = (0..N).filter(|peer| *peer != me).map(|peer| format!("{} = \"{}\"", names[peer], prints[peer]));
        let text = format!(
            r#"[shared]
id = "test"
parties = [{all}]
protocol = "ecdh"
curve = "curve25519"
learns = [{all}]

[mine]
name = "{name}"
{contact}
patience = "60s"
tls = {{ identity = "{name}.pem", peers = {{ {known} }} }}
input = {{ path = "{name}.csv", keys = ["id"] }}
output = {{ path = "{name}.out.csv" }}
"#,
            contact = contact.join("\n"),
            known = known.collect::<Vec<_>>().join(", "),
        );
        Job { name: name.to_owned(), folder: folder.to_owned(), text }
    })
}

/// A job file to be.
pub struct Job {
    pub name: String,
    pub folder: PathBuf,
    pub text: String,
}

impl Job {
    /// Replaces what must be there.
    pub fn change(&mut self, from: &str, to: &str) {
        assert!(self.text.contains(from), "{from:?} is not in\n{}", self.text);
        self.text = self.text.replace(from, to);
    }

    /// Writes the file and returns where it is.
    pub fn file(&self) -> PathBuf {
        let path = self.folder.join(format!("{}.toml", self.name));
        std::fs::write(&path, &self.text).unwrap();
        path
    }

    /// `vesica run` with this job and more.
    pub fn command(&self, more: &[&str]) -> Command {
        let mut command = vesica();
        command.arg("run").arg(self.file()).args(more);
        command
    }

    pub fn start(&self) -> Running {
        Running::start(&mut self.command(&[]))
    }

    pub fn start_with(&self, more: &[&str]) -> Running {
        Running::start(&mut self.command(more))
    }
}

/// A relay on loopback that cuts its first connection after so many bytes.
pub struct Proxy {
    pub port: u16,
    /// Bytes until the cut.
    pub left: Arc<AtomicU64>,
}

impl Proxy {
    /// A relay to `port`.
    pub fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), left: Arc::default() };
        let left = proxy.left.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                // Or each message waits until the one before has been acknowledged, which the system puts off by 40 ms.
                [&client, &server].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, left) = (from.try_clone().unwrap(), to.try_clone().unwrap(), left.clone());
                    std::thread::spawn(move || relay(from, to, &left));
                }
            }
        });
        proxy
    }

    pub fn cut_after(&self, bytes: u64) {
        self.left.store(bytes, Ordering::SeqCst);
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, left: &AtomicU64) {
    let mut buf = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut buf) {
        // Both directions count at once.
        let rest = |left: u64| left.saturating_sub(n as u64);
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(rest(left))).unwrap();
        if (before > 0 && rest(before) == 0) || to.write_all(&buf[..n]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// A process that is running; killed when dropped.
pub struct Running {
    child: Child,
    began: Instant,
    stderr: Arc<Mutex<String>>,
    readers: Option<(JoinHandle<String>, JoinHandle<()>)>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let stderr = Arc::new(Mutex::new(String::new()));
        let lines = stderr.clone();
        let readers = (
            std::thread::spawn(move || {
                let mut text = Vec::new();
                out.read_to_end(&mut text).unwrap();
                String::from_utf8(text).unwrap()
            }),
            std::thread::spawn(move || {
                for line in BufReader::new(err).lines() {
                    let mut text = lines.lock().unwrap();
                    text.push_str(&line.unwrap());
                    text.push('\n');
                }
            }),
        );
        Self { child, began: Instant::now(), stderr, readers: Some(readers) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said on standard error.
    pub fn said(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until it says `words`.
    pub fn until(&self, words: &str) {
        let began = Instant::now();
        while !self.said().contains(words) {
            assert!(began.elapsed() < LONG, "never said {words:?}:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until Ctrl-C no longer ends it at once.
    pub fn until_it_catches_ctrl_c(&self) {
        let began = Instant::now();
        // Where the system does not tell, two seconds are to be enough.
        while let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", self.id())) {
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            // The second signal.
            if u64::from_str_radix(caught, 16).unwrap() & 2 != 0 {
                return;
            }
            assert!(began.elapsed() < LONG, "it does not catch Ctrl-C:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_secs(2));
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends a signal by its name, as `INT`.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// Waits for its end, and fails the test if that takes longer than `limit`.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let began = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if began.elapsed() > limit => panic!("still running after {limit:?}:\n{}", self.said()),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let took = self.began.elapsed();
        let (out, err) = self.readers.take().unwrap();
        let stdout = out.join().unwrap();
        err.join().unwrap();
        Ended { code: status.code(), stdout, stderr: self.said(), took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Ended {
    /// It succeeded.
    #[track_caller]
    pub fn good(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// It failed with `code`, no result, and one message that holds all of `words`.
    #[track_caller]
    pub fn bad(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(self.stdout, "");
        let error = self.error();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in: {error}");
        }
    }

    /// What stands after `error: `.
    #[track_caller]
    pub fn error(&self) -> &str {
        let (_, error) = self.stderr.split_once("error: ").unwrap_or_else(|| panic!("no error in {}", self.stderr));
        error
    }
}

/// Everything that stands below `dir`, by name.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
