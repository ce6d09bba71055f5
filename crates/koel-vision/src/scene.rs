//! Scene: its edges and their maps, in device memory.
use crate::affine::Affine;
use crate::edges::DeviceEdges;
use crate::maps::Maps;
use crate::model::working_size;
use crate::picture::Grey;
use koel::{Buffer, Stream};
use koel_kernels::vision::SceneIn;

/// Minimum distance, in pixels, of the points that pairs are made of.
const APART: f32 = 5.0;
/// Maximum number of these points.
const MAX_POINTS: usize = 8192;

/// Image that is searched for models: its edges and their maps, in device memory.
pub struct Scene {
    /// Width in pixels.
    pub(crate) width: usize,
    /// Height in pixels.
    pub(crate) height: usize,
    /// Map from the edges' coordinates to pixels of the image.
    pub(crate) to_image: Affine,
    /// All edges.
    pub(crate) edges: DeviceEdges,
    /// Evenly spread edges, highest contrast first: four words each, x, y (floats), direction and
    /// index.
    pub(crate) points: Buffer<u32>,
    /// Host copy of the points.
    pub(crate) point_words: Vec<u32>,
    /// Per-pixel maps of the edges.
    pub(crate) maps: Maps,
    /// Luminance, in host memory.
    pub(crate) grey: Grey,
    /// Map from the edges' coordinates to pixels of the luminance.
    pub(crate) to_grey: Affine,
}

impl Scene {
    /// Builds the scene of an image on the device of `stream`. Identical bytes on every device.
    ///
    /// Keeps about 60 bytes of memory per pixel. Images larger than 1024 pixels per side are first
    /// shrunk on the host. On a GPU, takes about 25 launches and reads back the number of edges and
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
            grey: small.into_owned(),
            to_grey: Affine::IDENTITY,
        })
    }
    /// Returns the nearest-edge maps as a kernel argument.
    pub(crate) fn arg(&self, stream: &Stream) -> koel::Result<SceneIn> {
        Ok(SceneIn {
            edges: self.edges.places.view().arg("edges", stream)?,
            index: self.maps.index.view().arg("index", stream)?,
            nearest: self.maps.nearest.view().arg("nearest", stream)?,
            offsets: self.maps.offsets.view().arg("offsets", stream)?,
            size: self.edges.size(),
        })
    }
    /// Returns the width and height of the image, in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }
    /// Returns the number of edge points. Nothing is found in a scene without any.
    pub fn edges(&self) -> usize {
        self.edges.count
    }
    /// Returns the number of points that pairs are made of.
    pub(crate) fn points(&self) -> usize {
        self.point_words.len() / 4
    }
    /// Returns the position of a point, in pixels.
    pub(crate) fn point(&self, i: usize) -> (f32, f32) {
        (f32::from_bits(self.point_words[4 * i]), f32::from_bits(self.point_words[4 * i + 1]))
    }
}
