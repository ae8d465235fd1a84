//! The operator's own metrics, for Prometheus. `docs/metrics.md` explains each of them; a test keeps it complete.

mod process;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::Duration,
};

use kube::Resource as _;
use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};
use workerapp_api::{Condition, ConditionStatus, WorkerApp, condition::Reason};

use self::process::Process;
use crate::{burst::Step, cache::Key, kind::Kind, queue::Lane, sync::lock};

/// Bounds of both histograms, in seconds: a look without a write takes less than a millisecond, a request is given up
/// after 30 s.
const BUCKETS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// What a look can lead to.
const OUTCOMES: [&str; 5] = ["settled", "failed", "gone", "early", "panicked"];

/// The operator's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    leader: IntGauge,
    reconciles: IntCounterVec,
    duration: Histogram,
    waits: HistogramVec,
    errors: IntCounterVec,
    writes: IntCounterVec,
    watch_restarts: IntCounterVec,
    bursts: IntCounterVec,
    sampled: Sampled,
    apps: Apps,
    process: Process,
}

/// Gauges that are filled in when they are asked for.
#[derive(Debug)]
struct Sampled {
    queued: IntGauge,
    running: IntGauge,
    backing_off: IntGauge,
    cached: IntGaugeVec,
    apps: IntGaugeVec,
}

/// What the gauges are filled with.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Apps that wait for their turn.
    pub(crate) queued: usize,
    /// Apps that are being worked on.
    pub(crate) running: usize,
    /// Apps that failed and wait for another try.
    pub(crate) backing_off: usize,
    /// Objects in each cache.
    pub(crate) cached: [(Kind, usize); Kind::ALL.len()],
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// Only if two of them had the same name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let make = Maker(Registry::new());
        let info = make.gauges(
            "workerapp_info",
            "Always 1; the labels say which operator runs.",
            &["version", "api_version"],
        )?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION"), &*WorkerApp::api_version(&())]).set(1);

        let metrics = Self {
            leader: make.gauge(
                "workerapp_operator_leader",
                "1 while this operator writes, 0 while another one does.",
            )?,
            reconciles: make.counters(
                "workerapp_operator_reconciles_total",
                "Looks at apps, by outcome.",
                &["outcome"],
            )?,
            duration: make.histogram(
                "workerapp_operator_reconcile_duration_seconds",
                "Time that one look at an app took.",
            )?,
            waits: make.histograms(
                "workerapp_operator_queue_wait_seconds",
                "Time that an app waited for its turn, by lane.",
                &["lane"],
            )?,
            errors: make.counters(
                "workerapp_operator_errors_total",
                "Failures, by the condition's reason.",
                &["reason"],
            )?,
            writes: make.counters(
                "workerapp_operator_writes_total",
                "Requests that change something, by kind, verb and result.",
                &["kind", "verb", "result"],
            )?,
            watch_restarts: make.counters(
                "workerapp_operator_watch_restarts_total",
                "Watches that broke off, by kind.",
                &["kind"],
            )?,
            bursts: make.counters("workerapp_operator_bursts_total", "Steps of bursts.", &["step"])?,
            sampled: Sampled {
                queued: make.gauge("workerapp_operator_queue_length", "Apps that wait for their turn.")?,
                running: make.gauge("workerapp_operator_running", "Apps that are being worked on.")?,
                backing_off: make
                    .gauge("workerapp_operator_backing_off", "Apps that failed and wait for another try.")?,
                cached: make.gauges(
                    "workerapp_operator_cached_objects",
                    "Objects that are kept in memory, by kind.",
                    &["kind"],
                )?,
                apps: make.gauges(
                    "workerapp_operator_apps",
                    "Apps, by status and reason of their condition Ready.",
                    &["ready", "reason"],
                )?,
            },
            apps: Apps::default(),
            process: Process::new(&make)?,
            registry: make.0,
        };
        metrics.begin();
        Ok(metrics)
    }

    /// Series start at 0: a rate over one that appears with its first event misses that event.
    fn begin(&self) {
        for outcome in OUTCOMES {
            self.reconciles.with_label_values(&[outcome]);
        }
        for lane in Lane::ALL {
            self.waits.with_label_values(&[lane.as_str()]);
        }
        for kind in Kind::ALL {
            self.watch_restarts.with_label_values(&[kind.as_str()]);
        }
        for step in Step::ALL {
            self.bursts.with_label_values(&[step.as_str()]);
        }
    }

    /// Says whether this operator writes.
    pub(crate) fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Counts a look at an app.
    pub(crate) fn reconcile(&self, outcome: &str, took: Duration) {
        self.reconciles.with_label_values(&[outcome]).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Notes how long an app waited for its turn.
    pub(crate) fn waited(&self, lane: Lane, wait: Duration) {
        self.waits.with_label_values(&[lane.as_str()]).observe(wait.as_secs_f64());
    }

    /// Counts a failure.
    pub(crate) fn error(&self, reason: Reason) {
        self.errors.with_label_values(&[reason.as_str()]).inc();
    }

    /// Counts a request that changes something.
    pub(crate) fn write(&self, kind: &str, verb: &str, result: &str) {
        self.writes.with_label_values(&[kind, verb, result]).inc();
    }

    /// Counts a watch that broke off.
    pub(crate) fn watch_restart(&self, kind: Kind) {
        self.watch_restarts.with_label_values(&[kind.as_str()]).inc();
    }

    /// Counts what became of a burst.
    pub(crate) fn burst(&self, step: Step) {
        self.bursts.with_label_values(&[step.as_str()]).inc();
    }

    /// Notes the condition Ready of an app.
    pub(crate) fn app(&self, key: &Key, ready: Option<&Condition>) {
        self.apps.set(key, ready);
    }

    /// Forgets an app that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        lock(&self.apps.0).remove(key);
    }

    /// All metrics as text.
    pub(crate) fn render(&self, sample: &Sample) -> Vec<u8> {
        self.sampled.fill(sample, &self.apps);
        self.process.fill();
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::warn!("the metrics could not be written: {error}");
        }
        text
    }
}

