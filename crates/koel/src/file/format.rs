//! The bytes of a table file: `docs/format.md` describes them.
//!
//! [`Header::decode`] checks a header against the length of the file, so that whoever has a [`Header`] may allocate what it says.
use super::FileErrorKind;
use koel_kernels::map::layout::{BUCKET, Layout, Shape};
use koel_kernels::map::stash;
use std::fmt;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// How a table file begins. Copying it as text would change it.
pub const MAGIC: [u8; 8] = *b"\x89KOEL\r\n\x1a";
/// The version that is written, and the newest one that is read.
pub const VERSION: u32 = 1;
/// Bytes of a header. The slots, behind it, can be used where they are mapped.
pub const HEADER_BYTES: u64 = 4096;
/// Pairs of a stash at most: as many as a GPU's has room for.
pub const MOST_STASHED: u64 = 1 << stash::MOST_BITS;
/// Buckets of a partition at most.
pub const MOST_BUCKETS: u32 = 1 << 16;
/// Pairs that a table was built of at most.
const MOST_PAIRS: u64 = u32::MAX as u64 - (1 << 16);

// Slots are words of 64 bits in memory and little-endian in files.
const _: () = assert!(cfg!(target_endian = "little"), "tables are used in files as they are in memory: little-endian");

/// A part of a table file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// The first 4,096 bytes: what the file holds, and where.
    Header,
    /// The buckets.
    Slots,
    /// The pairs that no bucket has room for.
    Stash,
}
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Header => "header",
            Section::Slots => "section of slots",
            Section::Stash => "section of the stash",
        })
    }
}

/// A kind of table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    /// Keys and a value each: [`Map`](crate::Map).
    Map,
    /// Keys. Reserved: no such files are written yet.
    Set,
    /// Keys and numbers for them, both ways. Reserved.
    Index,
    /// Keys and any number of values each. Reserved.
    MultiMap,
}
impl TableKind {
    /// With the number of each in the format.
    const ALL: [(u32, TableKind); 4] =
        [(1, TableKind::Map), (2, TableKind::Set), (3, TableKind::Index), (4, TableKind::MultiMap)];
}
impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TableKind::Map => "a map",
            TableKind::Set => "a set",
            TableKind::Index => "an index",
            TableKind::MultiMap => "a multimap",
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
}
impl Width {
    /// 32 or 64.
    pub fn bits(self) -> u32 {
        match self {
            Width::U32 => 32,
            Width::U64 => 64,
        }
    }
    fn of<T>() -> Width {
        if size_of::<T>() == 4 { Width::U32 } else { Width::U64 }
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
    /// Of values.
    pub value: Width,
}
impl Types {
    pub(super) fn of<L: Layout>() -> Types {
        Types { key: Width::of::<L::Key>(), value: Width::of::<L::Value>() }
    }
    /// Bytes of a slot.
    fn slot_bytes(self) -> u64 {
        if self == (Types { key: Width::U32, value: Width::U32 }) { 8 } else { 16 }
    }
}
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.key, self.value)
    }
}

/// Where a section is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// In bytes from the beginning of the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// XXH3-64 of its bytes.
    pub checksum: u64,
}
impl Extent {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub types: Types,
    pub seed: u32,
    /// The value of the ambiguous key.
    pub held: Option<u64>,
    pub pairs: u64,
    pub duplicates: u64,
    pub shape: Shape,
    pub slots: Extent,
    pub stash: Extent,
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
    /// Of each section: offset, bytes, checksum.
    pub const SLOTS: usize = 64;
    pub const STASH: usize = 88;
    pub const FREE: usize = 112;
    pub const CHECKSUM: usize = 4088;
}

