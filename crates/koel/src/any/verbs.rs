//! Verbs on keys of types known at run time.
use super::aggregate::{Aggregate, aggregate};
use super::column::{Column, ColumnVec};
use super::keys::Keys;
use super::layout::Layout;
use super::numbers::Form;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fallible::{collect, try_collect};
use crate::groups::NO_ID;
use crate::verbs::groups::{ByGroup, Finder, Groups, NO_GROUP, expanded};
use crate::verbs::{Aggregator, How, Joined, joined};
use std::fmt;
use std::sync::OnceLock;

const _: () = assert!(NO_ID == NO_GROUP);

/// Groups rows with equal keys, in order of first occurrence, to aggregate columns of as many rows.
///
/// See [the module](super) for an example. Errors: out of memory.
#[doc(alias("groupby", "aggregate", "factorize"))]
pub fn group_by<'a>(device: &Device, keys: &Keys<'a>) -> Result<GroupBy<'a>> {
    let Groups { ids, firsts, .. } = groups_of(device, keys)?;
    let aggregator = Aggregator::new(device, ids, firsts.len())?;
    Ok(GroupBy { keys: Keys::new(keys.columns().iter().copied())?, firsts, aggregator })
}
fn groups_of(device: &Device, keys: &Keys<'_>) -> Result<Groups> {
    let (of, rows) = Layout::of(keys, Form::Packed)?.row_keys(device, keys)?;
    let groups = Groups::of(device, &of)?;
    match rows {
        Some(rows) => groups.of_rows(&rows, keys.len()),
        None => Ok(groups),
    }
}
/// Returns the first row of each distinct key, ascending. Rows without a key are
/// [left out](super::Nulls::Excluded).
///
/// ```
/// use koel::any::{Column, Keys, unique};
///
/// let device = koel::Device::cpu()?;
/// let keys = Keys::new([Column::from(&["a", "b", "a"]), Column::from(&[1u8, 1, 2])])?;
/// assert_eq!(unique(&device, &keys)?, [0, 1, 2]);
/// assert_eq!(unique(&device, &Keys::new([Column::from(&[0.0, -0.0])])?)?, [0]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: out of memory.
#[doc(alias("distinct", "drop_duplicates", "dedup"))]
pub fn unique(device: &Device, keys: &Keys<'_>) -> Result<Vec<u32>> {
    Ok(groups_of(device, keys)?.firsts)
}
/// Returns whether each row's key is among those of other rows.
///
/// ```
/// use koel::any::{Column, Keys, is_in};
///
/// let device = koel::Device::cpu()?;
/// let keys = |column: Column<'static>| Keys::new([column]);
/// let found = is_in(&device, &keys((&["a", "d"]).into())?, &keys((&["b", "a"]).into())?)?;
/// assert_eq!(found, [true, false]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: columns of different number or types, two meanings of nulls, out of memory.
#[doc(alias("isin", "member"))]
pub fn is_in(device: &Device, keys: &Keys<'_>, of: &Keys<'_>) -> Result<Vec<bool>> {
    keys.check_nulls(of)?;
    let ids = Index::build(device, of)?.ids(keys)?;
    Ok(collect(ids.into_iter().map(|id| id != NO_ID))?)
}
/// Joins rows: returns pairs of rows with equal keys, as [`koel::join`](crate::join) does. See
/// [`Keys`] for an example.
///
/// Errors: columns of different number or types, two meanings of nulls; out of memory, also for the
/// result.
#[doc(alias("merge"))]
pub fn join(device: &Device, left: &Keys<'_>, right: &Keys<'_>, how: How) -> Result<Joined> {
    left.check_nulls(right)?;
    if how == How::Right {
        let Joined { left, right } = join(device, right, left, How::Left)?;
        return Ok(Joined { left: right, right: left });
    }
    Index::build(device, right)?.join(left, how)
}

