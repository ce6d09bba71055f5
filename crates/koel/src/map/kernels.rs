//! Builds and lookups by kernels: on a GPU, and on the test executor.
use super::plan::Plan;
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::error::Result;
use koel_kernels::map::build::{Source, map_build, map_check_stash};
use koel_kernels::map::find::{map_find, map_find_or};
use koel_kernels::map::header;
use koel_kernels::map::partition::{
    NARROW, OVERFLOW, SMALL, map_from_groups, map_from_input_narrow, map_from_input_small, map_from_input_wide,
};

/// A table in device memory.
pub struct Slots {
    pub slots: Buffer<u64>,
    pub stash: Buffer<u64>,
    pub header: Buffer<u32>,
}
impl Slots {
    pub fn new(device: &Device, plan: &Plan) -> Result<Slots> {
        Ok(Slots {
            slots: device.alloc(plan.slots())?,
            stash: device.alloc(1 << plan.stash_bits)?,
            header: device.alloc(header::WORDS)?,
        })
    }
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + self.stash.bytes() + self.header.bytes()
    }
}

/// Memory that a build needs besides the table: about 1.1 times the input a pass.
pub struct Scratch {
    /// Pairs by group and by partition, each with an overflow area behind.
    by_group: Buffer<u64>,
    by_partition: Buffer<u64>,
    /// Of both passes: cursors, then how much of each bin is valid.
    cursors: Buffer<u32>,
    valid: Buffer<u32>,
}
impl Scratch {
    pub fn new(device: &Device, plan: &Plan) -> Result<Scratch> {
        let groups = plan.groups.map_or(0, |g| g.overflow + OVERFLOW) as usize;
        let bins = plan.groups.map_or(0, |g| g.count) as usize + plan.shape.partitions as usize;
        Ok(Scratch {
            by_group: device.alloc(groups)?,
            by_partition: device.alloc((plan.partitions.overflow + OVERFLOW) as usize)?,
            cursors: device.alloc(bins)?,
            valid: device.alloc(bins)?,
        })
    }
    pub fn bytes(&self) -> usize {
        self.by_group.bytes() + self.by_partition.bytes() + self.cursors.bytes() + self.valid.bytes()
    }
}

