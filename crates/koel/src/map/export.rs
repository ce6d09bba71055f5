//! Exports all pairs of a map.
use super::Pairs;
use crate::device::{Apart, Stream, ViewMut};
use crate::error::{Result, check_length};
use crate::table::{Family, Storage, THREADS, Table};
use crate::types::{KeyBits, ValueBits};
use koel_kernels::map::export::map_export;

/// Downloads all pairs, each converted.
pub(super) fn pairs_of<K: KeyBits, V: ValueBits, T: Send>(
    table: &Table<Pairs<K, V>>,
    convert: impl Fn(K, V) -> T + Sync,
) -> Result<Vec<T>> {
    let (device, n) = (&table.device, table.len()?);
    let (mut keys, mut values, mut count) = (device.alloc(n)?, device.alloc(n)?, device.alloc(1)?);
    let (to_keys, to_values) = (keys.view_mut(), values.view_mut());
    export(table, &device.stream()?, to_keys, to_values, count.view_mut())?;
    keys.view().download_zip(values.view(), convert)
}
/// Writes all pairs: see [`Map::export_into`](super::Map::export_into).
pub(super) fn export<K: KeyBits, V: ValueBits>(
    table: &Table<Pairs<K, V>>,
    stream: &Stream,
    mut keys: ViewMut<'_, K>,
    mut values: ViewMut<'_, V>,
    mut count: ViewMut<'_, u64>,
) -> Result<()> {
    let _apart = Apart::begin();
    table.check_stream(stream)?;
    check_length("count", count.len(), "the total", 1)?;
    let n = table.len()?;
    let (keys, values) = (&mut keys, &mut values);
    check_length("keys", keys.len().min(n), "pairs", n)?;
    check_length("values", values.len().min(n), "pairs", n)?;
    let (mut keys, mut values) = (keys.reborrow().slice(..n)?, values.reborrow().slice(..n)?);
    let (keys_arg, values_arg) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
    let count_arg = count.arg("count", stream)?;
    match &table.storage {
        Storage::Kernels(_) => {
            count.fill_bytes(0, stream)?;
            let table = Pairs::<K, V>::table_ref(table.handles(stream)?);
            let threads = table.shape.all_buckets() + (1u64 << table.stash_bits).div_ceil(4);
            let grid = threads.div_ceil(THREADS as u64) as u32;
            // SAFETY: the table is as built; keys and values have one element per pair.
            unsafe { map_export::launch(stream, grid, table, keys_arg, values_arg, count_arg) }
        }
        Storage::Cpu(on_cpu) => {
            let (keys, values) = (keys.elements("keys")?, values.elements("values")?);
            let pairs = on_cpu.entries(table.plan.shape);
            for (pair, (to_key, to_value)) in pairs.zip(keys.iter_mut().zip(values)) {
                (*to_key, *to_value) = pair;
            }
            count.elements("count")?[0] = n as u64;
            Ok(())
        }
    }
}
