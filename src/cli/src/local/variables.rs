//! The environment of an app outside a cluster.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::api::core::v1::EnvVar;
use workerapp_api::WorkerApp;

use crate::error::Error;

/// What a person gives: `--env` and `--env-file`.
pub(crate) type Given = BTreeMap<String, String>;

/// Reads `--env NAME=VALUE`, or `--env NAME` for the value that NAME has here.
pub(crate) fn given(
    arguments: &[String],
    file: Option<&Path>,
    here: impl Fn(&str) -> Option<String>,
) -> Result<Given, Error> {
    let mut given = Given::new();
    if let Some(file) = file {
        let failed = |why: String| Error::EnvFile { file: file.to_owned(), why };
        let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
        given.extend(from_file(&text).map_err(failed)?);
    }
    for argument in arguments {
        let wrong = |why| Error::Env { given: argument.clone(), why };
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                (argument.as_str(), here(argument).ok_or_else(|| wrong("it has no `=`, and isn't set here"))?)
            }
        };
        if name.is_empty() {
            return Err(wrong("it has no name"));
        }
        given.insert(name.to_owned(), value);
    }
    Ok(given)
}

/// Lines `NAME=VALUE`; empty ones and those that begin with `#` are passed over. Values are taken as they stand.
fn from_file(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once('=') {
            Some((name, value)) if !name.is_empty() => found.push((name.to_owned(), value.to_owned())),
            _ => return Err(format!("line {}: not NAME=VALUE", number + 1)),
        }
    }
    Ok(found)
}

/// The variables of the container, in order, with what a person gives in the place of what stands in the manifest. Those that only
/// the cluster knows are an error unless they are given or optional.
pub(crate) fn resolved(
    app: &WorkerApp,
    container: &[EnvVar],
    given: &Given,
) -> Result<Vec<(String, String)>, Error> {
    let mut resolved: Vec<(String, String)> = Vec::new();
    let mut missing = Vec::new();
    for variable in container {
        let name = &variable.name;
        let value = match (given.get(name), &variable.value_from) {
            (Some(value), _) => value.clone(),
            (None, None) => expand(variable.value.as_deref().unwrap_or_default(), &resolved),
            (None, Some(source)) => {
                let source = serde_json::to_value(source).unwrap_or_default();
                if !is_optional(&source) {
                    missing.push(format!("{name}: spec.env takes it from {}", described(&source)));
                }
                continue;
            }
        };
        resolved.push((name.clone(), value));
    }
    let more = given.iter().filter(|(name, _)| !container.iter().any(|variable| variable.name == **name));
    resolved.extend(more.map(|(name, value)| (name.clone(), value.clone())));
    // Nobody can know which variables these hold; whoever gives some is taken to know.
    if given.is_empty() {
        for source in &app.spec.env_from {
            let source = serde_json::to_value(source).unwrap_or_default();
            if !is_optional(&source) {
                missing.push(format!("all of spec.envFrom: {}", described(&source)));
            }
        }
    }
    if missing.is_empty() { Ok(resolved) } else { Err(Error::ClusterEnv { missing }) }
}

fn is_optional(source: &serde_json::Value) -> bool {
    source.as_object().is_some_and(|kinds| kinds.values().any(|kind| kind["optional"] == true))
}

/// `secretKeyRef {"key":"url","name":"db"}`.
fn described(source: &serde_json::Value) -> String {
    let kinds = source.as_object().into_iter().flatten().filter(|(_, kind)| kind.is_object());
    kinds.map(|(name, kind)| format!("{name} {kind}")).collect::<Vec<_>>().join(", ")
}

/// Replaces `$(NAME)` by a variable's value and `$$` by `$`, as the kubelet does; what it doesn't know stays.
pub(crate) fn expand(text: &str, variables: &[(String, String)]) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        result += before;
        let after = from.get(1..).unwrap_or_default();
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|inside| inside.split_once(')'));
        let value = reference.and_then(|(name, after)| {
            let (_, value) = variables.iter().rev().find(|(known, _)| known == name)?;
            Some((value, after))
        });
        if let Some((value, after)) = value {
            result += value;
            rest = after;
        } else {
            result.push('$');
            rest = after;
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_filled_in_as_the_kubelet_does() {
        let known = [("PORT".to_owned(), "3000".to_owned())];
        for (text, expected) in [
            ("a $(PORT) b", "a 3000 b"),
            ("$$(PORT)", "$(PORT)"),
            ("$(NO) $ $(PORT", "$(NO) $ $(PORT"),
            ("$$$(PORT)€", "$3000€"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    fn app(spec: serde_json::Value) -> WorkerApp {
        let mut whole = json!({"image": "i", "command": ["c"], "port": 3000});
        if let (Some(whole), serde_json::Value::Object(spec)) = (whole.as_object_mut(), spec) {
            whole.extend(spec);
        }
        serde_json::from_value(json!({"apiVersion": "workerapp.dev/v1alpha1", "kind": "WorkerApp", "metadata": {"name": "a"}, "spec": whole})).unwrap()
    }

    fn of(app: &WorkerApp, given: &[&str]) -> Result<Vec<(String, String)>, Error> {
        let given: Vec<_> = given.iter().map(|&one| one.to_owned()).collect();
        resolved(app, &app.spec.env, &super::given(&given, None, |_| None)?)
    }

    #[test]
    fn what_only_the_cluster_knows_is_asked_for_by_name() {
        let app = app(json!({
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "$(A)2"},
                {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}},
                {"name": "OPT", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": true}}},
            ],
            "envFrom": [{"configMapRef": {"name": "settings"}}],
        }));
        let error = of(&app, &[]).unwrap_err().to_string();
        for part in [
            "DB: spec.env takes it from secretKeyRef",
            "\"db\"",
            "spec.envFrom: configMapRef",
            "--env NAME=VALUE",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("OPT"), "{error}");
        let all = of(&app, &["DB=x", "A=9", "NEW=y"]).unwrap();
        let all: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(all, ["A=9", "B=92", "DB=x", "NEW=y"]);
    }

    #[test]
    fn wrong_variables_are_refused_and_a_name_alone_means_the_value_here() {
        let given =
            |one: &str| given(&[one.to_owned()], None, |name| (name == "HERE").then(|| "x".to_owned()));
        assert_eq!(given("HERE").unwrap()["HERE"], "x");
        assert!(given("THERE").unwrap_err().to_string().contains("--env THERE: it has no `=`"));
        assert!(given("=x").is_err());
        assert_eq!(from_file("# c\n\nA=1=2\n").unwrap(), [("A".to_owned(), "1=2".to_owned())]);
        assert!(from_file("A=1\nB\n").unwrap_err().contains("line 2"));
    }
}
