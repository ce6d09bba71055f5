//! Devices, streams, events and buffers: one interface to GPUs, the CPU and the test executor.
//!
//! Work on a [`Stream`] runs in order. On a GPU it runs asynchronously, and only reading a result
//! waits for it; on the host it is complete when the call returns. A [`Buffer`] belongs to one
//! device; used on several streams, it makes the later stream wait for the earlier one.
//!
//! Repeated work is captured once, as a [`Graph`]. [`Device::load_kernels`] loads kernels of your
//! own crate. Memory and streams of other libraries are used without copies: [`Foreign`], which
//! keeps the owner of memory alive, [`View::from_raw`], `Stream::from_raw`, and the types of
//! `cudarc`.
mod apart;
mod buffer;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "executor")]
pub(crate) mod failing;
pub(crate) mod graph;
#[cfg(feature = "cuda")]
mod images;
#[cfg(feature = "cuda")]
mod interop;
pub(crate) mod memory;
mod modules;
mod users;
pub(crate) mod words;

use crate::error::{Error, Result, count32};
use crate::parallel;
pub use apart::Apart;
pub use buffer::{Buffer, Element, Foreign, Plain, Staged, View, ViewMut};
pub(crate) use buffer::{check_device, not_on_host};
pub use cpu::CpuOptions;
#[cfg(feature = "cuda")]
pub use cuda::CudaOptions;
/// The release of cudarc whose types koel's interface uses.
#[cfg(feature = "cuda")]
pub use cudarc;
#[cfg(feature = "cuda")]
use cudarc::driver::result::stream::StreamKind;
#[cfg(feature = "executor")]
pub use failing::{allocation_failed, fail_allocation_after};
pub use graph::Graph;
use graph::{Capture, Step};
#[cfg(feature = "cuda")]
pub use interop::{Lendable, LendableMut};
#[cfg(feature = "cuda")]
use koel_kernels::probe::number_sectors;
#[cfg(feature = "executor")]
use koel_simt::Exec;
use koel_simt::{Backend, KernelBody, KernelSpec, Params};
pub use memory::Pages;
use std::fmt;
use std::mem::MaybeUninit;
#[cfg(feature = "executor")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once};
use std::time::Instant;

/// A place where tables are built and queried. A cheap handle: clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backing: Backing,
    fallback: Option<String>,
    /// Loaded modules of other crates.
    modules: Mutex<Vec<modules::Module>>,
}
enum Backing {
    Cpu(cpu::Cpu),
    #[cfg(feature = "executor")]
    Executor(Executor),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Cuda),
}
/// Settings of the executor; each launch draws a new seed.
#[cfg(feature = "executor")]
struct Executor {
    seed: u64,
    launches: AtomicU64,
    configure: Box<dyn Fn(&mut Exec) + Send + Sync>,
}
#[cfg(feature = "executor")]
impl Executor {
    /// # Safety
    /// As for `Backend::launch`.
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        params: &Params,
        body: KernelBody<'_>,
    ) -> Result<()> {
        let launch = self.launches.fetch_add(1, Relaxed);
        let mut exec =
            Exec::new(self.seed.wrapping_add(launch.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        (self.configure)(&mut exec);
        // SAFETY: the caller upholds `launch`'s contract.
        Ok(unsafe { exec.launch(spec, grid, shared, params, body) }?)
    }
}

/// Kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// The host's cores, at native speed.
    Cpu,
    /// The test executor (feature `executor`): runs GPU kernels on the host, with checks.
    Executor,
    /// An NVIDIA GPU.
    Cuda,
}

