//! Who gets in, who does not, and what each is told.

use crate::common;

use common::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vesica_net::{Endpoint, Error, PeerSpec, Quiet, Roots, Security, Trust, WIRE_VERSION};
use vesica_session::{Channel, Fault};

fn say(channel: &mut dyn Channel, other: &mut dyn Channel) {
    channel.send(b"are you there?").unwrap();
    assert_eq!(other.recv(20).unwrap(), b"are you there?");
}

#[test]
fn two_parties_meet() {
    let (alice, bob) = alice_and_bob();
    let (log, other) = (Log::new(), Log::new());
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here, &log);
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    let b = only(vesica_net::connect(there, other.clone()).unwrap());
    let a = only(waiting.join().unwrap().unwrap());

    assert_eq!((a.peer().name(), b.peer().name()), ("bob", "alice"));
    let secured = format!("TLS 1.3, mutual, pinned {}, TLS13_AES_128_GCM_SHA256, X25519MLKEM768", bob.pin());
    assert_eq!(a.secured().to_string(), secured);
    assert_eq!((b.secured().fingerprint, b.secured().ours), (Some(alice.pin()), Some(bob.pin())));
    assert_eq!(b.address(), Some(address));
    say(&mut *a.line("x").unwrap(), &mut *b.line("x").unwrap());
    assert!(log.text().starts_with(&format!("listening on {address}\n")), "{}", log.text());
    assert!(log.text().contains("connected to bob at 127.0.0.1:"), "{}", log.text());
    assert!(other.text().contains(&format!("connected to alice at {address}: TLS 1.3")), "{}", other.text());

    let closing = std::thread::spawn(move || a.close().map(|()| a.traffic()));
    b.close().unwrap();
    let (a, b) = (closing.join().unwrap().unwrap(), b.traffic());
    assert!(a.sent > 500 && b.sent > 500, "{a:?} {b:?}");
    // But for a credit or a heartbeat that crosses the goodbyes.
    assert!(a.sent.abs_diff(b.received) < 100, "{a:?} {b:?}");
}

#[test]
fn three_parties_meet_and_two_of_them_at_one_port() {
    let people = [Person::new(0, "alice"), Person::new(1, "bob"), Person::new(2, "carol")];
    let [alice, bob, carol] = &people;
    let mut a = alice.endpoint();
    a.peers = vec![bob.awaited(), carol.awaited()];
    let (at_alice, a) = listen(a, &Log::new());
    let mut b = bob.endpoint();
    b.peers = vec![alice.at(at_alice), carol.awaited()];
    let (at_bob, b) = listen(b, &Log::new());
    let mut c = carol.endpoint();
    c.listen = None;
    c.peers = vec![alice.at(at_alice), bob.at(at_bob)];
    let c = vesica_net::connect(c, Log::new()).unwrap();
    let (a, b) = (a.join().unwrap().unwrap(), b.join().unwrap().unwrap());
    for (links, names) in [(&a, ["bob", "carol"]), (&b, ["alice", "carol"]), (&c, ["alice", "bob"])] {
        assert_eq!(links.iter().map(|link| link.peer().name()).collect::<Vec<_>>(), names);
    }
    for (x, y) in [(&a[0], &b[0]), (&a[1], &c[0]), (&b[1], &c[1])] {
        say(&mut *x.line("x").unwrap(), &mut *y.line("x").unwrap());
    }
}

#[test]
fn a_peer_that_leaves_before_the_last_one_comes_is_awaited_again() {
    let people = [Person::new(0, "alice"), Person::new(1, "bob"), Person::new(2, "carol")];
    let [alice, bob, carol] = &people;
    let log = Log::new();
    let mut a = alice.endpoint();
    a.peers = vec![bob.awaited(), carol.awaited()];
    let (address, a) = listen(a, &log);
    let dial = |who: &Person| {
        let mut endpoint = who.endpoint();
        endpoint.peers = vec![alice.at(address)];
        only(vesica_net::connect(endpoint, Log::new()).unwrap())
    };
    drop(dial(bob));
    log.hears("bob broke away and is awaited again: it closed the connection without a goodbye");
    let b = dial(bob);
    // A second bob is told to wait, and the first is not disturbed.
    let mut second = bob.endpoint();
    second.peers = vec![alice.at(address)];
    let told = Log::new();
    let waiting = {
        let told = told.clone();
        std::thread::spawn(move || vesica_net::connect(second, told))
    };
    told.hears("bob is connected already; is its job running twice?");
    told.cancel.store(true, Ordering::Relaxed);
    assert_eq!(waiting.join().unwrap().unwrap_err().fault(), Fault::Interrupted);
    let c = dial(carol);
    let a = a.join().unwrap().unwrap();
    say(&mut *a[0].line("x").unwrap(), &mut *b.line("x").unwrap());
    say(&mut *a[1].line("x").unwrap(), &mut *c.line("x").unwrap());
}

