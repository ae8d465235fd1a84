//! Tells a worker that hangs from one that is slow, busy, throttled or idle, from outside.
//!
//! A worker that hangs does not accept. The queue of its socket only grows, and of the connections that waited when it
//! was looked at first, every one still waits. The queue is first in, first out: one accepted connection would be one
//! of those. The kernel does not tell in which worker's queue a connection waits, so nobody is called hung unless the
//! connections that still wait account for the queues of all who are under suspicion.

use crate::fleet::{Slot, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// A worker whose queue did not move for so long gets no new connections while another can take them.
const SUSPICION: Duration = Duration::from_millis(1_500);

/// What is known about each slot's queue.
#[derive(Debug, Default)]
pub struct HangWatch {
    suspects: BTreeMap<Slot, Suspect>,
}

#[derive(Debug)]
struct Suspect {
    since: Time,
    /// The queue's length then, and at the last look.
    first: u32,
    last: u32,
    /// Everything that waited then, in whatever queue.
    waited: BTreeSet<SocketAddr>,
}

/// The queue of one listening worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Whose.
    pub slot: Slot,
    /// How many connections wait.
    pub length: u32,
}

/// A worker that hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hang {
    /// Which.
    pub slot: Slot,
    /// For how long.
    pub time: Duration,
}

impl HangWatch {
    /// Takes in the queues of all listening workers. `waiting` tells which connections wait, and is asked only when
    /// somebody is under suspicion. Time in which the container was `throttled` does not count.
    pub fn observe(
        &mut self,
        now: Time,
        queues: &[Queue],
        limit: Option<Duration>,
        waiting: impl FnOnce() -> BTreeSet<SocketAddr>,
        throttled: Duration,
    ) -> Vec<Hang> {
        let length_of = |slot: Slot| queues.iter().find(|queue| queue.slot == slot).map(|queue| queue.length);
        // A queue that became shorter, or empty, is proof of life.
        self.suspects.retain(|slot, suspect| length_of(*slot).is_some_and(|n| n > 0 && n >= suspect.last));
        if queues.iter().all(|queue| queue.length == 0) {
            return Vec::new();
        }
        let waiting = waiting();
        for queue in queues.iter().filter(|queue| queue.length > 0) {
            let fresh = || Suspect { since: now, first: queue.length, last: 0, waited: waiting.clone() };
            let suspect = self.suspects.entry(queue.slot).or_insert_with(fresh);
            suspect.last = queue.length;
            suspect.since = (suspect.since + throttled).min(now);
        }
        self.clear_if_accounts_do_not_match(now, &waiting);
        let limit = limit.unwrap_or(Duration::MAX);
        let hangs =
            self.suspects.iter().map(|(slot, s)| Hang { slot: *slot, time: now.saturating_sub(s.since) });
        hangs.filter(|hang| hang.time >= limit).collect()
    }

    /// Connections that still wait must be enough for the queues of everybody who waited then; else somebody accepted.
    fn clear_if_accounts_do_not_match(&mut self, now: Time, waiting: &BTreeSet<SocketAddr>) {
        let claimed: u32 = self.suspects.values().map(|suspect| suspect.first).sum();
        for suspect in self.suspects.values_mut() {
            let still = suspect.waited.intersection(waiting).count();
            // Those that came under suspicion later claim connections that did not wait before; then it is too early
            // to tell, and that is on the safe side.
            if still < usize::try_from(claimed).unwrap_or(usize::MAX) && !suspect.waited.is_empty() {
                *suspect =
                    Suspect { since: now, first: suspect.last, last: suspect.last, waited: waiting.clone() };
            }
        }
    }

    /// Workers that should get no new connections for the time being.
    pub fn suspects(&self, now: Time) -> BTreeSet<Slot> {
        let long = |suspect: &Suspect| now.saturating_sub(suspect.since) >= SUSPICION;
        self.suspects.iter().filter(|(_, suspect)| long(suspect)).map(|(slot, _)| *slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(ports: std::ops::Range<u16>) -> BTreeSet<SocketAddr> {
        ports.map(|port| SocketAddr::from(([10, 0, 0, 1], port))).collect()
    }

    /// Looks once a second; each look gives the queues of slots 0 and 1 and the connections that wait.
    fn watch(
        looks: impl IntoIterator<Item = (u32, u32, std::ops::Range<u16>)>,
    ) -> (Vec<Hang>, BTreeSet<Slot>) {
        let mut watch = HangWatch::default();
        let mut now = Time::ZERO;
        let mut hangs = Vec::new();
        for (zero, one, waiting) in looks {
            now += Duration::from_secs(1);
            let queues = [Queue { slot: 0, length: zero }, Queue { slot: 1, length: one }];
            let limit = Some(Duration::from_secs(10));
            hangs = watch.observe(now, &queues, limit, || peers(waiting), Duration::ZERO);
        }
        (hangs, watch.suspects(now))
    }

    #[test]
    fn a_worker_that_accepts_nothing_hangs() {
        let (hangs, suspects) = watch((0..3).map(|i| (0, 5 + u32::from(i), 0..5 + i)));
        assert_eq!((hangs, suspects), (vec![], BTreeSet::from([1])));
        let (hangs, _) = watch((0..11).map(|i| (0, 5 + u32::from(i), 0..5 + i)));
        assert_eq!(hangs, [Hang { slot: 1, time: Duration::from_secs(10) }]);
        let (hangs, _) = watch((0..11).map(|_| (3, 4, 0..7)));
        assert_eq!(hangs.len(), 2);
    }

    #[test]
    fn an_idle_worker_does_not_hang() {
        assert_eq!(watch((0..100).map(|_| (0, 0, 0..0))), (vec![], BTreeSet::new()));
    }

    /// uvicorn#2506, gunicorn#1801: healthy workers killed.
    #[test]
    fn uvicorn_2506_a_worker_whose_queue_is_always_full_does_not_hang_while_it_accepts() {
        let (hangs, suspects) = watch((0..100).map(|i| (0, 512, i..512 + i)));
        assert_eq!((hangs, suspects), (vec![], BTreeSet::new()));
    }

    #[test]
    fn a_queue_that_became_shorter_is_proof_of_life() {
        assert_eq!(watch((0..100).map(|i| (0, 9 - u32::from(i % 9), 0..9 - i % 9))).0, []);
    }

    #[test]
    fn a_hang_is_not_blamed_on_a_busy_worker() {
        // Worker 0 hangs with 5; worker 1 is always full but accepts.
        let hang = |i: u16| -> BTreeSet<SocketAddr> {
            peers(0..5).union(&peers(1000 + i..1512 + i)).copied().collect()
        };
        let mut watch = HangWatch::default();
        for i in 0..100 {
            let queues = [Queue { slot: 0, length: 5 }, Queue { slot: 1, length: 512 }];
            let now = Duration::from_secs(u64::from(i));
            let limit = Some(Duration::from_secs(10));
            assert_eq!(watch.observe(now, &queues, limit, || hang(i), Duration::ZERO), []);
        }
    }

    #[test]
    fn throttled_time_does_not_count() {
        let mut watch = HangWatch::default();
        for i in 0..30 {
            let queues = [Queue { slot: 0, length: 5 }];
            let throttled = Duration::from_millis(900);
            let limit = Some(Duration::from_secs(10));
            let hangs = watch.observe(Duration::from_secs(i), &queues, limit, || peers(0..5), throttled);
            assert_eq!(hangs, []);
        }
    }
}
