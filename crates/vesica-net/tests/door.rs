//! The door of a service: who gets in, how often, and what becomes of those who do not.

use crate::common;

use common::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vesica_net::{
    Client, ClientDoor, Control, Door, Endpoint, Error, Event, Identity, LaneDoor, Limits, PeerSpec, Quiet, Roots,
    Security, Trust, WIRE_VERSION,
};
use vesica_session::{Error as LinkError, Fault};
use vesica_types::Party;

/// As a client on a service's list.
fn client(who: &Person) -> Client {
    Client { name: who.party.name().into(), trust: Some(Trust::Pinned(vec![who.pin()])) }
}

/// Bob's service with alice as its client.
struct Service {
    bob: Person,
    alice: Person,
    log: Arc<Log>,
    door: Door,
}

fn service(limits: Limits) -> Service {
    service_with(limits, |_| ())
}

fn service_with(limits: Limits, adjust: impl Fn(&mut Endpoint)) -> Service {
    let (bob, alice) = (Person::new(0, "bob"), Person::new(1, "alice"));
    let log = Log::new();
    let mut here = bob.endpoint();
    adjust(&mut here);
    let door = here.door(vec![client(&alice)], limits, log.clone()).unwrap();
    Service { bob, alice, log, door }
}

impl Service {
    /// `who` as one who dials this service.
    fn endpoint(&self, who: &Person) -> Endpoint {
        let mut there = who.endpoint();
        there.peers.push(self.bob.at(self.door.address()));
        there
    }

    fn try_dial(&self, who: &Person) -> Result<Link, Error> {
        vesica_net::connect(self.endpoint(who), Log::new()).map(only)
    }

    /// Both ends of a new link of `who`.
    fn dial(&self, who: &Person) -> (Link, Link) {
        let there = self.try_dial(who).unwrap();
        (self.door.next().unwrap().unwrap(), there)
    }

