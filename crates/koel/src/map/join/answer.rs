//! Launches that answer queries: in shared memory, those that were sent to partitions, or in device
//! memory.
use crate::device::{Apart, Buffer, Device, Stream, View};
use crate::error::Result;
use crate::table::DeviceLayout;
use crate::table::sending::{Arrived, DeviceForm, Route, SendMemory, send};
use koel_kernels::map::find::MapRef;
use koel_kernels::map::join::{DIRECT_ITEMS, source};
use koel_kernels::table::append::ANSWERING;
use koel_kernels::table::sending::{Queries, Sent};

/// Launch that looks queries up in device memory.
pub(super) struct Direct {
    /// Which queries: one of [`source`].
    pub source: u32,
    /// Number of blocks.
    pub grid: u32,
}
/// Returns the launches that look up queries in device memory, in order.
fn direct(n: u32, route: Option<&Route>, partitions: u32, device: &Device) -> [Option<Direct>; 2] {
    let all = n.div_ceil(ANSWERING * DIRECT_ITEMS);
    let Some(route) = route else {
        return [Some(Direct { source: source::INPUT, grid: all }), None];
    };
    let grid = route.bins(partitions)[1] * route.blocks;
    let bins = Direct { source: source::BIN, grid };
    // Normally there are few queries for it, or none.
    let grid = all.min(4 * device.parallelism() as u32);
    let rest = Direct { source: source::OVERFLOW, grid };
    [(!route.shared).then_some(bins), Some(rest)]
}
/// Sends the queries if they have a route, and answers them: calls `shared` with its number of
/// blocks, and `in_memory` for each launch on device memory.
#[allow(clippy::too_many_arguments, reason = "what sending needs, and two launches")]
pub(super) fn answer<L: DeviceLayout, F: DeviceForm<L::Key>>(
    stream: &Stream,
    route: Option<Route>,
    table: MapRef<L>,
    queries: View<'_, L::Key>,
    memory: &mut SendMemory<F::Element>,
    counters: &mut Buffer<u32>,
    shared: impl FnOnce(u32, Sent<F::Element>) -> Result<()>,
    mut in_memory: impl FnMut(Direct, Queries<L::Key>, Sent<F::Element>) -> Result<()>,
) -> Result<()> {
    let _apart = Apart::begin();
    let (n, partitions) = (queries.len() as u32, table.shape.partitions);
    let came = match &route {
        Some(route) => {
            send::<L, F>(stream, route, table.shape, table.header, queries, memory, counters, 0)?
        }
        None => Arrived::nothing(stream, memory, counters)?,
    };
    if let Some(route) = route.filter(|route| route.shared) {
        shared(partitions * route.blocks, came.sent)?;
    }
    let keys = Queries { keys: queries.arg("queries", stream)?, n, aligned: 0 };
    let launches = direct(n, route.as_ref(), partitions, stream.device());
    launches.into_iter().flatten().try_for_each(|launch| {
        let queries = match launch.source {
            source::BIN => came.sent.queries,
            _ => came.sent.overflow,
        };
        in_memory(launch, keys, Sent { queries, ..came.sent })
    })
}
