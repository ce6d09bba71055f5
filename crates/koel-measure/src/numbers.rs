//! Numbers in arguments and in results.

/// Parses `4194304` or `2^22`; `None` on any other text.
pub fn size(text: &str) -> Option<usize> {
    match text.split_once('^') {
        Some(("2", log)) => 1usize.checked_shl(log.parse().ok()?),
        _ => text.parse().ok(),
    }
}

/// Rounds to this many decimal places; to tens, hundreds and so on if negative.
pub fn decimals(x: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places.abs());
    if places < 0 { (x / scale).round() * scale } else { (x * scale).round() / scale }
}

/// Rounds to this many significant digits.
pub fn digits(x: f64, count: i32) -> f64 {
    match x.abs().log10().floor() {
        log if log.is_finite() => decimals(x, count - 1 - log as i32),
        _ => x,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_or_powers_of_two() {
        let read = ["0", "48", "4194304", "2^0", "2^22", "2^63"].map(size);
        assert_eq!(read, [0, 48, 4_194_304, 1, 1 << 22, 1 << 63].map(Some));
        for text in ["", "-1", "1e6", "2^", "2^64", "2^-1", "3^2", "^2", "2^2^2"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_rounded() {
        assert_eq!(
            [decimals(1.255, 1), decimals(-0.26, 1), decimals(1250.0, -2)],
            [1.3, -0.3, 1300.0]
        );
        assert_eq!([digits(4_061_312.0, 3), digits(0.001_234_5, 2)], [4_060_000.0, 0.0012]);
        assert_eq!((digits(0.0, 3), digits(f64::INFINITY, 3)), (0.0, f64::INFINITY));
    }
}
