//! Vector instructions of the engine: one small trait, one file per instruction set.
//!
//! The engine's loops are generic over [`Simd`] and compiled once for each set
//! ([`Simd::vectorize`]). The compiler vectorises the plain parts (mixing, scaling); only bucket
//! comparisons and stores that bypass the cache are written by hand.
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod one;
mod portable;

use crate::device::memory::prefetch;
use bytemuck::Pod;
use koel_kernels::set::layout::Member;
use koel_kernels::table::layout::{
    BUCKET, EMPTY, Layout, Narrow, Number, Wide, class, class_bit, with_class_bits,
};
pub(super) use one::{equal_heads, has_class_bit};
use std::hint::select_unpredictable;
use std::sync::OnceLock;

/// The heads of a bucket.
pub(super) type Heads = [u64; BUCKET];

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub [u64; LINE]);
// SAFETY: words, for which zero bits are valid.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: words whose total size equals the alignment: no padding.
unsafe impl bytemuck::Pod for Line {}
/// Words per line.
pub(super) const LINE: usize = 8;

/// Returns the heads of a bucket of a table.
#[inline(always)]
pub(super) fn heads<L: Layout>(buckets: &[u64], place: usize) -> &Heads {
    let start = place * L::WORDS;
    buckets[start..start + L::WORDS].first_chunk().expect("a bucket has four heads")
}
/// Like [`heads`], without bounds checks.
///
/// # Safety
/// The bucket exists.
#[inline(always)]
pub(super) unsafe fn heads_unchecked<L: Layout>(buckets: &[u64], place: usize) -> &Heads {
    debug_assert!((place + 1) * L::WORDS <= buckets.len());
    // SAFETY: by the caller's contract.
    unsafe { &*buckets.as_ptr().add(place * L::WORDS).cast() }
}
/// Returns the index of the word after the head of slot `slot`, or of the head itself if values are
/// narrow.
#[inline(always)]
pub(super) fn behind_at<L: Layout>(place: usize, slot: usize) -> usize {
    place * L::WORDS + L::WORDS - BUCKET + slot
}
/// Whether the mixed keys of a layout, and so its values, have 64 bits.
const fn is_wide<L: Layout>() -> bool {
    L::WORDS > BUCKET
}

/// Queries compared at a time.
pub(crate) const GROUP: usize = 16;
/// Result of comparing each key of a batch with one bucket. Bit `i` is that of key `i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Compared<V> {
    /// Values of the keys found in their buckets; the given default for the others.
    pub values: [V; GROUP],
    /// Keys found in their buckets. Empty slots match the ambiguous key.
    pub found: u32,
    /// Full buckets.
    pub full: u32,
    /// Keys not found in their buckets, which are full and have the bit of the key's class set.
    pub overflowed: u32,
}

impl<V: Copy> Compared<V> {
    /// No key found, no bucket full.
    #[inline(always)]
    pub(super) fn none(missing: V) -> Compared<V> {
        Compared { values: [missing; GROUP], found: 0, full: 0, overflowed: 0 }
    }
    /// Adds the result of the keys from `first` on: found, bucket full, class bit set.
    #[inline(always)]
    pub(super) fn add(&mut self, [found, full, class]: [u32; 3], first: usize) {
        self.found |= found << first;
        self.full |= full << first;
        self.overflowed |= (class & full & !found) << first;
    }
}

/// A loop that is compiled for each instruction set.
pub(crate) trait Work {
    /// Result of the loop.
    type Output;
    /// Runs the loop. To be compiled for the set, it and everything it calls must be
    /// `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// An instruction set of this machine. The provided methods are portable, or select by layout
/// between the methods for mixed keys of 32 and of 64 bits.
pub(crate) trait Simd: Copy {
    /// Runs a loop compiled for this set.
    fn vectorize<W: Work>(self, work: W) -> W::Output;

