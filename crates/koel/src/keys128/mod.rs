//! Keys of 128 bits: UUIDs, hashes, packed tuples. A map, a set and a two-way index of them.
//!
//! # How it works
//! The keys lie in an array, in *rows*, in the order of the input. A flagship [map](crate::Map) has
//! the row of each key under a 64-bit [fingerprint] of the key. A lookup finds the row, and
//! compares the key there: a fingerprint is never taken for a key.
//!
//! The function that makes fingerprints is drawn from a universal family: two keys share one with
//! probability 2^-64. A build looks up every key of its input, and if one is not found, because
//! another one has its fingerprint, it draws another function and begins again; of 2^27
//! keys that happens once in 2,000 builds, of 2^31 once in eight. The first draw follows from the
//! seed. Those after it are at random, so that nobody can choose keys that collide in them; answers
//! do not depend on the draw.
//!
//! # Guarantees
//! Every key can be stored. Equal keys are resolved by [`Duplicates`]; they take no memory in what
//! is built. Answers, rows, ids and the order of [`pairs`](Map128::pairs) and
//! [`keys`](Set128::keys) are the same on every device and in every run. A build fails only for
//! lack of memory or, if asked to, for equal keys.
//!
//! ```
//! use koel::{Device, Index128, Map128, Set128};
//!
//! let device = Device::cpu()?; // or Device::best(): a GPU if a driver finds one
//! let ids = [0x0193_b3a0_u128 << 96 | 7, 3, u128::MAX];
//! let map = Map128::build(&device, &ids, &[70u32, 30, 90])?;
//! assert_eq!(map.get(&[3, 4, u128::MAX])?, [Some(30), None, Some(90)]);
//!
//! let set = Set128::build(&device, &[5, 5, 1 << 100])?;
//! assert_eq!((set.len(), set.contains(&[5, 6])?), (2, vec![true, false]));
//!
//! // Ids in the order in which keys first come.
//! let (index, column) = Index128::encode(&device, &[1 << 100, 5, 1 << 100])?;
//! assert_eq!((column, index.keys_of(&[1])?), (vec![0, 1, 0], vec![Some(5)]));
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Cost
//! Of a lookup, in sectors of 32 bytes read at random, at load 0.8: 1.13 of the table, one for the
//! row, one for the key, one for the value. A key that is not there costs 1.11. One launch.
//!
//! A build of distinct keys is that of a map of `u64` and `u32` (96 bytes of memory traffic a key)
//! between a launch that makes fingerprints (28 bytes) and one that looks all keys up (17 bytes,
//! and two sectors at random); then keys and values are copied. If keys come more than once, those
//! that stay are compacted, and a smaller map is built of them alone. Five launches or six, a fill
//! and two copies; with equal keys eleven to fourteen. It waits for the device once in between, for
//! counts, and at its end.
//!
//! Memory: 36 bytes and a value for each key at load 0.8, of which 20 are the table. Besides, a
//! builder keeps 13 bytes for each key of its greatest input and what a
//! [`MapBuilder`](crate::MapBuilder) keeps.
//!
//! # In a loop, and in files
//! A `rebuild` ([`Map128Builder::rebuild`], [`Set128Builder::rebuild`],
//! [`Index128Builder::rebuild`]) builds in the memory that a table has: nothing is allocated, and
//! it waits for the counts in between alone.
//!
//! `save`, `load` and `open` are as those of [`Map`](crate::Map): a file has the table, the keys
//! and the values one after the other, and what is opened is looked up where it is: see
//! [`file`](mod@crate::file).
//!
//! [fingerprint]: koel_kernels::keys128::fingerprint::Fingerprint
mod file;
mod host;
mod index;
mod map;
mod set;

#[cfg(doc)]
use crate::Duplicates;
pub use index::{Index128, Index128Builder};
pub use koel_kernels::keys128::find::RowsRef;
use koel_kernels::keys128::find::keys128_rows;
pub use koel_kernels::keys128::fingerprint::Fingerprint;
pub use map::{Map128, Map128Builder, Map128Options};
pub use set::{Set128, Set128Builder};

/// Threads of a block of all kernels here.
const THREADS: u32 = keys128_rows::SPEC.threads;

/// How a build went.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report128 {
    /// Keys stored.
    pub keys: usize,
    /// Keys dropped because they were equal to others.
    pub duplicates: usize,
    /// Fingerprint functions that were drawn: more than one if two keys shared a fingerprint, 0 if
    /// the table came from a file.
    pub attempts: u32,
    /// Fingerprints in the stash of the table.
    pub stashed: usize,
    /// Bytes that are kept.
    pub bytes: usize,
    /// Bytes that the build needed besides, kept by the builder.
    pub scratch_bytes: usize,
    /// Seconds that the device worked on it; `None` after a `rebuild`, and if the table came from
    /// a file.
    pub device_seconds: Option<f64>,
}
