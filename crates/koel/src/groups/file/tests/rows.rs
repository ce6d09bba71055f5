//! Multimaps with keys in rows saved, loaded and opened, on every device, against an oracle; and
//! the effect of hostile files.
use super::super::*;
use crate::file::testing::{bytes, kind, old_file, opened, opened_here, seal, section, taken_back};
use crate::file::{self, FileErrorKind};
use crate::types::ValueBits;
use crate::{Device, MultiMapOptions, Retrieved, StringIndex, StringMap, StringMultiMap};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::HashMap;
use std::fs;
use std::io::Cursor;

/// A multimap whose keys are made of numbers.
trait OfNumbers<V>: Filed {
    fn of(device: &Device, seed: u32, keys: &[u32], values: &[V]) -> Self;
    fn on(&self, device: &Device) -> Result<Self>;
    fn sizes(&self, keys: &[u32]) -> Vec<u32>;
    fn all(&self, keys: &[u32]) -> Retrieved<V>;
    /// Returns the position of each of these keys among those of the table.
    fn ids(&self, keys: &[u32]) -> Vec<Option<u32>>;
    fn starts(&self) -> Vec<u32>;
}
fn number(i: u32) -> u128 {
    match i {
        0 => 0,
        1 => u128::MAX,
        _ => u128::from(splitmix_at(3, i)) << 64 | u128::from(i % 2),
    }
}
fn numbers(of: &[u32]) -> Vec<u128> {
    of.iter().map(|&i| number(i)).collect()
}
fn string(i: u32) -> String {
    match i {
        0 => String::new(),
        1 => "x".repeat(300),
        _ => "\0".repeat(i as usize % 3) + &"é7".repeat(i as usize % 5) + &i.to_string(),
    }
}
fn strings(of: &[u32]) -> Vec<String> {
    of.iter().map(|&i| string(i)).collect()
}
macro_rules! of_numbers {
    ($table:ty, $keys:ident) => {
        impl<V: ValueBits> OfNumbers<V> for $table {
            fn of(device: &Device, seed: u32, keys: &[u32], values: &[V]) -> Self {
                let options = MultiMapOptions::default().with_seed(seed);
                Self::build_with(device, options, &$keys(keys), values).unwrap()
            }
            fn on(&self, device: &Device) -> Result<Self> {
                self.to_device(device)
            }
            fn sizes(&self, keys: &[u32]) -> Vec<u32> {
                self.counts(&$keys(keys)).unwrap()
            }
            fn all(&self, keys: &[u32]) -> Retrieved<V> {
                self.retrieve(&$keys(keys)).unwrap()
            }
            fn ids(&self, keys: &[u32]) -> Vec<Option<u32>> {
                self.index().ids(&$keys(keys)).unwrap()
            }
            fn starts(&self) -> Vec<u32> {
                self.starts_view().download().unwrap()
            }
        }
    };
}
of_numbers! { MultiMap<u128, V>, numbers }
of_numbers! { StringMultiMap<V>, strings }

