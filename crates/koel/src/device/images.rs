//! The GPU code of kernels that belong to an image: koel's, and those of other crates. A family is
//! loaded when its first kernel is launched.
//!
//! Machine code for the device's chip loads in under a millisecond. A chip without machine code, or
//! a driver that refuses it, gets PTX, which the driver compiles: about 0.1 s per kernel, so each
//! kernel is compiled at its first launch. Threads would not help, because the driver compiles one
//! module at a time (17 map kernels took 1.5 s on one thread of an H200's host, 1.6 to 2.0 s on 2
//! to 16).
use super::cuda::{driver, lock, text};
use crate::error::{Error, Result};
use cudarc::driver::{DriverError, result, sys};
use koel_simt::{CodeKind, Image};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

/// What a context has loaded of each image.
pub(super) struct Images {
    device: String,
    capability: u32,
    /// Whether machine code may be used.
    machine_code: bool,
    /// Families by the image's address.
    families: Mutex<HashMap<usize, Arc<Mutex<Family>>>>,
}
#[derive(Default)]
enum Family {
    #[default]
    NotLoaded,
    Machine(sys::CUmodule),
    Ptx(Compiled),
}
// SAFETY: driver handles may be used from any thread; the context is made current first.
unsafe impl Send for Family {}

/// A family in PTX, with the kernels compiled so far.
struct Compiled {
    text: String,
    modules: HashMap<&'static str, sys::CUmodule>,
}
impl Compiled {
    /// Returns the text of a module that contains this kernel only.
    fn module_of(&self, kernel: &str) -> Option<String> {
        const ENTRY: &str = ".visible .entry ";
        let header = &self.text[..self.text.find(ENTRY)?];
        let from = self.text.find(&format!("{ENTRY}{kernel}("))?;
        let to = self.text[from + 1..].find(ENTRY).map_or(self.text.len(), |end| from + 1 + end);
        Some([header, &self.text[from..to]].concat())
    }
}

impl Images {
    pub(super) fn new(device: &str, capability: u32, machine_code: bool) -> Images {
        Images { device: device.into(), capability, machine_code, families: Mutex::default() }
    }
    /// Returns the module of this kernel, loading it if necessary. The context is current.
    pub(super) fn module(
        &self,
        image: &'static Image,
        kernel: &'static str,
    ) -> Result<sys::CUmodule> {
        let family =
            lock(&self.families).entry(std::ptr::from_ref(image).addr()).or_default().clone();
        let mut family = lock(&family);
        if let Family::NotLoaded = *family {
            *family = self.load_family(image)?;
        }
        match &mut *family {
            Family::NotLoaded => unreachable!("it was loaded just now"),
            Family::Machine(module) => Ok(*module),
            Family::Ptx(compiled) => {
                if let Some(module) = compiled.modules.get(kernel) {
                    return Ok(*module);
                }
                let text = compiled.module_of(kernel).ok_or(Error::UnknownKernel { kernel })?;
                tracing::info!("the driver compiles kernel `{kernel}`");
                let module = load(&text)?;
                compiled.modules.insert(kernel, module);
                Ok(module)
            }
        }
    }
    fn load_family(&self, image: &'static Image) -> Result<Family> {
        let broken = |e: koel_simt::ImageError| Error::Driver {
            call: "cuModuleLoadData",
            message: e.to_string(),
        };
        if self.machine_code
            && let Some((_, code)) =
                image.code(CodeKind::Machine, self.capability).map_err(broken)?
        {
            match load_machine_code(&code) {
                Ok(module) => return Ok(Family::Machine(module)),
                Err(e) if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    return Err(driver("cuModuleLoadData")(e));
                }
                Err(e) => tracing::warn!(
                    "the driver refuses the machine code of the kernel family `{}` \
                     and compiles its PTX: {}",
                    image.name,
                    text(e)
                ),
            }
        }
        let (_, ptx) =
            image.code(CodeKind::Ptx, self.capability).map_err(broken)?.ok_or_else(|| {
                Error::NoCode {
                    family: image.name,
                    device: self.device.clone(),
                    capability: self.capability,
                }
            })?;
        let text = String::from_utf8(ptx).map_err(|e| Error::Driver {
            call: "cuModuleLoadData",
            message: format!("`{}`: {e}", image.name),
        })?;
        Ok(Family::Ptx(Compiled { text, modules: HashMap::new() }))
    }
    /// Unloads all modules. The context is current, and nothing uses them any more.
    pub(super) fn unload(&self) {
        for family in lock(&self.families).drain().map(|(_, family)| family) {
            match std::mem::take(&mut *lock(&family)) {
                Family::NotLoaded => {}
                Family::Machine(module) => {
                    // SAFETY: loaded by `module`, and unused, as the caller ensures.
                    let _ = unsafe { result::module::unload(module) };
                }
                Family::Ptx(compiled) => {
                    for module in compiled.modules.into_values() {
                        // SAFETY: as above.
                        let _ = unsafe { result::module::unload(module) };
                    }
                }
            }
        }
    }
}

/// Passes PTX to the driver, which compiles it. A context is current.
pub(super) fn load(ptx: &str) -> Result<sys::CUmodule> {
    let image = CString::new(ptx)
        .map_err(|e| Error::Driver { call: "cuModuleLoadData", message: e.to_string() })?;
    // SAFETY: a zero-terminated string.
    relaxed(|| unsafe { result::module::load_data(image.as_ptr().cast()) })
        .map_err(driver("cuModuleLoadData"))
}
fn load_machine_code(code: &[u8]) -> std::result::Result<sys::CUmodule, DriverError> {
    // SAFETY: a whole cubin, which encodes its own length.
    relaxed(|| unsafe { result::module::load_data(code.as_ptr().cast()) })
}
/// Runs `load` in relaxed capture mode: streams may be capturing, on this thread (the launch that
/// needs the kernel may be recorded) or on others, and loading does not concern any capture.
fn relaxed<R>(load: impl FnOnce() -> R) -> R {
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: exchanges this thread's mode with the one at the address. An error leaves both
    // unchanged.
    let exchange = |mode: &mut sys::CUstreamCaptureMode| unsafe {
        sys::cuThreadExchangeStreamCaptureMode(mode)
    };
    let exchanged = exchange(&mut mode).result().is_ok();
    let loaded = load();
    if exchanged {
        let _ = exchange(&mut mode);
    }
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_one_kernel() {
        let text =
            ".version 7.8\n.visible .entry a(\n)\n{\n}\n.visible .entry ab(\n)\n{\nret;\n}\n"
                .to_string();
        let compiled = Compiled { text, modules: HashMap::new() };
        assert_eq!(
            compiled.module_of("a").as_deref(),
            Some(".version 7.8\n.visible .entry a(\n)\n{\n}\n")
        );
        assert_eq!(
            compiled.module_of("ab").as_deref(),
            Some(".version 7.8\n.visible .entry ab(\n)\n{\nret;\n}\n")
        );
        assert_eq!(compiled.module_of("b"), None);
    }
}
