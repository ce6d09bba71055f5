//! Sets in files: see [`file`](mod@crate::file).
use super::{OnCpu, Report, Set, SetReport, Storage, slots_of};
use crate::cpu;
use crate::error::Result;
use crate::file::filed::{Contents, Filed, Parts, in_files};
use crate::file::format::{Header, Members, TableKind, Types, Width};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::file::writer::Writer;
use crate::map::kernels::{Slots, header_words};
use crate::map::plan::Plan;
use crate::map::{Key, OnHost};
use koel_kernels::table::layout::{EMPTY, Layout};
use std::io::{Read, Seek, Write};
use std::sync::Mutex;

#[cfg(test)]
mod tests;

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Set::build(&device, &[3u32, 5, 7])?.save_to(&mut bytes)?;
    /// let set = koel::Set::<u32>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(set.contains(&[5, 6])?, [true, false]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[K: Key] Set<K>
}
impl<K: Key> Filed for Set<K> {
    const KIND: TableKind = TableKind::Set;
    type Slots = Members<K>;
    fn types() -> Types {
        Types { key: Width::of::<K>(), value: None }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        let report = self.report()?;
        let OnHost { stash, seed, held } = self.on_host()?;
        // Only a stash that holds something has slots to speak of.
        let stash = if report.stashed > 0 { &stash[..] } else { &[] };
        let slots = match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => table.view(),
            Storage::Kernels(table) => table.slots.view(),
        };
        let contents = Contents {
            shape: self.plan.shape,
            seed,
            pairs: report.keys,
            duplicates: report.duplicates,
            stash: cpu::Stash::from_slots(stash, held),
            slots: slots.slice(..slots_of::<K>(&self.plan))?,
            values: 0,
            fingerprints: 0,
        };
        writer.table::<Members<K>, K>(Self::KIND, Self::types(), contents, |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Set<K>> {
        let stash = parts.stash::<Members<K>>()?;
        let slots = parts.slots::<Members<K>, K>()?;
        let Header { seed, shape, pairs: keys, duplicates, stashed, .. } = *parts.header();
        let (device, keys, duplicates) = (parts.device, keys as usize, duplicates as usize);
        let mut plan = Plan::of_table(keys + duplicates, shape)?;
        let header = device.upload(&header_words(seed, keys, stashed as usize, stash.held()))?;
        let storage = match slots {
            Stored::Own(slots) if device.runs_kernels() => {
                let none = vec![EMPTY; K::Pairs::SLOT_WORDS];
                let stash = device.upload(if stash.is_empty() { &none } else { stash.slots() })?;
                plan.stash_bits = (stash.len() / K::Pairs::SLOT_WORDS).ilog2();
                Storage::Kernels(Slots { slots, stash, header })
            }
            table => Storage::Cpu(OnCpu { table, stash, seed, header }),
        };
        let report = Mutex::new(Report::Known(SetReport::default()));
        let set = Set { device: device.clone(), plan, storage, report };
        let (slots, bytes) = (slots_of::<K>(&plan), set.bytes());
        let report = SetReport {
            keys,
            duplicates,
            stashed: stashed as usize,
            slots,
            bytes,
            ..SetReport::default()
        };
        *set.report.lock().unwrap_or_else(|e| e.into_inner()) = Report::Known(report);
        Ok(set)
    }
    fn file(&self) -> Option<&Mapping> {
        match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => table.file(),
            Storage::Kernels(_) => None,
        }
    }
}
