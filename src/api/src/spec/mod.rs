//! What a person writes: `WorkerApp.spec`.
//!
//! The doc comment of each field is its `kubectl explain`: what it does, the default, an example. Fields that are unset
//! stay unset: the operator never writes into a spec, what it worked out stands in the status.
//!
//! The rules that `kubectl apply` answers with at once stand beside the fields they speak about; their texts are in
//! [`crate::validation`].

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats each struct inside a function")]

mod autoscaling;
mod disruption_budget;
mod keda;
mod metadata;
mod monitor;
mod network_policy;
mod service;
mod supervisor;

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::DeploymentStrategy,
    core::v1::{
        Affinity, EnvFromSource, EnvVar, Lifecycle, LocalObjectReference, PodSecurityContext, Probe,
        SecurityContext, Toleration, TopologySpreadConstraint, Volume, VolumeMount,
    },
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use autoscaling::{AutoscalingSpec, BurstSpec, CpuTarget, MemoryTarget, PerPodTarget, ShareTarget};
pub use disruption_budget::DisruptionBudgetSpec;
pub use keda::{KedaAuthentication, KedaSpec, KedaTrigger};
pub use metadata::{ChildMetadata, ChildrenMetadata};
pub use monitor::MonitorSpec;
pub use network_policy::NetworkPolicySpec;
pub use service::{MetricsPort, ServiceSpec, ServiceType};
pub use supervisor::SupervisorSpec;

use crate::{WorkerAppStatus, lenient, quantity::Quantity, validation as rule};

