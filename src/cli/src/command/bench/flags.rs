//! The flags of a load, and the campaign that they make.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde::Deserialize;
use workerapp_bench::{
    Arrivals, Load, Plan, Protocol as Spoken, Template, Tls, Trust,
    campaign::{Campaign, Contender},
    presets,
    search::{Goal, Search},
    values,
};

use super::targets::Target;
use crate::error::Error;

/// What a suite says of the load; a person's flags win over it. The same words as the flags have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Protocol {
    pub(crate) preset: Option<String>,
    pub(crate) connections: Option<String>,
    pub(crate) duration: Option<String>,
    pub(crate) warm_up: Option<String>,
    pub(crate) rate: Option<String>,
    pub(crate) rounds: Option<u32>,
    pub(crate) timeout: Option<String>,
}

impl Protocol {
    /// With what `other` says in the place of what stands here.
    pub(crate) fn changed_by(self, other: &Self) -> Self {
        let other = other.clone();
        Self {
            preset: other.preset.or(self.preset),
            connections: other.connections.or(self.connections),
            duration: other.duration.or(self.duration),
            warm_up: other.warm_up.or(self.warm_up),
            rate: other.rate.or(self.rate),
            rounds: other.rounds.or(self.rounds),
            timeout: other.timeout.or(self.timeout),
        }
    }
}

/// Of the rate that a search finds: finer than runs of seconds can tell.
const PRECISION: f64 = 0.05;

/// What a person may say of the load.
#[derive(Args, Clone)]
#[command(next_help_heading = "Load")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct LoadFlags {
    /// Settings with a name: watt, wrk-ladder or cloudgate; other flags win over it
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Connections; several with commas are measured one after the other [default: 100]
    #[arg(short, long, value_name = "N[,N…]")]
    connections: Option<String>,
    /// How long each measurement is, for example 40s or 1m [default: 20s]
    #[arg(short, long, value_name = "TIME")]
    duration: Option<String>,
    /// Load before each measurement, which isn't counted [default: 5s]
    #[arg(long, value_name = "TIME")]
    warm_up: Option<String>,
    /// Requests per second; without it as many as the server answers
    #[arg(short, long, value_name = "RATE", conflicts_with = "ramp")]
    rate: Option<String>,
    /// A rate that goes from one to another, for example 100..5000
    #[arg(long, value_name = "FROM..TO")]
    ramp: Option<String>,
    /// Look for the highest rate at which this is kept, for example 'p99<50ms' or 'p99.9<0.2s,failed<1%' [failed: 0.1%]
    #[arg(long, value_name = "PROMISE", conflicts_with_all = ["rate", "ramp"])]
    search: Option<String>,
    /// With --search: the first rate that is tried; it doubles from there, or is halved
    #[arg(long, value_name = "RATE", default_value = "100", requires = "search")]
    search_from: String,
    /// With --search: no rate above it is tried
    #[arg(long, value_name = "RATE", default_value = "1000000", requires = "search")]
    search_most: String,
    /// With --rate, --ramp or --search: evenly spaced requests, and not at random as people send them
    #[arg(long)]
    even: bool,
    /// How often each target is measured; at least 5 to compare [default: 5, or 1 for a single target]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// What the order, arrivals and resampling come from; printed, so that a run can be repeated
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Threads that make the load
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// How long a request may take [default: 10s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// A new connection for each request
    #[arg(long)]
    close: bool,
    /// Send a GET once more where its kept connection ended before an answer, as browsers do; else it has failed
    #[arg(long, conflicts_with = "close")]
    resend: bool,
    /// Speak HTTP/2; where there is no TLS, by prior knowledge
    #[arg(long)]
    http2: bool,
    /// With --http2: requests at a time on each connection
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    streams: usize,
    /// Trust the certificate authorities in this PEM file, and no others [default: those of this machine]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca: Option<PathBuf>,
    /// Check no certificate
    #[arg(long)]
    insecure: bool,
    /// GET, POST, …
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A header, "Name: value"; repeatable. Host is also the name that TLS asks for
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The request's body
    #[arg(long, value_name = "TEXT", default_value = "")]
    body: String,
    /// The header of the answers that names the worker
    #[arg(long, value_name = "NAME")]
    worker_header: Option<String>,
}

