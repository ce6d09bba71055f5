//! The bytes of a table file, which `docs/format.md` describes.
//!
//! [`Header::decode`] checks a header against the length of the file, so that code that has a
//! [`Header`] may allocate the sizes it states.
mod decode;

use super::error::FileErrorKind;
use super::kind::{MAX_SECTIONS, Section, TableKind, VERSION, Width};
use crate::cpu;
use crate::error::{Error, Result};
use crate::types::Value;
use bytemuck::Pod;
use koel_kernels::set::layout::Member;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Number, Shape};
use koel_kernels::table::stash;
use std::fmt;
use std::hash::Hasher;
use std::marker::PhantomData;
use twox_hash::XxHash3_64;

/// First bytes of a table file. Copying it as text would change them.
pub const MAGIC: [u8; 8] = *b"\x89KOEL\r\n\x1a";
/// Size of the header, in bytes. The slots after it are aligned for use in a mapping.
pub const HEADER_BYTES: u64 = 4096;
/// Maximum number of pairs in a stash: the capacity of a GPU's.
pub(crate) const MAX_STASHED: u64 = 1 << stash::MAX_BITS;
/// Maximum number of buckets per partition.
pub(crate) const MAX_BUCKETS: u32 = 1 << 16;
/// Maximum number of pairs that a table was built from.
const MAX_PAIRS: u64 = u32::MAX as u64 - (1 << 16);
/// Maximum number of bytes of all strings of a table: as many words as 32-bit indices address.
pub(crate) const MOST_STRING_BYTES: u64 = u32::MAX as u64 * 8;

// Slots are 64-bit words in memory and little-endian in files.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "tables are used in files as they are in memory: little-endian"
);

impl TableKind {
    /// Returns whether the header byte at `place` belongs to a field of this kind and version.
    fn has_field(self, place: usize, version: u32) -> bool {
        let sections = self.sections().len();
        match place {
            at::COUNT..at::FINGERPRINTS => self.has_value_count() || self.has_strings(),
            at::FINGERPRINTS..at::MEANING => self.has_rows(),
            at::MEANING..at::SIXTH => version > 1,
            at::SIXTH..at::SECOND_COUNT => sections > at::SECTIONS,
            at::SECOND_COUNT..at::RESERVED => self.has_value_count() && self.has_strings(),
            _ => place < at::SLOTS + at::OF_SECTION * sections || place >= at::CHECKSUM,
        }
    }
}

/// The types of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Types {
    /// Type of keys.
    pub key: Width,
    /// Type of values; `None` for a set, which has none. The ids of an index are `u32`.
    pub value: Option<Width>,
}
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{} -> {value}", self.key),
            None => self.key.fmt(f),
        }
    }
}

/// What the bits of keys and values mean: a description of each type, such as `(i16, f32)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meaning {
    /// Text and zeros; of a value only zeros if there are none.
    key: [u8; MEANING_BYTES],
    value: [u8; MEANING_BYTES],
}
/// Description of strings.
const STRINGS: &str = "bytes";
/// Returns whether a description is that of strings, or of rows that may be stored as such.
fn is_of_strings(text: &str) -> bool {
    text == STRINGS || text.starts_with('(') || text.ends_with('?')
}
/// Maximum number of zeros behind a column: whole words, then a multiple of 16 bytes.
pub(crate) const MAX_FILLING: usize = 15;
/// Maximum length of a description, in bytes.
pub(crate) const MEANING_BYTES: usize = 64;
impl Meaning {
    /// Returns the meaning of keys and values of these types. Errors: a longer description than
    /// files hold.
    pub(crate) fn of<K: Value, V: Value>() -> Result<Meaning> {
        Ok(Meaning { key: described::<K>()?, value: described::<V>()? })
    }
    /// Returns the meaning of keys without values.
    pub(crate) fn of_keys<K: Value>() -> Result<Meaning> {
        Ok(Meaning { key: described::<K>()?, value: [0; MEANING_BYTES] })
    }
    /// Returns the meaning of strings without values.
    pub(crate) fn of_strings() -> Meaning {
        Meaning { key: padded(STRINGS), value: [0; MEANING_BYTES] }
    }
    /// Returns the meaning of strings with values of this type. Errors: as [`of`](Self::of).
    pub(crate) fn of_strings_to<V: Value>() -> Result<Meaning> {
        Ok(Meaning { value: described::<V>()?, ..Meaning::of_strings() })
    }
    /// Returns the meaning of the same keys with values that are strings.
    pub(crate) fn to_strings(self) -> Meaning {
        Meaning { value: padded(STRINGS), ..self }
    }
    /// Returns that of types with these descriptions. Errors: as [`of`](Self::of).
    pub(crate) fn described(key: &str, value: Option<&str>) -> Result<Meaning> {
        let value = value.map_or(Ok([0; MEANING_BYTES]), held)?;
        Ok(Meaning { key: held(key)?, value })
    }
    /// Returns that of unsigned numbers of these widths.
    pub(crate) fn plain(types: Types) -> Meaning {
        let text = |width: Width| padded(&width.to_string());
        Meaning { key: text(types.key), value: types.value.map_or([0; MEANING_BYTES], text) }
    }
}
fn described<T: Value>() -> Result<[u8; MEANING_BYTES]> {
    let mut text = String::new();
    T::describe(&mut text);
    held(&text)
}
fn held(text: &str) -> Result<[u8; MEANING_BYTES]> {
    if text.len() > MEANING_BYTES {
        let expected = format!("described by at most {MEANING_BYTES} bytes");
        return Err(Error::Setting { field: "type", found: text.into(), expected });
    }
    Ok(padded(text))
}
fn padded(text: &str) -> [u8; MEANING_BYTES] {
    let mut bytes = [0; MEANING_BYTES];
    bytes.iter_mut().zip(text.as_bytes()).for_each(|(to, byte)| *to = *byte);
    bytes
}
impl Meaning {
    /// Returns the type of keys.
    pub fn key(&self) -> &str {
        text_of(&self.key)
    }
    /// Returns the type of values; `None` for a set.
    pub fn value(&self) -> Option<&str> {
        Some(text_of(&self.value)).filter(|text| !text.is_empty())
    }
    /// Returns the name of entries of these types.
    pub(super) fn what(&self) -> &'static str {
        if self.value().is_some() { "pairs" } else { "keys" }
    }
}
impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => write!(f, "{} -> {value}", self.key()),
            None => f.write_str(self.key()),
        }
    }
}
fn text_of(bytes: &[u8]) -> &str {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    // Only text is written, and only printable text is read.
    std::str::from_utf8(text).unwrap_or_default()
}

