//! Arrangements of keys: which pairs of an input share a key, and where they lie.
use crate::keys::{random_word, unit};
use rayon::prelude::*;
use std::fmt;
use std::str::FromStr;

/// Which pairs of an input share a key, and where they lie. Shares are percentages of the pairs.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum Arrangement {
    /// `unique`: all keys are distinct.
    #[default]
    Unique,
    /// `hot`: one key has 10 % of the pairs, at random positions.
    Hot,
    /// `zipf`: the i-th most frequent key has 1/i of the first one's pairs.
    Zipf,
    /// `equal`: all pairs have one key.
    Equal,
    /// `P%`, or `shareS` with S = P/100: this share of the pairs has the key of a random pair.
    Share(f64),
    /// `nearDxS`: share S of the pairs has the key of the pair this distance before.
    Near(usize, f64),
    /// `runsL`: runs of this many equal keys.
    Runs(usize),
    /// `blocksB`: each batch of this many pairs comes twice in succession.
    Blocks(usize),
    /// `concatC`: C copies of one input. `twice` is `concat2`.
    Concat(usize),
    /// `sortedS`: sorted keys, of which this share repeats its neighbour.
    Sorted(f64),
    /// `reversedS`: the same, in descending order.
    Reversed(f64),
}
use Arrangement::*;

impl Arrangement {
    /// Those with a name and no number.
    const NAMED: [(&str, Arrangement); 5] =
        [("unique", Unique), ("twice", Concat(2)), ("hot", Hot), ("zipf", Zipf), ("equal", Equal)];

