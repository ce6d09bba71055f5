//! Updates at a stride: what the 2011 paper bounds its construction by.
use koel_simt::{Buf, Thread, kernel};

/// Thread `i` exchanges word `i * stride` of `words`, a power of two of them.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn strided_updates(t: Thread, n: u32, stride: u32, mask: u32, words: Buf<u64>) {
    let i = t.global_id();
    if i < n {
        words.swap(i.wrapping_mul(stride) & mask, i as u64);
    }
}
