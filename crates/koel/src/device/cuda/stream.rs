//! Streams of NVIDIA GPUs: their work, and the order between them.
use super::{Cuda, CudaEvent, CudaGraph, LEGACY, driver, lock, text};
use crate::error::{Error, Result};
use cudarc::driver::sys;
use cudarc::driver::{DriverError, result};
use koel_simt::{KernelSpec, Params};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) struct CudaStream {
    stream: sys::CUstream,
    cuda: Cuda,
    /// Whether this stream and the legacy default stream wait for each other.
    blocks: bool,
    /// Whether koel created it.
    owned: bool,
    /// Whether it is between `begin_capture` and `end_capture`.
    captures: AtomicBool,
    /// Event for streams that follow this one.
    mark: Mutex<Option<CudaEvent>>,
    /// The same stream as a cudarc object.
    cudarc: OnceLock<Arc<cudarc::driver::CudaStream>>,
    /// The latest launches, for error messages.
    launched: Mutex<VecDeque<&'static str>>,
}
// SAFETY: driver handles may be used from any thread; the context is made current first.
unsafe impl Send for CudaStream {}
// SAFETY: as above.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    pub(super) fn of(cuda: &Cuda, stream: sys::CUstream, blocks: bool, owned: bool) -> CudaStream {
        CudaStream {
            stream,
            cuda: cuda.clone(),
            blocks,
            owned,
            captures: AtomicBool::new(false),
            mark: Mutex::default(),
            cudarc: OnceLock::new(),
            launched: Mutex::default(),
        }
    }
    pub(crate) fn raw(&self) -> sys::CUstream {
        self.stream
    }
    pub(crate) fn cuda(&self) -> &Cuda {
        &self.cuda
    }
    /// Keeps the cudarc stream that this one wraps.
    pub(crate) fn keep(&self, stream: Arc<cudarc::driver::CudaStream>) {
        let _ = self.cudarc.set(stream);
    }
    /// Returns the same stream as a cudarc object of the given context.
    pub(crate) fn as_cudarc(
        &self,
        context: &Arc<cudarc::driver::CudaContext>,
    ) -> &cudarc::driver::CudaStream {
        // SAFETY: owned by the stream that it stands for, and borrowed only while that lives.
        self.cudarc.get_or_init(|| unsafe { context.wrap_borrowed_stream(self.stream) })
    }
    /// Returns whether cudarc orders uses of its slices by events.
    pub(crate) fn cudarc_orders(&self) -> bool {
        self.cudarc.get().is_some_and(|s| s.context().is_managing_stream_synchronization())
    }
    /// # Safety
    /// As for `Backend::launch`.
    pub(crate) unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        params: &Params,
    ) -> Result<()> {
        let context = &self.cuda.0;
        context.bind()?;
        let f = context.function(spec)?;
        let mut addresses = [const { MaybeUninit::<*mut c_void>::uninit() }; Params::MAX];
        for (address, bytes) in addresses.iter_mut().zip(params.iter()) {
            address.write(bytes.as_ptr().cast_mut().cast());
        }
        self.note(spec.name);
        // SAFETY: an integer in a union of plain numbers; the other bytes may be zero.
        let mut early = unsafe { std::mem::zeroed::<sys::CUlaunchAttribute>() };
        early.id =
            sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        early.value.programmaticStreamSerializationAllowed = 1;
        let config = sys::CUlaunchConfig {
            gridDimX: grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: spec.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: self.stream,
            attrs: &mut early,
            numAttrs: self.may_start_early(spec) as u32,
        };
        // SAFETY: the parameters are those that the entry declares (koel-kernels' tests/abi.rs);
        // the caller guarantees the rest.
        let done = unsafe {
            sys::cuLaunchKernelEx(&config, f, addresses.as_mut_ptr().cast(), std::ptr::null_mut())
        };
        done.result().map_err(|e| self.fault(e))
    }
    /// Returns whether a kernel may start while the previous one of this stream ends. In graphs,
    /// drivers support that since 12.3.
    fn may_start_early(&self, spec: &KernelSpec) -> bool {
        let context = &self.cuda.0;
        let records = self.owned && !self.blocks;
        spec.starts_early && context.capability >= 90 && (!records || context.version >= 12030)
    }
    fn note(&self, kernel: &'static str) {
        let mut launched = lock(&self.launched);
        launched.truncate(3);
        launched.push_front(kernel);
    }
    fn fault(&self, e: DriverError) -> Error {
        if (900..1000).contains(&(e.0 as u32)) {
            return driver("work on a capturing stream")(e);
        }
        let launched =
            lock(&self.launched).iter().map(|l| l.to_string()).collect::<Vec<_>>().join(", ");
        Error::KernelFault { device: self.cuda.0.name.clone(), message: text(e), launched }
    }
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.cuda.0.bind()?;
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|e| self.fault(e))
    }
    pub(crate) fn record(&self) -> Result<CudaEvent> {
        self.cuda.0.bind()?;
        let event = self.cuda.event(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
        self.record_in(&event)?;
        Ok(event)
    }
    fn record_in(&self, event: &CudaEvent) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { result::event::record(event.event, self.stream) }.map_err(|e| self.fault(e))
    }
    pub(crate) fn wait(&self, event: &CudaEvent) -> Result<()> {
        self.cuda.0.bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        unsafe { result::stream::wait_event(self.stream, event.event, flags) }
            .map_err(|e| self.fault(e))
    }
    /// Makes later work on this stream run after the work now on `before`. Two driver calls.
    pub(crate) fn follow(&self, before: &CudaStream) -> Result<()> {
        self.cuda.0.bind()?;
        let mut mark = lock(&before.mark);
        let mark = match &mut *mark {
            Some(mark) => mark,
            none => none.insert(self.cuda.event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?),
        };
        before.record_in(mark)?;
        self.wait(mark)
    }
    /// Makes later work run after the work now on the legacy default stream. Blocking streams do so
    /// anyway.
    pub(crate) fn follow_legacy(&self) -> Result<()> {
        if self.blocks || self.captures.load(Relaxed) {
            return Ok(());
        }
        self.cuda.0.bind()?;
        let event = self.cuda.event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        // SAFETY: the event is alive.
        unsafe { result::event::record(event.event, LEGACY) }.map_err(|e| self.fault(e))?;
        self.wait(&event)
    }
    /// Makes the legacy default stream wait for this one, unless it does so anyway.
    pub(crate) fn lead_legacy(&self) -> Result<()> {
        if self.blocks {
            return Ok(());
        }
        let event = self.record()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the event is alive.
        unsafe { result::stream::wait_event(LEGACY, event.event, flags) }.map_err(|e| self.fault(e))
    }
    pub(crate) fn begin_capture(&self) -> Result<()> {
        self.cuda.0.bind()?;
        // Relaxed: other work of the process meanwhile does not concern this stream.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        unsafe { result::stream::begin_capture(self.stream, mode) }
            .map_err(driver("cuStreamBeginCapture"))?;
        self.captures.store(true, Relaxed);
        Ok(())
    }
    pub(crate) fn end_capture(&self) -> Result<CudaGraph> {
        self.cuda.0.bind()?;
        self.captures.store(false, Relaxed);
        // SAFETY: the stream captures. The captured graph is destroyed once it has been
        // instantiated.
        unsafe {
            let graph =
                result::stream::end_capture(self.stream).map_err(driver("cuStreamEndCapture"))?;
            let mut exec = std::ptr::null_mut();
            let made = sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0).result();
            let _ = result::graph::destroy(graph);
            made.map_err(driver("cuGraphInstantiate"))?;
            let launched = lock(&self.launched).iter().copied().collect();
            Ok(CudaGraph { exec, cuda: self.cuda.clone(), launched })
        }
    }
    /// Ends a failed capture.
    pub(crate) fn abandon_capture(&self) {
        if self.captures.swap(false, Relaxed) {
            let _ = self.cuda.0.bind();
            // SAFETY: the stream captures; a graph is destroyed once.
            unsafe {
                if let Ok(graph) = result::stream::end_capture(self.stream) {
                    let _ = result::graph::destroy(graph);
                }
            }
        }
    }
    pub(crate) fn launch_graph(&self, graph: &CudaGraph) -> Result<()> {
        self.cuda.0.bind()?;
        graph.launched.iter().rev().for_each(|kernel| self.note(kernel));
        // SAFETY: both are alive, and so are the buffers (`Graph::launch`).
        unsafe { result::graph::launch(graph.exec, self.stream) }.map_err(|e| self.fault(e))
    }
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        self.cuda.0.bind()?;
        // SAFETY: both addresses are `bytes` bytes of live buffers.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream) }
            .map_err(|e| self.fault(e))
    }
    pub(crate) fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<()> {
        self.cuda.0.bind()?;
        // SAFETY: `to` is `bytes` bytes of a live buffer.
        unsafe { result::memset_d8_async(to, byte, bytes, self.stream) }.map_err(|e| self.fault(e))
    }
}
impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.owned {
            let _ = self.cuda.0.bind();
            // SAFETY: created by `Cuda::stream`; the driver destroys it after its work.
            let _ = unsafe { result::stream::destroy(self.stream) };
        }
    }
}
