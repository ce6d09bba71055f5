//! What a batch changes in a table whose keys are in rows: which keys are new and which are gone,
//! and how rows from the end fill the gaps.
use super::THREADS;
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::groups::{GroupKey, keys_of, numbers_on, reserve};
use crate::primitives::Compact;
use crate::primitives::compact::CompactElement;
use koel_kernels::keys128::find::NO_ROW;
use koel_kernels::keys128::update::{changes, rows_changed, rows_gaps, rows_put};

/// Keys, by number, that a batch adds or removes.
pub(super) struct Changes {
    /// Numbers of the new keys, ascending.
    pub new: Buffer<u32>,
    /// Numbers of the keys that are gone, ascending.
    pub gone: Buffer<u32>,
}
impl Changes {
    /// Compares whether rows hold each key before, by its row or [`NO_ROW`], and after. Waits.
    #[inline]
    pub(super) fn of(
        stream: &Stream,
        before: View<'_, u32>,
        after: View<'_, u8>,
    ) -> Result<Changes> {
        Comparison::new(stream, before.len())?.changes(stream, before, after)
    }
}
/// Finds changes of up to a number of keys, and keeps memory for it.
pub(super) struct Comparison {
    is_new: Buffer<u8>,
    is_gone: Buffer<u8>,
    counts: Buffer<u32>,
    numbers: Buffer<u32>,
    selector: Selector,
}
impl Comparison {
    #[inline]
    fn new(stream: &Stream, n: usize) -> Result<Comparison> {
        let device = stream.device();
        Ok(Comparison {
            is_new: device.alloc(n)?,
            is_gone: device.alloc(n)?,
            counts: device.alloc(changes::WORDS)?,
            numbers: numbers_on(stream, 0, n)?,
            selector: Selector::new(device, n)?,
        })
    }
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let Comparison { is_new, is_gone, counts, numbers, selector } = self;
        let of_flags = is_new.bytes() + is_gone.bytes() + counts.bytes();
        of_flags + numbers.bytes() + selector.compact.scratch_bytes()
    }
    /// Returns the kept one if it is large enough.
    #[inline]
    pub(super) fn reserve<'a>(
        kept: &'a mut Option<Comparison>,
        stream: &Stream,
        n: usize,
    ) -> Result<&'a mut Comparison> {
        reserve(kept, |kept| kept.numbers.len() >= n, || Comparison::new(stream, n))
    }
    /// See [`Changes::of`].
    #[inline]
    pub(super) fn changes(
        &mut self,
        stream: &Stream,
        before: View<'_, u32>,
        after: View<'_, u8>,
    ) -> Result<Changes> {
        let n = before.len();
        let Comparison { is_new, is_gone, counts, numbers, selector } = self;
        let (mut is_new, mut is_gone) =
            (is_new.view_mut().slice(..n)?, is_gone.view_mut().slice(..n)?);
        let flags = (is_new.reborrow(), is_gone.reborrow());
        compare(stream, before, after, flags, counts.view_mut())?;
        let [new, gone] = counts_of(counts)?;
        let numbers = numbers.view().slice(..n)?;
        Ok(Changes {
            new: selector.select(stream, is_new.view(), numbers, new as usize)?,
            gone: selector.select(stream, is_gone.view(), numbers, gone as usize)?,
        })
    }
}
/// Sets the flags of keys that are new and of those that are gone: see [`Changes::of`]. Writes how
/// many there are of each.
#[inline]
pub(crate) fn compare(
    stream: &Stream,
    before: View<'_, u32>,
    after: View<'_, u8>,
    (mut is_new, mut is_gone): (ViewMut<'_, u8>, ViewMut<'_, u8>),
    mut counts: ViewMut<'_, u32>,
) -> Result<()> {
    let n = before.len();
    check_length("held", after.len(), "keys", n)?;
    check_length("new", is_new.len(), "keys", n)?;
    check_length("gone", is_gone.len(), "keys", n)?;
    check_length("counts", counts.len(), "kinds of changes", changes::WORDS)?;
    counts.fill_bytes(0, stream)?;
    let (rows, held) = (before.arg("rows", stream)?, after.arg("held", stream)?);
    let (new, gone) = (is_new.arg("new", stream)?, is_gone.arg("gone", stream)?);
    let to = counts.arg("counts", stream)?;
    if stream.device().runs_kernels() {
        let n = count32("keys", n)?;
        // SAFETY: `n` rows and flags, and the counts.
        return unsafe {
            rows_changed::launch(stream, n.div_ceil(THREADS), n, rows, held, new, gone, to)
        };
    }
    if let (Some(rows), Some(held), Some(is_new), Some(is_gone), Some(counts)) =
        (before.host(), after.host(), is_new.host_mut(), is_gone.host_mut(), counts.host_mut())
    {
        for (((&row, &held), new), gone) in rows.iter().zip(held).zip(is_new).zip(is_gone) {
            (*new, *gone) =
                ((row == NO_ROW && held != 0) as u8, (row != NO_ROW && held == 0) as u8);
            counts[0] += *new as u32;
            counts[1] += *gone as u32;
        }
    }
    Ok(())
}

