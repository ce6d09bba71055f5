//! Grey levels of a scene as a model predicts them.

/// Grey levels, of 256 of the model, that a pixel may be off its prediction.
const AS_PREDICTED: f32 = 25.0;
/// Root mean square of the pixels' deviations from which on a block shows something else: a letter
/// instead of another has more, blur and noise have less. From 25 to 35, the same signs, words and
/// shapes are accepted.
const DIFFERS: f32 = 30.0;
/// Fraction of the pixels of a differing block that are as predicted, from which on the model's
/// ground is visible there. Chance predicts a fifth of the levels. From 0.2 to 0.4, the same signs,
/// words and shapes are accepted.
const GROUND: f32 = 0.3;

/// Relation `scene = gain * model + offset` of grey levels.
pub(super) struct Levels {
    pub gain: f32,
    offset: f32,
}
impl Levels {
    /// Fits the relation to the pixels of blocks. Each gives their number, and the sums of the
    /// model's, of the scene's, of the squares of the model's and of the products. Returns the
    /// relation of equal levels if none fits.
    pub(super) fn of(blocks: impl Iterator<Item = (usize, [f64; 4])>) -> Levels {
        let (mut n, mut sa, mut sb, mut aa, mut ab) = (0.0f64, 0.0, 0.0, 0.0, 0.0);
        for (pixels, [a, b, squares, products]) in blocks {
            (n, sa, sb) = (n + pixels as f64, sa + a, sb + b);
            (aa, ab) = (aa + squares, ab + products);
        }
        let variance = n * aa - sa * sa;
        let gain = (n * ab - sa * sb) / variance;
        match variance > 0.0 && gain > 0.05 {
            true => Levels { gain: gain as f32, offset: ((sb - gain * sa) / n) as f32 },
            false => Levels { gain: 1.0, offset: 0.0 },
        }
    }
    /// Compares the rows of a block, of model and scene, with the prediction.
    pub(super) fn seen<'a>(&self, rows: impl Iterator<Item = (&'a [f32], &'a [f32])>) -> Seen {
        let (mut n, mut square, mut alike) = (0.0f32, 0.0, 0.0);
        for (of_model, of_scene) in rows {
            n += of_model.len() as f32;
            for (u, v) in of_model.iter().zip(of_scene) {
                let off = (v - self.offset) / self.gain - u;
                square += off * off;
                alike += (off.abs() < AS_PREDICTED) as u32 as f32;
            }
        }
        let n = n.max(1.0);
        Seen { rms: (square / n).sqrt(), alike: alike / n }
    }
}

/// Pixels of a block, compared with their prediction, in grey levels of the model.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Root mean square of the deviations.
    rms: f32,
    /// Fraction that is as predicted.
    alike: f32,
}
impl Seen {
    /// Returns whether the block shows something else than the model.
    pub(super) fn differs(&self) -> bool {
        self.rms > DIFFERS
    }
    /// Returns whether the block shows something else, and nothing of the model's ground.
    pub(super) fn is_hidden(&self) -> bool {
        self.differs() && self.alike < GROUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(a: &[f32], b: &[f32]) -> (usize, [f64; 4]) {
        let of =
            |f: fn(f64, f64) -> f64| a.iter().zip(b).map(|(&u, &v)| f(u as f64, v as f64)).sum();
        (a.len(), [of(|u, _| u), of(|_, v| v), of(|u, _| u * u), of(|u, v| u * v)])
    }

    /// A dark stroke on a bright ground: the same, paler, absent, covered, and on another ground.
    #[test]
    fn strokes_are_seen_hidden_or_others() {
        let model = |i: usize| if i % 10 < 4 { 20.0 } else { 240.0 };
        let camera = |v: f32| 0.8 * v + 15.0;
        let row = |of: &dyn Fn(usize) -> f32| (0..100).map(of).collect::<Vec<f32>>();
        let own = row(&model);
        let levels = Levels::of([sums(&own, &row(&|i| camera(model(i))))].into_iter());
        assert!((levels.gain - 0.8).abs() < 1e-4 && (levels.offset - 15.0).abs() < 1e-3);
        let seen = |of: &dyn Fn(usize) -> f32| levels.seen([(&own[..], &row(of)[..])].into_iter());
        let verdict = |s: Seen| (s.differs(), s.is_hidden());
        assert_eq!(verdict(seen(&|i| camera(model(i)))), (false, false));
        assert_eq!(verdict(seen(&|i| camera(model(i) + 20.0))), (false, false));
        assert_eq!(verdict(seen(&|_| camera(240.0))), (true, false));
        assert_eq!(verdict(seen(&|i| camera(model(i + 5)))), (true, true));
        assert_eq!(verdict(seen(&|i| camera(model(i + 2)))), (true, false));
        assert_eq!(verdict(seen(&|i| (i * 37 % 251) as f32)), (true, true));
    }

    #[test]
    fn levels_without_a_relation_are_equal() {
        for row in [(&[][..], &[][..]), (&[5.0; 8], &[9.0; 8]), (&[0.0, 200.0], &[90.0, 10.0])] {
            let levels = Levels::of([sums(row.0, row.1)].into_iter());
            assert_eq!((levels.gain, levels.offset), (1.0, 0.0));
        }
    }
}
