//! Work of a block in an update: its operations, its part of the stash, its counters, and what it
//! reports to the host when it cannot continue.
use super::NONE;
use super::entries::Entries;
use super::{Applying, BatchIn, IS_OTHER, IS_THERE, Unstashed, operation, state, status};
use crate::table::layout::{Layout, Shape, TableMut};
use crate::table::sending::{Form, Numbered, Routed, Sent};
use crate::table::{header, stash};
use core::marker::PhantomData;
use koel_simt::{Buf, In, Shared, Thread, Word, unroll};

// Counters of a block.
/// Slots that held pairs.
pub(crate) const TAKEN: u32 = 0;

/// Of those, the slots whose pair was removed.
pub(crate) const REMOVED: u32 = 1;

/// New keys.
pub(crate) const NEW: u32 = 2;

/// Removed keys.
pub(crate) const GONE: u32 = 3;

/// Pairs that were in the stash and stay there.
pub(crate) const KEPT: u32 = 4;

/// Linked operations.
pub(super) const LINKED: u32 = 5;

/// Not 0 if the stash has no room.
pub(super) const NO_ROOM: u32 = 6;

pub(crate) const COUNTS: u32 = 8;

/// Set in the link word of a stashed pair, above the slot of the next one, if the pair has left the
/// stash.
pub(super) const LEFT: u64 = 1 << 32;

/// The operations of a block's partition. `VALUES`: of a map rather than a set.
#[derive(Clone, Copy)]
pub(crate) struct Batch<L: Routed, const VALUES: bool = true> {
    pub shape: Shape,
    pub p: u32,
    pub applying: Applying,
    pub seed: u32,
    /// Number of operations in the bin.
    pub came: u32,
    /// Number of operations in the overflow area, which also holds those of other partitions.
    pub behind: u32,
    pub sent: In<u64>,
    pub overflow: In<u64>,
    pub operations: In<u8>,
    pub statuses: Buf<u8>,
    pub layout: PhantomData<L>,
}

impl<L: Routed, const VALUES: bool> Batch<L, VALUES> {
    /// Returns the kind of all operations.
    #[inline(always)]
    pub(crate) fn all(self) -> u32 {
        operation::of_all(self.applying.operation, VALUES)
    }
    /// Returns the kind of an operation.
    #[inline(always)]
    pub(crate) fn operation(self, number: u32) -> u32 {
        operation::of_number(self.applying.operation, self.operations, number, VALUES)
    }
    /// Returns the mixed key and index of the operation that is number `i` of those that came to
    /// the partition, if it is one of the partition and counts.
    #[inline(always)]
    fn number(self, i: u32) -> Option<(L::Mixed, u32)> {
        if i >= self.came + self.behind {
            return None;
        }
        let query = if i < self.came {
            <Numbered as Form<L::Key>>::array(self.sent)
                .get(self.applying.pass.bin(self.p) * self.applying.pass.room + i)
        } else {
            <Numbered as Form<L::Key>>::array(self.overflow).get(i - self.came)
        };
        let (sent, number) = <Numbered as Form<L::Key>>::split(query);
        let key = L::mixed_of(self.seed, sent);
        let is_alone = i < self.came && self.applying.pass.each == 1;
        let is_ours = is_alone || self.shape.partition(L::hash(key)) == self.p;
        let counts =
            is_ours && (self.applying.again == 0 || self.statuses.load(number) == status::NOT_DONE);
        if counts { Some((key, number)) } else { None }
    }
    /// Calls `apply` with the mixed key and index of each of a thread's operations, and the turn in
    /// which it comes: always in the same order.
    #[inline(always)]
    pub(crate) fn for_each<const THREADS: u32>(
        self,
        t: Thread,
        mut apply: impl FnMut(u32, L::Mixed, u32),
    ) {
        self.in_turns::<THREADS>(|turn| {
            if let Some((key, number)) = self.in_turn::<THREADS>(t, turn) {
                apply(turn, key, number);
            }
        });
    }
    /// Calls `take` in as many turns as [`for_each`](Self::for_each) has: the same for all threads.
    #[inline(always)]
    pub(super) fn in_turns<const THREADS: u32>(self, mut take: impl FnMut(u32)) {
        let mut turn = 0;
        while turn * THREADS < self.came + self.behind {
            take(turn);
            turn += 1;
        }
    }
    /// Returns the operation that a thread has in this turn.
    #[inline(always)]
    pub(super) fn in_turn<const THREADS: u32>(
        self,
        t: Thread,
        turn: u32,
    ) -> Option<(L::Mixed, u32)> {
        self.number(t.id() + turn * THREADS)
    }
}

