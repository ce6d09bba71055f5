//! Building sets: see [`SetBuilder`].
use super::kernels::{self, Lengths, Passes, plan_of, slots_of};
use super::{OnCpu, Report, Set, SetOptions, SetReport, Storage};
use crate::cpu;
use crate::device::{Device, Event, Stream, View};
use crate::error::{Error, Result};
use crate::file::stored::Stored;
use crate::map::Key;
use crate::map::kernels::{header_words, stash_words};
use crate::map::plan::Plan;
use crate::map::seconds_since;
use crate::seed::{Drawn, Seeds};
use koel_kernels::table::header;
use std::mem::replace;
use std::sync::Mutex;

/// Builds sets, and keeps the memory that building needs from one build to the next.
pub struct SetBuilder<K: Key = u32> {
    device: Device,
    options: SetOptions,
    seeds: Seeds,
    scratch: Scratch<K>,
}
enum Scratch<K: Key> {
    Cpu(cpu::set::Scratch),
    /// What the last build needed.
    Kernels(Option<Passes<K>>),
}

impl<K: Key> SetBuilder<K> {
    /// Errors: a load outside 0.3 to 0.95.
    pub fn new(device: &Device, options: SetOptions) -> Result<SetBuilder<K>> {
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
            false => Scratch::Cpu(cpu::set::Scratch::default()),
        };
        let seeds = Seeds::new(options.seed, false);
        Ok(SetBuilder { device: device.clone(), options, seeds, scratch })
    }

    /// Builds a set of these keys; equal ones are one. Waits for the device.
    ///
    /// On a GPU 25 bytes of memory traffic a 32-bit key at load 0.8, 50 a 64-bit key, and a third
    /// less up to 7.4 million keys (half as many wider ones), which need one pass; three
    /// launches or four. Errors: more keys than 31-bit indices reach, buffers of another device,
    /// out of memory.
    pub fn build(&mut self, stream: &Stream, keys: View<'_, K>) -> Result<Set<K>> {
        let plan = self.check(stream, keys)?;
        self.build_planned(plan, stream, keys)
    }
    pub(super) fn build_planned(
        &mut self,
        plan: Plan,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<Set<K>> {
        let mut set = Set {
            device: self.device.clone(),
            plan,
            storage: self.storage(&plan)?,
            report: Mutex::new(Report::Known(SetReport::default())),
        };
        let start = stream.record()?;
        let waits = self.device.runs_kernels();
        let [first, then] = if waits { self.seeds.apart() } else { [self.seeds; 2] };
        self.run(&mut set, stream, keys, Some(&start), first)?;
        if waits && set.outcome()?.is_err() {
            self.run(&mut set, stream, keys, Some(&start), then)?;
            if let Report::InHeader(.., given_up) =
                set.report.get_mut().unwrap_or_else(|e| e.into_inner())
            {
                *given_up = 1;
            }
        }
        set.report()?;
        Ok(set)
    }
    /// Puts other keys into a set, whatever it held: as [`build`](Self::build), but on a GPU
    /// nothing waits, and nothing is allocated if the set and this builder have had as many
    /// keys before.
    ///
    /// The set answers for the new keys from here on in the order of the stream. How it went,
    /// [`Set::report`] tells. Where nothing is allocated, it can be recorded in a
    /// [graph](Stream::capture).
    ///
    /// Errors: as [`build`](Self::build); a set on another device. After an error of the arguments,
    /// and when memory is out, the set is as it was; after any other error it holds nothing. A
    /// larger table is made before the old one is given back.
    pub fn rebuild(&mut self, set: &mut Set<K>, stream: &Stream, keys: View<'_, K>) -> Result<()> {
        let plan = self.check(stream, keys)?;
        if set.device != self.device {
            let (found, expected) = (set.device.name(), self.device.name());
            return Err(Error::WrongDevice { name: "set", found, expected });
        }
        let done = self.replace(set, plan, stream, keys);
        // What is captured does not run now.
        let is_spoiled = !matches!(done, Ok(()) | Err(Error::OutOfMemory { .. }));
        if is_spoiled && !stream.is_capturing() {
            set.forget(stream);
        }
        done
    }
    fn replace(
        &mut self,
        set: &mut Set<K>,
        plan: Plan,
        stream: &Stream,
        keys: View<'_, K>,
    ) -> Result<()> {
        let fits = match &set.storage {
            Storage::Kernels(table) => kernels::fits(table, &plan),
            Storage::Cpu(OnCpu { table, .. }) => {
                table.own().is_some_and(|table| table.len() >= slots_of::<K>(&plan))
            }
        };
        let larger = if fits { None } else { Some(self.storage(&plan)?) };
        let plan = replace(&mut set.plan, plan);
        let storage = larger.map(|larger| replace(&mut set.storage, larger));
        let done = self.run(set, stream, keys, None, self.seeds);
        // Memory is reserved before anything is written.
        if let Err(Error::OutOfMemory { .. }) = done {
            set.plan = plan;
            if let Some(storage) = storage {
                set.storage = storage;
            }
        }
        done
    }

    /// Checks what both take.
    fn check(&self, stream: &Stream, keys: View<'_, K>) -> Result<Plan> {
        keys.arg("keys", stream)?;
        if stream.device() != &self.device {
            let (found, expected) = (stream.device().name(), self.device.name());
            return Err(Error::WrongDevice { name: "stream", found, expected });
        }
        plan_of::<K>(keys.len(), self.options.load)
    }
    /// Bytes that a set of so many keys keeps, if none is stashed.
    pub(super) fn bytes_of(&self, keys: usize) -> Result<usize> {
        let plan = plan_of::<K>(keys, self.options.load)?;
        let stash = if self.device.runs_kernels() { stash_words::<K::Pairs>(&plan) } else { 0 };
        let slots = slots_of::<K>(&plan) * size_of::<K>();
        Ok(slots + stash * size_of::<u64>() + header::WORDS * size_of::<u32>())
    }
    /// Memory for a set.
    fn storage(&self, plan: &Plan) -> Result<Storage<K>> {
        let device = &self.device;
        Ok(match device.runs_kernels() {
            true => Storage::Kernels(kernels::slots(device, plan)?),
            false => Storage::Cpu(OnCpu {
                table: Stored::Own(device.alloc(slots_of::<K>(plan))?),
                stash: cpu::Stash::default(),
                seed: self.seeds.first,
                header: device.alloc(header::WORDS)?,
            }),
        })
    }
    /// Builds; `start`: a mark on the stream from which time is taken.
    fn run(
        &mut self,
        set: &mut Set<K>,
        stream: &Stream,
        keys: View<'_, K>,
        start: Option<&Event>,
        seeds: Seeds,
    ) -> Result<()> {
        let plan = set.plan;
        let report = match (&mut self.scratch, &mut set.storage) {
            (
                Scratch::Cpu(scratch),
                Storage::Cpu(OnCpu {
                    table: Stored::Own(table),
                    stash,
                    seed: of_set,
                    header: words,
                }),
            ) => {
                let mut view = table.view_mut();
                let Drawn { built: counts, seed, attempts } = match (view.host_mut(), keys.host()) {
                    (Some(table), Some(keys)) => {
                        seeds.build(plan.most_stashed(), |seed, most| {
                            let table = &mut table[..slots_of::<K>(&plan)];
                            cpu::set::build(
                                &self.device,
                                plan.shape,
                                seed,
                                keys,
                                most,
                                table,
                                stash,
                                scratch,
                            )
                        })?
                    }
                    _ => {
                        Drawn { built: cpu::set::Counts::default(), seed: seeds.first, attempts: 1 }
                    }
                };
                *of_set = seed;
                if let Some(words) = words.view_mut().host_mut() {
                    words.copy_from_slice(&header_words(
                        seed,
                        counts.keys,
                        stash.len(),
                        stash.held(),
                    ));
                }
                Report::Known(SetReport {
                    keys: counts.keys,
                    duplicates: counts.duplicates,
                    stashed: counts.stashed,
                    slots: slots_of::<K>(&plan),
                    bytes: table.bytes() + stash.bytes() + words.bytes(),
                    scratch_bytes: scratch.bytes(),
                    attempts,
                    overflowed: 0,
                    device_seconds: seconds_since(stream, start)?,
                })
            }
            (Scratch::Kernels(kept), Storage::Kernels(table)) => {
                let passes =
                    kernels::reserve(&self.device, kept, &plan, Lengths::of_set::<K>(&plan))?;
                kernels::build(stream, &plan, seeds, keys, table, passes)?;
                Report::InHeader(passes.bytes(), seconds_since(stream, start)?, 0)
            }
            // A builder's and its sets' devices are the same, and a set that is built has memory of
            // its own.
            _ => Report::Known(SetReport::default()),
        };
        *set.report.lock().unwrap_or_else(|e| e.into_inner()) = report;
        Ok(())
    }
}
