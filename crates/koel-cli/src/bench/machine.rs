//! The machine that rates are measured on.
use koel::{Device, DeviceKind};
use serde::Serialize;

/// Enough to tell two machines apart.
#[derive(Serialize)]
pub struct Machine {
    /// The device that was asked for.
    pub device: String,
    /// cpu or cuda.
    pub kind: &'static str,
    /// The processor's name.
    pub cpu: Option<String>,
    /// Threads of the CPU in use.
    pub threads: usize,
    /// Bytes of host memory.
    pub memory_bytes: Option<u64>,
    /// Bytes of the device's memory, if it has its own.
    pub device_memory_bytes: Option<usize>,
    pub os: &'static str,
    pub arch: &'static str,
    /// If a GPU was looked for and not found: why.
    pub fallback: Option<String>,
    /// Version of koel.
    pub version: &'static str,
}
impl Machine {
    pub fn of(device: &Device, fallback: Option<String>) -> koel::Result<Machine> {
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

/// Bytes of host memory that programs can still have, where the system says so.
pub fn available_memory() -> Option<u64> {
    memory("MemAvailable")
}

fn memory(name: &str) -> Option<u64> {
    let kilobytes = field("/proc/meminfo", name)?;
    kilobytes.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}
/// The first `name : value` of a file of the Linux kernel.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}
