//! Arbitrary bytes as a picture: an error or grey levels, never a panic, a hang or excessive memory.
//! `cargo +nightly fuzz run picture fuzz/corpus/picture fuzz/seeds/picture -- -malloc_limit_mb=64`

#![no_main]

use koel_fuzz_checks::picture;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| picture::check(bytes));
