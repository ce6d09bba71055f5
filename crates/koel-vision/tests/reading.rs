//! Images from files: every pixel format, and invalid files.
use image::{DynamicImage, ImageFormat};
use koel_vision::{ReadError, decode, read};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

struct Folder(tempfile::TempDir);
impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}
fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(vec![]);
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}
/// Black on the left, white on the right.
fn halves(width: u32, height: u32) -> DynamicImage {
    let pixel = |x, _| image::Luma([if x < width / 2 { 0 } else { 255 }]);
    DynamicImage::ImageLuma8(image::GrayImage::from_fn(width, height, pixel))
}

#[test]
fn every_pixel_format_gives_the_same_luminance() {
    let (folder, halves) = (Folder::new(), halves(8, 4));
    let images = [
        halves.clone(),
        DynamicImage::ImageLumaA8(halves.to_luma_alpha8()),
        DynamicImage::ImageRgb8(halves.to_rgb8()),
        DynamicImage::ImageRgba8(halves.to_rgba8()),
        DynamicImage::ImageLuma16(halves.to_luma16()),
        DynamicImage::ImageRgb16(halves.to_rgb16()),
        DynamicImage::ImageRgba16(halves.to_rgba16()),
    ];
    for (i, image) in images.iter().enumerate() {
        let picture = read(&folder.file("a.png", &encoded(image, ImageFormat::Png))).unwrap();
        assert_eq!((picture.grey.width, picture.grey.height), (8, 4));
        for (at, v) in picture.grey.pixels.iter().enumerate() {
            let expected = if at % 8 < 4 { 0.0 } else { 255.0 };
            assert!((v - expected).abs() < 0.01, "format {i}, pixel {at}: {v}");
        }
    }
}

/// The formats beside PNG hold the same values; TIFF also 16 bits and floating-point numbers.
#[test]
fn every_file_format_is_read() {
    let (folder, halves) = (Folder::new(), halves(8, 4));
    let rgb = DynamicImage::ImageRgb8(halves.to_rgb8());
    for (format, image) in [
        (ImageFormat::Tiff, &halves),
        (ImageFormat::Tiff, &DynamicImage::ImageLuma16(halves.to_luma16())),
        (ImageFormat::Tiff, &DynamicImage::ImageRgb32F(halves.to_rgb32f())),
        (ImageFormat::WebP, &rgb),
        (ImageFormat::Gif, &rgb),
        (ImageFormat::Bmp, &rgb),
    ] {
        // The name says nothing.
        let picture = read(&folder.file("a.dat", &encoded(image, format))).unwrap();
        for (at, v) in picture.grey.pixels.iter().enumerate() {
            let expected = if at % 8 < 4 { 0.0 } else { 255.0 };
            assert!((v - expected).abs() < 1.0, "{format:?}, pixel {at}: {v}");
        }
    }
    let odd = [f32::NAN, f32::INFINITY, -3.0, 7.0].repeat(3);
    let odd = DynamicImage::ImageRgb32F(image::ImageBuffer::from_raw(2, 2, odd).unwrap());
    let grey = read(&folder.file("odd.tif", &encoded(&odd, ImageFormat::Tiff))).unwrap().grey;
    assert!(grey.pixels.iter().all(|v| (0.0..=255.0).contains(v)), "{grey:?}");
}

#[test]
fn transparency_shows_mid_grey() {
    let clear = image::RgbaImage::from_pixel(3, 3, image::Rgba([255, 0, 0, 0]));
    let bytes = encoded(&DynamicImage::ImageRgba8(clear), ImageFormat::Png);
    let grey = read(&Folder::new().file("a.png", &bytes)).unwrap().grey;
    assert!(grey.pixels.iter().all(|v| (v - 127.5).abs() < 0.01), "{grey:?}");
}

/// Adds an EXIF block with an orientation to a JPEG.
fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let tiff =
        [b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", &[orientation, 0, 0, 0, 0, 0, 0, 0][..]]
            .concat();
    let content = [b"Exif\0\0", &tiff[..]].concat();
    let length = (content.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xFF, 0xE1], &length, &content, &jpeg[2..]].concat()
}

