//! The longest inputs: nearly 2^32 elements, where a 32-bit index that goes one step too far wraps.
//! The executor runs only the end of each launch, on memory that the system provides when it is
//! touched; a GPU runs all of it.
use koel::{Buffer, Device, Map, MapJoiner, Set, Stream, primitives};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The most elements that functions with 32-bit indices accept.
const MOST: usize = u32::MAX as usize - (1 << 16);
/// Queries repeat with this period; the map holds the first half of it.
const PERIOD: usize = 2048;

/// Opens an executor that runs only the last blocks of a launch while the number is not 0.
fn executor() -> (Device, Arc<AtomicU32>) {
    let last = Arc::new(AtomicU32::new(0));
    let of_launch = last.clone();
    let device = Device::executor_with(5, move |exec| {
        exec.last = of_launch.load(Relaxed);
        exec.check_global_races = exec.last == 0;
    });
    (device, last)
}
/// Fills the last elements, `filled` of them, with what queries there are.
fn fill_end(queries: &mut Buffer<u32>, filled: usize) {
    let mut view = queries.view_mut();
    let all = view.host_mut().unwrap();
    for (i, query) in all.iter_mut().enumerate().skip(MOST - filled) {
        *query = (i % PERIOD) as u32;
    }
}
fn half_of_the_queries(device: &Device) -> Map {
    let keys = (0..PERIOD as u32 / 2).collect::<Vec<_>>();
    let values = keys.iter().map(|k| k + 7).collect::<Vec<_>>();
    Map::build(device, &keys, &values).unwrap()
}
fn is_held(i: usize) -> bool {
    i % PERIOD < PERIOD / 2
}

#[test]
fn lookups_end_where_the_queries_do() {
    const FILLED: usize = 1 << 16;
    let (device, last) = executor();
    let (map, stream) = (half_of_the_queries(&device), device.stream().unwrap());
    let set = Set::build(&device, &(0..PERIOD as u32 / 2).collect::<Vec<_>>()).unwrap();
    let mut queries = device.alloc::<u32>(MOST).unwrap();
    fill_end(&mut queries, FILLED);
    let mut numbers = device.alloc::<u32>(MOST).unwrap();
    let mut values = device.alloc::<u32>(MOST).unwrap();
    let mut count = device.alloc::<u64>(1).unwrap();
    let mut joiner = MapJoiner::new(&device).unwrap();
    last.store(3, Relaxed);

    let to = (numbers.view_mut(), values.view_mut(), count.view_mut());
    joiner.join_into(&stream, &map, queries.view(), to.0, to.1, to.2).unwrap();
    let rows = count.download().unwrap()[0] as usize;
    let (at, found) = (numbers.view().slice(..rows), values.view().slice(..rows));
    let (at, found) = (at.unwrap().download().unwrap(), found.unwrap().download().unwrap());
    let mut rows = at.into_iter().zip(found).collect::<Vec<_>>();
    rows.sort_unstable();
    let first = rows[0].0 as usize;
    assert!((MOST - FILLED..MOST - 2000).contains(&first), "{first}");
    let held = (first..MOST).filter(|&i| is_held(i));
    let expected = held.map(|i| (i as u32, (i % PERIOD) as u32 + 7)).collect::<Vec<_>>();
    assert_eq!(rows, expected);

    let (to, rest) = (numbers.view_mut(), count.view_mut());
    joiner.semi_join_into(&stream, &map, queries.view(), to, rest).unwrap();
    assert_eq!(count.download().unwrap()[0] as usize, expected.len());

    // One thread per query.
    last.store(64, Relaxed);
    let mut found = device.alloc::<u8>(MOST).unwrap();
    map.get_into(&stream, queries.view(), values.view_mut(), found.view_mut()).unwrap();
    let of_end = MOST - 1000..;
    let flags = found.view().slice(of_end.clone()).unwrap().download().unwrap();
    assert_eq!(flags, (of_end.start..MOST).map(|i| is_held(i) as u8).collect::<Vec<_>>());
    set.contains_into(&stream, queries.view(), found.view_mut()).unwrap();
    let flags = found.view().slice(of_end.clone()).unwrap().download().unwrap();
    assert_eq!(flags, (of_end.start..MOST).map(|i| is_held(i) as u8).collect::<Vec<_>>());
}

