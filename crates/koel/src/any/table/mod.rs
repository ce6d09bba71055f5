//! Tables of columns whose types are known at run time: see [`Table`].
mod erased;
mod meaning;
mod options;

use super::column::{Column, ColumnVec};
use super::data_type::DataType;
use crate::device::Device;
use crate::error::{Error, Result, check_length};
use crate::fallible::collect;
use crate::file::Width;
use crate::file::filed::{InFiles, in_files, map_as, read_as};
use crate::file::format::{Header, Meaning};
use crate::file::reader::{Mapping, Reader, Source};
use crate::file::writer::{Sink, Writer};
use crate::groups::NO_ID;
use crate::map::Operation;
use crate::table::update::Outcome;
use crate::verbs::row_keys::RowKeys;
use erased::{Built, Erased, Visit, visit};
use meaning::{Form, meant, of_keys, of_values, packed, width};
pub use options::{Kind, TableOptions, TableReport};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::path::Path;

/// A map, a set, an index or a multimap of columns whose types are known at run time.
///
/// ```
/// use koel::any::{Column, DataType, Kind, Table};
///
/// let device = koel::Device::cpu()?;
/// let (cities, degrees) = (["Ulm", "Bern", "Ulm"], [21.5f32, 19.0, 24.5]);
/// let map = Table::build(&device, Kind::Map, &(&cities).into(), Some(&(&degrees).into()))?;
/// assert_eq!((map.len()?, map.key_type()), (2, DataType::Bytes));
/// let found = map.get(&Column::from(&["Ulm", "Oslo"]))?;
/// assert_eq!(found.to_options::<f32>()?, [Some(24.5), None]);
///
/// let ids = Table::build(&device, Kind::Index, &Column::from(&[-7i16, 3]), None)?;
/// assert!(ids.contains(&Column::from(&[3i16, 4]))? == [true, false]);
/// // Nothing is converted silently.
/// let error = ids.contains(&Column::from(&[3u16])).unwrap_err().to_string();
/// assert_eq!(error, "`type of the keys` is u16, must be i16, as in the table");
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Types
/// Keys and values are of any [`DataType`]; values of a [multimap](Kind::MultiMap) have up to 64
/// bits. Columns that are looked up have the type of the table's keys; anything else is an error.
/// Keys of floats are equal as [elsewhere](crate::types). A map whose values are strings is a
/// [`ToStrings`](crate::ToStrings): a batch of changes builds it anew.
///
/// Inside is a table of the bits, such as [`Map<u32, u64>`](crate::Map), and what they mean: no
/// type adds code of its own, and answers, cost and determinism are those of that table.
/// [Files](mod@crate::file) state what they mean, so that `Map<i16, f32>` and a `Table` read each
/// other's; files of tuples, arrays, `char` and the like are for typed tables only.
///
/// # Nulls
/// Tables hold no nulls: a build or a batch with one is an error that names its row. A null that is
/// looked up is in no table, as with [`Nulls::Excluded`](super::Nulls::Excluded).
pub struct Table {
    of: Box<dyn Erased>,
    key: DataType,
    /// `None` for a set and an index.
    value: Option<DataType>,
}
impl Table {
    /// Builds a table of a [`Kind`], or with [`TableOptions`]. Copies and waits. A map and a
    /// multimap have a value for each key, a set and an index have none.
    ///
    /// ```
    /// use koel::Duplicates;
    /// use koel::any::{Column, Kind, Table, TableOptions};
    ///
    /// let device = koel::Device::cpu()?;
    /// let options = TableOptions::from(Kind::Map).with_duplicates(Duplicates::KeepFirst);
    /// let (keys, values) = (Column::from(&[0.0, -0.0]), Column::from(&[true, false]));
    /// let map = Table::build(&device, options, &keys, Some(&values))?;
    /// assert_eq!(map.get(&Column::from(&[0.0]))?.values::<bool>()?, [true]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a null, with its row; types that the kind does not have; mismatched lengths; an
    /// option of another kind, a load outside 0.3 to 0.95; a rejected duplicate, whose key is given
    /// as its bits; more rows than 31-bit indices can address; out of memory.
    pub fn build(
        device: &Device,
        options: impl Into<TableOptions>,
        keys: &Column<'_>,
        values: Option<&Column<'_>>,
    ) -> Result<Table> {
        struct Building<'a>(&'a Device, TableOptions, RowKeys<'a>, Option<RowKeys<'a>>);
        impl Visit for Building<'_> {
            type Out = Box<dyn Erased>;
            fn visit<T: Built>(self) -> Result<Box<dyn Erased>> {
                let Building(device, options, keys, values) = self;
                Ok(Box::new(T::build(device, options, &keys, values.as_ref())?))
            }
        }
        let options = options.into();
        options.check()?;
        check_values(options.kind, keys, values)?;
        let types = Types { key: keys.data_type(), value: values.map(Column::data_type) };
        let widths = types.widths();
        let form = types.form(options.kind);
        let building = Building(
            device,
            options,
            of_keys(device, keys, form)?,
            values.map(|values| of_values(device, values)).transpose()?,
        );
        let built = visit(options.kind, widths, building).map_err(|e| match e {
            // As other maps have it.
            Error::DuplicateKey { key, first, second } if form == Form::Ordered => {
                Error::DuplicateKey { key: packed(types.key, key), first, second }
            }
            e => e,
        })?;
        Ok(types.of(built))
    }
    /// Returns what the table holds.
    pub fn kind(&self) -> Kind {
        self.of.kind()
    }
    /// Returns the type of the keys.
    pub fn key_type(&self) -> DataType {
        self.key
    }
    /// Returns the type of the values; `None` for a set and an index.
    pub fn value_type(&self) -> Option<DataType> {
        self.value
    }
    /// Returns the device that holds the table.
    pub fn device(&self) -> &Device {
        self.of.device()
    }
    /// Returns the number of pairs of a map and a multimap, and of keys of a set and an index.
    ///
    /// Errors: as [`report`](Self::report).
    pub fn len(&self) -> Result<usize> {
        Ok(self.report()?.pairs)
    }
    /// Returns whether the table is empty; see [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Returns the statistics of the table. After an update on a GPU, reads the header back.
    ///
    /// Errors: those of the device.
    pub fn report(&self) -> Result<TableReport> {
        self.of.report()
    }
    /// Copies the table to another device, or to the same one. Copies through host memory and
    /// waits. An [opened](Self::open) table is verified first, then copied from where it is.
    ///
    /// Errors: out of memory; for an opened table, faults of its file.
    pub fn to_device(&self, device: &Device) -> Result<Table> {
        Ok(self.types().of(self.of.to_device(device)?))
    }

    /// Returns whether the table has each key; `false` for null. Waits.
    ///
    /// Errors: keys of another type, more than 31-bit indices can address, out of memory.
    pub fn contains(&self, keys: &Column<'_>) -> Result<Vec<bool>> {
        let mut found = self.of.contains(&self.bits_of(keys)?)?;
        set_at_nulls(keys, &mut found, false);
        Ok(found)
    }
    /// Returns the value of each key in a map, or null. Waits.
    ///
    /// Errors: a table of another kind; as [`contains`](Self::contains).
    pub fn get(&self, keys: &Column<'_>) -> Result<ColumnVec> {
        let found = self.of.get(&self.bits_of(keys)?)?;
        self.of_values(found.with_nulls_of(keys))
    }
    /// Returns the id of each key in an index, or [`NO_ID`]. Waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn ids(&self, keys: &Column<'_>) -> Result<Vec<u32>> {
        let mut ids = self.of.ids(&self.bits_of(keys)?)?;
        set_at_nulls(keys, &mut ids, NO_ID);
        Ok(ids)
    }
    /// Returns the key of each id of an index, or null. Waits.
    ///
    /// ```
    /// use koel::any::{Column, Kind, Table};
    ///
    /// let device = koel::Device::cpu()?;
    /// let index = Table::build(&device, Kind::Index, &Column::from(&["Ulm", "Bern"]), None)?;
    /// let ids = index.ids(&Column::from(&["Bern", "Oslo"]))?;
    /// assert_eq!(ids, [1, koel::NO_ID]);
    /// let keys = index.keys_of(&ids)?;
    /// assert_eq!((keys.bytes()?.get(0), keys.as_column().is_null(1)), (Some(&b"Bern"[..]), true));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a table of another kind, more ids than 31-bit indices can address, out of memory.
    pub fn keys_of(&self, ids: &[u32]) -> Result<ColumnVec> {
        self.of_keys(self.of.keys_of(ids)?)
    }
    /// Returns the number of values of each key in a multimap. Waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn counts(&self, keys: &Column<'_>) -> Result<Vec<u32>> {
        let mut counts = self.of.counts(&self.bits_of(keys)?)?;
        set_at_nulls(keys, &mut counts, 0);
        Ok(counts)
    }
    /// Returns all values of keys in a multimap, in their order. Waits.
    ///
    /// ```
    /// use koel::any::{Column, Kind, Table};
    ///
    /// let device = koel::Device::cpu()?;
    /// let (keys, values) = (Column::from(&[7i8, -3, 7]), Column::from(&[0.5, 1.5, 2.5]));
    /// let map = Table::build(&device, Kind::MultiMap, &keys, Some(&values))?;
    /// let found = map.retrieve(&Column::from(&[7i8, 8, -3]))?;
    /// let values = found.values.values::<f64>()?;
    /// assert_eq!((&values[found.of(0)], &values[found.of(1)]), (&[0.5, 2.5][..], &[][..]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: as [`get`](Self::get); out of memory for the values.
    pub fn retrieve(&self, keys: &Column<'_>) -> Result<Retrieved> {
        if keys.nulls() == 0 {
            let (offsets, values) = self.of.retrieve(&self.bits_of(keys)?)?;
            return Ok(Retrieved { offsets, values: self.of_values(values)? });
        }
        let rows = (0..keys.len()).filter(|&row| !keys.is_null(row));
        let known = keys.take(self.device(), &collect(rows.map(|row| row as u32))?)?;
        let found = self.retrieve(&Column { validity: None, ..known.as_column() })?;
        let (mut ends, mut end) = (found.offsets.iter().skip(1), 0);
        let mut next = |row| {
            if !keys.is_null(row) {
                end = ends.next().copied().unwrap_or(end);
            }
            end
        };
        let offsets = collect([0].into_iter().chain((0..keys.len()).map(&mut next)))?;
        Ok(Retrieved { offsets, ..found })
    }

    /// Returns the distinct keys: of an index in the order of their ids, else in any order. Waits.
    ///
    /// Errors: out of memory; for an [opened](Self::open) table, faults of its file.
    pub fn keys(&self) -> Result<ColumnVec> {
        self.of_keys(self.of.keys()?)
    }
    /// Returns all pairs of a map or a multimap, as a column of keys and one of values: those of a
    /// multimap by key, else in any order. Waits.
    ///
    /// Errors: a table of another kind; as [`keys`](Self::keys).
    pub fn pairs(&self) -> Result<(ColumnVec, ColumnVec)> {
        let (keys, values) = self.of.pairs()?;
        Ok((self.of_keys(keys)?, self.of_values(values)?))
    }

    /// Inserts the keys that a map or a set does not have; a map takes values, too. `outcomes[i]`
    /// is [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Waits.
    ///
    /// ```
    /// use koel::Outcome::*;
    /// use koel::any::{Column, Kind, Table};
    ///
    /// let mut set = Table::build(&koel::Device::cpu()?, Kind::Set, &(&[-1i128]).into(), None)?;
    /// assert_eq!(set.insert(&Column::from(&[-1i128, 2]), None)?, [Kept, Inserted]);
    /// assert_eq!(set.erase(&Column::from(&[-1i128, 3]))?, [Erased, Missing]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a null, with its row; an index or a multimap; columns of other types, mismatched
    /// lengths; as [`Map::insert`](crate::Map::insert).
    pub fn insert(
        &mut self,
        keys: &Column<'_>,
        values: Option<&Column<'_>>,
    ) -> Result<Vec<Outcome>> {
        self.update(Operation::Insert, keys, values)
    }
    /// Sets the value of each key in a map, and inserts missing keys: the outcome is
    /// [`Inserted`](Outcome::Inserted) or [`Assigned`](Outcome::Assigned). Waits.
    ///
    /// Errors: as [`insert`](Self::insert), and a set.
    pub fn insert_or_assign(
        &mut self,
        keys: &Column<'_>,
        values: &Column<'_>,
    ) -> Result<Vec<Outcome>> {
        self.update(Operation::InsertOrAssign, keys, Some(values))
    }
    /// Removes each key of a map or a set: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). Waits.
    ///
    /// Errors: as [`insert`](Self::insert).
    pub fn erase(&mut self, keys: &Column<'_>) -> Result<Vec<Outcome>> {
        self.update(Operation::Erase, keys, None)
    }
    fn update(
        &mut self,
        operation: Operation,
        keys: &Column<'_>,
        values: Option<&Column<'_>>,
    ) -> Result<Vec<Outcome>> {
        let bits = self.bits_of(keys)?;
        match operation {
            Operation::Erase => check_nulls("keys", keys)?,
            _ => check_values(self.kind(), keys, values)?,
        }
        if let (Some(values), Some(expected)) = (values, self.value) {
            check_type("type of the values", values, expected)?;
        }
        let device = self.device().clone();
        let values = values.map(|values| of_values(&device, values)).transpose()?;
        self.of.update(operation, &bits, values.as_ref())
    }

    fn types(&self) -> Types {
        Types { key: self.key, value: self.value }
    }
    /// Returns keys as the table has them. Errors: another type.
    fn bits_of<'a>(&self, keys: &Column<'a>) -> Result<RowKeys<'a>> {
        check_type("type of the keys", keys, self.key)?;
        of_keys(self.device(), keys, self.types().form(self.kind()))
    }
    fn of_keys(&self, bits: ColumnVec) -> Result<ColumnVec> {
        meant(self.device(), bits, self.key, self.types().form(self.kind()))
    }
    fn of_values(&self, bits: ColumnVec) -> Result<ColumnVec> {
        // Only tables with values return some.
        meant(self.device(), bits, self.value.unwrap_or(DataType::U32), Form::Packed)
    }
}
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, key, device) = (self.kind(), self.key, self.device().name());
        match self.value {
            Some(value) => write!(f, "Table[{kind} of {key} -> {value}] on {device}"),
            None => write!(f, "Table[{kind} of {key}] on {device}"),
        }
    }
}

