//! Tables of bits and of strings behind one interface: see [`Erased`].
use super::options::{Kind, TableOptions, TableReport};
use crate::any::column::{ColumnVec, made};
use crate::any::data_type::{DataVec, Typed};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallible::{collect, repeat, resize};
use crate::file::Width;
use crate::file::filed::Filed;
use crate::file::reader::Mapping;
use crate::file::writer::{Sink, Writer};
use crate::groups::{Index, IndexBuilder, MultiMap, NO_ID, Retrieved};
use crate::map::{Map, Operation};
use crate::set::Set;
use crate::strings::{
    MapToStrings, StringIndex, StringMap, StringMapToStrings, StringMultiMap, StringSet, StringVec,
    Strings,
};
use crate::table::update::{Operations, Outcome};
use crate::types::KeyBits;
use crate::verbs::row_keys::RowKeys;

/// A table whose type only the running program knows: of unsigned numbers, or of strings. Keys and
/// values are given as bits of the table's widths, and returned as columns of these.
pub(super) trait Erased: Saved + Send + Sync {
    fn kind(&self) -> Kind;
    fn device(&self) -> &Device;
    fn report(&self) -> Result<TableReport>;
    fn to_device(&self, device: &Device) -> Result<Box<dyn Erased>>;
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>>;
    /// Returns the distinct keys.
    fn keys(&self) -> Result<ColumnVec>;

    /// Returns the values of keys; null for those that are missing.
    fn get(&self, _keys: &RowKeys<'_>) -> Result<ColumnVec> {
        refused(self.kind(), "a map")
    }
    fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
        refused(self.kind(), "a map or a multimap")
    }
    /// Returns the ids of keys, or [`NO_ID`].
    fn ids(&self, _keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        refused(self.kind(), "an index")
    }
    /// Returns the keys of ids; null for those that are missing.
    fn keys_of(&self, _ids: &[u32]) -> Result<ColumnVec> {
        refused(self.kind(), "an index")
    }
    fn counts(&self, _keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        refused(self.kind(), "a multimap")
    }
    /// Returns the end of each key's values, and the values.
    fn retrieve(&self, _keys: &RowKeys<'_>) -> Result<(Vec<u64>, ColumnVec)> {
        refused(self.kind(), "a multimap")
    }
    /// Inserts, assigns or erases keys. Values are those of a map, unless it erases.
    fn update(
        &mut self,
        _operation: Operation,
        _keys: &RowKeys<'_>,
        _values: Option<&RowKeys<'_>>,
    ) -> Result<Vec<Outcome>> {
        refused(self.kind(), "a map or a set")
    }
}
/// What a kind of tables does not have.
pub(super) fn refused<T>(found: Kind, expected: &str) -> Result<T> {
    let (found, expected) = (found.to_string(), expected.into());
    Err(Error::Setting { field: "table", found, expected })
}
/// A table that a file is written of.
pub(super) trait Saved {
    fn write_to(&self, writer: Writer<'_, &mut dyn Sink>) -> Result<()>;
    fn mapping(&self) -> Option<&Mapping>;
}
impl<T: Filed> Saved for T {
    fn write_to(&self, writer: Writer<'_, &mut dyn Sink>) -> Result<()> {
        self.write(writer)
    }
    fn mapping(&self) -> Option<&Mapping> {
        self.file()
    }
}
/// A type of tables that are built of columns and read from files.
pub(super) trait Built: Erased + Filed + 'static {
    /// Builds a table. There are values if the kind has them.
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Self>;
}
/// What is done with the type of a table.
pub(super) trait Visit {
    type Out;
    fn visit<T: Built>(self) -> Result<Self::Out>;
}
/// Bits of keys and values in columns.
trait Bits: crate::types::Bits + Typed {}
impl<B: crate::types::Bits + Typed> Bits for B {}

