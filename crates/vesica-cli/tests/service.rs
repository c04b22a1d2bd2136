//! One party prepares and serves, others ask: the four commands as a user runs them, against a plain join.

use crate::two;

use std::time::{Duration, Instant};
use two::house::House;
use two::{LONG, Proxy, Running, run, vesica};

/// The server's table: keys 0 to 299, of which some stand twice with one value, some have none, and values need quotes.
fn list() -> String {
    let row = |key: u32| format!("{key},\"name \"\"{key}\"\", esq.\",{}\n", key * 7);
    let rows: String = (0..300).map(row).collect();
    format!("id,name,score\n,nobody,1\n{rows}{},,9\n{}", row(5), row(6))
}

/// A client's table: keys 200 to 399, key 205 twice, and a row without a key.
fn asked() -> String {
    let rows: String = (200..400).map(|key| format!("{key}, \"x{key}\"\r\n")).collect();
    format!("id, what\r\n{rows}205,again\r\n,none\r\n")
}

/// The rows of [`asked`] whose keys are in [`list`], with `more` behind each.
fn expected(more: impl Fn(u32) -> String) -> String {
    let rows: String = (200..300).map(|key| format!("{key}, \"x{key}\"{}\r\n", more(key))).collect();
    format!("{rows}205,again{}\r\n", more(205))
}

/// A server with the table, and these clients.
fn house(clients: &[(&str, u64)]) -> House {
    let house = House::new(clients);
    house.write("list.csv", list());
    house
}

fn with_values() -> House {
    let mut house = house(&[("alice", 1000)]);
    house.service = "values = [\"name\", \"score\"]".into();
    house.write("alice.csv", asked());
    house
}

/// The values of [`list`] as they are appended.
fn values(key: u32) -> String {
    format!(",\"name \"\"{key}\"\", esq.\",{}", key * 7)
}

