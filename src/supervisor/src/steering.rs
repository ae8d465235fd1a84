//! The classic BPF program that picks the slot of each new connection.
//!
//! The kernel runs it once per connection; its answer is the index of a socket in the reuseport group. Classic BPF
//! needs no privilege, unlike eBPF. Without a program the kernel hashes addresses and ports, and goes on choosing
//! sockets that nobody serves.
//!
//! # Why the client's port
//! A client's connections get ports that follow each other in small steps (Linux, in `connect`: by 2 before 5.18, by 2 to
//! 16 since). Dealing out one eighth of the port, modulo the number of workers, makes use of that: of 100 connections the
//! busiest of 3 workers gets 1.04 or 1.11 times its share on average, where dice (or the kernel's hash) give it 1.15. Where
//! the ports are random, behind address translation, it is as good as dice.
//!
//! # Weights
//! Nothing without a memory spreads connections evenly, so [`crate::balance`] looks at the spread afterwards and gives workers
//! more or less of what is new: then the ports are dealt out over a table in which a worker has as many entries as its weight,
//! spaced out. That module's head has the policy and its figures.

use crate::app_metrics::{NETWORK, address_of};
use crate::balance::{WHOLE, Weight};

/// One instruction: `struct sock_filter` by other names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip when a comparison holds.
    pub yes: u8,
    /// How many to skip when it does not.
    pub no: u8,
    /// The operand.
    pub value: u32,
}

const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
/// From an offset that the index register is added to.
const LOAD_HALF_INDEXED: u16 = 0x48;
/// The index register becomes the length of an IPv4 header.
const INDEX_FROM_HEADER_LENGTH: u16 = 0xb1;
const SHIFT_RIGHT: u16 = 0x74;
const JUMP: u16 = 0x05;
const MODULO: u16 = 0x94;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x16;
/// `SKF_NET_OFF`: where the IP header begins.
const IP_HEADER: u32 = 0xfff0_0000;
const IPV6_HEADER_LENGTH: u32 = 40;

const MULTIPLY: u16 = 0x24;
const XOR_INDEX: u16 = 0xac;
const TO_INDEX: u16 = 0x07;
/// Fibonacci hashing: neighbouring addresses end up far apart.
const GOLDEN: u32 = 0x9e37_79b1;

const fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, yes: 0, no: 0, value }
}

/// What the choice of a slot follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// An even spread.
    Even,
    /// The client's address (for IPv6 its network, /64): the same client, the same worker.
    ClientAddress,
}

/// A worker that takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its socket's number in the group.
    pub index: u32,
    /// Its part of the connections, for [`Policy::Even`].
    pub weight: Weight,
}

/// Longer tables are not worth it, and the kernel takes 4,096 instructions.
const LONGEST_TABLE: usize = 1024;

/// Spreads connections over places; one is empty while its worker takes no connections.
///
/// `None` when all are empty: then the program that is attached already stays, and connections wait in the queues it
/// knows.
pub fn weighted_program(policy: Policy, places: &[Option<Place>]) -> Option<Vec<Instruction>> {
    let live: Vec<Place> = places.iter().copied().flatten().collect();
    let (mut program, table) = match policy {
        Policy::Even => (part_of_the_port(), weighted(&live)),
        // An empty place's clients go to one of the others together, and come back when it is filled again.
        Policy::ClientAddress => {
            let mut substitutes = live.iter().copied().cycle();
            let table = places.iter().map(|place| Some(place.or_else(|| substitutes.next())?.index));
            (hash_of_the_address(), table.collect::<Option<_>>()?)
        }
    };
    let (last, others) = table.split_last()?;
    if others.iter().all(|index| index == last) {
        return Some(vec![plain(RETURN, *last)]);
    }
    program.push(plain(MODULO, u32::try_from(table.len()).ok()?));
    if table.iter().zip(0..).all(|(index, place)| *index == place) {
        program.push(plain(RETURN_ACCUMULATOR, 0));
        return Some(program);
    }
    for (index, place) in others.iter().zip(0..) {
        program.push(Instruction { code: JUMP_IF_EQUAL, yes: 0, no: 1, value: place });
        program.push(plain(RETURN, *index));
    }
    program.push(plain(RETURN, *last));
    Some(program)
}

/// The same for workers that are all alike, given by their sockets' numbers.
pub fn program(policy: Policy, indices: &[Option<u32>]) -> Option<Vec<Instruction>> {
    let place = |index: &Option<u32>| index.map(|index| Place { index, weight: WHOLE });
    weighted_program(policy, &indices.iter().map(place).collect::<Vec<_>>())
}

