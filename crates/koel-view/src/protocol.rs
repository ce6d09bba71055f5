//! What page and server tell each other: the page's messages checked, the server's made.

use crate::placement::Placement;
use koel_spatial::intersect::{Boolean, Label, Side, Timings};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The largest message that a page may send, in bytes.
pub const LARGEST_REQUEST: usize = 4096;
/// First word of a message of points.
pub const POINTS: u32 = 1;
/// First word of a frame.
pub const FRAME: u32 = 2;
/// Words before a frame's labels: kind, number, method; rotation, translation; two times four
/// counts; stages.
pub const FRAME_WORDS: usize = 3 + 4 + 3 + 8 + STAGES.len();
/// The stages whose milliseconds a frame tells.
pub const STAGES: [&str; 6] = ["voxelize", "build", "intersect", "seed", "fill", "read back"];
/// Points of one message, at most.
const POINTS_A_MESSAGE: usize = 1 << 16;
/// How far the length of a rotation's quaternion may be from 1.
const UNIT_TOLERANCE: f64 = 1e-3;

/// How inside is told from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// Winding numbers.
    #[default]
    Robust,
    /// Seeds and flood, as published in 2009.
    Paper,
}

/// Where B is to stand, and how labels are found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wanted {
    /// Turned by this unit quaternion x, y, z, w around its centre.
    pub rotation: [f64; 4],
    /// Then moved.
    pub translation: [f64; 3],
    /// By this method.
    pub method: MethodName,
}
impl Wanted {
    /// As the files put the clouds.
    pub fn as_given(method: MethodName) -> Wanted {
        Wanted { rotation: [0.0, 0.0, 0.0, 1.0], translation: [0.0; 3], method }
    }
    /// Rows of the rotation (L. Euler 1770; W. R. Hamilton 1844).
    pub fn rotation_rows(&self) -> [[f64; 3]; 3] {
        let [x, y, z, w] = self.rotation;
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    }
}

/// A message of the page.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// B is to be turned and moved.
    Pose {
        /// x, y, z, w.
        rotation: [f64; 4],
        /// From where the file puts it.
        translation: [f64; 3],
    },
    /// Another method.
    Method {
        /// Which.
        name: MethodName,
    },
    /// A frame has arrived.
    Shown {
        /// Its number.
        frame: u32,
    },
}

