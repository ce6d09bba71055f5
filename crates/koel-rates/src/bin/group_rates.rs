//! Rates of [`Index`](koel::Index), of group counts and of [`MultiMap`] on this machine's best
//! device: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin group_rates -- \
//!     2^24 distinct=2^10,2^20 each=4,64,zipf
//! ```
//!
//! `gps`: 10^9 keys, pairs or values per second, the median of 7 runs after 2 warm-up runs. Builds
//! allocate their output, and wait for the number of distinct keys. `distinct`: columns of keys
//! drawn at random from this many; for an index, `encode` builds it and looks up the whole column.
//! `each`: values per key in a multimap, in random order in the input; `zipf`: group sizes by
//! Zipf's law over n keys. Each is measured with the values of a key in input order and in any
//! order. Every answer is compared with the host's.
use koel::{
    Buffer, Device, IndexBuilder, IndexOptions, MultiMap, MultiMapBuilder, MultiMapOptions, Result,
    Retriever, Stream, ValueOrder,
};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_rates::{Row, Value, json, median, print_copies, print_provenance, rate, row, size};
use rayon::prelude::*;

fn main() -> Result<()> {
    let (mut sizes, mut distinct, mut each) = (vec![], vec![], vec![]);
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            Some(("distinct", list)) => {
                distinct = list.split(',').map(size).collect::<Result<Vec<_>>>()?
            }
            Some(("each", list)) => {
                each = list.split(',').map(Each::from).collect::<Result<Vec<_>>>()?
            }
            _ => sizes.push(size(&arg)?),
        }
    }
    let stream = Device::best()?.stream()?;
    eprintln!("{}", stream.device().name());
    print_provenance(stream.device());
    print_copies(&stream)?;
    for n in sizes {
        distinct.iter().try_for_each(|&d| index(&stream, n, d))?;
        for order in [ValueOrder::Input, ValueOrder::Any] {
            each.iter().try_for_each(|each| multi_map(&stream, n, each, order))?;
        }
    }
    Ok(())
}
/// Number of values per key.
enum Each {
    Same(usize),
    Zipf,
}
impl Each {
    fn from(text: &str) -> Result<Each> {
        Ok(if text == "zipf" { Each::Zipf } else { Each::Same(size(text)?) })
    }
    /// Returns the rank of the key of pair `i` of `n`.
    fn rank(&self, i: usize, n: usize) -> u32 {
        match self {
            // A bijection of the positions if n is a power of two.
            &Each::Same(each) => {
                let place =
                    (i as u32).wrapping_mul(0x9E37_79B1) as usize & (n.next_power_of_two() - 1);
                (place / each) as u32
            }
            Each::Zipf => {
                let unit = (splitmix_at(0, i as u32) >> 11) as f64 / (1u64 << 53) as f64;
                ((n as f64).ln() * unit).exp() as u32 - 1
            }
        }
    }
    fn name(&self) -> Value {
        match self {
            Each::Same(each) => json!(each),
            Each::Zipf => json!("zipf"),
        }
    }
}
/// Returns the key of a rank, distinct for distinct ranks.
fn key(rank: u32) -> u32 {
    mix(rank ^ 0x5BD1_E995)
}
fn tell(op: &str, n: usize, what: &Row, count: usize, seconds: f64, verified: bool) {
    row![("op", op), ("n", n)]
        .and(what)
        .and(&rate(count, seconds))
        .and(&row![("verified", verified)])
        .print();
}

