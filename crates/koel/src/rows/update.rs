//! Batches that change tables whose keys are in rows.
//!
//! A batch is reduced to its distinct keys, which get numbers in order of first occurrence. If no
//! key occurs twice, each operation is applied to what the row of its key holds. Otherwise a small
//! table of the flagship kind finds out what the operations on a key come to: its keys are the
//! numbers, it holds what the rows hold, and the same operations are applied to it. Then the rows
//! change once for each key: values are replaced; new keys come to the end, in order of first
//! occurrence; and the last rows fill the gaps of those that are gone.
use super::changes::{Changes, Comparison, Gaps, gathered, put};
use super::{CHUNK, Column, Rows, RowsBuilder, THREADS, check_rows, write_rows};
use crate::device::graph::may_wait;
use crate::device::memory::collect;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut, check_device};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, check_length, count32};
use crate::file::stored::Stored;
use crate::groups::{GroupKey, keys_of, numbers_on};
use crate::map::{Map, MapBuilder, MapOptions, MapUpdater, Operation};
use crate::parallel;
use crate::primitives::compact::CompactElement;
use crate::set::{SetBuilder, SetOperation, SetOptions, SetUpdater};
use crate::table::update::{Codes, Operations, Outcome};
use crate::types::ValueBits;
#[cfg(doc)]
use koel_kernels::keys128::find::NO_ROW;
use koel_kernels::keys128::update::{DistinctIn, SettledOut, held, rows_settled};
use koel_kernels::table::update::{operation, status};

/// Applies batches, and keeps scratch memory across them.
pub(crate) struct RowsUpdater<C> {
    /// Numbers the keys of batches.
    builder: RowsBuilder<C>,
    /// Changes tables of fingerprints.
    tables: MapUpdater<u64, u32>,
    comparison: Option<Comparison>,
}
impl<C: Column> RowsUpdater<C> {
    /// Creates an updater without scratch memory.
    pub(crate) fn new(device: &Device) -> Result<RowsUpdater<C>> {
        Ok(RowsUpdater {
            builder: RowsBuilder::new(device, SetOptions::default())?,
            tables: MapUpdater::new(device, MapOptions::default())?,
            comparison: None,
        })
    }
    /// Returns the bytes of scratch memory, without that of builds of tables.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let of_changes = self.comparison.as_ref().map_or(0, Comparison::bytes);
        self.builder.scratch_bytes() + self.tables.scratch_bytes() + of_changes
    }
    /// Numbers the keys of a batch for a table. Waits.
    fn number(&mut self, stream: &Stream, table: &Rows<C>, keys: C::View<'_>) -> Result<Batch<C>> {
        let (device, n) = (table.device(), C::count(keys));
        let Some(distinct) = self.builder.distinct(stream, keys)? else {
            let (ids, mut rows) = (device.alloc(0)?, device.alloc(n)?);
            table.rows_into(stream, keys, rows.view_mut())?;
            return Ok(Batch { distinct: None, n, ids, rows });
        };
        let (mut ids, mut rows) = (device.alloc(n)?, device.alloc(distinct.len)?);
        distinct.rows_into(stream, keys, ids.view_mut())?;
        table.rows_into(stream, distinct.view(), rows.view_mut())?;
        Ok(Batch { distinct: Some(distinct), n, ids, rows })
    }
}
/// The keys of a batch, by number, and what rows hold of them.
struct Batch<C> {
    /// The distinct keys; `None` if no key occurs twice: then its number is that of its operation.
    distinct: Option<Rows<C>>,
    /// Number of operations.
    n: usize,
    /// Number of the key of each operation, if keys occur twice.
    ids: Buffer<u32>,
    /// Row of each key before the batch, or [`NO_ROW`].
    rows: Buffer<u32>,
}
impl<C: Column> Batch<C> {
    fn on<'a>(&'a self, stream: &'a Stream) -> Numbered<'a> {
        Numbered { stream, n: self.n, ids: self.ids.view(), rows: self.rows.view() }
    }
}

