//! Reproducible tables: places the pairs of each partition anew, by a rule with a unique result, so
//! that the table's bytes depend only on its pairs, its shape and its seed.
//!
//! [`build`](super::build) places pairs as they come and evicts by races. Its answers are always
//! the same; which key lies in which slot is not. If identical bytes are required, this pass
//! follows [`finalize`](super::finalize). It takes the pairs of a partition from its buckets and
//! the stash, and ignores where they were.
//!
//! # The rule
//! Every pair *proposes* to its first bucket at level 0. A refused pair proposes to its second
//! bucket at level 1, then to its first again at level 2, and so on. Of all the proposals that a
//! bucket ever gets, it accepts the four greatest. Proposals compare by level, then by mixed key. A
//! pair that is refused at level [`LAST_LEVEL`] goes to the stash.
//!
//! # Why the result is unique
//! The made and the refused proposals are the least sets for which the following holds: every
//! proposal at level 0 is made; a proposal that is made is refused if four greater ones to its
//! bucket are made; a pair that is refused makes the proposal of the next level. More proposals
//! never cause fewer refusals, so these sets exist, and their definition involves no order. This is
//! deferred acceptance, as between students and colleges; the higher levels let a chain of
//! evictions end.
//!
//! A run may process proposals in any order, with any number of threads, on words of which it sees
//! old states:
//! * Each bucket has four words, which only ever grow: a proposal replaces the least of the four
//!   that were read, by compare-and-swap, if it is greater. Each proposal is stored at most once.
//! * No refusal is wrong. A proposal that is less than all four words it read is refused by these
//!   four, or by greater ones in their places: distinct proposals that are made. A proposal that is
//!   replaced was the least of four, and its replacement is greater.
//! * No refusal is missing at the end. A refused pair goes on at once, so every proposal that is
//!   made is in a word or was refused. Of the proposals to one bucket, the four left in its words
//!   are greater than those refused.
//! * The run ends: there are finitely many proposals, and each is stored once and refused once.
//!
//! # Consequences
//! A bucket that refused once stays full. So a pair in its second bucket has a full first bucket,
//! and a pair in the stash has two full buckets: lookups end where they may,
//! [fillers](Shape::filler) are not needed, and class bits follow from the placement. A bit is set
//! if and only if a key of its class with this first bucket lies elsewhere.
//!
//! 16 levels suffice to place all pairs that can be placed: over 20,000 random partitions of 10 to
//! 4000 pairs, at loads of 0.5 to 1.02, the total of pairs left over equalled that of maximum
//! matchings, even within 8 levels. (Crafted keys can need as many levels as there are buckets.) At
//! load 0.8 there are 1.24 proposals per pair and none above level 2; at 0.95 there are 1.7 and
//! none above level 3. Only in a partition with pairs left over do pairs propose 14 times.
//!
//! # Wide keys with equal hashes
//! A word holds the hash of a key, not the key. If two hashes are equal, the keys are read from the
//! table, which is rewritten last.
//!
//! # The stash
//! Normally the stash is empty, and this section does not apply. Otherwise [`map_unstash()`] has
//! emptied it and linked its pairs by partition; pairs that are homeless now are put back. If more
//! pairs are homeless than before, a partition first reserves stash slots for them. If there are
//! not enough, the partition stays as it was built: nothing is lost, but its bytes depend on the
//! run. This cannot happen if the stash has room for the stashed pairs before and after together.
use super::build::write_bucket;
use crate::table::layout::{
    BUCKET, EMPTY, Layout, Narrow, Shape, TableMut, Wide, class, with_class_bits,
};
use crate::table::update::NONE;
use crate::table::{header, stash};
use koel_simt::{Buf, In, Shared, Thread, U64x2, kernel, unroll};

/// Threads per block.
pub const THREADS: u32 = 512;
/// Maximum number of buckets per thread.
const ROUNDS: usize = 4;
/// Maximum number of buckets per partition.
pub const MAX_BUCKETS: u32 = THREADS * ROUNDS as u32;
/// Maximum number of pairs of a partition in the stash, which is that of slots in any stash.
pub const MAX_STASHED: u32 = 1 << stash::MAX_BITS;
/// A pair that is refused at this level is homeless.
pub const LAST_LEVEL: u64 = 15;

