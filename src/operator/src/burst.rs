//! Bursts: asks for the workers' metrics every few seconds, where an autoscaler asks for their means every 15, and has an app looked at
//! that needs more pods at once.
//!
//! What is decided here is a proposal. The next look at the app carries it out: the autoscaler's minimum rises, the Deployment's
//! number of pods after it, and the status tells; from then on the burst is what stands in the status, which a restarted operator, or
//! the next leader, goes on with. Whoever doesn't answer says nothing: neither a burst nor its end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt as _, future, stream};
use k8s_openapi::{
    api::core::v1::{PodCondition, PodStatus},
    jiff::{SignedDuration, Timestamp},
};
use serde::Deserialize;
use workerapp_api::{BurstStatus, Quantity, WorkerApp, names};
use workerapp_plan::{
    Plan,
    burst::{self, Heard, Signal},
};

use crate::{
    cache::Key, context::Context, controller::Controller, kind::Kind, queue::Lane, status::selector,
    sync::lock,
};

/// How long after all apps with bursts were asked they are asked again.
const LOOK: Duration = Duration::from_secs(2);
/// How many apps are asked at the same time.
const AT_ONCE: usize = 8;
/// How long an answer may take: after that the next one is worth more.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A pod that isn't Ready since so soon after it was scheduled never was.
const SOON: SignedDuration = SignedDuration::from_secs(10);

/// What became of a burst between two statuses of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There was none.
    Began,
    /// It asks for more pods than before.
    Rose,
    /// Its time is up, or the spec has it end.
    Ended,
}

impl Step {
    pub(crate) const ALL: [Self; 3] = [Self::Began, Self::Rose, Self::Ended];

    /// `None`: nothing that anybody counts. That `maxReplicas` bounds it anew is an edit, and no step of the burst.
    pub(crate) fn between(former: Option<&BurstStatus>, now: Option<&BurstStatus>) -> Option<Self> {
        match (former, now) {
            (None, Some(_)) => Some(Self::Began),
            (Some(former), Some(now)) => (now.replicas > former.replicas).then_some(Self::Rose),
            (Some(_), None) => Some(Self::Ended),
            (None, None) => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Rose => "rose",
            Self::Ended => "ended",
        }
    }
}

/// The apps with bursts.
#[derive(Debug, Default)]
pub(crate) struct Bursts(Mutex<HashMap<Key, Followed>>);

#[derive(Debug)]
struct Followed {
    plan: Arc<workerapp_plan::Bursts>,
    /// The floor of the burst that runs.
    floor: Option<i32>,
    /// What was heard last: the same again decides nothing.
    heard: Vec<Answer>,
    /// What no look has carried out yet.
    proposal: Option<BurstStatus>,
}

/// What the pods say of one signal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    metric: &'static str,
    said: Vec<Said>,
}

/// What one pod says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    pod: String,
    milli: i128,
    /// When it was so, by the clock of whoever measured it.
    time: String,
}

impl Bursts {
    /// The burst of an app that runs now, and its end: the one that the status tells, or one that was decided since.
    pub(crate) fn running(
        &self,
        key: &Key,
        app: &WorkerApp,
        now: Timestamp,
    ) -> Option<(Timestamp, BurstStatus)> {
        let proposed = lock(&self.0).get(key).and_then(|followed| followed.proposal.clone());
        let told = app.status.as_ref().and_then(|status| status.burst.clone());
        let running = [told, proposed].into_iter().flatten().filter_map(|it| burst::running(app, it, now));
        running.max_by_key(|(end, _)| *end)
    }

    /// After a look at an app: what is to be asked from now on, and the burst that the look has carried out.
    pub(crate) fn follow(&self, key: &Key, plan: Option<&Plan>, running: Option<&BurstStatus>) {
        let mut followed = lock(&self.0);
        let Some(plan) = plan.and_then(|plan| plan.bursts.as_ref()) else {
            followed.remove(key);
            return;
        };
        let floor = running.map(|burst| burst.replicas);
        match followed.get_mut(key) {
            Some(known) if *known.plan == *plan => {
                known.floor = floor;
                known.proposal.take_if(|proposal| Some(&*proposal) == running);
            }
            _ => {
                let plan = Arc::new(plan.clone());
                followed.insert(key.clone(), Followed { plan, floor, heard: Vec::new(), proposal: None });
            }
        }
    }

    /// Forgets an app that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        lock(&self.0).remove(key);
    }

    fn all(&self) -> Vec<(Key, Arc<workerapp_plan::Bursts>)> {
        lock(&self.0).iter().map(|(key, followed)| (key.clone(), Arc::clone(&followed.plan))).collect()
    }

    /// Takes in what the pods of an app say, of which `pods` are wanted now; says whether that calls for more of them. `counts`: whether
    /// what a pod says is part of the app's load.
    fn take_in(
        &self,
        key: &Key,
        answers: Vec<Answer>,
        pods: i32,
        counts: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> bool {
        let mut followed = lock(&self.0);
        let Some(Followed { plan, floor, heard, proposal }) = followed.get_mut(key) else { return false };
        if answers == *heard {
            return false;
        }
        *heard = answers;
        let proposed = proposal.as_ref().map(|proposal| proposal.replicas);
        let pods = [proposed, *floor].into_iter().flatten().fold(pods, i32::max);
        // Fewer call for less: who counts is looked up only where it may matter.
        let judge = |counts: &dyn Fn(&str) -> bool| plan.judge(pods, &sums(heard, counts), now);
        let Some(burst) = judge(&|_| true).and_then(|_| judge(&counts)) else { return false };
        *proposal = Some(burst);
        true
    }
}

