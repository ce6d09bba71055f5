//! Costs of a process's first calls on a GPU: opening the device, the first build, the first
//! lookup.
//!
//! `cargo run --release -p koel-rates --bin first_call -- [PAIRS] [ptx]` prints two lines of JSON.
//! With `ptx`, machine code is not used, as on a GPU for which koel embeds none. The driver's cache
//! affects the result: `CUDA_CACHE_DISABLE=1` turns it off.
use koel::device::CudaOptions;
use koel::device::cudarc::driver::result;
use koel::{Device, MapBuilder, MapOptions};
use koel_rates::{Arguments, all_decimals, decimals, print_provenance, row, seconds_of};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = Arguments::read();
    let machine_code = !args.has("ptx");
    let n = args.sizes(&[1 << 16])?[0];

    // Unavoidable work goes first: koel then finds both steps done.
    let ((), init) = seconds_of(result::init)?;
    // SAFETY: nothing releases the context: it lives as long as the process.
    let retain = || unsafe { result::primary_ctx::retain(result::device::get(0)?) };
    let (_, context) = seconds_of(retain)?;
    let options = CudaOptions::default().with_machine_code(machine_code);
    let (device, opening) = seconds_of(|| Device::cuda_with(0, options))?;

    let keys = (0..n as u32).map(|i| i.wrapping_mul(0x9E37_79B1)).collect::<Vec<_>>();
    let values = (0..n as u32).collect::<Vec<_>>();
    let (mut builds, mut lookups) = (vec![], vec![]);
    for _ in 0..4 {
        let (map, seconds) = seconds_of(|| {
            let stream = device.stream()?;
            let (k, v) = (device.stage(&keys)?, device.stage(&values)?);
            let mut builder = MapBuilder::new(&device, MapOptions::default())?;
            let map = builder.build(&stream, k.view(), v.view())?;
            stream.synchronize().map(|()| map)
        })?;
        builds.push(seconds * 1e3);
        let (found, seconds) = seconds_of(|| map.get(&keys))?;
        lookups.push(seconds * 1e3);
        if found.iter().zip(&values).any(|(found, value)| *found != Some(*value)) {
            return Err("a lookup gave a wrong answer".into());
        }
    }
    print_provenance(&device);
    row![
        ("device", device.name()),
        ("pairs", n),
        ("machine_code", machine_code),
        ("init_ms", decimals(init * 1e3, 2)),
        ("context_ms", decimals(context * 1e3, 2)),
        ("device_cuda_ms", decimals(opening * 1e3, 2)),
        ("build_ms", all_decimals(&builds, 2)),
        ("get_ms", all_decimals(&lookups, 2))
    ]
    .print();
    Ok(())
}
