//! The classic BPF program that picks the slot of each new connection.
//!
//! The kernel runs it once per connection; its answer is the index of a socket in the reuseport group. Classic BPF
//! needs no privilege, unlike eBPF. Without a program the kernel hashes addresses and ports, and goes on choosing
//! sockets that nobody serves; a random number does not depend on how few clients there are.

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

const LOAD: u16 = 0x20;
const MODULO: u16 = 0x94;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x16;
/// `SKF_AD_OFF + SKF_AD_RANDOM`: a load from here gives a random number.
const RANDOM: u32 = 0xffff_f038;

const fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, yes: 0, no: 0, value }
}

/// Spreads connections evenly over the sockets with these indices. `None` for no index at all: then the program
/// that is attached already stays, and connections wait in the queues it knows.
pub fn spread_over(indices: &[u32]) -> Option<Vec<Instruction>> {
    let count = u32::try_from(indices.len()).ok()?;
    let (last, others) = indices.split_last()?;
    if others.is_empty() {
        return Some(vec![plain(RETURN, *last)]);
    }
    let mut program = vec![plain(LOAD, RANDOM), plain(MODULO, count)];
    if indices.iter().zip(0..).all(|(index, place)| *index == place) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel would, with this random number.
    fn run(program: &[Instruction], random: u32) -> u32 {
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let i = program[at];
            at += 1;
            match i.code {
                LOAD => accumulator = random,
                MODULO => accumulator %= i.value,
                JUMP_IF_EQUAL => at += usize::from(if accumulator == i.value { i.yes } else { i.no }),
                RETURN => return i.value,
                RETURN_ACCUMULATOR => return accumulator,
                other => panic!("unknown code {other:#x}"),
            }
        }
    }

    #[test]
    fn every_index_gets_the_same_share_and_no_other_gets_any() {
        for indices in
            [vec![0], vec![3], vec![0, 1], vec![1, 0], vec![0, 2], vec![5, 1, 3], (0..64).collect()]
        {
            let program = spread_over(&indices).unwrap();
            let rounds = u32::try_from(indices.len()).unwrap() * 10;
            let mut counts = std::collections::BTreeMap::new();
            for random in 0..rounds {
                *counts.entry(run(&program, random)).or_insert(0) += 1;
            }
            assert!(counts.values().all(|n| *n == 10), "{indices:?}: {counts:?}");
            assert_eq!(counts.len(), indices.len(), "{indices:?}");
        }
    }

    #[test]
    fn nothing_to_spread_over() {
        assert_eq!(spread_over(&[]), None);
    }
}
