//! Rows of one or several columns as keys: see [`Keys`].
use super::column::Column;
use crate::error::{Error, Result, check_length, count32};
use crate::fallible::collect;
use std::{fmt, slice};

/// What a null in a key equals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Nulls {
    /// Null equals null, and nothing else: as `GROUP BY` and `DISTINCT` of SQL have it.
    #[default]
    Equal,
    /// Null equals nothing: rows with a null in a column of the key are in no group and match no
    /// row, as in a join of SQL.
    Excluded,
}

/// Rows of one or several columns as keys: two rows are equal if they are in every column.
///
/// ```
/// use koel::How;
/// use koel::any::{Column, Keys, Nulls, Validity, join};
///
/// let device = koel::Device::cpu()?;
/// let (left, right, flags) = ([1, 0, 2], [0, 2], [true, false, true]);
/// let left = Column::from(&left).with_validity(Validity::Flags(&flags))?;
/// let right = Column::from(&right).with_validity(Validity::Flags(&flags[1..]))?;
/// let pairs = |nulls| {
///     let (left, right) = (Keys::new([left])?.with_nulls(nulls), Keys::new([right])?);
///     let joined = join(&device, &left, &right.with_nulls(nulls), How::Inner)?;
///     Ok::<_, koel::Error>((joined.left, joined.right))
/// };
/// assert_eq!(pairs(Nulls::Equal)?, (vec![1, 2], vec![0, 1]));
/// assert_eq!(pairs(Nulls::Excluded)?, (vec![2], vec![1]));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone)]
pub struct Keys<'a> {
    columns: Vec<Column<'a>>,
    nulls: Nulls,
    len: usize,
}
impl<'a> Keys<'a> {
    /// Makes keys of these columns, in which null equals null.
    ///
    /// Errors: no column, columns of different lengths, more rows than 31-bit indices can address,
    /// out of memory.
    pub fn new(columns: impl IntoIterator<Item = Column<'a>>) -> Result<Keys<'a>> {
        let columns = collect(columns)?;
        let Some(len) = columns.first().map(Column::len) else {
            let (found, expected) = ("none".into(), "at least one".into());
            return Err(Error::Setting { field: "columns of a key", found, expected });
        };
        count32("rows", len)?;
        for column in &columns {
            check_length("a column of a key", column.len(), "the first one", len)?;
        }
        Ok(Keys { columns, nulls: Nulls::default(), len })
    }
    /// Returns the keys with another meaning of nulls.
    pub fn with_nulls(self, nulls: Nulls) -> Keys<'a> {
        Keys { nulls, ..self }
    }
    /// Errors: another meaning of nulls.
    pub(super) fn check_nulls(&self, others: &Keys<'_>) -> Result<()> {
        if others.nulls == self.nulls {
            return Ok(());
        }
        let (found, expected) = (format!("{:?}", others.nulls), format!("{:?}", self.nulls));
        Err(Error::Setting { field: "nulls", found, expected })
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the columns.
    pub fn columns(&self) -> &[Column<'a>] {
        &self.columns
    }
}
impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("columns", &self.columns)
            .field("nulls", &self.nulls)
            .finish_non_exhaustive()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Column<'_> {}
    impl Sealed for super::Keys<'_> {}
}
/// Keys of a [`Table`](super::Table): a [`Column`], or the rows of several as [`Keys`]. The trait
/// is sealed.
pub trait AsKeys<'a>: sealed::Sealed {
    /// Returns the columns, which have the same number of rows.
    fn columns(&self) -> &[Column<'a>];
    /// Returns what nulls equal: those of a column by itself nothing.
    fn nulls(&self) -> Nulls;
}
impl<'a> AsKeys<'a> for Column<'a> {
    fn columns(&self) -> &[Column<'a>] {
        slice::from_ref(self)
    }
    fn nulls(&self) -> Nulls {
        Nulls::Excluded
    }
}
impl<'a> AsKeys<'a> for Keys<'a> {
    fn columns(&self) -> &[Column<'a>] {
        &self.columns
    }
    fn nulls(&self) -> Nulls {
        self.nulls
    }
}
