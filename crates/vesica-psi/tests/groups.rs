//! Totals by group against a plain join that is grouped, against hostile peers, and what they do not tell.

use crate::sides;

use sides::{Asks, GROUPS};
use vesica_block::Block;
use vesica_oprf::vole::Field;
use vesica_ot::softspoken::{FOLD, Receiver, Sender};
use vesica_ot::{Security, cot};
use vesica_psi::circuit::{Groups, GroupsOfS, Product, Products, Total};
use vesica_psi::ideal;
use vesica_session::{Error, Fault, Found, Lines, Result, SessionRng, Shared, Shares, Values};
use vesica_testkit::{Attack, Hostile, Message, Sets, digests, recorded, set_pairs, two, two_with};
use vesica_types::{Digest, UnitId};

/// Both learn, and the first one has the groups.
const BOTH: Asks = Asks { total: Total::Groups(GROUPS), puts: true, learns: (true, true), least: None, noise: None };

/// The same with other groups.
fn asks(groups: Groups, learns: (bool, bool)) -> Asks {
    let of_s = groups.of_s.map(|of_s| GroupsOfS { labels: learns.0, ..of_s });
    Asks { total: Total::Groups(Groups { labels: learns.1, of_s, ..groups }), learns, ..BOTH }
}

/// What both sides find, padded by some keys. Alice has the groups.
fn found<B: Field>(xs: &[Digest], ys: &[Digest], asks: Asks) -> [String; 2] {
    let (n, m) = (xs.len() + 2, ys.len() + 3);
    let (a, b) =
        two(sides::circuit::<B>(xs.to_vec(), (n, m), asks), sides::circuit::<B>(ys.to_vec(), (m, n), asks.other()));
    [a.unwrap(), b.unwrap()]
}

/// What a learner is to be told of these sets, whose groups are `xs`': a row for each key and group of it, joined, grouped, and without the
/// groups that have too few.
fn grouped(xs: &[Digest], ys: &[Digest], groups: Groups) -> String {
    let all = groups_of(xs, ys, groups).into_iter().enumerate();
    said(groups, all.filter(|(_, numbers)| numbers[0] as u64 >= groups.least))
}

/// The number of common keys and the sums of every group; of groups of both those with `ys`' first group come first.
fn groups_of(xs: &[Digest], ys: &[Digest], groups: Groups) -> Vec<Vec<i64>> {
    let mut all = vec![vec![0; groups.sums as usize + 1]; groups.cells() as usize];
    for place in ideal::intersection(xs, ys) {
        let key = &xs[place as usize];
        let of_ys = if groups.of_s.is_some() { sides::groups_of_s(key, groups) } else { vec![0] };
        for (group, numbers) in sides::groups(key, groups) {
            let numbers: Vec<i64> = [1].into_iter().chain(sides::added(key, &numbers, groups)).collect();
            for of_ys in &of_ys {
                all[(of_ys * groups.most + group) as usize]
                    .iter_mut()
                    .zip(&numbers)
                    .for_each(|(sum, number): (&mut i64, _)| *sum = sum.wrapping_add(*number));
            }
        }
    }
    all
}

/// Groups in the words of a learner: the number of each, and what it is called by each party that has groups.
fn said(of: Groups, groups: impl Iterator<Item = (usize, Vec<i64>)>) -> String {
    let called = |group: usize| match (of.of_s, of.most as usize) {
        (None, _) => format!("({group})"),
        (Some(_), most) => format!("({}) ({})", group % most, group / most),
    };
    let one = |(group, numbers): (usize, Vec<i64>)| {
        format!("{group} {}: {} keys, {:?}", called(group), numbers[0], &numbers[1..])
    };
    groups.map(one).collect::<Vec<_>>().join("; ")
}

#[test]
fn who_learns_is_told_what_a_plain_grouped_join_gives() {
    let (mut told_some, mut left_out) = (false, false);
    for (i, Sets { name, xs, ys }) in set_pairs().into_iter().enumerate() {
        for (most, sums, least) in [(1, 1, 1), (6, 2, 3), (36, 0, 2), (9, 3, 5)] {
            let groups = Groups { most, sums, least, of_a_key: most, labels: true, ..GROUPS };
            let learns = [(true, true), (true, false), (false, true)][(i + sums as usize) % 3];
            let want = grouped(&xs, &ys, groups);
            told_some |= !want.is_empty();
            left_out |= want != grouped(&xs, &ys, Groups { least: 1, ..groups });
            let of = asks(groups, learns);
            let got = if i % 2 == 0 { found::<u64>(&xs, &ys, of) } else { found::<Block>(&xs, &ys, of) };
            let told = |learns: bool| if learns { want.clone() } else { String::new() };
            assert_eq!(got, [told(learns.0), told(learns.1)], "{name}, {groups:?}");
        }
    }
    assert!(told_some && left_out);
}

/// Groups that are so many that they go by trees: with some sums, of keys that are in up to so many groups.
const TREES: [(u32, u32, u32); 5] = [(150, 1, 2), (250, 0, 2), (100, 4, 3), (60, 16, 1), (64, 1, 1)];

/// Each learner is told what a plain grouped join gives, or both that too few keys are common; with one field and the other by turns.
#[track_caller]
fn compared(i: usize, Sets { name, xs, ys }: &Sets, groups: Groups, of: Asks) {
    let want = grouped(xs, ys, groups);
    let got = if i.is_multiple_of(2) { found::<u64>(xs, ys, of) } else { found::<Block>(xs, ys, of) };
    let none = ideal::intersection(xs, ys).is_empty() && of.least.is_some();
    let told = |learns: bool| match (none, learns) {
        (true, _) => "too few".to_owned(),
        (_, true) => want.clone(),
        _ => String::new(),
    };
    assert_eq!(got, [told(of.learns.0), told(of.learns.1)], "{name}, {groups:?}");
}

#[test]
fn groups_by_trees_are_told_what_a_plain_grouped_join_gives() {
    for (i, sets) in set_pairs().into_iter().enumerate() {
        let (most, sums, of_a_key) = TREES[i % TREES.len()];
        let groups = Groups { most, sums, least: 1 + i as u64 % 3, of_a_key, labels: true, ..GROUPS };
        assert!(groups.by_trees());
        let learns = [(true, true), (true, false), (false, true)][i % 3];
        compared(i, &sets, groups, Asks { least: (i % 4 == 0).then_some(1), ..asks(groups, learns) });
    }
}

/// Values of the party without the groups are added up in them as well, with the other's and without, by columns and by trees.
#[test]
fn values_of_the_other_party_are_added_up_as_in_a_plain_join() {
    for (i, sets) in set_pairs().into_iter().enumerate() {
        for (most, of_a_key, sums, of_other, by_trees) in
            [(6, 6, 3, 2, false), (1, 1, 1, 1, false), (64, 1, 1, 1, true), (130, 3, 5, 3, true), (7, 2, 4, 4, false)]
        {
            let least = 1 + i as u64 % 3;
            let groups = Groups { most, sums, of_other, least, of_a_key, labels: true, ..GROUPS };
            assert_eq!(groups.by_trees(), by_trees);
            let learns = [(true, true), (true, false), (false, true)][(i + of_other as usize) % 3];
            compared(i, &sets, groups, Asks { least: (i % 4 == 3).then_some(1), ..asks(groups, learns) });
        }
    }
}

