//! Shards: tables that grow one by one, and the number of pairs in all of them.
use super::bucket::Bucket;
use super::change::{Change, Refused};
use super::table::{Hashing, MIN_BUCKETS, Place, Table};
use super::word::Word;
use crate::error::Result;
use crate::fallible::{push, try_collect, with_room};
use crate::seed::unforeseeable;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Load at which tables are made. Changes of a single key find room up to some 0.93.
const LOAD: f64 = 0.75;
/// A table that is full at less than this load has keys that were crafted against its seed.
const LEAST_LOAD: f64 = 0.5;

/// Tables of pairs with keys and values of up to 64 bits.
#[derive(Debug)]
pub(super) struct Shards<B> {
    shards: Vec<Shard<B>>,
    hashing: Hashing,
    /// What each group of threads has added, less what it has removed, modulo 2^64.
    lengths: Vec<Length>,
}
/// The table of a share of the keys.
///
/// The mutex owns all tables that the shard has had. The last one is the current table. It is held
/// to lock a whole table; a thread that holds it waits for locked buckets, but a thread that holds
/// buckets never waits for it.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<B> {
    current: AtomicPtr<Table<B>>,
    tables: Mutex<Vec<One<Table<B>>>>,
}
/// A vector of one element, which stays where it is when the vector moves. Allocating it can fail.
type One<T> = Vec<T>;
#[derive(Debug, Default)]
#[repr(align(128))]
struct Length(AtomicU64);

/// The table of a hash, and the place of the hash in it.
pub(super) type Found<'s, B> = (&'s Table<B>, Place);

impl<B: Bucket> Shard<B> {
    /// Errors: out of memory.
    fn new(buckets: usize, hashing: Hashing) -> Result<Shard<B>> {
        let mut shard =
            Shard { current: AtomicPtr::new(ptr::null_mut()), tables: Mutex::new(Vec::new()) };
        let table = one(Table::new(buckets, hashing)?)?;
        let tables = shard.tables.get_mut().unwrap_or_else(PoisonError::into_inner);
        publish(&shard.current, tables, table)?;
        Ok(shard)
    }
    #[inline(always)]
    fn current(&self) -> &Table<B> {
        // SAFETY: it points to a table of `tables` since the shard was made, and a store releases
        // what the load acquires. Only `keep_current`, which has the shard alone, takes tables out
        // of `tables`.
        unsafe { &*self.current.load(Acquire) }
    }
    fn lock(&self) -> MutexGuard<'_, Vec<One<Table<B>>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Doubles the table, unless another thread has replaced it. Errors: out of memory.
    #[cold]
    fn grow(&self, full: &Table<B>) -> Result<()> {
        let mut tables = self.lock();
        let current = self.current();
        if !ptr::eq(current, full) {
            return Ok(());
        }
        let held = current.hold();
        let mut hashing = current.hashing;
        if (held.len() as f64) < LEAST_LOAD * current.slots() as f64 {
            hashing.redrawn = unforeseeable();
        }
        let mut buckets = current.buckets.len();
        let table = loop {
            buckets = buckets.saturating_mul(2);
            match held.copied(buckets, hashing)? {
                Some(table) => break table,
                None => hashing.redrawn = unforeseeable(),
            }
        };
        publish(&self.current, &mut tables, one(table)?)?;
        held.replace();
        Ok(())
    }
    /// Drops all tables but the current one.
    fn keep_current(&mut self) {
        let tables = self.tables.get_mut().unwrap_or_else(PoisonError::into_inner);
        tables.drain(..tables.len() - 1);
    }
    /// Returns the bytes of all tables.
    fn bytes(&self) -> usize {
        self.lock().iter().flatten().map(Table::bytes).sum()
    }
}
fn one<T>(element: T) -> Result<One<T>> {
    let mut one = with_room(1)?;
    push(&mut one, element)?;
    Ok(one)
}
/// Makes a table the current one. Errors: out of memory; then nothing has changed.
fn publish<B>(
    current: &AtomicPtr<Table<B>>,
    tables: &mut Vec<One<Table<B>>>,
    mut table: One<Table<B>>,
) -> Result<()> {
    let at = table.as_mut_ptr();
    push(tables, table)?;
    current.store(at, Release);
    Ok(())
}