/// What the slots of a table hold.
pub(crate) trait Slotted: 'static {
    /// The layout of its pairs in the stash.
    type Pairs: Layout;
    /// 64-bit words per bucket.
    const BUCKET_WORDS: usize;
    /// Returns the number of entries of the bucket at `place`, without fillers, and the greatest
    /// value among them.
    fn entries(shape: Shape, place: u32, bucket: &[u64]) -> (u64, u64);
}
impl<L: Layout> Slotted for L {
    type Pairs = L;
    const BUCKET_WORDS: usize = L::WORDS;
    #[inline(always)]
    fn entries(shape: Shape, place: u32, bucket: &[u64]) -> (u64, u64) {
        let mut entries = (0, 0);
        for (&head, &behind) in bucket[..BUCKET].iter().zip(&bucket[L::WORDS - BUCKET..]) {
            // Fillers do not belong where they are.
            if head != EMPTY && shape.belongs(L::hash(L::key_in(head)), place) {
                entries = (entries.0 + 1, entries.1.max(L::value_in(head, behind).widened()));
            }
        }
        entries
    }
}
/// Keys alone, as in a set.
pub struct Members<K>(PhantomData<K>);
impl<K: Member + Pod> Slotted for Members<K> {
    type Pairs = K::Pairs;
    const BUCKET_WORDS: usize = K::SLOTS as usize * size_of::<K>() / 8;
    #[inline(always)]
    fn entries(shape: Shape, place: u32, bucket: &[u64]) -> (u64, u64) {
        let keys: &[K] = bytemuck::cast_slice(bucket);
        (cpu::set::keys_of_bucket(shape, place, keys).count() as u64, 0)
    }
}

/// Location of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes: a multiple of 8.
    pub bytes: u64,
}
impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The fields of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub kind: TableKind,
    pub types: Types,
    pub meaning: Meaning,
    pub seed: u32,
    /// The value of the ambiguous key, if the table has it; 0 for a set.
    pub held: Option<u64>,
    /// Pairs of the table: in the slots, in the stash, and the held one.
    pub pairs: u64,
    pub duplicates: u64,
    pub shape: Shape,
    /// Pairs in the stash.
    pub stashed: u64,
    /// Number of values of a multimap, or of bytes of all values that are strings; 0 for other
    /// kinds.
    pub values: u64,
    /// Number of bytes of all keys that are strings; 0 for other kinds.
    pub key_bytes: u64,
    /// Seed of the function that makes fingerprints of keys in rows; 0 for other kinds.
    pub fingerprints: u64,
    /// XXH3-64 of each section, in the order of the kind's sections.
    pub checksums: [u64; MAX_SECTIONS],
}

