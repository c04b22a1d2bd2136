//! Totals in shares against a plain join and a plain sum, against hostile peers, and what they do not tell.

use crate::sides;

use sides::{Asks, value};
use vesica_block::Block;
use vesica_oprf::vole::Field;
use vesica_psi::circuit::{self, Total};
use vesica_psi::ideal;
use vesica_session::{Fault, Lines, Result, SessionRng, Shared, Shares, Values};
use vesica_testkit::{Attack, Hostile, Message, Sets, digests, recorded, set_pairs, two, two_with};
use vesica_types::Digest;

const COUNT: Asks = Asks { total: Total::Count, puts: true, learns: (true, false), least: None, noise: None };
const SUM: Asks = Asks { total: Total::Sum, ..COUNT };
const SHARES: Asks = Asks { total: Total::Shares, learns: (true, true), ..COUNT };

/// What both sides find, padded by some keys. Alice asks so.
fn found<B: Field>(xs: &[Digest], ys: &[Digest], asks: Asks) -> [String; 2] {
    let (n, m) = (xs.len() + 2, ys.len() + 3);
    let (a, b) =
        two(sides::circuit::<B>(xs.to_vec(), (n, m), asks), sides::circuit::<B>(ys.to_vec(), (m, n), asks.other()));
    [a.unwrap(), b.unwrap()]
}

/// What a learner is to be told of these sets.
fn total(xs: &[Digest], ys: &[Digest], asks: Asks) -> String {
    let common: Vec<Digest> = ideal::intersection(xs, ys).into_iter().map(|place| xs[place as usize]).collect();
    if asks.least.is_some_and(|least| (common.len() as u64) < least) {
        return "too few".to_owned();
    }
    match asks.total {
        Total::Count => format!("{} keys", common.len()),
        _ => format!("a sum of {}", common.iter().map(value).fold(0, i64::wrapping_add)),
    }
}

#[test]
fn who_learns_is_told_what_a_plain_join_gives() {
    for (i, Sets { name, xs, ys }) in set_pairs().into_iter().enumerate() {
        // Every pair of sets in other ways to learn and to put keys into bins.
        for asks in if i % 4 < 2 { [COUNT] } else { [SUM] } {
            let learns = [(true, true), (true, false), (false, true)][i % 3];
            let asks = Asks { puts: (i / 3 % 2 == 0) == (asks.total == Total::Sum), learns, ..asks };
            let want = total(&xs, &ys, asks);
            let got = if i % 2 == 0 { found::<u64>(&xs, &ys, asks) } else { found::<Block>(&xs, &ys, asks) };
            let told = |learns: bool| if learns { want.clone() } else { String::new() };
            assert_eq!(got, [told(learns.0), told(learns.1)], "{name}");
        }
    }
}

/// One below the least number, as many, and one more; what is below is told to both, and nothing else.
#[test]
fn nothing_is_told_below_the_least_number() {
    let (xs, ys) = (digests(0, 20), digests(13, 40));
    for least in [6, 7, 8, u64::MAX] {
        for (asks, puts) in [(COUNT, true), (SUM, false)] {
            let asks = Asks { least: Some(least), puts, ..asks };
            let want = total(&xs, &ys, asks);
            let other = if least > 7 { "too few".to_owned() } else { String::new() };
            assert_eq!(want == "too few", least > 7);
            assert_eq!(found::<u64>(&xs, &ys, asks), [want, other], "{least}");
        }
    }
}

/// What both add is in what is told and in what is compared; a count stays one that can be.
#[test]
fn noise_is_in_what_is_told() {
    let (xs, ys) = (digests(0, 20), digests(13, 40));
    let minus = |n: u64| n.wrapping_neg();
    for (count, told) in
        [([2, 3], "12 keys"), ([minus(4), 1], "4 keys"), ([minus(9), 1], "0 keys"), ([3000, 1], "1000 keys")]
    {
        let noise = Some(count.map(|n| &*vec![n].leak()));
        assert_eq!(found::<u64>(&xs, &ys, Asks { noise, ..COUNT }), [told.to_owned(), String::new()]);
    }
    let noise = Some([minus(50), 7].map(|n| &*vec![n].leak()));
    let asks = Asks { noise, learns: (true, true), ..SUM };
    let sum = |plain: String| plain.rsplit(' ').next().unwrap().parse::<i64>().unwrap();
    let want = sum(total(&xs, &ys, SUM)) - 43;
    assert_eq!(found::<u64>(&xs, &ys, asks).map(sum), [want; 2]);
    // Seven are common.
    for (count, enough) in [([1, 0], true), ([0, 0], false), ([minus(3), 4], true), ([5, minus(5)], false)] {
        let noise = Some(count.map(|n| &*vec![n].leak()));
        let got = found::<u64>(&xs, &ys, Asks { noise, least: Some(8), ..COUNT });
        assert_eq!(
            got,
            if enough { ["8 keys".to_owned(), String::new()] } else { ["too few".to_owned(), "too few".to_owned()] }
        );
    }
}

