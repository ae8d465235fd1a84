//! What people do while things go wrong: one row for each story.

use anyhow::Result;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use workerapp_operator::kind::Kind;

use crate::{Fixture, app};

/// One thing that somebody does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Applies an app.
    Apply(&'static str, Value),
    /// Deletes an object.
    Delete(Kind, &'static str),
    /// Edits an object by hand, as `kubectl patch` does.
    Merge(Kind, &'static str, Value),
    /// Makes an object that isn't the operator's.
    Create(Kind, Value),
    /// Leaves a burst of so many pods behind in an app's status, as a leader does that is gone.
    LeaveBurst(&'static str, i32),
}

impl Step {
    /// Does it.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn take(&self, fixture: &Fixture) -> Result<()> {
        let api = |kind: &Kind| -> Api<DynamicObject> { kind.api(&fixture.client, Some(&fixture.namespace)) };
        match self {
            Self::Apply(name, spec) => drop(fixture.apply_raw(name, spec.clone()).await?),
            Self::Delete(kind, name) => drop(api(kind).delete(name, &DeleteParams::background()).await?),
            Self::Merge(kind, name, patch) => {
                drop(api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?);
            }
            Self::Create(kind, body) => {
                let mut body = body.clone();
                let resource = kind.resource();
                body["apiVersion"] = resource.api_version.into();
                body["kind"] = resource.kind.into();
                drop(api(kind).create(&PostParams::default(), &serde_json::from_value(body)?).await?);
            }
            Self::LeaveBurst(name, replicas) => fixture.leave_burst(name, *replicas).await?,
        }
        Ok(())
    }
}

/// One story.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in a case's name.
    pub name: &'static str,
    /// What has come to rest before anything goes wrong.
    pub before: Vec<Step>,
    /// What is done while it does.
    pub act: Vec<Step>,
    /// Whether the cluster's own controllers may or may not act upon something: it stands for a moment only, or the operator is to be
    /// before them.
    pub brief: bool,
}

fn fixed(replicas: i32) -> Step {
    Step::Apply("shop", app(json!({ "replicas": replicas })))
}

fn scaled(max: i32) -> Step {
    Step::Apply("shop", app(json!({ "autoscaling": { "minReplicas": 2, "maxReplicas": max } })))
}

/// No metrics API is needed for a burst that runs already, nor for its end.
fn bursting(hold_seconds: Option<i32>) -> Step {
    let mut autoscaling = json!({ "minReplicas": 2, "maxReplicas": 4, "inFlight": { "averageValue": 5 } });
    if let Some(seconds) = hold_seconds {
        autoscaling["burst"] = json!({ "holdSeconds": seconds });
    }
    Step::Apply("shop", app(json!({ "autoscaling": autoscaling })))
}

fn image(tag: &str) -> Step {
    let image = format!("localhost/app:{tag}");
    Step::Apply("shop", app(json!({ "image": image, "autoscaling": { "minReplicas": 2, "maxReplicas": 4 } })))
}

fn with_service(service: &Value) -> Step {
    Step::Apply("shop", app(json!({ "replicas": 1, "service": service })))
}

/// A Deployment's pods, as somebody edits them by hand.
fn containers(edit: &Value) -> Value {
    let mut container = json!({ "name": "app", "image": "localhost/evil:1" });
    if let (Value::Object(container), Value::Object(edit)) = (&mut container, edit) {
        container.extend(edit.clone());
    }
    json!({ "spec": { "template": { "spec": { "containers": [container] } } } })
}

/// All stories.
pub fn all() -> Vec<Scenario> {
    use Kind::{Deployment, HorizontalPodAutoscaler, Service, WorkerApp};
    use Step::LeaveBurst;
    let row = |name, before: &[Step], act: &[Step]| Scenario {
        name,
        before: before.to_vec(),
        act: act.to_vec(),
        // The pods of a burst: the autoscaler sees its raised minimum too, and takes the number over if it looks first.
        brief: act.len() > 1 || name.starts_with("edited") || name.starts_with("burst"),
    };
    vec![
        row("create", &[], &[scaled(4)]),
        row(
            "create-two",
            &[],
            &[Step::Apply("a", app(json!({}))), Step::Apply("a-b", app(json!({ "replicas": 2 })))],
        ),
        row("edit", &[image("1")], &[image("2")]),
        row("edit-twice", &[image("1")], &[image("2"), image("3")]),
        row("edit-and-back", &[fixed(1)], &[fixed(3), fixed(1)]),
        row("new-bounds", &[scaled(4)], &[scaled(6)]),
        row("autoscaling-removed", &[scaled(4)], &[fixed(3)]),
        row("autoscaling-added", &[fixed(3)], &[scaled(6)]),
        row("burst-left-behind", &[bursting(Some(3600))], &[LeaveBurst("shop", 3)]),
        row("burst-ended", &[bursting(Some(3600)), LeaveBurst("shop", 3)], &[bursting(None)]),
        row("replicas-let-go", &[fixed(3)], &[Step::Apply("shop", app(json!({})))]),
        row("service-inside", &[with_service(&json!({}))], &[with_service(&json!({ "type": "ClusterIP" }))]),
        row("deployment-deleted", &[scaled(4)], &[Step::Delete(Deployment, "shop")]),
        row("service-deleted", &[fixed(1)], &[Step::Delete(Service, "shop")]),
        row("autoscaler-deleted", &[scaled(4)], &[Step::Delete(HorizontalPodAutoscaler, "shop")]),
        row("app-deleted", &[scaled(4)], &[Step::Delete(WorkerApp, "shop")]),
        row("app-deleted-and-made-anew", &[fixed(1)], &[Step::Delete(WorkerApp, "shop"), fixed(2)]),
        row("edited-by-hand", &[fixed(1)], &[Step::Merge(Deployment, "shop", containers(&json!({})))]),
        row(
            "edited-beyond-a-merge",
            &[fixed(1)],
            &[Step::Merge(
                Deployment,
                "shop",
                containers(&json!({ "readinessProbe": { "exec": { "command": ["true"] } } })),
            )],
        ),
        row(
            "name-taken",
            &[],
            &[
                Step::Create(
                    Service,
                    json!({ "metadata": { "name": "shop" }, "spec": { "ports": [{ "port": 1 }] } }),
                ),
                scaled(4),
            ],
        ),
        row(
            "bad-spec",
            &[fixed(2)],
            &[Step::Apply("shop", app(json!({ "ports": [{ "name": "ws", "port": 80 }] })))],
        ),
    ]
}
