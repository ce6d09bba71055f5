//! Arbitrary bytes as options and runs of keys of multimaps and indexes: answers must equal those
//! of the standard library's table, on the CPU and, for few keys, on the test executor.
//! `cargo +nightly fuzz run groups fuzz/corpus/groups fuzz/seeds/groups`

#![no_main]

#[path = "../checks/groups.rs"]
mod groups;
#[allow(dead_code, reason = "groups have no batches")]
#[path = "../checks/script.rs"]
mod script;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| groups::check(bytes));
