//! Devices, streams and buffers, and their error messages.
mod support;

use koel::device::Foreign;
use koel::primitives::Scan;
use koel::{
    Buffer, Device, DeviceKind, Error, MapBuilder, MapOptions, Result, Stream, View, ViewMut,
};
use koel_kernels::map::find::{MapRef, map_find_or};
use koel_kernels::probe::random_sectors;
use koel_kernels::table::layout::{Narrow, Shape};
use koel_simt::{Buf, Thread, kernel};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use support::{can_stand_in, devices, run_with_library, run_with_stand_in, stand_in};

#[test]
fn buffers_keep_what_they_are_given() {
    for device in devices() {
        for n in [0usize, 1, 31, 32, 33, 1000, 100_000] {
            let data =
                (0..n as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect::<Vec<_>>();
            let mut buffer = device.upload(&data).unwrap();
            assert_eq!((buffer.len(), buffer.bytes(), buffer.is_empty()), (n, 8 * n, n == 0));
            assert_eq!(buffer.download().unwrap(), data);
            let (a, b) = (n / 3, n - n / 4);
            assert_eq!(buffer.view().slice(a..b).unwrap().download().unwrap(), data[a..b]);
            buffer.view_mut().slice(a..b).unwrap().copy_from_host(&vec![7; b - a]).unwrap();
            let mut expected = data.clone();
            expected[a..b].fill(7);
            assert_eq!(buffer.download().unwrap(), expected);
            let stream = device.stream().unwrap();
            let mut copy = device.alloc(n).unwrap();
            copy.view_mut().copy_from(buffer.view(), &stream).unwrap();
            assert_eq!(copy.download().unwrap(), expected);
            copy.view_mut().slice(..a).unwrap().fill_bytes(0xA5, &stream).unwrap();
            expected[..a].fill(0xA5A5_A5A5_A5A5_A5A5);
            assert_eq!(copy.download().unwrap(), expected);
            assert_eq!(device.stage(&data).unwrap().view().download().unwrap(), data);
        }
    }
}

/// Large copies between host and device, which go through pinned memory piece by piece: sizes
/// around those of pieces, parts of buffers, new copies before the device has finished the last,
/// several threads, and copies from within parallel code.
#[test]
fn large_copies_arrive() {
    use rayon::prelude::*;
    for device in devices() {
        let slot = 512 << 10;
        // Answers need slots of other sizes than uploads.
        for n in [2 * slot, 4 * slot] {
            let (stream, mut buffer) = (device.stream().unwrap(), device.alloc::<u8>(n).unwrap());
            buffer.view_mut().fill_bytes(7, &stream).unwrap();
            assert!(buffer.download().unwrap() == vec![7; n]);
        }
        for n in [(64 << 10) - 1, 64 << 10, slot - 1, slot + 5, 4 * slot, (9 << 20) + 1] {
            let data = (0..n).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect::<Vec<_>>();
            let mut buffer = device.upload(&data).unwrap();
            assert!(buffer.download().unwrap() == data, "{n} bytes on {}", device.name());
            let (a, b) = (n / 3, n - n / 5);
            let mut part = vec![0; b - a];
            buffer.view().slice(a..b).unwrap().copy_to_host(&mut part).unwrap();
            assert!(part == data[a..b], "{n} bytes on {}", device.name());
            let mut changed = data.iter().map(|x| !x).collect::<Vec<_>>();
            for (i, from) in [&changed, &data, &changed].into_iter().enumerate() {
                buffer.view_mut().copy_from_host(from).unwrap();
                let i = a + i;
                buffer.view_mut().slice(i..b).unwrap().copy_from_host(&data[i..b]).unwrap();
            }
            changed[a + 2..b].copy_from_slice(&data[a + 2..b]);
            assert!(buffer.download().unwrap() == changed, "{n} bytes on {}", device.name());
            let stream = device.stream().unwrap();
            let mut copy = device.alloc(n).unwrap();
            copy.view_mut().copy_from(buffer.view(), &stream).unwrap();
            buffer.view_mut().copy_from_host(&data).unwrap();
            assert!(copy.download().unwrap() == changed, "{n} bytes on {}", device.name());
        }
        let there_and_back = |i: u32| {
            let data = (0..200_000 + i).map(|x| x ^ i << 20).collect::<Vec<_>>();
            assert!(device.upload(&data).unwrap().download().unwrap() == data);
        };
        std::thread::scope(|scope| {
            for i in 0..4 {
                let there_and_back = &there_and_back;
                scope.spawn(move || (0..4).for_each(|k| there_and_back(i + 4 * k)));
            }
        });
        (0..16).into_par_iter().for_each(there_and_back);
    }
}

/// A stream that uses a buffer after another stream waits for it without explicit events.
#[test]
fn streams_follow_each_other_over_a_buffer() {
    for device in devices() {
        let (one, two) = (device.stream().unwrap(), device.stream().unwrap());
        let n = 1 << 20;
        let mut a = device.upload(&vec![1u8; n]).unwrap();
        let mut b = device.alloc::<u8>(n).unwrap();
        for round in 2..40 {
            a.view_mut().fill_bytes(round, &one).unwrap();
            b.view_mut().copy_from(a.view(), &two).unwrap();
            a.view_mut().fill_bytes(0, &one).unwrap();
            assert!(
                b.download().unwrap().iter().all(|&x| x == round),
                "round {round} on {}",
                device.name()
            );
        }
        let event = one.record().unwrap();
        two.wait(&event).unwrap();
        assert!(two.record().unwrap().seconds_since(&event).unwrap() >= 0.0);
        two.synchronize().unwrap();
    }
}

#[test]
fn ranges_and_lengths_are_checked() {
    for device in devices() {
        let mut buffer = device.upload(&[1u32, 2, 3]).unwrap();
        let e = buffer.view().slice(2..5).unwrap_err();
        assert_eq!(e.to_string(), "`range` is 2..5, must be inside 0..3");
        assert!(
            buffer.view().slice(usize::MAX..).is_err()
                && buffer.view().slice(..=usize::MAX).is_err()
        );
        let e = buffer.view_mut().copy_from_host(&[1, 2]).unwrap_err();
        assert_eq!(e.to_string(), "`from` holds 2 elements, but `the buffer` needs 3");
        assert!(buffer.view().copy_to_host(&mut [0; 4]).is_err());
    }
}

#[test]
fn too_much_memory_is_an_error_with_the_numbers() {
    for device in devices() {
        // More than any machine has, but less than what overflows.
        let Err(Error::OutOfMemory { asked, free, .. }) = device.alloc::<u64>(1 << 50) else {
            panic!("{device:?}")
        };
        assert_eq!(asked, 8 << 50);
        assert_eq!(free > 0, device.kind() == DeviceKind::Cuda);
        assert!(matches!(device.alloc::<u64>(usize::MAX), Err(Error::OutOfMemory { .. })));
        // The device stays usable.
        assert_eq!(device.upload(&[5u8]).unwrap().download().unwrap(), [5]);
    }
}

#[test]
fn other_devices_buffers_are_refused() {
    let (a, b) = (Device::cpu().unwrap(), Device::executor(1));
    let (stream, mut buffer) = (a.stream().unwrap(), b.upload(&[1u32]).unwrap());
    let e = buffer.view().arg("keys", &stream).err().unwrap();
    assert!(e.to_string().starts_with("`keys` is on test executor"), "{e}");
    assert!(matches!(buffer.view_mut().arg("out", &stream), Err(Error::WrongDevice { .. })));
}

#[kernel(threads = 32, shared = bytes)]
fn asks_for_shared_memory(t: Thread, bytes: u32, out: Buf<u32>) {
    let shared = t.shared().array::<u32>(bytes / 4);
    shared.store(t.id(), t.id());
    t.barrier();
    out.store(t.id(), shared.load(t.id() ^ 1));
}

#[test]
fn launches_that_cannot_be_are_errors() {
    let executor = Device::executor(1);
    let (stream, mut out) = (executor.stream().unwrap(), executor.alloc::<u32>(32).unwrap());
    let arg = out.view_mut().arg("out", &stream).unwrap();
    // SAFETY: 32 words are written.
    unsafe { asks_for_shared_memory::launch(&stream, 1, 128, arg) }.unwrap();
    // SAFETY: the launch is refused.
    let e = unsafe { asks_for_shared_memory::launch(&stream, 1, 1 << 20, arg) }.unwrap_err();
    assert!(matches!(e, Error::SharedMemory { asked: 1_048_576, limit: 232_448, .. }), "{e}");
    // SAFETY: no block, no access.
    unsafe { asks_for_shared_memory::launch(&stream, 0, 128, arg) }.unwrap();

    let cpu = Device::cpu().unwrap();
    let (stream, mut out) = (cpu.stream().unwrap(), cpu.alloc::<u32>(32).unwrap());
    let arg = out.view_mut().arg("out", &stream).unwrap();
    // SAFETY: the launch is refused.
    let e = unsafe { asks_for_shared_memory::launch(&stream, 1, 128, arg) }.unwrap_err();
    assert!(matches!(e, Error::NotIndependent { kernel: "asks_for_shared_memory" }), "{e}");
}

#[test]
fn the_executor_names_the_fault() {
    let device = Device::executor(1);
    let stream = device.stream().unwrap();
    let (table, mut out) = (device.alloc::<u64>(4).unwrap(), device.alloc::<u32>(100).unwrap());
    let table = table.view().arg("table", &stream).unwrap();
    let out = out.view_mut().arg("out", &stream).unwrap();
    // SAFETY: the executor checks every access.
    let e = unsafe { random_sectors::launch(&stream, 1, 256, 1, 7, table, out) }.unwrap_err();
    let Error::Executor(fault) = e else { panic!("{e}") };
    assert!(
        fault.to_string().contains("kernel `random_sectors`, block 0, thread")
            && fault.message.contains("`out`")
    );
}

/// A CPU's memory uses the page size that the device was opened with.
#[cfg(target_os = "linux")]
#[test]
fn pages_are_those_that_were_asked_for() {
    use koel::device::{CpuOptions, Pages};
    let grants = std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists();
    for (pages, huge) in [(Pages::System, false), (Pages::Huge, grants)] {
        let device =
            Device::cpu_with(CpuOptions::default().with_threads(Some(2)).with_pages(pages))
                .unwrap();
        let buffer = device.alloc::<u64>(1 << 20).unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        // A line with the addresses of each mapping, then its properties; the last of these are its
        // flags, among them `hg`.
        let mut inside = false;
        let flags = smaps.lines().find_map(|line| {
            let addresses = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((Ok(start), Ok(end))) = addresses
                .map(|(start, end)| (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16)))
            {
                inside = (start..end).contains(&buffer.address());
            }
            line.strip_prefix("VmFlags:").filter(|_| inside)
        });
        assert_eq!(flags.unwrap().split(' ').any(|flag| flag == "hg"), huge, "{pages:?}");
        assert_eq!(
            koel::Map::build(&device, &[3u32, 5], &[30u32, 50]).unwrap().get(&[5]).unwrap(),
            [Some(50)]
        );
    }
}

