//! Hand-made files, built field by field as `docs/format.md` describes them, and everything that
//! can be wrong with them. Needs no device and no file, so that Miri can run it.
use super::super::format::{MAX_BUCKETS, Members};
use super::*;
use koel_kernels::table::layout::{EMPTY, Narrow, Shape, Wide};
use koel_kernels::table::stash;
use std::ops::Range;
use twox_hash::XxHash3_64;

mod of_version_2;

const SLOTS: usize = 64;
const STASH: usize = 88;
const KEYS: usize = 112;
const STARTS: usize = 136;
const VALUES: usize = 160;
/// The sixth section, and the count behind its fields.
const SIXTH: usize = 328;
const SECOND_COUNT: usize = 352;
/// The values of a map of 128-bit keys, which has no starts.
const VALUES128: usize = 136;
/// The number of values of a multimap.
const COUNT: usize = 184;
/// The seed of the fingerprints of 128-bit keys.
const FINGERPRINTS: usize = 192;

/// The bytes of a file, not sealed yet.
#[derive(Clone)]
struct Bytes(Vec<u8>);
impl Bytes {
    /// A map of narrow pairs with `partitions` x `buckets` empty buckets.
    fn narrow(partitions: u32, buckets: u32) -> Bytes {
        Bytes::new(
            [32, 32],
            partitions,
            buckets,
            &vec![u64::MAX; 4 * (partitions * buckets) as usize],
            &[],
        )
    }
    /// A map.
    fn new(bits: [u32; 2], partitions: u32, buckets: u32, slots: &[u64], stash: &[u64]) -> Bytes {
        Bytes::of_kind(1, bits, [partitions, buckets], &[slots, stash].map(u64s))
    }
    fn of_kind(
        kind: u32,
        [key, value]: [u32; 2],
        [partitions, buckets]: [u32; 2],
        sections: &[Vec<u8>],
    ) -> Bytes {
        let mut bytes = Bytes(vec![0; 4096]);
        bytes.0[..8].copy_from_slice(&[0x89, 0x4B, 0x4F, 0x45, 0x4C, 0x0D, 0x0A, 0x1A]);
        bytes
            .u32(8, 1)
            .u32(12, kind)
            .u32(16, key)
            .u32(20, value)
            .u32(24, 7)
            .u32(56, partitions)
            .u32(60, buckets);
        for (i, section) in sections.iter().enumerate() {
            let (offset, length) = (bytes.0.len() as u64, section.len().next_multiple_of(8));
            let at = [SLOTS, STASH, KEYS, STARTS, VALUES, SIXTH][i];
            bytes.u64(at, offset).u64(at + 8, length as u64);
            bytes.0.extend(section);
            bytes.0.resize(offset as usize + length, 0);
        }
        bytes
    }
    fn u32(&mut self, at: usize, field: u32) -> &mut Bytes {
        self.0[at..at + 4].copy_from_slice(&field.to_le_bytes());
        self
    }
    fn u64(&mut self, at: usize, field: u64) -> &mut Bytes {
        self.0[at..at + 8].copy_from_slice(&field.to_le_bytes());
        self
    }
    fn get(&self, at: usize) -> usize {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap()) as usize
    }
    /// Offsets of the sections' fields, by kind.
    fn sections(&self) -> &'static [usize] {
        match self.0[12] {
            3 | 5 | 7 => &[SLOTS, STASH, KEYS],
            6 => &[SLOTS, STASH, KEYS, VALUES128],
            4 | 11 | 13 | 14 => &[SLOTS, STASH, KEYS, STARTS, VALUES],
            12 | 15 => &[SLOTS, STASH, KEYS, STARTS, VALUES, SIXTH],
            _ => &[SLOTS, STASH],
        }
    }
    fn section(&self, at: usize) -> Range<usize> {
        self.get(at)..self.get(at).saturating_add(self.get(at + 8))
    }
    /// Writes the correct checksums.
    fn sealed(&mut self) -> &mut Bytes {
        for &at in self.sections() {
            let checksum = self.0.get(self.section(at)).map_or(0, XxHash3_64::oneshot);
            self.u64(at + 16, checksum);
        }
        self.resealed()
    }
    fn resealed(&mut self) -> &mut Bytes {
        let checksum = XxHash3_64::oneshot(&self.0[..4088]);
        self.u64(4088, checksum)
    }
}
fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
/// Runs all checks of [`Reader`]. Returns the words of the slots, and the stash.
fn read_as<S: Slotted>(
    kind: TableKind,
    types: Types,
    bytes: &[u8],
) -> Result<(Vec<u64>, Stash<S::Pairs>)> {
    let mut reader = Reader::of_bytes(bytes)?;
    reader.check_is(kind, types, Meaning::plain(types))?;
    let (stash, mut words) = (reader.stash::<S>()?, vec![]);
    reader.slots::<S>(|piece| {
        words.extend_from_slice(piece);
        Ok(())
    })?;
    reader.check_sections::<S>()?;
    Ok((words, stash))
}
/// Does the same for a map.
fn read<L: Layout>(bytes: &[u8]) -> Result<(Vec<u64>, Stash<L>)> {
    let types = Types { key: Width::of::<L::Key>(), value: Some(Width::of::<L::Value>()) };
    read_as::<L>(TableKind::Map, types, bytes)
}
fn told<T>(result: Result<T>) -> String {
    match result {
        Err(Error::File(e)) => {
            assert_eq!(e.path, Path::new("(memory)"));
            e.kind.to_string()
        }
        Err(other) => panic!("{other}"),
        Ok(_) => "nothing".into(),
    }
}
fn fault<L: Layout>(bytes: &[u8]) -> String {
    told(read::<L>(bytes))
}
/// Returns a mixed key that belongs to the first bucket of a shape.
fn in_first(shape: Shape) -> u32 {
    (0..).find(|&h| shape.first_place(h) == 0).unwrap()
}

