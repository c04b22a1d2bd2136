use super::shape::Plan;
use super::*;
use crate::Records;
use vesica_he::sample::SEED_BYTES;
use zeroize::Zeroizing;

/// Records whose bytes look random.
struct Table {
    rows: u64,
    width: usize,
}

impl Table {
    fn record(&self, index: u64) -> Vec<u8> {
        let mut out = vec![0; self.width];
        self.read(index, &mut out);
        out
    }
}

impl Records for Table {
    fn len(&self) -> u64 {
        self.rows
    }
    fn width(&self) -> usize {
        self.width
    }
    fn read(&self, index: u64, out: &mut [u8]) {
        let mut state = index.wrapping_mul(0x9e3779b97f4a7c15) ^ 12345;
        for byte in out {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (state >> 56) as u8;
        }
    }
}

/// Rows of real numbers between -128 and 128.
struct Reals(Table);

impl Reals {
    fn row(&self, index: u64) -> Vec<f64> {
        let bytes = self.0.record(index);
        let real = |b: &[u8]| u32::from_le_bytes(b[..4].try_into().unwrap()) as f64 / 2_f64.powi(24) - 128.0;
        bytes.chunks_exact(8).map(real).collect()
    }
}

impl Records for Reals {
    fn len(&self) -> u64 {
        self.0.rows
    }
    fn width(&self) -> usize {
        self.0.width
    }
    fn read(&self, index: u64, out: &mut [u8]) {
        out.copy_from_slice(&self.row(index).into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>());
    }
}

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

/// A scheme and its rings.
type Kind = (Scheme, Preset);

fn exact() -> impl Iterator<Item = Kind> {
    let presets = |scheme| [Preset::Fast, Preset::Seed].map(|preset| (scheme, preset));
    [Scheme::Bfv, Scheme::Bgv].into_iter().flat_map(presets)
}

const CKKS: Kind = (Scheme::Ckks, Preset::Seed);

fn open((scheme, preset): Kind, rows: u64, width: usize) -> Result<RlwePir, PirError> {
    RlwePir::new(scheme, preset, rows, width)
}

/// Fetches records, and checks the sizes that were announced.
fn fetch(kind: Kind, records: &dyn Records, indices: &[u64]) -> Vec<Vec<u8>> {
    let pir = open(kind, records.len(), records.width()).unwrap();
    let store = pir.store(records).unwrap();
    let (session, keys) = pir.session(&mut rng(255));
    assert_eq!(keys.len(), pir.keys_bytes());
    let keys = pir.take_keys(&keys).unwrap();
    let ask = |(i, &index): (usize, &u64)| pir.query(&session, index, &mut rng(i as u8)).unwrap();
    let (secrets, queries): (Vec<_>, Vec<_>) = indices.iter().enumerate().map(ask).unzip();
    let queries: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
    let answers = pir.answer(&store, &keys, &queries).unwrap();
    let decode = |((secret, query), answer): ((_, &&[u8]), &Vec<u8>)| {
        assert_eq!((query.len(), answer.len()), (pir.sizes().query, pir.sizes().answer));
        pir.decode(&secret, answer).unwrap()
    };
    secrets.into_iter().zip(&queries).zip(&answers).map(decode).collect()
}

fn check(pir: Kind, rows: u64, width: usize) {
    let table = Table { rows, width };
    let indices = [0, rows / 2, rows - 1];
    for (index, record) in indices.iter().zip(fetch(pir, &table, &indices)) {
        assert_eq!(record, table.record(*index), "{pir:?}, record {index} of {rows}, {width} bytes");
    }
}

#[test]
fn records_come_back_whatever_the_shape() {
    for pir in exact() {
        // One record; a few; the last block not full; records longer than a plaintext; odd widths.
        for (rows, width) in [(1, 1), (3, 5), (2049, 2), (7, 4099), (2, 65536)] {
            check(pir, rows, width);
        }
        // Expanded queries: 6 and 11 blocks of the small ring, as many records as fill them, and one more.
        check(pir, 81, 2049);
    }
    // Two dimensions: 49 blocks are more than one row of them, and the last row is short.
    for scheme in [Scheme::Bfv, Scheme::Bgv] {
        let pir = (scheme, Preset::Fast);
        assert_eq!(Shape::new(scheme, Preset::Fast, 145, 2048).unwrap().plan, Plan::Fold);
        check(pir, 145, 2048);
        check(pir, 49, 6145);
    }
}

