//! Decompression of points compressed by LZF.

use super::fault::{check_end, truncated};
use super::header::Header;
use crate::error::{ParseError, ParseErrorKind, Place};

/// Maximum number of bytes that LZF decodes from three.
const MAX_OF_THREE: u64 = 264;

/// Decompresses the data after the two sizes.
pub(super) fn unpack(rest: &[u8], header: &Header) -> Result<Vec<u8>, ParseError> {
    let start = header.length as u64;
    let Some((sizes, packed)) = rest.split_first_chunk::<8>() else {
        return Err(truncated(header.points, 0).at(Place::Byte(start + rest.len() as u64)));
    };
    let [a, b, c, d, e, f, g, h] = *sizes;
    let (packed_size, size) =
        (u32::from_le_bytes([a, b, c, d]), u64::from(u32::from_le_bytes([e, f, g, h])));
    let wrong = |field, found: u64, expected: String, at| {
        ParseErrorKind::Header { field, found: found.to_string(), expected }
            .at(Place::Byte(start + at))
    };
    if packed_size as usize > packed.len() {
        let expected = format!("at most {}, the number of bytes left", packed.len());
        return Err(wrong("compressed size", packed_size.into(), expected, 0));
    }
    let wanted = header.row.saturating_mul(header.points);
    if size != wanted {
        return Err(wrong(
            "uncompressed size",
            size,
            format!("{wanted}, {} per point", header.row),
            4,
        ));
    }
    let most = u64::from(packed_size).div_ceil(3) * MAX_OF_THREE;
    if size > most {
        return Err(wrong(
            "uncompressed size",
            size,
            format!("at most {most} from {packed_size} bytes"),
            4,
        ));
    }
    let (packed, behind) = packed.split_at(packed_size as usize);
    // PCL pads the file with zeros to whole pages.
    let padding = behind.iter().rev().take_while(|&&byte| byte == 0).count();
    check_end(&behind[..behind.len() - padding], start + 8 + u64::from(packed_size))?;
    lzf(packed, size as usize).map_err(|(at, made, reason)| {
        ParseErrorKind::Compressed {
            element: "byte",
            index: made as u64,
            reason: reason.to_owned(),
        }
        .at(Place::Byte(start + 8 + at as u64))
    })
}

/// Decodes LZF (M. Lehmann, liblzf) to exactly `size` bytes. The error holds the position in the
/// input, the number of bytes decoded before it, and the reason.
fn lzf(packed: &[u8], size: usize) -> Result<Vec<u8>, (usize, usize, &'static str)> {
    let mut out = Vec::with_capacity(size);
    let mut at = 0;
    while at < packed.len() {
        let control = usize::from(packed[at]);
        let start = at;
        at += 1;
        if control < 32 {
            // Literal: copy `control + 1` bytes.
            let literal = packed.get(at..at + control + 1).ok_or((
                start,
                out.len(),
                "a literal is cut off",
            ))?;
            out.extend_from_slice(literal);
            at += control + 1;
        } else {
            // Back-reference: three bits of length, or seven and another byte; thirteen bits of
            // distance.
            let mut next = || {
                let byte = packed.get(at).copied().map(usize::from).ok_or((
                    start,
                    out.len(),
                    "a reference is cut off",
                ));
                at += 1;
                byte
            };
            let length = 2 + if control >> 5 == 7 { 7 + next()? } else { control >> 5 };
            let distance = ((control & 31) << 8 | next()?) + 1;
            let from = out.len().checked_sub(distance).ok_or((
                start,
                out.len(),
                "a reference before the beginning",
            ))?;
            for i in from..from + length {
                out.push(out[i]);
            }
        }
        if out.len() > size {
            return Err((start, out.len(), "more bytes than the header declares"));
        }
    }
    if out.len() < size {
        return Err((at, out.len(), "fewer bytes than the header declares"));
    }
    Ok(out)
}
