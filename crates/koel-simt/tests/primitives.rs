//! Every primitive on the executor against a naive oracle, over seeds.
#![cfg(not(miri))] // the executor's coroutines are assembly
use koel_simt::{
    Backend, Buf, Exec, Fault, In, Scalar, Shared, SharedMem, Thread, U32x4, U64x2, block, kernel,
};

const SEEDS: std::ops::Range<u64> = 0..6;

/// Returns a generator of numbers from a seed (splitmix64).
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}
fn run(result: Result<(), Fault>) {
    result.unwrap_or_else(|f| panic!("{f}"));
}

// Atomics: 640 threads update 8 words. The final values do not depend on the order, and some order
// of the updates must explain the returned values: for sums, every value in between once; for
// exchanges, each value once except the last.
macro_rules! atomics { ($($name:ident $word:ty)*) => { $(
    mod $name {
        use super::*;
        type W = $word;
        const WORDS: u32 = 8;

        #[inline(always)]
        fn update(op: u32, v: W, a: impl Memory<W>, at: u32) -> W {
            match op {
                0 => a.swap(at, v),
                1 => a.fetch_add(at, v),
                2 => a.fetch_min(at, v),
                3 => a.fetch_max(at, v),
                4 => a.fetch_or(at, v),
                5 => a.fetch_and(at, v),
                _ => loop {
                    // xor, for which there is no primitive here
                    let old = a.read(at);
                    if a.cas(at, old, old ^ v) == old {
                        return old;
                    }
                },
            }
        }
        #[kernel(threads = 64)]
        fn global(t: Thread, op: u32, values: In<W>, words: Buf<W>, was: Buf<W>) {
            let i = t.global_id();
            was.store(i, update(op, values.get(i), words, i % WORDS));
        }
        #[kernel(threads = 64, shared = WORDS * 8)]
        fn shared(t: Thread, op: u32, values: In<W>, words: Buf<W>, was: Buf<W>) {
            let s = t.shared().array::<W>(WORDS);
            let mine = t.block() * WORDS + t.id();
            if t.id() < WORDS {
                s.store(t.id(), words.load(mine));
            }
            t.barrier();
            was.store(t.global_id(), update(op, values.get(t.global_id()), s, t.id() % WORDS));
            t.barrier();
            if t.id() < WORDS {
                words.store(mine, s.load(t.id()));
            }
        }
        fn oracle(op: u32, a: W, b: W) -> W {
            match op {
                0 => b,
                1 => a.wrapping_add(b),
                2 => a.min(b),
                3 => a.max(b),
                4 => a | b,
                5 => a & b,
                _ => a ^ b,
            }
        }
        /// `updates`: the updates that each word got.
        fn check(
            op: u32, before: &[W], after: &[W], values: &[W], was: &[W],
            word_of: impl Fn(usize) -> usize
        ) {
            for (w, (&before, &after)) in before.iter().zip(after).enumerate() {
                let mine = (0..values.len()).filter(|&i| word_of(i) == w);
                if op == 0 {
                    // a chain: each update returns what another wrote, and the last one stays
                    let mut wrote =
                        mine.clone().map(|i| values[i]).chain([before]).collect::<Vec<_>>();
                    let mut found = mine.map(|i| was[i]).chain([after]).collect::<Vec<_>>();
                    (wrote.sort_unstable(), found.sort_unstable());
                    assert_eq!(wrote, found);
                    continue;
                }
                assert_eq!(
                    after, mine.clone().fold(before, |a, i| oracle(op, a, values[i])),
                    "op {op}, word {w}"
                );
                // States of the word: each update is applied once, starting from `before`.
                let mut left = mine.collect::<Vec<_>>();
                let mut state = before;
                while let Some(next) = left
                    .iter()
                    .position(|&i| was[i] == state && oracle(op, state, values[i]) != state)
                {
                    let i = left.swap_remove(next);
                    state = oracle(op, state, values[i]);
                }
                assert_eq!(
                    state, after,
                    "op {op}, word {w}: no order of the updates explains what they returned"
                );
            }
        }
        #[test]
        fn agree_with_some_order() {
            for seed in SEEDS {
                let mut next = numbers(seed);
                let values = (0..640).map(|_| next() as W | 1).collect::<Vec<_>>();
                for op in 0..7 {
                    let before = (0..WORDS).map(|_| next() as W).collect::<Vec<_>>();
                    let (mut words, mut was) = (before.clone(), vec![0; 640]);
                    // SAFETY: the arrays fit the kernel.
                    run(unsafe {
                        global::launch(
                            &Exec::new(seed), 10, op,
                            In::new(&values), Buf::new(&mut words), Buf::new(&mut was)
                        )
                    });
                    check(op, &before, &words, &values, &was, |i| i % WORDS as usize);

                    let before = (0..10 * WORDS).map(|_| next() as W).collect::<Vec<_>>();
                    let (mut words, mut was) = (before.clone(), vec![0; 640]);
                    // SAFETY: the arrays fit the kernel.
                    run(unsafe {
                        shared::launch(
                            &Exec::new(seed), 10, op,
                            In::new(&values), Buf::new(&mut words), Buf::new(&mut was)
                        )
                    });
                    check(
                        op, &before, &words, &values, &was,
                        |i| i / 64 * WORDS as usize + i % WORDS as usize
                    );
                }
            }
        }
    }
)* } }
/// Atomics that global and shared arrays have in common.
trait Memory<W: Scalar>: Copy {
    fn read(self, i: u32) -> W;
    fn swap(self, i: u32, v: W) -> W;
    fn fetch_add(self, i: u32, v: W) -> W;
    fn fetch_min(self, i: u32, v: W) -> W;
    fn fetch_max(self, i: u32, v: W) -> W;
    fn fetch_or(self, i: u32, v: W) -> W;
    fn fetch_and(self, i: u32, v: W) -> W;
    fn cas(self, i: u32, old: W, new: W) -> W;
}
macro_rules! memory { ($($s:ident $read:ident)*) => { $(impl<W: Scalar> Memory<W> for $s<W> {
    fn read(self, i: u32) -> W { self.$read(i) }
    fn swap(self, i: u32, v: W) -> W { self.swap(i, v) }
    fn fetch_add(self, i: u32, v: W) -> W { self.fetch_add(i, v) }
    fn fetch_min(self, i: u32, v: W) -> W { self.fetch_min(i, v) }
    fn fetch_max(self, i: u32, v: W) -> W { self.fetch_max(i, v) }
    fn fetch_or(self, i: u32, v: W) -> W { self.fetch_or(i, v) }
    fn fetch_and(self, i: u32, v: W) -> W { self.fetch_and(i, v) }
    fn cas(self, i: u32, old: W, new: W) -> W { self.cas(i, old, new) }
})* } }
memory!(Buf load_relaxed Shared load_volatile);
atomics!(atomics_u32 u32 atomics_u64 u64);

