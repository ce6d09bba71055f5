//! What a search finds out about a model.
use crate::affine::Affine;
use crate::agreement::Agreement;
use crate::homography::Homography;

/// Factor of the required evidence from which on no further stage is searched, if luminance is
/// nearly proof too.
pub(crate) const PROVED: f32 = 3.0;

/// Pose of a model in a scene.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// Map from pixels of the model image to pixels of the scene image. Its determinant is negative
    /// if the model is mirrored.
    pub map: Affine,
    /// The same map in perspective, if the scene shows the model so clearly tilted that it has more
    /// evidence: see
    /// [`Options::perspective`](crate::Options::perspective).
    pub homography: Option<Homography>,
    /// Whether dark and bright are exchanged: see
    /// [`Options::negative`](crate::Options::negative).
    pub negative: bool,
    /// Whether the scene shows a part of the model: see
    /// [`find_part`](crate::Matcher::find_part).
    pub part: bool,
    /// Number of model points that lie on edges of the scene.
    pub votes: usize,
    /// Number of contour points within 3 pixels of an edge of the scene.
    pub inliers: usize,
    /// Root mean square of the inliers' distances across the edge, in scene pixels.
    pub rmse: f32,
    /// Positions of the inliers in the scene image.
    pub inlier_points: Vec<(f32, f32)>,
}

impl Found {
    /// Returns a pose without votes and inliers. Another method sets the fields that it knows.
    pub fn at(map: Affine) -> Found {
        Found {
            map,
            homography: None,
            negative: false,
            part: false,
            votes: 0,
            inliers: 0,
            rmse: 0.0,
            inlier_points: vec![],
        }
    }
}

/// Result for one model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MatchOutcome {
    /// Pose of the model; `None` if it is absent.
    pub found: Option<Found>,
    /// Evidence for the best pose, in nats; at least
    /// [`Options::evidence`](crate::Options::evidence) if found.
    pub evidence: f32,
    /// Comparison of the luminance of model and scene under the best pose; `None` without a pose,
    /// or for a model from a file of version 1.
    pub agreement: Option<Agreement>,
    /// Fraction of the colour of model and scene that agrees under the best pose; `None` unless
    /// both have colour and it was compared.
    pub colour: Option<f32>,
    /// Why the best pose is not accepted.
    pub doubt: Option<Doubt>,
    /// Position of the model's centre, in scene pixels, for each candidate of the votes, and its
    /// evidence in nats.
    pub hypotheses: Vec<((f32, f32), f32)>,
    /// Seconds for tables and votes, refinement, and verdict. In a search for many models, the
    /// share of this model.
    pub seconds: [f64; 3],
}
impl MatchOutcome {
    /// Outcome of a search that finds nothing. Another method sets the fields that it knows.
    pub const NOTHING: MatchOutcome = MatchOutcome {
        found: None,
        evidence: 0.0,
        agreement: None,
        colour: None,
        doubt: None,
        hypotheses: vec![],
        seconds: [0.0; 3],
    };

    /// Returns whether a further search can improve little: the model is found, and its visible
    /// parts lie where the map says, or edges and luminance both prove it. A bent model may lie
    /// better elsewhere, and so may one that agrees in part, if it repeats itself: a second stage
    /// tells.
    pub(crate) fn is_settled(&self, stages: usize, required: f32) -> bool {
        let is_proved = self.evidence >= PROVED * required;
        let settles = |a: Agreement| match a.is_whole() {
            true => a.is_precise() || is_proved && a.is_strong(),
            false => stages > 1 && (a.is_precise() || is_proved && a.is_strong()),
        };
        self.found.is_some() && self.agreement.is_none_or(settles)
    }
    /// Adds the result of a further search: keeps the pose that is accepted; of two, the one in
    /// which more agrees, or else the one with more evidence.
    pub(crate) fn merge(&mut self, mut other: MatchOutcome) {
        let rank = |o: &MatchOutcome| {
            let agreeing = o.agreement.map_or(0.0, |a| a.agreeing);
            (o.found.is_some(), if o.found.is_some() { agreeing } else { 0.0 }, o.evidence)
        };
        if rank(&other) > rank(self) {
            std::mem::swap(self, &mut other);
        }
        self.hypotheses.append(&mut other.hypotheses);
        self.seconds.iter_mut().zip(other.seconds).for_each(|(all, s)| *all += s);
    }
}

/// Reason why a pose is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// The evidence from edges is less than [`Options::evidence`](crate::Options::evidence).
    Evidence,
    /// The scale or the tilt of the pose is outside the range that is searched.
    Range,
    /// The scene has edges like the model's, but does not look like it: see [`Agreement`].
    Agreement,
    /// The scene has the model's luminance, but other colours.
    Colour,
    /// No map of the allowed [`Freedom`](crate::Freedom) lies on the edges.
    Freedom,
}
impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Doubt::Evidence => "not enough evidence for it",
            Doubt::Range => "its pose would be outside the range of scales and tilts",
            Doubt::Agreement => "edges like its own, but the picture differs",
            Doubt::Colour => "it looks alike, but its colours differ",
            Doubt::Freedom => "no map of the allowed kind",
        })
    }
}