    /// Returns the first slot that holds this key. Empty slots match the ambiguous key.
    #[inline(always)]
    fn slot<L: Layout>(self, heads: &Heads, mixed: L::Mixed) -> Option<usize> {
        let wide = is_wide::<L>();
        if wide {
            self.slot64(heads, mixed.widened())
        } else {
            self.slot32(heads, mixed.widened() as u32)
        }
    }
    /// [`slot`](Self::slot) for narrow pairs.
    #[inline(always)]
    fn slot32(self, heads: &Heads, mixed: u32) -> Option<usize> {
        let bits =
            (0..BUCKET).fold(0u32, |bits, i| bits | ((heads[i] as u32 == mixed) as u32) << i);
        (bits != 0).then_some(bits.trailing_zeros() as usize)
    }
    /// [`slot`](Self::slot) for wide pairs.
    #[inline(always)]
    fn slot64(self, heads: &Heads, mixed: u64) -> Option<usize> {
        let bits = (0..BUCKET).fold(0u32, |bits, i| bits | ((heads[i] == mixed) as u32) << i);
        (bits != 0).then_some(bits.trailing_zeros() as usize)
    }

    /// Compares each mixed key of a batch with one bucket. The places must be below the number of
    /// buckets.
    #[inline(always)]
    fn compare<L: Layout>(
        self,
        buckets: &[u64],
        places: &[u32; GROUP],
        mixed: &[L::Mixed; GROUP],
        missing: L::Value,
    ) -> Compared<L::Value> {
        if is_wide::<L>() {
            let Compared { values, found, full, overflowed } =
                self.compare64(buckets, places, &mixed.map(Number::widened), missing.widened());
            Compared { values: values.map(L::Value::narrowed), found, full, overflowed }
        } else {
            let Compared { values, found, full, overflowed } = self.compare32(
                buckets,
                places,
                &mixed.map(|mixed| mixed.widened() as u32),
                missing.widened() as u32,
            );
            Compared {
                values: values.map(|value| L::Value::narrowed(value.into())),
                found,
                full,
                overflowed,
            }
        }
    }
    /// [`compare`](Self::compare) for narrow pairs.
    #[inline(always)]
    fn compare32(
        self,
        buckets: &[u64],
        places: &[u32; GROUP],
        mixed: &[u32; GROUP],
        missing: u32,
    ) -> Compared<u32> {
        compare_each::<Self, Narrow>(self, buckets, places, mixed, missing)
    }
    /// [`compare`](Self::compare) for wide pairs.
    #[inline(always)]
    fn compare64(
        self,
        buckets: &[u64],
        places: &[u32; GROUP],
        mixed: &[u64; GROUP],
        missing: u64,
    ) -> Compared<u64> {
        compare_each::<Self, Wide<u64, u64>>(self, buckets, places, mixed, missing)
    }

    /// Compares each mixed key of a batch with one bucket of a set. The places must be below the
    /// number of buckets.
    #[inline(always)]
    fn compare_keys<K: Member + Pod>(
        self,
        slots: &[K],
        places: &[u32; GROUP],
        mixed: &[K; GROUP],
    ) -> Compared<()> {
        if size_of::<K>() == 8 {
            self.keys64(bytemuck::cast_slice(slots), places, &mixed.map(Number::widened))
        } else {
            let mixed = mixed.map(|mixed| mixed.widened() as u32);
            self.keys32(bytemuck::cast_slice(slots), places, &mixed)
        }
    }
    /// [`compare_keys`](Self::compare_keys) for keys of 32 bits.
    #[inline(always)]
    fn keys32(
        self,
        buckets: &[[u32; 8]],
        places: &[u32; GROUP],
        mixed: &[u32; GROUP],
    ) -> Compared<()> {
        compare_each_key(buckets, places, mixed)
    }
    /// [`compare_keys`](Self::compare_keys) for keys of 64 bits.
    #[inline(always)]
    fn keys64(
        self,
        buckets: &[[u64; 4]],
        places: &[u32; GROUP],
        mixed: &[u64; GROUP],
    ) -> Compared<()> {
        compare_each_key(buckets, places, mixed)
    }