/// Keys with copies, of `which` arrangement.
fn keys(which: usize, n: usize) -> Vec<u32> {
    let random = |i: usize| splitmix_at(7, i as u32) as usize;
    let key = |i: usize| match which {
        0 => i,
        1 => i / 3,
        2 => random(i) % (n / 2 + 1),
        _ => 0,
    };
    (0..n).map(|i| key(i) as u32).collect()
}
fn values<V: ValueBits>(n: usize) -> Vec<V> {
    (0..n as u32).map(|i| V::narrowed(splitmix_at(1, i))).collect()
}
fn check<V: ValueBits, M: OfNumbers<V>>(map: &M, keys: &[u32]) {
    let (mut oracle, mut order) = (HashMap::<u32, Vec<V>>::new(), vec![]);
    for (&key, value) in keys.iter().zip(values(keys.len())) {
        oracle.entry(key).or_insert_with(|| (order.push(key), vec![]).1).push(value);
    }
    let queries = keys.iter().copied().chain(5000..5030).collect::<Vec<_>>();
    let of = |key: &u32| oracle.get(key).map_or(&[][..], |values| values);
    let found = map.all(&queries);
    for (i, key) in queries.iter().enumerate() {
        assert_eq!(found.of(i), of(key));
    }
    assert!(map.sizes(&queries).into_iter().eq(queries.iter().map(|key| of(key).len() as u32)));
    // In order of first occurrence.
    let ids = (0..order.len() as u32).map(Some).chain([None]);
    assert!(map.ids(&[&order[..], &[5000]].concat()).into_iter().eq(ids));
    let ends = order.iter().scan(0, |end, key| {
        *end += of(key).len() as u32;
        Some(*end)
    });
    assert!(map.starts().into_iter().eq([0].into_iter().chain(ends)));
}
fn come_back<V: ValueBits, M: OfNumbers<V>>(which: usize, n: usize, executor: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(n as u64));
    let keys = keys(which, n);
    let map = M::of(if executor { &gpu } else { &host }, 5, &keys, &values::<V>(n));
    let mut maps = taken_back(&map, &path, &[&host, &gpu]);
    let info = file::info(&path).unwrap();
    let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
    assert_eq!((info.version, info.keys, info.pairs), (2, distinct, n));
    assert_eq!((info.duplicates, info.seed), (0, 5), "no pair is dropped");
    maps.extend([&gpu, &host].map(|device| maps[0].on(device).unwrap()));
    for taken in &maps {
        check(taken, &keys);
        assert_eq!(bytes(taken), bytes(&map));
    }
}
#[test]
fn multimaps_of_all_sizes_come_back() {
    for which in 0..4 {
        for n in [0, 1, 2, 31, 32, 33, if which == 2 { 1025 } else { 257 }] {
            come_back::<u32, MultiMap<u128, u32>>(which, n, false);
            come_back::<u64, MultiMap<u128, u64>>(which, n, false);
            come_back::<u32, StringMultiMap<u32>>(which, n, false);
            come_back::<u64, StringMultiMap<u64>>(which, n, false);
        }
    }
}
#[test]
fn multimaps_of_kernels_come_back() {
    for (which, n) in [(0, 0), (1, 33), (2, 100), (3, 40)] {
        come_back::<u32, MultiMap<u128, u32>>(which, n, true);
        come_back::<u64, StringMultiMap<u64>>(which, n, true);
    }
}

