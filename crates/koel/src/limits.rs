//! Measures the limits of a machine: random reads and copies.
//!
//! A hash table lookup needs at least one random read, so the rate of random reads from memory of
//! the table's size bounds the rate of individual lookups. Rates differ between machines of the
//! same type, and over time on a shared machine: measure the limit and the table in the same run.
//!
//! Every measured read is checked against what was written.
//!
//! ```
//! let stream = koel::Device::cpu()?.stream()?;
//! let reads = koel::limits::random_reads(&stream, 1 << 16, 3)?;
//! assert!(reads.rates.median > 0.0 && reads.rates.min <= reads.rates.max);
//! # Ok::<(), koel::Error>(())
//! ```
use crate::device::memory::{Pages, map, prefetch};
use crate::device::{Device, DeviceKind, Stream};
use crate::error::{Error, Result};
use koel_kernels::probe::{
    number_sectors, random_sector, random_sectors, sector_digest, sector_words,
};
use rayon::prelude::*;

/// Warm-up runs, which are not counted.
const WARM_UP: usize = 2;

/// Work per second, over the runs of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The median run; for an even number of runs, the slower of the middle two.
    pub median: f64,
    /// The slowest run.
    pub min: f64,
    /// The fastest run.
    pub max: f64,
}
impl Rates {
    /// Returns the rates of runs that each did `work` and took these seconds. A run too short for
    /// the clock counts as 1 ns. Without runs, all rates are zero.
    pub fn of(work: f64, seconds: &[f64]) -> Rates {
        let mut rates = seconds.iter().map(|s| work / s.max(1e-9)).collect::<Vec<f64>>();
        rates.sort_by(f64::total_cmp);
        match rates[..] {
            [] => Rates { median: 0.0, min: 0.0, max: 0.0 },
            [min, .., max] => Rates { median: rates[(rates.len() - 1) / 2], min, max },
            [one] => Rates { median: one, min: one, max: one },
        }
    }
}

/// Measured random reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomReads {
    /// Size of the memory read from, in bytes: the requested size rounded up to whole reads.
    pub table_bytes: usize,
    /// Size and alignment of one read, in bytes: a sector of 32 on a GPU, a cache line of 64 on a
    /// CPU.
    pub read_bytes: usize,
    /// Reads per run.
    pub reads: usize,
    /// Reads per second.
    pub rates: Rates,
}

/// Measured copies within one device's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Bytes copied per run.
    pub bytes: usize,
    /// Bytes per second. Each byte counts twice: read and written.
    pub rates: Rates,
}

/// Measures random reads from `table_bytes` of memory on the stream's device: `runs` runs, after
/// two warm-up runs.
///
/// On a GPU each thread reads one 32-byte sector and writes 4 bytes, as a lookup does; a run has
/// 2^25 reads. On the CPU each thread reads 2^21 cache lines per run, with 128 in flight on x86-64
/// and AArch64 (prefetched; elsewhere, as many as the core overlaps by itself), from huge pages
/// where the system grants them.
///
/// Errors: more than 64 GiB on a GPU; out of memory; a read that differs from what was written.
pub fn random_reads(stream: &Stream, table_bytes: usize, runs: usize) -> Result<RandomReads> {
    match stream.device().kind() {
        DeviceKind::Cpu => random_lines(stream, table_bytes, 1 << 21, runs),
        DeviceKind::Cuda => random_sector_reads(stream, table_bytes, 1 << 25, runs),
        DeviceKind::Executor => random_sector_reads(stream, table_bytes, 1 << 10, runs),
    }
}

/// Measures copies of `bytes` bytes from one buffer to another on the stream's device: `runs` runs,
/// after two warm-up runs. On the CPU all threads copy, between huge pages where the system grants
/// them.
///
/// Errors: out of memory.
pub fn copies(stream: &Stream, bytes: usize, runs: usize) -> Result<Copies> {
    let words = (bytes / 8).max(1);
    let seconds = if stream.device().kind() == DeviceKind::Cpu {
        let (mut from, mut to) = (map(8 * words, Pages::Huge)?, map(8 * words, Pages::Huge)?);
        from.fill(1);
        to.fill(2);
        let piece = (8 * words).div_ceil(stream.device().parallelism());
        measure(stream, runs, |_| {
            stream.device().install(|| {
                to.par_chunks_mut(piece)
                    .zip(from.par_chunks(piece))
                    .for_each(|(to, from)| to.copy_from_slice(from));
            });
            Ok(())
        })?
    } else {
        let (mut from, mut to) =
            (stream.device().alloc::<u64>(words)?, stream.device().alloc::<u64>(words)?);
        from.view_mut().fill_bytes(1, stream)?;
        measure(stream, runs, |_| to.view_mut().copy_from(from.view(), stream))?
    };
    Ok(Copies { bytes: 8 * words, rates: Rates::of(16.0 * words as f64, &seconds) })
}

