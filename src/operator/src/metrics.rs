//! The operator's own metrics, for Prometheus.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

/// The operator's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    duration: Histogram,
    errors: IntCounterVec,
    writes: IntCounterVec,
    watch_restarts: IntCounterVec,
    queued: IntGauge,
    backing_off: IntGauge,
    leader: IntGauge,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// Only if two of them had the same name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |opts: Opts| {
            let gauge = IntGauge::with_opts(opts)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let duration = Histogram::with_opts(
            HistogramOpts::new(
                "workerapp_operator_reconcile_duration_seconds",
                "Time that one look at an app took.",
            )
            .buckets(vec![0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0]),
        )?;
        registry.register(Box::new(duration.clone()))?;
        let info = gauge(
            Opts::new("workerapp_operator_build_info", "Always 1; the labels say which build runs.")
                .const_label("version", env!("CARGO_PKG_VERSION")),
        )?;
        info.set(1);
        Ok(Self {
            reconciles: counter(
                "workerapp_operator_reconciles_total",
                "Looks at apps, by outcome.",
                &["outcome"],
            )?,
            errors: counter(
                "workerapp_operator_errors_total",
                "Failures, by the condition's reason.",
                &["reason"],
            )?,
            writes: counter(
                "workerapp_operator_writes_total",
                "Requests that change something, by kind and verb.",
                &["kind", "verb"],
            )?,
            watch_restarts: counter(
                "workerapp_operator_watch_restarts_total",
                "Watches that broke off, by kind.",
                &["kind"],
            )?,
            queued: gauge(Opts::new("workerapp_operator_queue_length", "Apps that wait for their turn."))?,
            backing_off: gauge(Opts::new(
                "workerapp_operator_backing_off",
                "Apps that failed and wait for another try.",
            ))?,
            leader: gauge(Opts::new(
                "workerapp_operator_leader",
                "1 while this operator writes, 0 while another one does.",
            ))?,
            duration,
            registry,
        })
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

    /// Counts a failure.
    pub(crate) fn error(&self, reason: &str) {
        self.errors.with_label_values(&[reason]).inc();
    }

    /// Counts a request that changes something.
    pub(crate) fn write(&self, kind: &str, verb: &str) {
        self.writes.with_label_values(&[kind, verb]).inc();
    }

    /// Counts a watch that broke off.
    pub(crate) fn watch_restart(&self, kind: &str) {
        self.watch_restarts.with_label_values(&[kind]).inc();
    }

    /// All metrics as text.
    pub(crate) fn render(&self, queued: usize, backing_off: usize) -> Vec<u8> {
        self.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        self.backing_off.set(i64::try_from(backing_off).unwrap_or(i64::MAX));
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::warn!("the metrics could not be written: {error}");
        }
        text
    }
}
