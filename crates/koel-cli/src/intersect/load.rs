//! Reads a file into a cloud with normals.
use super::args::Clouds;
use crate::failure::{Failure, Outcome};
use koel::Device;
use koel_spatial::sample::sample_cloud;
use koel_spatial::{
    Bounds, CloudParts, Format, Grid, Mesh, NormalOptions, NormalReport, Orientation, PointCloud,
    Scan, cloud_parts, estimate_normals, mesh_orientation, mesh_solids,
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

/// What to do about the normals of a cloud.
#[derive(Clone, Copy)]
pub(crate) struct Normals {
    /// Whether to estimate missing ones.
    estimate: bool,
    /// Position that estimated ones face, in the file's coordinates.
    viewpoint: Option<[f64; 3]>,
    /// Option that sets it.
    option: &'static str,
}
impl Normals {
    /// Returns what the options say about A and B.
    pub(crate) fn of_both(clouds: &Clouds) -> [Normals; 2] {
        let of =
            |option, viewpoint| Normals { estimate: clouds.estimate_normals, viewpoint, option };
        [of("--viewpoint-a", clouds.viewpoint_a), of("--viewpoint-b", clouds.viewpoint_b)]
    }
    /// Errors: there is a viewpoint for a mesh.
    pub(super) fn check_mesh(self, path: &Path) -> Outcome {
        match self.viewpoint {
            None => Ok(()),
            Some(_) => Err(in_file(
                path,
                format!("a mesh needs no viewpoint, but {} is given", self.option),
            )),
        }
    }
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
    /// a cloud. Estimates missing normals if that is wanted. Turns solids that are certainly inside
    /// out, and notes it.
    ///
    /// Errors: no normals, or none with a direction; a viewpoint for a mesh or a cloud that needs
    /// none, or that is one of the points.
    pub(super) fn cloud(
        self,
        path: &Path,
        grid: &Grid,
        normals: Normals,
        device: &Device,
    ) -> Outcome<(PointCloud, Notes)> {
        let option = normals.option;
        if self.scan.is_mesh() {
            normals.check_mesh(path)?;
            let mut mesh = self.scan.into_mesh().map_err(|e| in_file(path, e))?;
            let notes = orient_mesh(path, &mut mesh);
            let samples = sample_cloud(&mesh, COVERING_RADIUS * grid.voxel_size());
            return Ok((samples.map_err(|e| in_file(path, e))?, notes));
        }
        let (origin, of_file) = (self.scan.report.origin, self.scan.report.viewpoint);
        let fields = match &self.scan.report.fields[..] {
            [] => String::new(),
            fields => format!(" (their fields are {})", fields.join(", ")),
        };
        let is_las = matches!(self.scan.report.format, Format::Las | Format::Laz);
        let mut cloud = self.scan.into_cloud();
        let points = cloud.positions.len();
        let have_directions = match &cloud.normals {
            None if !normals.estimate => Err(in_file(
                path,
                format!(
                    "the points have no normals{fields}, expected normals, or --estimate-normals"
                ),
            )),
            None => Ok(false),
            Some(all) if all.iter().any(|normal| *normal != [0.0; 3]) => Ok(true),
            Some(_) if !normals.estimate => Err(in_file(
                path,
                format!(
                    "all {points} normals are zero, expected directions, or --estimate-normals"
                ),
            )),
            Some(_) => Ok(false),
        }?;
        if have_directions {
            if normals.viewpoint.is_some() {
                let needless = format!("the points have normals, but {option} is given");
                return Err(in_file(path, needless));
            }
            let notes = cloud_parts(&cloud).map(|parts| orient_cloud(path, &mut cloud, &parts));
            return Ok((cloud, notes.unwrap_or_default()));
        }
        let viewpoint = normals.viewpoint.or(of_file);
        let options = match viewpoint {
            // LAS is the format of scans from the air, and its z axis points up.
            None => NormalOptions::default().with_open_towards(is_las.then_some([0.0, 0.0, 1.0])),
            Some(at) => NormalOptions::default().with_orientation(Orientation::Towards(
                std::array::from_fn(|a| (at[a] - origin[a]) as f32),
            )),
        };
        let found = estimate_normals(device, &cloud.positions, &options);
        let found = found.map_err(|e| in_file(path, e))?;
        cloud.normals = Some(found.normals);
        let mut notes = notes_on_normals(path, &found.report, points, option);
        let decided = found.report.open_points - found.report.undecided_points;
        if decided > 0 {
            let side = match is_las {
                true => "up, as in scans from the air",
                false => "to the side that is seen from more directions",
            };
            notes.changes.push(format!(
                "{}: {decided} of {points} points belong to parts that are not closed: their \
                 estimated normals point {side}; {option} states where the scanner was",
                path.display()
            ));
        }
        if let (None, Some([x, y, z])) = (normals.viewpoint, viewpoint) {
            notes.changes.push(format!(
                "{}: estimated normals face the file's VIEWPOINT, {x}, {y}, {z}",
                path.display()
            ));
        }
        Ok((cloud, notes))
    }
}

/// Returns notes on the estimation of normals.
fn notes_on_normals(
    path: &Path,
    report: &NormalReport,
    points: usize,
    option: &'static str,
) -> Notes {
    let mut notes = Notes::default();
    let file = path.display();
    if report.undetermined > 0 {
        notes.doubts.push(format!(
            "{file}: {} of {points} points lie on lines or coincide: their estimated normals say \
             nothing",
            report.undetermined
        ));
    }
    if 20 * report.grazing > points {
        notes.doubts.push(format!(
            "{file}: the planes of {} of {points} points pass by the viewpoint within 3 degrees: \
             which side faces it is uncertain; is it where the scanner was?",
            report.grazing
        ));
    }
    if 20 * report.undecided_points > points {
        notes.doubts.push(format!(
            "{file}: {} of {points} points belong to parts that are not closed and look alike \
             from both sides: the outside of their estimated normals is a guess; {option} states \
             where the scanner was",
            report.undecided_points
        ));
    }
    if report.cavities > 0 {
        notes.changes.push(format!(
            "{file}: {} of {} parts lie in others: their estimated normals make them cavities",
            report.cavities, report.parts
        ));
    }
    notes
}
/// Turns the faces of the solids of a mesh that are inside out. Returns notes on its orientation.
pub(super) fn orient_mesh(path: &Path, mesh: &mut Mesh) -> Notes {
    let mut notes = Notes::default();
    let (found, solids) = (mesh_orientation(mesh), mesh_solids(mesh));
    let (file, volume) = (path.display(), found.volume);
    let all = solids.solids.len();
    match solids.turn(mesh) {
        (0, _) => {}
        (turned, _) if turned == all => notes.changes.push(format!(
            "{file}: the faces point inward (signed volume {volume:.6e}): all were turned"
        )),
        (turned, faces) => notes.changes.push(format!(
            "{file}: the faces of {turned} of {all} solids point inward: {faces} faces were turned"
        )),
    }
    let ambiguous = solids.solids.iter().filter(|solid| solid.ambiguous).count();
    if ambiguous > 0 {
        notes.doubts.push(format!(
            "{file}: {ambiguous} of {all} solids lie in another one whose faces point the same \
             way: solids or cavities? Labels and volumes are uncertain there"
        ));
    }
    if solids.solids.iter().any(|solid| solid.depth.is_none()) {
        notes.doubts.push(format!(
            "{file}: {all} solids are too many to tell which contains which: solids that are \
             inside out were not turned"
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
/// Turns the normals of the parts of a cloud that are inside out. Returns notes on its orientation.
fn orient_cloud(path: &Path, cloud: &mut PointCloud, parts: &CloudParts) -> Notes {
    let mut notes = Notes::default();
    let (file, points, all) = (path.display(), cloud.positions.len(), parts.parts.len());
    let none = parts.whole.without_direction;
    if none > 0 {
        notes.doubts.push(format!("{file}: {none} of {points} normals are zero and say nothing"));
    }
    match parts.turn(cloud) {
        (0, _) => {}
        (turned, _) if turned == all => notes.changes.push(format!(
            "{file}: the normals point inward ({:.0} % of the mean distance to the centre): all \
             were turned",
            -100.0 * parts.whole.outward
        )),
        (turned, normals) => notes.changes.push(format!(
            "{file}: the normals of {turned} of {all} parts point inward: {normals} normals were \
             turned"
        )),
    }
    let ambiguous = parts.ambiguous();
    if ambiguous > 0 {
        notes.doubts.push(format!(
            "{file}: {ambiguous} of {all} parts lie within the box of another one and were not \
             turned with it: solids or cavities? Labels and volumes are uncertain there"
        ));
    }
    notes
}
