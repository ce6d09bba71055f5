//! The first pass of a build: pairs are mixed and parted into bins of whole partitions.
//!
//! Each thread takes one stretch of the input. A bin's pairs gather in one cache line and go out past the cache when it is
//! full, into blocks that the bin takes from the thread's arena as it needs them: nothing is counted first, and no skew
//! overflows a bin. Bins keep the order of the input.
use super::simd::{LINE, Line, Simd, Work};
use koel_kernels::map::layout::{Shape, pair};

/// Pairs of a block: 4 KiB.
pub const BLOCK: usize = 512;
/// Pairs that are mixed at a time.
const GROUP: usize = 16;
/// Groups between asking for keys and mixing them.
const AHEAD: usize = 24;

/// How pairs are parted: a bin is `1 << shift` partitions.
#[derive(Clone, Copy)]
pub struct Bins {
    pub shape: Shape,
    pub shift: u32,
}
impl Bins {
    /// How many there are.
    pub fn count(self) -> usize {
        (self.shape.partitions as usize).div_ceil(1 << self.shift)
    }
    #[inline(always)]
    fn of(self, h: u32) -> u32 {
        self.shape.partition(h) >> self.shift
    }
    /// Blocks that `n` pairs need at most: a bin's last one is not full.
    pub fn blocks(self, n: usize) -> usize {
        n / BLOCK + self.count()
    }
    /// Lines of the arena for `n` pairs.
    pub fn lines(self, n: usize) -> usize {
        self.blocks(n) * (BLOCK / LINE)
    }
}

/// What one thread parted. Its memory is kept from build to build.
#[derive(Default)]
pub struct Parted {
    /// For each bin, the line that gathers its pairs.
    gathering: Vec<Line>,
    /// For each bin, where its next pair goes in the arena.
    next_pair: Vec<u32>,
    /// For each block, the one after it in its bin. Bin `i` begins with block `i`.
    next_block: Vec<u32>,
}
impl Parted {
    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.gathering[..]) + size_of_val(&self.next_pair[..]) + size_of_val(&self.next_block[..])
    }
    /// The pairs of a bin, in the order of the input, a block at a time, each with the one that comes next.
    #[inline(always)]
    pub fn runs<'a>(&'a self, bin: usize, arena: &'a [u64]) -> Runs<'a> {
        Runs { next_block: &self.next_block, arena, block: bin, end: self.next_pair[bin] as usize, done: false }
    }
}
/// See [`Parted::runs`].
pub struct Runs<'a> {
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

/// Mixes keys and puts their values to them.
#[inline(always)]
pub fn mix_pairs(shape: Shape, keys: &[u32], values: &[u32], pairs: &mut [u64]) {
    for ((&key, &value), to) in keys.iter().zip(values).zip(pairs) {
        *to = pair(shape.mixed(key), value);
    }
}

/// Parts pairs; see the module.
pub struct Partition<'a> {
    pub keys: &'a [u32],
    pub values: &'a [u32],
    pub bins: Bins,
    pub parted: &'a mut Parted,
    /// At least [`Bins::lines`].
    pub arena: &'a mut [Line],
    /// Whether the bins go past the cache.
    pub stream: bool,
}
impl Work for Partition<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.stream { self.part::<S, true>(simd) } else { self.part::<S, false>(simd) }
    }
}
impl Partition<'_> {
    #[inline(always)]
    fn part<S: Simd, const STREAM: bool>(self, simd: S) {
        let Partition { keys, values, bins, parted, arena, .. } = self;
        let count = bins.count();
        parted.gathering.resize(count.max(parted.gathering.len()), Line([0; LINE]));
        parted.next_block.resize(bins.blocks(keys.len()).max(parted.next_block.len()), 0);
        parted.next_pair.clear();
        parted.next_pair.extend((0..count).map(|bin| (bin * BLOCK) as u32));
        let mut out = Out::<S, STREAM> {
            simd,
            gathering: &mut parted.gathering[..count],
            next_pair: &mut parted.next_pair[..count],
            next_block: &mut parted.next_block,
            arena,
            blocks: count as u32,
        };
        let (key_groups, last_keys) = keys.as_chunks::<GROUP>();
        let (value_groups, last_values) = values.as_chunks::<GROUP>();
        // A group is mixed while the one before goes to its bins: what is mixed passes through memory, which is faster than
        // taking vectors apart.
        let (mut pairs, mut bin) = ([[0; GROUP]; 2], [[0; GROUP]; 2]);
        for step in 0..=key_groups.len() {
            if let (Some(keys), Some(values)) = (key_groups.get(step), value_groups.get(step)) {
                // The machine's own prefetching stops at the end of each page.
                simd.ask(keys.as_ptr().wrapping_add(AHEAD * GROUP));
                simd.ask(values.as_ptr().wrapping_add(AHEAD * GROUP));
                for i in 0..GROUP {
                    let h = bins.shape.mixed(keys[i]);
                    pairs[step % 2][i] = pair(h, values[i]);
                    bin[step % 2][i] = bins.of(h);
                }
            }
            if step > 0 {
                for i in 0..GROUP {
                    out.push(bin[(step - 1) % 2][i], pairs[(step - 1) % 2][i]);
                }
            }
        }
        for (&key, &value) in last_keys.iter().zip(last_values) {
            let h = bins.shape.mixed(key);
            out.push(bins.of(h), pair(h, value));
        }
        out.finish();
    }
}