/// The sizes that a machine should have patience for: all blocks of a longer expansion, and tables of 2^17 records.
#[test]
#[ignore = "takes a minute in a debug build"]
fn larger_tables_come_back() {
    for pir in exact() {
        for (rows, width) in [(10_000, 2), (10_000, 256), (1 << 17, 16), (1 << 17, 1), (1 << 17, 288)] {
            check(pir, rows, width);
        }
    }
}

#[test]
fn plans_are_those_of_the_design() {
    let shape = |preset, rows, width| Shape::new(Scheme::Bfv, preset, rows, width).unwrap();
    for rows in [100, 1000, 10_000] {
        let small = shape(Preset::Seed, rows, 2);
        assert_eq!((small.plan, small.limbs, small.set.n), (Plan::Slots, 1, 8192));
        assert_eq!(shape(Preset::Fast, rows, 2).plan, Plan::Turn);
    }
    let seed = shape(Preset::Seed, 10_000, 256);
    assert_eq!((seed.plan, seed.blocks, seed.limbs), (Plan::Expand, 157, 2));
    let fast = shape(Preset::Fast, 10_000, 256);
    assert_eq!((fast.plan, fast.set.n, fast.blocks, fast.columns), (Plan::Fold, 4096, 435, 32));
    // SealPIR's tables of 2^18 and 2^20 records, and the largest that fits.
    assert_eq!(shape(Preset::Fast, 1 << 18, 288).plan, Plan::Fold);
    assert_eq!(shape(Preset::Fast, 1 << 20, 288).plan, Plan::Fold);
}

/// A question asks for 2^24 rows at most, and one of its answers is wrong with probability at most 2^-40. Sizes of every
/// plan, up to the largest that are served.
#[test]
fn a_question_has_a_wrong_answer_with_probability_two_to_the_minus_40() {
    const ROWS: f64 = 24.0;
    for (scheme, preset) in exact().chain([CKKS]) {
        let mut served = 0;
        for (rows, width) in (0..32).step_by(2).flat_map(|log| [8, 16, 256, 4096, 65536].map(|width| (1 << log, width)))
        {
            if let Ok(shape) = Shape::new(scheme, preset, rows, width) {
                assert!(shape.fails() + ROWS <= -40.0, "{scheme:?}, {rows} x {width}: 2^{}", shape.fails());
                served += 1;
            }
        }
        assert!(served > 20, "{scheme:?}, {preset:?}: only {served} sizes");
    }
}

/// The bytes of docs/src/protocols/bfv-pir.md.
#[test]
fn messages_are_as_long_as_the_page_says() {
    let (fast, seed) = ((Scheme::Bgv, Preset::Fast), (Scheme::Bgv, Preset::Seed));
    let page = [
        (fast, 1000, 2, 0, 12_816, 6_147),
        (fast, 10_000, 2, 0, 64_016, 6_147),
        (fast, 10_000, 256, 358_416, 25_616, 18_944),
        (fast, 1 << 18, 288, 409_616, 25_616, 18_944),
        (seed, 1000, 2, 0, 51_216, 48_128),
        (seed, 10_000, 2, 0, 102_416, 48_128),
        (seed, 10_000, 256, 2_457_616, 102_416, 48_128),
        (CKKS, 1000, 8, 0, 102_416, 102_400),
        (CKKS, 10_000, 8, 0, 307_216, 102_400),
        (CKKS, 10_000, 256, 1_843_216, 102_416, 102_400),
    ];
    for (kind, rows, width, keys, query, answer) in page {
        let pir = open(kind, rows, width).unwrap();
        let sizes = pir.sizes();
        assert_eq!((pir.keys_bytes(), sizes.query, sizes.answer), (keys, query, answer), "{kind:?}, {rows} x {width}");
    }
}

#[test]
fn real_numbers_come_back_to_seven_decimals() {
    // The last two expand their queries.
    for (rows, width) in [(1, 8), (100, 8), (10_000, 8), (1000, 256), (2, 65536), (7, 65536), (2000, 256)] {
        let table = Reals(Table { rows, width });
        let indices = [0, rows / 2, rows - 1];
        for (index, row) in indices.iter().zip(fetch(CKKS, &table, &indices)) {
            let got = row.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap()));
            let error = got.zip(table.row(*index)).map(|(got, x)| (got - x).abs()).fold(0.0, f64::max);
            // Numbers are up to 128, so this is nine digits of them.
            assert!(error < OFF, "row {index} of {rows}, {width} bytes: {error:e}");
        }
    }
}

