//! What works as it was asked for and yet may surprise: told in the plan and as an event, never an error.

use thiserror::Error;
use workerapp_api::{Quantity, ServiceType, WorkerApp, names};

use crate::{
    Effective, Facts, autoscaler, burst, disruption_budget,
    effective::Amount,
    room,
    runtime::Profile,
    supervisor::keeps_clients,
    workers::{Rule, Workers},
};

/// One surprise, with its remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Warning {
    /// The app sets a variable that the operator would set.
    #[error(
        "spec.env sets {name} to {value:?}, where the operator would set {ours:?}: the app gets its own; remove it unless that is meant"
    )]
    OwnVariable {
        /// The variable.
        name: &'static str,
        /// What the app sets.
        value: String,
        /// What the operator would have set.
        ours: String,
    },
    /// More workers than whole CPUs under a limit.
    #[error(
        "{} throttled for up to {percent} % of the time; a whole number of CPUs avoids it",
        when_busy(*workers, limit)
    )]
    Throttled {
        /// The number of workers.
        workers: i128,
        /// The CPU limit.
        limit: String,
        /// 1 − limit / workers, in percent.
        percent: i128,
    },
    /// The autoscaler has nothing to compute a percentage of.
    #[error(
        "spec.autoscaling scales on a percentage of the CPU request, and there is none: set spec.resources.requests.cpu"
    )]
    NoCpuRequest,
    /// The same for memory.
    #[error(
        "spec.autoscaling.memory scales on a percentage of the memory request, and there is none: set spec.resources.requests.memory, or spec.autoscaling.memory.averageValue"
    )]
    NoMemoryRequest,
    /// Nobody serves metrics of the workers that the spec scales on.
    #[error(
        "spec.autoscaling.{fields}: nobody serves these metrics in this cluster, and the app scales {instead} until somebody does; install the operator with the Helm value metricsApi.enabled=true, or see `kubectl get apiservice v1beta2.custom.metrics.k8s.io`"
    )]
    WorkerMetricsMissing {
        /// The fields that ask for them.
        fields: String,
        /// What the app scales on meanwhile.
        instead: String,
    },
    /// The CPU target lies above what the pod can reach.
    #[error(
        "the autoscaler adds pods above {target} % of the CPU request, but a pod of this app never uses more than about {reachable} % ({cause}): lower spec.autoscaling.cpu.averageUtilization or the CPU request"
    )]
    UnreachableTarget {
        /// The target, in percent of the request.
        target: i32,
        /// What the pod can use at most, in percent of the request.
        reachable: i128,
        /// What holds it back.
        cause: String,
    },
    /// A LimitRange's default lies below the request: every pod will be refused.
    #[error(
        "LimitRange {limit_range} sets a {resource} limit of {limit}, below the request of {request}: every pod will be refused; set spec.resources.limits.{resource}"
    )]
    LimitBelowRequest {
        /// `cpu` or `memory`.
        resource: &'static str,
        /// Whose default it is.
        limit_range: String,
        /// The limit that is filled in.
        limit: String,
        /// The request.
        request: String,
    },
    /// Memory of less than a mebibyte: a unit is missing, or `m` was written for `Mi`.
    #[error(
        "spec.resources gives {quantity} of memory, which is less than a mebibyte (`m` means thousandths of a byte): write it as in 512Mi"
    )]
    TinyMemory {
        /// The quantity.
        quantity: String,
    },
    /// Clients from outside the cluster are hidden behind their node's address.
    #[error(
        "spec.service.sessionAffinity ClientIP with externalTrafficPolicy {policy}: clients from outside the cluster reach a pod with their node's address, and all of them meet one worker; set spec.service.externalTrafficPolicy to Local"
    )]
    HiddenClients {
        /// The policy.
        policy: String,
    },
    /// A LimitRange's default decides the number of workers.
    #[error(
        "LimitRange {limit_range} sets a CPU limit of {limit} that the spec doesn't name, and WORKERS follows it; set spec.resources.limits.cpu to decide it yourself"
    )]
    LimitFromLimitRange {
        /// Whose default it is.
        limit_range: String,
        /// The limit that is filled in.
        limit: String,
    },
    /// A disruption budget that would let no pod go.
    #[error(
        "spec.disruptionBudget.minAvailable {min_available} would let none of {pods} pods be evicted, and no node with one of them could be emptied: maxUnavailable 1 is used instead; lower minAvailable, or raise spec.replicas or spec.autoscaling.minReplicas"
    )]
    BudgetBlocksDrains {
        /// What must stay.
        min_available: String,
        /// How many pods the app is sure to have.
        pods: i32,
    },
    /// The cluster has no KEDA.
    #[error(
        "spec.autoscaling.keda asks for a ScaledObject, which this cluster doesn't have (keda.sh/v1alpha1), or which the operator may not read: a HorizontalPodAutoscaler scales the app, without the triggers, until half a minute after that has changed"
    )]
    NoKeda,
    /// Nobody serves a metric by which a burst would be seen.
    #[error(
        "spec.autoscaling.burst goes by the metrics of the workers, which nobody serves in this cluster: there are no bursts until somebody does; install the operator with the Helm value metricsApi.enabled=true, or see `kubectl get apiservice v1beta2.custom.metrics.k8s.io`"
    )]
    BurstsUnseen,
    /// A share can't get as far above its target.
    #[error(
        "spec.autoscaling.burst begins above {threshold} % of a target, which for {field} is {begin} %, and no share is ever above 100 %: lower burst.thresholdPercent to {most} at most, or {field}.targetPercent, now {target}"
    )]
    BurstsUnreachable {
        /// From where on a burst begins, in percent of the target.
        threshold: i32,
        /// The field with the lowest target.
        field: &'static str,
        /// Its target, in percent.
        target: i32,
        /// The share at which a burst would begin.
        begin: i32,
        /// The highest threshold below which it is ever seen.
        most: i32,
    },
    /// The autoscaler may ask for more pods than the nodes can hold.
    #[error(
        "spec.autoscaling.maxReplicas is {most}, and there is room for {room} of them at most on the {nodes} that its pods may run on, even with nothing else there (each requests {request}): the others would stay Pending; lower maxReplicas or the requests, unless something adds nodes when pods wait"
    )]
    NoRoom {
        /// The most pods that the autoscaler may ask for.
        most: i128,
        /// How many fit.
        room: i128,
        /// How many nodes there are, as text.
        nodes: String,
        /// What each pod requests.
        request: String,
    },
    /// Somebody made a disruption budget for the app's pods.
    #[error(
        "PodDisruptionBudget {budget} is for the pods of this app too, and Kubernetes evicts no pod that has two budgets: the app gets none of its own; delete {budget}, or set spec.disruptionBudget.enabled to false"
    )]
    ForeignBudget {
        /// Its name.
        budget: String,
    },
    /// The cluster has no PodMonitors.
    #[error(
        "spec.monitor asks for a PodMonitor, which this cluster doesn't have (monitoring.coreos.com/v1), or which the operator may not read: it is made within half a minute after that has changed"
    )]
    NoMonitors,
    /// The network policy keeps Prometheus out.
    #[error(
        "spec.monitor lets Prometheus ask the pods, and spec.networkPolicy lets only the operator reach their admin port: name Prometheus' namespace in spec.networkPolicy.adminFrom"
    )]
    MonitorShutOut,
}