const WARP_RESULTS: usize = 12;
/// `mask` splits each warp into two sets of lanes; the results of a thread are consecutive.
#[kernel(threads = 96)]
fn warp_ops(t: Thread, mask: u32, from: In<u32>, wide: In<u64>, out: Buf<u64>) {
    let (i, l) = (t.global_id(), t.lane());
    let group = t.lanes(if mask >> l & 1 != 0 { mask } else { !mask });
    let (x, y) = (from.get(i), wide.get(i));
    let first = if mask >> l & 1 != 0 { mask } else { !mask }.trailing_zeros();
    let whole = t.warp();
    let results = [
        group.ballot(x & 1 != 0) as u64,
        group.any(x & 7 == 0) as u64,
        group.all(x & 7 != 0) as u64,
        group.shfl(x, first) as u64,
        group.match_any(x & 3) as u64,
        group.match_any(y & 3) as u64,
        group.reduce_add(x) as u64 | (group.reduce_min(x) as u64) << 32,
        group.reduce_max(x) as u64,
        whole.shfl_up(y, x & 31),
        whole.shfl_down(y, x & 31),
        whole.shfl_xor(y, mask & 31),
        whole.shfl(y, x),
    ];
    for (k, r) in results.into_iter().enumerate() {
        out.store(i as usize * WARP_RESULTS + k, r);
    }
}
#[test]
fn warp_operations_with_whole_and_partial_masks() {
    for seed in SEEDS {
        let mut next = numbers(seed);
        let (from, wide) =
            (0..192).map(|_| (next() as u32, next())).unzip::<_, _, Vec<_>, Vec<_>>();
        for mask in [1, 0xffff, 0x5555_5555, 0x8000_0001, next() as u32 | 1] {
            let mut out = vec![0; 192 * WARP_RESULTS];
            // SAFETY: the arrays fit the kernel.
            run(unsafe {
                warp_ops::launch(
                    &Exec::new(seed),
                    2,
                    mask,
                    In::new(&from),
                    In::new(&wide),
                    Buf::new(&mut out),
                )
            });
            for i in 0..192 {
                let (base, l) = (i & !31, i & 31);
                let group = if mask >> l & 1 != 0 { mask } else { !mask };
                let lanes = (0..32).filter(|k| group >> k & 1 != 0).collect::<Vec<usize>>();
                let bits = |f: &dyn Fn(usize) -> bool| {
                    lanes.iter().filter(|&&k| f(base + k)).fold(0, |m, &k| m | 1u64 << k)
                };
                let xs = || lanes.iter().map(|&k| from[base + k]);
                let by = (from[i] & 31) as usize;
                let expected = [
                    bits(&|j| from[j] & 1 != 0),
                    xs().any(|x| x & 7 == 0) as u64,
                    xs().all(|x| x & 7 != 0) as u64,
                    from[base + lanes[0]] as u64,
                    bits(&|j| from[j] & 3 == from[i] & 3),
                    bits(&|j| wide[j] & 3 == wide[i] & 3),
                    xs().fold(0, u32::wrapping_add) as u64 | (xs().min().unwrap() as u64) << 32,
                    xs().max().unwrap() as u64,
                    if l >= by { wide[i - by] } else { wide[i] },
                    if l + by < 32 { wide[i + by] } else { wide[i] },
                    wide[base + (l ^ (mask as usize & 31))],
                    wide[base + by],
                ];
                assert_eq!(
                    out[i * WARP_RESULTS..][..WARP_RESULTS],
                    expected,
                    "seed {seed}, mask {mask:#x}, thread {i}"
                );
            }
        }
    }
}