/// Offsets of a header's fields.
mod at {
    pub(super) const VERSION: usize = 8;
    pub(super) const KIND: usize = 12;
    pub(super) const KEY_BITS: usize = 16;
    pub(super) const VALUE_BITS: usize = 20;
    pub(super) const SEED: usize = 24;
    pub(super) const HELD: usize = 28;
    pub(super) const HELD_VALUE: usize = 32;
    pub(super) const PAIRS: usize = 40;
    pub(super) const DUPLICATES: usize = 48;
    pub(super) const PARTITIONS: usize = 56;
    pub(super) const BUCKETS: usize = 60;
    /// Per section: offset, bytes, checksum. The slots come first.
    pub(super) const SLOTS: usize = 64;
    pub(super) const OF_SECTION: usize = 24;
    pub(super) const STASH: usize = SLOTS + OF_SECTION;
    /// Number of sections whose fields are next to each other.
    pub(super) const SECTIONS: usize = 5;
    /// Of the bytes of strings, else of the values.
    pub(super) const COUNT: usize = SLOTS + OF_SECTION * SECTIONS;
    pub(super) const FINGERPRINTS: usize = COUNT + 8;
    /// Of version 2: descriptions of the types of keys and values.
    pub(super) const MEANING: usize = FINGERPRINTS + 8;
    /// Of the sixth section.
    pub(super) const SIXTH: usize = MEANING + 2 * super::MEANING_BYTES;
    /// Of the values, if the first count is that of bytes.
    pub(super) const SECOND_COUNT: usize = SIXTH + OF_SECTION;
    pub(super) const RESERVED: usize = SECOND_COUNT + 8;
    pub(super) const CHECKSUM: usize = 4088;
    /// Returns the offset of the fields of a section.
    pub(super) const fn section(i: usize) -> usize {
        if i < SECTIONS { SLOTS + OF_SECTION * i } else { SIXTH }
    }
}

