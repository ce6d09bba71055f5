//! Devices, streams, events and buffers: the same on a GPU, on the CPU and on the test executor.
//!
//! Work is put on a [`Stream`] in order. On a GPU it runs later, and only reading a result waits
//! for it; on the host it has run when the call returns. A [`Buffer`] belongs to one device; used
//! on several streams, it makes the later stream wait for the earlier one.
//!
//! Work that is done again and again is captured once, as a [`Graph`]. Kernels of your own crate
//! are loaded by [`Device::load_kernels`]. Memory and streams of other libraries are used where
//! they are: [`View::from_raw`], `Stream::from_raw`, and the types of `cudarc`.
mod buffer;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "executor")]
mod failing;
pub(crate) mod graph;
#[cfg(feature = "cuda")]
mod images;
#[cfg(feature = "cuda")]
mod interop;
pub(crate) mod memory;
mod modules;
mod users;

use crate::error::{Error, Result};
pub use buffer::{Buffer, Element, Staged, View, ViewMut};
pub use cpu::CpuOptions;
#[cfg(feature = "cuda")]
pub use cuda::CudaOptions;
/// The release of cudarc whose types koel takes and gives.
#[cfg(feature = "cuda")]
pub use cudarc;
#[cfg(feature = "cuda")]
use cudarc::driver::result::stream::StreamKind;
#[cfg(feature = "executor")]
pub use failing::{allocation_failed, fail_allocation_after};
pub use graph::Graph;
use graph::{Capture, Step};
#[cfg(feature = "executor")]
use koel_simt::Exec;
use koel_simt::{Backend, DeviceArg, KernelBody, KernelSpec};
pub use memory::Pages;
use std::fmt;
#[cfg(feature = "executor")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once};
use std::time::Instant;

/// Where tables are built and queried. A cheap handle: clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backing: Backing,
    fallback: Option<String>,
    /// Kernels of other crates.
    modules: Mutex<Vec<modules::Module>>,
}
enum Backing {
    Cpu(cpu::Cpu),
    #[cfg(feature = "executor")]
    Executor(Executor),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Cuda),
}
/// The executor's settings; each launch gets a seed of its own.
#[cfg(feature = "executor")]
struct Executor {
    seed: u64,
    launches: AtomicU64,
    configure: Box<dyn Fn(&mut Exec) + Send + Sync>,
}
#[cfg(feature = "executor")]
impl Executor {
    /// # Safety
    /// As `Backend::launch`.
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        args: &[DeviceArg],
        body: KernelBody<'_>,
    ) -> Result<()> {
        let launch = self.launches.fetch_add(1, Relaxed);
        let mut exec =
            Exec::new(self.seed.wrapping_add(launch.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        (self.configure)(&mut exec);
        // SAFETY: the caller's.
        Ok(unsafe { exec.launch(spec, grid, shared, args, body) }?)
    }
}

/// What a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// The host's cores, at native speed.
    Cpu,
    /// The test executor (feature `executor`): the GPU's kernels and launches, on the host,
    /// checked.
    Executor,
    /// A GPU of NVIDIA.
    Cuda,
}

