//! Sets as a [`Family`] of tables, whose entries are keys.
use super::kernels::{self, Lengths, Passes, plan_of};
use crate::cpu;
use crate::device::{Device, Stream, View};
use crate::error::Result;
use crate::seed::Seeds;
use crate::table::plan::Plan;
use crate::table::slots::Slots;
use crate::table::{self, CpuBuild, Family, Handles, Settings, grid};
use crate::types::KeyBits;
use koel_kernels::set::find::{SetRef, set_contains, set_contains_bits, set_count};
use koel_kernels::table::layout::Shape;
use koel_simt::{Buf, In};
use std::marker::PhantomData;

/// Entries of a set: keys alone.
pub(crate) struct Keys<K = u32>(PhantomData<K>);

impl<K: KeyBits> Family for Keys<K> {
    type Pairs = K::Pairs;
    type Buckets = cpu::OfSet<K>;
    type Input<'a> = View<'a, K>;
    type CpuScratch = cpu::set::Scratch;
    type KernelScratch = Passes<K>;
    type Probe<'a> = cpu::set::Keys<'a, K>;
    type Ref = SetRef<K>;
    const NAMES: [&'static str; 2] = ["set", "set.shape"];
    const EMPTY_WORD: K = K::EMPTY;

    fn plan(n: usize, load: f64) -> Result<Plan> {
        plan_of::<K>(n, load)
    }

    fn cpu_scratch(_: &Device) -> cpu::set::Scratch {
        cpu::set::Scratch::default()
    }
    fn build_on_cpu(
        build: CpuBuild<'_, Self>,
        keys: View<'_, K>,
        scratch: &mut cpu::set::Scratch,
    ) -> Result<Option<cpu::Counts>> {
        let CpuBuild { device, shape, seed, settings: _, max_stashed, words, stash } = build;
        let keys = keys.elements("keys")?;
        let counts =
            cpu::set::build(device, shape, seed, keys, max_stashed, words, stash, scratch)?;
        Ok(counts.map(|cpu::set::Counts { keys: pairs, duplicates, stashed }| cpu::Counts {
            pairs,
            duplicates,
            stashed,
            evictions: 0,
        }))
    }

    fn reserve<'a>(
        kept: &'a mut Option<Passes<K>>,
        device: &Device,
        plan: &Plan,
    ) -> Result<&'a mut Passes<K>> {
        kernels::reserve(device, kept, plan, Lengths::of_set::<K>(plan))
    }
    fn build_by_kernels(
        stream: &Stream,
        plan: &Plan,
        (_, seeds): (&Settings, Seeds),
        keys: View<'_, K>,
        table: &mut Slots<K>,
        scratch: &mut Passes<K>,
    ) -> Result<()> {
        kernels::build(stream, plan, seeds, keys, table, scratch)
    }

    #[inline]
    fn probe<'a>(
        shape: Shape,
        seed: u32,
        words: &'a [K],
        stash: &'a cpu::Stash<K::Pairs>,
    ) -> Result<cpu::set::Keys<'a, K>> {
        cpu::set::Keys::new(shape, seed, words, stash)
    }
    fn table_ref(handles: Handles<K>) -> SetRef<K> {
        let Handles { shape, stash_bits, slots, stash, header } = handles;
        SetRef { shape, stash_bits, slots, stash, header }
    }
    unsafe fn launch_contains(
        stream: &Stream,
        table: SetRef<K>,
        n: u32,
        queries: In<K>,
        found: Buf<u8>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { set_contains::launch(stream, grid(n), table, n, queries, found) }
    }
    unsafe fn launch_contains_bits(
        stream: &Stream,
        table: SetRef<K>,
        n: u32,
        queries: In<K>,
        found: Buf<u32>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { set_contains_bits::launch(stream, grid(n), table, n, queries, found) }
    }
    unsafe fn launch_count(
        stream: &Stream,
        table: SetRef<K>,
        n: u32,
        queries: In<K>,
        count: Buf<u64>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { set_count::launch(stream, grid(n), table, n, queries, count) }
    }
}
impl table::Scratch for cpu::set::Scratch {
    fn bytes(&self) -> usize {
        self.bytes()
    }
    fn begun(&mut self) -> Option<&mut bool> {
        Some(&mut self.begun)
    }
}
impl<K: KeyBits> table::Scratch for Passes<K> {
    fn bytes(&self) -> usize {
        self.bytes()
    }
}
