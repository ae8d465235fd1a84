//! The PodDisruptionBudget: how many pods may be away at once while nodes are emptied.
//!
//! By default one pod at a time: the number of pods was sized for the load, and a drain goes on as soon as the evicted pod's successor is
//! ready. It never keeps a node from being emptied for ever: at least one pod may always go, and a pod that isn't ready may go whatever
//! the others do.
//!
//! Kubernetes evicts no pod that has two budgets, whatever they say: where somebody made one for the app's pods, theirs stays and the app
//! gets none.

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt as _},
};
use workerapp_api::{DisruptionBudgetSpec, WorkerApp};

use crate::{Facts, digest, metadata};

pub(crate) fn build(app: &WorkerApp) -> Option<PodDisruptionBudget> {
    let asked = asked(app)?;
    let min_available = asked.min_available.filter(|_| blocks_drains(app).is_none()).map(number);
    let max_unavailable = match &min_available {
        Some(_) => None,
        None => Some(asked.max_unavailable.map_or(IntOrString::Int(1), number)),
    };
    Some(digest::stamp(PodDisruptionBudget {
        metadata: metadata::child(app, |children| children.disruption_budget.as_ref()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable,
            min_available,
            selector: Some(LabelSelector {
                match_labels: Some(metadata::managed_selector(app)),
                ..LabelSelector::default()
            }),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
        }),
        status: None,
    }))
}

/// What the spec says of the budget, if there is to be one.
fn asked(app: &WorkerApp) -> Option<DisruptionBudgetSpec> {
    let asked = app.spec.disruption_budget.clone().unwrap_or_default();
    let given = asked.max_unavailable.is_some() || asked.min_available.is_some();
    // Whether one pod of one may go is no question, and for none there is nothing to guard.
    let wanted = asked.enabled.unwrap_or(given || sure_pods(app) >= 2);
    wanted.then_some(asked)
}

/// The name of somebody else's budget that stands in the way of the app's own: the first by name that selects its pods.
pub(crate) fn foreign(app: &WorkerApp, facts: &Facts) -> Option<String> {
    asked(app)?;
    let template = metadata::pod_template(app, |children| children.pod.as_ref());
    let labels = template.labels.unwrap_or_default();
    let selects = |budget: &&PodDisruptionBudget| {
        // One without a selector selects nothing, an empty one everything.
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
        selector.and_then(|it| Selector::try_from(it).ok()).is_some_and(|it| it.matches(&labels))
    };
    facts.foreign_budgets.iter().filter(selects).map(ResourceExt::name_any).min()
}

/// `minAvailable` and the number of pods that the app is sure to have, where the one leaves none of the other to evict.
pub(crate) fn blocks_drains(app: &WorkerApp) -> Option<(String, i32)> {
    let budget = app.spec.disruption_budget.as_ref().filter(|budget| budget.enabled != Some(false))?;
    let pods = sure_pods(app);
    let (stay, shown) = match number(budget.min_available.clone()?) {
        IntOrString::Int(stay) => (i64::from(stay), stay.to_string()),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            // Kubernetes rounds up.
            ((i64::from(pods) * percent + 99) / 100, text)
        }
    };
    (pods > 0 && stay >= i64::from(pods)).then_some((shown, pods))
}

/// The fewest pods that the app has at any time. Without either field it is whoever's who scales it, and 1 to begin with.
fn sure_pods(app: &WorkerApp) -> i32 {
    match &app.spec.autoscaling {
        Some(autoscaling) => autoscaling.min_replicas.unwrap_or(1),
        None => app.spec.replicas.unwrap_or(1),
    }
}

/// A number in quotes is a number: Kubernetes takes a string for a percentage only.
fn number(value: IntOrString) -> IntOrString {
    match value {
        IntOrString::String(text) => text.parse().map_or(IntOrString::String(text), IntOrString::Int),
        number @ IntOrString::Int(_) => number,
    }
}