#[test]
fn loops_over_the_grid_end_where_the_elements_do() {
    let (device, last) = executor();
    let stream = device.stream().unwrap();
    let mut elements = device.alloc::<u32>(MOST).unwrap();
    elements.view_mut().host_mut().unwrap()[MOST - 300..].fill(3);
    // All blocks, and the last two rounds of their loops: what they leave out is 0.
    last.store(u32::MAX, Relaxed);
    assert_eq!(primitives::sum(&stream, elements.view()).unwrap(), 900);
    let bins = primitives::Bins::Bits { shift: 0, bits: 2 };
    assert_eq!(primitives::histogram(&stream, elements.view(), bins).unwrap()[3], 300);
}

/// Fills a buffer with what queries there are, on the device.
fn fill(queries: &mut Buffer<u32>, stream: &Stream) {
    let first = (0..PERIOD as u32).collect::<Vec<_>>();
    queries.view_mut().slice(..PERIOD).unwrap().copy_from_host(&first).unwrap();
    let mut filled = PERIOD;
    while filled < queries.len() {
        // Whole periods, from the beginning.
        let more = filled.min(queries.len() - filled).min(1 << 28);
        let mut from = stream.device().alloc::<u32>(more).unwrap();
        from.view_mut().copy_from(queries.view().slice(..more).unwrap(), stream).unwrap();
        queries
            .view_mut()
            .slice(filled..filled + more)
            .unwrap()
            .copy_from(from.view(), stream)
            .unwrap();
        filled += more;
    }
}

#[test]
#[ignore = "needs a GPU with 70 GB"]
fn all_queries_are_answered_once_on_a_gpu() {
    const BEHIND: usize = 4096;
    let device = Device::cuda(0).unwrap();
    let (map, stream) = (half_of_the_queries(&device), device.stream().unwrap());
    let mut joiner = MapJoiner::new(&device).unwrap();
    let mut count = device.alloc::<u64>(1).unwrap();
    for n in [(1 << 31) - 1, 1 << 31, (1 << 31) + 100, 3_000_000_001, MOST] {
        let mut queries = device.alloc::<u32>(n).unwrap();
        fill(&mut queries, &stream);
        let mut numbers = device.alloc::<u32>(n + BEHIND).unwrap();
        let mut values = device.alloc::<u32>(n + BEHIND).unwrap();
        numbers.view_mut().fill_bytes(0, &stream).unwrap();
        values.view_mut().fill_bytes(0, &stream).unwrap();
        let to = (numbers.view_mut(), values.view_mut(), count.view_mut());
        joiner.join_into(&stream, &map, queries.view(), to.0, to.1, to.2).unwrap();
        let rows = count.download().unwrap()[0] as usize;
        let (periods, rest) = (n / PERIOD, n % PERIOD);
        assert_eq!(rows, periods * (PERIOD / 2) + rest.min(PERIOD / 2), "{n} queries");
        // All numbers and all values, and nothing behind them.
        let sum = |of: &Buffer<u32>| {
            let (rows, behind) = (of.view().slice(..n).unwrap(), of.view().slice(n..).unwrap());
            assert_eq!(behind.download().unwrap(), [0; BEHIND], "{n} queries");
            primitives::sum(&stream, rows).unwrap()
        };
        let held = (0..n).filter(|&i| is_held(i));
        let expected = held.fold((0u64, 0u64), |(numbers, values), i| {
            (numbers + i as u64, values + (i % PERIOD) as u64 + 7)
        });
        assert_eq!((sum(&numbers), sum(&values)), expected, "{n} queries");
        for kept in [true, false] {
            let to = (numbers.view_mut(), count.view_mut());
            match kept {
                true => joiner.semi_join_into(&stream, &map, queries.view(), to.0, to.1),
                false => joiner.anti_join_into(&stream, &map, queries.view(), to.0, to.1),
            }
            .unwrap();
            let keys = if kept { rows } else { n - rows };
            assert_eq!(count.download().unwrap()[0] as usize, keys, "{n} queries");
        }
        drop(values);
        let mut found = device.alloc::<u8>(n).unwrap();
        map.get_into(
            &stream,
            queries.view(),
            numbers.view_mut().slice(..n).unwrap(),
            found.view_mut(),
        )
        .unwrap();
        let bins = primitives::Bins::Bits { shift: 0, bits: 1 };
        let looked_up = primitives::sum(&stream, numbers.view().slice(..n).unwrap()).unwrap();
        assert_eq!(looked_up, expected.1, "{n} queries");
        let odd = primitives::histogram(&stream, queries.view(), bins).unwrap()[1];
        assert_eq!(odd as usize, n / 2, "{n} keys");
        assert_eq!(primitives::max(&stream, queries.view()).unwrap(), PERIOD as u32 - 1);
    }
}
