//! Tables to measure: the library's, and baselines from elsewhere behind the same interface.
mod dashmap;
mod hashbrown;
mod hashbrown_sharded;
pub(crate) mod map;
mod on_host;
mod scheme;

use super::parameters::{self, Parameter};
use crate::failure::{Failure, Outcome};
use koel::{DeviceKind, Duplicates, Stream, View};
use koel_classic::{Kind, Options, Table};
use on_host::{HostTable, OnHost};
pub(crate) use scheme::{Built, Scheme};
use std::marker::PhantomData;

/// A kind of table and where it runs.
#[derive(Clone)]
pub(crate) struct Contender {
    pub kind: Scheme,
    /// Whether it runs on the CPU, whatever the device.
    pub on_host: bool,
    /// How it keeps memory between builds, if it does.
    pub keeps: Option<&'static dyn Keeps>,
    /// The parameters that were set.
    pub asked: Vec<Parameter>,
}
impl Contender {
    fn new(kind: Scheme) -> Contender {
        Contender { kind, on_host: false, keeps: None, asked: vec![] }
    }
    /// Returns its name.
    pub(crate) fn name(&self) -> &'static str {
        self.kind.name()
    }
    /// Returns its name and the parameters that were set.
    pub(crate) fn label(&self) -> String {
        label(self.name(), &self.asked)
    }
    /// Returns whether the option sets one of its parameters.
    fn has(&self, option: &str) -> bool {
        parameters::has(&self.kind.parameters(), option)
    }
    /// Returns why it cannot build from these keys with this policy; `None` keeps all pairs.
    pub(crate) fn obstacle(
        &self,
        policy: Option<Duplicates>,
        is_unique: bool,
    ) -> Option<&'static str> {
        match (policy?, self.on_host) {
            (Duplicates::Unchecked, _) if !is_unique => {
                Some("unchecked requires all keys to be distinct")
            }
            (_, true) if is_unique => None,
            (_, true) if self.name() == dashmap::Map::NAME => {
                Some("which of several equal keys it keeps is undefined")
            }
            (Duplicates::KeepFirst, true) => Some("it keeps the last of equal keys"),
            _ => None,
        }
    }
}
/// Returns the name of a table and the parameters that were set.
pub(crate) fn label(table: &str, asked: &[Parameter]) -> String {
    match asked {
        [] => table.into(),
        _ => format!("{table}, {}", parameters::listed(asked)),
    }
}

/// A kind of table that keeps memory between builds.
pub(crate) trait Keeps: Sync {
    /// Releases the kept memory.
    fn forget(&self);
    /// Builds a table that can be rebuilt.
    fn begin(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> koel::Result<Box<dyn Rebuilt>>;
}
/// A table that can be rebuilt in place.
pub(crate) trait Rebuilt: Table {
    /// Rebuilds from these pairs, whatever the table held. Leaves the report of the previous build.
    fn rebuild(
        &mut self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
    ) -> koel::Result<()>;
    /// Updates the report.
    fn update_report(&mut self) -> koel::Result<()>;
}

/// Baselines from elsewhere, in host memory. A new one is a file and a line here.
static YARDSTICKS: [&dyn Kind; 3] = [
    &OnHost::<hashbrown::Map>(PhantomData),
    &OnHost::<hashbrown_sharded::Shards>(PhantomData),
    &OnHost::<dashmap::Map>(PhantomData),
];

/// Tables of `main`: koel's map, the papers' tables, and common alternatives.
const MAIN: [&str; 8] = [
    "map",
    "single-level",
    "two-level",
    "two-kernel",
    "sorted",
    "hashbrown",
    "hashbrown-sharded",
    "dashmap",
];

/// Returns all tables.
fn all() -> impl Iterator<Item = Contender> {
    let map = Contender { keeps: Some(&map::Map), ..Contender::new(Scheme::Pairs(&map::Map)) };
    let classic = koel_classic::kinds().iter().map(|&kind| {
        Contender::new(match parameters::find(kind.name()) {
            Some(kind) => Scheme::Adjusted(kind),
            None => Scheme::Pairs(kind),
        })
    });
    let lists = koel_classic::list_kinds().iter().map(|&kind| Contender::new(Scheme::Lists(kind)));
    let yardsticks = YARDSTICKS
        .iter()
        .map(|&kind| Contender { on_host: true, ..Contender::new(Scheme::Pairs(kind)) });
    std::iter::once(map).chain(classic).chain(lists).chain(yardsticks)
}

/// Returns the rank of a table: the main ones first, then the others in listing order.
pub(crate) fn place_of(name: &str) -> usize {
    let others = || all().filter(|c| !MAIN.contains(&c.name()));
    let among_others = || MAIN.len() + others().position(|c| c.name() == name).unwrap_or(0);
    MAIN.iter().position(|main| *main == name).unwrap_or_else(among_others)
}

/// Fails if a name is unknown, or if no chosen table has a requested parameter.
pub(crate) fn check(names: &[String], asked: &[Vec<Parameter>]) -> Outcome {
    let is_table = |name: &str| name == "all" || name == "main" || all().any(|c| c.name() == name);
    let joined = |names: Vec<&str>| names.join(", ");
    if let Some(name) = names.iter().find(|name| !is_table(name)) {
        let available = joined(all().map(|c| c.name()).collect());
        return Err(Failure::Usage(format!(
            "--table: there is no table '{name}'; available are main, all, {available}"
        )));
    }
    // Tables of the host have no parameters, so that the device does not matter.
    let chosen = all().filter(|c| is_chosen(c, names, DeviceKind::Cpu)).collect::<Vec<_>>();
    for option in options(asked) {
        if !chosen.iter().any(|c| c.has(option)) {
            let having = joined(all().filter(|c| c.has(option)).map(|c| c.name()).collect());
            let chosen = joined(chosen.iter().map(Contender::name).collect());
            return Err(Failure::Usage(format!(
                "--{option}: none of the chosen tables has this parameter ({chosen}); \
                 those with it are {having}"
            )));
        }
    }
    Ok(())
}
/// Returns whether some of the tables with these names list their entries.
pub(crate) fn have_lists(names: &[String]) -> bool {
    all().any(|c| c.kind.has_lists() && is_chosen(&c, names, DeviceKind::Cpu))
}
/// Returns the names of the requested parameters.
fn options(asked: &[Vec<Parameter>]) -> impl Iterator<Item = &'static str> {
    asked.iter().filter_map(|values| values.first()).map(|parameter| parameter.name())
}
fn is_chosen(contender: &Contender, names: &[String], device: DeviceKind) -> bool {
    let fits = device == DeviceKind::Cpu || !contender.on_host;
    let is_main = MAIN.contains(&contender.name());
    names.iter().any(|name| {
        name == contender.name() || fits && (name == "all" || name == "main" && is_main)
    })
}

