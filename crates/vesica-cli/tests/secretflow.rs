//! Two processes started from SecretFlow's configurations, and what else is there for its users.

use crate::two;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use two::{LONG, Running, port, run, vesica};

/// Receiver and sender with a folder, tables and configurations of their own.
struct Pair {
    dir: tempfile::TempDir,
    ports: [u16; 2],
}

impl Pair {
    fn new(receiver: &str, sender: &str) -> Self {
        let pair = Self { dir: tempfile::tempdir().unwrap(), ports: [port(), port()] };
        std::fs::write(pair.dir.path().join("receiver.csv"), receiver).unwrap();
        std::fs::write(pair.dir.path().join("sender.csv"), sender).unwrap();
        pair
    }

    /// The file of SecretFlow's "PSI V2 Benchmark" for `role`, with paths and ports of this folder; `changes` besides.
    fn text(&self, role: &str, changes: &[(&str, &str)]) -> String {
        let text = match role {
            "receiver" => include_str!("../../vesica-secretflow/tests/configs/receiver.config"),
            _ => include_str!("../../vesica-secretflow/tests/configs/sender.config"),
        };
        let (dir, table) = (self.dir.path().display(), if role == "receiver" { "psi_2" } else { "psi_1" });
        let own = [
            (format!("/home/zuoxian/v2psi/datas/{table}_1kw.csv"), format!("{dir}/{role}.csv")),
            (format!("/home/zuoxian/v2psi/{role}/{role}_output.csv"), format!("{dir}/{role}.out.csv")),
            (format!("/home/zuoxian/v2psi/{role}/{role}.trace"), format!("{dir}/{role}.trace")),
            ("127.0.0.1:5300".into(), format!("127.0.0.1:{}", self.ports[0])),
            ("127.0.0.1:5400".into(), format!("127.0.0.1:{}", self.ports[1])),
        ];
        let all = own.iter().map(|(from, to)| (&from[..], &to[..])).chain(changes.iter().copied());
        all.fold(text.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from} is not in {text}");
            text.replace(from, to)
        })
    }

    fn file(&self, role: &str, text: &str) -> String {
        let path = self.dir.path().join(format!("{role}.config"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

/// Both learn.
const BROADCAST: (&str, &str) = ("\"broadcast_result\": false", "\"broadcast_result\": true");

/// The command, started in another folder than that of the configuration.
fn command(args: &[&str]) -> Command {
    let mut command = vesica();
    command.current_dir("/").args(args);
    command
}

#[test]
fn two_parties_run_from_their_configurations() {
    let pair = Pair::new("id,x\n1,a\n2,b\n2,c\n3,d\n", "y,id\nA,2\nB,4\nC,3\n");
    let receiver = pair.file("receiver", &pair.text("receiver", &[]));
    let receiver = Running::start(&mut command(&["run", "--config", &receiver, "--report-format", "secretflow"]));
    let text = pair.text("sender", &[]);
    let sender = Running::start(&mut command(&["run", "--json", &text, "--report-format", "secretflow"]));
    let (receiver, sender) = (receiver.wait(LONG).good(), sender.wait(LONG).good());

    assert_eq!(
        receiver.stdout,
        "Report: {\"original_count\":\"4\",\"intersection_count\":\"3\",\"original_key_count\":\"3\",\"intersection_key_count\":\"2\"}\n"
    );
    assert_eq!(
        sender.stdout,
        "Report: {\"original_count\":\"3\",\"intersection_count\":\"-1\",\"original_key_count\":\"3\"}\n"
    );
    assert_eq!(pair.read("receiver.out.csv"), "id,x\n2,b\n2,c\n3,d\n");
    assert!(!pair.dir.path().join("sender.out.csv").exists());
    for (said, words) in [
        (&receiver.stderr, "receiver.config: psi_config.skip_duplicates_check: "),
        (&receiver.stderr, "link_config.enable_ssl: is false: no TLS"),
        (&sender.stderr, "note: psi_config.output_config: no effect"),
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }

    for role in ["receiver", "sender"] {
        let trace: Value = serde_json::from_str(&pair.read(&format!("{role}.trace"))).unwrap();
        let spans: Vec<&Value> = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
        let named =
            |name: &str| spans.iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("no {name} in {trace}"));
        let (unit, phase) = (named("unit 0"), named("match"));
        assert!(unit["ts"].as_f64() >= phase["ts"].as_f64() && unit["tid"] != phase["tid"], "{trace}");
        assert!(phase["args"]["sent"].as_u64() > Some(0), "{trace}");
        named("read");
        // Who does not learn writes nothing.
        assert_eq!(spans.iter().any(|e| e["name"] == "write"), role == "receiver", "{trace}");
    }
}

#[test]
fn a_left_join_lines_up_and_has_its_null_text() {
    let pair = Pair::new("id,x\n1,a\n2,b\n", "id,y\n2,B\n3,C\n5,E\n");
    let changes = [
        BROADCAST,
        ("\"PROTOCOL_KKRT\"", "\"PROTOCOL_ECDH\", \"ecdh_config\": { \"curve\": \"CURVE_FOURQ\" }"),
        ("ADVANCED_JOIN_TYPE_UNSPECIFIED", "ADVANCED_JOIN_TYPE_LEFT_JOIN"),
        ("\"left_side\": \"ROLE_RECEIVER\"", "\"left_side\": \"ROLE_SENDER\", outputAttr: { csvNullRep: 'NA' }"),
    ];
    let ended = ["receiver", "sender"].map(|role| {
        let file = pair.file(role, &pair.text(role, &changes));
        Running::start(&mut command(&["run", "--config", &file]))
    });
    for ended in ended {
        ended.wait(LONG).good();
    }
    let rows = |name: &str| pair.read(name).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let mut joined: Vec<_> = rows("sender.out.csv").into_iter().zip(rows("receiver.out.csv")).collect();
    joined.sort();
    let [a, b, c] = joined.as_slice() else { panic!("{joined:?}") };
    assert_eq!([&a.0, &a.1, &b.0, &b.1, &c.0, &c.1], ["2,B", "2,b", "3,C", "NA,NA", "5,E", "NA,NA"]);
}

#[test]
fn identities_may_come_from_flags_and_an_import_is_a_job() {
    let pair = Pair::new("id\n1\n2\n", "id\n2\n3\n");
    let dir = pair.dir.path().to_str().unwrap();
    let prints = ["receiver", "sender"].map(|name| run(&["cert", name, "--out", dir]).good().stdout.trim().to_owned());
    let parts: Vec<Running> = [("receiver", &prints[1]), ("sender", &prints[0])]
        .into_iter()
        .map(|(role, peer)| {
            let file = pair.file(role, &pair.text(role, &[BROADCAST, ("PROTOCOL_KKRT", "PROTOCOL_RR22")]));
            let pem = format!("{dir}/{role}.pem");
            let trust = ["--identity", pem.as_str(), "--trust", peer.as_str()];
            if role == "sender" {
                return Running::start(command(&["run", "--config", &file]).args(trust));
            }
            let job = format!("{dir}/receiver.toml");
            let import = ["import", "secretflow", &file, "--out", &job];
            Running::start(command(&import).args(trust)).wait(LONG).good();
            // An import replaces nothing.
            Running::start(command(&import).args(trust))
                .wait(LONG)
                .bad(2, &["receiver.toml: that file is there already"]);
            Running::start(command(&["check", &job]).current_dir(dir)).wait(LONG).good();
            Running::start(&mut command(&["run", &job]))
        })
        .collect();
    for part in parts {
        let ended = part.wait(LONG).good();
        assert!(ended.stdout.contains("TLS 1.3") && !ended.stdout.contains("INSECURE"), "{}", ended.stdout);
    }
    assert_eq!(pair.read("receiver.out.csv"), pair.read("sender.out.csv"));
}

/// Three parties with files of SecretFlow's version 1: two by TLS from flags, and one of them by an import.
#[test]
fn three_parties_run_from_their_configurations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let names = ["alice", "bob", "carol"];
    let tables = ["id,x\n1,a\n2,b\n2,c\n3,d\n4,e\n", "y,id\nA,2\nB,4\nC,5\n", "id\n5\n4\n2\n7\n"];
    let prints = names.map(|name| run(&["cert", name, "--out", path]).good().stdout.trim().to_owned());
    let parties: Vec<String> =
        names.iter().map(|name| format!(r#"{{ "id": "{name}", "host": "127.0.0.1:{}" }}"#, port())).collect();
    let parts: Vec<Running> = (0..3)
        .map(|me| {
            let name = names[me];
            std::fs::write(dir.path().join(format!("{name}.csv")), tables[me]).unwrap();
            let config = format!(
                r#"{{ "legacy_psi_config": {{ "psi_type": "ECDH_PSI_3PC", "receiver_rank": 2, "broadcast_result": true,
                    "input_params": {{ "path": "{path}/{name}.csv", "select_fields": ["id"], "precheck": true }},
                    "output_params": {{ "path": "{path}/{name}.out.csv" }}, "curve_type": "CURVE_25519" }},
                  "link_config": {{ "parties": [{}] }}, "self_link_party": "{name}" }}"#,
                parties.join(", ")
            );
            let file = format!("{path}/{name}.config");
            std::fs::write(&file, config).unwrap();
            let others = (0..3).filter(|peer| *peer != me).map(|peer| format!("{}={}", names[peer], prints[peer]));
            let mut trust = vec!["--identity".to_owned(), format!("{path}/{name}.pem")];
            trust.extend(others.flat_map(|other| ["--trust".to_owned(), other]));
            if me > 0 {
                let run = ["run", "--config", &file, "--report-format", "secretflow"];
                return Running::start(command(&run).args(trust));
            }
            let job = format!("{path}/{name}.toml");
            Running::start(command(&["import", "secretflow", &file, "--out", &job]).args(trust)).wait(LONG).good();
            assert!(std::fs::read_to_string(&job).unwrap().contains("accept = [\"pair_count\"]"));
            Running::start(&mut command(&["run", &job, "--report-format", "secretflow"]))
        })
        .collect();
    let ends: Vec<_> = parts.into_iter().map(|part| part.wait(LONG).good()).collect();
    let said = &ends[1].stderr;
    for words in [
        "legacy_psi_config.psi_type: alice learns how many keys it and bob have in common",
        "legacy_psi_config.input_params.precheck: no effect",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    let counts = "\"original_count\":\"5\",\"intersection_count\":\"3\",\"original_key_count\":\"4\",\"intersection_key_count\":\"2\"";
    assert_eq!(ends[0].stdout, format!("Report: {{{counts}}}\n"));
    let outputs = names.map(|name| std::fs::read_to_string(dir.path().join(format!("{name}.out.csv"))).unwrap());
    assert_eq!(outputs, ["id,x\n2,b\n2,c\n4,e\n", "y,id\nA,2\nB,4\n", "id\n4\n2\n"]);
}

