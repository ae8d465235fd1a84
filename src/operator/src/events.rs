//! Events of an app: what `kubectl describe` shows at the end.
//!
//! One is written when a condition's reason changes in a way worth telling, when a burst begins, and for each warning of the plan that is
//! new. What
//! was told before stands in the status, so a restarted operator repeats nothing; what comes back within minutes (an app that goes
//! to and fro) is counted in the event that told it. Events are written beside the reconcile by one task, from a queue that drops what
//! is too much: they never fail it or hold it up.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use workerapp_api::{
    Condition, ConditionStatus, WorkerApp, WorkerAppStatus,
    condition::{ConditionType, Reason},
    names,
};
use workerapp_plan::Warning;

use crate::{burst::Step, cache::Object, context::bounded, kind::Kind, status};

/// Events that may wait to be written.
const QUEUE: usize = 256;
/// How long after it was told last the same is counted and not told anew.
const OF_LATE: Duration = Duration::from_mins(10);
/// How many events are remembered for that.
const REMEMBERED: usize = 1024;
/// What the API server takes as a text, in bytes.
const LONGEST_NOTE: usize = 1024;

/// Takes events.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Event>);

impl Events {
    /// The sender, and the queue from which [`publish`] writes.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }

    /// Tells what is new in `status`.
    pub(crate) fn tell(
        &self,
        app: &Object,
        former: &WorkerAppStatus,
        status: &WorkerAppStatus,
        warnings: &[Warning],
    ) {
        for note in notes(former, status, warnings) {
            if self.0.try_send(note.event(app)).is_err() {
                tracing::debug!("too many events at once: one is left out");
            }
        }
    }
}

/// Writes events as they come.
pub(crate) async fn publish(client: Client, mut queue: mpsc::Receiver<Event>, instance: Option<String>) {
    let mut told = Told::default();
    while let Some(mut event) = queue.recv().await {
        if let Some(instance) = &instance {
            event.reporting_instance = Some(instance.clone());
        }
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        if let Err(error) = write(&api, event, &mut told).await {
            tracing::debug!("an event could not be written: {error}");
        }
    }
}

async fn write(api: &Api<Event>, event: Event, told: &mut Told) -> kube::Result<()> {
    let text = Text::of(&event);
    if let Some((name, count)) = told.again(&text, Instant::now()) {
        let series = json!({ "series": { "count": count, "lastObservedTime": event.event_time } });
        match bounded(api.patch(&name, &PatchParams::default(), &Patch::Merge(series))).await {
            // It has expired: the API server keeps events for an hour.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            result => return result.map(drop),
        }
    }
    bounded(api.create(&PostParams::default(), &event)).await?;
    told.tell(text, event.metadata.name.unwrap_or_default(), Instant::now());
    Ok(())
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Text {
    uid: Option<String>,
    reason: Option<String>,
    note: Option<String>,
}

impl Text {
    fn of(event: &Event) -> Self {
        let uid = event.regarding.as_ref().and_then(|regarding| regarding.uid.clone());
        Self { uid, reason: event.reason.clone(), note: event.note.clone() }
    }
}

/// What was told of late.
#[derive(Debug, Default)]
struct Told(HashMap<Text, Telling>);

#[derive(Debug)]
struct Telling {
    event: String,
    count: i32,
    last: Instant,
}

impl Told {
    /// The event that told the same of late, and how often that happened by now.
    fn again(&mut self, text: &Text, now: Instant) -> Option<(String, i32)> {
        let telling = self.0.get_mut(text).filter(|telling| now.duration_since(telling.last) < OF_LATE)?;
        telling.last = now;
        telling.count = telling.count.saturating_add(1);
        Some((telling.event.clone(), telling.count))
    }

    fn tell(&mut self, text: Text, event: String, now: Instant) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, telling| now.duration_since(telling.last) < OF_LATE);
        }
        // Too much happens for any of it to be counted.
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(text, Telling { event, count: 1, last: now });
    }
}

/// An event without the object it is about.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    normal: bool,
    reason: String,
    text: String,
}

fn notes(former: &WorkerAppStatus, status: &WorkerAppStatus, warnings: &[Warning]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for type_ in [ConditionType::Reconciled, ConditionType::ScalingActive, ConditionType::Ready] {
        let Some(now) = status::find(status, type_) else { continue };
        let before = status::find(former, type_);
        if let Some(note) = changed(type_, before, now)
            && !notes.iter().any(|told| told.reason == note.reason)
        {
            notes.push(note);
        }
    }

    // That it rises, or ends, is told by the status alone.
    let step = Step::between(former.burst.as_ref(), status.burst.as_ref());
    if let (Some(Step::Began), Some(burst)) = (step, &status.burst) {
        let text = format!("{}: at least {} pods until {}", burst.reason, burst.replicas, burst.until);
        notes.push(Note { normal: true, reason: "Burst".into(), text });
    }

    let told = status::find(former, ConditionType::Reconciled).map_or("", |former| &former.message);
    for warning in warnings {
        let text = warning.to_string();
        if !told.contains(&text) {
            notes.push(Note { normal: false, reason: warning.reason().into(), text });
        }
    }
    notes
}

