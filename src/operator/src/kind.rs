//! The kinds that the operator reads, and how each is reached: one variant and one row for each.

use std::fmt;

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{LimitRange, Pod, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DynamicResourceScope},
};
use workerapp_api::{WorkerApp, names};
use workerapp_plan::{PodMonitor, ScaledObject};

use crate::cache::Incoming;

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
    /// Has KEDA scale them.
    ScaledObject,
    /// Keeps enough of them while nodes are emptied.
    PodDisruptionBudget,
    /// Says who may reach them.
    NetworkPolicy,
    /// Shows them to Prometheus.
    PodMonitor,
    /// Read for its troubles, which the status passes on.
    Pod,
    /// Read for the defaults that it fills in.
    LimitRange,
}

/// Whom an object concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// It is an app.
    Itself,
    /// The app whose child it is: that of its name.
    Parent,
    /// The app whose child it is; where no app controls it, every app of its namespace.
    ParentOrNamespace,
    /// The app that its label names.
    Labelled,
    /// Every app of its namespace.
    Namespace,
}

/// What is to be known of a kind.
struct Row {
    kind: Kind,
    name: &'static str,
    resource: fn() -> ApiResource,
    concern: Concern,
    need: Need,
}

/// Whether the operator can do without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// It must be there and readable.
    Required,
    /// It may be forbidden to read it.
    Readable,
    /// It may not even be there: whoever wants it installs its definition, now or later.
    Installed,
}

/// In the order of the variants.
static ROWS: [Row; Kind::ALL.len()] = [
    row::<WorkerApp>(Kind::WorkerApp, "WorkerApp", Concern::Itself, Need::Required),
    row::<Deployment>(Kind::Deployment, "Deployment", Concern::Parent, Need::Required),
    row::<Service>(Kind::Service, "Service", Concern::Parent, Need::Required),
    row::<HorizontalPodAutoscaler>(
        Kind::HorizontalPodAutoscaler,
        "HorizontalPodAutoscaler",
        Concern::Parent,
        Need::Required,
    ),
    row::<ScaledObject>(Kind::ScaledObject, "ScaledObject", Concern::Parent, Need::Installed),
    // Kubernetes evicts no pod that has two.
    row::<PodDisruptionBudget>(
        Kind::PodDisruptionBudget,
        "PodDisruptionBudget",
        Concern::ParentOrNamespace,
        Need::Required,
    ),
    row::<NetworkPolicy>(Kind::NetworkPolicy, "NetworkPolicy", Concern::Parent, Need::Required),
    row::<PodMonitor>(Kind::PodMonitor, "PodMonitor", Concern::Parent, Need::Installed),
    row::<Pod>(Kind::Pod, "Pod", Concern::Labelled, Need::Readable),
    row::<LimitRange>(Kind::LimitRange, "LimitRange", Concern::Namespace, Need::Readable),
];

const fn row<K: Resource<DynamicType = ()>>(
    kind: Kind,
    name: &'static str,
    concern: Concern,
    need: Need,
) -> Row {
    Row { kind, name, resource: resource::<K>, concern, need }
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

impl Kind {
    /// All of them, in the order of the variants.
    pub const ALL: [Self; 10] = [
        Self::WorkerApp,
        Self::Deployment,
        Self::Service,
        Self::HorizontalPodAutoscaler,
        Self::ScaledObject,
        Self::PodDisruptionBudget,
        Self::NetworkPolicy,
        Self::PodMonitor,
        Self::Pod,
        Self::LimitRange,
    ];

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.kind)
    }

    /// The name as it stands in an object.
    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    /// Group, version and plural.
    pub fn resource(self) -> ApiResource {
        (self.row().resource)()
    }

    /// Whom an object of this kind concerns.
    pub(crate) fn concern(self) -> Concern {
        self.row().concern
    }

    /// Whether apps have children of this kind.
    pub(crate) fn is_child(self) -> bool {
        matches!(self.concern(), Concern::Parent | Concern::ParentOrNamespace)
    }

    /// Whether a plan has to know all of this kind in a namespace, or whether the cluster has it at all: such lists go before the others,
    /// which are long and of which a look at one app needs what has its name.
    pub(crate) fn is_listed_first(self) -> bool {
        !matches!(self.concern(), Concern::Parent | Concern::Labelled) || self.may_be_absent()
    }

    /// The API of this kind in one namespace, or in all, whose objects are read as `K`.
    pub fn api<K>(self, client: &Client, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let resource = self.resource();
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// The label that narrows the cache down to what the operator made.
    pub fn selector(self) -> Option<String> {
        match self.concern() {
            Concern::Itself | Concern::Namespace | Concern::ParentOrNamespace => None,
            Concern::Parent | Concern::Labelled => {
                Some(format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY))
            }
        }
    }

    /// Whether a list by [`Kind::selector`] brings this object.
    pub(crate) fn lists(self, object: &Incoming) -> bool {
        let labels = object.meta().labels.as_ref();
        let manager = labels.and_then(|labels| labels.get(names::LABEL_MANAGED_BY));
        self.selector().is_none() || manager.is_some_and(|manager| manager == names::MANAGED_BY)
    }

    /// Where an object of this kind says how few pods it leaves, if it scales the Deployment.
    pub(crate) fn fewest_pods(self) -> Option<&'static str> {
        match self {
            Self::HorizontalPodAutoscaler => Some("minReplicas"),
            Self::ScaledObject => Some("minReplicaCount"),
            _ => None,
        }
    }

    /// Whether the operator works without the permission to read it.
    pub fn optional(self) -> bool {
        self.row().need != Need::Required
    }

    /// Whether the operator works where the cluster doesn't have the kind at all.
    pub(crate) fn may_be_absent(self) -> bool {
        self.row().need == Need::Installed
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kind, ROWS};

    #[test]
    fn the_rows_stand_in_the_order_of_the_kinds_and_have_their_names() {
        for (at, (kind, row)) in Kind::ALL.into_iter().zip(&ROWS).enumerate() {
            assert!(kind as usize == at && row.kind == kind, "{kind}");
            assert_eq!(kind.resource().kind, kind.as_str());
            assert_eq!(Kind::named(kind.as_str()), Some(kind));
        }
    }

    #[test]
    fn first_come_the_kinds_of_which_a_plan_has_to_know_all() {
        let later: Vec<_> = Kind::ALL.into_iter().filter(|kind| !kind.is_listed_first()).collect();
        let children = [Kind::Deployment, Kind::Service, Kind::HorizontalPodAutoscaler];
        assert_eq!(later, [&children[..], &[Kind::NetworkPolicy, Kind::Pod]].concat());
    }

    #[test]
    fn somebody_elses_object_is_in_no_list_of_children() {
        let lists = |kind: Kind, labels: serde_json::Value| {
            let object = json!({ "metadata": { "name": "shop", "labels": labels } });
            kind.lists(&serde_json::from_str(&object.to_string()).unwrap())
        };
        let ours = json!({ "app.kubernetes.io/managed-by": "workerapp-operator" });
        assert!(lists(Kind::Deployment, ours));
        assert!(!lists(Kind::Deployment, json!({ "app.kubernetes.io/managed-by": "Helm" })));
        assert!(!lists(Kind::Deployment, json!(null)));
        assert!(lists(Kind::PodDisruptionBudget, json!(null)));
    }
}
