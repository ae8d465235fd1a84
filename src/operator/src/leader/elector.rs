//! Holds the lease, or waits for it, until told to stop.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Candidate, Fence,
    decide::{Pace, Step, View, decide},
    lease::{Record, Written},
};
use crate::error::chain;

/// The longest pause between two looks at another operator's lease. One that is given up is taken within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Whether this operator leads, for those who want to know when that changes.
pub(crate) type Leadership = watch::Receiver<bool>;

/// Takes part in the election.
pub(crate) struct Elector {
    record: Record,
    fence: Fence,
    hold: Duration,
    pace: Pace,
    leads: watch::Sender<bool>,
    /// The holder that was last told.
    told: String,
    failing: bool,
}

impl Elector {
    pub(crate) fn new(candidate: &Candidate) -> (Self, Leadership) {
        let (leads, leadership) = watch::channel(false);
        let duration = candidate.settings.duration;
        let elector = Self {
            record: Record::new(candidate),
            fence: candidate.fence.clone(),
            hold: candidate.settings.hold(),
            pace: Pace { renew: duration / 7, retry: (duration / 6).min(LONGEST_RETRY) },
            leads,
            told: String::new(),
            failing: false,
        };
        (elector, leadership)
    }

    /// Takes part until `stop`; then the lease is given up.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let wait = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                wait = self.turn() => wait,
            };
            self.publish();
            // Not later than the end of what is held, so that this is known in time.
            let wait = wait.min(self.fence.left().unwrap_or(wait));
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
            self.publish();
        }
        self.fence.close();
        self.publish();
        match self.record.release().await {
            Ok(()) => tracing::debug!("the lease is given up"),
            Err(error) => {
                tracing::warn!("the lease could not be given up, and runs out by itself: {}", chain(&error));
            }
        }
    }

    /// One look and what follows from it; how long to wait before the next one.
    async fn turn(&mut self) -> Duration {
        let result = match self.record.look().await {
            Ok(()) => match decide(super::clock::Moment::now(), self.record.view(), &self.pace) {
                Step::Wait(wait) => Ok(wait),
                Step::Write => self.write().await,
            },
            Err(error) => Err(error),
        };
        match result {
            Ok(wait) => {
                self.failing = false;
                wait
            }
            Err(error) => {
                if self.failing {
                    tracing::debug!("the lease still can't be had: {}", chain(&error));
                } else {
                    tracing::warn!("the lease can't be read or written: {}", chain(&error));
                }
                self.failing = true;
                self.pace.retry.mul_f64(1.0 - fastrand::f64() / 4.0)
            }
        }
    }

    async fn write(&mut self) -> kube::Result<Duration> {
        match self.record.hold().await? {
            Written::Held(since) => {
                self.fence.open_until(since + self.hold);
                Ok(self.pace.renew)
            }
            Written::Lost => Ok(Duration::ZERO),
        }
    }

    /// Tells who leads, if that has changed.
    fn publish(&mut self) {
        if let View::Theirs { holder, .. } = self.record.view() {
            // Whatever time there was left: it is known now that another one leads.
            self.fence.close();
            if *holder != self.told {
                tracing::info!(leader = holder, "another operator leads: waiting");
                self.told.clone_from(holder);
            }
        }
        let leads = self.fence.is_open();
        let changed = self.leads.send_if_modified(|known| std::mem::replace(known, leads) != leads);
        if changed && leads {
            self.told.clear();
            tracing::info!("leading");
        } else if changed {
            tracing::warn!("no longer leading");
        }
    }
}
