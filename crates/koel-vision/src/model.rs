//! What is kept of a model: points of its edges.
use crate::affine::Affine;
use crate::edges::{Edge, edges, spread, strongest_first};
use crate::picture::Grey;
use std::borrow::Cow;

/// Points that vote, and how far apart they are, pixels.
const POINTS: (usize, f32) = (260, 5.0);
/// Points of the last refinement, and how far apart they are, pixels.
const CONTOUR: (usize, f32) = (1500, 2.0);
/// More points than a model has, that vote and in all.
pub const MAX_POINTS: (usize, usize) = (POINTS.0, CONTOUR.0);
/// With fewer points a model says nothing.
pub const MIN_POINTS: usize = 12;
/// So many points on a straight line count fully.
const COLLINEAR: f32 = 4.0;
/// Larger images are shrunk until their longest side is this long, pixels.
pub const WORKING_SIDE: f32 = 1024.0;

/// An image to be found in others.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its size in pixels.
    pub width: usize,
    /// Its size in pixels.
    pub height: usize,
    /// From the points' coordinates to pixels of the image.
    pub to_image: Affine,
    /// The strongest edges, evenly spread, strongest first.
    pub points: Vec<Edge>,
    /// What each point's evidence weighs.
    pub weights: Vec<f32>,
    /// More of the edges.
    pub contour: Vec<Edge>,
}

/// Why an image cannot be searched for, or in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} edge points are too few: at least {MIN_POINTS} are needed")]
pub struct TooFewEdges {
    /// How many there are.
    pub found: usize,
}

/// An image small enough to work on, and the way from its pixels to those of the image.
pub fn working_size(image: &Grey) -> (Cow<'_, Grey>, Affine) {
    let factor = image.width.max(image.height) as f32 / WORKING_SIDE;
    if factor <= 1.0 {
        return (Cow::Borrowed(image), Affine::IDENTITY);
    }
    let small = image.shrunk(factor);
    let (x, y) =
        (image.width as f32 / small.width as f32, image.height as f32 / small.height as f32);
    let to_image = Affine { linear: [[x, 0.0], [0.0, y]], shift: [0.5 * x - 0.5, 0.5 * y - 0.5] };
    (Cow::Owned(small), to_image)
}

impl Model {
    /// The model that an image shows. Errors: an image without structure.
    pub fn of(image: &Grey) -> Result<Model, TooFewEdges> {
        let (small, to_image) = working_size(image);
        Model::of_edges(&edges(&small), image, to_image)
    }
    /// The model of an image's edges; `to_image` leads from their coordinates to pixels of the
    /// image.
    fn of_edges(edges: &[Edge], image: &Grey, to_image: Affine) -> Result<Model, TooFewEdges> {
        let order = strongest_first(edges, |e| e.strength);
        let chosen = |(most, apart): (usize, f32)| {
            let kept = spread(edges, order.iter().copied(), apart, most);
            kept.into_iter().map(|i| edges[i]).collect::<Vec<Edge>>()
        };
        let points = chosen(POINTS);
        if points.len() < MIN_POINTS {
            return Err(TooFewEdges { found: points.len() });
        }
        let weights = independent_weights(&points);
        Ok(Model {
            width: image.width,
            height: image.height,
            to_image,
            points,
            weights,
            contour: chosen(CONTOUR),
        })
    }
}

/// Evidence of points on one straight line is correlated: if one lies on an edge of the scene, so
/// do the others. The more there are, the less each weighs.
pub(crate) fn independent_weights(points: &[Edge]) -> Vec<f32> {
    let dot = |a: (f32, f32), b: (f32, f32)| a.0 * b.0 + a.1 * b.1;
    let on_one_line = |p: &Edge, q: &Edge| {
        dot(p.normal, (q.x - p.x, q.y - p.y)).abs() < 2.5 && dot(p.normal, q.normal).abs() > 0.985
    };
    let line = |p: &Edge| points.iter().filter(|q| on_one_line(p, q)).count() as f32;
    points.iter().map(|p| (COLLINEAR / line(p)).min(1.0)).collect()
}
