//! Models of few pixels, such as icons in screenshots: normalised correlation at every place.
//!
//! Smoothed by 1.8 pixels, an icon of 32 x 32 has too few edges for evidence of 30 nats. It is
//! compared upright, at the usual scales of screens.
use crate::affine::Affine;
use crate::fit::Freedom;
use crate::matcher::Matcher;
use crate::model::{Model, SMALL_SIDE};
use crate::outcome::MatchOutcome;
use crate::picture::Grey;
use crate::refine::Scored;
use crate::scene::Scene;
use rayon::prelude::*;
use std::borrow::Cow;

/// Scales, scene over model.
const SCALES: [f32; 6] = [1.0, 1.25, 1.5, 2.0, 0.75, 0.5];
/// Minimum shorter side of the model in the scene, and that to which both are reduced first.
const LEAST: f32 = 14.0;
const COARSE: f32 = 14.0;
/// Number of places that are compared at full size, for each number of pixels of the scene, and
/// their minimum correlation before.
const PLACES: (usize, usize) = (12, 1 << 20);
const PROMISING: f32 = 0.6;
/// Places of a row that are compared together, one in each lane of vector registers.
const LANES: usize = 32;
/// Minimum correlation, and the maximum deviation of a sixteenth of the model from its place,
/// relative to the model's own deviation.
const CORRELATES: f32 = 0.9;
const DEVIATES: f32 = 0.5;

/// Places of each scale whose colours are compared.
const COLOURED: usize = 24;

/// Template with mean 0 and deviation 1.
struct Template {
    image: Grey,
    deviation: f32,
}
impl Template {
    fn of(mut image: Grey) -> Template {
        let n = image.pixels.len() as f32;
        let mean = image.pixels.iter().sum::<f32>() / n;
        let square = image.pixels.iter().map(|v| (v - mean).powi(2)).sum::<f32>();
        let deviation = (square / n).sqrt();
        image.pixels.iter_mut().for_each(|v| *v = (*v - mean) / deviation.max(1e-3));
        Template { image, deviation }
    }
    /// Returns the correlation with the scene's pixels from a place.
    fn correlation(&self, scene: &Grey, (left, top): (usize, usize)) -> f32 {
        // Near the mean, sums of squares keep their digits.
        let offset = scene.pixels[top * scene.width + left];
        let (mut sum, mut square, mut product) = (0.0f32, 0.0f32, 0.0f32);
        for (y, row) in self.image.pixels.chunks_exact(self.image.width).enumerate() {
            let other = &scene.pixels[(top + y) * scene.width + left..][..self.image.width];
            for (a, b) in row.iter().zip(other) {
                let b = b - offset;
                (sum, square, product) = (sum + b, square + b * b, product + a * b);
            }
        }
        let n = self.image.pixels.len() as f32;
        let variance = (square / n - (sum / n).powi(2)).max(0.0);
        product / n / variance.sqrt().max(1.0)
    }
    /// Returns the number of independent pixels: neighbours are alike in both images.
    fn independent(&self) -> f32 {
        let (w, pixels) = (self.image.width, &self.image.pixels);
        let alike = |step: usize| {
            let pairs = pixels.iter().zip(&pixels[step..]);
            (pairs.map(|(a, b)| a * b).sum::<f32>() / (pixels.len() - step) as f32).clamp(0.0, 0.99)
        };
        let part = |a: f32| (1.0 - a * a) / (1.0 + a * a);
        pixels.len() as f32 * part(alike(1)) * part(alike(w))
    }
    /// Returns the evidence of a correlation at one place, in nats: that of a linear relation.
    fn evidence(&self, correlation: f32) -> f32 {
        let rest = 1.0 - correlation.max(0.0).powi(2);
        -0.5 * self.independent() * rest.max(1e-3).ln()
    }
    /// Returns the greatest deviation of a sixteenth of the template from its place.
    fn worst_part(&self, scene: &Grey, at: (usize, usize), correlation: f32) -> f32 {
        let (w, h) = (self.image.width, self.image.height);
        let place = Template::of(window(scene, at, (w, h))).image;
        let part = |k: usize| {
            let (i, j) = (k % 4, k / 4);
            let (mut sum, mut n) = (0.0f32, 0.0f32);
            for y in j * h / 4..(j + 1) * h / 4 {
                for x in i * w / 4..(i + 1) * w / 4 {
                    let at = y * w + x;
                    sum += (self.image.pixels[at] * correlation - place.pixels[at]).powi(2);
                    n += 1.0;
                }
            }
            (sum / n).sqrt()
        };
        (0..16).map(part).fold(0.0, f32::max)
    }
}

