//! Totals at the sizes of jobs: nothing is lost, and a key costs as many bytes as its page says.

use vesica_oprf::opprf;
use vesica_params::{Level, cuckoo, lpn, okvs, target_bits, vole_base_bits};
use vesica_psi::circuit::{Circuit, Params, Total};
use vesica_session::{Found, Lines, Result, SessionRng, Shared, Unit};
use vesica_testkit::{digests, two};
use vesica_types::UnitId;

/// The sum over `rows` keys a side in `units` units, of which half are common and every key is worth 3; and the bytes that went both ways.
fn sum(rows: usize, units: u32, pad: usize) -> (i64, u64) {
    let keys = rows / units as usize;
    let capacity = (keys + pad) as u64;
    let bins = cuckoo::bins(capacity, units, Level::STANDARD).unwrap();
    let bits = target_bits(u64::from(bins) * u64::from(units), Level::STANDARD);
    assert_eq!(vole_base_bits(3 * capacity * u64::from(units), false, Level::STANDARD), 64);
    let shape = okvs::paxos(3 * capacity, units, Level::STANDARD).unwrap();
    let opprf = opprf::Params { session: [9; 32], bins, shape, bits, code: &lpn::SETS[0] };
    let side = |puts: bool| {
        move |lines: &mut Lines, rng: &mut SessionRng| -> Result<(Found, u64)> {
            let params = Params {
                opprf,
                puts,
                values: true,
                total: Total::Sum,
                least: None,
                i_learn: !puts,
                peer_learns: puts,
                fewer: rows as u64,
                noise: None,
            };
            let circuit = Circuit::<u64>::open(params, lines.peer()?, rng)?;
            let mut shares = Vec::new();
            for id in 0..units {
                let first = (id as usize * 2 * keys + if puts { 0 } else { keys / 2 }) as u64;
                let keys = digests(first, first + keys as u64);
                let values = vec![3; if puts { keys.len() } else { 0 }].into();
                let unit =
                    Unit { id: UnitId(id), keys, place: u8::from(!puts), capacities: vec![capacity as usize; 2] };
                shares.push(circuit.unit(&unit, &values, lines, &mut rng.unit(unit.id)?)?);
            }
            let found = circuit.open(&shares, [&[], &[]], lines, rng)?;
            let (sent, received) = lines.peer()?.meter().bytes();
            Ok((found, sent + received))
        }
    };
    let (puts, other) = two(side(true), side(false));
    let (nothing, bytes) = puts.unwrap();
    assert!(matches!(nothing, Found::Nothing));
    match other.unwrap().0 {
        Found::Sum(sum) => (sum, bytes),
        _ => panic!("who learns is told a sum"),
    }
}

#[test]
fn nothing_is_lost_of_thousands() {
    let (sum, bytes) = sum(4000, 1, 0);
    assert_eq!(sum, 3 * 2000);
    // Small units pay for the trees of a code that serves many more.
    assert!(bytes < 400 * 4000, "{bytes}");
}

#[test]
#[ignore = "takes a minute of CPU without all optimisation"]
fn a_key_of_a_million_costs_as_many_bytes_as_stated() {
    let (sum, bytes) = sum(1 << 20, 8, 2652);
    assert_eq!(sum, 3 << 19);
    let of_a_key = bytes as f64 / f64::from(1 << 20);
    assert!((90.0..150.0).contains(&of_a_key), "{of_a_key} bytes a key");
}