/// Location of a key before the batch.
#[derive(Clone, Copy)]
pub(crate) enum There {
    Nowhere,
    /// In a slot of the partition.
    Slot(u32),
    /// In a slot of the stash.
    Stash(u32),
    /// In the header: it is the ambiguous key.
    Header,
}

/// Pairs of the partition that were in the stash.
#[derive(Clone, Copy)]
pub(crate) struct Stashed {
    /// Slot of the first one, or [`NONE`].
    pub list: u32,
    /// Offset of the words that link them.
    pub(super) links: u32,
    pub unstashed: Buf<u64>,
}

impl Stashed {
    #[inline(always)]
    #[track_caller]
    pub(super) fn link(self, slot: u32) -> u64 {
        self.unstashed.load_relaxed(self.links + slot)
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn pair<L: Layout>(self, slot: u32) -> L::Pair {
        let at = slot * L::SLOT_WORDS as u32;
        L::with_head(
            self.unstashed.load(at),
            if L::SLOT_WORDS == 1 { 0 } else { self.unstashed.load(at + 1) },
        )
    }
    #[inline(always)]
    #[track_caller]
    pub(crate) fn leave(self, slot: u32) {
        self.unstashed.store_relaxed(self.links + slot, self.link(slot) | LEFT);
    }
    /// Returns the slot of a mixed key.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn slot_of<L: Layout>(self, key: L::Mixed) -> Option<u32> {
        let mut slot = self.list;
        while slot != NONE {
            if L::key(self.pair::<L>(slot)) == key {
                return Some(slot);
            }
            slot = self.link(slot) as u32;
        }
        None
    }
    /// Calls `each` with the slots of a thread's share, and whether each pair has left. Returns the
    /// total number of pairs.
    #[inline(always)]
    pub(crate) fn for_each<const THREADS: u32>(
        self,
        t: Thread,
        mut each: impl FnMut(u32, bool),
    ) -> u32 {
        let (mut slot, mut listed) = (self.list, 0);
        while slot != NONE {
            let word = self.link(slot);
            if listed % THREADS == t.id() {
                each(slot, word & LEFT != 0);
            }
            slot = word as u32;
            listed += 1;
        }
        listed
    }
}

/// What a block has to do.
#[derive(Clone, Copy)]
pub(crate) struct Work<L: Routed, const VALUES: bool> {
    pub batch: Batch<L, VALUES>,
    pub stashed: Stashed,
    /// Not 0 if an earlier part of the batch left operations of this partition, as in the
    /// [`state`].
    pub(super) left: u32,
}

impl<L: Routed, const VALUES: bool> Work<L, VALUES> {
    /// Returns whether the block may begin. If operations were left before, these are left too. The
    /// error holds the word of the [`state`] that counts the reason, and the number of new keys.
    #[inline(always)]
    pub(crate) fn may_begin(&self) -> Result<(), (u32, u32)> {
        // Later operations must not be done first.
        match self.left {
            0 => Ok(()),
            left => {
                // An equal share of the bin, which may hold operations of several partitions.
                let (pass, wanted) =
                    (self.batch.applying.pass, self.batch.came as u64 * (left - 1) as u64);
                Err((state::REFUSED, pass.bin(wanted.div_ceil(256) as u32 + pass.each - 1)))
            }
        }
    }
}

/// Returns whether a block has nothing to do because all operations were done as
/// [sparse](crate::table::sparse) and its partitions had no pairs in the stash.
#[inline(always)]
pub(crate) fn is_idle<const THREADS: u32>(
    t: Thread,
    shape: Shape,
    lists: Buf<u32>,
    batch_state: Buf<u32>,
) -> bool {
    let first = t.block() + t.id() * t.grid_dim();
    let mut is_needed = batch_state.load(state::NEEDED) != 0;
    for p in t.strided(first, t.grid_dim() * THREADS, shape.partitions) {
        is_needed |= lists.load(p) != NONE;
    }
    t.barrier_count(is_needed) == 0
}

