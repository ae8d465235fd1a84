//! Compares the WorkerApp definition that is installed with the one that this operator knows.
//!
//! An older one still works, but the API server drops what it doesn't know: fields that a person sets seem to have no effect. The
//! definition is read as the API server publishes it for everybody (`OpenAPI`), which needs no permission.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, Resource as _};
use serde::Deserialize;
use serde_json::Value;
use workerapp_api::WorkerApp;

use crate::{context::bounded, health::Health};

/// How often it is looked at while something is missing, and until the API server publishes it.
const WAIT: Duration = Duration::from_secs(15);
/// How often it is looked at otherwise: somebody may put an older one in its place.
const AGAIN: Duration = Duration::from_hours(1);
/// How many of the missing fields are named.
const NAMED: usize = 5;

/// Compares for ever.
pub(crate) async fn compare(client: Client, health: Arc<Health>) {
    let ours = known();
    loop {
        let wait = match bounded(published(&client)).await {
            Ok(Some(schema)) => {
                let warning = difference(&ours, &paths(&schema));
                let fine = warning.is_none();
                let text = warning.clone();
                if health.warn(warning) {
                    let text =
                        text.as_deref().unwrap_or("the installed WorkerApp definition has all fields now");
                    tracing::warn!("{text}");
                }
                if fine { AGAIN } else { WAIT }
            }
            Ok(None) => WAIT,
            Err(error) => {
                tracing::debug!("the installed WorkerApp definition can't be compared: {error}");
                WAIT
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// What is compared of a schema; the rest of the document isn't even kept while it is read.
#[derive(Debug, Default, Deserialize)]
struct Schema {
    #[serde(default)]
    properties: BTreeMap<String, Schema>,
    items: Option<Box<Schema>>,
    #[serde(default, rename = "enum")]
    values: Vec<Value>,
    #[serde(default, rename = "x-kubernetes-group-version-kind")]
    kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Document {
    components: Components,
}

#[derive(Debug, Deserialize)]
struct Components {
    schemas: BTreeMap<String, Schema>,
}

/// The schema that the API server publishes; `None` if there is none (yet).
async fn published(client: &Client) -> kube::Result<Option<Schema>> {
    let (group, version) = (WorkerApp::group(&()), WorkerApp::version(&()));
    let request = http::Request::get(format!("/openapi/v3/apis/{group}/{version}")).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    let document: Document = match client.request(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        answer => answer?,
    };
    let name = WorkerApp::kind(&());
    let mut schemas = document.components.schemas.into_values();
    Ok(schemas.find(|schema| schema.kinds.iter().any(|entry| entry.kind == name)))
}

/// The paths of the definition that this operator prints.
fn known() -> BTreeSet<String> {
    let versions = workerapp_api::crd::manifest().spec.versions;
    let schema = versions.into_iter().next().and_then(|version| version.schema?.open_api_v3_schema);
    let schema = serde_json::to_value(schema).and_then(serde_json::from_value);
    paths(&schema.unwrap_or_default())
}

/// Every field of spec and status, and every value of an enumeration.
fn paths(schema: &Schema) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for part in ["spec", "status"] {
        if let Some(schema) = schema.properties.get(part) {
            collect(part, schema, &mut paths);
        }
    }
    paths
}

fn collect(path: &str, schema: &Schema, paths: &mut BTreeSet<String>) {
    paths.insert(path.to_owned());
    paths.extend(schema.values.iter().filter_map(Value::as_str).map(|value| format!("{path}={value}")));
    for (name, property) in &schema.properties {
        collect(&format!("{path}.{name}"), property, paths);
    }
    if let Some(item) = &schema.items {
        collect(&format!("{path}[]"), item, paths);
    }
}

/// What to say if the installed definition lacks something.
fn difference(ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> Option<String> {
    let missing: BTreeSet<_> = ours.difference(theirs).map(String::as_str).collect();
    // The fields of a missing field go without saying.
    let top: Vec<_> = missing
        .iter()
        .filter(|path| {
            let parents = path.match_indices(['.', '[', '=']).map(|(at, _)| &path[..at]);
            !parents.into_iter().any(|parent| missing.contains(parent))
        })
        .copied()
        .collect();
    if top.is_empty() {
        return None;
    }
    let more = if top.len() > NAMED { format!(" and {} more", top.len() - NAMED) } else { String::new() };
    let named = top.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    Some(format!(
        "the installed WorkerApp definition is not this operator's: it lacks {named}{more}, and the API server drops or refuses what it doesn't know; upgrade it (the Helm value crds.install=true, or `kubectl apply -f crds/workerapps.workerapp.dev.yaml` of the checkout)"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{difference, known};

    fn paths(schema: Value) -> std::collections::BTreeSet<String> {
        super::paths(&serde_json::from_value(schema).unwrap())
    }

    #[test]
    fn what_is_missing_is_named_without_what_stands_below_it() {
        let ours = json!({"properties": {"spec": {"properties": {
            "image": {"type": "string"},
            "runtime": {"enum": ["Node", "Bun"]},
            "workers": {"properties": {"count": {}, "max": {}}},
            "ports": {"items": {"properties": {"name": {}}}},
        }}}});
        let older = json!({"properties": {"spec": {"properties": {
            "image": {"type": "string"},
            "runtime": {"enum": ["Node"]},
            "ports": {"items": {"properties": {}}},
        }}}});
        let (ours, older) = (paths(ours), paths(older));
        let text = difference(&ours, &older).unwrap();
        assert!(text.contains("it lacks spec.ports[].name, spec.runtime=Bun, spec.workers, and"), "{text}");
        assert_eq!(difference(&ours, &ours), None);
        assert_eq!(
            difference(&older, &ours),
            None,
            "a newer definition has all that an older operator needs"
        );
    }

    #[test]
    fn the_operator_knows_its_own_definition() {
        let ours = known();
        for path in ["spec.image", "spec.runtime=Node", "status.conditions[].reason"] {
            assert!(ours.contains(path), "{path}");
        }
    }
}
