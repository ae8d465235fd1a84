//! What was seen at a server before and after a run → what happened meanwhile.

use std::time::{Duration, Instant};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Container, Pod as KubePod},
        events::v1::Event,
    },
    apimachinery::pkg::api::resource::Quantity as KubeQuantity,
};
use kube::ResourceExt as _;
use workerapp_api::Quantity;
use workerapp_bench::results::{Autoscaler, Observations, Pod, Replicas, ServerCpu, Worker};

use super::scaling;
use crate::{
    look::{SeenPod, is_ready},
    supervisor::Account,
};

/// A server at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) pods: Vec<SeenPod>,
    pub(crate) events: Vec<Event>,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) autoscaler: Option<HorizontalPodAutoscaler>,
}

impl Seen {
    /// Pods that get requests.
    pub(crate) fn ready(&self) -> u32 {
        u32::try_from(self.pods.iter().filter(|pod| is_ready(&pod.look.pod)).count()).unwrap_or(u32::MAX)
    }

    /// Pods that are wanted.
    pub(crate) fn wanted(&self) -> Option<u32> {
        self.deployment.as_ref()?.spec.replicas?.try_into().ok()
    }

    fn pod(&self, name: &str) -> Option<&SeenPod> {
        self.pods.iter().find(|pod| pod.look.pod.name_any() == name)
    }
}

/// The numbers of pods since the end of the warm-up, which took so long, and the one that was right then.
pub(crate) fn since(replicas: &[Replicas], warm_up: Duration) -> Vec<Replicas> {
    let begin = warm_up.as_secs_f64();
    let first = replicas.iter().rposition(|one| one.seconds <= begin).unwrap_or_default();
    let since = replicas.iter().skip(first);
    since.map(|one| Replicas { seconds: (one.seconds - begin).max(0.0), ..*one }).collect()
}

/// What happened between the first look and the last. What is a rate counts from the look at the end of the warm-up: a server that
/// warms up uses more.
pub(crate) fn between(first: &Seen, measured: &Seen, last: &Seen, replicas: Vec<Replicas>) -> Observations {
    let seconds = last.at.duration_since(measured.at).as_secs_f64().max(0.001);
    let pods: Vec<_> = last.pods.iter().map(|pod| self::pod(first, measured, last, pod, seconds)).collect();
    let workers = last.pods.iter().flat_map(|pod| workers(measured, pod, seconds)).collect();
    let used = pods.iter().map(|pod| pod.used_cores).sum::<Option<f64>>().filter(|_| !pods.is_empty());
    let throttled = pods.iter().filter_map(|pod| pod.throttled_percent).reduce(f64::max);
    let available = last.pods.iter().map(|pod| cpu_available(&pod.look.pod)).sum::<Option<f64>>();
    Observations {
        cpu: used.map(|used| ServerCpu::new(used, available, throttled)),
        replicas: Some(replicas),
        autoscaler: last.autoscaler.as_ref().map(autoscaler),
        workers,
        pods: Some(pods),
        ..Observations::default()
    }
}

fn pod(first: &Seen, measured: &Seen, last: &Seen, pod: &SeenPod, seconds: f64) -> Pod {
    let name = pod.look.pod.name_any();
    let (earlier, warm, now) = (first.pod(&name), measured.pod(&name), account(Some(pod)));
    let periods = warm.and_then(|warm| warm.periods).zip(pod.periods);
    let throttled = periods.and_then(|((all_before, before), (all, now))| {
        (all > all_before).then(|| 100.0 * (now - before) / (all - all_before))
    });
    // A pod that is new was started, which is more than a restart; the number of replicas tells it.
    let containers =
        restarts(&pod.look.pod).saturating_sub(earlier.map_or(0, |earlier| restarts(&earlier.look.pod)));
    let since_first = account(earlier).zip(now);
    let workers = since_first.map_or(0, |(before, now)| now.restarts().saturating_sub(before.restarts()));
    let since_first_whole = since_first.filter(|(before, now)| is_whole(before, now));
    let since_measured = account(warm).zip(now).filter(|(before, now)| is_whole(before, now));
    Pod {
        node: pod.look.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        restarts: containers + workers,
        probe_failures: unhealthy(&last.events, &name).saturating_sub(unhealthy(&first.events, &name)),
        requests: since_first_whole.and_then(|(before, now)| {
            Some(now.requests()?.saturating_sub(before.requests().unwrap_or_default()))
        }),
        used_cores: since_measured
            .map(|(before, now)| (cpu_seconds(now) - cpu_seconds(before)).max(0.0) / seconds),
        throttled_percent: throttled,
        name,
    }
}

