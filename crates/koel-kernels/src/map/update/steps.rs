//! The steps of a block that applies the operations of its partition.
use super::buckets::{Moving, NOW, find, put_in_stash, read};
use crate::map::build::{
    CHANGED, HELP, HOMELESS, LENGTHS, LISTED, Lists, MAX_MOVES, MISSED_TWICE, Partition,
    place_missed,
};
use crate::map::records::Placed;
use crate::table::layout::{BUCKET, EMPTY, Number, TableMut, class};
use crate::table::sending::Routed;
use crate::table::update::{
    Batch, BatchIn, COUNTS, Entries, GONE, IS_OTHER, IS_THERE, KEPT, Known, NEW, NONE, REMOVED,
    Stashed, TAKEN, There, WAS_THERE, Work, add_counts, has_room, operation, written,
};
use core::marker::PhantomData;
use koel_simt::{In, Shared, Thread, unroll};

/// What the steps of an update work on.
#[derive(Clone, Copy)]
pub(super) struct Steps<L: Routed, const THREADS: u32> {
    t: Thread,
    pub batch: Batch<L>,
    stashed: Stashed,
    table: TableMut,
    /// The value of each operation.
    values: In<L::Value>,
    pub entries: Entries,
    pub part: Partition<Moving<L>>,
    /// Records of the pairs that need a slot.
    pub waiting: Lists,
    pub counts: Shared<u32>,
}
/// Numbers of pairs and keys once the outcome for each key is known.
#[derive(Clone, Copy)]
pub(super) struct Arriving {
    /// New keys.
    pub new: u32,
    /// Listed pairs, which need a slot.
    listed: u32,
    /// Pairs of the partition, including those.
    pairs: u32,
}

