//! `run`: an app on this machine, under the supervisor that its pods have, without a cluster.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use clap::{Args, builder::RangedU64ValueParser};
use kube::ResourceExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};
use workerapp_api::{WorkerApp, names};

use super::input;
use crate::{
    error::Error,
    local::{
        admin, forward,
        launch::{Choice, Launch, Workers, launch},
        line::Line,
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

The command of the manifest runs in the current directory (or that of -C), with the programs of this machine: the image \
  isn't used. Ctrl-C lets the workers finish what they have begun; a second one ends them at once. Exit status: the command's \
  own if it can't be kept running (1 instead of 0), else 0.";

/// How often the line is drawn anew.
const LOOK: Duration = Duration::from_secs(1);
/// How often is looked whether the app has listened, until it has. It is restarted at least once after that, before the
/// supervisor gives up, and within that time there are several looks.
const GLANCE: Duration = Duration::from_millis(200);

/// How long is waited for what the workers wrote last.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
    let directory = directory(arguments.directory.as_deref())?;
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
    let (mut child, relays) = start(&program, &launch, &directory, &line)?;
    let end = attend(&mut child, &mut signals, admin_port, &line).await?;
    // What was said last says why; a process that was left behind may hold its end open.
    let _ = tokio::time::timeout(LAST_WORDS, futures::future::join_all(relays)).await;
    line.end();
    if !end.asked {
        output::note(&format!("error: {}", explain(&end, &launch, &app, &directory)));
    }
    Ok(end.exit_code())
}

/// Where the command runs.
fn directory(chosen: Option<&Path>) -> Result<PathBuf, Error> {
    let Some(chosen) = chosen else { return std::env::current_dir().map_err(Error::System) };
    let found = chosen.canonicalize().and_then(|found| found.read_dir().map(|_| found));
    found.map_err(|source| Error::Directory { directory: chosen.to_owned(), source })
}

/// Why the app doesn't run any more, though nobody asked it to end.
fn explain(end: &End, launch: &Launch, app: &WorkerApp, directory: &Path) -> String {
    let (command, port, place) = (launch.command.join(" "), app.spec.port, directory.display());
    let how = match (end.status.code(), end.status.signal()) {
        (None, Some(signal)) => format!("signal {signal}"),
        (code, _) => format!("exit code {}", code.unwrap_or_default()),
    };
    if end.served {
        return format!("`{command}` can't be kept running ({how}): nothing listens on port {port} any more");
    }
    format!(
        "`{command}` never listened on port {port} ({how}); it ran in {place}, with this machine's programs and files: -C DIRECTORY (--directory) runs it elsewhere"
    )
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
    output::note(&format!(
        "{}: {} ({})",
        app.name_any(),
        output::counted(launch.workers, "worker"),
        launch.reason
    ));
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
    program: &Path,
    launch: &Launch,
    directory: &Path,
    line: &Line,
) -> Result<(Child, Vec<JoinHandle<()>>), Error> {
    let mut command = Command::new(program);
    command
        .args(&launch.arguments)
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::null())
        // Of its own, so that Ctrl-C comes from here alone, once.
        .process_group(0);
    if line.shown() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().map_err(|source| Error::Start { program: program.to_owned(), source })?;
    // What the workers write goes above the line.
    let out = child
        .stdout
        .take()
        .map(|out| tokio::spawn(relay(out, line.clone(), |text| output::print(text).unwrap_or_default())));
    let err = child
        .stderr
        .take()
        .map(|err| tokio::spawn(relay(err, line.clone(), |text| output::note(text.trim_end_matches('\n')))));
    Ok((child, out.into_iter().chain(err).collect()))
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
) -> Result<End, Error> {
    let mut before: Option<Account> = None;
    let (mut asked, mut served) = (0, false);
    let (mut ticks, mut glances) = (tokio::time::interval(LOOK), tokio::time::interval(GLANCE));
    loop {
        tokio::select! {
            status = child.wait() => {
                return Ok(End { status: status.map_err(Error::System)?, asked: asked > 0, served });
            }
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
            _ = glances.tick(), if !served => {
                served = admin::account(admin_port).await.is_some_and(|now| now.has_served());
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

/// How it ended.
struct End {
    status: ExitStatus,
    /// This program was asked to end.
    asked: bool,
    /// Something listened once.
    served: bool,
}

impl End {
    fn exit_code(&self) -> ExitCode {
        let code = self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default());
        // The command may call it a success that it has ended; it was to serve.
        let code = if code == 0 && !self.asked { 1 } else { code };
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
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
