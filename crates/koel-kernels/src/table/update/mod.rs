//! Operations on a table in batches: what they are, what becomes of them, and what a block does
//! with those of its partition before and behind the changes themselves.
//!
//! # Equal keys
//! The result is that of doing one operation after the other, in the order of their numbers, though
//! they come in any order. Every key of a batch gets an *entry* in a table in shared memory, and
//! what its operations do is gathered there by atomics that do not ask for order: the number of the
//! first one, of the last assignment, of the last erasure, the sum of what is added behind those.
//! That is enough to tell the value at the end. So a key may have any number of operations.
//!
//! What each operation found depends on the one before it with the same key, and only on whether
//! that erased. Where a key is both erased and written in one batch, its operations are therefore
//! linked, and each looks for the one before it.
mod entries;
mod work;

pub(crate) use entries::{Entries, entry_bytes, gather, tell};
pub(crate) use work::{
    Batch, COUNTS, GONE, KEPT, NEW, REMOVED, Stashed, TAKEN, There, Work, add_counts, begin, end,
    has_room, is_idle, write_header,
};

use crate::table::layout::Number;
use crate::table::sending::{self, Pass, Routed, Sent};
use koel_simt::{Buf, In, Word};

/// What an operation does.
pub mod operation {
    use koel_simt::In;

    /// The key gets the value if it is missing.
    pub const INSERT: u32 = 0;
    /// The key gets the value.
    pub const ASSIGN: u32 = 1;
    /// The value is added to that of the key, modulo 2^bits; a missing key gets it.
    pub const ADD: u32 = 2;
    /// The key is removed.
    pub const ERASE: u32 = 3;
    /// Of a batch: each operation has its own, the low two bits of a byte.
    pub const EACH: u32 = 4;

    /// The operation of such a byte. Of a set, which has no values: what does not erase inserts.
    #[inline(always)]
    pub fn of(byte: u8, values: bool) -> u32 {
        let code = byte as u32 & 3;
        if values || code == ERASE { code } else { INSERT }
    }
    /// What all operations of a batch do. Of a set what does not erase inserts.
    #[inline(always)]
    pub(crate) fn of_all(all: u32, values: bool) -> u32 {
        if values || all == EACH || all == ERASE { all } else { INSERT }
    }
    /// What an operation of a batch does.
    #[inline(always)]
    pub(crate) fn of_number(all: u32, operations: In<u8>, number: u32, values: bool) -> u32 {
        match of_all(all, values) {
            EACH => of(operations.get(number), values),
            all => all,
        }
    }
}

/// What became of an operation.
pub mod status {
    /// Nothing: its partition has no room.
    pub const NOT_DONE: u8 = 0;
    /// The key was missing and has the value now.
    pub const INSERTED: u8 = 1;
    /// The key was there and has kept its value.
    pub const KEPT: u8 = 2;
    /// The key was there and has the value now.
    pub const ASSIGNED: u8 = 3;
    /// The key was there and its value is greater by this one now.
    pub const ADDED: u8 = 4;
    /// The key was there and is there no more.
    pub const ERASED: u8 = 5;
    /// The key was not there.
    pub const MISSING: u8 = 6;
}

/// The status of an operation on a key that was there, or not.
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
    /// New keys of those, as far as they were looked for, and an estimate of what comes later.
    pub const WANTED: u32 = 1;
    /// Partitions with more keys in the batch than there are entries.
    pub const CROWDED: u32 = 2;
    /// Of the crowded ones those where it is not the keys that are too many, but the operations of
    /// keys that are both erased and written.
    pub const LINKED: u32 = 3;
    /// Not 0: [few](crate::table::few) operations are not all done yet.
    pub const NEEDED: u32 = 4;
    /// From here on a word for each partition: not 0 if an earlier part of the batch left
    /// operations of it; then how many of 256 wanted new keys, plus 1.
    pub const LEFT: u32 = 5;
}

/// The value that a key has after an operation, if it had this one before.
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

/// How a batch is applied: a kernel's argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Applying {
    /// The last pass of the operations: its bins are partitions, or some of them if operations are
    /// [few](crate::table::few).
    pub pass: Pass,
    /// Partitions of a bin of the first of two passes; 0: there was one pass.
    pub group: u32,
    /// What all operations do: one of [`operation`].
    pub operation: u32,
    /// Not 0: only operations that are [not done](status::NOT_DONE) yet count.
    pub again: u32,
    /// Keys that a block has room for.
    pub entries: u32,
    /// Pairs that the buckets of a partition may have after new ones came.
    pub most: u32,
}

impl Applying {
    /// How many operations are in the bin of a partition, and how many in the overflow area, where
    /// those of other partitions are too; or in both.
    #[inline(always)]
    pub(super) fn came(&self, p: u32, sent: Sent<u64>) -> (u32, u32) {
        let Sent { cursors, spilled, group_spilled, state: sent_state, .. } = sent;
        let of_group = p.checked_div(self.group).map_or(0, |group| group_spilled.get(group));
        // What a bin had no room for is in the overflow area.
        let bin = self.pass.bin(p);
        let behind = match spilled.get(bin) | of_group {
            0 => 0,
            _ => sent_state.get(sending::state::OVERFLOWED).min(self.pass.area),
        };
        (self.pass.came(bin, cursors, spilled), behind)
    }
}

/// The operations of a batch besides their keys, and what became of them: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BatchIn<V: Word> {
    /// The value of each operation.
    pub values: In<V>,
    /// What each does, if they differ.
    pub operations: In<u8>,
    /// What became of each: a [`status`].
    pub statuses: Buf<u8>,
    /// The words of [`state`].
    pub state: Buf<u32>,
}

/// The pairs that were in the stash: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Unstashed {
    /// The pairs, and words that link them.
    pub pairs: Buf<u64>,
    /// The slot of one of each partition, or all ones.
    pub lists: Buf<u32>,
}

// What became of a key.
pub(crate) const WAS_THERE: u32 = 1;

pub(crate) const IS_THERE: u32 = 2;

pub(crate) const IS_OTHER: u32 = 4;

/// Whether the key of an entry is erased, and the number of the first operation behind that which
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

/// The end of a list of stashed pairs, or an empty one.
pub(crate) const NONE: u32 = !0;
