//! Host code.
use crate::kernels::neighbour_sums;
use koel::device::Apart;
use koel::{Device, Error, Map, Result, Stream, View, ViewMut};

/// GPU code of this crate's kernels, as PTX.
pub const PTX: [(u32, &str); 2] =
    [(90, include_str!("../ptx/sm_90.ptx")), (75, include_str!("../ptx/sm_75.ptx"))];

/// Loads this crate's kernels onto a device. Repeated calls are harmless.
pub fn load(device: &Device) -> Result<()> {
    device.load_kernels(&PTX)
}

/// Computes `sums[i]`, the sum of the values of the up to six neighbours of `voxels[i]` in the map.
///
/// Needs one launch, on a device that [`load`] was called for; allocates nothing, and can be part
/// of a graph. Fails if lengths differ or a buffer is on another device.
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
    let _apart = Apart::begin();
    let table = map.table(stream)?;
    let (voxels, sums) = (voxels.arg("voxels", stream)?, sums.arg("sums", stream)?);
    let grid = n.div_ceil(neighbour_sums::SPEC.threads);
    // SAFETY: the kernel reads `n` voxels and writes `n` sums; the table is the map's.
    unsafe { neighbour_sums::launch(stream, grid, table, n, voxels, sums) }
}
