//! Candidate buckets of keys.
use koel_kernels::hash::mix::splitmix_at;

/// Candidate buckets of each of a list of keys.
pub struct Choices {
    functions: u32,
    buckets: u32,
    /// The buckets of a key are consecutive.
    of: Vec<u32>,
}
impl Choices {
    /// Draws `functions` different random buckets for each of `keys` keys. They may repeat if there
    /// are fewer buckets than functions.
    pub fn random(keys: usize, functions: u32, buckets: u32, seed: u64) -> Choices {
        let mut of = Vec::with_capacity(keys * functions as usize);
        let mut word = 0u64;
        let mut draw = || {
            word += 1;
            let random = splitmix_at(
                seed ^ (word >> 31).wrapping_mul(0xA24B_AED4_963E_E407),
                (word & 0x7FFF_FFFF) as u32,
            );
            ((u128::from(random) * u128::from(buckets)) >> 64) as u32
        };
        for key in 0..keys {
            let first = key * functions as usize;
            while of.len() < first + functions as usize {
                let bucket = draw();
                if buckets < functions || !of[first..].contains(&bucket) {
                    of.push(bucket);
                }
            }
        }
        Choices { functions, buckets, of }
    }
    /// Computes the buckets with `bucket_of(key, function)`.
    pub fn of_keys(
        keys: &[u32],
        functions: u32,
        buckets: u32,
        bucket_of: impl Fn(u32, u32) -> u32,
    ) -> Choices {
        let of = keys
            .iter()
            .flat_map(|&key| (0..functions).map(move |f| (key, f)))
            .map(|(key, f)| bucket_of(key, f));
        Choices { functions, buckets, of: of.collect() }
    }
    /// Returns the choices of the first `keys` keys.
    pub fn first(&self, keys: usize) -> Choices {
        let of = self.of[..self.of.len().min(keys * self.functions as usize)].to_vec();
        Choices { of, ..*self }
    }
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.of.len() / self.functions.max(1) as usize
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
    /// Returns the number of hash functions.
    pub fn functions(&self) -> u32 {
        self.functions
    }
    /// Returns the number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }
    /// Returns the buckets of a key, in the order of the functions.
    pub fn of(&self, key: u32) -> &[u32] {
        let d = self.functions as usize;
        &self.of[key as usize * d..][..d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_choices_differ_and_spread() {
        let choices = Choices::random(40_000, 4, 256, 3);
        let mut counts = [0f64; 256];
        for key in 0..40_000 {
            let of = choices.of(key);
            assert!((1..4).all(|i| !of[..i].contains(&of[i])), "{of:?}");
            of.iter().for_each(|&b| counts[b as usize] += 1.0);
        }
        // 160,000 choices, 625 per bucket, 255 degrees of freedom.
        let chi2 = counts.iter().map(|c| (c - 625.0) * (c - 625.0) / 625.0).sum::<f64>();
        assert!(chi2 < 255.0 + 6.0 * 22.6, "{chi2}");
        assert_eq!(Choices::random(10, 3, 2, 1).len(), 10);
    }
}