/// Puts a build on the stream: everything is cleared, written and, if `check`, searched for equal keys. The header tells
/// how it went.
pub fn build(
    stream: &Stream,
    plan: &Plan,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    check: bool,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let (n, shape) = (plan.n, plan.shape);
    table.header.view_mut().fill_bytes(0, stream)?;
    table.stash.view_mut().fill_bytes(0xFF, stream)?;
    scratch.cursors.view_mut().fill_bytes(0, stream)?;
    scratch.valid.view_mut().fill_bytes(0xFF, stream)?;

    let groups = plan.groups.map_or(0, |g| g.count as usize);
    let aligned = (keys.is_aligned(16) && values.is_aligned(16)) as u32;
    let (keys, values) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
    let first_bins = plan.groups.unwrap_or(plan.partitions);
    let tile = plan.first_tile(stream.device().max_shared());
    let grid = n.div_ceil(tile.pairs());
    {
        let out = match plan.groups {
            Some(_) => scratch.by_group.view_mut().arg("groups", stream)?,
            None => scratch.by_partition.view_mut().arg("partitions", stream)?,
        };
        let cursors = scratch.cursors.view_mut().slice(..first_bins.count as usize)?.arg("cursors", stream)?;
        let valid = scratch.valid.view_mut().slice(..first_bins.count as usize)?.arg("valid", stream)?;
        let header = table.header.view_mut().arg("header", stream)?;
        let launch = match tile {
            NARROW => map_from_input_narrow::launch::<Stream>,
            SMALL => map_from_input_small::launch::<Stream>,
            _ => map_from_input_wide::launch::<Stream>,
        };
        // SAFETY: `n` keys and values; one cursor a bin; `out` has every bin's room and the overflow area behind.
        unsafe { launch(stream, grid, shape, n, aligned, keys, values, first_bins, out, cursors, valid, header) }?;
    }
    if let Some(group_bins) = plan.groups {
        let tiles = group_bins.room.div_ceil(NARROW.pairs());
        let group_cursors = scratch.cursors.view().slice(..groups)?.arg("cursors", stream)?;
        let group_valid = scratch.valid.view().slice(..groups)?.arg("valid", stream)?;
        let input = scratch.by_group.view().arg("groups", stream)?;
        let out = scratch.by_partition.view_mut().arg("partitions", stream)?;
        let cursors = scratch.cursors.view_mut().slice(groups..)?.arg("cursors", stream)?;
        let valid = scratch.valid.view_mut().slice(groups..)?.arg("valid", stream)?;
        let header = table.header.view_mut().arg("header", stream)?;
        // SAFETY: as above; the input has every group's room.
        unsafe {
            map_from_groups::launch(
                stream,
                group_bins.count * tiles,
                shape,
                group_bins,
                tiles,
                group_cursors,
                group_valid,
                input,
                plan.partitions,
                out,
                cursors,
                valid,
                header,
            )
        }?;
    }
    let source =
        Source { room: plan.partitions.room, check: check as u32, stash_bits: plan.stash_bits, list: plan.list };
    {
        // With one pass the first area is empty, as its header word says.
        let first_area = plan.groups.map_or(0, |g| g.overflow as usize);
        let second_area = plan.partitions.overflow as usize;
        let overflow_first = scratch.by_group.view().slice(first_area..)?.arg("overflow", stream)?;
        let overflow_second = scratch.by_partition.view().slice(second_area..)?.arg("overflow", stream)?;
        let pairs = scratch.by_partition.view().arg("pairs", stream)?;
        let counts = scratch.cursors.view().slice(groups..)?.arg("counts", stream)?;
        let valid = scratch.valid.view().slice(groups..)?.arg("valid", stream)?;
        let slots = table.slots.view_mut().arg("slots", stream)?;
        let stash = table.stash.view_mut().arg("stash", stream)?;
        let header = table.header.view_mut().arg("header", stream)?;
        // SAFETY: the bins as the passes left them; `slots` has every partition's buckets, the stash 2^`stash_bits` slots.
        unsafe {
            map_build::launch(
                stream,
                shape.partitions,
                shape,
                source,
                pairs,
                counts,
                valid,
                overflow_first,
                overflow_second,
                slots,
                stash,
                header,
            )
        }?;
    }
    if check {
        let grid = (1u32 << plan.stash_bits).div_ceil(map_check_stash::SPEC.threads);
        let (slots, stash) = (table.slots.view().arg("slots", stream)?, table.stash.view().arg("stash", stream)?);
        let header = table.header.view_mut().arg("header", stream)?;
        // SAFETY: the table as built.
        unsafe { map_check_stash::launch(stream, grid, shape, source, slots, stash, header) }?;
    }
    Ok(())
}

/// Value and found flag of every query. Lengths are checked by the caller.
pub fn find(
    stream: &Stream,
    plan: &Plan,
    table: &Slots,
    queries: View<'_, u32>,
    mut values: ViewMut<'_, u32>,
    mut found: ViewMut<'_, u8>,
    n: u32,
) -> Result<()> {
    let grid = n.div_ceil(map_find::SPEC.threads);
    let (slots, stash) = (table.slots.view().arg("slots", stream)?, table.stash.view().arg("stash", stream)?);
    let header = table.header.view().arg("header", stream)?;
    let (queries, values) = (queries.arg("queries", stream)?, values.arg("values", stream)?);
    let found = found.arg("found", stream)?;
    // SAFETY: `n` queries and answers; the table as built with this plan.
    unsafe {
        map_find::launch(stream, grid, n, plan.shape, plan.stash_bits, slots, stash, header, queries, values, found)
    }
}

