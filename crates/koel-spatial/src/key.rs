//! Voxel coordinates packed into one integer.
//!
//! A 32-bit key holds 10 bits per axis (grids up to 1024), a 64-bit key 21 bits per axis (grids up
//! to 2^21).

use std::fmt::Debug;

use thiserror::Error;

/// Reason why coordinates do not fit a key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The grid is finer than the key can represent.
    #[error(
        "a grid of {resolution} voxels per side does not fit a {key_bits}-bit key: expected at \
         most {limit}"
    )]
    Resolution {
        /// Requested voxels per side.
        resolution: u32,
        /// Width of the key.
        key_bits: u32,
        /// Maximum number of voxels per side.
        limit: u32,
    },
    /// A coordinate needs more bits than the key has per axis.
    #[error("voxel coordinate {axis} = {value} does not fit a {key_bits}-bit key: \
             expected less than {limit}",
        axis = crate::vector::axis_name(*.axis))]
    Coordinate {
        /// 0, 1, 2 for x, y, z.
        axis: usize,
        /// The coordinate.
        value: u32,
        /// Width of the key.
        key_bits: u32,
        /// Smallest value that does not fit.
        limit: u32,
    },
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// An integer that can hold a voxel's coordinates: `u32` or `u64`.
pub trait VoxelKey: sealed::Sealed + Copy + Default + Ord + Debug + Send + Sync + 'static {
    /// Bits of the key.
    const BITS: u32;
    /// Bits per coordinate.
    const AXIS_BITS: u32;
    /// Builds a key from the low bits of a word.
    #[doc(hidden)]
    fn from_word(word: u64) -> Self;
    /// Widens the key to 64 bits.
    #[doc(hidden)]
    fn to_word(self) -> u64;

    /// Checks that every voxel of a grid has a key.
    ///
    /// # Errors
    /// [`KeyError::Resolution`] above 2^`AXIS_BITS` voxels per side.
    fn check_resolution(resolution: u32) -> Result<(), KeyError> {
        let limit = 1 << Self::AXIS_BITS;
        if resolution > limit {
            return Err(KeyError::Resolution { resolution, key_bits: Self::BITS, limit });
        }
        Ok(())
    }
}

impl VoxelKey for u32 {
    const BITS: u32 = 32;
    const AXIS_BITS: u32 = 10;
    fn from_word(word: u64) -> Self {
        word as u32
    }
    fn to_word(self) -> u64 {
        u64::from(self)
    }
}

impl VoxelKey for u64 {
    const BITS: u32 = 64;
    const AXIS_BITS: u32 = 21;
    fn from_word(word: u64) -> Self {
        word
    }
    fn to_word(self) -> u64 {
        self
    }
}

/// Bit layout of x, y and z in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// x, then y, then z: `x << 20 | y << 10 | z` in 32 bits, `x << 42 | y << 21 | z` in 64.
    RowMajor,
    /// Interleaved bits (G. M. Morton 1966): bit b of x, y, z goes to bits 3b+2, 3b+1, 3b. Voxels
    /// close in space have keys close in value.
    Morton,
}

impl Order {
    /// Returns the key of a voxel.
    ///
    /// # Errors
    /// [`KeyError::Coordinate`] for a coordinate of 2^10 (`u32`) or 2^21 (`u64`) and above.
    pub fn encode<K: VoxelKey>(self, voxel: [u32; 3]) -> Result<K, KeyError> {
        let limit = 1 << K::AXIS_BITS;
        for (axis, &value) in voxel.iter().enumerate() {
            if value >= limit {
                return Err(KeyError::Coordinate { axis, value, key_bits: K::BITS, limit });
            }
        }
        Ok(self.pack(voxel))
    }

    /// Packs a voxel that is known to fit.
    pub(crate) fn pack<K: VoxelKey>(self, voxel: [u32; 3]) -> K {
        let [x, y, z] = voxel.map(u64::from);
        K::from_word(match self {
            Order::RowMajor => x << (2 * K::AXIS_BITS) | y << K::AXIS_BITS | z,
            Order::Morton => spread(x) << 2 | spread(y) << 1 | spread(z),
        })
    }

