//! Reads a file into a cloud with normals.
use super::args::Clouds;
use crate::failure::{Failure, Outcome};
use koel::Device;
use koel_spatial::sample::sample_cloud;
use koel_spatial::{Bounds, Grid, NormalOptions, PointCloud, Scan, estimate_normals};
use std::path::Path;

/// Covering radius of samples, in voxels. Below one half, no path of empty voxels crosses the
/// surface.
const COVERING_RADIUS: f64 = 0.499_999;

/// A scan that was read, and its bounds.
pub(crate) struct Loaded {
    scan: Scan,
    /// Bounds of all points.
    pub bounds: Bounds,
}

/// Reads both files and shifts B to A's origin. Errors: bad input.
pub(crate) fn read_both(clouds: &Clouds) -> Outcome<[Loaded; 2]> {
    let [a, mut b] = [read(&clouds.a)?, read(&clouds.b)?];
    b.set_origin(a.report.origin);
    Ok([loaded(&clouds.a, a)?, loaded(&clouds.b, b)?])
}
fn read(path: &Path) -> Outcome<Scan> {
    koel_spatial::read(path).map_err(Failure::input)
}
fn loaded(path: &Path, scan: Scan) -> Outcome<Loaded> {
    let bounds = Bounds::of(&scan.points.positions).map_err(|e| in_file(path, e))?;
    Ok(Loaded { scan, bounds })
}
/// Returns the notes on both files for the report.
pub(crate) fn notes_of_both([a, b]: &[Loaded; 2], clouds: &Clouds) -> Vec<String> {
    let mut all = [notes(&clouds.a, &a.scan), notes(&clouds.b, &b.scan)].concat();
    let origin = a.scan.report.origin;
    if origin != [0.0; 3] {
        all.push(format!(
            "coordinates are relative to {origin:?}, the origin of {}",
            clouds.a.display()
        ));
    }
    if let [Some(a), Some(b)] = [&a.scan.report.unit, &b.scan.report.unit]
        && a != b
    {
        all.push(format!("units of length differ but are treated as equal: {a} in A, {b} in B"));
    }
    all
}
/// Applies [`Loaded::cloud`] to both.
pub(crate) fn clouds(
    [a, b]: [Loaded; 2],
    clouds: &Clouds,
    grid: &Grid,
    device: &Device,
) -> Outcome<[PointCloud; 2]> {
    let estimate = clouds.estimate_normals;
    Ok([a.cloud(&clouds.a, grid, estimate, device)?, b.cloud(&clouds.b, grid, estimate, device)?])
}
fn in_file(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{}: {error}", path.display()))
}

/// Returns the notes on one file for the report.
pub(crate) fn notes(path: &Path, scan: &Scan) -> Vec<String> {
    let of_reader = scan.report.notes.iter().map(|note| format!("{}: {note}", path.display()));
    let dropped = scan.report.dropped;
    let points = match dropped {
        0 => None,
        _ => Some(format!(
            "{}: {dropped} points with non-finite coordinates or normals were dropped",
            path.display()
        )),
    };
    points.into_iter().chain(of_reader).collect()
}

impl Loaded {
    /// Returns the number of points that the reader dropped as not finite.
    pub(crate) fn dropped(&self) -> usize {
        self.scan.report.dropped as usize
    }
    /// Returns the points, or the corners of the mesh.
    pub(crate) fn positions(&self) -> &[[f32; 3]] {
        &self.scan.points.positions
    }
    /// Returns points with normals: samples of a mesh, dense enough for the grid, or the points of
    /// a cloud. Estimates missing normals if `estimate` is set.
    fn cloud(
        self,
        path: &Path,
        grid: &Grid,
        estimate: bool,
        device: &Device,
    ) -> Outcome<PointCloud> {
        if self.scan.is_mesh() {
            let mesh = self.scan.into_mesh().map_err(|e| in_file(path, e))?;
            return sample_cloud(&mesh, COVERING_RADIUS * grid.voxel_size())
                .map_err(|e| in_file(path, e));
        }
        let mut cloud = self.scan.into_cloud();
        if cloud.normals.is_none() {
            if !estimate {
                return Err(in_file(
                    path,
                    "the points have no normals, expected normals, or --estimate-normals",
                ));
            }
            let found = estimate_normals(device, &cloud.positions, &NormalOptions::default());
            cloud.normals = Some(found.map_err(|e| in_file(path, e))?.normals);
        }
        Ok(cloud)
    }
}
