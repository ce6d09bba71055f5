//! The buckets of a partition that is updated: read into shared memory, and written back if they
//! changed.
use super::{BATCH, ROUNDS};
use crate::map::build::{CHANGED, CHANGES, CLASS, FREE, Lists, Partition, write_bucket};
use crate::map::records::Placed;
use crate::table::layout::{
    BUCKET, EMPTY, Layout, Number, Shape, class, class_bit, empty_last, filled, with_class_bits,
};
use crate::table::update::{Entries, Stashed, There};
use crate::table::{header, stash};
use core::marker::PhantomData;
use koel_simt::{Buf, Thread, U64x2, unroll};

// Bits of a bucket's word in addition to those of a build.
/// Shift of the class bits that the bucket has in the table.
pub(super) const BEFORE: u32 = 8;

/// Shift of the class bits that the bucket will have.
pub(super) const NOW: u32 = 12;

/// Mark: the bucket must look full.
pub(super) const NEEDED: u32 = 1 << 16;

/// Mark: the bucket is in the list of those to write.
const IN_LIST: u32 = 1 << 17;

/// The records of a partition that is updated. A narrow pair is its own record. The record of a
/// wide pair is the hash of its key and, above it, the number of the pair. Numbers count the slots
/// of the partition first, then the entries of the batch, which hold keys and values, then the
/// slots of the stash.
#[derive(Clone, Copy)]
pub(super) struct Moving<L> {
    pub(super) shape: Shape,
    pub(super) p: u32,
    pub(super) slots: Buf<u64>,
    pub(super) unstashed: Buf<u64>,
    pub(super) entries: Entries,
    pub(super) layout: PhantomData<L>,
}

impl<L: Layout> Moving<L> {
    #[inline(always)]
    pub(super) fn in_buckets(self) -> u32 {
        self.shape.buckets * BUCKET as u32
    }
    /// Returns the record of the pair with this number.
    #[inline(always)]
    pub(super) fn record(self, head: u64, number: u32) -> u64 {
        if L::SLOT_WORDS == 1 {
            head
        } else {
            (number as u64) << 32 | L::hash(L::key_in(head)) as u64
        }
    }
    /// Returns where a slot's head is in the table.
    #[inline(always)]
    pub(super) fn at(self, slot: u32) -> u64 {
        self.shape.place(self.p, slot / BUCKET as u32) * L::WORDS as u64
            + (slot % BUCKET as u32) as u64
    }
    #[inline(always)]
    #[track_caller]
    pub(super) fn head(self, record: u64) -> u64 {
        let (number, slots) = ((record >> 32) as u32, self.in_buckets());
        if L::SLOT_WORDS == 1 {
            record
        } else if number < slots {
            self.slots.load(self.at(number))
        } else if number - slots < self.entries.room {
            self.entries.keys.load_volatile(number - slots)
        } else {
            self.unstashed.load((number - slots - self.entries.room) * L::SLOT_WORDS as u32)
        }
    }
    /// Returns the value of the pair in a slot.
    #[inline(always)]
    #[track_caller]
    pub(super) fn value_at(self, slot: u32, record: u64) -> L::Value {
        L::value_in(
            record,
            if L::SLOT_WORDS == 1 { 0 } else { self.slots.load(self.at(slot) + BUCKET as u64) },
        )
    }
}

impl<L: Layout> Placed for Moving<L> {
    type Layout = L;
    // All keys are distinct.
    const EXACT: bool = true;
    const MARKS_CHANGES: bool = true;
    const HELPS_NEAR: bool = L::SLOT_WORDS == 1;
    #[inline(always)]
    fn hash(self, record: u64) -> u32 {
        record as u32
    }
    #[inline(always)]
    fn pair(self, record: u64) -> L::Pair {
        let (number, slots) = ((record >> 32) as u32, self.in_buckets());
        let behind = if L::SLOT_WORDS == 1 {
            0
        } else if number < slots {
            self.slots.load(self.at(number) + BUCKET as u64)
        } else if number - slots < self.entries.room {
            self.entries.sum::<L::Value>(number - slots)
        } else {
            self.unstashed.load((number - slots - self.entries.room) * L::SLOT_WORDS as u32 + 1)
        };
        L::with_head(self.head(record), behind)
    }
    #[inline(always)]
    fn same_key(self, a: u64, b: u64) -> bool {
        self.head(a) == self.head(b)
    }
}

