//! Messages between page and server: parses the page's, encodes the server's.

use crate::placement::Placement;
use koel_spatial::intersect::{Boolean, Label, Side, Timings};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum size of a message from a page, in bytes.
pub(crate) const LARGEST_REQUEST: usize = 4096;
/// Path of the WebSocket.
pub(crate) const SOCKET: &str = "/socket";
/// First word of a message of points.
pub(crate) const POINTS: u32 = 1;
/// First word of a frame.
pub(crate) const FRAME: u32 = 2;
/// Words before a frame's labels: kind, number and method; rotation and translation; four counts
/// per cloud; stages; moment, and which clouds' points follow.
pub(crate) const FRAME_WORDS: usize = 3 + 4 + 3 + 8 + STAGES.len() + 2;
/// Stages whose times are in a frame, in milliseconds.
pub(crate) const STAGES: [&str; 6] =
    ["voxelize", "build", "intersect", "seed", "fill", "read back"];
/// Maximum number of points per message.
const POINTS_A_MESSAGE: usize = 1 << 16;
/// Tolerance of the length of a rotation's quaternion, which should be 1.
const UNIT_TOLERANCE: f64 = 1e-3;

/// Method that separates inside from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// Winding numbers.
    #[default]
    Robust,
    /// Seeds and flood fill, as published in 2009.
    Paper,
}

/// Requested pose of B, method and moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Wanted {
    /// Rotation around B's centre: a unit quaternion x, y, z, w.
    pub rotation: [f64; 4],
    /// Translation after the rotation.
    pub translation: [f64; 3],
    /// Method for the labels.
    pub method: MethodName,
    /// Moment of the timeline.
    pub moment: u32,
}
impl Wanted {
    /// Returns the pose in which the files put the clouds, at the first moment.
    pub(crate) fn as_given(method: MethodName) -> Wanted {
        Wanted { rotation: [0.0, 0.0, 0.0, 1.0], translation: [0.0; 3], method, moment: 0 }
    }
    /// Returns the rows of the rotation (L. Euler 1770; W. R. Hamilton 1844).
    pub(crate) fn rotation_rows(&self) -> [[f64; 3]; 3] {
        let [x, y, z, w] = self.rotation;
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    }
}

/// A message from the page.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Request {
    /// Rotates and moves B.
    Pose {
        /// Unit quaternion x, y, z, w.
        rotation: [f64; 4],
        /// Translation from the position in the file.
        translation: [f64; 3],
    },
    /// Selects a method.
    Method {
        /// The method.
        name: MethodName,
    },
    /// Selects a moment of the timeline.
    Moment {
        /// Its number.
        number: u32,
    },
    /// Acknowledges a frame.
    Shown {
        /// Number of the frame.
        frame: u32,
    },
}

/// Reason why a message from the page is rejected.
#[derive(Debug, Error)]
pub(crate) enum Refused {
    /// Not a known message.
    #[error("not understood: {0}")]
    Unknown(#[from] serde_json::Error),
    /// A binary message.
    #[error("binary message of {0} bytes, expected JSON text")]
    Binary(usize),
    /// A quaternion that is not a rotation.
    #[error("the rotation {rotation:?} has length {length}, expected 1")]
    NotUnit {
        /// The quaternion as sent.
        rotation: [f64; 4],
        /// Its length.
        length: f64,
    },
    /// A position outside the grid.
    #[error("moved by {translation:?}, the centres are {distance} apart, expected at most {reach}")]
    OutOfReach {
        /// The translation as sent.
        translation: [f64; 3],
        /// Distance between the centres.
        distance: f64,
        /// Maximum distance.
        reach: f64,
    },
    /// A moment that the timeline does not have.
    #[error("moment {number}, but there are {moments}, from 0")]
    NoMoment {
        /// The moment as sent.
        number: u32,
        /// Number of moments.
        moments: u32,
    },
    /// A frame that is not in flight.
    #[error(
        "frame {frame} was acknowledged, but {}",
        match .awaited {
            Some(n) => format!("frame {n} is in flight"),
            None => "no frame is in flight".into()
        }
    )]
    NotSent {
        /// Number in the acknowledgement.
        frame: u32,
        /// The frame in flight.
        awaited: Option<u32>,
    },
}

