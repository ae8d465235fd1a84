//! One thread's loop: begins requests when they are due, reads answers, notices what takes too long.

use super::connection::{Connection, Read, State};
use super::cpu::CpuMeter;
use super::poller::{Poller, Ready};
use super::{Control, Outcome, Progress, Times};
use crate::error::{Error, Failure};
use crate::plan::Plan;
use crate::record::{LATE, Record};
use crate::response::Answer;
use crate::schedule::Schedule;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A closed loop waits so long after a failed connect: it would else only try again and again.
const PAUSE: Duration = Duration::from_millis(10);
/// Arrivals that may wait for a connection; more are dropped, so that memory is bounded.
const MOST_WAITING: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

pub(super) struct Reactor<'a> {
    plan: &'a Plan,
    control: &'a Control,
    times: Times,
    /// `None` in a closed loop.
    schedule: Option<Schedule>,
    poller: Poller,
    connections: Vec<Connection>,
    /// Open loop: connections without a request, the one that has had none for longest first, so that all are used alike.
    idle: VecDeque<usize>,
    /// Open loop: planned times of arrivals that found no connection.
    waiting: VecDeque<Instant>,
    /// Closed loop: connections and when they begin their next request.
    resting: VecDeque<(Instant, usize)>,
    /// Connections with a request.
    busy: usize,
    record: Record,
    warm_up: Progress,
    warm_up_failures: [u64; Failure::ALL.len()],
    /// What `control` hasn't been told yet.
    untold: Progress,
    buffer: Vec<u8>,
}

