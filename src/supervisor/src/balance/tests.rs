//! Simulations of clients, and the rules one by one.

#![allow(clippy::cast_precision_loss, reason = "small numbers")]

use super::*;
use crate::steering::{Place, Policy, tests as kernel, weighted_program};
use fastrand::Rng;

/// Clients that keep a connection each, the kernel between them and the workers, and looks at the spread.
struct Simulation {
    random: Rng,
    workers: u32,
    /// Source ports follow each other, as those of one Linux client do; else they are random, as behind address translation.
    in_steps: bool,
    port: u16,
    /// Each client's worker, and the look before which it connected.
    clients: Vec<(u32, u32)>,
    balance: Balance,
    look: u32,
}

impl Simulation {
    fn new(seed: u64, workers: u32, clients: usize, in_steps: bool) -> Self {
        let mut random = Rng::with_seed(seed);
        let port = random.u16(32_768..60_000);
        let balance = Balance::default();
        let mut simulation =
            Self { random, workers, in_steps, port, clients: vec![(0, 0); clients], balance, look: 0 };
        (0..clients).for_each(|client| simulation.connect(client));
        simulation
    }

    fn connect(&mut self, client: usize) {
        // Linux 6: by 2 to 16, always even.
        self.port = if self.in_steps {
            32_768 + (self.port - 32_768 + 2 * self.random.u16(1..=8)) % 28_232
        } else {
            self.random.u16(32_768..61_000)
        };
        let place = |index: u32| Some(Place { index, weight: self.balance.weight(index.into()) });
        let places: Vec<_> = (0..self.workers).map(place).collect();
        let program = weighted_program(Policy::Even, &places).unwrap();
        self.clients[client] = (kernel::run(&program, &kernel::v4(1, self.port)), self.look);
    }

    fn counts(&self, is_seen: impl Fn(u32) -> bool) -> Vec<(Generation, u32)> {
        let of =
            |worker: u32| self.clients.iter().filter(|(at, since)| *at == worker && is_seen(*since)).count();
        (0..self.workers).map(|worker| (worker.into(), u32::try_from(of(worker)).unwrap())).collect()
    }

    /// One look; with `sheds` the workers do what they are asked to.
    fn look(&mut self, sheds: bool) {
        self.look += 1;
        let seen = self.counts(|since| since + 1 < self.look);
        for (worker, surplus) in self.balance.observe(&seen) {
            let mut mine: Vec<usize> = (0..self.clients.len())
                .filter(|client| u64::from(self.clients[*client].0) == worker)
                .collect();
            self.random.shuffle(&mut mine);
            for client in mine.into_iter().take(if sheds { surplus as usize } else { 0 }) {
                self.connect(client);
            }
        }
    }

    /// The busiest worker's share of the mean.
    fn unevenness(&self) -> f64 {
        let most = self.counts(|_| true).iter().map(|(_, open)| *open).max().unwrap();
        f64::from(most * self.workers) / self.clients.len() as f64
    }
}

fn percentile(values: &mut [f64], share: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * share / 100]
}

/// The figures in the module's head are those of 1,000.
const RUNS: u64 = 200;

/// What the module's head quotes.
#[test]
fn a_hundred_kept_connections_on_three_workers_are_even_within_seconds() {
    for (workers, in_steps) in [(2, true), (3, true), (3, false), (4, true), (8, true), (16, true)] {
        let clients = 100 * workers as usize / 3;
        let mut first: Vec<f64> = Vec::new();
        let mut after: Vec<Vec<f64>> = vec![Vec::new(); 8];
        for seed in 0..RUNS {
            let mut simulation = Simulation::new(seed, workers, clients, in_steps);
            first.push(simulation.unevenness());
            for look in &mut after {
                simulation.look(true);
                look.push(simulation.unevenness());
            }
        }
        let within = |part: f64| {
            let good =
                |look: &Vec<f64>| look.iter().filter(|u| **u <= 1.15).count() as f64 >= RUNS as f64 * part;
            1 + after.iter().position(good).unwrap_or(99)
        };
        let mean = first.iter().sum::<f64>() / RUNS as f64;
        let (most, all) = (within(0.99), within(1.0));
        let end = percentile(after.last_mut().unwrap(), 100);
        println!(
            "{workers} workers, ports in steps: {in_steps}: at first {mean:.2} on average, {:.2} in the 95th percentile; \
             at most 1.15 in 99 % after {most} looks, in all after {all}; at last {end:.2}",
            percentile(&mut first, 95)
        );
        assert!(end <= 1.15 && all <= 8, "{workers} workers: {end} {all}");
    }
}

