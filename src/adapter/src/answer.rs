//! A question for a metric → a list of values or a failure, as the API's JSON. Pure.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use workerapp_api::names;

use crate::{
    GROUP, VERSIONS,
    metric::{self, METRICS, Metric},
    selector,
    store::{Absent, Key, Moment, Store, Value, WINDOW},
};

/// The resource of pods, as it stands in a path.
pub const PODS: &str = "pods";
/// The resource of WorkerApps, as it stands in a path.
pub const APPS: &str = "workerapps.workerapp.dev";
/// In the place of a name: all that match the label selector.
const ALL: &str = "*";

/// A path below `/apis/custom.metrics.k8s.io`, and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// `v1beta1` or `v1beta2`.
    pub version: String,
    /// The namespace.
    pub namespace: String,
    /// [`PODS`] or [`APPS`].
    pub resource: String,
    /// A name, or `*`.
    pub name: String,
    /// The metric's name.
    pub metric: String,
    /// Which objects; with `*` only.
    pub label_selector: String,
    /// Which of several series of the metric. There are two: the usual one, and [`names::NEWEST_SAMPLE`] of pods with `*`.
    pub metric_label_selector: String,
}

/// Why a question has no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The version isn't served.
    #[error("{GROUP} has no version {0} here: v1beta2 and v1beta1 are served")]
    Version(String),
    /// The resource has no metrics.
    #[error("there are no metrics of {0} here: only of {PODS} and {APPS}")]
    Resource(String),
    /// The metric isn't known.
    #[error("there is no metric {metric} here: there are {}", METRICS.iter().map(|metric| metric.name).collect::<Vec<_>>().join(", "))]
    Metric {
        /// What was asked for.
        metric: String,
    },
    /// A label selector that can't be read.
    #[error("{0}")]
    Selector(#[from] selector::Malformed),
    /// A label selector that would select among WorkerApps.
    #[error("{APPS} can't be chosen by labels here: name the WorkerApp, or ask for {PODS}")]
    AppsBySelector,
    /// A selector over the metric's own labels.
    #[error(
        "{0} has no labels to choose by but {newest} for all pods that match: leave metricLabelSelector (metric.selector) out",
        newest = names::NEWEST_SAMPLE
    )]
    MetricSelector(String),
    /// There is no value.
    #[error("{0}")]
    Absent(#[from] Absent),
}

impl Refusal {
    /// The HTTP status, and the reason's word of the Kubernetes API.
    pub fn status(&self) -> (u16, &'static str) {
        match self {
            Self::Selector(_) | Self::AppsBySelector | Self::MetricSelector(_) => (400, "BadRequest"),
            Self::Version(_) | Self::Resource(_) | Self::Metric { .. } | Self::Absent(_) => (404, "NotFound"),
        }
    }
}

/// The answer to a question, as of `now`, which is `wall` by the clock on the wall.
///
/// # Errors
/// Why there is none.
pub fn answer(store: &Store, question: &Question, now: Moment, wall: Timestamp) -> Result<Json, Refusal> {
    let Question { version, namespace, resource, name, metric, .. } = question;
    if !VERSIONS.contains(&version.as_str()) {
        return Err(Refusal::Version(version.clone()));
    }
    let metric = metric::find(metric).ok_or_else(|| Refusal::Metric { metric: metric.clone() })?;
    let of_pods = resource == PODS && name == ALL;
    let newest = of_pods && question.metric_label_selector == names::NEWEST_SAMPLE;
    if !newest && !selector::parse(&question.metric_label_selector)?.selects_all() {
        return Err(Refusal::MetricSelector(metric.name.into()));
    }
    let selector = selector::parse(&question.label_selector)?;
    let (kind, api_version) = match resource.as_str() {
        PODS => ("Pod", "v1"),
        APPS => ("WorkerApp", "workerapp.dev/v1alpha1"),
        other => return Err(Refusal::Resource(other.into())),
    };
    let values: Vec<(&str, Value)> = match (resource.as_str(), name.as_str()) {
        (PODS, ALL) if newest => store.newest(metric, namespace, &selector, now),
        (PODS, ALL) => store.pods(metric, namespace, &selector, now),
        (PODS, _) => {
            let key = Key { namespace: namespace.clone(), name: name.clone() };
            vec![(name.as_str(), store.pod(metric, &key, now)?)]
        }
        (_, ALL) if !selector.selects_all() => return Err(Refusal::AppsBySelector),
        (_, ALL) => store.apps(metric, namespace, now),
        (_, app) => vec![(app, store.app(metric, namespace, app, now)?)],
    };
    let items: Vec<Json> = values
        .into_iter()
        .map(|(name, value)| {
            let object =
                json!({ "kind": kind, "namespace": namespace, "name": name, "apiVersion": api_version });
            let window = if newest { 0 } else { WINDOW.as_secs() };
            item(version, metric, &object, (value, window), wall)
        })
        .collect();
    Ok(json!({
        "kind": "MetricValueList",
        "apiVersion": format!("{GROUP}/{version}"),
        "metadata": {},
        "items": items,
    }))
}

fn item(
    version: &str,
    metric: &Metric,
    object: &Json,
    (value, window): (Value, u64),
    wall: Timestamp,
) -> Json {
    let mut item = json!({
        "describedObject": object,
        "timestamp": seconds(wall, value.age),
        "windowSeconds": window,
        "value": quantity(value.value),
    });
    // The one thing in which the versions differ.
    if version == "v1beta1" {
        item["metricName"] = metric.name.into();
    } else {
        item["metric"] = json!({ "name": metric.name });
    }
    item
}