#[test]
fn no_gpu_is_not_the_end() {
    let best = Device::best().unwrap();
    match Device::cuda(0) {
        Ok(cuda) => {
            assert_eq!((best.kind(), best.fallback_reason()), (DeviceKind::Cuda, None));
            let (free, total) = cuda.memory().unwrap().unwrap();
            assert!(
                free > 0
                    && free <= total
                    && cuda.max_shared() >= 48 << 10
                    && cuda.parallelism() > 0
            );
            let Err(Error::NoSuchDevice { ordinal: 4000, count }) = Device::cuda(4000) else {
                panic!()
            };
            assert!(count > 0);
        }
        Err(e) => {
            assert!(matches!(e, Error::NoDriver { .. } | Error::NoSuchDevice { .. }), "{e}");
            assert_eq!(best.kind(), DeviceKind::Cpu);
            assert_eq!(best.fallback_reason(), Some(e.to_string().as_str()));
        }
    }
    assert!(matches!(Device::cpu_with_threads(0), Err(Error::Setting { field: "threads", .. })));
    assert_eq!(Device::cpu_with_threads(3).unwrap().parallelism(), 3);
}

struct Copies {
    from: Buffer<u32>,
    to: Buffer<u32>,
    twice: Buffer<u32>,
}
impl Copies {
    fn new(device: &Device, n: usize) -> Copies {
        let [from, to, twice] = [0; 3].map(|_| device.upload(&vec![0u32; n]).unwrap());
        Copies { from, to, twice }
    }
    fn run(stream: &Stream, c: &mut Copies) -> Result<()> {
        c.to.view_mut().copy_from(c.from.view(), stream)?;
        c.to.view_mut().slice(..1)?.fill_bytes(0xFF, stream)?;
        c.twice.view_mut().copy_from(c.to.view(), stream)
    }
}

