//! The Deployment: the app's container behind the supervisor, and the init container that brings the supervisor.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, HTTPGetAction, PodSpec,
            PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
            TopologySpreadConstraint, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity as KubeQuantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use workerapp_api::{ImagePullPolicy, Resources, WorkerApp, names};

use crate::{
    Facts, Workers, digest, metadata,
    runtime::Profile,
    supervisor::{self, admin_port, grace_seconds},
};

/// The user under which the init container runs: any that isn't root.
const INSTALL_UID: i64 = 65532;

pub(crate) fn build(app: &WorkerApp, profile: &Profile, workers: &Workers, facts: &Facts) -> Deployment {
    let spec = &app.spec;
    digest::stamp(Deployment {
        metadata: metadata::child(app, |children| children.deployment.as_ref()),
        spec: DeploymentSpec {
            // With an autoscaler the number is its own; without either field it is whoever's who scales the Deployment.
            replicas: if spec.autoscaling.is_some() { None } else { spec.replicas },
            selector: LabelSelector {
                match_labels: Some(metadata::selector(app)),
                ..LabelSelector::default()
            },
            strategy: Some(spec.strategy.clone().map_or_else(never_fewer, complete)),
            min_ready_seconds: spec.min_ready_seconds,
            progress_deadline_seconds: spec.progress_deadline_seconds,
            revision_history_limit: spec.revision_history_limit,
            template: PodTemplateSpec {
                metadata: Some(pod_metadata(app)),
                spec: Some(pod(app, profile, workers, facts)),
            },
            ..DeploymentSpec::default()
        },
        status: None,
    })
}

/// With the time of the last restart that was asked for: a template that differs makes new pods.
fn pod_metadata(app: &WorkerApp) -> ObjectMeta {
    let mut metadata = metadata::pod_template(app, |children| children.pod.as_ref());
    if let Some(time) = &app.spec.restart_at {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(names::ANNOTATION_RESTARTED.into(), time.clone());
    }
    metadata
}

/// Pods of the same template go evenly over the nodes, as far as these have room.
///
/// Whatever the number of pods, so that changing it restarts none. Nodes only: a constraint on zones would make the scheduler
/// overlook every node that isn't labelled with one.
fn spread_over_nodes(app: &WorkerApp) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".into(),
        when_unsatisfiable: "ScheduleAnyway".into(),
        label_selector: Some(LabelSelector {
            match_labels: Some(metadata::selector(app)),
            ..LabelSelector::default()
        }),
        match_label_keys: Some(vec!["pod-template-hash".into()]),
        ..TopologySpreadConstraint::default()
    }
}

/// A rolling update that never goes below the wanted number of pods.
fn never_fewer() -> DeploymentStrategy {
    DeploymentStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDeployment {
            max_unavailable: Some(IntOrString::Int(0)),
            max_surge: Some(IntOrString::String("25%".into())),
        }),
    }
}

/// Names what Kubernetes would fill in, with its own values. A default belongs to nobody: it would stay when the strategy changes to
/// `Recreate`, with which it must not stand.
fn complete(mut strategy: DeploymentStrategy) -> DeploymentStrategy {
    if strategy.type_.as_deref().unwrap_or("RollingUpdate") == "RollingUpdate" {
        let rolling = strategy.rolling_update.get_or_insert_default();
        let quarter = || IntOrString::String("25%".into());
        rolling.max_surge.get_or_insert_with(quarter);
        rolling.max_unavailable.get_or_insert_with(quarter);
    }
    strategy
}

