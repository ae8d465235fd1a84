//! The end of all.

use super::*;

#[test]
fn stop_serves_on_then_drains_then_kills_within_the_grace_period() {
    let mut trial = Trial::ready(2);
    trial.take();
    trial.stop();
    assert_eq!(trial.reasons(), ["stopping"]);
    trial.pass(Duration::from_millis(4_900));
    assert!(!trial.take().contains(&Action::TerminateAll));
    assert!(trial.fleet.takes_connections(trial.generation(0)));
    trial.pass(Duration::from_millis(200));
    assert!(trial.take().contains(&Action::TerminateAll));
    trial.pass(Duration::from_millis(23_800));
    assert_eq!(trial.take(), []);
    trial.pass(Duration::from_millis(200));
    assert!(trial.take().contains(&Action::KillAll));
    assert!(trial.now < SECOND * 30);
    trial.event(Event::Childless);
    assert_eq!(trial.exit_code(), Some(137), "it was not a clean stop");
}

#[test]
fn a_clean_stop_ends_with_0_whatever_the_workers_end_with() {
    let mut trial = Trial::ready(2);
    trial.stop();
    trial.pass(SECOND * 5);
    trial.die(0, Died(Signal::TERM));
    trial.die(1, Code(143));
    trial.pass(SECOND);
    trial.event(Event::Childless);
    let actions = trial.take();
    assert!(actions.contains(&Action::Exit(0)));
    let starts = actions.iter().filter(|action| matches!(action, Action::Start { .. })).count();
    assert_eq!(starts, 2, "nothing is restarted");
}

#[test]
fn a_worker_that_crashes_while_the_pod_leaves_is_still_replaced() {
    let mut trial = Trial::ready(1);
    trial.pass(SECOND * 60);
    trial.stop();
    trial.take();
    trial.die(0, Code(1));
    assert_eq!(trial.starts(), [(0, 0)]);
    trial.event(Event::Childless);
    assert_eq!(trial.exit_code(), None, "between two starts there may be no child");
}

#[test]
fn a_second_signal_hastens() {
    let mut trial = Trial::ready(1);
    trial.stop();
    trial.take();
    trial.stop();
    assert!(trial.take().contains(&Action::TerminateAll));
    trial.stop();
    assert!(trial.take().contains(&Action::KillAll));
}

#[test]
fn nobody_waits_for_endpoints_when_nothing_is_served_or_a_person_asks() {
    let mut trial = Trial::new(settings(1));
    trial.stop();
    assert!(trial.take().contains(&Action::TerminateAll));

    let mut trial = Trial::ready(1);
    trial.event(Event::StopRequested { signal: Signal::INT, interactive: true });
    assert!(trial.take().contains(&Action::TerminateAll));
}

#[test]
fn a_lame_duck_time_as_long_as_the_grace_period_leaves_time_to_drain() {
    let mut trial = Trial::new(Settings { lame_duck: SECOND * 60, grace: SECOND * 20, ..settings(1) });
    trial.listen(0);
    trial.stop();
    trial.take();
    trial.pass(SECOND * 10);
    assert!(trial.take().contains(&Action::TerminateAll));
}

#[test]
fn processes_that_cannot_be_killed_do_not_keep_the_supervisor() {
    let mut trial = Trial::ready(1);
    trial.stop();
    trial.pass(SECOND * 40);
    assert_eq!(trial.exit_code(), Some(137));
}