/// Measured copies between pinned host memory and a GPU: the limit of everything that begins or
/// ends in host memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostCopies {
    /// Bytes copied per run.
    pub bytes: usize,
    /// Bytes per second to the device.
    pub to_device: Rates,
    /// Bytes per second to the host.
    pub to_host: Rates,
}

/// Measures copies of `bytes` bytes between pinned host memory and the stream's device, one
/// direction at a time: `runs` runs of each, after two warm-up runs. `None` if the device's memory
/// is the host's.
///
/// Errors: out of memory, on the device or to pin.
pub fn host_copies(stream: &Stream, bytes: usize, runs: usize) -> Result<Option<HostCopies>> {
    let mut buffer = stream.device().alloc::<u8>(bytes.max(1))?;
    stream.with_pinned_copies(&mut buffer, |copy| {
        let rates = |up| -> Result<Rates> {
            Ok(Rates::of(bytes as f64, &measure(stream, runs, |_| copy(up))?))
        };
        Ok(HostCopies { bytes, to_device: rates(true)?, to_host: rates(false)? })
    })
}

/// Returns the seconds of each run after the warm-up; `run` receives the run's number.
fn measure(
    stream: &Stream,
    runs: usize,
    mut run: impl FnMut(u32) -> Result<()>,
) -> Result<Vec<f64>> {
    let total = (WARM_UP + runs.max(1)) as u32;
    let mut seconds =
        (0..total).map(|i| Ok(stream.time(|| run(i))?.1)).collect::<Result<Vec<f64>>>()?;
    seconds.drain(..WARM_UP);
    Ok(seconds)
}

const SECTOR: usize = 32;

fn random_sector_reads(
    stream: &Stream,
    table_bytes: usize,
    reads: u32,
    runs: usize,
) -> Result<RandomReads> {
    const MAX_SECTORS: usize = 1 << 31;
    let n = table_bytes.div_ceil(SECTOR).max(1);
    if n > MAX_SECTORS {
        return Err(Error::TooMany { what: "32-byte sectors", n, max: MAX_SECTORS });
    }
    let (device, sectors) = (stream.device(), n as u32);
    let mut table = device.alloc::<u64>(n * 4)?;
    let mut out = device.alloc::<u32>(reads as usize)?;
    // SAFETY: the table has four words for each sector.
    unsafe {
        number_sectors::launch(
            stream,
            sectors.div_ceil(256),
            sectors,
            table.view_mut().arg("table", stream)?,
        )
    }?;
    let mut last = 0;
    let seconds = measure(stream, runs, |run| {
        last = run;
        let (table, out) = (table.view().arg("table", stream)?, out.view_mut().arg("out", stream)?);
        // SAFETY: `random_sector` is below `sectors`, `out` has `reads` elements.
        unsafe {
            random_sectors::launch(
                stream,
                reads.div_ceil(256),
                reads,
                sectors,
                seed(run),
                table,
                out,
            )
        }
    })?;
    check_sectors(device, &out.download()?, sectors, seed(last))?;
    let rates = Rates::of(reads.into(), &seconds);
    Ok(RandomReads { table_bytes: n * SECTOR, read_bytes: SECTOR, reads: reads as usize, rates })
}
/// Gives every run a different read order.
fn seed(run: u32) -> u32 {
    run.wrapping_mul(0x85EB_CA6B)
}
fn check_sectors(device: &Device, out: &[u32], sectors: u32, seed: u32) -> Result<()> {
    let expected = |i: usize| sector_digest(sector_words(random_sector(i as u32, sectors, seed)));
    match out.par_iter().enumerate().position_first(|(i, &found)| found != expected(i)) {
        None => Ok(()),
        Some(i) => Err(wrong_read(device, out[i].into(), expected(i).into())),
    }
}
fn wrong_read(device: &Device, found: u64, expected: u64) -> Error {
    Error::WrongRead { device: device.name(), found, expected }
}

const LINE: usize = 64;
const WORDS: usize = LINE / 8;
/// Lines that a thread has prefetched but not yet read.
const IN_FLIGHT: usize = 128;