/// More flags than a part of step 4 has, of which none ends where a group does.
#[test]
fn values_of_the_other_party_of_many_bins() {
    let (xs, ys) = (digests(0, 3000), digests(1000, 3500));
    for (most, of_a_key) in [(11, 11), (64, 1)] {
        let groups = Groups { most, sums: 2, of_other: 1, least: 2, of_a_key, labels: true, ..GROUPS };
        let want = grouped(&xs, &ys, groups);
        assert!(want.matches(';').count() > 8);
        assert_eq!(found::<u64>(&xs, &ys, asks(groups, (true, true))), [want.clone(), want]);
    }
}

/// Both know what the groups are called, and add this to their shares.
fn agreed(groups: Groups, learns: (bool, bool), noise: [Vec<u64>; 2]) -> Asks {
    let noise = Some(noise.map(|noise| &*noise.leak()));
    Asks { total: Total::Groups(Groups { labels: false, ..groups }), learns, noise, ..BOTH }
}

/// Some noise for each number of these groups, and for the number of all keys if that is counted: from -`most` to `most`.
fn some_noise(groups: Groups, counted: bool, most: u64, seed: u64) -> Vec<u64> {
    let numbers = u64::from(groups.most * (groups.sums + 1)) + u64::from(counted);
    let draw =
        |place: u64| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 33;
    (0..numbers).map(|place| (draw(place) % (2 * most + 1)).wrapping_sub(most)).collect()
}

/// With noise that is known: what is compared with the least number, and told, is a plain grouped join and the noise of both. All groups that were
/// agreed on take part, with keys or without; and without noise they are told as if they were not agreed on.
#[test]
fn noise_is_in_what_is_compared_and_told() {
    let (mut without_keys, mut with_keys_and_hidden) = (0, 0);
    for (i, Sets { name, xs, ys }) in set_pairs().into_iter().enumerate() {
        for (most, of_a_key, sums, of_other, by_trees) in
            [(6, 3, 2, 0, false), (1, 1, 0, 0, false), (7, 2, 3, 1, false), (64, 1, 1, 1, true), (100, 3, 4, 0, true)]
        {
            let least = 1 + i as u64 % 4;
            let groups = Groups { most, sums, of_other, least, of_a_key, labels: false, ..GROUPS };
            assert_eq!(groups.by_trees(), by_trees);
            let learns = [(true, true), (true, false), (false, true)][(i + most as usize) % 3];
            let (counted, wide) = (i % 3 == 0, [0, 3][(i + sums as usize) % 2]);
            // A learner's noise is none where the other one is told nothing.
            let of = |seed, adds| some_noise(groups, counted, if adds { wide } else { 0 }, seed);
            let mut noise = [of(i as u64, learns.1), of(77 + i as u64, learns.0)];
            if counted {
                // All keys are compared with 1, whatever is common, so that the groups are told.
                *noise[0].last_mut().unwrap() = 5;
                *noise[1].last_mut().unwrap() = 1;
            }
            let mut all = groups_of(&xs, &ys, groups);
            for noise in &noise {
                let cells = all.iter_mut().flatten().zip(noise);
                cells.for_each(|(number, noise)| *number = number.wrapping_add(*noise as i64));
            }
            let plain = groups_of(&xs, &ys, groups);
            for (noisy, plain) in all.iter().zip(&plain) {
                without_keys += usize::from(plain[0] == 0 && noisy[0] >= least as i64);
                with_keys_and_hidden += usize::from(plain[0] >= least as i64 && noisy[0] < least as i64);
            }
            let want = said(groups, all.into_iter().enumerate().filter(|(_, numbers)| numbers[0] >= least as i64));
            assert!(wide > 0 || want == grouped(&xs, &ys, groups));
            let asks = Asks { least: counted.then_some(1), ..agreed(groups, learns, noise) };
            let got = if i % 2 == 0 { found::<u64>(&xs, &ys, asks) } else { found::<Block>(&xs, &ys, asks) };
            let told = |learns: bool| if learns { want.clone() } else { String::new() };
            assert_eq!(got, [told(learns.0), told(learns.1)], "{name}, {groups:?}");
        }
    }
    assert!(without_keys > 5 && with_keys_and_hidden > 5, "{without_keys} {with_keys_and_hidden}");
}

/// A number of keys that no group has, because there are not so many or it is negative, is told as one that can be or not at all; and a sum to the
/// ends of 64 bits as it comes. The number of all keys has noise of its own.
#[test]
fn noise_may_be_larger_than_all_that_is_common() {
    let (xs, ys) = (digests(0, 60), digests(20, 90));
    let groups = Groups { most: 3, sums: 1, least: 2, of_a_key: 1, labels: false, ..GROUPS };
    let plain = groups_of(&xs, &ys, groups);
    assert!(plain.iter().all(|numbers| numbers[0] > 2), "{plain:?}");
    let minus = |n: u64| n.wrapping_neg();
    let sum = |group: usize, noise: u64| plain[group][1].wrapping_add(noise as i64);
    let keys = |group: usize, noise: i64| plain[group][0] + noise;
    let noise = [vec![5000, 7, minus(400), 1 << 61, 1, minus(1 << 62)], vec![40, minus(9), 2, 5, minus(2), 3]];
    // Of a thousand keys, which the party with fewer has, no group has more.
    let want = [(0, vec![1000, sum(0, minus(2))]), (2, vec![keys(2, -1), sum(2, minus(1 << 62).wrapping_add(3))])];
    assert_eq!(
        found::<u64>(&xs, &ys, agreed(groups, (true, true), noise.clone())),
        [(); 2].map(|()| said(groups, want.clone().into_iter()))
    );
    // Forty are common.
    for (count, enough) in [([9, 1], true), ([9, 0], false), ([minus(50), 60], true), ([minus(90), 0], false)] {
        let noise: [Vec<u64>; 2] = std::array::from_fn(|party| [&noise[party][..], &count[party..=party]].concat());
        let asks = Asks { least: Some(50), ..agreed(groups, (true, true), noise) };
        let want = if enough { said(groups, want.clone().into_iter()) } else { "too few".to_owned() };
        assert_eq!(found::<u64>(&xs, &ys, asks), [want.clone(), want], "{count:?}");
    }
}

