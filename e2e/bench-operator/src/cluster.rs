//! Namespaces, apps, and what the API server counts.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Namespace, Service},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use workerapp_api::WorkerApp;
use workerapp_e2e::{app, cluster, scrape};

use crate::arguments::Arguments;

/// How many apps are made at the same time.
const MAKERS: usize = 32;

/// The cluster, and how the operator is started for it.
pub(crate) struct Cluster {
    /// Repeats nothing, as the operator's own.
    pub(crate) client: Client,
    pub(crate) concurrency: usize,
    pub(crate) program: PathBuf,
    pub(crate) logs: PathBuf,
    started: AtomicUsize,
}

/// The name of the n-th app.
pub(crate) fn name(number: usize) -> String {
    format!("app-{number:05}")
}

/// One pod at least: from two on there would be a disruption budget too, a fourth child.
fn spec() -> Value {
    app(json!({ "autoscaling": { "minReplicas": 1, "maxReplicas": 3 } }))
}

impl Cluster {
    pub(crate) async fn connect(arguments: &Arguments) -> Result<Self> {
        let mut config = cluster::config().await?;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        cluster::install_definition(&client).await?;
        let logs = arguments.output.with_extension("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("can't make {}", logs.display()))?;
        let program = arguments.operator.clone();
        Ok(Self { client, concurrency: arguments.concurrency, program, logs, started: AtomicUsize::new(0) })
    }

    /// A number that nobody had before.
    pub(crate) fn number(&self) -> usize {
        self.started.fetch_add(1, Ordering::Relaxed)
    }

    /// A new namespace with so many apps.
    pub(crate) async fn namespace_of(&self, apps: usize) -> Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let body = serde_json::from_value(json!({ "metadata": { "generateName": "wa-bench-" } }))?;
        let namespace = namespaces.create(&PostParams::default(), &body).await?.name_any();
        let api = self.apps(&namespace);
        let make = |number| {
            let api = api.clone();
            async move {
                let app = serde_json::from_value(json!({
                    "apiVersion": "workerapp.dev/v1alpha1",
                    "kind": "WorkerApp",
                    "metadata": { "name": name(number) },
                    "spec": spec(),
                }))?;
                api.create(&PostParams::default(), &app).await?;
                anyhow::Ok(())
            }
        };
        stream::iter(0..apps).map(make).buffer_unordered(MAKERS).try_collect::<()>().await?;
        Ok(namespace)
    }

    /// Removes the apps of a namespace and their children, which no garbage collector does here: the API server makes a Service the
    /// more slowly the more there are, and the next run is to find what this one found.
    pub(crate) async fn clear(&self, namespace: &str) -> Result<()> {
        self.clear_of::<WorkerApp>(namespace).await?;
        self.clear_of::<HorizontalPodAutoscaler>(namespace).await?;
        self.clear_of::<Service>(namespace).await?;
        self.clear_of::<Deployment>(namespace).await
    }

    async fn clear_of<K>(&self, namespace: &str) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let names = api.list_metadata(&ListParams::default()).await?;
        let names = names.items.iter().map(ResourceExt::name_any);
        let remove = |name: String| {
            let api = api.clone();
            async move { api.delete(&name, &DeleteParams::background()).await.map(drop) }
        };
        Ok(stream::iter(names).map(remove).buffer_unordered(MAKERS).try_collect().await?)
    }

    pub(crate) fn apps(&self, namespace: &str) -> Api<WorkerApp> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The writes that the API server has answered since it started, by resource, for those that the operator writes.
    pub(crate) async fn writes(&self) -> Result<BTreeMap<String, f64>> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await?;
        let mut counts = BTreeMap::new();
        for (labels, count) in scrape::samples(&text, "apiserver_request_total") {
            let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
            let resource = match (label("resource"), label("subresource")) {
                ("workerapps", "status") => "workerapps/status",
                (child @ ("deployments" | "services" | "horizontalpodautoscalers" | "events"), "") => child,
                _ => continue,
            };
            if ["APPLY", "PATCH", "POST", "PUT", "DELETE"].contains(&label("verb")) {
                *counts.entry(resource.to_owned()).or_default() += count;
            }
        }
        Ok(counts)
    }
}

/// Gives an app another environment, which a new Deployment follows.
pub(crate) async fn edit(client: Client, namespace: &str, app: usize, value: &str) -> Result<()> {
    let api: Api<WorkerApp> = Api::namespaced(client, namespace);
    let patch = json!({ "spec": { "env": [{ "name": "EDIT", "value": value }] } });
    api.patch(&name(app), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// What was added between two counts.
pub(crate) fn added(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    after
        .iter()
        .map(|(what, count)| (what.clone(), count - before.get(what).copied().unwrap_or(0.0)))
        .collect()
}
