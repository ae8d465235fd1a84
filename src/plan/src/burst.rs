//! Bursts: when an app needs more pods at once, and how many.
//!
//! An autoscaler looks every 15 s, at means over as long. A burst goes by the same metrics of this moment, counted in the same way, and
//! raises the autoscaler's minimum for a while.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use workerapp_api::{AutoscalingSpec, BurstSpec, BurstStatus, Quantity, WorkerApp};

use crate::{
    Pause, Warning,
    autoscaler::{self, Basis},
};

/// From where on a burst begins unless the spec says otherwise, in percent of the target.
const DEFAULT_THRESHOLD: i32 = 150;
/// For how long its floor holds unless the spec says otherwise, in seconds: four looks of an autoscaler, which by then sees the load itself.
const DEFAULT_HOLD: i32 = 60;

/// By what the bursts of an app are seen, and how far they go.
#[derive(Clone, Debug, PartialEq)]
pub struct Bursts {
    /// What the pods are asked for: of the metrics that the spec names those that somebody serves.
    pub signals: Vec<Signal>,
    /// From where on a burst begins, in percent of a target.
    pub threshold_percent: i32,
    /// For how long its floor holds, in seconds.
    pub hold_seconds: i32,
    /// Never more pods.
    most: i32,
}

/// A metric of the workers, and its target for each pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The metric's name.
    pub metric: &'static str,
    target: Quantity,
}

/// What the pods say of a signal: the sum over those that say something, in thousandths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The metric's name.
    pub metric: &'static str,
    /// The sum.
    pub sum_milli: i128,
}

impl Bursts {
    /// The burst that `heard` calls for at the time `now`; `None`: the autoscaler has time.
    ///
    /// `pods`: how many are wanted now; one that runs already rises in the same way as it began.
    pub fn judge(&self, pods: i32, heard: &[Heard], now: Timestamp) -> Option<BurstStatus> {
        let there = i128::from(Some(pods).filter(|pods| *pods > 0)?);
        let threshold = i128::from(self.threshold_percent);
        let calls = heard.iter().filter_map(|Heard { metric, sum_milli }| {
            let signal = self.signals.iter().find(|signal| signal.metric == *metric)?;
            let target = Some(signal.target.milli_ceil()).filter(|target| *target > 0)?;
            let above =
                sum_milli.saturating_mul(100) > target.saturating_mul(threshold).saturating_mul(there);
            // As an autoscaler rounds: up.
            above.then(|| (sum_milli.saturating_add(target - 1) / target, signal, sum_milli / there))
        });
        let (wanted, signal, each) = calls.max_by_key(|(wanted, ..)| *wanted)?;
        let replicas = i32::try_from(wanted).unwrap_or(i32::MAX).min(self.most);
        (replicas > pods).then(|| BurstStatus {
            replicas,
            until: text(now + seconds(self.hold_seconds)),
            reason: signal.words(each),
        })
    }
}

impl Signal {
    /// `requests in flight 31 per pod, target 10`.
    fn words(&self, each_milli: i128) -> String {
        // Hundredths are as fine as anybody reads.
        let each = Quantity::from_milli(each_milli / 10 * 10).plain();
        let name = self.metric.strip_prefix("workerapp_").unwrap_or(self.metric).replace('_', " ");
        format!("{name} {each} per pod, target {}", self.target.plain())
    }
}

/// What there is of `burst` at the time `now`, and its end; `None`: it is over, or the spec has it end.
pub fn running(app: &WorkerApp, mut burst: BurstStatus, now: Timestamp) -> Option<(Timestamp, BurstStatus)> {
    let autoscaling = app.spec.autoscaling.as_ref()?;
    let hold = seconds(hold_seconds(autoscaling.burst.as_ref()?));
    let mut end: Timestamp = burst.until.parse().ok()?;
    burst.replicas = burst.replicas.min(autoscaling.max_replicas);
    let over = end <= now || burst.replicas <= autoscaling.min_replicas.unwrap_or(1);
    if over || Pause::of(app).is_some() {
        return None;
    }
    // Set by a clock that goes ahead of this one, or before the spec was changed. A second, since ends are whole ones.
    if end.duration_since(now) > hold + SignedDuration::from_secs(1) {
        end = now + hold;
        burst.until = text(end);
    }
    Some((end, burst))
}

fn seconds(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(seconds.into())
}

/// In whole seconds, none of them cut short.
fn text(time: Timestamp) -> String {
    let whole = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
    Timestamp::from_second(whole).unwrap_or(time).to_string()
}

fn hold_seconds(spec: &BurstSpec) -> i32 {
    spec.hold_seconds.unwrap_or(DEFAULT_HOLD)
}

/// What follows from the spec; `None`: there are no bursts.
pub(crate) fn of(basis: &Basis<'_>) -> Option<Bursts> {
    let (autoscaling, burst) = asked(basis)?;
    let served = autoscaler::worker_metrics(basis, autoscaling)
        .filter(|(metric, _)| basis.facts.served.has(metric.name));
    let signals: Vec<_> = served.map(|(metric, target)| Signal { metric: metric.name, target }).collect();
    (!signals.is_empty()).then(|| Bursts {
        signals,
        threshold_percent: threshold(burst),
        hold_seconds: hold_seconds(burst),
        most: autoscaling.max_replicas,
    })
}

fn asked<'a>(basis: &Basis<'a>) -> Option<(&'a AutoscalingSpec, &'a BurstSpec)> {
    let autoscaling = basis.app.spec.autoscaling.as_ref()?;
    Some((autoscaling, autoscaling.burst.as_ref()?))
}

fn threshold(burst: &BurstSpec) -> i32 {
    burst.threshold_percent.unwrap_or(DEFAULT_THRESHOLD)
}

/// Bursts that can't be seen.
pub(crate) fn warning(basis: &Basis<'_>) -> Option<Warning> {
    let (autoscaling, burst) = asked(basis)?;
    if of(basis).is_none() {
        return Some(Warning::BurstsUnseen);
    }
    // The one that is reached first. What isn't a share has no end.
    let mut lowest: Option<(i32, &'static str)> = None;
    for (metric, _) in autoscaler::worker_metrics(basis, autoscaling) {
        let percent = (metric.percent)(autoscaling)?;
        lowest = lowest.into_iter().chain([(percent, metric.field)]).min();
    }
    let (target, field) = lowest?;
    let threshold = threshold(burst);
    let begin = target.saturating_mul(threshold) / 100;
    let most = 9999_i32.checked_div(target)?;
    (threshold > most).then_some(Warning::BurstsUnreachable { threshold, field, target, begin, most })
}
