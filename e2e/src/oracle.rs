//! What has to hold at the end of a test, whatever went wrong in it.
//!
//! - [`Snapshot`]: all that stands in a namespace, without what differs from run to run
//! - [`Fixture::at_rest`]: waits until nobody has anything left to do
//! - [`Fixture::verify`]: nothing written elsewhere, nothing left behind, and silence

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Map, Value, json};
use workerapp_api::names;

use crate::{
    Fixture, Operator,
    fixture::{PATIENCE, SILENCE},
};

/// The kinds that a snapshot holds: group, version, kind and plural. A kind that the cluster doesn't have is passed over.
const KINDS: [(&str, &str, &str, &str); 9] = [
    ("workerapp.dev", "v1alpha1", "WorkerApp", "workerapps"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Service", "services"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ("", "v1", "ConfigMap", "configmaps"),
];

/// The label of objects that a test has put there as somebody else's; no snapshot holds them.
pub const FOREIGN: &str = "workerapp-e2e/foreign";
/// The annotation that counts the templates that a Deployment has had.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// All objects of a namespace, by kind and name, without what differs from run to run: uids (each reads as whose it is), versions,
/// times, and what the cluster picks.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
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

impl Fixture {
    /// All objects of a kind as plain JSON; none where the cluster doesn't have the kind.
    async fn all_of(&self, group: &str, version: &str, kind: &str, plural: &str) -> Result<Vec<Value>> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("listing {plural}")),
        }
    }

    async fn everything(&self) -> Result<Vec<(&'static str, Value)>> {
        let lists = KINDS.map(async |(group, version, kind, plural)| {
            let objects = self.all_of(group, version, kind, plural).await?;
            anyhow::Ok(objects.into_iter().map(move |object| (kind, object)))
        });
        let lists = futures::future::try_join_all(lists).await?;
        let foreign = |object: &Value| !object["metadata"]["labels"][FOREIGN].is_null();
        let of_cluster = |object: &Value| object["metadata"]["name"] == "kube-root-ca.crt";
        Ok(lists
            .into_iter()
            .flatten()
            .filter(|(_, object)| !foreign(object) && !of_cluster(object))
            .collect())
    }

    /// All that stands in the namespace now.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_of(self.everything().await?)
    }

    /// The same, and what is still to be done by whomever, if anything is.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn survey(&self) -> Result<(Snapshot, Option<String>)> {
        let objects = self.everything().await?;
        let unfinished = unfinished(&objects);
        Ok((self.snapshot_of(objects)?, unfinished))
    }

    fn snapshot_of(&self, objects: Vec<(&'static str, Value)>) -> Result<Snapshot> {
        let mut substitutes = vec![(self.namespace.clone(), "the-namespace".to_owned())];
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
        Ok(Snapshot(snapshot))
    }

    /// Waits until nobody has anything left to do: not the operator, nor the cluster's own controllers.
    ///
    /// # Errors
    /// After four times [`PATIENCE`], with what is still to be done.
    pub async fn at_rest(&self, operator: &Operator) -> Result<()> {
        let deadline = Instant::now() + 4 * PATIENCE;
        // Once more after all was done: it takes a moment until the operator has seen that.
        let mut rested = false;
        loop {
            let before = operator.recorder.count();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let writes = operator.recorder.count() - before;
            let waiting = match writes {
                0 if rested => return Ok(()),
                0 => unfinished(&self.everything().await?),
                _ => Some(format!("the operator wrote {writes} times within a second")),
            };
            rested = waiting.is_none();
            if let Some(waiting) = waiting
                && Instant::now() > deadline
            {
                bail!("no rest: {waiting}");
            }
        }
    }

    /// What has to hold whatever the test did: the operator wrote in this namespace alone, every child has its app, and it falls
    /// silent, unless an app of which something is wrong is tried again and again.
    ///
    /// # Errors
    /// Names what does not hold.
    pub async fn verify(&self, operator: &Operator) -> Result<()> {
        let place = format!("/namespaces/{}/", self.namespace);
        let history = operator.recorder.history();
        if let Some(elsewhere) = history.iter().find(|sent| !sent.path.contains(&place)) {
            bail!("written outside of the test's namespace: {elsewhere}");
        }
        self.no_orphans().await?;
        let everything = self.everything().await?;
        let mut apps = everything.iter().filter(|(kind, _)| *kind == "WorkerApp");
        if apps.all(|(_, app)| reconciled(app)) {
            self.fall_silent(operator).await?;
        }
        Ok(())
    }

    /// Waits until nothing has been written for [`SILENCE`].
    async fn fall_silent(&self, operator: &Operator) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = operator.recorder.count();
            tokio::time::sleep(SILENCE).await;
            let history = operator.recorder.history();
            if history.len() == before {
                return Ok(());
            }
            let last: Vec<_> = history.iter().skip(before).map(ToString::to_string).collect();
            ensure!(Instant::now() < deadline, "writes without an end, the last ones: {last:?}");
        }
    }

    /// Waits until every child's app is there: what an app leaves behind is deleted by Kubernetes.
    ///
    /// # Errors
    /// Names what is left after [`PATIENCE`].
    pub async fn no_orphans(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match orphan(&self.everything().await?) {
                None => return Ok(()),
                Some(orphan) if Instant::now() > deadline => bail!(orphan),
                Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether the newest generation of an app is reconciled.
fn reconciled(app: &Value) -> bool {
    let mut conditions = app["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| {
        one["type"] == "Reconciled"
            && one["status"] == "True"
            && one["observedGeneration"] == app["metadata"]["generation"]
    })
}

fn has_condition(status: &Value, type_: &str) -> bool {
    status["conditions"].as_array().into_iter().flatten().any(|condition| condition["type"] == type_)
}

fn is_false(status: &Value, type_: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == type_ && condition["status"] == "False")
}

/// What outlives its owner, if anything does.
fn orphan(objects: &[(&'static str, Value)]) -> Option<String> {
    let uids: BTreeSet<_> = objects.iter().map(|(_, object)| text(&object["metadata"]["uid"])).collect();
    let (kind, object) = objects.iter().find(|(_, object)| {
        let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.any(|owner| !uids.contains(&text(&owner["uid"])))
    })?;
    Some(format!("{kind} {} outlives its owner", text(&object["metadata"]["name"])))
}

/// What is still to be done, if anything is.
fn unfinished(objects: &[(&'static str, Value)]) -> Option<String> {
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
            "ReplicaSet" if has_condition(status, "ReplicaFailure") => None,
            "ReplicaSet" if number(&status["replicas"]) != number(&spec["replicas"]) => Some("lacks pods"),
            "HorizontalPodAutoscaler" => {
                let few = replicas(&spec["scaleTargetRef"]["name"])
                    .is_some_and(|now| now < number(&spec["minReplicas"]));
                // One without its target gets no further than to say that.
                let acted = has_condition(status, "ScalingActive") || is_false(status, "AbleToScale");
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
            "conditions": [{ "type": "Ready", "observedGeneration": 2, "lastTransitionTime": "t" }] } });
        let status = json!({ "observedGeneration": "older", "conditions": [{ "type": "Ready", "observedGeneration": "newest" }] });
        assert_eq!(normal("WorkerApp", app)["status"], status);
    }
}