/// Files with nonsense starts or rows and correct checksums: lookups in an opened file stay in
/// bounds, and operations that read everything reject it.
fn nonsense_is_harmless<V: ValueBits, M: OfNumbers<V>>(starts: usize, of_starts: file::Section) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(1));
    let keys = keys(2, 200);
    let whole = bytes(&M::of(&host, 5, &keys, &values::<V>(200)));
    for seed in 0..16 {
        let mut content = whole.clone();
        let random = |i: usize| splitmix_at(seed, i as u32) as u32;
        let (of_starts_too, of_rows_too) = (seed % 3 != 0, seed % 3 != 1);
        if of_starts_too {
            let range = section(&content, starts);
            for (i, start) in content[range].as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let any = [0, random(i), random(i) % 300, 1 << 31, u32::MAX];
                *start = any[random(i + 1000) as usize % 5].to_le_bytes();
            }
        }
        if of_rows_too {
            let words = content[section(&whole, 64)].as_chunks_mut::<8>().0;
            for bucket in words.chunks_exact_mut(8) {
                for slot in (0..4).filter(|slot| bucket[*slot] != [0xFF; 8]).collect::<Vec<_>>() {
                    let any = [random(slot), u32::MAX, 150, 199][random(slot + 7) as usize % 4];
                    bucket[slot + 4][..4].copy_from_slice(&any.to_le_bytes());
                }
            }
        }
        seal(&mut content);
        fs::write(&path, &content).unwrap();
        let map = opened::<M>(&host, &path).unwrap();
        let found = map.all(&keys);
        for (i, size) in map.sizes(&keys).into_iter().enumerate() {
            assert_eq!(found.of(i).len(), size as usize);
        }
        let is_right = |kind: FileErrorKind| match kind {
            FileErrorKind::Element { section, .. } => section == of_starts && of_starts_too,
            FileErrorKind::Number { .. } => of_rows_too,
            _ => false,
        };
        assert!(is_right(kind(file::filed::verify(&map))));
        assert!(is_right(kind(file::filed::save_to(&map, &mut Cursor::new(vec![])))));
        assert!(is_right(kind(file::verify(&path))));
        for device in [&host, &gpu] {
            assert!(is_right(kind(map.on(device))));
            assert!(is_right(kind(file::filed::load::<M>(device, &path))));
        }
    }
}
#[test]
fn nonsense_in_opened_multimaps_is_harmless() {
    nonsense_is_harmless::<u32, MultiMap<u128, u32>>(136, Section::Starts);
    nonsense_is_harmless::<u64, StringMultiMap<u64>>(160, Section::ValueStarts);
}
#[test]
fn damaged_multimaps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let device = Device::cpu().unwrap();
    let keys = keys(2, 500);
    let whole = bytes(&StringMultiMap::<u32>::of(&device, 5, &keys, &values(500)));
    for (at, section_name) in [
        (112, Section::Starts),
        (136, Section::Keys),
        (160, Section::ValueStarts),
        (328, Section::Values),
    ] {
        let mut damaged = whole.clone();
        damaged[section(&whole, at).start + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let opened = opened::<StringMultiMap<u32>>(&device, &path).unwrap();
        opened.all(&keys);
        for kind in [kind(opened.verify()), kind(opened.on(&device))] {
            let is_right =
                matches!(kind, FileErrorKind::Checksum { section, .. } if section == section_name);
            assert!(is_right, "{kind}");
        }
    }
    for kind in [
        kind(opened_here::<StringIndex>(&path)),
        kind(opened_here::<StringMap<u32>>(&path)),
        kind(opened_here::<MultiMap<u128, u32>>(&path)),
    ] {
        let found = TableKind::StringMultiMap;
        assert!(matches!(kind, FileErrorKind::Kind { found: is, .. } if is == found), "{kind}");
    }
    let found = kind(opened_here::<StringMultiMap<f32>>(&path)).to_string();
    assert_eq!(found, "holds pairs bytes -> u32, expected bytes -> f32");
    // The meaning of wide keys is kept.
    MultiMap::build(&device, &[(1u64, 'a')], &[2i16]).unwrap().save(&path).unwrap();
    assert_eq!(file::info(&path).unwrap().meaning.to_string(), "(u64, char) -> i16");
    assert!(matches!(
        kind(opened_here::<MultiMap<(u64, u32), i16>>(&path)),
        FileErrorKind::WrongTypes { .. }
    ));
    let map = MultiMap::<(u64, char), i16>::load(&device, &path).unwrap();
    assert_eq!(map.retrieve(&[(1, 'a')]).unwrap().of(0), [2]);
}

/// Files written when these kinds were new, kept in `fuzz/seeds`: they stay readable.
#[test]
fn files_of_these_kinds_stay_readable() {
    let device = Device::cpu_with_threads(1).unwrap();
    let keys = keys(2, 40);
    let path = old_file("multimap128_u32.koel");
    check(&MultiMap::<u128, u32>::load(&device, &path).unwrap(), &keys);
    check(&opened::<MultiMap<u128, u32>>(&device, &path).unwrap(), &keys);
    let path = old_file("string_multimap_u64.koel");
    check(&StringMultiMap::<u64>::load(&device, &path).unwrap(), &keys);
    check(&opened::<StringMultiMap<u64>>(&device, &path).unwrap(), &keys);
}
