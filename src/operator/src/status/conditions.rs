//! The conditions, from what was applied and what the cluster says about it. Pure.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use serde::Deserialize;
use workerapp_api::{
    ConditionStatus::{self, False, True, Unknown},
    condition::{ConditionType, Reason},
};
use workerapp_plan::Pause;

use super::{
    pods::Trouble,
    rollout::{Phase, Rollout},
};
use crate::{error::Error, kind::Kind};

/// What a condition says, apart from times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) type_: ConditionType,
    pub(crate) status: ConditionStatus,
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

/// What the operator reads of a HorizontalPodAutoscaler.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Autoscaler {
    #[serde(default)]
    pub(crate) status: HorizontalPodAutoscalerStatus,
}

/// What the operator reads of a ScaledObject.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Scaled {
    #[serde(default)]
    status: ScaledStatus,
}

#[derive(Debug, Default, Deserialize)]
struct ScaledStatus {
    #[serde(default)]
    conditions: Vec<ScaledCondition>,
}

#[derive(Debug, Deserialize)]
struct ScaledCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    message: String,
}

/// What the conditions follow from.
pub(crate) struct Seen<'a> {
    pub(crate) errors: &'a [Error],
    /// What pauses the app, if anything does.
    pub(crate) pause: Option<Pause>,
    /// The children that are not as the spec says since the app is paused.
    pub(crate) held_back: &'a [Kind],
    /// What works and may surprise, as text.
    pub(crate) warnings: &'a [String],
    pub(crate) workers: Option<i32>,
    /// Whether the spec asks for an autoscaler.
    pub(crate) scales: bool,
    pub(crate) rollout: Option<&'a Rollout>,
    pub(crate) autoscaler: Option<&'a Autoscaler>,
    /// What stands in its place where KEDA scales the app.
    pub(crate) scaled: Option<&'a Scaled>,
    pub(crate) trouble: Option<&'a Trouble>,
}

/// All conditions, in the order in which they stand in the status.
pub(crate) fn all(seen: &Seen<'_>) -> Vec<Verdict> {
    let mut verdicts = vec![reconciled(seen), available(seen), progressing(seen)];
    verdicts.extend(seen.scales.then(|| scaling_active(seen)));
    verdicts.extend(seen.pause.map(paused));
    verdicts.extend(stalled(seen));
    verdicts.push(ready(seen));
    verdicts
}

/// As much of a message as anybody reads; a status that is too large is not stored at all.
const LONGEST_MESSAGE: usize = 4096;

fn verdict(type_: ConditionType, status: ConditionStatus, reason: Reason, mut message: String) -> Verdict {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push('…');
    }
    Verdict { type_, status, reason, message }
}

fn reconciled(seen: &Seen<'_>) -> Verdict {
    match failure(seen) {
        Some((reason, message)) => verdict(ConditionType::Reconciled, False, reason, message),
        None if !seen.held_back.is_empty() => {
            verdict(ConditionType::Reconciled, False, Reason::Paused, held_back(seen))
        }
        None if seen.warnings.is_empty() => {
            let message = "the children stand as the spec says".to_owned();
            verdict(ConditionType::Reconciled, True, Reason::Applied, message)
        }
        None => {
            let warnings: Vec<_> =
                seen.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
            verdict(ConditionType::Reconciled, True, Reason::Applied, warnings.join("; "))
        }
    }
}

/// The first error's reason, and the texts of all.
fn failure(seen: &Seen<'_>) -> Option<(Reason, String)> {
    let first = seen.errors.first()?;
    let texts: Vec<_> = seen.errors.iter().map(ToString::to_string).collect();
    Some((first.reason(), texts.join("; ")))
}

fn paused(pause: Pause) -> Verdict {
    let resume = match pause {
        Pause::Field => "set it to false",
        Pause::Annotation => "remove it",
    };
    let message = format!(
        "paused by {}: edits of the spec are not carried out and edits of the children not undone; {resume} to resume",
        pause.name()
    );
    verdict(ConditionType::Paused, True, Reason::Paused, message)
}

fn held_back(seen: &Seen<'_>) -> String {
    let kinds: Vec<_> = seen.held_back.iter().map(|kind| kind.as_str()).collect();
    format!("paused: not as the spec says, and left so: {}", kinds.join(", "))
}

/// What needs somebody's help. As kstatus has it: there only while it is true.
fn stalled(seen: &Seen<'_>) -> Option<Verdict> {
    let type_ = ConditionType::Stalled;
    if let Some(error) = seen.errors.iter().find(|error| error.needs_help()) {
        return Some(verdict(type_, True, error.reason(), error.to_string()));
    }
    let rollout = seen.rollout.filter(|rollout| rollout.phase() == Phase::Stuck)?;
    let message = with_trouble(rollout.summary(), seen.trouble);
    Some(verdict(type_, True, Reason::ProgressDeadlineExceeded, message))
}

