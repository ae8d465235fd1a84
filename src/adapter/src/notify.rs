//! Events about the metrics API's own Deployment: what `kubectl describe` shows of it.

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, Resource as _, api::PostParams};

use crate::Place;

/// What the API server takes as a text, in bytes.
const LONGEST: usize = 1024;

/// Writes a warning. That it can't is no reason to do anything else.
pub(crate) async fn deployment(client: &Client, place: &Place, reason: &str, text: &str) {
    if place.deployment.is_empty() {
        return;
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &place.namespace);
    let uid =
        deployments.get_opt(&place.deployment).await.ok().flatten().and_then(|found| found.metadata.uid);
    let now = Timestamp::now();
    let event = Event {
        metadata: ObjectMeta {
            namespace: Some(place.namespace.clone()),
            name: Some(format!("{}.{:x}", place.pod, now.as_nanosecond())),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        action: Some("Register".into()),
        reason: Some(reason.into()),
        note: Some(text[..text.floor_char_boundary(LONGEST)].into()),
        type_: Some("Warning".into()),
        reporting_controller: Some("workerapp-metrics-api".into()),
        reporting_instance: Some(place.pod.clone()),
        regarding: Some(ObjectReference {
            api_version: Some(Deployment::api_version(&()).into()),
            kind: Some(Deployment::kind(&()).into()),
            namespace: Some(place.namespace.clone()),
            name: Some(place.deployment.clone()),
            uid,
            ..ObjectReference::default()
        }),
        ..Event::default()
    };
    let events: Api<Event> = Api::namespaced(client.clone(), &place.namespace);
    if let Err(error) = events.create(&PostParams::default(), &event).await {
        tracing::debug!("an event could not be written: {error}");
    }
}
