//! The flagship: a hash table that is built in bulk and looked up in bulk, from 32-bit keys to 32-bit values.
//!
//! # How it works
//! A lookup reads one 32-byte sector, a second one in about one of seven cases (at load 0.8); a build partitions the pairs and
//! builds each partition on chip, so that no step scatters over memory. [`layout`] has the bytes, which are the same on every
//! device.
//!
//! # Guarantees
//! Every key and value can be stored, all ones included. Equal keys are resolved by [`Duplicates`]. A build fails only for
//! lack of memory or, if asked to, for equal keys. Answers are the same on every device and in every run.
//!
//! ```
//! let device = koel::Device::cpu()?; // or Device::best(): a GPU if a driver finds one
//! let map = koel::Map::build(&device, &[3, 5, 7], &[30, 50, 70])?;
//! assert_eq!(map.get(&[5, 6])?, [Some(50), None]);
//! # Ok::<(), koel::Error>(())
//! ```
mod kernels;
mod plan;

use crate::cpu;
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::{self, Distinct, Duplicates};
use crate::error::{Error, Result, check_length, count32};
pub use koel_kernels::map::find::Table;
use koel_kernels::map::header;
pub use koel_kernels::map::layout;
use layout::Shape;
use plan::Plan;

/// What a map is built with.
#[derive(Clone, Debug)]
pub struct MapOptions {
    /// Pairs per slot, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Equal keys.
    pub duplicates: Duplicates,
}
impl Default for MapOptions {
    fn default() -> Self {
        MapOptions { load: 0.8, duplicates: Duplicates::default() }
    }
}

/// How a build went.
#[derive(Clone, Debug, Default)]
pub struct MapReport {
    /// Pairs stored.
    pub pairs: usize,
    /// Pairs dropped because another one had the same key.
    pub duplicates: usize,
    /// Pairs in the stash.
    pub stashed: usize,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes that the table keeps.
    pub bytes: usize,
    /// Bytes that the build needed besides, kept by the [`MapBuilder`].
    pub scratch_bytes: usize,
    /// Times that building was begun: more than one if the hash function had to be drawn again or equal keys were found.
    pub attempts: u32,
    /// Seconds that the device worked on it, failed attempts included.
    pub device_seconds: f64,
}

/// A finished map, on a device.
pub struct Map {
    device: Device,
    plan: Plan,
    storage: Storage,
    report: MapReport,
}
enum Storage {
    Cpu { table: Buffer<u64>, stash: cpu::Stash, beside: Beside },
    Kernels(kernels::Slots),
}

impl Map {
    /// Builds a map on a device from host pairs `keys[i]`, `values[i]`, with the options' defaults: load 0.8, the last of
    /// equal keys stays.
    ///
    /// Errors: lengths that differ, more pairs than 32-bit indices reach, out of memory.
    pub fn build(device: &Device, keys: &[u32], values: &[u32]) -> Result<Map> {
        let (keys, values) = (device.stage(keys)?, device.stage(values)?);
        MapBuilder::new(device, MapOptions::default())?.build(&device.stream()?, keys.view(), values.view())
    }
    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// Pairs stored.
    pub fn len(&self) -> usize {
        self.report.pairs
    }
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How its build went.
    pub fn report(&self) -> &MapReport {
        &self.report
    }
    /// How its buckets are laid out.
    pub fn shape(&self) -> Shape {
        self.plan.shape
    }

    /// The table as kernels see it, to look keys up inside a kernel that is launched on `stream`: hand over its parts and
    /// put them together again there. It owns nothing: keep the map until the kernel has run.
    ///
    /// Errors: a stream of another device.
    pub fn table(&self, stream: &Stream) -> Result<Table> {
        let (stash_bits, slots, stash, header) = match &self.storage {
            Storage::Kernels(table) => (self.plan.stash_bits, &table.slots, &table.stash, &table.header),
            Storage::Cpu { table, beside, .. } => {
                (beside.stash.len().checked_ilog2().unwrap_or(0), table, &beside.stash, &beside.header)
            }
        };
        Ok(Table {
            shape: self.plan.shape,
            stash_bits,
            slots: slots.view().arg("slots", stream)?,
            stash: stash.view().arg("stash", stream)?,
            header: header.view().arg("header", stream)?,
        })
    }

