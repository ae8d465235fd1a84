//! What the workers write.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{BINARY, Setup, Signal, app, free_port, get, wait_for};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

fn lines<'a>(output: &'a str, start: &str) -> Vec<&'a str> {
    output.lines().filter_map(|line| line.strip_prefix(start)).collect()
}

/// Both streams are one, as in a container's log; two readers here would mix them up.
const AS_ONE: &[&str] = &["sh", "-c", "exec \"$0\" \"$@\" 2>&1"];

#[test]
fn lines_are_marked_and_stay_whole() {
    // Each line is written in three pieces, by two workers at once.
    let script = "for i in $(seq 200); do printf 'one '; printf 'two '; printf 'three\\n'; echo err >&2; done; sleep 60";
    let setup = Setup::new(&["sh", "-c", script]).flags(&["--workers", "2", "--log-prefix", "on"]);
    let supervisor = setup.wrapper(AS_ONE).start();
    let output = wait_for("all lines", || {
        Some(supervisor.output()).filter(|output| output.matches('\n').count() >= 801)
    });
    for worker in ["[worker 0] ", "[worker 1] "] {
        let mine = lines(&output, worker);
        let of = |text: &str| mine.iter().filter(|line| **line == text).count();
        assert_eq!((mine.len(), of("one two three"), of("err")), (400, 200, 200), "{output}");
    }
    assert_eq!(lines(&output, "[workerapp] ").first(), Some(&"WORKERS=2 (--workers 2)"));
}

#[test]
fn nothing_is_lost_at_the_end() {
    let script = "trap 'seq 20000; printf end; exit 0' TERM; echo up; while :; do sleep 0.1; done";
    let setup = Setup::new(&["sh", "-c", script]).flags(&["--workers", "2", "--log-prefix", "on"]);
    let mut supervisor = setup.wrapper(AS_ONE).start();
    wait_for("both", || (supervisor.output().matches("up\n").count() == 2).then_some(()));
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.wait(), 0);
    let output = supervisor.output();
    for worker in ["[worker 0] ", "[worker 1] "] {
        let mut mine = lines(&output, worker);
        // What a shell says about its `sleep`.
        mine.retain(|line| *line != "Terminated");
        assert_eq!(mine.len(), 20_002);
        assert_eq!(mine[1..=20_000], (1..=20_000).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(mine.last(), Some(&"end"), "and a line feed is added");
    }
    assert!(output.ends_with('\n'));
}

#[test]
fn without_the_flag_lines_are_untouched() {
    let script = r#"console.log(JSON.stringify({ level: 30, msg: '[worker 1] "quoted"' })); setInterval(() => {}, 1e3)"#;
    let supervisor = Setup::new(&["node", "-e", script]).flags(&["--workers", "1"]).start();
    supervisor.wait_output("\n{\"level\":30,\"msg\":\"[worker 1] \\\"quoted\\\"\"}\n");
}

/// A log that nobody reads holds up the workers, as it would without us, and nobody else.
#[test]
fn a_log_that_nobody_reads_does_not_hold_up_the_supervisor() {
    let (port, admin) = (free_port(), free_port());
    let flags = ["--workers", "2", "--log-prefix", "on", "--lame-duck", "0"];
    let mut child = Command::new(BINARY)
        .args(flags)
        .args([
            "--port",
            &port.to_string(),
            "--admin-port",
            &admin.to_string(),
            "--",
            "node",
            &app("talks.js"),
        ])
        .env("PORT", port.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ask = |path: &str| get(([127, 0, 0, 1], admin).into(), path);
    wait_for("readiness", || ask("/readyz").filter(|answer| answer.0 == 200));
    let memory = |pid: u32| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    };
    // Both talk until their pipes are full.
    std::thread::sleep(Duration::from_secs(2));
    let before = memory(child.id());
    for _ in 0..20 {
        assert_eq!(ask("/livez").map(|answer| answer.0), Some(200));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(memory(child.id()) < before + 1024, "kB more: nothing piles up here");

    // Somebody reads again, and everything is there.
    let mut stdout = child.stdout.take().unwrap();
    let mut text = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while text.len() < 4 << 20 {
        let n = stdout.read(&mut buffer).unwrap();
        assert!(n > 0);
        text.extend_from_slice(&buffer[..n]);
    }
    let text = String::from_utf8(text).unwrap();
    for worker in ["[worker 0] ", "[worker 1] "] {
        let mut mine = lines(&text, worker);
        mine.pop();
        assert!(mine.len() > 1000);
        assert!(mine.iter().zip(0..).all(|(line, n)| *line == format!("line {n}")), "in order and complete");
    }
    common::kill(child.id().cast_signed(), Signal::TERM);
    let reader = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    assert!(wait_for("the end", || child.try_wait().unwrap()).success());
    reader.join().unwrap().unwrap();
}
