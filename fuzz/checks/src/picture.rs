//! Checks of the reader of pictures.
use std::path::Path;

/// Maximum memory of a decoded picture, in bytes.
const MOST: u64 = 1 << 20;

/// Expects an error, or a picture whose values are grey levels.
pub fn check(bytes: &[u8]) {
    if let Ok(picture) = koel_vision::decode(bytes, Path::new("picture"), MOST) {
        let grey = picture.grey;
        assert_eq!(grey.pixels.len(), grey.width * grey.height);
        assert!(grey.pixels.iter().all(|v| (0.0..=255.0).contains(v)));
        assert_eq!(picture.color.dimensions(), (grey.width as u32, grey.height as u32));
    }
}
