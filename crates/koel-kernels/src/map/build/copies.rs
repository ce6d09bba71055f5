//! Equal keys: copies that meet are merged, and keys that cannot be decided here become contested.
use super::near::{CHANGED, DROPPED, DROPPED_HERE, Partition, UNCOMPARED, pick};
use super::write::write_bucket;
use super::{Steps, Target};
use crate::hash::mulhi;
use crate::map::filter_bit;
use crate::map::records::{Placed, Records};
use crate::table::layout::{EMPTY, Layout, Number};
use crate::table::{stash, state};
use koel_simt::unroll;

/// Maximum number of slots probed in the table of contested keys before the build fails and is
/// repeated in device memory.
const MAX_PROBES: u32 = 256;
/// Maximum number of keys with equal hashes that a pair that found both buckets full is compared
/// with. The resolve step compares faster.
const MAX_COMPARED: u32 = 8;

impl<R: Records> Steps<R> {
    /// Merges pairs that missed both buckets with copies that came to their second buckets
    /// meanwhile, and with each other. Returns the number of copies dropped. All threads of the
    /// block must call it.
    #[inline(always)]
    pub(super) fn merge_missed_twice(self, missed_twice: u32) -> u32 {
        let Steps { t, part, lists, to: Target { source, .. } } = self;
        let mut i = t.id();
        while i < source.list {
            lists.first.store(i, EMPTY);
            i += R::THREADS;
        }
        t.barrier();
        let mut dropped = 0;
        i = t.id();
        while i < missed_twice {
            let e = lists.second.load_volatile(i);
            let h = part.hash(e);
            let second = part.shape.other(h, part.shape.first(h));
            if self.merge(second, e, &mut 0) {
                lists.second.store_volatile(i, EMPTY);
                dropped += 1;
            } else {
                dropped += self.merge_missed(i, e) as u32;
            }
            i += R::THREADS;
        }
        dropped
    }

    /// The resolve step, which also writes the buckets again that it changes. Returns the number of
    /// copies dropped. All threads of the block must call it.
    #[inline(always)]
    pub(super) fn resolve_suspects(self, homeless: u32) -> u32 {
        let Steps { t, part, lists, to: Target { slots, .. } } = self;
        let (id, p, shape) = (t.id(), part.number, part.shape);
        let mut i = id;
        while i < homeless {
            let e = lists.second.load_volatile(i);
            let print = if part.is_suspect(e) { part.fingerprint(e) } else { part.tag(e) };
            lists.first.store(i, print as u64);
            i += R::THREADS;
        }
        t.barrier();
        let mut dropped = 0;
        i = id;
        while i < shape.buckets {
            let (records, taken) = (part.bucket(i), !part.words.load_volatile(i));
            let mut here = 0u32;
            unroll::<4>(|s| {
                let pair = taken >> s & 1 != 0 && records[s] != EMPTY;
                here |= ((pair && part.is_suspect(records[s])) as u32) << s;
            });
            while here != 0 {
                let slot = 4 * i + here.trailing_zeros();
                here &= here - 1;
                dropped += self.resolve(slot, homeless) as u32;
            }
            i += R::THREADS;
        }
        i = id;
        while i < homeless {
            if part.is_suspect(lists.second.load_volatile(i)) {
                dropped += self.resolve(shape.buckets * 4 + i, homeless) as u32;
            }
            i += R::THREADS;
        }
        t.barrier();
        // Each bucket is written by the thread that wrote it before.
        i = id;
        while i < shape.buckets {
            let word = part.words.load(i);
            if word & CHANGED != 0 {
                let bucket = self.thinned(i, part.bucket(i), word, homeless);
                write_bucket::<R::Layout>(slots, shape.place(p, i), bucket);
            }
            i += R::THREADS;
        }
        dropped
    }

