//! The keys of a partition, as a build reads them.
use super::THREADS;
use crate::partition::load_run;
use crate::set::layout::{Member, hash};
use crate::table::bins::Source;
use crate::table::layout::Shape;
use crate::table::state;
use koel_simt::{Buf, In, Thread, unroll};

/// Keys of a set, partitioned: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Arrived<K: Member> {
    /// Partitions and buckets.
    pub shape: Shape,
    /// Location and fill of the bins of the last pass.
    pub source: Source,
    /// The bins.
    pub keys: In<K>,
    /// Number of keys sent to each bin, for both passes.
    pub counts: In<u32>,
    /// Upper bound on the keys stored in each bin, all ones if all of them are.
    pub valid: In<u32>,
    /// Overflow areas of the passes. `build_state` counts their keys.
    pub overflow: In<K>,
    /// Words that the kernels of a build share.
    pub build_state: Buf<u32>,
}
/// The keys of one partition.
#[derive(Clone, Copy)]
pub(in crate::set) struct Partition<K: Member> {
    of: Arrived<K>,
    number: u32,
    /// Number of keys in the bin.
    count: u32,
    /// Number of keys in the overflow area of the first pass, and in both areas, of all partitions.
    behind_first: u32,
    all_behind: u32,
}
impl<K: Member> Arrived<K> {
    /// Returns the keys of a partition.
    #[inline(always)]
    pub(in crate::set) fn partition(self, number: u32) -> Partition<K> {
        let Arrived { source, build_state, .. } = self;
        let coarse_bin = number.checked_div(source.each).unwrap_or(0);
        let valid_here = self.valid.get(source.coarse + number);
        let of_coarse_bin =
            if source.coarse != 0 { self.valid.get(source.flags + coarse_bin) } else { !0 };
        // These counts no longer change. If an area was too small, the build restarts.
        let behind = |valid, word| {
            if valid == !0 { 0 } else { build_state.load_relaxed(word).min(source.area) }
        };
        let behind_first = behind(of_coarse_bin, state::OVERFLOW_FIRST);
        Partition {
            of: self,
            number,
            count: self.counts.get(source.coarse + number).min(valid_here).min(source.room),
            behind_first,
            all_behind: behind_first + behind(valid_here, state::OVERFLOW_SECOND),
        }
    }
}
impl<K: Member> Partition<K> {
    /// Returns key `i` of the overflow areas, which may be of another partition.
    #[inline(always)]
    fn behind(&self, i: u32) -> K {
        let area = self.of.source.area;
        self.of.overflow.get(if i < self.behind_first { i } else { area + i - self.behind_first })
    }
    /// Returns the partition without keys.
    #[inline(always)]
    pub(crate) fn nothing(self) -> Partition<K> {
        Partition { count: 0, behind_first: 0, all_behind: 0, ..self }
    }
    /// Returns an iterator over one thread's share of the keys in the bin. All threads of the block
    /// call it.
    #[inline(always)]
    pub(super) fn rounds<const BATCH: usize>(self, t: Thread) -> Rounds<K, BATCH> {
        let mut rounds =
            Rounds { of: self, t, next: 0, more: true, loaded: ([K::EMPTY; BATCH], 0) };
        rounds.load();
        rounds
    }
    /// Calls `each` with this thread's share of the partition's keys in the overflow areas. Returns
    /// their number.
    #[inline(always)]
    pub(super) fn each_behind<const BATCH: usize>(
        &self,
        t: Thread,
        mut each: impl FnMut(K),
    ) -> u32 {
        let (mut came, mut first) = (0, t.id());
        while first < self.all_behind {
            // All blocks scan all overflowed keys. Waiting for loads takes the time, so issue
            // several at once.
            let (mut keys, mut live) = ([K::EMPTY; BATCH], 0u32);
            unroll::<BATCH>(|j| {
                let i = first + j as u32 * THREADS;
                if i < self.all_behind {
                    keys[j] = self.behind(i);
                    live |= 1 << j;
                }
            });
            unroll::<BATCH>(|j| {
                if self.of.shape.partition(hash(keys[j])) != self.number {
                    live &= !(1 << j);
                }
            });
            came += live.count_ones();
            each_live(keys, live, &mut each);
            first += BATCH as u32 * THREADS;
        }
        came
    }
    /// Calls `each` with this thread's share of all keys of the partition. Returns their number.
    #[inline(always)]
    pub(crate) fn each<const BATCH: usize>(&self, t: Thread, mut each: impl FnMut(K)) -> u32 {
        let mut came = 0;
        let mut rounds = self.rounds::<BATCH>(t);
        while let Some((keys, live)) = rounds.batch() {
            came += live.count_ones();
            each_live(keys, live, &mut each);
        }
        came + self.each_behind::<BATCH>(t, each)
    }
}
/// Iterator over a thread's share of the keys of a bin.
#[derive(Clone, Copy)]
pub(super) struct Rounds<K: Member, const BATCH: usize> {
    of: Partition<K>,
    t: Thread,
    /// First key of the block's next round.
    next: u32,
    /// Whether keys are loaded.
    more: bool,
    /// The next keys, and a bit for each valid one.
    loaded: ([K; BATCH], u32),
}
impl<K: Member, const BATCH: usize> Rounds<K, BATCH> {
    #[inline(always)]
    fn load(&mut self) {
        self.more = self.next < self.of.count;
        if self.more {
            let (from, count) =
                (self.of.number * self.of.of.source.room + self.next, self.of.count - self.next);
            self.loaded = load_run::<K, { THREADS as usize }, BATCH>(
                self.t,
                self.of.of.keys,
                from,
                count,
                K::EMPTY,
            );
            self.next += THREADS * BATCH as u32;
        }
    }
    /// Returns loaded keys, with a bit for each valid one, while the next ones are in flight.
    #[inline(always)]
    pub(super) fn batch(&mut self) -> Option<([K; BATCH], u32)> {
        self.more.then(|| {
            let now = self.loaded;
            self.load();
            now
        })
    }
}

/// Calls a function with each valid key, whose bit is set in `live`.
#[inline(always)]
pub(super) fn each_live<K: Member, const BATCH: usize>(
    mut keys: [K; BATCH],
    mut live: u32,
    mut each: impl FnMut(K),
) {
    // A loop, because the work per key is long: eight copies of it would not stay in the
    // instruction cache.
    while live != 0 {
        if live & 1 != 0 {
            each(keys[0]);
        }
        live >>= 1;
        rotate(&mut keys);
    }
}
/// Rotates the keys: the second becomes the first, and the first the last.
#[inline(always)]
fn rotate<K: Member, const BATCH: usize>(keys: &mut [K; BATCH]) {
    // If the last key stayed in place, the compiler would peel the loop that calls this, since
    // nothing would change after seven iterations.
    let first = keys[0];
    unroll::<BATCH>(|j| keys[j] = if j + 1 < BATCH { keys[(j + 1) % BATCH] } else { first });
}
