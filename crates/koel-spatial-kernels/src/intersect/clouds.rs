//! The points of both clouds and the motions of the clouds.
//!
//! In every array of points those of A come first. Each cloud is padded to groups of four points,
//! one group per thread.
use koel_simt::{In, unroll};

/// Points per group.
pub const GROUP: u32 = 4;
/// Bits per coordinate within a voxel.
pub const LOCAL_BITS: u32 = 10;

/// Numbers of point groups: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Groups {
    /// Groups of both clouds.
    pub all: u32,
    /// Groups of A.
    pub of_a: u32,
}
impl Groups {
    /// Returns the cloud of a group.
    #[inline(always)]
    pub fn cloud(self, group: u32) -> u32 {
        (group >= self.of_a) as u32
    }
    /// Returns the first point of a cloud and its number of points with padding.
    #[inline(always)]
    pub fn points(self, cloud: u32) -> (u32, u32) {
        let of_a = GROUP * self.of_a;
        if cloud == 0 { (0, of_a) } else { (of_a, GROUP * self.all - of_a) }
    }
}

/// Both clouds: a kernel argument. Coordinates are `f32` bits, NaN in the padding.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Clouds {
    /// The x of each point.
    pub x: In<u32>,
    /// The y of each point.
    pub y: In<u32>,
    /// The z of each point.
    pub z: In<u32>,
    /// The x of each point's normal. Normals have length 1, or 0 if unknown.
    pub nx: In<u32>,
    /// The y of each point's normal.
    pub ny: In<u32>,
    /// The z of each point's normal.
    pub nz: In<u32>,
    /// Motion of each cloud: [`Motion::WORDS`] words.
    pub motions: In<u64>,
    /// Numbers of point groups.
    pub groups: Groups,
}

/// Motion of a cloud, in the units of its points: a kernel argument.
#[derive(Clone, Copy, PartialEq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Motion {
    /// Rotation matrix, row by row.
    pub rotation: [f64; 9],
    /// Translation, applied after the rotation.
    pub translation: [f64; 3],
}
impl Motion {
    /// Words of 64 bits per motion in device memory.
    pub const WORDS: u32 = 12;
    /// Reads the motion of a cloud.
    #[inline(always)]
    #[track_caller]
    pub fn get(motions: In<u64>, cloud: u32) -> Motion {
        let mut motion =
            Motion { rotation: Motion::rotation(motions, cloud), translation: [0.0; 3] };
        unroll::<3>(|a| {
            motion.translation[a] =
                f64::from_bits(motions.get(cloud * Motion::WORDS + 9 + a as u32))
        });
        motion
    }
    /// Reads only the rotation.
    #[inline(always)]
    #[track_caller]
    pub fn rotation(motions: In<u64>, cloud: u32) -> [f64; 9] {
        let mut rotation = [0.0; 9];
        unroll::<9>(|c| {
            rotation[c] = f64::from_bits(motions.get(cloud * Motion::WORDS + c as u32))
        });
        rotation
    }
}

/// Motions and sizes of both clouds in a frame: a kernel argument.
#[derive(Clone, Copy, PartialEq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Motions {
    /// Cloud A.
    pub a: Motion,
    /// Cloud B.
    pub b: Motion,
    /// Number of points of each, without padding.
    pub points: [u32; 2],
}
