//! Maps of keys or values of more than 64 bits: see [`MapStore`].
use super::KeysUpdater;
use super::host::HostPairs;
use super::join::RowsJoiner;
use crate::device::{Device, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::fallible::collect;
use crate::file::filed::{Filed, Parts};
use crate::file::kind::TableKind;
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::keys128::{Map128, Map128Builder};
use crate::map::{MapOptions, MapStore, Operation, RowsTo};
use crate::rows::file::Slots;
use crate::rows::update::{RowsUpdater, outcomes_of};
use crate::rows::{check_rows, joined};
use crate::set::SetStore;
use crate::table::update::{HostOperations, Operations, Outcome};
use crate::table::{BuildReport, Settings, contains};
use crate::types::Bits;
use std::io::{Read, Seek, Write};

contains! { impl[V: Bits] Map128<V>, u128, |map| map.set() }

#[allow(private_interfaces, reason = "other crates cannot name the trait")]
impl<V: Bits> MapStore for Map128<V> {
    type Value = V;
    fn check(n: usize, load: f64) -> Result<()> {
        check_rows(n, load)
    }
    type Builder = Map128Builder;
    fn builder(device: &Device, options: MapOptions) -> Result<Map128Builder> {
        Map128Builder::new(device, options)
    }
    fn build(
        builder: &mut Map128Builder,
        stream: &Stream,
        keys: View<'_, u128>,
        values: View<'_, V>,
    ) -> Result<Self> {
        builder.build(stream, keys, values)
    }
    fn rebuild(
        &mut self,
        builder: &mut Map128Builder,
        stream: &Stream,
        keys: View<'_, u128>,
        values: View<'_, V>,
    ) -> Result<()> {
        builder.rebuild(self, stream, keys, values)
    }
    fn device(&self) -> &Device {
        self.device()
    }
    fn report(&self) -> Result<BuildReport> {
        self.report()
    }
    fn bytes(&self) -> usize {
        self.bytes()
    }
    fn to_device(&self, device: &Device) -> Result<Self> {
        self.to_device(device)
    }
    fn pairs<T: Send>(&self, convert: impl Fn(u128, V) -> T + Sync) -> Result<Vec<T>> {
        self.keys_view().download_zip(self.values_view(), convert)
    }
    fn export_into(
        &self,
        stream: &Stream,
        mut keys: ViewMut<'_, u128>,
        mut values: ViewMut<'_, V>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let n = self.len();
        check_length("count", count.len(), "the total", 1)?;
        check_length("keys", keys.len().min(n), "pairs", n)?;
        check_length("values", values.len().min(n), "pairs", n)?;
        keys.reborrow().slice(..n)?.copy_from(self.keys_view(), stream)?;
        values.reborrow().slice(..n)?.copy_from(self.values_view(), stream)?;
        count.copy_from_host(&[n as u64])
    }
    type Host<'m> = HostPairs<'m, V>;
    fn host(&self) -> Result<Option<HostPairs<'_, V>>> {
        let Some(keys) = SetStore::host(self.set())? else { return Ok(None) };
        Ok(self.values_view().host().map(|values| HostPairs { keys, values }))
    }

    fn get<T: Send>(
        &self,
        keys: &[u128],
        of_bits: impl Fn(V) -> T + Sync,
    ) -> Result<Vec<Option<T>>> {
        self.get_map(keys, of_bits)
    }
    fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        values: ViewMut<'_, V>,
        found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.get_into(stream, keys, values, found)
    }
    fn get_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, u128>,
        values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        self.get_or_into(stream, keys, values, missing)
    }
    fn join<T: Send>(
        &self,
        keys: &[u128],
        of_bits: impl Fn(V) -> T + Sync,
    ) -> Result<Vec<(u32, T)>> {
        joined(self.get_map(keys, of_bits)?)
    }
    fn filter<T: Send>(
        &self,
        keys: &[u128],
        held: bool,
        of_bits: impl Fn(u128) -> T + Sync,
    ) -> Result<Vec<T>> {
        Ok(collect(self.keys.filter(keys, held)?.into_iter().map(of_bits))?)
    }

    type Joiner = RowsJoiner<V>;
    fn joiner(device: &Device) -> Result<RowsJoiner<V>> {
        RowsJoiner::new(device)
    }
    fn bytes_of_joiner(joiner: &RowsJoiner<V>) -> usize {
        joiner.scratch_bytes()
    }
    fn join_into(
        &self,
        joiner: &mut RowsJoiner<V>,
        stream: &Stream,
        queries: View<'_, u128>,
        rows: RowsTo<'_, V>,
    ) -> Result<()> {
        joiner.join_into(stream, self, queries, rows)
    }
    fn filter_into(
        &self,
        joiner: &mut RowsJoiner<V>,
        stream: &Stream,
        queries: View<'_, u128>,
        keys: Option<ViewMut<'_, u128>>,
        count: ViewMut<'_, u64>,
        keep: u32,
    ) -> Result<()> {
        joiner.filter(stream, self.set(), queries, keys, count, keep)
    }

    type Updater = KeysUpdater;
    fn updater(device: &Device, options: MapOptions) -> Result<Self::Updater> {
        Settings::from(options).check()?;
        RowsUpdater::new(device).map(KeysUpdater)
    }
    fn bytes_of_updater(updater: &Self::Updater) -> usize {
        updater.0.scratch_bytes()
    }
    fn apply(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, u128>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.apply_by(&mut updater.0, stream, operations, (keys, values), outcomes)
    }
    fn update(
        &mut self,
        operations: HostOperations<'_, Operation>,
        keys: &[u128],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        let device = self.device().clone();
        let (keys, values) = (device.stage(keys)?, device.stage(values)?);
        operations.on(&device, |operations| {
            outcomes_of(&device, keys.view().len(), |stream, outcomes| {
                self.apply(stream, operations, keys.view(), values.view(), outcomes)
            })
        })
    }
    fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.shrink_to(load)
    }

    const KIND: TableKind = TableKind::Map128;
    type Slots = Slots;
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        Filed::write(self, writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self> {
        Filed::read(parts)
    }
    fn file(&self) -> Option<&Mapping> {
        Filed::file(self)
    }
}