// A proposal's word: bit 63 is set; below it are the level, the hash, and the number of the pair in
// its partition.
const NUMBER_BITS: u32 = 27;
const LEVEL: u32 = NUMBER_BITS + 32;
const MADE: u64 = 1 << 63;
const _: () =
    assert!(LAST_LEVEL << LEVEL < MADE && MAX_BUCKETS * 4 + MAX_STASHED <= 1 << NUMBER_BITS);
/// The word of a place without a proposal, which is less than every proposal.
pub const NOBODY: u64 = 0;

/// Returns the first proposal of pair `number`, which is below 2^27, with hash `h`.
#[inline(always)]
pub fn first_proposal(h: u32, number: u32) -> u64 {
    MADE | (h as u64) << NUMBER_BITS | number as u64
}
/// Returns the number of the pair that proposes.
#[inline(always)]
pub fn number(proposal: u64) -> u32 {
    proposal as u32 & ((1 << NUMBER_BITS) - 1)
}
/// Returns the first bucket of a pair that overflowed to `bucket`, and the class bit to set there,
/// or `None` if the pair is in its first bucket. Buckets are numbered within the partition.
#[inline(always)]
pub fn overflowed(shape: Shape, proposal: u64, bucket: u32) -> Option<(u32, u32)> {
    let h = hash(proposal);
    let first = shape.first(h);
    if first == bucket { None } else { Some((first, 1 << class(h))) }
}
#[inline(always)]
fn hash(proposal: u64) -> u32 {
    (proposal >> NUMBER_BITS) as u32
}
/// Returns whether `a` is less than `b`. At equal levels and hashes, the keys decide. Equal keys,
/// which occur only if the caller breaks its promise of distinct keys, compare by their numbers.
#[inline(always)]
fn is_less<L: Layout>(a: u64, b: u64, head: &impl Fn(u32) -> u64) -> bool {
    if L::HASH_SHIFT > 0 && a != b && a >> NUMBER_BITS == b >> NUMBER_BITS {
        let (key_a, key_b) = (L::key_in(head(number(a))), L::key_in(head(number(b))));
        return (key_a, a) < (key_b, b);
    }
    a < b
}

/// The words of a partition's buckets, four each, while pairs propose.
pub trait Places {
    /// Returns the four words of a bucket.
    fn four(&self, bucket: u32) -> [u64; BUCKET];
    /// Replaces word `at` by `new` if it is `old`. Returns the previous word.
    fn replace(&self, at: u32, old: u64, new: u64) -> u64;
}
impl Places for Shared<u64> {
    #[inline(always)]
    fn four(&self, bucket: u32) -> [u64; BUCKET] {
        let U64x2([a, b]) = self.x2().load_volatile(2 * bucket);
        let U64x2([c, d]) = self.x2().load_volatile(2 * bucket + 1);
        [a, b, c, d]
    }
    #[inline(always)]
    fn replace(&self, at: u32, old: u64, new: u64) -> u64 {
        self.cas(at, old, new)
    }
}

/// Makes a proposal and all proposals, of any pair, that follow from it. Returns the last proposal
/// of the pair that becomes homeless, if one does.
///
/// `head`: returns the head of a pair by its number.
#[inline(always)]
pub fn propose<L: Layout>(
    shape: Shape,
    places: &impl Places,
    mut proposal: u64,
    head: impl Fn(u32) -> u64,
) -> Option<u64> {
    loop {
        let h = hash(proposal);
        let first = shape.first(h);
        let bucket = if proposal >> LEVEL & 1 == 0 { first } else { shape.other(h, first) };
        let mut there = places.four(bucket);
        let refused = loop {
            let (mut slot, mut least) = (0, there[0]);
            unroll::<BUCKET>(|s| {
                if is_less::<L>(there[s], least, &head) {
                    (slot, least) = (s as u32, there[s]);
                }
            });
            if is_less::<L>(proposal, least, &head) {
                break proposal;
            }
            let now = places.replace(4 * bucket + slot, least, proposal);
            if now == least {
                break least;
            }
            // The others may be stale; the word seen now is greater than before.
            unroll::<BUCKET>(|s| {
                if s as u32 == slot {
                    there[s] = now;
                }
            });
        };
        if refused == NOBODY {
            return None;
        }
        if refused >> LEVEL & LAST_LEVEL == LAST_LEVEL {
            return Some(refused);
        }
        proposal = refused + (1 << LEVEL);
    }
}

