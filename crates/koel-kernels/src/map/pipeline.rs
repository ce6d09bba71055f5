//! The second partition pass and the build in one launch.
//!
//! The pass is bound by memory and the build by instructions, so they share the multiprocessors
//! well; and what the pass writes is read again from the L2 cache. Work is taken by tickets, in the
//! order of the bins of the first pass, called *groups* here: tiles of a group are followed, a few
//! groups later, by the partitions of that group. A counter for each group says how many of its
//! tiles are finished. A block that builds a partition waits for the counter of its group. It never
//! waits for work with a later ticket, so progress does not depend on how many blocks run at once.
//!
//! # Memory
//! The bins of the first pass lie at the end of the table's own memory ([`Pipeline::bins`]), so the
//! buckets of a group overwrite bins. These are bins of the same group or earlier ones, since a
//! group takes no less room in the table than its bins; their tiles must be finished too.
//!
//! # Pairs that did not fit
//! While other groups are on their way, the overflow area of the second pass is incomplete.
//! Partitions that have pairs there are therefore built by the blocks with the last tickets, when
//! all tiles are finished.
use super::build::{THREADS, Target, build_stamped, shared_bytes};
use super::partition::{Tile, from_coarse};
use super::records::Recorded;
use super::stamps::Stamps;
use crate::table::bins::{BinsOut, CoarseIn, PartitionsIn};
use crate::table::layout::{Narrow, Shape, Wide};
use crate::table::state;
use koel_simt::{Buf, Thread, kernel};

/// The tiles of the pass: blocks have as many threads as those that build.
pub const TILE: Tile = Tile { threads: THREADS, items: 16, bins: 256 };

/// The order of the work, and where the first pass left its pairs: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Pipeline {
    /// Groups whose tiles are taken before the first partition is; 1 to the number of groups.
    pub lead: u32,
    /// Blocks that build what waits for the end.
    pub last: u32,
    /// Word of the counts that counts the finished tiles of the first group.
    pub finished: u32,
    /// First place of the bins of the first pass in the table's memory, in pairs; all ones if they
    /// are elsewhere.
    pub bins: u64,
}
/// What a block does.
#[derive(Clone, Copy)]
enum Work {
    /// Scatters this tile, counted through all groups.
    Tile(u32),
    /// Builds the partition with this number.
    Build(u32),
    /// Builds some of the partitions that wait for the end: those of this number modulo the number
    /// of such blocks.
    Last(u32),
}
impl Pipeline {
    /// Returns the number of blocks for `groups` groups of `tiles` tiles and `each` partitions.
    pub const fn blocks(self, groups: u32, tiles: u32, each: u32) -> u32 {
        groups * (tiles + each) + self.last
    }
    /// Returns the work of a ticket.
    #[inline(always)]
    fn work(self, ticket: u32, groups: u32, tiles: u32, each: u32) -> Work {
        let ahead = self.lead * tiles;
        if ticket < ahead {
            return Work::Tile(ticket);
        }
        let (after, both) = (ticket - ahead, tiles + each);
        if after < (groups - self.lead) * both {
            let group = after.checked_div(both).unwrap_or(0);
            let of_group = after - group * both;
            // Tiles and partitions in turn, as long as there are both.
            let pairs = 2 * tiles.min(each);
            let (is_tile, number) = match of_group < pairs {
                true => (of_group % 2 == 0, of_group / 2),
                false => (tiles > each, of_group - pairs / 2),
            };
            return match is_tile {
                true => Work::Tile(ahead + group * tiles + number),
                false => Work::Build(group * each + number),
            };
        }
        let built = after - (groups - self.lead) * tiles;
        if built < groups * each { Work::Build(built) } else { Work::Last(built - groups * each) }
    }
}

/// Waits until the groups `first` to `last` have all their tiles. All threads of the block call it.
#[inline(always)]
fn wait(t: Thread, counts: Buf<u32>, finished: u32, [first, last]: [u32; 2], tiles: u32) {
    let mut group = first + t.id();
    while group <= last {
        while counts.load_acquire(finished + group) < tiles {}
        group += THREADS;
    }
    t.barrier();
}

