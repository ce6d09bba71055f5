//! Passes that send queries to the bins from which they are answered.
use super::Route;
use crate::device::{Buffer, Device, Element, Stream, View};
use crate::error::Result;
use crate::table::DeviceLayout;
use koel_kernels::table::layout::Shape;
use koel_kernels::table::sending::{
    Carried, Destination, Form, MANY_THREADS, Pass, Queries, SendTo, Sent, SentCoarse, THREADS,
    items_of, many_items_of, map_send, map_send_coarse, map_send_many, state,
};
use koel_simt::{Buf, In, Word};
use std::ops::Range;

/// Memory for queries of one form while they are sent.
pub(crate) struct SendMemory<T> {
    by_coarse: Buffer<T>,
    by_bin: Buffer<T>,
    overflow: Buffer<T>,
}
impl<T: Element> SendMemory<T> {
    pub(crate) fn new(device: &Device) -> Result<SendMemory<T>> {
        Ok(SendMemory {
            by_coarse: device.alloc(0)?,
            by_bin: device.alloc(0)?,
            overflow: device.alloc(0)?,
        })
    }
    pub(crate) fn bytes(&self) -> usize {
        self.by_coarse.bytes() + self.by_bin.bytes() + self.overflow.bytes()
    }
}
/// Replaces a buffer by a longer one if it is too short. Its content is lost.
pub(crate) fn reserve<T: Element>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        let device = buffer.device().clone();
        // Free the old memory first: both need not fit.
        *buffer = device.alloc(0)?;
        *buffer = device.alloc(len)?;
    }
    Ok(())
}
/// Queries that have been sent.
pub(crate) struct Arrived<E: Word> {
    /// The queries as kernels read them.
    pub sent: Sent<E>,
    /// Cursors of the bins, mutable.
    pub to_cursors: Buf<u32>,
    /// Number of words of all counters. The words after them are the caller's.
    pub counters: usize,
}
impl<E: Element> Arrived<E> {
    /// Returns the state before anything is sent.
    pub(crate) fn nothing(
        stream: &Stream,
        memory: &SendMemory<E>,
        counters: &mut Buffer<u32>,
    ) -> Result<Arrived<E>> {
        let none = memory.overflow.view().arg("queries", stream)?;
        let words = counters.view().arg("state", stream)?;
        let sent = Sent {
            queries: none,
            overflow: none,
            cursors: words,
            spilled: words,
            coarse_spilled: words,
            state: words,
        };
        let to_cursors = counters.view_mut().arg("state", stream)?;
        Ok(Arrived { sent, to_cursors, counters: 0 })
    }
}
/// Forms of queries that can be stored in device memory.
pub(crate) trait DeviceForm<K: Carried>: Form<K, Element: Element> {}
impl<K: Carried, F: Form<K, Element: Element>> DeviceForm<K> for F {}

