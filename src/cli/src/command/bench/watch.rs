//! What goes with the runs: a line of progress, and looks at the pods.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Handle;
use workerapp_bench::{
    Report, Watched,
    campaign::{Campaign, Contender, Turn, Watcher},
    results::Observations,
    search::Step,
};

use super::{events::Event, observe::Observer, targets::Target};
use crate::{cluster::Cluster, error::Error, output};

/// After a run, who looks at the pods from outside needs so long; the next one would be in their counters.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches a campaign.
pub(crate) struct Watch {
    observer: Observer,
    /// Somebody else looks at the pods, and is told when.
    events: bool,
    runtime: Handle,
    bar: Option<ProgressBar>,
    done: usize,
    turns: usize,
    rows: Vec<usize>,
    warming_up: bool,
}

impl Watch {
    /// To be made where the runtime is.
    pub(crate) fn new(
        campaign: &Campaign,
        targets: Vec<Target>,
        cluster: Option<Cluster>,
        events: bool,
    ) -> Self {
        let turns = campaign.turns().len();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {wide_msg}");
            let bar = ProgressBar::new(1000);
            style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style.progress_chars("=> ")))
        });
        let rows = campaign.ladder.clone();
        let observer = Observer::new(targets, cluster);
        let runtime = Handle::current();
        Self { observer, events, runtime, bar, done: 0, turns, rows, warming_up: false }
    }

    fn name(&self, turn: &Turn, contender: &Contender) -> String {
        let row = self
            .rows
            .get(turn.row)
            .map(|connections| format!(", {}", output::counted(*connections, "connection")))
            .unwrap_or_default();
        format!("run {} of {}: {}{row}, round {}", self.done + 1, self.turns, contender.name, turn.round)
    }

    /// A line that stays.
    fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// Whoever looks from outside is told, and given the time.
    fn tell(&self, event: Event) {
        if self.events {
            output::note(&event.to_string());
            if matches!(event, Event::Tried | Event::End) {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn begin(&mut self, turn: &Turn, contender: &Contender) {
        self.warming_up = true;
        self.tell(Event::Begin(turn.contender));
        // The gates will say that nobody looked.
        if let Err(error) = self.runtime.block_on(self.observer.begin(turn.contender)) {
            self.unseen(contender, &error);
        }
    }

    fn end(&mut self, contender: &Contender) -> Observations {
        self.runtime.block_on(self.observer.end()).unwrap_or_else(|error| {
            self.unseen(contender, &error);
            Observations::default()
        })
    }

    fn unseen(&self, contender: &Contender, error: &Error) {
        self.note(&format!("{}: its pods can't be looked at: {error}", contender.name));
    }
}

impl Watcher for Watch {
    fn before(&mut self, turn: &Turn, contender: &Contender) -> Result<(), workerapp_bench::Error> {
        let name = self.name(turn, contender);
        match &self.bar {
            Some(bar) => bar.set_prefix(name),
            None => output::note(&name),
        }
        self.begin(turn, contender);
        Ok(())
    }

    fn progress(&mut self, _: &Turn, watched: &Watched) {
        if self.warming_up && !watched.warming_up {
            self.tell(Event::Measure);
            self.observer.measuring(&self.runtime);
        }
        self.warming_up = watched.warming_up;
        let Some(bar) = &self.bar else { return };
        let part = watched.elapsed.as_secs_f64() / watched.planned.as_secs_f64().max(0.001);
        // Of the bar's thousand.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
        bar.set_position((part.clamp(0.0, 1.0) * 1000.0) as u64);
        let phase = if watched.warming_up { "warm-up  " } else { "" };
        let failed = if watched.progress.failed > 0 {
            format!("  {} failed", watched.progress.failed)
        } else {
            String::new()
        };
        bar.set_message(format!("{phase}{:.0}/s{failed}", watched.per_second));
    }

    fn tried(&mut self, _: &Turn, contender: &Contender, step: &Step) -> Observations {
        let end = step.why.as_ref().map_or_else(|| "kept".to_owned(), |why| format!("not kept: {why}"));
        self.note(&format!("  {:.0}/s: {end}", step.per_second));
        let seen = self.end(contender);
        self.tell(Event::Tried);
        self.warming_up = true;
        seen
    }

    fn after(
        &mut self,
        turn: &Turn,
        contender: &Contender,
        report: &Report,
    ) -> Result<Observations, workerapp_bench::Error> {
        let told = format!(
            "{}: {:.0} requests/s, p99 {:.2} ms",
            self.name(turn, contender),
            report.per_second(),
            report.quantile_ms(0.99)
        );
        self.done += 1;
        self.note(&told);
        if let Some(bar) = self.bar.as_ref().filter(|_| self.done == self.turns || report.partial) {
            bar.finish_and_clear();
        }
        let seen = self.end(contender);
        self.tell(Event::End);
        Ok(seen)
    }
}
