//! Entries of a block: the combined effect of a batch's operations on each key, gathered by
//! atomics.
use super::work::{Batch, LINKED};
use super::{WAS_THERE, operation, state, status_of};
use crate::hash::mulhi;
use crate::table::layout::{EMPTY, Layout, Number};
use crate::table::sending::Routed;
use crate::table::stash;
use koel_simt::{Buf, Shared, SharedMem, Thread};

/// The keys of a block's operations and the effect of these. The ambiguous key has the last entry,
/// after all others.
#[derive(Clone, Copy)]
pub(crate) struct Entries {
    pub room: u32,
    pub keys: Shared<u64>,
    /// Index of the first operation.
    pub first: Shared<u32>,
    /// Index of the last assignment after all erasures, plus 1. Later the outcome for the key:
    /// [`WAS_THERE`] and so on.
    pub assigned: Shared<u32>,
    /// Sum of what is added after that assignment, or the final value: low words, and high words of
    /// wide values. A set has neither.
    pub(super) low: Shared<u32>,
    pub(super) high: Shared<u32>,
    /// Index of the last erasure, plus 1. This field and those below are used only if operations
    /// differ.
    pub(super) erased: Shared<u32>,
    /// Index of the first inserting or adding operation after that erasure.
    pub(super) made: Shared<u32>,
    /// Last link of the key's operations, plus 1.
    pub(super) chains: Shared<u32>,
    /// Linked operations: index, whether it erases (bit 32), and the next link plus 1 (from bit 33
    /// on).
    pub(super) links: Shared<u64>,
}

/// Returns the bytes of shared memory of `entries` entries. `each`: operations differ. Values have
/// `value_words` words of 32 bits.
pub(crate) const fn entry_bytes(entries: u32, each: bool, value_words: u32) -> u32 {
    let (words, arrays) = if each { (2, 5) } else { (1, 2) };
    entries * words * 8 + (entries + 1) * (arrays + value_words) * 4
}

impl Entries {
    /// Allocates `room` entries.
    #[inline(always)]
    pub(crate) fn new<V: Number, const VALUES: bool>(
        shared: &mut SharedMem,
        room: u32,
        is_each: bool,
    ) -> Entries {
        let (keys, links) =
            (shared.array::<u64>(room), shared.array::<u64>(if is_each { room } else { 0 }));
        let mut words = |is_there: bool| shared.array::<u32>(if is_there { room + 1 } else { 0 });
        Entries {
            room,
            keys,
            first: words(true),
            assigned: words(true),
            low: words(VALUES),
            high: words(VALUES && size_of::<V>() > 4),
            erased: words(is_each),
            made: words(is_each),
            chains: words(is_each),
            links,
        }
    }
    /// Empties all entries; all threads of a block call it.
    #[inline(always)]
    pub(crate) fn clear<V: Number, const VALUES: bool, const THREADS: u32>(
        self,
        t: Thread,
        is_each: bool,
    ) {
        let mut i = t.id();
        while i <= self.room {
            if i < self.room {
                self.keys.store(i, EMPTY);
            }
            self.first.store(i, !0);
            self.assigned.store(i, 0);
            if VALUES {
                self.set(i, V::default());
            }
            if is_each {
                self.erased.store(i, 0);
                self.made.store(i, !0);
                self.chains.store(i, 0);
            }
            i += THREADS;
        }
    }
    /// Returns the entry of a mixed key, and creates it if necessary; `None` if there is no room,
    /// or if the search takes more than `tries` probes.
    #[inline(always)]
    fn of_within<L: Layout>(self, tries: u32, key: L::Mixed) -> Option<u32> {
        if key == L::AMBIGUOUS {
            return Some(self.room);
        }
        let word = key.widened();
        // Spread, not the hash: keys may have been crafted to share one hash.
        let (mut at, mut looked) = (mulhi(stash::spread::<L>(key), self.room), 0);
        while looked < tries {
            let mut there = self.keys.load_volatile(at);
            if there == EMPTY {
                there = self.keys.cas(at, EMPTY, word);
            }
            if there == EMPTY || there == word {
                return Some(at);
            }
            at = if at + 1 < self.room { at + 1 } else { 0 };
            looked += 1;
        }
        None
    }
    /// Adds to the sum of an entry in 32-bit words, for which shared-memory atomics are fast.
    #[inline(always)]
    pub(super) fn add<V: Number>(self, at: u32, value: V) {
        let value = value.widened();
        let before = self.low.fetch_add(at, value as u32);
        if size_of::<V>() > 4 {
            let carry = before.checked_add(value as u32).is_none();
            self.high.fetch_add(at, ((value >> 32) as u32).wrapping_add(carry as u32));
        }
    }
    #[inline(always)]
    pub(crate) fn sum<V: Number>(self, at: u32) -> u64 {
        let high = if size_of::<V>() > 4 { self.high.load(at) } else { 0 };
        (high as u64) << 32 | self.low.load(at) as u64
    }
    #[inline(always)]
    pub(crate) fn set<V: Number>(self, at: u32, value: V) {
        self.low.store(at, value.widened() as u32);
        if size_of::<V>() > 4 {
            self.high.store(at, (value.widened() >> 32) as u32);
        }
    }
}

/// The entries of a thread's first operations, which [`gather`] looks up for all later steps.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// Entries of operations 0 (low half) and 1; [`NO_ENTRY`] if there was no room.
    of_first: u32,
}

