//! `vesica cert`: an identity in two files.

use crate::failure::Outcome;
use crate::flags::Cert;
use crate::output;
use vesica_job::JobError;
use vesica_job::identity::Identity;

pub fn run(args: Cert) -> Outcome {
    let identity = Identity::generate(&args.name).map_err(JobError::from)?;
    let (secret, public) = identity.write(&args.out).map_err(JobError::from)?;
    output::tell(&format!("{}: your private key; give it to nobody", output::shown(&secret)));
    output::tell(&format!(
        "{}: your certificate; partners may have it, and need this fingerprint:",
        output::shown(&public)
    ));
    output::result(&format!("{}\n", identity.fingerprint()))
}
