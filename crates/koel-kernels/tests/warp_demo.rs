//! Runs every primitive once, in the kernels whose machine code is checked too.
use koel_kernels::warp_demo::{memory_demo, warp_demo};
use koel_simt::{Buf, Exec, In};

#[repr(align(16))]
struct Aligned<T>(T);
const N: usize = 256;

fn numbers(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(0x915F_77F5).wrapping_add(0x9E37_79B9);
        (state ^ state >> 15).wrapping_mul(0x2C1B_3C6D)
    }
}

#[test]
fn warp_operations() {
    for seed in 0..8 {
        let mut next = numbers(seed);
        let input = Aligned([0; 4 * N].map(|_: i32| next() % 200));
        let wide = Aligned([0; 2 * N].map(|_: i32| (next() as u64) << 32 | next() as u64));
        let mut out = Aligned([0; 4 * N]);
        // SAFETY: the arrays have the lengths that the kernel accesses.
        unsafe {
            warp_demo::launch(
                &Exec::new(seed as u64),
                2,
                In::new(&input.0),
                In::new(&wide.0),
                Buf::new(&mut out.0),
            )
        }
        .unwrap();
        for i in 0..N {
            let (base, l) = (i & !31, i & 31);
            let of = |i: usize, k: usize| input.0[4 * i + k];
            let bits =
                |f: &dyn Fn(usize) -> bool| (0..32).fold(0, |m, l| m | (f(base + l) as u32) << l);
            let lanes = |k: usize| (base..base + 32).map(move |i| of(i, k));
            let a = bits(&|j| of(j, 0) & 1 != 0) ^ if of(i, 2) & 1 != 0 { of(i, 3) } else { 0 };
            let b = bits(&|j| of(j, 1) & 7 == of(i, 1) & 7)
                ^ bits(&|j| wide.0[2 * j] & 3 == wide.0[2 * i] & 3);
            let c = lanes(2).sum::<u32>() ^ lanes(3).min().unwrap() ^ lanes(3).max().unwrap();
            let up = if l >= 3 { of(i - 3, 2) } else { of(i, 2) };
            let down = if l + 5 < 32 { of(i + 5, 3) } else { of(i, 3) };
            let d = of(i ^ 1, 0) ^ of(i & !3, 1) ^ up ^ down;
            let e = wide.0[2 * (i ^ 16) + 1];
            let f = (base..base + 32).any(|j| of(j, 0) == of(j, 1)) as u32
                | ((base..base + 32).all(|j| of(j, 2) != of(j, 3)) as u32) << 1;
            assert_eq!(
                out.0[4 * i..][..4],
                [a ^ b, c ^ d, e as u32, (e >> 32) as u32 ^ f],
                "seed {seed}, thread {i}"
            );
        }
    }
}

#[test]
fn atomics_bytes_and_block_sums() {
    for seed in 0..8 {
        let mut next = numbers(seed);
        let input = Aligned([0; 4 * N].map(|_: i32| next()));
        let (mut words, mut wide_words) = ([0, 0, !0, 0, 0, !0, 0], [0, 0, !0, 0, 0, !0, 0]);
        let (mut out, mut bytes) = (Aligned([0; 4 * N]), [0; N]);
        // SAFETY: the arrays have the lengths that the kernel accesses.
        unsafe {
            memory_demo::launch(
                &Exec::new(seed as u64),
                2,
                In::new(&input.0),
                Buf::new(&mut words),
                Buf::new(&mut wide_words),
                Buf::new(&mut out.0),
                Buf::new(&mut bytes),
            )
        }
        .unwrap();
        let word = |i: usize| input.0[4 * (i ^ 1) + (i & 3)];
        let long = |i: usize| (word(i) as u64) << 20 | (i & 127) as u64;
        let (all, all_long) = (|| (0..N).map(word), || (0..N).map(long));
        let expected = [
            1,
            all().fold(0, u32::wrapping_add),
            all().min().unwrap(),
            all().max().unwrap(),
            all().fold(0, |a, b| a | b),
            all().fold(!0, |a, b| a & b),
            7,
        ];
        assert_eq!(words, expected, "seed {seed}");
        let expected = [
            1,
            all_long().fold(0, u64::wrapping_add),
            all_long().min().unwrap(),
            all_long().max().unwrap(),
            all_long().fold(0, |a, b| a | b),
            all_long().fold(!0, |a, b| a & b),
            7,
        ];
        assert_eq!(wide_words, expected, "seed {seed}");
        for (i, byte) in bytes.iter().enumerate().take(N) {
            let first = i & !127;
            let before = (first..i).fold(0, |s, j| s + (word(j) & 0xff));
            let up_to = (first..=i).fold(0, |s: u64, j| s.wrapping_add(long(j)));
            let odd = (first..first + 128).filter(|&j| word(j) & 1 != 0).count() as u32;
            // Words 6 and 7 of the wide array: what `cas` stored, and 0.
            let expected = [before, up_to as u32, (up_to >> 32) as u32, odd ^ 7];
            assert_eq!(out.0[4 * i..][..4], expected, "seed {seed}, thread {i}");
            assert_eq!(*byte, input.0[4 * (i ^ 3)] as u8);
        }
    }
}