/// Reads the partition: records, free slots and class bits. Drops fillers. Returns the number of
/// pairs that the thread read.
#[inline(always)]
pub(super) fn read<L: Layout, const THREADS: u32>(
    t: Thread,
    part: Partition<Moving<L>>,
    table_header: Buf<u32>,
) -> u32 {
    let (shape, from) = (part.shape, part.from);
    let foreign = table_header.load(header::FOREIGN) != 0;
    let (mut i, mut taken) = (t.id(), 0);
    while i < shape.buckets {
        let mut all = [[EMPTY; BUCKET]; BATCH];
        unroll::<BATCH>(|j| {
            let bucket = (i + j as u32 * THREADS).min(shape.buckets - 1);
            let at = shape.place(from.p, bucket) * (L::WORDS as u64 / 2);
            let U64x2([a, b]) = from.slots.x2().load(at);
            let U64x2([c, d]) = from.slots.x2().load(at + 1);
            all[j] = [a, b, c, d];
        });
        unroll::<BATCH>(|j| {
            let (bucket, heads) = (i + j as u32 * THREADS, all[j]);
            if bucket < shape.buckets {
                let place = shape.place(from.p, bucket) as u32;
                let hashes = heads.map(|head| L::hash(L::key_in(head)));
                let (mut records, mut free, mut bits) = ([EMPTY; BUCKET], 0, 0);
                // The same for all threads.
                let is_usual = from.p != 0 && !foreign;
                unroll::<BUCKET>(|s| {
                    let is_filler = if is_usual {
                        hashes[s] < BUCKET as u32
                    } else if foreign {
                        !shape.belongs(hashes[s], place)
                    } else {
                        shape.is_filler(from.p, place, hashes[s])
                    };
                    let is_free = heads[s] == EMPTY || is_filler;
                    let record = from.record(heads[s], bucket * BUCKET as u32 + s as u32);
                    records[s] = if is_free { EMPTY } else { record };
                    free |= (is_free as u32) << s;
                });
                if heads[BUCKET - 1] != EMPTY {
                    unroll::<BUCKET>(|c| bits |= (class_bit::<L>(heads, c as u32) as u32) << c);
                }
                taken += BUCKET as u32 - free.count_ones();
                part.slots.x2().store(2 * bucket, U64x2([records[0], records[1]]));
                part.slots.x2().store(2 * bucket + 1, U64x2([records[2], records[3]]));
                part.words.store(bucket, free | bits << BEFORE);
            }
        });
        i += BATCH as u32 * THREADS;
    }
    taken
}

/// Returns where a key is before the batch, and its value.
#[inline(always)]
pub(super) fn find<L: Layout>(
    part: Partition<Moving<L>>,
    stashed: Stashed,
    key: L::Mixed,
    table_header: Buf<u32>,
) -> (There, Option<L::Value>) {
    let (shape, from) = (part.shape, part.from);
    if key == L::AMBIGUOUS {
        let word = |word: u32| table_header.load(word) as u64;
        let value =
            L::Value::narrowed(word(header::HELD_VALUE + 1) << 32 | word(header::HELD_VALUE));
        return (There::Header, (word(header::HELD) != 0).then_some(value));
    }
    let (h, mut hit) = (L::hash(key), None);
    let first = shape.first(h);
    unroll::<2>(|b| {
        let bucket = if b == 0 { first } else { shape.other(h, first) };
        let records = part.bucket(bucket);
        unroll::<BUCKET>(|s| {
            let is_it = records[s] != EMPTY && part.hash(records[s]) == h;
            if is_it && (L::SLOT_WORDS == 1 || from.head(records[s]) == key.widened()) {
                hit = Some((bucket * BUCKET as u32 + s as u32, records[s]));
            }
        });
    });
    if let Some((slot, record)) = hit {
        return (There::Slot(slot), Some(from.value_at(slot, record)));
    }
    match stashed.slot_of::<L>(key) {
        Some(slot) => (There::Stash(slot), Some(L::value(stashed.pair::<L>(slot)))),
        None => (There::Nowhere, None),
    }
}

/// Puts a pair in the stash, and marks its buckets so that lookups reach it.
#[inline(always)]
pub(super) fn put_in_stash<L: Layout>(
    part: Partition<Moving<L>>,
    stash_bits: u32,
    stash: Buf<u64>,
    pair: L::Pair,
) {
    let h = L::hash(L::key(pair));
    let first = part.shape.first(h);
    part.words.fetch_or(first, 1 << (NOW + class(h)) | NEEDED);
    part.words.fetch_or(part.shape.other(h, first), NEEDED);
    // There is room: it was reserved, or held a pair before.
    stash::insert::<L>(stash, stash_bits, pair);
}

