//! Cells of the coordinate plane: the keys of the table.
use crate::basis::{Point, PointBasis};
use crate::options::{PaperOptions, Partition};
use koel::{Buffer, Device, Stream};
use koel_classic_kernels::matcher::{self as kernel, CellsIn};
use koel_vision::Freedom;
use koel_vision::synthetic::Random;

/// Unit of the width of cells for rigid maps, in pixels.
const RIGID_UNIT: f32 = 60.0;
/// Strips per axis, and nodes per side of the elastic grid.
const SIDE: usize = 48;
/// Number of points for training an irregular partition.
const SAMPLES: usize = 20_000;

/// Cells of a partition.
pub(crate) struct Cells {
    /// Cells per unit.
    scale: f32,
    shape: CellShape,
}
enum CellShape {
    Uniform,
    /// Upper ends of the strips.
    Transfer {
        u: Vec<f32>,
        v: Vec<f32>,
    },
    /// Positions of the nodes, row by row.
    Elastic {
        nodes: Vec<Point>,
    },
}

impl Cells {
    /// Builds cells for the coordinates of a model.
    pub(crate) fn of(
        options: &PaperOptions,
        points: &[Point],
        bases: &[PointBasis],
        random: &mut Random,
    ) -> Cells {
        let freedom = options.freedom;
        let unit = if freedom == Freedom::Rigid { RIGID_UNIT } else { 1.0 };
        let scale = 1.0 / (options.cell * unit);
        let mut sample = || {
            let basis = bases.get(random.below(bases.len()))?;
            let others = basis.coordinates(points, freedom, options.reach).collect::<Vec<_>>();
            others.get(random.below(others.len())).copied()
        };
        let shape = match options.partition {
            Partition::Uniform => CellShape::Uniform,
            Partition::Transfer => {
                let (mut u, mut v): (Vec<f32>, Vec<f32>) =
                    (0..SAMPLES).filter_map(|_| sample()).unzip();
                let ends = |of: &mut Vec<f32>| {
                    of.sort_by(f32::total_cmp);
                    (1..SIDE).filter_map(|i| of.get(i * of.len() / SIDE).copied()).collect()
                };
                CellShape::Transfer { u: ends(&mut u), v: ends(&mut v) }
            }
            Partition::Elastic => {
                let samples = (0..SAMPLES).filter_map(|_| sample()).collect::<Vec<Point>>();
                CellShape::Elastic { nodes: learnt(&samples) }
            }
        };
        Cells { scale, shape }
    }
    /// Returns the key of a point; `None` if it is out of range.
    pub(crate) fn key(&self, at: Point) -> Option<u32> {
        let cell = match &self.shape {
            CellShape::Uniform => kernel::square(self.scale, at),
            CellShape::Transfer { u, v } => {
                let strip = |of: &[f32], at| kernel::strip(of.len() as u32, |i| of[i as usize], at);
                (strip(u, at.0), strip(v, at.1))
            }
            CellShape::Elastic { nodes } => {
                let nearest = nearest(nodes, at) as usize;
                ((nearest % SIDE) as i32, (nearest / SIDE) as i32)
            }
        };
        let finite = at.0.is_finite() && at.1.is_finite();
        Some(kernel::key_of(cell)).filter(|key| finite && *key != kernel::NO_CELL)
    }
    /// Returns the keys of the point's cell and of its eight neighbours.
    pub(crate) fn around(&self, at: Point) -> impl Iterator<Item = u32> + use<> {
        self.key(at).into_iter().flat_map(|key| (0..9).map(move |k| kernel::neighbour(key, k)))
    }
    /// Uploads the partition.
    pub(crate) fn upload(&self, device: &Device) -> koel::Result<DeviceCells> {
        let bits = |of: &[f32]| of.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        let (partition, us, vs) = match &self.shape {
            CellShape::Uniform => (kernel::partition::SQUARES, vec![], vec![]),
            CellShape::Transfer { u, v } => (kernel::partition::STRIPS, bits(u), bits(v)),
            CellShape::Elastic { nodes } => {
                let (us, vs) = nodes.iter().copied().unzip::<f32, f32, Vec<f32>, Vec<f32>>();
                (kernel::partition::NODES, bits(&us), bits(&vs))
            }
        };
        let (us, vs) = (device.upload(&us)?, device.upload(&vs)?);
        Ok(DeviceCells { partition, cells_per_unit: self.scale, us, vs })
    }
}

/// Cells of a partition in device memory.
pub(crate) struct DeviceCells {
    partition: u32,
    cells_per_unit: f32,
    us: Buffer<u32>,
    vs: Buffer<u32>,
}
impl DeviceCells {
    /// Returns the partition as a kernel argument.
    pub(crate) fn arg(&self, stream: &Stream) -> koel::Result<CellsIn> {
        Ok(CellsIn {
            partition: self.partition,
            cells_per_unit: self.cells_per_unit,
            us: self.us.view().arg("us", stream)?,
            vs: self.vs.view().arg("vs", stream)?,
            us_len: self.us.len() as u32,
            vs_len: self.vs.len() as u32,
            side: SIDE as u32,
        })
    }
}

fn nearest(nodes: &[Point], at: Point) -> u32 {
    kernel::nearest(nodes.len() as u32, |i| nodes[i as usize], at)
}

/// Trains a grid of nodes on the samples: each sample pulls the nearest node and, with decreasing
/// strength, its neighbours in the grid.
fn learnt(samples: &[Point]) -> Vec<Point> {
    let spread = |of: fn(&Point) -> f32| {
        let mut values = samples.iter().map(of).collect::<Vec<f32>>();
        values.sort_by(f32::total_cmp);
        let at = |part: usize| values.get(values.len() * part / 20).copied().unwrap_or_default();
        (at(1), at(19))
    };
    let (us, vs) = (spread(|p| p.0), spread(|p| p.1));
    let between =
        |(low, high): (f32, f32), i: usize| low + (high - low) * i as f32 / (SIDE - 1) as f32;
    let mut nodes = (0..SIDE * SIDE)
        .map(|i| (between(us, i % SIDE), between(vs, i / SIDE)))
        .collect::<Vec<Point>>();
    for (t, &(u, v)) in samples.iter().enumerate() {
        let rest = 1.0 - t as f32 / samples.len() as f32;
        let (pull, reach) = (0.02 + 0.4 * rest, 0.7 + 0.1 * SIDE as f32 * rest * rest);
        let winner = nearest(&nodes, (u, v)) as usize;
        let (column, row) = ((winner % SIDE) as i32, (winner / SIDE) as i32);
        let window = (2.5 * reach).ceil() as i32;
        for y in (row - window).max(0)..=(row + window).min(SIDE as i32 - 1) {
            for x in (column - window).max(0)..=(column + window).min(SIDE as i32 - 1) {
                let distance2 = ((x - column).pow(2) + (y - row).pow(2)) as f32;
                let pull = pull * (-distance2 / (2.0 * reach * reach)).exp();
                let node = &mut nodes[y as usize * SIDE + x as usize];
                *node = (node.0 + pull * (u - node.0), node.1 + pull * (v - node.1));
            }
        }
    }
    nodes
}
