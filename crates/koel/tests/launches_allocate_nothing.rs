//! Launches, copies, fills and lookups allocate no host memory: many small builds run at the speed
//! of the device.
mod support;

use koel::keys128::Map128Builder;
use koel::{Device, DeviceKind, Map, MapBuilder, MapJoiner, MapOptions, Set, SetCombiner};
use koel_kernels::probe::random_sectors;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{can_stand_in, devices, run_with_stand_in};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Those aligned like buffers on the host.
    static BUFFERS: Cell<u64> = const { Cell::new(0) };
}
struct Counting;
// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BUFFERS.set(BUFFERS.get() + (layout.align() == 128) as u64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(p, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(device: &Device, name: &str, mut call: impl FnMut() -> koel::Result<()>) {
    (0..10).try_for_each(|_| call()).unwrap(); // looks up functions, creates events
    let before = ALLOCATIONS.get();
    (0..100).try_for_each(|_| call()).unwrap();
    assert_eq!(ALLOCATIONS.get() - before, 0, "{name} on {device:?}");
}

#[test]
fn calls_allocate_nothing() {
    // The executor allocates: it is for tests.
    for device in devices().into_iter().filter(|d| d.kind() != DeviceKind::Executor) {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let keys = device.upload(&[1u32, 2, 3, 4]).unwrap();
        let mut values = device.upload(&[0u32; 4]).unwrap();
        allocations(&device, "fill", || values.view_mut().fill_bytes(0, &stream));
        allocations(&device, "copy", || {
            values.view_mut().copy_from(keys.view(), &other)?;
            values.view_mut().copy_from(keys.view(), &stream)
        });
        let mut on_host = [0; 4];
        allocations(&device, "copy_to_host", || keys.view().copy_to_host(&mut on_host));
        let (table, mut sums) =
            (device.upload(&[!0u64; 256]).unwrap(), device.upload(&[9u32; 256]).unwrap());
        allocations(&device, "launch", || {
            let (table, sums) =
                (table.view().arg("table", &stream)?, sums.view_mut().arg("sums", &stream)?);
            // SAFETY: 64 sectors are read and 256 words written.
            unsafe { random_sectors::launch(&stream, 1, 256, 64, 7, table, sums) }
        });
        // The stand-in's kernels do not run, so no map is built.
        if std::env::var_os("STAND_IN").is_none() {
            assert_eq!(values.download().unwrap(), [1, 2, 3, 4]);
            assert_eq!(sums.download().unwrap(), [0; 256], "the digest of equal words");
            let map = Map::build(&device, &[1u32, 2, 3], &[4u32, 5, 6]).unwrap();
            allocations(&device, "get_or_into", || {
                map.get_or_into(&stream, keys.view(), values.view_mut(), 0)
            });
            assert_eq!(values.download().unwrap(), [4, 5, 6, 0]);
            let mut joiner = MapJoiner::new(&device).unwrap();
            let (mut numbers, mut count) = (device.alloc(4).unwrap(), device.alloc(1).unwrap());
            allocations(&device, "join_into", || {
                let (queries, count) = (keys.view(), count.view_mut());
                joiner.join_into(
                    &stream,
                    &map,
                    queries,
                    numbers.view_mut(),
                    values.view_mut(),
                    count,
                )
            });
            assert_eq!(count.download().unwrap(), [3]);
            let set = Set::build(&device, &[1u32, 2, 3]).unwrap();
            let mut found = device.alloc(4).unwrap();
            allocations(&device, "contains_into", || {
                set.contains_into(&stream, keys.view(), found.view_mut())
            });
            assert_eq!(found.download().unwrap(), [1, 1, 1, 0]);
            if device.kind() == DeviceKind::Cuda {
                let mut combiner = SetCombiner::new(&device).unwrap();
                allocations(&device, "unique_into", || {
                    combiner.unique_into(&stream, keys.view(), values.view_mut(), count.view_mut())
                });
                assert_eq!(count.download().unwrap(), [4]);
                // The counts that it waits for are a few words.
                let mut builder = Map128Builder::new(&device, MapOptions::default()).unwrap();
                for wide in [[1u128, 2, 3, 4], [1, 2, 1, 2]] {
                    let wide = device.upload(&wide).unwrap();
                    let mut map = builder.build(&stream, wide.view(), keys.view()).unwrap();
                    allocations(&device, "rebuild", || {
                        builder.rebuild(&mut map, &stream, wide.view(), keys.view())
                    });
                }
            }
        }
        if device.kind() == DeviceKind::Cuda {
            let mut graph = stream
                .capture((keys, values), |stream, (keys, values)| {
                    values.view_mut().copy_from(keys.view(), stream)
                })
                .unwrap();
            allocations(&device, "graph", || graph.launch(&stream));
        }
    }
}

/// Host devices allocate for their threads and for the executor, but they allocate no buffers.
#[test]
fn rebuilds_allocate_no_buffers() {
    for device in devices().into_iter().filter(|d| d.kind() != DeviceKind::Cuda) {
        let stream = device.stream().unwrap();
        for distinct in [3000, 1000, 1] {
            let keys = (0..3000).map(|i| i % distinct).collect::<Vec<u128>>();
            let (keys, values) =
                (device.upload(&keys).unwrap(), device.upload(&[7u64; 3000]).unwrap());
            let mut builder = Map128Builder::new(&device, MapOptions::default()).unwrap();
            let before = BUFFERS.get();
            let mut map = builder.build(&stream, keys.view(), values.view()).unwrap();
            assert!(BUFFERS.get() >= before + 8, "a build takes some");
            builder.rebuild(&mut map, &stream, keys.view(), values.view()).unwrap();
            let before = BUFFERS.get();
            for _ in 0..3 {
                builder.rebuild(&mut map, &stream, keys.view(), values.view()).unwrap();
            }
            assert_eq!(BUFFERS.get() - before, 0, "{distinct} on {device:?}");
            assert_eq!(map.len(), distinct as usize);
        }
    }
}

/// A table keeps memory for more pairs than it has.
#[test]
fn rebuilds_with_fewer_pairs_allocate_no_buffers() {
    for device in devices().into_iter().filter(|d| d.kind() != DeviceKind::Cuda) {
        let stream = device.stream().unwrap();
        let keys = device.upload(&(0..30_000).collect::<Vec<u32>>()).unwrap();
        let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
        let mut map = builder.build(&stream, keys.view(), keys.view()).unwrap();
        let rebuild = |map: &mut Map<u32, u32>, builder: &mut MapBuilder<u32, u32>, n: usize| {
            let part = keys.view().slice(0..n).unwrap();
            builder.rebuild(map, &stream, part, part).unwrap();
            assert_eq!(map.len().unwrap(), n);
        };
        for n in [3000, 30_000] {
            rebuild(&mut map, &mut builder, n);
        }
        let before = BUFFERS.get();
        for n in [3000, 30_000, 3000] {
            rebuild(&mut map, &mut builder, n);
        }
        assert_eq!(BUFFERS.get() - before, 0, "on {device:?}");
    }
}

#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn nor_with_a_driver() {
    if can_stand_in() {
        run_with_stand_in("calls_allocate_nothing", &[("KOEL_TEST_DEVICES", "cuda")]);
    }
}
