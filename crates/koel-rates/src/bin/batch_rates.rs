//! Small batches of updates in host memory, beside hashbrown with the hash function of rustc, in
//! one run: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin batch_rates -- threads 2 1000 2^20
//! ```
//!
//! Sizes are those of maps; the default is 10^3, 10^6 and 10^7. Keys and values are slices, and
//! hashbrown changes one key after the other on one thread. `ns`: nanoseconds per key, the median
//! of 5 runs, each of some 2^17 keys or more; `of_hashbrown`: divided by hashbrown's. Operations:
//!
//! * `insert`, `erase`: in turn, of keys that are new in each batch;
//! * `assign`, `add`: of present keys at random;
//! * `stream`: batches of new keys from an empty map to one of the size;
//! * `churn`: rounds that erase a tenth of the map and insert as many new keys, in such batches.
//!   `bytes_of_built`: the map's memory after them, divided by that of a map built of the same
//!   pairs.
//!
//! All outcomes are compared, and the whole map in the end.
use hashbrown::HashMap;
use koel::{Device, Map, Outcome, Result};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, decimals, print_provenance, repeat, row, seconds_of};
use rustc_hash::FxBuildHasher;
use std::ops::Range;

const RUNS: usize = 5;
const BATCHES: [usize; 6] = [1, 8, 64, 1024, 10_000, 100_000];
type Peer<K> = HashMap<K, u32, FxBuildHasher>;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let threads = args.numbered("threads", 2).unwrap_or(1);
    let device = Device::cpu_with_threads(threads)?;
    print_provenance(&device);
    for n in args.sizes(&[1000, 1_000_000, 10_000_000])? {
        rates::<u32>(&device, ("u32", n), |word| word as u32)?;
        rates::<u64>(&device, ("u64", n), |word| word)?;
    }
    Ok(())
}
/// Prints the times of both, per key.
fn show(
    (op, key, n, batch): (&str, &str, usize, usize),
    keys: usize,
    times: [koel_rates::Times; 2],
    bytes_of_built: Option<f64>,
    verified: bool,
) {
    let [ours, theirs] = times;
    let ns = |seconds: f64| decimals(seconds / keys as f64 * 1e9, 2);
    row![
        ("op", op),
        ("key", key),
        ("n", n),
        ("batch", batch),
        ("ns", ns(ours.median)),
        ("ns_min", ns(ours.min)),
        ("ns_max", ns(ours.max)),
        ("of_hashbrown", decimals(ours.median / theirs.median, 3)),
        ("bytes_of_built", bytes_of_built.map(|share| decimals(share, 3))),
        ("verified", verified)
    ]
    .print();
}

