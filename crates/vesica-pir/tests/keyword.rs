//! Retrieval by key over SimplePIR, against a map.

use vesica_pir::keyword::{Key, Keyword, Layout, Rows, Table};
use vesica_pir::{Flat, Pir, PirError, PublicSeed, Records, Shape, SimplePir};
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

fn key(name: u64) -> Key {
    let mut output = [0; 64];
    output[..8].copy_from_slice(&name.to_le_bytes());
    Key::new(&output).expect("64 bytes")
}

struct Service {
    client: Keyword<SimplePir>,
    store: <SimplePir as Pir>::Store,
    hint: <SimplePir as Pir>::Hint,
}

fn service(keys: u64, values: &[u8], width: usize, rows: Rows, columns: u32, chunks: u32) -> Service {
    let keys: Vec<Key> = (0..keys).map(key).collect();
    let values = Flat::new(values, width).expect("values");
    let slots = (columns / chunks) as usize;
    let step = (1024 / chunks) as usize;
    let table = Table::build(&keys, &values, rows, slots, step, &mut rng(1)).expect("a table");
    let layout = Layout::from_bytes(&table.layout().to_bytes()).expect("it travels");
    assert_eq!(&layout, table.layout());
    let columns = layout.slots as u32 * chunks;
    let shape = Shape::new(table.len(), table.width() as u32, columns, chunks).expect("a shape");
    let scheme = SimplePir::new(shape, PublicSeed([2; 32]));
    let store = scheme.store(&table).expect("a store");
    let hint = scheme.take_hint(&scheme.hint(&store).expect("a hint")).expect("it is one");
    Service { client: Keyword::new(scheme, layout).expect("it fits"), store, hint }
}

impl Service {
    fn ask(&self, key: Option<Key>) -> Option<Vec<u8>> {
        let (asked, query) = self.client.query(&self.hint, key, &mut rng(3)).expect("a query");
        let answer = self.client.scheme().answer(&self.store, &[&query]).expect("an answer").remove(0);
        self.client.decode(&self.hint, asked, &answer).expect("the answer is whole")
    }
}

#[test]
fn every_key_has_its_value_and_no_other_has_one() {
    for (keys, width, rows, columns, chunks) in [
        (1u64, 1usize, Rows::Public, 1024, 1),
        (1, 65536, Rows::Sealed, 1024, 64),
        (10, 65536, Rows::Public, 1024, 16),
        (300, 1, Rows::Sealed, 1024, 1),
        (2000, 33, Rows::Public, 1024, 1),
        (5000, 3, Rows::Sealed, 4096, 2),
        (700, 200, Rows::Sealed, 2048, 4),
    ] {
        let values = bytes(keys as usize * width, 9);
        let service = service(keys, &values, width, rows, columns, chunks);
        for name in [0, keys - 1, keys / 2, keys / 3] {
            let value = service.ask(Some(key(name))).expect("it is there");
            assert!(value == values[name as usize * width..][..width], "key {name} of {keys}");
        }
        for name in [keys, keys + 1, u64::MAX] {
            assert_eq!(service.ask(Some(key(name))), None);
        }
        assert_eq!(service.ask(None), None);
    }
}

/// A query for a key that is there, for one that is not, and for nothing: as long as each other, and none twice.
#[test]
fn what_is_sent_does_not_depend_on_whether_a_key_is_there() {
    let service = service(500, &bytes(500 * 8, 9), 8, Rows::Public, 1024, 1);
    let mut rng = rng(7);
    let asked = [Some(key(3)), Some(key(3)), Some(key(99_999)), None, None].map(|key| {
        let (_, query) = service.client.query(&service.hint, key, &mut rng).expect("a query");
        query
    });
    assert!(asked.iter().all(|query| query.len() == service.client.scheme().sizes().query));
    assert!((0..5).all(|i| (0..i).all(|j| asked[i] != asked[j])));
}

/// A server that answers with other bytes: the client finds nothing, and that is no error.
#[test]
fn a_wrong_answer_looks_like_an_absent_key() {
    let service = service(500, &bytes(500 * 8, 9), 8, Rows::Sealed, 1024, 1);
    let (asked, query) = service.client.query(&service.hint, Some(key(3)), &mut rng(3)).expect("a query");
    let mut answer = service.client.scheme().answer(&service.store, &[&query]).expect("an answer").remove(0);
    answer[vesica_pir::Epoch::BYTES..].iter_mut().for_each(|byte| *byte ^= 0x55);
    assert_eq!(service.client.decode(&service.hint, asked, &answer).expect("it is whole"), None);
}

/// A sealed table looks the same to whoever has not the keys: values that are all zero leave no zeros, and the same entries give other
/// bytes at the same place only if a seed differs.
#[test]
fn sealed_rows_hide_values_and_free_slots() {
    let keys: Vec<Key> = (0..800).map(key).collect();
    let zeros = vec![0; 800 * 32];
    let table = Table::build(&keys, &Flat::new(&zeros, 32).expect("values"), Rows::Sealed, 2048, 1024, &mut rng(1))
        .expect("a table");
    let mut record = vec![0; table.width()];
    let mut histogram = [0u32; 256];
    for index in 0..table.len() {
        table.read(index, &mut record);
        record.iter().for_each(|&byte| histogram[byte as usize] += 1);
    }
    let expected = (table.len() * table.width() as u64) as f64 / 256.0;
    let chi: f64 = histogram.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    // 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert!((130.0..380.0).contains(&chi), "{chi}");
}

#[test]
fn tables_that_cannot_be_built_are_refused() {
    let why = |keys: &[Key], values: &[u8]| {
        let values = Flat::new(values, 1).expect("values");
        let built = Table::build(keys, &values, Rows::Public, 1024, 1024, &mut rng(1));
        match built.map(|_| ()) {
            Err(PirError::Shape(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why(&[], &[]).contains("0 keys"));
    assert!(why(&[key(1)], &[1, 2]).contains("1 keys with 2 values"));
    assert!(why(&[key(1), key(2), key(1)], &[1, 2, 3]).contains("equal"));
    assert!(matches!(Key::new(&[0; 33]), Err(PirError::Shape(why)) if why.contains("33 bytes")));
}

#[test]
fn hostile_layouts_are_refused() {
    let layout = Layout { rows: Rows::Public, value: 8, slots: 1024, spread: 3, seeds: vec![1, 2] };
    let good = layout.to_bytes();
    assert_eq!(Layout::from_bytes(&good).expect("it is one"), layout);
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    for bad in [
        Vec::new(),
        good[..20].to_vec(),
        good[..good.len() - 8].to_vec(),
        [&good[..], &[0]].concat(),
        with(0, 2),
        with(8, 1),
        with(1, 0),
        with(16, 1),
        with(25, 1),
        with(32, 0xff),
    ] {
        assert!(matches!(Layout::from_bytes(&bad), Err(PirError::Message(_))), "{bad:?}");
    }
    let shape = Shape::new(2048, 16, 2048, 1).expect("a shape");
    let scheme = SimplePir::new(shape, PublicSeed([2; 32]));
    let odd = Layout { slots: 1000, ..layout };
    assert!(Keyword::new(scheme, odd).is_err());
}
