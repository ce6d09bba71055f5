//! Equal keys of the published tables: found by sorting, resolved by the caller's policy.
use super::Duplicates;
use crate::fallible::{count32, out_of_memory};
use koel::primitives::{self, Compact};
use koel::{Buffer, Error, Result, Stream, View};
use koel_classic_kernels::PairsIn;
use koel_classic_kernels::sorted::mark_kept;
use std::collections::HashMap;

/// Input pairs of a build.
#[derive(Clone, Copy)]
pub(super) struct Pairs<'a> {
    pub keys: View<'a, u32>,
    pub values: View<'a, u32>,
    pub n: u32,
}
impl Pairs<'_> {
    /// Returns the pairs as a kernel argument.
    pub(super) fn arg(&self, stream: &Stream) -> Result<PairsIn> {
        let (keys, values) = (self.keys.arg("keys", stream)?, self.values.arg("values", stream)?);
        Ok(PairsIn { keys, values, n: self.n })
    }
}

/// Pairs in device memory, in key order.
pub(super) struct Distinct {
    keys: Buffer<u32>,
    values: Buffer<u32>,
    n: u32,
    /// Number of dropped pairs.
    pub dropped: usize,
}
impl Distinct {
    pub(super) fn len(&self) -> usize {
        self.n as usize
    }
    pub(super) fn pairs(&self) -> Pairs<'_> {
        Pairs { keys: self.first(&self.keys), values: self.first(&self.values), n: self.n }
    }
    /// The buffers have room for all input pairs, so they may be longer.
    fn first<'a>(&self, buffer: &'a Buffer<u32>) -> View<'a, u32> {
        buffer.view().slice(..self.n as usize).unwrap_or(buffer.view())
    }
}

/// Sorts all pairs by key; pairs with equal keys stay in input order.
pub(super) fn sort_pairs(
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
) -> Result<Distinct> {
    let (device, n) = (stream.device(), keys.len());
    let (mut sorted_keys, mut sorted_values) = (device.alloc(n)?, device.alloc(n)?);
    primitives::sort_pairs(stream, keys, values, sorted_keys.view_mut(), sorted_values.view_mut())?;
    Ok(Distinct { keys: sorted_keys, values: sorted_values, n: count32("pairs", n)?, dropped: 0 })
}

/// Keeps one pair per key, chosen by `policy`.
pub(super) fn resolve(
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    policy: Duplicates,
) -> Result<Distinct> {
    let (device, all) = (stream.device(), keys.len());
    let sorted = sort_pairs(stream, keys, values)?;
    let mut keep = device.alloc::<u8>(all)?;
    {
        let grid = sorted.n.div_ceil(mark_kept::SPEC.threads);
        let sorted_keys = sorted.keys.view().arg("keys", stream)?;
        let keep = keep.view_mut().arg("keep", stream)?;
        let keep_last = (policy != Duplicates::KeepFirst) as u32;
        // SAFETY: `n` keys and marks.
        unsafe { mark_kept::launch(stream, grid, sorted_keys, sorted.n, keep_last, keep) }?;
    }
    let (mut kept_keys, mut kept_values) = (device.alloc(all)?, device.alloc(all)?);
    let mut count = device.alloc::<u32>(1)?;
    let mut compact = Compact::new(device, all)?;
    let (k, v) = (sorted.keys.view(), sorted.values.view());
    compact.run_pairs(
        stream,
        keep.view(),
        k,
        v,
        kept_keys.view_mut(),
        kept_values.view_mut(),
        count.view_mut(),
    )?;
    let n = count.download()?[0];
    let dropped = all - n as usize;
    if dropped > 0 && policy == Duplicates::Reject {
        return Err(first_duplicate(&keys.download()?));
    }
    Ok(Distinct { keys: kept_keys, values: kept_values, n, dropped })
}
/// Returns the error for the first key that occurred before, or that of too little memory to find
/// it.
fn first_duplicate(keys: &[u32]) -> Error {
    let mut seen = HashMap::<u32, usize>::new();
    if seen.try_reserve(keys.len()).is_err() {
        return out_of_memory::<(u32, usize)>(keys.len());
    }
    let mut repeated = keys.iter().enumerate().filter_map(|(second, &key)| {
        let first = seen.insert(key, second)?;
        Some(Error::DuplicateKey { key: key.into(), first, second })
    });
    repeated.next().unwrap_or(Error::DuplicateKey { key: 0, first: 0, second: 0 })
}
