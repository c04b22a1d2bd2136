//! The function against RFC 9497, the crate `voprf`, and what curve25519-dalek makes of the RFC's text.

use super::*;
use serde_json::Value;
use vesica_curve::{Group, Residue};
use voprf::{BlindedElement, EvaluationElement, OprfClient, OprfServer, Proof, VoprfClient, VoprfServer};

const COINS: [u8; 32] = [7; 32];
const SEED: [u8; 32] = [0xa3; 32];

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn text(value: &Value) -> Vec<u8> {
    hex(value.as_str().unwrap())
}

/// Values of a batch.
fn batch(value: &Value) -> Vec<Vec<u8>> {
    value.as_str().unwrap().split(',').map(hex).collect()
}

fn scalar<G: Suite>(bytes: &[u8]) -> G::Scalar {
    G::Scalar::new(&G::decode_number(bytes.try_into().unwrap()).unwrap()).unwrap()
}

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

fn keys(from: u64, to: u64) -> Vec<KeyDigest> {
    (from..to).map(|i| KeyDigest(*blake3::hash(&i.to_le_bytes()).as_bytes())).collect()
}

fn asker<G: Suite>(context: Context<G>, public: &[u8]) -> Arc<Asker<G>> {
    Arc::new(Asker { context, public: public.to_vec() })
}

/// Every value of the vectors: key, public key, blinded and evaluated elements, proofs, outputs.
fn follows_the_rfc<G: Suite>(file: &str) {
    let file: Value = serde_json::from_str(file).unwrap();
    let mut proofs = 0;
    for suite in file["suites"].as_array().unwrap() {
        let verifiable = match suite["mode"].as_u64().unwrap() {
            0 => false,
            1 => true,
            _ => continue,
        };
        let context = || Context::<G> { binds_all: false, ..Context::new(verifiable).unwrap() };
        assert_eq!(suite["identifier"], G::IDENTIFIER);
        assert_eq!(context().hash_to_group.as_bytes(), text(&suite["groupDST"]));
        let k = context().derive(&text(&suite["seed"]).try_into().unwrap(), &text(&suite["keyInfo"]));
        assert!(k.words() == scalar::<G>(&text(&suite["skSm"])).words());
        let server = Server::new(context(), k);
        if verifiable {
            assert_eq!(server.public(), text(&suite["pkSm"]));
        }
        for vector in suite["vectors"].as_array().unwrap() {
            let inputs = batch(&vector["Input"]);
            let mut blinded = Vec::new();
            let requests: Vec<Request<G>> = inputs
                .iter()
                .zip(batch(&vector["Blind"]))
                .map(|(input, r)| {
                    let asker = asker(context(), server.public());
                    Request::new(asker, input.clone(), input.len(), &scalar::<G>(&r), &mut blinded)
                })
                .collect();
            assert_eq!(blinded, batch(&vector["BlindedElement"]).concat());
            let mut evaluated = Vec::new();
            server.evaluate(&blinded, &COINS, &mut evaluated).unwrap();
            assert_eq!(evaluated, batch(&vector["EvaluationElement"]).concat());
            if verifiable {
                let r = scalar::<G>(&text(&vector["Proof"]["r"]));
                let proof = dleq::prove(&server.context, &server.scalar, &server.public, &blinded, &evaluated, &r);
                assert_eq!(proof, text(&vector["Proof"]["proof"]));
                let [blinded, answer] = [&blinded, &evaluated].map(|wire| G::decode(wire, &COINS).unwrap());
                let sum = G::SUM.unwrap();
                assert!(dleq::verify(&server.context, sum, server.public(), &blinded, &answer, &evaluated, &proof));
                proofs += 1;
            }
            let outputs = batch(&vector["Output"]);
            for (i, (request, want)) in requests.into_iter().zip(&outputs).enumerate() {
                let mut element = Vec::new();
                let answer = G::decode(&evaluated[i * G::WIRE..][..G::WIRE], &COINS).unwrap();
                answer.mul(&request.inverse).encode(&mut element);
                let got: Vec<_> = Context::<G>::finalize(&request.inputs, request.each, &element).collect();
                assert_eq!(got, std::slice::from_ref(want));
                // A request of one is proved and finished by itself.
                if outputs.len() == 1 {
                    let proof = verifiable.then(|| text(&vector["Proof"]["proof"]));
                    assert_eq!(
                        request.finish(&evaluated, proof.as_deref(), &COINS).unwrap(),
                        std::slice::from_ref(want)
                    );
                }
            }
        }
    }
    assert_eq!(proofs, 3);
}