/// As many primes as seven decimals need, up to the largest table. A row of equal numbers, the largest, has the most noise.
#[test]
fn the_bound_of_real_numbers_holds_for_every_size() {
    let limbs = |rows, width| Shape::new(Scheme::Ckks, Preset::Seed, rows, width).unwrap().limbs;
    assert_eq!([limbs(100, 8), limbs(10_000, 8), limbs(10_000, 256), limbs(10_000, 8192)], [2, 2, 2, 3]);
    for rows in [1, 5 * 4096, 6 * 4096, 64 * 4096, 65 * 4096, 4096 * 4096] {
        assert!(Shape::new(Scheme::Ckks, Preset::Seed, rows, 16).unwrap().fails() <= shape::FAILURE, "{rows}");
    }
    struct Largest;
    impl Records for Largest {
        fn len(&self) -> u64 {
            65
        }
        fn width(&self) -> usize {
            65536
        }
        fn read(&self, _: u64, out: &mut [u8]) {
            out.chunks_exact_mut(8).for_each(|real| real.copy_from_slice(&LARGEST_REAL.to_le_bytes()));
        }
    }
    for row in fetch(CKKS, &Largest, &[64]) {
        let got = row.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap()));
        let error = got.map(|got| (got - LARGEST_REAL).abs()).fold(0.0, f64::max);
        assert!(error < OFF, "{error:e}");
    }
}

/// The quotient without a division is the quotient.
#[test]
fn records_have_their_places() {
    for (rows, width) in [(10_000, 256), (1 << 18, 288), (3, 65536), (1 << 20, 1), (4_099, 7)] {
        let shape = Shape::new(Scheme::Bfv, Preset::Fast, rows, width).unwrap();
        let per_block = shape.per_block as u64;
        let edges = (0..rows.div_ceil(per_block)).flat_map(|block| [block * per_block, (block + 1) * per_block - 1]);
        for row in edges.filter(|&row| row < rows) {
            let expected = ((row / per_block) as usize, (row % per_block) as usize * shape.words);
            assert_eq!(shape.place(row), expected, "row {row} of {rows}");
        }
    }
}

#[test]
fn numbers_that_are_too_large_or_none_are_refused() {
    struct One(f64);
    impl Records for One {
        fn len(&self) -> u64 {
            1
        }
        fn width(&self) -> usize {
            8
        }
        fn read(&self, _: u64, out: &mut [u8]) {
            out.copy_from_slice(&self.0.to_le_bytes());
        }
    }
    for (x, fine) in [(128.0, true), (-128.0, true), (128.1, false), (f64::NAN, false), (f64::INFINITY, false)] {
        assert_eq!(open(CKKS, 1, 8).unwrap().store(&One(x)).is_ok(), fine, "{x}");
    }
    assert!(matches!(open(CKKS, 10, 12), Err(PirError::Shape(why)) if why.contains("real numbers")));
}

#[test]
fn two_queries_for_one_record_differ_and_have_one_length() {
    for kind in exact().chain([CKKS]) {
        for (rows, width) in [(100, 8), (81, 2048), (150, 2048)] {
            let (pir, rng) = (open(kind, rows, width).unwrap(), &mut rng(1));
            let (session, keys) = pir.session(rng);
            let [(_, one), (_, two), (_, other)] = [5, 5, 80].map(|index| pir.query(&session, index, rng).unwrap());
            assert!(one.len() == two.len() && one.len() == other.len());
            // Not the seed, and no polynomial. Nor the keys of another session: their secret is another one.
            for (one, two) in [(one, two), (keys, pir.session(rng).1)] {
                let differ = one.iter().zip(&two).filter(|(a, b)| a != b).count();
                assert!(differ >= one.len() * 9 / 10, "{kind:?}: {differ} of {} bytes", one.len());
            }
        }
    }
}

/// Records of zeros, which are real numbers too.
struct Zeros {
    rows: u64,
    width: usize,
}

impl Records for Zeros {
    fn len(&self) -> u64 {
        self.rows
    }
    fn width(&self) -> usize {
        self.width
    }
    fn read(&self, _: u64, out: &mut [u8]) {
        out.fill(0);
    }
}