#[test]
fn photographs_are_upright() {
    let folder = Folder::new();
    let jpeg = encoded(&halves(32, 16), ImageFormat::Jpeg);
    let corners = |orientation| {
        let grey = read(&folder.file("a.jpg", &with_orientation(&jpeg, orientation))).unwrap().grey;
        let at = |x: usize, y: usize| grey.pixels[y * grey.width + x] > 128.0;
        let (right, bottom) = (grey.width - 1, grey.height - 1);
        ((grey.width, grey.height), [at(0, 0), at(right, 0), at(right, bottom), at(0, bottom)])
    };
    assert_eq!(corners(1), ((32, 16), [false, true, true, false]));
    assert_eq!(corners(3), ((32, 16), [true, false, false, true]));
    assert_eq!(corners(6), ((16, 32), [false, false, true, true]));
    assert_eq!(corners(8), ((16, 32), [true, true, false, false]));
}

#[test]
fn the_content_decides_not_the_name() {
    let folder = Folder::new();
    let png = encoded(&halves(8, 4), ImageFormat::Png);
    for name in ["a.jpg", "a.txt", "a"] {
        assert!(read(&folder.file(name, &png)).is_ok(), "{name}");
    }
    for content in [&b"this is text, whatever its name says"[..], b"", b"\x89PN"] {
        let error = read(&folder.file("a.png", content)).unwrap_err();
        assert!(matches!(error, ReadError::Format { .. }), "{error}");
        assert!(error.to_string().contains("a.png: not an image"), "{error}");
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = Folder::new();
    for (format, name) in
        [(ImageFormat::Png, "a.png"), (ImageFormat::Jpeg, "a.jpg"), (ImageFormat::Bmp, "a.bmp")]
    {
        let whole = encoded(&DynamicImage::ImageRgb8(halves(40, 30).to_rgb8()), format);
        for length in (0..whole.len() - 1).step_by(7) {
            // No panic; JPEG decoders accept truncated data.
            let _ = read(&folder.file(name, &whole[..length]));
        }
        let error = read(&folder.file(name, &whole[..20])).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// Decoders may take twice as much; no limit is too great to be doubled.
#[test]
fn any_limit_is_allowed() {
    let png = encoded(&halves(8, 4), ImageFormat::Png);
    let decoded = |most| decode(&png, Path::new("a.png"), most);
    assert!(matches!(decoded(0), Err(ReadError::TooLarge { .. } | ReadError::Decode { .. })));
    for most in [1 << 20, u64::MAX / 2 + 1, u64::MAX] {
        assert_eq!(decoded(most).unwrap().grey.pixels.len(), 32, "{most}");
    }
}

#[test]
fn huge_claims_are_refused_before_memory_is_taken() {
    // The header of a PNG with a correct checksum that declares 60,000 x 60,000 pixels.
    let mut png = encoded(&halves(8, 4), ImageFormat::Png);
    png[16..24].copy_from_slice(&[0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60]);
    let crc = png[12..29].iter().fold(!0u32, |crc, &b| {
        (0..8).fold(crc ^ b as u32, |c, _| if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 })
    });
    png[29..33].copy_from_slice(&(!crc).to_be_bytes());
    let error = read(&Folder::new().file("huge.png", &png)).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { width: 60_000, height: 60_000, .. }), "{error}");
    let pnm = b"P6 16000 16000 65535\nabc";
    let error = read(&Folder::new().file("huge.ppm", pnm)).unwrap_err();
    assert!(matches!(error, ReadError::TooLarge { width: 16_000, .. }), "{error}");
    // A TIFF file whose width has two million values, in both byte orders.
    let little = [&b"II*\0\x08\0\0\0\x01\0\0\x01\x04\0\x01\0\x20\0"[..], &[0; 8]].concat();
    let big = [&b"MM\0*\0\0\0\x08\0\x01\x01\0\0\x04\0\x20\0\x01"[..], &[0; 8]].concat();
    for tiff in [little, big] {
        let error = read(&Folder::new().file("huge.tif", &tiff)).unwrap_err().to_string();
        assert!(
            error.ends_with("tag 256 has 2097153 values, more than the file has bytes"),
            "{error}"
        );
    }
}

