//! The parameters that each published table has.
use super::{Parameter, has};
use koel_classic::{
    BestOf, Bfs, Bucketed, Chaining, Fks, FunctionId, Kind, PerfectSpatial, Probing, RandomWalk,
    SingleLevel, StoredStep, TwoKernel, TwoLevel,
};
use std::sync::Arc;

/// A published table with parameters.
pub(crate) trait Adjustable: Kind {
    /// Returns its parameters with their values.
    fn parameters(&self) -> Vec<Parameter>;
    /// Returns the table with another value of a parameter, or unchanged if it does not have it.
    fn with(&self, parameter: Parameter) -> Arc<dyn Adjustable>;
}
macro_rules! adjustable { ($($table:ident { $($parameter:ident: $field:ident),* })*) => { $(
    impl Adjustable for $table {
        fn parameters(&self) -> Vec<Parameter> {
            vec![$(Parameter::$parameter(self.$field)),*]
        }
        fn with(&self, parameter: Parameter) -> Arc<dyn Adjustable> {
            let mut table = self.clone();
            match parameter {
                $(Parameter::$parameter(value) => table.$field = value,)*
                _ => {}
            }
            Arc::new(table)
        }
    }
)* } }
adjustable! {
    TwoLevel { Family: family, Choices: choices, Sized: sized }
    SingleLevel {
        Functions: functions, Family: family, Stash: stash, MaxEvictions: max_evictions,
        Coinciding: coinciding, StopAtEmpty: stop_at_empty
    }
    TwoKernel { Family: family }
    Chaining { Family: family, Choices: choices, Left: left }
    Probing { Family: family }
    Fks { Family: family }
    PerfectSpatial { SmallestOffsets: smallest }
    Bucketed { Functions: functions, Family: family, BucketSlots: slots }
    RandomWalk { Functions: functions, Family: family }
    Bfs { Functions: functions, Family: family }
    FunctionId { Functions: functions, Family: family }
    StoredStep { Functions: functions, Family: family }
    BestOf { Functions: functions, Family: family, Sets: sets }
}

/// Returns the published table of this name, if it has parameters. A new table with parameters
/// takes a line here and one above.
pub(crate) fn find(name: &str) -> Option<Arc<dyn Adjustable>> {
    let all: [Arc<dyn Adjustable>; 21] = [
        Arc::new(TwoLevel::PUBLISHED),
        Arc::new(TwoLevel::TWO_CHOICES),
        Arc::new(TwoLevel::SIZED),
        Arc::new(SingleLevel::PUBLISHED),
        Arc::new(TwoKernel::PUBLISHED),
        Arc::new(Chaining::PUBLISHED),
        Arc::new(Chaining::TWO_CHOICES),
        Arc::new(Chaining::FOUR_LEFT),
        Arc::new(Probing::LINEAR),
        Arc::new(Probing::QUADRATIC),
        Arc::new(Probing::DOUBLE),
        Arc::new(Fks::PUBLISHED),
        Arc::new(PerfectSpatial::PUBLISHED_2D),
        Arc::new(PerfectSpatial::PUBLISHED_3D),
        Arc::new(Bucketed::PUBLISHED),
        Arc::new(RandomWalk::PUBLISHED),
        Arc::new(RandomWalk::RANDOM_START),
        Arc::new(Bfs::PUBLISHED),
        Arc::new(FunctionId::PUBLISHED),
        Arc::new(StoredStep::PUBLISHED),
        Arc::new(BestOf::PUBLISHED),
    ];
    all.into_iter().find(|table| table.name() == name)
}

/// Returns the table with every combination of the requested parameters that it has, each with
/// that combination. `asked` has the values of one option per element.
pub(crate) fn variants(
    table: Arc<dyn Adjustable>,
    asked: &[Vec<Parameter>],
) -> Vec<(Vec<Parameter>, Arc<dyn Adjustable>)> {
    let mut variants = vec![(vec![], table)];
    for values in asked {
        let Some(option) = values.first().map(|value| value.name()) else { continue };
        if !variants.iter().all(|(_, table)| has(&table.parameters(), option)) {
            continue;
        }
        let with_each = |(chosen, table): (Vec<Parameter>, Arc<dyn Adjustable>)| {
            let with = |&value: &Parameter| {
                let chosen = chosen.iter().copied().chain([value]).collect();
                (chosen, table.with(value))
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        variants = variants.into_iter().flat_map(with_each).collect();
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::super::listed;
    use super::*;

    /// A published table that is missing here would ignore its parameters.
    #[test]
    fn every_published_table_but_sorted_has_parameters() {
        for kind in koel_classic::kinds() {
            let found = find(kind.name());
            assert_eq!(found.is_some(), kind.name() != "sorted", "{}", kind.name());
            let Some(found) = found else { continue };
            assert_eq!(
                (found.name(), found.default_load(), found.max_load()),
                (kind.name(), kind.default_load(), kind.max_load())
            );
        }
        assert!(find("map").is_none());
    }

    #[test]
    fn combinations_are_all_there_and_set() {
        let asked = [
            vec![Parameter::Functions(2), Parameter::Functions(3)],
            vec![Parameter::Sets(7)],
            vec![Parameter::BucketSlots(4), Parameter::BucketSlots(8)],
        ];
        let of = |name: &str| {
            let all = variants(find(name).unwrap(), &asked);
            for (chosen, table) in &all {
                let own = table.parameters();
                assert!(chosen.iter().all(|parameter| own.contains(parameter)), "{own:?}");
            }
            all.iter().map(|(chosen, _)| listed(chosen)).collect::<Vec<_>>()
        };
        assert_eq!(of("single-level"), ["functions 2", "functions 3"]);
        assert_eq!(of("best-of-sets"), ["functions 2, sets 7", "functions 3, sets 7"]);
        assert_eq!(of("bucketed-cuckoo").len(), 4);
        assert_eq!(of("two-level"), [""]);
        // Parameters that have names of their own lead to the tables of these names.
        let asked = [
            vec![Parameter::Choices(1), Parameter::Choices(2)],
            vec![Parameter::Left(false), Parameter::Left(true)],
            vec![Parameter::Sized(true)],
        ];
        let named = |name: &str| {
            let all = variants(find(name).unwrap(), &asked);
            all.iter().map(|(_, table)| table.name()).collect::<Vec<_>>()
        };
        assert_eq!(
            named("chaining"),
            ["chaining", "chaining", "chaining-2-choices", "chaining-2-left"]
        );
        assert_eq!(named("two-level"), ["two-level-sized", "two-level-2-choices-sized"]);
        // Settings reach the limits that depend on them.
        let asked = [vec![Parameter::Functions(2)]];
        let (_, two) = &variants(find("single-level").unwrap(), &asked)[0];
        assert_eq!(two.max_load(), 0.476);
    }
}
