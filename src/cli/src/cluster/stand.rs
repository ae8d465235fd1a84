//! Apps that stand for the time of a measurement: made, watched until they serve, removed.

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use workerapp_api::{WorkerApp, names};

use super::{Cluster, write::FIELD_MANAGER};
use crate::error::Error;

impl Cluster {
    /// Makes an app, or one that an earlier measurement left as this one wants it, marked with the suite that it is for.
    pub(crate) async fn put_up(&self, app: &WorkerApp, suite: &str) -> Result<(), Error> {
        let name = app.name_any();
        let mut labels = app.labels().clone();
        labels.insert(names::LABEL_SUITE.to_owned(), suite.to_owned());
        let metadata = json!({"name": name, "labels": labels, "annotations": app.annotations()});
        let body = json!({
            "apiVersion": format!("{}/v1alpha1", names::GROUP), "kind": "WorkerApp", "metadata": metadata, "spec": app.spec,
        });
        let apps: Api<WorkerApp> = self.api(&self.namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let answer = apps.patch(&name, &params, &Patch::Apply(body)).await;
        answer.map(drop).map_err(|error| self.failed(&format!("WorkerApp {name}"), error))
    }

    /// Removes an app of a suite; it stays until everything that belongs to it has gone.
    pub(crate) async fn take_down(&self, name: &str) -> Result<(), Error> {
        let apps: Api<WorkerApp> = self.api(&self.namespace);
        match apps.delete(name, &DeleteParams::foreground()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(self.failed(&format!("WorkerApp {name}"), error)),
            Ok(_) => Ok(()),
        }
    }

    /// A Service by its name.
    pub(crate) async fn service(&self, name: &str) -> Result<Option<Service>, Error> {
        let services: Api<Service> = self.api(&self.namespace);
        services.get_opt(name).await.map_err(|error| self.failed(&format!("Service {name}"), error))
    }

    /// The Services of all namespaces, since ports of nodes belong to all of them; nothing for whoever may not see them.
    pub(crate) async fn all_services(&self) -> Result<Vec<Service>, Error> {
        let services: Api<Service> = Api::all(self.client.clone());
        match services.list(&ListParams::default()).await.map_err(|error| self.failed("services", error)) {
            Ok(list) => Ok(list.items),
            Err(Error::Forbidden { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
