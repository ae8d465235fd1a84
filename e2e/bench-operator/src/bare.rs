//! The loop that the operator is compared with: the same writes and nothing else. It reads nothing, knows beforehand what to write, and
//! begins with the next app when one is through.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Service};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::ApiResource,
};
use serde::Serialize;
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, WorkerAppStatus, names};
use workerapp_e2e::operator::SUPERVISOR_IMAGE;
use workerapp_plan::{Facts, plan};

use crate::cluster::Cluster;

/// A request, ready to be sent.
struct Write {
    resource: ApiResource,
    name: String,
    body: Value,
    status: bool,
}

/// Writes children and status of every app in the namespace; says how long that took. `status` is what the operator wrote of such an
/// app.
pub(crate) async fn run(cluster: &Cluster, namespace: &str, status: &WorkerAppStatus) -> Result<Duration> {
    let apps = cluster.apps(namespace).list(&ListParams::default()).await?;
    let work: Vec<_> = apps.items.iter().map(|app| writes(app, status)).collect::<Result<_>>()?;
    let begun = Instant::now();
    let send = |writes: Vec<Write>| {
        let (client, namespace) = (cluster.client.clone(), namespace.to_owned());
        // Tasks, so that both CPUs take part, as they do in the operator.
        tokio::spawn(async move {
            for write in writes {
                write.send(&client, &namespace).await?;
            }
            anyhow::Ok(())
        })
    };
    let mut done = stream::iter(work).map(send).buffer_unordered(cluster.concurrency);
    while let Some(result) = done.next().await {
        result??;
    }
    Ok(begun.elapsed())
}

fn writes(app: &WorkerApp, status: &WorkerAppStatus) -> Result<Vec<Write>> {
    let facts = Facts { supervisor_image: SUPERVISOR_IMAGE.into(), ..Facts::default() };
    let children = plan(app, &facts)?.children;
    let autoscaler = children.autoscaler.context("an app without an autoscaler")?;
    let body = json!({
        "apiVersion": WorkerApp::api_version(&()),
        "kind": WorkerApp::kind(&()),
        "metadata": { "name": app.name_any(), "uid": app.uid() },
        "status": status,
    });
    let resource = ApiResource::erase::<WorkerApp>(&());
    Ok(vec![
        child::<Deployment>(app, &children.deployment)?,
        child::<Service>(app, &children.service)?,
        child::<HorizontalPodAutoscaler>(app, &autoscaler)?,
        Write { resource, name: app.name_any(), body, status: true },
    ])
}

fn child<K: Resource<DynamicType = ()> + Serialize>(app: &WorkerApp, object: &K) -> Result<Write> {
    let mut body = serde_json::to_value(object)?;
    body["metadata"]["ownerReferences"] =
        json!([app.controller_owner_ref(&()).context("an app without a uid")?]);
    Ok(Write { resource: ApiResource::erase::<K>(&()), name: app.name_any(), body, status: false })
}

impl Write {
    async fn send(&self, client: &Client, namespace: &str) -> Result<()> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &self.resource);
        let params = PatchParams::apply(names::FIELD_MANAGER).force();
        let patch = Patch::Apply(&self.body);
        if self.status {
            api.patch_status(&self.name, &params, &patch).await?;
        } else {
            api.patch(&self.name, &params, &patch).await?;
        }
        Ok(())
    }
}