#[test]
fn a_file_is_what_the_description_says() {
    let shape = Shape { partitions: 3, buckets: 5 };
    let mut slots = vec![u64::MAX; 60];
    slots[0] = 99 << 32 | u64::from(in_first(shape));
    let stash = [1 << 32 | 10, 2 << 32 | 11];
    let mut bytes = Bytes::new([32, 32], 3, 5, &slots, &stash);
    bytes.u32(28, 1).u64(32, 77).u64(40, 4).u64(48, 6).sealed();
    let reader = Reader::of_bytes(&bytes.0).unwrap();
    let header = *reader.header();
    assert_eq!((header.seed, header.shape, header.held), (7, shape, Some(77)));
    assert_eq!((header.pairs, header.duplicates, header.stashed, header.values), (4, 6, 2, 0));
    assert_eq!(
        (header.all_slots(), header.in_buckets(), header.file_bytes()),
        (60, 1, 4096 + 62 * 8)
    );
    assert_eq!(
        (header.kind, header.types),
        (TableKind::Map, Types { key: Width::U32, value: Some(Width::U32) })
    );
    let (words, found) = read::<Narrow>(&bytes.0).unwrap();
    assert_eq!((words, found.len(), found.held()), (slots, 2, Some(77)));
    assert_eq!((found.get(10), found.get(11), found.get(12)), (Some(1), Some(2), None));
    // The writer produces the same bytes.
    assert_eq!(header.encode(), bytes.0[..4096]);

    let pair = [5u64 << 32, 1 << 40];
    let mut wide = Bytes::new([64, 32], 1, 2, &[u64::MAX; 16], &pair);
    wide.u64(40, 1).sealed();
    let (words, found) = read::<Wide<u64, u32>>(&wide.0).unwrap();
    assert_eq!(
        (words.len(), found.get(5 << 32)),
        (16, Some(0)),
        "a value is the low bits of its word"
    );
}

#[test]
fn every_bit_counts() {
    let mut bytes = Bytes::new([32, 32], 1, 2, &[u64::MAX; 8], &[5]);
    bytes.u64(40, 1).sealed();
    assert_eq!(fault::<Narrow>(&bytes.0), "nothing");
    for at in (0..bytes.0.len()).step_by(if cfg!(miri) { 2039 } else { 1 }) {
        bytes.0[at] ^= 1 << (at % 8);
        assert_ne!(fault::<Narrow>(&bytes.0), "nothing", "byte {at}");
        bytes.0[at] ^= 1 << (at % 8);
    }
}

#[test]
fn every_length_but_the_right_one_is_told() {
    let mut bytes = Bytes::new([32, 32], 1, 2, &[u64::MAX; 8], &[5]);
    bytes.u64(40, 1).sealed();
    let whole = bytes.0.len();
    for length in (0..whole).step_by(if cfg!(miri) { 2039 } else { 1 }) {
        let (section, needs) = match length {
            0..4096 => ("header", 4096),
            4096..4160 => ("section of slots", 4160),
            _ => ("section of the stash", 4168),
        };
        let expected = format!("truncated: {length} bytes, the {section} needs {needs}");
        assert_eq!(fault::<Narrow>(&bytes.0[..length]), expected);
    }
    bytes.0.push(0);
    let says = "has 4169 bytes, expected 4168: extra bytes after the section of the stash";
    assert_eq!(fault::<Narrow>(&bytes.0), says);
}

