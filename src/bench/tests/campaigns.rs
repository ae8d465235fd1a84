//! Campaigns, ramps and searches against real servers on loopback.
#![allow(clippy::unwrap_used, reason = "helpers of tests may, like the tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};
use workerapp_bench::campaign::{Blind, Campaign, Contender, Turn, Watcher};
use workerapp_bench::comparison::Finding;
use workerapp_bench::results::{Mode, Observations, Pod, Provenance, Results};
use workerapp_bench::search::{Decision, Goal, Promise, Search, Told, search};
use workerapp_bench::{Arrivals, Control, Error, Load, Plan, Report, Stop, Target, Template, Watched, run};

/// A server that takes so long for each answer, a thread for each connection.
fn server(delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    thread::sleep(delay);
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn plan(address: SocketAddr) -> Plan {
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    Plan {
        connections: 4,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(300),
        ..Plan::new(vec![address], Template::default().build(&target, true).unwrap())
    }
}

fn contender(name: &str, delay_ms: u64) -> Contender {
    let address = server(Duration::from_millis(delay_ms));
    Contender { name: name.into(), url: format!("http://{address}/"), plan: plan(address) }
}

fn campaign(contenders: Vec<Contender>, ladder: &[usize], rounds: u32) -> Campaign {
    Campaign { title: "test".into(), contenders, ladder: ladder.to_vec(), rounds, seed: 3, search: None }
}

fn go(campaign: &Campaign, stop: &Stop, watcher: &mut dyn Watcher) -> Result<Results, Error> {
    campaign.run(Provenance::here("test", "0", None), stop, watcher)
}

#[test]
fn two_servers_in_turns_are_told_apart() {
    // More than the five pairs that are needed: a busy machine makes some runs invalid.
    let campaign = campaign(vec![contender("slow", 10), contender("fast", 2)], &[2, 4], 8);
    let results = go(&campaign, &Stop::default(), &mut Blind).unwrap();
    assert_eq!(results.runs.len(), 32);
    assert_eq!(results.provenance.seed, Some(3));
    let rows = results.rows();
    assert!(rows.contains(&"2 connections") && rows.contains(&"4 connections"), "{rows:?}");
    for row in rows {
        let rates =
            results.comparisons.iter().find(|one| one.row == row && one.metric == "requests/s").unwrap();
        assert_eq!(rates.finding, Finding::Better, "{rates:?}\n{:?}", results.runs[0].verdicts);
        assert!((2.0..6.0).contains(&rates.ratio.ratio), "{rates:?}");
    }
    let run = &results.runs[0];
    assert!(
        run.is_valid() && run.mode == Mode::Closed && run.figures.warm_up.unwrap().answered > Some(0),
        "{run:?}"
    );
}

/// Counts what it is told, stops after a number of runs, and has seen a restart.
#[derive(Default)]
struct Counting {
    before: u32,
    /// Stops before a run instead.
    stop_between: Option<Stop>,
    progress: u32,
    answered: u64,
    after: u32,
    stop: Option<(Stop, u32)>,
}

impl Watcher for Counting {
    fn before(&mut self, _: &Turn, _: &Contender) -> Result<(), Error> {
        self.before += 1;
        if let Some(stop) = self.stop_between.as_ref().filter(|_| self.after == 1) {
            stop.stop();
        }
        Ok(())
    }

    fn progress(&mut self, _: &Turn, watched: &Watched) {
        assert!(watched.planned == Duration::from_millis(400));
        self.progress += 1;
        self.answered = watched.progress.answered;
        if let Some((stop, after)) = &self.stop
            && self.after == *after
            && watched.elapsed >= Duration::from_millis(200)
        {
            stop.stop();
        }
    }

    fn after(&mut self, _: &Turn, _: &Contender, report: &Report) -> Result<Observations, Error> {
        self.after += 1;
        assert!(report.counts.answered <= self.answered);
        let pod = Pod { name: "p".into(), restarts: 1, ..Pod::default() };
        Ok(Observations { pods: Some(vec![pod]), ..Observations::default() })
    }
}

#[test]
fn the_watcher_is_asked_and_what_it_saw_is_judged() {
    let mut watcher = Counting::default();
    let results = go(&campaign(vec![contender("one", 5)], &[], 2), &Stop::default(), &mut watcher).unwrap();
    assert_eq!((watcher.before, watcher.after), (2, 2));
    assert!(watcher.progress >= 4 && watcher.answered > 0);
    assert_eq!(results.runs[0].row, "4 connections");
    let invalid: Vec<_> =
        results.runs[0].verdicts.iter().filter(|v| v.is_invalid()).map(|v| &*v.gate).collect();
    assert_eq!(invalid, ["pod-restarts"]);
}

/// Ctrl-C: what was measured until then is a report, and says that it is part of one.
#[test]
fn a_campaign_that_is_stopped_keeps_what_it_has() {
    let stop = Stop::default();
    let mut watcher = Counting { stop: Some((stop.clone(), 1)), ..Counting::default() };
    let results = go(&campaign(vec![contender("one", 5)], &[], 9), &stop, &mut watcher).unwrap();
    assert_eq!(results.runs.len(), 2);
    assert!(results.provenance.interrupted && !results.runs[0].figures.interrupted);
    assert!(results.runs[1].figures.interrupted && !results.runs[1].is_valid());

    // Between two runs there is nothing to keep of the second.
    let stop = Stop::default();
    let mut watcher = Counting { stop_between: Some(stop.clone()), ..Counting::default() };
    let results = go(&campaign(vec![contender("one", 5)], &[], 9), &stop, &mut watcher).unwrap();
    assert_eq!((results.runs.len(), results.provenance.interrupted), (1, true));
    assert!(!results.runs[0].figures.interrupted && results.runs[0].figures.answered > 0);
}

#[test]
fn campaigns_that_make_no_sense() {
    let one = || contender("one", 1);
    for (campaign, part) in [
        (campaign(vec![], &[], 5), "targets: \"none\""),
        (campaign(vec![one(), one()], &[], 5), "targets: \"one\" is not allowed; each needs a name"),
        (campaign(vec![one(), contender("two", 1)], &[], 4), "rounds: \"4\" is not allowed"),
        (campaign(vec![one()], &[], 0), "rounds: \"0\""),
        (campaign(vec![one()], &[10, 0], 1), "connections: \"0\""),
    ] {
        let message = go(&campaign, &Stop::default(), &mut Blind).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_host_that_does_not_exist_is_named() {
    let target = Target::parse("http://no-such-host.invalid:81/").unwrap();
    let message = target.addresses().unwrap_err().to_string();
    assert!(message.contains("no address for no-such-host.invalid:81"), "{message}");
}

#[test]
fn a_ramp_is_slow_first_and_fast_last() {
    let load = Load::Ramp { from: 50.0, to: 350.0, arrivals: Arrivals::Even };
    let plan = Plan {
        load,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(2),
        ..plan(server(Duration::ZERO))
    };
    let report = run(&plan, &Control::default()).unwrap();
    assert_eq!((report.counts.sent, report.counts.answered), (400, 400), "{:?}", report.counts);
    // 125 and 275 are planned.
    assert!((100..=150).contains(&report.seconds[0].answered), "{:?}", report.seconds);
}

/// Four connections of 20 ms each do 200 requests a second, and no more.
#[test]
fn the_highest_rate_is_found() {
    let begun = Instant::now();
    let plan = Plan { duration: Duration::from_millis(700), ..plan(server(Duration::from_millis(20))) };
    let how = Search { from: 50.0, most: 10_000.0, precision: 0.2 };
    let promise = Promise { part: 0.9, within: Duration::from_millis(45), failures: 0.0 };
    let goal = Goal { search: how, promise, arrivals: Arrivals::Even };
    let mut told = Vec::new();
    let mut tell = |one: Told<'_>| {
        if let Told::Tried(step) = one {
            told.push(step.per_second);
        }
    };
    let outcome = search(&plan, &goal, &Stop::default(), &mut tell).unwrap();
    let Decision::Found(rate) = outcome.decision else { panic!("{:?}", outcome.decision) };
    // A machine that does other things keeps the promise up to less.
    assert!(rate < 230.0, "{rate}");
    assert!(told.contains(&50.0) && outcome.steps.len() >= 3 && begun.elapsed() < Duration::from_secs(30));
    let broken = outcome.sought(&promise).lowest_broken().unwrap().clone();
    assert!(broken.per_second > rate && broken.why.is_some(), "{broken:?}");
    let sought = outcome.sought(&promise);
    assert_eq!(
        sought.steps[sought.stands_for.unwrap()].per_second.total_cmp(&rate),
        std::cmp::Ordering::Equal
    );
    let stopped = Stop::default();
    stopped.stop();
    let outcome = search(&plan, &goal, &stopped, &mut |_| ()).unwrap();
    assert!(outcome.steps.is_empty() && outcome.decision == Decision::Try(50.0));
}

/// Its figures are those of the highest rate at which the promise was kept, and it is compared by that rate.
#[test]
fn a_campaign_of_searches_has_a_run_for_each() {
    let goal = Goal {
        search: Search { from: 20.0, most: 80.0, precision: 0.5 },
        promise: Promise { part: 0.5, within: Duration::from_secs(2), failures: 0.5 },
        arrivals: Arrivals::Even,
    };
    let campaign = Campaign { search: Some(goal), ..campaign(vec![contender("one", 1)], &[], 1) };
    let results = go(&campaign, &Stop::default(), &mut Blind).unwrap();
    let [run] = results.runs.as_slice() else { panic!("{} runs", results.runs.len()) };
    let sought = run.search.as_ref().unwrap();
    assert_eq!((sought.highest_per_second, sought.at_the_most), (Some(80.0), true), "{sought:?}");
    assert_eq!(run.mode, Mode::Open { per_second: 80.0, seed: None });
    assert_eq!((sought.steps.len(), run.figures.sent), (3, Some(24)), "{:?}", run.figures);
    assert!(run.observations.goodput_per_second > Some(0.0));
}

/// Stopped while it warms up, a run has nothing to report and says so, rather than that the server is down.
#[test]
fn stopped_while_warming_up() {
    let control = Control::default();
    control.stop();
    let plan = Plan { warm_up: Duration::from_mins(1), ..plan(server(Duration::ZERO)) };
    let report = run(&plan, &control).unwrap();
    assert!(report.partial && report.counts.answered == 0);
}

/// A server that ends with its n-th connection: whoever comes later is refused.
fn mortal(connections: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten().take(connections) {
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_target_that_dies_in_a_later_round_costs_no_other_run() {
    // Four connections for each of its first two runs.
    let address = mortal(8);
    let dies = Contender { name: "dies".into(), url: format!("http://{address}/"), plan: plan(address) };
    let campaign = campaign(vec![contender("lives", 1), dies], &[], 5);
    let results = go(&campaign, &Stop::default(), &mut Blind).unwrap();
    assert_eq!(results.runs.len(), 10);
    let of = |name: &'static str| results.runs.iter().filter(move |run| run.target == name);
    assert!(of("lives").all(|run| run.figures.answered > 0));
    let unanswered: Vec<_> = of("dies").filter(|run| run.figures.answered == 0).collect();
    assert_eq!(unanswered.len(), 3);
    for run in unanswered {
        assert!(!run.is_valid());
        let fault = run.figures.fault.as_deref().unwrap_or_default();
        assert!(fault.contains("got no answer") && fault.contains("refused"), "{fault}");
    }
    // One that never was there is told at once.
    let gone = Contender { plan: plan(address), ..contender("gone", 1) };
    let error =
        go(&Campaign { contenders: vec![gone], ..campaign }, &Stop::default(), &mut Blind).unwrap_err();
    assert!(matches!(error, Error::WarmUp { .. }), "{error}");
}

#[test]
fn a_rate_above_what_the_server_can_is_no_throughput() {
    // Two connections and 10 ms: at most 200 a second.
    let mut overloaded = contender("slow", 10);
    overloaded.plan.connections = 2;
    overloaded.plan.duration = Duration::from_secs(1);
    overloaded.plan.load = Load::Rate { per_second: 600.0, arrivals: Arrivals::Even };
    let results = go(&campaign(vec![overloaded], &[], 1), &Stop::default(), &mut Blind).unwrap();
    let run = &results.runs[0];
    assert!(run.figures.requests_per_second <= 202.0, "{}", run.figures.requests_per_second);
    let told =
        run.verdicts.iter().any(|verdict| format!("{verdict:?}").contains("waited for a free connection"));
    assert!(told, "{:?}", run.verdicts);
}
