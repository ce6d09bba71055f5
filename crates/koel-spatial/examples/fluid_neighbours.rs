//! Neighbours of fluid particles, as smoothed-particle hydrodynamics needs them in every step.
//! Finds all particles within the smoothing radius of each particle of a collapsing column of
//! water, and checks every pair against a naive grid. `cargo run --release -p koel-spatial
//! --example fluid_neighbours -- [PARTICLES, 1000000 by default]`

use std::collections::HashMap;
use std::error::Error;
use std::time::Instant;

use koel::{Buffer, Device};
use koel_spatial::SpatialHash;
use rayon::prelude::*;

/// Smoothing radius in units of the rest distance between particles: about 33 neighbours.
const RADIUS: f64 = 2.0;

fn main() -> Result<(), Box<dyn Error>> {
    let n = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse::<usize>())?;
    let particles = column_of_water(n);
    let device = Device::best()?;
    let stream = device.stream()?;
    println!("{n} particles on {}", device.name());

    let positions: Buffer<u32> = device.upload(bytemuck::cast_slice(&particles))?;
    // The first run warms up.
    for run in ["cold", "warm", "warm"] {
        let (hash, build) =
            stream.time(|| Ok(SpatialHash::build_on(&stream, positions.view(), RADIUS)))?;
        let hash = hash?;
        let (neighbours, search) =
            stream.time(|| Ok(hash.within_on(&stream, positions.view(), RADIUS)))?;
        let pairs = neighbours?.1.len();
        println!(
            "{run}: built in {:.1} ms ({:.1} M particles/s, {} cells occupied), {pairs} \
             neighbours in {:.1} ms ({:.1} M particles/s, {:.0} M neighbours/s)",
            1e3 * build,
            1e-6 * n as f64 / build,
            hash.occupied_cells(),
            1e3 * search,
            1e-6 * n as f64 / search,
            1e-6 * pairs as f64 / search,
        );
    }

    let hash = SpatialHash::build(&device, &particles, RADIUS)?;
    let neighbours = hash.within(&particles, RADIUS)?;
    let start = Instant::now();
    let grid = NaiveGrid::new(&particles);
    let wrong = (0..n)
        .into_par_iter()
        .filter(|&i| {
            let mut ours = neighbours.of(i).to_vec();
            ours.sort_unstable();
            ours != grid.neighbours(&particles, i)
        })
        .count();
    let seconds = start.elapsed().as_secs_f64();
    println!("naive grid on {} threads: {:.1} ms", rayon::current_num_threads(), 1e3 * seconds);
    if wrong > 0 {
        return Err(format!("{wrong} of {n} particles have wrong neighbours").into());
    }
    println!("all {} neighbours are right", neighbours.total());
    Ok(())
}

/// Returns a column twice as high as wide, jittered, with a tenth of the particles as spray above.
fn column_of_water(n: usize) -> Vec<[f32; 3]> {
    let mut state = 1u64;
    let mut unit = move || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let spray = n / 10;
    let side = ((n - spray) as f64 / 2.0).cbrt().ceil().max(1.0) as usize;
    let half = 0.5 * side as f32;
    let column =
        (0..n - spray).map(|i| [i % side, i / side % side, i / side / side].map(|c| c as f32));
    let mut particles: Vec<[f32; 3]> =
        column.map(|[x, y, z]| [x - half + unit(), y - half + unit(), z + unit()]).collect();
    particles.extend(
        (0..spray).map(|_| {
            [4.0 * half * (unit() - 0.5), 4.0 * half * (unit() - 0.5), 5.0 * half * unit()]
        }),
    );
    particles
}

/// Lists of particles in a standard-library map, searched cell by cell.
struct NaiveGrid(HashMap<[i64; 3], Vec<u32>>);

impl NaiveGrid {
    fn new(particles: &[[f32; 3]]) -> NaiveGrid {
        let mut cells: HashMap<_, Vec<u32>> = HashMap::new();
        particles.iter().zip(0..).for_each(|(&p, i)| cells.entry(cell(p)).or_default().push(i));
        NaiveGrid(cells)
    }
    /// Returns the neighbours in ascending order.
    fn neighbours(&self, particles: &[[f32; 3]], i: usize) -> Vec<u32> {
        let (p, [x, y, z]) = (particles[i], cell(particles[i]));
        let around = (-1..=1)
            .flat_map(|a| (-1..=1).flat_map(move |b| (-1..=1).map(move |c| [x + a, y + b, z + c])));
        let near = |&j: &u32| squared_distance(particles[j as usize], p) <= RADIUS * RADIUS;
        let lists = around.filter_map(|cell| self.0.get(&cell));
        let mut found: Vec<u32> = lists.flatten().copied().filter(near).collect();
        found.sort_unstable();
        found
    }
}

fn cell(p: [f32; 3]) -> [i64; 3] {
    p.map(|c| (f64::from(c) / RADIUS).floor() as i64)
}

fn squared_distance(a: [f32; 3], b: [f32; 3]) -> f64 {
    a.iter().zip(b).map(|(&a, b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
}