impl Warning {
    /// The variant's name: the reason of the event that tells it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OwnVariable { .. } => "OwnVariable",
            Self::Throttled { .. } => "Throttled",
            Self::NoCpuRequest => "NoCpuRequest",
            Self::NoMemoryRequest => "NoMemoryRequest",
            Self::WorkerMetricsMissing { .. } => "WorkerMetricsMissing",
            Self::UnreachableTarget { .. } => "UnreachableTarget",
            Self::LimitBelowRequest { .. } => "LimitBelowRequest",
            Self::TinyMemory { .. } => "TinyMemory",
            Self::HiddenClients { .. } => "HiddenClients",
            Self::LimitFromLimitRange { .. } => "LimitFromLimitRange",
            Self::BudgetBlocksDrains { .. } => "BudgetBlocksDrains",
            Self::NoKeda => "NoKeda",
            Self::BurstsUnseen => "BurstsUnseen",
            Self::BurstsUnreachable { .. } => "BurstsUnreachable",
            Self::NoRoom { .. } => "NoRoom",
            Self::ForeignBudget { .. } => "ForeignBudget",
            Self::NoMonitors => "NoMonitors",
            Self::MonitorShutOut => "MonitorShutOut",
        }
    }
}

/// `foreign`: somebody else's budget for the app's pods.
pub(crate) fn find(basis: &autoscaler::Basis<'_>, foreign: Option<&str>) -> Vec<Warning> {
    let autoscaler::Basis { app, profile, effective, workers, facts } = *basis;
    let mut warnings = own_variables(app, workers);
    warnings.extend(limit_range(effective));
    warnings.extend(throttled(profile, effective, workers));
    warnings.extend(tiny_memory(effective));
    warnings.extend(hidden_clients(app));
    warnings.extend(autoscaler::warnings(basis));
    warnings.extend(burst::warning(basis));
    warnings.extend(room::warning(app, effective, facts));
    let blocking = disruption_budget::blocks_drains(app);
    warnings
        .extend(blocking.map(|(min_available, pods)| Warning::BudgetBlocksDrains { min_available, pods }));
    warnings.extend(foreign.map(|budget| Warning::ForeignBudget { budget: budget.to_owned() }));
    warnings.extend(monitor(app, facts));
    warnings
}