/// Before anything else: connections from addresses that stand for slots go there. `slots` are pairs of slot and index.
pub fn by_slot(slots: &[(usize, u32)], rest: Vec<Instruction>) -> Vec<Instruction> {
    let mut table = Vec::new();
    for (slot, index) in slots.iter().filter_map(|(slot, index)| Some((address_of(*slot)?, *index))) {
        table.push(Instruction { code: JUMP_IF_EQUAL, yes: 0, no: 1, value: slot.into() });
        table.push(plain(RETURN, index));
    }
    let Ok(length) = u32::try_from(table.len() + 1) else { return rest };
    let mut program = vec![
        plain(LOAD_BYTE, IP_HEADER),
        plain(SHIFT_RIGHT, 4),
        Instruction { code: JUMP_IF_EQUAL, yes: 0, no: 3, value: 4 },
        plain(LOAD_WORD, IP_HEADER + 12),
        plain(SHIFT_RIGHT, 16),
        Instruction { code: JUMP_IF_EQUAL, yes: 1, no: 0, value: NETWORK },
        plain(JUMP, length),
        plain(LOAD_WORD, IP_HEADER + 12),
    ];
    program.extend(table);
    program.extend(rest);
    program
}

/// Each place as often as its weight says, and no place's entries closer together than need be.
fn weighted(places: &[Place]) -> Vec<u32> {
    let total: usize = places.iter().map(|place| usize::from(place.weight)).sum();
    let all_alike = places.windows(2).all(|pair| matches!(pair, [a, b] if a.weight == b.weight));
    if all_alike || total > LONGEST_TABLE {
        return places.iter().map(|place| place.index).collect();
    }
    let sum = i64::try_from(total).unwrap_or(i64::MAX);
    let mut credits = vec![0_i64; places.len()];
    let mut table = Vec::with_capacity(total);
    // Whoever has waited longest in proportion to its weight is next.
    for _ in 0..total {
        for (credit, place) in credits.iter_mut().zip(places) {
            *credit += i64::from(place.weight);
        }
        let next = credits.iter_mut().zip(places).rev().max_by_key(|(credit, _)| **credit);
        if let Some((credit, place)) = next {
            *credit -= sum;
            table.push(place.index);
        }
    }
    table
}

/// The accumulator becomes one eighth of the client's port.
fn part_of_the_port() -> Vec<Instruction> {
    let v4 = [plain(INDEX_FROM_HEADER_LENGTH, IP_HEADER), plain(LOAD_HALF_INDEXED, IP_HEADER)];
    let v6 = [plain(LOAD_HALF, IP_HEADER + IPV6_HEADER_LENGTH)];
    let mut program = by_version(&v4, &v6);
    program.push(plain(SHIFT_RIGHT, 3));
    program
}

/// The accumulator becomes a hash of the client's address.
fn hash_of_the_address() -> Vec<Instruction> {
    let v4 = [plain(LOAD_WORD, IP_HEADER + 12)];
    let v6 = [
        plain(LOAD_WORD, IP_HEADER + 8),
        plain(TO_INDEX, 0),
        plain(LOAD_WORD, IP_HEADER + 12),
        plain(XOR_INDEX, 0),
    ];
    let mut program = by_version(&v4, &v6);
    program.extend([plain(MULTIPLY, GOLDEN), plain(SHIFT_RIGHT, 16)]);
    program
}

