//! What a supervisor says at `/status`, and what two such accounts say together.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

/// `/status`. Older and newer supervisors may leave something out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Account {
    pub(crate) version: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) ready: bool,
    pub(crate) reasons: Vec<String>,
    pub(crate) stopping: bool,
    pub(crate) workers: u32,
    pub(crate) workers_reason: String,
    pub(crate) sharing: Sharing,
    pub(crate) processes: Vec<Process>,
}

/// How the workers share the port.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Sharing {
    pub(crate) mode: String,
    pub(crate) detail: Option<String>,
}

/// One copy of the command.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) state: String,
    pub(crate) pid: Option<i32>,
    pub(crate) running_seconds: Option<f64>,
    pub(crate) reason: Option<String>,
    pub(crate) restarts: BTreeMap<String, u64>,
    pub(crate) last_exit: Option<String>,
    pub(crate) queue: u32,
    pub(crate) connections: u32,
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) node: Option<Node>,
}

/// What Node says from inside.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Node {
    pub(crate) requests: u64,
    pub(crate) in_flight: Option<u64>,
    pub(crate) event_loop_utilization: Option<f64>,
}

impl Account {
    /// Restarts of all workers.
    pub(crate) fn restarts(&self) -> u64 {
        self.processes.iter().map(Process::restarts).sum()
    }

    /// Open connections that workers have accepted.
    pub(crate) fn connections(&self) -> u32 {
        self.processes.iter().map(|process| process.connections).sum()
    }

    /// Requests that workers began to answer; `None` where no worker tells.
    pub(crate) fn requests(&self) -> Option<u64> {
        let each = self.processes.iter().filter_map(|process| process.node.as_ref());
        each.map(|node| node.requests).reduce(|sum, more| sum + more)
    }

    /// Requests that are being answered; `None` where no worker tells.
    pub(crate) fn in_flight(&self) -> Option<u64> {
        let each = self.processes.iter().filter_map(|process| process.node.as_ref()?.in_flight);
        each.fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
    }

    /// Whether a worker takes connections or took some once: of a canary (see `--canary`) that never listened there is no restart.
    pub(crate) fn has_served(&self) -> bool {
        self.listening() > 0 || self.restarts() > 0
    }

    /// Workers that take connections.
    pub(crate) fn listening(&self) -> usize {
        self.processes.iter().filter(|process| process.listens()).count()
    }

    fn process(&self, id: u32) -> Option<&Process> {
        self.processes.iter().find(|process| process.id == id)
    }
}

impl Process {
    /// How often it was restarted, whatever the cause.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.values().sum()
    }

    /// Requests that it began to answer since `was`, the same process before; `None` where it doesn't tell. One of Node begins to
    /// with its first request.
    pub(crate) fn requests_since(&self, was: &Self) -> Option<u64> {
        let before = was.node.as_ref().map_or(0, |node| node.requests);
        Some(self.node.as_ref()?.requests.saturating_sub(before))
    }

    /// Whether it takes connections.
    pub(crate) fn listens(&self) -> bool {
        self.state == "listening"
    }
}

/// What a worker did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// CPUs.
    pub(crate) cpu: Option<f64>,
    /// Requests per second; Node only.
    pub(crate) requests: Option<f64>,
}

/// What the worker `id` did between two accounts of the same supervisor. Nothing where it was replaced meanwhile.
pub(crate) fn rates(before: &Account, after: &Account, id: u32) -> Rates {
    let seconds = after.uptime_seconds - before.uptime_seconds;
    let (Some(was), Some(is)) = (before.process(id), after.process(id)) else { return Rates::default() };
    if seconds <= 0.0 || was.pid != is.pid {
        return Rates::default();
    }
    Rates {
        cpu: Some((is.cpu_seconds - was.cpu_seconds).max(0.0) / seconds),
        requests: is.requests_since(was).map(|requests| count(requests) / seconds),
    }
}

/// Requests per second of all workers together; `None` where no worker tells.
pub(crate) fn requests_per_second(before: &Account, after: &Account) -> Option<f64> {
    let each = after.processes.iter().filter_map(|process| rates(before, after, process.id).requests);
    each.fold(None, |sum, rate| Some(sum.unwrap_or(0.0) + rate))
}

#[allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn count(n: u64) -> f64 {
    n as f64
}

/// `1.5Gi`, `430Mi`, `12Ki`.
pub(crate) fn bytes(n: u64) -> String {
    let units = [("Gi", 1_u64 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    match units.into_iter().find(|(_, size)| n >= *size) {
        Some(("Gi", size)) => format!("{:.1}Gi", count(n) / count(size)),
        Some((unit, size)) => format!("{}{unit}", n / size),
        None => n.to_string(),
    }
}

/// `12s`, `4m`, `3h`, `5d`, as kubectl writes ages.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(uptime: f64, pid: i32, cpu: f64, requests: u64) -> Account {
        let text = format!(
            r#"{{"version":"1","uptimeSeconds":{uptime},"workers":1,"processes":[{{"id":0,"state":"listening","pid":{pid},
            "cpuSeconds":{cpu},"restarts":{{"crash":2}},"connections":3,"node":{{"requests":{requests},"eventLoopUtilization":null}}}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn two_accounts_make_a_rate() {
        let (before, after) = (account(10.0, 7, 1.0, 100), account(12.0, 7, 2.0, 300));
        assert_eq!(rates(&before, &after, 0), Rates { cpu: Some(0.5), requests: Some(100.0) });
        assert_eq!(requests_per_second(&before, &after), Some(100.0));
        assert_eq!((after.restarts(), after.connections(), after.listening()), (2, 3, 1));
    }

    #[test]
    fn a_worker_that_had_no_request_yet_had_none() {
        let (mut before, after) = (account(10.0, 7, 1.0, 0), account(12.0, 7, 2.0, 30));
        before.processes[0].node = None;
        assert_eq!((before.requests(), after.requests()), (None, Some(30)));
        assert_eq!(rates(&before, &after, 0).requests, Some(15.0));
        assert_eq!(rates(&after, &before, 0).requests, None);
    }

    #[test]
    fn a_worker_that_was_replaced_and_a_supervisor_that_began_anew_have_no_rate() {
        let (before, after) = (account(10.0, 7, 1.0, 100), account(12.0, 8, 0.1, 3));
        assert_eq!(rates(&before, &after, 0), Rates::default());
        assert_eq!(rates(&account(10.0, 7, 1.0, 9), &account(1.0, 7, 0.1, 1), 0), Rates::default());
        assert_eq!(requests_per_second(&before, &after), None);
    }

    #[test]
    fn sizes_and_ages_are_short() {
        assert_eq!(
            [bytes(900), bytes(4096), bytes(300 << 20), bytes(3 << 29)],
            ["900", "4Ki", "300Mi", "1.5Gi"]
        );
        let ages = [5, 119, 120, 7300, 200_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["5s", "119s", "2m", "2h", "2d"]);
    }
}
