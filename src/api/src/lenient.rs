//! Quantities inside the types that are passed on to Kubernetes as they are.
//!
//! Kubernetes reads `sizeLimit: 1` as it reads `sizeLimit: "1"`, and so does the CRD's schema; the generated types read
//! the string only. An app that was accepted must never fail to be read, so numbers become strings here first.

use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::Value;

/// Fields that hold one quantity.
const QUANTITY_FIELDS: [&str; 2] = ["sizeLimit", "divisor"];
/// Fields that hold a map of quantities.
const QUANTITY_MAPS: [&str; 2] = ["requests", "limits"];

/// For `#[serde(deserialize_with)]`: reads `T` with every number in the place of a quantity turned into a string.
pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let mut value = Value::deserialize(deserializer)?;
    stringify_quantities(&mut value);
    serde_json::from_value(value).map_err(D::Error::custom)
}

fn stringify_quantities(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(stringify_quantities),
        Value::Object(fields) => {
            for (key, field) in fields {
                if QUANTITY_FIELDS.contains(&key.as_str()) {
                    stringify(field);
                } else if QUANTITY_MAPS.contains(&key.as_str())
                    && let Value::Object(quantities) = field
                {
                    quantities.values_mut().for_each(stringify);
                } else {
                    stringify_quantities(field);
                }
            }
        }
        _ => {}
    }
}

fn stringify(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = Value::String(number.to_string());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Volume;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize)]
    struct Holder {
        #[serde(deserialize_with = "super::deserialize")]
        volumes: Vec<Volume>,
    }

    #[test]
    fn k8s_openapi_170_a_number_is_a_quantity() {
        let holder: Holder = serde_json::from_value(json!({"volumes": [
            {"name": "a", "emptyDir": {"sizeLimit": 1_048_576}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": 5}}}}}},
            {"name": "c", "configMap": {"name": "c", "defaultMode": 420}},
        ]}))
        .unwrap();
        let size = holder.volumes[0].empty_dir.as_ref().unwrap().size_limit.as_ref().unwrap();
        assert_eq!(size.0, "1048576");
        assert_eq!(holder.volumes[2].config_map.as_ref().unwrap().default_mode, Some(420));
    }
}
