//! Verbs on columns in host memory: [`count`], [`group_by`], [`join`].
//!
//! Columns are slices of keys of [any type](crate::types), or of strings: see [`Keyed`]. Rows are
//! the positions in a column. Groups, and keys in results, are in order of first occurrence, the
//! same on every device and in every run.
//!
//! ```
//! use koel::{How, join};
//!
//! let device = koel::Device::cpu()?;
//! let words = "to be or not to be".split(' ').collect::<Vec<_>>();
//! assert_eq!(koel::count(&device, &words)?, [("to", 2), ("be", 2), ("or", 1), ("not", 1)]);
//!
//! let groups = koel::group_by(&device, &["a", "b", "a"])?;
//! let groups = groups.mean(&[1, 5, 2])?.max(&[0.5, -1.0, 3.0])?;
//! assert_eq!(groups.keys(), ["a", "b"]);
//! let (means, greatest) = groups.results();
//! assert_eq!((&means[..], &greatest[..]), (&[1.5, 5.0][..], &[3.0, -1.0][..]));
//!
//! let joined = join(&device, &[7, 8, 7], &[7, 9, 7], How::Left)?;
//! let rows = [(0, Some(0)), (0, Some(2)), (1, None), (2, Some(0)), (2, Some(2))];
//! assert!(joined.iter().eq(rows.map(|(left, right)| (Some(left), right))));
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # How it works
//! Each thread of a CPU numbers the keys of a stretch of the column in one pass, with a growing
//! table of its own; then the distinct keys of the stretches are numbered in their order. Keys that
//! ascend need no table. Where keys are many and hardly repeat, and on a GPU, a map from all keys
//! to their first rows is built instead, and every key is looked up in it; rows of the same first
//! row are one group. What follows is one pass over each column that is aggregated. On a GPU,
//! columns are copied there and first rows back.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod aggregate;
mod group_by;
pub(crate) mod groups;
mod join;
mod keyed;
pub(crate) mod row_keys;

pub(crate) use aggregate::Aggregator;
pub use aggregate::Numeric;
pub use group_by::{GroupBy, Results, count, group_by};
pub(crate) use join::joined;
pub use join::{How, Joined, NO_ROW, join};
pub use keyed::{KeyColumn, Keyed};
