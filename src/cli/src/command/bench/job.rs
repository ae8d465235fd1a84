//! `--in-cluster`: the same program as a Job, away from the targets where there is room; removed afterwards.
//!
//! Its log has the progress, then the results as JSON. The pods are looked at from here: the log says when, and the Job needs no
//! permissions.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{ResourceExt as _, api::LogParams};
use serde_json::{Value, json};
use workerapp_api::names;
use workerapp_bench::{
    comparison::compare,
    gates::judge,
    results::{Observations, Results},
};

use super::{INTERRUPTED, events::Event, observe::Observer, targets::Target};
use crate::{cluster::Cluster, error::Error, output};

/// Between looks at the Job.
const AGAIN: Duration = Duration::from_millis(500);
/// How long its pod may take to start.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long a pod that is stopped may take to say what it has measured.
const LAST_WORDS: Duration = Duration::from_secs(15);
/// Removed by Kubernetes itself, should this program be ended before it can do so.
const LEFT_FOR_SECONDS: u32 = 600;

#[derive(Args)]
#[command(next_help_heading = "In the cluster")]
pub(crate) struct JobFlags {
    /// Make the load in the cluster, by a Job that is removed afterwards
    #[arg(long, conflicts_with = "targets")]
    pub(crate) in_cluster: bool,
    /// The image of that Job; default: the operator's
    #[arg(long, value_name = "IMAGE", requires = "in_cluster")]
    image: Option<String>,
    /// Tell whoever reads stderr when to look at the pods
    #[arg(long, hide = true)]
    pub(crate) events: bool,
}

/// What is measured, and how.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) targets: &'a [Target],
    /// Flags of the load.
    pub(crate) load: &'a [String],
    pub(crate) threads: usize,
}

/// What came of it; nothing if it was stopped.
pub(crate) async fn measure(
    flags: &JobFlags,
    cluster: &Cluster,
    task: Task<'_>,
) -> Result<Result<Results, ExitCode>, Error> {
    let (image, pull_policy) = image(flags, cluster).await?;
    let job = job(&image, pull_policy.as_deref(), task);
    // Before there is something to remove, since a signal would else end this program at once.
    let mut interrupt = tokio::spawn(super::interrupted());
    let made = cluster.make_job(&cluster.namespace, &job).await?;
    let name = made.name_any();
    output::note(&format!("Job {}/{name} makes the load", cluster.namespace));
    let mut attending = Box::pin(attend(cluster, &name, task.targets));
    let outcome = tokio::select! {
        outcome = &mut attending => outcome.map(Ok),
        _ = &mut interrupt => {
            output::note("stopping; the report will be of what was measured (again: at once)");
            // Its pod is told to end, and has time to say what it has until then.
            let removed = cluster.remove_job(&cluster.namespace, &name).await;
            let partial = tokio::select! {
                partial = &mut attending => partial.ok(),
                () = super::interrupted() => None,
                () = tokio::time::sleep(LAST_WORDS) => None,
            };
            removed.map(|()| partial.ok_or(ExitCode::from(INTERRUPTED)))
        }
    };
    interrupt.abort();
    let removed = cluster.remove_job(&cluster.namespace, &name).await;
    output::note(&format!("Job {name} removed"));
    let outcome = outcome?;
    removed?;
    Ok(outcome)
}

/// The operator's own image holds this program too.
async fn image(flags: &JobFlags, cluster: &Cluster) -> Result<(String, Option<String>), Error> {
    if let Some(image) = &flags.image {
        return Ok((image.clone(), None));
    }
    let operators = cluster.operators().await?;
    let container =
        operators.into_iter().find_map(|operator| operator.spec.template.spec?.containers.into_iter().next());
    let image = container.as_ref().and_then(|container| container.image.clone());
    let image = image.ok_or_else(|| Error::Flag {
        flag: "in-cluster",
        value: "no operator is installed".to_owned(),
        allowed: "name an image with this program: --image".to_owned(),
    })?;
    Ok((image, container.and_then(|container| container.image_pull_policy)))
}

fn job(image: &str, pull_policy: Option<&str>, Task { targets, load, threads }: Task<'_>) -> Job {
    let mut command = vec!["/usr/local/bin/kubectl-workerapp".to_owned(), "bench".to_owned()];
    command.extend(
        targets
            .iter()
            .map(|target| format!("{}={}", target.name, target.urls.first().cloned().unwrap_or_default())),
    );
    command.extend(load.iter().cloned());
    command.extend(["--events".to_owned(), "-o".to_owned(), "json".to_owned()]);
    let away: Vec<Value> = targets
        .iter()
        .filter_map(|target| target.service.as_ref())
        .map(|service| {
            let labels = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
            json!({"weight": 100, "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels},
                "namespaces": [service.namespace().unwrap_or_default()],
            }})
        })
        .collect();
    let job = json!({
        "metadata": {"generateName": "workerapp-bench-", "labels": {names::LABEL_NAME: "workerapp-bench"}},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": LEFT_FOR_SECONDS,
            "template": {
                "metadata": {"labels": {names::LABEL_NAME: "workerapp-bench"}},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": away}},
                    "containers": [{
                        "name": "bench", "image": image, "imagePullPolicy": pull_policy, "command": command,
                        // A limit would throttle the generator, which measures itself then.
                        "resources": {"requests": {"cpu": threads.to_string(), "memory": "128Mi"}},
                        "securityContext": {
                            "runAsNonRoot": true, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
                        },
                    }],
                },
            },
        },
    });
    // Made of what the type has, here and nowhere else.
    serde_json::from_value(job).unwrap_or_default()
}

