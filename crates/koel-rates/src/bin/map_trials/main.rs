//! Randomised trials of [`Map`] on this machine's best device, every answer compared with the right
//! one: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin map_trials -- \
//!     small 100000 big 2^29 tight streams 10
//! ```
//!
//! `small N`: N builds of up to 2,000 pairs (occasionally of two partitions) with random, regular
//! and hostile keys and random loads, seeds and policies, most of them into an existing map,
//! checked against `HashMap`. `big N`: one build of N pairs whose keys are a bijection of their
//! numbers; all are found, and as many absent keys are not. `tight [N]`: takes all but 4 GiB of the
//! device's memory (on the CPU, 1 GiB of address space is left), then grows maps from N pairs until
//! one runs out of memory; afterwards everything must work again; all of this runs twice.
//! `streams [SECONDS]`: one thread keeps rebuilding a map with other pairs while another looks keys
//! up in a second map. `builds [N]` and `updates [N]`: N builds of maps that are dropped, and N
//! batches that change one map; the memory in use is printed after each tenth. Options: `seed=S`,
//! `cpu`. The exit status is 1 if an answer was wrong.
mod held;
mod small;

use koel::{Buffer, Device, DeviceKind, Error, Map, MapBuilder, MapOptions, Stream};
use koel_rates::{Arguments, NumberedKey, Row, decimals, row, seconds_of};
use rayon::prelude::*;
use small::small;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Result whose error describes the failure in words.
type AnyResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> AnyResult {
    let mut args = Arguments::read();
    let seed = args.list("seed", "1", |seed| seed.parse::<u32>().ok())?;
    // The last trial on a CPU leaves hardly any address space.
    let trials = [
        ("small", 100_000),
        ("big", 0),
        ("streams", 10),
        ("builds", 10_000),
        ("updates", 100_000),
        ("tight", 1 << 20),
    ];
    let asked = trials.map(|(trial, number)| (trial, args.numbered(trial, number)));
    let device = args.device()?;
    args.sizes(&[])?;
    let seed = seed.first().copied().unwrap_or(1);
    let most = if device.kind() == DeviceKind::Cuda { 1 << 29 } else { 1 << 22 };
    for (trial, number) in asked {
        let Some(number) = number else { continue };
        let run = || match trial {
            "small" => small(&device, number, seed),
            "big" => big(&device, if number == 0 { most } else { number }, seed),
            "builds" => held::builds(&device, number as u32),
            "updates" => held::updates(&device, number as u32),
            "tight" => tight(&device, number, seed),
            _ => streams(&device, Duration::from_secs(number as u64), seed),
        };
        let (told, seconds) = seconds_of(run).map_err(|e| format!("{trial}, seed {seed}: {e}"))?;
        row![("trial", trial), ("device", device.name()), ("seed", seed)]
            .and(&told)
            .and(&row![("verified", true), ("seconds", decimals(seconds, 1))])
            .print();
    }
    Ok(())
}
/// Progress line, on a terminal only, which is overwritten in place.
struct Progress(Instant);
impl Progress {
    fn tell(&mut self, state: impl FnOnce() -> String) {
        if self.0.elapsed() > Duration::from_millis(200) && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{}\r", state());
            let _ = std::io::stderr().flush();
            self.0 = Instant::now();
        }
    }
}

/// Returns a key of a big trial, distinct for distinct numbers.
fn key(i: u32, seed: u32) -> u32 {
    u32::numbered(i ^ seed.wrapping_mul(0x9E37_79B1))
}
/// Returns the value of a pair.
fn value(i: u32, salt: u32) -> u32 {
    i.rotate_left(9) ^ salt
}

/// Pairs 0..n on the device.
struct Input {
    keys: Buffer<u32>,
    values: Buffer<u32>,
}
/// Number of pairs that pass through host memory at a time.
const CHUNK: usize = 1 << 24;
const MIN_CHUNK: usize = 1 << 16;

impl Input {
    /// Builds the input. `words` is a host buffer, reused by later calls.
    fn new(
        device: &Device,
        n: usize,
        seed: u32,
        salt: u32,
        words: &mut Vec<u32>,
    ) -> koel::Result<Input> {
        let keys = numbered(device, n, |i| key(i, seed), words)?;
        Ok(Input { keys, values: numbered(device, n, |i| value(i, salt), words)? })
    }
}
/// Returns `of(0)..of(n)` on the device.
fn numbered(
    device: &Device,
    n: usize,
    of: impl Fn(u32) -> u32 + Sync,
    words: &mut Vec<u32>,
) -> koel::Result<Buffer<u32>> {
    let mut buffer = device.alloc(n)?;
    let chunk = words.capacity().clamp(MIN_CHUNK, CHUNK);
    for start in (0..n).step_by(chunk) {
        let part = start..n.min(start + chunk);
        part.clone().into_par_iter().map(|i| of(i as u32)).collect_into_vec(words);
        buffer.view_mut().slice(part)?.copy_from_host(words)?;
    }
    Ok(buffer)
}

