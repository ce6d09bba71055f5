//! Batch updates of a set: keys are inserted or erased.
//!
//! As in [those of a map](crate::map::update), the operations are partitioned like the table. One
//! block per partition with operations reads it into shared memory, changes it there, and writes
//! the buckets that changed. The same [entries](crate::map::update) gather the operations of each
//! key and their statuses, stashed pairs come from the same lists, and operations without room are
//! left in the same way. The differences:
//!
//! * After all erased keys are removed, new keys take slots by a compare-and-swap of themselves,
//!   and evict in the same way, as in a [build](super::fill). From then on no slot becomes empty.
//! * A key whose first bucket is no longer full *comes home* from its second one. That leaves a gap
//!   there, to which other keys may come home, so this is done in rounds until no key moves.
//!   [Fillers](crate::table::layout::Shape::filler) are erased too. No key of the partition is then
//!   in its second bucket while its first has room, and lookups there read no more than in a newly
//!   built set.
use super::build::write_bucket;
use super::fill::{Filling, Outcome, evict, meet, meet_second, slot_of};
use super::layout::{Member, class_bits, fillers, finished, hash, in_bucket, is_full, taken};
use crate::table::header;
use crate::table::layout::{Layout, Shape, TableMut, class};
use crate::table::sending::Sent;
use crate::table::stash;
use crate::table::update::NONE;
use crate::table::update::{
    Applying, Batch, BatchIn, COUNTS, Entries, GONE, IS_OTHER, IS_THERE, Known, NEW, REMOVED,
    Stashed, TAKEN, There, Unstashed, WAS_THERE, Work, add_counts, begin, end, entry_bytes, gather,
    has_room, is_idle, operation, state, tell, write_header, written,
};
use koel_simt::{Buf, Shared, Thread, kernel, unroll};

/// Threads per block.
pub const THREADS: u32 = 512;
/// Buckets that a thread loads at a time.
const BATCH: usize = 2;

/// Returns the bytes of shared memory for partitions of `buckets` buckets and `entries` entries,
/// with keys of `key_bytes` bytes. `each`: operations differ.
pub const fn shared_bytes(buckets: u32, entries: u32, each: bool, key_bytes: u32) -> u32 {
    // The entries and a list of keys.
    buckets * 36 + list_room(entries) * key_bytes + entry_bytes(entries, each, 0) + ALL_COUNTS * 4
}
/// Returns the capacity of the list in keys, rounded up so that the array after it is aligned.
const fn list_room(entries: u32) -> u32 {
    (entries + 1) & !1
}

// Counters of a block, in addition to those of a map's update.
/// Keys that need a slot.
const LISTED: u32 = COUNTS;
/// Of those, the keys that end without one.
const HOMELESS: u32 = COUNTS + 1;
const ALL_COUNTS: u32 = COUNTS + 2;

// Bits of a bucket's word.
/// Mask of the slots whose keys are erased.
const ERASED: u32 = 0xFF;
/// Lowest of the class bits that the bucket had in the table.
const BEFORE: u32 = 8;
/// Lowest of the class bits that it is to have.
const NOW: u32 = 12;
/// Set if the bucket's keys have changed.
const CHANGED: u32 = 1 << 16;

