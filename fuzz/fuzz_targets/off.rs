//! Arbitrary bytes as OFF: an error or a valid scan, never a panic, a hang or excessive memory.
//! `cargo +nightly fuzz run off fuzz/corpus/off fuzz/seeds/off -- -malloc_limit_mb=64`

#![no_main]

use koel_fuzz_checks::scan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| scan::check(koel_scans::parse_off(bytes)));
