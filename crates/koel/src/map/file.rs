//! Saves maps to files and loads them: see [`file`](mod@crate::file).
use super::{LayoutFor, Map, MapStore, StoreOf};
use crate::error::Result;
use crate::file::filed::{Filed, Parts, in_files};
use crate::file::format::{Meaning, Types};
use crate::file::kind::TableKind;
use crate::file::reader::Mapping;
use crate::file::writer::{Contents, Writer};
use crate::types::{Key, SlotKey, SlotValue, Value};
use std::io::{Read, Seek, Write};

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
    const KIND: TableKind = StoreOf::<K, V>::KIND;
    type Slots = <StoreOf<K, V> as MapStore>::Slots;
    fn types() -> Types {
        <StoreOf<K, V> as MapStore>::types()
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of::<K, V>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.store.write(writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Map<K, V>> {
        Ok(Map { store: MapStore::read(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.store.file()
    }
}
impl<K: SlotKey, V: SlotValue> Map<K, V> {
    /// Returns the contents that are written to a file, also as part of another table.
    pub(crate) fn filed(&self) -> Result<Contents<'_, LayoutFor<K, V>, u64>> {
        self.as_table().contents()
    }
}
