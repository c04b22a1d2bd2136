//! The bytes on the wire are pinned: with fixed randomness each protocol sends the messages whose hashes stand in
//! `vectors/own/`, on every instruction set.

use crate::sides;

use serde_json::{Map, Value, json};
use sides::Side;
use std::path::Path;
use vesica_block::Block;
use vesica_curve::{Blind, Curve25519, FourQ, P256, P256Sec1, Ristretto255, Secp256k1, Sm2};
use vesica_oprf::Oprf;
use vesica_oprf::rfc9497::{self, Suite};
use vesica_ot::Security;
use vesica_psi::circuit::{Groups, GroupsOfS, Product, Products, Total};
use vesica_psi::dp::Hide;
use vesica_psi::oprf::Role;
use vesica_psi::unbalanced;
use vesica_session::{Channel, Lines, Result, SessionRng};
use vesica_testkit::{Message, Recorder, Transcript, digests, many_with, messages, recorded};
use vesica_types::{Digest, KeyDigest, Secret, TagLen};

/// The variable that makes this test write the vectors anew.
const WRITE: &str = "VESICA_WRITE_VECTORS";

/// Alice's keys and Bob's, and what each pads them to; 15 keys are common.
fn keys() -> [(Vec<Digest>, usize); 2] {
    [(digests(0, 40), 45), (digests(25, 75), 54)]
}

/// What a side finds, as it stands in a file of vectors.
trait Told {
    fn told(self) -> String;
}

impl Told for Vec<u32> {
    fn told(self) -> String {
        self.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl Told for Vec<[u8; 16]> {
    fn told(self) -> String {
        self.iter().map(|id| format!("{:032x}", u128::from_be_bytes(*id))).collect::<Vec<_>>().join(" ")
    }
}

impl Told for Option<u64> {
    fn told(self) -> String {
        self.map_or(String::new(), |count| format!("{count} keys"))
    }
}

impl Told for String {
    fn told(self) -> String {
        self
    }
}

impl Told for Option<Vec<u64>> {
    fn told(self) -> String {
        self.map_or(String::new(), Told::told)
    }
}

impl Told for Vec<u64> {
    fn told(self) -> String {
        self.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// A message as it stands in a file of vectors.
fn line(message: &Message) -> String {
    let direction = if message.sent { "sent" } else { "received" };
    format!("{direction} {} {}", message.bytes.len(), blake3::hash(&message.bytes))
}

/// Both sides' messages and results.
fn transcript<T: Told + Send>(
    alice: impl FnOnce(&mut Lines, &mut SessionRng) -> Result<T> + Send,
    bob: impl FnOnce(&mut Lines, &mut SessionRng) -> Result<T> + Send,
) -> Value {
    let side = |found: Result<T>, messages: Vec<Message>| json!({ "messages": messages.iter().map(line).collect::<Vec<_>>(), "found": found.unwrap().told() });
    let (alice, bob) = recorded(alice, bob);
    json!({ "alice": side(alice.0, alice.1), "bob": side(bob.0, bob.1) })
}

/// The transcript of PSI from an OPRF. Alice receives, so that she learns; Bob learns too where `both` do.
fn oprf<O: Oprf<Key: 'static>>(choose: impl sides::Choose<O>, both: bool, tag_bytes: usize) -> Value {
    oprf_of(keys(), choose, both, tag_bytes)
}

/// The same for these keys.
fn oprf_of<O: Oprf<Key: 'static>>(
    [(xs, n), (ys, m)]: [(Vec<Digest>, usize); 2],
    choose: impl sides::Choose<O>,
    both: bool,
    tag_bytes: usize,
) -> Value {
    let side = |role, keys, capacities| {
        let side = Side::new(role, keys, capacities, both);
        Side { tag_len: TagLen::new(tag_bytes).unwrap(), ..side }.run(choose)
    };
    transcript(side(Role::Receiver, xs, (n, m)), side(Role::Sender, ys, (m, n)))
}

/// Enough keys for a vector OLE by trees and a code; fewer are cheaper without. 15 keys are common.
fn many_keys() -> [(Vec<Digest>, usize); 2] {
    [(digests(0, 8000), 8010), (digests(7985, 8100), 120)]
}

fn learners(both: bool) -> &'static str {
    if both { "both learn" } else { "one learns" }
}

/// Holds the transcripts against those of `vectors/own/NAME.json`, or writes that file if it is told to.
fn check(name: &str, transcripts: Map<String, Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../vectors/own/{name}.json"));
    if std::env::var_os(WRITE).is_some() {
        let file = json!({
            "source": "crates/vesica-psi/tests/transcripts.rs",
            "messages": "as each party saw them: direction, bytes, BLAKE3",
            "found": "places in the party's keys",
            "transcripts": transcripts,
        });
        std::fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&file).unwrap())).unwrap();
    }
    let file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let pinned = file["transcripts"].as_object().unwrap();
    let changed: Vec<&String> = transcripts
        .keys()
        .chain(pinned.keys().filter(|case| !transcripts.contains_key(*case)))
        .filter(|case| pinned.get(*case) != transcripts.get(*case))
        .collect();
    assert!(
        changed.is_empty(),
        "{name}: the bytes on the wire changed, in {changed:?}; if that is meant, say `Wire:` in the commit and run \
         `{WRITE}=1 cargo test -p vesica-psi --test all transcripts` to write vectors/own anew"
    );
}

