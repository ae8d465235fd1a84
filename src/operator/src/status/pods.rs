//! What keeps an app's pods from serving. Pure: what a supervisor was heard to say comes in as text.

use std::{net::IpAddr, sync::Arc};

use k8s_openapi::{
    api::core::v1::{ContainerStatus, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::{SignedDuration, Timestamp},
};
use serde::Deserialize;
use workerapp_api::condition::Reason;

use super::container;
use crate::cache::Object;

/// A container that ran out of memory so soon after its start, and so short a time ago, is taken to do so again: after as long without
/// an end Kubernetes, too, forgets the ones before.
const LOOP: SignedDuration = SignedDuration::from_mins(10);

/// What the operator reads of a pod.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Pod {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: PodStatus,
}

/// Something that keeps a pod from serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    /// It has gone on for longer than a start takes, or never passes by itself.
    pub(crate) lasting: bool,
    /// The container that runs and isn't ready, if that is the trouble.
    pub(crate) unready: Option<Unready>,
}

/// A container that runs and isn't ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unready {
    pub(crate) pod: String,
    pub(crate) container: String,
    /// Whether its pod is of the newest template, as far as that is known.
    pub(crate) newest: bool,
    /// The pod's uid.
    pub(crate) uid: String,
    /// The pod's own address; none while it has the node's.
    pub(crate) address: Option<IpAddr>,
    /// Since when.
    pub(crate) since: Option<Timestamp>,
}

/// Reads the cached pods; one that can't be read is left out.
pub(crate) fn read(objects: &[Arc<Object>]) -> Vec<Pod> {
    objects.iter().filter(|object| !object.deleting).filter_map(|object| object.read().ok()).collect()
}

/// The smallest address of a node on which a pod runs; the smallest, so that it stays the same while pods come and go.
pub(crate) fn host_address(pods: &[Pod]) -> Option<IpAddr> {
    let running = pods.iter().filter(|pod| pod.status.phase.as_deref() == Some("Running"));
    running.filter_map(|pod| pod.status.host_ip.as_ref()?.parse().ok()).min()
}

/// The worst trouble among `pods` at `now`, with the number of pods that have it; `newest` is the `ReplicaSet` of the newest template.
pub(crate) fn worst(pods: &[Pod], newest: Option<&str>, now: Timestamp) -> Option<Trouble> {
    let troubles: Vec<_> = pods.iter().filter_map(|pod| Some((pod, trouble(pod, newest, now)?))).collect();
    // What says most about why nothing works comes first, then what the newest template brought.
    let rank = |pod: &Pod, trouble: &Trouble| (severity(trouble.reason), pod.is_of(newest));
    let (pod, worst) = troubles.iter().max_by(|(pod, trouble), (other_pod, other)| {
        rank(pod, trouble).cmp(&rank(other_pod, other)).then_with(|| other_pod.name().cmp(pod.name()))
    })?;
    let name = pod.name();
    let same = troubles.iter().filter(|(_, trouble)| trouble.reason == worst.reason).count();
    let message = match same {
        1 => format!("pod {name}: {}", worst.message),
        _ => format!("{same} of {} pods, such as {name}: {}", pods.len(), worst.message),
    };
    Some(Trouble { message, ..worst.clone() })
}

fn severity(reason: Reason) -> u8 {
    match reason {
        Reason::NotReady => 0,
        Reason::Unschedulable => 1,
        _ => 2,
    }
}

impl Trouble {
    fn hard((reason, message): (Reason, String)) -> Self {
        Self { reason, message, lasting: true, unready: None }
    }

    /// Completes the text about a container that isn't ready with `cause`, if that is known, and where to look.
    pub(crate) fn explained(mut self, cause: Option<&str>, lasting: bool) -> Self {
        if let Some(Unready { pod, container, .. }) = &self.unready {
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            self.message = format!("{}{cause}; its log: `kubectl logs {pod} -c {container}`", self.message);
            self.lasting = lasting;
        }
        self
    }
}

