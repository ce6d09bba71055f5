//! Slots that lookups in the published tables read.
use crate::choices::Choices;
use crate::insertion::{Insertion, Method};
use crate::rounds::{Bucket, SUB_SLOTS, SUB_TABLES};
use crate::table::NOBODY;
use koel_kernels::hash::mix::splitmix_at;

/// Mean number of slots that a lookup reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Probes {
    /// Lookup of a present key: stops at the key.
    pub present: f64,
    /// Lookup of an absent key: reads all of its slots.
    pub absent: f64,
    /// Lookup of an absent key that stops at an empty slot, as in the lecture.
    pub absent_until_empty: f64,
}
impl Probes {
    /// Returns how many times the reads of a present key an absent key takes.
    pub fn factor(&self) -> f64 {
        self.absent / self.present
    }
}

/// Counts the reads in a single-level table that is filled key by key to a load, in round-robin
/// order, with random slots for every key and chains of at most `7 lg n` exchanges.
pub fn single_level(functions: u32, slots: u32, load: f64, seed: u64) -> Probes {
    let keys = (load * f64::from(slots)) as usize;
    let choices = Choices::random(keys, functions, slots, seed);
    let limit = (7.0 * (keys.max(2) as f64).log2()) as u32;
    let mut insertion = Insertion::new(&choices, 1, Method::RoundRobin, limit, seed);
    for key in 0..keys as u32 {
        insertion.insert(key);
    }
    let table = &insertion.table.slots;
    let owned = table.iter().enumerate().filter(|(_, key)| **key != NOBODY);
    let reads = owned.map(|(slot, &key)| reads_until(choices.of(key), |s| s as usize == slot));
    let absent = Choices::random(keys, functions, slots, splitmix_at(seed, 0));
    let until_empty = (0..keys as u32)
        .map(|key| reads_until(absent.of(key), |slot| table[slot as usize] == NOBODY));
    Probes {
        present: mean(reads),
        absent: f64::from(functions),
        absent_until_empty: mean(until_empty),
    }
}

/// Counts the reads in a two-level table of these buckets. The read of a bucket's seed is not
/// counted.
pub fn two_level(buckets: &[Bucket]) -> Probes {
    let reads = buckets.iter().flat_map(|bucket| {
        let owned = bucket.slots.iter().enumerate().filter(|(_, key)| **key != NOBODY);
        owned.map(|(slot, _)| slot as u32 / SUB_SLOTS + 1)
    });
    // A random key is as likely in every slot of a sub-table.
    let full = |bucket: &Bucket, j: u32| {
        let (first, end) = ((j * SUB_SLOTS) as usize, ((j + 1) * SUB_SLOTS) as usize);
        let owned = bucket.slots[first..end].iter().filter(|key| **key != NOBODY).count();
        owned as f64 / f64::from(SUB_SLOTS)
    };
    let until_empty = buckets.iter().map(|b| 1.0 + full(b, 0) * (1.0 + full(b, 1)));
    Probes {
        present: mean(reads),
        absent: f64::from(SUB_TABLES),
        absent_until_empty: until_empty.sum::<f64>() / buckets.len().max(1) as f64,
    }
}

/// Returns the number of slots read up to the first one at which the lookup stops, or up to the
/// last.
fn reads_until(slots: &[u32], stops: impl Fn(u32) -> bool) -> u32 {
    let stop = slots.iter().position(|&slot| stops(slot));
    stop.map_or(slots.len(), |i| i + 1) as u32
}
fn mean(counts: impl Iterator<Item = u32>) -> f64 {
    let (sum, n) = counts.fold((0u64, 0u64), |(sum, n), c| (sum + u64::from(c), n + 1));
    sum as f64 / n.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_end_at_the_first_match() {
        assert_eq!(reads_until(&[7, 5, 7, 9], |slot| slot == 7), 1);
        assert_eq!(reads_until(&[7, 5, 7, 9], |slot| slot == 9), 4);
        assert_eq!(reads_until(&[7, 5, 7], |slot| slot == 1), 3);
    }
    #[test]
    fn sub_tables_are_read_in_order() {
        let mut slots = vec![NOBODY; (SUB_TABLES * SUB_SLOTS) as usize];
        (slots[0], slots[191], slots[192], slots[575]) = (0, 1, 2, 3);
        let probes = two_level(&[Bucket { slots, rounds: 1, seeds: 1 }]);
        assert_eq!((probes.present, probes.absent), ((1.0 + 1.0 + 2.0 + 3.0) / 4.0, 3.0));
        let expected = 1.0 + 2.0 / 192.0 * (1.0 + 1.0 / 192.0);
        assert!((probes.absent_until_empty - expected).abs() < 1e-12);
    }
}
