//! Maps to strings: an index of the keys, and a string for each id.
use super::column::{StringVec, Strings, shown};
use super::index::StringIndex;
use crate::device::{Apart, Device};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, check_length, count32};
use crate::fallible::{collect, repeat};
use crate::file::filed::{Filed, FiledIndex};
use crate::file::reader::Mapping;
use crate::groups::{Index, IndexOptions, NO_ID};
use crate::map::MapOptions;
use crate::set::SetOptions;
use crate::table::update::Outcome;
use crate::types::Key;
use std::fmt;

/// A map whose values are strings, or anything else of any number of bytes: [`MapToStrings`] has
/// keys of up to 16 bytes, [`StringMapToStrings`] has strings.
///
/// ```
/// use koel::Outcome::*;
/// use koel::{Device, MapToStrings, StringMapToStrings};
///
/// let device = Device::cpu()?;
/// let mut cities = MapToStrings::build(&device, &[7, 3, 7], &["Ulm", "", "Bern"])?;
/// assert_eq!(cities.get(&[7, 3, 4])?, [Some(b"Bern".to_vec()), Some(vec![]), None]);
/// assert_eq!(cities.insert(&[3, 4], &["Rome", "Oslo"])?, [Kept, Inserted]);
/// assert_eq!(cities.values().download()?, ["Bern", "", "Oslo"]);
///
/// let capitals = StringMapToStrings::build(&device, &["Norway"], &["Oslo"])?;
/// assert_eq!(capitals.get(&["Norway"])?, [Some(b"Oslo".to_vec())]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # How it works
/// An [`Index`] or a [`StringIndex`] numbers the keys in order of first occurrence, and a column
/// has the value of each id: answers and their order are the same on every device and in every run.
/// A lookup is one in the index; then the values of the ids are copied.
///
/// # Cost
/// Memory: that of the index, the bytes of the values, and 8 bytes per key. A batch of changes
/// builds the table anew, with default options and through host memory: collect changes, and make
/// them together.
pub struct ToStrings<I> {
    pub(super) index: I,
    /// Of each id.
    pub(super) values: Strings,
    pub(super) duplicates: usize,
}
/// A map from keys of [any type](crate::types) of up to 16 bytes to strings: see [`ToStrings`].
pub type MapToStrings<K = u32> = ToStrings<Index<K>>;
/// A map from strings to strings: see [`ToStrings`].
pub type StringMapToStrings = ToStrings<StringIndex>;

/// What a [`ToStrings`] asks of the index of its keys.
#[allow(private_bounds, reason = "other crates cannot name the trait")]
pub trait KeyIndex: FiledIndex {
    fn len(&self) -> usize;
    fn device(&self) -> &Device;
    fn bytes(&self) -> usize;
    fn to_device(&self, device: &Device) -> Result<Self>;
}
/// An index of keys that are given as `Q`.
pub trait IndexOf<Q>: KeyIndex {
    /// Builds the index of a column, and returns the id of each key.
    fn encode(device: &Device, options: IndexOptions, keys: &[Q]) -> Result<(Self, Vec<u32>)>;
    /// Does the same for the keys of these ids, which exist, and further keys.
    fn extended(&self, ids: &[u32], keys: &[Q]) -> Result<(Self, Vec<u32>)>;
    fn ids(&self, keys: &[Q]) -> Result<Vec<Option<u32>>>;
    /// Returns the error of a key that occurs at two places.
    fn duplicate(key: &Q, places: [usize; 2]) -> Error;
}
macro_rules! key_index { ([$($generics:tt)*] $index:ty) => {
    #[allow(private_interfaces, reason = "other crates cannot name the trait")]
    impl<$($generics)*> KeyIndex for $index {
        fn len(&self) -> usize {
            self.len()
        }
        fn device(&self) -> &Device {
            self.device()
        }
        fn bytes(&self) -> usize {
            self.bytes()
        }
        fn to_device(&self, device: &Device) -> Result<Self> {
            self.to_device(device)
        }
    }
} }
key_index! { [K: Key] Index<K> }
key_index! { [] StringIndex }
impl<K: Key> IndexOf<K> for Index<K> {
    fn encode(device: &Device, options: IndexOptions, keys: &[K]) -> Result<(Self, Vec<u32>)> {
        Index::encode_with(device, options, keys)
    }
    fn extended(&self, ids: &[u32], keys: &[K]) -> Result<(Self, Vec<u32>)> {
        let own = self.keys()?;
        let all = ids.iter().map(|&id| own[id as usize]).chain(keys.iter().copied());
        Index::encode_with(self.device(), IndexOptions::default(), &collect(all)?)
    }
    fn ids(&self, keys: &[K]) -> Result<Vec<Option<u32>>> {
        self.ids(keys)
    }
    fn duplicate(key: &K, [first, second]: [usize; 2]) -> Error {
        Error::DuplicateKey { key: key.canonical().pack(), first, second }
    }
}
impl<S: AsRef<[u8]> + Sync> IndexOf<S> for StringIndex {
    fn encode(device: &Device, options: IndexOptions, keys: &[S]) -> Result<(Self, Vec<u32>)> {
        StringIndex::encode_with(device, options, keys)
    }
    fn extended(&self, ids: &[u32], keys: &[S]) -> Result<(Self, Vec<u32>)> {
        let own = self.keys()?;
        let own = ids.iter().map(|&id| own.get(id as usize).unwrap_or(&[]));
        let all = collect(own.chain(keys.iter().map(AsRef::as_ref)))?;
        StringIndex::encode_with(self.device(), IndexOptions::default(), &all)
    }
    fn ids(&self, keys: &[S]) -> Result<Vec<Option<u32>>> {
        self.ids(keys)
    }
    fn duplicate(key: &S, [first, second]: [usize; 2]) -> Error {
        Error::DuplicateString { key: shown(key.as_ref()), first, second }
    }
}

