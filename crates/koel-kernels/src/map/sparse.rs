//! Updates of few keys beside the pairs of a table: what [`update`](super::update) does for whole partitions is done here for the buckets
//! of the keys alone, where they lie in device memory.
//!
//! One block a partition, which nobody else touches; so the steps of a block are ordered by its barriers, and between two of them
//! the table is either read or written:
//! 1. The operations of each key are gathered, as there.
//! 2. Each key is looked up. One that is erased is noted in the word of its bucket. A new one claims a free slot of its first bucket or
//!    of its second one; [fillers](Shape::filler) are free slots too.
//! 3. Pairs go to their slots.
//! 4. A key that found both its buckets full evicts: another key of them goes to its other bucket, if that has room; or that
//!    key does so after a third one did. Threads look for such ways at the same time, claim the buckets of theirs, and go them if
//!    nobody with a lower number has claimed one of those.
//! 5. The buckets that were touched are put in order: empty slots last, and the class bits that they had, and those of keys that
//!    overflowed now. Bits are never cleared here: one may be set although the last such key is gone, until another update reads
//!    the whole partition.
//!
//! # What is left
//! What has no way so short is left: its operations are [not done](status::NOT_DONE) yet, and the kernel of whole partitions, which always
//! follows, does them. It also does everything in partitions with pairs in the stash, and the ambiguous key.
use super::build::write_bucket;
use super::header;
use super::join::Routed;
use super::layout::{BUCKET, EMPTY, Layout, Narrow, Number, Shape, Wide, class, class_bit};
use super::reproduce::NONE;
use super::update::{
    Applying, Batch, Entries, IS_LEFT, IS_THERE, WAS_THERE, entry_bytes, gather, ordered, result, state, status, tell,
};
use core::marker::PhantomData;
use koel_simt::{Buf, In, Shared, Thread, U64x2, kernel, unroll};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Bytes of shared memory for partitions of this many buckets and so many entries; `wide`: values have 64 bits.
pub const fn shared_bytes(buckets: u32, entries: u32, wide: bool) -> u32 {
    entry_bytes(entries, false, 1 + wide as u32) + (3 * buckets + 2 * entries + COUNTS) * 4
}

// What a block counts.
/// Buckets that are touched.
const TOUCHED: u32 = 0;
/// Keys that have no slot yet.
const HOMELESS: u32 = 1;
/// Keys that are new.
const NEW: u32 = 2;
/// Keys that are gone.
const GONE: u32 = 3;
/// Keys that are left.
const LEFT: u32 = 4;
const COUNTS: u32 = 8;

// Bits of a bucket's word. From bit 0 on: slots whose pairs are erased.
/// Class bits that it had or is to have.
const BITS: u32 = 8;
/// It is among the touched ones.
const IS_TOUCHED: u32 = 1 << 16;
/// From here on: how many have claimed a free slot.
const CLAIMS: u32 = 20;

/// Ways that a key without a slot tries to go, against others.
const TRIES: u32 = 24;
/// No slot.
const NOWHERE: u32 = !0;

