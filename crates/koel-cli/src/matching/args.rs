//! What `koel match` and `koel models` understand.
use crate::failure::{Failure, Outcome};
use koel_vision::Freedom;
use koel_vision::paper::Features;
use std::path::{Path, PathBuf};

const MATCH_EXAMPLES: &str = "\
Examples:
  koel match box.png scene.png                             where the box is, or that it is not there
  koel match box.png scene.png --json - --overlay out.png  as JSON, and drawn into the scene
  koel match box.png frames/ --json -                      every image of a folder: a JSON object a line
  koel match box.png frame-%04d.png --overlay out-%04d.png
  koel match --models signs.koelmodels street.jpg          which of many models
  koel match --models signs.koelmodels frames/ --quick --json -

Exit status 0 whether found or not; 2 if an image cannot be read.";

/// Find an image inside another, from edges alone.
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = MATCH_EXAMPLES)]
pub struct MatchArgs {
    /// The image to find, and the image, folder of frames or pattern of frames (%04d) to find it
    /// in; with --models only the latter
    #[arg(value_names = ["MODEL", "SCENE"], num_args = 1..=2, required = true)]
    images: Vec<PathBuf>,
    /// Look for the models of a file of `koel models` instead of MODEL
    #[arg(long, value_name = "DB")]
    models: Option<PathBuf>,
    /// Which maps are allowed: rigid, similarity, affine or auto
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = freedom)]
    basis: Allowed,
    /// How: by the default matcher, or as published (geometric hashing of points)
    #[arg(long, value_enum, default_value_t = Method::Default)]
    pub method: Method,
    /// Which points --method paper uses: edges or corners
    #[arg(long, value_name = "KIND", default_value = "edges")]
    pub features: Features,
    /// A fortieth of the work: for many models, where they are seen clearly
    #[arg(long)]
    pub quick: bool,
    /// Draw the scene with the model's outline and inliers; for frames a pattern such as
    /// out-%04d.png
    #[arg(long, value_name = "FILE.png")]
    pub overlay: Option<PathBuf>,
    /// Draw what the votes say of every place of the model's middle; for frames a pattern
    #[arg(long, value_name = "FILE.png")]
    pub votes: Option<PathBuf>,
}

/// How images are matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Method {
    /// Oriented edges, likelihoods, refinement: for photographs
    Default,
    /// Alcantara et al. 2009: for comparison
    Paper,
}

/// Which maps are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
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

/// What is looked for.
pub enum Wanted<'a> {
    Model(&'a Path),
    Models(&'a Path),
}

impl MatchArgs {
    /// What is looked for, and where.
    pub fn sides(&self) -> Outcome<(Wanted<'_>, &Path)> {
        if self.features == Features::Corners {
            let refused = |why: &str| Err(Failure::Usage(format!("--features corners: {why}")));
            match (self.method, &self.models) {
                (Method::Default, _) => return refused("only for --method paper"),
                (_, Some(_)) => return refused("a file of models holds edges alone"),
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
    /// What the published method looks for: similarities, if nothing is said.
    pub fn paper_freedom(&self) -> Freedom {
        match self.basis {
            Allowed::Only(freedom) => freedom,
            Allowed::Auto => Freedom::Similarity,
        }
    }
    /// `None`: the most that the data ask for.
    pub fn freedom(&self) -> Option<Freedom> {
        match self.basis {
            Allowed::Only(freedom) if freedom != Freedom::Affine => Some(freedom),
            _ => None,
        }
    }
}

const MODELS_EXAMPLES: &str = "\
Examples:
  koel models add signs.koelmodels stop.png yield.png    begins the file if it is not there
  koel models list signs.koelmodels
  koel models remove signs.koelmodels stop.png";

/// Keep many models in one file, for `koel match --models`.
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = MODELS_EXAMPLES)]
pub struct ModelsArgs {
    #[command(subcommand)]
    pub change: Change,
}

/// What is done with the file.
#[derive(clap::Subcommand)]
pub enum Change {
    /// Add images; their file names are their names
    Add {
        /// The file of models
        db: PathBuf,
        /// The images
        #[arg(required = true)]
        images: Vec<PathBuf>,
    },
    /// List the models
    List {
        /// The file of models
        db: PathBuf,
    },
    /// Remove models by name
    Remove {
        /// The file of models
        db: PathBuf,
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
}
