//! A table of key numbers, in buckets, for all methods.
use crate::choices::Choices;

/// Marks an empty slot.
pub const NOBODY: u32 = u32::MAX;

/// Table of key numbers. The slots of a bucket are consecutive.
pub struct Table {
    pub(crate) bucket: u32,
    /// Key in each slot, or [`NOBODY`].
    pub slots: Vec<u32>,
}
impl Table {
    /// Creates an empty table.
    pub fn new(buckets: u32, bucket: u32) -> Table {
        Table { bucket, slots: vec![NOBODY; buckets as usize * bucket as usize] }
    }
    /// Returns the slots of a bucket.
    pub fn slots_of(&self, bucket: u32) -> std::ops::Range<u32> {
        bucket * self.bucket..(bucket + 1) * self.bucket
    }
    /// Returns a free slot of a bucket.
    pub fn free_slot(&self, bucket: u32) -> Option<u32> {
        self.slots_of(bucket).find(|&slot| self.slots[slot as usize] == NOBODY)
    }
    /// Panics unless the table holds exactly the first `placed` keys, each once and in one of its
    /// buckets.
    pub fn check(&self, choices: &Choices, placed: usize) {
        let mut seen = vec![false; placed];
        for (slot, &key) in self.slots.iter().enumerate().filter(|(_, key)| **key != NOBODY) {
            assert!((key as usize) < placed && !seen[key as usize], "key {key} in slot {slot}");
            assert!(
                choices.of(key).contains(&(slot as u32 / self.bucket)),
                "key {key} is not in one of its buckets"
            );
            seen[key as usize] = true;
        }
        assert!(seen.iter().all(|s| *s), "a key is lost");
    }
}