/// A caller that has not as many draws as there are numbers, or not a label for each group.
#[test]
fn noise_and_agreed_labels_are_one_for_each() {
    let groups = Groups { most: 3, sums: 1, least: 2, of_a_key: 1, labels: false, ..GROUPS };
    let keys = digests(0, 10);
    let right = || some_noise(groups, false, 3, 1);
    for wrong in [vec![], right()[1..].to_vec(), [right(), vec![0]].concat()] {
        let asks = agreed(groups, (true, true), [wrong, right()]);
        let (a, _) = two(
            sides::circuit::<u64>(keys.clone(), (12, 12), asks),
            sides::circuit::<u64>(keys.clone(), (12, 12), asks.other()),
        );
        assert_eq!(a.unwrap_err().fault(), Fault::Bug);
    }
    // Who learns and is given no labels.
    let side = |asks: Asks, labels: bool| {
        let keys = keys.clone();
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
            let side = sides::open_circuit::<u64>((12, 12), asks, lines, rng)?;
            let shares = sides::share(&side, 0, keys, (12, 12), asks, lines, rng)?;
            let labels = if labels { sides::labels(groups, 0) } else { Vec::new() };
            side.open(&[shares], [&labels, &[]], lines, rng).map(drop)
        }
    };
    for (learns, fails) in [((true, true), true), ((false, true), true), ((true, false), false)] {
        let asks = agreed(groups, learns, [right(), right()]);
        let (a, b) = two(side(asks, true), side(asks.other(), false));
        assert_eq!(b.err().map(|error| error.fault()), fails.then_some(Fault::Bug), "{learns:?}");
        assert_eq!(a.is_ok(), !fails);
    }
}

/// A peer whose shares make a told group's number of keys negative, which noise cannot do to one that reaches the least number.
#[test]
fn a_number_that_no_noise_makes_is_the_peers_fault() {
    let groups = Groups { most: 1, sums: 1, least: 2, of_a_key: 1, labels: false, ..GROUPS };
    let keys = digests(0, 40);
    for puts in [true, false] {
        let of = agreed(groups, (true, true), [vec![0; 2], vec![0; 2]]);
        let of = if puts { of } else { of.other() };
        let sides = || {
            let alice = sides::circuit::<u64>(keys.clone(), (40, 40), of);
            (alice, sides::circuit::<u64>(keys.clone(), (40, 40), of.other()))
        };
        let (alice, bob) = sides();
        let (_, (_, messages)) = recorded(alice, bob);
        let last = messages.iter().filter(|message| message.sent).count() - 1;
        let (alice, bob) = sides();
        let (a, _) = two_with(alice, bob, |channel| Box::new(Hostile::new(channel, Attack::Flip(63), last)));
        let error = a.unwrap_err();
        assert!(error.fault() == Fault::Peer && error.to_string().contains("number of common keys"), "{error}");
    }
}

/// Products of a number of each party's: which ones, and how many of these are factors alone.
fn products(products: &[(u16, u16, u8)], untold: [usize; 2]) -> Products {
    let all: Vec<Product> = products.iter().map(|&(of_r, of_s, bits)| Product { of_r, of_s, bits }).collect();
    Products::new(&all, untold).unwrap()
}

/// Products of values of both parties are added up by group, of either sign, beside their factors and without these; by columns where a key is
/// in one group and where it is in several, and by trees.
#[test]
fn products_are_added_up_as_in_a_plain_join() {
    // One product of factors that nobody is told; two with one factor of R's in common, beside all sums; one of the second numbers of both.
    let alone = (1, 1, products(&[(0, 0, 17)], [1, 1]));
    let beside = (5, 4, products(&[(0, 0, 9), (0, 1, 9)], [0, 0]));
    let second = (3, 2, products(&[(1, 1, 40)], [1, 1]));
    for (i, sets) in set_pairs().into_iter().enumerate() {
        for (which, (most, of_a_key, by_trees)) in
            [(6, 6, false), (7, 2, false), (5, 1, false), (1, 1, false), (256, 1, true), (256, 3, true)]
                .into_iter()
                .enumerate()
        {
            let (sums, of_other, products) = [alone, beside, second][(i + which) % 3];
            let least = 1 + i as u64 % 3;
            let groups = Groups { most, sums, of_other, products, least, of_a_key, labels: true, ..GROUPS };
            assert_eq!(groups.by_trees(), by_trees, "{groups:?}");
            let learns = [(true, true), (true, false), (false, true)][(i + of_other as usize) % 3];
            compared(i, &sets, groups, Asks { least: (i % 4 == 3).then_some(1), ..asks(groups, learns) });
        }
    }
}

/// More bits of factors than a part of step 4 has, of which none end where a slot does; and two units.
#[test]
fn products_of_many_bins() {
    let (xs, ys) = (digests(0, 3000), digests(1000, 3500));
    for (most, of_a_key) in [(11, 11), (11, 1), (128, 2)] {
        let (least, products) = (2, products(&[(0, 0, 7)], [1, 1]));
        let groups = Groups { most, sums: 1, of_other: 1, products, least, of_a_key, labels: true, ..GROUPS };
        assert_eq!(groups.by_trees(), most == 128);
        let want = grouped(&xs, &ys, groups);
        assert!(want.matches(';').count() > 8);
        assert_eq!(found::<u64>(&xs, &ys, asks(groups, (true, true))), [want.clone(), want]);
    }
}

/// A factor with more bits than were agreed on, or a key in two groups where one slot is for all, would give a wrong sum: a caller's fault.
#[test]
fn factors_that_do_not_fit_are_a_bug() {
    let products = products(&[(0, 0, 4)], [1, 1]);
    let groups = Groups { most: 3, sums: 1, of_other: 1, products, least: 1, of_a_key: 1, labels: true, ..GROUPS };
    let side = |asks: Asks, entries: Vec<(u32, u32)>, numbers: Vec<i64>| {
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
            let side = sides::open_circuit::<u64>((20, 20), asks, lines, rng)?;
            let numbers = numbers.into_iter().map(|number| number as u64).collect();
            let values = Values::new(1, entries, numbers)?;
            side.unit(&sides::unit(digests(0, 2), (20, 20), lines), &values, lines, rng).map(drop)
        }
    };
    let asks = asks(groups, (true, true));
    let of_bob = || side(asks.other(), vec![(0, 0), (1, 0)], vec![i64::MAX, i64::MIN]);
    for (entries, numbers, good) in [
        (vec![(0, 0), (1, 2)], vec![7, -8], true),
        (vec![(0, 0), (1, 2)], vec![8, 0], false),
        (vec![(0, 0), (1, 2)], vec![0, -9], false),
        (vec![(0, 0), (0, 2)], vec![1, 1], false),
    ] {
        let (a, _) = two(side(asks, entries.clone(), numbers.clone()), of_bob());
        match good {
            true => assert!(a.is_ok(), "{a:?}"),
            false => assert_eq!(a.unwrap_err().fault(), Fault::Bug, "{entries:?} {numbers:?}"),
        }
    }
}

/// Groups of both, so many of `ys`'.
fn of_both(groups: Groups, most: u32) -> Groups {
    Groups { of_s: Some(GroupsOfS { most, labels: true }), ..groups }
}

