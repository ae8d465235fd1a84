//! How far a Deployment's rollout has come. Pure.

use k8s_openapi::api::apps::v1::DeploymentStatus;
use serde::Deserialize;

/// What the operator reads of a Deployment.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Rollout {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: DeploymentStatus,
}

/// Its name and generation.
#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    generation: i64,
}

/// Its wanted number of pods, and whether somebody paused it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Spec {
    #[serde(default)]
    replicas: Option<i32>,
    #[serde(default)]
    pub(super) paused: bool,
}

/// How far a rollout has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The Deployment's controller has not seen this generation yet: its numbers speak of an older one.
    NotSeen,
    /// Pods can't even be made, for the reason given.
    Refused(String),
    /// No progress for too long.
    Stuck,
    /// Somebody paused the Deployment, and pods of the newest template are missing.
    Paused,
    /// Pods of the newest template are missing, or old ones are still there.
    RollingOut,
    /// All pods are new, and some don't serve yet.
    Waiting,
    /// As many new pods as wanted serve.
    Done,
}

impl Rollout {
    pub(super) fn wanted(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The name of the newest template's `ReplicaSet`, which the Deployment's controller quotes in its own words.
    pub(super) fn newest(&self) -> Option<&str> {
        let (_, words) = self.condition("Progressing")?;
        words.split('"').nth(1)
    }

    pub(super) fn available(&self) -> i32 {
        self.status.available_replicas.unwrap_or_default()
    }

    fn updated(&self) -> i32 {
        self.status.updated_replicas.unwrap_or_default()
    }

    pub(super) fn condition(&self, type_: &str) -> Option<(&str, &str)> {
        let mut conditions = self.status.conditions.iter().flatten();
        let condition = conditions.find(|condition| condition.type_.as_deref() == Some(type_))?;
        Some((condition.status.as_deref()?, condition.message.as_deref().unwrap_or_default()))
    }

    pub(super) fn phase(&self) -> Phase {
        match self.status.observed_generation {
            // A new one: that there are no pods yet is true whether or not it has been seen.
            None => return Phase::RollingOut,
            Some(observed) if observed < self.metadata.generation => return Phase::NotSeen,
            Some(_) => {}
        }
        let all_new =
            self.updated() >= self.wanted() && self.status.replicas.unwrap_or_default() <= self.updated();
        if all_new && self.available() >= self.wanted() {
            return Phase::Done;
        }
        if let Some(("True", words)) = self.condition("ReplicaFailure") {
            return Phase::Refused(words.into());
        }
        match self.condition("Progressing") {
            _ if self.spec.paused && !all_new => Phase::Paused,
            Some(("False", _)) => Phase::Stuck,
            _ if all_new => Phase::Waiting,
            _ => Phase::RollingOut,
        }
    }

    pub(super) fn paused(&self) -> String {
        format!(
            "the Deployment is paused and makes no new pods: `kubectl rollout resume deployment/{}`; {}",
            self.metadata.name,
            self.summary()
        )
    }

    pub(super) fn summary(&self) -> String {
        let (wanted, updated, available) = (self.wanted(), self.updated(), self.available());
        let old = self.status.replicas.unwrap_or_default() - updated;
        let old = if old > 0 { format!(", {old} old ones still there") } else { String::new() };
        format!("pods: {wanted} wanted, {updated} of the newest template, {available} serving{old}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Phase, Rollout};

    #[test]
    fn the_newest_replica_set_is_the_one_that_the_controller_names() {
        for (words, name) in [
            ("ReplicaSet \"shop-5d8\" is progressing.", Some("shop-5d8")),
            ("Created new replica set \"shop-5d8\"", Some("shop-5d8")),
            ("Deployment is paused", None),
        ] {
            let conditions = json!([{"type": "Progressing", "status": "True", "message": words}]);
            let rollout: Rollout =
                serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap();
            assert_eq!(rollout.newest(), name);
        }
    }

    #[test]
    fn a_paused_deployment_is_told_apart_from_one_that_is_stuck() {
        let conditions =
            json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
        for (paused, updated, phase) in
            [(true, 0, Phase::Paused), (true, 2, Phase::Done), (false, 0, Phase::Stuck)]
        {
            let rollout: Rollout = serde_json::from_value(json!({
                "metadata": {"name": "shop", "generation": 3},
                "spec": {"replicas": 2, "paused": paused},
                "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": updated, "availableReplicas": 2,
                    "conditions": conditions},
            }))
            .unwrap();
            assert_eq!(rollout.phase(), phase);
        }
    }
}
