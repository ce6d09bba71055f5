//! Kernels as plain loops. These tests also run under Miri.
use koel_simt::{
    Backend, Buf, Exec, Fault, In, KernelBody, KernelSpec, Params, Thread, U32x4, U64x2, kernel,
    run_native,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Launcher on `workers` OS threads, which share the blocks.
struct Native {
    workers: u32,
}
impl Backend for Native {
    type Error = Fault;
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        _: u32,
        _: &Params,
        body: KernelBody<'_>,
    ) -> Result<(), Fault> {
        std::thread::scope(|s| {
            let parts =
                (0..self.workers).map(|w| grid * w / self.workers..grid * (w + 1) / self.workers);
            // SAFETY: guaranteed by the caller; the arguments outlive this function.
            let parts =
                parts.map(|part| s.spawn(move || unsafe { run_native(spec, part, grid, body) }));
            for part in parts.collect::<Vec<_>>() {
                part.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
            }
        });
        Ok(())
    }
}

/// Performs every kind of access to global memory; the result does not depend on the thread order.
#[kernel(threads = 32, independent)]
#[allow(clippy::too_many_arguments, reason = "one of each")]
fn accesses(
    t: Thread,
    n: u32,
    from: In<u32>,
    wide: In<u64>,
    bytes: In<u8>,
    out: Buf<u32>,
    wide_out: Buf<u64>,
    bytes_out: Buf<u8>,
    words: Buf<u32>,
    sums: Buf<u64>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let U32x4([a, b, c, d]) = from.x4().get(i);
    let U64x2([e, f]) = wide.x2().get_stream(i);
    words.fetch_add(0, a);
    words.fetch_min(1, b);
    words.fetch_max(2, c);
    words.fetch_or(3, d);
    words.fetch_and(4, a);
    sums.fetch_add(0, e);
    sums.fetch_min(1, f);
    sums.fetch_max(2, e);
    loop {
        let old = sums.load_relaxed(3);
        if sums.cas(3, old, old ^ e ^ f) == old {
            break;
        }
    }
    t.fence();
    out.x4().store(i, U32x4([d, c, b, a]));
    out.store(4 * i, out.load(4 * i) ^ 1);
    wide_out.x2().store_stream(i, U64x2([f, e]));
    wide_out.store_release(2 * i, wide_out.load_acquire(2 * i) ^ 1);
    bytes_out.store(i, !bytes.get_no_alloc(i));
}
#[repr(align(16))]
#[derive(Clone, PartialEq, Debug)]
struct Aligned<T>(T);
const N: usize = 75;
type Outcome = (Aligned<[u32; 4 * N]>, Aligned<[u64; 2 * N]>, [u8; N], Vec<u32>, Vec<u64>);
fn outcome(backend: &impl Backend<Error = Fault>) -> Outcome {
    let from =
        Aligned(std::array::from_fn::<u32, { 4 * N }, _>(|i| (i as u32).wrapping_mul(0x9E37_79B9)));
    let wide = Aligned(std::array::from_fn::<u64, { 2 * N }, _>(|i| {
        (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }));
    let bytes = std::array::from_fn::<u8, N, _>(|i| i as u8);
    let (mut out, mut wide_out, mut bytes_out) = (Aligned([0; 4 * N]), Aligned([0; 2 * N]), [0; N]);
    let (mut words, mut sums) = (vec![0, !0, 0, 0, !0], vec![0, !0, 0, 0]);
    // SAFETY: the arrays fit the kernel.
    unsafe {
        accesses::launch(
            backend,
            3,
            N as u32,
            In::new(&from.0),
            In::new(&wide.0),
            In::new(&bytes),
            Buf::new(&mut out.0),
            Buf::new(&mut wide_out.0),
            Buf::new(&mut bytes_out),
            Buf::new(&mut words),
            Buf::new(&mut sums),
        )
    }
    .unwrap();
    for i in 0..N {
        assert_eq!(
            out.0[4 * i..][..4],
            [from.0[4 * i + 3] ^ 1, from.0[4 * i + 2], from.0[4 * i + 1], from.0[4 * i]]
        );
        assert_eq!(wide_out.0[2 * i..][..2], [wide.0[2 * i + 1] ^ 1, wide.0[2 * i]]);
        assert_eq!(bytes_out[i], !bytes[i]);
    }
    let words_of = |k: usize| from.0.iter().skip(k).step_by(4).copied();
    assert_eq!(words[0], words_of(0).fold(0, u32::wrapping_add));
    assert_eq!(words[1], words_of(1).min().unwrap());
    assert_eq!(sums[3], wide.0.iter().fold(0, |a, b| a ^ b));
    (out, wide_out, bytes_out, words, sums)
}
#[test]
fn native_gives_what_the_oracle_and_the_executor_give() {
    let native = outcome(&Native { workers: 1 });
    for workers in 2..4 {
        assert!(outcome(&Native { workers }) == native);
    }
    #[cfg(not(miri))]
    for seed in 0..10 {
        assert!(outcome(&Exec::new(seed)) == native);
    }
}

#[kernel(threads = 32)]
fn waits(t: Thread) {
    t.barrier();
}
#[kernel(threads = 32, independent)]
fn waits_in_spite_of_its_word(t: Thread) {
    t.barrier();
}
#[kernel(threads = 32, independent, shared = 4)]
fn shares_in_spite_of_its_word(t: Thread) {
    t.shared().array::<u32>(1).store(0, 1);
}
#[kernel(threads = 32, independent)]
fn goes_out_of_bounds(t: Thread, from: In<u32>, to: Buf<u32>) {
    to.store(t.global_id() + 1, from.get(t.global_id()));
}
fn panic_of(f: impl FnOnce() -> Result<(), Fault>) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("a panic");
    payload
        .downcast_ref::<String>()
        .cloned()
        .or(payload.downcast_ref::<&str>().map(|s| s.to_string()))
        .unwrap()
}
#[test]
fn kernels_that_wait_cannot_run_natively() {
    let native = Native { workers: 1 };
    // SAFETY: no arrays.
    unsafe {
        assert!(
            panic_of(|| waits::launch(&native, 1))
                .contains("kernel `waits` is not marked independent")
        );
        assert!(
            panic_of(|| waits_in_spite_of_its_word::launch(&native, 1))
                .contains("only a kernel run by the executor")
        );
        assert!(
            panic_of(|| shares_in_spite_of_its_word::launch(&native, 1))
                .contains("only a kernel run by the executor")
        );
    }
}
#[test]
fn indices_are_checked() {
    let (from, mut to) = (vec![0; 64], vec![0; 64]);
    // SAFETY: what the kernel does is checked.
    let message = panic_of(|| unsafe {
        goes_out_of_bounds::launch(&Native { workers: 1 }, 2, In::new(&from), Buf::new(&mut to))
    });
    assert!(message.contains("index 64 of global `to`, which has 64 elements"), "{message}");
}
