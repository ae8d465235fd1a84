//! The metrics API: `custom.metrics.k8s.io`, served from what the supervisors measure, so that a HorizontalPodAutoscaler can
//! scale on requests in flight or on the event loop with nothing else installed.
//!
//! # Layout
//! In the order in which a number runs through it:
//! - [`pods`]: which pods there are, by a watch
//! - [`scrape`]: asks each pod's supervisor every few seconds; what it says is read by
//! - [`page`]: the supervisor's metrics page, and kept in the
//! - [`store`]: samples with their times → answers; pure, as is
//! - [`metric`]: the table of metrics, one row each
//! - [`answer`]: a request's path → a list of values or a failure, as JSON
//! - [`discovery`]: what the API says of itself
//! - [`server`]: TLS, and the router; before it answers, a request passes
//! - [`front_proxy`]: only the API server's own client certificate, and whom it speaks for
//! - [`authorize`]: whether that user may, asked by SubjectAccessReview
//!
//! How the API server comes to trust and find it:
//! - [`identity`]: a CA of this process alone, whose key never leaves its memory; no Secret is read or written
//! - [`bundle`]: the CAs of all replicas, as they stand in the APIService
//! - [`registration`]: the APIServices: made, kept, never taken from someone else, and removed at the end
//!
//! Beside it: [`selector`] (label selectors as text), [`cli`], [`probes`], [`connections`] and [`metrics`] (its own health and
//! numbers), `notify` (events about its Deployment), `run` (the wiring).

pub mod answer;
pub mod authorize;
pub mod bundle;
pub mod cli;
pub mod connections;
pub mod discovery;
pub mod front_proxy;
pub mod identity;
pub mod metric;
pub mod metrics;
pub mod page;
pub mod pods;
pub mod probes;
pub mod registration;
pub mod scrape;
pub mod selector;
pub mod server;
pub mod store;

mod notify;
mod run;

use std::time::Duration;

pub use run::{Failure, run};

/// The API group that is served.
pub const GROUP: &str = "custom.metrics.k8s.io";
/// Its versions, the preferred one first.
pub const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// What the metrics API is run with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespaces whose pods are measured; empty: all.
    pub namespaces: Vec<String>,
    /// How often each pod is asked.
    pub interval: Duration,
    /// Where it stands in the cluster.
    pub place: Place,
    /// How long the API server goes on being served after a stop was asked for: until it no longer sends requests here.
    pub lame_duck: Duration,
}

/// Where the metrics API stands in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its namespace.
    pub namespace: String,
    /// The Service by which the API server finds it.
    pub service: String,
    /// The port of that Service.
    pub port: u16,
    /// The Deployment that runs it. Empty: none, as in a test.
    pub deployment: String,
    /// The ClusterRole that owns the APIServices, so that they go with the installation. Empty: none.
    pub cluster_role: String,
    /// The name of this replica's pod.
    pub pod: String,
}