#[test]
fn ristretto255_follows_the_rfc() {
    follows_the_rfc::<Ristretto255>(include_str!("../../../../vectors/rfc/rfc9497_ristretto255.json"));
}

#[test]
fn p256_follows_the_rfc() {
    follows_the_rfc::<P256Sec1>(include_str!("../../../../vectors/rfc/rfc9497_p256.json"));
}

/// What the key's owner computes, and what who asks gets, on every curve and in every mode.
fn both_sides_agree<G: Suite>() {
    let mut seen = std::collections::BTreeSet::new();
    for verifiable in [false, true] {
        if verifiable && G::SUM.is_none() {
            let refusal = Unusable::NotVerifiable(G::NAME);
            assert_eq!(server::<G>(true, &Secret::new(SEED), b"vesica").err(), Some(refusal.clone()));
            assert_eq!(client::<G>(Some(&[])).err(), Some(refusal.clone()));
            assert!(refusal.to_string().contains(G::NAME));
            continue;
        }
        let server = server::<G>(verifiable, &Secret::new(SEED), b"vesica").unwrap();
        let client = client::<G>(verifiable.then(|| server.public())).unwrap();
        assert_eq!(server.element_bytes(), client.element_bytes());
        for n in [1, 2, 31, 2050] {
            let keys = keys(0, n);
            let mut want = Vec::new();
            server.eval(&keys, &mut want);
            let (mut blinded, mut evaluated) = (Vec::new(), Vec::new());
            let request = client.blind(&keys, &mut rng((n % 251) as u8), &mut blinded);
            server.evaluate(&blinded, &COINS, &mut evaluated).unwrap();
            let proof = server.proof_bytes().map(|bytes| {
                let proof = server.prove(&blinded, &evaluated, &mut rng(2));
                assert_eq!(proof.len(), bytes);
                proof
            });
            let got = request.finalize(&evaluated, proof.as_deref(), &COINS).unwrap();
            assert!(got == want, "{} {n}", G::NAME);
            // Neither elements nor outputs are the same in two requests or for two keys.
            for element in blinded.chunks(G::WIRE) {
                assert!(seen.insert(element.to_vec()));
            }
            let mut again = Vec::new();
            client.blind(&keys, &mut rng(250), &mut again);
            assert!(blinded.chunks(G::WIRE).zip(again.chunks(G::WIRE)).all(|(a, b)| a != b));
            want.sort();
            want.dedup();
            assert_eq!(want.len(), n as usize);
        }
        seen.clear();
    }
}

#[test]
fn both_sides_agree_on_every_curve() {
    both_sides_agree::<Ristretto255>();
    both_sides_agree::<P256Sec1>();
    both_sides_agree::<Curve25519>();
    both_sides_agree::<FourQ>();
    both_sides_agree::<Secp256k1>();
    both_sides_agree::<Sm2>();
}

/// Every function is one of its own: by seed, by what it is for, by curve and by mode.
#[test]
fn no_two_functions_are_the_same() {
    let mut all = Vec::new();
    for (seed, info) in [(SEED, &b"vesica"[..]), (SEED, b"vesica "), ([1; 32], b"vesica")] {
        let seed = Secret::new(seed);
        let functions = [
            server::<Ristretto255>(false, &seed, info),
            server::<Ristretto255>(true, &seed, info),
            server::<P256Sec1>(false, &seed, info),
            server::<P256Sec1>(true, &seed, info),
            server::<Curve25519>(false, &seed, info),
            server::<FourQ>(false, &seed, info),
            server::<Secp256k1>(false, &seed, info),
            server::<Sm2>(false, &seed, info),
        ];
        for function in functions {
            function.unwrap().eval(&keys(0, 1), &mut all);
        }
    }
    let len = all.len();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), len), (24, 24));
}

fn hostile_clients_are_refused<G: Suite>() {
    let server = server::<G>(false, &Secret::new(SEED), b"vesica").unwrap();
    let mut good = Vec::new();
    client::<G>(None).unwrap().blind(&keys(0, 20), &mut rng(1), &mut good);
    let index = |blinded: &[u8]| {
        let mut out = vec![1];
        let bad = server.evaluate(blinded, &COINS, &mut out).unwrap_err();
        assert_eq!(out, [1], "nothing is answered");
        bad.index
    };
    for at in [0, 7, 19] {
        for bytes in [vec![255; G::WIRE], neutral::<G>()] {
            let mut bad = good.clone();
            bad[at * G::WIRE..][..G::WIRE].copy_from_slice(&bytes);
            assert_eq!(index(&bad), at, "{}", G::NAME);
        }
    }
    assert_eq!(index(&good[..good.len() - 1]), 19);
    assert_eq!(index(&[]), 0);
    let many = good.repeat(BATCH / 20 + 1);
    assert_eq!(index(&many), BATCH);
}

