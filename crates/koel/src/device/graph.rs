//! Work recorded once and launched any number of times, each for the cost of one launch.
//!
//! A GPU keeps a CUDA graph. The test executor keeps the launches and copies with their arguments,
//! as a CUDA graph does, so that errors specific to graphs (an argument that changes from run to
//! run, a result read too early) show up in tests. On the CPU device much work is native code that
//! never passes through a stream and borrows its data: there the closure itself is kept and runs at
//! every launch.
use super::apart::{Lease, is_within};
#[cfg(feature = "cuda")]
use super::cuda;
use super::users::{Usage, Users};
use super::{Device, DeviceKind, Queue, Stream, buffer};
use crate::error::{Error, Result};
use buffer::Shared;
#[cfg(feature = "executor")]
use koel_simt::{KeptBody, KernelSpec};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Work recorded by [`Stream::capture`], and the state it works on.
///
/// ```
/// use koel::Device;
///
/// let device = Device::executor(1); // any device
/// let (from, to) = (device.upload(&[1u32, 2, 3])?, device.alloc::<u32>(3)?);
/// let stream = device.stream()?;
/// let mut copy = stream.capture((from, to), |stream, (from, to)| {
///     to.view_mut().copy_from(from.view(), stream)
/// })?;
/// for round in [4, 5] {
///     copy.state_mut().0.view_mut().copy_from_host(&[round; 3])?;
///     copy.launch(&stream)?;
///     assert_eq!(copy.state().1.download()?, [round; 3]);
/// }
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Graph<S> {
    recorded: Recorded<S>,
    state: S,
    device: Device,
    uses: Vec<Use>,
    /// Its buffers during a launch; the vector's memory is reused between launches.
    kept: Vec<Lease>,
}
type Record<S> = Box<dyn FnMut(&Stream, &mut S) -> Result<()> + Send>;
enum Recorded<S> {
    Closure(Record<S>),
    Steps(Vec<Step>),
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaGraph),
}
/// A buffer that a graph reads or writes. From the first work recorded on it until the graph is
/// dropped, host code must not borrow it: a slice could escape the closure and change during a
/// launch.
struct Use {
    buffer: Weak<Shared>,
    bytes: usize,
    /// Combined usage of all recorded work.
    usage: Usage,
}
impl Use {
    fn new(buffer: &Arc<Shared>, usage: Usage) -> Use {
        buffer.enters_graph();
        Use { buffer: Arc::downgrade(buffer), bytes: buffer.bytes(), usage }
    }
}
impl Drop for Use {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.upgrade() {
            buffer.leaves_graph();
        }
    }
}

/// A step that the executor records.
pub(super) enum Step {
    #[cfg(feature = "executor")]
    Launch {
        spec: KernelSpec,
        grid: u32,
        shared: u32,
        body: KeptBody,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        byte: u8,
        bytes: usize,
    },
}

/// A recording, in progress or finished.
pub(super) struct Capture {
    device: Device,
    ended: AtomicBool,
    recording: Mutex<Recording>,
}
#[derive(Default)]
struct Recording {
    steps: Vec<Step>,
    /// By the buffer's address: the buffer, and the streams of the capture that use it.
    uses: HashMap<usize, (Use, Users)>,
    /// The streams of the capture, the closure's own first.
    streams: Vec<Stream>,
}

thread_local! {
    /// The capture that this thread is recording.
    static CURRENT: RefCell<Option<Arc<Capture>>> = const { RefCell::new(None) };
}

/// Fails if this thread is recording for that device: a graph cannot hold `operation`.
pub(crate) fn outside_only(
    operation: &'static str,
    device: &Device,
    reason: &'static str,
) -> Result<()> {
    match CURRENT.with_borrow(|c| c.as_ref().is_some_and(|c| c.device == *device)) {
        true => Err(Error::Capture { operation, reason }),
        false => Ok(()),
    }
}
/// Fails inside a capture of that device, because nothing can wait there.
pub(crate) fn may_wait(operation: &'static str, device: &Device) -> Result<()> {
    outside_only(operation, device, WAITS)
}
/// Reason given by operations that wait.
pub(crate) const WAITS: &str = "it waits for the device";
/// Reason given by operations that allocate.
pub(super) const ALLOCATES: &str = "it allocates or copies from the host: do so before the capture";