/// A partition in device memory.
#[derive(Clone, Copy)]
struct Far<L> {
    shape: Shape,
    p: u32,
    slots: Buf<u64>,
    /// A word for each bucket.
    words: Shared<u32>,
    /// The touched buckets.
    touched: Shared<u32>,
    counts: Shared<u32>,
    layout: PhantomData<L>,
}
impl<L: Layout> Far<L> {
    #[inline(always)]
    fn place(self, bucket: u32) -> u64 {
        self.shape.place(self.p, bucket)
    }
    #[inline(always)]
    fn at(self, slot: u32) -> u64 {
        self.place(slot / BUCKET as u32) * L::WORDS as u64 + (slot % BUCKET as u32) as u64
    }
    #[inline(always)]
    #[track_caller]
    fn heads(self, bucket: u32) -> [u64; BUCKET] {
        let at = self.place(bucket) * (L::WORDS as u64 / 2);
        let U64x2([a, b]) = self.slots.x2().load(at);
        let U64x2([c, d]) = self.slots.x2().load(at + 1);
        [a, b, c, d]
    }
    #[inline(always)]
    #[track_caller]
    fn behind(self, slot: u32) -> u64 {
        if L::SLOT_WORDS == 1 { 0 } else { self.slots.load(self.at(slot) + BUCKET as u64) }
    }
    #[inline(always)]
    #[track_caller]
    fn pair(self, slot: u32) -> L::Pair {
        L::with_head(self.slots.load(self.at(slot)), self.behind(slot))
    }
    #[inline(always)]
    #[track_caller]
    fn put(self, slot: u32, pair: L::Pair) {
        let at = self.at(slot);
        self.slots.store(at, L::head(pair));
        if L::SLOT_WORDS > 1 {
            self.slots.store(at + BUCKET as u64, L::behind(pair));
        }
    }
    #[inline(always)]
    fn hash(self, head: u64) -> u32 {
        L::hash(L::key_in(head))
    }
    /// Which slots of a bucket are free: the empty ones or, in a full bucket, the fillers.
    #[inline(always)]
    fn free(self, bucket: u32, heads: [u64; BUCKET]) -> u32 {
        let (is_full, place, mut free) = (heads[BUCKET - 1] != EMPTY, self.place(bucket) as u32, 0);
        unroll::<BUCKET>(|s| {
            let is_free = if is_full { !self.shape.belongs(self.hash(heads[s]), place) } else { heads[s] == EMPTY };
            free |= (is_free as u32) << s;
        });
        free
    }
    /// The class bits of a bucket that is as lookups find it.
    #[inline(always)]
    fn class_bits(heads: [u64; BUCKET]) -> u32 {
        let mut bits = 0;
        unroll::<BUCKET>(|c| bits |= (class_bit::<L>(heads, c as u32) as u32) << c);
        if heads[BUCKET - 1] != EMPTY { bits << BITS } else { 0 }
    }
    /// Notes in the word of a bucket what is to be done with it. `heads`: as it was before anything was done.
    #[inline(always)]
    #[track_caller]
    fn touch(self, bucket: u32, heads: [u64; BUCKET], note: u32) {
        if self.words.fetch_or(bucket, IS_TOUCHED | Self::class_bits(heads) | note) & IS_TOUCHED == 0 {
            self.touched.store(self.counts.fetch_add(TOUCHED, 1), bucket);
        }
    }
    /// The same for a bucket that may have been touched, and then is no longer as it was.
    #[inline(always)]
    #[track_caller]
    fn touch_again(self, bucket: u32, heads: [u64; BUCKET], note: u32) {
        if self.words.load_volatile(bucket) & IS_TOUCHED != 0 {
            self.words.fetch_or(bucket, note);
        } else {
            self.touch(bucket, heads, note);
        }
    }
    /// The bit of a key that lies in its first bucket, if it does not in this one.
    #[inline(always)]
    fn overflowed(self, bucket: u32, h: u32) -> u32 {
        if self.shape.first(h) == bucket { 1 << (BITS + class(h)) } else { 0 }
    }
    /// A free slot of a bucket that looks so, which nobody else gets.
    #[inline(always)]
    #[track_caller]
    fn claim(self, bucket: u32, heads: [u64; BUCKET]) -> Option<u32> {
        let free = self.free(bucket, heads);
        if free == 0 {
            return None;
        }
        let (mut claims, mut slot) = (self.words.fetch_add(bucket, 1 << CLAIMS) >> CLAIMS, None);
        unroll::<BUCKET>(|s| {
            if free >> s & 1 != 0 {
                if claims == 0 {
                    slot = Some(bucket * BUCKET as u32 + s as u32);
                }
                claims = claims.wrapping_sub(1);
            }
        });
        if slot.is_some() {
            self.touch(bucket, heads, 0);
        }
        slot
    }
    /// The slots of a bucket from which the key may go to another bucket that has an empty slot: the first such.
    #[inline(always)]
    #[track_caller]
    fn step(self, bucket: u32, heads: [u64; BUCKET]) -> Option<(u32, u32)> {
        let mut step = None;
        unroll::<BUCKET>(|s| {
            let other = self.shape.other(self.hash(heads[s]), bucket);
            let last = self.slots.load(self.at(other * BUCKET as u32 + BUCKET as u32 - 1));
            if step.is_none() && last == EMPTY {
                step = Some((bucket * BUCKET as u32 + s as u32, other));
            }
        });
        step
    }
    /// How a key for which these full buckets have no room comes to a slot.
    #[inline(always)]
    #[track_caller]
    fn way(self, first: u32, second: u32) -> Option<Way> {
        let at_once = |(from, to)| Way { from, by: NOWHERE, to };
        let mut way = self.step(first, self.heads(first)).map(at_once);
        if way.is_none() {
            way = self.step(second, self.heads(second)).map(at_once);
        }
        let mut i = 0;
        while way.is_none() && i < 2 * BUCKET as u32 {
            let bucket = if i < BUCKET as u32 { first } else { second };
            let from = bucket * BUCKET as u32 + i % BUCKET as u32;
            let by = self.shape.other(self.hash(self.slots.load(self.at(from))), bucket);
            let heads = self.heads(by);
            let fillers = self.free(by, heads);
            if by == bucket {
                // It cannot leave.
            } else if fillers != 0 {
                way = Some(Way { from, by: by * BUCKET as u32 + fillers.trailing_zeros(), to: NOWHERE });
            } else if let Some((by, to)) = self.step(by, heads) {
                way = (to != bucket).then_some(Way { from, by, to });
            }
            i += 1;
        }
        way
    }
    /// Goes it, where nobody else does anything: its first slot is free then.
    #[inline(always)]
    #[track_caller]
    fn go(self, way: Way) {
        let Way { from, mut by, to } = way;
        let slots = BUCKET as u32;
        if to != NOWHERE {
            let heads = self.heads(to);
            let mut free = 0;
            unroll::<BUCKET>(|s| free += (heads[s] != EMPTY) as u32);
            self.touch_again(to, heads, 0);
            let into = to * slots + free;
            if by != NOWHERE {
                let pair = self.pair(by);
                let bucket = by / slots;
                self.touch_again(bucket, self.heads(bucket), self.overflowed(bucket, L::hash(L::key(pair))));
                self.put(into, pair);
            } else {
                by = into;
            }
        } else {
            self.touch_again(by / slots, self.heads(by / slots), 0);
        }
        let (pair, bucket) = (self.pair(from), from / slots);
        self.touch_again(bucket, self.heads(bucket), self.overflowed(bucket, L::hash(L::key(pair))));
        self.put(by, pair);
    }
}
/// The key of slot `from` goes to slot `by`, whose key went to bucket `to` before if there is one; if there is no `by`, it goes to bucket
/// `to`.
#[derive(Clone, Copy)]
struct Way {
    from: u32,
    by: u32,
    to: u32,
}
impl Way {
    /// For each bucket of the way.
    #[inline(always)]
    fn for_each(self, mut bucket: impl FnMut(u32)) {
        bucket(self.from / BUCKET as u32);
        if self.by != NOWHERE {
            bucket(self.by / BUCKET as u32);
        }
        if self.to != NOWHERE {
            bucket(self.to);
        }
    }
}

