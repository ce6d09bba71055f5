//! Costs of a process's first calls on a GPU: opening the device, the first build, the first
//! lookup.
//!
//! `cargo run --release -p koel-rates --bin first_call -- [PAIRS] [ptx]` prints two lines of JSON.
//! With `ptx`, machine code is not used, as on a GPU for which koel embeds none. The driver's cache
//! affects the result: `CUDA_CACHE_DISABLE=1` turns it off.
use koel::device::CudaOptions;
use koel::device::cudarc::driver::result;
use koel::{Device, MapBuilder, MapOptions};
use koel_rates::{all_decimals, decimals, print_provenance, row};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let n = args.iter().find_map(|a| a.parse().ok()).unwrap_or(1usize << 16);
    let machine_code = !args.iter().any(|a| a == "ptx");

    // Unavoidable work goes first: koel then finds both steps done.
    let clock = Instant::now();
    result::init()?;
    let init = ms(clock);
    let clock = Instant::now();
    // SAFETY: nothing releases the context: it lives as long as the process.
    unsafe { result::primary_ctx::retain(result::device::get(0)?) }?;
    let context = ms(clock);

    let clock = Instant::now();
    let device = Device::cuda_with(0, CudaOptions::default().with_machine_code(machine_code))?;
    let opening = ms(clock);

    let keys = (0..n as u32).map(|i| i.wrapping_mul(0x9E37_79B1)).collect::<Vec<_>>();
    let values = (0..n as u32).collect::<Vec<_>>();
    let (mut builds, mut lookups) = (vec![], vec![]);
    for _ in 0..4 {
        let clock = Instant::now();
        let stream = device.stream()?;
        let (k, v) = (device.stage(&keys)?, device.stage(&values)?);
        let map =
            MapBuilder::new(&device, MapOptions::default())?.build(&stream, k.view(), v.view())?;
        stream.synchronize()?;
        builds.push(ms(clock));
        let clock = Instant::now();
        let found = map.get(&keys)?;
        lookups.push(ms(clock));
        if found.iter().zip(&values).any(|(found, value)| *found != Some(*value)) {
            return Err("a lookup gave a wrong answer".into());
        }
    }
    print_provenance(&device);
    row![
        ("device", device.name()),
        ("pairs", n),
        ("machine_code", machine_code),
        ("init_ms", decimals(init, 2)),
        ("context_ms", decimals(context, 2)),
        ("device_cuda_ms", decimals(opening, 2)),
        ("build_ms", all_decimals(&builds, 2)),
        ("get_ms", all_decimals(&lookups, 2))
    ]
    .print();
    Ok(())
}
fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
