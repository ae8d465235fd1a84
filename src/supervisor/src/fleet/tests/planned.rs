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
    let why = Failure::Ended { status: Code(1), ran: Duration::ZERO };
    assert!(trial.take().contains(&Action::Tell(Notice::ReplacementFailed { worker: 0, why })));
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

fn told(actions: &[Action]) -> Vec<String> {
    let text = |action: &Action| match action {
        Action::Tell(notice) => Some(notice.to_string()),
        _ => None,
    };
    actions.iter().filter_map(text).collect()
}

#[test]
fn a_worker_that_listens_on_loopback_only_is_replaced_once_its_successor_does_so_too() {
    let mut trial = Trial::new(settings(1));
    trial.listen_on(0, "127.0.0.1:3000");
    trial.take();
    let old = trial.generation(0);
    trial.event(Event::Roll);
    assert_eq!(trial.starts(), [(0, 1)], "beside its predecessor");
    let successor = trial.fleet.workers()[0].successor.unwrap();
    trial.event(Event::Listens { generation: successor, address: "0.0.0.0:9100".parse().unwrap() });
    assert_eq!(trial.generation(0), old, "not yet as far");
    trial.event(Event::Listens { generation: successor, address: "127.0.0.1:3000".parse().unwrap() });
    assert_eq!(trial.generation(0), successor);
    let actions = trial.take();
    let drained = |action: &Action| matches!(action, Action::Drain { generation, .. } if *generation == old);
    assert!(actions.iter().any(drained), "somebody in the pod may use it: {actions:?}");
    trial.event(Event::Exited { generation: old, status: Died(Signal::TERM) });
    trial.event(Event::Gone { generation: old });
    let told = told(&trial.take());
    let why = "replaced, but worker 0 listens on 127.0.0.1 only";
    assert!(told.iter().any(|text| text.starts_with(why)), "{told:?}");
    assert_eq!(told.last().unwrap(), "every worker that was due is replaced");
}

#[test]
fn a_worker_that_listens_nowhere_is_stopped_and_started_anew() {
    let mut trial = Trial::new(settings(2));
    trial.event(Event::Roll);
    assert!(told(&trial.take())[0].contains("nothing to replace"), "both are as new as could be");
    trial.pass(SECOND * 5);
    trial.take();
    trial.event(Event::Roll);
    assert!(trial.take().contains(&Action::Terminate(trial.generation(0))), "there cannot be two");
    trial.die(0, Died(Signal::TERM));
    assert_eq!(trial.starts(), [(0, 0)]);
    assert_eq!(trial.restarts(0), [(Cause::Requested, 1)]);
    trial.pass(SECOND * 4);
    assert!(!trial.take().contains(&Action::Terminate(trial.generation(1))), "it may listen yet");
    trial.pass(SECOND);
    assert!(trial.take().contains(&Action::Terminate(trial.generation(1))), "as far as the one before");
    trial.die(1, Died(Signal::TERM));
    trial.listen(1);
    assert!(trial.take().contains(&Action::Tell(Notice::Replaced)), "this time it was the remedy");
}

#[test]
fn a_worker_on_another_port_goes_before_its_successor_comes() {
    let mut trial = Trial::new(settings(1));
    trial.listen_on(0, "0.0.0.0:8080");
    trial.event(Event::Roll);
    assert!(told(&trial.take())[0].contains("nothing to replace"), "the declared port may come yet");
    trial.pass(SECOND * 5);
    trial.take();
    let old = trial.generation(0);
    trial.event(Event::Roll);
    assert!(trial.take().contains(&Action::Terminate(old)));
    trial.die(0, Died(Signal::TERM));
    trial.listen_on(0, "0.0.0.0:8080");
    let told = told(&trial.take());
    assert!(told.iter().any(|text| text.contains("listens on port 8080")), "{told:?}");
    assert_eq!(told.last().unwrap(), "every worker that was due is replaced");
}

#[test]
fn a_successor_that_listens_in_the_wrong_place_is_given_up_and_the_place_is_told() {
    let mut trial = Trial::ready(2);
    trial.event(Event::Roll);
    let generation = trial.fleet.workers()[0].successor.unwrap();
    trial.event(Event::Listens { generation, address: "127.0.0.1:3000".parse().unwrap() });
    trial.take();
    trial.pass(SECOND * 121);
    let actions = trial.take();
    assert!(actions.contains(&Action::Terminate(generation)));
    let told = told(&actions);
    assert!(told.iter().any(|text| text.contains("(worker 0 listens on 127.0.0.1 only")), "{told:?}");
    trial.event(Event::Exited { generation, status: Died(Signal::TERM) });
    trial.event(Event::Gone { generation });
    trial.take();
    trial.event(Event::Roll);
    assert_eq!(trial.starts(), [(0, 2)], "another attempt can be made");
}

#[test]
fn a_restart_in_place_that_never_comes_to_listen_ends_too() {
    let mut trial = Trial::new(Settings { overlap: false, ..settings(2) });
    trial.listen(0);
    trial.listen(1);
    trial.event(Event::Roll);
    trial.die(0, Code(0));
    trial.take();
    trial.pass(SECOND * 200);
    let told = told(&trial.take());
    assert!(told.iter().any(|text| text.contains("the restart is off")), "{told:?}");
    assert!(trial.fleet.next_deadline().is_none_or(|at| at > trial.now), "no busy loop");
    trial.event(Event::Roll);
    assert!(trial.take().contains(&Action::Terminate(trial.generation(0))), "another attempt can be made");
}
