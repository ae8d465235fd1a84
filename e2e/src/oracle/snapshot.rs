//! All that stands in a namespace, without what differs from run to run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value, json};
use workerapp_api::names;

use super::text;

/// The annotation that counts the templates that a Deployment has had.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// All objects of a namespace, by kind and name, without what differs from run to run: uids (each reads as whose it is), versions,
/// times, and what the cluster picks.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    /// Of the objects of one namespace.
    pub(super) fn of(namespace: &str, objects: Vec<(&'static str, Value)>) -> serde_json::Result<Self> {
        let mut substitutes = vec![(namespace.to_owned(), "the-namespace".to_owned())];
        substitutes.extend(objects.iter().map(|(kind, object)| {
            (text(&object["metadata"]["uid"]), format!("uid of {kind} {}", text(&object["metadata"]["name"])))
        }));
        let mut snapshot = BTreeMap::new();
        let mut pods: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, object) in objects {
            if kind == "Pod" {
                if object["metadata"]["deletionTimestamp"].is_null() {
                    *pods.entry(text(&object["metadata"]["ownerReferences"][0]["name"])).or_default() += 1;
                }
                continue;
            }
            let name = format!("{kind}/{}", text(&object["metadata"]["name"]));
            let mut text = normal(kind, object).to_string();
            for (from, to) in &substitutes {
                text = text.replace(from, to);
            }
            snapshot.insert(name, serde_json::from_str(&text)?);
        }
        snapshot.extend(pods.into_iter().map(|(owner, count)| (format!("pods of {owner}"), json!(count))));
        Ok(Self(snapshot))
    }

    /// The same without what tells how the present came about: old ReplicaSets, how far a rollout is, who had the replicas before.
    #[must_use]
    pub fn without_history(mut self) -> Self {
        self.0.retain(|name, _| !name.starts_with("ReplicaSet/") && !name.starts_with("pods of "));
        for object in self.0.values_mut().filter(|object| object.is_object()) {
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.remove(REVISION);
            }
            if let Some(managers) = object["metadata"]["managedFields"].as_array_mut() {
                managers.retain(|entry| entry["manager"] != names::HANDOVER_MANAGER);
            }
            for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
                if let Some(condition) = condition.as_object_mut().filter(|one| one["type"] != "Reconciled") {
                    condition.retain(|field, _| field == "type" || field == "observedGeneration");
                }
            }
            if let Some(status) = object["status"].as_object_mut() {
                status.retain(|field, _| {
                    !["replicas", "readyReplicas", "updatedReplicas"].contains(&field.as_str())
                });
            }
        }
        self
    }

    /// Leaves a field of one object out.
    pub fn remove(&mut self, kind: &str, name: &str, path: &[&str]) {
        let (Some((field, parents)), Some(object)) =
            (path.split_last(), self.0.get_mut(&format!("{kind}/{name}")))
        else {
            return;
        };
        let parent = parents.iter().fold(object, |object, field| &mut object[*field]);
        if let Some(parent) = parent.as_object_mut() {
            parent.remove(*field);
        }
    }

    /// Where two differ: at most a dozen places.
    pub fn differences(&self, wanted: &Self) -> Vec<String> {
        let names: BTreeSet<_> = self.0.keys().chain(wanted.0.keys()).collect();
        let mut found = Vec::new();
        for name in names {
            let side = |snapshot: &Self| snapshot.0.get(name).cloned().unwrap_or_default();
            differ(name, &side(self), &side(wanted), &mut found);
        }
        found.truncate(12);
        found
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string_pretty(&self.0).unwrap_or_default())
    }
}

fn differ(path: &str, is: &Value, wanted: &Value, found: &mut Vec<String>) {
    match (is, wanted) {
        (Value::Object(is), Value::Object(wanted)) => {
            let fields: BTreeSet<_> = is.keys().chain(wanted.keys()).collect();
            for field in fields {
                let side = |object: &Map<String, Value>| object.get(field).cloned().unwrap_or_default();
                differ(&format!("{path}.{field}"), &side(is), &side(wanted), found);
            }
        }
        (Value::Array(is), Value::Array(wanted)) if is.len() == wanted.len() => {
            for (at, (is, wanted)) in is.iter().zip(wanted).enumerate() {
                differ(&format!("{path}[{at}]"), is, wanted, found);
            }
        }
        _ if is == wanted => {}
        _ => found.push(format!("{path} is {is}, and should be {wanted}")),
    }
}

