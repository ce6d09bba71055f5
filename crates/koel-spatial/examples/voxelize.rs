//! Counts the distinct voxel keys of a mesh:
//! `cargo run --release -p koel-spatial --example voxelize -- assets/cortex.ply 256 512 1024`

use std::error::Error;
use std::time::Instant;

use koel_spatial::{Bounds, Grid, Order, mesh_keys, read_mesh};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: voxelize MESH GRID...")?;
    let start = Instant::now();
    let mesh = read_mesh(path)?;
    let (vertices, triangles) = (mesh.positions.len(), mesh.triangles.len());
    println!("{vertices} vertices, {triangles} triangles, read in {:.0?}", start.elapsed());
    let bounds = Bounds::of(&mesh.positions)?;
    for resolution in args {
        let n = resolution.parse()?;
        for (name, grid) in
            [("enclosing", Grid::enclosing(bounds, n)?), ("tight", Grid::tight(bounds, n)?)]
        {
            let start = Instant::now();
            let keys: Vec<u64> = mesh_keys(&mesh, &grid, Order::RowMajor)?;
            println!(
                "{n:>7} {name:>9}: {:>10} distinct keys in {:.0?}",
                keys.len(),
                start.elapsed()
            );
        }
    }
    Ok(())
}
