//! An object as it comes from the API server, read no further than the cache needs.
//!
//! Half of an object's text are managed fields, of which three facts count, and most of the rest is a spec that is read only when
//! something about its app has changed. At a start all of it is read at once and edits wait for that: a [`DynamicObject`] would take
//! several times as long.
//!
//! [`DynamicObject`]: kube::api::DynamicObject

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use workerapp_api::names;

use super::Claims;

/// An object of any kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct Incoming {
    /// What the cache takes of the metadata; nothing else is filled in.
    pub(super) metadata: ObjectMeta,
    /// What the managed fields say.
    pub(super) claims: Claims,
    /// The JSON text, as it came.
    pub(super) spec: Option<Box<RawValue>>,
    /// The same of the status.
    pub(super) status: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    observed_generation: Option<i64>,
}

impl Incoming {
    /// `status.observedGeneration`.
    pub(super) fn observed_generation(&self) -> Option<i64> {
        serde_json::from_str::<Status>(self.status.as_ref()?.get()).ok()?.observed_generation
    }

    /// Whether somebody is to have done something before it can be deleted.
    pub(crate) fn has_finalizers(&self) -> bool {
        self.metadata.finalizers.as_ref().is_some_and(|held| !held.is_empty())
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: Meta,
    spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    managed_fields: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    manager: Option<String>,
    subresource: Option<String>,
    fields_v1: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "f:spec")]
    spec: Option<SpecFields>,
}

#[derive(Deserialize)]
struct SpecFields {
    #[serde(rename = "f:replicas")]
    replicas: Option<IgnoredAny>,
}

impl Entry {
    fn is_of(&self, manager: &str) -> bool {
        self.manager.as_deref() == Some(manager)
    }

    fn holds_replicas(&self) -> bool {
        let spec = self.fields_v1.as_ref().and_then(|fields| fields.spec.as_ref());
        self.subresource.as_deref().unwrap_or_default().is_empty()
            && spec.is_some_and(|spec| spec.replicas.is_some())
    }
}

impl From<Wire> for Incoming {
    fn from(wire: Wire) -> Self {
        let meta = wire.metadata;
        let entries = meta.managed_fields.unwrap_or_default();
        let held_by =
            |manager: &str| entries.iter().any(|entry| entry.is_of(manager) && entry.holds_replicas());
        let claims = Claims {
            ours: held_by(names::FIELD_MANAGER),
            handover: held_by(names::HANDOVER_MANAGER),
            repair: entries.iter().any(|entry| entry.is_of(names::REPAIR_MANAGER)),
        };
        let metadata = ObjectMeta {
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            deletion_timestamp: meta.deletion_timestamp,
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: meta.owner_references,
            finalizers: meta.finalizers,
            ..ObjectMeta::default()
        };
        Self { metadata, claims, spec: wire.spec, status: wire.status }
    }
}

impl Resource for Incoming {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_managed_fields_are_reduced_to_who_holds_the_number_of_pods() {
        let replicas = json!({ "f:spec": { "f:replicas": {}, "f:template": { ".": {} } } });
        let entry = |manager: &str, subresource: &str, fields: &Value| json!({ "manager": manager, "subresource": subresource, "fieldsV1": fields });
        let claims = |entries: Value| {
            let object = json!({ "metadata": { "managedFields": entries }, "spec": { "replicas": 2 } });
            serde_json::from_str::<Incoming>(&object.to_string()).unwrap().claims
        };
        let ours = Claims { ours: true, ..Claims::default() };
        assert_eq!(claims(json!([entry(names::FIELD_MANAGER, "", &replicas)])), ours);
        let handover = Claims { handover: true, ..Claims::default() };
        assert_eq!(claims(json!([{ "manager": names::HANDOVER_MANAGER, "fieldsV1": replicas }])), handover);
        let repair = Claims { repair: true, ..Claims::default() };
        assert_eq!(claims(json!([entry(names::REPAIR_MANAGER, "", &json!({ "f:data": {} }))])), repair);
        for nobody in [
            json!(null),
            json!([entry("kubectl", "", &replicas)]),
            // Who scales takes the number through another door.
            json!([entry(names::FIELD_MANAGER, "scale", &replicas)]),
            json!([entry(names::FIELD_MANAGER, "", &json!({ "f:spec": { "f:template": {} } }))]),
            json!([{ "manager": names::FIELD_MANAGER }]),
        ] {
            assert_eq!(claims(nobody.clone()), Claims::default(), "{nobody}");
        }
    }

    /// Whatever stands in a spec is the app's own trouble, and never that of the list it comes in.
    #[test]
    fn any_spec_and_status_can_be_read() {
        for (spec, text) in [(json!(null), None), (json!([1]), Some("[1]")), (json!("a"), Some("\"a\""))] {
            let object = json!({ "metadata": { "name": "shop" }, "spec": spec, "status": 7 });
            let object: Incoming = serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(object.spec.as_deref().map(RawValue::get), text);
            assert_eq!(object.status.as_deref().map(RawValue::get), Some("7"));
            assert_eq!(object.observed_generation(), None);
        }
    }
}