#[test]
fn when_one_stops_the_others_hear_it_while_they_wait() {
    let people = [Person::new(0, "alice"), Person::new(1, "bob"), Person::new(2, "carol")];
    let [alice, bob, carol] = &people;
    let mut a = alice.endpoint();
    a.peers = vec![bob.awaited(), carol.awaited()];
    let (address, a) = listen(a, &Log::new());
    let mut b = bob.endpoint();
    b.peers = vec![alice.at(address)];
    let b = only(vesica_net::connect(b, Log::new()).unwrap());
    b.abort(Fault::Input, "bob.csv has no column id");
    let error = a.join().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "bob stopped the run (input fault there): bob.csv has no column id");
    assert_eq!(error.fault(), Fault::Peer);
}

/// Who lost another peer says so and comes back; whose patience is over does not.
#[test]
fn a_peer_that_lost_another_is_awaited_again_and_one_that_gave_up_is_not() {
    let people = [Person::new(0, "alice"), Person::new(1, "bob"), Person::new(2, "carol")];
    let [alice, bob, carol] = &people;
    let mut a = alice.endpoint();
    a.peers = vec![bob.awaited(), carol.awaited()];
    let log = Log::new();
    let (address, waiting) = listen(a.clone(), &log);
    let dial = |who: &Person, address| {
        let mut endpoint = who.endpoint();
        endpoint.peers = vec![alice.at(address)];
        only(vesica_net::connect(endpoint, Log::new()).unwrap())
    };
    dial(bob, address).abort(Fault::Network, "it lost carol");
    log.hears("bob broke away and is awaited again: it lost carol");
    let _here = [dial(bob, address), dial(carol, address)];
    waiting.join().unwrap().unwrap();

    // Long enough for bob to come in on a busy machine.
    a.patience = Duration::from_secs(4);
    let (address, waiting) = listen(a, &Log::new());
    let b = dial(bob, address);
    let error = b.line("x").unwrap().recv(1).unwrap_err();
    assert!(matches!(&error, vesica_session::Error::Stopped { fault: Fault::Peer, .. }), "{error}");
    assert!(error.to_string().contains("carol did not come within 4 s"), "{error}");
    assert_eq!(waiting.join().unwrap().unwrap_err().fault(), Fault::Network);
}

/// Bob only checks that the others are there, and carol does not come in time. He may come again, to run, so alice waits on.
#[test]
fn one_that_only_checks_and_gives_up_is_awaited_again() {
    let people = [Person::new(0, "alice"), Person::new(1, "bob"), Person::new(2, "carol")];
    let [alice, bob, carol] = &people;
    let mut a = alice.endpoint();
    a.peers = vec![bob.awaited(), carol.awaited()];
    a.patience = Duration::from_secs(20);
    let log = Log::new();
    let (address, waiting) = listen(a, &log);
    let mut b = bob.endpoint();
    b.peers = vec![alice.at(address), carol.awaited()];
    // In this time the check has to meet alice. Hers is for the run after it too.
    let checks = Endpoint { only_checks: true, patience: Duration::from_secs(4), ..b.clone() };
    let error = vesica_net::connect(checks, Log::new()).unwrap_err();
    assert!(error.to_string().contains("carol did not come within 4 s"), "{error}");
    log.hears("bob broke away and is awaited again: it only checked the job");
    let (at_bob, b) = listen(b, &Log::new());
    let mut c = carol.endpoint();
    c.peers = vec![alice.at(address), bob.at(at_bob)];
    // All links live until bob is done too: one that is dropped before would be a loss to him.
    let _c = vesica_net::connect(c, Log::new()).unwrap();
    let _a = waiting.join().unwrap().unwrap();
    b.join().unwrap().unwrap();
}

