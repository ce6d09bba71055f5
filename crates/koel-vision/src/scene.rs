//! Scene: its edges and their maps, in device memory.
use crate::affine::Affine;
use crate::agreement::{Luminance, Patch};
use crate::colour::Colours;
use crate::device::Image;
use crate::edges::DeviceEdges;
use crate::maps::{Likelihood, Maps};
use crate::model::working_size;
use crate::picture::Grey;
use crate::refine_on_cpu::SceneOnCpu;
use koel::{Buffer, Stream};
use koel_vision_kernels::{SceneIn, Size};
use std::borrow::Cow;

/// Minimum distance, in pixels, of the points that pairs are made of.
const APART: f32 = 5.0;
/// Maximum number of these points.
const MAX_POINTS: usize = 8192;
/// Maximum side, in pixels, of an image whose own pixels are kept for models of few pixels.
const DETAIL_SIDE: usize = 4096;

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
    /// index; in host memory.
    pub(crate) point_words: Vec<u32>,
    /// Per-pixel maps of the edges.
    pub(crate) maps: Maps,
    /// Luminance, in host memory.
    pub(crate) grey: Grey,
    /// The same in device memory; `None` on a CPU.
    pub(crate) on_device: Option<Image>,
    /// Map from the edges' coordinates to pixels of the luminance.
    pub(crate) to_grey: Affine,
    /// Luminance of the image itself, if it was shrunk and has at most [`DETAIL_SIDE`] pixels per
    /// side: models of few pixels vanish when it is shrunk.
    pub(crate) detail: Option<Patch>,
    /// Colours, if known.
    pub(crate) colours: Option<Colours>,
}

impl Scene {
    /// Builds the scene of an image on the device of `stream`. Identical bytes on every device.
    ///
    /// Keeps about 64 bytes of memory per pixel. Images larger than 1024 pixels per side are first
    /// shrunk on the host; up to 4096 pixels per side, a byte of host memory is kept for each of
    /// their own pixels. On a GPU, takes about 25 launches and reads back the number of edges and
    /// the chosen points.
    pub fn of(stream: &Stream, image: &Grey) -> koel::Result<Scene> {
        let (small, to_image) = working_size(image);
        let edges = DeviceEdges::find(stream, &small)?;
        let point_words = edges.spread(stream, APART, MAX_POINTS)?;
        let maps = Maps::of(stream, &edges)?;
        let (width, height) = (image.width, image.height);
        let is_kept = matches!(small, Cow::Owned(_)) && width.max(height) <= DETAIL_SIDE;
        let detail = is_kept.then(|| {
            let pixels = image.pixels.iter().map(|v| v.round() as u8).collect();
            Patch { width, height, pixels }
        });
        Ok(Scene {
            width,
            height,
            to_image,
            on_device: edges.image.clone(),
            edges,
            point_words,
            maps,
            grey: small.into_owned(),
            to_grey: Affine::IDENTITY,
            detail,
            colours: None,
        })
    }
    /// Adds the colours of the scene's image, to be compared with those of models.
    pub fn with_colours(self, colours: Option<Colours>) -> Scene {
        Scene { colours, ..self }
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
    /// Returns the maps with the likelihoods, if they are in host memory.
    pub(crate) fn on_cpu(&self, likelihood: Likelihood) -> Option<SceneOnCpu<'_>> {
        let Maps { index, nearest, offsets, .. } = &self.maps;
        let likelihood = self.said(likelihood).view().host()?;
        let maps = (index.view().host()?, nearest.view().host()?, likelihood);
        let (edges, Size { width, height }) = (&self.edges.places, self.edges.size());
        let edges = edges.view().host()?;
        Some(SceneOnCpu::new(edges, maps, offsets.view().host()?, (width, height)))
    }
    /// Returns the likelihoods of each class and pixel.
    pub(crate) fn said(&self, likelihood: Likelihood) -> &Buffer<u8> {
        match likelihood {
            Likelihood::Loose => &self.maps.loose,
            Likelihood::Fine => &self.maps.fine,
        }
    }
    /// Returns the luminance, and where it is compared.
    pub(crate) fn luminance<'s>(&'s self, stream: &'s Stream) -> Luminance<'s> {
        let on_device = self.on_device.as_ref().map(|image| (stream, image));
        Luminance { grey: &self.grey, on_device }
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
}
