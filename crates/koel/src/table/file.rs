//! Saves tables to files and loads them: see [`file`](mod@crate::file).
use super::family::Family;
use super::plan::Plan;
use super::{BuildReport, OnCpu, OnHost, Storage, Table, ValueOf, WordOf, slots_of, words_of};
use crate::cpu;
use crate::error::Result;
use crate::file::filed::Parts;
use crate::file::format::{Header, Slotted};
use crate::file::reader::Mapping;
use crate::file::writer::Contents;
use std::io::{Read, Seek};

impl<F: Family> Table<F> {
    /// Returns the contents that are written to a file, also as part of another table.
    pub(crate) fn contents<S: Slotted<Pairs = F::Pairs>>(
        &self,
    ) -> Result<Contents<'_, S, WordOf<F>>> {
        let report = self.report()?;
        let OnHost { stash, seed, held }: OnHost<ValueOf<F>> = self.on_host()?;
        // An empty stash may have no slots.
        let stash = if report.stashed > 0 { &stash[..] } else { &[] };
        let slots = match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => table.view(),
            Storage::Kernels(table) => table.slots.view(),
        };
        Ok(Contents {
            shape: self.plan.shape,
            seed,
            pairs: report.entries,
            duplicates: report.duplicates,
            stash: cpu::Stash::from_slots(stash, held)?,
            slots: slots.slice(..words_of::<F>(self.plan.shape))?,
            values: 0,
            key_bytes: 0,
            fingerprints: 0,
        })
    }
    /// Reads a table from a file.
    pub(crate) fn read<S: Slotted<Pairs = F::Pairs>, R: Read + Seek>(
        parts: &mut Parts<'_, R>,
    ) -> Result<Table<F>> {
        let stash = parts.stash::<S>()?;
        let slots = parts.slots::<S, WordOf<F>>()?;
        let Header { seed, shape, pairs, duplicates, stashed, .. } = *parts.header();
        let report = BuildReport {
            entries: pairs as usize,
            duplicates: duplicates as usize,
            stashed: stashed as usize,
            ..BuildReport::default()
        };
        let plan = Plan::of_table(report.entries + report.duplicates, shape)?;
        let table = Table::of_parts(parts.device, plan, slots, stash, seed, report)?;
        let (slots, bytes) = (slots_of::<F>(shape), table.bytes());
        table.set_report(BuildReport { slots, bytes, ..report });
        Ok(table)
    }
    /// Returns the file that the table was opened from, if any.
    pub(crate) fn file(&self) -> Option<&Mapping> {
        match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => table.file(),
            Storage::Kernels(_) => None,
        }
    }
}
