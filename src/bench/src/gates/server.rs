//! Gates over what was seen at the server.

use super::Outcome::{self, Invalid, NotChecked, Notice, Passed};
use crate::reports::numbers::counted;
use crate::results::{Mode, Pod, Run};

/// Scheduling periods in which a server may be held back, in percent.
const MOST_THROTTLED: f64 = 1.0;

pub(super) fn restarts(run: &Run) -> Outcome {
    pods(run, |pod| {
        (pod.restarts > 0).then(|| {
            format!("pod {}: a container or worker started anew {}", pod.name, counted(pod.restarts, "time"))
        })
    })
}

pub(super) fn probe_failures(run: &Run) -> Outcome {
    pods(run, |pod| {
        (pod.probe_failures > 0)
            .then(|| format!("{} failed {}", pod.name, counted(pod.probe_failures, "probe")))
    })
}

/// What is wrong with any of the pods.
fn pods(run: &Run, fault: impl Fn(&Pod) -> Option<String>) -> Outcome {
    let Some(pods) = &run.observations.pods else {
        return NotChecked("the pods weren't looked at".into());
    };
    let faults: Vec<String> = pods.iter().filter_map(fault).collect();
    if faults.is_empty() { Passed } else { Invalid(faults.join(", ")) }
}

pub(super) fn replicas(run: &Run) -> Outcome {
    let Some(replicas) = &run.observations.replicas else {
        return NotChecked("the number of replicas wasn't looked at".into());
    };
    let Some(first) = replicas.first() else {
        return NotChecked("the number of replicas wasn't looked at".into());
    };
    if run.observations.autoscaler.as_ref().is_some_and(|autoscaler| autoscaler.expected_to_scale) {
        return Passed;
    }
    match replicas.iter().find(|later| later.ready != first.ready) {
        Some(later) => Invalid(format!(
            "{} pods were ready at the begin, {} after {:.0} s",
            first.ready, later.ready, later.seconds
        )),
        None if first.ready == 0 => Invalid("no pod was ready".into()),
        None => Passed,
    }
}

pub(super) fn autoscaler(run: &Run) -> Outcome {
    match &run.observations.autoscaler {
        None => NotChecked("it has none, or it wasn't looked at".into()),
        Some(autoscaler) if autoscaler.active => Passed,
        Some(autoscaler) => {
            let why = autoscaler.reason.as_deref().unwrap_or("it doesn't say why");
            Invalid(format!("the autoscaler is not active: {why}"))
        }
    }
}

pub(super) fn throttling(run: &Run) -> Outcome {
    let observations = &run.observations;
    let whole = observations.cpu.and_then(|cpu| cpu.throttled_percent);
    let pods = observations.pods.iter().flatten().filter_map(|pod| pod.throttled_percent);
    match pods.chain(whole).reduce(f64::max) {
        None => NotChecked("throttling wasn't looked at".into()),
        Some(percent) if percent > MOST_THROTTLED => {
            let why = format!("held back by its CPU limit in {percent:.1} % of the scheduling periods");
            // Whoever drives a pod to its limit meets the limit, which is there in production too. At a rate that it is meant to
            // carry, latencies are those of a server that was stopped again and again.
            if run.mode == Mode::Closed || run.search.is_some() {
                Notice(format!("{why}: what was measured is what this limit lets through"))
            } else {
                Invalid(format!("{why}; at most {MOST_THROTTLED} % are allowed"))
            }
        }
        Some(_) => Passed,
    }
}
