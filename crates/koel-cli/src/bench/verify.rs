//! Verifies every answer.
mod lists;

use super::keys::{ABSENT, Queries};
pub(crate) use lists::Entries;
use rayon::prelude::*;
use std::fmt;

/// The first wrong answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WrongAnswer {
    /// Index of the query.
    index: usize,
    key: u32,
    /// Value of the key; `None` if it is absent.
    expected: Option<u32>,
    /// Flag and value returned by the table.
    found: (u8, u32),
}
impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongAnswer { index, key, expected, found: (flag, value) } = self;
        write!(
            f,
            "query {index}, key {key:#010x}: answered found = {flag}, value = {value}, but it "
        )?;
        match expected {
            Some(expected) => write!(f, "is present with value {expected}"),
            None => write!(f, "is absent (found = 0, value = 0)"),
        }
    }
}

/// Compares the answers to the first queries, or to all. A present key must have `found` 1 and the
/// expected value with the bits of `mark` flipped; an absent key must have both 0.
///
/// Errors: the first wrong answer. `found` and `values` must have equal lengths.
pub(crate) fn check(
    queries: &Queries,
    mark: u32,
    values: &[u32],
    found: &[u8],
) -> Result<(), WrongAnswer> {
    assert!(values.len() <= queries.keys.len() && found.len() == values.len());
    let right = |(&expected, (&value, &flag)): (&u32, (&u32, &u8))| match expected {
        ABSENT => flag == 0 && value == 0,
        _ => flag == 1 && value == expected ^ mark,
    };
    let answers = queries.expected.par_iter().zip(values.par_iter().zip(found));
    match answers.position_first(|answer| !right(answer)) {
        None => Ok(()),
        Some(index) => {
            let expected = Some(queries.expected[index]).filter(|&e| e != ABSENT).map(|e| e ^ mark);
            Err(WrongAnswer {
                index,
                key: queries.keys[index],
                expected,
                found: (found[index], values[index]),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_lie_is_caught() {
        let queries = Queries { keys: vec![10, 11, 12], expected: vec![0, ABSENT, 7] };
        check(&queries, 0, &[0, 0, 7], &[1, 0, 1]).unwrap();
        check(&queries, 4, &[4, 0, 3], &[1, 0, 1]).unwrap();
        let wrong = check(&queries, 4, &[4, 0, 7], &[1, 0, 1]).unwrap_err();
        assert_eq!((wrong.index, wrong.expected), (2, Some(3)), "the value of the build before");
        for (values, found, index) in [
            ([0, 0, 7], [0, 0, 1], 0), // missed, although its value is 0
            ([0, 0, 7], [1, 1, 1], 1), // found an absent key
            ([0, 9, 7], [1, 0, 1], 1), // a value for an absent key
            ([0, 0, 6], [1, 0, 1], 2), // another key's value
            ([0, 0, 7], [1, 0, 2], 2), // an invalid flag
            ([0, 0, 0], [1, 0, 0], 2),
        ] {
            assert_eq!(check(&queries, 0, &values, &found).unwrap_err().index, index);
        }
        check(&queries, 0, &[0, 0], &[1, 0]).unwrap();
        assert_eq!(check(&queries, 0, &[0, 9], &[1, 0]).unwrap_err().index, 1);
        let wrong = check(&queries, 0, &[0, 0, 6], &[1, 0, 1]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "query 2, key 0x0000000c: answered found = 1, value = 6, but it is present with value 7"
        );
    }
}