fn ecdh_in<G: Blind>(transcripts: &mut Map<String, Value>) {
    let [(xs, n), (ys, m)] = keys();
    let both = transcript(sides::ecdh::<G>(xs, (n, m)), sides::ecdh::<G>(ys, (m, n)));
    transcripts.insert(format!("{}, {}", G::NAME, learners(true)), both);
    transcripts.insert(format!("{}, {}", G::NAME, learners(false)), oprf(sides::dh::<G>(), false, 10));
}

#[test]
fn circuit_sends_these_messages() {
    let [(xs, n), (ys, m)] = keys();
    let mut cases = Map::new();
    for (name, total, least) in [
        ("count", Total::Count, None),
        ("sum, 10 at least", Total::Sum, Some(10)),
        ("sum, 16 at least", Total::Sum, Some(16)),
        ("shares", Total::Shares, None),
    ] {
        let asks = sides::Asks { total, puts: true, learns: (true, total == Total::Shares), least, noise: None };
        let (xs, ys) = (xs.clone(), ys.clone());
        let case = transcript(sides::circuit::<u64>(xs, (n, m), asks), sides::circuit::<u64>(ys, (m, n), asks.other()));
        cases.insert(name.to_owned(), case);
    }
    let of = |labels| Total::Groups(Groups { most: 5, sums: 1, least: 3, of_a_key: 5, labels, ..sides::GROUPS });
    for (name, learns, least) in [
        ("groups, both learn", (true, true), None),
        ("groups, their owner learns, 10 at least", (true, false), Some(10)),
        ("groups, the other learns", (false, true), None),
    ] {
        let asks = sides::Asks { total: of(learns.1), puts: true, learns, least, noise: None };
        let (xs, ys) = (xs.clone(), ys.clone());
        let case = transcript(sides::circuit::<u64>(xs, (n, m), asks), sides::circuit::<u64>(ys, (m, n), asks.other()));
        cases.insert(name.to_owned(), case);
    }
    let products = |factors: &[(u16, u16)], untold| {
        let all: Vec<Product> = factors.iter().map(|&(of_r, of_s)| Product { of_r, of_s, bits: 12 }).collect();
        Products::new(&all, untold).unwrap()
    };
    let one = products(&[(0, 0)], [1, 1]);
    let many = Groups { most: 64, sums: 1, least: 3, of_a_key: 1, labels: true, ..sides::GROUPS };
    assert!(many.by_trees());
    let asks = sides::Asks { total: Total::Groups(many), puts: true, learns: (false, true), least: None, noise: None };
    let (of_alice, of_bob) = (xs.clone(), ys.clone());
    let case =
        transcript(sides::circuit::<u64>(of_alice, (n, m), asks), sides::circuit::<u64>(of_bob, (m, n), asks.other()));
    cases.insert("groups, by trees".to_owned(), case);
    for (name, groups) in [
        ("groups, values of both", Groups { sums: 3, of_other: 2, most: 5, of_a_key: 5, ..many }),
        ("groups, values of both, by trees", Groups { sums: 2, of_other: 1, ..many }),
        (
            "groups, products",
            Groups { sums: 3, of_other: 2, products: products(&[(0, 0), (0, 1)], [0, 2]), most: 5, ..many },
        ),
        ("groups, a product, of a key in several", Groups { products: one, most: 3, of_a_key: 3, of_other: 1, ..many }),
        ("groups, a product, by trees", Groups { products: one, of_other: 1, most: 128, ..many }),
    ] {
        let (total, learns) = (Total::Groups(groups), (true, true));
        let asks = sides::Asks { total, puts: true, learns, least: None, noise: None };
        let (xs, ys) = (xs.clone(), ys.clone());
        let case = transcript(sides::circuit::<u64>(xs, (n, m), asks), sides::circuit::<u64>(ys, (m, n), asks.other()));
        cases.insert(name.to_owned(), case);
    }
    let of_both = Groups { most: 3, of_a_key: 3, of_s: Some(GroupsOfS { most: 4, labels: true }), ..many };
    let multiplied = Groups { sums: 2, of_other: 2, products: products(&[(0, 0)], [1, 0]), of_a_key: 1, ..of_both };
    let agreed = Groups { of_s: Some(GroupsOfS { most: 4, labels: false }), ..of_both };
    for (name, groups, learns) in [
        ("groups of both", of_both, (true, true)),
        ("groups of both, values and a product", multiplied, (true, true)),
        ("groups of both, of one agreed, the other learns", agreed, (false, true)),
    ] {
        let asks = sides::Asks { total: Total::Groups(groups), puts: true, learns, least: None, noise: None };
        let (xs, ys) = (xs.clone(), ys.clone());
        let case = transcript(sides::circuit::<u64>(xs, (n, m), asks), sides::circuit::<u64>(ys, (m, n), asks.other()));
        cases.insert(name.to_owned(), case);
    }
    // Agreed labels, and noise of both, on three numbers of each group.
    let groups = Groups { sums: 2, of_other: 1, most: 5, of_a_key: 5, labels: false, ..many };
    let noise = Some([&[1; 15][..], &[u64::MAX; 15]]);
    for (name, learns) in
        [("groups, agreed and noisy", (true, true)), ("groups, agreed, the other learns", (false, true))]
    {
        let noise = noise.filter(|_| learns.0);
        let asks = sides::Asks { total: Total::Groups(groups), puts: true, learns, least: None, noise };
        let (xs, ys) = (xs.clone(), ys.clone());
        let case = transcript(sides::circuit::<u64>(xs, (n, m), asks), sides::circuit::<u64>(ys, (m, n), asks.other()));
        cases.insert(name.to_owned(), case);
    }
    let asks = sides::Asks { total: Total::Count, puts: false, learns: (true, true), least: None, noise: None };
    let case = transcript(sides::circuit::<Block>(xs, (n, m), asks), sides::circuit::<Block>(ys, (m, n), asks.other()));
    cases.insert("count, 128 bits, both learn".to_owned(), case);
    check("circuit", cases);
}

