//! The worker supervisor: a container's entrypoint that runs WORKERS copies of an unmodified server program on one
//! port, keeps them alive, restarts them and measures them.
//!
//! # How it works
//! - [`limits`] and [`cgroup`] say how many workers there are; [`launch`] what each is started with.
//! - [`fleet`] decides everything about their lives. It is pure: events in, actions out.
//! - `supervisor` is the event loop, one thread over epoll; it carries the actions out.
//! - `broker` answers the workers' own `bind` and `listen` calls, which seccomp hands over, with the sockets of
//!   `slots`; [`steering`] is the program by which the kernel spreads connections over them, [`balance`] what evens them out.
//! - `relay` passes on what the workers write, when their lines are to be marked; else nothing stands between them and the log.
//! - `admin` serves probes and metrics; [`app_metrics`] collects the app's own.
//! - `sys` holds the system calls, and with them all `unsafe` code.
//!
//! # Layout
//! `main` → [`run`] → [`flags`] → `supervisor`. What parses foreign text is public, and `foreign` calls
//! all of it for `fuzz/`.

pub mod address;
mod admin;
pub mod app_metrics;
pub mod balance;
mod broker;
pub mod cgroup;
mod error;
mod explain;
pub mod flags;
pub mod fleet;
pub mod follow;
#[doc(hidden)]
pub mod foreign;
pub mod hang;
mod inspect;
mod install;
pub mod launch;
pub mod limits;
pub mod lines;
mod log;
pub mod merge;
mod preload;
pub mod procfs;
pub mod recycle;
mod relay;
pub mod share;
mod sharing;
mod slots;
pub mod steering;
mod supervisor;
mod sys;
#[cfg(test)]
mod testing;
pub mod tree;

pub use error::Error;
pub use sys::process::{ExitStatus, Pid};
pub use sys::signal::Signal;

use flags::Invocation;
use std::ffi::OsString;
use std::io::{self, Write};

/// Runs the program with these arguments (without its own name) and answers its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let result = flags::parse(arguments).and_then(|invocation| match invocation {
        Invocation::Run(flags) => supervisor::run(*flags),
        Invocation::Install(path) => install::install(&path).map(|()| 0),
        Invocation::Help => Ok(print(flags::HELP)),
        Invocation::Version => Ok(print(concat!("workerapp-supervisor ", env!("CARGO_PKG_VERSION"), "\n"))),
    });
    result.unwrap_or_else(|error| {
        log::write(fleet::Severity::Error, &error);
        error.exit_code()
    })
}

fn print(text: &str) -> i32 {
    i32::from(io::stdout().write_all(text.as_bytes()).is_err())
}
