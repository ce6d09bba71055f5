//! What a table is built as, and what a build reports.
use crate::duplicates::Duplicates;
use crate::error::{Error, Result};
use crate::file::TableKind;
use crate::groups::{IndexOptions, MultiMapOptions, ValueOrder};
use crate::map::MapOptions;
use crate::set::SetOptions;
use crate::table::BuildReport;
use std::fmt;

/// What a table of columns holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Keys with one value each.
    Map,
    /// Keys.
    Set,
    /// Distinct keys and their ids, both ways.
    Index,
    /// Keys with any number of values each.
    MultiMap,
}
impl Kind {
    /// Returns whether there are values.
    pub const fn has_values(self) -> bool {
        matches!(self, Kind::Map | Kind::MultiMap)
    }
}
impl From<TableKind> for Kind {
    fn from(kind: TableKind) -> Kind {
        match kind {
            TableKind::Map
            | TableKind::Map128
            | TableKind::StringMap
            | TableKind::MapToStrings
            | TableKind::Map128ToStrings
            | TableKind::StringMapToStrings => Kind::Map,
            TableKind::Set | TableKind::Set128 | TableKind::StringSet => Kind::Set,
            TableKind::Index | TableKind::Index128 | TableKind::StringIndex => Kind::Index,
            TableKind::MultiMap | TableKind::MultiMap128 | TableKind::StringMultiMap => {
                Kind::MultiMap
            }
        }
    }
}
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Map => "a map",
            Kind::Set => "a set",
            Kind::Index => "an index",
            Kind::MultiMap => "a multimap",
        })
    }
}

/// Build options of a [`Table`](super::Table). A [`Kind`] is those with defaults.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// What the table holds.
    pub kind: Kind,
    /// Load factor in keys per slot, 0.3 to 0.95. High loads save memory, low loads save time.
    pub load: f64,
    /// Hash seed, as for a [map](crate::MapOptions::seed).
    pub seed: Option<u32>,
    /// Which of several pairs with equal keys a map keeps; by default the last. Of maps only.
    pub duplicates: Option<Duplicates>,
    /// Order of a multimap's values; by default that of the input. Of multimaps only.
    pub order: Option<ValueOrder>,
    /// Whether the bytes of the table are always the same: see [`MapOptions::reproducible`]. Of
    /// maps with keys and values of up to 64 bits only.
    pub reproducible: bool,
}
crate::options::setters! { TableOptions:
    load by with_load: f64;
    seed by with_seed: impl Into<Option<u32>>;
    duplicates by with_duplicates: impl Into<Option<Duplicates>>;
    order by with_order: impl Into<Option<ValueOrder>>;
    reproducible by with_reproducible: bool;
}
impl From<Kind> for TableOptions {
    fn from(kind: Kind) -> TableOptions {
        let MapOptions { load, seed, reproducible, .. } = MapOptions::default();
        TableOptions { kind, load, seed, duplicates: None, order: None, reproducible }
    }
}
impl TableOptions {
    /// Errors: an option of another kind.
    pub(super) fn check(&self) -> Result<()> {
        let options = [
            ("duplicates", self.duplicates.is_some(), Kind::Map),
            ("reproducible", self.reproducible, Kind::Map),
            ("order", self.order.is_some(), Kind::MultiMap),
        ];
        match options.iter().find(|(_, is_set, kind)| *is_set && *kind != self.kind) {
            None => Ok(()),
            Some((field, _, kind)) => Err(Error::Setting {
                field,
                found: format!("set for {}", self.kind),
                expected: format!("set for {kind} only"),
            }),
        }
    }
    pub(super) fn of_map(self) -> MapOptions {
        MapOptions::default()
            .with_load(self.load)
            .with_seed(self.seed)
            .with_duplicates(self.duplicates.unwrap_or_default())
            .with_reproducible(self.reproducible)
    }
    pub(super) fn of_set(self) -> SetOptions {
        SetOptions::default().with_load(self.load).with_seed(self.seed)
    }
    pub(super) fn of_index(self) -> IndexOptions {
        IndexOptions::default().with_load(self.load).with_seed(self.seed)
    }
    pub(super) fn of_multi_map(self) -> MultiMapOptions {
        let order = self.order.unwrap_or_default();
        MultiMapOptions::default().with_load(self.load).with_seed(self.seed).with_order(order)
    }
}

/// Statistics of a [`Table`](super::Table).
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct TableReport {
    /// Distinct keys.
    pub keys: usize,
    /// Pairs: in a multimap one for each value, elsewhere one for each key.
    pub pairs: usize,
    /// Rows dropped by the build of a map or a set because another one has the same key.
    pub duplicates: usize,
    /// Keys in the stash.
    pub stashed: usize,
    /// Bytes of memory that the table occupies.
    pub bytes: usize,
    /// Number of attempts of the build; 0 if the table was loaded from a file.
    pub attempts: u32,
}
impl From<BuildReport> for TableReport {
    fn from(report: BuildReport) -> TableReport {
        let BuildReport { entries, duplicates, stashed, bytes, attempts, .. } = report;
        TableReport { keys: entries, pairs: entries, duplicates, stashed, bytes, attempts }
    }
}