/// Where pairs go.
struct Out<'a, S, const STREAM: bool> {
    simd: S,
    gathering: &'a mut [Line],
    next_pair: &'a mut [u32],
    next_block: &'a mut [u32],
    arena: &'a mut [Line],
    /// Blocks taken.
    blocks: u32,
}
impl<S: Simd, const STREAM: bool> Out<'_, S, STREAM> {
    #[inline(always)]
    fn push(&mut self, bin: u32, pair: u64) {
        let bin = bin as usize;
        let at = self.next_pair[bin];
        self.gathering[bin].0[at as usize % LINE] = pair;
        self.next_pair[bin] = at + 1;
        if at as usize % LINE == LINE - 1 {
            self.line_is_full(bin, at);
        }
    }
    #[inline(always)]
    fn line_is_full(&mut self, bin: usize, at: u32) {
        self.write(bin, at);
        if at as usize % BLOCK == BLOCK - 1 {
            self.next_block[at as usize / BLOCK] = self.blocks;
            self.next_pair[bin] = self.blocks * BLOCK as u32;
            self.blocks += 1;
        }
    }
    #[inline(always)]
    fn write(&mut self, bin: usize, at: u32) {
        let to = &mut self.arena[at as usize / LINE];
        let from = &self.gathering[bin];
        if STREAM { self.simd.stream(to, &from.0) } else { *to = *from }
    }
    /// Lines that are not full go out with what they hold.
    #[inline(always)]
    fn finish(mut self) {
        for bin in 0..self.gathering.len() {
            if !(self.next_pair[bin] as usize).is_multiple_of(LINE) {
                self.write(bin, self.next_pair[bin]);
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

    fn check(level: Level, n: usize, bins: Bins, stream: bool, key: impl Fn(u32) -> u32) {
        let keys = (0..n as u32).map(key).collect::<Vec<_>>();
        let values = (0..n as u32).collect::<Vec<_>>();
        let mut parted = Parted::default();
        let mut arena = vec![Line([0; LINE]); bins.lines(n)];
        for n in [n, n / 2] {
            let (keys, values) = (&keys[..n], &values[..n]);
            level.run(Partition { keys, values, bins, parted: &mut parted, arena: &mut arena, stream });
            let mut expected = vec![vec![]; bins.count()];
            for (&key, &value) in keys.iter().zip(values) {
                let h = bins.shape.mixed(key);
                let partition = (h as u64 * bins.shape.partitions as u64) >> 32;
                expected[(partition >> bins.shift) as usize].push(pair(h, value));
            }
            for (bin, expected) in expected.iter().enumerate() {
                let runs = parted.runs(bin, bytemuck::cast_slice(&arena));
                let found = runs.flat_map(|(run, _)| run).copied().collect::<Vec<u64>>();
                assert_eq!(&found, expected, "{level:?} bin {bin} of {n} pairs");
            }
        }
    }
    #[test]
    fn bins_hold_their_pairs_in_order() {
        let most = if cfg!(miri) { 700 } else { 20_000 };
        for level in Level::available() {
            for n in [0, 1, 15, 16, 17, 513, most] {
                for (partitions, shift) in [(1, 0), (7, 1), (100, 0), (1000, 4)] {
                    let bins = Bins { shape: Shape { partitions, buckets: 1, seed: 3 }, shift };
                    check(level, n, bins, n % 2 == 0, |i| splitmix_at(5, i) as u32);
                }
            }
            // One bin takes all, in whole blocks.
            let shape = Shape { partitions: 50, buckets: 1, seed: 3 };
            check(level, 2 * BLOCK, Bins { shape, shift: 0 }, true, |_| 9);
        }
    }
}
