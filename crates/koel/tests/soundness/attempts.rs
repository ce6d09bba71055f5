//! What safe code may try, and the result: an error or a panic, never access to invalid memory.
#![forbid(unsafe_code)]
use koel::{Device, DeviceKind, Error, Graph, Map, MultiMap, Set, Set128};
use koel_simt::{Buf, In};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

/// The CPU, the executor, and a GPU if there is one; Miri cannot run the executor.
fn devices() -> Vec<Device> {
    let cpu = Device::cpu_with_threads(2).unwrap();
    if cfg!(miri) {
        vec![cpu]
    } else {
        [cpu, Device::executor(7)].into_iter().chain(Device::cuda(0)).collect()
    }
}
/// Returns the message of a panic, which must occur.
fn panic_of<R>(run: impl FnOnce() -> R) -> String {
    let payload =
        catch_unwind(AssertUnwindSafe(run)).err().expect("safe code looked through a handle");
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}
fn refused<R>(run: impl FnOnce() -> R) {
    let message = panic_of(run);
    assert!(message.contains("outside of a launch"), "{message}");
}

pub(crate) fn handles_of_tables_outlive_them() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let map = Map::build(&device, &[3u32, 5, 7], &[1u32, 2, 3]).unwrap();
        let set = Set::build(&device, &[3u64, 5, 7]).unwrap();
        let rows = Set128::build(&device, &[3u128, 5, 7]).unwrap();
        let multi = MultiMap::build(&device, &[3u32, 5, 5], &[1u32, 2, 3]).unwrap();
        let (of_map, of_set) = (map.table(&stream).unwrap(), set.table(&stream).unwrap());
        let (of_rows, of_multi) = (rows.rows(&stream).unwrap(), multi.table(&stream).unwrap());
        // Not even while the map exists: a kernel might be writing it.
        refused(|| of_map.get(5));
        drop((map, set, rows, multi));
        refused(|| of_map.get(5));
        refused(|| of_map.contains(5));
        refused(|| of_set.contains(5));
        refused(|| of_rows.row(5));
        refused(|| of_multi.places(5));
        refused(|| of_multi.for_each(5, |_| ()));
    }
}

pub(crate) fn handles_of_arrays_are_looked_through_by_kernels_alone() {
    for address in [0x1000, 0, u64::MAX - 3] {
        refused(|| In::<u32>::from_device(address, 1).get(0));
        refused(|| In::<u32>::from_device(address, usize::MAX).get_stream(7));
        refused(|| Buf::<u64>::from_device(address, 1).load(0));
        refused(|| Buf::<u64>::from_device(address, 1).store(0, 1));
        refused(|| Buf::<u32>::from_device(address, 1).fetch_add(0, 1));
        refused(|| Buf::<u32>::from_device(address, 1).cas(0, 1, 2));
        refused(|| Buf::<u32>::from_device(address, 1).load_acquire(0));
    }
    // So that views of four elements are aligned, wherever the memory lies.
    #[repr(align(16))]
    struct Aligned([u32; 4]);
    let mut data = Box::new(Aligned([1; 4]));
    let (read, write) = (In::new(&data.0), Buf::new(&mut data.0));
    refused(|| write.store(1, 9));
    refused(|| write.x4().store(0, Default::default()));
    refused(|| read.get(1));
    drop(data);
    refused(|| read.get(1));
    refused(|| write.store_release(1, 9));
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = device.upload(&[1u32, 2, 3]).unwrap();
        let write = buffer.view_mut().arg("out", &stream).unwrap();
        let read = buffer.view().arg("in", &stream).unwrap();
        if let Some(slice) = buffer.view().host() {
            refused(|| write.store(0, 9));
            assert_eq!(slice, [1, 2, 3]);
        }
        drop(buffer);
        refused(|| write.store(0, 9));
        refused(|| read.get(0));
    }
}

/// Threads and shared memory are also available to kernels only.
pub(crate) fn nothing_waits_outside_of_a_kernel() {
    let thread = koel_simt::host::native_thread(0, 0, 32, 1);
    for message in [panic_of(|| thread.barrier()), panic_of(|| thread.shared().array::<u32>(4))] {
        assert!(message.contains("executor"), "{message}");
    }
    assert!(!panic_of(|| thread.warp().ballot(true)).is_empty());
}

