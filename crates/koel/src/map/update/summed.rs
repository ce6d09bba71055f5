//! Additions to few keys: see [`add`].
use crate::device::Device;
use crate::device::memory::{collect, zeroed};
use crate::error::{Error, Result, outcomes_or};
use crate::fallible::repeat;
use crate::map::{MapOptions, Operation, SlotMap};
use crate::parallel;
use crate::rows::{Numbered, Other, Way, number};
use crate::table::Storage;
use crate::table::update::{HostBatch, HostOperations, Outcome, UpdateTuning, update_once};
use crate::types::{KeyBits, ValueBits};
use std::mem::MaybeUninit;

/// Fewer additions are made one by one.
const LEAST: usize = 1 << 10;
/// Keys of a batch that tell whether its keys repeat.
const SAMPLE: usize = 256;
/// Minimum number of additions to a key, on average.
const REPEATS: usize = 4;

/// The keys of a batch of additions, numbered, and the sum of the values of each.
struct Summed<K, V> {
    /// Number of each key of the batch.
    ids: Vec<u32>,
    of: Numbered<K>,
    sums: Vec<V>,
}
/// Adds values to those of keys in a map on a CPU, if keys repeat: each distinct key is changed
/// once. Returns `None` if they hardly do; then nothing was done.
///
/// Reads the batch twice. Errors: out of memory; if some operations are done, with their outcomes.
pub(crate) fn add<K: KeyBits, V: ValueBits>(
    map: &mut SlotMap<K, V>,
    keys: &[K],
    values: &[V],
) -> Option<Result<Vec<Outcome>>> {
    let is_large = keys.len() >= LEAST && keys.len() == values.len();
    if !is_large || !matches!(map.0.storage, Storage::Cpu(_)) || !repeats(keys) {
        return None;
    }
    let device = map.0.device.clone();
    // Without memory for it, the operations may still be made one by one.
    let summed = Summed::of(&device, keys, values).ok()??;
    let mut done = Ok(());
    // Room for the outcomes comes first.
    let outcomes = collect(keys.len(), |to| {
        let operations = HostOperations::All(Operation::InsertOrAdd as u32);
        let batch = HostBatch { operations, keys: &summed.of.keys, values: &summed.sums };
        let (options, tuning) = (MapOptions::default().into(), UpdateTuning::TUNED);
        let of_keys = match update_once(&mut map.0, batch, options, tuning) {
            Err(Error::PartlyDone { outcomes, source }) => {
                done = Err(*source);
                outcomes
            }
            all => all?,
        };
        summed.write_outcomes(&device, &of_keys, to)
    });
    Some(outcomes.and_then(|outcomes| outcomes_or(outcomes, done)))
}
impl<K: KeyBits, V: ValueBits> Summed<K, V> {
    fn of(device: &Device, keys: &[K], values: &[V]) -> Result<Option<Summed<K, V>>> {
        let mut ids = zeroed(keys.len())?;
        let way = Way { counts: false, other: Other::Set };
        let Some(of) = number(device, &keys, way, Some(&mut ids))? else { return Ok(None) };
        let sums = sums(device, &ids, values, of.keys.len())?;
        Ok(Some(Summed { ids, of, sums }))
    }
    /// Writes the outcome of each operation: the first one on a key may insert it.
    fn write_outcomes(
        &self,
        device: &Device,
        of_keys: &[Outcome],
        to: &mut [MaybeUninit<Outcome>],
    ) -> Result<()> {
        device.fill(to, parallel::SMALL_PIECE, &|start, part| {
            for (row, (to, &id)) in (start..).zip(part.iter_mut().zip(&self.ids[start..])) {
                let (outcome, first) = (of_keys[id as usize], self.of.firsts[id as usize]);
                let is_later = outcome == Outcome::Inserted && row != first as usize;
                to.write(if is_later { Outcome::Added } else { outcome });
            }
            Ok(())
        })
    }
}
/// Returns whether keys probably repeat [often](REPEATS), by some of them.
fn repeats<K: KeyBits>(keys: &[K]) -> bool {
    let mut sample = [K::default(); SAMPLE];
    let some = keys.iter().step_by(keys.len() / SAMPLE);
    sample.iter_mut().zip(some).for_each(|(to, &key)| *to = key);
    sample.sort_unstable();
    let copies = sample.windows(2).filter(|pair| pair[0] == pair[1]).count();
    // Of `d` equally frequent keys, `s` ones have about s^2 / 2 d copies.
    2 * copies * keys.len() >= REPEATS * SAMPLE * SAMPLE
}
/// Returns the sum of the values with each of `count` numbers, modulo the size of the values.
fn sums<V: ValueBits>(device: &Device, ids: &[u32], values: &[V], count: usize) -> Result<Vec<V>> {
    // Sums of a thread's own, unless clearing and adding them up takes longer.
    let threads = device.parallelism();
    let pieces = if count.saturating_mul(4 * threads) < ids.len() { threads } else { 1 };
    let each = ids.len().div_ceil(pieces).max(1);
    let add = |sum: &mut V, value: V| {
        *sum = V::narrowed(sum.widened().wrapping_add(value.widened()));
    };
    let of_pieces = device.install(|| {
        parallel::map(ids.chunks(each).zip(values.chunks(each)), |_, (ids, values)| {
            let mut sums = repeat(V::narrowed(0), count)?;
            ids.iter().zip(values).for_each(|(&id, &value)| add(&mut sums[id as usize], value));
            crate::fallible::Result::Ok(sums)
        })
    })?;
    let mut all = repeat(V::narrowed(0), count)?;
    for sums in of_pieces {
        all.iter_mut().zip(sums?).for_each(|(sum, more)| add(sum, more));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;
    use koel_kernels::hash::mix::splitmix_at;
    use std::collections::HashMap;

    /// Adds to few keys and to many, in maps that hold some of them: the values and the outcomes
    /// are those of additions one by one.
    fn check<K: KeyBits, V: ValueBits + crate::types::Addable>(key: impl Fn(u64) -> K) {
        let device = Device::cpu_with_threads(3).unwrap();
        for (n, distinct) in [
            (LEAST - 1, 7),
            (LEAST, 1),
            (5000, 300),
            (5000, 4000),
            (50_000, 7),
            (50_000, 2000),
            (50_000, 40_000),
        ] {
            let held = (0..distinct / 2).map(|i| key(i as u64)).collect::<Vec<_>>();
            let values = held.iter().map(|_| V::narrowed(u64::MAX - 3)).collect::<Vec<_>>();
            let mut map = Map::<K, V>::build(&device, &held, &values).unwrap();
            let mut oracle = held.into_iter().zip(values).collect::<HashMap<_, _>>();
            let row = |i: usize| splitmix_at(3, i as u32);
            let keys = (0..n).map(|i| key(row(i) % distinct as u64)).collect::<Vec<_>>();
            let added = (0..n).map(|i| V::narrowed(row(i) >> 7)).collect::<Vec<_>>();
            let outcomes = map.insert_or_add(&keys, &added).unwrap();
            for ((&key, &value), outcome) in keys.iter().zip(&added).zip(outcomes) {
                let is_new = !oracle.contains_key(&key);
                let sum = oracle.entry(key).or_insert(V::narrowed(0));
                *sum = V::narrowed(sum.widened().wrapping_add(value.widened()));
                assert_eq!(outcome, if is_new { Outcome::Inserted } else { Outcome::Added });
            }
            assert_eq!(map.pairs().unwrap().into_iter().collect::<HashMap<_, _>>(), oracle);
            assert!(map.insert_or_add(&keys, &added[1..]).is_err(), "one value is missing");
        }
    }
    #[test]
    fn sums_are_those_of_single_additions() {
        check::<u32, u32>(|i| !(i as u32));
        check::<u64, u32>(|i| i << 40);
        check::<u32, u64>(|i| i as u32);
        check::<u64, u64>(|i| !i);
    }
}