#[test]
fn ids() {
    let [(xs, n), (ys, m)] = keys();
    let mut cases = Map::new();
    let case = transcript(
        sides::ids::<u64, _>(xs.clone(), (n, m), sides::paxos),
        sides::ids::<u64, _>(ys.clone(), (m, n), sides::paxos),
    );
    cases.insert("fast, 64 bits".to_owned(), case);
    let case =
        transcript(sides::ids::<Block, _>(xs, (n, m), sides::band), sides::ids::<Block, _>(ys, (m, n), sides::band));
    cases.insert("low-comm, 128 bits".to_owned(), case);
    let [(xs, n), (ys, m)] = many_keys();
    let case =
        transcript(sides::ids::<u64, _>(xs, (n, m), sides::paxos), sides::ids::<u64, _>(ys, (m, n), sides::paxos));
    cases.insert("fast, 64 bits, by trees".to_owned(), case);
    check("ids", cases);
}

#[test]
fn ecdh() {
    let mut transcripts = Map::new();
    ecdh_in::<Curve25519>(&mut transcripts);
    ecdh_in::<Ristretto255>(&mut transcripts);
    ecdh_in::<FourQ>(&mut transcripts);
    ecdh_in::<Sm2>(&mut transcripts);
    ecdh_in::<Secp256k1>(&mut transcripts);
    ecdh_in::<P256>(&mut transcripts);
    check("ecdh", transcripts);
}

