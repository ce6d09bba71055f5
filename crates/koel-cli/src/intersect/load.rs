//! Reads a file into a cloud with normals.
use super::args::Clouds;
use crate::failure::{Failure, Outcome};
use koel::Device;
use koel_spatial::sample::sample_cloud;
use koel_spatial::{
    Bounds, Grid, Mesh, NormalOptions, PointCloud, Scan, cloud_orientation, estimate_normals,
    mesh_orientation,
};
use std::path::Path;

/// Covering radius of samples, in voxels. Below one half, no path of empty voxels crosses the
/// surface.
const COVERING_RADIUS: f64 = 0.499_999;

/// A scan that was read, and its bounds.
pub(crate) struct Loaded {
    scan: Scan,
    /// Bounds of all points but outliers.
    pub bounds: Bounds,
    /// Points of a cloud that are far from all others.
    pub outliers: usize,
}

/// Reads both files, relative to `origin`, or to one that both share. Errors: bad input.
pub(crate) fn read_both(clouds: &Clouds, origin: Option<[f64; 3]>) -> Outcome<[Loaded; 2]> {
    let [mut a, mut b] = [read(&clouds.a)?, read(&clouds.b)?];
    let own = a.report.origin;
    let origin = origin.unwrap_or(if own == [0.0; 3] { b.report.origin } else { own });
    a.set_origin(origin);
    b.set_origin(origin);
    Ok([loaded(&clouds.a, a)?, loaded(&clouds.b, b)?])
}
/// Reads a file, relative to an origin. Errors: bad input.
pub(crate) fn read_one(path: &Path, origin: [f64; 3]) -> Outcome<Loaded> {
    let mut scan = read(path)?;
    scan.set_origin(origin);
    loaded(path, scan)
}
fn read(path: &Path) -> Outcome<Scan> {
    koel_spatial::read(path).map_err(Failure::input)
}
fn loaded(path: &Path, scan: Scan) -> Outcome<Loaded> {
    let positions = &scan.points.positions;
    let found = match scan.is_mesh() {
        true => Bounds::of(positions).map(|bounds| (bounds, 0)),
        false => Bounds::without_outliers(positions),
    };
    let (bounds, outliers) = found.map_err(|e| in_file(path, e))?;
    Ok(Loaded { scan, bounds, outliers })
}
/// Returns the notes on both files for the report.
pub(crate) fn notes_of_both([a, b]: &[Loaded; 2], clouds: &Clouds) -> Vec<String> {
    let mut all = [notes(&clouds.a, &a.scan), notes(&clouds.b, &b.scan)].concat();
    if let [Some(a), Some(b)] = [&a.scan.report.unit, &b.scan.report.unit]
        && a != b
    {
        all.push(format!("units of length differ but are treated as equal: {a} in A, {b} in B"));
    }
    all
}
/// Notes on a surface.
#[derive(Default)]
pub(crate) struct Notes {
    /// What was changed.
    pub changes: Vec<String>,
    /// What questions the answer.
    pub doubts: Vec<String>,
}

/// Applies [`Loaded::cloud`] to both. Also returns notes on their orientation.
pub(crate) fn clouds(
    [a, b]: [Loaded; 2],
    clouds: &Clouds,
    grid: &Grid,
    device: &Device,
) -> Outcome<([PointCloud; 2], Notes)> {
    let estimate = clouds.estimate_normals;
    let ((a, mut notes), (b, of_b)) =
        (a.cloud(&clouds.a, grid, estimate, device)?, b.cloud(&clouds.b, grid, estimate, device)?);
    notes.changes.extend(of_b.changes);
    notes.doubts.extend(of_b.doubts);
    Ok(([a, b], notes))
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
    /// Returns whether the file holds faces.
    pub(crate) fn is_mesh(&self) -> bool {
        self.scan.is_mesh()
    }
    /// Returns what the positions are relative to.
    pub(crate) fn origin(&self) -> [f64; 3] {
        self.scan.report.origin
    }
    /// Returns the points, or the corners of the mesh.
    pub(crate) fn positions(&self) -> &[[f32; 3]] {
        &self.scan.points.positions
    }
    /// Returns points with normals: samples of a mesh, dense enough for the grid, or the points of
    /// a cloud. Estimates missing normals if `estimate` is set. Turns a surface that is certainly
    /// inside out, and notes it.
    ///
    /// Errors: no normals, or none with a direction.
    fn cloud(
        self,
        path: &Path,
        grid: &Grid,
        estimate: bool,
        device: &Device,
    ) -> Outcome<(PointCloud, Notes)> {
        if self.scan.is_mesh() {
            let mut mesh = self.scan.into_mesh().map_err(|e| in_file(path, e))?;
            let notes = orient_mesh(path, &mut mesh);
            let samples = sample_cloud(&mesh, COVERING_RADIUS * grid.voxel_size());
            return Ok((samples.map_err(|e| in_file(path, e))?, notes));
        }
        let mut cloud = self.scan.into_cloud();
        if estimate && has_no_direction(&cloud) {
            cloud.normals = None;
        }
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
        let notes = orient_cloud(path, &mut cloud)?;
        Ok((cloud, notes))
    }
}

/// Returns whether a cloud has normals, none of which has a direction.
fn has_no_direction(cloud: &PointCloud) -> bool {
    let of_cloud = cloud_orientation(cloud);
    of_cloud.is_some_and(|found| found.without_direction == cloud.positions.len())
}
/// Turns the faces of a closed mesh that is inside out. Returns notes on its orientation.
fn orient_mesh(path: &Path, mesh: &mut Mesh) -> Notes {
    let mut notes = Notes::default();
    let found = mesh_orientation(mesh);
    let (file, volume) = (path.display(), found.volume);
    if found.is_inside_out() {
        mesh.triangles.iter_mut().for_each(|[_, b, c]| std::mem::swap(b, c));
        notes.changes.push(format!(
            "{file}: the faces point inward (signed volume {volume:.6e}): all were turned"
        ));
    }
    if found.opposed_edges > 0 {
        notes.doubts.push(format!(
            "{file}: neighbouring faces disagree about the outside at {} edges: labels and \
             volumes are uncertain",
            found.opposed_edges
        ));
    }
    if found.crowded_edges > 0 {
        notes.doubts.push(format!(
            "{file}: {} edges belong to more than two faces: where faces are two-sided, they \
             cancel each other, and labels and volumes are uncertain",
            found.crowded_edges
        ));
    }
    notes
}
/// Turns the normals of a closed cloud that point inward. Returns notes on its orientation. Errors:
/// no normal has a direction.
fn orient_cloud(path: &Path, cloud: &mut PointCloud) -> Outcome<Notes> {
    let mut notes = Notes::default();
    let Some(found) = cloud_orientation(cloud) else { return Ok(notes) };
    let (file, points, none) = (path.display(), cloud.positions.len(), found.without_direction);
    if none == points {
        return Err(in_file(
            path,
            format!("all {points} normals are zero, expected directions, or --estimate-normals"),
        ));
    }
    if none > 0 {
        notes.doubts.push(format!("{file}: {none} of {points} normals are zero and say nothing"));
    }
    if found.is_inside_out() {
        let normals = cloud.normals.iter_mut().flatten();
        normals.for_each(|normal| *normal = normal.map(|c| -c));
        notes.changes.push(format!(
            "{file}: the normals point inward ({:.0} % of the mean distance to the centre): all \
             were turned",
            -100.0 * found.outward
        ));
    }
    Ok(notes)
}