/// Whether what the processes have counted since `before` is all there was: one that was replaced took its counts with it.
fn is_whole(before: &Account, now: &Account) -> bool {
    before.processes.iter().all(|was| now.processes.iter().any(|is| is.id == was.id && is.pid == was.pid))
}

fn account(seen: Option<&SeenPod>) -> Option<&Account> {
    seen?.look.account.as_ref().ok()
}

fn workers<'a>(before: &'a Seen, pod: &'a SeenPod, seconds: f64) -> impl Iterator<Item = Worker> + 'a {
    let name = pod.look.pod.name_any();
    let (earlier, now) = (account(before.pod(&name)), account(Some(pod)));
    let processes = now.into_iter().flat_map(|account| &account.processes);
    processes.map(move |process| {
        let was = earlier.and_then(|account| {
            account.processes.iter().find(|was| was.id == process.id && was.pid == process.pid)
        });
        Worker {
            pod: name.clone(),
            name: process.id.to_string(),
            requests: was.and_then(|was| process.requests_since(was)),
            used_cores: was.map(|was| (process.cpu_seconds - was.cpu_seconds).max(0.0) / seconds),
        }
    })
}

fn cpu_seconds(account: &Account) -> f64 {
    account.processes.iter().map(|process| process.cpu_seconds).sum()
}

fn restarts(pod: &KubePod) -> u64 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.map(|container| u64::try_from(container.restart_count).unwrap_or_default()).sum()
}

/// How often a probe of the pod has failed so far.
fn unhealthy(events: &[Event], pod: &str) -> u64 {
    let about = |event: &&Event| {
        event.reason.as_deref() == Some("Unhealthy")
            && event.regarding.as_ref().is_some_and(|object| object.name.as_deref() == Some(pod))
    };
    let count = |event: &Event| {
        let series = event.series.as_ref().map(|series| series.count);
        u64::try_from(series.or(event.deprecated_count).unwrap_or(1)).unwrap_or_default()
    };
    events.iter().filter(about).map(count).sum()
}

/// The limits of its containers, else their requests; `None` where one has neither.
fn cpu_available(pod: &KubePod) -> Option<f64> {
    let cpus = |quantities: Option<&std::collections::BTreeMap<String, KubeQuantity>>| {
        let quantity: Quantity = quantities?.get("cpu")?.0.parse().ok()?;
        Some(f64::from(i32::try_from(quantity.milli_ceil()).ok()?) / 1000.0)
    };
    let of = |container: &Container| {
        let resources = container.resources.as_ref()?;
        cpus(resources.limits.as_ref()).or_else(|| cpus(resources.requests.as_ref()))
    };
    pod.spec.as_ref()?.containers.iter().map(of).sum()
}