#[test]
fn rr22() {
    use Security::{Malicious, SemiHonest};
    let mut transcripts = Map::new();
    for both in [false, true] {
        let learners = learners(both);
        let mut add = |case: &str, transcript| transcripts.insert(format!("{case}, {learners}"), transcript);
        add("fast, 64 bits", oprf(sides::rr22::<u64, _>(SemiHonest, sides::paxos), both, 10));
        add("fast, 128 bits", oprf(sides::rr22::<Block, _>(SemiHonest, sides::paxos), both, 10));
        add("low-comm, 64 bits", oprf(sides::rr22::<u64, _>(SemiHonest, sides::band), both, 10));
        add("low-comm, 128 bits", oprf(sides::rr22::<Block, _>(SemiHonest, sides::band), both, 10));
        // Against a party that deviates only one learns, the field is the large one, and tags are as long as values.
        if !both {
            add("fast, malicious", oprf(sides::rr22::<Block, _>(Malicious, sides::paxos), both, 16));
            add("low-comm, malicious", oprf(sides::rr22::<Block, _>(Malicious, sides::band), both, 16));
            let trees = oprf_of(many_keys(), sides::rr22::<u64, _>(SemiHonest, sides::paxos), both, 10);
            add("fast, 64 bits, by trees", trees);
            let trees = oprf_of(many_keys(), sides::rr22::<Block, _>(Malicious, sides::paxos), both, 16);
            add("fast, malicious, by trees", trees);
        }
    }
    check("rr22", transcripts);
}

#[test]
fn ecdh_oprf() {
    fn add<G: Suite>(transcripts: &mut Map<String, Value>) {
        for both in [false, true] {
            let case = format!("{}, {}", G::NAME, learners(both));
            transcripts.insert(case, oprf(sides::ecdh_oprf::<G>(), both, 10));
        }
    }
    let mut transcripts = Map::new();
    add::<Curve25519>(&mut transcripts);
    add::<Ristretto255>(&mut transcripts);
    add::<FourQ>(&mut transcripts);
    add::<Sm2>(&mut transcripts);
    add::<Secp256k1>(&mut transcripts);
    add::<P256Sec1>(&mut transcripts);
    check("ecdh-oprf", transcripts);
}

#[test]
fn kkrt() {
    let mut transcripts = Map::new();
    for both in [false, true] {
        let told = learners(both);
        transcripts.insert(format!("192 bits, {told}"), oprf(sides::kkrt::<3, 12>(), both, 10));
        transcripts.insert(format!("256 bits, {told}"), oprf(sides::kkrt::<4, 16>(), both, 10));
    }
    check("kkrt", transcripts);
}

#[test]
fn ot() {
    let mut transcripts = Map::new();
    for both in [false, true] {
        let mut add = |case: &str, transcript| transcripts.insert(format!("{case}, {}", learners(both)), transcript);
        add("75 bits", oprf(sides::ot_narrow(), both, 10));
        add("248 bits", oprf(sides::ot_wide(Security::SemiHonest), both, 10));
        if !both {
            add("248 bits, malicious", oprf(sides::ot_wide(Security::Malicious), both, 16));
        }
    }
    check("ot", transcripts);
}

#[test]
fn mini_psi() {
    let mut transcripts = Map::new();
    for (case, stored) in [("polynomial", 1), ("store", sides::STORED)] {
        for (security, tag_bytes) in [("semi-honest", 10), ("malicious", 16)] {
            transcripts.insert(format!("{case}, {security}"), oprf(sides::mini(stored), false, tag_bytes));
        }
    }
    check("mini-psi", transcripts);
}

#[test]
fn bc22() {
    let mut transcripts = Map::new();
    for both in [false, true] {
        let mut add = |case: &str, transcript| transcripts.insert(format!("{case}, {}", learners(both)), transcript);
        add("semi-honest", oprf(sides::bc22(Security::SemiHonest), both, 10));
        if !both {
            add("malicious", oprf(sides::bc22(Security::Malicious), both, 16));
            add("semi-honest, by trees", oprf_of(many_keys(), sides::bc22(Security::SemiHonest), both, 10));
            add("malicious, by trees", oprf_of(many_keys(), sides::bc22(Security::Malicious), both, 16));
        }
    }
    check("bc22", transcripts);
}

