//! Realistic key sets: random ones, and ones that make simple hash functions fail.
use koel_kernels::hash::mix::{mix, splitmix_at};

/// Kind of key set: any number of distinct keys.
#[derive(Clone, Copy)]
pub struct KeySet {
    /// Short name.
    pub name: &'static str,
    make: fn(usize, u64) -> Vec<u32>,
}
impl KeySet {
    /// Returns `n` keys. Each seed gives another set, as far as the kind allows.
    pub fn keys(&self, n: usize, seed: u64) -> Vec<u32> {
        (self.make)(n, seed)
    }
}

/// All kinds.
pub const ALL: [KeySet; 5] = [
    KeySet {
        name: "random",
        make: |n, seed| (0..n as u32).map(|i| mix(i ^ seed as u32)).collect(),
    },
    KeySet {
        name: "sequential",
        make: |n, seed| (0..n as u32).map(|i| i.wrapping_add(seed as u32)).collect(),
    },
    KeySet { name: "half of a range", make: half },
    KeySet { name: "voxels of a sphere", make: sphere },
    KeySet {
        name: "equal mod 334214459",
        make: |n, _| (0..n as u32).map(|i| (i % 12) * 334_214_459 + i / 12).collect(),
    },
];

/// A random half of a range: a dense set, for which Dietzfelbinger and Schellbach (2009) show that
/// simple hash classes fail.
fn half(n: usize, seed: u64) -> Vec<u32> {
    (0..n as u32).map(|i| 2 * i + (splitmix_at(seed, i) & 1) as u32).collect()
}
/// Voxels that a sphere's surface intersects, in row-major order of a grid of 1024 (the last
/// coordinate in the lowest ten bits): the first `n` voxels of a sphere large enough to have them.
fn sphere(n: usize, seed: u64) -> Vec<u32> {
    // A shell one voxel thick has slightly more than 4 pi r^2 voxels.
    let radius = (n as f64 / 12.0).sqrt().ceil().min(500.0) + 1.0;
    let r = radius as i64 + 1;
    let middle = 512 + (seed % 8) as i64;
    let mut keys = Vec::with_capacity(2 * n);
    for x in -r..=r {
        for y in -r..=r {
            let outer = ((radius + 0.6).powi(2) - (x * x + y * y) as f64).max(0.0).sqrt() as i64;
            for z in -outer..=outer {
                let distance = ((x * x + y * y + z * z) as f64).sqrt();
                if (distance - radius).abs() <= 0.6 && keys.len() < n {
                    let [x, y, z] = [x, y, z].map(|c| (c + middle) as u32 & 1023);
                    keys.push(x << 20 | y << 10 | z);
                }
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_as_many_as_asked_for() {
        for set in ALL {
            for (n, seed) in [(0, 1), (1, 2), (1000, 3), (50_000, 4)] {
                let keys = set.keys(n, seed);
                assert_eq!(keys.len(), n, "{}", set.name);
                assert_eq!(keys.iter().collect::<HashSet<_>>().len(), n, "{}", set.name);
            }
        }
    }
}
