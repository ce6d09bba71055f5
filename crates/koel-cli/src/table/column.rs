//! A column of whole numbers or of strings in memory.
use super::faults::{in_file, out_of_memory};
use crate::failure::Outcome;
use koel::any::Bytes;
use koel::file::Width;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::ops::Range;
use std::path::Path;

/// A column of strings, or of whole numbers: 128-bit, or the narrower of two types that holds them
/// all.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Column {
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
    /// Start of each string among the bytes, and the end of the last one.
    Strings(Vec<i64>, Vec<u8>),
}
/// A field of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cell<'a> {
    Number(u128),
    String(&'a [u8]),
}
impl Column {
    /// Returns no strings.
    pub(super) fn no_strings() -> Column {
        Column::Strings(vec![0], vec![])
    }
    /// Returns `0..n`. Errors: out of memory.
    pub(super) fn numbers(n: usize) -> Result<Column, TryReserveError> {
        Ok(if u32::try_from(n).is_ok() {
            Column::U32(collected(0..n as u32)?)
        } else {
            Column::U64(collected((0..n).map(|i| i as u64))?)
        })
    }
    pub(super) fn len(&self) -> usize {
        match self {
            Column::U32(column) => column.len(),
            Column::U64(column) => column.len(),
            Column::U128(column) => column.len(),
            Column::Strings(offsets, _) => offsets.len() - 1,
        }
    }
    /// Returns some rows as a column of a table.
    pub(super) fn rows(&self, rows: Range<usize>) -> koel::Result<koel::any::Column<'_>> {
        Ok(match self {
            Column::U32(column) => column[rows].into(),
            Column::U64(column) => column[rows].into(),
            Column::U128(column) => column[rows].into(),
            Column::Strings(offsets, bytes) => {
                Bytes::from_offsets64(&offsets[rows.start..=rows.end], bytes)?.into()
            }
        })
    }
    /// Returns the numbers in a type, with the greatest one where they exceed it, and whether each
    /// fits; strings as they are. Errors: out of memory.
    pub(super) fn fitted(
        &self,
        width: Width,
    ) -> Result<(Cow<'_, Column>, Vec<bool>), TryReserveError> {
        let most = u128::MAX >> (128 - width.bits());
        let fits = collected((0..self.len()).map(|i| self.number(i) <= most))?;
        let numbers = || (0..self.len()).map(|i| self.number(i).min(most));
        let column = match width {
            _ if matches!(self, Column::Strings(..)) => return Ok((Cow::Borrowed(self), fits)),
            Width::U32 => Column::U32(collected(numbers().map(|n| n as u32))?),
            Width::U64 => Column::U64(collected(numbers().map(|n| n as u64))?),
            Width::U128 => Column::U128(collected(numbers())?),
        };
        Ok((Cow::Owned(column), fits))
    }
    pub(super) fn get(&self, i: usize) -> Cell<'_> {
        match self {
            Column::Strings(offsets, bytes) => {
                Cell::String(&bytes[offsets[i] as usize..offsets[i + 1] as usize])
            }
            _ => Cell::Number(self.number(i)),
        }
    }
    /// Returns a number; 0 for a string.
    fn number(&self, i: usize) -> u128 {
        match self {
            Column::U32(column) => column[i].into(),
            Column::U64(column) => column[i].into(),
            Column::U128(column) => column[i],
            Column::Strings(..) => 0,
        }
    }
    /// Returns the type of the numbers.
    fn width(&self) -> Option<Width> {
        match self {
            Column::U32(_) => Some(Width::U32),
            Column::U64(_) => Some(Width::U64),
            Column::U128(_) => Some(Width::U128),
            Column::Strings(..) => None,
        }
    }
    /// Appends a string to a column of them. Errors: out of memory.
    pub(super) fn push_string(&mut self, string: &[u8]) -> Result<(), TryReserveError> {
        let Column::Strings(offsets, bytes) = self else { return Ok(()) };
        bytes.try_reserve(string.len())?;
        bytes.extend_from_slice(string);
        pushed(offsets, bytes.len() as i64)
    }
    /// Appends a number. It must fit 64 bits unless the column has 128. Errors: out of memory.
    pub(super) fn push(&mut self, number: u128) -> Result<(), TryReserveError> {
        if let (Column::U32(column), true) = (&*self, number > u32::MAX.into()) {
            *self = Column::U64(collected(column.iter().map(|&n| n.into()))?);
        }
        match self {
            Column::U32(column) => pushed(column, number as u32),
            Column::U64(column) => pushed(column, number as u64),
            Column::U128(column) => pushed(column, number),
            Column::Strings(..) => Ok(()),
        }
    }
    /// Converts to the type `width`. Errors: a number does not fit; the message calls it `what`.
    /// Out of memory.
    pub(super) fn of_width(self, width: Option<Width>, what: &str, file: &Path) -> Outcome<Column> {
        let Some(width) = width.filter(|_| width != self.width()) else { return Ok(self) };
        let most = u128::MAX >> (128 - width.bits());
        if let Some(i) = (0..self.len()).find(|&i| self.number(i) > most) {
            let n = self.number(i);
            let fault = format_args!("{what} {i} is {n}, expected at most {most} for {width}");
            return Err(in_file(file, fault));
        }
        let fitted = self.fitted(width).map(|(column, _)| column.into_owned());
        fitted.map_err(|_| out_of_memory(file, format_args!("{} numbers", self.len())))
    }
}
fn pushed<T>(column: &mut Vec<T>, number: T) -> Result<(), TryReserveError> {
    if column.len() == column.capacity() {
        column.try_reserve(1)?;
    }
    column.push(number);
    Ok(())
}
/// Collects items. Errors: out of memory.
pub(super) fn collected<T>(
    items: impl ExactSizeIterator<Item = T>,
) -> Result<Vec<T>, TryReserveError> {
    let mut all = Vec::new();
    all.try_reserve_exact(items.len())?;
    all.extend(items);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn numbers_take_the_type_that_is_asked_for() {
        let file = Path::new("k.u64");
        let wide = Column::U64(vec![1, 2]);
        assert_eq!(
            wide.clone().of_width(Some(Width::U32), "key", file).unwrap(),
            Column::U32(vec![1, 2])
        );
        assert_eq!(Column::U32(vec![1, 2]).of_width(Some(Width::U64), "key", file).unwrap(), wide);
        assert_eq!(wide.clone().of_width(None, "key", file).unwrap(), wide);
        let widest = Column::U128(vec![1, 2]);
        assert_eq!(wide.clone().of_width(Some(Width::U128), "key", file).unwrap(), widest);
        assert_eq!(widest.of_width(Some(Width::U64), "key", file).unwrap(), wide);
        let error =
            Column::U128(vec![1 << 64]).of_width(Some(Width::U64), "key", file).unwrap_err();
        let most = "expected at most 18446744073709551615 for u64";
        assert!(matches!(error, Failure::Usage(m)
                if m == format!("k.u64: key 0 is 18446744073709551616, {most}")));
        let error =
            Column::U64(vec![1, 1 << 32]).of_width(Some(Width::U32), "key", file).unwrap_err();
        assert!(matches!(error, Failure::Usage(m)
                if m == "k.u64: key 1 is 4294967296, expected at most 4294967295 for u32"));
    }
}