#[test]
fn a_late_partner_is_waited_for_on_both_sides() {
    let (alice, bob) = alice_and_bob();
    let port = Unheard::new();
    let address = port.address();
    let (log, other) = (Log::new(), Log::new());
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    let dialling = {
        let other = other.clone();
        std::thread::spawn(move || vesica_net::connect(there, other))
    };
    // How much patience is left when that is told depends on how busy the machine is.
    other.hears(" s of patience left (connection refused: nobody listens");
    assert!(other.text().contains(&format!("waiting for alice at {address}, ")), "{}", other.text());
    let mut here = alice.endpoint();
    here.listen = Some(address.to_string());
    here.peers.push(bob.awaited());
    let a = only(vesica_net::connect(here, log).unwrap());
    let b = only(dialling.join().unwrap().unwrap());
    say(&mut *a.line("x").unwrap(), &mut *b.line("x").unwrap());

    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here, &log);
    log.hears(&format!("waiting for bob at {address}, "));
    assert!(log.text().contains(" s of patience left"), "{}", log.text());
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    // Who hangs up at once may take back what it said last.
    let there = vesica_net::connect(there, Log::new()).unwrap();
    waiting.join().unwrap().unwrap();
    drop(there);
}

#[test]
fn patience_ends_with_the_name_the_address_and_the_remedy() {
    let (alice, bob) = alice_and_bob();
    let port = Unheard::new();
    let address = port.address();
    let there = bob.endpoint();
    // Seconds for a first attempt to come to its end on a busy machine.
    let impatient = |peer: PeerSpec, seconds: u64| {
        let mut endpoint = Endpoint { patience: Duration::from_secs(seconds), ..there.clone() };
        endpoint.peers.push(peer);
        vesica_net::connect(endpoint, Arc::new(Quiet)).unwrap_err()
    };
    let refused = impatient(alice.at(address), 2);
    assert_eq!(refused.fault(), Fault::Network);
    let text = refused.to_string();
    assert!(
        text.contains(&format!("alice did not come within 2 s ({address}): connection refused"))
            && text.contains("check that alice has started"),
        "{text}"
    );

    // A name is given up after half of that, and each time that it is asked for may take as long as the network takes.
    let nowhere = PeerSpec { connect: Some("no-such-host.invalid:7744".into()), ..alice.awaited() };
    let unknown = impatient(nowhere, 8);
    let text = unknown.to_string();
    assert!(text.contains("the host name of no-such-host.invalid:7744 does not resolve"), "{text}");
    assert!(text.contains("correct mine.connect.alice"), "{text}");

    let nobody = impatient(alice.awaited(), 1).to_string();
    assert!(nobody.contains("(awaited on 127.0.0.1:") && nobody.contains("nobody connected"), "{nobody}");
}

#[test]
fn a_wait_can_be_cancelled() {
    let (alice, bob) = alice_and_bob();
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (_, waiting) = listen(here, &log);
    log.cancel.store(true, Ordering::Relaxed);
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(error.fault(), Fault::Interrupted);
}

