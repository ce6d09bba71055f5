//! Perspective: an affine pose is refined to a homography, with the kernels of
//! [`koel_kernels::vision::perspective`].
use crate::affine::Affine;
use crate::homography::Homography;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::refine::{Frame, PointLists, Points, Strips, add_strips, inliers};
use crate::scene::Scene;
use koel::{Buffer, Stream};
use koel_kernels::vision::perspective::*;
use koel_kernels::vision::refine::STRIPS;

/// Maximum distance of edges, in pixels, in the first and the last step: from a compromise all over
/// the model, and from a map that fits a part of it, from where the homography grows.
const FROM_ALL: (f32, f32) = (8.0, 1.5);
const FROM_PART: (f32, f32) = (3.5, 1.5);
/// Fraction of the model's diagonal around the part's middle that counts in the first step; all of
/// it does in the last ones.
const PART: f32 = 0.15;
/// Distance of edges, in pixels, up to which a point shows that the map fits.
const FITS: f32 = 1.5;
/// Number of steps.
const STEPS: i32 = 24;
/// Evidence, in nats, that the two further parameters must add.
const GAIN: f32 = 8.0;
/// Numbers of the lists of points: the contour, which moves the maps, and the voting points, which
/// give the evidence.
const CONTOUR: u32 = 0;
const VOTING: u32 = 1;

impl Matcher {
    /// Refines an affine pose to a homography, from points of a model to those of the scene;
    /// `None` if no plausible one has clearly more evidence. `of_part` is the pose before it was
    /// fitted to the whole model.
    ///
    /// Two attempts at once, of which one starts from the whole model, and one grows from the part
    /// that the map fits best: 74 launches.
    pub(crate) fn perspective(
        &self,
        model: &Model,
        scene: &Scene,
        (map, of_part): (Affine, Affine),
    ) -> koel::Result<Option<Homography>> {
        let middle = self.best_part(model, scene, &of_part)?;
        let mut attempts = Attempts::start(&self.stream, model, scene, [map, map, of_part])?;
        for step in 0..STEPS {
            attempts.step(&parameters(model, attempts.frame, middle, step))?;
        }
        let [(_, before), others @ ..] = attempts.finish()?;
        let (mut best, mut required) = (None, before + GAIN);
        for (homography, evidence) in others {
            if homography.is_some() && evidence >= required {
                (best, required) = (homography, evidence);
            }
        }
        Ok(best)
    }
    /// Returns the contour point around which a map fits best.
    fn best_part(&self, model: &Model, scene: &Scene, map: &Affine) -> koel::Result<(f32, f32)> {
        let near = inliers(&self.stream, map, &model.contour, scene, FITS)?;
        let (width, height) = model.working();
        let reach2 = (PART * width.hypot(height)).powi(2);
        let (xs, ys): (Vec<f32>, Vec<f32>) = near.iter().map(|i| i.point).unzip();
        let around = |(x, y): (f32, f32)| {
            let off2 = |(&px, &py): (&f32, &f32)| (px - x) * (px - x) + (py - y) * (py - y);
            xs.iter().zip(&ys).map(|p| (off2(p) < reach2) as u32).sum::<u32>()
        };
        let places = model.contour.iter().map(|e| (e.x, e.y)).step_by(20);
        Ok(places.max_by_key(|&p| around(p)).unwrap_or((0.0, 0.0)))
    }
}

/// Returns the parameters of a step: the radii shrink, and what counts of the model grows around
/// `middle` in the second attempt.
fn parameters(model: &Model, frame: Frame, middle: (f32, f32), step: i32) -> Perspective {
    let (width, height) = model.working();
    let radius =
        |(first, last): (f32, f32)| first * (last / first).powf(step as f32 / (STEPS - 1) as f32);
    let part = (step as f32 / (STEPS / 2) as f32).clamp(PART, 1.0);
    let [left, top] = frame.point((0.0, 0.0));
    let [right, bottom] = frame.point((width, height));
    let reach = part * (right - left).hypot(bottom - top);
    Perspective {
        model: CONTOUR,
        strips: Strips::MOST.number(),
        radii: [0.0, radius(FROM_ALL), radius(FROM_PART)],
        reaches2: [f32::MAX, f32::MAX, reach * reach],
        middle: frame.point(middle),
        sides: [left, top, right, bottom],
    }
}

