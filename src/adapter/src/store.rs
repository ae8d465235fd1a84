//! What is known of the pods: samples with their times → answers. Pure: it holds no clock, times are given to it.
//!
//! A value is made of the samples of the last [`WINDOW`]. A pod whose newest sample is older than [`STALE`] has none: an
//! autoscaler that misses a pod's value doesn't scale down for it, while a zero that nobody measured would make it do so.

use std::{
    collections::{BTreeMap, VecDeque, vec_deque},
    net::SocketAddr,
    time::Duration,
};

use kube::core::{Selector, SelectorExt as _};

use crate::{
    metric::{Metric, Over},
    page::{Reading, Series},
};

/// A time, counted from a start of the caller's own.
pub type Moment = Duration;

/// Over which time values are made: levels are the mean of its samples, rates go from its first to its last one. Three
/// scrapes: enough to even out a single odd one, and shorter than an autoscaler's own period.
pub const WINDOW: Duration = Duration::from_secs(15);
/// A window that holds the newest sample alone.
const NEWEST: Duration = Duration::from_nanos(1);
/// From which age on the newest sample of a pod counts no more.
pub const STALE: Duration = Duration::from_secs(20);

/// A pod's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What the answers need to know of a pod beside its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Tells a pod from a later one with the same name.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The WorkerApp that it belongs to.
    pub app: Option<String>,
    /// It is Ready: what it feels is part of what the app feels.
    pub ready: bool,
    /// It is about to go.
    pub terminating: bool,
    /// Where its supervisor answers, once it runs.
    pub admin: Option<SocketAddr>,
}

/// A pod that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which pod.
    pub key: Key,
    /// Which one of that name.
    pub uid: String,
    /// Where its supervisor answers.
    pub admin: SocketAddr,
}

/// A value as it is answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The number.
    pub value: f64,
    /// How old its newest sample is.
    pub age: Duration,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// No such pod, or not one of a WorkerApp.
    #[error("there is no pod {0} of a WorkerApp")]
    NoPod(String),
    /// No pod belongs to such an app.
    #[error("no pod of a WorkerApp {0} is running")]
    NoApp(String),
    /// The pod doesn't tell.
    #[error(
        "pod {0} has not told this in the last 20 s: has it only just started, does its runtime tell it, and may the metrics API reach its port `admin`?"
    )]
    Silent(String),
}

/// The pods and what they said.
#[derive(Debug, Default)]
pub struct Store {
    pods: BTreeMap<Key, Pod>,
}

#[derive(Debug, Default)]
struct Pod {
    facts: Facts,
    /// The newest last.
    samples: VecDeque<Sample>,
}

#[derive(Debug)]
struct Sample {
    at: Moment,
    reading: Reading,
}

impl Store {
    /// Notes a pod, or what has changed about it. One with another uid begins anew.
    pub fn track(&mut self, key: Key, facts: Facts) {
        let pod = self.pods.entry(key).or_default();
        if pod.facts.uid != facts.uid {
            pod.samples.clear();
        }
        pod.facts = facts;
    }

    /// Forgets a pod, unless another one has its name by now.
    pub fn forget(&mut self, key: &Key, uid: &str) {
        if self.pods.get(key).is_some_and(|pod| pod.facts.uid == uid) {
            self.pods.remove(key);
        }
    }

