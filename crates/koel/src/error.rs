//! The crate's error type. Messages carry the numbers.
use crate::file::error::FileError;
use crate::table::update::outcome::Outcome;
use koel_simt::Fault;

/// The result of koel's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a koel operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no CUDA driver on this machine (or koel was built without the feature `cuda`).
    #[error("no CUDA driver: {reason}")]
    NoDriver {
        /// What was searched for.
        reason: String,
    },
    /// The driver has no device with this number.
    #[error("no CUDA device {ordinal}: the driver lists {count}")]
    NoSuchDevice {
        /// The requested number.
        ordinal: usize,
        /// Number of devices.
        count: usize,
    },
    /// The driver cannot compile koel's PTX.
    #[error(
        "the CUDA driver is too old: it supports CUDA {found_major}.{found_minor}, \
         koel's kernels need 11.8 or later"
    )]
    DriverTooOld {
        /// Major CUDA version that the driver supports.
        found_major: u32,
        /// Minor CUDA version that the driver supports.
        found_minor: u32,
    },
    /// The device cannot run koel's PTX.
    #[error(
        "{device} has compute capability {found_major}.{found_minor}, \
         koel's kernels need 7.5 or later"
    )]
    DeviceTooOld {
        /// The name of the device.
        device: String,
        /// Major part of its compute capability.
        found_major: u32,
        /// Minor part of its compute capability.
        found_minor: u32,
    },
    /// An allocation failed. Nothing was changed; but after [`MapUpdater::apply`] and
    /// [`SetUpdater::apply`] see the outcomes.
    ///
    /// [`MapUpdater::apply`]: crate::MapUpdater::apply
    /// [`SetUpdater::apply`]: crate::SetUpdater::apply
    #[error("out of memory on {device}: {asked} bytes requested, {free} free")]
    OutOfMemory {
        /// The name of the device.
        device: String,
        /// Bytes requested.
        asked: usize,
        /// Bytes free at that moment; 0 if unknown.
        free: usize,
    },
    /// An allocation failed in the middle of a batch of operations from host memory, such as
    /// [`Map::insert`](crate::Map::insert): some are done.
    #[error(
        "{source}, when {} of {} operations were done: the error has their outcomes",
        outcomes.iter().filter(|&&outcome| outcome != Outcome::NotDone).count(),
        outcomes.len()
    )]
    PartlyDone {
        /// The outcome of each operation: [`NotDone`](Outcome::NotDone) for those to repeat.
        outcomes: Vec<Outcome>,
        /// The failed allocation.
        source: Box<Error>,
    },
    /// A kernel faulted: a bug in koel or in a user's kernel, or broken hardware. The device's
    /// context is lost.
    #[error("a kernel failed on {device}: {message} (last launches: {launched})")]
    KernelFault {
        /// The name of the device.
        device: String,
        /// The driver's message.
        message: String,
        /// The last kernels launched on this stream, latest first.
        launched: String,
    },
    /// The test executor found a fault in a kernel.
    #[error(transparent)]
    Executor(#[from] Fault),
    /// Any other failure of a driver call.
    #[error("the CUDA driver failed in {call}: {message}")]
    Driver {
        /// The failed call.
        call: &'static str,
        /// The driver's message.
        message: String,
    },
    /// This build has no code of a kernel family for the device.
    #[error(
        "this build has no code of the kernel family `{family}` for {device} \
         (compute capability {}.{}): build koel with the feature `cuda`",
        capability / 10,
        capability % 10
    )]
    NoCode {
        /// The kernel family.
        family: &'static str,
        /// The name of the device.
        device: String,
        /// Its compute capability: 90 means 9.0.
        capability: u32,
    },
    /// None of the given PTX runs on the device.
    #[error(
        "{device} has compute capability {}.{}, the PTX needs {}.{} or later",
        capability / 10,
        capability % 10,
        least / 10,
        least % 10
    )]
    NoPtx {
        /// The name of the device.
        device: String,
        /// Its compute capability: 90 means 9.0.
        capability: u32,
        /// Lowest compute capability among the given PTX.
        least: u32,
    },
    /// A kernel of this name is already loaded on the device.
    #[error("a kernel named `{kernel}` is already loaded")]
    KernelExists {
        /// The kernel's name.
        kernel: String,
    },
    /// A kernel of another crate that has not been loaded.
    #[error("kernel `{kernel}` is not loaded: load its crate's PTX with `Device::load_kernels`")]
    UnknownKernel {
        /// The kernel's name.
        kernel: &'static str,
    },
    /// A kernel's PTX and the launching code come from different sources.
    #[error(
        "kernel `{kernel}` has {found} in the PTX, {expected} in the launching code: \
         rebuild the PTX"
    )]
    KernelMismatch {
        /// The kernel's name.
        kernel: &'static str,
        /// Parameters and block size in the PTX.
        found: String,
        /// Parameters and block size of the launch.
        expected: String,
    },
    /// An operation that only a CUDA device supports.
    #[error("{what} needs a CUDA device, but {device} is not one")]
    NotCuda {
        /// The requested operation.
        what: &'static str,
        /// The name of the device.
        device: String,
    },
    /// A kernel whose threads wait for each other cannot run on the CPU device.
    #[error(
        "kernel `{kernel}` uses barriers, warp operations or shared memory: \
         the CPU device cannot run it"
    )]
    NotIndependent {
        /// The kernel's name.
        kernel: &'static str,
    },
    /// A launch with more shared memory than the device has.
    #[error(
        "kernel `{kernel}` requests {asked} bytes of shared memory per block, {device} has {limit}"
    )]
    SharedMemory {
        /// The kernel's name.
        kernel: &'static str,
        /// The name of the device.
        device: String,
        /// Bytes requested per block.
        asked: u32,
        /// Bytes available per block.
        limit: u32,
    },
    /// An operation that cannot be part of a captured graph.
    #[error("{operation} cannot be part of a graph: {reason}")]
    Capture {
        /// The operation called inside a capture.
        operation: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// A graph was launched that uses freed memory.
    #[error("the graph uses a buffer of {bytes} bytes that was dropped after the capture")]
    BufferDropped {
        /// Size of the buffer.
        bytes: usize,
    },
    /// Two buffers have different lengths but must have the same.
    #[error("`{name}` holds {found} elements, but `{other}` needs {expected}")]
    Length {
        /// The buffer of the wrong length.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The argument that determines the length.
        other: &'static str,
        /// The required length.
        expected: usize,
    },
    /// More elements than 32-bit indices address.
    #[error("{n} {what} are too many: at most {max}")]
    TooMany {
        /// What the elements are.
        what: &'static str,
        /// Number given.
        n: usize,
        /// Maximum number.
        max: usize,
    },
    /// Buffers of different devices in one operation.
    #[error("`{name}` is on {found}, the operation runs on {expected}")]
    WrongDevice {
        /// The buffer.
        name: &'static str,
        /// Its device.
        found: String,
        /// The device of the operation.
        expected: String,
    },
    /// A build found no room for its keys with any of the seeds that it tried.
    #[error("no room for the keys of the {table} in {attempts} attempts: build with a lower load")]
    BuildFailed {
        /// `map` or `set`.
        table: &'static str,
        /// How many seeds were tried.
        attempts: u32,
    },
    /// A setting is out of range.
    #[error("`{field}` is {found}, must be {expected}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// Its value.
        found: String,
        /// The allowed values.
        expected: String,
    },
    /// Memory returned something other than what was written to it.
    #[error("{device} read {found:#x} from memory where {expected:#x} was written")]
    WrongRead {
        /// The name of the device.
        device: String,
        /// What was read: a word, or the sum of many.
        found: u64,
        /// What was written.
        expected: u64,
    },
    /// Two pairs have the same key, and the policy rejects that.
    #[error("key {key} occurs more than once: at {first} and at {second}")]
    DuplicateKey {
        /// The key.
        key: u128,
        /// Index of one pair with this key.
        first: usize,
        /// Index of another.
        second: usize,
    },
    /// Two pairs have the same string as their key, and the policy rejects that.
    #[error("key {key:?} occurs more than once: at {first} and at {second}")]
    DuplicateString {
        /// The first forty letters of the key.
        key: String,
        /// Index of one pair with this key.
        first: usize,
        /// Index of another.
        second: usize,
    },
    /// Distinct keys of 128 bits, or strings, shared a fingerprint under every fingerprint function
    /// tried. The probability of that is negligible; the likely cause is memory that does not keep
    /// what is written to it.
    #[error("{attempts} fingerprint functions failed to tell all keys apart on {device}")]
    SharedFingerprints {
        /// Fingerprint functions tried.
        attempts: u32,
        /// The name of the device.
        device: String,
    },
    /// A table file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Returns the outcomes of a batch; if it failed, with those in the error unless nothing was done.
