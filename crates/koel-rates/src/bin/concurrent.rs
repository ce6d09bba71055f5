//! Several streams that share one map: lookups overlap, and every answer comes from a map that
//! existed.
//!
//! `cargo run --release -p koel-rates --bin concurrent -- [cpu|cuda] [overlap] [stress SECONDS]`
//! prints one JSON object per line.
//!
//! `overlap`: two streams that only read one map, each with launches of few queries, against one
//! stream. `stress`: six threads look up keys asynchronously, one rebuilds the map in place, and
//! one drops it and builds another; the values identify the map that answered. Also meant for
//! `compute-sanitizer`.
use koel::map::{MapBuilder, MapOptions};
use koel::{Buffer, Device, Error, Graph, Map, Result, Stream};
use koel_rates::{Arguments, decimals, repeat, row, seconds_of};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::time::Duration;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let (overlaps, seconds) = (args.has("overlap"), args.numbered("stress", 5));
    let device = args.device()?;
    args.sizes(&[])?;
    if overlaps || seconds.is_none() {
        overlap(&device)?;
    }
    seconds.map_or(Ok(()), |seconds| stress(&device, seconds as u64))
}

/// Launches per graph, and queries per launch: too few to fill a GPU.
const LAUNCHES: usize = 200;
const FEW: usize = 1 << 12;
const PAIRS: u32 = 1 << 20;

fn overlap(device: &Device) -> Result<()> {
    let keys = (0..PAIRS).collect::<Vec<u32>>();
    let map: &'static Map = Box::leak(Box::new(Map::build(device, &keys, &keys)?));
    let queries =
        (0..FEW as u32).map(|i| i.wrapping_mul(0x9E37_79B9) % (2 * PAIRS)).collect::<Vec<_>>();
    let queries: &'static _ = Box::leak(Box::new(device.upload(&queries)?));
    let work = |stream: &Stream| -> Result<Graph<_>> {
        stream.capture(device.alloc::<u32>(FEW)?, move |stream, out| {
            (0..LAUNCHES)
                .try_for_each(|_| map.get_or_into(stream, queries.view(), out.view_mut(), u32::MAX))
        })
    };
    // One stream gets as many launches as both streams together.
    let streams = [device.stream()?, device.stream()?];
    let mut graphs = [work(&streams[0])?, work(&streams[1])?];
    let mut rate = |streams: [&Stream; 2]| -> Result<f64> {
        let wait = || streams.iter().try_for_each(|stream| stream.synchronize());
        let [times] = repeat(20, || {
            wait()?;
            let all = || {
                for _ in 0..4 {
                    let mut each = graphs.iter_mut().zip(streams);
                    each.try_for_each(|(graph, stream)| graph.launch(stream))?;
                }
                wait()
            };
            Result::Ok([seconds_of(all)?.1])
        })?;
        Ok((8 * LAUNCHES * FEW) as f64 / times.min / 1e9)
    };
    let (one, two) = (rate([&streams[0], &streams[0]])?, rate([&streams[0], &streams[1]])?);
    let expected = queries
        .download()?
        .iter()
        .map(|&q| if q < PAIRS { q } else { u32::MAX })
        .collect::<Vec<_>>();
    for graph in &graphs {
        assert!(graph.state().download()? == expected, "wrong answers");
    }
    row![
        ("device", device.name()),
        ("op", "overlap"),
        ("queries", FEW),
        ("launches", LAUNCHES),
        ("one_stream_gps", decimals(one, 3)),
        ("two_streams_gps", decimals(two, 3)),
        ("ratio", decimals(two / one, 2)),
        ("verified", true)
    ]
    .print();
    Ok(())
}

/// Map whose value of `key` is `key + version`.
struct Versioned {
    map: Map,
    version: u32,
}
/// Buffers of a lookup thread, with several rounds in flight.
struct Asked {
    stream: Stream,
    values: Vec<Buffer<u32>>,
    version: Vec<u32>,
}

const KEYS: u32 = 1 << 16;
const IN_FLIGHT: usize = 8;
/// Pause between two changes of the map, so that lookups run in between.
const PAUSE: Duration = Duration::from_micros(500);

