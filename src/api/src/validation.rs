//! The rules that the API server checks at `kubectl apply`, each with a message that says what is allowed.
//!
//! CEL, so that no webhook is needed. What can't be said in CEL (it depends on the cluster) is checked by the plan.

use kube::core::{Message, Rule};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::Quantity;

/// A rule and its message. The API server puts the field and its value in front, so a message doesn't name that field again; one
/// of the whole spec names its fields in full. Messages stay fixed texts, since computed ones count towards the cost that a
/// definition's rules may have, as if each string had its largest size.
fn rule(expression: &str, message: &str) -> Rule {
    Rule::new(expression).message(Message::Message(message.into()))
}

pub(crate) fn name_length() -> Rule {
    rule(
        "size(self.metadata.name) <= 63",
        "metadata.name may have at most 63 characters, since the Service gets the same name",
    )
}

pub(crate) fn name_form() -> Rule {
    rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must begin with a letter and hold only a-z, 0-9 and - (no dots, no - at the end), since the Service gets the same name; example: my-app",
    )
}

/// The operator can't see an image's own entrypoint, and the supervisor has to stand in front of it.
pub(crate) fn command() -> Rule {
    rule(
        "has(self.command) && size(self.command) > 0",
        "spec.command is required: the supervisor starts it, and an image's own entrypoint can't be seen from here; find it with `docker image inspect --format '{{.Config.Entrypoint}} {{.Config.Cmd}}' IMAGE` or `skopeo inspect --config docker://IMAGE`; example: [node, server.js]",
    )
}

pub(crate) fn replicas_or_autoscaling() -> Rule {
    rule(
        "!(has(self.replicas) && has(self.autoscaling))",
        "spec.replicas and spec.autoscaling exclude each other: remove replicas and let autoscaling.minReplicas and maxReplicas bound the number of pods, or remove autoscaling",
    )
}

pub(crate) fn admin_port() -> Rule {
    rule(
        "!(has(self.supervisor) && has(self.supervisor.adminPort) ? [self.supervisor.adminPort] : [9913]).exists(a, a == self.port || (has(self.ports) && self.ports.exists(p, p.port == a)))",
        "the supervisor answers probes and metrics on spec.supervisor.adminPort (9913 unless set), which the app uses too: give it another port",
    )
}

pub(crate) fn extra_ports() -> Rule {
    rule(
        "!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q.name == p.name))",
        "each name in spec.ports may stand there once",
    )
}

pub(crate) fn unique_ports() -> Rule {
    rule(
        "!has(self.ports) || self.ports.all(p, p.port != self.port && self.ports.exists_one(q, q.port == p.port))",
        "each port in spec.ports may stand there once, and spec.port not at all: the Service offers it already, as `app`",
    )
}

pub(crate) fn lame_duck() -> Rule {
    rule(
        "(has(self.supervisor) && has(self.supervisor.lameDuckSeconds) ? self.supervisor.lameDuckSeconds : 5) < (has(self.terminationGracePeriodSeconds) ? self.terminationGracePeriodSeconds : 30)",
        "spec.supervisor.lameDuckSeconds (5 unless set) must be less than spec.terminationGracePeriodSeconds (30 unless set): the rest is the time in which requests under way may end",
    )
}

pub(crate) fn reserved_volume() -> Rule {
    rule(
        "(!has(self.volumes) || self.volumes.all(v, v.name != 'workerapp')) && (!has(self.volumeMounts) || self.volumeMounts.all(m, m.mountPath != '/workerapp'))",
        "the volume name `workerapp` and the path /workerapp are the supervisor's: give yours another name and path",
    )
}

pub(crate) fn port_name() -> Rule {
    rule(
        "size(self.name) <= 15 && self.name.matches('^[a-z0-9]([a-z0-9]|-[a-z0-9])*$') && self.name.matches('[a-z]') && !(self.name in ['app', 'admin', 'metrics'])",
        "a port name has at most 15 of a-z, 0-9 and -, with a letter among them, no - at an end nor two in a row, and is not app, admin or metrics; example: ws",
    )
    .field_path(".name")
}

/// The range itself is a setting of the API server, which knows it when the Service is made; here stands what no cluster
/// allows.
pub(crate) fn node_port() -> Rule {
    rule(
        "self >= 1024 && self <= 65535",
        "a node port must lie between 30000 and 32767, or in the range that the API server was given with --service-node-port-range; never below 1024 or above 65535",
    )
}

