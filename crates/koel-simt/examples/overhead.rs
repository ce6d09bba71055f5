//! Measures the cost of the executor: nanoseconds per memory access and per small launch.
//!
//! `cargo run --release -p koel-simt --example overhead`
use koel_simt::{Buf, Exec, In, Thread, kernel, run_native};
use std::time::Instant;

/// Four global accesses per element.
#[kernel(threads = 256, independent)]
fn streams(t: Thread, n: u32, from: In<u32>, to: Buf<u32>, sums: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        to.store(i, from.get(i) ^ 5);
        sums.fetch_add(i & 1023, to.load(i));
    }
}

/// Eight shared accesses and two barriers per thread.
#[kernel(threads = 256, shared = 1024)]
fn tiles(t: Thread, to: Buf<u32>) {
    let tile = t.shared().array::<u32>(256);
    tile.store(t.id(), t.id());
    t.barrier();
    let mut sum = 0;
    for j in 0..6 {
        sum += tile.load((t.id() + 41 * j) & 255);
    }
    t.barrier();
    tile.store(t.id(), sum);
    to.store(t.global_id(), sum);
}

#[kernel(threads = 256)]
fn small(t: Thread, to: Buf<u32>) {
    to.store(t.id(), t.id());
}

fn main() {
    let n = 1 << 17;
    let from = (0..n).collect::<Vec<u32>>();
    let (mut to, mut sums) = (vec![0; n as usize], vec![0; 1024]);
    for (name, preempt) in [("preempt 1 in 16", 16), ("no preemption", 0)] {
        let mut exec = Exec::new(1);
        (exec.preempt, exec.workers) = (preempt, 1);
        let time = |what: &str, each: f64, run: &mut dyn FnMut()| {
            run();
            let best = (0..40).map(|_| {
                let start = Instant::now();
                run();
                start.elapsed().as_secs_f64()
            });
            println!("{name:16} {what:28} {:8.1} ns", best.fold(f64::MAX, f64::min) * 1e9 / each);
        };
        time("global access", 4.0 * n as f64, &mut || {
            // SAFETY: the arrays fit the kernel.
            unsafe {
                streams::launch(
                    &exec,
                    n / 256,
                    n,
                    In::new(&from),
                    Buf::new(&mut to),
                    Buf::new(&mut sums),
                )
            }
            .unwrap();
        });
        time("shared access", 9.0 * n as f64, &mut || {
            // SAFETY: the arrays fit the kernel.
            unsafe { tiles::launch(&exec, n / 256, Buf::new(&mut to)) }.unwrap();
        });
        time("launch of 256 threads", 100.0, &mut || {
            for _ in 0..100 {
                // SAFETY: the arrays fit the kernel.
                unsafe { small::launch(&exec, 1, Buf::new(&mut sums)) }.unwrap();
            }
        });
    }
    struct Native;
    impl koel_simt::Backend for Native {
        type Error = std::convert::Infallible;
        unsafe fn launch(
            &self,
            spec: &koel_simt::KernelSpec,
            grid: u32,
            _: u32,
            _: &koel_simt::Params,
            body: koel_simt::KernelBody<'_>,
        ) -> Result<(), Self::Error> {
            // SAFETY: guaranteed by the caller.
            unsafe { run_native(spec, 0..grid, grid, body) };
            Ok(())
        }
    }
    let start = Instant::now();
    for _ in 0..10 {
        // SAFETY: the arrays fit the kernel.
        unsafe {
            streams::launch(
                &Native,
                n / 256,
                n,
                In::new(&from),
                Buf::new(&mut to),
                Buf::new(&mut sums),
            )
        }
        .unwrap();
    }
    println!(
        "native           global access                {:8.1} ns",
        start.elapsed().as_secs_f64() * 1e9 / 10.0 / 4.0 / n as f64
    );
}