/// Returns this thread's capture for that device, to which new streams belong.
pub(super) fn current(device: &Device) -> Option<Arc<Capture>> {
    CURRENT.with_borrow(|c| c.clone().filter(|c| c.device == *device))
}

impl Capture {
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Returns whether the streams of the capture only record.
    fn only_records(&self) -> bool {
        self.device.kind() != DeviceKind::Cpu
    }
    /// Records a step if the streams only record.
    pub(super) fn records(&self, step: impl FnOnce() -> Step) -> bool {
        let records = self.only_records();
        if records {
            self.lock().steps.push(step());
        }
        records
    }
    /// Enters a use of `buffer` on a stream of the capture, which then follows the capture's
    /// streams with conflicting uses. Launching the graph waits for uses before the capture.
    pub(super) fn uses(&self, buffer: &Arc<Shared>, stream: &Stream, usage: Usage) -> Result<()> {
        if !self.only_records() {
            return Ok(());
        }
        let mut recording = self.lock();
        let fresh = || (Use::new(buffer, usage), Users::in_capture());
        let (used, users) =
            recording.uses.entry(Arc::as_ptr(buffer) as usize).or_insert_with(fresh);
        if usage == Usage::Write {
            used.usage = usage;
        }
        users.enter(stream, usage)
    }
    /// Adds a new stream to the capture.
    pub(super) fn joins(&self, stream: &Stream) -> Result<()> {
        let mut recording = self.lock();
        if let Some(first) = recording.streams.first() {
            stream.0.follow(Some(&first.0))?;
        }
        recording.streams.push(stream.clone());
        Ok(())
    }
}

impl Stream {
    /// Returns the capture that it belongs to.
    pub(super) fn capture_of(&self) -> Option<&Arc<Capture>> {
        self.0.capture.as_ref()
    }
    /// Returns whether the stream belongs to a [capture](Self::capture): its work runs when the
    /// graph is launched, each time with the same arguments.
    pub fn is_capturing(&self) -> bool {
        self.0.capture.is_some()
    }
    /// Fails if the stream cannot take work now: it is from outside and this thread is recording,
    /// or its capture has ended.
    pub(super) fn check_usable(&self) -> Result<()> {
        match &self.0.capture {
            None => outside_only(
                "work on another stream",
                self.device(),
                "use the stream passed to the closure",
            ),
            Some(capture) if capture.ended.load(Relaxed) => Err(Error::Capture {
                operation: "work on a stream of an earlier capture",
                reason: "that graph is complete",
            }),
            Some(_) => Ok(()),
        }
    }

    /// Records the work that `record` puts on its stream, to be launched any number of times.
    ///
    /// `state` holds the data of the work. The graph owns it (it may contain references), so that
    /// the data stays alive; between launches it is accessible. Contents may change from launch to
    /// launch; addresses, lengths and all other arguments stay as recorded.
    ///
    /// The closure receives a new stream. Streams that it creates ([`Device::stream`]) are part of
    /// the graph too: they start after the first stream's work so far, and the graph ends when all
    /// have ended. Recording runs nothing. The closure may run once or, on the CPU device, at every
    /// launch: it should only put work on streams.
    ///
    /// Inside the closure, operations that wait (`download`, `synchronize`, `time`, `get`) or
    /// allocate (`alloc`, `upload`, `stage`), and work on other streams of the device, return
    /// [`Error::Capture`]. On the CPU device these errors, and any other error of the closure, come
    /// from [`Graph::launch`].
    ///
    /// # What the caller promises
    /// Safe operations require nothing. Kernels launched in the closure (`unsafe`), and views from
    /// raw addresses, must be valid at every launch of the graph, not only during recording.
    pub fn capture<S>(
        &self,
        state: S,
        record: impl FnMut(&Stream, &mut S) -> Result<()> + Send + 'static,
    ) -> Result<Graph<S>> {
        let device = self.device();
        outside_only("Stream::capture", device, "captures do not nest")?;
        let mut graph = Graph {
            recorded: Recorded::Closure(Box::new(record)),
            state,
            device: device.clone(),
            uses: vec![],
            kept: vec![],
        };
        if device.kind() == DeviceKind::Cpu {
            return Ok(graph);
        }
        let running = Running::begin(device)?;
        if let Recorded::Closure(record) = &mut graph.recorded {
            record(&running.stream, &mut graph.state)?;
        }
        (graph.recorded, graph.uses) = running.end()?;
        Ok(graph)
    }
}

