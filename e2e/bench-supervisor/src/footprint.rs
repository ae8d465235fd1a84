//! What the supervisor itself needs: memory, wake-ups, time to start, size.

use crate::arguments::Effort;
use crate::contender::{Contender, Setup};
use crate::http;
use crate::measure::to_f64;
use crate::procfs;
use crate::progress;
use crate::results::Results;
use crate::server::Server;
use anyhow::{Result, bail};
use serde::Serialize;
use std::fs;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};
use workerapp_bench::statistics::median;

/// After the start, until nothing but waiting is left to do.
const SETTLE: Duration = Duration::from_secs(4);
const START: Duration = Duration::from_secs(30);
/// How finely the begin of listening is seen.
const LOOK: Duration = Duration::from_micros(200);

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Footprint {
    /// Resident memory of the supervisor's process alone, with two workers.
    pub(crate) rss_mib: f64,
    /// Times that it woke up, per second, with nothing to do.
    pub(crate) wakeups_per_second: f64,
    /// Size of the program.
    pub(crate) binary_mib: f64,
    /// From the start until the app takes a connection, with nothing around it.
    pub(crate) alone_ms: Vec<f64>,
    /// The same under the supervisor with one worker, each right before or after its pair.
    pub(crate) supervised_ms: Vec<f64>,
}

impl Footprint {
    /// What the supervisor adds, in the middle of all pairs.
    pub(crate) fn added_ms(&self) -> f64 {
        let pairs = self.supervised_ms.iter().zip(&self.alone_ms);
        median(&pairs.map(|(ours, alone)| ours - alone).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }
}

pub(crate) fn measure(
    setup: &Setup,
    effort: &Effort,
    random: &mut fastrand::Rng,
    results: &mut Results,
) -> Result<()> {
    progress("footprint: the idle supervisor")?;
    let server = Server::start(setup, Contender::Ours)?;
    sleep(SETTLE);
    let pid = server.raw_pid()?;
    // Each wake-up ends with it going to sleep again.
    let before = procfs::status(pid, "voluntary_ctxt_switches")?;
    sleep(effort.idle);
    let wakeups = procfs::status(pid, "voluntary_ctxt_switches")? - before;
    let rss = procfs::status(pid, "VmRSS")?;
    drop(server);
    progress(&format!("footprint: {} starts", 2 * effort.starts))?;
    let (mut alone, mut supervised) = (Vec::new(), Vec::new());
    for _ in 0..effort.starts {
        let first = random.bool();
        for ours in [first, !first] {
            let contender = if ours { Contender::Ours } else { Contender::Single };
            let took = time_to_listen(setup, contender)?.as_secs_f64() * 1000.0;
            if ours { supervised.push(took) } else { alone.push(took) }
        }
    }
    results.footprint = Some(Footprint {
        rss_mib: to_f64(rss) / 1024.0,
        wakeups_per_second: to_f64(wakeups) / effort.idle.as_secs_f64(),
        binary_mib: to_f64(fs::metadata(&setup.supervisor)?.len()) / f64::from(1 << 20),
        alone_ms: alone,
        supervised_ms: supervised,
    });
    Ok(())
}

fn time_to_listen(setup: &Setup, contender: Contender) -> Result<Duration> {
    let begun = Instant::now();
    let server = Server::launch(setup, contender, 1, None)?;
    while TcpStream::connect(http::address(server.port)).is_err() {
        if begun.elapsed() > START {
            bail!("{} doesn't listen after {START:?}", contender.name());
        }
        sleep(LOOK);
    }
    Ok(begun.elapsed())
}
