//! Images as points: strongest edges or corners, evenly spread.
use crate::affine::Affine;
use crate::corners::{corners, evenly};
use crate::edges::{DeviceEdges, Edge, smoothed, spread, strongest_first};
use crate::model::{Model, working_size};
use crate::picture::Grey;
use koel::Stream;
use std::borrow::Cow;

/// Features of an image that become its points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Features {
    /// Strongest edges, evenly spread.
    Edges,
    /// Corners (FAST) of the smoothed image, the strongest of each cell of the image first.
    #[default]
    Corners,
}
impl std::str::FromStr for Features {
    type Err = String;
    fn from_str(text: &str) -> Result<Features, String> {
        match text {
            "edges" => Ok(Features::Edges),
            "corners" => Ok(Features::Corners),
            _ => Err("expected edges or corners".into()),
        }
    }
}

/// Selection of the points of an image.
#[derive(Clone, Copy, Debug)]
pub struct PointRules {
    /// What becomes a point.
    pub features: Features,
    /// Maximum number of points of a model and of a scene, strongest first.
    pub most: (usize, usize),
    /// Minimum distance between edges, in pixels.
    pub apart: f32,
    /// Keep outlines, too: of a model up to 800 edges, of a scene all.
    pub outlines: bool,
}
impl Default for PointRules {
    /// Returns rules for up to 400 and 1,500 corners, without outlines.
    fn default() -> PointRules {
        PointRules { features: Features::Corners, most: (400, 1500), apart: 8.0, outlines: false }
    }
}
koel::option_setters! { PointRules:
    features by with_features: Features;
    most by with_most: (usize, usize);
    apart by with_apart: f32;
    outlines by with_outlines: bool;
}

/// Number of outline points of a model, and their minimum distance in pixels.
const OUTLINE: (usize, f32) = (800, 3.0);

/// Returns the strongest edges, evenly spread.
fn strongest(edges: &[Edge], apart: f32, most: usize) -> Vec<(f32, f32)> {
    let order = strongest_first(edges, |e| e.strength);
    let kept = spread(edges, order.into_iter(), apart, most);
    kept.into_iter().map(|i| (edges[i].x, edges[i].y)).collect()
}

/// Image as a set of points. With points of your own, the fields say what they are.
#[derive(Clone, Debug)]
pub struct PointSet {
    /// Points in working coordinates.
    pub points: Vec<(f32, f32)>,
    /// Edges; may be empty.
    pub outline: Vec<(f32, f32)>,
    /// Size of the image in pixels.
    pub size: (usize, usize),
    /// Map from the points' coordinates to pixels of the image.
    pub to_image: Affine,
}
/// Side of a pair of images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Image that is searched for.
    Model,
    /// Image that is searched.
    Scene,
}
impl PointSet {
    /// Returns a model's strongest edges, whatever features the rules name. Linear time.
    pub fn of_model(model: &Model, rules: &PointRules) -> PointSet {
        let outline = model.contour.iter().map(|e| (e.x, e.y));
        PointSet {
            points: strongest(&model.points, rules.apart, rules.most.0),
            outline: if rules.outlines { outline.collect() } else { vec![] },
            size: (model.width, model.height),
            to_image: model.to_image,
        }
    }
    /// Returns the points of an image that is shrunk by a factor of at least 1. Finds them on the
    /// device of `stream` and reads them back; images of more than 1024 pixels per side are shrunk
    /// further. The same on every device. No points if fewer than 8 pixels per side are left.
    ///
    /// # Errors
    /// Those of the device, such as [`koel::Error::OutOfMemory`].
    pub fn of_image(
        stream: &Stream,
        image: &Grey,
        factor: f32,
        side: Side,
        rules: &PointRules,
    ) -> koel::Result<PointSet> {
        let (working, _) = working_size(image);
        let factor = factor.max(1.0) * image.width.max(image.height) as f32
            / working.width.max(working.height) as f32;
        let small = if factor > 1.0 { Cow::Owned(image.shrunk(factor)) } else { working };
        let to_image = Affine::between_sizes(
            image.width as f32 / small.width as f32,
            image.height as f32 / small.height as f32,
        );
        let most = if side == Side::Model { rules.most.0 } else { rules.most.1 };
        let edges = || DeviceEdges::find(stream, &small)?.download();
        let (points, edges) = match rules.features {
            Features::Edges => {
                let edges = edges()?;
                (strongest(&edges, rules.apart, most), edges)
            }
            Features::Corners => {
                let chosen = evenly(&corners(stream, &smoothed(&small))?, most);
                let points = chosen.into_iter().map(|c| (c.x as f32, c.y as f32)).collect();
                (points, if rules.outlines { edges()? } else { vec![] })
            }
        };
        let outline = match (rules.outlines, side) {
            (false, _) => vec![],
            (true, Side::Model) => strongest(&edges, OUTLINE.1, OUTLINE.0),
            (true, Side::Scene) => edges.iter().map(|e| (e.x, e.y)).collect(),
        };
        Ok(PointSet { points, outline, size: (image.width, image.height), to_image })
    }
}
