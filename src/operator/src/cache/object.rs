//! One object as the cache holds it: a few parsed facts, and the rest as JSON text, packed.
//!
//! A typed Deployment takes several kilobytes even when most of its fields are unset, and is read only when
//! something about its app has changed. The text takes some hundred bytes, and is parsed at the point of use;
//! an object that can't be parsed then is that app's problem alone, and never the list's it came in.

use std::{collections::BTreeMap, fmt, hash::Hasher as _, sync::Arc};

use fnv::FnvHasher;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use workerapp_api::names;

use super::{Incoming, packed::Packed};
use crate::kind::{Concern, Kind};

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of `namespace`/`name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// What stands for all apps of `namespace`.
    pub fn of_namespace(namespace: &Arc<str>) -> Self {
        Self { namespace: Arc::clone(namespace), name: "".into() }
    }

    /// Whether it stands for all apps of its namespace.
    pub fn is_namespace(&self) -> bool {
        self.name.is_empty()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The owner reference that has `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The owner's kind.
    pub kind: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's uid.
    pub uid: Box<str>,
}

/// Who claims what of an object, from its managed fields: `spec.replicas` of a Deployment, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The operator's own field manager.
    pub ours: bool,
    /// The manager that keeps the number while it changes hands.
    pub handover: bool,
    /// The manager of a repair owns fields of this object, whatever its kind.
    pub repair: bool,
}

/// An object of the cluster, reduced to what the operator looks at.
#[derive(Debug)]
pub struct Object {
    /// Namespace and name.
    pub key: Key,
    /// The app it belongs to: of the same name, or for a pod the one that its label names, or for a LimitRange or somebody
    /// else's disruption budget all apps of the namespace.
    pub app: Key,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// `metadata.generation`; 0 for kinds that have none.
    pub generation: i64,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Who controls it.
    pub controller: Option<Controller>,
    /// Who claims `spec.replicas`.
    pub claims: Claims,
    /// A hash of everything but the status and the version: the same while nobody edits the object.
    pub content: u64,
    text: Packed,
}

impl Object {
    /// Reduces `object`.
    pub fn new(kind: Kind, object: Incoming) -> Self {
        let Incoming { metadata: meta, claims, spec, status } = object;
        let key =
            Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        let instance = meta.labels.as_ref().and_then(|labels| labels.get(names::LABEL_INSTANCE));
        let controller = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let controller = controller.map(|owner| Controller {
            kind: owner.kind.as_str().into(),
            name: owner.name.as_str().into(),
            uid: owner.uid.as_str().into(),
        });
        let of_app =
            controller.as_ref().is_some_and(|controller| *controller.kind == *Kind::WorkerApp.as_str());
        let app = match (kind.concern(), instance) {
            (Concern::Labelled, Some(instance)) => {
                Key { namespace: Arc::clone(&key.namespace), name: instance.as_str().into() }
            }
            (Concern::Namespace, _) => Key::of_namespace(&key.namespace),
            (Concern::ParentOrNamespace, _) if !of_app => Key::of_namespace(&key.namespace),
            _ => key.clone(),
        };
        let uid: Box<str> = meta.uid.clone().unwrap_or_default().into();
        let resource_version: Box<str> = meta.resource_version.clone().unwrap_or_default().into();
        let generation = meta.generation.unwrap_or_default();
        let deleting = meta.deletion_timestamp.is_some();

        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if matches!(kind, Kind::Pod | Kind::LimitRange) {
            // Nobody here reads them, and others write large ones (networks, injected sidecars).
            annotations.clear();
        }
        let body = Body {
            metadata: Metadata {
                name: meta.name.as_deref(),
                namespace: meta.namespace.as_deref(),
                uid: meta.uid.as_deref(),
                generation: meta.generation,
                deletion_timestamp: meta.deletion_timestamp.as_ref(),
                labels: meta.labels.as_ref(),
                annotations: &annotations,
                owner_references: meta.owner_references.as_deref(),
            },
            spec: spec.as_deref().filter(|_| kind != Kind::Pod),
            status: status.map(|status| pruned(kind, status)),
        };
        let content = body.content();
        let text = Packed::new(kind, text(&body).as_bytes());
        Self { key, app, uid, resource_version, generation, deleting, controller, claims, content, text }
    }

    /// The object as JSON, without what the cache drops.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.text.text()).unwrap_or_default()
    }

    /// The object as `T`.
    ///
    /// # Errors
    /// Names the field that doesn't fit `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&self.text.text()))
    }

    /// Whether nothing that the operator looks at differs.
    pub fn same_as(&self, other: &Self) -> bool {
        self.uid == other.uid && self.claims == other.claims && self.text == other.text
    }

    /// Whether this one was written after `other`. Resource versions of one kind are numbers that grow; where they aren't,
    /// the one that came last counts.
    pub fn newer_than(&self, other: &Self) -> bool {
        match (self.resource_version.parse::<u64>(), other.resource_version.parse::<u64>()) {
            (Ok(this), Ok(other)) => this > other,
            _ => self.resource_version != other.resource_version,
        }
    }

    /// Whether the WorkerApp with this uid controls it.
    pub fn controlled_by(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|controller| *controller.uid == *uid)
    }
}

/// What the cache holds as text.
#[derive(Serialize)]
struct Body<'a> {
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Box<RawValue>>,
}

/// What is kept of the metadata.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    uid: Option<&'a str>,
    generation: Option<i64>,
    deletion_timestamp: Option<&'a Time>,
    labels: Option<&'a BTreeMap<String, String>>,
    annotations: &'a BTreeMap<String, String>,
    owner_references: Option<&'a [OwnerReference]>,
}

impl Body<'_> {
    fn content(&self) -> u64 {
        let mut hasher = FnvHasher::default();
        hasher.write(text(&self.metadata).as_bytes());
        hasher.write(self.spec.map(RawValue::get).unwrap_or_default().as_bytes());
        hasher.finish()
    }
}

/// What was just read as JSON can be written as JSON.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A status without what nobody here reads.
fn pruned(kind: Kind, status: Box<RawValue>) -> Box<RawValue> {
    match kind {
        Kind::Pod => retained(&status, |field| POD_STATUS.contains(&field)),
        // What is measured changes every few seconds, and nothing here follows from it.
        Kind::HorizontalPodAutoscaler => {
            retained(&status, |field| !["currentMetrics", "lastScaleTime"].contains(&field))
        }
        // The same holds for what KEDA notes at each look.
        Kind::ScaledObject => retained(&status, |field| field == "conditions"),
        // Counted anew whenever a pod comes or goes, and nothing here follows from it.
        Kind::PodDisruptionBudget => retained(&status, |_| false),
        _ => None,
    }
    .unwrap_or(status)
}

/// Nothing if it isn't an object.
fn retained(status: &RawValue, read: impl Fn(&str) -> bool) -> Option<Box<RawValue>> {
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(status.get()).ok()?;
    fields.retain(|field, _| read(field));
    to_raw_value(&fields).ok()
}

/// What is read of a pod's status.
const POD_STATUS: [&str; 6] =
    ["phase", "hostIP", "podIP", "conditions", "containerStatuses", "initContainerStatuses"];
