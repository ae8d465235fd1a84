//! The kinds that the operator reads, and how each is reached.

use std::fmt;

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{LimitRange, Pod, Service},
};
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use workerapp_api::{WorkerApp, names};

/// A kind that the operator reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What a person writes.
    WorkerApp,
    /// Runs the pods.
    Deployment,
    /// Makes them reachable.
    Service,
    /// Scales them.
    HorizontalPodAutoscaler,
    /// Read for its troubles, which the status passes on.
    Pod,
    /// Read for the defaults that it fills in.
    LimitRange,
}

impl Kind {
    /// All of them, the main kind first.
    pub const ALL: [Self; 6] = [
        Self::WorkerApp,
        Self::Deployment,
        Self::Service,
        Self::HorizontalPodAutoscaler,
        Self::Pod,
        Self::LimitRange,
    ];

    /// The name as it stands in an object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkerApp => "WorkerApp",
            Self::Deployment => "Deployment",
            Self::Service => "Service",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::Pod => "Pod",
            Self::LimitRange => "LimitRange",
        }
    }

    /// Group, version and plural.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::WorkerApp => ApiResource::erase::<WorkerApp>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::HorizontalPodAutoscaler => ApiResource::erase::<HorizontalPodAutoscaler>(&()),
            Self::Pod => ApiResource::erase::<Pod>(&()),
            Self::LimitRange => ApiResource::erase::<LimitRange>(&()),
        }
    }

    /// The API of this kind in one namespace, or in all.
    pub fn api(self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = self.resource();
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// The label that narrows the cache down to what the operator made.
    pub fn selector(self) -> Option<String> {
        match self {
            Self::WorkerApp | Self::LimitRange => None,
            Self::Deployment | Self::Service | Self::HorizontalPodAutoscaler | Self::Pod => {
                Some(format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY))
            }
        }
    }

    /// Whether the operator works without the permission to read it.
    pub fn optional(self) -> bool {
        matches!(self, Self::Pod | Self::LimitRange)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