/// Finds the type of a table. The widths of its keys and values are `None` for strings; that of
/// values is not used if there are none.
///
/// Errors: a multimap of strings as values.
pub(super) fn visit<F: Visit>(
    kind: Kind,
    (key, value): (Option<Width>, Option<Width>),
    to: F,
) -> Result<F::Out> {
    let Some(value) = value else { return visit_to_strings(kind, key, to) };
    match (kind, key) {
        (Kind::Map, Some(Width::U32)) => visit_map::<u32, F>(value, to),
        (Kind::Map, Some(Width::U64)) => visit_map::<u64, F>(value, to),
        (Kind::Map, Some(Width::U128)) => visit_map::<u128, F>(value, to),
        (Kind::Map, None) => match value {
            Width::U32 => to.visit::<StringMap<u32>>(),
            Width::U64 => to.visit::<StringMap<u64>>(),
            Width::U128 => to.visit::<StringMap<u128>>(),
        },
        (Kind::Set, Some(Width::U32)) => to.visit::<Set<u32>>(),
        (Kind::Set, Some(Width::U64)) => to.visit::<Set<u64>>(),
        (Kind::Set, Some(Width::U128)) => to.visit::<Set<u128>>(),
        (Kind::Set, None) => to.visit::<StringSet>(),
        (Kind::Index, Some(Width::U32)) => to.visit::<Index<u32>>(),
        (Kind::Index, Some(Width::U64)) => to.visit::<Index<u64>>(),
        (Kind::Index, Some(Width::U128)) => to.visit::<Index<u128>>(),
        (Kind::Index, None) => to.visit::<StringIndex>(),
        (Kind::MultiMap, Some(Width::U32)) => visit_multi_map::<u32, F>(value, to),
        (Kind::MultiMap, Some(Width::U64)) => visit_multi_map::<u64, F>(value, to),
        (Kind::MultiMap, Some(Width::U128)) => visit_multi_map::<u128, F>(value, to),
        (Kind::MultiMap, None) => match value {
            Width::U32 => to.visit::<StringMultiMap<u32>>(),
            Width::U64 => to.visit::<StringMultiMap<u64>>(),
            Width::U128 => to.visit::<StringMultiMap<u128>>(),
        },
    }
}
fn visit_to_strings<F: Visit>(kind: Kind, key: Option<Width>, to: F) -> Result<F::Out> {
    match key {
        _ if kind != Kind::Map => Err(Error::Setting {
            field: "type of the values",
            found: "bytes".into(),
            expected: "numbers in a multimap, such as those of rows in a column of strings".into(),
        }),
        Some(Width::U32) => to.visit::<MapToStrings<u32>>(),
        Some(Width::U64) => to.visit::<MapToStrings<u64>>(),
        Some(Width::U128) => to.visit::<MapToStrings<u128>>(),
        None => to.visit::<StringMapToStrings>(),
    }
}
fn visit_map<K: Bits, F: Visit>(value: Width, to: F) -> Result<F::Out> {
    match value {
        Width::U32 => to.visit::<Map<K, u32>>(),
        Width::U64 => to.visit::<Map<K, u64>>(),
        Width::U128 => to.visit::<Map<K, u128>>(),
    }
}
fn visit_multi_map<K: Bits, F: Visit>(value: Width, to: F) -> Result<F::Out>
where
    Index<K>: Reported,
{
    match value {
        Width::U32 => to.visit::<MultiMap<K, u32>>(),
        Width::U64 => to.visit::<MultiMap<K, u64>>(),
        Width::U128 => to.visit::<MultiMap<K, u128>>(),
    }
}

/// Returns answers as a column.
fn column<T: Typed>(device: &Device, answers: &[Option<T>]) -> Result<ColumnVec> {
    let valid = made(device, answers.len(), |i| answers[i].is_some())?;
    let values = made(device, answers.len(), |i| answers[i].unwrap_or_default())?;
    Ok(ColumnVec::new(T::wrap_vec(values).0, Some(valid)))
}
/// Returns pairs as two columns.
fn columns<K: Typed, V: Typed>(
    device: &Device,
    pairs: &[(K, V)],
) -> Result<(ColumnVec, ColumnVec)> {
    let keys = made(device, pairs.len(), |i| pairs[i].0)?;
    let values = made(device, pairs.len(), |i| pairs[i].1)?;
    Ok((keys.into(), values.into()))
}
fn ids(ids: Vec<Option<u32>>) -> Result<Vec<u32>> {
    Ok(collect(ids.into_iter().map(|id| id.unwrap_or(NO_ID)))?)
}
fn has_id(ids: Vec<Option<u32>>) -> Result<Vec<bool>> {
    Ok(collect(ids.into_iter().map(|id| id.is_some()))?)
}

