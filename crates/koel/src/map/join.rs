//! Lookups whose answers may come in any order: see [`MapJoiner`].
mod answer;
#[cfg(test)]
mod tests;

use super::{Key, LayoutOf, Map, Pairs, Value};
use crate::device::{Buffer, Device, Element, Stream, View, ViewMut, check_device};
use crate::error::{Result, check_length, count32};
use crate::table::sending::{Route, Rule, SendMemory, reserve};
use crate::table::{OnCpu, Storage};
use answer::{Direct, answer};
use koel_kernels::map::join::{
    Answering, RowsOut, keep, map_filter, map_filter_direct, map_join, map_join_direct,
};
use koel_kernels::table::append::KeysOut;
use koel_kernels::table::sending::{Alone, Numbered, Pass};
use rayon::prelude::*;

/// Looks up many keys where answers may come in any order, and keeps the memory that this needs
/// from one batch to the next.
///
/// A lookup of a [`Map`] reads memory at random, which on a GPU costs several times what reading in
/// order does. A joiner partitions the queries as the table is partitioned, reads each partition
/// once, in order, and answers its queries on chip: beyond the rate of random reads, if the table
/// is bigger than the caches and there is a query for each four of its pairs or more. Where that is
/// not so, it looks the keys up one by one: what costs less follows from the sizes alone.
///
/// ```
/// use koel::{Device, Map, MapJoiner};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let map = Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
/// let queries = device.upload(&[7u32, 4, 3])?;
/// let (mut numbers, mut values) = (device.alloc::<u32>(3)?, device.alloc::<u32>(3)?);
/// let mut count = device.alloc::<u64>(1)?;
/// let mut joiner = MapJoiner::new(&device)?;
/// for _frame in 0..3 {
///     let (to, values) = (numbers.view_mut(), values.view_mut());
///     joiner.join_into(&stream, &map, queries.view(), to, values, count.view_mut())?;
/// }
/// let rows = count.download()?[0] as usize;
/// let numbers = numbers.view().slice(..rows)?.download()?;
/// let mut rows = numbers.into_iter().zip(values.download()?).collect::<Vec<_>>();
/// rows.sort(); // any order
/// assert_eq!(rows, [(0, 70), (2, 30)]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost
/// On a GPU, of 32-bit keys and values, 36 bytes of memory traffic a query for the partitions, 8 a
/// row, and the table read once; if only keys are filtered, 20 a query and 4 a key. Twice that for
/// 64-bit keys. Two fills and four launches; nothing waits, and nothing is allocated if there were
/// as many queries for as big a map before, so that it can be recorded in a
/// [graph](Stream::capture). Scratch memory is about 18 bytes a query, 9 if only keys are filtered,
/// and twice that for 64-bit keys.
///
/// Queries that are not spread like random keys cost more, at most what partitioning and a lookup
/// of each one cost: half of them for one key, or all for one partition.
pub struct MapJoiner<K: Key = u32, V: Value = u32> {
    device: Device,
    rule: Rule,
    /// Of kernels: the words they share, then how full bins are.
    counters: Buffer<u32>,
    numbered: SendMemory<u64>,
    alone: SendMemory<K>,
    /// What counting writes.
    no_keys: Buffer<K>,
    /// Of the CPU: every answer, in the order of the queries.
    found: Buffer<u8>,
    values: Buffer<V>,
}

impl<K: Key, V: Value> MapJoiner<K, V> {
    /// Without memory yet.
    pub fn new(device: &Device) -> Result<MapJoiner<K, V>> {
        MapJoiner::with_rule(device, Rule::TUNED)
    }
    /// With another rule than the best, so that tests take every way.
    pub(super) fn with_rule(device: &Device, rule: Rule) -> Result<MapJoiner<K, V>> {
        Ok(MapJoiner {
            device: device.clone(),
            rule,
            counters: device.alloc(0)?,
            numbered: SendMemory::new(device)?,
            alone: SendMemory::new(device)?,
            no_keys: device.alloc(0)?,
            found: device.alloc(0)?,
            values: device.alloc(0)?,
        })
    }
    /// Bytes that it keeps: what the greatest batch so far needed.
    pub fn scratch_bytes(&self) -> usize {
        let of_cpu = self.found.bytes() + self.values.bytes();
        self.counters.bytes() + self.numbered.bytes() + self.alone.bytes() + of_cpu
    }

