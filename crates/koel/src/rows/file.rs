//! What files hold of rows, besides the keys and values.
use super::{Column, Counts, Rows};
use crate::error::Result;
use crate::file::filed::{Filed, Parts};
use crate::file::writer::Contents;
use crate::map::Map;
use koel_kernels::table::layout::Wide;
use std::io::{Read, Seek};

/// Layout from fingerprints to rows.
pub(crate) type Slots = Wide<u64, u32>;

impl<C: Column> Rows<C> {
    /// Returns the contents written before the keys.
    pub(crate) fn filed(&self) -> Result<Contents<'_, Slots, u64>> {
        let Rows { table, draw: fingerprints, built, .. } = self;
        let (duplicates, fingerprints) = (built.duplicates, *fingerprints);
        Ok(Contents { duplicates, fingerprints, ..table.filed()? })
    }
    /// Reads the table of the rows; `keys` reads the keys.
    pub(crate) fn read<R: Read + Seek>(
        parts: &mut Parts<'_, R>,
        keys: impl FnOnce(&mut Parts<'_, R>) -> Result<C>,
    ) -> Result<Rows<C>> {
        let (table, keys, header) = (Map::read(parts)?, keys(parts)?, parts.header());
        let built = Counts { duplicates: header.duplicates as usize, ..Counts::default() };
        let (draw, len) = (header.fingerprints, header.pairs as usize);
        Ok(Rows { table, draw, keys, len, built })
    }
}
