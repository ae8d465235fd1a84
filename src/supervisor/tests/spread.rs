//! How connections that are kept are spread over the workers.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use common::{Kept, Setup, Signal, Supervisor, app, kill};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u32 = 100;
const WORKERS: u32 = 3;

/// Clients that ask all the time, each on the connection that it keeps.
#[derive(Default)]
struct Clients {
    done: AtomicBool,
    /// Connections that an answer has ended.
    ended: AtomicU32,
    /// Connections that ended otherwise.
    lost: AtomicU32,
}

impl Clients {
    fn run(&self, port: u16) {
        let mut clients: Vec<Kept> = (0..CLIENTS).map(|_| Kept::connect(port)).collect();
        while !self.done.load(Ordering::Relaxed) {
            for client in &mut clients {
                match client.ask() {
                    Some(answer) if !answer.closes => continue,
                    Some(_) => self.ended.fetch_add(1, Ordering::Relaxed),
                    None => self.lost.fetch_add(1, Ordering::Relaxed),
                };
                *client = Kept::connect(port);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The busiest worker's share of the mean, once all connections are seen.
fn unevenness(supervisor: &Supervisor) -> Option<f64> {
    let count = |worker| supervisor.metric(&format!("workerapp_worker_connections{{worker=\"{worker}\"}}"));
    let counts: Vec<f64> = (0..WORKERS).map(count).collect();
    let (total, most) = (counts.iter().sum::<f64>(), counts.iter().copied().fold(0.0, f64::max));
    eprintln!("{counts:?}");
    (total > f64::from(CLIENTS) - 3.0).then(|| most * f64::from(WORKERS) / total)
}

#[track_caller]
fn wait_even(supervisor: &Supervisor) -> Duration {
    let begin = Instant::now();
    loop {
        if unevenness(supervisor).is_some_and(|share| share <= 1.15) {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < Duration::from_mins(1), "{}", supervisor.output());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// envoy#16213, granian#849: one worker takes most connections of a shared socket.
#[test]
fn envoy_16213_kept_connections_become_even_and_none_is_lost() {
    let supervisor = Setup::new(&["node", &app("server.js")]).workers(WORKERS).ready();
    let clients = Clients::default();
    std::thread::scope(|scope| {
        scope.spawn(|| clients.run(supervisor.port));
        let first = wait_even(&supervisor);
        eprintln!("even after {first:?}");
        // It settles: after a while nothing is ended any more.
        let begin = Instant::now();
        loop {
            let ended = clients.ended.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(4));
            let after = clients.ended.load(Ordering::Relaxed);
            eprintln!("{after} connections were ended in all");
            if after == ended {
                break;
            }
            assert!(begin.elapsed() < Duration::from_mins(1), "it goes on and on: {ended} {after}");
        }
        assert_eq!(clients.lost.load(Ordering::Relaxed), 0, "nobody was cut off");
        assert!(unevenness(&supervisor).is_some_and(|share| share <= 1.15));

        // A third of them move to the others at once, and come back one by one.
        kill(supervisor.worker_pids()[0], Signal::KILL);
        std::thread::sleep(Duration::from_secs(1));
        let again = wait_even(&supervisor);
        eprintln!("even again {again:?} after a worker died");
        let lost = clients.lost.load(Ordering::Relaxed);
        assert!(lost <= 60, "{lost}: those of the worker that died, and no others");
        clients.done.store(true, Ordering::Relaxed);
    });
}

/// `kubernetes_101887`: kept connections stay where they are, and pods that are added get nothing.
#[test]
fn kubernetes_101887_a_kept_connection_ends_after_so_many_requests_or_so_long() {
    let server = |flags: &[&str]| Setup::new(&["node", &app("server.js")]).workers(1).flags(flags).ready();
    let answers_of_one = |supervisor: &common::Supervisor| {
        let mut client = Kept::connect(supervisor.port);
        let mut answers = 1;
        while !client.ask().expect("an answer, also the last one").closes {
            answers += 1;
        }
        assert!(client.ask().is_none(), "it goes on after its last answer");
        answers
    };
    let supervisor = server(&["--connection-requests", "50"]);
    for _ in 0..5 {
        let answers = answers_of_one(&supervisor);
        assert!((45..=55).contains(&answers), "{answers}");
    }

    let supervisor = server(&["--connection-age", "3"]);
    let begin = Instant::now();
    let answers = answers_of_one(&supervisor);
    assert!(
        begin.elapsed() >= Duration::from_millis(2_700) && answers > 1,
        "{answers} in {:?}",
        begin.elapsed()
    );

    let supervisor = server(&[]);
    let mut client = Kept::connect(supervisor.port);
    assert!((0..100).all(|_| client.ask().is_some_and(|answer| !answer.closes)), "nobody asked for it");
}