/// Place of a template in a scene.
#[derive(Clone, Copy)]
struct Place {
    correlation: f32,
    at: (usize, usize),
}

/// Scene for comparisons of many places: grey levels around 0, so that sums of squares keep their
/// digits, in rows with room for [`LANES`] places that begin at any pixel.
struct Padded {
    stride: usize,
    pixels: Vec<f32>,
}
impl Padded {
    fn of(scene: &Grey) -> Padded {
        let stride = scene.width + LANES;
        let mut pixels = vec![0.0; stride * scene.height];
        for (out, row) in
            pixels.chunks_exact_mut(stride).zip(scene.pixels.chunks_exact(scene.width))
        {
            out.iter_mut().zip(row).for_each(|(o, v)| *o = v - 128.0);
        }
        Padded { stride, pixels }
    }
    /// Returns the deviation of each place of `w` x `h` pixels in row `y`.
    fn deviations(&self, y: usize, (w, h): (usize, usize), places: usize) -> Vec<f32> {
        let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(t, f)| *t += f);
        let (mut sums, mut squares) = (vec![0.0; self.stride], vec![0.0; self.stride]);
        for row in self.pixels[y * self.stride..].chunks_exact(self.stride).take(h) {
            add(&mut sums, row);
            squares.iter_mut().zip(row).for_each(|(s, v)| *s += v * v);
        }
        let (mut sum, mut square) = (vec![0.0; places], vec![0.0; places]);
        for x in 0..w {
            add(&mut sum, &sums[x..]);
            add(&mut square, &squares[x..]);
        }
        let n = (w * h) as f32;
        let deviation =
            |(sum, square): (f32, f32)| (square / n - (sum / n).powi(2)).max(0.0).sqrt();
        sum.into_iter().zip(square).map(deviation).collect()
    }
    /// Returns the sum of the products of a template with each of [`LANES`] places from `(x, y)`
    /// on.
    fn products(&self, template: &Template, (x, y): (usize, usize)) -> [f32; LANES] {
        let mut products = [0.0; LANES];
        let rows = self.pixels[y * self.stride..].chunks_exact(self.stride);
        for (row, own) in rows.zip(template.image.pixels.chunks_exact(template.image.width)) {
            for (places, v) in row[x..].windows(LANES).zip(own) {
                products.iter_mut().zip(places).for_each(|(sum, place)| *sum += v * place);
            }
        }
        products
    }
}

/// Returns the best places in a scene that are not beside a better one.
fn best_places(template: &Template, scene: &Grey, most: usize) -> Vec<Place> {
    let (w, h) = (template.image.width, template.image.height);
    if w > scene.width || h > scene.height {
        return vec![];
    }
    let (columns, n, padded) = (scene.width - w + 1, (w * h) as f32, Padded::of(scene));
    let of_row = |y: usize| {
        let (deviations, mut promising) = (padded.deviations(y, (w, h), columns), vec![]);
        for (group, deviations) in deviations.chunks(LANES).enumerate() {
            // Where the deviation is less than 1, the correlation is at most that.
            if deviations.iter().all(|d| *d < PROMISING) {
                continue;
            }
            let products = padded.products(template, (group * LANES, y));
            for (k, (product, deviation)) in products.iter().zip(deviations).enumerate() {
                let correlation = product / n / deviation.max(1.0);
                if correlation >= PROMISING {
                    promising.push(Place { correlation, at: (group * LANES + k, y) });
                }
            }
        }
        promising
    };
    let rows = 0..scene.height - h + 1;
    let mut all = rows.into_par_iter().flat_map_iter(of_row).collect::<Vec<Place>>();
    all.sort_by(|a, b| b.correlation.total_cmp(&a.correlation));
    apart(all, most)
}

