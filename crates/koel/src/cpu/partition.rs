//! The first pass of a build: mixes pairs and partitions them into bins of whole partitions.
//!
//! Each thread takes one contiguous range of the input. The pairs of a bin collect in a few cache
//! lines, which bypass the cache when full and go to blocks that the bin takes from the thread's
//! arena on demand. There is no counting pass, and no skew can overflow a bin. Bins keep input
//! order.
//!
//! Positions count words of 64 bits: a pair is one word, or two if it is wide.
use super::simd::{LINE, Line, Simd, Work};
use super::stash::put_pair;
use crate::fallible::{Result, reserve};
use koel_kernels::table::layout::{Layout, Shape};
use std::marker::PhantomData;

/// Words per block: 4 KiB.
pub(super) const BLOCK: usize = 512;
/// Pairs mixed per batch.
const GROUP: usize = 16;
/// Batches between prefetching keys and mixing them.
const AHEAD: usize = 24;
/// Lines per bin that collect its pairs. The branch taken when they are full is unpredictable: with
/// one line this pass took 1.7 times as long.
const GATHERED: usize = 4;
type Lines = [Line; GATHERED];
const WORDS: usize = GATHERED * LINE;

/// Assignment of pairs to bins: a bin is `1 << shift` partitions.
#[derive(Clone, Copy)]
pub(super) struct Bins {
    pub shape: Shape,
    pub shift: u32,
}
impl Bins {
    /// Returns the number of bins.
    pub(super) fn count(self) -> usize {
        (self.shape.partitions as usize).div_ceil(1 << self.shift)
    }
    /// Returns the maximum number of buckets of a bin.
    pub(super) fn buckets(self) -> usize {
        let partitions = (1 << self.shift).min(self.shape.partitions as usize);
        partitions * self.shape.buckets as usize
    }
    #[inline(always)]
    pub(super) fn of(self, h: u32) -> u32 {
        self.shape.partition(h) >> self.shift
    }
    /// Returns the maximum number of blocks for `words` words: the last block of each bin may be
    /// partly filled.
    pub(super) fn blocks(self, words: usize) -> usize {
        words / BLOCK + self.count()
    }
    /// Returns the number of arena lines for `words` words.
    pub(super) fn lines(self, words: usize) -> usize {
        self.blocks(words) * (BLOCK / LINE)
    }
}

/// Output of one thread. Its memory is reused across builds.
#[derive(Default)]
pub(super) struct Parted {
    /// Lines that collect the pairs of each bin.
    gathering: Vec<Lines>,
    /// Position of each bin's next pair in the arena.
    next_place: Vec<u32>,
    /// Successor of each block in its bin. Bin `i` begins with block `i`.
    next_block: Vec<u32>,
}
impl Parted {
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.gathering[..])
            + size_of_val(&self.next_place[..])
            + size_of_val(&self.next_block[..])
    }
    /// Makes room for the output of a pass to these bins, in an arena of `lines` lines. Errors: out
    /// of memory.
    pub(super) fn reserve(&mut self, bins: Bins, lines: usize) -> Result<()> {
        let Parted { gathering, next_place, next_block } = self;
        let (count, blocks) = (bins.count(), lines * LINE / BLOCK);
        let more = |len: usize, all: usize| all.saturating_sub(len);
        let (lines, links) = (more(gathering.len(), count), more(next_block.len(), blocks));
        reserve(gathering, lines)?;
        reserve(next_block, links)?;
        let places = more(next_place.len(), count);
        reserve(next_place, places)
    }
    /// Returns the pairs of a bin in input order, one block at a time, each with the address of the
    /// next block.
    #[inline(always)]
    pub(super) fn runs<'a>(&'a self, bin: usize, arena: &'a [u64]) -> Runs<'a> {
        Runs {
            next_block: &self.next_block,
            arena,
            block: bin,
            end: self.next_place[bin] as usize,
            done: false,
        }
    }
}
/// Iterator of [`Parted::runs`].
pub(super) struct Runs<'a> {
    next_block: &'a [u32],
    arena: &'a [u64],
    block: usize,
    end: usize,
    done: bool,
}
impl<'a> Iterator for Runs<'a> {
    type Item = (&'a [u64], *const u64);
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let start = self.block * BLOCK;
        if self.block == self.end / BLOCK {
            self.done = true;
            return Some((&self.arena[start..self.end], self.arena[start..].as_ptr()));
        }
        self.block = self.next_block[self.block] as usize;
        Some((&self.arena[start..start + BLOCK], self.arena[self.block * BLOCK..].as_ptr()))
    }
}

