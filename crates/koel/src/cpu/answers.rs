//! Output of lookups: values, presence as bytes or bits, or only a count.
use super::simd::{Compared, GROUP, Simd, Work};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Destination of the answers to a piece of the queries. Each query is answered once, except that a
/// query for the second bucket is first answered as missing.
pub(super) trait Answers<V: Copy>: Sized + Send {
    /// Splits off the answers after the first `n` queries; `n` is a multiple of 32.
    fn split_at(self, n: usize) -> (Self, Self);
    /// Returns the value to give for an absent key.
    fn missing(&self) -> V;
    /// Prefetches the output of the batch that begins with query `i`.
    fn ask<S: Simd>(&self, simd: S, i: usize);
    /// Answers the batch that begins with query `i`.
    fn put_group(&mut self, i: usize, compared: &Compared<V>);
    /// Answers query `i`, previously answered as missing.
    fn put_second(&mut self, i: usize, value: V, found: bool);
    /// Answers query `i`, which is in no batch.
    #[inline(always)]
    fn put(&mut self, i: usize, value: Option<V>) {
        self.put_second(i, value.unwrap_or(self.missing()), value.is_some());
    }
    /// Ends the output.
    #[inline(always)]
    fn finish(self) {}
}

/// The value of each query, or `missing`.
pub(super) struct Values<'a, V> {
    pub values: &'a mut [V],
    pub missing: V,
}
impl<V: Copy + Send> Answers<V> for Values<'_, V> {
    fn split_at(self, n: usize) -> (Self, Self) {
        let (values, later) = self.values.split_at_mut(n);
        (Values { values, ..self }, Values { values: later, ..self })
    }
    #[inline(always)]
    fn missing(&self) -> V {
        self.missing
    }
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, i: usize) {
        simd.ask_group(self.values.as_ptr().wrapping_add(i));
    }
    #[inline(always)]
    fn put_group(&mut self, i: usize, compared: &Compared<V>) {
        self.values[i..i + GROUP].copy_from_slice(&compared.values);
    }
    #[inline(always)]
    fn put_second(&mut self, i: usize, value: V, _: bool) {
        self.values[i] = value;
    }
}

/// Presence of each query: 1 or 0.
pub(super) struct Flags<'a> {
    pub found: &'a mut [u8],
}
impl<V: Copy + Default> Answers<V> for Flags<'_> {
    fn split_at(self, n: usize) -> (Self, Self) {
        let (found, later) = self.found.split_at_mut(n);
        (Flags { found }, Flags { found: later })
    }
    #[inline(always)]
    fn missing(&self) -> V {
        V::default()
    }
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, i: usize) {
        simd.ask_group(self.found.as_ptr().wrapping_add(i));
    }
    #[inline(always)]
    fn put_group(&mut self, i: usize, compared: &Compared<V>) {
        for (i, found) in self.found[i..i + GROUP].iter_mut().enumerate() {
            *found = (compared.found >> i & 1) as u8;
        }
    }
    #[inline(always)]
    fn put_second(&mut self, i: usize, _: V, found: bool) {
        self.found[i] = found.into();
    }
}

/// Values and presence.
pub(super) struct ValuesAndFlags<'a, V> {
    pub values: Values<'a, V>,
    pub flags: Flags<'a>,
}
impl<V: Copy + Default + Send> Answers<V> for ValuesAndFlags<'_, V> {
    fn split_at(self, n: usize) -> (Self, Self) {
        let (values, later_values) = self.values.split_at(n);
        let (flags, later_flags) = Answers::<V>::split_at(self.flags, n);
        (
            ValuesAndFlags { values, flags },
            ValuesAndFlags { values: later_values, flags: later_flags },
        )
    }
    #[inline(always)]
    fn missing(&self) -> V {
        self.values.missing
    }
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, i: usize) {
        self.values.ask(simd, i);
        Answers::<V>::ask(&self.flags, simd, i);
    }
    #[inline(always)]
    fn put_group(&mut self, i: usize, compared: &Compared<V>) {
        self.values.put_group(i, compared);
        Answers::<V>::put_group(&mut self.flags, i, compared);
    }
    #[inline(always)]
    fn put_second(&mut self, i: usize, value: V, found: bool) {
        self.values.put_second(i, value, found);
        Answers::<V>::put_second(&mut self.flags, i, value, found);
    }
}

/// Work that joins values and presence to options.
pub(super) struct Options<'a, B, V, F> {
    /// Bits of the values.
    pub values: &'a [B],
    pub found: &'a [u8],
    pub answers: &'a mut [MaybeUninit<Option<V>>],
    /// Makes a value of its bits.
    pub of_bits: F,
}
impl<B: Copy, V, F: Fn(B) -> V> Work for Options<'_, B, V, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Options { values, found, answers, of_bits } = self;
        for (to, (&value, &found)) in answers.iter_mut().zip(values.iter().zip(found)) {
            to.write((found != 0).then(|| of_bits(value)));
        }
    }
}

/// Presence of each query, one bit each: query `i` is bit `i % 32` of word `i / 32`. Must be
/// zeroed.
pub(super) struct Bits<'a> {
    pub words: &'a mut [u32],
}
impl<V: Copy + Default> Answers<V> for Bits<'_> {
    fn split_at(self, n: usize) -> (Self, Self) {
        let (words, later) = self.words.split_at_mut(n / 32);
        (Bits { words }, Bits { words: later })
    }
    #[inline(always)]
    fn missing(&self) -> V {
        V::default()
    }
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, i: usize) {
        simd.ask(self.words.as_ptr().wrapping_add(i / 32));
    }
    #[inline(always)]
    fn put_group(&mut self, i: usize, compared: &Compared<V>) {
        self.words[i / 32] |= compared.found << (i % 32);
    }
    #[inline(always)]
    fn put_second(&mut self, i: usize, _: V, found: bool) {
        self.words[i / 32] |= (found as u32) << (i % 32);
    }
}

/// Number of queries that the table holds.
pub(super) struct Count<'a> {
    /// Total over all pieces.
    pub total: &'a AtomicUsize,
    /// Count of this piece.
    pub found: usize,
}
impl<V: Copy + Default> Answers<V> for Count<'_> {
    fn split_at(self, _: usize) -> (Self, Self) {
        (Count { ..self }, Count { found: 0, ..self })
    }
    #[inline(always)]
    fn missing(&self) -> V {
        V::default()
    }
    #[inline(always)]
    fn ask<S: Simd>(&self, _: S, _: usize) {}
    #[inline(always)]
    fn put_group(&mut self, _: usize, compared: &Compared<V>) {
        self.found += compared.found.count_ones() as usize;
    }
    #[inline(always)]
    fn put_second(&mut self, _: usize, _: V, found: bool) {
        self.found += found as usize;
    }
    #[inline(always)]
    fn finish(self) {
        self.total.fetch_add(self.found, Ordering::Relaxed);
    }
}
