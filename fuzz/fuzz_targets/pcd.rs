//! Arbitrary bytes as PCD: an error or a valid scan, never a panic, a hang or excessive memory.
//! `cargo +nightly fuzz run pcd fuzz/corpus/pcd fuzz/seeds/pcd -- -malloc_limit_mb=64`

#![no_main]

use koel_fuzz_checks::scan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| scan::check(koel_scans::parse_pcd(bytes)));