/// A side of a job of three units of these keys, and of which unit's shares another attempt's are put in place.
fn units(
    keys: impl Fn(u32) -> Vec<Digest>,
    asks: Asks,
    mixed: Option<u32>,
) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<String> {
    move |lines, rng| {
        let mut attempts = Vec::new();
        for _ in 0..=u32::from(mixed.is_some()) {
            let side = sides::open_circuit::<u64>((30, 30), asks, lines, rng)?;
            let shares: Result<Vec<Shares>> =
                (0..3).map(|id| sides::share(&side, id, keys(id), (30, 30), asks, lines, rng)).collect();
            attempts.push((side, shares?));
        }
        let (side, mut shares) = attempts.pop().expect("there is one");
        // One party took the other attempt's shares of a unit, as after a break.
        if let (Some(id), true) = (mixed, asks.puts) {
            shares[id as usize] = attempts[0].1[id as usize].clone();
        }
        Ok(sides::told(sides::open(&side, asks, &shares, lines, rng)?))
    }
}

fn of_unit(from: u64) -> impl Fn(u32) -> Vec<Digest> {
    move |id| digests(100 * u64::from(id) + from, 100 * u64::from(id) + from + 20)
}

#[test]
fn totals_are_over_all_units() {
    let (a, b) = two(units(of_unit(0), COUNT, None), units(of_unit(15), COUNT.other(), None));
    assert_eq!([a.unwrap(), b.unwrap()], ["15 keys".to_owned(), String::new()]);
}

#[test]
fn shares_of_another_attempt_are_refused() {
    for id in [0, 2] {
        let (a, b) = two(units(of_unit(0), COUNT, Some(id)), units(of_unit(15), COUNT.other(), Some(id)));
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{error}");
        }
    }
    // Both took the same: that is one attempt, and its sum is right.
    let all = |from| units(of_unit(from), COUNT, None);
    let (a, _) = two(all(0), units(of_unit(0), COUNT.other(), None));
    assert_eq!(a.unwrap(), "60 keys");
}

/// What both keep of every bin adds up to what is common, and alone looks random. Without values it has zeros for them, whether or not keys are
/// counted besides.
#[test]
fn shares_add_up_to_what_is_common_bin_by_bin() {
    let (xs, ys) = (digests(0, 900), digests(400, 1000));
    for (least, values) in [(None, true), (Some(500), true), (None, false), (Some(500), false)] {
        let side = |keys: Vec<Digest>, capacities, asks: Asks| {
            move |lines: &mut Lines, rng: &mut SessionRng| {
                let params = circuit::Params { values, ..sides::circuit_params(capacities, asks) };
                let side = circuit::Circuit::<u64>::open(params, lines.peer().unwrap(), rng).unwrap();
                let shares = match values {
                    true => sides::share(&side, 0, keys, capacities, asks, lines, rng),
                    false => side.unit(&sides::unit(keys, capacities, lines), &Values::default(), lines, rng),
                };
                let shares = shares.unwrap();
                assert_eq!(sides::told(side.open(std::slice::from_ref(&shares), [&[], &[]], lines, rng).unwrap()), "");
                shares
            }
        };
        let asks = Asks { least, ..SHARES };
        let (a, b) = two(side(xs.clone(), (910, 620), asks), side(ys.clone(), (620, 910), asks.other()));
        assert_eq!(a.bins.len(), b.bins.len());
        assert!(b.bins.iter().all(|share| share.key.is_none()) && a.bins.len() > 910);
        let mut seen = 0;
        for (mine, theirs) in a.bins.iter().zip(&b.bins) {
            let key = mine.key.map(|place| xs[place as usize]);
            let common = key.filter(|key| ys.binary_search(key).is_ok());
            assert_eq!(mine.common ^ theirs.common, common.is_some());
            let of_key = common.filter(|_| values).map_or(0, |key| value(&key) as u64);
            assert_eq!(mine.value.wrapping_add(theirs.value), of_key);
            assert!(values || (mine.value, theirs.value) == (0, 0));
            seen += usize::from(common.is_some());
        }
        assert_eq!((seen, a.bins.iter().filter(|share| share.key.is_some()).count()), (500, 900));
        for side in [&a.bins, &b.bins] {
            let n = side.len() as f64;
            for bit in (0..64).filter(|_| values) {
                let ones = side.iter().filter(|share| share.value >> bit & 1 == 1).count() as f64;
                assert!((ones - n / 2.0).abs() < 5.0 * n.sqrt() / 2.0, "{bit}: {ones} of {n}");
            }
            let flags = side.iter().filter(|share| share.common).count() as f64;
            assert!((flags - n / 2.0).abs() < 5.0 * n.sqrt() / 2.0, "{flags} of {n}");
        }
    }
}

