//! The highest rate at which a promise is kept.
//!
//! [`Search::next`] decides from the steps so far and nothing else: the rate doubles until the promise is broken, then the gap
//! between the highest rate that kept it and the lowest that didn't is halved until it is narrow.

use crate::engine::{Stop, Watched, run_watched};
use crate::error::Error;
use crate::gates::{MOST_GENERATOR_CPU, MOST_LATE};
use crate::plan::{Load, Plan};
use crate::report::quantile_name;
use crate::report::{Report, as_f64};
use crate::schedule::Arrivals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// So large a part of the answers, 0 to 1 …
    pub part: f64,
    /// … comes within this time.
    pub within: Duration,
    /// The part of the requests that may fail or never be sent, 0 to 1.
    pub failures: f64,
}

/// How to look for the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The first rate that is tried, in requests per second.
    pub from: f64,
    /// No rate above it is tried.
    pub most: f64,
    /// It is found when the gap is at most this part of it: 0.05 is 5 %.
    pub precision: f64,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// How.
    pub search: Search,
    /// The highest rate at which this is kept.
    pub promise: Promise,
    /// How the requests are spaced.
    pub arrivals: Arrivals,
}

/// A rate that was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Requests per second that were planned.
    pub per_second: f64,
    /// Was the promise kept?
    pub kept: bool,
    /// Why not.
    #[serde(default)]
    pub why: Option<String>,
    /// The generator couldn't make this load as planned, so that it says nothing of the server.
    #[serde(default)]
    pub generator: bool,
}

/// What a search found, as it stands in results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sought {
    /// In words, for example `p99 < 50 ms, failed < 0.1 %`.
    pub promise: String,
    /// The highest rate at which it was kept; absent if there was none, or the search was stopped.
    #[serde(default)]
    pub highest_per_second: Option<f64>,
    /// It was kept at the highest rate that was allowed.
    #[serde(default)]
    pub at_the_most: bool,
    /// Every rate that was tried, in their order.
    pub steps: Vec<Step>,
    /// Which of them stands for the search: that of the rate found, else the last that has figures.
    #[serde(default)]
    pub stands_for: Option<usize>,
}

impl Sought {
    /// The lowest rate at which the promise was broken.
    pub fn lowest_broken(&self) -> Option<&Step> {
        let broken = self.steps.iter().filter(|step| !step.kept);
        broken.min_by(|one, other| one.per_second.total_cmp(&other.per_second))
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Try this rate.
    Try(f64),
    /// The highest rate at which the promise was kept.
    Found(f64),
    /// It was kept at the highest rate allowed.
    AtTheMost(f64),
    /// It wasn't kept at the lowest rate tried.
    Never(f64),
}

/// No rate is halved more often than this below the first one.
const LOWEST: f64 = 1.0 / 1024.0;

impl Search {
    /// Looks for what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let wrong =
            |field, value: f64, allowed| Err(Error::Value { field, value: value.to_string(), allowed });
        if !(self.from > 0.0 && self.from.is_finite()) {
            wrong("search from", self.from, "it must be above 0")
        } else if !(self.most >= self.from && self.most.is_finite()) {
            wrong("search most", self.most, "it must not be below the first rate")
        } else if !(0.001..=0.5).contains(&self.precision) {
            wrong("search precision", self.precision, "it must be from 0.001 to 0.5")
        } else {
            Ok(())
        }
    }

    /// What to do after these steps.
    pub fn next(&self, steps: &[Step]) -> Decision {
        let rates = |kept| steps.iter().filter(move |step| step.kept == kept).map(|step| step.per_second);
        let broken = rates(false).reduce(f64::min);
        // A rate above one that was broken is not believed: it was luck.
        let kept = rates(true).filter(|rate| broken.is_none_or(|broken| *rate < broken)).reduce(f64::max);
        match (kept, broken) {
            (None, None) => Decision::Try(self.from),
            (Some(kept), None) if kept >= self.most => Decision::AtTheMost(kept),
            (Some(kept), None) => Decision::Try((2.0 * kept).min(self.most)),
            (None, Some(broken)) if broken / 2.0 < self.from * LOWEST => Decision::Never(broken),
            (None, Some(broken)) => Decision::Try(broken / 2.0),
            (Some(kept), Some(broken)) if broken - kept <= self.precision * kept => Decision::Found(kept),
            (Some(kept), Some(broken)) => Decision::Try(f64::midpoint(kept, broken)),
        }
    }
}

