//! An app and everything that stands for it, as it was at one moment.

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Node, Pod, Service},
    events::v1::Event,
};
use workerapp_api::WorkerApp;

use crate::supervisor::Account;

/// An app, its children, its pods.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) app: WorkerApp,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) service: Option<Service>,
    pub(crate) autoscaler: Option<HorizontalPodAutoscaler>,
    pub(crate) pods: Vec<PodLook>,
    /// `None` for whoever may not see nodes.
    pub(crate) nodes: Option<Vec<Node>>,
    /// Of the whole namespace.
    pub(crate) events: Vec<Event>,
}

/// A pod and what its supervisor says, or why it says nothing.
#[derive(Clone, Debug)]
pub(crate) struct PodLook {
    pub(crate) pod: Pod,
    pub(crate) account: Result<Account, String>,
}

/// A pod at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SeenPod {
    pub(crate) look: PodLook,
    /// Periods of its CPU quota, and those in which it was throttled.
    pub(crate) periods: Option<(f64, f64)>,
}

/// Whether a pod gets requests.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
