//! The operator under fire: every story with every fault, each ending as if nothing had gone wrong. See `workerapp_e2e::faults`.
//!
//! A part of the matrix by default; with `FAULTS=sample` (`make faults`) a sample of all of it, another one in each run, and with
//! `FAULTS=all` all. Arguments choose cases whose names contain them. `FAULTS_SEED=N` replays the cases of one seed, `FAULTS_SAMPLE=N` a
//! sample; `FAULTS_AT_ONCE=N` bounds how many cases run at the same time.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Instant};

use anyhow::{Context as _, Result, ensure};
use workerapp_e2e::faults::{
    campaign,
    case::{self, Met, Reference},
    fault::Moment,
    runner::{Case, Sum, run, say},
    scenario::{self, Scenario},
    table::{self, Row},
};

/// Seeds that are always run.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
/// How many new seeds the whole matrix adds.
const FRESH: usize = 4;
/// Campaigns of the whole matrix for each seed of the other faults: they are cheap.
const CAMPAIGNS: u64 = 6;
/// How many cases a sample has: seven minutes on two CPUs.
const SAMPLE: usize = 400;
/// The stories that are told with every fault; each of the others with a share of them. The smaller part has every crash of the
/// first four.
const MAIN_STORIES: [&str; 7] = [
    "create",
    "edit",
    "autoscaling-removed",
    "burst-left-behind",
    "edited-beyond-a-merge",
    "deployment-deleted",
    "app-deleted-and-made-anew",
];
/// The story of the faults that take minutes.
const SLOW_STORY: &str = "edit";

struct Settings {
    /// Whether cases are taken from the whole matrix.
    whole: bool,
    /// What the sample of it follows from, if it is one.
    sample: Option<u64>,
    seeds: Vec<u64>,
    campaigns: Vec<u64>,
    at_once: usize,
    wanted: Vec<String>,
}

impl Settings {
    fn read() -> Result<Self> {
        let number = |name: &str| -> Result<Option<u64>> {
            let Ok(text) = std::env::var(name) else { return Ok(None) };
            let number = text.parse().with_context(|| format!("{name}={text:?} is no whole number"));
            number.map(Some)
        };
        let which = std::env::var("FAULTS").unwrap_or_default();
        ensure!(["", "sample", "all"].contains(&&*which), "FAULTS={which:?} is neither sample nor all");
        let whole = !which.is_empty();
        let sample = match number("FAULTS_SAMPLE")? {
            None if which == "sample" => Some(u64::from(fastrand::u32(..))),
            given => given.filter(|_| whole),
        };
        let mut seeds: Vec<_> = SEEDS.collect();
        if whole {
            // Those of a sample follow from it, so that its number is all that it takes to have it again.
            let mut dice = sample.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
            seeds.extend(std::iter::repeat_with(|| u64::from(dice.u32(..))).take(FRESH));
        }
        let mut campaigns: Vec<_> = seeds.clone();
        if whole {
            campaigns
                .extend(seeds.iter().flat_map(|seed| (1..CAMPAIGNS).map(move |more| seed * 1000 + more)));
        }
        if let Some(seed) = number("FAULTS_SEED")? {
            (seeds, campaigns) = (vec![seed], vec![seed]);
        }
        let at_once = number("FAULTS_AT_ONCE")?.and_then(|number| usize::try_from(number).ok()).unwrap_or(24);
        let wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        Ok(Self { whole, sample, seeds, campaigns, at_once, wanted })
    }

    /// What chance had a part in, and how it is had again.
    fn told(&self) -> String {
        let seeds =
            format!("seeds: {:?}; campaigns: {:?}; FAULTS_SEED=N replays one", self.seeds, self.campaigns);
        match self.sample {
            Some(sample) => format!("FAULTS_SAMPLE={sample}: {SAMPLE} cases of the whole matrix; {seeds}"),
            None => seeds,
        }
    }

    /// The rows with which a story is told.
    fn rows<'a>(&self, rows: &'a [Row], at: usize, stories: usize, story: &str) -> Vec<&'a Row> {
        let every = self.whole && MAIN_STORIES.contains(&story);
        let chosen = |number: usize, row: &Row| {
            if row.slow { self.whole && story == SLOW_STORY } else { every || number % stories == at }
        };
        rows.iter().enumerate().filter(|(number, row)| chosen(*number, row)).map(|(_, row)| row).collect()
    }
}

