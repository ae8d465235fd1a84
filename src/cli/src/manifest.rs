//! Reads WorkerApps from a file and checks them as the API server would.

use std::{io::Read as _, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::cel::Validator;
use serde_json::Value;
use thiserror::Error;
use workerapp_api::{WorkerApp, crd};
use workerapp_plan::Invalid;

use crate::schema;

/// Why a manifest can't be used.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("{file}: {error}")]
    Read { file: String, error: std::io::Error },
    #[error("{file}: not YAML: {error}")]
    Yaml { file: String, error: Box<serde_saphyr::Error> },
    #[error("{file}: line {line}: the key {key:?} stands twice in one mapping; remove one of the two")]
    KeyTwice { file: String, key: String, line: u64 },
    #[error(
        "{file}: holds no WorkerApp (apiVersion: workerapp.dev/v1alpha1, kind: WorkerApp); it has {found}"
    )]
    NoWorkerApp { file: String, found: String },
    #[error("{file}: WorkerApp {name}: {field}: {error}")]
    Field { file: String, name: String, field: String, error: String },
    #[error("{file}: WorkerApp {name}: {}", rules.join("; "))]
    Rules { file: String, name: String, rules: Vec<String> },
    #[error("{0}")]
    Invalid(Invalid),
}

impl Error {
    fn of_yaml(file: &str, error: serde_saphyr::Error) -> Self {
        let file = file.to_owned();
        match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key, location } => {
                Self::KeyTwice { file, key: key.clone().unwrap_or_default(), line: location.line() }
            }
            _ => Self::Yaml { file, error: Box::new(error) },
        }
    }
}

/// Every WorkerApp in `file`; `-` is standard input.
pub(crate) fn read(file: &Path) -> Result<Vec<WorkerApp>, Error> {
    read_changed(file, |_| {})
}

/// The same, each changed before it is checked.
pub(crate) fn read_changed(file: &Path, change: impl Fn(&mut Value)) -> Result<Vec<WorkerApp>, Error> {
    let shown = file.display().to_string();
    let text = if shown == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    }
    .map_err(|error| Error::Read { file: shown.clone(), error })?;
    parse(&shown, &text, change)
}

fn parse(file: &str, text: &str, change: impl Fn(&mut Value)) -> Result<Vec<WorkerApp>, Error> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| Error::of_yaml(file, error))?;
    let schema = schema_of(&crd::manifest());
    let (apps, others): (Vec<_>, Vec<_>) = documents.into_iter().flat_map(items).partition(|document| {
        document["kind"] == "WorkerApp" && document["apiVersion"] == "workerapp.dev/v1alpha1"
    });
    if apps.is_empty() {
        let shown: Vec<_> = others.iter().map(identity).collect();
        let found = if shown.is_empty() { "nothing".to_owned() } else { shown.join("; ") };
        return Err(Error::NoWorkerApp { file: file.into(), found });
    }
    apps.into_iter()
        .map(|mut document| {
            change(&mut document);
            check(file, &schema, document)
        })
        .collect()
}

/// What a document says that it is.
fn identity(document: &Value) -> String {
    let word = |field: &str| {
        document[field].as_str().map_or_else(|| format!("no {field}"), |is| format!("{field}: {is}"))
    };
    format!("{}, {}", word("apiVersion"), word("kind"))
}

/// The schema of the one version, as JSON; null should there be none, against which everything is valid.
fn schema_of(crd: &CustomResourceDefinition) -> Value {
    let version = crd.spec.versions.first();
    let schema = version
        .and_then(|version| version.schema.as_ref())
        .and_then(|schema| schema.open_api_v3_schema.as_ref());
    serde_json::to_value(schema).unwrap_or_default()
}

fn check(file: &str, schema: &Value, document: Value) -> Result<WorkerApp, Error> {
    let name = document["metadata"]["name"].as_str().unwrap_or("(without a name)").to_owned();
    let file = file.to_owned();

    let problems = schema::problems(schema, &document);
    if !problems.is_empty() {
        return Err(Error::Rules { file, name, rules: problems });
    }
    let rules = Validator::new().validate(schema, &document, None).err().map(|errors| {
        let told = |path: &str, message: &str| match value_at(&document, path) {
            Some(value) => format!("{path}: {value}: {message}"),
            // Rules of the whole name the fields that they are about.
            None if path.is_empty() || path == "spec" => message.to_owned(),
            None => format!("{path}: {message}"),
        };
        errors.iter().map(|error| told(&error.field_path, &error.message)).collect::<Vec<_>>()
    });
    if let Some(rules) = rules.filter(|rules| !rules.is_empty()) {
        return Err(Error::Rules { file, name, rules });
    }
    serde_path_to_error::deserialize(without_nulls(document)).map_err(|error| Error::Field {
        file,
        name,
        field: error.path().to_string(),
        error: error.into_inner().to_string(),
    })
}

