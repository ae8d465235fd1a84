//! What to do about the lease, from what is known of it. No I/O here, and no clock.

use std::time::Duration;

use super::clock::Moment;

/// The lease as one operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// There is none yet, or nobody holds it.
    Free,
    /// It is this operator's.
    Mine {
        /// Before the request was sent that last renewed it; `None` if this operator doesn't know of it: it was started anew, or got no
        /// answer to that request.
        renewed: Option<Moment>,
    },
    /// Another operator holds it.
    Theirs {
        /// Who.
        holder: String,
        /// When the lease was first seen as it is now, which is after it was written.
        seen: Moment,
        /// How long it lasts.
        duration: Duration,
    },
}

/// How often what is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long after a renewal comes the next one.
    pub(super) renew: Duration,
    /// How often another operator's lease is looked at, and how soon a request that failed is repeated.
    pub(super) retry: Duration,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this operator into the lease.
    Write,
    /// Nothing, for so long.
    Wait(Duration),
}

/// What to do about `lease`.
pub(super) fn decide(now: Moment, lease: &View, pace: &Pace) -> Step {
    let due = match lease {
        View::Free | View::Mine { renewed: None } => return Step::Write,
        View::Mine { renewed: Some(renewed) } => *renewed + pace.renew,
        View::Theirs { seen, duration, .. } => *seen + *duration,
    };
    match due.since(now) {
        Duration::ZERO => Step::Write,
        left => Step::Wait(match lease {
            View::Theirs { .. } => left.min(pace.retry),
            View::Free | View::Mine { .. } => left,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Moment, Pace, Step, View, decide};

    const PACE: Pace = Pace { renew: Duration::from_secs(2), retry: Duration::from_secs(1) };

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    fn theirs(seen: u64) -> View {
        View::Theirs { holder: "other".into(), seen: at(seen), duration: Duration::from_secs(15) }
    }

    #[test]
    fn what_nobody_holds_is_taken() {
        assert_eq!(decide(at(100), &View::Free, &PACE), Step::Write);
    }

    #[test]
    fn ones_own_is_renewed_in_time() {
        let mine = View::Mine { renewed: Some(at(100)) };
        assert_eq!(decide(at(100), &mine, &PACE), Step::Wait(Duration::from_secs(2)));
        assert_eq!(decide(at(101), &mine, &PACE), Step::Wait(Duration::from_secs(1)));
        for late in [102, 103, 1000] {
            assert_eq!(decide(at(late), &mine, &PACE), Step::Write);
        }
    }

    #[test]
    fn ones_own_that_was_never_confirmed_is_written_before_anything_else() {
        assert_eq!(decide(at(100), &View::Mine { renewed: None }, &PACE), Step::Write);
    }

    #[test]
    fn anothers_is_left_alone_until_it_has_stayed_the_same_for_as_long_as_it_lasts() {
        assert_eq!(decide(at(100), &theirs(100), &PACE), Step::Wait(PACE.retry));
        assert_eq!(decide(at(114), &theirs(100), &PACE), Step::Wait(Duration::from_secs(1)));
        let almost = at(115) - Duration::from_millis(300);
        assert_eq!(decide(almost, &theirs(100), &PACE), Step::Wait(Duration::from_millis(300)));
        assert_eq!(decide(at(115), &theirs(100), &PACE), Step::Write);
        // It was renewed meanwhile.
        assert_eq!(decide(at(115), &theirs(113), &PACE), Step::Wait(PACE.retry));
    }

    #[test]
    fn two_that_look_at_the_same_lease_never_hold_it_at_the_same_time() {
        // The holder counts from before its request, the other from after it has seen the result: however long either takes.
        for lag in 0..5 {
            let (sent, seen) = (at(100), at(100 + lag));
            let hold = Duration::from_secs(10);
            let view = View::Theirs { holder: "other".into(), seen, duration: Duration::from_secs(15) };
            let taken = (100..200).map(at).find(|now| decide(*now, &view, &PACE) == Step::Write).unwrap();
            assert!(taken >= sent + hold + Duration::from_secs(5), "taken at {taken}");
        }
    }
}