fn rates<K: koel::Key + Eq + std::hash::Hash>(
    device: &Device,
    (name, n): (&str, usize),
    key: fn(u64) -> K,
) -> Result<()> {
    // A bijection of 32 bits: all keys are distinct.
    let keys = |of: Range<usize>| {
        of.map(|i| key(u64::from((i as u32).wrapping_mul(0x9E37_79B1)) * 0x1_0000_0001))
            .collect::<Vec<_>>()
    };
    let (first, values) = (keys(0..n), (0..n as u32).collect::<Vec<_>>());
    let mut map = Map::build(device, &first, &values)?;
    let mut peer = first.iter().copied().zip(values).collect::<Peer<K>>();
    let mut new = n;
    for batch in BATCHES.into_iter().filter(|&batch| batch <= n) {
        // Batches of a round are timed together: the clock takes as long as a key.
        let of_round = batch.max((n / 8).min(1 << 17)) / batch * batch;
        let rounds = (1usize << 18).div_ceil(of_round);
        let (mut verified, values) = (true, (0..batch as u32).collect::<Vec<_>>());
        let mut random = 0;
        let times = repeat(RUNS, || {
            let mut seconds = [0.0; 8];
            for _ in 0..rounds {
                let (fresh, present) = (keys(new..new + of_round), 0..of_round);
                new += of_round;
                let present = present
                    .map(|_| {
                        random += 1;
                        first[(splitmix_at(5, random) % n as u64) as usize]
                    })
                    .collect::<Vec<_>>();
                let all = |of_all: &mut dyn FnMut(&[K]) -> Result<()>, keys: &[K]| {
                    seconds_of(|| keys.chunks(batch).try_for_each(&mut *of_all))
                        .map(|((), seconds)| seconds)
                };
                let mut outcomes = |done: Vec<Outcome>, expected: Outcome| {
                    verified &= done.len() == batch && done.iter().all(|&of| of == expected);
                    Result::Ok(())
                };
                let of_round = [
                    all(
                        &mut |keys| outcomes(map.insert(keys, &values)?, Outcome::Inserted),
                        &fresh,
                    )?,
                    all(&mut |keys| outcomes(map.erase(keys)?, Outcome::Erased), &fresh)?,
                    all(
                        &mut |keys| {
                            outcomes(map.insert_or_assign(keys, &values)?, Outcome::Assigned)
                        },
                        &present,
                    )?,
                    all(
                        &mut |keys| outcomes(map.insert_or_add(keys, &values)?, Outcome::Added),
                        &present,
                    )?,
                    all(
                        &mut |keys| {
                            for (&key, &value) in keys.iter().zip(&values) {
                                peer.entry(key).or_insert(value);
                            }
                            Ok(())
                        },
                        &fresh,
                    )?,
                    all(
                        &mut |keys| {
                            let gone =
                                keys.iter().filter(|&key| peer.remove(key).is_some()).count();
                            assert_eq!(gone, batch);
                            Ok(())
                        },
                        &fresh,
                    )?,
                    all(
                        &mut |keys| {
                            for (&key, &value) in keys.iter().zip(&values) {
                                peer.insert(key, value);
                            }
                            Ok(())
                        },
                        &present,
                    )?,
                    all(
                        &mut |keys| {
                            for (&key, &value) in keys.iter().zip(&values) {
                                let to = peer.entry(key).or_insert(0);
                                *to = to.wrapping_add(value);
                            }
                            Ok(())
                        },
                        &present,
                    )?,
                ];
                seconds.iter_mut().zip(of_round).for_each(|(sum, of)| *sum += of);
            }
            Result::Ok(seconds)
        })?;
        let total = rounds * of_round;
        for (i, op) in ["insert", "erase", "assign", "add"].into_iter().enumerate() {
            show((op, name, n, batch), total, [times[i], times[i + 4]], None, verified);
        }
    }
    let same = |map: &Map<K, u32>, peer: &Peer<K>| {
        let pairs = map.pairs()?;
        Result::Ok(
            pairs.len() == peer.len()
                && pairs.iter().all(|(key, value)| peer.get(key) == Some(value)),
        )
    };
    let mut verified = same(&map, &peer)?;
    for batch in [1024, 100_000].into_iter().filter(|&batch| batch <= n) {
        let values = (0..batch as u32).collect::<Vec<_>>();
        let [ours, theirs] = repeat(RUNS, || {
            let (grown, ours) = seconds_of(|| {
                let mut map = Map::<K, u32>::build(device, &[], &[])?;
                for keys in first.chunks(batch) {
                    map.insert(keys, &values[..keys.len()])?;
                }
                Result::Ok(map)
            })?;
            let (peer, theirs) = seconds_of(|| {
                let mut peer = Peer::default();
                for keys in first.chunks(batch) {
                    peer.extend(keys.iter().copied().zip(values.iter().copied()));
                }
                Result::Ok(peer)
            })?;
            verified &= same(&grown, &peer)?;
            Result::Ok([ours, theirs])
        })?;
        show(("stream", name, n, batch), n, [ours, theirs], None, verified);
    }
    // A tenth of the map in each round, with the oldest keys gone first.
    let (tenth, rounds) = (n / 10, if n > 1_000_000 { 20 } else { 100 });
    for batch in [1024, 100_000].into_iter().filter(|&batch| batch <= tenth) {
        let values = (0..batch as u32).collect::<Vec<_>>();
        let mut map = Map::build(device, &first, &(0..n as u32).collect::<Vec<_>>())?;
        let mut peer = first.iter().copied().zip(0..n as u32).collect::<Peer<K>>();
        let (mut oldest, mut seconds) = (0, [0.0; 2]);
        for _ in 0..rounds {
            for _ in 0..tenth / batch {
                let (gone, new) =
                    (keys(oldest..oldest + batch), keys(oldest + n..oldest + n + batch));
                oldest += batch;
                let ((), ours) = seconds_of(|| {
                    map.erase(&gone)?;
                    map.insert(&new, &values).map(|_| ())
                })?;
                let ((), theirs) = seconds_of(|| {
                    gone.iter().for_each(|key| _ = peer.remove(key));
                    peer.extend(new.iter().copied().zip(values.iter().copied()));
                    Result::Ok(())
                })?;
                (seconds[0], seconds[1]) = (seconds[0] + ours, seconds[1] + theirs);
            }
        }
        verified &= same(&map, &peer)?;
        let pairs = map.pairs()?;
        let (keys, values) = pairs.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        let share = map.bytes() as f64 / Map::build(device, &keys, &values)?.bytes() as f64;
        let [ours, theirs] = repeat(1, || Result::Ok(seconds))?;
        show(("churn", name, n, batch), 2 * oldest, [ours, theirs], Some(share), verified);
    }
    Ok(())
}