    /// Returns the voxel of a key. Ignores the bits that no coordinate uses (the top 2 of 32, the
    /// top 1 of 64).
    pub fn decode<K: VoxelKey>(self, key: K) -> [u32; 3] {
        let (word, mask) = (key.to_word(), (1 << K::AXIS_BITS) - 1);
        let coordinates = match self {
            Order::RowMajor => [word >> (2 * K::AXIS_BITS), word >> K::AXIS_BITS, word],
            Order::Morton => [gather(word >> 2), gather(word >> 1), gather(word)],
        };
        coordinates.map(|c| (c & mask) as u32)
    }
}

/// Masks of the 21 bits after each step of spreading, in groups of 16, 8, 4, 2 and 1 bits.
const GROUPS: [(u32, u64); 5] = [
    (32, 0x001f_0000_0000_ffff),
    (16, 0x001f_0000_ff00_00ff),
    (8, 0x100f_00f0_0f00_f00f),
    (4, 0x10c3_0c30_c30c_30c3),
    (2, 0x1249_2492_4924_9249),
];

/// Inserts two zero bits above each of the low 21 bits.
fn spread(mut bits: u64) -> u64 {
    for (shift, mask) in GROUPS {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Collects every third bit, starting at bit 0. Inverse of [`spread`].
fn gather(mut bits: u64) -> u64 {
    bits &= GROUPS[4].1;
    for i in (0..5).rev() {
        let mask = if i == 0 { 0x1f_ffff } else { GROUPS[i - 1].1 };
        bits = (bits | bits >> GROUPS[i].0) & mask;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Morton key computed bit by bit from the definition.
    fn morton_by_bits(voxel: [u32; 3]) -> u64 {
        (0..21).fold(0, |key, b| {
            (0..3).fold(key, |key, axis| {
                key | u64::from(voxel[axis] >> b & 1) << (3 * b + 2 - axis as u32)
            })
        })
    }

    #[test]
    fn layouts_are_as_documented() {
        assert_eq!(Order::RowMajor.encode::<u32>([1, 2, 3]), Ok(1 << 20 | 2 << 10 | 3));
        assert_eq!(Order::RowMajor.encode::<u64>([1, 2, 3]), Ok(1 << 42 | 2 << 21 | 3));
        assert_eq!(Order::Morton.encode::<u32>([1, 0, 0]), Ok(4));
        assert_eq!(Order::Morton.encode::<u64>([0, 2, 1]), Ok(0b010_001));
        assert_eq!(Order::Morton.encode::<u64>([(1 << 21) - 1; 3]), Ok((1 << 63) - 1));
        assert_eq!(Order::RowMajor.encode::<u32>([1023; 3]), Ok((1 << 30) - 1));
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let error = Order::Morton.encode::<u32>([0, 1024, 0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "voxel coordinate y = 1024 does not fit a 32-bit key: expected less than 1024"
        );
        assert!(Order::RowMajor.encode::<u64>([0, 0, 1 << 21]).is_err());
        assert_eq!(u32::check_resolution(1024), Ok(()));
        assert_eq!(
            u32::check_resolution(1025),
            Err(KeyError::Resolution { resolution: 1025, key_bits: 32, limit: 1024 })
        );
        assert_eq!(u64::check_resolution(1 << 21), Ok(()));
        assert!(u64::check_resolution((1 << 21) + 1).is_err());
    }

    proptest! {
        #[test]
        fn narrow_keys_round_trip(voxel in proptest::array::uniform3(0u32..1024)) {
            for order in [Order::RowMajor, Order::Morton] {
                let key: u32 = order.encode(voxel).unwrap();
                prop_assert_eq!(order.decode(key), voxel);
                prop_assert_eq!(order.decode(key | 3 << 30), voxel);
            }
            prop_assert_eq!(
                u64::from(Order::Morton.encode::<u32>(voxel).unwrap()),
                morton_by_bits(voxel)
            );
        }

        #[test]
        fn wide_keys_round_trip(voxel in proptest::array::uniform3(0u32..1 << 21)) {
            for order in [Order::RowMajor, Order::Morton] {
                let key: u64 = order.encode(voxel).unwrap();
                prop_assert_eq!(order.decode(key), voxel);
                prop_assert_eq!(order.decode(key | 1 << 63), voxel);
            }
            prop_assert_eq!(Order::Morton.encode::<u64>(voxel).unwrap(), morton_by_bits(voxel));
        }
    }
}