fn index(stream: &Stream, n: usize, distinct: usize) -> Result<()> {
    let device = stream.device();
    let ranks = (0..n)
        .into_par_iter()
        .map(|i| (splitmix_at(3, i as u32) % distinct as u64) as u32)
        .collect::<Vec<_>>();
    let host = ranks.par_iter().map(|&r| key(r)).collect::<Vec<_>>();
    let column = device.upload(&host)?;
    let (mut ids, mut builder) =
        (device.alloc(n)?, IndexBuilder::<u32>::new(device, IndexOptions::default())?);
    let what = row![("distinct", distinct)];

    let mut encoded = None;
    let seconds = median(stream, || {
        encoded = None;
        encoded = Some(builder.encode(stream, column.view(), ids.view_mut())?);
        Ok(())
    })?;
    let Some(index) = encoded else { unreachable!("it has run") };
    let keys = index.keys_view().download()?;
    let on_host = ids.download()?;
    let right = on_host.par_iter().zip(&host).all(|(&id, key)| keys.get(id as usize) == Some(key));
    // New ids come in ascending order.
    let is_numbered = |next: &mut u32, &id: &u32| {
        let is_right = id <= *next;
        *next = (*next).max(id.saturating_add(1));
        Some(is_right)
    };
    let numbered = on_host.iter().scan(0, is_numbered).all(|is_right| is_right);
    tell("encode", n, &what, n, seconds, right && numbered);
    let seconds = median(stream, || index.ids_into(stream, column.view(), ids.view_mut()))?;
    tell("ids", n, &what, n, seconds, right);
    let mut back = device.alloc(n)?;
    let seconds = median(stream, || index.keys_of_into(stream, ids.view(), back.view_mut(), 0))?;
    tell("keys_of", n, &what, n, seconds, back.download()? == host);

    let mut counts: Option<(Buffer<u32>, Buffer<u32>)> = None;
    let seconds = median(stream, || {
        counts = None;
        counts = Some(builder.group_counts(stream, column.view())?);
        Ok(())
    })?;
    let mut want = keys.iter().map(|&key| (key, 0u32)).collect::<Vec<_>>();
    ids.download()?.into_iter().for_each(|id| want[id as usize].1 += 1);
    want.sort_unstable();
    let right = match counts {
        Some((keys, counts)) => keys.download()?.into_iter().zip(counts.download()?).eq(want),
        None => false,
    };
    tell("group_counts", n, &what, n, seconds, right);
    Ok(())
}

fn multi_map(stream: &Stream, n: usize, each: &Each, order: ValueOrder) -> Result<()> {
    let device = stream.device();
    let ranks = (0..n).into_par_iter().map(|i| each.rank(i, n)).collect::<Vec<_>>();
    let host = ranks.par_iter().map(|&r| key(r)).collect::<Vec<_>>();
    let (keys, values) =
        (device.upload(&host)?, device.upload(&(0..n as u32).collect::<Vec<_>>())?);
    let what = row![("each", each.name()), ("order", format!("{order:?}"))];
    let options = MultiMapOptions::default().with_order(order);
    let mut builder = MultiMapBuilder::<u32, u32>::new(device, options)?;
    let mut built: Option<MultiMap> = None;
    let seconds = median(stream, || {
        built = None;
        built = Some(builder.build(stream, keys.view(), values.view())?);
        Ok(())
    })?;
    let Some(map) = built else { unreachable!("it has run") };
    drop(builder);

    let mut distinct = map.index().keys_view().download()?;
    let right = order == ValueOrder::Any || distinct.is_sorted_by(|a, b| a < b);
    // Every key once, in an order that has nothing to do with the table's.
    distinct.par_sort_unstable_by_key(|&key| splitmix_at(11, key));
    let queries = device.upload(&distinct)?;
    let mut retriever = Retriever::new(device, distinct.len())?;
    retriever.find(stream, &map, queries.view())?;
    let total = retriever.total()?;
    let mut found = device.alloc(total)?;
    let both = median(stream, || {
        retriever.find(stream, &map, queries.view())?;
        retriever.values_into(stream, &map, found.view_mut())
    })?;
    let alone = median(stream, || retriever.values_into(stream, &map, found.view_mut()))?;
    let (offsets, found) = (retriever.offsets().download()?, found.download()?);
    let right = right
        && total == n
        && distinct.par_iter().zip(offsets.par_windows(2)).all(|(key, at)| {
            let mut of = found[at[0] as usize..at[1] as usize].to_vec();
            if order == ValueOrder::Any {
                of.sort_unstable();
            }
            of.is_sorted_by(|a, b| a < b) && of.iter().all(|&i| host[i as usize] == *key)
        });
    tell("multi_build", n, &what, n, seconds, right);
    tell("retrieve", n, &what, total, both, right);
    tell("retrieve_values", n, &what, total, alone, right);
    Ok(())
}