impl Header {
    /// Of a table whose sections are not written yet.
    pub fn new<L: Layout>(
        shape: Shape,
        seed: u32,
        held: Option<u64>,
        pairs: u64,
        duplicates: u64,
        stashed: u64,
    ) -> Header {
        let types = Types::of::<L>();
        let (slots, stash) = extents(types, shape, stashed);
        Header { types, seed, held, pairs, duplicates, shape, slots, stash }
    }
    /// Pairs in the stash.
    pub fn stashed(&self) -> u64 {
        self.stash.bytes / self.types.slot_bytes()
    }
    /// Slots of all buckets.
    pub fn all_slots(&self) -> u64 {
        self.slots.bytes / self.types.slot_bytes()
    }
    /// Pairs in the buckets.
    pub fn in_buckets(&self) -> u64 {
        self.pairs - self.stashed() - self.held.is_some() as u64
    }
    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.stash.end()
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(at::VERSION, &VERSION.to_le_bytes());
        put(at::KIND, &TableKind::ALL[0].0.to_le_bytes());
        put(at::KEY_BITS, &self.types.key.bits().to_le_bytes());
        put(at::VALUE_BITS, &self.types.value.bits().to_le_bytes());
        put(at::SEED, &self.seed.to_le_bytes());
        put(at::HELD, &(self.held.is_some() as u32).to_le_bytes());
        put(at::HELD_VALUE, &self.held.unwrap_or(0).to_le_bytes());
        put(at::PAIRS, &self.pairs.to_le_bytes());
        put(at::DUPLICATES, &self.duplicates.to_le_bytes());
        put(at::PARTITIONS, &self.shape.partitions.to_le_bytes());
        put(at::BUCKETS, &self.shape.buckets.to_le_bytes());
        for (at, section) in [(at::SLOTS, self.slots), (at::STASH, self.stash)] {
            put(at, &section.offset.to_le_bytes());
            put(at + 8, &section.bytes.to_le_bytes());
            put(at + 16, &section.checksum.to_le_bytes());
        }
        let checksum = XxHash3_64::oneshot(&bytes[..at::CHECKSUM]);
        bytes[at::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// From the first bytes of a file of `file_bytes` bytes: 4,096 of them, or all there are.
    ///
    /// What it returns fits the file: every section lies in it, and there are no other bytes.
    pub fn decode(start: &[u8], file_bytes: u64) -> Result<Header, FileErrorKind> {
        let truncated = |expected| FileErrorKind::Truncated { section: Section::Header, expected, found: file_bytes };
        let known = start.len().min(MAGIC.len());
        if start[..known] != MAGIC[..known] {
            return Err(FileErrorKind::Foreign { found: start[..start.len().min(16)].escape_ascii().to_string() });
        }
        // Of a newer format nothing else is known but where its version is.
        let version = start.get(at::VERSION..at::KIND).map(|_| word(start, at::VERSION) as u32);
        if let Some(found) = version.filter(|&v| v > VERSION) {
            return Err(FileErrorKind::Newer { found });
        }
        if start.len() < HEADER_BYTES as usize {
            return Err(truncated(HEADER_BYTES));
        }
        let (found, expected) = (XxHash3_64::oneshot(&start[..at::CHECKSUM]), long(start, at::CHECKSUM));
        if found != expected {
            return Err(FileErrorKind::Checksum { section: Section::Header, found, expected });
        }
        one_of(start, at::VERSION, "version", &[VERSION.into()])?;
        let kinds = TableKind::ALL.map(|(number, _)| number.into());
        let kind = one_of(start, at::KIND, "kind", &kinds)?;
        if let Some(&(_, found)) = TableKind::ALL[1..].iter().find(|(number, _)| kind == u64::from(*number)) {
            return Err(FileErrorKind::Kind { found, expected: TableKind::Map });
        }
        let width = |at, field| Ok(if one_of(start, at, field, &[32, 64])? == 32 { Width::U32 } else { Width::U64 });
        let types = Types { key: width(at::KEY_BITS, "key bits")?, value: width(at::VALUE_BITS, "value bits")? };
        let has_held = one_of(start, at::HELD, "held", &[0, 1])? == 1;
        let most = match (has_held, types.value) {
            (false, _) => 0,
            (true, Width::U32) => u32::MAX.into(),
            (true, Width::U64) => u64::MAX,
        };
        let held = within(long(start, at::HELD_VALUE), at::HELD_VALUE, "held value", 0, most)?;

        let (partitions, buckets) = (word(start, at::PARTITIONS), word(start, at::BUCKETS));
        within(buckets, at::BUCKETS, "buckets", 1, MOST_BUCKETS.into())?;
        within(partitions, at::PARTITIONS, "partitions", 1, u64::from(u32::MAX) / buckets)?;
        let shape = Shape { partitions: partitions as u32, buckets: buckets as u32 };
        let stash_bytes = long(start, at::STASH + 8);
        let most = MOST_STASHED * types.slot_bytes();
        within(stash_bytes, at::STASH + 8, "bytes of the stash", 0, most)?;
        let (mut slots, mut stash) = extents(types, shape, stash_bytes / types.slot_bytes());
        for (at, section, fields) in [
            (at::SLOTS, &mut slots, ["offset of the slots", "bytes of the slots"]),
            (at::STASH, &mut stash, ["offset of the stash", "bytes of the stash"]),
        ] {
            one_of(start, at, fields[0], &[section.offset])?;
            one_of(start, at + 8, fields[1], &[section.bytes])?;
            section.checksum = long(start, at + 16);
        }
        for (section, extent) in [(Section::Slots, slots), (Section::Stash, stash)] {
            if file_bytes < extent.end() {
                return Err(FileErrorKind::Truncated { section, expected: extent.end(), found: file_bytes });
            }
        }
        if file_bytes > stash.end() {
            return Err(FileErrorKind::Trailing { expected: stash.end(), found: file_bytes });
        }

        let stashed = stash.bytes / types.slot_bytes() + has_held as u64;
        let room = slots.bytes / types.slot_bytes() + stashed;
        let pairs = within(long(start, at::PAIRS), at::PAIRS, "pairs", stashed, room.min(MOST_PAIRS))?;
        let duplicates = long(start, at::DUPLICATES);
        within(duplicates, at::DUPLICATES, "duplicates", 0, MOST_PAIRS - pairs)?;
        if let Some(i) = start[at::FREE..at::CHECKSUM].iter().position(|&b| b != 0) {
            one_of(start, at::FREE + i / 4 * 4, "a reserved field", &[0])?;
        }
        let seed = word(start, at::SEED) as u32;
        Ok(Header { types, seed, held: has_held.then_some(held), pairs, duplicates, shape, slots, stash })
    }
}
/// Where the sections are; their checksums are not known.
fn extents(types: Types, shape: Shape, stashed: u64) -> (Extent, Extent) {
    let bytes = shape.all_buckets() * BUCKET as u64 * types.slot_bytes();
    let slots = Extent { offset: HEADER_BYTES, bytes, checksum: 0 };
    (slots, Extent { offset: slots.end(), bytes: stashed * types.slot_bytes(), checksum: 0 })
}

/// A field of 32 bits.
fn word(bytes: &[u8], at: usize) -> u64 {
    (0..4).rev().fold(0, |word, i| word << 8 | u64::from(bytes[at + i]))
}
/// A field of 64 bits.
fn long(bytes: &[u8], at: usize) -> u64 {
    word(bytes, at + 4) << 32 | word(bytes, at)
}
fn one_of(bytes: &[u8], at: usize, field: &'static str, allowed: &[u64]) -> Result<u64, FileErrorKind> {
    // Of the fields checked so, those from the sections on have 64 bits.
    let found = if (at::SLOTS..at::FREE).contains(&at) { long(bytes, at) } else { word(bytes, at) };
    match allowed.contains(&found) {
        true => Ok(found),
        false => {
            let expected = allowed.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ");
            Err(FileErrorKind::Field { byte: at as u64, field, found, expected })
        }
    }
}
fn within(found: u64, at: usize, field: &'static str, least: u64, most: u64) -> Result<u64, FileErrorKind> {
    match (least..=most).contains(&found) {
        true => Ok(found),
        false => Err(FileErrorKind::Field { byte: at as u64, field, found, expected: format!("{least} to {most}") }),
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
}
