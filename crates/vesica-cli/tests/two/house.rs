//! A server, bob, and its clients in a folder: their documents, and the four commands.

use super::{LONG, Running, port, run, vesica};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub struct House {
    pub dir: tempfile::TempDir,
    pub port: u16,
    /// Lines of `[service]` that both sides' documents have.
    pub protocol: String,
    /// More lines of the server's `[service]` and `[mine]`, and of the clients' `[mine]`.
    pub service: String,
    pub mine: String,
    pub asks: String,
    /// The server's table, and its key columns as they are written in TOML.
    pub list: String,
    pub keys: String,
    /// What is said of each client beside its fingerprint and its keys a day.
    pub limits: String,
    pub clients: Vec<(String, u64)>,
    pub prints: BTreeMap<String, String>,
    /// Whether bob's print is the inside of a list of them.
    pub bob_by_any: bool,
}

impl House {
    /// A service of `ecdh-oprf`, with these clients and their keys a day.
    pub fn new(clients: &[(&str, u64)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap().to_owned();
        let names = clients.iter().map(|(name, _)| *name).chain(["bob"]);
        let print = |name: &str| run(&["cert", name, "--out", &folder]).good().stdout.trim().to_owned();
        let prints = names.map(|name| (name.to_owned(), print(name))).collect();
        Self {
            dir,
            port: port(),
            protocol: "protocol = \"ecdh-oprf\"".into(),
            service: String::new(),
            mine: String::new(),
            asks: String::new(),
            list: "list.csv".into(),
            keys: "\"id\"".into(),
            limits: String::new(),
            clients: clients.iter().map(|(name, keys)| ((*name).to_owned(), *keys)).collect(),
            prints,
            bob_by_any: false,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Writes the server's document.
    pub fn server(&self) -> PathBuf {
        let client = |(name, keys): &(String, u64)| {
            let (print, limits) = (&self.prints[name], &self.limits);
            format!("{name} = {{ fingerprint = \"{print}\", keys_a_day = {keys}{limits} }}")
        };
        let clients = self.clients.iter().map(client).collect::<Vec<_>>().join(", ");
        let Self { port, protocol, service, mine, list, keys, .. } = self;
        self.write(
            "bob.toml",
            format!(
                r#"[service]
id = "list"
{protocol}
{service}

[mine]
name = "bob"
listen = "127.0.0.1:{port}"
tls = {{ identity = "bob.pem" }}
input = {{ path = "{list}", keys = [{keys}] }}
store = "list.store"
clients = {{ {clients} }}
{mine}
"#
            ),
        );
        self.path("bob.toml")
    }

    /// Writes a client's document, with more lines of its `[service]`.
    pub fn client(&self, name: &str, offer: &str, more: &str) -> PathBuf {
        let (file, print) = (format!("{name}.toml"), &self.prints["bob"]);
        let print = if self.bob_by_any { format!("[\"{print}\"]") } else { format!("\"{print}\"") };
        let Self { port, protocol, asks, .. } = self;
        self.write(
            &file,
            format!(
                r#"[service]
id = "list"
{protocol}
{more}
offer = "{offer}"

[mine]
name = "{name}"
connect = {{ bob = "127.0.0.1:{port}" }}
patience = "20s"
tls = {{ identity = "{name}.pem", peers = {{ bob = {print} }} }}
input = {{ path = "{name}.csv", keys = ["id"] }}
cache = "{name}.cache"
output = {{ path = "{name}.out.csv" }}
report = "{name}.json"
{asks}
"#
            ),
        );
        self.path(&file)
    }

    /// Prepares, and returns the offer.
    pub fn prepare(&self, more: &[&str]) -> String {
        self.prepared(more).lines().last().unwrap().strip_prefix("offer ").unwrap().to_owned()
    }

    /// Prepares, and returns what is said of it.
    pub fn prepared(&self, more: &[&str]) -> String {
        let file = self.server();
        let said = Running::start(vesica().arg("prepare").arg(&file).args(more)).wait(LONG).good().stdout;
        let offer = said.lines().last().unwrap().strip_prefix("offer ").unwrap();
        assert!(offer.starts_with("sha256:") && offer.len() == 71, "{offer}");
        said
    }

    pub fn serve(&self) -> Running {
        let server = Running::start(vesica().args(["serve", "--log", "text"]).arg(self.server()));
        server.until("serving");
        server
    }

    pub fn ask(&self, file: &Path) -> Running {
        Running::start(vesica().arg("ask").arg(file).arg("--quiet"))
    }

    pub fn report(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{name}.json"))).unwrap()
    }

    pub fn matched(&self, name: &str) -> u64 {
        self.report(name)["outcome"]["matched"].as_u64().unwrap()
    }
}