#[test]
fn missing_files_are_named() {
    let error = read(Path::new("/nowhere/a.png")).unwrap_err();
    assert!(
        matches!(error, ReadError::Open { .. })
            && error.to_string().starts_with("/nowhere/a.png: "),
        "{error}"
    );
}

/// A colour profile of 1 GiB of zeros, deflated to 1 MB, is refused before it is inflated.
#[test]
fn compressed_colour_profiles_are_bounded() {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(!0u32, |crc, &b| {
            (0..8).fold(
                crc ^ b as u32,
                |c, _| {
                    if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 }
                },
            )
        })
    };
    // Deflate: fixed codes; a zero, then runs of 258 zeros, which take 8 + 5 bits each.
    let (mut bits, mut at) = (vec![0u8; 1 << 20], 0);
    let mut put = |value: u32, count: u32| {
        for i in 0..count {
            bits[at / 8] |= ((value >> i & 1) as u8) << (at % 8);
            at += 1;
        }
    };
    put(0b011, 3);
    put(u32::from(0x30u8.reverse_bits()), 8);
    for _ in 0..600_000 {
        // 285 is a run of 258; distance 1.
        put(u32::from(0b1100_0101u8.reverse_bits()), 8);
        put(0, 5);
    }
    put(0, 7);
    let deflated = [&[0x78, 0x01][..], &bits[..at.div_ceil(8)], &[0; 4]].concat();
    let content = [b"iCCPa\0\0", &deflated[..]].concat();
    let length = (content.len() as u32 - 4).to_be_bytes();
    let chunk = [&length[..], &content, &crc(&content).to_be_bytes()].concat();
    let png = encoded(&halves(8, 4), ImageFormat::Png);
    let bomb = [&png[..33], &chunk, &png[33..]].concat();
    // Ancillary: whether it is an error or left out is the decoder's choice.
    let _ = read(&Folder::new().file("bomb.png", &bomb));
}

/// BigTIFF files, whose 64-bit counts the decoder would reserve memory for, are refused.
#[test]
fn big_tiff_files_are_refused() {
    let mut bytes = b"II\x2b\0\x08\0\0\0\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend(b"\0\x01\x03\0");
    bytes.extend(u64::from(u32::MAX / 8).to_le_bytes());
    bytes.extend([0; 16]);
    let error = read(&Folder::new().file("big.tif", &bytes)).unwrap_err();
    assert!(error.to_string().contains("not an image"), "{error}");
}

/// A JPEG file that ends early is read with a note; one of which only the trailer is odd has none.
#[test]
fn truncated_jpegs_are_noted() {
    let folder = Folder::new();
    let noise = |x: u32, y: u32| image::Luma([(x * 7919 + y * 104_729 + x * y) as u8]);
    let image = DynamicImage::ImageLuma8(image::GrayImage::from_fn(90, 70, noise));
    let whole = encoded(&image, ImageFormat::Jpeg);
    let note = |bytes: &[u8]| read(&folder.file("a.jpg", bytes)).unwrap().note;
    assert_eq!(note(&whole), None);
    assert_eq!(note(&[&whole[..], b"trailer"].concat()), None);
    for length in [whole.len() - 2, whole.len() - 1, whole.len() * 2 / 3] {
        let said = note(&whole[..length]).unwrap();
        assert!(said.contains(&format!("after {length} bytes")), "{said}");
    }
}

/// Formats of telephones are named.
#[test]
fn heic_and_avif_are_named() {
    let folder = Folder::new();
    for (brand, name) in [(b"heic", "HEIC"), (b"mif1", "HEIC"), (b"avif", "AVIF")] {
        let bytes = [&[0, 0, 0, 24][..], b"ftyp", brand, &[0; 12]].concat();
        let error = read(&folder.file("a.jpg", &bytes)).unwrap_err().to_string();
        let said =
            format!("a.jpg: a {name} file, which koel does not read: convert it to PNG or JPEG");
        assert!(error.ends_with(&said), "{error}");
    }
    assert!(matches!(
        read(&folder.file("a.mp4", &[&[0, 0, 0, 24][..], b"ftypisom", &[0; 12]].concat())),
        Err(ReadError::Format { .. })
    ));
}
