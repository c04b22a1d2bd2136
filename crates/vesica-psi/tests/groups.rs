//! Totals by group against a plain join that is grouped, against hostile peers, and what they do not tell.

use crate::sides;

use sides::Asks;
use std::collections::BTreeMap;
use vesica_block::Block;
use vesica_oprf::vole::Field;
use vesica_psi::circuit::{Groups, Product, Products, Total};
use vesica_psi::ideal;
use vesica_session::{Error, Fault, Found, Lines, Result, SessionRng, Shared, Shares, Values};
use vesica_testkit::{Attack, Hostile, Message, Sets, digests, recorded, set_pairs, two, two_with};
use vesica_types::Digest;

const GROUPS: Groups =
    Groups { most: 6, most_of_s: 0, sums: 2, of_other: 0, products: Products::NONE, least: 3, of_a_key: 6 };

/// Both learn, and the first one has the groups.
const BOTH: Asks = Asks { total: Total::Groups(GROUPS), puts: true, learns: (true, true), least: None, noise: None };

/// The same with other groups.
fn asks(groups: Groups, learns: (bool, bool)) -> Asks {
    Asks { total: Total::Groups(groups), learns, ..BOTH }
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
    let mut all: BTreeMap<u32, (u64, Vec<i64>)> = BTreeMap::new();
    for place in ideal::intersection(xs, ys) {
        let key = &xs[place as usize];
        // In each group of the other party's, if it has some: their cells come one such group after the other.
        let others = if groups.most_of_s > 0 { sides::groups_of_s(key, groups) } else { vec![0] };
        for (other, (group, numbers)) in
            others.iter().flat_map(|&i| sides::groups(key, groups).into_iter().map(move |of| (i, of)))
        {
            let (keys, sums) = all.entry(other * groups.most + group).or_insert((0, vec![0; groups.sums as usize]));
            *keys += 1;
            let numbers = sides::added(key, &numbers, groups);
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum = sum.wrapping_add(number));
        }
    }
    let told = all.into_iter().filter(|(_, (keys, _))| *keys >= groups.least);
    let called = |cell: u32| match groups.most_of_s {
        0 => format!("({cell})"),
        _ => format!("({}) ({})", cell % groups.most, cell / groups.most),
    };
    let told = told.map(|(cell, (keys, sums))| format!("{cell} {}: {keys} keys, {sums:?}", called(cell)));
    told.collect::<Vec<_>>().join("; ")
}

