//! Sets of keys of more than 64 bits: see [`SetStore`].
use super::KeysUpdater;
use super::host::HostKeys;
use crate::device::{Device, Stream, View, ViewMut};
use crate::error::{Result, check_length};
use crate::fallible::{collect, extend};
use crate::file::filed::{Filed, Parts};
use crate::file::kind::TableKind;
use crate::file::reader::Mapping;
use crate::file::writer::Writer;
use crate::keys128::{Set128, Set128Builder};
use crate::rows::check_rows;
use crate::rows::file::Slots;
use crate::rows::update::{RowsUpdater, apply_to_keys, outcomes_of};
use crate::set::{SetOperation, SetOptions, SetStore};
use crate::table::update::{HostOperations, Operations, Outcome};
use crate::table::{BuildReport, Settings, contains};
use koel_kernels::set::combine::how;
use std::io::{Read, Seek, Write};

contains! { impl[] Set128, u128, |set| set }

#[allow(private_interfaces, reason = "other crates cannot name the trait")]
impl SetStore for Set128 {
    #[inline]
    fn check(n: usize, load: f64) -> Result<()> {
        check_rows(n, load)
    }
    type Builder = Set128Builder;
    #[inline]
    fn builder(device: &Device, options: SetOptions) -> Result<Set128Builder> {
        Set128Builder::new(device, options)
    }
    #[inline]
    fn build(builder: &mut Set128Builder, stream: &Stream, keys: View<'_, u128>) -> Result<Self> {
        builder.build(stream, keys)
    }
    #[inline]
    fn rebuild(
        &mut self,
        builder: &mut Set128Builder,
        stream: &Stream,
        keys: View<'_, u128>,
    ) -> Result<()> {
        builder.rebuild(self, stream, keys)
    }
    #[inline]
    fn device(&self) -> &Device {
        self.device()
    }
    #[inline]
    fn report(&self) -> Result<BuildReport> {
        self.report()
    }
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes()
    }
    #[inline]
    fn to_device(&self, device: &Device) -> Result<Self> {
        self.to_device(device)
    }
    fn keys<T: Send>(&self, convert: impl Fn(u128) -> T + Sync) -> Result<Vec<T>> {
        self.keys_view().download_map(convert)
    }
    #[inline]
    fn export_into(
        &self,
        stream: &Stream,
        mut keys: ViewMut<'_, u128>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<()> {
        let n = self.len();
        check_length("count", count.len(), "the total", 1)?;
        check_length("keys", keys.len().min(n), "keys of the set", n)?;
        keys.reborrow().slice(..n)?.copy_from(self.keys_view(), stream)?;
        count.copy_from_host(&[n as u64])
    }
    type Host<'s> = HostKeys<'s>;
    #[inline]
    fn host(&self) -> Result<Option<HostKeys<'_>>> {
        Ok(self.rows.on_host()?.map(HostKeys))
    }

    type Updater = KeysUpdater;
    #[inline]
    fn updater(device: &Device, options: SetOptions) -> Result<Self::Updater> {
        Settings::from(options).check()?;
        RowsUpdater::new(device).map(KeysUpdater)
    }
    #[inline]
    fn bytes_of_updater(updater: &Self::Updater) -> usize {
        updater.0.scratch_bytes()
    }
    #[inline]
    fn apply(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        operations: Operations<'_, SetOperation>,
        keys: View<'_, u128>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        apply_to_keys(&mut updater.0, &mut self.rows, stream, operations, keys, outcomes)
    }
    #[inline]
    fn update(
        &mut self,
        operations: HostOperations<'_, SetOperation>,
        keys: &[u128],
    ) -> Result<Vec<Outcome>> {
        let device = self.device().clone();
        let keys = device.stage(keys)?;
        operations.on(&device, |operations| {
            outcomes_of(&device, keys.view().len(), |stream, outcomes| {
                self.apply(stream, operations, keys.view(), outcomes)
            })
        })
    }
    #[inline]
    fn shrink_to(&mut self, load: f64) -> Result<()> {
        self.shrink_to(load)
    }
    fn combined<T: Send>(
        device: &Device,
        what: u32,
        keys: &[u128],
        others: Option<&[u128]>,
        convert: impl Fn(u128) -> T + Sync,
    ) -> Result<Vec<T>> {
        let others = others.unwrap_or(&[]);
        if what == how::UNION {
            let mut all = collect(keys.iter().copied())?;
            extend(&mut all, others.iter().copied())?;
            return SetStore::keys(&Set128::build(device, &all)?, convert);
        }
        let distinct = Set128::build(device, keys)?;
        if what == how::DISTINCT {
            return SetStore::keys(&distinct, convert);
        }
        let kept =
            Set128::build(device, others)?.filter(&distinct.keys()?, what == how::INTERSECTION)?;
        Ok(collect(kept.into_iter().map(convert))?)
    }

    const KIND: TableKind = TableKind::Set128;
    type Slots = Slots;
    fn write<W: Write + Seek>(&self, writer: Writer<'_, W>) -> Result<()> {
        Filed::write(self, writer)
    }
    fn read<R: Read + Seek>(parts: &mut Parts<'_, R>) -> Result<Self> {
        Filed::read(parts)
    }
    #[inline]
    fn file(&self) -> Option<&Mapping> {
        Filed::file(self)
    }
}
