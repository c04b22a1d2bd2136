//! The tokenizers against one another, and against `csv-core` by itself.

use super::*;
use csv_core::ReadRecordResult;
use proptest::prelude::*;

/// A reader that gives little at a time.
struct Drip(Vec<u8>, usize, usize);

impl Read for Drip {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.2.min(buf.len()).min(self.0.len() - self.1);
        buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
        self.1 += n;
        Ok(n)
    }
}

fn scanner(text: &[u8], drip: usize, chunk: usize, only_exact: bool) -> Scanner {
    let source = Source::open(std::path::Path::new("/dev/null"), None, &|| false).unwrap();
    let mut scanner = Scanner::new(source, Box::new(Drip(text.to_vec(), 0, drip)), false);
    scanner.buf = vec![0; 2 * chunk];
    scanner.chunk = chunk;
    scanner.only_exact = only_exact;
    scanner
}

type Found = (Vec<u8>, usize, (u64, u64), Vec<Vec<u8>>);

/// All rows, and the error that ended them.
fn rows(mut scanner: Scanner, want: Want) -> (Vec<Found>, Option<String>) {
    let mut fields = Fields::default();
    let mut rows = Vec::new();
    loop {
        match scanner.next(want, &mut fields) {
            Ok(None) => return (rows, None),
            Err(error) => return (rows, Some(error.to_string())),
            Ok(Some(row)) => {
                let needed = match want {
                    Want::Header => row.fields(),
                    Want::Rows { fields, .. } => fields,
                    Want::Bounds { .. } => 0,
                };
                let fields = (0..needed).map(|i| row.field(i).to_vec()).collect();
                rows.push((row.raw.to_vec(), row.ending, row.place, fields));
            }
        }
    }
}

/// What `csv-core` says by itself. It skips blank lines and takes an open quote at the end for a closed one.
fn oracle(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv_core::Reader::new();
    let _ = reader.read_record(b"\n", &mut [0], &mut [0]);
    let (mut out, mut ends) = (vec![0; text.len() + 1], vec![0; text.len() + 1]);
    let (mut at, mut wrote, mut done) = (0, 0, 0);
    let mut rows = Vec::new();
    loop {
        let (result, read, o, e) = reader.read_record(&text[at..], &mut out[wrote..], &mut ends[done..]);
        (at, wrote, done) = (at + read, wrote + o, done + e);
        match result {
            ReadRecordResult::Record => {
                let mut from = 0;
                rows.push(ends[..done].iter().map(|&to| out[std::mem::replace(&mut from, to)..to].to_vec()).collect());
                (wrote, done) = (0, 0);
            }
            ReadRecordResult::End => return rows,
            _ => {}
        }
    }
}

