//! Tables of rows in host memory of which one key at a time changes.
use crate::error::Result;
use crate::file::stored::Stored;
use crate::rows::{Column, Rows};
use crate::set::SetOptions;
use crate::table::one_key::FEWEST;

/// Rows beyond which a batch adds the next one: it checks the limit.
const MOST: usize = 1 << 30;

/// What became of the row of a key.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// It has none, before or after.
    None,
    /// It is this one.
    Has(usize),
    /// It was this one, which another one fills, from the end.
    Gone(usize, usize),
    /// The key is to be inserted by a batch.
    Left,
}
/// Of rows in host memory that are their own.
impl Rows<Stored<u128>> {
    fn own(&mut self) -> &mut [u128] {
        let Some(keys) = self.keys.own_mut() else {
            unreachable!("they are in their own host memory")
        };
        keys
    }
    /// Returns the row of a key.
    #[inline]
    pub(super) fn row_of(&self, key: u128) -> Option<usize> {
        let fingerprint = <Stored<u128> as Column>::function(self.draw).of(key);
        let row = self.table.as_table().find_own(fingerprint)? as usize;
        (self.keys.host().get(row) == Some(&key)).then_some(row)
    }
    /// Changes whether there is a key, to what `holds` says of its row. Inserts a key only if
    /// there is room for its row, of up to `room`, and no other key has its fingerprint.
    #[inline]
    pub(super) fn alter(
        &mut self,
        key: u128,
        room: usize,
        holds: impl FnOnce(Option<usize>) -> bool,
    ) -> Row {
        let function = <Stored<u128> as Column>::function(self.draw);
        let (len, fingerprint) = (self.len, function.of(key));
        let other = self.table.as_table().find_own(fingerprint);
        let row = other.map(|row| row as usize);
        let row = row.filter(|&row| self.own().get(row) == Some(&key));
        match (row, holds(row)) {
            (None, false) => Row::None,
            (Some(row), true) => Row::Has(row),
            (Some(row), false) => {
                let (last, end) = (len - 1, self.own()[len - 1]);
                self.table.as_table_mut().alter(fingerprint, |_| None);
                if row != last {
                    self.own()[row] = end;
                    self.table.as_table_mut().alter(function.of(end), |_| Some(row as u32));
                }
                self.len = last;
                Row::Gone(row, last)
            }
            (None, true) => {
                let fits = other.is_none() && len < room.min(self.own().len()) && len < MOST;
                if !fits
                    || self.table.as_table_mut().alter(fingerprint, |_| Some(len as u32)).is_left
                {
                    return Row::Left;
                }
                self.own()[len] = key;
                self.len = len + 1;
                Row::Has(len)
            }
        }
    }
    /// Removes the keys that are not to be kept. `moved` receives each row that is filled, and the
    /// last one, which fills it.
    pub(super) fn retain(
        &mut self,
        mut keep: impl FnMut(u128, usize) -> bool,
        mut moved: impl FnMut(usize, usize),
    ) {
        let mut row = 0;
        while row < self.len {
            let key = self.own()[row];
            if keep(key, row) {
                row += 1;
            } else if let Row::Gone(row, last) = self.alter(key, 0, |_| false) {
                moved(row, last);
            }
        }
    }
    pub(super) fn clear(&mut self) {
        self.table.as_table_mut().clear();
        self.len = 0;
    }
    /// Makes room for twice the keys if there is none for one more. Errors: out of memory.
    pub(super) fn reserve_row(&mut self) -> Result<()> {
        let more = self.len.max(FEWEST);
        self.table.as_table_mut().reserve(more, SetOptions::default().into())?;
        if self.len < self.keys.len() { Ok(()) } else { self.reserve(more) }
    }
    /// Makes room for more keys. Errors: out of memory.
    pub(super) fn reserve(&mut self, more: usize) -> Result<()> {
        self.table.as_table_mut().reserve(more, SetOptions::default().into())?;
        let stream = self.device().stream()?;
        self.keys.grow(&stream, self.len, self.len + more)
    }
    pub(super) fn make_own(&mut self) -> Result<bool> {
        let len = self.len;
        Ok(self.table.as_table_mut().make_own()? && self.keys.make_own(len)?)
    }
}
