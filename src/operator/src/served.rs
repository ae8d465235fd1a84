//! Which of the workers' metrics autoscalers get an answer for: asked of the API server's discovery, whoever serves them.
//!
//! An autoscaler that names a metric nobody serves never removes a pod again, so that apps name one only while it is there.
//! Where a server has just gone the apps wait a while: it may be back before anybody misses it, and meanwhile an autoscaler
//! holds the number of pods.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use workerapp_plan::Served;

use crate::{controller::Controller, sync::lock};

/// How often it is asked.
const LOOK: Duration = Duration::from_secs(15);
/// How long a server may be away.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The versions of the group, the one that autoscalers prefer first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct ServedMetrics(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    served: Served,
    /// The version by which they were last answered.
    version: Option<&'static str>,
    /// Since when nobody answers.
    away: Option<Instant>,
}

impl ServedMetrics {
    /// As of now.
    pub(crate) fn get(&self) -> Served {
        lock(&self.0).served.clone()
    }

    /// The version of the group to ask.
    pub(crate) fn version(&self) -> &'static str {
        lock(&self.0).version.unwrap_or(VERSIONS[0])
    }

    /// Takes in an answer; says whether it changes anything for the apps.
    fn take_in(&self, answer: Answer, now: Instant) -> bool {
        let mut known = lock(&self.0);
        let served = match answer {
            Answer::Metrics(version, metrics) => {
                known.away = None;
                known.version = Some(version);
                metrics
            }
            // There is no such API (any more), or it has answered nobody for too long.
            Answer::None => BTreeSet::new(),
            Answer::Away if known.served == Served::Unknown => BTreeSet::new(),
            Answer::Away => {
                let since = *known.away.get_or_insert(now);
                if now.duration_since(since) < PATIENCE {
                    return false;
                }
                BTreeSet::new()
            }
            Answer::Nothing => return false,
        };
        let served = Served::Only(served);
        std::mem::replace(&mut known.served, served.clone()) != served
    }
}

/// What the API server says about the group.
#[derive(Debug)]
enum Answer {
    /// These metrics of pods are there, in this version.
    Metrics(&'static str, BTreeSet<String>),
    /// Nobody has the group.
    None,
    /// Somebody has it, and doesn't answer.
    Away,
    /// The API server itself doesn't answer, which says nothing.
    Nothing,
}

/// Asks once, so that the first plans are made with what is known.
pub(crate) async fn first(controller: &Controller) {
    let context = &controller.context;
    context.served.take_in(ask(&context.client).await, Instant::now());
}

/// Asks again and again, for ever, and has the apps looked at when something has changed.
pub(crate) async fn follow(controller: Arc<Controller>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let context = &controller.context;
        if context.served.take_in(ask(&context.client).await, Instant::now()) {
            tracing::info!(
                "the metrics of workers that autoscalers can be given are now {:?}",
                context.served.get()
            );
            controller.look_at_all();
        }
    }
}

async fn ask(client: &Client) -> Answer {
    let mut answer = Answer::None;
    for version in VERSIONS {
        match tokio::time::timeout(TIMEOUT, resources(client, version)).await {
            Ok(Ok(list)) => return Answer::Metrics(version, metrics(list)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
            Ok(Err(kube::Error::Api(status))) if status.code == 503 => answer = Answer::Away,
            _ => return Answer::Nothing,
        }
    }
    answer
}

async fn resources(client: &Client, version: &str) -> kube::Result<APIResourceList> {
    client.list_api_group_resources(&format!("custom.metrics.k8s.io/{version}")).await
}

/// The names of the metrics of pods.
fn metrics(list: APIResourceList) -> BTreeSet<String> {
    let names = list.resources.into_iter();
    names.filter_map(|resource| Some(resource.name.strip_prefix("pods/")?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use workerapp_plan::Served;

    use super::{Answer, PATIENCE, ServedMetrics};

    fn metrics() -> Answer {
        Answer::Metrics("v1beta2", ["workerapp_busy_workers".to_owned()].into())
    }

    #[test]
    fn a_server_that_is_away_for_a_moment_changes_nothing() {
        let known = ServedMetrics::default();
        let start = Instant::now();
        assert!(known.take_in(metrics(), start));
        assert!(!known.take_in(metrics(), start));
        assert!(!known.take_in(Answer::Away, start));
        assert!(!known.take_in(Answer::Nothing, start + PATIENCE));
        assert!(!known.take_in(Answer::Away, start + PATIENCE.mul_f64(0.9)));
        // Back again: the patience begins anew.
        assert!(!known.take_in(metrics(), start + PATIENCE));
        assert!(!known.take_in(Answer::Away, start + PATIENCE * 2));
        assert!(known.take_in(Answer::Away, start + PATIENCE * 3));
        assert_eq!(known.get(), Served::Only([].into()));
        assert!(known.take_in(metrics(), start + PATIENCE * 4));
        assert!(known.take_in(Answer::None, start + PATIENCE * 4), "an API that was removed won't be back");
    }

    #[test]
    fn at_first_nothing_is_promised() {
        let known = ServedMetrics::default();
        assert!(!known.take_in(Answer::Nothing, Instant::now()));
        assert!(known.take_in(Answer::Away, Instant::now() + Duration::from_secs(1)));
        assert_eq!(known.get(), Served::Only([].into()));
    }
}
