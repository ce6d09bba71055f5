//! Options of `koel match` and `koel models`.
use crate::failure::{Failure, Outcome};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use koel_vision::Freedom;
use koel_vision::paper::{BasisRules, Features, Lookup, PaperOptions, Partition, Weights};
use std::path::{Path, PathBuf};

const MATCH_EXAMPLES: &str = "\
Examples:
  koel match box.png scene.png                             find the box, or report no match
  koel match box.png scene.png --json - --overlay out.png  print JSON and draw the match
  koel match box.png frames/ --json -                      search every image of a folder
  koel match box.png frame-%04d.png --overlay out-%04d.png
  koel match box.png scene.png --mirrored --negative       find it as in a mirror, or a negative
  koel match box.png scene.png --colour ignore --all       every box, whatever its colour
  koel match --models signs.koelmodels street.jpg          search for many models
  koel match --models signs.koelmodels frames/ --quick --json -
  koel match box.png scene.png --method paper --basis affine --candidates 40
  koel match box.png scene.png --method paper --published --basis similarity --lookup search

The JSON of a folder or pattern has one object per line. Exit status: 0 whether found or not, 2 if
an image cannot be read.";

/// Find an image inside another: by its edges, then by luminance and colour
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
    #[command(flatten)]
    paper: Given<PaperArgs>,
}

/// Matching method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Method {
    /// Oriented edges, likelihoods and refinement; for photographs
    Default,
    /// Geometric hashing of points, as published (Alcantara et al. 2009); for comparison
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
        if let (Method::Default, Some(option)) = (self.method, &self.paper.first) {
            return Err(Failure::Usage(format!("--{option}: only for --method paper")));
        }
        let (colour, all) = (self.colour.is_some(), self.all);
        let looks = [("--mirrored", self.mirrored), ("--negative", self.negative)];
        let others = [("--colour", colour), ("--all", all)];
        let mut options = looks.iter().chain(&others);
        if let (Method::Paper, Some((option, _))) = (self.method, options.find(|o| o.1)) {
            return Err(Failure::Usage(format!("{option}: only for --method default")));
        }
        if self.models.is_some() && all {
            let why = "--all: for one MODEL; with --models, each model is reported once";
            return Err(Failure::Usage(why.into()));
        }
        if self.models.is_some() && self.paper.args.features == Some(Features::Corners) {
            let why = "--features corners: a file of models holds only edges";
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
    /// Returns the options of the published method, similarities by default; `None` for the default
    /// method.
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

/// Arguments, and the first of their options that was given on the command line.
struct Given<T> {
    args: T,
    /// Its name without dashes.
    first: Option<String>,
}
impl<T: Args> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given<T>, clap::Error> {
        let options = T::augment_args(Command::default());
        let is_given = |option: &&Arg| {
            matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let first = options.get_arguments().find(is_given).and_then(Arg::get_long);
        let first = first.map(str::to_owned);
        Ok(Given { args: T::from_arg_matches(matches)?, first })
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Given::from_arg_matches(matches)?;
        Ok(())
    }
}
impl<T: Args> Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }
    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

/// Options of `--method paper`. What is not given is as the method's default says.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of --method paper")]
struct PaperArgs {
    /// Start from the options as published in 2009: edges, bases over the whole image, no other
    /// sizes; options below still apply
    #[arg(long)]
    published: bool,
    /// Points: corners or edges
    #[arg(long, value_name = "KIND")]
    features: Option<Features>,
    /// Factors by which model and scene are shrunk, tried in turn, such as 1:1,2:1
    #[arg(long, value_name = "MODEL:SCENE,...", value_delimiter = ',', value_parser = factors)]
    sizes: Vec<(f32, f32)>,
    /// Maximum number of points of model and scene
    #[arg(long, value_name = "MODEL:SCENE", value_parser = counts)]
    points: Option<(usize, usize)>,
    /// Minimum distance between edges, in pixels
    #[arg(long, value_name = "PIXELS", value_parser = positive)]
    apart: Option<f32>,
    /// Maximum number of bases of model and scene
    #[arg(long, value_name = "MODEL:SCENE", value_parser = counts)]
    bases: Option<(usize, usize)>,
    /// Probability with which a basis is taken if there are few
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    chance: Option<f32>,
    /// Minimum and maximum length of bases, in pixels
    #[arg(long, value_name = "MIN:MAX", value_parser = factors)]
    lengths: Option<(f32, f32)>,
    /// Minimum sine of the angle of affine bases
    #[arg(long, value_name = "SINE", value_parser = positive)]
    thinnest: Option<f32>,
    /// Maximum coordinate of points that vote, in lengths of the basis
    #[arg(long, value_name = "LENGTHS", value_parser = positive)]
    reach: Option<f32>,
    /// Width of the cells, in lengths of the basis
    #[arg(long, value_name = "LENGTHS", value_parser = positive)]
    cell: Option<f32>,
    /// Cells: uniform, transfer (rehashed to equal numbers) or elastic (learnt)
    #[arg(long, value_name = "KIND")]
    partition: Option<Partition>,
    /// Lookup: hash, two-level (the hash table of 2009), search (binary search), or, on the CPU
    /// whatever the device, kd-tree or brute (comparison with every entry, which takes minutes)
    #[arg(long, value_name = "KIND")]
    lookup: Option<Lookup>,
    /// Name bases in the table by their points, so that each vote looks its number up
    #[arg(long)]
    two_way_index: bool,
    /// Enter model points into neighbouring cells too
    #[arg(long)]
    neighbour_entries: bool,
    /// Vote in neighbouring cells too
    #[arg(long)]
    neighbour_votes: bool,
    /// Weight votes by: length (of the basis), distance (from it), density (of the cell)
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    weights: Vec<Weight>,
    /// Verify only pairs of bases with more votes than chance explains
    #[arg(long)]
    threshold: bool,
    /// Verify by the points alone, not by outlines too
    #[arg(long)]
    no_outlines: bool,
    /// Number of pairs that are verified for each basis of the scene
    #[arg(long, value_name = "NUMBER")]
    candidates: Option<usize>,
    /// Maximum distance of an inlier, in pixels
    #[arg(long, value_name = "PIXELS", value_parser = positive)]
    inlier: Option<f32>,
    /// Accepted probability of a match by chance
    #[arg(long, value_name = "SHARE", value_parser = positive)]
    false_alarm: Option<f32>,
}