impl Promise {
    /// Looks for what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, value: String, allowed| Err(Error::Value { field, value, allowed });
        if !(self.part > 0.0 && self.part <= 1.0) {
            wrong("promise percentile", (100.0 * self.part).to_string(), "it must be above 0 and at most 100")
        } else if self.within.is_zero() {
            wrong("promise latency", "0s".into(), "it must be above 0")
        } else if !(0.0..1.0).contains(&self.failures) {
            wrong("promise failures", self.failures.to_string(), "it must be from 0 to below 1")
        } else {
            Ok(())
        }
    }

    /// Why this run didn't keep it. Failed and unsent requests count, and a run without answers kept nothing.
    pub fn broken(&self, report: &Report) -> Option<String> {
        let counts = &report.counts;
        let bad = as_f64(counts.failed + counts.dropped);
        let all = bad + as_f64(counts.answered);
        let late = Duration::from_secs_f64(report.quantile_ms(self.part) / 1000.0);
        if counts.answered == 0 {
            return Some("no request was answered".to_owned());
        }
        let mut why = if bad > self.failures * all {
            format!("{:.3} % failed or were never sent", 100.0 * bad / all)
        } else if late > self.within {
            format!("{} {:.1} ms", quantile_name(self.part), report.quantile_ms(self.part))
        } else {
            return None;
        };
        let waited = as_f64(counts.late_for_want_of_a_connection + counts.dropped);
        if waited > 0.01 * all {
            push!(why, "; {:.0} % waited for a free connection", 100.0 * waited / all);
        }
        Some(why)
    }
}

/// `p99 < 50 ms, failed < 0.1 %`
impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = self.within.as_secs_f64() * 1000.0;
        write!(f, "{} < {ms} ms, failed < {} %", quantile_name(self.part), 100.0 * self.failures)
    }
}

impl Step {
    fn of(per_second: f64, promise: &Promise, report: &Report) -> Self {
        let why = promise.broken(report);
        let counts = &report.counts;
        let own = as_f64(counts.late.saturating_sub(counts.late_for_want_of_a_connection));
        let late = own > MOST_LATE * as_f64(counts.sent);
        let generator = why.is_some() && (late || report.busiest_thread > MOST_GENERATOR_CPU);
        Self { per_second, kept: why.is_none(), why, generator }
    }
}

/// What came of a search.
#[derive(Debug)]
pub struct Outcome {
    /// The last decision; [`Decision::Try`] if the search was stopped.
    pub decision: Decision,
    /// All steps with their reports; one that got no answer in its warm-up has none.
    pub steps: Vec<(Step, Option<Report>)>,
}

impl Outcome {
    /// As it stands in results.
    pub fn sought(&self, promise: &Promise) -> Sought {
        let found = match self.decision {
            Decision::Found(rate) | Decision::AtTheMost(rate) => Some(rate),
            Decision::Try(_) | Decision::Never(_) => None,
        };
        let at =
            |rate: f64| self.steps.iter().rposition(|(step, _)| step.per_second.total_cmp(&rate).is_eq());
        let last = || self.steps.iter().rposition(|(_, report)| report.is_some());
        Sought {
            stands_for: found.map_or_else(last, at),
            promise: promise.to_string(),
            highest_per_second: found,
            at_the_most: matches!(self.decision, Decision::AtTheMost(_)),
            steps: self.steps.iter().map(|(step, _)| step.clone()).collect(),
        }
    }
}

/// What a search tells while it goes on.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// Of the rate that is tried now.
    Progress(Watched),
    /// A rate was tried.
    Tried(&'a Step),
}

