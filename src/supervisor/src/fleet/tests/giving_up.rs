//! When starting again will not help.

use super::*;

#[test]
fn gives_up_with_the_workers_own_code_when_none_ever_listens() {
    for (status, code) in [(Code(3), 3), (Code(0), 0), (Died(Signal::KILL), 137), (Died(Signal(11)), 139)] {
        let mut trial = Trial::new(settings(2));
        for _ in 0..5 {
            assert!(!trial.fleet.is_stopping());
            trial.pass(SECOND * 10);
            trial.die(0, status);
            trial.die(1, status);
        }
        assert!(trial.fleet.is_stopping());
        assert!(trial.take().contains(&Action::TerminateAll));
        trial.event(Event::Childless);
        assert_eq!(trial.exit_code(), Some(code), "{status}");
    }
}

#[test]
fn what_is_not_restarted_is_not_promised_to_be() {
    let mut trial = Trial::new(settings(1));
    for failure in 1..=5 {
        trial.die(0, Code(1));
        let told = trial.told();
        assert_eq!(told.iter().any(|line| line.contains("restarting it")), failure < 5, "{told:?}");
        trial.pass(SECOND * 10);
    }
}

#[test]
fn the_others_wait_for_a_canary_to_listen() {
    for address in ["0.0.0.0:3000", "127.0.0.1:3000"] {
        let mut trial = Trial::new(Settings { canary: true, ..settings(3) });
        trial.listen_on(0, "127.0.0.1:9229");
        trial.pass(SECOND * 60);
        assert_eq!(trial.starts(), [(0, 0)]);
        trial.listen_on(0, address);
        assert_eq!(trial.starts(), [(1, 1), (2, 2)]);
        trial.die(0, Code(1));
        trial.pass(SECOND);
        assert_eq!(trial.starts(), [(0, 0)], "it has shown that it can listen");
    }
}

#[test]
fn a_canary_that_ends_before_it_listens_ends_everything() {
    let mut trial = Trial::new(Settings { canary: true, ..settings(3) });
    trial.die(0, Code(3));
    assert_eq!(
        trial.told(),
        [
            "worker 0 ended with exit code 3 after 0.00 s, before it listened",
            "giving up: the first worker ended before it listened; ending with code 3"
        ]
    );
    assert_eq!(trial.starts(), [(0, 0)]);
    trial.pass(SECOND);
    trial.event(Event::Childless);
    assert_eq!(trial.exit_code(), Some(3));
}
