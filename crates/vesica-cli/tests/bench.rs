//! `vesica bench`: a line for every protocol, and refusals.

use crate::two;

use serde_json::Value;

fn bench(args: &[&str]) -> two::Ended {
    two::run(&[&["bench", "psi"], args].concat())
}

/// Every protocol for two parties, each way that it can be asked for, gives the rows that it should.
#[test]
fn every_protocol_is_measured_and_its_rows_are_compared() {
    let mut ways: Vec<Vec<&str>> = ["rr22", "kkrt", "ot", "mini-psi", "bc22", "dp", "hash", "ecdh", "ecdh-oprf"]
        .map(|protocol| vec!["--protocol", protocol])
        .to_vec();
    for protocol in ["rr22", "ot", "mini-psi", "bc22"] {
        ways.push(vec!["--protocol", protocol, "--security", "malicious"]);
    }
    ways.push(vec!["--protocol", "rr22", "--mode", "low-comm"]);
    for curve in ["ristretto255", "fourq", "sm2", "secp256k1", "p256"] {
        ways.push(vec!["--protocol", "ecdh", "--curve", curve]);
    }
    ways.push(vec!["--protocol", "ecdh", "--both"]);
    for way in ways {
        let ended = bench(&[&way[..], &["--rows", "300,100", "--overlap", "40", "--bytes", "9"]].concat()).good();
        let cell: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(cell["protocol"], way[1]);
        assert_eq!((&cell["rows"][0], &cell["rows"][1]), (&300.into(), &100.into()), "{cell}");
        assert_eq!(cell["expected"], 40);
        if way[1] != "dp" {
            assert_eq!((&cell["exact"], &cell["found"]), (&true.into(), &40.into()), "{cell}");
        }
        assert!(cell["up_bytes"].as_u64() > Some(0) && cell["down_bytes"].as_u64() > Some(0), "{cell}");
        assert!(cell["wall_s"].as_f64() > Some(0.0) && cell["cpu_s"].as_f64() > Some(0.0), "{cell}");
        assert!(cell["peak_memory"].as_u64() > Some(1 << 20), "{cell}");
        assert_eq!(cell["curve"].is_string(), way[1].starts_with("ecdh") || way[1] == "dp", "{cell}");
    }
}

/// The system counts the memory of whoever starts a program as the program's own. A report does not.
#[test]
fn memory_is_that_of_the_program_and_not_of_who_starts_it() {
    const MINE: usize = 128 << 20;
    let mine = std::hint::black_box(vec![1u8; MINE]);
    let ended = two::run(&["bench", "pir", "--protocol", "download", "--rows", "100", "--bytes", "2"]).good();
    let cell: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(cell["peak_memory"].as_u64() < Some(mine.len() as u64), "{cell}");
}

#[test]
fn nothing_in_common_and_no_rows_are_measured_too() {
    for rows in ["10,20", "0,5"] {
        let ended = bench(&["--protocol", "rr22", "--rows", rows, "--overlap", "0"]).good();
        let cell: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&cell["found"], &cell["exact"]), (&0.into(), &true.into()), "{cell}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    bench(&["--protocol", "rr23", "--rows", "10"]).bad(2, &["rr23", "rr22"]);
    bench(&["--protocol", "rr22", "--rows", "1,2,3"]).bad(2, &["two tables"]);
    bench(&["--protocol", "rr22", "--rows", "1e15"]).bad(2, &["--rows", "1000000000000000", "18 bytes"]);
    bench(&["--protocol", "rr22", "--rows", "10", "--overlap", "11"]).bad(2, &["--overlap", "11"]);
    bench(&["--protocol", "rr22", "--rows", "300", "--bytes", "2"]).bad(2, &["--bytes", "3"]);
    bench(&["--protocol", "kkrt", "--rows", "10", "--security", "malicious"]).bad(2, &["shared.security", "kkrt"]);
}