/// State that the threads share.
struct Stress<'a> {
    device: &'a Device,
    keys: Vec<u32>,
    staged: Buffer<u32>,
    all: RwLock<Versioned>,
    ended: AtomicBool,
    fault: Mutex<Option<Error>>,
    lookups: AtomicU64,
    rebuilds: AtomicU64,
    drops: AtomicU64,
    /// For all eight threads.
    begin: Barrier,
}
impl Stress<'_> {
    fn new(device: &Device) -> Result<Stress<'_>> {
        let keys = (0..KEYS).map(|i| i.wrapping_mul(7)).collect::<Vec<u32>>();
        let staged = device.upload(&keys)?;
        let map = Map::build(device, &keys, &of_version(&keys, 1))?;
        Ok(Stress {
            device,
            keys,
            staged,
            all: RwLock::new(Versioned { map, version: 1 }),
            ended: AtomicBool::new(false),
            fault: Mutex::new(None),
            lookups: AtomicU64::new(0),
            rebuilds: AtomicU64::new(0),
            drops: AtomicU64::new(0),
            begin: Barrier::new(8),
        })
    }
    /// Starts together with the other threads, and repeats `run` until the end or a fault.
    fn until_end(&self, run: &mut dyn FnMut() -> Result<()>) {
        self.begin.wait();
        while !self.ended.load(Relaxed) {
            if let Err(e) = run() {
                self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                self.ended.store(true, Relaxed);
            }
        }
    }
    fn asked(&self) -> Result<Asked> {
        let values =
            (0..IN_FLIGHT).map(|_| self.device.alloc(self.keys.len())).collect::<Result<_>>()?;
        Ok(Asked { stream: self.device.stream()?, values, version: vec![] })
    }
    /// Looks up all keys several times asynchronously, then checks the answers.
    fn ask(&self, asked: &mut Asked) -> Result<()> {
        asked.version.clear();
        for values in &mut asked.values {
            // The lock is held until the work is enqueued, not until it has run.
            let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
            all.map.get_or_into(&asked.stream, self.staged.view(), values.view_mut(), u32::MAX)?;
            asked.version.push(all.version);
        }
        for (values, &version) in asked.values.iter().zip(&asked.version) {
            let found = values.download()?;
            assert!(
                found.iter().zip(&self.keys).all(|(v, k)| *v == k.wrapping_add(version)),
                "an answer from another map"
            );
            self.lookups.fetch_add(KEYS as u64, Relaxed);
        }
        Ok(())
    }
    /// Rebuilds the map in place with the next version.
    fn rebuild(&self, builder: &mut MapBuilder) -> Result<()> {
        let stream = self.device.stream()?;
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.version = all.version.wrapping_add(1);
        let values = self.device.upload(&of_version(&self.keys, all.version))?;
        builder.rebuild(&mut all.map, &stream, self.staged.view(), values.view())?;
        drop(all);
        self.rebuilds.fetch_add(1, Relaxed);
        std::thread::sleep(PAUSE);
        Ok(())
    }
    /// Drops the map and builds another with the next version.
    fn replace(&self) -> Result<()> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let version = all.version.wrapping_add(1);
        let map = Map::build(self.device, &self.keys, &of_version(&self.keys, version))?;
        *all = Versioned { map, version };
        drop(all);
        self.drops.fetch_add(1, Relaxed);
        std::thread::sleep(2 * PAUSE);
        Ok(())
    }
}
/// Returns the values of the keys in a version of the map.
fn of_version(keys: &[u32], version: u32) -> Vec<u32> {
    keys.iter().map(|k| k.wrapping_add(version)).collect()
}

fn stress(device: &Device, seconds: u64) -> Result<()> {
    let shared = &Stress::new(device)?;
    let all_asked = (0..6).map(|_| shared.asked()).collect::<Result<Vec<_>>>()?;
    let mut builder = MapBuilder::new(device, MapOptions::default())?;
    std::thread::scope(|s| {
        for mut asked in all_asked {
            s.spawn(move || shared.until_end(&mut || shared.ask(&mut asked)));
        }
        s.spawn(|| shared.until_end(&mut || shared.rebuild(&mut builder)));
        s.spawn(|| shared.until_end(&mut || shared.replace()));
        std::thread::sleep(Duration::from_secs(seconds));
        shared.ended.store(true, Relaxed);
    });
    let Stress { fault, lookups, rebuilds, drops, .. } = shared;
    if let Some(e) = fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(e);
    }
    row![
        ("device", device.name()),
        ("op", "stress"),
        ("threads", 8),
        ("seconds", seconds),
        ("lookups", lookups.load(Relaxed)),
        ("rebuilds", rebuilds.load(Relaxed)),
        ("drops", drops.load(Relaxed)),
        ("verified", true)
    ]
    .print();
    Ok(())
}