#[test]
fn a_graph_does_again_what_was_recorded() {
    for device in devices() {
        let streams = [0, 1].map(|_| device.stream().unwrap());
        let mut copies = Copies::new(&device, 100);
        // Used on another stream just before: recording and launching follow that use.
        copies.from.view_mut().fill_bytes(1, &streams[1]).unwrap();
        let mut graph = streams[0].capture(copies, Copies::run).unwrap();
        assert_eq!(graph.state().twice.download().unwrap(), [0; 100], "recording runs nothing");
        for round in 1..20u32 {
            let data = (0..100).map(|i| i * round).collect::<Vec<u32>>();
            graph.state_mut().from.view_mut().copy_from_host(&data).unwrap();
            graph.launch(&streams[round as usize % 2]).unwrap();
            let expected = [&[!0], &data[1..]].concat();
            assert_eq!(graph.state().twice.download().unwrap(), expected, "{device:?}");
            // Its buffers may be used like any others, too.
            let stream = &streams[round as usize / 2 % 2];
            graph.state_mut().twice.view_mut().fill_bytes(0, stream).unwrap();
        }
        // Outside the graph the buffers are as before.
        let mut copies = graph.into_state();
        copies.twice.view_mut().copy_from_host(&[7; 100]).unwrap();
        assert_eq!(copies.twice.download().unwrap(), [7; 100]);
        assert_eq!(copies.twice.view().host().is_some(), device.kind() != DeviceKind::Cuda);
    }
}

/// A scan's kernels distinguish launches by a number that is an argument, and a graph repeats the
/// number.
#[test]
fn primitives_run_in_graphs() {
    for device in devices() {
        if std::env::var_os("STAND_IN").is_some() {
            return;
        }
        let (stream, n) = (device.stream().unwrap(), 20_000);
        let mut scan = Scan::<u32>::new(&device, n).unwrap();
        let (input, mut output) = (device.upload(&vec![0; n]).unwrap(), device.alloc(n).unwrap());
        scan.inclusive(&stream, input.view(), output.view_mut()).unwrap();
        let state = (scan, input, output);
        let mut graph = stream
            .capture(state, |stream, (scan, input, output)| {
                scan.exclusive(stream, input.view(), output.view_mut())
            })
            .unwrap();
        for round in 1..8 {
            graph.state_mut().1.view_mut().copy_from_host(&vec![round; n]).unwrap();
            graph.launch(&stream).unwrap();
            let (scan, input, output) = graph.state_mut();
            assert!(
                output.download().unwrap().into_iter().eq((0..n as u32).map(|i| i * round)),
                "{device:?}"
            );
            // Runs outside the graph in between, in some rounds.
            if round % 3 == 0 {
                scan.inclusive(&stream, input.view(), output.view_mut()).unwrap();
                assert!(
                    output.download().unwrap().into_iter().eq((1..=n as u32).map(|i| i * round)),
                    "{device:?}"
                );
            }
        }
    }
}

#[kernel(threads = 64, independent)]
fn counts_up(t: Thread, n: u32, numbers: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        numbers.store(i, numbers.load(i).wrapping_add(1));
    }
}

#[test]
fn kernels_run_in_graphs() {
    for device in devices().into_iter().filter(|d| d.kind() != DeviceKind::Cuda) {
        let stream = device.stream().unwrap();
        let mut graph = stream
            .capture(device.upload(&[5u32; 1000]).unwrap(), |stream, numbers| {
                let numbers = numbers.view_mut().arg("numbers", stream)?;
                // SAFETY: 1000 numbers.
                unsafe { counts_up::launch(stream, 16, 1000, numbers) }?;
                // SAFETY: 1000 numbers, of which one is counted.
                unsafe { counts_up::launch(stream, 1, 1, numbers) }
            })
            .unwrap();
        for round in 1..4 {
            graph.launch(&stream).unwrap();
            let numbers = graph.state().download().unwrap();
            assert_eq!(
                (numbers[0], numbers[1], numbers[999]),
                (5 + 2 * round, 5 + round, 5 + round)
            );
        }
    }
}

#[test]
fn what_waits_is_no_part_of_a_graph() {
    type Record = fn(&Stream, &mut (Buffer<u32>, Stream)) -> Result<()>;
    let cases: [(&str, Record); 13] = [
        ("View::copy_to_host", |_, s| s.0.download().map(drop)),
        ("ViewMut::copy_from_host", |_, s| s.0.view_mut().copy_from_host(&[1, 2, 3, 4])),
        ("Device::alloc", |s, _| s.device().alloc::<u8>(5).map(drop)),
        ("Device::alloc", |s, _| s.device().upload(&[1u8]).map(drop)),
        ("Stream::synchronize", |s, _| s.synchronize()),
        ("Stream::synchronize", |_, s| s.1.synchronize()),
        ("Stream::time", |s, _| s.time(|| Ok(())).map(drop)),
        ("Event::seconds_since", |s, _| s.record()?.seconds_since(&s.record()?).map(drop)),
        ("Stream::capture", |s, _| s.capture((), |_, ()| Ok(())).map(drop)),
        ("work on another stream", |_, s| s.0.view_mut().fill_bytes(0, &s.1)),
        ("work on another stream", |_, s| s.0.view().arg("numbers", &s.1).map(drop)),
        ("work on another stream", |_, s| s.1.record().map(drop)),
        ("a fill", |s, b| b.0.view_mut().fill_bytes(7, s)),
    ];
    for device in devices() {
        let stream = device.stream().unwrap();
        for (operation, record) in cases {
            let mut buffer = device.upload(&[0u32; 4]).unwrap();
            let graph = stream.capture((buffer, device.stream().unwrap()), record);
            match graph.and_then(|mut g| g.launch(&stream).map(|()| g.into_state().0)) {
                Ok(buffer) => {
                    assert_eq!((operation, buffer.download().unwrap()[0]), ("a fill", 0x0707_0707))
                }
                Err(Error::Capture { operation: found, .. }) => {
                    assert_eq!(found, operation, "{device:?}")
                }
                Err(e) => panic!("{operation} on {device:?}: {e}"),
            }
            // The device and the stream stay usable.
            buffer = device.upload(&[1u32; 4]).unwrap();
            buffer.view_mut().fill_bytes(9, &stream).unwrap();
            assert_eq!(buffer.download().unwrap(), [0x0909_0909; 4]);
        }
        // Nor is work after the closure has ended.
        let kept = std::sync::Arc::new(std::sync::Mutex::new(None));
        let keep = kept.clone();
        let mut graph = stream
            .capture((), move |stream, ()| {
                *keep.lock().unwrap() = Some((stream.clone(), stream.record()?));
                Ok(())
            })
            .unwrap();
        graph.launch(&stream).unwrap();
        let (inner, event) = kept.lock().unwrap().take().unwrap();
        assert!(matches!(inner.record(), Err(Error::Capture { .. })));
        assert!(matches!(graph.launch(&inner), Err(Error::Capture { .. })));
        assert!(matches!(
            stream.wait(&event),
            Err(Error::Capture { operation: "waiting for an event", .. })
        ));
        let other = Device::executor(5);
        assert!(matches!(graph.launch(&other.stream().unwrap()), Err(Error::WrongDevice { .. })));
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut graph = stream.capture((), |_, ()| panic!("as expected")).unwrap();
            graph.launch(&stream)
        }));
        assert!(panics.is_err());
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_graph_knows_when_a_buffer_is_gone() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut graph = stream.capture(Copies::new(&device, 50), Copies::run).unwrap();
        graph.launch(&stream).unwrap();
        let taken =
            std::mem::replace(&mut graph.state_mut().twice, device.upload(&[3; 50]).unwrap());
        graph.launch(&stream).unwrap();
        if device.kind() != DeviceKind::Cpu {
            assert_eq!(
                graph.state().twice.download().unwrap(),
                [3; 50],
                "the graph has the old one"
            );
            assert!(taken.view().host().is_none(), "which host code must not look into meanwhile");
            drop(taken);
            let e = graph.launch(&stream).unwrap_err();
            assert_eq!(
                e.to_string(),
                "the graph uses a buffer of 200 bytes that was dropped after the capture"
            );
        }
    }
}

