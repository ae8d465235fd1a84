//! `--suite`: apps that are made for a measurement, measured as the suite says, and removed whatever happens.
//!
//! - `file`: the suite as a file
//! - `stand`: its apps in the cluster
//! - `claims`: what others published, beside what was measured
//! - `performance`: a page of several suites

mod claims;
mod file;
pub(super) mod performance;
mod stand;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use kube::ResourceExt as _;
use workerapp_api::{WorkerApp, names};
use workerapp_bench::{
    Load, Plan,
    campaign::Campaign,
    comparison::compare,
    results::{Provenance, Results},
};

pub(crate) use file::Error as SuiteError;

use super::{Arguments, INTERRUPTED, flags::Settings, interrupted, job, targets};
use crate::{
    cluster::{Cluster, Place},
    error::Error,
    output,
    view::place,
};
use file::{Ask, Suite};
use stand::Stand;

/// How long a node's tables may take to know a pod that is ready.
const ANSWERS_WITHIN: Duration = Duration::from_mins(1);
/// How long each address is asked at first, and at most: the first request of a cold server can take seconds.
const QUESTION: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Flags of a suite.
#[derive(Args)]
#[command(next_help_heading = "Suite")]
pub(crate) struct SuiteFlags {
    /// Make the apps of this suite, measure them as it says, and remove them; other flags win over it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "service", "port_name", "path"])]
    pub(super) suite: Option<PathBuf>,
    /// A change that the suite has a name for, such as `small`; repeatable
    #[arg(long, value_name = "NAME", requires = "suite")]
    variant: Vec<String>,
    /// Leave the apps there afterwards
    #[arg(long, requires = "suite")]
    keep: bool,
}

/// Measures a suite.
pub(super) async fn run(
    file: &std::path::Path,
    arguments: &Arguments,
    place: &Place,
) -> Result<ExitCode, Error> {
    let flags = &arguments.suite;
    if place.all_namespaces {
        let allowed = "it stands in one namespace: -n NAME says which, and not -A".to_owned();
        return Err(Error::Flag { flag: "suite", value: file.display().to_string(), allowed });
    }
    let (suite, apps) = file::read(file, &flags.variant)?;
    let load = arguments.load.or(&suite.protocol);
    let settings = load.settings()?;
    let cluster = place.connect().await?;
    let stand = Stand { cluster: &cluster, suite: &suite.name, apps: &apps };
    stand.check().await?;

    let served = match whole(stand.make()).await {
        (Ok(()), false) => unless_interrupted(stand.until_served()).await,
        (Ok(()), true) => None,
        (Err(error), _) => Some(Err(error)),
    };
    let outcome = match served {
        Some(Ok(())) => measure(&suite, &apps, arguments, &settings, &cluster, &load).await,
        Some(Err(error)) => Err(error),
        None => Ok(None),
    };
    let ended = end(&stand, flags.keep).await;
    let results = outcome?;
    if let Some(results) = &results {
        arguments.report.write(results)?;
        let claims = claims::text(&suite, results);
        if !claims.is_empty() && arguments.report.is_text() {
            output::print(&claims)?;
        }
    }
    Ok(match results {
        Some(results) if ended? => super::exit_code(&results),
        _ => ExitCode::from(INTERRUPTED),
    })
}

/// Removes the apps unless they are to be kept. False: it was interrupted in this too.
async fn end(stand: &Stand<'_>, keep: bool) -> Result<bool, Error> {
    if !keep && let Some(removed) = unless_interrupted(stand.take_down()).await {
        return removed.map(|()| true);
    }
    output::note(&left(stand.suite, stand.cluster));
    Ok(keep)
}

/// How what is left is removed.
fn left(suite: &str, cluster: &Cluster) -> String {
    format!(
        "suite {0}: its apps are left there; remove them with: kubectl delete workerapps -n {1} -l {2}={0}",
        suite,
        cluster.namespace,
        names::LABEL_SUITE
    )
}

/// What comes of `work`, and whether Ctrl-C came meanwhile: what is on its way to the API server can't be called back.
async fn whole<T>(work: impl Future<Output = T>) -> (T, bool) {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => (done, false),
        () = interrupted() => (work.await, true),
    }
}

/// What comes of `work`; nothing if Ctrl-C comes first.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = interrupted() => None,
    }
}