/// Tries rates until it is found. The plan says all but the load.
pub fn search(
    plan: &Plan,
    goal: &Goal,
    stop: &Stop,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Outcome, Error> {
    let Goal { search, promise, arrivals } = *goal;
    search.check()?;
    promise.check()?;
    let mut steps: Vec<(Step, Option<Report>)> = Vec::new();
    loop {
        let so_far: Vec<Step> = steps.iter().map(|(step, _)| step.clone()).collect();
        let decision = search.next(&so_far);
        let Decision::Try(per_second) = decision else { return Ok(Outcome { decision, steps }) };
        if stop.is_stopped() {
            return Ok(Outcome { decision, steps });
        }
        let plan = Plan { load: Load::Rate { per_second, arrivals }, ..plan.clone() };
        match run_watched(&plan, stop, &mut |watched| tell(Told::Progress(watched))) {
            Ok(report) if report.partial => {}
            Ok(report) => steps.push((Step::of(per_second, &promise, &report), Some(report))),
            // A server that answers nothing at a high rate answered at a lower one.
            Err(error @ Error::WarmUp { .. }) if !steps.is_empty() => {
                let why = Some(error.to_string());
                steps.push((Step { per_second, why, ..Step::default() }, None));
            }
            Err(error) => return Err(error),
        }
        if let Some((tried, _)) = steps.last().filter(|_| !stop.is_stopped()) {
            tell(Told::Tried(tried));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search { from: 100.0, most: 100_000.0, precision: 0.05 };

    /// Decides against a server that keeps the promise up to a rate.
    fn against(search: &Search, limit: f64) -> (Decision, usize) {
        let mut steps = Vec::new();
        loop {
            match search.next(&steps) {
                Decision::Try(per_second) => {
                    steps.push(Step { per_second, kept: per_second <= limit, ..Step::default() });
                }
                end => return (end, steps.len()),
            }
            assert!(steps.len() < 60, "{steps:?}");
        }
    }

    #[test]
    fn the_limit_is_found_from_above_and_below() {
        for limit in [0.7, 3.0, 99.0, 100.0, 101.0, 5000.0, 77_777.0] {
            let (end, steps) = against(&SEARCH, limit);
            let Decision::Found(rate) = end else { panic!("{limit}: {end:?}") };
            assert!(rate <= limit && rate >= limit / 1.06 && steps < 25, "{limit}: {rate} in {steps}");
        }
        assert_eq!(against(&SEARCH, 1e9).0, Decision::AtTheMost(100_000.0));
        assert!(matches!(against(&SEARCH, 0.0).0, Decision::Never(_)));
    }

    #[test]
    fn luck_above_a_broken_rate_is_not_believed() {
        let step = |per_second, kept| Step { per_second, kept, ..Step::default() };
        let steps = [step(100.0, true), step(200.0, false), step(300.0, true)];
        assert_eq!(SEARCH.next(&steps), Decision::Try(150.0));
    }

    #[test]
    fn a_search_is_told_by_what_it_found_and_by_what_broke() {
        let step = |per_second, why: Option<&str>| Step {
            per_second,
            kept: why.is_none(),
            why: why.map(str::to_owned),
            generator: false,
        };
        let all = [step(100.0, None), step(200.0, Some("p99 61.0 ms")), step(150.0, Some("p99 51.0 ms"))];
        let outcome = Outcome {
            decision: Decision::Found(100.0),
            steps: all.into_iter().map(|step| (step, None)).collect(),
        };
        let promise = Promise { part: 0.99, within: Duration::from_millis(50), failures: 0.001 };
        let sought = outcome.sought(&promise);
        assert_eq!(sought.promise, "p99 < 50 ms, failed < 0.1 %");
        assert_eq!((sought.highest_per_second, sought.steps.len()), (Some(100.0), 3));
        assert_eq!(sought.lowest_broken().unwrap().why.as_deref(), Some("p99 51.0 ms"));
    }

    #[test]
    fn what_makes_no_sense() {
        for (search, field) in [
            (Search { from: 0.0, ..SEARCH }, "from"),
            (Search { most: 1.0, ..SEARCH }, "most"),
            (Search { precision: 0.0, ..SEARCH }, "precision"),
            (Search { precision: f64::NAN, ..SEARCH }, "precision"),
        ] {
            assert!(search.check().unwrap_err().to_string().contains(field), "{field}");
        }
        let promise = Promise { part: 0.99, within: Duration::from_millis(50), failures: 0.001 };
        assert!(promise.check().is_ok());
        for (promise, field) in [
            (Promise { part: 1.5, ..promise }, "percentile"),
            (Promise { within: Duration::ZERO, ..promise }, "latency"),
            (Promise { failures: 1.0, ..promise }, "failures"),
        ] {
            assert!(promise.check().unwrap_err().to_string().contains(field), "{field}");
        }
    }
}