/// Returns a part of an image.
pub(crate) fn window(
    image: &Grey,
    (left, top): (usize, usize),
    (width, height): (usize, usize),
) -> Grey {
    let rows = image.pixels.chunks_exact(image.width).skip(top).take(height);
    let pixels = rows.flat_map(|row| &row[left..left + width]).copied().collect();
    Grey { width, height, pixels }
}

/// Returns the difference of each pixel from its right and lower neighbours, in which areas have
/// no weight; 1 pixel per side less.
fn differences(image: &Grey) -> Grey {
    let (width, height) = (image.width.saturating_sub(1), image.height.saturating_sub(1));
    let value = |x: usize, y: usize| image.pixels[y * image.width + x];
    let at = |i: usize| {
        let (x, y) = (i % width, i / width);
        value(x, y) - 0.5 * (value(x + 1, y) + value(x, y + 1))
    };
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}

/// Resamples an image to `ratio` times its size.
fn resampled(image: &Grey, ratio: f32) -> Grey {
    if ratio <= 1.0 {
        return if ratio < 1.0 { image.shrunk(1.0 / ratio) } else { image.clone() };
    }
    let side = |n: usize| (n as f32 * ratio).round() as usize;
    let (width, height) = (side(image.width), side(image.height));
    let back = Affine::between_sizes(
        image.width as f32 / width as f32,
        image.height as f32 / height as f32,
    );
    let (right, bottom) = ((image.width - 1) as f32, (image.height - 1) as f32);
    let at = |i: usize| {
        let (x, y) = back.apply(((i % width) as f32, (i / width) as f32));
        image.at(x.clamp(0.0, right), y.clamp(0.0, bottom)).unwrap_or(0.0)
    };
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}

/// Returns the best places of a template, best first, found in reduced images first.
fn best_at_full_size(image: &Grey, template: &Template, scene: &Grey, most: usize) -> Vec<Place> {
    let factor = (image.width.min(image.height) as f32 / COARSE).max(1.0);
    let (coarse, small) = (Template::of(image.shrunk(factor)), scene.shrunk(factor));
    let ends = (scene.width.checked_sub(image.width), scene.height.checked_sub(image.height));
    let (Some(right), Some(bottom)) = ends else { return vec![] };
    let reach = factor.ceil() as usize + 1;
    let around = |place: &Place| {
        let near = |at: usize, from: usize, to: usize, end: usize| {
            let middle = (at * to + from / 2) / from;
            middle.saturating_sub(reach).min(end)..=(middle + reach).min(end)
        };
        let rows = near(place.at.1, small.height, scene.height, bottom);
        let columns = near(place.at.0, small.width, scene.width, right);
        let all = rows.flat_map(|y| columns.clone().map(move |x| (x, y)));
        all.map(|at| Place { correlation: template.correlation(scene, at), at }).collect::<Vec<_>>()
    };
    let coarse = best_places(&coarse, &small, PLACES.0 * scene.pixels.len().div_ceil(PLACES.1));
    let mut all = coarse.iter().flat_map(around).collect::<Vec<Place>>();
    // Of equals, the first.
    all.sort_by(|a, b| b.correlation.total_cmp(&a.correlation).then(a.at.cmp(&b.at)));
    apart(all, most)
}
/// Returns the first places that are not beside an earlier one.
fn apart(places: Vec<Place>, most: usize) -> Vec<Place> {
    let mut kept: Vec<Place> = vec![];
    for place in places {
        if kept.len() == most {
            break;
        }
        let (x, y) = place.at;
        if kept.iter().all(|k| k.at.0.abs_diff(x) > 2 || k.at.1.abs_diff(y) > 2) {
            kept.push(place);
        }
    }
    kept
}