/// Operations on keys by number, some of which have rows.
#[derive(Clone, Copy)]
pub struct Numbered<'a> {
    stream: &'a Stream,
    /// Number of operations.
    n: usize,
    /// Number of the key of each operation, if keys occur twice.
    ids: View<'a, u32>,
    /// Row of each key, or [`NO_ROW`].
    rows: View<'a, u32>,
}
impl Numbered<'_> {
    /// Whether no key occurs twice: then its number is that of its operation.
    #[inline]
    fn are_distinct(&self) -> bool {
        self.n == self.rows.len()
    }
    /// Returns the numbers of the keys that have rows, ascending. Waits.
    #[inline]
    fn present(&self) -> Result<Buffer<u32>> {
        let mut none = self.stream.device().alloc::<u8>(self.rows.len())?;
        none.view_mut().fill_bytes(0, self.stream)?;
        // Those that would be gone if none stayed.
        Ok(Changes::of(self.stream, self.rows, none.view())?.gone)
    }
    /// Applies operations on distinct keys. `what` says what `own` rows hold: see [`held`].
    fn settled<V: ValueBits>(
        self,
        (what, own): (u32, View<'_, V>),
        operations: Codes<'_>,
        values: View<'_, V>,
        mut outcomes: ViewMut<'_, u8>,
    ) -> Result<(Buffer<u8>, Buffer<V>)> {
        let Numbered { stream, rows, .. } = self;
        let (device, n) = (stream.device(), count32("keys", rows.len())?);
        let (mut is_held, mut of_keys) =
            (device.alloc::<u8>(rows.len())?, device.alloc::<V>(rows.len())?);
        let none = device.alloc::<u8>(0)?;
        let (kind, each) = match operations {
            Operations::All(kind) => (kind, none.view()),
            Operations::Each(each) => {
                check_length("operations", each.len(), "keys", rows.len())?;
                (operation::EACH, each)
            }
        };
        let batch = DistinctIn {
            operations: each.arg("operations", stream)?,
            rows: rows.arg("rows", stream)?,
            values: values.arg("values", stream)?,
            own: own.arg("values", stream)?,
        };
        let statuses = outcomes.arg("outcomes", stream)?;
        if device.runs_kernels() {
            let (mut to_held, mut to_values) = (is_held.view_mut(), of_keys.view_mut());
            let to = SettledOut {
                is_held: to_held.arg("held", stream)?,
                values: to_values.arg("values", stream)?,
                statuses,
            };
            // SAFETY: `n` operations, rows and results, and values unless none is read; rows are
            // those of the table.
            unsafe { rows_settled::launch(stream, n.div_ceil(THREADS), n, kind, what, batch, to) }?;
        } else if let (Some(is_held), Some(of_keys), Some(statuses)) =
            (is_held.host_mut(), of_keys.host_mut(), outcomes.host_mut())
        {
            // SAFETY: host memory, which is not changed meanwhile.
            let batch = unsafe { koel_simt::Arg::native(batch) };
            let parts = is_held.chunks_mut(CHUNK).zip(of_keys.chunks_mut(CHUNK));
            let parts = parts.zip(statuses.chunks_mut(CHUNK));
            device.install(|| {
                parallel::each(parts, |chunk, ((is_held, values), statuses)| {
                    let all = is_held.iter_mut().zip(values).zip(statuses);
                    for (i, ((is_held, value), status)) in ((chunk * CHUNK) as u32..).zip(all) {
                        let (after, outcome) = batch.settled(n, kind, what, i);
                        (*is_held, *value) = (after.is_some() as u8, after.unwrap_or_default());
                        *status = outcome;
                    }
                })
            });
        }
        Ok((is_held, of_keys))
    }
}
/// Elements that rows hold besides keys: `u32`, `u64`, `u128`.
pub trait RowValue: GroupKey + CompactElement {
    /// Applies operations to what `own` rows hold, and writes their outcomes. Returns whether each
    /// key is held after them, and with which value.
    #[doc(hidden)]
    fn settle(
        on: Numbered<'_>,
        own: View<'_, Self>,
        operations: Operations<'_>,
        values: View<'_, Self>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<(Buffer<u8>, Buffer<Self>)>;
}
macro_rules! in_slots {
    ($($bits:ty)+) => {
        $(impl RowValue for $bits {
            #[inline]
            fn settle(
                on: Numbered<'_>,
                own: View<'_, $bits>,
                operations: Operations<'_>,
                values: View<'_, $bits>,
                outcomes: ViewMut<'_, u8>,
            ) -> Result<(Buffer<u8>, Buffer<$bits>)> {
                if on.are_distinct() {
                    let codes = operations.codes(|operation| operation as u32);
                    return on.settled((held::VALUES, own), codes, values, outcomes);
                }
                let present = on.present()?;
                let rows = gathered(on.stream, present.view(), on.rows)?;
                let held = gathered(on.stream, rows.view(), own)?;
                settled(on, (present.view(), held.view()), operations, values, outcomes)
            }
        })+
    };
}
in_slots! { u32 u64 }
impl RowValue for u128 {
    /// Instead of values, the small table holds where they are: among those of the operations, or
    /// behind them among those of the keys' rows. Nothing is added.
    #[inline]
    fn settle(
        on: Numbered<'_>,
        own: View<'_, u128>,
        operations: Operations<'_>,
        values: View<'_, u128>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<(Buffer<u8>, Buffer<u128>)> {
        let (device, n, keys) = (on.stream.device(), on.n, on.rows.len());
        let (is_held, sources) = if on.are_distinct() {
            let (codes, none) = (operations.codes(|operation| operation as u32), device.alloc(0)?);
            on.settled::<u32>((held::PLACES, none.view()), codes, none.view(), outcomes)?
        } else {
            let (present, places) = (on.present()?, numbers_on(on.stream, 0, n + keys)?);
            let (of_operations, of_keys) = (places.view().slice(..n)?, places.view().slice(n..)?);
            let held = gathered(on.stream, present.view(), of_keys)?;
            settled(on, (present.view(), held.view()), operations, of_operations, outcomes)?
        };
        let mut all = device.alloc(n + keys)?;
        if !values.is_empty() {
            all.view_mut().slice(..n)?.copy_from(values, on.stream)?;
        }
        keys_of(on.stream, on.rows, own, 0, all.view_mut().slice(n..)?)?;
        Ok((is_held, gathered(on.stream, sources.view(), all.view())?))
    }
}
/// Applies operations to a small map, from the numbers of present keys to what is held for them:
/// see [`RowValue::settle`].
fn settled<V: ValueBits>(
    on: Numbered<'_>,
    (present, held): (View<'_, u32>, View<'_, V>),
    operations: Operations<'_>,
    values: View<'_, V>,
    outcomes: ViewMut<'_, u8>,
) -> Result<(Buffer<u8>, Buffer<V>)> {
    let Numbered { stream, ids, rows, .. } = on;
    let (device, options) = (stream.device(), MapOptions::default());
    let unchecked = options.with_duplicates(Duplicates::Unchecked);
    let mut map = MapBuilder::new(device, unchecked)?.build(stream, present, held)?;
    let mut updater = MapUpdater::new(device, options)?;
    updater.apply(&mut map, stream, operations, ids, values, outcomes)?;
    let (mut is_held, mut values) = (device.alloc(rows.len())?, device.alloc(rows.len())?);
    let all = numbers_on(stream, 0, rows.len())?;
    map.get_into(stream, all.view(), values.view_mut(), is_held.view_mut())?;
    Ok((is_held, values))
}
/// The same for keys without values.
#[inline]
fn settled_keys(
    on: Numbered<'_>,
    operations: Operations<'_, SetOperation>,
    outcomes: ViewMut<'_, u8>,
) -> Result<Buffer<u8>> {
    let Numbered { stream, ids, rows, .. } = on;
    let (device, options) = (stream.device(), SetOptions::default());
    if on.are_distinct() {
        let codes = operations.codes(|operation| operation as u32);
        let none = device.alloc::<u32>(0)?;
        let own = (held::KEYS, none.view());
        return Ok(on.settled(own, codes, none.view(), outcomes)?.0);
    }
    let mut set = SetBuilder::new(device, options)?.build(stream, on.present()?.view())?;
    SetUpdater::new(device, options)?.apply(&mut set, stream, operations, ids, outcomes)?;
    let (mut is_held, all) = (device.alloc(rows.len())?, numbers_on(stream, 0, rows.len())?);
    set.contains_into(stream, all.view(), is_held.view_mut())?;
    Ok(is_held)
}

/// Applies operations to keys in rows and to their values. All are done on return. Waits.
///
/// Errors: mismatched lengths; buffers of another device; more keys than 31-bit indices can
/// address; a stream that is being captured; out of memory; faults of a file that holds the table.
/// After an error the table is as before, unless the device itself failed, or memory for a restored
/// table is lacking, too: then it is empty.
pub(crate) fn apply_to_pairs<C: Column, V: RowValue>(
    updater: &mut RowsUpdater<C>,
    table: (&mut Rows<C>, &mut Stored<V>),
    stream: &Stream,
    operations: Operations<'_>,
    batch: (C::View<'_>, View<'_, V>),
    mut outcomes: ViewMut<'_, u8>,
) -> Result<()> {
    let _apart = Apart::begin();
    table.0.check_batch(stream, batch.0, &mut outcomes)?;
    let done = change_pairs(updater, table, stream, operations, batch, outcomes.reborrow());
    done.or_else(|e| none_done(stream, outcomes, e))
}
/// Sets all outcomes to those of operations that are not done, and returns the error.
#[inline]
fn none_done(stream: &Stream, mut outcomes: ViewMut<'_, u8>, error: Error) -> Result<()> {
    // If this fails, too, the device does not answer at all.
    drop(outcomes.fill_bytes(status::NOT_DONE, stream));
    Err(error)
}
fn change_pairs<C: Column, V: RowValue>(
    updater: &mut RowsUpdater<C>,
    (rows, own): (&mut Rows<C>, &mut Stored<V>),
    stream: &Stream,
    operations: Operations<'_>,
    (keys, values): (C::View<'_>, View<'_, V>),
    outcomes: ViewMut<'_, u8>,
) -> Result<()> {
    if !matches!(operations, Operations::All(Operation::Erase)) {
        check_length("values", values.len(), "keys", C::count(keys))?;
    }
    values.arg("values", stream)?;
    let batch = updater.number(stream, rows, keys)?;
    let held = own.view().first(rows.len);
    let (is_held, finals) = V::settle(batch.on(stream), held, operations, values, outcomes)?;
    let change = Change::of_batch(updater, stream, rows, (&batch, keys), is_held.view())?;
    let Change { new, gaps, before, after, .. } = &change;
    own.grow(stream, *before, *after)?;
    let more = gathered(stream, new.view(), finals.view())?;
    let mut moved = stream.device().alloc(gaps.last.len())?;
    change.apply(updater, stream, rows)?;
    let replaced = own.reserve(stream.device(), *after).and_then(|own| {
        own.view_mut().slice(*before..*after)?.copy_from(more.view(), stream)?;
        // SAFETY: rows of the table, distinct as the keys are.
        unsafe { put(stream, batch.rows.view(), finals.view(), own.view_mut()) }?;
        keys_of(stream, gaps.last.view(), own.view(), V::default(), moved.view_mut())?;
        gaps.fill(stream, moved.view(), own.view_mut())
    });
    replaced.inspect_err(|_| rows.forget(stream))
}
/// Applies operations to keys in rows that have no values: see [`apply_to_pairs`].
pub(crate) fn apply_to_keys<C: Column>(
    updater: &mut RowsUpdater<C>,
    rows: &mut Rows<C>,
    stream: &Stream,
    operations: Operations<'_, SetOperation>,
    keys: C::View<'_>,
    mut outcomes: ViewMut<'_, u8>,
) -> Result<()> {
    let _apart = Apart::begin();
    rows.check_batch(stream, keys, &mut outcomes)?;
    let done = change_keys(updater, rows, stream, operations, keys, outcomes.reborrow());
    done.or_else(|e| none_done(stream, outcomes, e))
}
fn change_keys<C: Column>(
    updater: &mut RowsUpdater<C>,
    rows: &mut Rows<C>,
    stream: &Stream,
    operations: Operations<'_, SetOperation>,
    keys: C::View<'_>,
    outcomes: ViewMut<'_, u8>,
) -> Result<()> {
    let batch = updater.number(stream, rows, keys)?;
    let is_held = settled_keys(batch.on(stream), operations, outcomes)?;
    let change = Change::of_batch(updater, stream, rows, (&batch, keys), is_held.view())?;
    change.apply(updater, stream, rows)
}

/// A change of rows, with all memory that it needs.
struct Change<C> {
    /// Numbers of the keys that are new.
    new: Buffer<u32>,
    gaps: Gaps,
    /// Number of rows before the batch, and with the new keys.
    before: usize,
    after: usize,
    /// Keys that move from the last rows into gaps.
    moved: C,
    of_table: OfTable,
}
/// What changes in the table of fingerprints.
struct OfTable {
    fingerprints: Buffer<u64>,
    rows: Buffer<u32>,
    /// None if all are inserted.
    operations: Option<Buffer<u8>>,
}
impl<C: Column> Change<C> {
    /// Puts new keys behind the rows, and finds what else changes so that those keys of a batch are
    /// held whose flag is not 0.
    fn of_batch(
        updater: &mut RowsUpdater<C>,
        stream: &Stream,
        to: &mut Rows<C>,
        (batch, keys): (&Batch<C>, C::View<'_>),
        is_held: View<'_, u8>,
    ) -> Result<Change<C>> {
        let rows = batch.rows.view();
        let comparison = Comparison::reserve(&mut updater.comparison, stream, rows.len())?;
        let changes = comparison.changes(stream, rows, is_held)?;
        match &batch.distinct {
            Some(distinct) => Change::prepare(stream, to, (distinct.view(), rows), changes),
            None => Change::prepare(stream, to, (keys, rows), changes),
        }
    }
    fn prepare(
        stream: &Stream,
        to: &mut Rows<C>,
        (keys, rows): (C::View<'_>, View<'_, u32>),
        Changes { new, gone }: Changes,
    ) -> Result<Change<C>> {
        let (before, after) = (to.len, to.len + new.len());
        check_rows(after, MapOptions::default().load)?;
        let new_keys = C::select(keys, stream, new.view())?;
        let gone_keys = C::select(keys, stream, gone.view())?;
        let gone_rows = gathered(stream, gone.view(), rows)?;
        let gaps = Gaps::of(stream, after, gone_rows.view())?;
        let prepared = to.keys.append(stream, before, new_keys.view(usize::MAX)).and_then(|()| {
            let moved = C::select(to.keys.view(after), stream, gaps.last.view())?;
            let kinds = [
                (&new_keys, None, Operation::Insert),
                (&moved, Some(gaps.gaps.view()), Operation::InsertOrAssign),
                (&gone_keys, None, Operation::Erase),
            ];
            let of_table = OfTable::new(stream, to.draw, before, kinds)?;
            Ok((moved, of_table))
        });
        match prepared {
            Ok((moved, of_table)) => Ok(Change { new, gaps, before, after, moved, of_table }),
            Err(e) => {
                to.keys.truncate(before);
                Err(e)
            }
        }
    }
    /// Changes the keys and their table. Errors: as [`apply_to_pairs`].
    fn apply(&self, updater: &mut RowsUpdater<C>, stream: &Stream, to: &mut Rows<C>) -> Result<()> {
        let tables = &mut updater.tables;
        let done = self.of_table.apply(tables, stream, &mut to.table).and_then(|()| {
            // Until the keys change, the table can be restored from them.
            let held = to.table.len()?;
            to.keys.fill_gaps(stream, &self.gaps, self.moved.view(usize::MAX))?;
            to.len = self.gaps.len;
            if held == to.len {
                return Ok(());
            }
            // A new key has the fingerprint of another one.
            let mut builder = RowsBuilder::<C>::new(to.device(), SetOptions::default())?;
            (to.table, to.draw, to.built.attempts) = builder.table_of(stream, to.view())?;
            Ok(())
        });
        done.inspect_err(|_| {
            if to.len != self.before || to.restore(stream).is_err() {
                to.forget(stream);
            }
        })
    }
}
impl OfTable {
    /// Returns the operations on the fingerprints of keys, which have these rows or, if none are
    /// given, those from `first` on.
    fn new<C: Column>(
        stream: &Stream,
        draw: u64,
        first: usize,
        kinds: [(&C, Option<View<'_, u32>>, Operation); 3],
    ) -> Result<OfTable> {
        let (device, count) = (stream.device(), |keys: &C| C::count(keys.view(usize::MAX)));
        let n = kinds.iter().map(|(keys, ..)| count(keys)).sum();
        let (mut fingerprints, mut rows) = (device.alloc(n)?, device.alloc(n)?);
        let are_mixed = count(kinds[0].0) != n;
        let mut operations = if are_mixed { Some(device.alloc::<u8>(n)?) } else { None };
        let mut end = 0;
        for (keys, to_rows, operation) in kinds {
            let range = end..end + count(keys);
            end = range.end;
            let to = fingerprints.view_mut().slice(range.clone())?;
            let mut of_rows = rows.view_mut().slice(range.clone())?;
            let view = keys.view(usize::MAX);
            write_rows::<C>(stream, view, (draw, first), to, of_rows.reborrow())?;
            if let Some(from) = to_rows {
                of_rows.copy_from(from, stream)?;
            }
            if let Some(operations) = &mut operations {
                operations.view_mut().slice(range)?.fill_bytes(operation as u8, stream)?;
            }
        }
        Ok(OfTable { fingerprints, rows, operations })
    }
    #[inline]
    fn apply(
        &self,
        updater: &mut MapUpdater<u64, u32>,
        stream: &Stream,
        table: &mut Map<u64, u32>,
    ) -> Result<()> {
        let OfTable { fingerprints, rows, operations } = self;
        let operations = match operations {
            Some(each) => Operations::Each(each.view()),
            None => Operations::All(Operation::Insert),
        };
        let mut outcomes = stream.device().alloc(rows.len())?;
        let (fingerprints, outcomes) = (fingerprints.view(), outcomes.view_mut());
        updater.apply(table, stream, operations, fingerprints, rows.view(), outcomes)
    }
}
impl<C: Column> Rows<C> {
    fn check_batch(
        &self,
        stream: &Stream,
        keys: C::View<'_>,
        outcomes: &mut ViewMut<'_, u8>,
    ) -> Result<()> {
        check_device("stream", stream.device(), self.device())?;
        check_length("outcomes", outcomes.len(), "keys", C::count(keys))?;
        C::check(keys, stream)?;
        outcomes.arg("outcomes", stream)?;
        may_wait("an update of keys in rows", self.device())
    }
    /// Restores the table from the first `len` keys.
    fn restore(&mut self, stream: &Stream) -> Result<()> {
        self.keys.truncate(self.len);
        let mut builder = RowsBuilder::<C>::new(self.device(), SetOptions::default())?;
        (self.table, self.draw, _) = builder.table_of(stream, self.view())?;
        Ok(())
    }
}
/// Applies a batch in host memory by `apply`, and returns its outcomes.
pub(crate) fn outcomes_of(
    device: &Device,
    n: usize,
    apply: impl FnOnce(&Stream, ViewMut<'_, u8>) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let (stream, mut outcomes) = (device.stream()?, device.alloc(n)?);
    // Room for the outcomes comes first.
    collect(n, |to| {
        apply(&stream, outcomes.view_mut())?;
        outcomes.view().copy_map(to, Outcome::of_byte)
    })
}
