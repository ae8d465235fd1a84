//! What goes with the runs: a line of progress, and what the cluster says of the pods before, while and after.

use std::{
    io::IsTerminal as _,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tokio::{runtime::Handle, task::JoinHandle};
use workerapp_bench::{
    Report, Watched,
    campaign::{Campaign, Contender, Turn, Watcher},
    results::{Observations, Replicas},
    search::Step,
};

use super::targets::Target;
use crate::{
    cluster::Cluster,
    error::Error,
    output,
    view::observed::{self, Seen},
};

/// Between looks at the number of pods.
const LOOK: Duration = Duration::from_secs(2);

/// Watches a campaign.
pub(crate) struct Watch {
    targets: Vec<Target>,
    cluster: Option<Cluster>,
    runtime: Handle,
    bar: Option<ProgressBar>,
    done: usize,
    turns: usize,
    rows: Vec<usize>,
    /// Of the run that goes on.
    before: Option<Before>,
}

struct Before {
    seen: Seen,
    begin: Instant,
    replicas: Arc<Mutex<Vec<Replicas>>>,
    looking: JoinHandle<()>,
}

impl Watch {
    /// To be made where the runtime is.
    pub(crate) fn new(campaign: &Campaign, targets: Vec<Target>, cluster: Option<Cluster>) -> Self {
        let turns = campaign.turns().len();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {wide_msg}");
            let bar = ProgressBar::new(1000);
            style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style.progress_chars("=> ")))
        });
        let rows = campaign.ladder.clone();
        Self { targets, cluster, runtime: Handle::current(), bar, done: 0, turns, rows, before: None }
    }

    fn service(&self, turn: &Turn) -> Option<(&Cluster, &Service)> {
        let service = self.targets.get(turn.contender)?.service.as_ref()?;
        Some((self.cluster.as_ref()?, service))
    }

    fn name(&self, turn: &Turn, contender: &Contender) -> String {
        let row = self
            .rows
            .get(turn.row)
            .map(|connections| format!(", {connections} connections"))
            .unwrap_or_default();
        format!("run {} of {}: {}{row}, round {}", self.done + 1, self.turns, contender.name, turn.round)
    }

    /// A line that stays.
    fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    fn observe(&mut self, turn: &Turn, contender: &Contender) -> Result<Observations, Error> {
        let Some(before) = self.before.take() else { return Ok(Observations::default()) };
        before.looking.abort();
        let Some((cluster, service)) = self.service(turn) else { return Ok(Observations::default()) };
        let after = self.runtime.block_on(seen(cluster, service))?;
        let mut replicas = before.replicas.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let elapsed = before.begin.elapsed();
        replicas.push(Replicas {
            seconds: elapsed.as_secs_f64(),
            ready: after.ready(),
            wanted: after.wanted(),
        });
        let replicas = observed::since(&replicas, contender.plan.warm_up);
        Ok(observed::between(&before.seen, &after, replicas))
    }
}

impl Watcher for Watch {
    fn before(&mut self, turn: &Turn, contender: &Contender) -> Result<(), workerapp_bench::Error> {
        let name = self.name(turn, contender);
        match &self.bar {
            Some(bar) => bar.set_prefix(name),
            None => output::note(&name),
        }
        let Some((cluster, service)) = self.service(turn) else { return Ok(()) };
        let seen = match self.runtime.block_on(seen(cluster, service)) {
            Ok(seen) => seen,
            Err(error) => {
                // The gates will say that nobody looked.
                output::note(&format!("{}: its pods can't be looked at: {error}", contender.name));
                return Ok(());
            }
        };
        let begin = Instant::now();
        let first = Replicas { seconds: 0.0, ready: seen.ready(), wanted: seen.wanted() };
        let replicas = Arc::new(Mutex::new(vec![first]));
        let looking = look(&self.runtime, cluster.clone(), service.clone(), begin, Arc::clone(&replicas));
        self.before = Some(Before { seen, begin, replicas, looking });
        Ok(())
    }

    fn progress(&mut self, _: &Turn, watched: &Watched) {
        let Some(bar) = &self.bar else { return };
        let part = watched.elapsed.as_secs_f64() / watched.planned.as_secs_f64().max(0.001);
        // Of the bar's thousand.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
        bar.set_position((part.clamp(0.0, 1.0) * 1000.0) as u64);
        let phase = if watched.warming_up { "warm-up  " } else { "" };
        let failed = if watched.progress.failed > 0 {
            format!("  {} failed", watched.progress.failed)
        } else {
            String::new()
        };
        bar.set_message(format!("{phase}{:.0}/s{failed}", watched.per_second));
    }

    fn tried(&mut self, _: &Turn, step: &Step) {
        let end = step.why.as_ref().map_or_else(|| "kept".to_owned(), |why| format!("not kept: {why}"));
        self.note(&format!("  {:.0}/s: {end}", step.per_second));
    }

    fn after(
        &mut self,
        turn: &Turn,
        contender: &Contender,
        report: &Report,
    ) -> Result<Observations, workerapp_bench::Error> {
        let told = format!(
            "{}: {:.0} requests/s, p99 {:.2} ms",
            self.name(turn, contender),
            report.per_second(),
            report.quantile_ms(0.99)
        );
        self.done += 1;
        self.note(&told);
        if let Some(bar) = self.bar.as_ref().filter(|_| self.done == self.turns || report.partial) {
            bar.finish_and_clear();
        }
        self.observe(turn, contender).or_else(|error| {
            output::note(&format!("{}: its pods can't be looked at: {error}", contender.name));
            Ok(Observations::default())
        })
    }
}

/// Looks at the number of pods again and again.
fn look(
    runtime: &Handle,
    cluster: Cluster,
    service: Service,
    begin: Instant,
    replicas: Arc<Mutex<Vec<Replicas>>>,
) -> JoinHandle<()> {
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(LOOK).await;
            let Ok((ready, wanted)) = cluster.replicas(&service).await else { continue };
            let now = Replicas { seconds: begin.elapsed().as_secs_f64(), ready, wanted };
            replicas.lock().unwrap_or_else(PoisonError::into_inner).push(now);
        }
    })
}

async fn seen(cluster: &Cluster, service: &Service) -> Result<Seen, Error> {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let pods = cluster.pods_of(service).await?;
    let (events, deployment, autoscaler) = futures::try_join!(
        cluster.events(&namespace),
        cluster.deployment(&namespace, &name),
        cluster.autoscaler(&namespace, &name),
    )?;
    Ok(Seen { at: Instant::now(), pods, events, deployment, autoscaler })
}
