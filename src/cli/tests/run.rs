//! `run`: an app on this machine, with the real supervisor.

mod common;

use common::{Folder, Running, SERVER, free_port, get, program, said, supervisor, text, until_answer};
use std::{collections::BTreeSet, net::TcpListener, thread};

fn manifest(port: u16, more: &str) -> String {
    format!(
        "apiVersion: workerapp.dev/v1alpha1\nkind: WorkerApp\nmetadata: {{name: hello}}\nspec:\n  image: i\n  runtime: Python\n  command: [python3, server.py]\n  port: {port}\n{more}"
    )
}

fn start(name: &str, folder: &Folder, manifest: &str, more: &[&str]) -> Running {
    folder.file("server.py", SERVER);
    let file = folder.file("app.yaml", manifest);
    let supervisor = supervisor();
    let mut command = program();
    command
        .args([
            "run",
            &file,
            "-C",
            &folder.0.to_string_lossy(),
            "--supervisor",
            &supervisor.to_string_lossy(),
        ])
        .args(more);
    Running::start(&mut command, name)
}

#[test]
fn the_app_answers_on_its_port_and_its_node_port_with_all_its_workers() {
    let folder = Folder::new("answers");
    let (port, node_port) = (free_port(), 30_000 + free_port() % 2000);
    let spec = format!(
        "  resources: {{limits: {{cpu: '2'}}}}\n  service: {{nodePort: {node_port}}}\n  env: [{{name: GREETING, value: 'port $(PORT)'}}]\n"
    );
    let mut running = start("answers-log", &folder, &manifest(port, &spec), &[]);
    let body = until_answer(port);
    for part in ["WORKERS=2", &format!("PORT={port}"), &format!("GREETING=port {port}")] {
        assert!(body.contains(part), "{part}: {body}");
    }
    until_answer(node_port);
    // It starts once the first one listens.
    running.until("the second worker", |text| text.contains("worker 1 listens"));
    let workers: BTreeSet<_> = (0..200).filter_map(|_| get(port, "/")).collect();
    assert_eq!(workers.len(), 2, "{workers:?}");
    let told = running.text();
    assert!(told.contains("hello: 2 workers (CPU limit 2 → 2 workers)"), "{told}");
    assert!(told.contains(&format!("http://localhost:{node_port}")), "{told}");

    running.signal("INT");
    assert_eq!(running.ended(), 0, "{}", running.text());
}

#[test]
fn ctrl_c_lets_a_request_end() {
    let folder = Folder::new("drains");
    let port = free_port();
    let mut running = start("drains-log", &folder, &manifest(port, "  workers: {count: 1}\n"), &[]);
    until_answer(port);
    let slow = thread::spawn(move || get(port, "/slow"));
    running.until("the slow request", |text| text.contains("slow begins"));
    running.signal("INT");
    assert!(slow.join().unwrap().is_some(), "the request was broken off: {}", running.text());
    assert_eq!(running.ended(), 0, "{}", running.text());
}

/// Started where the command's file isn't, Node printed its stack trace for each worker and try, and nothing said why.
#[test]
fn a_command_that_never_listens_is_told_once_with_the_place_it_ran_in() {
    let (folder, elsewhere) = (Folder::new("misplaced"), Folder::new("elsewhere"));
    let port = free_port();
    folder.file("server.py", SERVER);
    let file = folder.file("app.yaml", &manifest(port, "  workers: {count: 3}\n"));
    let supervisor = supervisor();
    let mut command = program();
    command.args(["run", &file, "--supervisor", &supervisor.to_string_lossy()]).current_dir(&elsewhere.0);
    let mut running = Running::start(&mut command, "misplaced-log");
    assert_eq!(running.ended(), 2, "{}", running.text());
    let text = running.text();
    assert_eq!(text.matches("can't open file").count(), 1, "{text}");
    let last = text.lines().last().unwrap();
    for part in [
        format!("error: `python3 server.py` never listened on port {port} (exit code 2)"),
        format!("ran in {}", elsewhere.0.canonicalize().unwrap().display()),
        "-C DIRECTORY".to_owned(),
    ] {
        assert!(last.contains(&part), "{part}: {text}");
    }
    assert!(!text.contains("image"), "there is none: {text}");
}

