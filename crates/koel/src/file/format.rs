//! The bytes of a table file: `docs/format.md` describes them.
//!
//! [`Header::decode`] checks a header against the length of the file, so that whoever has a
//! [`Header`] may allocate what it says.
mod decode;

use super::FileErrorKind;
use crate::cpu;
use bytemuck::Pod;
use koel_kernels::set::layout::Member;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Number, Shape};
use koel_kernels::table::stash;
use std::fmt;
use std::hash::Hasher;
use std::marker::PhantomData;
use twox_hash::XxHash3_64;

/// How a table file begins. Copying it as text would change it.
pub const MAGIC: [u8; 8] = *b"\x89KOEL\r\n\x1a";
/// The version that is written, and the newest one that is read.
pub const VERSION: u32 = 1;
/// Bytes of a header. The slots, behind it, can be used where they are mapped.
pub const HEADER_BYTES: u64 = 4096;
/// Pairs of a stash at most: as many as a GPU's has room for.
pub const MAX_STASHED: u64 = 1 << stash::MAX_BITS;
/// Buckets of a partition at most.
pub const MAX_BUCKETS: u32 = 1 << 16;
/// Pairs that a table was built of at most.
const MAX_PAIRS: u64 = u32::MAX as u64 - (1 << 16);

// Slots are words of 64 bits in memory and little-endian in files.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "tables are used in files as they are in memory: little-endian"
);

/// A part of a table file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// The first 4,096 bytes: what the file holds, and where.
    Header,
    /// The buckets.
    Slots,
    /// The pairs that no bucket has room for.
    Stash,
    /// The distinct keys: of an index in ascending order, those of 128 bits row by row.
    Keys,
    /// Where the values of each key of a multimap begin, and where those of the last one end.
    Starts,
    /// All values of a multimap, key after key, or of a map of 128-bit keys, row by row.
    Values,
}
impl Section {
    /// Its offset and its bytes, in the description of the format.
    fn fields(self) -> [&'static str; 2] {
        match self {
            Section::Header => ["offset of the header", "bytes of the header"],
            Section::Slots => ["offset of the slots", "bytes of the slots"],
            Section::Stash => ["offset of the stash", "bytes of the stash"],
            Section::Keys => ["offset of the keys", "bytes of the keys"],
            Section::Starts => ["offset of the starts", "bytes of the starts"],
            Section::Values => ["offset of the values", "bytes of the values"],
        }
    }
}
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Header => "header",
            Section::Slots => "section of slots",
            Section::Stash => "section of the stash",
            Section::Keys => "section of keys",
            Section::Starts => "section of starts",
            Section::Values => "section of values",
        })
    }
}

/// A kind of table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    /// Keys and a value each: [`Map`](crate::Map).
    Map,
    /// Keys: [`Set`](crate::Set).
    Set,
    /// Keys and numbers for them, both ways: [`Index`](crate::Index).
    Index,
    /// Keys and any number of values each: [`MultiMap`](crate::MultiMap).
    MultiMap,
    /// Keys of 128 bits: [`Set128`](crate::Set128).
    Set128,
    /// Keys of 128 bits and a value each: [`Map128`](crate::Map128).
    Map128,
    /// Keys of 128 bits and numbers for them, both ways: [`Index128`](crate::Index128).
    Index128,
}
/// Sections behind the header, at most.
const MAX_SECTIONS: usize = 5;
impl TableKind {
    /// With the number of each in the format.
    const ALL: [(u32, TableKind); 7] = [
        (1, TableKind::Map),
        (2, TableKind::Set),
        (3, TableKind::Index),
        (4, TableKind::MultiMap),
        (5, TableKind::Set128),
        (6, TableKind::Map128),
        (7, TableKind::Index128),
    ];