#[test]
fn a_graph_may_have_several_streams() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut graph = stream
            .capture(Copies::new(&device, 10), |stream, c| {
                let side = stream.device().stream()?;
                c.from.view_mut().fill_bytes(1, stream)?;
                c.to.view_mut().copy_from(c.from.view(), &side)?;
                c.twice.view_mut().fill_bytes(2, stream)?;
                stream.wait(&side.record()?)?;
                c.from.view_mut().fill_bytes(3, stream)?;
                // Not waited for: the graph's end does that.
                c.twice.view_mut().slice(5..)?.copy_from(c.from.view().slice(5..)?, &side)
            })
            .unwrap();
        graph.launch(&stream).unwrap();
        let Copies { to, twice, .. } = graph.into_state();
        assert_eq!(to.download().unwrap(), [0x0101_0101; 10]);
        assert_eq!(twice.download().unwrap(), [[0x0202_0202; 5], [0x0303_0303; 5]].concat());
    }
}

#[test]
fn raw_addresses_are_views() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (from, to) =
            (device.upload(&[1u32, 2, 3, 4]).unwrap(), device.alloc::<u32>(4).unwrap());
        let (a, b) = (from.address(), to.address());
        assert_eq!(from.view().slice(1..).unwrap().address(), a + 4);
        // SAFETY: the buffers outlive the views, and are used on this stream only.
        let (from_raw, mut to_raw) = unsafe {
            (
                View::<u32>::from_raw(&device, a + 4, 3).unwrap(),
                ViewMut::<u32>::from_raw(&device, b, 4).unwrap(),
            )
        };
        assert_eq!(to_raw.address(), b);
        to_raw.fill_bytes(0, &stream).unwrap();
        to_raw.slice(1..).unwrap().copy_from(from_raw, &stream).unwrap();
        assert_eq!(from_raw.download().unwrap(), [2, 3, 4]);
        assert_eq!(to.download().unwrap(), [0, 2, 3, 4]);
        // SAFETY: refused, or without elements.
        unsafe {
            let e = View::<u32>::from_raw(&device, a + 2, 1).unwrap_err();
            assert!(e.to_string().contains("must be a non-null multiple of 4"), "{e}");
            assert!(
                View::<u8>::from_raw(&device, 0, 1).is_err()
                    && ViewMut::<u64>::from_raw(&device, 4, 1).is_err()
            );
            assert!(View::<u64>::from_raw(&device, 0, 0).unwrap().download().unwrap().is_empty());
        }
    }
}

/// Numbers that count how often they are dropped.
struct Counted<T>(Vec<T>, Arc<AtomicUsize>);
impl<T> AsRef<[T]> for Counted<T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}
impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.0.clear();
        self.1.fetch_add(1, Relaxed);
    }
}
#[test]
fn memory_of_others_lives_as_long_as_it_is_used() {
    for device in devices() {
        let (drops, stream) = (Arc::new(AtomicUsize::new(0)), device.stream().unwrap());
        let keys = (0..1000u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<_>>();
        let owner = Counted(keys.clone(), drops.clone());
        if device.kind() == DeviceKind::Cuda {
            let e = Foreign::new(&device, owner).unwrap_err().to_string();
            assert!(e.contains("must be a CPU: upload copies host memory"), "{e}");
            assert_eq!(drops.load(Relaxed), 1);
        } else {
            let foreign = Foreign::new(&device, owner).unwrap();
            assert_eq!(
                (foreign.len(), foreign.is_empty(), foreign.device()),
                (1000, false, &device)
            );
            let boxed = Box::new(foreign); // moved, with its owner
            assert_eq!(boxed.view().download().unwrap(), keys);
            assert_eq!(boxed.view().host().unwrap(), keys);
            let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
            let map = builder.build(&stream, boxed.view(), boxed.view()).unwrap();
            let mut sorted = device.alloc::<u32>(1000).unwrap();
            sorted.view_mut().copy_from(boxed.view(), &stream).unwrap();
            assert_eq!(drops.load(Relaxed), 0);
            drop(boxed);
            assert_eq!(drops.load(Relaxed), 1);
            assert_eq!(sorted.download().unwrap(), keys);
            assert_eq!(map.count(&keys).unwrap(), 1000);
            // Elements within the owner.
            let inside = Foreign::new(&device, [7u64, 8, 9]).unwrap();
            let inside = (0, inside);
            assert_eq!(inside.1.view().slice(1..).unwrap().download().unwrap(), [8, 9]);
        }

        // A graph keeps what its state owns.
        let drops = Arc::new(AtomicUsize::new(0));
        let from = device.upload(&keys).unwrap();
        let owner = (Counted(vec![0u8; 4], drops.clone()), device.upload(&keys).unwrap());
        let address = owner.1.address();
        // SAFETY: the owner has the memory, which nobody writes.
        let foreign = unsafe { Foreign::<u32>::from_raw(&device, address, 1000, owner) }.unwrap();
        let state = (foreign, device.alloc::<u32>(1000).unwrap());
        let mut graph = stream
            .capture(state, |stream, (from, to)| to.view_mut().copy_from(from.view(), stream))
            .unwrap();
        drop(from);
        for _ in 0..2 {
            graph.launch(&stream).unwrap();
        }
        assert_eq!(graph.state().1.download().unwrap(), keys);
        assert_eq!(drops.load(Relaxed), 0);
        graph.launch(&stream).unwrap();
        drop(graph);
        assert_eq!(drops.load(Relaxed), 1);
    }
}
#[test]
fn memory_of_others_is_checked() {
    let device = Device::cpu().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = |bytes: usize| Counted(vec![0u8; bytes], drops.clone());
    let e = Foreign::<[u8; 4]>::of_bytes(&device, counted(6)).unwrap_err().to_string();
    assert!(e.starts_with("`bytes` is 6 at 0x"), "{e}");
    assert!(e.ends_with("must be a multiple of 4 at a multiple of 1"), "{e}");
    struct Odd(Vec<u64>);
    impl AsRef<[u8]> for Odd {
        fn as_ref(&self) -> &[u8] {
            // SAFETY: bytes of the numbers.
            unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(1), 8) }
        }
    }
    let e = Foreign::<u64>::of_bytes(&device, Odd(vec![1, 2])).unwrap_err().to_string();
    assert!(e.ends_with("must be a multiple of 8 at a multiple of 8"), "{e}");
    // SAFETY: refused.
    let e = unsafe { Foreign::<u32>::from_raw(&device, 0, 1, counted(1)) }.unwrap_err();
    assert!(e.to_string().contains("must be a non-null multiple of 4"), "{e}");
    assert_eq!(drops.load(Relaxed), 2);
    let empty = Foreign::<u32>::new(&device, Vec::new()).unwrap();
    assert!(empty.is_empty() && empty.view().download().unwrap().is_empty());
}

