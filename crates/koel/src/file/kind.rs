//! Kinds of tables, sections of their files, and widths of numbers.
use std::fmt;

/// The newest version: that of files whose types have descriptions. Others are of version 1.
pub const VERSION: u32 = 2;
/// A part of a table file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// The first 4,096 bytes: contents and layout of the file.
    Header,
    /// The buckets.
    Slots,
    /// The pairs that did not fit in their buckets.
    Stash,
    /// The distinct keys: of an index in id order, 128-bit keys in row order.
    Keys,
    /// The start of each key's values in a multimap, and the end of the last key's; of each key if
    /// keys are strings.
    Starts,
    /// The values of a multimap, grouped by key, or of a map of keys in rows, in row order; the
    /// bytes of values that are strings.
    Values,
    /// The start of each key's values, and the end of the last key's, in a multimap of strings; of
    /// each value if values are strings.
    ValueStarts,
}
impl Section {
    /// Returns the names of its offset and its bytes in the description of the format.
    pub(super) fn fields(self) -> [&'static str; 2] {
        match self {
            Section::Header => ["offset of the header", "bytes of the header"],
            Section::Slots => ["offset of the slots", "bytes of the slots"],
            Section::Stash => ["offset of the stash", "bytes of the stash"],
            Section::Keys => ["offset of the keys", "bytes of the keys"],
            Section::Starts => ["offset of the starts", "bytes of the starts"],
            Section::Values => ["offset of the values", "bytes of the values"],
            Section::ValueStarts => ["offset of the value starts", "bytes of the value starts"],
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
            Section::ValueStarts => "section of value starts",
        })
    }
}

/// A kind of table in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    /// Keys with one value each: [`Map`](crate::Map).
    Map,
    /// Keys: [`Set`](crate::Set).
    Set,
    /// Keys and their ids, both ways: [`Index`](crate::Index).
    Index,
    /// Keys with any number of values each: [`MultiMap`](crate::MultiMap).
    MultiMap,
    /// 128-bit keys: [`Set128`](crate::Set128).
    Set128,
    /// 128-bit keys with one value each: [`Map128`](crate::Map128).
    Map128,
    /// 128-bit keys and their ids, both ways: [`Index<u128>`](crate::Index).
    Index128,
    /// Strings: [`StringSet`](crate::StringSet).
    StringSet,
    /// Strings with one value each: [`StringMap`](crate::StringMap).
    StringMap,
    /// Strings and their ids, both ways: [`StringIndex`](crate::StringIndex).
    StringIndex,
    /// 128-bit keys with any number of values each: [`MultiMap<u128>`](crate::MultiMap).
    MultiMap128,
    /// Strings with any number of values each: [`StringMultiMap`](crate::StringMultiMap).
    StringMultiMap,
    /// Keys with one string each: [`MapToStrings`](crate::MapToStrings).
    MapToStrings,
    /// 128-bit keys with one string each: [`MapToStrings<u128>`](crate::MapToStrings).
    Map128ToStrings,
    /// Strings with one string each: [`StringMapToStrings`](crate::StringMapToStrings).
    StringMapToStrings,
}
/// Maximum number of sections after the header.
pub(super) const MAX_SECTIONS: usize = 6;
impl TableKind {
    /// All kinds, with their numbers in the format.
    pub(super) const ALL: [(u32, TableKind); 15] = [
        (1, TableKind::Map),
        (2, TableKind::Set),
        (3, TableKind::Index),
        (4, TableKind::MultiMap),
        (5, TableKind::Set128),
        (6, TableKind::Map128),
        (7, TableKind::Index128),
        (8, TableKind::StringSet),
        (9, TableKind::StringMap),
        (10, TableKind::StringIndex),
        (11, TableKind::MultiMap128),
        (12, TableKind::StringMultiMap),
        (13, TableKind::MapToStrings),
        (14, TableKind::Map128ToStrings),
        (15, TableKind::StringMapToStrings),
    ];

