//! Checks of the readers of table files.
use koel::any::{self, Kind};
use koel::file::{TableKind, Width};
use koel::groups::reduction::{Max, Reduction};
use koel::types::{Bits, KeyBits, ValueBits};
use koel::{
    Device, Index, Map, Map128, MapToStrings, MultiMap, Set, Set128, StringIndex, StringMap,
    StringMapToStrings, StringMultiMap, StringSet,
};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use twox_hash::XxHash3_64;

static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::cpu_with_threads(1).unwrap());
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("koel-fuzz-{}.koel", std::process::id())));

/// Reads the bytes as they are, and with corrected checksums. Expects an error or a table whose
/// lookups stay in bounds.
pub fn check(bytes: &[u8]) {
    all_kinds(bytes);
    let mut sealed = bytes.to_vec();
    if seal(&mut sealed).is_some() && sealed != bytes {
        all_kinds(&sealed);
    }
}
fn all_kinds(bytes: &[u8]) {
    std::fs::write(&*FILE, bytes).unwrap();
    let (info, verified) = (koel::file::info(&*FILE), koel::file::verify(&*FILE));
    assert!(info.is_ok() || verified.is_err());
    let read = [
        table::<Map<u32, u32>>(bytes),
        table::<Map<u32, u64>>(bytes),
        table::<Map<u64, u32>>(bytes),
        table::<Map<u64, u64>>(bytes),
        table::<Set<u32>>(bytes),
        table::<Set<u64>>(bytes),
        table::<Index<u32>>(bytes),
        table::<Index<u64>>(bytes),
        table::<MultiMap<u32, u32>>(bytes),
        table::<MultiMap<u32, u64>>(bytes),
        table::<MultiMap<u64, u32>>(bytes),
        table::<MultiMap<u64, u64>>(bytes),
        table::<Set128>(bytes),
        table::<Map128<u32>>(bytes),
        table::<Map128<u64>>(bytes),
        table::<Index<u128>>(bytes),
        table::<StringSet>(bytes),
        table::<StringMap<i32>>(bytes),
        table::<StringIndex>(bytes),
        table::<MultiMap<u128, u32>>(bytes),
        table::<MultiMap<u128, u64>>(bytes),
        table::<StringMultiMap<u32>>(bytes),
        table::<StringMultiMap<u64>>(bytes),
        table::<MapToStrings<u32>>(bytes),
        table::<MapToStrings<u64>>(bytes),
        table::<MapToStrings<u128>>(bytes),
        table::<StringMapToStrings>(bytes),
    ];
    let is_asked = verified.is_ok_and(|info| {
        let (key, value) = (info.meaning.key(), info.meaning.value());
        let types =
            [Some(info.types.key), info.types.value].map(|width| width.map(|w| w.to_string()));
        match info.kind {
            TableKind::StringMap => (key, value) == ("bytes", Some("i32")),
            TableKind::StringIndex => (key, value) == ("bytes", Some("u32")),
            TableKind::StringSet | TableKind::StringMapToStrings => key == "bytes",
            // Lists of 128-bit values are read as `any::Table`.
            TableKind::MultiMap | TableKind::MultiMap128 | TableKind::StringMultiMap
                if info.types.value == Some(Width::U128) =>
            {
                false
            }
            TableKind::StringMultiMap => key == "bytes" && value == types[1].as_deref(),
            TableKind::MultiMap128 => info.meaning.to_string() == info.types.to_string(),
            TableKind::MapToStrings | TableKind::Map128ToStrings => {
                Some(key) == types[0].as_deref()
            }
            _ => true,
        }
    });
    assert_eq!(read.iter().filter(|&&read| read).count(), usize::from(is_asked));
    assert!(table::<any::Table>(bytes) || !is_asked);
    // Leaves no file; it may be gone already.
    let _ = std::fs::remove_file(&*FILE);
}