#[test]
fn hash() {
    let [(xs, n), (ys, m)] = keys();
    let mut transcripts = Map::new();
    for both in [false, true] {
        let alice = sides::hash(xs.clone(), (n, m), (true, both));
        let bob = sides::hash(ys.clone(), (m, n), (both, true));
        transcripts.insert(learners(both).to_owned(), transcript(alice, bob));
    }
    check("hash", transcripts);
}

fn count_in<G: Blind>(transcripts: &mut Map<String, Value>) {
    let [(xs, _), (ys, _)] = keys();
    let (n, m) = (xs.len(), ys.len());
    for both in [false, true] {
        let alice = sides::count::<G>(xs.clone(), (n, m), (true, both));
        let bob = sides::count::<G>(ys.clone(), (m, n), (both, true));
        transcripts.insert(format!("{}, {}", G::NAME, learners(both)), transcript(alice, bob));
    }
}

#[test]
fn count() {
    let mut transcripts = Map::new();
    count_in::<Curve25519>(&mut transcripts);
    count_in::<Ristretto255>(&mut transcripts);
    count_in::<FourQ>(&mut transcripts);
    count_in::<Sm2>(&mut transcripts);
    count_in::<Secp256k1>(&mut transcripts);
    count_in::<P256>(&mut transcripts);
    check("count", transcripts);
}

fn dp_in<G: Blind>(transcripts: &mut Map<String, Value>) {
    let [(xs, _), (ys, _)] = keys();
    let (n, m) = (xs.len(), ys.len());
    for (case, hide) in [("pool", Hide::Pool(sides::POOL.to_vec())), ("sample", Hide::Sample(3 << 126))] {
        let alice = sides::dp::<G>(xs.clone(), (n, m), false, 1 << 126, hide.clone());
        let bob = sides::dp::<G>(ys.clone(), (m, n), true, 1 << 126, hide);
        transcripts.insert(format!("{}, {case}", G::NAME), transcript(alice, bob));
    }
}

#[test]
fn dp() {
    let mut transcripts = Map::new();
    dp_in::<Curve25519>(&mut transcripts);
    dp_in::<Ristretto255>(&mut transcripts);
    dp_in::<FourQ>(&mut transcripts);
    dp_in::<Sm2>(&mut transcripts);
    dp_in::<Secp256k1>(&mut transcripts);
    dp_in::<P256>(&mut transcripts);
    check("dp", transcripts);
}

/// What each of three or four parties sees go over its pipe to each other one, and what it finds.
fn of_many<T: Told + Send>(parties: u8, side: impl Fn(u8, &mut Lines, &mut SessionRng) -> Result<T> + Sync) -> Value {
    let names = ["alice", "bob", "carol", "dave"];
    let seen: [[Transcript; 4]; 4] = Default::default();
    let found = many_with(
        parties,
        |place, lines, rng| side(place, lines, rng).unwrap(),
        |place, channel| {
            let peer = usize::from(Channel::peer(&channel).place());
            Box::new(Recorder::new(channel, seen[usize::from(place)][peer].clone()))
        },
    );
    let mut all = Map::new();
    for ((name, found), seen) in names.into_iter().zip(found).zip(&seen) {
        let mut party = Map::new();
        party.insert("found".into(), found.told().into());
        let others = names.into_iter().zip(seen).take(parties.into());
        for (peer, seen) in others.filter(|(peer, _)| *peer != name) {
            party.insert(format!("with {peer}"), messages(seen).iter().map(line).collect::<Vec<_>>().into());
        }
        all.insert(name.into(), party.into());
    }
    all.into()
}

fn ecdh3_in<G: Blind>(transcripts: &mut Map<String, Value>) {
    let keys = [digests(0, 30), digests(10, 45), digests(5, 22)];
    for learner in [Some(2), None] {
        let parties = of_many(3, |place, lines, rng| sides::ecdh3::<G>(&keys, learner, place, lines, rng));
        let learners = if learner.is_none() { "all learn" } else { "one learns" };
        transcripts.insert(format!("{}, {learners}", G::NAME), parties);
    }
}