/// In the word of a partition, beside the slots of a stash and [`NONE`]: nothing is left of its operations.
pub(super) const DONE: u32 = NONE - 1;

#[inline(always)]
fn update_sparse<L: Routed>(
    t: Thread,
    shape: Shape,
    applying: Applying,
    sent: In<u64>,
    overflow: In<u64>,
    cursors: In<u32>,
    spilled: In<u32>,
    group_spilled: In<u32>,
    sent_state: In<u32>,
    values: In<L::Value>,
    operations: In<u8>,
    lists: Buf<u32>,
    slots: Buf<u64>,
    statuses: Buf<u8>,
    table_header: Buf<u32>,
    batch_state: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let p = t.block();
    let (came, behind) = applying.came(p, cursors, spilled, group_spilled, sent_state);
    if came + behind == 0 {
        return;
    }
    let batch = Batch::<L> {
        shape,
        p,
        applying,
        seed: table_header.load(header::SEED),
        came,
        behind,
        sent,
        overflow,
        operations,
        statuses,
        layout: PhantomData,
    };
    let is_free = lists.load(p) == NONE && batch_state.load(state::LEFT + p) == 0;
    if !is_free {
        batch.for_each::<THREADS>(t, |_, number| statuses.store(number, status::NOT_DONE));
    } else if apply::<L>(t, batch, values, slots, table_header) && t.id() == 0 {
        lists.store(p, DONE);
    }
}

