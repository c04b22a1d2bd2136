//! Kuscia's task files: the launch configurations of all parties, and where the cluster put this one.

use super::json::{self, Kind, Value, Wrong};
use super::launch::{LaunchConfig, LinkParty};
use super::message::{Read, message, plain};
use super::said::Note;
use std::collections::BTreeMap;

message! {
    /// `psi/proto/kuscia.proto`: what the cluster knows of the task.
    ClusterDefine {
        parties: Vec<Party>,
        self_party_idx: u64,
        self_endpoint_idx: u64,
    }
}

message! {
    /// A party of the task.
    Party {
        name: String,
        role: String,
        services: Vec<Service>,
    }
}

message! {
    /// Where a party can be reached.
    Service {
        port_name: String,
        endpoints: Vec<String>,
    }
}

message! {
    /// This party's ports.
    AllocatedPorts {
        ports: Vec<Port>,
    }
}

message! {
    /// A port.
    Port {
        name: String,
        port: u64,
        scope: String,
        protocol: String,
    }
}

message! {
    /// Every party's launch configuration.
    TaskInputConfig {
        sf_psi_config_map: BTreeMap<String, LaunchConfig>,
    }
}

/// A task file: its parts are JSON in texts.
#[derive(Default)]
struct Task {
    task_id: String,
    task_input_config: Inner<TaskInputConfig>,
    task_cluster_def: Inner<ClusterDefine>,
    allocated_ports: Inner<AllocatedPorts>,
}

/// A message in a text of its own.
#[derive(Default)]
struct Inner<T>(T);

impl<T: Read> Read for Inner<T> {
    fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        let Kind::Text(text) = &value.kind else { return self.0.read(value) };
        // Places inside the text are of little use to who looks at the file; the field's name is.
        let read = json::parse(text).and_then(|inner| self.0.read(&inner));
        read.map_err(|wrong| Wrong { at: value.at, ..wrong })
    }
}

/// The launch configuration of the task's own party, as SecretFlow's adapter puts it together: parties in the order of
/// their names, this one at its first port on every interface, the others at the first endpoint of their first service.
/// The task's id names the job.
///
/// # Errors
/// If the file lacks one of its four parts or a part lacks what is needed.
pub fn launch(task: &Value) -> Result<(LaunchConfig, Vec<Note>), Wrong> {
    let (task, mut notes) = Task::read(task)?;
    let missing = |what: &str| Wrong::new(0, format!("the task names no {what}"));
    let cluster = task.task_cluster_def.0;
    let own = usize::try_from(cluster.self_party_idx).ok().and_then(|i| cluster.parties.get(i));
    let own = own.ok_or_else(|| missing("party at self_party_idx").within("task_cluster_def"))?.name.clone();
    let mut configs = task.task_input_config.0.sf_psi_config_map;
    let mut launch = configs
        .remove(&own)
        .ok_or_else(|| missing(&format!("configuration for {own:?}")).within("task_input_config.sf_psi_config_map"))?;
    if !launch.link_config.parties.is_empty() {
        let wrong = Wrong::new(0, "the cluster says who the parties are; leave them out here");
        return Err(wrong.within(&format!("task_input_config.sf_psi_config_map.{own}.link_config.parties")));
    }
    let port = task.allocated_ports.0.ports.first().ok_or_else(|| missing("port").within("allocated_ports.ports"))?;

    let mut hosts = BTreeMap::new();
    for party in cluster.parties {
        let host = if party.name == own {
            format!("0.0.0.0:{}", port.port)
        } else {
            let endpoint = party.services.into_iter().next().and_then(|service| service.endpoints.into_iter().next());
            endpoint
                .ok_or_else(|| missing(&format!("endpoint of {:?}", party.name)).within("task_cluster_def.parties"))?
        };
        hosts.insert(party.name, host);
    }
    launch.link_config.parties = hosts.into_iter().map(|(id, host)| LinkParty { id, host }).collect();
    for (field, given, own) in
        [("link_config.id", &launch.link_config.id, &task.task_id), ("self_link_party", &launch.self_link_party, &own)]
    {
        if !given.is_empty() && given != own {
            notes.push(Note::new(field, format!("no effect: the task says {own:?}")));
        }
    }
    launch.link_config.id = task.task_id;
    launch.self_link_party = own;
    Ok((launch, notes))
}

impl Task {
    /// Other members than the four that are needed have no meaning to SecretFlow either.
    fn read(value: &Value) -> Result<(Self, Vec<Note>), Wrong> {
        let (mut task, mut notes) = (Task::default(), Vec::new());
        for (name, value) in value.object()? {
            match name.text.as_str() {
                "task_id" => task.task_id.read(value),
                "task_input_config" => task.task_input_config.read(value),
                "task_cluster_def" => task.task_cluster_def.read(value),
                "allocated_ports" => task.allocated_ports.read(value),
                _ => {
                    notes.push(Note::new(&name.text, "is no part of a task that SecretFlow reads; it has no effect"));
                    Ok(())
                }
            }
            .map_err(|wrong| wrong.within(&name.text))?;
        }
        Ok((task, notes))
    }
}
