//! Whole runs over TLS, with somebody between them.

use crate::io::Io;
use crate::lanes::tests::{Two, port};
use crate::meet::peers::{self, Authorities, Peers};
use crate::run::run;
use crate::tell::control::Control;
use std::thread;
use vesica_net::{Identity, Sockets};
use vesica_session::Fault;
use vesica_spec::TrustPlan;
use vesica_types::Party;

/// Alice and bob have both pinned mallory's certificate. Alice takes her for bob, bob takes her for alice, and she passes on to each what
/// the other one says.
#[test]
fn runs_that_somebody_joins_end_before_anything_of_a_table_travels() {
    let two = Two::secure("protocol = \"ecdh\"\nlearns = [\"alice\", \"bob\"]");
    let mallory = Identity::generate("mallory").unwrap();
    let honest = |name: &str, port: u16| {
        let mut plan = two.plan(name, port, "");
        plan.peers[0].trust = Some(TrustPlan::Pinned(vec![mallory.fingerprint()]));
        thread::spawn(move || run(&plan, Io::files(&plan).unwrap(), &Control::new(())))
    };
    let posing_as = |name: &str, port: u16| {
        let endpoint = peers::endpoint(&two.plan(name, port, ""), Some(&mallory), false, &Sockets).unwrap();
        Peers::connect(&Sockets, endpoint, &Control::new(())).unwrap()
    };
    let bobs_port = port();
    let (alice, bob) = (honest("alice", two.port), honest("bob", bobs_port));
    let (with_alice, with_bob) = (posing_as("bob", two.port), posing_as("alice", bobs_port));
    let (mut to_alice, mut to_bob) = (with_alice.line("control").unwrap(), with_bob.line("control").unwrap());
    let (to_alice, to_bob) = (to_alice.peer().unwrap(), to_bob.peer().unwrap());
    let mut passed = 0;
    while let (Ok(of_alice), Ok(of_bob)) = (to_alice.recv(1 << 20), to_bob.recv(1 << 20)) {
        to_alice.send(&of_bob).unwrap();
        to_bob.send(&of_alice).unwrap();
        passed += 1;
    }
    for (ended, peer) in [(alice, "bob"), (bob, "alice")] {
        let error = ended.join().unwrap().unwrap_err();
        assert_eq!(error.fault(), Fault::Peer);
        let said = format!("{peer} broke the protocol: its coins are not those that it committed to, or it passes on");
        assert!(error.to_string().starts_with(&said), "{error}");
    }
    // First words, commitments and openings, of each.
    assert_eq!((passed, two.outputs()), (3, [None, None]));
}

#[test]
fn a_file_of_authorities_is_read_once_for_all_for_whom_they_vouch() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = Identity::generate("authority").unwrap().write(dir.path()).unwrap();
    let plan = TrustPlan::Ca(file.clone());
    let mut authorities = Authorities::default();
    let mut trust = |name: &str| authorities.trust(Some(&plan), &Party::new(1, name)).unwrap().unwrap().to_string();
    assert_eq!(trust("bob"), "\"bob\" by a certificate authority");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(trust("carol"), "\"carol\" by a certificate authority");
    assert!(Authorities::default().trust(Some(&plan), &Party::new(1, "bob")).is_err());
}
