//! Pictures of tilted models, turned back to what an affine map would show of them.
use crate::affine::Affine;
use crate::fit::{Freedom, fit};
use crate::homography::Homography;
use crate::picture::Grey;
use rayon::prelude::*;

/// Pixels around the model that are drawn: blocks may be shifted.
const AROUND: f32 = 16.0;
/// Points along each side of a model that an affine map is fitted to.
const GRID: usize = 5;
/// Maximum side of such a picture, relative to that of its image.
const MOST: f32 = 4.0;

/// Returns the affine map closest to a homography over a model of the given size; `None` if it
/// reaches the horizon.
pub(crate) fn closest(homography: &Homography, (width, height): (f32, f32)) -> Option<Affine> {
    let part = |k: usize| k as f32 / (GRID - 1) as f32;
    let places = (0..GRID * GRID).map(|k| (part(k % GRID) * width, part(k / GRID) * height));
    let pairs = places.map(|p| Some((p, homography.apply(p)?))).collect::<Option<Vec<_>>>()?;
    fit(Freedom::Affine, &pairs)
}

/// Draws the part of an image that shows a model of the given size under a homography as the
/// closest affine map would show it. Returns it with that map; `None` if the model reaches the
/// horizon.
pub(crate) fn rectified(
    image: &Grey,
    homography: &Homography,
    (width, height): (f32, f32),
) -> Option<(Grey, Affine)> {
    let affine = closest(homography, (width, height))?;
    let back = affine.inverse()?;
    let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)];
    let (xs, ys): (Vec<f32>, Vec<f32>) = corners.map(|p| affine.apply(p)).into_iter().unzip();
    let range = |values: &[f32]| {
        let low = values.iter().fold(f32::MAX, |a, &b| a.min(b));
        let high = values.iter().fold(f32::MIN, |a, &b| a.max(b));
        ((low - AROUND).floor(), (high + AROUND).ceil())
    };
    let ((left, right), (top, bottom)) = (range(&xs), range(&ys));
    let most = MOST * image.width.max(image.height) as f32;
    if right - left > most || bottom - top > most {
        return None;
    }
    let (w, h) = ((right - left) as usize, (bottom - top) as usize);
    let mut pixels = vec![f32::NAN; w * h];
    pixels.par_chunks_exact_mut(w).enumerate().with_min_len(8).for_each(|(y, row)| {
        for (x, pixel) in row.iter_mut().enumerate() {
            let at = homography.apply(back.apply((x as f32 + left, y as f32 + top)));
            let value = at.and_then(|(x, y)| image.at(x, y));
            *pixel = value.unwrap_or(f32::NAN);
        }
    });
    let [x, y] = affine.shift;
    Some((Grey { width: w, height: h, pixels }, Affine { shift: [x - left, y - top], ..affine }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tilted ramp is straight again.
    #[test]
    fn tilted_pictures_are_turned_back() {
        let rows = [[1.1, 0.1, 30.0], [-0.1, 0.9, 40.0], [0.001, 0.0006, 1.0]];
        let homography = Homography { rows };
        let back = homography.inverse().unwrap();
        let model = |(x, y): (f32, f32)| 128.0 + x - 0.7 * y;
        let at = |i: usize| back.apply(((i % 300) as f32, (i / 300) as f32)).map_or(0.0, model);
        let image = Grey { width: 300, height: 240, pixels: (0..300 * 240).map(at).collect() };
        let (small, affine) = rectified(&image, &homography, (150.0, 100.0)).unwrap();
        for p in [(5.0, 5.0), (140.0, 20.0), (70.0, 90.0)] {
            let (x, y) = affine.apply(p);
            let value = small.at(x, y).unwrap();
            assert!((value - model(p)).abs() < 1.0, "{p:?}: {value}");
        }
        let edge_on = Homography { rows: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.01, 0.0, 1.0]] };
        assert_eq!(rectified(&image, &edge_on, (150.0, 100.0)), None);
    }
}
