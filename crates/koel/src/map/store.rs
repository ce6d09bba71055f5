//! How maps are stored: see [`MapStore`].
use super::builder::{SlotMapBuilder, plan_of};
use super::join::Joiner;
use super::update::summed;
use super::{MapOptions, Operation, Pairs, export};
use crate::device::graph::{WAITS, outside_only};
use crate::device::memory::{collect, collect_later, value_if_found};
use crate::device::{Device, Stream, View, ViewMut};
use crate::error::Result;
use crate::file::filed::Parts;
use crate::file::format::{Slotted, Types};
use crate::file::kind::{TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::map::LayoutOf;
use crate::table::sending::RouteTuning;
use crate::table::update::{
    Batch, HostBatch, HostOperations, Operations, Outcome, UpdateTuning, Updater, update_once,
};
use crate::table::{
    BuildReport, Contains, Family, HostTable, Storage, Table, contains, host_table,
};
use crate::types::{Bits, KeyBits, ValueBits};
use koel_kernels::map::join::keep;
use std::io::{Read, Seek, Write};

/// What a [`Map`](super::Map) asks of the table that stores it: of keys and values in slots, or in
/// rows if they have more than 64 bits. Knows bits only.
#[allow(private_interfaces, private_bounds, reason = "other crates cannot name the trait")]
pub trait MapStore: Contains + Sized + Send + Sync + 'static {
    type Value: Bits;
    /// Checks that there can be a map of `n` pairs at this load.
    fn check(n: usize, load: f64) -> Result<()>;
    /// Builds maps, and keeps scratch memory across builds.
    type Builder;
    fn builder(device: &Device, options: MapOptions) -> Result<Self::Builder>;
    fn build(
        builder: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        values: View<'_, Self::Value>,
    ) -> Result<Self>;
    fn rebuild(
        &mut self,
        builder: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        values: View<'_, Self::Value>,
    ) -> Result<()>;
    fn device(&self) -> &Device;
    fn report(&self) -> Result<BuildReport>;
    fn bytes(&self) -> usize;
    fn to_device(&self, device: &Device) -> Result<Self>;
    /// Returns all pairs, each converted.
    fn pairs<T: Send>(
        &self,
        convert: impl Fn(Self::Key, Self::Value) -> T + Sync,
    ) -> Result<Vec<T>>;
    fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, Self::Key>,
        values: ViewMut<'_, Self::Value>,
        count: ViewMut<'_, u64>,
    ) -> Result<()>;
    /// The map in host memory.
    type Host<'m>: HostTable<Key = Self::Key, Value = Self::Value>
    where
        Self: 'm;
    fn host(&self) -> Result<Option<Self::Host<'_>>>;

    fn get<T: Send>(
        &self,
        keys: &[Self::Key],
        of_bits: impl Fn(Self::Value) -> T + Sync,
    ) -> Result<Vec<Option<T>>>;
    fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        values: ViewMut<'_, Self::Value>,
        found: ViewMut<'_, u8>,
    ) -> Result<()>;
    fn get_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, Self::Key>,
        values: ViewMut<'_, Self::Value>,
        missing: Self::Value,
    ) -> Result<()>;
    /// Returns the index and the value of each key that the map holds.
    fn join<T: Send>(
        &self,
        keys: &[Self::Key],
        of_bits: impl Fn(Self::Value) -> T + Sync,
    ) -> Result<Vec<(u32, T)>>;
    /// Returns the keys that the map holds, or those that it does not hold.
    fn filter<T: Send>(
        &self,
        keys: &[Self::Key],
        held: bool,
        of_bits: impl Fn(Self::Key) -> T + Sync,
    ) -> Result<Vec<T>>;

    /// Looks up many keys, answers in any order, and keeps scratch memory across batches.
    type Joiner;
    fn joiner(device: &Device) -> Result<Self::Joiner>;
    fn bytes_of_joiner(joiner: &Self::Joiner) -> usize;
    /// See [`MapJoiner::join_into`](super::MapJoiner::join_into).
    fn join_into(
        &self,
        joiner: &mut Self::Joiner,
        stream: &Stream,
        queries: View<'_, Self::Key>,
        rows: RowsTo<'_, Self::Value>,
    ) -> Result<()>;
    /// Writes the queries of the [kind](keep) that is kept, or only their number.
    fn filter_into(
        &self,
        joiner: &mut Self::Joiner,
        stream: &Stream,
        queries: View<'_, Self::Key>,
        keys: Option<ViewMut<'_, Self::Key>>,
        count: ViewMut<'_, u64>,
        keep: u32,
    ) -> Result<()>;

    /// Applies batches, and keeps scratch memory across them.
    type Updater;
    fn updater(device: &Device, options: MapOptions) -> Result<Self::Updater>;
    fn bytes_of_updater(updater: &Self::Updater) -> usize;
    /// See [`MapUpdater::apply`](super::MapUpdater::apply).
    fn apply(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, Self::Key>,
        values: View<'_, Self::Value>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()>;
    /// Applies operations, and returns their outcomes.
    fn update(
        &mut self,
        operations: HostOperations<'_, Operation>,
        keys: &[Self::Key],
        values: &[Self::Value],
    ) -> Result<Vec<Outcome>>;
    fn shrink_to(&mut self, load: f64) -> Result<()>;

    /// Kind of table in files, and what its slots hold.
    const KIND: TableKind;
    type Slots: Slotted;
    fn types() -> Types {
        Types { key: Width::of::<Self::Key>(), value: Some(Width::of::<Self::Value>()) }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()>;
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self>;
    fn file(&self) -> Option<&Mapping>;
}

/// Where a join writes its rows.
pub struct RowsTo<'a, V> {
    pub numbers: ViewMut<'a, u32>,
    pub values: ViewMut<'a, V>,
    pub count: ViewMut<'a, u64>,
}