/// Everything that the suite asks for, one campaign each, as one document; nothing if it was stopped before the first run.
async fn measure(
    suite: &Suite,
    apps: &[WorkerApp],
    arguments: &Arguments,
    settings: &Settings,
    cluster: &Cluster,
    load: &super::LoadFlags,
) -> Result<Option<Results>, Error> {
    let hosts = cluster.nodes().await?.map(|nodes| place::node_addresses(&nodes)).unwrap_or_default();
    let versions = versions(apps, cluster).await?;
    let mut whole: Option<Results> = None;
    for ask in &suite.requests {
        let targets = targets_of(ask, apps, cluster, &hosts, arguments).await?;
        let campaign = settings.campaign(&targets)?;
        campaign.check()?;
        output::note(&format!(
            "{}: {}, seed {}",
            ask.path,
            output::counted(campaign.turns().len(), "run"),
            campaign.seed
        ));
        let results = if arguments.job.in_cluster {
            let words = load.words(campaign.seed, campaign.rounds);
            let task = job::Task { targets: &targets, load: &words, threads: settings.threads() };
            match job::measure(&arguments.job, cluster, task).await? {
                Ok(results) => results,
                Err(_) => break,
            }
        } else {
            match unless_interrupted(until_all_answer(&campaign)).await {
                Some(answered) => answered?,
                None => break,
            }
            let provenance =
                Provenance::here("kubectl-workerapp", env!("CARGO_PKG_VERSION"), Some(campaign.seed));
            let found = targets::Found { targets, cluster: Some(cluster.clone()), versions: Vec::new() };
            super::here(campaign, provenance, found, false, Some(left(&suite.name, cluster))).await?
        };
        let stopped = results.provenance.interrupted;
        add(&mut whole, results, ask, suite);
        if stopped {
            break;
        }
    }
    if let Some(results) = &mut whole {
        results.title.clone_from(&suite.title);
        results.provenance.versions.extend(versions);
        results.comparisons = compare(results, results.provenance.seed.unwrap_or_default());
    }
    Ok(whole)
}

/// Adds a campaign to what there is: its rows are those of what was asked for.
fn add(whole: &mut Option<Results>, mut more: Results, ask: &Ask, suite: &Suite) {
    if suite.requests.len() > 1 {
        for run in &mut more.runs {
            run.row = format!("{}, {}", ask.path, run.row);
        }
    }
    let Some(whole) = whole else {
        *whole = Some(more);
        return;
    };
    for target in more.targets {
        if !whole.targets.contains(&target) {
            whole.targets.push(target);
        }
    }
    whole.runs.extend(more.runs);
    whole.provenance.finished = more.provenance.finished;
    whole.provenance.interrupted |= more.provenance.interrupted;
}

async fn targets_of(
    ask: &Ask,
    apps: &[WorkerApp],
    cluster: &Cluster,
    hosts: &[String],
    arguments: &Arguments,
) -> Result<Vec<targets::Target>, Error> {
    let mut targets = Vec::new();
    for app in apps.iter().filter(|app| ask.of(app)) {
        let name = app.name_any();
        let service = cluster
            .service(&name)
            .await?
            .ok_or_else(|| Error::Service { name, why: "it has gone".to_owned() })?;
        targets.push(targets::target(&service, arguments, &ask.path, hosts, false)?);
    }
    Ok(targets)
}

/// A pod is ready a moment before every node's tables know it, and a path that isn't there is better told before an hour's load.
async fn until_all_answer(campaign: &Campaign) -> Result<(), Error> {
    let deadline = tokio::time::Instant::now() + ANSWERS_WITHIN;
    for contender in &campaign.contenders {
        let mut plan = Plan {
            load: Load::Capacity,
            connections: contender.plan.addresses.len(),
            threads: 1,
            warm_up: Duration::ZERO,
            duration: QUESTION.0,
            ..contender.plan.clone()
        };
        loop {
            let question = plan.clone();
            let asked = tokio::task::spawn_blocking(move || {
                workerapp_bench::run(&question, &workerapp_bench::Control::default())
            });
            let report =
                asked.await.map_err(|_| workerapp_bench::Error::Internal("a question ended by itself"))??;
            if report.connections.iter().all(|answers| *answers > 0) {
                break;
            }
            if tokio::time::Instant::now() > deadline {
                let kinds: Vec<_> = report.failures.keys().map(|kind| kind.name()).collect();
                let why = if kinds.is_empty() { "no answer".to_owned() } else { kinds.join(", ") };
                return Err(Error::SuiteSilent {
                    app: contender.name.clone(),
                    url: contender.url.clone(),
                    why,
                });
            }
            plan.duration = (2 * plan.duration).min(QUESTION.1);
        }
    }
    Ok(())
}

/// What took part: the cluster, and of each app the image with its digest, and its workers with the reason.
async fn versions(apps: &[WorkerApp], cluster: &Cluster) -> Result<Vec<(String, String)>, Error> {
    let mut versions = vec![("Kubernetes".to_owned(), cluster.version().await?.git_version)];
    for app in apps {
        let found = cluster.app(&app.name_any()).await?;
        let pods = cluster.pods(&found).await?;
        let status = found.status.clone().unwrap_or_default();
        let digest = pods.iter().find_map(digest).unwrap_or_default();
        let text = format!(
            "{}{digest}, {}, {:?}: {}",
            found.spec.image,
            output::counted(pods.len(), "pod"),
            found.spec.runtime.unwrap_or_default(),
            status.workers_reason.unwrap_or_default()
        );
        versions.push((app.name_any(), text));
    }
    Ok(versions)
}

/// The begin of the digest of the image that a pod runs.
fn digest(pod: &k8s_openapi::api::core::v1::Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let app = statuses.iter().find(|status| status.name == names::CONTAINER_APP)?;
    let (_, digest) = app.image_id.rsplit_once("sha256:")?;
    Some(format!(" (sha256:{})", digest.get(..12)?))
}
