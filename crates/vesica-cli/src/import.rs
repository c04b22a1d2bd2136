//! `vesica import`: the document that another program's configuration means.

use crate::failure::{Failure, Outcome};
use crate::flags::{Import, Program};
use crate::{output, source};
use std::io::ErrorKind;
use std::path::Path;
use vesica_job::JobError;
use vesica_secretflow::{Client, Kind, Server, What};
use vesica_spec::SpecError;

pub fn run(args: Import) -> Outcome {
    let Program::Secretflow = args.program;
    let kind = if args.kuscia { Kind::Kuscia } else { Kind::Launch };
    let imported = vesica_secretflow::load(&args.file, kind, &args.trust.meant())?;
    let what = source::told(Some(&args.file), imported, |note| output::tell(&note));
    // A job's paths start at its own folder, SecretFlow's where it is started.
    let here = std::env::current_dir().map_err(Failure::file("cannot find", "the current folder"))?;
    let (kind, text) = match what {
        What::Job(mut spec) => {
            spec.mine.anchor(&here);
            vesica_spec::plan(&spec)?;
            ("a job of Vesica", spec.text())
        }
        What::Server(server) => ("the server of a service of Vesica", server_text(*server, &here)?),
        What::Client(client) => (
            "a client of a service of Vesica. Put the last line of the server's `vesica prepare` into service.offer",
            client_text(*client, &here)?,
        ),
    };
    let text = format!("# What {} means, as {kind}.\n\n{text}", args.file.display());
    let Some(out) = args.out else { return output::result(&text) };
    let new = std::fs::File::create_new(&out);
    new.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!(
            "--out {}: that file is there already, and is not replaced; move it away, or name another one",
            out.display()
        )),
        _ => JobError::File { what: "cannot write the job to", path: out, error }.into(),
    })
}

/// The document of a server that clients can be told of.
fn server_text(mut server: Server, here: &Path) -> Result<String, SpecError> {
    if !server.serves {
        return Err(SpecError::field(
            "ub_psi_config.mode",
            "MODE_OFFLINE_GEN_CACHE: the file does not say who may ask, and a document does. Import the server's file of MODE_FULL: \
             its store is made by `vesica prepare` and served by `vesica serve`",
        ));
    }
    if server.seed.is_some() {
        return Err(SpecError::field(
            "ub_psi_config.server_secret_key_path",
            "a document names no such file: `vesica prepare` makes a key and keeps it. Leave it out here; `vesica run --config` takes it",
        ));
    }
    server.spec.anchor(here);
    server.plan()?;
    Ok(server.spec.text())
}

/// The document of a client, without the offer, which the file cannot name.
fn client_text(mut client: Client, here: &Path) -> Result<String, SpecError> {
    client.spec.anchor(here);
    client.plan()?;
    Ok(client.spec.text())
}