impl<L: Routed, const THREADS: u32> Steps<L, THREADS> {
    /// Allocates the shared memory of a block, without clearing it.
    #[inline(always)]
    pub(super) fn new(
        t: Thread,
        work: Work<L, true>,
        table: TableMut,
        of_batch: BatchIn<L::Value>,
    ) -> Self {
        let Work { batch, stashed, .. } = work;
        let Batch { shape, p, applying, .. } = batch;
        let (room, is_each) = (applying.entries, applying.operation == operation::EACH);
        let mut shared = t.shared();
        let in_slots = shared.array::<u64>(shape.buckets * 4);
        let (first, second) = (shared.array::<u64>(room), shared.array::<u64>(room));
        let entries = Entries::new::<L::Value, true>(&mut shared, room, is_each);
        let words = shared.array::<u32>((shape.buckets + 3) & !3);
        let lengths = shared.array::<u32>(LENGTHS);
        let counts = shared.array::<u32>(COUNTS);
        let (slots, unstashed) = (table.slots, stashed.unstashed);
        let from = Moving::<L> { shape, p, slots, unstashed, entries, layout: PhantomData };
        let part = Partition { number: p, shape, from, slots: in_slots, words };
        let waiting = Lists { first, second, lengths, room, build_state: of_batch.state };
        Steps { t, batch, stashed, table, values: of_batch.values, entries, part, waiting, counts }
    }
    /// Clears the entries and all counters.
    #[inline(always)]
    pub(super) fn clear(self) {
        let Steps { t, batch, .. } = self;
        let is_each = batch.applying.operation == operation::EACH;
        self.entries.clear::<L::Value, true, THREADS>(t, is_each);
        if t.id() < LENGTHS {
            self.waiting.lengths.store(t.id(), 0);
        }
        if t.id() < COUNTS {
            self.counts.store(t.id(), 0);
        }
    }
    /// Reads the partition and counts its pairs.
    #[inline(always)]
    pub(super) fn read(self) {
        let taken = read::<L, THREADS>(self.t, self.part, self.table.header);
        if taken != 0 {
            self.counts.fetch_add(TAKEN, taken);
        }
    }
    /// Computes the outcome for each key, in the thread of its first operation. This step frees
    /// slots and takes none.
    #[inline(always)]
    pub(super) fn change_keys(self, known: Known) {
        let Steps { t, batch, stashed, table, values, entries, part, counts, .. } = self;
        let (mut new, mut gone, mut removed) = (0u32, 0u32, 0u32);
        batch.for_each::<THREADS>(t, |turn, key, number| {
            let Some(at) = known.entry::<L>(entries, turn, key) else { return };
            if entries.first.load(at) != number {
                return;
            }
            let (there, before) = find::<L>(part, stashed, key, table.header);
            let value = result::<L>(batch, entries, at, before, values);
            let (was_there, is_there) =
                (before.is_some() as u32 * WAS_THERE, value.is_some() as u32 * IS_THERE);
            let is_other = (before != value) as u32 * IS_OTHER;
            entries.assigned.store(at, was_there | is_there | is_other);
            new += (before.is_none() && value.is_some()) as u32;
            gone += (before.is_some() && value.is_none()) as u32;
            if before != value {
                removed += self.change(at, key, there, value);
            }
        });
        add_counts(counts, [(NEW, new), (GONE, gone), (REMOVED, removed)]);
    }
    /// Changes the key of an entry to this value, or removes it: in its slot, or by listing a
    /// record. Returns the number of slots whose pair was removed.
    #[inline(always)]
    fn change(self, at: u32, key: L::Mixed, there: There, value: Option<L::Value>) -> u32 {
        let Steps { stashed, entries, part, waiting, .. } = self;
        let (from, mut removed) = (part.from, 0);
        let mut record = EMPTY;
        if let Some(value) = value {
            let pair = L::pair(key, value);
            record = from.record(L::head(pair), from.in_buckets() + at);
            entries.set(at, value);
        }
        match there {
            There::Slot(slot) => {
                part.slots.store_volatile(slot, record);
                let free = if value.is_none() { 1 << (slot % 4) } else { 0 };
                part.words.fetch_or(slot / 4, CHANGED | free);
                removed = (value.is_none()) as u32;
            }
            There::Stash(slot) => stashed.leave(slot),
            There::Nowhere | There::Header => {}
        }
        if value.is_some() && matches!(there, There::Stash(_) | There::Nowhere) {
            // There is room for every entry.
            waiting.first.store(waiting.lengths.fetch_add(LISTED, 1), record);
        }
        removed
    }
    /// Lists the pairs that are in the stash, which retry their buckets, as far as the list has
    /// room. Returns their number. Ends with a barrier if there are any.
    #[inline(always)]
    pub(super) fn list_stashed(self) -> u32 {
        let Steps { t, stashed, part, waiting, counts, .. } = self;
        let (from, room) = (part.from, waiting.room);
        let mut stashed_before = 0;
        if stashed.list != NONE {
            stashed_before = stashed.for_each::<THREADS>(t, |slot, has_left| {
                if !has_left {
                    let at = waiting.lengths.fetch_add(LISTED, 1);
                    if at < room {
                        let head = L::head(stashed.pair::<L>(slot));
                        let number = from.in_buckets() + room + slot;
                        waiting.first.store(at, from.record(head, number));
                        stashed.leave(slot);
                    } else {
                        counts.fetch_add(KEPT, 1);
                    }
                }
            });
            t.barrier();
        }
        stashed_before
    }
    /// Returns the numbers of pairs before the listed ones get their slots.
    #[inline(always)]
    pub(super) fn arriving(self) -> Arriving {
        let Steps { waiting: Lists { lengths, room, .. }, counts, .. } = self;
        let (new, listed) = (counts.load(NEW), lengths.load(LISTED).min(room));
        let pairs = (counts.load(TAKEN) + listed).wrapping_sub(counts.load(REMOVED));
        Arriving { new, listed, pairs }
    }
    /// Returns whether the partition would get more pairs than two choices place well, or could not
    /// reach those in the stash.
    #[inline(always)]
    pub(super) fn is_full(self, Arriving { new, listed, pairs }: Arriving) -> bool {
        // No pair may stay in the stash of a table of one bucket: no filler could keep the bucket
        // full.
        let hidden = self.counts.load(KEPT) != 0 && self.part.shape.all_buckets() == 1;
        new != 0 && listed != 0 && pairs > self.batch.applying.most || hidden
    }
    /// Gives the listed pairs free slots of their buckets, or lists them as missed twice.
    #[inline(always)]
    pub(super) fn place(self, Arriving { listed, .. }: Arriving) {
        let Steps { t, part, waiting, .. } = self;
        let shape = part.shape;
        let mut i = t.id();
        while i < listed {
            let record = waiting.first.load(i);
            let h = part.hash(record);
            let first = shape.first(h);
            let slot = part.take_last_slot(first).or_else(|| {
                part.mark_class(h);
                part.take_last_slot(shape.other(h, first))
            });
            match slot {
                Some(slot) => part.slots.store_volatile(slot, record),
                None => waiting.miss_twice(record),
            }
            i += THREADS;
        }
    }
    /// Evicts for the pairs that missed twice.
    #[inline(always)]
    pub(super) fn evict(self, Arriving { pairs, .. }: Arriving) {
        let Steps { t, part, waiting, .. } = self;
        let missed = waiting.lengths.load_volatile(MISSED_TWICE);
        let help = if pairs * 25 > part.shape.buckets * 97 { MAX_MOVES } else { HELP };
        place_missed::<_, false>(t, THREADS, part, waiting, help, missed);
    }
    /// Returns the number of pairs without a slot.
    #[inline(always)]
    pub(super) fn homeless(self) -> u32 {
        self.waiting.lengths.load_volatile(HOMELESS)
    }
    /// Returns whether the stash has room for the homeless pairs and those that stay there, after
    /// it reserved their slots.
    #[inline(always)]
    pub(super) fn has_room(self, homeless: u32, stashed_before: u32) -> bool {
        let Steps { t, stashed, table, counts, .. } = self;
        if homeless != 0 || stashed.list != NONE {
            let more = || (homeless + counts.load(KEPT)).wrapping_sub(stashed_before);
            return has_room(t, table.stash_bits, counts, table.header, more);
        }
        true
    }
    /// If class bits are recounted, marks the classes that overflow from each first bucket: those
    /// of its pairs that are in their second bucket now. Otherwise,
    /// [`write`](super::buckets::write) adds bits.
    #[inline(always)]
    pub(super) fn mark_classes(self) {
        let Steps { t, batch, part, .. } = self;
        let shape = part.shape;
        let mut i = t.id();
        while batch.applying.recounts != 0 && i < shape.buckets {
            let records = part.bucket(i);
            unroll::<BUCKET>(|s| {
                let h = part.hash(records[s]);
                if records[s] != EMPTY && shape.first(h) != i {
                    part.words.fetch_or(shape.first(h), 1 << (NOW + class(h)));
                }
            });
            i += THREADS;
        }
    }
    /// Puts the homeless pairs in the stash, and those back that stay there.
    #[inline(always)]
    pub(super) fn stash(self, homeless: u32) {
        let Steps { t, stashed, table: TableMut { stash_bits, stash, .. }, part, .. } = self;
        let mut i = t.id();
        while i < homeless {
            let pair = part.from.pair(self.waiting.second.load(i));
            put_in_stash(part, stash_bits, stash, pair);
            i += THREADS;
        }
        if stashed.list != NONE {
            stashed.for_each::<THREADS>(t, |slot, has_left| {
                if !has_left {
                    put_in_stash(part, stash_bits, stash, stashed.pair::<L>(slot));
                }
            });
        }
    }
}

/// Returns the value that the key of an entry has at the end, given its value before.
#[inline(always)]
fn result<L: Routed>(
    batch: Batch<L>,
    entries: Entries,
    at: u32,
    before: Option<L::Value>,
    values: In<L::Value>,
) -> Option<L::Value> {
    let (assigned, sum) = (entries.assigned.load(at), entries.sum::<L::Value>(at));
    let (is_erased, made) = written(batch, entries, at);
    let added = |value: L::Value| Some(L::Value::narrowed(value.widened().wrapping_add(sum)));
    if assigned != 0 {
        return added(values.get(assigned - 1));
    }
    match before {
        Some(value) if !is_erased => added(value),
        _ if made == !0 => None,
        // Additions to an absent key start from zero.
        _ if batch.operation(made) == operation::ADD => Some(L::Value::narrowed(sum)),
        _ => added(values.get(made)),
    }
}
