//! Batches of operations on a table: the operations, their outcomes, and what a block does with
//! those of its partition before and after the changes themselves.
//!
//! # Equal keys
//! The result equals that of applying the operations sequentially in index order, although they
//! arrive in any order. Every key of a batch gets an *entry* in a table in shared memory. Atomics
//! that need no order gather the effect of its operations there: the index of the first one, of the
//! last assignment, of the last erasure, and the sum of what is added after those. That determines
//! the final value, so a key may have any number of operations.
//!
//! What each operation found depends only on whether the previous one with the same key erased it.
//! If a key is both erased and written in one batch, its operations are therefore linked, and each
//! one searches for the one before it.
mod entries;
mod work;

pub(crate) use entries::{Entries, Known, entry_bytes, gather, tell};
pub(crate) use work::{
    Batch, COUNTS, GONE, KEPT, NEW, REMOVED, Stashed, TAKEN, There, Work, add_counts, begin, end,
    has_room, is_idle, write_header,
};

use crate::table::layout::Number;
use crate::table::sending::{self, Pass, Routed, Sent};
use koel_simt::{Buf, In, Word};

/// Kinds of operations.
pub mod operation {
    use koel_simt::In;

    /// Inserts the key with the value if the key is missing.
    pub const INSERT: u32 = 0;
    /// Sets the value of the key, and inserts the key if it is missing.
    pub const ASSIGN: u32 = 1;
    /// Adds the value to that of the key, modulo 2^bits; a missing key gets the value.
    pub const ADD: u32 = 2;
    /// Removes the key.
    pub const ERASE: u32 = 3;
    /// For a batch: each operation has its own kind, the low two bits of a byte.
    pub const EACH: u32 = 4;

    /// Returns the operation of a byte. In a set, which has no values, all but erasures insert.
    #[inline(always)]
    pub fn of(byte: u8, values: bool) -> u32 {
        let code = byte as u32 & 3;
        if values || code == ERASE { code } else { INSERT }
    }
    /// Returns the kind of all operations of a batch. In a set, all but erasures insert.
    #[inline(always)]
    pub(crate) fn of_all(all: u32, values: bool) -> u32 {
        if values || all == EACH || all == ERASE { all } else { INSERT }
    }
    /// Returns the kind of an operation of a batch.
    #[inline(always)]
    pub(crate) fn of_number(all: u32, operations: In<u8>, number: u32, values: bool) -> u32 {
        match of_all(all, values) {
            EACH => of(operations.get(number), values),
            all => all,
        }
    }
}

/// Outcomes of operations.
pub mod status {
    /// Not done: its partition has no room.
    pub const NOT_DONE: u8 = 0;
    /// The key was missing and now has the value.
    pub const INSERTED: u8 = 1;
    /// The key was present and kept its value.
    pub const KEPT: u8 = 2;
    /// The key was present and now has the value.
    pub const ASSIGNED: u8 = 3;
    /// The key was present and the value was added to its value.
    pub const ADDED: u8 = 4;
    /// The key was present and was removed.
    pub const ERASED: u8 = 5;
    /// The key to erase was missing.
    pub const MISSING: u8 = 6;
}

/// Returns the status of an operation on a key that was present or not.
#[inline(always)]
pub fn status_of(operation: u32, was_there: bool) -> u8 {
    match (operation, was_there) {
        (operation::ERASE, true) => status::ERASED,
        (operation::ERASE, false) => status::MISSING,
        (_, false) => status::INSERTED,
        (operation::INSERT, true) => status::KEPT,
        (operation::ASSIGN, true) => status::ASSIGNED,
        (_, true) => status::ADDED,
    }
}

