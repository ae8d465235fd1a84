//! The HorizontalPodAutoscaler: its metrics, and what is worth telling about them.

use std::collections::BTreeSet;

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricSource, CrossVersionObjectReference, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec, MetricTarget, PodsMetricSource,
};
use kube::ResourceExt as _;
use workerapp_api::{AutoscalingSpec, CpuTarget, KedaSpec, Quantity, WorkerApp, names};

use crate::{
    Effective, Facts, ScaledObject, Warning, digest, keda, metadata,
    runtime::Profile,
    workers::{Workers, plural},
};

/// The CPU target unless the spec says otherwise: Kubernetes' own default.
const DEFAULT_CPU_UTILIZATION: i32 = 80;

/// Which of the workers' metrics an autoscaler would get an answer for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Served {
    /// Nobody has looked, as when a plan is made without a cluster: all are taken to be there.
    #[default]
    Unknown,
    /// These, by their names.
    Only(BTreeSet<String>),
}

impl Served {
    pub(crate) fn has(&self, metric: &str) -> bool {
        match self {
            Self::Unknown => true,
            Self::Only(metrics) => metrics.contains(metric),
        }
    }
}

/// What the autoscaler's metrics follow from.
pub(crate) struct Basis<'a> {
    pub(crate) app: &'a WorkerApp,
    pub(crate) profile: &'a Profile,
    pub(crate) effective: &'a Effective,
    pub(crate) workers: &'a Workers,
    pub(crate) facts: &'a Facts,
}

impl Basis<'_> {
    /// The HorizontalPodAutoscaler: wherever KEDA doesn't scale the app, be it that it can't.
    pub(crate) fn autoscaler(&self) -> Option<HorizontalPodAutoscaler> {
        let autoscaling = self.app.spec.autoscaling.as_ref()?;
        self.keda().is_none().then(|| build(self, autoscaling))
    }

    /// The ScaledObject.
    pub(crate) fn scaled_object(&self) -> Option<ScaledObject> {
        let autoscaling = self.app.spec.autoscaling.as_ref()?;
        Some(keda::build(self, autoscaling, self.keda()?))
    }

    /// What is scaled.
    pub(crate) fn scale_target(&self) -> CrossVersionObjectReference {
        CrossVersionObjectReference {
            api_version: Some("apps/v1".into()),
            kind: "Deployment".into(),
            name: self.app.name_any(),
        }
    }

    /// The fewest pods: the spec's, and while a burst runs its floor.
    pub(crate) fn least_pods(&self, autoscaling: &AutoscalingSpec) -> i32 {
        let least = autoscaling.min_replicas.unwrap_or(1);
        self.facts.floor.map_or(least, |floor| floor.min(autoscaling.max_replicas).max(least))
    }

    /// What the spec asks of KEDA, where the cluster has it.
    fn keda(&self) -> Option<&KedaSpec> {
        self.app.spec.autoscaling.as_ref()?.keda.as_ref().filter(|_| self.facts.keda())
    }

    /// Whether somebody tells the app's autoscaler this metric. For KEDA it is Prometheus, which is not known here.
    fn tells(&self, metric: &WorkerMetric) -> bool {
        self.keda().is_some() || self.facts.served.has(metric.name)
    }
}

/// A metric of the workers: the field that asks for it, its name, its target (once more in percent of a share), and how Prometheus adds it up over an app's pods.
pub(crate) struct WorkerMetric {
    pub(crate) field: &'static str,
    pub(crate) name: &'static str,
    target: fn(&AutoscalingSpec, &Workers) -> Option<Quantity>,
    /// The target of one that is a share, and never above 100.
    pub(crate) percent: fn(&AutoscalingSpec) -> Option<i32>,
    pub(crate) query: fn(&str) -> String,
}

