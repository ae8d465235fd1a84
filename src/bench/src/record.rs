//! What one thread counts while it runs.

use crate::error::{Error, Failure};
use crate::response::Answer;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Sent so long after its planned time, a request is late.
pub const LATE: Duration = Duration::from_millis(1);
/// A server doesn't have more workers; a header that differs for each answer names no worker.
const MOST_WORKERS: usize = 1024;
/// Latencies above it are counted as this long, in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// Numbers of requests and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests sent for the first time.
    pub sent: u64,
    /// Complete answers with a status of 2xx.
    pub answered: u64,
    /// Of those: after the end of an open loop, for whose last answers it waits.
    pub answered_after_the_end: u64,
    /// Requests that failed, by whatever kind.
    pub failed: u64,
    /// Requests that were sent once more on a new connection, since the server closed theirs or refused them before an answer began.
    pub reconnects: u64,
    /// Connections that the server closed while no request was on them.
    pub closed_idle: u64,
    /// Connections opened.
    pub opened: u64,
    /// Sent over a millisecond after the planned time. In a closed loop nothing is late.
    pub late: u64,
    /// Of those: because no connection was free, not because the generator was slow.
    pub late_for_want_of_a_connection: u64,
    /// Arrivals that were never sent: no connection was free in time, or before the end.
    pub dropped: u64,
    /// Requests that were on their way when a closed loop ended.
    pub unfinished: u64,
    /// Bytes that came, heads and bodies.
    pub bytes_received: u64,
    /// Bytes of the bodies of good answers.
    pub body_bytes: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.answered_after_the_end += other.answered_after_the_end;
        self.failed += other.failed;
        self.reconnects += other.reconnects;
        self.closed_idle += other.closed_idle;
        self.opened += other.opened;
        self.late += other.late;
        self.late_for_want_of_a_connection += other.late_for_want_of_a_connection;
        self.dropped += other.dropped;
        self.unfinished += other.unfinished;
        self.bytes_received += other.bytes_received;
        self.body_bytes += other.body_bytes;
    }
}

/// One second of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Second {
    /// Good answers that came in it.
    pub answered: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Bytes of the bodies of good answers that ended in it.
    pub body_bytes: u64,
    /// All latencies of its answers together, in microseconds.
    pub sum_us: u64,
    /// The longest latency among its answers, in microseconds.
    pub longest_us: u64,
}

/// Counts, histogram and series of one thread.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) counts: Counts,
    pub(crate) failures: [u64; Failure::ALL.len()],
    pub(crate) latency: Histogram<u64>,
    pub(crate) seconds: Vec<Second>,
    /// Good answers of each connection.
    pub(crate) connections: Vec<u64>,
    /// Names and good answers of workers, in the order in which they came.
    pub(crate) workers: Vec<(Vec<u8>, u64)>,
    /// CPU time of the thread.
    pub(crate) cpu: Duration,
}

/// A histogram for latencies in microseconds.
pub(crate) fn histogram() -> Result<Histogram<u64>, Error> {
    Histogram::new_with_bounds(1, LONGEST, 3).map_err(|_| Error::Internal("the histogram's bounds"))
}

impl Record {
    pub(crate) fn new(connections: usize) -> Result<Self, Error> {
        Ok(Self {
            counts: Counts::default(),
            failures: [0; Failure::ALL.len()],
            latency: histogram()?,
            seconds: Vec::new(),
            connections: vec![0; connections],
            workers: Vec::new(),
            cpu: Duration::ZERO,
        })
    }

    /// A good answer, `at` after the begin of the measurement.
    pub(crate) fn answered(&mut self, connection: usize, answer: Answer, latency: Duration, at: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(LONGEST).clamp(1, LONGEST);
        self.latency.saturating_record(micros);
        self.counts.answered += 1;
        self.counts.body_bytes = self.counts.body_bytes.saturating_add(answer.body);
        if let Some(count) = self.connections.get_mut(connection) {
            *count += 1;
        }
        let second = self.second(at);
        second.answered += 1;
        second.body_bytes = second.body_bytes.saturating_add(answer.body);
        second.sum_us = second.sum_us.saturating_add(micros);
        second.longest_us = second.longest_us.max(micros);
    }

    /// The worker behind a good answer. `known` is where its connection's last worker stands in the list.
    pub(crate) fn worker(&mut self, name: &[u8], known: &mut usize) {
        if self.workers.get(*known).is_none_or(|(other, _)| other != name) {
            *known = match self.workers.iter().position(|(other, _)| other == name) {
                Some(at) => at,
                None if self.workers.len() < MOST_WORKERS => {
                    self.workers.push((name.to_vec(), 0));
                    self.workers.len() - 1
                }
                None => return,
            };
        }
        if let Some((_, count)) = self.workers.get_mut(*known) {
            *count += 1;
        }
    }

    pub(crate) fn failed(&mut self, kind: Failure, at: Duration) {
        self.counts.failed += 1;
        if let Some(count) = self.failures.get_mut(kind as usize) {
            *count += 1;
        }
        self.second(at).failed += 1;
    }

    fn second(&mut self, at: Duration) -> &mut Second {
        let wanted = usize::try_from(at.as_secs()).unwrap_or(0);
        if self.seconds.len() <= wanted {
            self.seconds.resize(wanted + 1, Second::default());
        }
        &mut self.seconds[wanted]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer = Answer { status: 200, keep_alive: true, body: 3 };

    #[test]
    fn answers_are_counted_where_they_belong() {
        let mut record = Record::new(2).unwrap();
        record.answered(1, ANSWER, Duration::from_micros(1500), Duration::from_millis(999));
        record.answered(1, ANSWER, Duration::from_micros(500), Duration::from_millis(2001));
        record.answered(7, ANSWER, Duration::ZERO, Duration::from_millis(2002));
        record.failed(Failure::Reset, Duration::from_secs(1));
        assert_eq!(record.connections, [0, 2]);
        assert_eq!(record.counts.answered, 3);
        assert_eq!(record.counts.body_bytes, 9);
        let second = |answered: u64, failed, sum_us, longest_us| Second {
            answered,
            failed,
            body_bytes: 3 * answered,
            sum_us,
            longest_us,
        };
        assert_eq!(record.seconds, [second(1, 0, 1500, 1500), second(0, 1, 0, 0), second(2, 0, 501, 500)]);
        assert_eq!(record.failures[Failure::Reset as usize], 1);
        assert_eq!(record.latency.len(), 3);
        assert_eq!(record.latency.max(), 1500);
    }

    #[test]
    fn the_longest_latency_is_an_hour() {
        let mut record = Record::new(1).unwrap();
        record.answered(0, ANSWER, Duration::MAX, Duration::ZERO);
        assert!(record.latency.max() >= LONGEST);
    }

    #[test]
    fn workers_are_found_again() {
        let mut record = Record::new(1).unwrap();
        let mut known = usize::MAX;
        for name in ["a", "a", "b", "a", "", "b"] {
            record.worker(name.as_bytes(), &mut known);
        }
        let counts: Vec<_> = record.workers.iter().map(|(name, n)| (name.as_slice(), *n)).collect();
        assert_eq!(counts, [(b"a".as_slice(), 3), (b"b", 2), (b"", 1)]);
        for n in 0..5000 {
            record.worker(n.to_string().as_bytes(), &mut known);
        }
        assert_eq!(record.workers.len(), MOST_WORKERS);
    }

    #[test]
    fn every_failure_has_its_place() {
        for (place, kind) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
