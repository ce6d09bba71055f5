//! Joins with maps in rows: see [`MapJoiner`](crate::MapJoiner).
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut, check_device};
use crate::error::{Result, check_length, count32};
use crate::groups::numbers_on;
use crate::keys128::{Map128, Set128};
use crate::map::RowsTo;
use crate::primitives::Compact;
use crate::primitives::compact::CompactElement;
use crate::rows::compare;
use crate::table::sending::reserve;
use crate::types::Bits;
use koel_kernels::keys128::update::changes;
use koel_kernels::map::join::keep;

/// Looks keys up one by one and compacts the answers, in query order.
pub struct RowsJoiner<V> {
    device: Device,
    /// 1 for queries that are kept.
    flags: Buffer<u8>,
    values: Buffer<V>,
    /// Numbers of queries.
    numbers: Buffer<u32>,
    absent: Option<Absent>,
    compact: Compact,
    /// Number of queries that can be compacted.
    room: usize,
}
/// Memory to tell absent keys.
struct Absent {
    rows: Buffer<u32>,
    /// All 1.
    held: Buffer<u8>,
    gone: Buffer<u8>,
    counts: Buffer<u32>,
}
impl<V: Bits> RowsJoiner<V> {
    pub(super) fn new(device: &Device) -> Result<RowsJoiner<V>> {
        Ok(RowsJoiner {
            device: device.clone(),
            flags: device.alloc(0)?,
            values: device.alloc(0)?,
            numbers: device.alloc(0)?,
            absent: None,
            compact: Compact::new(device, 0)?,
            room: 0,
        })
    }
    pub(super) fn scratch_bytes(&self) -> usize {
        let of_absent = self.absent.as_ref().map_or(0, |Absent { rows, held, gone, counts }| {
            rows.bytes() + held.bytes() + gone.bytes() + counts.bytes()
        });
        let of_answers = self.flags.bytes() + self.values.bytes() + self.numbers.bytes();
        of_answers + of_absent + self.compact.scratch_bytes()
    }
    /// See [`MapStore::join_into`](crate::map::MapStore::join_into).
    pub(super) fn join_into(
        &mut self,
        stream: &Stream,
        map: &Map128<V>,
        queries: View<'_, u128>,
        RowsTo { mut numbers, mut values, mut count }: RowsTo<'_, V>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = self.check(stream, map.set(), queries, &mut count)?;
        check_length("numbers", numbers.len().min(n), "queries", n)?;
        check_length("values", values.len().min(n), "queries", n)?;
        numbers.arg("numbers", stream)?;
        values.arg("values", stream)?;
        self.reserve_flags(n)?;
        reserve(&mut self.values, n)?;
        if self.numbers.len() < n {
            self.numbers = numbers_on(stream, 0, n)?;
        }
        let (mut flags, mut found) =
            (self.flags.view_mut().slice(..n)?, self.values.view_mut().slice(..n)?);
        map.get_into(stream, queries, found.reborrow(), flags.reborrow())?;
        let (flags, found) = (self.flags.view().slice(..n)?, self.values.view().slice(..n)?);
        let of_queries = self.numbers.view().slice(..n)?;
        let to = numbers.slice(..n)?;
        compacted(&mut self.compact, stream, flags, of_queries, to, count.reborrow())?;
        compacted(&mut self.compact, stream, flags, found, values.slice(..n)?, count)
    }
    /// See [`MapStore::filter_into`](crate::map::MapStore::filter_into).
    pub(super) fn filter(
        &mut self,
        stream: &Stream,
        set: &Set128,
        queries: View<'_, u128>,
        keys: Option<ViewMut<'_, u128>>,
        mut count: ViewMut<'_, u64>,
        keep: u32,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let n = self.check(stream, set, queries, &mut count)?;
        let Some(mut keys) = keys else { return set.count_into(stream, queries, count) };
        check_length("keys", keys.len().min(n), "queries", n)?;
        keys.arg("keys", stream)?;
        self.reserve_flags(n)?;
        let flags = self.flags.view_mut().slice(..n)?;
        if keep == keep::FOUND {
            set.contains_into(stream, queries, flags)?;
        } else {
            let Absent { rows, held, gone, counts } = Absent::reserve(&mut self.absent, stream, n)?;
            set.rows.rows_into(stream, queries, rows.view_mut().slice(..n)?)?;
            let (rows, held) = (rows.view().slice(..n)?, held.view().slice(..n)?);
            let to = (flags, gone.view_mut().slice(..n)?);
            compare(stream, rows, held, to, counts.view_mut())?;
        }
        let flags = self.flags.view().slice(..n)?;
        compacted(&mut self.compact, stream, flags, queries, keys.slice(..n)?, count)
    }
    /// Checks the arguments, and returns the number of queries.
    fn check(
        &self,
        stream: &Stream,
        set: &Set128,
        queries: View<'_, u128>,
        count: &mut ViewMut<'_, u64>,
    ) -> Result<usize> {
        check_device("map", set.device(), &self.device)?;
        check_device("stream", stream.device(), &self.device)?;
        check_length("count", count.len(), "the total", 1)?;
        queries.arg("queries", stream)?;
        count.arg("count", stream)?;
        count32("queries", queries.len())?;
        Ok(queries.len())
    }
    fn reserve_flags(&mut self, n: usize) -> Result<()> {
        reserve(&mut self.flags, n)?;
        if self.room < n {
            (self.compact, self.room) = (Compact::new(&self.device, n)?, n);
        }
        Ok(())
    }
}
impl Absent {
    /// Returns the kept memory if it is large enough.
    #[inline]
    fn reserve<'a>(
        kept: &'a mut Option<Absent>,
        stream: &Stream,
        n: usize,
    ) -> Result<&'a mut Absent> {
        if kept.as_ref().is_none_or(|kept| kept.rows.len() < n) {
            // Free the old memory first: both may not fit together.
            *kept = None;
            let device = stream.device();
            let mut held = device.alloc(n)?;
            held.view_mut().fill_bytes(1, stream)?;
            let counts = device.alloc(changes::WORDS)?;
            *kept = Some(Absent { rows: device.alloc(n)?, held, gone: device.alloc(n)?, counts });
        }
        Ok(kept.as_mut().unwrap_or_else(|| unreachable!("it was reserved")))
    }
}
/// Compacts elements whose flag is not 0, and writes their number.
fn compacted<T: CompactElement>(
    compact: &mut Compact,
    stream: &Stream,
    flags: View<'_, u8>,
    input: View<'_, T>,
    output: ViewMut<'_, T>,
    mut count: ViewMut<'_, u64>,
) -> Result<()> {
    count.fill_bytes(0, stream)?;
    // The low half of the number.
    compact.run(stream, flags, input, output, count.heads())
}
