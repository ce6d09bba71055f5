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
//! enqueued by [`enqueue`](koel::MapUpdater::enqueue). `bits=128 kind=map` has maps of 128-bit keys
//! (`map128`), whose values have 32, then 64 bits, and which [`apply`](koel::MapUpdater::apply)
//! changes. `verified`: all outcomes of all runs are
//! right, and so are lookups of all keys after the last.
use koel::types::{SlotKey, SlotValue};
use koel::{
    Buffer, Device, DeviceKey, DeviceValue, Error, Map, MapBuilder, MapOptions, MapUpdater,
    Operation, Operations, Outcome, Result, Set, SetBuilder, SetOperation, SetOptions, SetUpdater,
    Stream, View, ViewMut,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, NumberedKey, RUNS, Times, bits, keys, rate, repeat, row, size};
use rayon::prelude::*;

/// Maximum load that batches lead to.
const MAX_LOAD: f64 = 0.9;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let loads = args.list("load", "0.5,0.8", |load| load.parse().ok())?;
    let batches = args.list("batch", "2^20", size)?;
    let widths = args.list("bits", "32", bits)?;
    let kinds = args.list("kind", "map", |kind| ["map", "set"].into_iter().find(|k| *k == kind))?;
    let stream = args.device()?.stream()?;
    for n in args.sizes(&[1 << 24])? {
        for &batch in &batches {
            for &load in &loads {
                for &bits in &widths {
                    for &kind in &kinds {
                        match (kind, bits) {
                            ("map", 32) => rates::<OfMap<u32>>(&stream, n, batch, load)?,
                            ("map", 64) => rates::<OfMap<u64>>(&stream, n, batch, load)?,
                            ("set", 32) => rates::<OfSet<u32>>(&stream, n, batch, load)?,
                            ("set", 64) => rates::<OfSet<u64>>(&stream, n, batch, load)?,
                            ("map", _) => {
                                rates::<OfMap128<u32>>(&stream, n, batch, load)?;
                                rates::<OfMap128<u64>>(&stream, n, batch, load)?;
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
fn uploaded<K: DeviceKey + NumberedKey>(
    device: &Device,
    numbers: std::ops::Range<usize>,
) -> Result<Buffer<K>> {
    device.upload(&keys(numbers))
}

/// Table with its updater.
trait Updated: Sized {
    type Key: DeviceKey + NumberedKey;
    const KIND: &'static str;
    /// Bits of a key; of a value, if keys have 128.
    const BITS: usize = 8 * size_of::<Self::Key>();
    /// Whether a table grows that has no room for a batch.
    const GROWS: bool = false;
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
/// Keys and values of slots.
trait Word: DeviceKey + SlotKey + DeviceValue + SlotValue + NumberedKey {}
impl Word for u32 {}
impl Word for u64 {}
struct OfMap<T: Word>(Map<T, T>, MapUpdater<T, T>);
impl<T: Word> Updated for OfMap<T> {
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
/// A map of 128-bit keys, its updater, and values for as many keys as a batch or the map may have.
struct OfMap128<V: DeviceValue>(Map<u128, V>, MapUpdater<u128, V>, Buffer<V>);
impl<V: DeviceValue + Default> Updated for OfMap128<V> {
    type Key = u128;
    const KIND: &'static str = "map128";
    const BITS: usize = 8 * size_of::<V>();
    const GROWS: bool = true;
    const ON_KNOWN: &'static [(&'static str, Operation, Outcome)] = &[
        ("insert_known", Operation::Insert, Outcome::Kept),
        ("assign", Operation::InsertOrAssign, Outcome::Assigned),
    ];
    fn build(stream: &Stream, keys: View<'_, u128>, load: f64) -> Result<Self> {
        let (device, options) = (stream.device(), MapOptions::default().with_load(load));
        let values = device.upload(&vec![V::default(); keys.len()])?;
        let map = MapBuilder::new(device, options)?.build(stream, keys, values.view())?;
        Ok(OfMap128(map, MapUpdater::new(device, options)?, values))
    }
    fn enqueue(
        &mut self,
        stream: &Stream,
        operations: Operations<'_>,
        keys: View<'_, u128>,
        outcomes: ViewMut<'_, u8>,
    ) -> Result<()> {
        let values = self.2.view().slice(..keys.len())?;
        self.1.apply(&mut self.0, stream, operations, keys, values, outcomes)
    }
    fn count(&self, keys: &[u128]) -> Result<u64> {
        self.0.count(keys)
    }
    fn report(&self) -> Result<[usize; 4]> {
        let report = self.0.report()?;
        Ok([report.entries, report.stashed, report.bytes, self.1.scratch_bytes()])
    }
}
struct OfSet<T: Word>(Set<T>, SetUpdater<T>);
impl<T: Word> Updated for OfSet<T> {
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
    fn report(&self, op: &str, n: usize, load: f64, times: Times) -> Result<()> {
        let batch = self.outcomes.len();
        let [pairs, stashed, bytes, scratch_bytes] = self.table.report()?;
        row![
            ("kind", U::KIND),
            ("op", op),
            ("bits", U::BITS),
            ("n", n),
            ("batch", batch),
            ("load", load)
        ]
        .and(&rate(batch, times))
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
    if batch > if U::GROWS { n } else { room } {
        let expected = format!("at most {room}, for {n} pairs at load {load}");
        return Err(Error::Setting { field: "batch", found: batch.to_string(), expected });
    }
    let (there, absent) = (uploaded(device, 0..n)?, uploaded(device, n..n + batch)?);
    let mut bench = Bench {
        stream,
        table: U::build(stream, there.view(), load)?,
        outcomes: device.alloc(batch)?,
        verified: true,
    };
    let (insert, erase) = (Operations::All(Operation::Insert), Operations::All(Operation::Erase));
    let [inserts, erases] = repeat(RUNS, || {
        let inserting = bench.time(insert, &absent, Some(Outcome::Inserted))?;
        bench.verified &= bench.table.count(&absent.download()?)? == batch as u64;
        Result::Ok([inserting, bench.time(erase, &absent, Some(Outcome::Erased))?])
    })?;
    bench.verified &=
        bench.table.report()?[0] == n && bench.table.count(&there.download()?)? == n as u64;
    bench.verified &= bench.table.count(&absent.download()?)? == 0;
    bench.report("insert", n, load, inserts)?;
    bench.report("erase", n, load, erases)?;

    let known = uploaded(device, 0..batch.min(n))?;
    bench.outcomes = device.alloc(known.len())?;
    for &(op, operation, outcome) in U::ON_KNOWN {
        let all = Operations::All(operation);
        let [times] = repeat(RUNS, || Result::Ok([bench.time(all, &known, Some(outcome))?]))?;
        bench.report(op, n, load, times)?;
    }
    let codes = (0..known.len()).map(|i| (splitmix_at(1, i as u32) % 4) as u8).collect::<Vec<_>>();
    let codes = device.upload(&codes)?;
    let each = Operations::Each(codes.view());
    let [times] = repeat(RUNS, || Result::Ok([bench.time(each, &known, None)?]))?;
    bench.report("mixed", n, load, times)
}
