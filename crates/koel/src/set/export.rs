//! Exports all keys of a set.
use super::Keys;
use crate::device::{Apart, Stream, ViewMut};
use crate::error::{Result, check_length};
use crate::table::{Family, Storage, THREADS, Table};
use crate::types::KeyBits;
use koel_kernels::set::export::set_export;

/// Downloads all keys, each converted.
pub(super) fn keys_of<K: KeyBits, T: Send>(
    table: &Table<Keys<K>>,
    convert: impl Fn(K) -> T + Sync,
) -> Result<Vec<T>> {
    let device = &table.device;
    let (mut keys, mut count) = (device.alloc(table.len()?)?, device.alloc(1)?);
    export(table, &device.stream()?, keys.view_mut(), count.view_mut())?;
    keys.view().download_map(convert)
}
/// Writes all keys: see [`Set::export_into`](super::Set::export_into).
pub(super) fn export<K: KeyBits>(
    table: &Table<Keys<K>>,
    stream: &Stream,
    mut keys: ViewMut<'_, K>,
    mut count: ViewMut<'_, u64>,
) -> Result<()> {
    let _apart = Apart::begin();
    table.check_stream(stream)?;
    check_length("count", count.len(), "the total", 1)?;
    let n = table.len()?;
    check_length("keys", keys.len().min(n), "keys of the set", n)?;
    let (keys_arg, count_arg) = (keys.arg("keys", stream)?, count.arg("count", stream)?);
    match &table.storage {
        Storage::Kernels(_) => {
            count.fill_bytes(0, stream)?;
            let table = Keys::<K>::table_ref(table.handles(stream)?);
            let threads =
                table.shape.all_buckets() + (1u64 << table.stash_bits).div_ceil(K::SLOTS.into());
            let grid = threads.div_ceil(THREADS as u64) as u32;
            // SAFETY: the set is as built; there is room for all its keys.
            unsafe { set_export::launch(stream, grid, table, keys_arg, count_arg) }
        }
        Storage::Cpu(on_cpu) => {
            let to = keys.elements("keys")?.iter_mut();
            to.zip(on_cpu.entries(table.plan.shape)).for_each(|(to, (key, _))| *to = key);
            count.elements("count")?[0] = n as u64;
            Ok(())
        }
    }
}