#[test]
fn a_wrong_pin_names_both_fingerprints_where_it_is_wrong() {
    let (alice, bob) = alice_and_bob();
    let other = Person::new(0, "alice");
    // Bob has a wrong fingerprint of alice.
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here.clone(), &log);
    let mut there = bob.endpoint();
    there.peers.push(other.at(address));
    let error = vesica_net::connect(there, Log::new()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&alice.pin().to_string()) && text.contains(&other.pin().to_string()), "{text}");
    assert!(text.contains(&format!("{address} is not alice")), "{text}");
    assert_eq!(error.fault(), Fault::Peer);
    log.hears("it did not accept our certificate");
    log.cancel.store(true, Ordering::Relaxed);
    waiting.join().unwrap().unwrap_err();

    // Alice has a wrong fingerprint of bob: alice's log names bob's real one, and bob is told.
    let log = Log::new();
    here.peers = vec![PeerSpec { trust: Some(Trust::Pinned(vec![other.pin()])), ..bob.awaited() }];
    here.patience = Duration::from_secs(4);
    let (address, waiting) = listen(here, &log);
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    let text = vesica_net::connect(there, Log::new()).unwrap_err().to_string();
    assert!(text.contains("it did not accept our certificate"), "{text}");
    assert!(text.contains(&format!("ours is {}: check what alice's job says of bob", bob.pin())), "{text}");
    log.hears(&format!("its certificate {} is not accepted: for bob, pinned is {}", bob.pin(), other.pin()));
    // A scanner that comes later, with whatever certificate, does not take bob's place.
    let scan = |address| {
        let mallory = Person::new(1, "bob");
        let mut there = mallory.endpoint();
        there.peers.push(alice.at(address));
        vesica_net::connect(there, Log::new()).unwrap_err();
        mallory
    };
    let mallory = scan(address);
    log.hears(&mallory.pin().to_string());
    let text = waiting.join().unwrap().unwrap_err().to_string();
    assert!(text.find(&bob.pin().to_string()) < text.find(&mallory.pin().to_string()), "{text}");
    assert!(text.contains("bob did not come within 4 s") && text.contains(&bob.pin().to_string()), "{text}");
    assert!(text.contains(&format!("pinned is {}; if that was bob", other.pin())), "{text}");
    assert!(text.contains("compare the fingerprints with bob") && !text.contains("raise mine.patience"), "{text}");

    // Bob himself comes for another job.
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    here.patience = Duration::from_secs(4);
    let (address, waiting) = listen(here, &log);
    let mut there = Endpoint { job: [9; 32], ..bob.endpoint() };
    there.peers.push(alice.at(address));
    vesica_net::connect(there, Log::new()).unwrap_err();
    scan(address);
    let text = waiting.join().unwrap().unwrap_err().to_string();
    assert!(text.contains("job") && text.contains("that was bob: mend what it was refused for"), "{text}");
    assert!(!text.contains("compare the fingerprints"), "{text}");
}

fn named(name: &str) -> rcgen::CertificateParams {
    rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap()
}

#[test]
fn a_certificate_authority_vouches_for_names() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, ours.cert.pem()).unwrap();
    let roots = Roots::load(&path).unwrap();
    let ca = |name: &str| Some(Trust::Ca { roots: roots.clone(), name: name.into() });
    let alice = Person::certified(0, "alice", named("alice.example"), Some(&ours));
    let bob = Person::certified(1, "bob", named("bob.example"), Some(&ours));
    let foreign = Person::certified(1, "bob", named("bob.example"), Some(&theirs));

    let meet = |who: &Person, expected: &str| {
        let log = Log::new();
        let mut here = alice.endpoint();
        here.peers.push(PeerSpec { trust: ca("bob.example"), ..bob.awaited() });
        let (address, waiting) = listen(here, &log);
        let mut there = who.endpoint();
        there.peers.push(PeerSpec { trust: ca(expected), ..alice.at(address) });
        let met = vesica_net::connect(there, Log::new());
        if met.is_err() {
            log.hears("refused a connection");
            log.cancel.store(true, Ordering::Relaxed);
        }
        let _ = waiting.join().unwrap();
        (met.map(only), log.text())
    };
    let (met, _) = meet(&bob, "alice.example");
    assert!(met.unwrap().secured().to_string().contains("\"alice.example\" by a certificate authority"));
    let (met, _) = meet(&bob, "carol.example");
    let text = met.unwrap_err().to_string();
    assert!(text.contains("the CA vouches for \"alice.example\", not for carol.example"), "{text}");
    let (met, log) = meet(&foreign, "alice.example");
    assert!(met.unwrap_err().to_string().contains("it did not accept our certificate"));
    assert!(log.contains("no certificate authority in the job's roots signed it"), "{log}");
    // A name that the authority does vouch for, but another's.
    let (_, log) = meet(&Person::certified(1, "bob", named("mallory.example"), Some(&ours)), "alice.example");
    assert!(log.contains("mallory.example") && log.contains("not for bob.example"), "{log}");
}

