//! Distinct keys, unions, intersections and differences of arrays: see [`SetCombiner`].
use super::SetStore;
use super::kernels::{self, Lengths, Passes};
use crate::cpu;
use crate::device::{Apart, Device, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use crate::rows::{Other, Way, number};
use crate::seed::Seeds;
use crate::table::plan::{Plan, PlanTuning};
use crate::types::{Bits, BitsOf, DeviceKey, Key, KeyBits, SlotKey, key_bits, keys_on, write_some};
use koel_kernels::set::combine::how;

/// Load factor of the tables of a combination. Callers do not choose it, so it is the one that
/// builds fastest.
const LOAD: f64 = 0.8;
/// Number of copies of every key that bins have room for. With that many copies a partition has few
/// distinct keys, so the number of its pairs varies more.
const COPIES: f64 = 64.0;

/// Computes distinct keys, unions, intersections and differences of arrays of keys, and keeps
/// scratch memory across calls.
///
/// A result has each key once. On a GPU its keys are in any order, which differs from run to run.
/// On a CPU, the same arrays give the same order for the lifetime of the process. No table is made
/// in device memory: both arrays are partitioned alike, and each partition is processed on chip. A
/// CPU finds few distinct keys of one array, and those of a sorted one, without partitions.
///
/// ```
/// use koel::{Device, SetCombiner};
///
/// let device = Device::cpu()?;
/// let stream = device.stream()?;
/// let (a, b) = (device.upload(&[1u32, 2, 2, 3])?, device.upload(&[3u32, 4])?);
/// let (mut keys, mut count) = (device.alloc::<u32>(6)?, device.alloc::<u64>(1)?);
/// let mut combiner = SetCombiner::new(&device)?;
/// for _frame in 0..3 {
///     combiner.union_into(&stream, a.view(), b.view(), keys.view_mut(), count.view_mut())?;
/// }
/// let mut union = keys.view().slice(..count.download()?[0] as usize)?.download()?;
/// union.sort(); // any order
/// assert_eq!(union, [1, 2, 3, 4]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Cost
/// On a GPU, for 32-bit keys: 20 bytes of memory traffic per key of each array (12 up to 7.4
/// million keys), and 4 per key of the result. For 64-bit keys, twice as much. Takes one or two
/// launches per array, two more launches, and a fill. Does not wait, and allocates nothing if it
/// has combined as many keys before; it can then be recorded in a [graph](Stream::capture). Scratch
/// memory is about 10 bytes per key, 21 per 64-bit key.
///
/// Frequent keys cost little more: if a tile has many copies of a key, they are dropped on the way,
/// and bins have room for inputs as uneven as keys with 64 copies each. If keys have hundreds to
/// thousands of copies, evenly mixed, partitions may overflow. The operation then restarts with
/// atomics in device memory, about ten times as slow if the distinct keys do not fit the cache.
pub struct SetCombiner<K: SlotKey = u32> {
    combiner: Combiner<BitsOf<K>>,
}
/// A combiner of bits.
struct Combiner<K: KeyBits> {
    device: Device,
    sizes: PlanTuning,
    scratch: Scratch<K>,
}
enum Scratch<K: KeyBits> {
    Cpu([cpu::set::Scratch; 2]),
    /// As much memory as the largest arrays so far needed.
    Kernels([Option<Passes<K>>; 2]),
}

impl<K: SlotKey> SetCombiner<K> {
    /// Creates a combiner without scratch memory.
    pub fn new(device: &Device) -> Result<SetCombiner<K>> {
        SetCombiner::with_tuning(
            device,
            PlanTuning { copies: COPIES, ..kernels::sizes::<BitsOf<K>>() },
        )
    }
    /// Creates a combiner with sizes other than the tuned ones, so that tests take every path.
    pub(super) fn with_tuning(device: &Device, sizes: PlanTuning) -> Result<SetCombiner<K>> {
        Ok(SetCombiner { combiner: Combiner::new(device, sizes) })
    }
    /// Returns the bytes of scratch memory, which the largest arrays so far determine.
    pub fn scratch_bytes(&self) -> usize {
        self.combiner.scratch_bytes()
    }
    #[cfg(test)]
    pub(super) fn is_clean(&self) -> bool {
        self.combiner.is_clean()
    }
}
impl<K: DeviceKey + SlotKey> SetCombiner<K> {
    /// Writes the distinct keys of an array to `output[..count[0]]`, in any order, and their number
    /// to `count[0]`, the only element. Elements of `output` after the last key are undefined.
    ///
    /// See [the cost](Self#cost). Errors: `output` shorter than `keys`, a `count` that is not one
    /// element long, buffers of another device, more keys than 31-bit indices can address, out of
    /// memory.
    pub fn unique_into(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        output: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.combine_into(stream, how::DISTINCT, (keys, None), output, count)
    }
    /// Writes the keys that are in either array or in both to `output[..count[0]]`, each once.
    ///
    /// Otherwise like [`unique_into`](Self::unique_into). `output` must have room for both arrays.
    pub fn union_into(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        others: View<'_, K>,
        output: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.combine_into(stream, how::UNION, (keys, Some(others)), output, count)
    }
    /// Writes the keys that are in both arrays to `output[..count[0]]`, each once.
    ///
    /// Otherwise like [`unique_into`](Self::unique_into). `output` must have room for the first
    /// array.
    pub fn intersection_into(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        others: View<'_, K>,
        output: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.combine_into(stream, how::INTERSECTION, (keys, Some(others)), output, count)
    }
    /// Writes the keys of the first array that are not in the second to `output[..count[0]]`, each
    /// once.
    ///
    /// Otherwise like [`intersection_into`](Self::intersection_into).
    pub fn difference_into(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        others: View<'_, K>,
        output: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        self.combine_into(stream, how::DIFFERENCE, (keys, Some(others)), output, count)
    }
    fn combine_into(
        &mut self,
        stream: &Stream,
        how: u32,
        (keys, others): (View<'_, K>, Option<View<'_, K>>),
        output: ViewMut<'_, K>,
        count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let keys = keys_on(stream, keys)?;
        let others = others.map(|others| keys_on(stream, others)).transpose()?;
        let others = others.as_ref().map(|others| others.view());
        write_some(stream, output, |output| {
            self.combiner.combine(stream, how, keys.view(), others, output, count)
        })
    }
}
impl<K: KeyBits> Combiner<K> {
    fn new(device: &Device, sizes: PlanTuning) -> Combiner<K> {
        let scratch = match device.runs_kernels() {
            true => Scratch::Kernels([None, None]),
            false => Scratch::Cpu(Default::default()),
        };
        Combiner { device: device.clone(), sizes, scratch }
    }
    fn scratch_bytes(&self) -> usize {
        match &self.scratch {
            Scratch::Cpu(scratch) => scratch.iter().map(|s| s.bytes()).sum(),
            Scratch::Kernels(passes) => passes.iter().flatten().map(Passes::bytes).sum(),
        }
    }
    #[cfg(test)]
    fn is_clean(&self) -> bool {
        matches!(
            &self.scratch,
            Scratch::Kernels(passes) if passes.iter().flatten().all(Passes::is_clean)
        )
    }
    fn combine(
        &mut self,
        stream: &Stream,
        what: u32,
        keys: View<'_, K>,
        others: Option<View<'_, K>>,
        mut output: ViewMut<'_, K>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        self.check(stream, keys, others, &mut output, &mut count)?;
        let n = [keys.len(), others.map_or(0, |others| others.len())];
        // Nobody can craft keys against the seed of the process. The result does not depend on it.
        let seed = Seeds::new(None, false).first;
        // Keys that are inserted into tables, which may all be in the result.
        let put = if what == how::UNION { n[0] + n[1] } else { n[0] };
        check_length("output", output.len().min(put), "keys", put)?;
        // The longer array determines the number of partitions. They are small enough for the
        // tables.
        let plan = Plan::sized(put.max(n[1]), LOAD, self.sizes)?;
        match &mut self.scratch {
            Scratch::Kernels(scratch) => {
                let [first, second] = scratch;
                let first_plan = plan.with_the_same_partitions(n[0], self.sizes)?;
                let passes = kernels::reserve(
                    &self.device,
                    first,
                    &first_plan,
                    Lengths::of_array(&first_plan, put),
                )?;
                let second_plan;
                let second = match others {
                    None => None,
                    Some(others) => {
                        second_plan = plan.with_the_same_partitions(n[1], self.sizes)?;
                        let lengths = Lengths::of_array(&second_plan, 0);
                        let passes = kernels::reserve(&self.device, second, &second_plan, lengths)?;
                        Some((&second_plan, others, passes))
                    }
                };
                let first = (&first_plan, keys, passes);
                kernels::combine_arrays(stream, what, seed, first, second, output, count)
            }
            Scratch::Cpu(scratch) => {
                let others = others.map_or(Some(&[][..]), |others| others.host());
                if let (Some(keys), Some(others), Some(output), Some(count)) =
                    (keys.host(), others, output.host_mut(), count.host_mut())
                {
                    let way = Way { counts: false, other: Other::Set };
                    if what == how::DISTINCT
                        && let Some(numbered) = number(&self.device, &keys, way, None)?
                    {
                        output[..numbered.keys.len()].copy_from_slice(&numbered.keys);
                        count[0] = numbered.keys.len() as u64;
                        return Ok(());
                    }
                    let arrays = [keys, others];
                    count[0] = cpu::set::combine(
                        &self.device,
                        plan.shape,
                        seed,
                        what,
                        arrays,
                        output,
                        scratch.each_mut(),
                    )? as u64;
                }
                Ok(())
            }
        }
    }
    /// Checks that the arguments are on the combiner's device, and that `count` has one element.
    fn check(
        &self,
        stream: &Stream,
        keys: View<'_, K>,
        others: Option<View<'_, K>>,
        output: &mut ViewMut<'_, K>,
        count: &mut ViewMut<'_, u64>,
    ) -> Result<()> {
        if stream.device() != &self.device {
            let (found, expected) = (stream.device().name(), self.device.name());
            return Err(Error::WrongDevice { name: "stream", found, expected });
        }
        keys.arg("keys", stream)?;
        others.map(|others| others.arg("others", stream)).transpose()?;
        output.arg("output", stream)?;
        count.arg("count", stream)?;
        check_length("count", count.len(), "the total", 1)
    }
}
impl<K: SlotKey> std::fmt::Debug for SetCombiner<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = std::any::type_name::<K>();
        write!(
            f,
            "SetCombiner<{key}>[{} bytes] on {}",
            self.scratch_bytes(),
            self.combiner.device.name()
        )
    }
}

