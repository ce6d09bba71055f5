//! Eviction: makes room for pairs that found both their buckets full.
use super::copies::lesser_copies;
use super::near::{FREE, GIVEN_UP, HOMELESS, Lists, Partition, class_mark, pick};
use crate::map::records::Placed;
use crate::table::layout::EMPTY;
use koel_simt::{Thread, unroll};

/// Evictions after which a pair gives up.
pub(in crate::map) const MAX_MOVES: u32 = 500;
/// Number of active pairs of a warp up to which eight lanes help each at the same time.
const FEW: u32 = 4;
/// Number of active pairs of a warp up to which all lanes help one after the other: `TIGHT` in
/// small inputs, whose builds have nothing else to do meanwhile, `LAST` in others.
const TIGHT: u32 = 4;
const LAST: u32 = 1;
/// Evictions after which all lanes help a pair. One such search counts as `HELP` evictions.
const LONG: u32 = 16;
pub(in crate::map) const HELP: u32 = 60;
/// Pairs of a partition that gave up, beyond which the others give up after few evictions: only
/// crafted keys leave this many without room.
const MANY_GIVEN_UP: u32 = 256;
/// Pairs per evicting warp: fewer warps collide less.
const PAIRS_PER_WARP: u32 = 40;

/// Places the first `missed` pairs of the second list, which found both their buckets full. A pair
/// without a slot afterwards is homeless. Returns the number of copies dropped. All threads of the
/// block must call it, of which there are `threads`. Ends with a barrier if any pair gave up.
#[inline(always)]
pub(in crate::map) fn place_missed<R: Placed, const CHECK: bool>(
    t: Thread,
    threads: u32,
    part: Partition<R>,
    lists: Lists,
    help: u32,
    missed: u32,
) -> u32 {
    let (shape, lengths) = (part.shape, lists.lengths);
    let mut dropped = 0;
    let per_warp = if R::EXACT { FEW } else { PAIRS_PER_WARP };
    let warps = missed.div_ceil(per_warp).clamp(1, threads / 32);
    if t.warp_id() < warps {
        // The share of a warp. `checked_div` keeps the panic of a division by zero out of the
        // kernel.
        let share = missed.checked_div(warps).unwrap_or(0) + 1;
        let start = (share * t.warp_id()).min(missed);
        dropped = evict::<R, CHECK>(t, part, lists, help, start, (start + share).min(missed));
    }
    t.barrier();

    // Normally no pair gave up.
    let given_up = lengths.load_volatile(GIVEN_UP);
    if given_up != 0 {
        let mut i = t.id();
        while i < given_up {
            let e = lists.first.load(i);
            let h = part.hash(e);
            let first = shape.first(h);
            // Its class is marked: it missed its first bucket once, or was evicted from it.
            let slot =
                part.take_last_slot(first).or_else(|| part.take_last_slot(shape.other(h, first)));
            match slot {
                Some(slot) => part.slots.store_volatile(slot, e),
                None => lists.second.store(lengths.fetch_add(HOMELESS, 1), e),
            }
            i += threads;
        }
        t.barrier();
    }
    dropped
}

