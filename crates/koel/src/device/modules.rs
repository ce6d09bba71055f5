//! Kernels of other crates, launched through streams like koel's own.
#[cfg(feature = "cuda")]
use super::Backing;
use super::Device;
use crate::error::{Error, Result};
#[cfg(feature = "cuda")]
use koel_simt::KernelSpec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A loaded module: its text, and its entries by name.
pub(super) struct Module {
    text: String,
    entries: Arc<Entries>,
}
pub(super) type Entries = BTreeMap<String, Entry>;
/// What PTX declares about an entry, for launches.
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a GPU launches by the PTX"))]
pub(super) struct Entry {
    /// Size of each parameter, in bytes.
    params: Vec<usize>,
    /// Threads per block.
    threads: Option<u32>,
}
#[cfg(feature = "cuda")]
impl Entry {
    /// Fails if a launch by `spec` does not match the entry.
    pub(super) fn check(&self, spec: &KernelSpec) -> Result<()> {
        if self.params == spec.param_bytes
            && self.threads.is_none_or(|threads| threads == spec.threads)
        {
            return Ok(());
        }
        Err(mismatch(spec, &self.params, self.threads))
    }
}
#[cfg(feature = "cuda")]
fn mismatch(spec: &KernelSpec, params: &[usize], threads: Option<u32>) -> Error {
    let words = |params: &[usize], threads: Option<u32>| {
        let blocks = threads.map_or(String::new(), |t| format!(", blocks of {t} threads"));
        format!("parameters of {params:?} bytes{blocks}")
    };
    Error::KernelMismatch {
        kernel: spec.name,
        found: words(params, threads),
        expected: words(spec.param_bytes, Some(spec.threads)),
    }
}

/// Parses the entries of PTX.
fn parse(text: &str) -> Option<Entries> {
    let size = |line: &str| match line {
        _ if line.contains(".b8 ") => line.split(['[', ']']).nth(1)?.parse().ok(),
        _ if line.contains(".u64 ") || line.contains(".b64 ") => Some(8),
        _ if line.contains(".u32 ") || line.contains(".b32 ") => Some(4),
        _ => None,
    };
    let entry = |text: &str| {
        let (name, rest) = text.split_once('(')?;
        let (params, rest) = rest.split_once(')')?;
        let params =
            params.lines().filter(|l| l.contains(".param")).map(size).collect::<Option<_>>()?;
        let bounds =
            rest.split('{').next()?.lines().find_map(|l| l.trim().strip_prefix(".maxntid"));
        let threads = bounds.and_then(|l| l.split(',').next()).and_then(|n| n.trim().parse().ok());
        Some((name.trim().to_string(), Entry { params, threads }))
    };
    text.split(".visible .entry ")
        .skip(1)
        .map(entry)
        .collect::<Option<Entries>>()
        .filter(|e| !e.is_empty())
}

impl Device {
    /// Loads kernels of another crate: `(compute capability, PTX)`, as `cargo xtask ptx --crate`
    /// makes them. Selects the newest that the device can run (90 means 9.0).
    ///
    /// From then on `#[kernel]` functions of that crate can be launched on the device's streams. On
    /// a GPU the driver compiles the PTX now, and caches it on disk. Other devices run the same
    /// functions as host code, and only check the names; they need no call. Loading the same text
    /// again does nothing.
    ///
    /// Errors: a kernel name that another module has; PTX for newer devices only; text that is not
    /// PTX. A launch fails if the PTX and the launching code come from different sources:
    /// parameters or block size differ.
    pub fn load_kernels(&self, ptx: &[(u32, &str)]) -> Result<()> {
        let least = ptx.iter().map(|(capability, _)| *capability).min().unwrap_or(0);
        let newest = |limit: u32| {
            ptx.iter().filter(|(c, _)| *c <= limit).max_by_key(|(c, _)| *c).map(|(_, text)| *text)
        };
        let capability = match &self.0.backing {
            #[cfg(feature = "cuda")]
            Backing::Cuda(cuda) => cuda.capability(),
            _ => u32::MAX,
        };
        let text = newest(capability).ok_or_else(|| Error::NoPtx {
            device: self.name(),
            capability,
            least,
        })?;
        let mut modules = self.0.modules.lock().unwrap_or_else(|e| e.into_inner());
        if modules.iter().any(|m| m.text == text) {
            return Ok(());
        }
        let entries = parse(text).ok_or_else(|| Error::Setting {
            field: "ptx",
            found: format!("{} bytes of other text", text.len()),
            expected:
                "PTX with entries whose parameters are plain numbers, addresses or structs of them"
                    .into(),
        })?;
        let entries = Arc::new(entries);
        let taken = |name: &&String| modules.iter().any(|m| m.entries.contains_key(*name));
        if let Some(kernel) = entries.keys().find(taken) {
            return Err(Error::KernelExists { kernel: kernel.clone() });
        }
        #[cfg(feature = "cuda")]
        if let Backing::Cuda(cuda) = &self.0.backing {
            cuda.load(text, entries.clone())?;
        }
        modules.push(Module { text: text.into(), entries });
        Ok(())
    }
}