impl Pod {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("?")
    }

    /// Whether the `ReplicaSet` with this name made it; without a name nothing speaks against it.
    fn is_of(&self, replica_set: Option<&str>) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        replica_set
            .is_none_or(|wanted| owners.any(|owner| owner.kind == "ReplicaSet" && owner.name == wanted))
    }

    /// Since when it isn't ready: since its container's start, or the end of its readiness after that.
    fn unready_since(&self, container: &ContainerStatus) -> Option<Timestamp> {
        let started = container.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|time| time.0);
        let mut conditions = self.status.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        started.max(ready.and_then(|ready| Some(ready.last_transition_time.as_ref()?.0)))
    }

    /// Its own address. One that it shares with the node leads to whatever runs there.
    fn address(&self) -> Option<IpAddr> {
        let address =
            self.status.pod_ip.as_deref().filter(|ip| Some(*ip) != self.status.host_ip.as_deref())?;
        address.parse().ok()
    }
}

fn trouble(pod: &Pod, newest: Option<&str>, now: Timestamp) -> Option<Trouble> {
    if condition(pod, "Ready").is_some_and(|(status, _)| status == "True") {
        // It serves until it has filled its memory once more.
        let mut containers = pod.status.container_statuses.iter().flatten();
        return containers.find_map(|one| container::memory_loop(one, LOOP, now)).map(Trouble::hard);
    }
    let containers = || {
        let init = pod.status.init_container_statuses.iter().flatten();
        init.chain(pod.status.container_statuses.iter().flatten())
    };
    let hard =
        containers().find_map(|one| container::trouble(pod.name(), one)).or_else(|| unschedulable(pod));
    hard.map(Trouble::hard).or_else(|| {
        let running = |container: &&ContainerStatus| {
            !container.ready && container.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        let waiting = pod.status.container_statuses.iter().flatten().find(running)?;
        let unready = Unready {
            pod: pod.name().into(),
            container: waiting.name.clone(),
            newest: pod.is_of(newest),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            address: pod.address(),
            since: pod.unready_since(waiting),
        };
        let message = format!("container {} runs and is not ready", waiting.name);
        Some(Trouble { reason: Reason::NotReady, message, lasting: false, unready: Some(unready) })
    })
}

fn unschedulable(pod: &Pod) -> Option<(Reason, String)> {
    let (status, message) = condition(pod, "PodScheduled")?;
    let message = format!(
        "no node takes it: {}; lower spec.resources.requests, or look at spec.nodeSelector, spec.tolerations and spec.affinity",
        without_preemption(message)
    );
    (status == "False").then_some((Reason::Unschedulable, message))
}

/// The scheduler's words without those about whom it can't evict for the pod, which repeat the number of nodes.
fn without_preemption(message: &str) -> &str {
    let end = message.find("preemption:").unwrap_or(message.len());
    let end = message[..end].find("no new claims to deallocate").unwrap_or(end);
    message[..end].trim_end_matches([' ', ',', '.'])
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = pod.status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == type_)?;
    Some((&condition.status, condition.message.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Pod, SignedDuration, Timestamp, worst};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn pod(status: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn each_trouble_is_told_in_the_pods_own_words() {
        for (status, reason, words) in [
            (
                json!({"containerStatuses": [{"name": "app", "image": "nope:1", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nope:1\": ErrImagePull: not found"}}}]}),
                "ImagePullBackOff",
                "pod p: image nope:1 can't be pulled: not found; check spec.image and spec.imagePullSecrets",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}},
                    "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "a line\n[workerapp] worker 0 ended\nError: no database\n[workerapp] giving up\n"}}}]}),
                "CrashLoopBackOff",
                "pod p: container app ends with exit code 3 again and again: a line Error: no database; see `kubectl logs p -c app --previous`",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}},
                    "lastState": {"terminated": {"exitCode": 127, "reason": "Error", "message": "[workerapp] error: nodee: not found in PATH\n"}}}]}),
                "CrashLoopBackOff",
                "exit code 127 again and again: [workerapp] error: nodee: not found in PATH; correct spec.command, or the image; see",
            ),
            (
                json!({"initContainerStatuses": [{"name": "workerapp-install", "image": "op:1", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}]}),
                "ImagePullBackOff",
                "image op:1 can't be pulled: no such host; this is the operator's own image",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"s\" not found"}}}]}),
                "CreateContainerConfigError",
                "secret \"s\" not found; create it, or correct spec.env, spec.envFrom or spec.volumes",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 1,
                    "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
                "OOMKilled",
                "raise spec.resources.limits.memory",
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found."}]}),
                "Unschedulable",
                "no node takes it: 0/1 nodes are available: 1 Insufficient cpu; lower spec.resources.requests, or look at spec.nodeSelector",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {}}}]}),
                "NotReady",
                "pod p: container app runs and is not ready; its log: `kubectl logs p -c app`",
            ),
        ] {
            let trouble = worst(&[pod(&status)], None, NOW).unwrap().explained(None, false);
            assert_eq!(trouble.reason.as_str(), reason);
            assert!(trouble.message.contains(words), "{}", trouble.message);
        }
    }

    #[test]
    fn the_cause_is_told_though_a_long_trace_stands_below_it() {
        let trace = "    at Function._load (node:internal/modules/cjs/loader:1217:37)\n".repeat(9);
        let words = format!(
            "node:internal:1\n  throw err;\n\nError: Cannot find module '/app/srv.js'\n{trace}\nNode.js v24\n"
        );
        let status = json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": words}}}]});
        let told = worst(&[pod(&status)], None, NOW).unwrap().message;
        assert!(told.contains(": …Error: Cannot find module '/app/srv.js' at Function._load"), "{told}");
        assert!(told.contains("…; see `kubectl logs"), "{told}");
    }

    #[test]
    fn a_ready_pod_and_a_finished_init_container_are_no_trouble() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "app", "image": "a",
            "imageID": "", "ready": true, "restartCount": 1, "lastState": {"terminated": {"exitCode": 1}}}]});
        let starting = json!({"initContainerStatuses": [{"name": "workerapp-install", "image": "a", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
        assert_eq!(worst(&[pod(&ready), pod(&starting)], None, NOW), None);
    }

    #[test]
    fn a_pod_that_serves_between_one_end_and_the_next_is_trouble_if_it_runs_out_of_memory_again_and_again() {
        let ended = |reason: &str, restarts: i32, started: i64, finished: i64| {
            let at = |minutes: i64| (NOW - SignedDuration::from_mins(minutes)).to_string();
            let last = json!({"exitCode": 137, "reason": reason, "startedAt": at(started), "finishedAt": at(finished)});
            let pod = pod(
                &json!({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "app",
                "image": "a", "imageID": "", "ready": true, "restartCount": restarts, "state": {"running": {}},
                "lastState": {"terminated": last}}]}),
            );
            worst(&[pod], None, NOW).map(|trouble| trouble.message)
        };
        let told = ended("OOMKilled", 2, 5, 1).unwrap();
        assert!(told.contains("pod p: container app is killed again and again"), "{told}");
        assert_eq!(ended("OOMKilled", 1, 5, 1), None, "once is no loop");
        assert_eq!(ended("OOMKilled", 9, 60, 1), None, "it ran for an hour");
        assert_eq!(ended("OOMKilled", 9, 25, 20), None, "it has run for 20 minutes since");
        assert_eq!(ended("Error", 9, 5, 1), None, "that is for the app's own alerts");
    }

    #[test]
    fn a_pod_of_the_newest_template_is_told_before_an_older_one() {
        let pod = |name: &str, set: &str, started: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name, "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true}]},
                "status": {"podIP": "10.0.0.5", "hostIP": "10.1.0.1",
                    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                    "containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"running": {"startedAt": started}}}]},
            }))
            .unwrap()
        };
        let pods = [pod("a", "old", "2025-12-31T23:00:00Z"), pod("b", "new", "2026-01-01T00:00:07Z")];
        let trouble = worst(&pods, Some("new"), NOW).unwrap();
        let unready = trouble.unready.clone().unwrap();
        assert!(unready.newest && unready.uid == "b", "{unready:?}");
        assert_eq!(unready.since, "2026-01-01T00:00:07Z".parse().ok());
        assert_eq!(unready.address, "10.0.0.5".parse().ok());
        assert_eq!(
            trouble.explained(Some("worker 0 listens on port 8080"), true).message,
            "2 of 2 pods, such as b: container app runs and is not ready: worker 0 listens on port 8080; its log: `kubectl logs b -c app`"
        );
        let old = worst(&pods[..1], Some("new"), NOW).unwrap().unready.unwrap();
        assert!(!old.newest);
        assert_eq!(old.since, "2026-01-01T00:00:00Z".parse().ok(), "the end of its readiness");
    }
}
