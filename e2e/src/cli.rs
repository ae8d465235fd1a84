//! The command line, as a person runs it: the real program, with the test cluster's kubeconfig.

use std::{env, path::PathBuf, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
};

use crate::cluster;

/// The variable that names the program; default: beside the tests, where `cargo build -p kubectl-workerapp` puts it.
pub const VARIABLE: &str = "WORKERAPP_TEST_CLI";

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Said {
    /// The exit status; -1 for a signal.
    pub code: i32,
    /// stdout.
    pub out: String,
    /// stderr.
    pub err: String,
}

impl Said {
    /// The same, if it ended well.
    ///
    /// # Errors
    /// With what it said.
    pub fn well(self) -> Result<Self> {
        ensure!(self.code == 0, "exit status {}: {}{}", self.code, self.out, self.err);
        Ok(self)
    }

    /// Its result as JSON.
    ///
    /// # Errors
    /// If it is none.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("no JSON: {}{}", self.out, self.err))
    }
}

/// The program.
///
/// # Errors
/// If it was not built.
pub fn program() -> Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Ok(named.into());
    }
    let tests = env::current_exe()?;
    let folder = tests.parent().and_then(|deps| deps.parent()).context("no folder of programs")?;
    let program = folder.join("kubectl-workerapp");
    ensure!(
        program.is_file(),
        "{} is missing: cargo build -p kubectl-workerapp -p workerapp-supervisor",
        program.display()
    );
    Ok(program)
}

/// A call of it that reads nothing, and ends with the test.
///
/// # Errors
/// If it isn't there.
pub fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(arguments).env("KUBECONFIG", env::var_os(cluster::VARIABLE).unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// Ctrl-C.
///
/// # Errors
/// If it has ended.
pub async fn interrupt(child: &Child) -> Result<()> {
    let pid = child.id().context("it has ended")?.to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().await?;
    ensure!(sent.success(), "kill -INT {pid}: {sent}");
    Ok(())
}

/// Runs it with `input` on stdin.
///
/// # Errors
/// If it can't be started.
pub async fn cli(arguments: &[&str], input: &str) -> Result<Said> {
    let mut child = command(arguments)?.stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    stdin.write_all(input.as_bytes()).await.or_else(|error| match error.kind() {
        // It said what it had to without reading.
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    Ok(Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
