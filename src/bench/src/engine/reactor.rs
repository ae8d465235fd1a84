//! One thread's loop: begins requests when they are due, takes note of answers, notices what takes too long.

use super::cpu::CpuMeter;
use super::slot::Slot;
use super::wire::{Again, Hub, News, Wire};
use super::{Control, Outcome, Progress, Times};
use crate::error::{Error, Failure, Fault};
use crate::plan::Plan;
use crate::record::{LATE, Record};
use crate::response::Answer;
use crate::schedule::Schedule;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A server that ends its connections in order may refuse a request on several of them.
const MOST_REPEATS: u8 = 8;
/// A closed loop waits so long after a failed connect: it would else only try again and again.
const PAUSE: Duration = Duration::from_millis(10);
/// Arrivals that may wait for a connection; more are dropped, so that memory is bounded.
const MOST_WAITING: usize = 1 << 20;

pub(super) struct Reactor<'a, W> {
    plan: &'a Plan,
    control: &'a Control,
    times: Times,
    /// `None` in a closed loop.
    schedule: Option<Schedule>,
    hub: Hub<'a>,
    wire: W,
    slots: Vec<Slot>,
    connections: usize,
    /// Open loop: slots without a request, the one that has had none for longest first, so that all are used alike.
    idle: VecDeque<usize>,
    /// Open loop: planned times of arrivals that found no slot.
    waiting: VecDeque<Instant>,
    /// Closed loop: slots and when they begin their next request.
    resting: VecDeque<(Instant, usize)>,
    /// Slots with a request.
    busy: usize,
    record: Record,
    warm_up: Progress,
    warm_up_failures: [u64; Failure::ALL.len()],
    /// Why the first request failed that did, where there is more to say than its kind.
    fault: Option<String>,
    /// What `control` hasn't been told yet.
    untold: Progress,
}

impl<'a, W: Wire> Reactor<'a, W> {
    pub(super) fn new(
        plan: &'a Plan,
        control: &'a Control,
        times: Times,
        thread: usize,
    ) -> Result<Self, Error> {
        let connections = plan.connections_of(thread);
        let count = connections * plan.streams;
        let schedule = plan.schedule_of(thread);
        let before: usize = (0..thread).map(|thread| plan.connections_of(thread)).sum();
        let addresses = plan.addresses.iter().copied().cycle().skip(before).take(connections).collect();
        let slot = |number| Slot::new(before + number, times.begin);
        Ok(Self {
            plan,
            control,
            times,
            hub: Hub::new(plan)?,
            wire: W::new(addresses, plan),
            slots: (0..count).map(slot).collect(),
            connections,
            idle: if schedule.is_some() { (0..count).collect() } else { VecDeque::new() },
            waiting: VecDeque::new(),
            resting: if schedule.is_some() {
                VecDeque::new()
            } else {
                (0..count).map(|slot| (times.begin, slot)).collect()
            },
            schedule,
            busy: 0,
            record: Record::new(connections)?,
            warm_up: Progress::default(),
            warm_up_failures: [0; Failure::ALL.len()],
            fault: None,
            untold: Progress::default(),
        })
    }

    pub(super) fn run(mut self) -> Result<Outcome, Error> {
        // Arrivals would else be up to 50 µs late. Where that isn't allowed, they are.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let tick = (self.plan.timeout / 10).clamp(Duration::from_millis(1), Duration::from_millis(100));
        let mut next_tick = self.times.begin + tick;
        let mut cpu = CpuMeter::default();
        let mut stopped = None;
        loop {
            let now = Instant::now();
            if now >= self.times.measured && cpu.begin() {
                self.tell();
                self.control.warmed_up.fetch_add(1, std::sync::atomic::Ordering::Release);
            }
            if self.control.stopped() {
                stopped = Some(now);
                break;
            }
            if now >= self.times.end {
                cpu.end();
                // A thread that was held up over the end still owes what was due before it.
                let owes = self.due().is_some_and(|due| due < self.times.end);
                if self.schedule.is_none() || (self.busy == 0 && self.waiting.is_empty() && !owes) {
                    break;
                }
            }
            self.dispatch(now);
            self.settle();
            if now >= next_tick {
                self.tick(now);
                next_tick = now + tick;
            }
            let pause = self.pause(next_tick);
            let found = self.hub.poller.wait(pause).map_err(Error::Thread)?;
            for n in 0..found {
                if let Some(ready) = self.hub.poller.get(n) {
                    self.wire.ready(&mut self.hub, ready);
                    let now = self.settle();
                    // A batch may take long enough for the next to be late.
                    if self.due().is_some_and(|due| due <= now) {
                        self.dispatch(now);
                        self.settle();
                    }
                }
            }
        }
        cpu.end();
        self.tell();
        self.record.cpu = cpu.used;
        if self.schedule.is_none() {
            self.record.counts.unfinished = u64::try_from(self.busy).unwrap_or(0);
        }
        Ok(Outcome {
            record: self.record,
            warm_up: self.warm_up,
            warm_up_failures: self.warm_up_failures,
            fault: self.fault,
            stopped,
        })
    }

