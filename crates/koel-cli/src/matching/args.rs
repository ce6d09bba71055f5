//! Options of `koel match` and `koel models`.
use crate::failure::{Failure, Outcome};
use koel_vision::Freedom;
use koel_vision::paper::Features;
use std::path::{Path, PathBuf};

const MATCH_EXAMPLES: &str = "\
Examples:
  koel match box.png scene.png                             find the box, or report no match
  koel match box.png scene.png --json - --overlay out.png  print JSON and draw the match
  koel match box.png frames/ --json -                      search every image of a folder
  koel match box.png frame-%04d.png --overlay out-%04d.png
  koel match --models signs.koelmodels street.jpg          search for many models
  koel match --models signs.koelmodels frames/ --quick --json -

The JSON of a folder or pattern has one object per line. Exit status: 0 whether found or not, 2 if
an image cannot be read.";

/// Find an image inside another, from edges alone
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = MATCH_EXAMPLES)]
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
    /// Points that --method paper uses: edges or corners
    #[arg(long, value_name = "KIND", default_value = "edges")]
    pub features: Features,
    /// Do less work, in one stage and at scales of 0.45 to 1.5: for many models that are clearly
    /// visible
    #[arg(long)]
    pub quick: bool,
    /// Draw the scene with the model's outline and inliers to this file; for frames, a pattern such
    /// as out-%04d.png
    #[arg(long, value_name = "FILE.png")]
    pub overlay: Option<PathBuf>,
    /// Draw the votes for each position of the model's centre to this file; for frames, a pattern
    #[arg(long, value_name = "FILE.png")]
    pub votes: Option<PathBuf>,
}

/// Matching method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Method {
    /// Oriented edges, likelihoods and refinement; for photographs
    Default,
    /// Geometric hashing of points, as published (Alcantara et al. 2009); for comparison
    Paper,
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
        if self.features == Features::Corners {
            let refused = |why: &str| Err(Failure::Usage(format!("--features corners: {why}")));
            match (self.method, &self.models) {
                (Method::Default, _) => return refused("only for --method paper"),
                (_, Some(_)) => return refused("a file of models holds only edges"),
                _ => (),
            }
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
    /// Returns the transformations of the published method: similarities by default.
    pub(crate) fn paper_freedom(&self) -> Freedom {
        match self.basis {
            Allowed::Only(freedom) => freedom,
            Allowed::Auto => Freedom::Similarity,
        }
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
