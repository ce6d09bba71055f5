//! The host's half.
use crate::kernels::neighbour_sums;
use koel::{Device, Error, Map, Result, Stream, View, ViewMut};

/// The kernels of this crate, for GPUs.
pub const PTX: [(u32, &str); 2] =
    [(90, include_str!("../ptx/sm_90.ptx")), (75, include_str!("../ptx/sm_75.ptx"))];

/// Makes this crate's kernels known to a device. Once is enough; again is no error.
pub fn load(device: &Device) -> Result<()> {
    device.load_kernels(&PTX)
}

/// `sums[i]` = the values of the up to six neighbours of `voxels[i]` in the map, added up.
///
/// One launch, on a device that [`load`] was called for; allocates nothing, and can be part of a
/// graph. Errors: lengths that differ, buffers of another device.
pub fn sum_neighbours(
    stream: &Stream,
    map: &Map,
    voxels: View<'_, u32>,
    mut sums: ViewMut<'_, u32>,
) -> Result<()> {
    if sums.len() != voxels.len() {
        let (found, expected) = (sums.len(), voxels.len());
        return Err(Error::Length { name: "sums", found, other: "voxels", expected });
    }
    let too_many = |_| Error::TooMany { what: "voxels", n: voxels.len(), max: u32::MAX as usize };
    let n = u32::try_from(voxels.len()).map_err(too_many)?;
    let table = map.table(stream)?;
    let (voxels, sums) = (voxels.arg("voxels", stream)?, sums.arg("sums", stream)?);
    let grid = n.div_ceil(neighbour_sums::SPEC.threads);
    // SAFETY: `n` voxels are read and `n` sums written; the table is the map's.
    unsafe { neighbour_sums::launch(stream, grid, table, n, voxels, sums) }
}
