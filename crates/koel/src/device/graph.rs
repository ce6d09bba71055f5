//! Work recorded once and launched as often as wanted, for the price of one launch.
//!
//! A GPU keeps a CUDA graph. The test executor keeps the launches and copies with their arguments,
//! as a graph does, so that what breaks in a graph (an argument that changes from run to run, a
//! result read too early) breaks in a test. On the CPU device much is native code that never passes
//! a stream, and borrows what it works on: there the recorded closure itself is kept, and runs at
//! every launch.
#[cfg(feature = "cuda")]
use super::cuda;
use super::users::{Usage, Users};
use super::{Device, DeviceKind, Queue, Stream, buffer};
use crate::error::{Error, Result};
use buffer::Shared;
#[cfg(feature = "executor")]
use koel_simt::{DeviceArg, KeptBody, KernelSpec};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Work that [`Stream::capture`] recorded, and what it works on.
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
    /// Its buffers during a launch; memory that is kept from one to the next.
    kept: Vec<Arc<Shared>>,
}
type Record<S> = Box<dyn FnMut(&Stream, &mut S) -> Result<()> + Send>;
enum Recorded<S> {
    Closure(Record<S>),
    Steps(Vec<Step>),
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaGraph),
}
/// A buffer that a graph reads or writes. From the first work that is recorded on it until the
/// graph is dropped, host code must not look into it: a slice could leave the closure, and change
/// under a launch.
struct Use {
    buffer: Weak<Shared>,
    bytes: usize,
    /// By all that was recorded.
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

/// What the executor records.
pub(super) enum Step {
    #[cfg(feature = "executor")]
    Launch {
        spec: KernelSpec,
        grid: u32,
        shared: u32,
        args: Vec<DeviceArg>,
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

/// A recording in progress, or ended.
pub(super) struct Capture {
    device: Device,
    ended: AtomicBool,
    recording: Mutex<Recording>,
}
#[derive(Default)]
struct Recording {
    steps: Vec<Step>,
    /// By the buffer's place in memory: the buffer, and the streams of the capture that use it.
    uses: HashMap<usize, (Use, Users)>,
    /// The streams of the capture, the first one first.
    streams: Vec<Stream>,
}

thread_local! {
    /// What this thread records.
    static CURRENT: RefCell<Option<Arc<Capture>>> = const { RefCell::new(None) };
}

/// Fails if this thread is recording for that device: `operation` is none that a graph can hold.
pub(super) fn outside_only(
    operation: &'static str,
    device: &Device,
    reason: &'static str,
) -> Result<()> {
    match CURRENT.with_borrow(|c| c.as_ref().is_some_and(|c| c.device == *device)) {
        true => Err(Error::Capture { operation, reason }),
        false => Ok(()),
    }
}
/// Errors: inside a capture of that device, in which nothing can wait.
pub(crate) fn may_wait(operation: &'static str, device: &Device) -> Result<()> {
    outside_only(operation, device, WAITS)
}
/// What operations that wait say.
pub(super) const WAITS: &str = "it waits for the device";
/// What operations that allocate say.
pub(super) const ALLOCATES: &str = "it allocates, or copies from the host: do that before";

/// The capture in which this thread makes a stream of that device.
pub(super) fn current(device: &Device) -> Option<Arc<Capture>> {
    CURRENT.with_borrow(|c| c.clone().filter(|c| c.device == *device))
}

impl Capture {
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Whether the streams of the capture do nothing but record.
    fn only_records(&self) -> bool {
        self.device.kind() != DeviceKind::Cpu
    }
    /// Records what the executor shall do, if it is its capture.
    pub(super) fn records(&self, step: impl FnOnce() -> Step) -> bool {
        let records = self.only_records();
        if records {
            self.lock().steps.push(step());
        }
        records
    }
    /// `buffer` is used on a stream of the capture: it follows the streams of the capture whose
    /// uses this one conflicts with. What was before the capture is waited for when the graph
    /// is launched.
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
    /// A new stream becomes part of the capture.
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
    /// The capture that it belongs to.
    pub(super) fn capture_of(&self) -> Option<&Arc<Capture>> {
        self.0.capture.as_ref()
    }
    /// Whether it belongs to a [capture](Self::capture): what is put on it runs when the graph is
    /// launched, each time with the same arguments.
    pub fn is_capturing(&self) -> bool {
        self.0.capture.is_some()
    }
    /// Fails if nothing may be put on it now: it is from outside and this thread is recording, or
    /// its capture has ended.
    pub(super) fn check_usable(&self) -> Result<()> {
        match &self.0.capture {
            None => outside_only(
                "work on a stream from outside",
                self.device(),
                "use the stream that the closure is given",
            ),
            Some(capture) if capture.ended.load(Relaxed) => Err(Error::Capture {
                operation: "work on a stream of an earlier capture",
                reason: "that graph is complete",
            }),
            Some(_) => Ok(()),
        }
    }

    /// Records what `record` puts on the stream that it is given, to be launched as often as
    /// wanted.
    ///
    /// `state` holds what the work is done on: the graph owns it (it may own references), so that
    /// nothing it works on goes away; between launches it is at hand. Contents may change from
    /// launch to launch; addresses, lengths and every other argument stay as they were
    /// recorded.
    ///
    /// The closure gets a stream of its own. Streams that it makes ([`Device::stream`]) are part of
    /// the graph too: they begin after what the first stream has by then, and the graph ends
    /// when all have. Recording runs nothing. It may happen once or, on the CPU device, at
    /// every launch: the closure should do nothing but put work on streams.
    ///
    /// Inside the closure everything that waits (`download`, `synchronize`, `time`, `get`) or
    /// allocates (`alloc`, `upload`, `stage`), and work on other streams of the device, is
    /// [`Error::Capture`]. On the CPU device that, and any other error of the closure, comes
    /// from [`Graph::launch`].
    ///
    /// # What the caller promises
    /// To safe operations nothing. Kernels launched in the closure (`unsafe`), and views from raw
    /// addresses, must be right at every launch of the graph, not only now.
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

/// While a closure records. Ends the capture also if the closure fails or panics.
struct Running {
    stream: Stream,
    capture: Arc<Capture>,
}
impl Running {
    fn begin(device: &Device) -> Result<Running> {
        // Not even for another device: a thread records one thing at a time.
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
        // Streams know their capture, and it knew them.
        let recording = take(&mut *self.capture.lock());
        #[cfg(feature = "cuda")]
        if let Queue::Cuda(queue) = &self.stream.0.queue {
            queue.abandon_capture();
        }
        drop(recording);
    }
}

impl<S> Graph<S> {
    /// Puts the recorded work on a stream, in its order, after whatever used the same buffers
    /// before on any stream.
    ///
    /// On a GPU: one driver call, whatever the graph holds. Allocates nothing on the device.
    /// Errors: a stream of another device, a buffer that was dropped since (moved out of the
    /// state, say), inside a capture.
    pub fn launch(&mut self, stream: &Stream) -> Result<()> {
        buffer::check_device("the graph", &self.device, stream.device())?;
        outside_only("Graph::launch", &self.device, "graphs do not nest")?;
        stream.check_usable()?;
        // Kept until the work is on the stream: a buffer that left the state may be dropped by
        // another thread at any time, and is then given back after the work, as the stream
        // is among its users.
        let mut kept = take(&mut self.kept);
        let done = self.keep(&mut kept, stream).and_then(|()| self.put_on(stream));
        kept.clear();
        self.kept = kept;
        done
    }
    /// Enters the launch as a use of each buffer, and keeps the buffers. Errors: one was dropped.
    fn keep(&self, kept: &mut Vec<Arc<Shared>>, stream: &Stream) -> Result<()> {
        for used in &self.uses {
            kept.push(used.buffer.upgrade().ok_or(Error::BufferDropped { bytes: used.bytes })?);
        }
        kept.iter()
            .zip(&self.uses)
            .try_for_each(|(buffer, used)| buffer.used_on(stream, used.usage))
    }
    /// Puts the recorded work on a stream. Its buffers are alive.
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
                // SAFETY: every buffer that the steps use is kept by `launch` and lent to nobody
                // (`Use`); the rest is what callers of `Backend::launch` and of raw
                // views promised for every launch of the graph.
                steps.iter().try_for_each(|step| unsafe { step.run(&self.device) })
            }
            #[cfg(feature = "cuda")]
            Recorded::Cuda(graph) => match &stream.0.queue {
                Queue::Cuda(queue) => queue.launch_graph(graph),
                Queue::Host => unreachable!("a GPU's streams are made by `Device::stream`"),
            },
        }
    }
    /// What it works on. Reading a buffer there waits for the launches so far.
    pub fn state(&self) -> &S {
        &self.state
    }
    /// What it works on, to change contents between launches. A buffer put in another's place is
    /// not seen by the graph.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }
    /// Ends the graph.
    pub fn into_state(self) -> S {
        self.state
    }
    /// The device it belongs to.
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
    /// As `Backend::launch`; copies and fills: the memory is there, and nobody else uses it now.
    #[cfg_attr(
        not(feature = "executor"),
        expect(unused_variables, reason = "only the executor records launches")
    )]
    unsafe fn run(&self, device: &Device) -> Result<()> {
        match self {
            #[cfg(feature = "executor")]
            Step::Launch { spec, grid, shared, args, body } => match &device.0.backing {
                super::Backing::Executor(executor) => {
                    // SAFETY: the caller's.
                    body.lend(|body| unsafe { executor.launch(spec, *grid, *shared, args, body) })
                }
                _ => unreachable!("only the executor records steps"),
            },
            Step::Copy { to, from, bytes } => {
                // SAFETY: the caller's.
                unsafe { std::ptr::copy(*from as *const u8, *to as *mut u8, *bytes) };
                Ok(())
            }
            Step::Fill { to, byte, bytes } => {
                // SAFETY: the caller's.
                unsafe { std::ptr::write_bytes(*to as *mut u8, *byte, *bytes) };
                Ok(())
            }
        }
    }
}