/// Groups of both parties: each of one with each of the other, with the sums of either, products of both, or none; whoever learns, and whether what
/// they are called is agreed on or told.
#[test]
fn groups_of_both_parties_are_told_what_a_plain_join_gives() {
    let none = Products::NONE;
    let (alone, beside) = (products(&[(0, 0, 17)], [1, 1]), products(&[(0, 0, 9)], [0, 0]));
    let (mut told_some, mut left_out) = (false, false);
    for (i, sets) in set_pairs().into_iter().enumerate() {
        for (nth, (most, most_of_s, of_a_key, sums, of_other, products)) in [
            (6, 3, 6, 2, 0, none),
            (1, 1, 1, 0, 0, none),
            (9, 16, 2, 1, 0, none),
            (5, 4, 5, 3, 2, none),
            (1, 5, 1, 1, 1, alone),
            (4, 3, 4, 3, 2, beside),
            (7, 2, 1, 3, 2, beside),
        ]
        .into_iter()
        .enumerate()
        {
            let least = 1 + (i + nth) as u64 % 2;
            let groups = Groups { most, sums, of_other, products, least, of_a_key, ..GROUPS };
            let groups = of_both(groups, most_of_s);
            assert!(!groups.by_trees());
            let learns = [(true, true), (true, false), (false, true)][(i + nth) % 3];
            let mut of = asks(groups, learns);
            // What one party's are called is agreed on, or the other's, or both.
            if let Total::Groups(groups) = &mut of.total {
                groups.labels &= [true, false, true, false][(i + 2 * nth) % 4];
                groups.of_s.iter_mut().for_each(|of_s| of_s.labels &= [true, true, false, false][(i + 2 * nth) % 4]);
            }
            told_some |= !grouped(&sets.xs, &sets.ys, groups).is_empty();
            left_out |=
                grouped(&sets.xs, &sets.ys, groups) != grouped(&sets.xs, &sets.ys, Groups { least: 1, ..groups });
            compared(i, &sets, groups, of);
        }
    }
    assert!(told_some && left_out);
}

/// More flags than a part of step 4 has, of which none end where a group of S's does.
#[test]
fn groups_of_both_parties_of_many_bins() {
    let (xs, ys) = (digests(0, 3000), digests(1000, 3500));
    for products in [Products::NONE, products(&[(0, 0, 7), (1, 0, 9)], [0, 0])] {
        let of_other = 1 + products.count();
        let groups = of_both(Groups { sums: 2 + of_other, of_other, products, ..GROUPS }, 3);
        let want = grouped(&xs, &ys, groups);
        assert!(want.matches(';').count() > 8);
        assert_eq!(found::<u64>(&xs, &ys, asks(groups, (true, true))), [want.clone(), want]);
    }
}

/// With one group of the other party's that all of its keys are in, they are the groups of one party.
#[test]
fn one_group_of_the_other_party_changes_nothing() {
    let (xs, ys) = (digests(0, 60), digests(20, 90));
    let groups = Groups { of_other: 1, ..GROUPS };
    let [alone, with_one] = [groups, of_both(groups, 1)].map(|of| found::<u64>(&xs, &ys, asks(of, (true, true))));
    assert!(!alone[0].is_empty());
    assert_eq!(alone, with_one.map(|told| told.replace(") (0): ", "): ")));
}

/// What a caller may not do: bring a group of S's that is not there, two groups of a key whose numbers are added up, ask for a least number of all keys,
/// or give fewer labels than there are groups.
#[test]
fn wrong_groups_of_the_other_party_are_a_bug() {
    let side = |asks: Asks, of_s: &'static [(u32, u32)], labels: bool| {
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
            let side = sides::open_circuit::<u64>((20, 20), asks, lines, rng)?;
            let unit = sides::unit(digests(0, 2), (20, 20), lines);
            let entries = if asks.puts { vec![(0, 0), (1, 2)] } else { of_s.to_vec() };
            let values = Values::new(1, entries.clone(), vec![7; entries.len()])?;
            let shares = side.unit(&unit, &values, lines, rng)?;
            let labels = if labels { sides::labels(of_both(GROUPS, 4), usize::from(!asks.puts)) } else { Vec::new() };
            let labels = if asks.puts { [&labels[..], &[]] } else { [&[], &labels[..]] };
            side.open(&[shares], labels, lines, rng).map(drop)
        }
    };
    let groups = of_both(Groups { sums: 2, of_other: 1, ..GROUPS }, 4);
    let right: &'static [(u32, u32)] = &[(0, 3), (1, 0)];
    type Case = (Option<u64>, &'static [(u32, u32)], bool, bool);
    let cases: [Case; 6] = [
        (None, right, true, false),
        (None, &[(0, 4), (1, 0)], true, true),
        (None, &[(0, 1), (0, 3), (1, 0)], true, true),
        (None, &[(0, 1)], true, true),
        (Some(1), right, true, true),
        (None, right, false, true),
    ];
    for (least, of_s, labels, fails) in cases {
        let asks = Asks { least, ..asks(groups, (true, true)) };
        let (_, b) = two(side(asks, of_s, labels), side(asks.other(), of_s, labels));
        assert_eq!(b.err().map(|error| error.fault()), fails.then_some(Fault::Bug), "{of_s:?}, {labels}");
    }
}

/// A caller that gives S's numbers for other keys than the unit has, or twice for one of them.
#[test]
fn numbers_that_are_not_one_for_each_key_of_the_other_party_are_a_bug() {
    let groups = Groups { most: 3, sums: 1, of_other: 1, least: 1, of_a_key: 3, labels: true, ..GROUPS };
    let side = |asks: Asks, entries: &'static [(u32, u32)]| {
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
            let side = sides::open_circuit::<u64>((20, 20), asks, lines, rng)?;
            let unit = sides::unit(digests(0, 3), (20, 20), lines);
            let values = match asks.puts {
                true => sides::values(&unit.keys, asks.total, true),
                false => Values::new(1, entries.to_vec(), vec![1; entries.len()])?,
            };
            side.unit(&unit, &values, lines, rng).map(drop)
        }
    };
    let asks = asks(groups, (true, true));
    for entries in [&[(0, 0), (1, 0)][..], &[(0, 0), (0, 1), (2, 0)], &[(0, 0), (1, 0), (2, 0), (2, 1)]] {
        let (_, b) = two(side(asks, &[]), side(asks.other(), entries));
        assert_eq!(b.unwrap_err().fault(), Fault::Bug, "{entries:?}");
    }
    let (a, b) = two(side(asks, &[]), side(asks.other(), &[(0, 0), (1, 0), (2, 0)]));
    assert!(a.is_ok() && b.is_ok());
}

