//! Options of `koel match` and `koel models`.
#[cfg(feature = "bench")]
use super::paper::{Given, PaperArgs};
use crate::failure::{Failure, Outcome};
#[cfg(feature = "bench")]
use koel_vision::Features;
use koel_vision::Freedom;
#[cfg(feature = "bench")]
use koel_vision_classic::PaperOptions;
use std::path::{Path, PathBuf};

#[cfg(not(feature = "bench"))]
const PAPER_EXAMPLES: &str = "";
#[cfg(feature = "bench")]
const PAPER_EXAMPLES: &str = "
  koel match box.png scene.png --method paper --basis affine --candidates 40
  koel match box.png scene.png --method paper --published --basis similarity --lookup search";

/// Returns the examples of `koel match`.
fn match_examples() -> String {
    format!(
        "\
Examples:
  koel match box.png scene.png                             find the box, or report no match
  koel match box.png scene.png --json - --overlay out.png  print JSON and draw the match
  koel match box.png frames/ --json -                      search every image of a folder
  koel match box.png frame-%04d.png --overlay out-%04d.png
  koel match box.png scene.png --mirrored --negative       find it as in a mirror, or a negative
  koel match box.png scene.png --colour ignore --all       every box, whatever its colour
  koel match --models signs.koelmodels street.jpg          search for many models
  koel match --models signs.koelmodels frames/ --quick --json -{PAPER_EXAMPLES}

The JSON of a folder or pattern has one object per line. Exit status: 0 whether found or not, 2 if
an image cannot be read."
    )
}

/// Find an image inside another: by its edges, then by luminance and colour
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = match_examples())]
pub(crate) struct MatchArgs {
    /// Image to find, then where to search: an image, a folder of frames, or a pattern of frames
    /// (%04d). With --models, only the latter
    #[arg(value_names = ["MODEL", "SCENE"], num_args = 1..=2, required = true)]
    images: Vec<PathBuf>,
    /// Search for the models in this file, made by `koel models`, instead of MODEL
    #[arg(long, value_name = "DB")]
    models: Option<PathBuf>,
    /// Allowed transformations: rigid, similarity, affine or auto
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = freedom)]
    basis: Allowed,
    /// Matching method
    #[arg(long, value_enum, default_value_t = Method::Default)]
    pub method: Method,
    /// Do less work, in one stage and at scales of 0.45 to 1.5: for many models that are clearly
    /// visible
    #[arg(long)]
    pub quick: bool,
    /// Also find mirrored models, whose matrix has a negative determinant. What is absent takes
    /// twice the time
    #[arg(long)]
    pub mirrored: bool,
    /// Also find negatives, with dark and bright exchanged. What is absent takes twice the time,
    /// four times with --mirrored
    #[arg(long)]
    pub negative: bool,
    /// Whether colours must match, where model and scene have any [default: match]. Light, white
    /// balance and scenes without colour are allowed for
    #[arg(long, value_enum, value_name = "RULE")]
    colour: Option<Colour>,
    /// Find all instances of MODEL that do not overlap: the report says how many there are
    #[arg(long)]
    pub all: bool,
    /// Draw the scene with the model's outline and inliers to this file; for frames, a pattern such
    /// as out-%04d.png
    #[arg(long, value_name = "FILE.png")]
    pub overlay: Option<PathBuf>,
    /// Draw the votes for each position of the model's centre to this file; for frames, a pattern
    #[arg(long, value_name = "FILE.png")]
    pub votes: Option<PathBuf>,
    #[cfg(feature = "bench")]
    #[command(flatten)]
    paper: Given<PaperArgs>,
}

/// Matching method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Method {
    /// Oriented edges, likelihoods and refinement; for photographs
    Default,
    /// Geometric hashing of points, as published (Alcantara et al. 2009); for comparison
    #[cfg(feature = "bench")]
    Paper,
}

/// Rule for colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Colour {
    /// A red button is no blue one
    Match,
    /// Only edges and luminance count
    Ignore,
}

