//! Every name that the operator gives: labels, annotations, containers, volumes, ports.
//!
//! One list, so that a search for a name finds its one definition.

/// The API group of [`crate::WorkerApp`].
pub const GROUP: &str = "workerapp.dev";
/// Field manager of every server-side apply that the operator sends.
pub const FIELD_MANAGER: &str = "workerapp-operator";
/// Field manager that keeps `spec.replicas` of a Deployment between the operator letting go of it and an HPA taking it
/// up: a field without any owner would fall back to its default of 1.
pub const HANDOVER_MANAGER: &str = "workerapp-operator-handover";

/// Field manager of a write that replaces lists which could not be merged; it owns nothing for long.
pub const REPAIR_MANAGER: &str = "workerapp-operator-repair";

/// Label: the app's name. In the selector, so it can never change.
pub const LABEL_NAME: &str = "app.kubernetes.io/name";
/// Label: the app's name again, for tools that tell installations apart. In the selector, so it can never change.
pub const LABEL_INSTANCE: &str = "app.kubernetes.io/instance";
/// Label: [`MANAGED_BY`] on every child and pod; the operator's caches hold nothing else.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "workerapp-operator";
/// The labels that the operator sets and no one may override.
pub const RESERVED_LABELS: [&str; 3] = [LABEL_NAME, LABEL_INSTANCE, LABEL_MANAGED_BY];

/// Annotation on every child: a digest of what was last sent, so that a field that is no longer sent is noticed.
pub const ANNOTATION_APPLIED: &str = "workerapp.dev/applied";
/// Annotation on a WorkerApp: with the value `"true"` the operator leaves the children alone, as with `spec.paused`.
pub const ANNOTATION_PAUSED: &str = "workerapp.dev/paused";
/// Annotation on the pods: `spec.restartAt`, so that a new time makes new pods.
pub const ANNOTATION_RESTARTED: &str = "workerapp.dev/restarted-at";
/// Annotation on the Service by which load generators find what to measure; value `"true"`.
pub const ANNOTATION_EXPOSE: &str = "benchmark.platformatic.dev/expose";
/// On the WorkerApps that a suite of `kubectl workerapp bench` made: the suite's name.
pub const LABEL_SUITE: &str = "workerapp.dev/suite";

/// The container that runs the app.
pub const CONTAINER_APP: &str = "app";
/// The init container that copies the supervisor into [`VOLUME_SUPERVISOR`].
pub const CONTAINER_INSTALL: &str = "workerapp-install";
/// The volume that carries the supervisor's binary.
pub const VOLUME_SUPERVISOR: &str = "workerapp";
/// Where [`VOLUME_SUPERVISOR`] is mounted.
pub const SUPERVISOR_DIR: &str = "/workerapp";
/// The supervisor as the app's container sees it.
pub const SUPERVISOR_PATH: &str = "/workerapp/supervisor";
/// The supervisor in the operator's image.
pub const SUPERVISOR_IN_IMAGE: &str = "/usr/local/bin/workerapp-supervisor";

/// Name of the app's port, in the container and first in the Service.
pub const PORT_APP: &str = "app";
/// Name of the supervisor's admin port, in the container.
pub const PORT_ADMIN: &str = "admin";
/// Name of the metrics port, in the Service, and in the container where the runtime serves metrics itself.
pub const PORT_METRICS: &str = "metrics";
/// Port names that [`crate::ExtraPort`] may not take.
pub const RESERVED_PORT_NAMES: [&str; 3] = [PORT_APP, PORT_ADMIN, PORT_METRICS];
/// The supervisor's admin port unless `spec.supervisor.adminPort` says otherwise.
pub const DEFAULT_ADMIN_PORT: u16 = 9913;

/// The port of the Service unless `spec.service.port` says otherwise.
pub const DEFAULT_SERVICE_PORT: u16 = 80;
/// Seconds between SIGTERM and the drain unless `spec.supervisor.lameDuckSeconds` says otherwise.
pub const DEFAULT_LAME_DUCK_SECONDS: u32 = 5;
/// The pod's grace period unless `spec.terminationGracePeriodSeconds` says otherwise; Kubernetes' own default.
pub const DEFAULT_GRACE_SECONDS: u32 = 30;

/// Environment variable that tells an app how many workers there are.
pub const ENV_WORKERS: &str = "WORKERS";
/// Environment variable that tells an app which port to listen on.
pub const ENV_PORT: &str = "PORT";
/// Environment variable that tells an app which address to listen on: without it Next.js binds the pod's name.
pub const ENV_HOSTNAME: &str = "HOSTNAME";

/// The `sessionAffinity` of a Service by which a client stays where it is.
pub const AFFINITY_CLIENT_IP: &str = "ClientIP";

/// Metric of the workers: requests in flight, and connections that wait to be accepted.
pub const METRIC_IN_FLIGHT: &str = "workerapp_requests_in_flight";
/// Metric of the workers: requests that began, per second.
pub const METRIC_REQUESTS: &str = "workerapp_requests_per_second";
/// Metric of the workers: the share of time in which their event loops were busy, from 0 to 1.
pub const METRIC_UTILIZATION: &str = "workerapp_event_loop_utilization";
/// Metric of the workers: how many of them were busy.
pub const METRIC_BUSY: &str = "workerapp_busy_workers";
/// Metric of the workers: connections that wait to be accepted.
pub const METRIC_QUEUE: &str = "workerapp_queue_length";
/// As `metricLabelSelector`: each pod's newest sample alone, and not its mean over a while.
pub const NEWEST_SAMPLE: &str = "window=newest";
/// Metric of the workers: open connections.
pub const METRIC_CONNECTIONS: &str = "workerapp_connections";