/// Number of operations whose entries are known, and the bits that each takes.
const KNOWN: u32 = 2;
const KNOWN_BITS: u32 = 16;

/// Mark: the operation has no entry.
const NO_ENTRY: u32 = (1 << KNOWN_BITS) - 1;

impl Known {
    /// Returns the entry of the thread's operation number `turn`, on this key.
    #[inline(always)]
    pub(crate) fn entry<L: Layout>(
        self,
        entries: Entries,
        turn: u32,
        key: L::Mixed,
    ) -> Option<u32> {
        if turn >= KNOWN {
            return entries.of_within::<L>(entries.room, key);
        }
        let at = self.of_first >> (turn * KNOWN_BITS) & NO_ENTRY;
        (at != NO_ENTRY).then_some(at)
    }
}

/// Raises a word to `to`. Usually the word is already that large, and no atomic is needed.
#[inline(always)]
pub(super) fn raise(words: Shared<u32>, at: u32, to: u32) {
    if words.load_volatile(at) < to {
        words.fetch_max(at, to);
    }
}

#[inline(always)]
pub(super) fn lower(words: Shared<u32>, at: u32, to: u32) {
    if words.load_volatile(at) > to {
        words.fetch_min(at, to);
    }
}

/// Gathers the effect of the operations on each key. Returns the entries of the thread's
/// operations, or `None` if the block's entries had no room.
#[inline(always)]
pub(crate) fn gather<L: Routed, const VALUES: bool, const THREADS: u32>(
    t: Thread,
    batch: Batch<L, VALUES>,
    entries: Entries,
    counts: Shared<u32>,
    batch_state: Buf<u32>,
    value: impl Fn(u32) -> L::Value,
) -> Option<Known> {
    let (mut crowded, mut known) = (false, Known { of_first: !0 });
    batch.in_turns::<THREADS>(|turn| {
        let (mut at, mut number) = (NO_ENTRY, 0);
        if let Some((key, of_key)) = batch.in_turn::<THREADS>(t, turn) {
            // Once the entries are full, searching them takes long.
            let tries = if crowded { 0 } else { entries.room };
            (at, number) = (entries.of_within::<L>(tries, key).unwrap_or(NO_ENTRY), of_key);
            crowded |= at == NO_ENTRY;
        }
        // The threads of a warp find their entries after different times, and go on together.
        t.warp().sync();
        if turn < KNOWN {
            known.of_first ^= (at ^ NO_ENTRY) << (turn * KNOWN_BITS);
        }
        if at == NO_ENTRY {
            return;
        }
        lower(entries.first, at, number);
        match batch.all() {
            operation::ASSIGN => raise(entries.assigned, at, number + 1),
            operation::ADD => entries.add(at, value(number)),
            operation::EACH if batch.operation(number) == operation::ERASE => {
                raise(entries.erased, at, number + 1);
            }
            _ => {}
        }
    });
    if t.barrier_count(crowded) != 0 {
        return None;
    }
    if batch.all() == operation::EACH {
        batch.for_each::<THREADS>(t, |turn, key, number| {
            let Some(at) = known.entry::<L>(entries, turn, key) else { return };
            let (erased, operation) = (entries.erased.load(at), batch.operation(number));
            if number >= erased && operation == operation::ASSIGN {
                raise(entries.assigned, at, number + 1);
            } else if number >= erased && operation != operation::ERASE {
                lower(entries.made, at, number);
            }
            if erased != 0 {
                let link = counts.fetch_add(LINKED, 1);
                if link < entries.room {
                    let next = entries.chains.swap(at, link + 1);
                    let erases = (operation == operation::ERASE) as u64;
                    entries.links.store(link, (next as u64) << 33 | erases << 32 | number as u64);
                } else {
                    crowded = true;
                }
            }
        });
        if t.barrier_count(crowded) != 0 {
            if t.id() == 0 {
                batch_state.fetch_add(state::LINKED, 1);
            }
            return None;
        }
        if VALUES {
            batch.for_each::<THREADS>(t, |turn, key, number| {
                let Some(at) = known.entry::<L>(entries, turn, key) else { return };
                let is_last =
                    number >= entries.erased.load(at) && number >= entries.assigned.load(at);
                if is_last && batch.operation(number) == operation::ADD {
                    entries.add(at, value(number));
                }
            });
            t.barrier();
        }
    }
    Some(known)
}

/// Writes the status of each operation.
#[inline(always)]
pub(crate) fn tell<L: Routed, const VALUES: bool, const THREADS: u32>(
    t: Thread,
    batch: Batch<L, VALUES>,
    entries: Entries,
    known: Known,
) {
    batch.for_each::<THREADS>(t, |turn, key, number| {
        let Some(at) = known.entry::<L>(entries, turn, key) else { return };
        let (was_first, operation) = (entries.first.load(at) == number, batch.operation(number));
        let fate = entries.assigned.load(at);
        let mut was_there =
            if was_first { fate & WAS_THERE != 0 } else { operation != operation::ERASE };
        if batch.all() == operation::EACH {
            was_there |= !was_first;
            let mut link = entries.chains.load(at);
            // Index of the latest operation before this one, plus 1.
            let mut latest = 0;
            while link != 0 {
                let word = entries.links.load(link - 1);
                if (word as u32) < number && word as u32 + 1 > latest {
                    (latest, was_there) = (word as u32 + 1, word >> 32 & 1 == 0);
                }
                link = (word >> 33) as u32;
            }
        }
        batch.statuses.store(number, status_of(operation, was_there));
    });
}