/// Returns the word of a bucket with the class bits that it will have: those marked in the word
/// and, unless they are `recounted`, also those before the batch and those of pairs that overflowed
/// since.
#[inline(always)]
fn with_bits(part: Partition<Moving<impl Layout>>, bucket: u32, recounted: bool) -> u32 {
    let word = part.words.load_volatile(bucket);
    if recounted { word } else { word | (word >> BEFORE | word >> CLASS & 0xF) << NOW & 0xF << NOW }
}

/// Returns whether a bucket with this word has changed.
#[inline(always)]
fn is_other(word: u32) -> bool {
    word & CHANGED != 0 || (word >> BEFORE ^ word >> NOW) & 0xF != 0
}

/// Returns a bucket as it is written.
#[inline(always)]
pub(super) fn finished<L: Layout>(
    part: Partition<Moving<L>>,
    bucket: u32,
    word: u32,
) -> [L::Pair; BUCKET] {
    let (shape, records, bits) = (part.shape, part.bucket(bucket), word >> NOW & 0xF);
    let mut pairs = [L::EMPTY_PAIR; BUCKET];
    unroll::<BUCKET>(|s| {
        if word >> s & 1 == 0 {
            pairs[s] = part.from.pair(records[s]);
        }
    });
    ordered::<L>(
        shape,
        shape.place(part.from.p, bucket) as u32,
        pairs,
        word & FREE,
        bits,
        word & NEEDED != 0,
    )
}

/// Returns a bucket as it is written to this place, with these class bits and free slots. `needed`:
/// the bucket must look full.
#[inline(always)]
pub(in crate::map) fn ordered<L: Layout>(
    shape: Shape,
    place: u32,
    pairs: [L::Pair; BUCKET],
    free: u32,
    bits: u32,
    needed: bool,
) -> [L::Pair; BUCKET] {
    if free == 0 || shape.looks_full(bits, needed) {
        with_class_bits::<L>(filled::<L>(shape, place, pairs, free), bits)
    } else {
        empty_last::<L>(pairs)
    }
}

/// Writes the buckets that changed. Lists them first in the memory of `waiting`, whose lengths are
/// no longer needed, so that all lanes of a warp have one to write. `recounted`: all class bits are
/// marked.
#[inline(always)]
pub(super) fn write<L: Layout, const THREADS: u32>(
    t: Thread,
    part: Partition<Moving<L>>,
    waiting: Lists,
    recounted: bool,
) {
    let (shape, from) = (part.shape, part.from);
    if L::SLOT_WORDS == 1 {
        let room = waiting.room;
        let mut bucket = t.id();
        while bucket < shape.buckets {
            let word = with_bits(part, bucket, recounted);
            if is_other(word) {
                let at = waiting.lengths.fetch_add(CHANGES, 1);
                let in_list = (at < room) as u32 * IN_LIST;
                if at < room {
                    waiting.first.store(at, bucket as u64);
                }
                part.words.store_volatile(bucket, word | in_list);
            }
            bucket += THREADS;
        }
        t.barrier();
        // If the list was too short, all buckets are looked at again.
        let all = waiting.lengths.load(CHANGES);
        let (listed, rest) = (all.min(room), if all > room { shape.buckets } else { 0 });
        let mut i = t.id();
        while i < listed + rest {
            let bucket = if i < listed { waiting.first.load(i) as u32 } else { i - listed };
            let word = with_bits(part, bucket, recounted);
            if i < listed || is_other(word) && word & IN_LIST == 0 {
                write_bucket::<L>(
                    from.slots,
                    shape.place(from.p, bucket),
                    finished(part, bucket, word),
                );
            }
            i += THREADS;
        }
        return;
    }
    // All buckets are read before one is written.
    let round = |round: u32| t.id() + round * THREADS;
    let others: [_; ROUNDS] = [
        other(part, round(0), recounted),
        other(part, round(1), recounted),
        other(part, round(2), recounted),
        other(part, round(3), recounted),
    ];
    t.barrier();
    unroll::<ROUNDS>(|j| {
        if let Some(bucket) = others[j] {
            write_bucket::<L>(from.slots, shape.place(from.p, round(j as u32)), bucket);
        }
    });
}

/// Returns a bucket as it is written, if it exists and has changed.
#[inline(always)]
pub(super) fn other<L: Layout>(
    part: Partition<Moving<L>>,
    bucket: u32,
    recounted: bool,
) -> Option<[L::Pair; BUCKET]> {
    if bucket >= part.shape.buckets {
        return None;
    }
    let word = with_bits(part, bucket, recounted);
    if is_other(word) { Some(finished(part, bucket, word)) } else { None }
}