    /// Merges pair `i` of the second list with another pair of its key there, if there is one. The
    /// pair with the greater stamp stays. With equal stamps both stay, and the key is suspect.
    /// Pairs meet in a hash table of list indices in the memory of the first list. Returns whether
    /// a pair was dropped.
    #[inline(always)]
    fn merge_missed(self, i: u32, e: u64) -> bool {
        let Steps { part, lists, .. } = self;
        let mut at = mulhi(part.hash(e).wrapping_mul(0x9E37_79B1), lists.room);
        let (mut looked, mut compared) = (0, 0);
        loop {
            if looked == lists.room || compared == MAX_COMPARED {
                lists.lengths.store_volatile(UNCOMPARED, 1);
                break;
            }
            let there = lists.first.cas(at, EMPTY, i as u64);
            if there == EMPTY {
                return false;
            }
            let other = lists.second.load_volatile(there as u32);
            if part.same(other, e) {
                let (mine, its) = (part.from.stamp(e), part.from.stamp(other));
                if !R::EXACT && mine == its {
                    break;
                }
                // The thread that replaces the other pair in the table drops it.
                if mine < its || lists.first.cas(at, there, i as u64) == there {
                    lists.second.store_volatile(if mine < its { i } else { there as u32 }, EMPTY);
                    return true;
                }
            } else if other != EMPTY {
                at = if at + 1 < lists.room { at + 1 } else { 0 };
                looked += 1;
                compared += (part.tag(other) == part.tag(e)) as u32;
            }
        }
        part.suspect(e);
        false
    }

    /// Merges a pair with a copy of it in a full bucket, if there is one: the record with the
    /// greater stamp stays there. With equal stamps two stay, and the key is suspect; `ties` counts
    /// the copies with the pair's own stamp.
    #[inline(always)]
    pub(super) fn merge(self, bucket: u32, e: u64, ties: &mut u32) -> bool {
        let part = self.part;
        let (tag, there, mut alike) = (part.tag(e), part.bucket(bucket), 0u32);
        unroll::<4>(|s| alike |= ((part.tag(there[s]) == tag) as u32) << s);
        if alike == 0 {
            return false;
        }
        let mine = part.from.stamp(e);
        while alike != 0 {
            let s = alike.trailing_zeros();
            alike &= alike - 1;
            let mut other = pick(s, there);
            while part.same(other, e) {
                let its = part.from.stamp(other);
                if mine < its {
                    return true;
                }
                if !R::EXACT && mine == its {
                    *ties += 1;
                    break;
                }
                let now = part.slots.cas(4 * bucket + s, other, e);
                if now == other {
                    return true;
                }
                other = now;
            }
        }
        if *ties == 1 {
            part.suspect(e);
        }
        // Two copies with the same stamp carry as much information as three.
        *ties > 1
    }

