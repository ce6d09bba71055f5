//! Floating-point functions that give the same bits on every device; core has none without std.

/// Returns the square root, correctly rounded.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    #[cfg(not(target_arch = "nvptx64"))]
    return x.sqrt();
    #[cfg(target_arch = "nvptx64")]
    {
        let root: u32;
        // SAFETY: the assembly only computes in registers.
        unsafe {
            core::arch::asm!(
                "{{ .reg .f32 t; mov.b32 t, {x}; sqrt.rn.f32 t, t; mov.b32 {root}, t; }}",
                x = in(reg32) x.to_bits(), root = out(reg32) root, options(pure, nomem, nostack)
            )
        };
        f32::from_bits(root)
    }
}

/// Returns e^-x for x >= 0, within 4e-5 of the exact value, which is enough for weights; 0 from x =
/// 87 on.
#[inline(always)]
pub fn exp_neg(x: f32) -> f32 {
    if x.is_nan() || x >= 87.0 {
        return 0.0;
    }
    // 2^-(whole + part) with part in [0, 1): `whole` goes into the exponent, and 2^-part is a
    // polynomial.
    let y = x * core::f32::consts::LOG2_E;
    let whole = y as u32;
    let part = (y - whole as f32) * core::f32::consts::LN_2;
    let p = 1.0
        - part
            * (1.0
                - part
                    * (0.5
                        - part
                            * (1.0 / 6.0
                                - part
                                    * (1.0 / 24.0 - part * (1.0 / 120.0 - part * (1.0 / 720.0))))));
    p * f32::from_bits((127 - whole) << 23)
}

/// Returns the length of a vector.
#[inline(always)]
pub fn length(v: [f32; 3]) -> f32 {
    sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
}

/// Returns a vector of length 1 in the same direction; 0 for a vector that has none.
#[inline(always)]
pub fn unit(v: [f32; 3]) -> [f32; 3] {
    let [x, y, z] = [v[0].abs(), v[1].abs(), v[2].abs()];
    let xy = if x > y { x } else { y };
    let most = if xy > z { xy } else { z };
    // Of components near 1 the squares neither overflow nor vanish.
    let near = [v[0] / most, v[1] / most, v[2] / most];
    let length = length(near);
    if length >= 1.0 && length.is_finite() {
        [near[0] / length, near[1] / length, near[2] / length]
    } else {
        [0.0; 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_close() {
        for i in 0..870_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(-x).exp();
            assert!((f64::from(exp_neg(x)) / exact - 1.0).abs() < 4e-5, "{x}");
        }
        assert_eq!((exp_neg(0.0), exp_neg(88.0), exp_neg(f32::NAN)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn units_have_length_one_or_zero() {
        for v in [[3.0, 4.0, 12.0], [0.0, -1e-40, 0.0], [3e38, -3e38, 3e38], [1e-30, 1e-38, 0.0]] {
            let unit = unit(v);
            assert!((length(unit) - 1.0).abs() < 1e-6, "{v:?}: {unit:?}");
            assert!((0..3).all(|a| unit[a] == 0.0 || unit[a].signum() == v[a].signum()));
        }
        let nothing = [[0.0; 3], [f32::NAN, 1.0, 0.0], [1.0, 0.0, f32::INFINITY], [f32::NAN; 3]];
        assert!(nothing.into_iter().all(|v| unit(v) == [0.0; 3]));
    }
}
