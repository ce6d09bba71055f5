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
//! drawn at random from this many; for an index, `encode` builds it and looks up the whole column,
//! and so does `index128_encode` of 128-bit keys, into an existing index.
//! `each`: values per key in a multimap, in random order in the input; `zipf`: group sizes by
//! Zipf's law over n keys. Each is measured with the values of a key in input order and in any
//! order. Every answer is compared with the host's.
use koel::{
    IndexBuilder, IndexOptions, MultiMapBuilder, MultiMapOptions, Result, Retriever, Stream,
    ValueOrder,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{
    Arguments, Arrangement, NumberedKey, Row, Times, Value, built, drawn, ids_of, json, on_stream,
    print_copies, rate, row, size,
};
use rayon::prelude::*;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let distinct = args.list("distinct", "", size)?;
    let each = args.list("each", "", Each::from)?;
    let stream = args.device()?.stream()?;
    print_copies(&stream)?;
    for n in args.sizes(&[])? {
        distinct.iter().try_for_each(|&d| index(&stream, n, d))?;
        distinct.iter().try_for_each(|&d| index128(&stream, n, d))?;
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
    fn from(text: &str) -> Option<Each> {
        Some(if text == "zipf" { Each::Zipf } else { Each::Same(size(text)?) })
    }
    /// Returns the rank of the key of each of `n` pairs.
    fn ranks(&self, n: usize) -> Vec<u32> {
        let Each::Same(each) = *self else { return Arrangement::Zipf.ranks(n, 0, u32::numbered) };
        // A bijection of the positions if n is a power of two.
        let place =
            |i: usize| (i as u32).wrapping_mul(0x9E37_79B1) as usize & (n.next_power_of_two() - 1);
        (0..n).into_par_iter().map(|i| (place(i) / each) as u32).collect()
    }
    fn name(&self) -> Value {
        match self {
            Each::Same(each) => json!(each),
            Each::Zipf => json!("zipf"),
        }
    }
}
fn tell(op: &str, n: usize, what: &Row, count: usize, times: Times, verified: bool) {
    row![("op", op), ("n", n)]
        .and(what)
        .and(&rate(count, times))
        .and(&row![("verified", verified)])
        .print();
}

fn index(stream: &Stream, n: usize, distinct: usize) -> Result<()> {
    let device = stream.device();
    let numbers = drawn(n, distinct);
    let host = numbers.par_iter().map(|&i| u32::numbered(i)).collect::<Vec<_>>();
    let column = device.upload(&host)?;
    let (mut ids, mut builder) =
        (device.alloc(n)?, IndexBuilder::<u32>::new(device, IndexOptions::default())?);
    let what = row![("distinct", distinct)];

    let (index, [times, _]) =
        built(stream, || builder.encode(stream, column.view(), ids.view_mut()))?;
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
    tell("encode", n, &what, n, times, right && numbered);
    let times = on_stream(stream, || index.ids_into(stream, column.view(), ids.view_mut()))?;
    tell("ids", n, &what, n, times, right);
    let mut back = device.alloc(n)?;
    let times = on_stream(stream, || index.keys_of_into(stream, ids.view(), back.view_mut(), 0))?;
    tell("keys_of", n, &what, n, times, back.download()? == host);

    let ((of_keys, counts), [times, _]) =
        built(stream, || builder.group_counts(stream, column.view()))?;
    let mut want = keys.iter().map(|&key| (key, 0u32)).collect::<Vec<_>>();
    ids.download()?.into_iter().for_each(|id| want[id as usize].1 += 1);
    want.sort_unstable();
    let right = of_keys.download()?.into_iter().zip(counts.download()?).eq(want);
    tell("group_counts", n, &what, n, times, right);
    Ok(())
}

/// Rebuilds an index of 128-bit keys, and encodes the column.
fn index128(stream: &Stream, n: usize, distinct: usize) -> Result<()> {
    let device = stream.device();
    let numbers = drawn(n, distinct);
    let host = numbers.par_iter().map(|&i| u128::numbered(i)).collect::<Vec<_>>();
    let column = device.upload(&host)?;
    let mut builder = IndexBuilder::new(device, IndexOptions::default())?;
    let (mut index, mut ids) = (builder.build(stream, column.view())?, device.alloc::<u32>(n)?);
    let times = on_stream(stream, || {
        builder.rebuild(&mut index, stream, column.view())?;
        index.ids_into(stream, column.view(), ids.view_mut())
    })?;
    let (expected, distinct) = ids_of(&numbers);
    let verified = ids.download()? == expected && index.len() == distinct;
    let (what, report) = (row![("distinct", distinct)], index.report()?);
    let what = what.and(&row![
        ("attempts", report.attempts),
        ("bytes", report.bytes),
        ("scratch_bytes", report.scratch_bytes)
    ]);
    tell("index128_encode", n, &what, n, times, verified);
    Ok(())
}

fn multi_map(stream: &Stream, n: usize, each: &Each, order: ValueOrder) -> Result<()> {
    let device = stream.device();
    let ranks = each.ranks(n);
    let host = ranks.par_iter().map(|&rank| u32::numbered(rank)).collect::<Vec<_>>();
    let (keys, values) =
        (device.upload(&host)?, device.upload(&(0..n as u32).collect::<Vec<_>>())?);
    let what = row![("each", each.name()), ("order", format!("{order:?}"))];
    let options = MultiMapOptions::default().with_order(order);
    let mut builder = MultiMapBuilder::<u32, u32>::new(device, options)?;
    let (map, [times, _]) = built(stream, || builder.build(stream, keys.view(), values.view()))?;
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
    let both = on_stream(stream, || {
        retriever.find(stream, &map, queries.view())?;
        retriever.values_into(stream, &map, found.view_mut())
    })?;
    let alone = on_stream(stream, || retriever.values_into(stream, &map, found.view_mut()))?;
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
    tell("multi_build", n, &what, n, times, right);
    tell("retrieve", n, &what, total, both, right);
    tell("retrieve_values", n, &what, total, alone, right);
    Ok(())
}