    /// Returns the sections after the header, in order.
    pub(crate) fn sections(self) -> &'static [Section] {
        const NUMBERS: [Section; 5] =
            [Section::Slots, Section::Stash, Section::Keys, Section::Starts, Section::Values];
        const STRINGS: [Section; 6] = [
            Section::Slots,
            Section::Stash,
            Section::Starts,
            Section::Keys,
            Section::ValueStarts,
            Section::Values,
        ];
        match self {
            TableKind::Map | TableKind::Set => &NUMBERS[..2],
            TableKind::Index | TableKind::Set128 | TableKind::Index128 => &NUMBERS[..3],
            TableKind::MultiMap | TableKind::MultiMap128 => &NUMBERS,
            TableKind::Map128 => &[Section::Slots, Section::Stash, Section::Keys, Section::Values],
            TableKind::StringSet | TableKind::StringIndex => &STRINGS[..4],
            TableKind::StringMultiMap | TableKind::StringMapToStrings => &STRINGS,
            TableKind::MapToStrings | TableKind::Map128ToStrings => &[
                Section::Slots,
                Section::Stash,
                Section::Keys,
                Section::ValueStarts,
                Section::Values,
            ],
            // Values of 128 bits begin on a multiple of 16 bytes, as the stash ends on one.
            TableKind::StringMap => {
                &[Section::Slots, Section::Stash, Section::Values, Section::Starts, Section::Keys]
            }
        }
    }
    /// Returns whether there were such files before version 2.
    pub(super) fn is_of_version_1(self) -> bool {
        Self::ALL[..7].iter().any(|(_, kind)| *kind == self)
    }
    /// Returns whether keys are stored in rows and the table holds their fingerprints.
    pub(crate) fn has_rows(self) -> bool {
        self.has_strings() || self.key_bits() == [128]
    }
    /// Returns whether keys are strings.
    pub(crate) fn has_strings(self) -> bool {
        matches!(
            self,
            TableKind::StringSet
                | TableKind::StringMap
                | TableKind::StringIndex
                | TableKind::StringMultiMap
                | TableKind::StringMapToStrings
        )
    }
    /// Returns whether keys have any number of values.
    pub(crate) fn is_multi_map(self) -> bool {
        matches!(self, TableKind::MultiMap | TableKind::MultiMap128 | TableKind::StringMultiMap)
    }
    /// Returns whether values are strings.
    pub(crate) fn has_values_of_strings(self) -> bool {
        matches!(
            self,
            TableKind::MapToStrings | TableKind::Map128ToStrings | TableKind::StringMapToStrings
        )
    }
    /// Returns whether the number of values, or of their bytes, does not follow from that of keys.
    pub(super) fn has_value_count(self) -> bool {
        self.is_multi_map() || self.has_values_of_strings()
    }
    /// Returns the section of the starts of values of a multimap.
    pub(crate) fn starts_of_values(self) -> Section {
        if self.has_strings() { Section::ValueStarts } else { Section::Starts }
    }
    /// Returns the allowed widths of keys, in bits.
    pub(super) fn key_bits(self) -> &'static [u64] {
        match self {
            // Of the fingerprints, and the words.
            _ if self.has_strings() => &[64],
            TableKind::Set128
            | TableKind::Map128
            | TableKind::Index128
            | TableKind::MultiMap128
            | TableKind::Map128ToStrings => &[128],
            _ => &[32, 64],
        }
    }
    /// Returns the allowed widths of values, in bits.
    pub(super) fn value_bits(self) -> &'static [u64] {
        match self {
            TableKind::Map => &[32, 64],
            TableKind::MultiMap
            | TableKind::MultiMap128
            | TableKind::StringMultiMap
            | TableKind::Map128
            | TableKind::StringMap => &[32, 64, 128],
            // Of the words.
            TableKind::MapToStrings
            | TableKind::Map128ToStrings
            | TableKind::StringMapToStrings => &[64],
            TableKind::Set | TableKind::Set128 | TableKind::StringSet => &[0],
            TableKind::Index | TableKind::Index128 | TableKind::StringIndex => &[32],
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
            TableKind::StringSet => "a set of strings",
            TableKind::StringMap => "a map of strings",
            TableKind::StringIndex => "an index of strings",
            TableKind::MultiMap128 => "a multimap of 128-bit keys",
            TableKind::StringMultiMap => "a multimap of strings",
            TableKind::MapToStrings => "a map to strings",
            TableKind::Map128ToStrings => "a map of 128-bit keys to strings",
            TableKind::StringMapToStrings => "a map of strings to strings",
        })
    }
}

/// Width of a table's keys or values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `u128`, in tables whose keys are in rows.
    U128,
}
impl Width {
    /// Returns 32, 64 or 128.
    pub fn bits(self) -> u32 {
        match self {
            Width::U32 => 32,
            Width::U64 => 64,
            Width::U128 => 128,
        }
    }
    /// Returns the width of `u32`, `u64` or `u128`.
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