#[test]
fn every_field_is_checked() {
    /// Offset of a field, its width, its new value.
    type Change = (usize, u8, u64);
    let check = |changes: &[Change], says: &str| {
        let mut bytes = Bytes::narrow(1, 2);
        for &(at, width, value) in changes {
            if width == 8 {
                bytes.u64(at, value)
            } else {
                bytes.u32(at, value as u32)
            };
        }
        assert_eq!(fault::<Narrow>(&bytes.sealed().0), says);
    };
    check(&[], "nothing");
    let magic = r#"expected "\x89KOEL\r\n\x1a""#;
    let found = "is not a koel table: begins with \
         \"x\\x00\\x00\\x00L\\r\\n\\x1a\\x01\\x00\\x00\\x00\\x01\\x00\\x00\\x00\"";
    check(&[(0, 4, b'x'.into())], &format!("{found}, {magic}"));
    for (at, width, value, says) in [
        (8, 4, 3, "has format version 3, this koel reads versions up to 2"),
        (8, 4, 0, "byte 8: version is 0, expected 1 or 2"),
        (12, 4, 2, "byte 20: value bits is 32, expected 0"),
        (12, 4, 3, "byte 112: offset of the keys is 0, expected 4160"),
        (12, 4, 4, "byte 112: offset of the keys is 0, expected 4160"),
        (12, 4, 5, "byte 16: key bits is 32, expected 128"),
        (
            12,
            4,
            16,
            "byte 12: kind is 16, expected 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 or 15",
        ),
        (16, 4, 33, "byte 16: key bits is 33, expected 32 or 64"),
        (20, 4, 0, "byte 20: value bits is 0, expected 32 or 64"),
        (28, 4, 2, "byte 28: held is 2, expected 0 or 1"),
        (28, 4, 1, "byte 40: pairs is 0, expected 1 to 9"),
        (32, 8, 1, "byte 32: held value is 1, expected 0 to 0"),
        (40, 8, 9, "byte 40: pairs is 9, expected 0 to 8"),
        (40, 8, u64::MAX, "byte 40: pairs is 18446744073709551615, expected 0 to 8"),
        (48, 8, u64::MAX, "byte 48: duplicates is 18446744073709551615, expected 0 to 4294901759"),
        (56, 4, 0, "byte 56: partitions is 0, expected 1 to 2147483647"),
        (56, 4, 1 << 31, "byte 56: partitions is 2147483648, expected 1 to 2147483647"),
        (60, 4, 0, "byte 60: buckets is 0, expected 1 to 65536"),
        (60, 4, u64::from(MAX_BUCKETS) + 1, "byte 60: buckets is 65537, expected 1 to 65536"),
        (64, 8, 8192, "byte 64: offset of the slots is 8192, expected 4096"),
        (72, 8, 1 << 34, "byte 72: bytes of the slots is 17179869184, expected 64"),
        (88, 8, 0, "byte 88: offset of the stash is 0, expected 4160"),
        (96, 8, 9, "byte 96: bytes of the stash is 9, expected 8"),
        (
            96,
            8,
            u64::MAX,
            "byte 96: bytes of the stash is 18446744073709551615, expected 0 to 8388608",
        ),
        (112, 4, 1, "byte 112: a reserved field is 1, expected 0"),
        (FINGERPRINTS, 4, 1, "byte 192: a reserved field is 1, expected 0"),
        (4084, 4, 3, "byte 4084: a reserved field is 3, expected 0"),
    ] {
        check(&[(at, width, value)], says);
    }
    let says = "byte 32: held value is 4294967296, expected 0 to 4294967295";
    check(&[(28, 4, 1), (32, 8, 1 << 32), (40, 8, 1)], says);
    check(&[(12, 4, 2), (20, 4, 0)], "holds a set, expected a map");
    // The maximum number of buckets, in a file that has two.
    let (shape, all) = ([(56, 4, 65537), (60, 4, 65535)], 65537 * 65535 * 32);
    check(&shape, &format!("byte 72: bytes of the slots is 64, expected {all}"));
    let sections = [(72, 8, all), (88, 8, 4096 + all)];
    let says = format!("truncated: 4160 bytes, the section of slots needs {}", 4096 + all);
    check(&[shape, sections].concat(), &says);
}

