//! Indexes and multimaps in files: see [`file`](mod@crate::file).
use super::index::StoreOf;
use super::{Grouped, Index, MultiMap, SlotIndex};
use crate::error::Result;
use crate::file::filed::{Filed, FiledIndex, Parts, in_files};
use crate::file::format::{Meaning, Types};
use crate::file::kind::{Section, TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::{Contents, Sections, Writer};
use crate::map::Map;
use crate::types::{Bits, BitsOf, Key, KeyBits, Value};
use std::io::{Read, Seek, Write};

#[cfg(test)]
mod tests;

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Index::build(&device, &[70u32, 30, 70])?.save_to(&mut bytes)?;
    /// let index = koel::Index::<u32>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(index.ids(&[30, 60])?, [Some(1), None]);
    /// assert_eq!(index.keys_of(&[0])?, [Some(70)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[K: Key] Index<K>
}
impl<K: Key> Filed for Index<K> {
    const KIND: TableKind = StoreOf::<K>::KIND;
    type Slots = <StoreOf<K> as Filed>::Slots;
    fn types() -> Types {
        StoreOf::<K>::types()
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of::<K, u32>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.store.write(writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Index<K>> {
        Ok(Index { store: Filed::read(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.store.file()
    }
}
impl<K: Key> FiledIndex for Index<K> {
    const MULTI_MAP: TableKind = StoreOf::<K>::MULTI_MAP;
    const TO_STRINGS: TableKind = StoreOf::<K>::TO_STRINGS;
    fn contents(&self) -> Result<Contents<'_, Self::Slots, u64>> {
        self.store.contents()
    }
    fn add_keys<W: Write + Seek>(&self, sections: &mut Sections<'_, '_, W>) -> Result<()> {
        self.store.add_keys(sections)
    }
}
impl<K: KeyBits> Filed for SlotIndex<K> {
    const KIND: TableKind = TableKind::Index;
    type Slots = K::Layout<u32>;
    fn types() -> Types {
        Types { key: Width::of::<K>(), value: Some(Width::U32) }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.contents()?, |to| self.add_keys(to))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<SlotIndex<K>> {
        Ok(SlotIndex { map: Map::read(parts)?, keys: parts.column(Section::Keys)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.keys.file()
    }
}
impl<K: KeyBits> FiledIndex for SlotIndex<K> {
    const MULTI_MAP: TableKind = TableKind::MultiMap;
    const TO_STRINGS: TableKind = TableKind::MapToStrings;
    fn contents(&self) -> Result<Contents<'_, Self::Slots, u64>> {
        self.map.filed()
    }
    fn add_keys<W: Write + Seek>(&self, sections: &mut Sections<'_, '_, W>) -> Result<()> {
        sections.add(self.keys.view())
    }
}
impl<V: Bits> Grouped<V> {
    /// Writes a multimap: the index of its keys, then the values.
    pub(crate) fn write_with<I: FiledIndex, W: Write + Seek>(
        &self,
        index: &I,
        writer: Writer<'_, W>,
    ) -> Result<()> {
        let contents = Contents { values: self.values.len(), ..index.contents()? };
        let types = Types { value: Some(Width::of::<V>()), ..I::types() };
        writer.table(I::MULTI_MAP, types, contents, |sections| {
            index.add_keys(sections)?;
            sections.add(self.starts.view())?;
            sections.add(self.values.view())
        })
    }
    pub(crate) fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Grouped<V>> {
        let starts = parts.header().kind.starts_of_values();
        Ok(Grouped { starts: parts.column(starts)?, values: parts.column(Section::Values)? })
    }
}

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::MultiMap::build(&device, &[7u32, 3, 7], &[70u64, 30, 71])?.save_to(&mut bytes)?;
    /// let map = koel::MultiMap::<u32, u64>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.retrieve(&[7])?.of(0), [70, 71]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[K: Key, V: Value] MultiMap<K, V>
}
impl<K: Key, V: Value> Filed for MultiMap<K, V> {
    const KIND: TableKind = StoreOf::<K>::MULTI_MAP;
    type Slots = <StoreOf<K> as Filed>::Slots;
    fn types() -> Types {
        Types { value: Some(Width::of::<BitsOf<V>>()), ..StoreOf::<K>::types() }
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of::<K, V>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.grouped.write_with(&self.index, writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<MultiMap<K, V>> {
        Ok(MultiMap { index: Index::read(parts)?, grouped: Grouped::read(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.grouped.values.file()
    }
}