impl<B: Bucket> Shards<B> {
    /// Makes tables with room for `capacity` pairs in all. Errors: out of memory.
    pub(super) fn new(capacity: usize, seed: u64) -> Result<Shards<B>> {
        let shard_bits = shards_of_this_machine().ilog2();
        let hashing = Hashing { seed, shard_bits, redrawn: 0 };
        let of_each = buckets_for::<B>(capacity >> shard_bits);
        Ok(Shards {
            shards: try_collect((0..1 << shard_bits).map(|_| Shard::new(of_each, hashing)))?,
            hashing,
            lengths: try_collect((0..1 << shard_bits).map(|_| Result::Ok(Length::default())))?,
        })
    }
    /// Returns where a key is to be looked up.
    #[inline(always)]
    pub(super) fn locate(&self, key: u64) -> Found<'_, B> {
        let hash = self.hashing.hash(key);
        let table = self.shard(hash).current();
        (table, table.place(hash))
    }
    #[inline(always)]
    fn shard(&self, hash: u64) -> &Shard<B> {
        &self.shards[(hash >> (u64::BITS - self.hashing.shard_bits)) as usize]
    }
    /// Makes a change, and returns the value before. Errors: out of memory; then nothing has
    /// changed.
    #[inline(always)]
    pub(super) fn change(&self, change: Change) -> Result<Option<u64>> {
        self.change_at(self.locate(change.key), change)
    }
    /// As [`change`](Self::change), of a key that was located before.
    #[inline(always)]
    pub(super) fn change_at<'s>(
        &'s self,
        (table, place): Found<'s, B>,
        change: Change,
    ) -> Result<Option<u64>> {
        let was = match table.change(place, change) {
            Ok(was) => was,
            Err(refused) => self.change_again(change, refused, table)?,
        };
        self.count(change, was);
        Ok(was)
    }
    #[cold]
    fn change_again<'s>(
        &'s self,
        change: Change,
        mut refused: Refused,
        mut table: &'s Table<B>,
    ) -> Result<Option<u64>> {
        let hash = self.hashing.hash(change.key);
        let shard = self.shard(hash);
        loop {
            match refused {
                Refused::Full => shard.grow(table)?,
                // Whoever holds all buckets, or replaces the table, holds the mutex.
                Refused::Busy | Refused::Replaced => drop(shard.lock()),
            }
            table = shard.current();
            match table.change(table.place(hash), change) {
                Ok(was) => return Ok(was),
                Err(again) => refused = again,
            }
        }
    }
    /// Counts a change that was made if it changed the number of pairs.
    #[inline(always)]
    fn count(&self, change: Change, was: Option<u64>) {
        let is_made = change.only_if.is_none_or(|value| value == was);
        match (was, change.to) {
            (None, Some(_)) if is_made => self.add_to_len(1),
            (Some(_), None) if is_made => self.add_to_len(-1),
            _ => {}
        }
    }
    fn add_to_len(&self, pairs: i64) {
        let of_thread = &self.lengths[group_of_this_thread() % self.lengths.len()];
        of_thread.0.fetch_add(pairs as u64, Relaxed);
    }
    /// Returns the number of pairs.
    pub(super) fn len(&self) -> usize {
        let lengths = self.lengths.iter().map(|length| length.0.load(Relaxed));
        // Negative if removals were counted and insertions not yet.
        (lengths.fold(0, u64::wrapping_add) as i64).max(0) as usize
    }
    /// Returns the bytes of all tables.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.shards.iter().map(Shard::bytes).sum::<usize>();
        tables + size_of_val(&*self.shards) + size_of_val(&*self.lengths)
    }
    /// Appends all pairs to a vector, one shard after the other. Errors: out of memory.
    pub(super) fn copy_to<T>(&self, to: &mut Vec<T>, of: impl Fn(u64, u64) -> T) -> Result<()> {
        for shard in &self.shards {
            let _only = shard.lock();
            for (key, value) in shard.current().hold().pairs() {
                push(to, of(key, value))?;
            }
        }
        Ok(())
    }
    /// Removes all pairs, one shard after the other.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let _only = shard.lock();
            let removed = shard.current().hold().clear();
            self.add_to_len(-(removed as i64));
        }
    }
    /// Frees tables that were replaced.
    pub(super) fn free_replaced(&mut self) {
        self.shards.iter_mut().for_each(Shard::keep_current);
    }
    /// Rebuilds each table for its pairs if that saves memory, and frees those that were replaced.
    /// Errors: out of memory.
    pub(super) fn shrink(&mut self) -> Result<()> {
        self.free_replaced();
        for shard in &mut self.shards {
            let current = shard.current();
            let held = current.hold();
            let buckets = buckets_for::<B>(held.len());
            if buckets >= current.buckets.len() {
                continue;
            }
            // Without room at this load, which takes bad luck in a tiny table, it stays as it is.
            let Some(table) = held.copied(buckets, current.hashing)? else { continue };
            publish(&shard.current, &mut shard.lock(), one(table)?)?;
            held.replace();
            shard.keep_current();
        }
        Ok(())
    }
}
/// Returns the number of buckets for this number of pairs.
fn buckets_for<B: Bucket>(pairs: usize) -> usize {
    let buckets = pairs as f64 / (B::Word::SLOTS as f64 * LOAD);
    (buckets.ceil() as usize).max(MIN_BUCKETS)
}
/// Returns a power of two, at least four times the number of threads that run at the same time:
/// then a table that grows delays few of them.
fn shards_of_this_machine() -> usize {
    static SHARDS: OnceLock<usize> = OnceLock::new();
    let threads = || std::thread::available_parallelism().map_or(4, usize::from);
    *SHARDS.get_or_init(|| (4 * threads()).max(16).next_power_of_two())
}
/// Returns a number that few other threads have.
fn group_of_this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static GROUP: usize = THREADS.fetch_add(1, Relaxed));
    GROUP.with(|&group| group)
}