/// Returns the bytes of shared memory for partitions of `buckets` buckets: proposal words, class
/// bits with eight buckets per word, and two counts.
pub const fn shared_bytes(buckets: u32) -> u32 {
    buckets * 32 + buckets.div_ceil(8) * 4 + COUNTS * 4
}
/// Counts of a block: homeless pairs, and whether its partition stays as it was.
const COUNTS: u32 = 2;
const HOMELESS: u32 = 0;
const STAYS: u32 = 1;

/// Returns the words that [`map_unstash()`] writes: a copy of a stash of 2^`bits` slots, and for
/// each slot the next one in its list.
pub const fn unstashed_words<L: Layout>(bits: u32) -> usize {
    (L::SLOT_WORDS + 1) << bits
}

/// Empties a stash that is not empty. Moves its pairs to `unstashed` (see [`unstashed_words`]), and
/// stores in `lists` a slot of each partition as the head of its list; lists of other partitions
/// stay all ones. One thread per slot, or fewer.
#[kernel(
    threads = 512, starts_early,
    for L in [Narrow { image = MAP }, Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_unstash<L: Layout>(
    t: Thread,
    shape: Shape,
    stash_bits: u32,
    stash: Buf<u64>,
    unstashed: Buf<u64>,
    lists: Buf<u32>,
    table_header: In<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    // The stash of a failed build may be too small, and stays as it is.
    if table_header.get(header::STASHED) == 0 || table_header.get(header::FAILED) != 0 {
        return;
    }
    let slots = 1u32 << (stash_bits & 31);
    for slot in t.strided(t.global_id(), t.grid_dim() * THREADS, slots) {
        let at = slot * L::SLOT_WORDS as u32;
        let head = stash.load(at);
        if head != EMPTY {
            unstashed.store(at, head);
            if L::SLOT_WORDS > 1 {
                unstashed.store(at + 1, stash.load(at + 1));
            }
            stash.store(at, EMPTY);
            let next = lists.swap(shape.partition(L::hash(L::key_in(head))), slot);
            unstashed.store(slots * L::SLOT_WORDS as u32 + slot, next as u64);
        }
    }
}

/// The partition of a block. Its pairs are numbered by their slots, then by the slots of the stash.
#[derive(Clone, Copy)]
struct Partition {
    shape: Shape,
    p: u32,
    stash_bits: u32,
    slots: Buf<u64>,
    unstashed: In<u64>,
    places: Shared<u64>,
}
/// A thread's position among the partition's pairs. Threads share the slots, then the list, in
/// strides of [`THREADS`].
struct Cursor {
    next: u32,
    /// The head in slot `next`, read ahead; empty after the last slot.
    ahead: u64,
    link: u32,
    /// Number of pairs of the list already passed.
    listed: u32,
}
impl Partition {
    #[inline(always)]
    fn in_buckets(self) -> u32 {
        self.shape.buckets * 4
    }
    #[inline(always)]
    #[track_caller]
    fn head<L: Layout>(self, number: u32) -> u64 {
        if number < self.in_buckets() {
            self.slots
                .load(self.shape.place(self.p, number / 4) * L::WORDS as u64 + (number % 4) as u64)
        } else {
            self.unstashed.get((number - self.in_buckets()) * L::SLOT_WORDS as u32)
        }
    }
    #[inline(always)]
    #[track_caller]
    fn pair<L: Layout>(self, number: u32) -> L::Pair {
        let head = self.head::<L>(number);
        let behind = if L::SLOT_WORDS == 1 {
            0
        } else if number < self.in_buckets() {
            self.slots.load(
                self.shape.place(self.p, number / 4) * L::WORDS as u64
                    + (BUCKET as u32 + number % 4) as u64,
            )
        } else {
            self.unstashed.get((number - self.in_buckets()) * L::SLOT_WORDS as u32 + 1)
        };
        L::with_head(head, behind)
    }
    /// Returns a cursor over the slots from `next` on, then the pairs of the list.
    #[inline(always)]
    #[track_caller]
    fn cursor<L: Layout>(self, next: u32, link: u32) -> Cursor {
        let ahead = if next < self.in_buckets() { self.head::<L>(next) } else { EMPTY };
        Cursor { next, ahead, link, listed: 0 }
    }
    /// Returns the number and the hash of the thread's next pair.
    #[inline(always)]
    fn next<L: Layout>(self, t: Thread, cursor: &mut Cursor) -> Option<(u32, u32)> {
        while cursor.next < self.in_buckets() {
            let (number, head) = (cursor.next, cursor.ahead);
            *cursor =
                Cursor { listed: cursor.listed, ..self.cursor::<L>(number + THREADS, cursor.link) };
            let h = L::hash(L::key_in(head));
            // Skips fillers.
            if head != EMPTY && self.shape.belongs(h, self.shape.place(self.p, number / 4) as u32) {
                return Some((number, h));
            }
        }
        while cursor.link != NONE {
            let (slot, mine) = (cursor.link, cursor.listed % THREADS == t.id());
            let links = (L::SLOT_WORDS as u32) << (self.stash_bits & 31);
            cursor.link = self.unstashed.get(links + slot) as u32;
            cursor.listed += 1;
            if mine {
                let number = self.in_buckets() + slot;
                return Some((number, L::hash(L::key_in(self.head::<L>(number)))));
            }
        }
        None
    }
    /// Returns whether pair `number` has a slot.
    #[inline(always)]
    fn is_placed(self, h: u32, number: u32) -> bool {
        let first = self.shape.first(h);
        let (a, b) = (self.places.four(first), self.places.four(self.shape.other(h, first)));
        let mut placed = false;
        unroll::<BUCKET>(|s| {
            placed |= a[s] != NOBODY && self::number(a[s]) == number
                || b[s] != NOBODY && self::number(b[s]) == number
        });
        placed
    }
}

/// Places the pairs of partition `t.block()` anew: see the module. Resets its list in `lists` to
/// all ones.
#[kernel(
    threads = 512, shared = shared_bytes(table.shape.buckets), starts_early,
    for L in [Narrow { image = MAP, min_blocks = 2 }, Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_reproduce<L: Layout>(t: Thread, table: TableMut, unstashed: In<u64>, lists: Buf<u32>) {
    let TableMut { shape, stash_bits, slots, .. } = table;
    let mut shared = t.shared();
    let (id, p) = (t.id(), t.block());
    let places = shared.array::<u64>(shape.buckets * 4);
    let classes = shared.array::<u32>(shape.buckets.div_ceil(8));
    let counts = shared.array::<u32>(COUNTS);
    let part = Partition { shape, p, stash_bits, slots, unstashed, places };
    let steps = Steps { t, part, classes, counts, table, lists };
    steps.clear();
    t.wait_for_previous();
    t.let_next_start();
    let list = lists.load(p);
    let mut cursor = part.cursor::<L>(id, list);
    t.barrier();
    let homeless = steps.propose_all::<L>(&mut cursor);
    // Normally no pair is or was homeless, and the block does not touch the stash.
    if t.barrier_count(homeless != 0 || list != NONE) != 0 {
        steps.reserve(cursor.listed);
        t.barrier();
        let stays = counts.load(STAYS) != 0;
        steps.stash::<L>(list, stays);
        if stays {
            return;
        }
    }
    // All buckets are read before one is written.
    let buckets = steps.read_buckets::<L>();
    t.barrier();
    steps.write_buckets::<L>(buckets);
}

/// What the steps of a block work on.
#[derive(Clone, Copy)]
struct Steps {
    t: Thread,
    part: Partition,
    /// Class bits, eight buckets per word.
    classes: Shared<u32>,
    counts: Shared<u32>,
    table: TableMut,
    lists: Buf<u32>,
}
impl Steps {
    /// Clears the shared memory of the block.
    #[inline(always)]
    fn clear(self) {
        let Steps { t, part: Partition { shape, places, .. }, classes, counts, .. } = self;
        let mut i = t.id();
        while i < shape.buckets * 2 {
            places.x2().store(i, U64x2([NOBODY; 2]));
            i += THREADS;
        }
        i = t.id();
        while i < shape.buckets.div_ceil(8) {
            classes.store(i, 0);
            i += THREADS;
        }
        if t.id() < COUNTS {
            counts.store(t.id(), 0);
        }
    }
    /// Sets a class bit of a bucket.
    #[inline(always)]
    fn mark(self, first: u32, bit: u32) {
        self.classes.fetch_or(first / 8, bit << (first % 8 * 4));
    }
    /// Lets each pair that the thread gets from the cursor propose. Counts the pairs that became
    /// homeless and returns their number.
    #[inline(always)]
    fn propose_all<L: Layout>(self, cursor: &mut Cursor) -> u32 {
        let Steps { t, part, counts, .. } = self;
        let mut homeless = 0;
        while let Some((number, h)) = part.next::<L>(t, cursor) {
            let proposal = first_proposal(h, number);
            let left =
                propose::<L>(part.shape, &part.places, proposal, |number| part.head::<L>(number));
            homeless += left.is_some() as u32;
        }
        if homeless != 0 {
            counts.fetch_add(HOMELESS, homeless);
        }
        homeless
    }
    /// Reserves stash slots for the homeless pairs, of which there were `before`, and resets the
    /// list of the partition. If there are not enough slots, the partition stays as it was.
    #[inline(always)]
    fn reserve(self, before: u32) {
        let Steps { t, part, counts, table, lists, .. } = self;
        let now = counts.load(HOMELESS);
        if t.id() == 0 {
            let more = now.wrapping_sub(before);
            let sum = table.header.fetch_add(header::STASHED, more).wrapping_add(more);
            let stays = now > before && sum > 1 << (part.stash_bits & 31);
            if stays {
                table.header.fetch_add(header::STASHED, more.wrapping_neg());
            }
            counts.store(STAYS, stays as u32);
            lists.store(part.p, NONE);
        }
    }
    /// Puts the homeless pairs in the stash; if the partition `stays`, those of its list.
    #[inline(always)]
    fn stash<L: Layout>(self, list: u32, stays: bool) {
        let Steps { t, part, table, .. } = self;
        let mut cursor = part.cursor::<L>(if stays { NONE } else { t.id() }, list);
        while let Some((number, h)) = part.next::<L>(t, &mut cursor) {
            if stays || !part.is_placed(h, number) {
                self.mark(part.shape.first(h), 1 << class(h));
                // There is room: it was reserved, or held a pair before.
                stash::insert::<L>(table.stash, part.stash_bits, part.pair::<L>(number));
            }
        }
    }
    /// Reads the pairs of the thread's buckets, and marks the classes that overflowed to them.
    #[inline(always)]
    fn read_buckets<L: Layout>(self) -> [[L::Pair; BUCKET]; ROUNDS] {
        let Steps { t, part, .. } = self;
        let mut buckets = [[L::EMPTY_PAIR; BUCKET]; ROUNDS];
        unroll::<ROUNDS>(|round| {
            let bucket = t.id() + round as u32 * THREADS;
            if bucket < part.shape.buckets {
                let four = part.places.four(bucket);
                unroll::<BUCKET>(|s| {
                    if four[s] != NOBODY {
                        buckets[round][s] = part.pair::<L>(number(four[s]));
                        if let Some((first, bit)) = overflowed(part.shape, four[s], bucket) {
                            self.mark(first, bit);
                        }
                    }
                });
            }
        });
        buckets
    }
    /// Writes the thread's buckets.
    #[inline(always)]
    fn write_buckets<L: Layout>(self, buckets: [[L::Pair; BUCKET]; ROUNDS]) {
        let Steps { t, part: Partition { shape, p, slots, .. }, classes, .. } = self;
        unroll::<ROUNDS>(|round| {
            let bucket = t.id() + round as u32 * THREADS;
            if bucket < shape.buckets {
                let bits = classes.load(bucket / 8) >> (bucket % 8 * 4);
                // A bucket that is not full has no class bits. Its empty slots have the greatest
                // key, so they sort last.
                write_bucket::<L>(
                    slots,
                    shape.place(p, bucket),
                    with_class_bits::<L>(buckets[round], bits),
                );
            }
        });
    }
}
