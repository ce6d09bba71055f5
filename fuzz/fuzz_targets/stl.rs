//! Any bytes as STL: an error or a sound scan, never a panic, a hang or memory out of proportion.
//! `cargo +nightly fuzz run stl fuzz/corpus/stl fuzz/seeds/stl -- -malloc_limit_mb=64`

#![no_main]

#[path = "../checks/scan.rs"]
mod scan;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| scan::check(koel_spatial::read::parse_stl(bytes)));