    /// Resolves the pair in slot `at`, or homeless pair `at - slots` if `at` is past the slots. If
    /// it is the first of several copies, it takes the place of all, with the record that stays;
    /// otherwise it is marked as dropped. Returns whether it was dropped.
    ///
    /// Other threads may read the record meanwhile: the record that stays has the same key, and
    /// only the first copy decides.
    #[inline(always)]
    fn resolve(self, at: u32, homeless: u32) -> bool {
        let Steps { part, lists, to: Target { build_state, .. }, .. } = self;
        let slots = part.shape.buckets * 4;
        let me = if at < slots {
            part.slots.load_volatile(at)
        } else {
            lists.second.load_volatile(at - slots)
        };
        let print = part.fingerprint(me);
        let h = part.hash(me);
        let first = part.shape.first(h);
        let second = part.shape.other(h, first);
        let (mut best, mut greatest, mut ties, mut copies, mut first_copy) =
            (me, part.from.stamp(me), false, 0, at);
        let mut meet = |other: u32, e: u64| {
            copies += 1;
            first_copy = first_copy.min(other);
            let stamp = part.from.stamp(e);
            ties = stamp == greatest || ties && stamp < greatest;
            if stamp > greatest {
                (best, greatest) = (e, stamp);
            }
        };
        let mut i = 0;
        while i < 8 {
            let bucket = if i < 4 { first } else { second };
            if i < 4 || second != first {
                let slot = 4 * bucket + (i & 3);
                let e = part.slots.load_volatile(slot);
                if slot != at && part.same(e, me) {
                    meet(slot, e);
                }
            }
            i += 1;
        }
        i = 0;
        while i < homeless {
            // Compares fingerprints, not hashes, which many keys may share.
            if lists.first.load_volatile(i) as u32 == print && slots + i != at {
                let e = lists.second.load_volatile(i);
                if part.same(e, me) {
                    meet(slots + i, e);
                }
            }
            i += 1;
        }
        if copies == 0 {
            return false;
        }
        if first_copy != at {
            if at < slots {
                part.words.fetch_or(at / 4, CHANGED | 1 << (DROPPED + at % 4));
            } else {
                lists.first.store_volatile(at - slots, DROPPED_HERE | print as u64);
            }
            return true;
        }
        if at < slots {
            part.slots.store_volatile(at, best);
            part.words.fetch_or(at / 4, CHANGED);
        } else {
            lists.second.store_volatile(at - slots, best);
        }
        if !R::EXACT && ties {
            self.contest(part.key(best));
            // Records where to search for its copies: in the stretch of its stamp.
            let word = state::STRETCHES + part.from.search_word(greatest);
            build_state.store_relaxed(word, 1);
        }
        false
    }

    /// Adds a key to the contested keys and to their [filter](crate::map::CONTESTED_FILTER).
    #[inline(always)]
    fn contest(self, key: <R::Layout as Layout>::Mixed) {
        let Target { source, contested, build_state, .. } = self.to;
        let bits = source.contested_bits;
        let mask = (1u32 << (bits & 31)) - 1;
        let (mut at, mut looked) = (stash::start::<R::Layout>(key, bits), 0);
        // With a table this full, a search would cost more than a build in device memory.
        while looked <= mask.min(MAX_PROBES) {
            let there = contested.cas(at, EMPTY, key.widened());
            if there == EMPTY {
                build_state.fetch_add(state::CONTESTED, 1);
                let (word, bit) = filter_bit(R::Layout::hash(key));
                contested.fetch_and((1u64 << (bits & 31)) + word as u64, !(1 << bit));
            }
            if there == EMPTY || there == key.widened() {
                return;
            }
            at = (at + 1) & mask;
            looked += 1;
        }
        build_state.fetch_add(state::FAILED, 1);
    }
}

/// All pairs of slots of a bucket.
const TWO_OF_FOUR: [(usize, usize); 6] = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
/// Returns the slots of copies in a bucket that need not stay, one bit each, and whether stamps
/// left some copies undecided, which makes their key suspect. `taken`: the slots that hold a pair.
#[inline(always)]
pub(super) fn lesser_copies<R: Placed>(
    part: Partition<R>,
    records: [u64; 4],
    taken: u32,
) -> (u32, bool) {
    let tags = records.map(|e| part.tag(e));
    let alike = |(a, b): (usize, usize)| tags[a] == tags[b] && taken >> a & taken >> b & 1 != 0;
    let (mut any, mut lesser, mut tied) = (false, 0, false);
    unroll::<6>(|i| any |= alike(TWO_OF_FOUR[i]));
    if any {
        unroll::<6>(|i| {
            let (a, b) = TWO_OF_FOUR[i];
            if alike((a, b)) && part.from.same_key(records[a], records[b]) {
                let (of_a, of_b) = (part.from.stamp(records[a]), part.from.stamp(records[b]));
                if !R::EXACT && of_a == of_b {
                    part.suspect(records[a]);
                    tied = true;
                } else {
                    lesser |= 1 << if of_a < of_b { a } else { b };
                }
            }
        });
    }
    (lesser, tied)
}