/// The state while a closure records. Ends the capture even if the closure fails or panics.
struct Running {
    stream: Stream,
    capture: Arc<Capture>,
}
impl Running {
    fn begin(device: &Device) -> Result<Running> {
        // Not even for another device: a thread records one capture at a time.
        if CURRENT.with_borrow(Option::is_some) {
            return Err(Error::Capture { operation: "a capture", reason: "captures do not nest" });
        }
        let capture = Arc::new(Capture {
            device: device.clone(),
            ended: AtomicBool::new(false),
            recording: Mutex::default(),
        });
        let stream = Stream::of_capture(device, &capture)?;
        #[cfg(feature = "cuda")]
        if let Queue::Cuda(queue) = &stream.0.queue {
            queue.begin_capture()?;
        }
        CURRENT.set(Some(capture.clone()));
        let running = Running { stream, capture };
        running.capture.joins(&running.stream)?;
        Ok(running)
    }
    fn end<S>(self) -> Result<(Recorded<S>, Vec<Use>)> {
        let Recording { steps, uses, streams } = take(&mut *self.capture.lock());
        for other in streams.iter().skip(1) {
            self.stream.0.follow(Some(&other.0))?;
        }
        let uses = uses.into_values().map(|(u, _)| u).collect();
        match &self.stream.0.queue {
            Queue::Host => Ok((Recorded::Steps(steps), uses)),
            #[cfg(feature = "cuda")]
            Queue::Cuda(queue) => Ok((Recorded::Cuda(queue.end_capture()?), uses)),
        }
    }
}
impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(None);
        self.capture.ended.store(true, Relaxed);
        // Breaks the reference cycle between the capture and its streams.
        let recording = take(&mut *self.capture.lock());
        #[cfg(feature = "cuda")]
        if let Queue::Cuda(queue) = &self.stream.0.queue {
            queue.abandon_capture();
        }
        drop(recording);
    }
}