pub(crate) fn outcomes_or(outcomes: Vec<Outcome>, done: Result<()>) -> Result<Vec<Outcome>> {
    match done {
        Ok(()) => Ok(outcomes),
        Err(e) if outcomes.iter().all(|&outcome| outcome == Outcome::NotDone) => Err(e),
        Err(e) => Err(Error::PartlyDone { outcomes, source: Box::new(e) }),
    }
}
/// Checks that `found` equals `expected`.
pub(crate) fn check_length(
    name: &'static str,
    found: usize,
    other: &'static str,
    expected: usize,
) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, found, other, expected }) }
}

/// Converts to a 32-bit count, for kernels that index by `u32`.
pub(crate) fn count32(what: &'static str, n: usize) -> Result<u32> {
    // Slightly below 2^32, so that rounding up to whole blocks does not wrap.
    const MAX: usize = u32::MAX as usize - (1 << 16);
    if n <= MAX { Ok(n as u32) } else { Err(Error::TooMany { what, n, max: MAX }) }
}

/// Returns what was done. Panics with an error: for traits of the standard library that have no
/// place for one.
pub(crate) fn or_panic<T>(done: Result<T>) -> T {
    done.unwrap_or_else(|e| panic!("{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_32_bits_are_refused() {
        assert_eq!(count32("pairs", 5).unwrap(), 5);
        for n in [1 << 32, u32::MAX as usize, usize::MAX] {
            let e = count32("pairs", n).unwrap_err();
            assert_eq!(e.to_string(), format!("{n} pairs are too many: at most 4294901759"));
        }
    }
}
