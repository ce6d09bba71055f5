//! Rates of [`MapUpdater`] and [`SetUpdater`] on this machine's best device: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin update_rates -- \
//!     2^24 batch=2^20 load=0.5,0.8 kind=map
//! ```
//!
//! Batches of absent keys are inserted into a table of the given number of pairs and erased again,
//! 9 times; then present keys are inserted, their values are assigned and added to, and operations
//! are mixed. `gps`: 10^9 operations per second, the median of 7 runs after 2 warm-up runs, as
//! enqueued by [`enqueue`](koel::MapUpdater::enqueue). `verified`: all outcomes of all runs are
//! right, and so are lookups of all keys after the last.
use koel::types::{KeyBits, ValueBits};
use koel::{
    Buffer, Device, Error, Map, MapBuilder, MapOptions, MapUpdater, Operation, Operations, Outcome,
    Result, Set, SetBuilder, SetOperation, SetOptions, SetUpdater, Stream, View, ViewMut,
};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_rates::{RUNS, print_provenance, rate, row, size};
use rayon::prelude::*;

/// Maximum load that batches lead to.
const MAX_LOAD: f64 = 0.9;

fn main() -> Result<()> {
    let (mut sizes, mut batches, mut loads, mut bits) =
        (vec![], vec![1 << 20], vec![0.5, 0.8], vec!["32"]);
    let mut kinds = vec!["map"];
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    for arg in &args {
        match arg.split_once('=') {
            Some(("load", list)) => {
                loads = list
                    .split(',')
                    .map(|l| l.parse().map_err(|_| wrong(arg)))
                    .collect::<Result<Vec<f64>>>()?;
            }
            Some(("batch", list)) => batches = list.split(',').map(size).collect::<Result<_>>()?,
            Some(("bits", list)) => bits = list.split(',').collect(),
            Some(("kind", list)) => kinds = list.split(',').collect(),
            Some(_) => return Err(wrong(arg)),
            None => sizes.push(size(arg)?),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1 << 24];
    }
    let device = Device::best()?;
    eprintln!("{}", device.name());
    print_provenance(&device);
    let stream = device.stream()?;
    for &n in &sizes {
        for &batch in &batches {
            for &load in &loads {
                for &bits in &bits {
                    for &kind in &kinds {
                        match (kind, bits) {
                            ("map", "32") => rates::<OfMap<u32>>(&stream, n, batch, load)?,
                            ("map", "64") => rates::<OfMap<u64>>(&stream, n, batch, load)?,
                            ("set", "32") => rates::<OfSet<u32>>(&stream, n, batch, load)?,
                            ("set", "64") => rates::<OfSet<u64>>(&stream, n, batch, load)?,
                            _ => return Err(wrong(&format!("kind={kind} bits={bits}"))),
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
fn wrong(arg: &str) -> Error {
    let expected = "2^k, or load=, batch=, bits=32,64 or kind=map,set with a list".into();
    Error::Setting { field: "argument", found: arg.into(), expected }
}
/// Keys and values; keys are distinct for distinct numbers.
trait Number: KeyBits + ValueBits {
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

/// Table with its updater.
trait Updated: Sized {
    type Key: Number;
    const KIND: &'static str;
    /// Operations on present keys, with their expected outcomes.
    const ON_KNOWN: &'static [(&'static str, Operation, Outcome)];
    /// Builds a table; keys are their own values.
    fn build(stream: &Stream, keys: View<'_, Self::Key>, load: f64) -> Result<Self>;
    fn enqueue(
        &mut self,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, Self::Key>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()>;
    fn count(&self, keys: &[Self::Key]) -> Result<u64>;
    /// Returns the number of pairs, the number in the stash, bytes, and bytes of scratch memory.
    fn report(&self) -> Result<[usize; 4]>;
}
struct OfMap<T: Number>(Map<T, T>, MapUpdater<T, T>);
impl<T: Number> Updated for OfMap<T> {
    type Key = T;
    const KIND: &'static str = "map";
    const ON_KNOWN: &'static [(&'static str, Operation, Outcome)] = &[
        ("insert_known", Operation::Insert, Outcome::Kept),
        ("assign", Operation::InsertOrAssign, Outcome::Assigned),
        ("add", Operation::InsertOrAdd, Outcome::Added),
    ];
    fn build(stream: &Stream, keys: View<'_, T>, load: f64) -> Result<Self> {
        let (device, options) = (stream.device(), MapOptions::default().with_load(load));
        Ok(OfMap(
            MapBuilder::new(device, options)?.build(stream, keys, keys)?,
            MapUpdater::new(device, options)?,
        ))
    }
    fn enqueue(
        &mut self,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, T>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        self.1.enqueue(&mut self.0, stream, operations, keys, keys, outcomes)
    }
    fn count(&self, keys: &[T]) -> Result<u64> {
        self.0.count(keys)
    }
    fn report(&self) -> Result<[usize; 4]> {
        let report = self.0.report()?;
        Ok([report.entries, report.stashed, report.bytes, self.1.scratch_bytes()])
    }
}
struct OfSet<T: Number>(Set<T>, SetUpdater<T>);
impl<T: Number> Updated for OfSet<T> {
    type Key = T;
    const KIND: &'static str = "set";
    const ON_KNOWN: &'static [(&'static str, Operation, Outcome)] =
        &[("insert_known", Operation::Insert, Outcome::Kept)];
    fn build(stream: &Stream, keys: View<'_, T>, load: f64) -> Result<Self> {
        let (device, options) = (stream.device(), SetOptions::default().with_load(load));
        Ok(OfSet(
            SetBuilder::new(device, options)?.build(stream, keys)?,
            SetUpdater::new(device, options)?,
        ))
    }
    fn enqueue(
        &mut self,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, T>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let operations = match operations {
            Operations::All(Operation::Erase) => Operations::All(SetOperation::Erase),
            Operations::All(_) => Operations::All(SetOperation::Insert),
            Operations::Each(codes) => Operations::Each(codes),
        };
        self.1.enqueue(&mut self.0, stream, operations, keys, outcomes)
    }
    fn count(&self, keys: &[T]) -> Result<u64> {
        self.0.count(keys)
    }
    fn report(&self) -> Result<[usize; 4]> {
        let report = self.0.report()?;
        Ok([report.entries, report.stashed, report.bytes, self.1.scratch_bytes()])
    }
}

struct Bench<'a, U> {
    stream: &'a Stream,
    table: U,
    outcomes: Buffer<u8>,
    verified: bool,
}
impl<U: Updated> Bench<'_, U> {
    /// Returns the seconds of a batch, all of whose outcomes must be `outcome`.
    fn time(
        &mut self,
        operations: Operations<'_>,
        keys: &Buffer<U::Key>,
        outcome: Option<Outcome>,
    ) -> Result<f64> {
        let Bench { stream, table, outcomes, verified } = self;
        let (keys, to) = (keys.view(), outcomes.view_mut());
        let seconds = stream.time(|| table.enqueue(stream, operations, keys, to))?.1;
        let found = outcomes.download()?;
        *verified &= match outcome {
            Some(outcome) => found.par_iter().all(|&o| Outcome::of(o) == Some(outcome)),
            None => {
                found.par_iter().all(|&o| !matches!(Outcome::of(o), None | Some(Outcome::NotDone)))
            }
        };
        Ok(seconds)
    }
    fn report(&self, op: &str, n: usize, load: f64, mut seconds: Vec<f64>) -> Result<()> {
        seconds.drain(..2);
        seconds.sort_by(f64::total_cmp);
        let (batch, median) = (self.outcomes.len(), seconds[seconds.len() / 2]);
        let [pairs, stashed, bytes, scratch_bytes] = self.table.report()?;
        row![
            ("kind", U::KIND),
            ("op", op),
            ("bits", 8 * size_of::<U::Key>()),
            ("n", n),
            ("batch", batch),
            ("load", load)
        ]
        .and(&rate(batch, median))
        .and(&row![
            ("verified", self.verified),
            ("pairs", pairs),
            ("stashed", stashed),
            ("bytes", bytes),
            ("scratch_bytes", scratch_bytes)
        ])
        .print();
        Ok(())
    }
}

fn rates<U: Updated>(stream: &Stream, n: usize, batch: usize, load: f64) -> Result<()> {
    let device = stream.device();
    // A table that would have to grow rejects operations: `enqueue` leaves growth to its caller.
    let room = (n as f64 * (MAX_LOAD / load - 1.0)) as usize;
    if batch > room {
        let expected = format!("at most {room}, for {n} pairs at load {load}");
        return Err(Error::Setting { field: "batch", found: batch.to_string(), expected });
    }
    let (there, absent) = (keys::<U::Key>(device, 0, n)?, keys::<U::Key>(device, n, batch)?);
    let mut bench = Bench {
        stream,
        table: U::build(stream, there.view(), load)?,
        outcomes: device.alloc(batch)?,
        verified: true,
    };
    let (insert, erase) = (Operations::All(Operation::Insert), Operations::All(Operation::Erase));
    let (mut inserts, mut erases) = (vec![], vec![]);
    for _ in 0..RUNS + 2 {
        inserts.push(bench.time(insert, &absent, Some(Outcome::Inserted))?);
        bench.verified &= bench.table.count(&absent.download()?)? == batch as u64;
        erases.push(bench.time(erase, &absent, Some(Outcome::Erased))?);
    }
    bench.verified &=
        bench.table.report()?[0] == n && bench.table.count(&there.download()?)? == n as u64;
    bench.verified &= bench.table.count(&absent.download()?)? == 0;
    bench.report("insert", n, load, inserts)?;
    bench.report("erase", n, load, erases)?;

    let known = keys::<U::Key>(device, 0, batch.min(n))?;
    bench.outcomes = device.alloc(known.len())?;
    for &(op, operation, outcome) in U::ON_KNOWN {
        let all = Operations::All(operation);
        let seconds =
            (0..RUNS + 2).map(|_| bench.time(all, &known, Some(outcome))).collect::<Result<_>>()?;
        bench.report(op, n, load, seconds)?;
    }
    let codes = (0..known.len()).map(|i| (splitmix_at(1, i as u32) % 4) as u8).collect::<Vec<_>>();
    let codes = device.upload(&codes)?;
    let each = Operations::Each(codes.view());
    let seconds = (0..RUNS + 2).map(|_| bench.time(each, &known, None)).collect::<Result<_>>()?;
    bench.report("mixed", n, load, seconds)
}
