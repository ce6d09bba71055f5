//! Where one key lies: what lookups and changes of one key share.
use super::bucketed::{Buckets, MixedOf};
use super::stash::Stash;
use koel_kernels::table::layout::{Layout, Shape};

/// Where a key lies.
pub(super) enum Place {
    /// In a bucket, by its number in `words`, and a slot.
    Slot(usize, usize),
    Stash,
    Nowhere,
}
/// Returns where a key lies that is not the ambiguous one, and has the hash `h`. The words are
/// those of the buckets of a table from `start` on.
///
/// Reads few bytes of arguments: a table passed in memory would cost more than the lookup.
#[inline(always)]
pub(super) fn place<B: Buckets>(
    shape: Shape,
    (words, start): (&[B::Word], u32),
    stash: &Stash<B::Pairs>,
    mixed: MixedOf<B>,
    h: u32,
) -> Place {
    let first = (shape.first_place(h) - start) as usize;
    if let Some(slot) = B::slot_of(words, first, mixed) {
        return Place::Slot(first, slot);
    }
    if B::overflowed(words, first, h) {
        let second = (shape.second_place(h) - start) as usize;
        if let Some(slot) = B::slot_of(words, second, mixed) {
            return Place::Slot(second, slot);
        }
        if B::is_full(words, second) && stash.get(mixed).is_some() {
            return Place::Stash;
        }
    }
    Place::Nowhere
}
/// Returns the value of a key in a table.
#[inline(always)]
pub(crate) fn find<B: Buckets>(
    shape: Shape,
    seed: u32,
    words: &[B::Word],
    stash: &Stash<B::Pairs>,
    key: <B::Pairs as Layout>::Key,
) -> Option<B::Value> {
    let mixed = B::Pairs::mixed(seed, key);
    let of_pair = |value| B::value(B::Pairs::pair(mixed, value));
    if mixed == B::Pairs::AMBIGUOUS {
        return stash.held().map(of_pair);
    }
    match place::<B>(shape, (words, 0), stash, mixed, B::Pairs::hash(mixed)) {
        Place::Slot(bucket, slot) => Some(B::value(B::pair(words, bucket, slot))),
        Place::Stash => stash.get(mixed).map(of_pair),
        Place::Nowhere => None,
    }
}
