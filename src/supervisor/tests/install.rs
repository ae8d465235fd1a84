//! The binary puts itself where the app's container finds it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{BINARY, Directory};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn install(path: &str) -> (i32, String) {
    let output = Command::new(BINARY).args(["install", path]).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_copy_that_runs_whatever_the_umask_was() {
    let directory = Directory::new("install");
    let path = directory.file("supervisor", "an older version");
    let script = format!("umask 077; exec {BINARY} install {path}");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
    let version = Command::new(&path).arg("--version").output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("workerapp-supervisor "));
    let mut names: Vec<_> =
        fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["supervisor", "supervisor.node.cjs"]);
    let mode = fs::metadata(format!("{path}.node.cjs")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
}

#[test]
fn replacing_a_copy_that_runs() {
    let directory = Directory::new("replace");
    let path = directory.0.join("supervisor");
    let path = path.to_str().unwrap();
    assert_eq!(install(path), (0, String::new()));
    let mut running = Command::new(path)
        .args(["--admin-port", &common::free_port().to_string(), "--", "sleep", "9"])
        .spawn()
        .unwrap();
    assert_eq!(install(path), (0, String::new()));
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn failures_name_the_path() {
    let (code, text) = install("/nosuch/directory/supervisor");
    assert_eq!(code, 1);
    assert!(
        text.starts_with(
            "[workerapp] error: cannot install to /nosuch/directory/supervisor.node.cjs: No such file"
        ),
        "{text}"
    );
}
