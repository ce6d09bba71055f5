//! Prefix sums.
use super::check_planned;
use super::lookback::Lookback;
use crate::device::{Apart, Buffer, Device, Element, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::parallel;
use koel_kernels::lookback::Carried;
use koel_kernels::scan::{Scanned, SumsOut, scan};

/// Elements that can be scanned: `u32`, `u64`.
pub trait ScanElement: Element + Scanned {}
impl ScanElement for u32 {}
impl ScanElement for u64 {}

/// Plan for exclusive and inclusive prefix sums of up to a given number of elements. Sums wrap.
///
/// On a GPU: one launch, every element read once and written once (8 bytes of traffic per element
/// for `u32`, 16 for `u64`). Scratch: 8 bytes per 4096 `u32`, 16 per 2048 `u64`. The result is the
/// same on every device and in every run. Decoupled look-back: Merrill and Garland, "Single-pass
/// Parallel Prefix Scan with Decoupled Look-back", 2016.
pub struct Scan<T> {
    max_n: usize,
    lookback: Lookback,
    total: Buffer<T>,
}
impl<T: ScanElement> Scan<T> {
    /// Makes a plan for up to `max_n` elements. Errors: out of memory; more than 32-bit indices
    /// address.
    pub fn new(device: &Device, max_n: usize) -> Result<Scan<T>> {
        check_planned("elements to scan", max_n, max_n)?;
        let tiles = max_n.div_ceil(T::TILE as usize);
        let lookback = Lookback::new(device, tiles * <T as Carried>::WORDS as usize)?;
        let mut total = device.alloc(1)?;
        total.view_mut().fill_bytes(0, &device.stream()?)?;
        Ok(Scan { max_n, lookback, total })
    }
    /// Sets `output[i]` to the sum of `input[..i]`.
    ///
    /// Errors: lengths that differ; more elements than planned for; buffers of another device.
    pub fn exclusive(
        &mut self,
        stream: &Stream,
        input: View<'_, T>,
        output: ViewMut<'_, T>,
    ) -> Result<()> {
        self.run(stream, false, input, output)
    }
    /// Sets `output[i]` to the sum of `input[..=i]`.
    ///
    /// Errors: lengths that differ; more elements than planned for; buffers of another device.
    pub fn inclusive(
        &mut self,
        stream: &Stream,
        input: View<'_, T>,
        output: ViewMut<'_, T>,
    ) -> Result<()> {
        self.run(stream, true, input, output)
    }
    /// Returns the sum of all elements of the latest scan: one element.
    pub fn total(&self) -> View<'_, T> {
        self.total.view()
    }
    /// Returns the device memory that the plan keeps, in bytes.
    pub fn scratch_bytes(&self) -> usize {
        self.lookback.bytes() + self.total.bytes()
    }

    fn run(
        &mut self,
        stream: &Stream,
        inclusive: bool,
        input: View<'_, T>,
        mut output: ViewMut<'_, T>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("output", output.len(), "the input", input.len())?;
        let n = check_planned("elements to scan", input.len(), self.max_n)?;
        let mut total = self.total.view_mut();
        let from = input.arg("input", stream)?;
        let to = SumsOut {
            sums: output.arg("output", stream)?,
            total: total.arg("total", stream)?,
            inclusive: inclusive as u32,
        };
        if n == 0 {
            return total.fill_bytes(0, stream);
        }
        if !stream.device().runs_kernels() {
            if let (Some(input), Some(output), Some(total)) =
                (input.host(), output.host_mut(), total.host_mut())
            {
                total[0] = stream
                    .device()
                    .install(|| on_host(stream.device().parallelism(), inclusive, input, output))?;
            }
            return Ok(());
        }
        let aligned = (input.is_aligned(16) && output.view().is_aligned(16)) as u32;
        let tiles = self.lookback.tiles(stream)?;
        // SAFETY: lengths as checked; there are status words for `max_n` elements, and one block
        // per tile.
        unsafe { scan::launch(stream, n.div_ceil(T::TILE), aligned, n, from, to, tiles) }
    }
}

/// Sums each chunk, then scans the chunks. Returns the total.
fn on_host<T: ScanElement>(
    threads: usize,
    inclusive: bool,
    input: &[T],
    output: &mut [T],
) -> Result<T> {
    let chunk = input.len().div_ceil(threads * 4).max(1 << 12);
    let sum = |part: &[T]| part.iter().fold(T::ZERO, |a, &x| a.plus(x));
    let mut before = parallel::map(input.chunks(chunk), |_, part| sum(part))?;
    let total =
        before.iter_mut().fold(T::ZERO, |all, of_chunk| all.plus(std::mem::replace(of_chunk, all)));
    let chunks = input.chunks(chunk).zip(output.chunks_mut(chunk)).zip(before);
    parallel::each(chunks, |_, ((input, output), mut sum)| {
        for (&x, y) in input.iter().zip(output) {
            let upto = sum.plus(x);
            *y = if inclusive { upto } else { sum };
            sum = upto;
        }
    });
    Ok(total)
}

/// [`Scan::exclusive`] without a plan: allocates one, waits, and returns the sum of all elements.
pub fn exclusive_scan<T: ScanElement>(
    stream: &Stream,
    input: View<'_, T>,
    output: ViewMut<'_, T>,
) -> Result<T> {
    let mut plan = Scan::new(stream.device(), input.len())?;
    plan.exclusive(stream, input, output)?;
    Ok(plan.total().download()?[0])
}
/// [`Scan::inclusive`] without a plan: allocates one, waits, and returns the sum of all elements.
pub fn inclusive_scan<T: ScanElement>(
    stream: &Stream,
    input: View<'_, T>,
    output: ViewMut<'_, T>,
) -> Result<T> {
    let mut plan = Scan::new(stream.device(), input.len())?;
    plan.inclusive(stream, input, output)?;
    Ok(plan.total().download()?[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::lookback::MAX_EPOCH;

    /// The status words are cleared after 2^30 launches: those of the first epochs must not be
    /// taken for new ones.
    #[test]
    fn epochs_begin_again() -> Result<()> {
        let device = Device::executor(1);
        let (stream, n) = (device.stream()?, 12 * u32::TILE as usize);
        let (ones, twos) = (device.upload(&vec![1u32; n])?, device.upload(&vec![2u32; n])?);
        let (mut output, mut plan) = (device.alloc(n)?, Scan::new(&device, n)?);
        plan.inclusive(&stream, twos.view(), output.view_mut())?;
        plan.lookback.epoch = MAX_EPOCH - 1;
        // The first of these leaves the words of the other tiles as they were in epoch 1; the last
        // has different sums than the one before.
        for (epoch, n, each) in [(MAX_EPOCH, 5, 1), (1, n, 1), (2, n, 2)] {
            let input = if each == 1 { &ones } else { &twos };
            plan.inclusive(&stream, input.view().slice(..n)?, output.view_mut().slice(..n)?)?;
            assert_eq!(plan.lookback.epoch, epoch);
            let sums = output.view().slice(..n)?.download()?;
            assert!(sums.into_iter().eq((1..=n as u32).map(|i| i * each)), "epoch {epoch}");
        }
        Ok(())
    }
}
