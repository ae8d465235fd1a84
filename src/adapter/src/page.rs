//! The supervisor's metrics page: of its text, what the metrics are made of.

use std::collections::BTreeMap;

/// What is read of each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Requests that have begun and not ended.
    InFlight,
    /// Requests that have begun, since the worker's process started.
    Requests,
    /// Share of the time in which the event loop was busy.
    Utilization,
    /// CPU time of the worker's processes, in seconds.
    Cpu,
    /// Connections that wait to be accepted.
    Queue,
    /// Open connections.
    Connections,
}

/// Each series, by its name on the page.
const NAMES: [(&str, Series); 6] = [
    ("workerapp_worker_requests_in_flight", Series::InFlight),
    ("workerapp_worker_requests_total", Series::Requests),
    ("workerapp_worker_event_loop_utilization", Series::Utilization),
    ("workerapp_worker_cpu_seconds_total", Series::Cpu),
    ("workerapp_worker_queue_length", Series::Queue),
    ("workerapp_worker_connections", Series::Connections),
];

/// One worker's numbers, as far as the page has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worker([Option<f64>; NAMES.len()]);

impl Worker {
    /// The number of one series.
    pub fn get(&self, series: Series) -> Option<f64> {
        self.0.get(series as usize).copied().flatten()
    }
}

/// What a page says, by worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The workers, by their number.
    pub workers: BTreeMap<u32, Worker>,
}

impl Reading {
    /// Reads a page. What isn't known here is passed over, so that a newer supervisor may tell more.
    pub fn of(page: &str) -> Self {
        let mut reading = Self::default();
        for line in page.lines() {
            if let Some((series, worker, value)) = sample(line)
                && let Some(place) = reading.workers.entry(worker).or_default().0.get_mut(series as usize)
            {
                *place = Some(value);
            }
        }
        reading
    }
}

/// `name{worker="1"} 0.5`; no other label stands in the series that are read.
fn sample(line: &str) -> Option<(Series, u32, f64)> {
    let (name, rest) = line.split_once('{')?;
    let (_, series) = NAMES.iter().find(|(known, _)| *known == name)?;
    let (worker, value) = rest.strip_prefix("worker=\"")?.split_once("\"} ")?;
    let value: f64 = value.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((*series, worker.parse().ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::{NAMES, Reading, Series};

    #[test]
    fn a_page_is_read_by_worker_and_what_is_foreign_is_passed_over() {
        let page = "# HELP workerapp_worker_queue_length Connections.\n\
            # TYPE workerapp_worker_queue_length gauge\n\
            workerapp_worker_queue_length{worker=\"0\"} 3\n\
            workerapp_worker_queue_length{worker=\"1\"} NaN\n\
            workerapp_worker_cpu_seconds_total{worker=\"1\"} 0.25\n\
            workerapp_worker_cpu_seconds_total{worker=\"x\"} 1\n\
            workerapp_worker_restarts_total{worker=\"0\",reason=\"crash\"} 7\n\
            workerapp_worker_queue_length 9\n{}\nnonsense";
        let reading = Reading::of(page);
        assert_eq!(reading.workers.len(), 2);
        assert_eq!(reading.workers[&0].get(Series::Queue), Some(3.0));
        assert_eq!(reading.workers[&1].get(Series::Queue), None);
        assert_eq!(reading.workers[&1].get(Series::Cpu), Some(0.25));
        assert_eq!(reading.workers[&0].get(Series::Cpu), None);
    }

    #[test]
    fn each_series_has_a_place_of_its_own() {
        for (place, (_, series)) in NAMES.iter().enumerate() {
            assert_eq!(*series as usize, place);
        }
    }
}
