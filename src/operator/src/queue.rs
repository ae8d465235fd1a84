//! Which apps are to be looked at, and when.
//!
//! An app stands here at most once, is never worked on twice at the same time, and has at most one timer: the earliest. What a
//! person has edited goes before apps that nobody has looked at yet, and those before what a start or a timer brought up, so
//! that an edit is served at once while thousands of apps are looked at.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Mutex,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{cache::Key, sync::lock};

/// How urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A start or a timer: most likely all stands as it should.
    #[default]
    Background,
    /// Nobody has looked at it yet.
    New,
    /// Something has changed, and nobody has answered to that yet.
    Edit,
}

impl Lane {
    /// All of them, the one that goes first last.
    pub const ALL: [Self; 3] = [Self::Background, Self::New, Self::Edit];

    /// The word in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::New => "new",
            Self::Edit => "edit",
        }
    }
}

/// A key whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which app.
    pub key: Key,
    /// Where it stood.
    pub lane: Lane,
    /// How long it stood there, the time in which it was still worked on included.
    pub waited: Duration,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<Key, Slot>,
    /// In the order of [`Lane::ALL`].
    lanes: [VecDeque<Key>; Lane::ALL.len()],
    timers: BTreeSet<(Instant, Key)>,
    running: usize,
    /// What is less urgent is not taken.
    least: Lane,
}

#[derive(Debug, Default)]
struct Slot {
    /// Stands in one of the lanes; while the app is worked on, it is put there afterwards.
    wanted: Option<Lane>,
    /// Since when.
    since: Option<Instant>,
    running: bool,
    due: Option<Instant>,
}

impl Queue {
    /// Has `key` looked at as soon as possible.
    pub fn add(&self, key: &Key, lane: Lane) {
        lock(&self.state).want(key, lane);
        self.wake.notify_one();
    }

    /// Has `key` looked at after `delay`, unless it is looked at before.
    pub fn add_after(&self, key: &Key, delay: Duration) {
        let due = Instant::now() + delay;
        let mut state = lock(&self.state);
        let slot = state.slots.entry(key.clone()).or_default();
        if slot.due.is_some_and(|earlier| earlier <= due) {
            return;
        }
        let later = slot.due.replace(due);
        if let Some(later) = later {
            state.timers.remove(&(later, key.clone()));
        }
        state.timers.insert((due, key.clone()));
        drop(state);
        self.wake.notify_one();
    }

    /// From now on only what is at least so urgent is taken; all else stays where it is.
    pub fn only(&self, least: Lane) {
        lock(&self.state).least = least;
        self.wake.notify_one();
    }

