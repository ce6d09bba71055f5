//! Arbitrary bytes as options, keys and batches of operations on sets: outcomes and lookups must
//! equal those of the standard library's table, on the CPU and, for short scripts, on the test
//! executor. `cargo +nightly fuzz run set_ops fuzz/corpus/set_ops fuzz/seeds/set_ops`

#![no_main]

use koel_fuzz_checks::set_ops;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| set_ops::check(bytes));
