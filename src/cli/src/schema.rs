//! Checks a manifest against the CRD's schema, as the API server does before it looks at any rule.
//!
//! Only the keywords that the CRD uses; a message names the field, its value and what is allowed there.

use serde_json::{Map, Value};

/// Fields of the root that Kubernetes describes and not this schema.
const ROOT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Everything in `document` that `schema` doesn't allow.
pub(crate) fn problems(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if document["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        found.push("metadata.name: required; example: my-app".to_owned());
    }
    let mut document = document.clone();
    if let Value::Object(fields) = &mut document {
        fields.retain(|name, _| !ROOT.contains(&name.as_str()));
    }
    check(schema, &document, "", &mut found);
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    // Null means unset, which the API server drops.
    if value.is_null() {
        return;
    }
    if let Some(allowed) = wrong_type(schema, value) {
        found.push(format!("{path}: {value}: must be {allowed}"));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<_> = allowed.iter().map(|one| one.as_str().unwrap_or_default()).collect();
        found.push(format!("{path}: {value}: must be one of {}", allowed.join(", ")));
    }
    match value {
        Value::Number(number) => bounds(schema, ("minimum", "maximum"), number.as_f64(), "", path, found),
        Value::String(text) => {
            let length = u32::try_from(text.chars().count()).map(f64::from).ok();
            bounds(schema, ("minLength", "maxLength"), length, " characters", path, found);
        }
        Value::Array(items) => {
            let length = u32::try_from(items.len()).map(f64::from).ok();
            bounds(schema, ("minItems", "maxItems"), length, " items", path, found);
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(fields) => object(schema, fields, path, found),
        Value::Bool(_) | Value::Null => {}
    }
}

fn object(schema: &Value, fields: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| fields.get(*name).is_none_or(Value::is_null)) {
        found.push(format!("{}: required", below(name)));
    }
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    for (name, field) in fields {
        match &schema["properties"][name] {
            Value::Null if schema["properties"].is_object() && !open => {
                let known: Vec<_> = schema["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                let meant = nearest(name, &known).map(|meant| format!(" (did you mean {meant}?)"));
                let meant = meant.unwrap_or_default();
                found.push(format!(
                    "unknown field {}{meant}; known there: {}",
                    below(name),
                    known.join(", ")
                ));
            }
            Value::Null => check(&schema["additionalProperties"], field, &below(name), found),
            property => check(property, field, &below(name), found),
        }
    }
}

/// The known field that `name` was most likely to be: some letters of it are wrong, missing, too many, swapped or of another case.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let given = plain(name);
    let distances = known.iter().map(|field| (strsim::damerau_levenshtein(&given, &plain(field)), *field));
    let (distance, field) = distances.min_by_key(|(distance, _)| *distance)?;
    // One letter in three, or a single one of a short name.
    (distance <= (given.chars().count() / 3).max(1)).then_some(field)
}

/// What the type must be, where it isn't.
fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if schema["x-kubernetes-int-or-string"] == true {
        let fits = value.is_string() || value.is_i64() || value.is_u64();
        return match value {
            _ if fits => None,
            Value::Number(number) => {
                Some(format!("a string or a whole number: write \"{number}\", in quotes"))
            }
            _ => Some("a string or a whole number".to_owned()),
        };
    }
    let (fits, allowed) = match schema["type"].as_str()? {
        "integer" => (value.is_i64() || value.is_u64(), "a whole number, without quotes"),
        "number" => (value.is_number(), "a number"),
        "string" => (value.is_string(), "a string: put it in quotes"),
        "boolean" => (value.is_boolean(), "true or false, without quotes"),
        "array" => (value.is_array(), "a list; example: [a, b]"),
        "object" => (value.is_object(), "an object of fields"),
        _ => return None,
    };
    (!fits).then(|| allowed.to_owned())
}

/// Whether `size` lies within the two keywords of the schema.
fn bounds(
    schema: &Value,
    (least, most): (&str, &str),
    size: Option<f64>,
    unit: &str,
    path: &str,
    found: &mut Vec<String>,
) {
    let Some(size) = size else { return };
    if let Some(least) = schema[least].as_f64().filter(|least| size < *least) {
        found.push(format!("{path}: {size}{unit}: must be at least {least}"));
    }
    if let Some(most) = schema[most].as_f64().filter(|most| size > *most) {
        found.push(format!("{path}: {size}{unit}: must be at most {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_field_is_suggested_and_none_that_is_far() {
        let known =
            ["args", "autoscaling", "env", "envFrom", "image", "nodePort", "port", "ports", "replicas"];
        for (given, meant) in [
            ("prot", Some("port")),
            ("prots", Some("ports")),
            ("arg", Some("args")),
            ("replicsa", Some("replicas")),
            ("replica", Some("replicas")),
            ("nodeport", Some("nodePort")),
            ("node_port", Some("nodePort")),
            ("env-from", Some("envFrom")),
            ("autoScaler", Some("autoscaling")),
            ("livenessProbe", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, &known), meant, "{given}");
        }
        assert_eq!(nearest("prot", &[]), None);
    }
}
