//! The line that `run` shows.

use crate::{
    output::counted,
    supervisor::{Account, bytes, rates, requests_per_second},
};

/// What goes on, from this look and the one before.
pub(crate) fn line(before: Option<&Account>, now: &Account) -> String {
    let rate = before.and_then(|before| requests_per_second(before, now));
    let cpu = before.map(|before| {
        now.processes.iter().filter_map(|process| rates(before, now, process.id).cpu).sum::<f64>()
    });
    let resident = now.processes.iter().map(|process| process.resident_bytes).sum();
    let mut words = vec![format!("{}/{}", now.listening(), counted(now.workers, "worker"))];
    // Only Node counts its requests.
    words.extend(rate.map(|rate| format!("{rate:.0} req/s")));
    words.extend(now.in_flight().map(|count| format!("{count} in flight")));
    words.push(counted(now.connections(), "connection"));
    words.extend(cpu.map(|cpu| format!("{cpu:.2} CPUs")));
    words.push(bytes(resident));
    words.push(counted(now.restarts(), "restart"));
    let state = match () {
        () if now.stopping => "stopping",
        () if now.ready => "ready",
        () => "not ready",
    };
    let reason = now.reasons.first().filter(|_| !now.ready && !now.stopping);
    let reason = reason.map(|reason| format!("  ({reason})")).unwrap_or_default();
    format!("● {state}  {}{reason}", words.join("  "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn account(uptime: f64, requests: Option<u64>) -> Account {
        let node = requests.map(|requests| json!({"requests": requests, "inFlight": 4}));
        serde_json::from_value(json!({
            "uptimeSeconds": uptime, "ready": true, "workers": 2,
            "processes": [
                {"id": 0, "state": "listening", "pid": 1, "connections": 5, "cpuSeconds": uptime / 2.0, "residentBytes": 1 << 25, "node": node},
                {"id": 1, "state": "starting", "restarts": {"crash": 3}},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn the_line_tells_what_a_person_looks_for() {
        let (before, now) = (account(10.0, Some(100)), account(12.0, Some(500)));
        let text = line(Some(&before), &now);
        assert_eq!(
            text,
            "● ready  1/2 workers  200 req/s  4 in flight  5 connections  0.50 CPUs  32Mi  3 restarts"
        );
        assert!(!line(Some(&account(1.0, None)), &account(2.0, None)).contains("req/s"));
    }

    #[test]
    fn what_keeps_it_from_being_ready_is_told() {
        let mut now = account(1.0, None);
        now.ready = false;
        now.reasons = vec!["worker 1 has not listened yet".to_owned()];
        assert!(line(None, &now).ends_with("(worker 1 has not listened yet)"));
    }
}
