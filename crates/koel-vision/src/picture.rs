//! Images from files, as luminance.
use crate::colour::Colours;
use image::error::{DecodingError, ImageError};
use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};
use koel_vision_kernels::{Size, compare};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Maximum side of an image, in pixels.
pub(crate) const LONGEST_SIDE: u32 = 16_384;
/// Maximum memory for decoding, in bytes: rejects 16,384 x 16,384 pixels in colour, but not scans.
const MAX_MEMORY: u64 = 1 << 30;
/// Maximum memory for what a PNG file holds beside its pixels, such as a compressed colour profile.
const MAX_METADATA: u64 = 1 << 26;

/// Returns the size of an image as a kernel argument.
pub(crate) fn size(width: usize, height: usize) -> Size {
    Size { width: width as u32, height: height as u32 }
}
/// Luminance, row by row, from 0 (black) to 255 (white).
#[derive(Clone, Debug, PartialEq)]
pub struct Grey {
    /// Pixels per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// `width * height` values.
    pub pixels: Vec<f32>,
}

impl Grey {
    /// Returns an image of a single value.
    pub fn filled(width: usize, height: usize, value: f32) -> Grey {
        Grey { width, height, pixels: vec![value; width * height] }
    }
    /// Computes the luminance (Rec. 709 weights) of an image of any pixel format. Transparent parts
    /// are blended with mid-grey.
    pub fn of(image: &DynamicImage) -> Grey {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let pixels: Vec<f32> = match image {
            DynamicImage::ImageLuma8(grey) => grey.as_raw().iter().map(|&v| v as f32).collect(),
            other if other.color().has_alpha() => {
                let over_grey = |[r, g, b, a]: [f32; 4]| {
                    let luma = 0.2126 * r + 0.7152 * g + 0.0722 * b;
                    255.0 * (a * luma + (1.0 - a) * 0.5)
                };
                other.to_rgba32f().pixels().map(|p| over_grey(p.0)).collect()
            }
            other => other.to_luma32f().as_raw().iter().map(|v| 255.0 * v).collect(),
        };
        // Files of floating-point numbers may hold any.
        let valid = |v: f32| if v.is_nan() { 0.0 } else { v.clamp(0.0, 255.0) };
        let pixels = pixels.into_iter().map(valid).collect();
        Grey { width, height, pixels }
    }
    /// Interpolates linearly between pixels; `None` outside.
    pub fn at(&self, x: f32, y: f32) -> Option<f32> {
        compare::between(size(self.width, self.height), (x, y), |x, y| self.pixel(x, y))
    }
    /// Returns a pixel.
    pub(crate) fn pixel(&self, x: u32, y: u32) -> f32 {
        self.pixels[y as usize * self.width + x as usize]
    }
    /// Returns a smaller image: each pixel is the mean of the area it covers. `factor` is the size
    /// of a new pixel in old ones, at least 1.
    pub fn shrunk(&self, factor: f32) -> Grey {
        let (width, height) = (
            ((self.width as f32 / factor).round() as usize).max(1),
            ((self.height as f32 / factor).round() as usize).max(1),
        );
        let (columns, rows) = (Cover::of(self.width, width), Cover::of(self.height, height));
        let mut narrow = Vec::with_capacity(width * self.height);
        for row in self.pixels.chunks_exact(self.width) {
            narrow.extend(columns.iter().map(|cover| cover.mean(row)));
        }
        let mut pixels = vec![0.0; width * height];
        for (out, cover) in pixels.chunks_exact_mut(width).zip(&rows) {
            for (row, part) in narrow[cover.first * width..].chunks_exact(width).zip(&cover.parts) {
                out.iter_mut().zip(row).for_each(|(o, v)| *o += v * part);
            }
            out.iter_mut().for_each(|o| *o /= cover.sum);
        }
        Grey { width, height, pixels }
    }
}

