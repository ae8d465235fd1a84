//! The CustomResourceDefinition as it is installed: `crds/` and the chart hold what [`manifest`] returns.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::WorkerApp;

/// Fields of the spec whose types are Kubernetes' own. Their parts are documented by `kubectl explain` of the kind
/// they come from; repeating those texts would make the definition too large for `kubectl apply`, which
/// keeps a copy of what it sent in an annotation of at most 256 KiB.
const BORROWED: [&str; 19] = [
    "adminFrom",
    "affinity",
    "behavior",
    "env",
    "envFrom",
    "from",
    "imagePullSecrets",
    "lifecycle",
    "livenessProbe",
    "podSecurityContext",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "strategy",
    "tolerations",
    "topologySpreadConstraints",
    "volumeMounts",
    "volumes",
    "nodeSelector",
];

/// The definition of [`WorkerApp`], group `workerapp.dev`, version `v1alpha1`.
pub fn manifest() -> CustomResourceDefinition {
    let mut crd = WorkerApp::crd();
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            shorten(schema);
            tidy(schema);
        }
    }
    crd
}

/// Removes the documentation below each borrowed field, and keeps the field's own.
fn shorten(schema: &mut JSONSchemaProps) {
    for (name, property) in schema.properties.iter_mut().flatten() {
        if BORROWED.contains(&name.as_str()) {
            children(property).into_iter().for_each(strip);
        } else {
            shorten(property);
        }
    }
}

/// A field that is set to null counts as unset (the API server drops it), and a text is one paragraph, which `kubectl
/// explain` breaks into lines by itself.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.description = schema.description.as_ref().map(|text| text.replace('\n', " "));
    children(schema).into_iter().for_each(tidy);
}

fn strip(schema: &mut JSONSchemaProps) {
    schema.description = None;
    children(schema).into_iter().for_each(strip);
}

fn children(schema: &mut JSONSchemaProps) -> Vec<&mut JSONSchemaProps> {
    let mut children: Vec<_> = schema.properties.iter_mut().flatten().map(|(_, property)| property).collect();
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => children.push(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => children.extend(items),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut schema.additional_properties {
        children.push(value);
    }
    children
}