/// Searches for a path to a free slot for a pair that found both its buckets full, by moving one or
/// two pairs to their other buckets. All lanes of a warp take part; each checks one of 32 paths.
/// Returns the pair that is left without a slot: [`EMPTY`] if none is, the given pair if nothing
/// moved, or a pair that was moved before another thread interfered.
#[inline(always)]
fn search_together<R: Placed, const CHECK: bool>(t: Thread, part: Partition<R>, pair: u64) -> u64 {
    let (shape, lane, warp) = (part.shape, t.lane(), t.warp());
    let h = part.hash(pair);
    let first = shape.first(h);
    // Each lane considers a pair of a bucket, a pair of the bucket where that would move, and the
    // bucket where the latter would move.
    let bucket = if lane < 16 { first } else { shape.other(h, first) };
    let slot = 4 * bucket + (lane >> 2 & 3);
    // Other threads may change the slot meanwhile, so four lanes share what one of them saw.
    let evicted = warp.shfl(part.slots.load_volatile(slot), lane & !3);
    let h_evicted = part.hash(if evicted != EMPTY { evicted } else { pair });
    let next = shape.other(h_evicted, bucket);
    let next_slot = 4 * next + (lane & 3);
    let next_evicted = part.slots.load_volatile(next_slot);
    let h_next = part.hash(if next_evicted != EMPTY { next_evicted } else { pair });
    let last = shape.other(h_next, next);
    // A bucket that is not full loses no pair for good: an empty slot may be about to be released.
    let half = 0xFFFF << (lane & 16);
    let mut one = warp.ballot(evicted == EMPTY) & half == 0;
    let mut two = warp.ballot(next_evicted == EMPTY) >> (lane & 28) & 0xF == 0;
    if CHECK {
        // Copies must stay together.
        unroll::<3>(|i| {
            one &= warp.shfl_xor(h_evicted, 4 * (i as u32 + 1)) != h_evicted;
            two &= warp.shfl_xor(h_next, i as u32 + 1) != h_next;
        });
    }
    two &= one;
    one &= part.words.load_volatile(next) & FREE != 0;
    two &= part.words.load_volatile(last) & FREE != 0;
    let (ones, twos) = (warp.ballot(one), warp.ballot(two));
    let ways = if ones != 0 { ones } else { twos };
    let way = ways.trailing_zeros() & 31;
    let mut left = pair;
    if ways != 0 && lane == way {
        let end = if ones != 0 { next } else { last };
        if let Some(free) = part.take_slot(end) {
            if shape.first(h_evicted) == bucket {
                part.words.fetch_or(bucket, class_mark(h_evicted));
            }
            if part.slots.cas(slot, evicted, pair) == evicted {
                part.mark_changed(bucket);
                left = evicted;
            }
            if left == evicted && ones == 0 {
                if shape.first(h_next) == next {
                    part.words.fetch_or(next, class_mark(h_next));
                }
                if part.slots.cas(next_slot, next_evicted, evicted) == next_evicted {
                    part.mark_changed(next);
                    left = next_evicted;
                }
            }
            if left != pair && (ones != 0 || left != evicted) {
                part.slots.store_volatile(free, left);
                left = EMPTY;
            } else {
                // Another thread was faster: release the slot.
                part.words.fetch_or(end, 1 << (free & 3));
            }
        }
    }
    warp.shfl(left, way)
}

/// Evicts for the pairs `next..to` of the second list, one lane per pair. Appends pairs that give
/// up to the first list. Returns the number of copies dropped.
#[inline(always)]
fn evict<R: Placed, const CHECK: bool>(
    t: Thread,
    part: Partition<R>,
    lists: Lists,
    help: u32,
    mut next: u32,
    to: u32,
) -> u32 {
    let steps = Evict { t, part, lists };
    let mut own = Evicting { active: false, x: EMPTY, bucket: 0, moves: 0 };
    let mut dropped = 0;
    loop {
        // Idle lanes take the next pairs together.
        let idle = t.warp().ballot(!own.active);
        if idle != 0 && next < to {
            steps.take(&mut own, idle, next, to);
            next += idle.count_ones();
        } else if idle == !0 {
            break;
        }
        steps.help::<CHECK>(&mut own, help);
        if own.active {
            steps.move_on::<CHECK>(&mut own, &mut dropped);
        }
    }
    dropped
}

/// What the steps of eviction work on.
#[derive(Clone, Copy)]
struct Evict<R> {
    t: Thread,
    part: Partition<R>,
    lists: Lists,
}
/// The pair that a lane evicts for.
struct Evicting {
    /// Whether there is one.
    active: bool,
    /// Its record.
    x: u64,
    /// The bucket that it tries next.
    bucket: u32,
    /// Evictions for it and for those that it evicted.
    moves: u32,
}