#[test]
fn a_certificate_that_its_authority_has_revoked_is_refused() {
    let ours = authority("ours");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.pem");
    let alice = Person::certified(0, "alice", named("alice.example"), Some(&ours));
    let bob = |serial: u64, uses: &[rcgen::ExtendedKeyUsagePurpose]| {
        let mut params = named("bob.example");
        params.serial_number = Some(serial.into());
        params.extended_key_usages = uses.to_vec();
        Person::certified(1, "bob", params, Some(&ours))
    };
    let (kept, revoked) = (bob(7, &[]), bob(8, &[]));
    let list_for = |by: &Authority, until: i32, part: Option<rcgen::CrlIssuingDistributionPoint>| {
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2001, 1, 1),
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: 1u64.into(),
            issuing_distribution_point: part,
            revoked_certs: vec![rcgen::RevokedCertParams {
                serial_number: 8u64.into(),
                revocation_time: rcgen::date_time_ymd(2000, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&by.issuer).unwrap().pem().unwrap()
    };
    let list = |by: &Authority, until: i32| list_for(by, until, None);
    let meet = |who: &Person, list: &str| {
        std::fs::write(&path, ours.cert.pem() + list).unwrap();
        let roots = Roots::load(&path).unwrap();
        let ca = |name: &str| Some(Trust::Ca { roots: roots.clone(), name: name.into() });
        let log = Log::new();
        let mut here = alice.endpoint();
        here.peers.push(PeerSpec { trust: ca("bob.example"), ..who.awaited() });
        let (address, waiting) = listen(here, &log);
        let mut there = who.endpoint();
        there.peers.push(PeerSpec { trust: ca("alice.example"), ..alice.at(address) });
        let met = vesica_net::connect(there, Log::new()).is_ok();
        if !met {
            log.hears("refused a connection");
            log.cancel.store(true, Ordering::Relaxed);
        }
        let _ = waiting.join().unwrap();
        (met, log.text())
    };
    assert!(meet(&revoked, "").0, "without a list nothing is revoked");
    let now = list(&ours, 2200);
    let (met, log) = meet(&kept, &now);
    assert!(met && !log.contains("covers nobody"), "{log}");
    let (met, log) = meet(&revoked, &now);
    assert!(!met && log.contains("its certificate authority has revoked it"), "{log}");
    // So it is with one that is good for clients alone, of which it would be true as well that it is none for servers.
    let (met, log) = meet(&bob(8, &[rcgen::ExtendedKeyUsagePurpose::ClientAuth]), &now);
    assert!(!met && log.contains("its certificate authority has revoked it"), "{log}");
    // What another authority has revoked says nothing here, and that is told.
    let (met, log) = meet(&revoked, &list(&authority("theirs"), 2200));
    assert!(
        met && log.contains("ca.pem has a list of revoked certificates by \"CN=") && log.contains("theirs\""),
        "{log}"
    );
    assert!(log.contains("so the list covers nobody"), "{log}");
    // A list that is out of date does not say who is revoked today.
    for who in [&kept, &revoked] {
        assert!(!meet(who, &list(&ours, 2002)).0);
    }
    std::fs::write(&path, ours.cert.pem() + "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    let error = Roots::load(&path).unwrap_err().to_string();
    assert!(error.contains("a list of revoked certificates in it cannot be used"), "{error}");
    std::fs::write(&path, ours.cert.pem() + &now + &list(&ours, 2201)).unwrap();
    let error = Roots::load(&path).unwrap_err().to_string();
    assert!(error.contains("two lists of revoked certificates of one authority"), "{error}");
    // A list for some certificates would be passed over in silence where it meets another.
    for scope in [None, Some(rcgen::CrlScope::UserCertsOnly), Some(rcgen::CrlScope::CaCertsOnly)] {
        let distribution_point = rcgen::CrlDistributionPoint { uris: vec!["http://ours.example/part.crl".into()] };
        let part = rcgen::CrlIssuingDistributionPoint { distribution_point, scope };
        std::fs::write(&path, ours.cert.pem() + &list_for(&ours, 2200, Some(part))).unwrap();
        let error = Roots::load(&path).unwrap_err().to_string();
        assert!(error.contains("ours\" in it is for a part of that authority's certificates"), "{error}");
    }
}

#[test]
fn strangers_neither_end_nor_disturb_the_wait() {
    let (alice, bob) = alice_and_bob();
    let mallory = Person::new(1, "bob");
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    here.patience = Duration::from_secs(60);
    let (address, waiting) = listen(here, &log);
    let knock = || TcpStream::connect(address).unwrap();

    drop(knock());
    log.hears("it connected and went away");
    knock().write_all(b"GET / HTTP/1.1\r\nHost: alice\r\n\r\n").unwrap();
    log.hears("it is not Vesica, it begins with \"GET / HTTP/1.1\"");
    knock().write_all(&[0xff; 100_000]).unwrap();
    log.hears("it begins with \"????????????????");
    knock().write_all(b"\x16\x03\x01\xff\xff garbage").unwrap();
    log.hears("what it sends is not TLS");
    assert!(raw_tls(address, None).and_then(|mut tls| tls.read(&mut [0])).is_err());
    log.hears("it presents no certificate");
    assert!(raw_tls(address, Some(&mallory)).and_then(|mut tls| tls.read(&mut [0])).is_err());
    log.hears(&format!("its certificate {} is not accepted", mallory.pin()));
    // Right through the handshake, and then garbage, an enormous greeting, or half of one.
    let greeting = hello(WIRE_VERSION, JOB, "bob", "alice");
    let enormous = [&greeting[..12], &[0xff; 2]].concat();
    for words in [&[0; 10][..], &enormous, &greeting[..10]] {
        let mut tls = raw_tls(address, Some(&bob)).unwrap();
        tls.write_all(words).unwrap();
        tls.flush().unwrap();
        tls.sock.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = tls.read(&mut [0; 100]);
    }
    log.hears("it is not Vesica, it begins with \"????????\"");
    log.hears("it sends a greeting that cannot be understood");
    log.hears("it closed the connection during the handshake");
    // More silent ones than there is room for: the oldest make way.
    let silent: Vec<TcpStream> = (0..40).map(|_| knock()).collect();

    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    let began = Instant::now();
    let b = only(vesica_net::connect(there, Log::new()).unwrap());
    let a = only(waiting.join().unwrap().unwrap());
    // Whoever is silent has ten seconds.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    // The door is closed now.
    say(&mut *a.line("x").unwrap(), &mut *b.line("x").unwrap());
    assert!(TcpStream::connect(address).is_err());
    drop(silent);
    say(&mut *b.line("y").unwrap(), &mut *a.line("y").unwrap());
}

/// Connects to alice with bob's right certificate and says `words`; what comes back.
fn with_bobs_certificate(words: &[u8]) -> (Result<(), Error>, Arc<Log>, Vec<u8>) {
    let (alice, bob) = alice_and_bob();
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    here.patience = Duration::from_secs(4);
    let (address, waiting) = listen(here, &log);
    let mut tls = raw_tls(address, Some(&bob)).unwrap();
    tls.write_all(words).unwrap();
    tls.flush().unwrap();
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer);
    (waiting.join().unwrap().map(drop), log, answer)
}

/// A way to `to` on which one bit is wrong of what comes back over the first connection, at byte `place`.
fn damaged_once(to: SocketAddr, place: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (n, near) in listener.incoming().enumerate() {
            let (mut near, mut far) = (near.unwrap(), TcpStream::connect(to).unwrap());
            let (mut near_too, mut far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut near_too, &mut far_too));
            std::thread::spawn(move || {
                let mut first = vec![0; place + 1];
                far.read_exact(&mut first)?;
                first[place] ^= u8::from(n == 0);
                near.write_all(&first)?;
                std::io::copy(&mut far, &mut near)?;
                near.shutdown(std::net::Shutdown::Both)
            });
        }
    });
    address
}