fn threads(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|threads| (1..=1024).contains(threads))
        .ok_or_else(|| "give a number from 1 to 1024".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("it has no colon; example: \"Accept: text/html\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The same, read.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    ladder: Vec<usize>,
    duration: Duration,
    warm_up: Duration,
    timeout: Duration,
    load: Load,
    search: Option<Goal>,
    rounds: Option<u32>,
    seed: u64,
    threads: usize,
    keep_alive: bool,
    resend: bool,
    protocol: Spoken,
    streams: usize,
    trust: Trust,
    template: Template,
    worker_header: Option<String>,
}

impl LoadFlags {
    /// With what a suite says where a person said nothing. A preset that was asked for stands in the place of all of it.
    pub(crate) fn or(&self, protocol: &Protocol) -> Self {
        let protocol = if self.preset.is_some() { Protocol::default() } else { protocol.clone() };
        let mut flags = self.clone();
        flags.preset = flags.preset.or(protocol.preset);
        flags.connections = flags.connections.or(protocol.connections);
        flags.duration = flags.duration.or(protocol.duration);
        flags.warm_up = flags.warm_up.or(protocol.warm_up);
        if flags.ramp.is_none() && flags.search.is_none() {
            flags.rate = flags.rate.or(protocol.rate);
        }
        flags.rounds = flags.rounds.or(protocol.rounds);
        flags.timeout = flags.timeout.or(protocol.timeout);
        flags
    }

    /// Reads them.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let preset = self.preset.as_deref().map(presets::preset).transpose()?;
        let time = |field, given: &Option<String>, preset: Option<Duration>, default: u64| {
            let given = given.as_deref().map(|text| values::duration(field, text)).transpose()?;
            Ok::<_, Error>(given.or(preset).unwrap_or(Duration::from_secs(default)))
        };
        let ladder = match (&self.connections, preset) {
            (Some(text), _) => values::ladder("connections", text)?,
            (None, Some(preset)) => preset.connections.to_vec(),
            (None, None) => vec![100],
        };
        let seed = self.seed.unwrap_or_else(|| u64::from(fastrand::u32(..)));
        let arrivals = if self.even { Arrivals::Even } else { Arrivals::Random { seed } };
        let load = match (&self.rate, &self.ramp) {
            (Some(text), _) => Load::Rate { per_second: values::rate("rate", text)?, arrivals },
            (None, Some(text)) => {
                let (from, to) = values::ramp("ramp", text)?;
                Load::Ramp { from, to, arrivals }
            }
            (None, None) => Load::Capacity,
        };
        let search = self.goal(arrivals)?;
        let trust = Trust::of(self.ca.as_deref(), self.insecure);
        Ok(Settings {
            search,
            protocol: if self.http2 { Spoken::Http2 } else { Spoken::Http1 },
            streams: self.streams,
            trust,
            ladder,
            duration: time("duration", &self.duration, preset.map(|preset| preset.duration), 20)?,
            warm_up: time("warm-up", &self.warm_up, preset.map(|preset| preset.warm_up), 5)?,
            timeout: time("timeout", &self.timeout, None, 10)?,
            load,
            rounds: self.rounds,
            seed,
            threads: self.threads,
            keep_alive: !self.close,
            resend: self.resend,
            template: Template {
                method: self.method.clone(),
                headers: self.headers.clone(),
                body: self.body.clone().into_bytes(),
            },
            worker_header: self.worker_header.clone(),
        })
    }
}