impl<R: Placed> Evict<R> {
    /// Takes one of the pairs `next..to` of the second list, if the lane is one of those in `idle`
    /// and there are enough.
    #[inline(always)]
    fn take(self, own: &mut Evicting, idle: u32, next: u32, to: u32) {
        let Evict { t, part, lists } = self;
        if !own.active {
            let i = next + t.rank_in(idle);
            if i < to {
                let x = lists.second.load(i);
                let bucket = part.shape.first(part.hash(x));
                *own = Evicting { active: x != EMPTY, x, bucket, moves: 0 };
            }
        }
    }
    /// Lets all lanes help the few pairs that are left at the end, and those that take long.
    #[inline(always)]
    fn help<const CHECK: bool>(self, own: &mut Evicting, help: u32) {
        let Evict { t, part, .. } = self;
        let mut active = t.warp().ballot(own.active);
        // Whoever builds many partitions has other work meanwhile.
        if R::HELPS_NEAR && active.count_ones() <= FEW {
            self.search_near::<CHECK>(own, active);
            active = t.warp().ballot(own.active);
        }
        let few = active.count_ones() <= if R::EXACT { TIGHT } else { LAST };
        let mut rest = t.warp().ballot(own.active && (few || own.moves >= LONG));
        while rest != 0 {
            let helped = rest.trailing_zeros();
            rest &= rest - 1;
            let pair = t.warp().shfl(own.x, helped);
            let left = search_together::<R, CHECK>(t, part, pair);
            if t.lane() == helped {
                own.moves += help;
                if left != pair {
                    let bucket = part.shape.first(part.hash(left));
                    (own.active, own.x, own.bucket) = (left != EMPTY, left, bucket);
                }
            }
        }
    }
    /// For each pair of the `active` lanes, of which there are at most [`FEW`], moves another pair
    /// to its other bucket. Eight lanes look at the eight pairs of the two buckets of each. A lane
    /// whose pair has taken the slot of the moved one is no longer active.
    #[inline(always)]
    fn search_near<const CHECK: bool>(self, own: &mut Evicting, active: u32) {
        let Evict { t, part, .. } = self;
        let (shape, lane, warp) = (part.shape, t.lane(), t.warp());
        let mut of_group = active;
        unroll::<{ FEW as usize - 1 }>(|i| {
            if (i as u32) < lane / 8 {
                of_group &= of_group.wrapping_sub(1);
            }
        });
        let pair = warp.shfl(own.x, of_group.trailing_zeros() & 31);
        let h = part.hash(pair);
        let first = shape.first(h);
        let bucket = if lane & 4 == 0 { first } else { shape.other(h, first) };
        let slot = 4 * bucket + (lane & 3);
        let evicted = part.slots.load_volatile(slot);
        let h_evicted = part.hash(if evicted != EMPTY { evicted } else { pair });
        let next = shape.other(h_evicted, bucket);
        // A bucket that is not full loses no pair: an empty slot may be about to be released.
        let empty = warp.ballot(evicted == EMPTY) >> (lane & 28) & 0xF;
        let mut way = of_group != 0 && empty == 0;
        if CHECK {
            // Copies must stay together.
            unroll::<3>(|i| way &= warp.shfl_xor(h_evicted, i as u32 + 1) != h_evicted);
        }
        way &= part.words.load_volatile(next) & FREE != 0;
        let first_way = (warp.ballot(way) >> (lane & 24) & 0xFF).trailing_zeros();
        let mut done = false;
        if way
            && lane & 7 == first_way
            && let Some(free) = part.take_slot(next)
        {
            if shape.first(h_evicted) == bucket {
                part.words.fetch_or(bucket, class_mark(h_evicted));
            }
            done = part.slots.cas(slot, evicted, pair) == evicted;
            if done {
                part.mark_changed(bucket);
                part.slots.store_volatile(free, evicted);
            } else {
                // Another thread was faster: release the slot.
                part.words.fetch_or(next, 1 << (free & 3));
            }
        }
        let done = warp.ballot(done) >> ((8 * t.rank_in(active)) & 31) & 0xFF;
        own.active &= done == 0;
    }
    /// Evicts once for the pair of the lane.
    #[inline(always)]
    fn move_on<const CHECK: bool>(self, own: &mut Evicting, dropped: &mut u32) {
        let Evict { part, lists, .. } = self;
        let y = part.bucket(own.bucket);
        if y[0] == EMPTY || y[1] == EMPTY || y[2] == EMPTY || y[3] == EMPTY {
            // Rare: a slot is just being filled, or was released.
            if let Some(slot) = part.take_slot(own.bucket) {
                part.slots.store_volatile(slot, own.x);
                own.active = false;
            }
        } else {
            let hashes = y.map(|e| part.hash(e));
            if hashes == [part.hash(own.x); 4] {
                self.leave_equal_hashes(own, hashes);
                return;
            }
            let lesser = if CHECK { lesser_copies::<R>(part, y, FREE).0 } else { 0 };
            if lesser != 0 {
                // The lesser copy needs no slot any more.
                let slot = lesser.trailing_zeros();
                if part.slots.cas(4 * own.bucket + slot, pick(slot, y), own.x) == pick(slot, y) {
                    *dropped += 1;
                    own.active = false;
                }
                return;
            }
            self.evict_one(own, y, hashes);
        }
        own.moves += own.active as u32;
        // An update has no registers left for this check, and no crafted keys for long.
        let many = !R::MARKS_CHANGES
            && own.active
            && own.moves > LONG
            && lists.lengths.load_volatile(GIVEN_UP) > MANY_GIVEN_UP;
        if own.active && (many || own.moves > MAX_MOVES) {
            self.give_up(own);
        }
    }
    /// Goes on to the other bucket of a pair whose hash is that of all pairs of this one. Crafted
    /// keys: none of the four has more room elsewhere than this one. Its other bucket may hold
    /// different keys.
    #[inline(always)]
    fn leave_equal_hashes(self, own: &mut Evicting, hashes: [u32; 4]) {
        let part = self.part;
        own.bucket = part.shape.other(part.hash(own.x), own.bucket);
        if own.moves > MAX_MOVES || part.bucket(own.bucket).map(|e| part.hash(e)) == hashes {
            self.give_up(own);
        }
        own.moves += 1;
    }
    /// Moves one of the four pairs `y` of the bucket whose other bucket has room, or swaps with
    /// one and goes on with that pair.
    #[inline(always)]
    fn evict_one(self, own: &mut Evicting, y: [u64; 4], hashes: [u32; 4]) {
        let Evict { t, part, .. } = self;
        let (shape, bucket) = (part.shape, own.bucket);
        // Prefers one of the four whose other bucket has room.
        let other = hashes.map(|h| shape.other(h, bucket));
        let free = [0, 1, 2, 3].map(|s| part.words.load_volatile(other[s]) & FREE);
        let mut hit = 4;
        unroll::<4>(|s| {
            if free[s] != 0 && (hit == 4 || (s as u32 ^ t.lane()) & 1 == 0) {
                hit = s as u32;
            }
        });
        let swaps = hit == 4;
        if swaps {
            hit = (own.moves + t.lane()) & 3;
        }
        let (evicted, its_other) = (pick(hit, y), pick(hit, other));
        let slot = if swaps { None } else { part.take_slot(its_other) };
        if swaps || slot.is_some() {
            let h = part.hash(evicted);
            if shape.first(h) == bucket {
                part.words.fetch_or(bucket, class_mark(h));
            }
            if part.slots.cas(4 * bucket + hit, evicted, own.x) == evicted {
                part.mark_changed(bucket);
                match slot {
                    Some(slot) => {
                        part.slots.store_volatile(slot, evicted);
                        own.active = false;
                    }
                    None => (own.x, own.bucket) = (evicted, its_other),
                }
            } else if let Some(slot) = slot {
                // Another thread was faster: release the slot.
                part.words.fetch_or(its_other, 1 << (slot & 3));
            }
        }
    }
    /// Appends the pair to the first list.
    #[inline(always)]
    fn give_up(self, own: &mut Evicting) {
        let lists = self.lists;
        lists.first.store(lists.lengths.fetch_add(GIVEN_UP, 1), own.x);
        own.active = false;
    }
}