    /// Returns the words whose bit is set, in order, followed by arbitrary words.
    #[inline(always)]
    fn compact<T: Number>(self, words: &[T; GROUP], bits: u32) -> [T; GROUP] {
        if size_of::<T>() == 8 {
            self.compact64(&words.map(T::widened), bits).map(T::narrowed)
        } else {
            self.compact32(&words.map(|word| word.widened() as u32), bits)
                .map(|word| T::narrowed(word.into()))
        }
    }
    /// [`compact`](Self::compact) for 32-bit words.
    #[inline(always)]
    fn compact32(self, words: &[u32; GROUP], bits: u32) -> [u32; GROUP] {
        compact_each(words, bits)
    }
    /// [`compact`](Self::compact) for 64-bit words.
    #[inline(always)]
    fn compact64(self, words: &[u64; GROUP], bits: u32) -> [u64; GROUP] {
        compact_each(words, bits)
    }

    /// Compares sixteen tags with the high halves of slots: each with that of its place, which its
    /// highest bits are, and with the next. Writes the low half of the slot with the same tag.
    /// Returns the bits of the tags found, in slots whose low half is not 0. Panics if there is
    /// no slot behind the last place.
    #[inline(always)]
    fn tagged(
        self,
        slots: &[u64],
        shift: u32,
        tags: &[u32; GROUP],
        found: &mut [u32; GROUP],
    ) -> u16 {
        let mut bits = 0;
        for (i, (&tag, to)) in tags.iter().zip(found).enumerate() {
            let place = (tag >> shift) as usize;
            let (first, next) = (slots[place], slots[place + 1]);
            let slot = select_unpredictable((first >> 32) as u32 == tag, first, next);
            *to = slot as u32;
            bits |= u16::from((slot >> 32) as u32 == tag && slot as u32 != 0) << i;
        }
        bits
    }

    /// Orders the full ones of eight buckets so that they encode these class bits.
    #[inline(always)]
    fn order<L: Layout>(self, buckets: &mut [u64], bits: &[u8; 8]) {
        if is_wide::<L>() {
            self.order64(buckets.as_chunks_mut().0.as_mut_array().expect("eight buckets"), bits);
        } else {
            self.order32(buckets.as_chunks_mut().0.as_mut_array().expect("eight buckets"), bits);
        }
    }
    /// [`order`](Self::order) for narrow pairs.
    #[inline(always)]
    fn order32(self, buckets: &mut [[u64; 4]; 8], bits: &[u8; 8]) {
        order_each::<Narrow>(buckets.as_flattened_mut(), bits);
    }
    /// [`order`](Self::order) for wide pairs.
    #[inline(always)]
    fn order64(self, buckets: &mut [[u64; 8]; 8], bits: &[u8; 8]) {
        order_each::<Wide<u64, u64>>(buckets.as_flattened_mut(), bits);
    }