/// Methods that all tables of a kind have.
macro_rules! methods {
    ($kind:expr) => {
        fn kind(&self) -> Kind {
            $kind
        }
        fn device(&self) -> &Device {
            self.device()
        }
        fn to_device(&self, device: &Device) -> Result<Box<dyn Erased>> {
            Ok(Box::new(self.to_device(device)?))
        }
    };
}

impl<K: Bits, V: Bits> Built for Map<K, V> {
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        let values = values.map_or(&[][..], RowKeys::bits);
        Map::build_with(device, options.of_map(), keys.bits(), values)
    }
}
impl<K: Bits, V: Bits> Erased for Map<K, V> {
    methods! { Kind::Map }
    fn report(&self) -> Result<TableReport> {
        Ok(self.report()?.into())
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        self.contains(keys.bits())
    }
    fn keys(&self) -> Result<ColumnVec> {
        let pairs = self.pairs()?;
        Ok(made(self.device(), pairs.len(), |i| pairs[i].0)?.into())
    }
    fn get(&self, keys: &RowKeys<'_>) -> Result<ColumnVec> {
        column(self.device(), &self.get(keys.bits())?)
    }
    fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
        columns(self.device(), &self.pairs()?)
    }
    fn update(
        &mut self,
        operation: Operation,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Vec<Outcome>> {
        self.update_all(operation, keys.bits(), values.map_or(&[], RowKeys::bits))
    }
}

impl<K: Bits> Built for Set<K> {
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        _: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        Set::build_with(device, options.of_set(), keys.bits())
    }
}
impl<K: Bits> Erased for Set<K> {
    methods! { Kind::Set }
    fn report(&self) -> Result<TableReport> {
        Ok(self.report()?.into())
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        self.contains(keys.bits())
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.keys()?.into())
    }
    fn update(
        &mut self,
        operation: Operation,
        keys: &RowKeys<'_>,
        _: Option<&RowKeys<'_>>,
    ) -> Result<Vec<Outcome>> {
        match operation {
            Operation::Erase => self.erase(keys.bits()),
            _ => self.insert(keys.bits()),
        }
    }
}

impl<K: Bits> Built for Index<K>
where
    Index<K>: Erased,
{
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        _: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        let (staged, stream) = (device.stage(keys.bits::<K>())?, device.stream()?);
        IndexBuilder::new(device, options.of_index())?.build(&stream, staged.view())
    }
}
impl<K: Bits> Erased for Index<K>
where
    Index<K>: Reported,
{
    methods! { Kind::Index }
    fn report(&self) -> Result<TableReport> {
        Reported::report(self)
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        has_id(self.ids(keys.bits())?)
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.keys()?.into())
    }
    fn ids(&self, keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        ids(self.ids(keys.bits())?)
    }
    fn keys_of(&self, ids: &[u32]) -> Result<ColumnVec> {
        column(self.device(), &self.keys_of(ids)?)
    }
}
/// What an index reports, which keeps it elsewhere if its keys are in rows.
trait Reported: Send + Sync {
    fn report(&self) -> Result<TableReport>;
}
impl<K: KeyBits> Reported for Index<K> {
    fn report(&self) -> Result<TableReport> {
        Ok(TableReport { bytes: self.bytes(), ..self.map().report()?.into() })
    }
}
impl Reported for Index<u128> {
    fn report(&self) -> Result<TableReport> {
        Ok(TableReport { duplicates: 0, ..self.report()?.into() })
    }
}
impl Reported for StringIndex {
    fn report(&self) -> Result<TableReport> {
        Ok(TableReport { duplicates: 0, ..self.report()?.into() })
    }
}

