//! A suite as a file: apps, how they are asked, and what was published about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;
use workerapp_api::WorkerApp;
use workerapp_bench::comparison::METRICS;

use super::super::flags::Protocol;
use crate::manifest;

/// Why a suite can't be used.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("{file}: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file}: {source}")]
    Yaml { file: String, source: Box<serde_saphyr::Error> },
    #[error("{file}: {field}: {value:?} is not allowed; {allowed}")]
    Field { file: String, field: &'static str, value: String, allowed: String },
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
}

/// A suite.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Suite {
    /// The value of the label on what it makes.
    pub(crate) name: String,
    /// The head of the report.
    pub(crate) title: String,
    /// What is compared and why, for the report.
    #[serde(default)]
    pub(crate) about: String,
    /// Files with WorkerApps, beside this one. The first app is what the others are compared with.
    apps: Vec<PathBuf>,
    /// What is asked for; each is measured by itself.
    #[serde(default = "root")]
    pub(crate) requests: Vec<Ask>,
    /// How.
    #[serde(default)]
    pub(crate) protocol: Protocol,
    /// Changes with a name, for `--variant`.
    #[serde(default)]
    pub(crate) variants: BTreeMap<String, Variant>,
    /// The layout in which reports of this kind are usually read.
    #[serde(default)]
    pub(crate) layout: Layout,
    /// What others found.
    #[serde(default)]
    pub(crate) published: Vec<Claim>,
    /// What was seen when it was measured, and why, in sentences of a person.
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
}

fn root() -> Vec<Ask> {
    vec![Ask { path: "/".to_owned(), apps: Vec::new() }]
}

/// Something that is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    pub(crate) path: String,
    /// The apps that have it; none: all.
    #[serde(default)]
    pub(crate) apps: Vec<String>,
}

impl Ask {
    /// Whether this app is asked.
    pub(crate) fn of(&self, app: &WorkerApp) -> bool {
        self.apps.is_empty() || self.apps.contains(&app.name_any())
    }
}

/// A change with a name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    /// What it is for.
    #[serde(default)]
    pub(crate) about: String,
    /// In the place of what the suite says.
    #[serde(default)]
    protocol: Protocol,
    /// A JSON merge patch of the spec of the apps: null removes.
    #[serde(default)]
    spec: Map<String, Value>,
    /// The apps that it changes; none: all.
    #[serde(default)]
    apps: Vec<String>,
}

/// A layout of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    #[default]
    Autocannon,
    Wrk,
}

/// What others found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    /// In words.
    pub(crate) says: String,
    /// Where it was published.
    pub(crate) source: String,
    /// One of the report's metrics.
    #[serde(default)]
    pub(crate) metric: Option<String>,
    #[serde(default)]
    pub(crate) target: Option<String>,
    #[serde(default)]
    pub(crate) base: Option<String>,
    /// The target's figure over the base's.
    #[serde(default)]
    pub(crate) ratio: Option<f64>,
}

/// Reads the suite in `file`, with these variants, and its apps.
pub(crate) fn read(file: &Path, variants: &[String]) -> Result<(Suite, Vec<WorkerApp>), Error> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|source| Error::Read { file: shown.clone(), source })?;
    let mut suite = parse(&shown, &text)?;
    let wanted = variants.iter().map(|name| variant(&shown, &suite, name)).collect::<Result<Vec<_>, _>>()?;
    for variant in &wanted {
        suite.protocol = suite.protocol.changed_by(&variant.protocol);
    }
    let mut apps = Vec::new();
    for part in &suite.apps {
        // Beside the suite, wherever the person stands.
        let path = file.parent().unwrap_or(Path::new("")).join(part);
        apps.extend(manifest::read_changed(&path, |document| {
            for variant in &wanted {
                variant.change(document);
            }
        })?);
    }
    check(&shown, &suite, &apps)?;
    Ok((suite, apps))
}

