//! What differs between maps and sets.
use super::plan::Plan;
use super::slots::{Handles, Slots, stash_words};
use super::words_of;
use super::{EntryOf, KeyOf, Settings, Table, WordOf};
use crate::concurrent::SharedLayout;
use crate::cpu;
use crate::device::{Device, Element, Stream};
use crate::error::Result;
use crate::seed::Seeds;
use koel_kernels::map::kinds::MapLayout;
use koel_kernels::table::header;
use koel_kernels::table::layout::Shape;
use koel_simt::{Buf, In};
use std::hash::Hash;

/// Layouts whose keys and values can be stored in device memory, and in host memory that threads
/// share.
pub trait DeviceLayout: MapLayout<Key: Element, Value: Element> + SharedLayout {}
impl<L: MapLayout<Key: Element, Value: Element> + SharedLayout> DeviceLayout for L {}

/// Kind of entries of a table, and the code that is special to it.
pub(crate) trait Family: Sized {
    /// Layout of an entry in the stash, and of the operations of updates.
    type Pairs: DeviceLayout<Key: Hash>;
    /// Layout of the buckets.
    type Buckets: cpu::Buckets<Pairs = Self::Pairs, Word: Element>;
    /// Arrays that a table is built from: of equal length, and checked.
    type Input<'a>: Copy;
    /// Scratch memory for builds by the CPU engine, and by kernels.
    type CpuScratch: Scratch;
    type KernelScratch: Scratch;
    /// The table as lookups by the CPU engine see it.
    type Probe<'a>: cpu::Probe<Key = KeyOf<Self>, Value = EntryOf<Self>>
    where
        Self: 'a;
    /// The table as a kernel argument.
    type Ref: Copy;
    /// Name of the table in errors, and name of its shape.
    const NAMES: [&'static str; 2];
    /// Word of an empty bucket.
    const EMPTY_WORD: WordOf<Self>;

    /// Plans a table for `n` entries.
    ///
    /// Errors: more entries than 31-bit indices can address.
    fn plan(n: usize, load: f64) -> Result<Plan>;

    fn cpu_scratch(device: &Device) -> Self::CpuScratch;
    /// Builds with the CPU engine. Returns `None` if more than `max_stashed` entries would be
    /// stashed.
    fn build_on_cpu(
        build: CpuBuild<'_, Self>,
        input: Self::Input<'_>,
        scratch: &mut Self::CpuScratch,
    ) -> Result<Option<cpu::Counts>>;

    /// Returns memory for a build of this plan: `kept` if that suffices, otherwise new memory.
    fn reserve<'a>(
        kept: &'a mut Option<Self::KernelScratch>,
        device: &Device,
        plan: &Plan,
    ) -> Result<&'a mut Self::KernelScratch>;
    /// Launches a build. The header states the result once it has run.
    fn build_by_kernels(
        stream: &Stream,
        plan: &Plan,
        how: (&Settings, Seeds),
        input: Self::Input<'_>,
        table: &mut Slots<WordOf<Self>>,
        scratch: &mut Self::KernelScratch,
    ) -> Result<()>;

    /// Checks a newly built table.
    ///
    /// Errors: entries that the settings reject.
    fn check_built(_: &Table<Self>, _: &Settings, _: Self::Input<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns what the CPU engine needs for lookups.
    ///
    /// Errors: lengths that do not fit the shape.
    fn probe<'a>(
        shape: Shape,
        seed: u32,
        words: &'a [WordOf<Self>],
        stash: &'a cpu::Stash<Self::Pairs>,
    ) -> Result<Self::Probe<'a>>;
    fn table_ref(handles: Handles<WordOf<Self>>) -> Self::Ref;
    /// Launches a lookup that writes a byte per key.
    ///
    /// # Safety
    /// There must be `n` queries and `n` bytes; the table must be as it was built.
    unsafe fn launch_contains(
        stream: &Stream,
        table: Self::Ref,
        n: u32,
        queries: In<KeyOf<Self>>,
        found: Buf<u8>,
    ) -> Result<()>;
    /// Launches a lookup that writes a bit per key.
    ///
    /// # Safety
    /// There must be `n` queries, and a word for every 32 of them; the table must be as it was
    /// built.
    unsafe fn launch_contains_bits(
        stream: &Stream,
        table: Self::Ref,
        n: u32,
        queries: In<KeyOf<Self>>,
        found: Buf<u32>,
    ) -> Result<()>;
    /// Launches a lookup that adds the number of keys found to one word.
    ///
    /// # Safety
    /// There must be `n` queries and one word; the table must be as it was built.
    unsafe fn launch_count(
        stream: &Stream,
        table: Self::Ref,
        n: u32,
        queries: In<KeyOf<Self>>,
        count: Buf<u64>,
    ) -> Result<()>;
}
/// A build by the CPU engine.
pub(crate) struct CpuBuild<'a, F: Family> {
    pub device: &'a Device,
    pub shape: Shape,
    pub seed: u32,
    pub settings: &'a Settings,
    pub max_stashed: usize,
    /// Words of the buckets.
    pub words: &'a mut [WordOf<F>],
    pub stash: &'a mut cpu::Stash<F::Pairs>,
}
/// Scratch memory that a builder keeps.
pub(crate) trait Scratch {
    fn bytes(&self) -> usize;
    /// Whether a build has begun to write the table. Kernels reserve all memory before they do.
    fn begun(&mut self) -> Option<&mut bool> {
        None
    }
}
impl<W: Element> Slots<W> {
    /// Allocates memory for a table of this plan.
    pub(crate) fn new<F: Family>(device: &Device, plan: &Plan) -> Result<Slots<W>>
    where
        F::Buckets: crate::cpu::Buckets<Word = W>,
    {
        let slots = device.alloc(words_of::<F>(plan.shape))?;
        let stash = device.alloc(stash_words::<F::Pairs>(plan))?;
        Ok(Slots { slots, stash, header: device.alloc(header::WORDS)? })
    }
    /// Returns whether the memory suffices for a table of this plan.
    pub(crate) fn fits<F: Family>(&self, plan: &Plan) -> bool {
        self.slots.len() >= words_of::<F>(plan.shape)
            && self.stash.len() >= stash_words::<F::Pairs>(plan)
    }
}
/// Returns the bytes of a table that kernels build.
pub(crate) fn device_bytes<F: Family>(plan: &Plan) -> usize {
    words_of::<F>(plan.shape) * size_of::<WordOf<F>>()
        + stash_words::<F::Pairs>(plan) * size_of::<u64>()
        + header::WORDS * size_of::<u32>()
}
