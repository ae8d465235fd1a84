//! The WorkerApp's status: made from what was applied, written only when something but times would change.
//!
//! - `conditions`: what each condition says
//! - `rollout`: how far the Deployment has come
//! - `pods`: what keeps the pods from serving
//! - `container`: the same of one container
//! - `address`: where the app answers

mod address;
pub(crate) mod conditions;
mod container;
pub(crate) mod pods;
mod rollout;

use std::time::Duration;

use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{
    Resource as _,
    api::{Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;
use workerapp_api::{
    BurstStatus, Condition, WorkerApp, WorkerAppStatus,
    condition::{ConditionType, Reason},
    names,
};
use workerapp_plan::{Pause, Plan};

use crate::{
    apply::Applied,
    burst::Step,
    cache::{Incoming, Object},
    context::{Context, bounded},
    error::Error,
    inquiry::Probe,
    kind::Kind,
};
use conditions::{Autoscaler, Scaled, Seen, Verdict};
use pods::{Pod, Trouble};
use rollout::Rollout;

/// When pods are looked at again whose containers were killed.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Just the status of a WorkerApp whose spec may be unreadable.
#[derive(Default, Deserialize)]
struct Former {
    #[serde(default)]
    status: WorkerAppStatus,
}

/// What a look at an app knows when it comes to telling.
pub(crate) struct Look<'a> {
    pub(crate) object: &'a Object,
    /// `None` if the spec can't be carried out.
    pub(crate) plan: Option<&'a Plan>,
    /// Whether the spec asks for an autoscaler.
    pub(crate) scales: bool,
    /// The burst that runs.
    pub(crate) burst: Option<&'a BurstStatus>,
    /// What pauses it, if anything does.
    pub(crate) pause: Option<Pause>,
    /// How its pods' readiness is found out.
    pub(crate) probe: Probe,
    pub(crate) applied: &'a Applied,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Told {
    /// Whether the status had to be written.
    pub(crate) news: Result<bool, Error>,
    /// When there may be more to tell although no object changes.
    pub(crate) again: Option<Duration>,
}

/// Brings the status of the app up to date, and tells what is new in it as events.
pub(crate) async fn update(context: &Context, look: &Look<'_>) -> Told {
    let rollout: Option<Rollout> = look.applied.get(Kind::Deployment).and_then(|object| object.read().ok());
    let pods = pods::read(&context.caches[Kind::Pod].of_app(&look.object.key));
    let trouble = pods::worst(&pods, rollout.as_ref().and_then(Rollout::newest), Timestamp::now());
    let unready = trouble.as_ref().and_then(|trouble| trouble.unready.as_ref());
    let heard = context.inquiries.hear(&look.object.key, unready, look.probe).await;
    let trouble = trouble.map(|trouble| trouble.explained(heard.words.as_deref(), heard.lasting));

    // Nothing tells that a container has not been killed for a while.
    let killed = trouble.as_ref().is_some_and(|trouble| trouble.reason == Reason::OOMKilled);
    let again = heard.again.or_else(|| killed.then_some(LOOK_AGAIN));

    let found = Found { rollout, pods, trouble };
    Told { news: tell(context, look, &found).await, again }
}

async fn tell(context: &Context, look: &Look<'_>, found: &Found) -> Result<bool, Error> {
    let object = look.object;
    let former = object.read::<Former>().unwrap_or_default().status;
    let status = compose(look, found, &former);
    context.metrics.app(&object.key, find(&status, ConditionType::Ready));
    if status == former {
        return Ok(false);
    }
    write(context, object, &status).await?;
    // Told, and so counted once, by whichever operator told it.
    if let Some(step) = Step::between(former.burst.as_ref(), status.burst.as_ref()) {
        context.metrics.burst(step);
    }
    let warnings = look.plan.map(|plan| plan.warnings.as_slice()).unwrap_or_default();
    context.events.tell(object, &former, &status, warnings);
    Ok(true)
}

/// What the cluster says of an app.
struct Found {
    rollout: Option<Rollout>,
    pods: Vec<Pod>,
    trouble: Option<Trouble>,
}

fn compose(look: &Look<'_>, found: &Found, former: &WorkerAppStatus) -> WorkerAppStatus {
    let Look { object, plan, scales, pause, applied, .. } = *look;
    let Found { rollout, pods, trouble } = found;
    let autoscaler: Option<Autoscaler> =
        applied.get(Kind::HorizontalPodAutoscaler).and_then(|object| object.read().ok());
    let scaled: Option<Scaled> = applied.get(Kind::ScaledObject).and_then(|object| object.read().ok());
    let service: Option<Service> = applied.get(Kind::Service).and_then(|object| object.read().ok());
    let warnings: Vec<_> = plan.iter().flat_map(|plan| &plan.warnings).map(ToString::to_string).collect();

    // Without a plan the pods go on running what the last one said.
    let workers = plan.map_or(former.workers, |plan| i32::try_from(plan.workers.count).ok());
    let workers_reason =
        plan.map_or_else(|| former.workers_reason.clone(), |plan| Some(plan.workers.reason.clone()));
    let verdicts = conditions::all(&Seen {
        errors: &applied.errors,
        pause,
        held_back: &applied.held_back,
        warnings: &warnings,
        workers,
        scales,
        rollout: rollout.as_ref(),
        autoscaler: autoscaler.as_ref(),
        scaled: scaled.as_ref(),
        trouble: trouble.as_ref(),
    });

    let numbers = rollout.as_ref().map(|rollout| &rollout.status);
    WorkerAppStatus {
        observed_generation: Some(object.generation),
        workers,
        workers_reason,
        node_port: service.as_ref().and_then(address::node_port),
        url: service.as_ref().and_then(|service| address::url(&object.key, service, pods)),
        replicas: numbers.map(|numbers| numbers.replicas.unwrap_or_default()),
        ready_replicas: numbers.map(|numbers| numbers.ready_replicas.unwrap_or_default()),
        updated_replicas: numbers.map(|numbers| numbers.updated_replicas.unwrap_or_default()),
        selector: Some(selector(&object.key.name)),
        burst: look.burst.cloned(),
        conditions: stamp(verdicts, object.generation, &former.conditions),
    }
}

/// As the scale subresource wants it: the labels that the plan puts into the Deployment's selector.
pub(crate) fn selector(app: &str) -> String {
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
    let body = json!({
        "apiVersion": WorkerApp::api_version(&()),
        "kind": Kind::WorkerApp.as_str(),
        // An app of that name that was made anew since is not meant.
        "metadata": { "name": &*object.key.name, "uid": &*object.uid },
        "status": status,
    });
    let api = Kind::WorkerApp.api(&context.client, Some(&object.key.namespace));
    let params = PatchParams::apply(names::FIELD_MANAGER).force();
    let writing = context.caches[Kind::WorkerApp].writing(&object.key);
    let answer: Result<Incoming, _> =
        bounded(api.patch_status(&object.key.name, &params, &Patch::Apply(&body))).await;
    match answer {
        Ok(answer) => {
            writing.answered(Object::new(Kind::WorkerApp, answer));
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