/// Numbers of 64 bits with a sign, to their ends, are added up modulo 2^64. The last key is S's alone.
#[test]
fn the_largest_values_of_the_other_party_are_added_up() {
    let groups = Groups { most: 1, sums: 1, of_other: 1, least: 1, of_a_key: 1, labels: true, ..GROUPS };
    for numbers in
        [[i64::MAX, i64::MIN, -1, 5], [i64::MIN, 0, 0, i64::MAX], [-1, -1, -1, 1], [i64::MAX, 0, 0, i64::MIN]]
    {
        let side = |asks: Asks| {
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<Vec<i64>> {
                let side = sides::open_circuit::<u64>((20, 20), asks, lines, rng)?;
                let keys = digests(0, if asks.puts { 3 } else { 4 });
                let number =
                    |key: &Digest| numbers[(0..3).find(|&i| digests(i, i + 1)[0] == *key).unwrap_or(3) as usize];
                let (width, all) = match asks.puts {
                    true => (0, Vec::new()),
                    false => (1, keys.iter().map(|key| number(key) as u64).collect()),
                };
                let values = Values::new(width, (0..keys.len() as u32).map(|key| (key, 0)).collect(), all)?;
                let shares = side.unit(&sides::unit(keys, (20, 20), lines), &values, lines, rng)?;
                match sides::open(&side, asks, &[shares], lines, rng)? {
                    Found::Groups(groups) => Ok(groups.into_iter().flat_map(|group| group.sums).collect()),
                    _ => panic!("groups are told"),
                }
            }
        };
        let asks = asks(groups, (true, true));
        let (a, b) = two(side(asks), side(asks.other()));
        let want = vec![numbers[..3].iter().fold(0, |sum: i64, number| sum.wrapping_add(*number))];
        assert_eq!([a.unwrap(), b.unwrap()], [want.clone(), want], "{numbers:?}");
    }
}

/// A job says in how many groups a key may be. Whatever it says, and so by trees or by columns, the same is told.
#[test]
fn trees_and_columns_tell_the_same() {
    let (xs, ys) = (digests(0, 90), digests(20, 120));
    for (most, sums) in [(100, 4), (200, 1)] {
        let by = |of_a_key| Groups { most, sums, least: 1, of_a_key, labels: true, ..GROUPS };
        assert!(by(3).by_trees() && !by(most).by_trees());
        let want = grouped(&xs, &ys, by(3));
        assert!(want.matches(';').count() > 20, "{want}");
        for of_a_key in [3, most] {
            assert_eq!(found::<u64>(&xs, &ys, asks(by(of_a_key), (true, true))), [want.clone(), want.clone()]);
        }
    }
}

/// A key that is in more groups than the job allows is a caller's fault where trees have no place for it.
#[test]
fn a_key_in_more_groups_than_there_are_trees_is_a_bug() {
    let groups = Groups { most: 64, sums: 1, least: 1, of_a_key: 1, labels: true, ..GROUPS };
    let side = |asks: Asks| {
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
            let side = sides::open_circuit::<u64>((20, 20), asks, lines, rng)?;
            let entries = if asks.puts { vec![(3, 7), (4, 7), (4, 63)] } else { Vec::new() };
            let numbers = vec![1; entries.len()];
            let unit = vesica_session::Unit {
                id: vesica_types::UnitId(0),
                keys: digests(0, 20),
                place: u8::from(!asks.puts),
                capacities: vec![20, 20],
            };
            side.unit(&unit, &Values::new(1, entries, numbers)?, lines, rng).map(drop)
        }
    };
    let of = asks(groups, (true, true));
    let (a, _) = two(side(of), side(of.other()));
    assert!(matches!(a, Err(Error::Bug(_))), "{a:?}");
}

/// A group with one key less than the least number is left out, one with as many is told, whatever the other groups have.
#[test]
fn small_groups_are_left_out() {
    let (xs, ys) = (digests(0, 60), digests(20, 90));
    let groups = Groups { most: 4, sums: 1, least: 1, of_a_key: 4, labels: true, ..GROUPS };
    let all = grouped(&xs, &ys, groups);
    let sizes: Vec<u64> = all.split("; ").map(|group| group.split(' ').nth(2).unwrap().parse().unwrap()).collect();
    assert!(sizes.len() == 4 && sizes.iter().min() < sizes.iter().max(), "{all}");
    for size in sizes {
        for least in [size - 1, size, size + 1, 1, u64::MAX] {
            let groups = Groups { least, ..groups };
            let want = grouped(&xs, &ys, groups);
            assert_eq!(found::<u64>(&xs, &ys, asks(groups, (true, true))), [want.clone(), want], "{least}");
        }
    }
}

/// A job may also set a least number for all keys together; what is below is told to both, and nothing else.
#[test]
fn nothing_is_told_below_the_least_number_of_all() {
    let (xs, ys) = (digests(0, 20), digests(13, 40));
    for least in [6, 7, 8] {
        let want = if least > 7 { "too few".to_owned() } else { grouped(&xs, &ys, GROUPS) };
        let got = found::<u64>(&xs, &ys, Asks { least: Some(least), ..BOTH });
        assert_eq!(got, [want.clone(), want], "{least}");
    }
}

/// A side of a job of three units, whose keys have these numbers in the only group or in one of three.
fn of_one_or_three(total: Total, puts: bool, from: u64) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<String> {
    move |lines, rng| {
        let asks = Asks { total, puts, learns: (true, true), least: None, noise: None };
        let side = sides::open_circuit::<u64>((30, 30), asks, lines, rng)?;
        let shares: Result<Vec<Shares>> = (0..3u32)
            .map(|id| {
                let keys = digests(100 * u64::from(id) + from, 100 * u64::from(id) + from + 20);
                let numbers: Vec<u64> = keys.iter().map(|key| sides::value(key) as u64).collect();
                let in_three = puts && matches!(total, Total::Groups(_));
                let group = |place: usize| if in_three { keys[place].0[3] % 3 } else { 0 };
                let entries: Vec<(u32, u32)> = (0..keys.len()).map(|key| (key as u32, group(key).into())).collect();
                let unit = vesica_session::Unit {
                    id: vesica_types::UnitId(id),
                    keys,
                    place: u8::from(!puts),
                    capacities: vec![30, 30],
                };
                side.unit(&unit, &Values::new(1, entries, numbers)?, lines, rng)
            })
            .collect();
        Ok(sides::told(sides::open(&side, asks, &shares?, lines, rng)?))
    }
}

/// With a least number of 1 nothing is left out, so that groups in which each key is once add up to the plain sum of all units.
#[test]
fn groups_add_up_to_the_sum() {
    let (sum, _) = two(of_one_or_three(Total::Sum, true, 0), of_one_or_three(Total::Sum, false, 8));
    let groups = Total::Groups(Groups { most: 3, sums: 1, least: 1, of_a_key: 3, labels: true, ..GROUPS });
    let (a, b) = two(of_one_or_three(groups, true, 0), of_one_or_three(groups, false, 8));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a, b);
    let numbers = |text: &str| -> (u64, i64) {
        let group = text.split_once("): ").unwrap().1;
        let (keys, sum) = group.split_once(" keys, [").unwrap();
        (keys.parse().unwrap(), sum.trim_end_matches(']').parse().unwrap())
    };
    let all: Vec<(u64, i64)> = a.split("; ").map(numbers).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(all.iter().map(|(keys, _)| keys).sum::<u64>(), 36);
    assert_eq!(sum.unwrap(), format!("a sum of {}", all.iter().map(|(_, sum)| sum).sum::<i64>()));
}