/// A partition in shared memory.
#[derive(Clone, Copy)]
struct Near<K> {
    shape: Shape,
    slots: Shared<K>,
    /// One word per bucket.
    words: Shared<u32>,
}
impl<K: Member> Filling<K> for Near<K> {
    #[inline(always)]
    fn first(self, h: u32) -> u32 {
        self.shape.first(h)
    }
    #[inline(always)]
    fn other(self, h: u32, bucket: u32) -> u32 {
        self.shape.other(h, bucket)
    }
    #[inline(always)]
    #[track_caller]
    fn half(self, bucket: u32, half: u32) -> K::Half {
        K::shared_half(self.slots, 2 * bucket + half)
    }
    #[inline(always)]
    #[track_caller]
    fn last(self, bucket: u32) -> K {
        self.slots.load_volatile(bucket * K::SLOTS + K::SLOTS - 1)
    }
    #[inline(always)]
    #[track_caller]
    fn replace(self, bucket: u32, slot: u32, old: K, new: K) -> K {
        let there = self.slots.cas(bucket * K::SLOTS + slot, old, new);
        if there == old {
            self.words.fetch_or(bucket, CHANGED);
        }
        there
    }
    /// Does nothing: once all keys have slots, the class bits of all buckets are derived from them.
    #[inline(always)]
    fn mark(self, _: u32, _: u32) {}
}
impl<K: Member> Near<K> {
    #[inline(always)]
    #[track_caller]
    fn bucket(self, bucket: u32) -> [K::Half; 2] {
        [self.half(bucket, 0), self.half(bucket, 1)]
    }
    /// Calls `each` for each of the thread's share of buckets.
    #[inline(always)]
    fn each(self, t: Thread, mut each: impl FnMut(u32)) {
        let mut bucket = t.id();
        while bucket < self.shape.buckets {
            each(bucket);
            bucket += THREADS;
        }
    }
    /// Reads the partition and erases fillers. Returns the number of keys and fillers that the
    /// thread has read, and the number of fillers among them.
    #[inline(always)]
    fn read(self, t: Thread, p: u32, slots: Buf<K>) -> (u32, u32) {
        let (mut i, mut keys, mut gone) = (t.id(), 0, 0);
        while i < self.shape.buckets {
            let mut all = [[K::half(|_| K::EMPTY); 2]; BATCH];
            unroll::<BATCH>(|j| {
                let bucket = (i + j as u32 * THREADS).min(self.shape.buckets - 1);
                let at = 2 * self.shape.place(p, bucket);
                all[j] = [K::load_half(slots, at), K::load_half(slots, at + 1)];
            });
            unroll::<BATCH>(|j| {
                let (bucket, there) = (i + j as u32 * THREADS, all[j]);
                if bucket < self.shape.buckets {
                    let bits = if is_full::<K>(&there) { class_bits::<K>(there) } else { 0 };
                    let fillers =
                        fillers::<K>(self.shape, self.shape.place(p, bucket) as u32, &there);
                    let changed = if fillers != 0 { CHANGED | fillers } else { 0 };
                    self.words.store(bucket, bits << BEFORE | changed);
                    gone += fillers.count_ones();
                    unroll::<2>(|half| {
                        K::store_shared_half(self.slots, 2 * bucket + half as u32, there[half]);
                        keys += taken::<K>(there[half]);
                    });
                }
            });
            i += BATCH as u32 * THREADS;
        }
        (keys, gone)
    }
    /// Closes the gaps that erased keys leave in a bucket, which no other thread touches.
    #[inline(always)]
    #[track_caller]
    fn close(self, bucket: u32) {
        let word = self.words.load(bucket);
        if word & ERASED == 0 {
            return;
        }
        let (there, mut to) = (self.bucket(bucket), bucket * K::SLOTS);
        unroll::<8>(|s| {
            if s < K::SLOTS as usize && word >> s & 1 == 0 {
                // Empty slots stay last.
                self.slots.store(to, in_bucket::<K>(&there, s));
                to += 1;
            }
        });
        while to < (bucket + 1) * K::SLOTS {
            self.slots.store(to, K::EMPTY);
            to += 1;
        }
        self.words.store(bucket, word & !ERASED);
    }
    /// Moves each key of a bucket home whose first bucket has room, and erases it here. Returns
    /// whether a key moved.
    #[inline(always)]
    #[track_caller]
    fn leave_for_home(self, bucket: u32) -> bool {
        let (there, mut ready, mut gone) = (self.bucket(bucket), 0u32, 0u32);
        unroll::<8>(|s| {
            if s < K::SLOTS as usize {
                let key = in_bucket::<K>(&there, s);
                let first = self.first(hash(key));
                let can = key != K::EMPTY && first != bucket && self.last(first) == K::EMPTY;
                ready |= (can as u32) << s;
            }
        });
        while ready != 0 {
            let s = ready.trailing_zeros();
            ready &= ready - 1;
            // No other thread moves it.
            let key = self.slots.load_volatile(bucket * K::SLOTS + s);
            if meet(self, self.first(hash(key)), key) == Outcome::New {
                gone |= 1 << s;
            }
        }
        if gone != 0 {
            self.words.fetch_or(bucket, CHANGED | gone);
        }
        gone != 0
    }
    /// Records that a key is not in its first bucket.
    #[inline(always)]
    #[track_caller]
    fn overflowed(self, h: u32) {
        self.words.fetch_or(self.first(h), 1 << (NOW + class(h)));
    }
}

