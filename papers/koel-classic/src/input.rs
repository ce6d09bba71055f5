//! Input checks of every build, and the pairs that the build works on.
pub(super) use super::duplicates::Pairs;
use super::duplicates::{self, Distinct};
use super::{Duplicates, Kind, Options};
use crate::fallible::{check_length, count32};
use koel::{Error, Result, Stream, View};

/// Checks the lengths and the load factor; returns the load factor.
pub(super) fn check(
    kind: &dyn Kind,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    options: &Options,
) -> Result<f64> {
    check_length("values", values.len(), "keys", keys.len())?;
    count32("pairs", keys.len())?;
    let load = options.load.unwrap_or(kind.default_load());
    if !(load > 0.0 && load <= kind.max_load()) {
        let expected = format!("above 0 and at most {} for `{}`", kind.max_load(), kind.name());
        return Err(Error::Setting { field: "load", found: format!("{load:?}"), expected });
    }
    Ok(load)
}
/// Returns `groups`, rounded up, of the groups of `each` slots that `n` pairs need at a load.
/// Errors: more slots than 32-bit indices can address.
pub(super) fn groups(n: u32, load: f64, groups: f64, each: u32) -> Result<u32> {
    let groups = groups.ceil().max(1.0);
    // Exact below 2^53, and saturating.
    match count32("slots", (groups * f64::from(each)) as usize) {
        Ok(slots) => Ok(slots / each),
        Err(Error::TooMany { max, .. }) => Err(Error::Setting {
            field: "load",
            found: format!("{load:?}"),
            expected: format!("higher for {n} pairs: at most {max} slots"),
        }),
        Err(e) => Err(e),
    }
}

/// Input pairs with equal keys resolved, unless the caller promises distinct keys.
pub(super) enum Input<'a> {
    AsGiven(Pairs<'a>),
    Distinct(Distinct),
}
impl<'a> Input<'a> {
    pub(super) fn new(
        stream: &Stream,
        keys: View<'a, u32>,
        values: View<'a, u32>,
        policy: Duplicates,
    ) -> Result<Input<'a>> {
        Ok(match policy {
            Duplicates::Unchecked => {
                Input::AsGiven(Pairs { keys, values, n: count32("pairs", keys.len())? })
            }
            _ => Input::Distinct(duplicates::resolve(stream, keys, values, policy)?),
        })
    }
    pub(super) fn pairs(&self) -> Pairs<'_> {
        match self {
            Input::AsGiven(pairs) => *pairs,
            Input::Distinct(distinct) => distinct.pairs(),
        }
    }
    /// Number of dropped pairs.
    pub(super) fn dropped(&self) -> usize {
        match self {
            Input::AsGiven(_) => 0,
            Input::Distinct(distinct) => distinct.dropped,
        }
    }
    /// Whether the keys are known to be distinct.
    pub(super) fn is_distinct(&self) -> bool {
        matches!(self, Input::Distinct(_))
    }
}
