//! Command lines.

use super::*;
use crate::launch::Rule;

fn of(line: &str) -> Result<Invocation, String> {
    parse(line.split(' ').map(OsString::from)).map_err(|e| e.to_string())
}

fn run(line: &str) -> Flags {
    match of(line) {
        Ok(Invocation::Run(flags)) => *flags,
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults() {
    let flags = run("-- node server.js --port 1");
    assert_eq!(flags.command, ["node", "server.js", "--port", "1"]);
    assert_eq!(Flags { command: Vec::new(), ..flags }, Flags::default());
}

#[test]
fn every_flag() {
    let flags = run("--workers 4 --max-workers=6 --memory-per-worker 1000 --processes 1 --sharing none \
         --port 3000 --port 3001 --port 3000 --admin-port 9000 --lame-duck 0.5 --grace 60 --stop-signal QUIT \
         --keep-env WORKERS --worker-env A=b=c --drain 3 --node-preload off --log-prefix on --canary on --app-metrics 3001/m --affinity ClientIP --hang-timeout 0 --max-age 5 --max-memory 6 --max-requests 7 \
         --connection-requests 8 --connection-age 9 -- x");
    let wanted = Flags {
        workers: Wanted::Count(4),
        max_workers: Some(6),
        memory_per_worker: Some(1000),
        processes: Processes::One,
        sharing: Sharing::None,
        ports: vec![3000, 3001],
        admin_port: 9000,
        lame_duck: Duration::from_millis(500),
        grace: Duration::from_mins(1),
        stop_signal: Signal::QUIT,
        keep_env: vec!["WORKERS".into()],
        worker_env: vec![Variable { name: "A".into(), value: "b=c".into(), rule: Rule::Default }],
        drain: Duration::from_secs(3),
        node_preload: false,
        log_prefix: true,
        canary: true,
        app_metrics: Source::parse("3001/m"),
        policy: Policy::ClientAddress,
        hang_timeout: None,
        recycling: recycle::Limits { age: Some(Duration::from_secs(5)), memory: Some(6), requests: Some(7) },
        connections: preload::Limits { requests: Some(8), age: Some(Duration::from_secs(9)) },
        command: vec!["x".into()],
    };
    assert_eq!(flags, wanted);
    assert_eq!(flags.main_port(), Some(3000));
}

#[test]
fn other_invocations() {
    assert_eq!(of("install /workerapp/supervisor"), Ok(Invocation::Install("/workerapp/supervisor".into())));
    assert_eq!(of("--help"), Ok(Invocation::Help));
    assert_eq!(of("--version"), Ok(Invocation::Version));
    assert_eq!(run("-- install x").command, ["install", "x"]);
}

#[test]
fn what_is_wrong_is_named() {
    for (line, text) in [
        ("--port 3000", "no command: give it after --; see --help"),
        ("--workers 0 -- x", "--workers 0: give auto or a number from 1 to 1024; see --help"),
        ("--workers 1e3 -- x", "--workers 1e3: give auto or a number from 1 to 1024; see --help"),
        ("--port 0 -- x", "--port 0: give a port from 1 to 65535; see --help"),
        ("--port 65536 -- x", "--port 65536: give a port from 1 to 65535; see --help"),
        ("--grace -1 -- x", "--grace -1: give a number of seconds; see --help"),
        ("--grace inf -- x", "--grace inf: give a number of seconds; see --help"),
        ("--lame-duck NaN -- x", "--lame-duck NaN: give a number of seconds; see --help"),
        (
            "--stop-signal NOPE -- x",
            "--stop-signal NOPE: give a signal's name, for example SIGTERM; see --help",
        ),
        ("--worker-env A -- x", "--worker-env A: give NAME=VALUE or NAME+=VALUE; see --help"),
        ("--app-metrics x -- x", "--app-metrics x: give /PATH or PORT/PATH; see --help"),
        ("--app-metrics /m -- x", "--app-metrics: declare its port with --port, too; see --help"),
        ("--nope 1 -- x", "there is no flag --nope; see --help"),
        ("--port 9913 -- x", "port 9913 is the admin port too: choose another with --admin-port; see --help"),
        ("install", "install takes one path; see --help"),
        ("install a b", "install takes one path; see --help"),
    ] {
        assert_eq!(of(line), Err(text.to_owned()), "{line}");
    }
}