/// Returns a cudarc stream. The first stream of a context waits for the whole context, which the
/// driver refuses while another thread records a graph, as other tests do.
#[cfg(feature = "cuda")]
fn stream_of(
    context: &std::sync::Arc<koel::device::cudarc::driver::CudaContext>,
) -> std::sync::Arc<koel::device::cudarc::driver::CudaStream> {
    context.new_stream().or_else(|_| context.new_stream()).unwrap()
}
/// Streams that do not block the legacy default stream, on which koel's memory is allocated, such
/// as those of PyTorch, CuPy and cudarc.
#[test]
#[cfg(feature = "cuda")]
fn other_libraries_streams_are_used() {
    use koel::device::cudarc::driver::{CudaContext, sys};
    use std::ptr::null_mut;
    // SAFETY: refused.
    let e = unsafe { Stream::from_raw(&Device::cpu().unwrap(), null_mut()) }.unwrap_err();
    assert_eq!(e.to_string().split(',').next(), Some("Stream::from_raw needs a CUDA device"));
    for device in devices().into_iter().filter(|d| d.kind() == DeviceKind::Cuda) {
        let mut raw = null_mut();
        // SAFETY: creates a stream, which is never destroyed.
        let made = unsafe {
            sys::cuStreamCreate(&mut raw, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32)
        };
        assert_eq!(made, sys::CUresult::CUDA_SUCCESS);
        let context = CudaContext::new(0).unwrap();
        let cudarc = stream_of(&context);
        // SAFETY: streams that are never destroyed.
        let streams = unsafe {
            [
                Stream::from_raw(&device, raw.cast()).unwrap(),
                device.stream().unwrap(),
                Stream::from_raw(&device, null_mut()).unwrap(),
                Stream::from_cudarc(&device, &cudarc).unwrap(),
            ]
        };
        assert_eq!(streams[0].raw(), Some(raw.cast()));
        // SAFETY: refused.
        let e =
            unsafe { Stream::from_raw(&device, std::ptr::without_provenance_mut(2)) }.unwrap_err();
        assert!(matches!(e, Error::Setting { field: "stream", .. }), "{e}");
        for (i, stream) in streams.iter().enumerate() {
            // New memory, memory that the host wrote, memory freed while in use, and memory
            // allocated again.
            for round in 0..4u8 {
                let (mut a, b) = (
                    device.alloc::<u8>(1 << 16).unwrap(),
                    device.upload(&vec![round; 1 << 16]).unwrap(),
                );
                a.view_mut().copy_from(b.view(), stream).unwrap();
                drop(b);
                let other = &streams[(i + round as usize) % streams.len()];
                let mut c = device.alloc::<u8>(1 << 16).unwrap();
                c.view_mut().copy_from(a.view(), other).unwrap();
                a.view_mut().copy_from_host(&vec![9; 1 << 16]).unwrap();
                a.view_mut().slice(..5).unwrap().fill_bytes(8, stream).unwrap();
                assert_eq!(c.download().unwrap(), vec![round; 1 << 16]);
                assert_eq!(a.download().unwrap()[4..6], [8, 9]);
            }
            let mut graph = stream.capture(Copies::new(&device, 10), Copies::run).unwrap();
            for other in &streams {
                graph.state_mut().from.view_mut().copy_from_host(&[i as u32; 10]).unwrap();
                graph.launch(other).unwrap();
            }
            assert_eq!(graph.state().twice.download().unwrap()[1..], [i as u32; 9]);
        }
    }
}