/// Homographies that move to the edges, and the map that they are compared with.
struct Attempts<'a> {
    stream: &'a Stream,
    scene: &'a Scene,
    frame: Frame,
    /// Number of voting points.
    voting: usize,
    points: Points,
    states: Buffer<u32>,
    sums: Buffer<u32>,
    fewer: Buffer<u32>,
}
impl<'a> Attempts<'a> {
    /// Starts from affine maps, of which the first does not move.
    fn start(
        stream: &'a Stream,
        model: &Model,
        scene: &'a Scene,
        maps: [Affine; CANDIDATES as usize],
    ) -> koel::Result<Attempts<'a>> {
        let (device, frame) = (stream.device(), Frame::of(model));
        let mut lists = PointLists::default();
        lists.push(frame, model.contour.iter(), None);
        lists.push(frame, model.points.iter(), Some(&model.weights));
        let mut words = vec![0; (STATE * CANDIDATES) as usize];
        for (i, map) in maps.iter().enumerate() {
            for (k, word) in frame.enter(map).into_iter().enumerate() {
                words[k * CANDIDATES as usize + i] = word;
            }
            words[GOES_ON as usize * CANDIDATES as usize + i] = (i > 0) as u32;
        }
        let sums = |strips: u32| device.alloc::<u32>((SUMS * strips * CANDIDATES) as usize);
        Ok(Attempts {
            stream,
            scene,
            frame,
            voting: model.points.len(),
            points: lists.upload(device, Strips::MOST)?,
            states: device.upload(&words)?,
            sums: sums(Strips::MOST.number())?,
            fewer: sums(STRIPS)?,
        })
    }
    /// Moves those that continue: three launches.
    fn step(&mut self, step: &Perspective) -> koel::Result<()> {
        let stream = self.stream;
        // SAFETY: the contour is one of the lists of points; there are a state and the sums of all
        // strips per candidate; maps as in `refined`.
        unsafe {
            let models = self.points.arg(&self.states, stream)?;
            vision_perspective_moments::launch(
                stream,
                (CANDIDATES * step.strips).div_ceil(128),
                *step,
                models.models,
                models.points,
                self.scene.arg(stream)?,
                self.states.view().arg("states", stream)?,
                self.sums.view_mut().arg("sums", stream)?,
            )?;
            let sums = add_strips(stream, SUMS, CANDIDATES, &self.sums, &mut self.fewer)?;
            vision_perspective_step::launch(
                stream,
                1,
                *step,
                models.models,
                sums.view().arg("sums", stream)?,
                self.states.view_mut().arg("states", stream)?,
            )
        }
    }
    /// Returns the homography of each, from points of the model, `None` if it stopped, and its
    /// evidence in nats.
    fn finish(self) -> koel::Result<[(Option<Homography>, f32); CANDIDATES as usize]> {
        let (stream, n) = (self.stream, CANDIDATES as usize);
        let mut scores = stream.device().alloc::<u32>(self.voting * n)?;
        // SAFETY: the voting points are one of the lists, with as many weights and, for each
        // candidate, scores; a state per candidate; maps as in `refined`.
        unsafe {
            vision_perspective_scores::launch(
                stream,
                (scores.len() as u32).div_ceil(128),
                VOTING,
                self.points.arg(&self.states, stream)?,
                self.scene.arg(stream)?,
                self.scene.maps.fine.view().arg("likelihood", stream)?,
                self.states.view().arg("states", stream)?,
                scores.view_mut().arg("scores", stream)?,
            )
        }?;
        let (scores, words) = (scores.download()?, self.states.download()?);
        let (to_frame, _) = self.frame.maps();
        Ok(std::array::from_fn(|i| {
            let said = scores.iter().skip(i).step_by(n).map(|&bits| f32::from_bits(bits));
            let word = |k: usize| f32::from_bits(words[k * n + i]) as f64;
            let [a, b, d, e, x, y, g, h] = std::array::from_fn(word);
            let rows = [[a + x * g, b + x * h, x], [d + y * g, e + y * h, y], [g, h, 1.0]];
            let goes_on = words[GOES_ON as usize * n + i] != 0;
            let map = Homography { rows }.after(&to_frame.into()).filter(|_| goes_on);
            (map, said.sum::<f32>() / 16.0)
        }))
    }
}
