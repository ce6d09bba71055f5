//! The models that are searched for and the method that searches. Each method computes only what
//! it needs of models and scenes.
use super::args::MatchArgs;
#[cfg(feature = "bench")]
use super::model_of;
use crate::failure::Outcome;
use crate::{Global, device};
#[cfg(feature = "bench")]
use koel::Stream;
use koel_vision::{JointTable, Matcher, Model, Models, Options, Picture, Scene};
#[cfg(feature = "bench")]
use koel_vision_classic::{PaperOptions, match_images, match_model};
use std::cell::OnceCell;
use std::time::Instant;

/// What is searched for.
pub(super) enum Sought {
    /// One image, for the published method.
    #[cfg(feature = "bench")]
    Image { name: String, image: Box<Picture> },
    /// Models of edges, and the picture of the only one if it is known.
    Models { models: Models, image: Option<Box<Picture>> },
}
impl Sought {
    /// Returns names and sizes, in pixels, of the models, in order.
    pub(super) fn models(&self) -> Vec<(&str, (usize, usize))> {
        match self {
            #[cfg(feature = "bench")]
            Sought::Image { name, image } => vec![(name, (image.grey.width, image.grey.height))],
            Sought::Models { models, .. } => {
                models.iter().map(|(name, model)| (name, model.size())).collect()
            }
        }
    }
}

/// Prepared search by one of the methods.
enum Method {
    Default(Box<ByEdges>),
    #[cfg(feature = "bench")]
    Paper(Box<ByPoints>),
}
/// The published method, whose poses the default one judges.
#[cfg(feature = "bench")]
struct ByPoints {
    stream: Stream,
    options: PaperOptions,
    matcher: Matcher,
}
/// The default method.
struct ByEdges {
    matcher: Matcher,
    table: JointTable,
    /// The image of the only model as a scene, made when a scene may be a part of it.
    of_image: OnceCell<Scene>,
    is_quick: bool,
    finds_all: bool,
}

