use super::*;
use crate::results::{
    Autoscaler, Figures, Generator, Latency, Mode, Observations, Pod, Replicas, ServerCpu, WarmUp,
};
use crate::search::{Sought, Step};

/// A run without fault: every gate that applies passes.
fn good() -> Run {
    Run {
        mode: Mode::Closed,
        connections: Some(100),
        figures: Figures {
            elapsed_seconds: 40.0,
            requests_per_second: 2000.0,
            answered: 80_000,
            warm_up: Some(WarmUp { seconds: 10.0, answered: Some(1) }),
            latency: Some(Latency { mean_ms: 50.0, ..Latency::default() }),
            busiest_thread: Some(0.5),
            ..Figures::default()
        },
        observations: Observations {
            pods: Some(vec![Pod { name: "a".into(), ..Pod::default() }]),
            replicas: Some(vec![Replicas { seconds: 0.0, ready: 3, wanted: Some(3) }]),
            autoscaler: Some(Autoscaler { active: true, ..Autoscaler::default() }),
            cpu: Some(ServerCpu { used_cores: 2.0, throttled_percent: Some(0.0), ..ServerCpu::default() }),
            ..Observations::default()
        },
        ..Run::default()
    }
}

fn pod(change: impl Fn(&mut Pod)) -> Observations {
    let mut observations = good().observations;
    observations.pods.iter_mut().flatten().for_each(change);
    observations
}

