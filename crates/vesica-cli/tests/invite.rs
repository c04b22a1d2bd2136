//! From nothing to a match: `invite`, `accept`, `confirm`, `run`, as two people type them on two machines.

use crate::two;

use nix::sys::termios::{Termios, tcgetattr};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
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
        self.invite_to(&format!("127.0.0.1:{}", self.port), more)
    }

    /// An invitation to call this address.
    fn invite_to(&self, listen: &str, more: &[&str]) -> two::Ended {
        let usual =
            ["invite", "--as", "alice", "--to", "bob", "--table", "table.csv", "--key", "id", "--listen", listen];
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

/// alice's `vesica confirm` at a terminal of its own.
struct AtTerminal {
    keyboard: File,
    terminal: File,
    /// How the terminal was set when the command began.
    before: Termios,
    confirm: Running,
}

impl AtTerminal {
    /// The command finds `pasted` in the terminal.
    fn start(two: &Two, pasted: &str) -> Self {
        let pair = nix::pty::openpty(None::<&nix::pty::Winsize>, None::<&Termios>).unwrap();
        let (mut keyboard, terminal) = (File::from(pair.master), File::from(pair.slave));
        keyboard.write_all(pasted.as_bytes()).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let mut command = vesica();
        command.arg("confirm").current_dir(two.of("alice")).stdin(terminal.try_clone().unwrap());
        Self { keyboard, terminal, before, confirm: Running::start(&mut command) }
    }

    /// Waits for the end of the command, which leaves the terminal as it was, and nothing in it that a shell would read.
    #[track_caller]
    fn end(mut self) -> two::Ended {
        let ended = self.confirm.wait(LONG);
        assert!(tcgetattr(&self.terminal).unwrap() == self.before, "the terminal is set in another way");
        self.keyboard.write_all(b"what is typed next\n").unwrap();
        let mut next = String::new();
        BufReader::new(self.terminal).read_line(&mut next).unwrap();
        assert_eq!(next, "what is typed next\n", "{}", ended.stderr);
        ended
    }
}

/// Puts an identity that has expired in the place of a party's own.
fn expire(folder: &Path, name: &str) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 2, 3);
    let certificate = params.self_signed(&key).unwrap().pem();
    let file = folder.join(format!("{name}.pem"));
    std::fs::write(&file, key.serialize_pem() + &certificate).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The six words of a command's output.
