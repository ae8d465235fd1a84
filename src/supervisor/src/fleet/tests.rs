//! The rules of [`super`], each with the events that show it.

mod giving_up;
mod planned;
mod stopping;

use super::*;
use crate::sys::process::ExitStatus::{Code, Signal as Died};
use crate::sys::signal::Signal;

const PORT: u16 = 3000;

/// A fleet with a clock that the test moves, and what it did so far.
struct Trial {
    fleet: Fleet,
    now: Time,
    actions: Vec<Action>,
    drains_at_once: bool,
}

fn settings(workers: u32) -> Settings {
    Settings {
        workers,
        main_port: Some(PORT),
        lame_duck: Duration::from_secs(5),
        grace: Duration::from_secs(30),
        drain: Duration::from_secs(10),
        overlap: true,
        canary: false,
        seed: 1,
    }
}

impl Trial {
    fn new(settings: Settings) -> Self {
        let mut trial =
            Self { fleet: Fleet::new(settings), now: Time::ZERO, actions: Vec::new(), drains_at_once: true };
        trial.event(Event::Begin);
        trial
    }

    /// All workers listen.
    fn ready(workers: u32) -> Self {
        let mut trial = Self::new(settings(workers));
        for id in 0..workers {
            trial.listen(id);
        }
        trial
    }

