//! What can go wrong, each as one [`Fault`].

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    answer::Answer,
    gate::Gate,
    layer::{Fate, Fault, Turn},
    request::{Head, Verb},
};

/// Takes one of what is left, if anything is.
fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// When a fault happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It is not carried out.
    BeforeSend,
    /// It is carried out, and the answer is lost.
    AfterSend,
}

impl Moment {
    /// Both.
    pub const ALL: [Self; 2] = [Self::BeforeSend, Self::AfterSend];

    /// The word in a case's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeSend => "before",
            Self::AfterSend => "after",
        }
    }
}

/// The operator dies at one of its writes.
#[derive(Debug)]
pub struct Crash {
    /// How many writes are still to go before that one.
    left: AtomicUsize,
    moment: Moment,
}

impl Crash {
    /// At the `at`-th write from now, counted from 1.
    pub fn new(at: usize, moment: Moment) -> Self {
        Self { left: AtomicUsize::new(at), moment }
    }
}

impl Fault for Crash {
    fn request(&self, head: &Head) -> Fate {
        let last = || take(&self.left) && self.left.load(Ordering::SeqCst) == 0;
        if head.verb != Verb::Write || !last() {
            return Fate::Pass;
        }
        match self.moment {
            Moment::BeforeSend => Fate::CrashBefore,
            Moment::AfterSend => Fate::CrashAfter,
        }
    }
}

/// Everything fails once: the first try of each request, and of those alone.
#[derive(Debug)]
pub struct FirstTries {
    answer: Answer,
    moment: Moment,
    tried: Mutex<HashSet<String>>,
}

impl FirstTries {
    /// Each is answered so.
    pub fn new(answer: Answer, moment: Moment) -> Self {
        Self { answer, moment, tried: Mutex::default() }
    }
}

impl Fault for FirstTries {
    fn request(&self, head: &Head) -> Fate {
        let concerns = head.verb == Verb::Write || self.answer.of_reads();
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if !concerns || !tried.insert(head.identity()) {
            return Fate::Pass;
        }
        match self.moment {
            Moment::AfterSend if head.verb == Verb::Write => Fate::Lose(self.answer),
            _ => Fate::Refuse(self.answer),
        }
    }
}

/// Anything may fail, as a seed says; after a while nothing does any more.
///
/// What becomes of a request follows from the seed, from what it is about and from how often that was tried, and not from the order in
/// which requests of different apps or kinds happen to go out: the same seed is the same trouble again.
#[derive(Debug)]
pub struct Seeded {
    seed: u64,
    met: Mutex<HashMap<String, u64>>,
}

/// Up to so many tries of the same thing may fail.
const SEEDED_TRIES: u64 = 3;
/// Up to so many events of a kind may be cut off.
const SEEDED_EVENTS: u64 = 12;

impl Seeded {
    /// What this seed says.
    pub fn new(seed: u64) -> Self {
        Self { seed, met: Mutex::default() }
    }

    /// How often it was met before, and what the dice say.
    fn roll(&self, what: String) -> (u64, fastrand::Rng) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hasher = DefaultHasher::new();
        let count = met.entry(what.clone()).or_default();
        (self.seed, what, *count).hash(&mut hasher);
        *count += 1;
        (*count, fastrand::Rng::with_seed(hasher.finish()))
    }
}

impl Fault for Seeded {
    fn request(&self, head: &Head) -> Fate {
        let (count, mut dice) = self.roll(head.identity());
        if count > SEEDED_TRIES || dice.bool() {
            return Fate::Pass;
        }
        let answers: Vec<_> =
            Answer::ALL.into_iter().filter(|answer| head.verb == Verb::Write || answer.of_reads()).collect();
        let answer = answers[dice.usize(..answers.len())];
        match head.verb {
            Verb::Watch if dice.bool() => Fate::Gone,
            Verb::Write if answer.after_the_deed() && dice.bool() => Fate::Lose(answer),
            _ => Fate::Refuse(answer),
        }
    }

    fn event(&self, plural: &str) -> Turn {
        let (count, mut dice) = self.roll(format!("event {plural}"));
        if count > SEEDED_EVENTS {
            return Turn::Pass;
        }
        match dice.u8(..8) {
            0 => Turn::Gone,
            1 => Turn::Late(Duration::from_millis(dice.u64(..500))),
            _ => Turn::Pass,
        }
    }
}

/// Lists that were begun at the operator's start show an earlier state; watches then tell what has happened since.
#[derive(Debug)]
pub struct Stale {
    plural: Option<&'static str>,
    version: String,
    listed: Mutex<HashSet<String>>,
}

impl Stale {
    /// The first list of a kind, or of each, is as of `version`.
    pub fn new(plural: Option<&'static str>, version: String) -> Self {
        Self { plural, version, listed: Mutex::default() }
    }
}

impl Fault for Stale {
    fn request(&self, head: &Head) -> Fate {
        let concerns = head.verb == Verb::List
            && !head.continues
            && self.plural.is_none_or(|plural| plural == head.plural);
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if concerns && listed.insert(head.plural.clone()) {
            return Fate::AsOf(self.version.clone());
        }
        Fate::Pass
    }
}

/// What happens to the events of one kind.
#[derive(Debug)]
pub struct Events {
    plural: &'static str,
    turn: Turn,
    left: AtomicUsize,
}

