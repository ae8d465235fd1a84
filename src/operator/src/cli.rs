//! The command line.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::Config;

/// Turns WorkerApps into Deployments, Services and HorizontalPodAutoscalers.
#[derive(Debug, Parser)]
#[command(name = "workerapp-operator", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator.
    Run(RunArgs),
    /// Print the WorkerApp definition as YAML.
    Crd,
}

/// Flags of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A namespace to look after; may be given several times. Default: all.
    #[arg(long = "namespace", value_name = "NS", env = "WORKERAPP_NAMESPACES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// The image that holds the supervisor: the operator's own.
    #[arg(long, value_name = "IMAGE", env = "WORKERAPP_SUPERVISOR_IMAGE")]
    pub supervisor_image: String,
    /// When that image is pulled: Always, IfNotPresent or Never. Default: Kubernetes' own.
    #[arg(long, value_name = "POLICY", env = "WORKERAPP_SUPERVISOR_PULL_POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub supervisor_pull_policy: Option<String>,
    /// Where /livez, /readyz and /metrics are served; 0.0.0.0 takes the place of [::] where there is no IPv6.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080", env = "WORKERAPP_LISTEN")]
    pub listen: SocketAddr,
    /// How log lines are written; what is logged is set by `RUST_LOG`.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "WORKERAPP_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// How many apps are worked on at the same time.
    #[arg(long, value_name = "N", default_value = "16", env = "WORKERAPP_CONCURRENCY", value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    /// How often an app is looked at although nothing happened. Examples: 90s, 10m, 1h.
    #[arg(long, value_name = "TIME", default_value = "10m", env = "WORKERAPP_RESYNC", value_parser = duration)]
    pub resync: Duration,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For log stores, one object per line.
    Json,
}

impl RunArgs {
    /// What the operator is run with.
    pub fn config(&self) -> Config {
        let namespaces = self.namespaces.iter().map(|namespace| namespace.trim().to_owned());
        Config {
            namespaces: namespaces.filter(|namespace| !namespace.is_empty()).collect(),
            supervisor_image: self.supervisor_image.clone(),
            supervisor_pull_policy: self.supervisor_pull_policy.clone(),
            concurrency: self.concurrency.into(),
            resync: self.resync,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: write a number and s, m or h, for example 90s, 10m or 1h");
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(seconds) {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::{Cli, Command, duration};

    #[test]
    fn times_are_read_and_nonsense_is_refused() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(duration("1h"), Ok(Duration::from_hours(1)));
        for wrong in ["", "10", "m", "0s", "-1s", "1d", "1.5h", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespaces_come_one_by_one_or_as_a_list() {
        let cli = Cli::parse_from([
            "workerapp-operator",
            "run",
            "--supervisor-image",
            "i",
            "--namespace",
            "a,b",
            "--namespace",
            "c",
        ]);
        let Command::Run(run) = cli.command else { panic!("not run") };
        assert_eq!(run.config().namespaces, ["a", "b", "c"]);
    }
}
