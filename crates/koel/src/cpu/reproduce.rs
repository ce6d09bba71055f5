//! Reproducible placement: places the pairs of a bin anew, so that its bytes depend only on them,
//! by the rule of [`koel_kernels::map::reproduce`], which the kernels share.
use super::simd::{behind_at, heads};
use super::stash::Stash;
use crate::fallible::{Result, extend, resize};
use koel_kernels::map::reproduce::{
    MAX_STASHED, NOBODY, Places, first_proposal, number, overflowed, propose,
};
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Shape, with_class_bits};
use std::cell::Cell;

/// Memory for one partition, and for the stash of its bin.
pub(super) struct Reproducer<L: Layout> {
    /// Proposals, four per bucket.
    places: Vec<u64>,
    /// Buckets before the placement.
    before: Vec<u64>,
    stashed: Vec<L::Pair>,
    /// Last proposals of the pairs that found no slot.
    homeless: Vec<u64>,
}
impl<L: Layout> Default for Reproducer<L> {
    fn default() -> Reproducer<L> {
        Reproducer {
            places: Vec::new(),
            before: Vec::new(),
            stashed: Vec::new(),
            homeless: Vec::new(),
        }
    }
}
impl<L: Layout> Reproducer<L> {
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        let words = self.places.capacity() + self.before.capacity() + self.homeless.capacity();
        words * size_of::<u64>() + self.stashed.capacity() * size_of::<L::Pair>()
    }
    /// Places the pairs of whole partitions, starting with `first_partition`: those in the buckets
    /// and those in the stash. Sets `bits` to the class bits of each bucket; the caller still has
    /// to order full buckets by them.
    pub(super) fn place(
        &mut self,
        shape: Shape,
        first_partition: u32,
        buckets: &mut [u64],
        bits: &mut [u8],
        stash: &mut Stash<L>,
    ) -> Result<()> {
        let Reproducer { places, before, stashed, homeless } = self;
        stashed.clear();
        extend(stashed, stash.iter())?;
        let partition_of = |pair: &L::Pair| shape.partition(L::hash(L::key(*pair)));
        stashed.sort_unstable_by_key(partition_of);
        stash.clear();
        let each = shape.buckets as usize;
        let mut rest = &stashed[..];
        for (partition, (buckets, bits)) in (first_partition..)
            .zip(buckets.chunks_exact_mut(each * L::WORDS).zip(bits.chunks_exact_mut(each)))
        {
            let (stashed, others) =
                rest.split_at(rest.partition_point(|pair| partition_of(pair) == partition));
            rest = others;
            if stashed.len() > MAX_STASHED as usize {
                // The partition stays as it was built.
                stash.reserve(stashed.len())?;
                stashed.iter().for_each(|&pair| stash.insert(pair));
                continue;
            }
            before.clear();
            extend(before, buckets.iter().copied())?;
            let in_stash =
                |number: u32| stashed.get((number as usize).wrapping_sub(each * BUCKET)).copied();
            let place_of = |number: u32| (number as usize / BUCKET, number as usize % BUCKET);
            let head = |number: u32| {
                let (place, slot) = place_of(number);
                in_stash(number).map_or_else(|| heads::<L>(before, place)[slot], L::head)
            };
            let pair = |number: u32| {
                let (place, slot) = place_of(number);
                let behind = || before[behind_at::<L>(place, slot)];
                in_stash(number).unwrap_or_else(|| L::with_head(head(number), behind()))
            };
            places.clear();
            resize(places, each * BUCKET, NOBODY)?;
            let cells = Cells(Cell::from_mut(&mut places[..]).as_slice_of_cells());
            homeless.clear();
            for i in 0..(each * BUCKET + stashed.len()) as u32 {
                if head(i) != EMPTY {
                    let proposal = first_proposal(L::hash(L::key_in(head(i))), i);
                    extend(homeless, propose::<L>(shape, &cells, proposal, head))?;
                }
            }
            bits.fill(0);
            let mut mark = |overflowed| {
                if let Some((first, bit)) = overflowed {
                    bits[first as usize] |= bit as u8;
                }
            };
            for (bucket, (four, words)) in (0..)
                .zip(places.as_chunks::<BUCKET>().0.iter().zip(buckets.chunks_exact_mut(L::WORDS)))
            {
                let pairs = four.map(|proposal| {
                    if proposal == NOBODY { L::EMPTY_PAIR } else { pair(number(proposal)) }
                });
                four.iter()
                    .filter(|&&p| p != NOBODY)
                    .for_each(|&p| mark(overflowed(shape, p, bucket)));
                // In ascending order, empty slots last.
                for (slot, pair) in with_class_bits::<L>(pairs, 0).into_iter().enumerate() {
                    words[behind_at::<L>(0, slot)] = L::behind(pair);
                    words[slot] = L::head(pair);
                }
            }
            stash.reserve(homeless.len())?;
            for &proposal in &homeless[..] {
                mark(overflowed(shape, proposal, shape.buckets));
                stash.insert(pair(number(proposal)));
            }
        }
        Ok(())
    }
}

/// Proposals written by one thread.
struct Cells<'a>(&'a [Cell<u64>]);
impl Places for Cells<'_> {
    #[inline(always)]
    fn four(&self, bucket: u32) -> [u64; BUCKET] {
        let four = self.0[bucket as usize * BUCKET..].first_chunk::<BUCKET>();
        four.map_or([NOBODY; BUCKET], |four| four.each_ref().map(Cell::get))
    }
    #[inline(always)]
    fn replace(&self, at: u32, old: u64, new: u64) -> u64 {
        self.0[at as usize].set(new);
        old
    }
}
