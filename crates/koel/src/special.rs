//! Keys that tables treat apart, and keys that were chosen against a seed: one generator for all
//! tests.
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::table::layout::{Layout, Number};

/// Each key of this layout and seed that something treats apart, once: the ambiguous one, which
/// looks like an empty slot; those beside it; those from which fillers are counted; and the least
/// and the greatest words, as they are.
pub fn special_keys<L: Layout>(seed: u32) -> Vec<L::Key> {
    let words = [0, 1, u64::MAX, u64::MAX - 1, u32::MAX.into(), 1 << 31, 1 << 32, 1 << 63];
    // Of the first hash of all, of the first in the middle, and of the last.
    let mixed =
        [0, 1, 1 << 31, u64::MAX - 1, 1 << 63, (u32::MAX as u64) << 32].map(L::Mixed::narrowed);
    let unmixed =
        [L::AMBIGUOUS].into_iter().chain(mixed).filter_map(|mixed| key_of::<L>(seed, mixed));
    let mut keys = vec![];
    for key in unmixed.chain(words.map(L::Key::narrowed)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}
/// The key of a mixed key. Keys of 32 bits have but some of those of 64.
fn key_of<L: Layout>(seed: u32, mixed: L::Mixed) -> Option<L::Key> {
    Some(L::unmixed(seed, mixed)).filter(|&key| L::mixed(seed, key) == mixed)
}

/// Special keys and others: of three random words about one gives a special key.
pub fn often_special<L: Layout>(seed: u32, random: u64, other: L::Key) -> L::Key {
    let keys = special_keys::<L>(seed);
    if random.is_multiple_of(3) { keys[(random >> 32) as usize % keys.len()] } else { other }
}

/// Different keys that share both their buckets by this seed, as far as there are any: of 64 bits
/// all of one hash, of 32 those of the least hashes.
pub fn chosen_keys<L: Layout>(seed: u32, n: u32) -> Vec<L::Key> {
    let wide = |i: u32| 0x1234_5678u64 << L::HASH_SHIFT | splitmix_at(3, i) >> 32;
    let mixed = (0..).map(|i| if L::HASH_SHIFT > 0 { wide(i) } else { i as u64 });
    let mut keys = mixed
        .filter_map(|mixed| key_of::<L>(seed, L::Mixed::narrowed(mixed)))
        .take(n as usize)
        .collect::<Vec<_>>();
    keys.sort_unstable();
    keys.dedup();
    keys
}
