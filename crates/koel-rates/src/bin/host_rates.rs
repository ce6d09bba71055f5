//! Times of calls on plain host memory, and of what they consist of: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin host_rates -- [cpu|cuda] 2^16 2^24
//! ```
//!
//! `ms`: the median of 7 runs after 2 warm-up runs, on the host's clock, with the fastest and the
//! slowest. `of_limit`: for `build`
//! and `get`, the time that the copies of the keys, the values and the answers alone would take
//! from and to pinned memory, one after the other, divided by `ms`. `bytes`: those that the call
//! copies, allocates or touches. Operations:
//!
//! * `pinned_up`, `pinned_down`: copies between pinned memory and the device;
//! * `touch`, `touch_huge`: all cores write fresh memory, on small or on huge pages;
//! * `copy_warm`: all cores copy memory that was touched before;
//! * `stream`, `alloc`: a stream or device memory, made;
//! * `upload`, `download`, `copy_to_host`: plain memory to the device and back, into fresh memory
//!   or into the same again;
//! * `build`, `get`, `contains`: the methods of [`Map`] for slices. Each answer is compared;
//! * `build_there`: a build from memory of the device, with a new builder;
//! * `get_or_into`: the same lookup between memory of the device;
//! * `get_cpu`, `get_or_into_cpu`: the CPU time of both, in turn.
use koel::limits::{self, Rates};
use koel::{Device, Map, MapBuilder, MapOptions, Result};
use koel_rates::{Arguments, RUNS, Times, cpu_seconds, decimals, ms, on_clock, repeat, row};
use memmap2::MmapMut;
use rayon::prelude::*;
use std::hint::black_box;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let device = args.device()?;
    let pages = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let pages = pages.unwrap_or_default();
    row![("threads", rayon::current_num_threads()), ("huge_pages", pages.trim())].print();
    args.sizes(&[1 << 16, 1 << 24])?.into_iter().try_for_each(|n| rates(&device, n))
}

fn rates(device: &Device, n: usize) -> Result<()> {
    let keys = (0..n as u32).map(|i| i.wrapping_mul(0x9E37_79B1)).collect::<Vec<_>>();
    let values = (0..n as u32).collect::<Vec<_>>();
    let bytes = 4 * n;
    let show = |op: &str, bytes: usize, times: Times, limit: Option<f64>| {
        let of_limit = limit.map(|limit| decimals(limit / times.median, 3));
        row![("op", op), ("n", n), ("bytes", bytes)]
            .and(&ms(times))
            .and(&row![
                ("gb_per_s", decimals(bytes as f64 / times.median / 1e9, 2)),
                ("of_limit", of_limit)
            ])
            .print();
    };
    let stream = device.stream()?;
    let pinned = limits::host_copies(&stream, bytes, RUNS)?;
    if let Some(pinned) = pinned {
        show("pinned_up", bytes, Times::of_rates(bytes as f64, pinned.to_device), None);
        show("pinned_down", bytes, Times::of_rates(bytes as f64, pinned.to_host), None);
    }
    let limit = |up: usize, down: usize| {
        let seconds = |bytes: usize, rates: Rates| bytes as f64 / rates.median;
        pinned.map(|pinned| seconds(up, pinned.to_device) + seconds(down, pinned.to_host))
    };
    for (op, huge) in [("touch", false), ("touch_huge", true)] {
        show(op, 2 * bytes, on_clock(|| Result::Ok(touch(2 * bytes, huge)))?, None);
    }
    let mut warm = vec![1u32; n];
    let copy = on_clock(|| {
        let parts = warm.par_chunks_mut(1 << 16).zip(keys.par_chunks(1 << 16));
        parts.for_each(|(to, from)| to.copy_from_slice(from));
        Result::Ok(())
    })?;
    show("copy_warm", bytes, copy, None);
    show("stream", 0, on_clock(|| device.stream())?, None);
    show("alloc", bytes, on_clock(|| device.alloc::<u32>(n))?, None);
    show("upload", bytes, on_clock(|| device.upload(&keys))?, None);
    let buffer = device.upload(&keys)?;
    show("download", bytes, on_clock(|| buffer.download())?, None);
    show("copy_to_host", bytes, on_clock(|| buffer.view().copy_to_host(&mut warm))?, None);

    let build = || Map::build(device, &keys, &values);
    show("build", 2 * bytes, on_clock(build)?, limit(2 * bytes, 0));
    let (keys_there, values_there) = (device.stage(&keys)?, device.stage(&values)?);
    let build_there = || {
        let mut builder = MapBuilder::new(device, MapOptions::default())?;
        let map = builder.build(&stream, keys_there.view(), values_there.view())?;
        map.len()?;
        Result::Ok(map)
    };
    show("build_there", 2 * bytes, on_clock(build_there)?, None);
    let map = build()?;
    show("get", 3 * bytes, on_clock(|| map.get(&keys))?, limit(bytes, bytes + n));
    let right = map.get(&keys)?.into_par_iter().zip(&values).all(|(got, &v)| got == Some(v));
    assert!(right, "wrong answers of get");
    let staged = device.stage(&keys)?;
    let mut got = device.alloc::<u32>(n)?;
    let mut get_or_into = || {
        map.get_or_into(&stream, staged.view(), got.view_mut(), 0)?;
        stream.synchronize()
    };
    show("get_or_into", 2 * bytes, on_clock(&mut get_or_into)?, None);
    let [cpu, cpu_into] = cpu_in_turn(|| map.get(&keys), get_or_into)?;
    show("get_cpu", 3 * bytes, cpu, None);
    show("get_or_into_cpu", 2 * bytes, cpu_into, None);
    assert!(got.download()? == values, "wrong answers of get_or_into");
    show("contains", bytes + n, on_clock(|| map.contains(&keys))?, limit(bytes, n));
    assert!(map.contains(&keys)?.into_iter().all(|found| found), "wrong answers of contains");
    Ok(())
}
/// Returns the CPU times of two calls, made in turn: what else runs on the machine slows both.
/// Dropping the results does not count.
fn cpu_in_turn<A, B>(
    mut first: impl FnMut() -> Result<A>,
    mut second: impl FnMut() -> Result<B>,
) -> Result<[Times; 2]> {
    fn cpu_of<R>(call: impl FnOnce() -> Result<R>) -> Result<f64> {
        let start = cpu_seconds();
        let _result = black_box(call()?);
        Ok(cpu_seconds() - start)
    }
    repeat(RUNS, || Ok([cpu_of(&mut first)?, cpu_of(&mut second)?]))
}
/// Maps `bytes` bytes and writes one of each page, on all cores.
fn touch(bytes: usize, huge: bool) -> MmapMut {
    let mut memory = MmapMut::map_anon(bytes).expect("as much memory as the keys need");
    #[cfg(target_os = "linux")]
    if huge {
        let _ = memory.advise(memmap2::Advice::HugePage); // only a hint
    }
    #[cfg(not(target_os = "linux"))]
    let _ = huge;
    memory.par_chunks_mut(256 << 10).for_each(|part| {
        part.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    });
    memory
}