/// Values of a batch of keys, of which each may have any number.
#[derive(Clone, PartialEq, Debug)]
pub struct Retrieved {
    /// The values of key `i` are those from `offsets[i]` to `offsets[i + 1]`.
    pub offsets: Vec<u64>,
    /// The values of all keys.
    pub values: ColumnVec,
}
impl Retrieved {
    /// Returns the rows of the values of key `i`. Panics if there are not as many keys.
    pub fn of(&self, i: usize) -> Range<usize> {
        self.offsets[i] as usize..self.offsets[i + 1] as usize
    }
}

/// Types of keys and values.
#[derive(Clone, Copy)]
struct Types {
    key: DataType,
    value: Option<DataType>,
}
impl Types {
    fn of(self, table: Box<dyn Erased>) -> Table {
        Table { of: table, key: self.key, value: self.value }
    }
    /// Returns the widths of the bits; `None` for strings.
    fn widths(self) -> (Option<Width>, Option<Width>) {
        (width(self.key), self.value.map_or(Some(Width::U32), width))
    }
    /// Returns how keys become bits: those that an index numbers are ordered.
    fn form(self, kind: Kind) -> Form {
        match kind {
            Kind::Index | Kind::MultiMap => Form::Ordered,
            Kind::Map if self.value == Some(DataType::Bytes) => Form::Ordered,
            Kind::Map | Kind::Set => Form::Packed,
        }
    }
    fn meaning(self, kind: Kind) -> Meaning {
        let of_ids = (kind == Kind::Index).then_some(DataType::U32);
        Meaning::described(self.key.name(), self.value.or(of_ids).map(DataType::name))
    }
    /// Returns the types that a file states. Errors: others than those of columns.
    fn of_file<R: Read + Seek>(reader: &Reader<R>) -> Result<(Kind, Types)> {
        let &Header { kind, meaning, .. } = reader.header();
        let kind = Kind::from(kind);
        let named = |name: &str| {
            let found = DataType::ALL.iter().find(|data_type| data_type.name() == name);
            found.copied().ok_or_else(|| {
                let names = DataType::ALL.iter().map(|data_type| data_type.name());
                let expected =
                    names.fold(String::from("types of columns:"), |names, name| names + " " + name);
                reader.wrong_types(expected)
            })
        };
        let value = meaning.value().filter(|_| kind.has_values());
        let types = Types { key: named(meaning.key())?, value: value.map(named).transpose()? };
        match types.meaning(kind) {
            of_types if of_types == meaning => Ok((kind, types)),
            of_types => Err(reader.wrong_types(of_types.to_string())),
        }
    }
}

