//! The baseline of salted hashes against the ideal functionality and against hostile peers.

use crate::sides;

use sides::hash as side;
use vesica_psi::ideal;
use vesica_session::{Fault, Lines, Result, SessionRng};
use vesica_testkit::{Attack, Hostile, Sets, digests, set_pairs, two, two_with};
use vesica_types::Digest;

#[test]
fn who_learns_finds_what_the_ideal_functionality_does() {
    for Sets { name, xs, ys } in set_pairs() {
        for (alice, bob) in [(true, true), (true, false), (false, true)] {
            let (n, m) = (xs.len() + 3, ys.len() + 5);
            let (a, b) = two(side(xs.clone(), (n, m), (alice, bob)), side(ys.clone(), (m, n), (bob, alice)));
            let sorted = |found: Result<Vec<u32>>| {
                let mut found = found.unwrap();
                found.sort_unstable();
                found
            };
            assert_eq!(sorted(a), if alice { ideal::intersection(&xs, &ys) } else { vec![] }, "{name}");
            assert_eq!(sorted(b), if bob { ideal::intersection(&ys, &xs) } else { vec![] }, "{name}");
        }
    }
}

#[test]
fn a_list_that_is_none_is_the_peers_fault() {
    let mut noticed = 0;
    for attack in Attack::ALL {
        let (a, _) = two_with(
            side(digests(0, 300), (300, 310), (true, false)),
            side(digests(100, 400), (310, 300), (false, true)),
            |channel| Box::new(Hostile::new(channel, attack, 0)),
        );
        if let Err(error) = a {
            assert_eq!(error.fault(), Fault::Peer, "{attack:?}: {error}");
            assert!(error.to_string().contains("bob"), "{error}");
            noticed += 1;
        }
    }
    assert!(noticed >= 3, "{noticed}");
}

/// What a party gets is a function of the other's keys and the salt: the same whatever its own are, and of one length.
#[test]
fn lists_have_one_length() {
    let length = |keys: Vec<Digest>| {
        let (a, list) = two(side(keys, (50, 60), (false, true)), |lines: &mut Lines, _: &mut SessionRng| {
            lines.peer().unwrap().recv(1 << 20).unwrap().len()
        });
        assert_eq!(a.unwrap(), [0u32; 0]);
        list
    };
    assert_eq!(length(digests(0, 50)), length(vec![]));
}