impl Header {
    /// Returns the slots per bucket, the bytes per slot, and the bytes per slot of the stash.
    fn sizes(&self) -> [u64; 3] {
        let narrow = self.types.key == Width::U32;
        match (self.kind, self.types.value) {
            (TableKind::Set, _) if narrow => [8, 4, 8],
            (TableKind::Set, _) => [4, 8, 16],
            // Values of groups and rows are 32-bit numbers, whatever the table's value type.
            (TableKind::Map, Some(Width::U64)) => [4, 16, 16],
            _ if narrow => [4, 8, 8],
            _ => [4, 16, 16],
        }
    }
    /// Returns the number of slots of all buckets.
    pub(crate) fn all_slots(&self) -> u64 {
        self.shape.all_buckets() * self.sizes()[0]
    }
    /// Returns the number of pairs in the buckets.
    pub(crate) fn in_buckets(&self) -> u64 {
        self.pairs - self.stashed - self.held.is_some() as u64
    }
    /// Returns the maximum value of the table's pairs.
    pub(crate) fn most_value(&self) -> u64 {
        match self.kind {
            TableKind::Map => u64::MAX,
            TableKind::Set => 0,
            _ => self.pairs.saturating_sub(1),
        }
    }
    /// Returns the number and the width of the elements of a column.
    pub(crate) fn column(&self, section: Section) -> (u64, Width) {
        match section {
            Section::Keys if self.kind.has_strings() => (self.key_bytes.div_ceil(8), Width::U64),
            Section::Starts if self.kind.has_strings() => (self.pairs + 1, Width::U64),
            Section::Keys => (self.pairs, self.types.key),
            Section::ValueStarts if self.kind.has_values_of_strings() => {
                (self.pairs + 1, Width::U64)
            }
            Section::Starts | Section::ValueStarts => (self.pairs + 1, Width::U32),
            Section::Values if self.kind.has_values_of_strings() => {
                (self.values.div_ceil(8), Width::U64)
            }
            Section::Values => {
                let values = if self.kind.is_multi_map() { self.values } else { self.pairs };
                (values, self.types.value.unwrap_or(Width::U32))
            }
            Section::Header | Section::Slots | Section::Stash => {
                (self.bytes_of(section) / 8, Width::U64)
            }
        }
    }
    fn bytes_of(&self, section: Section) -> u64 {
        match section {
            Section::Header => HEADER_BYTES,
            Section::Slots => self.all_slots() * self.sizes()[1],
            Section::Stash => self.stashed * self.sizes()[2],
            Section::Keys | Section::Starts | Section::Values | Section::ValueStarts => {
                let (n, width) = self.column(section);
                let bytes = (n * u64::from(width.bits() / 8)).next_multiple_of(8);
                // Wide values begin on a multiple of 16 bytes.
                let is_before = section == self.kind.starts_of_values();
                match is_before && self.has_lists_of_wide_values() {
                    true => bytes + (self.offset_of(section) + bytes) % 16,
                    false => bytes,
                }
            }
        }
    }
    /// Returns the number of bytes of the strings whose words are in a section.
    pub(crate) fn strings_in(&self, section: Section) -> Option<u64> {
        match section {
            Section::Keys if self.kind.has_strings() => Some(self.key_bytes),
            Section::Values if self.kind.has_values_of_strings() => Some(self.values),
            _ => None,
        }
    }
    /// Returns what the starts in a section ascend to, and whether they may be equal: those of
    /// strings may.
    pub(crate) fn starts_in(&self, section: Section) -> Option<(u64, bool)> {
        match section {
            Section::Starts if self.kind.has_strings() => Some((self.key_bytes, true)),
            Section::Starts | Section::ValueStarts => {
                Some((self.values, self.kind.has_values_of_strings()))
            }
            _ => None,
        }
    }
    /// Returns whether keys have any number of values of 128 bits.
    pub(crate) fn has_lists_of_wide_values(&self) -> bool {
        self.kind.is_multi_map() && self.types.value == Some(Width::U128)
    }
    /// Returns the location of a section, after all earlier ones.
    pub(crate) fn extent(&self, section: Section) -> Extent {
        Extent { offset: self.offset_of(section), bytes: self.bytes_of(section) }
    }
    fn offset_of(&self, section: Section) -> u64 {
        let before = self.kind.sections().iter().take_while(|&&other| other != section);
        HEADER_BYTES + before.map(|&other| self.bytes_of(other)).sum::<u64>()
    }
    /// Returns the size of the file, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        HEADER_BYTES
            + self.kind.sections().iter().map(|&section| self.bytes_of(section)).sum::<u64>()
    }
    /// Returns the checksum of a section.
    pub(crate) fn checksum(&self, section: Section) -> u64 {
        self.numbered()
            .find(|&(_, other, _)| other == section)
            .map_or(0, |(_, _, checksum)| checksum)
    }
    /// Returns, for each section, the offset of its fields, the section, and its checksum.
    fn numbered(&self) -> impl Iterator<Item = (usize, Section, u64)> {
        let sections = self.kind.sections().iter().zip(self.checksums).enumerate();
        sections.map(|(i, (&section, checksum))| (at::section(i), section, checksum))
    }

    /// Returns the version of the file: the first whose header has all fields.
    pub(crate) fn version(&self) -> u32 {
        let is_plain = self.meaning == Meaning::plain(self.types);
        let is_old = self.kind.is_of_version_1() && !self.has_lists_of_wide_values();
        if is_plain && is_old { 1 } else { VERSION }
    }
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let number = TableKind::ALL
            .iter()
            .find(|(_, kind)| *kind == self.kind)
            .map_or(0, |(number, _)| *number);
        put(0, &MAGIC);
        put(at::VERSION, &self.version().to_le_bytes());
        if self.version() > 1 {
            put(at::MEANING, &self.meaning.key);
            put(at::MEANING + MEANING_BYTES, &self.meaning.value);
        }
        put(at::KIND, &number.to_le_bytes());
        put(at::KEY_BITS, &self.types.key.bits().to_le_bytes());
        put(at::VALUE_BITS, &self.types.value.map_or(0, Width::bits).to_le_bytes());
        put(at::SEED, &self.seed.to_le_bytes());
        put(at::HELD, &(self.held.is_some() as u32).to_le_bytes());
        put(at::HELD_VALUE, &self.held.unwrap_or(0).to_le_bytes());
        put(at::PAIRS, &self.pairs.to_le_bytes());
        put(at::DUPLICATES, &self.duplicates.to_le_bytes());
        put(at::PARTITIONS, &self.shape.partitions.to_le_bytes());
        put(at::BUCKETS, &self.shape.buckets.to_le_bytes());
        for (at, section, checksum) in self.numbered() {
            let Extent { offset, bytes } = self.extent(section);
            put(at, &offset.to_le_bytes());
            put(at + 8, &bytes.to_le_bytes());
            put(at + 16, &checksum.to_le_bytes());
        }
        let counts = match self.kind.has_strings() {
            true => [self.key_bytes, self.values],
            false => [self.values, 0],
        };
        put(at::COUNT, &counts[0].to_le_bytes());
        put(at::SECOND_COUNT, &counts[1].to_le_bytes());
        put(at::FINGERPRINTS, &self.fingerprints.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[..at::CHECKSUM]);
        bytes[at::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// XXH3-64 of bytes that arrive in pieces.
#[derive(Default)]
pub(crate) struct Checksum(XxHash3_64);
impl Checksum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }
    /// Fails if it differs from the header's checksum of this section.
    pub(crate) fn check(
        &self,
        section: Section,
        header: &Header,
    ) -> std::result::Result<(), FileErrorKind> {
        match (self.finish(), header.checksum(section)) {
            (found, expected) if found != expected => {
                Err(FileErrorKind::Checksum { section, found, expected })
            }
            _ => Ok(()),
        }
    }
}