/// Every message is spoiled in every way. One of another length is the peer's fault. A bit that is flipped may give another total, which no
/// semi-honest protocol can tell.
#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    let (xs, ys) = (digests(0, 40), digests(20, 60));
    for asks in [Asks { least: Some(3), ..SUM }, Asks { puts: false, ..COUNT }] {
        let messages = {
            let (_, (_, messages)) = recorded(
                sides::circuit::<u64>(xs.clone(), (40, 40), asks),
                sides::circuit::<u64>(ys.clone(), (40, 40), asks.other()),
            );
            messages.iter().filter(|message| message.sent).count()
        };
        // The first are of base transfers, whose own tests spoil them.
        for at in 3..messages {
            // One way for each message, and all ways one after the other.
            let all = [Attack::Cut, Attack::Flip(0), Attack::Grow, Attack::Flip(usize::MAX), Attack::Empty];
            let attack = all[(at + usize::from(asks.puts)) % all.len()];
            let (a, _) = two_with(
                sides::circuit::<u64>(xs.clone(), (40, 40), asks),
                sides::circuit::<u64>(ys.clone(), (40, 40), asks.other()),
                |channel| Box::new(Hostile::new(channel, attack, at)),
            );
            match a {
                Err(error) => {
                    assert_eq!(error.fault(), Fault::Peer, "message {at}, {attack:?}: {error}");
                    assert!(error.to_string().contains("bob"), "{error}");
                }
                Ok(_) => assert!(matches!(attack, Attack::Flip(_)), "message {at} of {messages}, {attack:?}"),
            }
        }
    }
}

/// Directions and lengths of a party's messages.
fn shape(messages: &[Message]) -> Vec<(bool, usize)> {
    messages.iter().map(|message| (message.sent, message.bytes.len())).collect()
}

/// Messages that each side receives while its base is opened.
const OF_BASE: usize = 3;

/// What a party receives is a function of its own keys, its result and the public sizes: the lengths are the same whatever is common and however
/// full a unit is, and all that a unit's messages hold looks random. What looks random does not depend on anything.
#[test]
fn what_is_received_is_random_and_as_long_whatever_the_keys() {
    for asks in [SUM, Asks { puts: false, ..COUNT }, SHARES] {
        let (mut shapes, mut hints) = (Vec::new(), 0);
        for (common, keys) in [(0, 500), (1, 1), (500, 500), (0, 0)] {
            let (a, b) = recorded(
                sides::circuit::<u64>(digests(0, 500), (500, 500), asks),
                sides::circuit::<u64>(digests(500 - common, 500 - common + keys), (500, 500), asks.other()),
            );
            if asks.total == Total::Count {
                assert_eq!(a.0.unwrap(), format!("{common} keys"));
            }
            for messages in [&a.1, &b.1] {
                // The first messages are of base transfers, and have no business with keys. Those that are looked at one by one are of
                // both vector OLEs, the hint, the padded products and the numbers. Openings are short: they are looked at together.
                let all = messages.iter().filter(|message| !message.sent).skip(OF_BASE);
                let (long, short): (Vec<&Message>, Vec<&Message>) =
                    all.filter(|message| message.bytes.len() >= 200).partition(|message| message.bytes.len() >= 1024);
                assert!(long.len() >= 4 && short.len() >= 3, "{:?}", shape(messages));
                let openings: Vec<u8> = short.iter().flat_map(|message| message.bytes.iter().copied()).collect();
                for received in long.iter().map(|message| &message.bytes[..]).chain([&openings[..]]) {
                    // A slot of the hint has 57 bits in eight bytes: of the last byte only one bit may be set.
                    let is_hint =
                        received.chunks(8).all(|slot| slot.len() == 8 && slot[7] >> (sides::TARGET - 56) == 0);
                    let whole = if is_hint { 7 } else { 8 };
                    let bytes: Vec<u8> =
                        received.chunks(8).flat_map(|eight| eight.iter().take(whole)).copied().collect();
                    hints += usize::from(is_hint);
                    let expected = bytes.len() as f64 / 256.0;
                    let mut counted = [0f64; 256];
                    bytes.iter().for_each(|&byte| counted[usize::from(byte)] += 1.0);
                    let chi: f64 = counted.iter().map(|c| (c - expected).powi(2) / expected).sum();
                    assert!((150.0..385.0).contains(&chi), "{chi} in a message of {}", received.len());
                }
            }
            shapes.push((shape(&a.1), shape(&b.1)));
        }
        assert!(shapes[0].0.len() > 10 && hints >= 4, "{hints}");
        assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
    }
}