fn sums(answers: &[Answer], counts: &dyn Fn(&str) -> bool) -> Vec<Heard> {
    let sum = |answer: &Answer| {
        let said = answer.said.iter().filter(|said| counts(&said.pod));
        let sum_milli = said.fold(0, |sum: i128, said| sum.saturating_add(said.milli));
        Heard { metric: answer.metric, sum_milli }
    };
    answers.iter().map(sum).collect()
}

/// Asks again and again, for ever, while this operator leads.
pub(crate) async fn follow(controller: Arc<Controller>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let context = &controller.context;
        if context.cut_off() {
            continue;
        }
        let looks = stream::iter(context.bursts.all());
        looks.for_each_concurrent(AT_ONCE, |(key, bursts)| look(&controller, key, bursts)).await;
    }
}

async fn look(controller: &Controller, key: Key, bursts: Arc<workerapp_plan::Bursts>) {
    let context = &controller.context;
    // None are wanted: whoever scaled it to 0 turned the autoscaler off.
    let Some(pods) = wanted(context, &key).filter(|pods| *pods > 0) else { return };
    let answers = future::join_all(bursts.signals.iter().map(|signal| ask(context, &key, signal))).await;
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let counts = |pod: &str| counts(context, &key.namespace, pod);
    if context.bursts.take_in(&key, answers, pods, counts, Timestamp::now()) {
        tracing::info!(namespace = %key.namespace, name = %key.name, "a burst: more pods are needed at once");
        controller.queue.add(&key, Lane::Edit);
    }
}

/// How many pods the Deployment asks for.
fn wanted(context: &Context, key: &Key) -> Option<i32> {
    #[derive(Deserialize)]
    struct Scaled {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        replicas: Option<i32>,
    }
    context.caches[Kind::Deployment].get(key)?.read::<Scaled>().ok()?.spec.replicas
}

/// What the metrics API answers.
#[derive(Deserialize)]
struct Values {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    described_object: Described,
    timestamp: String,
    value: Quantity,
}

#[derive(Deserialize)]
struct Described {
    name: String,
}

/// What the pods say of a signal; `None`: it isn't known. Asked for is their newest sample, and of whoever has no such thing what an
/// autoscaler is told.
async fn ask(context: &Context, key: &Key, signal: &Signal) -> Option<Answer> {
    let path = format!(
        "/apis/custom.metrics.k8s.io/{}/namespaces/{}/pods/*/{}?labelSelector={}",
        context.served.version(),
        key.namespace,
        signal.metric,
        selector(&key.name),
    );
    let newest = values(context, &format!("{path}&metricLabelSelector={}", names::NEWEST_SAMPLE)).await;
    let items = match newest {
        Some(items) if !items.is_empty() => items,
        _ => values(context, &path).await?,
    };
    let said = items.into_iter().map(|item| Said {
        pod: item.described_object.name,
        milli: item.value.milli_ceil(),
        time: item.timestamp,
    });
    Some(Answer { metric: signal.metric, said: said.collect() })
}

async fn values(context: &Context, path: &str) -> Option<Vec<Item>> {
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    match tokio::time::timeout(TIMEOUT, context.client.request::<Values>(request)).await {
        Ok(Ok(values)) => Some(values.items),
        Ok(Err(error)) => {
            tracing::debug!(path, "no metric: {error}");
            None
        }
        Err(_) => None,
    }
}

/// Whether what a pod says is part of the app's load. One that is leaving takes its load along, as an autoscaler has it; and one
/// that has never been Ready is busy with its own start, which must not call for more of the like.
fn counts(context: &Context, namespace: &str, pod: &str) -> bool {
    // Where pods can't be read all count.
    let Some(pod) = context.caches[Kind::Pod].get(&Key::new(namespace, pod)) else { return true };
    !pod.deleting && !pod.read::<Pod>().is_ok_and(|pod| starts(&pod.status))
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    status: PodStatus,
}

/// Not Ready, and not so since later than soon after it came to its node.
fn starts(status: &PodStatus) -> bool {
    let find = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let since = |condition: &PodCondition| Some(condition.last_transition_time.as_ref()?.0);
    let Some(ready) = find("Ready").filter(|ready| ready.status != "True") else { return false };
    match (since(ready), find("PodScheduled").and_then(since)) {
        (Some(unready), Some(scheduled)) => unready.duration_since(scheduled) < SOON,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
