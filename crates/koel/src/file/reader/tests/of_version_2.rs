//! Files of kinds that are new in version 2, likewise.
use super::*;

/// What a table of three keys in rows holds: rows 0 and 2 in the buckets, row 1 in the stash. Keys
/// are "a", "bc" and "", or numbers; values 5; 6 and 7; 8, or "hi", "" and "all".
fn of_kind(kind: u32) -> Bytes {
    let (has_strings, to_strings) = ([12, 15].contains(&kind), kind > 12);
    let mut slots = [u64::MAX; 8];
    (slots[0], slots[1], slots[4], slots[5]) = (50, 40, 2, 0);
    let mut sections = vec![u64s(&slots), u64s(&[60, 1])];
    match has_strings {
        true => sections.extend([u64s(&[0, 1, 3, 3]), b"abc".to_vec()]),
        false => sections.push(u64s(&[3u64, 1 << 40, 9, 0, u64::MAX, u64::MAX])),
    }
    match to_strings {
        true => sections.extend([u64s(&[0, 2, 2, 5]), b"hiall".to_vec()]),
        false => sections.extend([u32s(&[0, 1, 3, 4]), u32s(&[5, 6, 7, 8])]),
    }
    let bits = [if has_strings { 64 } else { 128 }, if to_strings { 64 } else { 32 }];
    let mut bytes = Bytes::of_kind(kind, bits, [1, 1], &sections);
    bytes.u32(8, 2).u64(40, 3).u64(FINGERPRINTS, 77);
    let (key, value) = (if has_strings { "bytes" } else { "u128" }, ["u32", "bytes"]);
    let value = value[usize::from(to_strings)];
    bytes.0[200..][..key.len()].copy_from_slice(key.as_bytes());
    bytes.0[264..][..value.len()].copy_from_slice(value.as_bytes());
    let values = if to_strings { 5 } else { 4 };
    match has_strings {
        true => bytes.u64(COUNT, 3).u64(SECOND_COUNT, values),
        false => bytes.u64(COUNT, values),
    };
    bytes
}
/// A map from 32-bit keys to strings, whose three keys are in narrow slots.
fn of_narrow_keys() -> Bytes {
    let mut bytes = numbered(13, &[u64s(&[0, 2, 2, 5]), b"hiall".to_vec()]);
    bytes.u32(8, 2).u32(20, 64).u64(COUNT, 5);
    bytes.0[200..][..3].copy_from_slice(b"u32");
    bytes.0[264..][..5].copy_from_slice(b"bytes");
    bytes
}
fn fault(bytes: &Bytes) -> String {
    fn all<S: Slotted>(mut reader: Reader<Cursor<&[u8]>>) -> Result<()> {
        reader.stash::<S>()?;
        reader.check_sections::<S>()
    }
    told(Reader::of_bytes(&bytes.0).and_then(|reader| match reader.header().types.key {
        Width::U32 => all::<Narrow>(reader),
        _ => all::<Wide<u64, u32>>(reader),
    }))
}