/// Why a message of the page is refused.
#[derive(Debug, Error)]
pub enum Refused {
    /// It is none of those there are.
    #[error("not understood: {0}")]
    Unknown(#[from] serde_json::Error),
    /// A binary message.
    #[error("{0} bytes of a binary message, expected JSON as text")]
    Binary(usize),
    /// A rotation that is none.
    #[error("the rotation {rotation:?} has the length {length}, expected 1")]
    NotUnit {
        /// As it was sent.
        rotation: [f64; 4],
        /// Of the quaternion.
        length: f64,
    },
    /// A place outside the grid.
    #[error("moved by {translation:?}, the centres are {distance} apart, expected at most {reach}")]
    OutOfReach {
        /// As it was sent.
        translation: [f64; 3],
        /// Of the centres.
        distance: f64,
        /// The most.
        reach: f64,
    },
    /// A frame that is not on its way.
    #[error("frame {frame} is said to have arrived, but {}", match .awaited { Some(n) => format!("{n} is on its way"), None => "none is on its way".into() })]
    NotSent {
        /// Its number.
        frame: u32,
        /// The one on its way.
        awaited: Option<u32>,
    },
}

impl Request {
    /// Of a text message. Poses that are returned are within reach, and their rotations have length
    /// 1.
    pub fn parse(text: &str, placement: &Placement) -> Result<Request, Refused> {
        let request = serde_json::from_str(text)?;
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

/// The server's JSON messages.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Reply<'a> {
    /// The first.
    Scene(Box<SceneReply<'a>>),
    /// A message was refused, or a frame failed; the connection goes on unless it is closed after
    /// it.
    Error {
        /// Why.
        message: String,
    },
}
impl Reply<'_> {
    /// As text.
    pub fn json(&self) -> String {
        // Strings, finite numbers and lists only: there is nothing that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }
}
/// What a page must know of a scene.
#[derive(Serialize)]
pub struct SceneReply<'a> {
    /// A, B.
    pub clouds: [CloudReply<'a>; 2],
    /// From A's centre to B's where the files put them.
    pub apart: [f64; 3],
    /// How far apart the centres may be.
    pub reach: f64,
    /// Voxels a side.
    pub grid: u32,
    /// The side of one.
    pub voxel_size: f64,
    /// Its name.
    pub device: &'a str,
    /// The one at first.
    pub method: MethodName,
    /// Whether B is to move at first.
    pub animate: bool,
    /// At their numbers.
    pub labels: [&'static str; 4],
    /// In order.
    pub stages: [&'static str; 6],
    /// All.
    pub booleans: [BooleanReply; 4],
    /// What people should know of the clouds.
    pub notes: &'a [String],
}
/// One cloud.
#[derive(Serialize)]
pub struct CloudReply<'a> {
    /// Of its file.
    pub name: &'a str,
    /// How many.
    pub points: usize,
    /// Of the ball around it.
    pub radius: f64,
}
/// A Boolean, and which points bound it.
#[derive(Serialize)]
pub struct BooleanReply {
    name: &'static str,
    /// Of A, of B: by label.
    keeps: [[bool; 4]; 2],
}
impl BooleanReply {
    /// All of them.
    pub fn all() -> [BooleanReply; 4] {
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
/// Names of the labels, at their numbers.
pub fn label_names() -> [&'static str; 4] {
    Label::ALL.map(|label| match label {
        Label::Unknown => "unknown",
        Label::Intersection => "intersection",
        Label::Inside => "inside",
        Label::Outside => "outside",
    })
}

/// Messages with a cloud's points, from the middle of its ball.
pub fn points(
    side: Side,
    positions: &[[f32; 3]],
    normals: &[[f32; 3]],
    centre: [f64; 3],
) -> Vec<Vec<u8>> {
    let pieces = positions.chunks(POINTS_A_MESSAGE).zip(normals.chunks(POINTS_A_MESSAGE));
    let mut messages = vec![];
    for (piece, (positions, normals)) in pieces.enumerate() {
        let mut bytes = Vec::with_capacity(16 + 16 * positions.len());
        for word in [POINTS, side as u32, (piece * POINTS_A_MESSAGE) as u32, positions.len() as u32]
        {
            bytes.extend(word.to_le_bytes());
        }
        for p in positions {
            let from_centre = |a: usize| (f64::from(p[a]) - centre[a]) as f32;
            (0..3).for_each(|a| bytes.extend(from_centre(a).to_le_bytes()));
        }
        for n in normals {
            let length = n.iter().map(|c| c * c).sum::<f32>().sqrt();
            let byte = |c: f32| if length > 0.0 { (c / length * 127.0).round() as i8 } else { 0 };
            bytes.extend([byte(n[0]), byte(n[1]), byte(n[2]), 0].map(|b| b as u8));
        }
        messages.push(bytes);
    }
    messages
}

/// What stands before a frame's labels.
pub struct FrameHeader {
    /// The viewer's count of its frames.
    pub number: u32,
    /// What was asked for.
    pub wanted: Wanted,
    /// Of the stages.
    pub timings: Timings,
    /// Milliseconds of getting the labels.
    pub read_back: f64,
}
impl FrameHeader {
    /// Into a message that has `FRAME_WORDS` words and the labels behind them: A's `points_of_a`,
    /// then B's. Counts the labels.
    pub fn write(&self, message: &mut [u8], points_of_a: usize) {
        let (head, labels) = message.split_at_mut(4 * FRAME_WORDS);
        let (of_a, of_b) = labels.split_at(points_of_a);
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
            .chain(stages.map(|ms| (ms as f32).to_bits()));
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
        )
        .unwrap();
        assert_eq!(
            pose,
            Request::Pose { rotation: [0.0, 0.0, 0.0, 1.0], translation: [1.5, 0.0, 0.0] }
        );
        let method = Request::parse(r#"{"type":"method","name":"paper"}"#, &p).unwrap();
        assert_eq!(method, Request::Method { name: MethodName::Paper });
        assert_eq!(
            Request::parse(r#"{"type":"shown","frame":7}"#, &p).unwrap(),
            Request::Shown { frame: 7 }
        );
        for (text, why) in [
            ("", "not understood"),
            ("{}", "missing field `type`"),
            ("[1,2]", "not understood"),
            (r#"{"type":"shutdown"}"#, "unknown variant"),
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
            let refused = Request::parse(text, &p).unwrap_err().to_string();
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
        let wanted = Wanted { translation: [1.0, 2.0, 3.0], ..Wanted::as_given(MethodName::Paper) };
        let timings = Timings { voxelize: 1.0, build: 2.0, intersect: 3.0, seed: 4.0, fill: 5.0 };
        let header = FrameHeader { number: 9, wanted, timings, read_back: 6.0 };
        let mut message = vec![0; 4 * FRAME_WORDS];
        message.extend([0, 1, 1, 2, 3, 3, 3]);
        header.write(&mut message, 4);
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
