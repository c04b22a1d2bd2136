//! ECDH-PSI against the ideal functionality and against hostile peers.

use crate::sides;

use vesica_curve::{Curve25519, Dst, FourQ, Group, P256, Points, Ristretto255, Secp256k1, SecretScalar, Sm2};
use vesica_psi::ideal;
use vesica_session::{Fault, Lines, Result, SessionRng};
use vesica_testkit::{Attack, Hostile, Sets, digests, set_pairs, two, two_with};
use vesica_types::Digest;

fn keys_at(keys: &[Digest], places: &[u32]) -> Vec<Digest> {
    places.iter().map(|&p| keys[p as usize]).collect()
}

#[test]
fn both_learn_what_the_ideal_functionality_says_in_one_order() {
    agrees_with_the_ideal_functionality::<Curve25519>();
    agrees_with_the_ideal_functionality::<Ristretto255>();
    agrees_with_the_ideal_functionality::<FourQ>();
    agrees_with_the_ideal_functionality::<Sm2>();
    agrees_with_the_ideal_functionality::<Secp256k1>();
    agrees_with_the_ideal_functionality::<P256>();
}

fn agrees_with_the_ideal_functionality<G: Group>() {
    for Sets { name, xs, ys } in set_pairs() {
        for pad in [0, 3] {
            let (n, m) = (xs.len() + pad, ys.len() + 2 * pad);
            let (a, b) = two(sides::ecdh::<G>(xs.clone(), (n, m)), sides::ecdh::<G>(ys.clone(), (m, n)));
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!(keys_at(&xs, &a), keys_at(&ys, &b), "{}: {name}: the two outputs line up", G::NAME);
            let mut sorted = a;
            sorted.sort_unstable();
            assert_eq!(sorted, ideal::intersection(&xs, &ys), "{}: {name}", G::NAME);
        }
    }
}

/// Every message is spoiled in every way. What can be noticed is the peer's fault. A flipped bit of a point that stays on the curve
/// only changes which keys seem common, which no semi-honest protocol can tell.
#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    let mut noticed = 0;
    for at in 0..3 {
        for attack in Attack::ALL {
            let (a, _) = two_with(
                sides::ecdh::<Curve25519>(digests(0, 20), (20, 21)),
                sides::ecdh::<Curve25519>(digests(10, 31), (21, 20)),
                |channel| Box::new(Hostile::new(channel, attack, at)),
            );
            match a {
                Err(error) => {
                    assert_eq!(error.fault(), Fault::Peer, "message {at}, {attack:?}: {error}");
                    assert!(error.to_string().contains("bob"), "{error}");
                    noticed += 1;
                }
                Ok(_) => assert!(at == 0 && matches!(attack, Attack::Flip(_)), "{at} {attack:?}"),
            }
        }
    }
    assert!(noticed >= 18, "{noticed}");
}

/// Four good elements in ascending order.
fn good_list() -> Vec<u8> {
    let scalar = <Curve25519 as Group>::Scalar::from_uniform(&[5; 64]);
    let mut wire = Vec::new();
    Curve25519::hash(&Dst::new(b"test"), &digests(0, 4)).mul(&scalar).encode(&mut wire);
    let (elements, _) = wire.as_chunks_mut::<32>();
    elements.sort_unstable();
    wire
}