#[test]
fn these_kinds_are_what_the_description_says() {
    for (bytes, kind, counts) in [
        (of_kind(11), TableKind::MultiMap128, [3, 1, 4, 0]),
        (of_kind(12), TableKind::StringMultiMap, [3, 1, 4, 3]),
        (of_narrow_keys(), TableKind::MapToStrings, [3, 0, 5, 0]),
        (of_kind(14), TableKind::Map128ToStrings, [3, 1, 5, 0]),
        (of_kind(15), TableKind::StringMapToStrings, [3, 1, 5, 3]),
    ] {
        let mut bytes = bytes;
        assert_eq!(fault(bytes.sealed()), "nothing", "{kind:?}");
        let header = *Reader::of_bytes(&bytes.0).unwrap().header();
        assert_eq!((header.kind, header.file_bytes()), (kind, bytes.0.len() as u64));
        assert_eq!([header.pairs, header.stashed, header.values, header.key_bytes], counts);
        assert_eq!(header.encode(), bytes.0[..4096], "{kind:?}");
        // Every bit and every length matters.
        for at in (0..bytes.0.len()).step_by(if cfg!(miri) { 2039 } else { 1 }) {
            bytes.0[at] ^= 1 << (at % 8);
            assert_ne!(fault(&bytes), "nothing", "byte {at}");
            bytes.0[at] ^= 1 << (at % 8);
        }
        for length in (0..bytes.0.len()).step_by(if cfg!(miri) { 2039 } else { 1 }) {
            let found = fault(&Bytes(bytes.0[..length].to_vec()));
            assert!(found.starts_with("truncated: "), "{length}");
        }
        bytes.0.push(0);
        assert!(fault(&bytes).contains("extra bytes after the section of values"));
    }
}
#[test]
fn fields_of_these_kinds_are_checked() {
    type Change = (usize, u8, u64);
    let checked = |bytes: Bytes, changes: &[(&[Change], &str)]| {
        for (changes, says) in changes {
            let mut bytes = bytes.clone();
            for &(at, width, value) in *changes {
                if width == 8 {
                    bytes.u64(at, value)
                } else {
                    bytes.u32(at, value as u32)
                };
            }
            assert_eq!(fault(bytes.sealed()), *says);
        }
    };
    let most = "18446744073709551615, expected";
    checked(
        of_kind(11),
        &[
            (&[(8, 4, 1)], "byte 8: version is 1, expected 2"),
            (&[(16, 4, 64)], "byte 16: key bits is 64, expected 128"),
            (&[(20, 4, 128)], "byte 168: bytes of the values is 16, expected 64"),
            (&[(COUNT, 8, 2)], "byte 184: values is 2, expected 3 to 4294901759"),
            (&[(COUNT, 8, 7)], "byte 168: bytes of the values is 16, expected 32"),
            (&[(SIXTH, 8, 1)], "byte 328: a reserved field is 1, expected 0"),
            (&[(SECOND_COUNT, 8, 3)], "byte 352: a reserved field is 3, expected 0"),
        ],
    );
    checked(
        of_kind(12),
        &[
            (&[(16, 4, 128)], "byte 16: key bits is 128, expected 64"),
            (&[(COUNT, 8, u64::MAX)], &format!("byte 184: bytes is {most} 0 to 34359738360")),
            (&[(COUNT, 8, 9)], "byte 144: bytes of the keys is 8, expected 16"),
            (
                &[(SECOND_COUNT, 8, u64::MAX)],
                &format!("byte 352: values is {most} 3 to 4294901759"),
            ),
            (&[(SECOND_COUNT, 8, 5)], "byte 336: bytes of the values is 16, expected 24"),
            (&[(SIXTH, 8, 0)], "byte 328: offset of the values is 0, expected 4232"),
            (
                &[(SIXTH + 8, 8, 1 << 40)],
                "byte 336: bytes of the values is 1099511627776, expected 16",
            ),
            (
                &[(200, 4, 0x3233_7569)],
                "byte 200: type of the keys is 494763472233, expected those of \"bytes\"",
            ),
            (&[(360, 4, 1)], "byte 360: a reserved field is 1, expected 0"),
        ],
    );
    checked(
        of_kind(15),
        &[
            (&[(20, 4, 32)], "byte 20: value bits is 32, expected 64"),
            (
                &[(SECOND_COUNT, 8, u64::MAX)],
                &format!("byte 352: bytes of all values is {most} 0 to 34359738360"),
            ),
            (&[(SECOND_COUNT, 8, 9)], "byte 336: bytes of the values is 8, expected 16"),
            (
                &[(SECOND_COUNT, 8, 6)],
                "byte 4240: element 3 of the section of value starts is 5, expected 6",
            ),
            (
                &[(264, 4, 0x3233_7569)],
                "byte 264: type of the values is 494763472233, expected those of \"bytes\"",
            ),
        ],
    );
    checked(
        of_narrow_keys(),
        &[
            (&[(20, 4, 32)], "byte 20: value bits is 32, expected 64"),
            (&[(FINGERPRINTS, 8, 1)], "byte 192: a reserved field is 1, expected 0"),
            (&[(SECOND_COUNT, 8, 5)], "byte 352: a reserved field is 5, expected 0"),
        ],
    );
}
#[test]
fn what_stands_in_sections_of_these_kinds_is_checked() {
    let check = |bytes: Bytes, (section, at): (usize, usize), number: u32, says: &str| {
        let mut bytes = bytes;
        let start = bytes.get(section);
        bytes.u32(start + at, number).sealed();
        assert_eq!(fault(&bytes), says);
    };
    // Starts of values ascend in a multimap; those of strings may be equal.
    for (kind, at, number, says) in [
        (
            11,
            (STARTS, 4),
            0,
            "byte 4228: element 1 of the section of starts is 0, expected more than 0",
        ),
        (12, (KEYS, 8), 0, "nothing"),
        (
            12,
            (KEYS, 16),
            0,
            "byte 4192: element 2 of the section of starts is 0, expected at least 1",
        ),
        (12, (KEYS, 24), 4, "byte 4200: element 3 of the section of starts is 4, expected 3"),
        (
            12,
            (STARTS, 4),
            1,
            "byte 4208: element 0 of the section of keys is 256, expected 0 behind the last string",
        ),
        (
            12,
            (VALUES, 4),
            0,
            "byte 4220: element 1 of the section of value starts is 0, expected more than 0",
        ),
        (
            12,
            (VALUES, 12),
            5,
            "byte 4228: element 3 of the section of value starts is 5, expected 4",
        ),
        (12, (SIXTH, 4), u32::MAX, "nothing"),
        (14, (STARTS, 8), 0, "nothing"),
        (
            14,
            (STARTS, 16),
            1,
            "byte 4240: element 2 of the section of value starts is 1, expected at least 2",
        ),
        (
            14,
            (STARTS, 24),
            6,
            "byte 4248: element 3 of the section of value starts is 6, expected 5",
        ),
        (
            14,
            (VALUES, 4),
            1 << 8,
            "byte 4256: element 0 of the section of values is 1, expected 0 behind the last string",
        ),
        (15, (SIXTH, 0), u32::MAX, "nothing"),
        (
            15,
            (SLOTS, 32),
            3,
            "the slots hold number 3, expected at most 2, the number of the last key",
        ),
        (15, (STASH, 8), 3, "byte 4160: pair 0 of the stash has a value that is too large"),
    ] {
        check(of_kind(kind), at, number, says);
    }
}