/// All of them. A new one is a new row, and a field of the spec.
const WORKER_METRICS: [WorkerMetric; 5] = [
    WorkerMetric {
        field: "inFlight",
        name: names::METRIC_IN_FLIGHT,
        target: |spec, _| Some(spec.in_flight.as_ref()?.average_value.rounded_to_milli()),
        percent: |_| None,
        query: |pods| {
            format!(
                "sum(avg_over_time(workerapp_worker_requests_in_flight{{{pods}}}[1m])) + sum(avg_over_time(workerapp_worker_queue_length{{{pods}}}[1m]))"
            )
        },
    },
    WorkerMetric {
        field: "requestsPerSecond",
        name: names::METRIC_REQUESTS,
        target: |spec, _| Some(spec.requests_per_second.as_ref()?.average_value.rounded_to_milli()),
        percent: |_| None,
        query: |pods| format!("sum(rate(workerapp_worker_requests_total{{{pods}}}[1m]))"),
    },
    WorkerMetric {
        field: "queueLength",
        name: names::METRIC_QUEUE,
        target: |spec, _| Some(spec.queue_length.as_ref()?.average_value.rounded_to_milli()),
        percent: |_| None,
        query: |pods| format!("sum(avg_over_time(workerapp_worker_queue_length{{{pods}}}[1m]))"),
    },
    WorkerMetric {
        field: "eventLoopUtilization",
        name: names::METRIC_UTILIZATION,
        target: |spec, _| Some(hundredths(spec.event_loop_utilization.as_ref()?.target_percent, 1)),
        percent: |spec| Some(spec.event_loop_utilization.as_ref()?.target_percent),
        query: |pods| {
            format!(
                "sum(avg by (pod) (avg_over_time(workerapp_worker_event_loop_utilization{{{pods}}}[1m])))"
            )
        },
    },
    WorkerMetric {
        field: "busyWorkers",
        name: names::METRIC_BUSY,
        target: |spec, workers| Some(hundredths(spec.busy_workers.as_ref()?.target_percent, workers.count)),
        percent: |spec| Some(spec.busy_workers.as_ref()?.target_percent),
        query: |pods| format!("sum(clamp_max(rate(workerapp_worker_cpu_seconds_total{{{pods}}}[1m]), 1))"),
    },
];

/// So many percent of `whole`.
fn hundredths(percent: i32, whole: i128) -> Quantity {
    Quantity::from_milli(whole.saturating_mul(percent.into()).saturating_mul(10))
}

fn build(basis: &Basis<'_>, autoscaling: &AutoscalingSpec) -> HorizontalPodAutoscaler {
    digest::stamp(HorizontalPodAutoscaler {
        metadata: metadata::child(basis.app, |children| children.autoscaler.as_ref()),
        spec: HorizontalPodAutoscalerSpec {
            scale_target_ref: basis.scale_target(),
            min_replicas: Some(basis.least_pods(autoscaling)),
            max_replicas: autoscaling.max_replicas,
            metrics: Some(metrics(basis, autoscaling)),
            behavior: autoscaling.behavior.clone(),
        },
        status: None,
    })
}

/// A metric that nobody serves is left out: with it the autoscaler would never remove a pod again.
fn metrics(basis: &Basis<'_>, autoscaling: &AutoscalingSpec) -> Vec<MetricSpec> {
    let mut metrics = resource_metrics(basis, autoscaling);
    metrics.extend(
        worker_metrics(basis, autoscaling)
            .filter(|(metric, _)| basis.tells(metric))
            .map(|(metric, target)| pods(metric.name, &target)),
    );
    metrics
}

/// CPU and memory.
pub(crate) fn resource_metrics(basis: &Basis<'_>, autoscaling: &AutoscalingSpec) -> Vec<MetricSpec> {
    let mut metrics = Vec::new();
    if scales_on_cpu(basis, autoscaling) {
        metrics.push(resource("cpu", utilization_target(cpu_target(basis, autoscaling))));
    }
    if let Some(memory) = &autoscaling.memory {
        let target = match (&memory.average_value, memory.average_utilization) {
            (Some(value), _) => value_target(value),
            (None, percent) => utilization_target(percent.unwrap_or(DEFAULT_CPU_UTILIZATION)),
        };
        metrics.push(resource("memory", target));
    }
    metrics
}

