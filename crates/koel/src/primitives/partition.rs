//! Partition of pairs into bins, in one pass.
//!
//! A block sorts a tile of pairs by bin in shared memory, reserves room in every bin with one
//! global add, and writes each bin's run in full lines. On a GPU: 16 bytes of traffic per pair and
//! pass. The output is `value << 32 | stored key`, where the stored key is the key itself or its
//! mix (see [`Bins::stored`]), so that consumers need not hash again.
//!
//! Bins and their sizes are the same on every device and in every run; the order inside a bin is
//! that of the input on the CPU and undefined elsewhere.
use super::distribute::{Places, distribute, packed};
use super::histogram::{Bins, histogram_into};
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::fallible::collect;
use koel_kernels::bins::{Binning, Bits, Hash, Source};
use koel_kernels::partition::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Maximum number of bins of a partition.
pub const MAX_BINS: usize = 1024;

/// Returns the room for a bin when [`Bins::Hash`] spreads `n` pairs of distinct keys over `bins`
/// bins: the mean, 6.2 standard deviations (a bin exceeds them three times in 10^10) and 8 more for
/// small means, rounded to an even number.
pub fn slack_room(n: usize, bins: usize) -> usize {
    let mean = n as f64 / bins.max(1) as f64;
    (mean + 6.2 * mean.sqrt() + 8.0) as usize / 2 * 2 + 2
}

/// Partitions pairs into bins with room for `room` pairs each. The pairs of bin `b` go to
/// `out[b * room..][..cursors[b]]`.
///
/// Sets `cursors[b]` to the number of pairs of bin `b`, even if they did not fit, and `overflow[0]`
/// to the number of pairs dropped because a bin was full. If it is not 0, the bins whose cursor
/// exceeds `room` hold some of their pairs, at undefined places, and the caller should retry with
/// more room. Nothing is written outside a bin's room.
///
/// On a GPU: two fills and one launch. Needs no scratch memory.
///
/// Errors: `values` not as long as the keys, `out` not `room` times the number of bins, `cursors`
/// without exactly one element per bin, `overflow` not of length 1; more than 1024 bins; more
/// places than 32-bit indices address; buffers of another device.
#[allow(
    clippy::too_many_arguments,
    reason = "two arrays in, three out, how many bins and how large"
)]
pub fn partition_with_slack(
    stream: &Stream,
    bins: Bins,
    room: usize,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    mut out: ViewMut<'_, u64>,
    mut cursors: ViewMut<'_, u32>,
    mut overflow: ViewMut<'_, u32>,
) -> Result<()> {
    let count = bins.check(MAX_BINS)? as usize;
    check_length("values", values.len(), "the keys", keys.len())?;
    check_length("out", out.len(), "all bins' room", count.saturating_mul(room))?;
    check_length("cursors", cursors.len(), "the bins", count)?;
    check_length("overflow", overflow.len(), "the total", 1)?;
    let (n, _) = (count32("pairs", keys.len())?, count32("places", out.len())?);
    cursors.fill_bytes(0, stream)?;
    overflow.fill_bytes(0, stream)?;
    if stream.device().runs_kernels() {
        let input = pairs_in(stream, n, keys, values)?;
        let to = RoomsOut {
            pairs: out.arg("out", stream)?,
            cursors: cursors.arg("cursors", stream)?,
            overflow: overflow.arg("overflow", stream)?,
            stride: room as u32,
            room: room as u32,
        };
        // SAFETY: lengths as checked.
        return unsafe { launch(stream, bins, input, to) };
    }
    let (keys, values) = (checked(keys, "keys", stream)?, checked(values, "values", stream)?);
    out.arg("out", stream)?;
    if let (Some(out), Some(cursors), Some(overflow)) =
        (out.host_mut(), cursors.host_mut(), overflow.host_mut())
    {
        let (places, lost) = (Places::new(out), &AtomicU32::new(0));
        let put = move |i: usize, bin: usize, place: usize| {
            if place - bin * room < room {
                // SAFETY: inside the bin's room; `distribute` uses each place once.
                unsafe { places.put(place, pair(bins, keys[i], values[i])) }
            } else {
                lost.fetch_add(1, Relaxed);
            }
        };
        let rooms = |counts: &[usize]| Ok(collect((0..counts.len()).map(|b| b * room))?);
        let counts = on_host(stream.device(), bins, keys, rooms, put)?;
        cursors.iter_mut().zip(counts).for_each(|(cursor, count)| *cursor = count as u32);
        overflow[0] = lost.load(Relaxed);
    }
    Ok(())
}

