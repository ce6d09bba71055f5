//! Checks of the reader of NumPy arrays.
use koel_formats::npy::read_header;

/// Expects an error or a header that fits the file.
pub fn check(bytes: &[u8]) {
    let length = Some(bytes.len() as u64);
    if let Ok(header) = read_header(&mut &bytes[..], length) {
        assert_eq!(header.start + header.len * header.element.bytes(), bytes.len() as u64);
        let of_stream = read_header(&mut &bytes[..], None);
        assert!(of_stream.is_ok_and(|of_stream| of_stream == header));
    }
}