/// Combines arrays in host memory. Copies both ways and waits.
fn of_host<K: Key>(device: &Device, what: u32, keys: &[K], others: Option<&[K]>) -> Result<Vec<K>> {
    count32("keys", keys.len().max(others.map_or(0, <[K]>::len)))?;
    let keys = key_bits::<K, BitsOf<K>>(device, keys)?;
    let others = others.map(|others| key_bits::<K, BitsOf<K>>(device, others)).transpose()?;
    let of_bits = |bits: BitsOf<K>| K::unpack(bits.into());
    <BitsOf<K> as Bits>::Set::combined(device, what, &keys, others.as_deref(), of_bits)
}
/// See [`SetStore::combined`].
pub(super) fn combine<K: KeyBits, T: Send>(
    device: &Device,
    what: u32,
    keys: &[K],
    others: Option<&[K]>,
    convert: impl Fn(K) -> T + Sync,
) -> Result<Vec<T>> {
    let stream = device.stream()?;
    let room = keys.len() + if what == how::UNION { others.map_or(0, <[K]>::len) } else { 0 };
    let (keys, others) =
        (device.stage(keys)?, others.map(|others| device.stage(others)).transpose()?);
    let (mut output, mut count) = (device.alloc(room)?, device.alloc(1)?);
    let others = others.as_ref().map(|others| others.view());
    SetCombiner::<K>::new(device)?.combiner.combine(
        &stream,
        what,
        keys.view(),
        others,
        output.view_mut(),
        count.view_mut(),
    )?;
    output.view().slice(..count.download()?[0] as usize)?.download_map(convert)
}
/// Returns the distinct keys of an array in host memory, in any order. Copies both ways and waits;
/// a [`SetCombiner`] does the same in device memory.
///
/// ```
/// let mut keys = koel::set::unique(&koel::Device::cpu()?, &[5u32, 3, 5, 5, 7])?;
/// keys.sort();
/// assert_eq!(keys, [3, 5, 7]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: more keys than 31-bit indices can address, out of memory.
#[doc(alias("dedup", "distinct", "drop_duplicates"))]
pub fn unique<K: Key>(device: &Device, keys: &[K]) -> Result<Vec<K>> {
    of_host(device, how::DISTINCT, keys, None)
}
/// Returns the keys that are in either array in host memory or in both, each once, in any order.
/// Otherwise like [`unique`].
pub fn union<K: Key>(device: &Device, keys: &[K], others: &[K]) -> Result<Vec<K>> {
    of_host(device, how::UNION, keys, Some(others))
}
/// Returns the keys that are in both arrays in host memory, each once, in any order. Otherwise like
/// [`unique`].
pub fn intersection<K: Key>(device: &Device, keys: &[K], others: &[K]) -> Result<Vec<K>> {
    of_host(device, how::INTERSECTION, keys, Some(others))
}
/// Returns the keys of the first array in host memory that are not in the second, each once, in any
/// order. Otherwise like [`unique`].
pub fn difference<K: Key>(device: &Device, keys: &[K], others: &[K]) -> Result<Vec<K>> {
    of_host(device, how::DIFFERENCE, keys, Some(others))
}