/// Prepared search for models.
pub(super) struct Finder {
    pub(super) sought: Sought,
    method: Method,
}
/// Outcomes in one scene.
pub(super) struct Outcomes {
    /// One for every model, in order; or one for every instance of the only model.
    pub of_models: Vec<koel_vision::MatchOutcome>,
    /// Seconds for the features of the scene; by the published method, of the models too.
    pub features: f64,
    /// Whether the scene is known to have no edges.
    pub is_blank: bool,
}
impl Finder {
    /// Opens the device and prepares the models there, as the method needs.
    pub(super) fn new(global: &Global, args: &MatchArgs, sought: Sought) -> Outcome<Finder> {
        let opened = device::open(global.device, global.threads)?;
        #[cfg(feature = "bench")]
        if let Some(options) = args.paper(global.seed) {
            let judge = Options::default().with_colour(args.matches_colour());
            let matcher = Matcher::new(&opened.device, judge)?;
            let by_points = ByPoints { stream: opened.device.stream()?, options, matcher };
            return Ok(Finder { sought, method: Method::Paper(Box::new(by_points)) });
        }
        let options = if args.quick { Options::quick() } else { Options::default() };
        let options = options.with_seed(global.seed).with_freedom(args.freedom());
        let options = options.with_mirrored(args.mirrored).with_negative(args.negative);
        let options = options.with_colour(args.matches_colour());
        let matcher = Matcher::new(&opened.device, options)?;
        let models: Vec<_> = match &sought {
            #[cfg(feature = "bench")]
            Sought::Image { .. } => vec![],
            Sought::Models { models, .. } => models.iter().map(|(_, model)| model).collect(),
        };
        let table = matcher.table(models)?;
        let of_image = OnceCell::new();
        let (is_quick, finds_all) = (args.quick, args.all);
        let default = ByEdges { matcher, table, of_image, is_quick, finds_all };
        Ok(Finder { sought, method: Method::Default(Box::new(default)) })
    }
    /// Searches a scene for all models.
    pub(super) fn search(&self, picture: &Picture) -> koel::Result<Outcomes> {
        let begin = Instant::now();
        match &self.method {
            Method::Default(default) => {
                let scene = scene_of(&default.matcher, picture)?;
                let features = begin.elapsed().as_secs_f64();
                let of_models = default.search(&self.sought, picture, &scene)?;
                Ok(Outcomes { of_models, features, is_blank: scene.edges() == 0 })
            }
            #[cfg(feature = "bench")]
            Method::Paper(published) => {
                let of_models = published.search(&self.sought, picture)?;
                let others = of_models.iter().flat_map(|o| o.seconds).sum::<f64>();
                let features = (begin.elapsed().as_secs_f64() - others).max(0.0);
                Ok(Outcomes { of_models, features, is_blank: false })
            }
        }
    }
}
#[cfg(feature = "bench")]
impl ByPoints {
    fn search(
        &self,
        sought: &Sought,
        picture: &Picture,
    ) -> koel::Result<Vec<koel_vision::MatchOutcome>> {
        let ByPoints { stream, options, matcher } = self;
        let scene = OnceCell::new();
        let judged = |model: &Model, outcome: koel_vision::MatchOutcome| match outcome.found {
            Some(_) => matcher.confirmed(model, made_once(&scene, matcher, picture)?, outcome),
            None => Ok(outcome),
        };
        match sought {
            Sought::Image { image, .. } => {
                let outcome = match_images(stream, &image.grey, &picture.grey, options)?;
                // A model with too few edges has nothing else to be judged by.
                match outcome.found.is_some().then(|| model_of(image)) {
                    Some(Ok(model)) => Ok(vec![judged(&model, outcome)?]),
                    _ => Ok(vec![outcome]),
                }
            }
            Sought::Models { models, .. } => {
                let one =
                    |(_, model)| judged(model, match_model(stream, model, &picture.grey, options)?);
                models.iter().map(one).collect()
            }
        }
    }
}
/// Makes the scene of a picture.
fn scene_of(matcher: &Matcher, picture: &Picture) -> koel::Result<Scene> {
    Ok(matcher.scene(&picture.grey)?.with_colours(picture.colours.clone()))
}
/// Returns the scene of a picture, which is made when it is first needed.
fn made_once<'c>(
    scene: &'c OnceCell<Scene>,
    matcher: &Matcher,
    picture: &Picture,
) -> koel::Result<&'c Scene> {
    if let Some(scene) = scene.get() {
        return Ok(scene);
    }
    let made = scene_of(matcher, picture)?;
    Ok(scene.get_or_init(|| made))
}
impl ByEdges {
    /// Returns the outcome for every model, in order.
    #[cfg_attr(
        not(feature = "bench"),
        expect(irrefutable_let_patterns, reason = "only the published method takes images")
    )]
    fn search(
        &self,
        sought: &Sought,
        picture: &Picture,
        scene: &Scene,
    ) -> koel::Result<Vec<koel_vision::MatchOutcome>> {
        // A single model is also searched for at scales beyond those of the table.
        if let Sought::Models { models, image } = sought {
            let mut models = models.iter();
            if let (Some((_, model)), None) = (models.next(), models.next()) {
                let outcome = self.search_one(model, image.as_deref(), scene)?;
                return match self.finds_all {
                    true => self.matcher.find_others(model, picture, outcome),
                    false => Ok(vec![outcome]),
                };
            }
        }
        let outcomes = self.matcher.find_all(&self.table, scene)?;
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }
    /// Returns the outcome for the only model. What is not found may be larger than the scene.
    fn search_one(
        &self,
        model: &Model,
        image: Option<&Picture>,
        scene: &Scene,
    ) -> koel::Result<koel_vision::MatchOutcome> {
        let mut outcome = self.matcher.find(model, scene)?;
        let Some(image) = image.filter(|_| !self.is_quick && outcome.found.is_none()) else {
            return Ok(outcome);
        };
        let picture = made_once(&self.of_image, &self.matcher, image)?;
        let mut part = self.matcher.find_part(picture, scene)?;
        let seconds = std::array::from_fn(|k| outcome.seconds[k] + part.seconds[k]);
        if part.found.is_some() {
            part.hypotheses = std::mem::take(&mut outcome.hypotheses);
            outcome = part;
        }
        outcome.seconds = seconds;
        Ok(outcome)
    }
}
