//! Checks of the reader of NumPy arrays.
#[allow(dead_code, reason = "what writes headers is not used here")]
#[path = "../../crates/koel-cli/src/table/npy.rs"]
mod arrays;

/// Expects an error or a header that fits the file.
pub(crate) fn check(bytes: &[u8]) {
    let length = Some(bytes.len() as u64);
    if let Ok(header) = arrays::read_header(&mut &bytes[..], length) {
        assert_eq!(header.start + header.len * header.element.bytes(), bytes.len() as u64);
        let of_stream = arrays::read_header(&mut &bytes[..], None);
        assert!(of_stream.is_ok_and(|of_stream| of_stream == header));
    }
}
