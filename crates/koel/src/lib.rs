//! Real-time parallel hash tables: built from millions of keys and looked up in milliseconds, on a
//! GPU and on a CPU.
//!
//! The modules, from the bottom up:
//! * [`device`]: devices, buffers and streams;
//! * [`primitives`]: parallel algorithms on buffers;
//! * tables: [`Map`], the main one; [`Set`], the same without values; the two-way [`Index`] and the
//!   [`MultiMap`] built on it; all of these for [128-bit keys](keys128) and for [strings];
//!   [`HostMap`] and [`HostSet`], which change one key after the other;
//! * [verbs] on columns in host memory: [`count`], [`group_by`], [`join`]; and on columns whose
//!   types are known [at run time](any), as [tables](any::Table), too (feature `any`);
//! * [`ConcurrentMap`]: a map in host memory that many threads read and change at once;
//! * [types] of keys and values;
//! * [files](mod@file) of tables;
//! * [`limits`]: measures the memory rates that bound any table on this machine.
//!
//! The [`guide`] says which table to choose.
//!
//! ```
//! let device = koel::Device::best()?; // a GPU if a driver finds one, else this CPU
//! let map = koel::Map::build(&device, &[3u32, 5, 7], &[30u32, 50, 70])?;
//! assert_eq!(map.get(&[5, 6])?, [Some(50), None]);
//! # Ok::<(), koel::Error>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "any"),
    allow(dead_code, unused_imports, reason = "what only `any` uses stands beside its like")
)]

// Derives name this crate, in its own tests, too.
extern crate self as koel;

#[cfg(any(feature = "any", doc))]
#[cfg_attr(docsrs, doc(cfg(feature = "any")))]
pub mod any;
mod concurrent;
mod cpu;
pub mod device;
mod duplicates;
mod error;
mod fallible;
pub mod file;
pub mod groups;
#[cfg(any(doc, doctest))]
pub mod guide;
mod hash;
pub mod keys128;
pub mod limits;
pub mod map;
mod options;
mod parallel;
pub mod primitives;
mod rows;
mod seed;
#[cfg(feature = "serde")]
mod serial;
pub mod set;
#[cfg(test)]
#[allow(dead_code, reason = "integration tests use the rest")]
mod special;
pub mod strings;
mod table;
mod tagged;
pub mod types;
pub mod verbs;

pub use concurrent::{ConcurrentMap, ConcurrentMapOptions};
#[doc(inline)]
pub use device::{Buffer, Device, DeviceKind, Graph, Stream, View, ViewMut};
pub use duplicates::Duplicates;
pub use error::{Error, Result};
#[doc(inline)]
pub use groups::{
    Index, IndexBuilder, IndexOptions, MultiMap, MultiMapBuilder, MultiMapOptions, NO_ID,
    Retrieved, Retriever, ValueOrder, group_counts,
};
#[doc(inline)]
pub use keys128::{Map128, Map128Builder, Set128, Set128Builder};
pub use koel_derive::{Key, Value};
#[doc(inline)]
pub use map::{HostMap, Map, MapBuilder, MapJoiner, MapOptions, MapUpdater, Operation};
#[doc(inline)]
pub use set::{HostSet, Set, SetBuilder, SetCombiner, SetOperation, SetOptions, SetUpdater};
#[doc(inline)]
pub use strings::{
    MapToStrings, StringIndex, StringMap, StringMapToStrings, StringMultiMap, StringSet, StringVec,
    Strings, ToStrings, string_counts,
};
pub use table::BuildReport;
pub use table::update::{Operations, Outcome};
#[doc(inline)]
pub use types::{DeviceKey, DeviceValue, Key, TotalF32, TotalF64, Value};
#[doc(inline)]
pub use verbs::{GroupBy, How, Joined, count, group_by, join};

/// Tests the README's example. A test in `xtask/src/package.rs` checks that the repository's README
/// has the same one.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
