//! Arbitrary bytes as a NumPy array: an error or a header that fits the file, never a panic, a hang
//! or excessive memory.
//! `cargo +nightly fuzz run npy fuzz/corpus/npy fuzz/seeds/npy -- -malloc_limit_mb=64`

#![no_main]

use koel_fuzz_checks::npy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| npy::check(bytes));
