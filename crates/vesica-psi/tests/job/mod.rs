//! A job by an OPRF, both sides in this process: unit after unit over one line, with a thread a side. For tests of size and
//! for benchmarks.

use vesica_block::Block;
use vesica_curve::Curve25519;
use vesica_okvs::Value;
use vesica_oprf::Oprf;
use vesica_oprf::bc22::{self, Bc22};
use vesica_oprf::dh::{self, Dh};
use vesica_oprf::kkrt;
use vesica_oprf::mini::{self, Mini};
use vesica_oprf::ot::{self, Ot};
use vesica_oprf::vole::{self, Field, Shape, Vole};
use vesica_ot::Security;
use vesica_params::okvs::{BandShape, PaxosShape};
use vesica_params::{Level, bins, code_width, cuckoo, lpn, okvs, tag_bytes};
use vesica_psi::oprf::{self, Role};
use vesica_session::{Result, SessionRng, Unit};
use vesica_testkit::{digests, two};
use vesica_types::{TagLen, UnitId};

/// The keys of both sides, unit by unit.
pub struct Job {
    /// The receiver's.
    pub xs: Vec<Unit>,
    /// The sender's.
    pub ys: Vec<Unit>,
    tag_len: TagLen,
}

impl Job {
    /// About `rows` keys a side in `units` units, half of them common, each unit padded by `pad` keys.
    pub fn new(rows: usize, units: u32, pad: usize) -> Self {
        let keys = rows / units as usize;
        let capacity = keys + pad;
        let side = |place: u8, skip: usize| {
            (0..units).map(move |unit| {
                let first = unit as usize * 2 * keys + skip;
                let keys = digests(first as u64, (first + keys) as u64);
                Unit { id: UnitId(unit), keys, place, capacities: vec![capacity; 2] }
            })
        };
        let all = (units as usize * capacity) as u64;
        Self {
            xs: side(0, 0).collect(),
            ys: side(1, keys / 2).collect(),
            tag_len: TagLen::new(tag_bytes(all, all, Level::STANDARD)).expect("a length of tags"),
        }
    }

    fn units(&self) -> u32 {
        self.xs.len() as u32
    }

    /// The receiver's keys of a unit, with padding.
    fn capacity(&self) -> u64 {
        self.xs[0].capacity() as u64
    }

    fn senders_keys(&self) -> u64 {
        self.capacity() * u64::from(self.units())
    }

    /// The places that the receiver finds, unit by unit.
    pub fn run<O: Oprf<Key: 'static>>(&self, function: O) -> Vec<Vec<u32>> {
        let side = |role: Role, units: &[Unit], lines: &mut _, rng: &mut SessionRng| -> Result<Vec<Vec<u32>>> {
            let lines: &mut vesica_session::Lines = lines;
            let params = oprf::Params { tag_len: self.tag_len, both: false };
            let psi = oprf::open(&function, role, params, lines.peer()?, rng)?;
            units.iter().map(|unit| psi.unit(unit, lines, &mut rng.unit(unit.id)?)).collect()
        };
        let (found, sent) = two(
            |lines, rng| side(Role::Receiver, &self.xs, lines, rng),
            |lines, rng| side(Role::Sender, &self.ys, lines, rng),
        );
        sent.expect("the receiver is honest");
        found.expect("the sender is honest")
    }

    /// RR22 with stores by triangulation.
    pub fn fast<B: Field + Value + 'static>(&self, security: Security) -> Vole<B, PaxosShape> {
        let shape = okvs::paxos(self.capacity(), self.units(), Level::STANDARD).expect("a unit is not too large");
        rr22(shape, security)
    }

    /// RR22 with stores by random bands.
    pub fn low_comm<B: Field + Value + 'static>(&self) -> Vole<B, BandShape> {
        let shape = okvs::band(&okvs::BAND_3, self.capacity(), self.units(), Level::STANDARD).expect("as above");
        rr22(shape, Security::SemiHonest)
    }

    /// Mini-PSI.
    pub fn mini(&self) -> Mini {
        let keys = self.capacity();
        let encoding = vesica_params::mini::encoding(keys, keys, self.units(), Level::STANDARD).expect("as above");
        Mini::new(mini::Params { session: [9; 32], encoding })
    }

    /// ECDH with one learner.
    #[allow(dead_code, reason = "the benchmark compares with it")]
    pub fn dh(&self) -> Dh<Curve25519> {
        Dh::new(dh::Params { session: [9; 32], keys: self.capacity() as usize })
    }

    /// PCG-PSI.
    pub fn bc22(&self, security: Security) -> Bc22 {
        let bins = bins::bins(self.capacity(), self.units(), Level::STANDARD).expect("as above");
        Bc22::new(bc22::Params { session: [9; 32], bins, code: &lpn::SETS[0], security })
    }

    /// KKRT.
    pub fn kkrt(&self) -> kkrt::Narrow {
        let bins = cuckoo::bins(self.capacity(), self.units(), Level::STANDARD).expect("as above");
        assert_eq!(code_width(3 * self.senders_keys(), Level::STANDARD), 192);
        kkrt::Narrow::new(kkrt::Params { session: [9; 32], bins })
    }

    /// The function from transfers, with the code that this size takes.
    pub fn ot<const K: usize, const W: usize, const R: usize>(&self, security: Security) -> Ot<K, W, R> {
        let shape = okvs::paxos(self.capacity(), self.units(), Level::STANDARD).expect("as above");
        let malicious = security == Security::Malicious;
        let code = vesica_params::bch::code(self.senders_keys(), malicious, Level::STANDARD);
        Ot::new(ot::Params { session: [9; 32], shape, code, security })
    }

    /// Whether 64 bits are enough for RR22's base field.
    pub fn small_field(&self) -> bool {
        vesica_params::vole_base_bits(self.senders_keys(), false, Level::STANDARD) == 64
    }

    /// RR22 as a job runs it in its fast mode.
    pub fn run_fast(&self) -> Vec<Vec<u32>> {
        match self.small_field() {
            true => self.run(self.fast::<u64>(Security::SemiHonest)),
            false => self.run(self.fast::<Block>(Security::SemiHonest)),
        }
    }
}

fn rr22<B: Field, S: Shape>(shape: S, security: Security) -> Vole<B, S> {
    Vole::new(vole::Params { session: [9; 32], shape, code: &lpn::SETS[0], security })
}