pub(crate) fn node_port_needs_type() -> Rule {
    rule(
        "!(has(self.type) && self.type == 'ClusterIP' && (has(self.nodePort) || (has(self.metrics) && has(self.metrics.nodePort))))",
        "a nodePort needs the type NodePort or LoadBalancer: remove the nodePort or the type ClusterIP",
    )
}

pub(crate) fn extra_node_ports_need_type() -> Rule {
    rule(
        "!(has(self.service) && has(self.service.type) && self.service.type == 'ClusterIP' && has(self.ports) && self.ports.exists(p, has(p.nodePort)))",
        "a nodePort in spec.ports needs spec.service.type NodePort or LoadBalancer: remove the nodePort or the type ClusterIP",
    )
}

pub(crate) fn traffic_policy_needs_type() -> Rule {
    rule(
        "!(has(self.type) && self.type == 'ClusterIP' && has(self.externalTrafficPolicy))",
        "externalTrafficPolicy is about traffic from outside the cluster, of which type ClusterIP has none: remove one of them",
    )
}

pub(crate) fn distinct_node_ports() -> Rule {
    rule(
        "!(has(self.nodePort) && has(self.metrics) && has(self.metrics.nodePort) && self.nodePort == self.metrics.nodePort)",
        "nodePort and metrics.nodePort must differ",
    )
}

pub(crate) fn traffic_policy() -> Rule {
    rule("self in ['Cluster', 'Local']", "must be Cluster or Local")
}

pub(crate) fn session_affinity() -> Rule {
    rule("self in ['None', 'ClientIP']", "must be None or ClientIP")
}

pub(crate) fn min_within_max() -> Rule {
    rule(
        "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas must not be above maxReplicas",
    )
}

pub(crate) fn cpu_target() -> Rule {
    rule(
        "!has(self.cpu) || has(self.cpu.averageUtilization) != has(self.cpu.targetPercent)",
        "cpu needs averageUtilization, in percent of the CPU request, or targetPercent, in percent of what the workers can use, and not both; example: {averageUtilization: 50}",
    )
}

pub(crate) fn memory_target() -> Rule {
    rule(
        "!has(self.memory) || has(self.memory.averageUtilization) != has(self.memory.averageValue)",
        "memory needs averageUtilization, in percent of the memory request, or averageValue, and not both; example: {averageUtilization: 80}",
    )
}

pub(crate) fn keda_prometheus() -> Rule {
    rule(
        "!has(self.keda) || has(self.keda.prometheusAddress) || !(has(self.inFlight) || has(self.requestsPerSecond) || has(self.queueLength) || has(self.eventLoopUtilization) || has(self.busyWorkers))",
        "keda.prometheusAddress is needed with inFlight, requestsPerSecond, queueLength, eventLoopUtilization and busyWorkers: KEDA reads the workers' metrics from Prometheus alone; example: http://prometheus.monitoring:9090",
    )
}

pub(crate) fn burst_metric() -> Rule {
    rule(
        "!has(self.burst) || has(self.inFlight) || has(self.requestsPerSecond) || has(self.queueLength) || has(self.eventLoopUtilization) || has(self.busyWorkers)",
        "burst needs inFlight, requestsPerSecond, queueLength, eventLoopUtilization or busyWorkers: a burst is seen in the workers' metrics alone; example: {inFlight: {averageValue: 20}, burst: {}}",
    )
}

pub(crate) fn http_address() -> Rule {
    rule(
        "self.matches('^https?://[^ ]+$')",
        "must begin with http:// or https://; example: http://prometheus.monitoring:9090",
    )
}

pub(crate) fn keda_metric_type() -> Rule {
    rule("self in ['AverageValue', 'Value', 'Utilization']", "must be AverageValue, Value or Utilization")
}

pub(crate) fn keda_authentication_kind() -> Rule {
    rule(
        "self in ['TriggerAuthentication', 'ClusterTriggerAuthentication']",
        "must be TriggerAuthentication or ClusterTriggerAuthentication",
    )
}

pub(crate) fn timestamp() -> Rule {
    rule(
        "self.matches('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$')",
        "must be a time as in RFC 3339, such as `date -u +%Y-%m-%dT%H:%M:%SZ` prints; example: 2026-05-31T12:00:00Z",
    )
}

