//! Strided updates: the upper bound on the construction rate in the 2011 paper.
use koel_simt::{Buf, Thread, kernel};

/// Exchanges word `i * stride` of `words`, modulo their number, which is a power of two.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn strided_updates(t: Thread, n: u32, stride: u32, mask: u32, words: Buf<u64>) {
    let i = t.global_id();
    if i < n {
        words.swap(i.wrapping_mul(stride) & mask, i as u64);
    }
}