/// A map with keys and values in slots.
pub struct SlotMap<K: KeyBits, V: ValueBits>(pub(super) Table<Pairs<K, V>>);
/// Updates maps with keys and values in slots.
pub struct SlotMapUpdater<K: KeyBits, V: ValueBits>(pub(super) Updater<Pairs<K, V>>);
contains! { impl[K: KeyBits, V: ValueBits] SlotMap<K, V>, K, |map| map.0 }
host_table! {
    /// A map with keys and values in slots, in host memory.
    HostPairs, HostPairsIter [K: KeyBits, V: ValueBits] [K, V]: Pairs<K, V>, K, V
}
#[allow(private_interfaces, reason = "other crates cannot name the trait")]
impl<K: KeyBits, V: ValueBits> MapStore for SlotMap<K, V> {
    type Value = V;
    fn check(n: usize, load: f64) -> Result<()> {
        Pairs::<K, V>::plan(n, load).map(|_| ())
    }
    type Builder = SlotMapBuilder<K, V>;
    fn builder(device: &Device, options: MapOptions) -> Result<Self::Builder> {
        SlotMapBuilder::new(device, options)
    }
    fn build(
        SlotMapBuilder { builder }: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Self> {
        let plan = plan_of(builder, stream, keys, values)?;
        Ok(SlotMap(builder.build(plan, stream, (keys, values))?))
    }
    fn rebuild(
        &mut self,
        SlotMapBuilder { builder }: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        let plan = plan_of(builder, stream, keys, values)?;
        builder.rebuild(&mut self.0, plan, stream, (keys, values))
    }
    fn device(&self) -> &Device {
        &self.0.device
    }
    fn report(&self) -> Result<BuildReport> {
        self.0.report()
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn to_device(&self, device: &Device) -> Result<Self> {
        Ok(SlotMap(self.0.to_device(device)?))
    }
    fn pairs<T: Send>(&self, convert: impl Fn(K, V) -> T + Sync) -> Result<Vec<T>> {
        export::pairs_of(&self.0, convert)
    }
    fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, K>,
        values: ViewMut<'_, V>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        export::export(&self.0, stream, keys, values, count)
    }
    type Host<'m> = HostPairs<'m, K, V>;
    #[inline]
    fn host(&self) -> Result<Option<HostPairs<'_, K, V>>> {
        Ok(self.0.host()?.map(HostPairs))
    }