fn own_variables(app: &WorkerApp, workers: &Workers) -> Vec<Warning> {
    let ours = [
        (names::ENV_PORT, app.spec.port.to_string()),
        (names::ENV_HOSTNAME, "0.0.0.0".to_owned()),
        (names::ENV_WORKERS, workers.count.to_string()),
    ];
    let mut warnings = Vec::new();
    for (name, ours) in ours {
        let own = app.spec.env.iter().find(|variable| variable.name == name);
        if let Some(value) =
            own.map(|variable| variable.value.clone().unwrap_or_default()).filter(|value| *value != ours)
        {
            warnings.push(Warning::OwnVariable { name, value, ours });
        }
    }
    warnings
}

fn limit_range(effective: &Effective) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (resource, limit, request) in [
        ("cpu", &effective.cpu_limit, &effective.cpu_request),
        ("memory", &effective.memory_limit, &effective.memory_request),
    ] {
        let Some(Amount { quantity: limit, limit_range: Some(limit_range) }) = limit else { continue };
        match request {
            Some(request) if request.quantity > *limit => warnings.push(Warning::LimitBelowRequest {
                resource,
                limit_range: limit_range.clone(),
                limit: limit.to_string(),
                request: request.quantity.to_string(),
            }),
            _ if resource == "cpu" => warnings.push(Warning::LimitFromLimitRange {
                limit_range: limit_range.clone(),
                limit: limit.to_string(),
            }),
            _ => {}
        }
    }
    warnings
}

fn tiny_memory(effective: &Effective) -> Option<Warning> {
    let amounts = [&effective.memory_request, &effective.memory_limit];
    let tiny =
        amounts.into_iter().flatten().find(|amount| amount.quantity < Quantity::from_bytes(1 << 20))?;
    Some(Warning::TinyMemory { quantity: tiny.quantity.to_string() })
}

fn hidden_clients(app: &WorkerApp) -> Option<Warning> {
    let service = app.spec.service.clone().unwrap_or_default();
    let policy = service.external_traffic_policy.unwrap_or_else(|| "Cluster".into());
    let outside = service.type_.unwrap_or_default() != ServiceType::ClusterIP;
    (keeps_clients(app) && outside && policy != "Local").then_some(Warning::HiddenClients { policy })
}

fn monitor(app: &WorkerApp, facts: &Facts) -> Option<Warning> {
    app.spec.monitor.as_ref()?;
    let policy = app.spec.network_policy.as_ref();
    match policy {
        _ if !facts.monitors() => Some(Warning::NoMonitors),
        Some(policy) if policy.admin_from.is_empty() => Some(Warning::MonitorShutOut),
        _ => None,
    }
}

fn when_busy(workers: i128, limit: &str) -> String {
    match workers {
        1 => format!("1 worker has a CPU limit of {limit}: when it is busy it is"),
        _ => format!("{workers} workers share a CPU limit of {limit}: when all are busy they are"),
    }
}

/// Told where the number was worked out with ceil, and for a count that was given.
fn throttled(profile: &Profile, effective: &Effective, workers: &Workers) -> Option<Warning> {
    let limit = &effective.cpu_limit.as_ref()?.quantity;
    let percent = percent_above(workers.count, limit);
    let telling = percent >= 1 && (workers.rule != Rule::Count || !profile.parallel);
    telling.then(|| Warning::Throttled { workers: workers.count, limit: limit.to_string(), percent })
}

/// 100 · (1 − limit / workers).
fn percent_above(workers: i128, limit: &Quantity) -> i128 {
    let wanted = workers.saturating_mul(1000);
    (wanted - limit.milli_ceil()).saturating_mul(100).checked_div(wanted).unwrap_or(0)
}
