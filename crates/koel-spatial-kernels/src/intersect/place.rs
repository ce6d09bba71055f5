//! New positions and normals of a cloud, for clouds that deform.
use koel_kernels::math::unit;
use koel_simt::{Buf, In, Thread, kernel};

/// Part of the arrays of points that a cloud has: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Place {
    /// First point of the cloud.
    pub first: u32,
    /// Number of its points with padding.
    pub padded: u32,
    /// Number of its points without padding.
    pub points: u32,
}

/// Points as they are given, as `f32` bits, and their order: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PointsIn {
    /// The x, y and z of each point.
    pub positions: In<u32>,
    /// The x, y and z of each point's normal, of any length.
    pub normals: In<u32>,
    /// Index of the given point for each place.
    pub order: In<u32>,
}

/// Points as kernels read them, in [`Clouds`](super::clouds::Clouds): a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PointsOut {
    /// The x of each point.
    pub x: Buf<u32>,
    /// The y of each point.
    pub y: Buf<u32>,
    /// The z of each point.
    pub z: Buf<u32>,
    /// The x of each point's normal.
    pub nx: Buf<u32>,
    /// The y of each point's normal.
    pub ny: Buf<u32>,
    /// The z of each point's normal.
    pub nz: Buf<u32>,
}

/// Puts the points of a cloud in their places, with normals of length 1, or 0 if they have none.
/// What is left of the places is padding. One thread per place.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_place_points(t: Thread, place: Place, from: PointsIn, to: PointsOut) {
    let i = t.global_id();
    if i >= place.padded {
        return;
    }
    let (mut position, mut normal) = ([f32::NAN; 3], [0.0; 3]);
    if i < place.points {
        let at = 3 * from.order.get(i);
        let vector = |of: In<u32>| [of.get(at), of.get(at + 1), of.get(at + 2)].map(f32::from_bits);
        position = vector(from.positions);
        normal = unit(vector(from.normals));
    }
    let at = place.first + i;
    to.x.store(at, position[0].to_bits());
    to.y.store(at, position[1].to_bits());
    to.z.store(at, position[2].to_bits());
    to.nx.store(at, normal[0].to_bits());
    to.ny.store(at, normal[1].to_bits());
    to.nz.store(at, normal[2].to_bits());
}
