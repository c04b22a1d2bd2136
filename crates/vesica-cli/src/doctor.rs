//! `vesica doctor`: what this machine makes slow or impossible, and what to do.

use crate::failure::{Failure, Outcome};
use crate::flags::Doctor;
use crate::{interrupt, output, progress};
use vesica_job::doctor::{self, Patient, Symptom};
use vesica_job::{Fault, JobError};
use vesica_spec::service::{plan_ask, plan_serve};
use vesica_spec::{Document, RoadPlan, plan};

pub fn run(args: Doctor) -> Outcome {
    let mut patient = match args.document.as_deref().map(vesica_spec::load_any).transpose()? {
        None => Patient::default(),
        Some(Document::Job(spec)) => {
            let plan = plan(&spec)?;
            let connect = plan.peers.into_iter().filter_map(|peer| Some((peer.connect?, peer.road))).collect();
            Patient {
                scratch: plan.scratch.unwrap_or(std::env::temp_dir()),
                memory: plan.memory,
                identity: plan.identity,
                listen: plan.listen,
                connect,
                proxy: plan.proxy,
            }
        }
        Some(Document::Server(spec)) => {
            let plan = plan_serve(&spec)?;
            Patient {
                scratch: plan.scratch,
                memory: plan.memory,
                identity: plan.identity,
                listen: plan.listen,
                ..Patient::default()
            }
        }
        Some(Document::Client(spec)) => {
            let plan = plan_ask(&spec)?;
            Patient {
                scratch: plan.scratch,
                memory: plan.memory,
                identity: plan.identity,
                listen: None,
                connect: vec![(plan.address, plan.road)],
                proxy: plan.proxy,
            }
        }
    };
    patient.listen = args.listen.or(patient.listen);
    patient.connect.extend(args.connect.into_iter().map(|address| (address, RoadPlan::default())));
    let screen = progress::begin(progress::How::Shown);
    interrupt::stops(screen.control())?;
    let symptoms = doctor::doctor(&patient, screen.control())?;
    let over = screen.control().check();
    drop(screen);
    output::result(&doctor::in_words(&symptoms))?;
    over.map_err(JobError::from)?;
    let faults: Vec<Fault> = symptoms.iter().filter_map(Symptom::fault).collect();
    let failed = |words: String| {
        // What can be mended here comes before the network.
        let fault = if faults.contains(&Fault::Config) { Fault::Config } else { Fault::Network };
        Err(Failure::new(fault.exit_code(), words))
    };
    match faults.len() {
        0 => Ok(()),
        1 => failed("one thing would make a run fail; what to do stands below it".to_owned()),
        n => failed(format!("{n} things would make a run fail; what to do stands below each")),
    }
}
