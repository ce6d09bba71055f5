//! Saves sets to files and loads them: see [`file`](mod@crate::file).
use super::Set;
use crate::error::Result;
use crate::file::filed::{Filed, Parts, in_files};
use crate::file::format::{Meaning, Members, TableKind, Types, Width};
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::table::Table;
use crate::types::{BitsOf, Key};
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
    const KIND: TableKind = TableKind::Set;
    type Slots = Members<BitsOf<K>>;
    fn types() -> Types {
        Types { key: Width::of::<BitsOf<K>>(), value: None }
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of_keys::<K>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        let contents = self.table.contents::<Members<BitsOf<K>>>()?;
        writer.table(Self::KIND, Self::types(), contents, |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Set<K>> {
        Ok(Set { table: Table::read::<Members<BitsOf<K>>, R>(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.table.file()
    }
}