#[test]
#[cfg(feature = "cuda")]
#[ignore = "needs an NVIDIA GPU, or the stand-in with which the_driver_is_used_rightly runs it"]
fn cudarcs_slices_go_in_and_out() {
    use koel::device::cudarc::driver::CudaContext;
    let context = CudaContext::new(0).unwrap();
    let device = Device::from_cudarc(&context).unwrap();
    let n = 1 << 12;
    let check = |theirs: &std::sync::Arc<koel::device::cudarc::driver::CudaStream>| {
        for stream in [device.stream().unwrap(), Stream::from_cudarc(&device, theirs).unwrap()] {
            let other = device.stream().unwrap();
            let (from, mut to) =
                (theirs.clone_htod(&vec![3u32; n]).unwrap(), theirs.alloc_zeros::<u32>(n).unwrap());
            let copied = stream.lend(&from, |from| {
                stream.lend_mut(&mut to, |mut to| {
                    to.copy_from(from, &stream)?;
                    to.reborrow().slice(..7)?.fill_bytes(0, &other)?;
                    Ok(to.len())
                })
            });
            assert_eq!(copied.unwrap(), n);
            theirs.memset_zeros(&mut to.slice_mut(7..9)).unwrap();
            assert_eq!(theirs.clone_dtoh(&to).unwrap(), [vec![0; 9], vec![3; n - 9]].concat());
            {
                let part = from.slice(5..);
                assert_eq!(stream.lend(&part, |part| part.download()).unwrap(), vec![3; n - 5]);
                let e =
                    stream.capture(&from, |inner, from| inner.lend(*from, |_| Ok(()))).unwrap_err();
                assert!(matches!(e, Error::Capture { operation: "Stream::lend", .. }), "{e}");
            }
            // Owned, there and back.
            let mut buffer = Buffer::from_cudarc(&device, to).unwrap();
            buffer.view_mut().slice(..2).unwrap().fill_bytes(1, &other).unwrap();
            let mut graph = stream
                .capture(Some(buffer), |s, b| b.as_mut().unwrap().view_mut().fill_bytes(2, s))
                .unwrap();
            graph.launch(&other).unwrap();
            let mut slice = graph.state_mut().take().unwrap().into_cudarc(theirs).unwrap();
            assert!(matches!(graph.launch(&other), Err(Error::BufferDropped { .. })));
            theirs.memset_zeros(&mut slice.slice_mut(..1)).unwrap();
            assert_eq!(theirs.clone_dtoh(&slice).unwrap()[..2], [0, 0x0202_0202]);
            // Memory last written by the host, on the legacy stream.
            let mut written = device.alloc::<u32>(n).unwrap();
            written.view_mut().copy_from_host(&vec![5; n]).unwrap();
            let mut slice = written.into_cudarc(theirs).unwrap();
            theirs.memset_zeros(&mut slice.slice_mut(..1)).unwrap();
            assert_eq!(theirs.clone_dtoh(&slice).unwrap(), [vec![0], vec![5; n - 1]].concat());
        }
    };
    // First all of cudarc's work is on the default stream, which it does not track; then it is
    // tracked.
    check(&context.default_stream());
    check(&stream_of(&context));
    assert!(context.check_err().is_ok());
}

/// PTX as `cargo xtask ptx --crate` would make it of `counts_up`, or other PTX.
fn ptx_of(name: &str, target: u32, pointer: &str, threads: u32) -> String {
    format!(
        ".version 7.8\n.target sm_{target}\n.address_size 64\n\
         .visible .entry {name}(\n\t.param .u32 {name}_param_0,\n\t\
         .param {pointer} {name}_param_1\n)\n\
         .maxntid {threads}, 1, 1\n.minnctapersm 1\n{{\n\tret;\n}}\n"
    )
}

#[test]
fn kernels_of_other_crates() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut numbers = device.upload(&[1u32; 64]).unwrap();
        // SAFETY: 64 numbers.
        let mut launch = || unsafe {
            let numbers = numbers.view_mut().arg("numbers", &stream).unwrap();
            counts_up::launch(&stream, 1, 64, numbers)
        };
        let is_gpu = device.kind() == DeviceKind::Cuda;
        assert_eq!(matches!(launch(), Err(Error::UnknownKernel { kernel: "counts_up" })), is_gpu);
        let [for_75, for_90] = [75, 90].map(|target| ptx_of("counts_up", target, ".u64", 64));
        for _ in 0..2 {
            device.load_kernels(&[(75, &for_75), (90, &for_90)]).unwrap();
            launch().unwrap();
        }
        // Names are unique; nothing that is refused is loaded.
        let both =
            [75, 90].map(|t| ptx_of("mine", t, ".u64", 32) + &ptx_of("counts_up", t, ".u64", 32));
        let e = device.load_kernels(&[(75, &both[0]), (90, &both[1])]).unwrap_err();
        assert_eq!(e.to_string(), "a kernel named `counts_up` is already loaded");
        let again = [75, 90].map(|t| ptx_of("counts_up", t, ".u64", 32));
        assert!(matches!(
            device.load_kernels(&[(75, &again[0]), (90, &again[1])]),
            Err(Error::KernelExists { .. })
        ));
        let mine = [75, 90].map(|t| ptx_of("mine", t, ".u64", 32));
        device.load_kernels(&[(75, &mine[0]), (90, &mine[1])]).unwrap();
        for text in
            ["", "text", ".visible .entry half(", ".visible .entry odd(\n.param .f16 x\n)\n{}"]
        {
            assert!(
                matches!(
                    device.load_kernels(&[(75, text)]),
                    Err(Error::Setting { field: "ptx", .. })
                ),
                "{text:?}"
            );
        }
        match device.load_kernels(&[(9999, &mine[1])]) {
            Err(e @ Error::NoPtx { least: 9999, .. }) if is_gpu => {
                assert!(e.to_string().ends_with("the PTX needs 999.9 or later"), "{e}")
            }
            other => assert!(!is_gpu && other.is_ok()),
        }
        // PTX of another version of the source is detected before it runs.
        for (parameter, threads) in [(".u32", 64), (".u64", 32), (".align 8 .b8 ", 64)] {
            let device = match device.kind() {
                DeviceKind::Cuda => Device::cuda(0).unwrap(),
                _ => break,
            };
            let stale = [75, 90].map(|t| {
                ptx_of("counts_up", t, parameter, threads)
                    .replace("b8  counts_up_param_1", "b8 p[24]")
            });
            device.load_kernels(&[(75, &stale[0]), (90, &stale[1])]).unwrap();
            let (stream, mut numbers) =
                (device.stream().unwrap(), device.upload(&[1u32; 64]).unwrap());
            let numbers = numbers.view_mut().arg("numbers", &stream).unwrap();
            // SAFETY: the launch is refused.
            let e = unsafe { counts_up::launch(&stream, 1, 64, numbers) }.unwrap_err();
            assert!(matches!(e, Error::KernelMismatch { kernel: "counts_up", .. }), "{e}");
        }
    }
}

