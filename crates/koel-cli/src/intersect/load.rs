//! From a file to a cloud with normals.
use crate::failure::{Failure, Outcome};
use koel::Device;
use koel_spatial::sample::sample_cloud;
use koel_spatial::{Bounds, Grid, NormalOptions, PointCloud, Scan, estimate_normals};
use std::path::Path;

/// The covering radius of samples in voxels: below one half, no path of empty voxels crosses the surface.
const COVERING_RADIUS: f64 = 0.499_999;

/// A file that was read, and where its points are.
pub struct Loaded {
    scan: Scan,
    /// Around all points.
    pub bounds: Bounds,
}

/// Reads one. Errors: bad input.
pub fn read(path: &Path) -> Outcome<Loaded> {
    let scan = koel_spatial::read(path).map_err(Failure::input)?;
    let bounds = Bounds::of(&scan.points.positions).map_err(|e| in_file(path, e))?;
    Ok(Loaded { scan, bounds })
}
fn in_file(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{}: {error}", path.display()))
}

impl Loaded {
    /// Points with normals: samples of a mesh, dense enough for the grid; the points of a cloud, with estimated normals if it
    /// has none and that was asked for.
    pub fn cloud(self, path: &Path, grid: &Grid, estimate: bool, device: &Device) -> Outcome<PointCloud> {
        if self.scan.is_mesh() {
            let mesh = self.scan.into_mesh().map_err(|e| in_file(path, e))?;
            return sample_cloud(&mesh, COVERING_RADIUS * grid.voxel_size()).map_err(|e| in_file(path, e));
        }
        let mut cloud = self.scan.into_cloud();
        if cloud.normals.is_none() {
            if !estimate {
                return Err(in_file(path, "the points have no normals, expected some, or --estimate-normals"));
            }
            let found = estimate_normals(device, &cloud.positions, &NormalOptions::default());
            cloud.normals = Some(found.map_err(|e| in_file(path, e))?.normals);
        }
        Ok(cloud)
    }
}
