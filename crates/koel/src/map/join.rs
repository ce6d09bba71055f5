//! Lookups whose answers may come in any order: see [`MapJoiner`].
use super::kernels::Kernels;
use super::{Key, LayoutOf, Map, OnCpu, Storage, Value};
use crate::device::{Buffer, Device, Element, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use koel_kernels::map::find::Table;
use koel_kernels::map::join::{
    ANSWERING, Alone, Answering, BINS, DIRECT_ITEMS, MANY_BINS, MANY_SHARED, MANY_THREADS,
    Numbered, Pass, THREADS, items, keep, many_items, shared_bytes, source, state,
};
use koel_kernels::map::layout::{Layout, Shape};
use koel_simt::{Buf, In};
use rayon::prelude::*;

#[cfg(test)]
mod tests;

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
/// joiner.join_into(&stream, &map, queries.view(), numbers.view_mut(), values.view_mut(),
/// count.view_mut())?; } let rows = count.download()?[0] as usize; let numbers =
/// numbers.view().slice(..rows)?.download()?; let mut rows =
/// numbers.into_iter().zip(values.download()?).collect::<Vec<_>>(); rows.sort(); // any order
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
    numbered: Sent<u64>,
    alone: Sent<K>,
    /// What counting writes.
    no_keys: Buffer<K>,
    /// Of the CPU: every answer, in the order of the queries.
    found: Buffer<u8>,
    values: Buffer<V>,
}

/// From when on queries are partitioned, and how.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// Bytes of a table that is small enough to be read at random.
    pub cached: usize,
    /// Pairs a query: with more of them most of the table would be read in vain.
    pub pairs: u32,
    /// Partitions are answered from shared memory, if they fit there.
    pub shared: bool,
    /// If not: bytes of a part of the table that the cache keeps while the queries of a bin are
    /// looked up, at most.
    pub part: usize,
    /// Bins of a pass, and of a first pass that makes many.
    pub bins: u32,
    pub many_bins: u32,
    /// The first pass makes many bins, also where fewer would do.
    pub smallest: bool,
    /// Places of the overflow area besides an eighth of the queries.
    pub area: u32,
    /// Blocks that answer, at least, where a partition has queries for several.
    pub blocks: u32,
}
impl Rule {
    pub const TUNED: Rule = Rule {
        cached: 64 << 20,
        pairs: 4,
        shared: true,
        part: 16 << 20,
        bins: BINS,
        many_bins: MANY_BINS,
        smallest: false,
        area: 1 << 12,
        blocks: 1 << 11,
    };
}

/// How queries get to the bins from which they are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The first of two passes.
    pub groups: Option<Pass>,
    /// The last pass, or the only one.
    pub last: Pass,
    /// The first pass, or the only one, has more bins than the smaller of its kernels can have.
    pub many: bool,
    /// Bins are partitions, answered from shared memory; or else looked up in device memory, one
    /// after the other.
    pub shared: bool,
    /// Blocks that share the queries of a bin.
    pub blocks: u32,
}
impl Route {
    /// For `n` queries in a table of `pairs`, of which `values` are wanted or only keys; `None`:
    /// they are to be looked up as they come.
    pub fn new<L: Layout>(
        n: u32,
        pairs: u32,
        values: bool,
        shape: Shape,
        max_shared: u32,
        rule: Rule,
    ) -> Option<Route> {
        let (all, bytes) = (shape.partitions, shape.all_buckets() as usize * L::WORDS * 8);
        if bytes <= rule.cached || n < pairs / rule.pairs {
            return None;
        }
        // Partitions of a bin of the first pass.
        let most = if max_shared >= MANY_SHARED { rule.many_bins } else { rule.bins };
        let each = match all.div_ceil(rule.bins) {
            _ if all <= most => 1,
            few if few <= rule.bins && !rule.smallest => few,
            _ => all.div_ceil(most),
        };
        let pass = |each: u32| {
            let mean = n as f64 * each as f64 / all as f64;
            let room = ((mean + 8.0 * mean.sqrt()) as u32 + 16).next_multiple_of(4);
            Pass::new(each, room, n / 8 + rule.area)
        };
        let shared =
            rule.shared && shared_bytes(shape.buckets, values && L::SLOT_WORDS > 1) <= max_shared;
        let (groups, last) =
            if shared && each > 1 { (Some(pass(each)), pass(1)) } else { (None, pass(each)) };
        let blocks = match shared {
            true => (rule.blocks / all).clamp(1, last.room.div_ceil(ANSWERING * 8)),
            false => last.room.div_ceil(ANSWERING * DIRECT_ITEMS),
        };
        let route = Route { groups, last, many: all.div_ceil(each) > rule.bins, shared, blocks };
        let fits = if shared {
            each <= rule.bins
        } else {
            bytes / all as usize * each as usize <= rule.part
        };
        (fits && route.places(all).into_iter().all(|places| places < 1 << 31)).then_some(route)
    }
    /// Bins of the first of two passes, and of the last.
    pub(crate) fn bins(&self, partitions: u32) -> [u32; 2] {
        [
            self.groups.map_or(0, |g| partitions.div_ceil(g.each)),
            partitions.div_ceil(self.last.each),
        ]
    }
    /// Places of the bins of both passes, and of the overflow area.
    fn places(&self, partitions: u32) -> [usize; 3] {
        let [groups, last] = self.bins(partitions).map(|bins| bins as usize);
        let of_groups = self.groups.map_or(0, |g| groups * g.room as usize);
        [of_groups, last * self.last.room as usize, self.last.area as usize]
    }
}

