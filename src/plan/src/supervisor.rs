//! The supervisor and its flags, which stand in front of the app's own command.

use std::fmt::Display;

use workerapp_api::{SupervisorSpec, WorkerApp, names};

use crate::{
    Workers,
    runtime::{Processes, Profile, Sharing},
    workers::Rule,
};

/// The container's command; the app's own follows as the container's arguments.
///
/// A flag stands here only where it differs from the supervisor's own default, but for the ports and times that the
/// pod has to agree with.
pub(crate) fn command(app: &WorkerApp, profile: &Profile, workers: &Workers) -> Vec<String> {
    let spec = &app.spec;
    let overrides = spec.workers.clone().unwrap_or_default();
    let settings = spec.supervisor.clone().unwrap_or_default();
    let stop_signal = settings.stop_signal.clone().or_else(|| profile.stop_signal.map(str::to_owned));

    let mut flags = Flags::default();
    match workers.rule {
        Rule::Count => flags.add("workers", &workers.count),
        _ => flags.add("workers", &"auto"),
    }
    flags.add_some("max-workers", overrides.max);
    flags.add_some("memory-per-worker", overrides.memory_per_worker.map(|each| each.bytes()));
    flags.add_some("processes", (profile.processes == Processes::One).then_some(1));
    flags.add_some("sharing", (profile.sharing == Sharing::None).then_some("none"));
    flags.add("port", &spec.port);
    for extra in &spec.ports {
        flags.add("port", &extra.port);
    }
    flags.add("admin-port", &admin_port(app));
    flags.add("lame-duck", &lame_duck_seconds(&settings));
    flags.add("grace", &grace_seconds(app));
    flags.add_some("drain", settings.drain_seconds);
    flags.add_some("stop-signal", stop_signal);
    flags.add_some("affinity", keeps_clients(app).then_some(names::AFFINITY_CLIENT_IP));
    flags.add_some("hang-timeout", settings.hang_timeout_seconds);
    flags.add_some("max-age", settings.max_age_seconds);
    flags.add_some("max-memory", settings.max_memory.map(|most| most.bytes()));
    flags.add_some("max-requests", settings.max_requests);
    flags.add_some("connection-requests", settings.connection_max_requests);
    flags.add_some("connection-age", settings.connection_max_age_seconds);
    flags.add_some("app-metrics", settings.app_metrics);
    flags.add_some("log-prefix", settings.log_prefix.map(|on| if on { "on" } else { "off" }));
    flags.add_some("node-preload", settings.node_preload.map(|on| if on { "on" } else { "off" }));
    let own_count = spec.env.iter().any(|variable| variable.name == names::ENV_WORKERS);
    flags.add_some("keep-env", own_count.then_some(names::ENV_WORKERS));
    for variable in profile.variables {
        flags.add("worker-env", variable);
    }

    [names::SUPERVISOR_PATH.to_owned()].into_iter().chain(flags.0).chain(["--".to_owned()]).collect()
}

#[derive(Default)]
struct Flags(Vec<String>);

impl Flags {
    fn add(&mut self, name: &str, value: &dyn Display) {
        self.0.push(format!("--{name}={value}"));
    }

    fn add_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, &value);
        }
    }
}

/// Whether a client is to meet the same worker again.
pub(crate) fn keeps_clients(app: &WorkerApp) -> bool {
    let affinity = app.spec.service.as_ref().and_then(|service| service.session_affinity.as_deref());
    affinity == Some(names::AFFINITY_CLIENT_IP)
}

/// The port of probes and metrics.
pub(crate) fn admin_port(app: &WorkerApp) -> i32 {
    let set = app.spec.supervisor.as_ref().and_then(|supervisor| supervisor.admin_port);
    set.unwrap_or(i32::from(names::DEFAULT_ADMIN_PORT))
}

/// From being told to stop until being killed.
pub(crate) fn grace_seconds(app: &WorkerApp) -> u32 {
    let set = app.spec.termination_grace_period_seconds;
    set.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(names::DEFAULT_GRACE_SECONDS)
}

fn lame_duck_seconds(settings: &SupervisorSpec) -> u32 {
    let set = settings.lame_duck_seconds;
    set.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(names::DEFAULT_LAME_DUCK_SECONDS)
}
