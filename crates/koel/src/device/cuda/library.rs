//! The driver's library: whether it loads, and whether it has the functions that koel calls.
//!
//! cudarc looks a function up when it is first called, and panics if the library lacks it. So each
//! function is [required](require) before the first call of its group.
use crate::error::{Error, Result};
use libloading::Library;
use std::sync::OnceLock;

/// Functions that list the devices and open one.
pub(super) const DEVICES: &[&str] = &[
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
];
/// All other functions that koel calls, but for those that describe errors.
pub(super) const REST: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGetDefaultMemPool",
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernelEx",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamGetCtx",
    "cuStreamGetFlags",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
];

/// Loads the library, once per process. It stays loaded, so that cudarc, which searches for the
/// same names in the same order, finds it.
///
/// Errors: no such library; one that does not load, with the reason.
fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let mut reason = None;
    for name in ["cuda", "nvcuda"].iter().flat_map(|name| cudarc::get_lib_name_candidates(name)) {
        // SAFETY: the driver's library, whose initialisers are trusted.
        match unsafe { Library::new(&name) } {
            Ok(library) => return Ok(LIBRARY.get_or_init(|| library)),
            Err(e) => reason = reason.or_else(|| reason_if_there(&name, &e)),
        }
    }
    let reason = reason.unwrap_or_else(|| "the library libcuda was not found".into());
    Err(Error::NoDriver { reason })
}
/// Returns why a library was not loaded, if that is not because there is no such file.
fn reason_if_there(name: &str, e: &libloading::Error) -> Option<String> {
    let text = std::error::Error::source(e)?.to_string();
    let is_absent = cfg!(windows) || text.contains(name) && text.contains("No such file");
    (!is_absent).then_some(text)
}

/// Returns whether the library is loaded and has this function.
pub(super) fn has(function: &str) -> bool {
    // SAFETY: looks an address up, and calls nothing.
    library().is_ok_and(|library| unsafe { library.get::<*const ()>(function) }.is_ok())
}
/// Fails unless the library loads and has all of these functions.
pub(super) fn require(functions: &[&str]) -> Result<()> {
    library()?;
    match functions.iter().find(|function| !has(function)) {
        None => Ok(()),
        Some(function) => Err(Error::NoDriver { reason: format!("libcuda lacks {function}") }),
    }
}
