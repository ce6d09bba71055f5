//! Sparse updates of a table, a map or a [set](crate::set::sparse): one thread per operation
//! changes the one or two buckets where the operation's key may lie.
//!
//! The update of whole partitions in [`update`](super::update) reads the entire table. If
//! operations are few, reading and writing the buckets of their keys moves fewer bytes. Operations
//! are partitioned as for that update, but by the first pass alone; its bins, of several partitions
//! each, are the *coarse bins* here. Both buckets of a key are in its partition, so one block per
//! coarse bin makes all changes to the coarse bin's buckets, and the block's barriers order them:
//! 1. Operations wait for the first buckets of their keys. In each *round*, the lowest-index
//!    operation claims the bucket, in shared memory; the others wait for the next round. An
//!    operation is done if its first bucket suffices: the key is there, cannot be elsewhere, or is
//!    new and has a free slot there. [Fillers](super::layout::Shape::filler) count as free slots.
//! 2. The other operations wait for second buckets, again in rounds. If both buckets of a new key
//!    are full, a key of the second one, or of the first, is evicted to its other bucket, if need
//!    be after a third key was evicted from there. In each round an operation tries one such way,
//!    or a sparse. It also claims the buckets that the way takes, until the round ends.
//!
//! Operations on one key are thus done in the order of their indices.
//!
//! Class bits are set when keys overflow and are never cleared: one may stay set after the last
//! such key is gone, until another update reads the whole partition. Pairs in the stash stay there,
//! and full buckets stay full while the stash holds pairs.
//!
//! # What is left
//! These are left [not done](status::NOT_DONE) for the kernels of whole partitions, which follow:
//! the ambiguous key, keys in the stash, keys that need more than two evictions, operations that
//! need too many rounds, and coarse bins whose bins could not hold their operations. Where nothing
//! is left, those kernels find empty coarse bins.
mod bucketed;
mod work;

pub(crate) use bucketed::{Bucketed, MixedOf, ValueOf};

use crate::table::header;
use crate::table::layout::{Layout, Shape, TableMut};
use crate::table::sending::{Form, Numbered, Pass, Routed, Sent};
use crate::table::update::{BatchIn, state, status};
use koel_simt::{Buf, Thread};
use work::{NEED_SECOND, Work};

/// Threads per block.
pub const THREADS: u32 = 256;

/// Maximum number of rounds for first buckets, and so of operations done on one key.
const MAX_ROUNDS: u32 = 32;

/// Parameters of a sparse update: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Sparse {
    /// Pass that brought the operations to their coarse bins.
    pub pass: Pass,
    /// Kind of all operations: one of [`operation`](crate::table::update::operation).
    pub operation: u32,
    /// Number of claim words per coarse bin, less 1: ones in its low bits, at least three.
    pub claims: u32,
}

/// Returns the bytes of shared memory for coarse bins of up to `sparse.pass.room` operations on
/// keys of
/// `key_bytes` bytes.
pub const fn shared_bytes(sparse: Sparse, key_bytes: u32) -> u32 {
    let room = sparse.pass.room.next_multiple_of(4);
    room * (key_bytes + 4 + LISTS * 4) + (sparse.claims + 1) * 4 + COUNTS * 4
}

/// Keys of a table, as they are sent.
type KeyOf<T> = <<T as Bucketed>::Pairs as Layout>::Key;

/// Number of operation lists: those that wait, those that continue to wait, and those that need
/// second buckets.
const LISTS: u32 = 3;

// Counters of a block. The first words count the operations of each list.
/// Not 0 if operations are left.
const LEFT: u32 = LISTS;

/// Not 0 if operations were done in this round.
const DONE: u32 = LISTS + 1;

/// Not 0 if an operation was left in its second bucket; others on its key may follow.
const STUCK: u32 = LISTS + 2;

const COUNTS: u32 = 8;

/// Marks an unclaimed bucket. Greater than any index, since claims take the minimum.
const FREE: u32 = !0;

/// Added to a thread index: the thread has claimed the bucket in addition to its own.
const TAKEN: u32 = 1 << 31;

