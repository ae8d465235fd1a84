//! Whether what is wanted already stands in the cluster.
//!
//! What is live holds more than what was sent: defaults, fields of other managers, items that were added to lists. So the
//! question is whether the wanted object is *contained* in the live one, by the rules by which the API server merges:
//! maps by key, some lists by the key of their items, every other list as a whole.

use serde_json::{Map, Value};
use workerapp_api::Quantity;

/// Lists that are merged by a key of their items: the field, and the keys.
const KEYED_LISTS: [(&str, &[&str]); 12] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("claims", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("ownerReferences", &["uid"]),
    ("hostAliases", &["ip"]),
    ("ports", &[]),
];

/// Maps whose values are quantities.
const QUANTITY_MAPS: [&str; 2] = ["requests", "limits"];
/// Fields that are quantities.
const QUANTITIES: [&str; 3] = ["sizeLimit", "divisor", "averageValue"];

/// Fields that the API server drops when they hold their type's zero, as it can't tell that from unset.
const DROPPED_WHEN_ZERO: [&str; 11] = [
    "value",
    "readOnly",
    "subPath",
    "subPathExpr",
    "minReadySeconds",
    "initialDelaySeconds",
    "operator",
    "effect",
    "host",
    "service",
    "medium",
];
/// Fields for which the API server puts its default in the place of a zero.
const DEFAULTED_WHEN_ZERO: [&str; 5] =
    ["periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold", "path"];

/// Objects that the API server takes as a whole: what is live in them and not wanted is a difference too.
const WHOLE: [&str; 10] = [
    "selector",
    "labelSelector",
    "podSelector",
    "namespaceSelector",
    "nodeSelector",
    "secretKeyRef",
    "configMapKeyRef",
    "fieldRef",
    "resourceFieldRef",
    "scaleTargetRef",
];

/// Where `live` does not contain `wanted`: the path of the first difference, for the log.
pub(crate) fn difference(live: &Value, wanted: &Value) -> Option<String> {
    let root = Place { parent: "", field: "", whole: false };
    root.difference(live, wanted).map(|path| path.trim_start_matches('.').to_owned())
}

/// Where in the object a comparison stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The names of the two fields above.
    parent: &'a str,
    field: &'a str,
    /// Inside of something that is taken as a whole.
    whole: bool,
}

impl<'a> Place<'a> {
    fn below(self, field: &'a str) -> Self {
        Self { parent: self.field, field, whole: self.whole || WHOLE.contains(&field) }
    }

    fn difference(self, live: &'a Value, wanted: &'a Value) -> Option<String> {
        match (live, wanted) {
            (_, Value::Null) => None,
            (Value::Object(live), Value::Object(wanted)) => self.in_objects(live, wanted),
            (Value::Array(live), Value::Array(wanted)) => self.in_lists(live, wanted),
            _ if live == wanted => None,
            _ if QUANTITY_MAPS.contains(&self.parent) || QUANTITIES.contains(&self.field) => {
                (!same_quantity(live, wanted)).then(String::new)
            }
            _ if is_zero(wanted) && DEFAULTED_WHEN_ZERO.contains(&self.field) => None,
            _ => Some(String::new()),
        }
    }

    fn in_objects(self, live: &'a Map<String, Value>, wanted: &'a Map<String, Value>) -> Option<String> {
        let missing_or_other = wanted.iter().find_map(|(name, wanted)| {
            let below = match live.get(name) {
                Some(live) => self.below(name).difference(live, wanted)?,
                None if wanted.is_null()
                    || (is_zero(wanted) && DROPPED_WHEN_ZERO.contains(&name.as_str())) =>
                {
                    return None;
                }
                None => String::new(),
            };
            Some(format!(".{name}{below}"))
        });
        missing_or_other.or_else(|| {
            let added =
                live.iter().find(|(name, live)| !wanted.contains_key(*name) && !is_default(name, live));
            added.filter(|_| self.whole).map(|(name, _)| format!(".{name}"))
        })
    }

    fn in_lists(self, live: &'a [Value], wanted: &'a [Value]) -> Option<String> {
        let Some((_, keys)) =
            KEYED_LISTS.iter().find(|(name, _)| *name == self.field).filter(|_| !self.whole)
        else {
            if live.len() != wanted.len() {
                return Some(String::new());
            }
            let item = Self { whole: true, ..self };
            let mut items = live.iter().zip(wanted).enumerate();
            return items
                .find_map(|(at, (live, wanted))| Some(format!("[{at}]{}", item.difference(live, wanted)?)));
        };
        wanted.iter().enumerate().find_map(|(at, wanted)| {
            let below = match live.iter().find(|live| same_item(self.field, keys, live, wanted)) {
                Some(live) => self.difference(live, wanted)?,
                None => String::new(),
            };
            Some(format!("[{at}]{below}"))
        })
    }
}

