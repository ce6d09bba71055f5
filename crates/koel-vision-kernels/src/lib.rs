//! Device code of koel-vision, the matching of oriented edge points: one source for PTX and for the
//! host.
//!
//! Every kernel here becomes an entry of one of the [`images`] (`cargo xtask ptx`), and also runs
//! on the host.
//!
//! In the order of the data flow: [`edges`] finds edge points in an image, [`spread`] chooses an
//! evenly spread subset, [`maps`] scores every pixel of a scene by its edges, [`vote`] makes
//! hypotheses from pairs, [`refine`] improves them, [`perspective`] makes homographies of them, and
//! [`compare`] compares luminance. [`corners`] are another kind of feature.
//!
//! Angles are [`u32`] fractions of a turn (2^32 per turn, counter-clockwise with x right, y down),
//! so that differences wrap naturally. Arrays of floats are passed as bits. Everything is basic
//! arithmetic in a fixed order, so results are bit-identical on every device.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::too_many_arguments, reason = "a kernel takes what it needs one by one")]

pub mod compare;
pub mod corners;
pub mod direction;
pub mod edges;
#[cfg(not(target_arch = "nvptx64"))]
pub mod entries;
#[cfg(not(target_arch = "nvptx64"))]
pub mod images;
pub mod maps;
pub mod perspective;
pub mod refine;
pub mod spread;
pub mod vote;

use koel_simt::{In, U32x4};

/// Size of an image: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Size {
    /// Pixels per row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

/// Edges, the output of [`edges::vision_edges()`]: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct EdgesIn {
    /// For each edge: x, y and the normal's x, y (floats).
    pub places: In<u32>,
    /// For each edge: direction, strength, contrast (floats) and the number of its pixel.
    pub traits: In<u32>,
    /// Number of edges.
    pub count: u32,
}

/// A scene, prepared for lookups of the nearest edge of a direction: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SceneIn {
    /// For each edge: x, y and the normal's x, y (floats).
    pub edges: In<u32>,
    /// Edge of each pixel.
    pub index: In<u32>,
    /// Number in `offsets` of the offset to the nearest edge pixel, class by class, row by row;
    /// [`refine::FAR`] if there is none. Offsets are numbered by distance.
    pub nearest: In<u8>,
    /// x and y of each offset, as signed 16-bit halves.
    pub offsets: In<u32>,
    /// Size of the image.
    pub size: Size,
}

/// Place in the maps of a scene: a pixel and a class of direction.
#[derive(Clone, Copy)]
struct Place {
    x: u32,
    y: u32,
    /// Index in the maps.
    index: u32,
}
impl SceneIn {
    /// Returns the place of a point, in pixels, whose direction `of` returns; `None` outside the
    /// image.
    #[inline(always)]
    fn place(&self, (x, y): (f32, f32), of: impl FnOnce() -> u32) -> Option<Place> {
        let Size { width, height } = self.size;
        let (x, y) = ((x + 0.5) as i32 as u32, (y + 0.5) as i32 as u32);
        if x >= width || y >= height {
            return None;
        }
        Some(Place { x, y, index: (class(of()) * height + y) * width + x })
    }
    /// Returns the edge of a place's class whose pixel is nearest, if that is within `radius`
    /// pixels: x, y and the normal's x, y.
    #[inline(always)]
    fn nearest(&self, place: Place, radius: f32) -> Option<[f32; 4]> {
        let code = self.nearest.get(place.index);
        if code == refine::FAR {
            return None;
        }
        let offset = self.offsets.get(code as u32);
        let (dx, dy) = (offset as i16 as i32, (offset >> 16) as i16 as i32);
        if (dx * dx + dy * dy) as f32 > radius * radius {
            return None;
        }
        let (x, y) = (place.x.wrapping_add(dx as u32), place.y.wrapping_add(dy as u32));
        let U32x4(edge) = self.edges.x4().get(self.index.get(y * self.size.width + x));
        Some(edge.map(f32::from_bits))
    }
}

/// Number of classes of direction.
pub const CLASSES: u32 = 16;

/// Returns the class of a direction: the nearest multiple of 1/16 of a turn.
#[inline(always)]
pub fn class(direction: u32) -> u32 {
    direction.wrapping_add(1 << 27) >> 28
}

/// Returns the number, but at least 1, so that the compiler knows that a divisor is not 0.
#[inline(always)]
fn at_least_one(n: u32) -> u32 {
    if n == 0 { 1 } else { n }
}
