//! Results as JSON and as text.
use koel_vision::{Found, MatchOutcome};
use serde::Serialize;

/// The JSON of one scene.
#[derive(Serialize)]
pub(super) struct MatchReport {
    pub found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix: Option<[[f32; 3]; 2]>,
    /// The map in perspective, if it fits clearly better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homography: Option<[[f64; 3]; 3]>,
    pub votes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse_px: Option<f32>,
    pub inliers: usize,
    /// Name of the model, if one is found or only one was searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub scene: String,
    /// The model is found as a negative.
    #[serde(skip_serializing_if = "is_false")]
    pub negative: bool,
    /// What is odd about the scene: it shows only a part of the model, or its file ends early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Evidence for the best pose, in nats.
    pub evidence: f32,
    /// Fraction of the model's structure that looks the same in the scene, if compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f32>,
    /// Fraction of the colour that agrees, if both pictures have any and it was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour_agreement: Option<f32>,
    /// Number of instances of the model, if all are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<usize>,
    /// Why nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// All models or instances that were found, best first, if several were searched for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Match>,
    pub timings_ms: Timings,
}
/// One of several models or instances that were found.
#[derive(Serialize)]
pub(super) struct Match {
    pub model: String,
    pub matrix: [[f32; 3]; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homography: Option<[[f64; 3]; 3]>,
    #[serde(skip_serializing_if = "is_false")]
    pub negative: bool,
    pub votes: usize,
    pub rmse_px: f32,
    pub inliers: usize,
    pub evidence: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour_agreement: Option<f32>,
}
/// Times of the steps.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Timings {
    pub read: f64,
    pub features: f64,
    pub vote: f64,
    pub refine: f64,
    pub verdict: f64,
    pub total: f64,
}

/// What the report says of a scene that lies inside the model, and of one that the model leaves on
/// some sides only.
pub(super) const PART: &str = "the scene is a part of the model";
pub(super) const SHOWS_PART: &str = "the scene shows a part of the model";

fn is_false(value: &bool) -> bool {
    !value
}
pub(super) fn matrix(found: &Found) -> [[f32; 3]; 2] {
    let ([[a, b], [c, d]], [x, y]) = (found.map.linear, found.map.shift);
    [[a, b, x], [c, d, y]]
}

impl MatchReport {
    /// Reports that nothing was found, and why.
    pub(super) fn nothing(
        scene: String,
        model: Option<String>,
        evidence: f32,
        reason: String,
    ) -> MatchReport {
        MatchReport {
            found: false,
            matrix: None,
            homography: None,
            votes: 0,
            rmse_px: None,
            inliers: 0,
            model,
            scene,
            negative: false,
            note: None,
            evidence,
            agreement: None,
            colour_agreement: None,
            instances: None,
            reason: Some(reason),
            matches: vec![],
            timings_ms: Timings::default(),
        }
    }
    /// Reports a model that was found.
    pub(super) fn found(
        scene: String,
        model: String,
        outcome: &MatchOutcome,
        found: &Found,
    ) -> MatchReport {
        MatchReport {
            found: true,
            matrix: Some(matrix(found)),
            homography: found.homography.map(|h| h.rows),
            votes: found.votes,
            rmse_px: Some(found.rmse),
            inliers: found.inliers,
            negative: found.negative,
            agreement: outcome.agreement.map(|a| a.share()),
            colour_agreement: outcome.colour,
            reason: None,
            ..MatchReport::nothing(scene, Some(model), outcome.evidence, String::new())
        }
    }
    /// Adds the agreement of colours.
    pub(super) fn with_colour(self, colour_agreement: Option<f32>) -> MatchReport {
        MatchReport { colour_agreement, ..self }
    }
    /// Returns what is unusual about a match, each after a comma.
    fn remarks(&self, mirrored: bool) -> String {
        let several = self.instances.map(|n| format!("the best of {n}"));
        let note = self.note.clone();
        let looks = [mirrored.then_some("mirrored"), self.negative.then_some("negative")];
        let looks = looks.into_iter().flatten().map(str::to_owned);
        looks.chain(several).chain(note).map(|remark| format!(", {remark}")).collect()
    }
    /// Formats the report as one line for people, and one for each further instance.
    pub(super) fn line(&self) -> String {
        let ms = self.timings_ms.total;
        let place = |[[a, b, x], [c, d, y]]: &[[f32; 3]; 2]| {
            format!("[[{a:.4}, {b:.4}, {x:.2}], [{c:.4}, {d:.4}, {y:.2}]]")
        };
        match (&self.matrix, &self.model, &self.reason) {
            (Some(matrix @ [[a, b, _], [c, d, _]]), Some(model), _) => {
                let others = self.matches.iter().skip(1).filter(|_| self.instances.is_some());
                let others =
                    others.map(|m| format!("{}: {model} at {}\n", self.scene, place(&m.matrix)));
                format!(
                    "{}: {model} at {}{}, {} inliers, {:.2} px, {ms:.0} ms\n{}",
                    self.scene,
                    place(matrix),
                    self.remarks(a * d - b * c < 0.0),
                    self.inliers,
                    self.rmse_px.unwrap_or_default(),
                    others.collect::<String>(),
                )
            }
            (_, _, reason) => {
                let note = self.note.iter().map(|note| format!(", {note}")).collect::<String>();
                format!(
                    "{}: not found: {}{note}, {ms:.0} ms\n",
                    self.scene,
                    reason.as_deref().unwrap_or_default()
                )
            }
        }
    }
}
