//! Trials of many small maps, against [`HashMap`].

use super::{AnyResult, Progress};
use koel::map::layout::{Layout, Number};
use koel::types::{KeyBits, ValueBits};
use koel::{BuildReport, Device, Duplicates, Error, Map, MapBuilder, MapOptions, Stream};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Random, Row, row, unit};
use std::collections::HashMap;
use std::time::Instant;

/// Counts of small trials by outcome.
#[derive(Default)]
struct Tally {
    builds: usize,
    rebuilds: usize,
    builders: usize,
    pairs: usize,
    lookups: usize,
    copies: usize,
    rejected: usize,
    unchecked_copies: usize,
    stashed: usize,
    most_attempts: u32,
}

/// Builder and map reused for a number of trials.
struct Standing<K: KeyBits, V: ValueBits> {
    options: MapOptions,
    builder: MapBuilder<K, V>,
    map: Option<Map<K, V>>,
    left: u64,
}

pub(super) fn small(device: &Device, trials: usize, seed: u32) -> AnyResult<Row> {
    let stream = device.stream()?;
    let (mut tally, mut progress) = (Tally::default(), Progress(Instant::now()));
    let (mut narrow, mut wide, mut keys64, mut values64) = (None, None, None, None);
    for trial in 0..trials {
        let random = &mut Random(splitmix_at(seed as u64, trial as u32));
        match random.below(8) {
            0 => small_trial::<u64, u64>(&stream, random, &mut wide, &mut tally),
            1 => small_trial::<u64, u32>(&stream, random, &mut keys64, &mut tally),
            2 => small_trial::<u32, u64>(&stream, random, &mut values64, &mut tally),
            _ => small_trial::<u32, u32>(&stream, random, &mut narrow, &mut tally),
        }
        .map_err(|e| format!("trial {trial}: {e}"))?;
        progress.tell(|| format!("small: {trial} of {trials} builds"));
    }
    let Tally { builds, rebuilds, builders, pairs, lookups, copies, rejected, .. } = tally;
    let Tally { unchecked_copies, stashed, most_attempts, .. } = tally;
    Ok(row![
        ("builds", builds),
        ("rebuilds", rebuilds),
        ("builders", builders),
        ("pairs", pairs),
        ("lookups", lookups),
        ("copies", copies),
        ("rejected", rejected),
        ("unchecked_copies", unchecked_copies),
        ("stashed", stashed),
        ("most_attempts", most_attempts)
    ])
}

/// Returns a number of pairs: few, near the sizes of warps, blocks and partitions, or arbitrary.
fn small_size(random: &mut Random) -> usize {
    const EDGES: [u64; 12] = [0, 32, 64, 128, 256, 512, 768, 1024, 1536, 1800, 1920, 2000];
    let n = match random.below(64) {
        0 => 3599 + random.below(3),
        1..16 => random.below(65),
        16..32 => (random.of(&EDGES) + random.below(3)).saturating_sub(1),
        _ => random.below(2001),
    };
    n as usize
}
/// Returns the keys of a small trial and their description.
fn small_keys<K: KeyBits, V: ValueBits>(
    random: &mut Random,
    n: usize,
    seed: u32,
) -> (&'static str, Vec<K>) {
    let (base, bits) = (random.word(), 8 * size_of::<K>() as u32);
    let turned = |i: u64, by: u32| i << (by % bits) | i.checked_shr(bits - by % bits).unwrap_or(0);
    let (step, by, few) =
        (random.word(), random.below(64) as u32, 1 + random.below(n.min(50) as u64));
    let draw = |i: u64| splitmix_at(base, i as u32);
    // Keys whose hashes begin or end alike: all in one bucket, in few buckets, or in one partition.
    let unmixed = |i: u64| <K::Layout<V> as Layout>::unmixed(seed, Number::narrowed(i)).widened();
    let (name, key): (_, Box<dyn Fn(u64) -> u64>) = match random.below(12) {
        0 | 1 => ("random", Box::new(draw)),
        2 => ("sequential", Box::new(move |i| base.wrapping_add(i))),
        3 => ("downwards from all ones", Box::new(|i| !i)),
        4 => ("strided", Box::new(move |i| i.wrapping_mul(step))),
        5 => ("equal low bits", Box::new(move |i| turned(i, by))),
        6 => ("all equal", Box::new(move |_| base)),
        7 => ("all ones", Box::new(|_| u64::MAX)),
        8 => ("few", Box::new(move |i| draw(i).wrapping_mul(31) % few)),
        9 => ("one partition", Box::new(unmixed)),
        10 => ("few buckets", Box::new(move |i| if i < 40 { unmixed(i) } else { draw(i) })),
        _ => ("ambiguous", Box::new(move |i| unmixed(if i % 3 == 0 { u64::MAX } else { draw(i) }))),
    };
    (name, (0..n as u64).map(|i| K::narrowed(key(i))).collect())
}

impl<K: KeyBits, V: ValueBits> Standing<K, V> {
    /// Creates a builder with random options.
    fn new(device: &Device, random: &mut Random) -> koel::Result<Self> {
        use Duplicates::{KeepFirst, KeepLast, Reject, Unchecked};
        let any = 0.3 + 0.65 * unit(random.word());
        let load = random.of(&[0.3, 0.95, 0.8, any]);
        let duplicates = random.of(&[KeepLast, KeepLast, KeepFirst, Reject, Unchecked]);
        let options = MapOptions::default()
            .with_load(load)
            .with_duplicates(duplicates)
            .with_seed(if random.below(2) == 0 { 0 } else { random.word() as u32 })
            .with_reproducible(random.below(8) == 0);
        let left = 1 + random.below(40);
        Ok(Standing { options, builder: MapBuilder::new(device, options)?, map: None, left })
    }
}

