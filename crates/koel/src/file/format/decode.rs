//! Decoding of a header, with checks of every field.
use super::{
    Extent, HEADER_BYTES, Header, MAGIC, MAX_BUCKETS, MAX_PAIRS, MAX_STASHED, MEANING_BYTES,
    MOST_STRING_BYTES, Meaning, STRINGS, Types, at, is_of_strings,
};
use crate::file::FileErrorKind;
use crate::file::kind::{MAX_SECTIONS, Section, TableKind, VERSION, Width};
use koel_kernels::table::layout::Shape;
use twox_hash::XxHash3_64;

impl Header {
    /// Decodes the first bytes of a file of `file_bytes` bytes: 4,096 of them, or the whole file if
    /// it is shorter.
    ///
    /// The result fits the file: every section lies in it, and there are no other bytes.
    pub(crate) fn decode(start: &[u8], file_bytes: u64) -> Result<Header, FileErrorKind> {
        check_start(start, file_bytes)?;
        let version =
            one_of(word(start, at::VERSION), at::VERSION, "version", &[1, VERSION.into()])?;
        let (kind, types) = read_types(start)?;
        let has_held = one_of(word(start, at::HELD), at::HELD, "held", &[0, 1])? == 1;
        // Starts with the fields known so far; the others are filled in below.
        let mut header = Header {
            kind,
            types,
            meaning: if version == 1 { Meaning::plain(types) } else { read_meaning(start, types)? },
            seed: word(start, at::SEED) as u32,
            held: None,
            pairs: 0,
            duplicates: 0,
            shape: read_shape(start)?,
            stashed: 0,
            values: 0,
            key_bytes: 0,
            fingerprints: if kind.has_rows() { long(start, at::FINGERPRINTS) } else { 0 },
            checksums: [0; MAX_SECTIONS],
        };
        if !kind.is_of_version_1() || header.has_lists_of_wide_values() {
            one_of(version, at::VERSION, "version", &[VERSION.into()])?;
        }
        let strings = [
            (kind.has_strings(), Some(header.meaning.key()), at::MEANING, "type of the keys"),
            (
                kind.has_values_of_strings(),
                header.meaning.value(),
                at::MEANING + MEANING_BYTES,
                "type of the values",
            ),
        ];
        let wrong =
            strings.into_iter().find(|(are, name, ..)| *are && !name.is_some_and(is_of_strings));
        if let Some((.., byte, field)) = wrong {
            let (found, expected) = (long(start, byte), format!("those of {STRINGS:?}"));
            return Err(FileErrorKind::Field { byte: byte as u64, field, found, expected });
        }
        header.read_stashed(start)?;
        header.read_counts(start, has_held)?;
        header.read_sections(start)?;
        header.check_length(file_bytes)?;
        if let Some(at) = (at::SLOTS..at::CHECKSUM)
            .find(|&at| start[at] != 0 && !kind.has_field(at, version as u32))
        {
            let at = at / 4 * 4;
            one_of(word(start, at), at, "a reserved field", &[0])?;
        }
        Ok(header)
    }
    /// Computes the number of stashed pairs from the bytes of the stash.
    fn read_stashed(&mut self, start: &[u8]) -> Result<(), FileErrorKind> {
        const AT: usize = at::STASH + 8;
        const FIELD: &str = "bytes of the stash";
        let (of_slot, bytes) = (self.sizes()[2], long(start, AT));
        within(bytes, AT, FIELD, 0, MAX_STASHED * of_slot)?;
        self.stashed = bytes / of_slot;
        one_of(bytes, AT, FIELD, &[self.stashed * of_slot])?;
        Ok(())
    }
    /// Reads the pairs, duplicates, the held value and the values. Their ranges follow from the
    /// kind, the shape and the stash.
    fn read_counts(&mut self, start: &[u8], has_held: bool) -> Result<(), FileErrorKind> {
        let beside = self.stashed + has_held as u64;
        let room = self.all_slots() + beside;
        self.pairs =
            within(long(start, at::PAIRS), at::PAIRS, "pairs", beside, room.min(MAX_PAIRS))?;
        let most = MAX_PAIRS - self.pairs;
        self.duplicates =
            within(long(start, at::DUPLICATES), at::DUPLICATES, "duplicates", 0, most)?;
        let most = match (has_held, self.kind, self.types.value) {
            (false, ..) => 0,
            (true, TableKind::Map, Some(Width::U32)) => u32::MAX.into(),
            (true, ..) => self.most_value(),
        };
        let held = within(long(start, at::HELD_VALUE), at::HELD_VALUE, "held value", 0, most)?;
        self.held = has_held.then_some(held);
        let most = |most: u64| if self.pairs == 0 { 0 } else { most };
        let count = |at, field, least, most| within(long(start, at), at, field, least, most);
        let mut of_values = at::COUNT;
        if self.kind.has_strings() {
            self.key_bytes = count(at::COUNT, "bytes", 0, most(MOST_STRING_BYTES))?;
            of_values = at::SECOND_COUNT;
        }
        if self.kind.is_multi_map() {
            // Every key has a value.
            self.values = count(of_values, "values", self.pairs, most(MAX_PAIRS))?;
        }
        if self.kind.has_values_of_strings() {
            let field = "bytes of all values";
            self.values = count(of_values, field, 0, most(MOST_STRING_BYTES))?;
        }
        Ok(())
    }
    /// Reads the sections' checksums; the other fields determine the locations.
    #[allow(clippy::disallowed_methods, reason = "of constant size")]
    fn read_sections(&mut self, start: &[u8]) -> Result<(), FileErrorKind> {
        for (i, (at, section, _)) in self.numbered().enumerate().collect::<Vec<_>>() {
            let (Extent { offset, bytes }, fields) = (self.extent(section), section.fields());
            one_of(long(start, at), at, fields[0], &[offset])?;
            one_of(long(start, at + 8), at + 8, fields[1], &[bytes])?;
            self.checksums[i] = long(start, at + 16);
        }
        Ok(())
    }
    /// Fails if the file does not end with the last section.
    fn check_length(&self, file_bytes: u64) -> Result<(), FileErrorKind> {
        let found = file_bytes;
        for &section in self.kind.sections() {
            let expected = self.extent(section).end();
            if found < expected {
                return Err(FileErrorKind::Truncated { section, expected, found });
            }
        }
        let expected = self.file_bytes();
        if found > expected {
            let section = self.kind.sections().last().copied().unwrap_or(Section::Header);
            return Err(FileErrorKind::Trailing { section, expected, found });
        }
        Ok(())
    }
}
/// Checks that the file starts as a table file of a known version, with a complete and undamaged
/// header.
fn check_start(start: &[u8], file_bytes: u64) -> Result<(), FileErrorKind> {
    let known = start.len().min(MAGIC.len());
    if start[..known] != MAGIC[..known] {
        return Err(FileErrorKind::Foreign {
            found: start[..start.len().min(16)].escape_ascii().to_string(),
        });
    }
    // In newer formats only the place of the version is known.
    let version = start.get(at::VERSION..at::KIND).map(|_| word(start, at::VERSION) as u32);
    if let Some(found) = version.filter(|&v| v > VERSION) {
        return Err(FileErrorKind::Newer { found });
    }
    if start.len() < HEADER_BYTES as usize {
        let (section, expected) = (Section::Header, HEADER_BYTES);
        return Err(FileErrorKind::Truncated { section, expected, found: file_bytes });
    }
    let (found, expected) =
        (XxHash3_64::oneshot(&start[..at::CHECKSUM]), long(start, at::CHECKSUM));
    if found != expected {
        return Err(FileErrorKind::Checksum { section: Section::Header, found, expected });
    }
    Ok(())
}
/// Reads the kind of table, and the types of its keys and values.
fn read_types(start: &[u8]) -> Result<(TableKind, Types), FileErrorKind> {
    let read = |at, field, allowed: &[u64]| one_of(word(start, at), at, field, allowed);
    let width = |bits| match bits {
        32 => Width::U32,
        64 => Width::U64,
        _ => Width::U128,
    };
    let number = read(at::KIND, "kind", &TableKind::ALL.map(|(number, _)| number.into()))?;
    let kind = TableKind::ALL[number as usize - 1].1;
    let key = width(read(at::KEY_BITS, "key bits", kind.key_bits())?);
    let value = Some(read(at::VALUE_BITS, "value bits", kind.value_bits())?)
        .filter(|&bits| bits != 0)
        .map(width);
    Ok((kind, Types { key, value }))
}
/// Reads the descriptions of the types: printable text, then zeros.
fn read_meaning(start: &[u8], types: Types) -> Result<Meaning, FileErrorKind> {
    let text = |at: usize, field, is_there: bool| {
        let mut bytes = [0; MEANING_BYTES];
        let mut has_ended = !is_there;
        for (i, to) in bytes.iter_mut().enumerate() {
            let (byte, least) = (start[at + i], if i == 0 && is_there { 0x20 } else { 0 });
            has_ended |= i > 0 && byte == 0;
            let (found, most) = (byte.into(), if has_ended { 0 } else { 0x7E });
            within(found, at + i, field, least, most)?;
            if byte != 0 {
                within(found, at + i, field, 0x20, 0x7E)?;
            }
            *to = byte;
        }
        Ok(bytes)
    };
    Ok(Meaning {
        key: text(at::MEANING, "type of the keys", true)?,
        value: text(at::MEANING + MEANING_BYTES, "type of the values", types.value.is_some())?,
    })
}
fn read_shape(start: &[u8]) -> Result<Shape, FileErrorKind> {
    let (partitions, buckets) = (word(start, at::PARTITIONS), word(start, at::BUCKETS));
    within(buckets, at::BUCKETS, "buckets", 1, MAX_BUCKETS.into())?;
    within(partitions, at::PARTITIONS, "partitions", 1, u64::from(u32::MAX) / buckets)?;
    Ok(Shape { partitions: partitions as u32, buckets: buckets as u32 })
}

