//! Servers in JavaScript, as their authors ship them. `e2e/programs.sh` installs them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::programs::{Proof, installed, serves, serves_with, text};
use common::{Setup, app};

const ANSWERS: Proof = Proof::Answers("/");

fn runtime(name: &str) -> String {
    text(&installed("node").join("bin").join(name)).to_owned()
}

/// With the packages that the script has installed.
fn node(script: &str) -> Setup {
    let packages = installed("node").join("node_modules");
    Setup::new(&["node", &app(script)]).env("NODE_PATH", text(&packages))
}

#[test]
fn express() {
    serves_with(node("programs/express.cjs"), ANSWERS);
}

#[test]
fn fastify() {
    serves_with(node("programs/fastify.cjs"), ANSWERS);
}

#[test]
fn a_newer_node() {
    serves(&[&runtime("node"), &app("server.js")], ANSWERS);
}

#[test]
fn deno() {
    let (deno, script) = (runtime("deno"), app("programs/deno.js"));
    serves(&[&deno, "run", "--allow-net", "--allow-env", "--no-prompt", &script], ANSWERS);
}

#[test]
fn bun() {
    serves(&[&runtime("bun"), &app("programs/bun.js")], ANSWERS);
}

/// pm2#5712, #5771: `next start` cannot run in several workers.
#[test]
fn next_start() {
    let directory = installed("next");
    let setup = Setup::new(&["node", "node_modules/next/dist/bin/next", "start"]).directory(&directory);
    serves_with(setup, Proof::Answers("/api/info"));
}

/// npm passes no signal on, and the server is its grandchild.
#[test]
fn next_by_npm_start() {
    let directory = installed("next");
    serves_with(Setup::new(&["npm", "start"]).directory(&directory), Proof::Answers("/api/info"));
}

#[test]
fn next_standalone() {
    let directory = installed("next").join(".next/standalone");
    let setup = Setup::new(&["node", "server.js"]).directory(&directory);
    serves_with(setup.env("HOSTNAME", "0.0.0.0"), Proof::Answers("/api/info"));
}
