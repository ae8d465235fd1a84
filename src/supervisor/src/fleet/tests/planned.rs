//! Planned changes: rolling restarts, hung workers, other numbers of workers.

use super::*;

#[test]
fn a_rolling_restart_replaces_one_worker_at_a_time_by_a_successor_that_listens() {
    let mut trial = Trial::ready(2);
    trial.drains_at_once = false;
    trial.take();
    let old = [trial.generation(0), trial.generation(1)];
    trial.event(Event::Roll);
    assert_eq!(trial.starts(), [(0, 2)], "beside its predecessor, on a slot of its own");
    trial.pass(SECOND * 5);
    assert!(trial.fleet.takes_connections(old[0]), "nothing changes before the successor listens");

    let successor = trial.fleet.workers()[0].successor.unwrap();
    trial.event(Event::Listens { generation: successor, address: "0.0.0.0:3000".parse().unwrap() });
    assert_eq!(trial.generation(0), successor);
    assert!(!trial.fleet.takes_connections(old[0]) && trial.fleet.takes_connections(successor));
    assert!(!trial.take().contains(&Action::Terminate(old[0])), "it finishes what it has begun");
    trial.event(Event::Quiet { generation: old[0] });
    assert_eq!(trial.take(), [Action::Steer, Action::Terminate(old[0])]);
    trial.event(Event::Exited { generation: old[0], status: Code(0) });
    assert_eq!(trial.starts(), []);
    trial.event(Event::Gone { generation: old[0] });
    assert_eq!(trial.starts(), [(1, 0)], "the slot that became free");
    assert_eq!(trial.restarts(0), [(Cause::Requested, 1)]);

    let successor = trial.fleet.workers()[1].successor.unwrap();
    trial.event(Event::Listens { generation: successor, address: "0.0.0.0:3000".parse().unwrap() });
    trial.pass(SECOND * 11);
    assert!(
        trial.take().contains(&Action::Terminate(old[1])),
        "at last it is asked although it has not finished"
    );
    trial.event(Event::Exited { generation: old[1], status: Died(Signal::TERM) });
    trial.event(Event::Gone { generation: old[1] });
    assert!(trial.take().contains(&Action::Tell(Notice::Replaced)));
    assert_eq!(trial.reasons(), [""; 0]);
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let mut trial = Trial::ready(2);
    let old = [trial.generation(0), trial.generation(1)];
    trial.event(Event::Roll);
    trial.take();
    let generation = trial.fleet.workers()[0].successor.unwrap();
    trial.event(Event::Exited { generation, status: Code(1) });
    trial.event(Event::Gone { generation });
    assert!(trial.take().contains(&Action::Tell(Notice::ReplacementFailed { worker: 0 })));
    trial.pass(SECOND * 60);
    assert_eq!(trial.starts(), []);
    assert_eq!([trial.generation(0), trial.generation(1)], old);
}

#[test]
fn a_successor_that_never_listens_is_given_up() {
    let mut trial = Trial::ready(1);
    trial.event(Event::Roll);
    let generation = trial.fleet.workers()[0].successor.unwrap();
    trial.take();
    trial.pass(SECOND * 121);
    assert!(trial.take().contains(&Action::Terminate(generation)));
    assert!(trial.fleet.workers()[0].successor.is_none());
}

#[test]
fn a_crash_during_a_rolling_restart_is_repaired_on_the_same_slot() {
    let mut trial = Trial::ready(2);
    trial.pass(SECOND * 60);
    trial.event(Event::Roll);
    let successor = trial.fleet.workers()[0].successor.unwrap();
    trial.take();
    trial.die(0, Died(Signal::KILL));
    let actions = trial.take();
    assert!(actions.contains(&Action::Terminate(successor)));
    let started = |action: &Action| matches!(action, Action::Start { worker: 0, slot: 0, .. });
    assert!(actions.iter().any(started), "where its connections wait: {actions:?}");
    trial.listen(0);
    let started = |action: &Action| matches!(action, Action::Start { worker: 1, .. });
    assert!(trial.take().iter().any(started), "and the next one's turn comes");
}

#[test]
fn without_slots_a_worker_is_replaced_in_place() {
    let mut trial = Trial::new(Settings { overlap: false, ..settings(2) });
    trial.listen(0);
    trial.listen(1);
    trial.take();
    trial.event(Event::Roll);
    let actions = trial.take();
    assert!(actions.contains(&Action::Terminate(trial.generation(0))));
    trial.die(0, Code(0));
    assert_eq!(trial.starts(), [(0, 0)]);
    assert_eq!(trial.restarts(0), [(Cause::Requested, 1)]);
    trial.listen(0);
    assert!(trial.take().contains(&Action::Terminate(trial.generation(1))), "only now the other one");
}

#[test]
fn a_hung_worker_is_aborted_killed_and_replaced_on_its_slot() {
    let mut trial = Trial::ready(2);
    trial.take();
    let generation = trial.generation(1);
    trial.event(Event::Hung { generation, time: SECOND * 10 });
    assert!(trial.take().contains(&Action::Abort(generation)));
    assert!(!trial.fleet.takes_connections(generation));
    trial.pass(SECOND * 3);
    assert!(trial.take().contains(&Action::Kill(generation)));
    trial.die(1, Died(Signal::KILL));
    assert_eq!(trial.starts(), [(1, 1)]);
    assert_eq!(trial.restarts(1), [(Cause::Hung, 1)]);
}

#[test]
fn another_number_of_workers() {
    let mut trial = Trial::ready(1);
    trial.take();
    trial.event(Event::Resize { workers: 3 });
    assert_eq!(trial.starts(), [(1, 1), (2, 2)]);
    assert_eq!(trial.reasons(), [""; 0], "the pod stays ready while workers are added");
    trial.listen(1);
    trial.listen(2);
    let (one, two) = (trial.generation(1), trial.generation(2));
    trial.take();
    trial.event(Event::Resize { workers: 1 });
    let actions = trial.take();
    assert!(actions.contains(&Action::Terminate(one)) && actions.contains(&Action::Terminate(two)));
    assert_eq!(trial.fleet.workers().len(), 1);
    for generation in [one, two] {
        trial.event(Event::Exited { generation, status: Code(0) });
        trial.event(Event::Gone { generation });
    }
    assert_eq!(trial.starts(), [], "they do not come back");
    trial.event(Event::Resize { workers: 2 });
    assert_eq!(trial.starts(), [(1, 1)]);
}
