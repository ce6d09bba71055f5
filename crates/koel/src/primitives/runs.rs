//! Runs of equal elements.
use super::check_planned;
use super::lookback::Lookback;
use crate::device::{Device, Element, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use koel_kernels::compact::TILE;
use koel_kernels::groups::{self as kernels, RunsOut};
use koel_kernels::table::layout::Number;
use rayon::prelude::*;

/// Elements of which runs can be found: `u32`, `u64`.
pub trait RunElement: Element + Number {}
impl RunElement for u32 {}
impl RunElement for u64 {}

/// Finds the runs of equal elements of up to a given number: run-length encoding. Of a sorted
/// array, its distinct elements.
///
/// The runs stand in the order of the input. The same result on every device and in every run.
///
/// On a GPU: one launch; every element is read once from memory, and 4 bytes and an element are
/// written for each run. Scratch: 8 bytes for each 4096 elements. Decoupled look-back, as in
/// [`Scan`](super::Scan).
pub struct Runs {
    max_n: usize,
    lookback: Lookback,
}
impl Runs {
    /// For at most `max_n` elements. Errors: out of memory, more than 32-bit indices reach.
    pub fn new(device: &Device, max_n: usize) -> Result<Runs> {
        check_planned("elements to find runs in", max_n, max_n)?;
        Ok(Runs { max_n, lookback: Lookback::new(device, max_n.div_ceil(TILE as usize))? })
    }
    /// Bytes of device memory that the plan keeps.
    pub fn scratch_bytes(&self) -> usize {
        self.lookback.bytes()
    }
    /// `count[0]` = how many runs there are. Run `r` is of `distinct[r]` and has the places
    /// `starts[r]..starts[r + 1]`.
    ///
    /// What the rest of both arrays holds is not defined. Errors: `distinct` that has not as many
    /// elements as there are, `starts` that has not one more; more elements than planned for,
    /// buffers of another device.
    pub fn run<T: RunElement>(
        &mut self,
        stream: &Stream,
        elements: View<'_, T>,
        mut distinct: ViewMut<'_, T>,
        mut starts: ViewMut<'_, u32>,
        mut count: ViewMut<'_, u32>,
    ) -> Result<()> {
        self.lookback.check_device(stream)?;
        check_length("distinct", distinct.len(), "the elements", elements.len())?;
        check_length("starts", starts.len(), "the elements and one", elements.len() + 1)?;
        check_length("count", count.len(), "one count", 1)?;
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
            // SAFETY: lengths as checked, and there are no more runs than elements; the status
            // words are for `max_n` elements, and a block takes each tile.
            return unsafe { kernels::runs::launch(stream, n.div_ceil(TILE), n, from, to, tiles) };
        }
        if let (Some(elements), Some(distinct), Some(starts), Some(count)) =
            (elements.host(), distinct.host_mut(), starts.host_mut(), count.host_mut())
        {
            let threads = stream.device().parallelism();
            count[0] = stream.device().install(|| on_host(threads, elements, distinct, starts));
        }
        Ok(())
    }
}

/// Counts the runs that begin in each chunk, then each chunk writes its own. Returns the count.
fn on_host<T: Element>(
    threads: usize,
    elements: &[T],
    mut distinct: &mut [T],
    starts: &mut [u32],
) -> u32 {
    let chunk = elements.len().div_ceil(threads * 4).max(1 << 12);
    let begins = |i: usize| i == 0 || elements[i] != elements[i - 1];
    let of_chunk =
        |c: usize| (c * chunk..elements.len().min((c + 1) * chunk)).filter(|&i| begins(i));
    let chunks = elements.len().div_ceil(chunk);
    let counts = (0..chunks).into_par_iter().map(|c| of_chunk(c).count()).collect::<Vec<_>>();
    let runs = counts.iter().sum::<usize>();
    starts[runs] = elements.len() as u32;
    let mut places = &mut starts[..runs];
    let mut parts = Vec::with_capacity(chunks);
    for &count in &counts {
        let ((part, rest), (of_starts, after)) =
            (distinct.split_at_mut(count), places.split_at_mut(count));
        parts.push((part, of_starts));
        (distinct, places) = (rest, after);
    }
    parts.into_par_iter().enumerate().for_each(|(c, (part, of_starts))| {
        for ((i, to), start) in of_chunk(c).zip(part).zip(of_starts) {
            (*to, *start) = (elements[i], i as u32);
        }
    });
    runs as u32
}
