//! From a file to a cloud with normals.
use super::args::Clouds;
use crate::failure::{Failure, Outcome};
use koel::Device;
use koel_spatial::sample::sample_cloud;
use koel_spatial::{Bounds, Grid, NormalOptions, PointCloud, Scan, estimate_normals};
use std::path::Path;

/// The covering radius of samples in voxels: below one half, no path of empty voxels crosses the
/// surface.
const COVERING_RADIUS: f64 = 0.499_999;

/// A file that was read, and where its points are.
pub struct Loaded {
    scan: Scan,
    /// Around all points.
    pub bounds: Bounds,
}

/// Reads both, and puts B where A's coordinates have it. Errors: bad input.
pub fn read_both(clouds: &Clouds) -> Outcome<[Loaded; 2]> {
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
/// What a reader of the report must know of both.
pub fn notes_of_both([a, b]: &[Loaded; 2], clouds: &Clouds) -> Vec<String> {
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
        all.push(format!("units of length differ and are taken for the same: {a} in A, {b} in B"));
    }
    all
}
/// What [`Loaded::cloud`] makes of both.
pub fn clouds(
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

/// What a reader of the report must know of a file that was read.
pub fn notes(path: &Path, scan: &Scan) -> Vec<String> {
    let of_reader = scan.report.notes.iter().map(|note| format!("{}: {note}", path.display()));
    let dropped = scan.report.dropped;
    let points = match dropped {
        0 => None,
        _ => Some(format!(
            "{}: {dropped} points with coordinates or normals that are not finite were dropped",
            path.display()
        )),
    };
    points.into_iter().chain(of_reader).collect()
}

impl Loaded {
    /// Points that the reader dropped since they are not finite.
    pub fn dropped(&self) -> usize {
        self.scan.report.dropped as usize
    }
    /// The points, or the corners of the mesh.
    pub fn positions(&self) -> &[[f32; 3]] {
        &self.scan.points.positions
    }
    /// Points with normals: samples of a mesh, dense enough for the grid; the points of a cloud,
    /// with estimated normals if it has none and that was asked for.
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
                    "the points have no normals, expected some, or --estimate-normals",
                ));
            }
            let found = estimate_normals(device, &cloud.positions, &NormalOptions::default());
            cloud.normals = Some(found.map_err(|e| in_file(path, e))?.normals);
        }
        Ok(cloud)
    }
}
