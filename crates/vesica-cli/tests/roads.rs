//! Runs whose parties are behind proxies, as their users see them.

use crate::two;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use two::house::House;
use two::{LONG, Running, Two, run, vesica};

/// A proxy that speaks HTTP, wants alice's password, and leads every name to this machine.
struct Http {
    url: String,
    /// What it was asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Http {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = Self { url: format!("http://{}", listener.local_addr().unwrap()), asked: Arc::default() };
        let asked = http.asked.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, asked) = (near.unwrap(), asked.clone());
                std::thread::spawn(move || serve(near, &asked));
            }
        });
        http
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut near: TcpStream, asked: &Mutex<Vec<String>>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && near.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let Some(target) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else { return };
    asked.lock().unwrap().push(target.to_owned());
    // The user alice, the password hunter2.
    if !head.contains("Proxy-Authorization: Basic YWxpY2U6aHVudGVyMg==\r\n") {
        let _ = near.write_all(b"HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic\r\n\r\n");
        return;
    }
    let port: u16 = target.rsplit(':').next().unwrap().parse().unwrap();
    let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
        let _ = near.write_all(b"HTTP/1.1 503 Nobody listens there\r\n\r\n");
        return;
    };
    [&near, &far].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
    near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
    let one = |mut from: TcpStream, mut to: TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    };
    let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::spawn(move || one(back, near));
    one(forth, far);
}

/// bob knows alice by a name that only the proxy knows.
fn two(port_of: impl Fn(u16) -> String) -> Two {
    let mut two = Two::with("id,name\n1,a\n2,b\n3,c\n", "id\n2\n7\n3\n");
    let calls = format!("connect = {{ alice = \"127.0.0.1:{}\" }}", two.port);
    two.bob.change(&calls, &port_of(two.port));
    two
}

fn secret(two: &Two, text: &str) {
    two.write("proxy.secret", text);
    std::fs::set_permissions(two.path("proxy.secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_run_and_its_lanes_go_through_the_proxy_of_the_job() {
    let http = Http::new();
    let mut two = two(|port| {
        let url = http.url.replace("//", "//alice:hunter2@");
        format!("connect = {{ alice = \"alice.invalid:{port}\" }}\nproxy = \"{url}\"\nlanes = 2\nreport = \"bob.json\"")
    });
    two.change("[mine]\n", "unit = 1\n\n[mine]\n");
    let [alice, bob] = two.run_well();
    assert_eq!(two.rows("bob.out.csv").len(), 2);
    let asked = http.asked();
    assert!(asked.len() >= 3 && asked.iter().all(|to| to.starts_with("alice.invalid:")), "{asked:?}");
    let said = format!("alice is called at alice.invalid:{}, through the proxy {} (mine.proxy)", two.port, http.url);
    assert!(bob.stderr.contains(&said), "{}", bob.stderr);
    let report = two.read("bob.json");
    assert!(report.contains(&http.url), "the job in it is that of the run");
    for text in [&alice.stderr, &bob.stderr, &bob.stdout, &report] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn the_environment_names_a_proxy_and_what_is_called_without_one() {
    let http = Http::new();
    let two = two(|port| format!("connect = {{ alice = \"alice.invalid:{port}\" }}"));
    let url = http.url.replace("//", "//alice:hunter2@");
    let [check, doctor] = ["check", "doctor"].map(|what| {
        let mut command = vesica();
        command.arg(what).arg(two.bob.file()).env("HTTPS_PROXY", &url);
        Running::start(&mut command).wait(LONG).good().stdout
    });
    let through = format!("through the proxy {} (HTTPS_PROXY)", http.url);
    // alice has not started.
    assert!(check.contains(&through) && check.contains("answers \"503 Nobody listens there\""), "{check}");
    assert!(doctor.contains("later   connect") && doctor.contains("503 Nobody listens there"), "{doctor}");
    let (alice, mut command) = (two.alice.start(), two.bob.command(&[]));
    let bob = Running::start(command.env("HTTPS_PROXY", &url));
    let (_, bob) = (alice.wait(LONG).good(), bob.wait(LONG).good());
    assert!(bob.stderr.contains(&through) && !bob.stderr.contains("hunter2"), "{}", bob.stderr);
    assert_eq!(two.rows("bob.out.csv").len(), 2);

    let mut command = vesica();
    command.arg("check").arg(two.bob.file()).env("HTTPS_PROXY", &url).env("NO_PROXY", ".invalid");
    let direct = Running::start(&mut command).wait(LONG).good().stdout;
    assert!(direct.contains("not through a proxy, for the environment's NO_PROXY has it"), "{direct}");
    assert!(direct.contains("does not resolve"), "{direct}");
    let mut command = vesica();
    command.arg("check").arg(two.bob.file()).env("ALL_PROXY", "https://alice:hunter2@proxy:1");
    let odd = Running::start(&mut command).wait(LONG);
    assert_eq!(odd.code, Some(2), "{}", odd.stderr);
    assert!(odd.stderr.contains("ALL_PROXY") && !odd.stderr.contains("hunter2"), "{}", odd.stderr);
}

#[test]
fn a_password_is_in_a_file_of_its_own_and_a_wrong_one_ends_the_run() {
    let http = Http::new();
    let two = two(|port| {
        let (url, name) = (&http.url, "proxy_credentials = \"proxy.secret\"");
        format!("connect = {{ alice = \"alice.invalid:{port}\" }}\nproxy = \"{url}\"\n{name}")
    });
    let check = || run(&["check", two.bob.file().to_str().unwrap()]);
    let refused = |words: &str| {
        let ended = check();
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert!(!ended.stderr.contains("guess") && !ended.stderr.contains("hunter2"), "{}", ended.stderr);
    };
    refused("proxy.secret: cannot be read");
    secret(&two, "guess\n");
    refused("it has no colon");
    secret(&two, "alice:guess\n");
    refused("does not accept the user and the password that it was given, it answers \"407 Who are you\"");
    let ended = two.bob.start().wait(LONG);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    secret(&two, "alice:hunter2\n");
    std::fs::set_permissions(two.path("proxy.secret"), std::fs::Permissions::from_mode(0o640)).unwrap();
    refused("run `chmod 600 ");
    secret(&two, "alice:hunter2\n");
    assert!(check().good().stdout.contains("answers \"503"));
    two.run_well();
}

#[test]
fn a_client_of_a_service_goes_through_its_proxy_too() {
    let http = Http::new();
    let mut house = House::new(&[("alice", 1000)]);
    house.write("list.csv", "id\n1\n2\n3\n");
    house.write("alice.csv", "id\n2\n9\n");
    let offer = house.prepare(&[]);
    let _server = house.serve();
    let url = http.url.replace("//", "//alice:hunter2@");
    house.asks = format!("proxy = \"{url}\"");
    let client = house.client("alice", &offer, "");
    let checked = run(&["check", client.to_str().unwrap()]).good();
    assert!(checked.stdout.contains(&format!("through the proxy {} (mine.proxy); somebody listens there", http.url)));
    house.ask(&client).wait(LONG).good();
    assert_eq!(house.matched("alice"), 1);
    assert!(http.asked().len() >= 2, "{:?}", http.asked());
}
