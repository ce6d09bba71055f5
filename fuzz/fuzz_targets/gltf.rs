//! Arbitrary bytes as glTF: an error or a valid mesh whose animations can be played, never a panic or
//! a hang. Nodes can show a mesh many times, hence the greater limit on allocations.
//! `cargo +nightly fuzz run gltf fuzz/corpus/gltf fuzz/seeds/gltf -- -malloc_limit_mb=2048`

#![no_main]

use koel_fuzz_checks::gltf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| gltf::check(bytes));
