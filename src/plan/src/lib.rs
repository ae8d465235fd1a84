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
//! - `deployment`, `service`, `autoscaler`: one file for each kind of child
//! - `problem`, `warning`: what is wrong, and what is worth telling

pub mod digest;
pub mod effective;
pub mod problem;
pub mod runtime;
pub mod warning;
pub mod workers;

mod autoscaler;
mod deployment;
mod metadata;
mod service;
mod supervisor;

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{LimitRange, Service},
};
use kube::ResourceExt as _;
use workerapp_api::WorkerApp;

pub use effective::Effective;
pub use metadata::selector;
pub use problem::{Invalid, Problem};
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
    /// What works as it was asked for and yet may surprise.
    pub warnings: Vec<Warning>,
}

/// The child objects, without owner references: those need the app's uid, which only a cluster gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// Runs the pods.
    pub deployment: Deployment,
    /// Makes them reachable.
    pub service: Service,
    /// Scales them; `None` without `spec.autoscaling`.
    pub autoscaler: Option<HorizontalPodAutoscaler>,
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

    let warnings = warning::find(app, profile, &effective, &workers);
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
        autoscaler: app.spec.autoscaling.as_ref().map(|autoscaling| autoscaler::build(app, autoscaling)),
    };
    Ok(Plan { workers, effective, children, warnings })
}