impl Matcher {
    /// Searches for a model of few pixels, upright and at the scales of screens, and merges the
    /// result into `outcome`. Does nothing for larger models.
    ///
    /// The evidence is that of a linear relation of the pixels, or of their differences from their
    /// neighbours, less the logarithm of the number of places. Alike neighbours count as one.
    pub(crate) fn find_small(
        &self,
        model: &Model,
        scene: &Scene,
        outcome: &mut MatchOutcome,
    ) -> koel::Result<()> {
        let Some(patch) = &model.patch else { return Ok(()) };
        let (width, height) = model.size();
        if width.min(height) > SMALL_SIDE || width.max(height) > 4 * SMALL_SIDE {
            return Ok(());
        }
        // In the screenshot's own pixels if they are kept, else in those of its edges.
        let (grey, to_edges) = match &scene.detail {
            Some(detail) => (Cow::Owned(detail.grey()), scene.to_image.inverse()),
            None => (Cow::Borrowed(&scene.grey), None),
        };
        let shrunk = if scene.detail.is_some() { 1.0 } else { scene.to_image.scale() };
        let image = patch.grey();
        // Two kinds of evidence.
        let places = (2 * SCALES.len() * grey.pixels.len()) as f32;
        let allowed = match self.options.freedom {
            Some(Freedom::Rigid) => &SCALES[..1],
            _ => &SCALES,
        };
        // What looks alike in another colour correlates as well.
        let most = if model.colours().0.is_some() { COLOURED } else { 1 };
        let mut poses: Vec<(f32, Affine)> = vec![];
        for scale in allowed {
            let ratio = scale / shrunk;
            if width.min(height) as f32 * ratio < LEAST {
                continue;
            }
            let shown = resampled(&image, ratio);
            let template = Template::of(shown.clone());
            let changed = Template::of(differences(&shown));
            let grown = Affine::between_sizes(
                shown.width as f32 / image.width as f32,
                shown.height as f32 / image.height as f32,
            );
            let best = best_at_full_size(&shown, &template, &grey, most);
            for Place { correlation, at } in
                best.into_iter().filter(|p| p.correlation >= CORRELATES)
            {
                let there = differences(&window(&grey, at, (shown.width, shown.height)));
                let evidence = template
                    .evidence(correlation)
                    .max(changed.evidence(changed.correlation(&there, (0, 0))))
                    - places.ln();
                if template.deviation >= 1.0
                    && template.worst_part(&grey, at, correlation) <= DEVIATES
                    && evidence >= self.options.evidence
                {
                    let [x, y] = grown.shift;
                    let shift = [x + at.0 as f32, y + at.1 as f32];
                    poses.push((evidence, Affine { shift, ..grown }));
                }
            }
        }
        poses.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (evidence, map) in poses {
            let map = to_edges.map_or(map, |to_edges| to_edges.after(&map));
            let pose = Scored { model: 0, map, score: evidence };
            let found = Some(self.found(model, scene, &pose, None)?);
            let one = MatchOutcome { found, evidence, ..MatchOutcome::NOTHING };
            let one = self.with_colour(one, model.colours(), scene, |_| true);
            let is_found = one.found.is_some();
            outcome.merge(one);
            if is_found {
                outcome.doubt = None;
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Places that are compared in groups have the correlation of one alone, and none is left out.
    #[test]
    fn groups_of_places_are_compared_as_one_is() {
        let mut random = Random::new(4);
        for (width, height, w, h) in [(90, 40, 14, 9), (33, 20, 20, 20), (14, 14, 14, 14)] {
            // Half of the scene is nearly flat.
            let mut value = |i: usize| {
                let span = if i % width < width / 2 { 0.5 } else { 90.0 };
                100.0 + random.between(0.0, span)
            };
            let pixels = (0..width * height).map(&mut value).collect();
            let scene = Grey { width, height, pixels };
            let template = Template::of(window(&scene, (width - w, height - h), (w, h)));
            let padded = Padded::of(&scene);
            for y in 0..height - h + 1 {
                let deviations = padded.deviations(y, (w, h), width - w + 1);
                for (group, deviations) in deviations.chunks(LANES).enumerate() {
                    let products = padded.products(&template, (group * LANES, y));
                    for (k, (product, deviation)) in products.iter().zip(deviations).enumerate() {
                        let at = (group * LANES + k, y);
                        let correlation = product / (w * h) as f32 / deviation.max(1.0);
                        let alone = template.correlation(&scene, at);
                        assert!((correlation - alone).abs() < 1e-3, "{at:?}");
                        assert!(*deviation >= PROMISING || alone < PROMISING + 1e-3, "{at:?}");
                    }
                }
            }
            let best = best_places(&template, &scene, 3);
            assert_eq!(best[0].at, (width - w, height - h));
            assert!((best[0].correlation - 1.0).abs() < 1e-3);
        }
    }
}
