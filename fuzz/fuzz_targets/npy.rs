//! Any bytes as a NumPy array: an error or a header that fits the file, never a panic, a hang or memory out of proportion.
//! `cargo +nightly fuzz run npy fuzz/corpus/npy fuzz/seeds/npy -- -malloc_limit_mb=64`

#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "what writes headers is not used here")]
#[path = "../../crates/koel-cli/src/table/npy.rs"]
mod npy;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = npy::read_header(&mut &bytes[..], bytes.len() as u64) {
        assert_eq!(header.start + header.len * header.element.bytes(), bytes.len() as u64);
    }
});