/// Tests koel's use of the driver without a GPU: runs this program again with a stand-in library
/// for the driver.
#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn the_driver_is_used_rightly() {
    if !can_stand_in() {
        return;
    }
    for test in [
        "buffers_keep_what_they_are_given",
        "streams_follow_each_other_over_a_buffer",
        "ranges_and_lengths_are_checked",
        "too_much_memory_is_an_error_with_the_numbers",
        "no_gpu_is_not_the_end",
        "a_graph_does_again_what_was_recorded",
        "what_waits_is_no_part_of_a_graph",
        "a_graph_knows_when_a_buffer_is_gone",
        "a_graph_may_have_several_streams",
        "raw_addresses_are_views",
        "other_libraries_streams_are_used",
        "cudarcs_slices_go_in_and_out",
        "kernels_of_other_crates",
    ] {
        run_with_stand_in(test, &[("KOEL_TEST_DEVICES", "cuda")]);
    }
    // No pinned memory, room for small slots only, and room for all.
    for pinned in ["0", "3000000", "100000000"] {
        let settings = [("KOEL_TEST_DEVICES", "cuda"), ("STAND_IN_PINNED", pinned)];
        run_with_stand_in("large_copies_arrive", &settings);
    }
    // Drivers support early starts in graphs since 12.3.
    for (version, early) in [("12020", "0"), ("12030", "1")] {
        let settings = [("STAND_IN_VERSION", version), ("STAND_IN_EARLY", early)];
        run_with_stand_in("a_kernel_that_starts_early_in_a_graph", &settings);
    }
    for (settings, says) in [
        (("STAND_IN_DEVICES", "0"), "no CUDA device 0: the driver lists 0"),
        (
            ("STAND_IN_VERSION", "11040"),
            "the CUDA driver is too old: it supports CUDA 11.4, koel's kernels need 11.8 or later",
        ),
        (
            ("STAND_IN_CAPABILITY", "70"),
            "Stand-in GPU has compute capability 7.0, koel's kernels need 7.5 or later",
        ),
        (("STAND_IN_CAPABILITY", "75"), "Stand-in GPU, then: done"),
        (("STAND_IN_CAPABILITY", "103"), "Stand-in GPU, then: done"),
        (("STAND_IN_CAPABILITY", "80"), "Stand-in GPU, then: done"),
        (("STAND_IN_MACHINE_CODE", "0"), "Stand-in GPU, then: done"),
        (
            ("STAND_IN_FAULT", "random_sectors"),
            "a kernel failed on Stand-in GPU: CUDA_ERROR_ILLEGAL_ADDRESS: said by the stand-in \
             (last launches: random_sectors)",
        ),
        (
            ("STAND_IN_MEMORY", "1000"),
            "out of memory on Stand-in GPU: 2048 bytes requested, 1000 free",
        ),
    ] {
        let text = run_with_stand_in("a_launch_in_words", &[settings]);
        assert!(text.contains(says), "{settings:?}: {text}");
    }
}

/// Drivers that are there and do not work: `best` falls back to the CPU or to the next GPU, and
/// gives the driver's words, as `cuda` does.
#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn drivers_that_do_not_work_are_passed_over() {
    if !can_stand_in() {
        return;
    }
    let failed = |call: &str, error: &str| {
        format!("the CUDA driver failed in {call}: {error}: said by the stand-in")
    };
    let other = |call: &str| failed(call, "CUDA_ERROR_OTHER");
    let cases = [
        ("cuInit=999", "no CUDA driver: cuInit failed: CUDA_ERROR_OTHER: said by".into()),
        ("cuInit=803", "no CUDA driver: cuInit failed: CUDA_ERROR_OTHER: said by".into()),
        ("cuInit=3", "no CUDA driver: cuInit failed: CUDA_ERROR_OTHER: said by".into()),
        ("cuInit=100", "no CUDA device 0: the driver lists 0".into()),
        ("cuDriverGetVersion=34", other("cuDriverGetVersion")),
        ("cuDeviceGetCount=3", other("cuDeviceGetCount")),
        ("cuDeviceGet=101", other("cuDeviceGet")),
        ("cuDeviceGetName=101", other("cuDeviceGetName")),
        ("cuDeviceGetAttribute=101", other("cuDeviceGetAttribute")),
        ("cuDevicePrimaryCtxRetain=46", other("cuDevicePrimaryCtxRetain")),
        (
            "cuDevicePrimaryCtxRetain=2",
            failed("cuDevicePrimaryCtxRetain", "CUDA_ERROR_OUT_OF_MEMORY"),
        ),
        ("cuCtxSetCurrent=201", other("cuCtxSetCurrent")),
        ("cuMemPoolSetAttribute=801", other("cuMemPoolSetAttribute")),
        ("cuStreamCreate=2", failed("cuStreamCreate", "CUDA_ERROR_OUT_OF_MEMORY")),
        ("cuMemAllocAsync=801", other("cuMemAllocAsync")),
        ("cuMemAllocAsync=2", "out of memory on Stand-in GPU: 32 bytes requested".into()),
        ("cuModuleLoadData=209", other("cuModuleLoadData")),
        ("cuModuleGetFunction=500", failed("cuModuleGetFunction", "kernel `number_sectors`: CUDA")),
        ("cuLaunchKernelEx=719", "a kernel failed on Stand-in GPU: CUDA_ERROR_OTHER".into()),
        ("cuStreamSynchronize=214", "a kernel failed on Stand-in GPU: CUDA_ERROR_OTHER".into()),
    ];
    let reason_of = |reason: &str| reason.split(": CUDA: ").next().unwrap_or_default().to_string();
    for (fail, reason) in cases {
        let text = run_with_stand_in("the_best_device_in_words", &[("STAND_IN_FAIL", fail)]);
        let reason = reason_of(&reason);
        assert!(text.contains("Cpu because ") && text.contains(&reason), "{fail}: {text}");
        if !["cuStream", "cuMem", "cuModule", "cuLaunch"].iter().any(|call| fail.starts_with(call))
        {
            assert_eq!(text.matches(&reason).count(), 2, "{fail}: {text}");
        }
    }
    // The next GPU, and all of several.
    let two = ("STAND_IN_DEVICES", "2");
    let fail = [two, ("STAND_IN_FAIL", "cuDevicePrimaryCtxRetain:0=46")];
    let text = run_with_stand_in("the_best_device_in_words", &fail);
    assert!(
        text.contains("Cuda because CUDA device 0: the CUDA driver failed in cuDevice"),
        "{text}"
    );
    let fail = [two, ("STAND_IN_FAIL", "cuDevicePrimaryCtxRetain:0=46,cuDeviceGet:1=101")];
    let text = run_with_stand_in("the_best_device_in_words", &fail);
    let both =
        ["Cpu because CUDA device 0: ", "; CUDA device 1: the CUDA driver failed in cuDeviceGet:"];
    assert!(both.iter().all(|part| text.contains(part)), "{text}");
    let text = run_with_stand_in("the_best_device_in_words", &[("STAND_IN_CAPABILITY", "61")]);
    assert!(text.contains("Cpu because Stand-in GPU has compute capability 6.1"), "{text}");
}

