//! Joins by kernels, with tables and rules that no few thousand queries would get, so that every
//! path is taken.
use super::super::kernels::{self, Building};
use super::super::tests::SEEDS;
use super::*;
use crate::device::DeviceKind;
use crate::duplicates::Duplicates::KeepLast;
use crate::table::Table;
use crate::table::plan::{Plan, PlanTuning};
use crate::table::slots::Slots;
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::map::join::shared_bytes;
use koel_kernels::table::layout::Layout;
use koel_kernels::table::sending::{BINS, MANY_BINS, state};
use rustc_hash::FxHashMap;
use std::fmt::Debug;

type Of<K, V> = LayoutOf<K, V>;

/// One pass, always.
const ONE: RouteTuning =
    RouteTuning { cached: 0, pairs: u32::MAX, area: 0, blocks: 1, ..RouteTuning::TUNED };
/// Two passes from nine partitions on.
const TWO: RouteTuning = RouteTuning { bins: 8, many_bins: 8, ..ONE };
/// One pass, by the kernel for many bins.
const MANY: RouteTuning = RouteTuning { bins: 4, ..ONE };
/// Two passes from nine partitions on, the first by the kernel for many bins.
const MANY_AND_TWO: RouteTuning = RouteTuning { bins: 4, many_bins: 8, ..ONE };
/// One pass into bins of several partitions, which are looked up in device memory.
const PARTS: RouteTuning = RouteTuning { shared: false, ..TWO };
/// The same, by the kernel for many bins.
const MANY_PARTS: RouteTuning = RouteTuning { shared: false, ..MANY_AND_TWO };

fn device(seed: u64) -> Device {
    Device::executor_with(seed, |exec| exec.patience = 10_000_000)
}
/// Builds a map with a plan. Returns it with its content.
fn map_of<K: KeyBits, V: ValueBits>(
    device: &Device,
    plan: Plan,
    keys: &[K],
) -> (Map<K, V>, FxHashMap<K, V>) {
    let values = (0..keys.len()).map(|i| V::narrowed(splitmix_at(9, i as u32))).collect::<Vec<_>>();
    let (stream, k, v) =
        (device.stream().unwrap(), device.upload(keys).unwrap(), device.upload(&values).unwrap());
    let mut slots = Slots::new::<Pairs<K, V>>(device, &plan).unwrap();
    let mut scratch = kernels::Scratch::new::<Of<K, V>>(device, &plan).unwrap();
    let input = Building {
        keys: k.view(),
        values: v.view(),
        duplicates: KeepLast,
        seeds: SEEDS,
        reproducible: false,
    };
    kernels::build::<Of<K, V>>(&stream, &plan, input, &mut slots, &mut scratch).unwrap();
    let map = Map::of_table(Table::of_kernels(device, plan, slots, 0, None));
    let oracle = keys.iter().copied().zip(values).collect::<FxHashMap<_, _>>();
    assert_eq!(map.report().unwrap().entries, oracle.len());
    (map, oracle)
}
fn key<K: KeyBits>(i: u32) -> K {
    // The low halves are distinct, too.
    K::narrowed(splitmix_at(5, i) << 32 | mix(i) as u64)
}
const SMALL: PlanTuning = PlanTuning {
    pairs: 100,
    one_pass: 1024,
    coarse: 4,
    small: 0,
    small_partitions: 1,
    ..PlanTuning::TUNED
};
/// Plans partitions of a hundred pairs.
fn plan(n: usize) -> Plan {
    Plan::sized(n, 0.8, SMALL).unwrap()
}
fn sorted<T: Ord + Debug>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort_unstable();
    rows
}

