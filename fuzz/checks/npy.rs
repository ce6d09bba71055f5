//! Checks of the reader of NumPy arrays.
#[allow(dead_code, reason = "what writes headers is not used here")]
#[path = "../../crates/koel-cli/src/table/npy.rs"]
mod arrays;

/// Expects an error or a header that fits the file.
pub(crate) fn check(bytes: &[u8]) {
    if let Ok(header) = arrays::read_header(&mut &bytes[..], bytes.len() as u64) {
        assert_eq!(header.start + header.len * header.element.bytes(), bytes.len() as u64);
    }
}