#[test]
fn what_cannot_be_is_told_by_file_and_field() {
    let pair = Pair::new("id\n1\n", "id\n1\n");
    let far = pair.file("far", &pair.text("sender", &[]).replace("127.0.0.1", "10.1.2.3"));
    for verb in ["run", "check", "plan"] {
        run(&[verb, "--config", &far]).bad(2, &["far.config: link_config.enable_ssl", "--identity", "--insecure"]);
    }
    run(&["plan", "--config", &far, "--insecure"]).good();
    let ub = pair.file("ub", r#"{"ub_psi_config": {"mode": "MODE_FULL"}}"#);
    run(&["import", "secretflow", &ub]).bad(2, &["ub.config: ub_psi_config.role", "ROLE_SERVER"]);
    let pir = pair.file("pir", r#"{"pir_config": {}}"#);
    run(&["import", "secretflow", &pir]).bad(2, &["pir.config: pir_config", "is not translated", "simple-pir"]);
    let broken = pair.file("broken", "{\n  psi_confg: {}\n}");
    run(&["run", "--config", &broken]).bad(2, &["broken.config:2:3: psi_confg", "did you mean `psi_config`?"]);
    run(&["run", "--json", "{"]).bad(2, &["line 1, column 2"]);
    run(&["run", "--kuscia", "/nowhere/task.json"]).bad(2, &["/nowhere/task.json: cannot read"]);
    run(&["run", "job.toml", "--insecure"]).bad(2, &["mine.tls"]);
    for args in [
        &["run", "job.toml", "--config", &far][..],
        &["run", "--config", &far, "--json", "{}"],
        &["run", "--config", &far, "--insecure", "--identity", "a", "--trust", "b"],
        &["run", "--config", &far, "--identity", "a"],
    ] {
        let ended = run(args);
        assert_eq!((ended.code, ended.stderr.contains("Usage")), (Some(2), true), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn the_tables_of_its_benchmark_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("data");
    let lines = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).unwrap().matches("\r\n").count();
    let made = run(&["gen", "--like", "secretflow", "1e3", "500", "--out", out.to_str().unwrap()]).good();
    assert_eq!(made.stdout.lines().count(), 3);
    assert_eq!(["psi_1.csv", "psi_2.csv", "psi_3.csv"].map(lines), [1001, 1001, 501]);
    run(&["gen", "--like", "secretflow", "7", "--out", out.to_str().unwrap()]).bad(2, &["psi_1.csv exists already"]);
    for args in [&["gen", "5", "--out", "x"][..], &["gen", "--like", "secretflow", "--rows", "5", "--out", "x"]] {
        assert_eq!(run(args).code, Some(2), "{args:?}");
    }
}

/// A server and a client of an unbalanced intersection, in a folder.
struct Unbalanced {
    dir: tempfile::TempDir,
    port: u16,
}

impl Unbalanced {
    /// The server has keys 0 to 299, the client 200 to 399, one of them twice.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let large: String = (0..300).map(|key| format!("x{key},{key}\n")).collect();
        let small: String = (200..400).map(|key| format!("{key},y{key}\n")).collect();
        std::fs::write(dir.path().join("server.csv"), format!("x,id\n{large}")).unwrap();
        std::fs::write(dir.path().join("client.csv"), format!("id,y\n{small}205,again\n")).unwrap();
        Self { dir, port: port() }
    }

    fn text(&self, mode: &str, role: &str, more: &str) -> String {
        let (dir, port) = (self.dir.path().display(), self.port);
        let link = match mode {
            "OFFLINE_GEN_CACHE" => String::new(),
            _ => format!(
                r#", "link_config": {{ "parties": [{{ "id": "server", "host": "127.0.0.1:{port}" }},
                   {{ "id": "client", "host": "127.0.0.1:1" }}] }}, "self_link_party": "{role}""#
            ),
        };
        let asks = matches!(mode, "ONLINE" | "FULL");
        format!(
            r#"{{ "ub_psi_config": {{ "mode": "MODE_{mode}", "role": "ROLE_{}", "cache_path": "{dir}/{role}.cache",
                "input_config": {{ "type": "IO_TYPE_FILE_CSV", "path": "{dir}/{role}.csv" }}, "keys": ["id"],
                "output_config": {{ "type": "IO_TYPE_FILE_CSV", "path": "{dir}/out.csv" }}, "client_get_result": {asks} {more} }} {link} }}"#,
            role.to_uppercase()
        )
    }

    fn start(&self, mode: &str, role: &str, more: &str) -> Running {
        let text = self.text(mode, role, more);
        Running::start(&mut command(&["run", "--json", &text, "--report-format", "secretflow"]))
    }

    /// Both parties in a mode; what the client printed.
    fn both(&self, mode: &str, more: &str) -> String {
        let (server, client) = (self.start(mode, "server", more), self.start(mode, "client", more));
        let printed = client.wait(LONG).good().stdout;
        server.wait(LONG).good();
        printed
    }

    /// The client's rows whose keys the server has, by a plain join.
    fn joined(&self) {
        let out = self.dir.path().join("out.csv");
        let rows: String = (200..300).map(|key| format!("{key},y{key}\n")).collect();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), format!("id,y\n{rows}205,again\n"));
        std::fs::remove_file(out).unwrap();
    }
}