/// Reserves memory for queries on this route, and `behind` words after the counters. Returns the
/// number of words of the cursors of the first pass, of those of the last pass, and of all
/// counters. Each pass has cursors, and as many words for where bins overflowed. Every section
/// fills whole cache lines, so that no launch reads a line that a later launch changes.
pub(crate) fn reserve_route<L: DeviceLayout, F: DeviceForm<L::Key>>(
    route: &Route,
    shape: Shape,
    memory: &mut SendMemory<F::Element>,
    counters: &mut Buffer<u32>,
    behind: usize,
) -> Result<(usize, usize, usize)> {
    let places = route.places(shape.partitions).map(|queries| queries * F::ELEMENTS);
    reserve(&mut memory.by_coarse, places[0])?;
    reserve(&mut memory.by_bin, places[1])?;
    reserve(&mut memory.overflow, places[2])?;
    let [of_coarse, of_bins] =
        route.bins(shape.partitions).map(|bins| (bins as usize).next_multiple_of(state::WORDS));
    let words = state::WORDS + 2 * (of_coarse + of_bins);
    reserve(counters, words + behind)?;
    Ok((of_coarse, of_bins, words))
}
/// Sends queries to the bins of a table with this shape and header: a fill and one or two launches.
/// The fill also zeroes `behind` words after the counters.
#[allow(clippy::too_many_arguments, reason = "what sending has at hand")]
pub(crate) fn send<L: DeviceLayout, F: DeviceForm<L::Key>>(
    stream: &Stream,
    route: &Route,
    shape: Shape,
    header: In<u32>,
    queries: View<'_, L::Key>,
    memory: &mut SendMemory<F::Element>,
    counters: &mut Buffer<u32>,
    behind: usize,
) -> Result<Arrived<F::Element>> {
    let (of_coarse, of_bins, words) =
        reserve_route::<L, F>(route, shape, memory, counters, behind)?;
    counters.view_mut().slice(..words + behind)?.fill_bytes(0, stream)?;
    let section = |start: usize, len| Section {
        cursors: start..start + len,
        spilled: start + len..start + 2 * len,
    };
    let sending = Sending {
        stream,
        route,
        shape,
        header,
        of_coarse: section(state::WORDS, of_coarse),
        of_bins: section(state::WORDS + 2 * of_coarse, of_bins),
    };
    // SAFETY: room for this route was reserved above, and all counters are zero.
    unsafe { sending.pass_over_input::<L, F>(queries, memory, counters) }?;
    if let Some(coarse) = route.coarse {
        // SAFETY: as above; the first pass has filled its bins.
        unsafe { sending.pass_over_coarse::<L, F>(coarse, memory, counters) }?;
    }
    let Sending { of_coarse, of_bins: Section { cursors, spilled }, .. } = sending;
    let sent = Sent {
        queries: memory.by_bin.view().arg("queries by bin", stream)?,
        overflow: memory.overflow.view().arg("overflow", stream)?,
        cursors: counters.view().slice(cursors.clone())?.arg("cursors", stream)?,
        spilled: counters.view().slice(spilled)?.arg("spilled", stream)?,
        coarse_spilled: counters.view().slice(of_coarse.spilled)?.arg("spilled", stream)?,
        state: counters.view().slice(..state::WORDS)?.arg("state", stream)?,
    };
    let to_cursors = counters.view_mut().slice(cursors)?.arg("cursors", stream)?;
    Ok(Arrived { sent, to_cursors, counters: words })
}
/// Position of a pass's words in the counters.
struct Section {
    cursors: Range<usize>,
    /// Where bins overflowed.
    spilled: Range<usize>,
}
impl Section {
    /// Returns the output of a pass.
    fn send_to<E: Word>(
        &self,
        stream: &Stream,
        pass: Pass,
        queries: Buf<E>,
        overflow: Buf<E>,
        counters: &mut Buffer<u32>,
    ) -> Result<SendTo<E>> {
        let (cursors, spilled) = (self.cursors.clone(), self.spilled.clone());
        Ok(SendTo {
            pass,
            queries,
            overflow,
            cursors: counters.view_mut().slice(cursors)?.arg("cursors", stream)?,
            spilled: counters.view_mut().slice(spilled)?.arg("spilled", stream)?,
            state: counters.view_mut().slice(..state::WORDS)?.arg("state", stream)?,
        })
    }
}
/// Parameters of both passes.
struct Sending<'a> {
    stream: &'a Stream,
    route: &'a Route,
    shape: Shape,
    /// Header of the table.
    header: In<u32>,
    of_coarse: Section,
    of_bins: Section,
}
impl Sending<'_> {
    /// Launches the first pass, or the only one.
    ///
    /// # Safety
    /// Memory for this route must be [reserved](reserve_route), and all counters must be zero.
    unsafe fn pass_over_input<L: DeviceLayout, F: DeviceForm<L::Key>>(
        &self,
        queries: View<'_, L::Key>,
        memory: &mut SendMemory<F::Element>,
        counters: &mut Buffer<u32>,
    ) -> Result<()> {
        let &Sending { stream, route, shape, header, .. } = self;
        let (pass, section, out) = match route.coarse {
            Some(pass) => (pass, &self.of_coarse, &mut memory.by_coarse),
            None => (route.last, &self.of_bins, &mut memory.by_bin),
        };
        let tile = match route.many {
            true => MANY_THREADS * many_items_of::<L, F>() as u32,
            false => THREADS * items_of::<L, F>() as u32,
        };
        let (n, aligned) = (queries.len() as u32, queries.is_aligned(16) as u32);
        let keys = queries.arg("queries", stream)?;
        let out = out.view_mut().arg("queries by bin", stream)?;
        let overflow = memory.overflow.view_mut().arg("overflow", stream)?;
        let to = section.send_to(stream, pass, out, overflow, counters)?;
        let launch = match route.many {
            true => map_send_many::launch::<L::OfKey, F, Stream>,
            false => map_send::launch::<L::OfKey, F, Stream>,
        };
        let (queries, table) = (Queries { keys, n, aligned }, Destination { shape, header });
        // SAFETY: there are `n` queries, a cursor per bin, room for every bin, and the overflow
        // area; all counters are zero.
        unsafe { launch(stream, n.div_ceil(tile), queries, table, to) }
    }
    /// Launches the second of two passes, from the bins of the first one.
    ///
    /// # Safety
    /// Memory for this route must be [reserved](reserve_route); the first pass must have filled its
    /// bins, and the counters of the second one's bins must be zero.
    unsafe fn pass_over_coarse<L: DeviceLayout, F: DeviceForm<L::Key>>(
        &self,
        coarse: Pass,
        memory: &mut SendMemory<F::Element>,
        counters: &mut Buffer<u32>,
    ) -> Result<()> {
        let &Sending { stream, route, shape, header, ref of_coarse, ref of_bins } = self;
        let tiles = coarse.room.div_ceil(THREADS * items_of::<L, F>() as u32);
        let (cursors, spilled) = (of_coarse.cursors.clone(), of_coarse.spilled.clone());
        let from = SentCoarse {
            pass: coarse,
            tiles,
            cursors: counters.view().slice(cursors)?.arg("cursors", stream)?,
            spilled: counters.view().slice(spilled)?.arg("spilled", stream)?,
            queries: memory.by_coarse.view().arg("queries by coarse bin", stream)?,
        };
        let out = memory.by_bin.view_mut().arg("queries by bin", stream)?;
        let overflow = memory.overflow.view_mut().arg("overflow", stream)?;
        let to = of_bins.send_to(stream, route.last, out, overflow, counters)?;
        let (grid, table) =
            (route.bins(shape.partitions)[0] * tiles, Destination { shape, header });
        // SAFETY: as in the first pass; the input has room for every bin of that pass.
        unsafe { map_send_coarse::launch::<L::OfKey, F, _>(stream, grid, from, table, to) }
    }
}