/// Returns the tables with these names, distinct, in listing order, each with every combination of
/// the requested parameters that it has. `main` and `all` select those that fit the device. Also
/// returns notes on parameters that some of the tables do not have.
pub(crate) fn choose(
    names: &[String],
    asked: &[Vec<Parameter>],
    device: DeviceKind,
) -> (Vec<Contender>, Vec<String>) {
    let chosen = all().filter(|c| is_chosen(c, names, device)).collect::<Vec<_>>();
    let without = |option: &'static str| {
        let names = chosen.iter().filter(|c| !c.has(option)).map(Contender::name);
        let names = names.collect::<Vec<_>>().join(", ");
        (!names.is_empty())
            .then(|| format!("--{option} does not apply to {names}: measured without it"))
    };
    let notes = options(asked).filter_map(without).collect();
    let variants = |contender: Contender| match contender.kind.clone() {
        Scheme::Adjusted(kind) => parameters::variants(kind, asked)
            .into_iter()
            .map(|(asked, kind)| Contender {
                kind: Scheme::Adjusted(kind),
                asked,
                ..contender.clone()
            })
            .collect(),
        Scheme::Pairs(_) | Scheme::Lists(_) => vec![contender],
    };
    (chosen.iter().cloned().flat_map(variants).collect(), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel::{Device, Error};
    use koel_classic::Options;

    #[test]
    fn yardsticks_answer_like_tables() {
        let device = Device::cpu_with_threads(2).unwrap();
        let stream = device.stream().unwrap();
        for kind in YARDSTICKS {
            for n in [0u32, 1, 2, 33, 5000] {
                let keys = (0..n)
                    .map(|i| i.wrapping_mul(0x9E37_79B1))
                    .chain([u32::MAX])
                    .collect::<Vec<u32>>();
                let values = (0..=n).map(|i| i ^ 5).collect::<Vec<u32>>();
                let (keys_staged, values_staged) =
                    (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
                let table = kind
                    .build(&stream, keys_staged.view(), values_staged.view(), &Options::default())
                    .unwrap();
                let report = table.report();
                assert_eq!((report.pairs, report.attempts), (keys.len(), 1), "{}", kind.name());
                assert!(
                    report.bytes >= 8 * keys.len() && report.slots >= keys.len(),
                    "{}: {report:?}",
                    kind.name()
                );
                let queries = keys.iter().flat_map(|&k| [k, k ^ 0x0101_0101]).collect::<Vec<u32>>();
                let mut values_out = device.alloc::<u32>(queries.len()).unwrap();
                let mut found = device.alloc::<u8>(queries.len()).unwrap();
                let staged = device.stage(&queries).unwrap();
                table
                    .get_into(&stream, staged.view(), values_out.view_mut(), found.view_mut())
                    .unwrap();
                let (values_out, found_out) =
                    (values_out.download().unwrap(), found.download().unwrap());
                for (i, query) in queries.iter().enumerate() {
                    let expected = keys.iter().position(|k| k == query).map(|at| values[at]);
                    assert_eq!(
                        (found_out[i] == 1).then_some(values_out[i]),
                        expected,
                        "{}",
                        kind.name()
                    );
                    assert!(found_out[i] == 1 || values_out[i] == 0);
                }
                let short = table.get_into(
                    &stream,
                    staged.view().slice(1..).unwrap(),
                    device.alloc(1).unwrap().view_mut(),
                    found.view_mut(),
                );
                assert!(matches!(short, Err(Error::Length { .. })));
                let lengths = kind.build(
                    &stream,
                    keys_staged.view(),
                    values_staged.view().slice(1..).unwrap(),
                    &Options::default(),
                );
                assert!(matches!(lengths, Err(Error::Length { .. })));
            }
        }
    }

    #[test]
    fn policies_are_refused_where_they_cannot_be_kept() {
        let obstacle = |name: &str, policy, is_unique| {
            let contender = all().find(|c| c.name() == name).unwrap();
            contender.obstacle(Some(policy), is_unique).is_some()
        };
        for name in ["map", "single-level", "hashbrown", "hashbrown-sharded", "dashmap"] {
            for policy in [Duplicates::Unchecked, Duplicates::KeepLast, Duplicates::KeepFirst] {
                assert!(!obstacle(name, policy, true));
            }
            assert!(obstacle(name, Duplicates::Unchecked, false));
            assert_eq!(obstacle(name, Duplicates::KeepLast, false), name == "dashmap");
            let koels = name == "map" || name == "single-level";
            assert_eq!(obstacle(name, Duplicates::KeepFirst, false), !koels);
        }
    }

    #[test]
    fn names_choose_tables() {
        let owned = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<String>>();
        let names = |names: &[&str], device| {
            choose(&owned(names), &[], device).0.iter().map(Contender::name).collect::<Vec<_>>()
        };
        let everything = all().map(|c| c.name()).collect::<Vec<_>>();
        assert_eq!(names(&["all"], DeviceKind::Cpu), everything);
        assert!(!names(&["all"], DeviceKind::Cuda).contains(&"hashbrown"));
        assert_eq!(names(&["main"], DeviceKind::Cpu).len(), MAIN.len());
        assert_eq!(names(&["main"], DeviceKind::Cuda).len(), MAIN.len() - YARDSTICKS.len());
        assert_eq!(
            names(&["dashmap", "hashbrown", "dashmap"], DeviceKind::Cuda),
            ["hashbrown", "dashmap"]
        );
        check(&owned(&everything), &[]).unwrap();
        let unknown = check(&owned(&["all", "hashbrow"]), &[]);
        assert!(matches!(unknown, Err(Failure::Usage(m)) if m.contains("'hashbrow'")));
        assert_eq!([place_of("map"), place_of("dashmap")], [0, MAIN.len() - 1]);
        let mut places = everything.iter().map(|name| place_of(name)).collect::<Vec<_>>();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..everything.len()));
        let mut distinct = everything.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), everything.len());
    }

    #[test]
    fn parameters_apply_where_they_exist_and_are_told_elsewhere() {
        let owned = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<String>>();
        let asked = [vec![Parameter::Functions(2), Parameter::Functions(5)]];
        let labels = |names: &[&str]| {
            let (chosen, notes) = choose(&owned(names), &asked, DeviceKind::Cpu);
            (chosen.iter().map(Contender::label).collect::<Vec<_>>(), notes)
        };
        assert_eq!(
            labels(&["single-level"]),
            (owned(&["single-level, functions 2", "single-level, functions 5"]), vec![])
        );
        let (main, notes) = labels(&["main"]);
        assert_eq!(main.len(), MAIN.len() + 1);
        let without = "map, two-level, two-kernel, sorted, hashbrown, hashbrown-sharded, dashmap";
        assert_eq!(
            notes,
            [format!("--functions does not apply to {without}: measured without it")]
        );
        check(&owned(&["main"]), &asked).unwrap();
        let none = check(&owned(&["sorted", "two-level"]), &asked);
        assert!(
            matches!(&none, Err(Failure::Usage(m)) if m.contains(
                "--functions: none of the chosen tables has this parameter (two-level, sorted); \
                 those with it are single-level, bucketed-cuckoo, random-walk"
            )),
            "{none:?}"
        );
    }
}