/// Returns the location of a key before the batch, and whether the table contains it.
#[inline(always)]
fn find<K: Member>(
    part: Near<K>,
    stashed: Stashed,
    key: K,
    table_header: Buf<u32>,
) -> (There, bool) {
    if key == K::EMPTY {
        return (There::Header, table_header.load(header::HELD) != 0);
    }
    let mut in_stash = None;
    let in_slot = slot_of(part, key, || {
        in_stash = stashed.slot_of::<K::Pairs>(key);
        None
    });
    match (in_slot, in_stash) {
        (Some(slot), _) => (There::Slot(slot), true),
        (None, Some(slot)) => (There::Stash(slot), true),
        (None, None) => (There::Nowhere, false),
    }
}
/// What the steps of an update share.
#[derive(Clone, Copy)]
struct Updating<K: Member> {
    t: Thread,
    batch: Batch<K::Pairs, false>,
    stashed: Stashed,
    table: TableMut<K>,
    part: Near<K>,
    /// Keys that need a slot.
    list: Shared<K>,
    entries: Entries,
    counts: Shared<u32>,
}
impl<K: Member> Updating<K> {
    /// Allocates the partition and the entries without clearing them.
    #[inline(always)]
    fn new(t: Thread, work: Work<K::Pairs, false>, table: TableMut<K>) -> Updating<K> {
        let Work { batch, stashed, .. } = work;
        let Batch { shape, applying, .. } = batch;
        let room = applying.entries;
        let mut shared = t.shared();
        let in_slots = shared.array::<K>(shape.buckets * K::SLOTS);
        let list = shared.array::<K>(list_room(room));
        let is_each = applying.operation == operation::EACH;
        let entries = Entries::new::<K, false>(&mut shared, room, is_each);
        let part = Near { shape, slots: in_slots, words: shared.array::<u32>(shape.buckets) };
        let counts = shared.array::<u32>(ALL_COUNTS);
        Updating { t, batch, stashed, table, part, list, entries, counts }
    }
    /// Clears the entries and the counters. A barrier must follow.
    #[inline(always)]
    fn clear(self) {
        let (t, id) = (self.t, self.t.id());
        let is_each = self.batch.applying.operation == operation::EACH;
        self.entries.clear::<K, false, THREADS>(t, is_each);
        if id < ALL_COUNTS {
            self.counts.store(id, 0);
        }
    }
    /// Reads the partition, erases its fillers, and gathers the effect of the operations on each
    /// key. Returns the entries of the thread's operations, or `None` if the entries had no room.
    #[inline(always)]
    fn read(self, batch_state: Buf<u32>) -> Option<Known> {
        let Updating { t, batch, part, entries, counts, .. } = self;
        let (keys, fillers) = part.read(t, batch.p, self.table.slots);
        add_counts(counts, [(TAKEN, keys), (REMOVED, fillers)]);
        gather::<K::Pairs, false, THREADS>(t, batch, entries, counts, batch_state, |_| {
            K::narrowed(0)
        })
    }
    /// Determines the outcome for each key in the thread of its first operation: erases keys, and
    /// lists those that need a slot. Counts what changes. A barrier must follow.
    #[inline(always)]
    fn decide(self, known: Known) {
        let Updating { batch, stashed, part, list, entries, counts, .. } = self;
        let (mut new, mut gone, mut removed) = (0u32, 0u32, 0u32);
        batch.for_each::<THREADS>(self.t, |turn, key, number| {
            let Some(at) = known.entry::<K::Pairs>(entries, turn, key) else { return };
            if entries.first.load(at) != number {
                return;
            }
            let (there, was_there) = find(part, stashed, key, self.table.header);
            let (is_erased, made) = written(batch, entries, at);
            let is_there = was_there && !is_erased || made != !0;
            let (before, now) = (was_there as u32 * WAS_THERE, is_there as u32 * IS_THERE);
            let is_other = (was_there != is_there) as u32 * IS_OTHER;
            entries.assigned.store(at, before | now | is_other);
            if was_there == is_there {
                return;
            }
            (new, gone) = (new + is_there as u32, gone + was_there as u32);
            match there {
                There::Slot(slot) => {
                    part.words.fetch_or(slot / K::SLOTS, CHANGED | 1 << (slot % K::SLOTS));
                    removed += 1;
                }
                There::Stash(slot) => stashed.leave(slot),
                // The list has room for every entry.
                There::Nowhere => list.store(counts.fetch_add(LISTED, 1), key),
                There::Header => {}
            }
        });
        add_counts(counts, [(NEW, new), (GONE, gone), (REMOVED, removed)]);
    }
    /// Lists all keys in the stash: they try to leave it. Returns the number of keys that were
    /// there before the batch.
    #[inline(always)]
    fn list_stashed(self) -> u32 {
        let Updating { t, stashed, list, counts, .. } = self;
        let room = self.batch.applying.entries;
        let mut stashed_before = 0;
        if stashed.list != NONE {
            stashed_before = stashed.for_each::<THREADS>(t, |slot, has_left| {
                if !has_left {
                    let at = counts.fetch_add(LISTED, 1);
                    if at < room {
                        list.store(at, K::Pairs::key(stashed.pair::<K::Pairs>(slot)));
                    }
                }
            });
            t.barrier();
        }
        stashed_before
    }
    /// Returns whether the list was too short for its keys, or the partition would get more keys
    /// than two choices place well.
    #[inline(always)]
    fn is_too_full(self, new: u32, listed: u32) -> bool {
        let (applying, counts) = (self.batch.applying, self.counts);
        let keys = (counts.load(TAKEN) + listed).wrapping_sub(counts.load(REMOVED));
        listed > applying.entries || new != 0 && listed != 0 && keys > applying.most
    }
    /// Closes the gaps of erased keys, and moves keys home, in rounds until no key moves.
    #[inline(always)]
    fn bring_home(self) {
        let Updating { t, part, .. } = self;
        loop {
            part.each(t, |bucket| part.close(bucket));
            t.barrier();
            let mut moved = false;
            part.each(t, |bucket| moved |= part.leave_for_home(bucket));
            if t.barrier_count(moved) == 0 {
                break;
            }
        }
    }
    /// Puts the listed keys into empty slots. Those that find both buckets full stay listed.
    #[inline(always)]
    fn place(self, listed: u32) {
        let (part, list) = (self.part, self.list);
        let mut i = self.t.id();
        while i < listed {
            let key = list.load(i);
            if meet(part, part.first(hash(key)), key) != Outcome::Full
                || meet_second(part, key) != Outcome::Full
            {
                list.store(i, K::EMPTY);
            }
            i += THREADS;
        }
    }
    /// Makes room for the keys that are still listed. Those that end without a slot are counted and
    /// take their places in the list.
    #[inline(always)]
    fn evict(self, listed: u32) {
        let Updating { part, list, .. } = self;
        let mut homeless = 0;
        let mut i = self.t.id();
        while i < listed {
            let key = list.load(i);
            if key != K::EMPTY {
                let left = evict(part, key);
                homeless += left.is_some() as u32;
                list.store(i, left.unwrap_or(K::EMPTY));
            }
            i += THREADS;
        }
        if homeless != 0 {
            self.counts.fetch_add(HOMELESS, homeless);
        }
    }
    /// Reserves room in the stash for the keys without a slot. Returns whether there is room.
    #[inline(always)]
    fn reserve(self, stashed_before: u32) -> bool {
        let TableMut { stash_bits, header: table_header, .. } = self.table;
        let homeless = self.counts.load(HOMELESS);
        if homeless != 0 || self.stashed.list != NONE {
            let more = || homeless.wrapping_sub(stashed_before);
            if !has_room(self.t, stash_bits, self.counts, table_header, more) {
                return false;
            }
        }
        true
    }
    /// Records which keys overflow from where.
    #[inline(always)]
    fn mark(self) {
        let part = self.part;
        part.each(self.t, |bucket| {
            let there = part.bucket(bucket);
            unroll::<8>(|s| {
                if s < K::SLOTS as usize {
                    let key = in_bucket::<K>(&there, s);
                    if key != K::EMPTY && part.first(hash(key)) != bucket {
                        part.overflowed(hash(key));
                    }
                }
            });
        });
    }
    /// Puts the keys without a slot into the stash, and marks their classes.
    #[inline(always)]
    fn stash(self, listed: u32) {
        let TableMut { stash_bits, stash, .. } = self.table;
        let mut i = self.t.id();
        while i < listed {
            let key = self.list.load(i);
            if key != K::EMPTY {
                self.part.overflowed(hash(key));
                // There is room: it was reserved, or is what the stashed pairs had before.
                stash::insert::<K::Pairs>(stash, stash_bits, K::Pairs::pair(key, K::narrowed(0)));
            }
            i += THREADS;
        }
    }
    /// Writes the buckets whose keys or class bits have changed.
    #[inline(always)]
    fn write(self) {
        let (part, Batch { shape, p, .. }) = (self.part, self.batch);
        part.each(self.t, |bucket| {
            let word = part.words.load(bucket);
            if word & CHANGED != 0 || (word >> BEFORE ^ word >> NOW) & 0xF != 0 {
                write_bucket::<K>(
                    self.table.slots,
                    shape.place(p, bucket),
                    finished::<K>(part.bucket(bucket), word >> NOW & 0xF),
                );
            }
        });
    }
}