/// The gates that mark a run invalid, and why.
fn invalid(run: &Run) -> Vec<(String, String)> {
    judge(run)
        .into_iter()
        .filter_map(|verdict| match verdict.outcome {
            Outcome::Invalid(why) => Some((verdict.gate.into_owned(), why)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_run_without_fault_passes() {
    assert_eq!(invalid(&good()), []);
    let names: Vec<_> = judge(&good()).into_iter().map(|verdict| verdict.gate).collect();
    assert_eq!(names, GATES.iter().map(|gate| gate.name).collect::<Vec<_>>());
}

#[test]
#[expect(clippy::large_stack_arrays, reason = "a table of runs reads best as one")]
fn each_gate_closes_for_its_own_fault_and_says_why() {
    let figures = |change: fn(&mut Figures)| {
        let mut run = good();
        change(&mut run.figures);
        run
    };
    let seen = |observations| Run { observations, ..good() };
    let open = |late, waited, dropped| Run {
        mode: Mode::Open { per_second: 100.0, seed: None },
        figures: Figures {
            sent: Some(1000),
            late: Some(late),
            late_for_want_of_a_connection: Some(waited),
            dropped: Some(dropped),
            ..good().figures
        },
        ..good()
    };
    let sought = |highest_per_second, generator, broken: bool| {
        let step = Step { per_second: 20.0, kept: !broken, why: Some("p99 9 ms".into()), generator };
        let sought = Sought {
            stands_for: None,
            promise: "p99 < 1 ms".into(),
            highest_per_second,
            at_the_most: !broken,
            steps: vec![step],
        };
        Run { search: Some(sought), ..good() }
    };
    let cases = [
        (
            figures(|f| {
                f.failed = 7;
                f.failures = [("reset".to_owned(), 7)].into();
            }),
            "errors",
            "reset 7",
        ),
        (figures(|f| f.interrupted = true), "interrupted", "40.0 s"),
        (figures(|f| f.warm_up = None), "warm-up", "no warm-up"),
        (
            figures(|f| f.warm_up = Some(WarmUp { seconds: 40.0, answered: Some(0) })),
            "warm-up",
            "40 s sent no load",
        ),
        (figures(|f| f.busiest_thread = Some(0.81)), "generator-cpu", "81 %"),
        (figures(|f| f.requests_per_second = 1700.0), "littles-law", "85.0 requests on their way"),
        (figures(|f| f.requests_per_second = 2300.0), "littles-law", "room for 100"),
        (open(30, 5, 0), "arrivals", "2.5 %"),
        (open(0, 0, 100), "arrivals", "never sent"),
        (seen(pod(|p| p.restarts = 2)), "pod-restarts", "pod a: a container or worker started anew 2 times"),
        (seen(pod(|p| p.probe_failures = 1)), "probe-failures", "a failed 1 probe"),
        (
            Run { observations: pod(|p| p.throttled_percent = Some(30.0)), ..open(0, 0, 0) },
            "throttling",
            "30.0 % of the scheduling periods; at most",
        ),
        (
            sought(None, false, true),
            "search",
            "p99 < 1 ms was not kept at any rate; the lowest: 20/s: p99 9 ms",
        ),
        (sought(Some(10.0), true, true), "search", "the generator couldn't make the load of 20/s"),
        (
            seen(Observations {
                replicas: Some(vec![
                    Replicas { seconds: 0.0, ready: 3, wanted: None },
                    Replicas { seconds: 12.0, ready: 4, wanted: None },
                ]),
                ..good().observations
            }),
            "replicas",
            "3 pods were ready at the begin, 4 after 12 s",
        ),
        (
            seen(Observations {
                autoscaler: Some(Autoscaler { reason: Some("no metrics".into()), ..Autoscaler::default() }),
                ..good().observations
            }),
            "autoscaler",
            "no metrics",
        ),
    ];
    for (run, gate, why) in cases {
        let found = invalid(&run);
        assert_eq!(found.len(), 1, "{gate}: {found:?}");
        assert!(found[0].0 == gate && found[0].1.contains(why), "{found:?}");
    }
    let most = judge(&sought(Some(20.0), false, false));
    assert!(
        most.iter().any(|one| matches!(&one.outcome, Outcome::Notice(why) if why.contains("may do more")))
    );
    let nothing = figures(|f| f.answered = 0);
    assert!(invalid(&nothing).iter().any(|(gate, why)| gate == "errors" && why.contains("no request")));
}

/// A pod with a CPU limit is always held back at full load: a notice there, a fault at a rate that it is meant to carry.
#[test]
fn a_limit_that_full_load_meets_is_told_and_no_fault() {
    let run = Run { observations: pod(|p| p.throttled_percent = Some(30.0)), ..good() };
    assert_eq!(invalid(&run), []);
    let told = judge(&run).into_iter().find(|verdict| verdict.gate == "throttling").unwrap();
    assert!(matches!(told.outcome, Outcome::Notice(why) if why.contains("30.0 %")));
}

#[test]
fn what_was_not_looked_at_is_not_passed() {
    let imported = Run {
        figures: Figures {
            generator: Generator::Autocannon,
            requests_per_second: 10.0,
            answered: 400,
            ..Figures::default()
        },
        ..Run::default()
    };
    let unchecked: Vec<_> = judge(&imported)
        .into_iter()
        .filter(|verdict| matches!(verdict.outcome, Outcome::NotChecked(_)))
        .map(|verdict| verdict.gate)
        .collect();
    assert_eq!(unchecked.len(), GATES.len() - 2, "all but errors and interrupted: {unchecked:?}");
    assert_eq!(invalid(&imported), []);
}

/// A run in which the autoscaler is meant to act is not one of a fixed number of pods.
#[test]
fn scaling_that_is_expected_is_no_fault() {
    let mut run = good();
    run.observations.replicas = Some(vec![
        Replicas { seconds: 0.0, ready: 1, wanted: None },
        Replicas { seconds: 9.0, ready: 2, wanted: None },
    ]);
    assert_eq!(invalid(&run).len(), 1);
    run.observations.autoscaler =
        Some(Autoscaler { active: true, expected_to_scale: true, ..Autoscaler::default() });
    assert_eq!(invalid(&run), []);
}

/// kubernetes#101887, #66970: kept connections stay where they are, so new pods of an autoscaler get nothing. The spread shows it.
#[test]
fn a_new_pod_that_gets_nothing_is_seen_in_the_spread() {
    let mut run = good();
    let new = Pod { name: "new".into(), requests: Some(0), ..Pod::default() };
    run.observations.pods =
        Some(vec![Pod { name: "old".into(), requests: Some(80_000), ..Pod::default() }, new]);
    assert_eq!(run.observations.pods_busiest_over_mean(), Some(2.0));
}

/// nvcf#316, kubernetes#110083: a liveness probe answered by the loaded workers turns load into restarts, and figures of such a run
/// are figures of restarting.
#[test]
fn load_that_becomes_restarts_is_no_result() {
    let mut run = good();
    run.observations = pod(|p| (p.probe_failures, p.restarts) = (3, 1));
    let gates: Vec<_> = invalid(&run).into_iter().map(|(gate, _)| gate).collect();
    assert_eq!(gates, ["pod-restarts", "probe-failures"]);
}