/// What to tell about a condition that was `before` and is `now`.
fn changed(type_: ConditionType, before: Option<&Condition>, now: &Condition) -> Option<Note> {
    let same = before.is_some_and(|before| before.reason == now.reason && before.status == now.status);
    let passing = [Reason::RollingOut, Reason::PodsUnavailable, Reason::ScalingPending];
    let tells = match now.status {
        ConditionStatus::True if type_ == ConditionType::Ready => true,
        // That all is well is news only after it was not.
        ConditionStatus::True => before.is_some_and(|before| before.status == ConditionStatus::False),
        ConditionStatus::False => !passing.iter().any(|reason| reason.as_str() == now.reason),
        ConditionStatus::Unknown => false,
    };
    (tells && !same).then(|| Note {
        normal: now.status == ConditionStatus::True,
        reason: now.reason.clone(),
        text: now.message.clone(),
    })
}

impl Note {
    fn event(mut self, app: &Object) -> Event {
        let now = Timestamp::now();
        if self.text.len() > LONGEST_NOTE {
            let end = (0..=LONGEST_NOTE - 3).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
            self.text.truncate(end);
            self.text.push('…');
        }
        Event {
            metadata: ObjectMeta {
                namespace: Some(app.key.namespace.to_string()),
                name: Some(format!("{}.{:x}.{:x}", app.key.name, now.as_nanosecond(), fastrand::u16(..))),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            action: Some("Reconcile".into()),
            reason: Some(self.reason),
            note: Some(self.text),
            type_: Some(if self.normal { "Normal" } else { "Warning" }.into()),
            reporting_controller: Some(names::FIELD_MANAGER.into()),
            reporting_instance: Some(names::FIELD_MANAGER.into()),
            regarding: Some(ObjectReference {
                api_version: Some(WorkerApp::api_version(&()).into()),
                kind: Some(Kind::WorkerApp.as_str().into()),
                namespace: Some(app.key.namespace.to_string()),
                name: Some(app.key.name.to_string()),
                uid: Some(app.uid.to_string()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use workerapp_api::{Condition, ConditionStatus, WorkerAppStatus};
    use workerapp_plan::Warning;

    use super::{OF_LATE, REMEMBERED, Text, Told, notes};

    #[test]
    fn what_comes_back_within_minutes_is_counted() {
        let text = |note: &str| Text { uid: Some("u".into()), reason: None, note: Some(note.into()) };
        let (mut told, start) = (Told::default(), Instant::now());
        assert_eq!(told.again(&text("a"), start), None);
        told.tell(text("a"), "event-1".into(), start);
        assert_eq!(told.again(&text("b"), start), None);
        let second = Duration::from_secs(1);
        assert_eq!(told.again(&text("a"), start + second), Some(("event-1".into(), 2)));
        assert_eq!(told.again(&text("a"), start + OF_LATE), Some(("event-1".into(), 3)));
        assert_eq!(told.again(&text("a"), start + OF_LATE * 3), None);
        for n in 0..REMEMBERED * 2 {
            told.tell(text(&n.to_string()), "event".into(), start);
        }
        assert!(told.0.len() <= REMEMBERED);
    }

    fn status(conditions: &[(&str, ConditionStatus, &str, &str)]) -> WorkerAppStatus {
        let conditions = conditions
            .iter()
            .map(|(type_, status, reason, message)| Condition {
                type_: (*type_).into(),
                status: *status,
                reason: (*reason).into(),
                message: (*message).into(),
                observed_generation: None,
                last_transition_time: String::new(),
            })
            .collect();
        WorkerAppStatus { conditions, ..WorkerAppStatus::default() }
    }

    #[test]
    fn what_is_news_is_told_once() {
        use ConditionStatus::{False, True};
        let fresh = WorkerAppStatus::default();
        let rolling =
            status(&[("Reconciled", True, "Applied", "fine"), ("Ready", False, "RollingOut", "1 of 2")]);
        let ready = status(&[("Reconciled", True, "Applied", "fine"), ("Ready", True, "Ready", "2 of 2")]);
        let clash =
            status(&[("Reconciled", False, "NameClash", "taken"), ("Ready", False, "NameClash", "taken")]);
        let unready =
            status(&[("Reconciled", True, "Applied", "fine"), ("Ready", False, "NotReady", "wrong port")]);
        let reasons =
            |former, now| notes(former, now, &[]).into_iter().map(|note| note.reason).collect::<Vec<_>>();
        assert_eq!(reasons(&fresh, &rolling), Vec::<String>::new());
        assert_eq!(reasons(&rolling, &ready), ["Ready"]);
        assert_eq!(reasons(&rolling, &unready), ["NotReady"]);
        assert_eq!(reasons(&unready, &unready), Vec::<String>::new());
        assert_eq!(reasons(&ready, &ready), Vec::<String>::new());
        assert_eq!(reasons(&ready, &clash), ["NameClash"]);
        assert_eq!(reasons(&clash, &rolling), ["Applied"]);
    }

    #[test]
    fn a_warning_that_stands_in_the_status_was_told() {
        let warning = [Warning::NoCpuRequest];
        let told =
            status(&[("Reconciled", ConditionStatus::True, "Applied", &format!("warning: {}", warning[0]))]);
        assert_eq!(notes(&WorkerAppStatus::default(), &told, &warning)[0].reason, "NoCpuRequest");
        assert_eq!(notes(&told, &told, &warning), []);
    }
}