impl LoadFlags {
    fn goal(&self, arrivals: Arrivals) -> Result<Option<Goal>, Error> {
        let Some(text) = &self.search else { return Ok(None) };
        let search = Search {
            from: values::rate("search-from", &self.search_from)?,
            most: values::rate("search-most", &self.search_most)?,
            precision: PRECISION,
        };
        let goal = Goal { search, promise: values::promise("search", text)?, arrivals };
        goal.search.check()?;
        Ok(Some(goal))
    }

    /// The same as words of a command line, with what was left to chance.
    pub(crate) fn words(&self, seed: u64, rounds: u32) -> Vec<String> {
        let mut words = vec![format!("--seed={seed}"), format!("--rounds={rounds}")];
        let options = [
            ("preset", &self.preset),
            ("connections", &self.connections),
            ("duration", &self.duration),
            ("warm-up", &self.warm_up),
            ("rate", &self.rate),
            ("ramp", &self.ramp),
            ("timeout", &self.timeout),
            ("worker-header", &self.worker_header),
            ("search", &self.search),
        ];
        words
            .extend(options.iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?))));
        words.push(format!("--threads={}", self.threads));
        words.push(format!("--method={}", self.method));
        words.push(format!("--body={}", self.body));
        words.extend(self.headers.iter().map(|(name, value)| format!("--header={name}: {value}")));
        if self.search.is_some() {
            words.push(format!("--search-from={}", self.search_from));
            words.push(format!("--search-most={}", self.search_most));
        }
        if self.http2 {
            words.push(format!("--streams={}", self.streams));
        }
        let switches = [
            ("even", self.even),
            ("close", self.close),
            ("resend", self.resend),
            ("http2", self.http2),
            ("insecure", self.insecure),
        ];
        words.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| format!("--{name}")));
        words
    }
}

impl Settings {
    /// Threads that make the load.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Every target under this load.
    pub(crate) fn campaign(&self, targets: &[Target]) -> Result<Campaign, Error> {
        let contenders =
            targets.iter().map(|target| self.contender(target)).collect::<Result<Vec<_>, _>>()?;
        let rounds = self.rounds.unwrap_or(if targets.len() > 1 { 5 } else { 1 });
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        Ok(Campaign {
            title: names.join(", "),
            contenders,
            ladder: self.ladder.clone(),
            rounds,
            seed: self.seed,
            search: self.search,
        })
    }

    /// Connections go to all addresses of a target in turn.
    fn contender(&self, target: &Target) -> Result<Contender, Error> {
        let mut addresses = Vec::new();
        let mut requests = Vec::new();
        let mut tls = None;
        for url in &target.urls {
            let parsed = workerapp_bench::Target::parse(url)?;
            addresses.extend(parsed.addresses()?);
            requests.push(self.template.build_for(self.protocol, &parsed, self.keep_alive)?);
            if tls.is_none() {
                tls = Tls::new(&self.called(parsed), &self.trust, self.protocol)?;
            }
        }
        // One request would do for all of them but for the name of the host in it.
        requests.truncate(1);
        let connections = self.ladder.first().copied().unwrap_or(1);
        let plan = Plan {
            addresses,
            requests,
            protocol: self.protocol,
            streams: self.streams,
            tls,
            load: self.load,
            connections,
            threads: self.threads.min(self.ladder.iter().copied().min().unwrap_or(1)),
            keep_alive: self.keep_alive,
            resend: self.resend,
            warm_up: self.warm_up,
            duration: self.duration,
            timeout: self.timeout,
            worker_header: self.worker_header.clone(),
        };
        Ok(Contender { name: target.name.clone(), url: target.urls.join(" "), plan })
    }

    /// A node has no certificate for its address: who names a host asks for that one's.
    fn called(&self, target: workerapp_bench::Target) -> workerapp_bench::Target {
        let host = self.template.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = host.map(|(_, host)| host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host));
        let host = host.map_or(target.host.clone(), str::to_owned);
        workerapp_bench::Target { host, ..target }
    }
}

#[cfg(test)]
mod tests;
