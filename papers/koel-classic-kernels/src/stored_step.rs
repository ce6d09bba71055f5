//! The single-level cuckoo table with two bytes in each slot that lead to the next slot of its key
//! (Zachmann's lecture): an eviction hashes nothing.
//!
//! The slots are divided into regions of at most 2^16 slots, and a region into as many sub-tables
//! as a key has slots. A key has one slot in each sub-table of its region: the first by a hash
//! function, and each further one a *step* on, which is another function of the key. The position
//! of a slot tells the number of the function, and position and step tell the next slot, so that
//! two bytes suffice whatever the size of the table.
//!
//! A slot holds, from its low bits on, the step, the index of the pair, and what the region does
//! not tell of the key. A bijection mixes the key; its high bits choose the region, and its low
//! bits are stored: they and the index fill the remaining 48 bits. Values are stored separately.
use super::{CuckooMut, EMPTY, Queries, at_least_one};
use koel_kernels::hash::Functions;
use koel_kernels::hash::mix::mix;
use koel_simt::{In, Thread, kernel};

/// Bits of a step.
const STEP_BITS: u32 = 16;
/// Maximum number of slots of a region.
pub const MAX_REGION: u32 = 1 << STEP_BITS;

/// Division of the slots: a kernel argument. The functions that go with it are two, to
/// `sub_slots` slots: the first slot of a key in its sub-table, and its step.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Regions {
    /// Number of slots of a sub-table; at least 1.
    pub sub_slots: u32,
    /// Number of sub-tables of a region, at most 5; together at most [`MAX_REGION`] slots.
    pub sub_tables: u32,
    /// Binary logarithm of the number of regions, at most 16.
    pub bits: u32,
    /// Added to keys before they are mixed.
    pub seed: u32,
}
impl Regions {
    /// Returns the region of a key and what else identifies the key.
    #[inline(always)]
    pub fn split(self, key: u32) -> (u32, u32) {
        let mixed = mix(key ^ self.seed) as u64;
        let rest = 32 - self.bits;
        ((mixed >> rest) as u32, (mixed & ((1 << rest) - 1)) as u32)
    }
    /// Packs a slot. Never [`EMPTY`], because an index is less than the number of slots.
    #[inline(always)]
    fn slot_with(self, rest: u32, index: u32, step: u32) -> u64 {
        (rest as u64) << (32 + self.bits) | (index as u64) << STEP_BITS | step as u64
    }
    /// Returns whether the slot holds the key of this region that `rest` identifies.
    #[inline(always)]
    fn holds(self, e: u64, rest: u32) -> bool {
        e != EMPTY && (e >> (32 + self.bits)) as u32 == rest
    }
    #[inline(always)]
    fn index_of(self, e: u64) -> u32 {
        (e >> STEP_BITS) as u32 & ((1u64 << (STEP_BITS + self.bits)) - 1) as u32
    }
    /// Returns the number of slots of a region.
    #[inline(always)]
    fn slots(self) -> u32 {
        self.sub_slots * self.sub_tables
    }
    /// Returns the place in its sub-table, a step further.
    #[inline(always)]
    fn stepped(self, place: u32, step: u32) -> u32 {
        let place = place + step;
        if place < self.sub_slots { place } else { place - self.sub_slots }
    }
    /// Returns the slot that follows `at` for a key with this step: in the next sub-table, or the
    /// key's first slot after its last.
    #[inline(always)]
    pub fn next(self, at: u32, step: u32) -> u32 {
        let sub_slots = at_least_one(self.sub_slots);
        let (row, place) = (at / sub_slots, at % sub_slots);
        let sub_tables = at_least_one(self.sub_tables);
        if row % sub_tables + 1 < sub_tables {
            return (row + 1) * sub_slots + self.stepped(place, step);
        }
        let back = (sub_tables - 1) * step % sub_slots;
        let first = if place >= back { place - back } else { place + sub_slots - back };
        (row + 1 - sub_tables) * sub_slots + first
    }
}
#[inline(always)]
fn step_of(e: u64) -> u32 {
    e as u32 & (MAX_REGION - 1)
}