fn cases(
    settings: &Settings,
    stories: &[Scenario],
    ends: &BTreeMap<&'static str, Arc<Reference>>,
) -> Vec<Case> {
    let rows = table::all(&settings.seeds);
    let mut cases = Vec::new();
    for (at, story) in stories.iter().enumerate() {
        let Some(end) = ends.get(story.name) else { continue };
        for row in settings.rows(&rows, at, stories.len(), story.name) {
            let (story, end, row) = (story.clone(), Arc::clone(end), row.clone());
            let name = format!("{}: {row:?}", story.name);
            cases.push(Case::new(name, async move { case::disturbed(&story, &end, &row).await }));
        }
        if !settings.whole && !MAIN_STORIES[..4].contains(&story.name) {
            continue;
        }
        for write in 1..=end.writes {
            for moment in Moment::ALL {
                let (story, end) = (story.clone(), Arc::clone(end));
                let name = format!("{}: crash {} write {write} of {}", story.name, moment.name(), end.writes);
                cases.push(Case::new(name, async move { case::crashed(&story, &end, write, moment).await }));
            }
        }
    }
    for seed in settings.campaigns.iter().copied() {
        cases.push(Case::new(format!("campaign: seed {seed}"), async move {
            campaign::run(seed).await.with_context(|| format!("FAULTS_SEED={seed} replays it"))
        }));
    }
    if let Some(sample) = settings.sample {
        fastrand::Rng::with_seed(sample).shuffle(&mut cases);
        cases.truncate(SAMPLE);
    }
    // The slow ones first, so that nothing is left waiting for them.
    let (slow, quick): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| case.name().contains("dead"));
    slow.into_iter().chain(quick).collect()
}

/// The end of each story when nothing goes wrong.
async fn ends(stories: &[Scenario], at_once: usize) -> (BTreeMap<&'static str, Arc<Reference>>, Sum) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let cases = stories.iter().cloned().map(|story| {
        let sender = sender.clone();
        Case::new(format!("{}: undisturbed", story.name), async move {
            let end = case::undisturbed(&story).await?;
            // The receiver is there until all have ended.
            let _ = sender.send((story.name, Arc::new(end)));
            Ok(Met::Fault)
        })
    });
    let sum = run(cases.collect(), &[], at_once).await;
    receiver.close();
    let mut ends = BTreeMap::new();
    while let Some((name, end)) = receiver.recv().await {
        ends.insert(name, end);
    }
    (ends, sum)
}

#[tokio::main]
async fn main() -> ExitCode {
    match matrix().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn matrix() -> Result<bool> {
    let settings = Settings::read()?;
    let begin = Instant::now();
    let mut stories = scenario::all();
    if !settings.wanted.is_empty() {
        // `edit: crash` concerns one story, `crash` may concern all of them.
        let concerns = |wanted: &String, story: &Scenario| match wanted.split_once(':') {
            Some((name, _)) => story.name.contains(name),
            None => !wanted.starts_with("campaign"),
        };
        stories.retain(|story| settings.wanted.iter().any(|wanted| concerns(wanted, story)));
    }
    say(&settings.told());
    let (ends, undisturbed) = ends(&stories, settings.at_once).await;
    let mut cases = cases(&settings, &stories, &ends);
    if settings.whole {
        cases.insert(
            0,
            Case::new("a minute of silence at the end of every story", case::a_minute_of_silence(stories)),
        );
    }
    let sum = undisturbed.and(run(cases, &settings.wanted, settings.at_once).await);

    let seconds = begin.elapsed().as_secs();
    say(&format!(
        "{} cases passed ({} over before the fault came), {} failed, in {seconds} s",
        sum.passed,
        sum.unmet,
        sum.failed.len()
    ));
    for name in &sum.failed {
        say(&format!("FAILED  {name}"));
    }
    say(&settings.told());
    Ok(sum.failed.is_empty() && sum.passed > 0)
}