/// An index of rows: finds those with equal keys, for one batch of others after the other. Ids
/// number the distinct keys in order of first occurrence.
///
/// ```
/// use koel::any::{Column, Index, Keys};
/// use koel::{How, NO_ID};
///
/// let device = koel::Device::cpu()?;
/// let index = Index::build(&device, &Keys::new([Column::from(&["a", "b", "a"])])?)?;
/// for (batch, ids) in [(["b", "c"], [1, NO_ID]), (["a", "b"], [0, 1])] {
///     assert_eq!(index.ids(&Keys::new([Column::from(&batch)])?)?, ids);
/// }
/// let joined = index.join(&Keys::new([Column::from(&["a", "c"])])?, How::Left)?;
/// assert!(joined.iter().eq([(Some(0), Some(0)), (Some(0), Some(2)), (Some(1), None)]));
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Index {
    device: Device,
    layout: Layout,
    groups: Groups,
    finder: Finder,
    /// When the first batch was joined.
    by_group: OnceLock<ByGroup>,
}
impl Index {
    /// Builds the index of these rows. Keys are copied; on a GPU, the table is there.
    ///
    /// Errors: out of memory.
    pub fn build(device: &Device, keys: &Keys<'_>) -> Result<Index> {
        let layout = Layout::of(keys, Form::Packed)?;
        let (of, rows) = layout.row_keys(device, keys)?;
        let (groups, finder) = Groups::with_finder(device, &of)?;
        let (groups, finder) = match rows {
            Some(rows) => finder.of_rows(groups, &rows, keys.len())?,
            None => (groups, finder),
        };
        let (device, by_group) = (device.clone(), OnceLock::new());
        Ok(Index { device, layout, groups, finder, by_group })
    }
    /// Returns the number of distinct keys.
    pub fn len(&self) -> usize {
        self.groups.firsts.len()
    }
    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the first row of each distinct key, ascending.
    pub fn first_rows(&self) -> &[u32] {
        &self.groups.firsts
    }
    /// Returns the id of each row of other keys, or [`NO_ID`]. The meaning of nulls is that of the
    /// index.
    ///
    /// Errors: columns of another number or of other types, out of memory.
    pub fn ids(&self, keys: &Keys<'_>) -> Result<Vec<u32>> {
        self.layout.check(keys, "the index")?;
        let (of, rows) = self.layout.row_keys(&self.device, keys)?;
        let found = self.finder.find(&self.groups, &of)?;
        match rows {
            Some(rows) => expanded(&found, &rows, keys.len(), NO_ID),
            None => Ok(found),
        }
    }
    /// Joins a batch of rows, the left ones, with those of the index: see [`join`].
    ///
    /// Errors: as [`ids`](Self::ids), and [`How::Right`], which is a join of the other side; out of
    /// memory for the result.
    pub fn join(&self, left: &Keys<'_>, how: How) -> Result<Joined> {
        if how == How::Right {
            let (found, expected) = (format!("{how:?}"), "one of the others".into());
            return Err(Error::Setting { field: "how", found, expected });
        }
        let found = self.ids(left)?;
        joined(&self.device, &found, &self.groups, self.by_group()?, how)
    }
    fn by_group(&self) -> Result<&ByGroup> {
        if let Some(by_group) = self.by_group.get() {
            return Ok(by_group);
        }
        let by_group = self.groups.by_group(&self.device)?;
        Ok(self.by_group.get_or_init(|| by_group))
    }
}
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, device) = (self.groups.ids.len(), self.device.name());
        write!(f, "Index[{} keys of {rows} rows] on {device}", self.len())
    }
}

/// Rows grouped by key: see [`group_by`].
pub struct GroupBy<'a> {
    keys: Keys<'a>,
    firsts: Vec<u32>,
    aggregator: Aggregator,
}
impl GroupBy<'_> {
    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.firsts.len()
    }
    /// Returns whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }
    /// Returns the first row of each group, ascending.
    pub fn first_rows(&self) -> &[u32] {
        &self.firsts
    }
    /// Returns the group of each row, or [`NO_ID`] for rows without a key.
    pub fn ids(&self) -> &[u32] {
        self.aggregator.ids()
    }
    /// Returns the number of rows of each group.
    pub fn sizes(&self) -> &[u32] {
        self.aggregator.sizes()
    }
    /// Returns the key of each group, column by column.
    ///
    /// Errors: more than 2^35 - 8 bytes of strings, out of memory.
    pub fn keys(&self) -> Result<Vec<ColumnVec>> {
        let device = self.aggregator.device();
        try_collect(self.keys.columns().iter().map(|column| column.take(device, &self.firsts)))
    }
    /// Aggregates the values of each group that are not null: the result is null where there are
    /// none. Reads the column once; on a GPU, copies it there, and the results back.
    ///
    /// Errors: another number of values than rows, an aggregate that the type does not have, out of
    /// memory.
    pub fn aggregate(&self, of: Aggregate, values: &Column<'_>) -> Result<ColumnVec> {
        aggregate(&self.aggregator, of, values)
    }
}
impl fmt::Debug for GroupBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, device) = (self.ids().len(), self.aggregator.device().name());
        write!(f, "GroupBy[{rows} rows in {} groups] on {device}", self.len())
    }
}