fn autoscaler(found: &HorizontalPodAutoscaler) -> Autoscaler {
    let active = scaling::condition(found, "ScalingActive");
    let number = |count: i32| u32::try_from(count).ok();
    Autoscaler {
        active: active.as_ref().is_some_and(|(active, _)| *active),
        reason: active.map(|(_, reason)| reason),
        // In a measurement a fixed number is what is wanted; who measures scaling looks at the replicas.
        expected_to_scale: false,
        min: found.spec.min_replicas.and_then(number),
        max: number(found.spec.max_replicas),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::look::PodLook;

    fn pod(
        name: &str,
        restarts: i32,
        worker_restarts: u64,
        requests: u64,
        cpu: f64,
        periods: (f64, f64),
    ) -> SeenPod {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "resources": {"limits": {"cpu": "1500m"}}}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": restarts}]},
        }))
        .unwrap();
        let account = json!({"processes": [{"id": 0, "pid": 3, "cpuSeconds": cpu, "restarts": {"crash": worker_restarts}, "node": {"requests": requests}}]});
        SeenPod {
            look: PodLook { pod, account: Ok(serde_json::from_value(account).unwrap()) },
            periods: Some(periods),
        }
    }

    fn seen(at: Instant, pods: Vec<SeenPod>, unhealthy: i32) -> Seen {
        let event = json!({"eventTime": null, "reason": "Unhealthy", "regarding": {"kind": "Pod", "name": "a"}, "deprecatedCount": unhealthy});
        let hpa = json!({"spec": {"minReplicas": 2, "maxReplicas": 5, "scaleTargetRef": {"kind": "", "name": ""}},
            "status": {"conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}]}});
        Seen {
            at,
            pods,
            events: vec![serde_json::from_value(event).unwrap()],
            deployment: None,
            autoscaler: Some(serde_json::from_value(hpa).unwrap()),
        }
    }

    #[test]
    fn what_happened_is_the_difference() {
        let begin = Instant::now();
        let before = seen(begin, vec![pod("a", 1, 2, 100, 1.0, (10.0, 1.0))], 3);
        let after = seen(
            begin + Duration::from_secs(10),
            vec![pod("a", 2, 3, 1100, 6.0, (110.0, 6.0)), pod("b", 0, 0, 5, 0.1, (1.0, 0.0))],
            5,
        );
        let found = between(&before, &before, &after, Vec::new());
        let pods = found.pods.unwrap();
        let a = &pods[0];
        assert_eq!((a.restarts, a.probe_failures, a.requests, a.node.as_str()), (2, 2, Some(1000), "n1"));
        assert!(
            (a.used_cores.unwrap() - 0.5).abs() < 1e-9 && (a.throttled_percent.unwrap() - 5.0).abs() < 1e-9
        );
        // A pod that is new has no figures of its own, so that there are none of all pods together.
        assert_eq!((pods[1].requests, pods[1].restarts, found.cpu), (None, 0, None));
        assert_eq!(found.workers[0].requests, Some(1000));
        let autoscaler = found.autoscaler.unwrap();
        assert_eq!(
            (autoscaler.active, autoscaler.reason.as_deref()),
            (false, Some("FailedGetResourceMetric"))
        );
        assert_eq!(after.ready(), 2);
    }

    #[test]
    fn cpu_is_that_of_all_pods_under_all_their_limits() {
        let begin = Instant::now();
        let before =
            seen(begin, vec![pod("a", 0, 0, 0, 0.0, (0.0, 0.0)), pod("b", 0, 0, 0, 0.0, (0.0, 0.0))], 0);
        let pods = vec![pod("a", 0, 0, 1, 2.0, (100.0, 0.0)), pod("b", 0, 0, 1, 3.0, (100.0, 7.0))];
        let cpu = between(&before, &before, &seen(begin + Duration::from_secs(10), pods, 0), Vec::new())
            .cpu
            .unwrap();
        assert!((cpu.used_cores - 0.5).abs() < 1e-9);
        assert_eq!((cpu.available_cores, cpu.throttled_percent), (Some(3.0), Some(7.0)));
        assert!((cpu.idle_percent.unwrap() - 100.0 * 2.5 / 3.0).abs() < 1e-9, "{cpu:?}");
    }

    /// Starting and compiling cost more than serving; restarts count wherever they are.
    #[test]
    fn rates_count_from_the_end_of_the_warm_up_and_counters_from_the_begin() {
        let begin = Instant::now();
        let at = |seconds, pod| seen(begin + Duration::from_secs(seconds), vec![pod], 0);
        let first = at(0, pod("a", 0, 0, 100, 0.0, (0.0, 0.0)));
        let measured = at(5, pod("a", 1, 0, 600, 10.0, (50.0, 50.0)));
        let last = at(15, pod("a", 1, 0, 1600, 15.0, (150.0, 50.0)));
        let found = between(&first, &measured, &last, Vec::new());
        let pod = &found.pods.unwrap()[0];
        assert_eq!((pod.restarts, pod.requests, pod.throttled_percent), (1, Some(1500), Some(0.0)));
        assert!((found.cpu.unwrap().used_cores - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_worker_that_was_replaced_took_its_counts_with_it() {
        let begin = Instant::now();
        let at = |seconds, pod| seen(begin + Duration::from_secs(seconds), vec![pod], 0);
        let first = at(0, pod("a", 0, 0, 100, 1.0, (0.0, 0.0)));
        let mut successor = pod("a", 0, 1, 7, 0.1, (100.0, 0.0));
        successor.look.account.as_mut().unwrap().processes[0].pid = Some(9);
        let found = between(&first, &first, &at(10, successor), Vec::new());
        let pod = &found.pods.unwrap()[0];
        assert_eq!((pod.restarts, pod.requests, pod.used_cores, found.cpu), (1, None, None, None));
    }

    #[test]
    fn without_a_limit_the_request_is_what_may_be_used() {
        let pod = |resources| {
            let pod = json!({"spec": {"containers": [{"name": "app", "resources": resources}]}});
            cpu_available(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(pod(json!({"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}})), Some(0.5));
        assert_eq!(pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})), Some(2.0));
        assert_eq!(pod(json!({})), None);
    }

    #[test]
    fn replicas_count_from_the_end_of_the_warm_up() {
        let at = |seconds, ready| Replicas { seconds, ready, wanted: None };
        let all = [at(0.0, 1), at(4.0, 2), at(6.0, 2), at(9.0, 3)];
        assert_eq!(since(&all, Duration::from_secs(5)), [at(0.0, 2), at(1.0, 2), at(4.0, 3)]);
        assert_eq!(since(&[], Duration::ZERO), []);
    }
}
