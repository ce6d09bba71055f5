//! Maps as a [`Family`] of tables, whose entries are pairs.
use super::LayoutOf;
use super::kernels::{self, Building};
use crate::cpu;
use crate::device::{Device, Stream, View};
use crate::duplicates::{Duplicates, first_duplicate};
use crate::error::Result;
use crate::seed::Seeds;
use crate::table::plan::Plan;
use crate::table::slots::Slots;
use crate::table::{self, CpuBuild, Family, Handles, Settings, Table, grid};
use crate::types::{KeyBits, ValueBits};
use koel_kernels::map::find::{MapRef, map_contains, map_contains_bits, map_count};
use koel_kernels::table::layout::{EMPTY, Layout, Shape};
use koel_simt::{Buf, In};
use std::marker::PhantomData;

/// Entries of a map: pairs of a key and a value.
pub(crate) struct Pairs<K = u32, V = u32>(PhantomData<(K, V)>);

impl<K: KeyBits, V: ValueBits> Family for Pairs<K, V> {
    type Pairs = LayoutOf<K, V>;
    type Buckets = cpu::OfMap<LayoutOf<K, V>>;
    type Input<'a> = (View<'a, K>, View<'a, V>);
    type CpuScratch = cpu::Scratch<LayoutOf<K, V>>;
    type KernelScratch = kernels::Scratch;
    type Probe<'a> = cpu::Tables<'a, LayoutOf<K, V>>;
    type Ref = MapRef<LayoutOf<K, V>>;
    const NAMES: [&'static str; 2] = ["map", "map.shape"];
    const EMPTY_WORD: u64 = EMPTY;

    fn plan(n: usize, load: f64) -> Result<Plan> {
        Plan::new(n, load)
    }

    fn cpu_scratch(device: &Device) -> Self::CpuScratch {
        cpu::Scratch::new(device.pages())
    }
    fn build_on_cpu(
        build: CpuBuild<'_, Self>,
        (keys, values): Self::Input<'_>,
        scratch: &mut Self::CpuScratch,
    ) -> Result<Option<cpu::Counts>> {
        let CpuBuild { device, shape, seed, settings, max_stashed, words, stash } = build;
        let &Settings { duplicates: policy, reproducible, .. } = settings;
        let how = cpu::How { policy, reproducible, most_stashed: max_stashed };
        let (keys, values) = (keys.elements("keys")?, values.elements("values")?);
        cpu::build(device, shape, seed, keys, values, how, words, stash, scratch)
    }

    fn reserve<'a>(
        kept: &'a mut Option<kernels::Scratch>,
        device: &Device,
        plan: &Plan,
    ) -> Result<&'a mut kernels::Scratch> {
        type L<K, V> = LayoutOf<K, V>;
        let memory = match kept.take() {
            Some(memory) if memory.fits::<L<K, V>>(plan) => memory,
            Some(memory) => memory.grown::<L<K, V>>(device, plan)?,
            None => kernels::Scratch::new::<L<K, V>>(device, plan)?,
        };
        Ok(kept.insert(memory))
    }
    fn build_by_kernels(
        stream: &Stream,
        plan: &Plan,
        (settings, seeds): (&Settings, Seeds),
        (keys, values): Self::Input<'_>,
        table: &mut Slots,
        scratch: &mut kernels::Scratch,
    ) -> Result<()> {
        let &Settings { duplicates, reproducible, .. } = settings;
        let input = Building { keys, values, duplicates, seeds, reproducible };
        kernels::build::<LayoutOf<K, V>>(stream, plan, input, table, scratch)
    }
    fn check_built(
        table: &Table<Self>,
        settings: &Settings,
        (keys, _): Self::Input<'_>,
    ) -> Result<()> {
        if settings.duplicates == Duplicates::Reject && table.has_dropped()? {
            return Err(first_duplicate(&keys.download()?));
        }
        Ok(())
    }

    #[inline]
    fn probe<'a>(
        shape: Shape,
        seed: u32,
        words: &'a [u64],
        stash: &'a cpu::Stash<LayoutOf<K, V>>,
    ) -> Result<Self::Probe<'a>> {
        cpu::Tables::new(shape, seed, words, stash)
    }
    fn table_ref(handles: Handles<u64>) -> MapRef<LayoutOf<K, V>> {
        let Handles { shape, stash_bits, slots, stash, header } = handles;
        MapRef { shape, stash_bits, slots, stash, header, layout: PhantomData }
    }
    unsafe fn launch_contains(
        stream: &Stream,
        table: Self::Ref,
        n: u32,
        queries: In<K>,
        found: Buf<u8>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { map_contains::launch(stream, grid(n), table, n, queries, found) }
    }
    unsafe fn launch_contains_bits(
        stream: &Stream,
        table: Self::Ref,
        n: u32,
        queries: In<K>,
        found: Buf<u32>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { map_contains_bits::launch(stream, grid(n), table, n, queries, found) }
    }
    unsafe fn launch_count(
        stream: &Stream,
        table: Self::Ref,
        n: u32,
        queries: In<K>,
        count: Buf<u64>,
    ) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe { map_count::launch(stream, grid(n), table, n, queries, count) }
    }
}
impl<L: Layout> table::Scratch for cpu::Scratch<L> {
    fn bytes(&self) -> usize {
        self.bytes()
    }
    fn begun(&mut self) -> Option<&mut bool> {
        Some(&mut self.begun)
    }
}
impl table::Scratch for kernels::Scratch {
    fn bytes(&self) -> usize {
        self.bytes()
    }
}
