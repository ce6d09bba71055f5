//! Verifies lookups that return ranges of a list: those of multi-value tables, compacting tables
//! and sets.
use super::super::keys::{ABSENT, Queries};
use koel_classic::Listed;
use rayon::prelude::*;
use std::fmt;

/// A table's list and the pairs that it was built from.
pub(crate) struct Entries<'a> {
    /// Content of the list.
    pub listed: Listed,
    pub list: &'a [u32],
    /// Keys of the pairs. The value of a pair is its index with the bits of `mark` flipped.
    pub keys: &'a [u32],
    pub mark: u32,
    /// Number of pairs with the key of each pair; `None`: one.
    pub multiplicities: Option<&'a [u32]>,
    /// Number of distinct keys.
    pub distinct: usize,
}

/// The first wrong answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrongRange {
    /// Index of the query.
    index: usize,
    key: u32,
    /// Number of entries of the key.
    expected: u32,
    /// Start and count returned by the table.
    found: (u32, u32),
}
impl fmt::Display for WrongRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongRange { index, key, expected, found: (start, count) } = self;
        write!(f, "query {index}, key {key:#010x}: answered start = {start}, count = {count}, ")?;
        match expected {
            0 => write!(f, "but it is absent (start = 0, count = 0)"),
            _ if expected == count => write!(f, "but entries there are not of this key"),
            _ => write!(f, "but it has {expected} entries"),
        }
    }
}