/// A web app that runs several workers in each pod.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "workerapp.dev",
    version = "v1alpha1",
    kind = "WorkerApp",
    namespaced,
    doc = "A web app that runs several workers in each pod, on one port. The operator turns it into a Deployment, a Service and, where they are asked for, a HorizontalPodAutoscaler, a PodDisruptionBudget, a NetworkPolicy, a PodMonitor and a ScaledObject, all of the same name.",
    status = "WorkerAppStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "wa",
    category = "all",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the app is rolled out and serves"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Paused\")].status",
        description = "True while the operator leaves the children alone"
    ),
    printcolumn(name = "Workers", type_ = "integer", json_path = ".status.workers", description = "Workers in each pod"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas", description = "Pods"),
    printcolumn(
        name = "NodePort",
        type_ = "integer",
        json_path = ".status.nodePort",
        description = "The port on every node at which the app answers"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Runtime", type_ = "string", json_path = ".spec.runtime", priority = 1),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why the app is, or is not, Ready",
        priority = 1
    ),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1),
    validation = rule::name_length(),
    validation = rule::name_form()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule::command(),
    validation = rule::replicas_or_autoscaling(),
    validation = rule::admin_port(),
    validation = rule::extra_ports(),
    validation = rule::unique_ports(),
    validation = rule::extra_node_ports_need_type(),
    validation = rule::lame_duck(),
    validation = rule::reserved_volume()
)]
pub struct WorkerAppSpec {
    /// The image that holds the app. Example: `registry.example.com/shop:1.4.2`.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// When the image is pulled: `Always`, `IfNotPresent` or `Never`. Default: Kubernetes' own (`Always` for the tag
    /// `latest`, else `IfNotPresent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Who makes the workers, and how the count reaches it. `Node`, `Python`, `Ruby` and `Generic`: the supervisor runs one copy
    /// of the command per worker, all on one port. The others: one copy, told the count, makes its own processes or threads.
    /// Default: `Generic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// The program that serves, as an array; the image's own entrypoint is not used. Required. Example:
    /// `[node, server.js]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 16384)))]
    pub command: Vec<String>,
    /// Further arguments, put after `command`. Example: `[--title, Shop]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 16384)))]
    pub args: Vec<String>,
    /// The directory in which the command starts. Default: the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The port on which the app listens; the app sees it as `PORT`. All workers share it. Example: `3000`.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Further TCP ports of the app, shared by the workers too and offered by the Service after the first. Example:
    /// `[{name: ws, port: 3001}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ports: Vec<ExtraPort>,
    /// Environment variables, as in a container. The app's own values win over those that the operator would set (`PORT`,
    /// `HOSTNAME`, `WORKERS`). See `kubectl explain pod.spec.containers.env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient::deserialize")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
    /// Environment variables from ConfigMaps and Secrets, as in a container. See
    /// `kubectl explain pod.spec.containers.envFrom`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFromSource>,
    /// CPU and memory of the app's container, as in a container. The number of workers follows from the CPU limit, or from
    /// the request where there is no limit. Example: `{requests: {cpu: "2", memory: 450Mi}, limits: {cpu: "3"}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// How many workers each pod runs. Empty: worked out from `resources` (the CPU limit rounded up; without a limit the
    /// request rounded up; else 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersSpec>,
    /// How the app is reached. Default: a NodePort Service on port 80, annotated so that benchmark tools find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
    /// Leaves the children alone: edits of this spec are not carried out, and edits of the children not undone, until it is
    /// false again. Pods go on running, and deleting the app deletes them. The annotation `workerapp.dev/paused: "true"` does the
    /// same. Default: false. Example: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Replaces all pods, as a rolling update, whenever this time changes (or goes); the time itself is not waited for.
    /// `kubectl rollout restart deployment/NAME` does the same without an edit. Default: none. Example: `"2026-05-31T12:00:00Z"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::timestamp())]
    #[schemars(length(max = 64))]
    pub restart_at: Option<String>,
    /// A fixed number of pods; not together with `autoscaling`. Without either, the Deployment starts with one pod and
    /// whoever scales it is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Scales the number of pods with a HorizontalPodAutoscaler. Example:
    /// `{minReplicas: 2, maxReplicas: 10, cpu: {averageUtilization: 50}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingSpec>,
    /// How many pods may be away at once while nodes are emptied, as a PodDisruptionBudget. Default: one pod, where the app never
    /// has fewer than two. Example: `{maxUnavailable: 25%}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_budget: Option<DisruptionBudgetSpec>,
    /// Who may reach the pods, as a NetworkPolicy. Default: everybody. `{}`: everybody the app's ports, and the supervisor's port
    /// only the operator and the kubelet. Example:
    /// `{adminFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySpec>,
    /// Lets Prometheus find the workers' metrics (and those of `supervisor.appMetrics`), as a PodMonitor, where the cluster has that
    /// kind. Labels by which your Prometheus selects go into `metadata.monitor`. Default: none. Example: `{interval: 15s}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<MonitorSpec>,
    /// Settings of the supervisor, the program that runs the workers. Default: see each field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<SupervisorSpec>,
    /// When a pod may get traffic. Default: `GET /readyz` of the supervisor, which says yes while a worker listens. See
    /// `kubectl explain pod.spec.containers.readinessProbe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// When the container is restarted. Default: `GET /livez` of the supervisor, which does not depend on how busy the
    /// workers are. See `kubectl explain pod.spec.containers.livenessProbe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// When the other probes begin. Default: none, since the supervisor's probes need no delay. See
    /// `kubectl explain pod.spec.containers.startupProbe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// Hooks of the container. A `preStop` sleep is not needed: the supervisor keeps serving for `supervisor.lameDuckSeconds`.
    /// See `kubectl explain pod.spec.containers.lifecycle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Volumes of the pod. See `kubectl explain pod.spec.volumes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient::deserialize")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<Volume>,
    /// Where the volumes appear in the app's container. See `kubectl explain pod.spec.containers.volumeMounts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"]))]
    pub volume_mounts: Vec<VolumeMount>,
    /// Security settings of the app's container. See `kubectl explain pod.spec.containers.securityContext`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// Security settings of the pod. See `kubectl explain pod.spec.securityContext`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,
    /// The ServiceAccount under which the pod runs. Default: the namespace's `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Whether the ServiceAccount's token is mounted. Default: as the ServiceAccount says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
    /// Secrets with which the image is pulled. Example: `[{name: registry}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Labels that a node must have. Example: `{kubernetes.io/arch: amd64}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pod puts up with. See `kubectl explain pod.spec.tolerations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Where pods may or should run. See `kubectl explain pod.spec.affinity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How pods are spread over nodes and zones. Default: evenly over the nodes, as far as they have room. See
    /// `kubectl explain pod.spec.topologySpreadConstraints`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// The PriorityClass of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The RuntimeClass of the pods. Example: `gvisor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// Seconds that a pod has from being told to stop until it is killed; the supervisor's lame-duck time is a part of them.
    /// Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub termination_grace_period_seconds: Option<i32>,
    /// How new pods replace old ones. Default: a rolling update that never goes below the wanted number
    /// (`maxUnavailable: 0`, `maxSurge: 25%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<DeploymentStrategy>,
    /// Seconds that a new pod must be Ready before it counts as available. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub min_ready_seconds: Option<i32>,
    /// Seconds after which a rollout without progress is reported as stuck. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub progress_deadline_seconds: Option<i32>,
    /// Old ReplicaSets that are kept for a rollback. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub revision_history_limit: Option<i32>,
    /// Extra labels and annotations, for each child apart. Example: `{pod: {labels: {team: web}}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ChildrenMetadata>,
}

