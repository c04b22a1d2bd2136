//! From the job's protocol, known by name only at run time, to its units at work.

use crate::agree::Agreed;
use crate::curve::{WithGroup, with_group};
use crate::error::JobError;
use crate::plan::{Plan, Sizes};
use crate::spec::{ProtocolName, Security};
use crate::units::{self, Work};
use std::time::Instant;
use vesica_block::Block;
use vesica_curve::{Dst, Group, Points, SecretScalar};
use vesica_oprf::vole::{self, Field, Vole};
use vesica_params::Level;
use vesica_params::lpn::{self, CodeSet};
use vesica_params::okvs::{self, PaxosShape};
use vesica_psi::ecdh::{self, Ecdh};
use vesica_psi::oprf::{OprfPsi, Role};
use vesica_session::{Channel, Meter, SessionRng, Unit, memory};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// Opens the protocol and runs the units. Returns what they cost.
///
/// # Errors
/// Those of opening, and of [`units::run`].
pub fn run(plan: &Plan, agreed: &Agreed, work: Work<'_>, rng: &mut SessionRng) -> Result<Meter, JobError> {
    match plan.shared.protocol {
        ProtocolName::Ecdh => with_group(plan.shared.curve, RunEcdh { plan, agreed, work, rng }),
        ProtocolName::Rr22 => {
            let rr22 = Rr22::of(plan, &agreed.sizes)?;
            match rr22.base_bits {
                64 => rr22.run::<u64>(plan, agreed, work, rng),
                _ => rr22.run::<Block>(plan, agreed, work, rng),
            }
        }
    }
}

/// Ids of the parameter sets that a job of these sizes takes.
///
/// # Errors
/// Those of [`Rr22::of`].
pub fn parameters(plan: &Plan, sizes: &Sizes) -> Result<Vec<String>, JobError> {
    match plan.curve {
        Some(set) => Ok(vec![set.id.to_owned()]),
        None => Ok(Rr22::of(plan, sizes)?.parameters()),
    }
}

struct RunEcdh<'a> {
    plan: &'a Plan,
    agreed: &'a Agreed,
    work: Work<'a>,
    rng: &'a mut SessionRng,
}

impl WithGroup for RunEcdh<'_> {
    type Out = Result<Meter, JobError>;

    fn with<G: Group>(self) -> Self::Out {
        let Self { plan, agreed, work, rng } = self;
        let params = ecdh::Params {
            session: agreed.salt,
            tag_len: agreed.sizes.tag_len,
            i_learn: plan.i_learn(),
            peer_learns: plan.learns(&plan.peer().party),
        };
        units::run(&Ecdh::<G>::open(&params, rng), work, rng)
    }
}

/// What a job costs this party, going by a moment's measurement.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes to send and to receive, before encryption.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// Seconds of CPU.
    pub cpu_s: f64,
    /// Bytes of memory for each key, mine or the peer's, of a unit in flight.
    pub memory: u64,
}

/// What a job of these sizes will cost on this machine.
///
/// # Errors
/// Those of [`Rr22::of`].
pub fn cost(plan: &Plan, sizes: &Sizes) -> Result<Cost, JobError> {
    match plan.shared.protocol {
        ProtocolName::Ecdh => Ok(with_group(plan.shared.curve, CostOfEcdh { plan, sizes })),
        ProtocolName::Rr22 => {
            let rr22 = Rr22::of(plan, sizes)?;
            match rr22.base_bits {
                64 => rr22.cost::<u64>(plan, sizes),
                _ => rr22.cost::<Block>(plan, sizes),
            }
        }
    }
}

/// Masks some keys, and masks them again.
struct CostOfEcdh<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
}

impl WithGroup for CostOfEcdh<'_> {
    type Out = Cost;

    fn with<G: Group>(self) -> Cost {
        let keys: Vec<Digest> = (0..4096u32).map(|i| Digest(u128::from(i).to_le_bytes())).collect();
        let scalar = G::Scalar::from_uniform(&[1; 64]);
        let (mut wire, mut again) = (Vec::new(), Vec::new());
        let start = Instant::now();
        G::hash(&Dst::new(b"vesica-forecast"), &keys).mul(&scalar).encode(&mut wire);
        let mask = start.elapsed().as_secs_f64() / keys.len() as f64;
        let start = Instant::now();
        if let Ok(points) = G::decode(&wire, &[0; 32]) {
            points.mul(&scalar).encode(&mut again);
        }
        let mask_again = start.elapsed().as_secs_f64() / keys.len() as f64;

        let Self { plan, sizes } = self;
        let units = u64::from(sizes.units);
        let (mine, theirs) = (sizes.capacity * units, sizes.peer_capacity * units);
        let (element, tag) = (G::WIRE as u64, sizes.tag_len.bytes() as u64);
        let for_learner = |learns: bool, keys: u64| if learns { keys * tag } else { 0 };
        Cost {
            sent: mine * element + for_learner(plan.learns(&plan.peer().party), theirs),
            received: theirs * element + for_learner(plan.i_learn(), mine),
            cpu_s: mine as f64 * mask + theirs as f64 * mask_again,
            memory: 220, // points, encodings, tags and their order; measured
        }
    }
}

