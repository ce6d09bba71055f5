//! Keys that tables treat specially, and keys crafted against a seed: one generator for all tests.
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::table::layout::{Layout, Number};

/// Returns every key that this layout and seed treat specially, once each: the ambiguous key, which
/// looks like an empty slot; its neighbours; those from which fillers are counted; and the smallest
/// and largest words, unmixed.
pub(crate) fn special_keys<L: Layout>(seed: u32) -> Vec<L::Key> {
    let words = [0, 1, u64::MAX, u64::MAX - 1, u32::MAX.into(), 1 << 31, 1 << 32, 1 << 63];
    // At the first hash, at the start of the upper half, and at the last hash.
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
/// Returns the key of a mixed key. 32-bit keys reach only some of the 64-bit mixed keys.
fn key_of<L: Layout>(seed: u32, mixed: L::Mixed) -> Option<L::Key> {
    Some(L::unmixed(seed, mixed)).filter(|&key| L::mixed(seed, key) == mixed)
}

/// Returns a special key for about one in three random words, else `other`.
pub(crate) fn often_special<L: Layout>(seed: u32, random: u64, other: L::Key) -> L::Key {
    let keys = special_keys::<L>(seed);
    if random.is_multiple_of(3) { keys[(random >> 32) as usize % keys.len()] } else { other }
}

/// Returns distinct keys that share both buckets under this seed, as far as they exist: 64-bit keys
/// of one hash, 32-bit keys of the lowest hashes.
pub(crate) fn chosen_keys<L: Layout>(seed: u32, n: u32) -> Vec<L::Key> {
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