/// Allowed transformations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Allowed {
    Auto,
    Only(Freedom),
}
fn freedom(text: &str) -> Result<Allowed, String> {
    match text {
        "auto" => Ok(Allowed::Auto),
        _ => text
            .parse()
            .map(Allowed::Only)
            .map_err(|_| "expected rigid, similarity, affine or auto".into()),
    }
}

/// What to search for.
pub(crate) enum Wanted<'a> {
    Model(&'a Path),
    Models(&'a Path),
}

impl MatchArgs {
    /// Returns what to search for, and where.
    pub(crate) fn sides(&self) -> Outcome<(Wanted<'_>, &Path)> {
        #[cfg(feature = "bench")]
        self.check_method()?;
        if self.models.is_some() && self.all {
            let why = "--all: for one MODEL; with --models, each model is reported once";
            return Err(Failure::Usage(why.into()));
        }
        match (&self.models, self.images.as_slice()) {
            (None, [model, scene]) => Ok((Wanted::Model(model), scene)),
            (Some(models), [scene]) => Ok((Wanted::Models(models), scene)),
            (None, _) => Err(Failure::Usage(
                "expected a MODEL and a SCENE (or --models DB and a SCENE)".into(),
            )),
            (Some(_), _) => {
                Err(Failure::Usage("with --models DB, expected a SCENE and no MODEL".into()))
            }
        }
    }
    /// Rejects options of the other method, and points that a file of models does not hold.
    #[cfg(feature = "bench")]
    fn check_method(&self) -> Outcome {
        if let (Method::Default, Some(option)) = (self.method, &self.paper.first) {
            return Err(Failure::Usage(format!("--{option}: only for --method paper")));
        }
        let looks = [("--mirrored", self.mirrored), ("--negative", self.negative)];
        let others = [("--colour", self.colour.is_some()), ("--all", self.all)];
        let mut options = looks.iter().chain(&others);
        if let (Method::Paper, Some((option, _))) = (self.method, options.find(|o| o.1)) {
            return Err(Failure::Usage(format!("{option}: only for --method default")));
        }
        if self.models.is_some() && self.paper.args.features == Some(Features::Corners) {
            let why = "--features corners: a file of models holds only edges";
            return Err(Failure::Usage(why.into()));
        }
        Ok(())
    }
    /// Returns the options of the published method, similarities by default; `None` for the default
    /// method.
    #[cfg(feature = "bench")]
    pub(crate) fn paper(&self, seed: u64) -> Option<PaperOptions> {
        let freedom = match self.basis {
            Allowed::Only(freedom) => freedom,
            Allowed::Auto => Freedom::Similarity,
        };
        let options = || self.paper.args.options().with_freedom(freedom).with_seed(seed);
        (self.method == Method::Paper).then(options)
    }
    /// Returns whether colours must match.
    pub(crate) fn matches_colour(&self) -> bool {
        self.colour != Some(Colour::Ignore)
    }
    /// Returns the limit on transformations. `None`: as general as the data support.
    pub(crate) fn freedom(&self) -> Option<Freedom> {
        match self.basis {
            Allowed::Only(freedom) if freedom != Freedom::Affine => Some(freedom),
            _ => None,
        }
    }
}

const MODELS_EXAMPLES: &str = "\
Examples:
  koel models add signs.koelmodels stop.png yield.png    creates the file if it is missing
  koel models list signs.koelmodels
  koel models remove signs.koelmodels stop.png";

/// Keep many models in one file, for `koel match --models`
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = MODELS_EXAMPLES)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub change: Change,
}

/// What to do with the file.
#[derive(clap::Subcommand)]
pub(crate) enum Change {
    /// Add images as models, named after their files
    Add {
        /// File of models
        db: PathBuf,
        /// Images to add
        #[arg(required = true)]
        images: Vec<PathBuf>,
    },
    /// List the models
    List {
        /// File of models
        db: PathBuf,
    },
    /// Remove models by name
    Remove {
        /// File of models
        db: PathBuf,
        /// Names of the models to remove
        #[arg(required = true)]
        names: Vec<String>,
    },
}
