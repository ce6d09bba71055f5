//! Several instances of a model in one scene.
use crate::matcher::Matcher;
use crate::model::Model;
use crate::outcome::{Found, MatchOutcome};
use crate::picture::Picture;
use crate::scene::Scene;

/// Maximum number of instances.
const MOST: usize = 100;
/// Pixels around an instance that are covered, too: its edges are smoothed.
const AROUND: f32 = 3.0;

impl Matcher {
    /// Searches a picture for all instances of a model, at most 100. `first` is the outcome of
    /// [`find`](Self::find) there; each instance found is covered before the search for the next,
    /// so that they do not overlap. Returns the outcomes with a pose, in the order in which they
    /// were found, or `first` alone.
    ///
    /// Costs a scene and a search for each instance; of these, the last one finds nothing.
    pub fn find_others(
        &self,
        model: &Model,
        picture: &Picture,
        first: MatchOutcome,
    ) -> koel::Result<Vec<MatchOutcome>> {
        let (mut grey, mut outcomes) = (picture.grey.clone(), vec![first]);
        while let Some(found) = outcomes.last().and_then(|o| o.found.as_ref())
            && outcomes.len() < MOST
            && !found.part
        {
            found.cover(model.size(), &mut grey);
            let scene: Scene = self.scene(&grey)?.with_colours(picture.colours.clone());
            let next = self.find(model, &scene)?;
            if next.found.is_none() {
                break;
            }
            outcomes.push(next);
        }
        Ok(outcomes)
    }
}
impl Found {
    /// Covers the model's place in an image with the mean of what is covered.
    fn cover(&self, (width, height): (usize, usize), image: &mut crate::Grey) {
        let tilted = self.homography.and_then(|h| h.outline(width, height));
        let corners = tilted.unwrap_or_else(|| self.map.outline(width, height));
        let doubled_area = |k: usize| {
            let (a, b) = (corners[k], corners[(k + 1) % 4]);
            a.0 * b.1 - a.1 * b.0
        };
        let sign = (0..4).map(doubled_area).sum::<f32>().signum();
        let is_inside = |(x, y): (f32, f32)| {
            (0..4).all(|k| {
                let (a, b) = (corners[k], corners[(k + 1) % 4]);
                let (dx, dy) = (b.0 - a.0, b.1 - a.1);
                let side = sign * (dx * (y - a.1) - dy * (x - a.0));
                side >= -AROUND * dx.hypot(dy)
            })
        };
        let w = image.width;
        let inside = |i: usize| is_inside(((i % w) as f32, (i / w) as f32));
        let covered = (0..image.pixels.len()).filter(|&i| inside(i)).collect::<Vec<usize>>();
        let sum = covered.iter().map(|&i| image.pixels[i]).sum::<f32>();
        let mean = sum / covered.len().max(1) as f32;
        covered.iter().for_each(|&i| image.pixels[i] = mean);
    }
}
