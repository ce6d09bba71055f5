//! Theoretical predictions about cuckoo hashing.

/// Returns the threshold load, in pairs per slot: the largest load at which all keys can be placed,
/// with high probability, as the table grows. Each key may be in any of `functions` random buckets
/// of `bucket` slots.
///
/// Follows from the density of the (bucket + 1)-core of a random hypergraph: keys fit as long as
/// the core has at most `bucket` keys per bucket. Dietzfelbinger et al. 2010 for buckets of one
/// slot, Fountoulakis, Khosla and Panagiotou 2011 for larger ones. One function has no threshold:
/// 0.
pub fn threshold(functions: u32, bucket: u32) -> f64 {
    let (k, l) = (f64::from(functions), f64::from(bucket));
    if functions < 2 || bucket < 1 {
        return 0.0;
    }
    if (functions, bucket) == (2, 1) {
        // The limit of the formula: here a random graph gets its giant component.
        return 0.5;
    }
    // The Poisson mean at which the core has `l` keys per bucket: the left side increases with it.
    let keys_a_bucket = |x: f64| x * at_least(x, bucket) / (k * at_least(x, bucket + 1));
    let (mut low, mut high) = (1e-6, 2.0 * k * l + 20.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if keys_a_bucket(middle) < l { low = middle } else { high = middle }
    }
    low / (k * at_least(low, bucket).powi(functions as i32 - 1)) / l
}

/// Returns the probability that a Poisson variable with this mean is at least `least`.
pub fn at_least(mean: f64, least: u32) -> f64 {
    // Sums the smaller of the two tails, which keeps its precision.
    if f64::from(least) <= mean {
        let mut term = (-mean).exp();
        let mut below = 0.0;
        for i in 0..least {
            below += term;
            term *= mean / f64::from(i + 1);
        }
        return 1.0 - below;
    }
    let mut log = -mean;
    for i in 1..=least {
        log += mean.ln() - f64::from(i).ln();
    }
    let (mut term, mut sum, mut i) = (log.exp(), 0.0, least);
    while term > 0.0 && term > 1e-18 * sum {
        sum += term;
        i += 1;
        term *= mean / f64::from(i);
    }
    sum
}

/// Returns the 2011 paper's estimate of the exchanges needed to insert `keys` keys into `slots`
/// slots: each key tries independent random slots until one is empty.
pub fn exchanges(keys: f64, slots: f64) -> f64 {
    -slots * (1.0 - keys / slots).ln()
}

/// Returns the probability that some bucket gets more than `limit` keys when `keys` keys are spread
/// over `buckets` buckets, by the Poisson estimate of the 2009 paper.
pub fn overfull(keys: f64, buckets: f64, limit: u32) -> f64 {
    -(buckets * (-at_least(keys / buckets, limit + 1)).ln_1p()).exp_m1()
}

/// Returns the expected number of residue classes modulo `modulus` that have more than `most` of
/// `keys` distinct random 32-bit keys.
///
/// Functions of a key's residue give such a class `most` slots if a table has `most` functions:
/// one class is enough to make every build fail, whatever constants are drawn. The classes of keys
/// that also share a bucket, if buckets are chosen by the key modulo their number, are those modulo
/// the product of both numbers (Chinese remainders; the prime must not divide the number).
pub fn crowded_classes(keys: f64, modulus: u64, most: u32) -> f64 {
    const KEYS: u64 = 1 << 32;
    // The classes of the smallest residues have one member more.
    let (members, larger) = (KEYS / modulus, KEYS % modulus);
    let crowded = |members| drawn_at_least(KEYS as f64, members as f64, keys, most + 1);
    larger as f64 * crowded(members + 1) + (modulus - larger) as f64 * crowded(members)
}

/// Returns the probability that `drawn` of `all` things, drawn without replacement, contain at
/// least `least` of `marked` ones (hypergeometric distribution).
fn drawn_at_least(all: f64, marked: f64, drawn: f64, least: u32) -> f64 {
    let j = f64::from(least);
    if j > marked.min(drawn) {
        return 0.0;
    }
    // Exactly `least`: choose them, then the rest of the marked ones among what is not drawn.
    let mut log = 0.0;
    for i in (0..least).map(f64::from) {
        log += ((marked - i) / (i + 1.0)).ln() + ((drawn - i) / (all - i)).ln();
    }
    for i in (0..(marked - j) as u32).map(f64::from) {
        log += ((all - drawn - i) / (all - j - i)).ln();
    }
    let (mut term, mut sum, mut i) = (log.exp(), 0.0, j);
    while term > 1e-18 * sum {
        sum += term;
        term *= (marked - i) * (drawn - i) / ((i + 1.0) * (all - drawn - marked + i + 1.0));
        i += 1.0;
    }
    sum
}