/// Memory for the queries of one form on their way.
pub(crate) struct Sent<T> {
    by_group: Buffer<T>,
    by_bin: Buffer<T>,
    overflow: Buffer<T>,
}
impl<T: Element> Sent<T> {
    pub(crate) fn new(device: &Device) -> Result<Sent<T>> {
        Ok(Sent {
            by_group: device.alloc(0)?,
            by_bin: device.alloc(0)?,
            overflow: device.alloc(0)?,
        })
    }
    pub(crate) fn bytes(&self) -> usize {
        self.by_group.bytes() + self.by_bin.bytes() + self.overflow.bytes()
    }
}
/// Makes a buffer longer if it is too short; what it holds is lost.
pub(crate) fn reserve<T: Element>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        let device = buffer.device().clone();
        // The old memory is given back first: both need not fit.
        *buffer = device.alloc(0)?;
        *buffer = device.alloc(len)?;
    }
    Ok(())
}
/// What has been sent, as kernels read it.
pub(crate) struct Arrived<T> {
    pub queries: In<T>,
    pub overflow: In<T>,
    /// Queries of each bin; and to change.
    pub cursors: In<u32>,
    pub to_cursors: Buf<u32>,
    pub spilled: In<u32>,
    /// Of the bins of the first of two passes.
    pub group_spilled: In<u32>,
    pub state: In<u32>,
    /// Words of all counters: what is behind them is the caller's.
    pub counters: usize,
}
/// Which queries a launch looks up in device memory.
struct Direct<T> {
    /// One of [`source`].
    source: u32,
    queries: In<T>,
    /// Blocks.
    grid: u32,
}
impl<T: Copy> Arrived<T> {
    /// Nothing yet.
    fn nothing(stream: &Stream, sent: &Sent<T>, counters: &mut Buffer<u32>) -> Result<Arrived<T>>
    where
        T: Element,
    {
        let (none, words) =
            (sent.overflow.view().arg("queries", stream)?, counters.view().arg("state", stream)?);
        let [cursors, spilled, group_spilled, state] = [words; 4];
        let to_cursors = counters.view_mut().arg("state", stream)?;
        Ok(Arrived {
            queries: none,
            overflow: none,
            cursors,
            to_cursors,
            spilled,
            group_spilled,
            state,
            counters: 0,
        })
    }
    /// What is looked up in device memory of `n` queries, in this order.
    fn direct(
        &self,
        n: u32,
        route: Option<&Route>,
        partitions: u32,
        device: &Device,
    ) -> [Option<Direct<T>>; 2] {
        let all = n.div_ceil(ANSWERING * DIRECT_ITEMS);
        let Some(route) = route else {
            return [
                Some(Direct { source: source::INPUT, queries: self.overflow, grid: all }),
                None,
            ];
        };
        let grid = route.bins(partitions)[1] * route.blocks;
        let bins = Direct { source: source::BIN, queries: self.queries, grid };
        // Normally for none, or for a few.
        let grid = all.min(4 * device.parallelism() as u32);
        let rest = Direct { source: source::OVERFLOW, queries: self.overflow, grid };
        [(!route.shared).then_some(bins), Some(rest)]
    }
}

