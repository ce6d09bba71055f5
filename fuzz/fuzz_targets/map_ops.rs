//! Arbitrary bytes as options, keys and batches of operations on maps: outcomes and lookups must
//! equal those of the standard library's table, on the CPU and, for short scripts, on the test
//! executor. `cargo +nightly fuzz run map_ops fuzz/corpus/map_ops fuzz/seeds/map_ops`

#![no_main]

use koel_fuzz_checks::map_ops;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| map_ops::check(bytes));