impl Device {
    /// The first GPU if a driver finds one that koel's kernels run on, else this machine's CPU.
    ///
    /// Falling back is said once, as a `tracing` warning;
    /// [`fallback_reason`](Self::fallback_reason) tells why.
    pub fn best() -> Result<Device> {
        match Device::cuda(0) {
            Err(
                e @ (Error::NoDriver { .. }
                | Error::NoSuchDevice { .. }
                | Error::DriverTooOld { .. }
                | Error::DeviceTooOld { .. }),
            ) => {
                static SAID: Once = Once::new();
                SAID.call_once(|| tracing::warn!("no GPU, using the CPU: {e}"));
                let cpu = cpu::Cpu::new(CpuOptions::default())?;
                Ok(Device::of(Backing::Cpu(cpu), Some(e.to_string())))
            }
            other => other,
        }
    }
    /// This machine's CPU, with as many threads as it has cores, and huge pages where the system
    /// grants them.
    pub fn cpu() -> Result<Device> {
        Device::cpu_with(CpuOptions::default())
    }
    /// This machine's CPU with a given number of threads, at least one.
    pub fn cpu_with_threads(threads: usize) -> Result<Device> {
        Device::cpu_with(CpuOptions { threads: Some(threads), ..CpuOptions::default() })
    }
    /// This machine's CPU, with these threads and pages.
    ///
    /// ```
    /// use koel::device::{CpuOptions, Pages};
    ///
    /// let device = koel::Device::cpu_with(CpuOptions { threads: Some(2), pages: Pages::System })?;
    /// assert_eq!(device.parallelism(), 2);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: no threads, or more than the system starts.
    pub fn cpu_with(options: CpuOptions) -> Result<Device> {
        Ok(Device::of(Backing::Cpu(cpu::Cpu::new(options)?), None))
    }
    /// Pages of host memory.
    pub(crate) fn pages(&self) -> Pages {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.pages(),
            #[cfg(any(feature = "cuda", feature = "executor"))]
            _ => Pages::default(),
        }
    }
    /// GPU number `ordinal`, as the CUDA driver counts.
    ///
    /// Opens the driver and the device's primary context: 0.2 to 0.4 s in a process that has not.
    /// Kernels are loaded when they are first launched.
    ///
    /// Errors: no driver, no such device, driver or device too old.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: usize) -> Result<Device> {
        Device::cuda_with(ordinal, CudaOptions::default())
    }
    /// GPU number `ordinal`, with these options. Errors: as [`cuda`](Self::cuda).
    #[cfg(feature = "cuda")]
    pub fn cuda_with(ordinal: usize, options: CudaOptions) -> Result<Device> {
        Ok(Device::of(Backing::Cuda(cuda::Cuda::new(ordinal, options)?), None))
    }
    /// GPU number `ordinal`: koel was built without the feature `cuda`, so this is an error.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(_ordinal: usize) -> Result<Device> {
        Err(Error::NoDriver { reason: "koel was built without the feature `cuda`".into() })
    }
    /// The test executor: everything runs as on a GPU, launch by launch, on the host, slowly, with
    /// every check on. The schedule follows from `seed`.
    #[cfg(feature = "executor")]
    pub fn executor(seed: u64) -> Device {
        Device::executor_with(seed, |_| ())
    }
    /// The test executor with other settings: `configure` is called for each launch.
    #[cfg(feature = "executor")]
    pub fn executor_with(
        seed: u64,
        configure: impl Fn(&mut Exec) + Send + Sync + 'static,
    ) -> Device {
        let executor =
            Executor { seed, launches: AtomicU64::new(0), configure: Box::new(configure) };
        Device::of(Backing::Executor(executor), None)
    }
    fn of(backing: Backing, fallback: Option<String>) -> Device {
        Device(Arc::new(Inner { backing, fallback, modules: Mutex::default() }))
    }

    /// What it is.
    pub fn kind(&self) -> DeviceKind {
        match &self.0.backing {
            Backing::Cpu(_) => DeviceKind::Cpu,
            #[cfg(feature = "executor")]
            Backing::Executor(_) => DeviceKind::Executor,
            #[cfg(feature = "cuda")]
            Backing::Cuda(_) => DeviceKind::Cuda,
        }
    }
    /// Whether its tables are built by kernels (a GPU, the executor) and not by native host code.
    pub(crate) fn runs_kernels(&self) -> bool {
        self.kind() != DeviceKind::Cpu
    }
    /// Whether its memory is the host's.
    fn is_host(&self) -> bool {
        self.kind() != DeviceKind::Cuda
    }
    /// Its name, for people.
    pub fn name(&self) -> String {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.name(),
            #[cfg(feature = "executor")]
            Backing::Executor(e) => format!("test executor (seed {})", e.seed),
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.name().into(),
        }
    }
    /// If [`best`](Self::best) had to take the CPU: why.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.0.fallback.as_deref()
    }
    /// Bytes of memory: free and in all. `None` on the host.
    pub fn memory(&self) -> Result<Option<(usize, usize)>> {
        match &self.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.memory().map(Some),
            _ => Ok(None),
        }
    }
    /// The most shared memory that a block may use, in bytes.
    pub fn max_shared(&self) -> u32 {
        match &self.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.max_shared(),
            _ => koel_simt::MAX_SHARED,
        }
    }
    /// Threads that work at the same time on the CPU; multiprocessors on a GPU.
    pub fn parallelism(&self) -> usize {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.threads(),
            #[cfg(feature = "executor")]
            Backing::Executor(_) => 1,
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.multiprocessors() as usize,
        }
    }
    /// Runs host code on the CPU device's threads (rayon's parallel iterators use them); on other
    /// devices on rayon's own.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.install(work),
            #[cfg(any(feature = "cuda", feature = "executor"))]
            _ => work(),
        }
    }

    /// A new stream. On a GPU: one driver call. Inside a [capture](Stream::capture) it is part of
    /// the graph.
    pub fn stream(&self) -> Result<Stream> {
        if let Some(capture) = graph::current(self) {
            let stream = Stream::of_capture(self, &capture)?;
            capture.joins(&stream)?;
            return Ok(stream);
        }
        let queue = match &self.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => Queue::Cuda(cuda.stream(StreamKind::Default)?),
            _ => Queue::Host,
        };
        Ok(Stream::new(self, queue, None))
    }
    /// `len` elements; what they hold is not defined (on the host: zero).
    ///
    /// One allocation, on a GPU from the driver's pool. Errors: out of memory.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, len)
    }
    /// A copy of `data` on the device.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(data.len())?;
        buffer.view_mut().copy_from_host(data)?;
        Ok(buffer)
    }
    /// `data` where kernels of this device can read it: itself on the CPU, a copy elsewhere.
    pub fn stage<'a, T: Element>(&self, data: &'a [T]) -> Result<Staged<'a, T>> {
        Staged::new(self, data)
    }
}
impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