/// Counts after a join: queries that overflowed, were lost in the first pass, were lost in the
/// second.
type Fates = [u32; 3];
/// Compares joins, semi-joins, anti-joins and counts with the oracle. Returns the counts of the
/// join.
fn check<K: KeyBits, V: ValueBits>(
    joiner: &mut Joiner<K, V>,
    map: &Map<K, V>,
    oracle: &FxHashMap<K, V>,
    queries: &[K],
    offset: usize,
) -> Fates {
    let (device, n) = (map.device(), queries.len());
    let stream = device.stream().unwrap();
    // At an offset, so that the queries are not aligned to 16 bytes.
    let uploaded = device.upload(&[&vec![K::narrowed(0); offset], queries].concat()).unwrap();
    let view = uploaded.view().slice(offset..).unwrap();
    let (mut numbers, mut values) =
        (device.alloc::<u32>(n).unwrap(), device.alloc::<V>(n).unwrap());
    let (mut kept, mut count) = (device.alloc::<K>(n).unwrap(), device.upload(&[77u64]).unwrap());
    let rows = |count: &Buffer<u64>| ..count.download().unwrap()[0] as usize;

    let (to, to_values, table) = (numbers.view_mut(), values.view_mut(), map.as_table());
    joiner.join_into(&stream, table, view, to, to_values, count.view_mut()).unwrap();
    let state = joiner.counters.download().unwrap();
    let fates = [state::OVERFLOWED, state::LOST_FIRST, state::LOST_SECOND];
    let fates = fates.map(|w| state.get(w as usize).copied().unwrap_or(0));
    let found = numbers.download().unwrap().into_iter().zip(values.download().unwrap());
    let found = sorted(found.take(rows(&count).end).collect());
    let expected = (0..n as u32)
        .filter_map(|i| oracle.get(&queries[i as usize]).map(|&v| (i, v)))
        .collect::<Vec<_>>();
    assert!(found == expected, "{} rows, {} expected, of {n}", found.len(), expected.len());

    for there in [true, false] {
        let (to, kind) = (kept.view_mut(), if there { keep::FOUND } else { keep::MISSING });
        joiner.filter(&stream, table, view, Some(to), count.view_mut(), kind).unwrap();
        let found = sorted(kept.download().unwrap()[rows(&count)].to_vec());
        let expected = queries.iter().copied().filter(|q| oracle.contains_key(q) == there);
        assert!(found == sorted(expected.collect()), "{} keys of {n} there: {there}", found.len());
    }
    joiner.filter(&stream, table, view, None, count.view_mut(), keep::COUNT).unwrap();
    assert_eq!(rows(&count).end, expected.len());
    fates
}
fn joiner<K: KeyBits, V: ValueBits>(device: &Device, tuning: RouteTuning) -> Joiner<K, V> {
    Joiner::new(device, tuning).unwrap()
}

/// Every path, and some shares of hits.
fn ways<K: KeyBits, V: ValueBits>(seed: u64, shares: &[(u32, u32)]) {
    let device = device(seed);
    let keys = (0..3000).map(key).collect::<Vec<K>>();
    let (map, oracle) = map_of::<K, V>(&device, plan(3000), &keys);
    for (tuning, passes, each, many) in [
        (ONE, 1, 1, false),
        (TWO, 2, 1, false),
        (MANY, 1, 1, true),
        (MANY_AND_TWO, 2, 1, true),
        (PARTS, 1, 4, false),
        (MANY_PARTS, 1, 4, true),
    ] {
        let mut joiner = joiner(&device, tuning);
        let route = joiner.route(1000, true, map.as_table()).unwrap();
        assert_eq!(
            (1 + route.coarse.is_some() as u32, route.last.each, route.many),
            (passes, each, many)
        );
        for &(n, from) in shares {
            let queries = (from..from + n).map(|i| key(i ^ 1)).collect::<Vec<K>>();
            let fates = check(&mut joiner, &map, &oracle, &queries, (from == 0) as usize);
            assert_eq!(fates, [0; 3], "random keys overflow nothing");
        }
    }
}
#[test]
fn every_way_and_pairing() {
    ways::<u32, u32>(1, &[(4000, 0), (3001, 1500), (1000, 3000)]);
    ways::<u32, u64>(2, &[(1501, 2250)]);
    ways::<u64, u32>(3, &[(1501, 2250)]);
    ways::<u64, u64>(4, &[(3001, 1500)]);
}

/// Sizes around those of tiles and rounds, from zero on; a table of one partition, whose queries
/// several blocks share.
#[test]
fn sizes_around_edges() {
    let device = device(5);
    let keys = (0..900).map(key).collect::<Vec<u32>>();
    let (map, oracle) = map_of::<u32, u32>(&device, plan(900), &keys);
    let mut two = joiner(&device, TWO);
    for n in [0, 1, 2, 3, 31, 33, 1023, 1025, 7679, 7680, 7681, 7684] {
        check(&mut two, &map, &oracle, &(0..n).map(|i| key(i * 3)).collect::<Vec<_>>(), 0);
    }
    let one = Plan::sized(900, 0.8, PlanTuning { small: 0, ..PlanTuning::TUNED }).unwrap();
    let (small, oracle) = map_of::<u32, u32>(&device, one, &keys);
    assert_eq!(small.shape().partitions, 1);
    let mut shared = joiner(&device, RouteTuning { blocks: 64, ..ONE });
    assert_eq!(shared.route(9000, true, small.as_table()).unwrap().blocks, 5);
    for n in [1, 2047, 2049, 9000] {
        check(&mut shared, &small, &oracle, &(0..n).map(|i| key(i % 1500)).collect::<Vec<_>>(), 0);
    }
    let (empty, oracle) = map_of::<u32, u32>(&device, plan(0), &[]);
    check(&mut shared, &empty, &oracle, &[0, 1, u32::MAX], 0);
}