/// Weight of votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Weight {
    Length,
    Distance,
    Density,
}

fn two<T: std::str::FromStr + PartialOrd>(
    text: &str,
    least: T,
    said: &str,
) -> Result<(T, T), String> {
    let number = |text: &str| text.parse::<T>().ok().filter(|number| *number >= least);
    let both = text.split_once(':').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    both.ok_or_else(|| format!("expected two numbers {said}"))
}
fn factors(text: &str) -> Result<(f32, f32), String> {
    two(text, 1.0, "of at least 1, such as 2:1")
}
fn counts(text: &str) -> Result<(usize, usize), String> {
    two(text, 0, "such as 400:1500")
}
fn positive(text: &str) -> Result<f32, String> {
    let number = text.parse::<f32>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a positive number".into())
}

impl PaperArgs {
    fn options(&self) -> PaperOptions {
        let start =
            if self.published { PaperOptions::published() } else { PaperOptions::default() };
        let weights = Weights::default()
            .with_by_length(self.weights.contains(&Weight::Length))
            .with_by_distance(self.weights.contains(&Weight::Distance))
            .with_by_density(self.weights.contains(&Weight::Density));
        let rules = BasisRules::default()
            .with_chance(self.chance.unwrap_or(start.rules.chance))
            .with_lengths(self.lengths.unwrap_or(start.rules.lengths))
            .with_thinnest(self.thinnest.unwrap_or(start.rules.thinnest));
        let sizes = if self.sizes.is_empty() { start.sizes.clone() } else { self.sizes.clone() };
        start
            .clone()
            .with_features(self.features.unwrap_or(start.features))
            .with_sizes(sizes)
            .with_points(self.points.unwrap_or(start.points))
            .with_apart(self.apart.unwrap_or(start.apart))
            .with_rules(rules)
            .with_bases(self.bases.unwrap_or(start.bases))
            .with_reach(self.reach.unwrap_or(start.reach))
            .with_cell(self.cell.unwrap_or(start.cell))
            .with_partition(self.partition.unwrap_or(start.partition))
            .with_lookup(self.lookup.unwrap_or(start.lookup))
            .with_two_way_index(self.two_way_index || start.two_way_index)
            .with_neighbour_entries(self.neighbour_entries)
            .with_neighbour_votes(self.neighbour_votes)
            .with_weights(weights)
            .with_threshold(self.threshold || start.threshold)
            .with_outlines(!self.no_outlines && start.outlines)
            .with_candidates(self.candidates.unwrap_or(start.candidates))
            .with_inlier(self.inlier.unwrap_or(start.inlier))
            .with_false_alarm(self.false_alarm.map_or(start.false_alarm, f64::from))
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        paper: Given<PaperArgs>,
    }

    /// Every option of the published method is noticed, alone and before others.
    #[test]
    fn the_first_option_given_is_known() {
        let first = |words: &[&str]| {
            let line = Line::try_parse_from(std::iter::once("match").chain(words.iter().copied()));
            line.ok().map(|line| line.paper.first)
        };
        assert_eq!(first(&[]), Some(None));
        let options = PaperArgs::augment_args(Command::default());
        let mut count = 0;
        for option in options.get_arguments().filter_map(Arg::get_long) {
            let given = format!("--{option}");
            let values = ["", "1:2", "0.5", "3", "edges", "hash", "uniform", "length"];
            let lines = values.map(|value| match value {
                "" => vec![given.as_str()],
                _ => vec![given.as_str(), value],
            });
            let noticed = lines.iter().find_map(|line| first(line));
            assert_eq!(noticed, Some(Some(option.to_owned())));
            count += 1;
        }
        assert!(count > 20, "{count} options");
        let several = ["--threshold", "--cell", "0.1"];
        assert_eq!(first(&several), Some(Some("cell".into())));
    }
}
