//! Host cost of a call: nanoseconds and allocations per call, on one stream of a device; one JSON
//! line each.
//!
//! On a GPU, the driver limits the launch rate. With the tests' stand-in driver and
//! `STAND_IN_FAST=1`, only koel's own time remains.
//!
//!     cargo run --release -p koel-rates --bin launch_rate -- [cpu|cuda]
//!
//! The stand-in driver is built and used with
//!
//! ```text
//! rustc --edition=2024 --crate-type=cdylib -O \
//!     crates/koel/tests/support/stand_in_driver.rs -o /tmp/stand-in/libcuda.so
//! export LD_LIBRARY_PATH=/tmp/stand-in
//! ```
use koel::{DeviceKind, Map, Result, Stream};
use koel_kernels::map::find::map_find_or;
use koel_rates::{Arguments, RUNS, decimals, repeat, row, seconds_of};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(p, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Measures a call in several rounds, and prints the nanoseconds of a call.
fn measure(name: &str, stream: &Stream, mut call: impl FnMut(u32) -> Result<()>) -> Result<()> {
    const CALLS: u32 = 20_000;
    let mut allocations = 0;
    let [times] = repeat(RUNS, || {
        let before = ALLOCATIONS.load(Relaxed);
        let ((), seconds) = seconds_of(|| (0..CALLS).try_for_each(&mut call))?;
        allocations = ALLOCATIONS.load(Relaxed) - before;
        stream.synchronize()?;
        Result::Ok([seconds])
    })?;
    let ns = |seconds: f64| decimals(seconds / f64::from(CALLS) * 1e9, 1);
    row![
        ("call", name),
        ("ns", ns(times.median)),
        ("ns_min", ns(times.min)),
        ("ns_max", ns(times.max)),
        ("allocations", decimals(allocations as f64 / f64::from(CALLS), 2))
    ]
    .print();
    Ok(())
}

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let device = args.device()?;
    args.sizes(&[])?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let (keys, mut values) = (device.upload(&[1u32, 2, 3, 4])?, device.alloc::<u32>(4)?);
    let map = Map::build(&device, &[1, 2, 3], &[4, 5, 6])?;
    measure("fill 16 bytes", &stream, |_| values.view_mut().fill_bytes(0, &stream))?;
    measure("copy 16 bytes", &stream, |_| values.view_mut().copy_from(keys.view(), &stream))?;
    measure("copy 16 bytes, two streams in turn", &stream, |i| {
        values.view_mut().copy_from(keys.view(), if i & 1 == 0 { &stream } else { &other })
    })?;
    // The CPU engine looks up without this kernel.
    if device.kind() == DeviceKind::Cuda {
        let table = map.table(&stream)?;
        measure("launch of map_find_or, 4 queries", &stream, |_| {
            let (keys, values) =
                (keys.view().arg("keys", &stream)?, values.view_mut().arg("values", &stream)?);
            // SAFETY: four queries and four answers; the map's table.
            unsafe { map_find_or::launch(&stream, 1, table, 4, 0, keys, values) }
        })?;
    }
    measure("Map::get_or_into, 4 queries", &stream, |_| {
        map.get_or_into(&stream, keys.view(), values.view_mut(), 0)
    })?;
    let mut graph = stream.capture((map, keys, values), |stream, (map, keys, values)| {
        (0..10).try_for_each(|_| map.get_or_into(stream, keys.view(), values.view_mut(), 0))
    })?;
    measure("launch of a graph of ten Map::get_or_into", &stream, |_| graph.launch(&stream))?;
    measure("one buffer of 1 KB, allocated and freed", &stream, |_| {
        device.alloc::<u8>(1 << 10).map(drop)
    })
}