impl<S> Graph<S> {
    /// Puts the recorded work on a stream, in its order, after all earlier uses of the same buffers
    /// on any stream.
    ///
    /// Takes one driver call on a GPU, whatever the graph holds. Allocates nothing on the device.
    /// Waits for operations of other threads that use its buffers outside of the graph, where one
    /// of both writes; they wait for the launch, too. Errors: a stream of another device; a buffer
    /// dropped since the capture (moved out of the state, for example); a call inside a capture; a
    /// wait inside an operation of this thread, which does other tasks of rayon's while it waits
    /// for its own.
    pub fn launch(&mut self, stream: &Stream) -> Result<()> {
        buffer::check_device("the graph", &self.device, stream.device())?;
        outside_only("Graph::launch", &self.device, "graphs do not nest")?;
        stream.check_usable()?;
        // The buffers are kept, and kept apart, until the work is on the stream. Another thread may
        // drop a buffer that left the state at any time; it is then freed after the work, because
        // the stream is among its users.
        let mut kept = take(&mut self.kept);
        let done = self.keep(&mut kept, stream).and_then(|()| self.put_on(stream));
        kept.clear();
        self.kept = kept;
        done
    }
    /// Enters the launch as a use of each buffer, keeps the buffers alive, and keeps other uses
    /// away. Errors: a buffer was dropped.
    fn keep(&self, kept: &mut Vec<Lease>, stream: &Stream) -> Result<()> {
        while let Some((busy, usage)) = self.lease_all(kept)? {
            // Waits without a lease, so that nobody waits for one that waits.
            kept.clear();
            if is_within() {
                return Err(Error::Capture {
                    operation: "Graph::launch",
                    reason: "a buffer is busy, and this thread is within an operation itself",
                });
            }
            busy.gate().wait_to_launch(usage);
        }
        kept.iter().try_for_each(|lease| lease.buffer().enter(stream, lease.usage()))
    }
    /// Leases the buffers up to the first that is busy, which it returns.
    fn lease_all(&self, kept: &mut Vec<Lease>) -> Result<Option<(Arc<Shared>, Usage)>> {
        for used in &self.uses {
            let buffer = used.buffer.upgrade().ok_or(Error::BufferDropped { bytes: used.bytes })?;
            match Lease::of_launch(&buffer, used.usage) {
                Some(lease) => kept.push(lease),
                None => return Ok(Some((buffer, used.usage))),
            }
        }
        Ok(None)
    }
    /// Puts the recorded work on a stream. The caller keeps the buffers alive.
    fn put_on(
        &mut self,
        #[cfg_attr(
            not(feature = "cuda"),
            expect(unused_variables, reason = "only a GPU's work runs on it")
        )]
        stream: &Stream,
    ) -> Result<()> {
        match &mut self.recorded {
            Recorded::Closure(record) => {
                let running = Running::begin(&self.device)?;
                record(&running.stream, &mut self.state)
            }
            Recorded::Steps(steps) => {
                // SAFETY: `launch` keeps every buffer that the steps use, and keeps other uses
                // away; no host code borrows it (`Use`); callers of `Backend::launch` and of raw
                // views promised the rest for every launch of the graph.
                steps.iter().try_for_each(|step| unsafe { step.run(&self.device) })
            }
            #[cfg(feature = "cuda")]
            Recorded::Cuda(graph) => match &stream.0.queue {
                Queue::Cuda(queue) => queue.launch_graph(graph),
                Queue::Host => unreachable!("a GPU's streams are made by `Device::stream`"),
            },
        }
    }
    /// Returns the state. Reading a buffer in it waits for the launches so far.
    pub fn state(&self) -> &S {
        &self.state
    }
    /// Returns the state mutably, to change contents between launches. The graph does not see a
    /// buffer that replaces another.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }
    /// Drops the graph and returns its state.
    pub fn into_state(self) -> S {
        self.state
    }
    /// Returns the device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }
}
impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({}, {} buffers)", self.device.name(), self.uses.len())
    }
}

impl Step {
    /// # Safety
    /// As for `Backend::launch`. For copies and fills: the memory is valid, and nobody else uses it
    /// now.
    #[cfg_attr(
        not(feature = "executor"),
        expect(unused_variables, reason = "only the executor records launches")
    )]
    unsafe fn run(&self, device: &Device) -> Result<()> {
        match self {
            #[cfg(feature = "executor")]
            Step::Launch { spec, grid, shared, body } => match &device.0.backing {
                super::Backing::Executor(executor) => {
                    // SAFETY: the caller upholds the contract.
                    body.lend(|body| unsafe {
                        executor.launch(spec, *grid, *shared, &body.params(), body)
                    })
                }
                _ => unreachable!("only the executor records steps"),
            },
            Step::Copy { to, from, bytes } => {
                // SAFETY: the caller upholds the contract.
                unsafe { std::ptr::copy(*from as *const u8, *to as *mut u8, *bytes) };
                Ok(())
            }
            Step::Fill { to, byte, bytes } => {
                // SAFETY: the caller upholds the contract.
                unsafe { std::ptr::write_bytes(*to as *mut u8, *byte, *bytes) };
                Ok(())
            }
        }
    }
}