/// Sums and reductions for every block size that GPUs have.
macro_rules! block_sums { ($($name:ident $threads:literal)*) => {
    $(#[kernel(threads = $threads, shared = 32 * 4 + 4 + 4 * 32 * 8)]
    fn $name(t: Thread, from: In<u32>, out: Buf<u64>) {
        let mut shared = t.shared();
        block_sum(t, &mut shared, from, out)
    })*
    #[test]
    fn block_sums_of_all_sizes() {
        for seed in SEEDS {
            $(block_sum_case(seed, $threads, |from, out| {
                // SAFETY: the arrays fit the kernel.
                unsafe { $name::launch(&Exec::new(seed), 2, from, out) }
            });)*
        }
    }
} }
block_sums!(b32 32 b64 64 b96 96 b128 128 b256 256 b480 480 b512 512 b992 992 b1024 1024);
const BLOCK_RESULTS: usize = 9;
#[inline(always)]
fn block_sum(t: Thread, shared: &mut SharedMem, from: In<u32>, out: Buf<u64>) {
    let (narrow, i) = (shared.array::<u32>(32), t.global_id());
    let (a, b, c) = (shared.array::<u64>(32), shared.array::<u64>(32), shared.array::<u64>(32));
    let x = from.get(i);
    let y = (x as u64) << 30;
    let (before, all) = block::exclusive_sum(t, x, narrow);
    let (up_to, all64) = block::inclusive_sum(t, y, a);
    let greatest = block::reduce(t, y, 0, b, u64::max);
    let least = block::reduce(t, y, u64::MAX, c, u64::min);
    let odd = t.barrier_count(x & 1 != 0);
    let results = [
        before as u64,
        all as u64,
        up_to,
        all64,
        greatest,
        least,
        odd as u64,
        block::warp_inclusive_sum(t, x) as u64,
        block::warp_reduce(t, x, u32::max) as u64,
    ];
    for (k, r) in results.into_iter().enumerate() {
        out.store(i as usize * BLOCK_RESULTS + k, r);
    }
}
fn block_sum_case(
    seed: u64,
    threads: usize,
    launch: impl Fn(In<u32>, Buf<u64>) -> Result<(), Fault>,
) {
    let mut next = numbers(seed);
    let from = (0..2 * threads).map(|_| next() as u32).collect::<Vec<_>>();
    let mut out = vec![0; 2 * threads * BLOCK_RESULTS];
    run(launch(In::new(&from), Buf::new(&mut out)));
    for (b, xs) in from.chunks(threads).enumerate() {
        let ys = || xs.iter().map(|&x| (x as u64) << 30);
        for i in 0..threads {
            let warp = &xs[i & !31..];
            let expected = [
                xs[..i].iter().fold(0, |a, x| a + *x as u64) as u32 as u64,
                xs.iter().fold(0, |a, x| a + *x as u64) as u32 as u64,
                ys().take(i + 1).fold(0, u64::wrapping_add),
                ys().fold(0, u64::wrapping_add),
                ys().max().unwrap(),
                ys().min().unwrap(),
                xs.iter().filter(|&x| x & 1 != 0).count() as u64,
                warp[..=i & 31].iter().fold(0u32, |a, x| a.wrapping_add(*x)) as u64,
                *warp[..32].iter().max().unwrap() as u64,
            ];
            assert_eq!(
                out[(b * threads + i) * BLOCK_RESULTS..][..BLOCK_RESULTS],
                expected,
                "{threads} threads, thread {i}"
            );
        }
    }
}