/// Buffers for a chunk of lookups and their answers, on the device and on the host.
struct Lookups {
    queries: Buffer<u32>,
    answers: Buffer<u32>,
    found: Buffer<u8>,
    words: Vec<u32>,
    answers_here: Vec<u32>,
    found_here: Vec<u8>,
}
impl Lookups {
    fn new(device: &Device, n: usize) -> koel::Result<Lookups> {
        let n = n.clamp(MIN_CHUNK, CHUNK);
        let (queries, answers, found) = (device.alloc(n)?, device.alloc(n)?, device.alloc(n)?);
        let (answers_here, found_here) = (vec![0; n], vec![0; n]);
        Ok(Lookups {
            queries,
            answers,
            found,
            words: Vec::with_capacity(n),
            answers_here,
            found_here,
        })
    }
    /// Looks up keys 0..n, all present, and n..2n, all absent; the first wrong answer is an error.
    fn verify(&mut self, stream: &Stream, map: &Map, n: usize, seed: u32, salt: u32) -> AnyResult {
        let len = map.len()?;
        if len != n {
            return Err(format!("{n} pairs, but the map holds {len}").into());
        }
        for start in (0..2 * n).step_by(self.queries.len()) {
            let numbers = start..(2 * n).min(start + self.queries.len());
            numbers
                .clone()
                .into_par_iter()
                .map(|i| key(i as u32, seed))
                .collect_into_vec(&mut self.words);
            let part = ..numbers.len();
            self.queries.view_mut().slice(part)?.copy_from_host(&self.words)?;
            let (to_answers, to_found) =
                (self.answers.view_mut().slice(part)?, self.found.view_mut().slice(part)?);
            map.get_into(stream, self.queries.view().slice(part)?, to_answers, to_found)?;
            let (answers, found) = (&mut self.answers_here[part], &mut self.found_here[part]);
            self.answers.view().slice(part)?.copy_to_host(answers)?;
            self.found.view().slice(part)?.copy_to_host(found)?;
            let expected = |i: usize| if i < n { (value(i as u32, salt), 1) } else { (0, 0) };
            let answer = |i: usize| (answers[i - start], found[i - start]);
            if let Some(i) = numbers.into_par_iter().find_first(|&i| answer(i) != expected(i)) {
                return Err(format!(
                    "{n} pairs: the answer to key {i} is {:?}, not {:?}",
                    answer(i),
                    expected(i)
                )
                .into());
            }
        }
        Ok(())
    }
}

fn big(device: &Device, n: usize, seed: u32) -> AnyResult<Row> {
    if n > 1 << 31 {
        return Err(
            Error::TooMany { what: "pairs, with as many other keys,", n, max: 1 << 31 }.into()
        );
    }
    let stream = device.stream()?;
    let mut lookups = Lookups::new(device, n)?;
    let input = Input::new(device, n, seed, 5, &mut lookups.words)?;
    let mut builder = MapBuilder::new(device, MapOptions::default())?;
    let map = builder.build(&stream, input.keys.view(), input.values.view())?;
    drop(input);
    let report = map.report()?;
    lookups.verify(&stream, &map, n, seed, 5)?;
    let gps = n as f64 / report.device_seconds.unwrap_or(f64::NAN) / 1e9;
    Ok(row![
        ("n", n),
        ("found", n),
        ("absent", n),
        ("gps", decimals(gps, 2)),
        ("bytes", report.bytes),
        ("scratch_bytes", report.scratch_bytes),
        ("stashed", report.stashed),
        ("attempts", report.attempts)
    ])
}

/// Bytes left on a GPU, and bytes given to the CPU.
const LEFT: usize = 4 << 30;
const GIVEN: u64 = 1 << 30;

/// Memory taken from a device, so that little is left.
struct Taken {
    _pieces: Vec<Buffer<u8>>,
    bytes: usize,
    left: usize,
}
impl Taken {
    fn of(device: &Device) -> AnyResult<Taken> {
        let Some((mut free, _)) = device.memory()? else {
            limit_address_space()?;
            return Ok(Taken { _pieces: vec![], bytes: 0, left: GIVEN as usize });
        };
        let mut pieces = vec![];
        while free > LEFT + (1 << 28) {
            pieces.push(device.alloc::<u8>((free - LEFT).min(1 << 30))?);
            free = device.memory()?.map_or(0, |(free, _)| free);
        }
        Ok(Taken { bytes: pieces.iter().map(Buffer::bytes).sum(), _pieces: pieces, left: free })
    }
}
/// Limits the address space to [`GIVEN`] bytes more than in use, because a system that overcommits
/// memory would not run out of it.
#[cfg(target_os = "linux")]
fn limit_address_space() -> AnyResult {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split_whitespace().next().unwrap_or_default().parse::<u64>()?;
    // SAFETY: only queries a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let most = pages * page + GIVEN;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: only reads `limit`.
    match unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}
#[cfg(not(target_os = "linux"))]
fn limit_address_space() -> AnyResult {
    Err("on the CPU, `tight` needs Linux".into())
}