fn random_lines(
    stream: &Stream,
    table_bytes: usize,
    reads: u32,
    runs: usize,
) -> Result<RandomReads> {
    let n = table_bytes.div_ceil(LINE).max(1);
    let Ok(lines) = u32::try_from(n) else {
        return Err(Error::TooMany { what: "64-byte lines", n, max: u32::MAX as usize });
    };
    let device = stream.device();
    let mut memory = map(n * LINE, Pages::Huge)?;
    let table = bytemuck::cast_slice_mut::<u8, u64>(&mut memory);
    device.install(|| {
        table
            .par_chunks_mut(WORDS)
            .enumerate()
            .for_each(|(line, words)| words.fill(line_word(line as u32)));
    });
    let table = &*table;
    let mut sums = Vec::new();
    let mut last = 0;
    let seconds = measure(stream, runs, |run| {
        last = run;
        sums = device.install(|| {
            rayon::broadcast(|thread| {
                sum_lines(table, lines, reads, line_seed(run, thread.index()))
            })
        });
        Ok(())
    })?;
    for (thread, &found) in sums.iter().enumerate() {
        let expected = expected_sum(lines, reads, line_seed(last, thread));
        if found != expected {
            return Err(wrong_read(device, found, expected));
        }
    }
    let reads = reads as usize * sums.len();
    Ok(RandomReads {
        table_bytes: n * LINE,
        read_bytes: LINE,
        reads,
        rates: Rates::of(reads as f64, &seconds),
    })
}
fn line_seed(run: u32, thread: usize) -> u32 {
    seed(run) ^ (thread as u32 + 1).wrapping_mul(0xC2B2_AE35)
}
/// Returns the words of a line.
fn line_word(line: u32) -> u64 {
    (line as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
fn expected_sum(lines: u32, reads: u32, seed: u32) -> u64 {
    (0..reads).fold(0, |sum, i| sum.wrapping_add(line_word(random_sector(i, lines, seed))))
}
fn sum_lines(table: &[u64], lines: u32, reads: u32, seed: u32) -> u64 {
    let mut asked = [0usize; IN_FLIGHT];
    let mut sum = 0u64;
    for i in 0..reads {
        let slot = i as usize % IN_FLIGHT;
        if i as usize >= IN_FLIGHT {
            sum = sum.wrapping_add(table[asked[slot]]);
        }
        // The word varies from read to read; any would do, because the whole line is fetched.
        let word = random_sector(i, lines, seed) as usize * WORDS + i as usize % WORDS;
        prefetch(&raw const table[word]);
        asked[slot] = word;
    }
    let left = IN_FLIGHT.min(reads as usize);
    asked[..left].iter().fold(sum, |sum, &word| sum.wrapping_add(table[word]))
}
#[cfg(test)]
mod tests {
    use super::*;

    fn plausible(rates: Rates) {
        assert!(
            rates.min > 0.0
                && rates.min <= rates.median
                && rates.median <= rates.max
                && rates.max.is_finite()
        );
    }

    #[test]
    fn rates_are_ordered() {
        assert_eq!(
            Rates::of(12.0, &[3.0, 1.0, 2.0, 4.0]),
            Rates { median: 4.0, min: 3.0, max: 12.0 }
        );
        assert_eq!(Rates::of(2.0, &[4.0]), Rates { median: 0.5, min: 0.5, max: 0.5 });
        assert_eq!(Rates::of(1.0, &[]), Rates { median: 0.0, min: 0.0, max: 0.0 });
        assert!(Rates::of(1.0, &[0.0]).max.is_finite());
    }

    #[test]
    fn lines_are_read_and_checked() {
        for threads in [1, 2] {
            let stream = Device::cpu_with_threads(threads).unwrap().stream().unwrap();
            for bytes in [0, 1, 64, 65, 1 << 20] {
                let reads = random_lines(&stream, bytes, 10_000, 3).unwrap();
                assert_eq!(reads.table_bytes, bytes.max(1).next_multiple_of(64));
                assert_eq!(reads.reads, 10_000 * threads);
                plausible(reads.rates);
            }
        }
        // Fewer reads than the maximum in flight.
        for reads in [0, 1, 127, 128, 129] {
            let table = (0..80).map(|i| line_word(i / 8)).collect::<Vec<u64>>();
            assert_eq!(sum_lines(&table, 10, reads, 7), expected_sum(10, reads, 7));
        }
    }

    #[test]
    fn a_line_that_is_skipped_is_noticed() {
        let mut table = (0..800).map(|i| line_word(i / 8)).collect::<Vec<u64>>();
        table[8 * random_sector(3, 100, 7) as usize..][..8].fill(0);
        assert_ne!(sum_lines(&table, 100, 1000, 7), expected_sum(100, 1000, 7));
    }

    #[test]
    fn sectors_are_read_and_checked_by_the_kernel() {
        let stream = Device::executor(3).stream().unwrap();
        for bytes in [1, 32, 33, 4096] {
            let reads = random_sector_reads(&stream, bytes, 1000, 1).unwrap();
            assert_eq!(reads.table_bytes, bytes.next_multiple_of(32));
            plausible(reads.rates);
        }
        let device = stream.device();
        let mut out = (0..500)
            .map(|i| sector_digest(sector_words(random_sector(i, 77, 5))))
            .collect::<Vec<u32>>();
        check_sectors(device, &out, 77, 5).unwrap();
        out[499] ^= 1 << 31;
        assert!(matches!(check_sectors(device, &out, 77, 5), Err(Error::WrongRead { .. })));
        let error = random_sector_reads(&stream, (1 << 36) + 1, 10, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "2147483649 32-byte sectors are too many: at most 2147483648"
        );
    }

    #[test]
    fn copies_run_on_every_host_device() {
        for device in [Device::cpu_with_threads(2).unwrap(), Device::executor(1)] {
            let copies = copies(&device.stream().unwrap(), 1 << 16, 2).unwrap();
            assert_eq!(copies.bytes, 1 << 16);
            plausible(copies.rates);
        }
    }
}