/// Returns the id of the key of each value, from the starts of the values of all ids.
fn ids_of_values(starts: &[u32]) -> Result<Vec<u32>> {
    let mut ids = repeat(0, 0)?;
    for (id, &end) in (0..).zip(starts.iter().skip(1)) {
        resize(&mut ids, end as usize, id)?;
    }
    Ok(ids)
}
impl<K: Bits, V: Bits> Built for MultiMap<K, V>
where
    Index<K>: Reported,
{
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        let values = values.map_or(&[][..], RowKeys::bits);
        MultiMap::build_with(device, options.of_multi_map(), keys.bits::<K>(), values)
    }
}
impl<K: Bits, V: Bits> Erased for MultiMap<K, V>
where
    Index<K>: Reported,
{
    methods! { Kind::MultiMap }
    fn report(&self) -> Result<TableReport> {
        let of_keys = Reported::report(self.index())?;
        Ok(TableReport { pairs: self.len(), bytes: self.bytes(), ..of_keys })
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        has_id(self.index().ids(keys.bits())?)
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.index().keys()?.into())
    }
    fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
        // Starts that a file holds may be wrong until it is verified.
        self.mapping().map_or(Ok(()), Mapping::verify_once)?;
        let (keys, ids) = (self.index().keys()?, ids_of_values(&self.starts_view().download()?)?);
        let of_values = made(self.device(), ids.len(), |i| keys[ids[i] as usize])?;
        Ok((of_values.into(), self.values()?.into()))
    }
    fn counts(&self, keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        self.counts(keys.bits())
    }
    fn retrieve(&self, keys: &RowKeys<'_>) -> Result<(Vec<u64>, ColumnVec)> {
        let Retrieved { offsets, values } = self.retrieve(keys.bits())?;
        Ok((offsets, values.into()))
    }
}

impl<V: Bits> Built for StringMap<V> {
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        let values = values.map_or(&[][..], RowKeys::bits);
        StringMap::build_with(device, options.of_map(), &keys.slices()?, values)
    }
}
impl<V: Bits> Erased for StringMap<V> {
    methods! { Kind::Map }
    fn report(&self) -> Result<TableReport> {
        Ok(self.report()?.into())
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        self.contains(&keys.slices()?)
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.keys()?.into())
    }
    fn get(&self, keys: &RowKeys<'_>) -> Result<ColumnVec> {
        column(self.device(), &self.get(&keys.slices()?)?)
    }
    fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
        Ok((self.keys()?.into(), self.values()?.into()))
    }
    fn update(
        &mut self,
        operation: Operation,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Vec<Outcome>> {
        let values = values.map_or(&[][..], RowKeys::bits);
        self.update_with(Operations::All(operation), &keys.slices()?, values)
    }
}

impl Built for StringSet {
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        _: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        StringSet::build_with(device, options.of_set(), &keys.slices()?)
    }
}
impl Erased for StringSet {
    methods! { Kind::Set }
    fn report(&self) -> Result<TableReport> {
        Ok(self.report()?.into())
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        self.contains(&keys.slices()?)
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.keys()?.into())
    }
    fn update(
        &mut self,
        operation: Operation,
        keys: &RowKeys<'_>,
        _: Option<&RowKeys<'_>>,
    ) -> Result<Vec<Outcome>> {
        let keys = keys.slices()?;
        match operation {
            Operation::Erase => self.erase(&keys),
            _ => self.insert(&keys),
        }
    }
}

impl Built for StringIndex {
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        _: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        let (keys, stream) = (Strings::upload(device, &keys.slices()?)?, device.stream()?);
        Ok(StringIndex::encode_from(&stream, options.of_index(), &keys)?.0)
    }
}
impl Erased for StringIndex {
    methods! { Kind::Index }
    fn report(&self) -> Result<TableReport> {
        Reported::report(self)
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        has_id(self.ids(&keys.slices()?)?)
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.keys()?.into())
    }
    fn ids(&self, keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        ids(self.ids(&keys.slices()?)?)
    }
    fn keys_of(&self, ids: &[u32]) -> Result<ColumnVec> {
        let device = self.device();
        let (staged, stream, n) = (device.stage32("ids", ids)?, device.stream()?, self.len());
        let strings = self.column().select(&stream, staged.view())?.download()?;
        let valid = collect(ids.iter().map(|&id| (id as usize) < n))?;
        Ok(ColumnVec::new(DataVec::Bytes(strings), Some(valid)))
    }
}

