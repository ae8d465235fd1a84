//! From nothing until every app has its children and its status.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube::{Api, api::ListParams};
use serde::Serialize;
use workerapp_api::{ConditionStatus, WorkerApp, WorkerAppStatus};
use workerapp_e2e::procfs;

use crate::{
    arguments::Effort,
    bare,
    cluster::{Cluster, added, name},
    operator::Operator,
    progress,
    results::Results,
};

/// One round: the operator and the loop, each in a namespace of its own.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) apps: usize,
    /// From the start of the operator's process until the last status is written.
    pub(crate) operator: Duration,
    /// The part of it until its caches were complete.
    pub(crate) ready: Duration,
    /// CPU time of the operator until then.
    pub(crate) cpu: Duration,
    pub(crate) bare: Duration,
    /// Resident memory afterwards, and at its highest.
    pub(crate) rss_mib: f64,
    pub(crate) peak_mib: f64,
    /// Writes for each app, as the operator counts them by kind, and the API server by resource.
    pub(crate) writes: BTreeMap<String, f64>,
    pub(crate) served: BTreeMap<String, f64>,
}

/// Takes turns: the one that begins a round ends the next. Each finds as many objects as the other.
pub(crate) async fn measure(cluster: &Cluster, effort: &Effort, results: &mut Results) -> Result<()> {
    let status = example(cluster).await?;
    for size in &effort.sizes {
        for round in 0..size.rounds {
            progress(&format!("{} apps, round {} of {}", size.apps, round + 1, size.rounds))?;
            let bare_first = round % 2 == 0;
            let before = if bare_first { Some(run_bare(cluster, size.apps, &status).await?) } else { None };
            let mut round = run_operator(cluster, size.apps).await?;
            round.bare = match before {
                Some(bare) => bare,
                None => run_bare(cluster, size.apps, &status).await?,
            };
            results.rounds.push(round);
        }
    }
    Ok(())
}

/// What the operator writes as the status of such an app.
async fn example(cluster: &Cluster) -> Result<WorkerAppStatus> {
    let (namespace, operator) = standing(cluster, 1).await?;
    operator.end().await?;
    cluster.apps(&namespace).get(&name(0)).await?.status.context("no status")
}

/// A namespace with so many settled apps, and the operator that settled them.
pub(crate) async fn standing(cluster: &Cluster, apps: usize) -> Result<(String, Operator)> {
    let namespace = cluster.namespace_of(apps).await?;
    let mut operator = Operator::start(cluster, &namespace).await?;
    let all = count(apps);
    operator.until("through with all apps", |metrics| metrics.written("WorkerApp") >= all).await?;
    operator.until_calm().await?;
    Ok((namespace, operator))
}

async fn run_bare(cluster: &Cluster, apps: usize, status: &WorkerAppStatus) -> Result<Duration> {
    let namespace = cluster.namespace_of(apps).await?;
    let took = bare::run(cluster, &namespace, status).await?;
    all_stand(&cluster.apps(&namespace), apps).await?;
    cluster.clear(&namespace).await?;
    Ok(took)
}

async fn run_operator(cluster: &Cluster, apps: usize) -> Result<Round> {
    let namespace = cluster.namespace_of(apps).await?;
    let before = cluster.writes().await?;
    let mut operator = Operator::start(cluster, &namespace).await?;
    let ready = operator.until("ready", crate::operator::Metrics::works).await?;
    let all = count(apps);
    let took = operator.until("through with all apps", |metrics| metrics.written("WorkerApp") >= all).await?;
    let cpu = operator.cpu()?;
    operator.until_calm().await?;
    let per_app =
        |counts: BTreeMap<String, f64>| counts.into_iter().map(|(what, n)| (what, n / all)).collect();
    let writes = per_app(operator.metrics().await?.writes());
    let served = per_app(added(&before, &cluster.writes().await?));
    let (rss_mib, peak_mib) =
        (procfs::memory_mib(operator.pid, "VmRSS")?, procfs::memory_mib(operator.pid, "VmHWM")?);
    operator.end().await?;
    all_stand(&cluster.apps(&namespace), apps).await?;
    cluster.clear(&namespace).await?;
    Ok(Round { apps, operator: took, ready, cpu, bare: Duration::ZERO, rss_mib, peak_mib, writes, served })
}

/// Nobody is fast by leaving something out.
async fn all_stand(api: &Api<WorkerApp>, apps: usize) -> Result<()> {
    let list = api.list(&ListParams::default()).await?;
    let stands = |app: &&WorkerApp| {
        let conditions = app.status.iter().flat_map(|status| &status.conditions);
        let mut reconciled = conditions.filter(|condition| condition.type_ == "Reconciled");
        reconciled.any(|condition| condition.status == ConditionStatus::True)
    };
    let standing = list.items.iter().filter(stands).count();
    ensure!(standing == apps, "{standing} of {apps} apps stand");
    Ok(())
}

/// As a number to compare counters with.
#[allow(clippy::cast_precision_loss, reason = "some thousand apps")]
pub(crate) fn count(apps: usize) -> f64 {
    apps as f64
}
