//! What a `psi_config` means as a job.
//!
//! All parties must end with the same `[shared]`, so it follows from fields alone that SecretFlow compares or needs to be
//! the same: the link's parties, their order and id, and the protocol's settings. What differs between the files
//! (role, addresses, files) goes into `[mine]`, after the roles have said who learns and who stands left.

use super::launch::{
    BucketConfig, Curve, EcdhConfig, IoConfig, IoType, JoinType, LaunchConfig, LinkConfig, LinkParty, Protocol,
    ProtocolConfig, PsiConfig, Role, Rr22Config,
};
use super::link::{Link, Trust};
use super::said::{Note, Result, refuse};
use std::collections::BTreeSet;
use std::path::PathBuf;
use vesica_spec::{
    Accept, CurveName, Extra, Format, Input, Join, Mine, Mode, Order, Origin, Output, ProtocolName, Shared, Spec,
};

/// The largest `shared.unit`.
const LARGEST_UNIT: u64 = 1 << 20;

/// The job of a `psi_config`: two parties.
pub(super) fn job(launch: &LaunchConfig, psi: &PsiConfig, trust: &Trust, notes: &mut Vec<Note>) -> Result<Spec> {
    let own = outer_or(&launch.self_link_party, &psi.self_link_party);
    let link = Link::of(outer_or(&launch.link_config, &psi.link_config), own, 2..=2, "a psi_config")?;
    let me = link.me();
    let sides = Sides::of(&link, psi)?;
    let insecure = link.insecure(trust, notes)?;
    let learns: Vec<String> = sides.order.iter().filter(|p| sides.learns(p, psi)).map(|p| p.id.clone()).collect();
    let i_learn = learns.contains(&me.id);
    let told = Told::of(psi, &sides, i_learn)?;
    let shared = Shared {
        id: link.id(),
        parties: sides.order.iter().map(|p| p.id.clone()).collect(),
        protocol: protocol(psi)?,
        curve: match psi.protocol_config.protocol {
            Protocol::Ecdh => {
                curve("psi_config.protocol_config.ecdh_config.curve", psi.protocol_config.ecdh_config.curve)?
            }
            _ => CurveName::default(),
        },
        mode: mode(psi),
        join: join(psi)?,
        accept: accept(psi)?,
        learns,
        unit: unit(psi, notes),
        insecure,
        ..Shared::default()
    };
    let (listen, connect) = (link.listen()?, link.connect()?);
    let tls = if insecure { None } else { Some(link.tls(trust)?) };
    let table = Origin::Path(csv("psi_config.input_config", &psi.input_config)?);
    let keys = keys("psi_config.keys", &psi.keys)?;
    let input = Input { keys, format: Some(Format::Csv), ..Input::of(table) };
    let mine = Mine {
        listen,
        connect,
        tls,
        output: i_learn.then(|| output(psi, told)).transpose()?,
        trace: Some(&psi.debug_options.trace_path).filter(|path| !path.is_empty()).map(PathBuf::from),
        resume: resume(psi)?,
        patience: link.patience(notes),
        ..Mine::of(me.id.clone(), input)
    };
    if psi.intersection_threshold > 0 {
        return refuse(
            "psi_config.intersection_threshold",
            format!(
                "{most}: no more than {most} common keys would be told, and there is no such cap here. Leave it out if all of \
                 them may be told; that nothing is told where there are too few is limits.min_intersection in a job file, \
                 as `vesica import secretflow` writes it",
                most = psi.intersection_threshold
            ),
        );
    }
    tell_what_has_no_meaning(launch, psi, told, notes);
    link.tell_what_has_no_meaning(trust, notes);
    Ok(Spec { shared, mine })
}

/// What stood in psi_config in early versions, unless it stands where it does now.
fn outer_or<'a, T: Default + PartialEq>(outer: &'a T, inner: &'a T) -> &'a T {
    if *outer == T::default() { inner } else { outer }
}

/// Who stands where.
struct Sides<'a> {
    /// Left, then right: as `left_side` says where that has a meaning, else the link's order.
    order: [&'a LinkParty; 2],
    peer: &'a LinkParty,
    receiver: &'a LinkParty,
}