impl<'a> Reactor<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        control: &'a Control,
        times: Times,
        thread: usize,
    ) -> Result<Self, Error> {
        let count = plan.connections_of(thread);
        let schedule = plan.schedule_of(thread);
        let before: usize = (0..thread).map(|thread| plan.connections_of(thread)).sum();
        Ok(Self {
            plan,
            control,
            times,
            poller: Poller::new().map_err(Error::Thread)?,
            connections: plan
                .addresses
                .iter()
                .cycle()
                .enumerate()
                .skip(before)
                .take(count)
                .map(|(number, address)| Connection::new(*address, number, times.begin))
                .collect(),
            idle: if schedule.is_some() { (0..count).collect() } else { VecDeque::new() },
            waiting: VecDeque::new(),
            resting: if schedule.is_some() {
                VecDeque::new()
            } else {
                (0..count).map(|slot| (times.begin, slot)).collect()
            },
            schedule,
            busy: 0,
            record: Record::new(count)?,
            warm_up: Progress::default(),
            warm_up_failures: [0; Failure::ALL.len()],
            untold: Progress::default(),
            buffer: vec![0; BUFFER],
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
                if self.schedule.is_none() || (self.busy == 0 && self.waiting.is_empty()) {
                    break;
                }
            }
            self.dispatch(now);
            if now >= next_tick {
                self.tick(now);
                next_tick = now + tick;
            }
            let found = self.poller.wait(self.pause(next_tick)).map_err(Error::Thread)?;
            for n in 0..found {
                if let Some(ready) = self.poller.get(n) {
                    self.ready(ready);
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
            stopped,
        })
    }

    /// How long nothing is due.
    fn pause(&self, tick: Instant) -> Duration {
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
        // Connections become idle here when they can't even be opened.
        while let (Some(due), Some(slot)) = (self.waiting.front().copied(), self.idle.front().copied()) {
            self.waiting.pop_front();
            self.idle.pop_front();
            self.begin(slot, due, true);
        }
    }

    /// Takes note of what has taken too long.
    fn tick(&mut self, now: Instant) {
        for slot in 0..self.connections.len() {
            let late =
                |connection: &Connection| connection.state != State::Idle && connection.task.deadline <= now;
            if self.connections.get(slot).is_some_and(late) {
                self.fail(slot, Failure::Timeout);
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
        self.send(slot, planned, now, false);
    }

    /// Sends the connection's request, for the first time or once more.
    fn send(&mut self, slot: usize, planned: Instant, now: Instant, repeated: bool) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let plan = self.plan;
        let Some(request) = plan.requests.get(connection.task.request % plan.requests.len()) else { return };
        let mut opened = Ok(());
        if !connection.is_open() {
            opened = connection.open(plan.keep_alive);
            self.record.counts.opened += u64::from(now >= self.times.measured);
        }
        connection.assign(request, planned, now + plan.timeout, repeated);
        if let Err(kind) = opened.and_then(|()| connection.write(&self.poller, slot, &request.bytes)) {
            self.lost(slot, kind);
        }
    }

    /// A socket has something to do.
    fn ready(&mut self, Ready { slot, readable }: Ready) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        match connection.state {
            State::Idle => {
                // Nothing was asked, so this is the end of the connection, or bytes that nobody wants.
                connection.close();
                self.record.counts.closed_idle += u64::from(Instant::now() >= self.times.measured);
                return;
            }
            State::Writing => {
                let number = connection.task.request % self.plan.requests.len();
                let Some(request) = self.plan.requests.get(number) else { return };
                if let Err(kind) = connection.write(&self.poller, slot, &request.bytes) {
                    return self.lost(slot, kind);
                }
                // It may answer before it has read everything.
                if !readable {
                    return;
                }
            }
            State::Reading => {}
        }
        let mut received = 0;
        let read = connection.read(&mut self.buffer, self.plan.worker_header.as_deref(), &mut received);
        if Instant::now() >= self.times.measured {
            self.record.counts.bytes_received += received;
        }
        match read {
            Read::More => {}
            Read::Answer(answer) => self.answered(slot, answer),
            Read::Failed(kind) => self.lost(slot, kind),
        }
    }

    /// The answer is complete.
    fn answered(&mut self, slot: usize, answer: Answer) {
        let now = Instant::now();
        if !(200..300).contains(&answer.status) {
            if !answer.keep_alive || !self.plan.keep_alive {
                self.close(slot);
            }
            self.failed(slot, Failure::Status, now);
            return self.free(slot, now);
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let planned = connection.task.planned;
        let measured = match self.schedule {
            Some(_) => planned >= self.times.measured,
            None => now >= self.times.measured && now < self.times.end,
        };
        self.untold.answered += 1;
        if measured {
            let at = now.saturating_duration_since(self.times.measured);
            self.record.answered(slot, answer, now.saturating_duration_since(planned), at);
            if self.plan.worker_header.is_some() {
                self.record.worker(connection.decoder.worker(), &mut connection.worker);
            }
        } else {
            self.warm_up.answered += 1;
        }
        connection.answers += 1;
        connection.task.request = connection.task.request.wrapping_add(1);
        // Early, while the request was still being sent: what is left of it must not become part of the next.
        if connection.state == State::Writing || !answer.keep_alive || !self.plan.keep_alive {
            connection.close();
        }
        connection.state = State::Idle;
        self.free(slot, now);
    }

    /// The connection ended, or sent nonsense. If it was used before and the server said nothing to this request, the server
    /// probably closed it while the request was on its way; then it is sent once more.
    fn lost(&mut self, slot: usize, kind: Failure) {
        let Some(connection) = self.connections.get(slot) else { return };
        let request = self.plan.requests.get(connection.task.request % self.plan.requests.len());
        let race = connection.answers > 0
            && !connection.decoder.begun()
            && !connection.task.repeated
            && matches!(kind, Failure::Reset | Failure::ClosedEarly)
            && request.is_some_and(|request| request.idempotent);
        if !race {
            return self.fail(slot, kind);
        }
        let (planned, now) = (connection.task.planned, Instant::now());
        if self.counts(planned, now) {
            self.record.counts.reconnects += 1;
        }
        self.close(slot);
        self.send(slot, planned, now, true);
    }

    /// The connection's request has failed, and the connection with it. What comes next is left to `dispatch`: from here it would be
    /// done within what led here, over and over.
    fn fail(&mut self, slot: usize, kind: Failure) {
        let now = Instant::now();
        self.close(slot);
        self.failed(slot, kind, now);
        self.busy -= 1;
        if self.schedule.is_some() {
            self.idle.push_back(slot);
        } else if matches!(kind, Failure::Refused | Failure::Unreachable | Failure::Local) {
            self.resting.push_back((now + PAUSE, slot));
        } else {
            self.resting.push_front((now, slot));
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.close();
        }
    }

    fn failed(&mut self, slot: usize, kind: Failure, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.state = State::Idle;
        let planned = connection.task.planned;
        self.untold.failed += 1;
        if self.counts(planned, now) {
            self.record.failed(kind, now.saturating_duration_since(self.times.measured));
        } else if let Some(count) = self.warm_up_failures.get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// The connection's request is over, and another may follow.
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
