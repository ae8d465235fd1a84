//! Several targets, measured in turns.
//!
//! In each round every target gets every row of the ladder once, in an order drawn anew from the seed: what disturbs the machine
//! for a while disturbs all of them alike, and none is always measured after the same other.

mod order;

pub use order::{Turn, order};

use crate::comparison::{FEWEST_PAIRS, compare};
use crate::engine::{Stop, Watched, run_watched};
use crate::error::Error;
use crate::gates::judge;
use crate::plan::{Load, Plan};
use crate::report::Report;
use crate::results::{Observations, Provenance, Results, Run, VERSION, timestamp};
use crate::search::{Decision, Goal, Step, Told, search};
use std::time::Duration;

/// A server to be measured.
#[derive(Debug, Clone)]
pub struct Contender {
    /// As reports call it.
    pub name: String,
    /// For reports.
    pub url: String,
    /// How it is asked; the rows of the ladder replace its connections.
    pub plan: Plan,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// A line for the report's head.
    pub title: String,
    /// The first is what the others are compared with.
    pub contenders: Vec<Contender>,
    /// Connections of each row. Empty: one row, with the connections that the plans have.
    pub ladder: Vec<usize>,
    /// How often; at least [`FEWEST_PAIRS`] with more than one contender, or nothing could be told.
    pub rounds: u32,
    /// The order and the resampling come from it.
    pub seed: u64,
    /// Each turn looks for a rate; the plans' loads are then not used.
    pub search: Option<Goal>,
}

/// What goes with the runs. The default does nothing and has seen nothing.
pub trait Watcher {
    /// Before a run; an error ends the campaign.
    fn before(&mut self, _turn: &Turn, _contender: &Contender) -> Result<(), Error> {
        Ok(())
    }

    /// Ten times a second while it goes on.
    fn progress(&mut self, _turn: &Turn, _watched: &Watched) {}

    /// In a search: a rate was tried; what was seen at the server meanwhile.
    fn tried(&mut self, _turn: &Turn, _contender: &Contender, _step: &Step) -> Observations {
        Observations::default()
    }

    /// After it: what was seen at the server meanwhile.
    fn after(
        &mut self,
        _turn: &Turn,
        _contender: &Contender,
        _report: &Report,
    ) -> Result<Observations, Error> {
        Ok(Observations::default())
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blind;

impl Watcher for Blind {}

impl Campaign {
    /// Looks for what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, value: String, allowed| Err(Error::Value { field, value, allowed });
        if self.contenders.is_empty() {
            return wrong("targets", "none".into(), "at least one is needed");
        }
        for (place, contender) in self.contenders.iter().enumerate() {
            if self.contenders.iter().skip(place + 1).any(|other| other.name == contender.name) {
                return wrong("targets", contender.name.clone(), "each needs a name of its own");
            }
        }
        let (fewest, allowed) = match self.contenders.len() {
            1 => (1, "at least 1 is needed"),
            _ => {
                (u32::try_from(FEWEST_PAIRS).unwrap_or(u32::MAX), "at least 5 are needed to compare targets")
            }
        };
        if self.rounds < fewest {
            return wrong("rounds", self.rounds.to_string(), allowed);
        }
        if let Some(goal) = &self.search {
            goal.search.check()?;
            goal.promise.check()?;
        }
        for turn in self.turns() {
            if let Some(plan) = self.plan(&turn) {
                plan.check()?;
            }
        }
        Ok(())
    }

    /// All runs, in their order.
    pub fn turns(&self) -> Vec<Turn> {
        order(self.rounds, self.contenders.len(), self.ladder.len().max(1), self.seed)
    }

    /// What is done in this turn.
    pub fn plan(&self, turn: &Turn) -> Option<Plan> {
        let plan = self.contenders.get(turn.contender)?.plan.clone();
        let connections = self.ladder.get(turn.row).copied().unwrap_or(plan.connections);
        Some(Plan { connections, ..plan })
    }

    /// Measures all of it. When it is stopped, what was measured until then is the result, marked as interrupted.
    pub fn run(
        &self,
        mut provenance: Provenance,
        stop: &Stop,
        watcher: &mut dyn Watcher,
    ) -> Result<Results, Error> {
        self.check()?;
        provenance.seed = Some(self.seed);
        let mut results = Results {
            version: VERSION,
            title: self.title.clone(),
            provenance,
            targets: self.contenders.iter().map(|contender| contender.name.clone()).collect(),
            ..Results::default()
        };
        for turn in self.turns() {
            let (Some(contender), Some(plan)) = (self.contenders.get(turn.contender), self.plan(&turn))
            else {
                continue;
            };
            if stop.is_stopped() {
                break;
            }
            watcher.before(&turn, contender)?;
            let started = timestamp();
            let answered_before = |run: &Run| run.target == contender.name && run.figures.answered > 0;
            let measured = match self.measure(&turn, contender, &plan, stop, watcher) {
                // It has died meanwhile: what was measured until then is worth a report, and so are the others.
                Err(error @ Error::WarmUp { .. }) if results.runs.iter().any(answered_before) => {
                    Some(silent(&plan, &error)?)
                }
                measured => measured?,
            };
            let Some((report, measured)) = measured else { break };
            let observations = watcher.after(&turn, contender, &report)?;
            let mut run = Run {
                target: contender.name.clone(),
                url: contender.url.clone(),
                round: turn.round,
                started,
                ..measured
            };
            if run.search.is_none() {
                run.observations = observations;
            }
            run.verdicts = judge(&run);
            results.runs.push(run);
        }
        results.provenance.interrupted = stop.is_stopped();
        results.provenance.finished = timestamp();
        results.comparisons = compare(&results, self.seed);
        Ok(results)
    }

    /// One run, or one search, which its last run stands for. Nothing if it was stopped before there was anything.
    fn measure(
        &self,
        turn: &Turn,
        contender: &Contender,
        plan: &Plan,
        stop: &Stop,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<(Report, Run)>, Error> {
        let Some(goal) = &self.search else {
            let report = run_watched(plan, stop, &mut |watched| watcher.progress(turn, &watched))?;
            // Stopped before its first request, it isn't a run without answers: it is none.
            if report.partial && report.counts.sent == 0 {
                return Ok(None);
            }
            let run = Run::of(plan, &report);
            return Ok(Some((report, run)));
        };
        let mut seen = Vec::new();
        let outcome = search(plan, goal, stop, &mut |told| match told {
            Told::Progress(now) => watcher.progress(turn, &now),
            Told::Tried(tried) => seen.push(watcher.tried(turn, contender, tried)),
        })?;
        let sought = outcome.sought(&goal.promise);
        let Some((place, (tried, Some(report)))) =
            sought.stands_for.and_then(|place| Some((place, outcome.steps.get(place)?)))
        else {
            return Ok(None);
        };
        let load = Load::Rate { per_second: tried.per_second, arrivals: goal.arrivals };
        let mut run = Run::of(&Plan { load, ..plan.clone() }, report);
        run.figures.interrupted = matches!(outcome.decision, Decision::Try(_));
        run.search = Some(sought);
        if place < seen.len() {
            run.observations = seen.swap_remove(place);
        }
        run.observations.goodput_per_second = Some(report.within(goal.promise.within));
        Ok(Some((report.clone(), run)))
    }
}

/// A run in which nobody answered: invalid by what the gates say of it.
fn silent(plan: &Plan, error: &Error) -> Result<(Report, Run), Error> {
    let mut report = Report::merge(Vec::new(), Duration::from_millis(1), false)?;
    report.fault = Some(error.to_string());
    let run = Run::of(plan, &report);
    Ok((report, run))
}
