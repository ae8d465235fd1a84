//! Clears the way for an apply that another manager's fields keep from being valid.
//!
//! Server-side apply merges. Where someone gave a probe another handler, a volume another source, or a port of the Service
//! another number, what is merged is neither the one nor the other, and the API server refuses it for good. Then the lists in
//! which such things stand are replaced as a whole, once, and the apply follows. What others had added to these very lists goes with
//! it: the price of an edit that can't be merged.

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use workerapp_api::names;

use super::{Child, Owner, compare};
use crate::{
    cache::{Incoming, Object},
    context::{Context, bounded},
    error::Error,
    kind::Kind,
};

/// Where lists with unions or unique names stand in a pod's spec.
const POD_LISTS: [&str; 3] = ["initContainers", "containers", "volumes"];

/// Whether the live object differs in what a replacement would set right.
pub(super) fn can_help(child: &Child, live: &Object) -> bool {
    matches!(child.kind, Kind::Deployment | Kind::Service)
        && compare::difference(&live.json()["spec"], &child.body["spec"]).is_some()
}

/// Whether the child as it is wanted would stand, were there no field of anybody else in it; the API server is asked, and changes
/// nothing. Where it would not, replaced lists would bring half of a bad spec into the pods.
pub(super) async fn stands_alone(context: &Context, owner: &Owner, child: &Child, live: &Object) -> bool {
    let alone = json!([
        { "op": "test", "path": "/metadata/uid", "value": &*live.uid },
        { "op": "replace", "path": "/spec", "value": child.body["spec"] },
    ]);
    let Ok(alone) = serde_json::from_value(alone) else { return false };
    let api = child.kind.api(&context.client, Some(&owner.key.namespace));
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let answer: kube::Result<Incoming> =
        bounded(api.patch(&owner.key.name, &params, &Patch::<()>::Json(alone))).await;
    answer.is_ok()
}

/// Replaces the lists.
pub(super) async fn replace(
    context: &Context,
    owner: &Owner,
    child: &Child,
    live: &Object,
) -> kube::Result<()> {
    let api = child.kind.api(&context.client, Some(&owner.key.namespace));
    let mut body = lists(child, live);
    body["metadata"]["resourceVersion"] = json!(&*live.resource_version);
    let params = PatchParams { field_manager: Some(names::REPAIR_MANAGER.into()), ..PatchParams::default() };
    let answer: kube::Result<Incoming> =
        bounded(api.patch(&owner.key.name, &params, &Patch::Merge(&body))).await;
    answer.map(|_| tracing::info!(kind = %child.kind, "replaced lists that could not be merged"))
}

/// Takes from the replacement what it owns: no later apply could remove it.
pub(super) async fn disown(context: &Context, owner: &Owner, kind: Kind) -> Result<(), Error> {
    let from = |error| Error::from_write(kind, &owner.key.namespace, &owner.key.name, error);
    let api = kind.api(&context.client, Some(&owner.key.namespace));
    let live: DynamicObject = bounded(api.get(&owner.key.name)).await.map_err(from)?;
    let managers: Vec<_> = live
        .metadata
        .managed_fields
        .into_iter()
        .flatten()
        .filter(|entry| entry.manager.as_deref() != Some(names::REPAIR_MANAGER))
        .collect();
    let body = json!({ "metadata": {
        "resourceVersion": live.metadata.resource_version,
        "managedFields": managers,
    } });
    let answer = bounded(api.patch(&owner.key.name, &PatchParams::default(), &Patch::Merge(&body))).await;
    answer.map(drop).map_err(from)
}

/// The wanted lists, as a JSON merge patch.
fn lists(child: &Child, live: &Object) -> Value {
    let wanted = &child.body["spec"];
    if child.kind == Kind::Service {
        return json!({ "spec": { "ports": keep_node_ports(wanted["ports"].clone(), &live.json()) } });
    }
    let pod = &wanted["template"]["spec"];
    let lists: serde_json::Map<_, _> =
        POD_LISTS.iter().map(|list| ((*list).to_owned(), pod[*list].clone())).collect();
    json!({ "spec": { "template": { "spec": lists } } })
}

/// A node port that Kubernetes picked stays with the port of its name.
fn keep_node_ports(mut ports: Value, live: &Value) -> Value {
    for port in ports.as_array_mut().into_iter().flatten() {
        let former = live["spec"]["ports"].as_array().into_iter().flatten();
        let former = former.clone().find(|former| former["name"] == port["name"]);
        if let Some(number) = former.map(|former| &former["nodePort"]).filter(|number| number.is_number())
            && port["nodePort"].is_null()
        {
            port["nodePort"] = number.clone();
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::keep_node_ports;

    #[test]
    fn a_picked_node_port_stays_with_its_name() {
        let live = json!({"spec": {"ports": [{"name": "app", "port": 81, "nodePort": 31000}, {"name": "ws", "nodePort": 31001}]}});
        let wanted = json!([{"name": "app", "port": 80}, {"name": "ws", "nodePort": 30001}, {"name": "new"}]);
        assert_eq!(
            keep_node_ports(wanted, &live),
            json!([{"name": "app", "port": 80, "nodePort": 31000}, {"name": "ws", "nodePort": 30001}, {"name": "new"}])
        );
    }
}
