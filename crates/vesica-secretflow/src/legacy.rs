//! Version 1 of SecretFlow's interface, as far as version 2 has nothing in its place: intersections of three and more tables,
//! `ECDH_PSI_3PC`, `ECDH_PSI_NPC` and `KKRT_PSI_NPC` (its Python calls the latter two `PROTOCOL_ECDH_NPC` and
//! `PROTOCOL_KKRT_NPC`), and `BC22_PSI_2PC`.
//!
//! `ECDH_PSI_NPC` and `KKRT_PSI_NPC` chain intersections of two parties there, so that parties learn what pairs of tables have in
//! common. Here both are `rr22` against any coalition, which tells nobody that.
//!
//! Of three with `ECDH_PSI_3PC`, with SecretFlow the party at `receiver_rank` is the master, the one after it in the link the calculator, the one after that
//! the partner. Here the parties stand in that order, so that everyone learns what it would learn there, and the master does not
//! learn how many keys the other two have in common.

use super::launch::{Curve, LaunchConfig, LegacyConfig, OutputParams, PsiType};
use super::link::{Link, Trust};
use super::said::{Note, Result, refuse};
use super::translate::{curve, keys, path};
use vesica_spec::{Accept, CurveName, Extra, Format, Input, Mine, Order, Origin, Output, ProtocolName, Shared, Spec};

/// The most parties of a job.
const MOST_PARTIES: usize = 16;

/// The job of a `legacy_psi_config`.
///
/// # Errors
/// Everything that it asks for and that cannot be honoured, by its field's name.
pub fn job(launch: &LaunchConfig, psi: &LegacyConfig, trust: &Trust, notes: &mut Vec<Note>) -> Result<Spec> {
    let (protocol, parties) = match psi.psi_type {
        PsiType::EcdhOfThree => (ProtocolName::Ecdh, 3..=3),
        PsiType::EcdhOfMany | PsiType::KkrtOfMany => (ProtocolName::Rr22, 2..=MOST_PARTIES),
        PsiType::Bc22 => (ProtocolName::Bc22, 2..=2),
        PsiType::Invalid => return refuse("legacy_psi_config.psi_type", "is missing: write ECDH_PSI_3PC"),
        unbalanced @ (PsiType::UnbalancedCache
        | PsiType::UnbalancedTransfer
        | PsiType::UnbalancedOffline
        | PsiType::UnbalancedOnline
        | PsiType::UnbalancedShuffle) => {
            return refuse(
                "legacy_psi_config.psi_type",
                format!(
                    "{unbalanced}: SecretFlow refuses it too; write a ub_psi_config, which has a mode for each of these steps"
                ),
            );
        }
        other => {
            return refuse(
                "legacy_psi_config.psi_type",
                format!(
                    "{other}: of version 1 of SecretFlow's interface only ECDH_PSI_3PC, ECDH_PSI_NPC, KKRT_PSI_NPC and BC22_PSI_2PC \
                     are read; write the same as a psi_config, which is version 2"
                ),
            );
        }
    };
    let link = Link::of(&launch.link_config, &launch.self_link_party, parties, &format!("psi_type {}", psi.psi_type))?;
    let mut order: Vec<String> = link.parties().iter().map(|party| party.id.clone()).collect();
    match usize::try_from(psi.receiver_rank) {
        Ok(rank) if rank < order.len() => order.rotate_left(rank),
        _ => {
            return refuse(
                "legacy_psi_config.receiver_rank",
                format!("{}: link_config.parties are counted from 0 to {}", psi.receiver_rank, order.len() - 1),
            );
        }
    }
    notes.push(Note::new("legacy_psi_config.psi_type", what_differs(psi, &order)));
    let insecure = link.insecure(trust, notes)?;
    if insecure && protocol == ProtocolName::Rr22 && order.len() > 2 {
        let field = if *trust == Trust::Insecure { "--insecure" } else { "link_config.enable_ssl" };
        return refuse(
            field,
            format!(
                "psi_type {} does not go without TLS between more than two parties: two of them agree on keys that the others must not \
                 see. Make an identity with `vesica cert NAME`, tell each other the fingerprints, and add --identity NAME.pem, \
                 and --trust OTHER=sha256:… for each other party",
                psi.psi_type
            ),
        );
    }
    let name = link.me().id.clone();
    let learns = if psi.broadcast_result { order.clone() } else { vec![order[0].clone()] };
    let output = learns.contains(&name).then(|| output(&psi.output_params)).transpose()?;
    tell_what_has_no_meaning(psi, output.is_some(), notes);
    let shared = Shared {
        id: link.id(),
        parties: order,
        protocol,
        curve: match psi.curve_type {
            _ if !protocol.has_curve() => CurveName::default(),
            // As SecretFlow's operator has it where none is given.
            Curve::Invalid => CurveName::Curve25519,
            given => curve("legacy_psi_config.curve_type", given)?,
        },
        accept: Accept::Named(if protocol == ProtocolName::Ecdh { vec![Extra::PairCount] } else { Vec::new() }),
        learns,
        insecure,
        ..Shared::default()
    };
    let (listen, connect) = (link.listen()?, link.connect()?);
    let tls = if insecure { None } else { Some(link.tls(trust)?) };
    let table = Origin::Path(path("legacy_psi_config.input_params.path", &psi.input_params.path)?);
    let keys = keys("legacy_psi_config.input_params.select_fields", &psi.input_params.select_fields)?;
    let input = Input { keys, format: Some(Format::Csv), ..Input::of(table) };
    let patience = link.patience(notes);
    let mine = Mine { listen, connect, tls, output, patience, ..Mine::of(name, input) };
    link.tell_what_has_no_meaning(trust, notes);
    Ok(Spec { shared, mine })
}