impl Device {
    /// Opens the first GPU that runs a small kernel, else this machine's CPU.
    ///
    /// A GPU that is busy, too old or out of memory, or whose driver does not work, is passed over.
    /// Logs that once, as a `tracing` warning; [`fallback_reason`](Self::fallback_reason) returns
    /// the reason.
    pub fn best() -> Result<Device> {
        let device = match Device::first_that_works() {
            Ok(gpu) => gpu,
            Err(reason) => {
                let cpu = cpu::Cpu::new(CpuOptions::default())?;
                Device::of(Backing::Cpu(cpu), Some(reason))
            }
        };
        if let Some(reason) = device.fallback_reason() {
            static SAID: Once = Once::new();
            SAID.call_once(|| tracing::warn!("using {}: {reason}", device.name()));
        }
        Ok(device)
    }
    /// Returns the first GPU that works, or why there is none.
    #[cfg(feature = "cuda")]
    fn first_that_works() -> std::result::Result<Device, String> {
        // More than a host has: a driver that does not work may list any number.
        const MAX_GPUS: usize = 64;
        let count = cuda::count().map_err(|e| e.to_string())?.min(MAX_GPUS);
        let mut reasons = vec![];
        for ordinal in 0..count {
            let reason = (ordinal > 0).then(|| reasons.join("; "));
            match Device::working(ordinal, reason) {
                Ok(gpu) => return Ok(gpu),
                Err(e) if count == 1 => return Err(e.to_string()),
                Err(e) => reasons.push(format!("CUDA device {ordinal}: {e}")),
            }
        }
        match &reasons[..] {
            [] => Err(Error::NoSuchDevice { ordinal: 0, count }.to_string()),
            reasons => Err(reasons.join("; ")),
        }
    }
    /// Opens GPU number `ordinal`, and runs a small kernel: there are drivers that open a device on
    /// which no kernel can be loaded.
    #[cfg(feature = "cuda")]
    fn working(ordinal: usize, fallback: Option<String>) -> Result<Device> {
        let cuda = cuda::Cuda::new(ordinal, CudaOptions::default())?;
        let device = Device::of(Backing::Cuda(cuda), fallback);
        let (stream, mut sector) = (device.stream()?, device.alloc::<u64>(4)?);
        let table = sector.view_mut().arg("sector", &stream)?;
        // SAFETY: a table of one sector.
        unsafe { number_sectors::launch(&stream, 1, 1, table) }?;
        stream.synchronize()?;
        Ok(device)
    }
    #[cfg(not(feature = "cuda"))]
    fn first_that_works() -> std::result::Result<Device, String> {
        Device::cuda(0).map_err(|e| e.to_string())
    }
    /// Opens this machine's CPU, with one thread per core, and huge pages where the system grants
    /// them.
    pub fn cpu() -> Result<Device> {
        Device::cpu_with(CpuOptions::default())
    }
    /// Opens this machine's CPU with `threads` threads, at least one.
    pub fn cpu_with_threads(threads: usize) -> Result<Device> {
        Device::cpu_with(CpuOptions::default().with_threads(Some(threads)))
    }
    /// Opens this machine's CPU with the given threads and pages.
    ///
    /// ```
    /// use koel::device::{CpuOptions, Pages};
    ///
    /// let options = CpuOptions::default().with_threads(Some(2)).with_pages(Pages::System);
    /// let device = koel::Device::cpu_with(options)?;
    /// assert_eq!(device.parallelism(), 2);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: zero threads, or more than the system can start.
    pub fn cpu_with(options: CpuOptions) -> Result<Device> {
        Ok(Device::of(Backing::Cpu(cpu::Cpu::new(options)?), None))
    }
    /// Returns the page size policy of host memory.
    pub(crate) fn pages(&self) -> Pages {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.pages(),
            #[cfg(any(feature = "cuda", feature = "executor"))]
            _ => Pages::default(),
        }
    }
    /// Opens GPU number `ordinal`, in the CUDA driver's numbering.
    ///
    /// Opens the driver and the device's primary context, which takes 0.2 to 0.4 s at its first use
    /// in a process. Kernels are loaded at their first launch.
    ///
    /// Errors: no driver, no such device, driver or device too old.
    #[cfg(feature = "cuda")]
    pub fn cuda(ordinal: usize) -> Result<Device> {
        Device::cuda_with(ordinal, CudaOptions::default())
    }
    /// Opens GPU number `ordinal` with these options. Errors: as for [`cuda`](Self::cuda).
    #[cfg(feature = "cuda")]
    pub fn cuda_with(ordinal: usize, options: CudaOptions) -> Result<Device> {
        Ok(Device::of(Backing::Cuda(cuda::Cuda::new(ordinal, options)?), None))
    }
    /// Returns an error: koel was built without the feature `cuda`.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda(_ordinal: usize) -> Result<Device> {
        Err(Error::NoDriver { reason: "koel was built without the feature `cuda`".into() })
    }
    /// Opens the test executor: everything runs as on a GPU, launch by launch, on the host, slowly,
    /// with every check enabled. `seed` determines the schedule.
    #[cfg(feature = "executor")]
    pub fn executor(seed: u64) -> Device {
        Device::executor_with(seed, |_| ())
    }
    /// Opens the test executor with other settings: `configure` is called for each launch.
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

    /// Returns the kind of device.
    #[inline]
    pub fn kind(&self) -> DeviceKind {
        match &self.0.backing {
            Backing::Cpu(_) => DeviceKind::Cpu,
            #[cfg(feature = "executor")]
            Backing::Executor(_) => DeviceKind::Executor,
            #[cfg(feature = "cuda")]
            Backing::Cuda(_) => DeviceKind::Cuda,
        }
    }
    /// Returns whether tables are built by kernels (a GPU, the executor) instead of native host
    /// code.
    pub(crate) fn runs_kernels(&self) -> bool {
        self.kind() != DeviceKind::Cpu
    }
    /// Returns whether its memory is host memory.
    #[inline]
    fn is_host(&self) -> bool {
        self.kind() != DeviceKind::Cuda
    }
    /// Returns a human-readable name.
    pub fn name(&self) -> String {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.name(),
            #[cfg(feature = "executor")]
            Backing::Executor(e) => format!("test executor (seed {})", e.seed),
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.name().into(),
        }
    }
    /// Returns why [`best`](Self::best) fell back to the CPU or to a GPU other than the first, if
    /// it did.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.0.fallback.as_deref()
    }
    /// Returns free and total memory in bytes; `None` on the host.
    pub fn memory(&self) -> Result<Option<(usize, usize)>> {
        match &self.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.memory().map(Some),
            _ => Ok(None),
        }
    }
    /// Returns the maximum shared memory per block, in bytes.
    pub fn max_shared(&self) -> u32 {
        match &self.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.max_shared(),
            _ => koel_simt::MAX_SHARED,
        }
    }
    /// Returns the number of CPU threads, or of multiprocessors on a GPU.
    pub fn parallelism(&self) -> usize {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.threads(),
            #[cfg(feature = "executor")]
            Backing::Executor(_) => 1,
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.multiprocessors() as usize,
        }
    }
    /// Runs host code where rayon's parallel iterators use the CPU device's threads. On other
    /// devices, runs it on this thread, with rayon's global pool.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let (mut work, mut result) = (Some(work), None);
        self.run(&mut || result = work.take().map(|work| work()));
        let Some(result) = result else { unreachable!("it has been run") };
        result
    }
    /// See [`install`](Self::install). Compiled once.
    fn run(&self, work: &mut (dyn FnMut() + Send)) {
        match &self.0.backing {
            Backing::Cpu(cpu) => cpu.run(work),
            #[cfg(any(feature = "cuda", feature = "executor"))]
            _ => apart::aside(work),
        }
    }

    /// Initialises memory as [`parallel::fill`] does, on the threads of
    /// [`install`](Self::install). Memory of up to two pieces is written by the calling thread:
    /// others would wake up too late. Errors: those of `write`.
    pub(crate) fn fill<T: Send>(
        &self,
        to: &mut [MaybeUninit<T>],
        small: usize,
        write: &parallel::Write<'_, T>,
    ) -> Result<()> {
        if size_of_val(to) <= 2 * small {
            write(0, to)
        } else {
            self.install(|| parallel::fill(to, small, write))
        }
    }

    /// Creates a stream. Costs one driver call on a GPU. Inside a [capture](Stream::capture) the
    /// stream is part of the graph.
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
    /// Allocates `len` elements with undefined contents (zero on the host).
    ///
    /// Makes one allocation, on a GPU from the driver's pool. Errors: out of memory.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, len)
    }
    /// Copies `data` to the device.
    pub fn upload<T: Plain>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.alloc(data.len())?;
        buffer.view_mut().copy_from_host(data)?;
        Ok(buffer)
    }
    /// Makes `data` readable by kernels of this device: borrows it on the CPU, copies it elsewhere.
    pub fn stage<'a, T: Plain>(&self, data: &'a [T]) -> Result<Staged<'a, T>> {
        Staged::new(self, data)
    }
    /// Does the same for keys, values or ids, which operations address with 32 bits.
    ///
    /// Errors: too many for that. Callers stage before they allocate anything else.
    pub(crate) fn stage32<'a, T: Plain>(
        &self,
        what: &'static str,
        data: &'a [T],
    ) -> Result<Staged<'a, T>> {
        count32(what, data.len())?;
        self.stage(data)
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

