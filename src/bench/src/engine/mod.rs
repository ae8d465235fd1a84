//! Threads with a reactor each, and what starts and ends them together.

mod cpu;
mod descriptors;
mod exchange;
mod http1;
mod http2;
mod poller;
mod reactor;
mod session;
mod slot;
mod stream;
mod wire;

use crate::error::{Error, Failure};
use crate::plan::{Plan, Protocol};
use crate::record::Record;
use crate::report::Report;
use http1::Http1;
use http2::Http2;
use reactor::Reactor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between the start of the threads and the first request.
const HEAD_START: Duration = Duration::from_millis(5);
/// How often the begin of the measurement is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// How often a watched run is looked at.
const WATCH: Duration = Duration::from_millis(100);

/// Stops runs from anywhere: a signal's handler keeps a clone of it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the run that goes on within a tenth of a second, and lets no other begin. Its report is marked as partial.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Has somebody stopped it?
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Looks into one run, and stops it, from another thread.
#[derive(Debug, Default)]
pub struct Control {
    stop: Stop,
    /// The run can't go on by itself.
    aborted: AtomicBool,
    sent: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    /// Threads whose warm-up is over.
    warmed_up: AtomicUsize,
}

/// How far a run is, with its warm-up; a tenth of a second old at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests sent.
    pub sent: u64,
    /// Good answers.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
}

impl Control {
    /// Of a run that this stops.
    pub fn with(stop: Stop) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Ends the run within a tenth of a second; its report is marked as partial.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            sent: self.sent.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.is_stopped() || self.aborted.load(Ordering::Relaxed)
    }

    fn add(&self, progress: Progress) {
        self.sent.fetch_add(progress.sent, Ordering::Relaxed);
        self.answered.fetch_add(progress.answered, Ordering::Relaxed);
        self.failed.fetch_add(progress.failed, Ordering::Relaxed);
    }
}

/// What [`run_watched`] tells about a run that goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watched {
    /// Requests so far, with those of the warm-up.
    pub progress: Progress,
    /// Good answers per second since it was told the last time.
    pub per_second: f64,
    /// Since the begin of the run.
    pub elapsed: Duration,
    /// Warm-up and measurement together, as planned.
    pub planned: Duration,
    /// The warm-up isn't over.
    pub warming_up: bool,
}

/// [`run`], which tells ten times a second how far it is.
pub fn run_watched(plan: &Plan, stop: &Stop, tell: &mut dyn FnMut(Watched)) -> Result<Report, Error> {
    let control = Control::with(stop.clone());
    let begin = Instant::now();
    let planned = plan.warm_up + plan.duration;
    thread::scope(|scope| {
        let running = scope.spawn(|| run(plan, &control));
        let (mut last, mut answered) = (begin, 0);
        while !running.is_finished() {
            thread::sleep(WATCH);
            let now = Instant::now();
            let progress = control.progress();
            let passed = now.duration_since(last).as_secs_f64();
            let elapsed = now.duration_since(begin);
            let new = progress.answered.saturating_sub(answered);
            let per_second = crate::report::as_f64(new) / passed.max(1e-3);
            tell(Watched { progress, per_second, elapsed, planned, warming_up: elapsed < plan.warm_up });
            (last, answered) = (now, progress.answered);
        }
        running.join().map_err(|_| Error::Internal("a run ended by itself"))?
    })
}

/// The times of a run, the same for all its threads.
#[derive(Debug, Clone, Copy)]
struct Times {
    begin: Instant,
    /// The warm-up is over.
    measured: Instant,
    /// No request begins any more.
    end: Instant,
}

/// What a thread has to say.
struct Outcome {
    record: Record,
    warm_up: Progress,
    warm_up_failures: [u64; Failure::ALL.len()],
    /// Why the first request failed that did, where there is more to say than its kind.
    fault: Option<String>,
    stopped: Option<Instant>,
}

/// Puts the load on the server and blocks until that is over: after warm-up and duration, and in an open loop after the last
/// answers, for which it waits twice the timeout at most.
pub fn run(plan: &Plan, control: &Control) -> Result<Report, Error> {
    plan.check()?;
    descriptors::suffice(plan.connections, plan.threads)?;
    let begin = Instant::now() + HEAD_START;
    let measured = begin + plan.warm_up;
    let times = Times { begin, measured, end: measured + plan.duration };
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|number| {
                thread::Builder::new().name(format!("load-{number}")).spawn_scoped(scope, move || {
                    let outcome = match plan.protocol {
                        Protocol::Http1 => {
                            Reactor::<Http1>::new(plan, control, times, number).and_then(Reactor::run)
                        }
                        Protocol::Http2 => {
                            Reactor::<Http2>::new(plan, control, times, number).and_then(Reactor::run)
                        }
                    };
                    // Half of the load would be a result that misleads.
                    outcome.inspect_err(|_| control.abort())
                })
            })
            .collect();
        // The others would wait for nothing.
        if threads.iter().any(Result::is_err) {
            control.abort();
        }
        if !plan.warm_up.is_zero() {
            let finished = || threads.iter().flatten().all(thread::ScopedJoinHandle::is_finished);
            while control.warmed_up.load(Ordering::Acquire) < plan.threads && !finished() {
                thread::sleep(LOOK);
            }
            if control.progress().answered == 0 {
                control.abort();
            }
        }
        let join = |thread: Result<thread::ScopedJoinHandle<'_, _>, _>| {
            thread.map_err(Error::Thread)?.join().map_err(|_| Error::Internal("a thread ended by itself"))?
        };
        threads.into_iter().map(join).collect::<Result<Vec<Outcome>, Error>>()
    })?;
    finish(plan, times, outcomes, control.stop.is_stopped())
}

fn finish(plan: &Plan, times: Times, outcomes: Vec<Outcome>, interrupted: bool) -> Result<Report, Error> {
    let sum = |part: fn(&Outcome) -> u64| outcomes.iter().map(part).sum::<u64>();
    let fault = outcomes.iter().find_map(|outcome| outcome.fault.clone());
    let warm_up_answers = sum(|outcome| outcome.warm_up.answered);
    if !plan.warm_up.is_zero() && warm_up_answers == 0 && !interrupted {
        let mut why = String::new();
        for (place, kind) in Failure::ALL.into_iter().enumerate() {
            let count: u64 = outcomes.iter().filter_map(|outcome| outcome.warm_up_failures.get(place)).sum();
            if count > 0 {
                let separator = if why.is_empty() { " (" } else { ", " };
                why = format!("{why}{separator}{}: {count}", kind.name());
            }
        }
        if let Some(fault) = fault {
            push!(why, "; the first: {fault}");
        }
        if !why.is_empty() {
            why.push(')');
        }
        let sent = sum(|outcome| outcome.warm_up.sent);
        return Err(Error::WarmUp { warm_up: plan.warm_up, sent, why });
    }
    let stopped = outcomes.iter().filter_map(|outcome| outcome.stopped).min();
    let until = stopped.map_or(times.end, |stopped| stopped.min(times.end));
    let elapsed = until.saturating_duration_since(times.measured).max(Duration::from_millis(1));
    let records = outcomes.into_iter().map(|outcome| outcome.record).collect();
    let mut report = Report::merge(records, elapsed, stopped.is_some())?;
    report.warm_up_answers = warm_up_answers;
    report.fault = fault;
    Ok(report)
}