/// The time `age` before `wall`, in whole seconds, as Kubernetes writes times.
fn seconds(wall: Timestamp, age: Duration) -> String {
    let then = SignedDuration::try_from(age).ok().and_then(|age| wall.checked_sub(age).ok()).unwrap_or(wall);
    Timestamp::from_second(then.as_second()).unwrap_or(then).to_string()
}

/// In thousandths, which is as fine as a Quantity of HPA gets.
#[allow(clippy::cast_possible_truncation, reason = "`as` ends at the largest number, and none comes near it")]
fn quantity(value: f64) -> String {
    let milli = (value * 1000.0).round() as i64;
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// A failure as the Kubernetes API says it.
pub fn failure(code: u16, reason: &str, message: &str) -> Json {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": reason, "code": code,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::{Question, Refusal, answer, quantity};
    use crate::{
        page::Reading,
        store::{Facts, Key, Store},
    };

    fn store() -> Store {
        let mut store = Store::default();
        for (name, queue) in [("web-1", 3), ("web-2", 4)] {
            let key = Key { namespace: "shop".into(), name: name.into() };
            let labels = [("pod".to_owned(), name.to_owned())].into();
            let facts =
                Facts { uid: name.into(), labels, app: Some("web".into()), ready: true, ..Facts::default() };
            store.track(key.clone(), facts);
            let page = format!("workerapp_worker_queue_length{{worker=\"0\"}} {queue}");
            store.record(&key, name, Duration::from_secs(10), Reading::of(&page));
        }
        store
    }

    fn question(resource: &str, name: &str) -> Question {
        Question {
            version: "v1beta2".into(),
            namespace: "shop".into(),
            resource: resource.into(),
            name: name.into(),
            metric: "workerapp_queue_length".into(),
            ..Question::default()
        }
    }

    fn ask(question: &Question) -> Result<serde_json::Value, Refusal> {
        answer(
            &store(),
            question,
            Duration::from_secs(12),
            "2026-01-01T00:00:02.7Z".parse::<Timestamp>().unwrap(),
        )
    }

    #[test]
    fn a_pod_an_app_and_all_of_both() {
        assert_eq!(
            ask(&question("pods", "web-1")).unwrap(),
            json!({
                "kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {},
                "items": [{
                    "describedObject": {"kind": "Pod", "namespace": "shop", "name": "web-1", "apiVersion": "v1"},
                    "metric": {"name": "workerapp_queue_length"},
                    "timestamp": "2026-01-01T00:00:00Z", "windowSeconds": 15, "value": "3",
                }],
            })
        );
        let values = |resource, name| -> Vec<serde_json::Value> {
            let list = ask(&question(resource, name)).unwrap();
            list["items"].as_array().unwrap().iter().map(|item| item["value"].clone()).collect()
        };
        assert_eq!(values("pods", "*"), ["3", "4"]);
        assert_eq!(values("workerapps.workerapp.dev", "web"), ["7"]);
        assert_eq!(values("workerapps.workerapp.dev", "*"), ["7"]);
        let one = Question { label_selector: "pod=web-2".into(), ..question("pods", "*") };
        assert_eq!(ask(&one).unwrap()["items"][0]["value"], "4");
        let newest = Question { metric_label_selector: "window=newest".into(), ..question("pods", "*") };
        let newest = &ask(&newest).unwrap()["items"];
        assert_eq!((&newest[0]["value"], &newest[0]["windowSeconds"]), (&json!("3"), &json!(0)));
        let old = Question { version: "v1beta1".into(), ..question("pods", "web-1") };
        assert_eq!(ask(&old).unwrap()["items"][0]["metricName"], "workerapp_queue_length");
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        for (question, code, words) in [
            (question("pods", "web-9"), 404, "no pod web-9"),
            (question("workerapps.workerapp.dev", "api"), 404, "no pod of a WorkerApp api"),
            (question("services", "web"), 404, "only of pods and workerapps.workerapp.dev"),
            (
                Question { metric: "rps".into(), ..question("pods", "*") },
                404,
                "workerapp_requests_in_flight, ",
            ),
            (Question { version: "v1".into(), ..question("pods", "*") }, 404, "v1beta2 and v1beta1"),
            (Question { label_selector: "a b".into(), ..question("pods", "*") }, 400, "write it as in"),
            (
                Question { label_selector: "a=b".into(), ..question("workerapps.workerapp.dev", "*") },
                400,
                "name the WorkerApp",
            ),
            (
                Question { metric_label_selector: "window=newest".into(), ..question("pods", "web-1") },
                400,
                "leave metricLabel",
            ),
            (
                Question { metric_label_selector: "a=b".into(), ..question("pods", "*") },
                400,
                "leave metricLabel",
            ),
        ] {
            let refusal = ask(&question).unwrap_err();
            assert_eq!(refusal.status().0, code, "{refusal}");
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
    }

    #[test]
    fn values_are_quantities() {
        for (value, text) in [(0.0, "0"), (7.0, "7"), (0.65, "650m"), (0.0004, "0"), (12.3456, "12346m")] {
            assert_eq!(quantity(value), text);
        }
    }
}