    /// The sections behind the header, in their order.
    pub(crate) fn sections(self) -> &'static [Section] {
        const ALL: [Section; MAX_SECTIONS] =
            [Section::Slots, Section::Stash, Section::Keys, Section::Starts, Section::Values];
        match self {
            TableKind::Map | TableKind::Set => &ALL[..2],
            TableKind::Index | TableKind::Set128 | TableKind::Index128 => &ALL[..3],
            TableKind::MultiMap => &ALL,
            TableKind::Map128 => &[Section::Slots, Section::Stash, Section::Keys, Section::Values],
        }
    }
    /// Whether keys lie in rows, and the table has fingerprints of them.
    pub(crate) fn has_rows(self) -> bool {
        matches!(self, TableKind::Set128 | TableKind::Map128 | TableKind::Index128)
    }
    /// How many bits keys may have.
    fn key_bits(self) -> &'static [u64] {
        if self.has_rows() { &[128] } else { &[32, 64] }
    }
    /// How many bits values may have.
    fn value_bits(self) -> &'static [u64] {
        match self {
            TableKind::Map | TableKind::MultiMap | TableKind::Map128 => &[32, 64],
            TableKind::Set | TableKind::Set128 => &[0],
            TableKind::Index | TableKind::Index128 => &[32],
        }
    }
    /// Whether the byte in this place belongs to a field that it has.
    fn has_field(self, place: usize) -> bool {
        let sections = at::SLOTS + at::OF_SECTION * self.sections().len();
        match place {
            at::VALUES..at::FINGERPRINTS => self == TableKind::MultiMap,
            at::FINGERPRINTS..at::RESERVED => self.has_rows(),
            _ => place < sections || place >= at::CHECKSUM,
        }
    }
}
impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TableKind::Map => "a map",
            TableKind::Set => "a set",
            TableKind::Index => "an index",
            TableKind::MultiMap => "a multimap",
            TableKind::Set128 => "a set of 128-bit keys",
            TableKind::Map128 => "a map of 128-bit keys",
            TableKind::Index128 => "an index of 128-bit keys",
        })
    }
}

/// How wide the numbers of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `u128`: of keys alone.
    U128,
}
impl Width {
    /// 32, 64 or 128.
    pub fn bits(self) -> u32 {
        match self {
            Width::U32 => 32,
            Width::U64 => 64,
            Width::U128 => 128,
        }
    }
    /// Of `u32`, `u64` and `u128`.
    pub(crate) fn of<T>() -> Width {
        match size_of::<T>() {
            4 => Width::U32,
            8 => Width::U64,
            _ => Width::U128,
        }
    }
}
impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u{}", self.bits())
    }
}

/// The types of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Types {
    /// Of keys.
    pub key: Width,
    /// Of values; `None` for a set, which has none. The ids of an index are `u32`.
    pub value: Option<Width>,
}
impl Types {
    /// What such types are of.
    pub(super) fn what(self) -> &'static str {
        if self.value.is_some() { "pairs" } else { "keys" }
    }
}
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{} -> {value}", self.key),
            None => self.key.fmt(f),
        }
    }
}

/// What the slots of a table hold.
pub trait Slotted: 'static {
    /// How the stash has it.
    type Pairs: Layout;
    /// Words of 64 bits of a bucket.
    const BUCKET_WORDS: usize;
    /// How many entries the bucket in this place holds, of those that are taken out when all are;
    /// and the greatest value among them.
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

/// Where a section is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// In bytes from the beginning of the file.
    pub offset: u64,
    /// Its length: a multiple of 8.
    pub bytes: u64,
}
impl Extent {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub kind: TableKind,
    pub types: Types,
    pub seed: u32,
    /// The value of the ambiguous key; 0 in a set.
    pub held: Option<u64>,
    /// Of the table: in the slots, in the stash, and the held one.
    pub pairs: u64,
    pub duplicates: u64,
    pub shape: Shape,
    /// Pairs in the stash.
    pub stashed: u64,
    /// Values of a multimap; 0 of other kinds.
    pub values: u64,
    /// What the function follows from that makes fingerprints of keys of 128 bits; 0 of other
    /// kinds.
    pub fingerprints: u64,
    /// XXH3-64 of each section, as `kind` has them.
    pub checksums: [u64; MAX_SECTIONS],
}

