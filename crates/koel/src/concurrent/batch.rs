//! Batches: one operation after the other, with the buckets of the next ones on their way.
use super::change::Change;
use super::shards::Found;
use super::{BucketOf, ConcurrentMap, bits_of, key_bits, value_of};
use crate::error::{Result, check_length};
use crate::fallible::{push, with_room};
use crate::types::{SlotKey, SlotValue};

/// Keys between prefetching a bucket and reading it.
const AHEAD: usize = 32;

impl<K: SlotKey, V: SlotValue> ConcurrentMap<K, V> {
    /// Returns the value of each key.
    ///
    /// Runs on the calling thread, with many reads of memory in flight. The keys are looked up one
    /// after the other, not at one moment. Errors: out of memory for the answers.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = with_room(keys.len())?;
        self.each(keys, |_, key, (table, place)| {
            Ok(push(&mut values, table.get(place, key).map(value_of))?)
        })?;
        Ok(values)
    }
    /// Sets the value of `keys[i]` to `values[i]`, in this order. Returns the number of keys that
    /// were absent.
    ///
    /// Runs on the calling thread, as [`get_many`](Self::get_many). Errors: mismatched lengths; out
    /// of memory, after which some pairs are inserted, from the first one on.
    pub fn insert_many(&self, keys: &[K], values: &[V]) -> Result<usize> {
        check_length("values", values.len(), "keys", keys.len())?;
        let mut absent = 0;
        self.each(keys, |i, key, found| {
            let change = Change { key, only_if: None, to: Some(bits_of(values[i])) };
            absent += usize::from(self.shards.change_at(found, change)?.is_none());
            Ok(())
        })?;
        Ok(absent)
    }
    /// Removes keys. Returns the number of those that were present.
    ///
    /// Runs on the calling thread, as [`get_many`](Self::get_many).
    pub fn remove_many(&self, keys: &[K]) -> usize {
        let mut present = 0;
        let removed = self.each(keys, |_, key, found| {
            let change = Change { key, only_if: None, to: None };
            present += usize::from(self.shards.change_at(found, change)?.is_some());
            Ok(())
        });
        debug_assert!(removed.is_ok(), "no removal needs memory");
        present
    }
    /// Visits the keys in their order: the index, the bits and where they are to be looked up.
    /// Errors: the first one of `visit`.
    #[inline(always)]
    fn each<'s>(
        &'s self,
        keys: &[K],
        mut visit: impl FnMut(usize, u64, Found<'s, BucketOf<K, V>>) -> Result<()>,
    ) -> Result<()> {
        let mut ring = [None; AHEAD];
        for i in 0..keys.len() + AHEAD {
            if let Some((key, found)) = ring[i % AHEAD].take() {
                visit(i - AHEAD, key, found)?;
            }
            if let Some(&key) = keys.get(i) {
                let key = key_bits(key);
                let (table, place) = self.shards.locate(key);
                table.prefetch(place);
                ring[i % AHEAD] = Some((key, (table, place)));
            }
        }
        Ok(())
    }
}