/// A queue of work that runs in order. A cheap handle: clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<StreamHandle>);
/// State that the clones of a stream share. Once it is dropped, no work can be added to the stream.
struct StreamHandle {
    inner: Arc<StreamInner>,
}
impl std::ops::Deref for StreamHandle {
    type Target = StreamInner;
    fn deref(&self) -> &StreamInner {
        &self.inner
    }
}
/// The stream itself. Lives as long as work on it may run and memory lists it as a user.
struct StreamInner {
    queue: Queue,
    device: Device,
    /// The capture in which it was created.
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
    /// Makes later work on this stream run after the work now on `before`, or after the host's work
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
    /// Creates a stream of a capture.
    fn of_capture(device: &Device, capture: &Arc<Capture>) -> Result<Stream> {
        let queue = match &device.0.backing {
            // The legacy stream, on which memory is allocated, must not synchronize with capturing
            // streams.
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => Queue::Cuda(cuda.stream(StreamKind::NonBlocking)?),
            _ => Queue::Host,
        };
        Ok(Stream::new(device, queue, Some(capture.clone())))
    }
    /// Returns the device it belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
    /// Waits until all work on the stream has run. Errors: a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        graph::outside_only("Stream::synchronize", self.device(), graph::WAITS)?;
        self.0.synchronize()
    }
    /// Records an event after all work on the stream so far.
    pub fn record(&self) -> Result<Event> {
        self.check_usable()?;
        let mark = match &self.0.queue {
            Queue::Host => Mark::Host(Instant::now()),
            #[cfg(feature = "cuda")]
            Queue::Cuda(stream) => Mark::Cuda(stream.record()?),
        };
        Ok(Event { mark, stream: self.clone() })
    }
    /// Makes later work on this stream run after the event. Errors: an event of another device;
    /// only one of event and stream belongs to this capture.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.check_usable()?;
        buffer::check_device("the event", event.stream.device(), self.device())?;
        if self.capture_of().map(Arc::as_ptr) != event.stream.capture_of().map(Arc::as_ptr) {
            return Err(Error::Capture {
                operation: "waiting for an event",
                reason: "only one of event and stream belongs to this capture",
            });
        }
        match (&self.0.queue, &event.mark) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), Mark::Cuda(mark)) => stream.wait(mark),
            _ => Ok(()),
        }
    }
    /// Copies within the device's memory.
    ///
    /// # Safety
    /// Both addresses are valid for `bytes` bytes, and all other uses of them are ordered with the
    /// stream.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        match (&self.0.queue, self.capture_of()) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), _) => stream.copy(to, from, bytes),
            (_, Some(capture)) if capture.records(|| Step::Copy { to, from, bytes }) => Ok(()),
            _ => {
                // SAFETY: the caller upholds the contract; both ranges are host memory.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
                Ok(())
            }
        }
    }
    /// Fills the device's memory with a byte.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    unsafe fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        match (&self.0.queue, self.capture_of()) {
            #[cfg(feature = "cuda")]
            (Queue::Cuda(stream), _) => stream.fill(to, byte, bytes),
            (_, Some(capture)) if capture.records(|| Step::Fill { to, byte, bytes }) => Ok(()),
            _ => {
                // SAFETY: the caller upholds the contract; the range is host memory.
                unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
                Ok(())
            }
        }
    }
    /// Calls `run` with a function that copies a buffer of this device from pinned host memory
    /// (true) or to it (false), in the order of the stream. `None` if the device's memory is the
    /// host's.
    pub(crate) fn with_pinned_copies<R>(
        &self,
        buffer: &mut Buffer<u8>,
        run: impl FnOnce(&dyn Fn(bool) -> Result<()>) -> Result<R>,
    ) -> Result<Option<R>> {
        #[cfg(feature = "cuda")]
        if let (Backing::Cuda(cuda), Queue::Cuda(queue)) = (&self.device().0.backing, &self.0.queue)
        {
            let bytes = buffer.len();
            let _apart = Apart::begin();
            let mut view = buffer.view_mut();
            view.arg("buffer", self)?;
            let address = view.address();
            // SAFETY: borrowed mutably until the copies have ended, and in use by this stream.
            return unsafe { cuda.with_pinned_copies(queue, address, bytes, run) }.map(Some);
        }
        let _ = (buffer, run);
        Ok(None)
    }
    /// Runs `run` and returns the seconds that its work on this stream took. Waits for that work.
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

/// A point in a stream's work.
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
    /// Returns the seconds from `start` to this event. Waits for it.
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
        params: &Params,
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
            // SAFETY: the caller upholds `Backend::launch`'s contract.
            (Backing::Cpu(cpu), _) => unsafe { cpu.launch(spec, grid, body) },
            #[cfg(feature = "executor")]
            (Backing::Executor(executor), _) => {
                let step = || Step::Launch { spec: *spec, grid, shared, body: body.keep() };
                match self.capture_of().is_some_and(|capture| capture.records(step)) {
                    true => Ok(()),
                    // SAFETY: the caller upholds `Backend::launch`'s contract.
                    false => unsafe { executor.launch(spec, grid, shared, params, body) },
                }
            }
            #[cfg(feature = "cuda")]
            // SAFETY: the caller upholds `Backend::launch`'s contract.
            (Backing::Cuda(_), Queue::Cuda(stream)) => unsafe {
                stream.launch(spec, grid, shared, params)
            },
            #[cfg(feature = "cuda")]
            (Backing::Cuda(_), Queue::Host) => {
                unreachable!("a GPU's streams are made by `Device::stream`")
            }
        }
    }
}