/// Null means unset, as it does to the API server.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.into_iter().filter(|(_, field)| !field.is_null());
            Value::Object(set.map(|(name, field)| (name, without_nulls(field))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// The document itself, or what stands in a `List` such as `kubectl get -o yaml` prints.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Object(mut fields) if fields.get("kind").is_some_and(|kind| kind == "List") => {
            match fields.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        document => vec![document],
    }
}

/// The scalar at a path such as `spec.ports[0].name`.
fn value_at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    document.pointer(&pointer).filter(|value| !value.is_object() && !value.is_array())
}

#[cfg(test)]
mod tests {
    use workerapp_api::WorkerApp;

    use super::Error;

    fn parse(file: &str, text: &str) -> Result<Vec<WorkerApp>, Error> {
        super::parse(file, text, |_| {})
    }

    const GOOD: &str = "apiVersion: workerapp.dev/v1alpha1\nkind: WorkerApp\nmetadata: {name: a}\nspec: {image: i, port: 3000, command: [c]";

    #[test]
    fn a_manifest_may_hold_several_apps_and_other_kinds() {
        let text = format!(
            "{GOOD}}}\n---\nkind: Namespace\napiVersion: v1\nmetadata: {{name: n}}\n---\n{GOOD}, resources: {{limits: {{cpu: 2}}}}}}\n"
        );
        assert_eq!(parse("f", &text).unwrap().len(), 2);
    }

    #[test]
    fn each_mistake_names_the_field_and_what_is_allowed() {
        for (rest, expected) in [
            (
                ", replicsa: 3}",
                "unknown field spec.replicsa (did you mean replicas?); known there: affinity, ",
            ),
            (
                ", service: {nodeport: 30000}}",
                "unknown field spec.service.nodeport (did you mean nodePort?); known there: expose, ",
            ),
            (", livenessprob: {}, probes: {}}", "spec.probes; known there: "),
            (", resources: {limits: {cpu: abc}}}", "spec.resources.limits.cpu: \"abc\": not a quantity"),
            (
                ", autoscaling: {minReplicas: 5, maxReplicas: 3}}",
                "a: spec.autoscaling: minReplicas must not be above maxReplicas",
            ),
            (
                ", replicas: 2, autoscaling: {maxReplicas: 3}}",
                "a: spec.replicas and spec.autoscaling exclude each other",
            ),
            (", service: {nodePort: 80}}", "spec.service.nodePort: 80: a node port must lie"),
            (", workers: {count: 0}}", "at least 1 worker"),
            (", runtime: Nod}", "spec.runtime: \"Nod\": must be one of Node, NodeCluster"),
            (", port: x}", "line 4: the key \"port\" stands twice"),
            (", replicas: -1}", "spec.replicas: -1: must be at least 0"),
            (", minReadySeconds: 90000}", "spec.minReadySeconds: 90000: must be at most 86400"),
            (", autoscaling: {minReplicas: 1}}", "spec.autoscaling.maxReplicas: required"),
            (", args: -v}", "spec.args: \"-v\": must be a list; example: [a, b]"),
            (
                ", minReadySeconds: '3'}",
                "spec.minReadySeconds: \"3\": must be a whole number, without quotes",
            ),
            (
                ", resources: {limits: {cpu: 0.5}}}",
                "cpu: 0.5: must be a string or a whole number: write \"0.5\", in quotes",
            ),
            (", resources: {limits: {cpu: 2, nvidia.com/gpu: 1}}, port: 1}", "the key \"port\" stands twice"),
            (", args: [a}", "not YAML: "),
        ] {
            let error = parse("f.yaml", &format!("{GOOD}{rest}")).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with("f.yaml: "), "{rest}: {error}");
        }
    }

    #[test]
    fn resources_of_other_names_are_let_through() {
        let text = format!("{GOOD}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}");
        assert_eq!(parse("f", &text).unwrap().len(), 1);
    }

    #[test]
    fn what_kubectl_prints_can_be_read_and_null_is_unset() {
        let item = format!("{GOOD}, env: null, replicas: null}}").replace('\n', "\n  ");
        let text = format!("apiVersion: v1\nkind: List\nitems:\n- {item}\n");
        let apps = parse("f", &text).unwrap();
        assert_eq!((apps.len(), apps[0].spec.replicas), (1, None));
    }

    #[test]
    fn an_app_has_a_name() {
        let text = GOOD.replace("{name: a}", "{}") + "}";
        let error = parse("f", &text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("metadata.name: required"), "{error}");
    }

    #[test]
    fn a_file_without_workerapps_is_an_error() {
        let error = parse("f", "apiVersion: v1\nkind: Namespace\n").map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("holds no WorkerApp") && error.ends_with("it has apiVersion: v1, kind: Namespace"),
            "{error}"
        );
        let error = parse("f", &(GOOD.replace("v1alpha1", "v1") + "}")).map(|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("it has apiVersion: workerapp.dev/v1, kind: WorkerApp"), "{error}");
    }
}