fn available(seen: &Seen<'_>) -> Verdict {
    let Some(rollout) = seen.rollout else { return missing(ConditionType::Available, seen) };
    let serving = format!("{} of {} pods serve", rollout.available(), rollout.wanted());
    if matches!(rollout.condition("Available"), Some(("True", _))) {
        return verdict(ConditionType::Available, True, Reason::PodsAvailable, serving);
    }
    let message = with_trouble(serving, seen.trouble);
    verdict(ConditionType::Available, False, Reason::PodsUnavailable, message)
}

const NOT_SEEN: &str = "Kubernetes has not acted on the changed Deployment yet";

fn missing(type_: ConditionType, seen: &Seen<'_>) -> Verdict {
    let (reason, _) = failure(seen).unwrap_or((Reason::RollingOut, String::new()));
    verdict(type_, Unknown, reason, "there is no Deployment".into())
}

fn progressing(seen: &Seen<'_>) -> Verdict {
    let type_ = ConditionType::Progressing;
    let Some(rollout) = seen.rollout else { return missing(type_, seen) };
    match rollout.phase() {
        Phase::Done | Phase::Waiting if rollout.spec.paused => {
            verdict(type_, Unknown, Reason::RolloutPaused, rollout.paused())
        }
        Phase::Paused => verdict(type_, Unknown, Reason::RolloutPaused, rollout.paused()),
        Phase::NotSeen => verdict(type_, True, Reason::RollingOut, NOT_SEEN.into()),
        Phase::Done => verdict(type_, True, Reason::RolledOut, rollout.summary()),
        Phase::Stuck => {
            let message = with_trouble(rollout.summary(), seen.trouble);
            verdict(type_, False, Reason::ProgressDeadlineExceeded, message)
        }
        Phase::Refused(words) => verdict(type_, False, Reason::PodsRefused, refused(&words)),
        Phase::RollingOut | Phase::Waiting => {
            verdict(type_, True, Reason::RollingOut, with_trouble(rollout.summary(), seen.trouble))
        }
    }
}

fn ready(seen: &Seen<'_>) -> Verdict {
    let type_ = ConditionType::Ready;
    if let Some((reason, message)) = failure(seen) {
        return verdict(type_, False, reason, message);
    }
    if !seen.held_back.is_empty() {
        return verdict(type_, False, Reason::Paused, held_back(seen));
    }
    let Some(rollout) = seen.rollout else { return missing(type_, seen) };
    let summary = rollout.summary();
    // A pod that can't start says more than that the rollout has not ended.
    let trouble = seen.trouble.filter(|trouble| trouble.reason != Reason::NotReady);
    let told = |reason: Reason| match trouble {
        Some(trouble) => verdict(type_, False, trouble.reason, format!("{summary}; {}", trouble.message)),
        None => verdict(type_, False, reason, with_trouble(summary.clone(), seen.trouble)),
    };
    match rollout.phase() {
        Phase::NotSeen => verdict(type_, False, Reason::RollingOut, NOT_SEEN.into()),
        Phase::Refused(words) => verdict(type_, False, Reason::PodsRefused, refused(&words)),
        Phase::Stuck => told(Reason::ProgressDeadlineExceeded),
        Phase::Paused => verdict(type_, False, Reason::RolloutPaused, rollout.paused()),
        // A pod that has only just started is on its way, whichever phase the rollout is in.
        Phase::RollingOut | Phase::Waiting => match seen.trouble {
            Some(trouble) if trouble.lasting => told(Reason::NotReady),
            _ => told(Reason::RollingOut),
        },
        Phase::Done if !matches!(rollout.condition("Available"), Some(("True", _))) => {
            told(Reason::PodsUnavailable)
        }
        // All serve at this moment, and will not for long.
        Phase::Done if trouble.is_some_and(|trouble| trouble.reason == Reason::OOMKilled) => {
            told(Reason::OOMKilled)
        }
        Phase::Done => {
            let workers = seen.workers.unwrap_or_default();
            let message = match rollout.wanted() {
                0 => "scaled to 0 pods, as asked for".into(),
                pods => format!("pods: {pods}, workers in each: {workers}"),
            };
            verdict(type_, True, Reason::Ready, message)
        }
    }
}

fn refused(words: &str) -> String {
    format!("pods are refused before they exist: {words}")
}

fn with_trouble(text: String, trouble: Option<&Trouble>) -> String {
    match trouble {
        Some(trouble) => format!("{text}; {}", trouble.message),
        None => text,
    }
}

