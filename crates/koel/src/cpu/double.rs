//! Tables that grow to twice their buckets: see [`double`].
//!
//! Places are scaled hashes, so a table of twice the buckets has the entries of partition `p` in
//! partitions `2 p` and `2 p + 1`, in the order of their first buckets. Each thread reads a range
//! of the old buckets and writes the two ranges of new ones, once and in order; no key is mixed
//! anew.
use super::bucketed::{Buckets, PairOf};
use super::in_place::{In, Part};
use super::stash::Stash;
use crate::device::Device;
use crate::error::Result;
use crate::fallible::{push, with_room};
use crate::parallel;
use koel_kernels::table::layout::{EMPTY, Layout, Shape};

/// Bytes of old buckets that a thread reads at a time, or one partition.
const PIECE: usize = 64 << 10;
/// Maximum number of buckets to which the only partition of a small table grows.
const MOST_BUCKETS: u32 = 1024;

/// Returns the shape of a table with twice the buckets of this one.
pub(crate) fn doubled(shape: Shape) -> Option<Shape> {
    let Shape { partitions, buckets } = shape;
    let shape = if partitions == 1 && buckets <= MOST_BUCKETS / 2 {
        Shape { partitions, buckets: 2 * buckets }
    } else {
        Shape { partitions: partitions.checked_mul(2)?, buckets }
    };
    (shape.all_buckets() <= u32::MAX.into()).then_some(shape)
}
/// Writes the entries of a table to one of its [doubled] shape, over whatever it contains. Returns
/// its stash. `empty`: the word of an empty bucket.
///
/// Reads and writes each bucket once. Errors: out of memory.
pub(crate) fn double<B: Buckets>(
    device: &Device,
    seed: u32,
    (shape, words, stash): (Shape, &[B::Word], &Stash<B::Pairs>),
    (larger, to): (Shape, &mut [B::Word]),
    empty: B::Word,
) -> Result<Stash<B::Pairs>>
where
    B::Word: Sync,
{
    let none = Stash::default();
    let table = In::<B> { shape: larger, seed, stash: &none };
    let partition = shape.buckets as usize * B::WORDS;
    let piece = (PIECE / size_of_val(&words[..partition])).max(1) * partition;
    let ranges = words.chunks(piece).zip(to.chunks_mut(2 * piece));
    let homeless = device.install(|| {
        parallel::map(ranges, |i, (from, to)| {
            to.fill(empty);
            let first = (i * piece / B::WORDS) as u32;
            move_all::<B>(shape, (from, first), Part::new(table, 2 * first, to))
        })
    })?;
    let mut pairs = with_room(stash.len())?;
    for pair in homeless {
        for pair in pair? {
            push(&mut pairs, pair)?;
        }
    }
    let mut all = Part::new(table, 0, to);
    for pair in stash.iter().filter(|&pair| !all.insert_or_overflow(pair)) {
        push(&mut pairs, pair)?;
    }
    Ok(Stash::from_pairs(pairs, stash.held())?)
}
/// Moves the entries of some buckets, and returns those for which there is no room.
fn move_all<B: Buckets>(
    shape: Shape,
    (from, first): (&[B::Word], u32),
    mut to: Part<'_, B>,
) -> Result<Vec<PairOf<B>>> {
    let mut homeless = Vec::new();
    for bucket in 0..from.len() / B::WORDS {
        for slot in 0..B::SLOTS {
            let pair = B::pair(from, bucket, slot);
            let is_entry = |h| shape.belongs(h, first + bucket as u32);
            if B::Pairs::head(pair) == EMPTY || !is_entry(B::Pairs::hash(B::Pairs::key(pair))) {
                continue;
            }
            if !to.insert_or_overflow(pair) {
                push(&mut homeless, pair)?;
            }
        }
    }
    Ok(homeless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::place::find;
    use crate::cpu::{Iter, OfMap, OfSet};
    use koel_kernels::hash::mix::splitmix_at;
    use koel_kernels::table::layout::{Narrow, Number, Wide};
    use std::collections::HashMap;
    use std::fmt::Debug;

    const SEED: u32 = 77;

    /// Fills a table key by key as far as there is room, the rest into its stash, and doubles it
    /// again and again: it holds the same entries.
    fn check<B: Buckets<Word: Sync, Value: PartialEq + Debug>>(
        shape: Shape,
        empty: B::Word,
        key: impl Fn(u64) -> u64,
    ) {
        let words = |shape: Shape| vec![empty; shape.all_buckets() as usize * B::WORDS];
        let (mut shape, mut table) = (shape, words(shape));
        let none = Stash::default();
        let mut part = Part::<B>::new(In { shape, seed: SEED, stash: &none }, 0, &mut table);
        let slots = shape.all_buckets() * B::SLOTS as u64;
        let (mut pairs, mut homeless, mut held) = (HashMap::new(), vec![], None);
        for i in 0..slots * 9 / 10 {
            let (word, value) = (key(i), <B::Pairs as Layout>::Value::narrowed(!i));
            let mixed = <B::Pairs as Layout>::Mixed::narrowed(word);
            let own = B::Pairs::unmixed(SEED, mixed);
            let pair = B::Pairs::pair(mixed, value);
            if pairs.contains_key(&own.widened()) {
                continue;
            }
            pairs.insert(own.widened(), B::value(pair));
            if mixed == B::Pairs::AMBIGUOUS {
                held = Some(value);
            } else if !part.insert_or_overflow(pair) {
                homeless.push(pair);
            }
        }
        let mut stash = Stash::from_pairs(homeless, held).unwrap();
        for threads in [1, 3, 2] {
            let device = Device::cpu_with_threads(threads).unwrap();
            let larger = doubled(shape).unwrap();
            assert_eq!(larger.all_buckets(), 2 * shape.all_buckets());
            // Whatever it contains.
            let mut to = [&table[..], &table[..]].concat();
            stash = double::<B>(&device, SEED, (shape, &table, &stash), (larger, &mut to), empty)
                .unwrap();
            (shape, table) = (larger, to);
            let entries = Iter::<B>::new(shape, SEED, &table, &stash).collect::<Vec<_>>();
            assert_eq!(entries.len(), pairs.len(), "{shape:?}");
            for (own, value) in entries {
                assert_eq!(pairs[&own.widened()], value);
                assert_eq!(find::<B>(shape, SEED, &table, &stash, own), Some(value));
            }
        }
    }
    fn check_shapes<B: Buckets<Word: Sync, Value: PartialEq + Debug>>(empty: B::Word, bits: u32) {
        let shapes = [(1, 1), (1, 2), (1, 300), (1, 600), (1, 1000), (2, 1), (3, 7), (40, 90)];
        for (partitions, buckets) in shapes {
            let shape = Shape { partitions, buckets };
            check::<B>(shape, empty, |i| splitmix_at(4, i as u32));
            // Few places, special ones, and the ambiguous key.
            check::<B>(shape, empty, |i| (i % 7) << (bits - 3) | i);
            check::<B>(shape, empty, |i| !(i << 2));
            check::<B>(shape, empty, |i| splitmix_at(4, i as u32 % 5) << 20 | i);
        }
    }
    #[test]
    fn doubled_tables_hold_the_same_entries() {
        check_shapes::<OfMap<Narrow>>(EMPTY, 32);
        check_shapes::<OfMap<Wide<u64, u32>>>(EMPTY, 64);
        check_shapes::<OfSet<u32>>(u32::MAX, 32);
        check_shapes::<OfSet<u64>>(u64::MAX, 64);
    }
    #[test]
    fn the_largest_tables_do_not_double() {
        let shape = |partitions, buckets| Shape { partitions, buckets };
        assert_eq!(doubled(shape(1 << 31, 1)), None);
        assert_eq!(doubled(shape(1 << 21, 1125)), None);
        assert_eq!(doubled(shape(1, 512)), Some(shape(1, 1024)));
        assert_eq!(doubled(shape(1, 513)), Some(shape(2, 513)));
    }
}
