//! Many builds and updates in one process: memory must not grow. One JSON object per line.
//!
//! `cargo run --release -p koel-rates --bin held_load -- [cpu|cuda] [builds=N] [batches=N]`; the
//! defaults are 10,000 builds and 100,000 batches.
//!
//! Builds maps of varying sizes and drops them, then changes one map by batches that insert and
//! erase the same keys. After each tenth of the work, it prints the process's resident memory and,
//! for a GPU, the memory in use. Every map is looked up.
use koel::map::{MapUpdater, Operation, Operations};
use koel::{Device, Map, MapOptions, Result};
use koel_rates::{Arguments, decimals, row};

const KEYS: u32 = 20_000;
const BATCH: u32 = 1000;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let count = |text: &str| text.parse::<u32>().ok();
    let counts = [args.list("builds", "10000", count)?, args.list("batches", "100000", count)?];
    let device = args.device()?;
    args.sizes(&[])?;
    counts[0].iter().try_for_each(|&count| builds(&device, count))?;
    counts[1].iter().try_for_each(|&count| updates(&device, count))
}

fn builds(device: &Device, count: u32) -> Result<()> {
    let keys = (0..KEYS).map(|i| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<u32>>();
    for i in 1..=count {
        let keys = &keys[..1 + i.wrapping_mul(7919) as usize % keys.len()];
        let map = Map::build(device, keys, keys)?;
        let found = map.count(keys)?;
        assert_eq!(found, keys.len() as u64, "build {i}: keys are missing");
        if i % count.div_ceil(10) == 0 {
            tell(device, "builds", i)?;
        }
    }
    Ok(())
}
fn updates(device: &Device, count: u32) -> Result<()> {
    let stream = device.stream()?;
    let key = |i: u32| i.wrapping_mul(0x9E37_79B9);
    let old = (0..KEYS).map(key).collect::<Vec<u32>>();
    let new = (KEYS..KEYS + BATCH).map(key).collect::<Vec<u32>>();
    let mut map = Map::build(device, &old, &old)?;
    let mut updater = MapUpdater::new(device, MapOptions::default())?;
    let (batch, mut outcomes) = (device.upload(&new)?, device.alloc::<u8>(new.len())?);
    for i in 1..=count {
        let operation = if i % 2 == 1 { Operation::Insert } else { Operation::Erase };
        updater.apply(
            &mut map,
            &stream,
            Operations::All(operation),
            batch.view(),
            batch.view(),
            outcomes.view_mut(),
        )?;
        if i % count.div_ceil(10) == 0 {
            assert_eq!(map.count(&old)?, old.len() as u64, "batch {i}: keys are missing");
            assert_eq!(
                map.count(&new)?,
                if i % 2 == 1 { new.len() as u64 } else { 0 },
                "batch {i}"
            );
            tell(device, "updates", i)?;
        }
    }
    Ok(())
}
/// Prints the memory in use.
fn tell(device: &Device, op: &str, done: u32) -> Result<()> {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0);
    let on_device = device.memory()?.map(|(free, total)| (total - free) >> 20);
    row![
        ("device", device.name()),
        ("op", op),
        ("done", done),
        ("resident_mib", decimals(pages as f64 * 4096.0 / (1 << 20) as f64, 1)),
        ("device_mib", on_device)
    ]
    .print();
    Ok(())
}
