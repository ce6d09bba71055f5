//! The machine that rates are measured on.
use koel::{Device, DeviceKind};
use serde::Serialize;

/// Description that distinguishes machines.
#[derive(Serialize)]
pub(crate) struct Machine {
    /// Name of the selected device.
    pub device: String,
    /// cpu or cuda.
    pub kind: &'static str,
    /// Name of the processor.
    pub cpu: Option<String>,
    /// Number of CPU threads in use.
    pub threads: usize,
    /// Host memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Device memory, in bytes, if the device has its own.
    pub device_memory_bytes: Option<usize>,
    pub os: &'static str,
    pub arch: &'static str,
    /// Why the CPU, or a GPU other than the first, is used, if the first GPU was wanted.
    pub fallback: Option<String>,
    /// Version of koel.
    pub version: &'static str,
}
impl Machine {
    pub(crate) fn of(device: &Device, fallback: Option<String>) -> koel::Result<Machine> {
        Ok(Machine {
            device: device.name(),
            kind: if device.kind() == DeviceKind::Cuda { "cuda" } else { "cpu" },
            cpu: field("/proc/cpuinfo", "model name"),
            threads: rayon::current_num_threads(),
            memory_bytes: memory("MemTotal"),
            device_memory_bytes: device.memory()?.map(|(_, all)| all),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            fallback,
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}

/// Returns the available host memory in bytes, if the system reports it.
pub(crate) fn available_memory() -> Option<u64> {
    memory("MemAvailable")
}

fn memory(name: &str) -> Option<u64> {
    let kilobytes = field("/proc/meminfo", name)?;
    kilobytes.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}
/// Returns the first `name : value` in a file of the Linux kernel.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}
