//! Reads a file into a cloud with normals.
use crate::failure::{Failure, Outcome};
use koel::Device;
use koel_spatial::sample::sample_cloud;
use koel_spatial::{
    Bounds, Grid, Mesh, NormalOptions, PointCloud, Scan, cloud_orientation, estimate_normals,
    mesh_orientation,
};
use std::path::{Path, PathBuf};

/// Covering radius of samples, in voxels. Below one half, no path of empty voxels crosses the
/// surface.
pub(super) const COVERING_RADIUS: f64 = 0.499_999;

/// A scan that was read, and its bounds.
pub(crate) struct Loaded {
    scan: Scan,
    /// Bounds of all points but outliers.
    pub bounds: Bounds,
    /// Points of a cloud that are far from all others.
    pub outliers: usize,
}

/// Reads a file, relative to an origin, or to its own. Errors: bad input.
pub(super) fn read_one(path: &Path, origin: Option<[f64; 3]>) -> Outcome<Loaded> {
    let mut scan = koel_spatial::read(path).map_err(Failure::input)?;
    if let Some(origin) = origin {
        scan.set_origin(origin);
    }
    loaded(path, scan)
}
/// Measures a scan. `path` is its file for errors.
pub(super) fn loaded(path: &Path, scan: Scan) -> Outcome<Loaded> {
    let (bounds, outliers) = bounds(path, &scan)?;
    Ok(Loaded { scan, bounds, outliers })
}
fn bounds(path: &Path, scan: &Scan) -> Outcome<(Bounds, usize)> {
    let positions = &scan.points.positions;
    let found = match scan.is_mesh() {
        true => Bounds::of(positions).map(|bounds| (bounds, 0)),
        false => Bounds::without_outliers(positions),
    };
    found.map_err(|e| in_file(path, e))
}
/// Returns a note if both files have units of length that differ.
pub(crate) fn note_on_units([a, b]: [&Option<String>; 2]) -> Option<String> {
    let (a, b) = (a.as_ref()?, b.as_ref()?);
    (a != b).then(|| format!("units of length differ but are treated as equal: {a} in A, {b} in B"))
}
/// Notes on a surface.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    /// What was changed.
    pub changes: Vec<String>,
    /// What questions the answer.
    pub doubts: Vec<String>,
}

pub(super) fn in_file(path: &Path, error: impl std::fmt::Display) -> Failure {
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
    /// Returns the notes on the file for the report.
    pub(crate) fn notes(&self, path: &Path) -> Vec<String> {
        notes(path, &self.scan)
    }
    /// Returns the unit of length, if the file tells it.
    pub(crate) fn unit(&self) -> &Option<String> {
        &self.scan.report.unit
    }
    /// Returns the other files that were read.
    pub(crate) fn other_files(&self) -> &[PathBuf] {
        &self.scan.report.files
    }
    /// Makes the positions relative to another origin. Errors: one is beyond 32-bit floating point.
    pub(super) fn set_origin(&mut self, path: &Path, origin: [f64; 3]) -> Outcome {
        if origin != self.origin() {
            self.scan.set_origin(origin);
            (self.bounds, self.outliers) = bounds(path, &self.scan)?;
        }
        Ok(())
    }
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
    pub(super) fn cloud(
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
pub(super) fn orient_mesh(path: &Path, mesh: &mut Mesh) -> Notes {
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
