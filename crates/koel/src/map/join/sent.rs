//! Queries on their way to the bins from which they are answered.
use super::Route;
use crate::device::{Buffer, Device, Element, Stream, View};
use crate::error::Result;
use crate::map::kernels::Kernels;
use koel_kernels::map::find::Table;
use koel_kernels::map::join::{
    ANSWERING, Alone, DIRECT_ITEMS, MANY_THREADS, Numbered, Pass, THREADS, items, many_items,
    source, state,
};
use koel_kernels::map::layout::Shape;
use koel_simt::{Buf, In};
use std::ops::Range;

/// Memory for the queries of one form on their way.
pub(crate) struct Sent<T> {
    by_group: Buffer<T>,
    by_bin: Buffer<T>,
    overflow: Buffer<T>,
}
impl<T: Element> Sent<T> {
    pub(crate) fn new(device: &Device) -> Result<Sent<T>> {
        Ok(Sent {
            by_group: device.alloc(0)?,
            by_bin: device.alloc(0)?,
            overflow: device.alloc(0)?,
        })
    }
    pub(crate) fn bytes(&self) -> usize {
        self.by_group.bytes() + self.by_bin.bytes() + self.overflow.bytes()
    }
}
/// Makes a buffer longer if it is too short; what it holds is lost.
pub(crate) fn reserve<T: Element>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() < len {
        let device = buffer.device().clone();
        // The old memory is given back first: both need not fit.
        *buffer = device.alloc(0)?;
        *buffer = device.alloc(len)?;
    }
    Ok(())
}
/// What has been sent, as kernels read it.
pub(crate) struct Arrived<T> {
    pub queries: In<T>,
    pub overflow: In<T>,
    /// Queries of each bin; and to change.
    pub cursors: In<u32>,
    pub to_cursors: Buf<u32>,
    pub spilled: In<u32>,
    /// Of the bins of the first of two passes.
    pub group_spilled: In<u32>,
    pub state: In<u32>,
    /// Words of all counters: what is behind them is the caller's.
    pub counters: usize,
}
/// Which queries a launch looks up in device memory.
pub(super) struct Direct<T> {
    /// One of [`source`].
    pub source: u32,
    pub queries: In<T>,
    /// Blocks.
    pub grid: u32,
}
impl<T: Copy> Arrived<T> {
    /// Nothing yet.
    fn nothing(stream: &Stream, sent: &Sent<T>, counters: &mut Buffer<u32>) -> Result<Arrived<T>>
    where
        T: Element,
    {
        let (none, words) =
            (sent.overflow.view().arg("queries", stream)?, counters.view().arg("state", stream)?);
        let [cursors, spilled, group_spilled, state] = [words; 4];
        let to_cursors = counters.view_mut().arg("state", stream)?;
        Ok(Arrived {
            queries: none,
            overflow: none,
            cursors,
            to_cursors,
            spilled,
            group_spilled,
            state,
            counters: 0,
        })
    }
    /// What is looked up in device memory of `n` queries, in this order.
    fn direct(
        &self,
        n: u32,
        route: Option<&Route>,
        partitions: u32,
        device: &Device,
    ) -> [Option<Direct<T>>; 2] {
        let all = n.div_ceil(ANSWERING * DIRECT_ITEMS);
        let Some(route) = route else {
            return [
                Some(Direct { source: source::INPUT, queries: self.overflow, grid: all }),
                None,
            ];
        };
        let grid = route.bins(partitions)[1] * route.blocks;
        let bins = Direct { source: source::BIN, queries: self.queries, grid };
        // Normally for none, or for a few.
        let grid = all.min(4 * device.parallelism() as u32);
        let rest = Direct { source: source::OVERFLOW, queries: self.overflow, grid };
        [(!route.shared).then_some(bins), Some(rest)]
    }
}