    fn get<T: Send>(&self, keys: &[K], of_bits: impl Fn(V) -> T + Sync) -> Result<Vec<Option<T>>> {
        let (device, n) = (&self.0.device, keys.len());
        if let Storage::Cpu(table) = &self.0.storage {
            outside_only("Map::get", device, WAITS)?;
            let finder = table.finder(self.0.plan.shape)?;
            return collect(n, |to| finder.options(device, keys, to, &of_bits));
        }
        collect_later(device, n, |to| {
            let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
            let (staged, stream) = (device.stage(keys)?, device.stream()?);
            self.0.find_into(&stream, staged.view(), values.view_mut(), found.view_mut())?;
            let answer = |bits, found| value_if_found(bits, found).map(&of_bits);
            values.view().copy_zip(found.view(), to, answer)
        })
    }
    fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        values: ViewMut<'_, V>,
        found: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.0.find_into(stream, keys, values, found)
    }
    fn get_or_into(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        values: ViewMut<'_, V>,
        missing: V,
    ) -> Result<()> {
        self.0.find_or_into(stream, keys, values, missing)
    }
    fn join<T: Send>(&self, keys: &[K], of_bits: impl Fn(V) -> T + Sync) -> Result<Vec<(u32, T)>> {
        let (device, n) = (&self.0.device, keys.len());
        let (staged, stream) = (device.stage(keys)?, device.stream()?);
        let (mut numbers, mut values) = (device.alloc(n)?, device.alloc(n)?);
        let mut count = device.alloc(1)?;
        let (to_numbers, to_values) = (numbers.view_mut(), values.view_mut());
        let to = RowsTo { numbers: to_numbers, values: to_values, count: count.view_mut() };
        self.join_into(&mut Self::joiner(device)?, &stream, staged.view(), to)?;
        let rows = ..count.download()?[0] as usize;
        let (numbers, values) = (numbers.view().slice(rows)?, values.view().slice(rows)?);
        numbers.download_zip(values, |number, bits| (number, of_bits(bits)))
    }
    fn filter<T: Send>(
        &self,
        keys: &[K],
        held: bool,
        of_bits: impl Fn(K) -> T + Sync,
    ) -> Result<Vec<T>> {
        let (device, keep) = (&self.0.device, if held { keep::FOUND } else { keep::MISSING });
        let (staged, stream) = (device.stage(keys)?, device.stream()?);
        let (mut kept, mut count) = (device.alloc(keys.len())?, device.alloc(1)?);
        let (to, joiner) = (Some(kept.view_mut()), &mut Self::joiner(device)?);
        self.filter_into(joiner, &stream, staged.view(), to, count.view_mut(), keep)?;
        kept.view().slice(..count.download()?[0] as usize)?.download_map(of_bits)
    }

    type Joiner = Joiner<K, V>;
    fn joiner(device: &Device) -> Result<Joiner<K, V>> {
        Joiner::new(device, RouteTuning::TUNED)
    }
    fn bytes_of_joiner(joiner: &Joiner<K, V>) -> usize {
        joiner.scratch_bytes()
    }
    fn join_into(
        &self,
        joiner: &mut Joiner<K, V>,
        stream: &Stream,
        queries: View<'_, K>,
        RowsTo { numbers, values, count }: RowsTo<'_, V>,
    ) -> Result<()> {
        joiner.join_into(stream, &self.0, queries, numbers, values, count)
    }
    fn filter_into(
        &self,
        joiner: &mut Joiner<K, V>,
        stream: &Stream,
        queries: View<'_, K>,
        keys: Option<ViewMut<'_, K>>,
        count: ViewMut<'_, u64>,
        keep: u32,
    ) -> Result<()> {
        joiner.filter(stream, &self.0, queries, keys, count, keep)
    }

    type Updater = SlotMapUpdater<K, V>;
    fn updater(device: &Device, options: MapOptions) -> Result<Self::Updater> {
        Updater::new(device, options.into(), UpdateTuning::TUNED).map(SlotMapUpdater)
    }
    fn bytes_of_updater(updater: &Self::Updater) -> usize {
        updater.0.scratch_bytes()
    }
    fn apply(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, K>,
        values: View<'_, V>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let operations = operations.codes(|operation| operation as u32);
        updater.0.apply(&mut self.0, stream, Batch { operations, keys, values }, outcomes)
    }
    fn update(
        &mut self,
        operations: HostOperations<'_, Operation>,
        keys: &[K],
        values: &[V],
    ) -> Result<Vec<Outcome>> {
        if let HostOperations::All(Operation::InsertOrAdd) = operations
            && let Some(outcomes) = summed::add(self, keys, values)
        {
            return outcomes;
        }
        let batch = HostBatch { operations: operations.codes(|of| of as u32), keys, values };
        update_once(&mut self.0, batch, MapOptions::default().into(), UpdateTuning::TUNED)
    }
    fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.0.shrink(MapOptions::default().with_load(load).into())
    }

    const KIND: TableKind = TableKind::Map;
    type Slots = LayoutOf<K, V>;
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        let types = <Self as MapStore>::types();
        writer.table(Self::KIND, types, self.0.contents::<LayoutOf<K, V>>()?, |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self> {
        Ok(SlotMap(Table::read::<LayoutOf<K, V>, R>(parts)?))
    }
    fn file(&self) -> Option<&Mapping> {
        self.0.file()
    }
}
