//! Connections over which a worker's own process talks with the supervisor, line by line.

use crate::fleet::Generation;
use std::net::SocketAddr;

/// One such connection.
#[derive(Debug)]
pub(crate) struct Channel {
    /// The start that the process belongs to, as it says.
    pub(crate) generation: Generation,
    /// It has no connections left.
    pub(crate) drained: bool,
    /// Where it listens, on a port that it shares by itself; told and not yet taken note of.
    pub(crate) listens: Vec<SocketAddr>,
    /// What it told last.
    pub(crate) stats: Option<Stats>,
    text: Vec<u8>,
}

/// What a Node process tells about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Stats {
    /// Requests that it has begun to answer.
    pub(crate) requests: u64,
    /// Of them, those whose answers have not ended.
    pub(crate) in_flight: u64,
    /// Connections that its servers have accepted.
    pub(crate) accepted: u64,
    /// How long its answers took.
    pub(crate) durations: Durations,
    /// Open connections of its servers.
    pub(crate) connections: u64,
    /// Event-loop utilisation since it was asked last, from 0 to 1.
    pub(crate) utilisation: Option<f64>,
    /// Used heap in bytes.
    pub(crate) heap: u64,
}

/// A histogram of the time from the head of a request to the end of its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Durations {
    /// How many are within each of [`Self::BOUNDS`] and not within the one before; the last: longer than all of them.
    pub(crate) counts: [u64; Self::BOUNDS.len() + 1],
    /// Their sum in seconds.
    pub(crate) seconds: f64,
}

impl Durations {
    /// In seconds; `preload/node.cjs` counts by the same.
    pub(crate) const BOUNDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

    fn add(self, other: Self) -> Self {
        let mut counts = self.counts;
        for (count, more) in counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        Self { counts, seconds: self.seconds + other.seconds }
    }
}

impl Channel {
    /// More than this without a line feed is no message of ours.
    const LONGEST: usize = 4096;

    pub(super) fn new(generation: Generation) -> Self {
        Self { generation, drained: false, listens: Vec::new(), stats: None, text: Vec::new() }
    }

    /// Takes in what was received. `false`: it makes no sense, and neither will what follows.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> bool {
        self.text.extend_from_slice(bytes);
        while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            self.message(&String::from_utf8_lossy(&line));
        }
        self.text.len() <= Self::LONGEST
    }

    fn message(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("drained") => self.drained = true,
            // As many as a program has ports, and no more.
            Some("listens") if self.listens.len() < 64 => {
                self.listens.extend(words.next().and_then(|address| address.parse::<SocketAddr>().ok()));
            }
            Some("stats") => self.stats = Some(Stats::from_words(words)),
            _ => {}
        }
    }
}

impl Stats {
    /// Of two processes together. Of their utilisations the higher one: it is what a client may meet.
    pub(crate) fn add(self, other: Self) -> Self {
        let utilisation = match (self.utilisation, other.utilisation) {
            (Some(mine), Some(theirs)) => Some(mine.max(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        Self {
            requests: self.requests + other.requests,
            in_flight: self.in_flight + other.in_flight,
            accepted: self.accepted + other.accepted,
            durations: self.durations.add(other.durations),
            connections: self.connections + other.connections,
            utilisation,
            heap: self.heap + other.heap,
        }
    }

    fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut stats = Self::default();
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "requests" => stats.requests = count(value),
                "inflight" => stats.in_flight = count(value),
                "accepted" => stats.accepted = count(value),
                "connections" => stats.connections = count(value),
                "heap" => stats.heap = count(value),
                "seconds" => {
                    stats.durations.seconds =
                        value.parse().ok().filter(|s| (0.0..=1e12).contains(s)).unwrap_or_default();
                }
                "durations" => {
                    for (slot, value) in stats.durations.counts.iter_mut().zip(value.split(',')) {
                        *slot = count(value);
                    }
                }
                "elu" => stats.utilisation = value.parse().ok().filter(|share| (0.0..=1.0).contains(share)),
                _ => {}
            }
        }
        stats
    }
}

/// At most more than any number that is true, and few enough to be added up.
fn count(value: &str) -> u64 {
    value.parse().unwrap_or(0).min(1 << 48)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_any_pieces() {
        let mut channel = Channel::new(3);
        for piece in [
            &b"stats requests=5 connec"[..],
            b"tions=2 inflight=1 accepted=4 elu=0.25 heap=9 seconds=0.5 durations=3,0,1 new=1\ndrai",
            b"ned\n",
        ] {
            assert!(channel.receive(piece));
        }
        let mut durations = Durations { seconds: 0.5, ..Durations::default() };
        durations.counts[..3].copy_from_slice(&[3, 0, 1]);
        let stats = Stats {
            requests: 5,
            in_flight: 1,
            accepted: 4,
            durations,
            connections: 2,
            utilisation: Some(0.25),
            heap: 9,
        };
        assert_eq!((channel.drained, channel.stats), (true, Some(stats)));
        assert!(channel.receive(b"stats elu=NaN requests=x\n\xff\n"));
        assert_eq!(channel.stats, Some(Stats::default()));
        assert!(channel.receive(b"listens [::]:3000\nlistens nowhere\nlistens\n"));
        assert_eq!(channel.listens, ["[::]:3000".parse().unwrap()]);
        assert!(!channel.receive(&[b'x'; 5000]));
    }

    /// A worker may say anything; it may not fill the memory, and pieces must not matter.
    #[test]
    fn damaged_messages() {
        let samples: [&[u8]; 3] = [
            b"stats requests=5 connections=2 elu=0.25 heap=9 seconds=0.5 durations=3,0,1\n",
            b"drained\n",
            b"listens [::]:3000\nlistens 0.0.0.0:1\n",
        ];
        let mut cut = fastrand::Rng::with_seed(4);
        crate::testing::with_damaged(&samples, |bytes| {
            let (mut whole, mut pieces) = (Channel::new(1), Channel::new(1));
            let is_sane = whole.receive(bytes);
            let (a, b) = bytes.split_at(cut.usize(0..=bytes.len()));
            let both = pieces.receive(a) && pieces.receive(b);
            if is_sane && both {
                let of = |channel: &Channel| (channel.drained, channel.listens.clone(), channel.text.clone());
                assert_eq!(of(&whole), of(&pieces));
                assert!(whole.text.len() <= Channel::LONGEST && whole.listens.len() <= 64);
            }
            let _ = whole.stats.map(|stats| stats.add(stats));
            let utilisation = whole.stats.and_then(|stats| stats.utilisation).unwrap_or_default();
            assert!((0.0..=1.0).contains(&utilisation));
        });
    }
}