/// Pairs of a small trial, and the contents that a map of them must have.
struct SmallPairs<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    oracle: HashMap<K, V>,
    /// Number of pairs with the key of an earlier pair.
    copies: usize,
    /// Description of the pairs, for errors.
    place: String,
}
impl<K: KeyBits, V: ValueBits> SmallPairs<K, V> {
    fn new(random: &mut Random, options: &MapOptions) -> Self {
        let n = small_size(random);
        let (name, keys) = small_keys::<K, V>(random, n, options.seed.unwrap_or(0));
        let salt = random.word();
        let values = (0..n as u64).map(|i| V::narrowed(i | (i ^ salt) << 32)).collect::<Vec<_>>();
        let place = format!(
            "{n} {name} keys of {} and values of {} bytes, {options:?}",
            size_of::<K>(),
            size_of::<V>()
        );
        let pairs = keys.iter().copied().zip(values.iter().copied());
        let oracle: HashMap<K, V> = if options.duplicates == Duplicates::KeepFirst {
            pairs.rev().collect()
        } else {
            pairs.collect()
        };
        let copies = n - oracle.len();
        SmallPairs { keys, values, oracle, copies, place }
    }
    /// Fails unless these are the positions of two pairs with this key.
    fn check_rejected(&self, key: u128, first: usize, second: usize) -> AnyResult {
        let SmallPairs { keys, place, .. } = self;
        let is_right = first < second
            && second < keys.len()
            && keys[first] == keys[second]
            && key == u128::from(keys[first].widened());
        if is_right { Ok(()) } else { Err(format!("{place}: key {key}, {first}, {second}").into()) }
    }
    /// Returns every key of the map, and others.
    fn queries(&self, random: &mut Random) -> Vec<K> {
        let mut queries = self.oracle.keys().copied().collect::<Vec<K>>();
        let others = queries.len() + 8;
        queries.extend((0..others).map(|_| K::narrowed(random.word())));
        queries.extend([0, 1, u64::MAX, u64::MAX - 1].map(K::narrowed));
        queries
    }
    /// Fails unless this is the answer to `query`. If a promise `is_broken`, a value found only has
    /// to belong to its key.
    #[inline]
    fn check_answer(
        &self,
        query: K,
        answer: (V, u8),
        is_broken: bool,
        report: &BuildReport,
    ) -> AnyResult {
        let right = self.oracle.get(&query);
        let is_right = match right {
            Some(_) if is_broken && answer.1 == 1 => {
                self.keys.iter().zip(&self.values).any(|pair| pair == (&query, &answer.0))
            }
            Some(&value) if !is_broken => answer == (value, 1),
            _ => answer == (V::narrowed(0), 0),
        };
        if !is_right {
            return Err(format!(
                "{}: the answer to key {query:?} is {answer:?}, not {right:?}; {report:?}",
                self.place
            )
            .into());
        }
        Ok(())
    }
}

fn small_trial<K: KeyBits, V: ValueBits>(
    stream: &Stream,
    random: &mut Random,
    standing: &mut Option<Standing<K, V>>,
    tally: &mut Tally,
) -> AnyResult {
    let device = stream.device();
    if standing.as_ref().is_none_or(|s| s.left == 0) {
        *standing = Some(Standing::new(device, random)?);
        tally.builders += 1;
    }
    let Some(Standing { options, builder, map, left }) = standing else { return Ok(()) };
    *left -= 1;
    let pairs = SmallPairs::<K, V>::new(random, options);
    let SmallPairs { keys, values, oracle, copies, place } = &pairs;
    let must_reject = options.duplicates == Duplicates::Reject && *copies > 0;

    let (k, v) = (device.stage(keys)?, device.stage(values)?);
    let old = map.take().filter(|_| random.below(16) > 0);
    tally.builds += 1;
    tally.rebuilds += old.is_some() as usize;
    let built = match old {
        None => builder.build(stream, k.view(), v.view()),
        Some(mut old) => builder.rebuild(&mut old, stream, k.view(), v.view()).map(|()| old),
    };
    let built = match built {
        Err(Error::DuplicateKey { key, first, second }) if must_reject => {
            tally.rejected += 1;
            return pairs.check_rejected(key, first, second);
        }
        Err(e) => return Err(format!("{place}: {e}").into()),
        Ok(_) if must_reject => {
            return Err(format!("{place}: {copies} copies were not rejected").into());
        }
        Ok(built) => map.insert(built),
    };
    let queries = pairs.queries(random);
    let staged = device.stage(&queries)?;
    let (mut answers, mut found) =
        (device.alloc::<V>(queries.len())?, device.alloc::<u8>(queries.len())?);
    built.get_into(stream, staged.view(), answers.view_mut(), found.view_mut())?;
    let (answers, found, report) = (answers.download()?, found.download()?, built.report()?);
    // After a broken promise, nothing hangs, and values found belong to their keys.
    let is_broken = options.duplicates == Duplicates::Unchecked && *copies > 0;
    for (i, &query) in queries.iter().enumerate() {
        pairs.check_answer(query, (answers[i], found[i]), is_broken, &report)?;
    }
    if !is_broken && (report.entries, report.duplicates) != (oracle.len(), *copies) {
        return Err(format!("{place}: holds {} distinct keys: {report:?}", oracle.len()).into());
    }
    tally.pairs += keys.len();
    tally.lookups += queries.len();
    tally.copies += copies;
    tally.unchecked_copies += is_broken as usize;
    tally.stashed += report.stashed;
    tally.most_attempts = tally.most_attempts.max(report.attempts);
    Ok(())
}
