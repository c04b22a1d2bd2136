//! Groups: multiplication, hashing, blinding, and the messages of base transfers.

use super::Case;
use crate::backend::reveal;
use crate::watch::Watch;
use vesica_curve::{
    Blind, Curve25519, Dst, FourQ, Group, Oblivious, P256, P256Sec1, Points, Ristretto255, Secp256k1, SecretScalar, Sm2,
};
use vesica_oprf::function::ServerFunction;
use vesica_oprf::rfc9497::{self, Suite};
use vesica_testkit::{digests, fixed_rng};
use vesica_types::{Digest, KeyDigest, Secret};

/// Elements of a batch: two of the widest back end's, so that none is left alone.
const MANY: usize = 16;

/// Elements of a batch that is long enough for what only long ones go through.
const LONG: usize = 300;

/// The group whose long batches are multiplied in another way than short ones, so that they are timed and traced too.
const OTHERWISE: &str = FourQ::NAME;

pub fn cases() -> Vec<Case> {
    let mut all =
        vec![Case::new("curve25519/messages", messages), Case::timed("curve25519/from-messages", from_messages)];
    blind::<Curve25519>(&mut all);
    blind::<Ristretto255>(&mut all);
    blind::<FourQ>(&mut all);
    blind::<Secp256k1>(&mut all);
    blind::<Sm2>(&mut all);
    blind::<P256>(&mut all);
    oblivious::<Curve25519>(&mut all);
    oblivious::<Ristretto255>(&mut all);
    oblivious::<FourQ>(&mut all);
    oblivious::<Secp256k1>(&mut all);
    oblivious::<Sm2>(&mut all);
    oblivious::<P256Sec1>(&mut all);
    proofs::<Ristretto255>(&mut all);
    proofs::<P256Sec1>(&mut all);
    all
}

fn blind<G: Blind>(all: &mut Vec<Case>) {
    all.push(Case::timed(format!("{}/multiply", G::NAME), multiply::<G>));
    let long = Case::new(format!("{}/multiply-long", G::NAME), multiply_long::<G>);
    all.push(Case { timed: G::NAME == OTHERWISE, ..long });
    all.push(Case::timed(format!("{}/evaluate", G::NAME), evaluate::<G>));
    all.push(Case::timed(format!("{}/scalar", G::NAME), scalar::<G>));
    all.push(Case::timed(format!("{}/hash", G::NAME), hash::<G>));
    all.push(Case::timed(format!("{}/blind", G::NAME), blinded::<G>));
    all.push(Case::timed(format!("{}/unblind", G::NAME), unblinded::<G>));
}

fn oblivious<G: Suite>(all: &mut Vec<Case>) {
    all.push(Case::timed(format!("{}/hash-bytes", G::NAME), hash_bytes::<G>));
    all.push(Case::new(format!("{}/service", G::NAME), service::<G>));
}

fn dst() -> Dst {
    Dst::new(b"vesica test of secrets")
}

fn encoded(points: &impl Points) -> Vec<u8> {
    let mut wire = Vec::new();
    points.encode(&mut wire);
    wire
}

/// A public scalar.
fn known<G: Group>() -> G::Scalar {
    G::Scalar::from_uniform(&[3; 64])
}

fn multiply<G: Blind>(watch: &mut Watch) {
    multiply_many::<G>(watch, MANY);
}

fn multiply_long<G: Blind>(watch: &mut Watch) {
    multiply_many::<G>(watch, LONG);
}

fn multiply_many<G: Blind>(watch: &mut Watch, many: usize) {
    let k = G::Scalar::from_uniform(&watch.secret());
    let points = G::hash(&dst(), &digests(0, many as u64));
    let wire = watch.measure(|| encoded(&points.mul(&k)));
    watch.result(&wire);
}

fn evaluate<G: Blind>(watch: &mut Watch) {
    let k = G::Scalar::from_uniform(&watch.secret());
    let (mut blinded, mut out) = (Vec::new(), Vec::new());
    G::blind(&dst(), &digests(0, MANY as u64), &mut |bytes| bytes.fill(77), &mut blinded);
    watch.measure(|| G::evaluate(&k, &blinded, &[9; 32], &mut out)).expect("elements");
    watch.result(&out);
}

fn scalar<G: Blind>(watch: &mut Watch) {
    let wide = watch.secret();
    let (public, inverse) = watch.measure(|| {
        let k = G::Scalar::from_uniform(&wide);
        (G::public(&k), k.inverse().words())
    });
    watch.result(&public);
    watch.result(&*inverse);
}

fn hash<G: Blind>(watch: &mut Watch) {
    let inputs: [Digest; MANY] = watch.digests();
    let wire = watch.measure(|| encoded(&G::hash(&dst(), &inputs)));
    watch.result(&wire);
}

fn blinded<G: Blind>(watch: &mut Watch) {
    let (inputs, mut random, mut wire): ([Digest; MANY], _, _) = (watch.digests(), coins(watch), Vec::new());
    watch.measure(|| G::blind(&dst(), &inputs, &mut random, &mut wire));
    watch.result(&wire);
}

