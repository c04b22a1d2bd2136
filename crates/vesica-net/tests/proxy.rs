//! Peers that are called through proxies: such as do what they should, and such as do not.

use common::{Link, Log, Person, alice_and_bob, listen, only};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use vesica_net::{Endpoint, Error, PeerSpec, Proxies, Proxy, Road};

use crate::common;

/// A name that no name server has: only the proxy knows whose it is.
const NAME: &str = "alice.invalid:5300";

/// Carries bytes both ways until one side ends.
fn carry(near: TcpStream, far: TcpStream) {
    let one = |mut from: TcpStream, mut to: TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    };
    let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    std::thread::spawn(move || one(back, near));
    one(forth, far);
}

fn until_blank_line(socket: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A proxy that lets `serve` have every connection, and where it is.
fn proxy(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(socket));
        }
    });
    address
}

/// One that speaks HTTP and leads to `peer`, whatever it is asked for; and what that was.
fn http(peer: SocketAddr) -> (SocketAddr, Receiver<String>) {
    let (told, heard) = channel();
    let address = proxy(move |mut near| {
        told.send(until_blank_line(&mut near)).unwrap();
        match TcpStream::connect(peer) {
            Ok(far) => {
                near.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").unwrap();
                carry(near, far);
            }
            Err(_) => near.write_all(b"HTTP/1.1 503 Nobody there\r\n\r\n").unwrap(),
        }
    });
    (address, heard)
}

/// One that speaks SOCKS 5, wants a user and a password, and leads to `peer`; and which name it was asked for.
fn socks(peer: SocketAddr) -> (SocketAddr, Receiver<String>) {
    let (told, heard) = channel();
    let address = proxy(move |mut near| {
        let mut greeting = [0; 4];
        near.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, [5, 2, 0, 2]);
        near.write_all(&[5, 2]).unwrap();
        let mut login = [0; 15];
        near.read_exact(&mut login).unwrap();
        assert_eq!(&login[..], b"\x01\x05alice\x07hunter2");
        near.write_all(&[1, 0]).unwrap();
        let mut head = [0; 5];
        near.read_exact(&mut head).unwrap();
        assert_eq!(head[..4], [5, 1, 0, 3]);
        let mut rest = vec![0; usize::from(head[4]) + 2];
        near.read_exact(&mut rest).unwrap();
        let port = u16::from_be_bytes([rest[rest.len() - 2], rest[rest.len() - 1]]);
        rest.truncate(rest.len() - 2);
        told.send(format!("{}:{port}", String::from_utf8(rest).unwrap())).unwrap();
        let far = TcpStream::connect(peer).unwrap();
        near.write_all(&[5, 0, 0, 3, 4, b'h', b'o', b's', b't', 0, 1]).unwrap();
        carry(near, far);
    });
    (address, heard)
}

fn through(url: &str) -> Road {
    let proxy = Proxy::parse(url, "mine.proxy").unwrap();
    Road::to(NAME, &Proxies::Through(proxy), |_| None).unwrap()
}

/// bob's endpoint, which calls alice through the proxy at `url`.
fn calling(alice: &Person, bob: &Person, url: &str) -> Endpoint {
    let mut there = bob.endpoint();
    there.peers.push(PeerSpec { connect: Some(NAME.into()), road: through(url), ..alice.awaited() });
    there
}

/// Both say a word over a line.
fn talk(a: Link, b: Link) {
    let speak = |link: Link, word: &'static [u8]| {
        std::thread::spawn(move || {
            let mut line = link.line("x").unwrap();
            line.send(word).unwrap();
            let heard = line.recv(10).unwrap();
            drop(line);
            link.close().unwrap();
            heard
        })
    };
    let (a, b) = (speak(a, b"from a"), speak(b, b"from b"));
    assert_eq!((a.join().unwrap(), b.join().unwrap()), (b"from b".to_vec(), b"from a".to_vec()));
}

#[test]
fn peers_meet_through_a_proxy_that_knows_the_name() {
    for kind in ["http", "socks5"] {
        let (alice, bob) = alice_and_bob();
        let mut here = alice.endpoint();
        here.peers.push(bob.awaited());
        let (address, waiting) = listen(here, &Log::new());
        let (at, heard) = if kind == "http" { http(address) } else { socks(address) };
        let there = calling(&alice, &bob, &format!("{kind}://alice:hunter2@{at}"));
        let log = Log::new();
        let b = only(vesica_net::connect(there, log.clone()).unwrap());
        let a = only(waiting.join().unwrap().unwrap());
        assert_eq!(b.address(), None, "the proxy's address is not the peer's");
        let asked = heard.recv().unwrap();
        match kind {
            "http" => assert!(asked.starts_with(&format!("CONNECT {NAME} HTTP/1.1\r\nHost: {NAME}\r\n")), "{asked}"),
            _ => assert_eq!(asked, NAME),
        }
        let said = format!("alice is called at {NAME}, through the proxy {kind}://{at} (mine.proxy)");
        assert!(log.text().contains(&said) && !log.text().contains("hunter2"), "{}", log.text());
        talk(a, b);
    }
}