const COUNTS: &str = "Report: {\"original_count\":\"201\",\"intersection_count\":\"101\",\"original_key_count\":\"200\",\"intersection_key_count\":\"100\"}\n";

#[test]
fn an_unbalanced_intersection_runs_in_its_five_modes() {
    let ub = Unbalanced::new();
    let made = ub.start("OFFLINE_GEN_CACHE", "server", "").wait(LONG).good();
    assert_eq!(made.stdout, "Report: {\"original_count\":\"300\",\"intersection_count\":\"-1\"}\n");
    // Without what is to be fetched first, there is nothing to ask with.
    let text = ub.text("ONLINE", "client", "");
    run(&["run", "--json", &text]).bad(2, &["ub_psi_config.cache_path", "MODE_OFFLINE"]);
    assert_eq!(ub.both("OFFLINE_TRANSFER_CACHE", ""), "Report: {\"intersection_count\":\"-1\"}\n");
    for _ in 0..2 {
        assert_eq!(ub.both("ONLINE", ""), COUNTS);
        ub.joined();
    }
    ub.both("OFFLINE", "");
    assert_eq!(ub.both("ONLINE", ""), COUNTS);
    ub.joined();
    assert_eq!(ub.both("FULL", ""), COUNTS);
    ub.joined();
    // A cache that the server makes anew has another key, which a client that has fetched before does not take for the old one.
    ub.start("OFFLINE_GEN_CACHE", "server", "").wait(LONG).good();
    let server = ub.start("ONLINE", "server", "");
    let client = ub.start("ONLINE", "client", "").wait(LONG);
    assert!(client.code == Some(5) && client.stderr.contains("this client expects sha256:"), "{}", client.stderr);
    drop(server);
    // A key whose store is gone may be another store's. It is refused in words of the configuration, and what they advise helps.
    let cache = ub.dir.path().join("server.cache");
    std::fs::remove_dir_all(cache.join("store")).unwrap();
    let text = ub.text("OFFLINE_GEN_CACHE", "server", "");
    let refused = run(&["run", "--json", &text]);
    assert!(!refused.stderr.contains("--rotate") && !refused.stderr.contains("mine."), "{}", refused.stderr);
    refused.bad(2, &["ub_psi_config.cache_path", "store.secret", "move this file away"]);
    std::fs::rename(cache.join("store.secret"), cache.join("old")).unwrap();
    ub.start("OFFLINE_GEN_CACHE", "server", "").wait(LONG).good();
}