/// Reads a 32-bit field.
fn word(bytes: &[u8], at: usize) -> u64 {
    (0..4).rev().fold(0, |word, i| word << 8 | u64::from(bytes[at + i]))
}
/// Reads a 64-bit field.
fn long(bytes: &[u8], at: usize) -> u64 {
    word(bytes, at + 4) << 32 | word(bytes, at)
}
fn one_of(
    found: u64,
    at: usize,
    field: &'static str,
    allowed: &[u64],
) -> Result<u64, FileErrorKind> {
    match allowed.contains(&found) {
        true => Ok(found),
        false => {
            #[allow(clippy::disallowed_methods, reason = "a few numbers")]
            let numbers = allowed.iter().map(u64::to_string).collect::<Vec<_>>();
            let (first, last) = numbers.split_at(numbers.len().saturating_sub(2));
            #[allow(clippy::disallowed_methods, reason = "a few numbers")]
            let expected = [first, &[last.join(" or ")]].concat().join(", ");
            Err(FileErrorKind::Field { byte: at as u64, field, found, expected })
        }
    }
}
fn within(
    found: u64,
    at: usize,
    field: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, FileErrorKind> {
    match (least..=most).contains(&found) {
        true => Ok(found),
        false => Err(FileErrorKind::Field {
            byte: at as u64,
            field,
            found,
            expected: format!("{least} to {most}"),
        }),
    }
}