/// Who makes the workers, and how the count reaches it. `Node`, `Python`, `Ruby` and `Generic`: the supervisor runs one
/// copy of the command per worker, all on one port. The others: one copy, told the count, makes its own processes or threads.
/// Default: `Generic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Runtime {
    /// A Node program; the supervisor runs one copy per worker.
    Node,
    /// A Node program that forks its own workers with `node:cluster`, as many as `WORKERS` says.
    NodeCluster,
    /// `pm2-runtime`; the count is its `-i`.
    Pm2,
    /// Platformatic Watt; its workers are threads, as many as `WORKERS` says.
    Watt,
    /// A Python program, such as gunicorn with one worker or uvicorn; the supervisor runs one copy per worker.
    Python,
    /// A Ruby program, such as puma in single mode; the supervisor runs one copy per worker.
    Ruby,
    /// One Java virtual machine, told the count as `-XX:ActiveProcessorCount`.
    Jvm,
    /// One Go program, told the count as `GOMAXPROCS`.
    Go,
    /// nginx, told the count as `worker_processes`.
    Nginx,
    /// Cloudgate, told the count as `THREADS` and the port as `-p`.
    Cloudgate,
    /// Any other server program; the supervisor runs one copy per worker.
    #[default]
    Generic,
}

/// When the image is pulled: `Always`, `IfNotPresent` or `Never`. Default: Kubernetes' own (`Always` for the tag `latest`,
/// else `IfNotPresent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Before each start.
    Always,
    /// When the node doesn't have it.
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

/// One more TCP port of the app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::port_name())]
pub struct ExtraPort {
    /// The port's name: at most 15 of `a-z`, `0-9` and `-`, with a letter among them; not `app`, `admin` or `metrics`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The port in the container and of the Service. Example: `3001`.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// The port on every node. Default: one that Kubernetes picks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::node_port())]
    pub node_port: Option<i32>,
}

/// CPU and memory of the app's container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::cpu_request_within_limit(), validation = rule::memory_request_within_limit())]
pub struct Resources {
    /// What the scheduler sets aside: CPU, memory and any other resource. Example: `{cpu: "2", memory: 450Mi}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rule::quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// What the container may use at most: CPU, memory and any other resource. Example: `{cpu: "3"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rule::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

/// Overrides of the number of workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkersSpec {
    /// Exactly this many workers, whatever the CPUs; it then stays fixed when the container is resized. Example: `4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1024))]
    #[x_kube(validation = rule::at_least_one_worker())]
    pub count: Option<i32>,
    /// At most this many workers, when the number is worked out. Example: `8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1024))]
    #[x_kube(validation = rule::at_least_one_worker())]
    pub max: Option<i32>,
    /// What one worker needs: at most as many workers as fit the memory limit. Example: `200Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::quantity(), validation = rule::positive_quantity())]
    pub memory_per_worker: Option<Quantity>,
}