/// A form of queries and its passes.
#[allow(clippy::too_many_arguments, reason = "as many as the kernels have")]
pub(crate) trait Form<L: Kernels> {
    type Element: Element;
    /// Elements of a query.
    const ELEMENTS: usize;
    /// Bytes of a query.
    const BYTES: u32 = (size_of::<Self::Element>() * Self::ELEMENTS) as u32;

    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn from_input(
        many: bool,
        stream: &Stream,
        grid: u32,
        n: u32,
        aligned: u32,
        shape: Shape,
        pass: Pass,
        header: In<u32>,
        queries: In<L::Key>,
        out: Buf<Self::Element>,
        overflow: Buf<Self::Element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        state: Buf<u32>,
    ) -> Result<()>;
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn from_groups(
        stream: &Stream,
        grid: u32,
        shape: Shape,
        groups: Pass,
        tiles: u32,
        pass: Pass,
        header: In<u32>,
        group_cursors: In<u32>,
        group_spilled: In<u32>,
        input: In<Self::Element>,
        out: Buf<Self::Element>,
        overflow: Buf<Self::Element>,
        cursors: Buf<u32>,
        spilled: Buf<u32>,
        state: Buf<u32>,
    ) -> Result<()>;
}
macro_rules! form {
    ($form:ty, $element:ty, $elements:expr, $from_input:ident $from_input_many:ident $from_groups:ident) => {
        impl<L: Kernels> Form<L> for $form {
            type Element = $element;
            const ELEMENTS: usize = $elements;
            unsafe fn from_input(
                many: bool,
                stream: &Stream,
                grid: u32,
                n: u32,
                aligned: u32,
                shape: Shape,
                pass: Pass,
                header: In<u32>,
                queries: In<L::Key>,
                out: Buf<$element>,
                overflow: Buf<$element>,
                cursors: Buf<u32>,
                spilled: Buf<u32>,
                state: Buf<u32>,
            ) -> Result<()> {
                let launch = if many { L::$from_input_many } else { L::$from_input };
                // SAFETY: the caller's.
                unsafe {
                    launch(
                        stream, grid, n, aligned, shape, pass, header, queries, out, overflow,
                        cursors, spilled, state,
                    )
                }
            }
            unsafe fn from_groups(
                stream: &Stream,
                grid: u32,
                shape: Shape,
                groups: Pass,
                tiles: u32,
                pass: Pass,
                header: In<u32>,
                group_cursors: In<u32>,
                group_spilled: In<u32>,
                input: In<$element>,
                out: Buf<$element>,
                overflow: Buf<$element>,
                cursors: Buf<u32>,
                spilled: Buf<u32>,
                state: Buf<u32>,
            ) -> Result<()> {
                // SAFETY: the caller's.
                unsafe {
                    L::$from_groups(
                        stream,
                        grid,
                        shape,
                        groups,
                        tiles,
                        pass,
                        header,
                        group_cursors,
                        group_spilled,
                        input,
                        out,
                        overflow,
                        cursors,
                        spilled,
                        state,
                    )
                }
            }
        }
    };
}
form! { Numbered, u64, size_of::<L::Key>() / 4, join_from_input join_from_input_many join_from_groups }
form! { Alone, L::Key, 1, filter_from_input filter_from_input_many filter_from_groups }