    /// Looks up host keys. Copies both ways and waits.
    pub fn get(&self, keys: &[u32]) -> Result<Vec<Option<u32>>> {
        let (device, n) = (&self.device, keys.len());
        let (mut values, mut found) = (device.alloc(n)?, device.alloc(n)?);
        let staged = device.stage(keys)?;
        self.get_into(&device.stream()?, staged.view(), values.view_mut(), found.view_mut())?;
        let (values, found) = (values.download()?, found.download()?);
        Ok(values.into_iter().zip(found).map(|(v, f)| (f != 0).then_some(v)).collect())
    }
    /// Looks up every key: `found[i]` becomes 1 and `values[i]` the value if `keys[i]` is in the map, else both become 0.
    ///
    /// One launch; allocates nothing. Keys are read and answers written once (4 + 5 bytes a key); of the table about 1.13
    /// sectors of 32 bytes a key at load 0.8. Errors: lengths that differ, buffers of another device.
    pub fn get_into(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        check_length("values", values.len(), "keys", keys.len())?;
        check_length("found", found.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        match &self.storage {
            Storage::Kernels(table) => kernels::find(stream, &self.plan, table, keys, values, found, n),
            Storage::Cpu { table, stash, .. } => {
                keys.arg("keys", stream)?;
                values.arg("values", stream)?;
                found.arg("found", stream)?;
                match (table.view().host(), keys.host(), values.host_mut(), found.host_mut()) {
                    (Some(table), Some(keys), Some(values), Some(found)) => {
                        cpu::Finder::new(self.plan.shape, table, stash)?.find(&self.device, keys, values, 0, found)
                    }
                    _ => Ok(()),
                }
            }
        }
    }
    /// Looks up every key: `values[i]` becomes the value of `keys[i]`, or `missing`.
    ///
    /// One launch; allocates nothing. A byte a key less to write than [`get_into`](Self::get_into). Errors: lengths that
    /// differ, buffers of another device.
    pub fn get_or(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        missing: u32,
    ) -> Result<()> {
        check_length("values", values.len(), "keys", keys.len())?;
        let n = count32("keys", keys.len())?;
        match &self.storage {
            Storage::Kernels(table) => kernels::find_or(stream, &self.plan, table, keys, values, missing, n),
            Storage::Cpu { table, stash, .. } => {
                keys.arg("keys", stream)?;
                values.arg("values", stream)?;
                match (table.view().host(), keys.host(), values.host_mut()) {
                    (Some(table), Some(keys), Some(values)) => {
                        cpu::Finder::new(self.plan.shape, table, stash)?.values(&self.device, keys, values, missing)
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// What kernels read beside the buckets of a table that the CPU engine built.
struct Beside {
    stash: Buffer<u64>,
    header: Buffer<u32>,
}
impl Beside {
    fn new(device: &Device, stash: &cpu::Stash) -> Result<Beside> {
        let mut words = [0; header::WORDS];
        words[header::STASHED as usize] = stash.len() as u32;
        words[header::AMBIGUOUS as usize] = stash.holds_ambiguous() as u32;
        Ok(Beside { stash: device.upload(stash.slots())?, header: device.upload(&words)? })
    }
}

/// Builds maps, and keeps the memory that building needs from one build to the next.
pub struct MapBuilder {
    device: Device,
    options: MapOptions,
    scratch: Scratch,
}
enum Scratch {
    Cpu(Box<cpu::Scratch>),
    /// What the last build needed, and its plan.
    Kernels(Option<Box<(Plan, kernels::Scratch)>>),
}

impl MapBuilder {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapBuilder> {
        if !(0.3..=0.95).contains(&options.load) {
            let expected = "0.3 to 0.95".into();
            return Err(Error::Setting { field: "load", found: options.load.to_string(), expected });
        }
        let scratch = match device.runs_kernels() {
            true => Scratch::Kernels(None),
            false => Scratch::Cpu(Box::new(cpu::Scratch::new(cpu::Pages::default()))),
        };
        Ok(MapBuilder { device: device.clone(), options, scratch })
    }

    /// Builds a map of pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// On a GPU 50 bytes of memory traffic a pair; two or three launches, and one more after each of them that fails. Equal
    /// keys, unless [`Unchecked`](Duplicates::Unchecked), are looked for while building; only if there are some are the pairs
    /// sorted and built again. Errors: lengths that differ, more pairs than 32-bit indices reach, buffers of another device,
    /// a rejected duplicate, out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, u32>, values: View<'_, u32>) -> Result<Map> {
        check_length("values", values.len(), "keys", keys.len())?;
        count32("pairs", keys.len())?;
        keys.arg("keys", stream)?;
        values.arg("values", stream)?;
        match &mut self.scratch {
            Scratch::Cpu(scratch) => build_on_cpu(&self.device, &self.options, scratch, stream, keys, values),
            Scratch::Kernels(scratch) => build_by_kernels(&self.device, &self.options, scratch, stream, keys, values),
        }
    }
}

fn build_on_cpu(
    device: &Device,
    options: &MapOptions,
    scratch: &mut cpu::Scratch,
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
) -> Result<Map> {
    let plan = Plan::new(keys.len(), options.load, 0)?;
    let mut table = device.alloc(plan.slots())?;
    let mut stash = cpu::Stash::default();
    let (counts, device_seconds) = stream.time(|| {
        let mut view = table.view_mut();
        match (view.host_mut(), keys.host(), values.host()) {
            (Some(table), Some(keys), Some(values)) => {
                cpu::build(device, plan.shape, keys, values, options.duplicates, table, &mut stash, scratch)
            }
            _ => Ok(cpu::Counts::default()),
        }
    })?;
    let beside = Beside::new(device, &stash)?;
    let report = MapReport {
        pairs: counts.pairs,
        duplicates: counts.duplicates,
        stashed: counts.stashed,
        slots: table.len(),
        bytes: table.bytes() + stash.slots().len() * 8 + beside.stash.bytes() + beside.header.bytes(),
        scratch_bytes: scratch.bytes(),
        attempts: 1,
        device_seconds,
    };
    Ok(Map { device: device.clone(), plan, storage: Storage::Cpu { table, stash, beside }, report })
}

/// Attempts with other seeds before more slots are taken.
const REDRAWS: u32 = 3;

fn build_by_kernels(
    device: &Device,
    options: &MapOptions,
    scratch: &mut Option<Box<(Plan, kernels::Scratch)>>,
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
) -> Result<Map> {
    let mut report = MapReport::default();
    let mut distinct: Option<Distinct> = None;
    let mut tries = 0u32;
    loop {
        let pairs = distinct.as_ref().map(Distinct::pairs);
        let (keys, values) = pairs.as_ref().map_or((keys, values), |p| (p.keys, p.values));
        let (seed, growth) = (tries.wrapping_mul(0x9E37_79B9), 1.25f64.powi(tries.saturating_sub(REDRAWS) as i32));
        let plan = Plan::new(keys.len(), (options.load / growth).max(0.3), seed)?;
        let check = distinct.is_none() && options.duplicates != Duplicates::Unchecked;
        let memory = match scratch.take() {
            Some(kept) if kept.0.has_the_memory_of(&plan) => kept,
            // The old one is given back first: both need not fit.
            other => {
                drop(other);
                Box::new((plan, kernels::Scratch::new(device, &plan)?))
            }
        };
        let memory = &mut scratch.insert(memory).1;
        let mut table = kernels::Slots::new(device, &plan)?;
        let ((), seconds) = stream.time(|| kernels::build(stream, &plan, keys, values, check, &mut table, memory))?;
        let words = table.header.download()?;
        let word = |w: u32| words[w as usize];
        report.attempts += 1;
        report.device_seconds += seconds;
        let failed = word(header::FAILED) != 0;
        if !failed && (!check || word(header::DUPLICATED) == 0) {
            report.pairs = keys.len();
            report.duplicates = distinct.as_ref().map_or(0, |d| d.dropped);
            report.stashed = word(header::STASHED) as usize;
            report.slots = table.slots.len();
            report.bytes = table.bytes();
            report.scratch_bytes = memory.bytes();
            return Ok(Map { device: device.clone(), plan, storage: Storage::Kernels(table), report });
        }
        if distinct.is_none() && (!failed || tries == REDRAWS) {
            // Equal keys, or so many in one bin that they may be.
            let policy = match options.duplicates {
                Duplicates::Unchecked => Duplicates::KeepLast,
                policy => policy,
            };
            let (found, seconds) = stream.time(|| duplicates::resolve(stream, keys, values, policy))?;
            report.device_seconds += seconds;
            distinct = Some(found);
            tries = 0;
        } else if tries == REDRAWS + 16 {
            return Err(Error::Setting {
                field: "load",
                found: format!("still too high after {} attempts", report.attempts),
                expected: "a load at which distinct keys find places".into(),
            });
        } else {
            tries += 1;
        }
    }
}
