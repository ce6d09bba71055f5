//! Aggregates chosen at run time: see [`Aggregate`].
use super::column::{Column, ColumnVec};
use super::data_type::{Data, DataType, Typed};
use crate::error::{Error, Result, check_length};
use crate::fallible::collect;
use crate::groups::reduction::{Max, Min, Reduction, Sum};
use crate::types::SlotValue;
use crate::verbs::{Aggregator, NO_ROW, Numeric};
use std::fmt;

/// What is computed of the values of a group, without nulls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Aggregate {
    /// The number of values that are not null, as `u64`. Of all types.
    Count,
    /// The sum: of integers of up to 64 bits as `i64` or `u64`, modulo 2^64; of Booleans, how many
    /// are true, as `u64`; of floats in their own type.
    Sum,
    /// The least value: of numbers and Booleans see [`Min`]; of strings by their bytes, a shorter
    /// one before those that it begins.
    Min,
    /// The greatest value, in the same order.
    Max,
    /// The sum as `f64`, divided by the number of values. As [`Sum`](Self::Sum), of numbers of up
    /// to 64 bits and Booleans.
    Mean,
}
impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::Mean => "mean",
        })
    }
}

/// Returns the aggregate of each group's values that are not null; null if a group has none.
pub(super) fn aggregate(
    groups: &Aggregator,
    aggregate: Aggregate,
    column: &Column<'_>,
) -> Result<ColumnVec> {
    check_length("values", column.len(), "rows", groups.ids().len())?;
    let masked = match column.is_nullable() {
        true => Some(groups.masked(|row| !column.is_null(row))?),
        false => None,
    };
    let groups = masked.as_ref().unwrap_or(groups);
    if aggregate == Aggregate::Count {
        return Ok(collect(groups.sizes().iter().map(|&size| u64::from(size)))?.into());
    }
    let result: ColumnVec = match column.data {
        Data::Bool(flags) => {
            // A byte of 0 or 1 each.
            let bytes: &[u8] = bytemuck::cast_slice(flags);
            of_flags(groups, aggregate, bytes)?
        }
        Data::I8(values) => of_numbers(groups, aggregate, values)?,
        Data::I16(values) => of_numbers(groups, aggregate, values)?,
        Data::I32(values) => of_numbers(groups, aggregate, values)?,
        Data::I64(values) => of_numbers(groups, aggregate, values)?,
        Data::U8(values) => of_numbers(groups, aggregate, values)?,
        Data::U16(values) => of_numbers(groups, aggregate, values)?,
        Data::U32(values) => of_numbers(groups, aggregate, values)?,
        Data::U64(values) => of_numbers(groups, aggregate, values)?,
        Data::F32(values) => of_numbers(groups, aggregate, values)?,
        Data::F64(values) => of_numbers(groups, aggregate, values)?,
        Data::I128(values) => return of_rows(groups, aggregate, column, |row| values[row]),
        Data::U128(values) => return of_rows(groups, aggregate, column, |row| values[row]),
        Data::Bytes(values) => return of_rows(groups, aggregate, column, |row| values.get(row)),
    };
    if masked.is_none() {
        return Ok(result);
    }
    let rows = (0..).zip(groups.sizes()).map(|(row, &size)| if size > 0 { row } else { NO_ROW });
    result.as_column().take(groups.device(), &collect(rows)?)
}
/// Returns the values of rows with the least or the greatest one of each group; null if a group has
/// none. Errors: another aggregate.
fn of_rows<V: Ord>(
    groups: &Aggregator,
    aggregate: Aggregate,
    column: &Column<'_>,
    value: impl Fn(usize) -> V + Sync,
) -> Result<ColumnVec> {
    let rows = match aggregate {
        Aggregate::Min => groups.foremost(|row, kept| value(row) < value(kept)),
        Aggregate::Max => groups.foremost(|row, kept| value(row) > value(kept)),
        Aggregate::Count | Aggregate::Sum | Aggregate::Mean => Err(Error::Setting {
            field: "aggregate",
            found: format!("{aggregate} of {}", column.data_type()),
            expected: "count, min or max, or one of numbers of up to 64 bits".into(),
        }),
    };
    column.take(groups.device(), &rows?)
}
fn of_numbers<V: SlotValue + Numeric + Typed>(
    groups: &Aggregator,
    aggregate: Aggregate,
    values: &[V],
) -> Result<ColumnVec>
where
    Sum: Reduction<V, Result: Typed>,
    Min: Reduction<V, Result = V>,
    Max: Reduction<V, Result = V>,
{
    Ok(match aggregate {
        Aggregate::Count | Aggregate::Sum => groups.reduce::<Sum, V>(values)?.into(),
        Aggregate::Min => groups.reduce::<Min, V>(values)?.into(),
        Aggregate::Max => groups.reduce::<Max, V>(values)?.into(),
        Aggregate::Mean => groups.mean(values)?.into(),
    })
}
fn of_flags(groups: &Aggregator, aggregate: Aggregate, bytes: &[u8]) -> Result<ColumnVec> {
    let result = of_numbers(groups, aggregate, bytes)?;
    if result.data_type() != DataType::U8 {
        return Ok(result);
    }
    Ok(collect(result.values::<u8>()?.iter().map(|&byte| byte != 0))?.into())
}
