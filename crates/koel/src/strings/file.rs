//! Strings in files: see [`file`](mod@crate::file).
use super::column::Strings;
use super::{StringIndex, StringMap, StringSet};
use crate::error::Result;
use crate::file::filed::{Filed, Parts, in_files};
use crate::file::format::{Meaning, Types};
use crate::file::kind::{Section, TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::{Contents, Sections, Writer};
use crate::groups::numbers;
use crate::rows::Rows;
use crate::rows::file::Slots;
use crate::types::{BitsOf, Value};
use std::io::{Read, Seek, Write};

#[cfg(test)]
mod tests;

/// Types of strings, of which fingerprints are looked up, and of values.
const fn types_to(value: Option<Width>) -> Types {
    Types { key: Width::U64, value }
}

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::StringSet::build(&device, &["one", "two"])?.save_to(&mut bytes)?;
    /// let set = koel::StringSet::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(set.contains(&["two", "three"])?, [true, false]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[] StringSet
}
impl Filed for StringSet {
    const KIND: TableKind = TableKind::StringSet;
    type Slots = Slots;
    fn types() -> Types {
        types_to(None)
    }
    fn meaning() -> Result<Meaning> {
        Ok(Meaning::of_strings())
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.write_as(writer, Self::KIND, Self::types(), |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<StringSet> {
        let rows = Rows::read(parts, |parts| {
            Ok(Strings::stored(parts.column(Section::Starts)?, parts.column(Section::Keys)?))
        })?;
        Ok(StringSet { rows })
    }
    fn file(&self) -> Option<&Mapping> {
        self.column().file()
    }
}
impl StringSet {
    /// Writes the set as a table of this kind, whose values come first.
    fn write_as<'w, W: Write + Seek>(
        &self,
        writer: Writer<'w, W>,
        kind: TableKind,
        types: Types,
        values: impl FnOnce(&mut Sections<'_, 'w, W>) -> Result<()>,
    ) -> Result<()> {
        let copied;
        let mut column = self.column();
        if column.bounds()?.start > 0 {
            let (stream, rows) = (self.device().stream()?, numbers(self.device(), 0, self.len())?);
            copied = column.select(&stream, rows.view())?;
            column = &copied;
        }
        let bytes = column.bounds()?.end;
        let contents = Contents { values: bytes, ..self.rows.filed()? };
        writer.table(kind, types, contents, |sections| {
            values(sections)?;
            sections.add(column.offsets())?;
            sections.add_strings(column.words(), bytes)
        })
    }
}

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::StringMap::build(&device, &["one", "two"], &[1.0, 2.0])?.save_to(&mut bytes)?;
    /// let map = koel::StringMap::<f64>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.get(&["two", "three"])?, [Some(2.0), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[V: Value] StringMap<V>
}
impl<V: Value> Filed for StringMap<V> {
    const KIND: TableKind = TableKind::StringMap;
    type Slots = Slots;
    fn types() -> Types {
        types_to(Some(Width::of::<BitsOf<V>>()))
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of_strings_to::<V>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.set().write_as(writer, Self::KIND, Self::types(), |sections| sections.add(self.bits()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<StringMap<V>> {
        Ok(StringMap { keys: StringSet::read(parts)?, values: parts.column(Section::Values)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.set().column().file()
    }
}

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::StringIndex::build(&device, &["b", "a"])?.save_to(&mut bytes)?;
    /// let index = koel::StringIndex::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(index.ids(&["a", "c"])?, [Some(1), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[] StringIndex
}
impl Filed for StringIndex {
    const KIND: TableKind = TableKind::StringIndex;
    type Slots = Slots;
    fn types() -> Types {
        types_to(Some(Width::U32))
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of_strings_to::<u32>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.keys.write_as(writer, Self::KIND, Self::types(), |_| Ok(()))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<StringIndex> {
        Ok(StringIndex { keys: StringSet::read(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.column().file()
    }
}