impl Events {
    /// To all of them.
    pub fn all(plural: &'static str, turn: Turn) -> Self {
        Self::first(usize::MAX, plural, turn)
    }

    /// To the first `count`.
    pub fn first(count: usize, plural: &'static str, turn: Turn) -> Self {
        Self { plural, turn, left: AtomicUsize::new(count) }
    }
}

impl Fault for Events {
    fn event(&self, plural: &str) -> Turn {
        if plural == self.plural && take(&self.left) { self.turn } else { Turn::Pass }
    }
}

/// How a server says that what a watch asks for is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// As an event of the watch.
    Event,
    /// As the answer to the request, as some proxies and aggregated servers do.
    Answer,
}

/// The watch on a kind ends at its next event, and can't be begun anew before the kind was listed again.
#[derive(Debug)]
pub struct Expired {
    plural: &'static str,
    word: Word,
    ended: AtomicBool,
    listed: AtomicBool,
}

impl Expired {
    /// Of this kind.
    pub fn new(plural: &'static str, word: Word) -> Self {
        Self { plural, word, ended: AtomicBool::new(false), listed: AtomicBool::new(false) }
    }
}

impl Fault for Expired {
    fn request(&self, head: &Head) -> Fate {
        if head.plural != self.plural || !self.ended.load(Ordering::SeqCst) {
            return Fate::Pass;
        }
        match head.verb {
            Verb::List => self.listed.store(true, Ordering::SeqCst),
            Verb::Watch if !self.listed.load(Ordering::SeqCst) => return Fate::Gone,
            _ => {}
        }
        Fate::Pass
    }

    fn event(&self, plural: &str) -> Turn {
        match self.word {
            _ if plural != self.plural || self.ended.swap(true, Ordering::SeqCst) => Turn::Pass,
            Word::Event => Turn::Gone,
            Word::Answer => Turn::End,
        }
    }
}

/// The first writes of a kind are swallowed: not even a refusal comes.
#[derive(Debug)]
pub struct Swallowed {
    plural: &'static str,
    left: AtomicUsize,
}

impl Swallowed {
    /// The first `count`.
    pub fn new(count: usize, plural: &'static str) -> Self {
        Self { plural, left: AtomicUsize::new(count) }
    }
}

impl Fault for Swallowed {
    fn request(&self, head: &Head) -> Fate {
        let hit = head.verb == Verb::Write && head.plural == self.plural && head.subresource.is_empty();
        if hit && take(&self.left) { Fate::Swallow } else { Fate::Pass }
    }
}

/// The next write of a kind is held up at a gate.
#[derive(Debug)]
pub struct Held {
    plural: &'static str,
    moment: Moment,
    gate: Arc<Gate>,
    left: AtomicUsize,
}

impl Held {
    /// Before it is sent, or before its answer arrives; until `gate` is opened.
    pub fn new(plural: &'static str, moment: Moment, gate: Arc<Gate>) -> Self {
        Self { plural, moment, gate, left: AtomicUsize::new(1) }
    }
}

impl Fault for Held {
    fn request(&self, head: &Head) -> Fate {
        let hit = head.verb == Verb::Write && head.plural == self.plural;
        if !hit || !take(&self.left) {
            return Fate::Pass;
        }
        match self.moment {
            Moment::BeforeSend => Fate::HoldRequest(Arc::clone(&self.gate)),
            Moment::AfterSend => Fate::HoldAnswer(Arc::clone(&self.gate)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{Crash, Fate, FirstTries, Head, Moment, Seeded};
    use crate::faults::{answer::Answer, layer::Fault as _};

    fn write(name: &str) -> Head {
        let uri = format!("/apis/apps/v1/namespaces/ns/deployments/{name}");
        let request = Request::builder().method("PATCH").uri(uri).body(());
        Head::of(&request.unwrap().into_parts().0).unwrap()
    }

    #[test]
    fn a_crash_comes_at_its_write_and_once() {
        let crash = Crash::new(2, Moment::BeforeSend);
        assert!(matches!(crash.request(&write("a")), Fate::Pass));
        assert!(matches!(crash.request(&write("a")), Fate::CrashBefore));
        assert!(matches!(crash.request(&write("a")), Fate::Pass));
    }

    #[test]
    fn first_tries_fail_and_second_ones_do_not() {
        let first = FirstTries::new(Answer::Internal, Moment::AfterSend);
        assert!(matches!(first.request(&write("a")), Fate::Lose(Answer::Internal)));
        assert!(matches!(first.request(&write("b")), Fate::Lose(Answer::Internal)));
        assert!(matches!(first.request(&write("a")), Fate::Pass));
    }

    #[test]
    fn a_seed_says_the_same_in_whatever_order() {
        let fates = |order: &[&str]| {
            let seeded = Seeded::new(7);
            let mut fates: Vec<_> =
                order.iter().map(|name| format!("{name} {:?}", seeded.request(&write(name)))).collect();
            fates.sort();
            fates
        };
        assert_eq!(fates(&["a", "b", "c", "a", "d"]), fates(&["d", "a", "a", "c", "b"]));
        assert!((0..9).any(|seed| !matches!(Seeded::new(seed).request(&write("a")), Fate::Pass)));
    }
}
