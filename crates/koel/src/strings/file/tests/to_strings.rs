//! Maps to strings saved, loaded and opened, likewise.
use super::*;
use crate::strings::to_strings::IndexOf;
use crate::{Index, MapOptions, MapToStrings, StringMapToStrings, ToStrings};

/// Texts of the values of keys, some of them empty.
fn texts(n: usize) -> Vec<String> {
    (0..n as u32).map(|i| string(5, i).repeat(i as usize % 3)).collect()
}
fn numbers_of(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| splitmix_at(9, i / 3 * 3 + i % 2) as u32).collect()
}
fn wide_of(n: usize) -> Vec<u128> {
    numbers_of(n).into_iter().map(|number| u128::from(number) << 96 | 1).collect()
}
fn built<I: IndexOf<Q>, Q>(device: &Device, keys: &[Q]) -> ToStrings<I> {
    let options = MapOptions::default().with_seed(5);
    ToStrings::build_with(device, options, keys, &texts(keys.len())).unwrap()
}
fn check<I: IndexOf<Q>, Q: Clone + Eq + std::hash::Hash>(map: &ToStrings<I>, keys: &[Q], other: Q) {
    let oracle = keys.iter().zip(texts(keys.len())).collect::<HashMap<_, _>>();
    let queries = keys.iter().cloned().chain([other]).collect::<Vec<_>>();
    let found = map.get(&queries).unwrap();
    for (key, found) in queries.iter().zip(found) {
        assert_eq!(found, oracle.get(key).map(|text| text.as_bytes().to_vec()), "{map:?}");
    }
    assert_eq!((map.len(), map.values().len()), (oracle.len(), oracle.len()));
    assert_eq!(map.duplicates(), keys.len() - oracle.len());
}
fn come_back<I: IndexOf<Q>, Q: Clone + Eq + std::hash::Hash>(
    keys: &[Q],
    other: &Q,
    executor: bool,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(keys.len() as u64));
    let map = built::<I, Q>(if executor { &gpu } else { &host }, keys);
    let mut maps = taken_back(&map, &path, &[&host, &gpu]);
    let info = file::info(&path).unwrap();
    assert_eq!((info.version, info.pairs, info.duplicates), (2, map.len(), map.duplicates()));
    assert_eq!((info.meaning.value(), info.seed), (Some("bytes"), 5));
    maps.extend([&gpu, &host].map(|device| maps[0].to_device(device).unwrap()));
    for taken in &maps {
        check(taken, keys, other.clone());
        assert_eq!(bytes(taken), bytes(&map), "{taken:?}");
    }
    // The file is not written to.
    let before = fs::read(&path).unwrap();
    let opened = &mut maps[0];
    opened.insert_or_assign(std::slice::from_ref(other), &["new"]).unwrap();
    assert_eq!(opened.get(std::slice::from_ref(other)).unwrap(), [Some(b"new".to_vec())]);
    assert_eq!((opened.len(), fs::read(&path).unwrap()), (map.len() + 1, before));
    assert_eq!(opened.values().download().unwrap().iter().last(), Some(&b"new"[..]));
}
fn all_come_back(n: usize, executor: bool) {
    come_back::<Index<u32>, _>(&numbers_of(n), &7, executor);
    come_back::<Index<i64>, _>(
        &numbers_of(n).into_iter().map(|i| i64::from(i) - (1 << 40)).collect::<Vec<_>>(),
        &7,
        executor,
    );
    come_back::<Index<u128>, _>(&wide_of(n), &7, executor);
    come_back::<StringIndex, _>(&strings(n), &"other".to_owned(), executor);
}
#[test]
fn maps_to_strings_come_back() {
    for n in [0, 1, 2, 31, 32, 33, 1025] {
        all_come_back(n, false);
    }
    for n in [0, 5, 60] {
        all_come_back(n, true);
    }
}
/// Files with nonsense starts and correct checksums: lookups in an opened file stay in bounds, and
/// operations that read everything reject it.
#[test]
fn nonsense_in_maps_to_strings_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(1));
    let keys = numbers_of(60);
    let whole = bytes(&built::<Index<u32>, _>(&host, &keys));
    for some in [u64::MAX, 1 << 40, 100_000u64] {
        let mut content = whole.clone();
        content[section(&whole, FOURTH)][8..16].copy_from_slice(&some.to_le_bytes());
        seal(&mut content);
        fs::write(&path, &content).unwrap();
        let mut map = opened::<MapToStrings<u32>>(&host, &path).unwrap();
        assert_eq!(map.get(&keys).unwrap().len(), 60);
        let is_right = |kind: FileErrorKind| {
            matches!(kind, FileErrorKind::Element { section: Section::ValueStarts, .. })
        };
        assert!(is_right(kind(map.verify())));
        assert!(is_right(kind(map.erase(&keys))));
        assert!(is_right(kind(map.insert(&[7], &["new"]))));
        assert!(is_right(kind(map.save_to(&mut Cursor::new(vec![])))));
        assert!(is_right(kind(file::verify(&path))));
        for device in [&host, &gpu] {
            assert!(is_right(kind(map.to_device(device))));
            assert!(is_right(kind(MapToStrings::<u32>::load(device, &path))));
        }
    }
    // Bytes behind the last value.
    let mut content = whole.clone();
    let end = section(&whole, FIFTH).end;
    assert_eq!(content[end - 1], 0, "there is room behind it");
    content[end - 1] = 1;
    seal(&mut content);
    let found = kind(MapToStrings::<u32>::load_bytes(&host, &content));
    assert!(matches!(found, FileErrorKind::Element { section: Section::Values, .. }), "{found}");
    assert!(matches!(kind(opened_here::<StringMapToStrings>(&path)), FileErrorKind::Kind { .. }));
    let found = kind(opened_here::<MapToStrings<i32>>(&path)).to_string();
    assert_eq!(found, "holds pairs u32 -> bytes, expected i32 -> bytes");
}
/// Files written when these kinds were new, kept in `fuzz/seeds`: they stay readable.
#[test]
fn maps_to_strings_stay_readable() {
    let device = Device::cpu_with_threads(1).unwrap();
    let path = old_file("to_strings_u32.koel");
    check(&MapToStrings::<u32>::load(&device, &path).unwrap(), &numbers_of(40), 7);
    check(&opened::<MapToStrings<u32>>(&device, &path).unwrap(), &numbers_of(40), 7);
    let path = old_file("to_strings_u128.koel");
    check(&MapToStrings::<u128>::load(&device, &path).unwrap(), &wide_of(40), 7);
    check(&opened::<MapToStrings<u128>>(&device, &path).unwrap(), &wide_of(40), 7);
    let path = old_file("string_to_strings.koel");
    check(&StringMapToStrings::load(&device, &path).unwrap(), &strings(40), "other".to_owned());
    let map = opened::<StringMapToStrings>(&device, &path).unwrap();
    check(&map, &strings(40), "other".to_owned());
}
