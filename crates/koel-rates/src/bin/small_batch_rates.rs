//! Batches of few keys on a GPU: microseconds of a batch, beside a map in host memory that is asked
//! and changed key by key, in one run; one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin small_batch_rates -- cuda 2^24
//! ```
//!
//! Sizes are those of maps of `u32`; batches have 1 to 2^17 keys, others in each run. Ways, each
//! until the answers can be read:
//!
//! * `host`: keys and answers in host memory, [`Map::get`] and [`Map::insert_or_assign`];
//! * `stream`: in device memory, [`Map::get_or_into`] and [`MapUpdater::enqueue`];
//! * `graph`: the same, recorded once;
//! * `host_graph`: a graph, with copies of keys and answers from and to host memory;
//! * `one_by_one`: [`HostMap::get`] and [`HostMap::insert`]; `many`: [`HostMap::get_many`] and
//!   [`HostMap::try_extend`].
//!
//! `us`: the median of 7 rounds of 100 batches. Answers and the map in the end are compared.
use koel::map::{Operations, Outcome};
use koel::{Device, Graph, HostMap, Map, MapOptions, MapUpdater, Operation, Result, Stream};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, RUNS, decimals, print_provenance, repeat, row, seconds_of};
use std::mem::take;

/// Batches of a round.
const ROUND: usize = 100;
const BATCHES: [usize; 7] = [1, 16, 256, 1024, 4096, 1 << 14, 1 << 17];

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let device = args.device()?;
    print_provenance(&device);
    for n in args.sizes(&[1 << 24])? {
        let key = |i: usize| splitmix_at(1, i as u32) as u32;
        let keys = (0..n).map(key).collect::<Vec<_>>();
        let values = (0..n as u32).collect::<Vec<_>>();
        let host = HostMap::try_from_iter(keys.iter().copied().zip(values.iter().copied()))?;
        let map = Map::build(&device, &keys, &values)?;
        let mut maps = Maps { keys, stream: device.stream()?, device: device.clone(), host };
        let mut map = map;
        for batch in BATCHES {
            map = maps.lookups(map, batch)?;
            map = maps.changes(map, batch)?;
        }
        let mut pairs = map.pairs()?;
        let mut expected = maps.host.iter().collect::<Vec<_>>();
        pairs.sort_unstable();
        expected.sort_unstable();
        assert!(pairs == expected, "the maps differ");
    }
    Ok(())
}
struct Maps {
    keys: Vec<u32>,
    device: Device,
    stream: Stream,
    host: HostMap<u32, u32>,
}
/// Operation, way and size of batches.
type Name = (&'static str, &'static str, usize);
impl Maps {
    /// Returns the keys of a batch.
    fn batch(&self, number: usize, batch: usize) -> Vec<u32> {
        let at = |i: usize| splitmix_at(number as u64, i as u32) as usize % self.keys.len();
        (0..batch).map(|i| self.keys[at(i)]).collect()
    }
    /// Measures rounds of batches, and prints the time of one.
    fn measure(
        &self,
        (op, way, batch): Name,
        mut verified: bool,
        mut run: impl FnMut(&[u32]) -> Result<bool>,
    ) -> Result<()> {
        let batches = (0..ROUND).map(|i| self.batch(i, batch)).collect::<Vec<_>>();
        let [times] = repeat(RUNS, || {
            let (right, seconds) = seconds_of(|| {
                batches.iter().try_fold(true, |right, keys| Result::Ok(run(keys)? && right))
            })?;
            verified &= right;
            Result::Ok([seconds / ROUND as f64 * 1e6])
        })?;
        row![
            ("op", op),
            ("way", way),
            ("n", self.keys.len()),
            ("batch", batch),
            ("us", decimals(times.median, 2)),
            ("us_min", decimals(times.min, 2)),
            ("us_max", decimals(times.max, 2)),
            ("ns_of_key", decimals(times.median * 1e3 / batch as f64, 2)),
            ("verified", verified)
        ]
        .print();
        Ok(())
    }
    /// Returns the map after its lookups.
    fn lookups(&self, map: Map<u32, u32>, batch: usize) -> Result<Map<u32, u32>> {
        let Maps { stream, device, host, .. } = self;
        let all = (0..ROUND).flat_map(|i| self.batch(i, batch)).collect::<Vec<_>>();
        let expected = host.get_many(&all)?;
        let verified = map.get(&all)? == expected && expected.iter().all(Option::is_some);
        let name = |way| ("get", way, batch);
        self.measure(name("host"), verified, |keys| Ok(map.get(keys)?.len() == batch))?;
        let (keys, mut values) = (device.upload(&self.batch(0, batch))?, device.alloc(batch)?);
        self.measure(name("stream"), verified, |_| {
            map.get_or_into(stream, keys.view(), values.view_mut(), 0)?;
            stream.synchronize()?;
            Ok(true)
        })?;
        let mut graph = stream.capture((map, keys, values), |stream, (map, keys, values)| {
            map.get_or_into(stream, keys.view(), values.view_mut(), 0)
        })?;
        self.measure(name("graph"), verified, |_| launched(&mut graph, stream))?;
        self.measure(name("host_graph"), verified, |keys| {
            graph.state_mut().1.view_mut().copy_from_host(keys)?;
            graph.launch(stream)?;
            Ok(graph.state().2.download()?.len() == batch)
        })?;
        let (answers, last) = (graph.state().2.download()?, self.batch(ROUND - 1, batch));
        assert!(answers.iter().zip(last).all(|(&value, key)| host.get(key) == Some(value)));
        self.measure(name("one_by_one"), verified, |keys| {
            Ok(keys.iter().filter(|&&key| host.get(key).is_some()).count() == batch)
        })?;
        self.measure(name("many"), verified, |keys| Ok(host.get_many(keys)?.len() == batch))?;
        Ok(graph.into_state().0)
    }
    /// Returns the map after changes, which are those of the map in host memory.
    fn changes(&mut self, mut map: Map<u32, u32>, batch: usize) -> Result<Map<u32, u32>> {
        let name = |way| ("assign", way, batch);
        let values = (0..batch as u32).collect::<Vec<_>>();
        let is_assigned = |outcomes: &[Outcome]| outcomes.iter().all(|&of| of == Outcome::Assigned);
        self.measure(name("host"), true, |keys| {
            Ok(is_assigned(&map.insert_or_assign(keys, &values)?))
        })?;
        let mut host = take(&mut self.host);
        let Maps { stream, device, .. } = &*self;
        let (keys, values_on) = (device.upload(&self.batch(0, batch))?, device.upload(&values)?);
        let (mut outcomes, mut updater) =
            (device.alloc(batch)?, MapUpdater::new(device, MapOptions::default())?);
        let operations = Operations::All(Operation::InsertOrAssign);
        self.measure(name("stream"), true, |_| {
            let outcomes = outcomes.view_mut();
            let (keys, values) = (keys.view(), values_on.view());
            updater.enqueue(&mut map, stream, operations, keys, values, outcomes)?;
            stream.synchronize()?;
            Ok(true)
        })?;
        let state = (map, updater, keys, values_on, outcomes);
        let mut graph =
            stream.capture(state, move |stream, (map, updater, keys, values, outcomes)| {
                let outcomes = outcomes.view_mut();
                updater.enqueue(map, stream, operations, keys.view(), values.view(), outcomes)
            })?;
        self.measure(name("graph"), true, |_| launched(&mut graph, stream))?;
        self.measure(name("host_graph"), true, |keys| {
            let (_, _, to, to_values, _) = graph.state_mut();
            to.view_mut().copy_from_host(keys)?;
            to_values.view_mut().copy_from_host(&values)?;
            graph.launch(stream)?;
            let outcomes = graph.state().4.download()?;
            Ok(outcomes.iter().all(|&byte| byte == Outcome::Assigned as u8))
        })?;
        let map = graph.into_state().0;
        self.measure(name("one_by_one"), true, |keys| {
            let mut all = keys.iter().zip(&values);
            all.try_for_each(|(&key, &value)| host.insert(key, value).map(drop))?;
            Ok(true)
        })?;
        self.measure(name("many"), true, |keys| {
            host.try_extend(keys.iter().copied().zip(values.iter().copied()))?;
            Ok(true)
        })?;
        self.host = host;
        Ok(map)
    }
}
/// Launches a graph, and waits for it.
fn launched<S>(graph: &mut Graph<S>, stream: &Stream) -> Result<bool> {
    graph.launch(stream)?;
    stream.synchronize()?;
    Ok(true)
}
