//! The command line.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use workerapp_adapter::cli::MetricsApiArgs;

use crate::{Config, leader};

/// The shortest lease: a shorter one is lost whenever the API server is a little slow.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

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
    Run(Box<RunArgs>),
    /// Run the metrics API: custom.metrics.k8s.io, from what the supervisors measure.
    MetricsApi(Box<MetricsApi>),
    /// Print the WorkerApp definition as YAML.
    Crd,
}

/// Flags of `metrics-api`.
#[derive(Args, Debug)]
pub struct MetricsApi {
    /// Those of the API itself.
    #[command(flatten)]
    pub api: MetricsApiArgs,
    /// How log lines are written; what is logged is set by `RUST_LOG`.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "WORKERAPP_LOG_FORMAT")]
    pub log_format: LogFormat,
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
    /// Work only while holding a lease, so that several operators can run: one works, the others stand by.
    #[arg(long, env = "WORKERAPP_LEADER_ELECT")]
    pub leader_elect: bool,
    /// The lease's name.
    #[arg(long, value_name = "NAME", default_value = "workerapp-operator", env = "WORKERAPP_LEASE_NAME")]
    pub lease_name: String,
    /// The lease's namespace. Default: the one that the operator runs in, or that the kubeconfig names.
    #[arg(long, value_name = "NS", env = "WORKERAPP_LEASE_NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// How long nobody takes over from an operator that vanished; one that is stopped gives the lease up at once. At least 3s.
    #[arg(long, value_name = "TIME", default_value = "15s", env = "WORKERAPP_LEASE_DURATION", value_parser = lease_duration)]
    pub lease_duration: Duration,
    /// This operator's name in the lease; no two may have the same. Default: the host's name with a random end.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub identity: Option<String>,
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

    /// How the lease is found and held; `None` without one. `namespace` is where the operator runs.
    pub fn lease(&self, namespace: &str) -> Option<leader::Settings> {
        self.leader_elect.then(|| leader::Settings {
            namespace: self.lease_namespace.clone().unwrap_or_else(|| namespace.to_owned()),
            name: self.lease_name.clone(),
            identity: self.identity.clone().filter(|name| !name.is_empty()).unwrap_or_else(identity),
            duration: self.lease_duration,
        })
    }
}

fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{:016x}", fastrand::u64(..))
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    // What the lease holds is a number of 32 bits.
    if duration < SHORTEST_LEASE || i32::try_from(duration.as_secs()).is_err() {
        return Err(format!("{text} is no time for a lease: it takes 3s at least, 15s is usual"));
    }
    Ok(duration)
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
    fn a_lease_is_asked_for_and_its_time_is_checked() {
        let parse = |arguments: &[&str]| {
            let all = [&["workerapp-operator", "run", "--supervisor-image", "i"], arguments].concat();
            Cli::try_parse_from(all).map(|cli| match cli.command {
                Command::Run(run) => run.lease("here"),
                Command::Crd | Command::MetricsApi(_) => None,
            })
        };
        assert!(parse(&[]).unwrap().is_none());
        let lease = parse(&["--leader-elect", "--identity", "me"]).unwrap().unwrap();
        assert_eq!((&*lease.namespace, &*lease.name, &*lease.identity), ("here", "workerapp-operator", "me"));
        assert_eq!(lease.duration, Duration::from_secs(15));
        let elsewhere = parse(&["--leader-elect", "--lease-namespace", "there"]).unwrap().unwrap();
        assert_eq!(elsewhere.namespace, "there");
        for wrong in ["2s", "15", "99999999h"] {
            let error = parse(&["--leader-elect", "--lease-duration", wrong]).unwrap_err().to_string();
            assert!(error.contains("--lease-duration"), "{error}");
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
