//! Connections that fall on workers, one after the other: pure, from a seed.

use workerapp_supervisor::balance::{Balance, WHOLE};
use workerapp_supervisor::steering::{Instruction, Place, Policy, weighted_program};

/// How connections find their workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steering {
    /// At random, as the kernel's own hash does.
    Dice,
    /// By the client's port, without feedback.
    Port,
    /// The client's port among those that have fewest, looked at anew after each `every` connections.
    Fewest { every: usize },
    /// The client's port among those that have at most the mean, looked at anew after each `every` connections.
    AtMostMean { every: usize },
    /// What the supervisor does with Node: by the client's port; then, at each look, weights, and connections that are ended with an
    /// answer and come anew.
    Ours { looks: u32 },
}

impl Steering {
    pub(crate) const ALL: [Self; 8] = [
        Self::Dice,
        Self::Port,
        Self::Fewest { every: 1 },
        Self::Fewest { every: 8 },
        Self::AtMostMean { every: 8 },
        Self::Ours { looks: 2 },
        Self::Ours { looks: 4 },
        Self::Ours { looks: 8 },
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Dice => "dice".to_owned(),
            Self::Port => "port; ours at first".to_owned(),
            Self::Fewest { every } => format!("fewest, look after {every}"),
            Self::AtMostMean { every } => format!("<= mean, look after {every}"),
            Self::Ours { looks } => format!("ours after {looks} looks"),
        }
    }
}

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) workers: u32,
    pub(crate) connections: usize,
    pub(crate) ports: Ports,
}

/// Where a client's ports come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Of so many machines in turn, as Linux has chosen them since 5.18: from a start at random up in even steps of 2 to 16.
    Steps { machines: usize },
    /// Behind address translation.
    Random,
}

/// Connections of the busiest worker over their mean, at the end.
pub(crate) fn busiest_over_mean(scene: Scene, steering: Steering, random: &mut fastrand::Rng) -> f64 {
    let mut clients = Clients::new(scene.ports, random);
    let mut counts = vec![0_u32; usize::try_from(scene.workers).unwrap_or(1)];
    let mut balance = Balance::default();
    let mut allowed: Vec<u32> = (0..scene.workers).collect();
    for n in 0..scene.connections {
        match steering {
            Steering::Fewest { every } | Steering::AtMostMean { every } if n % every == 0 => {
                allowed = taking(&counts, matches!(steering, Steering::Fewest { .. }));
            }
            _ => {}
        }
        let port = clients.connect(random);
        let worker = match steering {
            Steering::Dice => allowed[random.usize(..allowed.len())],
            _ => by_port(&allowed, &balance, port),
        };
        counts[worker as usize] += 1;
    }
    if let Steering::Ours { looks } = steering {
        for _ in 0..looks {
            let seen: Vec<(u64, u32)> = (0..).zip(counts.iter().copied()).collect();
            let mut shed = 0;
            for (worker, surplus) in balance.observe(&seen) {
                counts[usize::try_from(worker).unwrap_or(0)] -= surplus;
                shed += surplus;
            }
            for _ in 0..shed {
                counts[by_port(&allowed, &balance, clients.connect(random)) as usize] += 1;
            }
        }
    }
    let all: u32 = counts.iter().sum();
    f64::from(counts.into_iter().max().unwrap_or(0)) * f64::from(scene.workers) / f64::from(all)
}

/// Those that have fewest, or at most the mean.
fn taking(counts: &[u32], fewest: bool) -> Vec<u32> {
    let all: u32 = counts.iter().sum();
    let workers = u32::try_from(counts.len()).unwrap_or(1);
    let least = counts.iter().min().copied().unwrap_or(0);
    let fits = |count: u32| if fewest { count == least } else { count * workers <= all };
    (0..).zip(counts).filter(|(_, count)| fits(**count)).map(|(worker, _)| worker).collect()
}

/// The machines that connect.
struct Clients {
    ports: Ports,
    last: Vec<u16>,
    turn: usize,
}

const FIRST_PORT: u16 = 32_768;
const LAST_PORT: u16 = 60_999;

impl Clients {
    fn new(ports: Ports, random: &mut fastrand::Rng) -> Self {
        let machines = match ports {
            Ports::Steps { machines } => machines.max(1),
            Ports::Random => 1,
        };
        let last = (0..machines).map(|_| random.u16(FIRST_PORT..=LAST_PORT)).collect();
        Self { ports, last, turn: 0 }
    }