#[test]
fn who_learns_is_told_what_a_plain_grouped_join_gives() {
    let (mut told_some, mut left_out) = (false, false);
    for (i, Sets { name, xs, ys }) in set_pairs().into_iter().enumerate() {
        for (most, sums, least) in [(1, 1, 1), (6, 2, 3), (36, 0, 2), (9, 3, 5)] {
            let groups =
                Groups { most, most_of_s: 0, sums, of_other: 0, products: Products::NONE, least, of_a_key: most };
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
        let groups = Groups {
            most,
            most_of_s: 0,
            sums,
            of_other: 0,
            products: Products::NONE,
            least: 1 + i as u64 % 3,
            of_a_key,
        };
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
            let groups = Groups { most, most_of_s: 0, sums, of_other, products: Products::NONE, least, of_a_key };
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
        let groups = Groups { most, most_of_s: 0, sums: 2, of_other: 1, products: Products::NONE, least: 2, of_a_key };
        let want = grouped(&xs, &ys, groups);
        assert!(want.matches(';').count() > 8);
        assert_eq!(found::<u64>(&xs, &ys, asks(groups, (true, true))), [want.clone(), want]);
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
            let groups = Groups { most, most_of_s: 0, sums, of_other, products, least, of_a_key };
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
        let groups = Groups { most, most_of_s: 0, sums: 1, of_other: 1, products, least, of_a_key };
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
    let groups = Groups { most: 3, most_of_s: 0, sums: 1, of_other: 1, products, least: 1, of_a_key: 1 };
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

/// Groups of both parties: each of one with each of the other, with the sums of either, products of both, or none.
#[test]
fn groups_of_both_parties_are_told_what_a_plain_join_gives() {
    let none = Products::NONE;
    let (alone, beside) = (products(&[(0, 0, 17)], [1, 1]), products(&[(0, 0, 9)], [0, 0]));
    for (i, sets) in set_pairs().into_iter().enumerate() {
        for (most, most_of_s, of_a_key, sums, of_other, products) in [
            (6, 3, 6, 2, 0, none),
            (1, 1, 1, 0, 0, none),
            (9, 16, 2, 1, 0, none),
            (5, 4, 5, 3, 2, none),
            (1, 5, 1, 1, 1, alone),
            (4, 3, 4, 3, 2, beside),
        ] {
            let least = 1 + i as u64 % 2;
            let groups = Groups { most, most_of_s, sums, of_other, products, least, of_a_key };
            assert!(!groups.by_trees());
            let learns = [(true, true), (true, false), (false, true)][(i + most as usize) % 3];
            compared(i, &sets, groups, asks(groups, learns));
        }
    }
}

/// More flags than a part of step 4 has, of which none end where a group of S's does.
#[test]
fn groups_of_both_parties_of_many_bins() {
    let (xs, ys) = (digests(0, 3000), digests(1000, 3500));
    let groups = Groups { most_of_s: 3, sums: 3, of_other: 1, ..GROUPS };
    let want = grouped(&xs, &ys, groups);
    assert!(want.matches(';').count() > 8);
    assert_eq!(found::<u64>(&xs, &ys, asks(groups, (true, true))), [want.clone(), want]);
}

/// With one group of the other party's that all of its keys are in, they are the groups of one party.
#[test]
fn one_group_of_the_other_party_changes_nothing() {
    let (xs, ys) = (digests(0, 60), digests(20, 90));
    let groups = Groups { of_other: 1, ..GROUPS };
    let one = Groups { most_of_s: 1, ..groups };
    let [alone, with_one] = [groups, one].map(|groups| found::<u64>(&xs, &ys, asks(groups, (true, true))));
    assert!(!alone[0].is_empty());
    assert_eq!(alone, with_one.map(|told| told.replace(") (0): ", "): ")));
}

/// A caller that gives S's numbers for other keys than the unit has, or twice for one of them.
#[test]
fn numbers_that_are_not_one_for_each_key_of_the_other_party_are_a_bug() {
    let groups =
        Groups { most: 3, most_of_s: 0, sums: 1, of_other: 1, products: Products::NONE, least: 1, of_a_key: 3 };
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
    let groups =
        Groups { most: 1, most_of_s: 0, sums: 1, of_other: 1, products: Products::NONE, least: 1, of_a_key: 1 };
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
        let by =
            |of_a_key| Groups { most, most_of_s: 0, sums, of_other: 0, products: Products::NONE, least: 1, of_a_key };
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
    let groups =
        Groups { most: 64, most_of_s: 0, sums: 1, of_other: 0, products: Products::NONE, least: 1, of_a_key: 1 };
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
    let groups =
        Groups { most: 4, most_of_s: 0, sums: 1, of_other: 0, products: Products::NONE, least: 1, of_a_key: 4 };
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
                let group = |place: usize| if matches!(total, Total::Groups(_)) { keys[place].0[3] % 3 } else { 0 };
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
    let groups = Total::Groups(Groups {
        most: 3,
        most_of_s: 0,
        sums: 1,
        of_other: 0,
        products: Products::NONE,
        least: 1,
        of_a_key: 3,
    });
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

/// Units have keys of their own for trees too, and a total is of all of them.
#[test]
fn groups_by_trees_of_two_units_are_those_of_all_keys() {
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
    for of_other in [0, 1] {
        let groups =
            Groups { most: 100, most_of_s: 0, sums: 2, of_other, products: Products::NONE, least: 1, of_a_key: 2 };
        assert!(groups.by_trees());
        let of_both = asks(groups, (true, true));
        let (a, b) = two(of(2)(0, of_both), of(2)(8, of_both.other()));
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
    let groups =
        Groups { most: 40, most_of_s: 0, sums: 3, of_other: 0, products: Products::NONE, least: 2, of_a_key: 1 };
    assert!(groups.by_trees());
    let trees = asks(groups, (true, true));
    let of_both = |groups: Groups| asks(Groups { of_other: 1, ..groups }, (true, true));
    let (values, values_by_trees) = (of_both(GROUPS), of_both(groups));
    let products = products(&[(0, 0, 5)], [1, 1]);
    let [product, product_by_trees] = [(4, 4), (64, 1)].map(|(most, of_a_key)| {
        asks(Groups { most, of_a_key, sums: 1, of_other: 1, products, ..groups }, (true, true))
    });
    let [cells, cells_of_values] =
        [0, 1].map(|of_other| asks(Groups { most: 3, most_of_s: 2, sums: 1, of_other, ..GROUPS }, (true, true)));
    for asks in [BOTH, BOTH.other(), trees, trees.other()].into_iter().chain(
        [values, values_by_trees, product, product_by_trees, cells, cells_of_values]
            .map(|of| [of, of.other()])
            .concat(),
    ) {
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
    let by_columns =
        Groups { most: 16, most_of_s: 0, sums: 2, of_other: 0, products: Products::NONE, least: 40, of_a_key: 16 };
    let by_trees =
        Groups { most: 100, most_of_s: 0, sums: 2, of_other: 0, products: Products::NONE, least: 9, of_a_key: 2 };
    assert!(by_trees.by_trees() && !by_columns.by_trees());
    let of = |groups| [(true, true), (false, true), (true, false)].map(|learns| (groups, learns));
    let of_both = [by_columns, by_trees].map(|groups| (Groups { of_other: 1, ..groups }, (true, true)));
    let products = products(&[(0, 0, 6)], [1, 1]);
    let of_products = [by_columns, by_trees].map(|groups| (Groups { of_other: 1, products, ..groups }, (true, true)));
    let cells = Groups { most: 8, most_of_s: 2, of_other: 1, ..by_columns };
    for (groups, learns) in [&of(by_columns)[..], &of(by_trees), &of_both, &of_products, &of(cells)].concat() {
        let least = groups.least;
        let mut shapes = Vec::new();
        for (common, keys, least) in
            [(0, 500, least), (1, 1, least), (500, 500, least), (500, 500, u64::MAX), (0, 0, least)]
        {
            let of = asks(Groups { least, ..groups }, learns);
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
                    // Places in a tree are bytes below the number of its leaves.
                    // So are rows of bits of the number of S's groups.
                    let of =
                        [4, 32].into_iter().find(|&of| bytes.iter().all(|&byte| u32::from(byte) < of)).unwrap_or(256);
                    let expected = bytes.len() as f64 / f64::from(of);
                    let mut counted = [0f64; 256];
                    bytes.iter().for_each(|&byte| counted[usize::from(byte)] += 1.0);
                    let counted = &counted[..of as usize];
                    let chi: f64 = counted.iter().map(|c| (c - expected).powi(2) / expected).sum();
                    let bounds = match of {
                        4 => 0.0..30.0,
                        32 => 5.0..85.0,
                        _ => 150.0..385.0,
                    };
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
                side.open(&[shares], &[], lines, rng).map(drop)
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

/// What a tree costs for each bin, besides its transfers, and that it is far less than columns.
#[test]
fn trees_cost_as_many_bytes_as_stated() {
    let bins = u64::from(vesica_params::cuckoo::bins(2000, 1, vesica_params::Level::STANDARD).unwrap());
    let ([of_sum, _], _) = cost(Total::Sum);
    for (most, sums, of_a_key, numbers, depth) in [(512, 1, 1, 16, 6), (150, 1, 2, 16, 5), (60, 16, 1, 17, 6)] {
        let groups = Groups { most, most_of_s: 0, sums, of_other: 0, products: Products::NONE, least: 2, of_a_key };
        let ([unit, _], told) = cost(Total::Groups(groups));
        // More trees than a message has.
        let keys = digests(0, 2000);
        assert_eq!(told, grouped(&keys, &keys, groups));
        let each = 1 + 32 * depth + 16 * numbers;
        let transfers = (unit - of_sum) as f64 / bins as f64 - (f64::from(of_a_key) * f64::from(each) - 8.0);
        // Silent transfers are a fraction of a byte each; of so few bins they are more.
        assert!((0.0..4.0 * f64::from(of_a_key * depth)).contains(&transfers), "{transfers}");
        assert!(unit - of_sum < 8 * bins * u64::from(most * (sums + 1)) * 3 / 4);
    }
}

/// A number of a group costs eight bytes a bin, and the end of a job what its page says.
#[test]
fn groups_cost_as_many_bytes_as_stated() {
    let bins = u64::from(vesica_params::cuckoo::bins(2000, 1, vesica_params::Level::STANDARD).unwrap());
    let ([of_sum, end_of_sum], _) = cost(Total::Sum);
    for most in [8, 64] {
        let ([unit, end], _) = cost(Total::Groups(Groups {
            most,
            most_of_s: 0,
            sums: 1,
            of_other: 0,
            products: Products::NONE,
            least: 50,
            of_a_key: most,
        }));
        assert_eq!(unit - of_sum, 8 * bins * (2 * u64::from(most) - 1));
        assert!(end < if most == 8 { 200_000 } else { 400_000 }, "{most}: {end}, and of a sum {end_of_sum}");
    }
}

/// A bit of a factor costs eight bytes and an eighth a bin, if a key is in one group, whatever the number of groups.
#[test]
fn products_cost_as_many_bytes_as_stated() {
    let bins = f64::from(vesica_params::cuckoo::bins(2000, 1, vesica_params::Level::STANDARD).unwrap());
    for most in [2, 12] {
        let [few, many] = [10, 20].map(|bits| {
            let groups = Groups {
                most,
                sums: 1,
                of_other: 1,
                products: products(&[(0, 0, bits)], [1, 1]),
                of_a_key: 1,
                ..GROUPS
            };
            cost(Total::Groups(groups)).0[0]
        });
        // Bins are filled up to whole squares of bits, and silent transfers are a fraction of a byte each; of so few bins they are more.
        let ten = (many - few) as f64 / bins;
        assert!((81.0..125.0).contains(&ten), "{most}: {ten}");
    }
}

/// A group of the other party's costs what the columns do, and an eighth and half a byte a bin, and no more of the end than all cells do.
#[test]
fn groups_of_both_cost_as_many_bytes_as_stated() {
    let bins = f64::from(vesica_params::cuckoo::bins(2000, 1, vesica_params::Level::STANDARD).unwrap());
    let of = |most_of_s| cost(Total::Groups(Groups { most_of_s, sums: 1, ..GROUPS })).0;
    let ([two, end_of_two], [six, end]) = (of(2), of(6));
    let each = (six - two) as f64 / bins / 4.0;
    assert!((96.6..110.0).contains(&each), "{each}");
    assert!(end > end_of_two && end < 200_000, "{end}");
}