/// Applies the operations, and tells whether none is left.
#[inline(always)]
fn apply<L: Routed>(t: Thread, batch: Batch<L>, values: In<L::Value>, slots: Buf<u64>, table_header: Buf<u32>) -> bool {
    let Batch { shape, p, applying, .. } = batch;
    let (id, room) = (t.id(), applying.entries);
    let mut shared = t.shared();
    let entries = Entries::new::<L::Value, true>(&mut shared, room, false);
    let keys = entries.keys;
    let words = shared.array::<u32>(shape.buckets);
    let touched = shared.array::<u32>(shape.buckets);
    // Who goes a way through a bucket.
    let owners = shared.array::<u32>(shape.buckets);
    // Where the pair of each entry goes, and the entries that have found no place.
    let (places, homeless) = (shared.array::<u32>(room), shared.array::<u32>(room));
    let counts = shared.array::<u32>(COUNTS);
    let table = Far::<L> { shape, p, slots, words, touched, counts, layout: PhantomData };
    entries.clear::<L::Value, true, THREADS>(t, false);
    let mut i = id;
    while i < shape.buckets {
        words.store(i, 0);
        owners.store(i, !0);
        i += THREADS;
    }
    if id < COUNTS {
        counts.store(id, 0);
    }
    t.barrier();
    if gather::<L, true, THREADS>(t, batch, entries, counts, |number| values.get(number)) {
        batch.for_each::<THREADS>(t, |_, number| batch.statuses.store(number, status::NOT_DONE));
        return false;
    }

    let (mut new, mut gone) = (0u32, 0u32);
    i = id;
    while i <= room {
        let at = i;
        i += THREADS;
        if at == room {
            if entries.first.load(at) != !0 {
                entries.assigned.store(at, IS_LEFT);
                counts.fetch_add(LEFT, 1);
            }
            continue;
        }
        places.store(at, NOWHERE);
        if keys.load(at) == EMPTY {
            continue;
        }
        let key = L::Mixed::narrowed(keys.load(at));
        let h = L::hash(key);
        let (first, second) = (shape.first(h), shape.other(h, shape.first(h)));
        let in_first = table.heads(first);
        let (mut slot, mut head) = (NOWHERE, EMPTY);
        let mut look = |bucket: u32, heads: [u64; BUCKET]| {
            unroll::<BUCKET>(|s| {
                if heads[s] != EMPTY && L::key_in(heads[s]) == key {
                    (slot, head) = (bucket * BUCKET as u32 + s as u32, heads[s]);
                }
            });
            slot != NOWHERE
        };
        let mut in_second = [EMPTY; BUCKET];
        if !look(first, in_first) && in_first[BUCKET - 1] != EMPTY {
            in_second = table.heads(second);
            look(second, in_second);
        }
        let before = (slot != NOWHERE).then(|| L::value_in(head, table.behind(slot)));
        let value = result::<L>(batch, entries, at, before, values);
        let fate = (before.is_some() as u32 * WAS_THERE) | (value.is_some() as u32 * IS_THERE);
        entries.assigned.store(at, fate);
        let Some(value) = value else {
            if before.is_some() {
                gone += 1;
                let (bucket, is_first) = (slot / BUCKET as u32, slot / BUCKET as u32 == first);
                table.touch(bucket, if is_first { in_first } else { in_second }, 1 << (slot % BUCKET as u32));
            }
            continue;
        };
        entries.set(at, value);
        if before.is_some() {
            places.store(at, if before == Some(value) { NOWHERE } else { slot });
            continue;
        }
        new += 1;
        let mut place = table.claim(first, in_first);
        if place.is_none() {
            // Lookups have to go on.
            if in_first[BUCKET - 1] == EMPTY {
                // Others took its empty slots.
                in_second = table.heads(second);
            }
            table.touch(first, in_first, 1 << (BITS + class(h)));
            place = table.claim(second, in_second);
        }
        match place {
            Some(place) => places.store(at, place),
            None => homeless.store(counts.fetch_add(HOMELESS, 1), at),
        }
    }
    t.barrier();
    let pair_of = |at: u32| L::pair(L::Mixed::narrowed(keys.load(at)), L::Value::narrowed(entries.sum::<L::Value>(at)));
    i = id;
    while i < room {
        let place = places.load(i);
        if place != NOWHERE {
            table.put(place, pair_of(i));
        }
        i += THREADS;
    }
    t.barrier();

    // One at a time for each thread.
    let (all, mut mine, mut tries) = (counts.load(HOMELESS), id, 0);
    while t.barrier_count(mine < all) != 0 {
        let (mut way, mut at) = (None, 0);
        if mine < all {
            at = homeless.load(mine);
            let h = L::hash(L::Mixed::narrowed(keys.load(at)));
            let first = shape.first(h);
            way = table.way(first, shape.other(h, first));
            match way {
                Some(way) => way.for_each(|bucket| {
                    owners.fetch_min(bucket, mine);
                }),
                None => tries = TRIES,
            }
        }
        t.barrier();
        let mut is_mine = way.is_some();
        if let Some(way) = way {
            way.for_each(|bucket| is_mine &= owners.load_volatile(bucket) == mine);
            if is_mine {
                table.go(way);
                table.put(way.from, pair_of(at));
            }
        }
        t.barrier();
        if let Some(way) = way {
            way.for_each(|bucket| {
                owners.fetch_max(bucket, !0);
            });
        }
        tries += 1;
        if mine < all && (is_mine || tries >= TRIES) {
            if !is_mine {
                new = new.wrapping_sub(1);
                entries.assigned.store(at, IS_LEFT);
                counts.fetch_add(LEFT, 1);
            }
            (mine, tries) = (mine + THREADS, 0);
        }
    }
    if new != 0 {
        counts.fetch_add(NEW, new);
    }
    if gone != 0 {
        counts.fetch_add(GONE, gone);
    }

    i = id;
    while i < counts.load_volatile(TOUCHED) {
        let bucket = touched.load(i);
        let (word, place) = (words.load(bucket), table.place(bucket));
        let heads = table.heads(bucket);
        let free = table.free(bucket, heads) | word & 0xF;
        let mut pairs = [L::EMPTY_PAIR; BUCKET];
        unroll::<BUCKET>(|s| {
            if free >> s & 1 == 0 {
                pairs[s] = L::with_head(heads[s], table.behind(bucket * BUCKET as u32 + s as u32));
            }
        });
        write_bucket::<L>(slots, place, ordered::<L>(shape, place as u32, pairs, free, word >> BITS & 0xF, false));
        i += THREADS;
    }
    tell::<L, true, THREADS>(t, batch, entries);
    t.barrier();
    if id == 0 {
        let more = counts.load(NEW).wrapping_sub(counts.load(GONE));
        if more != 0 {
            table_header.fetch_add(header::PAIRS, more);
        }
    }
    counts.load(LEFT) == 0
}

