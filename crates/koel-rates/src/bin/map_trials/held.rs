//! Many builds and updates in one process: memory must not grow. Every map is looked up.
use super::AnyResult;
use koel::map::{MapUpdater, Operation, Operations};
use koel::{Device, Map, MapOptions};
use koel_rates::{Row, decimals, row};

const KEYS: u32 = 20_000;
const BATCH: u32 = 1000;

/// Builds maps of varying sizes and drops them.
pub(super) fn builds(device: &Device, count: u32) -> AnyResult<Row> {
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
    Ok(row![("builds", count)])
}
/// Changes one map by batches that insert and erase the same keys.
pub(super) fn updates(device: &Device, count: u32) -> AnyResult<Row> {
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
    Ok(row![("batches", count)])
}
/// Prints the memory in use: resident memory of the process and, for a GPU, that of the device.
fn tell(device: &Device, op: &str, done: u32) -> koel::Result<()> {
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