/// A form of queries and its passes.
#[allow(clippy::too_many_arguments, reason = "as many as the kernels have")]
pub(crate) trait Form<L: Kernels> {
    type Element: Element;
    /// Elements of a query.
    const ELEMENTS: usize;
    /// Bytes of a query.
    const BYTES: u32 = (size_of::<Self::Element>() * Self::ELEMENTS) as u32;

    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn from_input(
        many: bool,
        stream: &Stream,
        grid: u32,
        n: u32,
        aligned: u32,
        shape: Shape,
        pass: Pass,
        header: In<u32>,
        queries: In<L::Key>,
        out: Buf<Self::Element>,
        overflow: Buf<Self::Element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        state: Buf<u32>,
    ) -> Result<()>;
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn from_groups(
        stream: &Stream,
        grid: u32,
        shape: Shape,
        groups: Pass,
        tiles: u32,
        pass: Pass,
        header: In<u32>,
        group_cursors: In<u32>,
        group_spilled: In<u32>,
        input: In<Self::Element>,
        out: Buf<Self::Element>,
        overflow: Buf<Self::Element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        state: Buf<u32>,
    ) -> Result<()>;
}
macro_rules! form {
    ($form:ty, $element:ty, $elements:expr, $from_input:ident $from_input_many:ident $from_groups:ident) => {
        impl<L: Kernels> Form<L> for $form {
            type Element = $element;
            const ELEMENTS: usize = $elements;
            unsafe fn from_input(
                many: bool,
                stream: &Stream,
                grid: u32,
                n: u32,
                aligned: u32,
                shape: Shape,
                pass: Pass,
                header: In<u32>,
                queries: In<L::Key>,
                out: Buf<$element>,
                overflow: Buf<$element>,
                cursors: Buf<u32>,
                spilled: Buf<u32>,
                state: Buf<u32>,
            ) -> Result<()> {
                let launch = if many { L::$from_input_many } else { L::$from_input };
                // SAFETY: the caller's.
                unsafe {
                    launch(
                        stream, grid, n, aligned, shape, pass, header, queries, out, overflow,
                        cursors, spilled, state,
                    )
                }
            }
            unsafe fn from_groups(
                stream: &Stream,
                grid: u32,
                shape: Shape,
                groups: Pass,
                tiles: u32,
                pass: Pass,
                header: In<u32>,
                group_cursors: In<u32>,
                group_spilled: In<u32>,
                input: In<$element>,
                out: Buf<$element>,
                overflow: Buf<$element>,
                cursors: Buf<u32>,
                spilled: Buf<u32>,
                state: Buf<u32>,
            ) -> Result<()> {
                // SAFETY: the caller's.
                unsafe {
                    L::$from_groups(
                        stream,
                        grid,
                        shape,
                        groups,
                        tiles,
                        pass,
                        header,
                        group_cursors,
                        group_spilled,
                        input,
                        out,
                        overflow,
                        cursors,
                        spilled,
                        state,
                    )
                }
            }
        }
    };
}
form! { Numbered, u64, size_of::<L::Key>() / 4, join_from_input join_from_input_many join_from_groups }
form! { Alone, L::Key, 1, filter_from_input filter_from_input_many filter_from_groups }