/// A slice of a buffer escapes the closure that records a write to the buffer.
pub(crate) fn slices_do_not_leave_a_capture() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let buffer: &'static mut _ = Box::leak(Box::new(device.upload(&[1u32; 16]).unwrap()));
        let (view, mut left) = (Some(buffer.view_mut()), None::<&'static [u32]>);
        let slices = Arc::new(AtomicUsize::new(0));
        let seen = slices.clone();
        let graph = stream.capture((view, None::<&'static [u32]>), move |stream, (view, slot)| {
            let Some(mut view) = view.take() else { return Ok(()) };
            view.fill_bytes(9, stream)?;
            let view: &'static _ = Box::leak(Box::new(view));
            *slot = view.view().host();
            seen.fetch_add(slot.is_some() as usize, SeqCst);
            Ok(())
        });
        let mut graph = graph.unwrap();
        graph.launch(&stream).unwrap();
        left = left.or(graph.state().1);
        let before = left.map(<[u32]>::to_vec);
        graph.launch(&stream).unwrap();
        assert_eq!(left.map(<[u32]>::to_vec), before, "a slice changed while it was lent");
        if device.kind() == DeviceKind::Executor {
            assert_eq!(slices.load(SeqCst), 0, "a buffer under capture was lent to the host");
        }
    }
}

/// Another thread moves a buffer out of a graph's state and drops it while the graph is launched.
pub(crate) fn buffers_stay_until_a_launch_has_them() {
    let device = Device::executor(3);
    let (mut launched, mut refused) = (0, 0);
    // So large that each is a separate mapping: an access after it is freed ends the process.
    const LEN: usize = 1 << 20;
    for round in 0..40 {
        let stream = device.stream().unwrap();
        let state = (device.upload(&vec![7u32; LEN]).unwrap(), device.alloc::<u32>(LEN).unwrap());
        let mut graph: Graph<_> = stream
            .capture(state, |stream, (from, to)| {
                (0..8).try_for_each(|_| to.view_mut().copy_from(from.view(), stream))
            })
            .unwrap();
        let from = std::mem::replace(&mut graph.state_mut().0, device.alloc::<u32>(1).unwrap());
        let (begin, done) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                begin.wait();
                std::thread::sleep(std::time::Duration::from_micros(round * 100));
                drop(from);
                done.store(true, SeqCst);
            });
            begin.wait();
            loop {
                match graph.launch(&stream) {
                    Ok(()) => launched += 1,
                    Err(Error::BufferDropped { bytes }) if bytes == 4 * LEN => break refused += 1,
                    Err(e) => panic!("{e}"),
                }
            }
        });
        assert!(done.load(SeqCst));
    }
    assert!(launched > 0 && refused == 40, "{launched} {refused}");
}

/// Readers on many threads, interleaved with a writer.
pub(crate) fn readers_and_a_writer() {
    for device in devices() {
        let keys = (0..if cfg!(miri) { 200 } else { 3000 }).map(|i| i * 7).collect::<Vec<u32>>();
        let mut map = Map::build(&device, &keys, &keys).unwrap();
        for round in 1..4u32 {
            std::thread::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let found = map.get(&keys).unwrap();
                        assert!(
                            found
                                .iter()
                                .zip(&keys)
                                .all(|(f, &k)| *f == Some(k.wrapping_mul(round)))
                        );
                    });
                }
            });
            let values = keys.iter().map(|k| k.wrapping_mul(round + 1)).collect::<Vec<_>>();
            map = Map::build(&device, &keys, &values).unwrap();
        }
    }
}

/// Sub-views of a buffer stay inside it.
pub(crate) fn slices_are_inside() {
    let device = Device::cpu().unwrap();
    let mut buffer = device.upload(&[1u32, 2, 3]).unwrap();
    for (start, end) in [(0, 4), (4, 4), (2, 1), (usize::MAX, usize::MAX), (0, usize::MAX)] {
        assert!(matches!(
            buffer.view().slice(start..end),
            Err(Error::Setting { field: "range", .. })
        ));
        assert!(buffer.view_mut().slice(start..end).is_err());
    }
    assert!(buffer.view().slice(..=usize::MAX).is_err());
    assert!(buffer.view_mut().copy_from_host(&[1]).is_err());
    assert!(buffer.view().copy_to_host(&mut [0; 4]).is_err());
    assert!(device.alloc::<u64>(usize::MAX / 4).is_err());
}
