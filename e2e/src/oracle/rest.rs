//! What is still to be done in a namespace, and what was left behind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text;

/// What an object's status says of one condition.
fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Whether the newest generation of an app is reconciled.
pub(super) fn reconciled(app: &Value) -> bool {
    condition(&app["status"], "Reconciled").is_some_and(|one| {
        one["status"] == "True" && one["observedGeneration"] == app["metadata"]["generation"]
    })
}

/// What outlives its owner, if anything does.
pub(super) fn orphan(objects: &[(&'static str, Value)]) -> Option<String> {
    let uids: BTreeSet<_> = objects.iter().map(|(_, object)| text(&object["metadata"]["uid"])).collect();
    let (kind, object) = objects.iter().find(|(_, object)| {
        let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.any(|owner| !uids.contains(&text(&owner["uid"])))
    })?;
    Some(format!("{kind} {} outlives its owner", text(&object["metadata"]["name"])))
}

/// What is still to be done, if anything is.
pub(super) fn unfinished(objects: &[(&'static str, Value)]) -> Option<String> {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let replicas = |name: &Value| {
        let mut deployments = objects.iter().filter(|(kind, _)| *kind == "Deployment");
        deployments
            .find(|(_, object)| object["metadata"]["name"] == *name)
            .map(|(_, object)| number(&object["spec"]["replicas"]))
    };
    let left = |kind: &str, object: &Value| {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        match kind {
            _ if !metadata["deletionTimestamp"].is_null() => Some("is being deleted"),
            "WorkerApp" | "Deployment" | "ReplicaSet"
                if status["observedGeneration"] != metadata["generation"] =>
            {
                Some("has a new spec")
            }
            // Whose pods are refused tries again after waits that grow to minutes.
            "ReplicaSet" if condition(status, "ReplicaFailure").is_some() => None,
            "ReplicaSet" if number(&status["replicas"]) != number(&spec["replicas"]) => Some("lacks pods"),
            "HorizontalPodAutoscaler" => {
                let few = replicas(&spec["scaleTargetRef"]["name"])
                    .is_some_and(|now| now < number(&spec["minReplicas"]));
                // One without its target gets no further than to say that.
                let stuck = condition(status, "AbleToScale").is_some_and(|able| able["status"] == "False");
                let acted = stuck || condition(status, "ScalingActive").is_some();
                (few || !acted).then_some("has still to act")
            }
            _ => None,
        }
    };
    let unfinished = objects.iter().find_map(|(kind, object)| {
        Some(format!("{kind} {} {}", text(&object["metadata"]["name"]), left(kind, object)?))
    });
    unfinished.or_else(|| orphan(objects))
}