#[test]
fn sections_are_checked() {
    let mut bytes = Bytes::narrow(1, 2);
    bytes.sealed();
    let checksum = bytes.get(4088) as u64;
    bytes.u64(4088, !checksum);
    let says = format!(
        "corrupted: the header has checksum {checksum:#018x}, expected {:#018x}",
        !checksum
    );
    assert_eq!(fault::<Narrow>(&bytes.0), says);
    for (at, section) in [(SLOTS, "section of slots"), (STASH, "section of the stash")] {
        let checksum = bytes.sealed().get(at + 16);
        let says = format!(
            "corrupted: the {section} has checksum {checksum:#018x}, expected 0x0000000000000005"
        );
        assert_eq!(fault::<Narrow>(&bytes.u64(at + 16, 5).resealed().0), says);
    }
    assert_eq!(
        fault::<Wide<u32, u64>>(&bytes.sealed().0),
        "holds pairs u32 -> u32, expected u32 -> u64"
    );
    assert_eq!(
        fault::<Wide<u64, u32>>(&bytes.sealed().0),
        "holds pairs u32 -> u32, expected u64 -> u32"
    );
}

#[test]
fn pairs_are_counted() {
    let shape = Shape { partitions: 2, buckets: 2 };
    let mut slots = vec![u64::MAX; 16];
    slots[0] = u64::from(in_first(shape));
    slots[1] = u64::from(shape.filler(0, 0));
    for (pairs, says) in [
        (0, "the slots hold 1 pairs, the header says 0"),
        (1, "nothing"),
        (2, "the slots hold 1 pairs, the header says 2"),
    ] {
        let mut bytes = Bytes::new([32, 32], 2, 2, &slots, &[]);
        assert_eq!(fault::<Narrow>(&bytes.u64(40, pairs).sealed().0), says);
    }
}

#[test]
fn a_stash_is_in_order() {
    let check = |stash: &[u64], says: &str| {
        let mut bytes = Bytes::new([32, 32], 1, 1, &[u64::MAX; 4], stash);
        assert_eq!(fault::<Narrow>(&bytes.u64(40, stash.len() as u64).sealed().0), says);
    };
    check(&[1, 2, 3], "nothing");
    check(&[1, 3, 2], "byte 4144: pair 2 of the stash is out of order");
    check(&[1, 1 << 32 | 1], "byte 4136: pair 1 of the stash has the key of the one before it");
    check(&[1, u32::MAX.into()], "byte 4136: pair 1 of the stash has the ambiguous key");
    check(&[u64::MAX], "byte 4128: pair 0 of the stash has the ambiguous key");
}

/// 64-bit keys that all start at one slot: inserting them takes quadratic time.
#[test]
#[cfg_attr(miri, ignore = "long")]
fn keys_chosen_to_collide_cost_no_more_than_a_moment() {
    // The high half is the hash; the low half compensates for it in the stash's own spreading.
    let low = |h: u32| (7 ^ h).wrapping_mul(0xA5CB_9243);
    let key = |h: u32| (h as u64) << 32 | low(h) as u64;
    let begins = |h: u32| stash::start::<Wide<u64, u64>>(key(h), 20);
    assert!((1..100).all(|h| begins(h) == begins(0)));
    let stash = |n: u32| (0..n).flat_map(|h| [key(h), h.into()]).collect::<Vec<u64>>();
    for (n, says) in [
        (10_000, "nothing"),
        (
            65_536,
            "the keys of the stash collide: inserting 65536 pairs takes more than \
             67108864 steps (use another seed)",
        ),
    ] {
        let mut bytes = Bytes::new([64, 64], 1, 1, &[u64::MAX; 8], &stash(n));
        assert_eq!(fault::<Wide<u64, u64>>(&bytes.u64(40, n.into()).sealed().0), says);
    }
}