impl<'a> Sides<'a> {
    fn of(link: &Link<'a>, psi: &PsiConfig) -> Result<Self> {
        let me = link.me();
        let [first, second] = [&link.parties()[0], &link.parties()[1]];
        let peer = if me.id == first.id { second } else { first };
        let (receiver, sender) = match psi.protocol_config.role {
            Role::Receiver => (me, peer),
            Role::Sender => (peer, me),
            role => {
                return refuse(
                    "psi_config.protocol_config.role",
                    format!("{}: write ROLE_RECEIVER or ROLE_SENDER", role),
                );
            }
        };
        let both = psi.protocol_config.broadcast_result;
        let order = match psi.left_side {
            _ if is_inner(psi) => [first, second],
            Role::Receiver | Role::Sender if !both => [first, second],
            Role::Receiver => [receiver, sender],
            Role::Sender => [sender, receiver],
            role => {
                return refuse(
                    "psi_config.left_side",
                    format!(
                        "{}: {} needs to know whose table is the left one, ROLE_RECEIVER's or ROLE_SENDER's",
                        role, psi.advanced_join_type
                    ),
                );
            }
        };
        Ok(Self { order, peer, receiver })
    }

    /// The receiver always, the sender if the result is broadcast.
    fn learns(&self, party: &LinkParty, psi: &PsiConfig) -> bool {
        party.id == self.receiver.id || psi.protocol_config.broadcast_result
    }
}

fn protocol(psi: &PsiConfig) -> Result<ProtocolName> {
    match psi.protocol_config.protocol {
        Protocol::Ecdh => Ok(ProtocolName::Ecdh),
        Protocol::Rr22 => Ok(ProtocolName::Rr22),
        Protocol::Kkrt => Ok(ProtocolName::Kkrt),
        Protocol::Unspecified => {
            refuse("psi_config.protocol_config.protocol", "is missing: write PROTOCOL_RR22 or another")
        }
    }
}

fn mode(psi: &PsiConfig) -> Mode {
    let rr22 = psi.protocol_config.protocol == Protocol::Rr22;
    if rr22 && psi.protocol_config.rr22_config.low_comm_mode { Mode::LowComm } else { Mode::Fast }
}

/// A curve that `field` names.
pub(super) fn curve(field: &str, curve: Curve) -> Result<CurveName> {
    match curve {
        // Both are the same group, and our hash to it is RFC 9380's Elligator 2 in either case.
        Curve::Curve25519 | Curve::Elligator2 => Ok(CurveName::Curve25519),
        Curve::FourQ => Ok(CurveName::FourQ),
        Curve::Sm2 => Ok(CurveName::Sm2),
        Curve::Secp256k1 => Ok(CurveName::Secp256k1),
        Curve::Invalid => refuse(field, "is missing: write CURVE_25519 or another"),
    }
}

fn is_inner(psi: &PsiConfig) -> bool {
    matches!(psi.advanced_join_type, JoinType::Unspecified | JoinType::Inner)
}

/// Left and right are sides of the job's parties, which stand as `left_side` says.
fn join(psi: &PsiConfig) -> Result<Join> {
    let both = psi.protocol_config.broadcast_result;
    match psi.advanced_join_type {
        JoinType::Unspecified | JoinType::Inner => Ok(Join::Inner),
        JoinType::Difference => Ok(Join::Difference),
        JoinType::Left if both => Ok(Join::Left),
        JoinType::Right if both => Ok(Join::Right),
        JoinType::Full if both => Ok(Join::Full),
        join => refuse(
            "psi_config.advanced_join_type",
            format!(
                "{join} where the receiver learns alone is its whole table, or its inner join and rows of nulls: write \
                 broadcast_result = true, or ADVANCED_JOIN_TYPE_INNER_JOIN"
            ),
        ),
    }
}

