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

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Whether the pod is Ready.
fn is_ready(pod: &Value) -> bool {
    condition(&pod["status"], "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// What one object counts of others, and has not counted yet: pods are counted by their ReplicaSet, these by their Deployment, and that
/// is passed on by the app.
fn uncounted(objects: &[(&'static str, Value)], kind: &str, object: &Value) -> bool {
    let owned = |wanted: &'static str| {
        let of_this = move |one: &&Value| {
            let mut owners = one["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == object["metadata"]["uid"])
        };
        objects.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, one)| one).filter(of_this)
    };
    let counts = |field: &str| number(&object["status"][field]);
    let sum = |of: &'static str, field: &str| owned(of).map(|one| number(&one["status"][field])).sum::<i64>();
    match kind {
        "ReplicaSet" => usize::try_from(counts("readyReplicas"))
            .is_ok_and(|counted| counted != owned("Pod").filter(|pod| is_ready(pod)).count()),
        "Deployment" => {
            ["replicas", "readyReplicas"].iter().any(|field| counts(field) != sum("ReplicaSet", field))
        }
        "WorkerApp" => ["replicas", "readyReplicas", "updatedReplicas"]
            .iter()
            .any(|field| counts(field) != sum("Deployment", field)),
        _ => false,
    }
}

/// What is still to be done, if anything is.
pub(super) fn unfinished(objects: &[(&'static str, Value)]) -> Option<String> {
    let spec_of = |kind: &str, name: &Value| {
        let mut of_kind = objects.iter().filter(|(other, _)| *other == kind);
        of_kind.find(|(_, object)| object["metadata"]["name"] == *name).map(|(_, object)| &object["spec"])
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
            // It raises the minimum of the autoscaler, which has the pods follow; see there.
            "WorkerApp"
                if spec_of("HorizontalPodAutoscaler", &metadata["name"]).is_some_and(|spec| {
                    number(&spec["minReplicas"]) < number(&status["burst"]["replicas"])
                }) =>
            {
                Some("has a burst that isn't carried out")
            }
            // Whose pods are refused tries again after waits that grow to minutes.
            "ReplicaSet" if condition(status, "ReplicaFailure").is_some() => None,
            "ReplicaSet" if number(&status["replicas"]) != number(&spec["replicas"]) => Some("lacks pods"),
            "HorizontalPodAutoscaler" => {
                let now = spec_of("Deployment", &spec["scaleTargetRef"]["name"])
                    .map(|target| number(&target["replicas"]));
                let few = now.is_some_and(|now| now < number(&spec["minReplicas"]));
                // One without its target gets no further than to say that.
                let stuck = condition(status, "AbleToScale").is_some_and(|able| able["status"] == "False");
                let acted = stuck || condition(status, "ScalingActive").is_some();
                // It scales first, and at its next look writes what has become of that.
                let seen = stuck || now.is_none_or(|now| now == number(&status["currentReplicas"]));
                (few || !acted || !seen).then_some("has still to act")
            }
            _ if uncounted(objects, kind, object) => Some("counts what was"),
            _ => None,
        }
    };
    let unfinished = objects.iter().find_map(|(kind, object)| {
        Some(format!("{kind} {} {}", text(&object["metadata"]["name"]), left(kind, object)?))
    });
    unfinished.or_else(|| orphan(objects))
}