/// Applies the operations. On failure, leaves the table as it was, except for the pairs that were
/// in the stash, and returns the reason: a word of the [`state`], and the number of new keys.
#[inline(always)]
fn apply<K: Member>(
    t: Thread,
    work: Work<K::Pairs, false>,
    table: TableMut<K>,
    batch_state: Buf<u32>,
) -> Result<(), (u32, u32)> {
    work.may_begin()?;
    let update = Updating::new(t, work, table);
    let Updating { batch, entries, counts, .. } = update;
    update.clear();
    t.barrier();
    let Some(known) = update.read(batch_state) else { return Err((state::CROWDED, 0)) };
    update.decide(known);
    t.barrier();
    let stashed_before = update.list_stashed();
    let (new, listed) = (counts.load(NEW), counts.load(LISTED));
    if update.is_too_full(new, listed) {
        return Err((state::REFUSED, new));
    }
    if counts.load(REMOVED) != 0 {
        update.bring_home();
    }
    update.place(listed);
    t.barrier();
    update.evict(listed);
    t.barrier();
    if !update.reserve(stashed_before) {
        return Err((state::REFUSED, new));
    }
    update.mark();
    update.stash(listed);
    t.barrier();
    update.write();
    tell::<K::Pairs, false, THREADS>(t, batch, entries, known);
    if t.id() == 0 {
        write_header(entries, counts, table.header, || 0);
    }
    Ok(())
}