fn pod(app: &WorkerApp, profile: &Profile, workers: &Workers, facts: &Facts) -> PodSpec {
    let spec = &app.spec;
    let mut volumes = vec![Volume {
        name: names::VOLUME_SUPERVISOR.into(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }];
    volumes.extend(spec.volumes.iter().cloned().map(with_source));
    PodSpec {
        init_containers: Some(vec![install(app, facts)]),
        containers: vec![container(app, profile, workers)],
        volumes: Some(volumes),
        security_context: spec.pod_security_context.clone(),
        service_account_name: spec.service_account_name.clone(),
        // The API server mirrors the name into this older field. Sent too, it goes when the name goes; else it would bring the
        // former account back.
        service_account: spec.service_account_name.clone(),
        automount_service_account_token: spec.automount_service_account_token,
        image_pull_secrets: non_empty(spec.image_pull_secrets.clone()),
        node_selector: Some(spec.node_selector.clone()).filter(|selector| !selector.is_empty()),
        tolerations: non_empty(spec.tolerations.clone()),
        affinity: spec.affinity.clone(),
        topology_spread_constraints: Some(match spec.topology_spread_constraints.as_slice() {
            [] => vec![spread_over_nodes(app)],
            given => given.to_vec(),
        }),
        priority_class_name: spec.priority_class_name.clone(),
        runtime_class_name: spec.runtime_class_name.clone(),
        termination_grace_period_seconds: Some(grace_seconds(app).into()),
        ..PodSpec::default()
    }
}

/// Copies the supervisor into the shared volume.
///
/// It has the app's own CPU and memory: a pod counts the larger of its init containers' and its containers' needs, so this
/// adds nothing, and quotas, LimitRanges and the quality-of-service class see the pod as they would without it. Its security context meets
/// the Pod Security level *restricted*.
fn install(app: &WorkerApp, facts: &Facts) -> Container {
    Container {
        name: names::CONTAINER_INSTALL.into(),
        image: Some(facts.supervisor_image.clone()),
        image_pull_policy: Some(
            facts
                .supervisor_pull_policy
                .clone()
                .unwrap_or_else(|| default_pull_policy(&facts.supervisor_image)),
        ),
        command: Some(vec![
            names::SUPERVISOR_IN_IMAGE.into(),
            "install".into(),
            names::SUPERVISOR_PATH.into(),
        ]),
        resources: app.spec.resources.as_ref().map(|resources| requirements(resources, &["cpu", "memory"])),
        volume_mounts: Some(vec![supervisor_mount(false)]),
        security_context: Some(SecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(INSTALL_UID),
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn container(app: &WorkerApp, profile: &Profile, workers: &Workers) -> Container {
    let spec = &app.spec;
    let mut mounts = vec![supervisor_mount(true)];
    mounts.extend(spec.volume_mounts.iter().cloned());
    Container {
        name: names::CONTAINER_APP.into(),
        image: Some(spec.image.clone()),
        image_pull_policy: Some(match spec.image_pull_policy {
            Some(ImagePullPolicy::Always) => "Always".into(),
            Some(ImagePullPolicy::IfNotPresent) => "IfNotPresent".into(),
            Some(ImagePullPolicy::Never) => "Never".into(),
            None => default_pull_policy(&spec.image),
        }),
        command: Some(supervisor::command(app, profile, workers)),
        args: Some((profile.command)(spec.command.iter().chain(&spec.args).cloned().collect(), spec.port)),
        working_dir: spec.working_dir.clone(),
        ports: Some(container_ports(app, profile)),
        env: Some(environment(app, workers)),
        env_from: non_empty(spec.env_from.clone()),
        resources: spec.resources.as_ref().map(|resources| requirements(resources, &[])),
        readiness_probe: Some(spec.readiness_probe.clone().unwrap_or_else(ready)),
        liveness_probe: Some(spec.liveness_probe.clone().unwrap_or_else(alive)),
        startup_probe: spec.startup_probe.clone(),
        lifecycle: spec.lifecycle.clone(),
        volume_mounts: Some(mounts),
        security_context: spec.security_context.clone(),
        // When the supervisor gives up, the app's last lines tell more than nothing.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        ..Container::default()
    }
}

/// The operator's variables first, so that the app's own may refer to them; its own win.
fn environment(app: &WorkerApp, workers: &Workers) -> Vec<EnvVar> {
    let own = |name: &str| app.spec.env.iter().any(|variable| variable.name == name);
    let injected = [
        (names::ENV_PORT, app.spec.port.to_string()),
        (names::ENV_HOSTNAME, "0.0.0.0".to_owned()),
        (names::ENV_WORKERS, workers.count.to_string()),
    ];
    injected
        .into_iter()
        .filter(|(name, _)| !own(name))
        .map(|(name, value)| EnvVar { name: name.into(), value: Some(value), value_from: None })
        .chain(app.spec.env.iter().cloned())
        .collect()
}

fn container_ports(app: &WorkerApp, profile: &Profile) -> Vec<ContainerPort> {
    let port = |name: &str, port: i32| ContainerPort {
        name: Some(name.into()),
        container_port: port,
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    };
    let mut ports = vec![port(names::PORT_APP, app.spec.port)];
    ports.extend(app.spec.ports.iter().map(|extra| port(&extra.name, extra.port)));
    ports.push(port(names::PORT_ADMIN, admin_port(app)));
    ports.extend(profile.metrics_port.map(|metrics| port(names::PORT_METRICS, metrics)));
    ports
}

/// Traffic may come while a worker listens. Every 2 s, so that a fresh pod is taken in quickly.
fn ready() -> Probe {
    Probe {
        period_seconds: Some(2),
        timeout_seconds: Some(2),
        failure_threshold: Some(2),
        ..admin_probe("/readyz")
    }
}

/// Restarted only when the supervisor itself has answered nothing for a minute: load on the app must not lead there.
fn alive() -> Probe {
    Probe {
        period_seconds: Some(10),
        timeout_seconds: Some(5),
        failure_threshold: Some(6),
        ..admin_probe("/livez")
    }
}

fn admin_probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String(names::PORT_ADMIN.into()),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    }
}

fn supervisor_mount(read_only: bool) -> VolumeMount {
    VolumeMount {
        name: names::VOLUME_SUPERVISOR.into(),
        mount_path: names::SUPERVISOR_DIR.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// The resources named in `only`, or all where it is empty; rounded up to thousandths, as the API server does.
fn requirements(resources: &Resources, only: &[&str]) -> ResourceRequirements {
    let take = |quantities: &std::collections::BTreeMap<String, workerapp_api::Quantity>| {
        let taken: std::collections::BTreeMap<_, _> = quantities
            .iter()
            .filter(|(name, _)| only.is_empty() || only.contains(&name.as_str()))
            .map(|(name, quantity)| (name.clone(), KubeQuantity(quantity.rounded_to_milli().to_string())))
            .collect();
        Some(taken).filter(|taken| !taken.is_empty())
    };
    ResourceRequirements {
        requests: take(&resources.requests),
        limits: take(&resources.limits),
        claims: None,
    }
}

/// What the API server would choose. Chosen by it, the policy would belong to nobody and stay when the image changes.
fn default_pull_policy(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if latest { "Always" } else { "IfNotPresent" }.into()
}

/// A volume without a source is an empty directory; said outright, it can be given another source later.
fn with_source(volume: Volume) -> Volume {
    let bare = Volume { name: volume.name.clone(), ..Volume::default() };
    if volume == bare { Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..bare } } else { volume }
}

/// Empty lists are not sent: they would claim the field for the operator.
fn non_empty<T>(items: Vec<T>) -> Option<Vec<T>> {
    Some(items).filter(|items| !items.is_empty())
}