impl Sampled {
    fn fill(&self, sample: &Sample, apps: &Apps) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.queued.set(number(sample.queued));
        self.running.set(number(sample.running));
        self.backing_off.set(number(sample.backing_off));
        for (kind, count) in sample.cached {
            self.cached.with_label_values(&[kind.as_str()]).set(number(count));
        }
        // A reason that no app has any more goes.
        self.apps.reset();
        for ((ready, reason), count) in apps.count() {
            self.apps.with_label_values(&[ready, reason]).set(number(count));
        }
    }
}

/// Status and reason of each app's condition Ready.
#[derive(Debug, Default)]
struct Apps(Mutex<HashMap<Key, State>>);

/// Status and reason, in the words that they have everywhere.
type State = (&'static str, &'static str);

impl Apps {
    fn set(&self, key: &Key, ready: Option<&Condition>) {
        let Some(ready) = ready else { return };
        let status = match ready.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        // All reasons are ours; a word that isn't would be a series for each.
        let reason = Reason::ALL.iter().map(|reason| reason.as_str()).find(|reason| *reason == ready.reason);
        lock(&self.0).insert(key.clone(), (status, reason.unwrap_or("other")));
    }

    fn count(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::from([(("True", Reason::Ready.as_str()), 0)]);
        for state in lock(&self.0).values() {
            *counts.entry(*state).or_default() += 1;
        }
        counts
    }
}

/// Makes metrics and registers them.
struct Maker(Registry);

impl Maker {
    fn add<M: prometheus::core::Collector + Clone + 'static>(
        &self,
        metric: M,
    ) -> Result<M, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.add(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(BUCKETS.into()))?)
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str]) -> Result<HistogramVec, prometheus::Error> {
        self.add(HistogramVec::new(HistogramOpts::new(name, help).buckets(BUCKETS.into()), labels)?)
    }
}

#[cfg(test)]
mod tests;
