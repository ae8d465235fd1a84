//! Tables of the simulation: which policy spreads kept connections how evenly.

use crate::simulation::{Ports, Scene, Steering, busiest_over_mean};
use workerapp_bench::reports::table::aligned;

const WORKERS: [u32; 5] = [2, 3, 4, 8, 16];
const CONNECTIONS: [usize; 7] = [4, 8, 16, 32, 64, 100, 256];
const SEED: u64 = 1;

/// Mean over the trials of busiest/mean, for 2 to 16 workers.
pub(crate) fn tables(trials: u32) -> String {
    let mut text = format!(
        "Simulated: kept connections of the busiest worker over the mean, average of {trials} trials\n\
         (fewer connections than workers can't be even: 4 on 8 workers is 2.00 at best)\n\n"
    );
    for (title, ports) in [
        ("one client machine", Ports::Steps { machines: 1 }),
        ("four client machines, in turn", Ports::Steps { machines: 4 }),
        ("behind address translation", Ports::Random),
    ] {
        for workers in WORKERS {
            let mut rows = vec![head(workers)];
            for steering in Steering::ALL {
                let figures = CONNECTIONS.map(|connections| {
                    format!("{:.2}", mean(Scene { workers, connections, ports }, steering, trials))
                });
                rows.push([vec![steering.name()], figures.to_vec()].concat());
            }
            text = format!("{text}{title}\n{}\n", aligned(&rows));
        }
    }
    text
}

fn head(workers: u32) -> Vec<String> {
    let first = format!("{workers} workers; connections:");
    std::iter::once(first).chain(CONNECTIONS.iter().map(ToString::to_string)).collect()
}

fn mean(scene: Scene, steering: Steering, trials: u32) -> f64 {
    let mut random = fastrand::Rng::with_seed(SEED);
    let sum: f64 = (0..trials).map(|_| busiest_over_mean(scene, steering, &mut random)).sum();
    sum / f64::from(trials.max(1))
}
