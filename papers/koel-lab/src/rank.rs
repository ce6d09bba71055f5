//! The argument of Zachmann's lecture, checked numerically: if the 0-1 matrix with a row for each
//! key and a one in the column of each of its slots has full row rank over GF(2), all keys can be
//! placed. Some product in the Leibniz formula of a square submatrix must then be 1, and it assigns
//! a slot to each key.
use crate::choices::Choices;
use crate::matching::place_all_it_can;
use rayon::prelude::*;

/// Returns the rank over GF(2) of the matrix of these choices (buckets of one slot). A choice that
/// occurs twice in a row cancels out.
pub fn rank(choices: &Choices) -> usize {
    let words = (choices.buckets() as usize).div_ceil(64);
    let mut rows = vec![vec![0u64; words]; choices.len()];
    for (key, row) in rows.iter_mut().enumerate() {
        choices.of(key as u32).iter().for_each(|&slot| row[slot as usize / 64] ^= 1 << (slot % 64));
    }
    let mut rank = 0;
    for column in 0..choices.buckets() as usize {
        let (word, bit) = (column / 64, 1u64 << (column % 64));
        let Some(pivot) = (rank..rows.len()).find(|&r| rows[r][word] & bit != 0) else { continue };
        rows.swap(rank, pivot);
        let (above, below) = rows.split_at_mut(rank + 1);
        for row in below.iter_mut().filter(|row| row[word] & bit != 0) {
            row.iter_mut().zip(&above[rank]).for_each(|(a, b)| *a ^= b);
        }
        rank += 1;
    }
    rank
}

/// Counts of random matrices by property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Matrices drawn.
    pub runs: usize,
    /// Matrices of full row rank: the system `A z = b` has a solution for every `b`.
    pub full_rank: usize,
    /// Matrices for which every key has a slot.
    pub placed: usize,
    /// Matrices of full rank for which some key has no slot: the argument says that there are none.
    pub contradictions: usize,
}

/// Draws random matrices and counts their properties.
pub fn tally(functions: u32, slots: u32, keys: usize, runs: usize, seed: u64) -> Tally {
    let one = |run: usize| {
        let choices =
            Choices::random(keys, functions, slots, seed.wrapping_add(run as u64 * 0x1357_9BDF));
        let full_rank = rank(&choices) == keys;
        let placed = place_all_it_can(&choices, 1).0 == keys;
        let contradictions = (full_rank && !placed).into();
        Tally { runs: 1, full_rank: full_rank.into(), placed: placed.into(), contradictions }
    };
    (0..runs).into_par_iter().map(one).reduce(Tally::default, |a, b| Tally {
        runs: a.runs + b.runs,
        full_rank: a.full_rank + b.full_rank,
        placed: a.placed + b.placed,
        contradictions: a.contradictions + b.contradictions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lecture's example: 4 keys, 7 slots.
    #[test]
    fn the_lectures_example() {
        let sets = [[2, 4, 5], [1, 2, 6], [3, 4, 7], [1, 3, 6]];
        let choices =
            Choices::of_keys(&[0, 1, 2, 3], 3, 7, |key, f| sets[key as usize][f as usize] - 1);
        assert_eq!(rank(&choices), 4);
        assert_eq!(place_all_it_can(&choices, 1).0, 4);
        // Three keys, two of them equal: the rows are dependent, yet every key has a slot.
        let choices =
            Choices::of_keys(&[0, 0, 1], 3, 7, |key, f| sets[key as usize][f as usize] - 1);
        assert_eq!(rank(&choices), 2);
        assert_eq!(place_all_it_can(&choices, 1).0, 3);
    }

    #[test]
    fn full_rank_gives_every_key_a_place() {
        for functions in 2..=5 {
            for keys in [20, 40, 55, 62, 64, 66] {
                let tally = tally(functions, 64, keys, 200, 7);
                assert_eq!(
                    (tally.runs, tally.contradictions),
                    (200, 0),
                    "{functions} functions, {keys} keys: {tally:?}"
                );
                assert!(tally.full_rank <= tally.placed);
                assert!(keys <= 64 || tally.placed == 0);
            }
        }
    }
}
