//! The command line, and how much is measured.

use clap::{Parser, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Measures the worker supervisor beside node:cluster, pm2 and Watt
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The Node.js binary that all of them run with
    #[arg(long, default_value = "node")]
    pub(crate) node: PathBuf,
    /// A folder with app/ and, in `node_modules`, pm2, wattpm and @platformatic/node
    #[arg(long, default_value = ".")]
    pub(crate) peers: PathBuf,
    /// The release build of the supervisor
    #[arg(long, default_value = "workerapp-supervisor")]
    pub(crate) supervisor: PathBuf,
    /// The file that the results are written to, as JSON; the servers' logs go beside it
    #[arg(long, default_value = "target/bench/supervisor.json")]
    pub(crate) output: PathBuf,
    /// Only these parts; all without it
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Short: shows that everything works; its figures say little
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds, in each of which everyone is measured once
    #[arg(long)]
    pub(crate) rounds: Option<u32>,
    /// Seconds of each measurement
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Milliseconds of CPU that the app's handler takes
    #[arg(long, value_delimiter = ',')]
    pub(crate) handlers: Vec<u32>,
    /// Decides the order within each round
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Closed loop: requests per second, CPU per request.
    Throughput,
    /// Open loop at parts of the capacity, which is measured first.
    Latency,
    /// Requests that fail while workers are replaced or killed.
    Loss,
    /// What the supervisor itself needs.
    Footprint,
    /// Simulation: how connections fall on workers.
    Placement,
}

/// How much is measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    pub(crate) measurement: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) handlers_ms: Vec<u32>,
    /// Parts of the capacity, in percent.
    pub(crate) loads_percent: Vec<u32>,
    /// Rolling restarts, and kills.
    pub(crate) disturbances: u32,
    /// Between two of them.
    pub(crate) calm: Duration,
    /// Starts of the app, alone and under the supervisor.
    pub(crate) starts: u32,
    /// How long the idle supervisor is watched.
    pub(crate) idle: Duration,
    /// Trials of the simulation.
    pub(crate) trials: u32,
}

impl Arguments {
    pub(crate) fn parts(&self) -> Vec<Part> {
        if self.only.is_empty() { Part::value_variants().to_vec() } else { self.only.clone() }
    }

    pub(crate) fn effort(&self) -> Effort {
        let mut effort = if self.quick {
            Effort {
                rounds: 2,
                measurement: Duration::from_secs(1),
                warm_up: Duration::from_millis(200),
                handlers_ms: vec![0, 1],
                loads_percent: vec![50],
                disturbances: 1,
                calm: Duration::from_secs(1),
                starts: 3,
                idle: Duration::from_secs(2),
                trials: 50,
            }
        } else {
            Effort {
                rounds: 5,
                measurement: Duration::from_secs(3),
                warm_up: Duration::from_millis(500),
                handlers_ms: vec![0, 1, 10],
                loads_percent: vec![50, 80],
                disturbances: 3,
                calm: Duration::from_secs(2),
                starts: 20,
                idle: Duration::from_secs(10),
                trials: 400,
            }
        };
        effort.rounds = self.rounds.unwrap_or(effort.rounds).max(1);
        if !self.handlers.is_empty() {
            effort.handlers_ms.clone_from(&self.handlers);
        }
        effort.measurement = self.seconds.map_or(effort.measurement, |n| Duration::from_secs(n.max(1)));
        effort
    }
}

impl Part {
    /// About how long it takes.
    pub(crate) fn duration(self, effort: &Effort) -> Duration {
        let each = effort.warm_up + effort.measurement + Duration::from_millis(200);
        // With kept connections, and with one for each request.
        let cases = 2 * u32::try_from(effort.handlers_ms.len()).unwrap_or(u32::MAX);
        let loads = u32::try_from(effort.loads_percent.len()).unwrap_or(u32::MAX);
        match self {
            Self::Throughput => each * cases * effort.rounds * 5 + Duration::from_secs(15),
            Self::Latency => each * cases * loads * effort.rounds * 4,
            // Four are rolled, three killed; two are resized, which they do not follow at once.
            Self::Loss => {
                (effort.calm + Duration::from_secs(3)) * effort.disturbances * 7
                    + (effort.calm + Duration::from_secs(25)) * 2
            }
            Self::Footprint => {
                Duration::from_millis(400) * effort.starts + effort.idle + Duration::from_secs(5)
            }
            Self::Placement => Duration::from_secs(2),
        }
    }
}
