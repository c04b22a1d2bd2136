//! From the job's protocol, known by name only at run time, to its units at work.

use crate::agree::Agreed;
use crate::curve::{WithGroup, with_group};
use crate::error::JobError;
use crate::plan::{IN_FLIGHT, Plan, Sizes};
use crate::spec::{Mode, ProtocolName, Security};
use crate::units::{self, Work};
use std::marker::PhantomData;
use std::time::Instant;
use vesica_block::Block;
use vesica_curve::{Blind, Dst, Points, SecretScalar};
use vesica_oprf::Oprf;
use vesica_oprf::dh::{self, Dh};
use vesica_oprf::kkrt::{self, Kkrt};
use vesica_oprf::vole::{self, Field, Shape, Vole};
use vesica_params::Level;
use vesica_params::lpn::{self, CodeSet};
use vesica_params::{cuckoo, okvs};
use vesica_psi::ecdh::{self, Ecdh};
use vesica_psi::oprf::{OprfPsi, Role};
use vesica_session::{Channel, Meter, SessionRng, Unit, memory};
use vesica_types::{Digest, UnitId};
use zeroize::Zeroizing;

/// Opens the protocol and runs the units, if there are any that not both have finished. Returns what they cost.
///
/// # Errors
/// Those of opening, and of [`units::run`].
pub fn run(plan: &Plan, agreed: &Agreed, work: Work<'_>, rng: &mut SessionRng) -> Result<Meter, JobError> {
    if work.done.iter().all(|done| *done) {
        return Ok(Meter::default());
    }
    match plan.shared.protocol {
        ProtocolName::Ecdh if plan.all_learn() => with_group(plan.shared.curve, RunEcdh { plan, agreed, work, rng }),
        _ => with_oprf(plan, &agreed.sizes, RunOprf { plan, agreed, work, rng }),
    }
}

/// What a job of these sizes will cost on this machine.
///
/// # Errors
/// If units are too large for the protocol.
pub fn cost(plan: &Plan, sizes: &Sizes) -> Result<Cost, JobError> {
    match plan.shared.protocol {
        ProtocolName::Ecdh if plan.all_learn() => Ok(with_group(plan.shared.curve, CostOfEcdh { sizes })),
        ProtocolName::Ecdh => Ok(with_group(plan.shared.curve, CostOfDh { plan, sizes })),
        _ => with_oprf(plan, sizes, CostOfOprf { plan, sizes }),
    }
}

/// Ids of the parameter sets that a job takes, whatever its sizes: both parties must have the same, or keys match nothing.
pub fn sets(plan: &Plan) -> Vec<&'static str> {
    match (plan.shared.protocol, plan.shared.mode) {
        (ProtocolName::Ecdh, _) => plan.curve.iter().map(|set| set.id).collect(),
        (ProtocolName::Kkrt, _) => vec![cuckoo::CUCKOO.id],
        (ProtocolName::Rr22, Mode::Fast) => vec![okvs::PAXOS.id, CODE.id],
        (ProtocolName::Rr22, _) => vec![okvs::BAND_3.id, CODE.id],
    }
}