    /// Copies a line, bypassing the cache where the machine can. Other threads may not see it
    /// before [`fence`](Self::fence).
    #[inline(always)]
    fn stream(self, to: &mut Line, from: &[u64; LINE]) {
        to.0 = *from;
    }
    /// Makes streamed lines visible before all later stores.
    #[inline(always)]
    fn fence(self) {}
    /// Prefetches the line of an address: a hint; the address may be invalid.
    #[inline(always)]
    fn ask<T>(self, address: *const T) {
        prefetch(address);
    }
    /// Prefetches the lines of the batch that begins at an address.
    #[inline(always)]
    fn ask_group<T>(self, address: *const T) {
        for line in 0..(GROUP * size_of::<T>()).div_ceil(size_of::<Line>()) {
            self.ask(address.wrapping_byte_add(line * size_of::<Line>()));
        }
    }
}

/// Copies an array, with stores that bypass the cache if `stream`.
#[inline(always)]
pub(super) fn write_out<S: Simd, T: bytemuck::Pod>(
    simd: S,
    from: &[T],
    to: &mut [T],
    stream: bool,
) {
    if !stream {
        return to.copy_from_slice(from);
    }
    let (head, lines, tail) = bytemuck::pod_align_to_mut::<T, Line>(to);
    let (from_head, from) = from.split_at(head.len());
    let (from_lines, from_tail) = from.split_at(from.len() - tail.len());
    head.copy_from_slice(from_head);
    for (to, from) in
        lines.iter_mut().zip(from_lines.chunks_exact(size_of::<Line>() / size_of::<T>()))
    {
        let mut words = [0; LINE];
        bytemuck::cast_slice_mut(&mut words).copy_from_slice(from);
        simd.stream(to, &words);
    }
    tail.copy_from_slice(from_tail);
    simd.fence();
}
#[inline(always)]
fn compare_each<S: Simd, L: Layout>(
    simd: S,
    buckets: &[u64],
    places: &[u32; GROUP],
    mixed: &[L::Mixed; GROUP],
    missing: L::Value,
) -> Compared<L::Value> {
    let mut compared = Compared::none(missing);
    for i in 0..GROUP {
        let place = places[i] as usize;
        let heads = heads::<L>(buckets, place);
        let same = simd.slot::<L>(heads, mixed[i]);
        let slot = same.unwrap_or(0) % BUCKET;
        let value = L::value_in(heads[slot], buckets[behind_at::<L>(place, slot)]);
        compared.values[i] = select_unpredictable(same.is_some(), value, missing);
        let class = class_bit::<L>(*heads, class(L::hash(mixed[i])));
        compared.add([same.is_some().into(), (heads[3] != EMPTY).into(), class.into()], i);
    }
    compared
}
#[inline(always)]
fn compare_each_key<K: Member, const SLOTS: usize>(
    buckets: &[[K; SLOTS]],
    places: &[u32; GROUP],
    mixed: &[K; GROUP],
) -> Compared<()> {
    let mut compared = Compared::none(());
    for i in 0..GROUP {
        let keys = &buckets[places[i] as usize];
        let full = keys[SLOTS - 1] != K::EMPTY;
        let class = K::class_bit(halves(keys), class(K::Pairs::hash(mixed[i])));
        compared.add([holds(keys, mixed[i]).into(), full.into(), class.into()], i);
    }
    compared
}
/// Returns whether a key is in a bucket of a set. Becomes a vector comparison.
#[inline(always)]
pub(super) fn holds<K: Member>(keys: &[K], mixed: K) -> bool {
    keys.iter().fold(false, |any, &key| any | (key == mixed))
}
/// Returns the halves of a bucket of a set.
#[inline(always)]
pub(super) fn halves<K: Member>(keys: &[K]) -> [K::Half; 2] {
    let half = |half: usize| K::half(|i| keys[half * K::SLOTS as usize / 2 + i as usize]);
    [half(0), half(1)]
}
#[inline(always)]
fn compact_each<T: Number>(words: &[T; GROUP], bits: u32) -> [T; GROUP] {
    let (mut compacted, mut count) = (*words, 0);
    for (i, &word) in words.iter().enumerate() {
        compacted[count % GROUP] = word;
        count += (bits >> i & 1) as usize;
    }
    compacted
}
#[inline(always)]
fn order_each<L: Layout>(buckets: &mut [u64], bits: &[u8; 8]) {
    for (bucket, &bits) in buckets.chunks_exact_mut(L::WORDS).zip(bits) {
        if bucket[3] != EMPTY {
            let pairs = [0, 1, 2, 3].map(|i| L::with_head(bucket[i], bucket[behind_at::<L>(0, i)]));
            for (i, pair) in with_class_bits::<L>(pairs, bits.into()).into_iter().enumerate() {
                if is_wide::<L>() {
                    bucket[behind_at::<L>(0, i)] = L::behind(pair);
                }
                bucket[i] = L::head(pair);
            }
        }
    }
}

/// Instruction sets that the engine is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// Only the vector instructions that every machine of the architecture has.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, VL, DQ and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon,
}
impl Level {
    /// Returns the sets that this machine has, the best last.
    pub(crate) fn available() -> Vec<Level> {
        let mut levels = Vec::from([Level::Portable]);
        #[cfg(target_arch = "x86_64")]
        {
            levels.extend(avx2::Avx2::new().map(|_| Level::Avx2));
            levels.extend(avx512::Avx512::new().map(|_| Level::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        levels.extend(neon::Neon::new().map(|_| Level::Neon));
        levels
    }
    /// Returns the best set that this machine has.
    #[inline]
    pub(crate) fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Level::available().pop().unwrap_or(Level::Portable))
    }
    /// Runs a loop with this set, or with portable code if this machine lacks it.
    #[inline]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                if let Some(simd) = avx512::Avx512::new() {
                    return simd.vectorize(work);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                if let Some(simd) = avx2::Avx2::new() {
                    return simd.vectorize(work);
                }
            }
            #[cfg(target_arch = "aarch64")]
            Level::Neon => {
                if let Some(simd) = neon::Neon::new() {
                    return simd.vectorize(work);
                }
            }
            Level::Portable => {}
        }
        // In one place: each call is another copy of the loop.
        portable::Portable.vectorize(work)
    }
}