/// Operations that all tables have.
trait Table: Sized {
    fn load_bytes(bytes: &[u8]) -> koel::Result<Self>;
    fn open(path: &Path) -> koel::Result<Self>;
    fn verify(&self) -> koel::Result<()>;
    fn save(&self) -> Vec<u8>;
    /// Queries keys that may occur in a file of `bytes` bytes, and the whole contents.
    fn ask(&self, words: &[u64], bytes: usize);
}
macro_rules! tables { ($([$($generics:tt)*] $table:ty [$($bound:tt)*]:
    |$self:ident, $words:ident, $bytes:ident| $ask:block)*) => { $(
    impl<$($generics)*> Table for $table
    where
        $($bound)*
    {
        fn load_bytes(bytes: &[u8]) -> koel::Result<Self> {
            Self::load_bytes(&DEVICE, bytes)
        }
        fn open(path: &Path) -> koel::Result<Self> {
            // SAFETY: the file is written before it is opened, and not again until the table is
            // dropped.
            unsafe { Self::open_on(&DEVICE, path) }
        }
        fn verify(&self) -> koel::Result<()> {
            self.verify()
        }
        fn save(&self) -> Vec<u8> {
            let mut bytes = Cursor::new(vec![]);
            self.save_to(&mut bytes).unwrap();
            bytes.into_inner()
        }
        fn ask(&$self, $words: &[u64], $bytes: usize) $ask
    }
)* } }
tables! {
    [K: KeyBits, V: ValueBits] Map<K, V> []: |self, words, bytes| {
        let keys = keys::<K>(words);
        assert_eq!(
            self.get(&keys).unwrap().iter().flatten().count() as u64,
            self.count(&keys).unwrap()
        );
        assert!(self.pairs().unwrap().len() <= bytes);
    }
    [K: KeyBits] Set<K> []: |self, words, bytes| {
        let keys = keys::<K>(words);
        let found = self.contains(&keys).unwrap();
        assert_eq!(
            found.into_iter().filter(|&found| found).count() as u64,
            self.count(&keys).unwrap()
        );
        assert!(self.keys().unwrap().len() <= bytes);
    }
    [K: Bits] Index<K> []: |self, words, bytes| {
        assert!(self.len() <= bytes);
        let asked = keys128(words).into_iter().flat_map(|key| [key, key >> 32]);
        let asked = asked.map(K::of_packed).collect::<Vec<_>>();
        let ids = self.ids(&asked).unwrap();
        assert!(ids.into_iter().flatten().all(|id| (id as usize) < self.len()));
        let found = self.keys_of(&keys::<u32>(words)).unwrap();
        assert!(
            found
                .iter()
                .zip(keys::<u32>(words))
                .all(|(key, id)| key.is_some() == ((id as usize) < self.len()))
        );
    }
    [K: Bits, V: ValueBits] MultiMap<K, V> [Max: Reduction<V>]: |self, words, bytes| {
        self.index().ask(words, bytes);
        // Only a few keys, because each may have many values.
        let few = keys128(&words[..words.len().min(16)]);
        let keys = few.into_iter().flat_map(|key| [key, key >> 32]).map(K::of_packed);
        let keys = keys.collect::<Vec<_>>();
        let (counts, found) = (self.counts(&keys).unwrap(), self.retrieve(&keys).unwrap());
        for (i, count) in counts.into_iter().enumerate() {
            assert_eq!(found.of(i).len(), count as usize);
        }
        self.reduce::<Max>().unwrap();
    }
    [V: ValueBits] StringMultiMap<V> []: |self, words, bytes| {
        self.index().ask(words, bytes);
        let keys = strings(&words[..words.len().min(16)]);
        let (counts, found) = (self.counts(&keys).unwrap(), self.retrieve(&keys).unwrap());
        for (i, count) in counts.into_iter().enumerate() {
            assert_eq!(found.of(i).len(), count as usize);
        }
    }
    [K: Bits] MapToStrings<K> []: |self, words, bytes| {
        self.index().ask(words, bytes);
        // Only a few keys, because each may have a long value.
        let few = keys128(&words[..words.len().min(8)]);
        let keys = few.into_iter().flat_map(|key| [key, key >> 32]).map(K::of_packed);
        let keys = keys.collect::<Vec<_>>();
        let (found, there) = (self.get(&keys).unwrap(), self.contains(&keys).unwrap());
        assert!(found.iter().zip(there).all(|(value, there)| value.is_some() == there));
        assert_eq!(self.values().len(), self.len());
    }
    [] StringMapToStrings []: |self, words, bytes| {
        self.index().ask(words, bytes);
        let keys = strings(&words[..words.len().min(16)]);
        let (found, there) = (self.get(&keys).unwrap(), self.contains(&keys).unwrap());
        assert!(found.iter().zip(there).all(|(value, there)| value.is_some() == there));
    }
    [] any::Table []: |self, words, bytes| {
        // Keys of any types are those of the table. A damaged file may not tell them.
        let Ok(all) = self.keys() else { return };
        let (ids, n) = (keys::<u32>(words), all[0].len());
        let all = any::Keys::new(all.iter().map(any::ColumnVec::as_column)).unwrap();
        assert!(n <= bytes && self.contains(&all).unwrap().len() == n);
        match self.kind() {
            Kind::Map => assert_eq!(self.get(&all).unwrap().len(), n),
            Kind::MultiMap => assert_eq!(self.counts(&all).unwrap().len(), n),
            Kind::Index => assert_eq!(self.keys_of(&ids).unwrap()[0].len(), ids.len()),
            Kind::Set => (),
        }
        if let Ok((keys, values)) = self.pairs() {
            assert!(keys[0].len() == values.len() && values.len() <= bytes);
        }
    }
    [] Set128 []: |self, words, bytes| {
        let keys = keys128(words);
        let found = self.contains(&keys).unwrap();
        assert_eq!(
            found.into_iter().filter(|&found| found).count() as u64,
            self.count(&keys).unwrap()
        );
        assert!(self.keys_view().len() <= bytes);
        // Kernels do not check whether such a row exists.
        let stream = DEVICE.stream().unwrap();
        if let Ok(rows) = self.rows(&stream) {
            // SAFETY: the set is in host memory, and nothing changes it here.
            let rows = unsafe { rows.on_host() };
            assert!(
                keys.iter()
                    .filter_map(|&key| rows.row(key))
                    .all(|row| (row as usize) < self.len())
            );
        }
    }
    [V: ValueBits] Map128<V> []: |self, words, bytes| {
        self.set().ask(words, bytes);
        let keys = keys128(words);
        assert_eq!(
            self.get(&keys).unwrap().iter().flatten().count() as u64,
            self.count(&keys).unwrap()
        );
        assert_eq!(self.pairs().unwrap().len(), self.len());
    }
    [] StringSet []: |self, words, bytes| {
        let keys = strings(words);
        let found = self.contains(&keys).unwrap();
        let count = found.into_iter().filter(|&found| found).count() as u64;
        assert_eq!(count, self.count(&keys).unwrap());
        assert!(self.len() <= bytes && self.keys().unwrap().iter().len() == self.len());
    }
    [] StringMap<i32> []: |self, words, bytes| {
        self.set().ask(words, bytes);
        let keys = strings(words);
        let found = self.get(&keys).unwrap();
        let there = self.contains(&keys).unwrap();
        assert!(found.iter().zip(there).all(|(value, there)| value.is_some() == there));
        assert_eq!(self.values().unwrap().len(), self.len());
    }
    [] StringIndex []: |self, words, bytes| {
        assert!(self.len() <= bytes);
        let ids = self.ids(&strings(words)).unwrap();
        assert!(ids.into_iter().flatten().all(|id| (id as usize) < self.len()));
        let found = self.keys_of(&keys::<u32>(words)).unwrap();
        assert_eq!(found.len(), 2 * words.len());
    }
}
/// Returns strings of up to eight bytes that may occur in a file.
fn strings(words: &[u64]) -> Vec<Vec<u8>> {
    let bytes = words.iter().map(|word| word.to_le_bytes());
    bytes.enumerate().map(|(i, bytes)| bytes[..i % 9].to_vec()).collect()
}
/// Returns keys as they are laid out in rows, and others.
fn keys128(words: &[u64]) -> Vec<u128> {
    words
        .windows(2)
        .flat_map(|pair| [pair[1] as u128 | (pair[0] as u128) << 64, pair[0].into()])
        .collect()
}
fn keys<K: KeyBits>(words: &[u64]) -> Vec<K> {
    words.iter().flat_map(|&word| [K::narrowed(word), K::narrowed(word >> 32)]).collect()
}