async fn attend(cluster: &Cluster, name: &str, targets: &[Target]) -> Result<Results, Error> {
    let pod = started(cluster, name).await?;
    let params = LogParams { follow: true, ..LogParams::default() };
    let log = cluster.log(&pod, &params).await?;
    let (mut lines, mut json) = (log.lines(), String::new());
    let mut seen = Sightings::new(Observer::new(targets.to_vec(), Some(cluster.clone())));
    let failed = |why: String| Error::Api { what: format!("Job {name}"), why };
    while let Some(line) = lines.try_next().await.map_err(|error| failed(error.to_string()))? {
        if json.is_empty() && line != "{" {
            match Event::read(&line) {
                Some(event) => seen.take_note(event).await,
                None => output::note(&line),
            }
            continue;
        }
        json += &line;
        json.push('\n');
        if line == "}" {
            break;
        }
    }
    if json.is_empty() {
        return Err(failed("it ended without results; the lines above say why".to_owned()));
    }
    let results = serde_json::from_str(&json);
    let results = results.map_err(|error| failed(format!("its results can't be read: {error}")))?;
    Ok(seen.put_into(results))
}

/// What is seen of the pods while the Job makes the load.
struct Sightings {
    observer: Observer,
    /// Of each run, in their order; of a search, what was seen at each of its rates.
    runs: Vec<Vec<Observations>>,
}

impl Sightings {
    fn new(observer: Observer) -> Self {
        Self { observer, runs: Vec::new() }
    }

    async fn take_note(&mut self, event: Event) {
        match event {
            Event::Begin(target) => {
                self.runs.push(Vec::new());
                if let Err(error) = self.observer.begin(target).await {
                    output::note(&format!("the pods can't be looked at: {error}"));
                }
            }
            Event::Measure => self.observer.measuring(&tokio::runtime::Handle::current()),
            Event::Tried | Event::End => {
                let seen = self.observer.end().await.unwrap_or_else(|error| {
                    output::note(&format!("the pods can't be looked at: {error}"));
                    Observations::default()
                });
                if let Some(run) = self.runs.last_mut() {
                    run.push(seen);
                }
            }
        }
    }

    /// The Job saw no pods, so it judged without them.
    fn put_into(self, mut results: Results) -> Results {
        for (run, mut seen) in results.runs.iter_mut().zip(self.runs) {
            let place = run.search.as_ref().and_then(|sought| sought.stands_for).unwrap_or_default();
            if place < seen.len() {
                let goodput_per_second = run.observations.goodput_per_second;
                run.observations = Observations { goodput_per_second, ..seen.swap_remove(place) };
                run.verdicts = judge(run);
            }
        }
        results.comparisons = compare(&results, results.provenance.seed.unwrap_or_default());
        results
    }
}

/// The Job's pod, once its container runs or has run.
async fn started(cluster: &Cluster, name: &str) -> Result<Pod, Error> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let pods = cluster.pods_of_job(&cluster.namespace, name).await?;
        let phase =
            |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        if let Some(pod) = pods.iter().find(|pod| phase(pod) != "Pending" && !phase(pod).is_empty()) {
            return Ok(pod.clone());
        }
        if tokio::time::Instant::now() > deadline {
            let why = pods.first().map_or_else(|| "it got no pod".to_owned(), waiting);
            return Err(Error::Api {
                what: format!("Job {name}"),
                why: format!("its pod didn't start in 3 minutes: {why}"),
            });
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn waiting(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let container =
        status.container_statuses.unwrap_or_default().into_iter().find_map(|one| one.state?.waiting);
    if let Some(waiting) = container {
        return format!("{} {}", waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default());
    }
    let conditions = status.conditions.unwrap_or_default();
    conditions.into_iter().find_map(|condition| condition.message).unwrap_or_else(|| "Pending".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_asks_by_name_stays_away_from_its_targets_and_is_restricted() {
        let service =
            json!({"metadata": {"name": "shop", "namespace": "web"}, "spec": {"selector": {"a": "b"}}});
        let target = Target {
            name: "shop".into(),
            urls: vec!["http://shop.web.svc/".into()],
            service: Some(serde_json::from_value(service).unwrap()),
        };
        let load = ["--connections".to_owned(), "7".to_owned()];
        let job = serde_json::to_value(job(
            "op:1",
            Some("Never"),
            Task { targets: &[target], load: &load, threads: 2 },
        ))
        .unwrap();
        let pod = &job["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let words = [
            "/usr/local/bin/kubectl-workerapp",
            "bench",
            "shop=http://shop.web.svc/",
            "--connections",
            "7",
            "--events",
            "-o",
            "json",
        ];
        assert_eq!(container["command"], json!(words));
        assert_eq!(
            (&container["image"], &container["resources"]["requests"]["cpu"]),
            (&json!("op:1"), &json!("2"))
        );
        let term = &pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
            ["podAffinityTerm"];
        assert_eq!(
            (&term["labelSelector"]["matchLabels"]["a"], &term["namespaces"][0]),
            (&json!("b"), &json!("web"))
        );
        assert_eq!(container["securityContext"]["runAsNonRoot"], true);
    }
}
