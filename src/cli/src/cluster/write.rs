//! The few things that this program changes, each because a person said so; and what is only tried (dry run).

use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use workerapp_api::{WorkerApp, names};

use super::Cluster;
use crate::error::Error;

/// The field manager of what this program writes.
pub(super) const FIELD_MANAGER: &str = "kubectl-workerapp";

impl Cluster {
    /// Sets an annotation of an app, or removes it.
    pub(crate) async fn annotate(
        &self,
        name: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<WorkerApp, Error> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let apps: Api<WorkerApp> = self.api(&self.namespace);
        let answer = apps.patch(name, &params, &Patch::Merge(patch)).await;
        answer.map_err(|error| self.failed(&format!("WorkerApp {name}"), error))
    }

    /// Rolls an app's pods, as `kubectl rollout restart` does.
    pub(crate) async fn restart(&self, namespace: &str, name: &str) -> Result<Deployment, Error> {
        let deployments: Api<Deployment> = self.api(namespace);
        // kubectl's own annotation, which the operator and other tools know.
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        let annotations = json!({ "kubectl.kubernetes.io/restartedAt": now });
        let patch = json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let answer = deployments.patch(name, &params, &Patch::Merge(patch)).await;
        answer.map_err(|error| self.failed(&format!("Deployment {name}"), error))
    }

    /// A child as it stands.
    pub(crate) async fn live(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, kind);
        let found = api.get_opt(name).await;
        let found = found.map_err(|error| self.failed(&format!("{} {name}", kind.kind), error))?;
        Ok(found.and_then(|object| serde_json::to_value(object).ok()))
    }

    /// What applying `body` as the operator does would lead to. Nothing is written.
    pub(crate) async fn try_apply(
        &self,
        kind: &ApiResource,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, kind);
        let params = PatchParams::apply(names::FIELD_MANAGER).force().dry_run();
        let answer = api.patch(name, &params, &Patch::Apply(body)).await;
        let answer = answer.map_err(|error| self.failed(&format!("{} {name}", kind.kind), error))?;
        Ok(serde_json::to_value(answer).unwrap_or_default())
    }

    /// What storing an app with this content would lead to. Nothing is written.
    pub(crate) async fn try_store(&self, namespace: &str, app: &WorkerApp) -> Result<WorkerApp, Error> {
        let api: Api<WorkerApp> = self.api(namespace);
        let params = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.into()) };
        let name = app.name_any();
        let answer = match &app.meta().resource_version {
            Some(_) => api.replace(&name, &params, app).await,
            None => api.create(&params, app).await,
        };
        answer.map_err(|error| self.failed(&format!("WorkerApp {name}"), error))
    }

    /// Makes a Job.
    pub(crate) async fn make_job(&self, namespace: &str, job: &Job) -> Result<Job, Error> {
        let api: Api<Job> = self.api(namespace);
        api.create(&PostParams::default(), job).await.map_err(|error| self.failed("the Job", error))
    }

    /// Removes a Job and its pods.
    pub(crate) async fn remove_job(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let api: Api<Job> = self.api(namespace);
        match api.delete(name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(self.failed("the Job", error)),
            Ok(_) => Ok(()),
        }
    }
}