/// Returns whether the bytes can be read as this kind of table.
fn table<T: Table>(bytes: &[u8]) -> bool {
    let (loaded, opened) = (T::load_bytes(bytes), T::open(&FILE));
    if let Ok(table) = &opened {
        assert_eq!(table.verify().is_ok(), loaded.is_ok());
    }
    assert!(loaded.is_err() || opened.is_ok());
    let words =
        bytes.as_chunks::<8>().0.iter().rev().take(256).map(|&word| u64::from_le_bytes(word));
    let words = words.chain([0, u64::MAX]).collect::<Vec<_>>();
    for table in [&loaded, &opened].into_iter().flatten() {
        table.ask(&words, bytes.len());
    }
    if let Ok(table) = &loaded {
        assert!(table.save() == bytes, "saving a table that was read returns other bytes");
    }
    loaded.is_ok()
}

/// Writes the correct checksums into the bytes; returns `None` if they are too short for a header.
fn seal(bytes: &mut [u8]) -> Option<()> {
    let long = |bytes: &[u8], at: usize| {
        bytes[at..].first_chunk().map(|&word| u64::from_le_bytes(word) as usize)
    };
    bytes.get(..4096)?;
    let sections = match bytes[12] {
        3 | 5 | 7 => 3,
        4 | 9 | 11 | 13 | 14 => 5,
        6 | 8 | 10 => 4,
        12 | 15 => 6,
        _ => 2,
    };
    for at in [64, 88, 112, 136, 160, 328].into_iter().take(sections) {
        let (start, length) = (long(bytes, at)?, long(bytes, at + 8)?);
        if let Some(section) = bytes.get(start..).and_then(|rest| rest.get(..length)) {
            let checksum = XxHash3_64::oneshot(section);
            bytes[at + 16..at + 24].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    let checksum = XxHash3_64::oneshot(&bytes[..4088]);
    bytes[4088..4096].copy_from_slice(&checksum.to_le_bytes());
    Some(())
}