fn words(told: &str) -> &str {
    told.lines().find_map(|line| line.strip_prefix("Six words:")).unwrap_or_else(|| panic!("{told}")).trim()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Rows that match by an address or a number, from an invitation.
#[test]
fn an_invitation_to_match_by_identifiers_is_run() {
    let two = Two::new();
    std::fs::write(
        two.of("alice").join("table.csv"),
        "id,mail,tel\n1,a@x.example,\n2,,079 111 11 11\n3,c@x.example,\n",
    )
    .unwrap();
    std::fs::write(two.of("bob").join("table.csv"), "email,phone\nA@x.example,\n,+41791111111\nd@x.example,\n")
        .unwrap();
    let invite = [
        "invite",
        "--as",
        "alice",
        "--to",
        "bob",
        "--table",
        "table.csv",
        "--listen",
        &format!("127.0.0.1:{}", two.port),
        "--identifier",
        "email=email",
        "--identifier",
        "phone=phone:CH",
        "--match",
        "any",
        "--key",
        "email=mail",
        "--key",
        "phone=tel",
    ];
    let wrong = invite.map(|word| if word == "any" { "some" } else { word });
    two.start("alice", &wrong).wait(LONG).bad(2, &["`some`", "`any`"]);
    let invited = two.start("alice", &invite).wait(LONG).good();
    assert!(invited.stdout.contains("--key email=COLUMN --key phone=COLUMN"), "{}", invited.stdout);
    two.send();
    let accept = ["accept", "bob.invite", "--table", "table.csv", "--key", "email", "--key", "phone"];
    let accepted = two.start("bob", &accept).wait(LONG).good();
    assert!(
        accepted.stderr.contains("which of their own identifiers the other party holds too"),
        "{}",
        accepted.stderr
    );
    two.confirm(accepted.stdout.trim()).good();
    let running = ["alice", "bob"].map(|name| two.start(name, &["run", &format!("{name}.toml")]));
    let _ = running.map(|side| side.wait(LONG).good());
    let read = |name: &str| std::fs::read_to_string(two.of(name).join(format!("{name}.matched.csv"))).unwrap();
    assert_eq!(read("alice"), "id,mail,tel\n1,a@x.example,\n2,,079 111 11 11\n");
    assert_eq!(read("bob"), "email,phone\nA@x.example,\n,+41791111111\n");
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
    assert!(accepted.stderr.contains("protocol = \"ecdh\""), "what is proposed is shown: {}", accepted.stderr);
    assert!(read(&two.of("bob").join("bob.toml")).contains(words(&accepted.stderr)), "the words are kept");
    let line = accepted.stdout.trim();
    assert_eq!(line.lines().count(), 1, "the line stands alone: {line}");
    let confirmed = two.confirm(line).good();
    assert_eq!(words(&confirmed.stderr), words(&accepted.stderr));
    assert_eq!(words(&confirmed.stderr).split(' ').count(), 6);
    assert!(confirmed.stdout.contains("you type:  vesica run alice.toml"), "{}", confirmed.stdout);
    assert!(accepted.stderr.contains("type:  vesica run bob.toml"), "{}", accepted.stderr);
    let running = ["alice", "bob"].map(|name| two.start(name, &["run", &format!("{name}.toml"), "--quiet"]));
    running.into_iter().for_each(|one| _ = one.wait(LONG).good());
    // Rows line up, in an order that is the run's.
    let matched = ["alice", "bob"].map(|name| read(&two.of(name).join(format!("{name}.matched.csv"))));
    let either = [["id,v\n1,a\n3,c\n", "client,w\n1,z\n3,x\n"], ["id,v\n3,c\n1,a\n", "client,w\n3,x\n1,z\n"]];
    assert!(either.iter().any(|both| matched == *both), "{matched:?}");
}

/// Runs what was proposed with these flags, after a reply with those; tells what alice and bob are told at the end.
fn proposed(invite: &[&str], accept: &[&str]) -> (Two, [String; 2]) {
    let two = Two::new();
    for (name, table) in [("alice", "id,v\n1,10\n2,20\n3,30\n"), ("bob", "client,w\n3,x\n4,y\n1,z\n")] {
        std::fs::write(two.of(name).join("table.csv"), table).unwrap();
    }
    two.invite(invite).good();
    two.send();
    let usual = ["accept", "bob.invite", "--table", "table.csv", "--key", "client"];
    let accepted = two.start("bob", &[&usual, accept].concat()).wait(LONG).good();
    two.confirm(accepted.stdout.trim()).good();
    let running = ["alice", "bob"].map(|name| two.start(name, &["run", &format!("{name}.toml")]));
    let told = running.map(|one| one.wait(LONG).good().stdout);
    (two, told)
}

/// Ids for both, a sum of alice's values for bob, shares for both: what each job writes has a place, and the values are named.
#[test]
fn any_result_can_be_proposed() {
    let (two, _) = proposed(&["--result", "ids"], &[]);
    let rows = |name: &str| {
        let text = read(&two.of(name).join(format!("{name}.ids.csv")));
        let rows = text.lines().skip(1).map(|line| line.rsplit_once(',').unwrap());
        rows.map(|(row, id)| (row.to_owned(), id.to_owned())).collect::<Vec<_>>()
    };
    let (alice, bob) = (rows("alice"), rows("bob"));
    assert_eq!([&alice[0].0, &bob[2].0], ["1,10", "1,z"]);
    let common = |place: usize| bob.iter().any(|(_, id)| *id == alice[place].1);
    assert_eq!([0, 1, 2].map(common), [true, false, true]);

    let (_, [_, told]) = proposed(&["--result", "sum", "--value", "v", "--learns", "bob"], &[]);
    assert!(told.contains("add up to 40"), "{told}");
    let (two, _) = proposed(&["--result", "shares"], &[]);
    assert!(two.of("bob").join("bob.shares.parquet").exists());

    let two = Two::new();
    two.invite(&["--result", "idz"]).bad(2, &["idz", "did you mean `ids`"]);
    two.invite(&["--result", "ids", "--learns", "bob"]).bad(2, &["name both", "--learns"]);
    two.invite(&["--result", "ids", "--protocol", "ecdh"]).bad(2, &["rr22", "--result"]);
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
    for nowhere in ["nowhere", "2001:db8::1:5300", "[alice]:5300"] {
        two.invite_to(nowhere, &[]).bad(2, &["--listen", nowhere, "is not HOST:PORT"]);
    }
    for every in ["0.0.0.0:5300", "[::]:5300"] {
        two.invite_to(every, &[]).bad(2, &["--listen", every, "by which bob reaches this machine"]);
    }
    two.invite(&["--protocol", "rr23"]).bad(2, &["`rr23`", "did you mean `rr22`"]);
    two.invite(&["--protocol", "hash"]).bad(2, &["shared.accept", "guessable_keys", "this is --accept NAME"]);
    two.invite(&["--learns", "carol"]).bad(2, &["shared.learns", "carol", "this is --learns NAME"]);
    two.invite(&["--security", "malicious"]).bad(2, &["shared.learns", "name one", "this is --learns NAME"]);
    two.invite(&["--protocol", "dp"]).bad(2, &["shared.dp", "no flag for this", "by hand"]);
    two.invite(&["--key", "nothing"]).bad(2, &["nothing"]);
    for name in [".bob", "-bob"] {
        let to = format!("--to={name}");
        let args = ["invite", "--as", "alice", &to, "--table", "table.csv", "--key", "id", "--listen", "127.0.0.1:1"];
        two.start("alice", &args).wait(LONG).bad(2, &[name, "is not a name"]);
    }
    assert_eq!(names(&two.of("alice")), ["table.csv"], "what failed left nothing");
    two.invite(&[]).good();
    let job = read(&two.of("alice").join("alice.toml"));
    two.invite(&[]).bad(2, &["alice.toml", "is there already"]);
    two.send();
    two.start("bob", &["accept", "bob.invite", "--table", "table.csv", "--key", "id"])
        .wait(LONG)
        .bad(2, &["id", "client"]);
    // A letter that another program wrote, or another person.
    let letter = read(&two.of("bob").join("bob.invite"));
    let every = letter.replace(&format!("127.0.0.1:{}", two.port), "0.0.0.0:5300");
    std::fs::write(two.of("bob").join("bob.invite"), every).unwrap();
    two.accept().bad(2, &["invitation.address", "0.0.0.0:5300", "Ask alice to invite bob anew"]);
    two.send();
    assert_eq!(names(&two.of("bob")), ["bob.invite", "table.csv"]);
    let line = two.accept().good().stdout.trim().to_owned();
    two.accept().bad(2, &["bob.toml", "is there already"]);
    // What a run would replace is found before anything is agreed.
    std::fs::write(two.of("bob").join("bob.matched.csv"), "precious").unwrap();
    std::fs::rename(two.of("bob").join("bob.toml"), two.of("bob").join("old.toml")).unwrap();
    two.accept().bad(2, &["bob.matched.csv", "is there already"]);
    std::fs::remove_file(two.of("bob").join("bob.matched.csv")).unwrap();
    let second = two.accept().good().stdout.trim().to_owned();
    two.confirm(&line[..line.len() - 3]).bad(2, &["paste the whole line"]);
    two.start("alice", &["confirm"]).wait(LONG).bad(2, &["\"\" is no reply", "vesica accept"]);
    // The side that was invited has nothing to confirm.
    let wrong = two.start("bob", &["confirm", &line]).wait(LONG);
    wrong.bad(2, &["alice.toml is not there", "If you are bob", "send the line to alice"]);
    two.confirm("hello").bad(2, &["\"hello\" is no reply", "vesica accept"]);
    two.confirm(&line.replacen("bob", "nobody", 1)).bad(2, &["nobody.invite is not there", "--dir"]);
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
    two.confirm(&format!(" \"{line}\"")).good();
    // bob replied twice, with one identity: the words of the second reply are not those of the job.
    two.confirm(&second).bad(2, &["waits for no reply of bob", "replied twice"]);
    two.start("alice", &["confirm", &line, "--service", "alice.toml"]).wait(LONG).bad(2, &["service"]);
    // The identity that was made first is taken again for another partner.
    let listen = format!("127.0.0.1:{}", two.port);
    let again = ["invite", "--as", "alice", "--to", "dave", "--table", "table.csv", "--key", "id", "--listen", &listen];
    two.start("alice", &again).wait(LONG).bad(2, &["alice.toml", "--out"]);
}

#[test]
fn a_number_of_ipv6_is_called_and_listened_at() {
    for (address, listen) in [("[2001:db8::1]:5300", "[::]:5300"), ("[::1]:5300", "[::1]:5300")] {
        let two = Two::new();
        two.invite_to(address, &[]).good();
        let job = read(&two.of("alice").join("alice.toml"));
        assert!(job.contains(&format!("listen = \"{listen}\"")), "{job}");
        let letter = read(&two.of("alice").join("bob.invite"));
        assert!(letter.contains(&format!("address = \"{address}\"")), "{letter}");
    }
}

#[test]
fn a_line_that_was_wrapped_is_pasted_and_no_shell_reads_what_stands_behind_it() {
    let two = Two::new();
    two.invite(&[]).good();
    two.send();
    let accepted = two.accept().good();
    let line = accepted.stdout.trim();
    let (begin, end) = line.split_at(70);
    let job = read(&two.of("alice").join("alice.toml"));
    for (pasted, error) in [
        ("hello\n\necho one\necho two".to_owned(), "\"hello\" is no reply"),
        (format!("{begin}\n\necho one\necho two"), "not all of one"),
        (format!("{begin}\necho one; #{end}\necho two"), "cut or changed"),
    ] {
        AtTerminal::start(&two, &pasted).end().bad(2, &[error]);
    }
    // Ctrl-C ends it in order as well.
    let asked = AtTerminal::start(&two, "echo one; ");
    asked.confirm.until("Paste the line");
    asked.confirm.signal("INT");
    assert_eq!(asked.end().code, Some(130));
    assert_eq!(read(&two.of("alice").join("alice.toml")), job, "what failed changed nothing");

    // The second half of a line may come later.
    let mut asked = AtTerminal::start(&two, &format!("{begin}\n"));
    asked.confirm.until("only a part");
    asked.keyboard.write_all(format!("{end}\n").as_bytes()).unwrap();
    assert_eq!(words(&asked.end().good().stderr), words(&accepted.stderr));
    // Enter alone is answered. Then the line may still come, and a second Enter ends it.
    let (whole, nothing) = (format!("{line}\n"), "\n".to_owned());
    for (then, is_good) in [(whole, true), (nothing, false)] {
        let mut asked = AtTerminal::start(&two, "\n");
        asked.confirm.until("That line is empty");
        asked.keyboard.write_all(then.as_bytes()).unwrap();
        let ended = asked.end();
        if is_good {
            ended.good();
        } else {
            ended.bad(2, &["\"\" is no reply"]);
        }
    }
    // And a line that is whole may have more behind it, as mail has.
    let mail = format!("> {begin}\n> {end}\necho one\necho two");
    assert_eq!(words(&AtTerminal::start(&two, &mail).end().good().stderr), words(&accepted.stderr));
}

#[test]
fn an_identity_that_has_expired_is_refused_before_anybody_telephones() {
    let two = Two::new();
    let refused: &[&str] = &["the certificate expired on 2002-02-03", "vesica cert"];
    expire(&two.of("alice"), "alice");
    two.invite(&[]).bad(2, refused);
    assert_eq!(names(&two.of("alice")), ["alice.pem", "table.csv"]);
    std::fs::remove_file(two.of("alice").join("alice.pem")).unwrap();
    two.invite(&[]).good();
    two.send();
    expire(&two.of("bob"), "bob");
    two.accept().bad(2, refused);
    assert_eq!(names(&two.of("bob")), ["bob.invite", "bob.pem", "table.csv"]);
    std::fs::remove_file(two.of("bob").join("bob.pem")).unwrap();
    let line = two.accept().good().stdout;
    expire(&two.of("alice"), "alice");
    two.confirm(line.trim()).bad(2, refused);
}

/// A server, bob, with what he prepared, and alice with a table, each in a folder.
struct Service {
    dir: tempfile::TempDir,
    port: u16,
}

impl Service {
    /// A service with these lines in its document.
    fn new(lines: &str) -> Self {
        let service = Self { dir: tempfile::tempdir().unwrap(), port: port() };
        for (name, table) in [("alice", "id,w\n3,x\n40,y\n1,z\n"), ("bob", "id,score\n1,10\n2,20\n3,30\n4,40\n")] {
            std::fs::create_dir(service.of(name)).unwrap();
            std::fs::write(service.of(name).join("table.csv"), table).unwrap();
        }
        service.start("bob", &["cert", "bob"]).wait(LONG).good();
        let document = format!(
            "[service]\nid = \"list\"\nvalues = [\"score\"]\n{lines}\n\n[mine]\nname = \"bob\"\nlisten = \"0.0.0.0:{}\"\n\
             tls = {{ identity = \"bob.pem\" }} # ours\ninput = {{ path = \"table.csv\", keys = [\"id\"] }}\n\
             store = \"list.store\"\n",
            service.port
        );
        std::fs::write(service.of("bob").join("server.toml"), document).unwrap();
        service
    }

    fn of(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, name: &str, args: &[&str]) -> Running {
        Running::start(vesica().args(args).current_dir(self.of(name)))
    }

    fn invite(&self, more: &[&str]) -> two::Ended {
        let listen = format!("127.0.0.1:{}", self.port);
        self.invite_with(&[&["--listen", &listen], more].concat())
    }

    /// An invitation for which nothing says where the server can be called.
    fn invite_with(&self, more: &[&str]) -> two::Ended {
        let usual = ["invite", "--service", "server.toml", "--to", "alice", "--keys-a-day", "1000"];
        self.start("bob", &[&usual, more].concat()).wait(LONG)
    }

    fn accept(&self) -> two::Ended {
        self.start("alice", &["accept", "alice.invite", "--table", "table.csv", "--key", "id"]).wait(LONG)
    }

    fn confirm(&self, line: &str, more: &[&str]) -> two::Ended {
        self.start("bob", &[&["confirm", line, "--service", "server.toml"], more].concat()).wait(LONG)
    }

    fn server(&self) -> String {
        read(&self.of("bob").join("server.toml"))
    }
}

#[test]
fn a_client_who_was_invited_asks_a_service() {
    for lines in [
        "protocol = \"ecdh-oprf\"",
        "protocol = \"simple-pir\"",
        "protocol = \"piano\"\nprivate = \"client\"\naccept = [\"all_rows\"]",
    ] {
        let service = Service::new(lines);
        service.invite(&[]).bad(2, &["nothing is prepared", "vesica prepare"]);
        service.start("bob", &["prepare", "server.toml", "--quiet"]).wait(LONG).good();
        let before = service.server();
        service.invite(&[]).good();
        let letter = read(&service.of("bob").join("alice.invite"));
        for own in ["PRIVATE", "table.csv", "list.store", "bob.pem", "[mine]"] {
            assert!(!letter.contains(own), "{own} is in the letter: {letter}");
        }
        std::fs::copy(service.of("bob").join("alice.invite"), service.of("alice").join("alice.invite")).unwrap();
        let accepted = service.accept().good();
        for told in [
            "ask the service list, for 1,000 keys a day",
            "score",
            "If you run this, this is who learns what",
            "type:  vesica ask alice.toml",
            "`vesica confirm --service FILE`",
        ] {
            assert!(accepted.stderr.contains(told), "{told} is not in {}", accepted.stderr);
        }
        let all_rows = accepted.stderr.contains("whatever of bob's table it wants");
        assert_eq!(all_rows, lines.contains("client"), "{}", accepted.stderr);
        let line = accepted.stdout.trim();

        // A server that runs lets in whoever stands in its document, so nothing stands there before the words were compared.
        let server = service.start("bob", &["serve", "server.toml", "--log", "text"]);
        server.until("serving");
        let shown = service.confirm(line, &[]).good();
        assert_eq!(words(&shown.stderr), words(&accepted.stderr));
        assert_eq!(service.server(), before);
        assert!(shown.stderr.contains("1,000 keys a day"), "{}", shown.stderr);
        // The document is found where the letter is, if it is the only one of that service.
        let found = service.start("bob", &["confirm", line]).wait(LONG).good();
        assert_eq!((&found.stderr, &found.stdout), (&shown.stderr, &shown.stdout));
        std::fs::copy(service.of("bob").join("server.toml"), service.of("bob").join("other.toml")).unwrap();
        let several = "other.toml and server.toml are documents of that service";
        service.start("bob", &["confirm", line]).wait(LONG).bad(2, &["alice.invite", several, "--service"]);
        std::fs::remove_file(service.of("bob").join("other.toml")).unwrap();
        let six = words(&shown.stderr).to_owned();
        service
            .confirm(line, &["--compared", "one two three four five six"])
            .bad(2, &["not the six words of this line"]);
        assert_eq!(service.server(), before);
        service.start("bob", &["confirm", line, "--compared", &six]).wait(LONG).good();
        assert!(service.server().contains("# ours") && service.server().contains("keys_a_day = 1000"));
        service.confirm(line, &["--compared", &six]).good();
        service
            .invite(&["--out", ".."])
            .bad(2, &["mine.clients.alice: server.toml lets alice in already", "take alice out first"]);
        server.until("the list of clients has 1 name now");
        // Where there is no hint, bob's document does not say so. The letter and alice's document do, with what that assumes, so her runs need not.
        let assumes = lines.contains("simple-pir");
        assert_eq!(read(&service.of("alice").join("alice.toml")).contains("circular security"), assumes);
        let told = service.start("alice", &["ask", "alice.toml"]).wait(LONG).good().stderr;
        assert!(!told.contains("circular security"), "{told}");
        assert_eq!(read(&service.of("alice").join("alice.found.csv")), "id,w,score\n3,x,30\n1,z,10\n");
    }
}

#[test]
fn one_who_stands_between_a_service_and_its_client_is_heard_in_the_words() {
    let (service, hers) = (Service::new("protocol = \"ecdh-oprf\""), Service::new("protocol = \"ecdh-oprf\""));
    for one in [&service, &hers] {
        one.start("bob", &["prepare", "server.toml", "--quiet"]).wait(LONG).good();
        one.invite(&[]).good();
    }
    let before = service.server();
    // mallory passes on an invitation to a service of her own, under bob's name.
    std::fs::copy(hers.of("bob").join("alice.invite"), service.of("alice").join("alice.invite")).unwrap();
    let accepted = service.accept().good();
    service.confirm(accepted.stdout.trim(), &[]).bad(2, &["answers another invitation"]);
    // And answers bob's in alice's name.
    std::fs::copy(service.of("bob").join("alice.invite"), hers.of("alice").join("alice.invite")).unwrap();
    let forged = hers.accept().good();
    let shown = service.confirm(forged.stdout.trim(), &[]).good();
    assert_ne!(words(&shown.stderr), words(&accepted.stderr), "the telephone call finds it");
    assert_eq!(service.server(), before, "and nobody is let in before it");
    // alice's own reply reaches bob, and they compare its words. Then a line of mallory's comes as one to use instead.
    std::fs::remove_dir_all(service.of("alice")).unwrap();
    std::fs::create_dir(service.of("alice")).unwrap();
    std::fs::write(service.of("alice").join("table.csv"), "id\n1\n").unwrap();
    std::fs::copy(service.of("bob").join("alice.invite"), service.of("alice").join("alice.invite")).unwrap();
    let honest = service.accept().good();
    let compared = words(&honest.stderr).to_owned();
    service.confirm(forged.stdout.trim(), &["--compared", &compared]).bad(2, &["not the six words of this line"]);
    assert_eq!(service.server(), before);
    // A service that was prepared anew since is not the one of the letter.
    service.start("bob", &["prepare", "server.toml", "--rotate", "--quiet"]).wait(LONG).good();
    service.confirm(forged.stdout.trim(), &["--compared", words(&shown.stderr)]).bad(2, &["as it is prepared now"]);
    assert_eq!(service.server(), before);
    service.start("bob", &["confirm", forged.stdout.trim()]).wait(LONG).bad(2, &["as it is prepared now"]);
    std::fs::remove_file(service.of("bob").join("server.toml")).unwrap();
    let none = "has no document of that service";
    service.start("bob", &["confirm", forged.stdout.trim()]).wait(LONG).bad(2, &[none, "--service FILE"]);
}

#[test]
fn a_server_invites_with_what_its_clients_can_use() {
    let service = Service::new("protocol = \"ecdh-oprf\"");
    service.start("bob", &["prepare", "server.toml", "--quiet"]).wait(LONG).good();
    service.invite_with(&[]).bad(2, &["say with --listen"]);
    for every in ["0.0.0.0:5400", "[::]:5400"] {
        service.invite_with(&["--listen", every]).bad(2, &["--listen", every, "by which alice reaches this machine"]);
    }
    // The folder for the letter is made.
    let told = service.invite(&["--out", "letters/of/today"]).good().stdout;
    assert!(told.contains("vesica confirm --service server.toml --dir letters/of/today"), "{told}");
    std::fs::copy(service.of("bob").join("letters/of/today/alice.invite"), service.of("alice").join("alice.invite"))
        .unwrap();
    let line = service.accept().good().stdout;
    let folder = ["--dir", "letters/of/today"];
    service.confirm(line.trim(), &folder).good();
    expire(&service.of("bob"), "bob");
    let refused: &[&str] = &["the certificate expired on 2002-02-03", "vesica cert"];
    service.confirm(line.trim(), &folder).bad(2, refused);
    service.invite(&["--out", "letters/of/tomorrow"]).bad(2, refused);
    assert_eq!(names(&service.of("bob").join("letters/of")), ["today"]);
}

/// The first commands that the README shows. The name in bold before a block is that of who types it.
#[test]
fn the_commands_of_the_readme_lead_to_a_match() {
    let page = include_str!("../../../README.md");
    let (_, page) = page.split_once("## A first match with a partner").expect("the README begins with it");
    let (mut page, _) = page.split_once("<!-- ANCHOR_END: first-match -->").expect("its end");
    let two = Two::new();
    std::fs::write(two.of("alice").join("customers.csv"), "email\nann@a.example\neva@e.example\n").unwrap();
    std::fs::write(two.of("bob").join("clients.csv"), "mail,since\neva@e.example,1999\nlou@l.example,2001\n").unwrap();
    let address = format!("127.0.0.1:{}", two.port);
    let (pasted, mut running) = (two.dir.path().join("pasted"), Vec::new());
    std::fs::write(&pasted, "").unwrap();
    while let Some((before, behind)) = page.split_once("```sh\n") {
        let (command, rest) = behind.split_once("\n```").expect("the end of a block");
        page = rest;
        let who = before.rsplit("**").nth(1).expect("who types it");
        let args = command.strip_prefix("vesica ").expect("a command of vesica");
        let args = args.replace("alice.example:5300", &address);
        let args: Vec<&str> = args.split(' ').collect();
        // What is on standard input is what somebody pastes.
        let mut command = vesica();
        command.args(&args).current_dir(two.of(who)).stdin(std::fs::File::open(&pasted).unwrap());
        let started = Running::start(&mut command);
        match args[0] {
            "invite" => {
                started.wait(LONG).good();
                two.send();
            }
            "accept" => std::fs::write(&pasted, started.wait(LONG).good().stdout).unwrap(),
            "confirm" => _ = started.wait(LONG).good(),
            _ => running.push(started),
        }
    }
    assert_eq!(running.len(), 2, "both run");
    running.into_iter().for_each(|one| _ = one.wait(LONG).good());
    assert_eq!(read(&two.of("alice").join("alice.matched.csv")), "email\neva@e.example\n");
    assert_eq!(read(&two.of("bob").join("bob.matched.csv")), "mail,since\neva@e.example,1999\n");
}
