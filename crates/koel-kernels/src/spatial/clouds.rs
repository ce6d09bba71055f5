//! The points of both clouds, and where the clouds stand.
//!
//! In every array of points those of A come first, and both clouds are padded to groups of four:
//! a thread takes a group.
use koel_simt::{In, unroll};

/// Points of a group.
pub const GROUP: u32 = 4;
/// Bits of a coordinate inside its voxel.
pub const LOCAL_BITS: u32 = 10;

/// How many groups of points there are: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Groups {
    /// Of both clouds.
    pub all: u32,
    /// Of A.
    pub of_a: u32,
}
impl Groups {
    /// The cloud of a group.
    #[inline(always)]
    pub fn cloud(self, group: u32) -> u32 {
        (group >= self.of_a) as u32
    }
    /// The first point of a cloud, and how many it has with the padding.
    #[inline(always)]
    pub fn points(self, cloud: u32) -> (u32, u32) {
        let of_a = GROUP * self.of_a;
        if cloud == 0 { (0, of_a) } else { (of_a, GROUP * self.all - of_a) }
    }
}

/// Both clouds: a kernel argument. Coordinates are `f32` bits, those of the padding NaN.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Clouds {
    /// The x of each point.
    pub x: In<u32>,
    /// Its y.
    pub y: In<u32>,
    /// Its z.
    pub z: In<u32>,
    /// The x of its normal, which is of length 1, or 0 where unknown.
    pub nx: In<u32>,
    /// The y of its normal.
    pub ny: In<u32>,
    /// The z of its normal.
    pub nz: In<u32>,
    /// Where each cloud stands: [`Motion::WORDS`] words.
    pub motions: In<u64>,
    /// How many points there are.
    pub groups: Groups,
}

/// Where a cloud stands, in the units of its points: a kernel argument.
#[derive(Clone, Copy, PartialEq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Motion {
    /// Rows of the rotation.
    pub rotation: [f64; 9],
    /// Added after it.
    pub translation: [f64; 3],
}
impl Motion {
    /// Words of 64 bits that it takes in device memory.
    pub const WORDS: u32 = 12;
    /// Reads that of a cloud.
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

/// Where both clouds stand: a kernel argument.
#[derive(Clone, Copy, PartialEq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Motions {
    /// Cloud A.
    pub a: Motion,
    /// Cloud B.
    pub b: Motion,
}