#[test]
fn a_handshake_that_was_damaged_on_the_way_is_tried_again() {
    for place in [300, 600] {
        let (alice, bob) = alice_and_bob();
        let mut here = alice.endpoint();
        here.peers.push(bob.awaited());
        let (address, waiting) = listen(here, &Log::new());
        let mut there = bob.endpoint();
        there.peers.push(alice.at(damaged_once(address, place)));
        let b = only(vesica_net::connect(there, Log::new()).unwrap());
        let a = only(waiting.join().unwrap().unwrap());
        say(&mut *a.line("x").unwrap(), &mut *b.line("x").unwrap());
    }
}

#[test]
fn another_version_is_named_on_both_sides() {
    let another = WIRE_VERSION + 1;
    let (met, _, answer) = with_bobs_certificate(&hello(another, JOB, "bob", "alice"));
    let error = met.unwrap_err();
    let words = format!(
        "bob speaks version {another} of the wire format, this program speaks {WIRE_VERSION}; install the same version of Vesica \
         on both sides"
    );
    assert_eq!(error.to_string(), words);
    assert_eq!(error.fault(), Fault::Peer);
    // Ours came back, so that the other side can say the same.
    assert_eq!(answer[..12], hello(WIRE_VERSION, JOB, "", "")[..12]);
}

