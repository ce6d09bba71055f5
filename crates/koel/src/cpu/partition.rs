//! The first pass of a build: mixes pairs and partitions them into bins of whole partitions.
//!
//! Each thread takes one contiguous range of the input. The pairs of a bin collect in a few cache
//! lines, which bypass the cache when full and go to blocks that the bin takes from the thread's
//! arena on demand. There is no counting pass, and no skew can overflow a bin. Bins keep input
//! order.
//!
//! Positions count words: a pair is one of 64 bits, or two if it is wide; a key of a set is one of
//! its own size.
use super::simd::{LINE, Line, Simd, Work};
use super::stash::put_pair;
use crate::fallible::{Result, reserve};
use bytemuck::Pod;
use koel_kernels::table::layout::{Layout, Shape};
use std::marker::PhantomData;

/// Words of pairs per block: 4 KiB.
pub(super) const BLOCK: usize = words_of::<u64>(LINES);
/// Lines per block.
const LINES: usize = 64;
/// Pairs mixed per batch.
const GROUP: usize = 16;
/// Batches between prefetching keys and mixing them.
const AHEAD: usize = 24;
/// Lines per bin that collect its pairs. The branch taken when they are full is unpredictable: with
/// one line this pass took 1.7 times as long.
const GATHERED: usize = 4;
type Lines = [Line; GATHERED];

/// Returns the words in some lines.
pub(super) const fn words_of<W>(lines: usize) -> usize {
    lines * (size_of::<Line>() / size_of::<W>())
}

/// What a pass moves: pairs of a layout, or keys of a set.
pub(super) trait Entries {
    type Key: Copy + Send + Sync;
    type Value: Copy + Send + Sync;
    /// Unit of positions.
    type Word: Pod;
    type Entry: Copy;
    /// Words per entry.
    const WORDS: usize;
    const ANY: Self::Entry;
    /// Mixes a key and joins it with its value. Returns the hash, too.
    fn entry(seed: u32, key: Self::Key, value: Self::Value) -> (Self::Entry, u32);
    /// Writes entry `at` of contiguous ones.
    fn put(words: &mut [Self::Word], at: usize, entry: Self::Entry);
}
/// Pairs of a layout.
pub(super) struct PairsOf<L>(PhantomData<L>);
impl<L: Layout> Entries for PairsOf<L> {
    type Key = L::Key;
    type Value = L::Value;
    type Word = u64;
    type Entry = L::Pair;
    const WORDS: usize = L::SLOT_WORDS;
    const ANY: L::Pair = L::EMPTY_PAIR;
    #[inline(always)]
    fn entry(seed: u32, key: L::Key, value: L::Value) -> (L::Pair, u32) {
        let mixed = L::mixed(seed, key);
        (L::pair(mixed, value), L::hash(mixed))
    }
    #[inline(always)]
    fn put(words: &mut [u64], at: usize, pair: L::Pair) {
        put_pair::<L>(words, at, pair);
    }
}

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
    /// Returns the number of arena lines for `n` entries: the last block of each bin may be partly
    /// filled.
    pub(super) fn lines<E: Entries>(self, n: usize) -> usize {
        (n * E::WORDS / words_of::<E::Word>(LINES) + self.count()) * LINES
    }
}

/// What each thread has written to bins, with its arena.
pub(super) type InArenas<'a, W> = Vec<(&'a Parted, &'a [W])>;
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
        let (count, blocks) = (bins.count(), lines / LINES);
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
    pub(super) fn runs<'a, W>(&'a self, bin: usize, arena: &'a [W]) -> Runs<'a, W> {
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
pub(super) struct Runs<'a, W> {
    next_block: &'a [u32],
    arena: &'a [W],
    block: usize,
    end: usize,
    done: bool,
}
impl<'a, W> Iterator for Runs<'a, W> {
    type Item = (&'a [W], *const W);
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let size = words_of::<W>(LINES);
        let start = self.block * size;
        if self.block == self.end / size {
            self.done = true;
            return Some((&self.arena[start..self.end], self.arena[start..].as_ptr()));
        }
        self.block = self.next_block[self.block] as usize;
        Some((&self.arena[start..start + size], self.arena[self.block * size..].as_ptr()))
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

/// Work that partitions entries into bins; see the module.
pub(super) struct Partition<'a, E: Entries> {
    pub seed: u32,
    pub keys: &'a [E::Key],
    pub values: &'a [E::Value],
    pub bins: Bins,
    /// With [room](Parted::reserve).
    pub parted: &'a mut Parted,
    /// At least [`Bins::lines`].
    pub arena: &'a mut [Line],
    /// Whether stores to the bins bypass the cache.
    pub stream: bool,
}
impl<E: Entries> Work for Partition<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.stream { self.part::<S, true>(simd) } else { self.part::<S, false>(simd) }
    }
}
impl<E: Entries> Partition<'_, E> {
    #[inline(always)]
    fn part<S: Simd, const STREAM: bool>(self, simd: S) {
        let Partition { seed, keys, values, bins, parted, arena, .. } = self;
        let mut out = Out::<E, S, STREAM>::new(simd, bins, parted, arena);
        let (key_groups, last_keys) = keys.as_chunks::<GROUP>();
        let (value_groups, last_values) = values.as_chunks::<GROUP>();
        // Mix one batch while the previous one goes to its bins: passing mixed pairs through memory
        // is faster than extracting them from vectors.
        let (mut entries, mut bin) = ([[E::ANY; GROUP]; 2], [[0; GROUP]; 2]);
        for step in 0..=key_groups.len() {
            if let (Some(keys), Some(values)) = (key_groups.get(step), value_groups.get(step)) {
                // Hardware prefetching stops at the end of each page.
                simd.ask_group(keys.as_ptr().wrapping_add(AHEAD * GROUP));
                simd.ask_group(values.as_ptr().wrapping_add(AHEAD * GROUP));
                for i in 0..GROUP {
                    let (entry, h) = E::entry(seed, keys[i], values[i]);
                    entries[step % 2][i] = entry;
                    bin[step % 2][i] = bins.of(h);
                }
            }
            if step > 0 {
                for i in 0..GROUP {
                    out.push(bin[(step - 1) % 2][i], entries[(step - 1) % 2][i]);
                }
            }
        }
        for (&key, &value) in last_keys.iter().zip(last_values) {
            let (entry, h) = E::entry(seed, key, value);
            out.push(bins.of(h), entry);
        }
        out.finish();
    }
}