/// What the job does otherwise than SecretFlow, or tells besides the result, for parties in the job's order.
fn what_differs(psi: &LegacyConfig, order: &[String]) -> String {
    match (psi.psi_type, order) {
        (PsiType::EcdhOfThree, [receiver, calculator, partner]) => format!(
            "{calculator} learns how many keys it and {partner} have in common, as with SecretFlow, where {receiver} learns it too; \
             shared.accept says so"
        ),
        (PsiType::Bc22, _) => format!(
            "bc22 works in a field of 128 bits: SecretFlow's has 61, and its secret can be found by trying all{}",
            if psi.broadcast_result {
                "; a key in several rows of both tables gives a row for every pair of these"
            } else {
                ""
            }
        ),
        (other, _) => format!(
            "{other} is protocol = \"rr22\" here, for as many parties at once: with SecretFlow intersections of two parties follow each \
             other, and parties learn which keys two tables have in common; here nobody does, whoever colludes"
        ),
    }
}

/// The rows come in the input's order, as with SecretFlow.
fn output(params: &OutputParams) -> Result<Output> {
    Ok(Output {
        path: path("legacy_psi_config.output_params.path", &params.path)?,
        format: Some(Format::Csv),
        order: Order::Input,
        ..Output::default()
    })
}

/// Fields that are set and change nothing, each with the reason.
fn tell_what_has_no_meaning(psi: &LegacyConfig, learns: bool, notes: &mut Vec<Note>) {
    let of_three = psi.psi_type == PsiType::EcdhOfThree;
    let unbalanced = "no effect: it belongs to unbalanced intersections";
    for (set, field, what) in [
        (
            psi.input_params.precheck,
            "input_params.precheck",
            "no effect: duplicate keys are allowed, every row whose key matches comes once, and a row without a key matches nothing",
        ),
        (
            learns && psi.output_params.need_sort,
            "output_params.need_sort",
            "no effect: the rows come in the input's order; sort them by their keys for outputs that line up",
        ),
        (
            !learns && psi.output_params != OutputParams::default(),
            "output_params",
            "no effect: broadcast_result is false, so this party gets no result and no file is written",
        ),
        (
            psi.bucket_size > 0,
            "bucket_size",
            if of_three {
                "no effect: all keys are matched at once, in bounded memory"
            } else {
                "no effect: units are chosen from the sizes"
            },
        ),
        (
            !of_three && psi.curve_type != Curve::Invalid,
            "curve_type",
            "no effect: the protocol works in no group of a curve",
        ),
        (!psi.preprocess_path.is_empty(), "preprocess_path", unbalanced),
        (!psi.ecdh_secret_key_path.is_empty(), "ecdh_secret_key_path", unbalanced),
        (psi.dppsi_params.is_some(), "dppsi_params", "no effect: it belongs to DP_PSI_2PC"),
    ] {
        if set {
            notes.push(Note::new(&format!("legacy_psi_config.{field}"), what));
        }
    }
}
