//! `run`: an app on this machine, under the supervisor that its pods have, without a cluster.

use std::{
    io::IsTerminal as _,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use clap::{Args, builder::RangedU64ValueParser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kube::ResourceExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    signal::unix::{Signal, SignalKind, signal},
};
use workerapp_api::{WorkerApp, names};

use super::input;
use crate::{
    error::Error,
    local::{
        admin, forward,
        launch::{Choice, Launch, Workers, launch},
        program, variables,
    },
    manifest, output,
    supervisor::Account,
    view::live,
};

/// For `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  kubectl workerapp run app.yaml
  kubectl workerapp run app.yaml --workers 2 --port 8080
  kubectl workerapp run app.yaml -e DATABASE_URL=postgres://localhost/shop -C ~/src/shop

The command of the manifest runs in the current directory (or that of -C), with the programs of this machine: the image
isn't used. Ctrl-C lets the workers finish what they have begun; a second one ends them at once. Exit status: the command's
own if it can't be kept running, else 0.";

/// How often the line is drawn anew.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Arguments {
    /// A file with a WorkerApp, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which one, if the file has several
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// How many workers: a number, or auto for one for each CPU of this machine; default: as in a pod
    #[arg(short, long, value_name = "N|auto", value_parser = workers)]
    workers: Option<Workers>,
    /// Another port than the manifest's
    #[arg(short, long, value_name = "PORT", value_parser = RangedU64ValueParser::<u16>::new().range(1..))]
    port: Option<u16>,
    /// A variable for the app: NAME=VALUE, or NAME for its value here; repeatable
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A file with lines NAME=VALUE
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Where the command runs
    #[arg(short = 'C', long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// The supervisor's program; default: beside this program, then on the PATH
    #[arg(long, value_name = "FILE")]
    supervisor: Option<PathBuf>,
    /// No line with what goes on
    #[arg(short, long)]
    quiet: bool,
}

fn workers(text: &str) -> Result<Workers, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Workers::Machine),
        Ok(count @ 1..=1024) => Ok(Workers::Count(count)),
        _ => Err("give auto or a number from 1 to 1024".to_owned()),
    }
}

pub(crate) async fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let mut app = choose(manifest::read(&arguments.file)?, arguments.app.as_deref())?;
    if let Some(port) = arguments.port {
        app.spec.port = port.into();
    }
    let plan = workerapp_plan::plan(&app, &input::facts(None, None)).map_err(manifest::Error::Invalid)?;
    let program = program::find(arguments.supervisor.as_deref())?;
    for port in ports(&app) {
        program::check_free(port, "--port")?;
    }
    let admin_port =
        program::free_port(crate::cluster::admin_port(&app).try_into().unwrap_or(names::DEFAULT_ADMIN_PORT))?;
    let here = |name: &str| std::env::var(name).ok();
    let launch = launch(
        &app,
        &plan,
        &Choice {
            workers: arguments.workers.unwrap_or(Workers::Manifest),
            cpus: std::thread::available_parallelism()
                .map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1)),
            admin_port,
            given: variables::given(&arguments.env, arguments.env_file.as_deref(), here)?,
        },
    )?;

    let line = Line::new(arguments.quiet);
    let mut urls = vec![format!("http://localhost:{}", app.spec.port)];
    urls.extend(node_ports(&app).await);
    tell(&app, &launch, &urls, admin_port, arguments);
    let mut signals = Signals::new()?;
    let mut child = start(&program, &launch, arguments, &line)?;
    let status = attend(&mut child, &mut signals, admin_port, &line).await?;
    line.end();
    Ok(exit_code(status))
}

fn choose(apps: Vec<WorkerApp>, wanted: Option<&str>) -> Result<WorkerApp, Error> {
    let known = apps.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>().join(", ");
    let count = apps.len();
    let mut fitting = apps.into_iter().filter(|app| wanted.is_none_or(|name| app.name_any() == name));
    match (fitting.next(), wanted) {
        (Some(_), None) if count > 1 => Err(Error::WhichApp { count, known }),
        (Some(app), _) => Ok(app),
        (None, wanted) => Err(Error::NotInFile { name: wanted.unwrap_or_default().to_owned(), known }),
    }
}

/// The ports on which the app listens.
fn ports(app: &WorkerApp) -> Vec<u16> {
    let all = std::iter::once(app.spec.port).chain(app.spec.ports.iter().map(|extra| extra.port));
    all.filter_map(|port| port.try_into().ok()).collect()
}