/// No row of this id so far.
const NONE: u32 = u32::MAX;
/// Returns the first row of each of `distinct` ids, or the last one. Errors: out of memory.
#[inline]
fn rows_of(ids: &[u32], distinct: usize, is_last: bool) -> Result<Vec<u32>> {
    let mut rows = repeat(NONE, distinct)?;
    for (row, &id) in (0..).zip(ids) {
        let of_id = &mut rows[id as usize];
        if is_last || *of_id == NONE {
            *of_id = row;
        }
    }
    Ok(rows)
}

impl<I: KeyIndex> ToStrings<I> {
    /// Builds a map from pairs `keys[i]`, `values[i]` in host memory, with default options: load
    /// 0.8, the last of equal keys stays. Copies and waits.
    ///
    /// Errors: mismatched lengths, more pairs than 31-bit indices can address, more than 2^35 - 8
    /// bytes of keys or of values, out of memory.
    pub fn build<Q, V: AsRef<[u8]> + Sync>(
        device: &Device,
        keys: &[Q],
        values: &[V],
    ) -> Result<ToStrings<I>>
    where
        I: IndexOf<Q>,
    {
        ToStrings::build_with(device, MapOptions::default(), keys, values)
    }
    /// Builds a map like [`build`](Self::build), with other options.
    ///
    /// Errors: also a load outside 0.3 to 0.95, a reproducible map, and a rejected duplicate.
    pub fn build_with<Q, V: AsRef<[u8]> + Sync>(
        device: &Device,
        options: MapOptions,
        keys: &[Q],
        values: &[V],
    ) -> Result<ToStrings<I>>
    where
        I: IndexOf<Q>,
    {
        let _apart = Apart::begin();
        count32("keys", keys.len())?;
        check_length("values", values.len(), "keys", keys.len())?;
        let SetOptions { load, seed } = options.of_rows()?;
        let of_index = IndexOptions::default().with_load(load).with_seed(seed);
        let (index, ids) = I::encode(device, of_index, keys)?;
        let distinct = KeyIndex::len(&index);
        let dropped = keys.len() - distinct;
        if options.duplicates == Duplicates::Reject && dropped > 0 {
            let firsts = rows_of(&ids, distinct, false)?;
            let mut rows = (0..).zip(&ids).map(|(row, &id)| [firsts[id as usize] as usize, row]);
            let places = rows.find(|[first, row]| first != row).unwrap_or_default();
            return Err(I::duplicate(&keys[places[1]], places));
        }
        let rows = rows_of(&ids, distinct, options.duplicates == Duplicates::KeepLast)?;
        let value = |id: usize| values[rows[id] as usize].as_ref();
        Ok(ToStrings { values: Strings::of(device, distinct, value)?, index, duplicates: dropped })
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        KeyIndex::len(&self.index)
    }
    /// Returns whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the number of pairs that the build dropped because of equal keys.
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }
    /// Returns the keys. The id of a key is the position of its value.
    pub fn index(&self) -> &I {
        &self.index
    }
    /// Returns the values, in the order of the ids: that of first occurrence.
    pub fn values(&self) -> &Strings {
        &self.values
    }
    /// Returns the device that holds the map.
    pub fn device(&self) -> &Device {
        KeyIndex::device(&self.index)
    }
    /// Returns the bytes of device memory that the map occupies.
    pub fn bytes(&self) -> usize {
        KeyIndex::bytes(&self.index) + self.values.bytes()
    }
    /// Copies the map to another device, or to the same one: the same answers. Copies through host
    /// memory and waits. An [opened](Self::open) map is verified first, then copied from where it
    /// is.
    ///
    /// Errors: out of memory; for an opened map, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<ToStrings<I>> {
        let _apart = Apart::begin();
        let (index, values) = (self.index.to_device(device)?, self.values.to_device(device)?);
        Ok(ToStrings { index, values, duplicates: self.duplicates })
    }
    /// Looks up keys in host memory. Copies both ways and waits.
    ///
    /// Errors: more keys or bytes than a column holds, out of memory.
    pub fn get<Q>(&self, keys: &[Q]) -> Result<Vec<Option<Vec<u8>>>>
    where
        I: IndexOf<Q>,
    {
        self.values.options(&self.ids(keys)?)
    }
    /// Returns whether the map holds each key in host memory. Copies both ways and waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn contains<Q>(&self, keys: &[Q]) -> Result<Vec<bool>>
    where
        I: IndexOf<Q>,
    {
        Ok(collect(IndexOf::ids(&self.index, keys)?.into_iter().map(|id| id.is_some()))?)
    }
    /// Returns the id of each key, or [`NO_ID`].
    pub(crate) fn ids<Q>(&self, keys: &[Q]) -> Result<Vec<u32>>
    where
        I: IndexOf<Q>,
    {
        let ids = IndexOf::ids(&self.index, keys)?.into_iter();
        Ok(collect(ids.map(|id| id.unwrap_or(NO_ID)))?)
    }
    /// Returns the values of ids; empty ones for [`NO_ID`].
    pub(crate) fn values_of(&self, ids: &[u32]) -> Result<StringVec> {
        self.values.rows(ids)
    }
    /// Inserts the pairs in host memory whose keys are missing: `outcomes[i]` is
    /// [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Of equal new keys the first is
    /// inserted. Builds the table anew, and waits.
    ///
    /// Errors: as [`build`](Self::build); then the map is as before. For an [opened](Self::open)
    /// map, also faults of its file.
    pub fn insert<Q, V: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[Q],
        values: &[V],
    ) -> Result<Vec<Outcome>>
    where
        I: IndexOf<Q>,
    {
        self.extend(keys, values, false)
    }
    /// Sets the value of each key in host memory, and inserts missing keys: the outcome is
    /// [`Inserted`](Outcome::Inserted) or [`Assigned`](Outcome::Assigned). Of equal keys the last
    /// value stays. Otherwise like [`insert`](Self::insert).
    pub fn insert_or_assign<Q, V: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[Q],
        values: &[V],
    ) -> Result<Vec<Outcome>>
    where
        I: IndexOf<Q>,
    {
        self.extend(keys, values, true)
    }
    fn extend<Q, V: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[Q],
        values: &[V],
        assigns: bool,
    ) -> Result<Vec<Outcome>>
    where
        I: IndexOf<Q>,
    {
        let _apart = Apart::begin();
        check_length("values", values.len(), "keys", keys.len())?;
        let (own, old) = self.own_ids()?;
        let (index, ids) = self.index.extended(&own, keys)?;
        let distinct = KeyIndex::len(&index);
        let (firsts, rows) = (rows_of(&ids, distinct, false)?, rows_of(&ids, distinct, assigns)?);
        let value = |id: usize| match (rows[id] as usize).checked_sub(own.len()) {
            Some(row) => values[row].as_ref(),
            None => old.get(rows[id] as usize).unwrap_or(&[]),
        };
        let column = Strings::of(self.device(), distinct, value)?;
        let present = if assigns { Outcome::Assigned } else { Outcome::Kept };
        let outcome = |(row, &id): (usize, &u32)| match firsts[id as usize] as usize == row {
            true => Outcome::Inserted,
            false => present,
        };
        let outcomes = collect((own.len()..).zip(&ids[own.len()..]).map(outcome))?;
        (self.index, self.values) = (index, column);
        Ok(outcomes)
    }
    /// Removes each key in host memory: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). The other pairs stay in their order. Otherwise like
    /// [`insert`](Self::insert).
    pub fn erase<Q>(&mut self, keys: &[Q]) -> Result<Vec<Outcome>>
    where
        I: IndexOf<Q>,
    {
        let _apart = Apart::begin();
        let (own, old) = self.own_ids()?;
        let mut stays = repeat(true, own.len())?;
        let ids = self.ids(keys)?;
        let outcomes = collect(ids.iter().map(|&id| {
            match stays.get_mut(id as usize).is_some_and(std::mem::take) {
                true => Outcome::Erased,
                false => Outcome::Missing,
            }
        }))?;
        let kept = collect(own.into_iter().filter(|&id| stays[id as usize]))?;
        let (index, _) = self.index.extended(&kept, &[])?;
        let value = |i: usize| old.get(kept[i] as usize).unwrap_or(&[]);
        (self.values, self.index) = (Strings::of(self.device(), kept.len(), value)?, index);
        Ok(outcomes)
    }
    /// Returns all ids, and their values. Checks an opened file first.
    fn own_ids(&self) -> Result<(Vec<u32>, StringVec)> {
        self.file().map_or(Ok(()), Mapping::verify_once)?;
        Ok((collect(0..self.len() as u32)?, self.values.download()?))
    }
}
impl<I: KeyIndex> fmt::Debug for ToStrings<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToStrings[{} pairs] on {}", self.len(), self.device().name())
    }
}