/// Pixels of a line that a larger pixel covers.
struct Cover {
    first: usize,
    /// Covered part of each pixel from the first on.
    parts: Vec<f32>,
    /// Sum of the parts.
    sum: f32,
}
impl Cover {
    /// Divides a line of `from` pixels into `to` equal ones.
    fn of(from: usize, to: usize) -> Vec<Cover> {
        let size = from as f32 / to as f32;
        let cover = |i: usize| {
            let (begin, end) = (i as f32 * size, ((i + 1) as f32 * size).min(from as f32));
            let part = |x: usize| (end.min(x as f32 + 1.0) - begin.max(x as f32)).max(0.0);
            let first = begin as usize;
            let parts = (first..(end.ceil() as usize).min(from)).map(part).collect::<Vec<f32>>();
            // In the order of the pixels, which the last bit depends on.
            let sum = parts.iter().fold(0.0, |sum, part| sum + part);
            Cover { first, parts, sum }
        };
        (0..to).map(cover).collect()
    }
    fn mean(&self, line: &[f32]) -> f32 {
        let pairs = line[self.first..].iter().zip(&self.parts);
        pairs.fold(0.0, |sum, (v, part)| sum + v * part) / self.sum
    }
}

/// Image in its display and matching forms.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Picture {
    /// Colour image for overlays.
    pub color: RgbImage,
    /// Luminance for matching.
    pub grey: Grey,
    /// Colours for matching; `None` for a format without colour.
    pub colours: Option<Colours>,
    /// What is odd about the file, such as an end before that of the image.
    pub note: Option<String>,
}

/// Reason why a file cannot be read as an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The first bytes match no supported format.
    #[error("{}: not an image: expected PNG, JPEG, BMP, PNM, TIFF, WebP or GIF", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is of a known format that is not read.
    #[error("{}: a {format} file, which koel does not read: convert it to PNG or JPEG",
         path.display())]
    Unread {
        /// Path of the file.
        path: PathBuf,
        /// Name of the format.
        format: &'static str,
    },
    /// The declared size exceeds the limit; nothing was allocated for it.
    #[error("{}: declares {width} x {height} pixels, expected at most {LONGEST_SIDE} per side \
         and 1 GiB in total", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Declared width.
        width: u32,
        /// Declared height.
        height: u32,
    },
    /// The file is damaged, truncated, or of an unsupported variant.
    #[error("{}: {source}", path.display())]
    Decode {
        /// Path of the file.
        path: PathBuf,
        /// Error of the decoder.
        source: ImageError,
    },
}

/// Reads a PNG, JPEG, BMP, PNM, TIFF, WebP or GIF file with 8 or 16 bits, grey or colour, rotated
/// upright according to its EXIF orientation. Of an animation, reads the first frame.
///
/// A JPEG file that ends early is read as far as it goes, and has a [`Picture::note`].
///
/// The content determines the format, not the name. Errors: see [`ReadError`]. A file that declares
/// more than 16,384 pixels per side or 1 GiB is refused before anything is allocated for it.
pub fn read(path: &Path) -> Result<Picture, ReadError> {
    let bytes =
        std::fs::read(path).map_err(|source| ReadError::Open { path: path.into(), source })?;
    decode(&bytes, path, MAX_MEMORY)
}

/// Decodes the bytes of an image file like [`read`]; errors name `path`. Refuses what would take
/// more than `most` bytes decoded.
pub fn decode(bytes: &[u8], path: &Path, most: u64) -> Result<Picture, ReadError> {
    let at = || path.to_path_buf();
    let fault = |source| ReadError::Decode { path: at(), source };
    if let Some(format) = of_base_media(bytes) {
        return Err(ReadError::Unread { path: at(), format });
    }
    let format = image::guess_format(bytes).map_err(|_| ReadError::Format { path: at() })?;
    if format == ImageFormat::Tiff
        && let Some((tag, count)) = values_beyond(bytes)
    {
        let claim = format!("tag {tag} has {count} values, more than the file has bytes");
        return Err(fault(ImageError::Decoding(DecodingError::new(format.into(), claim))));
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    // Of these limits only the PNG decoder takes notice before it has read the size.
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_METADATA.min(most.saturating_mul(2)));
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|e| match e {
        ImageError::Unsupported(_) => ReadError::Format { path: at() },
        other => fault(other),
    })?;
    let (width, height) = decoder.dimensions();
    if width.max(height) > LONGEST_SIDE || decoder.total_bytes() > most {
        return Err(ReadError::TooLarge { path: at(), width, height });
    }
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(most.saturating_mul(2));
    decoder.set_limits(limits).map_err(fault)?;
    let orientation = decoder.orientation().map_err(fault)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(fault)?;
    image.apply_orientation(orientation);
    let note = (format == ImageFormat::Jpeg && !has_end(bytes)).then(|| {
        let length = bytes.len();
        format!("the file ends before its image does, after {length} bytes: the rest is made up")
    });
    Ok(Picture { note, ..Picture::of(&image) })
}

