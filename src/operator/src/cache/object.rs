//! One object as the cache holds it: a few parsed facts, and the rest as JSON text.
//!
//! A typed Deployment takes several kilobytes even when most of its fields are unset, and is read only when
//! something about its app has changed. The text takes as much room as it has letters, and is parsed at the point of use;
//! an object that can't be parsed then is that app's problem alone, and never the list's it came in.

use std::{fmt, hash::Hasher as _, sync::Arc};

use fnv::FnvHasher;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use workerapp_api::names;

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
    text: Box<[u8]>,
}

impl Object {
    /// Reduces `object`.
    pub fn new(kind: Kind, mut object: DynamicObject) -> Self {
        let claims = claims(&object);
        let meta = std::mem::take(&mut object.metadata);
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
        let mut body = match std::mem::take(&mut object.data) {
            Value::Object(body) => body,
            _ => Map::new(),
        };
        prune(kind, &mut body);
        body.insert(
            "metadata".into(),
            json!({
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "generation": meta.generation,
                "deletionTimestamp": meta.deletion_timestamp,
                "labels": meta.labels,
                "annotations": annotations,
                "ownerReferences": meta.owner_references,
            }),
        );
        let status = body.remove("status");
        let content = hash(&Value::Object(body.clone()));
        if let Some(status) = status {
            body.insert("status".into(), status);
        }
        let text = Value::Object(body).to_string().into_bytes().into_boxed_slice();
        Self { key, app, uid, resource_version, generation, deleting, controller, claims, content, text }
    }

    /// The object as JSON, without what the cache drops.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// The object as `T`.
    ///
    /// # Errors
    /// Names the field that doesn't fit `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&self.text))
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

/// Removes what nobody here reads.
fn prune(kind: Kind, body: &mut Map<String, Value>) {
    body.retain(|part, _| part == "status" || (part == "spec" && kind != Kind::Pod));
    let Some(Value::Object(status)) = body.get_mut("status") else { return };
    match kind {
        Kind::Pod => status.retain(|field, _| POD_STATUS.contains(&field.as_str())),
        // What is measured changes every few seconds, and nothing here follows from it.
        Kind::HorizontalPodAutoscaler => {
            status.retain(|field, _| !["currentMetrics", "lastScaleTime"].contains(&field.as_str()));
        }
        // The same holds for what KEDA notes at each look.
        Kind::ScaledObject => status.retain(|field, _| field == "conditions"),
        // Counted anew whenever a pod comes or goes, and nothing here follows from it.
        Kind::PodDisruptionBudget => status.clear(),
        _ => {}
    }
}

/// What is read of a pod's status.
const POD_STATUS: [&str; 6] =
    ["phase", "hostIP", "podIP", "conditions", "containerStatuses", "initContainerStatuses"];

/// Which of our two managers hold `spec.replicas`.
fn claims(object: &DynamicObject) -> Claims {
    let held_by = |manager: &str| {
        object.metadata.managed_fields.iter().flatten().any(|entry| {
            entry.manager.as_deref() == Some(manager)
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
                && entry.fields_v1.as_ref().is_some_and(|fields| !fields.0["f:spec"]["f:replicas"].is_null())
        })
    };
    let mut managers = object.metadata.managed_fields.iter().flatten();
    Claims {
        ours: held_by(names::FIELD_MANAGER),
        handover: held_by(names::HANDOVER_MANAGER),
        repair: managers.any(|entry| entry.manager.as_deref() == Some(names::REPAIR_MANAGER)),
    }
}

fn hash(value: &Value) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(value.to_string().as_bytes());
    hasher.finish()
}