/// A side of a job of two units, and of which unit's shares another attempt's are put in place.
fn mixed(from: u64, asks: Asks, mixed: u32) -> impl FnOnce(&mut Lines, &mut SessionRng) -> Result<String> {
    move |lines, rng| {
        let mut attempts = Vec::new();
        for _ in 0..2 {
            let side = sides::open_circuit::<u64>((30, 30), asks, lines, rng)?;
            let keys = |id| digests(100 * u64::from(id) + from, 100 * u64::from(id) + from + 20);
            let shares: Result<Vec<Shares>> =
                (0..2).map(|id| sides::share(&side, id, keys(id), (30, 30), asks, lines, rng)).collect();
            attempts.push((side, shares?));
        }
        let (side, mut shares) = attempts.pop().expect("there are two");
        if asks.puts {
            shares[mixed as usize] = attempts[0].1[mixed as usize].clone();
        }
        Ok(sides::told(sides::open(&side, asks, &shares, lines, rng)?))
    }
}

/// Units have keys of their own for trees and for groups of the other party too, and a total is of all of them.
#[test]
fn groups_of_two_units_are_those_of_all_keys() {
    let of = |units: u32| {
        move |from: u64, of: Asks| {
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<String> {
                let side = sides::open_circuit::<u64>((30, 30), of, lines, rng)?;
                let shares: Result<Vec<Shares>> = (0..units)
                    .map(|id| {
                        let first = 100 * u64::from(id) + from;
                        sides::share(&side, id, digests(first, first + 20), (30, 30), of, lines, rng)
                    })
                    .collect();
                Ok(sides::told(sides::open(&side, of, &shares?, lines, rng)?))
            }
        }
    };
    let by_trees = Groups { most: 100, sums: 2, least: 1, of_a_key: 2, ..GROUPS };
    let by_trees = [0, 1].map(|of_other| Groups { of_other, ..by_trees });
    assert!(by_trees.iter().all(|groups| groups.by_trees()));
    for groups in by_trees.into_iter().chain([of_both(Groups { sums: 3, of_other: 1, least: 1, ..GROUPS }, 5)]) {
        let both_learn = asks(groups, (true, true));
        let (a, b) = two(of(2)(0, both_learn), of(2)(8, both_learn.other()));
        let keys = |from: u64| [digests(from, from + 20), digests(100 + from, 120 + from)].concat();
        let want = grouped(&keys(0), &keys(8), groups);
        assert!(want.matches(';').count() > 10, "{want}");
        assert_eq!([a.unwrap(), b.unwrap()], [want.clone(), want]);
    }
}

#[test]
fn shares_of_another_attempt_are_refused() {
    for id in [0, 1] {
        let (a, b) = two(mixed(0, BOTH, id), mixed(15, BOTH.other(), id));
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert!(matches!(error.fault(), Fault::Peer | Fault::Network), "{error}");
        }
    }
}

/// Every message of either party is spoiled in every way. One of another length is the peer's fault. A bit that is flipped or a message that is
/// sent again may give other totals, which no semi-honest protocol can tell.
#[test]
fn a_hostile_peer_gets_an_error_that_names_it() {
    let (xs, ys) = (digests(0, 40), digests(20, 60));
    let groups = Groups { most: 40, sums: 3, least: 2, of_a_key: 1, labels: true, ..GROUPS };
    assert!(groups.by_trees());
    let trees = asks(groups, (true, true));
    let with_values = |groups: Groups| asks(Groups { of_other: 1, ..groups }, (true, true));
    let (values, values_by_trees) = (with_values(GROUPS), with_values(groups));
    let noisy = Groups { of_other: 1, ..GROUPS };
    let noisy = agreed(noisy, (true, true), [1, 2].map(|seed| some_noise(noisy, false, 3, seed)));
    let products = products(&[(0, 0, 5)], [1, 1]);
    let [product, product_by_trees] = [(4, 4), (64, 1)].map(|(most, of_a_key)| {
        asks(Groups { most, of_a_key, sums: 1, of_other: 1, products, ..groups }, (true, true))
    });
    let cells = asks(of_both(Groups { of_other: 1, most: 3, ..GROUPS }, 2), (true, true));
    let ys_learn = asks(of_both(Groups { most: 3, ..GROUPS }, 2), (false, true));
    let of_all = [values, values_by_trees, noisy, product, product_by_trees, cells, ys_learn];
    for asks in [BOTH, BOTH.other(), trees, trees.other()].into_iter().chain(of_all.map(|of| [of, of.other()]).concat())
    {
        let (mine, theirs) = if asks.puts { (&xs, &ys) } else { (&ys, &xs) };
        let sides = || {
            let alice = sides::circuit::<u64>(mine.clone(), (40, 40), asks);
            (alice, sides::circuit::<u64>(theirs.clone(), (40, 40), asks.other()))
        };
        let messages = {
            let (alice, bob) = sides();
            let (_, (_, messages)) = recorded(alice, bob);
            messages.iter().filter(|message| message.sent).count()
        };
        // The first are of base transfers, whose own tests spoil them.
        for at in 3..messages {
            let lengths = [Attack::Cut, Attack::Grow, Attack::Empty];
            let contents = [Attack::Flip(0), Attack::Flip(usize::MAX), Attack::Replay, Attack::Flip(77)];
            for attack in [lengths[at % 3], contents[at % 4]] {
                let (alice, bob) = sides();
                let (a, _) = two_with(alice, bob, |channel| Box::new(Hostile::new(channel, attack, at)));
                match a {
                    Err(error) => {
                        assert_eq!(error.fault(), Fault::Peer, "message {at}, {attack:?}: {error}");
                        assert!(error.to_string().contains("bob"), "{error}");
                    }
                    Ok(_) => assert!(
                        matches!(attack, Attack::Flip(_) | Attack::Replay),
                        "message {at} of {messages}, {attack:?}"
                    ),
                }
            }
        }
    }
}

/// Directions and lengths of a party's messages.
fn shape(messages: &[Message]) -> Vec<(bool, usize)> {
    messages.iter().map(|message| (message.sent, message.bytes.len())).collect()
}

