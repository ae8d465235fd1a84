//! `status`: an app and what stands for it, as a tree, its conditions, and its last events.

use std::time::Duration;

use k8s_openapi::{
    api::{core::v1::Pod, events::v1::Event},
    jiff::Timestamp,
};
use kube::ResourceExt as _;
use serde::Serialize;
use workerapp_api::{Condition, ConditionStatus, WorkerApp, condition::ConditionType, names};
use workerapp_plan::burst;

use super::{
    place, scaling,
    tree::{Branch, Health},
};
use crate::{
    look::{Look, PodLook},
    output,
    supervisor::{Process, age, bytes},
};

/// Events that are shown of an app.
const EVENTS: usize = 8;

/// All of it, for people and for programs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) namespace: String,
    pub(crate) app: Branch,
    pub(crate) urls: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) events: Vec<Told>,
}

/// An event.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) age: String,
    pub(crate) type_: String,
    pub(crate) reason: String,
    pub(crate) object: String,
    pub(crate) message: String,
}

impl Status {
    /// What `look` says at the time `now`.
    pub(crate) fn of(look: &Look, now: Timestamp) -> Self {
        let urls = urls(look);
        let mut children = vec![deployment(look, now)];
        children.extend(autoscaler(look, now));
        children.push(service(look, &urls));
        let status = look.app.status.clone().unwrap_or_default();
        Self {
            namespace: look.app.namespace().unwrap_or_default(),
            app: Branch { children, ..root(&look.app) },
            urls,
            conditions: status.conditions,
            events: events(look, now),
        }
    }

    /// For people.
    pub(crate) fn text(&self, colors: bool, wide: bool) -> String {
        let mut text = self.app.text(colors);
        // One that is well is told by the tree.
        let telling = |condition: &&Condition| wide || condition.status != ConditionStatus::True;
        let rows: Vec<_> = self.conditions.iter().filter(telling).map(condition_row).collect();
        if !rows.is_empty() {
            text += "\nConditions\n";
            text += &indented(&output::table(&[], &rows));
        }
        if !self.events.is_empty() {
            text += "\nLast events\n";
            let rows: Vec<_> = self.events.iter().map(event_row).collect();
            text += &indented(&output::table(&[], &rows));
        }
        text
    }
}

fn indented(text: &str) -> String {
    output::lines(text.lines().map(|line| format!("  {line}")))
}

fn condition_row(condition: &Condition) -> Vec<String> {
    vec![
        condition.type_.clone(),
        format!("{:?}", condition.status),
        condition.reason.clone(),
        condition.message.clone(),
    ]
}

fn event_row(event: &Told) -> Vec<String> {
    vec![
        event.age.clone(),
        event.type_.clone(),
        event.reason.clone(),
        event.object.clone(),
        event.message.clone(),
    ]
}

