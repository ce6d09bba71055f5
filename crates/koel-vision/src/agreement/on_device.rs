//! Comparison of a model with a scene on a device, with the kernels of
//! [`koel_vision_kernels::compare`].
use super::blocks::Blocks;
use super::patch::{taps, view};
use super::sight::{BLURS, Correlated, Place, SMOOTHED, Sight};
use crate::affine::Affine;
use crate::device::{Image, upload};
use crate::picture::Grey;
use koel::{Buffer, Stream, View as Slice};
use koel_vision_kernels::Size;
use koel_vision_kernels::compare::*;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Threads of a launch's blocks, for one thread per pixel, and for one per block of the frame.
const OF_PIXELS: u32 = 128;
const OF_BLOCKS: u32 = 32;

/// Launches for the images of a frame.
struct Launches<'s> {
    stream: &'s Stream,
    tiling: Tiling,
    /// Taps of all blurs, one after the other.
    taps: Buffer<u32>,
    /// Blurs along the rows; `None` does not blur.
    smoothed: [Option<Blur>; 2],
    blurs: [[Option<Blur>; 2]; BLURS.len()],
}
impl<'s> Launches<'s> {
    fn new(stream: &'s Stream, tiling: Tiling) -> koel::Result<Launches<'s>> {
        let mut words = vec![];
        let mut blur = |sigma: f32| {
            let taps = if sigma > 0.0 { taps(sigma) } else { return None };
            let first = words.len() as u32;
            words.extend(taps.iter().map(|t| t.to_bits()));
            let reach = taps.len() as u32 / 2;
            Some(Blur { size: tiling.size, along_columns: 0, first, reach })
        };
        let smoothed = [SMOOTHED.0, SMOOTHED.1].map(&mut blur);
        let blurs = BLURS.map(|(a, b)| [a, b].map(&mut blur));
        Ok(Launches { stream, tiling, taps: stream.device().upload(&words)?, smoothed, blurs })
    }
    fn words(&self, n: u32) -> koel::Result<Buffer<u32>> {
        self.stream.device().alloc::<u32>(n as usize)
    }
    fn pixels(&self) -> u32 {
        self.tiling.size.width * self.tiling.size.height
    }
    /// Draws the scene in the frame.
    fn warped(&self, scene: &Buffer<u32>, view: View) -> koel::Result<Image> {
        let mut out = self.words(self.pixels())?;
        // SAFETY: there are a word per pixel of the scene and of the frame.
        unsafe {
            vision_warp::launch(
                self.stream,
                self.pixels().div_ceil(OF_PIXELS),
                view,
                scene.view().arg("scene", self.stream)?,
                out.view_mut().arg("out", self.stream)?,
            )
        }?;
        Ok(Arc::new(out))
    }
    /// Blurs an image of the frame.
    fn blurred(&self, image: &Image, blur: Option<Blur>) -> koel::Result<Image> {
        let Some(blur) = blur else { return Ok(image.clone()) };
        let rows = self.blurred_along(image, blur)?;
        Ok(Arc::new(self.blurred_along(&rows, Blur { along_columns: 1, ..blur })?))
    }
    fn blurred_along(&self, image: &Buffer<u32>, blur: Blur) -> koel::Result<Buffer<u32>> {
        let mut out = self.words(self.pixels())?;
        // SAFETY: there are a word per pixel, and the blur's taps.
        unsafe {
            vision_blur::launch(
                self.stream,
                self.pixels().div_ceil(OF_PIXELS),
                blur,
                self.taps.view().arg("taps", self.stream)?,
                image.view().arg("image", self.stream)?,
                out.view_mut().arg("out", self.stream)?,
            )
        }?;
        Ok(out)
    }
    /// Returns the local shift of each block.
    fn shifts(&self, a: &Image, b: &Image) -> koel::Result<Buffer<u32>> {
        let (stream, tiling, blocks) = (self.stream, self.tiling, self.tiling.blocks());
        let mut scores = self.words(TRIED * blocks)?;
        let (mut own, mut smooth) = (self.words(blocks)?, self.words(blocks)?);
        // SAFETY: there are a word per pixel and block, and per candidate and block.
        unsafe {
            vision_shift_scores::launch(
                stream,
                (TRIED * blocks).div_ceil(OF_PIXELS),
                tiling,
                a.view().arg("a", stream)?,
                b.view().arg("b", stream)?,
                scores.view_mut().arg("scores", stream)?,
            )?;
            vision_best_shifts::launch(
                stream,
                blocks.div_ceil(OF_BLOCKS),
                tiling,
                scores.view().arg("scores", stream)?,
                own.view_mut().arg("shifts", stream)?,
            )?;
            vision_smooth_shifts::launch(
                stream,
                blocks.div_ceil(OF_BLOCKS),
                tiling,
                own.view().arg("shifts", stream)?,
                smooth.view_mut().arg("out", stream)?,
            )?;
        }
        Ok(smooth)
    }
    /// Writes what the blocks of two images have in common to the words of `results` of a blur.
    fn likest(
        &self,
        (a, b): (&Image, &Image),
        shifts: &Buffer<u32>,
        results: &mut Buffer<u32>,
        at: &Layout,
        blur: usize,
    ) -> koel::Result<()> {
        let (stream, tiling, blocks) = (self.stream, self.tiling, self.tiling.blocks());
        let mut correlations = self.words(3 * NEAR * blocks)?;
        let shifts = shifts.view();
        // SAFETY: there are a word per pixel, three per candidate and block, and `LIKEST` per
        // block.
        unsafe {
            vision_correlations::launch(
                stream,
                (NEAR * blocks).div_ceil(OF_PIXELS),
                tiling,
                a.view().arg("a", stream)?,
                b.view().arg("b", stream)?,
                shifts.arg("shifts", stream)?,
                correlations.view_mut().arg("correlations", stream)?,
            )?;
            vision_likest::launch(
                stream,
                blocks.div_ceil(OF_BLOCKS),
                tiling,
                shifts.arg("shifts", stream)?,
                correlations.view().arg("correlations", stream)?,
                results.view_mut().slice(at.likest(blur))?.arg("out", stream)?,
            )
        }
    }
    /// Writes the sums of the levels at the shifts of a blur, which must be in `results`.
    fn level_sums(
        &self,
        (a, b): (&Image, &Image),
        results: &mut Buffer<u32>,
        at: &Layout,
        blur: usize,
    ) -> koel::Result<()> {
        let stream = self.stream;
        // SAFETY: there are a word per pixel, and `LIKEST` and `LEVELS` words per block, in other
        // parts of the results. Blocks lie inside both images at the shifts that were found.
        unsafe {
            vision_level_sums::launch(
                stream,
                self.tiling.blocks().div_ceil(OF_BLOCKS),
                self.tiling,
                a.view().arg("a", stream)?,
                b.view().arg("b", stream)?,
                results.view().slice(at.likest(blur))?.arg("likest", stream)?,
                results.view_mut().slice(at.levels(blur))?.arg("out", stream)?,
            )
        }
    }
    /// Writes the distinctness of the blocks of an image.
    fn distinctness(
        &self,
        image: &Image,
        results: &mut Buffer<u32>,
        at: &Layout,
    ) -> koel::Result<()> {
        // SAFETY: there are a word per pixel and block.
        unsafe {
            vision_distinctness::launch(
                self.stream,
                self.tiling.blocks().div_ceil(OF_BLOCKS),
                self.tiling,
                image.view().arg("image", self.stream)?,
                results.view_mut().slice(at.distinctness())?.arg("out", self.stream)?,
            )
        }
    }
}

/// Parts of the results: for each blur, what its blocks have in common, and the sums of levels; and
/// the blocks' distinctness.
struct Layout {
    blocks: usize,
}
impl Layout {
    fn of_blur(&self, blur: usize) -> usize {
        blur * (LIKEST + LEVELS) as usize * self.blocks
    }
    fn likest(&self, blur: usize) -> Range<usize> {
        let first = self.of_blur(blur);
        first..first + LIKEST as usize * self.blocks
    }
    fn levels(&self, blur: usize) -> Range<usize> {
        self.likest(blur).end..self.of_blur(blur + 1)
    }
    fn distinctness(&self) -> Range<usize> {
        let first = self.of_blur(BLURS.len());
        first..first + self.blocks
    }
}

/// Comparison that was made on a device.
pub(super) struct OnDevice {
    size: Size,
    layout: Layout,
    results: Vec<u32>,
    a: Image,
    b: Image,
}
impl OnDevice {
    /// Compares a model with a scene; `map` leads from pixels of the model to those of the scene,
    /// of which `scene` gives the size, and `pixels` the luminance in device memory.
    ///
    /// 35 launches, two uploads, and a download of 61 words per block.
    pub(super) fn of(
        stream: &Stream,
        blocks: &Blocks,
        model: &Grey,
        (scene, pixels): (&Grey, &Buffer<u32>),
        map: &Affine,
    ) -> koel::Result<OnDevice> {
        let tiling = blocks.tiling();
        let launches = Launches::new(stream, tiling)?;
        let model = upload(model, stream.device())?;
        let scene = launches.warped(pixels, view(scene, map, tiling.size))?;
        let [first, second] = launches.smoothed;
        let (a, b) = (launches.blurred(&model, first)?, launches.blurred(&scene, first)?);
        let smooth = [&a, &b].map(|image| launches.blurred(image, second));
        let [smooth_a, smooth_b] = smooth;
        let shifts = launches.shifts(&smooth_a?, &smooth_b?)?;
        let layout = Layout { blocks: blocks.len() };
        let mut results = launches.words(layout.distinctness().end as u32)?;
        for (blur, [of_a, of_b]) in launches.blurs.into_iter().enumerate() {
            let soft = (&launches.blurred(&a, of_a)?, &launches.blurred(&b, of_b)?);
            launches.likest(soft, &shifts, &mut results, &layout, blur)?;
            launches.level_sums((&a, &b), &mut results, &layout, blur)?;
        }
        launches.distinctness(&a, &mut results, &layout)?;
        Ok(OnDevice { size: tiling.size, layout, results: results.download()?, a, b })
    }
    fn image(&self, of: Slice<'_, u32>) -> koel::Result<Grey> {
        let pixels = of.download()?.into_iter().map(f32::from_bits).collect();
        let Size { width, height } = self.size;
        Ok(Grey { width: width as usize, height: height as usize, pixels })
    }
}
impl Sight for OnDevice {
    fn correlations(&self, blur: usize) -> Vec<Correlated> {
        let (words, _) = self.results[self.layout.likest(blur)].as_chunks::<{ LIKEST as usize }>();
        let correlated = |&[r, a, b, shift]: &[u32; LIKEST as usize]| {
            let [r, a, b] = [r, a, b].map(f32::from_bits);
            (!r.is_nan()).then_some(([r, a, b], unpacked(shift)))
        };
        words.iter().map(correlated).collect()
    }
    fn distinctness(&self) -> Vec<f32> {
        self.results[self.layout.distinctness()].iter().map(|&bits| f32::from_bits(bits)).collect()
    }
    fn level_sums(&self, blur: usize, (block, _): Place) -> [f64; 4] {
        let words = &self.results[self.layout.levels(blur)][block * LEVELS as usize..];
        std::array::from_fn(|k| {
            let [low, high] = [words[2 * k], words[2 * k + 1]].map(u64::from);
            f64::from_bits(low | high << 32)
        })
    }
    fn images(&self) -> koel::Result<(Cow<'_, Grey>, Cow<'_, Grey>)> {
        Ok((Cow::Owned(self.image(self.a.view())?), Cow::Owned(self.image(self.b.view())?)))
    }
}
