//! What goes wrong in the matrix: one row for each fault.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    answer::Answer,
    fault::{Events, Expired, FirstTries, Moment, Seeded, Stale, Swallowed, Word},
    layer::{Fault, Turn},
};

/// Which operator meets the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
    /// One that has been running since before anybody did anything.
    Running,
    /// One that starts after everything was done, from knowing nothing.
    Starting,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// It ends by itself.
    Itself,
    /// It ends after so long, and every watch is told that it is too old.
    For(Duration),
}

/// Makes a fault, from the resource versions that the namespace has had at each step, the newest last.
type Make = Arc<dyn Fn(&[String]) -> Arc<dyn Fault> + Send + Sync>;

/// One row.
#[derive(Clone)]
pub struct Row {
    /// Its name in a case's name.
    pub name: String,
    /// Who meets it.
    pub meets: Meets,
    /// Until when.
    pub lasts: Lasts,
    /// Whether an operator can't but act on what was, so that templates come and go.
    pub past: bool,
    /// Whether it takes so long that only the whole matrix has it.
    pub slow: bool,
    /// Makes it.
    pub make: Make,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Row {
    fn new<F: Fault + 'static>(name: String, make: impl Fn() -> F + Send + Sync + 'static) -> Self {
        let make: Make = Arc::new(move |_| Arc::new(make()));
        Self { name, meets: Meets::Running, lasts: Lasts::Itself, past: false, slow: false, make }
    }
}

/// The kinds whose watches the operator lives by.
const WATCHED: [&str; 5] = ["workerapps", "deployments", "services", "horizontalpodautoscalers", "pods"];
/// How long events stay away.
const OUTAGE: Duration = Duration::from_secs(2);
/// How late events come.
const LAG: Duration = Duration::from_millis(1500);

/// All rows, with these seeds.
pub fn all(seeds: &[u64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for answer in Answer::ALL {
        for moment in Moment::ALL {
            if moment == Moment::BeforeSend || answer.after_the_deed() {
                let name = format!("{} {} each send", answer.name(), moment.name());
                rows.push(Row::new(name, move || FirstTries::new(answer, moment)));
            }
        }
    }
    for plural in WATCHED {
        rows.push(Row {
            lasts: Lasts::For(OUTAGE),
            ..Row::new(format!("events of {plural} dropped"), move || Events::all(plural, Turn::Drop))
        });
        rows.push(Row {
            lasts: Lasts::For(2 * LAG),
            ..Row::new(format!("events of {plural} late"), move || Events::all(plural, Turn::Late(LAG)))
        });
        for word in [Word::Event, Word::Answer] {
            let name = format!("watch of {plural} expired, by an {word:?}");
            rows.push(Row::new(name.to_lowercase(), move || Expired::new(plural, word)));
        }
        rows.push(Row {
            slow: true,
            ..Row::new(format!("watch of {plural} dead"), move || Events::first(1, plural, Turn::Mute))
        });
        rows.push(stale(Some(plural), 1));
    }
    rows.extend((1..=3).map(|versions| stale(None, versions)));
    rows.push(Row {
        slow: true,
        ..Row::new("no answer to a write".into(), || Swallowed::new(1, "deployments"))
    });
    for seed in seeds.iter().copied() {
        rows.push(Row::new(format!("seed {seed}"), move || Seeded::new(seed)));
        rows.push(Row {
            meets: Meets::Starting,
            ..Row::new(format!("seed {seed} at the start"), move || Seeded::new(seed))
        });
    }
    rows
}

/// Lists of a kind, or of all, that are so many steps old.
fn stale(plural: Option<&'static str>, versions: usize) -> Row {
    let of = plural.map_or_else(String::new, |plural| format!(" of {plural}"));
    let make: Make = Arc::new(move |history| {
        let at = history.len().saturating_sub(1 + versions);
        Arc::new(Stale::new(plural, history.get(at).cloned().unwrap_or_default()))
    });
    Row {
        name: format!("lists{of} {versions} old"),
        meets: Meets::Starting,
        lasts: Lasts::Itself,
        past: true,
        slow: false,
        make,
    }
}
