//! Frames reuse the memory allocated by the first one.

mod intersect_scenes;

use intersect_scenes::{Random, Scan, Shape, scan};
use koel::{Device, DeviceKind};
use koel_spatial::Grid;
use koel_spatial::intersect::{Intersector, Method, Pose};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Bytes of host memory in use by all threads.
static HELD: AtomicI64 = AtomicI64::new(0);
/// Number of buffers allocated, recognized by their host alignment.
static BUFFERS: AtomicI64 = AtomicI64::new(0);
struct Counting;
// SAFETY: forwards to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as i64, Relaxed);
        BUFFERS.fetch_add((layout.align() == 128) as i64, Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(p, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;
/// Serializes the tests: the counters cover the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Allowed fluctuation, for queues of threads.
const SLACK: i64 = 16 << 10;

/// Rotates B and moves it through A once in `frames` frames, half of them recorded. Reads the
/// labels of every tenth frame.
fn animate(device: &Device, points: usize, side: u32, frames: usize) {
    let (mut random, grid) =
        (Random(5), Grid::new([-1.6; 3], 3.2 / f64::from(side), side).unwrap());
    let noise = Scan { noise: 0.3, degrees: 10.0, ..Scan::default() };
    let [a, b] = [Shape::Sphere(0.6), Shape::Torus { major: 0.55, minor: 0.22 }]
        .map(|shape| scan(shape, points, noise, grid.voxel_size(), &mut random).cloud);
    let mut intersector = Intersector::new(device, &a, &b, grid, Method::default()).unwrap();
    let pose = |i: usize| {
        let t = i as f64 / frames as f64;
        Pose::turned([1.0, 0.5, 0.2], 12.0 * t, [0.0; 3], [1.4 - 2.8 * t, 0.1, 0.0])
    };
    let (mut labels, mut before) = (vec![], None);
    let mut counted = |i: usize, warm: usize| {
        let held = (
            HELD.load(Relaxed),
            BUFFERS.load(Relaxed),
            device.memory().unwrap().map(|(free, _)| free),
        );
        if i == warm {
            before = Some(held);
        } else if let Some(before) = before.filter(|_| i > warm) {
            assert_eq!(
                (held.1, held.2),
                (before.1, before.2),
                "buffers, free memory of the device: frame {i}"
            );
            let grown = held.0 - before.0;
            assert!(
                grown <= SLACK,
                "frame {i} on {device:?}: {grown} bytes more than after frame {warm}"
            );
        }
    };
    let (bytes, warm) = (intersector.bytes(), 2 + frames / 20);
    for i in 0..frames / 2 {
        intersector.frame(&pose(i), &Pose::IDENTITY).unwrap();
        if i % 10 == 0 {
            labels.clear();
            intersector.append_point_labels(&mut labels).unwrap();
            intersector.timings().unwrap();
        }
        counted(i, warm);
    }
    let mut recorded = intersector.record().unwrap();
    for i in frames / 2..frames {
        recorded.frame(&pose(i), &Pose::IDENTITY).unwrap();
        if i % 10 == 0 {
            labels.clear();
            recorded.intersector_mut().append_point_labels(&mut labels).unwrap();
            recorded.milliseconds().unwrap();
        }
        counted(i, frames / 2 + warm);
    }
    assert_eq!((labels.len(), recorded.intersector().bytes()), (2 * points, bytes));
}

#[test]
fn frames_take_no_buffers() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    animate(&Device::cpu_with_threads(2).unwrap(), 2000, 32, 400);
    animate(&Device::executor(1), 500, 16, 24);
}

/// Runs on this machine's best device.
#[test]
#[ignore = "half a minute on a CPU if optimized; short form: `frames_take_no_buffers`"]
fn ten_thousand_frames_take_no_more_memory() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let device = Device::best().unwrap();
    let (points, side) =
        if device.kind() == DeviceKind::Cuda { (160_000, 128) } else { (4000, 32) };
    animate(&device, points, side, 10_000);
}
