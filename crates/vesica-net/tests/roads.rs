//! Peers that are called by a command or by a name for gateways, and those who come through a gateway.

use common::{Link, Log, Person, Raw, alice_and_bob, listen, only};
use rustls::server::Acceptor;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use vesica_net::{Client, Endpoint, Error, LaneDoor, Limits, Network, PeerSpec, Proxies, Road, Trust};

use crate::common;

/// bob's endpoint, which calls alice by this road.
fn calling(alice: &Person, bob: &Person, address: &str, road: Road) -> Endpoint {
    let mut there = bob.endpoint();
    there.peers.push(PeerSpec { connect: Some(address.into()), road, ..alice.awaited() });
    there
}

fn command(words: &[&str]) -> Road {
    Road::by(words.iter().map(|word| (*word).to_owned()).collect())
}

/// A command that leads to `address`, and says so.
fn tunnel(address: SocketAddr) -> Road {
    let to = format!("/dev/tcp/{}/{}", address.ip(), address.port());
    command(&["bash", "-c", &format!("echo tunnel to {to} >&2; exec 3<>{to}; cat <&3 & exec cat >&3")])
}

/// The ends of a link from alice to bob, who called her by a command.
fn through_a_tunnel() -> (Link, Link) {
    let (alice, bob) = alice_and_bob();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here, &Log::new());
    let b = only(vesica_net::connect(calling(&alice, &bob, "exec:tunnel", tunnel(address)), Log::new()).unwrap());
    let a = only(waiting.join().unwrap().unwrap());
    (a, b)
}

fn talk(a: &Link, b: &Link) {
    let (mut x, mut y) = (a.line("x").unwrap(), b.line("x").unwrap());
    x.send(&vec![7; 3 << 20]).unwrap();
    assert_eq!(y.recv(3 << 20).unwrap(), vec![7; 3 << 20]);
    y.send(b"yes").unwrap();
    assert_eq!(x.recv(20).unwrap(), b"yes");
}

#[test]
fn a_command_is_the_connection_and_ends_with_it() {
    let (a, b) = through_a_tunnel();
    assert_eq!(b.address(), None);
    talk(&a, &b);
    let closing = std::thread::spawn(move || a.close());
    b.close().unwrap();
    closing.join().unwrap().unwrap();
    let began = Instant::now();
    drop(b);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// Carol hears that bob cannot reach alice, and nothing of the command by which he tried.
#[test]
fn a_third_party_hears_nothing_of_a_road() {
    let people = [Person::new(0, "alice"), Person::new(1, "bob"), Person::new(2, "carol")];
    let [alice, bob, carol] = &people;
    let road = command(&["sh", "-c", "echo the bastion says no >&2", "a-password"]);
    let mut b = calling(alice, bob, "exec:sh a-password", road);
    b.peers.push(carol.awaited());
    b.patience = Duration::from_secs(4);
    let (address, waiting) = listen(b, &Log::new());
    let mut c = carol.endpoint();
    c.peers = vec![bob.at(address)];
    let c = only(vesica_net::connect(c, Log::new()).unwrap());
    let heard = c.line("x").unwrap().recv(1).unwrap_err().to_string();
    assert!(heard.contains("alice did not come within 4 s"), "{heard}");
    assert!(!heard.contains("bastion") && !heard.contains("exec") && !heard.contains("password"), "{heard}");
    let error = waiting.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("the bastion says no"), "{error}");
}

/// The other end goes away, or the command does: the link's error has the command's last lines.
#[test]
fn a_link_over_a_command_that_ends_says_what_it_said() {
    let (a, b) = through_a_tunnel();
    let mut line = b.line("x").unwrap();
    drop(a);
    let error = line.recv(1).unwrap_err().to_string();
    assert!(error.contains("the command \"bash\"") && error.contains("said: tunnel to /dev/tcp/"), "{error}");
}

#[test]
fn a_command_that_leads_nowhere_is_named_with_its_last_lines() {
    let (alice, bob) = alice_and_bob();
    let called = |road: Road, patience: u64| {
        let mut there = calling(&alice, &bob, "exec:it", road);
        there.patience = Duration::from_millis(patience);
        let began = Instant::now();
        let error = vesica_net::connect(there, Log::new()).unwrap_err();
        assert!(began.elapsed() < Duration::from_millis(patience) + Duration::from_secs(5));
        error
    };
    let noisy = "for i in $(seq 1 1000); do echo line $i >&2; done; printf 'no \\033[31mroute\\n' >&2; exit 3";
    let error = called(command(&["bash", "-c", noisy]), 2500);
    let words = error.to_string();
    assert!(matches!(error, Error::Absent { .. }), "{words}");
    assert!(
        words.contains(
            "the command \"bash\" ended (exit status: 3) and said: line 998 / line 999 / line 1000 / no ?[31mroute"
        ),
        "{words}"
    );
    assert!(!words.contains("line 997") && !words.contains('\u{1b}'), "{words}");

    // A line without end is cut, and output that is no TLS is not taken for a peer.
    let error =
        called(command(&["bash", "-c", "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1"]), 2500).to_string();
    assert!(error.contains(&"x".repeat(200)) && !error.contains(&"x".repeat(201)), "{error}");
    let error = called(command(&["bash", "-c", "echo hello, this is no peer; sleep 5"]), 2500).to_string();
    assert!(error.contains("what answers there is not Vesica, it begins with \"hello, this is n"), "{error}");
    // One that says nothing is given up with the patience.
    let error = called(command(&["sleep", "60"]), 1000).to_string();
    assert!(error.contains("alice did not come within 1 s"), "{error}");

    let error = called(command(&["/no/such/program", "--secret"]), 1500);
    let words = error.to_string();
    assert!(matches!(error, Error::Road { .. }), "{words}");
    assert!(
        words.contains("the command \"/no/such/program\" cannot be started") && !words.contains("--secret"),
        "{words}"
    );
    assert!(
        Road::by(vec!["true".into()]).try_out("exec:true").unwrap_err().to_string().contains("ended (exit status: 0)")
    );
    assert!(Road::by(vec!["cat".into()]).try_out("exec:cat").unwrap().contains("the command \"cat\" runs"));
}