    /// Handles an event; starts succeed at once.
    fn event(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.fleet.handle(self.now, event) {
                if let Action::Start { generation, .. } = action {
                    let pid = 100 + i32::try_from(generation).unwrap();
                    events.push(Event::Started { generation, pid });
                }
                if let (Action::Drain { generation, .. }, true) = (&action, self.drains_at_once) {
                    events.push(Event::Quiet { generation: *generation });
                }
                self.actions.push(action);
            }
        }
    }

    /// Lets time pass, ticking when the fleet asks for it.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.fleet.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.event(Event::Tick);
        }
        self.now = end;
    }

    fn generation(&self, id: WorkerId) -> Generation {
        self.fleet.workers()[id as usize].current.unwrap()
    }

    fn listen_on(&mut self, id: WorkerId, address: &str) {
        let (generation, address) = (self.generation(id), address.parse().unwrap());
        self.event(Event::Listens { generation, address });
    }

    fn listen(&mut self, id: WorkerId) {
        self.listen_on(id, "0.0.0.0:3000");
    }

    fn die(&mut self, id: WorkerId, status: ExitStatus) {
        let generation = self.generation(id);
        self.event(Event::Exited { generation, status });
        self.event(Event::Gone { generation });
    }

    fn stop(&mut self) {
        self.event(Event::StopRequested { signal: Signal::TERM, interactive: false });
    }

    fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The causes for which a worker was started again.
    fn restarts(&self, id: WorkerId) -> Vec<(Cause, u64)> {
        self.fleet.workers()[id as usize].restarts.iter().filter(|(_, count)| *count > 0).collect()
    }

    /// How often each worker was started since the last look.
    fn starts(&mut self) -> Vec<(WorkerId, Slot)> {
        let start = |action| match action {
            Action::Start { worker, slot, .. } => Some((worker, slot)),
            _ => None,
        };
        self.take().into_iter().filter_map(start).collect()
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.take().into_iter().find_map(|action| match action {
            Action::Exit(code) => Some(code),
            _ => None,
        })
    }

    fn reasons(&self) -> Vec<String> {
        match self.fleet.readiness(self.now) {
            Readiness::Ready => Vec::new(),
            Readiness::NotReady(reasons) => reasons.iter().map(ToString::to_string).collect(),
        }
    }

    /// What was told since the last look; nothing else is taken.
    fn told(&mut self) -> Vec<String> {
        let (told, rest) =
            self.take().into_iter().partition::<Vec<_>, _>(|action| matches!(action, Action::Tell(_)));
        self.actions = rest;
        let text = |action| match action {
            Action::Tell(notice) => Some(notice.to_string()),
            _ => None,
        };
        told.into_iter().filter_map(text).collect()
    }

    fn complaints(&mut self) -> Vec<String> {
        let complaint = |action| match action {
            Action::Tell(Notice::Complaint(reason)) => Some(reason.to_string()),
            _ => None,
        };
        self.take().into_iter().filter_map(complaint).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn all_workers_start_at_once_each_on_its_slot() {
    assert_eq!(Trial::new(settings(3)).starts(), [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn a_worker_that_served_long_is_restarted_at_once_on_its_slot() {
    let mut trial = Trial::ready(2);
    trial.pass(SECOND * 60);
    trial.take();
    trial.die(1, Died(Signal::KILL));
    assert_eq!(trial.starts(), [(1, 1)]);
    assert_eq!(trial.restarts(1), [(Cause::Signal, 1)]);
}

#[test]
fn a_worker_that_ends_early_waits_longer_each_time() {
    let mut trial = Trial::ready(2);
    let mut waits = Vec::new();
    for _ in 0..12 {
        trial.die(1, Code(1));
        let died = trial.now;
        waits.push(trial.fleet.next_deadline().unwrap().saturating_sub(died));
        trial.pass(SECOND * 40);
    }
    assert!(waits[0] >= Duration::from_millis(75) && waits[0] < Duration::from_millis(125), "{waits:?}");
    assert!(waits[3] > Duration::from_millis(500), "{waits:?}");
    assert!(waits[11] > SECOND * 20 && waits[11] < SECOND * 38, "{waits:?}");
    assert_eq!(trial.exit_code(), None, "the other one serves");
    assert_eq!(trial.restarts(1), [(Cause::Exit, 1), (Cause::NeverListened, 11)]);
}

#[test]
fn serving_well_once_makes_up_for_earlier_failures() {
    let mut trial = Trial::ready(2);
    for _ in 0..6 {
        trial.die(1, Code(1));
        trial.pass(SECOND * 40);
    }
    trial.listen(1);
    trial.pass(SECOND * 11);
    trial.take();
    trial.die(1, Code(1));
    assert_eq!(trial.starts(), [(1, 1)]);
}

#[test]
fn the_worker_is_started_only_when_nothing_is_left_of_its_predecessor() {
    let mut trial = Trial::ready(1);
    trial.pass(SECOND * 60);
    trial.take();
    let generation = trial.generation(0);
    trial.event(Event::Exited { generation, status: Code(0) });
    trial.pass(SECOND * 4);
    assert_eq!(trial.starts(), []);
    trial.pass(SECOND * 2);
    assert!(trial.take().contains(&Action::Kill(generation)));
    trial.event(Event::Gone { generation });
    assert_eq!(trial.starts(), [(0, 0)]);
}

#[test]
fn what_cannot_even_be_killed_does_not_hold_up_the_successor() {
    let mut trial = Trial::ready(1);
    trial.pass(SECOND * 60);
    trial.take();
    let generation = trial.generation(0);
    trial.event(Event::Exited { generation, status: Code(0) });
    trial.pass(SECOND * 10);
    assert_eq!(trial.starts(), [(0, 0)]);
}

#[test]
fn one_good_worker_keeps_the_pod_alive_and_ready() {
    let mut trial = Trial::new(settings(2));
    trial.listen(0);
    assert_eq!(trial.reasons(), ["worker 1 has not listened yet (0 s)"]);
    for _ in 0..3 {
        trial.die(1, Code(1));
        trial.pass(SECOND);
    }
    assert_eq!(trial.reasons(), [""; 0], "worker 1 has proven that it will not come");
    for _ in 0..20 {
        trial.die(1, Code(1));
        trial.pass(SECOND * 40);
    }
    assert!(!trial.fleet.is_stopping());
    assert_eq!(trial.reasons(), [""; 0]);
}

#[test]
fn ready_when_all_listen_and_then_while_one_does() {
    let mut trial = Trial::new(settings(2));
    trial.pass(SECOND * 12);
    assert_eq!(
        trial.reasons(),
        ["worker 0 has not listened yet (12 s)", "worker 1 has not listened yet (12 s)"]
    );
    trial.listen(0);
    assert_eq!(trial.reasons(), ["worker 1 has not listened yet (12 s)"]);
    trial.listen(1);
    assert_eq!(trial.reasons(), [""; 0]);
    trial.die(0, Code(1));
    assert_eq!(trial.reasons(), [""; 0]);
    trial.die(1, Died(Signal::KILL));
    assert_eq!(
        trial.reasons(),
        [
            "worker 0 ended (exit code 1) soon after its start, once; see its own log",
            "worker 1 ended (SIGKILL) soon after its start, once; see its own log"
        ]
    );
    trial.pass(SECOND);
    trial.listen(0);
    assert_eq!(trial.reasons(), [""; 0]);
}

#[test]
fn listening_elsewhere_is_told_with_the_remedy() {
    for (address, reason) in [
        (
            "0.0.0.0:8080",
            "worker 0 listens on port 8080; the declared port is 3000: set spec.port or the app's PORT",
        ),
        (
            "127.0.0.1:3000",
            "worker 0 listens on 127.0.0.1 only: nothing outside the pod can reach it; make it listen on 0.0.0.0",
        ),
        (
            "[::1]:3000",
            "worker 0 listens on ::1 only: nothing outside the pod can reach it; make it listen on ::",
        ),
    ] {
        let mut trial = Trial::new(settings(1));
        trial.listen_on(0, "127.0.0.1:9229");
        trial.listen_on(0, address);
        trial.listen_on(0, "127.0.0.1:9230");
        let expected =
            if address.ends_with("8080") { reason.replace("8080", "9230") } else { reason.to_owned() };
        assert_eq!(trial.reasons(), std::slice::from_ref(&expected));
        trial.pass(SECOND * 60);
        assert_eq!(trial.complaints(), [expected], "once, after a while");
        trial.listen(0);
        assert_eq!(trial.reasons(), [""; 0]);
    }
}

#[test]
fn a_complaint_is_not_repeated_by_each_start() {
    let mut trial = Trial::new(settings(1));
    for _ in 0..4 {
        trial.pass(SECOND * 20);
        trial.die(0, Code(1));
        trial.pass(SECOND * 3);
    }
    assert_eq!(trial.complaints(), ["worker 0 has not listened yet (5 s)"]);
}

#[test]
fn a_port_that_another_worker_holds_wrongly_is_told_beside_each_failure() {
    let mut trial = Trial::new(settings(2));
    trial.listen_on(0, "0.0.0.0:8080");
    trial.pass(SECOND * 10);
    assert_eq!(trial.complaints().len(), 2);
    for _ in 0..3 {
        trial.die(1, Code(1));
        trial.pass(SECOND * 4);
        let told = trial.complaints();
        assert!(told.iter().any(|line| line.contains("worker 0 listens on port 8080")), "{told:?}");
        trial.pass(SECOND * 30);
    }
}

#[test]
fn a_worker_that_was_killed_for_want_of_memory_says_so() {
    let mut trial = Trial::new(settings(2));
    trial.listen(0);
    trial.die(1, ExitStatus::OutOfMemory);
    assert_eq!(trial.restarts(1), [(Cause::OutOfMemory, 1)]);
    let reasons = trial.reasons();
    assert!(reasons.iter().any(|reason| reason.contains("reached its memory limit")), "{reasons:?}");
    assert_eq!(ExitStatus::OutOfMemory.code(), 137);
}

#[test]
fn without_a_port_running_is_enough() {
    let mut trial = Trial::new(Settings { main_port: None, ..settings(2) });
    trial.pass(Duration::from_millis(900));
    assert_eq!(trial.reasons().len(), 2);
    trial.pass(Duration::from_millis(200));
    assert_eq!(trial.reasons(), [""; 0]);
}

#[test]
fn a_command_that_does_not_exist_ends_everything_at_once() {
    let mut fleet = Fleet::new(settings(2));
    let actions = fleet.handle(Time::ZERO, Event::Begin);
    assert_eq!(actions.len(), 2);
    let why = "nodee: not found".to_owned();
    let failed = Event::StartFailed { generation: 1, code: 127, permanent: true, why };
    assert!(fleet.handle(Time::ZERO, failed).contains(&Action::Exit(127)));
}

#[test]
fn a_command_that_vanishes_later_or_may_come_back_is_tried_again() {
    let mut trial = Trial::ready(2);
    trial.pass(SECOND * 60);
    trial.die(1, Code(1));
    let (generation, why) = (trial.generation(1), String::new());
    trial.take();
    trial.event(Event::StartFailed { generation, code: 127, permanent: true, why });
    assert_eq!(trial.exit_code(), None);
    trial.pass(SECOND);
    assert_eq!(trial.starts(), [(1, 1)]);
}