#[test]
fn ecdh3() {
    let mut transcripts = Map::new();
    ecdh3_in::<Curve25519>(&mut transcripts);
    ecdh3_in::<Ristretto255>(&mut transcripts);
    ecdh3_in::<FourQ>(&mut transcripts);
    ecdh3_in::<Sm2>(&mut transcripts);
    ecdh3_in::<Secp256k1>(&mut transcripts);
    ecdh3_in::<P256>(&mut transcripts);
    check("ecdh3", transcripts);
}

#[test]
fn many() {
    let mut transcripts = Map::new();
    let keys = [digests(0, 30), digests(10, 45), digests(5, 42), digests(0, 50)];
    for (parties, pivot, learners) in
        [(3, Some(1), vec![0]), (4, Some(0), vec![2, 3]), (3, None, vec![2]), (4, None, vec![0, 1, 2, 3])]
    {
        let job = sides::Many::new(&keys[..parties], pivot, &learners);
        let way = if pivot.is_some() { "star" } else { "any coalition" };
        let narrow = |place, lines: &mut _, rng: &mut _| job.side::<u64, _>(sides::paxos, place, lines, rng);
        let wide = |place, lines: &mut _, rng: &mut _| job.side::<Block, _>(sides::band, place, lines, rng);
        let case = format!("{way}, {parties} parties, {} learn", learners.len());
        transcripts.insert(format!("{case}, fast"), of_many(parties as u8, narrow));
        transcripts.insert(format!("{case}, low-comm"), of_many(parties as u8, wide));
    }
    check("many", transcripts);
}

#[test]
fn tally() {
    let mut transcripts = Map::new();
    let keys = [digests(0, 30), digests(10, 45), digests(5, 42), digests(0, 50)];
    for (parties, pivot, learners, total, least) in [
        (3, 1, &[0][..], Total::Count, None),
        (3, 0, &[1, 2], Total::Sum, Some(12)),
        (3, 2, &[0, 1], Total::Sum, Some(1000)),
        (4, 3, &[2, 0, 3], Total::Sum, None),
    ] {
        let job = sides::Many::new(&keys[..parties], Some(pivot), learners);
        let side = |place, lines: &mut _, rng: &mut _| job.tally::<u64>((total, least, 2), place, lines, rng);
        let case = format!("{parties} parties, {} learn, {total:?}, least {least:?}", learners.len());
        transcripts.insert(case, of_many(parties as u8, side));
    }
    check("tally", transcripts);
}

fn unbalanced_in<G: Suite>(transcripts: &mut Map<String, Value>, verifiable: bool) {
    let server = rfc9497::server::<G>(verifiable, &Secret::new([7; 32]), b"vesica").unwrap();
    let client = rfc9497::client::<G>(verifiable.then(|| server.public())).unwrap();
    let keys: Vec<KeyDigest> = digests(0, 40).iter().map(|key| KeyDigest(*blake3::hash(&key.0).as_bytes())).collect();
    let alice = |lines: &mut Lines, rng: &mut SessionRng| {
        let mut found = Vec::new();
        unbalanced::ask(&*client, &keys, lines.peer()?, rng, |_, outputs| {
            found.extend(outputs.iter().map(|output| u64::from_le_bytes(*output.0.first_chunk().expect("32 bytes"))));
            Ok(())
        })?;
        Ok(found)
    };
    let bob = |lines: &mut Lines, rng: &mut SessionRng| {
        unbalanced::answer(&*server, keys.len() as u64, lines.peer()?, rng, || ()).map(|()| Vec::<u64>::new())
    };
    let proofs = if verifiable { "with proofs" } else { "without" };
    transcripts.insert(format!("{}, {proofs}", G::NAME), transcript(alice, bob));
}

/// What a client holds at the end is pinned too: a store that was prepared is asked for years.
#[test]
fn unbalanced() {
    let mut transcripts = Map::new();
    for verifiable in [false, true] {
        unbalanced_in::<Ristretto255>(&mut transcripts, verifiable);
        unbalanced_in::<P256Sec1>(&mut transcripts, verifiable);
    }
    unbalanced_in::<Curve25519>(&mut transcripts, false);
    unbalanced_in::<FourQ>(&mut transcripts, false);
    unbalanced_in::<Sm2>(&mut transcripts, false);
    unbalanced_in::<Secp256k1>(&mut transcripts, false);
    check("unbalanced", transcripts);
}