/// The name that the first bytes of a call to this listener have for gateways.
fn name_of_call(listener: &TcpListener) -> Option<String> {
    let (mut socket, _) = listener.accept().unwrap();
    let mut acceptor = Acceptor::default();
    loop {
        acceptor.read_tls(&mut socket).unwrap();
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error).unwrap() {
            return accepted.client_hello().server_name().map(str::to_owned);
        }
    }
}

#[test]
fn a_name_is_sent_only_if_the_job_says_so() {
    let (alice, bob) = alice_and_bob();
    for name in [None, Some("psi.bob.example")] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut road = Road::to(&address, &Proxies::None, |_| None).unwrap();
        if let Some(name) = name {
            road = road.with_sni(name).unwrap();
        }
        let mut there = calling(&alice, &bob, &address, road);
        there.patience = Duration::from_secs(1);
        let calls = std::thread::spawn(move || vesica_net::connect(there, Log::new()).map(drop));
        assert_eq!(name_of_call(&listener).as_deref(), name);
        drop(listener);
        assert!(calls.join().unwrap().is_err());
    }
    for wrong in ["", "10.0.0.1", "a b", "[::1]"] {
        assert!(Road::default().with_sni(wrong).is_err(), "{wrong}");
    }
}

/// A gateway's header that says that this port of 192.0.2.7 calls.
fn announced(port: u16) -> Vec<u8> {
    format!("PROXY TCP4 192.0.2.7 198.51.100.1 {port} 5300\r\n").into_bytes()
}

/// A gateway that puts `header` before what it carries to `to`.
fn gateway(header: Vec<u8>, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let mut far = TcpStream::connect(to).unwrap();
            far.write_all(&header).unwrap();
            let one = |mut from: TcpStream, mut to: TcpStream| {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                })
            };
            one(near.try_clone().unwrap(), far.try_clone().unwrap());
            one(far, near);
        }
    });
    at
}

#[test]
fn whoever_comes_through_a_gateway_counts_as_from_the_address_that_it_names() {
    let (bob, alice) = (Person::new(0, "bob"), Person::new(1, "alice"));
    let log = Log::new();
    let mut here = bob.endpoint();
    here.gateways = vec![Network::parse("127.0.0.1").unwrap()];
    let client = Client { name: "alice".into(), trust: Some(Trust::Pinned(vec![alice.pin()])) };
    let door = here.door(vec![client], Limits::default(), log.clone()).unwrap();
    let dial = |at: SocketAddr| {
        let mut there = alice.endpoint();
        there.patience = Duration::from_secs(1);
        there.peers.push(bob.at(at));
        vesica_net::connect(there, Log::new()).map(only)
    };
    let v2 = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x14\xb4"[..]].concat();
    for header in [announced(4711), v2] {
        let there = dial(gateway(header, door.address())).unwrap();
        let link = door.next().unwrap().unwrap();
        assert_eq!(link.address(), Some("192.0.2.7:4711".parse().unwrap()));
        talk(&link, &there);
    }
    log.hears("connected to alice at 192.0.2.7:4711");
    // A stranger is told of by the address that the gateway names.
    let mut stranger = TcpStream::connect(gateway(announced(99), door.address())).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    log.hears("refused a connection from 192.0.2.7:99: it is not Vesica");
    // Without a header, with half of one, and with one that is none.
    assert!(dial(door.address()).is_err());
    log.hears("it sends no header of the PROXY protocol");
    TcpStream::connect(door.address()).unwrap().write_all(b"PROXY TCP4 192").unwrap();
    log.hears("went away before its header of the PROXY protocol was complete");
    let mut lies = TcpStream::connect(door.address()).unwrap();
    lies.write_all(b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n").unwrap();
    log.hears("is written wrongly");
    // It is no way around the certificate, either.
    assert_eq!(lies.read(&mut [0; 1]).unwrap_or(0), 0);
    // A gateway that looks whether somebody is there.
    TcpStream::connect(door.address()).unwrap().write_all(b"PROXY UNKNOWN\r\n").unwrap();
    log.hears("it connected and went away");
}

#[test]
fn who_is_no_gateway_is_not_believed() {
    let (alice, bob) = alice_and_bob();
    let mut here = alice.endpoint();
    here.gateways = vec![Network::parse("192.0.2.0/24").unwrap()];
    here.patience = Duration::from_secs(2);
    here.peers.push(bob.awaited());
    let log = Log::new();
    let (address, waiting) = listen(here, &log);
    let _calls = TcpStream::connect(address).unwrap().write_all(&announced(1));
    log.hears("it is none of the gateways of mine.proxy_protocol");
    assert!(waiting.join().unwrap().is_err());
    // Where no header is asked for, one is not taken for a peer.
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let log = Log::new();
    let (address, waiting) = listen(here, &log);
    let mut calls = TcpStream::connect(address).unwrap();
    calls.write_all(&announced(1)).unwrap();
    log.hears("it is not Vesica, it begins with \"PROXY TCP4 192.0");
    let _raw = Raw::meet(address, &bob, "alice");
    waiting.join().unwrap().unwrap();
}
