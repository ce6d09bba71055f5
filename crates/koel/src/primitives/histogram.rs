//! Histograms: the number of keys per bin.
use super::filling_grid;
use crate::device::{Apart, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use crate::fallible::repeat;
use crate::parallel;
use koel_kernels::bins::{Binning, Bits, Hash};
use koel_kernels::hash::mix::{mix, unmix};
use koel_kernels::histogram::*;

/// The mapping from 32-bit keys to bins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bins {
    /// `2^bits` bins: `bits` bits of the key, starting at bit `shift`.
    Bits {
        /// The lowest bit.
        shift: u32,
        /// Number of bits, 1 to 16.
        bits: u32,
    },
    /// Equal parts of the range of the key's [mix], a bijection that spreads any keys evenly.
    Hash {
        /// Number of bins, 1 to 65536.
        bins: u32,
    },
}
impl Bins {
    /// Maximum number of bins.
    pub const MAX: usize = 1 << 16;

    /// Returns the number of bins.
    pub fn count(self) -> usize {
        match self {
            Bins::Bits { bits, .. } => 1 << bits.min(32),
            Bins::Hash { bins } => bins as usize,
        }
    }
    /// Returns what a partition stores for a key: the key itself for `Bits`, its mix for `Hash`.
    pub fn stored(self, key: u32) -> u32 {
        match self {
            Bins::Bits { .. } => key,
            Bins::Hash { .. } => mix(key),
        }
    }
    /// Returns the key of a [stored](Self::stored) word.
    pub fn key(self, stored: u32) -> u32 {
        match self {
            Bins::Bits { .. } => stored,
            Bins::Hash { .. } => unmix(stored),
        }
    }
    /// Returns the bin of a key, below `count()`.
    pub fn bin(self, key: u32) -> u32 {
        self.binning().bin_of(self.stored(key))
    }
    /// Returns the form that kernels take.
    pub(super) fn binning(self) -> Binning {
        let drop = match self {
            Bins::Bits { shift, bits } => 32u32.saturating_sub(shift.saturating_add(bits)),
            Bins::Hash { .. } => 0,
        };
        Binning { bins: self.count() as u32, drop }
    }
    pub(super) fn check(self, max: usize) -> Result<u32> {
        if let Bins::Bits { shift, bits } = self
            && !(bits >= 1 && shift <= 31 && bits <= 32 - shift)
        {
            let found = format!("bits {shift}..{}", shift as u64 + bits as u64);
            return Err(Error::Setting {
                field: "bins",
                found,
                expected: "at least one bit, inside 0..32".into(),
            });
        }
        if !(1..=max).contains(&self.count()) {
            return Err(Error::Setting {
                field: "bins",
                found: self.count().to_string(),
                expected: format!("1 to {max}"),
            });
        }
        Ok(self.count() as u32)
    }
}

/// Sets `counts[b]` to the number of keys in bin `b`.
///
/// On a GPU: one fill, one launch, every key read once. Up to 8192 bins are counted in shared
/// memory, with one global add per block and bin; more bins take one global add per key. Needs no
/// scratch memory. The result is the same on every device and in every run.
///
/// Errors: `counts` without exactly one element per bin; bins out of range; more keys than 32-bit
/// indices address; buffers of another device.
pub fn histogram_into(
    stream: &Stream,
    keys: View<'_, u32>,
    bins: Bins,
    mut counts: ViewMut<'_, u32>,
) -> Result<()> {
    let _apart = Apart::begin();
    let count = bins.check(Bins::MAX)?;
    check_length("counts", counts.len(), "the bins", count as usize)?;
    let n = count32("keys", keys.len())?;
    let from = keys.arg("keys", stream)?;
    counts.fill_bytes(0, stream)?;
    let device = stream.device();
    if !device.runs_kernels() {
        if let (Some(keys), Some(counts)) = (keys.host(), counts.host_mut()) {
            device.install(|| on_host(device.parallelism(), keys, bins, counts))?;
        }
        return Ok(());
    }
    let (of, aligned, to) =
        (bins.binning(), keys.is_aligned(16) as u32, counts.arg("counts", stream)?);
    let grid = filling_grid(device, n, TURN);
    // SAFETY: lengths as checked; bins are below `count`.
    unsafe {
        match (bins, count <= MAX_SHARED_BINS) {
            (Bins::Bits { .. }, true) => {
                histogram_shared::launch::<Bits, _>(stream, grid, of, aligned, n, from, to)
            }
            (Bins::Bits { .. }, false) => {
                histogram_global::launch::<Bits, _>(stream, grid, of, aligned, n, from, to)
            }
            (Bins::Hash { .. }, true) => {
                histogram_shared::launch::<Hash, _>(stream, grid, of, aligned, n, from, to)
            }
            (Bins::Hash { .. }, false) => {
                histogram_global::launch::<Hash, _>(stream, grid, of, aligned, n, from, to)
            }
        }
    }
}
/// [`histogram_into`] new memory: allocates the counts, waits and reads them back.
pub fn histogram(stream: &Stream, keys: View<'_, u32>, bins: Bins) -> Result<Vec<u32>> {
    bins.check(Bins::MAX)?;
    let mut counts = stream.device().alloc(bins.count())?;
    histogram_into(stream, keys, bins, counts.view_mut())?;
    counts.download()
}

fn on_host(threads: usize, keys: &[u32], bins: Bins, counts: &mut [u32]) -> Result<()> {
    let chunk = keys.len().div_ceil(threads).max(1 << 14);
    let parts = parallel::map(keys.chunks(chunk), |_, keys| {
        let mut own = repeat(0u32, bins.count())?;
        keys.iter().for_each(|&k| own[bins.bin(k) as usize] += 1);
        Ok::<_, Error>(own)
    })?;
    for part in parts {
        counts.iter_mut().zip(part?).for_each(|(all, own)| *all += own);
    }
    Ok(())
}