#[cfg(test)]
mod tests {
    use super::portable::Portable;
    use super::*;
    use koel_kernels::hash::mix::splitmix_at;
    use std::marker::PhantomData;

    /// Checks that a set does what the portable one does, on buckets of every fill, with keys that
    /// match and keys that do not.
    struct Same<L> {
        seed: u64,
        layout: PhantomData<L>,
    }
    impl<L: Layout> Work for Same<L> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            // Start at an odd word: tables need not be aligned.
            let mut words = vec![EMPTY; 8 * L::WORDS + 1];
            let buckets = &mut words[1..];
            let mut bits = [0; 8];
            for place in 0..8 {
                let word = splitmix_at(self.seed, 100 + place as u32);
                bits[place] = word as u8 & 15;
                let fill = if word >> 8 & 3 == 0 { 4 } else { (word >> 16) as usize % 5 };
                for slot in 0..fill {
                    // Few distinct bits, so that signed and unsigned order differ and values decide
                    // nothing.
                    let key =
                        splitmix_at(self.seed, (place * 4 + slot) as u32) & 0xC000_000F_C000_000F;
                    let mixed = L::Mixed::narrowed(key | (slot as u64) << 8);
                    let value = L::Value::narrowed(splitmix_at(!self.seed, slot as u32));
                    let pair = L::pair(mixed, value);
                    buckets[behind_at::<L>(place, slot)] = L::behind(pair);
                    buckets[place * L::WORDS + slot] = L::head(pair);
                }
            }
            for place in 0..8 {
                let heads = heads::<L>(buckets, place);
                for h in heads.iter().copied().chain([0, 5, u64::MAX, self.seed]) {
                    let h = L::key_in(h);
                    assert_eq!(
                        simd.slot::<L>(heads, h),
                        Portable.slot::<L>(heads, h),
                        "{heads:x?} {h:x?}"
                    );
                }
                simd.ask(heads);
            }
            for round in 0..4 {
                let word = |i: usize| splitmix_at(self.seed, 200 + round * 16 + i as u32);
                let places = std::array::from_fn(|i| word(i) as u32 % 8);
                let mixed = std::array::from_fn(|i| match word(i) >> 32 & 15 {
                    0 => L::AMBIGUOUS,
                    1 => L::Mixed::narrowed(0),
                    2 => L::Mixed::narrowed(word(i) >> 4),
                    slot => {
                        let place = if slot < 7 { slot as usize } else { places[i] as usize };
                        L::key_in(heads::<L>(buckets, place)[slot as usize % 4])
                    }
                });
                let missing = L::Value::narrowed(round.into());
                let found = simd.compare::<L>(buckets, &places, &mixed, missing);
                let expected = Portable.compare::<L>(buckets, &places, &mixed, missing);
                assert_eq!(found, expected, "{buckets:x?} {places:?} {mixed:x?}");
                let bits = word(0) as u32 & 0xFFFF;
                let kept = bits.count_ones() as usize;
                let expected = (0..GROUP).filter(|i| bits >> i & 1 != 0).collect::<Vec<_>>();
                assert_eq!(
                    &simd.compact(&mixed, bits)[..kept],
                    expected.iter().map(|&i| mixed[i]).collect::<Vec<_>>()
                );
                assert_eq!(
                    &simd.compact(&places, bits)[..kept],
                    expected.iter().map(|&i| places[i]).collect::<Vec<_>>()
                );
            }
            let before = buckets.to_vec();
            let mut expected = buckets.to_vec();
            Portable.order::<L>(&mut expected, &bits);
            simd.order::<L>(buckets, &bits);
            assert_eq!(buckets, expected, "of {before:x?} with {bits:?}");
            for (place, bits) in bits.into_iter().enumerate() {
                let heads = heads::<L>(buckets, place);
                if heads[3] != EMPTY {
                    (0..4).for_each(|class| {
                        assert_eq!(class_bit::<L>(*heads, class), bits >> class & 1 != 0)
                    });
                }
            }
            let mut line = Line([0; 8]);
            simd.stream(&mut line, &[1, 2, 3, 4, 5, 6, 7, self.seed]);
            simd.fence();
            assert_eq!(line.0, [1, 2, 3, 4, 5, 6, 7, self.seed]);
        }
    }
    /// Checks the same of sets.
    struct SameKeys<K> {
        seed: u64,
        key: PhantomData<K>,
    }
    impl<K: Member + Pod> Work for SameKeys<K> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let slots = K::SLOTS as usize;
            let word = |i: usize| splitmix_at(self.seed, i as u32);
            // Of few distinct bits, so that signed and unsigned order differ.
            let key = |i: usize| K::narrowed(word(i) & 0xC000_000F_C000_000F | (i as u64) << 8);
            let mut keys = vec![K::EMPTY; 8 * slots];
            for (place, keys) in keys.chunks_mut(slots).enumerate() {
                let random = word(place) as usize;
                let fill = if random & 1 == 0 { slots } else { random >> 8 & (slots - 1) };
                (0..fill).for_each(|slot| keys[slot] = key(100 + place * slots + slot));
            }
            for round in 0..4 {
                let word = |i: usize| word(1000 + round * GROUP + i);
                let places = std::array::from_fn(|i| word(i) as u32 % 8);
                let mixed = std::array::from_fn(|i| match word(i) >> 32 & 7 {
                    0 => K::EMPTY,
                    1 => K::narrowed(word(i) >> 4),
                    2 => keys[word(i) as usize >> 8 & (8 * slots - 1)],
                    _ => keys[places[i] as usize * slots + (word(i) as usize >> 8 & (slots - 1))],
                });
                let found = simd.compare_keys(&keys, &places, &mixed);
                let expected = Portable.compare_keys(&keys, &places, &mixed);
                assert_eq!(found, expected, "{keys:x?} {places:?} {mixed:x?}");
            }
        }
    }
    fn every_set_agrees<L: Layout>() {
        for level in Level::available() {
            let seeds = if cfg!(miri) { 20 } else { 2000 };
            (0..seeds).for_each(|seed| level.run(Same::<L> { seed, layout: PhantomData }));
        }
    }
    #[test]
    fn every_set_agrees_with_the_portable_one() {
        every_set_agrees::<Narrow>();
        every_set_agrees::<Wide<u32, u64>>();
        every_set_agrees::<Wide<u64, u32>>();
        every_set_agrees::<Wide<u64, u64>>();
    }
    #[test]
    fn every_set_agrees_on_buckets_of_sets() {
        for level in Level::available() {
            for seed in 0..if cfg!(miri) { 20 } else { 2000 } {
                level.run(SameKeys::<u32> { seed, key: PhantomData });
                level.run(SameKeys::<u64> { seed, key: PhantomData });
            }
        }
    }
}