/// What a party receives is as long whatever is common, however the keys fall into groups, and however many groups there are and are told; and
/// what it receives in units and at the end looks random, labels and numbers of small groups included.
#[test]
fn what_is_received_is_random_and_as_long_whatever_the_groups() {
    let by_columns = Groups { most: 16, sums: 2, least: 40, of_a_key: 16, labels: true, ..GROUPS };
    let by_trees = Groups { most: 100, sums: 2, least: 9, of_a_key: 2, labels: true, ..GROUPS };
    assert!(by_trees.by_trees() && !by_columns.by_trees());
    let of = |groups| [(true, true), (false, true), (true, false)].map(|learns| (groups, learns, false));
    let of_values = [by_columns, by_trees].map(|groups| (Groups { of_other: 1, ..groups }, (true, true), false));
    // Noise that is none, so that the same is told.
    let noisy = of(by_columns).map(|(groups, learns, _)| (groups, learns, true));
    let products = products(&[(0, 0, 6)], [1, 1]);
    let of_products =
        [by_columns, by_trees].map(|groups| (Groups { of_other: 1, products, ..groups }, (true, true), false));
    // Of each of them fewer keys are common.
    let cells = of(of_both(Groups { most: 5, least: 9, ..by_columns }, 3));
    let of_all = [&of(by_columns)[..], &of(by_trees), &of_values, &noisy, &of_products, &cells];
    for (groups, learns, noisy) in of_all.concat() {
        let least = groups.least;
        let mut shapes = Vec::new();
        for (common, keys, least) in
            [(0, 500, least), (1, 1, least), (500, 500, least), (500, 500, u64::MAX), (0, 0, least)]
        {
            let groups = Groups { least, ..groups };
            let of = match noisy {
                true => agreed(groups, learns, [1, 2].map(|seed| some_noise(groups, false, 0, seed))),
                false => asks(groups, learns),
            };
            let (a, b) = recorded(
                sides::circuit::<u64>(digests(0, 500), (500, 500), of),
                sides::circuit::<u64>(digests(500 - common, 500 - common + keys), (500, 500), of.other()),
            );
            let told = if learns.0 { a.0.unwrap() } else { b.0.unwrap() };
            assert_eq!(told.is_empty(), common < 500 || least > 500, "{told}");
            for messages in [&a.1, &b.1] {
                // The hint has slots of 57 bits; the rest is checked by the tests of totals.
                let received = messages.iter().filter(|message| !message.sent).skip(3);
                for bytes in received.map(|message| &message.bytes[..]).filter(|bytes| bytes.len() >= 1024) {
                    if bytes.chunks(8).all(|slot| slot.len() == 8 && slot[7] >> (sides::TARGET - 56) == 0) {
                        continue;
                    }
                    // Places in a tree are bytes below the number of its leaves, and a row of bits has one for each group of the other party.
                    let (of, bounds) = match bytes.iter().max() {
                        Some(..8) => (8, 0.1..35.0),
                        Some(..32) => (32, 5.0..85.0),
                        _ => (256, 150.0..385.0),
                    };
                    let expected = bytes.len() as f64 / f64::from(of);
                    let mut counted = [0f64; 256];
                    bytes.iter().for_each(|&byte| counted[usize::from(byte)] += 1.0);
                    let counted = &counted[..of as usize];
                    let chi: f64 = counted.iter().map(|c| (c - expected).powi(2) / expected).sum();
                    assert!(bounds.contains(&chi), "{chi} in a message of {}", bytes.len());
                }
            }
            shapes.push((shape(&a.1), shape(&b.1)));
        }
        assert!(shapes[0].0.len() > 20 && shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
    }
}

/// A caller's faults are no panics.
#[test]
fn values_of_no_key_and_labels_of_no_group_are_bugs() {
    let keys = digests(0, 20);
    for wrong in [Some((20, 0)), Some((0, GROUPS.most)), None] {
        let side = |asks: Asks| {
            let keys = keys.clone();
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
                let side = sides::open_circuit::<u64>((20, 20), asks, lines, rng)?;
                let unit = vesica_session::Unit {
                    id: vesica_types::UnitId(0),
                    keys,
                    place: u8::from(!asks.puts),
                    capacities: vec![20, 20],
                };
                let values = match wrong.filter(|_| asks.puts) {
                    Some(entry) => Values::new(2, vec![entry], vec![1, 2])?,
                    None => Values::default(),
                };
                let shares = side.unit(&unit, &values, lines, rng)?;
                side.open(&[shares], [&[], &[]], lines, rng).map(drop)
            }
        };
        let (a, _) = two(side(BOTH), side(BOTH.other()));
        assert!(matches!(a, Err(Error::Bug(_))), "{a:?}");
    }
    assert!(
        Values::new(1, vec![(1, 0), (0, 0)], vec![1, 2]).is_err() && Values::new(2, vec![(0, 0)], vec![1]).is_err()
    );
}

/// Bytes of a unit of 2000 keys and of the end of its job, both ways; and what the party without the groups is told.
fn cost(total: Total) -> ([u64; 2], String) {
    let side = |puts: bool| {
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<([u64; 2], String)> {
            let asks = Asks { total, puts, learns: (!puts, puts), least: None, noise: None };
            let side = sides::open_circuit::<u64>((2000, 2000), asks, lines, rng)?;
            let shares = sides::share(&side, 0, digests(0, 2000), (2000, 2000), asks, lines, rng)?;
            let bytes = |lines: &mut Lines| lines.peer().map(|ch| ch.meter().bytes()).map(|(sent, got)| sent + got);
            let unit = bytes(lines)?;
            let told = sides::told(sides::open(&side, asks, &[shares], lines, rng)?);
            Ok(([unit, bytes(lines)? - unit], told))
        }
    };
    let (mine, theirs) = two(side(true), side(false));
    (mine.unwrap().0, theirs.unwrap().1)
}

/// Bytes of a unit's silent transfers in one direction, both ways: so many, and `more`, less those of so many. They are made in lots of a few
/// sizes, so that more of them may even be fewer bytes.
fn transfers(so_many: u64, more: u64) -> i64 {
    const NAME: [u8; 32] = [5; 32];
    let of = |n: u64| {
        let (sent, received) = two(
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<u64> {
                let ch = lines.peer()?;
                let base = Sender::open_odd(Security::SemiHonest, FOLD, &NAME, ch, rng)?;
                let before = ch.meter().bytes();
                cot::send(&base, &NAME, UnitId(0), n as usize, ch, rng, |_, _| ())?;
                let after = ch.meter().bytes();
                Ok(after.0 + after.1 - before.0 - before.1)
            },
            move |lines: &mut Lines, rng: &mut SessionRng| -> Result<()> {
                let ch = lines.peer()?;
                let base = Receiver::open(Security::SemiHonest, FOLD, &NAME, ch, rng)?;
                cot::receive(&base, &NAME, UnitId(0), n as usize, ch, |_, _, _| ())
            },
        );
        received.unwrap();
        sent.unwrap() as i64
    };
    of(so_many + more) - of(so_many)
}

/// Bins of 2000 keys, their places in whole words, and the transfers to R that a sum takes: those for the products by which targets are compared.
fn to_r() -> [u64; 3] {
    let params = sides::circuit_params((2000, 2000), BOTH).opprf;
    let (bins, row) = (u64::from(params.bins), u64::from(params.bins).next_multiple_of(128));
    // A number up to l has log l bits, and each target takes a product less.
    let log = u64::from((params.bits + 1).next_power_of_two().ilog2());
    [bins, row, row * (log - 1)]
}

