//! What has to hold at the end of a test, whatever went wrong in it.
//!
//! - [`Snapshot`]: all that stands in a namespace, without what differs from run to run
//! - [`Fixture::at_rest`]: waits until nobody has anything left to do
//! - [`Fixture::verify`]: nothing written elsewhere, nothing left behind, and silence

mod rest;
mod snapshot;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use crate::{
    Fixture, Operator,
    fixture::{PATIENCE, SILENCE},
};
use rest::{orphan, reconciled, unfinished};

pub use snapshot::Snapshot;

/// The kinds that a snapshot holds: group, version, kind and plural. A kind that the cluster doesn't have is passed over.
const KINDS: [(&str, &str, &str, &str); 10] = [
    ("workerapp.dev", "v1alpha1", "WorkerApp", "workerapps"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Service", "services"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ("", "v1", "ConfigMap", "configmaps"),
];

/// The label of objects that a test has put there as somebody else's; no snapshot holds them.
pub const FOREIGN: &str = "workerapp-e2e/foreign";

impl Fixture {
    /// All objects of a kind as plain JSON; none where the cluster doesn't have the kind.
    async fn all_of(&self, group: &str, version: &str, kind: &str, plural: &str) -> Result<Vec<Value>> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(list.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?),
            // Of a group that isn't served the answer is a plain page, without a reason.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("listing {plural}")),
        }
    }

    async fn everything(&self) -> Result<Vec<(&'static str, Value)>> {
        let lists = KINDS.map(async |(group, version, kind, plural)| {
            let objects = self.all_of(group, version, kind, plural).await?;
            anyhow::Ok(objects.into_iter().map(move |object| (kind, object)))
        });
        let lists = futures::future::try_join_all(lists).await?;
        let foreign = |object: &Value| !object["metadata"]["labels"][FOREIGN].is_null();
        let of_cluster = |object: &Value| object["metadata"]["name"] == "kube-root-ca.crt";
        Ok(lists
            .into_iter()
            .flatten()
            .filter(|(_, object)| !foreign(object) && !of_cluster(object))
            .collect())
    }

    /// All that stands in the namespace now.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::of(&self.namespace, self.everything().await?)?)
    }

    /// The same, and what is still to be done by whomever, if anything is.
    ///
    /// # Errors
    /// If the API server doesn't answer.
    pub async fn survey(&self) -> Result<(Snapshot, Option<String>)> {
        let objects = self.everything().await?;
        let unfinished = unfinished(&objects);
        Ok((Snapshot::of(&self.namespace, objects)?, unfinished))
    }

    /// Waits until nobody has anything left to do: not the operator, nor the cluster's own controllers.
    ///
    /// # Errors
    /// After twice [`PATIENCE`], with what is still to be done.
    pub async fn at_rest(&self, operator: &Operator) -> Result<()> {
        self.at_rest_by(|| Ok(operator.recorder.count())).await
    }

    /// The same for an operator that is watched from outside: `written` counts its writes.
    ///
    /// # Errors
    /// After twice [`PATIENCE`], with what is still to be done.
    pub async fn at_rest_by(&self, written: impl Fn() -> Result<usize> + Send) -> Result<()> {
        let deadline = Instant::now() + 2 * PATIENCE;
        // Once more after all was done: it takes a moment until the operator has seen that.
        let mut rested = false;
        loop {
            let before = written()?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Fewer than before: the log that they were counted in was begun anew.
            let writes = written()?.abs_diff(before);
            let waiting = match writes {
                0 if rested => return Ok(()),
                0 => unfinished(&self.everything().await?),
                _ => Some(format!("the operator wrote {writes} times within a second")),
            };
            rested = waiting.is_none();
            if let Some(waiting) = waiting
                && Instant::now() > deadline
            {
                bail!("no rest: {waiting}");
            }
        }
    }

    /// What has to hold whatever the test did: the operator wrote in this namespace alone, every child has its app, and it falls
    /// silent, unless an app of which something is wrong is tried again and again.
    ///
    /// # Errors
    /// Names what does not hold.
    pub async fn verify(&self, operator: &Operator) -> Result<()> {
        let place = format!("/namespaces/{}/", self.namespace);
        let history = operator.recorder.history();
        if let Some(elsewhere) = history.iter().find(|sent| !sent.path.contains(&place)) {
            bail!("written outside of the test's namespace: {elsewhere}");
        }
        self.no_orphans().await?;
        let everything = self.everything().await?;
        let mut apps = everything.iter().filter(|(kind, _)| *kind == "WorkerApp");
        if apps.all(|(_, app)| reconciled(app)) {
            self.fall_silent(operator).await?;
        }
        Ok(())
    }

    /// Waits until nothing has been written for [`SILENCE`].
    async fn fall_silent(&self, operator: &Operator) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = operator.recorder.count();
            tokio::time::sleep(SILENCE).await;
            let history = operator.recorder.history();
            if history.len() == before {
                return Ok(());
            }
            let last: Vec<_> = history.iter().skip(before).map(ToString::to_string).collect();
            ensure!(Instant::now() < deadline, "writes without an end, the last ones: {last:?}");
        }
    }

    /// Waits until every child's app is there: what an app leaves behind is deleted by Kubernetes.
    ///
    /// # Errors
    /// Names what is left after [`PATIENCE`].
    pub async fn no_orphans(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match orphan(&self.everything().await?) {
                None => return Ok(()),
                Some(orphan) if Instant::now() > deadline => bail!(orphan),
                Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