/// Libraries of the driver's name that do not load, and such as lack functions: all that koel calls
/// are looked for before one is called.
#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn libraries_that_lack_functions_are_no_driver() {
    if !can_stand_in() {
        return;
    }
    let library = std::fs::read(stand_in().join("libcuda.so")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |bytes: &[u8], test, settings: &[(&str, &str)]| {
        std::fs::write(folder.path().join("libcuda.so"), bytes).unwrap();
        run_with_library(folder.path(), test, settings)
    };
    let in_words = |bytes: &[u8]| run(bytes, "the_best_device_in_words", &[]);
    // Names in the library's table of strings, each after a zero.
    let texts = library.split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let is_call = |name: &&str| {
        name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase()))
    };
    let names = texts.filter(is_call).collect::<std::collections::BTreeSet<_>>();
    assert!(names.len() > 50, "{names:?}");
    let without = |absent: &[&str]| {
        let mut library = library.clone();
        for name in absent {
            let name = format!("\0{name}\0");
            let places = library.windows(name.len()).enumerate();
            let places = places.filter(|(_, bytes)| *bytes == name.as_bytes()).map(|(at, _)| at);
            places.collect::<Vec<_>>().into_iter().for_each(|at| library[at + 1] = b'x');
        }
        library
    };
    let is_required = |name: &&str| {
        let text = in_words(&without(&[name]));
        let lacks = format!("no CUDA driver: libcuda lacks {name}");
        match text.matches(&lacks).count() {
            2 => true,
            0 if text.contains("Cuda because None") => false,
            _ => panic!("{name}: {text}"),
        }
    };
    let (required, others): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_required);
    assert!(required.len() > 40, "{required:?}");
    // Nothing else is called.
    let bare = without(&others);
    for test in ["buffers_keep_what_they_are_given", "large_copies_arrive", "a_launch_in_words"]
        .into_iter()
        .chain(["a_graph_does_again_what_was_recorded", "a_graph_may_have_several_streams"])
        .chain(["raw_addresses_are_views", "kernels_of_other_crates"])
    {
        run(&bare, test, &[("KOEL_TEST_DEVICES", "cuda")]);
    }
    // An error is told without the functions that describe it.
    let text = run(&bare, "the_best_device_in_words", &[("STAND_IN_FAIL", "cuInit=999")]);
    assert!(text.contains("no CUDA driver: cuInit failed: CUDA_ERROR_UNKNOWN\n"), "{text}");
    for (bytes, reason) in [
        (&b"this is not a library"[..], "file too short"),
        (&[b"INPUT(elsewhere.so)".as_slice(), &[b'\n'; 4096]].concat(), "invalid ELF header"),
    ] {
        let text = in_words(bytes);
        assert!(text.contains("Cpu because no CUDA driver: ") && text.contains(reason), "{text}");
    }
}

/// Opens the best device and the first GPU, and prints the outcomes.
#[test]
#[ignore = "needs the libraries with which drivers_that_do_not_work_are_passed_over runs it"]
fn the_best_device_in_words() {
    if std::env::var_os("STAND_IN").is_none() {
        println!("skipped: no stand-in, whose words are wanted");
        return;
    }
    let best = Device::best().unwrap();
    println!("{:?} because {}", best.kind(), best.fallback_reason().unwrap_or("None"));
    match Device::cuda(0) {
        Ok(device) => println!("{}", device.name()),
        Err(e) => println!("{e}"),
    }
    // The device that was chosen works.
    if best.kind() == DeviceKind::Cpu {
        let map = koel::Map::build(&best, &[3u32, 5], &[30u32, 50]).unwrap();
        assert_eq!(map.get(&[5, 6]).unwrap(), [Some(50), None]);
    }
}

/// For the stand-in, which checks the launch attributes of captured kernels.
#[test]
#[ignore = "needs the stand-in with which the_driver_is_used_rightly runs it"]
fn a_kernel_that_starts_early_in_a_graph() {
    if std::env::var_os("STAND_IN_EARLY").is_none() {
        println!("skipped: no stand-in, which checks what the launch says");
        return;
    }
    let device = Device::cuda(0).unwrap();
    let stream = device.stream().unwrap();
    let state = (
        device.upload(&[0u64; 8]).unwrap(),
        device.upload(&[0u32; 8]).unwrap(),
        device.alloc(8).unwrap(),
    );
    let mut graph = stream
        .capture(state, |stream, (table, keys, values)| {
            let (slots, keys) =
                (table.view().arg("slots", stream)?, keys.view().arg("keys", stream)?);
            let values = values.view_mut().arg("values", stream)?;
            let table = MapRef::<Narrow> {
                shape: Shape { partitions: 1, buckets: 2 },
                stash_bits: 0,
                slots,
                stash: slots,
                header: keys,
                layout: PhantomData,
            };
            // SAFETY: eight queries and answers, two buckets, a stash and a header of sufficient
            // length.
            unsafe { map_find_or::launch(stream, 1, table, 8, 7, keys, values) }
        })
        .unwrap();
    graph.launch(&stream).unwrap();
    fn is_send<T: Send>(_: &T) {}
    is_send(&graph);
}

/// Opens the GPU, launches a kernel and prints the outcome. For the stand-in, which does not run
/// it.
#[test]
#[ignore = "needs the stand-in with which the_driver_is_used_rightly runs it"]
fn a_launch_in_words() {
    if std::env::var_os("STAND_IN").is_none() {
        println!("skipped: no stand-in, whose words are wanted");
        return;
    }
    let go = || {
        let device = Device::cuda(0)?;
        let stream = device.stream()?;
        let (table, mut out) = (device.alloc::<u64>(256)?, device.alloc::<u32>(256)?);
        let table = table.view().arg("table", &stream)?;
        let out = out.view_mut().arg("out", &stream)?;
        // SAFETY: 64 sectors are read and 256 words written.
        unsafe { random_sectors::launch(&stream, 1, 256, 64, 7, table, out) }?;
        stream.synchronize()?;
        Ok::<_, Error>(device.name())
    };
    match go() {
        Ok(name) => println!("{name}, then: done"),
        Err(e) => println!("{e}"),
    }
}
