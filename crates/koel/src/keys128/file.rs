//! Keys of 128 bits in files: see [`file`](mod@crate::file).
use super::{Map128, Set128};
use crate::error::Result;
use crate::file::filed::{Filed, Parts, in_files};
use crate::file::format::Types;
use crate::file::kind::{Section, TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::rows::Rows;
use crate::rows::file::Slots;
use crate::types::Bits;
use std::io::{Read, Seek, Write};

#[cfg(test)]
mod tests;

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Set128::build(&device, &[9 << 100, 3])?.save_to(&mut bytes)?;
    /// let set = koel::Set128::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(set.contains(&[3, 4])?, [true, false]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[] Set128
}
impl Filed for Set128 {
    const KIND: TableKind = TableKind::Set128;
    type Slots = Slots;
    #[inline]
    fn types() -> Types {
        Types { key: Width::U128, value: None }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.rows.filed()?, |sections| {
            sections.add(self.keys_view())
        })
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Set128> {
        Ok(Set128 { rows: Rows::read(parts, |parts| parts.column(Section::Keys))? })
    }
    #[inline]
    fn file(&self) -> Option<&Mapping> {
        self.rows.keys.file()
    }
}
in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Map128::build(&device, &[9 << 100, 3], &[90u64, 30])?.save_to(&mut bytes)?;
    /// let map = koel::Map128::<u64>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.get(&[3, 4])?, [Some(30), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[V: Bits] Map128<V>
}
impl<V: Bits> Filed for Map128<V> {
    const KIND: TableKind = TableKind::Map128;
    type Slots = Slots;
    fn types() -> Types {
        Types { key: Width::U128, value: Some(Width::of::<V>()) }
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.keys.rows.filed()?, |sections| {
            sections.add(self.keys_view())?;
            sections.add(self.values_view())
        })
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Map128<V>> {
        Ok(Map128 { keys: Set128::read(parts)?, values: parts.column(Section::Values)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.keys.file()
    }
}