/// RR22 as a job's sizes make it.
#[derive(Clone, Copy, Debug)]
pub struct Rr22 {
    /// What this party does.
    pub role: Role,
    /// log2 of the base field's size: 64 or 128.
    pub base_bits: u32,
    /// The store of a unit.
    pub shape: PaxosShape,
    /// The code of the VOLE.
    pub code: &'static CodeSet,
    security: vesica_ot::Security,
}

impl Rr22 {
    /// # Errors
    /// If units are larger than any store.
    pub fn of(plan: &Plan, sizes: &Sizes) -> Result<Self, JobError> {
        // Where both learn, the first party receives and tells the other.
        let receives = plan.i_learn() && !(plan.all_learn() && plan.me.place() != 0);
        let (role, n, m) = match receives {
            true => (Role::Receiver, sizes.capacity, sizes.peer_capacity),
            false => (Role::Sender, sizes.peer_capacity, sizes.capacity),
        };
        let shape = okvs::paxos(n, sizes.units, Level::STANDARD).ok_or_else(|| {
            JobError::Setup(format!("units of {n} keys are too large for rr22; give a smaller shared.unit, or none"))
        })?;
        let malicious = plan.shared.security == Security::Malicious;
        let all = m.saturating_mul(u64::from(sizes.units));
        Ok(Self {
            role,
            base_bits: vesica_params::vole_base_bits(all, malicious, Level::STANDARD),
            shape,
            code: &lpn::SETS[0],
            security: if malicious { vesica_ot::Security::Malicious } else { vesica_ot::Security::SemiHonest },
        })
    }

    /// Ids of the parameter sets.
    pub fn parameters(&self) -> Vec<String> {
        vec![okvs::PAXOS.id.to_owned(), self.code.id.to_owned(), format!("base-field-{}", self.base_bits)]
    }

    fn run<B: Field>(
        self,
        plan: &Plan,
        agreed: &Agreed,
        work: Work<'_>,
        rng: &mut SessionRng,
    ) -> Result<Meter, JobError> {
        let mut ch = work.link.line("base")?;
        let oprf = self.open::<B>(agreed.salt, &mut *ch, rng)?;
        let protocol = OprfPsi::new(oprf, self.role, agreed.sizes.tag_len, plan.all_learn());
        let mut meter = units::run(&protocol, work, rng)?;
        meter.merge(&ch.meter());
        Ok(meter)
    }

    /// Runs a unit of random keys with itself, in memory: what it sends is what every unit sends.
    fn cost<B: Field>(self, plan: &Plan, sizes: &Sizes) -> Result<Cost, JobError> {
        let (mut here, mut there) = memory::pair(&plan.me, &plan.peer().party);
        let other = Self { role: if self.role == Role::Sender { Role::Receiver } else { Role::Sender }, ..self };
        let run = |side: Self, ch: &mut memory::Memory, capacity: u64, peer_capacity: u64, seed: u8| {
            let mut rng = SessionRng::from_seed(Zeroizing::new([seed; 32]));
            let oprf = side.open::<B>([0; 32], ch, &mut rng)?;
            let base = ch.meter().bytes();
            let mut keys: Vec<Digest> = (0..capacity).map(|_| Digest(rng.bytes())).collect();
            keys.sort_unstable();
            let unit = Unit { id: UnitId(0), keys, capacity: capacity as usize, peer_capacity: peer_capacity as usize };
            let protocol = OprfPsi::new(oprf, side.role, sizes.tag_len, plan.all_learn());
            let start = Instant::now();
            protocol.over(&unit, ch, &mut rng)?;
            Ok::<_, JobError>((base, ch.meter().bytes(), start.elapsed()))
        };
        let (base, all, wall) = std::thread::scope(|scope| {
            scope.spawn(|| run(other, &mut there, sizes.peer_capacity, sizes.capacity, 2).map(drop));
            run(self, &mut here, sizes.capacity, sizes.peer_capacity, 1)
        })?;
        let units = u64::from(sizes.units);
        Ok(Cost {
            sent: base.0 + units * (all.0 - base.0),
            received: base.1 + units * (all.1 - base.1),
            cpu_s: wall.as_secs_f64() * units as f64,
            memory: 160, // sparse vectors, stores and values; measured
        })
    }

    fn open<B: Field>(
        self,
        session: [u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> vesica_session::Result<Vole<B, PaxosShape>> {
        ch.step("base");
        let params = vole::Params { session, shape: self.shape, code: self.code, security: self.security };
        match self.role {
            Role::Receiver => Vole::receiver(params, ch, rng),
            Role::Sender => Vole::sender(params, ch, rng),
        }
    }
}
