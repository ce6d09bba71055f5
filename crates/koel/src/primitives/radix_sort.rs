//! Stable sorting by integer keys.
//!
//! On a GPU: least significant digit first, 8 bits per pass, "Onesweep" (Adinets and Merrill,
//! 2022). One launch counts all digits, one scans the counts, and each pass is one launch that
//! reads and writes every key and value once. Traffic: the keys once, and twice the keys and values
//! in each pass (4 passes for all bits of `u32`, 8 for `u64`): 68 bytes for a `u32` pair. On the
//! CPU: the same passes over chunks, several per thread; for keys alone, compared by all bits, the
//! crate rdst, which allocates, or a sort in place if there is no room for that.
//!
//! Stable on every device, so the result is the same in every run. The input is not changed.
use super::check_planned;
use super::distribute::{Places, distribute, packed};
use super::lookback::Lookback;
use crate::device::{Apart, Buffer, Device, Element, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length};
use crate::fallible::{repeat, with_room};
use koel_kernels::lookback::Tiles;
use koel_kernels::payload::FromTo;
use koel_kernels::radix_sort::{self as kernels, COUNT_TURN, Digit, RADIX, THREADS, digit_mask};
use rayon::slice::ParallelSliceMut;
use rdst::{RadixKey, RadixSort};
use std::ops::Range;

/// Returns whether the crate rdst has room for what it allocates, which it does not say: up to the
/// keys once more. It would abort without.
fn has_room<K>(keys: usize) -> bool {
    with_room::<K>(2 * keys).is_ok()
}
/// Keys that can be sorted: `u32`, `u64`.
pub trait SortKey: Element + Ord + RadixKey + kernels::SortKey {}
impl SortKey for u32 {}
impl SortKey for u64 {}
/// Values that are sorted by keys: `u32`, `u64`.
pub trait SortValue: Element {}
impl SortValue for u32 {}
impl SortValue for u64 {}

/// State common to sorting keys and sorting pairs.
struct Passes<K> {
    max_n: usize,
    bits: Range<u32>,
    /// Output keys of every other pass.
    keys: Buffer<K>,
    /// Digit counts, zero between runs.
    counts: Buffer<u32>,
    starts: Buffer<u32>,
    lookback: Lookback,
}
impl<K: SortKey> Passes<K> {
    fn new(device: &Device, max_n: usize, items: usize) -> Result<Passes<K>> {
        check_planned("keys to sort", max_n, max_n)?;
        let digits = K::DIGITS * RADIX;
        let mut counts = device.alloc(digits)?;
        counts.view_mut().fill_bytes(0, &device.stream()?)?;
        Ok(Passes {
            max_n,
            bits: 0..8 * size_of::<K>() as u32,
            keys: device.alloc(max_n)?,
            counts,
            starts: device.alloc(digits)?,
            lookback: Lookback::new(device, max_n.div_ceil(THREADS * items) * RADIX)?,
        })
    }
    fn set_bits(&mut self, bits: Range<u32>) -> Result<()> {
        let width = 8 * size_of::<K>() as u32;
        if bits.start > bits.end || bits.end > width {
            return Err(Error::Setting {
                field: "bits",
                found: format!("{bits:?}"),
                expected: format!("inside 0..{width}"),
            });
        }
        self.bits = bits;
        Ok(())
    }
    fn scratch_bytes(&self) -> usize {
        self.keys.bytes() + self.counts.bytes() + self.starts.bytes() + self.lookback.bytes()
    }
    fn passes(&self) -> u32 {
        self.bits.len().div_ceil(8) as u32
    }
    /// Counts the digits of all passes and scans the counts.
    fn count(&mut self, stream: &Stream, keys: View<'_, K>, n: u32) -> Result<()> {
        let grid = super::filling_grid(stream.device(), n, COUNT_TURN);
        let Range { start, end } = self.bits;
        let mut counts = self.counts.view_mut();
        let starts = self.starts.view_mut().arg("starts", stream)?;
        // SAFETY: `n` keys; 256 counts and starts per digit.
        unsafe {
            kernels::count_digits::launch(
                stream,
                grid,
                start,
                end,
                n,
                keys.arg("keys", stream)?,
                counts.arg("counts", stream)?,
            )?;
            kernels::digit_starts::launch(
                stream,
                (end - start).div_ceil(8),
                counts.arg("counts", stream)?,
                starts,
            )
        }
    }
    /// Returns the arguments of a pass.
    fn pass(&mut self, stream: &Stream, pass: u32) -> Result<(Digit, Tiles)> {
        let shift = self.bits.start + 8 * pass;
        let mask = digit_mask(shift, self.bits.end);
        let first = pass as usize * RADIX;
        let starts = self.starts.view().slice(first..first + RADIX)?.arg("starts", stream)?;
        Ok((Digit { starts, shift, mask }, self.lookback.tiles(stream)?))
    }
}