/// A multimap of 32-bit keys and values: key 20 has the value 5, key 30 the values 6 and 7, the
/// ambiguous key the value 8.
fn multimap() -> Bytes {
    let mut bytes = numbered(4, &[u32s(&[0, 1, 3, 4]), u32s(&[5, 6, 7, 8])]);
    bytes.u64(COUNT, 4);
    bytes
}
/// The index of the same keys.
fn index32() -> Bytes {
    numbered(3, &[])
}
/// A table that numbers the keys 20, 30 and the ambiguous one, followed by the sections `behind`.
fn numbered(kind: u32, behind: &[Vec<u8>]) -> Bytes {
    let shape = Shape { partitions: 2, buckets: 2 };
    let ambiguous = Narrow::unmixed(7, u32::MAX);
    let mut keys = [20, 30, ambiguous];
    keys.sort_unstable();
    let id = |key| keys.iter().position(|&other| other == key).unwrap() as u32;
    let mut slots = vec![u64::MAX; 16];
    for key in [20, 30] {
        let mixed = Narrow::mixed(7, key);
        let bucket = 4 * shape.first_place(mixed) as usize;
        let slot = (bucket..bucket + 4).find(|&slot| slots[slot] == u64::MAX).unwrap();
        slots[slot] = Narrow::pair(mixed, id(key));
    }
    assert_eq!(id(ambiguous), 2, "the last one");
    let sections = [&[u64s(&slots), vec![], u32s(&keys)], behind].concat();
    let mut bytes = Bytes::of_kind(kind, [32, 32], [2, 2], &sections);
    bytes.u32(28, 1).u64(32, 2).u64(40, 3);
    bytes
}
/// An index of 64-bit keys, one of which is in the stash.
fn index() -> Bytes {
    let mixed = Wide::<u64, u32>::mixed(7, 20);
    let sections = [u64s(&[u64::MAX; 8]), u64s(&[mixed, 0]), u64s(&[20])];
    let mut bytes = Bytes::of_kind(3, [64, 32], [1, 1], &sections);
    bytes.u64(40, 1);
    bytes
}
/// A set of 32-bit keys, one of which is in the stash.
fn set() -> Bytes {
    let mut keys = [u32::MAX; 16];
    keys[..3].copy_from_slice(&[1, 2, 3]);
    let mut bytes = Bytes::of_kind(2, [32, 0], [1, 2], &[u32s(&keys), u64s(&[9])]);
    bytes.u64(40, 4);
    bytes
}
/// A set, map or index of three 128-bit keys, in no order: rows 0 and 2 in the buckets, row 1 in
/// the stash.
fn of_rows(kind: u32, value_bits: u32) -> Bytes {
    let mut slots = [u64::MAX; 8];
    (slots[0], slots[1], slots[4], slots[5]) = (50, 40, 2, 0);
    let keys = [3u64, 1 << 40, 9, 0, u64::MAX, u64::MAX];
    let mut sections = vec![u64s(&slots), u64s(&[60, 1]), u64s(&keys)];
    if kind == 6 {
        sections.push(if value_bits == 32 { u32s(&[7, 5, 6]) } else { u64s(&[7, 5, u64::MAX]) });
    }
    let mut bytes = Bytes::of_kind(kind, [128, value_bits], [1, 1], &sections);
    bytes.u64(40, 3).u64(48, 2).u64(FINGERPRINTS, 77);
    bytes
}
fn of_rows_fault(kind: TableKind, value: Option<Width>, bytes: &Bytes) -> String {
    told(read_as::<Wide<u64, u32>>(kind, Types { key: Width::U128, value }, &bytes.0))
}
fn map128_fault(bytes: &Bytes) -> String {
    of_rows_fault(TableKind::Map128, Some(Width::U32), bytes)
}
const NARROW: Types = Types { key: Width::U32, value: Some(Width::U32) };
fn multimap_fault(bytes: &Bytes) -> String {
    told(read_as::<Narrow>(TableKind::MultiMap, NARROW, &bytes.0))
}
fn index32_fault(bytes: &Bytes) -> String {
    told(read_as::<Narrow>(TableKind::Index, NARROW, &bytes.0))
}
fn index_fault(bytes: &Bytes) -> String {
    let types = Types { key: Width::U64, value: Some(Width::U32) };
    told(read_as::<Wide<u64, u32>>(TableKind::Index, types, &bytes.0))
}
fn set_fault(bytes: &Bytes) -> String {
    told(read_as::<Members<u32>>(TableKind::Set, Types { key: Width::U32, value: None }, &bytes.0))
}

