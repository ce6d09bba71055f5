//! How sets are stored: see [`SetStore`].
use super::combine::combine;
use super::{Keys, SetOptions, export, operations_on};
use crate::device::{Device, Stream, View, ViewMut};
use crate::error::Result;
use crate::file::filed::Parts;
use crate::file::format::{Members, Slotted, Types};
use crate::file::kind::{TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::set::SetOperation;
use crate::table::update::{
    HostBatch, HostOperations, Operations, Outcome, UpdateTuning, Updater, update_once,
};
use crate::table::{
    BuildReport, Builder, Contains, Family, HostTable, Table, contains, host_table,
};
use crate::types::KeyBits;
use std::io::{Read, Seek, Write};

/// What a [`Set`](super::Set) asks of the table that stores it: of keys in slots, or in rows if
/// they have more than 64 bits. Knows bits only.
#[allow(private_interfaces, private_bounds, reason = "other crates cannot name the trait")]
pub trait SetStore: Contains + Sized + Send + Sync + 'static {
    /// Checks that there can be a set of `n` keys at this load.
    fn check(n: usize, load: f64) -> Result<()>;
    /// Builds sets, and keeps scratch memory across builds.
    type Builder;
    fn builder(device: &Device, options: SetOptions) -> Result<Self::Builder>;
    fn build(
        builder: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, Self::Key>,
    ) -> Result<Self>;
    fn rebuild(
        &mut self,
        builder: &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, Self::Key>,
    ) -> Result<()>;
    fn device(&self) -> &Device;
    fn report(&self) -> Result<BuildReport>;
    fn bytes(&self) -> usize;
    fn to_device(&self, device: &Device) -> Result<Self>;
    /// Returns all keys, each converted.
    fn keys<T: Send>(&self, convert: impl Fn(Self::Key) -> T + Sync) -> Result<Vec<T>>;
    fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, Self::Key>,
        count: ViewMut<'_, u64>,
    ) -> Result<()>;
    /// The set in host memory.
    type Host<'s>: HostTable<Key = Self::Key, Value = ()>
    where
        Self: 's;
    fn host(&self) -> Result<Option<Self::Host<'_>>>;

    /// Applies batches, and keeps scratch memory across them.
    type Updater;
    fn updater(device: &Device, options: SetOptions) -> Result<Self::Updater>;
    fn bytes_of_updater(updater: &Self::Updater) -> usize;
    /// See [`SetUpdater::apply`](super::SetUpdater::apply).
    fn apply(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, Self::Key>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()>;
    /// Applies operations, and returns their outcomes.
    fn update(
        &mut self,
        operations: HostOperations<'_, SetOperation>,
        keys: &[Self::Key],
    ) -> Result<Vec<Outcome>>;
    fn shrink_to(&mut self, load: f64) -> Result<()>;
    /// Returns the distinct keys of an array, or of a combination with another one: see
    /// [`how`](koel_kernels::set::combine::how). Each converted.
    fn combined<T: Send>(
        device: &Device,
        what: u32,
        keys: &[Self::Key],
        others: Option<&[Self::Key]>,
        convert: impl Fn(Self::Key) -> T + Sync,
    ) -> Result<Vec<T>>;

    /// Kind of table in files, and what its slots hold.
    const KIND: TableKind;
    type Slots: Slotted;
    fn types() -> Types {
        Types { key: Width::of::<Self::Key>(), value: None }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()>;
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self>;
    fn file(&self) -> Option<&Mapping>;
}

/// A set with keys in slots.
pub struct SlotSet<K: KeyBits>(pub(super) Table<Keys<K>>);
/// Builds sets with keys in slots.
pub struct SlotSetBuilder<K: KeyBits>(Builder<Keys<K>>);
/// Updates sets with keys in slots.
pub struct SlotSetUpdater<K: KeyBits>(pub(super) Updater<Keys<K>>);
contains! { impl[K: KeyBits] SlotSet<K>, K, |set| set.0 }
host_table! {
    /// A set with keys in slots, in host memory.
    HostKeys, HostKeysIter [K: KeyBits] [K]: Keys<K>, K, ()
}

#[allow(private_interfaces, reason = "other crates cannot name the trait")]
impl<K: KeyBits> SetStore for SlotSet<K> {
    fn check(n: usize, load: f64) -> Result<()> {
        Keys::<K>::plan(n, load).map(|_| ())
    }
    type Builder = SlotSetBuilder<K>;
    fn builder(device: &Device, options: SetOptions) -> Result<Self::Builder> {
        Builder::new(device, options.into()).map(SlotSetBuilder)
    }
    fn build(
        SlotSetBuilder(builder): &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<Self> {
        keys.arg("keys", stream)?;
        let plan = builder.plan(stream, keys.len())?;
        Ok(SlotSet(builder.build(plan, stream, keys)?))
    }
    fn rebuild(
        &mut self,
        SlotSetBuilder(builder): &mut Self::Builder,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<()> {
        keys.arg("keys", stream)?;
        let plan = builder.plan(stream, keys.len())?;
        builder.rebuild(&mut self.0, plan, stream, keys)
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
        Ok(SlotSet(self.0.to_device(device)?))
    }
    fn keys<T: Send>(&self, convert: impl Fn(K) -> T + Sync) -> Result<Vec<T>> {
        export::keys_of(&self.0, convert)
    }
    fn export_into(
        &self,
        stream: &Stream,
        keys: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        export::export(&self.0, stream, keys, count)
    }
    type Host<'s> = HostKeys<'s, K>;
    #[inline]
    fn host(&self) -> Result<Option<HostKeys<'_, K>>> {
        Ok(self.0.host()?.map(HostKeys))
    }

    type Updater = SlotSetUpdater<K>;
    fn updater(device: &Device, options: SetOptions) -> Result<Self::Updater> {
        Updater::new(device, options.into(), UpdateTuning::OF_SETS).map(SlotSetUpdater)
    }
    fn bytes_of_updater(updater: &Self::Updater) -> usize {
        updater.0.scratch_bytes()
    }
    fn apply(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, K>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        updater.0.apply(&mut self.0, stream, operations_on(operations, keys)?, outcomes)
    }
    fn update(
        &mut self,
        operations: HostOperations<'_, SetOperation>,
        keys: &[K],
    ) -> Result<Vec<Outcome>> {
        let operations = operations.codes(|of| of as u32);
        let batch = HostBatch { operations, keys, values: &[] };
        update_once(&mut self.0, batch, SetOptions::default().into(), UpdateTuning::OF_SETS)
    }
    fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.0.shrink(SetOptions::default().with_load(load).into())
    }
    fn combined<T: Send>(
        device: &Device,
        what: u32,
        keys: &[K],
        others: Option<&[K]>,
        convert: impl Fn(K) -> T + Sync,
    ) -> Result<Vec<T>> {
        combine(device, what, keys, others, convert)
    }

    const KIND: TableKind = TableKind::Set;
    type Slots = Members<K>;
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        let types = <Self as SetStore>::types();
        writer.table(Self::KIND, types, self.0.contents::<Members<K>>()?, |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self> {
        Ok(SlotSet(Table::read::<Members<K>, R>(parts)?))
    }
    fn file(&self) -> Option<&Mapping> {
        self.0.file()
    }
}