/// Keys that are queried again and again, and partitions without queries: queries that overflow, or
/// would be lost, are answered.
fn skew<K: KeyBits, V: ValueBits>(seed: u64) {
    let device = device(seed);
    let keys = (0..3000).map(key).collect::<Vec<K>>();
    let (map, oracle) = map_of::<K, V>(&device, plan(3000), &keys);
    let shape = map.shape();
    let n = 4000u32;
    let partition = |k: K| shape.partition(Of::<K, V>::hash(Of::<K, V>::mixed(7, k)));
    let of = |keep: &dyn Fn(u32) -> bool| {
        (0..)
            .map(|i| key(i % 6000))
            .filter(|&k| keep(partition(k)))
            .take(n as usize)
            .collect::<Vec<K>>()
    };
    let every =
        |hot: u32| (0..n).map(|i| if i % hot == 0 { key(1) } else { key(i) }).collect::<Vec<K>>();
    let zipf = (0..n).map(|i| (splitmix_at(3, i) >> 11) as f64 / (1u64 << 53) as f64);
    let zipf = zipf.map(|unit| key(((3000f64).ln() * unit).exp() as u32 - 1)).collect::<Vec<K>>();
    for tuning in [ONE, TWO, MANY_AND_TWO, PARTS] {
        let mut joiner = joiner(&device, RouteTuning { area: 600, ..tuning });
        let each = joiner.route(n, true, map.as_table()).unwrap().coarse.map_or(1, |g| g.each);
        let mut fate = |queries: &[K]| check(&mut joiner, &map, &oracle, queries, 0);
        for one in [1, 3001] {
            let [overflowed, first, _] = fate(&vec![key(one); n as usize]);
            assert!(overflowed >= n && first > 0, "all queries are the same");
        }
        assert!(fate(&of(&|p| p == 3))[1] > 0, "all in one partition");
        let [overflowed, first, second] = fate(&every(10));
        assert!(overflowed > 0 && first == 0 && second == 0, "one of ten is the same");
        let zipf = fate(&zipf);
        assert!(zipf[0] > 0, "{zipf:?}");
        if each > 1 {
            let [overflowed, first, second] = fate(&of(&|p| p % each == 0));
            assert!(overflowed > 0 && first == 0 && second > 0, "one partition of each coarse_bin");
        }
    }
}
#[test]
fn any_distribution_is_answered() {
    skew::<u32, u32>(6);
    skew::<u64, u64>(7);
}

/// The ambiguous key, which looks like an empty slot, and pairs in the stash.
fn special<K: KeyBits, V: ValueBits>(seed: u64) {
    let device = device(seed);
    let it = Of::<K, V>::unmixed(7, Of::<K, V>::AMBIGUOUS);
    let mut keys = (0..2000).map(key).filter(|&k| k != it).collect::<Vec<K>>();
    for with in [false, true] {
        if with {
            keys.push(it);
        }
        let mut crowded = Plan::sized(keys.len(), 0.95, SMALL).unwrap();
        crowded.shape.buckets -= 1;
        let (map, oracle) = map_of::<K, V>(&device, crowded, &keys);
        assert!(map.report().unwrap().stashed > 10);
        let queries = (0..3000).map(|i| if i % 30 == 0 { it } else { key(i) }).collect::<Vec<_>>();
        for tuning in [TWO, PARTS, RouteTuning { cached: usize::MAX, ..ONE }] {
            check(&mut joiner(&device, tuning), &map, &oracle, &queries, 0);
        }
    }
}
#[test]
fn the_ambiguous_key_and_the_stash() {
    special::<u32, u32>(8);
    special::<u32, u64>(9);
    special::<u64, u64>(10);
}

/// One joiner for batches of all sizes and maps of other shapes; also in a graph, with other keys
/// each time.
#[test]
fn a_joiner_is_used_again() {
    let device = device(11);
    let keys = (0..3000).map(key).collect::<Vec<u32>>();
    let (map, oracle) = map_of::<u32, u32>(&device, plan(3000), &keys);
    let (other, other_oracle) = map_of::<u32, u32>(&device, plan(500), &keys[..500]);
    let mut joiner = joiner(&device, TWO);
    for n in [2000u32, 500, 3000, 2000] {
        let queries = (0..n).map(|i| key(i + n)).collect::<Vec<_>>();
        check(&mut joiner, &map, &oracle, &queries, 0);
        check(&mut joiner, &other, &other_oracle, &queries, 0);
    }
    let (stream, n, bytes) = (device.stream().unwrap(), 1000, joiner.scratch_bytes());
    let queries = device.upload(&keys[..n]).unwrap();
    let (numbers, values) = (device.alloc::<u32>(n).unwrap(), device.alloc::<u32>(n).unwrap());
    let count = device.alloc::<u64>(1).unwrap();
    let mut graph = stream
        .capture(
            (joiner, map, queries, numbers, values, count),
            |stream, (joiner, map, queries, n, v, count)| {
                let table = map.as_table();
                joiner.filter(
                    stream,
                    table,
                    queries.view(),
                    None,
                    count.view_mut(),
                    keep::COUNT,
                )?;
                joiner.join_into(
                    stream,
                    table,
                    queries.view(),
                    n.view_mut(),
                    v.view_mut(),
                    count.view_mut(),
                )
            },
        )
        .unwrap();
    for round in 0..3 {
        let batch = (0..n as u32).map(|i| key(i * 5 + round)).collect::<Vec<u32>>();
        graph.state_mut().2.view_mut().copy_from_host(&batch).unwrap();
        graph.launch(&stream).unwrap();
        let (joiner, _, _, numbers, values, count) = graph.state();
        assert_eq!(joiner.scratch_bytes(), bytes);
        let rows = numbers.download().unwrap().into_iter().zip(values.download().unwrap());
        let rows = sorted(rows.take(count.download().unwrap()[0] as usize).collect());
        let there = (0..n as u32).filter_map(|i| oracle.get(&batch[i as usize]).map(|&v| (i, v)));
        assert!(rows == there.collect::<Vec<_>>(), "round {round}");
    }
}