    /// Looks up every key: for each one that is in the map the row `numbers[r]`, its index in
    /// `queries`, and `values[r]`, its value, and the number of rows as `count[0]`. A key that
    /// is asked for twice has two rows.
    ///
    /// Rows come in any order, on a CPU in that of the queries; what is behind them in the arrays
    /// is not defined. See [the cost](Self#cost). Errors: arrays of fewer elements than there
    /// are queries, buffers or a map of another device, out of memory.
    pub fn join_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        mut numbers: ViewMut<'_, u32>,
        mut values: ViewMut<'_, V>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let n = self.check(stream, map, queries, &mut count)?;
        check_length("numbers", numbers.len().min(n as usize), "queries", n as usize)?;
        check_length("values", values.len().min(n as usize), "queries", n as usize)?;
        let (numbers_arg, values_arg) =
            (numbers.arg("numbers", stream)?, values.arg("values", stream)?);
        match &map.table.storage {
            Storage::Kernels(_) if n > 0 => {
                count.fill_bytes(0, stream)?;
                let table = map.table(stream)?;
                let to = RowsOut {
                    numbers: numbers_arg,
                    values: values_arg,
                    count: count.arg("count", stream)?,
                };
                let route = self.route(n, true, map);
                let answering = answering(route.as_ref(), keep::FOUND);
                let (memory, counters) = (&mut self.numbered, &mut self.counters);
                let shared = |grid, sent| {
                    // SAFETY: the queries as sent; room for a row for each.
                    unsafe { map_join::launch(stream, grid, answering, table, sent, to) }
                };
                let direct = |Direct { source, grid }, keys, sent| {
                    // SAFETY: as above; what was not sent is not looked at.
                    unsafe {
                        map_join_direct::launch(
                            stream, grid, source, answering, table, keys, sent, to,
                        )
                    }
                };
                answer::<LayoutOf<K, V>, Numbered>(
                    stream, route, table, queries, memory, counters, shared, direct,
                )
            }
            Storage::Kernels(_) => count.fill_bytes(0, stream),
            Storage::Cpu(table) => {
                let (found, of_all) = self.on_cpu(table, map, queries, true)?;
                let (numbers, values) = (numbers.elements("numbers")?, values.elements("values")?);
                compact(map.device(), found, 1, numbers, |i| i as u32);
                let rows = compact(map.device(), found, 1, values, |i| of_all[i]);
                count.elements("count")?[0] = rows as u64;
                Ok(())
            }
        }
    }
    /// The queries that are in the map, each as often as it is asked for: `keys[..count[0]]`. A
    /// semi-join.
    ///
    /// Otherwise as [`join_into`](Self::join_into).
    pub fn semi_join_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.filter(stream, map, queries, Some(keys), count, keep::FOUND)
    }
    /// The queries that are not in the map, each as often as it is asked for: `keys[..count[0]]`.
    /// An anti-join.
    ///
    /// Otherwise as [`join_into`](Self::join_into).
    pub fn anti_join_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.filter(stream, map, queries, Some(keys), count, keep::MISSING)
    }
    /// How many of the queries are in the map: `count[0]`. What [`Map::count_into`] tells, at the
    /// cost of a join.
    ///
    /// Otherwise as [`join_into`](Self::join_into).
    pub fn count_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.filter(stream, map, queries, None, count, keep::COUNT)
    }

    fn filter(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        mut kept: Option<ViewMut<'_, K>>,
        mut count: ViewMut<'_, u64>,
        keep: u32,
    ) -> Result<()> {
        let n = self.check(stream, map, queries, &mut count)?;
        if let Some(kept) = &mut kept {
            check_length("keys", kept.len().min(n as usize), "queries", n as usize)?;
            kept.arg("keys", stream)?;
        }
        match &map.table.storage {
            Storage::Kernels(_) if n > 0 => {
                count.fill_bytes(0, stream)?;
                let table = map.table(stream)?;
                let count = count.arg("count", stream)?;
                let route = self.route(n, false, map);
                let keys = kept.unwrap_or(self.no_keys.view_mut()).arg("keys", stream)?;
                let (to, of_key) = (KeysOut { keys, count }, table.of_key());
                let answering = answering(route.as_ref(), keep);
                let (memory, counters) = (&mut self.alone, &mut self.counters);
                let shared = |grid, sent| {
                    // SAFETY: the queries as sent; room for each.
                    unsafe { map_filter::launch(stream, grid, answering, of_key, sent, to) }
                };
                let direct = |Direct { source, grid }, keys, sent| {
                    // SAFETY: as in `join_into`.
                    unsafe {
                        map_filter_direct::launch(
                            stream, grid, source, answering, of_key, keys, sent, to,
                        )
                    }
                };
                answer::<LayoutOf<K, V>, Alone>(
                    stream, route, table, queries, memory, counters, shared, direct,
                )
            }
            Storage::Kernels(_) => count.fill_bytes(0, stream),
            Storage::Cpu(table) => {
                let Some(mut kept) = kept else { return map.count_into(stream, queries, count) };
                let (found, _) = self.on_cpu(table, map, queries, false)?;
                let (queries, kept) = (queries.elements("queries")?, kept.elements("keys")?);
                let flag = (keep == keep::FOUND) as u8;
                let keys = compact(map.device(), found, flag, kept, |i| queries[i]);
                count.elements("count")?[0] = keys as u64;
                Ok(())
            }
        }
    }
    /// How many queries there are.
    fn check(
        &self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        count: &mut ViewMut<'_, u64>,
    ) -> Result<u32> {
        check_device("map", map.device(), &self.device)?;
        check_device("stream", stream.device(), &self.device)?;
        check_length("count", count.len(), "one sum", 1)?;
        queries.arg("queries", stream)?;
        count.arg("count", stream)?;
        count32("queries", queries.len())
    }
    /// How queries of which `values` are wanted, or only keys, get to their bins.
    fn route(&self, n: u32, values: bool, map: &Map<K, V>) -> Option<Route> {
        let max_shared = self.device.max_shared();
        let plan = &map.table.plan;
        Route::new::<LayoutOf<K, V>>(n, plan.n, values, plan.shape, max_shared, self.rule)
    }
    /// Whether the map holds each query and, if asked for, the values, which the CPU knows in the
    /// order of the queries.
    fn on_cpu(
        &mut self,
        table: &OnCpu<Pairs<K, V>>,
        map: &Map<K, V>,
        queries: View<'_, K>,
        with_values: bool,
    ) -> Result<(&[u8], &[V])> {
        let n = queries.len();
        reserve(&mut self.found, n)?;
        reserve(&mut self.values, if with_values { n } else { 0 })?;
        let (finder, queries) = (table.finder(map.shape())?, queries.elements("queries")?);
        let mut found = self.found.view_mut().slice(..n)?;
        let found = found.elements("found")?;
        if with_values {
            let mut values = self.values.view_mut().slice(..n)?;
            let values = values.elements("values")?;
            finder.find(&self.device, queries, values, V::narrowed(0), found)?;
        } else {
            finder.contains(&self.device, queries, found)?;
        }
        let (found, values) = (self.found.view().first(n), self.values.view());
        Ok((found.elements("found")?, values.elements("values")?))
    }
}
impl<K: Key, V: Value> std::fmt::Debug for MapJoiner<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        write!(
            f,
            "MapJoiner<{key}, {value}>[{} bytes] on {}",
            self.scratch_bytes(),
            self.device.name()
        )
    }
}

