//! The command line, and how much is measured.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Measures the operator beside a bare loop that makes the same writes
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The release build of the operator
    #[arg(long, default_value = "target/release/workerapp-operator")]
    pub(crate) operator: PathBuf,
    /// The file that the results are written to, as JSON; the operators' logs go beside it
    #[arg(long, default_value = "target/bench/operator.json")]
    pub(crate) output: PathBuf,
    /// Only these parts; all without it
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Short: shows that everything works; its figures say little
    #[arg(long)]
    pub(crate) quick: bool,
    /// Apps worked on at the same time, by the operator and by the loop
    #[arg(long, default_value_t = 16)]
    pub(crate) concurrency: usize,
    /// Numbers of apps and how often each is measured, as 1000x3
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Vec<Size>,
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// From nothing until every app has its children and its status; requests and memory.
    Settle,
    /// CPU while nothing happens.
    Calm,
    /// From an edit until the child is applied, when settled and during starts.
    Edits,
}

/// A number of apps, and how often they are brought up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Size {
    pub(crate) apps: usize,
    pub(crate) rounds: usize,
}

fn size(text: &str) -> Result<Size, String> {
    let wrong =
        || format!("{text:?} is no size: write a number of apps, x and how often, for example 1000x3");
    let (apps, rounds) = text.split_once('x').ok_or_else(wrong)?;
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0).ok_or_else(wrong);
    Ok(Size { apps: number(apps)?, rounds: number(rounds)? })
}

/// How much is measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Effort {
    pub(crate) concurrency: usize,
    pub(crate) sizes: Vec<Size>,
    /// Apps that stand while CPU and edits are measured.
    pub(crate) calm_apps: usize,
    /// How long the CPU is measured.
    pub(crate) calm: Duration,
    /// Edits of settled apps.
    pub(crate) edits: usize,
    /// Apps of a start during which edits are made.
    pub(crate) start_apps: usize,
    /// How long edits are made during a start.
    pub(crate) start_window: Duration,
}

impl Arguments {
    pub(crate) fn parts(&self) -> Vec<Part> {
        if self.only.is_empty() { Part::value_variants().to_vec() } else { self.only.clone() }
    }

    pub(crate) fn effort(&self) -> Effort {
        let size = |apps, rounds| Size { apps, rounds };
        let mut effort = if self.quick {
            Effort {
                concurrency: self.concurrency,
                sizes: vec![size(100, 2), size(300, 2)],
                calm_apps: 300,
                calm: Duration::from_secs(10),
                edits: 60,
                start_apps: 600,
                start_window: Duration::from_secs(2),
            }
        } else {
            Effort {
                concurrency: self.concurrency,
                sizes: vec![size(100, 3), size(1000, 3), size(5000, 2)],
                calm_apps: 1000,
                calm: Duration::from_mins(1),
                edits: 400,
                start_apps: 2000,
                start_window: Duration::from_secs(5),
            }
        };
        if !self.sizes.is_empty() {
            effort.sizes.clone_from(&self.sizes);
        }
        effort
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, size};

    #[test]
    fn sizes_are_read_and_nonsense_is_refused() {
        assert_eq!(size("1000x3"), Ok(Size { apps: 1000, rounds: 3 }));
        for wrong in ["", "1000", "x", "0x3", "3x0", "-1x1", "1x1x1"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