/// Where the fields of a header are.
mod at {
    pub const VERSION: usize = 8;
    pub const KIND: usize = 12;
    pub const KEY_BITS: usize = 16;
    pub const VALUE_BITS: usize = 20;
    pub const SEED: usize = 24;
    pub const HELD: usize = 28;
    pub const HELD_VALUE: usize = 32;
    pub const PAIRS: usize = 40;
    pub const DUPLICATES: usize = 48;
    pub const PARTITIONS: usize = 56;
    pub const BUCKETS: usize = 60;
    /// Of each section: offset, bytes, checksum. Those of the slots come first.
    pub const SLOTS: usize = 64;
    pub const OF_SECTION: usize = 24;
    pub const STASH: usize = SLOTS + OF_SECTION;
    pub const VALUES: usize = SLOTS + OF_SECTION * super::MAX_SECTIONS;
    pub const FINGERPRINTS: usize = VALUES + 8;
    pub const RESERVED: usize = FINGERPRINTS + 8;
    pub const CHECKSUM: usize = 4088;
}

impl Header {
    /// Slots of a bucket, bytes of a slot, and bytes of a slot of the stash.
    fn sizes(&self) -> [u64; 3] {
        let narrow = self.types.key == Width::U32;
        match (self.kind, self.types.value) {
            (TableKind::Set, _) if narrow => [8, 4, 8],
            (TableKind::Set, _) => [4, 8, 16],
            // Groups and rows have numbers of 32 bits, whatever the values are.
            (TableKind::Map, Some(Width::U64)) => [4, 16, 16],
            _ if narrow => [4, 8, 8],
            _ => [4, 16, 16],
        }
    }
    /// Slots of all buckets.
    pub fn all_slots(&self) -> u64 {
        self.shape.all_buckets() * self.sizes()[0]
    }
    /// Pairs in the buckets.
    pub fn in_buckets(&self) -> u64 {
        self.pairs - self.stashed - self.held.is_some() as u64
    }
    /// The greatest value that a pair of the table may have.
    pub fn most_value(&self) -> u64 {
        match self.kind {
            TableKind::Map => u64::MAX,
            TableKind::Set => 0,
            _ => self.pairs.saturating_sub(1),
        }
    }
    /// How many numbers are in a section that is a column, and how wide they are.
    pub fn column(&self, section: Section) -> (u64, Width) {
        match section {
            Section::Keys => (self.pairs, self.types.key),
            Section::Starts => (self.pairs + 1, Width::U32),
            Section::Values => {
                let values = if self.kind.has_rows() { self.pairs } else { self.values };
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
            Section::Keys | Section::Starts | Section::Values => {
                let (n, width) = self.column(section);
                (n * u64::from(width.bits() / 8)).next_multiple_of(8)
            }
        }
    }
    /// Where a section is: behind those before it.
    pub fn extent(&self, section: Section) -> Extent {
        let before = self.kind.sections().iter().take_while(|&&other| other != section);
        let offset = HEADER_BYTES + before.map(|&other| self.bytes_of(other)).sum::<u64>();
        Extent { offset, bytes: self.bytes_of(section) }
    }
    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES
            + self.kind.sections().iter().map(|&section| self.bytes_of(section)).sum::<u64>()
    }
    /// The checksum of a section.
    pub fn checksum(&self, section: Section) -> u64 {
        self.numbered()
            .find(|&(_, other, _)| other == section)
            .map_or(0, |(_, _, checksum)| checksum)
    }
    /// Where the fields of each section are, the section, its checksum.
    fn numbered(&self) -> impl Iterator<Item = (usize, Section, u64)> {
        let sections = self.kind.sections().iter().zip(self.checksums).enumerate();
        sections
            .map(|(i, (&section, checksum))| (at::SLOTS + at::OF_SECTION * i, section, checksum))
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let number = TableKind::ALL
            .iter()
            .find(|(_, kind)| *kind == self.kind)
            .map_or(0, |(number, _)| *number);
        put(0, &MAGIC);
        put(at::VERSION, &VERSION.to_le_bytes());
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
        put(at::VALUES, &self.values.to_le_bytes());
        put(at::FINGERPRINTS, &self.fingerprints.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[..at::CHECKSUM]);
        bytes[at::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// XXH3-64 of bytes that come in pieces.
#[derive(Default)]
pub struct Checksum(XxHash3_64);
impl Checksum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
    /// Errors: another one than the header has for this section.
    pub fn check(&self, section: Section, header: &Header) -> Result<(), FileErrorKind> {
        match (self.finish(), header.checksum(section)) {
            (found, expected) if found != expected => {
                Err(FileErrorKind::Checksum { section, found, expected })
            }
            _ => Ok(()),
        }
    }
}