#[test]
fn another_job_is_turned_away_and_the_wait_goes_on() {
    let (met, log, answer) = with_bobs_certificate(&hello(WIRE_VERSION, [8; 32], "bob", "alice"));
    assert!(matches!(met, Err(Error::Absent { .. })), "{met:?}");
    assert!(log.text().contains("it is bob, but it runs another job than alice"), "{}", log.text());
    assert!(met.unwrap_err().to_string().contains("it runs another job than alice"));
    assert!(String::from_utf8_lossy(&answer).contains("runs another job"));
}

#[test]
fn another_party_is_named_on_both_sides() {
    let (met, _, answer) = with_bobs_certificate(&hello(WIRE_VERSION, JOB, "carol", "alice"));
    let error = met.unwrap_err().to_string();
    assert!(error.contains("by its certificate it is bob, but it says that it is \"carol\", not bob"), "{error}");
    assert!(String::from_utf8_lossy(&answer).contains("it says that it is \"carol\""));
    let (met, _, answer) = with_bobs_certificate(&hello(WIRE_VERSION, JOB, "bob", "dave"));
    let error = met.unwrap_err().to_string();
    assert!(error.contains("it looks for \"dave\", and this is \"alice\""), "{error}");
    assert!(String::from_utf8_lossy(&answer).contains("it looks for \"dave\""));
}

#[test]
fn the_dialling_side_says_why_it_was_turned_away() {
    let (alice, bob) = alice_and_bob();
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here, &log);
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    there.job = [9; 32];
    let error = vesica_net::connect(there, Log::new()).unwrap_err();
    assert!(error.to_string().contains("another job"), "{error}");
    log.hears("it is bob, but it runs another job than alice");
    log.cancel.store(true, Ordering::Relaxed);
    waiting.join().unwrap().unwrap_err();
}

#[test]
fn both_dialling_is_one_too_many() {
    let (alice, bob) = alice_and_bob();
    let carol = Person::new(2, "carol");
    let port = Unheard::new();
    let mut here = alice.endpoint();
    here.peers = vec![bob.at(port.address()), carol.awaited()];
    let log = Log::new();
    let (address, waiting) = listen(here, &log);
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    let error = vesica_net::connect(there, Log::new()).unwrap_err().to_string();
    assert!(error.contains("both bob and alice have the other's address"), "{error}");
    log.cancel.store(true, Ordering::Relaxed);
    waiting.join().unwrap().unwrap_err();
}

fn insecure(endpoint: &mut Endpoint) {
    endpoint.security = Security::Insecure;
}

