//! What is kept of a scene: its edges and their maps, in the memory of a device.
use crate::affine::Affine;
use crate::edges::DeviceEdges;
use crate::maps::Maps;
use crate::model::working_size;
use crate::picture::Grey;
use koel::{Buffer, Stream};
use koel_kernels::vision::SceneIn;

/// How far points that pairs are made of are apart, pixels.
const APART: f32 = 5.0;
/// No more of them are kept.
const MAX_POINTS: usize = 8192;

/// An image that models are looked for in.
pub struct Scene {
    /// Its size in pixels.
    pub width: usize,
    /// Its size in pixels.
    pub height: usize,
    /// From the edges' coordinates to pixels of the image.
    pub to_image: Affine,
    /// All edges.
    pub edges: DeviceEdges,
    /// Edges evenly spread, those that stand out most first: four words each, x, y (floats),
    /// direction and number.
    pub points: Buffer<u32>,
    /// A copy of the points.
    pub point_words: Vec<u32>,
    /// What the edges say about every pixel.
    pub maps: Maps,
}

impl Scene {
    /// The scene that an image shows, made and kept where `stream` works. The same bytes
    /// everywhere.
    ///
    /// About 60 bytes of memory a pixel stay, images larger than 1024 pixels a side being shrunk on
    /// the host first. On a GPU about 25 launches; what is read back is the number of edges and
    /// the chosen points.
    pub fn of(stream: &Stream, image: &Grey) -> koel::Result<Scene> {
        let (small, to_image) = working_size(image);
        let edges = DeviceEdges::find(stream, &small)?;
        let (points, point_words) = edges.spread(stream, APART, MAX_POINTS)?;
        let maps = Maps::of(stream, &edges)?;
        Ok(Scene {
            width: image.width,
            height: image.height,
            to_image,
            edges,
            points,
            point_words,
            maps,
        })
    }
    /// The nearest edges as kernels look them up.
    pub(crate) fn arg(&self, stream: &Stream) -> koel::Result<SceneIn> {
        Ok(SceneIn {
            edges: self.edges.places.view().arg("edges", stream)?,
            index: self.maps.index.view().arg("index", stream)?,
            nearest: self.maps.nearest.view().arg("nearest", stream)?,
            offsets: self.maps.offsets.view().arg("offsets", stream)?,
            size: self.edges.size(),
        })
    }
    /// How many points there are.
    pub fn points(&self) -> usize {
        self.point_words.len() / 4
    }
    /// Where a point is, pixels.
    pub fn point(&self, i: usize) -> (f32, f32) {
        (f32::from_bits(self.point_words[4 * i]), f32::from_bits(self.point_words[4 * i + 1]))
    }
}