/// Programs that are not asked to end connections, with clients that renew theirs now and then.
#[test]
fn new_connections_even_out_what_is_not_shed() {
    let run = |feedback: bool| {
        let mut average = 0.0;
        for seed in 0..100 {
            let mut simulation = Simulation::new(seed, 3, 100, false);
            let mut sum = 0.0;
            for look in 0..200 {
                for client in 0..100 {
                    // Once in 25 seconds.
                    if simulation.random.u8(0..20) == 0 {
                        simulation.connect(client);
                    }
                }
                if feedback {
                    simulation.look(false);
                }
                sum += if look < 40 { 0.0 } else { simulation.unevenness() / 160.0 };
            }
            average += sum / 100.0;
        }
        average
    };
    let (without, with) = (run(false), run(true));
    println!("renewed connections: {without:.3} without feedback, {with:.3} with it");
    assert!(with < without - 0.03, "{without} {with}");
}

/// It must not go on for ever: what is even stays as it is.
#[test]
fn an_even_spread_is_left_alone() {
    for counts in [[33, 34, 33], [35, 33, 32], [36, 32, 32], [2, 2, 1], [1, 1, 0], [3, 0, 0], [0, 0, 0]] {
        let mut balance = Balance::default();
        let counts: Vec<_> = counts.into_iter().zip(0..).map(|(n, generation)| (generation, n)).collect();
        for _ in 0..3 {
            assert_eq!(balance.observe(&counts), [], "{counts:?}");
            assert_eq!(balance.weight(0), WHOLE);
        }
    }
    assert_eq!(Balance::default().observe(&[]), []);
    assert_eq!(Balance::default().observe(&[(1, 50)]), []);
}

#[test]
fn a_surplus_is_shed_at_the_second_look_and_in_parts() {
    let mut balance = Balance::default();
    let counts = [(7, 60), (8, 20), (9, 19)];
    assert_eq!(balance.observe(&counts), []);
    assert_eq!([7, 8, 9].map(|generation| balance.weight(generation)), [1, 4, 4]);
    assert_eq!(balance.observe(&counts), [(7, 7)], "an eighth");
    assert_eq!(balance.weight(10), 4, "one that has just come is behind");
    assert_eq!(balance.observe(&[(7, 35), (8, 32), (9, 32)]), [(7, 2)], "not there yet");
    assert_eq!(balance.observe(&[(7, 34), (8, 33), (9, 32)]), []);
    assert_eq!([7, 8, 9, 10].map(|generation| balance.weight(generation)), [WHOLE; 4]);
}

#[test]
fn few_connections_are_dealt_out_one_by_one() {
    let mut balance = Balance::default();
    balance.observe(&[(1, 5), (2, 3)]);
    assert_eq!(balance.observe(&[(1, 5), (2, 3)]), [(1, 1)]);
    assert_eq!(balance.observe(&[(1, 4), (2, 4)]), []);
}

#[test]
fn a_connection_counts_at_its_second_look_and_its_owner_is_looked_for_once() {
    let mut census = Census::default();
    let nobody = |_: &BTreeSet<u64>| -> BTreeMap<u64, Generation> { panic!("asked again") };
    assert!(census.observe(BTreeSet::from([1, 2, 3]), nobody).is_empty());
    let counts = census.observe(BTreeSet::from([1, 2, 4]), |unknown| {
        assert_eq!(*unknown, BTreeSet::from([1, 2]));
        BTreeMap::from([(1, 9)])
    });
    assert_eq!(counts, BTreeMap::from([(9, 1)]));
    assert_eq!(census.observe(BTreeSet::from([1, 2]), nobody), BTreeMap::from([(9, 1)]));
    assert!(census.observe(BTreeSet::new(), nobody).is_empty());
    assert!(census.is_empty());
}
