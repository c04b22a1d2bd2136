//! Asking and answering, against a plain look-up and against hostile peers.

use std::collections::BTreeSet;
use vesica_curve::{Curve25519, FourQ, P256Sec1, Ristretto255, Secp256k1, Sm2};
use vesica_oprf::function::{ClientFunction, Output, ServerFunction};
use vesica_oprf::rfc9497::{self, Suite};
use vesica_psi::unbalanced::{BATCH, answer, ask};
use vesica_session::{Fault, Lines, Misbehaviour, Result, SessionRng};
use vesica_testkit::{Attack, Hostile, Sets, digests, fixed_rng, recorded, set_pairs, two, two_with};
use vesica_types::{Digest, KeyDigest, Secret};

fn wide(keys: &[Digest]) -> Vec<KeyDigest> {
    keys.iter().map(|key| KeyDigest(*blake3::hash(&key.0).as_bytes())).collect()
}

fn functions<G: Suite>(verifiable: bool) -> (Box<dyn ServerFunction>, Box<dyn ClientFunction>) {
    let server = rfc9497::server::<G>(verifiable, &Secret::new([7; 32]), b"vesica").unwrap();
    let public = server.public().to_vec();
    (server, rfc9497::client::<G>(verifiable.then_some(&public[..])).unwrap())
}

fn outputs(
    client: &dyn ClientFunction,
    keys: &[KeyDigest],
    lines: &mut Lines,
    rng: &mut SessionRng,
) -> Result<Vec<Output>> {
    let (mut all, mut asked) = (Vec::new(), Vec::new());
    ask(client, keys, lines.peer()?, rng, |keys, outputs| {
        asked.extend_from_slice(keys);
        all.extend(outputs);
        Ok(())
    })?;
    assert_eq!(asked, keys);
    Ok(all)
}

fn finds_what_is_there<G: Suite>(verifiable: bool) {
    let (server, client) = functions::<G>(verifiable);
    for Sets { name, xs, ys } in set_pairs() {
        let (xs, ys) = (wide(&xs), wide(&ys));
        let mut store = Vec::new();
        server.eval(&ys, &mut store);
        let store: BTreeSet<Output> = store.into_iter().collect();
        let (found, answered) = two(
            |lines, rng| outputs(&*client, &xs, lines, rng),
            |lines, rng| answer(&*server, xs.len() as u64, lines.peer()?, rng, || ()),
        );
        answered.unwrap();
        let found: Vec<bool> = found.unwrap().iter().map(|output| store.contains(output)).collect();
        let want: Vec<bool> = xs.iter().map(|x| ys.contains(x)).collect();
        assert_eq!(found, want, "{} {name}", G::NAME);
    }
}

#[test]
fn a_client_finds_what_a_look_up_does() {
    finds_what_is_there::<Ristretto255>(false);
    finds_what_is_there::<Ristretto255>(true);
    finds_what_is_there::<P256Sec1>(true);
    finds_what_is_there::<Curve25519>(false);
    finds_what_is_there::<FourQ>(false);
    finds_what_is_there::<Sm2>(false);
    finds_what_is_there::<Secp256k1>(false);
}

#[test]
fn many_keys_go_batch_by_batch() {
    let (server, client) = functions::<FourQ>(false);
    let keys = wide(&digests(0, 2 * BATCH as u64 + 3));
    let (got, answered) = two(
        |lines, rng| outputs(&*client, &keys, lines, rng),
        |lines, rng| answer(&*server, keys.len() as u64, lines.peer()?, rng, || ()),
    );
    answered.unwrap();
    let mut want = Vec::new();
    server.eval(&keys, &mut want);
    assert_eq!(got.unwrap(), want);
}