/// An object without what differs from run to run.
fn normal(kind: &str, mut object: Value) -> Value {
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(field);
        }
        // The digest is of the namespace too; what stands behind it says that something was left out.
        if let Some(Value::String(digest)) =
            metadata.get_mut("annotations").map(|all| &mut all[names::ANNOTATION_APPLIED])
        {
            *digest = format!("digest{}", digest.trim_start_matches(|char: char| char.is_ascii_hexdigit()));
        }
        let managers = metadata.remove("managedFields").unwrap_or_default();
        metadata.insert("managedFields".into(), our_managers(managers));
    }
    match kind {
        "WorkerApp" => normal_status(&mut object["status"], &generation),
        _ => drop(object.as_object_mut().and_then(|object| object.remove("status"))),
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        match kind {
            "Service" => {
                for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
                    spec.remove(field);
                }
                for port in spec["ports"].as_array_mut().into_iter().flatten() {
                    port.as_object_mut().and_then(|port| port.remove("nodePort"));
                }
            }
            // The rest follows from the Deployment's template, and from its hash in the name.
            "ReplicaSet" => spec.retain(|field, _| field == "replicas"),
            _ => {}
        }
    }
    object
}

/// What the operator claims of an object, under each of its names.
fn our_managers(managers: Value) -> Value {
    let Value::Array(managers) = managers else { return Value::Null };
    let ours = managers.into_iter().filter(|entry| text(&entry["manager"]).starts_with(names::FIELD_MANAGER));
    let mut ours: Vec<_> = ours
        .map(|mut entry| {
            entry.as_object_mut().and_then(|entry| entry.remove("time"));
            entry
        })
        .collect();
    ours.sort_by_key(ToString::to_string);
    Value::Array(ours)
}

fn normal_status(status: &mut Value, generation: &Value) {
    let relative = |observed: &mut Value| {
        if !observed.is_null() {
            *observed = if *observed == *generation { "newest" } else { "older" }.into();
        }
    };
    let Some(fields) = status.as_object_mut() else { return };
    for field in ["nodePort", "url"] {
        fields.remove(field);
    }
    if let Some(burst) = fields.get_mut("burst").and_then(Value::as_object_mut) {
        burst.remove("until");
    }
    if let Some(observed) = fields.get_mut("observedGeneration") {
        relative(observed);
    }
    for condition in fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
            if let Some(observed) = condition.get_mut("observedGeneration") {
                relative(observed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Snapshot, normal};

    #[test]
    fn a_difference_is_named() {
        let snapshot =
            |image: &str| Snapshot([("Deployment/a".into(), json!({"spec": {"image": image}}))].into());
        assert!(snapshot("a").differences(&snapshot("a")).is_empty());
        let found = snapshot("a").differences(&snapshot("b"));
        assert_eq!(found, ["Deployment/a.spec.image is \"a\", and should be \"b\""]);
        let none = Snapshot([].into());
        assert_eq!(snapshot("a").differences(&none).len(), 1);
    }

    #[test]
    fn what_the_cluster_picks_is_left_out_and_what_we_claim_stays() {
        let service = json!({
            "metadata": { "name": "a", "uid": "u", "resourceVersion": "1", "managedFields": [
                { "manager": "kubectl", "time": "t" }, { "manager": "workerapp-operator", "time": "t", "fieldsV1": {} },
            ] },
            "spec": { "clusterIP": "1.2.3.4", "ports": [{ "port": 80, "nodePort": 30000 }] },
            "status": {},
        });
        let wanted = json!({
            "metadata": { "name": "a", "managedFields": [{ "manager": "workerapp-operator", "fieldsV1": {} }] },
            "spec": { "ports": [{ "port": 80 }] },
        });
        assert_eq!(normal("Service", service), wanted);
        let app = json!({ "metadata": { "generation": 2 }, "status": { "observedGeneration": 1, "nodePort": 30000,
            "burst": { "replicas": 3, "until": "t" },
            "conditions": [{ "type": "Ready", "observedGeneration": 2, "lastTransitionTime": "t" }] } });
        let status = json!({ "observedGeneration": "older", "burst": { "replicas": 3 }, "conditions": [{ "type": "Ready", "observedGeneration": "newest" }] });
        assert_eq!(normal("WorkerApp", app)["status"], status);
    }
}