/// A condition of an app.
pub(crate) fn condition(app: &WorkerApp, type_: ConditionType) -> Option<&Condition> {
    let conditions = &app.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// Ready, in a word, and how well that is.
pub(crate) fn ready(app: &WorkerApp) -> (Health, String) {
    let Some(ready) = condition(app, ConditionType::Ready) else {
        return (Health::Ill, "no status (does the operator run?)".into());
    };
    if ready.observed_generation < app.metadata.generation {
        return (Health::Pending, "changed just now".into());
    }
    match ready.status {
        ConditionStatus::True => (Health::Well, "Ready".into()),
        ConditionStatus::False if ready.reason == "RollingOut" => (Health::Pending, ready.reason.clone()),
        ConditionStatus::False => (Health::Ill, ready.reason.clone()),
        ConditionStatus::Unknown => (Health::Pending, ready.reason.clone()),
    }
}

fn root(app: &WorkerApp) -> Branch {
    let (health, state) = ready(app);
    let status = app.status.clone().unwrap_or_default();
    let mut detail = match (status.workers, status.workers_reason) {
        (Some(workers), Some(reason)) => format!("{workers} per pod ({reason})"),
        _ => String::new(),
    };
    if paused(app) {
        detail = if detail.is_empty() { "paused".to_owned() } else { format!("paused; {detail}") };
    }
    Branch { kind: "WorkerApp".into(), name: app.name_any(), health, state, detail, children: Vec::new() }
}

/// Whether the operator is told to leave the app alone.
pub(crate) fn paused(app: &WorkerApp) -> bool {
    workerapp_plan::Pause::of(app).is_some()
}

fn deployment(look: &Look, now: Timestamp) -> Branch {
    let name = look.app.name_any();
    let children = look.pods.iter().map(|pod| self::pod(pod, now)).collect();
    let base = Branch { kind: "Deployment".into(), name, children, ..Branch::default() };
    let Some(deployment) = &look.deployment else {
        return Branch { health: Health::Ill, state: "missing".into(), ..base };
    };
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let (ready, updated) =
        (status.ready_replicas.unwrap_or_default(), status.updated_replicas.unwrap_or_default());
    let health = match () {
        () if ready < wanted && ready == 0 && wanted > 0 => Health::Ill,
        () if ready < wanted || updated < wanted => Health::Pending,
        () => Health::Well,
    };
    let detail = if updated < wanted { format!("{updated} of {wanted} are new") } else { String::new() };
    Branch { health, state: format!("{ready}/{wanted} ready"), detail, ..base }
}

fn pod(look: &PodLook, now: Timestamp) -> Branch {
    let pod = &look.pod;
    let (health, state) = pod_state(pod);
    let status = pod.status.clone().unwrap_or_default();
    let app = status.container_statuses.iter().flatten().find(|one| one.name == names::CONTAINER_APP);
    let mut words =
        vec![pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or("no node".into())];
    if let Some(made) = pod.creation_timestamp() {
        words.push(age(since(now, made.0)));
    }
    let restarts = app.map_or(0, |app| app.restart_count);
    if restarts > 0 {
        words.push(format!("container restarted {restarts} ×"));
    }
    let children = match &look.account {
        Ok(account) => {
            if account.sharing.detail.is_some() {
                words.push(format!("sharing: {}", account.sharing.mode));
            }
            account.processes.iter().map(worker).collect()
        }
        Err(why) => {
            words.push(why.clone());
            Vec::new()
        }
    };
    Branch { kind: "Pod".into(), name: pod.name_any(), health, state, detail: words.join(", "), children }
}

/// The word that kubectl has for a pod.
fn pod_state(pod: &Pod) -> (Health, String) {
    if pod.metadata.deletion_timestamp.is_some() {
        return (Health::Pending, "Terminating".into());
    }
    let status = pod.status.clone().unwrap_or_default();
    let containers =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let waiting = containers.filter_map(|one| one.state.as_ref()?.waiting.as_ref()?.reason.clone());
    if let Some(reason) = waiting.into_iter().find(|reason| reason != "PodInitializing") {
        let health = if reason == "ContainerCreating" { Health::Pending } else { Health::Ill };
        return (health, reason);
    }
    let conditions = status.conditions.unwrap_or_default();
    let of = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    if of("Ready").is_some_and(|condition| condition.status == "True") {
        return (Health::Well, "Ready".into());
    }
    if let Some(reason) =
        of("PodScheduled").filter(|one| one.status == "False").and_then(|one| one.reason.clone())
    {
        return (Health::Ill, reason);
    }
    match status.phase.as_deref() {
        Some("Running") => (Health::Pending, "not ready".into()),
        phase => (Health::Pending, phase.unwrap_or("Unknown").to_owned()),
    }
}

fn worker(process: &Process) -> Branch {
    let mut words = vec![output::counted(process.connections, "connection"), bytes(process.resident_bytes)];
    if process.restarts() > 0 {
        let causes = process.restarts.iter().filter(|(_, count)| **count > 0);
        let causes: Vec<_> = causes.map(|(cause, count)| format!("{cause} {count}")).collect();
        words.push(format!("restarts: {}", causes.join(", ")));
    }
    words.extend(process.reason.clone());
    Branch {
        kind: "worker".into(),
        name: process.id.to_string(),
        health: if process.listens() { Health::Well } else { Health::Pending },
        state: process.state.clone(),
        detail: words.join(", "),
        children: Vec::new(),
    }
}

/// With the burst that runs.
fn autoscaler(look: &Look, now: Timestamp) -> Option<Branch> {
    let mut branch = scaler(look)?;
    let told = look.app.status.as_ref().and_then(|status| status.burst.clone());
    if let Some((end, burst)) = told.and_then(|burst| burst::running(&look.app, burst, now)) {
        let left = age(since(end, now));
        let words = format!("burst, {left} more: at least {} pods ({})", burst.replicas, burst.reason);
        branch.detail =
            [branch.detail, words].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
    }
    Some(branch)
}

fn scaler(look: &Look) -> Option<Branch> {
    look.app.spec.autoscaling.as_ref()?;
    let base =
        Branch { kind: "HorizontalPodAutoscaler".into(), name: look.app.name_any(), ..Branch::default() };
    let Some(autoscaler) = &look.autoscaler else {
        return Some(by_keda(&look.app).unwrap_or(Branch {
            health: Health::Ill,
            state: "missing".into(),
            ..base
        }));
    };
    let active = scaling::condition(autoscaler, "ScalingActive");
    let (health, state) = match active {
        Some((true, _)) => (Health::Well, "active".to_owned()),
        Some((false, reason)) => (Health::Ill, reason),
        None => (Health::Pending, "no status yet".to_owned()),
    };
    Some(Branch { health, state, detail: scaling::now(autoscaler), ..base })
}

/// The ScaledObject in its place, as the operator passes on what KEDA says of it.
fn by_keda(app: &WorkerApp) -> Option<Branch> {
    app.spec.autoscaling.as_ref()?.keda.as_ref()?;
    let active = condition(app, ConditionType::ScalingActive)?;
    let health = match active.status {
        ConditionStatus::True => Health::Well,
        ConditionStatus::False => Health::Ill,
        ConditionStatus::Unknown => Health::Pending,
    };
    let (kind, name, state) = ("ScaledObject".into(), app.name_any(), active.reason.clone());
    Some(Branch { kind, name, health, state, detail: active.message.clone(), ..Branch::default() })
}

fn service(look: &Look, urls: &[String]) -> Branch {
    let base = Branch { kind: "Service".into(), name: look.app.name_any(), ..Branch::default() };
    let Some(service) = &look.service else {
        return Branch { health: Health::Ill, state: "missing".into(), ..base };
    };
    let spec = service.spec.clone().unwrap_or_default();
    let type_ = spec.type_.unwrap_or_else(|| "ClusterIP".into());
    let detail = if urls.is_empty() { "no node is ready".to_owned() } else { urls.join(" ") };
    Branch { state: type_, detail, ..base }
}

fn urls(look: &Look) -> Vec<String> {
    let Some(service) = &look.service else { return Vec::new() };
    let hosts = match &look.nodes {
        Some(nodes) => place::node_addresses(nodes),
        None => place::host_addresses(look.pods.iter().map(|look| &look.pod)),
    };
    place::port(service, None).map_or_else(Vec::new, |port| place::urls(service, port, &hosts))
}

/// The last events of the app and what stands for it.
fn events(look: &Look, now: Timestamp) -> Vec<Told> {
    let name = look.app.name_any();
    let pods: Vec<_> = look.pods.iter().map(|look| look.pod.name_any()).collect();
    let about = |event: &&Event| {
        event.regarding.as_ref().is_some_and(|object| {
            let (kind, of) =
                (object.kind.as_deref().unwrap_or_default(), object.name.as_deref().unwrap_or_default());
            match kind {
                "Pod" => pods.iter().any(|pod| pod == of),
                "ReplicaSet" => of.rsplit_once('-').is_some_and(|(app, _)| app == name),
                _ => of == name,
            }
        })
    };
    let mut found: Vec<_> = look.events.iter().filter(about).map(|event| (time(event), event)).collect();
    found.sort_by_key(|(time, _)| *time);
    let last = found.iter().skip(found.len().saturating_sub(EVENTS));
    last.map(|(time, event)| Told {
        age: time.map_or_else(|| "?".into(), |time| age(since(now, time))),
        type_: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        object: event.regarding.as_ref().map_or_else(String::new, |object| {
            format!("{}/{}", object.kind.clone().unwrap_or_default(), object.name.clone().unwrap_or_default())
        }),
        message: event.note.clone().unwrap_or_default().trim().to_owned(),
    })
    .collect()
}

/// When an event was last seen; each of its writers has a field of its own for it.
fn time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    series
        .or(event.deprecated_last_timestamp.as_ref().map(|time| time.0))
        .or(event.event_time.as_ref().map(|time| time.0))
        .or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

fn since(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

#[cfg(test)]
#[path = "status/tests.rs"]
mod tests;