/// What SecretFlow's documentation says that the join tells: who asks for the join asks for that.
fn accept(psi: &PsiConfig) -> Result<Accept> {
    let shape = join(psi)?.shape();
    let told = [(shape.left, Extra::LeftUnmatched), (shape.right, Extra::RightUnmatched)];
    let both = psi.protocol_config.broadcast_result;
    Ok(Accept::Named(told.into_iter().filter_map(|(told, extra)| (told && both).then_some(extra)).collect()))
}

/// What this party gets, on which it depends what some fields mean.
#[derive(Clone, Copy)]
struct Told {
    /// A result.
    result: bool,
    /// Rows that line up with the other party's.
    pairs: bool,
    /// Rows of nulls among them.
    nulls: bool,
}

impl Told {
    fn of(psi: &PsiConfig, sides: &Sides<'_>, result: bool) -> Result<Self> {
        let pairs = psi.protocol_config.broadcast_result;
        let place = u8::from(sides.order[0].id == sides.peer.id);
        Ok(Self { result, pairs, nulls: pairs && join(psi)?.shape().half(place).theirs })
    }
}

fn output(psi: &PsiConfig, told: Told) -> Result<Output> {
    Ok(Output {
        path: csv("psi_config.output_config", &psi.output_config)?,
        format: Some(Format::Csv),
        null: Some(&psi.output_attr.csv_null_rep).filter(|null| told.nulls && !null.is_empty()).cloned(),
        order: if psi.disable_alignment && told.pairs { Order::Input } else { Order::Aligned },
        ..Output::default()
    })
}

/// SecretFlow's checkpoints, which keep secret keys in the clear, are our ledgers, which keep none.
fn resume(psi: &PsiConfig) -> Result<Option<PathBuf>> {
    match (psi.recovery_config.enabled, psi.recovery_config.folder.as_str()) {
        (false, _) => Ok(None),
        (true, "") => refuse("psi_config.recovery_config.folder", "is missing: where are finished units to be kept?"),
        (true, folder) => Ok(Some(PathBuf::from(folder))),
    }
}

/// SecretFlow's buckets are our units: so many keys are worked on at once.
fn unit(psi: &PsiConfig, notes: &mut Vec<Note>) -> Option<u32> {
    let (field, size) = match psi.protocol_config.protocol {
        Protocol::Kkrt => ("kkrt_config.bucket_size", psi.protocol_config.kkrt_config.bucket_size),
        Protocol::Rr22 => ("rr22_config.bucket_size", psi.protocol_config.rr22_config.bucket_size),
        _ => return None,
    };
    if size > LARGEST_UNIT {
        notes.push(Note::new(
            &format!("psi_config.protocol_config.{field}"),
            format!("{size} keys a bucket; a unit has at most {LARGEST_UNIT}"),
        ));
    }
    (size > 0).then_some(size.min(LARGEST_UNIT) as u32)
}

/// The key columns that `field` names.
pub(super) fn keys(field: &str, keys: &[String]) -> Result<Vec<String>> {
    if keys.is_empty() {
        return refuse(field, "is missing: name the columns that make up the key");
    }
    let mut seen = BTreeSet::new();
    match keys.iter().find(|key| !seen.insert(*key)) {
        Some(twice) => refuse(field, format!("\"{twice}\" is named twice")),
        None => Ok(keys.to_vec()),
    }
}

/// The path of a CSV file; relative ones start at the current folder, as with SecretFlow.
pub(super) fn csv(field: &str, io: &IoConfig) -> Result<PathBuf> {
    match io.r#type {
        IoType::Unspecified => refuse(&format!("{field}.type"), "is missing: write IO_TYPE_FILE_CSV"),
        IoType::Csv => path(&format!("{field}.path"), &io.path),
    }
}

pub(super) fn path(field: &str, path: &str) -> Result<PathBuf> {
    if path.is_empty() { refuse(field, "is missing") } else { Ok(PathBuf::from(path)) }
}