    /// How long nothing is due.
    fn pause(&self, tick: Instant) -> Duration {
        if self.wire.has_more() || (!self.waiting.is_empty() && !self.idle.is_empty()) {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let mut wake = tick;
        for boundary in [self.times.measured, self.times.end] {
            if boundary > now {
                wake = wake.min(boundary);
            }
        }
        if let Some((at, _)) = self.resting.front() {
            wake = wake.min(*at);
        }
        if let Some(due) = self.due().filter(|due| *due < self.times.end) {
            wake = wake.min(due);
        }
        wake.saturating_duration_since(now)
    }

    /// When the next request of an open loop is due.
    fn due(&self) -> Option<Instant> {
        self.times.begin.checked_add(self.schedule.as_ref()?.next())
    }

    /// Begins what is due.
    fn dispatch(&mut self, now: Instant) {
        while let Some((_, slot)) = self.resting.front().copied().filter(|(at, _)| *at <= now) {
            self.resting.pop_front();
            if now < self.times.end {
                self.begin(slot, now, false);
            }
        }
        while let Some(due) = self.due().filter(|due| *due <= now && *due < self.times.end) {
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            let slot = if self.waiting.is_empty() { self.idle.pop_front() } else { None };
            match slot {
                Some(slot) => self.begin(slot, due, false),
                None if self.waiting.len() < MOST_WAITING => self.waiting.push_back(due),
                None => self.dropped(due),
            }
        }
        // Slots become idle by themselves when their requests fail.
        while let (Some(due), Some(slot)) = (self.waiting.front().copied(), self.idle.front().copied()) {
            self.waiting.pop_front();
            self.idle.pop_front();
            self.begin(slot, due, true);
        }
    }

    /// Takes note of what has taken too long.
    fn tick(&mut self, now: Instant) {
        for number in 0..self.slots.len() {
            if self.slots.get(number).is_some_and(|slot| slot.busy && slot.deadline <= now) {
                self.wire.cancel(&mut self.hub, number);
                self.fail(number, &Failure::Timeout.into(), now);
                self.settle();
            }
        }
        let timeout = self.plan.timeout;
        while let Some(due) = self.waiting.front().copied().filter(|due| now.duration_since(*due) > timeout) {
            self.waiting.pop_front();
            self.dropped(due);
        }
        self.tell();
    }

    fn tell(&mut self) {
        self.control.add(std::mem::take(&mut self.untold));
    }

    fn dropped(&mut self, due: Instant) {
        if due >= self.times.measured {
            self.record.counts.dropped += 1;
        }
    }

    /// Does a request count? In a closed loop when something happens within the measurement; in an open loop when it was planned for then.
    fn counts(&self, planned: Instant, now: Instant) -> bool {
        match self.schedule {
            Some(_) => planned >= self.times.measured,
            None => now >= self.times.measured && now < self.times.end,
        }
    }

    /// Begins a request that is due, on a connection that has none. `waited`: for a connection.
    fn begin(&mut self, slot: usize, planned: Instant, waited: bool) {
        let now = Instant::now();
        self.untold.sent += 1;
        if self.counts(planned, now) {
            let counts = &mut self.record.counts;
            counts.sent += 1;
            if self.schedule.is_some() && now.saturating_duration_since(planned) > LATE {
                counts.late += 1;
                counts.late_for_want_of_a_connection += u64::from(waited);
            }
        } else {
            self.warm_up.sent += 1;
        }
        self.busy += 1;
        self.send(slot, planned, now, 0);
    }

    /// Sends the slot's request, for the first time or once more. What comes of it is news.
    fn send(&mut self, number: usize, planned: Instant, now: Instant, repeats: u8) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        let deadline = now + self.plan.timeout;
        *slot = Slot { busy: true, planned, deadline, repeats, ..*slot };
        let request = slot.request % self.plan.requests.len();
        self.wire.send(&mut self.hub, number, request);
        if self.hub.opened > 0 {
            self.record.counts.opened += if now >= self.times.measured { self.hub.opened } else { 0 };
            self.hub.opened = 0;
        }
    }