/// Version 2: descriptions of 64 bytes each, of printable text and zeros.
#[test]
fn files_say_what_bits_mean() {
    const KEY: usize = 200;
    const VALUE: usize = 264;
    let described = |key: &str, value: &str| {
        let mut bytes = Bytes::new([32, 32], 1, 1, &[u64::MAX; 4], &[]);
        bytes.0[8] = 2;
        bytes.0[KEY..][..key.len()].copy_from_slice(key.as_bytes());
        bytes.0[VALUE..][..value.len()].copy_from_slice(value.as_bytes());
        bytes.sealed();
        bytes
    };
    let bytes = described("(i16, u8)", "f32");
    let header = *Reader::of_bytes(&bytes.0).unwrap().header();
    assert_eq!((header.version(), header.meaning.to_string()), (2, "(i16, u8) -> f32".into()));
    assert_eq!(header.meaning, Meaning::of::<(i16, u8), f32>().unwrap());
    assert_eq!(header.encode(), bytes.0[..4096]);
    assert_eq!(fault::<Narrow>(&bytes.0), "holds pairs (i16, u8) -> f32, expected u32 -> u32");
    let long = "x".repeat(64);
    let reader = Reader::of_bytes(&described(&long, &long).0).map(|reader| *reader.header());
    assert_eq!(reader.unwrap().meaning.to_string(), format!("{long} -> {long}"));

    for (key, value, expected) in [
        ("", "f32", "byte 200: type of the keys is 0, expected 32 to 126"),
        ("i8", "", "byte 264: type of the values is 0, expected 32 to 126"),
        ("i\n", "u8", "byte 201: type of the keys is 10, expected 32 to 126"),
        ("i8", "u\x7f", "byte 265: type of the values is 127, expected 0 to 126"),
        ("i\0x", "u8", "byte 202: type of the keys is 120, expected 0 to 0"),
    ] {
        assert_eq!(fault::<Narrow>(&described(key, value).0), expected);
    }
    // In version 1 these bytes are reserved; a set has no values.
    let mut bytes = described("i32", "");
    bytes.0[8] = 1;
    assert!(fault::<Narrow>(&bytes.sealed().0).contains("a reserved field"));
    let mut bytes = set();
    bytes.0[8] = 2;
    bytes.0[KEY..][..3].copy_from_slice(b"i32");
    assert_eq!(set_fault(bytes.sealed()), "holds keys i32, expected u32");
    bytes.0[VALUE] = b'u';
    assert_eq!(set_fault(bytes.sealed()), "byte 264: type of the values is 117, expected 0 to 0");
}

#[test]
fn other_kinds_are_what_the_description_says() {
    for (bytes, fault, kind, counts) in [
        (multimap(), multimap_fault as fn(&Bytes) -> String, TableKind::MultiMap, [3, 0, 4, 16]),
        (index(), index_fault, TableKind::Index, [1, 1, 0, 4]),
        (set(), set_fault, TableKind::Set, [4, 1, 0, 16]),
        (
            of_rows(5, 0),
            |b| of_rows_fault(TableKind::Set128, None, b),
            TableKind::Set128,
            [3, 1, 0, 4],
        ),
        (of_rows(6, 32), map128_fault, TableKind::Map128, [3, 1, 0, 4]),
        (
            of_rows(6, 64),
            |b| of_rows_fault(TableKind::Map128, Some(Width::U64), b),
            TableKind::Map128,
            [3, 1, 0, 4],
        ),
        (
            of_rows(7, 32),
            |b| of_rows_fault(TableKind::Index128, Some(Width::U32), b),
            TableKind::Index128,
            [3, 1, 0, 4],
        ),
    ] {
        let mut bytes = bytes;
        assert_eq!(fault(bytes.sealed()), "nothing", "{kind:?}");
        let header = *Reader::of_bytes(&bytes.0).unwrap().header();
        assert_eq!((header.kind, header.file_bytes()), (kind, bytes.0.len() as u64));
        assert_eq!([header.pairs, header.stashed, header.values, header.all_slots()], counts);
        assert_eq!(header.fingerprints, if header.types.key == Width::U128 { 77 } else { 0 });
        assert_eq!(header.encode(), bytes.0[..4096], "{kind:?}");
        // Every bit and every length matters.
        for at in (0..bytes.0.len()).step_by(if cfg!(miri) { 2039 } else { 1 }) {
            bytes.0[at] ^= 1 << (at % 8);
            assert_ne!(fault(&bytes), "nothing", "byte {at}");
            bytes.0[at] ^= 1 << (at % 8);
        }
        for length in (0..bytes.0.len()).step_by(if cfg!(miri) { 2039 } else { 1 }) {
            assert!(
                fault(&Bytes(bytes.0[..length].to_vec())).starts_with("truncated: "),
                "{length}"
            );
        }
        bytes.0.push(0);
        assert!(fault(&bytes).contains("extra bytes after the section of "), "{}", fault(&bytes));
    }
}