/// A table with steps: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct StoredStepRef {
    /// The two functions: first slot and step.
    pub functions: Functions,
    /// Division of the slots.
    pub regions: Regions,
    /// Slots.
    pub slots: In<u64>,
    /// Value of each pair.
    pub values: In<u32>,
}

/// Inserts the key of pair `i` and what it evicts.
#[kernel(image = CLASSIC, threads = 64, independent)]
pub fn stored_step_insert(
    t: Thread,
    keys: In<u32>,
    n: u32,
    max_exchanges: u32,
    regions: Regions,
    table: CuckooMut,
) {
    let CuckooMut { functions, slots, status } = table;
    let i = t.global_id();
    if i >= n {
        return;
    }
    let key = keys.get_stream(i);
    let (region, rest) = regions.split(key);
    let mut e = regions.slot_with(rest, i, functions.slot(1, key));
    let (mut at, mut exchanges) = (region * regions.slots() + functions.slot(0, key), 0);
    while exchanges < max_exchanges {
        e = slots.swap(at, e);
        if e == EMPTY {
            return;
        }
        at = regions.next(at, step_of(e));
        exchanges += 1;
    }
    status.fetch_add(super::status::FAILED, 1);
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn stored_step_find(t: Thread, table: StoredStepRef, queries: Queries) {
    let StoredStepRef { functions, regions, slots, values } = table;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (region, rest) = regions.split(key);
    let (mut place, step) = (functions.slot(0, key), functions.slot(1, key));
    let (mut value, mut hit, mut sub_table) = (0, 0, 0);
    while sub_table < regions.sub_tables {
        let at = region * regions.slots() + sub_table * regions.sub_slots + place;
        let e = slots.get(at);
        if regions.holds(e, rest) {
            (value, hit) = (values.get(regions.index_of(e)), 1);
            break;
        }
        place = regions.stepped(place, step);
        sub_table += 1;
    }
    queries.values.store_stream(i, value);
    queries.found.store_stream(i, hit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::hash::Family;

    const SHAPES: [(u32, u32, u32); 5] =
        [(1, 2, 0), (7, 3, 1), (16_384, 4, 3), (13_107, 5, 16), (32_768, 2, 0)];

    /// The slots of a key are one per sub-table of its region, and the step leads through them in a
    /// cycle.
    #[test]
    fn steps_lead_through_the_slots_of_a_key() {
        for (sub_slots, sub_tables, bits) in SHAPES {
            let regions = Regions { sub_slots, sub_tables, bits, seed: 5 };
            let functions = Functions::new(Family::Mixed, 2, sub_slots, 9);
            for key in (0..1000).chain([u32::MAX]) {
                let (region, _) = regions.split(key);
                let (first, step) = (functions.slot(0, key), functions.slot(1, key));
                let slot = |j: u32| {
                    let place = (first as u64 + j as u64 * step as u64) % sub_slots as u64;
                    (region * sub_tables + j) * sub_slots + place as u32
                };
                for j in 0..sub_tables {
                    assert_eq!(regions.next(slot(j), step), slot((j + 1) % sub_tables));
                }
            }
        }
    }
    /// Region and stored bits tell every key from every other, and no slot looks empty.
    #[test]
    fn slots_hold_key_index_and_step() {
        for (sub_slots, sub_tables, bits) in SHAPES {
            let regions = Regions { sub_slots, sub_tables, bits, seed: 77 };
            let last = ((1u64 << (STEP_BITS + bits)) - 2) as u32;
            for key in (0..1000).chain([u32::MAX]) {
                let (region, rest) = regions.split(key);
                assert!(u64::from(region) < 1 << bits);
                assert_eq!(region.checked_shl(32 - bits).unwrap_or(0) | rest, mix(key ^ 77));
                for (index, step) in [(0, 0), (last, MAX_REGION - 1), (last / 2, 17)] {
                    let e = regions.slot_with(rest, index, step);
                    assert!(e != EMPTY && regions.holds(e, rest));
                    assert!(rest == 0 || !regions.holds(e, rest - 1));
                    assert_eq!((regions.index_of(e), step_of(e)), (index, step));
                }
            }
        }
    }
}