/// Plan that sorts keys alone, up to a given number.
///
/// Scratch: the size of the keys, and 2 KB per tile of 5,600 to 7,700 keys. Launches on a GPU: two,
/// and one per pass.
pub struct SortKeys<K>(Passes<K>);
impl<K: SortKey> SortKeys<K> {
    /// Makes a plan for up to `max_n` keys. Errors: out of memory; more than 32-bit indices
    /// address.
    pub fn new(device: &Device, max_n: usize) -> Result<SortKeys<K>> {
        Ok(SortKeys(Passes::new(device, max_n, kernels::items::<K, ()>())?))
    }
    /// Compares only these bits of the keys, for example `0..30`, in fewer passes. Errors: bits
    /// that the keys do not have.
    pub fn bits(mut self, bits: Range<u32>) -> Result<SortKeys<K>> {
        self.0.set_bits(bits)?;
        Ok(self)
    }
    /// Returns the device memory that the plan keeps, in bytes.
    pub fn scratch_bytes(&self) -> usize {
        self.0.scratch_bytes()
    }
    /// Sets `out` to the keys in ascending order.
    ///
    /// Errors: lengths that differ; more keys than planned for; buffers of another device.
    pub fn run(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        mut out: ViewMut<'_, K>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let this = &mut self.0;
        this.lookback.check_device(stream)?;
        check_length("out", out.len(), "the keys", keys.len())?;
        let n = check_planned("keys to sort", keys.len(), this.max_n)?;
        let (mut from, to) = (keys.arg("keys", stream)?, out.arg("out", stream)?);
        let passes = this.passes();
        if n == 0 || passes == 0 {
            return out.copy_from(keys, stream);
        }
        if !stream.device().runs_kernels() {
            let device = stream.device();
            let (Some(keys), Some(out)) = (keys.host(), out.host_mut()) else { return Ok(()) };
            if this.bits == (0..8 * size_of::<K>() as u32) {
                // All bits: equal keys are indistinguishable, so an unstable sort will do. 173
                // against 84 M keys/s of the passes below, for 2^24 keys on 2 cores.
                out.copy_from_slice(keys);
                device.install(|| match has_room::<K>(out.len()) {
                    true => out.radix_sort_unstable(),
                    false => out.par_sort_unstable(),
                });
            } else if let Some(other) = this.keys.host_mut() {
                // As pairs with zero-sized values.
                let n = keys.len();
                let [nothing, nothing_out, nothing_other] = [(); 3].map(|()| repeat((), n));
                let (out_values, other_values) = (&mut nothing_out?, &mut nothing_other?);
                let values = Side { from: &nothing?, out: out_values, other: other_values };
                device.install(|| {
                    on_host(
                        device,
                        this.bits.clone(),
                        Side { from: keys, out, other: &mut other[..n] },
                        values,
                    )
                })?;
            }
            return Ok(());
        }
        this.count(stream, keys, n)?;
        let grid = n.div_ceil((THREADS * kernels::items::<K, ()>()) as u32);
        for p in 0..passes {
            let (digit, tiles) = this.pass(stream, p)?;
            // The last pass ends in `out`.
            let last = (passes - p) % 2 == 1;
            let (to, next) = if last {
                (to, out.view().arg("out", stream)?)
            } else {
                (
                    this.keys.view_mut().arg("scratch", stream)?,
                    this.keys.view().arg("scratch", stream)?,
                )
            };
            let keys = FromTo { from, to };
            // SAFETY: both hold at least `n` keys, and differ; there are status words for `max_n`
            // keys, and one block per tile.
            unsafe { kernels::sort_pass::launch(stream, grid, n, digit, keys, tiles)? };
            from = next;
        }
        Ok(())
    }
}

