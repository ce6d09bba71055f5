//! Model of an image: points of its edges.
use crate::affine::Affine;
use crate::agreement::Patch;
use crate::colour::Colours;
use crate::device::in_pool;
use crate::edges::{Edge, edges, spread, strongest_first};
use crate::picture::Grey;
use std::borrow::Cow;

/// Number of voting points, and their minimum distance in pixels.
const POINTS: (usize, f32) = (260, 5.0);
/// The distance in images with too few points of that distance, and their maximum shorter side, in
/// pixels.
const CLOSER: f32 = 2.0;
pub(crate) const SMALL_SIDE: usize = 64;
/// Number of points of the last refinement, and their minimum distance in pixels.
const CONTOUR: (usize, f32) = (1500, 2.0);
/// Maximum number of voting points and of contour points of a model.
pub(crate) const MAX_POINTS: (usize, usize) = (POINTS.0, CONTOUR.0);
/// Minimum number of points of a model.
pub(crate) const MIN_POINTS: usize = 12;
/// Number of collinear points that count fully.
const COLLINEAR: f32 = 4.0;
/// Maximum side of an image, in pixels; larger images are shrunk to it.
pub(crate) const WORKING_SIDE: f32 = 1024.0;

/// Image to be found in others: points of its edges, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Width in pixels.
    pub(crate) width: usize,
    /// Height in pixels.
    pub(crate) height: usize,
    /// Map from the points' coordinates to pixels of the image.
    pub(crate) to_image: Affine,
    /// Strongest edges, evenly spread, strongest first.
    pub(crate) points: Vec<Edge>,
    /// Weight of each point's evidence.
    pub(crate) weights: Vec<f32>,
    /// Denser selection of edges.
    pub(crate) contour: Vec<Edge>,
    /// Luminance, if known.
    pub(crate) patch: Option<Patch>,
    /// Colours, if known.
    pub(crate) colours: Option<Colours>,
}

/// Error for an image with too few edges to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} edge points are too few: at least {MIN_POINTS} are needed")]
#[non_exhaustive]
pub struct TooFewEdges {
    /// Number of edge points found.
    pub found: usize,
}

/// Shrinks an image to working size if necessary. Returns it with the map from its pixels to those
/// of the original.
pub(crate) fn working_size(image: &Grey) -> (Cow<'_, Grey>, Affine) {
    let factor = image.width.max(image.height) as f32 / WORKING_SIDE;
    if factor <= 1.0 {
        return (Cow::Borrowed(image), Affine::IDENTITY);
    }
    let small = image.shrunk(factor);
    let (x, y) =
        (image.width as f32 / small.width as f32, image.height as f32 / small.height as f32);
    let to_image = Affine::between_sizes(x, y);
    (Cow::Owned(small), to_image)
}

impl Model {
    /// Builds the model of an image, on the host: about 25 passes over it. Images larger than 1024
    /// pixels per side are first shrunk. The result does not depend on the number of threads.
    ///
    /// Fails for an image without structure: fewer than 12 points of edges, 5 pixels apart (2 if
    /// the shorter side has at most 64 pixels).
    pub fn of(image: &Grey) -> Result<Model, TooFewEdges> {
        in_pool(|| Model::of_image(image))
    }
    fn of_image(image: &Grey) -> Result<Model, TooFewEdges> {
        let (small, to_image) = working_size(image);
        let (edges, size) = (edges(&small), (image.width, image.height));
        let model = Model::of_working(&edges, size, to_image, &small);
        match model.is_err() && image.width.min(image.height) <= SMALL_SIDE {
            true => Model::with_points(&edges, size, to_image, (&small, CLOSER)),
            false => model,
        }
    }
    /// Adds the colours of the model's image: scenes that have colour, too, must then agree in it.
    pub fn with_colours(self, colours: Option<&Colours>) -> Model {
        Model { colours: colours.map(Colours::of_model), ..self }
    }
    /// Returns the colours, and whether the model is a drawing.
    pub(crate) fn colours(&self) -> (Option<&Colours>, bool) {
        (self.colours.as_ref(), self.patch.as_ref().is_some_and(Patch::is_drawing))
    }
    /// Returns whether the points are so close that their evidence is not independent: only
    /// luminance can tell whether such a model is present.
    pub(crate) fn is_crowded(&self) -> bool {
        spread(&self.points, 0..self.points.len(), POINTS.1, MIN_POINTS).len() < MIN_POINTS
    }
    /// Returns the width and height of the image, in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }
    /// Returns the size of the image in which the points were found.
    pub(crate) fn working(&self) -> (f32, f32) {
        let [[x, _], [_, y]] = self.to_image.linear;
        // Of mirrored models, one is negative.
        (self.width as f32 / x.abs(), self.height as f32 / y.abs())
    }
    /// Returns the number of edge points that vote.
    pub fn points(&self) -> usize {
        self.points.len()
    }
    /// Builds the model of an image of the given size from the edges of its working image;
    /// `to_image` maps their coordinates to pixels of the image.
    pub(crate) fn of_working(
        edges: &[Edge],
        (width, height): (usize, usize),
        to_image: Affine,
        working: &Grey,
    ) -> Result<Model, TooFewEdges> {
        Model::with_points(edges, (width, height), to_image, (working, POINTS.1))
    }
    /// Builds a model whose points are at least `apart` pixels apart.
    fn with_points(
        edges: &[Edge],
        (width, height): (usize, usize),
        to_image: Affine,
        (working, apart): (&Grey, f32),
    ) -> Result<Model, TooFewEdges> {
        let order = strongest_first(edges, |e| e.strength);
        let chosen = |(most, apart): (usize, f32)| {
            let kept = spread(edges, order.iter().copied(), apart, most);
            kept.into_iter().map(|i| edges[i]).collect::<Vec<Edge>>()
        };
        let points = chosen((POINTS.0, apart));
        if points.len() < MIN_POINTS {
            return Err(TooFewEdges { found: points.len() });
        }
        let (patch, (contour, weights)) = rayon::join(
            || Patch::of(working),
            || rayon::join(|| chosen(CONTOUR), || independent_weights(&points)),
        );
        Ok(Model {
            width,
            height,
            to_image,
            points,
            weights,
            contour,
            patch: Some(patch),
            colours: None,
        })
    }
}

/// Returns weights that decrease with the number of collinear points. Their evidence is correlated:
/// if one lies on an edge of the scene, so do the others.
pub(crate) fn independent_weights(points: &[Edge]) -> Vec<f32> {
    let dot = |a: (f32, f32), b: (f32, f32)| a.0 * b.0 + a.1 * b.1;
    let on_one_line = |p: &Edge, q: &Edge| {
        dot(p.normal, (q.x - p.x, q.y - p.y)).abs() < 2.5 && dot(p.normal, q.normal).abs() > 0.985
    };
    let line = |p: &Edge| points.iter().filter(|q| on_one_line(p, q)).count() as f32;
    points.iter().map(|p| (COLLINEAR / line(p)).min(1.0)).collect()
}