pub(crate) fn one_budget() -> Rule {
    rule(
        "!(has(self.maxUnavailable) && has(self.minAvailable))",
        "maxUnavailable and minAvailable exclude each other: remove one of them",
    )
}

pub(crate) fn some_unavailable() -> Rule {
    rule(
        "string(self).matches('^([1-9][0-9]{0,5}|([1-9][0-9]?|100)%)$')",
        "must be a number of pods from 1, or 1% to 100%: with 0 no node that runs a pod of the app could be emptied; example: 25%",
    )
}

pub(crate) fn some_available() -> Rule {
    rule(
        "string(self).matches('^([1-9][0-9]{0,5}|[1-9][0-9]?%)$')",
        "must be a number of pods from 1, or 1% to 99%: with 100% no node that runs a pod of the app could be emptied; example: 2",
    )
}

pub(crate) fn interval() -> Rule {
    rule(
        "self.matches('^[1-9][0-9]{0,5}(ms|s|m|h)$')",
        "must be a whole number with ms, s, m or h; example: 15s",
    )
}

pub(crate) fn at_least_one_worker() -> Rule {
    rule(
        "self >= 1",
        "there must be at least 1 worker; leave it out to have the number worked out from the CPUs",
    )
}

/// A quantity that CEL may look at: on an exponent of ten digits its quantity functions work for minutes, and the API server
/// with them. Short, since a pattern's length counts towards the rule's cost.
fn safe(value: &str) -> String {
    format!("!string({value}).matches('[eE].{{4}}')")
}

pub(crate) fn quantity() -> Rule {
    rule(
        &format!("{} && isQuantity(string(self))", safe("self")),
        "not a quantity: it must be a number with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent of at most three characters); examples: \"2\", 500m, \"0.5\", 450Mi",
    )
}

pub(crate) fn positive_quantity() -> Rule {
    rule(
        &format!(
            "!({} && isQuantity(string(self))) || quantity(string(self)).isGreaterThan(quantity('0'))",
            safe("self")
        ),
        "must be greater than 0; leave it out where there is none",
    )
}

fn request_within_limit(resource: &str) -> Rule {
    let [request, limit] = ["requests", "limits"].map(|of| format!("self.{of}.{resource}"));
    let both = format!("has(self.requests) && has(self.limits) && has({request}) && has({limit})");
    rule(
        &format!(
            "!({both} && {} && {}) || quantity(string({request})).compareTo(quantity(string({limit}))) <= 0",
            safe(&request),
            safe(&limit)
        ),
        &format!("requests.{resource} must not be above limits.{resource}"),
    )
}

pub(crate) fn cpu_request_within_limit() -> Rule {
    request_within_limit("cpu")
}

pub(crate) fn memory_request_within_limit() -> Rule {
    request_within_limit("memory")
}

/// The schema of a map of quantities. CPU and memory are named, so that their rules cost what two values cost and not what a
/// map of any size might; further resources (`nvidia.com/gpu`) are checked when the children are applied.
pub(crate) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    let mut named = |description: &str| {
        let mut value = generator.subschema_for::<Quantity>();
        value.insert("description".into(), description.into());
        value.insert("x-kubernetes-validations".into(), json!([quantity(), positive_quantity()]));
        value
    };
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "cpu": named("CPUs. Quote fractions. Example: `\"2\"`, `500m`, `\"0.5\"`."),
            "memory": named("Bytes. Example: `450Mi`."),
        },
    })
}

pub(crate) fn app_metrics() -> Rule {
    rule(
        "self.matches('^[0-9]{0,5}/[^ ]*$')",
        "must be a path, with the port before it where it isn't spec.port; examples: /metrics, 3001/metrics",
    )
}

pub(crate) fn stop_signal() -> Rule {
    rule(
        "self in ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH']",
        "must be SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 or SIGWINCH",
    )
}

pub(crate) fn reserved_labels() -> Rule {
    rule(
        "!self.exists(k, k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by'])",
        "app.kubernetes.io/name, app.kubernetes.io/instance and app.kubernetes.io/managed-by are set by the operator, which finds the pods by them: use other labels",
    )
}

pub(crate) fn reserved_annotations() -> Rule {
    rule(
        "!self.exists(k, k.startsWith('workerapp.dev/') || k.startsWith('deployment.kubernetes.io/'))",
        "those under workerapp.dev/ are set by the operator, and those under deployment.kubernetes.io/ by Kubernetes: use another prefix",
    )
}