fn parse(file: &str, text: &str) -> Result<Suite, Error> {
    serde_saphyr::from_str(text)
        .map_err(|source| Error::Yaml { file: file.to_owned(), source: Box::new(source) })
}

fn variant(file: &str, suite: &Suite, name: &str) -> Result<Variant, Error> {
    suite.variants.get(name).cloned().ok_or_else(|| {
        let known = suite.variants.iter().map(|(name, variant)| format!("{name} ({})", variant.about.trim()));
        let known = known.collect::<Vec<_>>().join("; ");
        let allowed = if known.is_empty() { "it has none".to_owned() } else { format!("it has {known}") };
        Error::Field { file: file.to_owned(), field: "--variant", value: name.to_owned(), allowed }
    })
}

impl Variant {
    fn change(&self, document: &mut Value) {
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.apps.is_empty() || self.apps.contains(&name) {
            merge(&mut document["spec"], &Value::Object(self.spec.clone()));
        }
    }
}

/// A JSON merge patch, as in RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// What the types can't say.
fn check(file: &str, suite: &Suite, apps: &[WorkerApp]) -> Result<(), Error> {
    let wrong = |field, value: &str, allowed: String| {
        Err(Error::Field { file: file.to_owned(), field, value: value.to_owned(), allowed })
    };
    let label = |name: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=63).contains(&name.len())
            && name.chars().all(inner)
            && !name.starts_with('-')
            && !name.ends_with('-')
    };
    if !label(&suite.name) {
        return wrong("name", &suite.name, "at most 63 of a-z, 0-9 and - are, and no - at an end".into());
    }
    if suite.requests.is_empty() {
        return wrong("requests", "[]", "at least one path is needed".into());
    }
    if let Some(ask) = suite.requests.iter().find(|ask| !ask.path.starts_with('/')) {
        return wrong("requests.path", &ask.path, "it must begin with /".into());
    }
    let mut names = BTreeSet::new();
    let mut ports = BTreeMap::new();
    for app in apps {
        let name = app.name_any();
        if app.namespace().is_some() {
            let allowed = "leave it out: -n says where the suite stands".to_owned();
            return wrong("metadata.namespace", &app.namespace().unwrap_or_default(), allowed);
        }
        for port in node_ports(app) {
            if let Some(other) = ports.insert(port, name.clone()) {
                return wrong("nodePort", &port.to_string(), format!("{other} and {name} both want it"));
            }
        }
        if !names.insert(name.clone()) {
            return wrong("apps", &name, "each app needs a name of its own".into());
        }
    }
    let known = names.iter().cloned().collect::<Vec<_>>().join(", ");
    let asked = suite.requests.iter().flat_map(|ask| &ask.apps).map(|name| ("requests.apps", name));
    let changed =
        suite.variants.values().flat_map(|variant| &variant.apps).map(|name| ("variants.apps", name));
    let claimed = suite
        .published
        .iter()
        .flat_map(|claim| claim.target.iter().chain(&claim.base))
        .map(|name| ("published", name));
    if let Some((field, name)) = asked.chain(changed).chain(claimed).find(|(_, name)| !names.contains(*name))
    {
        return wrong(field, name, format!("the suite's apps are {known}"));
    }
    let metrics = suite.published.iter().filter_map(|claim| claim.metric.as_ref());
    for metric in metrics {
        if !METRICS.iter().any(|known| known.name == metric) {
            let known: Vec<_> = METRICS.iter().map(|known| known.name).collect();
            return wrong("published.metric", metric, format!("there are {}", known.join(", ")));
        }
    }
    Ok(())
}

