//! Options that set parameters.
use super::{Parameter, coinciding_name, family_name};
use koel_classic::Family;
use koel_classic::single_level::{Coinciding, StashKind};

/// Maximum number of pairs in a stash.
const MAX_STASH: u32 = 1 << 20;

/// Parameters to measure. Each option may list several values: every table is measured with each
/// combination of those that it has.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Parameters of the published tables")]
pub(crate) struct ParameterArgs {
    /// Numbers of hash functions, 2 to 5: of single-level, bucketed-cuckoo, random-walk,
    /// random-start, bfs, function-id, stored-step and best-of-sets [default: 4; bucketed-cuckoo 2]
    #[arg(
        long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(2..=5)
    )]
    functions: Vec<u32>,
    /// Hash families: mixed, linear2011, linear2009, xor, polynomial1, polynomial2, polynomial3,
    /// polynomial4, modulo; of all published tables but sorted, perfect-spatial-2d,
    /// perfect-spatial-3d and those of lists [default: as in each table's paper, or mixed]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = family)]
    family: Vec<Family>,
    /// Stashes of single-level, in pairs: 0 for none, N for an array, table:N for a table
    /// [default: 0]
    #[arg(long, value_name = "N|table:N,...", value_delimiter = ',', value_parser = stash)]
    stash: Vec<Stash>,
    /// Slots per bucket of bucketed-cuckoo, 2 to 16 [default: 4]
    #[arg(
        long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(2..=16)
    )]
    bucket_slots: Vec<u32>,
    /// Sets of functions of which best-of-sets keeps the best, 1 to 64 [default: 4]
    #[arg(
        long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    sets: Vec<u32>,
    /// Evictions after which single-level gives a pair up [default: 7 lg N, more near full load]
    #[arg(
        long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    max_evictions: Vec<u32>,
    /// Next function of a pair that single-level evicts from a slot that several of its functions
    /// name: first-match, advance or random [default: first-match]
    #[arg(long, value_name = "RULE,...", value_delimiter = ',', value_parser = coinciding)]
    coinciding: Vec<Coinciding>,
    /// Whether lookups of single-level stop at an empty slot: on or off; on excludes
    /// `--coinciding random` [default: off]
    #[arg(long, value_name = "on|off,...", value_delimiter = ',', value_parser = on_or_off)]
    stop_at_empty: Vec<bool>,
    /// Whether perfect-spatial-2d and perfect-spatial-3d search for the smallest offset table: on,
    /// or off for the first that works [default: on]
    #[arg(long, value_name = "on|off,...", value_delimiter = ',', value_parser = on_or_off)]
    smallest_offsets: Vec<bool>,
    /// Buckets or lists, 1 to 4, of which a pair takes the one with the fewest pairs: 1 or 2 of
    /// two-level, two-level-2-choices and two-level-sized, 1 to 4 of chaining, chaining-2-choices
    /// and chaining-4-left [default: as the name says, or 1]
    #[arg(
        long, value_name = "N,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=4)
    )]
    choices: Vec<u32>,
    /// Whether each choice of chaining, chaining-2-choices and chaining-4-left is among lists of
    /// its own: on or off [default: off; chaining-4-left on]
    #[arg(long, value_name = "on|off,...", value_delimiter = ',', value_parser = on_or_off)]
    left: Vec<bool>,
    /// Whether two-level, two-level-2-choices and two-level-sized size sub-tables by their bucket:
    /// on or off [default: off; two-level-sized on]
    #[arg(long, value_name = "on|off,...", value_delimiter = ',', value_parser = on_or_off)]
    sized: Vec<bool>,
}
/// A stash, so that clap does not take it for an optional argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stash(Option<(StashKind, u32)>);

impl ParameterArgs {
    /// Returns the distinct values of each option that was given.
    pub(crate) fn asked(&self) -> Vec<Vec<Parameter>> {
        let all = [
            of(&self.functions, Parameter::Functions),
            of(&self.family, Parameter::Family),
            of(&self.stash, |Stash(stash)| Parameter::Stash(stash)),
            of(&self.bucket_slots, Parameter::BucketSlots),
            of(&self.sets, Parameter::Sets),
            of(&self.max_evictions, |most| Parameter::MaxEvictions(Some(most))),
            of(&self.coinciding, Parameter::Coinciding),
            of(&self.stop_at_empty, Parameter::StopAtEmpty),
            of(&self.smallest_offsets, Parameter::SmallestOffsets),
            of(&self.choices, Parameter::Choices),
            of(&self.left, Parameter::Left),
            of(&self.sized, Parameter::Sized),
        ];
        all.into_iter().filter(|values| !values.is_empty()).collect()
    }
}
fn of<T: Copy>(values: &[T], parameter: impl Fn(T) -> Parameter) -> Vec<Parameter> {
    let mut distinct = vec![];
    for parameter in values.iter().map(|&value| parameter(value)) {
        if !distinct.contains(&parameter) {
            distinct.push(parameter);
        }
    }
    distinct
}