/// A key of the server's own keeps the offer over caches that are made anew.
#[test]
fn the_key_of_an_unbalanced_intersection_may_come_from_a_file() {
    let ub = Unbalanced::new();
    let key = ub.dir.path().join("key");
    std::fs::write(&key, [7; 31]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let more = format!(", \"server_secret_key_path\": \"{}\"", key.display());
    let short = ub.text("OFFLINE_GEN_CACHE", "server", &more);
    run(&["run", "--json", &short]).bad(2, &["other users may read this key", "chmod 600"]);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    run(&["run", "--json", &short]).bad(2, &["31 bytes"]);
    std::fs::write(&key, [7; 32]).unwrap();
    let make = || run(&["run", "--json", &short]).good().stdout.lines().last().unwrap().to_owned();
    let first = make();
    assert!(first.starts_with("offer sha256:") && make() == first);
    let fresh = ub.text("OFFLINE_GEN_CACHE", "server", "");
    assert_ne!(run(&["run", "--json", &fresh]).good().stdout.lines().last().unwrap(), first);
}

/// The files may become documents of a service, with identities from flags.
#[test]
fn an_unbalanced_intersection_may_be_imported() {
    let ub = Unbalanced::new();
    let dir = ub.dir.path().to_str().unwrap();
    let prints = ["client", "server"].map(|name| run(&["cert", name, "--out", dir]).good().stdout.trim().to_owned());
    let trusted = |role: &str, peer: &str| {
        let file = format!("{dir}/{role}.config");
        std::fs::write(&file, ub.text("FULL", role, "")).unwrap();
        let pem = format!("{dir}/{role}.pem");
        (file, ["--identity".to_owned(), pem, "--trust".to_owned(), peer.to_owned()])
    };
    let (file, trust) = trusted("client", &prints[1]);
    let client = Running::start(command(&["run", "--config", &file]).args(&trust));
    let (file, trust) = trusted("server", &prints[0]);
    let toml = format!("{dir}/server.toml");
    Running::start(command(&["import", "secretflow", &file, "--out", &toml]).args(&trust)).wait(LONG).good();
    Running::start(&mut command(&["prepare", &toml])).wait(LONG).good();
    let server = Running::start(&mut command(&["serve", &toml]));
    assert!(client.wait(LONG).good().stdout.contains("TLS 1.3"));
    drop(server);
    ub.joined();
    let (file, trust) = trusted("client", &prints[1]);
    let asked = Running::start(command(&["import", "secretflow", &file]).args(&trust)).wait(LONG).good();
    assert!(asked.stdout.contains("into service.offer") && asked.stdout.contains("offer = \"\""), "{}", asked.stdout);
}
