//! NVIDIA GPUs, through the driver alone.
//!
//! The driver's library is loaded at run time, kernels at their first launch (`images.rs`). Streams
//! are "blocking" in the driver's sense, and memory is allocated from and freed to the driver's
//! pool on the legacy default stream. All blocking streams synchronize with that stream, so memory
//! is never given to another buffer while a kernel still uses it. Streams of other libraries may be
//! non-blocking; they are made to wait (`follow_legacy`, `lead_legacy`). Capturing streams are
//! non-blocking too, because a driver forbids the legacy stream while a blocking one captures.
mod crew;
mod library;
mod staging;
mod stream;

use super::images::{Images, load};
use super::modules::Entries;
use crate::error::{Error, Result};
use crate::fallible::is_to_fail;
use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::{
    self, CUdevice_attribute_enum as Attribute, CUfunction_attribute_enum as FunctionAttribute,
};
use cudarc::driver::{DriverError, result};
use koel_simt::{Image, KernelSpec};
pub(super) use staging::{Column, pieces_of};
use staging::{MIN_BYTES, Staging};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard};
pub(super) use stream::CudaStream;

/// Every blocking stream synchronizes with this one.
const LEGACY: sys::CUstream = std::ptr::null_mut();
const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;

#[derive(Clone)]
pub(super) struct Cuda(Arc<Context>);
struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    images: Images,
    /// Modules of other crates.
    modules: Mutex<Vec<Module>>,
    functions: Mutex<HashMap<&'static str, Function>>,
    staging: Mutex<Staging>,
    name: String,
    /// Compute capability: 90 means 9.0.
    capability: u32,
    /// CUDA version of the driver: 12030 means 12.3.
    version: u32,
    max_shared: u32,
    multiprocessors: u32,
}
struct Module {
    module: sys::CUmodule,
    entries: Arc<Entries>,
}
#[derive(Clone, Copy)]
struct Function {
    function: sys::CUfunction,
    /// From the spec that it was looked up for.
    param_bytes: &'static [usize],
    image: Option<&'static Image>,
}
impl Function {
    fn is_of(&self, spec: &KernelSpec) -> bool {
        self.param_bytes == spec.param_bytes
            && self.image.map(std::ptr::from_ref) == spec.image.map(std::ptr::from_ref)
    }
}
// SAFETY: driver handles may be used from any thread; the context is made current first.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Send for Function {}

pub(super) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}
pub(super) fn text(e: DriverError) -> String {
    let said = |function, ask: fn(&DriverError) -> std::result::Result<&CStr, DriverError>| {
        let text = library::has(function).then(|| ask(&e))?.ok()?;
        Some(text.to_string_lossy().into_owned())
    };
    let name = said("cuGetErrorName", DriverError::error_name);
    let name = name.unwrap_or_else(|| format!("{:?}", e.0));
    match said("cuGetErrorString", DriverError::error_string) {
        Some(what) => format!("{name}: {what}"),
        None => name,
    }
}
pub(super) fn driver(call: &'static str) -> impl FnOnce(DriverError) -> Error {
    move |e| Error::Driver { call, message: text(e) }
}

/// Returns the name of a device.
fn name_of(device: sys::CUdevice) -> Result<String> {
    let mut name = [0u8; 256];
    // SAFETY: writes at most the given number of bytes, after which one is zero.
    unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32 - 1, device) }
        .result()
        .map_err(driver("cuDeviceGetName"))?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

/// Options of a GPU device.
///
/// ```
/// use koel::{Device, device::CudaOptions};
///
/// // Makes the driver compile each kernel.
/// let options = CudaOptions::default().with_machine_code(false);
/// match Device::cuda_with(0, options) {
///     Ok(device) => println!("{}", device.name()),
///     Err(e) => println!("no GPU: {e}"),
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaOptions {
    /// Uses this build's machine code where there is some for the GPU. Otherwise the driver
    /// compiles each kernel at its first launch, as it does on GPUs without machine code.
    pub machine_code: bool,
}
impl Default for CudaOptions {
    fn default() -> Self {
        CudaOptions { machine_code: true }
    }
}
crate::options::setters! { CudaOptions:
    machine_code by with_machine_code: bool;
}

/// Minimum compute capability of koel's kernels: 7.5, any GPU since 2018.
const MIN_CAPABILITY: u32 = 75;
/// Bytes allocated and freed when a device is opened. The first allocation of a process creates the
/// driver's pool, which takes 8 ms on an H200 and would otherwise slow the first build.
const FIRST_ALLOCATION: usize = 1 << 20;