/// Makes memory long enough for queries on this route. Tells the words of the first pass's cursors
/// and of the last one's, and of all counters: of each pass cursors, and where bins were left:
/// whole lines, so that none is read in a launch before the one that changes it.
pub(crate) fn reserve_route<L: Kernels, F: Form<L>>(
    route: &Route,
    shape: Shape,
    sent: &mut Sent<F::Element>,
    counters: &mut Buffer<u32>,
    behind: usize,
) -> Result<(usize, usize, usize)> {
    let places = route.places(shape.partitions).map(|queries| queries * F::ELEMENTS);
    reserve(&mut sent.by_group, places[0])?;
    reserve(&mut sent.by_bin, places[1])?;
    reserve(&mut sent.overflow, places[2])?;
    let [of_groups, of_bins] =
        route.bins(shape.partitions).map(|bins| (bins as usize).next_multiple_of(state::WORDS));
    let words = state::WORDS + 2 * (of_groups + of_bins);
    reserve(counters, words + behind)?;
    Ok((of_groups, of_bins, words))
}
/// Sends queries to the bins of a table of this shape and with this header: a fill, a launch, with
/// two passes another one. So many words `behind` the counters are filled with zeros too.
#[allow(clippy::too_many_arguments, reason = "what sending has at hand")]
pub(crate) fn send<L: Kernels, F: Form<L>>(
    stream: &Stream,
    route: &Route,
    shape: Shape,
    header: In<u32>,
    queries: View<'_, L::Key>,
    sent: &mut Sent<F::Element>,
    counters: &mut Buffer<u32>,
    behind: usize,
) -> Result<Arrived<F::Element>> {
    let n = queries.len() as u32;
    let (of_groups, of_bins, words) = reserve_route::<L, F>(route, shape, sent, counters, behind)?;
    counters.view_mut().slice(..words + behind)?.fill_bytes(0, stream)?;
    let section = |start: usize, len| [start..start + len, start + len..start + 2 * len];
    let of_bins = section(state::WORDS + 2 * of_groups, of_bins);
    let of_groups = section(state::WORDS, of_groups);
    {
        let (pass, [cursors, spilled]) = match route.groups {
            Some(pass) => (pass, of_groups.clone()),
            None => (route.last, of_bins.clone()),
        };
        let tile = if route.many {
            MANY_THREADS * many_items(F::BYTES)
        } else {
            THREADS * items(F::BYTES)
        };
        let aligned = queries.is_aligned(16) as u32;
        let queries = queries.arg("queries", stream)?;
        let out = if route.groups.is_some() { &mut sent.by_group } else { &mut sent.by_bin };
        let out = out.view_mut().arg("queries by bin", stream)?;
        let overflow = sent.overflow.view_mut().arg("overflow", stream)?;
        let cursors = counters.view_mut().slice(cursors)?.arg("cursors", stream)?;
        let spilled = counters.view_mut().slice(spilled)?.arg("spilled", stream)?;
        let state = counters.view_mut().slice(..state::WORDS)?.arg("state", stream)?;
        let grid = n.div_ceil(tile);
        // SAFETY: `n` queries; a cursor a bin; `out` has every bin's room, `overflow` the area; all
        // counters are zero.
        unsafe {
            F::from_input(
                route.many, stream, grid, n, aligned, shape, pass, header, queries, out, overflow,
                cursors, spilled, state,
            )
        }?;
    }
    let [cursors, spilled] = of_bins;
    let of_all_groups = of_groups[1].clone();
    if let Some(group_pass) = route.groups {
        let tiles = group_pass.room.div_ceil(THREADS * items(F::BYTES));
        let [group_cursors, group_spilled] = of_groups;
        let group_cursors = counters.view().slice(group_cursors)?.arg("cursors", stream)?;
        let group_spilled = counters.view().slice(group_spilled)?.arg("spilled", stream)?;
        let input = sent.by_group.view().arg("queries by group", stream)?;
        let out = sent.by_bin.view_mut().arg("queries by bin", stream)?;
        let overflow = sent.overflow.view_mut().arg("overflow", stream)?;
        let cursors = counters.view_mut().slice(cursors.clone())?.arg("cursors", stream)?;
        let spilled = counters.view_mut().slice(spilled.clone())?.arg("spilled", stream)?;
        let state = counters.view_mut().slice(..state::WORDS)?.arg("state", stream)?;
        let grid = route.bins(shape.partitions)[0] * tiles;
        // SAFETY: as above; the input has every group's room.
        unsafe {
            F::from_groups(
                stream,
                grid,
                shape,
                group_pass,
                tiles,
                route.last,
                header,
                group_cursors,
                group_spilled,
                input,
                out,
                overflow,
                cursors,
                spilled,
                state,
            )
        }?;
    }
    Ok(Arrived {
        queries: sent.by_bin.view().arg("queries by bin", stream)?,
        overflow: sent.overflow.view().arg("overflow", stream)?,
        cursors: counters.view().slice(cursors.clone())?.arg("cursors", stream)?,
        to_cursors: counters.view_mut().slice(cursors)?.arg("cursors", stream)?,
        spilled: counters.view().slice(spilled)?.arg("spilled", stream)?,
        group_spilled: counters.view().slice(of_all_groups)?.arg("spilled", stream)?,
        state: counters.view().slice(..state::WORDS)?.arg("state", stream)?,
        counters: words,
    })
}
/// Sends the queries if they have a route, and launches what answers them: `shared` with its
/// blocks, `direct` for each part.
#[allow(clippy::too_many_arguments, reason = "what sending needs, and two launches")]
fn answer<L: Kernels, F: Form<L>>(
    stream: &Stream,
    route: Option<Route>,
    table: Table<L>,
    queries: View<'_, L::Key>,
    sent: &mut Sent<F::Element>,
    counters: &mut Buffer<u32>,
    shared: impl FnOnce(u32, &Arrived<F::Element>) -> Result<()>,
    mut direct: impl FnMut(Direct<F::Element>, &Arrived<F::Element>) -> Result<()>,
) -> Result<()> {
    let (n, partitions) = (queries.len() as u32, table.shape.partitions);
    let came = match &route {
        Some(route) => {
            send::<L, F>(stream, route, table.shape, table.header, queries, sent, counters, 0)?
        }
        None => Arrived::nothing(stream, sent, counters)?,
    };
    if let Some(route) = route.filter(|route| route.shared) {
        shared(partitions * route.blocks, &came)?;
    }
    let launches = came.direct(n, route.as_ref(), partitions, stream.device());
    launches.into_iter().flatten().try_for_each(|launch| direct(launch, &came))
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
            numbered: Sent::new(device)?,
            alone: Sent::new(device)?,
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
        match &map.storage {
            Storage::Kernels(slots) if n > 0 => {
                count.fill_bytes(0, stream)?;
                let table = slots.table::<LayoutOf<K, V>>(stream, &map.plan)?;
                let keys = queries.arg("queries", stream)?;
                let count = count.arg("count", stream)?;
                let route = self.route(n, true, map);
                let answering = answering(route.as_ref(), keep::FOUND);
                let (sent, counters) = (&mut self.numbered, &mut self.counters);
                let shared = |grid, came: &Arrived<u64>| {
                    let Arrived { queries, cursors, spilled, state, .. } = *came;
                    // SAFETY: the queries as sent; room for a row for each.
                    unsafe {
                        LayoutOf::<K, V>::join(
                            stream,
                            grid,
                            answering,
                            table,
                            queries,
                            cursors,
                            spilled,
                            state,
                            numbers_arg,
                            values_arg,
                            count,
                        )
                    }
                };
                let direct = |Direct { source, queries, grid }, came: &Arrived<u64>| {
                    let Arrived { cursors, spilled, state, .. } = *came;
                    // SAFETY: as above; what was not sent is not looked at.
                    unsafe {
                        LayoutOf::<K, V>::join_direct(
                            stream,
                            grid,
                            n,
                            source,
                            answering,
                            table,
                            keys,
                            queries,
                            cursors,
                            spilled,
                            state,
                            numbers_arg,
                            values_arg,
                            count,
                        )
                    }
                };
                answer::<LayoutOf<K, V>, Numbered>(
                    stream, route, table, queries, sent, counters, shared, direct,
                )
            }
            Storage::Kernels(_) => count.fill_bytes(0, stream),
            Storage::Cpu(table) => {
                let answers = self.on_cpu(table, map, queries, true)?;
                if let (Some((found, of_all)), Some(numbers), Some(values), Some(count)) =
                    (answers, numbers.host_mut(), values.host_mut(), count.host_mut())
                {
                    compact(&map.device, found, 1, numbers, |i| i as u32);
                    count[0] = compact(&map.device, found, 1, values, |i| of_all[i]) as u64;
                }
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
        match &map.storage {
            Storage::Kernels(slots) if n > 0 => {
                count.fill_bytes(0, stream)?;
                let table = slots.table::<LayoutOf<K, V>>(stream, &map.plan)?;
                let keys = queries.arg("queries", stream)?;
                let count = count.arg("count", stream)?;
                let route = self.route(n, false, map);
                let kept = kept.unwrap_or(self.no_keys.view_mut()).arg("keys", stream)?;
                let answering = answering(route.as_ref(), keep);
                let (sent, counters) = (&mut self.alone, &mut self.counters);
                let shared = |grid, came: &Arrived<K>| {
                    let Arrived { queries, cursors, spilled, state, .. } = *came;
                    // SAFETY: the queries as sent; room for each.
                    unsafe {
                        LayoutOf::<K, V>::filter(
                            stream, grid, answering, table, queries, cursors, spilled, state, kept,
                            count,
                        )
                    }
                };
                let direct = |Direct { source, queries, grid }, came: &Arrived<K>| {
                    let Arrived { cursors, spilled, state, .. } = *came;
                    // SAFETY: as in `join_into`.
                    unsafe {
                        LayoutOf::<K, V>::filter_direct(
                            stream, grid, n, source, answering, table, keys, queries, cursors,
                            spilled, state, kept, count,
                        )
                    }
                };
                answer::<LayoutOf<K, V>, Alone>(
                    stream, route, table, queries, sent, counters, shared, direct,
                )
            }
            Storage::Kernels(_) => count.fill_bytes(0, stream),
            Storage::Cpu(table) => {
                let Some(mut kept) = kept else { return map.count_into(stream, queries, count) };
                let answers = self.on_cpu(table, map, queries, false)?;
                if let (Some((found, _)), Some(queries), Some(kept), Some(count)) =
                    (answers, queries.host(), kept.host_mut(), count.host_mut())
                {
                    let flag = (keep == keep::FOUND) as u8;
                    count[0] = compact(&map.device, found, flag, kept, |i| queries[i]) as u64;
                }
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
        for (name, device) in [("map", &map.device), ("stream", stream.device())] {
            if *device != self.device {
                return Err(Error::WrongDevice {
                    name,
                    found: device.name(),
                    expected: self.device.name(),
                });
            }
        }
        check_length("count", count.len(), "one sum", 1)?;
        queries.arg("queries", stream)?;
        count.arg("count", stream)?;
        count32("queries", queries.len())
    }
    /// How queries of which `values` are wanted, or only keys, get to their bins.
    fn route(&self, n: u32, values: bool, map: &Map<K, V>) -> Option<Route> {
        let max_shared = self.device.max_shared();
        Route::new::<LayoutOf<K, V>>(n, map.plan.n, values, map.plan.shape, max_shared, self.rule)
    }
    /// Whether the map holds each query and, if asked for, the values, which the CPU knows in the
    /// order of the queries.
    fn on_cpu(
        &mut self,
        table: &OnCpu<LayoutOf<K, V>>,
        map: &Map<K, V>,
        queries: View<'_, K>,
        with_values: bool,
    ) -> Result<Option<(&[u8], &[V])>> {
        let n = queries.len();
        reserve(&mut self.found, n)?;
        reserve(&mut self.values, if with_values { n } else { 0 })?;
        let finder = table.finder(map.plan.shape)?;
        match (queries.host(), self.found.host_mut(), self.values.host_mut()) {
            (Some(queries), Some(found), Some(values)) => {
                let found = &mut found[..n];
                if with_values {
                    finder.find(&self.device, queries, &mut values[..n], V::narrowed(0), found)?;
                } else {
                    finder.contains(&self.device, queries, found)?;
                }
                Ok(Some((found, values)))
            }
            _ => Ok(None),
        }
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
