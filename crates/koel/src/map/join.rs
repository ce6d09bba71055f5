//! Lookups that answer in any order: see [`MapJoiner`].
mod answer;
#[cfg(test)]
mod tests;

use super::{LayoutOf, Map, MapStore, Pairs, RowsTo, StoreOf};
use crate::device::{Apart, Buffer, Device, Element, Stream, View, ViewMut, check_device};
use crate::error::{Result, check_length, count32};
use crate::parallel;
use crate::table::sending::{Route, RouteTuning, SendMemory, reserve};
use crate::table::{Family, OnCpu, Storage, Table};
use crate::types::{DeviceKey, DeviceValue, Key, KeyBits, Value, ValueBits, keys_on, write_some};
use answer::{Direct, answer};
use koel_kernels::map::join::{
    Answering, RowsOut, keep, map_filter, map_filter_direct, map_join, map_join_direct,
};
use koel_kernels::table::append::KeysOut;
use koel_kernels::table::sending::{Alone, Numbered, Pass};

/// Looks up many keys, answers in any order, and keeps scratch memory across batches.
///
/// A lookup in a [`Map`] reads memory at random, which on a GPU costs several times as much as
/// sequential reads. A joiner partitions the queries like the table, reads each partition once,
/// sequentially, and answers its queries on chip. This exceeds the rate of random reads if the
/// table is larger than the caches (64 MiB) and there is at least one query per four of its pairs.
/// Otherwise the joiner looks up the keys one by one. The sizes alone determine which way it takes.
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
/// On a GPU, for 32-bit keys and values: 36 bytes of memory traffic per query for partitioning, 8
/// per row, and one read of the table; if only keys are filtered, 20 per query and 4 per key of the
/// result. For 64-bit keys, twice as much. Takes two fills and four launches, and does not wait.
/// Allocates nothing if it has joined as many queries with as big a map before; it can then be
/// recorded in a [graph](Stream::capture). Scratch memory is about 18 bytes per query, 9 if only
/// keys are filtered, and twice that for 64-bit keys.
///
/// Queries that are not distributed like random keys cost more. In the worst cases, as when half of
/// them are for one key or all are for one partition, a join costs as much as partitioning plus a
/// lookup of every query.
///
/// Keys of a map with keys or values of more than 8 bytes are looked up one by one, and the answers
/// compacted, in query order: 4.13 sectors of 32 bytes at random per query that the map holds, and
/// 60 bytes of memory traffic with 16-byte keys and values. Scratch memory is 26 bytes per query
/// and its value, 6 if only keys are filtered.
pub struct MapJoiner<K: Key = u32, V: Value = u32> {
    device: Device,
    joiner: <StoreOf<K, V> as MapStore>::Joiner,
}
impl<K: Key, V: Value> MapJoiner<K, V> {
    /// Creates a joiner without scratch memory.
    pub fn new(device: &Device) -> Result<MapJoiner<K, V>> {
        Ok(MapJoiner { device: device.clone(), joiner: StoreOf::<K, V>::joiner(device)? })
    }
    /// Returns the bytes of scratch memory, which the largest batch so far determines.
    pub fn scratch_bytes(&self) -> usize {
        StoreOf::<K, V>::bytes_of_joiner(&self.joiner)
    }
}
impl<K: DeviceKey, V: Value> MapJoiner<K, V> {
    /// Looks up every key. Writes a row for each one that the map holds: its index in `queries` to
    /// `numbers[r]`, its value to `values[r]`. Writes the number of rows to `count[0]`, the only
    /// element. A key that is queried twice gets two rows.
    ///
    /// Rows are in any order, on a CPU in query order. Array elements after the last row are
    /// undefined. See [the cost](Self#cost). Errors: `numbers` or `values` shorter than `queries`,
    /// a `count` that is not one element long, more queries than 32-bit indices can address,
    /// buffers or a map of another device, out of memory.
    pub fn join_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        numbers: ViewMut<'_, u32>,
        values: ViewMut<'_, V>,
        count: ViewMut<'_, u64>,
    ) -> Result<()>
    where
        V: DeviceValue,
    {
        let queries = keys_on(stream, queries)?;
        write_some(stream, values, |values| {
            let rows = RowsTo { numbers, values, count };
            map.store.join_into(&mut self.joiner, stream, queries.view(), rows)
        })
    }
    /// Writes the queries that the map holds to `keys[..count[0]]`, each as often as it is queried:
    /// a semi-join.
    ///
    /// Otherwise like [`join_into`](Self::join_into).
    pub fn semi_join_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.filter_into(stream, map, (queries, keys), count, keep::FOUND)
    }
    /// Writes the queries that the map does not hold to `keys[..count[0]]`, each as often as it is
    /// queried: an anti-join.
    ///
    /// Otherwise like [`join_into`](Self::join_into).
    pub fn anti_join_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.filter_into(stream, map, (queries, keys), count, keep::MISSING)
    }
    /// Writes how many of the queries the map holds to `count[0]`. The result is that of
    /// [`Map::count_into`], the cost that of a join.
    ///
    /// Otherwise like [`join_into`](Self::join_into).
    pub fn count_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        queries: View<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let (joiner, queries) = (&mut self.joiner, keys_on(stream, queries)?);
        map.store.filter_into(joiner, stream, queries.view(), None, count, keep::COUNT)
    }
    fn filter_into(
        &mut self,
        stream: &Stream,
        map: &Map<K, V>,
        (queries, keys): (View<'_, K>, ViewMut<'_, K>),
        count: ViewMut<'_, u64>,
        kept: u32,
    ) -> Result<()> {
        let queries = keys_on(stream, queries)?;
        write_some(stream, keys, |keys| {
            let (joiner, keys) = (&mut self.joiner, Some(keys));
            map.store.filter_into(joiner, stream, queries.view(), keys, count, kept)
        })
    }
}
impl<K: Key, V: Value> std::fmt::Debug for MapJoiner<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
        let (bytes, device) = (self.scratch_bytes(), self.device.name());
        write!(f, "MapJoiner<{key}, {value}>[{bytes} bytes] on {device}")
    }
}

