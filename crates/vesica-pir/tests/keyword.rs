//! Retrieval by key over SimplePIR, against a map.

use vesica_pir::keyword::{Drawn, Filter, TAG};
use vesica_pir::{Flat, MatrixPir, Pir, PirError, PublicSeed, Shape, SimplePir};
use vesica_session::SessionRng;
use zeroize::Zeroizing;

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng(seed).fill(&mut bytes);
    bytes
}

fn key(name: u64) -> [u8; 32] {
    *blake3::hash(&name.to_le_bytes()).as_bytes()
}

struct Service {
    scheme: SimplePir,
    filter: Filter,
    table: Vec<u8>,
    store: <SimplePir as Pir>::Store,
    hint: <SimplePir as Pir>::Hint,
}

/// Keys 0 to `keys` with the bodies that stand behind each other in `bodies`.
fn service(keys: u64, bodies: &[u8], body: usize, shape: Option<Shape>) -> Service {
    let shape = shape.unwrap_or_else(|| Filter::shape(keys, (TAG + body) as u32, 10).expect("a shape"));
    let keys: Vec<[u8; 32]> = (0..keys).map(key).collect();
    let (mut filter, members) = Filter::spread(&shape, body, &keys, &mut rng(1)).expect("they spread");
    let size = filter.slots() * filter.width();
    let mut table = vec![0; filter.groups().len() * size];
    for (group, members) in members.iter().enumerate() {
        let of_group: Vec<&[u8; 32]> = members.iter().map(|&i| &keys[i as usize]).collect();
        let bodies: Vec<u8> = members.iter().flat_map(|&i| bodies[i as usize * body..][..body].to_vec()).collect();
        filter
            .fill(group, [1; 32], &of_group, &bodies, &mut rng(group as u8), &mut table[group * size..][..size])
            .expect("it goes in");
    }
    let scheme = SimplePir::new(shape, PublicSeed([2; 32]));
    let store = scheme.store(&Flat::new(&table, filter.width()).expect("records")).expect("a store");
    let hint = scheme.take_hint(scheme.hint(&store).expect("a hint")).expect("it is one");
    Service { scheme, filter, table, store, hint }
}

impl Service {
    fn ask(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        let places = self.filter.places(key);
        let (secret, query) = self.scheme.query_sum(&self.hint, &places, &mut rng(3)).expect("a query");
        let answer = self.scheme.answer(&self.store, &[&query]).expect("an answer").remove(0);
        let record = self.scheme.decode(&self.hint, secret, &answer).expect("the answer is whole");
        self.filter.open(key, &record).map(<[u8]>::to_vec)
    }
}

#[test]
fn every_key_has_its_body_and_no_other_has_one() {
    for (keys, body, shape) in [
        (1u64, 0usize, None),
        (1, 65536, None),
        (10, 65536, None),
        (300, 1, None),
        (2000, 33, None),
        (700, 200, Some(Shape::new(4096, 212, 2048, 4).expect("a shape"))),
        (5000, 3, Some(Shape::new(8192, 15, 4096, 2).expect("a shape"))),
    ] {
        let bodies = bytes(keys as usize * body, 9);
        let service = service(keys, &bodies, body, shape);
        for name in [0, keys - 1, keys / 2, keys / 3] {
            let found = service.ask(&key(name)).expect("it is there");
            assert!(found == bodies[name as usize * body..][..body], "key {name} of {keys}");
        }
        for name in [keys, keys + 1, u64::MAX] {
            assert_eq!(service.ask(&key(name)), None);
        }
    }
}

/// A query for a key that is there and for one that is not: as long as each other, and none twice.
#[test]
fn what_is_sent_does_not_depend_on_whether_a_key_is_there() {
    let service = service(500, &bytes(500 * 8, 9), 8, None);
    let mut rng = rng(7);
    let asked = [3, 3, 99_999, 99_999].map(|name| {
        let places = service.filter.places(&key(name));
        service.scheme.query_sum(&service.hint, &places, &mut rng).expect("a query").1
    });
    assert!(asked.iter().all(|query| query.len() == service.scheme.sizes().query));
    assert!((0..4).all(|i| (0..i).all(|j| asked[i] != asked[j])));
}

/// A server that answers with other bytes: the client finds nothing, and that is no error.
#[test]
fn a_wrong_answer_looks_like_an_absent_key() {
    let Service { scheme, filter, store, hint, .. } = service(500, &bytes(500 * 8, 9), 8, None);
    let (secret, query) = scheme.query_sum(&hint, &filter.places(&key(3)), &mut rng(3)).expect("a query");
    let mut answer = scheme.answer(&store, &[&query]).expect("an answer").remove(0);
    answer[vesica_pir::Epoch::BYTES..].iter_mut().for_each(|byte| *byte ^= 0x55);
    assert_eq!(filter.open(&key(3), &scheme.decode(&hint, secret, &answer).expect("it is whole")), None);
}