/// The operations of a coarse bin, as they were sent.
#[derive(Clone, Copy)]
struct Arrived {
    t: Thread,
    sparse: Sparse,
    shape: Shape,
    seed: u32,
    sent: Sent<u64>,
    coarse_bin: u32,
    /// Number of operations in the bin.
    came: u32,
}
impl Arrived {
    /// Returns the mixed key and index of operation `i` of the bin.
    #[inline(always)]
    fn query<T: Bucketed>(self, i: u32) -> (MixedOf<T>, u32) {
        let (sent, number) = <Numbered as Form<KeyOf<T>>>::split(
            <Numbered as Form<KeyOf<T>>>::array(self.sent.queries)
                .get(self.coarse_bin * self.sparse.pass.room + i),
        );
        (T::Pairs::mixed_of(self.seed, sent), number)
    }
    /// Leaves all operations to the kernels that follow. `has_spilled`: some of them are in the
    /// overflow area.
    #[inline(always)]
    fn leave<T: Bucketed>(self, has_spilled: bool, statuses: Buf<u8>) {
        let Arrived { sparse, sent, .. } = self;
        let mut i = self.t.id();
        while i < self.came {
            statuses.store(self.query::<T>(i).1, status::NOT_DONE);
            i += THREADS;
        }
        i = self.t.id();
        let behind = if has_spilled {
            sent.state.get(crate::table::sending::state::OVERFLOWED).min(sparse.pass.area)
        } else {
            0
        };
        while i < behind {
            let (sent, number) = <Numbered as Form<KeyOf<T>>>::split(
                <Numbered as Form<KeyOf<T>>>::array(sent.overflow).get(i),
            );
            if sparse.pass.bin(T::Pairs::partition_of(self.seed, sent, self.shape))
                == self.coarse_bin
            {
                statuses.store(number, status::NOT_DONE);
            }
            i += THREADS;
        }
    }
    /// Loads the operations of the bin, and clears the counters. A barrier must follow.
    #[inline(always)]
    fn load<T: Bucketed>(self, work: Work<T>) {
        let id = self.t.id();
        let mut i = id;
        while i < self.came {
            let (key, number) = self.query::<T>(i);
            work.keys.store(i, key);
            work.numbers.store(i, number);
            i += THREADS;
        }
        if id < COUNTS {
            work.counts.store(id, 0);
        }
    }
}

#[inline(always)]
pub(crate) fn update_sparse<T: Bucketed>(
    t: Thread,
    sparse: Sparse,
    table: TableMut<T::Word>,
    sent: Sent<u64>,
    cursors: Buf<u32>,
    batch: BatchIn<ValueOf<T>>,
) {
    let TableMut { shape, header: table_header, .. } = table;
    let (spilled, batch_state) = (sent.spilled, batch.state);
    t.wait_for_previous();
    t.let_next_start();
    let (id, coarse_bin, room) = (t.id(), t.block(), sparse.pass.room);
    let has_spilled = spilled.get(coarse_bin) != 0;
    let came = cursors.load(coarse_bin).min(!spilled.get(coarse_bin)).min(room);
    if came == 0 && !has_spilled {
        return;
    }
    let (seed, has_stash) =
        (table_header.load(header::SEED), table_header.load(header::STASHED) != 0);
    let arrived = Arrived { t, sparse, shape, seed, sent, coarse_bin, came };
    // Operations that an earlier part of the batch left must be done first.
    if has_spilled || batch_state.load(state::REFUSED) | batch_state.load(state::CROWDED) != 0 {
        arrived.leave::<T>(has_spilled, batch.statuses);
        if id == 0 {
            batch_state.store_relaxed(state::NEEDED, 1);
        }
        return;
    }
    let work = Work::<T>::new(t, sparse, table, batch, has_stash);
    arrived.load(work);
    t.barrier();
    let mut more = 0;
    work.rounds::<false>(t, 0, 1, came, &mut more);
    t.barrier();
    work.rounds::<true>(t, NEED_SECOND, 0, work.counts.load(NEED_SECOND), &mut more);
    t.barrier();
    let more = t.warp().reduce_add(more);
    if t.lane() == 0 && more != 0 {
        table_header.fetch_add(header::PAIRS, more);
    }
    if id == 0 {
        if work.counts.load(LEFT) != 0 {
            batch_state.store_relaxed(state::NEEDED, 1);
        } else {
            // There is nothing to send on.
            cursors.store(coarse_bin, 0);
        }
    }
}

const _: () = assert!(THREADS == 256);