/// An encoding that stands for nothing of prime order: a point of order 2 or the neutral element, or what is none at all.
fn neutral<G: Suite>() -> Vec<u8> {
    match G::NAME {
        // y = -1.
        "fourq" => [[254, 255], [0, 0]].map(|[low, high]| {
            let mut half = [high; 16];
            (half[0], half[15]) = (low, high & 127);
            half
        }),
        // u = 0 and s = 0; on curves of prime order x = p is no coordinate.
        "curve25519" | "ristretto255" => [[0; 16]; 2],
        _ => [[255; 16]; 2],
    }
    .as_flattened()
    .iter()
    .copied()
    .chain([0])
    .take(G::WIRE)
    .collect()
}

#[test]
fn hostile_clients_are_refused_on_every_curve() {
    hostile_clients_are_refused::<Ristretto255>();
    hostile_clients_are_refused::<P256Sec1>();
    hostile_clients_are_refused::<Curve25519>();
    hostile_clients_are_refused::<FourQ>();
    hostile_clients_are_refused::<Secp256k1>();
    hostile_clients_are_refused::<Sm2>();
}

fn hostile_servers_are_refused<G: Suite>() {
    const N: usize = 20;
    for verifiable in [false, true] {
        if verifiable && G::SUM.is_none() {
            continue;
        }
        let [honest, other] =
            [SEED, [1; 32]].map(|seed| server::<G>(verifiable, &Secret::new(seed), b"vesica").unwrap());
        let client = client::<G>(verifiable.then(|| honest.public())).unwrap();
        let mut blinded = Vec::new();
        client.blind(&keys(0, N as u64), &mut rng(1), &mut blinded);
        let answer = |of: &dyn ServerFunction, blinded: &[u8]| {
            let mut evaluated = Vec::new();
            of.evaluate(blinded, &COINS, &mut evaluated).unwrap();
            let proof = verifiable.then(|| of.prove(blinded, &evaluated, &mut rng(2)));
            (evaluated, proof)
        };
        let refusal = |evaluated: &[u8], proof: Option<&[u8]>| {
            let request = client.blind(&keys(0, N as u64), &mut rng(1), &mut Vec::new());
            request.finalize(evaluated, proof, &COINS).err()
        };
        let (good, proof) = answer(&*honest, &blinded);
        let proof = proof.as_deref();
        assert_eq!(refusal(&good, proof), None);

        // Elements.
        for (bytes, at) in [(good.len() - 1, N - 1), (good.len() - G::WIRE, N - 1), (0, 0)] {
            let Some(BadAnswer::Element(bad)) = refusal(&good[..bytes], proof) else { panic!("{}", G::NAME) };
            assert_eq!(bad.index, at);
        }
        let more = [&good[..], &good[..G::WIRE]].concat();
        assert!(matches!(refusal(&more, proof), Some(BadAnswer::Element(bad)) if bad.index == N));
        for at in [0, 13, N - 1] {
            for bytes in [vec![255; G::WIRE], neutral::<G>()] {
                let mut bad = good.clone();
                bad[at * G::WIRE..][..G::WIRE].copy_from_slice(&bytes);
                assert!(matches!(refusal(&bad, proof), Some(BadAnswer::Element(bad)) if bad.index == at));
            }
        }
        // Proofs.
        if !verifiable {
            assert_eq!(refusal(&good, Some(&[0; 64])), Some(BadAnswer::Presence));
            continue;
        }
        assert_eq!(refusal(&good, None), Some(BadAnswer::Presence));
        let proof = proof.unwrap();
        for byte in 0..proof.len() {
            let mut bad = proof.to_vec();
            bad[byte] ^= 1;
            assert_eq!(refusal(&good, Some(&bad)), Some(BadAnswer::Proof), "{} {byte}", G::NAME);
        }
        for bad in [&[][..], &proof[..63], &[proof, &[0]].concat(), &[0; 64], &[255; 64]] {
            assert_eq!(refusal(&good, Some(bad)), Some(BadAnswer::Proof));
        }
        // Another key with a proof of its own; the proof of another request; answers swapped, or by another key, in part.
        let (wrong, of_wrong) = answer(&*other, &blinded);
        assert_eq!(refusal(&wrong, of_wrong.as_deref()), Some(BadAnswer::Proof));
        let mut elsewhere = Vec::new();
        client.blind(&keys(0, N as u64), &mut rng(9), &mut elsewhere);
        let (replayed, of_replayed) = answer(&*honest, &elsewhere);
        assert_eq!(refusal(&replayed, of_replayed.as_deref()), Some(BadAnswer::Proof));
        let mut swapped = good.clone();
        swapped[..2 * G::WIRE].rotate_left(G::WIRE);
        let mut mixed = good.clone();
        mixed[5 * G::WIRE..][..G::WIRE].copy_from_slice(&wrong[5 * G::WIRE..][..G::WIRE]);
        for bad in [&swapped, &mixed] {
            assert_eq!(refusal(bad, Some(proof)), Some(BadAnswer::Proof));
            // Nor does the server get a proof for them by its own code.
            let made = honest.prove(&blinded, bad, &mut rng(2));
            assert_eq!(refusal(bad, Some(&made)), Some(BadAnswer::Proof));
        }
    }
    if G::SUM.is_some() {
        let public = server::<G>(true, &Secret::new(SEED), b"vesica").unwrap().public().to_vec();
        for bad in [&[][..], &public[1..], &[&public[..], &public].concat(), &vec![255; G::WIRE], &neutral::<G>()] {
            assert!(matches!(client::<G>(Some(bad)).err(), Some(Unusable::PublicKey(_))), "{}", G::NAME);
        }
    }
}

