//! Writing buckets to the table, and homeless pairs to the stash.
use super::copies::lesser_copies;
use super::near::{CLASS, DROPPED, DROPPED_HERE, FREE, SUSPECT};
use super::{Steps, Target};
use crate::map::records::{PairOf, Records};
use crate::table::layout::{EMPTY, Layout, empty_last, filled, with_class_bits};
use crate::table::{stash, state};
use koel_simt::{Buf, U64x2, unroll};

impl<R: Records> Steps<R> {
    /// The write step. Returns whether this thread saw a suspect key, and adds the number of copies
    /// it dropped to `dropped`.
    #[inline(always)]
    pub(super) fn write_buckets<const CHECK: bool>(self, homeless: u32, dropped: &mut u32) -> bool {
        let Steps { t, part, to, .. } = self;
        let (p, shape) = (part.number, part.shape);
        let mut suspects = false;
        let mut i = t.id();
        while i < shape.buckets {
            let (records, mut word) = (part.bucket(i), part.words.load_volatile(i));
            suspects |= word & SUSPECT != 0;
            if CHECK {
                let (gone, tied) = lesser_copies::<R>(part, records, !word);
                suspects |= tied;
                if gone != 0 {
                    *dropped += gone.count_ones();
                    word |= gone << DROPPED;
                    part.words.fetch_or(i, gone << DROPPED);
                    unroll::<4>(|s| {
                        if gone >> s & 1 != 0 {
                            part.slots.store_volatile(4 * i + s as u32, EMPTY);
                        }
                    });
                }
            }
            let bucket = if word >> DROPPED & FREE != 0 {
                self.thinned(i, records, word, homeless)
            } else {
                self.finished(records, word)
            };
            write_bucket::<R::Layout>(to.slots, shape.place(p, i), bucket);
            i += R::THREADS;
        }
        suspects
    }
    /// The stash step. `resolved`: whether the resolve step marked homeless pairs as dropped.
    #[inline(always)]
    pub(super) fn stash_homeless(self, homeless: u32, resolved: bool) {
        let Steps { t, part, lists, to: Target { source, stash, build_state, .. } } = self;
        let mut i = t.id();
        while i < homeless {
            // Both buckets of the pair are full, and its class is marked in the first, so lookups
            // reach the stash.
            if !resolved || lists.first.load(i) & DROPPED_HERE == 0 {
                let pair = part.from.pair(lists.second.load(i));
                let done = stash::insert_near::<R::Layout>(stash, source.stash_bits, pair);
                build_state.fetch_add(if done { state::STASHED } else { state::FAILED }, 1);
            }
            i += R::THREADS;
        }
    }
    /// Returns a bucket of these records as it is written.
    #[inline(always)]
    fn finished(self, records: [u64; 4], word: u32) -> [PairOf<R>; 4] {
        let part = self.part;
        let mut bucket = [R::Layout::EMPTY_PAIR; 4];
        unroll::<4>(|s| {
            if word >> s & 1 == 0 {
                bucket[s] = part.from.pair(records[s]);
            }
        });
        let taken = !word & FREE;
        if taken == FREE {
            bucket = with_class_bits::<R::Layout>(bucket, word >> CLASS);
        } else if taken & (taken + 1) != 0 {
            // A slot before an occupied one was released.
            bucket = empty_last::<R::Layout>(bucket);
        }
        bucket
    }
    /// Returns a bucket that lost pairs, as it is written.
    #[inline(always)]
    pub(super) fn thinned(
        self,
        at: u32,
        records: [u64; 4],
        word: u32,
        homeless: u32,
    ) -> [PairOf<R>; 4] {
        let Steps { part, to, .. } = self;
        let (p, shape) = (part.number, part.shape);
        let gone = (word | word >> DROPPED) & FREE;
        // Lookups may have to go on from here, which they do only if the bucket is full.
        let hides = word & FREE == 0 && (word >> CLASS & 0xF != 0 || homeless != 0);
        let mut bucket = [R::Layout::EMPTY_PAIR; 4];
        if hides && gone != 0 && shape.all_buckets() == 1 {
            // Every key belongs to this bucket, so there is no filler.
            to.build_state.fetch_add(state::FAILED, 1);
            return bucket;
        }
        unroll::<4>(|s| {
            if gone >> s & 1 == 0 {
                bucket[s] = part.from.pair(records[s]);
            }
        });
        if gone == 0 || hides {
            with_class_bits::<R::Layout>(
                filled::<R::Layout>(shape, shape.place(p, at) as u32, bucket, gone),
                word >> CLASS,
            )
        } else {
            empty_last::<R::Layout>(bucket)
        }
    }
}

/// Writes a bucket, which will not be read again soon.
#[inline(always)]
#[track_caller]
pub fn write_bucket<L: Layout>(slots: Buf<u64>, place: u64, bucket: [L::Pair; 4]) {
    let to = place * (L::WORDS as u64 / 2);
    slots.x2().store_stream(to, U64x2([L::head(bucket[0]), L::head(bucket[1])]));
    slots.x2().store_stream(to + 1, U64x2([L::head(bucket[2]), L::head(bucket[3])]));
    if L::SLOT_WORDS > 1 {
        slots.x2().store_stream(to + 2, U64x2([L::behind(bucket[0]), L::behind(bucket[1])]));
        slots.x2().store_stream(to + 3, U64x2([L::behind(bucket[2]), L::behind(bucket[3])]));
    }
}
