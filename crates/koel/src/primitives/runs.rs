//! Runs of equal elements.
use super::check_planned;
use super::lookback::Lookback;
use crate::device::{Apart, Device, Element, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::parallel;
use koel_kernels::compact::TILE;
use koel_kernels::groups::{self as kernels, RunsOut};
use koel_kernels::table::layout::Number;

/// Elements whose runs can be found: `u32`, `u64`.
pub trait RunElement: Element + Number {}
impl RunElement for u32 {}
impl RunElement for u64 {}

/// Plan that finds runs of equal elements (run-length encoding), for up to a given number of
/// elements. On a sorted array it finds the distinct elements.
///
/// The runs are in input order. The result is the same on every device and in every run.
///
/// On a GPU: one launch; every element is read once from memory, and 4 bytes and one element are
/// written per run. Scratch: 8 bytes per 4096 elements. Decoupled look-back, as in
/// [`Scan`](super::Scan).
pub struct Runs {
    max_n: usize,
    lookback: Lookback,
}
impl Runs {
    /// Makes a plan for up to `max_n` elements. Errors: out of memory; more than 32-bit indices
    /// address.
    pub fn new(device: &Device, max_n: usize) -> Result<Runs> {
        check_planned("elements to find runs in", max_n, max_n)?;
        Ok(Runs { max_n, lookback: Lookback::new(device, max_n.div_ceil(TILE as usize))? })
    }
    /// Returns the device memory that the plan keeps, in bytes.
    pub fn scratch_bytes(&self) -> usize {
        self.lookback.bytes()
    }
    /// Sets `count[0]` to the number of runs. Run `r` consists of the elements
    /// `starts[r]..starts[r + 1]`, which equal `distinct[r]`.
    ///
    /// The rest of both arrays is undefined. Errors: `distinct` not as long as `elements`, `starts`
    /// not longer by one, `count` not of length 1; more elements than planned for; buffers of
    /// another device.
    pub fn run<T: RunElement>(
        &mut self,
        stream: &Stream,
        elements: View<'_, T>,
        mut distinct: ViewMut<'_, T>,
        mut starts: ViewMut<'_, u32>,
        mut count: ViewMut<'_, u32>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.lookback.check_device(stream)?;
        check_length("distinct", distinct.len(), "the elements", elements.len())?;
        check_length("starts", starts.len(), "the elements and one", elements.len() + 1)?;
        check_length("count", count.len(), "the total", 1)?;
        let n = check_planned("elements to find runs in", elements.len(), self.max_n)?;
        let from = elements.arg("elements", stream)?;
        let to = RunsOut {
            distinct: distinct.arg("distinct", stream)?,
            starts: starts.arg("starts", stream)?,
            count: count.arg("count", stream)?,
        };
        if n == 0 {
            starts.fill_bytes(0, stream)?;
            return count.fill_bytes(0, stream);
        }
        if stream.device().runs_kernels() {
            let tiles = self.lookback.tiles(stream)?;
            // SAFETY: lengths as checked, and there are no more runs than elements; there are
            // status words for `max_n` elements, and one block per tile.
            return unsafe { kernels::runs::launch(stream, n.div_ceil(TILE), n, from, to, tiles) };
        }
        if let (Some(elements), Some(distinct), Some(starts), Some(count)) =
            (elements.host(), distinct.host_mut(), starts.host_mut(), count.host_mut())
        {
            let threads = stream.device().parallelism();
            count[0] = stream.device().install(|| on_host(threads, elements, distinct, starts))?;
        }
        Ok(())
    }
}

/// Counts the runs that start in each chunk, then lets each chunk write its own. Returns the count.
fn on_host<T: Element>(
    threads: usize,
    elements: &[T],
    distinct: &mut [T],
    starts: &mut [u32],
) -> Result<u32> {
    let chunk = elements.len().div_ceil(threads * 4).max(1 << 12);
    let begins = |i: usize| i == 0 || elements[i] != elements[i - 1];
    let of_chunk =
        |c: usize| (c * chunk..elements.len().min((c + 1) * chunk)).filter(|&i| begins(i));
    let chunks = elements.len().div_ceil(chunk);
    let counts = parallel::map(0..chunks, |_, c| of_chunk(c).count())?;
    let runs = counts.iter().sum::<usize>();
    starts[runs] = elements.len() as u32;
    let parts = parallel::split(distinct, counts.iter().copied());
    let parts = parts.zip(parallel::split(starts, counts.iter().copied()));
    parallel::each(parts, |c, (part, of_starts)| {
        for ((i, to), start) in of_chunk(c).zip(part).zip(of_starts) {
            (*to, *start) = (elements[i], i as u32);
        }
    });
    Ok(runs as u32)
}