/// The value of every query, or `missing`. Lengths are checked by the caller.
pub fn find_or(
    stream: &Stream,
    plan: &Plan,
    table: &Slots,
    queries: View<'_, u32>,
    mut values: ViewMut<'_, u32>,
    missing: u32,
    n: u32,
) -> Result<()> {
    let grid = n.div_ceil(map_find_or::SPEC.threads);
    let (slots, stash) = (table.slots.view().arg("slots", stream)?, table.stash.view().arg("stash", stream)?);
    let header = table.header.view().arg("header", stream)?;
    let (queries, values) = (queries.arg("queries", stream)?, values.arg("values", stream)?);
    // SAFETY: `n` queries and answers; the table as built with this plan.
    unsafe {
        map_find_or::launch(
            stream,
            grid,
            n,
            missing,
            plan.shape,
            plan.stash_bits,
            slots,
            stash,
            header,
            queries,
            values,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Sizes;
    use super::*;
    use koel_kernels::hash::mix::mix;

    /// Builds with a plan and looks everything up; returns the header.
    fn build_and_find(seed: u64, plan: &Plan, check: bool) -> Vec<u32> {
        let device = Device::executor(seed);
        let stream = device.stream().unwrap();
        let keys = (0..plan.n).map(mix).collect::<Vec<_>>();
        let values = keys.iter().map(|k| !k).collect::<Vec<_>>();
        let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let mut table = Slots::new(&device, plan).unwrap();
        let mut scratch = Scratch::new(&device, plan).unwrap();
        build(&stream, plan, k.view(), v.view(), check, &mut table, &mut scratch).unwrap();
        let header = table.header.download().unwrap();
        if header[header::FAILED as usize] == 0 {
            let queries = (0..2 * plan.n).map(mix).collect::<Vec<_>>();
            let q = device.upload(&queries).unwrap();
            let (mut values, mut found) = (device.alloc(queries.len()).unwrap(), device.alloc(queries.len()).unwrap());
            let n = queries.len() as u32;
            find(&stream, plan, &table, q.view(), values.view_mut(), found.view_mut(), n).unwrap();
            let (values, found) = (values.download().unwrap(), found.download().unwrap());
            for (i, q) in queries.iter().enumerate() {
                let there = i < plan.n as usize;
                assert_eq!((found[i], values[i]), if there { (1, !q) } else { (0, 0) }, "key {q} of {plan:?}");
            }
        }
        header
    }
    fn small(n: usize, load: f64) -> Plan {
        Plan::sized(n, load, 0, Sizes { pairs: 100, one_pass: 4 }).unwrap()
    }

    #[test]
    fn two_passes() {
        for (seed, n) in [(1, 401), (2, 3000), (3, 9000)] {
            let plan = small(n, 0.8);
            assert!(plan.groups.is_some());
            let header = build_and_find(seed, &plan, true);
            assert_eq!(header[header::FAILED as usize] + header[header::DUPLICATED as usize], 0);
        }
    }
    /// Bins that are too small: what does not fit waits behind them, after either pass.
    #[test]
    fn overflow_is_not_lost() {
        for seed in 1..4 {
            let mut plan = small(5000, 0.7);
            let mut groups = plan.groups.unwrap();
            groups.room = 5000 / groups.count / 2 * 2;
            groups.overflow = groups.count * groups.room;
            plan.groups = Some(groups);
            plan.partitions.room = 96;
            plan.partitions.overflow = plan.shape.partitions * 96;
            let header = build_and_find(seed, &plan, seed == 1);
            assert!(header[header::OVERFLOW_FIRST as usize] > 0 && header[header::OVERFLOW_SECOND as usize] > 0);
            assert_eq!(header[header::FAILED as usize], 0);
        }
        let mut plan = Plan::new(3000, 0.8, 0).unwrap();
        plan.partitions.room = 2500;
        plan.partitions.overflow = 2500;
        let header = build_and_find(1, &plan, true);
        assert!(header[header::OVERFLOW_SECOND as usize] > 0 && header[header::FAILED as usize] == 0, "{header:?}");
    }
    /// Lists that are too short, and more pairs than two choices can place: the stash takes them.
    #[test]
    fn the_stash_takes_what_has_no_place() {
        for seed in 1..4 {
            let mut plan = small(2000, 0.9);
            plan.list = 2;
            assert_eq!(build_and_find(seed, &plan, true)[header::FAILED as usize], 0);
            let mut plan = small(2000, 0.95);
            plan.shape.buckets -= 1;
            let header = build_and_find(seed, &plan, true);
            assert!(header[header::STASHED as usize] > 10, "{header:?}");
            assert_eq!(header[header::FAILED as usize] + header[header::DUPLICATED as usize], 0);
            // And when it is full too, that is said.
            plan.shape.buckets = 10;
            assert!(build_and_find(seed, &plan, false)[header::FAILED as usize] > 0);
        }
    }
}
