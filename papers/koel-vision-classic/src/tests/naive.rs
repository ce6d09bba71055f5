//! Exhaustive search: the lecture's O(n^7) matcher, for tiny inputs and as a test oracle.
use crate::basis::Point;
use koel_vision::{Affine, Freedom, fit};

/// Tries all maps from bases of the model to bases of the scene. Returns the map that brings the
/// most model points within `inlier` of a scene point, and their number.
///
/// Affine maps use three points each: m^3 n^3 maps of m n steps. 8 and 8 points take 10^7 steps, 20
/// and 20 take 10^10.
pub(super) fn naive(
    freedom: Freedom,
    model: &[Point],
    scene: &[Point],
    inlier: f32,
) -> Option<(Affine, usize)> {
    let mut best: Option<(Affine, usize)> = None;
    let size = if freedom == Freedom::Affine { 3 } else { 2 };
    for from in tuples(model.len(), size) {
        for to in tuples(scene.len(), size) {
            let pairs =
                from.iter().zip(&to).map(|(&i, &j)| (model[i], scene[j])).collect::<Vec<_>>();
            let Some(map) = fit(freedom, &pairs).filter(|m| m.determinant() > 1e-3) else {
                continue;
            };
            let close = |&p: &Point| {
                let (x, y) = map.apply(p);
                scene.iter().any(|q| (q.0 - x).hypot(q.1 - y) <= inlier)
            };
            let inliers = model.iter().filter(|p| close(p)).count();
            if best.is_none_or(|b| inliers > b.1) {
                best = Some((map, inliers));
            }
        }
    }
    best
}

/// Returns all ordered choices of `size` different indices below `n`.
fn tuples(n: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![vec![]];
    }
    let longer = |t: Vec<usize>| {
        let rest = (0..n).filter(|i| !t.contains(i)).collect::<Vec<usize>>();
        rest.into_iter().map(move |i| [t.clone(), vec![i]].concat())
    };
    tuples(n, size - 1).into_iter().flat_map(longer).collect()
}
