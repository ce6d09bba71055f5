//! Tables of columns whose types are known at run time: see [`Table`].
mod erased;
mod options;

use super::column::{Column, ColumnVec};
use super::data_type::DataType;
use super::keys::AsKeys;
use super::layout::Layout;
use super::numbers::{Form, of_values, unpacked, width};
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
use crate::verbs::NO_ROW;
use crate::verbs::groups::expanded;
use crate::verbs::row_keys::RowKeys;
use erased::{Built, Erased, Visit, visit};
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
/// let (keys, values) = (Column::from(&cities), Column::from(&degrees));
/// let map = Table::build(&device, Kind::Map, &keys, Some(&values))?;
/// assert_eq!((map.len()?, map.key_types()?), (2, vec![DataType::Bytes]));
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
/// Keys and values are of any [`DataType`]; values of a [multimap](Kind::MultiMap) are numbers.
/// Columns that are looked up have the types of the table's keys; anything else is an error. Keys
/// of floats are equal as [elsewhere](crate::types). A map whose values are strings is a
/// [`ToStrings`](crate::ToStrings): a batch of changes builds it anew.
///
/// Inside is a table of the bits, such as [`Map<u32, u64>`](crate::Map), and what they mean: no
/// type adds code of its own, and answers, cost and determinism are those of that table.
/// [Files](mod@crate::file) state what they mean, so that `Map<i16, f32>` and a `Table` read each
/// other's; files of tuples, arrays, `char` and the like are for typed tables only.
///
/// # Several columns
/// The rows of several columns are [`Keys`](super::Keys):
///
/// ```
/// use koel::any::{Column, Keys, Kind, Table};
///
/// let device = koel::Device::cpu()?;
/// let (city, year) = (["Ulm", "Bern", "Ulm"], [2024i16, 2024, 2025]);
/// let keys = Keys::new([Column::from(&city), Column::from(&year)])?;
/// let map = Table::build(&device, Kind::Map, &keys, Some(&Column::from(&[21.5, 19.0, 24.5])))?;
/// let asked = Keys::new([Column::from(&["Ulm", "Bern"]), Column::from(&[2025i16, 2025])])?;
/// assert_eq!(map.get(&asked)?.to_options::<f64>()?, [Some(24.5), None]);
/// assert_eq!(map.keys()?.len(), 2); // columns
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Numbers of up to 128 bits together, with a bit more for each column that may be null, are one
/// number: keys of a `Map<(i16, u32), f32>` and those of two such columns are the same, in files
/// too. Other rows are strings of bytes.
///
/// # Nulls
/// A table has null as a key if it was built of [`Keys`](super::Keys) in which
/// [null equals null](super::Nulls::Equal), and in columns that may be null. Elsewhere a null in a
/// build or in a batch of changes is an error that names its row, and a null that is looked up is
/// not in the table. Values are never null.
pub struct Table {
    of: Box<dyn Erased>,
    types: Types,
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
        keys: &dyn AsKeys<'_>,
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
        let types = Types::of(options.kind, keys, values)?;
        types.check_rows(options.kind, keys, values)?;
        let bits = types.keys.all_keys(device, keys)?;
        let values = values.map(|values| of_values(device, values)).transpose()?;
        let building = Building(device, options, bits, values);
        let built = visit(options.kind, types.widths(), building).map_err(|e| match e {
            // As other maps have it.
            Error::DuplicateKey { key, first, second } => {
                Error::DuplicateKey { key: types.keys.packed(key), first, second }
            }
            e => e,
        })?;
        Ok(Table { of: built, types })
    }
    /// Returns what the table holds.
    pub fn kind(&self) -> Kind {
        self.of.kind()
    }
    /// Returns the type of each column of the keys. Errors: out of memory.
    pub fn key_types(&self) -> Result<Vec<DataType>> {
        Ok(collect(self.types.keys.fields().iter().map(|field| field.data_type))?)
    }
    /// Returns the type of the values; `None` for a set and an index.
    pub fn value_type(&self) -> Option<DataType> {
        self.types.value
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
        Ok(Table { of: self.of.to_device(device)?, types: self.types.copied()? })
    }

    /// Returns whether the table has each key. Waits.
    ///
    /// Errors: keys of other types, more than 31-bit indices can address, out of memory.
    pub fn contains(&self, keys: &dyn AsKeys<'_>) -> Result<Vec<bool>> {
        let (bits, rows) = self.asked(keys)?;
        spread(self.of.contains(&bits)?, rows.as_deref(), keys, false)
    }
    /// Returns the value of each key in a map, or null. Waits.
    ///
    /// Errors: a table of another kind; as [`contains`](Self::contains).
    pub fn get(&self, keys: &dyn AsKeys<'_>) -> Result<ColumnVec> {
        let (bits, rows) = self.asked(keys)?;
        let found = self.of_values(self.of.get(&bits)?)?;
        let Some(rows) = rows else { return Ok(found) };
        let numbers = collect(0..rows.len() as u32)?;
        let places = expanded(&numbers, &rows, rows_of(keys), NO_ROW)?;
        found.as_column().take(self.device(), &places)
    }
    /// Returns the id of each key in an index, or [`NO_ID`]. Waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn ids(&self, keys: &dyn AsKeys<'_>) -> Result<Vec<u32>> {
        let (bits, rows) = self.asked(keys)?;
        spread(self.of.ids(&bits)?, rows.as_deref(), keys, NO_ID)
    }
    /// Returns the key of each id of an index, column by column, or null. Waits.
    ///
    /// ```
    /// use koel::any::{Column, Kind, Table};
    ///
    /// let device = koel::Device::cpu()?;
    /// let index = Table::build(&device, Kind::Index, &Column::from(&["Ulm", "Bern"]), None)?;
    /// let ids = index.ids(&Column::from(&["Bern", "Oslo"]))?;
    /// assert_eq!(ids, [1, koel::NO_ID]);
    /// let keys = &index.keys_of(&ids)?[0];
    /// assert_eq!((keys.bytes()?.get(0), keys.as_column().is_null(1)), (Some(&b"Bern"[..]), true));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a table of another kind, more ids than 31-bit indices can address, out of memory.
    pub fn keys_of(&self, ids: &[u32]) -> Result<Vec<ColumnVec>> {
        self.types.keys.columns(self.device(), self.of.keys_of(ids)?)
    }
    /// Returns the number of values of each key in a multimap. Waits.
    ///
    /// Errors: as [`get`](Self::get).
    pub fn counts(&self, keys: &dyn AsKeys<'_>) -> Result<Vec<u32>> {
        let (bits, rows) = self.asked(keys)?;
        spread(self.of.counts(&bits)?, rows.as_deref(), keys, 0)
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
    pub fn retrieve(&self, keys: &dyn AsKeys<'_>) -> Result<Retrieved> {
        let (bits, rows) = self.asked(keys)?;
        let (mut offsets, values) = self.of.retrieve(&bits)?;
        if let Some(rows) = rows {
            let ends = expanded(&offsets[1..], &rows, rows_of(keys), 0)?;
            offsets = collect([0].into_iter().chain(ends))?;
            // A row that is not asked ends where the one before it does.
            for row in 1..offsets.len() {
                offsets[row] = offsets[row].max(offsets[row - 1]);
            }
        }
        Ok(Retrieved { offsets, values: self.of_values(values)? })
    }

    /// Returns the distinct keys, column by column: of an index in the order of their ids, else in
    /// any order. Waits.
    ///
    /// Errors: out of memory; for an [opened](Self::open) table, faults of its file.
    pub fn keys(&self) -> Result<Vec<ColumnVec>> {
        self.types.keys.columns(self.device(), self.of.keys()?)
    }
    /// Returns all pairs of a map or a multimap, as columns of keys and one of values: those of a
    /// multimap by key, else in any order. Waits.
    ///
    /// Errors: a table of another kind; as [`keys`](Self::keys).
    pub fn pairs(&self) -> Result<(Vec<ColumnVec>, ColumnVec)> {
        let (keys, values) = self.of.pairs()?;
        Ok((self.types.keys.columns(self.device(), keys)?, self.of_values(values)?))
    }

    /// Inserts the keys that a map or a set does not have; a map takes values, too. `outcomes[i]`
    /// is [`Inserted`](Outcome::Inserted) or [`Kept`](Outcome::Kept). Waits.
    ///
    /// ```
    /// use koel::Outcome::*;
    /// use koel::any::{Column, Kind, Table};
    ///
    /// let keys = Column::from(&[-1i128]);
    /// let mut set = Table::build(&koel::Device::cpu()?, Kind::Set, &keys, None)?;
    /// assert_eq!(set.insert(&Column::from(&[-1i128, 2]), None)?, [Kept, Inserted]);
    /// assert_eq!(set.erase(&Column::from(&[-1i128, 3]))?, [Erased, Missing]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a null, with its row; an index or a multimap; columns of other types, mismatched
    /// lengths; as [`Map::insert`](crate::Map::insert).
    pub fn insert(
        &mut self,
        keys: &dyn AsKeys<'_>,
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
        keys: &dyn AsKeys<'_>,
        values: &Column<'_>,
    ) -> Result<Vec<Outcome>> {
        self.update(Operation::InsertOrAssign, keys, Some(values))
    }
    /// Removes each key of a map or a set: the outcome is [`Erased`](Outcome::Erased) or
    /// [`Missing`](Outcome::Missing). Waits.
    ///
    /// Errors: as [`insert`](Self::insert).
    pub fn erase(&mut self, keys: &dyn AsKeys<'_>) -> Result<Vec<Outcome>> {
        self.update(Operation::Erase, keys, None)
    }
    fn update(
        &mut self,
        operation: Operation,
        keys: &dyn AsKeys<'_>,
        values: Option<&Column<'_>>,
    ) -> Result<Vec<Outcome>> {
        self.types.keys.check(keys, "the table")?;
        if let (Some(values), Some(expected)) = (values, self.types.value) {
            check_type("type of the values", values, expected)?;
        }
        match operation {
            Operation::Erase => self.types.check_nulls(keys)?,
            _ => self.types.check_rows(self.kind(), keys, values)?,
        }
        let device = self.device().clone();
        let bits = self.types.keys.all_keys(&device, keys)?;
        let values = values.map(|values| of_values(&device, values)).transpose()?;
        self.of.update(operation, &bits, values.as_ref())
    }

    /// Returns the keys that are looked up as the table has them, and their rows if others are in
    /// no table. Errors: other types.
    fn asked<'a>(&self, keys: &dyn AsKeys<'a>) -> Result<(RowKeys<'a>, Option<Vec<u32>>)> {
        self.types.keys.check(keys, "the table")?;
        self.types.keys.row_keys(self.device(), keys)
    }
    fn of_values(&self, bits: ColumnVec) -> Result<ColumnVec> {
        // Only tables with values return some.
        unpacked(self.device(), bits, self.types.value.unwrap_or(DataType::U32), Form::Packed)
    }
}
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, key, device) = (self.kind(), &self.types.keys, self.device().name());
        match self.types.value {
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
struct Types {
    keys: Layout,
    /// `None` for a set and an index.
    value: Option<DataType>,
}
impl Types {
    fn of(kind: Kind, keys: &dyn AsKeys<'_>, values: Option<&Column<'_>>) -> Result<Types> {
        let value = values.map(Column::data_type);
        Ok(Types { keys: Layout::of(keys, Types::form(kind, value))?, value })
    }
    fn copied(&self) -> Result<Types> {
        Ok(Types { keys: self.keys.copied()?, value: self.value })
    }
    /// Returns the widths of the bits; `None` for strings.
    fn widths(&self) -> (Option<Width>, Option<Width>) {
        (self.keys.width(), self.value.map_or(Some(Width::U32), width))
    }
    /// Returns how keys become bits: those that an index numbers are ordered.
    fn form(kind: Kind, value: Option<DataType>) -> Form {
        match kind {
            Kind::Index | Kind::MultiMap => Form::Ordered,
            Kind::Map if value == Some(DataType::Bytes) => Form::Ordered,
            Kind::Map | Kind::Set => Form::Packed,
        }
    }
    /// Errors: a longer description than files hold.
    fn meaning(&self, kind: Kind) -> Result<Meaning> {
        let of_ids = (kind == Kind::Index).then_some(DataType::U32);
        Meaning::described(&self.keys.to_string(), self.value.or(of_ids).map(DataType::name))
    }
    /// Returns the types that a file states. Errors: others than those of columns.
    fn of_file<R: Read + Seek>(reader: &Reader<R>) -> Result<(Kind, Types)> {
        let &Header { kind, meaning, .. } = reader.header();
        let kind = Kind::from(kind);
        let wrong = || {
            let names = DataType::ALL.iter().map(|data_type| data_type.name());
            let expected =
                names.fold(String::from("types of columns:"), |names, name| names + " " + name);
            reader.wrong_types(expected)
        };
        let value = match meaning.value().filter(|_| kind.has_values()) {
            Some(name) => Some(DataType::named(name).ok_or_else(wrong)?),
            None => None,
        };
        let keys = Layout::described(meaning.key(), Types::form(kind, value))?;
        let types = Types { keys: keys.ok_or_else(wrong)?, value };
        match types.meaning(kind)? {
            of_types if of_types == meaning => Ok((kind, types)),
            of_types => Err(reader.wrong_types(of_types.to_string())),
        }
    }
    /// Checks that there are values if a kind has them, as many as keys, and no nulls that the
    /// table does not hold.
    fn check_rows(
        &self,
        kind: Kind,
        keys: &dyn AsKeys<'_>,
        values: Option<&Column<'_>>,
    ) -> Result<()> {
        match (kind.has_values(), values) {
            (true, Some(values)) => {
                check_length("values", values.len(), "keys", rows_of(keys))?;
                let null = (0..values.len()).find(|&row| values.is_null(row));
                check_null("values", null)?;
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
        self.check_nulls(keys)
    }
    fn check_nulls(&self, keys: &dyn AsKeys<'_>) -> Result<()> {
        check_null("keys", self.keys.first_null(keys))
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
    /// assert_eq!(map.key_types()?, [DataType::I16]);
    /// assert_eq!(map.value_type(), Some(DataType::F32));
    /// assert_eq!(map.get(&Column::from(&[-3i16, 4]))?.to_options()?, [Some(0.5f32), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    impl[] Table
}
impl InFiles for Table {
    fn write_all(&self, mut to: &mut (impl Write + Seek), path: &Path) -> Result<()> {
        let mut to: &mut dyn Sink = &mut to;
        self.of.write_to(Writer::new(&mut to, path, self.types.meaning(self.kind())?))
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
        Ok(Table { of: visit(kind, types.widths(), reading)?, types })
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
        Ok(Table { of: visit(kind, types.widths(), Opening(device, reader))?, types })
    }
    fn mapping(&self) -> Option<&Mapping> {
        self.of.mapping()
    }
}

/// Returns the number of rows.
fn rows_of(keys: &dyn AsKeys<'_>) -> usize {
    keys.columns().first().map_or(0, Column::len)
}
/// Returns the answers to some rows of keys in the places of these rows. Errors: out of memory.
fn spread<T: Copy>(
    answers: Vec<T>,
    rows: Option<&[u32]>,
    keys: &dyn AsKeys<'_>,
    missing: T,
) -> Result<Vec<T>> {
    match rows {
        Some(rows) => expanded(&answers, rows, rows_of(keys), missing),
        None => Ok(answers),
    }
}
fn check_type(field: &'static str, found: &Column<'_>, expected: DataType) -> Result<()> {
    if found.data_type() == expected {
        return Ok(());
    }
    let (found, expected) = (found.data_type().to_string(), format!("{expected}, as in the table"));
    Err(Error::Setting { field, found, expected })
}
fn check_null(field: &'static str, row: Option<usize>) -> Result<()> {
    match row {
        None => Ok(()),
        Some(row) => Err(Error::Setting {
            field,
            found: format!("null in row {row}"),
            expected: "a value in each row: the table holds no nulls".into(),
        }),
    }
}