#[test]
fn hostile_servers_are_refused_on_every_curve() {
    hostile_servers_are_refused::<Ristretto255>();
    hostile_servers_are_refused::<P256Sec1>();
    hostile_servers_are_refused::<Curve25519>();
    hostile_servers_are_refused::<FourQ>();
    hostile_servers_are_refused::<Secp256k1>();
    hostile_servers_are_refused::<Sm2>();
}

/// A weight must not be known before the last element is chosen: see `dleq`.
#[test]
fn every_weight_hashes_every_element() {
    let of = |binds_all: bool, last: u8| -> Vec<Residue> {
        let context = Context::<Ristretto255> { binds_all, ..Context::new(true).unwrap() };
        dleq::weights(&context, &[1; 32], &[2; 64], &[[3; 32], [last; 32]].concat())
    };
    let [a, b] = [4, 5].map(|last| of(true, last));
    assert!(a[0] != b[0] && a[1] != b[1]);
    // As the RFC has it.
    let [a, b] = [4, 5].map(|last| of(false, last));
    assert!(a[0] == b[0] && a[1] != b[1]);
}

// ---- Oracles

/// The random bytes that `voprf` asks for.
struct Bytes(blake3::OutputReader);

impl voprf_rand::RngCore for Bytes {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }
    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), voprf_rand::Error> {
        self.0.fill(out);
        Ok(())
    }
}

impl voprf_rand::CryptoRng for Bytes {}

fn bytes() -> Bytes {
    Bytes(blake3::Hasher::new().update(b"voprf").finalize_xof())
}

