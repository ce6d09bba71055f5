//! Ranks of rows among those that are kept.
use super::partition::Bins;
use crate::fallible::{Result, resize};
use crate::parallel;
use koel_kernels::table::layout::Shape;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Rows per word.
const BITS: usize = 32;
/// Rows that a thread ranks or compacts at a time: a multiple of [`BITS`].
const PIECE: usize = 64 << 10;

/// Which rows are kept: for every 32 rows, the number of those kept before and a bit for each.
#[derive(Default)]
pub(crate) struct Ranks {
    words: Vec<[u32; 2]>,
    kept: usize,
}
impl Ranks {
    /// Ranks the rows whose flags are 0; those of dropped rows are 1. Runs on the threads of a
    /// pool. Errors: out of memory.
    pub(crate) fn rank(&mut self, dropped: &[AtomicU8]) -> Result<()> {
        self.words.clear();
        resize(&mut self.words, dropped.len().div_ceil(BITS), [0; 2])?;
        let pieces = self.words.chunks_mut(PIECE / BITS).zip(dropped.chunks(PIECE));
        let counts = parallel::map(pieces, |_, (words, dropped)| {
            let mut count = 0;
            for (word, dropped) in words.iter_mut().zip(dropped.chunks(BITS)) {
                // No row follows the last one.
                let mut flags = [1; BITS];
                flags.iter_mut().zip(dropped).for_each(|(to, flag)| *to = flag.load(Relaxed));
                // The product moves the lowest bit of each byte to the highest byte.
                let bits = |i: usize| {
                    let eight = u64::from_le_bytes(flags.as_chunks().0[i]);
                    (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
                };
                let bits = !(0..BITS / 8).fold(0, |all, i| all | bits(i) << (8 * i));
                *word = [count, bits];
                count += bits.count_ones();
            }
            count
        })?;
        let mut before = 0;
        for (words, count) in self.words.chunks_mut(PIECE / BITS).zip(counts) {
            words.iter_mut().for_each(|word| word[0] += before);
            before += count;
        }
        self.kept = before as usize;
        Ok(())
    }
    /// Returns the number of kept rows.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }
    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<[u32; 2]>()
    }
    /// Returns the number of kept rows before a row, and whether it is kept. Panics if there is no
    /// such row.
    #[inline(always)]
    pub(crate) fn of(&self, row: u32) -> (u32, bool) {
        let ([before, bits], bit) = (self.words[row as usize / BITS], row % BITS as u32);
        (before + (bits & ((1 << bit) - 1)).count_ones(), bits >> bit & 1 != 0)
    }
    /// Copies the elements of kept rows to `output`, which has room for exactly these. Runs on the
    /// threads of a pool. Needs no memory.
    pub(crate) fn compact<T: Copy + Send + Sync>(&self, input: &[T], output: &mut [T]) {
        let pieces = self.words.chunks(PIECE / BITS);
        let before = |piece: usize| match self.words.get(piece * (PIECE / BITS)) {
            Some(&[before, _]) => before as usize,
            None => self.kept,
        };
        let lengths = (0..pieces.len()).map(|piece| before(piece + 1) - before(piece));
        let outputs = parallel::split(output, lengths);
        let pieces = pieces.zip(input.chunks(PIECE)).zip(outputs);
        parallel::each(pieces, |_, ((words, input), output)| {
            let mut kept = 0;
            for (&[_, bits], input) in words.iter().zip(input.chunks(BITS)) {
                if bits == u32::MAX {
                    output[kept..][..BITS].copy_from_slice(input);
                    kept += BITS;
                    continue;
                }
                // Without a branch on the bit, which could not be predicted. After the last kept
                // element the output is full.
                for (i, &x) in input.iter().enumerate() {
                    let Some(to) = output.get_mut(kept) else { break };
                    *to = x;
                    kept += (bits >> i & 1) as usize;
                }
            }
        });
    }
}
/// Rows of an [`Ranks`] as values of a table whose pairs are in bins of another shape.
#[derive(Clone, Copy)]
pub(super) struct Ranked<'a> {
    pub ranks: &'a Ranks,
    pub bins: Bins,
}
impl Ranked<'_> {
    /// Returns the bins that hold pairs of these partitions of a table of shape `to`.
    pub(super) fn bins_of(&self, to: Shape, partitions: Range<u32>) -> Range<usize> {
        // The lowest hash of a partition.
        let lowest = |p: u32| ((p as u64) << 32).div_ceil(to.partitions as u64);
        let (first, last) = (lowest(partitions.start), lowest(partitions.end) - 1);
        self.bins.of(first as u32) as usize..self.bins.of(last as u32) as usize + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::hash::mix::splitmix_at;

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn ranks_count_the_kept_rows_before() {
        for (n, shares) in [(0, 0..1), (1, 0..2), (33, 0..5), (PIECE, 1..2), (PIECE + 77, 2..3)] {
            for share in shares.map(|i| [0, 100, 50, 1, 99][i]) {
                let flag = |i| (splitmix_at(2, i) % 100 < share) as u8;
                let dropped = (0..n as u32).map(|i| AtomicU8::new(flag(i))).collect::<Vec<_>>();
                let mut ranks = Ranks::default();
                ranks.rank(&dropped).unwrap();
                let kept = (0..n as u32).filter(|&i| flag(i) == 0).collect::<Vec<_>>();
                assert_eq!(ranks.kept(), kept.len(), "{n} rows, {share} %");
                let mut rank = 0;
                for row in 0..n as u32 {
                    assert_eq!(ranks.of(row), (rank, flag(row) == 0), "row {row} of {n}");
                    rank += (flag(row) == 0) as u32;
                }
                let mut output = vec![0; kept.len()];
                ranks.compact(&(0..n as u32).collect::<Vec<_>>(), &mut output);
                assert_eq!(output, kept, "{n} rows, {share} %");
            }
        }
    }
}