/// Accesses the same array word by word and 16 bytes at a time, in global and in shared memory, and
/// bytes next to words.
#[kernel(threads = 64, shared = 64 * 16 + 64 * 16 + 64 + 64 * 4)]
fn widths(
    t: Thread,
    from: In<u32>,
    wide: In<u64>,
    bytes: In<u8>,
    out: Buf<u32>,
    wide_out: Buf<u64>,
    bytes_out: Buf<u8>,
) {
    let mut shared = t.shared();
    let (a, b) = (shared.array::<u32>(256), shared.array::<u64>(128));
    let (c, d) = (shared.array::<u8>(64), shared.array::<u32>(64));
    let (i, l) = (t.global_id(), t.id());
    a.x4().store(l, from.x4().get(i));
    b.x2().store(l, wide.x2().get_no_alloc(i));
    c.store(l, bytes.get(i));
    d.store(l, l);
    t.barrier();
    // reversed inside the block: read word by word what was written 16 bytes at a time
    for j in 0..4 {
        out.store(4 * i + j, a.load(255 - (4 * l + j)));
    }
    let U64x2([lo, hi]) = b.x2().load_volatile(63 - l);
    wide_out.x2().store_stream(i, U64x2([hi, lo]));
    bytes_out.store(i, c.load(63 - l) ^ d.load(63 - l) as u8);
    t.barrier();
    let U32x4([p, q, r, s]) = out.x4().load(i);
    a.x4().store_volatile(l, U32x4([p, q, r, s]));
    t.barrier();
    out.x4().store(i, a.x4().load(l ^ 1));
}
#[test]
fn sixteen_byte_views_and_bytes() {
    #[repr(align(16))]
    struct Aligned<T>(T);
    for seed in SEEDS {
        let mut next = numbers(seed);
        let from = Aligned([0; 512].map(|_: i32| next() as u32));
        let wide = Aligned([0; 256].map(|_: i32| next()));
        let bytes = [0; 128].map(|_: i32| next() as u8);
        let (mut out, mut wide_out, mut bytes_out) =
            (Aligned([0; 512]), Aligned([0; 256]), [0; 128]);
        // SAFETY: the arrays fit the kernel.
        run(unsafe {
            widths::launch(
                &Exec::new(seed),
                2,
                In::new(&from.0),
                In::new(&wide.0),
                In::new(&bytes),
                Buf::new(&mut out.0),
                Buf::new(&mut wide_out.0),
                Buf::new(&mut bytes_out),
            )
        });
        for i in 0..512 {
            let (block, j) = (i & !255, i & 255);
            assert_eq!(out.0[i ^ 4], from.0[block + 255 - j]);
        }
        for i in 0..256 {
            assert_eq!(wide_out.0[i], wide.0[(i & !127) + 127 - (i & 127)]);
        }
        for i in 0..128 {
            assert_eq!(bytes_out[i], bytes[(i & !63) + 63 - (i & 63)] ^ (63 - (i & 63)) as u8);
        }
    }
}

