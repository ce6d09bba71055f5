//! The number of occurrences of each key of a column, and the sum and the maximum of a second
//! column per key: `SELECT key, COUNT(*), SUM(value), MAX(value) GROUP BY key`.
//!
//!     cargo run --release --example group_by -- [ROWS, 1000000 by default]
//!
//! The time does not depend on the distribution of keys, even if one of them has half of all rows,
//! as here.
use koel::groups::reduction::{Max, Sum};
use koel::{Device, MultiMap, group_counts};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::BTreeMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let n = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse::<u32>())?;
    let device = Device::best()?;
    let key_of = |i: u32| if i.is_multiple_of(2) { 404 } else { (splitmix_at(9, i) % 5000) as u32 };
    let keys = (0..n).map(key_of).collect::<Vec<_>>();
    let values = (0..n).map(|i| (splitmix_at(2, i) % 1000) as u32).collect::<Vec<_>>();

    // Counts alone need no table.
    let counts = group_counts(&device, &keys)?;
    let rows = MultiMap::build(&device, &keys, &values)?;
    let (sums, greatest) = (rows.reduce::<Sum>()?, rows.reduce::<Max>()?);
    println!("{n} rows, {} keys on {}", counts.len(), device.name());
    println!("{:>8} {:>10} {:>12} {:>6}", "key", "count", "sum", "max");
    let mut largest = (0..counts.len()).collect::<Vec<_>>();
    largest.sort_by_key(|&i| std::cmp::Reverse(counts[i].1));
    for &i in largest.iter().take(5) {
        println!("{:>8} {:>10} {:>12} {:>6}", counts[i].0, counts[i].1, sums[i], greatest[i]);
    }

    let mut oracle = BTreeMap::<u32, (u32, u64, u32)>::new();
    for (&key, &value) in keys.iter().zip(&values) {
        let (count, sum, most) = oracle.entry(key).or_default();
        (*count, *sum, *most) = (*count + 1, *sum + value as u64, (*most).max(value));
    }
    let ours = counts
        .iter()
        .zip(&sums)
        .zip(&greatest)
        .map(|((&(key, count), &sum), &most)| (key, (count, sum, most)));
    if !ours.eq(oracle) {
        return Err("the groups differ from those of a naive loop".into());
    }
    println!("the same as a naive loop");
    Ok(())
}
