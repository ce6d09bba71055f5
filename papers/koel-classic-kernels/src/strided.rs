//! Strided updates: the upper bound on the construction rate in the 2011 paper.
use koel_simt::{Buf, Scalar, Thread, kernel};

/// Reads word `i * stride` of `words`, modulo their number, which is a power of two, and writes
/// `i`, or 0 if the word was `i`: by an atomic exchange, which always writes `i`, or, if `plain` is
/// not 0, by a load and a store.
#[kernel(image = CLASSIC, threads = 256, independent, for W in [u32, u64])]
pub fn strided_updates<W: Scalar + From<u32>>(
    t: Thread,
    n: u32,
    stride: u32,
    mask: u32,
    plain: u32,
    words: Buf<W>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let (at, word) = (i.wrapping_mul(stride) & mask, W::from(i));
    if plain == 0 {
        words.swap(at, word);
    } else {
        // The store depends on the load, so that neither is dropped.
        let old = words.load(at);
        words.store(at, if old == word { W::default() } else { word });
    }
}