fn tight(device: &Device, least: usize, seed: u32) -> AnyResult<Row> {
    const SALT: u32 = 9;
    let stream = device.stream()?;
    let least = least.max(1);
    // The host's threads take memory when they start.
    (0..1 << 16).into_par_iter().for_each(|_| ());
    let mut lookups = Lookups::new(device, least)?;
    let first = Input::new(device, least, seed, SALT, &mut lookups.words)?;
    let mut builder = MapBuilder::new(device, MapOptions::default())?;
    let beside = builder.build(&stream, first.keys.view(), first.values.view())?;
    let mut map = builder.build(&stream, first.keys.view(), first.values.view())?;
    let taken = Taken::of(device)?;
    let mut told = vec![];
    let mut progress = Progress(Instant::now());
    for _round in 0..2 {
        let (mut n, mut most) = (least, 0);
        let (at, error) = loop {
            progress.tell(|| format!("tight: {n} pairs"));
            let input = match Input::new(device, n, seed, SALT, &mut lookups.words) {
                Ok(input) => input,
                Err(error) => break ("input", error),
            };
            if let Err(error) =
                builder.rebuild(&mut map, &stream, input.keys.view(), input.values.view())
            {
                break ("rebuild", error);
            }
            lookups.verify(&stream, &map, n, seed, SALT)?;
            match builder.build(&stream, input.keys.view(), input.values.view()) {
                Ok(another) => lookups.verify(&stream, &another, n, seed, SALT)?,
                Err(error) => break ("build", error),
            }
            most = n;
            n += n / 2;
        };
        let Error::OutOfMemory { asked, free, .. } = error else { return Err(error.into()) };
        told.push(row![
            ("most", most),
            ("failed", n),
            ("at", at),
            ("asked", asked),
            ("free", free)
        ]);
        // The map from before, the one whose rebuild failed, and a new one.
        lookups.verify(&stream, &beside, least, seed, SALT)?;
        builder.rebuild(&mut map, &stream, first.keys.view(), first.values.view())?;
        lookups.verify(&stream, &map, least, seed, SALT)?;
        builder = MapBuilder::new(device, MapOptions::default())?;
        map = builder.build(&stream, first.keys.view(), first.values.view())?;
        lookups.verify(&stream, &map, least, seed, SALT)?;
    }
    Ok(row![("taken_bytes", taken.bytes), ("left_bytes", taken.left), ("rounds", told)])
}

fn streams(device: &Device, time: Duration, seed: u32) -> AnyResult<Row> {
    let n = if device.kind() == DeviceKind::Cuda { 1 << 22 } else { 1 << 16 };
    let (end, failed) = (Instant::now() + time, AtomicBool::new(false));
    // Repeats the work until the time is over or the other thread has failed.
    let run = |work: &mut dyn FnMut() -> AnyResult| {
        for rounds in 0.. {
            if rounds > 0 && (Instant::now() >= end || failed.load(Relaxed)) {
                return Ok(rounds);
            }
            work().inspect_err(|_| failed.store(true, Relaxed))?;
        }
        Ok(0)
    };
    // Several asynchronous rebuilds, then lookups.
    const ORDER: [usize; 8] = [0, 1, 0, 0, 1, 1, 0, 1];
    let rebuilds = || -> AnyResult<usize> {
        let (stream, mut lookups) = (device.stream()?, Lookups::new(device, n)?);
        let mut input = |salt| Input::new(device, n, seed, salt, &mut lookups.words);
        let inputs = [input(1)?, input(2)?];
        let mut builder = MapBuilder::new(device, MapOptions::default())?;
        let mut map = builder.build(&stream, inputs[0].keys.view(), inputs[0].values.view())?;
        run(&mut || {
            for Input { keys, values } in ORDER.map(|at| &inputs[at]) {
                builder.rebuild(&mut map, &stream, keys.view(), values.view())?;
            }
            lookups.verify(&stream, &map, n, seed, 2)
        })
    };
    let reads = || -> AnyResult<usize> {
        let (stream, seed, mut lookups) = (device.stream()?, !seed, Lookups::new(device, n)?);
        let input = Input::new(device, n, seed, 3, &mut lookups.words)?;
        let map = MapBuilder::new(device, MapOptions::default())?.build(
            &stream,
            input.keys.view(),
            input.values.view(),
        )?;
        run(&mut || lookups.verify(&stream, &map, n, seed, 3))
    };
    let (rebuilds, reads) = std::thread::scope(|scope| {
        let (rebuilds, reads) = (scope.spawn(rebuilds), scope.spawn(reads));
        (rebuilds.join(), reads.join())
    });
    let panicked = |_| "a thread panicked";
    let (rounds, reads) = (rebuilds.map_err(panicked)??, reads.map_err(panicked)??);
    Ok(row![
        ("n", n),
        ("rebuilds", rounds * ORDER.len()),
        ("rebuilds_verified", rounds),
        ("lookup_rounds", reads)
    ])
}