/// Plan that sorts pairs by their keys, up to a given number. Pairs with equal keys keep their
/// order.
///
/// Scratch: the size of the pairs, and 2 KB per tile of 5,600 to 8,200 pairs. Launches on a GPU:
/// two, and one per pass.
pub struct SortPairs<K, V> {
    passes: Passes<K>,
    /// Output values of every other pass.
    values: Buffer<V>,
}
impl<K: SortKey, V: SortValue> SortPairs<K, V> {
    /// Makes a plan for up to `max_n` pairs. Errors: out of memory; more than 32-bit indices
    /// address.
    pub fn new(device: &Device, max_n: usize) -> Result<SortPairs<K, V>> {
        Ok(SortPairs {
            passes: Passes::new(device, max_n, kernels::items::<K, V>())?,
            values: device.alloc(max_n)?,
        })
    }
    /// Compares only these bits of the keys, for example `0..30`, in fewer passes. Errors: bits
    /// that the keys do not have.
    pub fn bits(mut self, bits: Range<u32>) -> Result<SortPairs<K, V>> {
        self.passes.set_bits(bits)?;
        Ok(self)
    }
    /// Returns the device memory that the plan keeps, in bytes.
    pub fn scratch_bytes(&self) -> usize {
        self.passes.scratch_bytes() + self.values.bytes()
    }
    /// Sets `keys_out` and `values_out` to the pairs in ascending key order.
    ///
    /// Errors: lengths that differ; more pairs than planned for; buffers of another device.
    pub fn run(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
        mut keys_out: ViewMut<'_, K>,
        mut values_out: ViewMut<'_, V>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        let this = &mut self.passes;
        this.lookback.check_device(stream)?;
        check_length("values", values.len(), "the keys", keys.len())?;
        check_length("keys_out", keys_out.len(), "the keys", keys.len())?;
        check_length("values_out", values_out.len(), "the keys", keys.len())?;
        let n = check_planned("pairs to sort", keys.len(), this.max_n)?;
        let mut from = (keys.arg("keys", stream)?, values.arg("values", stream)?);
        let to = (keys_out.arg("keys_out", stream)?, values_out.arg("values_out", stream)?);
        let passes = this.passes();
        if n == 0 || passes == 0 {
            keys_out.copy_from(keys, stream)?;
            return values_out.copy_from(values, stream);
        }
        if !stream.device().runs_kernels() {
            let (bits, device) = (this.bits.clone(), stream.device());
            if let (Some(k), Some(v), Some(k_out), Some(v_out), Some(k_other), Some(v_other)) = (
                keys.host(),
                values.host(),
                keys_out.host_mut(),
                values_out.host_mut(),
                this.keys.host_mut(),
                self.values.host_mut(),
            ) {
                let keys = Side { from: k, out: k_out, other: &mut k_other[..k.len()] };
                let values = Side { from: v, out: v_out, other: &mut v_other[..v.len()] };
                device.install(|| on_host(device, bits, keys, values))?;
            }
            return Ok(());
        }
        this.count(stream, keys, n)?;
        let grid = n.div_ceil((THREADS * kernels::items::<K, V>()) as u32);
        for p in 0..passes {
            let (digit, tiles) = this.pass(stream, p)?;
            // The last pass ends in the output.
            let last = (passes - p) % 2 == 1;
            let (to, next) = if last {
                (
                    to,
                    (
                        keys_out.view().arg("keys_out", stream)?,
                        values_out.view().arg("values_out", stream)?,
                    ),
                )
            } else {
                let to = (
                    this.keys.view_mut().arg("scratch", stream)?,
                    self.values.view_mut().arg("scratch", stream)?,
                );
                (
                    to,
                    (
                        this.keys.view().arg("scratch", stream)?,
                        self.values.view().arg("scratch", stream)?,
                    ),
                )
            };
            let keys = FromTo { from: from.0, to: to.0 };
            let values = FromTo { from: from.1, to: to.1 };
            // SAFETY: all hold at least `n` elements, and differ; there are status words for
            // `max_n` pairs, and one block per tile.
            unsafe { kernels::sort_pairs::launch(stream, grid, n, digit, keys, values, tiles)? };
            from = next;
        }
        Ok(())
    }
}

/// [`SortKeys::run`] without a plan: allocates one.
pub fn sort_keys<K: SortKey>(
    stream: &Stream,
    keys: View<'_, K>,
    out: ViewMut<'_, K>,
) -> Result<()> {
    SortKeys::new(stream.device(), keys.len())?.run(stream, keys, out)
}
/// [`SortPairs::run`] without a plan: allocates one.
pub fn sort_pairs<K: SortKey, V: SortValue>(
    stream: &Stream,
    keys: View<'_, K>,
    values: View<'_, V>,
    keys_out: ViewMut<'_, K>,
    values_out: ViewMut<'_, V>,
) -> Result<()> {
    SortPairs::new(stream.device(), keys.len())?.run(stream, keys, values, keys_out, values_out)
}

/// Keys or values: the input, the output, and the output of every other pass.
struct Side<'a, T> {
    from: &'a [T],
    out: &'a mut [T],
    other: &'a mut [T],
}
/// Runs the passes on the CPU.
fn on_host<K: SortKey, V: Copy + Send + Sync>(
    device: &Device,
    bits: Range<u32>,
    keys: Side<'_, K>,
    values: Side<'_, V>,
) -> Result<()> {
    let (threads, n) = (device.parallelism(), keys.from.len());
    let passes = bits.len().div_ceil(8) as u32;
    for p in 0..passes {
        let shift = bits.start + 8 * p;
        let mask = digit_mask(shift, bits.end);
        // The last pass ends in `out`.
        let last = (passes - p) % 2 == 1;
        let (k, k_to) =
            if last { (&*keys.other, &mut *keys.out) } else { (&*keys.out, &mut *keys.other) };
        let (v, v_to) = if last {
            (&*values.other, &mut *values.out)
        } else {
            (&*values.out, &mut *values.other)
        };
        let (k, v) = if p == 0 { (keys.from, values.from) } else { (k, v) };
        let digit = move |i: usize| k[i].digit(shift, mask) as usize;
        let (k_to, v_to) = (Places::new(k_to), Places::new(v_to));
        distribute(threads, n, RADIX, digit, packed, move |i, _, place| {
            // SAFETY: the digits' counts add up to `n`; `distribute` uses each place once.
            unsafe {
                k_to.put(place, k[i]);
                v_to.put(place, v[i]);
            }
        })?;
    }
    Ok(())
}