/// Loads the driver. Returns the number of its devices.
pub(super) fn count() -> Result<usize> {
    library::require(&["cuInit"])?;
    match result::init() {
        Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        Err(e) => {
            return Err(Error::NoDriver { reason: format!("cuInit failed: {}", text(e)) });
        }
        Ok(()) => {}
    }
    library::require(library::DEVICES)?;
    let count = result::device::get_count().map_err(driver("cuDeviceGetCount"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

impl Cuda {
    pub(super) fn new(ordinal: usize, options: CudaOptions) -> Result<Cuda> {
        let count = count()?;
        if ordinal >= count {
            return Err(Error::NoSuchDevice { ordinal, count });
        }
        let mut version = 0;
        // SAFETY: writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }
            .result()
            .map_err(driver("cuDriverGetVersion"))?;
        if version < 11080 {
            let (found_major, found_minor) = (version as u32 / 1000, version as u32 % 1000 / 10);
            return Err(Error::DriverTooOld { found_major, found_minor });
        }
        let device = result::device::get(ordinal as i32).map_err(driver("cuDeviceGet"))?;
        let name = name_of(device)?;
        let attribute = |a| {
            // SAFETY: `device` is valid.
            unsafe { result::device::get_attribute(device, a) }
                .map_err(driver("cuDeviceGetAttribute"))
        };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32;
        let capability = major * 10 + minor;
        if capability < MIN_CAPABILITY {
            return Err(Error::DeviceTooOld {
                device: name,
                found_major: major,
                found_minor: minor,
            });
        }
        let max_shared =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u32;
        let multiprocessors =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        // SAFETY: `device` is valid; released when the last handle is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(driver("cuDevicePrimaryCtxRetain"))?;
        // After the driver has had its say. The context stays retained if it lacks functions: one
        // of them may be that which releases it.
        library::require(library::REST)?;
        let this = Context {
            device,
            context,
            images: Images::new(&name, capability, options.machine_code),
            modules: Mutex::default(),
            functions: Mutex::default(),
            staging: Mutex::default(),
            name,
            capability,
            version: version as u32,
            max_shared,
            multiprocessors,
        };
        this.bind()?;
        // Freed memory stays in the pool: allocating again costs no driver work.
        // SAFETY: the pool is the device's own; the attribute is a u64.
        unsafe {
            let pool = result::device::get_default_mem_pool(device)
                .map_err(driver("cuDeviceGetDefaultMemPool"))?;
            let mut keep = u64::MAX;
            let attribute = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast())
                .result()
                .map_err(driver("cuMemPoolSetAttribute"))?;
        }
        let cuda = Cuda(Arc::new(this));
        // A failure here does not matter: later allocations report it.
        drop(cuda.alloc(FIRST_ALLOCATION));
        Ok(cuda)
    }
    pub(super) fn name(&self) -> &str {
        &self.0.name
    }
    /// Returns the compute capability: 90 means 9.0.
    pub(super) fn capability(&self) -> u32 {
        self.0.capability
    }
    /// Loads the kernels of another crate, whose names are all new.
    pub(super) fn load(&self, ptx: &str, entries: Arc<Entries>) -> Result<()> {
        self.0.bind()?;
        let module = load(ptx)?;
        lock(&self.0.modules).push(Module { module, entries });
        Ok(())
    }
    pub(super) fn max_shared(&self) -> u32 {
        self.0.max_shared
    }
    pub(super) fn multiprocessors(&self) -> u32 {
        self.0.multiprocessors
    }
    /// Returns free and total memory in bytes.
    pub(super) fn memory(&self) -> Result<(usize, usize)> {
        self.0.bind()?;
        result::mem_get_info().map_err(driver("cuMemGetInfo"))
    }
    pub(super) fn stream(&self, kind: StreamKind) -> Result<CudaStream> {
        self.0.bind()?;
        let blocks = matches!(kind, StreamKind::Default);
        let stream = result::stream::create(kind).map_err(driver("cuStreamCreate"))?;
        Ok(CudaStream::of(self, stream, blocks, true))
    }
    pub(super) fn context(&self) -> sys::CUcontext {
        self.0.context
    }
    /// Wraps a stream that another library owns.
    ///
    /// # Safety
    /// `stream` is a stream, and outlives the result.
    pub(super) unsafe fn borrow_stream(&self, stream: sys::CUstream) -> Result<CudaStream> {
        self.0.bind()?;
        match stream.addr() {
            // The legacy default stream has two names.
            0 | 1 => return Ok(CudaStream::of(self, LEGACY, true, false)),
            2 => {
                return Err(Error::Setting {
                    field: "stream",
                    found: "a per-thread default stream, which differs from thread to thread"
                        .into(),
                    expected: "a stream that all threads share".into(),
                });
            }
            _ => {}
        }
        let (mut context, mut flags) = (std::ptr::null_mut(), 0);
        // SAFETY: a stream, by the caller's promise; each call writes one value.
        unsafe {
            sys::cuStreamGetCtx(stream, &mut context).result().map_err(driver("cuStreamGetCtx"))?;
            sys::cuStreamGetFlags(stream, &mut flags)
                .result()
                .map_err(driver("cuStreamGetFlags"))?;
        }
        if context != self.0.context {
            let (found, expected) =
                ("another context".into(), format!("the primary context of {}", self.0.name));
            return Err(Error::WrongDevice { name: "the stream", found, expected });
        }
        Ok(CudaStream::of(self, stream, flags & NON_BLOCKING == 0, false))
    }
    fn event(&self, flags: sys::CUevent_flags) -> Result<CudaEvent> {
        let event = result::event::create(flags).map_err(driver("cuEventCreate"))?;
        Ok(CudaEvent { event, cuda: self.clone() })
    }
    pub(super) fn alloc(&self, bytes: usize) -> Result<CudaMemory> {
        if is_to_fail() {
            return Err(Error::OutOfMemory { device: self.0.name.clone(), asked: bytes, free: 0 });
        }
        self.0.bind()?;
        // SAFETY: a plain allocation, freed once, on the stream it came from.
        let alloc = || unsafe { result::malloc_async(LEGACY, bytes.max(1)) };
        let address = alloc().or_else(|_| {
            // Free blocks of other sizes in the pool may be in the way.
            // SAFETY: the pool is the device's own; trimming frees unused memory only.
            unsafe {
                let _ = result::stream::synchronize(LEGACY);
                if let Ok(pool) = result::device::get_default_mem_pool(self.0.device) {
                    let _ = result::mem_pool::trim_to(pool, 0);
                }
            }
            alloc()
        });
        address.map(|address| CudaMemory { address, cuda: self.clone() }).map_err(|e| {
            let (free, total) = result::mem_get_info().unwrap_or_default();
            // Drivers report other errors for absurd sizes.
            if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY || bytes > total {
                return Error::OutOfMemory { device: self.0.name.clone(), asked: bytes, free };
            }
            driver("cuMemAllocAsync")(e)
        })
    }
    /// Waits for `after`, then copies: initialises all of `to`.
    ///
    /// # Safety
    /// `from` is `to.len()` bytes of a live buffer.
    pub(super) unsafe fn copy_to_host(
        &self,
        from: u64,
        to: &mut [MaybeUninit<u8>],
        after: Option<&CudaStream>,
    ) -> Result<()> {
        let bytes = to.len();
        // A copy of a few words allocates nothing.
        if bytes >= MIN_BYTES {
            let pieces = pieces_of(to);
            let parts = pieces.split(&mut *to)?;
            let take = |i: usize, [piece]: [&[u8]; 1]| {
                parts.take(i).write_copy_of_slice(piece);
            };
            let column = Column { address: from, size: 1 };
            // SAFETY: guaranteed by the caller.
            if let Some(copied) = unsafe { self.download([column], pieces, after, &take) } {
                return copied;
            }
        }
        if let Some(stream) = after {
            stream.synchronize()?;
        }
        self.0.bind()?;
        // SAFETY: both are valid for this many bytes.
        unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from, bytes) }
            .result()
            .map_err(driver("cuMemcpyDtoH"))
    }
    /// Copies on the legacy default stream; the source is free on return. The caller ensures that
    /// nothing else uses `to` before it has waited for that stream.
    ///
    /// # Safety
    /// `to` is `from.len()` bytes of a live buffer.
    pub(super) unsafe fn copy_from_host(&self, to: u64, from: &[u8]) -> Result<()> {
        // SAFETY: by the caller's promise.
        if let Some(copied) = unsafe { self.upload(to, from) } {
            return copied;
        }
        self.0.bind()?;
        // SAFETY: by the caller's promise.
        unsafe { result::memcpy_htod_sync(to, from) }.map_err(driver("cuMemcpyHtoD"))
    }
    /// Waits for the legacy default stream.
    pub(super) fn synchronize_legacy(&self) -> Result<()> {
        self.0.bind()?;
        // SAFETY: this stream always exists.
        unsafe { result::stream::synchronize(LEGACY) }.map_err(driver("cuStreamSynchronize"))
    }
}