/// What the blocks that answer must know.
fn answering(route: Option<&Route>, keep: u32) -> Answering {
    let (pass, blocks) = route.map_or((Pass::new(1, 0, 0), 1), |route| (route.last, route.blocks));
    Answering { pass, blocks, keep }
}

/// `item(i)` of each `i` whose flag is `flag`, in order, close together. Returns how many they are.
///
/// Chunks are counted first, then each writes its own part.
fn compact<T: Element>(
    device: &Device,
    flags: &[u8],
    flag: u8,
    output: &mut [T],
    item: impl Fn(usize) -> T + Sync,
) -> usize {
    const CHUNK: usize = 32 << 10;
    let write = |first: usize, flags: &[u8], output: &mut [T]| {
        let kept = (first..).zip(flags).filter(|&(_, &f)| f == flag).map(|(i, _)| item(i));
        output.iter_mut().zip(kept).map(|(to, item)| *to = item).count()
    };
    if flags.len() <= CHUNK {
        return write(0, flags, output);
    }
    device.install(|| {
        let counts =
            flags.par_chunks(CHUNK).map(|chunk| chunk.iter().filter(|&&f| f == flag).count());
        let counts = counts.collect::<Vec<_>>();
        let (mut rest, mut parts) = (output, Vec::with_capacity(counts.len()));
        for &count in &counts {
            let (part, after) = rest.split_at_mut(count);
            parts.push(part);
            rest = after;
        }
        let chunks = flags.par_chunks(CHUNK).zip(parts).enumerate();
        chunks.for_each(|(i, (chunk, part))| {
            write(i * CHUNK, chunk, part);
        });
        counts.iter().sum()
    })
}
