//! Finds the neighbours of each voxel of a sparse grid: which of the 26 around it are occupied, by
//! id.
//!
//!     cargo run --release --example voxel_neighbours -- [SIDE OF THE GRID, 256 by default]
//!
//! The voxels are those that the surface of a sphere intersects: about 3.8 side^2 of side^3. An
//! [`Index`] assigns an id to each, and back; the queries are the keys of all neighbours.
use koel::{Device, Index};
use std::collections::HashMap;
use std::error::Error;

/// A voxel as a key: 21 bits per coordinate.
fn key([x, y, z]: [i64; 3]) -> u64 {
    (x as u64 & 0x1F_FFFF) | (y as u64 & 0x1F_FFFF) << 21 | (z as u64 & 0x1F_FFFF) << 42
}
/// The 26 steps.
fn steps() -> impl Iterator<Item = [i64; 3]> {
    (0..27).map(|i| [i % 3 - 1, i / 3 % 3 - 1, i / 9 - 1]).filter(|&step| step != [0; 3])
}

fn main() -> Result<(), Box<dyn Error>> {
    let side = std::env::args().nth(1).map_or(Ok(256), |side| side.parse::<i64>())?;
    if !(4..=1 << 20).contains(&side) {
        return Err(format!("a grid of side {side}, expected 4 to 2^20").into());
    }
    let device = Device::best()?;
    let voxels = sphere(side);
    let keys = voxels.iter().map(|&voxel| key(voxel)).collect::<Vec<_>>();
    let index = Index::build(&device, &keys)?;
    // A key beyond the grid is never occupied: coordinates wrap around far away.
    let around = |voxel: &[i64; 3]| {
        let [x, y, z] = *voxel;
        steps().map(move |[i, j, k]| key([x + i, y + j, z + k])).collect::<Vec<_>>()
    };
    let queries = voxels.iter().flat_map(around).collect::<Vec<_>>();
    let neighbours = index.ids(&queries)?;
    let occupied = neighbours.iter().flatten().count();
    println!("{} voxels of {side}^3 on {}", voxels.len(), device.name());
    println!("{:.2} occupied neighbours each", occupied as f64 / voxels.len() as f64);

    // The id of a voxel is its position, as each occurs once.
    let naive = keys.iter().copied().zip(0u32..).collect::<HashMap<_, _>>();
    let right =
        queries.iter().zip(&neighbours).all(|(query, found)| naive.get(query) == found.as_ref());
    let back = index.keys_of(&(0..index.len() as u32).collect::<Vec<_>>())?;
    if !right || !back.into_iter().eq(keys.into_iter().map(Some)) {
        return Err("the neighbours differ from those of a naive map".into());
    }
    println!("the same as in a naive map");
    Ok(())
}
/// Returns the voxels with corners on both sides of a sphere, each once.
fn sphere(side: i64) -> Vec<[i64; 3]> {
    let (centre, radius) = (side as f64 / 2.0, side as f64 * 0.45);
    let mut voxels = vec![];
    for z in 0..side {
        for y in 0..side {
            // A row crosses the surface at most twice, near the crossings of its middle line.
            let far = |v: i64| (v as f64 + 0.5 - centre).abs();
            let rest = (radius + 1.0).powi(2) - far(y).powi(2) - far(z).powi(2);
            if rest < 0.0 {
                continue;
            }
            let reach = rest.sqrt() + 1.0;
            let inner =
                ((radius - 1.0).powi(2) - far(y).powi(2) - far(z).powi(2)).max(0.0).sqrt() - 1.0;
            for x in (centre - reach).max(0.0) as i64..((centre + reach) as i64 + 1).min(side) {
                if far(x) >= inner && crosses([x, y, z], centre, radius) {
                    voxels.push([x, y, z]);
                }
            }
        }
    }
    voxels
}
fn crosses(voxel: [i64; 3], centre: f64, radius: f64) -> bool {
    let (mut inside, mut outside) = (false, false);
    for corner in 0..8 {
        let at = |axis: usize| (voxel[axis] + (corner >> axis & 1)) as f64 - centre;
        let is_inside = at(0).powi(2) + at(1).powi(2) + at(2).powi(2) < radius * radius;
        inside |= is_inside;
        outside |= !is_inside;
    }
    inside && outside
}
