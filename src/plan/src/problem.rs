//! What makes a spec impossible, beyond what the API server checks by itself.
//!
//! Every problem is found before anything is applied, and all of them are told at once.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::VolumeMount;
use thiserror::Error;
use workerapp_api::{WorkerApp, names};

use crate::{
    runtime::Profile,
    service,
    supervisor::admin_port,
    workers::{MOST_WORKERS, Workers},
};

/// A spec that can't be carried out.
#[derive(Debug, Error, PartialEq)]
#[error("WorkerApp {name}: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid {
    /// The app's name.
    pub name: String,
    /// Everything that is wrong, in the order of the spec.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// A quantity is far too large for a number of workers to follow from it.
    #[error(
        "spec.resources would mean {count} workers in each pod ({reason}), and at most {MOST_WORKERS} are possible: correct the CPU quantity, or set spec.workers.max or spec.workers.count"
    )]
    TooManyWorkers {
        /// The number that was worked out.
        count: i128,
        /// How.
        reason: String,
    },
    /// Two ports of the Service have the same number.
    #[error(
        "the Service would have port {port} twice, as {first} and {second}: change spec.service.port, spec.service.metrics.port or the port in spec.ports"
    )]
    ServicePortTwice {
        /// The number.
        port: i32,
        /// The first port's name.
        first: String,
        /// The other's.
        second: String,
    },
    /// The same node port is asked for twice.
    #[error(
        "node port {node_port} is asked for twice, by the ports {first} and {second}: give one of them another nodePort, or none"
    )]
    NodePortTwice {
        /// The number.
        node_port: i32,
        /// The first port's name.
        first: String,
        /// The other's.
        second: String,
    },
    /// The runtime serves metrics on a port that the app or the supervisor uses.
    #[error(
        "the runtime serves its own metrics on port {port}, which is also {other}: move that to another port"
    )]
    MetricsPortTaken {
        /// The number.
        port: i32,
        /// What else uses it.
        other: String,
    },
    /// A mount that hides the supervisor, or lets the app write to it.
    #[error(
        "spec.volumeMounts has {path} from the volume {volume}: /workerapp and the volume workerapp are the supervisor's, and nothing may be mounted over them; choose another path or volume"
    )]
    ReservedMount {
        /// Where it would be mounted.
        path: String,
        /// What.
        volume: String,
    },
    /// A variable with a name that no process can have.
    #[error("spec.env has a variable named {name:?}: a name must not be empty and must not hold '='")]
    VariableName {
        /// The name.
        name: String,
    },
}

pub(crate) fn find(app: &WorkerApp, profile: &Profile, workers: &Workers) -> Vec<Problem> {
    let mut problems = Vec::new();
    if workers.count > MOST_WORKERS {
        problems.push(Problem::TooManyWorkers { count: workers.count, reason: workers.reason.clone() });
    }
    problems.extend(ports(app, profile));
    problems.extend(
        app.spec.volume_mounts.iter().filter(|mount| hides_the_supervisor(mount)).map(|mount| {
            Problem::ReservedMount { path: mount.mount_path.clone(), volume: mount.name.clone() }
        }),
    );
    for variable in
        app.spec.env.iter().filter(|variable| variable.name.is_empty() || variable.name.contains('='))
    {
        problems.push(Problem::VariableName { name: variable.name.clone() });
    }
    problems
}

/// At the supervisor's directory, below it or above it, however it is spelt.
fn hides_the_supervisor(mount: &VolumeMount) -> bool {
    let parts: Vec<_> = mount.mount_path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let first = names::SUPERVISOR_DIR.trim_start_matches('/');
    mount.name == names::VOLUME_SUPERVISOR || parts.first().is_none_or(|part| *part == first)
}

fn ports(app: &WorkerApp, profile: &Profile) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut numbers = BTreeMap::new();
    let mut node_ports = BTreeMap::new();
    for port in service::ports(app, profile) {
        let name = port.name.unwrap_or_default();
        if let Some(first) = numbers.insert(port.port, name.clone()) {
            problems.push(Problem::ServicePortTwice { port: port.port, first, second: name.clone() });
        }
        if let Some(node_port) = port.node_port
            && let Some(first) = node_ports.insert(node_port, name.clone())
        {
            problems.push(Problem::NodePortTwice { node_port, first, second: name });
        }
    }

    if let Some(metrics) = profile.metrics_port {
        let mut taken = vec![
            (app.spec.port, "spec.port".to_owned()),
            (admin_port(app), "the supervisor's admin port".into()),
        ];
        taken.extend(
            app.spec.ports.iter().map(|extra| (extra.port, format!("the port {} in spec.ports", extra.name))),
        );
        problems.extend(
            taken
                .into_iter()
                .filter(|(port, _)| *port == metrics)
                .map(|(port, other)| Problem::MetricsPortTaken { port, other }),
        );
    }
    problems
}