in_files! {
    /// ```
    /// use koel::any::{Column, DataType, Table};
    ///
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Map::build(&device, &[-3i16, 5], &[0.5f32, 1.5])?.save_to(&mut bytes)?;
    /// let map = Table::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!((map.key_type(), map.value_type()), (DataType::I16, Some(DataType::F32)));
    /// assert_eq!(map.get(&Column::from(&[-3i16, 4]))?.to_options()?, [Some(0.5f32), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[] Table
}
impl InFiles for Table {
    fn write_all(&self, mut to: &mut (impl Write + Seek), path: &Path) -> Result<()> {
        let mut to: &mut dyn Sink = &mut to;
        self.of.write_to(Writer::new(&mut to, path, self.types().meaning(self.kind())))
    }
    fn read_all<R: Read + Seek>(device: &Device, mut reader: Reader<R>) -> Result<Table> {
        struct Reading<'a>(&'a Device, Reader<&'a mut dyn Source>);
        impl Visit for Reading<'_> {
            type Out = Box<dyn Erased>;
            fn visit<T: Built>(self) -> Result<Box<dyn Erased>> {
                let meaning = self.1.header().meaning;
                Ok(Box::new(read_as::<T, _>(self.0, self.1, meaning)?))
            }
        }
        let (kind, types) = Types::of_file(&reader)?;
        let reading = Reading(device, reader.by_ref());
        Ok(types.of(visit(kind, types.widths(), reading)?))
    }
    unsafe fn map(device: &Device, reader: Reader<File>) -> Result<Table> {
        struct Opening<'a>(&'a Device, Reader<File>);
        impl Visit for Opening<'_> {
            type Out = Box<dyn Erased>;
            fn visit<T: Built>(self) -> Result<Box<dyn Erased>> {
                let meaning = self.1.header().meaning;
                // SAFETY: the caller of `map` upholds the contract.
                Ok(Box::new(unsafe { map_as::<T>(self.0, self.1, meaning) }?))
            }
        }
        let (kind, types) = Types::of_file(&reader)?;
        Ok(types.of(visit(kind, types.widths(), Opening(device, reader))?))
    }
    fn mapping(&self) -> Option<&Mapping> {
        self.of.mapping()
    }
}