/// What the API server fills in by itself inside of such wholes.
fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "apiVersion" => value == "v1",
        "divisor" => value == "0",
        "expirationSeconds" => value == 3600,
        "scheme" => value == "HTTP",
        "protocol" => value == "TCP",
        _ => value.is_null() || value.as_object().is_some_and(Map::is_empty),
    }
}

/// Whether two items of a keyed list are the same one.
fn same_item(list: &str, keys: &[&str], live: &Value, wanted: &Value) -> bool {
    if list == "ports" {
        let number = if wanted["containerPort"].is_null() { "port" } else { "containerPort" };
        let protocol = |port: &Value| port["protocol"].as_str().unwrap_or("TCP").to_owned();
        return live[number] == wanted[number] && protocol(live) == protocol(wanted);
    }
    keys.iter().all(|key| live[*key] == wanted[*key])
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The API server writes quantities in a canonical form: `0.5` comes back as `500m`.
fn same_quantity(live: &Value, wanted: &Value) -> bool {
    let quantity = |value: &Value| -> Option<Quantity> {
        match value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        }
    };
    matches!((quantity(live), quantity(wanted)), (Some(live), Some(wanted)) if live == wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::difference;

    #[test]
    fn what_others_added_is_no_difference_and_what_was_changed_is() {
        for (contained, live, wanted) in [
            (true, json!({"a": 1, "b": 2}), json!({"a": 1})),
            (false, json!({"a": 1}), json!({"a": 1, "b": 2})),
            (true, json!({"a": 1}), json!({"a": null})),
            (false, json!({"a": "1"}), json!({"a": 1})),
            // Lists without keys are taken as a whole, in their order.
            (true, json!({"args": ["a", "b"]}), json!({"args": ["a", "b"]})),
            (false, json!({"args": ["b", "a"]}), json!({"args": ["a", "b"]})),
            (false, json!({"args": ["a", "b", "c"]}), json!({"args": ["a", "b"]})),
            (
                false,
                json!({"metrics": [{"type": "Resource"}, {}]}),
                json!({"metrics": [{"type": "Resource"}]}),
            ),
            // What is taken as a whole may not hold more, but for what the API server fills in.
            (false, json!({"selector": {"a": "1", "b": "2"}}), json!({"selector": {"a": "1"}})),
            (false, json!({"nodeSelector": {"a": "1", "b": "2"}}), json!({"nodeSelector": {"a": "1"}})),
            (
                false,
                json!({"tolerations": [{"key": "k", "effect": "NoSchedule"}]}),
                json!({"tolerations": [{"key": "k"}]}),
            ),
            (
                true,
                json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "p"}}}]}),
                json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}]}),
            ),
            (true, json!({"labels": {"a": "1", "b": "2"}}), json!({"labels": {"a": "1"}})),
            // Lists with keys may hold more, and in another order.
            (
                true,
                json!({"env": [{"name": "SIDE", "value": "1"}, {"name": "A", "value": "x"}]}),
                json!({"env": [{"name": "A", "value": "x"}]}),
            ),
            (
                false,
                json!({"env": [{"name": "A", "value": "y"}]}),
                json!({"env": [{"name": "A", "value": "x"}]}),
            ),
            (
                true,
                json!({"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}, {"port": 81, "protocol": "TCP"}]}),
                json!({"ports": [{"port": 81}, {"port": 80}]}),
            ),
            (
                false,
                json!({"ports": [{"containerPort": 80, "protocol": "UDP"}]}),
                json!({"ports": [{"containerPort": 80}]}),
            ),
            // Quantities by value.
            (
                true,
                json!({"limits": {"cpu": "500m", "memory": "1Gi"}}),
                json!({"limits": {"cpu": "0.5", "memory": "1024Mi"}}),
            ),
            (false, json!({"limits": {"cpu": "500m"}}), json!({"limits": {"cpu": "501m"}})),
            (true, json!({"emptyDir": {"sizeLimit": "1M"}}), json!({"emptyDir": {"sizeLimit": "1000000"}})),
            (false, json!({"name": "500m"}), json!({"name": "0.5"})),
            // Zeros that the API server can't tell from unset, and one that it can.
            (true, json!({"env": [{"name": "A"}]}), json!({"env": [{"name": "A", "value": ""}]})),
            (true, json!({"spec": {}}), json!({"spec": {"minReadySeconds": 0}})),
            (true, json!({"periodSeconds": 10}), json!({"periodSeconds": 0})),
            (false, json!({"securityContext": {}}), json!({"securityContext": {"runAsUser": 0}})),
            (false, json!({}), json!({"allowPrivilegeEscalation": false})),
        ] {
            let difference = difference(&live, &wanted);
            assert_eq!(difference.is_none(), contained, "{live} {wanted} {difference:?}");
        }
        let live = json!({"spec": {"env": [{"name": "A", "value": "x"}]}});
        let wanted = json!({"spec": {"env": [{"name": "A", "value": "y"}]}});
        assert_eq!(difference(&live, &wanted).as_deref(), Some("spec.env[0].value"));
    }
}
