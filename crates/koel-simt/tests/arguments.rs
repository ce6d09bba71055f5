//! Structs as arguments of kernels, and the instances of generic kernels.
#![cfg(not(miri))] // the executor's coroutines are assembly
use koel_simt::{
    Arg, Backend, Buf, Exec, In, KernelBody, KernelSpec, Params, Scalar, Thread, Word, kernel,
};
use std::marker::PhantomData;

/// Numbers of several sizes, with padding between them.
#[derive(Clone, Copy, Debug, PartialEq, Arg)]
#[repr(C)]
struct Numbers {
    a: u32,
    b: u64,
    c: u8,
    d: [u32; 2],
    e: u128,
}
/// Arrays and numbers, and a type that only the compiler sees.
#[derive(Clone, Copy, Arg)]
#[repr(C)]
struct Table<K: Word + Send + Sync> {
    factor: u32,
    keys: In<K>,
    inner: Pair,
    of: PhantomData<K>,
}
#[derive(Clone, Copy, Arg)]
#[repr(C)]
struct Pair {
    out: Buf<u32>,
    n: u32,
}

/// Bound of the generic kernels here.
trait Sum: Scalar + Arg {
    fn low(self) -> u32;
}
impl Sum for u32 {
    fn low(self) -> u32 {
        self
    }
}
impl Sum for u64 {
    fn low(self) -> u32 {
        self as u32
    }
}

#[kernel(threads = 32, shared = table.factor, ITEMS = size_of::<K>(),
    for K in [u32, u64 { min_blocks = 2 }])]
fn scaled<K: Sum, const ITEMS: usize>(t: Thread, table: Table<K>, add: K) {
    let i = t.global_id();
    if i < table.inner.n {
        let sum = table.keys.get(i).low() * table.factor + add.low() + ITEMS as u32;
        table.inner.out.store(i, sum);
    }
}
#[kernel(threads = 32, for A in [u32, u64], B in [u32, Vec<u32>])]
fn paired<A: 'static, B: 'static>(t: Thread, out: Buf<u32>) {
    if t.global_id() == 0 {
        out.store(0, (size_of::<A>() + size_of::<B>()) as u32);
    }
}
#[kernel(threads = 32)]
fn of_numbers(t: Thread, numbers: Numbers, out: Buf<u32>) {
    let Numbers { a, b, c, d, e } = numbers;
    if t.global_id() == 0 {
        out.store(0, a + b as u32 + c as u32 + d[0] + d[1] + e as u32);
    }
}

#[kernel(threads = 32)]
fn races(t: Thread, pair: Pair) {
    pair.out.store(0, t.id());
}

/// Launcher that returns what it receives.
struct Recorder;
impl Backend for Recorder {
    type Error = (KernelSpec, u32, Vec<Vec<u8>>, Vec<(usize, bool)>);
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        _: u32,
        shared: u32,
        params: &Params,
        body: KernelBody<'_>,
    ) -> Result<(), Self::Error> {
        assert!(params.arrays().is_empty() && body.params().iter().eq(params.iter()));
        let bytes = params.iter().map(<[u8]>::to_vec).collect();
        let listed = body.params();
        let arrays = listed.arrays().iter().map(|a| (a.range.start, a.writable));
        Err((*spec, shared, bytes, arrays.collect()))
    }
}

