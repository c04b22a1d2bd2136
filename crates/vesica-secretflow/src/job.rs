//! What a launch configuration means: which kind of run it asks for.

use super::launch::{LaunchConfig, LegacyConfig, PsiConfig, UbPsiConfig};
use super::link::Trust;
use super::said::{Note, Result, refuse};
use super::{What, legacy, translate, unbalanced};

/// What `launch` means.
///
/// # Errors
/// Everything that the file asks for and that cannot be honoured, by its field's name.
pub fn job(launch: &LaunchConfig, trust: &Trust, notes: &mut Vec<Note>) -> Result<What> {
    match runtime(launch)? {
        Runtime::Psi(psi) => translate::job(launch, psi, trust, notes).map(|spec| What::Job(Box::new(spec))),
        Runtime::Legacy(psi) => legacy::job(launch, psi, trust, notes).map(|spec| What::Job(Box::new(spec))),
        Runtime::Unbalanced(psi) => unbalanced::meant(launch, psi, trust, notes),
    }
}

/// The kinds of run that are here.
enum Runtime<'a> {
    /// A balanced intersection of two tables.
    Psi(&'a PsiConfig),
    /// One of three, as version 1 of the interface has it.
    Legacy(&'a LegacyConfig),
    /// An unbalanced intersection: a service and its client.
    Unbalanced(&'a UbPsiConfig),
}

fn runtime(launch: &LaunchConfig) -> Result<Runtime<'_>> {
    let kinds = [
        ("psi_config", launch.psi_config.is_some()),
        ("legacy_psi_config", launch.legacy_psi_config.is_some()),
        ("ub_psi_config", launch.ub_psi_config.is_some()),
        ("apsi_sender_config", launch.apsi_sender_config.is_some()),
        ("apsi_receiver_config", launch.apsi_receiver_config.is_some()),
        ("dk_pir_sender_config", launch.dk_pir_sender_config.is_some()),
        ("dk_pir_receiver_config", launch.dk_pir_receiver_config.is_some()),
        ("pir_config", launch.pir_config.is_some()),
    ];
    let given: Vec<&str> = kinds.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    match (given.as_slice(), &launch.psi_config, &launch.legacy_psi_config, &launch.ub_psi_config) {
        ([_], Some(psi), ..) => Ok(Runtime::Psi(psi)),
        ([_], _, Some(psi), _) => Ok(Runtime::Legacy(psi)),
        ([_], .., Some(psi)) => Ok(Runtime::Unbalanced(psi)),
        ([], ..) => refuse("psi_config", "is missing: the file says nothing of what to run"),
        ([one], ..) => refuse(
            one,
            "is not translated: private information retrieval is a service here, so write its two documents by hand, with protocol = \
             \"simple-pir\" or another of the page \"Retrieving rows\"",
        ),
        (several, ..) => refuse(several[1], format!("stands beside {}; a file asks for one run", several[0])),
    }
}
