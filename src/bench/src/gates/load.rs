//! Gates over what the generator saw.

use super::Outcome::{self, Invalid, NotChecked, Notice, Passed};
use crate::report::as_f64;
use crate::results::{Generator, Mode, Run};

/// Above it, a generator's thread had no time to spare.
pub(crate) const MOST_GENERATOR_CPU: f64 = 0.8;
/// How far throughput times latency may be from the number of connections.
const LITTLE: f64 = 0.1;
/// Of the planned requests, the part that may be sent late by the generator's own fault, or never.
pub(crate) const MOST_LATE: f64 = 0.01;

pub(super) fn errors(run: &Run) -> Outcome {
    let figures = &run.figures;
    if figures.failed == 0 && figures.answered > 0 {
        return match figures.resent.unwrap_or_default() {
            0 => Passed,
            resent => Notice(format!(
                "{resent} requests were sent once more, since their connection ended or they were refused before an answer began"
            )),
        };
    }
    let mut why = if figures.answered == 0 {
        "no request was answered".to_owned()
    } else {
        format!("{} of {} requests failed", figures.failed, figures.failed + figures.answered)
    };
    for (place, (kind, count)) in figures.failures.iter().enumerate() {
        why.push_str(if place == 0 { ": " } else { ", " });
        push!(why, "{kind} {count}");
    }
    if let Some(fault) = &figures.fault {
        push!(why, "; the first: {fault}");
    }
    Invalid(why)
}

pub(super) fn warm_up(run: &Run) -> Outcome {
    match run.figures.warm_up {
        None if run.figures.generator == Generator::Workerapp => Invalid("there was no warm-up".into()),
        None => NotChecked("the source says nothing of a warm-up".into()),
        Some(warm_up) => match warm_up.answered {
            Some(0) => Invalid(format!("the warm-up of {} s sent no load", warm_up.seconds)),
            Some(_) => Passed,
            None => NotChecked("the source doesn't say whether the warm-up sent load".into()),
        },
    }
}

pub(super) fn interrupted(run: &Run) -> Outcome {
    if run.figures.interrupted {
        return Invalid(format!("it was stopped after {:.1} s", run.figures.elapsed_seconds));
    }
    Passed
}

pub(super) fn generator_cpu(run: &Run) -> Outcome {
    match run.figures.busiest_thread {
        None => NotChecked("the source doesn't say how busy the generator was".into()),
        Some(part) if part > MOST_GENERATOR_CPU => Invalid(format!(
            "a thread of the generator used {:.0} % of a CPU; above {:.0} % it measures itself: take more threads or another machine",
            100.0 * part,
            100.0 * MOST_GENERATOR_CPU
        )),
        Some(_) => Passed,
    }
}

pub(super) fn littles_law(run: &Run) -> Outcome {
    let figures = &run.figures;
    match run.mode {
        Mode::Closed => {}
        Mode::Open { .. } | Mode::Ramp { .. } => {
            return NotChecked("in an open loop the number of requests on their way is not given".into());
        }
        Mode::Unknown => return NotChecked("the source doesn't say whether the loop was closed".into()),
    }
    // Few are lost in the tolerance.
    if as_f64(figures.failed) > LITTLE / 10.0 * as_f64(figures.answered + figures.failed) {
        return NotChecked("requests failed, and how long those took isn't counted".into());
    }
    let (Some(places), Some(latency)) = (run.places(), &figures.latency) else {
        return NotChecked("connections or latencies are missing".into());
    };
    let (connections, resolution) = (as_f64(places), figures.generator.resolution_ms());
    // Rounded down, a latency may be longer than it says.
    let at = |ms: f64| figures.requests_per_second * ms / 1000.0;
    let (least, most) = (at(latency.mean_ms), at(latency.mean_ms + resolution));
    // wrk adds latencies that it thinks it missed: too long a mean says nothing there.
    let too_long = least > connections * (1.0 + LITTLE) && figures.generator != Generator::Wrk;
    if most < connections * (1.0 - LITTLE) || too_long {
        return Invalid(format!(
            "{:.0} requests/s with a mean latency of {:.3} ms mean {least:.1} requests on their way, but there was room for \
             {connections}: latencies or throughput leave something out",
            figures.requests_per_second, latency.mean_ms
        ));
    }
    Passed
}

pub(super) fn arrivals(run: &Run) -> Outcome {
    if matches!(run.mode, Mode::Closed | Mode::Unknown) {
        return NotChecked("nothing is planned ahead in a closed loop".into());
    }
    let figures = &run.figures;
    let (Some(sent), Some(late), Some(dropped)) = (figures.sent, figures.late, figures.dropped) else {
        return NotChecked("the source doesn't count late requests".into());
    };
    let planned = as_f64(sent + dropped).max(1.0);
    // What waited for a connection waited for the server.
    let waited = figures.late_for_want_of_a_connection.unwrap_or(0);
    let own = as_f64(late.saturating_sub(waited));
    if own > by_chance(MOST_LATE * planned) {
        let percent = 100.0 * own / planned;
        return Invalid(format!("the generator sent {percent:.1} % of the requests over 1 ms late"));
    }
    if as_f64(dropped) > MOST_LATE * planned {
        let percent = 100.0 * as_f64(dropped) / planned;
        return Invalid(format!(
            "{percent:.1} % of the planned requests were never sent: no connection was free"
        ));
    }
    if as_f64(waited) > by_chance(MOST_LATE * planned) {
        let per_second = planned / figures.elapsed_seconds.max(1e-3);
        return Notice(format!(
            "{:.0} % of the requests waited for a free connection, which counts as latency: of {per_second:.0}/s planned, {:.0}/s were \
             answered while the load lasted; where the server can't do more, latencies say how long the run was",
            100.0 * as_f64(waited) / planned,
            figures.requests_per_second
        ));
    }
    Passed
}

/// What isn't exceeded by chance, but for one in fifty times, where so many are expected: two late ones of a hundred say nothing.
fn by_chance(expected: f64) -> f64 {
    expected + 2.0 * expected.sqrt()
}

pub(super) fn search(run: &Run) -> Outcome {
    let Some(search) = &run.search else { return NotChecked("no rate was searched for".into()) };
    let broken = search.lowest_broken();
    let limit = broken.map_or_else(String::new, |step| {
        format!("{:.0}/s: {}", step.per_second, step.why.as_deref().unwrap_or("not kept"))
    });
    match search.highest_per_second {
        None if run.figures.interrupted => Passed,
        None => Invalid(format!("{} was not kept at any rate; the lowest: {limit}", search.promise)),
        Some(_) if broken.is_some_and(|step| step.generator) => Invalid(format!(
            "the generator couldn't make the load of {limit}; the server may do more: take more threads or another machine"
        )),
        Some(most) if search.at_the_most => Notice(format!(
            "{} was kept at {most:.0}/s, the highest rate allowed: the server may do more",
            search.promise
        )),
        Some(_) => Passed,
    }
}