macro_rules! entries { ($($(#[$doc:meta])* $name:ident $layout:ty, $value:ty, $wide:literal;)*) => { $(
    $(#[$doc])*
    #[kernel(threads = 256, min_blocks = 4, shared = shared_bytes(shape.buckets, applying.entries, $wide), starts_early)]
    pub fn $name(
        t: Thread,
        shape: Shape,
        applying: Applying,
        sent: In<u64>,
        overflow: In<u64>,
        cursors: In<u32>,
        spilled: In<u32>,
        group_spilled: In<u32>,
        sent_state: In<u32>,
        values: In<$value>,
        operations: In<u8>,
        lists: Buf<u32>,
        slots: Buf<u64>,
        statuses: Buf<u8>,
        table_header: Buf<u32>,
        batch_state: Buf<u32>,
    ) {
        update_sparse::<$layout>(
            t, shape, applying, sent, overflow, cursors, spilled, group_spilled, sent_state, values, operations, lists, slots, statuses,
            table_header, batch_state,
        )
    }
)* } }
const _: () = assert!(THREADS == 256);
entries! {
    /// Applies the operations of partition `t.block()`, which are all the same, as far as that is done in few buckets: see the module. There
    /// must be two buckets. Arguments as of [`map_update`](fn@super::update::map_update), which must follow. Leaves in `lists` what that expects.
    map_update_sparse Narrow, u32, false;
    /// The same.
    map_update_sparse_u32_u64 Wide<u32, u64>, u64, true;
    /// The same.
    map_update_sparse_u64_u32 Wide<u64, u32>, u32, false;
    /// The same.
    map_update_sparse_u64_u64 Wide<u64, u64>, u64, true;
}
