//! What a WorkerApp becomes: the number of workers with its reason, the child objects, and warnings. Pure.
//!
//! [`plan`] reads a [`WorkerApp`] and some [`Facts`] about the cluster and returns a [`Plan`], or every [`Problem`] of the spec
//! at once. It has no client, no clock and no environment: the same input gives the same plan, byte for byte. The operator
//! applies what stands in [`Children`]; the command line prints it.
//!
//! # Layout
//! - `effective`: the CPU and memory that the container will really have
//! - `workers`: WORKERS
//! - `runtime`: the table of runtime profiles
//! - `supervisor`: the flags of the program that stands in front of the app's own
//! - `children`: all kinds of children
//! - `deployment`, `service`, `autoscaler`, `keda`, `disruption_budget`, `network_policy`, `monitor`: one file for each
//! - `burst`: when an app needs more pods at once
//! - `pause`: whether they are to be left alone
//! - `room`: whether as many pods fit on the nodes
//! - `problem`, `warning`: what is wrong, and what is worth telling

pub mod burst;
pub mod children;
pub mod digest;
pub mod effective;
pub mod keda;
pub mod monitor;
pub mod pause;
pub mod problem;
pub mod room;
pub mod runtime;
pub mod warning;
pub mod workers;

mod autoscaler;
mod deployment;
mod disruption_budget;
mod metadata;
mod network_policy;
mod service;
mod supervisor;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{core::v1::LimitRange, policy::v1::PodDisruptionBudget};
use kube::{Resource as _, ResourceExt as _};
use workerapp_api::WorkerApp;

pub use autoscaler::Served;
pub use burst::Bursts;
pub use children::{Child, Children};
pub use effective::Effective;
pub use keda::ScaledObject;
pub use metadata::selector;
pub use monitor::PodMonitor;
pub use pause::Pause;
pub use problem::{Invalid, Problem};
pub use room::NodeSize;
pub use warning::Warning;
pub use workers::Workers;

/// What the plan has to know beside the WorkerApp itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The image that holds the supervisor: the operator's own.
    pub supervisor_image: String,
    /// When that image is pulled, as in a container; Kubernetes' default where it is `None`.
    pub supervisor_pull_policy: Option<String>,
    /// The LimitRanges of the app's namespace, whose defaults fill in what the spec leaves out.
    pub limit_ranges: Vec<LimitRange>,
    /// The disruption budgets of the app's namespace that no app controls.
    pub foreign_budgets: Vec<PodDisruptionBudget>,
    /// The namespace in which the operator runs, where that is known: it may always ask the supervisors.
    pub operator_namespace: Option<String>,
    /// Optional kinds of children that this cluster doesn't have, by name. Example: `PodMonitor`.
    pub absent: Vec<&'static str>,
    /// Which of the workers' metrics an autoscaler would get an answer for.
    pub served: Served,
    /// Pods that the app keeps at least while a burst runs, whatever else its autoscaler has for a minimum.
    pub floor: Option<i32>,
    /// The nodes: sizes, and how many there are of each; `None`: nobody has looked.
    pub nodes: Option<Arc<BTreeMap<NodeSize, i128>>>,
}

impl Facts {
    /// Whether the cluster knows PodMonitors.
    pub(crate) fn monitors(&self) -> bool {
        self.has(&PodMonitor::kind(&()))
    }

    /// Whether the cluster has KEDA.
    pub(crate) fn keda(&self) -> bool {
        self.has(&ScaledObject::kind(&()))
    }

    fn has(&self, kind: &str) -> bool {
        !self.absent.contains(&kind)
    }
}

/// What a WorkerApp becomes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many workers each pod runs, and why.
    pub workers: Workers,
    /// The CPU and memory that the app's container will have.
    pub effective: Effective,
    /// The objects that stand for the app.
    pub children: Children,
    /// By what its bursts are seen; `None`: there are none.
    pub bursts: Option<Bursts>,
    /// What works as it was asked for and yet may surprise.
    pub warnings: Vec<Warning>,
}

/// Works out what `app` becomes.
///
/// # Errors
/// [`Invalid`] with every problem of the spec; then nothing of it may be applied.
pub fn plan(app: &WorkerApp, facts: &Facts) -> Result<Plan, Invalid> {
    let effective = Effective::of(app, facts);
    let profile = runtime::profile(app.spec.runtime.unwrap_or_default());
    let workers = Workers::of(&app.spec, &effective);

    let problems = problem::find(app, profile, &workers);
    if !problems.is_empty() {
        return Err(Invalid { name: app.name_any(), problems });
    }

    let basis = autoscaler::Basis { app, profile, effective: &effective, workers: &workers, facts };
    let foreign = disruption_budget::foreign(app, facts);
    let warnings = warning::find(&basis, foreign.as_deref());
    let bursts = burst::of(&basis);
    // A LimitRange's limit reaches the supervisor through the container's cgroup. It stays out of the pod template, so that
    // editing a LimitRange restarts no pod.
    let seed = match &effective.cpu_limit {
        Some(limit) if limit.limit_range.is_some() => {
            Workers::of(&app.spec, &Effective::of(app, &Facts::default()))
        }
        _ => workers.clone(),
    };
    let children = Children {
        deployment: deployment::build(app, profile, &seed, facts),
        service: service::build(app, profile),
        autoscaler: basis.autoscaler(),
        scaled_object: basis.scaled_object(),
        disruption_budget: disruption_budget::build(app).filter(|_| foreign.is_none()),
        network_policy: network_policy::build(app, profile, facts),
        monitor: monitor::build(app, profile).filter(|_| facts.monitors()),
    };
    Ok(Plan { workers, effective, children, bursts, warnings })
}
