//! Options of the default matcher.
use crate::bases::Pass;
use crate::fit::Freedom;

/// Options of a [`Matcher`](crate::Matcher).
///
/// ```
/// use koel_vision::{Freedom, Options, Pass};
///
/// let pass = Pass::default().with_bases(60).with_tilts(vec![(1.4, 4)]);
/// let options =
///     Options::quick().with_seed(7).with_freedom(Freedom::Rigid).with_passes(vec![pass]);
/// assert_eq!(options.freedom, Some(Freedom::Rigid));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of all random choices.
    pub seed: u64,
    /// Minimum evidence, in nats, for a model to count as present.
    pub evidence: f32,
    /// Allowed maps; `None`: affine.
    pub freedom: Option<Freedom>,
    /// Searches, in the order of [`stages`](Self::stages).
    pub passes: Vec<Pass>,
    /// Number of passes in each stage: their candidates are refined together, and models that are
    /// not found go on to the next stage. Passes beyond the sum are in the last stage.
    pub stages: Vec<usize>,
    /// Whether luminance must agree, beside edges.
    pub agreement: bool,
    /// Whether colour must agree, if model and scene have any.
    pub colour: bool,
    /// Whether [`find`](crate::Matcher::find) also searches reduced versions of model and scene,
    /// for scales of 0.25 to 4, and compares models of few pixels with every place of the scene.
    pub wide: bool,
    /// Whether a model may also be mirrored: the map then has a negative determinant. What is not
    /// found takes twice the time.
    pub mirrored: bool,
    /// Whether a model may also be negative, with dark and bright exchanged. What is not found
    /// takes twice the time, with [`mirrored`](Self::mirrored) four times.
    pub negative: bool,
    /// Whether the affine map of a model that is found is refined to a homography. Ignored unless
    /// [`freedom`](Self::freedom) is affine.
    pub perspective: bool,
    /// Number of candidates per model kept after each of three refinements; half as many in the
    /// first of several stages.
    pub kept: [usize; 3],
}
impl Default for Options {
    /// Returns a pass of many short bases, which most models in a scene are found by; for the
    /// others, one of long bases and one with eleven tilts.
    fn default() -> Options {
        let long = Pass {
            tilts: vec![],
            bases: 48,
            lengths: (0.25, 0.6),
            scene_points: 1200,
            scales: (0.45, 1.6),
            a_point: 3,
            quota: 500,
            around: 0.5,
        };
        let tilted = Pass {
            tilts: vec![(1.4, 4), (1.9, 6)],
            bases: 16,
            lengths: (0.15, 0.5),
            scene_points: 1000,
            a_point: 4,
            quota: 800,
            ..long.clone()
        };
        let short = Pass::default();
        let shortest = Pass { bases: 40, scene_points: 1500, quota: 200, ..short.clone() };
        Options {
            seed: 1,
            evidence: 30.0,
            freedom: None,
            passes: vec![shortest, short, long, tilted],
            stages: vec![1, 1, 2],
            agreement: true,
            colour: true,
            wide: true,
            mirrored: false,
            negative: false,
            perspective: true,
            kept: [200, 20, 4],
        }
    }
}
impl Options {
    /// Returns options with a single stage and little work per model: for many models that are
    /// clearly visible.
    pub fn quick() -> Options {
        let level = Pass {
            tilts: vec![],
            bases: 48,
            lengths: (0.3, 0.75),
            scene_points: 900,
            scales: (0.6, 1.5),
            a_point: 2,
            quota: 150,
            around: 0.5,
        };
        let tilted = Pass {
            tilts: vec![(1.4, 4), (1.9, 6)],
            bases: 12,
            scene_points: 600,
            scales: (0.45, 1.5),
            ..level.clone()
        };
        Options {
            passes: vec![level, tilted],
            stages: vec![],
            wide: false,
            perspective: false,
            kept: [60, 10, 2],
            ..Options::default()
        }
    }
}

koel::option_setters! { Options:
    seed by with_seed: u64;
    evidence by with_evidence: f32;
    freedom by with_freedom: impl Into<Option<Freedom>>;
    passes by with_passes: Vec<Pass>;
    stages by with_stages: Vec<usize>;
    agreement by with_agreement: bool;
    colour by with_colour: bool;
    wide by with_wide: bool;
    mirrored by with_mirrored: bool;
    negative by with_negative: bool;
    perspective by with_perspective: bool;
    kept by with_kept: [usize; 3];
}
