//! Runs many cases at the same time, names each with what became of it and how long it took, and sums up.

use std::{
    io::Write as _,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::{sync::Semaphore, task::JoinSet};

use super::case::Met;

/// One case.
pub struct Case {
    name: String,
    work: BoxFuture<'static, Result<Met>>,
}

impl Case {
    /// A case of this name.
    pub fn new(name: impl Into<String>, work: impl Future<Output = Result<Met>> + Send + 'static) -> Self {
        Self { name: name.into(), work: work.boxed() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What became of all cases.
#[derive(Debug, Default)]
pub struct Sum {
    /// How many ended well.
    pub passed: usize,
    /// How many of these were over before the fault could come.
    pub unmet: usize,
    /// The names of those that didn't.
    pub failed: Vec<String>,
}

/// Runs those cases whose name contains one of `wanted` (all, if there is none), at most `at_once` at a time.
pub async fn run(cases: Vec<Case>, wanted: &[String], at_once: usize) -> Sum {
    let slots = Arc::new(Semaphore::new(at_once));
    let mut running = JoinSet::new();
    for case in cases {
        if !wanted.is_empty() && !wanted.iter().any(|part| case.name.contains(part)) {
            continue;
        }
        let slots = Arc::clone(&slots);
        running.spawn(async move {
            let _slot = slots.acquire_owned().await;
            let begin = Instant::now();
            let result = AssertUnwindSafe(case.work).catch_unwind().await;
            (case.name, result.unwrap_or_else(|_| Err(anyhow!("it panicked"))), begin.elapsed())
        });
    }
    let mut sum = Sum::default();
    while let Some(ended) = running.join_next().await {
        if let Ok((name, result, time)) = ended {
            sum.note(name, &result, time);
        }
    }
    sum
}

impl Sum {
    fn note(&mut self, name: String, result: &Result<Met>, time: Duration) {
        let seconds = time.as_secs_f64();
        match result {
            Ok(Met::Fault) => say(&format!("ok      {seconds:6.1} s  {name}")),
            Ok(Met::Nothing) => say(&format!("ok      {seconds:6.1} s  {name} (over before the fault came)")),
            Err(error) => say(&format!("FAILED  {seconds:6.1} s  {name}: {error:#}")),
        }
        match result {
            Ok(met) => {
                self.passed += 1;
                self.unmet += usize::from(*met == Met::Nothing);
            }
            Err(_) => self.failed.push(name),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.unmet += other.unmet;
        self.failed.extend(other.failed);
        self
    }
}

/// A line for whoever runs the cases.
pub fn say(line: &str) {
    // Nobody listens any more: the exit code says it too.
    let _ = writeln!(std::io::stdout(), "{line}");
}
