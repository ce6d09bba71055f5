//! Membership lookups: the same for all families, except for the launched kernel.
use super::family::Family;
use super::{KeyOf, Storage, Table};
use crate::device::memory::collect_later;
use crate::device::{Apart, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};

impl<F: Family> Table<F> {
    /// Sets `found[i]` to 1 if the table holds `keys[i]`, otherwise to 0.
    pub(crate) fn contains_into(
        &self,
        stream: &Stream,
        keys: View<'_, KeyOf<F>>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check_stream(stream)?;
        check_length("found", found.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        let (queries, found_arg) = (keys.arg("keys", stream)?, found.arg("found", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                let table = F::table_ref(table.handles(stream, &self.plan)?);
                // SAFETY: there are `n` queries and answers; the table is as built with this plan.
                unsafe { F::launch_contains(stream, table, n, queries, found_arg) }
            }
            Storage::Cpu(table) => {
                let (keys, found) = (keys.elements("keys")?, found.elements("found")?);
                table.finder(self.plan.shape)?.contains(&self.device, keys, found)
            }
        }
    }
    /// Sets bit `i % 32` of `found[i / 32]` to 1 if the table holds `keys[i]`, otherwise to 0. Bits
    /// after the last key become 0.
    pub(crate) fn contains_bits_into(
        &self,
        stream: &Stream,
        keys: View<'_, KeyOf<F>>,
        mut found: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check_stream(stream)?;
        check_length("found", found.len(), "keys / 32", keys.len().div_ceil(32))?;
        let n = count32("keys", keys.len())?;
        let (queries, found_arg) = (keys.arg("keys", stream)?, found.arg("found", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                let table = F::table_ref(table.handles(stream, &self.plan)?);
                // SAFETY: there are `n` queries and a bit for each; the table is as built with this
                // plan.
                unsafe { F::launch_contains_bits(stream, table, n, queries, found_arg) }
            }
            Storage::Cpu(table) => {
                let (keys, found) = (keys.elements("keys")?, found.elements("found")?);
                table.finder(self.plan.shape)?.contains_bits(&self.device, keys, found)
            }
        }
    }
    /// Sets `count[0]` to the number of keys that the table holds.
    pub(crate) fn count_into(
        &self,
        stream: &Stream,
        keys: View<'_, KeyOf<F>>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check_stream(stream)?;
        check_length("count", count.len(), "the total", 1)?;
        let n = count32("keys", keys.len())?;
        let (queries, count_arg) = (keys.arg("keys", stream)?, count.arg("count", stream)?);
        match &self.storage {
            Storage::Kernels(table) => {
                count.fill_bytes(0, stream)?;
                let table = F::table_ref(table.handles(stream, &self.plan)?);
                // SAFETY: there are `n` queries and one sum; the table is as built with this plan.
                unsafe { F::launch_count(stream, table, n, queries, count_arg) }
            }
            Storage::Cpu(table) => {
                let (keys, count) = (keys.elements("keys")?, count.elements("count")?);
                count[0] = table.finder(self.plan.shape)?.count(&self.device, keys)? as u64;
                Ok(())
            }
        }
    }
    /// Returns whether the table holds each key in host memory. Copies and waits.
    pub(crate) fn contains(&self, keys: &[KeyOf<F>]) -> Result<Vec<bool>> {
        collect_later(&self.device, keys.len(), |to| {
            let (stream, staged) = (self.device.stream()?, self.device.stage32("keys", keys)?);
            let mut found = self.device.alloc(keys.len())?;
            self.contains_into(&stream, staged.view(), found.view_mut())?;
            found.view().copy_map(to, |found: u8| found != 0)
        })
    }
    /// Returns how many of the keys in host memory the table holds. Copies and waits.
    pub(crate) fn count(&self, keys: &[KeyOf<F>]) -> Result<u64> {
        let (staged, stream) = (self.device.stage32("keys", keys)?, self.device.stream()?);
        let mut count = self.device.alloc(1)?;
        self.count_into(&stream, staged.view(), count.view_mut())?;
        Ok(count.download()?[0])
    }
}
