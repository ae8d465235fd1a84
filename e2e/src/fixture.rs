//! A namespace of a test's own, and what is done in it.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Namespace, Service},
        events::v1::Event,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
    runtime::wait::await_condition,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use workerapp_api::{Condition, WorkerApp, condition::ConditionType, names};

use crate::{
    faults::Faults,
    operator::{Operator, Options},
};

pub use k8s_openapi::api::core::v1::Pod;

/// How long anything may take before a test gives up on it. The garbage collector looks for new kinds every 30 s, and deletes nothing of a
/// WorkerApp before.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// A window of silence that is longer than every timer in play of a settled app but the resync.
pub const SILENCE: Duration = Duration::from_secs(3);
/// The beginning of the names of all namespaces that tests make.
pub const NAMESPACE_PREFIX: &str = "wa-test-";

/// A kind that lives in namespaces.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + DeserializeOwned
    + Serialize
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// A namespace and a client.
#[derive(Clone)]
pub struct Fixture {
    /// The test's own client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
}

/// A spec that is complete, with the fields of `more` on top; a field that is null there is left out.
pub fn app(more: Value) -> Value {
    let mut spec = json!({
        "image": "localhost/app:1",
        "runtime": "Node",
        "command": ["node", "server.js"],
        "port": 3000,
        "resources": { "requests": { "cpu": "100m", "memory": "64Mi" }, "limits": { "cpu": "2" } },
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
        spec.retain(|_, value| !value.is_null());
    }
    spec
}

impl Fixture {
    /// Makes the namespace.
    ///
    /// # Errors
    /// If the cluster can't be reached.
    pub async fn new() -> Result<Self> {
        let client = crate::cluster::client().await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let body = serde_json::from_value(json!({ "metadata": { "generateName": NAMESPACE_PREFIX } }))?;
        let namespace = namespaces.create(&PostParams::default(), &body).await?.name_any();
        Ok(Self { client, namespace })
    }

    /// Starts an operator for this namespace.
    ///
    /// # Errors
    /// If it doesn't get ready.
    pub async fn operator(&self) -> Result<Operator> {
        Operator::start(self.options()).await
    }

    /// A namespace with an operator and the app `shop`, which has come to rest; what was written until then is taken.
    ///
    /// # Errors
    /// If the app isn't reconciled.
    pub async fn settled(spec: Value) -> Result<(Self, Operator)> {
        let fixture = Self::new().await?;
        let operator = fixture.operator().await?;
        fixture.apply("shop", spec).await?;
        fixture.until_reconciled("shop").await?;
        fixture.until_quiet(&operator).await?;
        operator.recorder.take();
        Ok((fixture, operator))
    }

    /// What [`Fixture::operator`] starts with.
    pub fn options(&self) -> Options {
        Options {
            namespaces: vec![self.namespace.clone()],
            resync: Duration::from_mins(10),
            impersonate: None,
            faults: Faults::default(),
        }
    }

    /// The API of one kind in the namespace.
    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies a WorkerApp, so that fields which are no longer in `spec` go.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn apply(&self, name: &str, spec: Value) -> kube::Result<WorkerApp> {
        let stored = self.apply_raw(name, spec).await?;
        stored.try_parse().map_err(|error| kube::Error::Service(error.into()))
    }

    /// The same for a spec that the type can't hold.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn apply_raw(&self, name: &str, spec: Value) -> kube::Result<DynamicObject> {
        let resource = ApiResource::erase::<WorkerApp>(&());
        let body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name },
            "spec": spec,
        });
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(body)).await
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn merge<K: Namespaced>(&self, name: &str, patch: Value) -> kube::Result<K> {
        self.api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Changes an object by a strategic merge patch, which merges lists by their keys as `kubectl edit` does.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn strategic<K: Namespaced>(&self, name: &str, patch: Value) -> kube::Result<K> {
        self.api().patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await
    }

    /// Changes an object's status by a merge patch, in the place of a controller that isn't there.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn merge_status<K: Namespaced>(&self, name: &str, status: Value) -> kube::Result<K> {
        let patch = json!({ "status": status });
        self.api().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Makes an object.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn create<K: Namespaced>(&self, body: Value) -> Result<K> {
        Ok(self.api().create(&PostParams::default(), &serde_json::from_value(body)?).await?)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn delete<K: Namespaced>(&self, name: &str) -> Result<()> {
        self.api::<K>().delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// An object as plain JSON, with its managed fields.
    ///
    /// # Errors
    /// If it isn't there.
    pub async fn raw<K: Namespaced>(&self, name: &str) -> Result<Value> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::erase::<K>(&()));
        Ok(serde_json::to_value(api.get(name).await?)?)
    }

    /// Waits until an object (or its absence) is as `wanted` says, and returns it.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn until<K: Namespaced>(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&K>) -> bool + Send + Sync,
    ) -> Result<Option<K>> {
        let condition = await_condition(self.api::<K>(), name, |object: Option<&K>| wanted(object));
        if let Ok(found) = tokio::time::timeout(PATIENCE, Box::pin(condition)).await {
            return Ok(found?);
        }
        let found = self.api::<K>().get_opt(name).await?;
        let found = serde_json::to_string_pretty(&found)?;
        bail!("{} {name}: waited {PATIENCE:?} for {what}; it is {found}", K::kind(&()))
    }

    /// The same for an object that has to exist.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn until_is<K: Namespaced>(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&K) -> bool + Send + Sync,
    ) -> Result<K> {
        self.until(name, what, |object: Option<&K>| object.is_some_and(&wanted)).await?.context("it is gone")
    }

    /// Waits until a condition of the app has this status and reason, for the newest generation.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn until_condition(
        &self,
        name: &str,
        type_: ConditionType,
        status: &str,
        reason: &str,
    ) -> Result<Condition> {
        let matches = |app: &WorkerApp| {
            condition(app, type_).is_some_and(|found| {
                found.observed_generation == app.meta().generation
                    && format!("{:?}", found.status) == status
                    && found.reason == reason
            })
        };
        let app = Box::pin(self.until_is(name, &format!("{type_}={status} {reason}"), matches)).await?;
        condition(&app, type_).cloned().context("the condition is gone")
    }

    /// Waits until the newest generation of the app is reconciled.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what was there instead.
    pub async fn until_reconciled(&self, name: &str) -> Result<Condition> {
        self.until_condition(name, ConditionType::Reconciled, "True", "Applied").await
    }

    /// Waits until nothing has been written for a while.
    ///
    /// # Errors
    /// If there is no end of writes.
    pub async fn until_quiet(&self, operator: &Operator) -> Result<()> {
        let quiet = async {
            while !{
                let before = operator.recorder.count();
                tokio::time::sleep(Duration::from_millis(1500)).await;
                before == operator.recorder.count()
            } {}
        };
        tokio::time::timeout(PATIENCE, quiet).await.context("writes without an end")
    }

    /// Watches that once all is at rest the operator writes nothing, and nothing of the app moves, for `window`.
    ///
    /// # Errors
    /// Names what was written or moved.
    pub async fn silent(&self, operator: &Operator, name: &str, window: Duration) -> Result<()> {
        self.at_rest(operator).await?;
        operator.recorder.take();
        let before = self.versions(name).await?;
        tokio::time::sleep(window).await;
        let sent: Vec<_> = operator.recorder.all().iter().map(ToString::to_string).collect();
        let after = self.versions(name).await?;
        anyhow::ensure!(sent.is_empty(), "written in {window:?} of silence: {sent:?}");
        anyhow::ensure!(before == after, "moved in {window:?} of silence: {before:?} → {after:?}");
        Ok(())
    }

    /// The resource versions of the app and its children.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn versions(&self, name: &str) -> Result<[Option<String>; 4]> {
        async fn version<K: Namespaced>(fixture: &Fixture, name: &str) -> Result<Option<String>> {
            Ok(fixture.api::<K>().get_opt(name).await?.and_then(|object| object.resource_version()))
        }
        Ok([
            version::<WorkerApp>(self, name).await?,
            version::<Deployment>(self, name).await?,
            version::<Service>(self, name).await?,
            version::<HorizontalPodAutoscaler>(self, name).await?,
        ])
    }

    /// The app's pods, which the cluster's own controllers make, as soon as there are `count`.
    ///
    /// # Errors
    /// After [`PATIENCE`].
    pub async fn pods(&self, app: &str, count: usize) -> Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("{}={app}", names::LABEL_INSTANCE));
        let enough = async {
            loop {
                let pods = self.api::<Pod>().list(&params).await?.items;
                let pods: Vec<_> =
                    pods.into_iter().filter(|pod| pod.meta().deletion_timestamp.is_none()).collect();
                if pods.len() == count {
                    return anyhow::Ok(pods);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, enough)
            .await
            .with_context(|| format!("{app} did not get {count} pods in {PATIENCE:?}"))?
    }

    /// Writes the status that a kubelet would write once `count` pods of the app serve.
    ///
    /// # Errors
    /// If there are no such pods.
    pub async fn serve(&self, app: &str, count: usize) -> Result<()> {
        for pod in self.pods(app, count).await? {
            let status = json!({
                "phase": "Running",
                "hostIP": "192.0.2.7",
                "hostIPs": [{ "ip": "192.0.2.7" }],
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z" }],
                "containerStatuses": [{
                    "name": names::CONTAINER_APP, "image": "a", "imageID": "a", "ready": true, "restartCount": 0,
                    "state": { "running": {} },
                }],
            });
            self.merge_status::<Pod>(&pod.name_any(), status).await?;
        }
        Ok(())
    }

    /// The events about the app, as reason and text.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn events(&self, app: &str) -> Result<Vec<(String, String)>> {
        let events = self.api::<Event>().list(&ListParams::default()).await?;
        let about = |event: &Event| {
            event.regarding.as_ref().is_some_and(|object| {
                object.kind.as_deref() == Some("WorkerApp") && object.name.as_deref() == Some(app)
            })
        };
        let events = events.items.into_iter().filter(about);
        Ok(events.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
    }

    /// Verifies what has to hold at the end of every test, stops the operator and deletes the namespace, without waiting for that.
    ///
    /// # Errors
    /// Names what does not hold.
    pub async fn end(self, operator: Operator) -> Result<()> {
        self.verify(&operator).await?;
        self.end_at_once(operator).await
    }

    /// The same without looking at anything.
    ///
    /// # Errors
    /// If the operator doesn't stop.
    pub async fn end_at_once(self, operator: Operator) -> Result<()> {
        operator.stop().await?;
        self.remove().await
    }

    /// Deletes the namespace, without waiting for that.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn remove(self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::background()).await?;
        Ok(())
    }
}

/// A condition of an app.
pub fn condition(app: &WorkerApp, type_: ConditionType) -> Option<&Condition> {
    let conditions = &app.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}
