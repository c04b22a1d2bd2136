//! Parquet, Arrow, compressed CSV and standard input, in and out.

use crate::two;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use two::{LONG, Running, Two};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_csv() {
    let mut two = Two::new();
    two.write("alice.csv.gz", gzip("id,x\n1,a\n2,b\n"));
    two.write("bob.csv.zst", zstd::encode_all(&b"id,y\n2,p\n3,q\n"[..], 3).unwrap());
    two.alice.change("alice.csv", "alice.csv.gz");
    two.alice.change("alice.out.csv", "alice.out.csv.gz");
    two.bob.change("bob.csv", "bob.csv.zst");
    two.bob.change("bob.out.csv", "bob.out.csv.zst");
    two.run_well();
    let mut alice = String::new();
    let gz = std::fs::read(two.path("alice.out.csv.gz")).unwrap();
    flate2::read::MultiGzDecoder::new(&gz[..]).read_to_string(&mut alice).unwrap();
    assert_eq!(alice, "id,x\n2,b\n");
    let zst = std::fs::read(two.path("bob.out.csv.zst")).unwrap();
    assert_eq!(zstd::decode_all(&zst[..]).unwrap(), b"id,y\n2,p\n");
}

#[test]
fn parquet_and_arrow_go_in_and_out() {
    // The same seed gives the same people as CSV and as Parquet.
    let mut two = Two::sampled("500", "200");
    let folder = two.path("pq");
    two::run(&["gen", "--rows", "500", "--overlap", "200", "--format", "parquet", "--out", folder.to_str().unwrap()])
        .good();
    two.alice.change("alice.csv", "pq/alice.parquet");
    two.alice.change("alice.out.csv", "alice.out.arrow");
    two.bob.change("bob.out.csv", "bob.out.parquet");
    two.run_well();

    // What came out goes in again, and comes out as CSV.
    two.alice.change("pq/alice.parquet", "alice.out.arrow");
    two.alice.change("\"alice.out.arrow\" }\n", "\"alice.again.csv\" }\n");
    two.bob.change("path = \"bob.csv\"", "path = \"bob.out.parquet\"");
    two.bob.change("{ path = \"bob.out.parquet\" }", "{ path = \"bob.again.csv\" }");
    two.run_well();

    let wanted = two.rows("expected.csv");
    for name in ["alice", "bob"] {
        let all = two.rows(&format!("{name}.csv"));
        let kept: Vec<String> =
            all.into_iter().filter(|row| wanted.iter().any(|id| row.split(',').next() == Some(id))).collect();
        assert_eq!(two.rows(&format!("{name}.again.csv")), kept);
    }
}

#[test]
fn a_format_is_named_where_the_name_does_not_say_it() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.write("table.txt", "id,x\n1,a\n");
    two.alice.change("path = \"alice.csv\"", "path = \"table.txt\"");
    two.alice.start().wait(LONG).bad(2, &["table.txt", "set format to csv, parquet or arrow"]);
    two.alice.change("path = \"table.txt\"", "path = \"table.txt\", format = \"csv\"");
    two.run_well();
    assert_eq!(two.read("alice.out.csv"), "id,x\n1,a\n");
}

#[test]
fn a_name_that_lies_is_found_out() {
    let mut two = Two::with("id\n1\n", "id\n1\n");
    two.write("alice.parquet", "id\n1\n");
    two.alice.change("alice.csv", "alice.parquet");
    two.alice.start().wait(LONG).bad(3, &["alice.parquet"]);
}

#[test]
fn standard_input_and_standard_output() {
    let mut two = Two::with("", "id\n2\n3\n");
    two.alice.change("path = \"alice.csv\"", "path = \"-\", format = \"csv\"");
    two.alice.change("{ path = \"alice.out.csv\" }", "{ path = \"-\", format = \"csv\" }");
    let bob = two.bob.start();
    let mut echo = Command::new("printf").arg("id,x\n1,a\n2,b\n").stdout(Stdio::piped()).spawn().unwrap();
    let alice = Running::start(two.alice.command(&[]).stdin(echo.stdout.take().unwrap()));
    let alice = alice.wait(LONG).good();
    bob.wait(LONG).good();
    echo.wait().unwrap();
    assert_eq!(alice.stdout, "id,x\n2,b\n", "nothing but the rows");
    assert!(alice.stderr.contains("1 of your 2 rows"), "the words go to the other stream:\n{}", alice.stderr);
}
