//! `top`: what each worker uses and does.

use kube::ResourceExt as _;
use serde::Serialize;
use workerapp_api::WorkerApp;

use crate::{
    look::SeenPod,
    output,
    supervisor::{Account, bytes, rates},
};

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) namespace: String,
    pub(crate) app: String,
    pub(crate) pod: String,
    pub(crate) worker: u32,
    pub(crate) state: String,
    /// CPUs; nothing where the worker was replaced between the looks.
    pub(crate) cpu: Option<f64>,
    pub(crate) resident_bytes: u64,
    /// Requests per second; Node only.
    pub(crate) requests_per_second: Option<f64>,
    /// Requests that are being answered; Node only.
    pub(crate) in_flight: Option<u64>,
    /// Open connections.
    pub(crate) connections: u32,
    /// Connections that wait to be accepted.
    pub(crate) queue: u32,
    /// 0 to 1; Node only.
    pub(crate) event_loop_utilization: Option<f64>,
    pub(crate) restarts: u64,
    /// Share of the CPU quota's periods in which the pod was throttled.
    pub(crate) throttled: Option<f64>,
}

/// The workers of an app's pods, from two looks at them; and the pods that say nothing, with the reason.
pub(crate) fn rows(app: &WorkerApp, before: &[SeenPod], after: &[SeenPod]) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    for seen in after {
        let pod = seen.look.pod.name_any();
        let account = match &seen.look.account {
            Ok(account) => account,
            Err(why) => {
                silent.push(format!("pod {pod}: {why}"));
                continue;
            }
        };
        let earlier = before.iter().find(|seen| seen.look.pod.name_any() == pod);
        let throttled = earlier.and_then(|earlier| throttled(earlier.periods, seen.periods));
        let earlier = earlier.and_then(|seen| seen.look.account.as_ref().ok());
        rows.extend(of_pod(app, &pod, earlier, account, throttled));
    }
    (rows, silent)
}

fn of_pod<'a>(
    app: &'a WorkerApp,
    pod: &'a str,
    before: Option<&'a Account>,
    after: &'a Account,
    throttled: Option<f64>,
) -> impl Iterator<Item = Row> + 'a {
    after.processes.iter().map(move |process| {
        let rates = before.map(|before| rates(before, after, process.id)).unwrap_or_default();
        Row {
            namespace: app.namespace().unwrap_or_default(),
            app: app.name_any(),
            pod: pod.to_owned(),
            worker: process.id,
            state: process.state.clone(),
            cpu: rates.cpu,
            resident_bytes: process.resident_bytes,
            requests_per_second: rates.requests,
            in_flight: process.node.as_ref().and_then(|node| node.in_flight),
            connections: process.connections,
            queue: process.queue,
            event_loop_utilization: process.node.as_ref().and_then(|node| node.event_loop_utilization),
            restarts: process.restarts(),
            throttled,
        }
    })
}

/// For people; with a column of namespaces where `everywhere` was looked.
pub(crate) fn text(rows: &[Row], everywhere: bool) -> String {
    let head = [
        "NAMESPACE",
        "POD",
        "WORKER",
        "STATE",
        "CPU",
        "MEMORY",
        "REQ/S",
        "FLIGHT",
        "CONNS",
        "QUEUE",
        "LOOP",
        "RESTARTS",
        "THROTTLED",
    ];
    let percent =
        |share: Option<f64>| share.map_or_else(|| "-".into(), |share| format!("{:.0}%", share * 100.0));
    let row = |row: &Row| {
        vec![
            row.namespace.clone(),
            row.pod.clone(),
            row.worker.to_string(),
            row.state.clone(),
            row.cpu.map_or_else(|| "-".into(), |cpus| format!("{:.0}m", cpus * 1000.0)),
            bytes(row.resident_bytes),
            row.requests_per_second.map_or_else(|| "-".into(), |rate| format!("{rate:.0}")),
            row.in_flight.map_or_else(|| "-".into(), |count| count.to_string()),
            row.connections.to_string(),
            row.queue.to_string(),
            percent(row.event_loop_utilization),
            row.restarts.to_string(),
            percent(row.throttled),
        ]
    };
    let first = usize::from(!everywhere);
    let rows: Vec<_> = rows.iter().map(|one| row(one).split_off(first)).collect();
    output::table(&head[first..], &rows)
}

/// The sum of a metric's samples in a page of Prometheus text; `None` if it has none.
pub(crate) fn metric(page: &str, name: &str) -> Option<f64> {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    samples.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

/// The periods of the CPU quota and those of them in which the pod was throttled, from a supervisor's metrics.
pub(crate) fn periods(page: &str) -> Option<(f64, f64)> {
    let all = metric(page, "workerapp_cpu_periods_total")?;
    Some((all, metric(page, "workerapp_cpu_throttled_periods_total")?))
}

/// The share of periods between two looks in which the pod was throttled.
fn throttled(before: Option<(f64, f64)>, after: Option<(f64, f64)>) -> Option<f64> {
    let ((all_before, before), (all_after, after)) = (before?, after?);
    let periods = all_after - all_before;
    if periods > 0.0 { Some((after - before) / periods) } else { Some(0.0) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::look::PodLook;

    fn seen(uptime: f64, cpu: f64, requests: u64) -> SeenPod {
        let account = json!({"uptimeSeconds": uptime, "processes": [{
            "id": 1, "state": "listening", "pid": 5, "cpuSeconds": cpu, "residentBytes": 52_428_800, "connections": 4,
            "queue": 1, "restarts": {"crash": 1}, "node": {"requests": requests, "inFlight": 3, "eventLoopUtilization": 0.42},
        }]});
        let pod = serde_json::from_value(json!({"metadata": {"name": "shop-a"}})).unwrap();
        let look = PodLook { pod, account: Ok(serde_json::from_value(account).unwrap()) };
        SeenPod { look, periods: Some((10.0 * uptime, uptime)) }
    }

    fn shop() -> WorkerApp {
        let mut app = WorkerApp::new("shop", workerapp_api::WorkerAppSpec::default());
        app.metadata.namespace = Some("team-b".into());
        app
    }

    #[test]
    fn a_worker_is_one_row_of_rates() {
        let (rows, silent) = rows(&shop(), &[seen(1.0, 1.0, 10)], &[seen(2.0, 1.25, 210)]);
        assert!(silent.is_empty());
        assert!(text(&rows, true).lines().nth(1).unwrap().starts_with("team-b     shop-a "), "{rows:?}");
        let text = text(&rows, false);
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            ["shop-a", "1", "listening", "250m", "50Mi", "200", "3", "4", "1", "42%", "1", "10%"]
        );
    }

    #[test]
    fn a_pod_that_says_nothing_is_told_and_a_new_one_has_no_rates() {
        let mut dumb = seen(1.0, 1.0, 1);
        dumb.look.account = Err("it doesn't run".into());
        assert_eq!(rows(&shop(), &[], &[dumb]).1, ["pod shop-a: it doesn't run"]);
        let (rows, _) = rows(&shop(), &[], &[seen(1.0, 1.0, 1)]);
        assert_eq!((rows[0].cpu, rows[0].throttled), (None, None));
    }

    #[test]
    fn samples_are_added_up() {
        let page = "# TYPE a gauge\na{worker=\"0\"} 1\na{worker=\"1\"} 2.5\nab 9\nb 4\n";
        assert_eq!((metric(page, "a"), metric(page, "b"), metric(page, "c")), (Some(3.5), Some(4.0), None));
        assert_eq!(throttled(Some((10.0, 1.0)), Some((20.0, 6.0))), Some(0.5));
    }
}