#[test]
fn elements_that_are_not_of_the_group_are_refused_by_index() {
    let spoiled = |spoil: fn(&mut [u8])| {
        let mut wire = good_list();
        spoil(&mut wire);
        wire
    };
    let cases = [
        (spoiled(|wire| wire[..32].fill(0)), "element 0"),
        (spoiled(|wire| wire[96..].fill(0xff)), "element 3"),
        (spoiled(|wire| wire.copy_within(32..64, 64)), "element 2 of a list is out of order"),
    ];
    for (wire, says) in cases {
        let (a, _) =
            two(sides::ecdh::<Curve25519>(digests(0, 4), (4, 4)), move |lines: &mut Lines, _: &mut SessionRng| {
                let ch = lines.peer().unwrap();
                ch.send(&wire).unwrap();
                // Alice's list, and then the end of her side.
                ch.recv(1 << 20).unwrap();
                ch.recv(1 << 20).unwrap_err();
            });
        let error = a.unwrap_err();
        assert_eq!(error.fault(), Fault::Peer);
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// A peer that sends back whatever it gets would hold every key in common, if tags could be seen before one's own are fixed.
#[test]
fn a_peer_that_sends_back_what_it_gets_is_refused() {
    let (a, _) = two(sides::ecdh::<Curve25519>(digests(0, 20), (20, 20)), |lines: &mut Lines, _: &mut SessionRng| {
        let ch = lines.peer().unwrap();
        while let Ok(message) = ch.recv(1 << 20) {
            ch.send(&message).unwrap();
        }
    });
    is_not_what_it_committed_to(a);
}

/// The same peer with a commitment of its own, to other tags.
#[test]
fn tags_other_than_those_committed_to_are_refused() {
    let (a, _) = two(sides::ecdh::<Curve25519>(digests(0, 20), (20, 20)), |lines: &mut Lines, _: &mut SessionRng| {
        let ch = lines.peer().unwrap();
        let u = ch.recv(1 << 20).unwrap();
        ch.send(&u).unwrap();
        ch.swap_exact(&[7; 32], 32).unwrap();
        let opened = ch.recv(1 << 20).unwrap();
        ch.send(&opened).unwrap();
    });
    is_not_what_it_committed_to(a);
}

fn is_not_what_it_committed_to(found: Result<Vec<u32>>) {
    let error = found.unwrap_err();
    assert_eq!(error.fault(), Fault::Peer);
    assert!(error.to_string().contains("bob") && error.to_string().contains("committed"), "{error}");
}

/// RFC 9380's map lands on the curve, never on its twist, and masking keeps it there: so no value tells anything by
/// which of the two it lies on. (A hash used directly as u-coordinate lies on the twist every other time.)
#[test]
fn every_value_sent_lies_on_the_curve() {
    let (_, sent) =
        two(sides::ecdh::<Curve25519>(digests(0, 500), (510, 0)), |lines: &mut Lines, _: &mut SessionRng| {
            let ch = lines.peer().unwrap();
            ch.send(&[]).unwrap();
            let u = ch.recv(510 * 32).unwrap();
            let _ = ch.send(&[0; 510 * 10]);
            u
        });
    assert_eq!(sent.len(), 510 * 32);
    for u in sent.chunks(32) {
        let u = curve25519_dalek::MontgomeryPoint(u.try_into().unwrap());
        assert!(u.to_edwards(0).is_some(), "a value on the twist");
    }
}

/// A tag of the peer's stands for one key. Bob copies the tag of a common key to every place of his list.
#[test]
fn a_tag_that_is_repeated_makes_one_key_match() {
    let (a, _) = two(sides::ecdh::<Curve25519>(digests(0, 20), (20, 20)), |lines: &mut Lines, _: &mut SessionRng| {
        let ch = lines.peer().unwrap();
        let b = <Curve25519 as Group>::Scalar::from_uniform(&[5; 64]);
        let mut v = Vec::new();
        Curve25519::hash(&Dst::new(b"vesica-v1-ecdh"), &digests(0, 20)).mul(&b).encode(&mut v);
        v.as_chunks_mut::<32>().0.sort_unstable();
        let u = ch.swap_exact(&v, 20 * 32).unwrap();
        let mut w = Vec::new();
        Curve25519::decode(&u, &[1; 32]).unwrap().mul(&b).encode(&mut w);
        let params = sides::ecdh_params(1);
        let unit = 0u32.to_le_bytes();
        let tags = blake3::keyed_hash(&blake3::derive_key("vesica 2026 ecdh tag", &params.session), &unit);
        let tag = blake3::keyed_hash(tags.as_bytes(), &w[..32]);
        let opened = [&[9; 32][..], &tag.as_bytes()[..10].repeat(20)].concat();
        let key = blake3::derive_key("vesica 2026 ecdh commitment", &params.session);
        let mut commitment = blake3::Hasher::new_keyed(&key);
        commitment.update(&unit).update(&[1]).update(&opened);
        ch.swap_exact(commitment.finalize().as_bytes(), 32).unwrap();
        ch.swap_exact(&opened, 32 + 200).unwrap();
    });
    assert_eq!(a.unwrap().len(), 1);
}