    /// Takes note of what the wire has to tell, and sends what follows from that. The time at which it was told.
    fn settle(&mut self) -> Instant {
        let now = self.take_news();
        if !self.wire.has_more() {
            return now;
        }
        self.wire.flush(&mut self.hub);
        self.take_news()
    }

    fn take_news(&mut self) -> Instant {
        let mut now = Instant::now();
        while let Some((slot, news)) = self.hub.next_news() {
            match news {
                News::Answered(answer) => self.answered(slot, answer, now),
                News::Failed(fault, again) => self.lost(slot, &fault, again, now),
                News::ClosedIdle => {
                    self.record.counts.closed_idle += u64::from(now >= self.times.measured);
                }
            }
            // What it led to took its time.
            now = Instant::now();
        }
        if self.hub.received > 0 {
            self.record.counts.bytes_received +=
                if now >= self.times.measured { self.hub.received } else { 0 };
            self.hub.received = 0;
        }
        now
    }

    /// The answer is complete.
    fn answered(&mut self, number: usize, answer: Answer, now: Instant) {
        if !(200..300).contains(&answer.status) {
            self.failed(number, &Failure::Status.into(), now);
            return self.free(number, now);
        }
        let Some(slot) = self.slots.get_mut(number) else { return };
        slot.busy = false;
        slot.request = slot.request.wrapping_add(1);
        let planned = slot.planned;
        let measured = match self.schedule {
            Some(_) => planned >= self.times.measured,
            None => now >= self.times.measured && now < self.times.end,
        };
        self.untold.answered += 1;
        if measured {
            let at = now.saturating_duration_since(self.times.measured);
            let connection = number % self.connections;
            self.record.answered(connection, answer, now.saturating_duration_since(planned), at);
            self.record.counts.answered_after_the_end += u64::from(now >= self.times.end);
            if self.plan.worker_header.is_some() {
                self.record.worker(self.wire.worker(number), &mut slot.worker);
            }
        } else {
            self.warm_up.answered += 1;
        }
        self.free(number, now);
    }

    /// The connection ended, or sent nonsense. What the server says that it did nothing with is sent once more; with `resend`, what it
    /// probably did nothing with, too.
    fn lost(&mut self, number: usize, fault: &Fault, again: Again, now: Instant) {
        let Some(slot) = self.slots.get(number).copied() else { return };
        let request = self.plan.requests.get(slot.request % self.plan.requests.len());
        let allowed = match again {
            Again::No => false,
            Again::IfIdempotent => {
                self.plan.resend && slot.repeats == 0 && request.is_some_and(|request| request.idempotent)
            }
            Again::Yes => slot.repeats < MOST_REPEATS,
        };
        if !allowed {
            return self.fail(number, fault, now);
        }
        if self.counts(slot.planned, now) {
            self.record.counts.reconnects += 1;
        }
        self.send(number, slot.planned, now, slot.repeats + 1);
    }

    /// The slot's request has failed. What comes next is left to `dispatch`: from here it would be done within what led here, over
    /// and over.
    fn fail(&mut self, number: usize, fault: &Fault, now: Instant) {
        self.failed(number, fault, now);
        self.busy -= 1;
        if self.schedule.is_some() {
            self.idle.push_back(number);
        } else if matches!(
            fault.kind,
            Failure::Refused | Failure::Unreachable | Failure::Local | Failure::Tls
        ) {
            self.resting.push_back((now + PAUSE, number));
        } else {
            self.resting.push_front((now, number));
        }
    }

    fn failed(&mut self, number: usize, fault: &Fault, now: Instant) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        slot.busy = false;
        let planned = slot.planned;
        self.untold.failed += 1;
        if self.fault.is_none() {
            self.fault.clone_from(&fault.why);
        }
        if self.counts(planned, now) {
            self.record.failed(fault.kind, now.saturating_duration_since(self.times.measured));
        } else if let Some(count) = self.warm_up_failures.get_mut(fault.kind as usize) {
            *count += 1;
        }
    }

    /// The slot's request is over, and another may follow.
    fn free(&mut self, slot: usize, now: Instant) {
        self.busy -= 1;
        if self.schedule.is_none() {
            if now < self.times.end {
                self.begin(slot, now, false);
            }
        } else if let Some(due) = self.waiting.pop_front() {
            self.begin(slot, due, true);
        } else {
            self.idle.push_back(slot);
        }
    }
}
