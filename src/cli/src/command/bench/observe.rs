//! What the cluster says of a target's pods before, while and after a run.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tokio::task::JoinHandle;
use workerapp_bench::results::{Observations, Replicas};

use super::targets::Target;
use crate::{
    cluster::Cluster,
    error::Error,
    view::observed::{self, Seen},
};

/// Between looks at the number of pods.
const LOOK: Duration = Duration::from_secs(2);

/// Looks at one target at a time.
pub(super) struct Observer {
    targets: Vec<Target>,
    cluster: Option<Cluster>,
    run: Option<Run>,
}

/// The run that goes on.
struct Run {
    cluster: Cluster,
    service: Service,
    first: Seen,
    begin: Instant,
    /// The end of the warm-up, and what was seen then.
    measured: Option<(Instant, JoinHandle<Result<Seen, Error>>)>,
    replicas: Arc<Mutex<Vec<Replicas>>>,
    looking: JoinHandle<()>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.looking.abort();
        if let Some((_, look)) = &self.measured {
            look.abort();
        }
    }
}

impl Observer {
    pub(super) fn new(targets: Vec<Target>, cluster: Option<Cluster>) -> Self {
        Self { targets, cluster, run: None }
    }

    /// Before a run of this target. A URL has nothing to look at.
    pub(super) async fn begin(&mut self, target: usize) -> Result<(), Error> {
        self.run = None;
        let service = self.targets.get(target).and_then(|target| target.service.clone());
        let (Some(cluster), Some(service)) = (self.cluster.clone(), service) else { return Ok(()) };
        let first = seen(&cluster, &service).await?;
        let begin = Instant::now();
        let now = Replicas { seconds: 0.0, ready: first.ready(), wanted: first.wanted() };
        let replicas = Arc::new(Mutex::new(vec![now]));
        let looking = look(cluster.clone(), service.clone(), begin, Arc::clone(&replicas));
        self.run = Some(Run { cluster, service, first, begin, measured: None, replicas, looking });
        Ok(())
    }

    /// The warm-up is over. To be called where a runtime is; it doesn't wait for the look.
    pub(super) fn measuring(&mut self, runtime: &tokio::runtime::Handle) {
        if let Some(run) = &mut self.run {
            let (cluster, service) = (run.cluster.clone(), run.service.clone());
            let look = runtime.spawn(async move { seen(&cluster, &service).await });
            run.measured = Some((Instant::now(), look));
        }
    }

    /// After it: what was seen. The next run of the same target may follow: this begins it.
    pub(super) async fn end(&mut self) -> Result<Observations, Error> {
        let Some(run) = &mut self.run else { return Ok(Observations::default()) };
        let last = seen(&run.cluster, &run.service).await?;
        let elapsed = run.begin.elapsed();
        let mut replicas = run.replicas.lock().unwrap_or_else(PoisonError::into_inner).clone();
        replicas.push(Replicas {
            seconds: elapsed.as_secs_f64(),
            ready: last.ready(),
            wanted: last.wanted(),
        });
        let (warm_up, measured) = match run.measured.take() {
            // A task that was ended, or a look that failed, leaves the first one.
            Some((at, look)) => (at.duration_since(run.begin), look.await.ok().and_then(Result::ok)),
            None => (Duration::ZERO, None),
        };
        let replicas = observed::since(&replicas, warm_up);
        let seen = observed::between(&run.first, measured.as_ref().unwrap_or(&run.first), &last, replicas);
        // Rates of a new begin count from here.
        run.first = last;
        Ok(seen)
    }
}

/// Looks at the number of pods again and again.
fn look(
    cluster: Cluster,
    service: Service,
    begin: Instant,
    replicas: Arc<Mutex<Vec<Replicas>>>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
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