/// The smallest tables of the 2011 paper, in slots per pair, for two functions and more.
pub const PRACTICAL_2011: [f64; 4] = [2.1, 1.1, 1.03, 1.02];

#[cfg(test)]
mod tests {
    use super::*;

    /// The lecture's table, and for larger buckets the values of Fountoulakis, Khosla and
    /// Panagiotou.
    #[test]
    fn thresholds_are_the_published_ones() {
        let published = [
            (2, 1, 0.5),
            (3, 1, 0.9179),
            (4, 1, 0.9768),
            (5, 1, 0.9924),
            (6, 1, 0.9973),
            (7, 1, 0.9990),
            (2, 2, 0.8970),
            (2, 3, 0.9592),
            (2, 4, 0.9803),
        ];
        for (functions, bucket, load) in published {
            let found = threshold(functions, bucket);
            assert!(
                (found - load).abs() < 1e-4,
                "{functions} functions, buckets of {bucket}: {found}, not {load}"
            );
        }
        assert!(threshold(2, 8) > 0.99 && threshold(7, 8) < 1.0 + 1e-9);
        assert_eq!((threshold(1, 4), threshold(3, 0)), (0.0, 0.0));
    }

    #[test]
    fn tails_agree() {
        for mean in [0.1f64, 1.0, 5.0, 409.0] {
            for least in [0, 1, 2, 5, 100, 409, 410, 513] {
                let term = |i: u32| {
                    (f64::from(i) * mean.ln()
                        - mean
                        - (1..=i).map(|j| f64::from(j).ln()).sum::<f64>())
                    .exp()
                };
                let sum: f64 = (least..least.max(mean as u32) + 400).map(term).sum();
                let found = at_least(mean, least);
                assert!((found - sum).abs() < 1e-9 + 1e-6 * sum, "{mean}, {least}: {found}, {sum}");
            }
        }
    }

    /// The 2009 paper reports 22 and 125 restarts in 25,000 runs.
    #[test]
    fn overfull_buckets_are_as_rare_as_in_2009() {
        for (keys, seen) in [(1e6f64, 22.0f64), (5e6, 125.0)] {
            let expected = 25_000.0 * overfull(keys, (keys / 409.0).ceil(), 512);
            assert!(
                (expected - seen).abs() < 4.0 * seen.sqrt(),
                "{keys}: {expected} expected, {seen} seen"
            );
        }
    }

    /// Ten things, four marked, five drawn: (4 * 15 + 1 * 6) / 252 have three marked ones or more.
    #[test]
    fn draws_without_replacement() {
        for (least, ways) in [(0, 252.0), (1, 246.0), (2, 186.0), (3, 66.0), (4, 6.0), (5, 0.0)] {
            let found = drawn_at_least(10.0, 4.0, 5.0, least);
            assert!((found - ways / 252.0).abs() < 1e-12, "{least}: {found}");
        }
    }

    /// Sparse keys: the binomial coefficient times a power of the density, within a few per cent.
    #[test]
    fn classes_of_the_published_primes() {
        let (p, n) = (334_214_459u64, 32e6f64);
        let density = n / 2f64.powi(32);
        let larger = (1u64 << 32) - 12 * p;
        let fives = larger as f64 * 1287.0 + (p - larger) as f64 * 792.0;
        let leading = fives * density.powi(5) * (1.0 - density).powi(8);
        let found = crowded_classes(n, p, 4);
        assert!(found > leading && found < 1.03 * leading, "{found}, {leading}");
        // The paper's 5 million keys, 2 or 3 per class of 1900813: a quarter of the classes have
        // four or more. By the key modulo the buckets, a class and bucket share one key.
        let found = crowded_classes(5e6, 1_900_813, 3) / 1_900_813.0;
        let poisson = at_least(5e6 / 1_900_813.0, 4);
        assert!((found - poisson).abs() < 1e-3, "{found}, {poisson}");
        assert_eq!(crowded_classes(5e6, 1_900_813 * 12_225, 3), 0.0);
    }

    #[test]
    fn twice_the_least_work_at_a_load_of_0_8() {
        assert!((exchanges(0.8, 1.0) / 0.8 - 2.0).abs() < 0.02);
    }
}