/// Bodies that look random leave a table that does: free slots, tags and sums cannot be told apart by their bytes.
#[test]
fn a_table_hides_its_free_slots() {
    let Service { table, .. } = service(800, &bytes(800 * 32, 5), 32, None);
    let mut histogram = [0u32; 256];
    table.iter().for_each(|&byte| histogram[byte as usize] += 1);
    let expected = table.len() as f64 / 256.0;
    let chi: f64 = histogram.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    // 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert!((130.0..380.0).contains(&chi), "{chi}");
}

/// A group that is drawn anew for the same keys and bodies shares no slot with what it was, and stands under another seed; other groups
/// stay. A client follows by a patch.
#[test]
fn a_group_that_is_drawn_anew_is_another_table() {
    let bodies = bytes(1500 * 8, 9);
    let shape = Shape::new(2048 * 2, 20, 2048, 1).expect("a shape");
    let mut service = service(1500, &bodies, 8, Some(shape));
    let (group, size) = (1, service.filter.slots() * service.filter.width());
    let keys: Vec<[u8; 32]> = (0..1500).map(key).collect();
    let members: Vec<usize> = (0..1500).filter(|&i| service.filter.group(&keys[i]) == group).collect();
    let (old, places) = (service.table.clone(), service.filter.places(&keys[members[0]]));
    let of_group: Vec<&[u8; 32]> = members.iter().map(|&i| &keys[i]).collect();
    for &i in &members {
        assert_eq!(service.filter.find(&keys[i], &old[group * size..]).as_deref(), Some(&bodies[8 * i..][..8]));
    }
    let changed: Vec<u8> = members.iter().flat_map(|&i| bodies[8 * i..][..8].to_vec()).collect();
    let slots = &mut service.table[group * size..][..size];
    service.filter.fill(group, [2; 32], &of_group, &changed, &mut rng(77), slots).expect("it goes in");
    assert!(matches!(service.filter.groups(), [Drawn { salt: [1, ..], .. }, Drawn { salt: [2, ..], .. }]));
    assert_ne!(service.filter.places(&keys[members[0]]), places);
    let width = service.filter.width();
    assert_eq!(service.table[..size], old[..size]);
    assert!(service.table[size..].chunks(width).zip(old[size..].chunks(width)).all(|(new, old)| new != old));
    let changes: Vec<(u64, &[u8])> = (group as u64 * 2048..).zip(service.table[size..].chunks(width)).collect();
    let patch = service.scheme.change(1, &mut service.store, &changes).expect("a change");
    let (whole, part) = (service.scheme.sizes().hint as usize, patch.len());
    assert!(part < whole / 2, "{part} of {whole}");
    service.scheme.patch(&mut service.hint, &patch).expect("a patch");
    for name in [members[0] as u64, 0, 1, 2, 1499] {
        assert_eq!(service.ask(&key(name)).as_deref(), Some(&bodies[8 * name as usize..][..8]));
    }
}

#[test]
fn tables_that_cannot_be_built_are_refused() {
    let shape = Shape::new(1024, TAG as u32 + 1, 1024, 1).expect("a shape");
    let (mut filter, _) = Filter::spread(&shape, 1, &[key(1)], &mut rng(1)).expect("a filter");
    let mut slots = vec![0; 1024 * (TAG + 1)];
    let why = filter.fill(0, [1; 32], &[&key(1), &key(2), &key(1)], &[1, 2, 3], &mut rng(1), &mut slots);
    assert!(matches!(why, Err(PirError::Shape(why)) if why.contains("twice")));
    let equal = vec![key(1); 3000];
    let shape = Shape::new(4096, TAG as u32, 1024, 1).expect("a shape");
    let why = Filter::spread(&shape, 0, &equal, &mut rng(1)).map(|_| ());
    assert!(matches!(why, Err(PirError::Shape(why)) if why.contains("several times")));
}

#[test]
fn filters_that_cannot_be_are_refused() {
    let shape = Shape::new(2048, TAG as u32 + 8, 1024, 1).expect("a shape");
    let filter = |body, tries: &[u8]| Filter::new(&shape, body, [0; 32], [1; 32], tries);
    let mut good = filter(8, &[0, 63]).expect("it can be");
    assert!(good.follow(1, Drawn { salt: [3; 32], tries: 2 }).is_ok());
    for (group, tries) in [(2, 0), (usize::MAX, 0), (0, 64)] {
        assert!(matches!(good.follow(group, Drawn { salt: [3; 32], tries }), Err(PirError::Message(_))));
    }
    for bad in [filter(8, &[0]), filter(8, &[0, 0, 0]), filter(9, &[0, 0]), filter(8, &[0, 64]), filter(8, &[])] {
        assert!(matches!(bad, Err(PirError::Message(_))));
    }
}