    /// Waits until so many places are taken.
    fn settles_at(&self, links: usize) {
        let began = Instant::now();
        while self.door.links() != links {
            assert!(began.elapsed() < Duration::from_secs(12), "{} links, not {links}", self.door.links());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn say(here: &Link, there: &Link, line: &str) {
    let (mut x, mut y) = (here.line(line).unwrap(), there.line(line).unwrap());
    x.send(b"are you there?").unwrap();
    assert_eq!(y.recv(20).unwrap(), b"are you there?");
    y.send(b"yes").unwrap();
    assert_eq!(x.recv(20).unwrap(), b"yes");
}

#[test]
fn a_client_comes_again_and_again_and_more_than_once_at_a_time() {
    let service = service(Limits::default());
    let (a, b) = service.dial(&service.alice);
    let (c, d) = service.dial(&service.alice);
    for (here, there) in [(&a, &b), (&c, &d)] {
        assert_eq!((here.peer().name(), here.peer().place(), there.peer().name()), ("alice", Client::PLACE, "bob"));
        assert_eq!(here.secured().fingerprint, Some(service.alice.pin()));
        say(here, there, "x");
    }
    assert_eq!(service.door.links(), 2);
    let closing = std::thread::spawn(move || a.close());
    b.close().unwrap();
    closing.join().unwrap().unwrap();
    service.settles_at(1);
    let (e, f) = service.dial(&service.alice);
    say(&e, &f, "x");
    assert!(service.log.text().starts_with(&format!("listening on {}\n", service.door.address())));
    assert_eq!(service.log.text().matches("connected to alice at 127.0.0.1").count(), 3);
}

#[test]
fn a_stranger_hears_an_alert_and_a_client_of_another_name_a_reason() {
    let service = service(Limits::default());
    let mallory = Person::new(1, "alice");
    let error = service.try_dial(&mallory).unwrap_err();
    assert_eq!(error.fault(), Fault::Peer);
    let text = error.to_string();
    assert!(text.contains("it did not accept our certificate (TLS alert "), "{text}");
    assert!(text.contains(&mallory.pin().to_string()) && text.contains("check what bob's job says of alice"), "{text}");
    // Not a byte of ours comes before the alert.
    let mut tls = raw_tls(service.door.address(), Some(&mallory)).unwrap();
    let _ = tls.write_all(&hello(WIRE_VERSION, JOB, "alice", "bob"));
    let mut words = Vec::new();
    assert!(tls.read_to_end(&mut words).is_err() && words.is_empty(), "{words:?}");
    service.log.hears(&format!("its certificate {} is not accepted", mallory.pin()));

    let carol = Person::new(1, "carol");
    let both = vec![client(&service.alice), Client { name: "carol".into(), trust: client(&carol).trust }];
    service.door.set_clients(both).unwrap();
    let mut there = service.endpoint(&service.alice);
    there.me = carol.party.clone();
    let text = vesica_net::connect(there, Log::new()).unwrap_err().to_string();
    assert!(text.contains("it refused: it says that it is \"carol\", not alice"), "{text}");
    service.log.hears("alice: it says that it is \"carol\"");
    assert_eq!(service.door.links(), 0);
}

/// Alice's lanes show a certificate of their own. Her process is started again while bob has lanes under way, so she comes to his door to
/// meet him. She sees that it is he, is told to come later as often as she asks, and takes no seat from a lane. Who comes for anything else,
/// or is somebody else, is sent away.
#[test]
fn who_comes_to_meet_at_a_door_for_lanes_is_told_to_come_later_and_takes_no_seat() {
    let (bob, alice, worker) = (Person::new(0, "bob"), Person::new(1, "alice"), Person::new(1, "alice"));
    let (log, lane) = (Log::new(), [9; 32]);
    let mut here = bob.endpoint();
    here.lanes = vec![lane];
    let known = [&worker, &alice].map(|who| Trust::Pinned(vec![who.pin()])).to_vec();
    let door = here.lane_door(alice.party.clone(), known, 1, log.clone()).unwrap();
    let dial = |who: &Person, job: [u8; 32]| {
        let mut there = who.endpoint();
        (there.job, there.patience) = (job, Duration::from_millis(700));
        there.peers.push(bob.at(door.address()));
        vesica_net::connect(there, Log::new()).map(only)
    };
    let later = |error: Error| {
        assert!(matches!(&error, Error::Absent { why, .. } if why.contains("over lanes; try again later")), "{error}");
        assert_eq!(error.fault(), Fault::Network);
    };
    later(dial(&alice, JOB).unwrap_err());
    let there = dial(&worker, lane).unwrap();
    let here = door.next().unwrap().unwrap();
    assert_eq!(here.job(), Some(lane));
    later(dial(&alice, JOB).unwrap_err());
    say(&here, &there, "x");
    assert_eq!(door.links(), 1);
    log.hears("alice: a run of these parties is under way here");
    assert!(matches!(dial(&alice, [8; 32]), Err(Error::Refused { why, .. }) if why.contains("another job")));
    assert!(matches!(dial(&Person::new(1, "alice"), JOB), Err(Error::Refused { .. })));
}

#[test]
fn the_list_of_clients_is_replaced_while_the_door_stands() {
    let service = service(Limits::default());
    let carol = Person::new(1, "carol");
    let (a, b) = service.dial(&service.alice);
    assert!(matches!(service.try_dial(&carol), Err(Error::Refused { .. })));
    service.door.set_clients(vec![client(&service.alice), client(&carol)]).unwrap();
    let (c, d) = service.dial(&carol);
    say(&a, &b, "x");

    // A list that cannot be is refused, and changes nothing.
    for (list, why) in [
        (vec![client(&carol), client(&carol)], "two parties are called \"carol\""),
        (vec![Client { trust: None, ..client(&carol) }], "give mine.clients.carol the fingerprint"),
        (vec![Client { name: "bob".into(), ..client(&carol) }], "two parties are called \"bob\""),
    ] {
        let error = service.door.set_clients(list).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.fault(), Fault::Config);
    }
    say(&a, &b, "y");

    // One whom the list no longer has hears so, in whatever it is doing; the others notice nothing.
    let mut waiting = b.line("z").unwrap();
    let alice = std::thread::spawn(move || waiting.recv(10).unwrap_err());
    let mut line = a.line("z").unwrap();
    service.door.set_clients(vec![client(&carol)]).unwrap();
    assert!(line.recv(10).unwrap_err().to_string().contains("no longer on the list"));
    drop(line);
    drop(a);
    let error = alice.join().unwrap();
    assert!(matches!(&error, LinkError::Stopped { why, .. } if why.contains("no longer on the list")), "{error}");
    service.settles_at(1);
    say(&c, &d, "x");
    assert!(matches!(service.try_dial(&service.alice), Err(Error::Refused { .. })));

    // Another certificate is another client, though the name is the same.
    let new = Person::new(1, "carol");
    service.door.set_clients(vec![client(&new)]).unwrap();
    assert!(c.line("y").is_err());
    drop(c);
    let (e, f) = service.dial(&new);
    say(&e, &f, "x");
}

/// alice and bob exchange their certificates, one after the other, and there is no moment at which they do not know each other.
#[test]
fn certificates_roll_over_without_a_restart() {
    let service = service(Limits::default());
    let new_alice = Person::new(1, "alice");
    let either = |old: &Person, new: &Person| Some(Trust::Pinned(vec![old.pin(), new.pin()]));
    let (a, b) = service.dial(&service.alice);
    service.door.set_clients(vec![Client { trust: either(&service.alice, &new_alice), ..client(&new_alice) }]).unwrap();
    say(&a, &b, "still here");
    let (c, d) = service.dial(&new_alice);
    say(&c, &d, "x");
    assert_eq!(c.secured().fingerprint, Some(new_alice.pin()));
    // The old one is taken off the list, and whoever came with it is sent away.
    service.door.set_clients(vec![client(&new_alice)]).unwrap();
    assert!(a.line("y").is_err());
    say(&c, &d, "y");
    assert!(matches!(service.try_dial(&service.alice), Err(Error::Refused { .. })));

    // The service's own: links go on, and whoever comes from now on is shown the new one.
    let new_bob = Person::new(0, "bob");
    service.door.set_identity(&new_bob.identity).unwrap();
    say(&c, &d, "z");
    let error = service.try_dial(&new_alice).unwrap_err();
    assert!(matches!(&error, Error::Certificate { .. }), "{error}");
    let mut there = service.endpoint(&new_alice);
    there.peers[0].trust = either(&service.bob, &new_bob);
    let e = only(vesica_net::connect(there, Log::new()).unwrap());
    let f = service.door.next().unwrap().unwrap();
    say(&f, &e, "x");
    assert_eq!((e.secured().fingerprint, f.secured().ours), (Some(new_bob.pin()), Some(new_bob.pin())));
    assert_eq!(c.secured().ours, Some(service.bob.pin()));

    // One that partners would refuse is not shown.
    let mut old = rcgen::CertificateParams::new(vec!["bob".to_owned()]).unwrap();
    old.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let old = Person::certified(0, "bob", old, None);
    let error = service.door.set_identity(&old.identity).unwrap_err().to_string();
    assert!(error.contains("expired on 2020-01-01"), "{error}");
    let mut there = service.endpoint(&new_alice);
    there.peers[0].trust = new_bob.awaited().trust;
    vesica_net::connect(there, Log::new()).unwrap();
}

#[test]
fn clients_may_be_known_by_an_authority() {
    let authority = authority("ours");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, authority.cert.pem()).unwrap();
    let by_name = |name: &str| {
        let params = rcgen::CertificateParams::new(vec![format!("{name}.example")]).unwrap();
        Person::certified(1, name, params, Some(&authority))
    };
    let service = service(Limits::default());
    // As a file of clients is read: each line loads the authorities anew.
    let list = |names: &[&str]| -> Vec<Client> {
        let trust = |name| Trust::Ca { roots: Roots::load(&path).unwrap(), name: format!("{name}.example") };
        names.iter().map(|name| Client { name: (*name).into(), trust: Some(trust(name)) }).collect()
    };
    let names: Vec<String> = (0..200).map(|i| format!("client-{i}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("carol");
    service.door.set_clients(list(&names)).unwrap();
    let (carol, dave) = (by_name("carol"), by_name("dave"));
    let (a, b) = service.dial(&carol);
    assert!(a.secured().to_string().contains("\"carol.example\" by a certificate authority"), "{}", a.secured());
    say(&a, &b, "x");
    assert!(matches!(service.try_dial(&dave), Err(Error::Refused { .. })));
    service.log.hears("it is of none of the clients that are known here");
    service.door.set_clients(list(&["dave"])).unwrap();
    assert!(a.line("y").err().unwrap().to_string().contains("no longer on the list"));
}

#[test]
fn limits_are_told_and_waited_for() {
    let service = service(Limits { links: 3, links_of_one: 2, ..Limits::default() });
    let (carol, dave) = (Person::new(1, "carol"), Person::new(1, "dave"));
    service.door.set_clients([&service.alice, &carol, &dave].map(client).into()).unwrap();
    let (a, b) = service.dial(&service.alice);
    let (_c, _d) = service.dial(&service.alice);
    let impatient = |who: &Person| {
        let mut there = service.endpoint(who);
        there.patience = Duration::from_secs(3);
        let error = vesica_net::connect(there, Log::new()).unwrap_err();
        assert!(matches!(error, Error::Absent { .. }), "{error}");
        assert_eq!(error.fault(), Fault::Network);
        error.to_string()
    };
    let text = impatient(&service.alice);
    assert!(
        text.contains("(127.0.0.1:")
            && text.contains("alice has 2 connections already, as many as one client may have; end one"),
        "{text}"
    );
    let (_e, _f) = service.dial(&carol);
    let text = impatient(&dave);
    assert!(text.contains("this service has as many connections as it takes; try again later"), "{text}");
    assert!(text.ends_with("; try again later, or raise mine.patience"), "{text}");
    assert_eq!(service.door.links(), 3);
    service.log.hears("dave: this service has as many connections");

    // Whoever waits comes in when somebody leaves.
    std::thread::scope(|scope| {
        let dave = scope.spawn(|| service.try_dial(&dave).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        drop((a, b));
        let here = service.door.next().unwrap().unwrap();
        assert_eq!(here.peer().name(), "dave");
        say(&here, &dave.join().unwrap(), "x");
    });
}

#[test]
fn a_client_that_dies_is_noticed_and_its_place_is_free_again() {
    let limits = Limits { links: 2, ..Limits::default() };
    // Clients say once a second that they live.
    let service = service_with(limits, |endpoint| endpoint.silence = Duration::from_secs(3));
    // One hangs up before anybody asks for it, one falls silent while it is served: the network takes its bytes and gives
    // none.
    drop(Raw::meet(service.door.address(), &service.alice, "bob"));
    let _silent = Raw::meet(service.door.address(), &service.alice, "bob");
    let began = Instant::now();
    let error = loop {
        let here = service.door.next().unwrap().unwrap();
        let error = here.line("x").and_then(|mut line| line.recv(10)).unwrap_err().to_string();
        // The one that hung up may be given before that is noticed.
        if !error.contains("without a goodbye") {
            break error;
        }
    };
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    assert!(error.contains("alice: silent for 3 s"), "{error}");
    let (a, b) = service.dial(&service.alice);
    let (c, d) = service.dial(&service.alice);
    say(&a, &b, "x");
    say(&c, &d, "x");

    // Those who went away unseen take no place from those who come when all are taken.
    drop((b, d, a, c));
    service.settles_at(0);
    for _ in 0..2 {
        drop(Raw::meet(service.door.address(), &service.alice, "bob"));
    }
    assert_eq!(service.door.links(), 2);
    // One of them may be given before it is noticed that it went away, so whoever comes now has another name.
    let carol = Person::new(1, "carol");
    service.door.set_clients(vec![client(&service.alice), client(&carol)]).unwrap();
    let f = service.try_dial(&carol).unwrap();
    let e = loop {
        let here = service.door.next().unwrap().unwrap();
        if here.peer().name() == "carol" {
            break here;
        }
    };
    say(&e, &f, "x");
}

#[test]
fn silent_strangers_do_not_keep_clients_out() {
    let service = service(Limits { handshakes: 8, ..Limits::default() });
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(service.door.address()).unwrap()).collect();
    let began = Instant::now();
    let (a, b) = service.dial(&service.alice);
    // Whoever is silent has ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    say(&a, &b, "x");
    drop(silent);
}

#[test]
fn whoever_makes_way_is_of_the_address_with_most_guests() {
    let service = service(Limits { handshakes: 8, ..Limits::default() });
    // A slow client from an address of its own, and more strangers from another than there is room for.
    let from = |address: [u8; 4]| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&service.door.address().into()).unwrap();
        TcpStream::from(socket)
    };
    let slow = from([127, 0, 0, 2]);
    let mut strangers: Vec<TcpStream> = (0..30).map(|_| from([127, 0, 0, 3])).collect();
    let gone = |socket: &mut TcpStream, wait: u64| {
        socket.set_read_timeout(Some(Duration::from_millis(wait))).unwrap();
        matches!(socket.read(&mut [0]), Ok(0))
            || socket.read(&mut [0]).is_err_and(|e| e.kind() != std::io::ErrorKind::WouldBlock)
    };
    assert!(gone(&mut strangers[0], 8000));
    assert!(!gone(&mut { slow }, 300));
}

#[test]
fn the_port_is_shut_gently() {
    let service = service(Limits::default());
    let (a, b) = service.dial(&service.alice);
    let unseen = service.try_dial(&service.alice).unwrap();
    service.settles_at(2);
    service.log.hears("connected to alice");
    while service.log.text().matches("connected to alice").count() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    service.door.shut();
    let here = service.door.next().unwrap().expect("somebody waits behind the door");
    say(&here, &unseen, "x");
    assert!(service.door.next().unwrap().is_none());
    let mut there = service.endpoint(&service.alice);
    there.patience = Duration::from_secs(2);
    let text = vesica_net::connect(there, Log::new()).unwrap_err().to_string();
    assert!(text.contains("nobody listens") || text.contains("being stopped"), "{text}");
    drop(service);
    say(&a, &b, "x");
}

/// Keeps the thread of the door that tells of a client, until it is let go.
struct Slow {
    told: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl Control for Slow {
    fn event(&self, event: &Event) {
        if matches!(event, Event::Connected { .. }) {
            self.told.lock().unwrap().send(()).unwrap();
            self.go.lock().unwrap().recv().unwrap();
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// A client that had been welcomed, and told of, was cut if the door was shut before its link waited behind it.
#[test]
fn who_was_welcomed_before_the_door_was_shut_is_taken() {
    let (bob, alice) = (Person::new(0, "bob"), Person::new(1, "alice"));
    let ((told, hears), (lets, go)) = (channel(), channel());
    let slow = Arc::new(Slow { told: Mutex::new(told), go: Mutex::new(go) });
    let door = bob.endpoint().door(vec![client(&alice)], Limits::default(), slow).unwrap();
    let mut there = alice.endpoint();
    there.peers.push(bob.at(door.address()));
    let there = vesica_net::connect(there, Log::new()).map(only).unwrap();
    hears.recv_timeout(Duration::from_secs(12)).unwrap();
    door.shut();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| door.next().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(!next.is_finished(), "somebody is being let in");
        lets.send(()).unwrap();
        say(&next.join().unwrap().unwrap(), &there, "x");
    });
    assert!(door.next().unwrap().is_none());
}

#[test]
fn those_who_wait_for_clients_are_stopped() {
    let service = service(Limits::default());
    let (a, _b) = service.dial(&service.alice);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| service.door.next());
        std::thread::sleep(Duration::from_millis(50));
        service.log.cancel.store(true, Ordering::Relaxed);
        assert!(matches!(waiting.join().unwrap(), Err(Error::Session(LinkError::Cancelled))));
    });
    let began = Instant::now();
    while a.ended() != Some(LinkError::Cancelled) {
        assert!(began.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn another_service_and_another_version_are_told_apart() {
    let service = service(Limits::default());
    let mut there = service.endpoint(&service.alice);
    there.job = [9; 32];
    let error = vesica_net::connect(there, Log::new()).unwrap_err();
    assert!(error.to_string().contains("runs another job"), "{error}");
    let mut tls = raw_tls(service.door.address(), Some(&service.alice)).unwrap();
    let another = WIRE_VERSION + 1;
    tls.write_all(&hello(another, JOB, "alice", "bob")).unwrap();
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer);
    assert_eq!(answer[..12], hello(WIRE_VERSION, JOB, "", "")[..12]);
    service.log.hears(&format!("alice: it speaks version {another} of the wire format"));
    let (a, b) = service.dial(&service.alice);
    say(&a, &b, "x");
}

#[test]
fn in_plaintext_the_name_is_all() {
    let service = service_with(Limits::default(), |endpoint| endpoint.security = Security::Insecure);
    let names = ["alice", "carol", "dave", "erin"];
    service.door.set_clients(names.map(|name| Client { name: name.into(), trust: None }).into()).unwrap();
    let plain = |name: &str| {
        let mut there = Endpoint::new(Party::new(1, name), JOB, Security::Insecure);
        there.peers.push(PeerSpec { trust: None, ..service.bob.at(service.door.address()) });
        vesica_net::connect(there, Log::new()).map(only)
    };
    let carol = plain("carol").unwrap();
    let here = service.door.next().unwrap().unwrap();
    assert_eq!(here.peer().name(), "carol");
    say(&here, &carol, "x");
    let text = plain("mallory").unwrap_err().to_string();
    assert!(text.contains("it says that it is \"mallory\", not one of the 4 that are known here"), "{text}");
    service.door.set_clients(vec![Client { name: "alice".into(), trust: None }]).unwrap();
    assert!(here.line("y").err().unwrap().to_string().contains("no longer on the list"));
}

#[test]
fn local_faults_are_found_before_contact() {
    let (bob, alice) = (Person::new(0, "bob"), Person::new(1, "alice"));
    let refused = |endpoint: Endpoint, clients: Vec<Client>, limits: Limits, words: &str| {
        let error = endpoint.door(clients, limits, Arc::new(Quiet)).err().expect(words);
        assert_eq!(error.fault(), Fault::Config, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let list = || vec![client(&alice)];
    let most = Limits::default();
    refused(Endpoint { listen: None, ..bob.endpoint() }, list(), most, "set mine.listen");
    refused(Endpoint { peers: vec![alice.awaited()], ..bob.endpoint() }, list(), most, "has clients and no peers");
    refused(bob.endpoint(), list(), Limits { links: 0, ..most }, "lets nobody in");
    refused(bob.endpoint(), list(), Limits { links: 1 << 40, ..most }, "file handles");
    refused(bob.endpoint(), vec![Client { name: String::new(), ..client(&alice) }], most, "is no name");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    refused(Endpoint { listen: Some(taken), ..bob.endpoint() }, list(), most, "the port is in use");
}

/// Answers whatever comes on the lines `ask 0`, `ask 1`, …, one after the other, until the client goes. Every client that is
/// connected has such a thread.
fn serve(door: Door) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while let Some(link) = door.next().unwrap() {
            std::thread::spawn(move || {
                for i in 0.. {
                    let Ok(mut line) = link.line(&format!("ask {i}")) else { return };
                    while let Ok(question) = line.recv(1 << 20) {
                        if question == b"bye" || line.send(&question).is_err() {
                            break;
                        }
                    }
                }
            });
        }
    })
}

/// Asks so often, and checks each answer.
fn ask(link: &Link, times: usize, bytes: usize) {
    let mut line = link.line("ask 0").unwrap();
    for i in 0..times {
        let question = vec![i as u8; bytes];
        line.send(&question).unwrap();
        assert_eq!(line.recv(1 << 20).unwrap(), question);
    }
}

#[test]
fn a_hundred_clients_come_at_once_and_ten_of_them_work() {
    let bob = Person::new(0, "bob");
    let people: Vec<Person> = (0..100).map(|i| Person::new(1, &format!("client-{i}"))).collect();
    let door = bob.endpoint().door(people.iter().map(client).collect(), Limits::default(), Arc::new(Quiet)).unwrap();
    let address = door.address();
    serve(door);
    let start = Barrier::new(people.len());
    let began = Instant::now();
    let links: Vec<Link> = std::thread::scope(|scope| {
        let dial = |person: &Person| {
            let mut there = person.endpoint();
            there.peers.push(bob.at(address));
            start.wait();
            only(vesica_net::connect(there, Arc::new(Quiet)).unwrap())
        };
        let threads: Vec<_> = people.iter().map(|person| scope.spawn(move || dial(person))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    std::thread::scope(|scope| {
        links.iter().take(10).for_each(|link| drop(scope.spawn(|| ask(link, 50, 10_000))));
    });
    // Those that were idle meanwhile are still there.
    links.iter().skip(10).for_each(|link| ask(link, 1, 10));
}

/// Kilobytes in memory and threads of this process.
fn status() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("VmRSS:"), field("Threads:"))
}

/// Processor time of this process so far, in seconds.
fn cpu() -> f64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    Duration::from(time).as_secs_f64()
}

const CROWD: usize = 1050;
const BUSY: usize = 50;

/// 1,050 clients in another process connect at once; 50 of them work, then all are idle. Prints what that takes here.
#[test]
#[ignore = "takes a minute, and measures"]
#[allow(clippy::print_stdout)]
fn a_thousand_clients_idle_and_fifty_at_work() {
    let dir = tempfile::tempdir().unwrap();
    let bob = Person::new(0, "bob");
    let clients = (0..CROWD).map(|i| {
        let identity = Identity::generate(&format!("client-{i}")).unwrap();
        identity.write(dir.path()).unwrap();
        Client { name: format!("client-{i}"), trust: Some(Trust::Pinned(vec![identity.fingerprint()])) }
    });
    let before = status();
    let door = bob.endpoint().door(clients.collect(), Limits::default(), Arc::new(Quiet)).unwrap();
    let mut crowd = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "door::the_crowd", "--nocapture"])
        .env("VESICA_TEST_CROWD", format!("{} {} {}", dir.path().display(), door.address(), bob.pin()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serve(door);
    let mut words = std::io::BufReader::new(crowd.stdout.take().unwrap());
    let mut hear = |what: &str| {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut words, &mut line).unwrap() > 0, "the crowd never said {what:?}");
        }
        line.trim().to_owned()
    };
    let show = |what: &str, (kib, threads): (u64, u64)| {
        let (kib, threads) = (kib.saturating_sub(before.0), threads - before.1);
        println!("{what}: {kib} KiB ({} KiB a client), {threads} threads", kib / CROWD as u64);
    };
    println!("{}", hear("all here"));
    show("all here", status());
    std::thread::sleep(Duration::from_secs(5));
    let idle = cpu();
    std::thread::sleep(Duration::from_secs(20));
    println!("idle: {:.1} % of a core", (cpu() - idle) / 20.0 * 100.0);
    show("idle", status());
    for work in ["fifty", "the others"] {
        writeln!(crowd.stdin.as_mut().unwrap(), "{work}").unwrap();
        println!("{}", hear(work));
        show(work, status());
    }
    std::thread::sleep(Duration::from_secs(15));
    show("at rest", status());
    drop(crowd.stdin.take());
    assert!(crowd.wait().unwrap().success());
}

