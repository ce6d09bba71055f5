//! How rows of columns become keys, and keys columns: see [`Layout`].
use super::column::{Column, ColumnVec, made};
use super::data_type::{Data, DataType, with_data};
use super::keys::{AsKeys, Nulls};
use super::numbers::{Form, of_keys, packed, unpacked};
use super::rows::{Field, Parts, Rows};
use crate::device::Device;
use crate::error::{Error, Result, check_length};
use crate::fallible::{collect, push, repeat, try_collect};
use crate::file::Width;
use crate::verbs::row_keys::RowKeys;
use std::fmt;

/// How rows become keys: numbers, if all columns are numbers of at most 128 bits together, with a
/// bit for each that may be null; else bytes.
pub(super) struct Layout {
    fields: Vec<Field>,
    form: Form,
}
impl Layout {
    /// Returns the layout of these keys, and of others that are compared with them.
    pub(super) fn of(keys: &dyn AsKeys<'_>, form: Form) -> Result<Layout> {
        let field = |column: &Column<'_>| Field {
            data_type: column.data_type(),
            says_null: keys.nulls() == Nulls::Equal && column.is_nullable(),
        };
        Ok(Layout { fields: collect(keys.columns().iter().map(field))?, form })
    }
    /// Returns the layout that a file describes, as [`Display`](fmt::Display) writes it; `None` if
    /// it is none.
    pub(super) fn described(text: &str, form: Form) -> Result<Option<Layout>> {
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let mut fields = repeat(Field { data_type: DataType::Bool, says_null: false }, 0)?;
        for name in inner.unwrap_or(text).split(", ") {
            let of_values = name.strip_suffix('?').unwrap_or(name);
            let Some(data_type) = DataType::named(of_values) else { return Ok(None) };
            push(&mut fields, Field { data_type, says_null: of_values.len() < name.len() })?;
        }
        let is_tuple = fields.len() > 1;
        Ok((is_tuple == inner.is_some()).then_some(Layout { fields, form }))
    }
    pub(super) fn copied(&self) -> Result<Layout> {
        Ok(Layout { fields: collect(self.fields.iter().copied())?, form: self.form })
    }
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }
    fn parts(&self) -> Parts<'_> {
        Parts { fields: &self.fields, form: self.form }
    }
    /// Returns the bits of all numbers, and of all nulls; `None` if keys are bytes.
    fn bits(&self) -> Option<usize> {
        let bits = |field: &Field| Some(8 * field.data_type.size()? + usize::from(field.says_null));
        self.fields.iter().map(bits).sum::<Option<usize>>().filter(|bits| *bits <= 128)
    }
    /// Returns the width of the numbers; `None` if keys are bytes.
    pub(super) fn width(&self) -> Option<Width> {
        self.bits().map(|bits| match bits {
            ..=32 => Width::U32,
            33..=64 => Width::U64,
            _ => Width::U128,
        })
    }
    /// Returns the only column, if keys do not say that it is null.
    fn only(&self) -> Option<DataType> {
        match self.fields[..] {
            [Field { data_type, says_null: false }] => Some(data_type),
            _ => None,
        }
    }
    /// Errors: columns of another number or of other types than `whose`.
    pub(super) fn check(&self, keys: &dyn AsKeys<'_>, whose: &'static str) -> Result<()> {
        let columns = keys.columns();
        check_length("columns of a key", columns.len(), whose, self.fields.len())?;
        let pairs = columns.iter().map(Column::data_type).zip(&self.fields);
        let other = pairs.enumerate().find(|(_, (found, field))| *found != field.data_type);
        let Some((i, (found, field))) = other else { return Ok(()) };
        let place = if columns.len() > 1 { format!(" in column {i}") } else { String::new() };
        Err(Error::Setting {
            field: "type of the keys",
            found: format!("{found}{place}"),
            expected: format!("{}, as in {whose}", field.data_type),
        })
    }
    /// Returns the first row, if any, with a null in a column of which keys do not say that it is
    /// null.
    pub(super) fn first_null(&self, keys: &dyn AsKeys<'_>) -> Option<usize> {
        let first = |column: &&Column<'_>| (0..column.len()).find(|&row| column.is_null(row));
        self.silent(keys).filter_map(|column| first(&column)).min()
    }
    /// Returns the columns that may have nulls of which keys do not say so.
    fn silent<'k, 'a>(&self, keys: &'k dyn AsKeys<'a>) -> impl Iterator<Item = &'k Column<'a>> {
        let fields = keys.columns().iter().zip(&self.fields);
        fields.filter(|(column, field)| column.is_nullable() && !field.says_null).map(|(c, _)| c)
    }
    /// Returns the rows without a null in columns of which keys do not say that they are null, if
    /// there are others.
    fn complete_rows(&self, device: &Device, keys: &dyn AsKeys<'_>) -> Result<Option<Vec<u32>>> {
        if self.first_null(keys).is_none() {
            return Ok(None);
        }
        let columns = collect(self.silent(keys))?;
        let n = columns.first().map_or(0, |column| column.len());
        let is_complete = |row: usize| columns.iter().all(|column| !column.is_null(row));
        let complete = made(device, n, is_complete)?;
        let rows = (0..).zip(complete).filter(|(_, is_complete)| *is_complete);
        Ok(Some(collect(rows.map(|(row, _)| row))?))
    }
    /// Returns the keys of all rows; or those of some, and these rows: a row that has a null where
    /// keys do not say so has none. The columns have been checked. Errors: out of memory.
    pub(super) fn row_keys<'a>(
        &self,
        device: &Device,
        keys: &dyn AsKeys<'a>,
    ) -> Result<(RowKeys<'a>, Option<Vec<u32>>)> {
        let rows = self.complete_rows(device, keys)?;
        Ok((self.keys_of(device, keys.columns(), rows.as_deref())?, rows))
    }
    /// Returns the keys of all rows, none of which has a null where keys do not say so. The columns
    /// have been checked. Errors: out of memory.
    pub(super) fn all_keys<'a>(
        &self,
        device: &Device,
        keys: &dyn AsKeys<'a>,
    ) -> Result<RowKeys<'a>> {
        self.keys_of(device, keys.columns(), None)
    }
    fn keys_of<'a>(
        &self,
        device: &Device,
        columns: &[Column<'a>],
        rows: Option<&[u32]>,
    ) -> Result<RowKeys<'a>> {
        if let ([column], Some(_), None) = (columns, self.only(), rows) {
            return with_data!(
                column.data,
                values => of_keys(device, values, self.form),
                bytes => Ok(RowKeys::Bytes(bytes.0))
            );
        }
        let of = Rows { columns, parts: self.parts(), rows };
        Ok(match self.width() {
            Some(Width::U32) => RowKeys::of_bits(of.packed::<u32>(device)?),
            Some(Width::U64) => RowKeys::of_bits(of.packed::<u64>(device)?),
            Some(Width::U128) => RowKeys::of_bits(of.packed::<u128>(device)?),
            None => of.encoded(device)?,
        })
    }
    /// Returns the columns of keys, which are null where keys are. Errors: out of memory.
    pub(super) fn columns(&self, device: &Device, keys: ColumnVec) -> Result<Vec<ColumnVec>> {
        if let Some(data_type) = self.only() {
            let column = unpacked(device, keys, data_type, self.form)?;
            return Ok(collect([column])?);
        }
        let keys = keys.as_column();
        let parts = self.parts();
        try_collect((0..self.fields.len()).map(|i| match keys.data {
            Data::U32(bits) => parts.of_numbers(device, &keys, |row| bits[row].into(), i),
            Data::U64(bits) => parts.of_numbers(device, &keys, |row| bits[row].into(), i),
            Data::U128(bits) => parts.of_numbers(device, &keys, |row| bits[row], i),
            Data::Bytes(bytes) => parts.of_bytes(device, &keys, bytes, i),
            _ => unreachable!("keys are numbers without a sign, or bytes"),
        }))
    }
    /// Returns the packed bits of a key given as the table has them.
    pub(super) fn packed(&self, key: u128) -> u128 {
        match (self.form, self.bits()) {
            (Form::Ordered, Some(_)) => {
                let from = self.parts();
                let to = Parts { form: Form::Packed, ..from };
                (0..self.fields.len()).fold(0, |bits, i| {
                    let number = packed(self.fields[i].data_type, from.number(key, i));
                    bits | match from.is_null(key, i) {
                        true => 1 << to.null_place(i),
                        false => number << to.place(i),
                    }
                })
            }
            _ => key,
        }
    }
}
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tuple = self.fields.len() > 1;
        f.write_str(if is_tuple { "(" } else { "" })?;
        for (i, Field { data_type, says_null }) in self.fields.iter().enumerate() {
            let (comma, mark) = (if i > 0 { ", " } else { "" }, if *says_null { "?" } else { "" });
            write!(f, "{comma}{data_type}{mark}")?;
        }
        f.write_str(if is_tuple { ")" } else { "" })
    }
}
