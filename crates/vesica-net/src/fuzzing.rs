//! Doors to the decoders of this crate for the fuzzing targets, which stand outside the workspace and see only what is public.
//! Nothing else uses them, and they are no part of what this crate promises.

use crate::Trust;
use crate::frame::{HEAD, Head};
use crate::hello::{Hello, Verdict};
use crate::hitch::Hitch;
use crate::inbound::Inbound;
use crate::line::Pipe;
use crate::lock::lock;
use crate::proxy::{Proxy, Refusal};
use crate::shared::Shared;
use crate::state::{Line, MAX_AHEAD, MESSAGE};
use crate::tls;
use crate::trust::{Guests, Register, Roots};
use crate::wire::Wire;
use crate::{Fingerprint, Identity};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use vesica_session::Channel;
use vesica_types::Party;

/// The window of a line, the smallest that there is: so all bounds are within a fuzzer's reach.
const WINDOW: u32 = *crate::hello::WINDOWS.start();

/// The names of the lines that this side opens.
const NAMES: [&str; 4] = ["control", "base", "unit 0", "unit 1"];

fn name(line: u8) -> &'static str {
    NAMES.get(usize::from(line) % NAMES.len()).copied().unwrap_or_default()
}

/// Two ends of a connection, of which the first is one of this crate's. It has no port, so that millions can be made in a row.
fn connection() -> (TcpStream, UnixStream) {
    let (here, there) = UnixStream::pair().expect("the system has sockets to give");
    (TcpStream::from(OwnedFd::from(here)), there)
}

/// What this side does, or the peer sends, one after the other, on a link whose threads do not run: the caller's thread does
/// their work in the order of the script.
#[derive(Clone, Debug)]
pub enum Step<'a> {
    /// These bytes come.
    Comes(&'a [u8]),
    /// A line is opened here.
    Open(u8),
    /// A message of so many bytes is sent, if the line's credit allows.
    Send(u8, u16),
    /// A message of at most so many bytes is received, if one is there.
    Receive(u8, u16),
    /// A line is dropped.
    Close(u8),
    /// The writer sends what there is to send.
    Write,
    /// This side says goodbye.
    Goodbye,
}

impl<'a> Step<'a> {
    /// The steps that `script` says: each a byte for its kind, and what it needs.
    fn all(mut script: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (kind, rest) = script.split_first()?;
            let (step, rest) = match kind % 8 {
                1 => (Step::Open(*rest.first()?), rest.get(1..)?),
                2 => (Step::Send(*rest.first()?, word(rest.get(1..)?)?), rest.get(3..)?),
                3 => (Step::Receive(*rest.first()?, word(rest.get(1..)?)?), rest.get(3..)?),
                4 => (Step::Close(*rest.first()?), rest.get(1..)?),
                5 => (Step::Write, rest),
                6 => (Step::Goodbye, rest),
                _ => {
                    let (bytes, rest) = rest.get(2..)?.split_at_checked(usize::from(word(rest)?))?;
                    (Step::Comes(bytes), rest)
                }
            };
            script = rest;
            Some(step)
        })
    }

    /// The step as a part of a script.
    pub fn encode(&self, script: &mut Vec<u8>) {
        let mut put = |kind, words: &[u16], line: Option<u8>, bytes: &[u8]| {
            script.push(kind);
            script.extend(line);
            script.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            script.extend_from_slice(bytes);
        };
        match self {
            Step::Comes(bytes) => put(0, &[bytes.len() as u16], None, bytes),
            Step::Open(line) => put(1, &[], Some(*line), &[]),
            Step::Send(line, bytes) => put(2, &[*bytes], Some(*line), &[]),
            Step::Receive(line, limit) => put(3, &[*limit], Some(*line), &[]),
            Step::Close(line) => put(4, &[], Some(*line), &[]),
            Step::Write => put(5, &[], None, &[]),
            Step::Goodbye => put(6, &[], None, &[]),
        }
    }
}

