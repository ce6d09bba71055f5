//! Headers of tables: what lookups, updates and the host must know.
use koel_kernels::table::header;
use koel_kernels::table::layout::Number;

/// Content of a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<V> {
    pub seed: u32,
    pub stashed: u32,
    /// Value of the ambiguous key.
    pub held: Option<V>,
    pub pairs: u32,
    pub dropped: u32,
    pub failed: bool,
    pub attempts: u32,
    pub overflowed: u32,
    pub contested: u32,
}

/// Reads the words of a header.
pub(crate) fn read_header<V: Number>(words: &[u32]) -> Header<V> {
    let word = |w: u32| words[w as usize];
    let held = (word(header::HELD_VALUE + 1) as u64) << 32 | word(header::HELD_VALUE) as u64;
    Header {
        seed: word(header::SEED),
        stashed: word(header::STASHED),
        held: (word(header::HELD) != 0).then(|| V::narrowed(held)),
        pairs: word(header::PAIRS),
        dropped: word(header::DROPPED),
        failed: word(header::FAILED) != 0,
        attempts: word(header::ATTEMPTS),
        overflowed: word(header::OVERFLOWED),
        contested: word(header::CONTESTED),
    }
}
/// Returns the header of a table that comes from elsewhere: what lookups and updates must know.
pub(crate) fn header_words<V: Number>(
    seed: u32,
    pairs: usize,
    stashed: usize,
    held: Option<V>,
) -> [u32; header::WORDS] {
    let mut words = [0; header::WORDS];
    words[header::SEED as usize] = seed;
    words[header::FOREIGN as usize] = 1;
    set_counts(&mut words, pairs, stashed, held);
    words
}
/// Sets what changes with the entries.
#[inline]
pub(crate) fn set_counts<V: Number>(
    words: &mut [u32],
    pairs: usize,
    stashed: usize,
    held: Option<V>,
) {
    let value = held.map_or(0, Number::widened);
    words[header::PAIRS as usize] = pairs as u32;
    words[header::STASHED as usize] = stashed as u32;
    words[header::HELD as usize] = held.is_some() as u32;
    words[header::HELD_VALUE as usize] = value as u32;
    words[header::HELD_VALUE as usize + 1] = (value >> 32) as u32;
}