/// The clients of the test above, in a process of their own.
#[test]
#[ignore = "the other half of a_thousand_clients_idle_and_fifty_at_work"]
#[allow(clippy::print_stdout)]
fn the_crowd() {
    let Ok(words) = std::env::var("VESICA_TEST_CROWD") else { return };
    let [dir, address, pin] = words.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let start = Barrier::new(CROWD + 1);
    std::thread::scope(|scope| {
        let dial = |i: usize| {
            let name = format!("client-{i}");
            let identity = Identity::load(format!("{dir}/{name}.pem")).unwrap();
            let mut there = Endpoint::new(Party::new(1, &name), JOB, Security::Tls { identity });
            let trust = Some(Trust::Pinned(vec![pin.parse().unwrap()]));
            let road = Default::default();
            there.peers.push(PeerSpec { party: Party::new(0, "bob"), connect: Some(address.into()), trust, road });
            start.wait();
            let began = Instant::now();
            let link = only(vesica_net::connect(there, Arc::new(Quiet)).unwrap());
            (link, began.elapsed())
        };
        let threads: Vec<_> = (0..CROWD).map(|i| scope.spawn(move || dial(i))).collect();
        start.wait();
        let began = Instant::now();
        let mut links: Vec<(Link, Duration)> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let all = began.elapsed();
        links.sort_by_key(|(_, took)| *took);
        let middle = links[CROWD / 2].1;
        println!("all here after {:.2} s, the median after {:.2} s", all.as_secs_f64(), middle.as_secs_f64());
        let mut command = String::new();
        while std::io::stdin().read_line(&mut command).unwrap() > 0 {
            // The second time it is those who have been idle so far.
            let (skip, count) = if command.contains("fifty") { (0, BUSY) } else { (BUSY, CROWD - BUSY) };
            let began = Instant::now();
            std::thread::scope(|scope| {
                let busy = |link: &Link| {
                    let mut line = link.line("ask 0").unwrap();
                    for _ in 0..20 {
                        line.send(&[7; 100_000]).unwrap();
                        assert_eq!(line.recv(1 << 20).unwrap().len(), 100_000);
                    }
                    line.send(b"bye").unwrap();
                };
                links.iter().skip(skip).take(count).for_each(|(link, _)| drop(scope.spawn(move || busy(link))));
            });
            println!("{} have had 20 answers of 100 kB in {:.2} s", command.trim(), began.elapsed().as_secs_f64());
            command.clear();
        }
    });
}