    /// The port of the next connection.
    fn connect(&mut self, random: &mut fastrand::Rng) -> u16 {
        if self.ports == Ports::Random {
            return random.u16(FIRST_PORT..=LAST_PORT);
        }
        self.turn = (self.turn + 1) % self.last.len();
        let last = &mut self.last[self.turn];
        let next = *last + 2 * random.u16(1..=8);
        *last = if next > LAST_PORT { FIRST_PORT } else { next };
        *last
    }
}

/// The worker that the supervisor's own program picks, run as the kernel would.
fn by_port(allowed: &[u32], balance: &Balance, port: u16) -> u32 {
    // Weights are for the whole; where only some take connections, these are alike.
    let weight = |index: u32| if allowed.len() > 1 { balance.weight(index.into()) } else { WHOLE };
    let places: Vec<Option<Place>> =
        allowed.iter().map(|index| Some(Place { index: *index, weight: weight(*index) })).collect();
    let picked = weighted_program(Policy::Even, &places).and_then(|program| interpret(&program, port));
    picked.filter(|index| allowed.contains(index)).unwrap_or(allowed[0])
}

/// Runs a steering program on a packet of an IPv4 client with this port. `None`: it does something that such programs don't.
fn interpret(program: &[Instruction], port: u16) -> Option<u32> {
    const IP_HEADER: u32 = 0xfff0_0000;
    let mut packet = [0_u8; 24];
    packet[0] = 0x45;
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    let (mut accumulator, mut index, mut at) = (0_u32, 0_u32, 0_usize);
    let load = |from: u32, length: usize| {
        let from = usize::try_from(from.wrapping_sub(IP_HEADER)).ok()?;
        let bytes = packet.get(from..from.checked_add(length)?)?;
        Some(bytes.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte)))
    };
    loop {
        let instruction = program.get(at)?;
        let value = instruction.value;
        at += 1;
        match instruction.code {
            0x30 => accumulator = load(value, 1)?,
            0x28 => accumulator = load(value, 2)?,
            0x20 => accumulator = load(value, 4)?,
            0x48 => accumulator = load(value.wrapping_add(index), 2)?,
            0xb1 => index = 4 * (load(value, 1)? & 0xf),
            0x74 => accumulator >>= value,
            0x94 => accumulator %= value,
            0x05 => at += usize::try_from(value).ok()?,
            0x15 => at += usize::from(if accumulator == value { instruction.yes } else { instruction.no }),
            0x06 => return Some(value),
            0x16 => return Some(accumulator),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(scene: Scene, steering: Steering) -> f64 {
        let mut random = fastrand::Rng::with_seed(5);
        (0..400).map(|_| busiest_over_mean(scene, steering, &mut random)).sum::<f64>() / 400.0
    }

    fn scene(workers: u32, connections: usize) -> Scene {
        Scene { workers, connections, ports: Ports::Steps { machines: 1 } }
    }

    /// Known values for random placement.
    #[test]
    fn dice_are_as_uneven_as_they_are() {
        for (workers, connections, expected) in [(2, 16, 1.20), (4, 64, 1.26), (16, 256, 1.46)] {
            let found = mean(scene(workers, connections), Steering::Dice);
            assert!((found - expected).abs() < 0.04, "{workers} {connections}: {found}");
        }
    }

    #[test]
    fn the_supervisors_own_program_is_run() {
        let even = Balance::default();
        for port in [40_000, 40_008, 40_016, 40_018, 60_999] {
            assert_eq!(by_port(&[0, 1, 2], &even, port), u32::from(port >> 3) % 3);
            assert_eq!(by_port(&[5, 7], &even, port), [5, 7][usize::from(port >> 3) % 2]);
        }
        assert!(mean(scene(3, 100), Steering::Port) < mean(scene(3, 100), Steering::Dice));
        let random = Scene { ports: Ports::Random, ..scene(4, 64) };
        assert!((mean(random, Steering::Port) - mean(random, Steering::Dice)).abs() < 0.03);
    }

    #[test]
    fn with_a_look_after_every_connection_nobody_has_two_more() {
        for workers in [2, 3, 8, 16] {
            let found = mean(scene(workers, 160), Steering::Fewest { every: 1 });
            let best = f64::from(160_u32.div_ceil(workers) * workers) / 160.0;
            assert!((found - best).abs() < 1e-9, "{workers}: {found}");
        }
    }

    #[test]
    fn what_a_burst_left_is_evened_out() {
        for workers in [2, 3, 4, 8] {
            let scene = scene(workers, 100);
            assert!(mean(scene, Steering::Ours { looks: 8 }) < 1.1, "{workers}");
        }
    }

    #[test]
    fn a_single_worker_has_everything() {
        for steering in Steering::ALL {
            assert!((mean(scene(1, 10), steering) - 1.0).abs() < 1e-9);
        }
    }
}