/// From the autoscaler's own conditions.
fn scaling_active(seen: &Seen<'_>) -> Verdict {
    let type_ = ConditionType::ScalingActive;
    if let Some(scaled) = seen.scaled.filter(|_| seen.autoscaler.is_none()) {
        return by_keda(scaled);
    }
    let Some(autoscaler) = seen.autoscaler else {
        let (reason, message) =
            failure(seen).unwrap_or((Reason::ScalingPending, "there is no autoscaler yet".into()));
        return verdict(type_, Unknown, reason, message);
    };
    let conditions = || autoscaler.status.conditions.iter().flatten();
    if let Some(unable) = conditions().find(|one| one.type_ == "AbleToScale" && one.status == "False") {
        let message = unable.message.clone().unwrap_or_default();
        return verdict(type_, False, Reason::ScalingPending, message);
    }
    let Some(active) = conditions().find(|one| one.type_ == "ScalingActive") else {
        let message = "Kubernetes has not acted on the autoscaler yet".to_owned();
        return verdict(type_, Unknown, Reason::ScalingPending, message);
    };
    let words = active.message.clone().unwrap_or_default();
    match (active.status.as_str(), active.reason.as_deref()) {
        ("True", _) => verdict(type_, True, Reason::ScalingActive, words),
        (_, Some("ScalingDisabled")) => verdict(type_, False, Reason::ScalingDisabled, words),
        _ => {
            let (reason, remedy) = remedy(&words);
            verdict(type_, False, reason, format!("{words}; {remedy}"))
        }
    }
}

/// From the conditions of KEDA's ScaledObject.
fn by_keda(scaled: &Scaled) -> Verdict {
    let type_ = ConditionType::ScalingActive;
    let holds = |wanted: &str, status: &str| {
        scaled.status.conditions.iter().find(|one| one.type_ == wanted && one.status == status)
    };
    let words = |found: &ScaledCondition| format!("KEDA: {}", found.message);
    if let Some(paused) = holds("Paused", "True") {
        verdict(type_, False, Reason::ScalingDisabled, words(paused))
    } else if let Some(unable) = holds("Ready", "False") {
        let remedy = "`kubectl describe scaledobject` and the log of KEDA's operator say more";
        verdict(type_, False, Reason::MetricsUnavailable, format!("{}; {remedy}", words(unable)))
    } else if let Some(ready) = holds("Ready", "True") {
        verdict(type_, True, Reason::ScalingActive, words(ready))
    } else {
        verdict(type_, Unknown, Reason::ScalingPending, "KEDA has not acted on the ScaledObject yet".into())
    }
}

/// What the autoscaler's words call for: metrics that can't come by themselves, or patience.
fn remedy(words: &str) -> (Reason, &'static str) {
    if words.contains("pods.metrics.k8s.io") || words.contains("unable to fetch metrics from") {
        let remedy =
            "is metrics-server installed? `kubectl get apiservice v1beta1.metrics.k8s.io` must say True";
        (Reason::MetricsUnavailable, remedy)
    } else if words.contains("custom metrics API") || words.contains("custom.metrics.k8s.io") {
        let remedy = "do the pods tell it (docs/autoscaling.md), and does `kubectl get apiservice v1beta2.custom.metrics.k8s.io` say True?";
        (Reason::MetricsUnavailable, remedy)
    } else if words.contains("missing request for cpu") {
        (Reason::MetricsUnavailable, "set spec.resources.requests.cpu")
    } else {
        (Reason::ScalingPending, "the first metrics of new pods take up to a minute")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use workerapp_api::{ConditionStatus, condition::Reason};

    use super::{Seen, Verdict, all};
    use crate::status::{pods::Trouble, rollout::Rollout};

    fn verdicts(status: &serde_json::Value, trouble: Option<&Trouble>) -> Vec<Verdict> {
        let rollout: Rollout = serde_json::from_value(
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": status}),
        )
        .unwrap();
        all(&Seen {
            errors: &[],
            pause: None,
            held_back: &[],
            warnings: &[],
            workers: Some(2),
            scales: false,
            rollout: Some(&rollout),
            autoscaler: None,
            scaled: None,
            trouble,
        })
    }

    fn unready(lasting: bool) -> Trouble {
        let message = "pod p: container app runs and is not ready: worker 0 listens on port 8080".into();
        Trouble { reason: Reason::NotReady, message, lasting, unready: None }
    }

    #[test]
    fn a_pod_that_stays_unready_is_the_reason_while_an_older_one_serves() {
        // A surge: the old pod serves on, and the new one doesn't get ready.
        let surge = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1,
            "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True"}]});
        let alone = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1});
        for status in [surge, alone] {
            let young = verdicts(&status, Some(&unready(false))).pop().unwrap();
            assert_eq!((young.status, young.reason), (ConditionStatus::False, Reason::RollingOut));
            let lasting = verdicts(&status, Some(&unready(true)));
            let ready = lasting.last().unwrap();
            assert_eq!((ready.status, ready.reason), (ConditionStatus::False, Reason::NotReady));
            for verdict in &lasting[2..] {
                assert!(verdict.message.contains("worker 0 listens on port 8080"), "{verdict:?}");
            }
            // Nothing is known to be wrong with a pod whose image is being pulled.
            let pulling = verdicts(&status, None).pop().unwrap();
            assert_eq!(pulling.reason, Reason::RollingOut);
        }
    }
}