#[test]
fn fields_of_other_kinds_are_checked() {
    type Change = (usize, u8, u64);
    let changed = |mut bytes: Bytes, changes: &[Change]| {
        for &(at, width, value) in changes {
            if width == 8 {
                bytes.u64(at, value)
            } else {
                bytes.u32(at, value as u32)
            };
        }
        bytes.sealed();
        bytes
    };
    for (changes, says) in [
        (&[(20, 4, 0)][..], "byte 20: value bits is 0, expected 32, 64 or 128"),
        (&[(20, 4, 128)], "byte 8: version is 1, expected 2"),
        (&[(32, 8, 3)], "byte 32: held value is 3, expected 0 to 2"),
        (&[(40, 8, 4)], "byte 144: bytes of the starts is 16, expected 24"),
        (&[(112, 8, 4096)], "byte 112: offset of the keys is 4096, expected 4224"),
        (&[(120, 8, 24)], "byte 120: bytes of the keys is 24, expected 16"),
        (&[(144, 8, 0)], "byte 144: bytes of the starts is 0, expected 16"),
        (
            &[(136, 8, 1 << 63)],
            "byte 136: offset of the starts is 9223372036854775808, expected 4240",
        ),
        (&[(168, 8, 8)], "byte 168: bytes of the values is 8, expected 16"),
        (&[(184, 8, 2)], "byte 184: values is 2, expected 3 to 4294901759"),
        (&[(184, 8, 5)], "byte 168: bytes of the values is 16, expected 24"),
        (
            &[(184, 8, u64::MAX)],
            "byte 184: values is 18446744073709551615, expected 3 to 4294901759",
        ),
        (
            &[(184, 8, 1 << 31), (168, 8, 1 << 33)],
            "truncated: 4272 bytes, the section of values needs 8589938848",
        ),
        (&[(192, 4, 1)], "byte 192: a reserved field is 1, expected 0"),
        (&[(12, 4, 3)], "has 4272 bytes, expected 4240: extra bytes after the section of keys"),
    ] {
        assert_eq!(multimap_fault(&changed(multimap(), changes)), says);
    }
    for (changes, says) in [
        (&[(20, 4, 64)][..], "byte 20: value bits is 64, expected 32"),
        (&[(136, 8, 5)], "byte 136: a reserved field is 5, expected 0"),
        (
            &[(12, 4, 1)],
            "has 4184 bytes, expected 4176: extra bytes after the section of the stash",
        ),
        (&[(16, 4, 32)], "byte 40: pairs is 1, expected 2 to 6"),
    ] {
        assert_eq!(index_fault(&changed(index(), changes)), says);
    }
    for (changes, says) in [
        (&[(20, 4, 32)][..], "byte 20: value bits is 32, expected 0"),
        (&[(28, 4, 1), (32, 8, 1)], "byte 32: held value is 1, expected 0 to 0"),
        (&[(28, 4, 1), (40, 8, 4)], "the slots hold 3 pairs, the header says 2"),
        (&[(40, 8, 18)], "byte 40: pairs is 18, expected 1 to 17"),
        (&[(112, 4, 1)], "byte 112: a reserved field is 1, expected 0"),
        (&[(16, 4, 64)], "byte 96: bytes of the stash is 8, expected 0"),
    ] {
        assert_eq!(set_fault(&changed(set(), changes)), says);
    }
    for (changes, says) in [
        (&[(16, 4, 64)][..], "byte 16: key bits is 64, expected 128"),
        (&[(20, 4, 0)], "byte 20: value bits is 0, expected 32, 64 or 128"),
        (&[(20, 4, 128)], "byte 144: bytes of the values is 16, expected 48"),
        (&[(20, 4, 64)], "byte 144: bytes of the values is 16, expected 24"),
        (&[(28, 4, 1), (32, 8, 3), (40, 8, 4)], "byte 120: bytes of the keys is 48, expected 64"),
        (&[(28, 4, 1), (32, 8, 3)], "byte 32: held value is 3, expected 0 to 2"),
        (&[(40, 8, 4)], "byte 120: bytes of the keys is 48, expected 64"),
        (&[(112, 8, 4168)], "byte 112: offset of the keys is 4168, expected 4176"),
        (&[(136, 8, 0)], "byte 136: offset of the values is 0, expected 4224"),
        (&[(160, 4, 1)], "byte 160: a reserved field is 1, expected 0"),
        (&[(COUNT, 8, 3)], "byte 184: a reserved field is 3, expected 0"),
        (&[(FINGERPRINTS, 8, u64::MAX)], "nothing"),
        (&[(200, 4, 1)], "byte 200: a reserved field is 1, expected 0"),
        (&[(12, 4, 5)], "byte 20: value bits is 32, expected 0"),
        (&[(12, 4, 7)], "has 4240 bytes, expected 4224: extra bytes after the section of keys"),
        (&[(12, 4, 1)], "byte 16: key bits is 128, expected 32 or 64"),
    ] {
        assert_eq!(map128_fault(&changed(of_rows(6, 32), changes)), says);
    }
    // Another kind than requested, and other types.
    let (set, index) = (changed(set(), &[]), changed(index(), &[]));
    assert_eq!(multimap_fault(&set), "holds a set, expected a multimap");
    assert_eq!(set_fault(&index), "holds an index, expected a set");
    assert_eq!(index_fault(&changed(multimap(), &[])), "holds a multimap, expected an index");
    let types = Types { key: Width::U128, value: Some(Width::U64) };
    let of_rows = changed(of_rows(6, 32), &[]);
    let says = "holds pairs u128 -> u32, expected u128 -> u64";
    assert_eq!(told(read_as::<Wide<u64, u32>>(TableKind::Map128, types, &of_rows.0)), says);
    assert_eq!(index_fault(&of_rows), "holds a map of 128-bit keys, expected an index");
    let types = Types { key: Width::U64, value: None };
    assert_eq!(
        told(read_as::<Members<u64>>(TableKind::Set, types, &set.0)),
        "holds keys u32, expected u64"
    );
}

