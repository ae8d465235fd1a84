//! Threads with a reactor each, and what starts and ends them together.

mod connection;
mod cpu;
mod poller;
mod reactor;

use crate::error::{Error, Failure};
use crate::plan::Plan;
use crate::record::Record;
use crate::report::Report;
use reactor::Reactor;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between the start of the threads and the first request.
const HEAD_START: Duration = Duration::from_millis(5);
/// How often the begin of the measurement is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Looks into a run, and stops it, from another thread.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
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
    /// Ends the run within a tenth of a second; its report is marked as partial.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            sent: self.sent.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn add(&self, progress: Progress) {
        self.sent.fetch_add(progress.sent, Ordering::Relaxed);
        self.answered.fetch_add(progress.answered, Ordering::Relaxed);
        self.failed.fetch_add(progress.failed, Ordering::Relaxed);
    }
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
    stopped: Option<Instant>,
}

/// Puts the load on the server and blocks until that is over: after warm-up and duration, and in an open loop after the last
/// answers, for which it waits twice the timeout at most.
pub fn run(plan: &Plan, control: &Control) -> Result<Report, Error> {
    plan.check()?;
    let begin = Instant::now() + HEAD_START;
    let measured = begin + plan.warm_up;
    let times = Times { begin, measured, end: measured + plan.duration };
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|number| {
                thread::Builder::new().name(format!("load-{number}")).spawn_scoped(scope, move || {
                    let outcome = Reactor::new(plan, control, times, number).and_then(Reactor::run);
                    // Half of the load would be a result that misleads.
                    outcome.inspect_err(|_| control.stop())
                })
            })
            .collect();
        // The others would wait for nothing.
        if threads.iter().any(Result::is_err) {
            control.stop();
        }
        if !plan.warm_up.is_zero() {
            let finished = || threads.iter().flatten().all(thread::ScopedJoinHandle::is_finished);
            while control.warmed_up.load(Ordering::Acquire) < plan.threads && !finished() {
                thread::sleep(LOOK);
            }
            if control.progress().answered == 0 {
                control.stop();
            }
        }
        let join = |thread: Result<thread::ScopedJoinHandle<'_, _>, _>| {
            thread.map_err(Error::Thread)?.join().map_err(|_| Error::Internal("a thread ended by itself"))?
        };
        threads.into_iter().map(join).collect::<Result<Vec<Outcome>, Error>>()
    })?;
    finish(plan, times, outcomes)
}

fn finish(plan: &Plan, times: Times, outcomes: Vec<Outcome>) -> Result<Report, Error> {
    let sum = |part: fn(&Outcome) -> u64| outcomes.iter().map(part).sum::<u64>();
    let warm_up_answers = sum(|outcome| outcome.warm_up.answered);
    if !plan.warm_up.is_zero() && warm_up_answers == 0 {
        let mut why = String::new();
        for (place, kind) in Failure::ALL.into_iter().enumerate() {
            let count: u64 = outcomes.iter().filter_map(|outcome| outcome.warm_up_failures.get(place)).sum();
            if count > 0 {
                let separator = if why.is_empty() { " (" } else { ", " };
                why = format!("{why}{separator}{}: {count}", kind.name());
            }
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
    Ok(report)
}
