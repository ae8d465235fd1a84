//! The operator: keeps Deployments, Services and HorizontalPodAutoscalers as WorkerApps say.
//!
//! What a child looks like is decided by `workerapp-plan`; this crate knows when, whether and how it is written.
//!
//! # Layout
//! In the order in which an edit runs through it:
//! - [`cache`]: what is known of the cluster; watches fill it and put apps into the
//! - [`queue`]: which apps are to be looked at, edits first; emptied by the
//! - [`controller`]: wiring, bounded concurrency, backoff, stop; it calls
//! - `reconcile`: one look at one app, dereference → plan → apply → status
//! - `dereference`: gathers what a look reads
//! - `apply`: the only place that writes children
//! - `status`: the only place that writes a WorkerApp, and only its status
//! - `nodes`: how large the nodes are
//! - `served`: asks which of the workers' metrics autoscalers can be given
//! - `burst`: asks the workers' metrics themselves, for apps that need more pods at once
//! - `inquiry`: asks the supervisor of a pod that isn't ready why
//! - `events`: what is worth telling, beside the path
//! - [`error`]: one variant per cause; its name is the condition's reason, the event's and the metric's
//!
//! Beside it: [`leader`] (which of several operators works), `outage` (whether the API server can be reached), `namespaces` and
//! `definition` (whether what the operator needs is there), `context` (what every look has at hand), `health` and [`http`]
//! (probes and metrics), [`metrics`], `requests` (counts what is written), [`cli`], [`telemetry`].

pub mod cache;
pub mod cli;
pub mod controller;
pub mod error;
pub mod http;
pub mod kind;
pub mod leader;
pub mod metrics;
pub mod queue;
pub mod telemetry;

mod apply;
mod backoff;
mod burst;
mod context;
mod definition;
mod dereference;
mod events;
mod health;
mod inquiry;
mod namespaces;
mod nodes;
mod outage;
mod reconcile;
mod requests;
mod served;
mod status;
mod sync;

use std::time::Duration;

pub use controller::{RunError, run, run_elected};

/// What the operator is run with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespaces that are looked after; empty: all.
    pub namespaces: Vec<String>,
    /// The image that holds the supervisor.
    pub supervisor_image: String,
    /// When that image is pulled, as in a container.
    pub supervisor_pull_policy: Option<String>,
    /// How many apps are worked on at the same time.
    pub concurrency: usize,
    /// How often an app is looked at although nothing happened.
    pub resync: Duration,
}
