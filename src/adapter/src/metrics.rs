//! The metrics API's own metrics, for Prometheus.

use prometheus::{Encoder as _, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

/// The metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    scrapes: IntCounterVec,
    answers: IntCounterVec,
    reviews: IntCounterVec,
    pods: IntGauge,
    heard: IntGauge,
    registered: IntGauge,
}

fn outcome(ok: bool) -> &'static str {
    if ok { "ok" } else { "failed" }
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// Only if two of them had the same name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            scrapes: counter(
                "workerapp_metrics_api_scrapes_total",
                "Pods that were asked, by outcome.",
                "outcome",
            )?,
            answers: counter("workerapp_metrics_api_answers_total", "Answers, by HTTP status.", "code")?,
            reviews: counter(
                "workerapp_metrics_api_reviews_total",
                "Times that the API server was asked whether somebody may see a metric, by outcome.",
                "outcome",
            )?,
            pods: gauge("workerapp_metrics_api_pods", "Pods of WorkerApps.")?,
            heard: gauge("workerapp_metrics_api_pods_heard", "Pods that have told something lately.")?,
            registered: gauge(
                "workerapp_metrics_api_registered",
                "1 while the APIServices lead here; 0: they are someone else's, or can't be written.",
            )?,
            registry,
        })
    }

    pub(crate) fn scrape(&self, ok: bool) {
        self.scrapes.with_label_values(&[outcome(ok)]).inc();
    }

    pub(crate) fn answer(&self, code: u16) {
        self.answers.with_label_values(&[code.to_string().as_str()]).inc();
    }

    pub(crate) fn review(&self, ok: bool) {
        self.reviews.with_label_values(&[outcome(ok)]).inc();
    }

    pub(crate) fn registered(&self, registered: bool) {
        self.registered.set(registered.into());
    }

    /// All metrics as text.
    pub(crate) fn render(&self, pods: usize, heard: usize) -> Vec<u8> {
        self.pods.set(i64::try_from(pods).unwrap_or(i64::MAX));
        self.heard.set(i64::try_from(heard).unwrap_or(i64::MAX));
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::warn!("the metrics could not be written: {error}");
        }
        text
    }
}
