//! Who is measured when.

/// One run of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn {
    /// From 1.
    pub round: u32,
    /// Which row of the ladder, from 0.
    pub row: usize,
    /// Which of the contenders, from 0.
    pub contender: usize,
}

/// All runs: within each round and row the contenders follow each other, in an order of their own; so do the rows within a round.
pub fn order(rounds: u32, contenders: usize, rows: usize, seed: u64) -> Vec<Turn> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut turns = Vec::new();
    for round in 1..=rounds {
        let mut shuffled_rows: Vec<usize> = (0..rows).collect();
        random.shuffle(&mut shuffled_rows);
        for row in shuffled_rows {
            let mut shuffled: Vec<usize> = (0..contenders).collect();
            random.shuffle(&mut shuffled);
            turns.extend(shuffled.into_iter().map(|contender| Turn { round, row, contender }));
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_run_once_and_pairs_next_to_each_other() {
        let turns = order(5, 3, 2, 7);
        assert_eq!(turns.len(), 30);
        assert_eq!(turns.iter().collect::<BTreeSet<_>>().len(), 30);
        assert!(turns.windows(2).all(|pair| pair[0].round <= pair[1].round));
        for three in turns.chunks(3) {
            assert!(three.iter().all(|turn| turn.row == three[0].row && turn.round == three[0].round));
        }
    }

    #[test]
    fn the_seed_decides_and_no_contender_always_comes_first() {
        assert_eq!(order(9, 4, 3, 1), order(9, 4, 3, 1));
        assert_ne!(order(9, 4, 3, 1), order(9, 4, 3, 2));
        let first: BTreeSet<_> = order(40, 2, 1, 3).chunks(2).map(|pair| pair[0].contender).collect();
        assert_eq!(first.len(), 2);
    }
}
