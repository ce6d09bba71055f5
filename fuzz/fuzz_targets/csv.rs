//! Arbitrary bytes as a CSV file: an error with its line, or the records that the csv crate reads,
//! never a panic, a hang or excessive memory.
//! `cargo +nightly fuzz run csv fuzz/corpus/csv fuzz/seeds/csv -- -malloc_limit_mb=64`

#![no_main]

use koel_fuzz_checks::csv;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| csv::check(bytes));
