//! Kinds of tables and their tables, by what a lookup returns.
use super::super::parameters::{Adjustable, Parameter};
use koel::{Stream, View};
use koel_classic::{Kind, ListKind, ListTable, Listed, Options, SchemeReport, Table};
use std::sync::Arc;

/// A kind of table.
#[derive(Clone)]
pub(crate) enum Scheme {
    /// Returns a value for each key.
    Pairs(&'static dyn Kind),
    /// The same, with parameters.
    Adjusted(Arc<dyn Adjustable>),
    /// Returns a range of a list for each key.
    Lists(&'static dyn ListKind),
}
impl Scheme {
    /// Returns the kind, if it returns values.
    fn pairs(&self) -> Option<&dyn Kind> {
        match self {
            Scheme::Pairs(kind) => Some(*kind),
            Scheme::Adjusted(kind) => Some(&**kind),
            Scheme::Lists(_) => None,
        }
    }
    /// Returns its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Scheme::Pairs(kind) => kind.name(),
            Scheme::Adjusted(kind) => kind.name(),
            Scheme::Lists(kind) => kind.name(),
        }
    }
    /// Returns the maximum load factor; `None` if only a build tells.
    pub(crate) fn max_load(&self) -> Option<f64> {
        self.pairs().map(Kind::max_load)
    }
    /// Returns its parameters with their values.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        match self {
            Scheme::Adjusted(kind) => kind.parameters(),
            Scheme::Pairs(_) | Scheme::Lists(_) => vec![],
        }
    }
    /// Returns whether lookups return ranges of a list.
    pub(crate) fn has_lists(&self) -> bool {
        matches!(self, Scheme::Lists(_))
    }
    /// Builds a table.
    pub(crate) fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> koel::Result<Built> {
        match self {
            Scheme::Pairs(kind) => kind.build(stream, keys, values, options).map(Built::Pairs),
            Scheme::Adjusted(kind) => kind.build(stream, keys, values, options).map(Built::Pairs),
            Scheme::Lists(kind) => {
                let table = kind.build(stream, keys, values, options)?;
                Ok(Built::Lists(table, kind.lists()))
            }
        }
    }
}

/// A finished table.
pub(crate) enum Built {
    /// Returns values.
    Pairs(Box<dyn Table>),
    /// Returns ranges of a list with this content.
    Lists(Box<dyn ListTable>, Listed),
}
impl Built {
    /// Returns the report of the build.
    pub(crate) fn report(&self) -> &SchemeReport {
        match self {
            Built::Pairs(table) => table.report(),
            Built::Lists(table, _) => table.report(),
        }
    }
    /// Returns how many pairs it holds, or keys if it has no values.
    pub(crate) fn held(&self) -> usize {
        let report = self.report();
        match self {
            Built::Lists(_, Listed::Values) => report.pairs + report.duplicates,
            _ => report.pairs,
        }
    }
}