#[test]
fn an_app_that_served_and_then_keeps_failing_is_not_said_to_be_in_the_wrong_place() {
    let folder = Folder::new("served");
    let port = free_port();
    folder.file(
        "once.py",
        &format!("import os\nif os.path.exists('used'): raise SystemExit(7)\nopen('used', 'w')\n{SERVER}"),
    );
    let text = manifest(port, "").replace("server.py", "once.py");
    let mut running = start("served-log", &folder, &text, &["--workers", "1"]);
    until_answer(port);
    get(port, "/exit");
    assert_eq!(running.ended(), 7, "{}", running.text());
    let text = running.text();
    assert!(text.contains("`python3 once.py` can't be kept running (exit code 7)"), "{text}");
    assert!(!text.contains("-C DIRECTORY"), "{text}");
}

#[test]
fn the_commands_own_exit_code_is_passed_on() {
    let folder = Folder::new("code");
    let port = free_port();
    let text = manifest(port, "").replace("[python3, server.py]", "[no-such-program]");
    let mut running = start("code-log", &folder, &text, &["--workers", "1"]);
    assert_eq!(running.ended(), 127, "{}", running.text());
    let text = running.text();
    assert!(text.contains("no-such-program: not found in PATH (") && !text.contains("image"), "{text}");

    let done = manifest(port, "").replace("[python3, server.py]", "['true']");
    let mut running = start("done-log", &folder, &done, &["--workers", "1"]);
    assert_eq!(running.ended(), 1, "it was to serve: {}", running.text());
}

#[test]
fn what_comes_from_a_secret_is_asked_for_and_can_be_given() {
    let folder = Folder::new("secret");
    let port = free_port();
    let env = "  env:\n  - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}\n";
    let mut refused = start("secret-refused", &folder, &manifest(port, env), &[]);
    assert_eq!(refused.ended(), 1);
    assert!(refused.text().contains("SECRET: spec.env takes it from secretKeyRef"), "{}", refused.text());

    let _running =
        start("secret-given", &folder, &manifest(port, env), &["-e", "SECRET=42", "--workers", "1"]);
    assert!(until_answer(port).contains("SECRET=42"));
}

#[test]
fn a_port_that_is_taken_is_told_before_anything_starts() {
    let folder = Folder::new("taken");
    let holder = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let mut running = start("taken-log", &folder, &manifest(port, ""), &[]);
    assert_eq!(running.ended(), 1);
    assert!(running.text().contains(&format!("port {port} can't be listened on")), "{}", running.text());

    let other = free_port();
    let _running =
        start("taken-other", &folder, &manifest(port, ""), &["--port", &other.to_string(), "--workers", "1"]);
    assert!(until_answer(other).contains(&format!("PORT={other}")));
}

#[test]
fn wrong_input_is_told() {
    let folder = Folder::new("wrong");
    let file = folder
        .file("two.yaml", &format!("{}---\n{}", manifest(1, ""), manifest(2, "").replace("hello", "other")));
    for (arguments, expected) in [
        (&["run", "/nowhere.yaml"][..], "/nowhere.yaml"),
        (&["run", &file], "2 WorkerApps (hello, other): name one with --app"),
        (&["run", &file, "--app", "x"], "--app x"),
        (&["run", &file, "--app", "hello", "--supervisor", "/nowhere"], "/nowhere"),
        (&["run", &file, "--app", "hello", "-C", "/nowhere"], "-C /nowhere: No such file or directory"),
        (&["run", &file, "--app", "hello", "-C", &file], "Not a directory"),
    ] {
        let output = said(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = said(&["run", &file, "--workers", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("1 to 1024"));
}