/// The parameters of a job of these sizes: its sets, and what follows from the sizes.
pub fn parameters(plan: &Plan, sizes: &Sizes) -> Vec<String> {
    let sized = match plan.shared.protocol {
        ProtocolName::Ecdh => None,
        ProtocolName::Kkrt => Some(format!("code-width-{}", code_width(plan, sizes))),
        ProtocolName::Rr22 => Some(format!("base-field-{}", base_bits(plan, sizes))),
    };
    sets(plan).into_iter().map(str::to_owned).chain(sized).collect()
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

/// The code of silent VOLEs.
const CODE: &CodeSet = &lpn::SETS[0];

/// log2 of the size of RR22's base field.
fn base_bits(plan: &Plan, sizes: &Sizes) -> u32 {
    let malicious = plan.shared.security == Security::Malicious;
    vesica_params::vole_base_bits(senders_keys(plan, sizes), malicious, Level::STANDARD)
}

/// Bits of KKRT's codewords: each of the sender's keys meets what is in three bins.
fn code_width(plan: &Plan, sizes: &Sizes) -> usize {
    vesica_params::code_width(senders_keys(plan, sizes).saturating_mul(3), Level::STANDARD)
}

/// The sender's keys in the whole job, padded.
fn senders_keys(plan: &Plan, sizes: &Sizes) -> u64 {
    let unit = if role(plan) == Role::Sender { sizes.capacity } else { sizes.peer_capacity };
    unit.saturating_mul(u64::from(sizes.units))
}

/// What this party does in an OPRF: where both learn, the first party receives and tells the other.
fn role(plan: &Plan) -> Role {
    match plan.i_learn() && !(plan.all_learn() && plan.me.place() != 0) {
        true => Role::Receiver,
        false => Role::Sender,
    }
}

/// An OPRF with its parameters, of which either side can be opened.
trait Choice: Copy + Sync {
    type Oprf: Oprf;

    fn open(
        self,
        role: Role,
        session: [u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> vesica_session::Result<Self::Oprf>;
}

/// Something to do with an OPRF that is known by name only at run time.
trait WithOprf {
    type Out;

    fn with<C: Choice>(self, choice: C) -> Result<Self::Out, JobError>;
}

/// Does `work` with the OPRF of the job's protocol, for units of these sizes.
fn with_oprf<W: WithOprf>(plan: &Plan, sizes: &Sizes, work: W) -> Result<W::Out, JobError> {
    let n = if role(plan) == Role::Receiver { sizes.capacity } else { sizes.peer_capacity };
    let (units, level) = (sizes.units, Level::STANDARD);
    if plan.shared.protocol == ProtocolName::Ecdh {
        return with_group(plan.shared.curve, WithDh { keys: n as usize, work });
    }
    let name = plan.shared.protocol.name();
    let too_large =
        || JobError::Setup(format!("units of {n} keys are too large for {name}; give a smaller shared.unit, or none"));
    if plan.shared.protocol == ProtocolName::Kkrt {
        let bins = cuckoo::bins(n, units, level).ok_or_else(too_large)?;
        return work.with(KkrtChoice { bins, width: code_width(plan, sizes) });
    }
    let security = match plan.shared.security {
        Security::SemiHonest => vesica_ot::Security::SemiHonest,
        Security::Malicious => vesica_ot::Security::Malicious,
    };
    let small = base_bits(plan, sizes) == 64;
    match plan.shared.mode {
        Mode::Fast => with_shape(okvs::paxos(n, units, level).ok_or_else(too_large)?, small, security, work),
        Mode::LowComm => {
            with_shape(okvs::band(&okvs::BAND_3, n, units, level).ok_or_else(too_large)?, small, security, work)
        }
    }
}

fn with_shape<S: Shape, W: WithOprf>(
    shape: S,
    small: bool,
    security: vesica_ot::Security,
    work: W,
) -> Result<W::Out, JobError> {
    match small {
        true => work.with(Rr22Choice { shape, security, field: PhantomData::<u64> }),
        false => work.with(Rr22Choice { shape, security, field: PhantomData::<Block> }),
    }
}

#[derive(Clone, Copy)]
struct Rr22Choice<B, S> {
    shape: S,
    security: vesica_ot::Security,
    field: PhantomData<B>,
}

impl<B: Field, S: Shape> Choice for Rr22Choice<B, S> {
    type Oprf = Vole<B, S>;

    fn open(
        self,
        role: Role,
        session: [u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> vesica_session::Result<Vole<B, S>> {
        let params = vole::Params { session, shape: self.shape, code: CODE, security: self.security };
        match role {
            Role::Receiver => Vole::receiver(params, ch, rng),
            Role::Sender => Vole::sender(params, ch, rng),
        }
    }
}

#[derive(Clone, Copy)]
struct KkrtChoice {
    bins: u32,
    width: usize,
}

impl Choice for KkrtChoice {
    type Oprf = Kkrt;

    fn open(
        self,
        role: Role,
        session: [u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> vesica_session::Result<Kkrt> {
        let params = kkrt::Params { session, bins: self.bins, width: self.width };
        match role {
            Role::Receiver => Kkrt::receiver(params, ch, rng),
            Role::Sender => Kkrt::sender(params, ch, rng),
        }
    }
}

/// Picks Diffie-Hellman in a group, for this many keys of the receiver's a unit.
struct WithDh<W> {
    keys: usize,
    work: W,
}

impl<W: WithOprf> WithGroup for WithDh<W> {
    type Out = Result<W::Out, JobError>;

    fn with<G: Blind>(self) -> Self::Out {
        self.work.with(DhChoice { keys: self.keys, group: PhantomData::<G> })
    }
}

#[derive(Clone, Copy)]
struct DhChoice<G> {
    keys: usize,
    group: PhantomData<G>,
}

impl<G: Blind> Choice for DhChoice<G> {
    type Oprf = Dh<G>;

    fn open(
        self,
        role: Role,
        session: [u8; 32],
        ch: &mut dyn Channel,
        rng: &mut SessionRng,
    ) -> vesica_session::Result<Dh<G>> {
        let params = dh::Params { session, keys: self.keys };
        match role {
            Role::Receiver => Dh::receiver(params, ch),
            Role::Sender => Dh::sender(params, ch, rng),
        }
    }
}

struct RunOprf<'a> {
    plan: &'a Plan,
    agreed: &'a Agreed,
    work: Work<'a>,
    rng: &'a mut SessionRng,
}

impl WithOprf for RunOprf<'_> {
    type Out = Meter;

    fn with<C: Choice>(self, choice: C) -> Result<Meter, JobError> {
        let Self { plan, agreed, work, rng } = self;
        let mut ch = work.link.line("base")?;
        ch.step("base");
        let oprf = choice.open(role(plan), agreed.salt, &mut *ch, rng)?;
        let mut meter = ch.meter();
        drop(ch);
        let protocol = OprfPsi::new(oprf, role(plan), agreed.sizes.tag_len, plan.all_learn());
        meter.merge(&units::run(&protocol, work, rng)?);
        Ok(meter)
    }
}

/// Runs a unit of random keys with itself, in memory: what it sends is what every unit sends.
struct CostOfOprf<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
}

impl WithOprf for CostOfOprf<'_> {
    type Out = Cost;

    fn with<C: Choice>(self, choice: C) -> Result<Cost, JobError> {
        let Self { plan, sizes } = self;
        let (mut here, mut there) = memory::pair(&plan.me, &plan.peer().party);
        let (mine, theirs) = match role(plan) {
            Role::Sender => (Role::Sender, Role::Receiver),
            Role::Receiver => (Role::Receiver, Role::Sender),
        };
        let side = |role: Role, ch: &mut memory::Memory, capacity: u64, peer_capacity: u64, seed: u8| {
            let mut rng = SessionRng::from_seed(Zeroizing::new([seed; 32]));
            let oprf = choice.open(role, [0; 32], ch, &mut rng)?;
            let base = ch.meter().bytes();
            let mut keys: Vec<Digest> = (0..capacity).map(|_| Digest(rng.bytes())).collect();
            keys.sort_unstable();
            let (capacity, peer_capacity) = (capacity as usize, peer_capacity as usize);
            let unit = Unit { id: UnitId(0), keys, capacity, peer_capacity };
            let protocol = OprfPsi::new(oprf, role, sizes.tag_len, plan.all_learn());
            let start = Instant::now();
            protocol.over(&unit, ch, &mut rng)?;
            Ok::<_, JobError>((base, ch.meter().bytes(), start.elapsed()))
        };
        let (base, all, wall) = std::thread::scope(|scope| {
            scope.spawn(|| side(theirs, &mut there, sizes.peer_capacity, sizes.capacity, 2).map(drop));
            side(mine, &mut here, sizes.capacity, sizes.peer_capacity, 1)
        })?;
        let units = u64::from(sizes.units);
        Ok(Cost {
            sent: base.0 + units * (all.0 - base.0),
            received: base.1 + units * (all.1 - base.1),
            cpu_s: wall.as_secs_f64() * units as f64,
            memory: 200, // sparse vectors or columns, stores and values; an estimate from their sizes
        })
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

    fn with<G: Blind>(self) -> Self::Out {
        let Self { plan, agreed, work, rng } = self;
        let params = ecdh::Params { session: agreed.salt, tag_len: agreed.sizes.tag_len, place: plan.me.place() };
        units::run(&Ecdh::<G>::open(&params, rng), work, rng)
    }
}

/// Masks some keys, and masks them again.
struct CostOfEcdh<'a> {
    sizes: &'a Sizes,
}

impl WithGroup for CostOfEcdh<'_> {
    type Out = Cost;

    fn with<G: Blind>(self) -> Cost {
        let (mask, wire) = timed(|keys| {
            let mut wire = Vec::new();
            G::hash(&Dst::new(b"vesica-forecast"), keys).mul(&scalar::<G>()).encode(&mut wire);
            wire
        });
        let (mask_again, _) = timed(|_| {
            let mut again = Vec::new();
            if let Ok(points) = G::decode(&wire, &[0; 32]) {
                points.mul(&scalar::<G>()).encode(&mut again);
            }
        });

        let Self { sizes } = self;
        let units = u64::from(sizes.units);
        let (mine, theirs) = (sizes.capacity * units, sizes.peer_capacity * units);
        let (element, tag) = (G::WIRE as u64, sizes.tag_len.bytes() as u64);
        Cost {
            sent: mine * element + theirs * tag + units * ecdh::COMMITTED,
            received: theirs * element + mine * tag + units * ecdh::COMMITTED,
            cpu_s: mine as f64 * mask + theirs as f64 * mask_again,
            memory: IN_FLIGHT,
        }
    }
}

/// Blinds some keys, evaluates them and takes the blinding off.
struct CostOfDh<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
}

impl WithGroup for CostOfDh<'_> {
    type Out = Cost;

    fn with<G: Blind>(self) -> Cost {
        let (dst, k, coins) = (Dst::new(b"vesica-forecast"), scalar::<G>(), [0; 32]);
        let mut rng = SessionRng::from_seed(Zeroizing::new([1; 32]));
        let (blind, (blinds, blinded)) = timed(|keys| {
            let mut wire = Vec::new();
            (G::blind(&dst, keys, &mut |bytes| rng.fill(bytes), &mut wire), wire)
        });
        let (mask, _) = timed(|keys| {
            let mut wire = Vec::new();
            G::hash(&dst, keys).mul(&k).encode(&mut wire);
        });
        // Of one's own elements nothing is refused.
        let mut evaluated = Vec::new();
        let (evaluate, _) = timed(|_| G::evaluate(&k, &blinded, &coins, &mut evaluated));
        let key = G::key(&G::public(&k));
        let (unblind, _) = timed(|_| key.map(|key| G::unblind(&key, blinds, &evaluated, &coins, &mut Vec::new())));

        let Self { plan, sizes } = self;
        let units = u64::from(sizes.units);
        let receives = role(plan) == Role::Receiver;
        let (n, m) = match receives {
            true => (sizes.capacity, sizes.peer_capacity),
            false => (sizes.peer_capacity, sizes.capacity),
        };
        let to_sender = units * n * G::WIRE as u64;
        let list = OprfPsi::<Dh<G>>::list_bytes(m as usize, sizes.tag_len) as u64;
        let to_receiver = G::EVALUATED as u64 + units * (n * G::EVALUATED as u64 + list);
        let (n, m) = ((n * units) as f64, (m * units) as f64);
        match receives {
            true => Cost { sent: to_sender, received: to_receiver, cpu_s: n * (blind + unblind), memory: IN_FLIGHT },
            false => Cost { sent: to_receiver, received: to_sender, cpu_s: n * evaluate + m * mask, memory: IN_FLIGHT },
        }
    }
}

/// A scalar for a measurement.
fn scalar<G: Blind>() -> G::Scalar {
    G::Scalar::from_uniform(&[1; 64])
}

/// Does something with some keys: seconds a key, and what came of it.
fn timed<T>(work: impl FnOnce(&[Digest]) -> T) -> (f64, T) {
    let keys: Vec<Digest> = (0..4096u32).map(|i| Digest(u128::from(i).to_le_bytes())).collect();
    let start = Instant::now();
    let out = work(&keys);
    (start.elapsed().as_secs_f64() / keys.len() as f64, out)
}
