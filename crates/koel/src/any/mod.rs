//! Columns whose types are known at run time, the [verbs](crate::verbs) on them and tables of them:
//! the door for files, Python, SQL and whatever else has data types as values.
//!
//! A [`Column`] is borrowed from host memory: a slice of numbers, Booleans or strings, as Arrow has
//! them, with nulls where it has any. [`Keys`] are one or several columns whose rows are compared.
//! Results are columns of their own memory, [`ColumnVec`]. A [`Table`] is a map, a set, an index or
//! a multimap of columns, in memory or in a file. For this module, depend on koel with the feature
//! `any`: it takes a minute of two cores to compile, as it contains every kind of table.
//!
//! ```
//! use koel::any::{Aggregate, Column, Keys, Validity};
//!
//! let device = koel::Device::cpu()?;
//! let (city, year) = (["Ulm", "Bern", "Ulm", "Ulm"], [2024i16, 2024, 2024, 2025]);
//! let (degrees, is_known) = ([21.5, 19.0, 24.5, 0.0], [true, true, true, false]);
//! let degrees = Column::from(&degrees).with_validity(Validity::Flags(&is_known))?;
//!
//! let keys = Keys::new([Column::from(&city), Column::from(&year)])?;
//! let groups = koel::any::group_by(&device, &keys)?;
//! assert_eq!(groups.first_rows(), [0, 1, 3]);
//! assert_eq!(groups.keys()?[1].values::<i16>()?, [2024, 2024, 2025]);
//! let means = groups.aggregate(Aggregate::Mean, &degrees)?;
//! assert_eq!(means.to_options::<f64>()?, [Some(23.0), Some(19.0), None]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Types
//! The [`DataType`]s are `bool`, integers of 8 to 128 bits, `f32`, `f64`, and bytes: strings of any
//! length. Dates, times, decimals and UUIDs are the integers that they consist of. Keys of floats
//! are equal as [elsewhere](crate::types): -0.0 equals 0.0, and NaN equals NaN.
//!
//! # How it works
//! Columns of up to 128 bits together, with a bit for each that may be null, become one number per
//! row; a single column without nulls is used as it is in memory. Other rows become one string of
//! bytes each, in new memory, unless they are one column of strings. What follows is what
//! [`verbs`](crate::verbs) do: types of columns are matched once per column, never per row.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod aggregate;
mod bytes;
mod column;
mod data_type;
mod keys;
mod layout;
mod numbers;
mod rows;
mod table;
mod verbs;

pub use aggregate::Aggregate;
pub use bytes::Bytes;
pub use column::{Column, ColumnVec, Validity};
pub use data_type::{DataType, Typed};
pub use keys::{AsKeys, Keys, Nulls};
pub use table::{Kind, Retrieved, Table, TableOptions, TableReport};
pub use verbs::{GroupBy, Index, group_by, is_in, join, unique};
