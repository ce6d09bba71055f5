//! Arbitrary bytes as options and runs of keys of multimaps and indexes: answers must equal those
//! of the standard library's table, on the CPU and, for few keys, on the test executor.
//! `cargo +nightly fuzz run groups fuzz/corpus/groups fuzz/seeds/groups`

#![no_main]

use koel_fuzz_checks::groups;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| groups::check(bytes));
