//! Options of `koel match --method paper`.
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use koel_vision::Features;
use koel_vision_classic::{BasisRules, Lookup, PaperOptions, Partition, Weights};

/// Arguments, and the first of their options that was given on the command line.
pub(super) struct Given<T> {
    pub args: T,
    /// Its name without dashes.
    pub first: Option<String>,
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
pub(super) struct PaperArgs {
    /// Start from the options as published in 2009: edges, bases over the whole image, no other
    /// sizes; options below still apply
    #[arg(long)]
    published: bool,
    /// Points: corners or edges
    #[arg(long, value_name = "KIND")]
    pub features: Option<Features>,
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
    pub(super) fn options(&self) -> PaperOptions {
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
