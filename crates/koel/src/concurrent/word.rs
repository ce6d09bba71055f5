//! The atomic words that tables are made of.
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// A 64-bit word that threads share. The test of the protocol puts the words of a model checker in
/// place of those of the machine.
///
/// Every load acquires and every store releases, which the [protocol](super::table#protocol) relies
/// on. On x86-64 both are plain moves.
pub trait Word: Send + Sync {
    /// Slots of a bucket, at most 7.
    const SLOTS: usize;
    /// Makes a word.
    fn new(value: u64) -> Self;
    /// Loads the word, and acquires.
    fn load(&self) -> u64;
    /// Stores to the word, and releases.
    fn store(&self, value: u64);
    /// Replaces `from` by `to` and acquires. Returns whether that was done; it may fail for no
    /// reason.
    fn exchange(&self, from: u64, to: u64) -> bool;
    /// Lets other threads go on before the next attempt; `attempt` were made.
    fn pause(attempt: u32);
}
impl Word for AtomicU64 {
    const SLOTS: usize = 7;
    #[inline(always)]
    fn new(value: u64) -> AtomicU64 {
        AtomicU64::new(value)
    }
    #[inline(always)]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Acquire)
    }
    #[inline(always)]
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Release);
    }
    #[inline(always)]
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.compare_exchange_weak(from, to, Acquire, Relaxed).is_ok()
    }
    fn pause(attempt: u32) {
        // A thread that holds a bucket is done in a few dozen nanoseconds, unless it does not run.
        if attempt < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}