#[test]
fn plaintext_only_where_both_say_so() {
    let (a, b) = links(insecure);
    assert_eq!(a.secured().to_string(), "INSECURE: plaintext, and nobody is authenticated");
    assert_eq!((a.secured().protocol, a.secured().fingerprint), ("none", None));
    say(&mut *a.line("x").unwrap(), &mut *b.line("x").unwrap());

    for listener_is_insecure in [true, false] {
        let (alice, bob) = alice_and_bob();
        let log = Log::new();
        let (mut here, mut there) = (alice.endpoint(), bob.endpoint());
        here.peers.push(bob.awaited());
        insecure(if listener_is_insecure { &mut here } else { &mut there });
        let (address, waiting) = listen(here, &log);
        there.peers.push(alice.at(address));
        let error = vesica_net::connect(there, Log::new()).unwrap_err().to_string();
        let (dialler, listener) = if listener_is_insecure {
            (
                "it speaks plaintext (insecure = true there) where this job wants TLS",
                "it speaks TLS where this job says",
            )
        } else {
            ("it speaks TLS where this job says insecure = true", "it speaks plaintext (insecure = true there)")
        };
        assert!(error.contains(dialler), "{error}");
        log.hears(listener);
        log.cancel.store(true, Ordering::Relaxed);
        waiting.join().unwrap().unwrap_err();
    }
}

#[test]
fn what_answers_may_be_something_else() {
    let (alice, bob) = alice_and_bob();
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = web.accept().unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let mut there = bob.endpoint();
    there.peers.push(alice.at(address));
    let error = vesica_net::connect(there, Log::new()).unwrap_err().to_string();
    assert!(error.contains("what answers there is not Vesica, it begins with \"HTTP/1.1 400 Bad"), "{error}");
    server.join().unwrap();
}

#[test]
fn local_faults_are_found_before_contact() {
    let (alice, bob) = alice_and_bob();
    let mut good = alice.endpoint();
    good.peers.push(bob.awaited());
    good.check().unwrap();
    let wrong = |change: &dyn Fn(&mut Endpoint), words: &str| {
        let mut endpoint = good.clone();
        change(&mut endpoint);
        let error = endpoint.check().unwrap_err();
        assert_eq!(error.fault(), Fault::Config, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    wrong(
        &|e| e.listen = Some(taken.clone()),
        &format!("cannot listen on {taken}: the port is in use; stop the program"),
    );
    wrong(&|e| e.listen = Some("203.0.113.7:0".into()), "that is no address of this machine");
    wrong(&|e| e.listen = Some("7744".into()), "no port; write it as \"host:port\"; for example mine.listen");
    wrong(&|e| e.listen = None, "nothing says how to meet bob; set mine.listen");
    wrong(&|e| e.peers[0].trust = None, "give mine.tls.peers.bob the fingerprint");
    wrong(&|e| e.peers[0].connect = Some("bob".into()), "mine.connect.bob = \"bob\": no port");
    wrong(&|e| e.peers[0].connect = Some("bob:99999".into()), "\"99999\" is no port");
    wrong(&|e| e.peers[0].connect = Some("::1:99".into()), "an IPv6 address needs brackets");
    wrong(&|e| e.peers.clear(), "has no peers");
    wrong(&|e| e.peers.push(bob.awaited()), "two parties are called \"bob\"");
    wrong(&|e| e.window = 1, "a window of 1 bytes is out of range");
    wrong(&|e| e.patience = Duration::ZERO, "too short");

    let mut params = named("old");
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 2, 3);
    let old = Person::certified(0, "old", params.clone(), None);
    wrong(&|e| e.security = old.tls(), "the certificate expired on 2002-02-03; make a new one");
    params.not_before = rcgen::date_time_ymd(2200, 1, 1);
    params.not_after = rcgen::date_time_ymd(2201, 1, 1);
    let unborn = Person::certified(0, "unborn", params, None);
    wrong(&|e| e.security = unborn.tls(), "the certificate is not valid before 2200-01-01");
}

#[test]
fn an_expired_certificate_of_a_peer_is_refused_though_it_is_pinned() {
    let alice = Person::new(0, "alice");
    let mut params = named("bob");
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 2, 3);
    let bob = Person::certified(1, "bob", params, None);
    let log = Log::new();
    let mut here = alice.endpoint();
    here.peers.push(bob.awaited());
    let (address, waiting) = listen(here, &log);
    assert!(raw_tls(address, Some(&bob)).and_then(|mut tls| tls.read(&mut [0])).is_err());
    log.hears("for bob, the certificate expired on 2002-02-03");
    log.cancel.store(true, Ordering::Relaxed);
    waiting.join().unwrap().unwrap_err();
}