impl Entries<'_> {
    /// Checks the list itself: every value, or as many keys as are distinct, or nothing.
    ///
    /// Errors: what is wrong with it.
    pub(crate) fn check_list(&self) -> Result<(), String> {
        let expected = match self.listed {
            Listed::Nothing => 0,
            Listed::Keys => self.distinct,
            Listed::Values => self.keys.len(),
        };
        if self.list.len() != expected {
            return Err(format!("lists {} entries, expected {expected}", self.list.len()));
        }
        if self.listed != Listed::Values {
            return Ok(());
        }
        let mut seen = vec![false; expected];
        for &value in self.list {
            match seen.get_mut((value ^ self.mark) as usize) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(format!("lists value {value} twice")),
                None => return Err(format!("lists {value}, which is no value")),
            }
        }
        Ok(())
    }
    /// Returns the key of each entry; `None` if it is no value of a pair.
    fn keys_of_entries(&self) -> Vec<Option<u32>> {
        let key = |&entry: &u32| match self.listed {
            Listed::Values => self.keys.get((entry ^ self.mark) as usize).copied(),
            _ => Some(entry),
        };
        self.list.par_iter().map(key).collect()
    }
    /// Compares the answers to the first queries, or to all. The range of a present key must have
    /// as many entries as the key, all of them its own; that of an absent key must be 0, 0. With
    /// [`check_list`](Self::check_list), each range then has exactly the entries of its key.
    ///
    /// Errors: the first wrong answer. `starts` and `counts` must have equal lengths.
    pub(crate) fn check(
        &self,
        queries: &Queries,
        starts: &[u32],
        counts: &[u32],
    ) -> Result<(), WrongRange> {
        assert!(starts.len() <= queries.keys.len() && counts.len() == starts.len());
        let keys = self.keys_of_entries();
        // End of the adjacent entries with the key of each entry.
        let mut ends = (1..=keys.len() as u32).collect::<Vec<u32>>();
        for i in (1..keys.len()).rev() {
            if keys[i - 1] == keys[i] {
                ends[i - 1] = ends[i];
            }
        }
        let entries = |expected: u32| match (expected, self.multiplicities) {
            (ABSENT, _) => 0,
            (pair, Some(multiplicities)) if self.listed == Listed::Values => {
                multiplicities[pair as usize]
            }
            _ => 1,
        };
        let right = |i: usize| {
            let (start, count) = (starts[i], counts[i]);
            let is_own = || {
                let at = start as usize;
                keys.get(at) == Some(&Some(queries.keys[i])) && count <= ends[at] - start
            };
            match entries(queries.expected[i]) {
                0 => (start, count) == (0, 0),
                expected => count == expected && (self.listed == Listed::Nothing || is_own()),
            }
        };
        match (0..starts.len()).into_par_iter().position_first(|i| !right(i)) {
            None => Ok(()),
            Some(index) => Err(WrongRange {
                index,
                key: queries.keys[index],
                expected: entries(queries.expected[index]),
                found: (starts[index], counts[index]),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pairs of key 10 and one of key 11, as a multi-value table lists them.
    const KEYS: [u32; 4] = [10, 11, 10, 10];
    const COUNTS: [u32; 4] = [3, 1, 3, 3];
    fn values(list: &[u32], mark: u32) -> Entries<'_> {
        let multiplicities = Some(&COUNTS[..]);
        Entries { listed: Listed::Values, list, keys: &KEYS, mark, multiplicities, distinct: 2 }
    }
    fn queries() -> Queries {
        Queries { keys: vec![10, 11, 12], expected: vec![3, 1, ABSENT] }
    }

    #[test]
    fn each_kind_of_wrong_range_is_caught() {
        let (list, queries) = ([1, 3, 0, 2], queries());
        let entries = values(&list, 0);
        entries.check_list().unwrap();
        entries.check(&queries, &[1, 0, 0], &[3, 1, 0]).unwrap();
        entries.check(&queries, &[1], &[3]).unwrap();
        for (starts, counts, index) in [
            ([1, 0, 0], [2, 1, 0], 0),        // a value is missing
            ([0, 0, 0], [3, 1, 0], 0),        // another key's value
            ([2, 0, 0], [3, 1, 0], 0),        // beyond the list
            ([u32::MAX, 0, 0], [3, 1, 0], 0), // far beyond it
            ([1, 0, 0], [3, 0, 0], 1),        // missed
            ([1, 0, 0], [3, 1, 1], 2),        // found an absent key
            ([1, 0, 2], [3, 1, 0], 2),        // a start for an absent key
        ] {
            let wrong = entries.check(&queries, &starts, &counts).unwrap_err();
            assert_eq!(wrong.index, index, "{starts:?}, {counts:?}: {wrong}");
        }
        // Values of another build.
        let marked = values(&list, 4);
        assert!(marked.check(&queries, &[1, 0, 0], &[3, 1, 0]).is_err());
        assert_eq!(marked.check_list().unwrap_err(), "lists 1, which is no value");
        values(&[5, 7, 4, 6], 4).check(&queries, &[1, 0, 0], &[3, 1, 0]).unwrap();
        let wrong = entries.check(&queries, &[1, 0, 0], &[2, 1, 0]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "query 0, key 0x0000000a: answered start = 1, count = 2, but it has 3 entries"
        );
    }

    #[test]
    fn lists_that_lose_or_repeat_a_value_are_caught() {
        assert_eq!(values(&[1, 3, 0], 0).check_list().unwrap_err(), "lists 3 entries, expected 4");
        assert_eq!(values(&[1, 3, 0, 3], 0).check_list().unwrap_err(), "lists value 3 twice");
    }

    #[test]
    fn sets_and_compacting_tables_have_one_entry_per_key() {
        let of = |listed, list| Entries { listed, list, ..values(&[], 0) };
        let queries = queries();
        let compacting = of(Listed::Keys, &[11, 10]);
        compacting.check_list().unwrap();
        compacting.check(&queries, &[1, 0, 0], &[1, 1, 0]).unwrap();
        assert_eq!(compacting.check(&queries, &[0, 0, 0], &[1, 1, 0]).unwrap_err().index, 0);
        assert_eq!(compacting.check(&queries, &[1, 0, 0], &[2, 1, 0]).unwrap_err().index, 0);
        assert!(of(Listed::Keys, &[11]).check_list().is_err());
        let set = of(Listed::Nothing, &[]);
        set.check_list().unwrap();
        set.check(&queries, &[0, 0, 0], &[1, 1, 0]).unwrap();
        assert_eq!(set.check(&queries, &[0, 0, 0], &[1, 1, 1]).unwrap_err().index, 2);
        assert_eq!(set.check(&queries, &[0, 0, 0], &[1, 0, 0]).unwrap_err().index, 1);
    }
}
