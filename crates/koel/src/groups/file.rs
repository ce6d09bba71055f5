//! Indexes and multimaps in files: see [`file`](mod@crate::file).
use super::index::StoreOf;
use super::{Grouped, Index, MultiMap, SlotIndex};
use crate::error::Result;
use crate::file::filed::{Filed, Parts, in_files};
use crate::file::format::{Meaning, Types};
use crate::file::kind::{Section, TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::{Contents, Writer};
use crate::map::Map;
use crate::types::{BitsOf, Key, KeyBits, SlotKey, SlotValue};
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
impl<K: KeyBits> Filed for SlotIndex<K> {
    const KIND: TableKind = TableKind::Index;
    type Slots = K::Layout<u32>;
    fn types() -> Types {
        Types { key: Width::of::<K>(), value: Some(Width::U32) }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.map.filed()?, |sections| {
            sections.add(self.keys.view())
        })
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<SlotIndex<K>> {
        Ok(SlotIndex { map: Map::read(parts)?, keys: parts.column(Section::Keys)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.keys.file()
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
    impl[K: SlotKey, V: SlotValue] MultiMap<K, V>
}
impl<K: SlotKey, V: SlotValue> Filed for MultiMap<K, V> {
    const KIND: TableKind = TableKind::MultiMap;
    type Slots = <BitsOf<K> as KeyBits>::Layout<u32>;
    fn types() -> Types {
        Types { key: Width::of::<BitsOf<K>>(), value: Some(Width::of::<BitsOf<V>>()) }
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of::<K, V>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        let contents = Contents { values: self.len(), ..self.index.store.map.filed()? };
        writer.table(Self::KIND, Self::types(), contents, |sections| {
            sections.add(self.index.store.keys.view())?;
            sections.add(self.starts_view())?;
            sections.add(self.grouped.values.view())
        })
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<MultiMap<K, V>> {
        let (index, starts) = (Index::read(parts)?, parts.column(Section::Starts)?);
        let grouped = Grouped { starts, values: parts.column(Section::Values)? };
        Ok(MultiMap { index, grouped })
    }
    fn file(&self) -> Option<&Mapping> {
        self.grouped.values.file()
    }
}
