//! Keys that are equal modulo the papers' primes: builds that no constants can make succeed.
use super::super::{short_number, table};
use super::percent;
use crate::output::thousands;
use koel_kernels::hash::mix::splitmix_at;
use koel_lab::residues::{class_sizes, crowded};
use koel_lab::rounds::{MEAN_KEYS, SUB_TABLES};
use koel_lab::{keys, theory};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Row {
    table: &'static str,
    functions: u32,
    keys: usize,
    /// Keys of a class (in 2009: of a class in a bucket) are equal modulo this.
    modulus: u64,
    /// Expected number of classes with more keys than functions, in theory.
    expected: f64,
    /// Probability that there is one, so that no build of these keys can succeed.
    hopeless: f64,
    /// Sets of keys drawn.
    draws: usize,
    /// Mean number of such classes per set.
    seen: f64,
    /// Sets with one.
    hopeless_draws: usize,
}

const PRIME_2009: u64 = 1_900_813;
const PRIME_2011: u64 = 334_214_459;
const KEYS: [usize; 5] = [100_000, 1_000_000, 5_000_000, 1 << 24, 32_000_000];
/// Steps of [`measure`].
pub(super) const STEPS: u64 = KEYS.len() as u64;

/// Classes whose keys share all slots.
struct Classes {
    what: &'static str,
    modulus: u64,
    /// Numbers of functions, each a row.
    functions: &'static [u32],
}
/// Returns the classes of the papers' functions for this number of keys.
fn classes(keys: usize) -> [Classes; 3] {
    let buckets = keys.div_ceil(MEAN_KEYS) as u64;
    [
        // Keys of a bucket are equal modulo the number of buckets, too.
        Classes {
            what: "2009, bucket by the key",
            modulus: PRIME_2009 * buckets,
            functions: &[SUB_TABLES],
        },
        Classes { what: "2009, linear bucket", modulus: PRIME_2009, functions: &[SUB_TABLES] },
        Classes { what: "2011", modulus: PRIME_2011, functions: &[2, 3, 4, 5] },
    ]
}

/// Measures every table and size. Draws sets of `runs` million keys in all for each size, at most
/// `runs` sets.
pub(super) fn measure(runs: usize, seed: u64, done: impl Fn()) -> Vec<Row> {
    let mut rows = vec![];
    for n in KEYS {
        let draws = (runs * 1_000_000 / n).min(runs);
        for Classes { what, modulus, functions } in classes(n) {
            let drawn = (0..draws).map(|draw| {
                class_sizes(keys::ALL[0].keys(n, splitmix_at(seed, draw as u32)), modulus)
            });
            let drawn = drawn.collect::<Vec<_>>();
            for &functions in functions {
                let expected = theory::crowded_classes(n as f64, modulus, functions);
                let seen = drawn.iter().map(|sizes| crowded(sizes, functions));
                rows.push(Row {
                    table: what,
                    functions,
                    keys: n,
                    modulus,
                    expected,
                    // Classes are nearly independent: their number is nearly a Poisson variable.
                    hopeless: -(-expected).exp_m1(),
                    draws,
                    seen: seen.clone().sum::<usize>() as f64 / draws.max(1) as f64,
                    hopeless_draws: seen.filter(|classes| *classes > 0).count(),
                });
            }
        }
        done();
    }
    rows.sort_by_key(|row| (row.table, row.functions));
    rows
}

pub(super) fn text(rows: &[Row]) -> String {
    let tiny = |value: f64| value > 0.0 && value < 1e-4;
    let row = |r: &Row| {
        let drawn = |text: String| if r.draws > 0 { text } else { "-".into() };
        vec![
            format!("{}, {} functions", r.table, r.functions),
            thousands(r.keys),
            if tiny(r.expected) { "< 0.0001".into() } else { short_number(r.expected) },
            if tiny(r.hopeless) { "< 0.01 %".into() } else { percent(r.hopeless) },
            drawn(short_number(r.seen)),
            drawn(format!("{} of {}", r.hopeless_draws, r.draws)),
        ]
    };
    let heading = ["table", "keys", "classes", "hopeless", "seen", "hopeless sets"];
    format!(
        "\nRandom 32-bit keys that are equal modulo the papers' primes, 1900813 and 334214459: \
         classes with\nmore keys than functions (2009: and in one bucket), in theory and in drawn \
         sets. One such class is\nenough: no constants of the functions make the build \
         succeed.\n{}",
        table(&heading, &rows.iter().map(row).collect::<Vec<_>>())
    )
}
