//! What safe code may try, and the result: an error or a panic, never access to invalid memory.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the name of each attempt says what it tries")]
use koel::primitives::Bins;
use koel::{
    Buffer, Device, DeviceKind, Error, Graph, Map, MapBuilder, MultiMap, Set, Set128, Stream,
};
use koel_simt::{Buf, In};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};

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

pub fn handles_of_tables_outlive_them() {
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

pub fn handles_of_arrays_are_looked_through_by_kernels_alone() {
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
pub fn nothing_waits_outside_of_a_kernel() {
    let thread = koel_simt::host::native_thread(0, 0, 32, 1);
    for message in [panic_of(|| thread.barrier()), panic_of(|| thread.shared().array::<u32>(4))] {
        assert!(message.contains("executor"), "{message}");
    }
    assert!(!panic_of(|| thread.warp().ballot(true)).is_empty());
}

/// A slice of a buffer escapes the closure that records a write to the buffer.
pub fn slices_do_not_leave_a_capture() {
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
pub fn buffers_stay_until_a_launch_has_them() {
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

/// A way to use a buffer that is shared with a graph. Returns words that it has read, if any.
type Attempt = fn(&mut Buffer<u32>, &Stream) -> Option<Vec<u32>>;
const LEN: usize = 1 << 18;
const STEPS: usize = 8;
/// Words that kernels look at, which are slow on the executor.
const FEW: usize = 1 << 10;
const ATTEMPTS: &[(&str, Attempt)] = &[
    ("download", |buffer, _| buffer.download().ok()),
    ("download of a part", |buffer, _| buffer.view().slice(7..).unwrap().download().ok()),
    ("copy_to_host", |buffer, _| {
        let mut words = vec![0; LEN];
        buffer.view().copy_to_host(&mut words).ok().map(|()| words)
    }),
    ("copy on the device", |buffer, stream| {
        let mut copy = stream.device().alloc(LEN).unwrap();
        copy.view_mut().copy_from(buffer.view(), stream).unwrap();
        copy.download().ok()
    }),
    ("upload", |buffer, _| {
        buffer.view_mut().copy_from_host(&[0x0303_0303; LEN]).unwrap();
        None
    }),
    ("fill", |buffer, stream| {
        buffer.view_mut().fill_bytes(4, stream).unwrap();
        None
    }),
    ("copy from a buffer", |buffer, stream| {
        let from = stream.device().upload(&[0x0505_0505; LEN]).unwrap();
        buffer.view_mut().copy_from(from.view(), stream).unwrap();
        None
    }),
    ("slices", |buffer, _| {
        let mut view = buffer.view_mut();
        if let Some(slice) = view.host_mut() {
            slice.fill(0x0606_0606);
        }
        buffer.view().host().map(<[u32]>::to_vec)
    }),
    ("a kernel", |buffer, stream| {
        let bins = Bins::Bits { shift: 24, bits: 8 };
        let few = buffer.view().slice(..FEW).unwrap();
        let counts = koel::primitives::histogram(stream, few, bins).unwrap();
        let seen = (0..).zip(counts).flat_map(|(byte, count)| vec![byte; count as usize]);
        Some(seen.map(|byte: u32| byte * 0x0101_0101).collect())
    }),
    ("Debug", |buffer, _| {
        assert!(format!("{buffer:?} {:?}", buffer.view()).contains("Buffer<u32>"));
        None
    }),
];

/// Another thread uses a buffer while a graph that writes it is launched: each use comes before a
/// launch or after it.
fn use_during_launches(
    launch: impl FnMut() + Send,
    mut shared: impl FnMut(Attempt) -> Option<Vec<u32>>,
) {
    let (mut launch, begin, done) = (launch, Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            while !done.load(SeqCst) {
                launch();
            }
        });
        begin.wait();
        for (what, attempt) in ATTEMPTS.iter().cycle().take(4 * ATTEMPTS.len()) {
            let words = shared(*attempt).unwrap_or_default();
            let mixed = words.iter().position(|word| *word != words[0]);
            if let Some(at) = mixed {
                done.store(true, SeqCst);
                panic!("{what}: {:#x} and {:#x} at {at}", words[0], words[at]);
            }
            // What lies between two steps of the graph is seen by nobody.
            if words.first() == Some(&0x0101_0101) {
                done.store(true, SeqCst);
                panic!("{what} saw half of a launch");
            }
        }
        done.store(true, SeqCst);
    });
}
/// Returns whether a graph records these buffers instead of keeping the closure, which borrows.
fn records(device: &Device) -> bool {
    device.kind() != DeviceKind::Cpu
}
/// Records [`STEPS`] steps. A thread that launches one graph after the other is then always within
/// one, and often between two of its steps, even where threads share a core.
fn writes_often(stream: &Stream, buffer: &mut Buffer<u32>) -> koel::Result<()> {
    for _ in 0..STEPS {
        buffer.view_mut().fill_bytes(1, stream)?;
        buffer.view_mut().fill_bytes(2, stream)?;
    }
    Ok(())
}
/// Buffers leave the state of a graph by `replace`, `swap` and `take`.
pub fn buffers_that_left_a_graph_are_kept_apart() {
    for device in devices().into_iter().filter(records) {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let buffer = || device.upload(&[0x0707_0707u32; LEN]).unwrap();
        let mut graph = stream
            .capture((buffer(), buffer(), Some(buffer())), |stream, (a, b, c)| {
                [Some(a), Some(b), c.as_mut()]
                    .into_iter()
                    .flatten()
                    .try_for_each(|buffer| writes_often(stream, buffer))
            })
            .unwrap();
        let (a, b, c) = graph.state_mut();
        let mut left =
            [std::mem::replace(a, device.alloc(1).unwrap()), buffer(), c.take().unwrap()];
        std::mem::swap(b, &mut left[1]);
        let mut turn = 0;
        use_during_launches(
            || graph.launch(&stream).unwrap(),
            |attempt| {
                turn += 1;
                attempt(&mut left[turn % 3], &other)
            },
        );
    }
}

/// A graph's state shares its buffer, so that it never leaves.
pub fn buffers_that_a_graph_shares_are_kept_apart() {
    for device in devices().into_iter().filter(records) {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let shared = Arc::new(Mutex::new(device.upload(&[0x0707_0707u32; LEN]).unwrap()));
        let mut graph = stream
            .capture(shared.clone(), |stream, buffer| {
                writes_often(stream, &mut buffer.lock().unwrap())
            })
            .unwrap();
        use_during_launches(
            || graph.launch(&stream).unwrap(),
            |attempt| attempt(&mut shared.lock().unwrap(), &other),
        );
    }
}

/// A table leaves the state of the graph that rebuilds it, and is looked up, copied, saved,
/// exported and updated meanwhile.
pub fn tables_that_left_a_graph_are_kept_apart() {
    for device in devices().into_iter().filter(|device| device.kind() == DeviceKind::Executor) {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let keys = (0..500u32).map(|i| i * 7).collect::<Vec<_>>();
        let mut builder = MapBuilder::<u32, u32>::new(&device, Default::default()).unwrap();
        let pairs = device.upload(&keys).unwrap();
        let map = builder.build(&stream, pairs.view(), pairs.view()).unwrap();
        let mut graph = stream
            .capture((builder, Some(map), pairs), |stream, (builder, map, pairs)| {
                let Some(map) = map else { return Ok(()) };
                builder.rebuild(map, stream, pairs.view(), pairs.view())
            })
            .unwrap();
        graph.launch(&stream).unwrap();
        let mut map = graph.state_mut().1.take().unwrap();
        let all = |map: &Map<u32, u32>| {
            let found = map.get(&keys).unwrap();
            assert!(found.iter().zip(&keys).all(|(found, key)| *found == Some(*key)), "{found:?}");
        };
        let (begin, done) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                while !done.load(SeqCst) {
                    graph.launch(&stream).unwrap();
                    std::thread::yield_now();
                }
            });
            begin.wait();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for _ in 0..4 {
                    all(&map);
                    all(&map.to_device(&Device::cpu_with_threads(1).unwrap()).unwrap());
                    all(&map.to_device(&device).unwrap());
                    let mut file = std::io::Cursor::new(vec![]);
                    map.save_to(&mut file).unwrap();
                    all(&Map::load_bytes(&device, file.get_ref()).unwrap());
                    assert_eq!(map.len().unwrap(), keys.len());
                    assert_eq!(map.pairs().unwrap().len(), keys.len());
                    assert_eq!(map.join(&keys).unwrap().len(), keys.len());
                    map.insert_or_assign(&keys[..9], &keys[..9]).unwrap();
                    let mut builder = MapBuilder::new(&device, Default::default()).unwrap();
                    let pairs = device.upload(&keys).unwrap();
                    builder.rebuild(&mut map, &other, pairs.view(), pairs.view()).unwrap();
                }
            }));
            done.store(true, SeqCst);
            outcome.unwrap();
        });
    }
}

/// Readers on many threads, interleaved with a writer.
pub fn readers_and_a_writer() {
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
pub fn slices_are_inside() {
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
