//! Holds something up for as long as a test says.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Holds something up until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    open: AtomicBool,
    opened: Notify,
    reached: AtomicBool,
    arrived: Notify,
}

impl Gate {
    /// Lets go what is held up, and all that comes after.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        self.opened.notify_waiters();
    }

    /// Waits until something stands before it.
    pub async fn reached(&self) {
        await_flag(&self.reached, &self.arrived).await;
    }

    /// Stands before it until it is open.
    pub(super) async fn pass(&self) {
        self.reached.store(true, Ordering::SeqCst);
        self.arrived.notify_waiters();
        await_flag(&self.open, &self.opened).await;
    }
}

/// Waits until the flag is set, of which `notify` tells.
pub(super) async fn await_flag(flag: &AtomicBool, notify: &Notify) {
    loop {
        let mut notified = std::pin::pin!(notify.notified());
        notified.as_mut().enable();
        if flag.load(Ordering::SeqCst) {
            return;
        }
        notified.await;
    }
}
