//! Exact placement: a maximum matching of keys with slots, built key by key along shortest
//! augmenting paths.
//!
//! A set of keys can be placed if and only if each successive key finds an augmenting path (Berge
//! 1957). The search is breadth-first from the buckets of the new key. Most keys find a free slot
//! in their own buckets, so the total cost is nearly linear until the load approaches the
//! threshold. Buckets of several slots are nodes with a capacity.
use crate::choices::Choices;
use crate::table::{NOBODY, Table};

/// Places keys in order until one cannot be placed. Returns the number of keys placed and the
/// table. The result is exact: no table holds a longer prefix.
pub fn place_all_it_can(choices: &Choices, bucket: u32) -> (usize, Table) {
    let mut table = Table::new(choices.buckets(), bucket);
    let mut search = Search::new(choices.buckets());
    let placed = (0..choices.len() as u32)
        .take_while(|&key| search.place(choices, &mut table, key, usize::MAX).is_some());
    (placed.count(), table)
}

/// Breadth-first search for the nearest bucket with a free slot.
pub struct Search {
    /// Number of the last search that visited each bucket.
    seen: Vec<u32>,
    number: u32,
    /// Buckets in order of discovery, each with its parent's index in this queue and the slot in
    /// the parent whose key leads here.
    queue: Vec<(u32, u32, u32)>,
}
impl Search {
    /// Creates a search for tables of `buckets` buckets.
    pub fn new(buckets: u32) -> Search {
        Search { seen: vec![0; buckets as usize], number: 0, queue: vec![] }
    }
    /// Places a key by moving others along the shortest chain. Returns the number of keys that took
    /// a slot, or `None` if the first `most` buckets of the search have no free slot (then no key
    /// moves).
    pub fn place(
        &mut self,
        choices: &Choices,
        table: &mut Table,
        key: u32,
        most: usize,
    ) -> Option<u32> {
        const START: u32 = u32::MAX;
        self.number += 1;
        self.queue.clear();
        self.see(choices.of(key), START, 0);
        let mut at = 0;
        while at < self.queue.len() && at < most {
            let bucket = self.queue[at].0;
            if let Some(free) = table.free_slot(bucket) {
                // Walk back along the chain: each key moves one bucket forward.
                let (mut to, mut from, mut moved) = (free, at as u32, 1);
                loop {
                    let (_, parent, slot) = self.queue[from as usize];
                    if parent == START {
                        table.slots[to as usize] = key;
                        return Some(moved);
                    }
                    table.slots[to as usize] = table.slots[slot as usize];
                    (to, from, moved) = (slot, parent, moved + 1);
                }
            }
            for slot in table.slots_of(bucket) {
                let occupant = table.slots[slot as usize];
                if occupant != NOBODY {
                    self.see(choices.of(occupant), at as u32, slot);
                }
            }
            at += 1;
        }
        None
    }
    fn see(&mut self, buckets: &[u32], from: u32, slot: u32) {
        for &bucket in buckets {
            let seen = &mut self.seen[bucket as usize];
            if *seen != self.number {
                *seen = self.number;
                self.queue.push((bucket, from, slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, by brute force: tries every choice of every key.
    fn can_place(choices: &Choices, key: u32, used: &mut Vec<u32>, bucket: u32) -> bool {
        if key as usize == choices.len() {
            return true;
        }
        choices.of(key).to_vec().into_iter().any(|b| {
            if used[b as usize] == bucket {
                return false;
            }
            used[b as usize] += 1;
            let done = can_place(choices, key + 1, used, bucket);
            used[b as usize] -= 1;
            done
        })
    }

    #[test]
    fn matches_brute_force() {
        for seed in 0..300 {
            let (functions, bucket) = (2 + seed as u32 % 2, 1 + seed as u32 / 2 % 2);
            let buckets = 4 + seed as u32 % 3;
            let all = Choices::random((buckets * bucket + 1) as usize, functions, buckets, seed);
            let (placed, table) = place_all_it_can(&all, bucket);
            let mut used = vec![0; buckets as usize];
            assert!(can_place(&all.first(placed), 0, &mut used, bucket), "seed {seed}");
            assert!(
                placed == all.len() || !can_place(&all.first(placed + 1), 0, &mut used, bucket),
                "seed {seed}"
            );
            table.check(&all, placed);
        }
    }
}
