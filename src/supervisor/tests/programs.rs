//! Servers in Python, Ruby and C, as their authors ship them. `e2e/programs.sh` installs them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::programs::{Proof, from_debian, installed, serves, serves_with, text};
use common::{Directory, Setup, app};

const ANSWERS: Proof = Proof::Answers("/");

fn python(name: &str) -> String {
    text(&installed("python").join("bin").join(name)).to_owned()
}

#[test]
fn gunicorn_with_one_worker() {
    let directory = app("programs");
    let bind = "0.0.0.0:$PORT";
    let script = format!("exec {} -w 1 -b {bind} --chdir {directory} wsgi:app", python("gunicorn"));
    serves(&["sh", "-c", &script], ANSWERS);
}

#[test]
fn uvicorn() {
    let directory = app("programs");
    let script =
        format!("exec {} --host 0.0.0.0 --port $PORT --app-dir {directory} asgi:app", python("uvicorn"));
    serves(&["sh", "-c", &script], ANSWERS);
}

#[test]
fn http_server_of_python() {
    let directory = Directory::new("http-server");
    let script = format!("exec {} -m http.server $PORT", python("python"));
    serves_with(Setup::new(&["sh", "-c", &script]).directory(&directory.0), Proof::Connections);
}

#[test]
fn puma_single() {
    let puma = from_debian("puma");
    serves(&[text(&puma), "-C", &app("programs/puma.rb")], ANSWERS);
}

/// Its number of workers is one here, so that copies of it share the port; as a rule it makes its own.
#[test]
fn nginx() {
    let nginx = from_debian("nginx");
    // Each worker has files of its own.
    let directory = Directory::new("nginx");
    let configuration = app("programs/nginx.conf");
    let root = text(&directory.0);
    let script = format!(
        "d={root}/$WORKER_GENERATION; mkdir $d; sed \"s|DIRECTORY|$d|; s|PORT|$PORT|\" {configuration} >$d/nginx.conf; \
         exec {} -e stderr -c $d/nginx.conf",
        text(&nginx)
    );
    serves_with(Setup::new(&["sh", "-c", &script]).flags(&["--stop-signal", "SIGQUIT"]), ANSWERS);
}
