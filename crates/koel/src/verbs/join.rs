//! Joins of two columns of keys.
use super::groups::{ByGroup, Groups, NO_GROUP};
use super::keyed::Keyed;
use crate::device::Device;
use crate::error::{Result, count32};
use crate::fallible::repeat;
use crate::parallel;

/// Row of the other column where there is none.
pub const NO_ROW: u32 = u32::MAX;
/// Rows that a thread joins at a time.
const CHUNK: usize = 1 << 12;

/// Which rows a join returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum How {
    /// Each pair of rows with equal keys.
    Inner,
    /// As [`Inner`](Self::Inner), and left rows without a match.
    Left,
    /// As [`Inner`](Self::Inner), and right rows without a match, by right row.
    Right,
    /// As [`Left`](Self::Left), and right rows without a match, at the end.
    Full,
    /// Left rows that have a match, with their first one.
    Semi,
    /// Left rows that have no match.
    Anti,
}

/// Pairs of rows of two columns: row `left[i]` with row `right[i]`, or with [`NO_ROW`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Joined {
    /// Rows of the left column.
    pub left: Vec<u32>,
    /// Rows of the right column.
    pub right: Vec<u32>,
}
impl Joined {
    /// Returns the number of pairs.
    #[inline]
    pub fn len(&self) -> usize {
        self.left.len()
    }
    /// Returns whether there are no pairs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
    /// Returns the pairs, with `None` for [`NO_ROW`].
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Option<u32>, Option<u32>)> {
        let some = |&row: &u32| (row != NO_ROW).then_some(row);
        self.left.iter().map(some).zip(self.right.iter().map(some))
    }
}

/// Joins two columns: returns pairs of rows with equal keys, each left row with every right row of
/// its key. Left rows ascend, and so do the right rows of each.
///
/// ```
/// use koel::{How, join};
///
/// let device = koel::Device::cpu()?;
/// let joined = join(&device, &["a", "b", "a"], &["c", "a", "a"], How::Inner)?;
/// assert_eq!((joined.left, joined.right), (vec![0, 0, 2, 2], vec![1, 2, 1, 2]));
/// let joined = join(&device, &["a", "b"], &["c", "a"], How::Full)?;
/// assert!(joined.iter().eq([(Some(0), Some(1)), (Some(1), None), (None, Some(0))]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Keys are equal as in [tables](crate::types): NaN equals NaN. Builds a map of the right column,
/// or of the left one for [`Right`](How::Right), and looks the other one up. Errors: more keys than
/// 31-bit indices can address; out of memory, also for the result.
#[doc(alias("merge"))]
pub fn join<K: Keyed>(device: &Device, left: &[K], right: &[K], how: How) -> Result<Joined> {
    if how == How::Right {
        let Joined { left, right } = join(device, right, left, How::Left)?;
        return Ok(Joined { left: right, right: left });
    }
    count32("left keys", left.len())?; // before anything is allocated
    let (groups, finder) = Groups::with_finder(device, &K::column(device, right)?.0)?;
    let found = finder.find(&groups, &K::column(device, left)?.0)?;
    drop(finder);
    joined(device, &found, &groups, &groups.by_group(device)?, how)
}
/// Returns pairs of rows, from the group of each left row among the groups of the right rows.
#[inline]
pub(crate) fn joined(
    device: &Device,
    found: &[u32],
    groups: &Groups,
    by_group: &ByGroup,
    how: How,
) -> Result<Joined> {
    let rows_of = |group: u32| match (how, group) {
        (How::Inner | How::Semi, NO_GROUP) => Matches::Nothing,
        (_, NO_GROUP) => Matches::None,
        (How::Anti, _) => Matches::Nothing,
        (How::Semi, group) => Matches::Rows(group, 1),
        (_, group) => Matches::Rows(group, by_group.size(group)),
    };
    let count = |groups: &[u32]| groups.iter().map(|&group| rows_of(group).len()).sum();
    let counts: Vec<usize> =
        device.install(|| parallel::map(found.chunks(CHUNK), |_, groups| count(groups)))?;
    let total = counts.iter().sum();
    let alone = if how == How::Full { groups.without(found)? } else { Vec::new() };
    let (mut of_left, mut of_right) =
        (repeat(NO_ROW, total + alone.len())?, repeat(NO_ROW, total + alone.len())?);
    of_right[total..].copy_from_slice(&alone);
    let parts = parallel::split(&mut of_left[..total], counts.iter().copied())
        .zip(parallel::split(&mut of_right[..total], counts.iter().copied()));
    let parts = found.chunks(CHUNK).zip(parts);
    device.install(|| {
        parallel::each(parts, |chunk, (groups, (mut to_left, mut to_right))| {
            for (row, &group) in ((chunk * CHUNK) as u32..).zip(groups) {
                let matches = rows_of(group);
                let (left, rest) = to_left.split_at_mut(matches.len());
                let (right, rest_of_right) = to_right.split_at_mut(matches.len());
                left.fill(row);
                if let Matches::Rows(group, _) = matches {
                    right.iter_mut().zip(by_group.rows(group)).for_each(|(to, row)| *to = row);
                }
                (to_left, to_right) = (rest, rest_of_right);
            }
        })
    });
    Ok(Joined { left: of_left, right: of_right })
}
/// Right rows of a left row.
enum Matches {
    /// The left row is not in the result.
    Nothing,
    /// The left row is in the result alone.
    None,
    /// The first rows of a group, and their number.
    Rows(u32, usize),
}
impl Matches {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Matches::Nothing => 0,
            Matches::None => 1,
            Matches::Rows(_, count) => *count,
        }
    }
}
