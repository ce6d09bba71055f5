//! A model and a scene in one frame: what their blocks have in common.
use super::blocks::Blocks;
use super::patch::{blurred, view, warped};
use crate::affine::Affine;
use crate::picture::Grey;
use koel_vision_kernels::compare::{NEAR, near};
use std::borrow::Cow;

/// Blurs of the model and of the scene that are compared: the camera of one may be less sharp.
pub(super) const BLURS: [(f32, f32); 5] =
    [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.5, 0.0), (0.0, 1.5)];
/// Blur of both images in all comparisons, and a further one of those that local shifts are found
/// in.
pub(super) const SMOOTHED: (f32, f32) = (1.0, 1.5);

/// Correlation of a block, the deviations of both sides, and the shift; `None` if a part of the
/// block is outside the scene.
pub(super) type Correlated = Option<([f32; 3], (i32, i32))>;
/// A block, and its displacement in the scene.
pub(super) type Place = (usize, (i32, i32));

/// Comparison of the blocks of two images of one frame, on the host or on a device.
pub(super) trait Sight {
    /// Returns the correlation of each block after one of the [`BLURS`], at the best of the shifts
    /// around its own.
    fn correlations(&self, blur: usize) -> Vec<Correlated>;
    /// Returns how much the structure of each block of the model is of two dimensions.
    fn distinctness(&self) -> Vec<f32>;
    /// Returns the sums over a block, at its shift after one of the blurs, of the pixels of model
    /// and scene, of the squares of the model's and of the products.
    fn level_sums(&self, blur: usize, place: Place) -> [f64; 4];
    /// Returns the images of model and scene.
    fn images(&self) -> koel::Result<(Cow<'_, Grey>, Cow<'_, Grey>)>;
}

/// Returns the rows of a block in both images; the block must lie inside both.
pub(super) fn rows<'a>(
    blocks: &Blocks,
    (a, b): (&'a Grey, &'a Grey),
    (block, shift): Place,
) -> impl Iterator<Item = (&'a [f32], &'a [f32])> {
    let ((xs, ys), width) = (blocks.extent(block), blocks.width);
    let by = shift.1 as isize * width as isize + shift.0 as isize;
    ys.map(move |y| {
        let first = y * width + xs.start;
        let other = first.wrapping_add_signed(by);
        (&a.pixels[first..][..xs.len()], &b.pixels[other..][..xs.len()])
    })
}

/// Comparison by rows of pixels, on all threads of the host.
pub(super) struct OnHost<'b> {
    blocks: &'b Blocks,
    a: Grey,
    b: Grey,
    shifts: Vec<(i32, i32)>,
}
impl<'b> OnHost<'b> {
    /// Compares a model with a scene; `map` leads from pixels of the model to those of the scene.
    pub(super) fn of(blocks: &'b Blocks, model: &Grey, scene: &Grey, map: &Affine) -> OnHost<'b> {
        let view = warped(scene, &view(scene, map, blocks.tiling().size));
        let (first, second) = SMOOTHED;
        let (a, b) = (blurred(model, first), blurred(&view, first));
        let shifts = blocks.shifts(&blurred(&a, second), &blurred(&b, second));
        OnHost { blocks, a, b, shifts }
    }
}
impl Sight for OnHost<'_> {
    fn correlations(&self, blur: usize) -> Vec<Correlated> {
        let (of_a, of_b) = BLURS[blur];
        let (a, b) = (blurred(&self.a, of_a), blurred(&self.b, of_b));
        self.blocks.each(|block| {
            let mut best: Correlated = None;
            for shift in (0..NEAR).map_while(|k| near(self.shifts[block], k)) {
                let one = self.blocks.correlation(&a, &b, block, shift).map(|c| (c, shift));
                if one.is_some_and(|o| best.is_none_or(|b| o.0[0] > b.0[0])) {
                    best = one;
                }
            }
            best
        })
    }
    fn distinctness(&self) -> Vec<f32> {
        self.blocks.each(|block| self.blocks.distinctness(&self.a, block))
    }
    fn level_sums(&self, _: usize, place: Place) -> [f64; 4] {
        let mut sums = [0.0; 4];
        for (of_model, of_scene) in rows(self.blocks, (&self.a, &self.b), place) {
            for (&u, &v) in of_model.iter().zip(of_scene) {
                let (u, v) = (u as f64, v as f64);
                sums.iter_mut().zip([u, v, u * u, u * v]).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }
    fn images(&self) -> koel::Result<(Cow<'_, Grey>, Cow<'_, Grey>)> {
        Ok((Cow::Borrowed(&self.a), Cow::Borrowed(&self.b)))
    }
}
