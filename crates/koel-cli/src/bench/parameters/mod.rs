//! Parameters of the published tables: number of hash functions, hash family, stash and the others
//! of `koel_classic`.
mod args;
mod tables;

pub(crate) use args::ParameterArgs;
use koel_classic::Family;
use koel_classic::single_level::{Coinciding, StashKind};
use serde_json::Value;
use std::fmt;
pub(crate) use tables::{Adjustable, find, variants};

/// A parameter and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parameter {
    /// Number of hash functions.
    Functions(u32),
    /// Hash family.
    Family(Family),
    /// Kind and capacity of the stash, in pairs.
    Stash(Option<(StashKind, u32)>),
    /// Slots per bucket.
    BucketSlots(u32),
    /// Sets of functions to choose the best of.
    Sets(u32),
    /// Maximum number of evictions per insertion. `None`: chosen by the table.
    MaxEvictions(Option<u32>),
    /// Next function of an evicted pair of which several functions name its slot.
    Coinciding(Coinciding),
    /// Whether lookups stop at an empty slot.
    StopAtEmpty(bool),
    /// Whether to search for the smallest offset table.
    SmallestOffsets(bool),
    /// Number of buckets or lists of which a pair takes the one with the fewest pairs.
    Choices(u32),
    /// Whether each function of a chained table has lists of its own.
    Left(bool),
    /// Whether sub-tables are sized by their bucket.
    Sized(bool),
}
impl Parameter {
    /// Returns the name of the option that sets it, without dashes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Parameter::Functions(_) => "functions",
            Parameter::Family(_) => "family",
            Parameter::Stash(_) => "stash",
            Parameter::BucketSlots(_) => "bucket-slots",
            Parameter::Sets(_) => "sets",
            Parameter::MaxEvictions(_) => "max-evictions",
            Parameter::Coinciding(_) => "coinciding",
            Parameter::StopAtEmpty(_) => "stop-at-empty",
            Parameter::SmallestOffsets(_) => "smallest-offsets",
            Parameter::Choices(_) => "choices",
            Parameter::Left(_) => "left",
            Parameter::Sized(_) => "sized",
        }
    }
    /// Returns the value for JSON; `null` if the table chooses it.
    pub(crate) fn value(self) -> Value {
        match self {
            Parameter::Functions(n)
            | Parameter::BucketSlots(n)
            | Parameter::Sets(n)
            | Parameter::Choices(n) => n.into(),
            Parameter::Family(family) => family_name(family).into(),
            Parameter::Stash(stash) => stash_name(stash).into(),
            Parameter::MaxEvictions(most) => most.into(),
            Parameter::Coinciding(rule) => coinciding_name(rule).into(),
            Parameter::StopAtEmpty(is_on)
            | Parameter::SmallestOffsets(is_on)
            | Parameter::Left(is_on)
            | Parameter::Sized(is_on) => is_on.into(),
        }
    }
}
/// Writes the option and its value, such as `functions 3`.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self.value() {
            Value::Bool(is_on) => write!(f, "{name} {}", if is_on { "on" } else { "off" }),
            Value::String(text) => write!(f, "{name} {text}"),
            other => write!(f, "{name} {other}"),
        }
    }
}

/// Returns whether the option sets one of these parameters.
pub(crate) fn has(parameters: &[Parameter], option: &str) -> bool {
    parameters.iter().any(|parameter| parameter.name() == option)
}
/// Lists parameters, separated by commas.
pub(crate) fn listed(parameters: &[Parameter]) -> String {
    parameters.iter().map(Parameter::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the name of a family on the command line, such as `linear2011`.
fn family_name(family: Family) -> String {
    format!("{family:?}").to_lowercase()
}
/// Returns the name of a stash on the command line: its pairs, after `table:` if it is one.
fn stash_name(stash: Option<(StashKind, u32)>) -> String {
    match stash {
        None => "0".into(),
        Some((StashKind::Array, pairs)) => pairs.to_string(),
        Some((StashKind::Table, pairs)) => format!("table:{pairs}"),
    }
}
/// Returns the name of a rule on the command line.
fn coinciding_name(rule: Coinciding) -> &'static str {
    match rule {
        Coinciding::FirstMatch => "first-match",
        Coinciding::Advance => "advance",
        Coinciding::Random => "random",
    }
}