fn word(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// Frames of a peer in any order, among whatever this side does meanwhile.
///
/// # Panics
/// If the peer's bytes take more memory than its window allows, or if this side sends a frame that it would not accept itself.
pub fn frames(script: &[u8]) {
    let (socket, _there) = connection();
    let peer = Party::new(1, "bob");
    let shared = Arc::new(Shared::new(peer, Wire::new(socket), WINDOW, None));
    let mut inbound = Inbound::new(&shared);
    let mut open: BTreeMap<&str, Box<dyn Channel>> = BTreeMap::new();
    for step in Step::all(script) {
        match step {
            Step::Comes(bytes) => match inbound.feed(bytes) {
                Ok(true) => {}
                // The reader ends the link here.
                Ok(false) => return,
                Err(fault) => return shared.accuse(fault),
            },
            Step::Open(line) => {
                // A line that is open, or whose old self the peer has not ended yet, cannot be opened.
                if let Ok(channel) = Pipe::open(&shared, name(line)) {
                    open.insert(name(line), Box::new(channel));
                }
            }
            Step::Send(line, bytes) => {
                let cost = u64::from(bytes) + MESSAGE;
                if let Some(channel) = open.get_mut(name(line))
                    && may(&shared, name(line), |line| line.credit >= cost && !line.end_seen)
                {
                    let _ = channel.send(&vec![7; usize::from(bytes)]);
                }
            }
            Step::Receive(line, limit) => {
                if let Some(channel) = open.get_mut(name(line))
                    && may(&shared, name(line), |line| !line.queue.is_empty())
                {
                    let _ = channel.recv(usize::from(limit));
                }
            }
            Step::Close(line) => drop(open.remove(name(line))),
            Step::Write => drop(write(&shared)),
            Step::Goodbye => lock(&shared.state).closing = true,
        }
        check(&shared);
    }
}

/// Whether the line called `name` is there and lets a call go on without waiting.
fn may(shared: &Shared, name: &str, ready: impl Fn(&Line) -> bool) -> bool {
    let state = lock(&shared.state);
    state.by_name.get(name).and_then(|key| state.lines.get(key)).is_some_and(ready)
}

/// What the writer sends next is whole frames that a peer accepts.
fn write(shared: &Shared) -> Vec<u8> {
    let batch = lock(&shared.state).gather(&shared.here);
    let sent: Vec<u8> = batch.slices().iter().flat_map(|slice| slice.iter().copied()).collect();
    let mut rest = sent.as_slice();
    while let Some((head, body)) = rest.split_first_chunk::<HEAD>() {
        let head = Head::decode(*head).expect("this side sends frames that it would accept");
        rest = body.get(head.len..).expect("this side sends whole frames");
    }
    assert!(rest.is_empty(), "this side sends whole frames");
    sent
}

/// What a peer sent and nobody has taken is within its windows, and so is the number of lines.
fn check(shared: &Shared) {
    let state = lock(&shared.state);
    assert!(state.lines.len() <= NAMES.len() + MAX_AHEAD, "{} lines", state.lines.len());
    let queued = |line: &Line| line.queue.iter().map(|message| message.len() as u64 + MESSAGE).sum::<u64>();
    assert!(
        state.lines.values().all(|line| queued(line) <= shared.full()),
        "more is queued on a line than its window takes"
    );
}

/// Everything that a peer sends before frames: the handshake's records, the hello and the verdict; and what gateways and proxies say before
/// that. The first byte says whether this side listens or dials, whether with TLS, and what stands between.
pub fn greeting(bytes: &[u8]) {
    static ALICE: LazyLock<Identity> = LazyLock::new(|| Identity::generate("alice").expect("there is randomness"));
    let Some((mode, words)) = bytes.split_first() else { return };
    let mode = mode % 7;
    if mode >= 5 {
        let url = if mode == 5 { "http://alice:hunter2@proxy" } else { "socks5://alice:hunter2@proxy" };
        let proxy = Proxy::parse(url, "mine.proxy").expect("it is written as it should be");
        if let Err(Refusal::Later(why) | Refusal::Never(why)) = proxy.ask(&mut Scripted(words), "bob.example", 5300) {
            let fit = why.chars().count() < 1000 && !why.contains(char::is_control) && !why.contains("hunter2");
            assert!(fit, "{why:?}");
        }
        return;
    }
    let (socket, mut there) = connection();
    // What does not fit into the socket's buffer is not sent.
    let _ = there.set_nonblocking(true).and_then(|()| there.write_all(words));
    let _ = there.shutdown(std::net::Shutdown::Write);
    let bob = Party::new(1, "bob");
    let trust = Trust::Pinned(vec![ALICE.fingerprint()]);
    let mut wire = Wire::new(socket);
    let met = match mode {
        0 => wire.accept(None),
        1 => wire.accept(tls::server(&ALICE, Register::new(Guests::new(vec![(bob.clone(), Some(trust))]))).ok()),
        4 => wire.announced().and_then(|_| wire.accept(None)),
        2 => wire.dial(tls::client(&ALICE, (bob.clone(), trust), None).ok()),
        _ => wire.dial(None),
    };
    let ours = Hello { job: [7; 32], window: WINDOW, from: "alice".into(), to: "bob".into() };
    let said = met.and_then(|()| Hello::receive(&mut wire)).and_then(|theirs| {
        assert!(crate::hello::WINDOWS.contains(&theirs.window), "a window of {} bytes", theirs.window);
        theirs.judge(&ours, &[&bob]).map(drop)?;
        Verdict::Welcome.send(&mut wire)?;
        Verdict::receive(&mut wire)
    });
    if let Err(hitch) = said {
        let words = hitch.words();
        assert!(words.chars().count() < 1000 && !words.contains(char::is_control), "{words:?}");
    }
}

/// Inputs of [`greeting`] that an honest peer sends to each kind of this side.
pub fn honest_greetings() -> Vec<Vec<u8>> {
    let hello = Hello { job: [7; 32], window: WINDOW, from: "bob".into(), to: "alice".into() };
    let plain = said(|wire| hello.send(wire).and_then(|()| Verdict::Welcome.send(wire)));
    let refused = said(|wire| hello.send(wire).and_then(|()| Verdict::Never("another job".into()).send(wire)));
    let bob = Identity::generate("bob").expect("there is randomness");
    let guest = (Party::new(0, "alice"), Trust::Pinned(vec![bob.fingerprint()]));
    let tls = said(|wire| wire.dial(tls::client(&bob, guest, None).ok()));
    let line = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 5300\r\n".as_slice();
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\x12\x67\x14\xb4".as_slice();
    let all: [&[&[u8]]; 7] = [
        &[&[0], &plain],
        &[&[3], &refused],
        &[&[1], &tls],
        &[&[4], line, &plain],
        &[&[4], binary, &plain],
        &[&[5], b"HTTP/1.1 200 Connection established\r\nVia: proxy\r\n\r\n"],
        &[&[6], &[5, 2, 1, 0, 5, 0, 0, 3, 5], b"proxy\x00\x50"],
    ];
    all.map(|parts| parts.concat()).into()
}

/// A proxy that says these words, whatever it is told.
struct Scripted<'a>(&'a [u8]);