fn family(text: &str) -> Result<Family, String> {
    Family::ALL.iter().copied().find(|&family| family_name(family) == text).ok_or_else(|| {
        let names = Family::ALL.iter().map(|&family| family_name(family)).collect::<Vec<_>>();
        format!("expected {}", names.join(", "))
    })
}
fn stash(text: &str) -> Result<Stash, String> {
    let (kind, pairs) = match text.strip_prefix("table:") {
        Some(pairs) => (StashKind::Table, pairs),
        None => (StashKind::Array, text),
    };
    match pairs.parse::<u32>() {
        Ok(0) if kind == StashKind::Array => Ok(Stash(None)),
        Ok(pairs @ 1..=MAX_STASH) => Ok(Stash(Some((kind, pairs)))),
        _ => Err(format!("expected 0, or a number of pairs up to {MAX_STASH}, or table: and one")),
    }
}
fn coinciding(text: &str) -> Result<Coinciding, String> {
    [Coinciding::FirstMatch, Coinciding::Advance, Coinciding::Random]
        .into_iter()
        .find(|&rule| coinciding_name(rule) == text)
        .ok_or_else(|| "expected first-match, advance or random".into())
}
fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::listed;
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ParameterArgs,
    }
    fn asked(line: &str) -> Vec<String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let args = Line::try_parse_from(words).unwrap().args;
        args.asked().iter().map(|values| listed(values)).collect()
    }

    #[test]
    fn values_are_read_and_written_alike() {
        assert_eq!(asked(""), [""; 0]);
        assert_eq!(asked("--functions 5,2,5"), ["functions 5, functions 2"]);
        let stashes = "--stash 0,100,table:7,table:1048576";
        assert_eq!(asked(stashes), ["stash 0, stash 100, stash table:7, stash table:1048576"]);
        let line = "--coinciding first-match,advance,random --stop-at-empty on,off \
                    --smallest-offsets off --bucket-slots 16 --sets 64 --max-evictions 9 \
                    --choices 3,1 --left on --sized off,on";
        assert_eq!(
            asked(line),
            [
                "bucket-slots 16",
                "sets 64",
                "max-evictions 9",
                "coinciding first-match, coinciding advance, coinciding random",
                "stop-at-empty on, stop-at-empty off",
                "smallest-offsets off",
                "choices 3, choices 1",
                "left on",
                "sized off, sized on",
            ]
        );
        for &of in Family::ALL {
            assert_eq!(family(&family_name(of)), Ok(of));
        }
        for (given, says) in [
            (stash("table:0").map(drop), "number of pairs up to 1048576"),
            (stash("1048577").map(drop), "number of pairs up to 1048576"),
            (stash("on").map(drop), "expected 0"),
            (family("md5").map(drop), "mixed, linear2011, linear2009, xor, polynomial1"),
            (coinciding("last").map(drop), "first-match, advance or random"),
            (on_or_off("yes").map(drop), "on or off"),
        ] {
            let error = given.unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    /// The help of an option names the tables that have it, or all that do not.
    #[test]
    fn help_names_the_tables() {
        let command = Line::command();
        for argument in command.get_arguments() {
            let Some(option) = argument.get_long().filter(|name| *name != "help") else { continue };
            let help = argument.get_help().unwrap().to_string();
            let has = |kind: &str| {
                super::super::find(kind)
                    .is_some_and(|kind| super::super::has(&kind.parameters(), option))
            };
            for kind in koel_classic::kinds() {
                let is_named = help.split([' ', ',', ':', ';']).any(|word| word == kind.name());
                let names_those_without = option == "family";
                assert_eq!(has(kind.name()), is_named != names_those_without, "{option}: {help}");
            }
            for name in Family::ALL.iter().map(|&family| family_name(family)) {
                assert!(option != "family" || help.contains(&name), "{name}: {help}");
            }
        }
    }
}