/// Numbers of 16 bytes: every access in global and in shared memory, next to words that view the
/// same bytes.
#[kernel(threads = 64, shared = 64 * 16)]
fn sixteen_bytes(t: Thread, from: In<u128>, words: Buf<u64>, out: Buf<u128>) {
    let staged = t.shared().array::<u128>(64);
    let (i, l) = (t.global_id(), t.id());
    staged.store(l, from.get(i) ^ from.get_stream(i) ^ from.get_no_alloc(i));
    t.barrier();
    let turned = staged.load(63 - l);
    words.x2().store(i, turned.into());
    t.barrier();
    staged.store_volatile(l, turned);
    t.barrier();
    out.store(i, staged.load_volatile(63 - l));
    out.store_stream(i, out.load(i).rotate_left(64));
}
#[test]
fn numbers_of_sixteen_bytes() {
    for seed in SEEDS {
        let mut next = numbers(seed);
        let from = [0; 128].map(|_: i32| (next() as u128) << 64 | next() as u128);
        let (mut words, mut out) = ([0u128; 128], [0; 128]);
        // SAFETY: two words per number.
        let of_words =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u64>(), 256) };
        // SAFETY: the arrays fit the kernel.
        run(unsafe {
            sixteen_bytes::launch(
                &Exec::new(seed),
                2,
                In::new(&from),
                Buf::new(of_words),
                Buf::new(&mut out),
            )
        });
        for i in 0..128 {
            assert_eq!(words[i], from[(i & 64) + 63 - (i & 63)]);
            assert_eq!(out[i], from[i].rotate_left(64));
        }
    }
}

/// A custom launcher receives what a CUDA launcher would.
#[test]
fn arguments_are_the_bytes_the_device_reads() {
    struct Recorder;
    impl Backend for Recorder {
        type Error = (Vec<Vec<u8>>, Vec<(usize, bool)>);
        unsafe fn launch(
            &self,
            spec: &koel_simt::KernelSpec,
            grid: u32,
            shared: u32,
            params: &koel_simt::Params,
            body: koel_simt::KernelBody<'_>,
        ) -> Result<(), Self::Error> {
            assert_eq!(
                (spec.name, spec.threads, spec.independent, grid, shared),
                ("global", 64, false, 7, 0)
            );
            assert_eq!(
                spec.params.iter().map(|p| p.0).collect::<Vec<_>>(),
                ["op", "values", "words", "was"]
            );
            let listed = body.params();
            let arrays = listed.arrays().iter().map(|a| (a.range.len(), a.writable));
            Err((params.iter().map(<[u8]>::to_vec).collect(), arrays.collect()))
        }
    }
    let (a, b) = (In::<u32>::from_device(0x1000, 8), Buf::<u32>::from_device(0x2000, 9));
    // SAFETY: no kernel runs.
    let args = unsafe { atomics_u32::global::launch(&Recorder, 7, 3, a, b, b) }.unwrap_err();
    let addresses = [0x1000u64, 0x2000, 0x2000].map(|a| a.to_le_bytes().to_vec());
    assert_eq!(args.0, [&[3u32.to_le_bytes().to_vec()], &addresses[..]].concat());
    assert_eq!(args.1, [(32, false), (36, true), (36, true)]);
}
