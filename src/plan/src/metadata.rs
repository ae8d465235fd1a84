//! Names, labels and annotations of the children.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use workerapp_api::{ChildMetadata, ChildrenMetadata, WorkerApp, names};

type Map = BTreeMap<String, String>;

/// The labels by which an app's pods are found: name and instance only, for ever, since a Deployment's selector
/// can't be changed.
pub fn selector(app: &WorkerApp) -> Map {
    let name = app.name_any();
    [names::LABEL_NAME, names::LABEL_INSTANCE]
        .into_iter()
        .map(|label| (label.to_owned(), name.clone()))
        .collect()
}

/// The same and who manages them: for the Service, whose selector may change, so that pods of a like-named release of something
/// else get none of the app's traffic.
pub(crate) fn managed_selector(app: &WorkerApp) -> Map {
    let mut labels = selector(app);
    labels.insert(names::LABEL_MANAGED_BY.into(), names::MANAGED_BY.into());
    labels
}

/// Metadata of the child that `which` picks from `spec.metadata`: the person's labels and annotations under the operator's.
pub(crate) fn child(app: &WorkerApp, which: fn(&ChildrenMetadata) -> Option<&ChildMetadata>) -> ObjectMeta {
    ObjectMeta { name: Some(app.name_any()), namespace: app.namespace(), ..pod_template(app, which) }
}

/// The same without a name, for a pod template.
pub(crate) fn pod_template(
    app: &WorkerApp,
    which: fn(&ChildrenMetadata) -> Option<&ChildMetadata>,
) -> ObjectMeta {
    let extra = app.spec.metadata.as_ref().and_then(which).cloned().unwrap_or_default();
    let mut labels = extra.labels;
    labels.extend(managed_selector(app));
    ObjectMeta {
        labels: Some(labels),
        annotations: Some(extra.annotations).filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    }
}