#[test]
fn rows_that_are_found_come_byte_for_byte_with_their_values() {
    let house = with_values();
    let offer = house.prepare(&[]);
    let _server = house.serve();
    let client = house.client("alice", &offer, "");
    let done = house.ask(&client).wait(LONG).good();
    assert!(done.stdout.contains("101 of your 202 rows"), "{}", done.stdout);
    assert_eq!(house.read("alice.out.csv"), format!("id, what,name,score\r\n{}", expected(values)));
    assert_eq!(house.matched("alice"), 100);
    // Neither the store nor the cache holds a value, and they are the same files.
    for folder in ["list.store", "alice.cache"] {
        for file in two::names(&house.path(folder)) {
            let bytes = std::fs::read(house.path(folder).join(&file)).unwrap();
            assert!(!bytes.windows(4).any(|window| window == b"esq."), "{folder}/{file}");
        }
    }
    let parts = |folder: &str| {
        let mut names = two::names(&house.path(folder));
        names.retain(|name| name.starts_with("part") || name == "manifest");
        names.into_iter().map(|name| std::fs::read(house.path(folder).join(name)).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(parts("list.store"), parts("alice.cache"));
}

#[test]
fn every_curve_answers_whether_a_key_is_there() {
    for (curve, verifiable) in [
        ("ristretto255", true),
        ("p256", true),
        ("p256", false),
        ("fourq", false),
        ("curve25519", false),
        ("sm2", false),
        ("secp256k1", false),
    ] {
        let mut house = house(&[("alice", 1000)]);
        house.service = format!("curve = \"{curve}\"\nverifiable = {verifiable}");
        house.write("alice.csv", asked());
        let offer = house.prepare(&[]);
        let _server = house.serve();
        let client = house.client("alice", &offer, &format!("curve = \"{curve}\""));
        house.ask(&client).wait(LONG).good();
        assert_eq!(house.read("alice.out.csv"), format!("id, what\r\n{}", expected(|_| String::new())), "{curve}");
    }
}

#[test]
fn a_client_that_has_asked_enough_is_refused_also_after_the_server_was_killed() {
    let mut house = with_values();
    house.clients = vec![("alice".into(), 500)];
    let offer = house.prepare(&[]);
    let client = house.client("alice", &offer, "");
    let server = house.serve();
    house.ask(&client).wait(LONG).good();
    house.ask(&client).wait(LONG).good();
    house.ask(&client).wait(LONG).bad(5, &["bob does not answer", "100"]);
    server.signal("KILL");
    drop(server);
    let _server = house.serve();
    house.ask(&client).wait(LONG).bad(5, &["bob does not answer", "100"]);
    // The list of clients is read again while the server runs.
    house.clients = vec![("alice".into(), 5000)];
    house.server();
    _server.until("the list of clients has 1 name now");
    house.ask(&client).wait(LONG).good();
}

/// The server's certificate and its client's are exchanged for new ones while it runs; files that are of no use change nothing.
#[test]
fn certificates_are_exchanged_while_the_server_runs() {
    let mut house = with_values();
    let offer = house.prepare(&[]);
    let server = house.serve();
    let asks = |house: &House| house.ask(&house.client("alice", &offer, "")).wait(LONG);
    asks(&house).good();
    let old = house.prints["bob"].clone();
    let new = run(&["cert", "bob", "--out", house.path("new").to_str().unwrap()]).good().stdout.trim().to_owned();

    let (file, before) = (house.path("bob.pem"), house.read("bob.pem"));
    house.write("bob.pem", "not a key");
    server.until("the certificate that is shown stays as it was");
    asks(&house).good();
    // Of the same length, and perhaps within the clock's grain: then the signal helps.
    std::fs::copy(house.path("new/bob.pem"), &file).unwrap();
    server.signal("HUP");
    server.until(&format!("new connections are shown the certificate {new}"));
    asks(&house).bad(5, &["is not bob", &new]);
    house.prints.insert("bob".into(), format!("{old}\", \"{new}"));
    house.bob_by_any = true;
    asks(&house).good();

    let again = run(&["cert", "alice", "--out", house.path("new").to_str().unwrap()]).good().stdout.trim().to_owned();
    std::fs::copy(house.path("new/alice.pem"), house.path("alice.pem")).unwrap();
    asks(&house).bad(5, &["did not accept our certificate"]);
    house.prints.insert("alice".into(), again);
    let told = || server.said().matches("the list of clients has 1 name now").count();
    let (before_it, began) = (told(), Instant::now());
    house.server();
    while told() == before_it {
        assert!(began.elapsed() < LONG, "{}", server.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    asks(&house).good();

    // SIGHUP ends nothing, and TERM does.
    house.write("bob.pem", before);
    server.signal("HUP");
    server.until(&format!("new connections are shown the certificate {old}"));
    server.signal("TERM");
    server.wait(LONG).good();
}

/// A program prints the server's key. One that fails for a moment costs no renewed certificate, and one that hangs holds up neither the list of
/// clients nor the end.
#[test]
fn a_program_with_the_key_is_asked_again_and_holds_nothing_up() {
    let house = with_values();
    house.prepare(&[]);
    let new = run(&["cert", "bob", "--out", house.path("new").to_str().unwrap()]).good().stdout.trim().to_owned();
    std::fs::copy(house.path("bob.pem"), house.path("printed")).unwrap();
    house.write("key.sh", "echo >> asked\ntest ! -e away || exit 1\ntest ! -e hangs || exec sleep 600\ncat printed\n");
    let document = std::fs::read_to_string(house.server()).unwrap();
    let by = "identity = \"bob.cert.pem\", key = { program = [\"sh\", \"key.sh\"] }";
    let document = document.replace("identity = \"bob.pem\"", by);
    house.write("bob.toml", &document);
    let server = Running::start(vesica().args(["serve", "--log", "text"]).arg(house.path("bob.toml")));
    server.until("serving");
    let asked = || house.read("asked").lines().count();
    let told = || server.said().matches("the list of clients has 1 name now").count();
    let waits = |what: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < LONG, "{}", server.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    assert_eq!(asked(), 1);
    // The document is another one, and the key is where it was.
    house.write("bob.toml", format!("{document}# more\n"));
    waits(&|| told() == 1);
    assert_eq!(asked(), 1);

    house.write("away", "");
    std::fs::copy(house.path("new/bob.pem"), house.path("printed")).unwrap();
    std::fs::copy(house.path("new/bob.cert.pem"), house.path("bob.cert.pem")).unwrap();
    server.until("the certificate that is shown stays as it was, and is tried again");
    std::fs::remove_file(house.path("away")).unwrap();
    server.until(&format!("new connections are shown the certificate {new}"));

    house.write("hangs", "");
    let before = asked();
    server.signal("HUP");
    waits(&|| asked() > before && told() == 2);
    house.write("bob.toml", format!("{document}# and more\n"));
    waits(&|| told() == 3);
    let began = Instant::now();
    server.signal("TERM");
    server.wait(LONG).good();
    assert!(began.elapsed() < Duration::from_secs(40), "it waited for the program");
}

#[test]
fn rows_are_added_and_removed_and_the_key_is_changed() {
    let house = with_values();
    let offer = house.prepare(&[]);
    let server = house.serve();
    let client = house.client("alice", &offer, "");
    house.ask(&client).wait(LONG).good();
    house.write("more.csv", "id,name,score\n399,new,1\n200,other,2\n");
    house.write("gone.csv", "id\n201\n202\n9999\n");
    let path = |name: &str| house.path(name).to_str().unwrap().to_owned();
    assert_eq!(house.prepare(&["--append", &path("more.csv"), "--remove", &path("gone.csv")]), offer);
    server.until("a new state of the store is served, with 299 keys");
    let fetched = Running::start(vesica().args(["fetch", "--quiet"]).arg(&client)).wait(LONG).good();
    assert!(fetched.stdout.contains("299 keys") && fetched.stdout.contains("fetched 1 part,"), "{}", fetched.stdout);
    house.ask(&client).wait(LONG).good();
    let mut want: Vec<String> = expected(values).split_inclusive("\r\n").map(str::to_owned).collect();
    want.retain(|row| !row.starts_with("201,") && !row.starts_with("202,"));
    want[0] = "200, \"x200\",other,2\r\n".to_owned();
    want.insert(want.len() - 1, "399, \"x399\",new,1\r\n".to_owned());
    assert_eq!(house.read("alice.out.csv"), format!("id, what,name,score\r\n{}", want.concat()));

    // Of the 300 keys of the table two were removed, and one was appended that is not in it.
    let said = house.prepared(&["--rotate"]);
    let lost = "Before, there were 299 keys, as --append and --remove had changed them. Now there is what ";
    assert!(
        said.contains(lost) && said.contains("list.csv holds: a key that was appended and is not in it is gone"),
        "{said}"
    );
    let rotated = said.lines().last().unwrap().strip_prefix("offer ").unwrap().to_owned();
    assert_ne!(rotated, offer);
    assert!(!house.prepared(&[]).contains("Before"));
    server.until("the store stays as it was");
    server.signal("INT");
    server.wait(LONG);
    let _server = house.serve();
    house.ask(&client).wait(LONG).bad(5, &["bob offers", &rotated, &offer]);
    house.ask(&house.client("alice", &rotated, "")).wait(LONG).good();
}

/// Two nights of a client that keeps answers. The first takes what it may ask for once, and the second asks for nothing.
#[test]
fn a_client_that_keeps_is_told_what_changed() {
    let mut house = with_values();
    (house.clients, house.limits) = (vec![("alice".into(), 10)], ", keys_at_first = 200".into());
    house.asks = "kept = { path = \"bob.kept\", key = \"seal.key\" }".into();
    house.write("seal.key", [7; 32]);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(house.path("seal.key"), mode).unwrap();
    let offer = house.prepare(&[]);
    let server = house.serve();
    let document = |house: &House, offer: &str| {
        let file = house.client("alice", offer, "");
        let text = house.read("alice.toml");
        let changes = "out.csv\", gained = \"gained.csv\", lost = \"lost.csv\"";
        house.write("alice.toml", text.replace("out.csv\"", changes));
        file
    };
    let client = document(&house, &offer);
    let plans = |words: &[&str]| {
        let said = Running::start(vesica().arg("plan").arg(&client)).wait(LONG).good().stdout;
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    plans(&["bob.kept is made by the first run", "Ask: 202 rows", "Instead: a job", "when it was on bob's list"]);
    let first = house.ask(&client).wait(LONG).good().stdout;
    let words = "Run 1 (the first): 100 keys gained, 0 lost. 200 keys were asked for, 0 kept from earlier runs.";
    assert!(first.contains(words), "{first}");
    assert_eq!(house.read("gained.csv"), house.read("alice.out.csv"));
    assert_eq!(house.read("lost.csv"), "id, what\r\n");

    house.write("more.csv", "id,name,score\n399,new,1\n");
    house.write("gone.csv", "id\n201\n202\n");
    let path = |name: &str| house.path(name).to_str().unwrap().to_owned();
    house.prepare(&["--append", &path("more.csv"), "--remove", &path("gone.csv")]);
    server.until("a new state of the store is served, with 299 keys");
    plans(&["Kept: run 1 of 2", "Ask: 0 rows", "which is more"]);
    // Nobody hears of a run. So it is not over, and the same command says it again.
    if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
        let unheard = vesica().arg("ask").arg(&client).stdout(full).output().unwrap();
        assert_eq!(unheard.status.code(), Some(3), "{}", String::from_utf8_lossy(&unheard.stderr));
        assert!(house.path("bob.kept.log").exists());
    }
    let second = house.ask(&client).wait(LONG).good().stdout;
    let words = ": 1 key gained, 2 lost. 0 keys were asked for, 200 kept from earlier runs.";
    assert!(second.contains("Run 2 (since 2") && second.contains(words), "{second}");
    assert_eq!(house.read("gained.csv"), "id, what,name,score\r\n399, \"x399\",new,1\r\n");
    assert_eq!(house.read("lost.csv"), "id, what\r\n201, \"x201\"\r\n202, \"x202\"\r\n");
    assert_eq!((house.matched("alice"), house.report("alice")["outcome"]["changes"]["run"].as_u64()), (99, Some(2)));
    let checked = Running::start(vesica().arg("check").arg(&client)).wait(LONG).good().stdout;
    assert!(checked.contains("run 2 of 2") && checked.contains("200 keys"), "{checked}");

    // A new key of the function is another offer, for which nothing is kept.
    let rotated = house.prepare(&["--rotate"]);
    let words = ["mine.kept", "bob.kept", offer.as_str(), rotated.as_str(), "Name a new file"];
    house.ask(&document(&house, &rotated)).wait(LONG).bad(2, &words);
}

#[test]
fn who_is_not_on_the_list_is_not_answered() {
    let mut house = with_values();
    let offer = house.prepare(&[]);
    house.prints.insert("carol".into(), {
        let folder = house.dir.path().to_str().unwrap();
        run(&["cert", "carol", "--out", folder]).good().stdout.trim().to_owned()
    });
    let _server = house.serve();
    house.write("carol.csv", asked());
    let client = house.client("carol", &offer, "");
    let text = house.read("carol.toml").replace("20s", "2s");
    house.write("carol.toml", &text);
    let ended = house.ask(&client).wait(LONG);
    assert!(matches!(ended.code, Some(4 | 5)), "{ended:?}");
    assert!(!house.path("carol.out.csv").exists());
}

#[test]
fn a_fetch_that_is_cut_goes_on() {
    let mut house = with_values();
    let rows: String = (0..20_000).map(|key| format!("{key},name of {key},{key}\n")).collect();
    house.write("list.csv", format!("id,name,score\n{rows}"));
    house.service += "\nvalue_bytes = 300";
    let offer = house.prepare(&[]);
    let _server = house.serve();
    let proxy = Proxy::before(house.port);
    house.port = proxy.port;
    let client = house.client("alice", &offer, "");
    for cut in [8_000u64, 400_000, 4_500_000] {
        proxy.cut_after(cut);
        let ended = Running::start(vesica().args(["fetch", "--quiet"]).arg(&client)).wait(LONG);
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    }
    proxy.cut_after(0);
    let before: u64 =
        std::fs::read_dir(house.path("alice.cache")).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(before > 1 << 20, "what had come was kept: {before} bytes");
    Running::start(vesica().args(["fetch", "--quiet"]).arg(&client)).wait(LONG).good();
    house.ask(&client).wait(LONG).good();
    assert_eq!(house.matched("alice"), 200);
}

/// A disk that changed a byte anywhere in a client's copy is found before any key is asked for: what the server sees of it, and what it is asked
/// for again, depends on no key. A server that spoils what it serves is in the tests of `vesica-service`, `hostile.rs`.
#[test]
fn damage_of_a_copy_is_told_before_keys_are_asked_for() {
    let mut house = with_values();
    let rows: String = (0..20_000).map(|key| format!("{key},name of {key},{key}\n")).collect();
    house.write("list.csv", format!("id,name,score\n{rows}"));
    house.service += "\nvalue_bytes = 300";
    let offer = house.prepare(&[]);
    let server = house.serve();
    let client = house.client("alice", &offer, "");
    house.ask(&client).wait(LONG).good();
    let part = std::fs::read_dir(house.path("alice.cache")).unwrap().map(|entry| entry.unwrap().path());
    let part = part.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut spoiled = std::fs::read(&part).unwrap();
    let last = spoiled.len() - 1;
    spoiled[last] ^= 1;
    std::fs::write(&part, &spoiled).unwrap();
    house.ask(&client).wait(LONG).bad(3, &["alice.cache", "is damaged: chunk", "fetch it again"]);
    let audit = house.read("list.store.audit");
    assert_eq!(audit.lines().filter(|line| line.contains("\"answered\",\"keys\":200")).count(), 1, "{audit}");
    let said = server.said();
    let usual = |line: &str| {
        ["listening", "serving", "connected", "begin session", "end session"].iter().any(|word| line.contains(word))
    };
    assert!(said.lines().all(usual), "{said}");
    // As the error says.
    std::fs::remove_file(&part).unwrap();
    house.ask(&client).wait(LONG).good();
    assert_eq!(house.matched("alice"), 200);
}

#[test]
fn many_ask_at_once() {
    let names: Vec<String> = (0..50).map(|n| format!("c{n}")).collect();
    let clients: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1000)).collect();
    let house = house(&clients);
    let offer = house.prepare(&[]);
    let _server = house.serve();
    let running: Vec<Running> = (0u32..)
        .zip(&names)
        .map(|(n, name)| {
            let rows: String = (0..200).map(|i| format!("{}\n", 10 * i + n)).collect();
            house.write(&format!("{name}.csv"), format!("id\n{rows}"));
            house.ask(&house.client(name, &offer, ""))
        })
        .collect();
    for (n, (name, run)) in (0u32..).zip(names.iter().zip(running)) {
        run.wait(LONG).good();
        let want: String =
            (0..200).map(|i| 10 * i + n).filter(|key| *key < 300).map(|key| format!("{key}\n")).collect();
        assert_eq!(house.read(&format!("{name}.out.csv")), format!("id\n{want}"));
    }
    let audit = house.read("list.store.audit");
    assert!(names.iter().all(|name| audit.contains(&format!("\"{name}\""))));
    assert_eq!(audit.lines().filter(|line| line.contains("200") && line.contains("answered")).count(), 50, "{audit}");
}

#[test]
fn the_server_is_killed_while_it_answers_and_the_client_says_so() {
    let house = with_values();
    let offer = house.prepare(&[]);
    let server = house.serve();
    let rows: String = (0..900).map(|key| format!("{key}\n")).collect();
    house.write("alice.csv", format!("id\n{rows}"));
    let client = house.client("alice", &offer, "");
    let text = house.read("alice.toml").replace("20s", "3s");
    house.write("alice.toml", &text);
    let mut ended = None;
    // The moment is another one each time; the client ends well or says what happened, and never with a part of the rows.
    for wait in [0, 20, 60] {
        let asking = house.ask(&client);
        std::thread::sleep(Duration::from_millis(wait));
        if wait == 60 {
            server.signal("KILL");
        }
        ended = Some(asking.wait(LONG));
    }
    let ended = ended.unwrap();
    match ended.code {
        Some(0) => assert_eq!(house.read("alice.out.csv").lines().count(), 301),
        _ => assert!(matches!(ended.code, Some(4 | 5)), "{ended:?}"),
    }
}
