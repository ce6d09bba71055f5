//! What is kept of a scene: its edges and their maps.
use crate::affine::Affine;
use crate::edges::{Edge, edges, spread, strongest_first};
use crate::maps::{Maps, offsets};
use crate::model::working_size;
use crate::picture::Grey;
use koel::device::Staged;
use koel::{Buffer, Device};

/// How far points that pairs are made of are apart, pixels.
const APART: f32 = 5.0;
/// No more of them are kept.
const MOST_POINTS: usize = 8192;

/// An image that models are looked for in.
pub struct Scene {
    /// Its size in pixels.
    pub width: usize,
    /// Its size in pixels.
    pub height: usize,
    /// From the edges' coordinates to pixels of the image.
    pub to_image: Affine,
    /// All edges.
    pub edges: Vec<Edge>,
    /// Edges evenly spread, those that stand out most first.
    pub points: Vec<Edge>,
    /// What they say about every pixel.
    pub maps: Maps,
    offsets: Vec<u32>,
    on_edges: Vec<u32>,
}

/// A scene where the kernels of a device read it.
pub struct StagedScene<'a> {
    /// The scene.
    pub scene: &'a Scene,
    /// [`Maps::nearest`].
    pub nearest: Staged<'a, u8>,
    /// [`Maps::loose`].
    pub loose: Staged<'a, u8>,
    /// [`Maps::fine`].
    pub fine: Staged<'a, u8>,
    /// [`Maps::index`].
    pub index: Staged<'a, u32>,
    /// [`offsets`].
    pub offsets: Staged<'a, u32>,
    /// x, y and normal of each edge.
    pub edges: Buffer<u32>,
}

impl Scene {
    /// The scene that an image shows.
    pub fn of(image: &Grey) -> Scene {
        let (small, to_image) = working_size(image);
        let edges = edges(&small);
        Scene::of_edges(edges, &small, image, to_image)
    }
    fn of_edges(edges: Vec<Edge>, small: &Grey, image: &Grey, to_image: Affine) -> Scene {
        let order = strongest_first(&edges, |e| e.contrast);
        let kept = spread(&edges, order.into_iter(), APART, MOST_POINTS);
        let points = kept.into_iter().map(|i| edges[i]).collect();
        let maps = Maps::of(&edges, small.width, small.height);
        let on_edges = if edges.is_empty() { vec![0; 4] } else { edges.iter().flat_map(words).collect() };
        Scene { width: image.width, height: image.height, to_image, edges, points, maps, offsets: offsets(), on_edges }
    }
    /// Its maps where the kernels of the device read them: themselves on the CPU, copies elsewhere.
    pub fn stage<'a>(&'a self, device: &Device) -> koel::Result<StagedScene<'a>> {
        Ok(StagedScene {
            scene: self,
            nearest: device.stage(&self.maps.nearest)?,
            loose: device.stage(&self.maps.loose)?,
            fine: device.stage(&self.maps.fine)?,
            index: device.stage(&self.maps.index)?,
            offsets: device.stage(&self.offsets)?,
            edges: device.upload(&self.on_edges)?,
        })
    }
}
fn words(e: &Edge) -> [u32; 4] {
    [e.x.to_bits(), e.y.to_bits(), e.normal.0.to_bits(), e.normal.1.to_bits()]
}