    /// Describes the keys for people.
    pub fn about(self) -> String {
        match self {
            Unique => "distinct random keys".into(),
            Concat(2) => "random keys, each twice".into(),
            Hot => "random keys, one of them with 10 % of the pairs".into(),
            Zipf => "random keys, distributed by Zipf's law (exponent 1)".into(),
            Equal => "one key".into(),
            Share(share) => format!("random keys, {share} % of the pairs with another pair's key"),
            Near(distance, share) => {
                format!("random keys, {share} % of the pairs with the key {distance} pairs before")
            }
            Runs(length) => format!("random keys, each {length} times in a row"),
            Blocks(block) => format!("random keys, each block of {block} twice"),
            Concat(copies) => format!("random keys, the input {copies} times"),
            Sorted(share) => format!("sorted keys, {share} % of them copies"),
            Reversed(share) => format!("keys in descending order, {share} % of them copies"),
        }
    }
    /// Returns the rank of the key of each of `n` pairs, which is below `n`; equal ranks stand for
    /// equal keys. `key` returns the key of a rank, by which sorted keys are sorted.
    pub fn ranks<K: Ord + Send>(
        self,
        n: usize,
        seed: u64,
        key: impl Fn(u32) -> K + Sync,
    ) -> Vec<u32> {
        let chance = |i: usize| unit(random_word(seed, i as u64));
        let near = |distance: usize, share: f64, mut i: usize| {
            while i >= distance && chance(i) < 0.01 * share {
                i -= distance;
            }
            i
        };
        let rank = |i: usize| match self {
            Hot if chance(i) < 0.1 => 0,
            Share(share) if chance(i) < 0.01 * share => {
                (random_word(seed, i as u64 ^ 1 << 63) % n as u64) as usize
            }
            Unique | Hot | Share(_) => i,
            // Uses the integral of 1/x instead of the sum.
            Zipf => ((chance(i) * (n as f64).ln()).exp() as usize - 1).min(n - 1),
            Equal => n / 2,
            Near(distance, share) => near(distance, share, i),
            Runs(length) => i / length,
            Blocks(block) => i / (2 * block) * block + i % block,
            Concat(copies) => i % n.div_ceil(copies),
            Sorted(share) | Reversed(share) => near(1, share, i),
        };
        let mut ranks = (0..n).into_par_iter().map(|i| rank(i) as u32).collect::<Vec<_>>();
        if matches!(self, Sorted(_) | Reversed(_)) {
            ranks.par_sort_by_cached_key(|&rank| key(rank));
        }
        if matches!(self, Reversed(_)) {
            ranks.reverse();
        }
        ranks
    }
}
impl FromStr for Arrangement {
    type Err = String;
    fn from_str(text: &str) -> Result<Arrangement, String> {
        let percentage = |share: f64| Some(share).filter(|share| *share > 0.0 && *share <= 100.0);
        let share = |text: &str| percentage(100.0 * text.parse::<f64>().ok()?);
        let count = |text: &str| text.parse::<usize>().ok().filter(|&count| count > 0);
        let with_number = || {
            if let Some(percent) = text.strip_suffix('%') {
                return percentage(percent.parse().ok()?).map(Share);
            }
            let (kind, number) = text.split_at(text.find(|c: char| c.is_ascii_digit())?);
            match kind {
                "share" => share(number).map(Share),
                "near" => {
                    let (distance, of_pairs) = number.split_once('x')?;
                    Some(Near(count(distance)?, share(of_pairs)?))
                }
                "runs" => count(number).map(Runs),
                "blocks" => count(number).map(Blocks),
                "concat" => count(number).map(Concat),
                "sorted" => share(number).map(Sorted),
                "reversed" => share(number).map(Reversed),
                _ => None,
            }
        };
        let named = Arrangement::NAMED.iter().find(|(name, _)| *name == text);
        named.map(|(_, named)| *named).or_else(with_number).ok_or_else(|| {
            format!(
                "expected {} or a percentage of pairs such as 0.1%, above 0 and at most 100; or \
                 near<D>x<S>, runs<L>, blocks<B>, concat<C>, sorted<S> or reversed<S>, with S \
                 above 0 and at most 1",
                Arrangement::NAMED.map(|(name, _)| name).join(", ")
            )
        })
    }
}
impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Arrangement::NAMED.iter().find(|(_, named)| named == self) {
            return f.write_str(name);
        }
        match *self {
            Share(share) => write!(f, "{share}%"),
            Near(distance, share) => write!(f, "near{distance}x{}", share / 100.0),
            Runs(length) => write!(f, "runs{length}"),
            Blocks(block) => write!(f, "blocks{block}"),
            Concat(copies) => write!(f, "concat{copies}"),
            Sorted(share) => write!(f, "sorted{}", share / 100.0),
            Reversed(share) => write!(f, "reversed{}", share / 100.0),
            Unique | Hot | Zipf | Equal => unreachable!("they have names"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 16] = [
        "unique",
        "twice",
        "hot",
        "zipf",
        "equal",
        "0.001%",
        "10%",
        "100%",
        "near1x0.01",
        "near100x0.2",
        "runs2",
        "blocks10",
        "concat8",
        "sorted0.1",
        "reversed0.5",
        "sorted1",
    ];

    #[test]
    fn names_can_be_read_again() {
        for text in NAMES {
            assert_eq!(text.parse::<Arrangement>().unwrap().to_string(), text);
        }
        assert_eq!("concat2".parse(), Ok(Concat(2)));
        assert_eq!("share0.1".parse(), Ok(Share(10.0)));
        for text in [
            "", "%", "0%", "-1%", "101%", "NaN%", "Unique", "10", "runs", "runs0", "near1",
            "near0x1", "share2", "hot1", "blocks1x",
        ] {
            assert!(text.parse::<Arrangement>().unwrap_err().contains("0.1%"), "{text}");
        }
    }

    #[test]
    fn keys_are_as_frequent_as_they_say() {
        let n = 100_000;
        let counts = |arrangement: Arrangement| {
            let mut counts = vec![0u64; n];
            let ranks = arrangement.ranks(n, 9, |rank| rank);
            ranks.into_iter().for_each(|rank| counts[rank as usize] += 1);
            counts
        };
        let distinct = |of: Arrangement| counts(of).iter().filter(|&&c| c > 0).count() as u64;
        assert_eq!(distinct(Unique), n as u64);
        assert!(counts(Concat(2)).iter().all(|&c| c == 0 || c == 2));
        assert_eq!(distinct(Equal), 1);
        assert!((9_500..10_500).contains(&counts(Hot)[0]));
        assert!((89_500..90_600).contains(&distinct(Hot)));
        // A tenth of the pairs has another pair's key, which leaves some keys without a pair.
        assert!((90_000..91_500).contains(&distinct(Share(10.0))), "{}", distinct(Share(10.0)));
        assert!((89_500..90_600).contains(&distinct(Near(7, 10.0))));
        assert!((89_500..90_600).contains(&distinct(Sorted(10.0))));
        assert_eq!((distinct(Runs(100)), distinct(Blocks(50))), (1000, n as u64 / 2));
        let zipf = counts(Zipf);
        // The first key's share is ln 2 / ln n, that of the first ten ln 11 / ln n.
        assert!((5_700..6_400).contains(&zipf[0]), "{}", zipf[0]);
        assert!((20_000..21_800).contains(&zipf[..10].iter().sum::<u64>()));
        for n in [0, 1, 2, 3, 33] {
            for name in NAMES {
                let ranks = name.parse::<Arrangement>().unwrap().ranks(n, 1, |rank| rank);
                assert!(
                    ranks.len() == n && ranks.iter().all(|&rank| (rank as usize) < n),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn pairs_lie_where_they_say() {
        let ranks = |arrangement: Arrangement| arrangement.ranks(8, 1, |rank| rank);
        assert_eq!(ranks(Runs(3)), [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(ranks(Blocks(2)), [0, 1, 0, 1, 2, 3, 2, 3]);
        assert_eq!(ranks(Concat(3)), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(ranks(Near(3, 100.0)), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert!(ranks(Sorted(30.0)).is_sorted());
        assert!(ranks(Reversed(30.0)).is_sorted_by(|a, b| a >= b));
    }
}
