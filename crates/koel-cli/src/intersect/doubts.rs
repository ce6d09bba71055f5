//! What questions the answer: a grid, a density or a surface for which labels and volumes need not
//! be right.
use super::args::MAX_GRID;
use super::load::Loaded;
use koel_spatial::intersect::{Side, Summary};
use koel_spatial::{Grid, PointCloud, Thinness, thinness};

/// Smallest length of a cloud, in voxels, that a grid resolves.
const MIN_SPAN: f64 = 8.0;
/// Smallest thickness of a solid, in voxels.
const MIN_THICKNESS: f64 = 2.0;
/// Points per occupied voxel below which a surface has holes.
const MIN_DENSITY: f64 = 1.5;
/// Share of a surface that may be thinner than a voxel: sharp edges are.
const MAX_THIN: f64 = 0.01;

/// What is known about a cloud before it is labelled.
pub(crate) struct Extent {
    /// Lengths of the box around it, in voxels, the greatest first.
    sides: [f64; 3],
    /// Points outside the grid, and in all.
    outliers: usize,
    points: usize,
    is_mesh: bool,
    thinness: Thinness,
}
impl Extent {
    pub(crate) fn of(loaded: &Loaded, grid: &Grid) -> Extent {
        let (min, max) = (loaded.bounds.min(), loaded.bounds.max());
        let mut sides =
            [0, 1, 2].map(|a| (f64::from(max[a]) - f64::from(min[a])) / grid.voxel_size());
        sides.sort_by(|a, b| b.total_cmp(a));
        let points = loaded.positions().len();
        let (outliers, is_mesh) = (loaded.outliers, loaded.is_mesh());
        Extent { sides, outliers, points, is_mesh, thinness: Thinness::default() }
    }
    /// Measures the thickness of walls along their normals, on the points that are labelled.
    pub(crate) fn measure(&mut self, cloud: &PointCloud, grid: &Grid) {
        self.thinness = thinness(cloud, grid);
    }
}

/// Returns advice for a cloud that needs `resolution` voxels per side.
fn finer(resolution: f64) -> String {
    if resolution <= f64::from(MAX_GRID) {
        return format!("--grid {:.0}", resolution.ceil());
    }
    format!("no grid of up to {MAX_GRID} voxels resolves it; do units of length differ?")
}
/// Returns doubts about both clouds, each with figures and what would help.
pub(crate) fn doubts(
    names: &[String; 2],
    extents: [&Extent; 2],
    grid: &Grid,
    summary: &Summary,
) -> Vec<String> {
    let mut doubts = vec![];
    for ((side, file), extent) in Side::BOTH.into_iter().zip(names).zip(extents) {
        let mut doubt = |text: String| doubts.push(format!("{side}, {file}: {text}"));
        let &Extent { sides, outliers, points, is_mesh, thinness } = extent;
        if outliers > 0 {
            doubt(format!(
                "{outliers} of {points} points lie far from all others and outside the grid, and \
                 were dropped"
            ));
        }
        let n = f64::from(grid.resolution());
        let surface = summary.side(side);
        let is_solid = surface.measures.is_some_and(|measures| !measures.open);
        if sides[0] < MIN_SPAN {
            doubt(format!(
                "its box is {:.2} voxels long, expected at least {MIN_SPAN}: {}",
                sides[0],
                finer(n * MIN_SPAN / sides[0])
            ));
        } else if is_solid && sides[2] < MIN_THICKNESS {
            doubt(format!(
                "its box is {:.2} voxels thick, expected at least {MIN_THICKNESS}: {}",
                sides[2],
                finer(n * MIN_THICKNESS / sides[2])
            ));
        }
        let Thinness { share, thickness, .. } = thinness;
        if share > MAX_THIN {
            doubt(format!(
                "{:.0} % of its surface bounds walls or gaps thinner than a voxel ({thickness:.2} \
                 voxels in mean): labels, areas and volumes are uncertain there; {}",
                100.0 * share,
                finer(n * MIN_THICKNESS / thickness.max(1e-3))
            ));
        }
        let counts = surface.voxels;
        let occupied = counts.unknown + counts.intersection + counts.inside + counts.outside;
        let density =
            surface.points.saturating_sub(surface.dropped) as f64 / occupied.max(1) as f64;
        if !is_mesh && density < MIN_DENSITY {
            // The number of voxels of a surface grows with the square of the resolution.
            doubt(format!(
                "{density:.2} points a voxel, expected at least {MIN_DENSITY}: the surface may \
                 have holes in this grid; --grid {:.0}",
                (n * (density / (2.0 * MIN_DENSITY)).sqrt()).floor().max(8.0)
            ));
        }
    }
    doubts
}
