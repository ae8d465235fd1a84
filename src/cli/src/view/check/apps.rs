//! Checks of the apps.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use workerapp_api::{ConditionStatus, condition::ConditionType, names};
use workerapp_plan::Facts;

use super::{Evidence, Finding, some, unread};
use crate::{
    look::Look,
    output::counted,
    view::{
        scaling,
        status::{condition, paused},
        tree::Health,
    },
};

/// `namespace/name`.
fn named(look: &Look) -> String {
    format!("{}/{}", look.app.namespace().unwrap_or_default(), look.app.name_any())
}

/// Asks each app; `ill` says what is wrong with one.
fn each(evidence: &Evidence, remedy: &str, ill: impl Fn(&Look) -> Vec<String>) -> Finding {
    let looks = match &evidence.looks {
        Err(why) => return unread(why),
        Ok(looks) if looks.is_empty() => return Finding::Skipped("there are no apps".into()),
        Ok(looks) => looks,
    };
    let found: Vec<_> = looks.iter().flat_map(ill).collect();
    if found.is_empty() {
        Finding::Well(counted(looks.len(), "app"))
    } else {
        Finding::Failure { seen: some(&found), remedy: remedy.to_owned() }
    }
}

/// The same for what works and may surprise.
fn milder(finding: Finding) -> Finding {
    match finding {
        Finding::Failure { seen, remedy } => Finding::Warning { seen, remedy },
        other => other,
    }
}

pub(super) fn reconciled(evidence: &Evidence) -> Finding {
    let remedy = "do what the condition's message says; docs/troubleshooting.md explains each reason. No status: does the operator look after this namespace?";
    each(evidence, remedy, |look| {
        let wrong = match condition(&look.app, ConditionType::Reconciled) {
            _ if paused(&look.app) => None,
            None => Some("no status".to_owned()),
            Some(one) if one.observed_generation < look.app.metadata.generation => {
                Some("its last change was not looked at yet".to_owned())
            }
            Some(one) if one.status != ConditionStatus::True => {
                Some(format!("{}: {}", one.reason, one.message))
            }
            Some(_) => None,
        };
        wrong.map(|wrong| format!("{}: {wrong}", named(look))).into_iter().collect()
    })
}

pub(super) fn ready(evidence: &Evidence) -> Finding {
    let remedy =
        "kubectl workerapp status APP shows where it hangs; docs/troubleshooting.md explains each reason";
    each(evidence, remedy, |look| {
        let (health, state) = crate::view::status::ready(&look.app);
        let message =
            condition(&look.app, ConditionType::Ready).map(|one| one.message.clone()).unwrap_or_default();
        (health != Health::Well).then(|| format!("{}: {state}: {message}", named(look))).into_iter().collect()
    })
}

pub(super) fn supervisors(evidence: &Evidence) -> Finding {
    let remedy =
        "kubectl logs POD -c app; a NetworkPolicy must let the API server reach the admin port (9913)";
    each(evidence, remedy, |look| {
        let silent = look.pods.iter().filter(|pod| runs(&pod.pod)).filter_map(|pod| {
            let why = pod.account.as_ref().err()?;
            Some(format!("{}: pod {}: {why}", named(look), pod.pod.name_any()))
        });
        silent.collect()
    })
}

/// Whether there is a supervisor to ask: a pod is called running while its container waits to be started again, too.
fn runs(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let app = statuses.into_iter().find(|one| one.name == names::CONTAINER_APP);
    pod.metadata.deletion_timestamp.is_none()
        && app.and_then(|app| app.state.as_ref()).is_some_and(|state| state.running.is_some())
}

pub(super) fn sharing(evidence: &Evidence) -> Finding {
    let remedy = "the node's container runtime or kernel refuses what sharing needs (Linux 5.9, no sandbox such as gVisor): choose other nodes with spec.nodeSelector or spec.runtimeClassName";
    milder(each(evidence, remedy, |look| {
        let worse = look.pods.iter().filter_map(|pod| {
            let account = pod.account.as_ref().ok()?;
            let detail = account.sharing.detail.as_ref()?;
            Some(format!("{}: pod {}: {}: {detail}", named(look), pod.pod.name_any(), account.sharing.mode))
        });
        worse.collect()
    }))
}

pub(super) fn scaling(evidence: &Evidence) -> Finding {
    let remedy = "kubectl describe hpa APP; it needs metrics-server and a CPU request. At its maximum it can't add pods: raise spec.autoscaling.maxReplicas";
    milder(each(evidence, remedy, |look| {
        let Some(autoscaler) = &look.autoscaler else { return Vec::new() };
        let mut wrong = Vec::new();
        if let Some((false, reason)) = scaling::condition(autoscaler, "ScalingActive") {
            wrong.push(format!("{}: not active: {reason}", named(look)));
        }
        if let Some((true, reason)) = scaling::condition(autoscaler, "ScalingLimited")
            && reason == "TooManyReplicas"
        {
            wrong.push(format!(
                "{}: wants more pods than maxReplicas {}",
                named(look),
                autoscaler.spec.max_replicas
            ));
        }
        wrong
    }))
}

pub(super) fn warnings(evidence: &Evidence) -> Finding {
    milder(each(
        evidence,
        "each says what to change; kubectl workerapp plan FILE tells them before",
        |look| {
            let told = match workerapp_plan::plan(&look.app, &Facts::default()) {
                Ok(plan) => plan.warnings.iter().map(ToString::to_string).collect(),
                Err(invalid) => vec![invalid.to_string()],
            };
            told.into_iter().map(|text: String| format!("{}: {text}", named(look))).collect()
        },
    ))
}
