//! Building maps: see [`MapBuilder`].
use super::kernels;
use super::plan::Plan;
use super::{
    Key, LayoutOf, Map, MapOptions, MapReport, OnCpu, Report, Storage, Value, seconds_since,
};
use crate::cpu;
use crate::device::{Device, Event, Stream, View, ViewMut};
use crate::duplicates::{Duplicates, first_duplicate};
use crate::error::{Error, Result, check_length};
use crate::file::stored::Stored;
use crate::seed::{Drawn, Seeds};
use koel_kernels::table::header;
use koel_kernels::table::layout::Layout;
use std::mem::replace;
use std::sync::Mutex;

/// Builds maps, and keeps the memory that building needs from one build to the next.
pub struct MapBuilder<K: Key = u32, V: Value = u32> {
    device: Device,
    options: MapOptions,
    seeds: Seeds,
    scratch: Scratch<LayoutOf<K, V>>,
}
enum Scratch<L: Layout> {
    Cpu(Box<cpu::Scratch<L>>),
    /// What the last build needed.
    Kernels(Option<Box<kernels::Scratch>>),
}

impl<K: Key, V: Value> MapBuilder<K, V> {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: MapOptions) -> Result<MapBuilder<K, V>> {
        if !(0.3..=0.95).contains(&options.load) {
            let expected = "0.3 to 0.95".into();
            return Err(Error::Setting {
                field: "load",
                found: options.load.to_string(),
                expected,
            });
        }
        let scratch = match device.runs_kernels() {
            true => Scratch::Kernels(None),
            false => Scratch::Cpu(Box::new(cpu::Scratch::new(device.pages()))),
        };
        let seeds = Seeds::new(options.seed, options.reproducible);
        Ok(MapBuilder { device: device.clone(), options, seeds, scratch })
    }

    /// Builds a map of pairs `keys[i]`, `values[i]`. Waits for the device.
    ///
    /// On a GPU 50 bytes of memory traffic a pair of 32-bit keys and values, 100 a wider one; three
    /// launches, from 3.7 million pairs on four. [`reproducible`](MapOptions::reproducible)
    /// tells what a reproducible one needs besides. Equal keys, unless
    /// [`Unchecked`](Duplicates::Unchecked), are looked for and resolved while building. Errors:
    /// lengths that differ, more pairs than 31-bit indices reach, buffers of another device, a
    /// rejected duplicate, out of memory.
    pub fn build(
        &mut self,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Map<K, V>> {
        let plan = self.check(stream, keys, values)?;
        self.build_planned(plan, stream, keys, values)
    }
    /// A map with memory for a table of so many pairs, to be [rebuilt](Self::rebuild).
    pub(crate) fn with_room(&self, pairs: usize) -> Result<Map<K, V>> {
        self.empty(Plan::new(pairs, self.options.load)?)
    }
    /// As [`rebuild`](Self::rebuild), with this policy.
    pub(crate) fn rebuild_by(
        &mut self,
        duplicates: Duplicates,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        self.options.duplicates = duplicates;
        self.rebuild(map, stream, keys, values)
    }
    /// Makes room for a build of so many pairs in the memory of a map and of this builder, which
    /// then allocates nothing. A map that has too little memory loses what it holds.
    pub(crate) fn reserve_for(&mut self, map: &mut Map<K, V>, pairs: usize) -> Result<()> {
        let plan = Plan::new(pairs, self.options.load)?;
        if let Scratch::Kernels(kept) = &mut self.scratch {
            reserve::<LayoutOf<K, V>>(kept, &self.device, &plan)?;
        }
        if !map.fits(&plan) {
            *map = self.empty(plan)?;
        }
        Ok(())
    }
    /// A map with memory for a table of this plan.
    fn empty(&self, plan: Plan) -> Result<Map<K, V>> {
        Ok(Map {
            device: self.device.clone(),
            plan,
            storage: self.storage(&plan)?,
            report: Mutex::new(Report::Known(MapReport::default())),
        })
    }
    pub(super) fn build_planned(
        &mut self,
        plan: Plan,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<Map<K, V>> {
        let mut map = self.empty(plan)?;
        let start = stream.record()?;
        // By a seed that is to be kept, keys that have no room are placed by kernels, however long
        // it takes.
        let waits = self.device.runs_kernels() && !self.options.reproducible;
        let [first, then] = if waits { self.seeds.apart() } else { [self.seeds; 2] };
        self.run(&mut map, stream, (keys, values), Some(&start), first)?;
        if waits && map.outcome()?.is_err() {
            self.run(&mut map, stream, (keys, values), Some(&start), then)?;
            if let Report::InHeader(.., given_up) =
                map.report.get_mut().unwrap_or_else(|e| e.into_inner())
            {
                *given_up = 1;
            }
        }
        map.report()?;
        Ok(map)
    }
    /// Puts other pairs into a map, whatever it held: as [`build`](Self::build), but on a GPU
    /// nothing waits, unless equal keys are to be [rejected](Duplicates::Reject), and nothing
    /// is allocated if the map and this builder have had as many pairs before.
    ///
    /// The map answers for the new pairs from here on in the order of the stream. How it went,
    /// [`Map::report`] tells. Where nothing waits and nothing is allocated, it can be recorded
    /// in a [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a map on another device. After an error of the arguments,
    /// and when memory is out, the map is as it was; after any other error it holds nothing. A
    /// larger table is made before the old one is given back.
    pub fn rebuild(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        let plan = self.check(stream, keys, values)?;
        if map.device != self.device {
            let (found, expected) = (map.device.name(), self.device.name());
            return Err(Error::WrongDevice { name: "map", found, expected });
        }
        let done = self.replace(map, plan, stream, keys, values);
        // What is captured does not run now.
        let is_spoiled = !matches!(done, Ok(()) | Err(Error::OutOfMemory { .. }));
        if is_spoiled && !stream.is_capturing() {
            map.forget(stream);
        }
        done
    }
    fn replace(
        &mut self,
        map: &mut Map<K, V>,
        plan: Plan,
        stream: &Stream,
        keys: View<'_, K>,
        values: View<'_, V>,
    ) -> Result<()> {
        let larger = if map.fits(&plan) { None } else { Some(self.storage(&plan)?) };
        let plan = replace(&mut map.plan, plan);
        let storage = larger.map(|larger| replace(&mut map.storage, larger));
        let done = self.run(map, stream, (keys, values), None, self.seeds);
        // Memory is reserved before anything is written.
        if let Err(Error::OutOfMemory { .. }) = done {
            map.plan = plan;
            if let Some(storage) = storage {
                map.storage = storage;
            }
        }
        done
    }

    /// Checks what both take.
    fn check(&self, stream: &Stream, keys: View<'_, K>, values: View<'_, V>) -> Result<Plan> {
        check_length("values", values.len(), "keys", keys.len())?;
        keys.arg("keys", stream)?;
        values.arg("values", stream)?;
        if stream.device() != &self.device {
            let (found, expected) = (stream.device().name(), self.device.name());
            return Err(Error::WrongDevice { name: "stream", found, expected });
        }
        Plan::new(keys.len(), self.options.load)
    }
    /// Bytes that a map of so many pairs keeps, if none is stashed.
    pub(super) fn bytes_of(&self, pairs: usize) -> Result<usize> {
        let plan = Plan::new(pairs, self.options.load)?;
        let stash = if self.device.runs_kernels() {
            kernels::stash_words::<LayoutOf<K, V>>(&plan)
        } else {
            0
        };
        let words = plan.words::<LayoutOf<K, V>>() + stash;
        Ok(words * size_of::<u64>() + header::WORDS * size_of::<u32>())
    }
    /// Memory for a table.
    fn storage(&self, plan: &Plan) -> Result<Storage<LayoutOf<K, V>>> {
        let device = &self.device;
        Ok(match device.runs_kernels() {
            true => Storage::Kernels(kernels::Slots::new::<LayoutOf<K, V>>(device, plan)?),
            false => Storage::Cpu(OnCpu {
                table: Stored::Own(device.alloc(plan.words::<LayoutOf<K, V>>())?),
                stash: cpu::Stash::default(),
                seed: self.seeds.first,
                header: device.alloc(header::WORDS)?,
            }),
        })
    }
    /// Builds; `start`: a mark on the stream from which time is taken.
    fn run(
        &mut self,
        map: &mut Map<K, V>,
        stream: &Stream,
        (keys, values): (View<'_, K>, View<'_, V>),
        start: Option<&Event>,
        seeds: Seeds,
    ) -> Result<()> {
        let (MapOptions { duplicates, reproducible, .. }, plan) = (self.options, map.plan);
        let report = match (&mut self.scratch, &mut map.storage) {
            (
                Scratch::Cpu(scratch),
                Storage::Cpu(OnCpu {
                    table: Stored::Own(table),
                    stash,
                    seed: of_map,
                    header: words,
                }),
            ) => {
                let mut view = table.view_mut().slice(..plan.words::<LayoutOf<K, V>>())?;
                let (device, shape) = (&self.device, plan.shape);
                let Drawn { built: counts, seed, attempts } =
                    match (view.host_mut(), keys.host(), values.host()) {
                        (Some(table), Some(keys), Some(values)) => {
                            seeds.build(plan.most_stashed(), |seed, most| {
                                let how = cpu::How {
                                    policy: duplicates,
                                    reproducible,
                                    most_stashed: most,
                                };
                                cpu::build(
                                    device, shape, seed, keys, values, how, table, stash, scratch,
                                )
                            })?
                        }
                        _ => {
                            Drawn { built: cpu::Counts::default(), seed: seeds.first, attempts: 1 }
                        }
                    };
                *of_map = seed;
                if let Some(words) = words.view_mut().host_mut() {
                    words.copy_from_slice(&kernels::header_words(
                        seed,
                        counts.pairs,
                        stash.len(),
                        stash.held(),
                    ));
                }
                Report::Known(MapReport {
                    pairs: counts.pairs,
                    duplicates: counts.duplicates,
                    stashed: counts.stashed,
                    slots: plan.slots(),
                    bytes: table.bytes() + stash.bytes() + words.bytes(),
                    scratch_bytes: scratch.bytes(),
                    attempts,
                    overflowed: 0,
                    contested: 0,
                    device_seconds: seconds_since(stream, start)?,
                })
            }
            (Scratch::Kernels(kept), Storage::Kernels(table)) => {
                let memory = reserve::<LayoutOf<K, V>>(kept, &self.device, &plan)?;
                let input = kernels::Building { keys, values, duplicates, seeds, reproducible };
                kernels::build::<LayoutOf<K, V>>(stream, &plan, input, table, memory)?;
                Report::InHeader(memory.bytes(), seconds_since(stream, start)?, 0)
            }
            // A builder's and its maps' devices are the same, and a map that is built has memory of
            // its own.
            _ => Report::Known(MapReport::default()),
        };
        *map.report.lock().unwrap_or_else(|e| e.into_inner()) = report;
        if duplicates == Duplicates::Reject
            && map.outcome()?.is_ok_and(|report| report.duplicates > 0)
        {
            return Err(first_duplicate(&keys.download()?));
        }
        Ok(())
    }
}
impl<K: Key> MapBuilder<K, u32> {
    /// A map of the keys of groups that kernels have made, with their numbers as values; keys and
    /// starts come to `kept`. `plan`: [of as many](Plan::of_ordered). Waits.
    pub(crate) fn build_of_groups(
        &mut self,
        stream: &Stream,
        plan: Plan,
        groups: kernels::OrderedGroups<'_, K>,
        kept: (ViewMut<'_, K>, ViewMut<'_, u32>),
    ) -> Result<Map<K, u32>> {
        let mut map = self.empty(plan)?;
        let (Scratch::Kernels(scratch), Storage::Kernels(table)) =
            (&mut self.scratch, &mut map.storage)
        else {
            unreachable!("the device of the groups runs kernels")
        };
        let memory = reserve::<LayoutOf<K, u32>>(scratch, &self.device, &plan)?;
        let start = stream.record()?;
        kernels::build_of_groups(stream, &plan, groups, kept, table, memory)?;
        let report = Report::InHeader(memory.bytes(), seconds_since(stream, Some(&start))?, 0);
        *map.report.lock().unwrap_or_else(|e| e.into_inner()) = report;
        map.report()?;
        Ok(map)
    }
}
/// Memory for a build of this plan: what is kept, if it is enough, or more.
fn reserve<'a, L: kernels::DeviceLayout>(
    kept: &'a mut Option<Box<kernels::Scratch>>,
    device: &Device,
    plan: &Plan,
) -> Result<&'a mut kernels::Scratch> {
    let memory = match kept.take() {
        Some(memory) if memory.fits::<L>(plan) => memory,
        Some(memory) => Box::new(memory.grown::<L>(device, plan)?),
        None => Box::new(kernels::Scratch::new::<L>(device, plan)?),
    };
    Ok(kept.insert(memory))
}