/// Gaps among rows, and the rows from the end that fill them.
pub(crate) struct Gaps {
    /// Number of rows without gaps.
    pub len: usize,
    /// Rows below `len` that are gone.
    pub gaps: Buffer<u32>,
    /// Row from `len` on that moves to each gap.
    pub last: Buffer<u32>,
    /// Whether rows are gone.
    pub is_any: bool,
}
impl Gaps {
    /// Finds the gaps that rows leave which are gone, out of `rows` rows. Waits if there are any.
    #[inline]
    pub(super) fn of(stream: &Stream, rows: usize, gone: View<'_, u32>) -> Result<Gaps> {
        let (device, n) = (stream.device(), gone.len());
        let (len, is_any) = (rows - n, n > 0);
        if !is_any {
            return Ok(Gaps { len, gaps: device.alloc(0)?, last: device.alloc(0)?, is_any });
        }
        let (mut is_gap, mut is_last) = (device.alloc::<u8>(n)?, device.alloc::<u8>(n)?);
        let mut counts = device.alloc::<u32>(changes::WORDS)?;
        is_last.view_mut().fill_bytes(1, stream)?;
        let gaps = if let (Some(gone), Some(is_gap), Some(is_last)) =
            (gone.host(), is_gap.host_mut(), is_last.host_mut())
            && !device.runs_kernels()
        {
            let mut gaps = 0;
            for (&row, is_gap) in gone.iter().zip(is_gap) {
                *is_gap = ((row as usize) < len) as u8;
                match (row as usize).checked_sub(len) {
                    Some(place) => is_last[place] = 0,
                    None => gaps += 1,
                }
            }
            gaps
        } else {
            counts.view_mut().fill_bytes(0, stream)?;
            let (mut gap, mut last, mut to) =
                (is_gap.view_mut(), is_last.view_mut(), counts.view_mut());
            let (gap, last) = (gap.arg("gaps", stream)?, last.arg("last", stream)?);
            let (from, to) = (gone.arg("gone", stream)?, to.arg("counts", stream)?);
            let (n, len) = (count32("rows", n)?, len as u32);
            // SAFETY: `n` rows and flags, and the counts; rows are below `len + n`.
            unsafe { rows_gaps::launch(stream, n.div_ceil(THREADS), n, len, from, gap, last, to) }?;
            counts_of(&counts)?[changes::FIRST as usize]
        };
        // As many rows stay from `len` on as are gone before it.
        let (mut kept, gaps) = (Selector::new(device, n)?, gaps as usize);
        let of_gaps = kept.select(stream, is_gap.view(), gone, gaps)?;
        let ends = numbers_on(stream, len as u32, n)?;
        let last = kept.select(stream, is_last.view(), ends.view(), gaps)?;
        Ok(Gaps { len, gaps: of_gaps, last, is_any })
    }
    /// Moves elements from the last rows into the gaps.
    pub(crate) fn fill<T: GroupKey>(
        &self,
        stream: &Stream,
        moved: View<'_, T>,
        to: ViewMut<'_, T>,
    ) -> Result<()> {
        check_length("rows", to.len().min(self.len), "those that stay", self.len)?;
        // SAFETY: gaps are below `len`, and distinct.
        unsafe { put(stream, self.gaps.view(), moved, to) }
    }
}
#[inline]
fn counts_of(counts: &Buffer<u32>) -> Result<[u32; changes::WORDS]> {
    let mut read = [0; changes::WORDS];
    counts.view().copy_to_host(&mut read)?;
    Ok(read)
}

/// Selects elements by flags that have been counted.
pub(super) struct Selector {
    compact: Compact,
    count: Buffer<u32>,
}
impl Selector {
    #[inline]
    pub(super) fn new(device: &Device, n: usize) -> Result<Selector> {
        Ok(Selector { compact: Compact::new(device, n)?, count: device.alloc(1)? })
    }
    /// Returns the elements whose flag is not 0, of which there are `kept`.
    pub(super) fn select<T: CompactElement>(
        &mut self,
        stream: &Stream,
        flags: View<'_, u8>,
        input: View<'_, T>,
        kept: usize,
    ) -> Result<Buffer<T>> {
        let mut output = stream.device().alloc(kept)?;
        if kept == input.len() {
            output.view_mut().copy_from(input, stream)?;
        } else if kept > 0 {
            // SAFETY: this module has counted the flags.
            unsafe {
                let (to, count) = (output.view_mut(), self.count.view_mut());
                self.compact.run_kept(stream, flags, input, to, count)
            }?;
        }
        Ok(output)
    }
}
/// Returns the elements of these rows; zeros for [`NO_ROW`].
pub(crate) fn gathered<T: GroupKey>(
    stream: &Stream,
    rows: View<'_, u32>,
    from: View<'_, T>,
) -> Result<Buffer<T>> {
    let mut to = stream.device().alloc(rows.len())?;
    keys_of(stream, rows, from, T::default(), to.view_mut())?;
    Ok(to)
}
/// Sets `to[rows[i]]` to `from[i]`, unless the row is [`NO_ROW`].
///
/// # Safety
/// Other rows are rows of `to`, and distinct.
pub(super) unsafe fn put<T: GroupKey>(
    stream: &Stream,
    rows: View<'_, u32>,
    from: View<'_, T>,
    mut to: ViewMut<'_, T>,
) -> Result<()> {
    check_length("values", from.len(), "rows", rows.len())?;
    let n = count32("rows", rows.len())?;
    if stream.device().runs_kernels() {
        let (rows, from) = (rows.arg("rows", stream)?, from.arg("values", stream)?);
        let to = to.arg("rows", stream)?;
        // SAFETY: `n` rows and elements; rows are as the caller promises.
        return unsafe { rows_put::launch(stream, n.div_ceil(THREADS), n, rows, from, to) };
    }
    if let (Some(rows), Some(from), Some(to)) = (rows.host(), from.host(), to.host_mut()) {
        for (&row, &from) in rows.iter().zip(from) {
            if row != NO_ROW {
                to[row as usize] = from;
            }
        }
    }
    Ok(())
}
