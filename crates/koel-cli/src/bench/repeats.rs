//! Key sets with repeated keys, from none to a single key.
use std::fmt;
use std::str::FromStr;

/// Distribution of keys over pairs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Repeats {
    /// All keys are distinct.
    Unique,
    /// Every key has two pairs, half the input apart.
    Twice,
    /// One key has 10 % of the pairs, at random positions.
    Hot,
    /// The i-th most frequent key has 1/i of the first one's pairs.
    Zipf,
    /// All pairs have one key.
    Equal,
    /// This percentage of pairs has the key of a random pair.
    Percent(f64),
}
impl Repeats {
    const NAMED: [(&str, Repeats); 5] = [
        ("unique", Repeats::Unique),
        ("twice", Repeats::Twice),
        ("hot", Repeats::Hot),
        ("zipf", Repeats::Zipf),
        ("equal", Repeats::Equal),
    ];
    /// Describes the distribution for people.
    pub(crate) fn about(self) -> String {
        match self {
            Repeats::Unique => "distinct random keys".into(),
            Repeats::Twice => "random keys, each twice".into(),
            Repeats::Hot => "random keys, one of them with 10 % of the pairs".into(),
            Repeats::Zipf => "random keys, distributed by Zipf's law (exponent 1)".into(),
            Repeats::Equal => "one key".into(),
            Repeats::Percent(share) => {
                format!("random keys, {share} % of the pairs with another pair's key")
            }
        }
    }
    /// Returns the key of pair `i`, as an index below `n`. `chance` returns random words.
    pub(crate) fn rank(self, i: u64, n: u64, chance: impl Fn(u64) -> u64) -> u64 {
        let unit = || (chance(i) >> 11) as f64 / (1u64 << 53) as f64;
        match self {
            Repeats::Unique => i,
            Repeats::Twice => i % n.div_ceil(2),
            Repeats::Hot if unit() < 0.1 => 0,
            Repeats::Hot => i,
            // Uses the integral of 1/x instead of the sum.
            Repeats::Zipf => ((unit() * (n as f64).ln()).exp() as u64 - 1).min(n - 1),
            Repeats::Equal => n / 2,
            Repeats::Percent(share) if unit() < 0.01 * share => chance(i ^ 1 << 63) % n,
            Repeats::Percent(_) => i,
        }
    }
}
impl FromStr for Repeats {
    type Err = String;
    fn from_str(text: &str) -> Result<Repeats, String> {
        let named =
            Repeats::NAMED.iter().find(|(name, _)| *name == text).map(|(_, repeats)| *repeats);
        let share = || {
            text.strip_suffix('%')?
                .parse::<f64>()
                .ok()
                .filter(|share| *share > 0.0 && *share <= 100.0)
        };
        named.or_else(|| share().map(Repeats::Percent)).ok_or_else(|| {
            let names = Repeats::NAMED.map(|(name, _)| name).join(", ");
            format!(
                "expected {names} or a percentage of pairs such as 0.1%, above 0 and at most 100"
            )
        })
    }
}
impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (Repeats::NAMED.iter().find(|(_, repeats)| repeats == self), self) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Repeats::Percent(share)) => write!(f, "{share}%"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::random_word;
    use super::*;

    #[test]
    fn names_can_be_read_again() {
        for text in ["unique", "twice", "hot", "zipf", "equal", "0.001%", "10%", "100%"] {
            assert_eq!(text.parse::<Repeats>().unwrap().to_string(), text);
        }
        for text in ["", "%", "0%", "-1%", "101%", "NaN%", "Unique", "10"] {
            assert!(text.parse::<Repeats>().unwrap_err().contains("0.1%"), "{text}");
        }
    }

    #[test]
    fn keys_are_as_frequent_as_they_say() {
        let n = 100_000u64;
        let counts = |repeats: Repeats| {
            let mut counts = vec![0u64; n as usize];
            (0..n).for_each(|i| counts[repeats.rank(i, n, |i| random_word(9, i)) as usize] += 1);
            counts
        };
        let distinct = |repeats| counts(repeats).iter().filter(|&&c| c > 0).count() as u64;
        assert_eq!(distinct(Repeats::Unique), n);
        assert!(counts(Repeats::Twice).iter().all(|&c| c == 0 || c == 2));
        assert_eq!(distinct(Repeats::Equal), 1);
        assert!((9_500..10_500).contains(&counts(Repeats::Hot)[0]));
        assert!((89_500..90_600).contains(&distinct(Repeats::Hot)));
        // A tenth of the pairs has another pair's key, which leaves some keys without a pair.
        assert!(
            (90_000..91_500).contains(&distinct(Repeats::Percent(10.0))),
            "{}",
            distinct(Repeats::Percent(10.0))
        );
        let zipf = counts(Repeats::Zipf);
        // The first key's share is ln 2 / ln n, that of the first ten ln 11 / ln n.
        assert!((5_700..6_400).contains(&zipf[0]), "{}", zipf[0]);
        assert!((20_000..21_800).contains(&zipf[..10].iter().sum::<u64>()));
        for n in [1, 2, 3, 33] {
            for repeats in Repeats::NAMED
                .map(|(_, repeats)| repeats)
                .into_iter()
                .chain([Repeats::Percent(100.0)])
            {
                assert!((0..n).all(|i| repeats.rank(i, n, |i| random_word(1, i)) < n));
                assert!((0..n).all(|i| repeats.rank(i, n, |_| u64::MAX) < n));
            }
        }
    }
}