impl Request {
    /// Parses a text message. Returned poses are within reach, their rotations have length 1, and
    /// moments are below `moments`.
    pub(crate) fn parse(
        text: &str,
        placement: &Placement,
        moments: u32,
    ) -> Result<Request, Refused> {
        let request = serde_json::from_str(text)?;
        if let Request::Moment { number } = request
            && number >= moments
        {
            return Err(Refused::NoMoment { number, moments });
        }
        let Request::Pose { rotation, translation } = request else { return Ok(request) };
        let length = rotation.iter().map(|c| c * c).sum::<f64>().sqrt();
        if length.is_nan() || (length - 1.0).abs() > UNIT_TOLERANCE {
            return Err(Refused::NotUnit { rotation, length });
        }
        let (distance, reach) = (placement.distance(translation), placement.reach());
        if distance.is_nan() || distance > reach * (1.0 + 1e-6) {
            return Err(Refused::OutOfReach { translation, distance, reach });
        }
        Ok(Request::Pose { rotation: rotation.map(|c| c / length), translation })
    }
}

/// JSON messages from the server.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Reply<'a> {
    /// The first message.
    Scene(Box<SceneReply<'a>>),
    /// A rejected message or a failed frame. The connection stays open unless it is closed next.
    Error {
        /// The reason.
        message: String,
    },
}
impl Reply<'_> {
    /// Encodes the message.
    pub(crate) fn json(&self) -> String {
        // Only strings, finite numbers and lists, which JSON can always represent.
        serde_json::to_string(self).unwrap_or_default()
    }
}
/// Description of a scene for a page.
#[derive(Serialize)]
pub(crate) struct SceneReply<'a> {
    /// A and B.
    pub clouds: [CloudReply<'a>; 2],
    /// Vector from A's centre to B's in the position of the files.
    pub apart: [f64; 3],
    /// Maximum distance between the centres.
    pub reach: f64,
    /// Voxels per side.
    pub grid: u32,
    /// Side of a voxel.
    pub voxel_size: f64,
    /// Name of the device.
    pub device: &'a str,
    /// Initial method.
    pub method: MethodName,
    /// Whether B moves at first.
    pub animate: bool,
    /// The timeline, if there is one.
    pub timeline: Option<TimelineReply>,
    /// Names of the labels, by number.
    pub labels: [&'static str; 4],
    /// Names of the stages, in order.
    pub stages: [&'static str; 6],
    /// All Booleans.
    pub booleans: [BooleanReply; 4],
    /// Notes on the clouds for people.
    pub notes: &'a [String],
}
/// Description of a timeline.
#[derive(Serialize)]
pub(crate) struct TimelineReply {
    /// Number of moments.
    pub moments: u32,
    /// Moments a second at normal speed.
    pub rate: f64,
    /// Number of the first moment, for display.
    pub first: u64,
    /// Whether the points of A and of B are other ones at each moment.
    pub moves: [bool; 2],
}
/// Description of a cloud.
#[derive(Serialize)]
pub(crate) struct CloudReply<'a> {
    /// File name.
    pub name: &'a str,
    /// Number of points.
    pub points: usize,
    /// Radius of the bounding ball.
    pub radius: f64,
}
/// A Boolean, and the points that bound it.
#[derive(Serialize)]
pub(crate) struct BooleanReply {
    name: &'static str,
    /// For A and for B, by label: whether points are kept.
    keeps: [[bool; 4]; 2],
}
impl BooleanReply {
    /// Returns all Booleans.
    pub(crate) fn all() -> [BooleanReply; 4] {
        Boolean::ALL.map(|boolean| BooleanReply {
            name: match boolean {
                Boolean::Union => "union",
                Boolean::Intersection => "intersection",
                Boolean::Difference => "difference",
                Boolean::ReverseDifference => "reverse-difference",
            },
            keeps: Side::BOTH
                .map(|side| Label::ALL.map(|label| boolean.keeps(side, label).is_some())),
        })
    }
}
/// Returns the names of the labels, by number.
pub(crate) fn label_names() -> [&'static str; 4] {
    Label::ALL.map(|label| match label {
        Label::Unknown => "unknown",
        Label::Intersection => "intersection",
        Label::Inside => "inside",
        Label::Outside => "outside",
    })
}

/// Encodes a cloud's points as messages, relative to the centre of its ball.
pub(crate) fn points(
    side: Side,
    positions: &[[f32; 3]],
    normals: &[[f32; 3]],
    centre: [f64; 3],
) -> Vec<Vec<u8>> {
    let pieces = positions.chunks(POINTS_A_MESSAGE).zip(normals.chunks(POINTS_A_MESSAGE));
    let mut messages = vec![];
    for (piece, (positions, normals)) in pieces.enumerate() {
        let mut bytes = Vec::with_capacity(16 + POINT_BYTES * positions.len());
        for word in [POINTS, side as u32, (piece * POINTS_A_MESSAGE) as u32, positions.len() as u32]
        {
            bytes.extend(word.to_le_bytes());
        }
        append_points(positions, normals, centre, &mut bytes);
        messages.push(bytes);
    }
    messages
}
/// Bytes of a point in a message.
pub(crate) const POINT_BYTES: usize = 16;
/// Appends positions relative to `centre`, then normals.
pub(crate) fn append_points(
    positions: &[[f32; 3]],
    normals: &[[f32; 3]],
    centre: [f64; 3],
    bytes: &mut Vec<u8>,
) {
    for p in positions {
        let from_centre = |a: usize| (f64::from(p[a]) - centre[a]) as f32;
        (0..3).for_each(|a| bytes.extend(from_centre(a).to_le_bytes()));
    }
    for n in normals {
        let length = n.iter().map(|c| c * c).sum::<f32>().sqrt();
        let byte = |c: f32| if length > 0.0 { (c / length * 127.0).round() as i8 } else { 0 };
        bytes.extend([byte(n[0]), byte(n[1]), byte(n[2]), 0].map(|b| b as u8));
    }
}

/// Header of a frame, before its labels.
pub(crate) struct FrameHeader {
    /// Number of the frame, per viewer.
    pub number: u32,
    /// The computed state.
    pub wanted: Wanted,
    /// Times of the stages.
    pub timings: Timings,
    /// Milliseconds to read the labels back.
    pub read_back: f64,
    /// Whether the points of A and of B follow the labels.
    pub brings: [bool; 2],
}
impl FrameHeader {
    /// Writes the header into a message that holds `FRAME_WORDS` words and then the labels, those
    /// of A first. `points` are the points of A and of B. Counts the labels.
    pub(crate) fn write(&self, message: &mut [u8], points: [usize; 2]) {
        let (head, labels) = message.split_at_mut(4 * FRAME_WORDS);
        let (of_a, of_b) = labels[..points[0] + points[1]].split_at(points[0]);
        let counts = [of_a, of_b].map(|labels| {
            let mut counts = [0u32; 4];
            labels.iter().for_each(|&label| counts[label as usize & 3] += 1);
            counts
        });
        let method = matches!(self.wanted.method, MethodName::Paper) as u32;
        let t = &self.timings;
        let pose = self.wanted.rotation.iter().chain(&self.wanted.translation);
        let stages = [t.voxelize, t.build, t.intersect, t.seed, t.fill, self.read_back];
        let words = [FRAME, self.number, method]
            .into_iter()
            .chain(pose.map(|&c| (c as f32).to_bits()))
            .chain(counts.into_iter().flatten())
            .chain(stages.map(|ms| (ms as f32).to_bits()))
            .chain([
                self.wanted.moment,
                u32::from(self.brings[0]) | u32::from(self.brings[1]) << 1,
            ]);
        for (to, word) in head.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Ball;
    use koel_spatial::intersect::Pose;

    fn placement() -> Placement {
        let ball = |x: f64| Ball { centre: [x, 0.0, 0.0], radius: 1.0 };
        Placement::new([ball(0.0), ball(0.5)], 16).unwrap()
    }

    #[test]
    fn messages_are_checked() {
        let p = placement();
        let pose = Request::parse(
            r#"{"type":"pose","rotation":[0,0,0,1.0001],"translation":[1.5,0,0]}"#,
            &p,
            1,
        )
        .unwrap();
        assert_eq!(
            pose,
            Request::Pose { rotation: [0.0, 0.0, 0.0, 1.0], translation: [1.5, 0.0, 0.0] }
        );
        let method = Request::parse(r#"{"type":"method","name":"paper"}"#, &p, 1).unwrap();
        assert_eq!(method, Request::Method { name: MethodName::Paper });
        assert_eq!(
            Request::parse(r#"{"type":"shown","frame":7}"#, &p, 1).unwrap(),
            Request::Shown { frame: 7 }
        );
        let moment = Request::parse(r#"{"type":"moment","number":4}"#, &p, 5).unwrap();
        assert_eq!(moment, Request::Moment { number: 4 });
        for (text, why) in [
            ("", "not understood"),
            ("{}", "missing field `type`"),
            ("[1,2]", "not understood"),
            (r#"{"type":"shutdown"}"#, "unknown variant"),
            (r#"{"type":"moment","number":5}"#, "moment 5, but there are 5, from 0"),
            (r#"{"type":"moment","number":0.5}"#, "not understood"),
            (r#"{"type":"shown","frame":-1}"#, "not understood"),
            (r#"{"type":"shown","frame":1,"more":2}"#, "unknown field `more`"),
            (r#"{"type":"method","name":"magic"}"#, "unknown variant"),
            (r#"{"type":"pose","rotation":[0,0,0,1]}"#, "missing field `translation`"),
            (r#"{"type":"pose","rotation":[0,0,0,1],"translation":[0,0]}"#, "not understood"),
            (r#"{"type":"pose","rotation":[0,0,0,1],"translation":[null,0,0]}"#, "not understood"),
            (r#"{"type":"pose","rotation":[0,0,0,1],"translation":[1e999,0,0]}"#, "out of range"),
            (
                r#"{"type":"pose","rotation":[0,0,0,1],"translation":[1e200,0,0]}"#,
                "expected at most 2",
            ),
            (r#"{"type":"pose","rotation":[0,0,0,1],"translation":[1.51,0,0]}"#, "2.01 apart"),
            (r#"{"type":"pose","rotation":[0,0,0,0],"translation":[0,0,0]}"#, "length 0"),
            (r#"{"type":"pose","rotation":[0,0,0,1e300],"translation":[0,0,0]}"#, "expected 1"),
        ] {
            let refused = Request::parse(text, &p, 5).unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn a_quaternion_turns_as_its_axis_and_angle_do() {
        let (axis, angle) = ([2.0 / 3.0, -1.0 / 3.0, 2.0 / 3.0], 1.2f64);
        let (sin, cos) = (0.5 * angle).sin_cos();
        let rotation = [axis[0] * sin, axis[1] * sin, axis[2] * sin, cos];
        let rows = Wanted { rotation, ..Wanted::as_given(MethodName::Robust) }.rotation_rows();
        let expected = Pose::turned(axis, angle, [0.0; 3], [0.0; 3]).rotation;
        (0..9).for_each(|i| assert!((rows[i / 3][i % 3] - expected[i / 3][i % 3]).abs() < 1e-12));
    }

    #[test]
    fn frames_count_their_labels() {
        let wanted = Wanted {
            translation: [1.0, 2.0, 3.0],
            moment: 12,
            ..Wanted::as_given(MethodName::Paper)
        };
        let mut timings = Timings::default();
        timings.voxelize = 1.0;
        timings.build = 2.0;
        timings.intersect = 3.0;
        timings.seed = 4.0;
        timings.fill = 5.0;
        let brings = [false, true];
        let header = FrameHeader { number: 9, wanted, timings, read_back: 6.0, brings };
        let mut message = vec![0; 4 * FRAME_WORDS];
        message.extend([0, 1, 1, 2, 3, 3, 3]);
        // Points follow.
        message.extend([1; 49]);
        header.write(&mut message, [4, 3]);
        let word = |i: usize| u32::from_le_bytes(message[4 * i..][..4].try_into().unwrap());
        assert_eq!([0, 1, 2].map(word), [FRAME, 9, 1]);
        assert_eq!(
            [3, 4, 5, 6, 7, 8, 9].map(|i| f32::from_bits(word(i))),
            [0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 3.0]
        );
        assert_eq!([10, 11, 12, 13, 14, 15, 16, 17].map(word), [1, 2, 1, 0, 0, 0, 0, 3]);
        assert_eq!(
            [18, 19, 20, 21, 22, 23].map(|i| f32::from_bits(word(i))),
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        );
        assert_eq!([24, 25].map(word), [12, 2]);
    }

    #[test]
    fn points_come_in_pieces_from_their_centre() {
        let n = POINTS_A_MESSAGE + 3;
        let positions = vec![[11.0, 0.0, -1.0]; n];
        let normals = vec![[0.0, 0.0, -5.0]; n];
        let messages = points(Side::B, &positions, &normals, [10.0, 0.0, 0.0]);
        assert_eq!(
            messages.iter().map(Vec::len).collect::<Vec<_>>(),
            [16 + 16 * POINTS_A_MESSAGE, 16 + 16 * 3]
        );
        let word = |i: usize| u32::from_le_bytes(messages[1][4 * i..][..4].try_into().unwrap());
        assert_eq!([0, 1, 2, 3].map(word), [POINTS, 1, POINTS_A_MESSAGE as u32, 3]);
        assert_eq!([4, 5, 6].map(|i| f32::from_bits(word(i))), [1.0, 0.0, -1.0]);
        assert_eq!(messages[1][16 + 36..][..4], [0, 0, 129, 0]);
    }
}
