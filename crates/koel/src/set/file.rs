//! Saves sets to files and loads them: see [`file`](mod@crate::file).
use super::{Set, SetStore, StoreOf};
use crate::error::Result;
use crate::file::filed::{Filed, Parts, in_files};
use crate::file::format::{Meaning, Types};
use crate::file::kind::TableKind;
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::types::Key;
use std::io::{Read, Seek, Write};

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
    const KIND: TableKind = StoreOf::<K>::KIND;
    type Slots = <StoreOf<K> as SetStore>::Slots;
    fn types() -> Types {
        <StoreOf<K> as SetStore>::types()
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of_keys::<K>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.store.write(writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Set<K>> {
        Ok(Set { store: SetStore::read(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.store.file()
    }
}
