//! Results for the tests of the formats: two targets, two rows, five rounds, one of the runs invalid.

use crate::comparison::compare;
use crate::gates::judge;
use crate::results::{
    Figures, Latency, Machine, Mode, Observations, Provenance, Quantile, Replicas, Results, Run, Second,
    ServerCpu, Spread, VERSION, WarmUp,
};

fn run(target: &str, connections: u32, round: u32) -> Run {
    let factor = if target == "one" { 1.0 } else { 1.8 } * (1.0 + 0.01 * f64::from(round % 3));
    let rate = 1000.0 * factor;
    let mean_ms = f64::from(connections) / rate * 1000.0;
    let quantile = |(percent, times): (f64, f64)| Quantile { percent, ms: mean_ms * times };
    let quantiles = [(50.0, 0.8), (75.0, 1.1), (90.0, 1.8), (97.5, 3.0), (99.0, 5.0), (99.9, 30.0)];
    let failed = if (target, connections, round) == ("workers", 500, 1) { 3 } else { 0 };
    let count =
        |number: u32| 1000 + u64::from((number * 7 + round * 13) % 50) * if target == "one" { 1 } else { 4 };
    let seconds: Vec<Second> = (0..40)
        .map(|number| Second {
            answered: count(number),
            failed: 0,
            bytes: 14_000,
            mean_ms,
            longest_ms: 9.0 * mean_ms,
        })
        .collect();
    let each: Vec<f64> = seconds.iter().map(|second| crate::report::as_f64(second.answered)).collect();
    let ready = |seconds, ready| Replicas { seconds, ready, wanted: Some(3) };
    let mut run = Run {
        target: target.into(),
        url: format!("http://{target}/"),
        row: format!("{connections} connections"),
        round,
        mode: Mode::Closed,
        connections: Some(connections.into()),
        threads: Some(1),
        figures: Figures {
            elapsed_seconds: 40.0,
            warm_up: Some(WarmUp { seconds: 10.0, answered: Some(9000) }),
            requests_per_second: rate,
            answered: 40_000,
            failed,
            failures: if failed > 0 { [("reset".to_owned(), failed)].into() } else { [].into() },
            latency: Some(Latency {
                mean_ms,
                max_ms: Some(60.0 * mean_ms),
                quantiles: quantiles.map(quantile).to_vec(),
                ..Latency::default()
            }),
            requests_each_second: Spread::of(&each),
            seconds,
            busiest_thread: Some(0.3),
            ..Figures::default()
        },
        observations: Observations {
            replicas: Some(vec![ready(0.0, 3), ready(20.0, 3)]),
            cpu: Some(ServerCpu { used_cores: 1.5, idle_percent: Some(22.0), ..ServerCpu::default() }),
            ..Observations::default()
        },
        ..Run::default()
    };
    run.verdicts = judge(&run);
    run
}

pub(super) fn results() -> Results {
    let mut results = Results {
        version: VERSION,
        title: "Two ways".into(),
        provenance: Provenance {
            program: "workerapp-load".into(),
            version: "0.1.0".into(),
            command_line: vec!["workerapp-load".into(), "http://one/".into()],
            seed: Some(7),
            started: "2026-01-01T00:00:00Z".into(),
            finished: "2026-01-01T00:20:00Z".into(),
            machine: Some(Machine {
                cpu: "a CPU".into(),
                cpus: 2,
                memory_bytes: 1 << 34,
                ..Machine::default()
            }),
            ..Provenance::default()
        },
        targets: vec!["one".into(), "workers".into()],
        ..Results::default()
    };
    for round in 1..=5 {
        for connections in [50, 500] {
            results.runs.extend(["one", "workers"].map(|target| run(target, connections, round)));
        }
    }
    results.comparisons = compare(&results, 7);
    results
}
