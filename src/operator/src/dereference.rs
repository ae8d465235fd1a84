//! Gathers what a reconcile reads, from the caches alone: no request is sent here.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use workerapp_api::{BurstStatus, WorkerApp};
use workerapp_plan::Facts;

use crate::{
    cache::{Key, Object},
    context::Context,
    error::Unreadable,
    kind::Kind,
};

/// An app and what its plan has to know of the cluster.
pub(crate) struct Subject {
    /// The app as it is stored.
    pub(crate) object: Arc<Object>,
    /// The same with its types, if it fits them.
    pub(crate) app: Result<Box<WorkerApp>, Unreadable>,
    pub(crate) facts: Facts,
    /// The burst that runs, and its end.
    pub(crate) burst: Option<(Timestamp, BurstStatus)>,
}

/// The app with this key; `None` if there is none (any more).
pub(crate) fn dereference(context: &Context, key: &Key) -> Option<Subject> {
    let object = context.caches[Kind::WorkerApp].get(key)?;
    let app: Result<Box<WorkerApp>, _> = object
        .read()
        .map_err(|error| Unreadable { field: error.path().to_string(), message: error.inner().to_string() });
    let burst = app.as_ref().ok().and_then(|app| context.bursts.running(key, app, Timestamp::now()));
    let all_apps = Key::of_namespace(&key.namespace);
    let limit_ranges = context.caches[Kind::LimitRange].of_app(&all_apps);
    let budgets = context.caches[Kind::PodDisruptionBudget].of_app(&all_apps);
    let facts = Facts {
        supervisor_image: context.settings.supervisor_image.clone(),
        supervisor_pull_policy: context.settings.supervisor_pull_policy.clone(),
        limit_ranges: limit_ranges.iter().filter_map(|object| object.read().ok()).collect(),
        foreign_budgets: budgets.iter().filter_map(|object| object.read().ok()).collect(),
        operator_namespace: context.settings.own_namespace.clone(),
        absent: Kind::ALL
            .into_iter()
            .filter(|kind| kind.may_be_absent() && !context.caches[*kind].readable(&key.namespace))
            .map(Kind::as_str)
            .collect(),
        served: context.served.get(),
        floor: burst.as_ref().map(|(_, burst)| burst.replicas),
        nodes: context.nodes.get(),
    };
    Some(Subject { object, app, facts, burst })
}