impl Read for Scripted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Scripted<'_> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What this side says to somebody who says nothing.
fn said(say: impl FnOnce(&mut Wire) -> Result<(), Hitch>) -> Vec<u8> {
    let (socket, mut there) = connection();
    let _ = there.shutdown(std::net::Shutdown::Write);
    let mut wire = Wire::new(socket);
    // Whoever waits for an answer fails.
    let _ = say(&mut wire);
    drop(wire);
    let mut bytes = Vec::new();
    there.read_to_end(&mut bytes).expect("the socket gives what it took");
    bytes
}

/// The frames of an honest peer that opens `line`, sends a message of so many bytes and ends the line.
pub fn honest_frames(line: u8, bytes: usize) -> Vec<u8> {
    let (socket, _there) = connection();
    let shared = Arc::new(Shared::new(Party::new(0, "alice"), Wire::new(socket), WINDOW, None));
    let mut channel = Pipe::open(&shared, name(line)).expect("a fresh link");
    channel.send(&vec![5; bytes]).expect("an empty window");
    drop(channel);
    lock(&shared.state).ping = true;
    write(&shared)
}

/// A chain of certificates in DER as a peer presents it, known by its fingerprint and by an authority whose certificate the
/// fuzzer chooses too. Where it chooses none, the chain is of what stands under signatures, and [`AUTHORITY`] signs each.
pub fn certificates(authority: &[u8], chain: &[&[u8]]) {
    let signed: Vec<Vec<u8>>;
    let (authority, chain) = match authority {
        [] => {
            signed = chain.iter().map(|body| AUTHORITY.sign(body)).collect();
            (AUTHORITY.certificate.as_slice(), signed.iter().map(Vec::as_slice).collect())
        }
        _ => (authority, chain.to_vec()),
    };
    let chain: Vec<CertificateDer<'_>> = chain.into_iter().map(CertificateDer::from).collect();
    let pins = chain.first().map(|leaf| Trust::Pinned(vec![Fingerprint::of(leaf)]));
    let roots = Roots::of(&[CertificateDer::from(authority.to_vec())]).ok();
    let names = roots.map(|roots| Trust::Ca { roots, name: "bob".into() });
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    for trust in pins.into_iter().chain(names) {
        let guests = Guests::new(vec![(Party::new(1, "bob"), Some(trust))]);
        let _ = guests.identify(&chain);
        let _ = guests.admit(&chain, now);
    }
}

