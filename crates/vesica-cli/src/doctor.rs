//! `vesica doctor`: what this machine makes slow or impossible, and what to do.

use crate::failure::{Failure, Outcome};
use crate::flags::Doctor;
use crate::output;
use vesica_job::doctor::{self, Advice, Patient};
use vesica_spec::service::{plan_ask, plan_serve};
use vesica_spec::{Document, plan};

pub fn run(args: Doctor) -> Outcome {
    let mut patient = match args.document.as_deref().map(vesica_spec::load_any).transpose()? {
        None => Patient::default(),
        Some(Document::Job(spec)) => {
            let plan = plan(&spec)?;
            let connect = plan.peers.into_iter().filter_map(|peer| peer.connect).collect();
            Patient {
                scratch: plan.scratch.unwrap_or(std::env::temp_dir()),
                memory: plan.memory,
                listen: plan.listen,
                connect,
            }
        }
        Some(Document::Server(spec)) => {
            let plan = plan_serve(&spec)?;
            Patient { scratch: plan.scratch, memory: plan.memory, listen: plan.listen, connect: Vec::new() }
        }
        Some(Document::Client(spec)) => {
            let plan = plan_ask(&spec)?;
            Patient { scratch: plan.scratch, memory: plan.memory, listen: None, connect: vec![plan.address] }
        }
    };
    patient.listen = args.listen.or(patient.listen);
    patient.connect.extend(args.connect);
    let symptoms = doctor::doctor(&patient);
    output::result(&doctor::in_words(&symptoms))?;
    match symptoms.iter().filter(|one| matches!(one.advice, Some(Advice::Broken(_)))).count() {
        0 => Ok(()),
        1 => Err(Failure::usage("one thing would make a run fail; what to do stands below it")),
        n => Err(Failure::usage(format!("{n} things would make a run fail; what to do stands below each"))),
    }
}