    /// Waits for the next key; [`Queue::done`] has to be called for it.
    pub async fn next(&self) -> Turn {
        loop {
            let due = {
                let mut state = lock(&self.state);
                let now = Instant::now();
                state.promote(now);
                if let Some(turn) = state.take(now) {
                    return turn;
                }
                state.timers.first().map(|(due, _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    /// The work on `key` has ended; what came in meanwhile is due now.
    pub fn done(&self, key: &Key) {
        let mut state = lock(&self.state);
        let Some(slot) = state.slots.get_mut(key) else { return };
        let ran = std::mem::take(&mut slot.running);
        match slot.wanted {
            Some(lane) => state.enqueue(key.clone(), lane),
            None if slot.due.is_none() => {
                state.slots.remove(key);
            }
            None => {}
        }
        state.running -= usize::from(ran);
        drop(state);
        self.wake.notify_one();
    }

    /// Drops every key that isn't worked on and that `keep` doesn't want, and returns those.
    pub fn prune(&self, keep: impl Fn(&Key) -> bool) -> Vec<Key> {
        let mut state = lock(&self.state);
        let drops = |(key, slot): &(&Key, &Slot)| !slot.running && !keep(key);
        let dropped: Vec<Key> = state.slots.iter().filter(drops).map(|(key, _)| key.clone()).collect();
        for key in &dropped {
            if let Some(due) = state.slots.remove(key).and_then(|slot| slot.due) {
                state.timers.remove(&(due, key.clone()));
            }
        }
        let State { slots, lanes, .. } = &mut *state;
        for lane in lanes {
            lane.retain(|key| slots.contains_key(key));
        }
        dropped
    }

    /// How many keys wait for their turn, those with a timer left out.
    pub fn len(&self) -> usize {
        // Not by the length of the lanes, in which a key that moved up still has its old place.
        lock(&self.state).slots.values().filter(|slot| slot.wanted.is_some() && !slot.running).count()
    }

    /// How many keys are being worked on.
    pub fn running(&self) -> usize {
        lock(&self.state).running
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    fn want(&mut self, key: &Key, lane: Lane) {
        let slot = self.slots.entry(key.clone()).or_default();
        let former = slot.wanted;
        if former.is_some_and(|former| former >= lane) {
            return;
        }
        slot.wanted = Some(lane);
        slot.since.get_or_insert_with(Instant::now);
        if !slot.running {
            // A key that moves up leaves its old place behind; `take` steps over it.
            self.enqueue(key.clone(), lane);
        }
    }

    fn enqueue(&mut self, key: Key, lane: Lane) {
        self.lanes[lane as usize].push_back(key);
    }

    /// Moves what is due from the timers to the lanes.
    fn promote(&mut self, now: Instant) {
        while let Some((due, key)) = self.timers.first().cloned()
            && due <= now
        {
            self.timers.pop_first();
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.due = None;
            }
            self.want(&key, Lane::Background);
        }
    }

    fn take(&mut self, now: Instant) -> Option<Turn> {
        loop {
            let mut by_urgency = Lane::ALL.into_iter().rev().filter(|lane| *lane >= self.least);
            let (key, lane) =
                by_urgency.find_map(|lane| Some((self.lanes[lane as usize].pop_front()?, lane)))?;
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if slot.running || slot.wanted != Some(lane) {
                continue;
            }
            slot.wanted = None;
            slot.running = true;
            let waited =
                slot.since.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            if let Some(due) = slot.due.take() {
                self.timers.remove(&(due, key.clone()));
            }
            self.running += 1;
            return Some(Turn { key, lane, waited });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Key, Lane, Queue};

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    #[tokio::test(start_paused = true)]
    async fn keda_3730_an_edit_goes_before_the_first_look_at_thousands() {
        let queue = Queue::default();
        for n in 0..2000 {
            queue.add(&key(&format!("app-{n}")), Lane::Background);
        }
        queue.add(&key("app-1998"), Lane::New);
        queue.add(&key("app-1999"), Lane::Edit);
        assert_eq!(queue.next().await.key, key("app-1999"));
        assert_eq!(queue.next().await.key, key("app-1998"));
        for n in 0..1998 {
            assert_eq!(queue.next().await.key, key(&format!("app-{n}")));
        }
        assert!(
            tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err(),
            "each stands there once"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn while_only_edits_are_taken_all_else_waits_in_its_place() {
        let queue = Queue::default();
        queue.only(Lane::Edit);
        queue.add(&key("old"), Lane::Background);
        queue.add(&key("new"), Lane::New);
        queue.add_after(&key("due"), Duration::from_millis(1));
        queue.add(&key("edited"), Lane::Edit);
        assert_eq!(queue.next().await.key, key("edited"));
        // It waits for a second look with the others, and an edit of one of those comes through.
        queue.add(&key("edited"), Lane::New);
        queue.done(&key("edited"));
        assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err());
        queue.add(&key("old"), Lane::Edit);
        assert_eq!(queue.next().await.key, key("old"));
        queue.done(&key("old"));
        assert_eq!(queue.len(), 3);
        let rest = async {
            let mut rest = Vec::new();
            for _ in 0..3 {
                rest.push(queue.next().await.key);
            }
            rest
        };
        let (rest, ()) = tokio::join!(rest, async { queue.only(Lane::Background) });
        assert_eq!(rest, [key("new"), key("edited"), key("due")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_worked_on_twice_at_the_same_time() {
        let queue = Queue::default();
        queue.add(&key("a"), Lane::Edit);
        assert_eq!(queue.next().await.key, key("a"));
        queue.add(&key("a"), Lane::Edit);
        queue.add(&key("a"), Lane::Background);
        assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err());
        queue.done(&key("a"));
        assert_eq!(queue.next().await.key, key("a"));
        queue.done(&key("a"));
        assert!(tokio::time::timeout(Duration::from_secs(1), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_nobody_takes_can_be_dropped() {
        let queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.add(&key(name), Lane::Background);
            queue.add(&key(name), Lane::Edit);
            queue.add_after(&key(name), Duration::from_secs(1));
        }
        let mut dropped = queue.prune(|key| &*key.name == "b");
        dropped.sort();
        assert_eq!(dropped, [key("a"), key("c")]);
        assert_eq!(queue.next().await.key, key("b"));
        assert!(queue.prune(|_| false).is_empty(), "what is worked on stays");
        queue.done(&key("b"));
        assert!(tokio::time::timeout(Duration::from_mins(1), queue.next()).await.is_err());
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn it_tells_how_long_a_key_waited_and_how_many_are_worked_on() {
        let queue = Queue::default();
        queue.add(&key("a"), Lane::Background);
        tokio::time::advance(Duration::from_secs(2)).await;
        // It moves up, and has waited since it first stood there.
        queue.add(&key("a"), Lane::Edit);
        tokio::time::advance(Duration::from_secs(1)).await;
        let turn = queue.next().await;
        assert_eq!((turn.lane, turn.waited), (Lane::Edit, Duration::from_secs(3)));
        queue.add(&key("a"), Lane::Edit);
        assert_eq!((queue.running(), queue.len()), (1, 0));
        tokio::time::advance(Duration::from_secs(4)).await;
        queue.done(&key("a"));
        assert_eq!((queue.running(), queue.len()), (0, 1));
        assert_eq!(queue.next().await.waited, Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_timer_counts_and_is_forgotten_when_the_key_is_taken() {
        let queue = Queue::default();
        queue.add_after(&key("a"), Duration::from_mins(1));
        queue.add_after(&key("a"), Duration::from_secs(5));
        queue.add_after(&key("a"), Duration::from_secs(30));
        let start = tokio::time::Instant::now();
        assert_eq!(queue.next().await.key, key("a"));
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.done(&key("a"));
        assert!(tokio::time::timeout(Duration::from_mins(2), queue.next()).await.is_err());
    }
}