impl Context {
    fn bind(&self) -> Result<()> {
        // SAFETY: retained until this is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(driver("cuCtxSetCurrent"))
    }
    /// Returns the function of a kernel, allowed to use all shared memory: from its image, or else
    /// from the PTX of another crate.
    fn function(&self, spec: &KernelSpec) -> Result<sys::CUfunction> {
        if let Some(f) = lock(&self.functions).get(spec.name)
            && f.is_of(spec)
        {
            return Ok(f.function);
        }
        let module = match spec.image {
            Some(image) => self.images.module(image, spec.name)?,
            None => {
                let modules = lock(&self.modules);
                let found =
                    modules.iter().find_map(|m| Some((m.module, m.entries.get(spec.name)?)));
                let (module, entry) = found.ok_or(Error::UnknownKernel { kernel: spec.name })?;
                entry.check(spec)?;
                module
            }
        };
        let name = CString::new(spec.name)
            .map_err(|e| Error::Driver { call: "cuModuleGetFunction", message: e.to_string() })?;
        // SAFETY: the module is loaded.
        let function =
            unsafe { result::module::get_function(module, name) }.map_err(|e| Error::Driver {
                call: "cuModuleGetFunction",
                message: format!("kernel `{}`: {}", spec.name, text(e)),
            })?;
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of the module.
        unsafe {
            result::function::set_function_attribute(function, attribute, self.max_shared as i32)
        }
        .map_err(driver("cuFuncSetAttribute"))?;
        let found = Function { function, param_bytes: spec.param_bytes, image: spec.image };
        lock(&self.functions).insert(spec.name, found);
        Ok(function)
    }
}
impl Drop for Context {
    fn drop(&mut self) {
        // Errors here mean that the context is already lost.
        let _ = self.bind();
        // SAFETY: the modules have no users left: streams and memory keep the context alive.
        unsafe {
            lock(&self.staging).free();
            self.images.unload();
            for module in lock(&self.modules).drain(..) {
                let _ = result::module::unload(module.module);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

pub(super) struct CudaMemory {
    pub address: u64,
    cuda: Cuda,
}
impl CudaMemory {
    /// Takes ownership of an allocation, which is then freed like koel's own.
    pub(super) fn adopt(cuda: &Cuda, address: u64) -> CudaMemory {
        CudaMemory { address, cuda: cuda.clone() }
    }
    /// Releases the memory to the caller, who must free it.
    pub(super) fn release(mut self) -> u64 {
        std::mem::take(&mut self.address)
    }
}
impl Drop for CudaMemory {
    fn drop(&mut self) {
        if self.address == 0 {
            return; // released
        }
        let _ = self.cuda.0.bind();
        // SAFETY: allocated by `alloc`; the legacy stream waits for every blocking stream.
        let _ = unsafe { result::free_async(self.address, LEGACY) };
    }
}

/// An executable graph.
pub(super) struct CudaGraph {
    exec: sys::CUgraphExec,
    cuda: Cuda,
    /// Its last kernels, latest first.
    launched: Vec<&'static str>,
}
// SAFETY: driver handles may be used from any thread; launches take the graph by `&mut`.
unsafe impl Send for CudaGraph {}
impl Drop for CudaGraph {
    fn drop(&mut self) {
        let _ = self.cuda.0.bind();
        // SAFETY: instantiated by `end_capture`; the driver keeps it until its launches have run.
        let _ = unsafe { result::graph::exec_destroy(self.exec) };
    }
}

pub(super) struct CudaEvent {
    event: sys::CUevent,
    cuda: Cuda,
}
// SAFETY: driver handles may be used from any thread; the context is made current first.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}
impl CudaEvent {
    pub(super) fn seconds_since(&self, start: &CudaEvent) -> Result<f64> {
        self.cuda.0.bind()?;
        // SAFETY: both are alive.
        unsafe {
            result::event::synchronize(self.event).map_err(driver("cuEventSynchronize"))?;
            Ok(result::event::elapsed(start.event, self.event)
                .map_err(driver("cuEventElapsedTime"))? as f64
                / 1e3)
        }
    }
}
impl Drop for CudaEvent {
    fn drop(&mut self) {
        let _ = self.cuda.0.bind();
        // SAFETY: created by `record`.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}
