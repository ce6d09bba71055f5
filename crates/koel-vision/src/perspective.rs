//! Perspective: an affine pose is refined to a homography, with the kernels of
//! [`koel_vision_kernels::perspective`].
use crate::affine::Affine;
use crate::device::in_kernels;
use crate::homography::Homography;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::refine::{Frame, PointLists, Points, Strips, add_strips, inliers};
use crate::scene::Scene;
use koel::{Buffer, Stream};
use koel_vision_kernels::perspective::*;
use koel_vision_kernels::refine::STRIPS;

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
const STEPS: u32 = 24;
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
    /// that the map fits best. With kernels: three launches, three uploads and two downloads.
    pub(crate) fn perspective(
        &self,
        model: &Model,
        scene: &Scene,
        (map, of_part): (Affine, Affine),
    ) -> koel::Result<Option<Homography>> {
        let middle = self.best_part(model, scene, &of_part)?;
        let maps = [map, map, of_part];
        let mut attempts = Attempts::start(&self.stream, model, scene, maps)?;
        attempts.advance(parameters(model, attempts.frame, middle))?;
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

/// Returns the parameters of all steps.
fn parameters(model: &Model, frame: Frame, middle: (f32, f32)) -> Perspective {
    let [[left, top], [right, bottom]] = corners(model, frame);
    let sides = [left, top, right, bottom];
    Perspective { model: CONTOUR, step: 0, end: STEPS, middle: frame.point(middle), sides }
}
/// Returns the left top and the right bottom corner of a model.
fn corners(model: &Model, frame: Frame) -> [[f32; 2]; 2] {
    [(0.0, 0.0), model.working()].map(|corner| frame.point(corner))
}
/// Returns the limits of all steps: the radii shrink, and what counts of the model grows in the
/// second attempt.
fn limits(model: &Model, frame: Frame) -> Vec<u32> {
    let [[left, top], [right, bottom]] = corners(model, frame);
    let diagonal = (right - left).hypot(bottom - top);
    let of_step = |step: u32| {
        let radius = |(first, last): (f32, f32)| {
            first * (last / first).powf(step as f32 / (STEPS - 1) as f32)
        };
        let part = (step as f32 / (STEPS / 2) as f32).clamp(PART, 1.0);
        let reach = part * diagonal;
        let radii = [0.0, radius(FROM_ALL), radius(FROM_PART)];
        let reaches2 = [f32::MAX, f32::MAX, reach * reach];
        radii.into_iter().zip(reaches2).flat_map(|(radius, reach2)| [radius, reach2])
    };
    (0..STEPS).flat_map(of_step).map(f32::to_bits).collect()
}

/// Homographies that move to the edges, and the map that they are compared with.
struct Attempts<'a> {
    stream: &'a Stream,
    scene: &'a Scene,
    frame: Frame,
    points: Points,
    /// The states, then the scores of the voting points, then the limits: one copy to the device,
    /// and one back.
    words: Buffer<u32>,
    /// Ends of the states and of the scores.
    states: usize,
    scores: usize,
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
        let states = (STATE * CANDIDATES) as usize;
        let scores = states + model.points.len() * CANDIDATES as usize;
        let mut words = vec![0; scores];
        for (i, map) in maps.iter().enumerate() {
            for (k, word) in frame.enter(map).into_iter().enumerate() {
                words[k * CANDIDATES as usize + i] = word;
            }
            words[GOES_ON as usize * CANDIDATES as usize + i] = (i > 0) as u32;
        }
        words.extend(limits(model, frame));
        let (points, words) = (lists.upload(device, Strips::MANY)?, device.upload(&words)?);
        Ok(Attempts { stream, scene, frame, points, words, states, scores })
    }
    /// Moves those that continue.
    fn advance(&mut self, steps: Perspective) -> koel::Result<()> {
        let stream = self.stream;
        if !in_kernels(stream) {
            return self.advance_by_steps(steps);
        }
        // SAFETY: the contour is one of the lists of points; there are a state per candidate, and
        // limits for each step; maps as in `refined`.
        unsafe {
            vision_perspective::launch(
                stream,
                CANDIDATES,
                steps,
                self.words.view().slice(self.scores..)?.arg("limits", stream)?,
                self.points.arg(&self.words, stream)?,
                self.scene.arg(stream)?,
                self.words.view_mut().slice(..self.states)?.arg("states", stream)?,
            )
        }
    }
    /// Does so with kernels whose threads need not wait for each other.
    fn advance_by_steps(&mut self, mut step: Perspective) -> koel::Result<()> {
        let (stream, device) = (self.stream, self.stream.device());
        let mut sums = device.alloc::<u32>((SUMS * MOVING * CANDIDATES) as usize)?;
        let mut fewer = device.alloc::<u32>((SUMS * STRIPS * CANDIDATES) as usize)?;
        while step.step < step.end {
            // SAFETY: as in `advance`; there are the sums of all strips per candidate.
            unsafe {
                let models = self.points.arg(&self.words, stream)?;
                vision_perspective_moments::launch(
                    stream,
                    (CANDIDATES * MOVING).div_ceil(128),
                    step,
                    self.words.view().slice(self.scores..)?.arg("limits", stream)?,
                    models,
                    self.scene.arg(stream)?,
                    self.words.view().slice(..self.states)?.arg("states", stream)?,
                    sums.view_mut().arg("sums", stream)?,
                )?;
                let sums = add_strips(stream, SUMS, CANDIDATES, &sums, &mut fewer)?;
                vision_perspective_step::launch(
                    stream,
                    1,
                    step,
                    models,
                    sums.view().arg("sums", stream)?,
                    self.words.view_mut().slice(..self.states)?.arg("states", stream)?,
                )?;
            }
            step.step += 1;
        }
        Ok(())
    }
    /// Returns the homography of each, from points of the model, `None` if it stopped, and its
    /// evidence in nats.
    fn finish(self) -> koel::Result<[(Option<Homography>, f32); CANDIDATES as usize]> {
        let (stream, n) = (self.stream, CANDIDATES as usize);
        let Attempts { mut words, states, scores, .. } = self;
        // SAFETY: the voting points are one of the lists, with as many weights and, for each
        // candidate, scores; a state per candidate; maps as in `refined`.
        unsafe {
            vision_perspective_scores::launch(
                stream,
                ((scores - states) as u32).div_ceil(128),
                VOTING,
                self.points.arg(&words, stream)?,
                self.scene.arg(stream)?,
                self.scene.maps.fine.view().arg("likelihood", stream)?,
                words.view().slice(..states)?.arg("states", stream)?,
                words.view_mut().slice(states..scores)?.arg("scores", stream)?,
            )
        }?;
        let words = words.view().slice(..scores)?.download()?;
        let (words, scores) = words.split_at(states);
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