/// An answer to one query is nothing under the secret of another, where queries need no keys; else of another session.
#[test]
fn secrets_are_fresh() {
    for (rows, width) in [(100, 8), (81, 2049)] {
        let table = Table { rows, width };
        let (pir, rng) = (open((Scheme::Bfv, Preset::Fast), rows, width).unwrap(), &mut rng(2));
        let store = pir.store(&table).unwrap();
        let (session, keys) = pir.session(rng);
        let (own, query) = pir.query(&session, 7, rng).unwrap();
        let next = if keys.is_empty() { session } else { pir.session(rng).0 };
        let (secret, _) = pir.query(&next, 7, rng).unwrap();
        let answer = pir.answer(&store, &pir.take_keys(&keys).unwrap(), &[&query]).unwrap().remove(0);
        assert_eq!(pir.decode(&own, &answer).unwrap(), table.record(7));
        assert_ne!(pir.decode(&secret, &answer).unwrap(), table.record(7));
    }
}

#[test]
fn hostile_messages_are_refused_or_harmless() {
    for kind in exact().chain([CKKS]) {
        for (rows, width) in [(100, 8), (81, 2048), (150, 2048)] {
            let pir = open(kind, rows, width).unwrap();
            let store = pir.store(&Zeros { rows, width }).unwrap();
            let (session, wire) = pir.session(&mut rng(0));
            let keys = pir.take_keys(&wire).unwrap();
            let (secret, query) = pir.query(&session, 5, &mut rng(1)).unwrap();
            // Keys that are cut, grown, or no residues.
            let none = |bytes: &[u8]| matches!(pir.take_keys(bytes), Err(PirError::Message(_)));
            assert!(none(&[&wire[..], &[0]].concat()));
            if !wire.is_empty() {
                let mut bad = wire.clone();
                bad[wire.len() - 7..].fill(255);
                assert!(none(&wire[1..]) && none(&[]) && none(&bad), "{kind:?}");
            }
            // One bad query in several is refused like one alone.
            let refused =
                |bytes: &[u8]| matches!(pir.answer(&store, &keys, &[&query, bytes]), Err(PirError::Message(_)));
            // Cut, empty, grown.
            assert!(refused(&query[1..]) && refused(&[]) && refused(&[&query[..], &[0]].concat()));
            // Residues that are none: the first, the last.
            for at in [SEED_BYTES..SEED_BYTES + 7, query.len() - 7..query.len()] {
                let mut bad = query.clone();
                bad[at].fill(255);
                assert!(refused(&bad), "{kind:?}");
            }
            // A transparent ciphertext, b = 0, is one like any other, and so is a key.
            let zeros = pir.take_keys(&vec![0; wire.len()]).unwrap();
            let answer = pir.answer(&store, &zeros, &[&vec![0; query.len()]]).unwrap().remove(0);
            // Answers of another length are refused, and of other contents they are records of the right length, or refused.
            for bad in [&answer[1..], &[], &[&answer[..], &[0]].concat()] {
                assert!(matches!(pir.decode(&secret, bad), Err(PirError::Message(_))));
            }
            assert_eq!(pir.decode(&secret, &answer).unwrap().len(), width);
            match pir.decode(&secret, &vec![255; answer.len()]) {
                Ok(record) => assert_eq!(record.len(), width),
                Err(why) => assert!(matches!(why, PirError::Message(_))),
            }
        }
    }
}

#[test]
fn tables_that_cannot_be_served_are_refused_with_a_remedy() {
    for kind in exact().chain([CKKS]) {
        for (rows, width) in [(0, 8), (1, 0), (1, crate::MOST_WIDTH + 8)] {
            assert!(matches!(open(kind, rows, width), Err(PirError::Shape(_))));
        }
        assert!(matches!(open(kind, 1 << 40, 8), Err(PirError::Shape(why)) if why.contains("simple-pir")));
        let pir = open(kind, 3, 8).unwrap();
        let (session, _) = pir.session(&mut rng(1));
        assert!(matches!(pir.query(&session, 3, &mut rng(1)), Err(PirError::Shape(_))));
        assert!(matches!(pir.store(&Zeros { rows: 4, width: 8 }), Err(PirError::Shape(_))));
    }
}
