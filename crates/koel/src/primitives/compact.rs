//! Stream compaction: moves kept elements together, in their order.
use super::check_planned;
use super::lookback::Lookback;
use crate::device::{Apart, Device, Element, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::parallel;
use koel_kernels::compact::{self as kernels, TILE};
use koel_kernels::lookback::Tiles;
use koel_kernels::payload::FromTo;
use koel_simt::{Buf, In};

/// Elements that can be compacted alone: `u32`, `u64`, `u128`.
pub trait CompactElement: Element {}
impl CompactElement for u32 {}
impl CompactElement for u64 {}
impl CompactElement for u128 {}
/// Elements that can be compacted together with values of type `V`: `u32` and `u64` with `u32` and
/// `u64`.
pub trait CompactPair<V>: CompactElement {}
impl CompactPair<u32> for u32 {}
impl CompactPair<u64> for u32 {}
impl CompactPair<u32> for u64 {}
impl CompactPair<u64> for u64 {}

/// Arguments common to all launches.
struct Args {
    n: u32,
    flags: In<u8>,
    count: Buf<u32>,
    tiles: Tiles,
}

/// Plan that keeps the elements whose flag is not 0, for up to a given number of elements.
///
/// The kept elements come first in the output, in input order; the rest of the output is undefined.
/// The result is the same on every device and in every run.
///
/// On a GPU: one launch; every flag is read once (1 byte per element), every kept element is read
/// once, in whole sectors, and written once. Scratch: 8 bytes per 4096 elements. Decoupled
/// look-back, as in [`Scan`](super::Scan).
pub struct Compact {
    max_n: usize,
    lookback: Lookback,
}
impl Compact {
    /// Makes a plan for up to `max_n` elements. Errors: out of memory; more than 32-bit indices
    /// address.
    pub fn new(device: &Device, max_n: usize) -> Result<Compact> {
        check_planned("elements to compact", max_n, max_n)?;
        Ok(Compact { max_n, lookback: Lookback::new(device, max_n.div_ceil(TILE as usize))? })
    }
    /// Returns the device memory that the plan keeps, in bytes.
    pub fn scratch_bytes(&self) -> usize {
        self.lookback.bytes()
    }
    /// Sets `output` to the elements of `input` whose flag is not 0, and `count[0]` to their
    /// number.
    ///
    /// Errors: lengths that differ (`output` must have room for all elements); more elements than
    /// planned for; buffers of another device.
    pub fn run<T: CompactElement>(
        &mut self,
        stream: &Stream,
        flags: View<'_, u8>,
        input: View<'_, T>,
        output: ViewMut<'_, T>,
        count: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("output", output.len(), "the input", input.len())?;
        // SAFETY: the output has room for all elements.
        unsafe { self.run_kept(stream, flags, input, output, count) }
    }
    /// [`run`](Self::run) with an output that may be shorter than the input.
    ///
    /// # Safety
    /// The output has at least as many elements as there are nonzero flags.
    pub(crate) unsafe fn run_kept<T: CompactElement>(
        &mut self,
        stream: &Stream,
        flags: View<'_, u8>,
        input: View<'_, T>,
        mut output: ViewMut<'_, T>,
        mut count: ViewMut<'_, u32>,
    ) -> Result<()> {
        let (from, to) = (input.arg("input", stream)?, output.arg("output", stream)?);
        if stream.device().runs_kernels() {
            let Some(Args { n, flags, count, tiles }) =
                self.args(stream, flags, input.len(), &mut count)?
            else {
                return Ok(());
            };
            let (grid, elements) = (n.div_ceil(TILE), FromTo { from, to });
            // SAFETY: lengths as checked, room as the caller promises; there are status words for
            // `max_n` elements, and one block per tile.
            return unsafe {
                kernels::compact::launch(stream, grid, n, flags, elements, count, tiles)
            };
        }
        self.check(stream, flags, input.len(), &mut count)?;
        if let (Some(flags), Some(input), Some(output), Some(count)) =
            (flags.host(), input.host(), output.host_mut(), count.host_mut())
        {
            let threads = stream.device().parallelism();
            let kept = stream.device().install(|| on_host(threads, flags, input, output))?;
            count[0] = kept as u32;
        }
        Ok(())
    }
    /// Compacts pairs.
    ///
    /// Errors: as for [`run`](Self::run).
    #[allow(clippy::too_many_arguments, reason = "two arrays in, two out, the flags and the count")]
    pub fn run_pairs<K: CompactPair<V>, V: Element>(
        &mut self,
        stream: &Stream,
        flags: View<'_, u8>,
        keys: View<'_, K>,
        values: View<'_, V>,
        mut keys_out: ViewMut<'_, K>,
        mut values_out: ViewMut<'_, V>,
        mut count: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = keys.len();
        check_length("values", values.len(), "the keys", n)?;
        check_length("keys_out", keys_out.len(), "the keys", n)?;
        check_length("values_out", values_out.len(), "the keys", n)?;
        let of_keys =
            FromTo { from: keys.arg("keys", stream)?, to: keys_out.arg("keys_out", stream)? };
        let of_values = FromTo {
            from: values.arg("values", stream)?,
            to: values_out.arg("values_out", stream)?,
        };
        if stream.device().runs_kernels() {
            let Some(Args { n, flags, count, tiles }) = self.args(stream, flags, n, &mut count)?
            else {
                return Ok(());
            };
            let grid = n.div_ceil(TILE);
            // SAFETY: lengths as checked; there are status words for `max_n` elements, and one
            // block per tile.
            return unsafe {
                kernels::compact_pairs::launch(
                    stream, grid, n, flags, of_keys, of_values, count, tiles,
                )
            };
        }
        self.check(stream, flags, n, &mut count)?;
        if let (
            Some(flags),
            Some(keys),
            Some(keys_out),
            Some(values),
            Some(values_out),
            Some(count),
        ) = (
            flags.host(),
            keys.host(),
            keys_out.host_mut(),
            values.host(),
            values_out.host_mut(),
            count.host_mut(),
        ) {
            let threads = stream.device().parallelism();
            let kept = stream.device().install(|| {
                on_host(threads, flags, values, values_out)?;
                on_host(threads, flags, keys, keys_out)
            })?;
            count[0] = kept as u32;
        }
        Ok(())
    }

    fn check(
        &self,
        stream: &Stream,
        flags: View<'_, u8>,
        n: usize,
        count: &mut ViewMut<'_, u32>,
    ) -> Result<u32> {
        self.lookback.check_device(stream)?;
        check_length("flags", flags.len(), "the elements", n)?;
        check_length("count", count.len(), "the total", 1)?;
        flags.arg("flags", stream)?;
        count.arg("count", stream)?;
        check_planned("elements to compact", n, self.max_n)
    }
    /// Returns the launch arguments; `None` if there is nothing to do.
    fn args(
        &mut self,
        stream: &Stream,
        flags: View<'_, u8>,
        n: usize,
        count: &mut ViewMut<'_, u32>,
    ) -> Result<Option<Args>> {
        let n = self.check(stream, flags, n, count)?;
        if n == 0 {
            count.fill_bytes(0, stream)?;
            return Ok(None);
        }
        let (flags, count) = (flags.arg("flags", stream)?, count.arg("count", stream)?);
        Ok(Some(Args { n, flags, count, tiles: self.lookback.tiles(stream)? }))
    }
}

/// Counts per chunk, then compacts each chunk into its own part of the output. Returns the count.
fn on_host<T: Element>(
    threads: usize,
    flags: &[u8],
    input: &[T],
    output: &mut [T],
) -> Result<usize> {
    let chunk = input.len().div_ceil(threads * 4).max(1 << 12);
    let kept = |_, flags: &[u8]| flags.iter().filter(|&&f| f != 0).count();
    let counts = parallel::map(flags.chunks(chunk), kept)?;
    let parts = parallel::split(output, counts.iter().copied());
    let chunks = flags.chunks(chunk).zip(input.chunks(chunk)).zip(parts);
    parallel::each(chunks, |_, ((flags, input), part)| {
        // Without a branch on the flag, which could not be predicted. After the last kept element
        // the part is full.
        let mut kept = 0;
        for (&flag, &x) in flags.iter().zip(input) {
            let Some(to) = part.get_mut(kept) else { break };
            *to = x;
            kept += (flag != 0) as usize;
        }
    });
    Ok(counts.iter().sum())
}

/// [`Compact::run`] without a plan: allocates one, waits, and returns the count.
pub fn compact<T: CompactElement>(
    stream: &Stream,
    flags: View<'_, u8>,
    input: View<'_, T>,
    output: ViewMut<'_, T>,
) -> Result<usize> {
    let mut count = stream.device().alloc(1)?;
    Compact::new(stream.device(), input.len())?.run(
        stream,
        flags,
        input,
        output,
        count.view_mut(),
    )?;
    Ok(count.download()?[0] as usize)
}
/// [`Compact::run_pairs`] without a plan: allocates one, waits, and returns the count.
pub fn compact_pairs<K: CompactPair<V>, V: Element>(
    stream: &Stream,
    flags: View<'_, u8>,
    keys: View<'_, K>,
    values: View<'_, V>,
    keys_out: ViewMut<'_, K>,
    values_out: ViewMut<'_, V>,
) -> Result<usize> {
    let mut count = stream.device().alloc(1)?;
    let mut plan = Compact::new(stream.device(), keys.len())?;
    plan.run_pairs(stream, flags, keys, values, keys_out, values_out, count.view_mut())?;
    Ok(count.download()?[0] as usize)
}