/// Work in order. A cheap handle: clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamHandle>);
/// What the clones of a stream share. When it is gone nobody can put work on the stream any more.
struct StreamHandle {
    inner: Arc<StreamInner>,
}
impl std::ops::Deref for StreamHandle {
    type Target = StreamInner;
    fn deref(&self) -> &StreamInner {
        &self.inner
    }
}
/// A stream that is there as long as work on it may run, and memory has it among its users.
struct StreamInner {
    queue: Queue,
    device: Device,
    /// The capture it was made in.
    capture: Option<Arc<Capture>>,
}
enum Queue {
    Host,
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaStream),
}

impl StreamInner {
    fn synchronize(&self) -> Result<()> {
        match &self.queue {
            Queue::Host => Ok(()),
            #[cfg(feature = "cuda")]
            Queue::Cuda(stream) => stream.synchronize(),
        }
    }
    /// What is put on it from now on runs after what `before` has by now; after what the host did
    /// if there is none.
    fn follow(&self, before: Option<&StreamInner>) -> Result<()> {
        match (&self.queue, before.map(|b| &b.queue)) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), None) => stream.follow_legacy(),
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), Some(Queue::Cuda(before))) => stream.follow(before),
            _ => Ok(()),
        }
    }
}

impl Stream {
    fn new(device: &Device, queue: Queue, capture: Option<Arc<Capture>>) -> Stream {
        let inner = Arc::new(StreamInner { queue, device: device.clone(), capture });
        Stream(Arc::new(StreamHandle { inner }))
    }
    /// For a capture.
    fn of_capture(device: &Device, capture: &Arc<Capture>) -> Result<Stream> {
        let queue = match &device.0.backing {
            // The legacy stream, from which memory comes, must not be ordered with streams that are
            // captured.
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => Queue::Cuda(cuda.stream(StreamKind::NonBlocking)?),
            _ => Queue::Host,
        };
        Ok(Stream::new(device, queue, Some(capture.clone())))
    }
    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
    /// Waits until everything put on it has run. Errors: a kernel that failed.
    pub fn synchronize(&self) -> Result<()> {
        graph::outside_only("Stream::synchronize", self.device(), graph::WAITS)?;
        self.0.synchronize()
    }
    /// A mark after everything put on it so far.
    pub fn record(&self) -> Result<Event> {
        self.check_usable()?;
        let mark = match &self.0.queue {
            Queue::Host => Mark::Host(Instant::now()),
            #[cfg(feature = "cuda")]
            Queue::Cuda(stream) => Mark::Cuda(stream.record()?),
        };
        Ok(Event { mark, stream: self.clone() })
    }
    /// What is put on it from now on runs after the mark. Errors: the mark is of another device; it
    /// is in a capture and the stream is not, or the other way round.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.check_usable()?;
        buffer::check_device("the event", event.stream.device(), self.device())?;
        if self.capture_of().map(Arc::as_ptr) != event.stream.capture_of().map(Arc::as_ptr) {
            return Err(Error::Capture {
                operation: "waiting for an event",
                reason: "of event and stream only one is in this capture",
            });
        }
        match (&self.0.queue, &event.mark) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), Mark::Cuda(mark)) => stream.wait(mark),
            _ => Ok(()),
        }
    }
    /// Copies memory of the device.
    ///
    /// # Safety
    /// There are `bytes` bytes at both addresses, which nobody uses otherwise but in the order of
    /// the stream.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        match (&self.0.queue, self.capture_of()) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), _) => stream.copy(to, from, bytes),
            (_, Some(capture)) if capture.records(|| Step::Copy { to, from, bytes }) => Ok(()),
            _ => {
                // SAFETY: the caller's, in host memory.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
                Ok(())
            }
        }
    }
    /// Sets bytes of the device's memory.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        match (&self.0.queue, self.capture_of()) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), _) => stream.fill(to, byte, bytes),
            (_, Some(capture)) if capture.records(|| Step::Fill { to, byte, bytes }) => Ok(()),
            _ => {
                // SAFETY: the caller's, in host memory.
                unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
                Ok(())
            }
        }
    }
    /// `run`, and the seconds that the work it put on this stream took. Waits for it.
    pub fn time<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<(R, f64)> {
        graph::outside_only("Stream::time", self.device(), graph::WAITS)?;
        let start = self.record()?;
        let result = run()?;
        let seconds = self.record()?.seconds_since(&start)?;
        Ok((result, seconds))
    }
}
impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.0.device.name())
    }
}

