//! Lock-free open addressing: a pair takes the first empty slot of its probe sequence by
//! compare-and-swap.
//!
//! The number of slots is a prime of the form 4k + 3, so that every sequence visits every slot.
use super::{EMPTY, PairsIn, Queries, holds, pair, status};
use koel_kernels::hash::Functions;
use koel_simt::{Buf, In, Thread, kernel};

/// Order in which a key probes the slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Sequence {
    /// `h, h + 1, h + 2, ..`
    Linear = 0,
    /// `h, h + 1, h - 1, h + 4, h - 4, h + 9, ..` (Radke 1970: visits all slots if their number is
    /// a prime of the form 4k + 3).
    Quadratic = 1,
    /// `h, h + g, h + 2 g, ..` with a step `g` that depends on the key.
    Double = 2,
}

/// Parameters of the probe sequence: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Probes {
    /// Hash functions for the first slot and for the step of [`Sequence::Double`].
    pub functions: Functions,
    /// A [`Sequence`].
    pub sequence: u32,
    /// Maximum number of probes per key: the number of slots.
    pub limit: u32,
}

/// An open-addressing table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ProbingRef {
    /// Parameters of the probe sequence.
    pub probes: Probes,
    /// Slots.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
}

/// State of a probe sequence.
#[derive(Clone, Copy)]
pub struct Walk {
    /// Slot to probe.
    pub at: u32,
    home: u32,
    /// Step, or the last square added or subtracted.
    step: u32,
    probe: u32,
}

impl Probes {
    /// Starts at the key's first slot.
    #[inline(always)]
    pub fn start(&self, key: u32) -> Walk {
        let home = self.functions.slot(0, key);
        let step = match self.sequence {
            s if s == Sequence::Linear as u32 => 1,
            s if s == Sequence::Quadratic as u32 => 0,
            _ => self.functions.slot(1, key).max(1),
        };
        Walk { at: home, home, step, probe: 0 }
    }
    /// Advances to the next slot.
    #[inline(always)]
    pub fn advance(&self, walk: &mut Walk) {
        let slots = self.functions.slots();
        walk.probe += 1;
        if self.sequence != Sequence::Quadratic as u32 {
            walk.at = add(walk.at, walk.step, slots);
        } else if walk.probe & 1 == 1 {
            // With r = (probe + 1) / 2, the square grows from (r - 1)^2 to r^2, by 2 r - 1 = probe.
            walk.step = add(walk.step, walk.probe, slots);
            walk.at = add(walk.home, walk.step, slots);
        } else {
            walk.at = if walk.home >= walk.step {
                walk.home - walk.step
            } else {
                slots - (walk.step - walk.home)
            };
        }
    }
}
/// Returns `a + b mod n`, for a, b < n.
#[inline(always)]
fn add(a: u32, b: u32, n: u32) -> u32 {
    if a >= n - b { a - (n - b) } else { a + b }
}

/// Inserts pair `i` unless its key is in the table. The caller sets all bits of `table` and clears
/// `status`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn probing_insert(
    t: Thread,
    pairs: PairsIn,
    probes: Probes,
    table: Buf<u64>,
    status: Buf<u32>,
) {
    let i = t.global_id();
    if i >= pairs.n {
        return;
    }
    let key = pairs.keys.get_stream(i);
    let e = pair(key, pairs.values.get_stream(i));
    if e == EMPTY {
        status.store_relaxed(status::ALL_ONES, 1);
        return;
    }
    let (mut walk, mut looked) = (probes.start(key), 0);
    while looked < probes.limit {
        let mut there = table.load_relaxed(walk.at);
        if there == EMPTY {
            there = table.cas(walk.at, EMPTY, e);
        }
        if there == EMPTY || holds(there, key) {
            return;
        }
        probes.advance(&mut walk);
        looked += 1;
    }
    status.fetch_add(status::FAILED, 1);
}

/// Looks up query `i`: probes until its key or an empty slot.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn probing_find(t: Thread, table: ProbingRef, queries: Queries) {
    let probes = table.probes;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let (mut walk, mut looked, mut hit) = (probes.start(key), 0, None);
    while looked < probes.limit {
        let e = table.slots.get(walk.at);
        if holds(e, key) {
            hit = Some(e);
        }
        if e == EMPTY || hit.is_some() {
            break;
        }
        probes.advance(&mut walk);
        looked += 1;
    }
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::hash::Family;

    #[test]
    fn every_sequence_comes_by_every_slot() {
        for slots in [3, 7, 11, 19, 1019, 4099] {
            for sequence in [Sequence::Linear, Sequence::Quadratic, Sequence::Double] {
                let functions = Functions::new(Family::Mixed, 2, slots, 5);
                let probes = Probes { functions, sequence: sequence as u32, limit: slots };
                for key in [0, 1, 77, u32::MAX] {
                    let (mut walk, mut seen) = (probes.start(key), vec![false; slots as usize]);
                    for _ in 0..slots {
                        assert!(
                            !std::mem::replace(&mut seen[walk.at as usize], true),
                            "{sequence:?} of {slots}"
                        );
                        probes.advance(&mut walk);
                    }
                }
            }
        }
    }
}