#[test]
fn what_stands_in_sections_is_checked() {
    // A place in a section, and its new value.
    let check = |bytes: Bytes,
                 (section, at): (usize, usize),
                 number: u32,
                 fault: fn(&Bytes) -> String,
                 says: &str| {
        let mut bytes = bytes;
        let start = bytes.get(section);
        bytes.u32(start + at, number).sealed();
        assert_eq!(fault(&bytes), says);
    };
    // Keys may be in any order.
    for (at, number, says) in [
        ((KEYS, 0), 19, "nothing"),
        ((KEYS, 0), 31, "nothing"),
        ((KEYS, 12), 9, "byte 4236: element 3 of the section of keys is 9, expected 0"),
    ] {
        check(index32(), at, number, index32_fault, says);
    }
    for (at, number, says) in [
        ((KEYS, 4), 20, "nothing"),
        ((KEYS, 0), 31, "nothing"),
        ((KEYS, 12), 9, "byte 4236: element 3 of the section of keys is 9, expected 0"),
        ((STARTS, 0), 1, "byte 4240: element 0 of the section of starts is 1, expected 0"),
        (
            (STARTS, 4),
            0,
            "byte 4244: element 1 of the section of starts is 0, expected more than 0",
        ),
        (
            (STARTS, 4),
            4,
            "byte 4248: element 2 of the section of starts is 3, expected more than 4",
        ),
        ((STARTS, 12), 5, "byte 4252: element 3 of the section of starts is 5, expected 4"),
        (
            (STARTS, 12),
            u32::MAX,
            "byte 4252: element 3 of the section of starts is 4294967295, expected 4",
        ),
        ((VALUES, 0), u32::MAX, "nothing"),
    ] {
        check(multimap(), at, number, multimap_fault, says);
    }
    // Numbers of keys that do not exist.
    let bytes = multimap();
    let slots = bytes.section(SLOTS).step_by(8).filter(|&at| bytes.get(at) as u64 != EMPTY);
    for at in slots.collect::<Vec<_>>() {
        let says = "the slots hold number 3, expected at most 2, the number of the last key";
        check(multimap(), (SLOTS, at + 4 - 4096), 3, multimap_fault, says);
    }
    check(
        index(),
        (STASH, 8),
        1,
        index_fault,
        "byte 4160: pair 0 of the stash has a value that is too large",
    );
    check(
        set(),
        (STASH, 4),
        1,
        set_fault,
        "byte 4160: pair 0 of the stash has a value that is too large",
    );
    check(set(), (SLOTS, 60), 1, set_fault, "the slots hold 4 pairs, the header says 3");
    check(set(), (SLOTS, 8), u32::MAX, set_fault, "the slots hold 2 pairs, the header says 3");
    // Rows that do not exist; keys in rows may be any.
    let wrong = "the slots hold number 3, expected at most 2, the number of the last key";
    let stashed = "byte 4160: pair 0 of the stash has a value that is too large";
    for (at, number, says) in [
        ((SLOTS, 32), 3, wrong),
        ((SLOTS, 40), 3, wrong),
        ((SLOTS, 48), 3, "nothing"),
        ((STASH, 8), 3, stashed),
        ((KEYS, 0), u32::MAX, "nothing"),
        ((KEYS, 28), u32::MAX, "nothing"),
        ((VALUES128, 8), 0, "nothing"),
        ((VALUES128, 12), 9, "byte 4236: element 3 of the section of values is 9, expected 0"),
    ] {
        check(of_rows(6, 32), at, number, map128_fault, says);
    }
    // An empty multimap has one start.
    let none = [u64s(&[u64::MAX; 4]), vec![], vec![], u32s(&[0]), vec![]];
    let mut none = Bytes::of_kind(4, [32, 32], [1, 1], &none);
    assert_eq!(multimap_fault(none.sealed()), "nothing");
    assert_eq!(
        multimap_fault(none.u64(COUNT, 1).sealed()),
        "byte 184: values is 1, expected 0 to 0"
    );
}