/// Partition without slack: counts first. Scratch: 8 bytes per bin.
pub struct ExactPartition {
    bins: Bins,
    counts: Buffer<u32>,
    cursors: Buffer<u32>,
    overflow: Buffer<u32>,
}
impl ExactPartition {
    /// Makes a plan for any number of pairs. Errors: more than 1024 bins; out of memory.
    pub fn new(device: &Device, bins: Bins) -> Result<ExactPartition> {
        let count = bins.check(MAX_BINS)? as usize;
        Ok(ExactPartition {
            bins,
            counts: device.alloc(count)?,
            cursors: device.alloc(count)?,
            overflow: device.alloc(1)?,
        })
    }
    /// Returns the device memory that the plan keeps, in bytes.
    pub fn scratch_bytes(&self) -> usize {
        self.counts.bytes() + self.cursors.bytes() + self.overflow.bytes()
    }
    /// Partitions pairs: those of bin `b` go to `out[starts[b]..starts[b + 1]]`.
    ///
    /// On a GPU: one fill and three launches (count, scan, scatter). The keys are read twice: 20
    /// bytes of traffic per pair.
    ///
    /// Errors: `values` or `out` not as long as the keys, `starts` without exactly one element per
    /// bin and one more; more pairs than 32-bit indices address; buffers of another device.
    pub fn run(
        &mut self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        mut out: ViewMut<'_, u64>,
        mut starts: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let bins = self.bins;
        check_length("values", values.len(), "the keys", keys.len())?;
        check_length("out", out.len(), "the keys", keys.len())?;
        check_length("starts", starts.len(), "the bins and one", bins.count() + 1)?;
        let n = count32("pairs", keys.len())?;
        self.counts.view().arg("the plan's scratch memory", stream)?;
        let to_starts = starts.arg("starts", stream)?;
        if stream.device().runs_kernels() {
            histogram_into(stream, keys, bins, self.counts.view_mut())?;
            let counts = self.counts.view().arg("counts", stream)?;
            let cursors = self.cursors.view_mut().arg("cursors", stream)?;
            let input = pairs_in(stream, n, keys, values)?;
            let to = RoomsOut {
                pairs: out.arg("out", stream)?,
                cursors,
                overflow: self.overflow.view_mut().arg("overflow", stream)?,
                stride: 0,
                room: n,
            };
            // SAFETY: one count and cursor per bin, one start more; lengths as checked; the counts
            // add up to `n`.
            return unsafe {
                bin_starts::launch(stream, 1, bins.count() as u32, counts, to_starts, cursors)?;
                launch(stream, bins, input, to)
            };
        }
        let (keys, values) = (checked(keys, "keys", stream)?, checked(values, "values", stream)?);
        out.arg("out", stream)?;
        if let (Some(out), Some(starts)) = (out.host_mut(), starts.host_mut()) {
            let places = Places::new(out);
            // SAFETY: the counts add up to the length of `out`; `distribute` uses each place once.
            let put = move |i: usize, _: usize, place: usize| unsafe {
                places.put(place, pair(bins, keys[i], values[i]))
            };
            let counts = on_host(stream.device(), bins, keys, packed, put)?;
            let ends = packed(&counts)?.into_iter().chain([keys.len()]);
            starts.iter_mut().zip(ends).for_each(|(to, start)| *to = start as u32);
        }
        Ok(())
    }
}

/// [`ExactPartition::run`] without a plan: allocates one and the output, waits, and returns the
/// pairs on the device and the start of each bin (one more than there are bins).
pub fn partition_exact(
    stream: &Stream,
    bins: Bins,
    keys: View<'_, u32>,
    values: View<'_, u32>,
) -> Result<(Buffer<u64>, Vec<u32>)> {
    let _apart = Apart::begin();
    let mut plan = ExactPartition::new(stream.device(), bins)?;
    let (mut out, mut starts) =
        (stream.device().alloc(keys.len())?, stream.device().alloc(bins.count() + 1)?);
    plan.run(stream, keys, values, out.view_mut(), starts.view_mut())?;
    let starts = starts.download()?;
    Ok((out, starts))
}

/// Returns the kernel arguments of an input of `n` pairs.
fn pairs_in(
    stream: &Stream,
    n: u32,
    keys: View<'_, u32>,
    values: View<'_, u32>,
) -> Result<PairsIn> {
    Ok(PairsIn {
        keys: keys.arg("keys", stream)?,
        values: values.arg("values", stream)?,
        n,
        aligned: (keys.is_aligned(16) && values.is_aligned(16)) as u32,
    })
}
/// # Safety
/// The input holds `n` pairs; `to` holds one cursor per bin, one overflow counter, and every place
/// of its rooms.
unsafe fn launch(stream: &Stream, bins: Bins, input: PairsIn, to: RoomsOut) -> Result<()> {
    let binning = bins.binning();
    // SAFETY: the caller upholds the contract.
    unsafe {
        match bins {
            Bins::Bits { .. } => launch_from::<Bits>(stream, binning, input, to),
            Bins::Hash { .. } => launch_from::<Hash>(stream, binning, input, to),
        }
    }
}
/// # Safety
/// As for [`launch`].
unsafe fn launch_from<S: Source>(
    stream: &Stream,
    binning: Binning,
    input: PairsIn,
    to: RoomsOut,
) -> Result<()> {
    let grid = |shape: Shape| input.n.div_ceil(shape.tile());
    // SAFETY: the caller upholds the contract; there is one block per tile.
    unsafe {
        if binning.bins as usize <= NARROW.bins {
            partition_narrow::launch::<S, _>(stream, grid(NARROW), binning, input, to)
        } else if WIDE.shared() <= stream.device().max_shared() {
            partition_wide::launch::<S, _>(stream, grid(WIDE), binning, input, to)
        } else {
            partition_small::launch::<S, _>(stream, grid(SMALL), binning, input, to)
        }
    }
}

fn pair(bins: Bins, key: u32, value: u32) -> u64 {
    (value as u64) << 32 | bins.stored(key) as u64
}
/// Returns the elements on the CPU device, nothing elsewhere.
fn checked<'a>(view: View<'a, u32>, name: &'static str, stream: &Stream) -> Result<&'a [u32]> {
    view.arg(name, stream)?;
    Ok(view.host().unwrap_or(&[]))
}
fn on_host(
    device: &Device,
    bins: Bins,
    keys: &[u32],
    first: impl FnOnce(&[usize]) -> Result<Vec<usize>> + Send,
    put: impl Fn(usize, usize, usize) + Copy + Send + Sync,
) -> Result<Vec<usize>> {
    let bin = move |i: usize| bins.bin(keys[i]) as usize;
    device.install(|| distribute(device.parallelism(), keys.len(), bins.count(), bin, first, put))
}