/// Small tables and few queries are not partitioned; bins have headroom; nothing exceeds
/// what kernels can count.
#[test]
fn routes_fit() {
    use koel_kernels::table::layout::{Narrow, Wide};
    fn check<L: Layout>(values: bool, least: usize) {
        for pairs in [1usize << 20, 1 << 22, 1 << 24, 1 << 27, 1 << 29] {
            let plan = Plan::new(pairs, 0.8).unwrap();
            for n in [pairs / 5, pairs / 4, pairs, 4 * pairs].map(|n| n as u32) {
                for (max_shared, shared) in
                    [(64 << 10, true), (227 << 10, true), (227 << 10, false)]
                {
                    let tuning = RouteTuning { shared, ..RouteTuning::TUNED };
                    let all = plan.shape.partitions;
                    let route = Route::new::<L>(n, plan.n, values, plan.shape, max_shared, tuning);
                    if pairs < least || n < plan.n / 4 || n > 1 << 30 {
                        assert!(route.is_none(), "{n} queries, {pairs} pairs");
                    }
                    let Some(route) = route else {
                        assert!(
                            pairs < least || pairs > 1 << 27 || n < plan.n / 4 || n > 1 << 30,
                            "{n}, {pairs} pairs"
                        );
                        continue;
                    };
                    let first = route.coarse.unwrap_or(route.last);
                    let [coarse, bins] = route.bins(all);
                    assert!(
                        (if coarse > 0 { coarse } else { bins })
                            <= if route.many { MANY_BINS } else { BINS }
                    );
                    assert!(route.coarse.is_none_or(|g| g.each <= BINS && route.last.each == 1));
                    assert!(route.last.room as u64 * bins as u64 > n as u64);
                    assert!((0..all).all(|p| first.bin(p) == p / first.each
                        && route.last.bin(p) == p / route.last.each));
                    if route.shared {
                        assert!(
                            shared_bytes(plan.shape.buckets, values && L::SLOT_WORDS > 1)
                                <= max_shared
                        );
                    } else {
                        assert!(!shared || max_shared < 227 << 10);
                    }
                    let places = route.places(all).iter().sum::<usize>();
                    let passes = 1 + route.coarse.is_some() as usize;
                    let slack = if n >= plan.n { 1.15 } else { 1.3 };
                    assert!(places as f64 <= (slack * passes as f64 + 0.2) * n as f64, "{route:?}");
                }
            }
        }
    }
    check::<Narrow>(true, 1 << 23);
    check::<Narrow>(false, 1 << 23);
    check::<Wide<u64, u64>>(true, 1 << 22);
    check::<Wide<u64, u64>>(false, 1 << 22);
}

/// On a CPU, rows are in query order, whether one thread compacts them or many.
#[test]
fn rows_are_in_order_on_a_cpu() {
    let device = Device::cpu().unwrap();
    assert_eq!(device.kind(), DeviceKind::Cpu);
    let keys = (0..50_000).map(key).collect::<Vec<u64>>();
    let map = Map::<u64, u32>::build(&device, &keys, &(0..50_000).collect::<Vec<_>>()).unwrap();
    for n in [0, 1, 1000, 32 << 10, (32 << 10) + 1, 200_000] {
        let queries = (0..n).map(|i| key(i / 2)).collect::<Vec<u64>>();
        let there = (0..n).filter(|i| i / 2 < 50_000).map(|i| (i, i / 2)).collect::<Vec<_>>();
        assert!(map.join(&queries).unwrap() == there, "{n}");
        assert!(map.semi_join(&queries).unwrap() == queries[..there.len()]);
        assert!(map.anti_join(&queries).unwrap() == queries[there.len()..]);
    }
}
