//! What can go wrong, with the numbers.
use crate::file::FileError;
use koel_simt::Fault;

/// The result of koel's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no CUDA driver on this machine (or koel was built without the feature `cuda`).
    #[error("no CUDA driver: {reason}")]
    NoDriver {
        /// What was looked for.
        reason: String,
    },
    /// There is a driver, but no device of this number.
    #[error("no CUDA device {ordinal}: the driver lists {count}")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The driver cannot compile koel's PTX.
    #[error(
        "the CUDA driver is too old: it supports CUDA {found_major}.{found_minor}, koel's kernels need 11.8 or later"
    )]
    DriverTooOld {
        /// The CUDA version that the driver supports.
        found_major: u32,
        /// The CUDA version that the driver supports.
        found_minor: u32,
    },
    /// The device cannot run koel's PTX.
    #[error(
        "{device} has compute capability {found_major}.{found_minor}, koel's kernels need 7.5 or later"
    )]
    DeviceTooOld {
        /// The name of the device.
        device: String,
        /// Its compute capability.
        found_major: u32,
        /// Its compute capability.
        found_minor: u32,
    },
    /// An allocation failed. Nothing was changed.
    #[error("out of memory on {device}: {asked} bytes asked, {free} free")]
    OutOfMemory {
        /// The name of the device.
        device: String,
        /// Bytes asked for.
        asked: usize,
        /// Bytes free at that moment; 0 where that is not known.
        free: usize,
    },
    /// A kernel ended with a fault: a bug in koel or in a user's kernel, or a device that broke.
    /// The device's context is lost.
    #[error("a kernel failed on {device}: {message} (launched last: {launched})")]
    KernelFault {
        /// The name of the device.
        device: String,
        /// What the driver says.
        message: String,
        /// The kernels launched last on this stream, the latest first.
        launched: String,
    },
    /// The test executor found a fault in a kernel.
    #[error(transparent)]
    Executor(#[from] Fault),
    /// Any other failure of a driver call.
    #[error("the CUDA driver failed in {call}: {message}")]
    Driver {
        /// What was being done.
        call: &'static str,
        /// What the driver says.
        message: String,
    },
    /// This build carries no code of a family of koel's kernels for the device.
    #[error(
        "this build carries no code of the kernels `{family}` for {device} (compute capability {}.{}): build koel with \
         the feature `cuda`",
        capability / 10,
        capability % 10
    )]
    NoCode {
        /// The family of kernels.
        family: &'static str,
        /// The name of the device.
        device: String,
        /// Its compute capability: 90 is 9.0.
        capability: u32,
    },
    /// None of the PTX that was given is for the device.
    #[error("{device} has compute capability {}.{}, the PTX needs {}.{} or later", capability / 10, capability % 10, least / 10, least % 10)]
    NoPtx {
        /// The name of the device.
        device: String,
        /// Its compute capability: 90 is 9.0.
        capability: u32,
        /// The least one that there is PTX for.
        least: u32,
    },
    /// Two kernels of one name on one device.
    #[error("a kernel called `{kernel}` is loaded already")]
    KernelExists {
        /// The name.
        kernel: String,
    },
    /// A kernel that is not koel's, and not loaded.
    #[error("kernel `{kernel}` is not loaded: `Device::load_kernels` takes the PTX of its crate")]
    UnknownKernel {
        /// The name.
        kernel: &'static str,
    },
    /// A kernel's PTX and the code that launches it are not of the same source.
    #[error(
        "kernel `{kernel}` has {found} in the PTX, {expected} in the launching code: build the PTX again"
    )]
    KernelMismatch {
        /// The name.
        kernel: &'static str,
        /// What the PTX says.
        found: String,
        /// What the launch would pass.
        expected: String,
    },
    /// Something that only a GPU has.
    #[error("{what} needs a CUDA device, {device} is none")]
    NotCuda {
        /// What was asked for.
        what: &'static str,
        /// The name of the device.
        device: String,
    },
    /// A kernel whose threads wait for each other cannot run on the CPU device.
    #[error(
        "kernel `{kernel}` uses barriers, warp operations or shared memory: the CPU device cannot run it"
    )]
    NotIndependent {
        /// The kernel.
        kernel: &'static str,
    },
    /// A launch that no device accepts.
    #[error(
        "kernel `{kernel}`: {asked} bytes of shared memory asked for a block, {device} has {limit}"
    )]
    SharedMemory {
        /// The kernel.
        kernel: &'static str,
        /// The name of the device.
        device: String,
        /// Bytes asked for.
        asked: u32,
        /// Bytes there are.
        limit: u32,
    },
    /// Something that cannot be part of a captured graph.
    #[error("{operation} cannot be part of a graph: {reason}")]
    Capture {
        /// What was asked for inside a capture.
        operation: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// A graph was launched that uses memory which is there no more.
    #[error("the graph uses a buffer of {bytes} bytes that was dropped since it was captured")]
    BufferDropped {
        /// Its size.
        bytes: usize,
    },
    /// Two buffers that must be equally long are not.
    #[error("`{name}` holds {found} elements, but `{other}` needs {expected}")]
    Length {
        /// The buffer that is too short or too long.
        name: &'static str,
        /// Its length.
        found: usize,
        /// What decides the length.
        other: &'static str,
        /// The length it must have.
        expected: usize,
    },
    /// More elements than 32-bit indices reach.
    #[error("{n} {what} are too many: at most {max}")]
    TooMany {
        /// Elements of what.
        what: &'static str,
        /// How many were given.
        n: usize,
        /// How many there may be.
        max: usize,
    },
    /// Buffers of different devices in one operation.
    #[error("`{name}` is on {found}, the operation runs on {expected}")]
    WrongDevice {
        /// The buffer.
        name: &'static str,
        /// Where it is.
        found: String,
        /// Where it should be.
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
    /// A setting outside its range.
    #[error("`{field}` is {found}, must be {expected}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// Memory gave back something else than was written to it.
    #[error("{device} read {found:#x} from memory where {expected:#x} was written")]
    WrongRead {
        /// The name of the device.
        device: String,
        /// What was read: a word, or the sum of many.
        found: u64,
        /// What was written.
        expected: u64,
    },
    /// Two pairs have the same key, and the policy is to reject that.
    #[error("key {key} occurs more than once: at {first} and at {second}")]
    DuplicateKey {
        /// The key.
        key: u128,
        /// The index of one pair that has it.
        first: usize,
        /// The index of another.
        second: usize,
    },
    /// Different 128-bit keys shared fingerprints in one draw of their function after the other.
    /// That is as good as impossible: rather, the device does not keep what is written to its
    /// memory.
    #[error("{attempts} draws of a fingerprint function did not tell all keys apart on {device}")]
    SharedFingerprints {
        /// Draws.
        attempts: u32,
        /// The name of the device.
        device: String,
    },
    /// A table file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// `found` must be `expected`.
pub(crate) fn check_length(
    name: &'static str,
    found: usize,
    other: &'static str,
    expected: usize,
) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, found, other, expected }) }
}

/// As a 32-bit count, for kernels that index by `u32`.
pub(crate) fn count32(what: &'static str, n: usize) -> Result<u32> {
    // A little below 2^32, so that rounding up to whole blocks does not wrap.
    const MAX: usize = u32::MAX as usize - (1 << 16);
    if n <= MAX { Ok(n as u32) } else { Err(Error::TooMany { what, n, max: MAX }) }
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