/// Makes memory long enough for queries on this route. Tells the words of the first pass's cursors
/// and of the last one's, and of all counters: of each pass cursors, and where bins were left:
/// whole lines, so that none is read in a launch before the one that changes it.
pub(crate) fn reserve_route<L: Kernels, F: Form<L>>(
    route: &Route,
    shape: Shape,
    sent: &mut Sent<F::Element>,
    counters: &mut Buffer<u32>,
    behind: usize,
) -> Result<(usize, usize, usize)> {
    let places = route.places(shape.partitions).map(|queries| queries * F::ELEMENTS);
    reserve(&mut sent.by_group, places[0])?;
    reserve(&mut sent.by_bin, places[1])?;
    reserve(&mut sent.overflow, places[2])?;
    let [of_groups, of_bins] =
        route.bins(shape.partitions).map(|bins| (bins as usize).next_multiple_of(state::WORDS));
    let words = state::WORDS + 2 * (of_groups + of_bins);
    reserve(counters, words + behind)?;
    Ok((of_groups, of_bins, words))
}
/// Sends queries to the bins of a table of this shape and with this header: a fill, a launch, with
/// two passes another one. So many words `behind` the counters are filled with zeros too.
#[allow(clippy::too_many_arguments, reason = "what sending has at hand")]
pub(crate) fn send<L: Kernels, F: Form<L>>(
    stream: &Stream,
    route: &Route,
    shape: Shape,
    header: In<u32>,
    queries: View<'_, L::Key>,
    sent: &mut Sent<F::Element>,
    counters: &mut Buffer<u32>,
    behind: usize,
) -> Result<Arrived<F::Element>> {
    let (of_groups, of_bins, words) = reserve_route::<L, F>(route, shape, sent, counters, behind)?;
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
        of_groups: section(state::WORDS, of_groups),
        of_bins: section(state::WORDS + 2 * of_groups, of_bins),
    };
    // SAFETY: there was just made room for this route, and all counters are zero.
    unsafe { sending.pass_over_input::<L, F>(queries, sent, counters) }?;
    if let Some(groups) = route.groups {
        // SAFETY: as above; the first pass has left the groups.
        unsafe { sending.pass_in_groups::<L, F>(groups, sent, counters) }?;
    }
    let Sending { of_groups, of_bins: Section { cursors, spilled }, .. } = sending;
    Ok(Arrived {
        queries: sent.by_bin.view().arg("queries by bin", stream)?,
        overflow: sent.overflow.view().arg("overflow", stream)?,
        cursors: counters.view().slice(cursors.clone())?.arg("cursors", stream)?,
        to_cursors: counters.view_mut().slice(cursors)?.arg("cursors", stream)?,
        spilled: counters.view().slice(spilled)?.arg("spilled", stream)?,
        group_spilled: counters.view().slice(of_groups.spilled)?.arg("spilled", stream)?,
        state: counters.view().slice(..state::WORDS)?.arg("state", stream)?,
        counters: words,
    })
}
/// Where the counters of a pass are among all of them.
struct Section {
    cursors: Range<usize>,
    /// Where bins were left.
    spilled: Range<usize>,
}
/// What both passes must know.
struct Sending<'a> {
    stream: &'a Stream,
    route: &'a Route,
    shape: Shape,
    /// Of the table.
    header: In<u32>,
    of_groups: Section,
    of_bins: Section,
}
impl Sending<'_> {
    /// The first pass, or the only one.
    ///
    /// # Safety
    /// There is [room](reserve_route) for this route, and all counters are zero.
    unsafe fn pass_over_input<L: Kernels, F: Form<L>>(
        &self,
        queries: View<'_, L::Key>,
        sent: &mut Sent<F::Element>,
        counters: &mut Buffer<u32>,
    ) -> Result<()> {
        let &Sending { stream, route, shape, header, .. } = self;
        let (pass, Section { cursors, spilled }, out) = match route.groups {
            Some(pass) => (pass, &self.of_groups, &mut sent.by_group),
            None => (route.last, &self.of_bins, &mut sent.by_bin),
        };
        let tile = if route.many {
            MANY_THREADS * many_items(F::BYTES)
        } else {
            THREADS * items(F::BYTES)
        };
        let (n, aligned) = (queries.len() as u32, queries.is_aligned(16) as u32);
        let queries = queries.arg("queries", stream)?;
        let out = out.view_mut().arg("queries by bin", stream)?;
        let overflow = sent.overflow.view_mut().arg("overflow", stream)?;
        let cursors = counters.view_mut().slice(cursors.clone())?.arg("cursors", stream)?;
        let spilled = counters.view_mut().slice(spilled.clone())?.arg("spilled", stream)?;
        let state = counters.view_mut().slice(..state::WORDS)?.arg("state", stream)?;
        let grid = n.div_ceil(tile);
        // SAFETY: `n` queries; a cursor a bin; `out` has every bin's room, `overflow` the area; all
        // counters are zero.
        unsafe {
            F::from_input(
                route.many, stream, grid, n, aligned, shape, pass, header, queries, out, overflow,
                cursors, spilled, state,
            )
        }
    }
    /// The last of two passes, from the groups.
    ///
    /// # Safety
    /// There is [room](reserve_route) for this route; the first pass has left the groups, and the
    /// counters of the bins are zero.
    unsafe fn pass_in_groups<L: Kernels, F: Form<L>>(
        &self,
        groups: Pass,
        sent: &mut Sent<F::Element>,
        counters: &mut Buffer<u32>,
    ) -> Result<()> {
        let &Sending { stream, route, shape, header, ref of_groups, ref of_bins } = self;
        let tiles = groups.room.div_ceil(THREADS * items(F::BYTES));
        let (cursors, spilled) = (of_groups.cursors.clone(), of_groups.spilled.clone());
        let group_cursors = counters.view().slice(cursors)?.arg("cursors", stream)?;
        let group_spilled = counters.view().slice(spilled)?.arg("spilled", stream)?;
        let input = sent.by_group.view().arg("queries by group", stream)?;
        let out = sent.by_bin.view_mut().arg("queries by bin", stream)?;
        let overflow = sent.overflow.view_mut().arg("overflow", stream)?;
        let (cursors, spilled) = (of_bins.cursors.clone(), of_bins.spilled.clone());
        let cursors = counters.view_mut().slice(cursors)?.arg("cursors", stream)?;
        let spilled = counters.view_mut().slice(spilled)?.arg("spilled", stream)?;
        let state = counters.view_mut().slice(..state::WORDS)?.arg("state", stream)?;
        let grid = route.bins(shape.partitions)[0] * tiles;
        // SAFETY: as in the first pass; the input has every group's room.
        unsafe {
            F::from_groups(
                stream,
                grid,
                shape,
                groups,
                tiles,
                route.last,
                header,
                group_cursors,
                group_spilled,
                input,
                out,
                overflow,
                cursors,
                spilled,
                state,
            )
        }
    }
}
/// Sends the queries if they have a route, and launches what answers them: `shared` with its
/// blocks, `direct` for each part.
#[allow(clippy::too_many_arguments, reason = "what sending needs, and two launches")]
pub(super) fn answer<L: Kernels, F: Form<L>>(
    stream: &Stream,
    route: Option<Route>,
    table: Table<L>,
    queries: View<'_, L::Key>,
    sent: &mut Sent<F::Element>,
    counters: &mut Buffer<u32>,
    shared: impl FnOnce(u32, &Arrived<F::Element>) -> Result<()>,
    mut direct: impl FnMut(Direct<F::Element>, &Arrived<F::Element>) -> Result<()>,
) -> Result<()> {
    let (n, partitions) = (queries.len() as u32, table.shape.partitions);
    let came = match &route {
        Some(route) => {
            send::<L, F>(stream, route, table.shape, table.header, queries, sent, counters, 0)?
        }
        None => Arrived::nothing(stream, sent, counters)?,
    };
    if let Some(route) = route.filter(|route| route.shared) {
        shared(partitions * route.blocks, &came)?;
    }
    let launches = came.direct(n, route.as_ref(), partitions, stream.device());
    launches.into_iter().flatten().try_for_each(|launch| direct(launch, &came))
}