#[inline(always)]
fn run<L: Recorded, const CHECK: bool, const ITEMS: usize>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    pipeline: Pipeline,
    (coarse, coarse_pairs): (CoarseIn, Buf<u64>),
    out: BinsOut,
    from: PartitionsIn,
    to: Target,
) {
    t.wait_for_previous();
    t.let_next_start();
    let ticket = t.shared().array::<u32>(1);
    if t.id() == 0 {
        ticket.store(0, to.build_state.fetch_add(state::TAKEN, 1));
    }
    t.barrier();
    let taken = ticket.load(0);
    // Its memory is used again.
    t.barrier();
    let (groups, each) = (coarse.bins.count, to.source.each);
    let tiles = coarse.tiles * coarse.regions;
    let Pipeline { finished, bins, last, .. } = pipeline;
    let (mut p, step) = match pipeline.work(taken, groups, tiles, each) {
        Work::Tile(number) => {
            from_coarse::<L, { THREADS as usize }, ITEMS, CHECK>(
                t,
                number,
                shape,
                stamps,
                coarse,
                coarse_pairs,
                out,
            );
            t.barrier();
            if t.id() == 0 {
                t.fence();
                from.counts.fetch_add(finished + number.checked_div(tiles).unwrap_or(0), 1);
            }
            return;
        }
        Work::Build(p) => {
            let group = p.checked_div(each).unwrap_or(0);
            // The first group whose bin the buckets of this partition overwrite.
            let places = |p| 4 * shape.place(p, 0);
            let overwritten = (places(p).saturating_sub(bins) as u32)
                .checked_div(coarse.bins.room * coarse.regions)
                .unwrap_or(0);
            let first = if places(p + 1) > bins { overwritten.min(group) } else { group };
            wait(t, from.counts, finished, [first, group], tiles);
            (p, !0)
        }
        Work::Last(first) => {
            wait(t, from.counts, finished, [0, groups - 1], tiles);
            if to.build_state.load_relaxed(state::OVERFLOW_SECOND) == 0 {
                return;
            }
            (first, last)
        }
    };
    let builds_last = step != !0;
    while p < shape.partitions {
        let waits = from.valid.load_relaxed(to.source.coarse + p) != !0;
        if waits == builds_last {
            build_stamped::<L, CHECK>(t, p, shape, stamps, from, to);
        }
        p = p.saturating_add(step);
        t.barrier();
    }
}

/// Brings pairs from the bins of the first pass to their partitions, and builds these; resolves
/// equal keys. For narrow pairs, [`map_from_coarse`](fn@super::partition::map_from_coarse) and
/// [`map_build`](fn@super::build::map_build) do so.
#[kernel(
    threads = 256, min_blocks = 4, starts_early, local_arrays,
    shared = shared_bytes(shape.buckets, to.source.list).max(TILE.shared()),
    ITEMS = TILE.items::<L>() as usize,
    for L in [Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_pipeline<L: Recorded, const ITEMS: usize>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    pipeline: Pipeline,
    coarse: CoarseIn,
    coarse_pairs: Buf<u64>,
    out: BinsOut,
    from: PartitionsIn,
    to: Target,
) {
    run::<L, true, ITEMS>(t, shape, stamps, pipeline, (coarse, coarse_pairs), out, from, to)
}
/// Does the same with distinct keys.
#[kernel(
    threads = 256, min_blocks = 4, starts_early, local_arrays,
    shared = shared_bytes(shape.buckets, to.source.list).max(TILE.shared()),
    ITEMS = TILE.items::<L>() as usize,
    for L in [Narrow { image = MAP }, Wide<u64, u64> { image = MAP_WIDE }]
)]
pub fn map_pipeline_unchecked<L: Recorded, const ITEMS: usize>(
    t: Thread,
    shape: Shape,
    stamps: Stamps,
    pipeline: Pipeline,
    coarse: CoarseIn,
    coarse_pairs: Buf<u64>,
    out: BinsOut,
    from: PartitionsIn,
    to: Target,
) {
    run::<L, false, ITEMS>(t, shape, stamps, pipeline, (coarse, coarse_pairs), out, from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile and every partition is taken once, and no partition before the tiles of its group
    /// and of all earlier ones.
    #[test]
    fn partitions_follow_their_tiles() {
        for (groups, tiles, each) in [(1, 1, 1), (4, 3, 3), (5, 2, 7), (6, 9, 2), (256, 17, 19)] {
            for lead in [1, 2, groups / 2, groups].map(|lead: u32| lead.clamp(1, groups)) {
                let pipeline = Pipeline { lead, last: 3, finished: 0, bins: 0 };
                let (mut scattered, mut built) = (vec![false; (groups * tiles) as usize], vec![]);
                let mut ends = vec![];
                for ticket in 0..pipeline.blocks(groups, tiles, each) {
                    match pipeline.work(ticket, groups, tiles, each) {
                        Work::Tile(tile) => {
                            assert!(!std::mem::replace(&mut scattered[tile as usize], true));
                        }
                        Work::Build(p) => {
                            let ready = (p / each + 1) * tiles;
                            assert!(scattered[..ready as usize].iter().all(|&done| done));
                            built.push(p);
                        }
                        Work::Last(number) => ends.push(number),
                    }
                }
                built.sort_unstable();
                assert!(built.into_iter().eq(0..groups * each), "{groups} {tiles} {each} {lead}");
                assert!(scattered.iter().all(|&done| done) && ends == [0, 1, 2]);
            }
        }
    }
}
