//! Times of calls on plain host memory, and of what they consist of: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin host_rates -- [cpu|cuda] 2^16 2^24
//! ```
//!
//! `ms`: the median of 7 runs after 2 warm-up runs, on the host's clock. `of_limit`: for `build`
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
use koel::{Device, DeviceKind, Map, MapBuilder, MapOptions, Result, limits};
use koel_rates::{RUNS, cpu_seconds, decimals, print_provenance, row, size};
use memmap2::MmapMut;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

fn main() -> Result<()> {
    let (mut sizes, mut kind) = (vec![], None);
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "cpu" => kind = Some(DeviceKind::Cpu),
            "cuda" => kind = Some(DeviceKind::Cuda),
            _ => sizes.push(size(&arg)?),
        }
    }
    let device = match kind {
        Some(DeviceKind::Cpu) => Device::cpu()?,
        Some(_) => Device::cuda(0)?,
        None => Device::best()?,
    };
    if sizes.is_empty() {
        sizes = vec![1 << 16, 1 << 24];
    }
    print_provenance(&device);
    let pages = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let pages = pages.unwrap_or_default();
    row![("threads", rayon::current_num_threads()), ("huge_pages", pages.trim())].print();
    sizes.into_iter().try_for_each(|n| rates(&device, n))
}

fn rates(device: &Device, n: usize) -> Result<()> {
    let keys = (0..n as u32).map(|i| i.wrapping_mul(0x9E37_79B1)).collect::<Vec<_>>();
    let values = (0..n as u32).collect::<Vec<_>>();
    let bytes = 4 * n;
    let show = |op: &str, bytes: usize, seconds: f64, limit: Option<f64>| {
        let of_limit = limit.map(|limit| decimals(limit / seconds, 3));
        row![
            ("op", op),
            ("n", n),
            ("bytes", bytes),
            ("ms", decimals(seconds * 1e3, 4)),
            ("gb_per_s", decimals(bytes as f64 / seconds / 1e9, 2)),
            ("of_limit", of_limit)
        ]
        .print();
    };
    let stream = device.stream()?;
    let pinned = limits::host_copies(&stream, bytes, RUNS)?;
    let pinned = pinned.map(|p| (p.to_device.median, p.to_host.median));
    if let Some((up, down)) = pinned {
        show("pinned_up", bytes, bytes as f64 / up, None);
        show("pinned_down", bytes, bytes as f64 / down, None);
    }
    let limit = |up: usize, down: usize| {
        pinned.map(|(to_device, to_host)| up as f64 / to_device + down as f64 / to_host)
    };
    for (op, huge) in [("touch", false), ("touch_huge", true)] {
        show(op, 2 * bytes, median(|| Ok(touch(2 * bytes, huge)))?, None);
    }
    let mut warm = vec![1u32; n];
    let copy = median(|| {
        let parts = warm.par_chunks_mut(1 << 16).zip(keys.par_chunks(1 << 16));
        parts.for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    })?;
    show("copy_warm", bytes, copy, None);
    show("stream", 0, median(|| device.stream())?, None);
    show("alloc", bytes, median(|| device.alloc::<u32>(n))?, None);
    show("upload", bytes, median(|| device.upload(&keys))?, None);
    let buffer = device.upload(&keys)?;
    show("download", bytes, median(|| buffer.download())?, None);
    show("copy_to_host", bytes, median(|| buffer.view().copy_to_host(&mut warm))?, None);

    let build = || Map::build(device, &keys, &values);
    show("build", 2 * bytes, median(build)?, limit(2 * bytes, 0));
    let (keys_there, values_there) = (device.stage(&keys)?, device.stage(&values)?);
    let build_there = || {
        let mut builder = MapBuilder::new(device, MapOptions::default())?;
        let map = builder.build(&stream, keys_there.view(), values_there.view())?;
        map.len()?;
        Ok(map)
    };
    show("build_there", 2 * bytes, median(build_there)?, None);
    let map = build()?;
    show("get", 3 * bytes, median(|| map.get(&keys))?, limit(bytes, bytes + n));
    let right = map.get(&keys)?.into_par_iter().zip(&values).all(|(got, &v)| got == Some(v));
    assert!(right, "wrong answers of get");
    let staged = device.stage(&keys)?;
    let mut got = device.alloc::<u32>(n)?;
    let mut get_or_into = || {
        map.get_or_into(&stream, staged.view(), got.view_mut(), 0)?;
        stream.synchronize()
    };
    show("get_or_into", 2 * bytes, median(&mut get_or_into)?, None);
    let (cpu, cpu_into) = cpu_in_turn(|| map.get(&keys), get_or_into)?;
    show("get_cpu", 3 * bytes, cpu, None);
    show("get_or_into_cpu", 2 * bytes, cpu_into, None);
    assert!(got.download()? == values, "wrong answers of get_or_into");
    show("contains", bytes + n, median(|| map.contains(&keys))?, limit(bytes, n));
    assert!(map.contains(&keys)?.into_iter().all(|found| found), "wrong answers of contains");
    Ok(())
}
/// Returns the median seconds of [`RUNS`] runs after two warm-up runs. Dropping the result does
/// not count.
fn median<R>(mut run: impl FnMut() -> Result<R>) -> Result<f64> {
    for _ in 0..2 {
        run()?;
    }
    koel_rates::median_of(|| {
        let clock = Instant::now();
        let result = black_box(run()?);
        let seconds = clock.elapsed().as_secs_f64();
        drop(result);
        Ok(seconds)
    })
}
/// Returns the medians of the CPU seconds of two calls, made in turn: what else runs on the machine
/// slows both. Dropping the results does not count.
fn cpu_in_turn<A, B>(
    mut first: impl FnMut() -> Result<A>,
    mut second: impl FnMut() -> Result<B>,
) -> Result<(f64, f64)> {
    fn cpu_of<R>(call: impl FnOnce() -> Result<R>) -> Result<f64> {
        let start = cpu_seconds();
        let result = black_box(call()?);
        let seconds = cpu_seconds() - start;
        drop(result);
        Ok(seconds)
    }
    let (mut seconds, mut seconds_of_second) = (vec![], vec![]);
    for _ in 0..RUNS + 2 {
        seconds.push(cpu_of(&mut first)?);
        seconds_of_second.push(cpu_of(&mut second)?);
    }
    let middle = |seconds: &mut Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    Ok((middle(&mut seconds), middle(&mut seconds_of_second)))
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
