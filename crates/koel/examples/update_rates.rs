//! Rates of [`MapUpdater`](koel::MapUpdater) on this machine's best device: one JSON line each.
//!
//!     cargo run --release --example update_rates -- 2^24 batch=2^20 load=0.5,0.8
//!
//! Batches of keys that are not in a map of so many pairs are inserted and erased again, 9 times; then values of keys that are there are
//! assigned and added to, and operations mixed. `gps`: 10^9 operations a second, the median of 7 runs after 2, as
//! [`enqueue`](koel::MapUpdater::enqueue) puts them on the stream. `verified`: all outcomes of all runs were what they must be, and so were lookups of all keys
//! behind the last.
use koel::map::{Key, Value};
use koel::{
    Buffer, Device, Error, Map, MapBuilder, MapOptions, MapUpdater, Operation, Operations, Outcome, Result, Stream,
};
use koel_kernels::hash::mix::{mix, splitmix_at};
use rayon::prelude::*;
use timing::{RUNS, size};

mod timing;

fn main() -> Result<()> {
    let (mut sizes, mut batches, mut loads, mut bits) = (vec![], vec![1 << 20], vec![0.5, 0.8], vec!["32"]);
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    for arg in &args {
        match arg.split_once('=') {
            Some(("load", list)) => {
                loads = list.split(',').map(|l| l.parse().map_err(|_| wrong(arg))).collect::<Result<Vec<f64>>>()?;
            }
            Some(("batch", list)) => batches = list.split(',').map(size).collect::<Result<_>>()?,
            Some(("bits", list)) => bits = list.split(',').collect(),
            Some(_) => return Err(wrong(arg)),
            None => sizes.push(size(arg)?),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1 << 24];
    }
    let device = Device::best()?;
    eprintln!("{}", device.name());
    let stream = device.stream()?;
    for &n in &sizes {
        for &batch in &batches {
            for &load in &loads {
                for &bits in &bits {
                    match bits {
                        "32" => rates::<u32>(&stream, n, batch, load)?,
                        "64" => rates::<u64>(&stream, n, batch, load)?,
                        _ => return Err(wrong(bits)),
                    }
                }
            }
        }
    }
    Ok(())
}
fn wrong(arg: &str) -> Error {
    let expected = "2^k, or load=, batch= or bits=32,64 and a list".into();
    Error::Setting { field: "argument", found: arg.into(), expected }
}
/// Keys and values: other keys for other numbers.
trait Number: Key + Value {
    fn key(i: u32) -> Self;
}
impl Number for u32 {
    fn key(i: u32) -> u32 {
        mix(i)
    }
}
impl Number for u64 {
    fn key(i: u32) -> u64 {
        splitmix_at(0, i)
    }
}
fn keys<T: Number>(device: &Device, first: usize, n: usize) -> Result<Buffer<T>> {
    device.upload(&(first..first + n).into_par_iter().map(|i| T::key(i as u32)).collect::<Vec<_>>())
}

struct Bench<'a, T: Number> {
    stream: &'a Stream,
    map: Map<T, T>,
    updater: MapUpdater<T, T>,
    outcomes: Buffer<u8>,
    verified: bool,
}
impl<T: Number> Bench<'_, T> {
    /// Seconds of a batch, all of whose outcomes must be this one.
    fn time(&mut self, operations: Operations<'_>, keys: &Buffer<T>, outcome: Option<Outcome>) -> Result<f64> {
        let Bench { stream, map, updater, outcomes, verified } = self;
        let (keys, to) = (keys.view(), outcomes.view_mut());
        let seconds = stream.time(|| updater.enqueue(map, stream, operations, keys, keys, to))?.1;
        let found = outcomes.download()?;
        *verified &= match outcome {
            Some(outcome) => found.par_iter().all(|&o| Outcome::of(o) == Some(outcome)),
            None => found.par_iter().all(|&o| !matches!(Outcome::of(o), None | Some(Outcome::NotDone))),
        };
        Ok(seconds)
    }
    fn report(&self, op: &str, n: usize, load: f64, mut seconds: Vec<f64>) -> Result<()> {
        seconds.drain(..2);
        seconds.sort_by(f64::total_cmp);
        let (batch, median, report) = (self.outcomes.len(), seconds[seconds.len() / 2], self.map.report()?);
        println!(
            r#"{{"op":"{op}","bits":{},"n":{n},"batch":{batch},"load":{load},"gps":{:.2},"us":{:.1},"verified":{},"pairs":{},"stashed":{},"bytes":{},"scratch_bytes":{}}}"#,
            8 * size_of::<T>(),
            batch as f64 / median / 1e9,
            median * 1e6,
            self.verified,
            report.pairs,
            report.stashed,
            report.bytes,
            self.updater.scratch_bytes()
        );
        Ok(())
    }
}

fn rates<T: Number>(stream: &Stream, n: usize, batch: usize, load: f64) -> Result<()> {
    let device = stream.device();
    let options = MapOptions { load, ..MapOptions::default() };
    let (there, absent) = (keys::<T>(device, 0, n)?, keys::<T>(device, n, batch)?);
    let map = MapBuilder::new(device, options)?.build(stream, there.view(), there.view())?;
    let updater = MapUpdater::new(device, options)?;
    let mut bench = Bench { stream, map, updater, outcomes: device.alloc(batch)?, verified: true };
    let (insert, erase) = (Operations::All(Operation::Insert), Operations::All(Operation::Erase));
    let (mut inserts, mut erases) = (vec![], vec![]);
    for _ in 0..RUNS + 2 {
        inserts.push(bench.time(insert, &absent, Some(Outcome::Inserted))?);
        bench.verified &= bench.map.count(&absent.download()?)? == batch as u64;
        erases.push(bench.time(erase, &absent, Some(Outcome::Erased))?);
    }
    bench.verified &= bench.map.len()? == n && bench.map.count(&there.download()?)? == n as u64;
    bench.verified &= bench.map.count(&absent.download()?)? == 0;
    bench.report("insert", n, load, inserts)?;
    bench.report("erase", n, load, erases)?;

    let known = keys::<T>(device, 0, batch.min(n))?;
    bench.outcomes = device.alloc(known.len())?;
    for (op, operation, outcome) in [
        ("insert_known", Operation::Insert, Outcome::Kept),
        ("assign", Operation::InsertOrAssign, Outcome::Assigned),
        ("add", Operation::InsertOrAdd, Outcome::Added),
    ] {
        let all = Operations::All(operation);
        let seconds = (0..RUNS + 2).map(|_| bench.time(all, &known, Some(outcome))).collect::<Result<_>>()?;
        bench.report(op, n, load, seconds)?;
    }
    let codes = (0..known.len()).map(|i| (splitmix_at(1, i as u32) % 4) as u8).collect::<Vec<_>>();
    let codes = device.upload(&codes)?;
    let each = Operations::Each(codes.view());
    let seconds = (0..RUNS + 2).map(|_| bench.time(each, &known, None)).collect::<Result<_>>()?;
    bench.report("mixed", n, load, seconds)
}