/// A mark on a stream.
pub struct Event {
    mark: Mark,
    stream: Stream,
}
enum Mark {
    Host(Instant),
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaEvent),
}
impl Event {
    /// Seconds from `start` to this mark. Waits for it.
    pub fn seconds_since(&self, start: &Event) -> Result<f64> {
        graph::outside_only("Event::seconds_since", self.stream.device(), graph::WAITS)?;
        match (&self.mark, &start.mark) {
            (Mark::Host(end), Mark::Host(start)) => Ok(end.duration_since(*start).as_secs_f64()),
            #[cfg(feature = "cuda")]
            (Mark::Cuda(end), Mark::Cuda(start)) => end.seconds_since(start),
            #[cfg(feature = "cuda")]
            _ => Err(Error::Driver {
                call: "cuEventElapsedTime",
                message: "events of different kinds of device".into(),
            }),
        }
    }
}

impl Backend for Stream {
    type Error = Error;
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        #[cfg_attr(
            not(any(feature = "cuda", feature = "executor")),
            expect(unused_variables, reason = "for devices")
        )]
        args: &[DeviceArg],
        body: KernelBody<'_>,
    ) -> Result<()> {
        self.check_usable()?;
        if grid == 0 {
            return Ok(());
        }
        let device = &self.0.device;
        if shared > device.max_shared() {
            let (asked, limit) = (shared, device.max_shared());
            return Err(Error::SharedMemory {
                kernel: spec.name,
                device: device.name(),
                asked,
                limit,
            });
        }
        match (&device.0.backing, &self.0.queue) {
            // SAFETY: the caller's.
            (Backing::Cpu(cpu), _) => unsafe { cpu.launch(spec, grid, body) },
            #[cfg(feature = "executor")]
            (Backing::Executor(executor), _) => {
                let step = || Step::Launch {
                    spec: *spec,
                    grid,
                    shared,
                    args: args.to_vec(),
                    body: body.keep(),
                };
                match self.capture_of().is_some_and(|capture| capture.records(step)) {
                    true => Ok(()),
                    // SAFETY: the caller's.
                    false => unsafe { executor.launch(spec, grid, shared, args, body) },
                }
            }
            #[cfg(feature = "cuda")]
            // SAFETY: the caller's.
            (Backing::Cuda(_), Queue::Cuda(stream)) => unsafe {
                stream.launch(spec, grid, shared, args)
            },
            #[cfg(feature = "cuda")]
            (Backing::Cuda(_), Queue::Host) => {
                unreachable!("a GPU's streams are made by `Device::stream`")
            }
        }
    }
}