    /// Takes in what a pod said; of one that is gone meanwhile nothing is kept.
    pub fn record(&mut self, key: &Key, uid: &str, at: Moment, reading: Reading) {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.facts.uid == uid) else { return };
        pod.samples.push_back(Sample { at, reading });
        // The one before the window is kept: a rate needs a sample to start from even when scrapes come late.
        while pod.samples.get(1).is_some_and(|second| second.at + WINDOW <= at) {
            pod.samples.pop_front();
        }
    }

    /// The pods that can be asked.
    pub fn targets(&self) -> Vec<Target> {
        let target = |(key, pod): (&Key, &Pod)| {
            let Facts { uid, admin, .. } = &pod.facts;
            Some(Target { key: key.clone(), uid: uid.clone(), admin: (*admin)? })
        };
        self.pods.iter().filter_map(target).collect()
    }

    /// How many pods are known.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no pod is known.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// How many pods have told something lately.
    pub fn heard(&self, now: Moment) -> usize {
        self.pods.values().filter(|pod| pod.window(now, WINDOW).is_some()).count()
    }

    /// One pod's value.
    ///
    /// # Errors
    /// Why there is none.
    pub fn pod(&self, metric: &Metric, key: &Key, now: Moment) -> Result<Value, Absent> {
        let pod = self.pods.get(key).ok_or_else(|| Absent::NoPod(key.name.clone()))?;
        pod.value(metric, now, WINDOW).ok_or_else(|| Absent::Silent(key.name.clone()))
    }

    /// The values of all pods of a namespace that match, by pod. Those that have none are left out.
    pub fn pods(
        &self,
        metric: &Metric,
        namespace: &str,
        selector: &Selector,
        now: Moment,
    ) -> Vec<(&str, Value)> {
        self.values(metric, namespace, selector, now, WINDOW)
    }

    /// The same by each pod's newest sample alone (of a count: since the one before), for whoever can't wait for a mean to follow.
    pub fn newest(
        &self,
        metric: &Metric,
        namespace: &str,
        selector: &Selector,
        now: Moment,
    ) -> Vec<(&str, Value)> {
        self.values(metric, namespace, selector, now, NEWEST)
    }

    fn values(
        &self,
        metric: &Metric,
        namespace: &str,
        selector: &Selector,
        now: Moment,
        window: Duration,
    ) -> Vec<(&str, Value)> {
        let value = |pod: &Pod| pod.value(metric, now, window);
        self.matching(namespace, selector).filter_map(|(name, pod)| Some((name, value(pod)?))).collect()
    }

    fn matching(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = (&str, &Pod)> {
        let matching = self.of_namespace(namespace).filter(|(_, pod)| selector.matches(&pod.facts.labels));
        matching.map(|(key, pod)| (key.name.as_str(), pod))
    }

    /// An app's value, over its pods. There is none while a pod that is Ready has none: a sum without it would be too small, and an
    /// autoscaler would scale down on it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn app(&self, metric: &Metric, namespace: &str, app: &str, now: Moment) -> Result<Value, Absent> {
        let mut values = Vec::new();
        for (key, pod) in self.of_namespace(namespace) {
            if pod.facts.app.as_deref() != Some(app) || pod.facts.terminating {
                continue;
            }
            match pod.value(metric, now, WINDOW) {
                Some(value) => values.push(value),
                None if pod.facts.ready => return Err(Absent::Silent(key.name.clone())),
                None => {}
            }
        }
        over(metric.of_app, &values).ok_or_else(|| Absent::NoApp(app.to_owned()))
    }

    /// The values of all apps of a namespace that have one.
    pub fn apps(&self, metric: &Metric, namespace: &str, now: Moment) -> Vec<(&str, Value)> {
        let mut apps: Vec<&str> =
            self.of_namespace(namespace).filter_map(|(_, pod)| pod.facts.app.as_deref()).collect();
        apps.sort_unstable();
        apps.dedup();
        apps.into_iter().filter_map(|app| Some((app, self.app(metric, namespace, app, now).ok()?))).collect()
    }

    fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Key, &Pod)> {
        let first = Key { namespace: namespace.to_owned(), name: String::new() };
        self.pods.range(first..).take_while(move |(key, _)| key.namespace == namespace)
    }
}

#[allow(clippy::cast_precision_loss, reason = "nobody has 2^53 pods")]
fn over(over: Over, values: &[Value]) -> Option<Value> {
    let age = values.iter().map(|value| value.age).max()?;
    let sum: f64 = values.iter().map(|value| value.value).sum();
    let value = match over {
        Over::Sum => sum,
        Over::Mean => sum / values.len() as f64,
    };
    Some(Value { value, age })
}

