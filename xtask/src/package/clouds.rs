//! A user's library: neighbours of points, and a search for one image in another.
use koel::Device;
use koel_spatial::SpatialHash;
use koel_vision::{Matcher, Model, Options, synthetic::texture};

/// Returns the points within a distance of 1 of the first.
pub fn near(points: &[[f32; 3]]) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
    let hash = SpatialHash::build(&Device::cpu()?, points, 1.0)?;
    Ok(hash.within(&points[..1], 1.0)?.of(0).to_vec())
}

/// Returns whether an image is found inside another.
pub fn found() -> Result<bool, Box<dyn std::error::Error>> {
    let matcher = Matcher::new(&Device::cpu()?, Options::default())?;
    let (model, scene) = (texture(160, 120, 1), texture(300, 220, 2));
    Ok(matcher.find(&Model::of(&model)?, &matcher.scene(&scene)?)?.found.is_some())
}
