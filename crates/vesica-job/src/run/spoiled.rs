//! Whole runs by any of several identifiers with a partner that spoils one of its messages, whichever that is. Alice and Bob are real runs; what
//! Bob says goes through a connection that changes one message on its way.

use super::*;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use vesica_net::{
    Client, ClientDoor, Connector, Endpoint, LaneDoor, Limits, PeerLink, PeerProgress, Secured, Sockets, Traffic, Trust,
};
use vesica_session::{Channel, Error};
use vesica_testkit::{Attack, port};
use vesica_types::Party;

/// What happens to the messages of a run.
#[derive(Debug, Default)]
struct Spoil {
    /// To the message with this number, over all lines.
    attack: Option<(usize, Attack)>,
    sent: AtomicUsize,
}

/// Connections over TCP whose owner sends one message spoiled.
#[derive(Clone, Debug)]
struct Spoiling(Arc<Spoil>);

impl Connector for Spoiling {
    fn check(&self, endpoint: &Endpoint) -> vesica_net::Result<()> {
        Sockets.check(endpoint)
    }

    fn connect(
        &self,
        endpoint: Endpoint,
        control: Arc<dyn vesica_net::Control>,
    ) -> vesica_net::Result<Vec<Box<dyn PeerLink>>> {
        let links = Sockets.connect(endpoint, control)?;
        Ok(links.into_iter().map(|link| Box::new(SpoiledLink(link, self.0.clone())) as Box<dyn PeerLink>).collect())
    }

    fn lane_door(
        &self,
        endpoint: Endpoint,
        peer: Party,
        known: Vec<Trust>,
        seats: usize,
        control: Arc<dyn vesica_net::Control>,
    ) -> vesica_net::Result<Box<dyn LaneDoor>> {
        Sockets.lane_door(endpoint, peer, known, seats, control)
    }

    fn door(
        &self,
        endpoint: Endpoint,
        clients: Vec<Client>,
        limits: Limits,
        control: Arc<dyn vesica_net::Control>,
    ) -> vesica_net::Result<Box<dyn ClientDoor>> {
        Sockets.door(endpoint, clients, limits, control)
    }
}

struct SpoiledLink(Box<dyn PeerLink>, Arc<Spoil>);

impl std::fmt::Debug for SpoiledLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a link to {} on which one message is spoiled", self.0.peer())
    }
}

impl PeerLink for SpoiledLink {
    fn peer(&self) -> &Party {
        self.0.peer()
    }

    fn address(&self) -> Option<std::net::SocketAddr> {
        self.0.address()
    }

    fn job(&self) -> Option<[u8; 32]> {
        self.0.job()
    }

    fn line(&self, name: &str) -> vesica_session::Result<Box<dyn Channel>> {
        Ok(Box::new(SpoiledLine(self.0.line(name)?, self.1.clone())))
    }

    fn secured(&self) -> &Secured {
        self.0.secured()
    }

    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }

    fn waited(&self) -> Duration {
        self.0.waited()
    }

    fn set_progress(&self, phase: &str, done: u64, total: Option<u64>) {
        self.0.set_progress(phase, done, total);
    }

    fn peer_progress(&self) -> Option<PeerProgress> {
        self.0.peer_progress()
    }

    fn ended(&self) -> Option<Error> {
        self.0.ended()
    }

    fn stop(&self, fault: Fault, why: &str) {
        self.0.stop(fault, why);
    }

    fn hang_up(&self) {
        self.0.hang_up();
    }

    fn part(&self) {
        self.0.part();
    }

    fn parted(&self, limit: Option<Duration>) -> vesica_session::Result<()> {
        self.0.parted(limit)
    }
}

struct SpoiledLine(Box<dyn Channel>, Arc<Spoil>);

impl Channel for SpoiledLine {
    fn send(&mut self, msg: &[u8]) -> vesica_session::Result<()> {
        let number = self.1.sent.fetch_add(1, Ordering::SeqCst);
        match self.1.attack.filter(|(at, _)| *at == number) {
            Some((_, attack)) => self.0.send(&attack.spoiled(msg, &[])),
            None => self.0.send(msg),
        }
    }

