//! One look at one app: dereference → plan → apply → status.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use workerapp_api::{WorkerApp, names};
use workerapp_plan::{Pause, Plan};

use crate::{
    apply::{self, Applied, Owner},
    cache::{Key, by_name},
    context::Context,
    dereference::{Subject, dereference},
    error::Error,
    inquiry::Probe,
    kind::Kind,
    status::{self, Look},
};

/// What a look at an app led to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// All stands as it should; there may be more to tell after so long.
    Settled(Option<Duration>),
    /// Something is wrong; it is tried again, after so long in any case.
    Failed(Vec<Error>, Option<Duration>),
    /// The app is gone or going: Kubernetes deletes the children by their owner references.
    Gone,
    /// Not all is seen that a whole look needs, which has to follow.
    Early,
}

/// Makes the cluster what the app says, as far as that is possible, and says in the app's status how far that is.
pub(crate) async fn reconcile(context: &Context, key: &Key) -> Outcome {
    let Some(subject) = dereference(context, key) else { return Outcome::Gone };
    if subject.object.deleting {
        return Outcome::Gone;
    }

    let burst = subject.burst.as_ref().map(|(_, burst)| burst);
    let owner = owner(&subject);
    let scales = subject.app.as_ref().is_ok_and(|app| app.spec.autoscaling.is_some());
    let pause = subject.app.as_ref().ok().and_then(|app| Pause::of(app));
    let planned = plan(&subject);
    let mut applied = match &planned {
        Ok(plan) if pause.is_some() => Applied::held_back(context, &owner, &plan.children),
        Ok(plan) => apply::apply(context, &owner, &plan.children, burst).await,
        // What runs is left as it is, and told: a bad spec never makes the pods worse off.
        Err(_) => Applied::as_found(context, &owner),
    };
    let plan = planned.map_err(|error| applied.errors.push(error)).ok();

    let look = Look {
        object: &subject.object,
        plan: plan.as_deref(),
        scales,
        burst,
        pause,
        probe: subject.app.as_deref().map_or(Probe::Unknown, probe),
        applied: &applied,
    };
    let told = status::update(context, &look).await;
    log(&applied.errors, matches!(told.news, Ok(true)));
    if let Err(error) = &told.news
        && !context.cut_off()
    {
        // Nothing but the log can say it; the backoff keeps it from being said often.
        tracing::warn!(reason = error.reason().as_str(), "the status can't be written: {error}");
    }
    if told.news.is_ok() {
        // Without the Deployment there is nothing to add pods to.
        let followed = pause.is_none() && applied.get(Kind::Deployment).is_some();
        let plan = plan.as_deref().filter(|_| followed);
        context.bursts.follow(key, plan, burst);
    }
    // Its end is nobody's event.
    let due = subject.burst.as_ref().map(|(end, _)| until(*end));
    let mut errors = applied.errors;
    errors.extend(told.news.err());
    if errors.is_empty() {
        Outcome::Settled(told.again.into_iter().chain(due).min())
    } else {
        Outcome::Failed(errors, due)
    }
}

/// Carries out an edit while the lists of `listing` are under way, with the app's children read by name; does nothing for an app that
/// nobody has edited. The status is left to the whole look: it would be told of pods that nobody has seen.
pub(crate) async fn carry_out_early(context: &Context, key: &Key, listing: &[Kind]) -> Outcome {
    let Some(subject) = dereference(context, key).filter(is_edited) else { return Outcome::Early };
    let Ok(plan) = plan(&subject) else { return Outcome::Early };
    if let Err(error) = by_name::read(context, listing, key).await {
        tracing::debug!("the edit waits for the caches: {error}");
        return Outcome::Early;
    }
    let burst = subject.burst.as_ref().map(|(_, burst)| burst);
    let applied = apply::apply(context, &owner(&subject), &plan.children, burst).await;
    for error in applied.errors {
        tracing::debug!(reason = error.reason().as_str(), "the edit waits for the caches: {error}");
    }
    Outcome::Early
}

fn owner(subject: &Subject) -> Owner {
    let object = &subject.object;
    Owner { key: object.key.clone(), uid: object.uid.clone(), new: is_new(subject) }
}

/// Whether its spec has changed since it was last told of, and is to be carried out.
fn is_edited(subject: &Subject) -> bool {
    let Ok(app) = &subject.app else { return false };
    let observed = app.status.as_ref().and_then(|status| status.observed_generation);
    let ahead = observed.is_some_and(|observed| subject.object.generation > observed);
    ahead && !subject.object.deleting && Pause::of(app).is_none()
}

/// Whether nothing was ever told of it.
fn is_new(subject: &Subject) -> bool {
    let status = subject.app.as_ref().ok().and_then(|app| app.status.as_ref());
    status.is_none_or(|status| status.observed_generation.is_none())
}

/// How long it is until then.
fn until(end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default()
}

/// Who says whether the app's pods are ready.
fn probe(app: &WorkerApp) -> Probe {
    let port = app.spec.supervisor.as_ref().and_then(|supervisor| supervisor.admin_port);
    match (&app.spec.readiness_probe, port.map(u16::try_from)) {
        (Some(_), _) => Probe::Own,
        (None, None) => Probe::Supervisor(names::DEFAULT_ADMIN_PORT),
        (None, Some(port)) => port.map_or(Probe::Unknown, Probe::Supervisor),
    }
}

/// In boxes here and in [`Subject`], since both are large and live as long as the look.
fn plan(subject: &Subject) -> Result<Box<Plan>, Error> {
    let app = subject.app.as_ref().map_err(Clone::clone)?;
    Ok(Box::new(workerapp_plan::plan(app, &subject.facts)?))
}

/// A failure that goes on is told once: the next lines would say the same.
fn log(errors: &[Error], news: bool) {
    for error in errors {
        let reason = error.reason().as_str();
        if news {
            tracing::warn!(reason, "{error}");
        } else {
            tracing::debug!(reason, "{error}");
        }
    }
}
