//! Angles without a maths library.

/// Returns the direction of a vector as a fraction of a turn, 2^32 per turn; 0 for the zero vector.
///
/// Uses a polynomial for the arc tangent in the first octant (Abramowitz and Stegun 4.4.47), then
/// reflections. The error is less than 2e-5 rad.
#[inline(always)]
pub fn direction(x: f32, y: f32) -> u32 {
    let (ax, ay) = (x.abs(), y.abs());
    let (small, large) = if ax > ay { (ay, ax) } else { (ax, ay) };
    let r = small / if large > 1e-30 { large } else { 1e-30 };
    let q = r * r;
    let turns = r
        * (0.159_133_62
            + q * (-0.052_568_8 + q * (0.028_670_33 + q * (-0.013_549_34 + q * 0.003_316_01))));
    let mut a = (turns * 4_294_967_296.0) as i32 as u32;
    if ay > ax {
        a = (1 << 30) - a;
    }
    if x < 0.0 {
        a = (1 << 31) - a;
    }
    if y < 0.0 { a.wrapping_neg() } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_arc_tangent() {
        for i in 0..10_000 {
            let angle = i as f64 / 10_000.0 * std::f64::consts::TAU;
            let (x, y) = ((17.0 * angle.cos()) as f32, (17.0 * angle.sin()) as f32);
            let truth = (angle / std::f64::consts::TAU * 4_294_967_296.0) as i64 as u32;
            let off = direction(x, y).wrapping_sub(truth) as i32;
            assert!(off.unsigned_abs() < 20_000, "{angle}: {off}");
        }
        assert_eq!(direction(0.0, 0.0), 0);
    }
}