/// Sets the answers to nulls.
fn set_at_nulls<T: Copy>(keys: &Column<'_>, answers: &mut [T], missing: T) {
    if keys.is_nullable() {
        let answers = answers.iter_mut().enumerate();
        answers.filter(|(row, _)| keys.is_null(*row)).for_each(|(_, answer)| *answer = missing);
    }
}
fn check_type(field: &'static str, found: &Column<'_>, expected: DataType) -> Result<()> {
    if found.data_type() == expected {
        return Ok(());
    }
    let (found, expected) = (found.data_type().to_string(), format!("{expected}, as in the table"));
    Err(Error::Setting { field, found, expected })
}
/// Checks that there are values if a kind has them, as many as keys, and no nulls.
fn check_values(kind: Kind, keys: &Column<'_>, values: Option<&Column<'_>>) -> Result<()> {
    match (kind.has_values(), values) {
        (true, Some(values)) => {
            check_length("values", values.len(), "keys", keys.len())?;
            check_nulls("values", values)?;
        }
        (false, None) => (),
        (has_values, _) => {
            let expected = if has_values { "one for each key in" } else { "none in" };
            return Err(Error::Setting {
                field: "values",
                found: values.map_or("none".into(), |values| format!("{values:?}")),
                expected: format!("{expected} {kind}"),
            });
        }
    }
    check_nulls("keys", keys)
}
fn check_nulls(field: &'static str, column: &Column<'_>) -> Result<()> {
    let mut rows = 0..column.len();
    match rows.find(|&row| column.is_nullable() && column.is_null(row)) {
        None => Ok(()),
        Some(row) => Err(Error::Setting {
            field,
            found: format!("null in row {row}"),
            expected: "a value in each row: tables hold no nulls".into(),
        }),
    }
}
