//! The messages of the definition's rules, as a person reads them: after the field, which the API server puts in front.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use serde_json::Value;

/// Every rule below `schema`, with its field's path.
fn rules(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let field = rule["fieldPath"].as_str().unwrap_or_default();
        found.push((format!("{path}{field}"), rule["message"].as_str().unwrap_or_default().to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        rules(property, &path, found);
    }
    if schema["items"].is_object() {
        rules(&schema["items"], &format!("{path}[]"), found);
    }
}

/// `spec.autoscaling: Invalid value: …: spec.autoscaling.minReplicas must not be above maxReplicas` says it twice.
#[test]
fn a_message_does_not_name_its_field_again_and_one_of_the_whole_spec_names_all_in_full() {
    let crd = serde_json::to_value(workerapp_api::crd::manifest()).unwrap();
    let mut found = Vec::new();
    rules(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut found);
    assert!(found.len() > 30, "{found:?}");
    for (path, message) in found {
        let (first, rest) = message.split_once(' ').unwrap();
        if path.is_empty() || path == "spec" {
            assert!(
                ["metadata.", "spec.", "`workerapp`"].iter().any(|whole| message.contains(whole)),
                "{message}"
            );
            continue;
        }
        let own = path.trim_end_matches("[]").rsplit('.').next().unwrap();
        assert!(!message.contains(&path) && first != own, "{path}: {first} {rest}");
    }
}
