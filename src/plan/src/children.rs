//! The child objects as a whole: every kind stands here once, and what goes through them goes through [`Children::each`].

use std::borrow::Cow;

use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service,
    networking::v1::NetworkPolicy, policy::v1::PodDisruptionBudget,
};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::{keda::ScaledObject, monitor::PodMonitor};

/// The child objects, without owner references: those need the app's uid, which only a cluster gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// Runs the pods.
    pub deployment: Deployment,
    /// Makes them reachable.
    pub service: Service,
    /// Scales them; `None` without `spec.autoscaling`, or where KEDA does.
    pub autoscaler: Option<HorizontalPodAutoscaler>,
    /// Has KEDA scale them; `None` without `spec.autoscaling.keda`, or where the cluster has no KEDA.
    pub scaled_object: Option<ScaledObject>,
    /// Keeps enough of them while nodes are emptied.
    pub disruption_budget: Option<PodDisruptionBudget>,
    /// Says who may reach them; `None` without `spec.networkPolicy`.
    pub network_policy: Option<NetworkPolicy>,
    /// Shows them to Prometheus; `None` without `spec.monitor`, or where the cluster doesn't know the kind.
    pub monitor: Option<PodMonitor>,
}

/// One kind of child.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The kind's name.
    pub kind: Cow<'static, str>,
    /// The object; `None`: there is to be none.
    pub object: Option<Value>,
}

impl Children {
    /// Every kind of child, in the order in which they are applied, those that there are not to be among them.
    pub fn each(&self) -> [Child; 7] {
        // Taken apart so that a new kind can't be forgotten.
        let Self {
            deployment,
            service,
            autoscaler,
            scaled_object,
            disruption_budget,
            network_policy,
            monitor,
        } = self;
        [
            child(Some(deployment)),
            child(Some(service)),
            child(autoscaler.as_ref()),
            child(scaled_object.as_ref()),
            child(disruption_budget.as_ref()),
            child(network_policy.as_ref()),
            child(monitor.as_ref()),
        ]
    }
}

fn child<K: Resource<DynamicType = ()> + Serialize>(object: Option<&K>) -> Child {
    // Kubernetes' own types always turn into JSON; were one not to, the API server would say so.
    let object = object.map(|object| serde_json::to_value(object).unwrap_or_default());
    Child { kind: K::kind(&()), object }
}