/// Opens the node ports that the manifest names, as a node would; answers their URLs.
async fn node_ports(app: &WorkerApp) -> Vec<String> {
    let main =
        app.spec.service.as_ref().and_then(|service| service.node_port).map(|from| (from, app.spec.port));
    let extra = app.spec.ports.iter().filter_map(|extra| Some((extra.node_port?, extra.port)));
    let mut urls = Vec::new();
    for (from, to) in main.into_iter().chain(extra).filter(|(from, to)| from != to) {
        let (Ok(from), Ok(to)) = (u16::try_from(from), u16::try_from(to)) else { continue };
        match forward::listen(from, to).await {
            Ok(task) => {
                tokio::spawn(task);
                urls.push(format!("http://localhost:{from}"));
            }
            Err(error) => {
                output::note(&format!("node port {from} can't be listened on ({error}): use port {to}"));
            }
        }
    }
    urls
}

fn tell(app: &WorkerApp, launch: &Launch, urls: &[String], admin_port: u16, arguments: &Arguments) {
    output::note(&format!("{}: {} workers ({})", app.name_any(), launch.workers, launch.reason));
    output::note(&format!("  {}", urls.join("  ")));
    output::note(&format!("  supervisor: http://localhost:{admin_port}/status  /metrics"));
    if let (Some(there), None) = (&app.spec.working_dir, &arguments.directory) {
        output::note(&format!(
            "  spec.workingDir {there} is the image's: running here instead; -C chooses a directory"
        ));
    }
    if !app.spec.volume_mounts.is_empty() {
        output::note("  spec.volumeMounts are not there: files are those of this machine");
    }
}

fn start(
    program: &std::path::Path,
    launch: &Launch,
    arguments: &Arguments,
    line: &Line,
) -> Result<Child, Error> {
    let mut command = Command::new(program);
    command
        .args(&launch.arguments)
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        // Of its own, so that Ctrl-C comes from here alone, once.
        .process_group(0);
    if let Some(directory) = &arguments.directory {
        command.current_dir(directory);
    }
    if line.shown() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().map_err(|source| Error::Start { program: program.to_owned(), source })?;
    // What the workers write goes above the line.
    if let Some(out) = child.stdout.take() {
        tokio::spawn(relay(out, line.clone(), |text| output::print(text).unwrap_or_default()));
    }
    if let Some(out) = child.stderr.take() {
        tokio::spawn(relay(out, line.clone(), |text| output::note(text.trim_end_matches('\n'))));
    }
    Ok(child)
}

async fn relay(from: impl AsyncRead + Unpin, line: Line, write: fn(&str)) {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    while from.read_until(b'\n', &mut bytes).await.is_ok_and(|read| read > 0) {
        line.above(|| write(&String::from_utf8_lossy(&bytes)));
        bytes.clear();
    }
}

/// What asks this program to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        let of = |kind| signal(kind).map_err(Error::System);
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hangup: of(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Waits for the end, passes signals on, and draws the line.
async fn attend(
    child: &mut Child,
    signals: &mut Signals,
    admin_port: u16,
    line: &Line,
) -> Result<ExitStatus, Error> {
    let mut before: Option<Account> = None;
    let mut asked = 0;
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            status = child.wait() => return status.map_err(Error::System),
            () = signals.next() => {
                asked += 1;
                let how = if asked == 1 { rustix::process::Signal::TERM } else { rustix::process::Signal::KILL };
                if asked == 1 {
                    line.above(|| output::note("stopping: the workers finish what they have begun (again: at once)"));
                }
                let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().ok()?));
                if let Some(pid) = pid {
                    // It may have ended this moment, which the next turn sees.
                    let _ = rustix::process::kill_process(pid, how);
                }
            }
            _ = ticks.tick(), if line.shown() => {
                let now = admin::account(admin_port).await;
                if let Some(now) = &now {
                    line.set(live::line(before.as_ref(), now));
                }
                before = now;
            }
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// The line at the bottom of a terminal; nothing elsewhere.
#[derive(Clone)]
struct Line(Option<ProgressBar>);

impl Line {
    fn new(quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    fn shown(&self) -> bool {
        self.0.is_some()
    }

    fn set(&self, text: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(text);
            bar.tick();
        }
    }

    fn above(&self, write: impl FnOnce()) {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_workers_is_a_number_or_auto() {
        assert_eq!((workers("auto"), workers("3")), (Ok(Workers::Machine), Ok(Workers::Count(3))));
        for wrong in ["0", "1025", "-1", "x", ""] {
            assert!(workers(wrong).unwrap_err().contains("1 to 1024"), "{wrong}");
        }
    }

    #[test]
    fn one_of_several_apps_must_be_named() {
        let app = |name: &str| WorkerApp::new(name, workerapp_api::WorkerAppSpec::default());
        let two = || vec![app("a"), app("b")];
        assert_eq!(choose(two(), Some("b")).unwrap().name_any(), "b");
        assert!(choose(two(), None).unwrap_err().to_string().contains("2 WorkerApps (a, b)"));
        assert!(choose(two(), Some("c")).unwrap_err().to_string().contains("--app c"));
        assert_eq!(choose(vec![app("a")], None).unwrap().name_any(), "a");
    }
}
