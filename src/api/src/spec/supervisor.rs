//! `spec.supervisor`: settings of the program that runs the workers.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{quantity::Quantity, validation as rule};

/// Settings of the supervisor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupervisorSpec {
    /// The port of the supervisor's probes and metrics. Default: 9913.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub admin_port: Option<i32>,
    /// Seconds for which a pod that is told to stop keeps serving, so that load balancers forget it first; a part of
    /// `terminationGracePeriodSeconds`. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub lame_duck_seconds: Option<i32>,
    /// Seconds for which a worker that is told to stop may finish what it has begun. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub drain_seconds: Option<i32>,
    /// The signal that asks a worker to stop. Default: `SIGTERM` (`SIGQUIT` for `Nginx`, which then ends in order).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::stop_signal())]
    pub stop_signal: Option<String>,
    /// Seconds after which a worker that takes no connections from its queue is ended; 0: never. A worker that starts, is
    /// idle or is throttled is not taken for one that hangs. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub hang_timeout_seconds: Option<i32>,
    /// Seconds after which a worker is replaced, one at a time. Default: never. Example: `86400`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_age_seconds: Option<i32>,
    /// Memory of a worker's processes above which it is replaced, one at a time. Default: never. Example: `300Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::quantity(), validation = rule::positive_quantity())]
    pub max_memory: Option<Quantity>,
    /// Requests after which a worker is replaced, one at a time; counted for Node programs. Default: never. Example: `100000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_requests: Option<i32>,
    /// Requests after which a keep-alive connection ends, at an answer: clients then open another one, which may come to a pod
    /// that was added meanwhile. Varied by a tenth. Node, HTTP/1.1. Default: never. Example: `1000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connection_max_requests: Option<i32>,
    /// Seconds after which a keep-alive connection ends, at the next answer; as `connectionMaxRequests`. Default: never.
    /// Example: `60`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connection_max_age_seconds: Option<i32>,
    /// The app's own metrics, which each worker counts for itself: where it serves them, as `/PATH` on `spec.port` or as `PORT/PATH`
    /// on another declared port. The supervisor asks every worker and shows all at `/app-metrics` of its port, each sample with
    /// the label `worker`. Default: none. Example: `/metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::app_metrics())]
    #[schemars(length(max = 256))]
    pub app_metrics: Option<String>,
    /// Puts `[worker N] ` before each line that a worker writes. Default: false, and lines are passed on untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_prefix: Option<bool>,
    /// Whether Node programs get a small module, through `NODE_OPTIONS`, that ends keep-alive connections in order when a
    /// worker stops and measures the event loop. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_preload: Option<bool>,
}