/// Mixes keys and joins them with their values.
#[inline(always)]
pub(super) fn mix_pairs<L: Layout>(
    seed: u32,
    keys: &[L::Key],
    values: &[L::Value],
    pairs: &mut [u64],
) {
    for (i, (&key, &value)) in keys.iter().zip(values).enumerate() {
        put_pair::<L>(pairs, i, L::pair(L::mixed(seed, key), value));
    }
}

/// Work that partitions pairs into bins; see the module.
pub(super) struct Partition<'a, L: Layout> {
    pub seed: u32,
    pub keys: &'a [L::Key],
    pub values: &'a [L::Value],
    pub bins: Bins,
    /// With [room](Parted::reserve).
    pub parted: &'a mut Parted,
    /// At least [`Bins::lines`].
    pub arena: &'a mut [Line],
    /// Whether stores to the bins bypass the cache.
    pub stream: bool,
}
impl<L: Layout> Work for Partition<'_, L> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.stream { self.part::<S, true>(simd) } else { self.part::<S, false>(simd) }
    }
}
impl<L: Layout> Partition<'_, L> {
    #[inline(always)]
    fn part<S: Simd, const STREAM: bool>(self, simd: S) {
        let Partition { seed, keys, values, bins, parted, arena, .. } = self;
        let mut out = Out::<L, S, STREAM>::new(simd, bins, parted, arena);
        let (key_groups, last_keys) = keys.as_chunks::<GROUP>();
        let (value_groups, last_values) = values.as_chunks::<GROUP>();
        // Mix one batch while the previous one goes to its bins: passing mixed pairs through memory
        // is faster than extracting them from vectors.
        let (mut pairs, mut bin) = ([[L::EMPTY_PAIR; GROUP]; 2], [[0; GROUP]; 2]);
        for step in 0..=key_groups.len() {
            if let (Some(keys), Some(values)) = (key_groups.get(step), value_groups.get(step)) {
                // Hardware prefetching stops at the end of each page.
                simd.ask_group(keys.as_ptr().wrapping_add(AHEAD * GROUP));
                simd.ask_group(values.as_ptr().wrapping_add(AHEAD * GROUP));
                for i in 0..GROUP {
                    let mixed = L::mixed(seed, keys[i]);
                    pairs[step % 2][i] = L::pair(mixed, values[i]);
                    bin[step % 2][i] = bins.of(L::hash(mixed));
                }
            }
            if step > 0 {
                for i in 0..GROUP {
                    out.push(bin[(step - 1) % 2][i], pairs[(step - 1) % 2][i]);
                }
            }
        }
        for (&key, &value) in last_keys.iter().zip(last_values) {
            let mixed = L::mixed(seed, key);
            out.push(bins.of(L::hash(mixed)), L::pair(mixed, value));
        }
        out.finish();
    }
}

