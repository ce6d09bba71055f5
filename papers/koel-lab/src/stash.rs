//! Keys that a single-level table puts into its stash, and what the stash costs a lookup.
use crate::choices::Choices;
use crate::insertion::{Insertion, Method};
use crate::table::NOBODY;
use koel_kernels::hash::{mix::mix, mulhi};

/// Stash of a table that was filled to a load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stash {
    /// Keys in the table and in the stash.
    pub keys: usize,
    /// Keys in the stash.
    pub stashed: usize,
    /// Slots of the stash that the lookup of an absent key reads if the stash is an array.
    pub array_reads: f64,
    /// The same if the stash is a table with linear probing, half full: the mean over all hash
    /// values.
    pub table_reads: f64,
}

/// Fills a table with one slot per bucket to a load, in round-robin order, with random slots for
/// every key. A chain of `limit` exchanges ends in the stash.
pub fn fill(functions: u32, slots: u32, load: f64, limit: u32, seed: u64) -> Stash {
    let keys = (load * f64::from(slots)) as usize;
    let choices = Choices::random(keys, functions, slots, seed);
    let mut insertion = Insertion::new(&choices, 1, Method::RoundRobin, limit, seed);
    for key in 0..keys as u32 {
        insertion.insert(key);
    }
    let mut in_table = vec![false; keys];
    for &key in insertion.table.slots.iter().filter(|key| **key != NOBODY) {
        in_table[key as usize] = true;
    }
    let stashed = (0..keys as u32).filter(|&key| !in_table[key as usize]).collect::<Vec<u32>>();
    Stash {
        keys,
        stashed: stashed.len(),
        array_reads: stashed.len() as f64,
        table_reads: absent_reads(&probing_table(&stashed)),
    }
}

/// Returns which slots of a table of twice as many slots as keys are occupied.
fn probing_table(keys: &[u32]) -> Vec<bool> {
    let mut occupied = vec![false; 2 * keys.len()];
    for &key in keys {
        let mut at = mulhi(mix(key), occupied.len() as u32) as usize;
        while occupied[at] {
            at = (at + 1) % occupied.len();
        }
        occupied[at] = true;
    }
    occupied
}

/// Returns the mean number of slots read up to an empty one, over all slots to start from; 0 if
/// there are none.
fn absent_reads(occupied: &[bool]) -> f64 {
    let slots = occupied.len();
    let reads = (0..slots).map(|start| {
        let full = (0..slots).take_while(|i| occupied[(start + i) % slots]).count();
        (full + 1) as f64
    });
    reads.sum::<f64>() / slots.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_key_reads_up_to_an_empty_slot() {
        let reads = absent_reads(&[true, false, true, true, false, true]);
        assert_eq!(reads, (2.0 + 1.0 + 3.0 + 2.0 + 1.0 + 3.0) / 6.0);
        assert_eq!(absent_reads(&[]), 0.0);
    }
    #[test]
    fn stash_tables_are_half_full() {
        let occupied = probing_table(&(0..1000).collect::<Vec<u32>>());
        assert_eq!(occupied.iter().filter(|o| **o).count(), 1000);
        assert_eq!(occupied.len(), 2000);
        // Knuth: (1 + 1 / (1 - load)^2) / 2 = 2.5 at a load of one half.
        assert!((absent_reads(&occupied) - 2.5).abs() < 0.4);
    }
}
