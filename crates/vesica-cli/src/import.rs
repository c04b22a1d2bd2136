//! `vesica import`: the job file that another program's configuration means.

use crate::failure::{Failure, Outcome};
use crate::flags::{Import, Program};
use crate::{output, source};
use vesica_job::JobError;
use vesica_secretflow::Kind;

pub fn run(args: Import) -> Outcome {
    let Program::Secretflow = args.program;
    let kind = if args.kuscia { Kind::Kuscia } else { Kind::Launch };
    let imported = vesica_secretflow::load(&args.file, kind, &args.trust.meant())?;
    let mut spec = source::told(Some(&args.file), imported, |note| output::tell(&note));
    // A job's paths start at its own folder, SecretFlow's where it is started.
    let here = std::env::current_dir().map_err(Failure::file("cannot find", "the current folder"))?;
    spec.mine.anchor(&here);
    vesica_spec::plan(&spec)?;

    let text = format!("# What {} means, as a job of Vesica.\n\n{}", args.file.display(), spec.text());
    let Some(out) = args.out else { return output::result(&text) };
    let new = std::fs::File::create_new(&out);
    new.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|error| JobError::File { what: "cannot write the job to", path: out, error }.into())
}