/// Those that the spec asks for, with their targets.
pub(crate) fn worker_metrics<'a>(
    basis: &'a Basis<'_>,
    autoscaling: &'a AutoscalingSpec,
) -> impl Iterator<Item = (&'static WorkerMetric, Quantity)> + 'a {
    WORKER_METRICS.iter().filter_map(|metric| Some((metric, (metric.target)(autoscaling, basis.workers)?)))
}

/// Asked for, or the only one there is.
fn scales_on_cpu(basis: &Basis<'_>, autoscaling: &AutoscalingSpec) -> bool {
    let others = autoscaling.memory.is_some()
        || worker_metrics(basis, autoscaling).any(|(metric, _)| basis.tells(metric))
        || basis.keda().is_some_and(|keda| !keda.triggers.is_empty());
    autoscaling.cpu.is_some() || !others
}

/// The CPU target in percent of the request, as an autoscaler counts it.
fn cpu_target(basis: &Basis<'_>, autoscaling: &AutoscalingSpec) -> i32 {
    match &autoscaling.cpu {
        Some(CpuTarget { average_utilization: Some(percent), .. }) => *percent,
        Some(CpuTarget { target_percent: Some(percent), .. }) => of_request(basis, *percent),
        _ => DEFAULT_CPU_UTILIZATION,
    }
}

/// `percent` of what the workers can use, in percent of the request.
fn of_request(basis: &Basis<'_>, percent: i32) -> i32 {
    let of_request = || {
        let (usable, _) = usable(basis)?;
        let request = &basis.effective.cpu_request.as_ref()?.quantity;
        let request = Some(request.milli_ceil()).filter(|milli| *milli > 0)?;
        // Rounded to the nearest.
        let percent = usable.checked_mul(percent.into())?.checked_add(request / 2)? / request;
        i32::try_from(percent.max(1)).ok()
    };
    of_request().unwrap_or(percent)
}

/// The CPU that a pod can use at most, in thousandths, and what holds it back.
fn usable(basis: &Basis<'_>) -> Option<(i128, String)> {
    let limit = basis.effective.cpu_limit.as_ref().map(|limit| limit.quantity.milli_ceil());
    let busy = (!basis.profile.parallel).then(|| basis.workers.count.saturating_mul(1000));
    let by_workers = || format!("{} with one CPU each at most", plural(basis.workers.count));
    match (busy, limit) {
        (Some(busy), Some(limit)) if busy <= limit => Some((busy, by_workers())),
        (Some(busy), None) => Some((busy, by_workers())),
        (_, Some(limit)) => Some((limit, format!("a CPU limit of {}", Quantity::from_milli(limit)))),
        (None, None) => None,
    }
}

/// What is worth telling.
pub(crate) fn warnings(basis: &Basis<'_>) -> Vec<Warning> {
    let Some(autoscaling) = &basis.app.spec.autoscaling else { return Vec::new() };
    let mut warnings = Vec::new();
    if autoscaling.keda.is_some() && basis.keda().is_none() {
        warnings.push(Warning::NoKeda);
    }
    let missing: Vec<&str> = worker_metrics(basis, autoscaling)
        .filter(|(metric, _)| !basis.tells(metric))
        .map(|(metric, _)| metric.field)
        .collect();
    if !missing.is_empty() {
        let instead = match metrics(basis, autoscaling).len() {
            1 if scales_on_cpu(basis, autoscaling) => {
                format!("on CPU alone, at {} % of the request", cpu_target(basis, autoscaling))
            }
            _ => "on its other metrics".to_owned(),
        };
        warnings.push(Warning::WorkerMetricsMissing { fields: missing.join(", "), instead });
    }
    if scales_on_cpu(basis, autoscaling) {
        warnings.extend(cpu_warning(basis, cpu_target(basis, autoscaling)));
    }
    let memory_percent = autoscaling.memory.as_ref().is_some_and(|memory| memory.average_value.is_none());
    if memory_percent && basis.effective.memory_request.is_none() {
        warnings.push(Warning::NoMemoryRequest);
    }
    warnings
}

fn cpu_warning(basis: &Basis<'_>, target: i32) -> Option<Warning> {
    let request = basis.effective.cpu_request.as_ref().filter(|request| request.quantity.is_positive());
    let Some(request) = request else { return Some(Warning::NoCpuRequest) };
    let (usable, cause) = usable(basis)?;
    let reachable = usable.saturating_mul(100).checked_div(request.quantity.milli_ceil())?;
    // A tenth of headroom: the autoscaler itself ignores differences below that.
    let unreachable = reachable.saturating_mul(10) <= i128::from(target).saturating_mul(11);
    unreachable.then_some(Warning::UnreachableTarget { target, reachable, cause })
}

/// On the app's container alone: a container that something else puts into the pod, and that has no request, would
/// otherwise leave the whole pod's utilisation unknown.
fn resource(name: &str, target: MetricTarget) -> MetricSpec {
    MetricSpec {
        type_: "ContainerResource".into(),
        container_resource: Some(ContainerResourceMetricSource {
            container: names::CONTAINER_APP.into(),
            name: name.into(),
            target,
        }),
        ..MetricSpec::default()
    }
}

fn pods(metric: &str, target: &Quantity) -> MetricSpec {
    MetricSpec {
        type_: "Pods".into(),
        pods: Some(PodsMetricSource {
            metric: MetricIdentifier { name: metric.into(), selector: None },
            target: value_target(target),
        }),
        ..MetricSpec::default()
    }
}

fn utilization_target(percent: i32) -> MetricTarget {
    MetricTarget {
        type_: "Utilization".into(),
        average_utilization: Some(percent),
        ..MetricTarget::default()
    }
}

fn value_target(value: &Quantity) -> MetricTarget {
    MetricTarget {
        type_: "AverageValue".into(),
        average_value: Some(k8s_openapi::apimachinery::pkg::api::resource::Quantity(value.to_string())),
        ..MetricTarget::default()
    }
}