/// What a tree costs for each bin, with its transfers, and that it is far less than columns.
#[test]
fn trees_cost_as_many_bytes_as_stated() {
    let [bins, _, of_products] = to_r();
    let ([of_sum, _], _) = cost(Total::Sum);
    for (most, sums, of_a_key, numbers, depth) in [(512, 1, 1, 16, 6), (150, 1, 2, 16, 5), (60, 16, 1, 17, 6)] {
        let groups = Groups { most, sums, least: 2, of_a_key, labels: true, ..GROUPS };
        let ([unit, _], told) = cost(Total::Groups(groups));
        // More trees than a message has.
        let keys = digests(0, 2000);
        assert_eq!(told, grouped(&keys, &keys, groups));
        let each = 1 + 32 * depth + 16 * numbers;
        let transfers = transfers(of_products, bins * u64::from(of_a_key * depth));
        assert_eq!((unit - of_sum) as i64 - transfers, (bins * (u64::from(of_a_key * each) - 8)) as i64, "{most}");
        assert!(unit - of_sum < 8 * bins * u64::from(most * (sums + 1)) * 3 / 4);
    }
}

/// Values of the other party cost a store with eight bytes a slot, and eight bytes and a bit for each of the groups in which they are multiplied: for
/// all groups, or for those under a leaf of a tree.
#[test]
fn values_of_the_other_party_cost_as_many_bytes_as_stated() {
    let slots = sides::circuit_params((2000, 2000), BOTH).opprf.shape.slots() as u64;
    let [bins, row, of_products] = to_r();
    for (most, of_a_key, sums, of_other, flags, depth) in
        [(8, 8, 1, 1, 8, 0), (8, 8, 3, 2, 8, 0), (100, 2, 3, 2, 8, 5), (512, 1, 1, 1, 8, 6)]
    {
        let of = |of_other| Groups { most, sums, of_other, least: 2, of_a_key, labels: true, ..GROUPS };
        assert_eq!((of(of_other).flags(), of(0).by_trees()), (flags, of(of_other).by_trees()));
        let ([own, end_of_own], _) = cost(Total::Groups(of(0)));
        let ([unit, end], told) = cost(Total::Groups(of(of_other)));
        let keys = digests(0, 2000);
        assert_eq!(told, grouped(&keys, &keys, of(of_other)));
        // Two numbers share a store, which has a seed of 16 bytes, and a group has whole words of flags.
        let (flags, stores) = (u64::from(flags), u64::from(of_other.div_ceil(2)));
        let of_values = u64::from(of_other) * (8 * slots + 8 * flags * row) + 16 * stores + flags * row / 8;
        let of_trees = bins * u64::from(of_a_key * depth);
        let transfers = transfers(of_products + of_trees, flags * row);
        assert_eq!((unit as i64 - own as i64) - transfers, of_values as i64, "{most} {sums}");
        assert_eq!(end, end_of_own, "the end does not know whose values they are");
    }
}

/// A product costs eight bytes, a bit and a transfer more a bin than a value of the other party's, for each bit of its factor and each slot.
#[test]
fn products_cost_as_many_bytes_as_stated() {
    let [bins, row, of_comparisons] = to_r();
    for (most, of_a_key, bits, slots, depth) in [(8, 1, 18, 1, 0), (6, 3, 9, 6, 0), (256, 2, 11, 2, 5)] {
        let groups = Groups { most, sums: 1, of_other: 1, least: 2, of_a_key, labels: true, ..GROUPS };
        let product = Groups { products: products(&[(0, 0, bits)], [1, 1]), ..groups };
        assert_eq!((product.by_trees(), product.flags()), (groups.by_trees(), groups.flags()), "{most}");
        let ([value, end_of_value], _) = cost(Total::Groups(groups));
        let ([unit, end], told) = cost(Total::Groups(product));
        let keys = digests(0, 2000);
        assert_eq!(told, grouped(&keys, &keys, product));
        let digits = slots * u64::from(bits) * row;
        let of_trees = bins * u64::from(of_a_key * depth);
        let before = of_comparisons + u64::from(groups.flags()) * row + of_trees;
        assert_eq!(unit as i64 - value as i64 - transfers(before, digits), (8 * digits + digits / 8) as i64, "{most}");
        assert_eq!(end, end_of_value, "the end does not know what is added up");
    }
}

/// Groups of the other party cost what its page says: a store with a bit for each of them, two bits each way for each bin and group, and the columns of
/// all groups once for each.
#[test]
fn groups_of_both_cost_as_many_bytes_as_stated() {
    let slots = sides::circuit_params((2000, 2000), BOTH).opprf.shape.slots() as u64;
    let [bins, row, of_products] = to_r();
    for (most, most_of_s, sums, of_other) in [(4, 3, 1, 0), (5, 9, 1, 0), (6, 2, 2, 1)] {
        let of_a_key = most;
        let one = Groups { most, sums, of_other, least: 2, of_a_key, ..GROUPS };
        let ([of_one, _], _) = cost(Total::Groups(one));
        // The party with the groups of `of_s` learns nothing here.
        let both = Groups { of_s: Some(GroupsOfS { most: most_of_s, labels: false }), ..one };
        let ([unit, _], told) = cost(Total::Groups(both));
        let keys = digests(0, 2000);
        assert_eq!(told, grouped(&keys, &keys, both));
        let [columns, of_s, of_other] = [most * (sums + 1), most_of_s, most * of_other].map(u64::from);
        // More places than bins, in whole words but for those of the last group, and a bit of each way back for them.
        let more = (of_s - 1) * row;
        let columns = 8 * columns * more + (more + bins).div_ceil(8) - bins.div_ceil(8);
        let back = of_other * more;
        let of_rows = slots * of_s.div_ceil(8) + 16 + of_s * row / 2;
        let to_s = transfers(of_products + u64::from(sides::TARGET) * row + bins, of_s * row + more);
        let to_r = transfers(of_products + of_other * row, of_s * row + back);
        let bytes = columns + of_rows + 8 * back + back / 8;
        assert_eq!(unit as i64 - of_one as i64 - to_s - to_r, bytes as i64, "{most} and {most_of_s}");
    }
}

/// A number of a group costs eight bytes a bin, and the end of a job what its page says.
#[test]
fn groups_cost_as_many_bytes_as_stated() {
    let bins = u64::from(vesica_params::cuckoo::bins(2000, 1, vesica_params::Level::STANDARD).unwrap());
    let ([of_sum, end_of_sum], _) = cost(Total::Sum);
    for most in [8, 64] {
        let ([unit, end], _) =
            cost(Total::Groups(Groups { most, sums: 1, least: 50, of_a_key: most, labels: true, ..GROUPS }));
        assert_eq!(unit - of_sum, 8 * bins * (2 * u64::from(most) - 1));
        assert!(end < if most == 8 { 200_000 } else { 400_000 }, "{most}: {end}, and of a sum {end_of_sum}");
    }
}