/// Returns the work of a partition's block, if there is any.
#[inline(always)]
pub(crate) fn begin<L: Routed, W: Word, const VALUES: bool>(
    p: u32,
    applying: Applying,
    table: TableMut<W>,
    sent: Sent<u64>,
    from: Unstashed,
    of_batch: BatchIn<impl Word>,
) -> Option<Work<L, VALUES>> {
    let TableMut { shape, stash_bits, header: table_header, .. } = table;
    let Unstashed { pairs: unstashed, lists } = from;
    let BatchIn { operations, statuses, state: batch_state, .. } = of_batch;
    let list = lists.load(p);
    let (came, behind) = applying.came(p, sent);
    // Every thread of the block returns, or none.
    if came + behind == 0 && list == NONE {
        return None;
    }
    let seed = table_header.load(header::SEED);
    let batch = Batch {
        shape,
        p,
        applying,
        seed,
        came,
        behind,
        sent: sent.queries,
        overflow: sent.overflow,
        operations,
        statuses,
        layout: PhantomData,
    };
    let links = (L::SLOT_WORDS as u32) << (stash_bits & 31);
    Some(Work {
        batch,
        stashed: Stashed { list, links, unstashed },
        left: batch_state.load(state::LEFT + p),
    })
}

/// Finishes a block's work. If it is not `done`, counts the failure, marks the block's operations
/// as not done, and puts the stashed pairs back.
#[inline(always)]
pub(crate) fn end<L: Routed, const VALUES: bool, const THREADS: u32>(
    t: Thread,
    work: Work<L, VALUES>,
    done: Result<(), (u32, u32)>,
    stash_bits: u32,
    lists: Buf<u32>,
    stash: Buf<u64>,
    batch_state: Buf<u32>,
) {
    let Work { batch, stashed, left } = work;
    let (id, p) = (t.id(), batch.p);
    if let Err((why, new)) = done {
        stashed.for_each::<THREADS>(t, |slot, _| {
            stash::insert::<L>(stash, stash_bits, stashed.pair::<L>(slot));
        });
        let word = state::LEFT + p;
        batch.for_each::<THREADS>(t, |_, _, number| {
            batch.statuses.store(number, status::NOT_DONE);
            if left == 0 {
                // Nothing was left before: the count starts from 0.
                batch_state.fetch_add(word, 1);
            }
        });
        t.barrier();
        if id == 0 {
            batch_state.fetch_add(state::WANTED, new);
            if left == 0 {
                let not_done = batch_state.load(word);
                batch_state.fetch_add(why, 1);
                batch_state
                    .store(word, 1 + (new * 256).checked_div(not_done).unwrap_or(0).min(256));
            }
        }
    }
    if id == 0 && stashed.list != NONE {
        lists.store(p, NONE);
    }
}

/// Reserves room in the stash for `more` additional pairs; all threads of a block call it. Returns
/// whether there is room.
#[inline(always)]
pub(crate) fn has_room(
    t: Thread,
    stash_bits: u32,
    counts: Shared<u32>,
    table_header: Buf<u32>,
    more: impl FnOnce() -> u32,
) -> bool {
    if t.id() == 0 {
        let more = more();
        let sum = table_header.fetch_add(header::STASHED, more).wrapping_add(more);
        // A decrease always fits.
        if (more as i32) > 0 && sum > 1 << (stash_bits & 31) {
            table_header.fetch_add(header::STASHED, more.wrapping_neg());
            counts.store(NO_ROOM, 1);
        }
    }
    t.barrier();
    counts.load(NO_ROOM) == 0
}

/// Writes a block's changes to the header. `value` returns the value of the ambiguous key.
#[inline(always)]
pub(crate) fn write_header(
    entries: Entries,
    counts: Shared<u32>,
    table_header: Buf<u32>,
    value: impl FnOnce() -> u64,
) {
    let more = counts.load(NEW).wrapping_sub(counts.load(GONE));
    if more != 0 {
        table_header.fetch_add(header::PAIRS, more);
    }
    // Changes of the ambiguous key.
    let fate = if entries.first.load(entries.room) != !0 {
        entries.assigned.load(entries.room)
    } else {
        0
    };
    if fate & IS_OTHER != 0 {
        let value = if fate & IS_THERE != 0 { value() } else { 0 };
        table_header.store(header::HELD, (fate & IS_THERE != 0) as u32);
        table_header.store(header::HELD_VALUE, value as u32);
        table_header.store(header::HELD_VALUE + 1, (value >> 32) as u32);
    }
}

#[inline(always)]
pub(crate) fn add_counts<const N: usize>(counts: Shared<u32>, adds: [(u32, u32); N]) {
    unroll::<N>(|j| {
        if adds[j].1 != 0 {
            counts.fetch_add(adds[j].0, adds[j].1);
        }
    });
}