/// Returns the name of a format of the ISO base media family that is not read.
fn of_base_media(bytes: &[u8]) -> Option<&'static str> {
    let brand = bytes.strip_prefix(bytes.get(..4)?)?.strip_prefix(b"ftyp")?.get(..4)?;
    match brand {
        b"avif" | b"avis" => Some("AVIF"),
        b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => {
            Some("HEIC")
        }
        _ => None,
    }
}

/// Returns whether a JPEG file has a marker of its image's end: decoders make up what is missing.
fn has_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[first, marker]) = bytes.get(at..at + 2) {
        match (first, marker) {
            (0xFF, 0xD9) => return true,
            // Fill bytes, stuffed data and restarts.
            (0xFF, 0xFF) => at += 1,
            (0xFF, 0x00 | 0x01 | 0xD0..=0xD8) => at += 2,
            // A segment with a length. The data of a scan follow its own.
            (0xFF, _) => match bytes.get(at + 2..at + 4) {
                Some(&[high, low]) => at += 2 + u16::from_be_bytes([high, low]) as usize,
                _ => return false,
            },
            _ => at += 1,
        }
    }
    false
}

/// Returns the tag and the number of values of an entry of a TIFF file that claims more values than
/// the file has bytes: the decoder would reserve memory for them, 32 bytes each. Looks at the first
/// directory only, as the decoder does.
fn values_beyond(bytes: &[u8]) -> Option<(u64, u64)> {
    let number = |at: u64, len: usize| {
        let field = bytes.get(usize::try_from(at).ok()?..)?.get(..len)?;
        let shifted = |n: u64, &b: &u8| n << 8 | u64::from(b);
        Some(match bytes.starts_with(b"MM") {
            true => field.iter().fold(0, shifted),
            false => field.iter().rev().fold(0, shifted),
        })
    };
    let directory = number(4, 4)?;
    let entry = |i: u64| directory + 2 + 12 * i;
    let mut claims = (0..number(directory, 2)?)
        .map_while(|i| Some((number(entry(i), 2)?, number(entry(i) + 4, 4)?)));
    claims.find(|&(_, count)| count > bytes.len() as u64)
}

impl Picture {
    /// Converts a decoded image to both forms.
    pub fn of(image: &DynamicImage) -> Picture {
        let color = match image.color() {
            ColorType::Rgb8 => image.as_rgb8().cloned().unwrap_or_else(|| image.to_rgb8()),
            _ => image.to_rgb8(),
        };
        let colours = Colours::of(image, &color);
        Picture { color, grey: Grey::of(image), colours, note: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Each pixel of a shrunk image is the mean over its area.
    #[test]
    fn shrunk_pixels_are_means_of_areas() {
        let mut random = Random::new(3);
        for (width, height, factor) in [(1, 1, 1.0), (7, 5, 1.0), (31, 20, 2.6), (9, 40, 6.8)] {
            let pixels = (0..width * height).map(|_| random.between(0.0, 255.0)).collect();
            let image = Grey { width, height, pixels };
            let small = image.shrunk(factor);
            let part = |i: usize, of: usize, from: usize, x: usize| {
                let size = from as f64 / of as f64;
                let (begin, end) = (i as f64 * size, (i + 1) as f64 * size);
                (end.min(x as f64 + 1.0) - begin.max(x as f64)).max(0.0) / size
            };
            for (i, &value) in small.pixels.iter().enumerate() {
                let (x, y) = (i % small.width, i / small.width);
                let pixels = image.pixels.iter().enumerate();
                let weight = |k: usize| {
                    part(x, small.width, width, k % width)
                        * part(y, small.height, height, k / width)
                };
                let mean = pixels.map(|(k, &v)| v as f64 * weight(k)).sum::<f64>();
                assert!((mean - value as f64).abs() < 1e-3, "{width} x {height}, {x}, {y}");
            }
        }
    }
}