/// The crate `voprf` on one side and ours on the other, both ways round, in both modes.
macro_rules! agrees_with_voprf {
    ($test:ident, $group:ty, $suite:ty) => {
        #[test]
        fn $test() {
            type G = $group;
            type S = $suite;
            let keys = keys(0, 5);
            let seed = Secret::new(SEED);
            // Without proofs: its server and our client, then the other way round.
            let theirs = OprfServer::<S>::new_from_seed(&SEED, b"vesica").unwrap();
            let ours = server::<G>(false, &seed, b"vesica").unwrap();
            let mut want = Vec::new();
            ours.eval(&keys, &mut want);
            let ours_asks = client::<G>(None).unwrap();
            let mut blinded = Vec::new();
            let request = ours_asks.blind(&keys, &mut rng(4), &mut blinded);
            let evaluated: Vec<u8> = blinded
                .chunks(G::WIRE)
                .flat_map(|element| {
                    theirs.blind_evaluate(&BlindedElement::deserialize(element).unwrap()).serialize().to_vec()
                })
                .collect();
            assert_eq!(request.finalize(&evaluated, None, &COINS).unwrap(), want);
            for (key, want) in keys.iter().zip(&want) {
                assert_eq!(theirs.evaluate(&key.0).unwrap()[..32], want.0);
                let asked = OprfClient::<S>::blind(&key.0, &mut bytes()).unwrap();
                let mut evaluated = Vec::new();
                ours.evaluate(&asked.message.serialize(), &COINS, &mut evaluated).unwrap();
                let answer = EvaluationElement::deserialize(&evaluated).unwrap();
                assert_eq!(asked.state.finalize(&key.0, &answer).unwrap()[..32], want.0);
            }
            // With proofs by the RFC's weights.
            let theirs = VoprfServer::<S>::new_from_seed(&SEED, b"vesica").unwrap();
            let context = || Context::<G> { binds_all: false, ..Context::new(true).unwrap() };
            let ours = Server::new(context(), context().derive(&SEED, b"vesica"));
            let public = <<S as voprf::CipherSuite>::Group as voprf::Group>::serialize_elem(theirs.get_public_key());
            assert_eq!(public[..], *ours.public());
            let mut want = Vec::new();
            ours.eval(&keys, &mut want);
            let ours_asks = Client { inner: asker(context(), ours.public()) };
            let mut blinded = Vec::new();
            let request = ours_asks.blind(&keys, &mut rng(4), &mut blinded);
            let elements: Vec<_> =
                blinded.chunks(G::WIRE).map(|element| BlindedElement::<S>::deserialize(element).unwrap()).collect();
            let result = theirs.batch_blind_evaluate(&mut bytes(), &elements).unwrap();
            let evaluated: Vec<u8> = result.messages.iter().flat_map(|element| element.serialize().to_vec()).collect();
            let got = request.finalize(&evaluated, Some(&result.proof.serialize()), &COINS).unwrap();
            assert_eq!(got, want);
            let asked: Vec<_> = keys.iter().map(|key| VoprfClient::<S>::blind(&key.0, &mut bytes()).unwrap()).collect();
            let blinded: Vec<u8> = asked.iter().flat_map(|one| one.message.serialize().to_vec()).collect();
            let mut evaluated = Vec::new();
            ours.evaluate(&blinded, &COINS, &mut evaluated).unwrap();
            let proof = Proof::deserialize(&ours.prove(&blinded, &evaluated, &mut rng(5))).unwrap();
            let states: Vec<_> = asked.into_iter().map(|one| one.state).collect();
            let messages: Vec<_> =
                evaluated.chunks(G::WIRE).map(|element| EvaluationElement::deserialize(element).unwrap()).collect();
            let inputs: Vec<&[u8]> = keys.iter().map(|key| &key.0[..]).collect();
            let got =
                VoprfClient::batch_finalize(&inputs, &states, &messages, &proof, theirs.get_public_key()).unwrap();
            for (got, want) in got.zip(&want) {
                assert_eq!(got.unwrap()[..32], want.0);
            }
        }
    };
}

agrees_with_voprf!(ristretto255_agrees_with_voprf, Ristretto255, voprf::Ristretto255);
agrees_with_voprf!(p256_agrees_with_voprf, P256Sec1, voprf_p256::NistP256);

/// GenerateProof's statement, checked in curve25519-dalek by the text of section 2.2, with our weights.
#[test]
fn a_proof_holds_in_curve25519_dalek() {
    use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
    use curve25519_dalek::{Scalar, constants::RISTRETTO_BASEPOINT_POINT};
    let function = server::<Ristretto255>(true, &Secret::new(SEED), b"vesica").unwrap();
    let context = Context::<Ristretto255>::new(true).unwrap();
    let mut blinded = Vec::new();
    client::<Ristretto255>(Some(function.public())).unwrap().blind(&keys(0, 40), &mut rng(1), &mut blinded);
    let mut evaluated = Vec::new();
    function.evaluate(&blinded, &COINS, &mut evaluated).unwrap();
    let proof = function.prove(&blinded, &evaluated, &mut rng(2));

    let point = |bytes: &[u8]| CompressedRistretto(bytes.try_into().unwrap()).decompress().unwrap();
    let number = |bytes: &[u8]| Scalar::from_canonical_bytes(bytes.try_into().unwrap()).unwrap();
    let weights = dleq::weights(&context, function.public(), &blinded, &evaluated);
    let sum = |wire: &[u8]| -> RistrettoPoint {
        let terms = wire.chunks(32).zip(&weights);
        terms.map(|(element, weight)| number(&Ristretto255::encode_number(weight)) * point(element)).sum()
    };
    let (m, z) = (sum(&blinded), sum(&evaluated));
    let (c, s) = (number(&proof[..32]), number(&proof[32..]));
    let t2 = s * RISTRETTO_BASEPOINT_POINT + c * point(function.public());
    let t3 = s * m + c * z;
    let [m, z, t2, t3] = [m, z, t2, t3].map(|point| point.compress().to_bytes());
    let challenge = dleq::challenge(&context, function.public(), &m, &z, &t2, &t3);
    assert_eq!(number(&Ristretto255::encode_number(&challenge)), c);
}