/// Fields that are set and change nothing, each with the reason.
fn tell_what_has_no_meaning(launch: &LaunchConfig, psi: &PsiConfig, told: Told, notes: &mut Vec<Note>) {
    let mut tell = |set: bool, field: &str, what: &str| {
        if set {
            notes.push(Note::new(field, what));
        }
    };
    let moved = "no effect: it stands in the launch configuration itself too, which comes first";
    tell(
        psi.link_config != LinkConfig::default() && psi.link_config != *outer_or(&launch.link_config, &psi.link_config),
        "psi_config.link_config",
        moved,
    );
    tell(
        !psi.self_link_party.is_empty()
            && psi.self_link_party != *outer_or(&launch.self_link_party, &psi.self_link_party),
        "psi_config.self_link_party",
        moved,
    );

    let ProtocolConfig { protocol, broadcast_result, ecdh_config, kkrt_config, rr22_config, .. } = &psi.protocol_config;
    let other = format!("no effect: the protocol is {protocol}");
    for (set, owner, field) in [
        (*ecdh_config != EcdhConfig::default(), Protocol::Ecdh, "ecdh_config"),
        (*kkrt_config != BucketConfig::default(), Protocol::Kkrt, "kkrt_config"),
        (*rr22_config != Rr22Config::default(), Protocol::Rr22, "rr22_config"),
    ] {
        tell(set && *protocol != owner, &format!("psi_config.protocol_config.{field}"), &other);
    }
    tell(
        *protocol == Protocol::Ecdh && ecdh_config.batch_size > 0,
        "psi_config.protocol_config.ecdh_config.batch_size",
        "no effect: messages are as large as units, which are chosen from the sizes",
    );

    let no_check = "SecretFlow has dropped this field; no effect: duplicate keys are allowed and joined as SQL does";
    tell(psi.skip_duplicates_check.is_some(), "psi_config.skip_duplicates_check", no_check);
    tell(psi.check_duplicates.is_some(), "psi_config.check_duplicates", no_check);
    tell(
        psi.sort_output.is_some(),
        "psi_config.sort_output",
        "SecretFlow has dropped this field; no effect: outputs line up without sorting",
    );
    tell(
        psi.input_attr.keys_unique,
        "psi_config.input_attr.keys_unique",
        "no effect: duplicate keys are found and joined, at no cost where there are none",
    );
    tell(
        psi.check_hash_digest,
        "psi_config.check_hash_digest",
        "no effect: the protocol runs even where both tables are the same, and finds the same result",
    );
    tell(
        !told.result && psi.output_config != IoConfig::default(),
        "psi_config.output_config",
        "no effect: broadcast_result is false, so this party gets no result and no file is written",
    );
    tell(
        told.result && is_inner(psi) && !broadcast_result,
        "psi_config.protocol_config.broadcast_result",
        "is false: a row whose key matches comes once, where SecretFlow repeats it for every such row of the sender's, and \
         so tells their number",
    );
    tell(
        !psi.recovery_config.enabled && !psi.recovery_config.folder.is_empty(),
        "psi_config.recovery_config.folder",
        "no effect: recovery is not enabled",
    );

    // What one field means depends on the join, and on who gets the result.
    let alone = "no effect: broadcast_result is false, and the rows of one party alone come in the input's order";
    tell(psi.disable_alignment && !told.pairs, "psi_config.disable_alignment", alone);
    let sided = psi.left_side != Role::Unspecified;
    tell(sided && is_inner(psi), "psi_config.left_side", "no effect: an inner join has no sides");
    tell(
        sided && !is_inner(psi) && !broadcast_result,
        "psi_config.left_side",
        "no effect: broadcast_result is false, and what the receiver gets does not depend on it",
    );
    tell(
        !psi.output_attr.csv_null_rep.is_empty() && !told.nulls,
        "psi_config.output_attr.csv_null_rep",
        match told {
            Told { result: false, .. } => "no effect: this party gets no result",
            _ if is_inner(psi) => "no effect: an inner join has no missing rows",
            _ => "no effect: this party's output has no missing rows",
        },
    );
    tell(!psi.count_path.is_empty(), "psi_config.count_path", "no effect: it belongs to intersection_threshold");
    tell(
        !psi.debug_options.logging_level.is_empty(),
        "psi_config.debug_options.logging_level",
        "no effect: --log and the environment variable VESICA_LOG say what is logged",
    );
}