const _: () = assert!(THREADS == 512);

/// Applies the operations of partition `t.block()`: see the module. Inputs and results are those of
/// [`map_update`](fn@crate::map::update::map_update). The values of the batch are not read.
#[kernel(
    image = SET_UPDATE, threads = 512, min_blocks = 2, starts_early,
    shared = shared_bytes(
        table.shape.buckets, applying.entries, applying.operation == operation::EACH,
        size_of::<K>() as u32
    ),
    for K in [u32, u64]
)]
pub fn set_update<K: Member>(
    t: Thread,
    applying: Applying,
    table: TableMut<K>,
    sent: Sent<u64>,
    unstashed: Unstashed,
    batch: BatchIn<K>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let p = t.block();
    if let Some(work) = begin::<K::Pairs, _, false>(p, applying, table, sent, unstashed, batch) {
        let done = apply::<K>(t, work, table, batch.state);
        end::<K::Pairs, false, THREADS>(
            t,
            work,
            done,
            table.stash_bits,
            unstashed.lists,
            table.stash,
            batch.state,
        );
    }
}
/// Applies the operations that [sparse](super::sparse) left, in partitions `t.block()`,
/// `t.block() + t.grid_dim()` and so on.
#[kernel(
    image = SET_UPDATE, threads = 512, min_blocks = 2, starts_early,
    shared = shared_bytes(
        table.shape.buckets, applying.entries, applying.operation == operation::EACH,
        size_of::<K>() as u32
    ),
    for K in [u32, u64]
)]
pub fn set_update_left<K: Member>(
    t: Thread,
    applying: Applying,
    table: TableMut<K>,
    sent: Sent<u64>,
    unstashed: Unstashed,
    batch: BatchIn<K>,
) {
    t.wait_for_previous();
    t.let_next_start();
    if is_idle::<THREADS>(t, table.shape, unstashed.lists, batch.state) {
        return;
    }
    for p in t.strided(t.block(), t.grid_dim(), table.shape.partitions) {
        if let Some(work) = begin::<K::Pairs, _, false>(p, applying, table, sent, unstashed, batch)
        {
            let done = apply::<K>(t, work, table, batch.state);
            end::<K::Pairs, false, THREADS>(
                t,
                work,
                done,
                table.stash_bits,
                unstashed.lists,
                table.stash,
                batch.state,
            );
            t.barrier();
        }
    }
}