/// Destination of the pairs.
struct Out<'a, L, S, const STREAM: bool> {
    simd: S,
    layout: PhantomData<L>,
    gathering: &'a mut [Lines],
    next_place: &'a mut [u32],
    next_block: &'a mut [u32],
    arena: &'a mut [Line],
    /// Number of blocks taken.
    blocks: u32,
}
impl<'a, L: Layout, S: Simd, const STREAM: bool> Out<'a, L, S, STREAM> {
    /// Begins the output of one thread: all bins are empty.
    #[allow(clippy::disallowed_methods, reason = "`Parted::reserve` has made room")]
    #[inline(always)]
    fn new(
        simd: S,
        bins: Bins,
        parted: &'a mut Parted,
        arena: &'a mut [Line],
    ) -> Out<'a, L, S, STREAM> {
        let (count, blocks) = (bins.count(), arena.len() * LINE / BLOCK);
        parted.gathering.resize(count.max(parted.gathering.len()), [Line([0; LINE]); GATHERED]);
        parted.next_block.resize(blocks.max(parted.next_block.len()), 0);
        parted.next_place.clear();
        parted.next_place.extend((0..count).map(|bin| (bin * BLOCK) as u32));
        Out {
            simd,
            layout: PhantomData,
            gathering: &mut parted.gathering[..count],
            next_place: &mut parted.next_place[..count],
            next_block: &mut parted.next_block,
            arena,
            blocks: count as u32,
        }
    }
    #[inline(always)]
    fn push(&mut self, bin: u32, pair: L::Pair) {
        let bin = bin as usize;
        let at = self.next_place[bin];
        let gathering = bytemuck::cast_slice_mut(&mut self.gathering[bin]);
        put_pair::<L>(gathering, at as usize % WORDS / L::SLOT_WORDS, pair);
        self.next_place[bin] = at + L::SLOT_WORDS as u32;
        if at as usize % WORDS == WORDS - L::SLOT_WORDS {
            self.lines_are_full(bin, at);
        }
    }
    #[inline(always)]
    fn lines_are_full(&mut self, bin: usize, at: u32) {
        self.write(bin, at);
        if at as usize % BLOCK == BLOCK - L::SLOT_WORDS {
            self.next_block[at as usize / BLOCK] = self.blocks;
            self.next_place[bin] = self.blocks * BLOCK as u32;
            self.blocks += 1;
        }
    }
    #[inline(always)]
    fn write(&mut self, bin: usize, at: u32) {
        let to = &mut self.arena[at as usize / WORDS * GATHERED..][..GATHERED];
        for (to, from) in to.iter_mut().zip(&self.gathering[bin]) {
            if STREAM { self.simd.stream(to, &from.0) } else { *to = *from }
        }
    }
    /// Writes out the partly filled lines.
    #[inline(always)]
    fn finish(mut self) {
        for bin in 0..self.gathering.len() {
            if !(self.next_place[bin] as usize).is_multiple_of(WORDS) {
                self.write(bin, self.next_place[bin]);
            }
        }
        self.simd.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Level;
    use koel_kernels::hash::mix::splitmix_at;
    use koel_kernels::table::layout::{Narrow, Number, Wide};

    fn check<L: Layout>(
        level: Level,
        n: usize,
        bins: Bins,
        stream: bool,
        key: impl Fn(u32) -> u64,
    ) {
        let seed = 3;
        let keys = (0..n as u32).map(|i| L::Key::narrowed(key(i))).collect::<Vec<_>>();
        let values = (0..n as u64).map(|i| L::Value::narrowed(i << 32 | i)).collect::<Vec<_>>();
        let mut parted = Parted::default();
        let mut arena = vec![Line([0; LINE]); bins.lines(n * L::SLOT_WORDS)];
        for n in [n, n / 2] {
            let (keys, values) = (&keys[..n], &values[..n]);
            parted.reserve(bins, arena.len()).unwrap();
            level.run(Partition::<L> {
                seed,
                keys,
                values,
                bins,
                parted: &mut parted,
                arena: &mut arena,
                stream,
            });
            let mut expected = vec![vec![]; bins.count()];
            for (&key, &value) in keys.iter().zip(values) {
                let mixed = L::mixed(seed, key);
                let partition = (L::hash(mixed) as u64 * bins.shape.partitions as u64) >> 32;
                let words = [L::head(L::pair(mixed, value)), L::behind(L::pair(mixed, value))];
                expected[(partition >> bins.shift) as usize]
                    .extend_from_slice(&words[..L::SLOT_WORDS]);
            }
            for (bin, expected) in expected.iter().enumerate() {
                let runs = parted.runs(bin, bytemuck::cast_slice(&arena));
                let found = runs.flat_map(|(run, _)| run).copied().collect::<Vec<u64>>();
                assert_eq!(&found, expected, "{level:?} bin {bin} of {n} pairs");
            }
        }
    }
    fn bins_hold_their_pairs<L: Layout>() {
        let most = if cfg!(miri) { 700 } else { 20_000 };
        for level in Level::available() {
            for n in [0, 1, 15, 16, 17, 513, most] {
                for (partitions, shift) in [(1, 0), (7, 1), (100, 0), (1000, 4)] {
                    let bins = Bins { shape: Shape { partitions, buckets: 1 }, shift };
                    check::<L>(level, n, bins, n % 2 == 0, |i| splitmix_at(5, i));
                }
            }
            // One bin takes all pairs, in whole blocks.
            let shape = Shape { partitions: 50, buckets: 1 };
            check::<L>(level, 2 * BLOCK, Bins { shape, shift: 0 }, true, |_| 9);
        }
    }
    #[test]
    fn bins_hold_their_pairs_in_order() {
        bins_hold_their_pairs::<Narrow>();
        bins_hold_their_pairs::<Wide<u32, u64>>();
        bins_hold_their_pairs::<Wide<u64, u32>>();
        bins_hold_their_pairs::<Wide<u64, u64>>();
    }
}