/// Words that blocks write, zero before a batch.
pub mod state {
    /// Partitions that had no room for their pairs.
    pub const REFUSED: u32 = 0;
    /// New keys of those partitions, as far as they were counted, plus an estimate for later parts
    /// of the batch.
    pub const WANTED: u32 = 1;
    /// Partitions with more keys in the batch than entries.
    pub const CROWDED: u32 = 2;
    /// Crowded partitions that have too many linked operations, of keys both erased and written,
    /// rather than too many keys.
    pub const LINKED: u32 = 3;
    /// Not 0 if some of the [sparse](crate::table::sparse) operations are not done yet.
    pub const NEEDED: u32 = 4;
    /// First of a run of words, one for each partition: not 0 if an earlier part of the batch left
    /// operations of it; then how many of 256 operations wanted new keys, plus 1.
    pub const LEFT: u32 = 5;
}

/// Returns the value of a key after an operation, given its value before.
#[inline(always)]
pub fn applied<V: Number>(operation: u32, before: Option<V>, value: V) -> Option<V> {
    match (operation, before) {
        (operation::ERASE, _) => None,
        (operation::INSERT, Some(before)) => Some(before),
        (operation::ADD, Some(before)) => {
            Some(V::narrowed(before.widened().wrapping_add(value.widened())))
        }
        _ => Some(value),
    }
}

/// Parameters of an update: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Applying {
    /// Last pass over the operations. Its bins are partitions, or coarse bins of them if operations
    /// are [sparse](crate::table::sparse).
    pub pass: Pass,
    /// Partitions per bin of the first of two passes; 0 if there was one pass.
    pub coarse_bin: u32,
    /// Kind of all operations: one of [`operation`].
    pub operation: u32,
    /// Not 0 if only operations that are [not done](status::NOT_DONE) yet count.
    pub again: u32,
    /// Number of keys that a block has room for.
    pub entries: u32,
    /// Maximum number of pairs in the buckets of a partition after insertions.
    pub most: u32,
    /// Not 0 if the class bits of whole partitions are computed from their pairs. Otherwise bits
    /// are only added, as by operations in the buckets of their keys.
    pub recounts: u32,
}

impl Applying {
    /// Returns the number of operations in the bin of a partition, and the number in the overflow
    /// area, which also holds those of other partitions. Operations may be in both.
    #[inline(always)]
    pub(super) fn came(&self, p: u32, sent: Sent<u64>) -> (u32, u32) {
        let Sent { cursors, spilled, coarse_spilled, state: sent_state, .. } = sent;
        let of_coarse_bin =
            p.checked_div(self.coarse_bin).map_or(0, |coarse_bin| coarse_spilled.get(coarse_bin));
        // Operations that did not fit their bin are in the overflow area.
        let bin = self.pass.bin(p);
        let behind = match spilled.get(bin) | of_coarse_bin {
            0 => 0,
            _ => sent_state.get(sending::state::OVERFLOWED).min(self.pass.area),
        };
        (self.pass.came(bin, cursors, spilled), behind)
    }
}

/// Operations of a batch except their keys, and their outcomes: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BatchIn<V: Word> {
    /// The value of each operation.
    pub values: In<V>,
    /// Kind of each operation, if they differ.
    pub operations: In<u8>,
    /// Outcome of each operation: a [`status`].
    pub statuses: Buf<u8>,
    /// The words of [`state`].
    pub state: Buf<u32>,
}

/// Pairs taken from the stash: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Unstashed {
    /// The pairs, and the words that link them.
    pub pairs: Buf<u64>,
    /// Stash slot of one pair of each partition, or all ones.
    pub lists: Buf<u32>,
}

// Outcomes for a key.
pub(crate) const WAS_THERE: u32 = 1;

pub(crate) const IS_THERE: u32 = 2;

pub(crate) const IS_OTHER: u32 = 4;

/// Returns whether the key of an entry is erased, and the index of the first later operation that
/// inserts or adds, or all ones.
#[inline(always)]
pub(crate) fn written<L: Routed, const VALUES: bool>(
    batch: Batch<L, VALUES>,
    entries: Entries,
    at: u32,
) -> (bool, u32) {
    match batch.all() {
        operation::EACH => (entries.erased.load(at) != 0, entries.made.load(at)),
        operation::ERASE => (true, !0),
        _ => (false, entries.first.load(at)),
    }
}

/// End of a list of stashed pairs, or an empty list.
pub(crate) const NONE: u32 = !0;
