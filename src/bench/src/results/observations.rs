//! What was seen at the server while a run took place. The caller fills this in: this crate knows no cluster. What wasn't
//! looked at stays absent, and a gate that needs it says that it could not be checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was seen at the server, from the begin to the end of the measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observations {
    /// The pods that served; absent if nobody looked.
    #[serde(default)]
    pub pods: Option<Vec<Pod>>,
    /// How many pods were ready, and when; absent if nobody looked. The first entry is the state at the begin.
    #[serde(default)]
    pub replicas: Option<Vec<Replicas>>,
    /// The target's autoscaler, if it has one.
    #[serde(default)]
    pub autoscaler: Option<Autoscaler>,
    /// CPU of all pods together.
    #[serde(default)]
    pub cpu: Option<ServerCpu>,
    /// The workers in the pods.
    #[serde(default)]
    pub workers: Vec<Worker>,
    /// Good answers per second that kept the latency promised, if one was; see [`crate::Report::within`].
    #[serde(default)]
    pub goodput_per_second: Option<f64>,
    /// Anything else worth a line in the report.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A pod that served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Where it ran.
    #[serde(default)]
    pub node: String,
    /// Restarts of its containers and of its workers, during the run.
    #[serde(default)]
    pub restarts: u64,
    /// Probes that failed during the run.
    #[serde(default)]
    pub probe_failures: u64,
    /// Requests that it answered during the run.
    #[serde(default)]
    pub requests: Option<u64>,
    /// CPUs that it used, on average.
    #[serde(default)]
    pub used_cores: Option<f64>,
    /// Scheduling periods in which it was held back by its CPU limit, in percent of those in which it ran.
    #[serde(default)]
    pub throttled_percent: Option<f64>,
}

/// How many pods there were at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replicas {
    /// Since the begin of the measurement.
    pub seconds: f64,
    /// Pods that got requests.
    pub ready: u32,
    /// Pods that were wanted.
    #[serde(default)]
    pub wanted: Option<u32>,
}

/// An autoscaler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Autoscaler {
    /// It can read its metric and may scale.
    pub active: bool,
    /// Why not, in its own words.
    #[serde(default)]
    pub reason: Option<String>,
    /// It is meant to change the number of replicas in this run: then a change is no fault.
    #[serde(default)]
    pub expected_to_scale: bool,
    /// The fewest pods.
    #[serde(default)]
    pub min: Option<u32>,
    /// The most.
    #[serde(default)]
    pub max: Option<u32>,
}

/// CPU of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCpu {
    /// CPUs used, on average over the run.
    pub used_cores: f64,
    /// CPUs that it may use: the sum of its containers' limits, and of the requests of those without one. Absent if one has neither.
    #[serde(default)]
    pub available_cores: Option<f64>,
    /// The part of these that it didn't use, in percent; 0 if it used more than it requested.
    #[serde(default)]
    pub idle_percent: Option<f64>,
    /// Scheduling periods in which it was held back by its limit, in percent of those in which it ran.
    #[serde(default)]
    pub throttled_percent: Option<f64>,
}

/// A worker in a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// The pod's name.
    pub pod: String,
    /// The worker's number or name.
    pub name: String,
    /// Requests that it answered during the run.
    #[serde(default)]
    pub requests: Option<u64>,
    /// CPUs that it used, on average.
    #[serde(default)]
    pub used_cores: Option<f64>,
}

impl Observations {
    /// The busiest pod's requests over the mean of all pods; 1 is even. `None` if they weren't counted.
    pub fn pods_busiest_over_mean(&self) -> Option<f64> {
        busiest_over_mean(self.pods.iter().flatten().map(|pod| pod.requests))
    }

    /// The busiest worker's requests over the mean of all workers; 1 is even. `None` if they weren't counted.
    pub fn workers_busiest_over_mean(&self) -> Option<f64> {
        busiest_over_mean(self.workers.iter().map(|worker| worker.requests))
    }
}

impl ServerCpu {
    /// Of a server that used and may use so many CPUs.
    pub fn new(used_cores: f64, available_cores: Option<f64>, throttled_percent: Option<f64>) -> Self {
        let idle = |available: f64| 100.0 * (1.0 - used_cores / available).max(0.0);
        let idle_percent = available_cores.filter(|available| *available > 0.0).map(idle);
        Self { used_cores, available_cores, idle_percent, throttled_percent }
    }
}

fn busiest_over_mean(counts: impl Iterator<Item = Option<u64>>) -> Option<f64> {
    let counts: Vec<f64> = counts.map(|count| count.map(crate::report::as_f64)).collect::<Option<_>>()?;
    let mean = counts.iter().sum::<f64>() / crate::report::as_f64(u64::try_from(counts.len()).ok()?);
    (mean > 0.0).then(|| counts.iter().copied().fold(0.0, f64::max) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_what_may_be_used_and_is_not() {
        assert_eq!(ServerCpu::new(0.5, Some(2.0), None).idle_percent, Some(75.0));
        // A pod without a limit may use more than it asked for.
        assert_eq!(ServerCpu::new(3.0, Some(2.0), None).idle_percent, Some(0.0));
        assert_eq!(ServerCpu::new(3.0, None, None).idle_percent, None);
    }

    #[test]
    fn a_pod_that_got_nothing_counts() {
        let pod = |requests| Pod { requests, ..Pod::default() };
        let seen =
            |pods| Observations { pods: Some(pods), ..Observations::default() }.pods_busiest_over_mean();
        assert_eq!(seen(vec![pod(Some(30)), pod(Some(0)), pod(Some(0))]), Some(3.0));
        assert_eq!(seen(vec![pod(Some(30)), pod(None)]), None);
        assert_eq!(seen(vec![]), None);
        assert_eq!(Observations::default().pods_busiest_over_mean(), None);
    }
}
