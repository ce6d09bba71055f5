//! Arbitrary bytes as a table file of every kind, as they are and with corrected checksums: an
//! error or a table whose lookups stay in bounds, never a panic, a hang or excessive memory.
//! `cargo +nightly fuzz run table fuzz/corpus/table fuzz/seeds/table -- -malloc_limit_mb=64`

#![no_main]

use koel_fuzz_checks::table;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| table::check(bytes));
