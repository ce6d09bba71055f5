//! Device code.
use koel_kernels::map::find::MapRef;
use koel_kernels::table::layout::Narrow;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Bits per voxel coordinate: x is the lowest ten bits of the key, then y, then z.
pub const BITS: u32 = 10;
const LAST: u32 = (1 << BITS) - 1;

/// Computes `sums[i]`, the wrapping sum of the values of those of the six voxels adjacent to
/// `voxels[i]` that are in the table.
#[kernel(threads = 256, independent, starts_early)]
pub fn neighbour_sums(t: Thread, table: MapRef<Narrow>, n: u32, voxels: In<u32>, sums: Buf<u32>) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i >= n {
        return;
    }
    let voxel = voxels.get_stream(i);
    let mut sum = 0u32;
    unroll::<3>(|axis| {
        let shift = axis as u32 * BITS;
        let (at, step) = (voxel >> shift & LAST, 1 << shift);
        if at != 0 {
            sum = sum.wrapping_add(table.get(voxel.wrapping_sub(step)).unwrap_or(0));
        }
        if at != LAST {
            sum = sum.wrapping_add(table.get(voxel.wrapping_add(step)).unwrap_or(0));
        }
    });
    sums.store_stream(i, sum);
}