impl<V: Bits> Built for StringMultiMap<V> {
    fn build(
        device: &Device,
        options: TableOptions,
        keys: &RowKeys<'_>,
        values: Option<&RowKeys<'_>>,
    ) -> Result<Self> {
        let values = values.map_or(&[][..], RowKeys::bits);
        StringMultiMap::build_with(device, options.of_multi_map(), &keys.slices()?, values)
    }
}
impl<V: Bits> Erased for StringMultiMap<V> {
    methods! { Kind::MultiMap }
    fn report(&self) -> Result<TableReport> {
        let of_keys = Reported::report(self.index())?;
        Ok(TableReport { pairs: self.len(), bytes: self.bytes(), ..of_keys })
    }
    fn contains(&self, keys: &RowKeys<'_>) -> Result<Vec<bool>> {
        has_id(self.index().ids(&keys.slices()?)?)
    }
    fn keys(&self) -> Result<ColumnVec> {
        Ok(self.index().keys()?.into())
    }
    fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
        // Starts that a file holds may be wrong until it is verified.
        self.mapping().map_or(Ok(()), Mapping::verify_once)?;
        let (keys, ids) = (self.index().keys()?, ids_of_values(&self.starts_view().download()?)?);
        let key = |i: usize| keys.get(ids[i] as usize).unwrap_or(&[]);
        let of_values = StringVec::of(self.device(), ids.len(), key)?;
        Ok((of_values.into(), self.values()?.into()))
    }
    fn counts(&self, keys: &RowKeys<'_>) -> Result<Vec<u32>> {
        self.counts(&keys.slices()?)
    }
    fn retrieve(&self, keys: &RowKeys<'_>) -> Result<(Vec<u64>, ColumnVec)> {
        let Retrieved { offsets, values } = self.retrieve(&keys.slices()?)?;
        Ok((offsets, values.into()))
    }
}

/// Maps to strings; the closure returns the keys as the index takes them.
macro_rules! to_strings { (
    [$($generics:tt)*] $table:ty [$($bound:tt)*], |$keys:ident| $own:expr
) => {
    impl<$($generics)*> Built for $table
    where
        $($bound)*
    {
        fn build(
            device: &Device,
            options: TableOptions,
            $keys: &RowKeys<'_>,
            values: Option<&RowKeys<'_>>,
        ) -> Result<Self> {
            let values = values.map_or(Ok(repeat(&[][..], 0)?), RowKeys::slices)?;
            Self::build_with(device, options.of_map(), $own, &values)
        }
    }
    impl<$($generics)*> Erased for $table
    where
        $($bound)*
    {
        methods! { Kind::Map }
        fn report(&self) -> Result<TableReport> {
            let (duplicates, bytes) = (self.duplicates(), self.bytes());
            Ok(TableReport { duplicates, bytes, ..Reported::report(self.index())? })
        }
        fn contains(&self, $keys: &RowKeys<'_>) -> Result<Vec<bool>> {
            self.contains($own)
        }
        fn keys(&self) -> Result<ColumnVec> {
            Ok(self.index().keys()?.into())
        }
        fn get(&self, $keys: &RowKeys<'_>) -> Result<ColumnVec> {
            let ids = self.ids($own)?;
            let valid = collect(ids.iter().map(|&id| id != NO_ID))?;
            Ok(ColumnVec::new(DataVec::Bytes(self.values_of(&ids)?), Some(valid)))
        }
        fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
            Ok((self.index().keys()?.into(), self.values().download()?.into()))
        }
        fn update(
            &mut self,
            operation: Operation,
            $keys: &RowKeys<'_>,
            values: Option<&RowKeys<'_>>,
        ) -> Result<Vec<Outcome>> {
            let values = values.map_or(Ok(repeat(&[][..], 0)?), RowKeys::slices)?;
            match operation {
                Operation::Erase => self.erase($own),
                Operation::Insert => self.insert($own, &values),
                _ => self.insert_or_assign($own, &values),
            }
        }
    }
} }
to_strings! { [K: Bits] MapToStrings<K> [Index<K>: Reported], |keys| keys.bits::<K>() }
to_strings! { [] StringMapToStrings [], |keys| &keys.slices()? }
