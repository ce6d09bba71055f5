//! Changes of pairs, under the locks of their buckets.
use super::bucket::{Bucket, Header};
use super::table::{Place, Table};
use super::word::Word;

/// What to do with the value of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub key: u64,
    /// The value that the key must have, or `Some(None)` if it must be absent; `None` if the change
    /// is made in any case.
    pub only_if: Option<Option<u64>>,
    /// The new value; `None` removes the key.
    pub to: Option<u64>,
}
impl Change {
    /// Returns whether the change is made to this value.
    #[inline(always)]
    fn is_made(self, of: Option<u64>) -> bool {
        self.only_if.is_none_or(|value| value == of)
    }
}
/// Why a table refused a change. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// Another table has replaced this one.
    Replaced,
    /// Others held a bucket, or many, for a long time.
    Busy,
    /// There is no room.
    Full,
}
/// Attempts to lock a bucket, when no other is held, before the caller waits for whoever holds all
/// buckets.
const ATTEMPTS: u32 = 256;

/// A bucket whose lock is held, and its header as it will be. Dropping it unlocks the bucket.
pub(super) struct Locked<'t, B: Bucket> {
    bucket: &'t B,
    pub(super) header: Header,
}
impl<'t, B: Bucket> Locked<'t, B> {
    /// Locks a bucket; `None` if somebody holds it.
    #[inline(always)]
    fn attempt(bucket: &'t B) -> Option<Locked<'t, B>> {
        let header = Header::of(bucket.header().load());
        let is_ours =
            !header.is_locked() && bucket.header().exchange(header.unlocked(), header.locked());
        // Lazily: dropping what is not ours would unlock it.
        is_ours.then(|| Locked { bucket, header })
    }
    /// Locks a bucket, and waits for whoever holds it.
    pub(super) fn wait(bucket: &'t B) -> Locked<'t, B> {
        let mut attempt = 0;
        loop {
            if let Some(locked) = Locked::attempt(bucket) {
                return locked;
            }
            B::Word::pause(attempt);
            attempt = attempt.saturating_add(1);
        }
    }
    /// Stores the header for lookups, and keeps the lock.
    #[inline(always)]
    fn publish(&self) {
        self.bucket.header().store(self.header.locked());
    }
    #[inline(always)]
    fn free_slot(&self) -> Option<usize> {
        self.header.free_slot(B::Word::SLOTS)
    }
    /// Stores a pair in a free slot.
    #[inline(always)]
    fn put(&mut self, slot: usize, key: u64, value: u64) {
        self.bucket.put(slot, key, value);
        self.header.take(slot);
    }
    /// Clears a slot. The version is published before anything else is stored there.
    #[inline(always)]
    fn remove(&mut self, slot: usize, filler: u64) {
        self.bucket.clear(slot, filler);
        self.header.free(slot);
        self.header.advance();
        self.publish();
    }
}
impl<B: Bucket> Drop for Locked<'_, B> {
    #[inline(always)]
    fn drop(&mut self) {
        self.bucket.header().store(self.header.unlocked());
    }
}

impl<B: Bucket> Table<B> {
    /// Makes a change, and returns the value before.
    #[inline(always)]
    pub(super) fn change(&self, place: Place, change: Change) -> Result<Option<u64>, Refused> {
        self.prefetch_values(place);
        let mut first = self.lock(place.first)?;
        if let Some(slot) = first.bucket.slot_of(change.key) {
            return Ok(self.change_slot(&mut first, place.first, slot, change).0);
        }
        if !first.header.overflowed(place.class) {
            match change.to.filter(|_| change.is_made(None)) {
                None => return Ok(None),
                Some(value) => {
                    if let Some(slot) = first.free_slot() {
                        first.put(slot, change.key, value);
                        return Ok(None);
                    }
                }
            }
        }
        self.change_either(first, place, change)
    }
    /// Changes the key in a slot. Returns the value before, and whether the key was removed.
    #[inline(always)]
    fn change_slot(
        &self,
        bucket: &mut Locked<'_, B>,
        at: usize,
        slot: usize,
        change: Change,
    ) -> (Option<u64>, bool) {
        let was = Some(bucket.bucket.pair(slot).1);
        let is_made = change.is_made(was);
        match change.to {
            Some(value) if is_made => bucket.bucket.assign(slot, change.key, value),
            None if is_made => bucket.remove(slot, self.filler(at)),
            _ => {}
        }
        (was, is_made && change.to.is_none())
    }
    /// Makes a change of a key that may be, or may have to be, in its second bucket.
    #[inline(never)]
    fn change_either<'t>(
        &'t self,
        first: Locked<'t, B>,
        place: Place,
        change: Change,
    ) -> Result<Option<u64>, Refused> {
        let at = [place.first, self.second(place)];
        let (mut first, mut second) = self.lock_second(first, at)?;
        // The first bucket may have been unlocked for a moment.
        if let Some(slot) = first.bucket.slot_of(change.key) {
            return Ok(self.change_slot(&mut first, at[0], slot, change).0);
        }
        if let Some(slot) = second.bucket.slot_of(change.key) {
            let (was, is_gone) = self.change_slot(&mut second, at[1], slot, change);
            if is_gone {
                first.header.remove_overflowed(place.class);
            }
            return Ok(was);
        }
        let Some(value) = change.to.filter(|_| change.is_made(None)) else { return Ok(None) };
        let room = match (first.free_slot(), second.free_slot()) {
            (Some(slot), _) => (false, slot),
            (None, Some(slot)) => (true, slot),
            (None, None) => self.make_room(&mut first, &mut second, at)?,
        };
        match room {
            (false, slot) => first.put(slot, change.key, value),
            (true, slot) => {
                // Counted before the key is there, so that every lookup sees it from the same
                // moment on.
                first.header.add_overflowed(place.class);
                first.publish();
                second.put(slot, change.key, value);
            }
        }
        Ok(None)
    }
    /// Locks a bucket while no other is held.
    #[inline(always)]
    fn lock(&self, at: usize) -> Result<Locked<'_, B>, Refused> {
        match Locked::attempt(&self.buckets[at]) {
            Some(locked) => Ok(locked),
            None => self.lock_busy(at),
        }
    }
    #[cold]
    fn lock_busy(&self, at: usize) -> Result<Locked<'_, B>, Refused> {
        let bucket = &self.buckets[at];
        for attempt in 0..ATTEMPTS {
            if Header::of(bucket.header().load()).is_replaced() {
                return Err(Refused::Replaced);
            }
            if let Some(locked) = Locked::attempt(bucket) {
                return Ok(locked);
            }
            B::Word::pause(attempt);
        }
        Err(Refused::Busy)
    }
    /// Locks the second bucket of a key. Threads that wait hold only buckets with lower numbers
    /// than the one that they wait for: no circle of them can form.
    fn lock_second<'t>(
        &'t self,
        first: Locked<'t, B>,
        [at, second_at]: [usize; 2],
    ) -> Result<(Locked<'t, B>, Locked<'t, B>), Refused> {
        let bucket = &self.buckets[second_at];
        if let Some(second) = Locked::attempt(bucket) {
            return Ok((first, second));
        }
        if at < second_at {
            return Ok((first, Locked::wait(bucket)));
        }
        drop(first);
        let second = self.lock(second_at)?;
        Ok((Locked::wait(&self.buckets[at]), second))
    }
    /// Moves a pair of one of two full buckets to its other bucket. Returns whether the free slot
    /// is in the second of the two, and the slot.
    #[cold]
    fn make_room<'t>(
        &'t self,
        first: &mut Locked<'t, B>,
        second: &mut Locked<'t, B>,
        at: [usize; 2],
    ) -> Result<(bool, usize), Refused> {
        let mut refused = Refused::Full;
        for (in_second, from) in [(false, first), (true, second)] {
            let from_at = at[usize::from(in_second)];
            for slot in 0..B::Word::SLOTS {
                let (key, value) = from.bucket.pair(slot);
                let place = self.place(self.hashing.hash(key));
                let leaves_first = place.first == from_at;
                let to_at = if leaves_first { self.second(place) } else { place.first };
                if at.contains(&to_at) {
                    continue; // it is full
                }
                // Never waits: others may hold it and wait for one of the two.
                let Some(mut to) = Locked::attempt(&self.buckets[to_at]) else {
                    refused = Refused::Busy;
                    continue;
                };
                let Some(free) = to.free_slot() else { continue };
                to.put(free, key, value);
                let of_key = if leaves_first { &mut *from } else { &mut to };
                match leaves_first {
                    true => of_key.header.add_overflowed(place.class),
                    false => of_key.header.remove_overflowed(place.class),
                }
                of_key.header.advance();
                of_key.publish();
                from.remove(slot, self.filler(from_at));
                return Ok((in_second, slot));
            }
        }
        Err(refused)
    }
}