fn unblinded<G: Blind>(watch: &mut Watch) {
    let (inputs, mut random, mut wire): ([Digest; MANY], _, _) = (watch.digests(), coins(watch), Vec::new());
    let blinds = G::blind(&dst(), &inputs, &mut random, &mut wire);
    reveal(&wire);
    let (k, mut evaluated, mut out) = (known::<G>(), Vec::new(), Vec::new());
    G::evaluate(&k, &wire, &[9; 32], &mut evaluated).expect("elements");
    let key = G::key(&G::public(&k)).expect("a public key");
    watch.measure(|| G::unblind(&key, blinds, &evaluated, &[8; 32], &mut out)).expect("elements");
    watch.result(&out);
}

/// Secret bytes for whoever asks.
fn coins(watch: &mut Watch) -> impl FnMut(&mut [u8]) + use<> {
    let secrets = watch.bytes(1 << 15);
    let mut at = 0;
    move |out: &mut [u8]| {
        for byte in out {
            *byte = secrets[at % secrets.len()];
            at += 1;
        }
    }
}

fn hash_bytes<G: Oblivious>(watch: &mut Watch) {
    let inputs = watch.bytes(MANY * 32);
    let (wire, number) = watch.measure(|| {
        (encoded(&G::hash_bytes(&dst(), &inputs, 32)), G::encode_number(&G::hash_to_number(&dst(), &[&inputs])))
    });
    watch.result(&wire);
    watch.result(&number);
}

fn proofs<G: Suite>(all: &mut Vec<Case>) {
    all.push(Case::new(format!("{}/prove", G::NAME), prove::<G>));
    all.push(Case::new(format!("{}/verify", G::NAME), verify::<G>));
}

/// Both sides of RFC 9497 without proofs, with the server's scalar, the client's keys and its blinds secret.
fn service<G: Suite>(watch: &mut Watch) {
    let server = rfc9497::server::<G>(false, &Secret::new(watch.secret()), b"vesica").expect("a suite");
    client_of::<G>(watch, &*server);
    let (keys, mut own): ([KeyDigest; MANY], _) = (std::array::from_fn(|_| KeyDigest(watch.secret())), Vec::new());
    server.eval(&keys, &mut own);
    watch.result(&own);
}

/// The server's proof.
fn prove<G: Suite>(watch: &mut Watch) {
    let server = rfc9497::server::<G>(true, &Secret::new(watch.secret()), b"vesica").expect("a suite");
    reveal(server.public());
    let (mut wire, mut answer) = (Vec::new(), Vec::new());
    G::hash_bytes(&dst(), &[7; 32 * MANY], 32).encode(&mut wire);
    server.evaluate(&wire, &[4; 32], &mut answer).expect("elements");
    reveal(&answer);
    let proof = server.prove(&wire, &answer, &mut watch.rng());
    watch.result(&proof);
}

/// The client of a server whose proof it verifies, with its keys and blinds secret.
fn verify<G: Suite>(watch: &mut Watch) {
    client_of::<G>(watch, &*rfc9497::server::<G>(true, &Secret::new([3; 32]), b"vesica").expect("a suite"));
}

fn client_of<G: Suite>(watch: &mut Watch, server: &dyn ServerFunction) {
    let verifiable = server.proof_bytes().is_some();
    reveal(server.public());
    let client = rfc9497::client::<G>(verifiable.then(|| server.public())).expect("its public key");
    let keys: [KeyDigest; MANY] = std::array::from_fn(|_| KeyDigest(watch.secret()));
    let (mut wire, mut answer, mut rng) = (Vec::new(), Vec::new(), watch.rng());
    let blinded = client.blind(&keys, &mut rng, &mut wire);
    reveal(&wire);
    server.evaluate(&wire, &[4; 32], &mut answer).expect("elements");
    reveal(&answer);
    let proof = verifiable.then(|| server.prove(&wire, &answer, &mut fixed_rng(1)));
    let outputs = blinded.finalize(&answer, proof.as_deref(), &[5; 32]).expect("an honest answer");
    watch.result(&outputs);
}

/// The messages of base transfers: what is drawn until it has a message is told by how long it takes, and says nothing of the rest.
fn messages(watch: &mut Watch) {
    let (mut random, mut messages, mut agreed) = (coins(watch), Vec::new(), Vec::new());
    let secrets = Curve25519::messages(MANY, &mut random, &mut messages);
    watch.result(&messages);
    let key = Curve25519::key(&Curve25519::public(&known::<Curve25519>())).expect("a public key");
    Curve25519::agree(&key, &secrets, &mut agreed);
    watch.result(&agreed);
}

fn from_messages(watch: &mut Watch) {
    let messages: [[u8; 32]; MANY] = std::array::from_fn(|_| watch.secret());
    let points = watch.measure(|| encoded(&Curve25519::from_messages(&messages)));
    watch.result(&points);
}
