//! Maps in files: see [`file`](crate::file).
use super::plan::Plan;
use super::{Key, LayoutOf, Map, MapReport, OnCpu, OnHost, Report, Storage, Value, kernels};
use crate::cpu;
use crate::error::Result;
use crate::file::filed::{Contents, Filed, Parts, in_files};
use crate::file::format::{Header, TableKind, Types, Width};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::file::writer::Writer;
use koel_kernels::table::layout::{EMPTY, Layout};
use std::io::{Read, Seek, Write};
use std::sync::Mutex;

#[cfg(test)]
mod tests;

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Map::build(&device, &[3u32, 5, 7], &[30u64, 50, 70])?.save_to(&mut bytes)?;
    /// let map = koel::Map::<u32, u64>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.get(&[5, 6])?, [Some(50), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[K: Key, V: Value] Map<K, V>
}
impl<K: Key, V: Value> Filed for Map<K, V> {
    const KIND: TableKind = TableKind::Map;
    type Slots = LayoutOf<K, V>;
    fn types() -> Types {
        Types { key: Width::of::<K>(), value: Some(Width::of::<V>()) }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.filed()?, |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Map<K, V>> {
        let stash = parts.stash::<LayoutOf<K, V>>()?;
        let slots = parts.slots::<LayoutOf<K, V>, u64>()?;
        let Header { seed, shape, pairs, duplicates, stashed, .. } = *parts.header();
        let (device, pairs, duplicates) = (parts.device, pairs as usize, duplicates as usize);
        let mut plan = Plan::of_table(pairs + duplicates, shape)?;
        let words = kernels::header_words(seed, pairs, stashed as usize, stash.held());
        let header = device.upload(&words)?;
        let storage = match slots {
            Stored::Own(slots) if device.runs_kernels() => {
                let none = vec![EMPTY; LayoutOf::<K, V>::SLOT_WORDS];
                let stash = device.upload(if stash.is_empty() { &none } else { stash.slots() })?;
                plan.stash_bits = (stash.len() / LayoutOf::<K, V>::SLOT_WORDS).ilog2();
                Storage::Kernels(kernels::Slots { slots, stash, header })
            }
            table => Storage::Cpu(OnCpu { table, stash, seed, header }),
        };
        let report = Mutex::new(Report::Known(MapReport::default()));
        let map = Map { device: device.clone(), plan, storage, report };
        let (slots, bytes) = (plan.slots(), map.bytes());
        let report = MapReport {
            pairs,
            duplicates,
            stashed: stashed as usize,
            slots,
            bytes,
            ..MapReport::default()
        };
        *map.report.lock().unwrap_or_else(|e| e.into_inner()) = Report::Known(report);
        Ok(map)
    }
    fn file(&self) -> Option<&Mapping> {
        match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => table.file(),
            Storage::Kernels(_) => None,
        }
    }
}
impl<K: Key, V: Value> Map<K, V> {
    /// What is written of it, also as a part of another table.
    pub(crate) fn filed(&self) -> Result<Contents<'_, LayoutOf<K, V>, u64>> {
        let report = self.report()?;
        let OnHost { stash, seed, held } = self.on_host()?;
        // Only a stash that holds something has slots to speak of.
        let stash = if report.stashed > 0 { &stash[..] } else { &[] };
        let slots = match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => table.view(),
            Storage::Kernels(table) => table.slots.view(),
        };
        Ok(Contents {
            shape: self.plan.shape,
            seed,
            pairs: report.pairs,
            duplicates: report.duplicates,
            stash: cpu::Stash::from_slots(stash, held),
            slots: slots.slice(..self.plan.words::<LayoutOf<K, V>>())?,
            values: 0,
            fingerprints: 0,
        })
    }
}
