//! The WorkerApp's status: made from what was applied, written only when something but times would change.
//!
//! - `conditions`: what each condition says
//! - `pods`: what keeps the pods from serving
//! - `address`: where the app answers

mod address;
pub(crate) mod conditions;
pub(crate) mod pods;

use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{
    Resource as _,
    api::{DynamicObject, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;
use workerapp_api::{Condition, WorkerApp, WorkerAppStatus, condition::ConditionType, names};
use workerapp_plan::Plan;

use crate::{
    apply::Applied,
    cache::Object,
    context::{Context, bounded},
    error::Error,
    kind::Kind,
};
use conditions::{Autoscaler, Rollout, Seen, Verdict};

/// Just the status of a WorkerApp whose spec may be unreadable.
#[derive(Default, Deserialize)]
struct Former {
    #[serde(default)]
    status: WorkerAppStatus,
}

/// Brings the status of the app behind `object` up to date, and tells what is new in it as events.
///
/// Says whether it had to be written.
///
/// # Errors
/// If it had to be written and could not be.
pub(crate) async fn update(
    context: &Context,
    object: &Object,
    plan: Option<&Plan>,
    scales: bool,
    applied: &Applied,
) -> Result<bool, Error> {
    let former = object.read::<Former>().unwrap_or_default().status;
    let warnings: Vec<_> = plan.iter().flat_map(|plan| &plan.warnings).map(ToString::to_string).collect();
    let status = compose(context, object, plan, scales, applied, &warnings, &former);
    if status == former {
        return Ok(false);
    }
    write(context, object, &status).await?;
    let warnings = plan.map(|plan| plan.warnings.as_slice()).unwrap_or_default();
    context.events.tell(object, &former, &status, warnings);
    Ok(true)
}

fn compose(
    context: &Context,
    object: &Object,
    plan: Option<&Plan>,
    scales: bool,
    applied: &Applied,
    warnings: &[String],
    former: &WorkerAppStatus,
) -> WorkerAppStatus {
    let rollout: Option<Rollout> = applied.deployment.as_ref().and_then(|object| object.read().ok());
    let autoscaler: Option<Autoscaler> = applied.autoscaler.as_ref().and_then(|object| object.read().ok());
    let service: Option<Service> = applied.service.as_ref().and_then(|object| object.read().ok());
    let pods = pods::read(&context.caches[Kind::Pod].of_app(&object.key));
    let trouble = pods::worst(&object.key.name, &pods);

    // Without a plan the pods go on running what the last one said.
    let workers = plan.map_or(former.workers, |plan| i32::try_from(plan.workers.count).ok());
    let workers_reason =
        plan.map_or_else(|| former.workers_reason.clone(), |plan| Some(plan.workers.reason.clone()));
    let verdicts = conditions::all(&Seen {
        errors: &applied.errors,
        warnings,
        workers,
        scales,
        rollout: rollout.as_ref(),
        autoscaler: autoscaler.as_ref(),
        trouble: trouble.as_ref(),
    });

    let numbers = rollout.as_ref().map(|rollout| &rollout.status);
    WorkerAppStatus {
        observed_generation: Some(object.generation),
        workers,
        workers_reason,
        node_port: service.as_ref().and_then(address::node_port),
        url: service.as_ref().and_then(|service| address::url(&object.key, service, &pods)),
        replicas: numbers.map(|numbers| numbers.replicas.unwrap_or_default()),
        ready_replicas: numbers.map(|numbers| numbers.ready_replicas.unwrap_or_default()),
        updated_replicas: numbers.map(|numbers| numbers.updated_replicas.unwrap_or_default()),
        selector: Some(selector(&object.key.name)),
        conditions: stamp(verdicts, object.generation, &former.conditions),
    }
}

/// As the scale subresource wants it: the labels that the plan puts into the Deployment's selector.
fn selector(app: &str) -> String {
    format!("{}={app},{}={app}", names::LABEL_INSTANCE, names::LABEL_NAME)
}

/// Gives each condition the time of its last change: the former one unless its status changed now.
fn stamp(verdicts: Vec<Verdict>, generation: i64, former: &[Condition]) -> Vec<Condition> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let since = |verdict: &Verdict| {
        let former = former.iter().find(|former| former.type_ == verdict.type_.as_str());
        former
            .filter(|former| former.status == verdict.status)
            .map_or_else(|| now.clone(), |former| former.last_transition_time.clone())
    };
    verdicts
        .into_iter()
        .map(|verdict| Condition {
            last_transition_time: since(&verdict),
            type_: verdict.type_.as_str().into(),
            status: verdict.status,
            observed_generation: Some(generation),
            reason: verdict.reason.as_str().into(),
            message: verdict.message,
        })
        .collect()
}

async fn write(context: &Context, object: &Object, status: &WorkerAppStatus) -> Result<(), Error> {
    context.metrics.write(Kind::WorkerApp.as_str(), "apply");
    let body = json!({
        "apiVersion": WorkerApp::api_version(&()),
        "kind": Kind::WorkerApp.as_str(),
        // An app of that name that was made anew since is not meant.
        "metadata": { "name": &*object.key.name, "uid": &*object.uid },
        "status": status,
    });
    let api = Kind::WorkerApp.api(&context.client, Some(&object.key.namespace));
    let params = PatchParams::apply(names::FIELD_MANAGER).force();
    let answer: Result<DynamicObject, _> =
        bounded(api.patch_status(&object.key.name, &params, &Patch::Apply(&body))).await;
    match answer {
        Ok(answer) => {
            context.caches[Kind::WorkerApp].insert(Object::new(Kind::WorkerApp, answer));
            Ok(())
        }
        // It was deleted meanwhile: there is nothing left to tell.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::from_write(Kind::WorkerApp, &object.key.namespace, &object.key.name, error)),
    }
}

/// The condition of this type.
pub(crate) fn find(status: &WorkerAppStatus, type_: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_.as_str())
}
