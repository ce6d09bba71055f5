//! Results as JSON and as text.
use super::playing::Times;
use super::pose;
use crate::failure::{Failure, Outcome};
use koel_spatial::Grid;
use koel_spatial::intersect::{LabelCounts, Pose, Summary, Surface, Timings};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The JSON report.
#[derive(Serialize)]
pub(super) struct IntersectReport {
    grid: u32,
    origin: [f64; 3],
    voxel_size: f64,
    a: Cloud,
    b: Cloud,
    timings_ms: TimingsMs,
    device: String,
    method: &'static str,
    /// In cubic units of the input; null if not asked for, or if a surface is open.
    volumes: Option<Volumes>,
    /// Estimates of how far the volumes may be off, in the same units.
    volume_errors: Option<Volumes>,
    boolean: Option<Written>,
    notes: Vec<String>,
    /// What questions the answer.
    doubts: Vec<String>,
}
#[derive(Serialize)]
struct Cloud {
    labels_file: String,
    counts: Counts,
    file: String,
    /// Time in the animation.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    points: usize,
    dropped: usize,
    closedness: Option<f64>,
    open: Option<bool>,
    /// In square units of the input, by label.
    areas: Option<Areas>,
    area_share_inside: Option<f64>,
    /// In the coordinates of the files.
    #[serde(serialize_with = "as_motion")]
    pose: Pose,
}
/// Writes the rows of the rotation, and the translation that follows it.
fn as_motion<S: Serializer>(pose: &Pose, serializer: S) -> Result<S::Ok, S::Error> {
    let mut motion = serializer.serialize_struct("Pose", 2)?;
    motion.serialize_field("rotation", &pose.rotation)?;
    motion.serialize_field("translation", &pose.translation)?;
    motion.end()
}
#[derive(Serialize)]
struct Counts {
    unknown: u64,
    intersection: u64,
    inside: u64,
    outside: u64,
}
#[derive(Serialize)]
struct Areas {
    unknown: f64,
    intersection: f64,
    inside: f64,
    outside: f64,
    total: f64,
}
#[derive(Serialize)]
struct TimingsMs {
    upload: f64,
    /// Fields of null if the frame was recorded.
    #[serde(flatten, serialize_with = "as_stages")]
    stages: Option<Timings>,
    total: f64,
    /// After the frame, and not part of the total; null if there are none.
    volumes: Option<f64>,
    mesh: Option<f64>,
}
/// Returns the seconds of a stage.
type Seconds = fn(&Timings) -> f64;
/// The stages of a frame, in their order.
const STAGES: [(&str, Seconds); 5] = [
    ("voxelize", |of| of.voxelize),
    ("build", |of| of.build),
    ("intersect", |of| of.intersect),
    ("seed", |of| of.seed),
    ("fill", |of| of.fill),
];
/// Writes a field for each stage.
fn as_stages<S: Serializer>(stages: &Option<Timings>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(STAGES.map(|(name, of)| (name, stages.as_ref().map(of))))
}
/// A volume of each Boolean.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Volumes {
    /// In A or B.
    pub union: f64,
    /// In both.
    pub intersection: f64,
    /// In A, not in B.
    pub difference: f64,
    /// In B, not in A.
    pub reverse_difference: f64,
}
impl Volumes {
    /// Takes the volumes in the order of [`Boolean::ALL`](koel_spatial::intersect::Boolean::ALL).
    pub(super) fn new([union, intersection, difference, reverse_difference]: [f64; 4]) -> Volumes {
        Volumes { union, intersection, difference, reverse_difference }
    }
}
/// What was written for a Boolean.
#[derive(Serialize)]
pub(super) struct Written {
    /// Its name.
    pub operation: &'static str,
    /// Triangles of the mesh.
    pub triangles: Option<usize>,
    /// Milliseconds to make the mesh, after the volumes.
    #[serde(skip)]
    pub mesh_ms: Option<f64>,
    /// Points of the cloud.
    pub points: Option<usize>,
}
/// What a report is made from.
pub(super) struct Found<'a> {
    pub grid: &'a Grid,
    /// What the grid is relative to.
    pub origin: [f64; 3],
    pub summary: Summary,
    /// Names of A and B.
    pub files: [String; 2],
    /// Times in the animations of A and B.
    pub seconds: [Option<f64>; 2],
    /// Points that the readers of A and B dropped.
    pub dropped: [usize; 2],
    /// Poses of A and B, in the files' coordinates.
    pub poses: [Pose; 2],
    /// Label files of A and B.
    pub labels_files: [String; 2],
    pub times: Times,
    pub upload_ms: f64,
    pub volumes_ms: Option<f64>,
    pub device: String,
    pub method: &'static str,
    /// Volumes and estimates of their errors.
    pub volumes: Option<[Volumes; 2]>,
    pub boolean: Option<Written>,
    pub notes: Vec<String>,
    pub doubts: Vec<String>,
}
impl IntersectReport {
    pub(super) fn new(found: Found) -> IntersectReport {
        let Found { grid, summary, files, dropped, labels_files, times, upload_ms, .. } = found;
        let ([file_a, file_b], [labels_a, labels_b]) = (files, labels_files);
        let [pose_a, pose_b] = found.poses;
        IntersectReport {
            grid: grid.resolution(),
            origin: std::array::from_fn(|a| grid.origin()[a] + found.origin[a]),
            voxel_size: grid.voxel_size(),
            a: Cloud {
                seconds: found.seconds[0],
                ..cloud(&summary.a, file_a, dropped[0], labels_a, pose_a)
            },
            b: Cloud {
                seconds: found.seconds[1],
                ..cloud(&summary.b, file_b, dropped[1], labels_b, pose_b)
            },
            timings_ms: TimingsMs {
                upload: upload_ms,
                stages: times.stages,
                total: upload_ms + times.total,
                volumes: found.volumes_ms,
                mesh: found.boolean.as_ref().and_then(|written| written.mesh_ms),
            },
            device: found.device,
            method: found.method,
            volumes: found.volumes.map(|[volumes, _]| volumes),
            volume_errors: found.volumes.map(|[_, errors]| errors),
            boolean: found.boolean,
            notes: found.notes,
            doubts: found.doubts,
        }
    }
    /// Returns whether something questions the answer.
    pub(super) fn has_doubts(&self) -> bool {
        !self.doubts.is_empty()
    }
    /// Formats the report as JSON, over several lines.
    pub(super) fn json(&self) -> Outcome<String> {
        Ok(serde_json::to_string_pretty(self).map_err(unwritable)? + "\n")
    }
    /// Formats the report as a line of JSON.
    pub(super) fn json_line(&self) -> Outcome<String> {
        Ok(serde_json::to_string(self).map_err(unwritable)? + "\n")
    }
    /// Formats the report as a line for people.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{}, {}:", self.a.file, self.b.file);
        for (name, Cloud { counts: c, .. }) in [("A", &self.a), ("B", &self.b)] {
            line += &format!(" {name} {} met, {} in, {} out", c.intersection, c.inside, c.outside);
            line += &if c.unknown > 0 { format!(", {} unknown;", c.unknown) } else { ";".into() };
        }
        if let (Some(v), Some(e)) = (&self.volumes, &self.volume_errors) {
            line += &format!(" both {:.6} ± {:.6};", v.intersection, e.intersection);
        }
        line += &format!(" {:.2} ms", self.timings_ms.total - self.timings_ms.upload);
        if self.has_doubts() {
            line += &format!("; {} doubts", self.doubts.len());
        }
        line + "\n"
    }
    /// Formats the report for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}^3 voxels of {:.6}, method {}, {}\n",
            self.grid, self.voxel_size, self.method, self.device
        );
        text += &format!(
            "{:>2} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
            "", "voxels", "intersection", "inside", "outside", "unknown"
        );
        for (name, Cloud { counts: c, .. }) in [("A", &self.a), ("B", &self.b)] {
            let all = c.unknown + c.intersection + c.inside + c.outside;
            text += &format!(
                "{name:>2} {all:>12} {:>12} {:>12} {:>12} {:>12}\n",
                c.intersection, c.inside, c.outside, c.unknown
            );
        }
        for (name, Cloud { pose, .. }) in [("A", &self.a), ("B", &self.b)] {
            if *pose != Pose::IDENTITY {
                let ([x, y, z], degrees) = (pose.translation, pose::degrees(pose));
                text +=
                    &format!("{name}: turned by {degrees:.3} degrees, moved by {x}, {y}, {z}\n");
            }
        }
        if let (Some(v), Some(e)) = (&self.volumes, &self.volume_errors) {
            text += &format!(
                "volumes: union {:.6} ± {:.6}, intersection {:.6} ± {:.6}, A - B {:.6} ± {:.6}, \
                 B - A {:.6} ± {:.6}\n",
                v.union,
                e.union,
                v.intersection,
                e.intersection,
                v.difference,
                e.difference,
                v.reverse_difference,
                e.reverse_difference
            );
        } else if self.a.open == Some(false) && self.b.open == Some(false) {
            text += "volumes: with --volumes\n";
        }
        let t = &self.timings_ms;
        let stages = t.stages.as_ref().map_or("recorded".into(), |stages| {
            STAGES.map(|(name, of)| format!("{name} {:.2}", of(stages))).join(", ")
        });
        let frame = t.total - t.upload;
        text += &format!("frame: {frame:.2} ms ({stages}); upload {:.2} ms\n", t.upload);
        for (what, ms) in [("volumes", t.volumes), ("mesh", t.mesh)] {
            text += &ms.map_or(String::new(), |ms| format!("{what}: {ms:.0} ms\n"));
        }
        self.notes.iter().for_each(|note| text += &format!("{note}\n"));
        self.doubts.iter().for_each(|doubt| text += &format!("doubtful: {doubt}\n"));
        text
    }
}
fn unwritable(error: serde_json::Error) -> Failure {
    Failure::Other(format!("the report: {error}"))
}
fn cloud(
    s: &Surface,
    file: String,
    dropped_by_reader: usize,
    labels_file: String,
    pose: Pose,
) -> Cloud {
    let LabelCounts { unknown, intersection, inside, outside, .. } = s.voxels;
    Cloud {
        labels_file,
        counts: Counts { unknown, intersection, inside, outside },
        file,
        seconds: None,
        points: s.points,
        dropped: dropped_by_reader + s.dropped,
        closedness: s.measures.map(|m| m.closedness),
        open: s.measures.map(|m| m.open),
        areas: s.measures.map(|m| {
            let [unknown, intersection, inside, outside] = m.areas;
            Areas { unknown, intersection, inside, outside, total: m.area() }
        }),
        area_share_inside: s.measures.map(|m| m.share_inside()).filter(|share| share.is_finite()),
        pose,
    }
}
