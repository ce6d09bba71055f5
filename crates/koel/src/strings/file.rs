//! Strings in files: see [`file`](mod@crate::file).
use super::column::Strings;
use super::to_strings::KeyIndex;
use super::{StringIndex, StringMap, StringMultiMap, StringSet, ToStrings};
use crate::error::Result;
use crate::file::filed::{Filed, FiledIndex, Parts, in_files};
use crate::file::format::{Meaning, Types};
use crate::file::kind::{Section, TableKind, Width};
use crate::file::reader::Mapping;
use crate::file::writer::{Contents, Sections, Writer};
use crate::groups::{Grouped, numbers};
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
    #[inline]
    fn types() -> Types {
        types_to(None)
    }
    #[inline]
    fn meaning() -> Result<Meaning> {
        Ok(Meaning::of_strings())
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.contents()?, |to| self.column().add_to(to))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<StringSet> {
        let read = |parts: &mut Parts<'_, R>| Strings::read(parts, Section::Starts, Section::Keys);
        Ok(StringSet { rows: Rows::read(parts, read)? })
    }
    #[inline]
    fn file(&self) -> Option<&Mapping> {
        self.column().file()
    }
}
impl StringSet {
    /// Returns the contents that are written before the strings.
    #[inline]
    fn contents(&self) -> Result<Contents<'_, Slots, u64>> {
        Ok(Contents { key_bytes: self.column().bounds()?.len(), ..self.rows.filed()? })
    }
}
impl Strings {
    /// Adds the sections of the starts and of the bytes.
    fn add_to<W: Write + Seek>(&self, sections: &mut Sections<'_, '_, W>) -> Result<()> {
        let (copied, bounds) = (self.rebased()?, self.bounds()?);
        let column = copied.as_ref().unwrap_or(self);
        sections.add(column.offsets())?;
        sections.add_strings(column.words(), bounds.len())
    }
    /// Returns a copy whose first string begins at 0, unless this one's does.
    #[inline]
    fn rebased(&self) -> Result<Option<Strings>> {
        if self.bounds()?.start == 0 {
            return Ok(None);
        }
        let (stream, rows) = (self.device().stream()?, numbers(self.device(), 0, self.len())?);
        self.select(&stream, rows.view()).map(Some)
    }
    fn read<R: Read + Seek>(
        parts: &mut Parts<'_, R>,
        starts: Section,
        bytes: Section,
    ) -> Result<Strings> {
        Ok(Strings::stored(parts.column(starts)?, parts.column(bytes)?))
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
        writer.table(Self::KIND, Self::types(), self.set().contents()?, |sections| {
            sections.add(self.bits())?;
            self.set().column().add_to(sections)
        })
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
    #[inline]
    fn types() -> Types {
        types_to(Some(Width::U32))
    }
    #[inline]
    fn meaning() -> Result<Meaning> {
        Meaning::of_strings_to::<u32>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        writer.table(Self::KIND, Self::types(), self.contents()?, |to| self.add_keys(to))
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<StringIndex> {
        Ok(StringIndex { keys: StringSet::read(parts)? })
    }
    #[inline]
    fn file(&self) -> Option<&Mapping> {
        self.column().file()
    }
}
impl FiledIndex for StringIndex {
    const MULTI_MAP: TableKind = TableKind::StringMultiMap;
    const TO_STRINGS: TableKind = TableKind::StringMapToStrings;
    #[inline]
    fn contents(&self) -> Result<Contents<'_, Slots, u64>> {
        self.keys.contents()
    }
    fn add_keys<W: Write + Seek>(&self, sections: &mut Sections<'_, '_, W>) -> Result<()> {
        self.column().add_to(sections)
    }
}

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::StringMultiMap::build(&device, &["a", "b", "a"], &[1, 2, 3])?.save_to(&mut bytes)?;
    /// let map = koel::StringMultiMap::<i32>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.retrieve(&["a"])?.of(0), [1, 3]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[V: Value] StringMultiMap<V>
}
impl<V: Value> Filed for StringMultiMap<V> {
    const KIND: TableKind = StringIndex::MULTI_MAP;
    type Slots = Slots;
    fn types() -> Types {
        types_to(Some(Width::of::<BitsOf<V>>()))
    }
    fn meaning() -> Result<Meaning> {
        Meaning::of_strings_to::<V>()
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        self.grouped.write_with(&self.index, writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<StringMultiMap<V>> {
        Ok(StringMultiMap { index: StringIndex::read(parts)?, grouped: Grouped::read(parts)? })
    }
    fn file(&self) -> Option<&Mapping> {
        self.index.file()
    }
}

in_files! {
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::MapToStrings::build(&device, &[7, 3], &["seven", "three"])?.save_to(&mut bytes)?;
    /// let map = koel::MapToStrings::<i32>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.get(&[3, 4])?, [Some(b"three".to_vec()), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[I: KeyIndex] ToStrings<I>
}
impl<I: KeyIndex> Filed for ToStrings<I> {
    const KIND: TableKind = I::TO_STRINGS;
    type Slots = I::Slots;
    fn types() -> Types {
        Types { value: Some(Width::U64), ..I::types() }
    }
    fn meaning() -> Result<Meaning> {
        Ok(I::meaning()?.to_strings())
    }
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        let (values, duplicates) = (self.values.bounds()?.len(), self.duplicates);
        let contents = Contents { values, duplicates, ..self.index.contents()? };
        writer.table(Self::KIND, Self::types(), contents, |sections| {
            self.index.add_keys(sections)?;
            self.values.add_to(sections)
        })
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<ToStrings<I>> {
        let duplicates = parts.header().duplicates as usize;
        let (index, starts) = (I::read(parts)?, Section::ValueStarts);
        Ok(ToStrings { index, values: Strings::read(parts, starts, Section::Values)?, duplicates })
    }
    fn file(&self) -> Option<&Mapping> {
        self.values.file()
    }
}