/// A server that deviates in one message: the client names it, or holds outputs that match nothing. With proofs it always names it.
#[test]
fn a_hostile_server_gets_an_error_that_names_it_or_nothing() {
    let keys = wide(&digests(0, 20));
    for verifiable in [false, true] {
        let (server, client) = functions::<Ristretto255>(verifiable);
        let mut right = Vec::new();
        server.eval(&keys, &mut right);
        for message in 0..=usize::from(verifiable) {
            for attack in Attack::ALL {
                let (got, _) = two_with(
                    |lines, rng| outputs(&*client, &keys, lines, rng),
                    |lines, rng| answer(&*server, keys.len() as u64, lines.peer()?, rng, || ()),
                    |channel| Box::new(Hostile::new(channel, attack, message)),
                );
                match got {
                    Err(error) => {
                        assert_eq!(error.fault(), Fault::Peer, "{attack:?}: {error}");
                        assert!(error.to_string().contains("bob"), "{error}");
                    }
                    // A first message that comes twice is one message too many, which nobody reads any more.
                    Ok(got) if attack == Attack::Replay && message == 0 && !verifiable => assert_eq!(got, right),
                    Ok(got) => {
                        assert!(!verifiable, "{attack:?} passed");
                        assert!(got.iter().zip(&right).filter(|(got, right)| got != right).count() == 1, "{attack:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_server_with_another_key_is_named() {
    let keys = wide(&digests(0, 20));
    let (_, client) = functions::<P256Sec1>(true);
    let other = rfc9497::server::<P256Sec1>(true, &Secret::new([8; 32]), b"vesica").unwrap();
    let (got, _) = two(
        |lines, rng| outputs(&*client, &keys, lines, rng),
        |lines, rng| answer(&*other, keys.len() as u64, lines.peer()?, rng, || ()),
    );
    let error = got.unwrap_err();
    assert!(error.fault() == Fault::Peer && error.to_string().contains("proof"), "{error}");
}

#[test]
fn a_hostile_client_gets_an_error_that_names_it_or_an_answer() {
    let keys = wide(&digests(0, BATCH as u64 + 20));
    let (server, client) = functions::<Curve25519>(false);
    for message in [0, 1] {
        for attack in Attack::ALL {
            let (answered, _) = two_with(
                |lines, rng| answer(&*server, keys.len() as u64, lines.peer()?, rng, || ()),
                |lines, rng| outputs(&*client, &keys, lines, rng),
                |channel| Box::new(Hostile::new(channel, attack, message)),
            );
            if let Err(error) = answered {
                assert_eq!(error.fault(), Fault::Peer, "{attack:?}: {error}");
                assert!(error.to_string().contains("bob"), "{error}");
            } else {
                assert!(matches!(attack, Attack::Flip(_)), "{attack:?} of message {message} passed");
            }
        }
    }
}

/// A client that asked leave for some keys and sends more is not answered for more, and one that sends fewer is waited for.
#[test]
fn no_more_keys_are_answered_than_leave_was_given_for() {
    let keys = wide(&digests(0, 20));
    let (server, client) = functions::<Ristretto255>(false);
    let (answered, _) = two(
        |lines, rng| answer(&*server, 19, lines.peer()?, rng, || ()),
        |lines, rng| outputs(&*client, &keys, lines, rng),
    );
    let element = client.element_bytes() as u64;
    let fault = Misbehaviour::TooLong { got: 20 * element, limit: 19 * element };
    match answered {
        Err(vesica_session::Error::Peer { fault: found, .. }) => assert_eq!(found, fault),
        other => panic!("{other:?}"),
    }
}

/// Lengths and order follow from the number of keys. What stands in the messages is new each time, whatever the keys.
#[test]
fn the_server_sees_a_number_and_what_looks_random() {
    let (server, client) = functions::<Ristretto255>(true);
    let seen = |seed: u8, keys: Vec<KeyDigest>| {
        let ((got, _), (answered, seen)) = recorded(
            |lines: &mut Lines, _: &mut SessionRng| {
                // The generator of a test is the same each time, and that of a run never.
                let mut rng = fixed_rng(seed);
                outputs(&*client, &keys, lines, &mut rng)
            },
            |lines: &mut Lines, rng: &mut SessionRng| answer(&*server, 30, lines.peer()?, rng, || ()),
        );
        got.unwrap();
        answered.unwrap();
        seen
    };
    let (some, others) = (seen(1, wide(&digests(0, 30))), seen(2, wide(&digests(5, 35))));
    let shape = |seen: &[vesica_testkit::Message]| seen.iter().map(|m| (m.sent, m.bytes.len())).collect::<Vec<_>>();
    assert_eq!(shape(&some), shape(&others));
    assert_eq!(shape(&some), [(false, 30 * 32), (true, 30 * 32), (true, 64)]);
    // 25 keys are the same, and no element is.
    let elements =
        |seen: &[vesica_testkit::Message]| seen[0].bytes.chunks(32).map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
    assert!(elements(&some).is_disjoint(&elements(&others)));
    assert_eq!(elements(&some).len(), 30);
}