#[test]
fn a_struct_is_the_bytes_that_the_device_reads() {
    let table = Table::<u64> {
        factor: 7,
        keys: In::from_device(0x1000, 8),
        inner: Pair { out: Buf::from_device(0x2000, 9), n: 3 },
        of: PhantomData,
    };
    // SAFETY: no kernel runs.
    let recorded = unsafe { scaled::launch(&Recorder, 1, table, 5u64) };
    let (spec, shared, bytes, arrays) = recorded.unwrap_err();
    assert_eq!((spec.name, spec.min_blocks, shared), ("scaled_u64", 2, 7));
    assert_eq!(spec.params, [("table", "Table<K>"), ("add", "K")]);
    // 4 bytes for the factor, 4 that align the array, two addresses, a number, 4 that align the
    // struct.
    assert_eq!(spec.param_bytes, [32, 8]);
    let mut expected = vec![7, 0, 0, 0, 0, 0, 0, 0];
    expected.extend(0x1000u64.to_le_bytes());
    expected.extend(0x2000u64.to_le_bytes());
    expected.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes, [expected, 5u64.to_le_bytes().to_vec()]);
    assert_eq!(arrays, [(0x1000, false), (0x2000, true)]);

    let numbers = Numbers { a: 1, b: 2, c: 3, d: [4, 5], e: 6 };
    // SAFETY: no kernel runs.
    let recorded = unsafe { of_numbers::launch(&Recorder, 1, numbers, Buf::from_device(0, 1)) };
    let (spec, _, bytes, _) = recorded.unwrap_err();
    assert_eq!(spec.param_bytes, [size_of::<Numbers>(), 8]);
    let at = |at: usize, len: usize| {
        bytes[0][at..at + len].iter().rev().fold(0u128, |n, &b| n << 8 | b as u128)
    };
    let offsets = [
        std::mem::offset_of!(Numbers, a),
        std::mem::offset_of!(Numbers, b),
        std::mem::offset_of!(Numbers, c),
        std::mem::offset_of!(Numbers, d),
        std::mem::offset_of!(Numbers, e),
    ];
    let read = offsets.iter().zip([4, 8, 1, 4, 16]).map(|(&start, len)| at(start, len));
    assert_eq!(read.collect::<Vec<_>>(), [1, 2, 3, 4, 6]);
}

#[test]
fn an_instance_runs_with_its_types_and_constants() {
    let (narrow, wide) = ([1u32, 2, 3], [10u64, 20, 30]);
    let mut out = [0u32; 3];
    let inner = |out: &mut [u32; 3]| Pair { out: Buf::new(out), n: 3 };
    let table =
        Table { factor: 10, keys: In::new(&narrow), inner: inner(&mut out), of: PhantomData };
    // SAFETY: the arrays fit the kernel.
    unsafe { scaled::launch(&Exec::new(1), 1, table, 100u32) }.unwrap();
    assert_eq!(out, [114, 124, 134]);
    let table = Table { factor: 10, keys: In::new(&wide), inner: inner(&mut out), of: PhantomData };
    // SAFETY: as above.
    unsafe { scaled::launch(&Exec::new(1), 1, table, 100u64) }.unwrap();
    assert_eq!(out, [208, 308, 408]);
    assert_eq!(scaled::spec::<u32>().name, scaled::u32::SPEC.name);
    assert_eq!(scaled::u32::SPEC.min_blocks, 1);

    let mut out = [0u32];
    // SAFETY: as above.
    unsafe { paired::launch::<u64, Vec<u32>, _>(&Exec::new(1), 1, Buf::new(&mut out)) }.unwrap();
    assert_eq!(out, [32]);
    assert_eq!(paired::u64_vec_u32::SPEC.name, "paired_u64_vec_u32");
}

#[test]
fn an_array_in_a_struct_has_its_name_and_its_detector() {
    let mut out = [0u32; 3];
    // SAFETY: the array fits the kernel.
    let fault = unsafe { races::launch(&Exec::new(1), 1, Pair { out: Buf::new(&mut out), n: 0 }) };
    let fault = fault.unwrap_err();
    let text = fault.to_string();
    assert!(text.contains("race") && text.contains("`out`"), "{text}");
}

#[test]
#[should_panic(expected = "kernel `paired` has no instance for (u8, u32)")]
fn types_without_an_instance_are_named() {
    // SAFETY: no kernel runs.
    let _ = unsafe { paired::launch::<u8, u32, _>(&Recorder, 1, Buf::from_device(0, 1)) };
}