/// An authority, which signs whatever it is given: no fuzzer makes a signature, and behind it stands most of what is checked of a
/// chain. Every certificate may have its key, so that one of a chain vouches for the next.
struct Authority {
    key: rcgen::KeyPair,
    certificate: Vec<u8>,
}

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    // A key of Ed25519 in PKCS #8, of a seed that everybody may know.
    let key = [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], &[7; 32]].concat();
    let key = rcgen::KeyPair::try_from(key).expect("a key");
    let certificate = Authority::named("authority").self_signed(&key).expect("a certificate").der().to_vec();
    Authority { key, certificate }
});

impl Authority {
    /// What a certificate of an authority says.
    fn named(name: &str) -> rcgen::CertificateParams {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
    }

    /// The certificate that says `body`.
    fn sign(&self, body: &[u8]) -> Vec<u8> {
        use rcgen::SigningKey;
        let signature = self.key.sign(body).expect("a signature");
        let signature = [&[0x03, 0x41, 0x00], signature.as_slice()].concat();
        let parts = [body, b"\x30\x05\x06\x03\x2b\x65\x70", &signature].concat();
        // The shortest form of the length, which is the only one in DER.
        let length = match parts.len() {
            length @ ..0x80 => vec![length as u8],
            length @ ..0x100 => vec![0x81, length as u8],
            length => vec![0x82, (length >> 8) as u8, length as u8],
        };
        [&[0x30], length.as_slice(), &parts].concat()
    }
}

/// What stands under the signatures of honest chains, for [`certificates`]: one of a certificate, and one with an authority between
/// that may vouch for some names only.
pub fn honest_bodies() -> Vec<Vec<Vec<u8>>> {
    let root = Authority::named("authority");
    let mut between = Authority::named("between");
    between.name_constraints = Some(rcgen::NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("bob".into())],
        excluded_subtrees: vec![rcgen::GeneralSubtree::DnsName("x.example".into())],
    });
    let mut leaf = rcgen::CertificateParams::new(vec!["bob".to_owned(), "a.bob".into()]).expect("names");
    leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let body = |of: &rcgen::CertificateParams, by: &rcgen::CertificateParams| {
        let issuer = rcgen::Issuer::from_params(by, &AUTHORITY.key);
        let whole = of.signed_by(&AUTHORITY.key, &issuer).expect("a certificate");
        // Behind the head of the whole; before an algorithm of 7 bytes and a signature of 67.
        let whole = whole.der();
        whole.get(4..whole.len() - 74).expect("it is longer").to_vec()
    };
    vec![vec![body(&leaf, &root)], vec![body(&leaf, &between), body(&between, &root)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else what is behind signatures is not reached: the honest chains are let in.
    #[test]
    fn what_the_authority_signs_is_believed() {
        let roots = Roots::of(&[CertificateDer::from(AUTHORITY.certificate.clone())]).unwrap();
        let guests = Guests::new(vec![(Party::new(1, "bob"), Some(Trust::Ca { roots, name: "bob".into() }))]);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        for bodies in honest_bodies() {
            let signed: Vec<Vec<u8>> = bodies.iter().map(|body| AUTHORITY.sign(body)).collect();
            let chain: Vec<CertificateDer<'_>> = signed.iter().map(|one| one.as_slice().into()).collect();
            guests.admit(&chain, now).unwrap();
        }
    }
}