/// A socket for both families gets packets of both.
fn by_version(v4: &[Instruction], v6: &[Instruction]) -> Vec<Instruction> {
    let length = |part: &[Instruction]| u8::try_from(part.len()).unwrap_or(u8::MAX);
    let skip_v4 = Instruction { code: JUMP_IF_EQUAL, yes: length(v4) + 1, no: 0, value: 6 };
    let mut program = vec![plain(LOAD_BYTE, IP_HEADER), plain(SHIFT_RIGHT, 4), skip_v4];
    program.extend(v4);
    program.push(plain(JUMP, length(v6).into()));
    program.extend(v6);
    program
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs a program as the kernel would, on a packet that begins with its IP header.
    pub(crate) fn run(program: &[Instruction], packet: &[u8]) -> u32 {
        let (mut accumulator, mut index, mut at) = (0_u32, 0_u32, 0);
        let load = |from: u32, length: usize| {
            let from = from.wrapping_sub(IP_HEADER) as usize;
            packet[from..from + length].iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
        };
        loop {
            let i = program[at];
            at += 1;
            match i.code {
                LOAD_BYTE => accumulator = load(i.value, 1),
                LOAD_HALF => accumulator = load(i.value, 2),
                LOAD_WORD => accumulator = load(i.value, 4),
                LOAD_HALF_INDEXED => accumulator = load(i.value.wrapping_add(index), 2),
                INDEX_FROM_HEADER_LENGTH => index = 4 * (load(i.value, 1) & 0xf),
                TO_INDEX => index = accumulator,
                XOR_INDEX => accumulator ^= index,
                MULTIPLY => accumulator = accumulator.wrapping_mul(i.value),
                SHIFT_RIGHT => accumulator >>= i.value,
                MODULO => accumulator %= i.value,
                JUMP => at += i.value as usize,
                JUMP_IF_EQUAL => at += usize::from(if accumulator == i.value { i.yes } else { i.no }),
                RETURN => return i.value,
                RETURN_ACCUMULATOR => return accumulator,
                other => panic!("unknown code {other:#x}"),
            }
        }
    }

    /// IPv4 with four bytes of options, so that the header's length matters.
    pub(crate) fn v4(address: u32, port: u16) -> Vec<u8> {
        let mut packet = vec![0x46; 44];
        packet[12..16].copy_from_slice(&address.to_be_bytes());
        packet[24..26].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn v6(network: u64, port: u16) -> Vec<u8> {
        let mut packet = vec![0x60; 60];
        packet[8..16].copy_from_slice(&network.to_be_bytes());
        packet[40..42].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn counts(
        program: &[Instruction],
        packets: impl Iterator<Item = Vec<u8>>,
    ) -> std::collections::BTreeMap<u32, u32> {
        let mut counts = std::collections::BTreeMap::new();
        for packet in packets {
            *counts.entry(run(program, &packet)).or_insert(0) += 1;
        }
        counts
    }

    #[test]
    fn ports_that_follow_each_other_are_dealt_out_in_turn() {
        for indices in
            [vec![0], vec![3], vec![0, 1], vec![1, 0], vec![0, 2], vec![5, 1, 3], (0..64).collect()]
        {
            let places: Vec<Option<u32>> = indices.iter().copied().map(Some).chain([None]).collect();
            let program = program(Policy::Even, &places).unwrap();
            let rounds = u16::try_from(indices.len()).unwrap() * 10;
            for packet in [|n: u16| v4(1, 40_000 + 8 * n), |n: u16| v6(1, 40_000 + 8 * n)] {
                let counts = counts(&program, (0..rounds).map(packet));
                assert!(counts.values().all(|n| *n == 10), "{indices:?}: {counts:?}");
                assert_eq!(counts.len(), indices.len(), "{indices:?}");
            }
        }
    }

    #[test]
    fn weights_are_kept_and_spaced_out() {
        let of = |weights: &[u8]| -> Vec<u32> {
            let places = weights.iter().zip(0..).map(|(weight, index)| Place { index, weight: *weight });
            weighted(&places.collect::<Vec<_>>())
        };
        assert_eq!(of(&[1, 4, 2]), [1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(of(&[2, 2]), [0, 1]);
        assert_eq!(of(&[3]), [0]);
        assert_eq!(of(&[4, 1].repeat(300)).len(), 600, "too many to be weighted");
        let program = weighted_program(
            Policy::Even,
            &[Some(Place { index: 5, weight: 1 }), None, Some(Place { index: 2, weight: 3 })],
        );
        let counts = counts(&program.unwrap(), (0..40).map(|n| v4(1, 40_000 + 8 * n)));
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(2, 30), (5, 10)]);
    }

    #[test]
    fn addresses_that_stand_for_slots() {
        let rest = program(Policy::Even, &[Some(4), Some(5)]).unwrap();
        let program = by_slot(&[(0, 2), (3, 1), (258, 7)], rest.clone());
        for (address, index) in [(0x7f40_0000, 2), (0x7f40_0003, 1), (0x7f40_0102, 7)] {
            assert_eq!(run(&program, &v4(address, 40_000)), index);
        }
        for (address, port) in [(0x7f40_0001, 40_000), (0x7f00_0001, 40_008), (0x0a00_0003, 5)] {
            assert_eq!(run(&program, &v4(address, port)), run(&rest, &v4(address, port)));
        }
        assert_eq!(run(&program, &v6(0x7f40_0000_7f40_0000, 8)), run(&rest, &v6(0, 8)));
    }

    #[test]
    fn a_client_keeps_its_worker_whatever_its_port_is() {
        let all = program(Policy::ClientAddress, &[Some(0), Some(1), Some(2)]).unwrap();
        for address in 0..200_u32 {
            let worker = run(&all, &v4(address, 1));
            assert!((2..9).all(|port| run(&all, &v4(address, port)) == worker));
            let worker = run(&all, &v6(address.into(), 1));
            assert!((2..9).all(|port| run(&all, &v6(address.into(), port)) == worker));
        }
        let spread = counts(&all, (0..3000).map(|address| v4(0x0a00_0000 + address, 1)));
        assert!(spread.values().all(|n| (900..1100).contains(n)), "{spread:?}");
    }

    #[test]
    fn only_the_clients_of_a_missing_worker_move_and_they_come_back() {
        let all = program(Policy::ClientAddress, &[Some(0), Some(1), Some(2)]).unwrap();
        let without = program(Policy::ClientAddress, &[Some(0), None, Some(2)]).unwrap();
        let moved_slot = program(Policy::ClientAddress, &[Some(0), Some(3), Some(2)]).unwrap();
        for address in 0..200 {
            let packet = v4(address, 1);
            match run(&all, &packet) {
                1 => assert!(run(&without, &packet) == 0 && run(&moved_slot, &packet) == 3),
                other => assert!(run(&without, &packet) == other && run(&moved_slot, &packet) == other),
            }
        }
    }

    #[test]
    fn nothing_to_spread_over() {
        for policy in [Policy::Even, Policy::ClientAddress] {
            assert_eq!(program(policy, &[]), None);
            assert_eq!(program(policy, &[None, None]), None);
            assert_eq!(program(policy, &[None, Some(7)]), Some(vec![plain(RETURN, 7)]));
        }
    }
}
