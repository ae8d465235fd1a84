//! Who is compared.

use crate::arguments::Arguments;
use crate::cgroup::Cgroup;
use crate::progress;
use crate::server::Server;
use anyhow::{Context, Result, bail};
use rustix::process::{Signal, kill_process};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Something that runs the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Contender {
    /// One process, nothing around it.
    Single,
    Cluster,
    Pm2,
    Watt,
    Ours,
}

/// Workers of everyone but the single process.
pub(crate) const WORKERS: usize = 2;

impl Contender {
    pub(crate) const ALL: [Self; 5] = [Self::Single, Self::Cluster, Self::Pm2, Self::Watt, Self::Ours];
    pub(crate) const PEERS: [Self; 3] = [Self::Cluster, Self::Pm2, Self::Watt];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "node alone",
            Self::Cluster => "node:cluster",
            Self::Pm2 => "pm2",
            Self::Watt => "Watt",
            Self::Ours => "ours",
        }
    }

    pub(crate) fn workers(self) -> usize {
        if self == Self::Single { 1 } else { WORKERS }
    }

    /// Ports of their own, so that connections that one left behind don't meet another. Below those that the system takes for
    /// clients.
    fn port(self) -> u16 {
        match self {
            Self::Single => 21_810,
            Self::Cluster => 21_820,
            Self::Pm2 => 21_830,
            Self::Watt => 21_840,
            Self::Ours => 21_850,
        }
    }
}

/// Where everything is.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) node: PathBuf,
    /// The folder of the app; what it needs is in `node_modules` beside it.
    pub(crate) app: PathBuf,
    pub(crate) supervisor: PathBuf,
    pub(crate) logs: PathBuf,
    /// Iterations of the app's loop that take a millisecond of CPU.
    pub(crate) iterations_per_ms: u64,
}

impl Setup {
    pub(crate) fn prepare(arguments: &Arguments) -> Result<Self> {
        let absolute = |path: &Path| {
            fs::canonicalize(path)
                .with_context(|| format!("{} is missing; start e2e/bench-supervisor/run", path.display()))
        };
        let peers = absolute(&arguments.peers)?;
        let logs = arguments.output.with_extension("logs");
        fs::create_dir_all(&logs).with_context(|| format!("can't make {}", logs.display()))?;
        // Programs are started in another folder.
        let logs = absolute(&logs)?;
        let mut setup = Self {
            node: absolute(&arguments.node)?,
            app: peers.join("app"),
            supervisor: absolute(&arguments.supervisor)?,
            logs,
            iterations_per_ms: 0,
        };
        let output = Command::new(&setup.node)
            .arg(setup.app.join("calibrate.js"))
            .output()
            .with_context(|| format!("can't run {}", setup.node.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        setup.iterations_per_ms =
            text.trim().parse().with_context(|| format!("calibrate.js printed {text:?}"))?;
        progress(&format!("a millisecond of CPU is {} iterations", setup.iterations_per_ms))?;
        Ok(setup)
    }

    fn module(&self, path: &str) -> PathBuf {
        self.app.with_file_name("node_modules").join(path)
    }

    fn pm2_home(&self) -> PathBuf {
        self.logs.join("pm2")
    }

    /// What starts the app, and the port it will listen on. From a cgroup's limit the supervisor takes the number of workers.
    pub(crate) fn command(
        &self,
        contender: Contender,
        workers: usize,
        cgroup: Option<&Cgroup>,
    ) -> (Command, u16) {
        let port = contender.port();
        let workers = workers.to_string();
        let mut command = Command::new(&self.node);
        match contender {
            Contender::Single => command.arg("server.js"),
            Contender::Cluster => command.arg("cluster.js"),
            Contender::Pm2 => {
                let run = self.module("pm2/bin/pm2-runtime");
                command.arg(run).args(["start", "server.js", "--name", "app", "-i", &workers])
            }
            Contender::Watt => command.arg(self.module("wattpm/bin/cli.js")).arg("start"),
            Contender::Ours => {
                command = Command::new(&self.supervisor);
                let (port, admin) = (port.to_string(), (port + 1).to_string());
                command.args([
                    "--workers",
                    if cgroup.is_some_and(Cgroup::is_limited) { "auto" } else { &workers },
                    "--port",
                    &port,
                    "--admin-port",
                    &admin,
                    "--lame-duck",
                    "0",
                ]);
                command.arg("--").arg(&self.node).arg("server.js")
            }
        };
        if let Some(cgroup) = cgroup {
            command = cgroup.hold(&command);
        }
        command
            .current_dir(&self.app)
            .env_remove("NODE_OPTIONS")
            .env("NODE_ENV", "production")
            // As in a pod. `run` gives all of this a network of its own, so that nothing else reaches it.
            .env("HOST", "0.0.0.0")
            .env("PORT", port.to_string())
            .env("METRICS_PORT", (port + 1).to_string())
            .env("WORKERS", workers)
            .env("ITERATIONS_PER_MS", self.iterations_per_ms.to_string())
            .env("PM2_HOME", self.pm2_home())
            .env("PLT_TELEMETRY_DISABLED", "1")
            .stdin(Stdio::null());
        (command, port)
    }

    /// Asks for a rolling restart, in the contender's own way.
    pub(crate) fn roll(&self, server: &Server) -> Result<()> {
        match server.contender {
            Contender::Ours | Contender::Cluster => Ok(kill_process(server.pid()?, Signal::HUP)?),
            Contender::Pm2 => self.pm2(&["reload", "all"]),
            Contender::Watt => self.ask("wattpm/bin/cli.js", &["restart", &server.raw_pid()?.to_string()]),
            Contender::Single => bail!("{} isn't rolled here", server.contender.name()),
        }
    }

    /// Asks for another number of workers, where the contender does not notice by itself that there are other CPUs.
    pub(crate) fn scale(&self, server: &Server, workers: usize) -> Result<()> {
        match server.contender {
            Contender::Ours => Ok(()),
            Contender::Pm2 => self.pm2(&["scale", "app", &workers.to_string()]),
            _ => bail!("{} isn't resized here", server.contender.name()),
        }
    }

    fn pm2(&self, arguments: &[&str]) -> Result<()> {
        self.ask("pm2/bin/pm2", arguments)
    }

    /// Runs a contender's own command line to its end.
    fn ask(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let done = Command::new(&self.node)
            .arg(self.module(program))
            .args(arguments)
            .current_dir(&self.app)
            .env("PM2_HOME", self.pm2_home())
            .env("PLT_TELEMETRY_DISABLED", "1")
            .stdin(Stdio::null())
            .output()?;
        if !done.status.success() {
            let text = [done.stdout, done.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            bail!("{program} {}: {}", arguments.join(" "), text.lines().last().unwrap_or_default());
        }
        Ok(())
    }
}