/// A peer that is late is waited for behind a proxy too.
#[test]
fn a_proxy_that_cannot_reach_the_peer_yet_is_asked_again() {
    let (alice, bob) = alice_and_bob();
    let held = common::Unheard::new();
    let address = held.address();
    let (at, _heard) = http(address);
    let log = Log::new();
    let (there, heard) = (calling(&alice, &bob, &format!("http://{at}")), log.clone());
    let calls = std::thread::spawn(move || vesica_net::connect(there, heard));
    log.hears("answers \"503 Nobody there\"");
    drop(held);
    let mut here = alice.endpoint();
    here.listen = Some(address.to_string());
    here.peers.push(bob.awaited());
    let a = only(vesica_net::connect(here, Log::new()).unwrap());
    talk(a, only(calls.join().unwrap().unwrap()));
}

/// The error of a call through a proxy that answers `answer`, then does `then`, and how long that took.
fn refused(
    kind: &str,
    answer: &'static [u8],
    then: impl Fn(TcpStream) + Clone + Send + 'static,
    patience: Duration,
) -> (Error, SocketAddr) {
    let (alice, bob) = alice_and_bob();
    let at = proxy(move |mut near| {
        let mut first = [0; 512];
        let _ = near.read(&mut first);
        let _ = near.write_all(answer);
        then(near);
    });
    let mut there = calling(&alice, &bob, &format!("{kind}://alice:hunter2@{at}"));
    there.patience = patience;
    let log = Log::new();
    let began = Instant::now();
    let error = vesica_net::connect(there, log.clone()).unwrap_err();
    assert!(began.elapsed() < patience + Duration::from_secs(6), "{:?}", began.elapsed());
    let words = format!("{error}\n{}", log.text());
    assert!(!words.contains("hunter2") && !words.contains(&"x".repeat(200)), "{words}");
    assert!(words.chars().all(|c| !c.is_control() || c == '\n'), "{words}");
    (error, at)
}

#[test]
fn a_hostile_proxy_is_named_with_what_it_said() {
    let short = Duration::from_millis(800);
    let hold = |socket: TcpStream| drop((std::thread::sleep(Duration::from_secs(3)), socket));
    let endless = |mut socket: TcpStream| while socket.write_all(&[b'x'; 4096]).is_ok() {};
    let drip = |mut socket: TcpStream| {
        while socket.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let begin: &[u8] = b"HTTP/1.1 200 OK\r\nX: ";
    let cases: Vec<(&str, Error, SocketAddr)> = vec![
        ("no end within", refused("http", begin, endless, short)),
        ("does not answer in time", refused("http", begin, drip, short)),
        ("does not answer in time", refused("http", begin, hold, short)),
        ("does not answer in time", refused("http", b"", hold, short)),
        ("closed the connection before", refused("http", begin, drop, short)),
        ("it answers \"407 ?[31mwho?", refused("http", b"HTTP/1.1 407 \x1b[31mwho\x07\r\n\r\n", hold, short)),
        ("does not speak HTTP", refused("http", b"\x05\x00\x05\x00\x00", hold, short)),
        ("does not speak SOCKS 5", refused("socks5", b"HTTP/1.1 400 Bad Request\r\n\r\n", hold, short)),
        ("does not answer in time", refused("socks5", b"\x05", hold, short)),
        ("does not accept", refused("socks5", b"\x05\xff", hold, short)),
        // It says that all is well, and leads nowhere.
        ("it closed the connection", refused("http", b"HTTP/1.1 200 OK\r\n\r\n", drop, short)),
    ]
    .into_iter()
    .map(|(said, (error, at))| (said, error, at))
    .collect();
    for (said, error, at) in cases {
        let words = error.to_string();
        assert!(words.contains(said) && words.contains(&format!("//{at} (mine.proxy)")), "{said}: {words}");
        assert!(words.contains("alice") && words.contains(NAME), "{words}");
        assert!(matches!(error, Error::Absent { .. } | Error::Road { .. }), "{words}");
    }
}

/// It leads to somebody else, who cannot be taken for the peer.
#[test]
fn a_proxy_cannot_put_another_in_the_peers_place() {
    let (alice, bob) = alice_and_bob();
    let mallory = Person::new(0, "alice");
    let mut here = mallory.endpoint();
    here.peers.push(bob.awaited());
    here.patience = Duration::from_secs(2);
    let (address, waiting) = listen(here, &Log::new());
    let (at, _heard) = http(address);
    let error = vesica_net::connect(calling(&alice, &bob, &format!("http://{at}")), Log::new()).unwrap_err();
    assert!(matches!(error, Error::Certificate { .. }), "{error}");
    assert!(error.to_string().contains(&format!("(through the proxy http://{at} (mine.proxy))")), "{error}");
    assert!(waiting.join().unwrap().is_err());
}

#[test]
fn a_proxy_that_is_not_there_is_named() {
    let (alice, bob) = alice_and_bob();
    let held = common::Unheard::new();
    let mut there = calling(&alice, &bob, &format!("http://{}", held.address()));
    there.patience = Duration::from_secs(1);
    let error = vesica_net::connect(there, Log::new()).unwrap_err();
    let said = format!("the proxy http://{0} (mine.proxy): connection refused: nobody listens on {0}", held.address());
    assert!(error.to_string().contains(&said), "{error}");

    let mut there = calling(&alice, &bob, "socks5://no-such-proxy.invalid");
    there.patience = Duration::from_secs(1);
    let error = vesica_net::connect(there, Log::new()).unwrap_err();
    let said = "the host name of the proxy socks5://no-such-proxy.invalid:1080 (mine.proxy) does not resolve";
    assert!(matches!(error, Error::Road { .. }) && error.to_string().contains(said), "{error}");
}