impl Pod {
    /// The samples of the last `span` and the one before it; none if the newest is stale.
    fn window(&self, now: Moment, span: Duration) -> Option<Window<'_>> {
        let newest = self.samples.back().filter(|newest| now.saturating_sub(newest.at) < STALE)?;
        let first = self.samples.iter().rposition(|sample| sample.at + span <= newest.at).unwrap_or(0);
        Some(Window { samples: self.samples.range(first..), newest, span })
    }

    fn value(&self, metric: &Metric, now: Moment, span: Duration) -> Option<Value> {
        let window = self.window(now, span)?;
        Some(Value { value: (metric.of_pod)(&window)?, age: now.saturating_sub(window.newest.at) })
    }
}

/// The samples of one pod that count, of which there is at least one.
pub struct Window<'a> {
    samples: vec_deque::Iter<'a, Sample>,
    newest: &'a Sample,
    span: Duration,
}

impl Window<'_> {
    /// The mean over time of a number that is summed over the workers. Workers that don't tell it add nothing; if none of them
    /// does, it isn't known.
    pub fn level(&self, series: Series) -> Option<f64> {
        self.mean_over_time(|sample| {
            let values: Vec<f64> = sample.values(series).collect();
            (!values.is_empty()).then(|| values.iter().sum())
        })
    }

    /// The mean over time of a share, over the workers that tell it.
    #[allow(clippy::cast_precision_loss, reason = "nobody has 2^53 workers")]
    pub fn share(&self, series: Series) -> Option<f64> {
        self.mean_over_time(|sample| {
            let values: Vec<f64> = sample.values(series).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        })
    }

    /// How fast a count grows, per second, over all workers; it takes two samples.
    pub fn rate(&self, series: Series) -> Option<f64> {
        let rates: Vec<f64> =
            self.newest.reading.workers.keys().filter_map(|worker| self.rate_of(*worker, series)).collect();
        (!rates.is_empty()).then(|| rates.iter().sum())
    }

    /// How many workers were busy.
    pub fn busy(&self) -> Option<f64> {
        let busy = |worker: &u32| {
            self.share_of(*worker, Series::Utilization).or_else(|| self.rate_of(*worker, Series::Cpu))
        };
        let busy: Vec<f64> =
            self.newest.reading.workers.keys().filter_map(busy).map(|busy| busy.min(1.0)).collect();
        (!busy.is_empty()).then(|| busy.iter().sum())
    }

    fn share_of(&self, worker: u32, series: Series) -> Option<f64> {
        self.mean_over_time(|sample| sample.reading.workers.get(&worker)?.get(series))
    }

    /// Each step is added up by itself: a count that is smaller than before is of a worker that was started anew, and all of it is
    /// new.
    fn rate_of(&self, worker: u32, series: Series) -> Option<f64> {
        let counts = || {
            let of = |sample: &Sample| Some((sample.at, sample.reading.workers.get(&worker)?.get(series)?));
            self.samples.clone().filter_map(of)
        };
        let (first, _) = counts().next()?;
        let (last, _) = counts().next_back()?;
        let grown: f64 = counts()
            .zip(counts().skip(1))
            .map(|((_, before), (_, now))| if now < before { now } else { now - before })
            .sum();
        (last > first).then(|| grown / last.saturating_sub(first).as_secs_f64())
    }

    #[allow(clippy::cast_precision_loss, reason = "a window holds few samples")]
    fn mean_over_time(&self, value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        // The sample before the window is there for rates alone.
        let recent = self.samples.clone().filter(|sample| sample.at + self.span > self.newest.at);
        let values: Vec<f64> = recent.filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

impl Sample {
    fn values(&self, series: Series) -> impl Iterator<Item = f64> {
        self.reading.workers.values().filter_map(move |worker| worker.get(series))
    }
}

#[cfg(test)]
mod tests;