fn nasty() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"a"[..]),
        2 => Just(&b"bc"[..]),
        4 => Just(&b","[..]),
        4 => Just(&b"\""[..]),
        1 => Just(&b"\"\""[..]),
        2 => Just(&b"\","[..]),
        1 => Just(&b"\"\n\""[..]),
        3 => Just(&b"\n"[..]),
        1 => Just(&b"\r\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"\0"[..]),
        1 => Just(&b"\xff"[..]),
        1 => Just(&b"\xef\xbb\xbf"[..]),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

/// Rows of as many fields as there should be, of which most are for the fast tokenizers.
fn tidy(columns: usize) -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        4 => Just("a".to_owned()),
        4 => Just("bcde".to_owned()),
        1 => Just(String::new()),
        2 => Just("\"x\"".to_owned()),
        2 => Just("\"x,y\"".to_owned()),
        1 => Just("\"\"".to_owned()),
        1 => Just("\"p\nq\"".to_owned()),
        1 => Just("\"p\r\"".to_owned()),
        1 => Just("\"p\"\"q\"".to_owned()),
        1 => Just("\"p\"q".to_owned()),
        1 => Just("a\"b".to_owned()),
        1 => Just("a\"\"".to_owned()),
        1 => (50usize..80).prop_map(|n| "z".repeat(n)),
    ];
    let ending =
        prop_oneof![12 => Just("\n"), 4 => Just("\r\n"), 1 => Just("\r"), 1 => Just("\n\n"), 1 => Just("\r\n\n")];
    let row = (prop::collection::vec(field, columns), ending).prop_map(|(row, ending)| row.join(",") + ending);
    prop::collection::vec(row, 0..60).prop_map(|rows| rows.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn all_tokenizers_agree_on_tables(
        (columns, text) in (1usize..5).prop_flat_map(|columns| (Just(columns), tidy(columns))),
        (drip, chunk) in (1usize..400, 1usize..400),
        some in 0usize..5,
    ) {
        for want in [Want::Rows { columns, fields: some.min(columns) }, Want::Bounds { columns }] {
            let fast = rows(scanner(&text, drip, chunk, false), want);
            let exact = rows(scanner(&text, 10_000, 10_000, true), want);
            prop_assert_eq!(&fast.1, &None);
            prop_assert_eq!(&fast, &exact);
        }
    }

    #[test]
    fn all_three_tokenizers_agree(text in nasty(), drip in 1usize..40, chunk in 1usize..40, columns in 1usize..5, some in 1usize..5) {
        let fields = some.min(columns);
        for want in [Want::Header, Want::Rows { columns, fields }, Want::Bounds { columns }] {
            let fast = rows(scanner(&text, drip, chunk, false), want);
            let exact = rows(scanner(&text, 1000, 1000, true), want);
            prop_assert_eq!(&fast, &exact, "{:?}", want == Want::Header);
        }
    }

    #[test]
    fn fields_are_what_csv_core_says(text in nasty(), drip in 1usize..40, chunk in 1usize..40) {
        let (found, error) = rows(scanner(&text, drip, chunk, false), Want::Header);
        let found: Vec<_> = found.into_iter().filter(|f| f.0.len() > f.1).map(|f| f.3).collect();
        let mut expected = oracle(&text);
        if error.is_some() {
            expected.pop();
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn rows_are_the_file(text in nasty(), drip in 1usize..40, chunk in 1usize..40) {
        let (found, error) = rows(scanner(&text, drip, chunk, false), Want::Header);
        let bytes: Vec<u8> = found.into_iter().flat_map(|f| f.0).collect();
        let same = if error.is_some() { text.starts_with(&bytes) } else { text == bytes };
        prop_assert!(same);
    }
}

#[test]
fn which_rows_are_short() {
    let z = "z".repeat(59);
    for (row, short) in [
        ("a,b,c\n", true),
        ("a,b,c\r\n", true),
        (",,\n", true),
        ("\"a\",b,\"c,d\"\n", true),
        ("\"\",\"\",\"\"\r\n", true),
        (&format!("a,{z},c\n"), true),
        (&format!("a,z{z},c\n"), false),
        ("a,b,c\r", false),
        ("a,b,c", false),
        ("a,b\n", false),
        ("a,b,c,d\n", false),
        ("\n", false),
        ("a,\"b\nb\",c\n", false),
        ("a,\"b\"\"\",c\n", false),
        ("a,b\"b\",c\n", false),
        ("a,\"b\"b,c\n", false),
    ] {
        let mut scanner = scanner(format!("{row}1,2,3\n").as_bytes(), 100, 100, false);
        scanner.bom().unwrap();
        let mut spans = Vec::new();
        let found = scanner.short(Want::Rows { columns: 3, fields: 2 }, &mut spans);
        assert_eq!(found, short.then(|| (row.len(), row.len() - row.trim_end().len())), "{row:?}");
        assert!(!short || spans.len() == 2);
    }
}

#[test]
fn lines_and_rows_are_counted_apart() {
    let text = b"a,b\n\n1,\"x\ny\"\r\n2,\"\"\"\n\"\n3,z";
    let (found, error) = rows(scanner(text, 7, 7, false), Want::Rows { columns: 2, fields: 2 });
    assert_eq!(error, None);
    let places: Vec<_> = found.iter().map(|f| f.2).collect();
    assert_eq!(places, [(1, 1), (2, 3), (3, 5), (4, 7)]);
}

/// A row that came whole in one reading is as long as one that came in many.
#[test]
fn a_row_that_is_too_long_is_refused_however_it_came() {
    for row in [format!("x{}", "y".repeat(999)), format!("\"{}\"", "y".repeat(998)), "\"\"".repeat(500)] {
        for (chunk, max_row, fits) in [(100, 1000, false), (1 << 20, 1000, false), (1 << 20, 1001, true)] {
            let mut scanner = scanner(format!("{row}\n").as_bytes(), chunk, chunk, false);
            scanner.max_row = max_row;
            let (found, error) = rows(scanner, Want::Bounds { columns: 1 });
            assert_eq!((found.len(), error.is_none()), if fits { (1, true) } else { (0, false) }, "{error:?}");
        }
    }
}

#[test]
fn a_row_without_end_is_refused_before_it_fills_the_memory() {
    for text in [&b"x"[..], b"\"x", b"\"\"\"x"] {
        let mut scanner = scanner(&[text, &[b'y'; 9000]].concat(), 100, 100, false);
        scanner.max_row = 1000;
        let (found, error) = rows(scanner, Want::Bounds { columns: 1 });
        assert!(found.is_empty());
        assert_eq!(
            error.unwrap(),
            "/dev/null: row 1 (which begins on line 1) is longer than 0 MiB; is a quote left open?"
        );
    }
}
