//! Maps in files: see [`file`](crate::file).
use super::plan::Plan;
use super::{Contents, Key, LayoutOf, Map, MapReport, OnCpu, Report, Storage, Value, kernels};
use crate::cpu;
use crate::device::{Buffer, Device, DeviceKind, Stream};
use crate::error::{Error, Result};
use crate::file::FileError;
use crate::file::format::{Header, MOST_STASHED};
use crate::file::reader::{Mapping, Reader, stash_of};
use crate::file::writer::{Writer, replace};
use koel_kernels::map::header;
use koel_kernels::map::layout::{EMPTY, Layout};
use koel_simt::In;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Mutex;

#[cfg(test)]
mod tests;

/// Words that are brought from a device and written at a time.
const PIECE: usize = 1 << 18;

/// The buckets of a map on the CPU.
pub(super) enum Buckets {
    /// In memory of its own.
    Own(Buffer<u64>),
    /// In a file, to read.
    Mapped(Box<Mapping>),
}
impl Buckets {
    pub fn words(&self) -> &[u64] {
        match self {
            Buckets::Own(buffer) => buffer.host().unwrap_or(&[]),
            Buckets::Mapped(mapping) => mapping.words(),
        }
    }
    pub fn bytes(&self) -> usize {
        match self {
            Buckets::Own(buffer) => buffer.bytes(),
            Buckets::Mapped(mapping) => size_of_val(mapping.words()),
        }
    }
    /// As a kernel's argument.
    pub fn arg(&self, device: &Device, stream: &Stream) -> Result<In<u64>> {
        match self {
            Buckets::Own(buffer) => buffer.view().arg("slots", stream),
            Buckets::Mapped(mapping) => device.stage(mapping.words())?.view().arg("slots", stream),
        }
    }
    /// Whether a table of so many words can be built in them. A file is never written to.
    pub fn fits(&self, words: usize) -> bool {
        matches!(self, Buckets::Own(buffer) if buffer.len() == words)
    }
    /// A copy on a device. What is in a file is checked first: kernels rely on the number of pairs.
    pub fn upload<L: Layout>(&self, device: &Device) -> Result<Buffer<u64>> {
        if let Buckets::Mapped(mapping) = self {
            mapping.verify::<L>()?;
        }
        device.upload(self.words())
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Writes it to a file, which [`load`](Self::load) and [`open`](Self::open) read, on any device.
    ///
    /// The file is written beside its place and renamed: at `path` there is all of it or what was there before, whatever happens. The
    /// same map gives the same bytes each time. It is as long as the table, 8 bytes for a slot of 32-bit keys and values, 16 for one of
    /// wider pairs, and 4,096 bytes. Waits for the device, copies through host memory piece by piece, and waits for the disk.
    ///
    /// Errors: the file cannot be written; more than 2^20 pairs in the stash, which only keys that were chosen to collide cause: build
    /// with another seed; of a map that was [opened](Self::open), faults of its file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        replace(path, |file| self.write(file, path))
    }
    /// Writes the bytes of a file to a writer, from its beginning. Otherwise as [`save`](Self::save).
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let mut bytes = std::io::Cursor::new(vec![]);
    /// koel::Map::build(&device, &[3u32, 5, 7], &[30u64, 50, 70])?.save_to(&mut bytes)?;
    /// let map = koel::Map::<u32, u64>::load_bytes(&device, bytes.get_ref())?;
    /// assert_eq!(map.get(&[5, 6])?, [Some(50), None]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn save_to(&self, to: &mut (impl Write + Seek)) -> Result<()> {
        self.write(to, Path::new("(stream)"))
    }
    fn write(&self, to: &mut (impl Write + Seek), path: &Path) -> Result<()> {
        type L<K, V> = LayoutOf<K, V>;
        let report = self.report()?;
        let Contents { stash, seed, held } = self.contents()?;
        let mut stashed = Vec::new();
        // Only a stash that holds something has slots to speak of.
        if report.stashed > 0 {
            stashed.extend(cpu::Stash::<L<K, V>>::from_slots(&stash, None).iter());
        }
        if stashed.len() as u64 > MOST_STASHED {
            return Err(Error::TooMany { what: "pairs in the stash", n: stashed.len(), max: MOST_STASHED as usize });
        }
        stashed.sort_unstable_by_key(|&pair| L::<K, V>::key(pair));
        let mut words = vec![0; stashed.len() * L::<K, V>::SLOT_WORDS];
        for (at, &pair) in stashed.iter().enumerate() {
            cpu::put_pair::<L<K, V>>(&mut words, at, pair);
        }
        let (pairs, duplicates) = (report.pairs as u64, report.duplicates as u64);
        let held = held.map(Into::into);
        let mut header = Header::new::<L<K, V>>(self.plan.shape, seed, held, pairs, duplicates, stashed.len() as u64);
        // What could not be read again is not written.
        stash_of::<L<K, V>>(&words, None, header.stash.offset)
            .map_err(|kind| FileError { path: path.to_owned(), kind })?;

        let mut writer = Writer::new(to, path)?;
        match &self.storage {
            Storage::Cpu(OnCpu { table, .. }) => {
                if let Buckets::Mapped(mapping) = table {
                    mapping.verify::<L<K, V>>()?;
                }
                table.words().chunks(PIECE).try_for_each(|piece| writer.words(piece))?;
            }
            Storage::Kernels(table) => {
                let all = self.plan.words::<L<K, V>>();
                for start in (0..all).step_by(PIECE) {
                    writer.words(&table.slots.view().slice(start..all.min(start + PIECE))?.download()?)?;
                }
            }
        }
        header.slots.checksum = writer.end_section();
        writer.words(&words)?;
        header.stash.checksum = writer.end_section();
        writer.finish(&header)
    }

    /// Reads a file that [`save`](Self::save) wrote, on any device, into memory of a device. The answers are the same.
    ///
    /// Reads the file once, piece by piece, and checks all of it. In its [report](Self::report) there are no seconds, no attempts and no
    /// scratch memory. Errors: a file that cannot be read or is not what it should be, with what and where
    /// ([`FileErrorKind`](crate::file::FileErrorKind)); out of memory.
    pub fn load(device: &Device, path: impl AsRef<Path>) -> Result<Map<K, V>> {
        Map::of_reader(device, Reader::open(path.as_ref())?)
    }
    /// As [`load`](Self::load), of the bytes of a file in memory.
    pub fn load_bytes(device: &Device, bytes: &[u8]) -> Result<Map<K, V>> {
        Map::of_reader(device, Reader::of_bytes(bytes)?)
    }
    fn of_reader<R: Read + Seek>(device: &Device, mut reader: Reader<R>) -> Result<Map<K, V>> {
        reader.check_types::<LayoutOf<K, V>>()?;
        let stash = reader.stash::<LayoutOf<K, V>>()?;
        let mut slots = device.alloc::<u64>(reader.header().slots.bytes as usize / 8)?;
        let (mut to, mut start) = (slots.view_mut(), 0);
        reader.slots::<LayoutOf<K, V>>(|piece| {
            let end = start + piece.len();
            to.reborrow().slice(start..end)?.copy_from_host(piece)?;
            start = end;
            Ok(())
        })?;
        let header = *reader.header();
        if !device.runs_kernels() {
            return Map::of_file(device, &header, |words| {
                Ok(Storage::Cpu(OnCpu {
                    table: Buckets::Own(slots),
                    stash,
                    seed: header.seed,
                    header: device.upload(words)?,
                }))
            });
        }
        let none = vec![EMPTY; LayoutOf::<K, V>::SLOT_WORDS];
        let stash = device.upload(if stash.is_empty() { &none } else { stash.slots() })?;
        Map::of_file(device, &header, |words| {
            Ok(Storage::Kernels(kernels::Slots { slots, stash, header: device.upload(words)? }))
        })
    }

    /// Opens a file that [`save`](Self::save) wrote where it is: lookups on the CPU, with all cores, look into the file's pages, and
    /// nothing is copied.
    ///
    /// Reads the header and the stash (normally empty), whatever the size of the file; the system brings other pages in when they are
    /// first touched. Two programs that open the same file share its pages. [`verify`](Self::verify) checks the rest,
    /// [`to_device`](Self::to_device) takes it to a GPU in one copy, and [`rebuild`](super::MapBuilder::rebuild) gives the map memory of
    /// its own: nothing is ever written to the file.
    ///
    /// While the map is there, nobody may change the file's bytes or cut it short. koel itself does neither: [`save`](Self::save)
    /// puts a new file in its place, which this map does not see. If another program does, lookups may tell nonsense, though they look
    /// nowhere else; and if it cuts the file short, the system ends a program that touches what is gone (`SIGBUS` on Unix). Where that
    /// can happen, [`load`](Self::load) is the better way.
    ///
    /// Errors: a file that cannot be read or is not what it should be, with what and where
    /// ([`FileErrorKind`](crate::file::FileErrorKind)); damage to the slots is not looked for.
    pub fn open(path: impl AsRef<Path>) -> Result<Map<K, V>> {
        Map::open_on(&Device::cpu()?, path)
    }
    /// As [`open`](Self::open), on a CPU device that is there already, which has its own number of threads.
    ///
    /// Errors: besides, a device that is not the CPU.
    pub fn open_on(device: &Device, path: impl AsRef<Path>) -> Result<Map<K, V>> {
        if device.kind() != DeviceKind::Cpu {
            let expected = "a CPU: load copies a file to other devices".into();
            return Err(Error::Setting { field: "device", found: device.name(), expected });
        }
        let mut reader = Reader::open(path.as_ref())?;
        reader.check_types::<LayoutOf<K, V>>()?;
        let stash = reader.stash()?;
        let table = Buckets::Mapped(Box::new(reader.map()?));
        let header = reader.header();
        Map::of_file(device, header, |words| {
            Ok(Storage::Cpu(OnCpu { table, stash, seed: header.seed, header: device.upload(words)? }))
        })
    }
    /// Checks all bytes of the file that it was [opened](Self::open) from: reads it once. Of other maps there is nothing to check.
    ///
    /// Errors: slots that are not those which were saved.
    pub fn verify(&self) -> Result<()> {
        match &self.storage {
            Storage::Cpu(OnCpu { table: Buckets::Mapped(mapping), .. }) => mapping.verify::<LayoutOf<K, V>>(),
            _ => Ok(()),
        }
    }

    /// A map of a file; `storage` gets the words of the header that lookups want.
    fn of_file(
        device: &Device,
        header: &Header,
        storage: impl FnOnce(&[u32; header::WORDS]) -> Result<Storage<LayoutOf<K, V>>>,
    ) -> Result<Map<K, V>> {
        let held = header.held.map(V::narrowed);
        let (pairs, stashed) = (header.pairs as usize, header.stashed() as usize);
        let storage = storage(&kernels::header_words(header.seed, pairs, stashed, held))?;
        let mut plan = Plan::of_table((header.pairs + header.duplicates) as usize, header.shape)?;
        if let Storage::Kernels(table) = &storage {
            plan.stash_bits = (table.stash.len() / LayoutOf::<K, V>::SLOT_WORDS).ilog2();
        }
        let map =
            Map { device: device.clone(), plan, storage, report: Mutex::new(Report::Known(MapReport::default())) };
        let report = MapReport {
            pairs: header.pairs as usize,
            duplicates: header.duplicates as usize,
            stashed: header.stashed() as usize,
            slots: plan.slots(),
            bytes: map.bytes(),
            ..MapReport::default()
        };
        *map.report.lock().unwrap_or_else(|e| e.into_inner()) = Report::Known(report);
        Ok(map)
    }
}