/// A joiner of bits.
pub struct Joiner<K: KeyBits, V: ValueBits> {
    device: Device,
    tuning: RouteTuning,
    /// Kernels only: the words they share, then the fill of the bins.
    counters: Buffer<u32>,
    numbered: SendMemory<u64>,
    alone: SendMemory<K>,
    /// Output for keys of a count, which writes none.
    no_keys: Buffer<K>,
    /// CPU only: all answers, in query order.
    found: Buffer<u8>,
    values: Buffer<V>,
}

impl<K: KeyBits, V: ValueBits> Joiner<K, V> {
    pub(super) fn new(device: &Device, tuning: RouteTuning) -> Result<Joiner<K, V>> {
        Ok(Joiner {
            device: device.clone(),
            tuning,
            counters: device.alloc(0)?,
            numbered: SendMemory::new(device)?,
            alone: SendMemory::new(device)?,
            no_keys: device.alloc(0)?,
            found: device.alloc(0)?,
            values: device.alloc(0)?,
        })
    }
    pub(super) fn scratch_bytes(&self) -> usize {
        let of_cpu = self.found.bytes() + self.values.bytes();
        self.counters.bytes() + self.numbered.bytes() + self.alone.bytes() + of_cpu
    }

    /// See [`MapJoiner::join_into`].
    pub(super) fn join_into(
        &mut self,
        stream: &Stream,
        map: &Table<Pairs<K, V>>,
        queries: View<'_, K>,
        mut numbers: ViewMut<'_, u32>,
        mut values: ViewMut<'_, V>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = self.check(stream, map, queries, &mut count)?;
        check_length("numbers", numbers.len().min(n as usize), "queries", n as usize)?;
        check_length("values", values.len().min(n as usize), "queries", n as usize)?;
        let (numbers_arg, values_arg) =
            (numbers.arg("numbers", stream)?, values.arg("values", stream)?);
        match &map.storage {
            Storage::Kernels(_) if n > 0 => {
                count.fill_bytes(0, stream)?;
                let table = Pairs::<K, V>::table_ref(map.handles(stream)?);
                let to = RowsOut {
                    numbers: numbers_arg,
                    values: values_arg,
                    count: count.arg("count", stream)?,
                };
                let route = self.route(n, true, map);
                let answering = answering(route.as_ref(), keep::FOUND);
                let (memory, counters) = (&mut self.numbered, &mut self.counters);
                let shared = |grid, sent| {
                    // SAFETY: the queries are as sent; there is room for a row per query.
                    unsafe { map_join::launch(stream, grid, answering, table, sent, to) }
                };
                let direct = |Direct { source, grid }, keys, sent| {
                    // SAFETY: as above; queries that were not sent are not read.
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
                compact(&map.device, found, 1, numbers, |i| i as u32)?;
                let rows = compact(&map.device, found, 1, values, |i| of_all[i])?;
                count.elements("count")?[0] = rows as u64;
                Ok(())
            }
        }
    }
    /// Looks up every key, and writes those that `keep` says, or only their number: see
    /// [`MapJoiner::semi_join_into`].
    pub(super) fn filter(
        &mut self,
        stream: &Stream,
        map: &Table<Pairs<K, V>>,
        queries: View<'_, K>,
        mut kept: Option<ViewMut<'_, K>>,
        mut count: ViewMut<'_, u64>,
        keep: u32,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = self.check(stream, map, queries, &mut count)?;
        if let Some(kept) = &mut kept {
            check_length("keys", kept.len().min(n as usize), "queries", n as usize)?;
            kept.arg("keys", stream)?;
        }
        match &map.storage {
            Storage::Kernels(_) if n > 0 => {
                count.fill_bytes(0, stream)?;
                let table = Pairs::<K, V>::table_ref(map.handles(stream)?);
                let count = count.arg("count", stream)?;
                let route = self.route(n, false, map);
                let keys = kept.unwrap_or(self.no_keys.view_mut()).arg("keys", stream)?;
                let (to, of_key) = (KeysOut { keys, count }, table.of_key());
                let answering = answering(route.as_ref(), keep);
                let (memory, counters) = (&mut self.alone, &mut self.counters);
                let shared = |grid, sent| {
                    // SAFETY: the queries are as sent; there is room for each.
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
                let keys = compact(&map.device, found, flag, kept, |i| queries[i])?;
                count.elements("count")?[0] = keys as u64;
                Ok(())
            }
        }
    }
    /// Checks the arguments, and returns the number of queries.
    fn check(
        &self,
        stream: &Stream,
        map: &Table<Pairs<K, V>>,
        queries: View<'_, K>,
        count: &mut ViewMut<'_, u64>,
    ) -> Result<u32> {
        check_device("map", &map.device, &self.device)?;
        check_device("stream", stream.device(), &self.device)?;
        check_length("count", count.len(), "the total", 1)?;
        queries.arg("queries", stream)?;
        count.arg("count", stream)?;
        count32("queries", queries.len())
    }
    /// Returns how queries reach their bins. `values`: whether their values are wanted, too.
    fn route(&self, n: u32, values: bool, map: &Table<Pairs<K, V>>) -> Option<Route> {
        let max_shared = self.device.max_shared();
        let plan = &map.plan;
        Route::new::<LayoutOf<K, V>>(n, plan.n, values, plan.shape, max_shared, self.tuning)
    }
    /// Looks the queries up on the CPU. Returns whether the map holds each and, if requested, the
    /// values, in query order.
    fn on_cpu(
        &mut self,
        table: &OnCpu<Pairs<K, V>>,
        map: &Table<Pairs<K, V>>,
        queries: View<'_, K>,
        with_values: bool,
    ) -> Result<(&[u8], &[V])> {
        let n = queries.len();
        reserve(&mut self.found, n)?;
        reserve(&mut self.values, if with_values { n } else { 0 })?;
        let (finder, queries) = (table.finder(map.plan.shape)?, queries.elements("queries")?);
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
/// Returns the parameters of the blocks that answer.
fn answering(route: Option<&Route>, keep: u32) -> Answering {
    let (pass, blocks) = route.map_or((Pass::new(1, 0, 0), 1), |route| (route.last, route.blocks));
    Answering { pass, blocks, keep }
}

/// Writes `item(i)` for each `i` whose flag is `flag`, in order and without gaps. Returns their
/// number.
///
/// Counts the items of each chunk first; then each chunk writes its own part.
fn compact<T: Element>(
    device: &Device,
    flags: &[u8],
    flag: u8,
    output: &mut [T],
    item: impl Fn(usize) -> T + Sync,
) -> Result<usize> {
    const CHUNK: usize = 32 << 10;
    let write = |first: usize, flags: &[u8], output: &mut [T]| {
        let kept = (first..).zip(flags).filter(|&(_, &f)| f == flag).map(|(i, _)| item(i));
        output.iter_mut().zip(kept).map(|(to, item)| *to = item).count()
    };
    if flags.len() <= CHUNK {
        return Ok(write(0, flags, output));
    }
    device.install(|| {
        let counts = parallel::map(flags.chunks(CHUNK), |_, chunk| {
            chunk.iter().filter(|&&f| f == flag).count()
        })?;
        let parts = parallel::split(output, counts.iter().copied());
        parallel::each(flags.chunks(CHUNK).zip(parts), |i, (chunk, part)| {
            write(i * CHUNK, chunk, part);
        });
        Ok(counts.iter().sum())
    })
}
