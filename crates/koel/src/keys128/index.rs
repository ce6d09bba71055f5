//! Indexes of keys in rows: the rows of a set are ids.
use super::set::{Set128, Set128Builder};
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, check_length, count32};
use crate::file::filed::{Filed, FiledIndex, Parts};
use crate::file::format::Types;
use crate::file::kind::{TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::{Contents, Sections, Writer};
use crate::groups::{
    Grouped, IdGrouper, Index, IndexBuilder, IndexOptions, IndexStore, MultiMapOptions, NO_ID,
};
use crate::rows::file::Slots;
use crate::rows::{Other, Way, number};
use crate::table::BuildReport;
use crate::types::ValueBits;
use koel_kernels::keys128::find::NO_ROW;
use std::io::{Read, Seek, Write};

const _: () = assert!(NO_ID == NO_ROW);

/// An index of keys of more than 64 bits: see [`IndexStore`].
pub struct RowIndex(Set128);

#[allow(private_interfaces, reason = "other crates cannot name the trait")]
impl IndexStore for RowIndex {
    type Key = u128;
    type Builder = Set128Builder;
    #[inline]
    fn builder(device: &Device, options: IndexOptions) -> Result<Set128Builder> {
        Set128Builder::new(device, options.of_set())
    }
    #[inline]
    fn build(
        builder: &mut Set128Builder,
        stream: &Stream,
        keys: View<'_, u128>,
        mut ids: Option<ViewMut<'_, u32>>,
    ) -> Result<RowIndex> {
        let (device, n) = (stream.device(), keys.len());
        if let (false, Some(of_host)) = (device.runs_kernels(), keys.host()) {
            count32("keys", n)?;
            keys.arg("keys", stream)?;
            let to = match &mut ids {
                Some(ids) => {
                    check_length("ids", ids.len(), "keys", n)?;
                    ids.arg("ids", stream)?;
                    ids.host_mut()
                }
                None => None,
            };
            let way = Way { counts: false, other: Other::Map };
            if let Some(numbered) = number(device, &of_host, way, to)? {
                let mut set = builder.build(stream, device.upload(&numbered.keys)?.view())?;
                set.rows.built.duplicates = n - numbered.keys.len();
                return Ok(RowIndex(set));
            }
        }
        let index = RowIndex(builder.build(stream, keys)?);
        if let Some(ids) = ids {
            index.ids_into(stream, keys, ids)?;
        }
        Ok(index)
    }
    #[inline]
    fn scratch_bytes(builder: &Set128Builder) -> usize {
        builder.scratch_bytes()
    }
    type Grouper<V: ValueBits> = RowGrouper<V>;
    fn grouper<V: ValueBits>(
        device: &Device,
        MultiMapOptions { load, seed, .. }: MultiMapOptions,
    ) -> Result<RowGrouper<V>> {
        let options = IndexOptions::default().with_load(load).with_seed(seed);
        Ok(RowGrouper { keys: RowIndex::builder(device, options)?, values: IdGrouper::new() })
    }
    fn grouped<V: ValueBits>(
        grouper: &mut RowGrouper<V>,
        stream: &Stream,
        keys: View<'_, u128>,
        values: View<'_, V>,
    ) -> Result<(RowIndex, Grouped<V>)> {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", keys.len())?;
        values.arg("values", stream)?;
        let mut ids = stream.device().alloc(keys.len())?;
        let mut index = RowIndex::build(&mut grouper.keys, stream, keys, Some(ids.view_mut()))?;
        // Of a multimap no pair is dropped.
        index.0.rows.built.duplicates = 0;
        Ok((index, grouper.values.grouped(stream, ids.view(), values)?))
    }
    fn bytes_of_grouper<V: ValueBits>(grouper: &RowGrouper<V>) -> usize {
        grouper.keys.scratch_bytes() + grouper.values.scratch_bytes()
    }
    #[inline]
    fn device(&self) -> &Device {
        self.0.device()
    }
    #[inline]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    #[inline]
    fn keys(&self) -> View<'_, u128> {
        self.0.keys_view()
    }
    #[inline]
    fn to_device(&self, device: &Device) -> Result<RowIndex> {
        Ok(RowIndex(self.0.to_device(device)?))
    }
    #[inline]
    fn ids_into(&self, stream: &Stream, keys: View<'_, u128>, ids: ViewMut<'_, u32>) -> Result<()> {
        self.0.rows.rows_into(stream, keys, ids)
    }
}
/// Groups values by keys in rows.
pub struct RowGrouper<V: ValueBits> {
    keys: Set128Builder,
    values: IdGrouper<V>,
}
impl Filed for RowIndex {
    const KIND: TableKind = TableKind::Index128;
    type Slots = Slots;
    #[inline]
    fn types() -> Types {
        Types { key: Width::U128, value: Some(Width::U32) }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.contents()?, |to| self.add_keys(to))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<RowIndex> {
        Ok(RowIndex(Set128::read(parts)?))
    }
    #[inline]
    fn file(&self) -> Option<&Mapping> {
        self.0.file()
    }
}
impl FiledIndex for RowIndex {
    const MULTI_MAP: TableKind = TableKind::MultiMap128;
    const TO_STRINGS: TableKind = TableKind::Map128ToStrings;
    #[inline]
    fn contents(&self) -> Result<Contents<'_, Slots, u64>> {
        self.0.rows.filed()
    }
    fn add_keys<W: Write + Seek>(&self, sections: &mut Sections<'_, '_, W>) -> Result<()> {
        sections.add(self.0.keys_view())
    }
}

/// Of keys in rows.
impl Index<u128> {
    /// Returns the report of the build. After a [`rebuild`](IndexBuilder::rebuild) this waits for
    /// it and reads the table's header back.
    #[inline]
    pub fn report(&self) -> Result<BuildReport> {
        self.store.0.report()
    }
    /// Returns the keys as a set, whose [rows](Set128::rows) are ids: for custom kernels.
    #[inline]
    pub fn set(&self) -> &Set128 {
        &self.store.0
    }
}
/// Of keys in rows.
impl IndexBuilder<u128> {
    /// Replaces the content of an index by the distinct keys of another column: see
    /// [`Set128Builder::rebuild`].
    #[inline]
    pub fn rebuild(
        &mut self,
        index: &mut Index<u128>,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<()> {
        let (set, keep_first) = (&mut index.store.0, Duplicates::KeepFirst);
        self.builder.rebuild_by("index", set, stream, keys, keep_first, |_| Ok(()))
    }
}
