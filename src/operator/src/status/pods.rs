//! What keeps an app's pods from serving, in their own words.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Deserialize;
use workerapp_api::condition::Reason;

use crate::cache::Object;

/// How much of a container's last words is passed on.
const TAIL: usize = 300;

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
}

/// Reads the cached pods; one that can't be read is left out.
pub(crate) fn read(objects: &[Arc<Object>]) -> Vec<Pod> {
    objects.iter().filter(|object| !object.deleting).filter_map(|object| object.read().ok()).collect()
}

/// The smallest address of a node on which a pod runs; the smallest, so that it stays the same while pods come and go.
pub(crate) fn host_address(pods: &[Pod]) -> Option<std::net::IpAddr> {
    let running = pods.iter().filter(|pod| pod.status.phase.as_deref() == Some("Running"));
    running.filter_map(|pod| pod.status.host_ip.as_ref()?.parse().ok()).min()
}

/// The worst trouble among `pods`, with the number of pods that have it.
pub(crate) fn worst(app: &str, pods: &[Pod]) -> Option<Trouble> {
    let troubles: Vec<_> = pods
        .iter()
        .filter_map(|pod| Some((pod.metadata.name.as_deref().unwrap_or("?"), trouble(app, pod)?)))
        .collect();
    let (name, worst) = troubles.iter().max_by(|(name, trouble), (other_name, other)| {
        severity(trouble.reason).cmp(&severity(other.reason)).then_with(|| other_name.cmp(name))
    })?;
    let same = troubles.iter().filter(|(_, trouble)| trouble.reason == worst.reason).count();
    let message = match same {
        1 => format!("pod {name}: {}", worst.message),
        _ => format!("{same} of {} pods, such as {name}: {}", pods.len(), worst.message),
    };
    Some(Trouble { reason: worst.reason, message })
}

/// What says most about why nothing works comes first.
fn severity(reason: Reason) -> u8 {
    match reason {
        Reason::NotReady => 0,
        Reason::Unschedulable => 1,
        _ => 2,
    }
}

fn trouble(app: &str, pod: &Pod) -> Option<Trouble> {
    if condition(pod, "Ready").is_some_and(|(status, _)| status == "True") {
        return None;
    }
    let containers = || {
        let init = pod.status.init_container_statuses.iter().flatten();
        init.chain(pod.status.container_statuses.iter().flatten())
    };
    containers().find_map(container_trouble).or_else(|| unschedulable(pod)).or_else(|| {
        let running = |container: &&ContainerStatus| {
            !container.ready && container.state.as_ref().is_some_and(|state| state.running.is_some())
        };
        let waiting = pod.status.container_statuses.iter().flatten().find(running)?;
        Some(Trouble {
            reason: Reason::NotReady,
            message: format!(
                "container {} runs and is not ready; what it waits for stands in `kubectl logs deploy/{app}`",
                waiting.name
            ),
        })
    })
}

fn unschedulable(pod: &Pod) -> Option<Trouble> {
    let (status, message) = condition(pod, "PodScheduled")?;
    (status == "False")
        .then(|| Trouble { reason: Reason::Unschedulable, message: format!("no node takes it: {message}") })
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = pod.status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == type_)?;
    Some((&condition.status, condition.message.as_deref().unwrap_or_default()))
}

fn container_trouble(container: &ContainerStatus) -> Option<Trouble> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let message = waiting.message.as_deref().unwrap_or_default();
        let trouble = |reason, message: String| Some(Trouble { reason, message });
        match waiting.reason.as_deref().unwrap_or_default() {
            "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "RegistryUnavailable" => {
                return trouble(
                    Reason::ImagePullBackOff,
                    format!("image {} can't be pulled: {}", container.image, pull_error(message)),
                );
            }
            "InvalidImageName" => {
                return trouble(Reason::InvalidImageName, format!("{:?} is no image name", container.image));
            }
            "CreateContainerConfigError" | "CreateContainerError" => {
                return trouble(
                    Reason::CreateContainerConfigError,
                    format!("container {} can't be made: {message}", container.name),
                );
            }
            "RunContainerError" => {
                return trouble(
                    Reason::StartError,
                    format!("container {} can't be started: {message}", container.name),
                );
            }
            _ => {}
        }
    }
    ended(container, state)
}

/// A container that has ended and is not back: now, or the time before while its successor isn't ready.
fn ended(container: &ContainerStatus, state: &ContainerState) -> Option<Trouble> {
    let now = state.terminated.as_ref();
    let before = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let end = now.or(before).filter(|end| !container.ready && (end.exit_code != 0 || is_app(container)))?;
    let name = &container.name;
    let code = end.exit_code;
    let words = last_words(end);
    Some(match end.reason.as_deref() {
        Some("OOMKilled") => Trouble {
            reason: Reason::OOMKilled,
            message: format!(
                "container {name} was killed since it used more memory than its limit: raise spec.resources.limits.memory, or lower the number of workers{words}"
            ),
        },
        Some("StartError" | "ContainerCannotRun") => Trouble {
            reason: Reason::StartError,
            message: format!("container {name} can't be started{words}"),
        },
        _ => Trouble {
            reason: Reason::CrashLoopBackOff,
            message: format!("container {name} ends with exit code {code} again and again{words}"),
        },
    })
}

/// An init container that has ended with 0 has done its work.
fn is_app(container: &ContainerStatus) -> bool {
    container.name != workerapp_api::names::CONTAINER_INSTALL
}

/// The end of what a container left behind as its termination message.
fn last_words(end: &ContainerStateTerminated) -> String {
    let text = end.message.as_deref().unwrap_or_default().trim();
    if text.is_empty() {
        return String::new();
    }
    let skip = text.chars().count().saturating_sub(TAIL);
    let tail: String = text.chars().skip(skip).collect();
    format!(": {}{}", if skip > 0 { "…" } else { "" }, tail.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The cause of a failed pull. The kubelet's message takes turns between it and the same behind a prefix, and the status
/// is not to be rewritten at each turn.
fn pull_error(message: &str) -> &str {
    message.split_once("ErrImagePull: ").map_or(message, |(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Pod, worst};

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
                "pod p: image nope:1 can't be pulled: not found",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}},
                    "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "a line\nError: no database\n"}}}]}),
                "CrashLoopBackOff",
                "pod p: container app ends with exit code 3 again and again: a line Error: no database",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 1,
                    "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}),
                "OOMKilled",
                "raise spec.resources.limits.memory",
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}),
                "Unschedulable",
                "1 Insufficient cpu",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {}}}]}),
                "NotReady",
                "kubectl logs deploy/shop",
            ),
        ] {
            let trouble = worst("shop", &[pod(&status)]).unwrap();
            assert_eq!(trouble.reason.as_str(), reason);
            assert!(trouble.message.contains(words), "{}", trouble.message);
        }
    }

    #[test]
    fn a_ready_pod_and_a_finished_init_container_are_no_trouble() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "app", "image": "a",
            "imageID": "", "ready": true, "restartCount": 1, "lastState": {"terminated": {"exitCode": 1}}}]});
        let starting = json!({"initContainerStatuses": [{"name": "workerapp-install", "image": "a", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
        assert_eq!(worst("shop", &[pod(&ready), pod(&starting)]), None);
    }
}