/// The ports on every node that an app asks for.
pub(super) fn node_ports(app: &WorkerApp) -> Vec<i32> {
    let service = app.spec.service.as_ref();
    let own = service.and_then(|service| service.node_port);
    let metrics = service.and_then(|service| service.metrics.as_ref()?.node_port);
    let extra = app.spec.ports.iter().filter_map(|port| port.node_port);
    own.into_iter().chain(metrics).chain(extra).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SUITES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/suites");

    #[test]
    fn every_suite_that_comes_with_the_project_can_be_planned_in_each_of_its_variants() {
        let files: Vec<_> = std::fs::read_dir(SUITES)
            .unwrap()
            .map(|folder| folder.unwrap().path().join("suite.yaml"))
            .filter(|file| file.is_file())
            .collect();
        assert!(!files.is_empty());
        for file in files {
            let variants = read(&file, &[]).unwrap().0.variants;
            assert!(variants.contains_key("small"), "{}", file.display());
            let each = variants.into_keys().map(|name| vec![name]).chain([Vec::new()]);
            for variant in each {
                let (suite, apps) = read(&file, &variant).unwrap();
                assert_eq!(file.parent().unwrap().file_name().unwrap().to_str(), Some(suite.name.as_str()));
                for app in &apps {
                    let facts = crate::command::input::facts(None, None);
                    let plan = workerapp_plan::plan(app, &facts);
                    assert!(plan.is_ok(), "{} {variant:?}: {:?}", app.name_any(), plan.err());
                }
            }
        }
    }

    #[test]
    fn a_merge_patch_changes_adds_and_removes() {
        let mut spec = json!({"a": {"b": 1, "c": 2}, "d": 3});
        merge(&mut spec, &json!({"a": {"b": null, "e": {"f": 4}}, "d": [5]}));
        assert_eq!(spec, json!({"a": {"c": 2, "e": {"f": 4}}, "d": [5]}));
    }

    #[test]
    fn a_variant_changes_its_apps_and_the_protocol() {
        let file = Path::new(SUITES).join("pm2-vs-watt/suite.yaml");
        let (suite, apps) = read(&file, &["small".to_owned()]).unwrap();
        assert_eq!(suite.protocol.preset.as_deref(), Some("watt"));
        assert_eq!(suite.protocol.duration.as_deref(), Some("4s"));
        let limits = &apps[0].spec.resources.as_ref().unwrap().limits;
        assert_eq!(limits["cpu"].to_string(), "2");
        let error = read(&file, &["smal".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--variant: \"smal\"") && error.contains("small (For a machine"), "{error}");
    }

    #[test]
    fn mistakes_name_the_field_and_what_is_allowed() {
        let folder = std::env::temp_dir().join(format!("workerapp-suite-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let app = "apiVersion: workerapp.dev/v1alpha1\nkind: WorkerApp\nmetadata: {name: a}\nspec: {image: i, port: 1, command: [c]}\n";
        std::fs::write(folder.join("apps.yaml"), app).unwrap();
        std::fs::write(folder.join("twice.yaml"), format!("{app}---\n{app}")).unwrap();
        for (text, expected) in [
            ("{name: A, title: t, apps: [apps.yaml]}", "name: \"A\" is not allowed; at most 63 of a-z"),
            ("{name: a, title: t, apps: [twice.yaml]}", "each app needs a name of its own"),
            ("{name: a, title: t, apps: [apps.yaml], requests: []}", "at least one path"),
            ("{name: a, title: t, apps: [apps.yaml], requests: [{path: x}]}", "it must begin with /"),
            (
                "{name: a, title: t, apps: [apps.yaml], requests: [{path: /, apps: [b]}]}",
                "the suite's apps are a",
            ),
            ("{name: a, title: t, apps: [no.yaml]}", "no.yaml: "),
            ("{name: a, title: t, apps: [apps.yaml], rounds: 5}", "rounds"),
            (
                "{name: a, title: t, apps: [apps.yaml], published: [{says: s, source: s, metric: rps}]}",
                "there are requests/s, ",
            ),
        ] {
            let file = folder.join("suite.yaml");
            std::fs::write(&file, text).unwrap();
            let error = read(&file, &[]).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