    fn recv(&mut self, limit: usize) -> vesica_session::Result<Vec<u8>> {
        self.0.recv(limit)
    }

    fn line(&self, name: &str) -> vesica_session::Result<Box<dyn Channel>> {
        Ok(Box::new(SpoiledLine(self.0.line(name)?, self.1.clone())))
    }

    vesica_session::forward_channel!(0 but line);
}

/// What alice's run comes to, and how many messages bob sent: a customer has a mail address or a telephone number.
fn run_with(attack: Option<(usize, Attack)>, shared: &str) -> io::Result<(Result<Report, JobError>, usize)> {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let alice: String = (0..20).map(|i| format!("m{i},{i}\n")).collect();
    let bob: String = (8..28).map(|i| format!("m{i},{}\n", if i % 3 == 0 { i - 8 } else { i + 1000 })).collect();
    std::fs::write(path("alice.csv"), format!("mail,tel\n{alice}"))?;
    std::fs::write(path("bob.csv"), format!("mail,tel\n{bob}"))?;
    let port = port();
    let plan = |me: &str, contact: &str| {
        let text = format!(
            "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nlearns = [\"alice\", \"bob\"]\ninsecure = true\nmatch = \"any\"\n\
             identifiers = [{{ name = \"mail\" }}, {{ name = \"tel\" }}]\n{shared}\n\
             [mine]\nname = \"{me}\"\n{contact}\nworkers = 1\npatience = \"3s\"\noutput = {{ path = \"{}\" }}\n\
             input = {{ path = \"{}\", keys = {{ mail = \"mail\", tel = \"tel\" }} }}\n",
            path(&format!("{me}.out.csv")),
            path(&format!("{me}.csv")),
        );
        vesica_spec::plan(&vesica_spec::parse(&text).unwrap()).unwrap()
    };
    let alice = plan("alice", &format!("listen = \"127.0.0.1:{port}\""));
    let bob = plan("bob", &format!("connect = {{ alice = \"127.0.0.1:{port}\" }}"));
    let spoil = Arc::new(Spoil { attack, sent: AtomicUsize::new(0) });
    let theirs = Spoiling(spoil.clone());
    let bob = thread::spawn(move || {
        let mut io = Io::files(&bob).unwrap();
        io.world.connector = Arc::new(theirs);
        run(&bob, io, &Control::new(()))
    });
    let found = run(&alice, Io::files(&alice).unwrap(), &Control::new(()));
    // No panic of his either.
    drop(bob.join().expect("bob's run ends"));
    Ok((found, spoil.sent.load(Ordering::SeqCst)))
}

/// A message of another length is told as bob's fault, and names him; so is one with another bit, or it changes what only bob's honesty
/// decides. Alice's run never panics, and always ends.
#[test]
fn every_message_of_a_run_by_any_identifier_may_be_spoiled() {
    for shared in ["protocol = \"ecdh\"", "protocol = \"rr22\"\nlimits.min_intersection = 5"] {
        let (honest, messages) = run_with(None, shared).unwrap();
        // Twelve by mail, and three more by telephone.
        assert_eq!(honest.unwrap().outcome.matched_rows, Some(15), "{shared}");
        assert!(messages > 8, "{messages}");
        let mut noticed = 0;
        for at in 0..messages {
            for attack in [Attack::Cut, Attack::Grow, Attack::Flip(7 * at)] {
                let began = Instant::now();
                let (found, _) = run_with(Some((at, attack)), shared).unwrap();
                assert!(began.elapsed() < Duration::from_secs(30), "{shared}: message {at}, {attack:?}");
                match found {
                    // Keys that a bit has spoiled match nothing.
                    Err(JobError::TooSmall { .. }) => assert!(matches!(attack, Attack::Flip(_)), "{shared}: {at}"),
                    Err(error) => {
                        assert!(error.to_string().contains("bob"), "{shared}: message {at}, {attack:?}: {error}");
                        noticed += 1;
                    }
                    Ok(_) => assert!(matches!(attack, Attack::Flip(_)), "{shared}: message {at}, {attack:?}"),
                }
            }
        }
        assert!(noticed >= 2 * messages, "{noticed} of {messages}");
    }
}
