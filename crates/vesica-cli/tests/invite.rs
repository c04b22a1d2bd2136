//! From nothing to a match: `invite`, `accept`, `confirm`, `run`, as two people type them on two machines.

mod two;

use std::path::{Path, PathBuf};
use two::{LONG, Running, names, port, run, vesica};

/// Two machines: a folder each, with a table.
struct Two {
    dir: tempfile::TempDir,
    port: u16,
}

impl Two {
    fn new() -> Self {
        let two = Self { dir: tempfile::tempdir().unwrap(), port: port() };
        for (name, table) in [("alice", "id,v\n1,a\n2,b\n3,c\n"), ("bob", "client,w\n3,x\n4,y\n1,z\n")] {
            std::fs::create_dir(two.of(name)).unwrap();
            std::fs::write(two.of(name).join("table.csv"), table).unwrap();
        }
        two
    }

    fn of(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command in the folder of a party.
    fn start(&self, name: &str, args: &[&str]) -> Running {
        Running::start(vesica().args(args).current_dir(self.of(name)))
    }

    fn invite(&self, more: &[&str]) -> two::Ended {
        let listen = format!("127.0.0.1:{}", self.port);
        let usual =
            ["invite", "--as", "alice", "--to", "bob", "--table", "table.csv", "--key", "id", "--listen", &listen];
        self.start("alice", &[&usual, more].concat()).wait(LONG)
    }

    /// The invitation is sent: mail, a chat, anything.
    fn send(&self) {
        std::fs::copy(self.of("alice").join("bob.invite"), self.of("bob").join("bob.invite")).unwrap();
    }

    fn accept(&self) -> two::Ended {
        self.start("bob", &["accept", "bob.invite", "--table", "table.csv", "--key", "client"]).wait(LONG)
    }

    fn confirm(&self, line: &str) -> two::Ended {
        self.start("alice", &["confirm", line]).wait(LONG)
    }
}

/// The six words of a command's output.
fn words(told: &str) -> &str {
    told.lines().find_map(|line| line.strip_prefix("Six words:")).unwrap_or_else(|| panic!("{told}")).trim()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn two_people_find_their_common_rows_in_four_commands() {
    let two = Two::new();
    let invited = two.invite(&["--protocol", "ecdh"]).good();
    assert!(invited.stdout.contains("vesica accept bob.invite"), "{}", invited.stdout);
    assert!(!read(&two.of("alice").join("bob.invite")).contains("PRIVATE"));
    two.send();
    let accepted = two.accept().good();
    assert!(accepted.stderr.contains("alice and bob: which of their own keys"), "{}", accepted.stderr);
    let line = accepted.stdout.trim();
    assert_eq!(line.lines().count(), 1, "the line stands alone: {line}");
    let confirmed = two.confirm(line).good();
    assert_eq!(words(&confirmed.stderr), words(&accepted.stderr));
    assert_eq!(words(&confirmed.stderr).split(' ').count(), 6);
    let running = ["alice", "bob"].map(|name| two.start(name, &["run", &format!("{name}.toml"), "--quiet"]));
    running.into_iter().for_each(|one| _ = one.wait(LONG).good());
    assert_eq!(read(&two.of("alice").join("alice.matched.csv")), "id,v\n1,a\n3,c\n");
    assert_eq!(read(&two.of("bob").join("bob.matched.csv")), "client,w\n1,z\n3,x\n");
}

#[test]
fn one_who_stands_between_is_heard_in_the_words_and_not_let_in() {
    let (two, mallory) = (Two::new(), tempfile::tempdir().unwrap());
    two.invite(&[]).good();
    // mallory replaces alice's fingerprint on its way to bob, and bob's on its way to alice.
    let folder = mallory.path().to_str().unwrap();
    let print = run(&["cert", "mallory", "--out", folder]).good().stdout.trim().to_owned();
    let letter = read(&two.of("alice").join("bob.invite"));
    let hers =
        letter.lines().find_map(|line| line.strip_prefix("fingerprint = ")).unwrap().trim_matches('"').to_owned();
    std::fs::write(two.of("bob").join("bob.invite"), letter.replace(&hers, &print)).unwrap();
    let accepted = two.accept().good();
    let line = accepted.stdout.trim();
    // The line as bob sent it does not even belong to alice's invitation.
    two.confirm(line).bad(2, &["answers another invitation", "vesica accept"]);
    // So mallory answers the true invitation, in bob's name.
    std::fs::write(mallory.path().join("t.csv"), "k\n1\n").unwrap();
    std::fs::write(mallory.path().join("letter"), &letter).unwrap();
    std::fs::rename(mallory.path().join("mallory.pem"), mallory.path().join("bob.pem")).unwrap();
    let args = ["accept", "letter", "--table", "t.csv", "--key", "k"];
    let forged = Running::start(vesica().args(args).current_dir(mallory.path())).wait(LONG).good();
    let confirmed = two.confirm(forged.stdout.trim()).good();
    assert_ne!(words(&confirmed.stderr), words(&accepted.stderr), "the telephone call finds it");
    // And bob, who trusts mallory for alice, is not let in by alice, who trusts mallory for bob.
    for name in ["alice", "bob"] {
        let file = two.of(name).join(format!("{name}.toml"));
        std::fs::write(&file, read(&file) + "patience = \"3s\"\n").unwrap();
    }
    let running = ["alice", "bob"].map(|name| two.start(name, &["run", &format!("{name}.toml"), "--quiet"]));
    for ended in running.map(|one| one.wait(LONG)) {
        assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    }
}

#[test]
fn nothing_is_replaced_and_mistakes_are_named() {
    let two = Two::new();
    two.invite(&["--listen", "nowhere"]).bad(2, &["--listen"]);
    two.invite(&["--protocol", "rr23"]).bad(2, &["`rr23`", "did you mean `rr22`"]);
    two.invite(&["--protocol", "hash"]).bad(2, &["shared.accept", "guessable_keys"]);
    two.invite(&["--learns", "carol"]).bad(2, &["shared.learns", "carol"]);
    two.invite(&["--key", "nothing"]).bad(2, &["nothing"]);
    assert_eq!(names(&two.of("alice")), ["table.csv"], "what failed left nothing");
    two.invite(&[]).good();
    let job = read(&two.of("alice").join("alice.toml"));
    two.invite(&[]).bad(2, &["alice.toml", "is there already"]);
    two.send();
    two.start("bob", &["accept", "bob.invite", "--table", "table.csv", "--key", "id"])
        .wait(LONG)
        .bad(2, &["id", "client"]);
    assert_eq!(names(&two.of("bob")), ["bob.invite", "table.csv"]);
    let line = two.accept().good().stdout.trim().to_owned();
    two.accept().bad(2, &["bob.toml", "is there already"]);
    two.confirm(&line[..line.len() - 3]).bad(2, &["paste the whole line"]);
    two.confirm("nobody/at/all/x").bad(3, &["nobody.invite"]);
    assert_eq!(read(&two.of("alice").join("alice.toml")), job, "what failed changed nothing");
    // Words are about what will run: a letter that was replaced since is not believed.
    let letter = two.of("alice").join("bob.invite");
    let text = read(&letter);
    let changed = job.replace("id = \"alice-bob\"", "id = \"another\"");
    std::fs::write(two.of("alice").join("alice.toml"), &changed).unwrap();
    two.confirm(&line).bad(2, &["is not the invitation"]);
    std::fs::write(two.of("alice").join("alice.toml"), &job).unwrap();
    assert_eq!(read(&letter), text);
    two.confirm(&line).good();
    two.confirm(&line).good();
    // The identity that was made first is taken again for another partner.
    let listen = format!("127.0.0.1:{}", two.port);
    let again = ["invite", "--as", "alice", "--to", "dave", "--table", "table.csv", "--key", "id", "--listen", &listen];
    two.start("alice", &again).wait(LONG).bad(2, &["alice.toml", "--out"]);
}
