//! Why a command could not do its work: one variant per cause, with what there is to do about it.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{command::bench::SuiteError, manifest};

/// What ends a command.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Manifest(#[from] manifest::Error),

    #[error("the kubeconfig {place} has no context {name:?}; choose with --context: {known}")]
    UnknownContext { name: String, place: String, known: String },
    #[error("the kubeconfig {place} has no current context; choose with --context: {known}")]
    NoContext { place: String, known: String },
    #[error("the kubeconfig {place} can't be used: {why}; name another with --kubeconfig or KUBECONFIG")]
    Kubeconfig { place: String, why: String },
    #[error(
        "no cluster is configured: the kubeconfig {place} isn't there, and this isn't a pod; name one with --kubeconfig or KUBECONFIG"
    )]
    NoCluster { place: String },
    #[error(
        "this pod's service account can't be used: {why}; name a kubeconfig with --kubeconfig or KUBECONFIG"
    )]
    ServiceAccount { why: String },
    #[error("no connection to {server} can be set up: {why}; the address is that of {origin}")]
    Client { server: String, origin: String, why: String },
    #[error(
        "the API server {server} can't be reached: {why}; the address is that of {origin}: does that cluster run, or is another meant (--context, --kubeconfig)?"
    )]
    Unreachable { server: String, origin: String, why: String },
    #[error("{what}: {why}")]
    Api { what: String, why: String },
    #[error("{what}: you lack the permission: {why}")]
    Forbidden { what: String, why: String },
    #[error(
        "this cluster has no WorkerApps: the definition is missing; install the operator (helm upgrade --install workerapp-operator …) or see `doctor`"
    )]
    NoDefinition,
    #[error("there is no WorkerApp {name:?} in namespace {namespace:?}{known}")]
    NoApp { name: String, namespace: String, known: String },
    #[error(
        "APP {name} and -A: a name belongs to one namespace; choose it with -n NAME, or leave the name out"
    )]
    NameEverywhere { name: String },
    #[error(
        "-n {asked}: WorkerApp {name} in the file belongs to namespace {namespace:?}; leave -n out, or change metadata.namespace"
    )]
    OtherNamespace { name: String, namespace: String, asked: String },
    #[error(
        "WorkerApp {name} stays paused: its spec.paused is true, which `resume` leaves to whoever holds its manifest; remove it there, and apply that"
    )]
    PausedBySpec { name: String },
    #[error("WorkerApp {name} has no Deployment yet; `status {name}` says why")]
    NoDeployment { name: String },
    #[error("WorkerApp {name} has no pods; `status {name}` says why")]
    NoPods { name: String },
    #[error(
        "no pod of WorkerApp {name} says anything about its workers; `status {name}` says how the pods are"
    )]
    NoWorkers { name: String },

    #[error("the file holds {count} WorkerApps ({known}): name one with --app")]
    WhichApp { count: usize, known: String },
    #[error("--app {name}: the file has no such WorkerApp; it has {known}")]
    NotInFile { name: String, known: String },
    #[error("these variables come from the cluster, which `run` doesn't ask:\n{}\npass each with --env NAME=VALUE, or all of them with --env-file FILE", listed(.missing))]
    ClusterEnv { missing: Vec<String> },
    #[error("--env {given}: {why}; example: --env DATABASE_URL=postgres://localhost/shop")]
    Env { given: String, why: &'static str },
    #[error("--env-file {}: {why}", file.display())]
    EnvFile { file: PathBuf, why: String },
    #[error("port {port} can't be listened on: {source}; free it, or choose another with {flag}")]
    PortTaken { port: u16, flag: &'static str, source: io::Error },
    #[error(
        "the program workerapp-supervisor isn't there; looked for {looked}; build it with `cargo build -p workerapp-supervisor`, or name it with --supervisor"
    )]
    NoSupervisor { looked: String },
    #[error("{program} can't be started: {source}", program = program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("-C {}: {source}; name a directory in which the command is to run", directory.display())]
    Directory { directory: PathBuf, source: io::Error },

    #[error(
        "no Service with the annotation {annotation}: \"true\" in {place}; annotate one (spec.service.expose of a WorkerApp does it), choose a namespace with -n or -A, or name URLs"
    )]
    NothingToMeasure { annotation: &'static str, place: String },
    #[error("Service {name}: {why}")]
    Service { name: String, why: String },
    #[error("--{flag} {value}: {allowed}")]
    Flag { flag: &'static str, value: String, allowed: String },
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[error(
        "suite {suite} can't stand here:\n{}\nremove those first (what another suite left: kubectl delete workerapps -A -l {label}), or change service.nodePort in the suite's apps", listed(.problems)
    )]
    SuiteInTheWay { suite: String, problems: Vec<String>, label: &'static str },
    #[error("suite {suite}: not all of its apps serve:\n{}", listed(.why))]
    SuiteNotReady { suite: String, why: Vec<String> },
    #[error(
        "{app} doesn't answer at {url}: {why}; is the path right, and can this machine reach the nodes? --in-cluster makes the load in the cluster"
    )]
    SuiteSilent { app: String, url: String, why: String },
    #[error(
        "suite {suite}: these are still there in namespace {namespace} after 3 minutes:\n{}\nlook at what holds them: kubectl describe -n {namespace} workerapps", listed(.left)
    )]
    SuiteLeft { suite: String, namespace: String, left: Vec<String> },
    #[error("{0}")]
    Bench(#[from] workerapp_bench::Error),
    #[error("{path}: {error}")]
    Import { path: String, error: workerapp_bench::import::Error },
    #[error("{place} holds no results of `bench --report FILE.json`: {why}", place = place.display())]
    NoResults { place: PathBuf, why: String },
    #[error("{place} can't be read: {source}", place = place.display())]
    Read { place: PathBuf, source: io::Error },
    #[error("{place} can't be written: {source}", place = place.display())]
    WriteFile { place: PathBuf, source: io::Error },

    #[error("stdout can't be written: {0}")]
    Stdout(io::Error),
    /// The reader has seen enough (`| head`), which is no fault.
    #[error("stdout is closed")]
    Closed,
    #[error("this machine refused something that every command needs: {0}")]
    System(io::Error),
    #[error("a result can't be written as {format}: {why}")]
    Format { format: &'static str, why: String },
}

impl Error {
    /// Whether what was typed makes no sense, whatever there is in the file or the cluster.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Flag { .. }
                | Self::NameEverywhere { .. }
                | Self::OtherNamespace { .. }
                | Self::Bench(workerapp_bench::Error::Value { .. } | workerapp_bench::Error::Url { .. })
        )
    }
}

fn listed(items: &[String]) -> String {
    items.iter().map(|item| format!("  {item}")).collect::<Vec<_>>().join("\n")
}