/// Destination of the entries.
struct Out<'a, E, S, const STREAM: bool> {
    simd: S,
    entries: PhantomData<E>,
    gathering: &'a mut [Lines],
    next_place: &'a mut [u32],
    next_block: &'a mut [u32],
    arena: &'a mut [Line],
    /// Number of blocks taken.
    blocks: u32,
}
impl<'a, E: Entries, S: Simd, const STREAM: bool> Out<'a, E, S, STREAM> {
    /// Words per block.
    const BLOCK: usize = words_of::<E::Word>(LINES);
    /// Words of the lines that collect the entries of a bin.
    const WORDS: usize = words_of::<E::Word>(GATHERED);

    /// Begins the output of one thread: all bins are empty.
    #[allow(clippy::disallowed_methods, reason = "`Parted::reserve` has made room")]
    #[inline(always)]
    fn new(
        simd: S,
        bins: Bins,
        parted: &'a mut Parted,
        arena: &'a mut [Line],
    ) -> Out<'a, E, S, STREAM> {
        let (count, blocks) = (bins.count(), arena.len() / LINES);
        parted.gathering.resize(count.max(parted.gathering.len()), [Line([0; LINE]); GATHERED]);
        parted.next_block.resize(blocks.max(parted.next_block.len()), 0);
        parted.next_place.clear();
        parted.next_place.extend((0..count).map(|bin| (bin * Self::BLOCK) as u32));
        Out {
            simd,
            entries: PhantomData,
            gathering: &mut parted.gathering[..count],
            next_place: &mut parted.next_place[..count],
            next_block: &mut parted.next_block,
            arena,
            blocks: count as u32,
        }
    }
    #[inline(always)]
    fn push(&mut self, bin: u32, entry: E::Entry) {
        let bin = bin as usize;
        let at = self.next_place[bin];
        let gathering = bytemuck::cast_slice_mut(&mut self.gathering[bin]);
        E::put(gathering, at as usize % Self::WORDS / E::WORDS, entry);
        self.next_place[bin] = at + E::WORDS as u32;
        if at as usize % Self::WORDS == Self::WORDS - E::WORDS {
            self.lines_are_full(bin, at);
        }
    }
    #[inline(always)]
    fn lines_are_full(&mut self, bin: usize, at: u32) {
        self.write(bin, at);
        if at as usize % Self::BLOCK == Self::BLOCK - E::WORDS {
            self.next_block[at as usize / Self::BLOCK] = self.blocks;
            self.next_place[bin] = self.blocks * Self::BLOCK as u32;
            self.blocks += 1;
        }
    }
    #[inline(always)]
    fn write(&mut self, bin: usize, at: u32) {
        let to = &mut self.arena[at as usize / Self::WORDS * GATHERED..][..GATHERED];
        for (to, from) in to.iter_mut().zip(&self.gathering[bin]) {
            if STREAM { self.simd.stream(to, &from.0) } else { *to = *from }
        }
    }
    /// Writes out the partly filled lines.
    #[inline(always)]
    fn finish(mut self) {
        for bin in 0..self.gathering.len() {
            if !(self.next_place[bin] as usize).is_multiple_of(Self::WORDS) {
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
        let mut arena = vec![Line([0; LINE]); bins.lines::<PairsOf<L>>(n)];
        for n in [n, n / 2] {
            let (keys, values) = (&keys[..n], &values[..n]);
            parted.reserve(bins, arena.len()).unwrap();
            level.run(Partition::<PairsOf<L>> {
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
